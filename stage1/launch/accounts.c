/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Parses the passwd and group files of an image. Their text is untrusted, its size limited by the caller; it is parsed here,
 * without the C library's name services. Like these, it skips lines that are not valid entries: a line of passwd needs a
 * user ID and a group ID, in numbers. If only invalid lines match, the error says what is wrong with one of them. */

#include "stage1/launch/accounts.h"

#define FIELDS_MAX 7U

/* Cuts a line into fields in place. */
static size_t split_at_colons(char *line, char *fields[static FIELDS_MAX])
{
        size_t n = 0;

        for (char *p = line; p && n < FIELDS_MAX;) {
                fields[n++] = p;
                p = strchr(p, ':');
                if (p)
                        *p++ = 0;
        }
        return n;
}

/* The first line of *TEXT; *TEXT is advanced to the next, or set to NULL. */
static char *take_line(char **text)
{
        char *line = *text;

        *text = strchr(line, '\n');
        if (*text)
                *(*text)++ = 0;
        return line;
}

void account_done(Account *a)
{
        free(a->name);
        free(a->home);
        free(a->shell);
        *a = (Account){};
}

static int copy_path(const char *field, char **ret)
{
        if (!path_is_absolute(field))
                return 0;
        *ret = strdup(field);
        return *ret ? 0 : -ENOMEM;
}

static int copy_account(char *const *fields, size_t n, uint32_t id, Account *ret)
{
        Account a = {.found = true, .id = id, .name = strdup(fields[0])};
        int r = a.name ? 0 : -ENOMEM;

        if (n >= 4)
                (void) parse_u32(fields[3], &a.gid);
        if (r >= 0 && n >= 6)
                r = copy_path(fields[5], &a.home);
        if (r >= 0 && n >= 7)
                r = copy_path(fields[6], &a.shell);
        if (r < 0) {
                account_done(&a);
                return r;
        }
        *ret = a;
        return 1;
}

/* Reads the number in field I. Returns NULL, or what is wrong with it. */
static const char *read_number(char *const *fields, size_t n, size_t i, uint32_t *ret)
{
        if (i >= n)
                return "it has no ID";
        int r = parse_u32(fields[i], ret);
        return r == -ERANGE ? "its ID is out of range" : r < 0 ? "its ID is not a number" : NULL;
}

static const char *read_numbers(AccountKind kind, char *const *fields, size_t n, uint32_t *ret)
{
        const char *wrong = read_number(fields, n, 2, ret);
        uint32_t gid;

        if (wrong || kind == ACCOUNT_GROUP)
                return wrong;
        if (n < 4)
                return "it has no group ID";
        int r = parse_u32(fields[3], &gid);
        return r == -ERANGE ? "its group ID is out of range" : r < 0 ? "its group ID is not a number" : NULL;
}

int accounts_find(char *text, AccountKind kind, const char *name, uint32_t id, Account *ret,
                  const char **ret_wrong)
{
        char *fields[FIELDS_MAX];

        while (text) {
                size_t n = split_at_colons(take_line(&text), fields);
                uint32_t number;

                const char *wrong = read_numbers(kind, fields, n, &number);
                if (!wrong && (name ? streq(fields[0], name) : number == id))
                        return copy_account(fields, n, number, ret);
                if (wrong && name && ret_wrong && streq(fields[0], name))
                        *ret_wrong = wrong;
        }
        return 0;
}

static bool lists_member(char *members, const char *name)
{
        for (char *m; (m = strsep(&members, ","));)
                if (streq(m, name))
                        return true;
        return false;
}

int accounts_list_groups(char *text, const char *user, int (*add)(void *userdata, gid_t gid), void *userdata)
{
        char *fields[FIELDS_MAX];

        while (text) {
                size_t n = split_at_colons(take_line(&text), fields);
                uint32_t gid;

                if (n < 4 || parse_u32(fields[2], &gid) < 0 || gid == UINT32_MAX ||
                    !lists_member(fields[3], user))
                        continue;
                int r = add(userdata, gid);
                if (r < 0)
                        return r;
        }
        return 0;
}
