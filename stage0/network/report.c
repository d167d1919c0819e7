/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The addresses, routes and name servers of a pod, from the record: for status, and for its resolv.conf. */

#include "stage0/network/network-internal.h"

static int report_one(const Attachment *a, NetworkReport *ret, Error *e)
{
        int r = cni_result_parse(a->result, a->interface, ret, e);

        if (r < 0)
                return error_prefix(e, r, "Cannot parse the result of network '%s'", a->network);
        ret->network = strdup(a->network);
        if (!ret->network || (a->note && !(ret->note = strdup(a->note))))
                return error_oom(e);
        return 0;
}

int network_report(Pod *p, NetworkReport **ret, size_t *ret_n, Error *e)
{
        _cleanup_(network_record_done) NetworkRecord record = {};
        size_t n = 0;

        int r = network_record_read(p, &record, e);
        if (r < 0 && r != -ENOENT)
                return r;
        NetworkReport *l = calloc(record.n_attachments + 1, sizeof(NetworkReport));
        r = l ? 0 : error_oom(e);
        for (size_t i = 0; r >= 0 && i < record.n_attachments; i++)
                if (record.attachments[i].result)
                        r = report_one(&record.attachments[i], &l[n++], e);
        if (r < 0) {
                network_report_free(l, n);
                return r;
        }
        *ret = l;
        *ret_n = n;
        return 0;
}

static int add_missing(char ***l, char *const *more)
{
        int r = 0;

        STRV_FOREACH (s, more)
                if (r >= 0 && !strv_contains(*l, *s))
                        r = strv_extend(l, *s);
        return r;
}

int network_dns(Pod *p, NetworkDns *ret, Error *e)
{
        _cleanup_(network_dns_done) NetworkDns d = {};
        NetworkReport *l = NULL;
        size_t n = 0;

        int r = network_report(p, &l, &n, e);
        if (r < 0)
                return r;
        for (size_t i = 0; r >= 0 && i < n; i++) {
                const NetworkDns *x = &l[i].dns;

                r = add_missing(&d.servers, x->servers);
                if (r >= 0)
                        r = add_missing(&d.search, x->search);
                if (r >= 0)
                        r = add_missing(&d.options, x->options);
                if (r >= 0 && x->domain && !d.domain && !(d.domain = strdup(x->domain)))
                        r = -ENOMEM;
        }
        network_report_free(l, n);
        if (r < 0)
                return error_oom(e);
        *ret = d;
        d = (NetworkDns){};
        return 0;
}
