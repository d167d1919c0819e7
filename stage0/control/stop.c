/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Ends a running pod: by a shutdown, or by force, through its supervisor; and by its cgroup if the
 * supervisor does not respond. If all connections of its interface are in use, the supervisor gets the request as a
 * signal.
 *
 * The supervisor releases the lock of the pod a moment before its process ends: stop_pod() waits for the process, too, so
 * that nothing of the pod is left. */

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>

#include "stage0/api/acn.h"
#include "stage0/control/control-internal.h"
#include "stage0/host/freezer.h"

/* For a supervisor that did not respond: it may be running network plugins, each of which has a timeout. */
#define SILENT_USEC (300 * UINT64_C(1000000))
/* With UINT64_MAX pod_wait() sleeps, and ends for signals only. */
#define UNTIL_OPERATION_ENDS (UINT64_MAX - 1)
#define EXIT_MSEC 10000             /* for a supervisor that has released the lock */
#define LATE_USEC UINT64_C(2000000) /* before a message says what it waits for */
#define END_USEC UINT64_C(2000000)  /* for a pod to end by itself, before it is killed */

/* -EBADF: its number is not known, or may be that of another process by now. */
static int open_supervisor(Pod *p)
{
        PodRuntime runtime = {};

        if (pod_runtime_read(p, &runtime) < 0 || runtime.supervisor <= 0)
                return -EBADF;
        _cleanup_close_ int fd = (int) syscall(SYS_pidfd_open, runtime.supervisor, 0);
        return fd >= 0 && pod_wait(p, 0, NULL) == -ETIME ? TAKE_FD(fd) : -EBADF;
}

static void wait_for_exit(int pid_fd)
{
        struct pollfd poll_fd = {.fd = pid_fd, .events = POLLIN};

        if (pid_fd >= 0)
                (void) poll(&poll_fd, 1, EXIT_MSEC);
}

/* Also releases the pod's objects of the host's systemd. A supervisor that has answered is waited for until the operation ends. */
static int wait_for_end(Pod *p, bool silent, Error *e)
{
        PodRuntime runtime = {};
        int r = pod_wait(p, silent ? SILENT_USEC : UNTIL_OPERATION_ENDS, e);

        if (r == -ETIME && operation_check(pod_operation(p), NULL) >= 0 &&
            pod_runtime_read(p, &runtime) >= 0) {
                r = error_set(e, r, "The processes of pod %s were killed, but its supervisor does not end",
                              pod_display_name(p));
                return error_hint(e, r, "It is process %d.", (int) runtime.supervisor);
        }
        if (r >= 0)
                pod_cgroup_wait_for_scope(p);
        return r;
}

/* --- What is waited for -------------------------------------------------------------------------------- */

static int list_running(Pod *p, char ***ret)
{
        _cleanup_(acn_disconnectp) AcnPod *a = NULL;
        _cleanup_(acn_description_done) AcnDescription d = {};

        int r = acn_connect(p, &a, NULL);
        if (r >= 0)
                r = acn_describe(a, &d, NULL);
        for (size_t i = 0; r >= 0 && i < d.n_apps; i++)
                if (d.apps[i].state >= ACN_APP_STARTING && d.apps[i].state <= ACN_APP_STOPPING)
                        r = strv_extend(ret, d.apps[i].name);
        return r;
}

typedef struct Wait {
        Pod *pod;
        uint64_t timeout_usec;
} Wait;

static void report_running(void *userdata)
{
        _cleanup_strv_free_ char **running = NULL;
        const Wait *w = userdata;
        const char *pod = pod_display_name(w->pod);
        char limit[64] = "";

        if (list_running(w->pod, &running) < 0) /* the pod has just ended */
                return;
        _cleanup_free_ char *names = strv_join(running, ", ");
        size_t n = strv_length(running);
        if (w->timeout_usec != UINT64_MAX)
                snprintf(limit, sizeof(limit), ", which is killed after %" PRIu64 " s",
                         w->timeout_usec / UINT64_C(1000000));
        operation_message(
                        pod_operation(w->pod), LOG_LEVEL_INFO,
                        "Waiting for %s%s of pod %s to end%s; 'acnspawn stop --force %s' kills it at once.",
                        n == 0   ? "the systemd"
                        : n == 1 ? "app "
                                 : "apps ",
                        names ?: "", pod, limit, pod);
}

/* --- Ending -------------------------------------------------------------------------------------------- */

/* 1: it was killed, 0: it has ended. */
static int ask_supervisor(Pod *p, uint64_t timeout_usec, bool checks, Error *e)
{
        _cleanup_(acn_disconnectp) AcnPod *a = NULL;
        Wait w = {p, timeout_usec};
        const AcnWaitOptions options = {
                        .checks = checks, .usec = LATE_USEC, .on_late = report_running, .userdata = &w};
        bool killed = false;

        int r = acn_connect(p, &a, e);
        if (r < 0)
                return r;
        r = acn_stop(a, timeout_usec, timeout_usec > 0 ? &options : NULL, &killed, e);
        return r < 0 ? r : killed;
}

/* A supervisor without an interface has usually started nothing that could be killed: a request to kill is sent as soon as
 * it has one. */
static int ask_when_started(Pod *p, uint64_t timeout_usec, bool checks, Error *e)
{
        uint64_t end = now_usec(CLOCK_MONOTONIC) + SILENT_USEC;

        for (;;) {
                int r = ask_supervisor(p, timeout_usec, checks, e);
                if (r != -EAGAIN || timeout_usec > 0 || now_usec(CLOCK_MONOTONIC) >= end)
                        return r;
                error_done(e);
                (void) pod_cgroup_kill(p, NULL);
                r = operation_check(pod_operation(p), e);
                if (r < 0)
                        return r;
        }
}

/* A stop in order takes at most this long; after that the pod's systemd, or the kernel, hangs. */
static uint64_t configured_timeout(Pod *p)
{
        return p->manifest || pod_load(p, NULL) >= 0 ? pod_stop_timeout(p) : UINT64_MAX;
}

static bool is_disconnected(int r)
{
        return r == -ESRCH || r == -ECONNRESET;
}

/* The supervisor has not answered: the pod is about to end by itself (ENDS), or the supervisor gets a SIGTERM. It also
 * gets one if the pod does not end: the supervisor also closes idle connections to make room for new ones. -ETIMEDOUT: the
 * pod has not ended within TIMEOUT_USEC. */
static int wait_without_reply(Pod *p, int supervisor_fd, bool ends, uint64_t timeout_usec, Error *e)
{
        if (ends && timeout_usec > 0 && pod_wait(p, MIN(timeout_usec, END_USEC), NULL) >= 0)
                return 0;
        if (timeout_usec > 0 && supervisor_fd >= 0)
                (void) process_signal(supervisor_fd, SIGTERM);
        int r = pod_wait(p, timeout_usec > 0 ? timeout_usec : ends ? END_USEC : 0, e);
        if (r == -ETIME && operation_check(pod_operation(p), NULL) >= 0)
                return -ETIMEDOUT;
        return r < 0 ? r : timeout_usec == 0;
}

int stop_pod(Pod *p, uint64_t timeout_usec, Error *e)
{
        bool configured = timeout_usec == STOP_AS_CONFIGURED;

        if (p->state != POD_RUNNING)
                return pod_not_running(p, e);
        int k = pod_thaw(p, e); /* its supervisor may be frozen with it */
        if (k < 0)
                return k;
        if (configured)
                timeout_usec = configured_timeout(p);
        _cleanup_close_ int supervisor_fd = open_supervisor(p);
        bool late = false;
        int killed = ask_when_started(p, timeout_usec, configured, e);
        if (is_disconnected(killed) || (killed == -EXFULL && (supervisor_fd >= 0 || timeout_usec == 0))) {
                error_done(e);
                killed = wait_without_reply(p, supervisor_fd, is_disconnected(killed), timeout_usec, e);
                late = killed == -ETIMEDOUT;
        }
        bool silent = killed == -ETIMEDOUT || (killed == -EAGAIN && timeout_usec == 0);
        bool by_force = timeout_usec == 0 || (silent && (late || !configured) && timeout_usec != UINT64_MAX);
        if (killed < 0 && (operation_ended(killed) || !by_force))
                return killed;
        if (killed < 0) {
                error_done(e);
                int r = pod_cgroup_kill(p, e);
                if (r < 0)
                        return r;
                killed = 1;
        }
        int r = wait_for_end(p, silent, e);
        if (r < 0)
                return r;
        wait_for_exit(supervisor_fd);
        return killed;
}

static int remove_ended(Pod *p, Error *e)
{
        int r = pod_release(p, NULL, e);

        return r < 0 ? r : pod_remove(p, e);
}

int discard_pod(Pod *p, Error *e)
{
        _cleanup_(pod_freep) Pod *ended = NULL;

        if (p->state != POD_RUNNING)
                return remove_ended(p, e);
        int r = stop_pod(p, STOP_AS_CONFIGURED, e);
        if (r > 0)
                operation_message(pod_operation(p), LOG_LEVEL_WARNING,
                                  "Pod %s had not ended in time, and was killed.", pod_display_name(p));
        if (r >= 0)
                r = pod_open(p->store, p->uuid, &ended, e);
        if (r >= 0)
                r = remove_ended(ended, e);
        if (r != -ENOENT)
                return r;
        error_done(e); /* `run --rm` was faster */
        return 0;
}
