/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The root of an app of a pod that is not running: one that is prepared, or one that has ended.
 *
 * A child process mounts the same layers as for a running pod, in a separate mount namespace, and passes the
 * root back as a descriptor. The namespace ends with the child, and the mount with the last descriptor:
 * nothing has to be cleaned up, however this process ends. For reading only, the app's writable layer is the
 * uppermost of the read-only layers, so that the pod does not change. */

#include <sys/mount.h>
#include <sys/stat.h>

#include "stage0/mounts/mounts-internal.h"

#define VIEW "view"

typedef struct View {
        Pod *pod;
        const PodApp *app;
        bool writable;
} View;

/* The kernel marks a work directory that was in use, and refuses to use it again. The work directory of an
 * overlay that is not mounted holds no data. */
static int renew_work(PodMounts *m, const char *app)
{
        _cleanup_close_ int fd = pod_mounts_open_app(m, app);

        return fd < 0 ? fd : pod_mounts_renew(fd, "work");
}

static int format_options(PodMounts *m, const View *v, Text *t, Error *e)
{
        _cleanup_free_ char *top = NULL, *files = NULL;
        const char *app = v->app->name;

        if (pod_app_path(m->pod, v->app, NULL, &files) < 0)
                return error_oom(e);
        text_add(t, "lowerdir=");
        if (!v->writable)
                text_addf(t, "../%s/upper:", files);
        int r = pod_mounts_list_layers(m, app, t, &top, e);
        if (r < 0)
                return r;
        if (v->pod->state == POD_PREPARED)
                r = pod_mounts_make_upper(m, app, top, false);
        if (r >= 0 && v->writable)
                r = renew_work(m, app);
        if (v->writable)
                text_addf(t, ",upperdir=../%s/upper,workdir=../%s/work", files, files);
        return r < 0 ? error_set_errno(e, r, "Cannot create the writable layer of app %s", app) : 0;
}

static int mount_view(PodMounts *m, const View *v, int *ret_fd, Error *e)
{
        _cleanup_text_ Text t = {};
        _cleanup_free_ char *options = NULL;
        unsigned long flags = MS_NODEV | MS_NOSUID | (v->writable ? 0 : MS_RDONLY);

        int r = format_options(m, v, &t, e);
        if (r < 0)
                return r;
        if (text_take(&t, &options, NULL) < 0)
                return error_oom(e);
        if (mkdirat(m->holder_fd, VIEW, 0700) < 0 || fchdir(m->holder_fd) < 0 ||
            mount("overlay", VIEW, "overlay", flags, options) < 0)
                return error_set_errno(e, -errno, "Cannot mount the root of app %s (%s)", v->app->name,
                                       options);
        *ret_fd = openat(m->holder_fd, VIEW, O_PATH | O_DIRECTORY | O_CLOEXEC);
        return *ret_fd < 0 ? error_set_errno(e, -errno, "Cannot open the root of app %s", v->app->name) : 0;
}

static int make_view(void *data, int *ret_fd, char **ret_text, Error *e)
{
        PodMounts *m = NULL;
        View *v = data;

        int r = mount_namespace_unshare(NULL, e);
        if (r >= 0)
                r = pod_mounts_new(v->pod, &m, e);
        /* Unmounted when the process ends: doing it here would have the same effect and take longer. */
        return r < 0 ? r : mount_view(m, v, ret_fd, e);
}

int app_root_mount(Pod *p, const PodApp *app, bool writable, int *ret_fd, Error *e)
{
        View v = {.pod = p, .app = app, .writable = writable};
        int fd = -EBADF;

        int r = child_run(&(ChildWork){.what = "mount the root of an app",
                                       .function = make_view,
                                       .data = &v,
                                       .operation = pod_operation(p)},
                          &fd, NULL, e);
        if (r >= 0 && fd < 0)
                r = error_set(e, -EIO, "Cannot mount the root of app %s", app->name);
        if (r >= 0)
                *ret_fd = fd;
        return r;
}
