/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* buffered-writer.c: writes to a standard stream of this process, or a socket, without ever waiting for its reader. */

#include "basic/basic.h"
#include "library/libsystemd.h"

typedef struct BufferedWriter BufferedWriter;

/* FD stays the caller's. ROOM is called when a full writer has room again, and when its buffer is empty; it
 * may free the writer. */
int buffered_writer_new(sd_event *event, int fd, void (*room)(void *userdata), void *userdata,
                        BufferedWriter **ret);
BufferedWriter *buffered_writer_free(BufferedWriter *o);
DEFINE_TRIVIAL_CLEANUP_FUNC(BufferedWriter *, buffered_writer_free);
/* Data that cannot be written at once is buffered. Fails if there is no reader any more. */
int buffered_writer_write(BufferedWriter *o, const void *data, size_t size);
/* The same for HEAD with the data behind it, by one system call where that is possible. */
int buffered_writer_write_with_head(BufferedWriter *o, const void *head, size_t head_size, const void *data,
                                    size_t size);
/* Whether the buffer is so full that nothing should be added before ROOM is called. */
bool buffered_writer_is_full(const BufferedWriter *o);
bool buffered_writer_is_empty(const BufferedWriter *o);
bool buffered_writer_is_terminal(const BufferedWriter *o);
/* Writes the buffer. -ETIME: nothing could be written for that time; -1: waits without a limit. The end of
 * the operation (or NULL) ends the wait, too. */
int buffered_writer_finish(BufferedWriter *o, const Operation *operation, int timeout_msec);
