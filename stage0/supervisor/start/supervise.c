/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The supervisor's program, from its request to the end of the pod.
 *
 * Everything that can prevent a pod's start is checked here, so that it does not matter what has started the
 * supervisor: `acnspawn run`, which waits for a report, or a unit of the host. With a client in the
 * foreground the supervisor dies with it. A detached one keeps the client's standard streams until the pod
 * counts as running, for messages, and then closes everything of the client's. */

#include <sys/prctl.h>

#include "stage0/supervisor/start/foreground.h"

/* --- The request --------------------------------------------------------------------------------------- */

static int read_request(int fd, RunRequest *ret, Error *e)
{
        _cleanup_free_ char *text = calloc(1, RUN_REQUEST_SIZE_MAX);

        if (!text)
                return error_oom(e);
        ssize_t n = fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ? -errno : loop_read(fd, text, RUN_REQUEST_SIZE_MAX);
        if (n < 0)
                return error_set_errno(e, (int) n, "Cannot read the request from descriptor %d", fd);
        safe_close(fd);
        return run_request_parse(text, (size_t) n, ret, e);
}

/* If the client died before, behaves as if killed with it. */
static int bind_to_client(const RunRequest *q, Error *e)
{
        if (q->client <= 0 || q->options.detach)
                return 0;
        if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
                return error_set_errno(e, -errno, "Cannot watch the client");
        return getppid() == q->client ? 0 : error_set(e, -ECHILD, "The client has ended");
}

/* A client passes the whole UUID of a pod that it has looked up. */
static int open_pod(Store *s, const char *reference, RunRequest *q, Pod **ret, Error *e)
{
        _cleanup_(pod_freep) Pod *p = NULL;

        if (q->client <= 0)
                return pod_find(s, reference, ret, e);
        int r = pod_look(s, reference, &p, e);
        if (r < 0)
                return r;
        p->found_by_uuid = q->by_uuid;
        r = pod_load(p, e);
        if (r >= 0 && q->pod_fd >= 0) {
                r = pod_take_lock(p, q->pod_fd, e);
                if (r >= 0)
                        (void) TAKE_FD(q->pod_fd);
        }
        if (r < 0)
                return r;
        *ret = TAKE_PTR(p);
        return 0;
}

/* --- Running ------------------------------------------------------------------------------------------- */

/* Checked before the pod counts as running: so it can be run again once they are free. */
static int check_ports(const Pod *p, const PodSockets *sockets, Error *e)
{
        _cleanup_free_ ServedPort *served = NULL;
        size_t n_served = 0;

        if (pod_sockets_served(sockets, &served, &n_served) < 0)
                return error_oom(e);
        return network_check_ports(p, served, n_served, e);
}

/* A pod that was prepared by an earlier version has units that listen on its ports, instead of the supervisor. */
static void drop_socket_units(Pod *p)
{
        if (faccessat(p->dir_fd, "root/acnspawn/units/-.slice.d/sockets.conf", F_OK, AT_SYMLINK_NOFOLLOW) >=
            0)
                sweep_units(p);
}

/* What is needed once the pod counts as running is made before. So a full disk is found while the pod is still prepared: reserves of a pod that
 * was prepared long ago would let it run, until something else of its start cannot be written. */
static int begin(Pod *p, const RunOptions *o, PodSockets **ret_sockets, Error *e)
{
        PassedSockets none = {};

        if (p->state != POD_PREPARED)
                return pod_begin_run(p, e); /* with the reason why it cannot be run */
        int r = pod_isolators_check(p, e);
        if (r >= 0)
                r = library_load(&systemd_library, e);
        if (r >= 0)
                r = pod_sockets_new(p, o->sockets ?: &none, ret_sockets, e);
        if (r >= 0 && o->keep_unit)
                r = unit_keep(e);
        if (r >= 0 && (o->strict || p->config.strict))
                r = pod_require_isolators(p, o->config_dirs, o->keep_unit, e);
        if (r >= 0 && (o->strict || p->config.strict))
                r = pod_sockets_require_filter(p, *ret_sockets, e);
        if (r >= 0)
                r = check_ports(p, *ret_sockets, e);
        if (r >= 0)
                r = pod_lock_to_run(p, e);
        if (r >= 0)
                r = pod_reserve_records(p, e);
        if (r >= 0)
                r = pod_begin_run(p, e);
        if (r >= 0)
                drop_socket_units(p);
        return r;
}

static int leave_client(void)
{
        _cleanup_close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        if (null < 0 || chdir("/") < 0)
                return -errno;
        for (int fd = 0; fd <= 2; fd++)
                if (dup2(null, fd) < 0)
                        return -errno;
        return 0;
}

/* Mounts of the supervisor's own namespace must not count as mounts on the pod. */
static int remove_pod(Pod *p, const MountNamespace *host)
{
        _cleanup_error_ Error e = ERROR_NULL;

        if (p->config.name_from)
                pod_return_name(p);
        int r = mount_namespace_return(host);
        if (r >= 0)
                r = pod_release(p, NULL, &e);
        if (r >= 0)
                r = pod_remove(p, &e);
        if (r < 0)
                log_debug("Pod %s is not removed: %s", pod_display_name(p), e.message ?: strerror(-r));
        return r;
}

static int run(Pod *p, const RunOptions *o, ForegroundProxy *front, Error *e)
{
        _cleanup_(pod_sockets_freep) PodSockets *sockets = NULL;
        _cleanup_(mount_namespace_done) MountNamespace host = MOUNT_NAMESPACE_NULL;
        bool has_client = front->report_fd >= 0;

        (void) mount_namespace_open(&host); /* without it the pod is removed later */
        int r = begin(p, o, &sockets, e);
        if (r < 0)
                return r;
        if (o->detach) {
                r = leave_client();
                if (r < 0) {
                        (void) pod_end_run(p, NULL);
                        return error_set_errno(e, r, "Cannot leave the client's standard streams");
                }
        }
        int ready_fd = o->detach && has_client ? fcntl(front->report_fd, F_DUPFD_CLOEXEC, 3) : -EBADF;
        r = supervise_pod(p, o, sockets, ready_fd, has_client && !o->detach ? front : NULL, e);
        /* A client in the foreground removes the pod, and reports if that fails. */
        bool ours = !has_client || o->detach || front->report_fd < 0;
        if (o->remove && ours && host.fd >= 0 && remove_pod(p, &host) >= 0 && e->hint)
                (void) error_hint(e, e->code, "%s",
                                  "Without --rm the pod would be kept, for 'acnspawn status' and 'acnspawn "
                                  "logs' to show details.");
        return r;
}

static int supervise_request(const char *dir, const char *reference, Operation *operation, RunRequest *q,
                             Error *e)
{
        _cleanup_(pod_freep) Pod *p = NULL;
        _cleanup_(store_unrefp) Store *s = NULL;

        int r = bind_to_client(q, e);
        if (r >= 0)
                r = store_open(dir, operation, &s, e);
        if (r >= 0)
                r = open_pod(s, reference, q, &p, e);
        return r < 0 ? r : run(p, &q->options, &q->front, e);
}

int supervise(const char *dir, const char *reference, int request_fd, const RunOptions *options,
              Operation *operation, bool *ret_told, Error *e)
{
        _cleanup_(run_request_done) RunRequest q = RUN_REQUEST_NULL;

        if (request_fd >= 0) {
                int r = read_request(request_fd, &q, e);
                if (r < 0)
                        return r;
                log_set_max_level(q.log_level);
                q.options.sockets = &q.sockets;
                q.options.config_dirs = options->config_dirs;
        } else
                q.options = *options;
        /* When the client reads the report, this process has released the lock of the pod. */
        int r = supervise_request(dir, reference, operation, &q, e);
        if (q.front.report_fd >= 0) {
                (void) report_end(q.front.report_fd, r, e);
                *ret_told = true;
        } else
                *ret_told = q.client > 0;
        return r;
}
