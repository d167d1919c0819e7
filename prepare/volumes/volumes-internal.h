/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by the sources of named volumes. */

#include "prepare/volumes/volumes.h"

/* "volumes/NAME", in the store. */
int volume_path(const char *name, char **ret, Error *e);
/* -ENOENT, with the message. */
int volume_does_not_exist(const Store *s, const char *name, Error *e);
/* Sets the owner and then the mode of the directory FD. */
int volume_set_owner(const Store *s, int fd, uint32_t uid, uint32_t gid);
/* Limits what files below the empty directory DATA_FD may use; 0: no limit, nothing is done. -EOPNOTSUPP: the file
 * system cannot, or was not told to. */
int volume_quota_set(const Store *s, int data_fd, const char *name, uint64_t quota, Error *e);
bool volume_quota_is_exceeded(int data_fd);
/* Writes the file "meta" of a new volume to the directory. */
int volume_write_meta(int dir_fd, const NamedVolume *v);
