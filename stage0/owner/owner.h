/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* userns-owner.so, which is loaded into systemd-nspawn and sets the owner of the pod's user namespace. */

#define USERNS_OWNER_LIBRARY "userns-owner.so"
#define USERNS_OWNER_VARIABLE "ACNSPAWN_USERNS_OWNER" /* a user id of the host, in decimal */
