/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Converts names of registries and builders to names that the App Container specification allows.
 */

#include "schema/oci-internal.h"

static bool is_plain(char c)
{
        return is_lower(c) || is_digit(c);
}

static bool is_separator(char c)
{
        return strchr("-._~/", c) != NULL;
}

int oci_mangle_identifier(const char *s, char colon, char **ret)
{
        char *name = malloc(strlen(s) + 1);
        size_t n = 0;

        if (!name)
                return -ENOMEM;
        for (; *s; s++) {
                char c = *s == ':' ? colon : to_lower(*s);

                if (!is_plain(c) && !is_separator(c))
                        c = (*s & 0x80) ? 0 : '-';
                /* Identifiers must not begin with a separator or have an empty component. */
                if (c && (is_plain(c) || (n > 0 && !(c == '/' && name[n - 1] == '/'))))
                        name[n++] = c;
        }
        while (n > 0 && is_separator(name[n - 1]))
                n--;
        name[n] = 0;
        if (ac_identifier_check(name, NULL) < 0) {
                free(name);
                return -EINVAL;
        }
        *ret = name;
        return 0;
}

int oci_name_from_reference(const char *reference, char **ret_name, char **ret_version, Error *e)
{
        _cleanup_free_ char *copy = strndup(reference, strcspn(reference, "@")), *name = NULL,
                            *version = NULL, *quoted = NULL;

        if (!copy)
                return error_oom(e);
        char *slash = strrchr(copy, '/'), *colon = strchr(slash ?: copy, ':');
        if (colon) {
                *colon++ = 0;
                version = *colon ? strdup(colon) : NULL;
                if (*colon && !version)
                        return error_oom(e);
        }
        int r = oci_mangle_identifier(copy, '~', &name);
        if (r == -ENOMEM)
                return error_oom(e);
        if (r < 0) {
                quoted = quote_value(reference);
                return error_set(e, r, "%s is not a valid name of an image", quoted ?: "that");
        }
        *ret_name = TAKE_PTR(name);
        *ret_version = TAKE_PTR(version);
        return 0;
}

int oci_app_name_from_reference(const char *reference, char **ret)
{
        _cleanup_free_ char *name = NULL, *version = NULL;

        int r = oci_name_from_reference(reference, &name, &version, NULL);
        return r < 0 ? r : app_name_from_image_name(name, ret);
}

/* Components of the repository are in lower case; tags and digests need not be. */
bool oci_reference_is_likely(const char *s)
{
        static const char repository[] = "abcdefghijklmnopqrstuvwxyz0123456789._-/",
                          rest[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:@";
        const char *slash = strchr(s, '/'), *colon = strchr(s, ':'), *p = s;

        if (!is_plain(*s) || startswith(s, "sha256:") || startswith(s, "sha512:") ||
            startswith(s, "sha512-"))
                return false;
        /* HOST:PORT/ */
        if (slash && colon && colon < slash) {
                p = colon + 1 + strspn(colon + 1, "0123456789");
                if (p != slash || p == colon + 1)
                        return false;
                p++;
        }
        p += strspn(p, repository);
        if (p > s && p[-1] == '/')
                return false;
        return !*p || ((*p == ':' || *p == '@') && p[1] && !p[strspn(p, rest)]);
}

size_t oci_entrypoint_size(const PairList *annotations, size_t n)
{
        const char *value = pair_list_get(annotations, OCI_ENTRYPOINT_SIZE);
        uint64_t size;

        return value && parse_u64(value, &size) >= 0 && size <= n ? (size_t) size : n;
}
