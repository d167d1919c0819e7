/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* inputs.c, clients.c: standard input of apps, and the clients that are attached to them. */

#include "stage0/supervisor/apps/app-table.h"
#include "stage0/supervisor/streams/foreground-messages.h"

typedef struct Inputs Inputs;

int inputs_new(Pod *p, AppTable *apps, sd_event *event, Inputs **ret, Error *e);
Inputs *inputs_free(Inputs *all); /* NULL is fine */
DEFINE_TRIVIAL_CLEANUP_FUNC(Inputs *, inputs_free);

/* An app that is added or removed while the pod runs: its clients are disconnected. */
int inputs_add_app(Inputs *all, AppInstance *app, Error *e);
void inputs_remove_app(AppInstance *app);

typedef struct Input Input; /* for each app, also if it has no standard input */

/* The standard input of a new process of an app. */
typedef struct InputEnds {
        AppInput kind;
        int stdin_fd;  /* a pipe to read, or a terminal */
        int master_fd; /* of the terminal: the app's output is read here */
} InputEnds;

#define INPUT_ENDS_NULL ((InputEnds){.stdin_fd = -EBADF, .master_fd = -EBADF})
void input_ends_done(InputEnds *ends);
/* PTS_FD is the devpts that the app gets. */
int input_start(Input *i, int pts_fd, InputEnds *ret, Error *e);
/* No process of the app is left: no more output comes from its terminal. */
void input_stop(Input *i);

/* Shows output of the app to its clients. Never waits. */
void input_show(const Input *i, bool error, const void *data, size_t size);
/* Reports the end of the app to its clients, after all of its output. */
void input_ended(const Input *i, int exit_status);
/* All output so far is on the terminal of the client in the foreground: its mode may change. */
void inputs_shown(Inputs *all);
/* After the end of the pod: writes the rest of the output and the reports, as long as clients read. STATUSES
 * are those of the pod's apps. */
void inputs_finish(Inputs *all, const AppStatus *statuses);

/* The client in the foreground, attached to APP: its input is read from IN_FD, messages come over SOCKET;
 * both are taken over. FUNCTION is called with FOREGROUND_LEAVE once the client leaves, with
 * FOREGROUND_STARTED when its terminal is to be the app's, and with FOREGROUND_READY when it is. */
typedef void (*ForegroundFunction)(void *userdata, ForegroundEvent event);
int inputs_add_front(Inputs *all, const char *app, int in_fd, int socket, ForegroundFunction function,
                     void *userdata, Error *e);

/* --- Clients attached by a call of the interface -------------------------------------------------------- */

typedef struct Client Client;

#define CLIENTS_MAX 64U         /* of a pod, including the one in the foreground */
#define CLIENTS_OF_APPS_MAX 32U /* when there are as many, apps attach no more */

typedef struct ClientEvents {
        /* N bytes of output were not read in time and were dropped. Negative: the client could not be
         * notified. */
        int (*skipped)(void *userdata, uint64_t n);
        /* All of the output is in the pipes; the client is freed after this. EXIT_CODE is the app's, -1 if
         * it is not known. */
        void (*ended)(void *userdata, int exit_code);
} ClientEvents;

/* The client's input is read from FDS[0], unless the app has no standard input; output is written to the
 * other two, all of them pipes or -EBADF; that of a terminal to FDS[1] alone. They are taken over. SIZE is
 * that of the client's terminal, or zero. EVENTS are lent. -ESRCH: the app does not run; -EUSERS: there are
 * CLIENTS_MAX. */
int client_new(Input *i, int fds[static 3], const struct winsize *size, const ClientEvents *events,
               void *userdata, Client **ret);
/* The same for an app that is about to run. */
int client_new_early(Input *i, int fds[static 3], const struct winsize *size, const ClientEvents *events,
                     void *userdata, Client **ret);
/* Disconnects the client, which is not reported. Input that was received before is still passed to the app,
 * as far as the app reads it. */
Client *client_detach(Client *c);
/* The same, of one whose end is the end of the app's standard input: all that it has sent is passed on before, unless the app ends. */
Client *client_finish(Client *c);
size_t clients_count(const Input *i); /* of the pod */
const AppInstance *client_app(const Client *c);
bool client_has_terminal(const Client *c);
void client_resize(Client *c, const struct winsize *size);
/* The end of the client's input is the end of the app's standard input, unless that is a terminal. */
void client_close_stdin(Client *c);
