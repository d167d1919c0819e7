/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Certificates of one registry, as podman and docker have them in a directory with the registry's name:
 *
 *     certs.d/HOST[:PORT]/ *.crt                authorities that are trusted for it, besides the host's
 *                          NAME.cert, NAME.key  client certificate, if it requests one
 *
 * The first default location with such a directory is used, and the others are ignored. A directory without
 * read permission is ignored.
 */

#include "prepare/registry/registry-internal.h"

#define AUTHORITIES_SIZE_MAX (1024U * 1024U)

void registry_certificates_done(RegistryCertificates *c)
{
        free(c->directory);
        free(c->authorities);
        free(c->certificate);
        free(c->key);
        *c = (RegistryCertificates){};
}

/* --- One directory ------------------------------------------------------------------------------------- */

static int add_authorities(int dir_fd, const char *dir, const char *name, Text *t, Error *e)
{
        _cleanup_free_ char *text = NULL;
        size_t size;

        int r = read_file_at(dir_fd, name, AUTHORITIES_SIZE_MAX, &text, &size);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read the certificate %s/%s", dir, name);
        text_add_bytes(t, text, size);
        text_add(t, "\n");
        if (t->failed)
                return error_oom(e);
        if (t->size > AUTHORITIES_SIZE_MAX)
                return error_set(e, -EFBIG, "The certificates in %s have more than %u bytes", dir,
                                 AUTHORITIES_SIZE_MAX);
        return 0;
}

/* NAME with the other suffix has to exist as well. */
static int need_partner(char *const *names, const char *dir, const char *name, const char *ending,
                        const char *other, Error *e)
{
        _cleanup_free_ char *partner = NULL;

        if (xasprintf(&partner, "%.*s%s", (int) (strlen(name) - strlen(ending)), name, other) < 0)
                return error_oom(e);
        if (strv_contains(names, partner))
                return 0;
        int r = error_set(e, -ENOENT, "There is %s/%s, and no %s with it", dir, name, partner);
        return error_hint(e, r, "A client certificate consists of the two; authorities are *.crt.");
}

/* Of several the first is used: it is not known in advance which one a registry accepts. */
static int take_pair(RegistryCertificates *c, const char *name, Error *e)
{
        int n = (int) (strlen(name) - strlen(".cert"));

        if (c->certificate)
                return 0;
        return xasprintf(&c->certificate, "%s/%s", c->directory, name) < 0 ||
                                               xasprintf(&c->key, "%s/%.*s.key", c->directory, n, name) < 0
                               ? error_oom(e)
                               : 0;
}

static int read_directory(int fd, RegistryCertificates *c, Error *e)
{
        _cleanup_strv_free_ char **names = NULL;
        _cleanup_text_ Text t = {};

        int r = list_names(fd, &names);
        if (r < 0)
                return error_set_errno(e, r, "Cannot list %s", c->directory);
        strv_sort(names);
        STRV_FOREACH (name, names) {
                if (endswith(*name, ".crt"))
                        r = add_authorities(fd, c->directory, *name, &t, e);
                else if (endswith(*name, ".cert")) {
                        r = need_partner(names, c->directory, *name, ".cert", ".key", e);
                        if (r >= 0)
                                r = take_pair(c, *name, e);
                } else if (endswith(*name, ".key"))
                        r = need_partner(names, c->directory, *name, ".key", ".cert", e);
                if (r < 0)
                        return r;
        }
        return t.size > 0 && text_take(&t, &c->authorities, NULL) < 0 ? error_oom(e) : 0;
}

/* --- The usual places ---------------------------------------------------------------------------------- */

/* 1: it is there. */
static int try_directory(const char *base, const char *below, const char *host, RegistryCertificates *ret,
                         Error *e)
{
        _cleanup_(registry_certificates_done) RegistryCertificates c = {};
        _cleanup_close_ int fd = -EBADF;

        if (isempty(base) || !path_is_absolute(base))
                return 0;
        if (xasprintf(&c.directory, "%s/%s/%s", base, below, host) < 0)
                return error_oom(e);
        fd = open(c.directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
                return 0;
        if (fd < 0)
                return error_set_errno(e, errno, "Cannot open %s", c.directory);
        int r = read_directory(fd, &c, e);
        if (r < 0)
                return r;
        *ret = TAKE_GENERIC(c, RegistryCertificates, (RegistryCertificates){});
        return 1;
}

int registry_certificates_find(const char *host, RegistryCertificates *ret, Error *e)
{
        const char *home = secure_getenv("HOME"), *config = secure_getenv("XDG_CONFIG_HOME");
        const struct {
                const char *base, *below;
        } places[] = {
                        {isempty(config) ? home : config,
                         isempty(config) ? ".config/containers/certs.d" : "containers/certs.d"},
                        {"/etc/containers", "certs.d"},
                        {"/etc/docker", "certs.d"},
        };

        for (size_t i = 0; i < ELEMENTSOF(places); i++) {
                int r = try_directory(places[i].base, places[i].below, host, ret, e);
                if (r != 0)
                        return r;
        }
        return 0;
}
