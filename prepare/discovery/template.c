/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Expands templates for an image (spec: discovery.md, "Discovery Templates").
 *
 * The specification refers to templates of RFC 6570, but shows plain substitution, which its reference does.
 * For a name and the usual labels both have the same result, except for the slashes of the name, which the
 * RFC would encode and the specification's example does not: they are kept. Everything else is encoded, so
 * that no label can change the structure of a URL.
 *
 * Two further differences: the reference compares prefixes letter by letter, so that "example.com/re" covers
 * "example.com/reduce"; here a prefix ends at a component boundary, as in all other uses of prefixes. And a
 * template has to have {ext}, as the specification requires; image and signature would have the same URL
 * otherwise.
 */

#include "prepare/discovery/discovery.h"

#define ENDPOINTS_MAX 32U
#define DEFAULT_VERSION "latest"

bool discovery_prefix_covers(const char *prefix, const char *name)
{
        size_t n = strlen(prefix);

        while (n > 0 && prefix[n - 1] == '/')
                n--;
        return n > 0 && strncmp(prefix, name, n) == 0 && (name[n] == 0 || name[n] == '/');
}

bool discovery_possible(const char *name)
{
        return strpbrk(name, "./") != NULL;
}

void discovery_done(Discovery *d)
{
        for (size_t i = 0; i < d->n_endpoints; i++) {
                free(d->endpoints[i].image_url);
                free(d->endpoints[i].signature_url);
        }
        free(d->endpoints);
        strv_free(d->pubkeys);
        strv_free(d->unusable);
        *d = (Discovery){};
}

/* --- Expansion ----------------------------------------------------------------------------------------- */

static bool is_unreserved(char c)
{
        return is_alphanumeric(c) || (c && strchr("-._~", c));
}

static void add_encoded(Text *t, const char *s, char kept)
{
        for (; *s; s++)
                if (is_unreserved(*s) || *s == kept)
                        text_add_bytes(t, s, 1);
                else
                        text_addf(t, "%%%02X", (unsigned char) *s);
}

/* Whether it is a variable that has a value. */
static bool add_variable(Text *t, const char *variable, const char *name, const PairList *labels,
                         const char *ext)
{
        bool is_name = streq(variable, "name"); /* not a valid name of a label */
        const char *value = is_name ? name : streq(variable, "ext") ? ext : pair_list_get(labels, variable);

        if (value)
                add_encoded(t, value, is_name ? '/' : 0);
        return value;
}

int discovery_expand(const char *template, const char *name, const PairList *labels, const char *ext,
                     char **ret, char **ret_missing)
{
        _cleanup_text_ Text t = {};

        for (const char *p = template, *open; *p;) {
                open = strchrnul(p, '{');
                const char *close = strchr(open, '}');
                if (!*open || !close) { /* with an unclosed brace the URL is not valid */
                        text_add(&t, p);
                        break;
                }
                _cleanup_free_ char *variable = strndup(open + 1, (size_t) (close - open - 1));
                if (!variable)
                        return -ENOMEM;
                text_add_bytes(&t, p, (size_t) (open - p));
                if (!add_variable(&t, variable, name, labels, ext)) {
                        if (ret_missing)
                                *ret_missing = TAKE_PTR(variable);
                        return 0;
                }
                p = close + 1;
        }
        int r = text_take(&t, ret, NULL);
        return r < 0 ? r : 1;
}

/* --- Locations
 * -------------------------------------------------------------------------------------------- */

int discovery_labels(const PairList *labels, PairList *ret)
{
        const struct {
                const char *name, *value;
        } defaults[] = {
                        {"version", DEFAULT_VERSION},
                        {"os", host_os_label()},
                        {"arch", host_arch_label()},
        };
        PairList l = {};

        int r = pair_list_copy(labels, &l);
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(defaults); i++)
                if (defaults[i].value && !pair_list_get(&l, defaults[i].name))
                        r = pair_list_set(&l, defaults[i].name, defaults[i].value);
        if (r < 0) {
                pair_list_done(&l);
                return r;
        }
        *ret = l;
        return 0;
}

static bool has_endpoint(const Discovery *d, const char *image_url)
{
        for (size_t i = 0; i < d->n_endpoints; i++)
                if (streq(d->endpoints[i].image_url, image_url))
                        return true;
        return false;
}

/* Inserts https endpoints before others, otherwise in order. Takes ownership of the strings. */
static int add_endpoint(Discovery *d, DiscoveryEndpoint x)
{
        size_t at = d->n_endpoints;
        int r = 0;

        if (d->n_endpoints < ENDPOINTS_MAX && !has_endpoint(d, x.image_url))
                r = GREEDY_REALLOC(d->endpoints, d->endpoints_allocated, d->n_endpoints + 1);
        else
                r = -EEXIST;
        if (r < 0) {
                free(x.image_url);
                free(x.signature_url);
                return r == -EEXIST ? 0 : r;
        }
        if (startswith(x.image_url, "https://"))
                while (at > 0 && !startswith(d->endpoints[at - 1].image_url, "https://"))
                        at--;
        memmove(&d->endpoints[at + 1], &d->endpoints[at], (d->n_endpoints - at) * sizeof(x));
        d->endpoints[at] = x;
        d->n_endpoints++;
        return 0;
}

static int expand_both(Discovery *d, const char *template, const char *name, const PairList *labels)
{
        _cleanup_free_ char *missing = NULL, *image = NULL, *signature = NULL;

        int r = discovery_expand(template, name, labels, "aci", &image, &missing);
        if (r == 0)
                return strv_extendf(&d->unusable, "%s: it needs {%s}, which has no value", template,
                                    missing);
        if (r > 0)
                r = discovery_expand(template, name, labels, "aci.asc", &signature, NULL);
        if (r < 0)
                return r;
        return add_endpoint(d, (DiscoveryEndpoint){TAKE_PTR(image), TAKE_PTR(signature)});
}

static int add_template(Discovery *d, const char *template, const char *name, const PairList *labels)
{
        if (strv_length(d->unusable) >= ENDPOINTS_MAX)
                return 0;
        if (!startswith(template, "https://") && !startswith(template, "http://"))
                return strv_extendf(&d->unusable, "%s: it is not an https URL", template);
        if (!strstr(template, "{ext}"))
                return strv_extendf(
                                &d->unusable,
                                "%s: it has no {ext}, so that image and signature would have the same URL",
                                template);
        return expand_both(d, template, name, labels);
}

int discovery_add_page(Discovery *d, const DiscoveryPage *p, const char *name, const PairList *labels)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < p->n; i++) {
                const DiscoveryMeta *m = &p->items[i];

                if (!discovery_prefix_covers(m->prefix, name))
                        continue;
                if (m->kind == DISCOVERY_IMAGE)
                        r = add_template(d, m->value, name, labels);
                else if (!strv_contains(d->pubkeys, m->value) && strv_length(d->pubkeys) < ENDPOINTS_MAX)
                        r = strv_extend(&d->pubkeys, m->value);
        }
        return r;
}

int discovery_add_simple(Discovery *d, const char *name, const PairList *labels, bool http)
{
        if (!strchr(name, '/'))
                return 0;
        int r = expand_both(d, "https://{name}-{version}-{os}-{arch}.{ext}", name, labels);
        return r >= 0 && http ? expand_both(d, "http://{name}-{version}-{os}-{arch}.{ext}", name, labels)
                              : r;
}
