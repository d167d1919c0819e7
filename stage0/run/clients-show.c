/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What apps write, for those who are attached to them.
 *
 * It is kept for each client up to a limit. Who does not read that fast loses what is over it and is told
 * how much: an app never waits for somebody who happens to look at it. When the app ends, a client first
 * gets all that was kept for it, then the exit status.
 */

#include "stage0/run/clients-internal.h"

#define LAST_WORDS_MSEC 3000 /* how long the end of the pod waits for somebody who reads nothing at all */

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

void client_on_room(void *userdata)
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
        client_tell_front(c, ATTACH_ESCAPES);
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

void input_show(const Input *i, bool error, const void *data, size_t size)
{
        for (Client *c = i ? i->all->clients : NULL; c; c = c->next)
                if (c->input == i)
                        show_to(c, error ? 1 : 0, data, size);
}

void input_ended(const Input *i, int exit_status)
{
        Client *next;

        for (Client *c = i ? i->all->clients : NULL; c; c = next) {
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
                        client_tell_front(c, ATTACH_ENDED);
                }
}

void inputs_finish(Inputs *all, const AppStatus *statuses)
{
        int timeout = LAST_WORDS_MSEC;

        if (!all)
                return;
        for (size_t i = 0; statuses && i < all->pod->manifest->n_apps; i++)
                input_ended(inputs_find(all, all->pod->manifest->apps[i]->name),
                            app_status_to_exit_code(&statuses[i]));
        for (Client *c = all->clients, *next; c; c = next) {
                next = c->next;
                if (c->front) /* has to know nothing but the end of the pod */
                        continue;
                for (size_t i = 0; c->ended && i < ELEMENTSOF(c->outlets); i++)
                        if (c->outlets[i] &&
                            outlet_finish(c->outlets[i], pod_operation(all->pod), timeout) == -ETIME)
                                timeout = 0; /* one for all */
                if (c->ended && has_all(c))
                        tell_end(c);
                else
                        client_forget(c);
        }
}
