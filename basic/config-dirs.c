/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The directories from which configuration is read, unless --config-dir= is given: that of the
 * administrator, then that of the installation. */

#include "basic/basic.h"
#include "config.h"

const char *const usual_config_dirs[] = {ACNSPAWN_SYSCONFDIR, ACNSPAWN_LIBEXECDIR, NULL};
