/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* registries.conf: short names and endpoints, refused files, and warnings. */

#include "prepare/registry/registry-internal.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

#define DIGEST "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void collect(const char *line, void *userdata)
{
        Text *t = userdata;

        text_addf(t, "%s\n", line);
}

static int add(RegistriesConf *c, const char *file, const char *text, Error *e)
{
        return registries_conf_add(c, text, strlen(text), file, NULL, e);
}

/* The endpoints of a reference, in order, "+" for mirrors and "!" for insecure ones. */
static int places(const RegistriesConf *c, const char *reference, char **ret, Error *e)
{
        _cleanup_(registry_reference_done) RegistryReference r = {};
        _cleanup_(registry_places_done) RegistryPlaces p = {};
        _cleanup_text_ Text t = {};

        int q = registry_reference_parse(reference, &r, e);
        if (q >= 0)
                q = registries_conf_complete(c, &r, e);
        if (q >= 0)
                q = registries_conf_places(c, &r, &p, e);
        if (q < 0)
                return q;
        for (size_t i = 0; i < p.n; i++)
                text_addf(&t, "%s%s%s%s/%s", i > 0 ? " " : "", p.items[i].mirror ? "+" : "",
                          p.items[i].insecure_by ? "!" : "", p.items[i].host, p.items[i].repository);
        text_addf(&t, " %s", r.digest ? "digest" : r.tag);
        return text_take(&t, ret, NULL);
}

static const char complete[] = "unqualified-search-registries = ['one.example.com']\n"
                               "[[registry]]\n"
                               "location = 'plain.example.com:5000'\n"
                               "insecure = true\n"
                               "[[registry]]\n"
                               "prefix = 'example.com'\n"
                               "location = 'api.example.com'\n"
                               "[[registry]]\n"
                               "prefix = 'example.com/team'\n"
                               "location = 'inside.example.org:5000/mirrored/team'\n"
                               "[[registry.mirror]]\n"
                               "location = 'm1.example.org'\n"
                               "[[registry.mirror]]\n"
                               "location = 'm2.example.org/x'\n"
                               "insecure = true\n"
                               "[[registry.mirror]]\n"
                               "location = 'm3.example.org'\n"
                               "pull-from-mirror = 'digest-only'\n"
                               "[[registry.mirror]]\n"
                               "location = 'm4.example.org'\n"
                               "pull-from-mirror = 'tag-only'\n"
                               "[[registry]]\n"
                               "prefix = '*.wild.example.com'\n"
                               "mirror = [{location = 'cache.example.com/wild'}]\n"
                               "mirror-by-digest-only = true\n"
                               "[[registry]]\n"
                               "prefix = 'evil.example.com'\n"
                               "blocked = true\n"
                               "[[registry]]\n"
                               "prefix = 'good.wild.example.com'\n"
                               "location = 'good.example.com/sub'\n"
                               "[aliases]\n"
                               "app = 'two.example.com/library/app'\n"
                               "\"team/tool\" = 'two.example.com/tool'\n"
                               "gone = ''\n";

static const struct {
        const char *reference, *places;
} cases[] = {
                {"three.example.com/app", "three.example.com/app latest"},
                {"three.example.com:1/app:x", "three.example.com:1/app x"},
                {"plain.example.com:5000/a/b", "!plain.example.com:5000/a/b latest"},
                {"plain.example.com/a", "plain.example.com/a latest"},
                {"example.com/app:1", "api.example.com/app 1"},
                {"example.com:5000/app:1", "example.com:5000/app 1"},
                {"example.com/teams/app:1", "api.example.com/teams/app 1"},
                {"example.com/team/app:1", "+m1.example.org/app +!m2.example.org/x/app +m4.example.org/app "
                                           "inside.example.org:5000/mirrored/team/app 1"},
                {"example.com/team/app" DIGEST,
                 "+m1.example.org/app +!m2.example.org/x/app +m3.example.org/app "
                 "inside.example.org:5000/mirrored/team/app digest"},
                {"a.wild.example.com/app:1", "a.wild.example.com/app 1"},
                {"a.b.wild.example.com:99/app" DIGEST,
                 "+cache.example.com/wild/app a.b.wild.example.com:99/app digest"},
                {"wild.example.com/app:1", "wild.example.com/app 1"},
                {"good.wild.example.com/app:1", "good.example.com/sub/app 1"},
                {"app", "two.example.com/library/app latest"},
                {"app:3", "two.example.com/library/app 3"},
                {"team/tool" DIGEST, "two.example.com/tool digest"},
                {"gone", "one.example.com/gone latest"},
                {"a/b", "one.example.com/a/b latest"},
};

TEST(places)
{
        _cleanup_(registries_conf_done) RegistriesConf c = {};
        _cleanup_error_ Error e = ERROR_NULL;

        if (add(&c, "f", complete, &e) < 0)
                TEST_FAIL("%s", e.message);
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *text = NULL;

                if (places(&c, cases[i].reference, &text, &e) < 0)
                        TEST_FAIL("%s", e.message);
                ASSERT_STREQ(text, cases[i].places);
        }
}

TEST(blocked)
{
        _cleanup_(registries_conf_done) RegistriesConf c = {};
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_free_ char *text = NULL;

        ASSERT_OK(add(&c, "f", complete, NULL));
        ASSERT_ERR(places(&c, "evil.example.com/app", &text, &e), -EPERM);
        ASSERT_STREQ(e.message, "'evil.example.com/app' is blocked by f");
        ASSERT_CONTAINS(e.hint, "blocked = true");
}

TEST(short_names_without_answer)
{
        _cleanup_(registries_conf_done) RegistriesConf c = {};
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_free_ char *text = NULL;

        ASSERT_ERR(places(&c, "app", &text, &e), -EINVAL);
        ASSERT_CONTAINS(e.message, "'app' has no registry");
        ASSERT_CONTAINS(e.hint, "docker://REGISTRY/app");
        ASSERT_OK(add(&c, "f", "unqualified-search-registries = ['a.example.com', 'b.example.com/x']",
                      NULL));
        ASSERT_ERR(places(&c, "app", &text, &e), -EINVAL);
        ASSERT_CONTAINS(e.message, "configuration has several");
        ASSERT_CONTAINS(e.hint, "a.example.com/app or b.example.com/x/app");
        ASSERT_OK(add(&c, "g", "unqualified-search-registries = ['b.example.com/x']", NULL));
        ASSERT_OK(places(&c, "app", &text, &e));
        ASSERT_STREQ(text, "b.example.com/x/app latest");
}

/* What a later file says counts. */
TEST(later_files)
{
        _cleanup_(registries_conf_done) RegistriesConf c = {};
        _cleanup_free_ char *text = NULL, *other = NULL;

        ASSERT_OK(add(&c, "f", complete, NULL));
        ASSERT_OK(add(&c, "g",
                      "[[registry]]\nprefix='example.com/team'\nlocation='new.example.com'\n"
                      "[aliases]\napp = 'three.example.com/app'\n'team/tool' = ''",
                      NULL));
        ASSERT_OK(places(&c, "example.com/team/app", &text, NULL));
        ASSERT_STREQ(text, "new.example.com/app latest");
        ASSERT_OK(places(&c, "team/tool", &other, NULL));
        ASSERT_STREQ(other, "one.example.com/team/tool latest");
}

static const struct {
        const char *text, *why;
} invalid[] = {
                {"[[registry]]\ninsecure = true",
                 "f: [[registry]] number 1: neither 'prefix' nor 'location' is given"},
                {"[[registry]]\nlocation = 1", "'location' is not a string"},
                {"[[registry]]\nlocation = 'https://example.com'", "not a location of a registry"},
                {"[[registry]]\nlocation = '*.example.com'", "not a location of a registry"},
                {"[[registry]]\nprefix = '*.example.com/x'", "without a path"},
                {"[[registry]]\nprefix = 'a*.example.com'", "not a location of a registry"},
                {"[[registry]]\nlocation = 'example.com/UPPER'", "not a location of a registry"},
                {"[[registry]]\nlocation = 'x.example.com'\ninsecure = 'yes'",
                 "'insecure' is not true or false"},
                {"[[registry]]\nlocation = 'x.example.com'\nblocked = 1", "'blocked' is not true or false"},
                {"[[registry]]\nlocation = 'x.example.com'\nmirror = 'y'",
                 "'mirror' is not an array of tables"},
                {"[[registry]]\nlocation = 'x.example.com'\nmirror = ['y']", "not a table"},
                {"[[registry]]\nlocation = 'x.example.com'\n[[registry.mirror]]\ninsecure = true",
                 "no 'location'"},
                {"[[registry]]\nlocation = 'x.example.com'\n[[registry.mirror]]\npull-from-mirror = 'x'",
                 "\"all\""},
                {"[[registry]]\nlocation = 'x.example.com'\n[[registry]]\nprefix = 'x.example.com'",
                 "two [[registry]]"},
                {"[registry]\nlocation = 'x.example.com'", "'registry' is not an array of tables"},
                {"unqualified-search-registries = 'x'", "is not an array of strings"},
                {"unqualified-search-registries = [1]", "is not an array of strings"},
                {"unqualified-search-registries = ['a b']", "is not a host name"},
                {"unqualified-search-registries = ['registry']", "cannot be told from a repository"},
                {"aliases = 1", "'aliases' is not a table"},
                {"[aliases]\na = 'b'", "is not a registry and a repository without tag"},
                {"[aliases]\na = 'example.com/b:1'", "is not a registry and a repository without tag"},
                {"[aliases]\na = 'example.com/B'", "the alias 'a'"},
                {"[registries.block]\nregistries = ['x']", "in the first form"},
                {"[[registry]]\nlocation = \"a\\u001b[2J\"", "'a\\x1b[2J'"},
                {"x = ", "f, line 1: a value is missing"},
};

TEST(invalid)
{
        for (size_t i = 0; i < ELEMENTSOF(invalid); i++) {
                _cleanup_(registries_conf_done) RegistriesConf c = {};
                _cleanup_error_ Error e = ERROR_NULL;

                if (add(&c, "f", invalid[i].text, &e) >= 0)
                        TEST_FAIL("'%s' is taken", invalid[i].text);
                ASSERT_CONTAINS(e.message, invalid[i].why);
                ASSERT_CONTAINS(e.message, "f");
        }
}

TEST(unknown_keys_are_named)
{
        static const char text[] = "credential-helpers = ['x']\nshort-name-mode = 'permissive'\n"
                                   "[[registry]]\nlocation = 'x.example.com'\nproxy = 'y'\n";
        _cleanup_(registries_conf_done) RegistriesConf c = {};
        _cleanup_text_ Text t = {};
        Notes n = {collect, &t};

        ASSERT_OK(registries_conf_add(&c, text, strlen(text), "f", &n, NULL));
        text_add_bytes(&t, "", 1);
        ASSERT_CONTAINS(t.data, "f: 'credential-helpers' is not used\n");
        ASSERT_CONTAINS(t.data, "f: [[registry]] number 1: 'proxy' is not used\n");
        ASSERT_NOT_CONTAINS(t.data, "short-name-mode");
}

/* The file, its drop-ins, and acnspawn's own file: in this order. */
TEST(files)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_(registries_conf_done) RegistriesConf c = {};
        _cleanup_error_ Error e = ERROR_NULL;
        char conf[PATH_MAX + 32], strong[PATH_MAX + 32], weak[PATH_MAX + 32];

        ASSERT_OK(scratch_new(&s));
        snprintf(conf, sizeof(conf), "%s/r.conf", s.path);
        snprintf(strong, sizeof(strong), "%s/strong", s.path);
        snprintf(weak, sizeof(weak), "%s/weak", s.path);
        const char *const dirs[] = {strong, weak, NULL};
        ASSERT_OK(setenv("CONTAINERS_REGISTRIES_CONF", conf, true));
        ASSERT_ERR(registries_conf_load(dirs, NULL, &c, &e), -ENOENT);
        ASSERT_CONTAINS(e.message, "r.conf: No such file");
        ASSERT_OK(scratch_file(&s, "r.conf",
                               "[aliases]\na='1.example.com/a'\nb='1.example.com/b'\n"
                               "c='1.example.com/c'\nd='1.example.com/d'"));
        for (const char *const *dir =
                             (const char *const[]){"r.conf.d", "strong", "weak", "strong/registries.d",
                                                   "weak/registries.d", NULL};
             *dir; dir++)
                ASSERT_EQ(mkdirat(s.fd, *dir, 0755), 0);
        ASSERT_OK(scratch_file(&s, "r.conf.d/1.conf",
                               "[aliases]\nb='2.example.com/b'\nc='2.example.com/c'\n"
                               "d='2.example.com/d'"));
        ASSERT_OK(scratch_file(&s, "r.conf.d/.hidden.conf", "nonsense"));
        ASSERT_OK(scratch_file(&s, "r.conf.d/note", "nonsense"));
        ASSERT_OK(scratch_file(&s, "weak/registries.d/x.conf",
                               "[aliases]\nc='3.example.com/c'\nd='3.example.com/d'"));
        ASSERT_OK(scratch_file(&s, "strong/registries.d/x.conf", "[aliases]\nd='4.example.com/d'"));
        ASSERT_OK(registries_conf_load(dirs, NULL, &c, &e));
        ASSERT_STREQ(pair_list_get(&c.aliases, "a"), "1.example.com/a");
        ASSERT_STREQ(pair_list_get(&c.aliases, "b"), "2.example.com/b");
        ASSERT_STREQ(pair_list_get(&c.aliases, "c"), "3.example.com/c");
        ASSERT_STREQ(pair_list_get(&c.aliases, "d"), "4.example.com/d");
        ASSERT_OK(scratch_file(&s, "strong/registries.d/y.conf", "nonsense"));
        registries_conf_done(&c);
        ASSERT_ERR(registries_conf_load(dirs, NULL, &c, &e), -EBADMSG);
        ASSERT_CONTAINS(e.message, "strong/registries.d/y.conf, line 1");
        ASSERT_CONTAINS(e.hint, "acnspawn-registries(5)");
}

int main(void)
{
        RUN(places);
        RUN(blocked);
        RUN(short_names_without_answer);
        RUN(later_files);
        RUN(invalid);
        RUN(unknown_keys_are_named);
        RUN(files);
        return TEST_END();
}
