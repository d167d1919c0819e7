/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Kernel parameters of pods (spec: ace.md, "os/unix/sysctl"): those that each of the pod's own namespaces
 * has for itself. Everything else is the host's, and a pod that asks for it is refused by the parameter's
 * name. The values are written from outside (stage0/run/parameters.c), before the first process of an app
 * runs: root in the pod may not be allowed to, and what /proc/sys shows in an app is read-only.
 *
 * The specification has them at pod scope. An image may ask for them all the same; as the pod's apps share
 * its namespaces, all that ask for one parameter have to ask for one value.
 */

#include "stage1/isolators-internal.h"

/* Paths below /proc/sys; one that ends with a slash stands for everything below it. */
static const char *const own_parameters[] = {
                /* the network's */
                "net/",
                /* System V and POSIX interprocess communication */
                "fs/mqueue/",
                "kernel/msgmax",
                "kernel/msgmnb",
                "kernel/msgmni",
                "kernel/sem",
                "kernel/shm_rmid_forced",
                "kernel/shmall",
                "kernel/shmmax",
                "kernel/shmmni",
                /* the names */
                "kernel/domainname",
                "kernel/hostname",
};

/* As sysctl(8) has it: the separator is whichever of "." and "/" comes first, and the other stands for it
 * within a part, so that names of interfaces can have dots. */
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

static bool is_own(const char *path)
{
        for (size_t i = 0; i < ELEMENTSOF(own_parameters); i++)
                if (own_parameters[i][strlen(own_parameters[i]) - 1] == '/'
                                    ? startswith(path, own_parameters[i]) != NULL
                                    : streq(path, own_parameters[i]))
                        return true;
        return false;
}

static int check_parameter(const char *name, const char *path, const char *whose, bool host_network,
                           Error *e)
{
        if (!is_own(path)) {
                int r = error_set(e, -EPERM,
                                  "%s wants the kernel parameter %s, which is the host's: no pod has one of "
                                  "its own",
                                  whose, name);
                return error_hint(e, r,
                                  "Pods have their own net.*, fs.mqueue.*, kernel.msg*, kernel.sem, "
                                  "kernel.shm*, kernel.hostname and kernel.domainname.");
        }
        if (host_network && startswith(path, "net/")) {
                int r = error_set(e, -EPERM,
                                  "%s wants the kernel parameter %s, but the pod is in the host's network",
                                  whose, name);
                return error_hint(e, r, "Leave out --net=host, or the parameter.");
        }
        return 0;
}

static int add_parameter(PairList *l, const char *name, const char *path, const char *value,
                         const char *whose, Error *e)
{
        const char *other = pair_list_get(l, path);

        if (other && !streq(other, value)) {
                int r = error_set(e, -EINVAL,
                                  "%s wants the kernel parameter %s to be '%s', but '%s' is wanted as well: "
                                  "the apps of a pod share it",
                                  whose, name, value, other);
                return error_hint(e, r, "Give both the same with --sysctl= after the image.");
        }
        return !other && pair_list_set(l, path, value) < 0 ? error_oom(e) : 0;
}

static int collect_list(const IsolatorList *isolators, const char *whose, bool host_network, PairList *l,
                        Error *e)
{
        for (size_t i = 0; i < isolators->n; i++)
                for (size_t k = 0; k < isolators->items[i].sysctl.n; k++) {
                        const Pair *p = &isolators->items[i].sysctl.items[k];
                        _cleanup_free_ char *path = NULL;
                        int r = parameter_path(p->name, &path) < 0 ? error_oom(e) : 0;
                        if (r >= 0)
                                r = check_parameter(p->name, path, whose, host_network, e);
                        if (r >= 0)
                                r = add_parameter(l, p->name, path, p->value, whose, e);
                        if (r < 0)
                                return r;
                }
        return 0;
}

int stage1_sysctls(const PodManifest *m, bool host_network, PairList *ret, Error *e)
{
        PairList l = {};
        int r = collect_list(&m->isolators, "The pod", host_network, &l, e);

        for (size_t i = 0; r >= 0 && i < m->n_apps; i++) {
                _cleanup_free_ char *whose = NULL;
                r = xasprintf(&whose, "App %s", m->apps[i].name) < 0 ? error_oom(e) : 0;
                if (r >= 0)
                        r = collect_list(&m->apps[i].app->isolators, whose, host_network, &l, e);
        }
        if (r < 0) {
                pair_list_done(&l);
                return r;
        }
        *ret = l;
        return 0;
}

int sysctl_check(const PodManifest *m, bool host_network, Error *e)
{
        PairList l = {};
        int r = stage1_sysctls(m, host_network, &l, e);

        pair_list_done(&l);
        return r;
}

IsolatorVerdict sysctl_verdict(const Isolator *i, bool pod_scope, const HostFeatures *h, Text *detail)
{
        (void) h;
        for (size_t k = 0; k < i->sysctl.n; k++)
                text_addf(detail, "%s%s", k > 0 ? ", " : "", i->sysctl.items[k].name);
        text_add(detail, i->sysctl.n == 0 ? "no parameter is named"
                         : pod_scope      ? ": set in the pod's namespaces before its apps start"
                                     : ": set in the pod's namespaces, for all its apps, before they start");
        return ISOLATOR_ENFORCED;
}
