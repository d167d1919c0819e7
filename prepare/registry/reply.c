/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Documents in the replies of registries and of their token services: tokens, and errors such as
 *
 *     {"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown", "detail": …}]}
 *
 * All of it is untrusted. A token becomes part of a header, so it must be one word; texts become part of
 * messages, so they are escaped and truncated.
 */

#include "prepare/registry/registry-internal.h"

#define TOKEN_LENGTH_MAX 32768U
/* A token without a lifetime has 60 seconds, which is also the minimum; the maximum is one hour. */
#define TOKEN_SECONDS_DEFAULT 60
#define TOKEN_SECONDS_MAX 3600
#define MESSAGE_LENGTH_MAX 300U
#define ERRORS_SHOWN_MAX 3U

static const char *get_string(json_object *o, const char *key)
{
        json_object *v;

        if (!json_object_is_type(o, json_type_object) || !json_object_object_get_ex(o, key, &v) ||
            !json_object_is_type(v, json_type_string))
                return NULL;
        return isempty(json_object_get_string(v)) ? NULL : json_object_get_string(v);
}

/* --- Tokens -------------------------------------------------------------------------------------------- */

/* The characters of a bearer token (RFC 6750, section 2.1). */
static bool token_is_valid(const char *s)
{
        size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~+/");

        return n > 0 && n <= TOKEN_LENGTH_MAX && s[n + strspn(s + n, "=")] == 0 && strlen(s) <= n + 2;
}

static uint64_t token_life(json_object *reply)
{
        json_object *v;

        if (!json_object_object_get_ex(reply, "expires_in", &v) || !json_object_is_type(v, json_type_int))
                return TOKEN_SECONDS_DEFAULT;
        int64_t seconds = json_object_get_int64(v);
        return (uint64_t) MIN(MAX(seconds, (int64_t) TOKEN_SECONDS_DEFAULT), (int64_t) TOKEN_SECONDS_MAX);
}

int registry_token_parse(const char *text, size_t size, char **ret, uint64_t *ret_seconds, Error *e)
{
        _cleanup_json_ json_object *reply = NULL;
        _cleanup_error_ Error why = ERROR_NULL;

        int r = json_parse_strict(text, size, &reply, NULL, &why);
        if (r == -ENOMEM)
                return error_oom(e);
        if (r < 0)
                return error_set(e, -EBADMSG, "its reply is not a token: %s", why.message ?: strerror(-r));
        const char *token = get_string(reply, "token") ?: get_string(reply, "access_token");
        if (!token)
                return error_set(e, -EBADMSG, "its reply has no token");
        if (!token_is_valid(token))
                return error_set(e, -EBADMSG,
                                 "its reply has a token with characters that tokens do not have");
        char *copy = strdup(token);
        if (!copy)
                return error_oom(e);
        *ret = copy;
        *ret_seconds = token_life(reply);
        return 0;
}

/* --- Errors -------------------------------------------------------------------------------------------- */

static bool code_is_valid(const char *s)
{
        size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");

        return n > 0 && n <= 64 && s[n] == 0;
}

/* S at most MESSAGE_LENGTH_MAX bytes long, cut between characters. */
static void add_cut(Text *t, const char *s)
{
        size_t n = strnlen(s, MESSAGE_LENGTH_MAX);

        while (n > 0 && ((unsigned char) s[n] & 0xc0) == 0x80)
                n--;
        text_add_bytes(t, s, n);
        if (s[n])
                text_add(t, "…");
}

static void add_error(Text *t, json_object *error)
{
        const char *code = get_string(error, "code"), *message = get_string(error, "message");

        if (!code && !message)
                return;
        if (t->size > 0)
                text_add(t, "; ");
        if (code)
                add_cut(t, code);
        if (code && message)
                text_add(t, ": ");
        if (message)
                add_cut(t, message);
}

int registry_error_parse(const char *text, size_t size, char **ret_text, char **ret_code)
{
        _cleanup_json_ json_object *reply = NULL;
        _cleanup_free_ char *all = NULL, *shown = NULL, *code = NULL;
        _cleanup_text_ Text t = {};
        json_object *errors;

        if (json_parse_strict(text, size, &reply, NULL, NULL) < 0 ||
            !json_object_is_type(reply, json_type_object) ||
            !json_object_object_get_ex(reply, "errors", &errors) ||
            !json_object_is_type(errors, json_type_array))
                return 0;
        for (size_t i = 0; i < json_object_array_length(errors) && i < ERRORS_SHOWN_MAX; i++) {
                json_object *error = json_object_array_get_idx(errors, i);
                const char *c = get_string(error, "code");

                add_error(&t, error);
                if (c && !code && code_is_valid(c) && !(code = strdup(c)))
                        return 0;
        }
        if (t.size == 0 || text_take(&t, &all, NULL) < 0)
                return 0;
        shown = text_escape_for_terminal(all);
        if (!shown)
                return 0;
        *ret_text = TAKE_PTR(shown);
        *ret_code = TAKE_PTR(code);
        return 1;
}

const char *registry_error_hint(const char *code, unsigned status)
{
        static const struct {
                const char *code; /* NULL: of any reply with that status */
                unsigned status;
                const char *hint;
        } hints[] = {
                        {"MANIFEST_UNKNOWN", 0,
                         "Check the spelling of the tag, and which tags the repository has."},
                        {"NAME_UNKNOWN", 0,
                         "Check the spelling of the repository; some registries hide existing repositories "
                         "from clients without credentials."},
                        {"NAME_INVALID", 0, "The registry does not accept this name of a repository."},
                        {"BLOB_UNKNOWN", 0,
                         "The registry lacks a part of the image; it has to be pushed again."},
                        {"TOOMANYREQUESTS", 0,
                         "Wait, or give credentials: registries have higher limits for authenticated "
                         "clients."},
                        {"DENIED", 0,
                         "The credentials used, or none at all, do not allow reading this repository."},
                        {NULL, 401,
                         "Give credentials in auth.d or an auth.json file; see acnspawn-registries(5). If "
                         "none should be needed, check the spelling of the repository."},
                        {NULL, 403,
                         "The credentials used, or none at all, do not allow reading this repository."},
                        {NULL, 404,
                         "Check the spelling of repository and tag. If the host is not a registry itself, "
                         "registries.conf can say where it has its own; see acnspawn-registries(5)."},
                        {NULL, 429,
                         "Wait, or give credentials: registries have higher limits for authenticated "
                         "clients."},
        };

        for (size_t i = 0; i < ELEMENTSOF(hints); i++)
                if (hints[i].code ? streq_ptr(code, hints[i].code) : hints[i].status == status)
                        return hints[i].hint;
        return NULL;
}
