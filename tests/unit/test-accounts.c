/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Entries of an image's passwd and group. */

#include "stage1/launch/accounts.h"
#include "tests/unit/test.h"

#define PASSWD                                                                                              \
        "root:x:0:0:root:/root:/bin/sh\n\n# a comment\nshort:x\nbad:x:many:1::/:\n"                         \
        "app:x:1000:50::relative:/bin/app\napp:x:7:7:::\nlast:x:2:3::/home/last:/bin/last"

TEST(entries)
{
        static const struct {
                const char *name;
                uint32_t id; /* without a name */
                const char *expected;
        } l[] = {
                        {"root", 0, "root 0 0 /root /bin/sh"},
                        {"app", 0, "app 1000 50 - /bin/app"},
                        {"last", 0, "last 2 3 /home/last /bin/last"},
                        {NULL, 7, "app 7 7 - -"},
                        {NULL, 1000, "app 1000 50 - /bin/app"},
                        {"short", 0, NULL},
                        {"bad", 0, NULL},
                        {"", 0, NULL},
                        {NULL, 5, NULL},
        };

        for (size_t i = 0; i < ELEMENTSOF(l); i++) {
                _cleanup_free_ char *text = strdup(PASSWD), *shown = NULL;
                Account a = {};
                ASSERT_EQ(accounts_find(text, ACCOUNT_USER, l[i].name, l[i].id, &a, NULL),
                          l[i].expected != NULL);
                if (l[i].expected) {
                        ASSERT_OK(xasprintf(&shown, "%s %u %u %s %s", a.name, a.id, a.gid, a.home ?: "-",
                                            a.shell ?: "-"));
                        ASSERT_STREQ(shown, l[i].expected);
                }
                account_done(&a);
        }
}

/* Like the C library, it skips truncated lines: they must not make a user root. */
TEST(lines_that_are_not_valid)
{
        static const struct {
                const char *text;
                AccountKind kind;
                int found;
                uint32_t id;
                const char *wrong;
        } l[] = {
                        {"web:x:0\nweb:x:33:33::/:\n", ACCOUNT_USER, 1, 33, ""},
                        {"web:x:0\n", ACCOUNT_USER, 0, 0, "it has no group ID"},
                        {"web:x:0:\n", ACCOUNT_USER, 0, 0, "its group ID is not a number"},
                        {"web:x:0:0\n", ACCOUNT_USER, 1, 0, NULL},
                        {"web\n", ACCOUNT_USER, 0, 0, "it has no ID"},
                        {"web:x::0::/:\n", ACCOUNT_USER, 0, 0, "its ID is not a number"},
                        {"web:x:4294967296:1::/:\n", ACCOUNT_USER, 0, 0, "its ID is out of range"},
                        {"web:x:1:4294967296::/:\n", ACCOUNT_USER, 0, 0, "its group ID is out of range"},
                        {"other:x:0\n", ACCOUNT_USER, 0, 0, NULL},
                        {"web:x:33\n", ACCOUNT_GROUP, 1, 33, NULL},
                        {"web:x\nweb:x:5:a,b\n", ACCOUNT_GROUP, 1, 5, ""},
                        {"web:x:99999999999:\n", ACCOUNT_GROUP, 0, 0, "its ID is out of range"},
        };

        for (size_t i = 0; i < ELEMENTSOF(l); i++) {
                _cleanup_free_ char *text = strdup(l[i].text);
                const char *wrong = NULL;
                Account a = {};
                ASSERT_EQ(accounts_find(text, l[i].kind, "web", 0, &a, &wrong), l[i].found);
                if (l[i].found)
                        ASSERT_EQ(a.id, l[i].id);
                if (!l[i].wrong || l[i].wrong[0])
                        ASSERT_STREQ(wrong ?: "-", l[i].wrong ?: "-");
                account_done(&a);
        }
}

static int add_group(void *userdata, gid_t gid)
{
        Text *t = userdata;

        if (gid == 13)
                return -E2BIG;
        text_addf(t, "%u ", gid);
        return 0;
}

/* An empty line is not the end: membership in a group may also deny access, so none may be left out. */
TEST(groups)
{
        _cleanup_free_ char *
                        text = strdup("root:x:0:\n\nstaff:x:50:www,app\n\n\nadm:x:4:app\nnear:x:5:apple,ap\n"
                                      "all:x:4294967295:app\nlast:x:6:www,,app"),
                       *more = strdup("a:x:1:u\nb:x:13:u\nc:x:2:u"), *found = NULL;
        _cleanup_text_ Text t = {}, u = {};

        ASSERT_OK(accounts_list_groups(text, "app", add_group, &t));
        ASSERT_OK(text_take(&t, &found, NULL));
        ASSERT_STREQ(found, "50 4 6 ");
        ASSERT_ERR(accounts_list_groups(more, "u", add_group, &u), -E2BIG);
        ASSERT_OK(accounts_list_groups(NULL, "u", add_group, &u));
}

int main(void)
{
        RUN(entries);
        RUN(lines_that_are_not_valid);
        RUN(groups);
        return TEST_END();
}
