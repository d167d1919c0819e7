/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A connection: non-blocking transfer of messages and their descriptors over a socket.
 *
 * Descriptors are sent with the first byte of their message, in a separate sendmsg(). Reading stops at the
 * NUL of a message, so that descriptors that were received belong to that message; the rest stays in the
 * socket, and then with the peer. */

#include <sys/socket.h>

#include "varlink/varlink-internal.h"

#define READ_SIZE 16384U

/* --- Beginning and end --------------------------------------------------------------------------------- */

void link_init(Link *l, int fd)
{
        *l = (Link){.fd = fd, .out_end = &l->out};
}

/* The first queued message. */
static void drop_message(Link *l)
{
        LinkMessage *m = l->out;

        l->out = m->next;
        if (!l->out)
                l->out_end = &l->out;
        l->out_size -= m->size;
        fd_list_done(&m->fds);
        free(m);
}

void link_break(Link *l)
{
        while (l->out)
                drop_message(l);
        (void) shutdown(l->fd, SHUT_RDWR);
}

void link_done(Link *l)
{
        while (l->out)
                drop_message(l);
        fd_list_done(&l->in_fds);
        free(l->in);
        safe_close(l->fd);
        link_init(l, -EBADF);
}

/* --- Messages ------------------------------------------------------------------------------------------ */

/* Appends what can be read, but nothing after a NUL. Returns the number of bytes. */
static ssize_t read_some(Link *l)
{
        int fds[FD_LIST_MAX + 1];
        size_t n_fds = 0;
        int r = GREEDY_REALLOC(l->in, l->in_allocated, l->in_size + READ_SIZE);

        if (r < 0)
                return r;
        char *p = l->in + l->in_size;
        ssize_t n = recv(l->fd, p, READ_SIZE, MSG_PEEK | MSG_DONTWAIT);
        if (n <= 0)
                return n < 0 ? -errno : 0;
        n = recv_fds(l->fd, p, MIN(strnlen(p, (size_t) n) + 1, (size_t) n), fds, ELEMENTSOF(fds), &n_fds);
        for (size_t i = 0; i < n_fds; i++)
                r = fd_list_push(&l->in_fds, fds[i]) ?: r;
        return r < 0 ? r : n;
}

int link_receive(Link *l, json_object **ret, FdList *ret_fds)
{
        _cleanup_json_ json_object *o = NULL;
        ssize_t n = read_some(l);

        if (n <= 0)
                return (int) n;
        l->in_size += (size_t) n;
        bool complete = l->in[l->in_size - 1] == 0;
        size_t size = l->in_size - complete;
        if (size > VARLINK_MESSAGE_SIZE_MAX)
                return -EMSGSIZE;
        if (!complete)
                return -EAGAIN;
        int r = json_parse_bounded(l->in, size, VARLINK_DEPTH_MAX, VARLINK_VALUES_MAX, &o, NULL, NULL);
        if (r < 0 || !json_object_is_type(o, json_type_object))
                return r < 0 ? r : -EBADMSG;
        *ret = TAKE_PTR(o);
        *ret_fds = l->in_fds;
        l->in_fds.n = 0;
        free(TAKE_PTR(l->in)); /* an idle connection keeps no buffer */
        l->in_size = l->in_allocated = 0;
        return 1;
}

int link_flush(Link *l)
{
        int n = 0;

        while (l->out) {
                LinkMessage *m = l->out;
                ssize_t k = send_fds_some(l->fd, m->text + m->sent, m->size - m->sent, m->fds.fds, m->fds.n);
                if (k < 0)
                        return k == -EAGAIN ? n : (int) k;
                fd_list_done(&m->fds); /* sent with the first byte */
                m->sent += (size_t) k;
                if (m->sent < m->size)
                        continue;
                drop_message(l);
                n++;
        }
        return n;
}

int link_send(Link *l, json_object *message, FdList *fds)
{
        const char *text = json_print(message);

        if (!text)
                return -ENOMEM;
        size_t size = strlen(text);
        if (size > VARLINK_MESSAGE_SIZE_MAX)
                return -EMSGSIZE;
        if (l->out_size + size > VARLINK_QUEUE_MAX)
                return -ENOBUFS;
        LinkMessage *m = malloc(sizeof(LinkMessage) + size + 1);
        if (!m)
                return -ENOMEM;
        *m = (LinkMessage){.size = size + 1, .fds = *fds};
        memcpy(m->text, text, size + 1);
        fds->n = 0;
        *l->out_end = m;
        l->out_end = &m->next;
        l->out_size += m->size;
        return link_flush(l);
}

int message_add_parameters(json_object *message, json_object *parameters)
{
        return json_member_add(message, "parameters",
                               parameters ? json_object_get(parameters) : json_object_new_object());
}
