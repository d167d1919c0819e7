/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reads and writes lists of hooks: [{"path":"/usr/bin/x","args":["x","y"],"env":["A=b"],"timeout":5}]. */

#include "schema/hooks.h"
#include "schema/schema.h"

#define WORDS_MAX 4096U
#define DEPTH_MAX 4U
#define VALUES_MAX 65536U

static void hook_done(Hook *h)
{
        free(h->path);
        strv_free(h->args);
        strv_free(h->env);
}

void hook_list_done(HookList *l)
{
        for (size_t i = 0; i < l->n; i++)
                hook_done(&l->items[i]);
        free(l->items);
        *l = (HookList){};
}

static int read_words(json_object *o, const char *key, char ***ret, Error *e)
{
        json_object *list;
        size_t n = 0;

        int r = json_member_read_list(o, key, "", WORDS_MAX, &list, &n, e);
        for (size_t i = 0; r >= 0 && i < n; i++) {
                json_object *word = json_object_array_get_idx(list, i);
                if (!json_object_is_type(word, json_type_string))
                        return error_set(e, -EINVAL, "\"%s\" is not a list of strings", key);
                if (strv_extend(ret, json_object_get_string(word)) < 0)
                        return error_oom(e);
        }
        return r;
}

static int read_environment(json_object *o, Hook *h, Error *e)
{
        int r = read_words(o, "env", &h->env, e);

        STRV_FOREACH (word, h->env) {
                const char *equals = strchr(*word, '=');
                if (r >= 0 && (!equals || equals == *word))
                        r = error_set(e, -EINVAL, "\"env\" has '%s', which is not NAME=VALUE", *word);
        }
        return r;
}

static int read_timeout(json_object *o, Hook *h, Error *e)
{
        json_object *value;

        h->timeout_sec = HOOK_TIMEOUT_SEC_DEFAULT;
        int r = json_member_read(o, "timeout", json_type_int, "", &value, e);
        if (r < 0 || !value)
                return r;
        int64_t n = json_object_get_int64(value);
        if (n <= 0 || n > HOOK_TIMEOUT_SEC_MAX)
                return error_set(e, -EINVAL, "\"timeout\" is %" PRId64 ", but may be from 1 to %u seconds",
                                 n, HOOK_TIMEOUT_SEC_MAX);
        h->timeout_sec = (unsigned) n;
        return 0;
}

static int read_hook(json_object *o, Hook *h, Error *e)
{
        const char *path = NULL;

        int r = json_member_read_text(o, "path", "", &path, e);
        if (r < 0)
                return r;
        if (!path || !path_is_normalized(path))
                return error_set(e, -EINVAL, "\"path\" of a hook is '%s', which is not an absolute path",
                                 path ?: "");
        h->path = strdup(path);
        if (!h->path)
                return error_oom(e);
        r = read_words(o, "args", &h->args, e);
        if (r >= 0)
                r = read_environment(o, h, e);
        return r < 0 ? r : read_timeout(o, h, e);
}

int hook_list_read(HookList *l, json_object *o, Error *e)
{
        Hook h = {};

        if (l->n >= HOOKS_MAX)
                return error_set(e, -EINVAL, "There are more than %u hooks", HOOKS_MAX);
        int r = read_hook(o, &h, e);
        if (r >= 0 && GREEDY_REALLOC(l->items, l->allocated, l->n + 1) < 0)
                r = error_oom(e);
        if (r < 0) {
                hook_done(&h);
                return r;
        }
        l->items[l->n++] = h;
        return 0;
}

static int copy_hook(const Hook *h, Hook *ret)
{
        Hook copy = {.path = strdup(h->path), .timeout_sec = h->timeout_sec};

        if (!copy.path || (h->args && strv_copy(h->args, &copy.args) < 0) ||
            (h->env && strv_copy(h->env, &copy.env) < 0)) {
                hook_done(&copy);
                return -ENOMEM;
        }
        *ret = copy;
        return 0;
}

int hook_list_extend(HookList *l, const HookList *from)
{
        for (size_t i = 0; i < from->n; i++) {
                if (l->n >= HOOKS_MAX)
                        return -E2BIG;
                if (GREEDY_REALLOC(l->items, l->allocated, l->n + 1) < 0)
                        return -ENOMEM;
                int r = copy_hook(&from->items[i], &l->items[l->n]);
                if (r < 0)
                        return r;
                l->n++;
        }
        return 0;
}

int hook_list_parse(const char *text, HookList *ret, Error *e)
{
        _cleanup_json_ json_object *list = NULL;
        _cleanup_hook_list_ HookList l = {};

        int r = json_parse_bounded(text, strlen(text), DEPTH_MAX, VALUES_MAX, &list, NULL, e);
        if (r >= 0 && !json_object_is_type(list, json_type_array))
                r = error_set(e, -EINVAL, "It is not a list of hooks");
        for (size_t i = 0; r >= 0 && i < json_object_array_length(list); i++) {
                json_object *o = json_object_array_get_idx(list, i);
                r = json_object_is_type(o, json_type_object)
                                    ? hook_list_read(&l, o, e)
                                    : error_set(e, -EINVAL, "It is not a list of hooks");
        }
        if (r < 0)
                return r;
        *ret = l;
        l = (HookList){};
        return 0;
}

/* --- Writing ------------------------------------------------------------------------------------------- */

static int add_hook(json_object *list, const Hook *h)
{
        json_object *o = json_object_new_object();

        int r = json_list_append(list, o);
        if (r >= 0)
                r = json_member_add_text(o, "path", h->path);
        if (r >= 0 && h->args)
                r = json_member_add(o, "args", json_new_string_list(h->args));
        if (r >= 0 && h->env)
                r = json_member_add(o, "env", json_new_string_list(h->env));
        return r < 0 ? r : json_member_add(o, "timeout", json_object_new_int64(h->timeout_sec));
}

int hook_list_format(const HookList *l, char **ret)
{
        _cleanup_json_ json_object *list = json_object_new_array();
        int r = list ? 0 : -ENOMEM;

        for (size_t i = 0; r >= 0 && i < l->n; i++)
                r = add_hook(list, &l->items[i]);
        const char *text = r < 0 ? NULL : json_print(list);
        if (!text)
                return r < 0 ? r : -ENOMEM;
        *ret = strdup(text);
        return *ret ? 0 : -ENOMEM;
}
