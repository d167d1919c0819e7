/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn network reload: restores what networks of running pods need of the host. */

#include "stage0/network/network.h"
#include "stage0/verbs/pod-words.h"

static int reload(Context *c, Pod *p, void *userdata)
{
        if (p->state != POD_RUNNING)
                return pod_not_running(p, &c->error);
        return network_reload(p, context_config_dirs(c), &c->error);
}

static int reload_all(Context *c)
{
        int status = EXIT_SUCCESS;
        Pod **pods = NULL;
        size_t n = 0;

        int r = pod_list(c->store, &pods, &n, &c->error);
        for (size_t i = 0; r >= 0 && i < n; i++) {
                if (pods[i]->state != POD_RUNNING)
                        continue;
                int k = reload(c, pods[i], NULL);
                if (k >= 0 || k == -ESRCH) {
                        error_done(&c->error);
                        continue;
                }
                error_print(&c->error, k);
                error_done(&c->error);
                status = EXIT_STATUS_FAILURE;
        }
        pod_list_free(pods, n);
        return r < 0 ? r : status;
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.max = SIZE_MAX, .what = A_POD};

        int r = context_parse(c, NULL, NULL, argc, argv, &words);
        if (r <= 0)
                return r;
        r = context_open_existing_store_as_root(c);
        if (r < 0)
                return r;
        return words.n == 0 ? reload_all(c) : context_for_each_pod(c, &words, reload, NULL);
}

const Verb verb_network_reload = {
                .name = "network reload",
                .page = "acnspawn-network",
                .synopsis = "[POD…]",
                .brief = "[POD…]",
                .summary = "Restore ports and networks of running pods",
                .text = "Restores the rules of the host's packet filter for the pods, or for all running pods, after they "
                        "were removed, as by 'nft flush ruleset' or by a firewall that loads its own: published ports, "
                        "and the translation of addresses. 'acnspawn status' shows where they are missing.",
                .words = "pod:running",
                .run = run,
};
