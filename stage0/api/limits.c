/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Changing the limits of an app of a running pod. */

#include "stage0/api/api-internal.h"

static const struct {
        IsolatorType type;
        const char *parameter;
} limits[] = {
                {ISOLATOR_RESOURCE_MEMORY, "memory"},
                {ISOLATOR_RESOURCE_CPU, "cpu"},
                {ISOLATOR_CPU_SHARES, "cpuShares"},
                {ISOLATOR_RESOURCE_TASKS, "tasks"},
};

/* Removes the limit NAME. */
static int add_unlimited(json_object *parameters, const char *name, Error *e)
{
        json_object *list = json_object_object_get(parameters, "unlimited");

        if (!list) {
                list = json_object_new_array();
                if (json_member_add(parameters, "unlimited", list) < 0)
                        return error_oom(e);
        }
        return json_list_append(list, json_object_new_string(name)) < 0 ? error_oom(e) : 0;
}

/* os/linux/cgroup: those that it does not have stay. */
static int add_attributes(json_object *parameters, const PairList *l, Error *e)
{
        json_object *list = json_object_new_array();
        int r = json_member_add(parameters, "attributes", list);

        for (size_t i = 0; r >= 0 && i < l->n; i++) {
                json_object *o = json_object_new_object();
                r = json_list_append(list, o);
                if (r >= 0)
                        r = json_member_add_text(o, "name", l->items[i].name);
                if (r >= 0)
                        r = json_member_add_text(o, "value", l->items[i].value);
        }
        return r < 0 ? error_oom(e) : 0;
}

static int add_limit(json_object *parameters, const Isolator *i, Error *e)
{
        uint64_t value = i->type == ISOLATOR_CPU_SHARES ? (uint64_t) i->number : i->limit;

        if (i->type == ISOLATOR_CGROUP)
                return add_attributes(parameters, &i->cgroup, e);
        for (size_t k = 0; k < ELEMENTSOF(limits); k++)
                if (limits[k].type == i->type && i->type != ISOLATOR_CPU_SHARES && !i->has_limit)
                        return add_unlimited(parameters, limits[k].parameter, e);
                else if (limits[k].type == i->type)
                        return json_member_add(parameters, limits[k].parameter,
                                               json_object_new_int64((int64_t) MIN(
                                                               value, (uint64_t) INT64_MAX))) < 0
                                               ? error_oom(e)
                                               : 0;
        return error_set(e, -EINVAL, "Isolator %s cannot be changed while the app runs", i->name);
}

int acn_update_app(AcnPod *a, const char *app, const IsolatorList *l, Error *e)
{
        _cleanup_json_ json_object *parameters = json_object_new_object();
        const AcnCall c = {.method = "UpdateApp",
                           .what = "change limits of",
                           .app = app,
                           .parameters = parameters,
                           .timeout_usec = UINT64_MAX}; /* the kernel may have to reclaim memory first */

        if (!parameters)
                return error_oom(e);
        for (size_t i = 0; i < l->n; i++) {
                int r = add_limit(parameters, &l->items[i], e);
                if (r < 0)
                        return r;
        }
        return acn_call(a, &c, NULL, e);
}
