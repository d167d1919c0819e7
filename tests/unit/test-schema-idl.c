/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Descriptions of interfaces: what is accepted. test-varlink.c has values that are compared with one. */

#include "schema/idl.h"
#include "tests/unit/test.h"

TEST(descriptions)
{
        static const struct {
                const char *text;
                int r; /* of looking for what is not there */
        } table[] = {
                        {"interface a.b", -ENOENT},
                        {"interface a.b # the end", -ENOENT},
                        {"\n#x\ninterface a--0.0-b.c\nmethod M()->()", -ENOENT},
                        {"interface a.b type T () type E (a) type S (a: T, b: ?[]?[]?E)", -ENOENT},
                        {"interface a.b error E ()", -ENOENT},
                        {"interface a.b type T (type: int, method: bool, string: string, intro: int)",
                         -ENOENT},
                        {"", -EBADMSG},
                        {"interfacea.b", -EBADMSG},
                        {"interface", -EBADMSG},
                        {"interface a.b\n\ninterface c.d", -EBADMSG},
                        {"interface a.b type T", -EBADMSG},
                        {"interface a.b type T (", -EBADMSG},
                        {"interface a.b type T (a", -EBADMSG},
                        {"interface a.b type T (a,", -EBADMSG},
                        {"interface a.b type T (a,)", -EBADMSG},
                        {"interface a.b type T (a b)", -EBADMSG},
                        {"interface a.b type T (a: integer)", -EBADMSG},
                        {"interface a.b type T (a: ??int)", -EBADMSG},
                        {"interface a.b type T (a: [int]int)", -EBADMSG},
                        {"interface a.b type T (a: [])", -EBADMSG},
                        {"interface a.b type T int", -EBADMSG},
                        {"interface a.b method M()", -EBADMSG},
                        {"interface a.b method M() ->", -EBADMSG},
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                const char *p = NULL;
                ASSERT_ERR(idl_find(table[i].text, "type", "Nothing", &p), table[i].r);
                ASSERT_NULL(p);
        }
        /* Lists in lists, without an end. */
        char deep[256] = "interface a.b type T (a: ";
        const char *p = NULL;
        for (unsigned i = 0; i < 100; i++)
                strcat(deep, "[]");
        strcat(deep, "int)");
        ASSERT_ERR(idl_find(deep, "type", "Nothing", &p), -EBADMSG);
}

int main(void)
{
        RUN(descriptions);
        return TEST_END();
}
