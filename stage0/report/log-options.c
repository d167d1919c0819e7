/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Parses the parameters of Logs, a method of the pod's interface. */

#include "stage0/report/report-internal.h"

static json_object *find(json_object *parameters, const char *key)
{
        json_object *value = NULL;

        return json_object_object_get_ex(parameters, key, &value) ? value : NULL;
}

static bool take_flag(json_object *parameters, const char *key)
{
        json_object *value = find(parameters, key);

        return value && json_object_get_boolean(value);
}

/* Unchanged if it is absent. */
static int take_number(json_object *parameters, const char *key, int64_t min, uint64_t *ret)
{
        json_object *value = find(parameters, key);

        if (!value)
                return 0;
        if (!json_object_is_type(value, json_type_int) || json_object_get_int64(value) < min)
                return -EINVAL;
        *ret = (uint64_t) json_object_get_int64(value);
        return 0;
}

static int take_text(json_object *parameters, const char *key, const char **ret)
{
        json_object *value = find(parameters, key);

        if (value && !json_object_is_type(value, json_type_string))
                return -EINVAL;
        *ret = value ? json_object_get_string(value) : NULL;
        return 0;
}

int log_options_read(json_object *parameters, LogOptions *ret, const char **ret_wrong)
{
        LogOptions o = {.raw = true,
                        .lines = UINT64_MAX,
                        .follow = take_flag(parameters, "follow"),
                        .prefix = take_flag(parameters, "prefix"),
                        .timestamps = take_flag(parameters, "timestamps")};
        const char *format = NULL;

        if (take_text(parameters, *ret_wrong = "app", &o.app) < 0 ||
            take_number(parameters, *ret_wrong = "lines", 0, &o.lines) < 0 ||
            take_number(parameters, *ret_wrong = "sinceUSec", 0, &o.since_usec) < 0 ||
            take_number(parameters, *ret_wrong = "untilUSec", 1, &o.until_usec) < 0 ||
            take_text(parameters, *ret_wrong = "format", &format) < 0)
                return -EINVAL;
        o.json = streq_ptr(format, "json");
        if (format && !o.json && !streq(format, "text"))
                return -EINVAL;
        *ret = o;
        return 0;
}
