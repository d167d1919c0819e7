/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The status of a pod: its apps, its isolators, times, addresses. */

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "schema/settings.h"
#include "stage0/report/report-internal.h"
#include "stage1/backoff.h"

static void app_report_done(AppReport *a)
{
        app_status_done(&a->status);
        health_status_done(&a->health);
        free(a->log_file);
        free(a->filter_digest);
        free(a->failed_image);
        replacement_status_done(&a->replaced_by);
}

void pod_report_done(PodReport *r)
{
        for (size_t i = 0; i < r->n_apps; i++)
                app_report_done(&r->apps[i]);
        for (size_t i = 0; i < r->n_isolators; i++)
                free(r->isolators[i].detail);
        pod_grants_done(&r->grants);
        for (size_t i = 0; i < r->n_defaults; i++)
                free(r->defaults[i].detail);
        free(r->apps);
        free(r->isolators);
        free(r->defaults);
        strv_free(r->addresses);
        network_report_free(r->networks, r->n_networks);
        port_mappings_free(r->ports, r->n_ports);
        served_sockets_free(r->sockets, r->n_sockets);
        free(r->unit);
        strv_free(r->exposed_to);
        *r = (PodReport){.exit_status = -1};
}

/* The part of the report that depends on the app's settings. An unreadable health record is ignored. */
static int report_settings(Pod *p, int status_fd, AppReport *a)
{
        _cleanup_app_settings_ AppSettings s = {};
        int k = app_settings_read(a->app, &s, NULL);

        if (k == -ENOMEM)
                return k;
        if (k < 0)
                return 0; /* of a version with other settings */
        (void) pod_drops_read(p, a->app->name, &a->drops);
        (void) pod_failed_image_read(p, a->app, &a->failed_image);
        if (p->state == POD_RUNNING && status_fd >= 0)
                (void) replacement_status_read(status_fd, a->app->name, &a->replaced_by);
        a->image_policy = s.image_policy;
        a->restarts = app_settings_restarts(&s);
        a->restart_limit = s.restart_limit;
        a->log = (LogTarget) s.log;
        a->log_file = TAKE_PTR(s.log_file.path);
        a->filter = report_filter(a->app->app, &s, &a->filter_digest);
        if (s.health.command && status_fd >= 0)
                a->has_health = health_status_read(status_fd, a->app->name, &a->health) >= 0;
        if (p->state == POD_RUNNING && a->status.state == APP_ENDED && !a->status.restarting &&
            a->status.consecutive_starts > 0 && backoff_restarts(&a->status, &s))
                a->next_start_usec =
                                a->status.ended_usec + backoff_delay(s.restart_usec, s.restart_max_usec,
                                                                     backoff_consecutive_starts(&a->status));
        return 0;
}

static int report_apps(Pod *p, PodReport *r)
{
        AppStatus *statuses = NULL;
        _cleanup_close_ int fd = pod_open_statuses(p);
        size_t n = p->manifest->n_apps;

        r->apps = calloc(n + 1, sizeof(AppReport));
        if (!r->apps)
                return -ENOMEM;
        int k = pod_read_statuses(p, p->state == POD_EXITED, &statuses);
        if (k < 0)
                return k;
        for (size_t i = 0; i < n; i++)
                r->apps[i] = (AppReport){.app = p->manifest->apps[i], .status = statuses[i]};
        r->n_apps = n;
        if (p->state == POD_EXITED)
                r->exit_status = pod_exit_status(p->config.exit_policy, false, statuses, n);
        free(statuses); /* their content was moved */
        for (size_t i = 0; k >= 0 && i < n; i++)
                k = report_settings(p, fd, &r->apps[i]);
        return k;
}

/* Input and output of a report of isolators. */
typedef struct IsolatorReporter {
        const Pod *pod;
        const char *const *config_dirs;
        HostFeatures features;
        PodReport *report;
        size_t allocated, defaults_allocated;
} IsolatorReporter;

static int judge(const IsolatorReporter *k, const IsolatorList *l, const Isolator *i, IsolatorReport *item)
{
        if (i->type == ISOLATOR_RESOURCE_NETWORK_BANDWIDTH)
                return network_bandwidth_verdict(k->pod, i, item->app, k->config_dirs, &item->verdict,
                                                 &item->detail);
        return isolator_verdict(l, i, !item->app, &k->features, &item->verdict, &item->detail);
}

static int report_isolators(const IsolatorList *l, const char *app, IsolatorReporter *reporter)
{
        PodReport *r = reporter->report;

        for (size_t i = 0; i < l->n; i++) {
                IsolatorReport item = {.app = app,
                                       .name = l->items[i].name,
                                       .source = pod_grants_source(&r->grants, app, l->items[i].name)};

                if (GREEDY_REALLOC(r->isolators, reporter->allocated, r->n_isolators + 1) < 0)
                        return -ENOMEM;
                int k = judge(reporter, l, &l->items[i], &item);
                if (k < 0)
                        return k;
                r->isolators[r->n_isolators++] = item;
        }
        return 0;
}

static int report_exposure(const Pod *p, const HostFeatures *h, PodReport *r)
{
        const PodManifest *m = p->manifest;

        for (size_t i = 0; m->n_apps > 1 && i < m->n_apps; i++)
                if (!stage1_app_is_confined(m->apps[i], h) &&
                    strv_extend(&r->exposed_to, pod_app_path_name(m->apps[i])) < 0)
                        return -ENOMEM;
        r->exposed_to_all = r->exposed_to && h->landlock < 2;
        r->landlock_refused = h->landlock_refused;
        return 0;
}

const char *pod_report_exposure_reason(const PodReport *r)
{
        return r->landlock_refused
                               ? "Landlock is refused by a filter of system calls that acnspawn itself runs in"
                               : "this kernel does not support Landlock, or it is disabled (lsm=)";
}

static int report_defaults(const IsolatorList *l, const PodApp *app, IsolatorReporter *reporter)
{
        const Isolator *defaults[STAGE1_DEFAULTS_MAX];
        size_t n = stage1_default_isolators(l, app ? app->app : NULL, &reporter->features, defaults);
        PodReport *r = reporter->report;

        for (size_t i = 0; i < n; i++) {
                IsolatorReport item = {.app = app ? pod_app_path_name(app) : NULL,
                                       .name = defaults[i]->name};

                if (GREEDY_REALLOC(r->defaults, reporter->defaults_allocated, r->n_defaults + 1) < 0)
                        return -ENOMEM;
                const IsolatorList alone = {.items = (Isolator *) defaults[i], .n = 1};
                int k = judge(reporter, &alone, defaults[i], &item);
                if (k < 0)
                        return k;
                r->defaults[r->n_defaults++] = item;
        }
        return 0;
}

/* APP: NULL for the pod as a whole. */
static int report_limits(const IsolatorList *l, const PodApp *app, IsolatorReporter *reporter)
{
        int k = report_isolators(l, app ? pod_app_path_name(app) : NULL, reporter);

        return k < 0 ? k : report_defaults(l, app, reporter);
}

static int report_all_isolators(Pod *p, const char *const *config_dirs, bool keep_unit, PodReport *r)
{
        IsolatorReporter reporter = {.pod = p, .config_dirs = config_dirs, .report = r};

        /* An unreadable record is ignored: it does not enforce anything. */
        if (pod_grants_read(p, &r->grants, NULL) == -ENOMEM)
                return -ENOMEM;
        int k = pod_features(p, keep_unit, &reporter.features);
        if (k >= 0)
                k = report_exposure(p, &reporter.features, r);
        if (k >= 0)
                k = report_limits(&p->manifest->isolators, NULL, &reporter);
        for (size_t i = 0; k >= 0 && i < p->manifest->n_apps; i++)
                k = report_limits(&p->manifest->apps[i]->app->isolators, p->manifest->apps[i], &reporter);
        return k;
}

int pod_report_isolators(Pod *p, const char *const *config_dirs, bool keep_unit, PodReport *ret, Error *e)
{
        PodReport r = {.exit_status = -1};
        int k = p->manifest ? stage1_load_libraries(p->manifest, e) : 0;

        if (k < 0)
                return k;
        k = p->manifest ? report_all_isolators(p, config_dirs, keep_unit, &r) : 0;
        if (k < 0) {
                pod_report_done(&r);
                return error_set_errno(e, k, "Cannot determine the state of the isolators of pod %s",
                                       pod_display_name(p));
        }
        *ret = r;
        return 0;
}

/* --- Addresses: read by a child in the pod's network namespace ----------------------------------------- */

static int print_address(int fd, const struct ifaddrs *a)
{
        char text[INET6_ADDRSTRLEN];
        const void *address;

        if (!a->ifa_addr || (a->ifa_addr->sa_family != AF_INET && a->ifa_addr->sa_family != AF_INET6))
                return 0;
        address = a->ifa_addr->sa_family == AF_INET
                                  ? (const void *) &((struct sockaddr_in *) a->ifa_addr)->sin_addr
                                  : (const void *) &((struct sockaddr_in6 *) a->ifa_addr)->sin6_addr;
        if (!inet_ntop(a->ifa_addr->sa_family, address, text, sizeof(text)))
                return 0;
        return dprintf(fd, "%s %s\n", a->ifa_name, text);
}

static _noreturn_ void address_child(int net_fd, int fd)
{
        struct ifaddrs *list = NULL;

        if (setns(net_fd, CLONE_NEWNET) < 0 || getifaddrs(&list) < 0)
                _exit(1);
        for (struct ifaddrs *a = list; a; a = a->ifa_next)
                (void) print_address(fd, a);
        _exit(0);
}

static int read_addresses(int net_fd, char ***ret)
{
        char buffer[16384];
        int fd;

        pid_t pid = child_fork_with_pipe(&fd);
        if (pid == 0)
                address_child(net_fd, fd);
        if (pid < 0)
                return pid;
        ssize_t n = loop_read(fd, buffer, sizeof(buffer) - 1);
        safe_close(fd);
        (void) waitpid(pid, NULL, 0);
        if (n < 0)
                return (int) n;
        buffer[n] = 0;
        return strv_split(buffer, "\n", ret);
}

static int report_addresses(PodReport *r)
{
        char path[64];
        _cleanup_close_ int fd = -EBADF;

        if (r->leader <= 0)
                return 0;
        snprintf(path, sizeof(path), "/proc/%d/ns/net", (int) r->leader);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return 0; /* it has ended meanwhile */
        return read_addresses(fd, &r->addresses);
}

/* An unreadable record is reported when the pod is removed from its networks. */
static int report_networks(Pod *p, PodReport *r)
{
        if (network_report(p, &r->networks, &r->n_networks, NULL) == -ENOMEM)
                return -ENOMEM;
        if (p->state == POD_RUNNING && served_sockets_read(p, &r->sockets, &r->n_sockets) == -ENOMEM)
                return -ENOMEM;
        /* A pod of an earlier version may have ports that are refused now. */
        return port_mappings_new(p->manifest, &r->ports, &r->n_ports, NULL) == -ENOMEM ? -ENOMEM : 0;
}

static int report_times(Pod *p, PodReport *r)
{
        PodRuntime runtime = {};
        PodResult result = {};

        if (pod_runtime_read(p, &runtime) >= 0)
                r->started_usec = runtime.started_usec;
        if (p->state == POD_RUNNING) {
                r->leader = runtime.leader;
                r->paused = pod_is_paused(p);
                return pod_cgroup_host_unit(p, &r->unit) == -ENOMEM ? -ENOMEM : 0;
        }
        if (p->state != POD_EXITED)
                return 0;
        r->ended_by_reboot = pod_ended_by_reboot(p);
        if (pod_result_read(p, &result) >= 0) {
                r->started_usec = result.started_usec;
                r->ended_usec = result.ended_usec;
                r->exit_status = result.exit_status;
                r->ended_by_reboot |= result.at_shutdown;
        } else if (r->started_usec > 0 || r->ended_by_reboot) /* its supervisor was killed */
                r->ended_usec = pod_ended_usec(p);
        return 0;
}

int pod_report(Pod *p, const char *const *config_dirs, PodReport *ret, Error *e)
{
        PodReport r = {.exit_status = -1};
        int k = p->manifest ? stage1_load_libraries(p->manifest, e) : 0;

        if (k < 0)
                return k;
        if (p->manifest) {
                k = report_apps(p, &r);
                if (k >= 0)
                        k = report_all_isolators(p, config_dirs, false, &r);
                if (k >= 0)
                        k = report_networks(p, &r);
        }
        if (k >= 0)
                k = report_times(p, &r);
        if (k >= 0)
                k = report_addresses(&r);
        if (k < 0) {
                pod_report_done(&r);
                return error_set_errno(e, k, "Cannot determine the status of pod %s", pod_display_name(p));
        }
        *ret = r;
        return 0;
}
