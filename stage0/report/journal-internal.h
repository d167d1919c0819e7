/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by the sources of the journal reader: journal.c is the process that shows lines, journal-child.c
 * the one that reads files written by the pod, journal-records.c the records sent from one to the other. */

#include "stage0/report/report-internal.h"

/* A build with AddressSanitizer needs terabytes of address space. */
#if defined(__SANITIZE_ADDRESS__)
#define JOURNAL_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define JOURNAL_SANITIZED 1
#endif
#endif
#ifndef JOURNAL_SANITIZED
#define JOURNAL_SANITIZED 0
#endif

#define JOURNAL_FILES_MAX 512U         /* files per journal; journald keeps at most 256 */
#define JOURNAL_APP_MAX 255U           /* bytes of a name */
#define JOURNAL_MESSAGE_MAX (1U << 20) /* bytes of a line; journald splits at 48 KiB */

/* --- journal-files.c ----------------------------------------------------------------------------------- */

#define JOURNAL_DIRECTORIES_MAX 2U

typedef struct JournalFile {
        dev_t device;
        ino_t inode;
        char *name;   /* escaped for terminals */
        bool present; /* in its directory at the last scan */
} JournalFile;

/* The files of one journal. */
typedef struct JournalFiles {
        char *title; /* "journal of pod web" */
        bool of_host;
        int directories[JOURNAL_DIRECTORIES_MAX];
        size_t n_directories;
        int inotify_fd;
        JournalFile files[JOURNAL_FILES_MAX];
        size_t n_files;
        int new_fds[JOURNAL_FILES_MAX]; /* opened, but not yet passed to the reading process */
        size_t n_new;
        bool warned;
} JournalFiles;

#define JOURNAL_FILES_NULL ((JournalFiles){.inotify_fd = -EBADF})

/* Open the directories of a journal. -ENODATA: the host has no journal. */
int journal_files_open_pod(JournalFiles *f, const Pod *p, Error *e);
int journal_files_open_host(JournalFiles *f, Error *e);
/* Makes INOTIFY_FD report changes. To be called before the first scan, so that none is missed. */
int journal_files_watch(JournalFiles *f, Error *e);
/* Opens new files. */
int journal_files_scan(JournalFiles *f, Error *e);
void journal_files_close_new(JournalFiles *f);
void journal_files_done(JournalFiles *f);
const char *journal_files_name(const JournalFiles *f, uint64_t inode); /* NULL: there is no such file */
void journal_files_warn(const JournalFiles *f, const char *name, const char *why);

/* --- journal-records.c --------------------------------------------------------------------------------- */

typedef enum JournalRecordKind {
        JOURNAL_LINE,    /* APP, DATA, TIME_USEC and the flags */
        JOURNAL_IDLE,    /* no more data for now */
        JOURNAL_DAMAGED, /* the file INODE is left out; CODE says why */
        JOURNAL_FAILED,  /* reading has ended; CODE says why */
        _JOURNAL_RECORD_KIND_MAX,
} JournalRecordKind;

enum {
        JOURNAL_ERROR = 1 << 0,     /* came from standard error */
        JOURNAL_PARTIAL = 1 << 1,   /* has no newline */
        JOURNAL_NUL = 1 << 2,       /* ended with NUL */
        JOURNAL_CONTINUES = 1 << 3, /* the next record of the stream continues the line */
        _JOURNAL_FLAGS = (1 << 4) - 1,
};

typedef struct JournalRecord {
        JournalRecordKind kind;
        uint32_t flags;
        uint64_t time_usec;
        uint64_t inode;
        int32_t code; /* a negative errno */
        const char *app, *data;
        size_t app_size, data_size;
} JournalRecord;

void journal_record_add(Text *t, const JournalRecord *r);
/* Parses the record at the beginning of DATA; APP and DATA of *RET point into it. Returns its size; 0: it is
 * incomplete; -EBADMSG: it is malformed. */
ssize_t journal_record_parse(const char *data, size_t size, JournalRecord *ret);

/* --- journal-child.c ----------------------------------------------------------------------------------- */

#define JOURNAL_CHILD_SOCKET 3
#define JOURNAL_CHILD_FILES 4 /* the first of them */

/* Runs in a separate process, whose only descriptors are the socket, and N files from JOURNAL_CHILD_FILES
 * on. Sends records until the socket is closed. Each byte received means that files may have changed;
 * descriptors passed with it are further files. */
_noreturn_ void journal_child(const JournalQuery *q, size_t n);

/* --- journal-confine.c --------------------------------------------------------------------------------- */

/* Drops all privileges of this process: identity, capabilities, system calls other than those required for
 * reading, memory beyond a limit. */
int journal_confine(void);
