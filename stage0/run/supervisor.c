/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The process that runs a pod, from the start of nspawn to the pod's result.
 *
 * nspawn is started as early as possible; while it boots the pod's systemd, the roots of the apps are
 * mounted and the metadata service is started. From then on we answer launchers, pass on what the apps
 * write, and pass requests to stop on to the pod's PID 1, which does the rest. If we are killed, the kernel
 * kills nspawn, and with it the pod's PID 1 and everything in the pod; every mount is in a namespace of ours
 * and goes away with us.
 */

#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "library/libsystemd.h"
#include "stage0/run/callers.h"
#include "stage0/run/console.h"
#include "stage0/run/front.h"
#include "stage0/run/machine.h"
#include "stage0/run/readiness.h"
#include "stage0/run/serve.h"

typedef struct Supervisor {
        Pod *pod;
        const RunOptions *options;
        PodSockets *sockets; /* lent; NULL: none */
        sd_event *event;
        PodCgroup cgroup;
        Machine *machine; /* NULL: it is not registered */
        Error refusal;    /* why the pod could not be registered, or served, and has to end */
        Nspawn nspawn;
        PodNetwork *network; /* NULL: the pod has none of its own, or none yet */
        PodMounts *mounts;
        Server *server;
        Pumps *pumps;
        Inputs *inputs; /* NULL: no app reads anything */
        Front *front;   /* NULL: it is us whom our caller sees */
        PodRuntime runtime;
        Callers *control; /* who asks us to end the pod */
        int ready_fd, leader_fd, control_fd, notify_fd;
        bool booted, heard, ready, nspawn_ended, detached;
        Readiness *readiness;
        char *late; /* which apps were not ready in time */
        unsigned stop_requests;
        sd_event_source *idle_source;
        IdleWatch *idle_watch; /* NULL: the pod stays up when it is idle */
        size_t next_app; /* whose root is made next, ahead of time */
        Console console;
} Supervisor;

/* Whoever started us, in the foreground: a process in front of us is whom he knows. */
static void tell_host(Supervisor *s, const char *text)
{
        if (!s->options->detach)
                (void) sd_pid_notify(s->front ? getppid() : 0, 0, text);
}

/* --- Stopping ------------------------------------------------------------------------------------------ */

static void kill_pod(Supervisor *s)
{
        (void) pod_cgroup_kill(s->pod, NULL);
        if (s->nspawn.pid_fd >= 0)
                (void) syscall(SYS_pidfd_send_signal, s->nspawn.pid_fd, SIGKILL, NULL, 0);
}

/* The pod's systemd takes this as the order to go to halt.target, which in our pods is the orderly end. */
static void signal_leader(Supervisor *s)
{
        if (pod_is_paused(s->pod)) /* who is to end has to go on first */
                (void) pod_freeze(s->pod, false, NULL);
        if (s->leader_fd >= 0)
                (void) syscall(SYS_pidfd_send_signal, s->leader_fd, SIGRTMIN + 3, NULL, 0);
}

/* Before the pod's systemd is up it would not hear the signal: it is sent again then. */
static void request_stop(Supervisor *s)
{
        s->stop_requests++;
        tell_host(s, "STOPPING=1");
        if (s->stop_requests == 1 || s->detached) {
                signal_leader(s);
                return;
        }
        kill_pod(s);
}

static const int stop_signals[] = {SIGINT, SIGTERM, SIGHUP};
static const int job_signals[] = {SIGTSTP, SIGCONT}; /* from the front, for whom they were meant */

/* nohup, and shells for what they put into the background, have us ignore what is not meant for us. A signal
 * that is blocked would reach us all the same. */
static bool is_ignored(int sig)
{
        struct sigaction sa;

        return sigaction(sig, NULL, &sa) >= 0 && sa.sa_handler == SIG_IGN;
}

static int on_signal(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata)
{
        Supervisor *s = userdata;

        request_stop(s);
        if (!s->detached && isatty(STDERR_FILENO))
                log_info(s->stop_requests == 1 ? "Stopping pod %s; once more to kill it."
                                               : "Killing pod %s.",
                         s->pod->uuid);
        return 0;
}

static int on_control(void *userdata, int fd)
{
        Supervisor *s = userdata;
        ControlOp op;

        int r = control_receive(fd, &op);
        if (r < 0)
                return r;
        if (op == CONTROL_KILL)
                kill_pod(s);
        else {
                s->stop_requests++;
                tell_host(s, "STOPPING=1");
                signal_leader(s);
        }
        return 0;
}

/* --- What the host's systemd says ---------------------------------------------------------------------- */

static void on_machine_stop(void *userdata)
{
        Supervisor *s = userdata;

        s->stop_requests++;
        signal_leader(s);
}

static void on_machine_refused(const Error *e, void *userdata)
{
        Supervisor *s = userdata;

        if (s->options->registration != REGISTER_YES) {
                log_warning("%s", e->message);
                return;
        }
        (void) error_set(&s->refusal, e->code, "%s", e->message);
        if (e->hint)
                (void) error_hint(&s->refusal, e->code, "%s", e->hint);
        kill_pod(s);
}

static int connect_machine(Supervisor *s, Error *e)
{
        const MachineHandlers handlers = {.stop = on_machine_stop, .refused = on_machine_refused, .userdata = s};

        return machine_new(s->pod, s->options->registration, &handlers, &s->machine, e);
}

/* --- Idle pods ----------------------------------------------------------------------------------------- */

/* A connection that comes from now on stays with who has the socket, too. */
static void on_idle_pod(void *userdata)
{
        Supervisor *s = userdata;

        if (!s->detached && !s->options->quiet)
                log_info("Pod %s is idle: it ends.", s->pod->uuid);
        s->stop_requests++;
        signal_leader(s);
}

static int watch_idleness(Supervisor *s, Error *e)
{
        int r = idle_watch_new(s->pod, s->event, on_idle_pod, s, &s->idle_watch, e);

        if (r >= 0 && s->idle_watch)
                server_set_activity(s->server, idle_watch_begin, s->idle_watch);
        return r;
}

/* --- Our caller ---------------------------------------------------------------------------------------- */

static int on_job_control(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata)
{
        Supervisor *s = userdata;

        pumps_hold(s->pumps, si->ssi_signo == SIGTSTP);
        return 0;
}

/* He has left us: from now on we are as if we had been detached from the start. */
static void on_left(Supervisor *s)
{
        _cleanup_close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        s->detached = true;
        (void) prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
        (void) pod_cgroup_go_along(&s->cgroup, NULL);
        (void) !chdir("/");
        pumps_show_nothing(s->pumps);
        for (int fd = 0; null >= 0 && fd <= 2; fd++)
                (void) dup2(null, fd);
        (void) loop_write(s->front->report_fd, "1", 1);
        s->front->report_fd = safe_close(s->front->report_fd);
}

/* Nothing is shown on his terminal until that is as the app's has to be. */
static void on_front(void *userdata, AttachEvent event)
{
        Supervisor *s = userdata;

        if (event == ATTACH_LEAVE)
                on_left(s);
        else
                pumps_hold(s->pumps, event == ATTACH_REQUEST);
}

static int connect_front(Supervisor *s, Error *e)
{
        Front *f = s->front;

        if (!f || !f->app || !s->inputs)
                return 0;
        if (f->kind == INPUT_TERMINAL)
                pumps_show_only(s->pumps, f->app);
        return inputs_add_front(s->inputs, f->app, TAKE_FD(f->in_fd), TAKE_FD(f->socket), on_front, s, e);
}

/* --- What nspawn says ---------------------------------------------------------------------------------- */

static void set_leader(Supervisor *s)
{
        pid_t leader = nspawn_leader(&s->nspawn);

        if (s->leader_fd >= 0 || leader <= 0)
                return;
        s->leader_fd = (int) syscall(SYS_pidfd_open, leader, 0);
        s->runtime.leader = leader;
        (void) pod_runtime_write(s->pod, &s->runtime);
        if (s->server)
                server_set_leader(s->server, leader);
        machine_register(s->machine, leader);
}

/* What the pod's systemd does not know again it drops, and nobody would ever be served. */
static int check_sockets(Supervisor *s)
{
        int r = s->runtime.leader > 0 ? pod_sockets_check(s->sockets, s->runtime.leader, &s->refusal) : 0;

        if (r < 0)
                kill_pod(s);
        return r;
}

/* Who waits for us: the process that started us, and whoever started that. */
static void tell_ready(Supervisor *s)
{
        _cleanup_free_ char *exceptions = NULL;

        if (s->ready_fd >= 0 && readiness_describe(s->readiness, &exceptions) >= 0 && *exceptions)
                (void) report_warning(s->ready_fd, exceptions);
        else if (s->ready_fd >= 0)
                (void) loop_write(s->ready_fd, "1", 1);
        s->ready_fd = safe_close(s->ready_fd);
        tell_host(s, "READY=1");
}

/* The pod's systemd has nothing more to start; but an app may be waiting for its next attempt. */
static void check_ready(Supervisor *s)
{
        if (s->ready || !s->booted || !readiness_is_settled(s->readiness))
                return;
        s->ready = true;
        tell_ready(s);
}

static void set_booted(Supervisor *s)
{
        if (s->booted)
                return;
        set_leader(s);
        if (check_sockets(s) < 0)
                return;
        s->booted = true;
        idle_watch_begin(s->idle_watch);
        check_ready(s);
        if (s->stop_requests > 0)
                signal_leader(s);
}

static void tell_status(Supervisor *s)
{
        _cleanup_free_ char *summary = NULL, *text = NULL;

        if (readiness_is_used(s->readiness) && readiness_summary(s->readiness, &summary) >= 0 &&
            xasprintf(&text, "STATUS=%s", summary) >= 0)
                tell_host(s, text);
}

/* A launcher that asks is a sign, too, that the pod's systemd hears what was said too early. */
static void on_told(void *userdata, const PodApp *app, LaunchPhase what)
{
        Supervisor *s = userdata;

        if (!s->heard && s->stop_requests > 0)
                signal_leader(s);
        s->heard = true;
        if (what <= LAUNCH_FLUSH)
                return;
        readiness_told(s->readiness, app, what);
        tell_status(s);
        check_ready(s);
}

static int on_late(sd_event_source *source, uint64_t usec, void *userdata)
{
        Supervisor *s = userdata;

        if (s->ready || s->late || readiness_describe(s->readiness, &s->late) < 0)
                return 0;
        s->stop_requests++;
        signal_leader(s);
        return 0;
}

static void handle_notification(Supervisor *s, char *text)
{
        _cleanup_strv_free_ char **lines = NULL;

        if (strv_split(text, "\n", &lines) < 0)
                return;
        STRV_FOREACH (line, lines) {
                if (startswith(*line, "X_NSPAWN_LEADER_PID="))
                        set_leader(s);
                if (streq(*line, "READY=1"))
                        set_booted(s);
        }
}

/* What nspawn passes along (a newer one a descriptor of its child) is of no use here: without room for it, the
 * kernel closes it. */
static int on_notify(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        char text[4096];

        ssize_t n = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);
        if (n < 0)
                return 0;
        text[n] = 0;
        handle_notification(userdata, text);
        return 0;
}

/* Keeps the last of it. */
static int on_console(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Supervisor *s = userdata;
        char chunk[CONSOLE_KEPT / 2];

        ssize_t n = read(fd, chunk, sizeof(chunk));
        if (n <= 0) {
                if (source && (n == 0 || errno != EAGAIN))
                        (void) sd_event_source_set_enabled(source, SD_EVENT_OFF);
                return 0;
        }
        console_add(&s->console, chunk, (size_t) n);
        return 1;
}

static int on_nspawn_end(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Supervisor *s = userdata;

        s->nspawn_ended = true;
        return sd_event_exit(s->event, 0);
}

/* --- Starting ------------------------------------------------------------------------------------------ */

static int start_nspawn(Supervisor *s, Error *e)
{
        int r = notify_listen(s->pod, &s->notify_fd, e);

        if (r >= 0)
                r = control_listen(s->pod, &s->control_fd, e);
        if (r >= 0)
                r = nspawn_start(s->pod, s->sockets, &s->nspawn, e);
        pod_sockets_close(s->sockets);
        if (r >= 0)
                r = pod_cgroup_create(s->pod, s->nspawn.pid, s->detached, machine_bus(s->machine),
                                      &s->cgroup, e);
        if (r >= 0)
                r = nspawn_go(&s->nspawn, e);
        if (r < 0)
                return r;
        s->runtime.supervisor = getpid();
        s->runtime.nspawn = s->nspawn.pid;
        r = pod_runtime_write(s->pod, &s->runtime);
        return r < 0 ? error_set_errno(e, r, "Cannot record that pod %s runs", s->pod->uuid) : 0;
}

static int watch(Supervisor *s, Error *e)
{
        const struct {
                int fd;
                sd_event_io_handler_t handler;
        } sources[] = {
                        {s->nspawn.pid_fd, on_nspawn_end},
                        {s->nspawn.output_fd, on_console},
                        {s->notify_fd, on_notify},
        };
        int r = callers_new(s->event, s->control_fd, on_control, s, &s->control);

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(sources); i++)
                if (sources[i].fd >= 0)
                        r = sd_event_add_io(s->event, NULL, sources[i].fd, EPOLLIN, sources[i].handler, s);
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(stop_signals); i++)
                if (!is_ignored(stop_signals[i]))
                        r = sd_event_add_signal(s->event, NULL, stop_signals[i], on_signal, s);
        for (size_t i = 0; r >= 0 && s->front && i < ELEMENTSOF(job_signals); i++)
                r = sd_event_add_signal(s->event, NULL, job_signals[i], on_job_control, s);
        if (r >= 0)
                r = machine_watch(s->machine, s->event);
        if (r >= 0 && s->options->ready_timeout_usec < UINT64_MAX)
                r = sd_event_add_time_relative(s->event, NULL, CLOCK_MONOTONIC,
                                               s->options->ready_timeout_usec, 0, on_late, s);
        return r < 0 ? error_set_errno(e, r, "Cannot watch pod %s", s->pod->uuid) : 0;
}

static int prepare_mounts(Supervisor *s, Error *e)
{
        int r = mount_namespace_unshare(e);

        if (r >= 0)
                r = pod_mounts_new(s->pod, &s->mounts, e);
        if (r >= 0)
                r = pod_mounts_make_names(s->mounts, e);
        if (r >= 0)
                server_set_mounts(s->server, s->mounts);
        return r;
}

/* While nobody asks for anything, the roots that will be asked for are made. What fails here fails again,
 * and is told, when the app asks. */
static int on_idle(sd_event_source *source, void *userdata)
{
        Supervisor *s = userdata;

        if (s->next_app < s->pod->manifest->n_apps)
                (void) pod_mounts_prepare_app(s->mounts, &s->pod->manifest->apps[s->next_app++], false,
                                              NULL);
        if (s->next_app >= s->pod->manifest->n_apps)
                (void) sd_event_source_set_enabled(source, SD_EVENT_OFF);
        return 0;
}

static int work_ahead(Supervisor *s, Error *e)
{
        int r = sd_event_add_defer(s->event, &s->idle_source, on_idle, s);

        if (r >= 0)
                r = sd_event_source_set_priority(s->idle_source, SD_EVENT_PRIORITY_IDLE);
        if (r >= 0)
                r = sd_event_source_set_enabled(s->idle_source, SD_EVENT_ON);
        return r < 0 ? error_set_errno(e, r, "Cannot make an event loop") : 0;
}

static int open_network(Supervisor *s, Error *e)
{
        _cleanup_free_ ServedPort *served = NULL;
        size_t n_served = 0;

        if (pod_sockets_served(s->sockets, &served, &n_served) < 0)
                return error_oom(e);
        int r = network_up(s->pod, s->options->config_dirs, served, n_served, &s->network, e);
        if (r >= 0 && s->sockets)
                r = pod_sockets_open(s->pod, s->sockets, e);
        if (r >= 0 && s->sockets)
                r = pod_sockets_write_units(s->pod, s->sockets, e);
        return r;
}

static int open_server(Supervisor *s, Error *e)
{
        int r = readiness_new(s->pod, &s->readiness, e);

        if (r >= 0)
                r = server_new(s->pod, s->event, s->pumps, s->inputs, &s->server, e);
        if (r < 0)
                return r;
        server_set_told(s->server, on_told, s);
        tell_status(s);
        return 0;
}

static int start(Supervisor *s, Error *e)
{
        int r = sd_event_new(&s->event);

        if (r < 0)
                return error_set_errno(e, r, "Cannot make an event loop");
        s->runtime.started_usec = now_usec(CLOCK_REALTIME);
        /* The socket first, or the pod's systemd could be faster; the rest goes on while it boots. */
        r = pumps_new(s->event, !s->detached && !s->options->quiet, s->pod->manifest->n_apps > 1,
                      &s->pumps);
        if (r < 0)
                return error_oom(e);
        r = inputs_new(s->pod, s->event, &s->inputs, e);
        if (r < 0)
                return r;
        pumps_set_inputs(s->pumps, s->inputs);
        r = connect_front(s, e);
        if (r >= 0)
                r = open_server(s, e);
        if (r >= 0)
                r = open_network(s, e);
        if (r >= 0)
                r = connect_machine(s, e);
        if (r >= 0)
                r = start_nspawn(s, e);
        if (r >= 0)
                r = server_start_metadata(s->server, s->event, e);
        if (r >= 0)
                r = prepare_mounts(s, e);
        if (r >= 0)
                r = work_ahead(s, e);
        if (r >= 0)
                r = watch_idleness(s, e);
        return r < 0 ? r : watch(s, e);
}

/* --- The end ------------------------------------------------------------------------------------------- */

static bool nothing_ran(const AppStatus *l, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (l[i].state != APP_WAITING)
                        return false;
        return n > 0;
}

/* What is left of a pod that did not start says why, too. */
static int boot_failed(Supervisor *s, AppStatus *l, Error *e)
{
        _cleanup_free_ char *reason = NULL, *hint = NULL;

        int r = console_reason(&s->console, &reason, &hint);
        if (r < 0)
                return error_oom(e);
        for (size_t i = 0; i < s->pod->manifest->n_apps; i++)
                if (!l[i].message)
                        l[i].message = strdup(reason);
        r = error_set(e, -EIO, "Pod %s did not start: %s", s->pod->uuid, reason);
        return hint ? error_hint(e, r, "%s", hint) : r;
}

static void explain_failures(Supervisor *s, const AppStatus *l)
{
        if (s->detached)
                return;
        for (size_t i = 0; i < s->pod->manifest->n_apps; i++) {
                const char *message = l[i].cause == CAUSE_NOT_STARTED ? NULL : l[i].message; /* the pod's */
                _cleanup_free_ char *safe = message ? text_escape_for_terminal(message) : NULL;
                if (safe)
                        log_error("App %s: %s.", s->pod->manifest->apps[i].name, safe);
        }
}

/* How the apps ended, and from that how the pod did. *RET, which may be left NULL, is for
 * explain_failures(). */
static int conclude(Supervisor *s, AppStatus **ret, Error *e)
{
        size_t n = s->pod->manifest->n_apps;
        PodResult result = {.started_usec = s->runtime.started_usec, .ended_usec = now_usec(CLOCK_REALTIME)};
        AppStatus *statuses = NULL;

        int r = pod_read_statuses(s->pod, false, &statuses);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read how the apps of pod %s ended", s->pod->uuid);
        int booted = s->stop_requests == 0 && !s->booted && nothing_ran(statuses, n)
                                     ? boot_failed(s, statuses, e)
                                     : 0;
        (void) pod_finish_statuses(s->pod, statuses);
        result.exit_status = pod_exit_status(s->pod->config.exit_policy, statuses, n);
        r = pod_result_write(s->pod, &result);
        if (r < 0)
                r = error_set_errno(e, r, "Cannot write the result of pod %s", s->pod->uuid);
        else
                r = booted < 0 ? booted : result.exit_status;
        *ret = statuses;
        return r;
}

static void drain(Supervisor *s)
{
        while (on_console(NULL, s->nspawn.output_fd, 0, s) > 0)
                ;
        pumps_end(s->pumps);
}

/* Whoever reads our output may take his time: the pod is over and given back, and a signal ends us as it
 * ends anybody. */
static void show_rest(Supervisor *s, const AppStatus *statuses)
{
        sigset_t none;

        s->pod->locked = flock(s->pod->dir_fd, LOCK_UN) < 0;
        sigemptyset(&none);
        (void) sigprocmask(SIG_SETMASK, &none, NULL);
        log_set_patient(true);
        inputs_finish(s->inputs, statuses);
        pumps_show_rest(s->pumps);
        s->pumps = pumps_free(s->pumps);
        if (statuses)
                explain_failures(s, statuses);
}

/* Whoever waited for the pod to be ready is told why he waits no longer. In the foreground that is said already
 * of apps that ended by themselves. */
static int judge_readiness(Supervisor *s, int status, Error *e)
{
        _cleanup_free_ char *why = NULL;

        if (status < 0 || s->ready || !readiness_is_used(s->readiness))
                return status;
        if (s->late) {
                int r = error_set(e, -ETIME, "Pod %s was not ready in time: %s", s->pod->uuid, s->late);
                return error_hint(e, r, "'acnspawn status %s' and 'acnspawn logs %s' say more.",
                                  s->pod->uuid, s->pod->uuid);
        }
        if (!s->options->detach || readiness_describe(s->readiness, &why) < 0)
                return status;
        return error_set(e, -EIO, "Pod %s ended before it was ready: %s", s->pod->uuid, why);
}

/* What was done in the host's mount namespace is undone there; what we have mounted is of no use any more. */
static void leave_networks(Supervisor *s, Error *e)
{
        int r = pod_network_return(s->network);

        if (r < 0)
                (void) error_set_errno(
                                e, r,
                                "Cannot return to the host's mounts to take pod %s out of its networks",
                                s->pod->uuid);
        else if (s->network)
                (void) network_down(s->pod, e);
        s->network = pod_network_free(s->network);
}

static int finish(Supervisor *s, Error *e)
{
        Error errors[3] = {};
        AppStatus *statuses = NULL;

        (void) waitpid(s->nspawn.pid, NULL, 0);
        s->nspawn.pid = 0;
        tell_host(s, "STOPPING=1");
        drain(s);
        s->machine = machine_free(s->machine);
        s->control = callers_free(s->control);
        s->server = server_free(s->server);
        s->mounts = pod_mounts_free(s->mounts);
        (void) pod_cgroup_remove(s->pod, &errors[0]);
        leave_networks(s, &errors[2]);
        int status = judge_readiness(s, conclude(s, &statuses, e), e);
        if (s->refusal.code < 0 && e) {
                error_done(e);
                *e = TAKE_GENERIC(s->refusal, Error, ERROR_NULL);
                status = e->code;
        }
        (void) pod_end_run(s->pod, &errors[1]);
        show_rest(s, statuses);
        for (size_t i = 0; i < ELEMENTSOF(errors); i++) {
                if (errors[i].message)
                        log_warning("%s", errors[i].message);
                error_done(&errors[i]);
        }
        app_statuses_free(statuses, s->pod->manifest->n_apps);
        return status;
}

static void supervisor_done(Supervisor *s)
{
        log_set_patient(true);
        sd_event_source_disable_unref(s->idle_source);
        machine_free(s->machine);
        error_done(&s->refusal);
        idle_watch_free(s->idle_watch);
        server_free(s->server);
        readiness_free(s->readiness);
        free(s->late);
        nspawn_done(&s->nspawn);
        pod_network_free(s->network);
        pod_mounts_free(s->mounts);
        pumps_free(s->pumps);
        inputs_free(s->inputs);
        pod_cgroup_done(&s->cgroup);
        safe_close(s->ready_fd);
        safe_close(s->leader_fd);
        callers_free(s->control);
        safe_close(s->control_fd);
        safe_close(s->notify_fd);
        sd_event_unref(s->event);
}

static void block_signals(const Front *front)
{
        sigset_t set;

        sigemptyset(&set);
        for (size_t i = 0; i < ELEMENTSOF(stop_signals); i++)
                if (!is_ignored(stop_signals[i]))
                        sigaddset(&set, stop_signals[i]);
        for (size_t i = 0; front && i < ELEMENTSOF(job_signals); i++)
                sigaddset(&set, job_signals[i]);
        (void) sigprocmask(SIG_BLOCK, &set, NULL);
}

/* Each process of an app costs us four. */
static void allow_descriptors(void)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                return;
        limit.rlim_cur = limit.rlim_max;
        (void) setrlimit(RLIMIT_NOFILE, &limit);
}

int supervise_pod(Pod *p, const RunOptions *o, PodSockets *sockets, int ready_fd, Front *front, Error *e)
{
        _cleanup_(supervisor_done) Supervisor s = {
                        .pod = p,
                        .options = o,
                        .sockets = sockets,
                        .front = front,
                        .detached = o->detach,
                        .nspawn = NSPAWN_NULL,
                        .ready_fd = ready_fd,
                        .leader_fd = -EBADF,
                        .control_fd = -EBADF,
                        .notify_fd = -EBADF,
        };

        block_signals(front);
        allow_descriptors();
        log_set_patient(false); /* nor does anybody who reads our messages hold up the pod */
        int r = start(&s, e);
        if (r >= 0) {
                r = sd_event_loop(s.event);
                if (r < 0)
                        r = error_set_errno(e, r, "Cannot watch pod %s any longer", p->uuid);
        }
        if (r < 0) {
                kill_pod(&s);
                if (s.nspawn.pid > 0)
                        (void) finish(&s, NULL);
                else {
                        (void) pod_cgroup_remove(p, NULL);
                        leave_networks(&s, NULL);
                        (void) pod_end_run(p, NULL);
                }
                return r;
        }
        return finish(&s, e);
}
