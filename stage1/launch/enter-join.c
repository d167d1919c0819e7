/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Joins an app's process: its cgroups, its limits, its namespaces.
 *
 * The joining process is a process of the host until the last step, and cannot be inspected from the pod: it
 * is not dumpable, and its memory belongs to the host's user namespace, so that capabilities in the pod have
 * no effect on it. The cgroups come first, so that its resources are charged to the app; then the settings
 * that children inherit, as some of them need privileges on the host; then all namespaces with one system
 * call. It is never in some of them and not in others.
 */

#include <grp.h>
#include <linux/keyctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "stage1/launch/enter.h"

#define IO_PRIORITY_OF_PROCESS 1
#define LIMIT_NAME_WIDTH 26U

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

int join_cgroups(const int *fds, size_t n, const char *app, Failure *f)
{
        for (size_t i = 0; i < n; i++)
                if (write(fds[i], "0", 1) != 1)
                        return failure_set_errno(f, CAUSE_SETUP, -errno,
                                                 "Cannot join the cgroup of app %s%s", app,
                                                 errno == ENODEV ? ", which has ended" : "");
        return 0;
}

/* --- Inherited settings
 * --------------------------------------------------------------------------------- */

static int read_value(pid_t pid, const char *name, char *ret, size_t size)
{
        _cleanup_free_ char *text = NULL;
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/%s", (int) pid, name);
        int r = read_file_at(AT_FDCWD, path, 4096, &text, NULL);
        if (r >= 0)
                snprintf(ret, size, "%.*s", (int) strcspn(text, "\n"), text);
        return r;
}

/* "unlimited" or a number; advances P past it. */
static rlim_t parse_limit(const char **p)
{
        char *end;

        *p += strspn(*p, " ");
        if (startswith(*p, "unlimited")) {
                *p += strlen("unlimited");
                return RLIM_INFINITY;
        }
        rlim_t value = strtoull(*p, &end, 10);
        *p = end;
        return value;
}

/* The text file is readable with fewer privileges than prlimit() needs: lines in the order of the limits'
 * numbers, after a heading, each with a name of fixed width. */
static int read_limits(pid_t pid, InheritedSettings *i)
{
        _cleanup_free_ char *text = NULL;
        const char *line;
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/limits", (int) pid);
        int r = read_file_at(AT_FDCWD, path, 16384, &text, NULL);
        if (r < 0)
                return r;
        line = strchr(text, '\n');
        for (int k = 0; k < RLIM_NLIMITS; k++) {
                if (!line || strnlen(line + 1, LIMIT_NAME_WIDTH + 1) <= LIMIT_NAME_WIDTH)
                        return -EBADMSG;
                const char *p = line + 1 + LIMIT_NAME_WIDTH;
                i->limits[k].rlim_cur = parse_limit(&p);
                i->limits[k].rlim_max = parse_limit(&p);
                line = strchr(p, '\n');
        }
        return 0;
}

/* A filter of system calls that acnspawn runs in, as in a container, may refuse what concerns scheduling: the command then has that of its caller,
 * as the app has that of the pod's systemd. No errno for a process that has ended is among these. */
static int read_scheduling(pid_t pid, InheritedSettings *i)
{
        errno = 0;
        i->nice = getpriority(PRIO_PROCESS, (id_t) pid);
        if (errno != 0)
                return -errno;
        i->policy = sched_getscheduler(pid);
        if (i->policy < 0 || sched_getparam(pid, &i->priority) < 0)
                return -errno;
        i->io_priority = (int) syscall(SYS_ioprio_get, IO_PRIORITY_OF_PROCESS, pid);
        if (i->io_priority < 0 && !is_refusal(-errno))
                return -errno;
        i->has_cpus = sched_getaffinity(pid, sizeof(i->cpus), &i->cpus) >= 0;
        return i->has_cpus || is_refusal(-errno) ? 0 : -errno;
}

/* The bounding set of the app's process: the pod's PID 1 may lack capabilities that the launch file
 * lists. */
static int read_bounding_set(pid_t pid, uint64_t *ret)
{
        _cleanup_free_ char *text = NULL;
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/status", (int) pid);
        int r = read_file_at(AT_FDCWD, path, 1U << 20, &text, NULL);
        const char *p = r < 0 ? NULL : strstr(text, "\nCapBnd:");
        if (!p)
                return r < 0 ? r : -EBADMSG;
        *ret = strtoull(p + strlen("\nCapBnd:"), NULL, 16);
        return 0;
}

int inherited_settings_read(pid_t pid, const char *app, InheritedSettings *ret, Failure *f)
{
        char personality_text[32] = "";
        InheritedSettings i = {};
        int r = read_limits(pid, &i);

        if (r >= 0)
                r = read_scheduling(pid, &i);
        if (r >= 0)
                r = read_bounding_set(pid, &i.bounding);
        if (r >= 0)
                r = read_value(pid, "oom_score_adj", i.oom_score_adj, sizeof(i.oom_score_adj));
        if (r >= 0)
                r = read_value(pid, "personality", personality_text, sizeof(personality_text));
        if (r == -ENOENT || r == -ESRCH)
                return failure_set(f, CAUSE_SETUP, -ESRCH, "App %s has just ended", app);
        if (r < 0)
                return failure_set_errno(f, CAUSE_SETUP, r, "Cannot read the limits of app %s", app);
        (void) read_value(pid, "timerslack_ns", i.timer_slack, sizeof(i.timer_slack));
        i.personality = strtoul(personality_text, NULL, 16);
        *ret = i;
        return 0;
}

/* A limit of the caller that is lower than the app's stays if this process may not raise it. */
static bool is_less(int code)
{
        return code == -EPERM || code == -EACCES;
}

static int take_limit(int resource, const struct rlimit *wanted)
{
        struct rlimit limit, own;

        if (setrlimit((__rlimit_resource_t) resource, wanted) >= 0)
                return 0;
        if (!is_less(-errno) || getrlimit((__rlimit_resource_t) resource, &own) < 0)
                return -errno;
        limit.rlim_max = MIN(wanted->rlim_max, own.rlim_max);
        limit.rlim_cur = MIN(wanted->rlim_cur, limit.rlim_max);
        return setrlimit((__rlimit_resource_t) resource, &limit) < 0 ? -errno : 0;
}

static int take_scheduling(const InheritedSettings *i)
{
        if (sched_setscheduler(0, i->policy, &i->priority) < 0 && !is_less(-errno))
                return -errno;
        if (i->has_cpus && sched_setaffinity(0, sizeof(i->cpus), &i->cpus) < 0 && !is_refusal(-errno))
                return -errno;
        if (setpriority(PRIO_PROCESS, 0, i->nice) < 0 && !is_less(-errno))
                return -errno;
        if (i->io_priority >= 0 && syscall(SYS_ioprio_set, IO_PRIORITY_OF_PROCESS, 0, i->io_priority) < 0 &&
            !is_refusal(-errno))
                return -errno;
        return 0;
}

/* The one that it has needs no call. */
static int take_personality(unsigned long wanted)
{
        _cleanup_free_ char *own = NULL;

        if (personality(wanted) >= 0)
                return 0;
        int r = -errno;
        bool has = is_refusal(r) && read_file_at(AT_FDCWD, "/proc/self/personality", 32, &own, NULL) >= 0 &&
                   strtoul(own, NULL, 16) == wanted;
        return has ? 0 : r;
}

int inherited_settings_apply(const InheritedSettings *i, Failure *f)
{
        int r = write_attribute_at(AT_FDCWD, "/proc/self/oom_score_adj", i->oom_score_adj);

        if (r >= 0 || is_less(r))
                r = take_scheduling(i);
        for (int k = 0; r >= 0 && k < RLIM_NLIMITS; k++)
                r = take_limit(k, &i->limits[k]);
        if (r >= 0)
                r = take_personality(i->personality);
        if (i->timer_slack[0])
                (void) prctl(PR_SET_TIMERSLACK, strtoul(i->timer_slack, NULL, 10), 0, 0, 0);
        return r < 0 ? failure_set_errno(f, CAUSE_SETUP, r, "Cannot apply the limits of the app") : 0;
}

/* --- Namespaces ---------------------------------------------------------------------------------------- */

static const struct {
        const char *name;
        int flag;
} namespaces[] = {
                {"user", CLONE_NEWUSER}, {"mnt", CLONE_NEWNS},  {"net", CLONE_NEWNET},
                {"ipc", CLONE_NEWIPC},   {"uts", CLONE_NEWUTS}, {"cgroup", CLONE_NEWCGROUP},
                {"time", CLONE_NEWTIME},
};

/* Finds the namespaces that differ: the kernel refuses joining the user namespace that the caller is already
 * in. */
static int find_namespaces(pid_t pid, int *ret_flags)
{
        int flags = 0;

        for (size_t i = 0; i < ELEMENTSOF(namespaces); i++) {
                struct stat own, theirs;
                char path[64];

                snprintf(path, sizeof(path), "/proc/self/ns/%s", namespaces[i].name);
                if (stat(path, &own) < 0) {
                        if (errno == ENOENT)
                                continue; /* the kernel does not have this kind */
                        return -errno;
                }
                snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int) pid, namespaces[i].name);
                if (stat(path, &theirs) < 0) /* the kernel has this kind: the process has ended */
                        return errno == ENOENT ? -ESRCH : -errno;
                if (own.st_dev != theirs.st_dev || own.st_ino != theirs.st_ino)
                        flags |= namespaces[i].flag;
        }
        *ret_flags = flags;
        return 0;
}

/* Without a user namespace the caller keeps its own privileges, the same as those of the pod's root. */
static int become_root(void)
{
        if (prctl(PR_SET_SECUREBITS, 0, 0, 0, 0) < 0 || setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 ||
            setresuid(0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return -errno;
        return 0;
}

/* Not the caller's keyring. Where the system call is not available, the command cannot make it either. */
static int join_new_keyring(void)
{
        if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS && errno != EPERM)
                return -errno;
        return 0;
}

int join_namespaces(pid_t pid, int pid_fd, const char *app, Failure *f)
{
        int flags, r = find_namespaces(pid, &flags);

        /* The namespaces were found by PID: make sure that the PID still denotes that process. */
        if (r >= 0)
                r = process_signal(pid_fd, 0);
        /* An app's process has a mount namespace of its own: one without is not the app. */
        if (r >= 0 && !(flags & CLONE_NEWNS))
                r = -ESRCH;
        if (r >= 0 && setns(pid_fd, flags) < 0)
                r = -errno;
        if (r == -ESRCH)
                return failure_set(f, CAUSE_SETUP, r, "App %s has just ended", app);
        if (r < 0)
                return failure_set_errno(f, CAUSE_SETUP, r, "Cannot join the namespaces of app %s", app);
        r = become_root();
        if (r >= 0)
                r = join_new_keyring();
        return r < 0 ? failure_set_errno(f, CAUSE_SETUP, r, "Cannot become root in app %s", app) : 0;
}
