/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What inputs.c and clients.c share. */

#include "stage0/supervisor/streams/inputs.h"
#include "stage0/supervisor/streams/buffered-writer.h"

typedef struct Client Client;

/* The standard input of one app. */
struct Input {
        Inputs *all;
        const AppInstance *app;
        AppInput kind;
        int fd;       /* where to write; -EBADF: there is no process, or its standard input was closed */
        int slave_fd; /* held as long as the app runs: its terminal does not end when the app closes it */
        bool runs;
        sd_event_source *room;
        sd_event_source *closed_timer; /* runs once the app has closed its input, or has ended; or NULL */
};

struct Inputs {
        Pod *pod;
        sd_event *event;
        AppTable *apps;
        Client *clients;
        size_t n_clients;
        ForegroundFunction function;
        void *userdata;
};

Input *inputs_find(const Inputs *all, const char *app);
/* Returns the number of bytes written. -EAGAIN: none now, clients_resume() will be called. -EPIPE: the app has closed its
 * standard input. */
ssize_t input_write(Input *i, const void *data, size_t size);
/* Of a terminal; 0 if it is not known. */
void input_set_size(Input *i, const struct winsize *size);
/* Makes the app redraw its screen for a new client, by a change of the size that full-screen programs react
 * to. */
void input_show_all(Input *i, const struct winsize *size);
void input_close(Input *i);

/* clients.c */
void clients_free(Inputs *all);
/* Disconnects the clients of an app. */
void clients_leave(const Input *i);
/* A new process of the app has begun. */
void clients_start(Input *i);
/* The app reads its input again. */
void clients_resume(Input *i);
/* The app runs, and has closed its input. */
void clients_stop_reading(Input *i);
