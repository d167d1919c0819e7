/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What clients*.c share. */

#include "stage0/supervisor/streams/inputs-internal.h"

#define CHUNK 4096U

struct Client {
        Client *next;
        Inputs *all;
        Input *input;
        int in_fd;
        sd_event_source *in_source, *end_source;
        char data[CHUNK]; /* input that the app has not read yet */
        size_t begin, end;
        bool last;    /* the end of this client's input ends the app's input */
        bool closed;  /* the end of its input was received */
        bool refused; /* the running app has not accepted its input */
        bool leaves;  /* it has disconnected: to be freed once its input is passed on */
        struct winsize size;
        bool ended;
        /* For clients attached by a call of the interface: */
        const ClientEvents *events;
        void *userdata;
        int out_fds[2];
        BufferedWriter *writers[2]; /* standard output, standard error */
        uint64_t skipped;
        int exit_code;
        /* For the client in the foreground: */
        bool front;
        bool escapes; /* the client was notified of them */
        int socket;
        sd_event_source *socket_source;
};

/* --- clients.c ----------------------------------------------------------------------------------------- */

int client_add(Inputs *all, Input *i, const struct winsize *size, Client **ret);
int client_watch_input(Client *c, int in_fd); /* takes IN_FD, which does not block */
/* Disconnects the client without a report. */
void client_forget(Client *c);
/* Disconnects it after passing on its last input. */
void client_take_rest(Client *c);

/* --- clients-foreground.c ------------------------------------------------------------------------------ */

/* Says when the terminal of the client is the app's, and when it is not. */
void client_tell_front(Client *c, ForegroundEvent event);

/* --- clients-show.c ------------------------------------------------------------------------------------ */

/* One of the client's pipes takes something again. USERDATA is the Client, which may be forgotten here. */
void client_on_room(void *userdata);
/* Disconnects the client after reporting the end to it. */
void client_end(Client *c, int exit_code);
