/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Files of credentials, and the output of credential helpers: the first byte selects the parser. For every
 * input, messages are printable and do not contain secrets, and header values are a single line. */

#include "prepare/registry/registry-internal.h"
#include "prepare/transfer/transfer-internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *s)
{
        if (!s || !utf8_is_valid(s, strlen(s)))
                abort();
        for (const char *c = s; *c; c++)
                if ((unsigned char) *c < 0x20 || *c == 0x7f)
                        abort();
}

static void check_credentials(const Credentials *c)
{
        for (size_t i = 0; i < c->n; i++) {
                const Credential *x = &c->items[i];
                if (!x->host || !x->origin || (x->authorization && strpbrk(x->authorization, "\r\n")))
                        abort();
        }
}

static void fuzz_json(const char *text, size_t size)
{
        _cleanup_(credentials_done) Credentials c = {};
        _cleanup_error_ Error e = ERROR_NULL;

        if (credentials_parse_json(&c, 0, "auth.d/x.json", text, size, &e) < 0)
                check_text(e.message);
        check_credentials(&c);
}

/* Without what would be read from other files. */
static void fuzz_ini(const char *text, size_t size)
{
        _cleanup_(credentials_done) Credentials c = {};
        _cleanup_free_ char *copy = strndup(text, size);
        _cleanup_error_ Error e = ERROR_NULL;

        if (!copy || strstr(copy, "File") || strstr(copy, "Client"))
                return;
        if (credentials_parse_ini(&c, 0, "auth.d/x.conf", copy, &e) < 0)
                check_text(e.message);
        check_credentials(&c);
}

static void fuzz_helper(const char *text, size_t size)
{
        _cleanup_(registry_credentials_done) RegistryCredentials c = {};
        _cleanup_error_ Error e = ERROR_NULL;

        int r = credential_helper_parse(text, size, &c, &e);
        if (r < 0)
                check_text(e.message);
        if (r > 0 && !c.identity_token == !(c.user && c.password))
                abort();
        if (r <= 0 && (c.user || c.password || c.identity_token))
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const struct {
                char kind;
                void (*fuzz)(const char *text, size_t size);
        } kinds[] = {{'j', fuzz_json}, {'i', fuzz_ini}, {'h', fuzz_helper}};

        for (size_t i = 0; size > 0 && i < ELEMENTSOF(kinds); i++)
                if (data[0] == (uint8_t) kinds[i].kind)
                        kinds[i].fuzz((const char *) data + 1, size - 1);
        return 0;
}
