/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Text about registries, from users, administrators and registries: the first byte selects the parser.
 * Parsers must not read beyond the text, and the parsed values must have their declared form. */

#include "prepare/registry/registry-internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *s)
{
        if (!utf8_is_valid(s, strlen(s)))
                abort();
        for (const char *c = s; *c; c++)
                if ((unsigned char) *c < 0x20 || *c == 0x7f)
                        abort();
}

static void fuzz_reference(const char *text, size_t size)
{
        _cleanup_(registry_reference_done) RegistryReference r = {}, again = {};
        _cleanup_free_ char *copy = strndup(text, size), *formatted = NULL;
        _cleanup_error_ Error e = ERROR_NULL;

        if (!copy)
                return;
        if (registry_reference_parse(copy, &r, &e) < 0) {
                check_text(e.message);
                return;
        }
        /* What is written out means the same. */
        if (registry_reference_format(&r, &formatted) < 0)
                return;
        if (registry_reference_parse(formatted, &again, NULL) < 0 ||
            !streq_ptr(r.registry, again.registry) || !streq(r.repository, again.repository) ||
            !streq_ptr(r.tag, again.tag) || !streq_ptr(r.digest, again.digest) ||
            strpbrk(formatted, " %?#\\\"<>"))
                abort();
}

static void fuzz_challenge(const char *text, size_t size)
{
        _cleanup_(registry_challenge_done) RegistryChallenge c = {};
        _cleanup_free_ char *copy = strndup(text, size);

        if (!copy || registry_challenge_parse(copy, &c, NULL) < 0)
                return;
        if (!c.basic && !c.bearer && !c.other)
                abort();
        if (c.realm && (!c.bearer || !utf8_is_valid(c.realm, strlen(c.realm))))
                abort();
}

static void fuzz_reply(const char *text, size_t size)
{
        _cleanup_free_ char *token = NULL, *shown = NULL, *code = NULL;
        uint64_t seconds;

        if (registry_token_parse(text, size, &token, &seconds, NULL) >= 0 &&
            (strpbrk(token, " \t\r\n\"") || seconds < 60 || seconds > 3600))
                abort();
        if (registry_error_parse(text, size, &shown, &code) > 0)
                check_text(shown);
}

static void fuzz_credentials(const char *text, size_t size)
{
        _cleanup_(registry_credentials_done) RegistryCredentials c = {};
        _cleanup_(credential_helper_done) CredentialHelper helper = {};
        _cleanup_error_ Error e = ERROR_NULL;

        int r = auth_file_find(text, size, "auth.json", "example.com:5000", "team/app", &c, &helper, &e);
        if (r < 0)
                check_text(e.message);
        if ((r > 0) != (c.origin != NULL))
                abort();
}

static void fuzz_conf(const char *text, size_t size)
{
        _cleanup_(registries_conf_done) RegistriesConf c = {};
        _cleanup_(registry_reference_done) RegistryReference r = {};
        _cleanup_(registry_places_done) RegistryPlaces p = {};
        _cleanup_error_ Error e = ERROR_NULL;

        if (registries_conf_add(&c, text, size, "registries.conf", NULL, &e) < 0) {
                check_text(e.message);
                return;
        }
        if (registry_reference_parse("app", &r, NULL) >= 0 && registries_conf_complete(&c, &r, NULL) >= 0 &&
            registries_conf_places(&c, &r, &p, NULL) >= 0)
                for (size_t i = 0; i < p.n; i++)
                        if (registry_repository_check(p.items[i].repository, NULL) < 0)
                                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const struct {
                char kind;
                void (*fuzz)(const char *text, size_t size);
        } kinds[] = {{'r', fuzz_reference},
                     {'c', fuzz_challenge},
                     {'t', fuzz_reply},
                     {'a', fuzz_credentials},
                     {'f', fuzz_conf}};

        for (size_t i = 0; size > 0 && i < ELEMENTSOF(kinds); i++)
                if (data[0] == (uint8_t) kinds[i].kind)
                        kinds[i].fuzz((const char *) data + 1, size - 1);
        return 0;
}
