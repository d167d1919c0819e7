/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Those who are attached to apps: any number of them, each with pipes of its own.
 *
 * What comes from a client goes to the app as fast as the app takes it; until then nothing more is read, so
 * that the client waits, and it alone. What the app writes is kept for each client up to a limit. Who does
 * not read that fast loses what is over it and is told how much: an app never waits for somebody who happens
 * to look at it. When the app ends, a client first gets all that was kept for it, then the exit status.
 */

#include <sys/socket.h>

#include "stage0/run/inputs-internal.h"

#define CLIENTS_MAX 64U
#define CHUNK 4096U
#define LAST_WORDS_MSEC 3000 /* how long the end of the pod waits for somebody who reads nothing at all */

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

static void client_forget(Client *c)
{
        for (Client **i = &c->all->clients; *i; i = &(*i)->next)
                if (*i == c) {
                        *i = c->next;
                        c->all->n_clients--;
                        break;
                }
        client_free(c);
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

/* When its terminal is the app's, and when it is not. */
static void tell_front(Client *c, AttachEvent event)
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
                        tell_front(c, ATTACH_ACCEPTED);
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

/* --- From the app to clients --------------------------------------------------------------------------- */

static bool has_all(const Client *c)
{
        for (size_t i = 0; i < ELEMENTSOF(c->outlets); i++)
                if (c->outlets[i] && !outlet_is_empty(c->outlets[i]))
                        return false;
        return true;
}

static void tell_skipped(Client *c)
{
        const AttachMessage m = {.event = ATTACH_SKIPPED, .n = c->skipped};

        if (c->skipped > 0 && attach_send(c->socket, &m, NULL, 0) >= 0)
                c->skipped = 0;
}

/* Frees the client if that was all. */
static void tell_end(Client *c)
{
        const AttachMessage m = {.event = ATTACH_ENDED, .status = c->exit_status};

        if (!c->ended || !has_all(c))
                return;
        tell_skipped(c);
        (void) attach_send(c->socket, &m, NULL, 0);
        client_forget(c);
}

static void on_outlet_room(void *userdata)
{
        tell_skipped(userdata);
        tell_end(userdata);
}

/* The pumps show it to him. */
static void show_to_front(Client *c, const void *data, size_t size)
{
        if (c->escapes || c->input->kind != INPUT_TERMINAL || !text_has_escapes(data, size))
                return;
        c->escapes = true;
        tell_front(c, ATTACH_ESCAPES);
}

static void show_to(Client *c, size_t stream, const void *data, size_t size)
{
        Outlet *o = c->outlets[stream];

        if (c->front)
                show_to_front(c, data, size);
        if (!o || c->ended)
                return;
        if (outlet_is_full(o))
                c->skipped += size;
        else if (outlet_write(o, data, size) < 0) /* nobody reads it */
                c->outlets[stream] = outlet_free(o);
}

void inputs_show(Inputs *all, const char *app, bool error, const void *data, size_t size)
{
        const Input *i = inputs_find(all, app);

        for (Client *c = i ? all->clients : NULL; c; c = c->next)
                if (c->input == i)
                        show_to(c, error ? 1 : 0, data, size);
}

void inputs_ended(Inputs *all, const char *app, int exit_status)
{
        const Input *i = inputs_find(all, app);
        Client *next;

        for (Client *c = i ? all->clients : NULL; c; c = next) {
                next = c->next;
                if (c->input != i || c->ended)
                        continue;
                if (c->front) {
                        c->ended = true; /* told once he has seen it all */
                        continue;
                }
                c->ended = true;
                c->exit_status = exit_status;
                tell_end(c);
        }
}

void inputs_shown(Inputs *all)
{
        for (Client *c = all ? all->clients : NULL; c; c = c->next)
                if (c->front && c->ended) {
                        c->ended = false;
                        tell_front(c, ATTACH_ENDED);
                }
}

void inputs_finish(Inputs *all, const AppStatus *statuses)
{
        int timeout = LAST_WORDS_MSEC;

        if (!all)
                return;
        for (size_t i = 0; statuses && i < all->pod->manifest->n_apps; i++)
                inputs_ended(all, all->pod->manifest->apps[i].name, app_status_to_exit_code(&statuses[i]));
        for (Client *c = all->clients, *next; c; c = next) {
                next = c->next;
                if (c->front) /* has to know nothing but the end of the pod */
                        continue;
                for (size_t i = 0; c->ended && i < ELEMENTSOF(c->outlets); i++)
                        if (c->outlets[i] && outlet_finish(c->outlets[i], timeout) == -ETIME)
                                timeout = 0; /* one for all */
                if (c->ended && has_all(c))
                        tell_end(c);
                else
                        client_forget(c);
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
                r = outlet_new(c->all->event, pair[1], on_outlet_room, c, &c->outlets[i]);
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
        return r < 0 ? error_set_errno(e, r, "Cannot wait for those who attach to pod %s", all->pod->uuid) : 0;
}
