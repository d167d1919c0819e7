/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Requests of launchers: each process of an app requests, as root inside the pod, what belongs to its app.
 *
 * The reply is the app's launch file and clones of its mounts. Other packets report events of the app. At
 * the first request the metadata service's socket is opened: the pod's network namespace exists by then, and
 * no process of an app has run yet. Nothing here blocks on a launcher, nor on a file system that has a volume of its app. A request for
 * a clean root is answered when the files of the last execution are removed; others are answered meanwhile. */

#include <linux/capability.h>
#include <linux/magic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "stage0/supervisor/launchers/admission.h"
#include "stage0/supervisor/apps/app-devices.h"
#include "stage0/supervisor/apps/app-hooks.h"
#include "stage0/supervisor/apps/app-life.h"
#include "stage0/supervisor/apps/app-limits.h"
#include "stage0/supervisor/apps/app-sources.h"
#include "stage0/supervisor/launchers/connections.h"
#include "stage0/supervisor/apps/cleaner.h"
#include "stage0/supervisor/interface/control-api.h"
#include "stage0/supervisor/services/metadata-service.h"
#include "stage0/supervisor/launchers/notices.h"
#include "stage0/supervisor/launchers/readiness.h"
#include "stage0/supervisor/launchers/serve.h"
#include "stage0/supervisor/streams/streams.h"

typedef struct Question {
        struct ucred peer;
        AppInstance *app;
        LaunchRequest request;
        int streams[_LAUNCH_STREAM_MAX];
        MountSources *sources; /* what the app gets of the host; NULL: not yet, or it was used */
        bool hooked;           /* the hooks of the app were executed, on the root that it gets */
} Question;

typedef enum WaitReason { WAIT_CLEAN, WAIT_SOURCES, WAIT_HOOKS } WaitReason;

/* Until the root of its app is clean, what it gets of the host is open, or its hooks have ended. */
typedef struct Waiting {
        struct Waiting *next;
        AppInstance *app;
        int fd;
        WaitReason reason;
        uint64_t round;
        Question question;
} Waiting;

struct Server {
        Pod *pod;
        AppTable *apps;
        PodMounts *mounts;
        Forwarders *forwarders;
        Inputs *inputs;
        pid_t leader;
        int listen_fd;
        Connections *launchers;
        Admission *admission;
        Notices *notices;
        Cleaner *cleaner;
        AppHooks *hooks;
        AppSources *sources;
        Waiting *waiting;
        uint64_t round; /* of resume_launchers() */
        MetadataService *metadata;
        Limits limits;
        void (*activity)(void *userdata);
        void *activity_data;
        ServerEvents events;
        void *userdata;
};

static void close_all(int *fds, size_t n)
{
        for (size_t i = 0; i < n; i++)
                fds[i] = safe_close(fds[i]);
}

static void question_done(Question *q)
{
        close_all(q->streams, _LAUNCH_STREAM_MAX);
        q->sources = mount_sources_free(q->sources);
}

static void waiting_free(Waiting *w)
{
        question_done(&w->question);
        safe_close(w->fd);
        free(w);
}

Server *server_free(Server *s)
{
        if (!s)
                return NULL;
        FOREACH_APP(app, s->apps)
        {
                app->control = control_api_free(app->control);
                app_devices_forget(app);
        }
        connections_free(s->launchers);
        notices_free(s->notices);
        admission_free(s->admission);
        cleaner_free(s->cleaner);
        app_hooks_free(s->hooks);
        app_sources_free(s->sources);
        for (Waiting *w; (w = s->waiting);) {
                s->waiting = w->next;
                waiting_free(w);
        }
        metadata_service_free(s->metadata);
        safe_close(s->listen_fd);
        limits_done(&s->limits);
        free(s);
        return NULL;
}

void server_set_mounts(Server *s, PodMounts *m)
{
        s->mounts = m;
}

void server_set_activity(Server *s, void (*function)(void *userdata), void *userdata)
{
        s->activity = function;
        s->activity_data = userdata;
}

void server_set_leader(Server *s, pid_t leader)
{
        s->leader = leader;
        notices_set_leader(s->notices, leader);
}

void server_set_frozen(Server *s, bool frozen)
{
        if (s)
                notices_set_frozen(s->notices, frozen);
}

void server_extend_again(Server *s)
{
        if (s)
                notices_extend_again(s->notices);
}

int server_set_parameters(Server *s, Error *e)
{
        return limits_set_parameters(&s->limits, s->pod, s->leader, e);
}

void server_set_events(Server *s, const ServerEvents *events, void *userdata)
{
        s->events = *events;
        s->userdata = userdata;
}

int server_open_metadata(Server *s, sd_event *event, Error *e)
{
        return s->pod->config.no_metadata ? 0 : metadata_service_new(s->pod, event, &s->metadata, e);
}

int server_add_app(Server *s, AppInstance *app)
{
        int r = admission_add_app(app);

        metadata_service_changed(s->metadata);
        return r < 0 ? r : notices_add_app(s->notices, app);
}

void server_remove_app(Server *s, AppInstance *app)
{
        for (Waiting **i = &s->waiting, *w; (w = *i);) {
                if (w->app != app) {
                        i = &w->next;
                        continue;
                }
                *i = w->next;
                waiting_free(w);
        }
        metadata_service_changed(s->metadata);
        app->control = control_api_free(app->control);
        app_devices_forget(app);
        app_hooks_forget(s->hooks, app);
        app_sources_forget(s->sources, app);
        cleaner_forget(s->cleaner, app);
        admission_remove_app(app);
        notices_remove_app(app);
}

void server_manifest_changed(Server *s)
{
        metadata_service_changed(s->metadata);
}

void server_remove_tree(Server *s, int dir_fd, const char *name)
{
        (void) cleaner_begin(s->cleaner, NULL, dir_fd, name);
}

/* --- Launchers ----------------------------------------------------------------------------------------- */

static int check_peer(Server *s, int fd, struct ucred *ret, Error *e)
{
        socklen_t size = sizeof(*ret);

        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret, &size) < 0)
                return error_set_errno(e, -errno, "Cannot identify the peer");
        if (ret->uid != pod_root_uid(s->pod))
                return error_set(e, -EPERM, "Only root of the pod may send requests");
        return 0;
}

typedef union Packet {
        LaunchRequest request;
        LaunchEvent event;
} Packet;

/* 0: the packet has not come yet. */
static int receive_packet(int fd, Question *q, Packet *p, bool *ret_event, Error *e)
{
        size_t n_fds = 0;

        ssize_t n = recv_fds(fd, p, sizeof(*p), q->streams, _LAUNCH_STREAM_MAX, &n_fds);
        if (n == -EAGAIN)
                return 0;
        *ret_event = n == (ssize_t) sizeof(LaunchEvent);
        if (n < 0 || (*ret_event ? launch_event_check(&p->event, (size_t) n, n_fds)
                                 : launch_request_check(&p->request, (size_t) n, n_fds)) < 0)
                return error_set(e, -EBADMSG, "This is not a request of a launcher");
        if (!*ret_event)
                q->request = p->request;
        return 1;
}

/* The first phase of an execution starts from a clean root (spec: ace.md, "Filesystem Setup"). */
static bool begins_execution(AppInstance *app, uint32_t phase)
{
        return phase == LAUNCH_PRE_START || (phase == LAUNCH_MAIN && !app->app->pre_start);
}

static int open_launch_file(Server *s, AppInstance *app, Error *e)
{
        _cleanup_free_ char *path = NULL;

        if (pod_app_path(s->pod, app->manifest, "launch", &path) < 0)
                return error_oom(e);
        int fd = open_beneath(s->pod->dir_fd, path, O_RDONLY);
        return fd < 0 ? error_set_errno(e, fd, "Cannot open the launch file of app %s", app->name) : fd;
}

/* Stores the device of the app's root, which identifies processes that leave the cgroup of the app; 0 if they cannot. */
static void note_root(AppInstance *app, int fd)
{
        struct statfs sf;
        struct stat st;

        app->root = 0;
        if (app->writes_cgroups && fstatfs(fd, &sf) >= 0 && sf.f_type == OVERLAYFS_SUPER_MAGIC &&
            fstat(fd, &st) >= 0)
                app->root = st.st_dev;
}

/* Fills in FDS in the order of the protocol and counts them in *N, also those of a failure. */
static int collect(Server *s, const Question *q, LaunchReply *reply, int *fds, size_t *n, Error *e)
{
        _cleanup_device_rules_ DeviceRules devices = {};
        const LaunchRequest *request = &q->request;
        AppInstance *app = q->app;
        ClonedMounts mounts = {};

        if (!s->mounts)
                return error_set(e, -EAGAIN, "The pod's mounts are not ready");
        int r = pod_mounts_prepare_app(s->mounts, app->manifest,
                                       begins_execution(app, request->phase) && !q->hooked, e);
        if (r >= 0)
                r = open_launch_file(s, app, e);
        if (r < 0)
                return r;
        fds[(*n)++] = r;
        *n += _LAUNCH_STREAM_MAX; /* placeholders that are filled in later */
        r = pod_mounts_clone_app(s->mounts, app->manifest, q->sources, fds + *n, &mounts, &devices, e);
        if (r < 0)
                return r;
        reply->has_credentials = mounts.has_credentials;
        reply->has_maker = mounts.has_maker;
        note_root(app, fds[*n]);
        *n += mounts.n;
        r = app_devices_apply(s->pod, app, &devices, q->peer.pid, e);
        if (r < 0)
                return r;
        if (request->phase != LAUNCH_MAIN)
                return 0;
        r = notices_begin(s->mounts, app, fds + *n, e);
        if (r < 0)
                return r;
        reply->has_notify = r > 0;
        *n += r > 0;
        r = app_sockets_complete(app->sockets, s->pod, s->leader, e);
        if (r < 0)
                return r;
        reply->n_sockets = (uint32_t) app_sockets_number(app->sockets);
        r = app_life_open_report(app, fds + *n);
        if (r < 0)
                return error_set_errno(e, r, "Cannot share memory with the launcher of app %s", app->name);
        reply->has_report = true;
        (*n)++;
        return 0;
}

/* The streams come last: nothing that could fail may follow, or a terminal would be left without its app. */
static int add_streams(Server *s, AppInstance *app, const LaunchRequest *request, int *streams,
                       LaunchReply *reply, int *fds, size_t *n, Error *e)
{
        StreamEnds ends = STREAM_ENDS_NULL;

        reply->n_volumes = (uint32_t) (*n - LAUNCH_FD_VOLUMES) - reply->has_credentials - reply->has_maker -
                           reply->has_notify - reply->has_report;
        /* The streams of a health check are those that the request came with. */
        if (request->phase == LAUNCH_HEALTH) {
                fds[LAUNCH_FD_STDOUT] = TAKE_FD(streams[LAUNCH_STREAM_STDOUT]);
                fds[LAUNCH_FD_STDERR] = TAKE_FD(streams[LAUNCH_STREAM_STDERR]);
                return 0;
        }
        int r = streams_open(s->pod, s->forwarders, app, request->phase, fds[LAUNCH_FD_PTS], streams, &ends,
                             e);
        if (r < 0)
                return r;
        fds[LAUNCH_FD_STDOUT] = ends.fds[STDOUT_FILENO];
        fds[LAUNCH_FD_STDERR] = ends.fds[STDERR_FILENO];
        reply->input = (uint32_t) ends.kind;
        if (ends.kind != INPUT_NULL)
                fds[(*n)++] = ends.fds[STDIN_FILENO];
        if (ends.kind == INPUT_TERMINAL)
                snprintf(reply->terminal_type, sizeof(reply->terminal_type), "%s", terminal_type());
        return 0;
}

static void answer_flush(int fd)
{
        LaunchReply reply = {};

        (void) send_fds_now(fd, &reply, sizeof(reply), NULL, 0);
}

bool server_app_is_ready(AppInstance *app)
{
        return notices_is_ready(app);
}

void server_end_execution(Server *s, AppInstance *app)
{
        admission_end(app);
        notices_end(app);
        input_stop(app->input);
        forwarders_drain(s->forwarders, app);
        input_ended(app->input, app_status_to_exit_code(&app->status));
        if (forwarders_have_shown(s->forwarders))
                inputs_shown(s->inputs);
}

static void refuse(int fd, int error, const Error *e)
{
        LaunchReply reply = {.error = error};

        snprintf(reply.text, sizeof(reply.text), "%s", e->message ?: strerror(-error));
        (void) send_fds_now(fd, &reply, sizeof(reply), NULL, 0);
}

static void show_question(const AppInstance *app, const Question *q)
{
        static const char *const phases[] = {
                        [LAUNCH_PRE_START] = "its pre-start handler starts",
                        [LAUNCH_MAIN] = "it starts",
                        [LAUNCH_POST_STOP] = "its post-stop handler starts",
                        [LAUNCH_HEALTH] = "a health check starts",
        };

        log_debug("App %s, process %d: %s", app->name, (int) q->peer.pid, phases[q->request.phase]);
}

static int await(Server *s, const Question *q, int fd, Error *e)
{
        bool wait = q->request.phase == LAUNCH_AWAIT_READY;
        int r = notices_await(q->app, fd, wait, answer_flush);

        if (r < 0)
                return error_set_errno(e, r, "Cannot wait for app %s", q->app->name);
        if (r > 0)
                answer_flush(fd);
        return r > 0 || wait ? 1
                             : error_set(e, -EAGAIN, "App %s has not reported that it is ready",
                                         q->app->name);
}

/* Finds the app of the request, and whether this process may request it. */
static int admit(Server *s, Question *q, int peer_fd, Error *e)
{
        LaunchPhase phase = (LaunchPhase) q->request.phase;
        AppInstance *app = q->app = app_table_find(s->apps, q->request.app);

        if (!app)
                return error_set(e, -ENOENT, "The pod has no app %s", q->request.app);
        int r = admission_check_process(s->admission, app, q->peer.pid, peer_fd, e);
        /* systemd continues with the handler if the app is stopped during its delay. */
        if (r >= 0 && phase == LAUNCH_PRE_START && app->run == APP_RUN_DELAYED)
                return error_set(e, -ECANCELED, "App %s is being stopped", app->name);
        if (r >= 0 && app_life_is_first_phase(app, phase)) {
                s->events.superseded(s->userdata, app);
                if (app_table_find(s->apps, q->request.app) != app)
                        return error_set(e, -ENOENT, "App %s was just removed", q->request.app);
        }
        if (r >= 0 && launch_phase_has_root(phase))
                r = admission_check_phase(s->admission, app, phase, q->peer.pid, peer_fd, e);
        if (r >= 0 && phase == LAUNCH_DELAY) {
                r = admission_begin_delay(app, q->peer.pid, peer_fd);
                if (r < 0)
                        (void) error_set_errno(e, r, "Cannot copy a descriptor");
        }
        if (r < 0)
                log_debug("A request for app %s is refused: %s", app->name, e->message ?: strerror(-r));
        else {
                app_life_begin_phase(app, phase);
                notices_begin_phase(app, phase);
        }
        return r;
}

static uint64_t begin_delay(AppInstance *app)
{
        uint64_t delay = app_life_delay(app);

        if (delay > 0)
                app_run_handle(app, RUN_DELAY_BEGINS);
        else
                app_life_starts(app);
        return delay;
}

/* Requests that are not for a root. 1: the reply was sent, or will be. */
static int answer_other(Server *s, int fd, const Question *q, LaunchReply *reply, Error *e)
{
        AppInstance *app = q->app;

        switch (q->request.phase) {
        case LAUNCH_DELAY:
                s->events.asked(s->userdata, app, LAUNCH_DELAY);
                reply->value = begin_delay(app);
                return 0;
        case LAUNCH_AWAIT_EXEC: {
                int r = readiness_await_exec(app, fd, answer_flush);
                return r < 0 ? error_set_errno(e, r, "Cannot wait for app %s", app->name) : 1;
        }
        case LAUNCH_CHECK:
                reply->value = app_life_checkable(app);
                return reply->value > 0 ? 0 : error_set(e, -ECANCELED, "There is nothing to check");
        default:
                return await(s, q, fd, e);
        }
}

/* 1: the reply was sent, or will be. */
static int answer_question(Server *s, int fd, Question *q, LaunchReply *reply, int *fds, size_t *n, Error *e)
{
        AppInstance *app = q->app;
        int r = 0;

        if (!launch_phase_has_root((LaunchPhase) q->request.phase))
                return answer_other(s, fd, q, reply, e);
        if (s->metadata)
                r = metadata_service_listen(s->metadata, s->leader ?: q->peer.pid, e);
        if (r < 0)
                return r;
        show_question(app, q);
        s->events.asked(s->userdata, app, (LaunchPhase) q->request.phase);
        r = limits_apply(&s->limits, s->pod, app->manifest, fd, q->peer.pid, e);
        if (r >= 0 && q->request.phase == LAUNCH_MAIN)
                r = s->events.prepare(s->userdata, app, e);
        if (r >= 0)
                r = collect(s, q, reply, fds, n, e);
        if (r >= 0)
                r = add_streams(s, app, &q->request, q->streams, reply, fds, n, e);
        if (r < 0)
                return r;
        reply->modules = security_modules(&s->limits.features);
        reply->processes = tasks_by_user(&s->limits, app->manifest);
        snprintf(reply->text, sizeof(reply->text), "%s", metadata_service_url(s->metadata) ?: "");
        if (!begins_execution(app, q->request.phase))
                snprintf(reply->identity, sizeof(reply->identity), "%s", app->status.identity ?: "");
        return 0;
}

static void answer(Server *s, int fd, Question *q)
{
        int fds[LAUNCH_FDS_MAX] = {-EBADF, -EBADF, -EBADF};
        _cleanup_error_ Error e = ERROR_NULL;
        LaunchReply reply = {};
        size_t n = 0;

        int r = answer_question(s, fd, q, &reply, fds, &n, &e);
        if (r < 0)
                refuse(fd, r, &e);
        else if (r == 0 && send_fds_now(fd, &reply, sizeof(reply), fds, n) >= 0 &&
                 q->request.phase == LAUNCH_MAIN && app_sockets_send(q->app->sockets, fd) >= 0)
                s->events.launched(s->userdata, q->app, fd);
        close_all(fds, n);
        if (s->activity)
                s->activity(s->activity_data);
}

/* --- Clean roots --------------------------------------------------------------------------------------- */

/* Of launchers that were killed meanwhile. */
static void drop_gone(Server *s, const AppInstance *app)
{
        for (Waiting **i = &s->waiting, *w; (w = *i);) {
                if (w->app != app || launcher_is_connected(w->fd)) {
                        i = &w->next;
                        continue;
                }
                *i = w->next;
                waiting_free(w);
        }
}

static int add_waiting(Server *s, int fd, Question *q, WaitReason reason, Error *e)
{
        drop_gone(s, q->app);
        Waiting *w = malloc(sizeof(Waiting)), **last = &s->waiting;

        if (!w)
                return error_oom(e);
        *w = (Waiting){.app = q->app,
                       .fd = fcntl(fd, F_DUPFD_CLOEXEC, 3),
                       .reason = reason,
                       .round = s->round,
                       .question = *q};
        if (w->fd < 0) {
                int r = error_set_errno(e, -errno, "Cannot copy a descriptor");
                free(w);
                return r;
        }
        for (size_t i = 0; i < _LAUNCH_STREAM_MAX; i++)
                q->streams[i] = -EBADF;
        q->sources = NULL;
        while (*last)
                last = &(*last)->next;
        *last = w;
        return 1;
}

/* 1: it has to wait, and is answered later. */
static int must_wait(Server *s, int fd, Question *q, Error *e)
{
        AppInstance *app = q->app;

        if (!s->mounts || !launch_phase_has_root((LaunchPhase) q->request.phase))
                return 0;
        if (!cleaner_is_at(s->cleaner, app)) {
                if (!begins_execution(app, q->request.phase))
                        return 0;
                _cleanup_close_ int app_fd = pod_mounts_retire_app(s->mounts, app->manifest);
                if (app_fd < 0 || cleaner_begin(s->cleaner, app, app_fd, RETIRED_UPPER) < 0)
                        return 0;
        }
        return add_waiting(s, fd, q, WAIT_CLEAN, e);
}

/* Another request of the app may be waiting for the same: it is not asked for twice at a time. */
static int must_open_sources(Server *s, int fd, Question *q, Error *e)
{
        _cleanup_(mount_sources_freep) MountSources *sources = NULL;
        AppInstance *app = q->app;
        int r;

        if (!s->mounts || !launch_phase_has_root((LaunchPhase) q->request.phase) || q->sources)
                return 0;
        r = pod_mounts_open_sources(s->mounts, app->manifest, &sources, e);
        if (r > 0) {
                q->sources = TAKE_PTR(sources);
                return 0;
        }
        if (r == 0 && !app_sources_are_opened(s->sources, app)) {
                r = app_sources_begin(s->sources, app, s->mounts, sources);
                if (r < 0)
                        return error_set_errno(e, r, "Cannot open the volumes of app %s", app->name);
                TAKE_PTR(sources);
        }
        return r < 0 ? r : add_waiting(s, fd, q, WAIT_SOURCES, e);
}

/* Each execution begins with a clean root, and so with the hooks. 1: they run, and it is answered later. */
static int must_run_hooks(Server *s, int fd, Question *q, Error *e)
{
        /* Mount points can be made in the root. */
        int fds[LAUNCH_FDS_MAX], *volumes = fds + LAUNCH_FD_VOLUMES - LAUNCH_FD_ROOT;
        _cleanup_device_rules_ DeviceRules devices = {};
        AppInstance *app = q->app;
        ClonedMounts mounts = {};

        if (!s->mounts || !app->settings.hooks || q->hooked || !begins_execution(app, q->request.phase))
                return 0;
        int r = pod_mounts_prepare_app(s->mounts, app->manifest, true, e);
        if (r >= 0)
                r = pod_mounts_clone_app(s->mounts, app->manifest, q->sources, fds, &mounts, &devices, e);
        q->sources = mount_sources_free(q->sources); /* used */
        if (r < 0)
                return r;
        app_hooks_forget(s->hooks, app); /* of a launcher that is gone */
        r = app_hooks_begin(s->hooks, app,
                            &(HookJob){.pod = s->pod,
                                       .app = app->manifest,
                                       .pid = q->peer.pid,
                                       .root_fd = fds[mounts.has_maker ? mounts.n - 1 : 0],
                                       .dev_fd = fds[LAUNCH_FD_DEV - LAUNCH_FD_ROOT],
                                       .volume_fds = volumes},
                            e);
        close_all(fds, mounts.n);
        if (r < 0)
                return r;
        q->hooked = true;
        r = add_waiting(s, fd, q, WAIT_HOOKS, e);
        if (r < 0)
                app_hooks_forget(s->hooks, app);
        return r;
}

static void proceed(Server *s, int fd, Question *q)
{
        _cleanup_error_ Error e = ERROR_NULL;
        int r = must_open_sources(s, fd, q, &e);

        if (r == 0)
                r = must_run_hooks(s, fd, q, &e);
        if (r < 0)
                refuse(fd, r, &e);
        else if (r == 0)
                answer(s, fd, q);
}

static Waiting *take_waiting(Server *s, const AppInstance *app, WaitReason reason, uint64_t before)
{
        for (Waiting **i = &s->waiting, *w; (w = *i); i = &w->next)
                if (w->app == app && w->reason == reason && w->round < before) {
                        *i = w->next;
                        return w;
                }
        return NULL;
}

/* All that wait by now: they can have to wait again. A launcher that has closed its connection meanwhile is skipped. The first of the
 * others gets SOURCES. */
static void resume_launchers(Server *s, AppInstance *app, WaitReason reason, MountSources *sources,
                             int error, const Error *e)
{
        uint64_t round = ++s->round;

        for (Waiting *w; (w = take_waiting(s, app, reason, round)); waiting_free(w)) {
                if (error < 0)
                        refuse(w->fd, error, e);
                else if (launcher_is_connected(w->fd)) {
                        if (sources)
                                w->question.sources = TAKE_PTR(sources);
                        proceed(s, w->fd, &w->question);
                }
        }
        mount_sources_free(sources);
}

static void on_cleaned(void *userdata, AppInstance *app)
{
        resume_launchers(userdata, app, WAIT_CLEAN, NULL, 0, NULL);
}

static void on_sources(void *userdata, AppInstance *app, MountSources *sources, int error, const Error *e)
{
        resume_launchers(userdata, app, WAIT_SOURCES, sources, error, e);
}

static void on_hooks_ended(void *userdata, AppInstance *app, const char *message)
{
        resume_launchers(userdata, app, WAIT_HOOKS, NULL, message ? -EIO : 0,
                         &(Error){.message = (char *) message});
}

/* --- Connections ------------------------------------------------------------------------------------------- */

static int take_event(Server *s, int fd, int peer_fd, const Question *q, const LaunchEvent *event, Error *e)
{
        AppInstance *app = app_table_find(s->apps, event->app);

        if (!app)
                return error_set(e, -ENOENT, "The pod has no app %s", event->app);
        int r = admission_check_process(s->admission, app, q->peer.pid, peer_fd, e);
        if (r >= 0 && event->kind == LAUNCH_MAIN_ENDED && admission_process_is_alive(app))
                r = error_set(e, -EBUSY, "It runs");
        if (r >= 0)
                r = s->events.reported(s->userdata, app, event);
        if (r > 0) {
                r = forwarders_flush(s->forwarders, app, fd, answer_flush);
                if (r < 0)
                        return error_set_errno(e, r, "Cannot pass on what app %s wrote", app->name);
        } else if (r == 0)
                answer_flush(fd);
        if (s->activity)
                s->activity(s->activity_data);
        return r < 0 ? r : 1;
}

/* The pod's process 1 ends the pod once this is answered. */
static int flush_pod(Server *s, int fd, const Question *q, Error *e)
{
        if (s->leader <= 0 || q->peer.pid != s->leader)
                return error_set(e, -EPERM, "Only the pod's PID 1 may send this request");
        s->events.pod_ended(s->userdata);
        int r = forwarders_flush(s->forwarders, NULL, fd, answer_flush);
        return r < 0 ? error_set_errno(e, r, "Cannot pass on what the apps wrote") : 1;
}

/* 0: the request is to be answered. */
static int take_packet(Server *s, int fd, int peer_fd, Question *q, const Packet *p, bool event, Error *e)
{
        if (event)
                return take_event(s, fd, peer_fd, q, &p->event, e);
        if (q->request.phase == LAUNCH_FLUSH)
                return flush_pod(s, fd, q, e);
        int r = admit(s, q, peer_fd, e);
        return r < 0 ? r : must_wait(s, fd, q, e);
}

static int on_launcher(void *userdata, int fd, int peer_fd)
{
        Question q = {.streams = {-EBADF, -EBADF}};
        _cleanup_error_ Error e = ERROR_NULL;
        Server *s = userdata;
        bool event = false;
        Packet p;

        int r = check_peer(s, fd, &q.peer, &e);
        if (r >= 0)
                r = receive_packet(fd, &q, &p, &event, &e);
        if (r == 0)
                return -EAGAIN;
        if (r > 0)
                r = take_packet(s, fd, peer_fd, &q, &p, event, &e);
        if (r < 0)
                refuse(fd, r, &e);
        else if (r == 0)
                proceed(s, fd, &q);
        question_done(&q);
        return 0;
}

static int listen_for_launchers(Server *s, sd_event *event)
{
        uid_t owner = pod_root_uid(s->pod);
        _cleanup_close_ int dir_fd = open_beneath(s->pod->dir_fd, "root/acnspawn", O_RDONLY | O_DIRECTORY);

        if (dir_fd < 0)
                return dir_fd;
        int r = socket_listen_at(dir_fd, "socket", &s->listen_fd);
        if (r < 0)
                return r;
        if (fchownat(dir_fd, "socket", owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        return connections_new(event, s->listen_fd, on_launcher, s, &s->launchers);
}

int server_new(Pod *p, AppTable *apps, sd_event *event, Forwarders *forwarders, Inputs *inputs, Server **ret,
               Error *e)
{
        _cleanup_(server_freep) Server *s = calloc(1, sizeof(Server));

        if (!s)
                return error_oom(e);
        *s = (Server){.pod = p,
                      .apps = apps,
                      .forwarders = forwarders,
                      .inputs = inputs,
                      .listen_fd = -EBADF};
        int r = admission_new(p, apps, event, &s->admission, e);
        if (r >= 0)
                r = notices_new(p, apps, event, s->admission, &s->notices, e);
        if (r < 0)
                return r;
        r = cleaner_new(event, on_cleaned, s, &s->cleaner);
        if (r >= 0)
                r = app_hooks_new(event, on_hooks_ended, s, &s->hooks);
        if (r >= 0)
                r = app_sources_new(event, on_sources, s, &s->sources);
        if (r >= 0)
                r = listen_for_launchers(s, event);
        if (r < 0)
                return error_set_errno(e, r, "Cannot listen for the launchers of pod %s",
                                       pod_display_name(p));
        *ret = TAKE_PTR(s);
        return 0;
}
