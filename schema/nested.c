/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The names of apps that are nested under others.
 *
 * Users name a nested app by its path, as web/helper/probe. Thirty-two names can be longer than any name of a file, so the name
 * of the app in the pod is a short one that has its place in the tree: that of the app above it, a mark, and a number in
 * digits and letters that is unique in the pod, as web-0n1-0n2. The path is a setting of the app.
 *
 * systemd nests slices by the dashes in their names, so the slice of a nested app, app-web-0n1-0n2.slice, lies below that of
 * the app above it. Dashes of the first app's own name are replaced.
 */

#include "schema/nested.h"

#define MARK "-0n"
#define NAME_MAX_LENGTH 200U /* as of any app: with what is added to it, it is the name of a file */
#define SLICES_MAX_LENGTH                                                                                   \
        3700U /* of PATH_MAX, with the cgroup of the pod before it and that of a command behind */

/* Of a number, and of names. */
static bool is_plain(char c)
{
        return is_digit(c) || is_lower(c);
}

size_t nested_parent_length(const char *name)
{
        size_t end = strlen(name), i = end;

        while (i > 0 && is_plain(name[i - 1]))
                i--;
        /* The mark begins with the dash before these. */
        if (i < 2 || name[i - 1] != '-' || !startswith(name + i - 1, MARK) || end - (i - 1) <= strlen(MARK))
                return 0;
        return i - 1;
}

bool nested_is_name(const char *name)
{
        return nested_parent_length(name) > 0;
}

/* The length of the name of the first app, which is not nested. */
static size_t first_length(const char *name, size_t *ret_level)
{
        _cleanup_free_ char *copy = strdup(name);
        size_t length = strlen(name), level = 1;

        for (size_t n; copy && (n = nested_parent_length(copy)) > 0; level++)
                copy[length = n] = 0;
        *ret_level = level;
        return length;
}

size_t nested_level(const char *name)
{
        size_t level;

        (void) first_length(name, &level);
        return level;
}

bool nested_is_below(const char *name, const char *ancestor)
{
        const char *rest = startswith(name, ancestor);

        while (rest && *rest) {
                rest = startswith(rest, MARK);
                if (!rest || !is_plain(*rest))
                        return false;
                while (is_plain(*rest))
                        rest++;
                if (!*rest)
                        return true;
        }
        return false;
}

int nested_slice(const char *name, char **ret)
{
        size_t level, first = first_length(name, &level);

        int r = xasprintf(ret, "app-%s.slice", name);
        if (r < 0)
                return r;
        for (size_t i = 0; i < first; i++)
                if ((*ret)[strlen("app-") + i] == '-')
                        (*ret)[strlen("app-") + i] = '_';
        return 0;
}

int nested_slices(const char *name, char **ret)
{
        _cleanup_free_ char *slice = NULL;
        _cleanup_text_ Text t = {};
        size_t level, end = first_length(name, &level) + strlen("app-");

        int r = nested_slice(name, &slice);
        if (r < 0)
                return r;
        size_t length = strlen(slice) - strlen(".slice");
        for (; level > 1; level--) {
                text_addf(&t, "%.*s.slice/", (int) end, slice);
                end += strlen(MARK);
                while (end < length && is_plain(slice[end]))
                        end++;
        }
        text_add(&t, slice);
        return text_take(&t, ret, NULL);
}

static void format_number(uint64_t number, char ret[static 16])
{
        static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
        char reverse[16];
        size_t n = 0;

        do
                reverse[n++] = digits[number % 36];
        while ((number /= 36) > 0);
        for (size_t i = 0; i < n; i++)
                ret[i] = reverse[n - 1 - i];
        ret[n] = 0;
}

int nested_name(const char *parent, uint64_t number, char **ret)
{
        _cleanup_free_ char *name = NULL, *slices = NULL;
        char text[16];

        format_number(number, text);
        int r = xasprintf(&name, "%s" MARK "%s", parent, text);
        if (r >= 0)
                r = nested_slices(name, &slices);
        if (r < 0)
                return r;
        if (nested_level(name) > NESTED_LEVELS_MAX)
                return -E2BIG;
        if (strlen(name) > NAME_MAX_LENGTH || strlen(slices) + strlen(name) > SLICES_MAX_LENGTH)
                return -ENAMETOOLONG;
        *ret = TAKE_PTR(name);
        return 0;
}

/* Names as ac_name_check() has them. */
bool nested_is_path(const char *path)
{
        size_t n = 1, length = 0;

        for (const char *c = path; *c; c++) {
                if (is_plain(*c))
                        length++;
                else if ((*c != '-' && *c != '/') || length == 0 || !is_plain(c[-1]) || !is_plain(c[1]))
                        return false;
                n += *c == '/';
                length = *c == '/' ? 0 : length;
        }
        return length > 0 && n >= 2 && n <= NESTED_LEVELS_MAX &&
               strlen(path) <= NESTED_LEVELS_MAX * (NAME_MAX_LENGTH + 1);
}
