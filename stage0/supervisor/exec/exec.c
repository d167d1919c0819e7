/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Commands that run beside running apps.
 *
 * The launcher is started for each command ("launch enter"). It forks a child, which becomes a child of this
 * process, joins the app and executes the command, and then the launcher ends. This process reaps both,
 * keeps the command's terminal, and kills everything in the command's cgroup when its time-out expires, its
 * caller disconnects or the app ends. Processes that a command leaves running when it ends by itself belong
 * to the app from then on. A command that was killed is over when no process of it is left. */

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stage0/supervisor/exec/exec-internal.h"

#define APP_TIMEOUT_USEC (10 * UINT64_C(1000000)) /* for a launcher to become the app */
#define APP_RETRY_USEC UINT64_C(5000)
#define REMOVE_TIMEOUT_USEC (10 * UINT64_C(1000000)) /* for killed processes to disappear */
#define REMOVE_RETRY_USEC UINT64_C(2000)

struct Execs {
        Pod *pod;
        sd_event *event;
        PodPause *pause;
        ExecEvents events;
        void *userdata;
        Exec *first;
        size_t n;
        uint64_t last_id;
        int launcher_fd; /* the installed launcher */
        int copy_fd;     /* its copy in memory, as long as there are commands */
};

struct Exec {
        Execs *all;
        Exec *next;
        uint64_t id;
        char *app;
        ExecOptions options;
        void *call;
        ExecCgroup cgroup;
        EnterReport *report;
        int app_fd; /* the app's main process */
        int socket; /* to the launcher, and then to the process that is to be the command */
        int pid_fd, terminal_fd;
        pid_t launcher, pid; /* our children; 0: there is none, or it is reaped */
        pid_t number;        /* the value that PID had */
        sd_event_source *app_source, *socket_source, *launcher_source, *process_source, *retry;
        PodTimer *timeout;
        uint64_t retry_until;
        bool started;  /* exit of the launcher was reaped */
        bool executed; /* exit of the command was reaped */
        bool killed, timed_out, reported;
        int error;
        int status;
};

uint64_t exec_id(const Exec *x)
{
        return x->id;
}

uint64_t execs_next_id(Execs *all)
{
        return ++all->last_id;
}

Exec *execs_find(Execs *all, uint64_t id)
{
        for (Exec *x = all->first; x; x = x->next)
                if (x->id == id)
                        return x;
        return NULL;
}

int exec_resize(Exec *x, const struct winsize *size)
{
        if (x->terminal_fd < 0)
                return -ENOTTY;
        return ioctl(x->terminal_fd, TIOCSWINSZ, size) < 0 ? -errno : 0;
}

static void exec_free(Exec *x)
{
        Execs *all = x->all;

        for (Exec **i = &all->first; *i; i = &(*i)->next)
                if (*i == x) {
                        *i = x->next;
                        all->n--;
                        break;
                }
        sd_event_source *const sources[] = {x->app_source, x->socket_source, x->launcher_source,
                                            x->process_source, x->retry};
        for (size_t i = 0; i < ELEMENTSOF(sources); i++)
                sd_event_source_disable_unref(sources[i]);
        pod_timer_free(x->timeout);
        if (x->report)
                (void) munmap(x->report, sizeof(EnterReport));
        safe_close(x->app_fd);
        safe_close(x->socket);
        safe_close(x->pid_fd);
        safe_close(x->terminal_fd);
        exec_cgroup_done(&x->cgroup);
        exec_options_done(&x->options);
        free(x->app);
        free(x);
        if (all->n == 0)
                all->copy_fd = safe_close(all->copy_fd);
}

/* --- The end ------------------------------------------------------------------------------------------- */

static void report_end(Exec *x, AppCause cause, const char *text)
{
        const ExecEnd end = {.error = x->error,
                             .cause = cause,
                             .text = text,
                             .status = x->status,
                             .timed_out = x->timed_out};

        if (!x->reported)
                x->all->events.ended(x->call, x, &end);
        x->reported = true;
}

static int schedule(Exec *x, uint64_t usec, sd_event_time_handler_t function)
{
        if (!x->retry)
                return sd_event_add_time_relative(x->all->event, &x->retry, CLOCK_MONOTONIC, usec, 100,
                                                  function, x);
        int r = sd_event_source_set_time_relative(x->retry, usec);
        return r < 0 ? r : sd_event_source_set_enabled(x->retry, SD_EVENT_ONESHOT);
}

static void conclude(Exec *x);

static int on_remove_again(sd_event_source *source, uint64_t usec, void *userdata)
{
        conclude(userdata);
        return 0;
}

/* Freed later: this is called by the end of the command's process, or by its failure. */
static void conclude(Exec *x)
{
        bool failed = !x->executed || x->report->failed;

        if (x->killed)
                (void) exec_cgroup_kill(&x->cgroup);
        if (!x->killed && !failed)
                report_end(x, CAUSE_NONE, NULL);
        int r = exec_cgroup_remove(&x->cgroup, !x->killed);
        if (r == -EBUSY && now_usec(CLOCK_MONOTONIC) < x->retry_until &&
            schedule(x, REMOVE_RETRY_USEC, on_remove_again) >= 0)
                return;
        if (failed) {
                x->report->text[sizeof(x->report->text) - 1] = 0;
                x->error = -ENOEXEC;
        }
        report_end(x, failed ? (AppCause) x->report->cause : CAUSE_NONE, failed ? x->report->text : NULL);
        exec_free(x);
}

/* The command has ended when the launcher and the process are reaped, and the other end of the socket is closed. */
static void check_end(Exec *x)
{
        if (x->launcher > 0 || x->pid > 0 || x->socket >= 0)
                return;
        x->app_source = sd_event_source_disable_unref(x->app_source);
        x->timeout = pod_timer_free(x->timeout);
        x->retry = sd_event_source_disable_unref(x->retry);
        x->retry_until = now_usec(CLOCK_MONOTONIC) + REMOVE_TIMEOUT_USEC;
        conclude(x);
}

/* The process may not be in its cgroup yet; what it starts is. If the launcher has not made it yet, it is killed when
 * that is reported. */
static void kill_all(Exec *x)
{
        x->killed = true;
        if (x->pid > 0)
                (void) kill(x->pid, SIGKILL);
        (void) exec_cgroup_kill(&x->cgroup);
}

static void fail(Exec *x, int error, const Error *e)
{
        x->error = error;
        report_end(x, CAUSE_SETUP, e->message ?: strerror(-error));
        exec_free(x);
}

void exec_kill(Exec *x)
{
        if (x->started) {
                kill_all(x);
                return;
        }
        Error none = ERROR_NULL;
        fail(x, -ECANCELED, &none);
}

static void on_timeout(void *userdata)
{
        Exec *x = userdata;

        x->timed_out = true;
        exec_kill(x);
}

/* --- While it runs ------------------------------------------------------------------------------------- */

static int on_launcher_end(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Exec *x = userdata;

        if (waitpid(x->launcher, NULL, WNOHANG) != x->launcher)
                return 0;
        x->launcher = 0;
        x->launcher_source = sd_event_source_disable_unref(x->launcher_source);
        check_end(x);
        return 0;
}

static int on_process_end(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Exec *x = userdata;

        if (waitpid(x->pid, &x->status, WNOHANG) != x->pid)
                return 0;
        x->pid = 0;
        x->process_source = sd_event_source_disable_unref(x->process_source);
        check_end(x);
        return 0;
}

static int watch_child(Exec *x, int fd, sd_event_source **ret, sd_event_io_handler_t function)
{
        return fd < 0 ? -errno : sd_event_add_io(x->all->event, ret, fd, EPOLLIN, function, x);
}

static int on_process(Exec *x, pid_t pid)
{
        x->pid = x->number = pid;
        x->pid_fd = (int) syscall(SYS_pidfd_open, pid, 0);
        int r = watch_child(x, x->pid_fd, &x->process_source, on_process_end);
        if (r < 0 || x->killed)
                kill_all(x);
        if (r >= 0)
                return 0;
        (void) waitpid(pid, &x->status, 0);
        x->pid = 0;
        return r;
}

static void on_executed(Exec *x)
{
        x->socket_source = sd_event_source_disable_unref(x->socket_source);
        x->socket = safe_close(x->socket);
        x->executed = x->pid_fd >= 0;
        if (!x->executed && !x->report->failed)
                snprintf(x->report->text, sizeof(x->report->text), "The launcher could not be executed");
        if (x->executed && !x->report->failed)
                x->all->events.executed(x->call, x, x->number, x->pid_fd, x->terminal_fd);
        check_end(x);
}

/* 0: no more will be read. */
static int receive(Exec *x)
{
        EnterMessage message = {};
        int fd = -EBADF;
        size_t n = 0;

        ssize_t size = recv_fds(x->socket, &message, sizeof(message), &fd, 1, &n);
        if (size == -EAGAIN)
                return 1;
        if (size == (ssize_t) sizeof(message) && message.event == ENTER_PROCESS && x->pid_fd < 0)
                (void) on_process(x, message.pid);
        else if (size == (ssize_t) sizeof(message) && n == 1 && x->terminal_fd < 0)
                x->terminal_fd = TAKE_FD(fd);
        safe_close(fd);
        return size > 0;
}

static int on_socket(sd_event_source *source, int socket, uint32_t revents, void *userdata)
{
        if (receive(userdata) == 0)
                on_executed(userdata);
        return 0;
}

static int watch_app(Exec *x, int fd);

/* Unless another process has become the main process. */
static int on_app_end(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Exec *x = userdata;
        pid_t pid;

        int other = x->all->events.main_process(x->all->userdata, x->app, &pid);
        if (process_is_alive(other) && watch_app(x, other) >= 0)
                return 0;
        x->app_source = sd_event_source_disable_unref(x->app_source);
        kill_all(x);
        return 0;
}

static int watch_app(Exec *x, int fd)
{
        int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

        x->app_source = sd_event_source_disable_unref(x->app_source);
        if (copy < 0)
                return -errno;
        safe_close(x->app_fd);
        x->app_fd = copy;
        return sd_event_add_io(x->all->event, &x->app_source, x->app_fd, EPOLLIN, on_app_end, x);
}

/* --- The start ----------------------------------------------------------------------------------------- */

static int open_report(Exec *x, int *ret_fd)
{
        _cleanup_close_ int fd = memfd_create("report", MFD_CLOEXEC);

        if (fd < 0 || ftruncate(fd, sizeof(EnterReport)) < 0)
                return -errno;
        void *p = mmap(NULL, sizeof(EnterReport), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED)
                return -errno;
        x->report = p;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

/* Standard input that was not passed is at its end; output without a descriptor is discarded. The pipes
 * belong to the pod's root, which has to give them to the user of the command. */
static int open_streams(Exec *x, int *fds)
{
        uid_t owner = pod_root_uid(x->all->pod);

        for (size_t i = 0; i < ELEMENTSOF(x->options.fds); i++) {
                int *given = &x->options.fds[i], fd = *given;
                if (fd >= 0 && fchown(fd, owner, owner) < 0)
                        return -errno;
                if (fd < 0)
                        fd = x->all->events.open_null(x->all->userdata);
                if (fd < 0)
                        return fd;
                *given = -EBADF;
                fds[i] = fd;
        }
        return 0;
}

static int copy_launcher(Execs *all)
{
        return all->copy_fd >= 0 ? 0 : launcher_copy(all->launcher_fd, &all->copy_fd);
}

static int collect(Exec *x, const PodApp *app, pid_t pid, EnterRequest *q, int *fds, size_t *n, Error *e)
{
        Pod *p = x->all->pod;
        size_t n_cgroups = 0;

        int r = exec_make_request(p, app, &x->options, q, &fds[ENTER_FD_FILE], e);
        if (r < 0)
                return r;
        q->app = pid;
        r = exec_cgroup_make(p, app->name, x->id, &x->cgroup);
        if (r >= 0)
                r = pod_cgroup_open_process(p, pid, fds + ENTER_FD_CGROUPS, ENTER_CGROUPS_MAX, &n_cgroups);
        *n += n_cgroups;
        if (r == -ESRCH)
                return error_set(e, r, "App %s of pod %s has just ended", app->name, pod_display_name(p));
        if (r < 0)
                return error_set_errno(e, r, "Cannot create a cgroup for a command in app %s", app->name);
        fds[ENTER_FD_APP] = fcntl(x->app_fd, F_DUPFD_CLOEXEC, 3);
        fds[ENTER_FD_CGROUP] = fcntl(x->cgroup.fd, F_DUPFD_CLOEXEC, 3);
        if (fds[ENTER_FD_APP] < 0 || fds[ENTER_FD_CGROUP] < 0)
                return error_set_errno(e, -errno, "Cannot copy a descriptor");
        r = open_report(x, &fds[ENTER_FD_REPORT]);
        if (r >= 0)
                r = open_streams(x, fds + ENTER_FD_STDIN);
        return r < 0 ? error_set_errno(e, r, "Cannot create the streams of the command") : 0;
}

static int watch_launcher(Exec *x)
{
        _cleanup_close_ int fd = (int) syscall(SYS_pidfd_open, x->launcher, 0);

        int r = watch_child(x, fd, &x->launcher_source, on_launcher_end);
        if (r < 0)
                return r;
        r = sd_event_source_set_io_fd_own(x->launcher_source, true);
        if (r < 0)
                return r;
        TAKE_FD(fd);
        r = sd_event_add_io(x->all->event, &x->socket_source, x->socket, EPOLLIN, on_socket, x);
        return r < 0 || fcntl(x->socket, F_SETFL, O_RDWR | O_NONBLOCK) >= 0 ? r : -errno;
}

/* Without a request the launcher ends at once. */
static void end_launcher(Exec *x)
{
        x->socket = safe_close(x->socket);
        (void) waitpid(x->launcher, NULL, 0);
        x->launcher = 0;
}

static int start_launcher(Exec *x, const EnterRequest *q, const int *fds, size_t n)
{
        int r = copy_launcher(x->all);
        if (r >= 0)
                r = launcher_start(x->all->copy_fd, &x->launcher, &x->socket);
        if (r < 0)
                return r;
        r = watch_launcher(x);
        if (r >= 0)
                r = send_fds(x->socket, q, sizeof(*q), fds, n);
        if (r < 0)
                end_launcher(x);
        return r;
}

static int start(Exec *x, const PodApp *app, pid_t pid, Error *e)
{
        int fds[ENTER_FD_CGROUPS + ENTER_CGROUPS_MAX];
        size_t n = ENTER_FD_CGROUPS;
        EnterRequest q;

        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                fds[i] = -EBADF;
        int r = collect(x, app, pid, &q, fds, &n, e);
        if (r >= 0) {
                r = start_launcher(x, &q, fds, n);
                if (r < 0)
                        (void) error_set_errno(e, r, "Cannot start the launcher");
        }
        for (size_t i = 0; i < n; i++)
                safe_close(fds[i]);
        if (r < 0 && x->cgroup.fd >= 0)
                (void) exec_cgroup_remove(&x->cgroup, false);
        x->started = r >= 0;
        return r;
}

/* 0: the app's main process is not the app yet. */
static int find_process(Exec *x, const PodApp *app, pid_t *ret_pid, Error *e)
{
        Execs *all = x->all;

        int fd = all->events.main_process(all->userdata, x->app, ret_pid);
        if (fd < 0)
                return fd == -EAGAIN ? 0 : fd;
        int r = app_process_has_begun(all->pod, *ret_pid);
        if (r < 0 && r != -ESRCH)
                return error_set_errno(e, r, "Cannot query app %s of pod %s", app->name,
                                       pod_display_name(all->pod));
        if (r == -ESRCH)
                return process_main_thread_has_ended(*ret_pid) ? -EOPNOTSUPP : 0;
        if (r == 0 || !process_is_alive(fd))
                return 0;
        r = watch_app(x, fd);
        return r < 0 ? error_set_errno(e, r, "Cannot watch app %s", app->name) : 1;
}

static int on_start_again(sd_event_source *source, uint64_t usec, void *userdata);

/* Negative: it failed, and X is unchanged. */
static int try_start(Exec *x, Error *e)
{
        const PodApp *app = pod_manifest_find_app(x->all->pod->manifest, x->app);
        pid_t pid = 0;

        int r = app ? find_process(x, app, &pid, e) : -ESRCH;
        if (r > 0)
                return start(x, app, pid, e);
        if (r == 0 && now_usec(CLOCK_MONOTONIC) >= x->retry_until)
                return error_set(e, -ETIME, "App %s of pod %s did not start in time", x->app,
                                 pod_display_name(x->all->pod));
        if (r == 0)
                r = schedule(x, APP_RETRY_USEC, on_start_again);
        return r;
}

static int on_start_again(sd_event_source *source, uint64_t usec, void *userdata)
{
        _cleanup_error_ Error e = ERROR_NULL;
        Exec *x = userdata;

        int r = try_start(x, &e);
        if (r < 0)
                fail(x, r, &e);
        return 0;
}

int exec_new(Execs *all, const PodApp *app, ExecOptions *options, void *call, Exec **ret, Error *e)
{
        if (all->n >= EXECS_MAX)
                return -EUSERS;
        Exec *x = calloc(1, sizeof(Exec));
        if (!x)
                return error_oom(e);
        *x = (Exec){.all = all,
                    .next = all->first,
                    .id = ++all->last_id,
                    .app = strdup(app->name),
                    .call = call,
                    .options = *options,
                    .cgroup = EXEC_CGROUP_NULL,
                    .app_fd = -EBADF,
                    .socket = -EBADF,
                    .pid_fd = -EBADF,
                    .terminal_fd = -EBADF,
                    .retry_until = now_usec(CLOCK_MONOTONIC) + APP_TIMEOUT_USEC};
        *options = EXEC_OPTIONS_NULL;
        all->first = x;
        all->n++;
        int r = x->app ? 0 : error_oom(e);
        if (r >= 0 && x->options.timeout_usec != UINT64_MAX) {
                r = pod_timer_new(all->pause, all->event, x->options.timeout_usec, on_timeout, x,
                                  &x->timeout);
                if (r < 0)
                        (void) error_set_errno(e, r, "Cannot set a time-out");
        }
        if (r >= 0)
                r = try_start(x, e);
        if (r < 0) {
                exec_free(x);
                return r;
        }
        *ret = x;
        return 0;
}

/* --- All of them --------------------------------------------------------------------------------------- */

int execs_new(Pod *p, sd_event *event, PodPause *pause, const ExecEvents *events, void *userdata,
              Execs **ret, Error *e)
{
        Execs *all = calloc(1, sizeof(Execs));

        if (!all)
                return error_oom(e);
        *all = (Execs){.pod = p,
                       .event = event,
                       .pause = pause,
                       .events = *events,
                       .userdata = userdata,
                       .launcher_fd = -EBADF,
                       .copy_fd = -EBADF};
        int r = launcher_open(&all->launcher_fd, e);
        if (r < 0) {
                execs_free(all);
                return r;
        }
        *ret = all;
        return 0;
}

/* The work of the event loop, which does not run any more. */
static void end_now(Exec *x)
{
        exec_kill(x);
        if (x->launcher > 0)
                (void) waitpid(x->launcher, NULL, 0);
        (void) fcntl(x->socket, F_SETFL, O_RDWR);
        while (x->socket >= 0 && receive(x) > 0)
                ;
        if (x->pid > 0)
                (void) waitpid(x->pid, &x->status, 0);
        if (x->pid_fd < 0)
                x->error = -ECANCELED;
        report_end(x, CAUSE_SETUP, "The pod has ended");
        (void) exec_cgroup_remove(&x->cgroup, false);
        exec_free(x);
}

Execs *execs_free(Execs *all)
{
        if (!all)
                return NULL;
        while (all->first) {
                Exec *x = all->first;
                if (x->started)
                        end_now(x);
                else
                        exec_kill(x);
        }
        safe_close(all->launcher_fd);
        safe_close(all->copy_fd);
        free(all);
        return NULL;
}
