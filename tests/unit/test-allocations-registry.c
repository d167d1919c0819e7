/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Each allocation fails once, in what prepare/ reads: references, files of registries and of credentials, replies, and
 * pages of discovery. See allocations.h. */

#include "prepare/discovery/discovery.h"
#include "prepare/fetch/fetch-internal.h"
#include "prepare/registry/registry-internal.h"
#include "prepare/transfer/transfer-internal.h"
#include "prepare/trust/trust-internal.h"
#include "schema/schema-internal.h"
#include "tests/unit/allocations.h"
#include "tests/unit/schema.h"

static void add_pairs(Text *t, const PairList *l)
{
        for (size_t i = 0; i < l->n; i++)
                text_addf(t, "%s=%s ", l->items[i].name, l->items[i].value);
}

/* --- References ---------------------------------------------------------------------------------------- */

static int parse_image_name(void *userdata, Text *result, Error *e)
{
        _cleanup_free_ char *text = NULL;
        ImageName n = {};

        int r = image_name_parse(userdata, &n, e);
        if (r >= 0)
                r = without_message(image_name_format(n.name, &n.labels, &text), e);
        text_add(result, text ?: "");
        image_name_done(&n);
        return r;
}

INPUT(image_name, parse_image_name, "example.com/app:1.0,arch=amd64,os=linux")
INVALID_INPUT(image_name_with_a_mistake, parse_image_name, "example.com/app:1.0,arch")

static int parse_reference(void *userdata, Text *result, Error *e)
{
        _cleanup_reference_ Reference reference = {};
        _cleanup_free_ char *app = NULL, *shown = NULL, *absolute = NULL;

        int r = reference_parse(userdata, &reference, e);
        if (r >= 0 && reference_app_name(userdata, &app) == -ENOMEM)
                r = error_oom(e);
        if (r >= 0)
                r = without_message(reference_make_absolute(userdata, &absolute), e);
        shown = reference_for_display(userdata);
        text_addf(result, "%d %s %s %s %s %s", reference.kind, reference.body ?: "", reference.tag ?: "",
                  app ?: "", shown ?: "", absolute ?: "");
        result->failed |= !shown;
        return r;
}

INPUT(reference_docker, parse_reference, "docker://example.com:5000/team/app:1.0")
INPUT(reference_layout, parse_reference, "oci:some/dir:example.com/team/app:2")
INPUT(reference_file, parse_reference, "./app.aci")
INPUT(reference_url, parse_reference, "https://user:secret@example.com/a.aci")
INPUT(reference_name, parse_reference, "example.com/app:1.0")
INVALID_INPUT(reference_with_a_mistake, parse_reference, "docker://")

static int parse_registry_reference(void *userdata, Text *result, Error *e)
{
        _cleanup_(registry_reference_done) RegistryReference reference = {};
        _cleanup_free_ char *text = NULL;

        int r = registry_reference_parse(userdata, &reference, e);
        if (r >= 0)
                r = without_message(registry_reference_format(&reference, &text), e);
        text_add(result, text ?: "");
        return r;
}

INPUT(registry_reference, parse_registry_reference, "docker://Example.com:5000/team/app:1.0@sha256:" HEX64)
INVALID_INPUT(registry_reference_with_a_mistake, parse_registry_reference, "example.com/team//app")

/* --- Registries ---------------------------------------------------------------------------------------- */

static int parse_toml(void *userdata, Text *result, Error *e)
{
        _cleanup_json_ json_object *o = NULL;
        _cleanup_free_ char *text = NULL;
        const char *s = userdata;

        int r = toml_parse(s, strlen(s), "x.conf", &o, e);
        if (r >= 0)
                r = without_message(json_format(o, &text), e);
        text_add(result, text ?: "");
        return r;
}

INPUT(toml, parse_toml,
      "[a.\"b\"]\nc = 1\n[[d]]\n[d.e]\nf = { g = [ [ 1, ], \"x\\u006d\" ], h = 'y' }\n[[d]]\ni = true\n")
INVALID_INPUT(toml_with_a_key_twice, parse_toml, "a = 1\na = 2\n")
INVALID_INPUT(toml_that_is_cut, parse_toml, "a = [ 1, \"b")

#define REGISTRIES                                                                                                         \
        "unqualified-search-registries = [\"example.com\", \"b.example.com\"]\n[[registry]]\nprefix = \"*.example.com\"\n" \
        "insecure = false\nmirror = [{location = \"m.example.com/x\", insecure = true},\n"                                 \
        "          {location = \"n.example.com\", pull-from-mirror = \"tag-only\"}]\n"                                     \
        "[[registry]]\nlocation = \"example.com/library\"\n[[registry.mirror]]\nlocation = \"k.example.com/y\"\n"          \
        "[aliases]\n\"app\" = \"example.com/library/app\"\n"

static int find_places(void *userdata, Text *result, Error *e)
{
        _cleanup_(registries_conf_done) RegistriesConf c = {};
        _cleanup_(registry_reference_done) RegistryReference reference = {};
        _cleanup_(registry_places_done) RegistryPlaces places = {};
        const char *s = userdata;

        int r = registries_conf_add(&c, s, strlen(s), "registries.conf", NULL, e);
        if (r >= 0)
                r = registries_conf_add(&c, s, strlen(s), "again.conf", NULL, e);
        if (r >= 0)
                r = registry_reference_parse("app", &reference, e);
        if (r >= 0)
                r = registries_conf_complete(&c, &reference, e);
        if (r >= 0)
                r = registries_conf_places(&c, &reference, &places, e);
        for (size_t i = 0; r >= 0 && i < places.n; i++)
                text_addf(result, "%s/%s %s\n", places.items[i].host, places.items[i].repository,
                          places.items[i].insecure_by ?: "");
        add_list(result, c.search);
        add_pairs(result, &c.aliases);
        return r;
}

INPUT(registries_conf, find_places, REGISTRIES)
INVALID_INPUT(registries_conf_with_a_mistake, find_places, "[[registry]]\nprefix = \"http://x\"\n")

static int find_credentials(void *userdata, Text *result, Error *e)
{
        _cleanup_(registry_credentials_done) RegistryCredentials c = {};
        _cleanup_(credential_helper_done) CredentialHelper helper = {};
        const char *s = userdata;

        int r = auth_file_find(s, strlen(s), "auth.json", "example.com:5000", "team/app", &c, &helper, e);
        text_addf(result, "%d %s %s %s %s %s", r, c.user ?: "", c.password ?: "", c.identity_token ?: "",
                  helper.name ?: "", helper.server ?: "");
        return r;
}

INPUT(auth_file, find_credentials,
      "{\"auths\":{\"example.com:5000/team\":{\"auth\":\"YTpi\"},\"example.com:5000\":{\"username\":\"a\"}}}")
INPUT(auth_file_with_a_token, find_credentials,
      "{\"auths\":{\"https://example.com:5000/v1/\":{\"auth\":\"YTpi\",\"identitytoken\":\"x\"}}}")
INPUT(auth_file_with_a_helper, find_credentials,
      "{\"auths\":{\"example.com:5000\":{}},\"credHelpers\":{\"example.com:5000\":\"x\"},\"credsStore\":\"y\"}")
INVALID_INPUT(auth_file_with_a_mistake, find_credentials,
              "{\"auths\":{\"example.com:5000\":{\"auth\":\"!\"}}}")

static int parse_helper(void *userdata, Text *result, Error *e)
{
        _cleanup_(registry_credentials_done) RegistryCredentials c = {};
        const char *s = userdata;

        int r = credential_helper_parse(s, strlen(s), &c, e);
        text_addf(result, "%d %s %s %s", r, c.user ?: "", c.password ?: "", c.identity_token ?: "");
        return r;
}

INPUT(credential_helper, parse_helper, "{\"ServerURL\":\"x\",\"Username\":\"a\",\"Secret\":\"b\"}")
INPUT(credential_helper_with_a_token, parse_helper,
      "{\"ServerURL\":\"x\",\"Username\":\"<token>\",\"Secret\":\"b\"}")

static int parse_challenge(void *userdata, Text *result, Error *e)
{
        _cleanup_(registry_challenge_done) RegistryChallenge c = {};

        int r = registry_challenge_parse(userdata, &c, e);
        text_addf(result, "%d %d %s %s %s %s", c.basic, c.bearer, c.realm ?: "", c.service ?: "",
                  c.scope ?: "", c.other ?: "");
        return r;
}

INPUT(challenge, parse_challenge,
      "Negotiate YWJj==, Bearer realm=\"https://example.com/t\",service=\"s\",scope=\"repository:a:pull\", Basic realm=\"x\"")

static int parse_replies(void *userdata, Text *result, Error *e)
{
        static const char failure[] =
                        "{\"errors\":[{\"code\":\"MANIFEST_UNKNOWN\",\"message\":\"no \\u001b such\"}]}";
        _cleanup_free_ char *token = NULL, *shown = NULL, *code = NULL;
        const char *s = userdata;
        uint64_t seconds = 0;

        int r = registry_token_parse(s, strlen(s), &token, &seconds, e);
        if (r >= 0) {
                int q = registry_error_parse(failure, strlen(failure), &shown, &code);
                r = q == 0 ? error_oom(e) : without_message(q, e); /* what cannot be shown is left out */
        }
        text_addf(result, "%s %" PRIu64 " %s %s", token ?: "", seconds, shown ?: "", code ?: "");
        return r;
}

INPUT(replies, parse_replies, "{\"access_token\":\"abc\",\"expires_in\":300}")

/* --- Transfers ----------------------------------------------------------------------------------------- */

static void add_credentials(Text *t, const Credentials *c)
{
        for (size_t i = 0; i < c->n; i++)
                text_addf(t, "%s:%u %s %s %s\n", c->items[i].host, c->items[i].port,
                          c->items[i].authorization ?: "", c->items[i].certificate ?: "",
                          c->items[i].key ?: "");
}

static int parse_ini_credentials(void *userdata, Text *result, Error *e)
{
        _cleanup_(credentials_done) Credentials c = {};

        int r = credentials_parse_ini(&c, 0, "auth.d/x.conf", userdata, e);
        add_credentials(result, &c);
        return r;
}

INPUT(credentials_ini, parse_ini_credentials,
      "[Host]\nName=example.com other.example.com:5000\nUser=a\nPassword=b c\n# comment\n[Host]\nName=[::1]:8443\nToken=abc\n")
INVALID_INPUT(credentials_ini_with_a_mistake, parse_ini_credentials, "[Host]\nName=a/b\nToken=x\n")

static int parse_json_credentials(void *userdata, Text *result, Error *e)
{
        _cleanup_(credentials_done) Credentials c = {};
        const char *s = userdata;

        int r = credentials_parse_json(&c, 0, "auth.d/x.json", s, strlen(s), e);
        add_credentials(result, &c);
        return r;
}

INPUT(credentials_json, parse_json_credentials,
      "{\"rktKind\":\"auth\",\"rktVersion\":\"v1\",\"domains\":[\"a.example.com\",\"b.example.com\"],\"type\":\"basic\","
      "\"credentials\":{\"user\":\"a\",\"password\":\"b\"}}")
INPUT(credentials_json_oauth, parse_json_credentials,
      "{\"rktKind\":\"auth\",\"rktVersion\":\"v1\",\"domains\":[\"a.example.com\"],\"type\":\"oauth\",\"credentials\":{\"token\":\"t\"}}")

/* --- Discovery ----------------------------------------------------------------------------------------- */

static int parse_page(void *userdata, Text *result, Error *e)
{
        _cleanup_discovery_page_ DiscoveryPage p = {};
        _cleanup_(pair_list_done) PairList labels = {};
        const char *s = userdata;

        int r = discovery_page_parse(s, strlen(s), &p, e);
        if (r >= 0)
                r = without_message(pair_list_set(&labels, "version", "1"), e);
        for (size_t i = 0; r >= 0 && i < p.n; i++) {
                _cleanup_free_ char *url = NULL, *missing = NULL;
                r = without_message(discovery_expand(p.items[i].value, "example.com/app", &labels, "aci",
                                                     &url, &missing),
                                    e);
                text_addf(result, "%d %s %s %s\n", p.items[i].kind, p.items[i].prefix, url ?: "",
                          missing ?: "");
        }
        return r;
}

INPUT(discovery, parse_page,
      "<html><head><meta name=\"ac-discovery\" content=\"example.com https://example.com/{name}-{version}.{ext}\">"
      "<meta name=\"ac-discovery-pubkeys\" content=\"example.com https://example.com/keys\">"
      "<meta content='example.com/x https://example.com/{os}&amp;' name=ac-discovery></head></html>")

/* --- Keys and signatures ------------------------------------------------------------------------------- */

static int decode_keys(void *userdata, Text *result, Error *e)
{
        _cleanup_free_ unsigned char *out = NULL;
        size_t n = 0;

        int r = public_keys_decode(userdata, strlen(userdata), "it", &out, &n, e);
        text_addf(result, "%zu", n);
        return r;
}

INPUT(public_keys, decode_keys,
      "-----BEGIN PGP PUBLIC KEY BLOCK-----\n"
      "\n"
      "mDMEawGgLRYJKwYBBAHaRw8BAQdATNpW4gYAUZ6PCDAUVriFX3v17wPL8odk6wlq\n"
      "QdhRwK20EUEgPGFAZXhhbXBsZS5jb20+iJAEExYIADgWIQTDvQUK7NVcfReF3352\n"
      "LsyNK0npWQUCawGgLQIbAwULCQgHAgYVCgkICwIEFgIDAQIeAQIXgAAKCRB2LsyN\n"
      "K0npWVL3AP448u04LLbPDPYTs4VIBfbQS2IT9/HY+LaT70v0UAwCdQD/U24+7YOh\n"
      "sBxBg7bshmLntwECQHU+RXKQfpXZPkWtBgo=\n"
      "=t8C2\n"
      "-----END PGP PUBLIC KEY BLOCK-----\n")
INVALID_INPUT(public_keys_with_a_mistake, decode_keys, "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQ==\n")

static int decode_signature(void *userdata, Text *result, Error *e)
{
        _cleanup_free_ unsigned char *out = NULL;
        size_t size = 0, n = 0;

        int r = armor_decode(userdata, strlen(userdata), "PGP SIGNATURE", &out, &size, &n, e);
        text_addf(result, "%zu %zu", size, n);
        return r;
}

INPUT(signature, decode_signature, "-----BEGIN PGP SIGNATURE-----\n\nQUJD\n-----END PGP SIGNATURE-----\n")
INVALID_INPUT(signature_with_a_mistake, decode_signature,
              "-----BEGIN PGP SIGNATURE-----\n\nQU\n-----END PGP\n")

int main(void)
{
        RUN(image_name);
        RUN(image_name_with_a_mistake);
        RUN(reference_docker);
        RUN(reference_layout);
        RUN(reference_file);
        RUN(reference_url);
        RUN(reference_name);
        RUN(reference_with_a_mistake);
        RUN(registry_reference);
        RUN(registry_reference_with_a_mistake);
        RUN(toml);
        RUN(toml_with_a_key_twice);
        RUN(toml_that_is_cut);
        RUN(registries_conf);
        RUN(registries_conf_with_a_mistake);
        RUN(auth_file);
        RUN(auth_file_with_a_token);
        RUN(auth_file_with_a_helper);
        RUN(auth_file_with_a_mistake);
        RUN(credential_helper);
        RUN(credential_helper_with_a_token);
        RUN(challenge);
        RUN(replies);
        RUN(credentials_ini);
        RUN(credentials_ini_with_a_mistake);
        RUN(credentials_json);
        RUN(credentials_json_oauth);
        RUN(discovery);
        RUN(public_keys);
        RUN(public_keys_with_a_mistake);
        RUN(signature);
        RUN(signature_with_a_mistake);
        return TEST_END();
}
