/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* References to images of registries, by the grammar of the distribution project:
 *
 *     [REGISTRY[:PORT]/]REPOSITORY[:TAG][@DIGEST]
 *
 * What stands before the first slash is a registry if it has a dot or a colon, or is "localhost"; otherwise
 * it is the first part of the repository, and the reference is a short name. The registry of a short name is
 * determined by configuration only: none is built in, since the owner of a built-in registry would control
 * all short names.
 *
 * All parts of a reference become part of a URL, so characters with a meaning there are refused.
 */

#include <arpa/inet.h>

#include "prepare/registry/registry-internal.h"

#define REFERENCE_LENGTH_MAX 1024U
#define HOST_LENGTH_MAX 253U
#define HOST_PART_LENGTH_MAX 63U
#define REPOSITORY_LENGTH_MAX 255U
#define TAG_LENGTH_MAX 128U
#define GRAMMAR "docker://[REGISTRY[:PORT]/]REPOSITORY[:TAG][@DIGEST]"

void registry_reference_done(RegistryReference *r)
{
        free(r->registry);
        free(r->repository);
        free(r->tag);
        free(r->digest);
        *r = (RegistryReference){};
}

/* --- Registries ---------------------------------------------------------------------------------------- */

static bool host_part_is_valid(const char *s, size_t n)
{
        if (n == 0 || n > HOST_PART_LENGTH_MAX || s[0] == '-' || s[n - 1] == '-')
                return false;
        for (size_t i = 0; i < n; i++)
                if (!is_alphanumeric(s[i]) && s[i] != '-')
                        return false;
        return true;
}

static bool host_name_is_valid(const char *s, size_t n)
{
        if (n > HOST_LENGTH_MAX)
                return false;
        for (size_t at = 0;;) {
                const char *dot = memchr(s + at, '.', n - at);
                size_t end = dot ? (size_t) (dot - s) : n;
                if (!host_part_is_valid(s + at, end - at))
                        return false;
                if (!dot)
                        return true;
                at = end + 1;
        }
}

static bool ipv6_is_valid(const char *s, size_t n)
{
        char text[INET6_ADDRSTRLEN];
        struct in6_addr address;

        if (n < 2 || n - 2 >= sizeof(text) || s[n - 1] != ']')
                return false;
        memcpy(text, s + 1, n - 2);
        text[n - 2] = 0;
        return inet_pton(AF_INET6, text, &address) == 1;
}

/* The length of the host in host[:port]. */
static size_t host_length(const char *s)
{
        return s[0] == '[' ? strcspn(s, "]") + (strchr(s, ']') != NULL) : strcspn(s, ":");
}

/* host[:port], changed to lower case. */
static int check_host(char *s, Error *e)
{
        size_t n = host_length(s);
        uint32_t port;

        if (!(s[0] == '[' ? ipv6_is_valid(s, n) : host_name_is_valid(s, n)))
                return error_set(e, -EINVAL, "'%s' is not a host name or address", s);
        if (s[n] && (s[n] != ':' || parse_u32(s + n + 1, &port) < 0 || port == 0 || port > UINT16_MAX))
                return error_set(e, -EINVAL, "'%s' has no valid port", s);
        for (char *c = s; *c; c++)
                *c = to_lower(*c);
        return 0;
}

int registry_location_parse(const char *s, char **ret_host, char **ret_path, Error *e)
{
        _cleanup_free_ char *copy = strdup(s), *path = NULL;

        if (!copy)
                return error_oom(e);
        char *slash = strchr(copy, '/');
        if (slash) {
                *slash = 0;
                path = strdup(slash + 1);
                if (!path)
                        return error_oom(e);
        }
        int r = check_host(copy, e);
        if (r >= 0 && path)
                r = registry_repository_check(path, e);
        if (r < 0)
                return r;
        *ret_host = TAKE_PTR(copy);
        *ret_path = TAKE_PTR(path);
        return 0;
}

bool registry_is_host(const char *first)
{
        if (streq(first, "localhost"))
                return true;
        for (const char *c = first; *c; c++)
                if (*c == '.' || *c == ':')
                        return true;
        return false;
}

/* --- Repositories, tags, digests ----------------------------------------------------------------------- */

/* Valid separators between runs of letters and digits: one dot, one or two underscores, any number of
 * dashes. */
static bool separator_is_valid(const char *s, size_t n)
{
        if (n == 1)
                return *s == '.' || *s == '_' || *s == '-';
        if (n == 2 && memcmp(s, "__", 2) == 0)
                return true;
        for (size_t i = 0; i < n; i++)
                if (s[i] != '-')
                        return false;
        return true;
}

static bool component_is_valid(const char *s, size_t n)
{
        size_t i = 0;

        for (;;) {
                size_t start = i;
                while (i < n && (is_lower(s[i]) || is_digit(s[i])))
                        i++;
                if (i == start)
                        return false;
                if (i == n)
                        return true;
                start = i;
                while (i < n && !is_lower(s[i]) && !is_digit(s[i]))
                        i++;
                if (i == n || !separator_is_valid(s + start, i - start))
                        return false;
        }
}

int registry_repository_check(const char *s, Error *e)
{
        size_t length = strlen(s);

        if (length == 0)
                return error_set(e, -EINVAL, "it has no repository");
        if (length > REPOSITORY_LENGTH_MAX)
                return error_set(e, -EINVAL, "the repository has %zu characters, more than %u", length,
                                 REPOSITORY_LENGTH_MAX);
        for (const char *c = s; *c; c++)
                if (is_upper(*c))
                        return error_set(e, -EINVAL, "the repository '%s' has upper case letters", s);
        for (const char *p = s;; p++) {
                size_t n = strcspn(p, "/");
                if (!component_is_valid(p, n))
                        return error_set(e, -EINVAL,
                                         n == 0 ? "the repository '%s' has an empty part"
                                                : "the repository '%s' has a part that is not lower case "
                                                  "letters and digits, separated by '.', '_', '__' or '-'",
                                         s);
                p += n;
                if (!*p)
                        return 0;
        }
}

static int check_tag(const char *s, Error *e)
{
        size_t n = strlen(s);

        if (n == 0)
                return error_set(e, -EINVAL, "the tag is empty");
        if (n > TAG_LENGTH_MAX)
                return error_set(e, -EINVAL, "the tag has %zu characters, more than %u", n, TAG_LENGTH_MAX);
        for (const char *c = s; *c; c++)
                if (!is_alphanumeric(*c) && *c != '_' && (c == s || (*c != '.' && *c != '-')))
                        return error_set(e, -EINVAL,
                                         "the tag '%s' is not letters, digits, '_', '.' and '-', the "
                                         "first neither '.' nor '-'",
                                         s);
        return 0;
}

int registry_digest_check(const char *s, Error *e)
{
        static const struct {
                const char *prefix;
                size_t digits;
        } algorithms[] = {{"sha256:", 64}, {"sha512:", 128}};

        for (size_t i = 0; i < ELEMENTSOF(algorithms); i++) {
                const char *hex = startswith(s, algorithms[i].prefix);
                if (!hex)
                        continue;
                if (strlen(hex) == algorithms[i].digits &&
                    strspn(hex, "0123456789abcdef") == algorithms[i].digits)
                        return 0;
                return error_set(e, -EINVAL,
                                 "the digest '%s' is not %zu hex digits in lower case behind '%s'", s,
                                 algorithms[i].digits, algorithms[i].prefix);
        }
        return error_set(e, -EINVAL, "the digest '%s' is neither of sha256 nor of sha512", s);
}

/* --- References ---------------------------------------------------------------------------------------- */

/* Cuts COPY into its parts, which RET then points into. */
static void split(char *copy, const char **registry, const char **repository, const char **tag,
                  const char **digest)
{
        char *at = strchr(copy, '@'), *slash, *colon;

        if (at) {
                *at = 0;
                *digest = at + 1;
        }
        slash = strrchr(copy, '/');
        colon = strchr(slash ?: copy, ':');
        if (colon) {
                *colon = 0;
                *tag = colon + 1;
        }
        *repository = copy;
        slash = strchr(copy, '/');
        if (!slash)
                return;
        *slash = 0;
        if (registry_is_host(copy)) {
                *registry = copy;
                *repository = slash + 1;
        } else
                *slash = '/';
}

static int copy_part(char **ret, const char *s)
{
        if (!s)
                return 0;
        *ret = strdup(s);
        return *ret ? 0 : -ENOMEM;
}

static int parse_parts(char *copy, RegistryReference *r, Error *e)
{
        const char *registry = NULL, *repository = NULL, *tag = NULL, *digest = NULL;

        if (strstr(copy, "://"))
                return error_set(e, -EINVAL, "it is a URL");
        split(copy, &registry, &repository, &tag, &digest);
        if (copy_part(&r->registry, registry) < 0 || copy_part(&r->repository, repository) < 0 ||
            copy_part(&r->tag, tag) < 0 || copy_part(&r->digest, digest) < 0)
                return error_oom(e);
        int q = r->registry ? check_host(r->registry, e) : 0;
        if (q >= 0)
                q = registry_repository_check(r->repository, e);
        if (q >= 0 && r->tag)
                q = check_tag(r->tag, e);
        if (q >= 0 && r->digest)
                q = registry_digest_check(r->digest, e);
        return q;
}

int registry_reference_parse(const char *s, RegistryReference *ret, Error *e)
{
        _cleanup_(registry_reference_done) RegistryReference r = {};
        _cleanup_error_ Error why = ERROR_NULL;
        const char *rest = startswith(s, "docker://") ?: s;

        if (strlen(rest) > REFERENCE_LENGTH_MAX)
                return error_set(e, -EINVAL, "An image reference of %zu characters is too long",
                                 strlen(rest));
        /* Escaped for messages first; such characters are refused below, as no part may contain them. */
        _cleanup_free_ char *shown = text_escape_for_terminal(s), *copy = text_escape_for_terminal(rest);
        if (!copy || !shown)
                return error_oom(e);
        int q = parse_parts(copy, &r, &why);
        if (q == -ENOMEM)
                return error_oom(e);
        if (q < 0) {
                q = error_set(e, q, "'%s' is not a reference to an image of a registry: %s", shown,
                              why.message);
                return error_hint(e, q, "Write " GRAMMAR ".");
        }
        *ret = r;
        r = (RegistryReference){};
        return 0;
}

int registry_reference_format(const RegistryReference *r, char **ret)
{
        return xasprintf(ret, "%s%s%s%s%s%s%s", r->registry ?: "", r->registry ? "/" : "", r->repository,
                         r->tag ? ":" : "", r->tag ?: "", r->digest ? "@" : "", r->digest ?: "");
}
