/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What an app gets of the host: the sources of its volumes, and its devices.
 *
 * They are opened anew for every process of the app, in the mount namespace of the host: where its mounts are private, what was
 * mounted since the pod was started does not arrive in the supervisor's. A clone of a shared mount is in the same peer group there, and
 * becomes its slave, or leaves the group, in volume.c; mounts of the supervisor's namespace are slaves, so that what is mounted on a clone of
 * them would never reach the host (propagation=shared).
 *
 * They may be on a file system that does not answer: NFS whose server is gone, or FUSE. The supervisor must not block on it, and stays in its
 * own namespace: it opens only devices that the kernel resolves from its caches (RESOLVE_CACHED), and a child process opens the rest.
 * SIGKILL cannot end a process that is blocked in such a file system, so the supervisor may abandon the child, which therefore
 * first closes the pod's lock and every stream whose end another process waits for. The child sends one message per mount, with its
 * descriptor. */

#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "stage0/mounts/mounts-internal.h"

#define OF_DEV UINT32_MAX
#define LAST (UINT32_MAX - 1)

struct MountSources {
        size_t n;
        int *trees; /* by the mounts of the app; -EBADF: not of the host, or still to be opened */
        bool *awaited;
        int dev; /* -EBADF: still to be made */
        DeviceRules rules;
};

typedef struct SourceMessage {
        uint32_t index; /* of the mount, or OF_DEV, or LAST */
        int32_t code;   /* 0: a descriptor comes with it */
        uint32_t n_rules;
        bool closed;
        char text[512], hint[256];
        DeviceRule rules[DEVICE_RULES_MAX];
} SourceMessage;

#define MESSAGE_SIZE(n_rules) (offsetof(SourceMessage, rules) + (n_rules) * sizeof(DeviceRule))

MountSources *mount_sources_free(MountSources *s)
{
        if (!s)
                return NULL;
        for (size_t i = 0; s->trees && i < s->n; i++)
                safe_close(s->trees[i]);
        safe_close(s->dev);
        device_rules_done(&s->rules);
        free(s->trees);
        free(s->awaited);
        free(s);
        return NULL;
}

static MountSources *sources_new(size_t n)
{
        MountSources *s = calloc(1, sizeof(MountSources));

        if (!s)
                return NULL;
        *s = (MountSources){.n = n,
                            .trees = calloc(MAX(n, 1U), sizeof(int)),
                            .awaited = calloc(MAX(n, 1U), sizeof(bool)),
                            .dev = -EBADF};
        if (!s->trees || !s->awaited)
                return mount_sources_free(s);
        for (size_t i = 0; i < n; i++)
                s->trees[i] = -EBADF;
        return s;
}

/* --- At once ------------------------------------------------------------------------------------------- */

/* Whether the app can pass on mounts to the host by V. */
static int check_shared(const PodMounts *m, const Volume *v, Error *e)
{
        if (m->userns_fd < 0 && m->host.fd >= 0)
                return 0;
        return error_set(
                        e, -EINVAL,
                        "Volume '%s' cannot have propagation=shared in a pod with users of its own: it takes --no-userns",
                        v->name);
}

/* Whether a child has to open mount I. */
static int is_of_host(PodMounts *m, const PodApp *app, size_t i, Error *e)
{
        const Volume *v = pod_mounts_volume_of(m, app, i);
        VolumeMount *known;

        if (!v || v->kind != VOLUME_HOST)
                return 0; /* a volume that is missing is an error of clone.c */
        int r = pod_mounts_know_volume(m, v, &known, e);
        if (r >= 0 && known->settings.propagation == PROPAGATION_SHARED)
                r = check_shared(m, v, e);
        return r < 0 ? r : 1;
}

int pod_mounts_open_sources(PodMounts *m, const PodApp *app, MountSources **ret, Error *e)
{
        _cleanup_(mount_sources_freep) MountSources *s = sources_new(app->n_mounts);
        bool complete = true;

        if (!s)
                return error_oom(e);
        for (size_t i = 0; i < s->n; i++) {
                int r = is_of_host(m, app, i, e);
                if (r < 0)
                        return r;
                s->awaited[i] = r > 0;
                complete = complete && r == 0;
        }
        int r = pod_mounts_clone_dev(m, app, false, &s->rules, e);
        if (r < 0 && r != -EAGAIN)
                return r;
        s->dev = r < 0 ? -EBADF : r;
        complete = complete && r >= 0;
        *ret = TAKE_PTR(s);
        return complete;
}

int mount_sources_take(MountSources *s, size_t i)
{
        return s && i < s->n ? TAKE_FD(s->trees[i]) : -EBADF;
}

int mount_sources_take_dev(MountSources *s, DeviceRules *ret_rules)
{
        if (!s || s->dev < 0)
                return -EBADF;
        *ret_rules = s->rules;
        s->rules = (DeviceRules){};
        return TAKE_FD(s->dev);
}

/* --- In the child -------------------------------------------------------------------------------------- */

static void send_source(int sock, uint32_t index, int fd, const DeviceRules *rules, const Error *e)
{
        static SourceMessage s; /* too large for the stack */

        s = (SourceMessage){.index = index, .code = MIN(fd, 0), .closed = rules && rules->closed};
        if (fd < 0)
                snprintf(s.text, sizeof(s.text), "%s", e->message ?: strerror(-fd));
        if (fd < 0)
                snprintf(s.hint, sizeof(s.hint), "%s", e->hint ?: "");
        if (rules && rules->n > 0) {
                s.n_rules = (uint32_t) MIN(rules->n, DEVICE_RULES_MAX);
                memcpy(s.rules, rules->items, s.n_rules * sizeof(DeviceRule));
        }
        if (send_fds(sock, &s, MESSAGE_SIZE(s.n_rules), &fd, fd >= 0) < 0 || fd < 0)
                _exit(1);
        safe_close(fd);
}

static int enter_host(const PodMounts *m, Error *e)
{
        int r = mount_namespace_return(&m->host);

        return r < 0 ? error_set_errno(e, r, "Cannot enter the mount namespace of the host") : 0;
}

static void ask_volumes(PodMounts *m, const PodApp *app, const MountSources *s, int sock)
{
        for (size_t i = 0; i < s->n; i++) {
                _cleanup_error_ Error e = ERROR_NULL;
                VolumeMount *known = NULL;
                bool mapped;

                if (!s->awaited[i])
                        continue;
                const Volume *v = pod_mounts_volume_of(m, app, i);
                int r = pod_mounts_know_volume(m, v, &known, &e);
                if (r >= 0)
                        r = volume_mount_host(v, &known->settings, m->userns_fd, known->ranges_fd, &mapped,
                                              &e);
                send_source(sock, (uint32_t) i, r, NULL, &e);
        }
}

static int close_others(const PodMounts *m, int sock)
{
        int *kept = calloc(m->n_volumes + 5, sizeof(int));
        size_t n = 0;

        if (!kept)
                return -ENOMEM;
        kept[n++] = sock;
        kept[n++] = m->holder_fd;
        kept[n++] = m->userns_fd;
        kept[n++] = m->host.fd;
        kept[n++] = m->host.root_fd;
        for (size_t i = 0; i < m->n_volumes; i++)
                kept[n++] = m->volumes[i].ranges_fd;
        int r = fds_close_others(kept, n);
        free(kept);
        return r;
}

void pod_mounts_ask_sources(PodMounts *m, const PodApp *app, const MountSources *s, int sock)
{
        _cleanup_error_ Error e = ERROR_NULL;

        (void) prctl(PR_SET_NAME, "open-sources");
        if (process_leave_streams() < 0 || close_others(m, sock) < 0)
                _exit(1);
        int r = enter_host(m, &e);
        if (r < 0)
                send_source(sock, OF_DEV, r, NULL, &e);
        if (s->dev < 0) {
                DeviceRules rules = {}; /* freed when the process ends */
                r = pod_mounts_clone_dev(m, app, true, &rules, &e);
                send_source(sock, OF_DEV, r, &rules, &e);
        }
        ask_volumes(m, app, s, sock);
        const SourceMessage last = {.index = LAST};
        _exit(send_fds(sock, &last, MESSAGE_SIZE(0), NULL, 0) < 0);
}

/* --- What it sends ------------------------------------------------------------------------------------- */

static int take_dev(MountSources *s, const SourceMessage *message, int *fd)
{
        DeviceRules rules = {.closed = message->closed};

        if (message->n_rules > 0) {
                rules.items = calloc(message->n_rules, sizeof(DeviceRule));
                if (!rules.items)
                        return -ENOMEM;
                memcpy(rules.items, message->rules, message->n_rules * sizeof(DeviceRule));
                rules.n = rules.allocated = message->n_rules;
        }
        device_rules_done(&s->rules);
        s->rules = rules;
        safe_close(s->dev);
        s->dev = TAKE_FD(*fd);
        return 0;
}

int mount_sources_receive(MountSources *s, int sock, Error *e)
{
        static SourceMessage message;
        _cleanup_close_ int fd = -EBADF;
        size_t n_fds = 0;

        message = (SourceMessage){};
        ssize_t n = recv_fds(sock, &message, sizeof(message), &fd, 1, &n_fds);
        if (n == -EAGAIN)
                return 0;
        message.text[sizeof(message.text) - 1] = message.hint[sizeof(message.hint) - 1] = 0;
        if (n >= (ssize_t) MESSAGE_SIZE(0) && message.index == LAST)
                return 1;
        if (n >= (ssize_t) MESSAGE_SIZE(0) && message.code < 0) {
                int r = error_set(e, message.code, "%s", message.text);
                return *message.hint ? error_hint(e, r, "%s", message.hint) : r;
        }
        if (n < (ssize_t) MESSAGE_SIZE(0) || message.n_rules > DEVICE_RULES_MAX ||
            n != (ssize_t) MESSAGE_SIZE(message.n_rules) || fd < 0 ||
            (message.index != OF_DEV && message.index >= s->n))
                return error_set(e, -EIO, "The process that opens volumes and devices was killed");
        if (message.index == OF_DEV)
                return take_dev(s, &message, &fd);
        safe_close(s->trees[message.index]);
        s->trees[message.index] = TAKE_FD(fd);
        s->awaited[message.index] = false;
        return 0;
}
