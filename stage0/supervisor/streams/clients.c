/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Clients that are attached to apps: any number of them, each with its own pipes.
 *
 * Input of a client is passed to the app as fast as the app reads it; until then no more is read, so only
 * that client has to wait. For the output of apps see clients-show.c. */

#include "stage0/supervisor/streams/clients-internal.h"

#define END_INTERVAL_USEC UINT64_C(300000)

static Client *client_free(Client *c)
{
        sd_event_source_disable_unref(c->socket_source);
        sd_event_source_disable_unref(c->in_source);
        sd_event_source_disable_unref(c->end_source);
        safe_close(c->socket);
        safe_close(c->in_fd);
        for (size_t i = 0; i < ELEMENTSOF(c->writers); i++) {
                buffered_writer_free(c->writers[i]);
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
                        client_end(c, c->ended ? c->exit_code : -1);
        }
}

void clients_free(Inputs *all)
{
        while (all->clients)
                client_end(all->clients, -1);
}

/* --- From a client to the app -------------------------------------------------------------------------- */

/* Closes the client's end, so that the writer of its pipe gets SIGPIPE, as if the app had closed the pipe itself. */
static void stop_reading(Client *c)
{
        c->begin = c->end;
        c->in_source = sd_event_source_disable_unref(c->in_source);
        c->in_fd = safe_close(c->in_fd);
        c->closed = c->last;
}

/* Returns true if all input was written. If the app has closed its input, the rest is dropped. */
static bool push(Client *c)
{
        while (c->begin < c->end) {
                ssize_t n = input_write(c->input, c->data + c->begin, c->end - c->begin);
                if (n == -EPIPE) {
                        c->refused = true;
                        c->begin = c->end;
                }
                if (n < 0)
                        return false;
                c->begin += (size_t) n;
        }
        return true;
}

static void update_source(Client *c)
{
        bool wanted = c->input->runs && !c->input->closed_timer && c->begin == c->end;

        if (c->in_source)
                (void) sd_event_source_set_enabled(c->in_source, wanted ? SD_EVENT_ON : SD_EVENT_OFF);
}

/* A terminal has no end: the key for it is what the app gets, again and again, as the mode of the terminal decides what it means, and as each
 * of several programs reads one. */
static int on_end_again(sd_event_source *source, uint64_t usec, void *userdata)
{
        Client *c = userdata;

        if (c->input->runs)
                (void) input_write(c->input, "\004", 1);
        int r = sd_event_source_set_time_relative(source, END_INTERVAL_USEC);
        return r < 0 ? r : sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static void close_if_last(Client *c)
{
        c->closed = c->last;
        if (c->closed && c->input->kind == INPUT_PIPE)
                input_close(c->input);
        if (c->closed && c->front && c->input->kind == INPUT_TERMINAL && !c->end_source)
                (void) sd_event_add_time_relative(c->all->event, &c->end_source, CLOCK_MONOTONIC, 0, 0,
                                                  on_end_again, c);
}

static void end_input(Client *c)
{
        c->in_source = sd_event_source_disable_unref(c->in_source);
        c->in_fd = safe_close(c->in_fd);
        close_if_last(c);
        if (c->leaves)
                client_forget(c);
}

/* May free C. */
static void push_on(Client *c)
{
        (void) push(c);
        if (c->in_fd < 0 && c->leaves)
                client_forget(c);
        else
                update_source(c);
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
        push_on(c);
        return 0;
}

void clients_start(Input *i)
{
        for (Client *c = i->all->clients; c; c = c->next) {
                if (c->input != i)
                        continue;
                c->escapes = false;
                c->ended = false;
                c->refused = false;
                if (c->front)
                        client_tell_front(c, FOREGROUND_STARTED);
                input_set_size(i, &c->size);
                if (c->closed && i->kind == INPUT_PIPE)
                        input_close(i);
        }
        clients_resume(i);
}

void clients_resume(Input *i)
{
        for (Client *c = i->all->clients, *next; c; c = next) {
                next = c->next;
                if (c->input == i)
                        push_on(c);
        }
}

void clients_stop_reading(Input *i)
{
        for (Client *c = i->all->clients, *next; c; c = next) {
                next = c->next;
                if (c->input != i)
                        continue;
                if (c->refused)
                        stop_reading(c);
                if (c->refused && c->leaves)
                        client_forget(c);
                else
                        update_source(c);
        }
}

void client_take_rest(Client *c)
{
        while (c->in_fd >= 0 && push(c)) {
                ssize_t n = read(c->in_fd, c->data, sizeof(c->data));
                if (n <= 0)
                        return;
                c->begin = 0;
                c->end = (size_t) n;
        }
}

/* --- Attaching and detaching --------------------------------------------------------------------------- */

int client_watch_input(Client *c, int in_fd)
{
        c->in_fd = in_fd;
        int r = sd_event_add_io(c->all->event, &c->in_source, in_fd, EPOLLIN, on_input, c);
        if (r >= 0)
                update_source(c);
        return r;
}

int client_add(Inputs *all, Input *i, const struct winsize *size, Client **ret)
{
        Client *c = calloc(1, sizeof(Client));

        if (!c)
                return -ENOMEM;
        *c = (Client){.all = all,
                      .input = i,
                      .size = *size,
                      .in_fd = -EBADF,
                      .out_fds = {-EBADF, -EBADF},
                      .socket = -EBADF,
                      .next = all->clients};
        all->clients = c;
        all->n_clients++;
        *ret = c;
        return 0;
}

/* Reopened, as O_NONBLOCK would affect all processes that share the open file description. */
static int open_input(Client *c, int fd)
{
        if (fd < 0)
                return 0;
        int own_fd = fd_reopen(fd, O_RDONLY | O_NONBLOCK);
        return own_fd < 0 ? own_fd : client_watch_input(c, own_fd);
}

static int open_outputs(Client *c, int *fds)
{
        size_t n = c->input->kind == INPUT_TERMINAL ? 1 : 2;

        for (size_t i = 0; i < n; i++) {
                if (fds[i] < 0)
                        continue;
                c->out_fds[i] = TAKE_FD(fds[i]);
                int r = buffered_writer_new(c->all->event, c->out_fds[i], client_on_room, c, &c->writers[i]);
                if (r < 0)
                        return r;
        }
        return 0;
}

int client_new_early(Input *i, int fds[static 3], const struct winsize *size, const ClientEvents *events,
                     void *userdata, Client **ret)
{
        Client *c = NULL;

        int r = i->all->n_clients >= CLIENTS_MAX ? -EUSERS : 0;
        if (r >= 0)
                r = client_add(i->all, i, size, &c);
        if (r >= 0)
                r = open_outputs(c, fds + STDOUT_FILENO);
        if (r >= 0)
                r = open_input(c, fds[STDIN_FILENO]);
        for (size_t k = 0; k < 3; k++)
                fds[k] = safe_close(fds[k]);
        if (r < 0) {
                if (c)
                        client_forget(c);
                return r;
        }
        c->events = events;
        c->userdata = userdata;
        input_show_all(i, size);
        *ret = c;
        return 0;
}

int client_new(Input *i, int fds[static 3], const struct winsize *size, const ClientEvents *events,
               void *userdata, Client **ret)
{
        if (i->runs)
                return client_new_early(i, fds, size, events, userdata, ret);
        for (size_t k = 0; k < 3; k++)
                fds[k] = safe_close(fds[k]);
        return -ESRCH;
}

Client *client_detach(Client *c)
{
        if (!c)
                return NULL;
        client_take_rest(c);
        client_forget(c);
        return NULL;
}

Client *client_finish(Client *c)
{
        if (!c)
                return NULL;
        c->events = NULL;
        c->last = c->leaves = true;
        for (size_t i = 0; i < ELEMENTSOF(c->writers); i++)
                c->writers[i] = buffered_writer_free(c->writers[i]);
        if (c->in_fd >= 0)
                return NULL;
        close_if_last(c);
        client_forget(c);
        return NULL;
}

size_t clients_count(const Input *i)
{
        return i->all->n_clients;
}

const AppInstance *client_app(const Client *c)
{
        return c->input->app;
}

bool client_has_terminal(const Client *c)
{
        return c->input->kind == INPUT_TERMINAL;
}

void client_resize(Client *c, const struct winsize *size)
{
        c->size = *size;
        input_set_size(c->input, size);
}

void client_close_stdin(Client *c)
{
        c->last = true;
        if (c->in_fd < 0)
                close_if_last(c);
}
