/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Files that declare pods: where they are found, their syntax, words and specifiers, and what the keys of
 * [Pod] and [App] come to. */

#include <sys/stat.h>

#include "basic/ini.h"
#include "stage0/arguments/pod-declared.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

static Declared *parse(const char *text)
{
        Declared *d = declared_new("web-1");

        return d && declared_parse(d, "web-1.pod", text, strlen(text)) >= 0 ? d : declared_free(d);
}

static const char *value(const Declared *d, DeclaredSection section, const char *key)
{
        const char *found = "(none)";

        for (size_t i = 0; i < d->n_settings; i++)
                if (d->settings[i].section == section && streq(d->settings[i].key, key))
                        found = d->settings[i].value;
        return found;
}

static const char *finding(const Declared *d, size_t i)
{
        static char text[512];

        if (i >= d->n_findings)
                return "(none)";
        snprintf(text, sizeof(text), "%u %s: %s", d->findings[i].place.line,
                 d->findings[i].error ? "error" : "warning", d->findings[i].text);
        return text;
}

/* --- Syntax -------------------------------------------------------------------------------------------- */

TEST(lines)
{
        _cleanup_(declared_freep) Declared *d = parse("\xef\xbb\xbf# comment\n ; another\n\n[Pod]\nA = b c "
                                                      "\nB=\nC=x \\\n  # between\n; too\n"
                                                      "  y\\\n\tz\nD=1\\\\\nE==\r\n X-Own=3\n[App "
                                                      "a]\nA=1\n[X-Other]\nnonsense\n[App b]\nA=2\n"
                                                      "[App  a ]\nB=3\n[Unit]\nAfter=x\nAfter=\nF=last\\");

        ASSERT_TRUE(d);
        ASSERT_STREQ(finding(d, 0), "(none)");
        ASSERT_STREQ(value(d, DECLARED_POD, "A"), "b c");
        ASSERT_STREQ(value(d, DECLARED_POD, "B"), "");
        ASSERT_STREQ(value(d, DECLARED_POD, "C"), "x  y z");
        ASSERT_STREQ(value(d, DECLARED_POD, "D"), "1\\\\");
        ASSERT_STREQ(value(d, DECLARED_POD, "E"), "=");
        ASSERT_STREQ(value(d, DECLARED_POD, "X-Own"), "(none)");
        ASSERT_EQ(d->n_apps, 2);
        ASSERT_STREQ(d->apps[0].name, "a");
        ASSERT_STREQ(d->apps[1].name, "b");
        ASSERT_EQ(d->apps[1].place.line, 19);
        ASSERT_STREQ(value(d, DECLARED_APP, "B"), "3");
        ASSERT_STREQ(value(d, DECLARED_UNIT, "F"), "last");
        for (size_t i = 0; i < d->n_settings; i++)
                if (streq(d->settings[i].key, "C"))
                        ASSERT_EQ(d->settings[i].place.line, 7);
}

TEST(mistakes_are_found_with_their_lines)
{
        static const struct {
                const char *text, *finding;
        } cases[] = {
                        {"A=1\n", "1 error: the line belongs to no section"},
                        {"[Pod]\n\nnonsense\n", "3 error: the line is not KEY=VALUE"},
                        {"[Pod]\n=x\n", "2 error: the line is not KEY=VALUE"},
                        {"[Pod\nA=1\n", "1 error: the name of the section does not end with ']'"},
                        {"[Pot]\nA=1\n", "1 warning: unknown section [Pot], which is ignored"},
                        {"[App]\n", "1 error: the section of an app needs the name of the app"},
                        {"[Pod]\nA=\xff\n", "2 error: the line is not UTF-8"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(declared_freep) Declared *d = parse(cases[i].text);
                ASSERT_TRUE(d);
                ASSERT_EQ(d->n_findings, 1);
                ASSERT_STREQ(finding(d, 0), cases[i].finding);
                ASSERT_EQ(d->has_errors, strstr(cases[i].finding, "error") != NULL);
        }
        _cleanup_(declared_freep) Declared *d = parse("[Pot]\n");
        ASSERT_STREQ(d->findings[0].hint, "Did you mean [Pod]?");
        _cleanup_(declared_freep) Declared *nul = declared_new("x");
        ASSERT_OK(declared_parse(nul, "x", "[Pod]\n\0=", 8));
        ASSERT_STREQ(finding(nul, 0), "0 error: the file is not text: it has NUL bytes");
}

TEST(an_empty_value_takes_back_what_was_said)
{
        _cleanup_(declared_freep) Declared *d =
                        parse("[Pod]\nPort=1\nMemory=1\n[App "
                              "a]\nPort=2\n[Pod]\nPort=\nPort=3\n[Unit]\nAfter=x\nAfter=\n");

        ASSERT_TRUE(d);
        ASSERT_EQ(d->n_settings, 7);
        ASSERT_STREQ(d->settings[0].value, "");
        ASSERT_STREQ(d->settings[1].value, "1");
        ASSERT_STREQ(d->settings[2].value, "2");
        ASSERT_STREQ(d->settings[4].value, "3");
        ASSERT_STREQ(d->settings[5].value, "x"); /* systemd does that itself */
}

TEST(limits)
{
        _cleanup_text_ Text settings = {}, line = {}, apps = {};

        text_add(&settings, "[Pod]\n");
        for (unsigned i = 0; i <= DECLARED_SETTINGS_MAX; i++)
                text_add(&settings, "A=1\n");
        _cleanup_(declared_freep) Declared *many = parse(settings.data);
        ASSERT_TRUE(many);
        ASSERT_EQ(many->n_settings, DECLARED_SETTINGS_MAX);
        ASSERT_STREQ(finding(many, 0), "16386 error: there are more than 16384 settings");

        text_add(&line, "[Pod]\nA=");
        for (unsigned i = 0; i < INI_LINE_MAX; i++)
                text_add(&line, "x");
        _cleanup_(declared_freep) Declared *wide = parse(line.data);
        ASSERT_TRUE(wide);
        ASSERT_STREQ(finding(wide, 0), "2 error: the line is longer than 262144 bytes");

        for (unsigned i = 0; i <= DECLARED_APPS_MAX; i++)
                text_addf(&apps, "[App a%u]\n", i);
        text_add(&apps, "A=1\n");
        _cleanup_(declared_freep) Declared *big = parse(apps.data);
        ASSERT_TRUE(big);
        ASSERT_EQ(big->n_apps, DECLARED_APPS_MAX);
        ASSERT_EQ(big->n_settings, 0);
        ASSERT_STREQ(finding(big, 0), "4097 error: there are more than 4096 apps");

        _cleanup_(declared_freep) Declared *wrong = parse("x");
        for (unsigned i = 0; i < 1000; i++)
                ASSERT_OK(declared_parse(wrong, "x", "x", 1));
        ASSERT_EQ(wrong->n_findings, DECLARED_FINDINGS_MAX);
        ASSERT_EQ(wrong->n_more_findings, 1001 - DECLARED_FINDINGS_MAX);
}

/* --- Words --------------------------------------------------------------------------------------------- */

TEST(words)
{
        static const struct {
                const char *value, *words[5];
        } cases[] = {
                        {"", {NULL}},
                        {" a  b ", {"a", "b"}},
                        {"\"a b\" 'c d' e\"f g\"h", {"a b", "c d", "ef gh"}},
                        {"'' \"\"", {"", ""}},
                        {"\"it's\" 'a \"q\"'", {"it's", "a \"q\""}},
                        {"a\\sb \\x41\\102\\n", {"a b", "AB\n"}},
                        {"\\u00e4 \\U0001F600 \\u20ac", {"ä", "😀", "€"}},
                        {"'a\\'b' \\\"x", {"a'b", "\"x"}},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_strv_free_ char **l = NULL;
                const char *reason = NULL;
                ASSERT_OK(declared_words(cases[i].value, &l, &reason));
                size_t n = strv_length(l);
                for (size_t k = 0; k <= n; k++)
                        ASSERT_TRUE(streq_ptr(l ? l[k] : NULL, cases[i].words[k]));
        }
        static const char *const wrong[] = {"\"a", "'",     "\\q",     "\\x0", "\\x00",
                                            "a\\", "\\u12", "\\udc00", "\\400"};
        for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
                _cleanup_strv_free_ char **l = NULL;
                const char *reason = NULL;
                ASSERT_EQ(declared_words(wrong[i], &l, &reason), -EINVAL);
                ASSERT_TRUE(reason);
        }
}

TEST(values_as_a_whole)
{
        static const struct {
                const char *text, *value;
        } cases[] = {
                        {"a b", "a b"},           {"\"a b\"", "a b"},
                        {"'x\\ty'", "x\ty"},      {"{\"a\": \"b\"}", "{\"a\": \"b\"}"},
                        {"\"a\" b", "\"a\" b"},   {"\"a\"b\"\"", "\"a\"b\"\""},
                        {"\\d", "\\d"},           {"\"\"", ""},
                        {"\"a b' c", "\"a b' c"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *v = NULL;
                const char *reason = NULL;
                ASSERT_OK(declared_value(cases[i].text, &v, &reason));
                ASSERT_STREQ(v, cases[i].value);
        }
}

/* What is written is read back. */
TEST(quoting)
{
        static const char *const samples[] = {
                        "",      "a",    "a b",      " a",    "a ",   "\"",    "'",     "\"a\"",
                        "'a' b", "a\\",  "\\",       "a\\b",  "%",    "100%%", "%i",    "x\ny",
                        "\t",    "\x7f", "\xff\xfe", "ä",     "#a",   ";a",    "[Pod]", "{\"limit\": \"1\"}",
                        "a=b",   "=",    "\x01",     "\"a b", "a \\",
        };

        for (size_t i = 0; i < ELEMENTSOF(samples); i++)
                for (int whole = 0; whole < 2; whole++) {
                        _cleanup_free_ char *quoted = NULL, *line = NULL, *read = NULL, *expanded = NULL;
                        _cleanup_(declared_freep) Declared *d = NULL;
                        _cleanup_strv_free_ char **l = NULL;
                        const char *reason = NULL;
                        char bad = 0;

                        ASSERT_OK(declared_quote(samples[i], whole, &quoted));
                        ASSERT_OK(xasprintf(&line, "[Pod]\nA=%s\nB=1\n", quoted));
                        d = parse(line);
                        ASSERT_TRUE(d);
                        ASSERT_STREQ(finding(d, 0), "(none)");
                        ASSERT_EQ(d->n_settings, 2);
                        if (whole)
                                ASSERT_OK(declared_value(d->settings[0].value, &read, &reason));
                        else {
                                ASSERT_OK(declared_words(d->settings[0].value, &l, &reason));
                                ASSERT_EQ(strv_length(l), 1);
                        }
                        ASSERT_OK(declared_expand(whole ? read : l[0], "web-1", &expanded, &bad));
                        ASSERT_STREQ(expanded, samples[i]);
                }
}

TEST(specifiers)
{
        _cleanup_free_ char *s = NULL, *known = NULL;
        char bad = 'x';

        ASSERT_OK(declared_expand("%i|%I|%n|%N|%p|%%|%t|%S|%C|%L|%E|%T|%V|%h|%u|%U|%j", "web-1", &s, &bad));
        ASSERT_STREQ(s, "web-1|web/1|acnspawn@web-1.service|acnspawn@web-1|acnspawn|%|/run|/var/lib|/var/"
                        "cache|/var/log|"
                        "/etc|/tmp|/var/tmp|/root|root|0|acnspawn");
        ASSERT_OK(declared_expand("%H %l %v %a %b", "web-1", &known, &bad));
        ASSERT_TRUE(!strchr(known, '%') && !strchr(known, '\n'));
        ASSERT_EQ(declared_expand("a%q", "web-1", &s, &bad), -EINVAL);
        ASSERT_EQ(bad, 'q');
        ASSERT_EQ(declared_expand("a%", "web-1", &s, &bad), -EINVAL);
        ASSERT_EQ(bad, 0);
}

/* --- Files --------------------------------------------------------------------------------------------- */

typedef struct Dirs {
        Scratch scratch;
        char *list[4];
} Dirs;

static void dirs_done(Dirs *d)
{
        for (size_t i = 0; i < 3; i++)
                free(d->list[i]);
        scratch_done(&d->scratch);
}

static int dirs_new(Dirs *d)
{
        static const char *const names[] = {"etc", "run", "lib"};

        if (scratch_new(&d->scratch) < 0)
                return -EIO;
        for (size_t i = 0; i < 3; i++)
                if (xasprintf(&d->list[i], "%s/%s", d->scratch.path, names[i]) < 0)
                        return -ENOMEM;
        return 0;
}

static int put(const Dirs *d, const char *path, const char *text)
{
        _cleanup_free_ char *dir = strndup(path, (size_t) (strrchr(path, '/') - path)), *whole = NULL;

        if (!dir || xasprintf(&whole, "%s/%s", d->scratch.path, dir) < 0)
                return -ENOMEM;
        int r = mkdir_p(whole, 0755);
        return r < 0 ? r : write_file_new_at(d->scratch.fd, path, text, strlen(text), 0644);
}

#define DIRS_NULL ((Dirs){.scratch = SCRATCH_NULL})

TEST(files_take_precedence)
{
        _cleanup_(dirs_done) Dirs d = DIRS_NULL;
        _cleanup_(declared_freep) Declared *web = NULL;
        _cleanup_strv_free_ char **names = NULL;
        _cleanup_error_ Error e = ERROR_NULL;

        ASSERT_OK(dirs_new(&d));
        ASSERT_OK(put(&d, "lib/web.pod", "[Pod]\nA=lib\n"));
        ASSERT_OK(put(&d, "run/web.pod", "[Pod]\nA=run\n"));
        ASSERT_OK(put(&d, "lib/db.pod", "[Pod]\n"));
        ASSERT_OK(put(&d, "run/Big.pod", "[Pod]\n"));
        ASSERT_OK(put(&d, "run/.hidden.pod", "[Pod]\n"));
        ASSERT_OK(put(&d, "lib/web.pod.d/10-a.conf", "[Pod]\nB=lib\nD=lib\n"));
        ASSERT_OK(put(&d, "etc/web.pod.d/10-a.conf", "[Pod]\nB=etc\n"));
        ASSERT_OK(put(&d, "run/web.pod.d/20-b.conf", "[Pod]\nC=run\n"));
        ASSERT_OK(put(&d, "lib/web.pod.d/05-c.conf", "[Pod]\nB=first\nC=first\n"));
        ASSERT_OK(put(&d, "lib/web.pod.d/30-masked.conf", "[Pod]\nE=1\n"));
        ASSERT_OK(put(&d, "run/web.pod.d/30-masked.conf", ""));
        ASSERT_OK(put(&d, "run/web.pod.d/readme", "nonsense"));
        ASSERT_OK(declared_load(d.list, "web", &web, &e));
        ASSERT_STREQ(value(web, DECLARED_POD, "A"), "run");
        ASSERT_STREQ(value(web, DECLARED_POD, "B"), "etc");
        ASSERT_STREQ(value(web, DECLARED_POD, "C"), "run");
        ASSERT_STREQ(value(web, DECLARED_POD, "D"), "(none)");
        ASSERT_STREQ(value(web, DECLARED_POD, "E"), "(none)");
        ASSERT_EQ(strv_length(web->files), 4);
        ASSERT_OK(declared_list(d.list, &names, &e));
        ASSERT_EQ(strv_length(names), 2);
        ASSERT_STREQ(names[0], "db");
        ASSERT_STREQ(names[1], "web");
        ASSERT_EQ(declared_exists(d.list, "db", NULL), 1);
        ASSERT_EQ(declared_exists(d.list, "other", NULL), 0);
        ASSERT_EQ(declared_exists(d.list, "../lib/db", NULL), 0);
}

TEST(masks_and_strange_files)
{
        _cleanup_(dirs_done) Dirs d = DIRS_NULL;
        _cleanup_(declared_freep) Declared *x = NULL;
        _cleanup_strv_free_ char **names = NULL;
        _cleanup_error_ Error e = ERROR_NULL;

        ASSERT_OK(dirs_new(&d));
        ASSERT_OK(put(&d, "lib/a.pod", "[Pod]\n"));
        ASSERT_OK(put(&d, "lib/b.pod", "[Pod]\n"));
        ASSERT_OK(put(&d, "etc/b.pod", ""));
        ASSERT_OK(put(&d, "lib/c.pod", "[Pod]\n"));
        ASSERT_OK(symlinkat("/dev/null", d.scratch.fd, "etc/a.pod"));
        ASSERT_OK(symlinkat("c.pod", d.scratch.fd, "lib/link.pod"));
        ASSERT_OK(mkdirat(d.scratch.fd, "etc/c.pod", 0755));
        ASSERT_OK(mkfifoat(d.scratch.fd, "etc/fifo.pod", 0644));
        ASSERT_EQ(declared_load(d.list, "a", &x, &e), -ERFKILL);
        ASSERT_STREQ(e.message, "Pod 'a' is masked");
        ASSERT_EQ(declared_load(d.list, "b", &x, &e), -ERFKILL);
        ASSERT_TRUE(startswith(e.message, "Pod 'b' is masked: '"));
        ASSERT_TRUE(endswith(e.message, "/etc/b.pod' is empty"));
        ASSERT_EQ(declared_load(d.list, "c", &x, &e), -EBADMSG);
        ASSERT_TRUE(endswith(e.message, "/etc/c.pod' is not a regular file"));
        ASSERT_EQ(declared_load(d.list, "fifo", &x, &e), -EBADMSG);
        ASSERT_OK(declared_load(d.list, "link", &x, &e));
        ASSERT_EQ(declared_load(d.list, "none", &x, &e), -ENOENT);
        ASSERT_STREQ(e.message, "No file declares a pod 'none'");
        ASSERT_TRUE(startswith(e.hint, "It would be none.pod, in one of: "));
        ASSERT_EQ(declared_load(d.list, "../lib/c", &x, &e), -EINVAL);
        ASSERT_OK(declared_list(d.list, &names, &e));
        ASSERT_EQ(strv_length(names), 3);
        ASSERT_STREQ(names[0], "c");
        ASSERT_STREQ(names[2], "link");
}

TEST(empty_files_are_no_masks_for_who_removes)
{
        _cleanup_(dirs_done) Dirs d = DIRS_NULL;
        _cleanup_(declared_freep) Declared *x = NULL;
        _cleanup_strv_free_ char **names = NULL, **kept = NULL;
        _cleanup_error_ Error e = ERROR_NULL;

        ASSERT_OK(dirs_new(&d));
        ASSERT_OK(put(&d, "lib/a.pod", "[Pod]\n"));
        ASSERT_OK(put(&d, "lib/b.pod", "[Pod]\n"));
        ASSERT_OK(put(&d, "etc/b.pod", ""));
        ASSERT_OK(put(&d, "lib/c.pod", "[Pod]\n"));
        ASSERT_OK(symlinkat("/dev/null", d.scratch.fd, "etc/a.pod"));
        ASSERT_OK(mkdirat(d.scratch.fd, "etc/c.pod.d", 0755));
        ASSERT_OK(put(&d, "etc/c.pod.d/x.conf", ""));
        ASSERT_OK(put(&d, "lib/empty.pod", ""));
        ASSERT_OK(put(&d, "etc/empty.pod", "[Pod]\n")); /* the other one does not count */
        ASSERT_OK(declared_list(d.list, &names, &e));
        ASSERT_EQ(strv_length(names), 2);
        ASSERT_OK(declared_list_to_keep(d.list, &kept, &e));
        ASSERT_EQ(strv_length(kept), 3);
        ASSERT_STREQ(kept[0], "b");
        ASSERT_EQ(declared_load_to_keep(d.list, "a", &x, &e), -ERFKILL);
        ASSERT_EQ(declared_load_to_keep(d.list, "b", &x, &e), -ENODATA);
        ASSERT_TRUE(endswith(e.message, "/etc/b.pod' is empty"));
        ASSERT_EQ(declared_load_to_keep(d.list, "c", &x, &e), -ENODATA);
        ASSERT_TRUE(endswith(e.message, "/etc/c.pod.d/x.conf' is empty"));
        ASSERT_OK(declared_load_to_keep(d.list, "empty", &x, &e));
}

/* The generator goes on with the rest; others have to know that it is not all. */
TEST(what_cannot_be_read)
{
        _cleanup_(dirs_done) Dirs d = DIRS_NULL;
        _cleanup_(declared_freep) Declared *x = NULL;
        _cleanup_strv_free_ char **dirs = NULL, **failures = NULL, **names = NULL;
        _cleanup_error_ Error e = ERROR_NULL;

        ASSERT_OK(dirs_new(&d));
        ASSERT_OK(put(&d, "./etc", ""));
        ASSERT_OK(put(&d, "lib/a.pod", "[Pod]\nA=lib\n"));
        ASSERT_OK(put(&d, "run/a.pod.d", ""));
        ASSERT_OK(put(&d, "lib/a.pod.d/1.conf", "[Pod]\nB=lib\n"));
        ASSERT_OK(put(&d, "lib/a.pod.d/2.conf/x", ""));
        ASSERT_OK(put(&d, "lib/a.pod.d/3.conf", "[Pod]\nC=lib\n"));
        ASSERT_EQ(declared_list(d.list, &names, &e), -ENOTDIR);
        ASSERT_EQ(declared_load(d.list, "a", &x, &e), -ENOTDIR);
        ASSERT_OK(declared_readable_dirs(d.list, &dirs, &failures));
        ASSERT_EQ(strv_length(dirs), 2);
        ASSERT_EQ(strv_length(failures), 1);
        ASSERT_TRUE(endswith(failures[0], "/etc': Not a directory"));
        ASSERT_OK(declared_list(dirs, &names, &e));
        ASSERT_EQ(strv_length(names), 1);
        ASSERT_EQ(declared_load(dirs, "a", &x, &e), -ENOTDIR);
        ASSERT_OK(declared_load_partly(dirs, "a", &x, &e));
        ASSERT_STREQ(value(x, DECLARED_POD, "A"), "lib");
        ASSERT_STREQ(value(x, DECLARED_POD, "B"), "lib");
        ASSERT_STREQ(value(x, DECLARED_POD, "C"), "lib");
        ASSERT_EQ(x->n_findings, 2);
        ASSERT_TRUE(x->has_errors);
        ASSERT_TRUE(endswith(x->findings[0].text, "/run/a.pod.d': Not a directory"));
        ASSERT_TRUE(endswith(x->findings[1].text, "/lib/a.pod.d/2.conf' is not a regular file"));
}

/* What is behind it may be on a file system that is not mounted now. */
TEST(links_that_lead_nowhere)
{
        _cleanup_(dirs_done) Dirs d = DIRS_NULL;
        _cleanup_(declared_freep) Declared *w = NULL, *x = NULL, *y = NULL, *z = NULL;
        _cleanup_strv_free_ char **names = NULL, **dirs = NULL;
        _cleanup_error_ Error e = ERROR_NULL;

        ASSERT_OK(dirs_new(&d));
        ASSERT_OK(put(&d, "lib/a.pod", "[Pod]\n"));
        ASSERT_OK(put(&d, "lib/b.pod", "[Pod]\n"));
        ASSERT_OK(put(&d, "lib/c.pod", "[Pod]\n"));
        ASSERT_OK(put(&d, "lib/c.pod.d/2.conf", "[Pod]\nB=lib\n"));
        ASSERT_OK(put(&d, "run/d.pod", "[Pod]\n"));
        ASSERT_OK(symlinkat("../gone/a.pod", d.scratch.fd, "run/a.pod"));
        ASSERT_OK(symlinkat("../gone/b.pod.d", d.scratch.fd, "run/b.pod.d"));
        ASSERT_OK(symlinkat("1.conf.gone", d.scratch.fd, "lib/c.pod.d/1.conf"));
        ASSERT_OK(put(&d, "lib/e.pod", ""));
        ASSERT_OK(symlinkat("../gone/e.pod", d.scratch.fd, "run/e.pod"));
        ASSERT_OK(symlinkat("../gone/e.pod.d", d.scratch.fd, "run/e.pod.d"));
        ASSERT_OK(declared_list(d.list, &names, &e));
        ASSERT_EQ(strv_length(names), 5);
        ASSERT_EQ(declared_exists(d.list, "a", NULL), 1);
        ASSERT_EQ(declared_load(d.list, "a", &x, &e), -ENOLINK);
        ASSERT_TRUE(endswith(e.message, "/run/a.pod': it is a link that leads to nothing"));
        ASSERT_EQ(declared_load(d.list, "b", &x, &e), -ENOLINK);
        ASSERT_TRUE(endswith(e.message, "/run/b.pod.d': it is a link that leads to nothing"));
        ASSERT_EQ(declared_load(d.list, "c", &x, &e), -ENOLINK);
        ASSERT_OK(declared_load_partly(d.list, "a", &w,
                                       &e)); /* the units are those of the file that can be read */
        ASSERT_TRUE(w->has_errors);
        ASSERT_TRUE(endswith(w->files[0], "/lib/a.pod"));
        ASSERT_EQ(declared_load_partly(d.list, "e", &y, &e), -ENOLINK); /* the next one masks it */
        ASSERT_TRUE(endswith(e.message, "/run/e.pod': it is a link that leads to nothing"));
        ASSERT_OK(declared_load_partly(d.list, "c", &x, &e));
        ASSERT_TRUE(x->has_errors);
        ASSERT_STREQ(value(x, DECLARED_POD, "B"), "lib");
        ASSERT_EQ(declared_load(d.list, "none", &y, &e), -ENOENT);
        ASSERT_OK(renameat(d.scratch.fd, "run", d.scratch.fd, "away"));
        ASSERT_OK(declared_load(d.list, "a", &y, &e));
        ASSERT_OK(symlinkat("gone", d.scratch.fd, "run"));
        ASSERT_EQ(declared_list(d.list, &names, &e), -ENOLINK);
        ASSERT_EQ(declared_exists(d.list, "a", &e), 1);
        ASSERT_EQ(declared_exists(d.list, "other", &e), -ENOLINK);
        ASSERT_EQ(declared_load(d.list, "a", &z, &e), -ENOLINK);
        ASSERT_EQ(declared_find_dirs(d.list[1], &dirs, &e), -ENOENT);
        ASSERT_OK(declared_find_dirs(d.list[2], &dirs, &e));
}

TEST(names)
{
        static const char *const good[] = {"a", "web-1", "1.2", "a.b-c"};
        static const char *const bad[] = {"",    "-a",  "a-",  ".a",  "a..b", "A",
                                          "a b", "a/b", "a_b", "a\n", "ä",    "a.-b"};

        for (size_t i = 0; i < ELEMENTSOF(good); i++) {
                ASSERT_TRUE(declared_name_is_valid(good[i]));
                ASSERT_OK(pod_name_check(good[i], NULL));
        }
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                ASSERT_TRUE(!declared_name_is_valid(bad[i]));
                ASSERT_EQ(pod_name_check(bad[i], NULL), -EINVAL);
        }
}

/* --- Keys ---------------------------------------------------------------------------------------------- */

TEST(keys_are_the_options)
{
        static const struct {
                const char *option, *key;
        } cases[] = {
                        {"ready-timeout", "ReadyTimeout"},
                        {"port", "Port"},
                        {"caps-retain", "CapsRetain"},
                        {"dns", "DNS"},
                        {"dns-search", "DNSSearch"},
                        {"oom-score-adj", "OOMScoreAdj"},
                        {"cpu-shares", "CPUShares"},
                        {"apparmor-profile", "AppArmorProfile"},
                        {"selinux-context", "SELinuxContext"},
                        {"supplementary-gids", "SupplementaryGIDs"},
                        {"block-iops", "BlockIOPS"},
                        {"uuid-file", "UUIDFile"},
                        {"stage1", "Stage1"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                const Option o = {.name = cases[i].option};
                char key[KEY_MAX];
                option_key(&o, key);
                ASSERT_STREQ(key, cases[i].key);
        }
        for (KeySection section = 0; section < _KEY_SECTION_MAX; section++)
                for (size_t t = 0; declared_options[section][t]; t++)
                        for (const Option *o = declared_options[section][t]; !option_is_end(o); o++)
                                ASSERT_TRUE(o->name); /* what only has a letter could not be said */
}

#define APPLIED(text)                                                                                       \
        _cleanup_(declared_freep) Declared *d = parse(text);                                                \
        _cleanup_pod_arguments_ PodArguments a;                                                             \
        _cleanup_run_arguments_ RunArguments run;                                                           \
        _cleanup_error_ Error e = ERROR_NULL;                                                               \
        pod_arguments_init(&a);                                                                             \
        run_arguments_init(&run);                                                                           \
        ASSERT_TRUE(d);                                                                                     \
        ASSERT_OK(declared_apply(d, &a, &run, &e))

TEST(a_pod_is_applied)
{
        APPLIED("[Pod]\nNet=host\nPort=80:8080 81:8081\nPort=82:8082/udp\nEnvironment=A=1 \"B=2 "
                "3\"\nReadyTimeout=1min\n"
                "Strict=yes\nNoUserns=on\nHostname=x.%i\nIsolator=resource/memory={\"limit\": \"64Mi\"}\n"
                "[App web]\nImage=example.com/web\nExec=/bin/web server\nArguments=a 'b "
                "c'\nArguments=%%d\nReadOnly=yes\n"
                "ReadOnly=no\nAfter=db cache\nAfter=db\nUser=5\nUser=6\n[App db]\nImage=docker://db\n[App "
                "cache]\nImage=/x.aci\n");

        ASSERT_STREQ(finding(d, 0), "(none)");
        ASSERT_EQ(a.options.net, NET_HOST);
        ASSERT_EQ(a.request.n_ports, 3);
        ASSERT_EQ(a.request.ports[2].host_port, 82);
        ASSERT_STREQ(pair_list_get(&a.request.environment, "B"), "2 3");
        ASSERT_EQ(run.ready_timeout_usec, 60000000);
        ASSERT_TRUE(run.strict && a.options.strict && !a.options.private_users);
        ASSERT_STREQ(a.options.hostname, "x.web-1");
        ASSERT_EQ(a.request.isolators.n, 1);
        ASSERT_EQ(a.request.n_apps, 3);
        const AppOverrides *web = &a.request.apps[0];
        ASSERT_STREQ(web->name, "web");
        ASSERT_STREQ(web->reference, "example.com/web");
        ASSERT_STREQ(web->exec[0], "/bin/web server");
        ASSERT_EQ(strv_length(web->args), 3);
        ASSERT_STREQ(web->args[1], "b c");
        ASSERT_STREQ(web->args[2], "%d");
        ASSERT_TRUE(!web->read_only_rootfs);
        ASSERT_STREQ(web->user, "6");
        ASSERT_STREQ(pair_list_get(&web->annotations, "acnspawn/after"), "db,cache,db");
}

TEST(what_is_for_the_only_app)
{
        APPLIED("[Pod]\nUser=1\nExec=/bin/x\nStdin=yes\n[App a]\nImage=x\nUser=2\n");

        ASSERT_STREQ(finding(d, 0), "(none)");
        ASSERT_STREQ(a.request.apps[0].user, "2");
        ASSERT_STREQ(a.request.apps[0].exec[0], "/bin/x");
        ASSERT_STREQ(pair_list_get(&a.request.apps[0].annotations, "acnspawn/input"), "pipe");
}

TEST(mistakes_of_keys)
{
        static const struct {
                const char *line, *finding;
        } cases[] = {
                        {"Memory=x", "2 error: Invalid value 'x' for Memory=: \"x\" is not a quantity as in "
                                     "123Mi, 1G, 250m or 0.3"},
                        {"Memery=1", "2 warning: unknown key 'Memery', which is ignored"},
                        {"Name=x",
                         "2 error: Name=: the name of the file is the pod's, that of the section the app's"},
                        {"Detach=yes", "2 error: Detach=: is for the command line, where the pod is run"},
                        {"ReadOnly=yes",
                         "2 error: ReadOnly=: belongs into the section of an app, [App NAME]"},
                        {"Verify=perhaps", "2 error: Verify=: 'perhaps' is neither yes nor no"},
                        {"Hostname=%q",
                         "2 error: Hostname=: the specifier %q is unknown; a percent sign is written %%"},
                        {"Port=80:80 'x", "2 error: Port=: a quote is not closed"},
                        {"EnvironmentFile=x/y",
                         "2 error: Invalid value 'x/y' for EnvironmentFile=: the path must be absolute"},
                        {"Volume=./x:/y",
                         "2 error: Invalid value './x:/y' for Volume=: the path must be absolute"},
                        {"Mount=./x:/y",
                         "2 error: Invalid value './x:/y' for Mount=: the path must be absolute"},
                        {"LoadCredential=a:-", "2 error: Invalid value 'a:-' for LoadCredential=: standard "
                                               "input cannot be read here"},
                        {"PodManifest=-",
                         "2 error: Invalid value '-' for PodManifest=: standard input cannot be read here"},
                        {"TasksMax=0",
                         "2 error: Invalid value '0' for TasksMax=: must be a whole number, or infinity"},
                        {"DNS=none\nDNSSearch=x", "0 error: --dns=none leaves"},
                        {"CapsRetain=CAP_CHOWN", "0 error: CapsRetain= in [Pod] is for apps that are added"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *text = NULL;
                ASSERT_OK(xasprintf(&text, "[Pod]\n%s\n[App a]\nImage=x\n", cases[i].line));
                APPLIED(text);
                ASSERT_EQ(d->n_findings, 1);
                if (!startswith(finding(d, 0), cases[i].finding))
                        ASSERT_STREQ(finding(d, 0), cases[i].finding);
        }
}

TEST(mistakes_of_apps)
{
        static const struct {
                const char *text, *finding;
        } cases[] = {
                        {"[App a]\n", "1 error: app 'a' has no image"},
                        {"[App a]\nImage=-\n", "2 error: Invalid value '-' for Image=: an image cannot be "
                                               "read from standard input here"},
                        {"[App a]\nImage=./x.aci\n",
                         "2 error: Invalid value './x.aci' for Image=: the path of a file must be absolute"},
                        {"[App a]\nImage=oci:dir\n",
                         "2 error: Invalid value 'oci:dir' for Image=: the path of a file must be absolute"},
                        {"[App a]\nImage=x\nMount=../x:/y\n",
                         "3 error: Invalid value '../x:/y' for Mount=: the path must be absolute"},
                        {"[App a]\nImage=x\nAfter=b\n", "3 error: After=: the pod has no app 'b'"},
                        {"[App a]\nImage=x\nPort=80:80\n", "3 error: Port=: belongs into [Pod]"},
                        {"[App a]\nImage=x\nimage=y\n", "3 warning: unknown key 'image', which is ignored"},
                        {"[App A]\nImage=x\n", "1 error: 'A' is not a valid name for an app: "},
                        {"[Pod]\n",
                         "0 error: the pod has no apps: that needs ExitPolicy=never, or PodManifest="},
                        {"[Pod]\nPodManifest=/x\n[App a]\nImage=x\n",
                         "0 error: there are apps beside PodManifest=, which names them"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                APPLIED(cases[i].text);
                ASSERT_EQ(d->n_findings, 1);
                if (!startswith(finding(d, 0), cases[i].finding))
                        ASSERT_STREQ(finding(d, 0), cases[i].finding);
        }
}

/* All at once, in the order of the file. */
TEST(findings_are_sorted)
{
        APPLIED("[Pod]\nMemory=x\nnonsense\nFoo=1\n[App a]\n[App b]\nImage=x\nUser=\"a\nfoo\n");

        ASSERT_EQ(d->n_findings, 6);
        for (size_t i = 0; i < 6; i++)
                ASSERT_EQ(d->findings[i].place.line, ((const unsigned[]){2, 3, 4, 5, 8, 9})[i]);
}

int main(void)
{
        RUN(lines);
        RUN(mistakes_are_found_with_their_lines);
        RUN(an_empty_value_takes_back_what_was_said);
        RUN(limits);
        RUN(words);
        RUN(values_as_a_whole);
        RUN(quoting);
        RUN(specifiers);
        RUN(files_take_precedence);
        RUN(masks_and_strange_files);
        RUN(empty_files_are_no_masks_for_who_removes);
        RUN(what_cannot_be_read);
        RUN(links_that_lead_nowhere);
        RUN(names);
        RUN(keys_are_the_options);
        RUN(a_pod_is_applied);
        RUN(what_is_for_the_only_app);
        RUN(mistakes_of_keys);
        RUN(mistakes_of_apps);
        RUN(findings_are_sorted);
        return TEST_END();
}
