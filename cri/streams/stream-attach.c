/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The standard streams of a container, as a client's. The container goes on when the client goes. */

#include <sys/ioctl.h>

#include "cri/streams/streams.h"

typedef struct Attach {
        AcnPod *connection;
        Pod *pod; /* for other calls while CONNECTION waits; a connection kept for them could be closed as idle */
        Session *session;
        int64_t id; /* 0: it is not attached yet */
        struct winsize size;
        bool stdin_once;
        bool input_ended; /* the client's input ended before the attach was done */
        AcnAttachState state;
        Error *error;
} Attach;

static void set_size(const Attach *x)
{
        _cleanup_(acn_disconnectp) AcnPod *other = NULL;

        if (x->id != 0 && x->size.ws_row > 0 && acn_connect(x->pod, &other, NULL) >= 0)
                (void) acn_resize_terminal(other, x->id, &x->size, NULL);
}

static void on_resized(uint16_t rows, uint16_t columns, void *userdata)
{
        Attach *x = userdata;

        x->size = (struct winsize){.ws_row = rows, .ws_col = columns};
        set_size(x);
}

/* The input of a container goes on after that of a client, unless it is for one client. */
static void on_input_ended(void *userdata)
{
        _cleanup_(acn_disconnectp) AcnPod *other = NULL;
        Attach *x = userdata;

        x->input_ended = true;
        if (x->stdin_once && x->id != 0 && acn_connect(x->pod, &other, NULL) >= 0)
                (void) acn_close_stdin(other, x->id, NULL);
}

static int on_state(void *userdata)
{
        Attach *x = userdata;

        int r = acn_attach_next(x->connection, 0, &x->state, x->error);
        if (r == -ETIMEDOUT) {
                error_done(x->error);
                return 1;
        }
        if (r == 1 && x->id == 0) {
                x->id = x->state.id;
                set_size(x);
                if (x->input_ended)
                        on_input_ended(x);
        }
        return r;
}

static int attach(Attach *x, const Sandbox *s, const Container *c, const Runtime__V1__AttachRequest *q,
                  Error *e)
{
        AcnAttachOptions o = {.app = c->app->name, .fds = {-EBADF, -EBADF, -EBADF}};
        const bool wanted[] = {q->stdin, q->stdout, q->stderr};

        x->pod = s->pod;
        int r = acn_connect(s->pod, &x->connection, e);
        if (r >= 0)
                r = session_add_pipes(x->session, wanted, o.fds, e);
        return r < 0 ? r : acn_attach(x->connection, &o, e);
}

int cri_stream_attach(CriJob *j, Session *session, const void *request, int *ret_exit, Error *e)
{
        const Runtime__V1__AttachRequest *q = request;
        _cleanup_sandbox_ Sandbox s = {};
        Attach x = {.session = session, .error = e};
        Container c;

        int r = container_find(j, q->container_id, &s, &c, e);
        if (r >= 0) {
                x.stdin_once = c.config->stdin_once;
                r = attach(&x, &s, &c, q, e);
        }
        if (r >= 0) {
                const SessionHandler h = {.fd = acn_exec_fd(x.connection),
                                          .ready = on_state,
                                          .input_ended = on_input_ended,
                                          .resized = on_resized,
                                          .userdata = &x};
                r = session_run(session, &h);
        }
        acn_disconnect(x.connection);
        return r;
}
