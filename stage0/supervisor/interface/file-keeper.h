/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* file-keeper.c: files of the pod that are replaced while it runs, such as its manifest. */

#include "library/libsystemd.h"
#include "prepare/prepare.h"

typedef struct FileKeeper FileKeeper;

/* What was given is on disk, or (R is negative, E says why) is not. */
typedef void (*FileKeeperFunction)(void *userdata, int r, const Error *e);

/* RECOVERED is called when the manifest was written after file_keeper_is_behind(), before functions that wait for it. */
int file_keeper_new(Pod *p, sd_event *event, void (*recovered)(void *userdata), void *userdata,
                    FileKeeper **ret);
/* The mount namespace of the host, lent, once this process has left it. */
void file_keeper_set_host(FileKeeper *k, int host_fd);
/* Does not wait for what is being written. NULL is fine. */
FileKeeper *file_keeper_free(FileKeeper *k);

/* TEXT, which is taken over, also on failure, is to be the content of the file PATH of the pod. It is written with the next
 * file_keeper_write(). */
int file_keeper_replace(FileKeeper *k, const char *path, char *text);
/* Syncs the file PATH of the pod as soon as possible. No call waits for it, and nothing reports a failure. */
void file_keeper_sync(FileKeeper *k, const char *path);
/* Calls pod_sync_run(), and FUNCTION once, unless this fails. -ESHUTDOWN: the pod has ended before that was done. */
int file_keeper_sync_run(FileKeeper *k, FileKeeperFunction function, void *userdata);
/* Writes the manifest and what was given so far, and calls FUNCTION once, unless this fails: perhaps before it returns. */
int file_keeper_write(FileKeeper *k, FileKeeperFunction function, void *userdata);
/* True if nothing is to be written and no call waits, whether or not files are synced; and the same call for what others have given
 * so far. */
bool file_keeper_is_idle(const FileKeeper *k);
int file_keeper_wait(FileKeeper *k, FileKeeperFunction function, void *userdata);
/* Waits for the disk where files are written, until all functions are called. */
void file_keeper_finish(FileKeeper *k);
/* Whether the last write has failed: the manifest on disk may be that of another moment. It is written again, some seconds later. */
bool file_keeper_is_behind(const FileKeeper *k);
