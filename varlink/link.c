/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A connection: non-blocking transfer of messages and their descriptors over a socket.
 *
 * Descriptors are sent with the first byte of their message, in a separate sendmsg(). Reading stops at the
 * NUL of a message, so that descriptors that were received belong to that message; the rest stays in the
 * socket, and then with the peer. */

#include <sys/socket.h>

#include "varlink/varlink-internal.h"

#define READ_SIZE 16384U

/* --- Descriptors --------------------------------------------------------------------------------------- */

void varlink_fds_done(VarlinkFds *f)
{
        for (size_t i = 0; i < f->n; i++)
                safe_close(f->fds[i]);
        f->n = 0;
}

int varlink_fds_push(VarlinkFds *f, int fd)
{
        if (fd < 0)
                return -EBADF;
        if (f->n == VARLINK_FDS_MAX) {
                safe_close(fd);
                return -E2BIG;
        }
        f->fds[f->n++] = fd;
        return 0;
}

int varlink_fds_take(VarlinkFds *f, size_t i)
{
        return i >= f->n || f->fds[i] < 0 ? -ENXIO : TAKE_FD(f->fds[i]);
}

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
        varlink_fds_done(&m->fds);
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
        varlink_fds_done(&l->in_fds);
        free(l->in);
        safe_close(l->fd);
        link_init(l, -EBADF);
}

/* --- Messages ------------------------------------------------------------------------------------------ */

static int parse_message(Link *l, json_object **ret, VarlinkFds *ret_fds)
{
        _cleanup_json_ json_object *o = NULL;
        int r = json_parse_bounded(l->in, l->in_size - 1, VARLINK_DEPTH_MAX, VARLINK_VALUES_MAX, &o, NULL,
                                   NULL);

        if (r < 0)
                return r;
        if (!json_object_is_type(o, json_type_object))
                return -EBADMSG;
        *ret = TAKE_PTR(o);
        *ret_fds = l->in_fds;
        l->in_fds.n = 0;
        l->in = (free(l->in), NULL);
        l->in_size = l->in_allocated = 0;
        return 1;
}

int link_receive(Link *l, json_object **ret, VarlinkFds *ret_fds)
{
        int fds[VARLINK_FDS_MAX + 1];
        size_t n_fds = 0;
        int r = GREEDY_REALLOC(l->in, l->in_allocated, l->in_size + READ_SIZE);

        if (r < 0)
                return r;
        char *p = l->in + l->in_size;
        ssize_t n = recv(l->fd, p, READ_SIZE, MSG_PEEK | MSG_DONTWAIT);
        if (n <= 0)
                return n < 0 ? -errno : 0;
        const char *nul = memchr(p, 0, (size_t) n);
        n = recv_fds(l->fd, p, nul ? (size_t) (nul - p) + 1 : (size_t) n, fds, ELEMENTSOF(fds), &n_fds);
        if (n <= 0)
                return (int) n;
        for (size_t i = 0; i < n_fds; i++)
                if (varlink_fds_push(&l->in_fds, fds[i]) < 0)
                        r = -E2BIG;
        l->in_size += (size_t) n;
        if (r < 0)
                return r;
        if (l->in_size - (p[n - 1] == 0) > VARLINK_MESSAGE_SIZE_MAX)
                return -EMSGSIZE;
        return p[n - 1] == 0 ? parse_message(l, ret, ret_fds) : -EAGAIN;
}

int link_flush(Link *l)
{
        int n = 0;

        while (l->out) {
                LinkMessage *m = l->out;
                ssize_t k = send_fds_some(l->fd, m->text + m->sent, m->size - m->sent, m->fds.fds, m->fds.n);
                if (k < 0)
                        return k == -EAGAIN ? n : (int) k;
                varlink_fds_done(&m->fds); /* sent with the first byte */
                m->sent += (size_t) k;
                if (m->sent < m->size)
                        continue;
                drop_message(l);
                n++;
        }
        return n;
}

int link_send(Link *l, json_object *message, VarlinkFds *fds)
{
        size_t size;
        const char *text = json_object_to_json_string_length(
                        message, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &size);

        if (!text)
                return -ENOMEM;
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

bool message_get(json_object *message, const char *key, json_type type, json_object **ret)
{
        *ret = json_object_object_get(message, key);
        return !*ret || json_object_is_type(*ret, type);
}

json_object *message_one_string(const char *key, const char *value)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        return json_member_add_text(o, key, value) < 0 ? NULL : TAKE_PTR(o);
}
