/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Connections to the interface of a running pod, and calls on them.
 *
 * The socket is named by the descriptor of the pod directory, so the pod cannot be mistaken for another, and
 * its path can be of any length. A supervisor that does not reply at all is distinguished from one that
 * executes a long operation: before calls of the latter kind the connection is checked with one that is
 * answered at once. */

#include <sys/socket.h>

#include "stage0/api/api-internal.h"

#define SOCKET_NAME "interface"
#define FORMER_SOCKET_NAME "control" /* for supervisors that may be older than the interface */

#define CONNECT_STEPS 50U
#define CONNECT_STEP_USEC 20000U
#define REPEAT_STEP_MSEC 20
#define START_USEC (10 * UINT64_C(1000000)) /* for the pod's systemd to become reachable */
#define SETTLE_USEC (2 * UINT64_C(1000000)) /* for a new process to be moved into its cgroup */

int acn_connection_error(AcnPod *a, int r, Error *e)
{
        const char *name = pod_display_name(a->pod);

        if (operation_ended(r))
                return operation_check(pod_operation(a->pod), e) ?: error_set(e, r, "Interrupted");
        if (r == -ENOMEM)
                return error_set_errno(e, r, "Cannot wait for the supervisor of pod %s", name);
        if (r == -ETIMEDOUT) {
                r = error_set(e, r, "The supervisor of pod %s does not respond", name);
                return error_hint(e, r, "'acnspawn stop --force %s' kills the pod.", name);
        }
        if (r == -EBADMSG || r == -EPROTO)
                return error_set_errno(e, r, "The supervisor of pod %s sent an invalid reply", name);
        r = error_set(e, -ECONNRESET, "Pod %s has ended, or is about to", name);
        return error_hint(e, r, "'acnspawn status %s' shows how it ended.", name);
}

/* --- Connecting ---------------------------------------------------------------------------------------- */

static int has_ended(Pod *p, Error *e)
{
        int r = error_set(e, -ESRCH, "Pod %s is not running: it has ended", pod_display_name(p));

        return error_hint(e, r, "'acnspawn status %s' shows how it ended.", pod_display_name(p));
}

static int no_interface(Pod *p, int r, Error *e)
{
        const char *name = pod_display_name(p);

        if (r == -ENOENT && faccessat(p->dir_fd, FORMER_SOCKET_NAME, F_OK, 0) >= 0)
                r = error_set(e, -EOPNOTSUPP,
                              "Pod %s is run by an earlier version of acnspawn, which has no interface",
                              name);
        else if (r == -ENOENT)
                r = error_set(e, -EAGAIN, "Pod %s is still starting", name);
        else
                r = error_set_errno(e, r, "Cannot reach the supervisor of pod %s", name);
        return error_hint(e, r, "'acnspawn stop --force %s' kills the pod.", name);
}

static int connect_client(Pod *p, VarlinkClient **ret)
{
        int fd;
        int r = socket_connect_at(p->dir_fd, SOCKET_NAME, SOCK_STREAM, &fd);

        return r < 0 ? r : varlink_client_new(fd, pod_operation(p), ret);
}

int acn_connect(Pod *p, AcnPod **ret, Error *e)
{
        _cleanup_(acn_disconnectp) AcnPod *a = NULL;

        if (p->state != POD_RUNNING)
                return pod_not_running(p, e);
        a = calloc(1, sizeof(AcnPod));
        if (!a)
                return error_oom(e);
        *a = (AcnPod){.pod = p, .answer_usec = ACN_ANSWER_USEC};
        for (unsigned i = 0;; i++) {
                int r = connect_client(p, &a->client);
                if (r >= 0) {
                        *ret = TAKE_PTR(a);
                        return 0;
                }
                if ((r != -ENOENT && r != -ECONNREFUSED) || i >= CONNECT_STEPS)
                        return no_interface(p, r, e);
                if (pod_wait(p, CONNECT_STEP_USEC, NULL) >= 0)
                        return has_ended(p, e);
        }
}

AcnPod *acn_disconnect(AcnPod *a)
{
        if (!a)
                return NULL;
        varlink_client_free(a->client);
        free(a->app);
        free(a);
        return NULL;
}

/* --- Calls --------------------------------------------------------------------------------------------- */

static int make_parameters(const AcnCall *c, json_object **ret)
{
        _cleanup_json_ json_object *o = NULL;

        if (c->parameters && json_object_deep_copy(c->parameters, &o, NULL) < 0)
                return -ENOMEM;
        if (!o)
                o = json_object_new_object();
        if ((c->app && json_member_add_text(o, "app", c->app) < 0) ||
            (c->key && json_member_add(o, c->key, json_object_new_int64(c->value)) < 0))
                return -ENOMEM;
        *ret = TAKE_PTR(o);
        return *ret ? 0 : -ENOMEM;
}

/* Whether the supervisor replies at all. */
static int check_answers(AcnPod *a, Error *e)
{
        _cleanup_(varlink_reply_done) VarlinkReply reply = {};

        int r = varlink_client_call(a->client, "org.varlink.service.GetInfo", NULL, a->answer_usec, &reply,
                                    NULL);
        if (r < 0)
                return acn_connection_error(a, r, e);
        return streq_ptr(reply.error, VARLINK_TOO_MANY_CONNECTIONS) ? acn_too_many(a, &reply, e) : 0;
}

static int wait_for_reply(AcnPod *a, const AcnCall *c, VarlinkReply *ret)
{
        uint64_t timeout_usec = c->timeout_usec ?: a->answer_usec;

        if (c->late_usec == 0 || c->late_usec >= timeout_usec)
                return varlink_client_next(a->client, timeout_usec, ret, NULL);
        int r = varlink_client_next(a->client, c->late_usec, ret, NULL);
        if (r != -ETIMEDOUT)
                return r;
        c->on_late(c->userdata);
        if (timeout_usec != UINT64_MAX)
                timeout_usec -= c->late_usec;
        return varlink_client_next(a->client, timeout_usec, ret, NULL);
}

static int try_call(AcnPod *a, const AcnCall *c, const char *method, json_object *parameters,
                    VarlinkReply *ret, Error *e)
{
        _cleanup_(varlink_reply_done) VarlinkReply reply = {};

        int r = varlink_client_send(a->client, method, parameters, false, NULL);
        if (r >= 0)
                r = wait_for_reply(a, c, &reply);
        if (r < 0)
                return acn_connection_error(a, r, e);
        if (reply.error)
                return acn_refusal(a, c, &reply, e);
        if (ret) {
                *ret = reply;
                reply = (VarlinkReply){};
        }
        return 0;
}

/* Whether the call was refused for a temporary reason. */
static bool may_repeat(int r, uint64_t begin)
{
        uint64_t limit = r == -EAGAIN ? START_USEC : r == -EREMCHG ? SETTLE_USEC : 0;

        return limit > 0 && now_usec(CLOCK_MONOTONIC) - begin < limit;
}

int acn_call(AcnPod *a, const AcnCall *c, VarlinkReply *ret, Error *e)
{
        uint64_t begin = now_usec(CLOCK_MONOTONIC);
        _cleanup_json_ json_object *parameters = NULL;
        char method[64];

        snprintf(method, sizeof(method), "org.acnspawn.Pod.%s", c->method);
        int r = make_parameters(c, &parameters);
        if (r < 0)
                return error_oom(e);
        if (c->timeout_usec == UINT64_MAX || c->checks) {
                r = check_answers(a, e);
                if (r < 0)
                        return r;
        }
        for (;;) {
                r = try_call(a, c, method, parameters, ret, e);
                if (!may_repeat(r, begin))
                        return r == -EREMCHG ? -EPERM : r;
                error_done(e);
                r = operation_poll(pod_operation(a->pod), -1, 0, REPEAT_STEP_MSEC, e);
                if (r < 0)
                        return acn_connection_error(a, r, e);
        }
}
