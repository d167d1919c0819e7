/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Restores what a running pod needs of the host, when the rules of the packet filter were removed behind it: by
 * "nft flush ruleset", say, or by a firewall that loads its own. Published ports and the translation of addresses are such
 * rules, which plugins have made.
 *
 * The protocol has no command for that. A network that can give a pod certain addresses ("ips") is left and entered again,
 * with the addresses and the MAC address of before: connections survive that, unless it takes long. In others only the plugin
 * that maps ports is run again. If the pod ends meanwhile, what was done is undone once more. Of several that do this for a pod at
 * the same time, one waits for the other.
 */

#include <sys/file.h>

#include "stage0/network/network-internal.h"

#define LOCK_FILE "network.lock" /* of the pod */

static int make_target(const Pod *p, const NetworkRecord *record, char **netns, CniTarget *ret, Error *e)
{
        if (network_namespace_path(p, netns) < 0)
                return error_oom(e);
        *ret = (CniTarget){.container = p->uuid, .netns = *netns, .path = record->plugin_path};
        return 0;
}

/* --- Missing rules ------------------------------------------------------------------------------------- */

/* Plugins write the ID of the container into comments of their rules. Their own command for this, CHECK, fails for pods with
 * addresses of both families. True if it cannot be found out. */
static bool has_rules(const Pod *p)
{
        static const struct {
                const char *const argv[7];
                bool counts; /* success without a match proves that the rules are missing */
        } lists[] = {
                        {{"iptables", "-w", "5", "-t", "nat", "-S", NULL}, true},
                        {{"ip6tables", "-w", "5", "-t", "nat", "-S", NULL}, false},
                        {{"nft", "list", "ruleset", NULL}, true},
        };
        bool listed = false;

        for (size_t i = 0; i < ELEMENTSOF(lists); i++) {
                int r = network_program_prints(lists[i].argv, p->uuid);
                if (r > 0)
                        return true;
                listed = listed || (r == 0 && lists[i].counts);
        }
        return !listed;
}

int network_find_missing_rules(Pod *p, NetworkReport *l, size_t n)
{
        _cleanup_(network_record_done) NetworkRecord record = {};
        int r = 0, found = -1; /* negative: not searched yet */

        if (p->state != POD_RUNNING || geteuid() != 0 || network_record_read(p, &record, NULL) < 0)
                return 0;
        for (size_t i = 0; r >= 0 && i < record.n_attachments; i++) {
                const Attachment *a = &record.attachments[i];

                if (!a->result || !attachment_maps_ports(a))
                        continue;
                if (found < 0)
                        found = has_rules(p);
                if (found)
                        return 0;
                for (size_t k = 0; r >= 0 && k < n; k++) {
                        _cleanup_free_ char *before = NULL;
                        if (!streq_ptr(l[k].interface, a->interface))
                                continue;
                        before = TAKE_PTR(l[k].note);
                        r = xasprintf(&l[k].note,
                                      "%s%sthe rules of the packet filter for its ports are gone: 'acnspawn network reload "
                                      "%s' restores them",
                                      before ?: "", before ? "; " : "", p->config.name ?: p->uuid);
                }
        }
        return r;
}

/* --- Reload -------------------------------------------------------------------------------------------- */

static bool can_keep_addresses(const Attachment *a)
{
        for (size_t i = 0; i < json_object_array_length(a->plugins); i++)
                if (cni_plugin_can(json_object_array_get_idx(a->plugins, i), "ips"))
                        return true;
        return false;
}

/* The settings with the addresses that the pod has. */
static int pin_addresses(const Attachment *a, json_object **ret, Error *e)
{
        NetworkReport *report = calloc(1, sizeof(NetworkReport));
        _cleanup_json_ json_object *o = json_object_new_object();
        _cleanup_strv_free_ char **ips = NULL;

        int r = report && o ? cni_result_parse(a->result, a->interface, report, e) : error_oom(e);
        bool failed = false;
        if (r >= 0) {
                json_object_object_foreach (a->runtime, key, v)
                        if (!streq(key, "ips") && !streq(key, "mac"))
                                failed |= json_member_add(o, key, json_object_get(v)) < 0;
                for (size_t i = 0; i < report->n_addresses; i++)
                        failed |= strv_extend(&ips, report->addresses[i].address) < 0;
                if (ips)
                        failed |= json_member_add(o, "ips", json_new_string_list(ips)) < 0;
                if (report->mac)
                        failed |= json_member_add(o, "mac", json_object_new_string(report->mac)) < 0;
        }
        network_report_free(report, report ? 1 : 0);
        if (r < 0 || failed)
                return r < 0 ? r : error_oom(e);
        *ret = TAKE_PTR(o);
        return 0;
}

static int enter_again(Attachment *a, const CniTarget *t, Error *e)
{
        json_object *runtime = NULL;

        int r = pin_addresses(a, &runtime, e);
        if (r < 0)
                return r;
        r = cni_detach(a, t, e);
        if (r < 0) {
                json_object_put(runtime);
                return r;
        }
        json_object_put(a->runtime);
        a->runtime = runtime;
        json_object_put(a->result);
        a->result = NULL;
        return cni_attach(a, t, e);
}

/* Whether the network is for published ports only is not recorded. */
static void find_network(Attachment *a, char *const *directories)
{
        _cleanup_(cni_network_freep) CniNetwork *n = NULL;

        if (cni_network_find(directories, a->network, &n, NULL) >= 0)
                a->published_only = n->published_only;
}

static int reload_all(Pod *p, NetworkRecord *record, const CniTarget *t, Error *e)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < record->n_attachments; i++) {
                Attachment *a = &record->attachments[i];

                if (!a->result)
                        continue;
                if (can_keep_addresses(a)) {
                        r = enter_again(a, t, e);
                        if (r >= 0)
                                r = network_record_write(p, record, e);
                } else if (attachment_maps_ports(a))
                        r = cni_map_ports_again(a, t, e);
        }
        return r;
}

static int has_ended(const Pod *p, Error *e)
{
        return error_set(e, -ESRCH, "Pod %s has ended meanwhile", pod_display_name(p));
}

static int lock_networks(const Pod *p, Error *e)
{
        int fd = lock_file_at(p->dir_fd, LOCK_FILE, LOCK_EX, pod_operation(p), e);

        if (fd >= 0 || operation_ended(fd))
                return fd;
        if (fd == -ENOENT) /* it is removed already */
                return has_ended(p, e);
        return error_set_errno(e, fd, "Cannot lock the networks of pod %s", pod_display_name(p));
}

int network_reload(Pod *p, const char *const *config_dirs, Error *e)
{
        _cleanup_(network_record_done) NetworkRecord record = {}, after = {};
        _cleanup_strv_free_ char **directories = NULL;
        _cleanup_free_ char *netns = NULL;
        _cleanup_close_ int lock = lock_networks(p, e);
        CniTarget t;

        if (lock < 0)
                return lock;
        int r = network_record_read(p, &record, e);
        if (r == -ENOENT)
                return 0; /* no networks of its own */
        if (r >= 0 && cni_config_directories(config_dirs, &directories) < 0)
                r = error_oom(e);
        if (r >= 0)
                r = make_target(p, &record, &netns, &t, e);
        if (r < 0)
                return r;
        for (size_t i = 0; i < record.n_attachments; i++)
                find_network(&record.attachments[i], directories);
        if (network_shield(&record) < 0)
                return error_oom(e);
        r = reload_all(p, &record, &t, e);
        /* It has ended, and could not know what was done since. */
        if (!network_namespace_is_bound(netns) || network_record_read(p, &after, NULL) == -ENOENT) {
                CniTarget gone = t;
                gone.netns = "";
                for (size_t i = record.n_attachments; i-- > 0;)
                        (void) cni_detach(&record.attachments[i], &gone, NULL);
                (void) network_record_remove(p, NULL);
                return has_ended(p, e);
        }
        if (r >= 0)
                return 0;
        r = error_prefix(e, r, "Cannot restore the networks of pod %s", pod_display_name(p));
        return e && e->hint ? r
                            : error_hint(e, r, "'acnspawn network reload %s' tries again.",
                                         pod_display_name(p));
}
