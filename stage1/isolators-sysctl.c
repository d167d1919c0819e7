/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Kernel parameters of pods (spec: ace.md, "os/unix/sysctl"): those that exist once per namespace and that
 * the pod's own namespaces therefore have. All others are the host's, and a pod that requests one is refused
 * with an error that names the parameter.
 *
 * An image can be granted those of a list: limits of interprocess communication, and the behaviour of the
 * pod's own connections. Parameters of the pod's interfaces, of forwarding and of the addresses it answers
 * for are not in the list, because on a bridge they affect other pods; nor are those that make the kernel
 * load a module (tcp_congestion_control). The operator may set these as well, on the command line or in a
 * pod manifest.
 *
 * The values are written from outside of the pod (stage0/supervisor/apps/parameters.c), before the first process of an
 * app runs: root in the pod may lack the permission, and /proc/sys is read-only in an app.
 *
 * The specification has them at pod scope. An image may request them all the same; as the pod's apps share
 * its namespaces, all apps that request a parameter have to request the same value.
 */

#include "stage1/isolators-internal.h"

/* Paths below /proc/sys; one that ends with a slash stands for everything below it. The first match wins. */
static const struct {
        const char *path;
        ParameterScope scope;
} own_parameters[] = {
                /* System V and POSIX interprocess communication */
                {"fs/mqueue/", PARAMETER_SAFE},
                {"kernel/msgmax", PARAMETER_SAFE},
                {"kernel/msgmnb", PARAMETER_SAFE},
                {"kernel/msgmni", PARAMETER_SAFE},
                {"kernel/sem", PARAMETER_SAFE},
                {"kernel/shm_rmid_forced", PARAMETER_SAFE},
                {"kernel/shmall", PARAMETER_SAFE},
                {"kernel/shmmax", PARAMETER_SAFE},
                {"kernel/shmmni", PARAMETER_SAFE},
                /* how sockets behave */
                {"net/core/somaxconn", PARAMETER_SAFE},
                {"net/ipv4/ip_local_port_range", PARAMETER_SAFE},
                {"net/ipv4/ip_local_reserved_ports", PARAMETER_SAFE},
                {"net/ipv4/ip_unprivileged_port_start", PARAMETER_SAFE},
                {"net/ipv4/ping_group_range", PARAMETER_SAFE},
                {"net/ipv4/tcp_abort_on_overflow", PARAMETER_SAFE},
                {"net/ipv4/tcp_ecn", PARAMETER_SAFE},
                {"net/ipv4/tcp_fastopen", PARAMETER_SAFE},
                {"net/ipv4/tcp_fin_timeout", PARAMETER_SAFE},
                {"net/ipv4/tcp_keepalive_intvl", PARAMETER_SAFE},
                {"net/ipv4/tcp_keepalive_probes", PARAMETER_SAFE},
                {"net/ipv4/tcp_keepalive_time", PARAMETER_SAFE},
                {"net/ipv4/tcp_max_syn_backlog", PARAMETER_SAFE},
                {"net/ipv4/tcp_max_tw_buckets", PARAMETER_SAFE},
                {"net/ipv4/tcp_mtu_probing", PARAMETER_SAFE},
                {"net/ipv4/tcp_notsent_lowat", PARAMETER_SAFE},
                {"net/ipv4/tcp_orphan_retries", PARAMETER_SAFE},
                {"net/ipv4/tcp_retries1", PARAMETER_SAFE},
                {"net/ipv4/tcp_retries2", PARAMETER_SAFE},
                {"net/ipv4/tcp_rmem", PARAMETER_SAFE},
                {"net/ipv4/tcp_sack", PARAMETER_SAFE},
                {"net/ipv4/tcp_slow_start_after_idle", PARAMETER_SAFE},
                {"net/ipv4/tcp_syn_retries", PARAMETER_SAFE},
                {"net/ipv4/tcp_synack_retries", PARAMETER_SAFE},
                {"net/ipv4/tcp_syncookies", PARAMETER_SAFE},
                {"net/ipv4/tcp_timestamps", PARAMETER_SAFE},
                {"net/ipv4/tcp_tw_reuse", PARAMETER_SAFE},
                {"net/ipv4/tcp_window_scaling", PARAMETER_SAFE},
                {"net/ipv4/tcp_wmem", PARAMETER_SAFE},
                {"net/unix/max_dgram_qlen", PARAMETER_SAFE},
                /* all other network parameters: interfaces, neighbours, routes, forwarding, filters */
                {"net/", PARAMETER_OPERATOR},
                /* host name and domain name */
                {"kernel/domainname", PARAMETER_OPERATOR},
                {"kernel/hostname", PARAMETER_OPERATOR},
};

/* As in sysctl(8): the separator is the one of "." and "/" that comes first, and within a component the
 * other one stands for it, so that names of interfaces can have dots. */
static int parameter_path(const char *name, char **ret)
{
        char *path = strdup(name);

        if (!path)
                return -ENOMEM;
        if (path[strcspn(path, "./")] == '.')
                for (char *c = path; *c; c++)
                        *c = *c == '.' ? '/' : *c == '/' ? '.' : *c;
        *ret = path;
        return 0;
}

static ParameterScope path_scope(const char *path)
{
        for (size_t i = 0; i < ELEMENTSOF(own_parameters); i++) {
                const char *own = own_parameters[i].path;
                if (own[strlen(own) - 1] == '/' ? startswith(path, own) != NULL : streq(path, own))
                        return own_parameters[i].scope;
        }
        return PARAMETER_HOST;
}

/* Out of memory, the result is the most restrictive scope. */
ParameterScope sysctl_scope(const char *name)
{
        _cleanup_free_ char *path = NULL;

        return parameter_path(name, &path) < 0 ? PARAMETER_HOST : path_scope(path);
}

bool sysctl_same(const char *a, const char *b)
{
        _cleanup_free_ char *x = NULL, *y = NULL;

        return parameter_path(a, &x) >= 0 && parameter_path(b, &y) >= 0 && streq(x, y);
}

/* All that are neither of the network nor names of the host. */
static bool is_of_ipc(const char *path)
{
        return path_scope(path) != PARAMETER_HOST && !startswith(path, "net/") &&
               !streq(path, "kernel/hostname") && !streq(path, "kernel/domainname");
}

static int check_parameter(const char *name, const char *path, const char *whose, SharedNamespaces shared,
                           Error *e)
{
        if (path_scope(path) == PARAMETER_HOST) {
                int r = error_set(e, -EPERM,
                                  "%s requests the kernel parameter %s, which is the host's: no pod has "
                                  "one of its own",
                                  whose, name);
                return error_hint(e, r,
                                  "Pods have their own net.*, fs.mqueue.*, kernel.msg*, kernel.sem, "
                                  "kernel.shm*, kernel.hostname and kernel.domainname.");
        }
        if (shared.network && startswith(path, "net/")) {
                int r = error_set(
                                e, -EPERM,
                                "%s requests the kernel parameter %s, but the pod is in the host's network",
                                whose, name);
                return error_hint(e, r, "Leave out --net=host, or the parameter.");
        }
        if (shared.ipc && is_of_ipc(path)) {
                int r = error_set(
                                e, -EPERM,
                                "%s requests the kernel parameter %s, but the pod is in the host's namespace "
                                "of interprocess communication",
                                whose, name);
                return error_hint(e, r, "It would be set for the host. Leave it out.");
        }
        return 0;
}

static int add_parameter(PairList *l, const char *name, const char *path, const char *value,
                         const char *whose, Error *e)
{
        const char *other = pair_list_get(l, path);

        if (other && !streq(other, value)) {
                int r = error_set(e, -EINVAL,
                                  "%s sets the kernel parameter %s to '%s', but '%s' is requested as well: "
                                  "the apps of a pod share it",
                                  whose, name, value, other);
                return error_hint(e, r, "Give both the same with --sysctl= after the image.");
        }
        return !other && pair_list_set(l, path, value) < 0 ? error_oom(e) : 0;
}

static int collect_list(const IsolatorList *isolators, const char *whose, SharedNamespaces shared,
                        PairList *l, Error *e)
{
        for (size_t i = 0; i < isolators->n; i++)
                for (size_t k = 0; k < isolators->items[i].sysctl.n; k++) {
                        const Pair *p = &isolators->items[i].sysctl.items[k];
                        _cleanup_free_ char *path = NULL;
                        int r = parameter_path(p->name, &path) < 0 ? error_oom(e) : 0;
                        if (r >= 0)
                                r = check_parameter(p->name, path, whose, shared, e);
                        if (r >= 0)
                                r = add_parameter(l, p->name, path, p->value, whose, e);
                        if (r < 0)
                                return r;
                }
        return 0;
}

int stage1_sysctls(const PodManifest *m, SharedNamespaces shared, PairList *ret, Error *e)
{
        PairList l = {};
        int r = collect_list(&m->isolators, "The pod", shared, &l, e);

        for (size_t i = 0; r >= 0 && i < m->n_apps; i++) {
                _cleanup_free_ char *whose = NULL;
                if (!m->apps[i]->app)
                        continue;
                r = xasprintf(&whose, "App %s", m->apps[i]->name) < 0 ? error_oom(e) : 0;
                if (r >= 0)
                        r = collect_list(&m->apps[i]->app->isolators, whose, shared, &l, e);
        }
        if (r < 0) {
                pair_list_done(&l);
                return r;
        }
        *ret = l;
        return 0;
}

int sysctl_check(const PodManifest *m, SharedNamespaces shared, Error *e)
{
        PairList l = {};
        int r = stage1_sysctls(m, shared, &l, e);

        pair_list_done(&l);
        return r;
}

IsolatorVerdict sysctl_verdict(const VerdictInput *j, Text *detail)
{
        const Isolator *i = j->isolator;
        for (size_t k = 0; k < i->sysctl.n; k++)
                text_addf(detail, "%s%s", k > 0 ? ", " : "", i->sysctl.items[k].name);
        text_add(detail,
                 i->sysctl.n == 0 ? "no parameter is given"
                 : j->pod_scope   ? ": set in the pod's namespaces before its apps start"
                                  : ": set in the pod's namespaces, for all its apps, before they start");
        return ISOLATOR_ENFORCED;
}
