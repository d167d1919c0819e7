/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Limits of apps that are set from outside of the pod: rates of disks, in the cgroups that the pod's systemd
 * has made for the app, and scores that protect it from the OOM killer, which processes in a user namespace
 * may not set; limits of processes are in app-tasks.c. Set anew for each process that a launcher is to
 * become: a slice whose app has ended is made again for the next execution.
 *
 * The process's cgroup is read from the kernel. It is below the pod's own, whatever processes of the pod do. */

#include <poll.h>

#include "stage0/supervisor/apps/app-limits.h"
#include "stage0/host/host.h"

#define POD_SLICE "app.slice/"

void limits_done(Limits *l)
{
        l->disks = strv_free(l->disks);
        free(l->pids_v1);
        l->pids_v1 = NULL;
}

/* --- Disks --------------------------------------------------------------------------------------------- */

/* The end of the last slice at the beginning of PATH: that of a nested app is below those of the apps above it. */
static char *slices_end(char *path)
{
        char *result = NULL;

        for (char *part = path, *end; (end = strchr(part, '/')); part = end + 1) {
                if (end - part < (ptrdiff_t) strlen(".slice") ||
                    strncmp(end - strlen(".slice"), ".slice", strlen(".slice")) != 0)
                        break;
                result = end;
        }
        return result;
}

/* The slices of the pod and of the app, one inside the other. */
static int open_slices(Pod *p, pid_t pid, int *ret_pod, int *ret_app)
{
        _cleanup_free_ char *path = NULL, *own = NULL;
        _cleanup_close_ int base = -EBADF, pod = -EBADF;
        char *slice, *end;

        int r = pod_cgroup_of_process(p, pid, &path);
        if (r < 0)
                return r;
        slice = strstr(path, POD_SLICE);
        if (!slice || (slice > path && slice[-1] != '/'))
                return -ENOENT;
        end = slices_end(slice + strlen(POD_SLICE));
        if (!end)
                return -ENOENT;
        r = pod_cgroup_unified(p, &own);
        if (r < 0)
                return r;
        base = open(own, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (base < 0)
                return -errno;
        *end = 0;
        _cleanup_close_ int app = open_beneath(base, path, O_PATH | O_DIRECTORY);
        slice[strlen(POD_SLICE) - 1] = 0;
        pod = open_beneath(base, path, O_PATH | O_DIRECTORY);
        if (app < 0 || pod < 0)
                return app < 0 ? app : pod;
        *ret_pod = TAKE_FD(pod);
        *ret_app = TAKE_FD(app);
        return 0;
}

static const struct {
        IsolatorType type;
        const char *read, *write; /* what they are called in io.max */
} rates[] = {
                {ISOLATOR_RESOURCE_BLOCK_BANDWIDTH, "rbps", "wbps"},
                {ISOLATOR_RESOURCE_BLOCK_IOPS, "riops", "wiops"},
};

/* "rbps=1000 wbps=1000", or nothing. */
static int format_rates(const IsolatorList *l, char **ret)
{
        _cleanup_text_ Text t = {};

        for (size_t i = 0; i < l->n; i++)
                for (size_t k = 0; k < ELEMENTSOF(rates); k++) {
                        unsigned long long limit = stage1_block_limit(&l->items[i]);
                        if (l->items[i].type == rates[k].type && l->items[i].has_limit)
                                text_addf(&t, " %s=%llu %s=%llu", rates[k].read, limit, rates[k].write,
                                          limit);
                }
        return text_take(&t, ret, NULL);
}

static int limit_disks(const Limits *l, int cgroup_fd, const char *rate)
{
        int r = 0;

        STRV_FOREACH (disk, l->disks) {
                _cleanup_free_ char *line = NULL;
                if (r >= 0)
                        r = xasprintf(&line, "%s%s", *disk, rate);
                if (r >= 0)
                        r = write_attribute_at(cgroup_fd, "io.max", line);
        }
        return r;
}

static int apply_disks(const Limits *l, Pod *p, const PodApp *app, pid_t pid, Error *e)
{
        _cleanup_free_ char *pod_rate = NULL, *app_rate = NULL;
        _cleanup_close_ int pod_fd = -EBADF, app_fd = -EBADF;

        if (format_rates(&p->manifest->isolators, &pod_rate) < 0 ||
            format_rates(&app->app->isolators, &app_rate) < 0)
                return error_oom(e);
        if ((!*pod_rate && !*app_rate) || !l->features.io || !l->disks)
                return 0;
        int r = open_slices(p, pid, &pod_fd, &app_fd);
        if (r >= 0 && *pod_rate)
                r = limit_disks(l, pod_fd, pod_rate);
        if (r >= 0 && *app_rate)
                r = limit_disks(l, app_fd, app_rate);
        return r < 0 ? error_set_errno(e, r, "Cannot limit the I/O of app %s", app->name) : 0;
}

/* --- The OOM killer ------------------------------------------------------------------------------------ */

/* The number may have been reused by the time it is resolved, but not if the process still exists after its
 * directory was opened. */
bool launcher_is_connected(int sock)
{
        struct pollfd p = {.fd = sock, .events = POLLRDHUP};

        return poll(&p, 1, 0) == 0;
}

static int protect_process(int sock, pid_t pid, int64_t score)
{
        char path[64], text[32];

        snprintf(path, sizeof(path), "/proc/%d", (int) pid);
        snprintf(text, sizeof(text), "%lld", (long long) score);
        _cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        return launcher_is_connected(sock) ? write_attribute_at(fd, "oom_score_adj", text) : -ESRCH;
}

/* Values of zero and above are set by the pod's systemd. */
static int apply_oom_score(const Limits *l, const PodApp *app, int sock, pid_t pid, Error *e)
{
        for (size_t i = 0; i < app->app->isolators.n; i++) {
                const Isolator *isolator = &app->app->isolators.items[i];
                if (isolator->type != ISOLATOR_OOM_SCORE_ADJ || isolator->number >= 0 ||
                    !l->features.resources)
                        continue;
                int r = protect_process(sock, pid, isolator->number);
                if (r < 0)
                        return error_set_errno(e, r, "Cannot set the OOM score of app %s to %d", app->name,
                                               (int) isolator->number);
        }
        return 0;
}

/* --- All of it ----------------------------------------------------------------------------------------- */

static int look_up(Limits *l, Pod *p, Error *e)
{
        if (l->known)
                return 0;
        int r = pod_features(p, false, &l->features);
        if (r >= 0 && l->features.block_device)
                r = pod_disks(p, &l->disks);
        if (r >= 0 && l->features.pids_v1)
                r = pod_cgroup_pids_v1(p, &l->pids_v1);
        if (r < 0)
                return error_set_errno(e, r, "Cannot detect the features of this host for pod %s",
                                       pod_display_name(p));
        l->known = true;
        return 0;
}

int limits_set_parameters(Limits *l, Pod *p, pid_t pid, Error *e)
{
        int r = l->parameters_set ? 0 : parameters_set(p, pid, e);

        l->parameters_set = r >= 0;
        return r;
}

int limits_apply(Limits *l, Pod *p, const PodApp *app, int sock, pid_t pid, Error *e)
{
        int r = look_up(l, p, e);

        if (r >= 0)
                r = limits_set_parameters(l, p, pid, e);
        if (r >= 0)
                r = apply_disks(l, p, app, pid, e);
        if (r >= 0)
                r = tasks_apply(l, p, app, sock, pid, e);
        if (r >= 0)
                r = attributes_apply(l, p, app, e);
        return r < 0 ? r : apply_oom_score(l, app, sock, pid, e);
}
