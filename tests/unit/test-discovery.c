/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Discovery: parsing pages, and expanding templates. */

#include "prepare/discovery/discovery.h"
#include "tests/unit/test.h"

static DiscoveryPage parse(const char *text)
{
        DiscoveryPage p = {};

        (void) discovery_page_parse(text, strlen(text), &p, NULL);
        return p;
}

/* A page that is put together of pieces. */
static DiscoveryPage parse_pieces(const char *const *pieces)
{
        _cleanup_free_ char *page = strv_join((char *const *) pieces, "");

        return parse(page ?: "");
}

#define META(name, content) "<meta name=\"" name "\" content=\"" content "\">"
#define APP "example.com/reduce-worker"

/* --- Pages --------------------------------------------------------------------------------------------- */

TEST(page)
{
        static const char *const pieces[] = {
                        "<!DOCTYPE html>\n<html><head><title>My app</title>\n",
                        META("ac-discovery", "example.com https://s.example.com/{name}-{version}.{ext}"),
                        META("ac-discovery-pubkeys", "example.com https://example.com/pubkeys.gpg"),
                        META("description", "example.com https://example.com/"),
                        "</head><body><h1>My App</h1></body></html>",
                        NULL,
        };
        _cleanup_discovery_page_ DiscoveryPage p = parse_pieces(pieces);

        ASSERT_EQ(p.n, 2);
        ASSERT_EQ(p.items[0].kind, DISCOVERY_IMAGE);
        ASSERT_STREQ(p.items[0].prefix, "example.com");
        ASSERT_STREQ(p.items[0].value, "https://s.example.com/{name}-{version}.{ext}");
        ASSERT_EQ(p.items[1].kind, DISCOVERY_PUBKEYS);
        ASSERT_STREQ(p.items[1].value, "https://example.com/pubkeys.gpg");
}

TEST(page_as_written_by_hand)
{
        _cleanup_discovery_page_ DiscoveryPage p = parse(
                        "<HTML><META CONTENT=' example.com \n\t https://example.com/?a=1&amp;b=&#123;name} '"
                        " NAME=ac-discovery />"
                        "<body><p>" META("ac-discovery", "b.example.com https://b/{ext}"));

        ASSERT_EQ(p.n, 2);
        ASSERT_STREQ(p.items[0].prefix, "example.com");
        ASSERT_STREQ(p.items[0].value, "https://example.com/?a=1&b={name}");
        ASSERT_STREQ(p.items[1].prefix, "b.example.com");
}

TEST(page_text_is_no_markup)
{
        static const char *const pieces[] = {
                        "<head>",
                        "<title>" META("ac-discovery", "a b") "</title>",
                        "<script>" META("ac-discovery", "a b") "</script>",
                        "<style>" META("ac-discovery", "a b") "</style>",
                        "<!-- " META("ac-discovery", "a b") " -->",
                        "<noscript>" META("ac-discovery", "a b") "</noscript>",
                        "</head><body>",
                        "<textarea>" META("ac-discovery", "a b") "</textarea>",
                        "<p title='<meta name=ac-discovery content=\"a b\">'>&lt;meta&gt;",
                        META("ac-discovery", "c d"),
                        NULL,
        };
        _cleanup_discovery_page_ DiscoveryPage p = parse_pieces(pieces);

        ASSERT_EQ(p.n, 1);
        ASSERT_STREQ(p.items[0].prefix, "c");
}

TEST(page_says_nothing)
{
        static const char *const pages[] = {
                        "",
                        "no html at all",
                        "\x1f\x8b\x08 binary \xff\xfe",
                        META("ac-discovery", ""),
                        META("ac-discovery", "   "),
                        META("ac-discovery", "example.com"),
                        META("ac-discovery", "example.com   "),
                        META("AC-DISCOVERY", "example.com https://x/{ext}"),
                        "<meta name=ac-discovery>",
                        "<meta content='example.com https://x/{ext}'>",
                        "<meta name=ac-discovery content>",
                        "<meta name=ac-discovery content='example.com https://x",
                        "<!DOCTYPE x [<!ENTITY a SYSTEM 'file:///etc/passwd'>]><x>&a;</x>",
        };

        for (size_t i = 0; i < ELEMENTSOF(pages); i++) {
                _cleanup_discovery_page_ DiscoveryPage p = parse(pages[i]);
                if (p.n != 0)
                        TEST_FAIL("page %zu: %zu elements", i, p.n);
        }
}

TEST(page_no_entities_of_its_own)
{
        _cleanup_discovery_page_ DiscoveryPage p =
                        parse("<!DOCTYPE html [<!ENTITY a 'expanded'><!ENTITY b '&a;&a;&a;'>]>"
                              "<meta name=ac-discovery content='example.com https://x/&b;&a;{ext}'>");

        for (size_t i = 0; i < p.n; i++)
                ASSERT_TRUE(!strstr(p.items[i].value, "expanded"));
}

TEST(page_doubles_and_limits)
{
        _cleanup_text_ Text t = {};

        for (unsigned i = 0; i < 1000; i++)
                text_addf(&t, META("ac-discovery", "example.com https://x/%u.{ext}"), i / 2);
        _cleanup_discovery_page_ DiscoveryPage p = parse(t.data);
        ASSERT_EQ(p.n, DISCOVERY_META_MAX);
        ASSERT_STREQ(p.items[1].value, "https://x/1.{ext}");
}

TEST(page_is_bounded)
{
        _cleanup_text_ Text t = {}, deep = {};

        /* Data after the part that is parsed is ignored, as are deeply nested elements. */
        while (t.size < DISCOVERY_PAGE_MAX)
                text_add(&t, "<p>");
        text_add(&t, META("ac-discovery", "a b"));
        _cleanup_discovery_page_ DiscoveryPage p = parse(t.data);
        ASSERT_EQ(p.n, 0);

        text_add(&deep, META("ac-discovery", "a b"));
        for (unsigned i = 0; i < 20000; i++)
                text_add(&deep, "<b>");
        for (unsigned i = 0; i < 10000; i++)
                text_add(&deep, "</i>");
        uint64_t start = now_usec(CLOCK_MONOTONIC);
        _cleanup_discovery_page_ DiscoveryPage q = parse(deep.data);
        ASSERT_EQ(q.n, 1);
        ASSERT_TRUE(now_usec(CLOCK_MONOTONIC) - start < 5000000);
}

/* --- Templates ----------------------------------------------------------------------------------------- */

TEST(prefixes)
{
        ASSERT_TRUE(discovery_prefix_covers("example.com", "example.com"));
        ASSERT_TRUE(discovery_prefix_covers("example.com", "example.com/a/b"));
        ASSERT_TRUE(discovery_prefix_covers("example.com/", "example.com/a"));
        ASSERT_TRUE(discovery_prefix_covers("example.com/a", "example.com/a/b"));
        ASSERT_TRUE(!discovery_prefix_covers("example.com/a", "example.com/ab"));
        ASSERT_TRUE(!discovery_prefix_covers("example.com/a/b", "example.com/a"));
        ASSERT_TRUE(!discovery_prefix_covers("example.co", "example.com/a"));
        ASSERT_TRUE(!discovery_prefix_covers("", "example.com"));
        ASSERT_TRUE(!discovery_prefix_covers("/", "example.com"));
        ASSERT_TRUE(discovery_possible("example.com"));
        ASSERT_TRUE(discovery_possible("registry/app"));
        ASSERT_TRUE(!discovery_possible("app"));
}

static Pair label_items[] = {
                {(char *) "version", (char *) "1.0.0"},
                {(char *) "os", (char *) "linux"},
                {(char *) "arch", (char *) "amd64"},
                {(char *) "odd", (char *) "a/b+c d%{ext}\xc3\xa9"},
};
static const PairList labels = {.items = label_items, .n = ELEMENTSOF(label_items)};

TEST(expansion)
{
        static const struct {
                const char *template, *expected;
        } cases[] = {
                        {"https://{name}-{version}-{os}-{arch}.{ext}",
                         "https://example.com/reduce-worker-1.0.0-linux-amd64.aci"},
                        {"https://s.example.com/{os}/{arch}/{name}-{version}.{ext}",
                         "https://s.example.com/linux/amd64/example.com/reduce-worker-1.0.0.aci"},
                        {"https://x/{odd}.{ext}", "https://x/a%2Fb%2Bc%20d%25%7Bext%7D%C3%A9.aci"},
                        {"https://x/{name}{name}", "https://x/" APP APP},
                        {"nothing", "nothing"},
                        {"https://x/{name", "https://x/{name"},
                        {"https://x/}name{", "https://x/}name{"},
                        {"", ""},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *s = NULL;
                ASSERT_EQ(discovery_expand(cases[i].template, APP, &labels, "aci", &s, NULL), 1);
                ASSERT_STREQ(s, cases[i].expected);
        }
}

TEST(expansion_of_unknown_variables)
{
        static const char *const templates[] = {"https://x/{channel}", "https://x/{}", "https://x/{+name}",
                                                "https://x/{name}{ version}", "https://x/{{name}}"};

        for (size_t i = 0; i < ELEMENTSOF(templates); i++) {
                _cleanup_free_ char *s = NULL, *missing = NULL;
                ASSERT_EQ(discovery_expand(templates[i], APP, &labels, "aci", &s, &missing), 0);
                ASSERT_TRUE(!s && missing);
        }
}

TEST(default_labels)
{
        Pair mine[] = {{(char *) "arch", (char *) "aarch64"}};
        const PairList l = {.items = mine, .n = 1};
        PairList all = {};

        ASSERT_OK(discovery_labels(&l, &all));
        ASSERT_STREQ(pair_list_get(&all, "version"), "latest");
        ASSERT_STREQ(pair_list_get(&all, "os"), "linux");
        ASSERT_STREQ(pair_list_get(&all, "arch"), "aarch64");
        pair_list_done(&all);
}

/* --- Both ---------------------------------------------------------------------------------------------- */

TEST(endpoints)
{
        static const char *const pieces[] = {
                        META("ac-discovery", "example.com http://a.example.com/{name}.{ext}"),
                        META("ac-discovery", "example.com https://b.example.com/{name}.{ext}"),
                        META("ac-discovery", "example.com/reduce https://no.example.com/{name}.{ext}"),
                        META("ac-discovery", "example.com/reduce-worker https://c.example.com/{name}.{ext}"),
                        META("ac-discovery", "example.com https://b.example.com/" APP ".{ext}"),
                        META("ac-discovery", "example.com hdfs://d.example.com/{name}.{ext}"),
                        META("ac-discovery", "example.com https://e.example.com/{name}.aci"),
                        META("ac-discovery", "example.com https://f.example.com/{name}-{channel}.{ext}"),
                        META("ac-discovery-pubkeys", "example.com https://example.com/keys"),
                        META("ac-discovery-pubkeys", "example.com/other https://example.com/others"),
                        NULL,
        };
        _cleanup_discovery_page_ DiscoveryPage p = parse_pieces(pieces);
        _cleanup_discovery_ Discovery d = {};

        ASSERT_OK(discovery_add_page(&d, &p, APP, &labels));
        ASSERT_EQ(d.n_endpoints, 3);
        ASSERT_STREQ(d.endpoints[0].image_url, "https://b.example.com/" APP ".aci");
        ASSERT_STREQ(d.endpoints[0].signature_url, "https://b.example.com/" APP ".aci.asc");
        ASSERT_STREQ(d.endpoints[1].image_url, "https://c.example.com/" APP ".aci");
        ASSERT_STREQ(d.endpoints[2].image_url, "http://a.example.com/" APP ".aci");
        ASSERT_EQ(strv_length(d.unusable), 3);
        ASSERT_CONTAINS(d.unusable[0], "not an https URL");
        ASSERT_CONTAINS(d.unusable[1], "no {ext}");
        ASSERT_CONTAINS(d.unusable[2], "{channel}");
        ASSERT_EQ(strv_length(d.pubkeys), 1);
        ASSERT_STREQ(d.pubkeys[0], "https://example.com/keys");
}

TEST(simple)
{
        _cleanup_discovery_ Discovery d = {}, none = {};

        ASSERT_OK(discovery_add_simple(&d, APP, &labels, true));
        ASSERT_EQ(d.n_endpoints, 2);
        ASSERT_STREQ(d.endpoints[0].image_url, "https://" APP "-1.0.0-linux-amd64.aci");
        ASSERT_STREQ(d.endpoints[0].signature_url, "https://" APP "-1.0.0-linux-amd64.aci.asc");
        ASSERT_STREQ(d.endpoints[1].image_url, "http://" APP "-1.0.0-linux-amd64.aci");
        /* The version would become part of the host's name. */
        ASSERT_OK(discovery_add_simple(&none, "example.com", &labels, true));
        ASSERT_EQ(none.n_endpoints, 0);
}

int main(void)
{
        RUN(page);
        RUN(page_as_written_by_hand);
        RUN(page_text_is_no_markup);
        RUN(page_says_nothing);
        RUN(page_no_entities_of_its_own);
        RUN(page_doubles_and_limits);
        RUN(page_is_bounded);
        RUN(prefixes);
        RUN(expansion);
        RUN(expansion_of_unknown_variables);
        RUN(default_labels);
        RUN(endpoints);
        RUN(simple);
        return TEST_END();
}
