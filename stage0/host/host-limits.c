/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Finds the limit of the host that caused a failure, and how to raise it.
 *
 * Several limits share an errno: EMFILE may be due to inotify instances or to descriptors. So after a
 * failure, and only then, each limit with this errno is compared with the usage, or, if the kernel does not
 * report that, probed. A failed pod has released its resources by then; a limit counts as reached if it is
 * not sufficient for one more pod.
 *
 * A filter of system calls that this process runs in, as in a container, is such a limit, too: the calls that pods need are tried with
 * arguments for which the kernel has other errors than a filter, in processes of their own, as a filter may also kill.
 *
 * All numbers come from files below /proc and /sys/fs/cgroup, which tests replace by directories of their
 * own.
 */

#include <linux/capability.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stage0/host/host.h"

#define PROC_FILE_MAX (16U * 1024U * 1024U) /* of mountinfo, the longest */
/* Resources of a pod with a few apps. */
#define POD_PROCESSES 16U
#define POD_FILES 256U
#define POD_MOUNTS 128U
#define POD_INOTIFY_INSTANCES 3U
#define POD_BYTES (1024U * 1024U)
#define POD_INODES 128U

void host_limit_done(HostLimit *l)
{
        free(l->what);
        free(l->remedy);
        *l = (HostLimit){};
}

/* --- Reading ------------------------------------------------------------------------------------------- */

static int read_text(const char *top, const char *name, char **ret)
{
        _cleanup_free_ char *path = NULL;
        int r = xasprintf(&path, "%s/%s", top, name);

        return r < 0 ? r : read_file_at(AT_FDCWD, path, PROC_FILE_MAX, ret, NULL);
}

/* The first number in the file. -EINVAL: it begins with a word, such as "max". */
static int read_number(const char *top, const char *name, uint64_t *ret)
{
        _cleanup_free_ char *text = NULL;
        int r = read_text(top, name, &text);

        if (r < 0)
                return r;
        text[strspn(text, "0123456789")] = 0;
        return parse_u64(text, ret);
}

/* NAME: as of sysctl(8). */
static int read_sysctl(const HostLimitPlaces *w, const char *name, uint64_t *ret)
{
        _cleanup_free_ char *path = NULL;
        int r = xasprintf(&path, "sys/%s", name);

        if (r < 0)
                return r;
        for (char *c = path; *c; c++)
                if (*c == '.')
                        *c = '/';
        return read_number(w->proc, path, ret);
}

static int set_remedy(const char *name, uint64_t value, HostLimit *ret)
{
        int r = xasprintf(&ret->remedy,
                          "Raise it with 'sysctl -w %s=%" PRIu64
                          "', and permanently in a file of /etc/sysctl.d.",
                          name, value);

        return r < 0 ? r : 1;
}

/* 1: it is the cause. OBJECTS: what it limits, for messages. */
static int sysctl_reached(const HostLimitPlaces *w, const char *name, const char *objects, uint64_t at_least,
                          HostLimit *ret)
{
        uint64_t limit;
        int r = read_sysctl(w, name, &limit);

        if (r < 0)
                return r;
        r = xasprintf(&ret->what, "this host's limit of %s (%s=%" PRIu64 ") is reached", objects, name,
                      limit);
        return r < 0 ? r : set_remedy(name, MAX(limit * 4, at_least), ret);
}

/* --- Descriptors --------------------------------------------------------------------------------------- */

/* Opens a number of descriptors with OPEN_ONE. Returns the errno of the first failure; 0: all succeeded. */
static int try_descriptors(int (*open_one)(void))
{
        int fds[POD_INOTIFY_INSTANCES], error = 0;
        size_t n = 0;

        for (; n < ELEMENTSOF(fds) && error == 0; n++) {
                fds[n] = open_one();
                error = fds[n] < 0 ? errno : 0;
        }
        while (n > 0)
                safe_close(fds[--n]);
        return error;
}

static int open_inotify(void)
{
        return inotify_init1(IN_CLOEXEC);
}

static int open_any(void)
{
        return open("/", O_PATH | O_CLOEXEC);
}

#define INOTIFY_INSTANCES "fs.inotify.max_user_instances"
#define INOTIFY_INSTANCES_ENOUGH 8192

/* The kernel does not report their number. They are counted for the user who created the pod's user
 * namespace. */
static int check_inotify_instances(const HostLimitPlaces *w, HostLimit *ret)
{
        bool refused = w->try_inotify ? w->try_inotify() != 0
                                      : try_descriptors(open_inotify) == EMFILE &&
                                                        try_descriptors(open_any) == 0;

        if (!refused)
                return 0;
        return sysctl_reached(w, INOTIFY_INSTANCES, "inotify instances of one user",
                              INOTIFY_INSTANCES_ENOUGH, ret);
}

int host_limits_check_pods(const HostLimitPlaces *w, uint64_t pods, HostLimit *ret)
{
        uint64_t limit;
        int r = read_sysctl(w, INOTIFY_INSTANCES, &limit);

        if (r < 0 || limit >= pods * POD_INOTIFY_INSTANCES)
                return MIN(r, 0);
        r = xasprintf(&ret->what,
                      "this host's limit of inotify instances of one user (" INOTIFY_INSTANCES "=%" PRIu64
                      ") allows less than %" PRIu64 " pods that have the users of the host",
                      limit, limit / POD_INOTIFY_INSTANCES + 1);
        return r < 0 ? r : set_remedy(INOTIFY_INSTANCES, INOTIFY_INSTANCES_ENOUGH, ret);
}

/* The other cause of EMFILE. The descriptors may be closed by now. */
static int check_files_of_process(const HostLimitPlaces *w, HostLimit *ret)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                return 0;
        int r = xasprintf(&ret->what, "the limit of open files of a process (RLIMIT_NOFILE=%llu) is reached",
                          (unsigned long long) limit.rlim_cur);
        if (r >= 0)
                r = xasprintf(&ret->remedy,
                              "Raise it with 'ulimit -n 524288' before acnspawn is started, or with "
                              "LimitNOFILE= in the unit that starts it.");
        return r < 0 ? r : 1;
}

static int check_files(const HostLimitPlaces *w, HostLimit *ret)
{
        uint64_t used, limit;

        int r = read_number(w->proc, "sys/fs/file-nr", &used);
        if (r >= 0)
                r = read_sysctl(w, "fs.file-max", &limit);
        if (r < 0 || used + POD_FILES <= limit)
                return r;
        return sysctl_reached(w, "fs.file-max", "open files", 0, ret);
}

/* --- Processes ----------------------------------------------------------------------------------------- */

/* "0.20 0.18 0.12 1/80 11206": the number after the slash. */
static int count_threads(const HostLimitPlaces *w, uint64_t *ret)
{
        _cleanup_free_ char *text = NULL;

        int r = read_text(w->proc, "loadavg", &text);
        if (r < 0)
                return r;
        char *slash = strchr(text, '/');
        if (!slash)
                return -EINVAL;
        slash[1 + strspn(slash + 1, "0123456789")] = 0;
        return parse_u64(slash + 1, ret);
}

static int check_threads(const HostLimitPlaces *w, HostLimit *ret)
{
        static const char *const names[] = {"kernel.pid_max", "kernel.threads-max"};
        uint64_t used, limit;

        int r = count_threads(w, &used);
        for (size_t i = 0; r == 0 && i < ELEMENTSOF(names); i++)
                if (read_sysctl(w, names[i], &limit) >= 0 && used + POD_PROCESSES > limit)
                        r = sysctl_reached(w, names[i], "processes and threads", 0, ret);
        return r;
}

static bool is_unit(const char *name)
{
        return endswith(name, ".slice") || endswith(name, ".scope") || endswith(name, ".service");
}

static int cgroup_is_full(const char *path, HostLimit *ret)
{
        const char *name = strrchr(path, '/') + 1;
        uint64_t used, limit;

        if (read_number(path, "pids.max", &limit) < 0 || read_number(path, "pids.current", &used) < 0 ||
            used + POD_PROCESSES <= limit)
                return 0;
        int r = xasprintf(&ret->what,
                          "the limit of processes and threads of the cgroup %s (pids.max=%" PRIu64
                          ") is reached",
                          path, limit);
        if (r >= 0)
                r = is_unit(name) ? xasprintf(&ret->remedy,
                                              "Raise it with 'systemctl set-property %s TasksMax=%" PRIu64
                                              "'.",
                                              name, limit * 4)
                                  : xasprintf(&ret->remedy,
                                              "Raise it with 'echo %" PRIu64 " > %s/pids.max'.", limit * 4,
                                              path);
        return r < 0 ? r : 1;
}

/* Checks the cgroup PATH of the hierarchy at TOP, and its ancestors. */
static int check_cgroups_up(const char *top, const char *path, HostLimit *ret)
{
        _cleanup_free_ char *full = NULL;

        int r = xasprintf(&full, "%s%s", top, path);
        while (r == 0 && strlen(full) > strlen(top)) {
                r = cgroup_is_full(full, ret);
                *strrchr(full, '/') = 0;
        }
        return r;
}

/* Checks the current cgroup, and machine.slice, in which systemd creates scopes. */
static int check_cgroups(const HostLimitPlaces *w, HostLimit *ret)
{
        static const char *const tops[] = {"", "/unified", "/pids"};
        _cleanup_strv_free_ char **lines = NULL;
        _cleanup_free_ char *text = NULL;

        int r = read_text(w->proc, "self/cgroup", &text);
        if (r >= 0)
                r = strv_split(text, "\n", &lines);
        for (size_t i = 0; r == 0 && i < ELEMENTSOF(tops); i++) {
                _cleanup_free_ char *top = NULL;

                r = xasprintf(&top, "%s%s", w->cgroup, tops[i]);
                STRV_FOREACH (line, lines) {
                        const char *path = strrchr(*line, ':');
                        bool fits = startswith(*line, "0::") || strstr(*line, ":pids:");

                        if (r == 0 && fits && path)
                                r = check_cgroups_up(top, path + 1, ret);
                }
                if (r == 0)
                        r = check_cgroups_up(top, "/machine.slice", ret);
        }
        return r;
}

/* --- Terminals, keys, mounts --------------------------------------------------------------------------- */

/* Some of them are reserved for the host. */
static int check_terminals(const HostLimitPlaces *w, HostLimit *ret)
{
        uint64_t used, limit, kept = 0;

        int r = read_sysctl(w, "kernel.pty.nr", &used);
        if (r >= 0)
                r = read_sysctl(w, "kernel.pty.max", &limit);
        if (r < 0)
                return r;
        (void) read_sysctl(w, "kernel.pty.reserve", &kept);
        return used + kept < limit ? 0 : sysctl_reached(w, "kernel.pty.max", "terminals", 0, ret);
}

/* "65536: 5 5/5 3/200 37/20000": number of keys and bytes in use, and their limits. */
static int check_keys(const HostLimitPlaces *w, HostLimit *ret)
{
        const uint32_t uids[] = {0, w->uid};
        _cleanup_strv_free_ char **lines = NULL;
        _cleanup_free_ char *text = NULL;

        int r = read_text(w->proc, "key-users", &text);
        if (r >= 0)
                r = strv_split(text, "\n", &lines);
        if (r < 0)
                return r;
        STRV_FOREACH (line, lines) {
                unsigned long keys, keys_max, bytes, bytes_max;
                unsigned uid;

                if (sscanf(*line, "%u: %*u %*u/%*u %lu/%lu %lu/%lu", &uid, &keys, &keys_max, &bytes,
                           &bytes_max) != 5)
                        continue;
                for (size_t i = 0; i < ELEMENTSOF(uids); i++) {
                        if (uid != uids[i])
                                continue;
                        if (keys + 2 > keys_max)
                                return sysctl_reached(
                                                w, uid ? "kernel.keys.maxkeys" : "kernel.keys.root_maxkeys",
                                                "keyrings and keys of one user", 0, ret);
                        if (bytes + 128 > bytes_max)
                                return sysctl_reached(w,
                                                      uid ? "kernel.keys.maxbytes"
                                                          : "kernel.keys.root_maxbytes",
                                                      "bytes in keys of one user", 0, ret);
                }
        }
        return 0;
}

static int check_mounts(const HostLimitPlaces *w, HostLimit *ret)
{
        _cleanup_free_ char *text = NULL;
        uint64_t used = 0, limit;

        int r = read_text(w->proc, "self/mountinfo", &text);
        if (r >= 0)
                r = read_sysctl(w, "fs.mount-max", &limit);
        if (r < 0)
                return r;
        for (const char *c = text; (c = strchr(c, '\n')); c++)
                used++;
        return used + POD_MOUNTS <= limit
                               ? 0
                               : sysctl_reached(w, "fs.mount-max", "mounts of a mount namespace", 0, ret);
}

/* --- Namespaces ---------------------------------------------------------------------------------------- */

static const struct {
        unsigned long flag;
        const char *sysctl, *objects;
} namespaces[] = {
                {CLONE_NEWUSER, "user.max_user_namespaces", "user namespaces of one user"},
                {CLONE_NEWNS, "user.max_mnt_namespaces", "mount namespaces of one user"},
                {CLONE_NEWPID, "user.max_pid_namespaces", "pid namespaces of one user"},
                {CLONE_NEWNET, "user.max_net_namespaces", "network namespaces of one user"},
                {CLONE_NEWIPC, "user.max_ipc_namespaces", "ipc namespaces of one user"},
                {CLONE_NEWUTS, "user.max_uts_namespaces", "uts namespaces of one user"},
                {CLONE_NEWCGROUP, "user.max_cgroup_namespaces", "cgroup namespaces of one user"},
};

static bool namespace_is_refused(unsigned long flag)
{
        pid_t pid = (pid_t) syscall(SYS_clone, flag | SIGCHLD, NULL, NULL, NULL, NULL);

        if (pid == 0)
                _exit(0);
        if (pid < 0)
                return errno == ENOSPC;
        (void) waitpid(pid, NULL, 0);
        return false;
}

static int check_namespaces(const HostLimitPlaces *w, HostLimit *ret)
{
        for (size_t i = 0; i < ELEMENTSOF(namespaces); i++)
                if (namespace_is_refused(namespaces[i].flag))
                        return sysctl_reached(w, namespaces[i].sysctl, namespaces[i].objects, 16384, ret);
        return 0;
}

/* --- Space --------------------------------------------------------------------------------------------- */

static int check_space(const HostLimitPlaces *w, HostLimit *ret)
{
        const char *const paths[] = {w->store, "/run"};

        for (size_t i = 0; i < ELEMENTSOF(paths); i++) {
                struct statvfs st;

                if (!paths[i] || statvfs(paths[i], &st) < 0)
                        continue;
                bool full = (uint64_t) st.f_bavail * st.f_frsize < POD_BYTES;
                if (!full && (st.f_files == 0 || st.f_favail >= POD_INODES))
                        continue;
                int r = xasprintf(&ret->what, "no %s are left on the file system of %s",
                                  full ? "free blocks" : "free inodes", paths[i]);
                if (r >= 0)
                        r = i == 0 ? xasprintf(&ret->remedy,
                                               "Free space, for example with 'acnspawn gc' and "
                                               "'acnspawn image gc', which remove pods that "
                                               "have ended and images that are not used.")
                                   : xasprintf(&ret->remedy, "Free space there; '%s %s' shows the usage.",
                                               full ? "df" : "df -i", paths[i]);
                return r < 0 ? r : 1;
        }
        return 0;
}

/* --- System calls -------------------------------------------------------------------------------------- */

static bool call_is_refused(long number, const unsigned long *a)
{
        int status = 0;
        pid_t pid = (pid_t) syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

        if (pid == 0) {
                (void) prctl(PR_SET_DUMPABLE, 0); /* no core of what is killed */
                _exit(syscall(number, a[0], a[1], a[2], a[3], 0UL) < 0 && is_refusal(-errno));
        }
        if (pid < 0 || waitpid(pid, &status, 0) < 0)
                return false;
        return WIFSIGNALED(status) ? WTERMSIG(status) == SIGSYS : WEXITSTATUS(status) != 0;
}

/* The names of those that are refused. CAP_SYS_ADMIN: this process has it, without which the kernel refuses some, too. */
static unsigned list_refused(bool cap_sys_admin, Text *ret)
{
        static const struct open_how how = {.flags = O_PATH};
        static const char *const words[] = {"x", NULL};
        const unsigned long none = (unsigned long) -1, name = (unsigned long) "x", size = sizeof(how),
                            list = (unsigned long) words;
        const struct {
                const char *name;
                long number;
                unsigned long arguments[4];
                bool cap_sys_admin;
        } calls[] = {
                        {"clone3", SYS_clone3, {none}, false},
                        {"close_range", SYS_close_range, {2, 1}, false},
                        {"execveat", SYS_execveat, {none, name, list, list}, false},
                        {"fsconfig", SYS_fsconfig, {none, none}, false},
                        {"fsmount", SYS_fsmount, {none, none}, true},
                        {"fsopen", SYS_fsopen, {name, none}, true},
                        {"memfd_create", SYS_memfd_create, {name, none}, false},
                        {"mount_setattr", SYS_mount_setattr, {none, name, none}, false},
                        {"move_mount", SYS_move_mount, {none, name, none, name}, true},
                        {"open_tree", SYS_open_tree, {none, name}, false},
                        {"openat2", SYS_openat2, {none, name, (unsigned long) &how, size}, false},
                        {"pidfd_open", SYS_pidfd_open, {none}, false},
                        {"pidfd_send_signal", SYS_pidfd_send_signal, {none}, false}, /* systemd 255 */
                        {"pivot_root", SYS_pivot_root, {none, none}, true},
                        {"renameat2", SYS_renameat2, {none, name, none, name}, false},
                        {"seccomp", SYS_seccomp, {none}, false},
                        {"setns", SYS_setns, {none}, false},
                        {"statx", SYS_statx, {none, name}, false},
                        {"unshare", SYS_unshare, {1}, false},
        };
        unsigned n = 0;

        for (size_t i = 0; i < ELEMENTSOF(calls); i++) {
                if (calls[i].cap_sys_admin && !cap_sys_admin)
                        continue;
                if (call_is_refused(calls[i].number, calls[i].arguments))
                        text_addf(ret, "%s%s()", n++ > 0 ? ", " : "", calls[i].name);
        }
        return n;
}

static int check_system_calls(const HostLimitPlaces *w, HostLimit *ret)
{
        _cleanup_free_ char *status = NULL;
        _cleanup_text_ Text names = {};

        if (read_text(w->proc, "self/status", &status) < 0)
                return 0;
        const char *mode = strstr(status, "\nSeccomp:"), *effective = strstr(status, "\nCapEff:");
        if (!mode || !effective || strtoul(mode + strlen("\nSeccomp:"), NULL, 10) == 0)
                return 0;
        uint64_t capabilities = strtoull(effective + strlen("\nCapEff:"), NULL, 16);
        unsigned n = list_refused(capabilities & UINT64_C(1) << CAP_SYS_ADMIN, &names);
        if (n == 0 || names.failed)
                return 0;
        int r = xasprintf(
                        &ret->what,
                        "a filter of system calls that acnspawn itself runs in, as in a container, refuses %s",
                        names.data);
        if (r >= 0)
                r = xasprintf(&ret->remedy, "If that is the reason, have it allow %s.",
                              n > 1 ? "them" : "it");
        ret->is_filter = true;
        return r < 0 ? r : 1;
}

/* --- All of them --------------------------------------------------------------------------------------- */

static const struct {
        int code;
        int (*check)(const HostLimitPlaces *w, HostLimit *ret);
} checks[] = {
                {EMFILE, check_inotify_instances},
                {EMFILE, check_files_of_process},
                {ENFILE, check_files},
                {EAGAIN, check_cgroups},
                {EAGAIN, check_threads},
                {EDQUOT, check_keys},
                {EDQUOT, check_space},
                {ENOSPC, check_space},
                {ENOSPC, check_terminals},
                {ENOSPC, check_namespaces},
                {ENOSPC, check_mounts},
                {EPERM, check_system_calls},
                {EACCES, check_system_calls},
                {ENOSYS, check_system_calls},
};

int host_limits_find(const HostLimitPlaces *w, int code, HostLimit *ret)
{
        for (size_t i = 0; i < ELEMENTSOF(checks); i++) {
                HostLimit found = {};

                if (checks[i].code != -code)
                        continue;
                if (checks[i].check(w, &found) > 0) {
                        *ret = found;
                        return 1;
                }
                host_limit_done(&found);
        }
        return 0;
}

/* The texts of strerror() in the locale of a pod's systemd. The last one that is there counts. */
int host_limits_code(const char *text)
{
        static const struct {
                int code;
                const char *text;
        } words[] = {
                        /* Said also where nothing is short: the others come after them. */
                        {EPERM, "Operation not permitted"},
                        {EACCES, "Permission denied"},
                        {ENOSYS, "Function not implemented"},
                        {EMFILE, "Too many open files"},
                        {ENFILE, "Too many open files in system"},
                        {EAGAIN, "Resource temporarily unavailable"},
                        {EDQUOT, "Disk quota exceeded"},
                        {ENOSPC, "No space left on device"},
        };
        int code = 0;

        for (size_t i = 0; i < ELEMENTSOF(words); i++)
                if (strstr(text, words[i].text))
                        code = -words[i].code;
        return code;
}

int host_limits_hint(const char *store, Error *e, int code)
{
        const HostLimitPlaces w = {.proc = "/proc", .cgroup = "/sys/fs/cgroup", .store = store};
        _cleanup_(host_limit_done) HostLimit l = {};

        if (!e->message || e->hint || host_limits_find(&w, code, &l) <= 0)
                return code;
        return error_hint(e, code, "%c%s. %s", to_upper(l.what[0]), l.what + 1, l.remedy);
}
