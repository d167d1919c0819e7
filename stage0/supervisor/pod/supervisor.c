/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The supervisor runs a pod, from the start of nspawn to the pod's result.
 *
 * nspawn is started as early as possible; while it boots the pod's systemd, the roots of the apps are
 * mounted. From then on this process answers launchers, forwards output of the apps, and passes requests to
 * stop on to the pod's PID 1, which does the rest. If this process is killed, the kernel kills nspawn, and
 * with it the pod's PID 1 and everything in the pod; every mount is in a namespace of this process and
 * disappears with it. */

#include <sys/socket.h>

#include "stage0/supervisor/pod/supervisor-internal.h"

static int on_nspawn_end(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Supervisor *s = userdata;

        log_debug("systemd-nspawn has ended");
        return sd_event_exit(s->event, 0);
}

/* --- Starting ------------------------------------------------------------------------------------------ */

/* Calls are served while plugins, or the host's systemd, are waited for. */
static NetworkStop stop_of(Supervisor *s)
{
        return (NetworkStop){
                        .fd = sd_event_get_fd(s->event), .requested = supervisor_serve_calls, .userdata = s};
}

static int start_nspawn(Supervisor *s, Error *e)
{
        const NetworkStop stop = stop_of(s);
        const PodPlace place = {.keep_unit = s->options->keep_unit,
                                .along = s->detached,
                                .bus = machine_bus(s->machine),
                                .stop = &stop};
        int r = notify_listen(s->pod, &s->notify_fd, e);

        if (r >= 0)
                r = nspawn_start(s->pod, &s->nspawn, e);
        if (r >= 0)
                r = pod_cgroup_create(s->pod, s->nspawn.pid, &place, &s->cgroup, e);
        if (r >= 0) {
                log_debug("The pod's cgroup is %s", s->cgroup.unified);
                r = nspawn_go(&s->nspawn, e);
        }
        if (r < 0)
                return r;
        s->runtime.supervisor = getpid();
        s->runtime.nspawn = s->nspawn.pid;
        r = pod_runtime_write(s->pod, &s->runtime);
        return r < 0 ? error_set_errno(e, r, "Cannot record that pod %s runs", pod_display_name(s->pod)) : 0;
}

static int watch(Supervisor *s, Error *e)
{
        int r = sd_event_add_io(s->event, NULL, s->nspawn.pid_fd, EPOLLIN, on_nspawn_end, s);

        if (r >= 0)
                r = supervisor_watch_progress(s);
        if (r >= 0)
                r = supervisor_watch_signals(s);
        if (r >= 0)
                r = supervisor_serve_watchdog(s);
        if (r >= 0)
                r = machine_watch(s->machine, s->event);
        return r < 0 ? error_set_errno(e, r, "Cannot watch pod %s", pod_display_name(s->pod)) : 0;
}

static int prepare_mounts(Supervisor *s, Error *e)
{
        _cleanup_(mount_namespace_done) MountNamespace host = MOUNT_NAMESPACE_NULL;
        int r = mount_namespace_unshare(&host, e);

        if (r >= 0 && (r = forwarders_set_host(s->forwarders, &host)) < 0)
                (void) error_set_errno(e, r, "Cannot copy a descriptor");
        file_keeper_set_host(s->keeper, forwarders_host(s->forwarders)->fd);
        if (r >= 0)
                r = pod_mounts_new(s->pod, &s->mounts, e);
        if (r >= 0)
                pod_mounts_set_host(s->mounts, &host);
        if (r >= 0)
                r = pod_mounts_mount_devices(s->mounts, e);
        if (r >= 0)
                r = pod_mounts_make_names(s->mounts, e);
        if (r >= 0)
                server_set_mounts(s->server, s->mounts);
        return r;
}

/* While there are no requests, roots are made ahead of time. An error occurs again, and is reported, when
 * the app requests its root. */
static int on_idle(sd_event_source *source, void *userdata)
{
        Supervisor *s = userdata;

        if (s->next_app < s->pod->manifest->n_apps)
                (void) pod_mounts_prepare_app(s->mounts, s->pod->manifest->apps[s->next_app++], false, NULL);
        if (s->next_app >= s->pod->manifest->n_apps)
                (void) sd_event_source_set_enabled(source, SD_EVENT_OFF);
        return 0;
}

static int prepare_when_idle(Supervisor *s, Error *e)
{
        int r = sd_event_add_defer(s->event, &s->idle_source, on_idle, s);

        if (r >= 0)
                r = sd_event_source_set_priority(s->idle_source, SD_EVENT_PRIORITY_IDLE);
        if (r >= 0)
                r = sd_event_source_set_enabled(s->idle_source, SD_EVENT_ON);
        return r < 0 ? error_set_errno(e, r, "Cannot create an event loop") : 0;
}

static int open_network(Supervisor *s, Error *e)
{
        _cleanup_free_ ServedPort *served = NULL;
        size_t n_served = 0;

        if (pod_sockets_served(s->sockets, &served, &n_served) < 0)
                return error_oom(e);
        const NetworkStop stop = stop_of(s);
        int r = supervisor_open_interface(s, e);
        if (r >= 0)
                r = network_up(s->pod, s->options->config_dirs, served, n_served, &stop, &s->network, e);
        if (r >= 0 && s->sockets && s->pod->config.net != NET_NONE)
                r = pod_sockets_open(s->pod, 0, NULL, s->sockets, e);
        return r < 0 ? r : supervisor_take_sockets(s, s->sockets, e);
}

/* As a program that SIGPIPE ends: output that nobody reads is no reason to go on. */
static void on_reader_gone(void *userdata)
{
        Supervisor *s = userdata;

        if (s->detached)
                return;
        s->reader_gone = true;
        (void) supervisor_request_stop(s, SIGHUP); /* which does not make a signal the second one */
}

/* What apps read and write. */
static int open_streams(Supervisor *s, Error *e)
{
        const ForwarderOptions options = {
                        .pod = s->pod,
                        .apps = s->apps,
                        .show = !s->detached && !s->options->quiet,
                        .prefix = s->pod->manifest->n_apps > 1,
                        .raw = s->options->raw,
                        .reader_gone = on_reader_gone,
                        .userdata = s,
        };
        int r = forwarders_new(s->event, &options, &s->forwarders, e);

        if (r < 0)
                return r;
        r = inputs_new(s->pod, s->apps, s->event, &s->inputs, e);
        if (r < 0)
                return r;
        forwarders_set_inputs(s->forwarders, s->inputs);
        return supervisor_connect_front(s, e);
}

static int open_server(Supervisor *s, Error *e)
{
        static const ServerEvents events = {.asked = supervisor_asked,
                                            .prepare = supervisor_prepare,
                                            .superseded = supervisor_end_superseded,
                                            .reported = supervisor_reported,
                                            .launched = supervisor_launched,
                                            .pod_ended = supervisor_pod_ended};
        int r = supervisor_open_units(s, e);

        if (r >= 0)
                r = readiness_new(s->pod, s->apps, s->event, supervisor_launcher_gone, s, &s->readiness, e);

        if (r >= 0)
                r = server_new(s->pod, s->apps, s->event, s->forwarders, s->inputs, &s->server, e);
        if (r < 0)
                return r;
        server_set_events(s->server, &events, s);
        supervisor_notify_status(s);
        return 0;
}

static void on_synced(void *userdata, int r, const Error *e)
{
        Supervisor *s = userdata;

        s->syncing = false;
        if (r >= 0)
                supervisor_check_ready(s);
        else if (r != -ESHUTDOWN && s->refusal.code >= 0) {
                (void) error_set_errno(&s->refusal, r, "Cannot write pod %s to disk",
                                       pod_display_name(s->pod));
                supervisor_kill(s);
        }
}

/* A pod with an owner only has to be on disk before it counts as up: the interface is served meanwhile. */
static int sync_run(Supervisor *s, Error *e)
{
        if (!s->pod->config.owner)
                return pod_sync_run(s->pod, e);
        s->syncing = true;
        return file_keeper_sync_run(s->keeper, on_synced, s) < 0 ? error_oom(e) : 0;
}

/* nspawn, and the network that it needs. */
static int start_systemd(Supervisor *s, Error *e)
{
        /* State that plugins have lost in a power failure must not appear to be there, in a pod that is run again; booting the
         * pod's systemd again is harmless, and it boots while the disk is waited for. */
        bool first = s->pod->config.net == NET_NETWORKS && !s->pod->config.owner;
        int r = first ? pod_sync_run(s->pod, e) : 0;

        if (r >= 0)
                r = open_network(s, e);
        if (r >= 0)
                r = supervisor_connect_machine(s, e);
        if (r >= 0)
                r = start_nspawn(s, e);
        if (r >= 0 && !first)
                r = sync_run(s, e);
        return r;
}

static void on_frozen(void *userdata, bool frozen)
{
        Supervisor *s = userdata;

        server_set_frozen(s->server, frozen);
}

/* The launchers' socket first, as the pod's systemd could be faster; the other steps follow while it
 * boots. */
static int start(Supervisor *s, Error *e)
{
        int r = sd_event_new(&s->event);

        if (r < 0)
                return error_set_errno(e, r, "Cannot create an event loop");
        s->runtime.started_usec = now_usec(CLOCK_REALTIME);
        if (cgroup_moves_new(s->event, &s->moves) >= 0)
                cgroup_moves_expect(s->moves, MOVES_OF_BOOT_USEC);
        r = user_claim_new(s->pod, &s->users, e);
        if (r >= 0)
                r = app_table_new(s->pod, &s->apps, e);
        if (r >= 0 && pod_pause_new(s->pod, s->event, &s->pause) < 0)
                r = error_oom(e);
        if (r >= 0) {
                s->apps->pause = s->pause;
                s->apps->event = s->event;
                pod_pause_watch(s->pause, on_frozen, s);
        }
        if (r >= 0 && file_keeper_new(s->pod, s->event, supervisor_remove_leftovers, s, &s->keeper) < 0)
                r = error_oom(e);
        if (r >= 0)
                r = open_streams(s, e);
        if (r >= 0)
                r = open_server(s, e);
        if (r >= 0)
                r = start_systemd(s, e);
        if (r >= 0)
                r = forwarders_open_logs(s->forwarders, e);
        if (r >= 0)
                r = server_open_metadata(s->server, s->event, e);
        if (r >= 0)
                r = prepare_mounts(s, e);
        if (r >= 0)
                r = forwarders_await_logs(s->forwarders, e);
        if (r >= 0)
                r = prepare_when_idle(s, e);
        if (r >= 0)
                r = supervisor_watch_idleness(s, e);
        return r < 0 ? r : watch(s, e);
}

static void supervisor_done(Supervisor *s)
{
        log_set_blocking(true);
        sd_event_source_disable_unref(s->idle_source);
        supervisor_leave_end(s);
        supervisor_close_units(s);
        file_keeper_free(s->keeper);
        strv_free(s->leftovers);
        cgroup_moves_free(s->moves);
        machine_free(s->machine);
        error_done(&s->refusal);
        idle_watch_free(s->idle_watch);
        server_free(s->server);
        readiness_free(s->readiness);
        free(s->late);
        nspawn_done(&s->nspawn);
        pod_network_free(s->network);
        socket_filter_free(s->socket_filter);
        user_claim_free(s->users);
        pod_mounts_free(s->mounts);
        forwarders_free(s->forwarders);
        inputs_free(s->inputs);
        pod_timer_free(s->late_timer);
        pod_timer_free(s->slow_timer);
        app_table_free(s->apps);
        pod_pause_free(s->pause);
        cgroups_done(&s->cgroup);
        safe_close(s->ready_fd);
        safe_close(s->leader_fd);
        safe_close(s->notify_fd);
        sd_event_unref(s->event);
}

int supervise_pod(Pod *p, const RunOptions *o, PodSockets *sockets, int ready_fd, ForegroundProxy *front,
                  Error *e)
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
                        .notify_fd = -EBADF,
        };

        supervisor_block_signals(front);
        inherited_settings_leave(o->keep_unit);
        log_set_blocking(false); /* a reader of our messages that is slow must not block the pod */
        int r = start(&s, e);
        if (r >= 0) {
                r = sd_event_loop(s.event);
                if (r < 0)
                        r = error_set_errno(e, r, "Cannot watch pod %s any longer", pod_display_name(p));
        }
        if (r < 0) {
                supervisor_kill(&s);
                if (s.nspawn.pid > 0)
                        (void) supervisor_finish(&s, NULL);
                else {
                        (void) pod_cgroup_remove(p, NULL);
                        supervisor_leave_networks(&s, NULL);
                        (void) pod_end_run(p, NULL);
                }
                return r;
        }
        return supervisor_finish(&s, e);
}
