/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The row of a pod in a list. */

#include <signal.h>

#include "schema/settings.h"
#include "stage0/pods/pods.h"

PodEnd pod_end(Pod *p)
{
        _cleanup_(pod_report_done) PodReport report = {};

        if (p->state != POD_EXITED || !p->manifest || pod_report(p, NULL, &report, NULL) < 0)
                return (PodEnd){.exit_status = -1};
        return (PodEnd){.exit_status = report.exit_status, .by_reboot = report.ended_by_reboot};
}

bool pod_end_is_failure(int exit_status)
{
        return exit_status > 0 && exit_status != 128 + SIGTERM;
}

const char *pod_health(Pod *p)
{
        _cleanup_close_ int fd = p->state == POD_RUNNING && p->manifest ? pod_open_statuses(p) : -EBADF;
        int worst = -1;

        for (size_t i = 0; fd >= 0 && i < p->manifest->n_apps; i++) {
                const PodApp *a = p->manifest->apps[i];
                _cleanup_(health_status_done) HealthStatus h = {};

                if (!pair_list_get(&a->annotations, SETTING_PREFIX "health-cmd") ||
                    health_status_read(fd, a->name, &h) < 0)
                        continue;
                bool worse = h.state == HEALTH_UNHEALTHY ||
                             (h.state == HEALTH_STARTING && worst != HEALTH_UNHEALTHY);
                if (worst < 0 || worse)
                        worst = h.state;
        }
        return worst < 0 ? NULL : health_state_to_string((HealthState) worst);
}

bool pod_never_ran(Pod *p)
{
        _cleanup_(pod_report_done) PodReport report = {};

        if (p->state != POD_EXITED || pod_report(p, NULL, &report, NULL) < 0)
                return false;
        for (size_t i = 0; i < report.n_apps; i++)
                if (report.apps[i].status.cause != CAUSE_NOT_STARTED &&
                    report.apps[i].status.state != APP_WAITING)
                        return false;
        return true;
}

static int add_apps(json_object *o, const Pod *p)
{
        json_object *list = json_object_new_array();

        for (size_t i = 0; p->manifest && i < p->manifest->n_apps; i++)
                if (json_list_append(list, json_new_string_lossy(pod_app_path_name(p->manifest->apps[i]))) <
                    0) {
                        json_object_put(list);
                        return -ENOMEM;
                }
        return json_member_add(o, "apps", list);
}

int pod_to_json(Pod *p, json_object **ret)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        const PodEnd end = pod_end(p);

        if (json_member_add_text(o, "uuid", p->uuid) < 0 ||
            (p->config.name && json_member_add_text(o, "name", p->config.name) < 0) ||
            json_member_add_text(o, "state", pod_shown_state(p)) < 0 || add_apps(o, p) < 0 ||
            (p->config.created_usec > 0 &&
             json_member_add(o, "created", json_object_new_uint64(p->config.created_usec)) < 0) ||
            (end.exit_status >= 0 &&
             json_member_add(o, "exitStatus", json_object_new_int(end.exit_status)) < 0) ||
            (end.by_reboot && json_member_add_text(o, "endedBy", POD_ENDED_BY_REBOOT) < 0))
                return -ENOMEM;
        *ret = TAKE_PTR(o);
        return 0;
}
