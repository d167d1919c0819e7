/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pausing a pod: the freezer of cgroup v2, on the pod's own directory, which is not writable in the pod. All
 * processes in it stop, including systemd and nspawn; the process that runs the pod is outside, and does
 * not. */

#include <dirent.h>

#include "stage0/host/host.h"

#define LATE_DEPTH_MAX 16 /* levels of cgroups that are looked at for an error */

static int open_cgroup(Pod *p)
{
        _cleanup_free_ char *path = NULL;
        int r = pod_cgroup_unified(p, &path);

        if (r < 0)
                return r;
        int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

int pod_open_freezer(Pod *p)
{
        _cleanup_close_ int dir_fd = open_cgroup(p);

        if (dir_fd < 0)
                return dir_fd;
        int fd = openat(dir_fd, "cgroup.freeze", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        return fd < 0 ? -errno : fd;
}

bool freezer_is_frozen(int fd)
{
        char c;

        return fd >= 0 && pread(fd, &c, 1, 0) == 1 && c == '1';
}

bool pod_is_paused(Pod *p)
{
        _cleanup_close_ int fd = pod_open_freezer(p);

        return freezer_is_frozen(fd);
}

const char *pod_shown_state(Pod *p)
{
        return p->state == POD_RUNNING && pod_is_paused(p) ? "paused" : pod_state_to_string(p->state);
}

int freezer_check(int events_fd, bool freeze)
{
        char text[256];
        ssize_t n = pread(events_fd, text, sizeof(text) - 1, 0);

        if (n < 0)
                return -errno;
        text[n] = 0;
        return strstr(text, freeze ? "frozen 1" : "frozen 0") != NULL;
}

/* --- Errors -------------------------------------------------------------------------------------------- */

/* Whether the cgroup NAME below DIR_FD has another state than FREEZE. */
static bool differs(int dir_fd, const char *name, bool freeze)
{
        _cleanup_free_ char *path = NULL;

        if (xasprintf(&path, "%s/cgroup.events", name) < 0)
                return false;
        _cleanup_close_ int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        return fd >= 0 && freezer_check(fd, freeze) == 0;
}

/* The name of a cgroup in DIR_FD with another state than FREEZE. NULL: there is none. */
static char *next_that_differs(int dir_fd, bool freeze)
{
        int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = fd < 0 ? NULL : fdopendir(fd);
        char *found = NULL;

        if (!d) {
                safe_close(fd);
                return NULL;
        }
        for (const struct dirent *entry; !found && (entry = readdir(d));)
                if (entry->d_type == DT_DIR && entry->d_name[0] != '.' &&
                    differs(dir_fd, entry->d_name, freeze))
                        found = strdup(entry->d_name);
        closedir(d);
        return found;
}

/* The innermost cgroup of the pod that is not in the requested state: it names the app. Processes of the pod may have given the
 * name. To be freed; NULL: unknown. */
static char *find_late(int dir_fd, bool freeze)
{
        _cleanup_close_ int fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 3);
        _cleanup_free_ char *name = NULL;

        for (unsigned depth = 0; fd >= 0 && depth < LATE_DEPTH_MAX; depth++) {
                char *inner = next_that_differs(fd, freeze);
                if (!inner)
                        break;
                free(name);
                name = inner;
                int inner_fd = openat(fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
                safe_close(fd);
                fd = inner_fd;
        }
        return name ? text_escape_for_terminal(name) : NULL;
}

int pod_freeze_undo(Pod *p, bool freeze, Error *e)
{
        _cleanup_close_ int fd = open_cgroup(p);
        _cleanup_free_ char *late = fd < 0 ? NULL : find_late(fd, freeze);
        const char *pod = pod_display_name(p);

        if (fd >= 0)
                (void) write_attribute_at(fd, "cgroup.freeze", "0");
        int r = error_set(e, -ETIME, "Cannot %s pod %s: processes%s%s did not %s within %u seconds",
                          freeze ? "pause" : "resume", pod, late ? " in its cgroup " : "", late ?: "",
                          freeze ? "stop" : "continue", (unsigned) (FREEZE_TIMEOUT_USEC / 1000000));

        return freeze ? error_hint(e, r,
                                   "Nothing is paused. A process cannot be paused while it waits in the kernel, "
                                   "such as for a file system that does not answer: 'acnspawn top %s' shows "
                                   "its processes.",
                                   pod)
                      : error_hint(e, r, "'acnspawn resume %s' tries again, 'acnspawn stop %s' ends it.",
                                   pod, pod);
}

static int cannot_freeze(const Pod *p, int code, bool freeze, Error *e)
{
        const char *pod = pod_display_name(p);

        if (code != -ENOENT)
                return error_set_errno(e, code, "Cannot %s pod %s: cannot write cgroup.freeze of its cgroup",
                                       freeze ? "pause" : "resume", pod);
        int r = error_set(e, -EOPNOTSUPP, "Cannot %s pod %s: its cgroup has no freezer",
                          freeze ? "pause" : "resume", pod);
        return error_hint(
                        e, r,
                        "Pausing requires the cgroup v2 hierarchy of Linux 5.2 or later: 'acnspawn version' shows "
                        "what the host has.");
}

int pod_freeze(Pod *p, bool freeze, int *ret_events_fd, Error *e)
{
        _cleanup_close_ int fd = open_cgroup(p), events_fd = -EBADF;
        int r = fd;

        if (r >= 0)
                r = write_attribute_at(fd, "cgroup.freeze", freeze ? "1" : "0");
        if (r < 0)
                return cannot_freeze(p, r, freeze, e);
        if (!ret_events_fd)
                return 0;
        events_fd = openat(fd, "cgroup.events", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (events_fd < 0)
                return cannot_freeze(p, -errno, freeze, e);
        *ret_events_fd = TAKE_FD(events_fd);
        return 0;
}
