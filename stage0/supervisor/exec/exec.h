/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* exec*.c: commands that are run beside apps, confined as they are. */

#include <sys/ioctl.h>

#include "stage0/supervisor/apps/pod-pause.h"
#include "varlink/varlink.h"

#define EXECS_MAX 128U /* commands of a pod at a time */

/* What is to be run. */
typedef struct ExecOptions {
        char **argv;           /* NULL: the user's shell */
        char **environment;    /* NAME=VALUE, replacing those of the app */
        char *user;            /* USER[:GROUP] that the app could become; NULL: the app's */
        char *identity;        /* name of the user that the app was started as; or NULL */
        char *directory;       /* absolute; NULL: the app's working directory */
        bool terminal;         /* standard input and output are a new terminal of the app's */
        bool terminal_errors;  /* standard error as well */
        char *terminal_type;   /* TERM, unless the app sets it; or NULL */
        struct winsize size;   /* of the terminal */
        int fds[3];            /* pipes that are the other standard streams; -EBADF: none */
        uint64_t timeout_usec; /* UINT64_MAX: none */
} ExecOptions;

#define EXEC_OPTIONS_NULL ((ExecOptions){.fds = {-EBADF, -EBADF, -EBADF}, .timeout_usec = UINT64_MAX})
void exec_options_done(ExecOptions *o);
/* exec-options.c: what the parameters of Exec say, which match its description. FDS are those of the call. -EINVAL:
 * parameter *RET_WRONG is not valid. */
int exec_options_read(json_object *parameters, FdList *fds, ExecOptions *ret, const char **ret_wrong);
/* Rows or columns of a terminal. Unchanged if they are not given; -EINVAL. */
int exec_read_size(json_object *parameters, const char *key, unsigned short *ret);
/* Takes standard stream I, a pipe without a name, from FDS; *RET stays -EBADF if it is not given. -EINVAL: parameter
 * *RET_WRONG is not valid. */
int exec_read_stream(json_object *parameters, FdList *fds, size_t i, int *ret, const char **ret_wrong);

/* How it has ended. */
typedef struct ExecEnd {
        int error;        /* negative errno: the command was not executed. -ESRCH: the app does not run;
                    * -EOPNOTSUPP: its first thread has ended, though others run; any other: */
        AppCause cause;   /* the reason, */
        const char *text; /* and a message */
        int status;       /* of waitpid() */
        bool timed_out;
} ExecEnd;

typedef struct Exec Exec;
typedef struct Execs Execs;

typedef struct ExecEvents {
        /* The main process of APP, as a descriptor that is lent. -ESRCH: it has none; -EAGAIN: it is not
         * executed yet. */
        int (*main_process)(void *userdata, const char *app, pid_t *ret_pid);
        /* A new descriptor of the null device of the apps. */
        int (*open_null)(void *userdata);
        /* The command is executed, as process PID, of which PID_FD is lent, and so is TERMINAL_FD, if it has one. */
        void (*executed)(void *call, Exec *x, pid_t pid, int pid_fd, int terminal_fd);
        /* The command has ended or failed: X is freed after this. */
        void (*ended)(void *call, Exec *x, const ExecEnd *end);
} ExecEvents;

/* USERDATA is passed to the first two of EVENTS, which are lent. Time-outs of commands stop in a PAUSE, which is lent. */
int execs_new(Pod *p, sd_event *event, PodPause *pause, const ExecEvents *events, void *userdata,
              Execs **ret, Error *e);
/* Kills all commands and waits until they have ended, which is reported. NULL is fine. */
Execs *execs_free(Execs *all);

/* Runs a command beside APP. OPTIONS are taken on success. CALL is passed to the events of this one, none of which
 * comes before this returns. -EUSERS: there are EXECS_MAX; -ESRCH: the app does not run; -EOPNOTSUPP: its first
 * thread has ended; others have a message. */
int exec_new(Execs *all, const PodApp *app, ExecOptions *options, void *call, Exec **ret, Error *e);
/* Kills all processes that it has started. Reported as usual. */
void exec_kill(Exec *x);
/* A small number that is unique among the commands of this pod. */
uint64_t exec_id(const Exec *x);
/* An id that no command gets. */
uint64_t execs_next_id(Execs *all);
Exec *execs_find(Execs *all, uint64_t id); /* NULL: there is none */
/* -ENOTTY: it has no terminal. */
int exec_resize(Exec *x, const struct winsize *size);
