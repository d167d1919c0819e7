/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The config of an OCI or Docker image: how to run it, and the digests of its layers.
 *
 * Members for the tools that write it (history, the config of the container an image was made from) are
 * ignored, with any NUL characters in them. Sets are written as objects whose values have no meaning.
 */

#include "schema/oci.h"
#include "schema/schema-internal.h"

#define SET_MAX 1024U /* ports, volumes */

/* --- Types of values ----------------------------------------------------------------------------------- */

static const Type type_optional_string = {STRING_OPS, .size = sizeof(char *), .empty_is_absent = true};
static const Type type_diff_id = {STRING_OPS, .size = sizeof(char *), .check = oci_digest_check};
static const Type type_diff_ids = {STRINGS_OPS, .size = sizeof(char **), .item = &type_diff_id};

static const Type type_time = {
                STRING_OPS,
                .size = sizeof(char *),
                .check = timestamp_check,
                .empty_is_absent = true,
};

/* The keys of an object. */
static void set_parse(Parser *p, const Type *t, json_object *v, void *target)
{
        char ***place = target;
        size_t n = 0;

        if (!json_object_is_type(v, json_type_object)) {
                parser_wrong_type(p, "an object", v);
                return;
        }
        if (json_object_object_length(v) > (int) SET_MAX) {
                parser_finding(p, "has more than %u members", SET_MAX);
                return;
        }
        *place = calloc((size_t) json_object_object_length(v) + 1, sizeof(char *));
        json_object_object_foreach (v, key, value) {
                if (*place)
                        (*place)[n] = strdup(key);
                if (!*place || !(*place)[n++]) {
                        p->oom = true;
                        return;
                }
        }
}

static const Type type_set = {.parse = set_parse, .done = strings_done, .size = sizeof(char **)};

/* An object that is kept as text. */
static void text_parse(Parser *p, const Type *t, json_object *v, void *target)
{
        char **place = target;

        if (!json_object_is_type(v, json_type_object)) {
                parser_wrong_type(p, "an object", v);
                return;
        }
        const char *text = json_print(v);
        *place = text ? strdup(text) : NULL;
        p->oom = p->oom || !*place;
}

static const Type type_object_text = {.parse = text_parse, .done = string_done, .size = sizeof(char *)};

/* --- The document -------------------------------------------------------------------------------------- */

/* These two are members of the document's own structure. */
static const Field execution_fields[] = {
                {"User", &type_optional_string, offsetof(OciConfig, user)},
                {"ExposedPorts", &type_set, offsetof(OciConfig, exposed_ports)},
                {"Env", &type_strings, offsetof(OciConfig, env)},
                {"Entrypoint", &type_strings, offsetof(OciConfig, entrypoint)},
                {"Cmd", &type_strings, offsetof(OciConfig, cmd)},
                {"Volumes", &type_set, offsetof(OciConfig, volumes)},
                {"WorkingDir", &type_optional_string, offsetof(OciConfig, working_directory)},
                {"Labels", &type_user_map, offsetof(OciConfig, labels)},
                {"StopSignal", &type_optional_string, offsetof(OciConfig, stop_signal)},
                {"Healthcheck", &type_object_text, offsetof(OciConfig, healthcheck)},
                {},
};
static const Type type_execution = {OBJECT_OPS, .size = sizeof(OciConfig), .fields = execution_fields};

/* There has never been another type. */
static void rootfs_type_parse(Parser *p, const Type *t, json_object *v, void *target)
{
        if (!json_object_is_type(v, json_type_string) || !streq(json_object_get_string(v), "layers"))
                parser_warning(p, "is not \"layers\", and is ignored");
}

static const Type type_rootfs_type = {.parse = rootfs_type_parse};
static const Field rootfs_fields[] = {
                {"type", &type_rootfs_type, 0},
                {"diff_ids", &type_diff_ids, offsetof(OciConfig, diff_ids), FIELD_REQUIRED},
                {},
};
static const Type type_rootfs = {OBJECT_OPS, .size = sizeof(OciConfig), .fields = rootfs_fields};

/* Members of a structure that is freed as a whole. */
static void part_parse(Parser *p, const Type *t, json_object *v, void *target)
{
        object_parse(p, t->item, v, target);
}

static const Type type_execution_part = {.parse = part_parse, .item = &type_execution};
static const Type type_rootfs_part = {.parse = part_parse, .item = &type_rootfs};

static const Field config_fields[] = {
                {"created", &type_time, offsetof(OciConfig, created)},
                {"author", &type_optional_string, offsetof(OciConfig, author)},
                {"architecture", &type_optional_string, offsetof(OciConfig, platform.architecture)},
                {"os", &type_optional_string, offsetof(OciConfig, platform.os)},
                {"os.version", &type_optional_string, offsetof(OciConfig, platform.os_version)},
                {"variant", &type_optional_string, offsetof(OciConfig, platform.variant)},
                {"config", &type_execution_part, 0},
                {"rootfs", &type_rootfs_part, 0, FIELD_REQUIRED},
                {},
};

static void config_done(const Type *t, void *target)
{
        OciConfig *c = target;

        pair_list_done(&c->labels);
        for (const Field *f = config_fields; f->name; f++)
                if (f->type->done)
                        f->type->done(f->type, (char *) c + f->offset);
        for (const Field *f = execution_fields; f->name; f++)
                if (f->type->done)
                        f->type->done(f->type, (char *) c + f->offset);
        c->diff_ids = strv_free(c->diff_ids);
}

static void config_parse(Parser *p, const Type *t, json_object *v, void *target)
{
        const OciConfig *c = target;

        object_parse(p, t, v, target);
        if (strv_length(c->diff_ids) > OCI_LAYERS_MAX) {
                size_t mark = parser_enter_key(p, "rootfs");
                (void) parser_enter_key(p, "diff_ids");
                parser_finding(p, "there are %zu; at most %u layers can be stacked",
                               strv_length(c->diff_ids), OCI_LAYERS_MAX);
                parser_leave(p, mark);
        }
}

static const Type type_config = {
                .parse = config_parse,
                .done = config_done,
                .size = sizeof(OciConfig),
                .fields = config_fields,
};
static const Type type_config_pointer = {POINTER_OPS, .size = sizeof(void *), .item = &type_config,
                                         .nul_is_parsed = true, .extensible = true};

OciConfig *oci_config_free(OciConfig *c)
{
        pointer_done(&type_config_pointer, &c);
        return NULL;
}

int oci_config_parse(const char *text, size_t size, OciConfig **ret, Findings *findings, Error *e)
{
        _cleanup_(oci_config_freep) OciConfig *c = NULL;

        int r = manifest_parse(text, size, "OCI image config", &type_config_pointer, &c, findings, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(c);
        return 0;
}
