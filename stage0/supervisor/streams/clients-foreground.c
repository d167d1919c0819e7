/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The client that runs the pod in the foreground, and is attached to an app: the forwarders show it what apps write. */

#include "stage0/control/control.h"
#include "stage0/supervisor/streams/clients-internal.h"

void client_tell_front(Client *c, ForegroundEvent event)
{
        bool terminal = c->input->kind == INPUT_TERMINAL;

        if (foreground_send(c->socket, event, terminal, NULL) >= 0 && event == FOREGROUND_STARTED &&
            terminal)
                c->all->function(c->all->userdata, event);
}

static void on_leave(Client *c)
{
        Inputs *all = c->all;

        (void) client_detach(c);
        all->function(all->userdata, FOREGROUND_LEAVE);
}

static int on_message(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        ForegroundMessage m;
        Client *c = userdata;

        int r = foreground_receive(fd, &m);
        if (r == -EAGAIN)
                return 0;
        if (r <= 0)
                (void) client_detach(c);
        else if (m.event == FOREGROUND_LEAVE)
                on_leave(c);
        else if (m.event == FOREGROUND_CLOSE_STDIN)
                client_close_stdin(c);
        else if (m.event == FOREGROUND_READY)
                c->all->function(c->all->userdata, FOREGROUND_READY);
        else if (m.event == FOREGROUND_SIZE)
                client_resize(c, &m.size);
        return 0;
}

static int watch_socket(Client *c, int socket)
{
        c->socket = socket;
        if (fcntl(socket, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
                return -errno;
        int r = sd_event_add_io(c->all->event, &c->socket_source, socket, EPOLLIN, on_message, c);
        /* A client that leaves announces it before it closes both. */
        return r < 0 ? r : sd_event_source_set_priority(c->socket_source, SD_EVENT_PRIORITY_NORMAL - 1);
}

int inputs_add_front(Inputs *all, const char *app, int in_fd, int socket, ForegroundFunction function,
                     void *userdata, Error *e)
{
        struct winsize size;
        Client *c = NULL;

        forward_get_size(&size); /* before the app can query it; later changes are reported to the app */
        int r = client_add(all, inputs_find(all, app), &size, &c);
        if (r < 0) {
                safe_close(socket);
                safe_close(in_fd);
                return error_set_errno(e, r, "Cannot connect standard input to app %s", app);
        }
        c->front = true;
        all->function = function;
        all->userdata = userdata;
        c->in_fd = in_fd;
        r = watch_socket(c, socket);
        if (r >= 0)
                r = fcntl(in_fd, F_SETFL, O_RDONLY | O_NONBLOCK) < 0 ? -errno : client_watch_input(c, in_fd);
        return r < 0 ? error_set_errno(e, r, "Cannot connect standard input to app %s", app) : 0;
}
