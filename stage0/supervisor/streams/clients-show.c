/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The output of apps, for the clients that are attached to them.
 *
 * Output is buffered for each client up to a limit. A client that does not read fast enough loses what
 * exceeds the limit, and is told how much: an app never waits for an attached client. When the app ends, a
 * client first gets all that was buffered for it, then the exit status. */

#include "stage0/supervisor/streams/clients-internal.h"

#define LAST_WORDS_MSEC 3000 /* how long the end of the pod waits for a client that does not read */

static bool has_all(const Client *c)
{
        for (size_t i = 0; i < ELEMENTSOF(c->writers); i++)
                if (c->writers[i] && !buffered_writer_is_empty(c->writers[i]))
                        return false;
        return true;
}

static void report_skipped(Client *c)
{
        if (c->skipped > 0 && c->events->skipped(c->userdata, c->skipped) >= 0)
                c->skipped = 0;
}

void client_end(Client *c, int exit_code)
{
        if (c->events) {
                report_skipped(c);
                c->events->ended(c->userdata, exit_code);
        }
        client_forget(c);
}

/* Frees the client if everything is written. */
static void end_if_all_is_shown(Client *c)
{
        if (c->ended && has_all(c))
                client_end(c, c->exit_code);
}

void client_on_room(void *userdata)
{
        report_skipped(userdata);
        end_if_all_is_shown(userdata);
}

/* The forwarders write the output to this client. */
static void show_to_front(Client *c, const void *data, size_t size)
{
        if (c->escapes || c->input->kind != INPUT_TERMINAL || !text_has_escapes(data, size))
                return;
        c->escapes = true;
        client_tell_front(c, FOREGROUND_ESCAPES);
}

static void show_to(Client *c, size_t stream, const void *data, size_t size)
{
        BufferedWriter *o = c->writers[stream];

        if (c->front)
                show_to_front(c, data, size);
        if (!o || c->ended)
                return;
        if (buffered_writer_is_full(o))
                c->skipped += size;
        else if (buffered_writer_write(o, data, size) < 0) /* the peer has closed it */
                c->writers[stream] = buffered_writer_free(o);
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
                        c->ended = true; /* reported once the client has read everything */
                        continue;
                }
                c->ended = true;
                c->exit_code = exit_status;
                end_if_all_is_shown(c);
        }
}

void inputs_shown(Inputs *all)
{
        for (Client *c = all ? all->clients : NULL; c; c = c->next)
                if (c->front && c->ended) {
                        c->ended = false;
                        client_tell_front(c, FOREGROUND_ENDED);
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
                if (c->front) /* only the end of the pod is reported to it */
                        continue;
                for (size_t i = 0; c->ended && i < ELEMENTSOF(c->writers); i++)
                        if (c->writers[i] && buffered_writer_finish(c->writers[i], pod_operation(all->pod),
                                                                    timeout) == -ETIME)
                                timeout = 0; /* one deadline for all clients */
                client_end(c, c->ended && has_all(c) ? c->exit_code : -1);
        }
}
