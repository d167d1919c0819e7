/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The networks of sandboxes: configuration and plugins are in the directories that the endpoint was started with. */

#include "cri/statistics/usage.h"

#define INTERFACES_MAX 64U /* of a sandbox, in figures */

int sandbox_network_options(CriJob *j, PrepareOptions *o, char **ret_name, Error *e)
{
        char *const *conf = j->server->options->cni_conf_dirs, *const *bin = j->server->options
                                                                                             ->cni_bin_dirs;
        const char **list = cri_alloc(&j->memory, (strv_length(conf) + 1) * sizeof(char *));
        _cleanup_free_ char *path = NULL;
        size_t n = 0;
        int r = network_first(conf, bin, ret_name, e);

        if (r < 0)
                return cri_status(j, GRPC_FAILED_PRECONDITION, r);
        if (!list)
                return error_oom(e);
        STRV_FOREACH (d, conf)
                if (!(list[n++] = cri_printf(&j->memory, NETWORK_DIRECTORY_ITSELF "%s", *d)))
                        return error_oom(e);
        o->config_dirs = n > 0 ? list : j->server->options->config_dirs;
        path = bin && *bin ? strv_join((char **) bin, ":") : NULL;
        if (bin && *bin &&
            (!path || setenv("CNI_PATH", path, 1) < 0)) /* of this process, and of the supervisor */
                return error_oom(e);
        return 0;
}

/* --- Figures ------------------------------------------------------------------------------------------- */

size_t cri_networks_check(NetworkUsage *l, size_t n)
{
        size_t kept = 0;

        for (size_t i = 0; i < n && kept < INTERFACES_MAX; i++)
                if (utf8_is_valid(l[i].name, strlen(l[i].name)))
                        l[kept++] = l[i];
        return kept;
}

int sandbox_networks(const Sandbox *s, NetworkUsage **ret, size_t *ret_n)
{
        int r = pod_network_usage(s->pod, ret, ret_n);

        if (r >= 0)
                *ret_n = cri_networks_check(*ret, *ret_n);
        return r;
}
