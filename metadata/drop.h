/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* drop.c: takes all rights from the service before it serves. */

#include "metadata/metadata.h"

/* A leak-checking build needs much address space, a helper thread and permission to inspect itself. */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* Drops irrevocably everything that the service does not need. CONNECTIONS is how many it will serve at
 * once. As root it becomes UID and GID, in namespaces of its own and with an empty file system for a root;
 * otherwise UID and GID must be what it is. */
int metadata_drop(uid_t uid, gid_t gid, unsigned connections, unsigned tasks, Error *e);
