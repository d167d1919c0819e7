/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* stage1/ld-cache.c: the loader's cache is searched as the loader does, and a malformed one is harmless. */

#include "stage1/ld-cache.h"
#include "tests/unit/child.h"
#include "tests/unit/ld-cache-builder.h"
#include "tests/unit/test.h"

/* Downwards, numbers by value: 10 comes before 9. */
static const CacheLine lines[] = {
                {"libz.so.10", "/lib/libz.so.10", 0}, {"libz.so.9", "/lib/haswell/libz.so.9", 1},
                {"libz.so.9", "/lib/libz.so.9", 0},   {"libz.so.9", "/lib32/libz.so.9", 0},
                {"libx-2.so", "libx-2.so", 0},        {"libc.so.6", "/lib/libc.so.6", 0},
                {"liba.so", "/opt/a/liba.so", 0},
};

static int note_path(const char *path, void *userdata)
{
        text_addf(userdata, "%s ", path);
        return 0;
}

/* All paths of a name, in order, each followed by a space. */
static char *paths_of(const LdCache *c, const char *name)
{
        Text t = {};
        char *s;

        text_add(&t, "");
        if (ld_cache_lookup(c, name, note_path, &t) < 0 || text_take(&t, &s, NULL) < 0)
                s = NULL;
        text_done(&t);
        return s;
}

static int cache_of(const char *data, size_t size, LdCache **ret)
{
        char *copy = malloc(size ? size : 1);

        memcpy(copy, data, size);
        return ld_cache_new(copy, size, ret);
}

static int cache_open(bool old, LdCache **ret)
{
        _cleanup_free_ char *data = NULL;
        size_t size;
        int r = cache_build(lines, ELEMENTSOF(lines), old, &data, &size);

        return r < 0 ? r : cache_of(data, size, ret);
}

static void check_lookup(const LdCache *c, const char *name, const char *expected)
{
        _cleanup_free_ char *paths = paths_of(c, name);

        ASSERT_STREQ(paths, expected);
}

TEST(lookup)
{
        for (int old = 0; old < 2; old++) {
                _cleanup_(ld_cache_freep) LdCache *c = NULL;
                ASSERT_OK(cache_open(old, &c));
                check_lookup(c, "libz.so.10", "/lib/libz.so.10 ");
                check_lookup(c, "libz.so.9", "/lib/libz.so.9 /lib32/libz.so.9 ");
                check_lookup(c, "libx-2.so", "");
                check_lookup(c, "libc.so.6", "/lib/libc.so.6 ");
                check_lookup(c, "liba.so", "/opt/a/liba.so ");
                check_lookup(c, "libz.so.09", "");
                check_lookup(c, "libz.so.11", "");
                check_lookup(c, "libm.so.6", "");
                check_lookup(c, "a", "");
                check_lookup(c, "zzz", "");
                check_lookup(c, "", "");
        }
}

static int stop_at_first(const char *path, void *userdata)
{
        text_add(userdata, path);
        return -EXDEV;
}

TEST(callback_ends_the_lookup)
{
        _cleanup_(ld_cache_freep) LdCache *c = NULL;
        _cleanup_text_ Text t = {};

        ASSERT_OK(cache_open(false, &c));
        ASSERT_ERR(ld_cache_lookup(c, "libz.so.9", stop_at_first, &t), -EXDEV);
        ASSERT_EQ(t.size, strlen("/lib/libz.so.9"));
}

TEST(empty_cache)
{
        _cleanup_(ld_cache_freep) LdCache *c = NULL;
        _cleanup_free_ char *data = NULL;
        size_t size;

        ASSERT_OK(cache_build(lines, 0, false, &data, &size));
        ASSERT_OK(cache_of(data, size, &c));
        check_lookup(c, "libc.so.6", "");
}

TEST(no_cache)
{
        LdCache *c = NULL;

        ASSERT_ERR(cache_of("", 0, &c), -EBADMSG);
        ASSERT_ERR(cache_of("ld.so-1.7.0\0\xff\xff\xff\xff", 16, &c), -EBADMSG);
        ASSERT_ERR(cache_of("glibc-ld.so.cache1.0 and what else may come behind it, many bytes", 64, &c),
                   -EBADMSG);
        ASSERT_NULL(c);
}

static void lookup_all(LdCache *c)
{
        for (size_t i = 0; i < ELEMENTSOF(lines); i++) {
                _cleanup_text_ Text t = {};
                int r = ld_cache_lookup(c, lines[i].name, note_path, &t);
                if (r != 0 && r != -EBADMSG)
                        TEST_FAIL("%s: %d", lines[i].name, r);
        }
}

static void check_damaged(const char *data, size_t size)
{
        LdCache *c;
        int r = cache_of(data, size, &c);

        if (r >= 0) {
                lookup_all(c);
                ld_cache_free(c);
        } else
                ASSERT_ERR(r, -EBADMSG);
}

TEST(truncated_and_damaged_anywhere)
{
        _cleanup_free_ char *data = NULL;
        size_t size;

        ASSERT_OK(cache_build(lines, ELEMENTSOF(lines), true, &data, &size));
        for (size_t i = 0; i < size; i++) {
                char saved = data[i];
                check_damaged(data, i);
                data[i] = (char) 0xff;
                check_damaged(data, size);
                data[i] = 0;
                check_damaged(data, size);
                data[i] = saved;
        }
}

/* "NAME (libc6,x86-64) => PATH": what ldconfig itself reads from the cache. */
static void check_line(const LdCache *c, const char *line)
{
        const char *name = line + strspn(line, "\t "), *arrow = strstr(name, " => /"),
                   *words = strstr(name, " (");

        if (!arrow || !words || strstr(words, "hwcap"))
                return;
        _cleanup_free_ char *soname = strndup(name, (size_t) (words - name)), *paths = paths_of(c, soname),
                            *path = NULL;
        ASSERT_OK(xasprintf(&path, "%s ", arrow + strlen(" => ")));
        ASSERT_CONTAINS(paths, path);
}

TEST(cache_of_this_machine)
{
        char *argv[] = {(char *) "/sbin/ldconfig", (char *) "-p", NULL};
        _cleanup_(ld_cache_freep) LdCache *c = NULL;
        _cleanup_strv_free_ char **listed = NULL;
        _cleanup_free_ char *text = NULL;
        char *data;
        size_t size;

        if (child_output(argv, &text) < 0 ||
            read_file_at(AT_FDCWD, "/etc/ld.so.cache", 1 << 24, &data, &size) < 0)
                TEST_SKIP("no cache, or no ldconfig that lists it");
        ASSERT_OK(ld_cache_new(data, size, &c));
        ASSERT_OK(strv_split(text, "\n", &listed));
        ASSERT_GT(strv_length(listed), 3);
        STRV_FOREACH (line, listed)
                check_line(c, *line);
}

int main(void)
{
        RUN(lookup);
        RUN(callback_ends_the_lookup);
        RUN(empty_cache);
        RUN(no_cache);
        RUN(truncated_and_damaged_anywhere);
        RUN(cache_of_this_machine);
        return TEST_END();
}
