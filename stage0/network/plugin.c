/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Runs a plugin: an external program, with a configuration as its standard input and a result as its output.
 *
 * It is executed directly, with exactly the environment of the CNI specification. The input is a file in
 * memory, so that writing it does not block. The plugin's output and time are limited; beyond that it is
 * killed together with the processes that it has started, which share its process group. If this process is
 * killed, the kernel kills the plugin. If the plugin takes longer than usual, that is reported.
 */

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "stage0/network/network-internal.h"

#define COMPLAINT_SIZE 1024U /* bytes of standard error to keep */
#define SLICE_MSEC 100       /* interval of checks for a stop request */

uint64_t cni_timeout_usec = 60 * 1000000ULL;
uint64_t cni_notice_usec = 3 * 1000000ULL;
uint64_t cni_others_usec = 5 * 1000000ULL;

/* --- Finding the program ------------------------------------------------------------------------------- */

/* Plugins of Debian's package containernetworking-plugins. */
static const char *const packaged[] = {"bandwidth",   "bridge",     "dhcp",   "firewall",
                                       "host-device", "host-local", "ipvlan", "loopback",
                                       "macvlan",     "portmap",    "ptp",    "sbr",
                                       "static",      "tuning",     "vlan",   "vrf"};

bool cni_plugin_is_packaged(const char *type)
{
        return word_index(packaged, ELEMENTSOF(packaged), type) >= 0;
}

static int not_found(const char *path, const char *type, Error *e)
{
        int r = error_set(e, -ENOENT, "There is no CNI plugin '%s' in %s", type, path);

        if (cni_plugin_is_packaged(type))
                return error_hint(e, r, "Install the package containernetworking-plugins.");
        return error_hint(e, r, "The variable CNI_PATH names other directories with plugins.");
}

int cni_plugin_find(const char *path, const char *type, char **ret, Error *e)
{
        _cleanup_strv_free_ char **directories = NULL;

        if (strv_split(path, ":", &directories) < 0)
                return error_oom(e);
        STRV_FOREACH (d, directories) {
                _cleanup_free_ char *file = NULL;
                struct stat st;

                if (!path_is_absolute(*d))
                        continue;
                if (xasprintf(&file, "%s/%s", *d, type) < 0)
                        return error_oom(e);
                if (stat(file, &st) < 0 || !S_ISREG(st.st_mode) || access(file, X_OK) < 0)
                        continue;
                *ret = TAKE_PTR(file);
                return 0;
        }
        return not_found(path, type, e);
}

/* --- The child ----------------------------------------------------------------------------------------- */

static int build_environment(const CniCall *c, char ***ret)
{
        const struct {
                const char *name, *value;
        } variables[] = {
                        {"CNI_COMMAND", c->command}, {"CNI_CONTAINERID", c->container},
                        {"CNI_NETNS", c->netns},     {"CNI_IFNAME", c->interface},
                        {"CNI_ARGS", c->args},       {"CNI_PATH", c->path},
        };
        _cleanup_strv_free_ char **l = NULL;

        /* Plugins run iptables and similar programs. */
        int r = strv_extend(&l, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(variables); i++)
                if (variables[i].value)
                        r = strv_extendf(&l, "%s=%s", variables[i].name, variables[i].value);
        if (r >= 0)
                *ret = TAKE_PTR(l);
        return r;
}

static int make_input(json_object *o, int *ret)
{
        _cleanup_close_ int fd = memfd_create("cni", MFD_CLOEXEC);
        const char *text = json_print(o);

        if (!text)
                return -ENOMEM;
        if (fd < 0)
                return -errno;
        int r = loop_write(fd, text, strlen(text));
        if (r < 0)
                return r;
        if (lseek(fd, 0, SEEK_SET) < 0)
                return -errno;
        *ret = TAKE_FD(fd);
        return 0;
}

typedef struct Child {
        pid_t pid;
        int pid_fd, output_fd, complaint_fd;
} Child;

#define CHILD_NULL ((Child){.pid_fd = -EBADF, .output_fd = -EBADF, .complaint_fd = -EBADF})

/* Waits for its end, and returns its status. */
static int child_end(Child *c)
{
        int status = -1;

        if (c->pid > 0) {
                (void) kill(-c->pid, SIGKILL); /* also processes that it has left behind */
                (void) kill(c->pid, SIGKILL);
                (void) waitpid(c->pid, &status, 0);
        }
        safe_close(c->pid_fd);
        safe_close(c->output_fd);
        safe_close(c->complaint_fd);
        *c = CHILD_NULL;
        return status;
}

static void child_done(Child *c)
{
        (void) child_end(c);
}

static _noreturn_ void become_plugin(const char *file, char **environment, pid_t parent, const int *fds)
{
        char *argv[] = {(char *) file, NULL};
        sigset_t none;

        sigemptyset(&none);
        for (int i = 0; i < 3; i++)
                if (dup2(fds[i], i) < 0)
                        _exit(127);
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent || setpgid(0, 0) < 0 ||
            chdir("/") < 0)
                _exit(127);
        (void) umask(022);
        (void) signal(SIGPIPE, SIG_DFL);
        (void) sigprocmask(SIG_SETMASK, &none, NULL);
        execve(file, argv, environment);
        dprintf(STDERR_FILENO, "cannot execute %s: %s\n", file, strerror(errno));
        _exit(127);
}

/* FDS are the child's ends. */
static int fork_plugin(const char *file, char **environment, const int *fds, Child *c)
{
        pid_t parent = getpid();

        c->pid = fork();
        if (c->pid == 0)
                become_plugin(file, environment, parent, fds);
        if (c->pid < 0)
                return -errno;
        (void) setpgid(c->pid, c->pid);
        c->pid_fd = pidfd_open(c->pid, 0);
        return c->pid_fd < 0 ? -errno : 0;
}

static int open_pipe(int *ret_ours, int *ret_theirs)
{
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        (void) fcntl(fds[0], F_SETFL, O_NONBLOCK);
        *ret_ours = fds[0];
        *ret_theirs = fds[1];
        return 0;
}

static int start_plugin(const CniCall *call, const char *file, Child *c)
{
        _cleanup_strv_free_ char **environment = NULL;
        _cleanup_close_ int input = -EBADF, output = -EBADF, complaint = -EBADF;

        int r = build_environment(call, &environment);
        if (r >= 0)
                r = make_input(call->input, &input);
        if (r >= 0)
                r = open_pipe(&c->output_fd, &output);
        if (r >= 0)
                r = open_pipe(&c->complaint_fd, &complaint);
        if (r >= 0)
                log_debug("Executing plugin %s for %s of network %s, interface %s", file, call->command,
                          call->network, call->interface ?: "(none)");
        return r < 0 ? r : fork_plugin(file, environment, (const int[]){input, output, complaint}, c);
}

/* --- Its output ---------------------------------------------------------------------------------------- */

typedef struct Answer {
        Text output;
        char complaint[COMPLAINT_SIZE]; /* the end of standard error */
        size_t n_complaint;
} Answer;

static void add_complaint(Answer *a, const char *p, size_t n)
{
        if (n > COMPLAINT_SIZE) {
                p += n - COMPLAINT_SIZE;
                n = COMPLAINT_SIZE;
        }
        size_t drop = a->n_complaint + n > COMPLAINT_SIZE ? a->n_complaint + n - COMPLAINT_SIZE : 0;
        memmove(a->complaint, a->complaint + drop, a->n_complaint - drop);
        a->n_complaint -= drop;
        memcpy(a->complaint + a->n_complaint, p, n);
        a->n_complaint += n;
}

/* 1: data was read; 0: none available, or the end. */
static int read_some(Answer *a, int *fd, bool is_complaint)
{
        char chunk[8192];
        ssize_t n = *fd >= 0 ? read(*fd, chunk, sizeof(chunk)) : 0;

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n <= 0) {
                *fd = safe_close(*fd);
                return 0;
        }
        if (is_complaint)
                add_complaint(a, chunk, (size_t) n);
        else if (a->output.size + (size_t) n > CNI_OUTPUT_MAX)
                return -EFBIG;
        else
                text_add_bytes(&a->output, chunk, (size_t) n);
        return a->output.failed ? -ENOMEM : 1;
}

bool network_stop_is_pending(const NetworkStop *stop)
{
        static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
        sigset_t pending;

        if (stop && stop->requested(stop->userdata))
                return true;
        if (sigpending(&pending) < 0)
                return false;
        for (size_t i = 0; i < ELEMENTSOF(signals); i++)
                if (sigismember(&pending, signals[i]) == 1)
                        return true;
        return false;
}

static uint64_t time_limit(const CniCall *c)
{
        return c->deadline == 0 ? cni_timeout_usec : MIN(cni_timeout_usec, deadline_left(c->deadline));
}

static void tell_of_wait(const CniCall *c, uint64_t limit_usec)
{
        log_info("Waiting for the CNI plugin '%s' of network '%s' (%s), for %u s at most.", c->type,
                 c->network, c->command, (unsigned) (limit_usec / 1000000));
}

/* Reads until it has ended. Other processes that keep its output open are not waited for. */
static int follow(const CniCall *call, Child *c, Answer *a)
{
        uint64_t begin = now_usec(CLOCK_MONOTONIC), limit = time_limit(call);

        for (bool ended = false, notified = false; !ended;) {
                struct pollfd fds[] = {
                                {c->output_fd, POLLIN, 0},
                                {c->complaint_fd, POLLIN, 0},
                                {c->pid_fd, POLLIN, 0},
                                {call->interruptible && call->stop ? call->stop->fd : -EBADF, POLLIN, 0}};

                if (poll(fds, ELEMENTSOF(fds), SLICE_MSEC) < 0 && errno != EINTR)
                        return -errno;
                ended = fds[2].revents != 0;
                int r = read_some(a, &c->output_fd, false);
                if (r >= 0)
                        r = read_some(a, &c->complaint_fd, true);
                if (r < 0)
                        return r;
                uint64_t waited = now_usec(CLOCK_MONOTONIC) - begin;
                if (!ended && waited > limit)
                        return -ETIME;
                if (!ended && call->interruptible && network_stop_is_pending(call->stop))
                        return -EINTR;
                if (!ended && !notified && waited > cni_notice_usec) {
                        tell_of_wait(call, limit);
                        notified = true;
                }
        }
        int r = 1;
        while (r > 0)
                r = read_some(a, &c->output_fd, false);
        (void) read_some(a, &c->complaint_fd, true);
        return r;
}

/* --- Failures ------------------------------------------------------------------------------------------ */

const char *cni_failure_hint(const char *type, const char *message)
{
        /* Messages of plugins, and of the kernel as passed on by them. */
        static const struct {
                const char *type, *needle, *hint;
        } hints[] = {
                        {NULL, "\"iptables\": executable file not found", "Install the package iptables."},
                        {NULL, "\"ip6tables\": executable file not found", "Install the package iptables."},
                        {NULL, "\"tc\": executable file not found", "Install the package iproute2."},
                        {NULL, "failed to make veth pair: operation not supported",
                         "The kernel does not support veth interfaces: modprobe veth"},
                        {"bridge", "operation not supported",
                         "The kernel does not support bridges: modprobe bridge"},
                        {"macvlan", "operation not supported",
                         "The kernel does not support macvlan interfaces: modprobe macvlan"},
                        {"ipvlan", "operation not supported",
                         "The kernel does not support ipvlan interfaces: modprobe ipvlan"},
                        {"ptp", "operation not supported",
                         "The kernel does not support veth interfaces: modprobe veth"},
                        {"bandwidth", "create ifb",
                         "The kernel does not support ifb interfaces: modprobe ifb"},
                        {"bandwidth", "qdisc",
                         "The kernel does not support rate limits: modprobe -a sch_tbf sch_ingress "
                         "act_mirred ifb"},
                        {NULL, "can't initialize iptables table",
                         "The kernel does not support address translation: modprobe -a iptable_nat nf_nat"},
                        {NULL, "Failed to initialize nft",
                         "The kernel does not support nf_tables: modprobe nf_tables"},
                        {NULL, "No chain/target/match by that name",
                         "The kernel lacks a part of iptables: modprobe -a nf_nat xt_comment "
                         "xt_mark xt_addrtype xt_multiport xt_MASQUERADE nft_compat"},
        };

        for (size_t i = 0; i < ELEMENTSOF(hints); i++)
                if ((!hints[i].type || streq(hints[i].type, type)) && strcasestr(message, hints[i].needle))
                        return hints[i].hint;
        return NULL;
}

static int fail(const CniCall *c, int code, const char *message, Error *e)
{
        const char *hint = cni_failure_hint(c->type, message);
        _cleanup_free_ char *shown = text_escape_for_terminal(message);

        int r = error_set(e, code, "The CNI plugin '%s' of network '%s' failed (%s): %.1000s", c->type,
                          c->network, c->command, shown ?: "");
        return hint ? error_hint(e, r, "%s", hint) : r;
}

/* The error object of the specification: a code, a short and a long text. 0: not an error object. */
static int fail_as_told(const CniCall *c, const Answer *a, unsigned *ret_code, Error *e)
{
        _cleanup_json_ json_object *o = NULL;
        _cleanup_free_ char *text = NULL;
        json_object *msg, *details, *code;

        if (!a->output.data || json_parse_strict(a->output.data, a->output.size, &o, NULL, NULL) < 0 ||
            !json_object_is_type(o, json_type_object) || !json_object_object_get_ex(o, "msg", &msg) ||
            !json_object_is_type(msg, json_type_string))
                return 0;
        if (json_object_object_get_ex(o, "code", &code) && json_object_is_type(code, json_type_int))
                *ret_code = (unsigned) json_object_get_int(code);
        bool more = json_object_object_get_ex(o, "details", &details) &&
                    json_object_is_type(details, json_type_string) &&
                    json_object_get_string_len(details) > 0;
        if (xasprintf(&text, "%.1000s%s%.1000s", json_object_get_string(msg), more ? "; " : "",
                      more ? json_object_get_string(details) : "") < 0)
                return error_oom(e);
        return fail(c, -EIO, text, e);
}

/* The last line of standard error, or how it ended. */
static int fail_somehow(const CniCall *c, Answer *a, int status, Error *e)
{
        _cleanup_free_ char *text = NULL;
        size_t end = a->n_complaint, start;

        while (end > 0 && strchr("\r\n ", a->complaint[end - 1]))
                end--;
        for (start = end; start > 0 && a->complaint[start - 1] != '\n'; start--)
                ;
        int n = (int) (end - start);
        int r = WIFSIGNALED(status) ? xasprintf(&text, "it was killed by SIG%s",
                                                sigabbrev_np(WTERMSIG(status)) ?: "?")
                : n > 0             ? xasprintf(&text, "%.*s", n, a->complaint + start)
                        : xasprintf(&text, "it exited with status %d and no message", WEXITSTATUS(status));
        return r < 0 ? error_oom(e) : fail(c, -EIO, text, e);
}

static int fail_to_follow(const CniCall *c, int code, Error *e)
{
        _cleanup_free_ char *text = NULL;
        int r = 0;

        if (code == -ETIME && c->deadline > 0)
                r = xasprintf(&text, "it did not end in time and was killed");
        else if (code == -ETIME)
                r = xasprintf(&text, "it did not end within %u s and was killed",
                              (unsigned) (cni_timeout_usec / 1000000));
        else if (code == -EFBIG)
                r = xasprintf(&text, "it printed more than %u bytes and was killed", CNI_OUTPUT_MAX);
        else if (code == -EINTR)
                r = xasprintf(&text, "it was killed by a stop request");
        else
                r = xasprintf(&text, "%s", strerror(-code));
        return r < 0 ? error_oom(e) : fail(c, code, text, e);
}

static void answer_done(Answer *a)
{
        text_done(&a->output);
}

int cni_plugin_run(const CniCall *c, char **ret_output, size_t *ret_size, unsigned *ret_code, Error *e)
{
        _cleanup_(child_done) Child child = CHILD_NULL;
        _cleanup_(answer_done) Answer a = {};
        _cleanup_free_ char *file = NULL;

        *ret_code = 0;
        int r = cni_plugin_find(c->path, c->type, &file, e);
        if (r < 0)
                return r;
        r = start_plugin(c, file, &child);
        if (r < 0)
                return error_set_errno(e, r, "Cannot start the CNI plugin '%s'", c->type);
        r = follow(c, &child, &a);
        if (r < 0)
                return fail_to_follow(c, r, e);
        int status = child_end(&child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
                r = fail_as_told(c, &a, ret_code, e);
                return r < 0 ? r : fail_somehow(c, &a, status, e);
        }
        return text_take(&a.output, ret_output, ret_size) < 0 ? error_oom(e) : 0;
}
