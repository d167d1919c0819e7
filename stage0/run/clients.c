/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Those who are attached to apps: any number of them, each with pipes of its own.
 *
 * What comes from a client goes to the app as fast as the app takes it; until then nothing more is read, so
 * that the client waits, and it alone. For what the app writes see clients-show.c.
 */

#include <sys/socket.h>

#include "stage0/run/clients-internal.h"

#define CLIENTS_MAX 64U

static Client *client_free(Client *c)
{
        sd_event_source_disable_unref(c->socket_source);
        sd_event_source_disable_unref(c->in_source);
        safe_close(c->socket);
        safe_close(c->in_fd);
        for (size_t i = 0; i < ELEMENTSOF(c->outlets); i++) {
                outlet_free(c->outlets[i]);
                safe_close(c->out_fds[i]);
        }
        free(c);
        return NULL;
}

void client_forget(Client *c)
{
        for (Client **i = &c->all->clients; *i; i = &(*i)->next)
                if (*i == c) {
                        *i = c->next;
                        c->all->n_clients--;
                        break;
                }
        client_free(c);
}

void clients_leave(const Input *i)
{
        Client *next;

        for (Client *c = i->all->clients; c; c = next) {
                next = c->next;
                if (c->input == i)
                        client_forget(c);
        }
}

void clients_free(Inputs *all)
{
        all->source = sd_event_source_disable_unref(all->source);
        all->listen_fd = safe_close(all->listen_fd);
        while (all->clients)
                client_forget(all->clients);
}

/* --- From a client to the app -------------------------------------------------------------------------- */

/* True: all is taken. */
static bool push(Client *c)
{
        while (c->begin < c->end) {
                ssize_t n = input_write(c->input, c->data + c->begin, c->end - c->begin);
                if (n < 0)
                        return false;
                c->begin += (size_t) n;
        }
        return true;
}

static void update_source(Client *c)
{
        bool wanted = c->input && c->input->runs && c->begin == c->end;

        if (c->in_source)
                (void) sd_event_source_set_enabled(c->in_source, wanted ? SD_EVENT_ON : SD_EVENT_OFF);
}

static void end_input(Client *c)
{
        c->in_source = sd_event_source_disable_unref(c->in_source);
        c->in_fd = safe_close(c->in_fd);
        c->closed = c->last;
        if (c->closed && c->input->kind == INPUT_PIPE)
                input_close(c->input);
}

static int on_input(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Client *c = userdata;
        ssize_t n = read(c->in_fd, c->data, sizeof(c->data));

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n <= 0) {
                end_input(c);
                return 0;
        }
        c->begin = 0;
        c->end = (size_t) n;
        (void) push(c);
        update_source(c);
        return 0;
}

void client_tell_front(Client *c, AttachEvent event)
{
        const AttachMessage m = {.event = event, .n = c->input->kind == INPUT_TERMINAL};

        if (attach_send(c->socket, &m, NULL, 0) >= 0 && event == ATTACH_ACCEPTED && m.n > 0)
                c->all->function(c->all->userdata, ATTACH_REQUEST);
}

void clients_start(Input *i)
{
        for (Client *c = i->all->clients; c; c = c->next) {
                if (c->input != i)
                        continue;
                c->escapes = false;
                c->ended = false;
                if (c->front)
                        client_tell_front(c, ATTACH_ACCEPTED);
                input_set_size(i, &c->size);
                if (c->closed && i->kind == INPUT_PIPE)
                        input_close(i);
        }
        clients_resume(i);
}

void clients_resume(Input *i)
{
        for (Client *c = i->all->clients; c; c = c->next) {
                if (c->input != i)
                        continue;
                (void) push(c);
                update_source(c);
        }
}

/* What was written just before it went. */
static void take_rest(Client *c)
{
        while (c->in_fd >= 0 && c->input && push(c)) {
                ssize_t n = read(c->in_fd, c->data, sizeof(c->data));
                if (n <= 0)
                        return;
                c->begin = 0;
                c->end = (size_t) n;
        }
}

/* --- Coming and going ---------------------------------------------------------------------------------- */

static void refuse(Client *c, int error, const char *text)
{
        AttachMessage m = {.event = ATTACH_REFUSED, .status = error};

        snprintf(m.text, sizeof(m.text), "%s", text);
        (void) attach_send(c->socket, &m, NULL, 0);
        client_forget(c);
}

static int watch_input(Client *c, int in_fd)
{
        c->in_fd = in_fd;
        if (fcntl(in_fd, F_SETFL, O_RDONLY | O_NONBLOCK) < 0)
                return -errno;
        int r = sd_event_add_io(c->all->event, &c->in_source, in_fd, EPOLLIN, on_input, c);
        if (r >= 0)
                update_source(c);
        return r;
}

/* Our end of what it writes, and both of what it reads. */
static int make_pipes(Client *c, int *fds, size_t *n)
{
        size_t n_out = c->input->kind == INPUT_TERMINAL ? 1 : 2;
        int pair[2];

        if (pipe2(pair, O_CLOEXEC) < 0)
                return -errno;
        fds[(*n)++] = pair[1];
        int r = watch_input(c, pair[0]);
        for (size_t i = 0; r >= 0 && i < n_out; i++) {
                if (pipe2(pair, O_CLOEXEC) < 0)
                        return -errno;
                fds[(*n)++] = pair[0];
                c->out_fds[i] = pair[1];
                r = outlet_new(c->all->event, pair[1], client_on_room, c, &c->outlets[i]);
        }
        return r;
}

static void accept_client(Client *c)
{
        const AttachMessage m = {.event = ATTACH_ACCEPTED};
        int fds[3];
        size_t n = 0;

        int r = make_pipes(c, fds, &n);
        if (r >= 0)
                r = attach_send(c->socket, &m, fds, n);
        for (size_t i = 0; i < n; i++)
                safe_close(fds[i]);
        if (r < 0)
                refuse(c, r, "Cannot make pipes");
        else
                input_show_all(c->input, &c->size);
}

static void on_request(Client *c, const AttachMessage *m)
{
        Input *i = inputs_find(c->all, m->text);

        if (c->input)
                client_forget(c); /* asks twice */
        else if (c->all->n_clients > CLIENTS_MAX)
                refuse(c, -EUSERS, "Too many are attached to the pod");
        else if (!i)
                refuse(c, -ENOTCONN, "The app has no standard input");
        else if (!i->runs)
                refuse(c, -ESRCH, "The app does not run");
        else {
                c->input = i;
                c->size = m->size;
                accept_client(c);
        }
}

static void on_leave(Client *c)
{
        Inputs *all = c->all;

        if (!c->front)
                return;
        take_rest(c);
        client_forget(c);
        all->function(all->userdata, ATTACH_LEAVE);
}

static int on_message(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Client *c = userdata;
        AttachMessage m;
        size_t n_fds = 0;
        int none[1];

        int r = attach_receive(fd, &m, none, 0, &n_fds);
        if (r == -EAGAIN)
                return 0;
        if (r <= 0) {
                take_rest(c);
                client_forget(c);
        } else if (m.event == ATTACH_REQUEST)
                on_request(c, &m);
        else if (m.event == ATTACH_LAST)
                c->last = true;
        else if (m.event == ATTACH_LEAVE)
                on_leave(c);
        else if (m.event == ATTACH_ACCEPTED && c->front)
                c->all->function(c->all->userdata, m.event);
        else if (m.event == ATTACH_SIZE && c->input) {
                c->size = m.size;
                input_set_size(c->input, &m.size);
        }
        return 0;
}

/* Takes SOCKET over on success. */
static int add_client(Inputs *all, int socket, Client **ret)
{
        Client *c = calloc(1, sizeof(Client));

        if (!c)
                return -ENOMEM;
        *c = (Client){.all = all, .socket = -EBADF, .in_fd = -EBADF, .out_fds = {-EBADF, -EBADF}};
        int r = fcntl(socket, F_SETFL, O_RDWR | O_NONBLOCK) < 0 ? -errno : 0;
        if (r >= 0)
                r = sd_event_add_io(all->event, &c->socket_source, socket, EPOLLIN, on_message, c);
        /* Who closes both says first that he means it. */
        if (r >= 0)
                r = sd_event_source_set_priority(c->socket_source, SD_EVENT_PRIORITY_NORMAL - 1);
        if (r < 0) {
                client_free(c);
                return r;
        }
        c->socket = socket;
        c->next = all->clients;
        all->clients = c;
        all->n_clients++;
        *ret = c;
        return 0;
}

static bool may_attach(int fd)
{
        struct ucred peer;
        socklen_t size = sizeof(peer);

        return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) >= 0 &&
               (peer.uid == 0 || peer.uid == geteuid());
}

static int on_connection(sd_event_source *source, int listen_fd, uint32_t revents, void *userdata)
{
        _cleanup_close_ int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        Inputs *all = userdata;
        Client *c;

        /* Who is one too many is told so once he has said what he wants; but not without end. */
        if (fd >= 0 && all->n_clients < 2 * CLIENTS_MAX && may_attach(fd) && add_client(all, fd, &c) >= 0)
                (void) TAKE_FD(fd);
        return 0;
}

int inputs_add_front(Inputs *all, const char *app, int in_fd, int socket, FrontFunction function,
                     void *userdata, Error *e)
{
        Client *c = NULL;

        int r = add_client(all, socket, &c);
        if (r < 0) {
                safe_close(socket);
                safe_close(in_fd);
        } else {
                c->front = true;
                c->input = inputs_find(all, app);
                forward_get_size(&c->size); /* before the app can look at it; later it is told */
                all->function = function;
                all->userdata = userdata;
                r = watch_input(c, in_fd);
        }
        return r < 0 ? error_set_errno(e, r, "Cannot connect standard input to app %s", app) : 0;
}

int clients_listen(Inputs *all, Error *e)
{
        int r = attach_listen(all->pod, &all->listen_fd, e);

        if (r < 0)
                return r;
        r = sd_event_add_io(all->event, &all->source, all->listen_fd, EPOLLIN, on_connection, all);
        return r < 0 ? error_set_errno(e, r, "Cannot wait for those who attach to pod %s",
                                       pod_display_name(all->pod))
                     : 0;
}
