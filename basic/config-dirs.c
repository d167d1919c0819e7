/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Where configuration is read from, unless --config-dir= says otherwise: what the administrator has written,
 * then what was installed. */

#include "basic/basic.h"
#include "config.h"

const char *const usual_config_dirs[] = {ACNSPAWN_SYSCONFDIR, ACNSPAWN_LIBEXECDIR, NULL};
