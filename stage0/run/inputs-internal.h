/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What inputs.c and clients.c share. */

#include "stage0/run/inputs.h"
#include "stage0/run/outlet.h"

typedef struct Client Client;

/* What one app reads. */
struct Input {
        Inputs *all;
        const AppInstance *app;
        AppInput kind;
        int fd;       /* where to write; -EBADF: there is no process, or its standard input was closed */
        int slave_fd; /* held as long as the app runs: its terminal does not end when the app closes it */
        bool runs;
        sd_event_source *room;
};

struct Inputs {
        Pod *pod;
        sd_event *event;
        AppTable *apps;
        int listen_fd;
        sd_event_source *source;
        Client *clients;
        size_t n_clients;
        FrontFunction function;
        void *userdata;
};

Input *inputs_find(const Inputs *all, const char *app);
/* How much was taken. -EAGAIN: nothing now, and clients_resume() will be called; all of it is taken of who
 * writes to what is closed. */
ssize_t input_write(Input *i, const void *data, size_t size);
/* Of a terminal; 0 if it is not known. */
void input_set_size(Input *i, const struct winsize *size);
/* For whoever has just come, who wants to see the whole screen: programs that draw one do so when its size
 * changes. */
void input_show_all(Input *i, const struct winsize *size);
void input_close(Input *i);

/* clients.c */
int clients_listen(Inputs *all, Error *e);
void clients_free(Inputs *all);
/* Disconnects those who are attached to an app. */
void clients_leave(const Input *i);
/* There is a new process. */
void clients_start(Input *i);
/* The app takes something again. */
void clients_resume(Input *i);
