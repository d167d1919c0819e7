/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calls of apps, as JSON of Mesos' v1 agent API: strict, so that nothing that a client asks for is passed over. */

#include "containers/call-internal.h"
#include "schema/nested.h"

static const struct {
        const char *type, *member, *method;
        CallKind kind;
} calls[] = {
                {"LAUNCH_CONTAINER", "launch_container", "Launch", CALL_LAUNCH},
                {"LAUNCH_NESTED_CONTAINER", "launch_nested_container", "Launch", CALL_LAUNCH},
                {"LAUNCH_NESTED_CONTAINER_SESSION", "launch_nested_container_session", "Session",
                 CALL_SESSION},
                {"WAIT_CONTAINER", "wait_container", "Wait", CALL_WAIT},
                {"WAIT_NESTED_CONTAINER", "wait_nested_container", "Wait", CALL_WAIT},
                {"KILL_CONTAINER", "kill_container", "Kill", CALL_KILL},
                {"KILL_NESTED_CONTAINER", "kill_nested_container", "Kill", CALL_KILL},
                {"REMOVE_CONTAINER", "remove_container", "Remove", CALL_REMOVE},
                {"REMOVE_NESTED_CONTAINER", "remove_nested_container", "Remove", CALL_REMOVE},
                {"GET_CONTAINERS", "get_containers", "List", CALL_LIST},
                {"ATTACH_CONTAINER_OUTPUT", "attach_container_output", "Output", CALL_OUTPUT},
                {"ATTACH_CONTAINER_INPUT", "attach_container_input", "Input", CALL_INPUT},
};

#define SIGNAL_KILL 9
#define SIGNALS_MAX 64

void container_call_done(ContainerCall *c)
{
        json_object_put(c->parameters);
        c->parameters = NULL;
}

/* --- Members ------------------------------------------------------------------------------------------- */

int call_wrong(Error *e, const char *where, const char *key, const char *why)
{
        return error_set(e, -EINVAL, "%s%s%s %s", where, isempty(where) ? "" : ".", key, why);
}

int call_check_keys(json_object *o, const char *where, const char *const *keys, Error *e)
{
        json_object_object_foreach (o, key, value) {
                bool known = false;

                (void) value;
                for (const char *const *k = keys; *k && !known; k++)
                        known = streq(*k, key);
                if (!known) {
                        _cleanup_free_ char *shown = text_escape_for_terminal(key);
                        return call_wrong(e, where, shown ?: "?", "is not known");
                }
        }
        return 0;
}

int call_get(json_object *o, const char *where, const char *key, json_type type, bool needed,
             json_object **ret, Error *e)
{
        json_object *v = NULL;

        *ret = NULL;
        if (!json_object_object_get_ex(o, key, &v) || !v)
                return needed ? call_wrong(e, where, key, "is missing") : 0;
        if (!json_object_is_type(v, type))
                return call_wrong(e, where, key, "has the wrong type");
        if (type == json_type_string &&
            strlen(json_object_get_string(v)) != (size_t) json_object_get_string_len(v))
                return call_wrong(e, where, key, "contains a NUL character");
        *ret = v;
        return 0;
}

int call_get_text(json_object *o, const char *where, const char *key, bool needed, const char **ret,
                  Error *e)
{
        json_object *v;
        int r = call_get(o, where, key, json_type_string, needed, &v, e);

        if (r >= 0)
                *ret = v ? json_object_get_string(v) : NULL;
        return r;
}

static int add_text(json_object *o, const char *key, const char *value, Error *e)
{
        return value && json_member_add_text(o, key, value) < 0 ? error_oom(e) : 0;
}

/* --- Containers ---------------------------------------------------------------------------------------- */

/* From the innermost out. */
static int read_id(json_object *id, const char *where, char **ret, Error *e)
{
        static const char *const keys[] = {"parent", "value", NULL};
        _cleanup_free_ char *path = NULL;
        unsigned level = 0;

        for (json_object *at = id; at;) {
                const char *value = NULL;
                char *longer = NULL;
                int r = call_check_keys(at, where, keys, e);

                if (r >= 0)
                        r = call_get_text(at, where, "value", true, &value, e);
                if (r < 0)
                        return r;
                if (++level > NESTED_LEVELS_MAX || strchr(value, '/'))
                        return error_set(e, -EINVAL, "%s is not the name of an app below another one",
                                         where);
                r = path ? xasprintf(&longer, "%s/%s", value, path) : xasprintf(&longer, "%s", value);
                if (r < 0)
                        return error_oom(e);
                free(path);
                path = longer;
                r = call_get(at, where, "parent", json_type_object, false, &at, e);
                if (r < 0)
                        return r;
        }
        if (!path || !nested_is_path(path))
                return error_set(
                                e, -EINVAL,
                                "%s is not the name of an app below another one: lower-case letters, digits "
                                "and '-', with that of the parent in 'parent'",
                                where);
        *ret = TAKE_PTR(path);
        return 0;
}

static int add_container(const ContainerCall *c, json_object *o, Error *e)
{
        _cleanup_free_ char *path = NULL, *where = NULL;
        json_object *id;

        int r = call_get(o, c->member, "container_id", json_type_object, true, &id, e);
        if (r < 0)
                return r;
        if (xasprintf(&where, "%s.container_id", c->member) < 0)
                return error_oom(e);
        r = read_id(id, where, &path, e);
        return r < 0 ? r : add_text(c->parameters, "container", path, e);
}

json_object *container_id_new(const char *path)
{
        json_object *id = NULL;

        for (const char *p = path; *p;) {
                size_t n = strcspn(p, "/");
                json_object *o = json_object_new_object();

                if (!o || json_member_add(o, "value", json_object_new_string_len(p, (int) n)) < 0 ||
                    (id && json_member_add(o, "parent", json_object_get(id)) < 0)) {
                        json_object_put(o);
                        json_object_put(id);
                        return NULL;
                }
                json_object_put(id);
                id = o;
                p += n + (p[n] == '/');
        }
        return id;
}

/* --- Commands ------------------------------------------------------------------------------------------ */

static int add_variables(const ContainerCall *c, json_object *list, Error *e)
{
        static const char *const keys[] = {"name", "type", "value", NULL};
        json_object *all = json_object_new_array();

        if (json_member_add(c->parameters, "environment", all) < 0)
                return error_oom(e);
        for (size_t i = 0; i < json_object_array_length(list); i++) {
                json_object *v = json_object_array_get_idx(list, i), *o;
                const char *name = NULL, *value = NULL, *type = NULL, *where = "environment.variables[]";

                if (!json_object_is_type(v, json_type_object))
                        return call_wrong(e, "", where, "is not an object");
                int r = call_check_keys(v, where, keys, e);
                if (r >= 0)
                        r = call_get_text(v, where, "name", true, &name, e);
                if (r >= 0)
                        r = call_get_text(v, where, "value", true, &value, e);
                if (r >= 0)
                        r = call_get_text(v, where, "type", false, &type, e);
                if (r < 0)
                        return r;
                if (type && !streq(type, "VALUE"))
                        return call_wrong(e, where, "type", "has to be VALUE");
                o = json_object_new_object();
                if (json_list_append(all, o) < 0 || json_member_add_text(o, "name", name) < 0 ||
                    json_member_add_text(o, "value", value) < 0)
                        return error_oom(e);
        }
        return 0;
}

static int read_environment(const ContainerCall *c, json_object *command, Error *e)
{
        static const char *const keys[] = {"variables", NULL};
        json_object *environment, *list = NULL;

        int r = call_get(command, "command", "environment", json_type_object, false, &environment, e);
        if (r >= 0 && environment)
                r = call_check_keys(environment, "environment", keys, e);
        if (r >= 0 && environment)
                r = call_get(environment, "environment", "variables", json_type_array, false, &list, e);
        return r < 0 || !list ? r : add_variables(c, list, e);
}

static int append(json_object *list, const char *s, Error *e)
{
        return json_list_append(list, json_object_new_string(s)) < 0 ? error_oom(e) : 0;
}

/* The first of the arguments is the name of the program itself. */
static int add_arguments(json_object *exec, json_object *arguments, Error *e)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && arguments && i < json_object_array_length(arguments); i++) {
                json_object *v = json_object_array_get_idx(arguments, i);
                if (!json_object_is_type(v, json_type_string) ||
                    strlen(json_object_get_string(v)) != (size_t) json_object_get_string_len(v))
                        return call_wrong(e, "command", "arguments", "has an item that is no text");
                if (i > 0)
                        r = append(exec, json_object_get_string(v), e);
        }
        return r;
}

static int add_command(const ContainerCall *c, const char *value, bool shell, json_object *arguments,
                       Error *e)
{
        json_object *exec = json_object_new_array();
        int r = json_member_add(c->parameters, "exec", exec) < 0 ? error_oom(e) : 0;

        if (r >= 0 && shell && arguments && json_object_array_length(arguments) > 0)
                return call_wrong(e, "command", "arguments", "cannot be given with a shell");
        if (r < 0 || !shell) {
                if (r >= 0)
                        r = append(exec, value, e);
                return r < 0 ? r : add_arguments(exec, arguments, e);
        }
        r = append(exec, "/bin/sh", e);
        if (r >= 0)
                r = append(exec, "-c", e);
        return r < 0 ? r : append(exec, value, e);
}

static int read_command(const ContainerCall *c, json_object *o, Error *e)
{
        static const char *const keys[] = {"arguments", "environment", "shell", "user", "value", NULL};
        json_object *command, *shell = NULL, *arguments = NULL;
        const char *value = NULL, *user = NULL;

        int r = call_get(o, c->member, "command", json_type_object, false, &command, e);
        if (r < 0 || !command)
                return r;
        r = call_check_keys(command, "command", keys, e);
        if (r >= 0)
                r = call_get(command, "command", "shell", json_type_boolean, false, &shell, e);
        if (r >= 0)
                r = call_get(command, "command", "arguments", json_type_array, false, &arguments, e);
        if (r >= 0)
                r = call_get_text(command, "command", "value", arguments || shell, &value, e);
        if (r >= 0)
                r = call_get_text(command, "command", "user", false, &user, e);
        if (r >= 0 && value)
                r = add_command(c, value, !shell || json_object_get_boolean(shell), arguments, e);
        if (r >= 0)
                r = add_text(c->parameters, "user", user, e);
        return r < 0 ? r : read_environment(c, command, e);
}

/* --- Images -------------------------------------------------------------------------------------------- */

static int read_image(const ContainerCall *c, json_object *image, Error *e)
{
        static const char *const keys[] = {"appc", "type", NULL}, *const appc_keys[] = {"id", "name", NULL};
        const char *type = NULL, *name = NULL, *id = NULL;
        json_object *appc = NULL;

        int r = call_check_keys(image, "image", keys, e);
        if (r >= 0)
                r = call_get_text(image, "image", "type", true, &type, e);
        if (r >= 0 && !streq(type, "APPC"))
                return call_wrong(e, "image", "type", "has to be APPC: an image of the store");
        if (r >= 0)
                r = call_get(image, "image", "appc", json_type_object, true, &appc, e);
        if (r >= 0)
                r = call_check_keys(appc, "image.appc", appc_keys, e);
        if (r >= 0)
                r = call_get_text(appc, "image.appc", "name", true, &name, e);
        if (r >= 0)
                r = call_get_text(appc, "image.appc", "id", false, &id, e);
        return r < 0 ? r : add_text(c->parameters, "image", id ?: name, e);
}

/* The size of the terminal is that of the client, which is attached later. */
static int read_terminal(const ContainerCall *c, json_object *container, Error *e)
{
        unsigned short rows = 0, columns = 0;
        json_object *info;

        int r = call_get(container, "container", "tty_info", json_type_object, false, &info, e);
        if (r < 0 || !info)
                return r;
        r = call_read_window(info, false, &rows, &columns, e);
        if (r < 0)
                return r;
        return json_member_add(c->parameters, "terminal", json_object_new_boolean(true)) < 0 ? error_oom(e)
                                                                                             : 0;
}

static int read_container(const ContainerCall *c, json_object *o, Error *e)
{
        static const char *const keys[] = {"mesos", "tty_info", "type", NULL};
        static const char *const mesos_keys[] = {"image", NULL};
        json_object *container, *mesos = NULL, *image = NULL;
        const char *type = NULL;

        int r = call_get(o, c->member, "container", json_type_object, false, &container, e);
        if (r < 0 || !container)
                return r;
        r = call_check_keys(container, "container", keys, e);
        if (r >= 0)
                r = call_get_text(container, "container", "type", true, &type, e);
        if (r >= 0 && !streq(type, "MESOS"))
                return call_wrong(e, "container", "type", "has to be MESOS");
        if (r >= 0)
                r = read_terminal(c, container, e);
        if (r >= 0)
                r = call_get(container, "container", "mesos", json_type_object, false, &mesos, e);
        if (r >= 0 && mesos)
                r = call_check_keys(mesos, "container.mesos", mesos_keys, e);
        if (r >= 0 && mesos)
                r = call_get(mesos, "container.mesos", "image", json_type_object, false, &image, e);
        return r < 0 || !image ? r : read_image(c, image, e);
}

/* --- Calls --------------------------------------------------------------------------------------------- */

static int read_launch(const ContainerCall *c, json_object *o, Error *e)
{
        static const char *const keys[] = {"command", "container", "container_id", NULL};
        int r = call_check_keys(o, c->member, keys, e);

        if (r >= 0)
                r = read_command(c, o, e);
        return r < 0 ? r : read_container(c, o, e);
}

static int read_kill(const ContainerCall *c, json_object *o, Error *e)
{
        static const char *const keys[] = {"container_id", "signal", NULL};
        json_object *v = NULL;
        int r = call_check_keys(o, c->member, keys, e);

        if (r >= 0)
                r = call_get(o, c->member, "signal", json_type_int, false, &v, e);
        if (r < 0)
                return r;
        int64_t n = v ? json_object_get_int64(v) : SIGNAL_KILL;
        if (n < 1 || n > SIGNALS_MAX)
                return call_wrong(e, c->member, "signal", "is not the number of a signal");
        return json_member_add(c->parameters, "signal", json_object_new_int64(n)) < 0 ? error_oom(e) : 0;
}

/* The first record of a stream. */
static int read_input(const ContainerCall *c, json_object *o, Error *e)
{
        static const char *const keys[] = {"container_id", "type", NULL};
        const char *type = NULL;
        int r = call_check_keys(o, c->member, keys, e);

        if (r >= 0)
                r = call_get_text(o, c->member, "type", true, &type, e);
        if (r >= 0 && !streq(type, "CONTAINER_ID"))
                return call_wrong(e, c->member, "type", "has to be CONTAINER_ID in the first record");
        return r;
}

static int read_plain(const ContainerCall *c, json_object *o, Error *e)
{
        static const char *const keys[] = {"container_id", NULL};

        return call_check_keys(o, c->member, keys, e);
}

static int read_call(const ContainerCall *c, json_object *o, Error *e)
{
        static const char *const list_keys[] = {"show_nested", "show_standalone", NULL};
        int r;

        if (c->kind == CALL_LIST)
                return call_check_keys(o, c->member, list_keys, e);
        r = c->kind == CALL_LAUNCH || c->kind == CALL_SESSION ? read_launch(c, o, e)
            : c->kind == CALL_KILL                            ? read_kill(c, o, e)
            : c->kind == CALL_INPUT                           ? read_input(c, o, e)
                                                              : read_plain(c, o, e);
        return r < 0 ? r : add_container(c, o, e);
}

static int find_call(const char *type, ContainerCall *c, Error *e)
{
        _cleanup_free_ char *shown = NULL;

        for (size_t i = 0; i < ELEMENTSOF(calls); i++)
                if (streq(calls[i].type, type)) {
                        c->kind = calls[i].kind;
                        c->type = calls[i].type;
                        c->member = calls[i].member;
                        c->method = calls[i].method;
                        return 0;
                }
        shown = text_escape_for_terminal(type);
        return error_set(e, -EINVAL, "There is no call '%s'", shown ?: "?");
}

static int parse(ContainerCall *c, json_object *o, Error *e)
{
        const char *type = NULL;
        json_object *body = NULL;

        int r = json_object_is_type(o, json_type_object)
                                ? call_get_text(o, "", "type", true, &type, e)
                                : error_set(e, -EINVAL, "The call is not an object");
        if (r >= 0)
                r = find_call(type, c, e);
        if (r < 0)
                return r;
        const char *keys[] = {"type", c->member, NULL};
        r = call_check_keys(o, "", keys, e);
        if (r >= 0)
                r = call_get(o, "", c->member, json_type_object, c->kind != CALL_LIST, &body, e);
        return r < 0 || !body ? r : read_call(c, body, e);
}

int container_call_parse(const char *text, size_t size, ContainerCall *ret, Error *e)
{
        _cleanup_container_call_ ContainerCall c = {.parameters = json_object_new_object()};
        _cleanup_json_ json_object *o = NULL;

        if (!c.parameters)
                return error_oom(e);
        int r = json_parse_bounded(text, size, CONTROL_DEPTH_MAX, CONTROL_VALUES_MAX, &o, NULL, e);
        if (r >= 0)
                r = parse(&c, o, e);
        if (r < 0)
                return r;
        *ret = c;
        c.parameters = NULL;
        return 0;
}
