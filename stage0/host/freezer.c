/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pausing a pod: the freezer of cgroup v2, on the pod's own directory, which is not writable in the pod. All
 * processes in it stop, including systemd and nspawn; the supervisor is outside, and does
 * not. */

#include <dirent.h>

#include "library/libsystemd.h"
#include "stage0/host/freezer.h"
#include "stage0/host/host-internal.h"

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

static int open_attribute(Pod *p, const char *name)
{
        _cleanup_close_ int dir_fd = open_cgroup(p);

        if (dir_fd < 0)
                return dir_fd;
        int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        return fd < 0 ? -errno : fd;
}

int pod_open_freezer(Pod *p)
{
        return open_attribute(p, "cgroup.freeze");
}

int pod_open_freezer_events(Pod *p)
{
        return open_attribute(p, "cgroup.events");
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
        if (p->state != POD_RUNNING)
                return pod_state_to_string(p->state);
        return pod_is_paused(p) ? "paused" : pod_is_frozen(p) ? "frozen" : pod_state_to_string(p->state);
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

/* --- Frozen from outside ------------------------------------------------------------------------------- */

/* The child of the pod's cgroup that nspawn creates; it contains all processes except nspawn itself. */
#define PAYLOAD "payload"

static bool payload_is_frozen(int fd)
{
        _cleanup_close_ int freeze_fd =
                        openat(fd, PAYLOAD "/cgroup.freeze", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

        return freeze_fd >= 0 && freezer_is_frozen(freeze_fd);
}

/* "cgroup.events" shows what holds, "cgroup.freeze" what was written to this cgroup. */
bool pod_is_frozen(Pod *p)
{
        _cleanup_close_ int fd = open_cgroup(p);
        _cleanup_close_ int events_fd =
                        fd < 0 ? -EBADF : openat(fd, "cgroup.events", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        bool frozen = events_fd >= 0 && freezer_check(events_fd, true) > 0;

        return (frozen || (fd >= 0 && payload_is_frozen(fd))) && !pod_is_paused(p);
}

/* The path of the nearest cgroup above that of the pod that was frozen; NULL: none. To be freed. */
static char *find_frozen(Pod *p)
{
        _cleanup_free_ char *path = NULL;
        char *slash;

        if (pod_cgroup_unified(p, &path) < 0)
                return NULL;
        while ((slash = strrchr(path, '/')) && slash > path) {
                _cleanup_close_ int fd = -EBADF;
                _cleanup_free_ char *file = NULL;

                *slash = 0;
                if (xasprintf(&file, "%s/cgroup.freeze", path) < 0)
                        return NULL;
                fd = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
                if (fd < 0)
                        return NULL;
                if (freezer_is_frozen(fd))
                        return TAKE_PTR(path);
        }
        return NULL;
}

static bool is_unit_of_processes(const char *name)
{
        return endswith(name, ".service") || endswith(name, ".scope");
}

int pod_frozen(Pod *p, Error *e)
{
        _cleanup_free_ char *path = find_frozen(p);
        _cleanup_free_ char *name = path ? text_escape_for_terminal(strrchr(path, '/') + 1) : NULL;
        int r;

        if (!path) { /* frozen through cgroup.freeze, not by acnspawn */
                r = error_set(e, -EBUSY, "Pod %s is frozen, by the cgroup " PAYLOAD " below its own",
                              pod_display_name(p));
                return error_hint(e, r, "'acnspawn resume %s' lets it continue.", pod_display_name(p));
        }
        r = error_set(e, -EBUSY, "Pod %s is frozen, with %s", pod_display_name(p), name ?: "its cgroup");
        return error_hint(e, r, "'systemctl thaw %s' lets it continue.", name ?: "UNIT");
}

static void disconnect(sd_bus **bus)
{
        sd_bus_flush_close_unref(*bus);
}

/* By systemd, which would take the unit for frozen otherwise. */
static int thaw_unit(const char *unit)
{
        _cleanup_(disconnect) sd_bus *bus = NULL;
        int r = library_load(&systemd_library, NULL);

        if (r >= 0)
                r = host_systemd_connect(&bus);
        return r < 0 ? r
                     : sd_bus_call_method(bus, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER, "ThawUnit", NULL,
                                          NULL, "s", unit);
}

int pod_thaw(Pod *p, Error *e)
{
        _cleanup_free_ char *path = find_frozen(p), *file = NULL; /* the pod may be paused as well */

        if (!path)
                return 0;
        const char *unit = strrchr(path, '/') + 1;
        if (!is_unit_of_processes(unit))
                return pod_frozen(p, e);
        if (host_runs_systemd() && thaw_unit(unit) >= 0)
                return 0;
        int r = xasprintf(&file, "%s/cgroup.freeze", path);
        if (r >= 0)
                r = write_attribute_at(AT_FDCWD, file, "0");
        return r < 0 ? error_set_errno(e, r, "Cannot thaw pod %s", pod_display_name(p)) : 0;
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

int pod_freeze(Pod *p, bool freeze, Error *e)
{
        _cleanup_close_ int fd = open_cgroup(p);
        int r = fd;

        if (r >= 0)
                r = write_attribute_at(fd, "cgroup.freeze", freeze ? "1" : "0");
        if (r < 0)
                return cannot_freeze(p, r, freeze, e);
        if (!freeze) /* this cgroup may have been frozen by hand */
                (void) write_attribute_at(fd, PAYLOAD "/cgroup.freeze", "0");
        return 0;
}
