/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calls about the runtime itself: Version, Status, RuntimeConfig, UpdateRuntimeConfig. */

#include "config.h"
#include "cri/cri-internal.h"
#include "stage0/host/host.h"
#include "stage0/network/network.h"
#include "stage1/stage1.h"

#define KUBELET_API_VERSION "0.1.0" /* it has never changed */
#define PODS_MAX 110                /* of a node, unless the kubelet is configured to have more */

int cri_version(CriJob *j, const void *request, void *reply, Error *e)
{
        Runtime__V1__VersionResponse *p = reply;

        p->version = cri_strdup(&j->memory, KUBELET_API_VERSION);
        p->runtime_name = cri_strdup(&j->memory, CRI_RUNTIME_NAME);
        p->runtime_version = cri_strdup(&j->memory, ACNSPAWN_VERSION);
        p->runtime_api_version = cri_strdup(&j->memory, CRI_VERSION);
        return p->version && p->runtime_name && p->runtime_version && p->runtime_api_version ? 0
                                                                                             : error_oom(e);
}

/* --- Status -------------------------------------------------------------------------------------------- */

static Runtime__V1__RuntimeCondition *condition(CriJob *j, const char *type, const char *reason,
                                                const char *message)
{
        Runtime__V1__RuntimeCondition *c =
                        cri_message(&j->memory, &runtime__v1__runtime_condition__descriptor);

        if (!c || !(c->type = cri_strdup(&j->memory, type)) ||
            !(c->reason = cri_strdup(&j->memory, reason)) || !(c->message = cri_strdup(&j->memory, message)))
                return NULL;
        c->status = !reason;
        return c;
}

/* The network of pods is the first valid one of the CNI directories, and its plugins have to be installed. */
static Runtime__V1__RuntimeCondition *network_condition(CriJob *j)
{
        const CriOptions *o = j->server->options;
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_free_ char *name = NULL;

        if (network_first(o->cni_conf_dirs, o->cni_bin_dirs, &name, &e) >= 0)
                return condition(j, "NetworkReady", NULL, NULL);
        return condition(j, "NetworkReady", "NetworkPluginNotReady", e.message);
}

/* The kubelet has no use for it, but shows it to operators who look for the reason of pods that do not start. */
static Runtime__V1__RuntimeCondition *limits_condition(CriJob *j)
{
        const HostLimitPlaces w = {.proc = "/proc", .cgroup = "/sys/fs/cgroup"};
        _cleanup_(host_limit_done) HostLimit l = {};

        if (host_limits_check_pods(&w, PODS_MAX, &l) <= 0)
                return condition(j, "HostLimitsSufficient", NULL, NULL);
        const char *message = cri_printf(&j->memory, "A node has up to %d pods, but %s. %s", PODS_MAX,
                                         l.what, l.remedy);
        return message ? condition(j, "HostLimitsSufficient", "InotifyInstancesLow", message) : NULL;
}

static int add_conditions(CriJob *j, Runtime__V1__StatusResponse *p)
{
        Runtime__V1__RuntimeStatus *status =
                        cri_message(&j->memory, &runtime__v1__runtime_status__descriptor);
        Runtime__V1__RuntimeCondition **list = cri_alloc(&j->memory, 3 * sizeof(*list));

        if (!status || !list || !(list[0] = condition(j, "RuntimeReady", NULL, NULL)) ||
            !(list[1] = network_condition(j)) || !(list[2] = limits_condition(j)))
                return -ENOMEM;
        status->conditions = list;
        status->n_conditions = 3;
        p->status = status;
        return 0;
}

/* The default, which has no name, and the same by its name. */
static int add_handlers(CriJob *j, Runtime__V1__StatusResponse *p)
{
        static const char *const names[] = {"", CRI_RUNTIME_NAME};

        p->runtime_handlers = cri_alloc(&j->memory, ELEMENTSOF(names) * sizeof(*p->runtime_handlers));
        if (!p->runtime_handlers)
                return -ENOMEM;
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                Runtime__V1__RuntimeHandler *h =
                                cri_message(&j->memory, &runtime__v1__runtime_handler__descriptor);
                if (!h || !(h->name = cri_strdup(&j->memory, names[i])) ||
                    !(h->features = cri_message(&j->memory,
                                                &runtime__v1__runtime_handler_features__descriptor)))
                        return -ENOMEM;
                h->features->recursive_read_only_mounts = true;
                h->features->user_namespaces = j->server->has_users;
                p->runtime_handlers[p->n_runtime_handlers++] = h;
        }
        return 0;
}

static int add_text(CriJob *j, Runtime__V1__StatusResponse *p, const char *key, const char *text)
{
        return cri_map_add(&j->memory, &p->n_info, &p->info,
                           &runtime__v1__status_response__info_entry__descriptor, key, text);
}

static int add_json(CriJob *j, Runtime__V1__StatusResponse *p, const char *key, json_object *o)
{
        int r = o ? add_text(j, p, key, json_print(o)) : -ENOMEM;

        json_object_put(o);
        return r;
}

/* Where containers are, and the network: what tools look for in the configuration of containerd. */
static json_object *json_of_config(CriJob *j)
{
        const CriOptions *o = j->server->options;
        _cleanup_json_ json_object *config = json_object_new_object(), *cni = json_object_new_object();

        return config && cni && json_member_add_text(config, "rootDir", store_path(j->store)) >= 0 &&
                                               json_member_add_text(config, "stateDir",
                                                                    store_path(j->store)) >= 0 &&
                                               json_member_add(cni, "binDirs",
                                                               json_new_string_list(o->cni_bin_dirs)) >= 0 &&
                                               json_member_add_text(cni, "confDir",
                                                                    o->cni_conf_dirs ? o->cni_conf_dirs[0]
                                                                                     : "") >= 0 &&
                                               json_member_add(config, "cni", TAKE_PTR(cni)) >= 0
                               ? TAKE_PTR(config)
                               : NULL;
}

static json_object *json_of_network(CriJob *j, const char *name)
{
        const CriOptions *o = j->server->options;
        _cleanup_json_ json_object *cni = json_object_new_object(), *list = json_object_new_array(),
                                   *network = json_new_text_member("IFName", "eth0");

        if (!cni || !list || !network ||
            (name && (json_member_add(network, "Config", json_new_text_member("Name", name)) < 0 ||
                      json_list_append(list, TAKE_PTR(network)) < 0)))
                return NULL;
        return json_member_add(cni, "PluginDirs", json_new_string_list(o->cni_bin_dirs)) >= 0 &&
                                               json_member_add_text(cni, "PluginConfDir",
                                                                    o->cni_conf_dirs ? o->cni_conf_dirs[0]
                                                                                     : "") >= 0 &&
                                               json_member_add_text(cni, "Prefix", "eth") >= 0 &&
                                               json_member_add(cni, "Networks", TAKE_PTR(list)) >= 0
                               ? TAKE_PTR(cni)
                               : NULL;
}

static int add_details(CriJob *j, Runtime__V1__StatusResponse *p)
{
        const CriOptions *o = j->server->options;
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_free_ char *name = NULL;
        const char *state = network_first(o->cni_conf_dirs, o->cni_bin_dirs, &name, &e) >= 0
                                            ? "OK"
                                            : e.message ?: "out of memory";

        int r = add_json(j, p, "config", json_of_config(j));
        if (r >= 0)
                r = add_json(j, p, "cniconfig", json_of_network(j, name));
        if (r >= 0)
                r = add_text(j, p, "lastCNILoadStatus", state);
        return r < 0 ? r : add_text(j, p, "lastCNILoadStatus.default", state);
}

static int add_info(CriJob *j, Runtime__V1__StatusResponse *p)
{
        const CriOptions *o = j->server->options;
        _cleanup_free_ char *conf = o->cni_conf_dirs ? strv_join(o->cni_conf_dirs, ":") : strdup(""),
                            *bin = o->cni_bin_dirs ? strv_join(o->cni_bin_dirs, ":") : strdup("");
        const struct {
                const char *key, *value;
        } entries[] = {
                        {"store", store_path(j->store)},
                        {"version", ACNSPAWN_VERSION},
                        {"cniConfDirs", conf},
                        {"cniBinDirs", bin},
        };

        if (!conf || !bin)
                return -ENOMEM;
        for (size_t i = 0; i < ELEMENTSOF(entries); i++) {
                int r = add_json(j, p, entries[i].key, json_new_string_lossy(entries[i].value));
                if (r < 0)
                        return r;
        }
        return add_details(j, p);
}

int cri_runtime_status(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__StatusRequest *q = request;
        Runtime__V1__StatusResponse *p = reply;

        p->features = cri_message(&j->memory, &runtime__v1__runtime_features__descriptor);
        if (p->features)
                *p->features = (Runtime__V1__RuntimeFeatures){.base = p->features->base,
                                                              .supplemental_groups_policy = true,
                                                              .user_namespaces_host_network =
                                                                              j->server->has_users};
        if (!p->features || add_conditions(j, p) < 0 || add_handlers(j, p) < 0 ||
            (q->verbose && add_info(j, p) < 0))
                return error_oom(e);
        return 0;
}

/* --- Configuration ------------------------------------------------------------------------------------- */

/* The kubelet makes the cgroups of pods by the driver named here: systemd's slices where systemd is there to own
 * them, unless the administrator has chosen the other one. */
int cri_runtime_config(CriJob *j, const void *request, void *reply, Error *e)
{
        Runtime__V1__RuntimeConfigResponse *p = reply;

        p->linux = cri_message(&j->memory, &runtime__v1__linux_runtime_configuration__descriptor);
        if (!p->linux)
                return error_oom(e);
        p->linux->cgroup_driver = host_runs_systemd() && !j->server->options->cgroupfs
                                                  ? RUNTIME__V1__CGROUP_DRIVER__SYSTEMD
                                                  : RUNTIME__V1__CGROUP_DRIVER__CGROUPFS;
        return 0;
}

/* The kubelet tells the range of the pods' addresses of this node, for runtimes that write the configuration of the
 * network by themselves. Here that is the work of a network add-on, so there is nothing to do. */
int cri_update_runtime_config(CriJob *j, const void *request, void *reply, Error *e)
{
        return 0;
}
