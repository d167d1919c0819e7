/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Applies the configuration of registries to a reference: the registry of a short name, and the places to
 * use, in order.
 *
 * A short name is completed by an alias, or by the search list if that has one registry only. With several,
 * anyone who can register the name at the first of them would control the image, so the user has to choose;
 * and the result must not depend on which of them answers.
 *
 * Of the [[registry]] tables the one with the longest matching prefix counts. What follows the prefix in the
 * reference is appended to the location of each mirror, then to that of the registry itself.
 */

#include "prepare/registry/registry-internal.h"

/* --- Short names --------------------------------------------------------------------------------------- */

static int replace(char **place, const char *value, Error *e)
{
        char *copy = strdup(value);

        if (!copy)
                return error_oom(e);
        free(*place);
        *place = copy;
        return 0;
}

static int complete_by_alias(RegistryReference *r, const char *alias, Error *e)
{
        _cleanup_(registry_reference_done) RegistryReference full = {};

        int q = registry_reference_parse(alias, &full, e);
        if (q < 0)
                return q;
        q = replace(&r->registry, full.registry, e);
        return q < 0 ? q : replace(&r->repository, full.repository, e);
}

/* LOCATION: host[:port][/path] of the search list. */
static int complete_by_search(RegistryReference *r, const char *location, Error *e)
{
        _cleanup_free_ char *host = NULL, *path = NULL, *repository = NULL;

        int q = registry_location_parse(location, &host, &path, e);
        if (q < 0)
                return q;
        if (path && xasprintf(&repository, "%s/%s", path, r->repository) < 0)
                return error_oom(e);
        q = repository ? replace(&r->repository, repository, e) : 0;
        return q < 0 ? q : replace(&r->registry, host, e);
}

static int refuse_choice(const RegistriesConf *c, const RegistryReference *r, Error *e)
{
        _cleanup_text_ Text t = {};
        _cleanup_free_ char *list = NULL;

        STRV_FOREACH (s, c->search)
                text_addf(&t, "%s%s/%s", s == c->search ? "" : s[1] ? ", " : " or ", *s, r->repository);
        if (text_take(&t, &list, NULL) < 0)
                return error_oom(e);
        int q = error_set(e, -EINVAL, "'%s' has no registry, and configuration has several", r->repository);
        return error_hint(e, q, "Write the full reference: %s; or define an alias in registries.conf.",
                          list);
}

static int complete_registry(const RegistriesConf *c, RegistryReference *r, Error *e)
{
        const char *alias = pair_list_get(&c->aliases, r->repository);

        if (!isempty(alias))
                return complete_by_alias(r, alias, e);
        if (strv_length(c->search) == 1)
                return complete_by_search(r, c->search[0], e);
        if (c->search && c->search[0])
                return refuse_choice(c, r, e);
        int q = error_set(e, -EINVAL, "'%s' has no registry", r->repository);
        return error_hint(e, q,
                          "Write docker://REGISTRY/%s, or set unqualified-search-registries in "
                          "registries.conf; see acnspawn-registries(5).",
                          r->repository);
}

int registries_conf_complete(const RegistriesConf *c, RegistryReference *r, Error *e)
{
        int q = r->registry ? 0 : complete_registry(c, r, e);

        return q < 0 || r->tag || r->digest ? q : replace(&r->tag, "latest", e);
}

/* --- Rules --------------------------------------------------------------------------------------------- */

/* How many bytes of NAME, "host[:port]/repository", the prefix stands for; 0: it does not match. */
static size_t match_prefix(const char *prefix, const char *name)
{
        const char *domain = startswith(prefix, "*"), *slash = strchr(name, '/');
        size_t n = strlen(prefix), host = (size_t) (slash - name);

        if (domain) {
                /* "*.example.com": subdomains, whatever their port; one with a port, only that. */
                size_t name_only = strchr(domain, ':') ? host : MIN(host, strcspn(name, ":"));
                size_t m = strlen(domain);
                return name_only > m && memcmp(name + name_only - m, domain, m) == 0 ? host : 0;
        }
        if (strncmp(name, prefix, n) != 0)
                return 0;
        /* A port is part of the host: "example.com" is not "example.com:5000". */
        return name[n] == '/' || name[n] == 0 ? n : 0;
}

static const RegistryRule *find_rule(const RegistriesConf *c, const char *name, size_t *ret_matched)
{
        const RegistryRule *best = NULL;
        size_t best_length = 0;

        for (size_t i = 0; i < c->n_rules; i++) {
                size_t matched = match_prefix(c->rules[i].prefix, name);
                /* A prefix with a wildcard is as specific as its written length. */
                size_t length = matched ? strlen(c->rules[i].prefix) : 0;

                if (matched == 0 || length <= best_length)
                        continue;
                best = c->rules + i;
                best_length = length;
                *ret_matched = matched;
        }
        return best;
}

/* --- Places -------------------------------------------------------------------------------------------- */

static void place_done(RegistryPlace *p)
{
        free(p->host);
        free(p->repository);
        free(p->insecure_by);
        *p = (RegistryPlace){};
}

void registry_places_done(RegistryPlaces *p)
{
        for (size_t i = 0; i < p->n; i++)
                place_done(p->items + i);
        free(p->items);
        *p = (RegistryPlaces){};
}

/* LOCATION and what follows the prefix in the name, REST, together; FILE: what says it is insecure. */
static int add_place(RegistryPlaces *p, const char *location, const char *rest, bool mirror,
                     const char *file, Error *e)
{
        _cleanup_(place_done) RegistryPlace place = {.mirror = mirror};
        _cleanup_free_ char *name = NULL;

        if (xasprintf(&name, "%s%s", location, rest) < 0)
                return error_oom(e);
        int r = registry_location_parse(name, &place.host, &place.repository, e);
        if (r < 0)
                return r;
        if (!place.repository)
                return error_set(e, -EINVAL, "'%s' has no repository", name);
        if (file) {
                place.insecure_by = strdup(file);
                if (!place.insecure_by)
                        return error_oom(e);
        }
        if (GREEDY_REALLOC(p->items, p->allocated, p->n + 1) < 0)
                return error_oom(e);
        p->items[p->n++] = place;
        place = (RegistryPlace){};
        return 0;
}

static bool mirror_serves(const RegistryRule *rule, const RegistryMirror *m, const RegistryReference *r)
{
        if (rule->mirror_by_digest_only || m->pull_from == PULL_FROM_DIGEST_ONLY)
                return r->digest != NULL;
        return m->pull_from != PULL_FROM_TAG_ONLY || !r->digest;
}

/* Those of RULE for NAME, of which the prefix stands for the first MATCHED bytes. */
static int add_places(RegistryPlaces *p, const RegistryRule *rule, const RegistryReference *r,
                      const char *name, size_t matched, Error *e)
{
        int q = 0;

        for (size_t i = 0; i < rule->n_mirrors && q >= 0; i++)
                if (mirror_serves(rule, rule->mirrors + i, r))
                        q = add_place(p, rule->mirrors[i].location, name + matched, true,
                                      rule->mirrors[i].insecure ? rule->file : NULL, e);
        if (q >= 0)
                q = add_place(p, rule->location ?: "", name + (rule->location ? matched : 0), false,
                              rule->insecure ? rule->file : NULL, e);
        return q < 0 ? error_prefix(e, q, "%s: [[registry]] for '%s'", rule->file, rule->prefix) : 0;
}

int registries_conf_places(const RegistriesConf *c, const RegistryReference *r, RegistryPlaces *ret,
                           Error *e)
{
        _cleanup_(registry_places_done) RegistryPlaces p = {};
        _cleanup_free_ char *name = NULL;
        size_t matched = 0;

        if (xasprintf(&name, "%s/%s", r->registry, r->repository) < 0)
                return error_oom(e);
        const RegistryRule *rule = find_rule(c, name, &matched);
        if (rule && rule->blocked) {
                int q = error_set(e, -EPERM, "'%s' is blocked by %s", name, rule->file);
                return error_hint(e, q, "The [[registry]] table for '%s' there has blocked = true.",
                                  rule->prefix);
        }
        int q = rule ? add_places(&p, rule, r, name, matched, e) : add_place(&p, name, "", false, NULL, e);
        if (q < 0)
                return q;
        *ret = p;
        p = (RegistryPlaces){};
        return 0;
}
