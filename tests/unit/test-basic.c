/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "basic/basic.h"
#include "tests/unit/test.h"

TEST(startswith)
{
        ASSERT_STREQ(startswith("abc", "ab"), "c");
}

int main(void)
{
        RUN(startswith);
        return TEST_END();
}
