/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The service: its socket, its methods, and its end.
 *
 * systemd listens on the socket and starts the service with the first connection. The service has no state
 * between calls, so it exits after some time without connections and calls; later connections wait in the
 * socket, which stays open, and start it again. */

#include <signal.h>

#include "config.h"
#include "stage0/host-service/host-interface.h" /* generated from org.acnspawn.Host.varlink */
#include "stage0/host-service/service-internal.h"

const char host_interface_description[] = HOST_INTERFACE_DESCRIPTION;

#define DEFINE_METHOD(function, kind, use)                                                                  \
        static int method_##function(VarlinkCall *call, json_object *parameters, void *userdata)            \
        {                                                                                                   \
                return host_task_start(userdata, call, parameters, kind, use, job_##function);              \
        }

DEFINE_METHOD(list_pods, HOST_CALL_QUERIES, STORE_IF_THERE)
DEFINE_METHOD(describe_pod, HOST_CALL_QUERIES, STORE_IF_THERE)
DEFINE_METHOD(prepare_pod, HOST_CALL_FETCHES, STORE_NEEDED)
DEFINE_METHOD(run_pod, HOST_CALL_FETCHES, STORE_NEEDED)
DEFINE_METHOD(start_pod, HOST_CALL_CHANGES, STORE_IF_THERE)
DEFINE_METHOD(stop_pod, HOST_CALL_CHANGES, STORE_IF_THERE)
DEFINE_METHOD(remove_pod, HOST_CALL_CHANGES, STORE_IF_THERE)
DEFINE_METHOD(list_images, HOST_CALL_QUERIES, STORE_IF_THERE)
DEFINE_METHOD(describe_image, HOST_CALL_QUERIES, STORE_IF_THERE)
DEFINE_METHOD(fetch_image, HOST_CALL_FETCHES, STORE_NEEDED)
DEFINE_METHOD(remove_image, HOST_CALL_CHANGES, STORE_IF_THERE)
DEFINE_METHOD(collect_garbage, HOST_CALL_CHANGES, STORE_IF_THERE)

static const VarlinkMethod methods[] = {
                {"ListPods", method_list_pods, VARLINK_METHOD_MORE},
                {"DescribePod", method_describe_pod, 0},
                {"PreparePod", method_prepare_pod, 0},
                {"RunPod", method_run_pod, 0},
                {"StartPod", method_start_pod, 0},
                {"StopPod", method_stop_pod, 0},
                {"RemovePod", method_remove_pod, 0},
                {"ListImages", method_list_images, VARLINK_METHOD_MORE},
                {"DescribeImage", method_describe_image, 0},
                {"FetchImage", method_fetch_image, 0},
                {"RemoveImage", method_remove_image, 0},
                {"CollectGarbage", method_collect_garbage, 0},
                {"Monitor", host_monitor, VARLINK_METHOD_MORE},
};

static const VarlinkInterface interface = {
                .name = HOST_INTERFACE,
                .description = host_interface_description,
                .methods = methods,
                .n_methods = ELEMENTSOF(methods),
};

/* --- The end ------------------------------------------------------------------------------------------- */

static int on_idle(sd_event_source *source, uint64_t usec, void *userdata)
{
        HostService *s = userdata;
        uint64_t accepted;
        size_t n = varlink_server_connections(s->server, &accepted);

        if (n == 0 && !s->tasks && accepted == s->n_accepted)
                return sd_event_exit(s->event, 0);
        s->n_accepted = accepted;
        int r = sd_event_source_set_time_relative(source, s->options->exit_idle_usec);
        return r < 0 ? r : sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* Cancels all calls; the service exits when their effects are undone. */
static int on_signal(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata)
{
        HostService *s = userdata;

        s->ending = true;
        s->idle = sd_event_source_disable_unref(s->idle);
        s->server = varlink_server_free(s->server);
        host_tasks_cancel(s);
        return s->tasks ? 0 : sd_event_exit(s->event, 0);
}

static int watch_end(HostService *s)
{
        static const int signals[] = {SIGTERM, SIGINT};
        sigset_t set;

        sigemptyset(&set);
        for (size_t i = 0; i < ELEMENTSOF(signals); i++)
                sigaddset(&set, signals[i]);
        if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
                return -errno;
        for (size_t i = 0; i < ELEMENTSOF(signals); i++) {
                int r = sd_event_add_signal(s->event, NULL, signals[i], on_signal, s);
                if (r < 0)
                        return r;
        }
        if (s->options->exit_idle_usec == UINT64_MAX)
                return 0;
        return sd_event_add_time_relative(s->event, &s->idle, CLOCK_MONOTONIC, s->options->exit_idle_usec, 0,
                                          on_idle, s);
}

/* --- The whole ----------------------------------------------------------------------------------------- */

static int serve(HostService *s, int fd, void (*ready)(void), Error *e)
{
        int r = varlink_server_new(s->event, "acnspawn", ACNSPAWN_VERSION, &s->server, e);

        if (r >= 0)
                r = varlink_server_add_interface(s->server, &interface, s, e);
        if (r < 0) {
                safe_close(fd);
                return r;
        }
        r = varlink_server_listen(s->server, fd);
        if (r >= 0)
                r = watch_end(s);
        if (r < 0)
                return error_set_errno(e, r, "Cannot serve");
        if (ready)
                ready();
        r = sd_event_loop(s->event);
        return r < 0 ? error_set_errno(e, r, "The event loop failed") : 0;
}

int host_service_run(int fd, const HostServiceOptions *o, void (*ready)(void), Error *e)
{
        HostService s = {.options = o};

        int r = library_load(&systemd_library, e);
        if (r >= 0 && (r = sd_event_new(&s.event)) < 0)
                (void) error_set_errno(e, r, "Cannot make an event loop");
        if (r < 0) {
                safe_close(fd);
                return r;
        }
        r = serve(&s, fd, ready, e);
        varlink_server_free(s.server);
        sd_event_source_disable_unref(s.idle);
        sd_event_unref(s.event);
        return r;
}
