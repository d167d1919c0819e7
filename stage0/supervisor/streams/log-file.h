/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* log-file.c: the log file of an app, in the process that writes it. log-format.c: its records. */

#include <time.h>

#include "basic/basic.h"
#include "schema/settings.h"

/* One stream of an app as records of its log file; see log-format.c. FORMAT and ERROR are set first, the rest
 * is zero. */
#define LOG_RECORD_MAX 16384U /* bytes of a record, with its newline */
typedef struct LogFormatter {
        int format; /* LogFormat */
        bool error; /* standard error */
        bool open;  /* the last record was a part of a line that is to go on */
        Text rest;  /* bytes of a line that no record was made of yet */
} LogFormatter;

/* Adds to OUT the records of DATA, which were written at NOW. */
void log_format_add(LogFormatter *f, const struct timespec *now, const char *data, size_t size, Text *out);
/* Adds text that has no newline so far, as a part of its line. */
void log_format_flush(LogFormatter *f, const struct timespec *now, Text *out);
/* The end of the line that was begun, if one was. */
void log_format_end(LogFormatter *f, const struct timespec *now, Text *out);
/* The stream has ended, perhaps within a line. */
void log_format_finish(LogFormatter *f, const struct timespec *now, Text *out);
/* How many lines end in the whole records RECORDS, and how many bytes of the app are in them. */
void log_format_count(int format, const char *records, size_t size, uint64_t *ret_lines,
                      uint64_t *ret_bytes);
/* Notes in LEFT_OPEN, for the stream of RECORD (without its newline), whether its line continues. */
void log_format_note_open(const char *record, size_t size, bool left_open[static 2]);
/* Whether the last of the whole records RECORDS is a part of a line that is to go on. */
bool log_format_is_open(int format, const char *records, size_t size);

#define LOG_DATA_MAX 65536U /* bytes of output in one message */

typedef enum LogStep {
        LOG_ADD,    /* output of a stream */
        LOG_FLUSH,  /* what is left of it, without a newline, becomes a record */
        LOG_END,    /* the stream has ended */
        LOG_REOPEN, /* opens the file anew by its path; the first time it is opened */
        LOG_SYNC,   /* nothing but the answer */
        _LOG_STEP_MAX,
} LogStep;

/* A message to the process that writes the file. It is followed by SIZE bytes of output. */
typedef struct LogMessage {
        uint32_t step, size;
        uint32_t stream;      /* a number that no other stream of the file has */
        uint32_t error;       /* whether that is standard error */
        struct timespec time; /* when the output was read */
        uint64_t number; /* 0: no answer is expected. Otherwise one more than that of the last message with a number */
} LogMessage;

typedef struct LogFile {
        LogFileSettings settings; /* lent */
        int fd;                   /* negative: it could not be opened */
        int open_error;           /* why */
        uint64_t limit;           /* bytes that it may have */
        bool torn;                /* it ends within a record */
        bool left_open[2];        /* an earlier execution did not end its last line on stdout, stderr */
        struct LogStream *streams;
        struct LogStream *last; /* the stream of the records in RECORDS */
        Text records;           /* about to be written, */
        size_t ours;            /* of which the first bytes are from acnspawn, not from the app */
        /* LINES with BYTES of the app, of standard error or standard output, could not be written: CODE is why. */
        void (*dropped)(void *userdata, bool error, uint64_t lines, uint64_t bytes, int code);
        void *userdata;
} LogFile;

#define LOG_FILE_NULL ((LogFile){.fd = -EBADF, .open_error = -EBADF})

/* Opens the file, or opens it anew. On failure it keeps the old one. -EBADF: it is no regular file, but of *RET_TYPE. */
int log_file_open(LogFile *l, mode_t *ret_type);
/* Converts that failure into an error about the log of APP. */
int log_file_error(const char *app, const char *path, int r, mode_t type, Error *e);
/* Takes a message about a stream, and its output. */
void log_file_take(LogFile *l, const LogMessage *m, const char *data);
/* Writes what was taken, as far as lines are known to be complete. */
void log_file_write(LogFile *l);
/* How many bytes were taken and are neither in the file nor dropped. */
size_t log_file_unwritten(const LogFile *l);
/* Ends all streams, and writes the rest. */
void log_file_done(LogFile *l);

/* Opens and closes the log file of APP in a child process, and waits for a few seconds at most. HOST is the mount namespace
 * where it is; none: the current one. */
int log_file_check(const char *app, const LogFileSettings *settings, const MountNamespace *host, Error *e);
