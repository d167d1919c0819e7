/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Health checks, from images of OCI's and Docker's formats and from users. Both are converted to the same
 * settings of the app. */

#include "schema/settings.h"

#define COMMAND_MAX 1024U /* arguments */

/* --- Commands ------------------------------------------------------------------------------------------ */

static int add_string(json_object *array, size_t i, char ***l)
{
        json_object *item = json_object_array_get_idx(array, i);

        if (!json_object_is_type(item, json_type_string) ||
            strlen(json_object_get_string(item)) != (size_t) json_object_get_string_len(item))
                return -EINVAL;
        return strv_extend(l, json_object_get_string(item));
}

static int read_array(json_object *array, char ***ret)
{
        _cleanup_strv_free_ char **l = NULL;
        size_t n = json_object_array_length(array);
        int r = n > COMMAND_MAX ? -EINVAL : 0;

        for (size_t i = 0; r >= 0 && i < n; i++)
                r = add_string(array, i, &l);
        if (r >= 0)
                *ret = TAKE_PTR(l);
        return r;
}

static int shell_command(const char *line, char ***ret)
{
        const char *const words[] = {"/bin/sh", "-c", line, NULL};

        return strv_copy((char *const *) words, ret);
}

/* The array as in these formats: ["CMD", …], ["CMD-SHELL", LINE], ["NONE"]; or arguments alone. */
static int command_from_words(char *const *words, char ***ret)
{
        size_t n = strv_length(words);

        *ret = NULL;
        if (n == 0 || (n == 1 && streq(words[0], "NONE")))
                return 0;
        if (streq(words[0], "CMD-SHELL"))
                return n == 2 && words[1][0] ? shell_command(words[1], ret) : -EINVAL;
        if (streq(words[0], "CMD")) {
                words++;
                n--;
        }
        return n > 0 && words[0][0] ? strv_copy(words, ret) : -EINVAL;
}

int health_command_parse(const char *text, char ***ret)
{
        _cleanup_json_ json_object *o = NULL;
        _cleanup_strv_free_ char **words = NULL;

        if (streq(text, "none")) {
                *ret = NULL;
                return 0;
        }
        if (!text[0])
                return -EINVAL;
        /* A shell command can also begin with "[", for example "[ -e /file ] || exit 1". */
        int r = text[0] == '[' ? json_parse_strict(text, strlen(text), &o, NULL, NULL) : -EINVAL;
        if (r >= 0)
                r = json_object_is_type(o, json_type_array) ? read_array(o, &words) : -EINVAL;
        if (r < 0)
                return r == -ENOMEM ? r : shell_command(text, ret);
        r = words ? command_from_words(words, ret) : -EINVAL;
        return r == -ENOMEM ? r : r < 0 ? -EINVAL : 0;
}

/* --- The member of an image's config ------------------------------------------------------------------- */

static const struct {
        const char *member, *setting;
        uint64_t min_usec;
} times[] = {
                {"Interval", "health-interval", 100000},
                {"Timeout", "health-timeout", 100000},
                {"StartPeriod", "health-start-period", 1},
                {"StartInterval", "health-start-interval", 100000},
};

/* A number of at least zero; an absent member counts as 0. */
static int read_count(json_object *o, const char *name, int64_t *ret, Error *e)
{
        json_object *v;

        *ret = 0;
        if (!json_object_object_get_ex(o, name, &v) || !v)
                return 0;
        if (!json_object_is_type(v, json_type_int) || json_object_get_int64(v) < 0)
                return error_set(e, -EINVAL, "%s is not a number of at least zero", name);
        *ret = json_object_get_int64(v);
        return 0;
}

static int add_setting(PairList *l, const char *name, const char *value)
{
        _cleanup_free_ char *full = NULL;
        int r = xasprintf(&full, SETTING_PREFIX "%s", name);

        return r < 0 ? r : pair_list_set(l, full, value);
}

/* In nanoseconds. Times below the supported minimum are set to the minimum. */
static int add_times(json_object *o, PairList *l, Error *e)
{
        for (size_t i = 0; i < ELEMENTSOF(times); i++) {
                _cleanup_free_ char *value = NULL;
                int64_t n;

                int r = read_count(o, times[i].member, &n, e);
                if (r < 0)
                        return r;
                if (n == 0)
                        continue;
                if (xasprintf(&value, "%lluus",
                              (unsigned long long) MAX((uint64_t) n / 1000, times[i].min_usec)) < 0 ||
                    add_setting(l, times[i].setting, value) < 0)
                        return error_oom(e);
        }
        return 0;
}

static int add_retries(json_object *o, PairList *l, Error *e)
{
        char value[24];
        int64_t n;

        int r = read_count(o, "Retries", &n, e);
        if (r < 0 || n == 0)
                return r;
        snprintf(value, sizeof(value), "%lld", (long long) MIN(n, 1000));
        return add_setting(l, "health-retries", value) < 0 ? error_oom(e) : 0;
}

static int add_command(json_object *test, PairList *l, Error *e)
{
        _cleanup_strv_free_ char **words = NULL, **command = NULL;
        const char *text = json_print(test);

        int r = json_object_is_type(test, json_type_array) ? read_array(test, &words) : -EINVAL;
        if (r >= 0)
                r = command_from_words(words, &command);
        if (r == -ENOMEM || !text)
                return error_oom(e);
        if (r < 0)
                return error_set(e, -EINVAL, "Test is not a command such as [\"CMD\", \"/bin/check\"]");
        if (!command)
                return 0;
        return add_setting(l, "health-cmd", text) < 0 ? error_oom(e) : 1;
}

int health_settings_from_oci(const char *text, PairList *ret, Error *e)
{
        _cleanup_json_ json_object *o = NULL;
        json_object *test = NULL;

        int r = json_parse_strict(text, strlen(text), &o, NULL, e);
        if (r < 0)
                return r;
        if (!json_object_is_type(o, json_type_object))
                return error_set(e, -EINVAL, "It is not an object");
        /* Without Test the health check would be inherited from a base image; here there is none. */
        if (!json_object_object_get_ex(o, "Test", &test) || !test)
                return 0;
        r = add_command(test, ret, e);
        if (r <= 0)
                return r;
        r = add_times(o, ret, e);
        return r < 0 ? r : add_retries(o, ret, e);
}
