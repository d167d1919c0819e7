/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* accounts.c: lines of passwd and group. Pure functions; the text, which may be NULL, is modified. */

#include "basic/basic.h"

typedef struct Account {
        bool found;
        uint32_t id, gid;
        char *name, *home, *shell; /* home and shell are absolute paths, or NULL; all are owned */
} Account;

void account_done(Account *a);
typedef enum AccountKind {
        ACCOUNT_USER,  /* of passwd */
        ACCOUNT_GROUP, /* of group */
} AccountKind;

/* Finds the first entry of TEXT, passwd or group, with that NAME, or (NAME is NULL) that number. 1: found, in *RET; 0: not
 * found: *RET_WRONG, which may be NULL, says what is wrong with an invalid line of that name, if there is one. */
int accounts_find(char *text, AccountKind kind, const char *name, uint32_t id, Account *ret,
                  const char **ret_wrong);
/* Calls ADD for each group of TEXT that lists USER as a member, until a call fails. */
int accounts_list_groups(char *text, const char *user, int (*add)(void *userdata, gid_t gid),
                         void *userdata);
