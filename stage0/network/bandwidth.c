/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The isolator resource/network-bandwidth (spec: ace.md): the limit of bytes per second through the pod's
 * interfaces, in each direction, except loopback.
 *
 * The interfaces belong to the pod, so only a limit of the pod can be enforced, by plugins that declare the
 * capability "bandwidth". The limit of an app becomes the pod's if it is the only app; if each of several
 * apps has one, the pod as a whole gets their sum.
 */

#include "stage0/network/network-internal.h"

#define BURST_BYTES_MIN (32U * 1024U)
#define BURST_BYTES_MAX (256U * 1024U * 1024U) /* plugins accept at most 2^32 bits */

static uint64_t limit_of(const IsolatorList *l)
{
        for (size_t i = 0; i < l->n; i++)
                if (l->items[i].type == ISOLATOR_RESOURCE_NETWORK_BANDWIDTH && l->items[i].has_limit)
                        return l->items[i].limit;
        return UINT64_MAX;
}

/* The sum of the apps' limits; UINT64_MAX: one of them is not limited. */
static uint64_t limit_of_apps(const PodManifest *m)
{
        uint64_t sum = 0;

        for (size_t i = 0; i < m->n_apps; i++) {
                uint64_t limit = m->apps[i]->app ? limit_of(&m->apps[i]->app->isolators) : UINT64_MAX;

                if (__builtin_add_overflow(sum, limit, &sum))
                        return UINT64_MAX;
        }
        return m->n_apps > 0 ? sum : UINT64_MAX;
}

uint64_t network_bandwidth_limit(const PodManifest *m)
{
        uint64_t pod = limit_of(&m->isolators), apps = limit_of_apps(m);

        return MIN(pod, apps);
}

/* The burst is the amount for a twentieth of a second. */
static uint64_t burst_bytes(uint64_t limit)
{
        return MIN(MAX(limit / 20, (uint64_t) BURST_BYTES_MIN), (uint64_t) BURST_BYTES_MAX);
}

json_object *network_bandwidth_runtime(uint64_t limit)
{
        /* Plugins count bits, in signed numbers; 0 means no limit. */
        uint64_t bits = limit > INT64_MAX / 8 ? INT64_MAX : MAX(limit, UINT64_C(1)) * 8;
        const struct {
                const char *key;
                uint64_t value;
        } members[] = {
                        {"ingressRate", bits},
                        {"ingressBurst", burst_bytes(limit) * 8},
                        {"egressRate", bits},
                        {"egressBurst", burst_bytes(limit) * 8},
        };
        _cleanup_json_ json_object *o = json_object_new_object();

        for (size_t i = 0; o && i < ELEMENTSOF(members); i++)
                if (json_member_add(o, members[i].key, json_object_new_uint64(members[i].value)) < 0)
                        return NULL;
        return TAKE_PTR(o);
}

/* --- The verdict --------------------------------------------------------------------------------------- */

static bool attachment_can(const Attachment *a)
{
        for (size_t i = 0; i < json_object_array_length(a->plugins); i++)
                if (cni_plugin_can(json_object_array_get_idx(a->plugins, i), "bandwidth"))
                        return true;
        return false;
}

/* For a running pod: its networks as they were when it was connected. */
static int find_unable_in_record(const NetworkRecord *record, char ***ret_unable, size_t *ret_able)
{
        for (size_t i = 0; i < record->n_attachments; i++)
                if (attachment_can(&record->attachments[i]))
                        (*ret_able)++;
                else if (strv_extend(ret_unable, record->attachments[i].network) < 0)
                        return -ENOMEM;
        return 0;
}

/* The names of the pod's networks that cannot limit rates, and the number of networks. */
static int find_unable(const Pod *p, const char *const *config_dirs, char ***ret_unable, size_t *ret_able)
{
        _cleanup_(network_record_done) NetworkRecord record = {};
        _cleanup_strv_free_ char **directories = NULL;

        if (network_record_read(p, &record, NULL) >= 0)
                return find_unable_in_record(&record, ret_unable, ret_able);
        int r = cni_config_directories(config_dirs, &directories);

        STRV_FOREACH (s, p->config.networks) {
                _cleanup_(network_request_done) NetworkRequest q = {};
                _cleanup_(cni_network_freep) CniNetwork *n = NULL;

                if (r >= 0)
                        r = network_request_parse(*s, &q, NULL);
                if (r < 0)
                        return r;
                if (cni_network_find(directories, q.name, &n, NULL) >= 0 && cni_network_can(n, "bandwidth"))
                        (*ret_able)++;
                else if (strv_extend(ret_unable, q.name) < 0)
                        return -ENOMEM;
        }
        return r;
}

/* Whether the networks of the pod support it. */
static IsolatorVerdict verdict_of_networks(char *const *unable, size_t n_able, Text *detail)
{
        _cleanup_free_ char *names = unable ? strv_join(unable, ", ") : NULL;

        if (n_able == 0) {
                text_addf(detail, "no plugin of network %s limits rates", names ?: "");
                return ISOLATOR_IGNORED;
        }
        if (unable) {
                text_addf(detail, "no plugin of network %s limits rates, those of the others do",
                          names ?: "");
                return ISOLATOR_MODIFIED;
        }
        text_add(detail, n_able > 1 ? "for each of the pod's interfaces and each direction"
                                    : "for the pod's interface, in each direction");
        return n_able > 1 ? ISOLATOR_MODIFIED : ISOLATOR_ENFORCED;
}

/* The limit of an app is the pod's, or part of it. */
static IsolatorVerdict verdict_of_app(const Pod *p, IsolatorVerdict v, Text *detail)
{
        if (v == ISOLATOR_IGNORED)
                return v;
        if (limit_of_apps(p->manifest) == UINT64_MAX) {
                detail->size = 0;
                text_add(detail,
                         "the apps of a pod share its interfaces, and not all of them are limited: limit "
                         "the pod");
                return ISOLATOR_IGNORED;
        }
        if (p->manifest->n_apps == 1)
                return v;
        text_add(detail, "; the apps share the interfaces, which get the sum of their limits");
        return ISOLATOR_MODIFIED;
}

int network_bandwidth_verdict(const Pod *p, const Isolator *i, const char *app,
                              const char *const *config_dirs, IsolatorVerdict *ret, char **ret_detail)
{
        _cleanup_strv_free_ char **unable = NULL;
        _cleanup_text_ Text detail = {};
        IsolatorVerdict v = ISOLATOR_IGNORED;
        size_t n_able = 0;

        if (!i->has_limit)
                text_add(&detail, "it has no limit");
        else if (p->config.net == NET_HOST)
                text_add(&detail, "the interfaces are the host's (--net=host)");
        else if (p->config.net == NET_NONE) {
                text_add(&detail, "the pod has only loopback, which is never limited");
                v = ISOLATOR_ENFORCED;
        } else {
                int r = find_unable(p, config_dirs, &unable, &n_able);
                if (r < 0)
                        return r;
                v = verdict_of_networks(unable, n_able, &detail);
                if (app)
                        v = verdict_of_app(p, v, &detail);
        }
        int r = text_take(&detail, ret_detail, NULL);
        if (r >= 0)
                *ret = v;
        return r;
}
