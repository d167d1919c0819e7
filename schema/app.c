/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The app object of image manifests and pod manifests (spec: aci.md): the command, its user and its
 * environment. */

#include "schema/schema-internal.h"

/* --- Event handlers ------------------------------------------------------------------------------------ */

/* A handler without exec is treated as absent: the reference accepts it. */
typedef struct Handler {
        char *name;
        char **exec;
} Handler;

static int handler_name_check(const char *s, Error *e)
{
        if (streq(s, "pre-start") || streq(s, "post-stop"))
                return 0;
        return error_value(e, s, "is not an event: expected pre-start or post-stop");
}

static const Type type_handler_name = {STRING_OPS, .size = sizeof(char *), .check = handler_name_check};
static const Field handler_fields[] = {
                {"exec", &type_strings, offsetof(Handler, exec)},
                {"name", &type_handler_name, offsetof(Handler, name), FIELD_REQUIRED},
                {},
};
static const Type type_handler = {OBJECT_OPS, .size = sizeof(Handler), .fields = handler_fields};

static void handler_parse(Parser *p, json_object *v, App *a, bool seen[static 2])
{
        Handler h = {};

        object_parse(p, &type_handler, v, &h);
        if (h.name) {
                bool stop = streq(h.name, "post-stop");
                char ***place = stop ? &a->post_stop : &a->pre_start;

                if (seen[stop])
                        parser_finding(p, "there is already a handler for %s", h.name);
                else
                        *place = TAKE_PTR(h.exec);
                seen[stop] = true;
        }
        object_done(&type_handler, &h);
}

static void handlers_parse(Parser *p, const Type *t, json_object *v, void *target)
{
        bool seen[2] = {};

        if (!json_object_is_type(v, json_type_array)) {
                parser_wrong_type(p, "a list", v);
                return;
        }
        for (size_t i = 0; i < json_object_array_length(v); i++) {
                size_t mark = parser_enter_index(p, i);
                handler_parse(p, json_object_array_get_idx(v, i), target, seen);
                parser_leave(p, mark);
        }
}

static int handler_format(json_object *list, const char *name, char **exec)
{
        Handler h = {.name = (char *) name, .exec = exec};
        json_object *o;

        if (!exec)
                return 0;
        int r = object_format(&type_handler, &h, &o);
        if (r < 0)
                return r;
        return json_list_append(list, o);
}

static int handlers_format(const Type *t, const void *source, json_object **ret)
{
        _cleanup_json_ json_object *list = NULL;
        const App *a = source;

        if (!a->pre_start && !a->post_stop)
                return 0;
        list = json_object_new_array();
        if (!list || handler_format(list, "pre-start", a->pre_start) < 0 ||
            handler_format(list, "post-stop", a->post_stop) < 0)
                return -ENOMEM;
        *ret = TAKE_PTR(list);
        return 1;
}

static int handlers_copy(const Type *t, const void *source, void *target)
{
        const App *from = source;
        App *to = target;
        int r = strings_copy(&type_strings, &from->pre_start, &to->pre_start);

        return r < 0 ? r : strings_copy(&type_strings, &from->post_stop, &to->post_stop);
}

static void handlers_done(const Type *t, void *target)
{
        App *a = target;

        a->pre_start = strv_free(a->pre_start);
        a->post_stop = strv_free(a->post_stop);
}

static const Type type_handlers = {
                .parse = handlers_parse,
                .format = handlers_format,
                .copy = handlers_copy,
                .done = handlers_done,
};

/* --- Mount points -------------------------------------------------------------------------------------- */

/* Paths inside an app's root are normalized, so that the mounts of a pod manifest can be matched with them:
 * absolute (a relative path is taken as relative to the root; both the specification and the reference leave
 * that open) and without duplicate slashes. ".." is not allowed. */
static int inside_path_convert(const char *s, char **ret, Error *e)
{
        _cleanup_free_ char *absolute = NULL;

        if (!*s)
                return error_set(e, -EINVAL, "must not be empty");
        if (xasprintf(&absolute, "/%s", s) < 0)
                return error_oom(e);
        int r = path_normalize(absolute, ret);
        if (r == -ENOMEM)
                return error_oom(e);
        if (r < 0)
                return error_value(e, s, "is not a valid mount path: it must not contain \"..\"");
        return 0;
}

const Type type_mount_path = {STRING_OPS, .size = sizeof(char *), .convert = inside_path_convert};

static const Field mount_point_fields[] = {
                {"name", &type_ac_name, offsetof(MountPoint, name), FIELD_REQUIRED},
                {"path", &type_mount_path, offsetof(MountPoint, path), FIELD_REQUIRED},
                {"readOnly", &type_bool, offsetof(MountPoint, read_only)},
                {},
};
static const Type type_mount_point = {OBJECT_OPS, .size = sizeof(MountPoint), .fields = mount_point_fields};
static const Type type_mount_points = {LIST_OPS, .item = &type_mount_point};

/* --- Ports --------------------------------------------------------------------------------------------- */

static void port_init(void *target)
{
        Port *port = target;

        port->count = 1;
}

/* The specification requires at least 1; the reference reads 0 as 1, and existing manifests contain it. */
static void port_finish(Parser *p, void *target)
{
        Port *port = target;

        port->count = port->count ?: 1;
        if (port->port + port->count > 65536) {
                size_t mark = parser_enter_key(p, "count");
                parser_finding(p, "the range of %" PRIu32 " ports from %" PRIu32 " on ends beyond 65535",
                               port->count, port->port);
                parser_leave(p, mark);
        }
}

/* A count of 1 is the default and is not written. */
static int count_format(const Type *t, const void *source, json_object **ret)
{
        const uint32_t *count = source;

        return *count <= 1 ? 0 : u32_format(t, source, ret);
}

static const Type type_count = {
                .parse = u32_parse,
                .format = count_format,
                .size = sizeof(uint32_t),
                .max = 65535,
};

static const Field port_fields[] = {
                {"name", &type_ac_name, offsetof(Port, name), FIELD_REQUIRED},
                {"protocol", &type_string_required, offsetof(Port, protocol), FIELD_REQUIRED},
                {"port", &type_port_number, offsetof(Port, port), FIELD_REQUIRED},
                {"count", &type_count, offsetof(Port, count)},
                {"socketActivated", &type_bool, offsetof(Port, socket_activated)},
                {},
};
static const Type type_port = {
                OBJECT_OPS,        .size = sizeof(Port),  .fields = port_fields,
                .init = port_init, .finish = port_finish,
};
static const Type type_ports = {LIST_OPS, .item = &type_port};
const Type type_port_pointer = {POINTER_OPS, .size = sizeof(Port *), .item = &type_port};

/* --- The app ------------------------------------------------------------------------------------------- */

static const Type type_gid_list = {LIST_OPS, .item = &type_uid};

static const Field app_fields[] = {
                {"exec", &type_strings, offsetof(App, exec)},
                {"user", &type_string_required, offsetof(App, user), FIELD_REQUIRED},
                {"group", &type_string_required, offsetof(App, group), FIELD_REQUIRED},
                LIST_FIELD("supplementaryGIDs", App, supplementary_gids, n_supplementary_gids,
                           &type_gid_list, 0),
                {"eventHandlers", &type_handlers, 0},
                {"workingDirectory", &type_absolute_path, offsetof(App, working_directory)},
                {"environment", &type_environment, offsetof(App, environment)},
                {"isolators", &type_isolators, offsetof(App, isolators)},
                LIST_FIELD("mountPoints", App, mount_points, n_mount_points, &type_mount_points, 0),
                LIST_FIELD("ports", App, ports, n_ports, &type_ports, 0),
                {"userAnnotations", &type_user_map, offsetof(App, user_annotations)},
                {"userLabels", &type_user_map, offsetof(App, user_labels)},
                {},
};
static const Type type_app = {OBJECT_OPS, .size = sizeof(App), .fields = app_fields};
const Type type_app_pointer = {POINTER_OPS, .size = sizeof(App *), .item = &type_app};

App *app_free(App *a)
{
        pointer_done(&type_app_pointer, &a);
        return NULL;
}

int app_copy(const App *a, App **ret)
{
        _cleanup_(app_freep) App *copy = NULL;
        int r = pointer_copy(&type_app_pointer, &a, &copy);

        if (r < 0)
                return r;
        *ret = TAKE_PTR(copy);
        return 0;
}
