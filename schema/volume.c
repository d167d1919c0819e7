/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Volumes of pod manifests (spec: pods.md).
 *
 * mode, uid and gid are for empty volumes, source is for host volumes. According to the specification the
 * members of the other kind are not interpreted; the reference refuses them, and so does this, since they
 * would have no effect. A volume is written with the members of its kind only.
 */

#include "schema/schema-internal.h"

#define UNSET UINT32_MAX
#define MODE_DEFAULT 0755U
#define MODE_MAX 07777U

static const char *const kind_names[] = {[VOLUME_EMPTY] = "empty", [VOLUME_HOST] = "host"};

static void kind_parse(Parser *p, const Type *t, json_object *v, void *target)
{
        _cleanup_free_ char *quoted = NULL;
        VolumeKind *kind = target;

        if (!json_object_is_type(v, json_type_string)) {
                parser_wrong_type(p, "a string", v);
                return;
        }
        for (unsigned i = 0; i < ELEMENTSOF(kind_names); i++)
                if (streq(json_object_get_string(v), kind_names[i])) {
                        *kind = (VolumeKind) i;
                        return;
                }
        quoted = quote_value(json_object_get_string(v));
        parser_finding(p, "%s is not a kind of volume: expected empty or host", quoted ?: "this");
}

static int kind_format(const Type *t, const void *source, json_object **ret)
{
        const VolumeKind *kind = source;

        *ret = json_object_new_string(kind_names[*kind]);
        return *ret ? 1 : -ENOMEM;
}

static void mode_parse(Parser *p, const Type *t, json_object *v, void *target)
{
        _cleanup_free_ char *quoted = NULL;
        Volume *volume = target;
        uint32_t mode;

        if (!json_object_is_type(v, json_type_string)) {
                parser_wrong_type(p, "a string such as \"0755\"", v);
                return;
        }
        if (parse_octal(json_object_get_string(v), &mode) >= 0 && mode <= MODE_MAX) {
                volume->mode = mode;
                return;
        }
        quoted = quote_value(json_object_get_string(v));
        parser_finding(p, "%s is not a mode as in \"0755\"", quoted ?: "this");
}

static int mode_format(const Type *t, const void *source, json_object **ret)
{
        const Volume *volume = source;
        char s[16];

        if (volume->kind != VOLUME_EMPTY)
                return 0;
        snprintf(s, sizeof(s), "%04" PRIo32, volume->mode & MODE_MAX);
        *ret = json_object_new_string(s);
        return *ret ? 1 : -ENOMEM;
}

static void owner_uid_parse(Parser *p, const Type *t, json_object *v, void *target)
{
        u32_parse(p, &type_uid, v, &((Volume *) target)->uid);
}

static void owner_gid_parse(Parser *p, const Type *t, json_object *v, void *target)
{
        u32_parse(p, &type_uid, v, &((Volume *) target)->gid);
}

static int owner_uid_format(const Type *t, const void *source, json_object **ret)
{
        const Volume *volume = source;

        return volume->kind == VOLUME_EMPTY ? u32_format(t, &volume->uid, ret) : 0;
}

static int owner_gid_format(const Type *t, const void *source, json_object **ret)
{
        const Volume *volume = source;

        return volume->kind == VOLUME_EMPTY ? u32_format(t, &volume->gid, ret) : 0;
}

/* Marks the members as unset, so that finish() can check which were given. */
static void volume_init(void *target)
{
        Volume *volume = target;

        volume->mode = volume->uid = volume->gid = UNSET;
}

static void stray_report(Parser *p, bool stray, const char *key, const char *kind)
{
        if (!stray)
                return;
        size_t mark = parser_enter_key(p, key);
        parser_finding(p, "has no meaning for a volume of kind %s", kind);
        parser_leave(p, mark);
}

static void host_finish(Parser *p, Volume *v)
{
        if (!v->source)
                parser_finding_at(p, "source",
                                  "a volume of kind host needs the absolute path of its source");
        stray_report(p, v->mode != UNSET, "mode", "host");
        stray_report(p, v->uid != UNSET, "uid", "host");
        stray_report(p, v->gid != UNSET, "gid", "host");
        v->mode = v->uid = v->gid = 0;
}

static void volume_finish(Parser *p, void *target)
{
        Volume *v = target;

        if (v->kind == VOLUME_HOST) {
                host_finish(p, v);
                return;
        }
        stray_report(p, v->source != NULL, "source", "empty");
        v->mode = v->mode == UNSET ? MODE_DEFAULT : v->mode;
        v->uid = v->uid == UNSET ? 0 : v->uid;
        v->gid = v->gid == UNSET ? 0 : v->gid;
}

static const Type type_kind = {.parse = kind_parse, .format = kind_format, .size = sizeof(VolumeKind)};
static const Type type_mode = {.parse = mode_parse, .format = mode_format};
static const Type type_owner_uid = {.parse = owner_uid_parse, .format = owner_uid_format};
static const Type type_owner_gid = {.parse = owner_gid_parse, .format = owner_gid_format};

_Static_assert(offsetof(Volume, read_only) == offsetof(Volume, has_read_only) + 1,
               "type_optional_bool needs pairs");
_Static_assert(offsetof(Volume, recursive) == offsetof(Volume, has_recursive) + 1,
               "type_optional_bool needs pairs");

static const Field volume_fields[] = {
                {"name", &type_ac_name, offsetof(Volume, name), FIELD_REQUIRED},
                {"readOnly", &type_optional_bool, offsetof(Volume, has_read_only)},
                {"kind", &type_kind, offsetof(Volume, kind), FIELD_REQUIRED},
                {"source", &type_absolute_path, offsetof(Volume, source)},
                {"recursive", &type_optional_bool, offsetof(Volume, has_recursive)},
                {"mode", &type_mode, 0},
                {"uid", &type_owner_uid, 0},
                {"gid", &type_owner_gid, 0},
                {},
};

static void volume_members_done(const Type *t, void *target)
{
        free(((Volume *) target)->settings);
        object_done(t, target);
}

const Type type_volume = {
                .parse = object_parse,
                .format = object_format,
                .copy = object_copy,
                .done = volume_members_done,
                .size = sizeof(Volume),
                .fields = volume_fields,
                .init = volume_init,
                .finish = volume_finish,
};
const Type type_volume_pointer = {POINTER_OPS, .size = sizeof(Volume *), .item = &type_volume};

void volume_done(Volume *v)
{
        volume_members_done(&type_volume, v);
}

Volume *volume_free(Volume *v)
{
        pointer_done(&type_volume_pointer, &v);
        return NULL;
}
