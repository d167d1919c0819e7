/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Parses a user's reference to an image.
 *
 * Most kinds are recognized by a prefix. A word without a prefix is a file if it cannot be anything else (an
 * absolute path, ./ or ../ in front, .aci at its end), or if it contains a slash and such a file exists;
 * otherwise it is the name or the ID of an image. A file that would be taken for a name has to be written
 * with "./", so that a file in the current directory never hides an image's name.
 */

#include <strings.h>
#include <sys/stat.h>

#include "library/libcurl.h"
#include "prepare/fetch/fetch.h"
#include "schema/oci.h"

static const struct {
        const char *prefix;
        ReferenceKind kind;
        bool whole;   /* the prefix is part of the body */
        bool has_tag; /* :TAG may follow */
        const char *example;
} prefixes[] = {
                {"https://", REFERENCE_URL, true, false, "https://example.com/app.aci"},
                {"http://", REFERENCE_URL, true, false, "http://example.com/app.aci"},
                {"docker://", REFERENCE_DOCKER, false, false, "docker://example.com/app:1.0"},
                {"oci:", REFERENCE_OCI, false, true, "oci:DIRECTORY:TAG"},
                {"docker-archive:", REFERENCE_DOCKER_ARCHIVE, false, true, "docker-archive:FILE"},
                {"oci-archive:", REFERENCE_OCI_ARCHIVE, false, true, "oci-archive:FILE:TAG"},
};

/* Storage of other tools, which only those tools should read. */
static const struct {
        const char *prefix;
        const char *what;
} foreign[] = {
                {"containers-storage:", "the storage of podman, buildah and CRI-O"},
                {"docker-daemon:", "the storage of the Docker daemon"},
                {"containerd:", "the storage of containerd"},
                {"dir:", "a directory written by skopeo"},
                {"ostree:", "an OSTree repository"},
                {"sif:", "an image of Singularity"},
};

void reference_done(Reference *r)
{
        free(r->body);
        free(r->tag);
        *r = (Reference){};
}

static bool is_path(const char *s)
{
        struct stat st;

        if (s[0] == '/' || startswith(s, "./") || startswith(s, "../") || streq(s, ".") || streq(s, "..") ||
            endswith(s, ".aci"))
                return true;
        return strchr(s, '/') && stat(s, &st) >= 0 && !S_ISDIR(st.st_mode);
}

/* Whether S begins with a URL scheme such as "gopher://…". */
static bool has_scheme(const char *s)
{
        size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.");

        return n > 0 && startswith(s + n, "://");
}

static int set_body(Reference *r, const char *body, const char *tag, Error *e)
{
        r->body = tag ? strndup(body, (size_t) (tag - body)) : strdup(body);
        r->tag = tag ? strdup(tag + 1) : NULL;
        return !r->body || (tag && !r->tag) ? error_oom(e) : 0;
}

static int parse_prefixed(size_t i, const char *s, Reference *ret, Error *e)
{
        const char *body = s + strlen(prefixes[i].prefix);
        /* The first colon, as in other tools: the tag may contain further ones. */
        const char *tag = prefixes[i].has_tag ? strchr(body, ':') : NULL;
        _cleanup_free_ char *shown = text_escape_for_terminal(s);

        if (!shown)
                return error_oom(e);
        if (!*body || tag == body || (tag && !tag[1])) {
                int r = error_set(e, -EINVAL, "The image reference '%s' is not complete", shown);
                return error_hint(e, r, "Write it like '%s'.", prefixes[i].example);
        }
        ret->kind = prefixes[i].kind;
        int r = ret->kind == REFERENCE_URL ? library_load(&curl_library, e) : 0; /* takes URLs apart */
        if (r < 0)
                return r;
        return set_body(ret, prefixes[i].whole ? s : body, tag, e);
}

static int unknown_scheme(const char *s, Error *e)
{
        _cleanup_free_ char *shown = NULL;
        const char *path = startswith(s, "file://");

        int k = library_load(&curl_library, e);
        if (k < 0)
                return k;
        shown = url_for_display(s);

        int r = error_set(e, -EPROTONOSUPPORT,
                          "Images cannot be fetched from '%s': only https URLs are supported", shown ?: "?");
        return error_hint(e, r,
                          path ? "Give the path of the file alone."
                               : "Images of registries are docker://, layouts and archives oci:, "
                                 "oci-archive: and docker-archive:.");
}

static int check_foreign(const char *s, Error *e)
{
        for (size_t i = 0; i < ELEMENTSOF(foreign); i++) {
                const char *rest = startswith(s, foreign[i].prefix);
                _cleanup_free_ char *shown = text_escape_for_terminal(s);

                if (isempty(rest))
                        continue;
                int r = error_set(e, -EPROTONOSUPPORT, "Images cannot be fetched from '%s': that is %s",
                                  shown ?: "?", foreign[i].what);
                if (streq(foreign[i].prefix, "containerd:"))
                        return error_hint(e, r,
                                          "Export it first: ctr images export FILE.tar '%s', then 'acnspawn "
                                          "fetch oci-archive:FILE.tar'.",
                                          shown ? shown + strlen("containerd:") : "?");
                return error_hint(e, r,
                                  "Copy it first: skopeo copy '%s' oci:DIRECTORY:TAG, then 'acnspawn fetch "
                                  "oci:DIRECTORY:TAG'.",
                                  shown ?: "?");
        }
        return 1;
}

int reference_app_name(const char *s, char **ret)
{
        _cleanup_reference_ Reference r = {};

        int k = reference_parse(s, &r, NULL);
        if (k < 0)
                return k == -ENOMEM ? k : -EINVAL;
        if (r.kind == REFERENCE_DOCKER)
                return oci_app_name_from_reference(r.body, ret);
        /* After a path there may be only a tag. */
        return r.tag && strpbrk(r.tag, "/:") && r.tag[0] != '@' ? oci_app_name_from_reference(r.tag, ret)
                                                                : -EINVAL;
}

int reference_parse(const char *s, Reference *ret, Error *e)
{
        _cleanup_reference_ Reference n = {};
        int r = 1;

        if (isempty(s)) {
                r = error_set(e, -EINVAL, "The name of the image is empty");
                return error_hint(e, r,
                                  "Images are named as in 'example.com/app:1.0'; a variable in a script may "
                                  "be unset.");
        }
        for (size_t i = 0; r > 0 && i < ELEMENTSOF(prefixes); i++)
                if (strncasecmp(s, prefixes[i].prefix, strlen(prefixes[i].prefix)) == 0)
                        r = parse_prefixed(i, s, &n, e);
        if (r > 0)
                r = check_foreign(s, e);
        if (r > 0 && has_scheme(s))
                r = unknown_scheme(s, e);
        if (r > 0) {
                n.kind = streq(s, "-") ? REFERENCE_STANDARD_INPUT
                         : is_path(s)  ? REFERENCE_FILE
                                       : REFERENCE_IMAGE;
                r = set_body(&n, s, NULL, e);
        }
        if (r < 0)
                return r;
        *ret = n;
        n = (Reference){};
        return 0;
}

char *reference_for_display(const char *s)
{
        _cleanup_reference_ Reference r = {};

        if (streq(s, "-"))
                return strdup("standard input");
        int k = reference_parse(s, &r, NULL);
        if (k == -ENOMEM)
                return NULL;
        return k >= 0 && r.kind == REFERENCE_URL ? url_for_display(s) : text_escape_for_terminal(s);
}

int reference_make_absolute(const char *s, char **ret)
{
        _cleanup_reference_ Reference r = {};
        _cleanup_free_ char *path = NULL;
        const char *prefix = "";

        int k = reference_parse(s, &r, NULL);
        if (k == -ENOMEM)
                return k;
        bool local = k >= 0 && (r.kind == REFERENCE_FILE || r.kind == REFERENCE_OCI ||
                                r.kind == REFERENCE_OCI_ARCHIVE || r.kind == REFERENCE_DOCKER_ARCHIVE);
        if (!local)
                return xasprintf(ret, "%s", s);
        for (size_t i = 0; i < ELEMENTSOF(prefixes); i++)
                if (prefixes[i].kind == r.kind)
                        prefix = prefixes[i].prefix;
        k = path_make_absolute(r.body, &path);
        return k < 0 ? k : xasprintf(ret, "%s%s%s%s", prefix, path, r.tag ? ":" : "", r.tag ?: "");
}
