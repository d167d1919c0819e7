/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Configurations and results of plugins, and network options: the first byte selects the parser. Parsed
 * values must have their declared form, as they are written to files and environments. */

#include "stage0/network/network-internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_configuration(const char *text, size_t size)
{
        _cleanup_(cni_network_freep) CniNetwork *n = NULL;

        if (cni_network_parse(text, size, true, "x", &n, NULL) < 0)
                return;
        if (pod_network_check(n->name, NULL) < 0 || !n->versions || !cni_version_is_known(n->versions[0]))
                abort();
        for (size_t i = 0; i < json_object_array_length(n->plugins); i++)
                if (strchr(cni_plugin_type(json_object_array_get_idx(n->plugins, i)), '/'))
                        abort();
}

static void check_words(char *const *l)
{
        STRV_FOREACH (s, l)
                if (strpbrk(*s, " \t\r\n#;"))
                        abort();
}

static void fuzz_result(const char *text, size_t size)
{
        _cleanup_json_ json_object *o = NULL;
        NetworkReport *r = calloc(1, sizeof(NetworkReport));

        if (r && json_parse_strict(text, size, &o, NULL, NULL) >= 0 &&
            cni_result_parse(o, "eth0", r, NULL) >= 0) {
                check_words(r->dns.servers);
                check_words(r->dns.search);
                check_words(r->dns.options);
        }
        network_report_free(r, r ? 1 : 0);
}

static void fuzz_record(const char *text, size_t size)
{
        _cleanup_(network_record_done) NetworkRecord r = {}, again = {};
        _cleanup_free_ char *formatted = NULL;

        if (network_record_parse(text, size, &r) < 0 || network_record_format(&r, &formatted) < 0)
                return;
        if (network_record_parse(formatted, strlen(formatted), &again) < 0 || again.n_ports != r.n_ports)
                abort();
}

static void fuzz_request(const char *text, size_t size)
{
        _cleanup_(network_request_done) NetworkRequest q = {};
        _cleanup_free_ char *copy = strndup(text, size);

        if (copy && network_request_parse(copy, &q, NULL) >= 0 && strpbrk(q.args, " \n,"))
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const struct {
                char kind;
                void (*fuzz)(const char *text, size_t size);
        } kinds[] = {{'c', fuzz_configuration}, {'r', fuzz_result}, {'d', fuzz_record}, {'q', fuzz_request}};

        for (size_t i = 0; size > 0 && i < ELEMENTSOF(kinds); i++)
                if (data[0] == (uint8_t) kinds[i].kind)
                        kinds[i].fuzz((const char *) data + 1, size - 1);
        return 0;
}
