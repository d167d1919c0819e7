/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The row of a pod in a list. */

#include "stage0/pods/pods.h"

int pod_ended_status(Pod *p)
{
        _cleanup_(pod_report_done) PodReport report = {};

        if (p->state != POD_EXITED || !p->manifest)
                return -1;
        return pod_report(p, NULL, &report, NULL) < 0 ? -1 : report.exit_status;
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
                if (json_list_append(list, json_new_string_lossy(p->manifest->apps[i]->name)) < 0) {
                        json_object_put(list);
                        return -ENOMEM;
                }
        return json_member_add(o, "apps", list);
}

int pod_to_json(Pod *p, json_object **ret)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        int status = pod_ended_status(p);

        if (json_member_add_text(o, "uuid", p->uuid) < 0 ||
            (p->config.name && json_member_add_text(o, "name", p->config.name) < 0) ||
            json_member_add_text(o, "state", pod_shown_state(p)) < 0 || add_apps(o, p) < 0 ||
            (p->config.created_usec > 0 &&
             json_member_add(o, "created", json_object_new_uint64(p->config.created_usec)) < 0) ||
            (status >= 0 && json_member_add(o, "exitStatus", json_object_new_int(status)) < 0))
                return -ENOMEM;
        *ret = TAKE_PTR(o);
        return 0;
}
