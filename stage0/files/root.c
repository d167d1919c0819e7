/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Opens the root of an app, in any state of its pod.
 *
 * While the app runs this is the root of its main process, so that paths are resolved as by the app, with
 * its volumes and its own mounts. Otherwise it is the overlay alone: in a running pod the one that the supervisor has mounted;
 * in others the overlay is mounted here.
 */

#include <linux/magic.h>
#include <sys/vfs.h>

#include "library/libmnt.h"
#include "stage0/files/files-internal.h"

#define ROOT_TRIES 100U
#define ROOT_PAUSE_USEC 20000U

static void table_unrefp(struct libmnt_table **t)
{
        mnt_unref_table(*t);
}

static void iter_freep(struct libmnt_iter **i)
{
        mnt_free_iter(*i);
}

/* --- As the app sees it -------------------------------------------------------------------------------- */

static int open_process_root(Pod *p, const PodApp *app, int *ret_fd, Error *e)
{
        AppProcess process = {.pid_fd = -EBADF};
        char path[64];

        int r = app_process_open(p, app, &process, e);
        if (r < 0)
                return r;
        _cleanup_close_ int pid_fd = process.pid_fd;
        snprintf(path, sizeof(path), "/proc/%d/root", (int) process.pid);
        _cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        /* If the process still exists, the PID was not reused in between. */
        if (fd < 0 || process_signal(pid_fd, 0) < 0)
                return error_set(e, -ESRCH, "App %s of pod %s has just ended", app->name,
                                 pod_display_name(p));
        *ret_fd = TAKE_FD(fd);
        return 0;
}

/* --- Mounts of the supervisor -------------------------------------------------------------------------- */

/* The path of the app's overlay, or NULL. */
static const char *find_overlay(struct libmnt_table *t, struct libmnt_iter *i, const char *upper)
{
        struct libmnt_fs *fs;

        while (mnt_table_next_fs(t, i, &fs) == 0) {
                size_t size = 0;
                char *value = NULL;

                if (streq_ptr(mnt_fs_get_fstype(fs), "overlay") &&
                    mnt_fs_get_option(fs, "upperdir", &value, &size) == 0 && size == strlen(upper) &&
                    strncmp(value, upper, size) == 0)
                        return mnt_fs_get_target(fs);
        }
        return NULL;
}

static int open_mounted(pid_t supervisor, const char *files)
{
        _cleanup_(table_unrefp) struct libmnt_table *table = NULL;
        _cleanup_(iter_freep) struct libmnt_iter *iter = mnt_new_iter(MNT_ITER_BACKWARD);
        _cleanup_free_ char *upper = NULL;
        _cleanup_close_ int root_fd = -EBADF;
        char path[64];

        if (!iter || xasprintf(&upper, "../%s/upper", files) < 0)
                return -ENOMEM;
        snprintf(path, sizeof(path), "/proc/%d/root", (int) supervisor);
        root_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root_fd < 0)
                return -errno;
        snprintf(path, sizeof(path), "/proc/%d/mountinfo", (int) supervisor);
        table = mnt_new_table_from_file(path);
        if (!table)
                return -ESRCH;
        const char *place = find_overlay(table, iter, upper);
        return place ? open_in_root(root_fd, place, O_PATH | O_DIRECTORY) : -ENOENT;
}

/* Between two runs of the app there is none for a moment. */
static int open_supervised(Pod *p, const PodApp *app, int *ret_fd, Error *e)
{
        PodRuntime runtime = {};
        _cleanup_free_ char *files = NULL;
        struct statfs fs;

        int r = library_load(&mount_library, e);
        if (r < 0)
                return r;
        if (pod_app_path(p, app, NULL, &files) < 0)
                return error_oom(e);
        r = pod_runtime_read(p, &runtime);
        _cleanup_close_ int fd = r < 0 ? r : open_mounted(runtime.supervisor, files);
        for (unsigned i = 0; r >= 0 && fd == -ENOENT && i < ROOT_TRIES; i++) {
                (void) usleep(ROOT_PAUSE_USEC);
                fd = open_mounted(runtime.supervisor, files);
        }
        if (fd == -ENOENT)
                return error_set(e, -ESRCH, "App %s of pod %s has no root yet", app->name,
                                 pod_display_name(p));
        if (fd < 0 || fstatfs(fd, &fs) < 0 || fs.f_type != OVERLAYFS_SUPER_MAGIC)
                return error_set(e, -ESRCH, "Pod %s is about to end", pod_display_name(p));
        *ret_fd = TAKE_FD(fd);
        return 0;
}

/* --- Choosing the root --------------------------------------------------------------------------------- */

static int open_running(Pod *p, AppRootView view, AppRoot *x, Error *e)
{
        int r = -ESRCH;

        if (view != APP_ROOT_FILES) {
                r = open_process_root(p, x->app, &x->fd, e);
                x->live = r >= 0;
        }
        if (r == -ESRCH || r == -EOPNOTSUPP) {
                error_done(e);
                r = open_supervised(p, x->app, &x->fd, e);
        }
        x->changing = true;
        return r;
}

/* The directory of a pod whose supervisor was killed is still in pods/running, where a lock makes it look as if it ran: it is locked
 * only to be moved. What the pod has left on the host does not keep its files from being used; its removal or its successor releases
 * that. */
static int leave_running(Pod *p, Error *e)
{
        int r = pod_lock(p, true, e);

        if (r < 0 || p->place != POD_RUNNING)
                return r;
        return pod_end_run(p, e);
}

/* Readers of a pod that has ended share it, and do not keep it from being run again; all others are alone. */
static int lock_resting(Pod *p, bool writes, Error *e)
{
        bool was_locked = p->locked;
        int r = p->state != POD_EXITED || p->place == POD_RUNNING || writes ? leave_running(p, e) : 0;

        if (r < 0 || p->state != POD_EXITED)
                return r;
        if (writes)
                return pod_exclude_readers(p, true, e);
        r = pod_lock_for_reading(p, e);
        if (!was_locked)
                pod_unlock(p);
        return r;
}

static int open_resting(Pod *p, AppRootView view, AppRoot *x, Error *e)
{
        int r = lock_resting(p, view == APP_ROOT_WRITE, e);

        if (r < 0)
                return r;
        if (p->state != POD_PREPARED && p->state != POD_EXITED)
                return error_set(e, -ESRCH, "Pod %s has no accessible files: it is %s", pod_display_name(p),
                                 pod_state_to_string(p->state));
        return app_root_mount(p, x->app, view == APP_ROOT_WRITE, &x->fd, e);
}

int app_root_open(Pod *p, const char *app, AppRootView view, AppRoot *ret, Error *e)
{
        AppRoot x = {.pod = p, .fd = -EBADF};

        int r = pod_find_app(p, app, &x.app, e);
        if (r >= 0)
                r = p->state == POD_RUNNING ? open_running(p, view, &x, e) : open_resting(p, view, &x, e);
        if (r >= 0)
                *ret = x;
        return r;
}

void app_root_done(AppRoot *r)
{
        safe_close(r->fd);
        *r = APP_ROOT_NULL;
}
