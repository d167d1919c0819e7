/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The WWW-Authenticate header of a reply with status 401 (RFC 9110, section 11.6.1): a list of challenges,
 * each a scheme with parameters or a token. The commas between challenges and between parameters are the
 * same, so what follows a comma is a parameter if there is a "=" behind its first word, else a scheme.
 *
 * Of the bearer challenge the realm, service and scope are kept: they say where to get a token, and for
 * what. They are untrusted; they are checked and encoded where they are used.
 */

#include "prepare/registry/registry-internal.h"

#define SCHEMES_MAX 16U

void registry_challenge_done(RegistryChallenge *c)
{
        free(c->realm);
        free(c->service);
        free(c->scope);
        free(c->other);
        *c = (RegistryChallenge){};
}

/* A character of a token in the sense of HTTP. */
static bool is_token(char c)
{
        return c &&
               strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~", c);
}

static const char *skip(const char *s, const char *characters)
{
        return s + strspn(s, characters);
}

static int read_token(const char **s, char **ret)
{
        size_t n = 0;

        while (is_token((*s)[n]))
                n++;
        if (n == 0)
                return -EBADMSG;
        *ret = strndup(*s, n);
        *s += n;
        return *ret ? 0 : -ENOMEM;
}

static int read_quoted(const char **s, char **ret)
{
        _cleanup_text_ Text t = {};
        const char *p = *s + 1;

        for (; *p != '"'; p++) {
                if (*p == '\\')
                        p++;
                if (!*p || ((unsigned char) *p < 0x20 && *p != '\t') || *p == 0x7f)
                        return -EBADMSG;
                text_add_bytes(&t, p, 1);
        }
        *s = p + 1;
        text_add_bytes(&t, "", 0);
        return text_take(&t, ret, NULL);
}

/* Duplicate parameters are ambiguous, and refused. */
static int keep(RegistryChallenge *c, const char *name, char **value)
{
        char **place = strcasecmp(name, "realm") == 0     ? &c->realm
                       : strcasecmp(name, "service") == 0 ? &c->service
                       : strcasecmp(name, "scope") == 0   ? &c->scope
                                                          : NULL;

        if (!place)
                return 0;
        if (*place)
                return -EBADMSG;
        *place = TAKE_PTR(*value);
        return 0;
}

/* Reads "= value" of the parameter NAME. BEARER: where it is stored, or NULL. */
static int read_parameter(const char **s, const char *name, RegistryChallenge *bearer)
{
        _cleanup_free_ char *value = NULL;

        *s = skip(*s, " \t");
        if (**s != '=')
                return -EBADMSG;
        *s = skip(*s + 1, " \t");
        int r = **s == '"' ? read_quoted(s, &value) : read_token(s, &value);
        if (r < 0)
                return r;
        if (!utf8_is_valid(value, strlen(value)))
                return -EBADMSG;
        return bearer ? keep(bearer, name, &value) : 0;
}

/* Reads the separator between two elements of a list, or the end. */
static int read_separator(const char **s)
{
        *s = skip(*s, " \t");
        if (**s && **s != ',')
                return -EBADMSG;
        *s = skip(*s, " \t,");
        return 0;
}

/* Records SCHEME; *RET: its parameters have to be stored. */
static void note_scheme(RegistryChallenge *c, char **scheme, bool *ret)
{
        *ret = false;
        if (strcasecmp(*scheme, "Bearer") == 0) {
                /* Of several the first is used. */
                *ret = !c->bearer;
                c->bearer = true;
        } else if (strcasecmp(*scheme, "Basic") == 0)
                c->basic = true;
        else if (!c->other)
                c->other = TAKE_PTR(*scheme);
}

/* The parameters behind a scheme. Ends at the next scheme, which is left in *RET_WORD, or at the end. */
static int read_parameters(const char **s, RegistryChallenge *bearer, char **ret_word)
{
        for (bool first = true; **s; first = false) {
                _cleanup_free_ char *name = NULL;

                int r = read_token(s, &name);
                if (r < 0)
                        return r;
                if (*skip(*s, " \t") != '=') {
                        if (first)
                                return -EBADMSG;
                        *ret_word = TAKE_PTR(name);
                        return 0;
                }
                r = read_parameter(s, name, bearer);
                if (r >= 0)
                        r = read_separator(s);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* A token instead of parameters, as Negotiate has it: letters, digits and some signs, then "=". */
static bool skip_token68(const char **s)
{
        const char *p = *s;

        while (is_token(*p) || *p == '/')
                p++;
        const char *end = skip(p, "=");
        const char *next = skip(end, " \t");
        if (p == *s || (*next && *next != ',') || (end - p > 2))
                return false;
        *s = next;
        return true;
}

static int parse(const char *s, RegistryChallenge *c)
{
        _cleanup_free_ char *scheme = NULL;

        s = skip(s, " \t,");
        int r = read_token(&s, &scheme);
        for (unsigned n = 0; r >= 0 && scheme; n++) {
                _cleanup_free_ char *next = NULL;
                bool kept;

                if (n == SCHEMES_MAX)
                        return -EBADMSG;
                note_scheme(c, &scheme, &kept);
                bool separated = *s != ' ';
                s = skip(s, " \t");
                if (separated || *s == ',' || (*s && skip_token68(&s))) {
                        r = read_separator(&s);
                        if (r >= 0 && *s)
                                r = read_token(&s, &next);
                } else
                        r = read_parameters(&s, kept ? c : NULL, &next);
                free(scheme);
                scheme = TAKE_PTR(next);
        }
        return r;
}

int registry_challenge_parse(const char *s, RegistryChallenge *ret, Error *e)
{
        _cleanup_(registry_challenge_done) RegistryChallenge c = {};

        int r = strlen(s) > CHALLENGE_SIZE_MAX ? -EBADMSG : parse(s, &c);
        if (r == -ENOMEM)
                return error_oom(e);
        if (r < 0)
                return error_set(e, r, "the WWW-Authenticate header of its reply is not valid");
        *ret = c;
        c = (RegistryChallenge){};
        return 0;
}
