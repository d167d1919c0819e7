/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The filter of system calls of an app, for its status: what it comes from, and of a profile of the user the digest, which is that of
 * the file that was given. */

#include "library/libcrypto.h"
#include "stage0/report/report-internal.h"
#include "stage1/seccomp-filter.h"

const char *filter_kind_to_string(FilterKind k)
{
        static const char *const words[_FILTER_KIND_MAX] = {
                        [FILTER_DEFAULT] = "default",
                        [FILTER_NONE] = "none",
                        [FILTER_ISOLATORS] = "isolators",
                        [FILTER_PROFILE] = "profile",
        };

        return k >= 0 && k < _FILTER_KIND_MAX ? words[k] : NULL;
}

static int digest(const char *text, char **ret)
{
        unsigned char sum[EVP_MAX_MD_SIZE];
        _cleanup_free_ char *hex = NULL;
        unsigned size = 0;

        int r = library_load(&crypto_library, NULL);
        if (r < 0)
                return r;
        if (EVP_Digest(text, strlen(text), sum, &size, EVP_sha256(), NULL) == 1)
                hex = hex_encode(sum, size);
        return hex ? xasprintf(ret, "sha256:%s", hex) : -ENOMEM;
}

static bool has_isolator(const IsolatorList *l)
{
        for (size_t i = 0; i < l->n; i++)
                if (l->items[i].type == ISOLATOR_SECCOMP_RETAIN_SET ||
                    l->items[i].type == ISOLATOR_SECCOMP_REMOVE_SET)
                        return true;
        return false;
}

FilterKind report_filter(const App *app, const AppSettings *s, char **ret_digest)
{
        if (s->seccomp_profile) {
                (void) digest(s->seccomp_profile, ret_digest); /* without the library the status has none */
                return FILTER_PROFILE;
        }
        if (!app || !has_isolator(&app->isolators))
                return FILTER_DEFAULT;
        return seccomp_has_filter(&app->isolators) ? FILTER_ISOLATORS : FILTER_NONE;
}
