/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Requests the app's launch file, root, /dev and volumes from the supervisor, outside of the pod, and reports events:
 * one packet for the request or the event, one for the reply. */

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "stage1/launch/launch.h"

static int connect_to_stage0(Failure *f)
{
        static const struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = LAUNCH_SOCKET_PATH};
        _cleanup_close_ int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        if (sock < 0)
                return failure_set_errno(f, CAUSE_SETUP, -errno, "Cannot create a socket");
        if (connect(sock, (const struct sockaddr *) &address, sizeof(address)) < 0)
                return failure_set_errno(f, CAUSE_SETUP, -errno,
                                         "Cannot reach the pod's supervisor at " LAUNCH_SOCKET_PATH);
        return TAKE_FD(sock);
}

static int read_launch_file(Launch *l, int fd, Failure *f)
{
        _cleanup_free_ char *data = NULL;
        size_t size;
        int r = read_fd_bounded(fd, LAUNCH_FILE_SIZE_MAX, &data, &size);

        if (r >= 0)
                r = launch_config_parse(data, size, &l->config);
        if (r < 0)
                return failure_set_errno(f, CAUSE_SETUP, r, "Cannot read the launch file of app %s", l->app);
        return 0;
}

static int take_descriptors(Launch *l, const LaunchReply *reply, int *fds, size_t n, Failure *f)
{
        int r = 0;

        l->stdout_fd = TAKE_FD(fds[LAUNCH_FD_STDOUT]);
        l->stderr_fd = TAKE_FD(fds[LAUNCH_FD_STDERR]);
        l->root_fd = TAKE_FD(fds[LAUNCH_FD_ROOT]);
        l->pts_fd = TAKE_FD(fds[LAUNCH_FD_PTS]);
        l->dev_fd = TAKE_FD(fds[LAUNCH_FD_DEV]);
        if (reply->input != LAUNCH_INPUT_NULL)
                l->stdin_fd = TAKE_FD(fds[--n]);
        l->terminal = reply->input == LAUNCH_INPUT_TERMINAL;
        if (reply->has_report)
                r = report_map(l, fds[--n], f);
        if (r < 0)
                return r;
        if (reply->has_notify)
                l->notify_fd = TAKE_FD(fds[--n]);
        if (reply->has_maker)
                l->maker_fd = TAKE_FD(fds[--n]);
        if (l->has_credentials)
                l->credentials_fd = TAKE_FD(fds[--n]);
        l->n_volumes = n - LAUNCH_FD_VOLUMES;
        l->volume_fds = calloc(l->n_volumes + 1, sizeof(int));
        if (!l->volume_fds)
                return failure_set(f, CAUSE_SETUP, -ENOMEM, "Out of memory");
        for (size_t i = 0; i < l->n_volumes; i++)
                l->volume_fds[i] = TAKE_FD(fds[LAUNCH_FD_VOLUMES + i]);
        return read_launch_file(l, fds[LAUNCH_FD_FILE], f);
}

static int take_reply(Launch *l, LaunchReply *reply, int *fds, size_t n_fds, Failure *f)
{
        reply->text[sizeof(reply->text) - 1] = 0;
        if (reply->error < 0)
                return error_set(&f->error, reply->error, "%s", reply->text);
        l->has_credentials = reply->has_credentials > 0;
        if (n_fds < LAUNCH_FD_VOLUMES ||
            n_fds - LAUNCH_FD_VOLUMES !=
                            reply->n_volumes + l->has_credentials + (reply->has_maker ? 1U : 0U) +
                                            (reply->has_notify ? 1U : 0U) + (reply->has_report ? 1U : 0U) +
                                            (reply->input != LAUNCH_INPUT_NULL ? 1U : 0U))
                return failure_set_errno(f, CAUSE_SETUP, -EBADMSG,
                                         "The pod's supervisor sent %zu descriptors", n_fds);
        l->modules = reply->modules;
        l->processes = reply->processes;
        l->metadata_url = strdup(reply->text);
        reply->terminal_type[sizeof(reply->terminal_type) - 1] = 0;
        l->terminal_type = strdup(reply->terminal_type);
        reply->identity[sizeof(reply->identity) - 1] = 0;
        if (reply->identity[0])
                l->identity = strdup(reply->identity);
        if (!l->metadata_url || !l->terminal_type || (reply->identity[0] && !l->identity))
                return failure_set(f, CAUSE_SETUP, -ENOMEM, "Out of memory");
        int r = take_descriptors(l, reply, fds, n_fds, f);
        if (r < 0)
                return r;
        if (strv_length(l->config.mounts) != l->n_volumes)
                return failure_set(f, CAUSE_SETUP, -EBADMSG,
                                   "The launch file of app %s has %zu volumes, but %zu were received",
                                   l->app, strv_length(l->config.mounts), l->n_volumes);
        return 0;
}

/* APP is NULL with LAUNCH_FLUSH. */
static int send_request(const char *app, int sock, LaunchPhase phase, const int *streams, size_t n_streams)
{
        LaunchRequest request = {.version = LAUNCH_PROTOCOL_VERSION, .phase = phase};

        if (app && strlen(app) >= sizeof(request.app))
                return -ENAMETOOLONG;
        memcpy(request.app, app ?: "", app ? strlen(app) : 0);
        return send_fds(sock, &request, sizeof(request), streams, n_streams);
}

/* stage0 closes silent connections when there are too many: that happened before it received this packet,
 * which can be sent again: -ECONNABORTED. */
#define ATTEMPTS_MAX 50
#define AGAIN_USEC 20000U

static bool is_disconnect(ssize_t n)
{
        return n == 0 || n == -ECONNRESET || n == -EPIPE;
}

static int request_once(Launch *l, const int streams[static _LAUNCH_STREAM_MAX], Failure *f)
{
        int fds[LAUNCH_FDS_MAX];
        LaunchReply reply = {};
        size_t n_fds = 0;
        _cleanup_close_ int sock = connect_to_stage0(f);

        if (sock < 0)
                return sock;
        f->cause = CAUSE_SETUP;
        int r = send_request(l->app, sock, l->phase, streams, _LAUNCH_STREAM_MAX);
        if (r < 0) {
                (void) failure_set_errno(f, CAUSE_SETUP, r,
                                         "Cannot request the root of app %s from the pod's supervisor",
                                         l->app);
                return is_disconnect(r) ? -ECONNABORTED : r;
        }

        ssize_t n = recv_fds(sock, &reply, sizeof(reply), fds, ELEMENTSOF(fds), &n_fds);
        if (n != (ssize_t) sizeof(reply)) {
                r = failure_set_errno(f, CAUSE_SETUP, n < 0 ? (int) n : -EBADMSG,
                                      "No answer from the pod's supervisor");
                r = is_disconnect(n) ? -ECONNABORTED : r;
        } else
                r = take_reply(l, &reply, fds, n_fds, f);
        if (r >= 0 && reply.n_sockets > 0)
                r = sockets_receive(l, sock, reply.n_sockets, f);
        for (size_t i = 0; i < n_fds; i++)
                safe_close(fds[i]);
        if (r >= 0 && l->phase == LAUNCH_MAIN)
                l->link_fd = TAKE_FD(sock);
        return r;
}

int launch_request(Launch *l, const int streams[static _LAUNCH_STREAM_MAX], Failure *f)
{
        for (unsigned i = 1;; i++) {
                int r = request_once(l, streams, f);
                if (r != -ECONNABORTED || i == ATTEMPTS_MAX)
                        return r;
                error_done(&f->error);
                (void) usleep(AGAIN_USEC);
        }
}

/* --- Questions and events ------------------------------------------------------------------------------ */

static int connect_quietly(void)
{
        Failure f = {};
        int sock = connect_to_stage0(&f);

        error_done(&f.error);
        return sock;
}

int launch_ask_begin(Launch *l, LaunchPhase what)
{
        _cleanup_close_ int sock = connect_quietly();

        if (sock < 0)
                return sock;
        int r = send_request(l->app, sock, what, NULL, 0);
        return r >= 0 ? TAKE_FD(sock) : is_disconnect(r) ? -ECONNABORTED : r;
}

static int read_answer(int sock, uint64_t *ret_value)
{
        LaunchReply reply;
        ssize_t n = recv(sock, &reply, sizeof(reply), 0);

        if (n < 0)
                n = -errno;
        if (n != (ssize_t) sizeof(reply))
                return is_disconnect(n) ? -ECONNABORTED : -EIO;
        if (reply.error >= 0 && ret_value)
                *ret_value = reply.value;
        return MIN(reply.error, 0);
}

int launch_ask_end(int sock)
{
        return read_answer(sock, NULL);
}

static int ask_once(Launch *l, LaunchPhase what, uint64_t *ret_value)
{
        _cleanup_close_ int sock = launch_ask_begin(l, what);

        return sock < 0 ? sock : read_answer(sock, ret_value);
}

int launch_ask(Launch *l, LaunchPhase what, uint64_t *ret_value)
{
        for (unsigned i = 1;; i++) {
                int r = ask_once(l, what, ret_value);
                if (r != -ECONNABORTED || i == ATTEMPTS_MAX)
                        return r;
                (void) usleep(AGAIN_USEC);
        }
}

static int send_event_once(const LaunchEvent *e)
{
        _cleanup_close_ int sock = connect_quietly();

        if (sock < 0)
                return sock;
        int r = send_fds(sock, e, sizeof(*e), NULL, 0);
        if (r < 0)
                return is_disconnect(r) ? -ECONNABORTED : r;
        return read_answer(sock, NULL);
}

int launch_send_event(Launch *l, LaunchEvent *e)
{
        if (strlen(l->app) >= sizeof(e->app))
                return -ENAMETOOLONG;
        e->version = LAUNCH_PROTOCOL_VERSION;
        memcpy(e->app, l->app, strlen(l->app) + 1);
        for (unsigned i = 1;; i++) {
                int r = send_event_once(e);
                if (r != -ECONNABORTED || i == ATTEMPTS_MAX)
                        return r;
                (void) usleep(AGAIN_USEC);
        }
}

void launch_flush_pod(uint64_t timeout_usec)
{
        _cleanup_close_ int sock = connect_quietly();
        struct pollfd p = {.fd = sock, .events = POLLIN};

        if (sock >= 0 && send_request(NULL, sock, LAUNCH_FLUSH, NULL, 0) >= 0)
                (void) poll(&p, 1, (int) (timeout_usec / 1000));
}
