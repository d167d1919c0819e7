/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* passwd and group of an image. The first byte selects the lookup: a digit, the entry of that number; 'g',
 * the groups of a user; else the entry of a name. The first line is the name, the rest the text. */

#include "stage1/launch/accounts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_account(const Account *a, const char *name, uint32_t id)
{
        if (!a->found || !a->name || (name ? !streq(a->name, name) : a->id != id) ||
            (a->home && a->home[0] != '/') || (a->shell && a->shell[0] != '/') || strpbrk(a->name, ":\n") ||
            (a->home && strpbrk(a->home, ":\n")))
                abort();
}

static int count_group(void *userdata, gid_t gid)
{
        size_t *n = userdata;

        if (gid == UINT32_MAX || *n > 1000)
                abort();
        return ++*n < 1000 ? 0 : -E2BIG;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size < 2)
                return 0;
        _cleanup_free_ char *copy = strndup((const char *) data + 1, size - 1);
        char *text = copy, *name = copy ? strsep(&text, "\n") : NULL;
        const char *wrong = NULL;
        Account a = {};
        size_t n = 0;

        if (!name)
                return 0;
        if (data[0] == 'g')
                (void) accounts_list_groups(text, name, count_group, &n);
        else if (data[0] >= '0' && data[0] <= '9') {
                if (accounts_find(text, ACCOUNT_USER, NULL, data[0] - '0', &a, NULL) > 0)
                        check_account(&a, NULL, data[0] - '0');
        } else if (accounts_find(text, ACCOUNT_GROUP, name, 0, &a, &wrong) > 0)
                check_account(&a, name, 0);
        account_done(&a);
        return 0;
}
