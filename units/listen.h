/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* listen.c: what the socket unit of a declared pod listens on. */

#include "stage0/declared/declared.h"

/* Adds ListenStream= and ListenDatagram= for the ports of the host at which Port= of [Pod] exposes ports that
 * SocketActivated= of an app names. -ENOMEM. */
int listen_add_ports(const Declared *d, Text *t);
