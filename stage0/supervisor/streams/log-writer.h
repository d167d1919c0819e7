/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* log-writer.c: the process that writes the log file of an app, and the bounded queue to it. */

#include "library/libsystemd.h"
#include "stage0/supervisor/streams/log-file.h"

typedef struct LogWriter LogWriter;

/* What the process sends. */
typedef enum LogReplyKind {
        LOG_ANSWERED, /* to the message with NUMBER, and so to all before it; CODE: the file was not opened, TYPE: what it is */
        LOG_DROPPED, /* LINES with BYTES, because of CODE */
} LogReplyKind;

typedef struct LogReply {
        uint32_t kind, step, error, type; /* STEP is that of the message */
        int32_t code;
        uint64_t number, lines, bytes;
} LogReply;

typedef struct LogWriterOptions {
        sd_event *event;
        LogFileSettings settings; /* lent */
        /* The mount namespace of the host, lent; none: the current one is that of the host. It is read whenever a process is
         * started, also in place of one that was killed. */
        const MountNamespace *host;
        int after_fd; /* a process (pidfd), lent, whose end the new process waits for; negative: none. It may be blocked: not for long */
        /* From the event loop, and from functions that wait. None of them may free the writer. */
        void (*on_room)(void *userdata); /* log_writer_is_full() may have changed */
        void (*on_reply)(void *userdata, const LogReply *r);
        void (*on_lost)(void *userdata,
                        uint64_t bytes); /* the process was killed: so much was perhaps not written */
        /* The process has ended after log_writer_finish(). It may free the writer. */
        void (*on_end)(void *userdata);
        void *userdata;
} LogWriterOptions;

/* The first message, LOG_REOPEN, is sent by this, and its number is 1. */
int log_writer_new(const LogWriterOptions *o, LogWriter **ret);
/* Kills the process if it has not ended, and does not wait for it. NULL is fine. */
LogWriter *log_writer_free(LogWriter *w);
DEFINE_TRIVIAL_CLEANUP_FUNC(LogWriter *, log_writer_free);
/* Sends a message about a stream. Never blocks: what the process does not take is queued. */
void log_writer_add(LogWriter *w, const LogMessage *m, const void *data);
/* Sends a message that is answered, and returns its number. */
uint64_t log_writer_ask(LogWriter *w, LogMessage m);
bool log_writer_has_answered(const LogWriter *w, uint64_t number);
/* True if nothing should be added before on_room() is called. */
bool log_writer_is_full(const LogWriter *w);
/* Asks the process to answer when it has written what was added by now, if it was not asked yet. */
void log_writer_sync(LogWriter *w);
/* Waits until everything is written, or dropped, but not beyond DEADLINE (CLOCK_MONOTONIC, in microseconds). If it is not by then, the
 * file system is taken to hang, and this does not wait for it any more until the process sends something again. */
bool log_writer_settle(LogWriter *w, uint64_t deadline);
/* The same until the message NUMBER is answered. */
bool log_writer_wait(LogWriter *w, uint64_t number, uint64_t deadline);
/* Nothing is added any more. on_end() is called when the process has written everything and ended. True: there is no process, and
 * it is not called. */
bool log_writer_finish(LogWriter *w);
typedef enum LogEnd {
        LOG_ENDS,
        LOG_ENDED,    /* but on_end() was not called */
        LOG_GIVEN_UP, /* nothing was written for PATIENCE_USEC */
} LogEnd;
/* After that: waits for the end for a few milliseconds. */
LogEnd log_writer_wait_for_end(LogWriter *w, uint64_t patience_usec);
/* How many bytes were added that are neither written nor dropped, as far as is known. */
uint64_t log_writer_unwritten(const LogWriter *w);
/* How many messages with a number wait for their answers. */
uint64_t log_writer_unanswered(const LogWriter *w);
/* A pidfd of the process, lent; negative: there is none. */
int log_writer_process(const LogWriter *w);
/* 0: there is none. */
pid_t log_writer_pid(const LogWriter *w);
