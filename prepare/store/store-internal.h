/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by the sources of prepare/store/. */

#include "prepare/store/store.h"

/* Both refuse a directory, PATH in messages, on a file system that is not suitable for pods (file-system.c):
 * this one by its type alone. */
int file_system_check_name(int fd, const char *path, Error *e);
/* This one by a test, unless the store's file "file-system" records one. IS_NEW: the store does not exist
 * yet, and nothing is left in the directory. */
int file_system_check(int fd, const char *path, bool is_new, Error *e);
/* Writes that file. Failure does not matter: the test is repeated. */
void file_system_note(int fd);
