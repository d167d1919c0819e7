/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* stage1/launch-config.c: untrusted strings reach the launcher byte for byte, and only complete launch files
 * are accepted. */

#include "stage1/launch-config.h"
#include "tests/unit/test.h"

/* Characters that are special in unit files, shells or terminals; every byte that a string can contain. */
static const char *const hostile[] = {
                "",
                " ",
                "a b",
                "%h %% %n",
                "$HOME ${HOME} $$",
                "\"quoted\" 'single' `back`",
                "\\x20 \\n \\",
                "line\nExecStartPre=/bin/sh -c id\n[Service]\nUser=root",
                "; rm -rf / #",
                "-+!@:|",
                "\t\r\v\f\x1b[31mred\x7f",
                "arg",
                "app=evil",
                "\xff\xfe\x80 no UTF-8",
};

static char *all_bytes(void)
{
        char *s = malloc(256);

        for (size_t i = 0; s && i < 255; i++)
                s[i] = (char) (i + 1);
        if (s)
                s[255] = 0;
        return s;
}

static int fill(LaunchConfig *c)
{
        int r = 0;

        *c = (LaunchConfig){
                        .app = strdup("web"),
                        .user = strdup("0"),
                        .group = strdup("/path\nwith=everything"),
                        .working_directory = all_bytes(),
                        .capabilities = UINT64_C(0x8000000000000001),
                        .no_new_privileges = true,
                        .has_masked = true,
                        .merges_groups = true,
                        .writable_sys = true,
                        .ambient = UINT64_C(1) << 63,
                        .apparmor_profile = strdup("web//inner profile"),
                        .selinux_context = strdup("u:r:t:s0:c1,c2"),
                        .has_filter = true,
                        .filter = calloc(2, sizeof(struct sock_filter)),
                        .n_filter = 2,
                        .gids = calloc(3, sizeof(gid_t)),
                        .n_gids = 3,
                        .gids_allocated = 3,
        };
        c->filter[0] = (struct sock_filter){.code = 6, .jt = 255, .jf = 0, .k = 0x7fff0000};
        c->filter[1] = (struct sock_filter){.code = 0xffff, .k = 0xffffffff};
        c->gids[0] = 0;
        c->gids[1] = 4294967294U;
        c->gids[2] = 65535;
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(hostile); i++) {
                char ***lists[] = {&c->exec,   &c->pre_start, &c->post_stop, &c->environment,
                                   &c->mounts, &c->masked,    &c->read_only};
                for (size_t k = 0; r >= 0 && k < ELEMENTSOF(lists); k++)
                        r = strv_extend(lists[k], hostile[(i + k) % ELEMENTSOF(hostile)]);
        }
        return r < 0 ? r : strv_consume(&c->exec, all_bytes());
}

static void check_list(char *const *a, char *const *b)
{
        ASSERT_EQ(strv_length(a), strv_length(b));
        for (size_t i = 0; a && a[i]; i++)
                ASSERT_STREQ(a[i], b[i]);
}

static void check_equal(const LaunchConfig *a, const LaunchConfig *b)
{
        ASSERT_STREQ(a->app, b->app);
        ASSERT_STREQ(a->user, b->user);
        ASSERT_STREQ(a->group, b->group);
        ASSERT_STREQ(a->working_directory, b->working_directory);
        check_list(a->exec, b->exec);
        check_list(a->pre_start, b->pre_start);
        check_list(a->post_stop, b->post_stop);
        check_list(a->environment, b->environment);
        check_list(a->mounts, b->mounts);
        check_list(a->masked, b->masked);
        check_list(a->read_only, b->read_only);
        ASSERT_EQ(a->has_masked, b->has_masked);
        ASSERT_EQ(a->has_read_only, b->has_read_only);
        ASSERT_EQ(a->merges_groups, b->merges_groups);
        ASSERT_EQ(a->strict_groups, b->strict_groups);
        ASSERT_EQ(a->writable_sys, b->writable_sys);
        ASSERT_EQ(a->ambient, b->ambient);
        ASSERT_EQ(a->n_gids, b->n_gids);
        if (a->n_gids > 0)
                ASSERT_MEMEQ(a->gids, b->gids, a->n_gids * sizeof(gid_t));
        ASSERT_EQ(a->n_filter, b->n_filter);
        if (a->n_filter > 0)
                ASSERT_MEMEQ(a->filter, b->filter, a->n_filter * sizeof(struct sock_filter));
        ASSERT_EQ(a->capabilities, b->capabilities);
        ASSERT_EQ(a->no_new_privileges, b->no_new_privileges);
        if (a->apparmor_profile)
                ASSERT_STREQ(a->apparmor_profile, b->apparmor_profile);
        else
                ASSERT_NULL(b->apparmor_profile);
        if (a->selinux_context)
                ASSERT_STREQ(a->selinux_context, b->selinux_context);
        else
                ASSERT_NULL(b->selinux_context);
        ASSERT_EQ(a->may_mount, b->may_mount);
        ASSERT_EQ(a->read_only_root, b->read_only_root);
        ASSERT_EQ(a->shares_processes, b->shares_processes);
        ASSERT_EQ(a->landlock_optional, b->landlock_optional);
}

TEST(round_trip)
{
        _cleanup_launch_config_ LaunchConfig in = {}, out = {};
        _cleanup_free_ char *text = NULL, *again = NULL;
        size_t size, size_again;

        ASSERT_OK(fill(&in));
        ASSERT_OK(launch_config_format(&in, &text, &size));
        ASSERT_OK(launch_config_parse(text, size, &out));
        check_equal(&in, &out);
        ASSERT_OK(launch_config_format(&out, &again, &size_again));
        ASSERT_EQ(size, size_again);
        ASSERT_MEMEQ(text, again, size);
}

TEST(smallest)
{
        char *exec[] = {(char *) "/bin/true", NULL};
        LaunchConfig in = {
                        .app = (char *) "a",
                        .user = (char *) "",
                        .group = (char *) "",
                        .working_directory = (char *) "/",
                        .exec = exec,
                        .may_mount = true,
                        .read_only_root = true,
                        .shares_processes = true,
                        .landlock_optional = true,
        };
        _cleanup_launch_config_ LaunchConfig out = {};
        _cleanup_free_ char *text = NULL;
        size_t size;

        ASSERT_OK(launch_config_format(&in, &text, &size));
        ASSERT_OK(launch_config_parse(text, size, &out));
        check_equal(&in, &out);
}

/* Parts of a file are not accepted: restrictions of the app could be missing. */
TEST(truncated_anywhere)
{
        _cleanup_launch_config_ LaunchConfig in = {};
        _cleanup_free_ char *text = NULL;
        size_t size;

        ASSERT_OK(fill(&in));
        ASSERT_OK(launch_config_format(&in, &text, &size));
        for (size_t n = 0; n < size; n++) {
                /* Of the exact size, so that sanitizers detect reads beyond it. */
                _cleanup_free_ char *part = malloc(n ? n : 1);
                LaunchConfig out = {};
                memcpy(part, text, n);
                ASSERT_ERR(launch_config_parse(part, n, &out), -EBADMSG);
                ASSERT_NULL(out.app); /* untouched on failure */
        }
}

#define HEAD "acnspawn-launch\0001\0app\0a\0arg\0/x\0user\0000\0group\0000\0working-directory\0/"
#define FILTER "filter\0"
#define END "end\0"

/* The result for a valid file without its filter and its end, followed by N bytes. */
static int parse_behind_head(const void *more, size_t n)
{
        _cleanup_free_ char *text = malloc(sizeof(HEAD) + n);
        LaunchConfig c = {};

        memcpy(text, HEAD, sizeof(HEAD));
        memcpy(text + sizeof(HEAD), more, n);
        int r = launch_config_parse(text, sizeof(HEAD) + n, &c);
        launch_config_done(&c);
        return r;
}

/* A literal of NUL-separated strings, whose last one gets its NUL from the compiler. */
#define PARSE(pairs) parse_behind_head(FILTER "\0" pairs, sizeof(FILTER "\0" pairs))

TEST(pairs)
{
        ASSERT_OK(PARSE(END));
        ASSERT_OK(PARSE("gid\0"
                        "4294967295\0" END));
        ASSERT_ERR(PARSE("gid\0"
                         "4294967296\0" END),
                   -ERANGE);
        ASSERT_ERR(PARSE("gid\0-1\0" END), -EINVAL);
        ASSERT_ERR(PARSE("gid\0 1\0" END), -EINVAL);
        ASSERT_ERR(PARSE("gid\0\0" END), -EINVAL);
        ASSERT_OK(PARSE("capabilities\0"
                        "18446744073709551615\0" END));
        ASSERT_ERR(PARSE("capabilities\0"
                         "18446744073709551616\0" END),
                   -ERANGE);
        ASSERT_ERR(PARSE("no-new-privileges\0maybe\0" END), -EINVAL);
        ASSERT_ERR(PARSE("no-new-privileges\0\0" END), -EINVAL);
        ASSERT_ERR(PARSE("unknown\0value\0" END), -EBADMSG);
        ASSERT_ERR(PARSE("\0value\0" END), -EBADMSG);
        ASSERT_ERR(PARSE("APP\0value\0" END), -EBADMSG);
        ASSERT_ERR(PARSE("app \0value\0" END), -EBADMSG);
        ASSERT_ERR(PARSE("app\0" END), -EBADMSG); /* one string too few */
        ASSERT_ERR(PARSE(""), -EBADMSG);
        ASSERT_ERR(PARSE("end"), -EBADMSG);
        ASSERT_ERR(PARSE(END "\0"), -EBADMSG);
        ASSERT_ERR(PARSE(END "\0arg\0more"), -EBADMSG);
}

static const struct {
        const char *hex;
        int code;
} filters[] = {
                {"", 0},
                {"0600000000000000", 0},
                {"06000000000000000600000000000000", 0},
                {"060000000000000", -EBADMSG},
                {"06", -EBADMSG},
                {"060000000000000g", -EINVAL},
                {"06000000 0000000", -EINVAL},
};

static int parse_filter(const char *hex, size_t n)
{
        _cleanup_text_ Text t = {};

        text_add_bytes(&t, FILTER, sizeof(FILTER) - 1);
        text_add_bytes(&t, hex, n);
        text_add_bytes(&t, "\0" END, sizeof("\0" END));
        return parse_behind_head(t.data, t.size);
}

TEST(filters)
{
        static char hex[2 * 8 * 4097];

        for (size_t i = 0; i < ELEMENTSOF(filters); i++)
                ASSERT_ERR(parse_filter(filters[i].hex, strlen(filters[i].hex)), filters[i].code);
        memset(hex, '0', sizeof(hex));
        ASSERT_OK(parse_filter(hex, sizeof(hex) - 16)); /* as long as the kernel takes */
        ASSERT_ERR(parse_filter(hex, sizeof(hex)), -EBADMSG);
        ASSERT_ERR(parse_behind_head(END, sizeof(END)), -EBADMSG); /* none at all */
        ASSERT_ERR(PARSE(FILTER "\0" END), -EBADMSG);              /* two */
}

/* Each of the pairs that must be there, left out. */
TEST(missing_pairs)
{
        static const char *const required[] = {"app", "arg", "user", "group", "working-directory", "filter"};

        for (size_t i = 0; i < ELEMENTSOF(required); i++) {
                _cleanup_text_ Text t = {};
                LaunchConfig c = {};
                text_add_bytes(&t, "acnspawn-launch\0001", sizeof("acnspawn-launch\0001"));
                for (size_t k = 0; k < ELEMENTSOF(required); k++)
                        if (k != i) {
                                text_add_bytes(&t, required[k], strlen(required[k]) + 1);
                                text_add_bytes(&t, "", 1);
                        }
                text_add_bytes(&t, END, sizeof(END));
                ASSERT_ERR(launch_config_parse(t.data, t.size, &c), -EBADMSG);
        }
}

TEST(other_files)
{
        LaunchConfig c = {};

        ASSERT_ERR(launch_config_parse("", 0, &c), -EBADMSG);
        ASSERT_ERR(launch_config_parse("\0\0\0\0", 4, &c), -EBADMSG);
        ASSERT_ERR(launch_config_parse("acnspawn-launch\0002\0app\0a", 25, &c), -EBADMSG);
        ASSERT_ERR(launch_config_parse("acnspawn-launch", 15, &c), -EBADMSG);
        ASSERT_ERR(launch_config_parse("app\0a", 6, &c), -EBADMSG);
}

int main(void)
{
        RUN(round_trip);
        RUN(smallest);
        RUN(truncated_anywhere);
        RUN(pairs);
        RUN(filters);
        RUN(missing_pairs);
        RUN(other_files);
        return TEST_END();
}
