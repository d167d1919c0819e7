/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What clients.c and clients-show.c share. */

#include "stage0/run/inputs-internal.h"

#define CHUNK 4096U

struct Client {
        Client *next;
        Inputs *all;
        Input *input; /* NULL: has not said yet what it wants */
        int socket, in_fd;
        sd_event_source *socket_source, *in_source;
        char data[CHUNK]; /* what the app did not take so far */
        size_t begin, end;
        bool last;   /* the end of what it writes is the end of the app's input */
        bool closed; /* and that has come */
        bool front;
        bool escapes; /* it was told of them */
        struct winsize size;
        int out_fds[2];
        Outlet *outlets[2]; /* standard output, standard error */
        uint64_t skipped;
        bool ended;
        int exit_status;
};

/* --- clients.c ----------------------------------------------------------------------------------------- */

void client_forget(Client *c);
/* Says when the terminal of the front is the app's, and when it is not. */
void client_tell_front(Client *c, AttachEvent event);

/* --- clients-show.c ------------------------------------------------------------------------------------ */

/* One of the client's pipes takes something again. USERDATA is the Client, which may be forgotten here. */
void client_on_room(void *userdata);
