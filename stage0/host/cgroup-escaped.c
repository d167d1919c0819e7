/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Ends processes of an app that have left its cgroup for another one of the pod. Only an app that can write to cgroups, as one with
 * CAP_SYS_ADMIN in a pod without users of its own, has such; its end, by which systemd kills what is in its cgroup, leaves them
 * alone.
 *
 * They are known by the root of the app, an overlay that no other app has: a process sees it as its own root, or, if it has
 * changed that, in its mounts. The device number of an overlay may be given to another one later, so the caller knows that no
 * running app has it.
 *
 * Nothing is waited for: a process with a pending SIGKILL executes nothing of its program any more and cannot make another one, even if it
 * stays for a while, as one that waits for a disk does. It may have made one just before, so the search is repeated until it finds no
 * process that was not found before. */

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "stage0/host/host.h"

#define DEPTH_MAX 32U          /* levels of cgroups */
#define LIST_MAX (1U << 20)    /* bytes of "cgroup.procs" */
#define MOUNTS_MAX (16U << 20) /* bytes of "mountinfo" */
#define ROUNDS_MAX 10U
#define FOUND_MAX 1024U /* processes that are counted; more are killed all the same */

typedef struct Escaped {
        const char *own; /* the path of the app's slice below the pod's cgroup */
        dev_t root;
        pid_t leader;
        pid_t found[FOUND_MAX]; /* in all rounds; a number that was reused meanwhile counts once */
        size_t n;
        bool more; /* this round has found processes that no round before it had */
} Escaped;

/* --- Searching ----------------------------------------------------------------------------------------- */

/* It may have changed its root to a file system of an app that does not answer: that is not asked. */
static bool has_root(pid_t pid, dev_t root)
{
        char path[64];
        struct statx st;

        snprintf(path, sizeof(path), "/proc/%d/root", (int) pid);
        return statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, 0, &st) >= 0 &&
               makedev(st.stx_dev_major, st.stx_dev_minor) == root;
}

static bool has_mount(pid_t pid, dev_t root)
{
        _cleanup_free_ char *text = NULL;
        char path[64], device[64];

        snprintf(path, sizeof(path), "/proc/%d/mountinfo", (int) pid);
        snprintf(device, sizeof(device), " %u:%u ", major(root), minor(root));
        return read_file_at(AT_FDCWD, path, MOUNTS_MAX, &text, NULL) >= 0 && strstr(text, device);
}

/* In the cgroup of another app only the root is looked at, as mounts take longer. */
static bool has_escaped(const Escaped *s, pid_t pid, bool of_app)
{
        return pid > 0 && pid != s->leader &&
               (has_root(pid, s->root) || (!of_app && has_mount(pid, s->root)));
}

static void note_found(Escaped *s, pid_t pid)
{
        for (size_t i = 0; i < s->n; i++)
                if (s->found[i] == pid)
                        return;
        s->more = true;
        if (s->n < FOUND_MAX)
                s->found[s->n++] = pid;
}

/* What was read by the number belongs to the process if it still exists afterwards. */
static void check_process(Escaped *s, pid_t pid, bool of_app)
{
        _cleanup_close_ int fd = (int) syscall(SYS_pidfd_open, pid, 0);

        if (fd < 0 || !has_escaped(s, pid, of_app) || !process_is_alive(fd))
                return;
        (void) process_signal(fd, SIGKILL);
        note_found(s, pid);
}

static void check_processes(Escaped *s, int dir_fd, bool of_app)
{
        _cleanup_free_ char *list = NULL;

        if (read_file_at(dir_fd, "cgroup.procs", LIST_MAX, &list, NULL) < 0)
                return;
        for (char *end, *line = list; *line; line = end + (*end == '\n')) {
                pid_t pid = (pid_t) strtol(line, &end, 10);
                if (end == line)
                        return;
                check_process(s, pid, of_app);
        }
}

static void search_cgroup(Escaped *s, int dir_fd, const char *path, unsigned depth);

static void search_child(Escaped *s, int dir_fd, const char *path, const char *name, unsigned depth)
{
        _cleanup_free_ char *below = NULL;

        if (xasprintf(&below, "%s%s%s", path, *path ? "/" : "", name) < 0 || streq(below, s->own))
                return;
        _cleanup_close_ int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (fd >= 0)
                search_cgroup(s, fd, below, depth);
}

static void search_cgroup(Escaped *s, int dir_fd, const char *path, unsigned depth)
{
        int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = fd < 0 ? NULL : fdopendir(fd);

        if (!d) {
                safe_close(fd);
                return;
        }
        check_processes(s, dir_fd, startswith(path, "app.slice/"));
        for (const struct dirent *entry; depth < DEPTH_MAX && (entry = readdir(d));)
                if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
                        search_child(s, dir_fd, path, entry->d_name, depth + 1);
        closedir(d);
}

int pod_kill_escaped(Pod *p, const char *app, dev_t root, pid_t leader, size_t *ret_killed)
{
        _cleanup_free_ char *slice = NULL, *own = NULL, *unified = NULL, *payload = NULL;

        int r = nested_slices(app, &slice);
        if (r >= 0)
                r = xasprintf(&own, "app.slice/%s", slice);
        if (r >= 0)
                r = pod_cgroup_unified(p, &unified);
        if (r >= 0)
                r = xasprintf(&payload, "%s/payload", unified);
        if (r < 0)
                return r;
        _cleanup_close_ int fd = open(payload, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        Escaped s = {.own = own, .root = root, .leader = leader};
        for (unsigned i = 0; i == 0 || (i < ROUNDS_MAX && s.more); i++) {
                s.more = false;
                search_cgroup(&s, fd, "", 0);
        }
        *ret_killed = s.n;
        return 0;
}
