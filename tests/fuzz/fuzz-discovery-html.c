/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Fuzz target: the page of a server in reply to discovery, and the expansion of its templates. */

#include "prepare/discovery/discovery.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        Pair items[] = {{(char *) "version", (char *) "1.0/../x"}, {(char *) "os", (char *) "linux"}};
        const PairList labels = {.items = items, .n = ELEMENTSOF(items)};
        _cleanup_discovery_page_ DiscoveryPage p = {};
        _cleanup_discovery_ Discovery d = {};

        if (discovery_page_parse((const char *) data, size, &p, NULL) < 0)
                return 0;
        for (size_t i = 0; i < p.n; i++)
                if (!utf8_is_valid(p.items[i].value, strlen(p.items[i].value)) || !p.items[i].prefix[0] ||
                    !p.items[i].value[0])
                        abort();
        if (discovery_add_page(&d, &p, "example.com/app", &labels) < 0)
                return 0;
        for (size_t i = 0; i < d.n_endpoints; i++)
                if (!startswith(d.endpoints[i].image_url, "http") ||
                    streq(d.endpoints[i].image_url, d.endpoints[i].signature_url))
                        abort();
        return 0;
}
