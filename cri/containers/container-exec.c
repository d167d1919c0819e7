/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* ExecSync: runs a command beside a container, and returns its output in the reply. A reply has room for OUTPUT_MAX bytes of
 * both streams together. Further output is read and dropped, so that the command does not block; a last line of the standard
 * error then says so.
 *
 * The output may be held open by processes that go on after the command: those that it leaves in the background, or any of the container
 * that have got hold of it. The call does not wait for them: what the command itself has written is in the pipes when it has ended. */

#include <poll.h>

#include "cri/sandbox.h"

#define OUTPUT_MAX (16U * 1024U * 1024U - 4096U) /* of both streams: clients accept messages of 16 MiB */
#define USEC_PER_SEC UINT64_C(1000000)
#define DRAIN_USEC (2 * USEC_PER_SEC) /* of output after the end of the command */
#define POLL_MSEC 1000
#define TIMEOUT_MAX_SEC (INT64_C(100) * 366 * 24 * 3600)

typedef struct ExecOutput {
        int fd; /* -EBADF: it has ended */
        Text text;
        bool cut;
} ExecOutput;

static void outputs_close(ExecOutput *o)
{
        for (size_t i = 0; i < 2; i++) {
                o[i].fd = safe_close(o[i].fd);
                text_done(&o[i].text);
        }
}

/* Keeps at most ROOM bytes of the output that it reads. */
static int read_output(ExecOutput *o, size_t room)
{
        char chunk[65536];
        ssize_t n = read(o->fd, chunk, sizeof(chunk));

        if (n < 0 && (errno == EINTR || errno == EAGAIN))
                return 0;
        if (n <= 0) {
                o->fd = safe_close(o->fd);
                return (int) n < 0 ? -errno : 0;
        }
        text_add_bytes(&o->text, chunk, MIN((size_t) n, room));
        o->cut |= (size_t) n > room;
        return o->text.failed ? -ENOMEM : 0;
}

static bool output_is_over(const ExecOutput *o, uint64_t ended_usec)
{
        return ended_usec > 0 &&
               ((o[0].fd < 0 && o[1].fd < 0) || now_usec(CLOCK_MONOTONIC) >= ended_usec + DRAIN_USEC);
}

/* Until the command has ended, and its output as well, or as long as that is waited for. */
static int forward(CriJob *j, AcnPod *a, ExecOutput *o, AcnExecState *ret, Error *e)
{
        uint64_t ended_usec = 0; /* 0: the command runs */

        while (!output_is_over(o, ended_usec)) {
                struct pollfd fds[] = {{.fd = o[0].fd, .events = POLLIN},
                                       {.fd = o[1].fd, .events = POLLIN},
                                       {.fd = ended_usec > 0 ? -1 : acn_exec_fd(a), .events = POLLIN}};
                int r = poll(fds, ELEMENTSOF(fds), POLL_MSEC);
                if (r < 0 && errno != EINTR)
                        return error_set_errno(e, -errno, "Cannot wait for the command");
                r = operation_check(store_operation(j->store), e);
                for (size_t i = 0; r >= 0 && i < 2; i++)
                        if (fds[i].fd >= 0 && fds[i].revents) {
                                r = read_output(&o[i], OUTPUT_MAX - o[0].text.size - o[1].text.size);
                                if (r < 0)
                                        (void) error_set_errno(e, r,
                                                               "Cannot read the output of the command");
                        }
                if (r < 0)
                        return r;
                if (ended_usec == 0 && fds[2].revents) {
                        r = acn_exec_next(a, 0, ret, e);
                        if (r == 1)
                                safe_close(ret->process_fd);
                        if (r < 0 && r != -ETIMEDOUT)
                                return r;
                        if (r == 0)
                                ended_usec = now_usec(CLOCK_MONOTONIC);
                }
                error_done(e);
        }
        return 0;
}

/* The command's ends are those of OPTIONS. */
static int make_pipes(ExecOutput *o, AcnExecOptions *options, Error *e)
{
        for (size_t i = 0; i < 2; i++) {
                int fds[2];
                if (pipe2(fds, O_CLOEXEC) < 0)
                        return error_set_errno(e, -errno, "Cannot create a pipe");
                o[i].fd = fds[0];
                options->fds[1 + i] = fds[1];
                (void) fcntl(fds[0], F_SETFL, O_NONBLOCK);
        }
        return 0;
}

static int note_cut(ExecOutput *o)
{
        Text *t = &o[1].text;

        if (!o[0].cut && !o[1].cut)
                return 0;
        text_addf(t, "%sacnspawn: the output is longer than %u bytes, and was truncated\n",
                  t->size > 0 && t->data[t->size - 1] != '\n' ? "\n" : "", OUTPUT_MAX);
        return t->failed ? -ENOMEM : 0;
}

static void set_output(ProtobufCBinaryData *ret, CriJob *j, const Text *t)
{
        *ret = (ProtobufCBinaryData){.data = cri_alloc(&j->memory, t->size), .len = t->size};
        if (ret->data && t->size > 0)
                memcpy(ret->data, t->data, t->size);
}

static int exec(CriJob *j, const Container *c, const Runtime__V1__ExecSyncRequest *q,
                Runtime__V1__ExecSyncResponse *answer, Error *e)
{
        _cleanup_(acn_disconnectp) AcnPod *a = NULL;
        ExecOutput outputs[2] = {{.fd = -EBADF}, {.fd = -EBADF}};
        AcnExecState state = {.process_fd = -EBADF, .terminal_fd = -EBADF};
        char **argv = cri_alloc(&j->memory, (q->n_cmd + 1) * sizeof(char *));
        AcnExecOptions o = {.app = c->app->name, .argv = argv, .fds = {-EBADF, -EBADF, -EBADF}};

        if (!argv)
                return error_oom(e);
        memcpy(argv, q->cmd, q->n_cmd * sizeof(char *));
        if (q->timeout > 0)
                o.timeout_usec = (uint64_t) MIN(q->timeout, TIMEOUT_MAX_SEC) * USEC_PER_SEC;
        int r = acn_connect(c->sandbox->pod, &a, e);
        if (r >= 0)
                r = make_pipes(outputs, &o, e);
        if (r >= 0)
                r = acn_exec(a, &o, e);
        if (r >= 0)
                r = forward(j, a, outputs, &state, e);
        if (r >= 0 && state.timed_out)
                r = error_set(e, -ETIME, "The command did not end within %" PRId64 " s, and was killed",
                              q->timeout);
        if (r >= 0) {
                answer->exit_code = state.exit_code;
                if (note_cut(outputs) < 0)
                        r = error_oom(e);
                set_output(&answer->stdout, j, &outputs[0].text);
                set_output(&answer->stderr, j, &outputs[1].text);
                if (r >= 0 && (!answer->stdout.data || !answer->stderr.data))
                        r = error_oom(e);
        }
        outputs_close(outputs);
        return r;
}

int cri_exec_sync(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__ExecSyncRequest *q = request;
        _cleanup_sandbox_ Sandbox s = {};
        Container c;

        if (q->n_cmd == 0)
                return error_set(e, -EINVAL, "The request has no command");
        int r = container_find(j, q->container_id, &s, &c, e);
        if (r < 0)
                return r;
        if (!sandbox_is_ready(&s))
                return cri_status(j, GRPC_FAILED_PRECONDITION,
                                  error_set(e, -ESRCH, "Sandbox %s is not ready", s.id));
        r = exec(j, &c, q, reply, e);
        return r == -ESRCH ? cri_status(j, GRPC_FAILED_PRECONDITION, r) : r;
}
