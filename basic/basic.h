/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* basic/: helpers that all other folders of acnspawn use and that no library offers.
 *
 * Conventions, here and everywhere in the project:
 *
 *  - Functions return 0 or a positive value on success and a negative errno on failure. Results go to
 *    parameters named ret_…, which are left untouched on failure.
 *  - The message for the user about a failure is built where it happens, in the Error object passed as last
 *    parameter: what failed, on which object, why, and what to do about it. Callers may prepend context. The
 *    Error may be NULL. Library code never prints; programs print an Error once.
 *  - Ownership is released by the _cleanup_ attributes and moves only through TAKE_PTR() and TAKE_FD().
 *  - All file descriptors are opened O_CLOEXEC.
 */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* --- Ownership ----------------------------------------------------------------------------------------- */

#define _cleanup_(f) __attribute__((cleanup(f)))
#define _printf_(a, b) __attribute__((format(printf, a, b)))
#define _pure_ __attribute__((pure))
#define _unused_ __attribute__((unused))
#define _noreturn_ _Noreturn

#define TAKE_GENERIC(var, type, nullvalue)                                                                  \
        ({                                                                                                  \
                type *_pvar_ = &(var);                                                                      \
                type _value_ = *_pvar_;                                                                     \
                *_pvar_ = (nullvalue);                                                                      \
                _value_;                                                                                    \
        })
#define TAKE_PTR(ptr) TAKE_GENERIC(ptr, __typeof__(ptr), NULL)
#define TAKE_FD(fd) TAKE_GENERIC(fd, int, -EBADF)
#define TAKE_STRUCT(s) TAKE_GENERIC(s, __typeof__(s), ((__typeof__(s)){}))

/* Defines NAMEp(), the function that _cleanup_() needs, from a function that frees and accepts NULL. */
#define DEFINE_TRIVIAL_CLEANUP_FUNC(type, func)                                                             \
        static inline void func##p(type *p)                                                                 \
        {                                                                                                   \
                if (*p)                                                                                     \
                        *p = func(*p);                                                                      \
        }                                                                                                   \
        struct __useless_struct_to_allow_trailing_semicolon__

static inline void freep(void *p)
{
        free(*(void **) p);
}

/* Closes FD unless it is negative, preserves errno, and returns -EBADF to be assigned to the variable. */
int safe_close(int fd);
/* safe_close() calls it before it closes a descriptor. Set in sanitized builds by library/libsystemd.c; NULL otherwise. */
extern void (*close_check)(int fd);

static inline void closep(int *fd)
{
        safe_close(*fd);
}

static inline void fclosep(FILE **f)
{
        if (*f)
                fclose(*f);
}

#define _cleanup_free_ _cleanup_(freep)
#define _cleanup_close_ _cleanup_(closep)
#define _cleanup_fclose_ _cleanup_(fclosep)

#define ELEMENTSOF(x) (sizeof(x) / sizeof((x)[0]))
#define CONCATENATE_INNER(a, b) a##b
#define CONCATENATE(a, b) CONCATENATE_INNER(a, b)

/* MIN() and MAX() evaluate each argument once. N makes the names unique, as one may be the argument of the other. */
#define CHOOSE(a, op, b, n)                                                                                 \
        ({                                                                                                  \
                const __typeof__(a) CONCATENATE(_a_, n) = (a);                                              \
                const __typeof__(b) CONCATENATE(_b_, n) = (b);                                              \
                CONCATENATE(_a_, n) op CONCATENATE(_b_, n) ? CONCATENATE(_a_, n) : CONCATENATE(_b_, n);     \
        })
#define MIN(a, b) CHOOSE(a, <, b, __COUNTER__)
#define MAX(a, b) CHOOSE(a, >, b, __COUNTER__)
/* The same of constants, for sizes of arrays and constants outside functions. */
#define CONST_MIN(a, b) ((a) < (b) ? (a) : (b))
#define CONST_MAX(a, b) ((a) > (b) ? (a) : (b))

#define streq(a, b) (strcmp((a), (b)) == 0)

static inline bool streq_ptr(const char *a, const char *b)
{
        return a && b ? streq(a, b) : a == b;
}

static inline bool isempty(const char *s)
{
        return !s || !s[0];
}

/* If S starts with PREFIX, the part after it; else NULL. */
static inline const char *startswith(const char *s, const char *prefix)
{
        size_t n = strlen(prefix);
        return strncmp(s, prefix, n) == 0 ? s + n : NULL;
}

/* If S ends with SUFFIX, a pointer to the suffix in S; else NULL. */
static inline const char *endswith(const char *s, const char *suffix)
{
        size_t n = strlen(s), m = strlen(suffix);
        return n >= m && streq(s + n - m, suffix) ? s + n - m : NULL;
}

/* asprintf() and vasprintf() that return a negative errno, and then leave *RET alone. */
int xasprintf(char **ret, const char *format, ...) _printf_(2, 3);
int xvasprintf(char **ret, const char *format, va_list ap) _printf_(2, 0);

/* Makes room for N elements of SIZE bytes in the array at *P, of which *ALLOCATED are allocated; grows by
 * doubling. */
int grow_array(void **p, size_t *allocated, size_t n, size_t size);
#define GREEDY_REALLOC(array, allocated, n)                                                                 \
        grow_array((void **) &(array), &(allocated), (n), sizeof((array)[0]))

/* --- Errors (error.c) ---------------------------------------------------------------------------------- */

typedef struct Error {
        int code;      /* negative errno; 0: no error */
        char *message; /* one sentence without a full stop: what failed, on which object, why */
        char *hint;    /* what the user can do about it, or NULL */
} Error;

#define ERROR_NULL ((Error){})
void error_done(Error *e); /* E may be NULL */
#define _cleanup_error_ _cleanup_(error_done)

/* All of these return the negative form of CODE (or the code the error already has), so that a failing
 * function can end with "return error_set(…)". Setting replaces the previous content. With E == NULL they
 * only return the code. */
int error_set(Error *e, int code, const char *format, ...) _printf_(3, 4);
/* Appends ": " and strerror(). */
int error_set_errno(Error *e, int code, const char *format, ...) _printf_(3, 4);
/* Prepends "…: " to the message. */
int error_prefix(Error *e, int code, const char *format, ...) _printf_(3, 4);
/* Sets the hint: what the user can do. */
int error_hint(Error *e, int code, const char *format, ...) _printf_(3, 4);
int error_oom(Error *e);
/* Moves the content of FROM to E, replacing what was there; FROM is empty afterwards. Returns FROM's
 * code. */
int error_move(Error *e, Error *from);
/* Copies the content of FROM to E; what does not fit into memory is left out. Returns FROM's code. */
int error_copy(Error *e, const Error *from);

/* --- Messages of programs (log.c) ----------------------------------------------------------------------
 *
 * For programs only: the level is state of the process. Library code reports failures in an Error, and passes
 * other messages to operation_message(). */

typedef enum LogLevel {
        LOG_LEVEL_NOTICE, /* a direct response to an action of the user: shown at every level */
        LOG_LEVEL_ERROR,
        LOG_LEVEL_WARNING,
        LOG_LEVEL_INFO,
        LOG_LEVEL_DEBUG,
} LogLevel;

void log_set_max_level(LogLevel level);
LogLevel log_max_level(void);
/* Whether messages wait until stderr is writable (the default). With false, a message that cannot be written
 * at once is dropped. */
void log_set_blocking(bool b);
/* One line on stderr. Messages below the current level (default: info) are dropped. */
void log_message(LogLevel level, const char *format, ...) _printf_(2, 3);
#define log_debug(...) log_message(LOG_LEVEL_DEBUG, __VA_ARGS__)
#define log_info(...) log_message(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_warning(...) log_message(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_error(...) log_message(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_notice(...) log_message(LOG_LEVEL_NOTICE, __VA_ARGS__)

/* Prints "Error: message." and the hint to stderr, in colour on a terminal. Falls back to strerror(CODE). */
void error_print(const Error *e, int code);
/* Whether output on FD may be coloured: a terminal, NO_COLOR unset, TERM not dumb, SYSTEMD_COLORS not 0. */
bool colors_enabled(int fd);

/* --- Configuration (config-dirs.c) --------------------------------------------------------------------- */

/* The configuration directories, highest precedence first, ending with NULL; depends on the prefix of the
 * build. */
extern const char *const usual_config_dirs[];

/* --- Operations (operation.c) -------------------------------------------------------------------------- */

/* The context of long-running work, passed down the call chain: it can be cancelled, may have a deadline, and
 * receives messages and progress. Library code therefore needs no process-wide state: any number of operations run
 * in one process, each with its own threads. Code that runs in an operation does not print, end the process, or
 * depend on a terminal.
 *
 * Most functions reach it through another parameter: a Store is opened for one operation (store_open()), pods,
 * fetchers and sources refer to their store, and structures of options have a member for it.
 *
 * NULL is an operation that is never cancelled, has no deadline, and whose messages are dropped. */
typedef struct Operation Operation;

typedef enum OperationPhase {
        OPERATION_LOOKING, /* discovery and requests */
        OPERATION_DOWNLOADING,
        OPERATION_IMPORTING, /* reading, checking and unpacking */
        OPERATION_DONE,
        OPERATION_UNCHANGED, /* there was nothing to do */
        OPERATION_FAILED,
        _OPERATION_PHASE_MAX,
} OperationPhase;

/* The progress of one item. */
typedef struct OperationProgress {
        const char *what; /* an image, by the name that the user or another image gives it; untrusted text */
        OperationPhase phase;
        uint64_t done, total; /* bytes; TOTAL 0: unknown */
} OperationProgress;

typedef struct OperationOptions {
        uint64_t deadline_usec; /* CLOCK_MONOTONIC; 0: none */
        /* LINE may have untrusted text in it, and no newline. Both may be NULL. They are called by any of the
         * threads of the operation, but never concurrently, and must not call the operation's functions but
         * operation_cancel(). */
        void (*message)(LogLevel level, const char *line, void *userdata);
        void (*progress)(const OperationProgress *p, void *userdata);
        void *userdata;
} OperationOptions;

/* O is copied, and may be NULL. -EMFILE, -ENFILE, -ENOMEM. */
int operation_new(const OperationOptions *o, Operation **ret);
/* To be called when all work of the operation has ended. */
Operation *operation_free(Operation *o);
DEFINE_TRIVIAL_CLEANUP_FUNC(Operation *, operation_free);
/* May be called from any thread, from signal handlers, and repeatedly. The functions that work for the operation soon
 * fail with -EINTR, and undo their effects as after any other failure. */
void operation_cancel(Operation *o);
bool operation_is_cancelled(const Operation *o);
/* Sets an earlier deadline for a part of the operation, or removes it (0). operation_check() returns -ETIME once it has
 * expired; if operation_check() succeeds after its removal, this deadline had expired, and not that of the operation.
 * To be called while no other thread works for the operation. */
int operation_limit(Operation *o, uint64_t deadline_usec);
/* A descriptor for poll() that is readable from the moment on at which operation_check() fails; it belongs to the
 * operation and must not be read. -EBADF, which poll() passes over, for NULL. */
int operation_fd(const Operation *o);
/* To be called regularly: -EINTR with a message if the operation was cancelled, -ETIME if its deadline has
 * passed. */
int operation_check(const Operation *o, Error *e);
/* Whether R, a result of a function, is one of operation_check(): nothing else is to be tried then, and the cause
 * of the failure is not where it was noticed. */
static inline bool operation_ended(int r)
{
        return r == -EINTR || r == -ETIME;
}
/* Waits until FD is ready for EVENTS (as for poll()), or TIMEOUT_MSEC have passed (-1: no time-out). 1: it is
 * ready, or in an error state; 0: time-out; operation_check()'s errors have a message, others, which are
 * poll()'s, do not. FD -1: only waits. */
int operation_poll(const Operation *o, int fd, short events, int timeout_msec, Error *e);
/* Sends a message to the user that is not the reason of a failure; LOG_LEVEL_DEBUG: details of the work. */
void operation_message(Operation *o, LogLevel level, const char *format, ...) _printf_(3, 4);
void operation_progress(Operation *o, const OperationProgress *p);

/* --- Threads (thread.c) -------------------------------------------------------------------------------- */

/* Starts up to N threads that run the function with all signals blocked. Returns how many were started; if
 * fewer than N, *RET_ERROR (may be NULL) is set to the reason, else it is not changed. */
size_t threads_start(pthread_t *threads, size_t n, void *(*function)(void *), void *userdata,
                     int *ret_error);
int thread_start(pthread_t *ret, void *(*function)(void *), void *userdata); /* one thread; negative errno */
void threads_join(pthread_t *threads, size_t n);
/* setns() into a mount namespace, for programs that have, or had, threads. The calling thread gets a working
 * directory of its own, which is the root of that namespace, as its own root is then. */
int mount_namespace_enter(int fd);
/* A mount namespace with the root of a process in it, which is another directory after chroot(). */
typedef struct MountNamespace {
        int fd, root_fd; /* negative: none */
} MountNamespace;
#define MOUNT_NAMESPACE_NULL ((MountNamespace){.fd = -EBADF, .root_fd = -EBADF})
/* That of this process. */
int mount_namespace_open(MountNamespace *ret);
int mount_namespace_copy(const MountNamespace *n, MountNamespace *ret);
void mount_namespace_done(MountNamespace *n);
/* Enters N with its root, unless it is none. */
int mount_namespace_return(const MountNamespace *n);

/* --- Misspelled words (nearest.c) ----------------------------------------------------------------------- */

/* Returns the string that is most similar to WORD of the N strings at FIRST (one every STRIDE bytes; NULLs are
 * skipped), or NULL if none is similar: for suggestions after a typing error. */
const char *nearest_match(const char *word, const char *const *first, size_t n, size_t stride);

/* --- String lists (strv.c): NULL-terminated arrays of strings; a NULL array is an empty list ----------- */

char **strv_free(char **l);
DEFINE_TRIVIAL_CLEANUP_FUNC(char **, strv_free);
#define _cleanup_strv_free_ _cleanup_(strv_freep)
size_t strv_length(char *const *l);
bool strv_contains(char *const *l, const char *s);
int strv_extend(char ***l, const char *s);                           /* appends a copy */
int strv_extendf(char ***l, const char *format, ...) _printf_(2, 3); /* appends formatted text */
int strv_consume(char ***l, char *s);                                /* appends S and takes ownership of it,
                                                                      * also on failure */
int strv_copy(char *const *l, char ***ret);
int strv_split(const char *s, const char *separators, char ***ret); /* empty fields are dropped */
/* The fields between commas, at least one, which may be empty; a comma or a backslash in a field is escaped with a backslash. */
int strv_split_fields(const char *s, char ***ret);
char *strv_join(char *const *l, const char *separator); /* NULL: out of memory */
void strv_sort(char **l);
#define STRV_FOREACH(s, l) for (char *const *s = (l); s && *s; s++)

/* --- Text and numbers (text.c) ------------------------------------------------------------------------- */

/* Whole string as a number in base 10 (or 8), no sign, no spaces. -EINVAL, -ERANGE. */
int parse_u64(const char *s, uint64_t *ret);
int parse_u32(const char *s, uint32_t *ret);
int parse_octal(const char *s, uint32_t *ret);
int parse_boolean(const char *s); /* 1, 0 or -EINVAL; the words that systemd accepts */
/* The index of S (NULL: -EINVAL) in WORDS, which may have NULLs; -EINVAL: it is none of them. */
int word_index(const char *const *words, size_t n, const char *s);
/* A time span such as "30", "5min", "1h 30s", "infinity" (UINT64_MAX), in microseconds; a bare number is
 * seconds. */
int parse_usec(const char *s, uint64_t *ret);
bool utf8_is_valid(const char *s, size_t n);
/* The length of the UTF-8 character at the beginning of the N bytes at S; 0: not a valid character. */
size_t utf8_length(const char *s, size_t n);
/* Classification of ASCII characters, independent of the locale. */
static inline bool is_digit(char c)
{
        return c >= '0' && c <= '9';
}

static inline bool is_lower(char c)
{
        return c >= 'a' && c <= 'z';
}

static inline bool is_upper(char c)
{
        return c >= 'A' && c <= 'Z';
}

static inline bool is_alphanumeric(char c)
{
        return is_digit(c) || is_lower(c) || is_upper(c);
}

static inline char to_lower(char c)
{
        return is_upper(c) ? (char) (c - 'A' + 'a') : c;
}

static inline char to_upper(char c)
{
        return is_lower(c) ? (char) (c - 'a' + 'A') : c;
}

/* The ID of the current boot of the host, with dashes. */
int read_boot_id(char **ret);

#define RANDOM_HEX_SIZE 17U
/* A unique and unpredictable part of a name: 16 digits. -EIO: the kernel has no random bytes. */
int random_hex(char ret[static RANDOM_HEX_SIZE]);
#define UUID_TEXT_SIZE 37U
/* A random UUID (RFC 4122, version 4) in lower case. -EIO as above. */
int random_uuid(char ret[static UUID_TEXT_SIZE]);
/* Lower case hex of N bytes. */
char *hex_encode(const void *p, size_t n);
int hex_decode(const char *s, size_t n, void *ret); /* decodes 2*N digits to N bytes */
/* A growing text; running out of memory is recorded and reported by text_take(). */
typedef struct Text {
        char *data;
        size_t size, allocated;
        bool failed;
} Text;
void text_done(Text *t);
#define _cleanup_text_ _cleanup_(text_done)
void text_add(Text *t, const char *s);
void text_add_bytes(Text *t, const void *p, size_t n);
void text_addf(Text *t, const char *format, ...) _printf_(2, 3);
int text_take(Text *t, char **ret, size_t *ret_size); /* NUL-terminated; RET_SIZE may be NULL */
/* Microseconds of the clock. */
uint64_t now_usec(clockid_t clock);
/* deadline_after() returns the time of CLOCK_MONOTONIC in TIMEOUT_USEC from now, deadline_left() the microseconds until it.
 * UINT64_MAX: never. */
uint64_t deadline_after(uint64_t timeout_usec);
uint64_t deadline_left(uint64_t deadline);
int deadline_left_msec(uint64_t deadline); /* rounded up, for poll(): -1: never */
/* Formats microseconds since the epoch as "2016-05-12 08:30:00 UTC", for messages. NULL: out of memory. */
char *format_utc(uint64_t usec);

/* --- Untrusted text on a terminal (escape.c) ----------------------------------------------------------- */

/* A copy of S in which bytes that are not UTF-8, control characters, and characters that are invisible or
 * change the order of others, are replaced by visible escapes: for names, labels and messages. NULL: out of
 * memory. */
char *text_escape_for_terminal(const char *s);
/* Adds JSON text with such characters written as \uXXXX; its meaning does not change. */
void text_add_json(Text *t, const char *json);
/* Whether the text contains escape or control sequences that a terminal would execute. */
bool text_has_escapes(const char *s, size_t n);

/* Escapes the output of an app as a stream. Newlines and tabs stay; other control characters, characters
 * that reorder a line, and bytes that are not UTF-8 become visible escapes. Initialized with the two
 * options. */
#define NEUTRALIZER_HELD_MAX 64U
typedef struct Neutralizer {
        bool colors;  /* keep sequences that set colours and other attributes, except the one that
                       * conceals */
        bool returns; /* keep carriage returns */
        bool colored; /* the output so far ends with a colour set */
        char held[NEUTRALIZER_HELD_MAX]; /* an incomplete character or sequence */
        size_t n_held;
} Neutralizer;

void neutralizer_add(Neutralizer *z, const char *data, size_t size, Text *out);
/* End of input: outputs the held bytes, and resets colours. Z can be used again. */
void neutralizer_end(Neutralizer *z, Text *out);

/* --- Files (io.c) -------------------------------------------------------------------------------------- */

/* Clears O_NONBLOCK, with which a possible FIFO is opened without waiting for its writer. */
int fd_set_blocking(int fd);
int loop_write(int fd, const void *p, size_t n);
/* Reads until N bytes or end of file; returns the number read. */
ssize_t loop_read(int fd, void *p, size_t n);
/* Opens the file PATH with FLAGS, or standard input for "-", once in a process: -EALREADY, which input_problem() has words for. */
int input_open(const char *path, int flags);
const char *input_problem(int r);
/* The whole of a regular file of at most MAX bytes; -EFBIG if longer, -EBADMSG if not a regular file.
 * NUL-terminated. */
int read_fd_bounded(int fd, size_t max, char **ret, size_t *ret_size);
int read_file_at(int dir_fd, const char *path, size_t max, char **ret, size_t *ret_size);
/* Writes a new file beside PATH and renames it over: readers see the old or the new content, never a
 * mixture. With SYNC the content is on disk before the rename and the rename before the return. */
int write_file_atomic_at(int dir_fd, const char *path, const void *p, size_t n, mode_t mode, bool sync);
/* For small files that have to be written while the disk is full. file_reserve_at() makes the file NAME, unless it exists, with
 * space for RESERVED_SIZE bytes, which are newlines. write_file_reserved_at() is write_file_atomic_at() without SYNC; if there is no
 * space, it writes to the file RESERVE, and exchanges it with PATH, whose space is the reserve then. Without a file PATH the reserve
 * is used up. So a reader that has PATH open may find newlines in it, or what was written to another file with the same reserve:
 * read_file_reserved_at() is for readers, and returns one content of PATH as a whole; PATH is opened by open_beneath(). -EAGAIN: it
 * does not cease to change. */
#define RESERVED_SIZE 4096U
int file_reserve_at(int dir_fd, const char *name);
int write_file_reserved_at(int dir_fd, const char *path, const char *reserve, const void *p, size_t n);
int read_file_reserved_at(int dir_fd, const char *path, size_t max, char **ret, size_t *ret_size);
/* Writes a new regular file with MODE, whatever the umask is; -EEXIST if it exists. */
int write_file_new_at(int dir_fd, const char *path, const void *p, size_t n, mode_t mode);
/* Writes to an existing file without truncating it: for attribute files of the kernel. */
int write_attribute_at(int dir_fd, const char *path, const char *value);
int fsync_dir(int dir_fd);
/* The file PATH, and its name. */
int fsync_file_at(int dir_fd, const char *path);
/* Waits for a flock on the file PATH, LOCK_EX or LOCK_SH, and creates the file if it is missing. Other users cannot open the
 * file: a user who can open a file or a directory can hold a lock on it for ever. O, which may be NULL, cancels the wait; with LOCK_NB (-EWOULDBLOCK) there is none.
 * Returns the descriptor; errors of operation_check() have a message, others do not. */
int lock_file_at(int dir_fd, const char *path, int mode, const Operation *o, Error *e);
/* Passes descriptors over a unix socket with DATA as payload (at least one byte). */
int send_fds(int sock, const void *data, size_t n, const int *fds, size_t n_fds);
/* The same without waiting for room in the socket: -EAGAIN. */
int send_fds_now(int sock, const void *data, size_t n, const int *fds, size_t n_fds);
/* The same, but sends what there is room for, and returns how much: the descriptors go with the first byte. */
ssize_t send_fds_some(int sock, const void *data, size_t n, const int *fds, size_t n_fds);
/* Returns the payload's size. Descriptors beyond MAX_FDS are closed. *RET_N_FDS is the number of received
 * descriptors. */
ssize_t recv_fds(int sock, void *data, size_t n, int *fds, size_t max_fds, size_t *ret_n_fds);

/* The descriptors of one message. fd_list_done() closes those that were not taken. */
#define FD_LIST_MAX 16U
typedef struct FdList {
        int fds[FD_LIST_MAX]; /* -EBADF if taken */
        size_t n;
} FdList;
void fd_list_done(FdList *f);
#define _cleanup_fd_list_ _cleanup_(fd_list_done)
/* Appends FD and takes it over, also on failure. -E2BIG: there are FD_LIST_MAX; -EBADF: FD is negative. */
int fd_list_push(FdList *f, int fd);
/* Removes and returns the descriptor with index I. -ENXIO: it does not exist, or was taken before. */
int fd_list_take(FdList *f, size_t i);

/* --- Processes by their descriptors (process.c) -------------------------------------------------------- */

/* Whether R is what a filter of system calls around acnspawn may answer to a call that it refuses: -EPERM, -EACCES, -ENOSYS. For calls for
 * which the kernel has other errors. */
bool is_refusal(int r);
/* The PID of the process of PID_FD in the pid namespace of /proc. -ESRCH: it has ended, or is not visible there. */
int process_number(int pid_fd, pid_t *ret);
/* False for a process that has ended, reaped or not, and for a negative PID_FD. */
bool process_is_alive(int pid_fd);
/* Sends SIG; 0: only checks that the process is there. By kill() if pidfd_send_signal() is refused; with the error of that if the process has no
 * certain number, as where /proc is that of another pid namespace. -ESRCH: it has ended. */
int process_signal(int pid_fd, int sig);

/* --- Free space (space.c) ------------------------------------------------------------------------------ */

#define DISK_RESERVE (64ULL << 20)  /* bytes that writers to the store leave free */
#define INODE_RESERVE 4096U         /* the same for inodes: as many as ext4 makes for these bytes */
#define SPACE_INTERVAL (4ULL << 20) /* bytes written until the free space is read again, and */
#define SPACE_INTERVAL_INODES 64U   /* files created */

/* The free space of a file system, without the reserves; UINT64_MAX: it has no limit. */
typedef struct FreeSpace {
        uint64_t bytes, inodes;
} FreeSpace;

int free_space_read(int fd, FreeSpace *ret);

/* Counts writes to the file system of FD, before they are made, and reads its free space after each interval.
 * -ENOSPC: only the reserves are left. */
typedef struct SpaceMeter {
        uint64_t bytes;
        unsigned files;
} SpaceMeter;

int space_meter_add(SpaceMeter *m, int fd, uint64_t bytes, unsigned files);

/* --- Terminals (terminal.c) ---------------------------------------------------------------------------- */

/* Opens a new terminal of the devpts in the tree at ROOT_FD; its master does not block. -ENOTTY: there is no
 * devpts. */
int terminal_open_in_root(int root_fd, int *ret_master, int *ret_slave);
/* The type of this process' terminal ($TERM), or a generic one if that is not valid. */
#define TERMINAL_TYPE_MAX 64U
const char *terminal_type(void);

/* --- Paths, walked by descriptor (path.c) -------------------------------------------------------------- */

/* Opens PATH as a process chrooted to ROOT_FD would: symlinks resolve inside, never outside. No magic
 * links. */
int open_in_root(int root_fd, const char *path, int flags);
/* Opens PATH refusing any symlink anywhere in it (-ELOOP). DIR_FD may be AT_FDCWD. */
int open_no_symlinks(int dir_fd, const char *path, int flags);
/* Opens PATH below DIR_FD: "..", absolute paths and symlinks cannot leave it (-EXDEV, -ELOOP). */
int open_beneath(int dir_fd, const char *path, int flags);
/* Opens PATH (O_PATH), to mount it elsewhere; without SYMLINKS it refuses any (-ELOOP). A file system that is mounted there when
 * it is used is mounted. */
int open_to_mount(const char *path, bool symlinks);
/* Opens PATH (O_PATH) from the kernel's caches alone (RESOLVE_CACHED), as a file system may hang; -EAGAIN in all other cases, such as a file
 * system that has to be mounted. */
int open_cached(const char *path, bool symlinks);
/* Reads the attributes of the file that the kernel has cached, without a request to its file system. */
struct statx;
int fd_stat_cached(int fd, struct statx *ret);
/* Whether the mount that FD is in is shared, or (MAY_BE_SLAVE) a slave. */
int fd_mount_is_shared(int fd, bool may_be_slave);
/* Closes all descriptors from 3 on except for KEPT, which this function sorts; negative ones are skipped. For forked children that do not exec. */
int fds_close_others(int *kept, size_t n);
/* The names of the entries of a directory, unsorted. */
int list_names(int dir_fd, char ***ret);
/* Creates the missing directories of PATH, as in a chroot to ROOT_FD, and opens the last (O_PATH). Symlinks
 * that dangle are refused (-ELOOP); a component that is no directory gives -ENOTDIR. */
int mkdir_p_in_root(int root_fd, const char *path, mode_t mode, int *ret_fd);
/* Opens the absolute PATH, as in a chroot to ROOT_FD, as a target for the mount of a file; creates it, and the directories above it, if it is
 * missing. */
int open_mount_target_in_root(int root_fd, const char *path);
/* Sets the umask of this program to 0022, once, at its start: the program chooses the mode of each file that it creates, and
 * the umask of the caller would withhold permissions from apps and from the pod's systemd. */
void umask_set_own(void);
/* The umask that the program was started with, for output files that the caller has named. */
mode_t umask_of_caller(void);
/* Creates a directory with MODE, whatever the umask is; -EEXIST if there is one. The directory that it is in is not
 * writable for others. */
int mkdir_at(int dir_fd, const char *path, mode_t mode);
/* mkdir -p of a trusted path, given by the administrator. */
int mkdir_p(const char *path, mode_t mode);
/* Removes NAME in DIR_FD recursively, by descriptor, never following symlinks and never emptying anything
 * that is mounted in it, even if it is of the same file system: that gives -EXDEV, or -EBUSY for a mount on
 * a file. It is no error if NAME does not exist. */
int rm_rf_at(int dir_fd, const char *name);
/* Reopens a descriptor, e.g. to get a readable one from O_PATH. */
int fd_reopen(int fd, int flags);
bool path_is_absolute(const char *p);
/* P, seen from the current directory if it is relative. */
int path_make_absolute(const char *p, char **ret);
/* Absolute P without duplicate and trailing slashes and "." components; ".." is refused with -EINVAL. */
int path_normalize(const char *p, char **ret);
/* Whether path_normalize() returns P as it is. */
bool path_is_normalized(const char *p);
/* Whether PATH is PREFIX or below it (both normalized). */
bool path_has_prefix(const char *path, const char *prefix);
/* Whether a mount may cover PATH, relative to /proc: true for files that only describe the machine, which emulations of
 * them replace; other runtimes allow the same. */
bool path_in_proc_may_be_covered(const char *path);
