/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files of prepare/store/ share. */

#include "prepare/store/store.h"

/* Both refuse a directory, PATH in messages, on a file system that cannot carry pods (file-system.c): this
 * one by its name alone. */
int file_system_check_name(int fd, const char *path, Error *e);
/* This one by trying, unless the store's file "file-system" says that it has been tried. IS_NEW: nothing of
 * a store is there yet, and nothing is left there. */
int file_system_check(int fd, const char *path, bool is_new, Error *e);
/* Writes that file. Failure does not matter: it is tried again. */
void file_system_note(int fd);
