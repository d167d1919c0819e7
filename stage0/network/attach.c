/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Adds a pod to a network, and removes it: runs the network's plugins, one after the other.
 *
 * For ADD each plugin gets the result of the previous one, and the last result is the network's. For DEL the
 * order is reversed, and each plugin gets the network's result if there is one. The input of a plugin is its
 * own configuration, the network's name, the version of the protocol, and those settings of the pod that it
 * declares to support ("capabilities").
 */

#include <net/ethernet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "stage0/network/network-internal.h"

#define CODE_INCOMPATIBLE 1U /* the protocol's code for a version that the plugin does not support */

/* --- Programs ------------------------------------------------------------------------------------------ */

static int check_program(const char *type, const char *network, const char *path, Error *e)
{
        _cleanup_free_ char *file = NULL;

        int r = type ? cni_plugin_find(path, type, &file, e) : 0;
        return r < 0 ? error_prefix(e, r, "Cannot set up network '%s'", network) : 0;
}

int cni_check_programs(json_object *plugins, const char *network, const char *path, Error *e)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < json_object_array_length(plugins); i++) {
                json_object *plugin = json_object_array_get_idx(plugins, i), *ipam = NULL;

                r = check_program(cni_plugin_type(plugin), network, path, e);
                if (r >= 0 && json_object_object_get_ex(plugin, "ipam", &ipam) && ipam)
                        r = check_program(cni_plugin_type(ipam), network, path, e);
        }
        return r;
}

/* --- The input of a plugin ----------------------------------------------------------------------------- */

/* A new object with the members of O. */
static int copy_members(json_object *o, json_object **ret)
{
        _cleanup_json_ json_object *copy = json_object_new_object();

        if (!copy)
                return -ENOMEM;
        json_object_object_foreach (o, key, v)
                if (json_object_object_add(copy, key, json_object_get(v)) < 0) { /* null, too */
                        json_object_put(v);
                        return -ENOMEM;
                }
        *ret = TAKE_PTR(copy);
        return 0;
}

static int add_runtime(json_object *input, json_object *plugin, json_object *runtime)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        int r = o ? 0 : -ENOMEM;

        json_object_object_foreach (runtime, key, v)
                if (r >= 0 && cni_plugin_can(plugin, key))
                        r = json_member_add(o, key, json_object_get(v));
        if (r < 0 || json_object_object_length(o) == 0)
                return r;
        return json_member_add(input, "runtimeConfig", TAKE_PTR(o));
}

static int make_input(const Attachment *a, json_object *plugin, json_object *previous, json_object **ret)
{
        _cleanup_json_ json_object *o = NULL;

        int r = copy_members(plugin, &o);
        if (r >= 0)
                r = json_member_add(o, "cniVersion", json_object_new_string(a->version));
        if (r >= 0)
                r = json_member_add(o, "name", json_object_new_string(a->network));
        if (r >= 0) {
                json_object_object_del(o, "runtimeConfig");
                json_object_object_del(o, "prevResult");
                r = add_runtime(o, plugin, a->runtime);
        }
        if (r >= 0 && previous)
                r = json_member_add(o, "prevResult", json_object_get(previous));
        if (r >= 0)
                *ret = TAKE_PTR(o);
        return r;
}

/* --- Versions ------------------------------------------------------------------------------------------ */

static int parse_versions(const char *text, size_t size, char ***ret)
{
        _cleanup_json_ json_object *o = NULL;
        json_object *l;

        int r = json_parse_strict(text, size, &o, NULL, NULL);
        if (r < 0)
                return r;
        if (!json_object_is_type(o, json_type_object) ||
            !json_object_object_get_ex(o, "supportedVersions", &l) ||
            !json_object_is_type(l, json_type_array))
                return -EBADMSG;
        for (size_t i = 0; r >= 0 && i < json_object_array_length(l) && i < 64; i++) {
                const char *s = json_object_get_string(json_object_array_get_idx(l, i));
                r = strv_extend(ret, s ?: "");
        }
        return r;
}

/* The versions that the plugin TYPE supports. */
static int ask_versions(const char *type, const char *network, const CniTarget *t, char ***ret, Error *e)
{
        _cleanup_json_ json_object *input = json_object_new_object();
        _cleanup_free_ char *text = NULL;
        CniCall call = {.command = "VERSION",
                        .type = type,
                        .network = network,
                        .path = t->path,
                        .input = input,
                        .interruptible = t->interruptible,
                        .stop = t->stop,
                        .deadline = t->deadline};
        size_t size = 0;
        unsigned code;

        if (json_member_add(input, "cniVersion", json_object_new_string("1.0.0")) < 0)
                return error_oom(e);
        int r = cni_plugin_run(&call, &text, &size, &code, e);
        if (r < 0)
                return r;
        r = parse_versions(text, size, ret);
        return r < 0 ? error_set(e, -EBADMSG,
                                 "The CNI plugin '%s' does not report which versions it supports", type)
                     : 0;
}

/* Removes the versions that the plugin does not support from LEFT. */
static int narrow(const CniNetwork *n, const char *type, const CniTarget *t, char ***left, Error *e)
{
        _cleanup_strv_free_ char **spoken = NULL, **both = NULL;

        int r = ask_versions(type, n->name, t, &spoken, e);
        if (r < 0)
                return r;
        STRV_FOREACH (v, *left)
                if (strv_contains(spoken, *v) && strv_extend(&both, *v) < 0)
                        return error_oom(e);
        if (!both)
                return error_set(e, -EPROTONOSUPPORT,
                                 "The CNI plugin '%s' of network '%s' supports none of the versions in '%s'",
                                 type, n->name, n->file);
        strv_free(*left);
        *left = TAKE_PTR(both);
        return 0;
}

/* With a single version there is no choice, so the plugins are not queried. */
int cni_choose_version(const CniNetwork *n, const CniTarget *t, char **ret, Error *e)
{
        _cleanup_strv_free_ char **left = NULL;
        size_t n_plugins = json_object_array_length(n->plugins);
        int r = strv_copy(n->versions, &left) < 0 ? error_oom(e) : 0;

        for (size_t i = 0; r >= 0 && strv_length(n->versions) > 1 && i < n_plugins; i++)
                r = narrow(n, cni_plugin_type(json_object_array_get_idx(n->plugins, i)), t, &left, e);
        if (r < 0)
                return r;
        *ret = strdup(left[0]);
        return *ret ? 0 : error_oom(e);
}

/* If a plugin refuses the version of the configuration, its own versions are queried for the message. */
static int explain_version(const CniCall *c, const Attachment *a, const CniTarget *t, int code, Error *e)
{
        _cleanup_strv_free_ char **spoken = NULL;
        _cleanup_free_ char *list = NULL;

        if (ask_versions(c->type, c->network, t, &spoken, NULL) < 0 || !(list = strv_join(spoken, ", ")))
                return code;
        _cleanup_free_ char *shown = text_escape_for_terminal(list);
        return error_hint(e, code, "The network is configured for version %s; this plugin supports %.200s.",
                          a->version, shown ?: "");
}

/* --- ADD and DEL --------------------------------------------------------------------------------------- */

static int run_plugin(const Attachment *a, json_object *plugin, const char *command, json_object *previous,
                      const CniTarget *t, char **ret, size_t *ret_size, Error *e)
{
        _cleanup_json_ json_object *input = NULL;
        unsigned code = 0;

        int r = make_input(a, plugin, previous, &input);
        if (r < 0)
                return error_oom(e);
        CniCall call = {.command = command,
                        .type = cni_plugin_type(plugin),
                        .network = a->network,
                        .container = t->container,
                        .netns = t->netns,
                        .interface = a->interface,
                        .args = a->args,
                        .path = t->path,
                        .input = input,
                        .interruptible = t->interruptible,
                        .stop = t->stop,
                        .deadline = t->deadline};
        r = cni_plugin_run(&call, ret, ret_size, &code, e);
        return r < 0 && code == CODE_INCOMPATIBLE ? explain_version(&call, a, t, r, e) : r;
}

static int add_one(Attachment *a, json_object *plugin, const CniTarget *t, Error *e)
{
        _cleanup_json_ json_object *result = NULL;
        _cleanup_free_ char *text = NULL;
        NetworkReport *report = NULL;
        size_t size = 0;

        int r = run_plugin(a, plugin, "ADD", a->result, t, &text, &size, e);
        if (r < 0)
                return r;
        r = json_parse_strict(text, size, &result, NULL, e);
        if (r >= 0)
                report = calloc(1, sizeof(NetworkReport));
        if (r >= 0)
                r = report ? cni_result_parse(result, a->interface, report, e) : error_oom(e);
        network_report_free(report, report ? 1 : 0);
        if (r < 0)
                return error_prefix(e, r, "The CNI plugin '%s' of network '%s' returned an invalid result",
                                    cni_plugin_type(plugin), a->network);
        json_object_put(a->result);
        a->result = TAKE_PTR(result);
        return 0;
}

/* If the plugin "bridge" fails for the first container of a bridge, at its address for example, it leaves the bridge without ports, and
 * so without a hardware address. From then on it fails for that. */
static void repair_bridge(json_object *plugin)
{
        _cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        static const unsigned char none[ETH_ALEN];
        struct ifreq request = {};
        json_object *v;

        const char *name =
                        json_object_object_get_ex(plugin, "bridge", &v) ? json_object_get_string(v) : "cni0";
        if (!streq(cni_plugin_type(plugin), "bridge") || fd < 0 || isempty(name) || strlen(name) >= IFNAMSIZ)
                return;
        memcpy(request.ifr_name, name, strlen(name) + 1);
        if (ioctl(fd, SIOCGIFHWADDR, &request) < 0 || request.ifr_hwaddr.sa_family != ARPHRD_ETHER ||
            memcmp(request.ifr_hwaddr.sa_data, none, ETH_ALEN) != 0 ||
            getrandom(request.ifr_hwaddr.sa_data, ETH_ALEN, 0) != ETH_ALEN)
                return;
        request.ifr_hwaddr.sa_data[0] =
                        (char) ((request.ifr_hwaddr.sa_data[0] & 0xfc) | 2); /* local, of one */
        if (ioctl(fd, SIOCSIFHWADDR, &request) < 0)
                log_debug("The bridge %s has no hardware address, and cannot be given one: %m", name);
}

int cni_attach(Attachment *a, const CniTarget *t, Error *e)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < json_object_array_length(a->plugins); i++) {
                json_object *plugin = json_object_array_get_idx(a->plugins, i);

                repair_bridge(plugin);
                r = add_one(a, plugin, t, e);
        }
        return r;
}

/* Runs all of them, also those that were not run for ADD: a plugin has to detect that there is nothing to
 * do. The first failure is reported; the others are run all the same. */
static int detach(const Attachment *a, const CniTarget *t, Error *e)
{
        json_object *previous = cni_version_at_least(a->version, "0.4.0") ? a->result : NULL;
        int result = 0;

        for (size_t i = json_object_array_length(a->plugins); i-- > 0;) {
                _cleanup_error_ Error own = ERROR_NULL;
                _cleanup_free_ char *text = NULL;
                size_t size = 0;

                int r = run_plugin(a, json_object_array_get_idx(a->plugins, i), "DEL", previous, t, &text,
                                   &size, &own);
                if (r < 0 && result >= 0) {
                        result = r;
                        (void) error_move(e, &own);
                }
        }
        return result;
}

int cni_detach(const Attachment *a, const CniTarget *t, Error *e)
{
        _cleanup_error_ Error own = ERROR_NULL;

        int r = detach(a, t, &own);
        if (r < 0 && r != -EINTR && network_masquerade_chains(a, t->container, "-N")) {
                error_done(&own);
                r = detach(a, t, &own);
                (void) network_masquerade_chains(a, t->container, "-X"); /* the interface is gone already */
        }
        if (r < 0)
                (void) error_move(e, &own);
        return r;
}

/* --- Ports alone --------------------------------------------------------------------------------------- */

static int run_on_ports(const Attachment *a, const char *command, const CniTarget *t, Error *e)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < json_object_array_length(a->plugins); i++) {
                json_object *plugin = json_object_array_get_idx(a->plugins, i);
                _cleanup_free_ char *text = NULL;
                size_t size = 0;

                if (cni_plugin_can(plugin, "portMappings"))
                        r = run_plugin(a, plugin, command, a->result, t, &text, &size, e);
        }
        return r;
}

int cni_map_ports_again(const Attachment *a, const CniTarget *t, Error *e)
{
        int r = run_on_ports(a, "DEL", t, e);

        return r < 0 ? r : run_on_ports(a, "ADD", t, e);
}
