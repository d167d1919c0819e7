/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Credentials as rkt had them: JSON documents with "rktKind" of "auth" (domains; type "basic" or "oauth") or
 * "dockerAuth" (registries; always basic), "rktVersion" of "v1". Its third type, "aws", signs each request
 * with a scheme of one provider, and is refused by name.
 */

#include "schema/schema.h"

#include "prepare/transfer/transfer-internal.h"

typedef struct Document {
        const char *path;
        json_object *root;
        Error *error;
} Document;

static int document_error(const Document *d, const char *format, const char *what)
{
        _cleanup_free_ char *why = NULL, *shown = text_escape_for_terminal(what);

        if (!shown || xasprintf(&why, format, shown) < 0)
                return error_oom(d->error);
        int r = error_set(d->error, -EINVAL, "%s: %s", d->path, why);
        return error_hint(d->error, r, "See acnspawn-auth.d(5).");
}

static const char *member(json_object *o, const char *key)
{
        json_object *v = NULL;

        if (!json_object_is_type(o, json_type_object) || !json_object_object_get_ex(o, key, &v) ||
            !json_object_is_type(v, json_type_string))
                return NULL;
        return json_object_get_string(v);
}

static int read_hosts(const Document *d, const char *key, char ***ret)
{
        _cleanup_strv_free_ char **hosts = NULL;
        json_object *v = NULL;

        if (!json_object_object_get_ex(d->root, key, &v) || !json_object_is_type(v, json_type_array) ||
            json_object_array_length(v) == 0)
                return document_error(d, "\"%s\" has to be a list of hosts", key);
        for (size_t i = 0; i < json_object_array_length(v); i++) {
                json_object *host = json_object_array_get_idx(v, i);
                if (!json_object_is_type(host, json_type_string))
                        return document_error(d, "\"%s\" has to be a list of hosts", key);
                if (strv_extend(&hosts, json_object_get_string(host)) < 0)
                        return error_oom(d->error);
        }
        *ret = TAKE_PTR(hosts);
        return 0;
}

static int read_authorization(const Document *d, const char *type, char **ret)
{
        json_object *credentials = NULL;
        int r;

        (void) json_object_object_get_ex(d->root, "credentials", &credentials);
        if (streq(type, "basic")) {
                const char *user = member(credentials, "user"), *password = member(credentials, "password");
                if (!user || !password)
                        return document_error(d, "\"%s\" has to have \"user\" and \"password\"",
                                              "credentials");
                r = authorization_basic(user, password, ret);
        } else if (streq(type, "oauth")) {
                const char *token = member(credentials, "token");
                if (!token)
                        return document_error(d, "\"%s\" has to have a \"token\"", "credentials");
                r = authorization_bearer(token, ret);
        } else
                return document_error(d,
                                      "the \"type\" '%s' is not known here; there are 'basic' and 'oauth'",
                                      type);
        if (r == -EINVAL)
                return document_error(d, "\"%s\" have characters that they cannot have", "credentials");
        return r < 0 ? error_oom(d->error) : 0;
}

static int read_document(const Document *d, Credential *c, char ***ret_hosts)
{
        const char *kind = member(d->root, "rktKind"), *version = member(d->root, "rktVersion");
        const char *type = "basic";

        if (!kind || !version)
                return document_error(d, "\"%s\" and \"rktVersion\" have to be there", "rktKind");
        bool docker = streq(kind, "dockerAuth");
        if (!docker && !streq(kind, "auth"))
                return document_error(d, "the \"rktKind\" '%s' does not belong here", kind);
        if (!streq(version, "v1"))
                return document_error(d, "the \"rktVersion\" '%s' is not known", version);
        if (!docker)
                type = member(d->root, "type");
        if (!type)
                return document_error(d, "\"%s\" is missing", "type");
        int r = read_authorization(d, type, &c->authorization);
        return r < 0 ? r : read_hosts(d, docker ? "registries" : "domains", ret_hosts);
}

int credentials_parse_json(Credentials *c, size_t directory, const char *path, const char *text, size_t size,
                           Error *e)
{
        _cleanup_(credential_done) Credential template = {.directory = directory};
        _cleanup_strv_free_ char **hosts = NULL;
        _cleanup_json_ json_object *root = NULL;
        const char *host = "";

        int r = json_parse_strict(text, size, &root, NULL, e);
        if (r < 0)
                return error_prefix(e, r, "%s", path);
        Document d = {.path = path, .root = root, .error = e};
        if (!json_object_is_type(root, json_type_object))
                return document_error(&d, "%s has to be a JSON object", "the document");
        r = read_document(&d, &template, &hosts);
        if (r < 0)
                return r;
        r = credentials_add(c, &template, path, hosts, &host);
        if (r == -ENOMEM)
                return error_oom(e);
        if (r < 0)
                return document_error(
                                &d,
                                r == -EEXIST ? "there are credentials for '%s' in this directory already"
                                             : "'%s' is not a HOST or HOST:PORT",
                                host);
        return 0;
}
