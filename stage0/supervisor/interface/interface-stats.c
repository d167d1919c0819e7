/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Resource usage of the pod and its apps. Values that this host cannot measure are left out. */

#include "stage0/supervisor/interface/interface-internal.h"

static int add_counter(json_object *o, const char *key, uint64_t value)
{
        return value == UINT64_MAX ? 0 : json_member_add(o, key, json_object_new_uint64(value));
}

static json_object *usage_json(const Usage *u)
{
        const struct {
                const char *key;
                uint64_t value;
        } counters[] = {
                        {"cpuUSec", u->cpu_usec},
                        {"memory", u->memory},
                        {"memoryPeak", u->memory_peak},
                        {"memoryMax", u->memory_max},
                        {"readBytes", u->io_read},
                        {"writtenBytes", u->io_written},
                        {"processes", u->pids},
                        {"cpuPressureUSec", u->cpu_pressure_usec},
                        {"memoryPressureUSec", u->memory_pressure_usec},
                        {"ioPressureUSec", u->io_pressure_usec},
        };
        _cleanup_json_ json_object *o = json_object_new_object();

        for (size_t i = 0; i < ELEMENTSOF(counters); i++)
                if (add_counter(o, counters[i].key, counters[i].value) < 0)
                        return NULL;
        return TAKE_PTR(o);
}

static json_object *app_json(const char *name, const Usage *u)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        return json_member_add_text(o, "app", name) < 0 || json_member_add(o, "usage", usage_json(u)) < 0
                               ? NULL
                               : TAKE_PTR(o);
}

static json_object *apps_json(const PodManifest *m, const Usage *usage, const char *only)
{
        _cleanup_json_ json_object *l = json_object_new_array();

        for (size_t i = 0; i < m->n_apps; i++)
                if ((!only || streq(m->apps[i]->name, only) || streq(pod_app_path_name(m->apps[i]), only)) &&
                    json_list_append(l, app_json(pod_app_path_name(m->apps[i]), &usage[i])) < 0)
                        return NULL;
        return TAKE_PTR(l);
}

static json_object *network_json(const NetworkUsage *u)
{
        const struct {
                const char *key;
                uint64_t value;
        } counters[] = {
                        {"receivedBytes", u->received_bytes},   {"receivedPackets", u->received_packets},
                        {"receivedErrors", u->received_errors}, {"receivedDropped", u->received_dropped},
                        {"sentBytes", u->sent_bytes},           {"sentPackets", u->sent_packets},
                        {"sentErrors", u->sent_errors},         {"sentDropped", u->sent_dropped},
        };
        _cleanup_json_ json_object *o = json_object_new_object();

        if (json_member_add_text(o, "name", u->name) < 0)
                return NULL;
        for (size_t i = 0; i < ELEMENTSOF(counters); i++)
                if (add_counter(o, counters[i].key, MIN(counters[i].value, (uint64_t) INT64_MAX)) < 0)
                        return NULL;
        return TAKE_PTR(o);
}

/* A pod in the host's network has none of these. */
static int add_networks(json_object *o, Pod *p)
{
        _cleanup_free_ NetworkUsage *usage = NULL;
        size_t n = 0;

        if (pod_network_usage(p, &usage, &n) < 0)
                return 0;
        json_object *l = json_object_new_array();
        int r = json_member_add(o, "networks", l);
        for (size_t i = 0; r >= 0 && i < n; i++)
                r = json_list_append(l, network_json(&usage[i]));
        return r;
}

int interface_stats(VarlinkCall *call, json_object *parameters, void *userdata)
{
        Interface *i = userdata;
        const char *app = json_object_get_string(json_object_object_get(parameters, "app"));
        _cleanup_json_ json_object *o = json_object_new_object();
        _cleanup_free_ Usage *apps = NULL;
        Usage pod;

        if (app && !interface_find_app(i, app))
                return interface_reply_error(call, "org.acnspawn.Pod.NoSuchApp", "app", app, NULL, NULL);
        int r = pod_usage(i->pod, &pod, &apps, NULL);
        if (r < 0)
                return r;
        if (json_member_add(o, "timeUSec", json_object_new_uint64(now_usec(CLOCK_MONOTONIC))) < 0 ||
            json_member_add(o, "pod", usage_json(&pod)) < 0 ||
            json_member_add(o, "apps", apps_json(i->pod->manifest, apps, app)) < 0 ||
            add_networks(o, i->pod) < 0)
                return -ENOMEM;
        return varlink_reply(call, o);
}
