/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The file "definition" of a pod: the request that the pod was made from, so that it can be run again. It is
 * the PodRequest as one JSON object, with the resolved images of its apps. Options of the pod as a whole,
 * which are not part of the request, are in the file "config".
 *
 * It is written when the pod is prepared and read when the pod is run again. Although acnspawn writes the
 * file itself, it is parsed like untrusted input: unknown members, wrong types and missing values are
 * refused. The values are checked by the same code that checks a new request.
 *
 * Strings of a command line may hold any bytes. Those that are not UTF-8 are written as {"hex": "…"}, so
 * that an app that is run again gets the same bytes. Secrets are not written: only the name and the source
 * of a credential.
 *
 * One table for each structure lists its members; the same functions write and read them. Empty lists,
 * absent strings and false are left out.
 */

#include "prepare/pods/reify-internal.h"

#define DEFINITION_VERSION 1

typedef struct Shape Shape;

typedef enum MemberType {
        MEMBER_TEXT,
        MEMBER_TEXTS,
        MEMBER_BOOLEAN,
        MEMBER_U32,
        MEMBER_WORD,    /* an enum */
        MEMBER_LIST,    /* an array of structures with its length and allocated size */
        MEMBER_NUMBERS, /* the same of uint32_t */
        MEMBER_OBJECT,  /* a pointer to one */
        MEMBER_MANIFEST,
        MEMBER_ISOLATOR_VALUE,
} MemberType;

typedef struct Member {
        const char *key;
        MemberType type;
        size_t offset, n_offset, allocated_offset;
        const Shape *shape;       /* of the items */
        const char *const *words; /* ends in NULL */
        bool required;
} Member;

struct Shape {
        const Member *members; /* ends with a key that is NULL */
        size_t size;
};

#define MEMBERS(...)                                                                                        \
        (const Member[])                                                                                    \
        {                                                                                                   \
                __VA_ARGS__, {}                                                                             \
        }
#define PLAIN(name, kind, owner, member)                                                                    \
        {                                                                                                   \
                .key = name, .type = kind, .offset = offsetof(owner, member)                                \
        }
#define NEEDED(name, kind, owner, member)                                                                   \
        {                                                                                                   \
                .key = name, .type = kind, .offset = offsetof(owner, member), .required = true              \
        }
#define WORD(name, owner, member, list)                                                                     \
        {                                                                                                   \
                .key = name, .type = MEMBER_WORD, .offset = offsetof(owner, member), .words = list,         \
                .required = true                                                                            \
        }
#define OBJECT(name, owner, member, its_shape)                                                              \
        {                                                                                                   \
                .key = name, .type = MEMBER_OBJECT, .offset = offsetof(owner, member), .shape = &its_shape  \
        }
#define ARRAY(name, kind, owner, items, n, allocated, item_shape)                                           \
        {                                                                                                   \
                .key = name, .type = kind, .offset = offsetof(owner, items),                                \
                .n_offset = offsetof(owner, n), .allocated_offset = offsetof(owner, allocated),             \
                .shape = item_shape                                                                         \
        }
#define LIST(name, owner, items, n, allocated, item_shape)                                                  \
        ARRAY(name, MEMBER_LIST, owner, items, n, allocated, &item_shape)
/* A list in a nested structure that has items, n and allocated. */
#define SUBLIST(name, owner, member, item_shape)                                                            \
        LIST(name, owner, member.items, member.n, member.allocated, item_shape)

static const char *const volume_kinds[] = {[VOLUME_EMPTY] = "empty", [VOLUME_HOST] = "host", NULL};

static const char *const credential_sources[] = {
                [CREDENTIAL_GIVEN] = "command line",
                [CREDENTIAL_INPUT] = "standard input",
                [CREDENTIAL_FILE] = "file",
                [_CREDENTIAL_SOURCE_MAX] = NULL,
};

static const Shape pair_shape = {
                MEMBERS(NEEDED("name", MEMBER_TEXT, Pair, name), NEEDED("value", MEMBER_TEXT, Pair, value)),
                sizeof(Pair)};

static const Shape isolator_shape = {MEMBERS(NEEDED("name", MEMBER_TEXT, Isolator, name),
                                             NEEDED("value", MEMBER_ISOLATOR_VALUE, Isolator, value),
                                             PLAIN("configured", MEMBER_BOOLEAN, Isolator, of_conf)),
                                     sizeof(Isolator)};

static const Shape volume_shape = {
                MEMBERS(NEEDED("name", MEMBER_TEXT, Volume, name), WORD("kind", Volume, kind, volume_kinds),
                        PLAIN("source", MEMBER_TEXT, Volume, source),
                        PLAIN("hasReadOnly", MEMBER_BOOLEAN, Volume, has_read_only),
                        PLAIN("readOnly", MEMBER_BOOLEAN, Volume, read_only),
                        PLAIN("hasRecursive", MEMBER_BOOLEAN, Volume, has_recursive),
                        PLAIN("recursive", MEMBER_BOOLEAN, Volume, recursive),
                        PLAIN("mode", MEMBER_U32, Volume, mode), PLAIN("uid", MEMBER_U32, Volume, uid),
                        PLAIN("gid", MEMBER_U32, Volume, gid),
                        PLAIN("settings", MEMBER_TEXT, Volume, settings)),
                sizeof(Volume)};

static const Shape mount_shape = {MEMBERS(NEEDED("volume", MEMBER_TEXT, Mount, volume),
                                          NEEDED("path", MEMBER_TEXT, Mount, path),
                                          OBJECT("appVolume", Mount, app_volume, volume_shape),
                                          PLAIN("readOnly", MEMBER_BOOLEAN, Mount, read_only)),
                                  sizeof(Mount)};

static const Shape port_shape = {MEMBERS(PLAIN("name", MEMBER_TEXT, Port, name),
                                         PLAIN("protocol", MEMBER_TEXT, Port, protocol),
                                         PLAIN("port", MEMBER_U32, Port, port),
                                         PLAIN("count", MEMBER_U32, Port, count),
                                         PLAIN("socketActivated", MEMBER_BOOLEAN, Port, socket_activated)),
                                 sizeof(Port)};

static const Shape exposed_port_shape = {MEMBERS(NEEDED("name", MEMBER_TEXT, ExposedPort, name),
                                                 PLAIN("hostPort", MEMBER_U32, ExposedPort, host_port),
                                                 PLAIN("hostIP", MEMBER_TEXT, ExposedPort, host_ip),
                                                 OBJECT("podPort", ExposedPort, pod_port, port_shape)),
                                         sizeof(ExposedPort)};

static const Shape credential_shape = {MEMBERS(NEEDED("name", MEMBER_TEXT, Credential, name),
                                               WORD("source", Credential, source, credential_sources),
                                               PLAIN("path", MEMBER_TEXT, Credential, path)),
                                       sizeof(Credential)};

static const Shape app_shape = {
                MEMBERS(NEEDED("image", MEMBER_TEXT, AppOverrides, reference),
                        PLAIN("name", MEMBER_TEXT, AppOverrides, name),
                        PLAIN("exec", MEMBER_TEXTS, AppOverrides, exec),
                        PLAIN("args", MEMBER_TEXTS, AppOverrides, args),
                        PLAIN("user", MEMBER_TEXT, AppOverrides, user),
                        PLAIN("group", MEMBER_TEXT, AppOverrides, group),
                        PLAIN("workingDirectory", MEMBER_TEXT, AppOverrides, working_directory),
                        SUBLIST("environment", AppOverrides, environment, pair_shape),
                        SUBLIST("annotations", AppOverrides, annotations, pair_shape),
                        SUBLIST("userAnnotations", AppOverrides, user_annotations, pair_shape),
                        SUBLIST("userLabels", AppOverrides, user_labels, pair_shape),
                        SUBLIST("isolators", AppOverrides, isolators, isolator_shape),
                        LIST("mounts", AppOverrides, mounts, n_mounts, mounts_allocated, mount_shape),
                        SUBLIST("credentials", AppOverrides, credentials, credential_shape),
                        PLAIN("readOnlyRootFS", MEMBER_BOOLEAN, AppOverrides, read_only_rootfs),
                        PLAIN("separate", MEMBER_BOOLEAN, AppOverrides, separate),
                        ARRAY("supplementaryGIDs", MEMBER_NUMBERS, AppOverrides, supplementary_gids,
                              n_supplementary_gids, supplementary_gids_allocated, NULL)),
                sizeof(AppOverrides)};

static const Shape image_shape = {MEMBERS(NEEDED("app", MEMBER_TEXT, DefinedImage, app),
                                          NEEDED("id", MEMBER_TEXT, DefinedImage, id),
                                          NEEDED("name", MEMBER_TEXT, DefinedImage, name)),
                                  sizeof(DefinedImage)};

#define D PodDefinition
static const Shape definition_shape = {
                MEMBERS(PLAIN("podManifest", MEMBER_MANIFEST, D, request.template),
                        LIST("apps", D, request.apps, request.n_apps, request.apps_allocated, app_shape),
                        LIST("images", D, images, n_images, images_allocated, image_shape),
                        LIST("volumes", D, request.volumes, request.n_volumes, request.volumes_allocated,
                             volume_shape),
                        LIST("mounts", D, request.mounts, request.n_mounts, request.mounts_allocated,
                             mount_shape),
                        SUBLIST("annotations", D, request.annotations, pair_shape),
                        SUBLIST("userAnnotations", D, request.user_annotations, pair_shape),
                        SUBLIST("userLabels", D, request.user_labels, pair_shape),
                        SUBLIST("environment", D, request.environment, pair_shape),
                        SUBLIST("credentials", D, request.credentials, credential_shape),
                        SUBLIST("isolators", D, request.isolators, isolator_shape),
                        LIST("ports", D, request.ports, request.n_ports, request.ports_allocated,
                             exposed_port_shape),
                        PLAIN("verify", MEMBER_BOOLEAN, D, request.verify)),
                sizeof(D)};
#undef D

void pod_definition_done(PodDefinition *d)
{
        pod_request_done(&d->request);
        for (size_t i = 0; i < d->n_images; i++) {
                free(d->images[i].app);
                free(d->images[i].id);
                free(d->images[i].name);
        }
        free(d->images);
        *d = (PodDefinition){};
}

/* The pointer at OFFSET of OBJECT, whatever its type is. */
static void *pointer_at(const void *object, size_t offset)
{
        void *p;

        memcpy(&p, (const char *) object + offset, sizeof(p));
        return p;
}

static void set_pointer(void *object, size_t offset, void *p)
{
        memcpy((char *) object + offset, &p, sizeof(p));
}

static size_t *size_at(const void *object, size_t offset)
{
        return (size_t *) ((char *) object + offset);
}

/* --- Writing: a value of NULL is left out; negative: out of memory ------------------------------------- */

static int object_format(const Shape *shape, const void *object, json_object **ret);

static int text_format(const char *s, json_object **ret)
{
        _cleanup_json_ json_object *o = NULL;
        _cleanup_free_ char *hex = NULL;

        if (!s)
                return 0;
        if (utf8_is_valid(s, strlen(s))) {
                *ret = json_object_new_string(s);
                return *ret ? 0 : -ENOMEM;
        }
        o = json_object_new_object();
        hex = hex_encode(s, strlen(s));
        if (!hex || json_member_add(o, "hex", json_object_new_string(hex)) < 0)
                return -ENOMEM;
        *ret = TAKE_PTR(o);
        return 0;
}

static int texts_format(char *const *l, json_object **ret)
{
        _cleanup_json_ json_object *a = NULL;

        if (!l)
                return 0;
        a = json_object_new_array();
        STRV_FOREACH (s, l) {
                json_object *text = NULL;
                if (text_format(*s, &text) < 0 || json_list_append(a, text) < 0)
                        return -ENOMEM;
        }
        *ret = TAKE_PTR(a);
        return *ret ? 0 : -ENOMEM;
}

static int list_format(const Member *m, const void *object, json_object **ret)
{
        const char *items = pointer_at(object, m->offset);
        _cleanup_json_ json_object *a = NULL;
        size_t n = *size_at(object, m->n_offset);

        if (n == 0)
                return 0;
        a = json_object_new_array();
        for (size_t i = 0; i < n; i++) {
                json_object *item = NULL;
                if (m->type == MEMBER_NUMBERS)
                        item = json_object_new_uint64(((const uint32_t *) items)[i]);
                else if (object_format(m->shape, items + i * m->shape->size, &item) < 0)
                        return -ENOMEM;
                if (json_list_append(a, item) < 0)
                        return -ENOMEM;
        }
        *ret = TAKE_PTR(a);
        return *ret ? 0 : -ENOMEM;
}

static int manifest_format(const PodManifest *m, json_object **ret)
{
        _cleanup_free_ char *text = NULL;

        int r = m ? pod_manifest_format(m, &text) : 0;
        return r < 0 || !m ? r : json_parse_strict(text, strlen(text), ret, NULL, NULL);
}

static int boolean_format(bool b, json_object **ret)
{
        if (!b)
                return 0;
        *ret = json_object_new_boolean(true);
        return *ret ? 0 : -ENOMEM;
}

static int u32_format(uint32_t n, json_object **ret)
{
        if (n == 0)
                return 0;
        *ret = json_object_new_uint64(n);
        return *ret ? 0 : -ENOMEM;
}

static int member_format(const Member *m, const void *object, json_object **ret)
{
        const void *at = (const char *) object + m->offset;

        switch (m->type) {
        case MEMBER_TEXT:
                return text_format(pointer_at(object, m->offset), ret);
        case MEMBER_TEXTS:
                return texts_format(pointer_at(object, m->offset), ret);
        case MEMBER_BOOLEAN:
                return boolean_format(*(const bool *) at, ret);
        case MEMBER_U32:
                return u32_format(*(const uint32_t *) at, ret);
        case MEMBER_WORD:
                return text_format(m->words[*(const unsigned *) at], ret);
        case MEMBER_LIST:
        case MEMBER_NUMBERS:
                return list_format(m, object, ret);
        case MEMBER_OBJECT:
                at = pointer_at(object, m->offset);
                return at ? object_format(m->shape, at, ret) : 0;
        case MEMBER_MANIFEST:
                return manifest_format(pointer_at(object, m->offset), ret);
        case MEMBER_ISOLATOR_VALUE:
                *ret = json_object_get(pointer_at(object, m->offset));
                return 0;
        }
        return -EINVAL;
}

static int object_format(const Shape *shape, const void *object, json_object **ret)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        for (const Member *m = shape->members; m->key; m++) {
                json_object *v = NULL;
                int r = member_format(m, object, &v);
                if (r >= 0 && v)
                        r = json_member_add(o, m->key, v);
                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(o);
        return *ret ? 0 : -ENOMEM;
}

/* --- Reading ------------------------------------------------------------------------------------------- */

static int object_parse(const Shape *shape, json_object *o, void *object, Error *e);

static int unexpected(const char *key, const char *expected, Error *e)
{
        return error_set(e, -EINVAL, "'%s' is not %s", key, expected);
}

static int text_parse(const char *key, json_object *v, char **ret, Error *e)
{
        json_object *hex = NULL;

        if (json_object_is_type(v, json_type_object) && json_object_object_length(v) == 1 &&
            json_object_object_get_ex(v, "hex", &hex) && json_object_is_type(hex, json_type_string)) {
                size_t n = (size_t) json_object_get_string_len(hex);
                _cleanup_free_ char *s = calloc(n / 2 + 1, 1);

                if (!s)
                        return error_oom(e);
                if (n % 2 != 0 || hex_decode(json_object_get_string(hex), n / 2, s) < 0 ||
                    strlen(s) != n / 2)
                        return unexpected(key, "hexadecimal", e);
                *ret = TAKE_PTR(s);
                return 0;
        }
        if (!json_object_is_type(v, json_type_string))
                return unexpected(key, "a text", e);
        *ret = strdup(json_object_get_string(v));
        return *ret ? 0 : error_oom(e);
}

static int texts_parse(const char *key, json_object *v, char ***ret, Error *e)
{
        _cleanup_strv_free_ char **l = NULL;

        if (!json_object_is_type(v, json_type_array))
                return unexpected(key, "a list", e);
        if (json_object_array_length(v) == 0) { /* an empty list is different from none */
                l = calloc(1, sizeof(char *));
                if (!l)
                        return error_oom(e);
        }
        for (size_t i = 0; i < json_object_array_length(v); i++) {
                char *s = NULL;
                int r = text_parse(key, json_object_array_get_idx(v, i), &s, e);
                if (r < 0)
                        return r;
                if (strv_consume(&l, s) < 0)
                        return error_oom(e);
        }
        *ret = TAKE_PTR(l);
        return 0;
}

static int u32_parse(const char *key, json_object *v, uint32_t *ret, Error *e)
{
        if (!json_object_is_type(v, json_type_int) || json_object_get_int64(v) < 0 ||
            json_object_get_int64(v) > UINT32_MAX)
                return unexpected(key, "a number of 32 bits", e);
        *ret = (uint32_t) json_object_get_int64(v);
        return 0;
}

static int word_parse(const Member *m, json_object *v, unsigned *ret, Error *e)
{
        for (unsigned i = 0; json_object_is_type(v, json_type_string) && m->words[i]; i++)
                if (streq(json_object_get_string(v), m->words[i])) {
                        *ret = i;
                        return 0;
                }
        return unexpected(m->key, "one of the known words", e);
}

/* A partly parsed item is part of the list, so that it is freed with the list. */
static int list_parse(const Member *m, json_object *v, void *object, Error *e)
{
        size_t size = m->type == MEMBER_NUMBERS ? sizeof(uint32_t) : m->shape->size;

        if (!json_object_is_type(v, json_type_array))
                return unexpected(m->key, "a list", e);
        size_t n = json_object_array_length(v);
        char *items = n == 0 ? NULL : calloc(n, size);
        if (n > 0 && !items)
                return error_oom(e);
        set_pointer(object, m->offset, items);
        *size_at(object, m->n_offset) = *size_at(object, m->allocated_offset) = n;
        for (size_t i = 0; i < n; i++) {
                json_object *item = json_object_array_get_idx(v, i);
                int r = m->type == MEMBER_NUMBERS ? u32_parse(m->key, item, (uint32_t *) items + i, e)
                                                  : object_parse(m->shape, item, items + i * size, e);
                if (r < 0)
                        return m->type == MEMBER_NUMBERS ? r : error_prefix(e, r, "%s[%zu]", m->key, i);
        }
        return 0;
}

static int pointer_parse(const Member *m, json_object *v, void *object, Error *e)
{
        void *target = calloc(1, m->shape->size);

        if (!target)
                return error_oom(e);
        set_pointer(object, m->offset, target);
        return object_parse(m->shape, v, target, e);
}

static int manifest_parse(json_object *v, PodManifest **ret, Error *e)
{
        const char *text = json_print(v);

        return text ? pod_manifest_parse(text, strlen(text), ret, NULL, e) : error_oom(e);
}

/* An isolator is parsed from its name, which comes first, and this value. */
static int isolator_value_parse(json_object *v, Isolator *i, Error *e)
{
        const char *text = json_print(v);
        Isolator parsed = {};

        int r = text ? isolator_parse(i->name ?: "", text, &parsed, e) : error_oom(e);
        if (r < 0)
                return r;
        free(i->name);
        *i = parsed;
        return 0;
}

static int member_parse(const Member *m, json_object *v, void *object, Error *e)
{
        void *at = (char *) object + m->offset;

        switch (m->type) {
        case MEMBER_TEXT:
                return text_parse(m->key, v, at, e);
        case MEMBER_TEXTS:
                return texts_parse(m->key, v, at, e);
        case MEMBER_BOOLEAN:
                if (!json_object_is_type(v, json_type_boolean))
                        return unexpected(m->key, "true or false", e);
                *(bool *) at = json_object_get_boolean(v);
                return 0;
        case MEMBER_U32:
                return u32_parse(m->key, v, at, e);
        case MEMBER_WORD:
                return word_parse(m, v, at, e);
        case MEMBER_LIST:
        case MEMBER_NUMBERS:
                return list_parse(m, v, object, e);
        case MEMBER_OBJECT:
                return pointer_parse(m, v, object, e);
        case MEMBER_MANIFEST:
                return manifest_parse(v, at, e);
        case MEMBER_ISOLATOR_VALUE:
                return isolator_value_parse(v, object, e);
        }
        return -EINVAL;
}

static int check_keys(const Shape *shape, json_object *o, Error *e)
{
        json_object_object_foreach (o, key, v) {
                const Member *m = shape->members;

                (void) v;
                while (m->key && !streq(m->key, key))
                        m++;
                if (!m->key)
                        return error_set(e, -EINVAL, "unknown member '%s'", key);
        }
        return 0;
}

static int object_parse(const Shape *shape, json_object *o, void *object, Error *e)
{
        if (!json_object_is_type(o, json_type_object))
                return error_set(e, -EINVAL, "it is not an object");
        int r = check_keys(shape, o, e);
        if (r < 0)
                return r;
        for (const Member *m = shape->members; m->key; m++) {
                json_object *v;
                if (json_object_object_get_ex(o, m->key, &v))
                        r = member_parse(m, v, object, e);
                else
                        r = m->required ? error_set(e, -EINVAL, "'%s' is missing", m->key) : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

/* --- The file ------------------------------------------------------------------------------------------ */

/* The apps of Q with their names in M, and with references that are valid in any directory. All other
 * members are still owned by Q. */
static int name_apps(const PodManifest *m, const PodRequest *q, AppOverrides *apps)
{
        for (size_t i = 0; i < q->n_apps; i++) {
                apps[i] = q->apps[i];
                apps[i].name = m->apps[i]->name;
                apps[i].reference = NULL;
        }
        for (size_t i = 0; i < q->n_apps; i++)
                if (reference_make_absolute(q->apps[i].reference, &apps[i].reference) < 0)
                        return -ENOMEM;
        return 0;
}

/* The apps of M are those of Q, in the same order. */
static int definition_format(const PodManifest *m, const PodRequest *q, json_object **ret)
{
        AppOverrides *overrides = calloc(q->n_apps + 1, sizeof(AppOverrides));
        DefinedImage *images = calloc(m->n_apps + 1, sizeof(DefinedImage));
        PodDefinition d = {.request = *q, .images = images, .n_images = m->n_apps};
        json_object *o = NULL;

        d.request.apps = overrides;
        int r = overrides && images ? name_apps(m, q, overrides) : -ENOMEM;
        for (size_t i = 0; r >= 0 && i < m->n_apps; i++)
                images[i] = (DefinedImage){m->apps[i]->name, m->apps[i]->image_id, m->apps[i]->image_name};
        if (r >= 0)
                r = object_format(&definition_shape, &d, &o);
        for (size_t i = 0; overrides && i < q->n_apps; i++)
                free(overrides[i].reference);
        free(overrides);
        free(images);
        if (r < 0)
                return r;
        *ret = o;
        return 0;
}

/* As text that O holds. The apps of M are those of Q. */
static int definition_text(const Pod *p, const PodManifest *m, const PodRequest *q, json_object **o,
                           const char **ret, Error *e)
{
        int r = definition_format(m, q, o);

        if (r >= 0)
                r = json_member_add(*o, "version", json_object_new_int(DEFINITION_VERSION));
        *ret = r < 0 ? NULL : json_print(*o);
        if (!*ret)
                return error_oom(e);
        if (strlen(*ret) > MANIFEST_SIZE_MAX)
                return error_set(e, -E2BIG, "The definition of pod %s is larger than %u bytes",
                                 pod_display_name(p), MANIFEST_SIZE_MAX);
        return 0;
}

int pod_definition_write(const Pod *p, const PodRequest *q, Error *e)
{
        _cleanup_json_ json_object *o = NULL;
        const char *text;

        if (!p->manifest || p->manifest->n_apps != (q->template ? q->template->n_apps : q->n_apps))
                return error_set(e, -EINVAL, "Pod %s does not match its request", pod_display_name(p));
        int r = definition_text(p, p->manifest, q, &o, &text, e);
        if (r < 0)
                return r;
        r = write_file_new_at(p->dir_fd, DEFINITION_FILE, text, strlen(text), 0600);
        return r < 0 ? error_set_errno(e, r, "Cannot write the file '" DEFINITION_FILE "' of pod %s",
                                       pod_display_name(p))
                     : 0;
}

int pod_app_definition_format(const Pod *p, const PodApp *app, const PodRequest *q, char **ret_path,
                              char **ret_text, Error *e)
{
        PodApp *apps[] = {(PodApp *) app};
        const PodManifest m = {.apps = apps, .n_apps = 1};
        _cleanup_json_ json_object *o = NULL;
        _cleanup_free_ char *path = NULL, *copy = NULL;
        const char *text;

        int r = definition_text(p, &m, q, &o, &text, e);
        if (r < 0)
                return r;
        copy = strdup(text);
        if (!copy || pod_app_path(p, app, DEFINITION_FILE, &path) < 0)
                return error_oom(e);
        *ret_path = TAKE_PTR(path);
        *ret_text = TAKE_PTR(copy);
        return 0;
}

int pod_app_definition_write(const Pod *p, const PodApp *app, const PodRequest *q, Error *e)
{
        _cleanup_free_ char *path = NULL, *text = NULL;
        int r = pod_app_definition_format(p, app, q, &path, &text, e);

        if (r < 0)
                return r;
        r = write_file_atomic_at(p->dir_fd, path, text, strlen(text), 0600, false);
        return r < 0 ? error_set_errno(e, r, "Cannot write the definition of app %s", app->name) : 0;
}

static int check_version(json_object *o, Error *e)
{
        json_object *v = NULL;

        if (!json_object_is_type(o, json_type_object))
                return error_set(e, -EINVAL, "it is not an object");
        if (!json_object_object_get_ex(o, "version", &v) || !json_object_is_type(v, json_type_int) ||
            json_object_get_int64(v) != DEFINITION_VERSION)
                return error_set(e, -EINVAL, "'version' is not %d", DEFINITION_VERSION);
        json_object_object_del(o, "version");
        return 0;
}

static int check_apps(const PodDefinition *d, ExitPolicy policy, Error *e)
{
        const PodRequest *q = &d->request;
        bool empty = !q->template && q->n_apps == 0;

        if ((q->template && q->n_apps > 0) || (empty && !exit_policy_is_open(policy)))
                return error_set(e, -EINVAL, "it needs either 'podManifest' or 'apps'");
        size_t n = q->template ? q->template->n_apps : q->n_apps;
        if (d->n_images != n)
                return error_set(e, -EINVAL, "it has %zu images and %zu apps", d->n_images, n);
        for (size_t i = 0; i < n; i++) {
                const char *name = q->template ? q->template->apps[i]->name : q->apps[i].name;
                if (!name)
                        return error_set(e, -EINVAL, "apps[%zu]: 'name' is missing", i);
                if (!streq(d->images[i].app, name))
                        return error_set(e, -EINVAL, "images[%zu] is not the image of app %s", i, name);
                if (image_id_check(d->images[i].id, e) < 0)
                        return -EINVAL;
        }
        return 0;
}

static int definition_parse(const char *text, size_t size, ExitPolicy policy, PodDefinition *ret, Error *e)
{
        _cleanup_(pod_definition_done) PodDefinition d = {};
        _cleanup_json_ json_object *o = NULL;

        int r = json_parse_strict(text, size, &o, NULL, e);
        if (r >= 0)
                r = check_version(o, e);
        if (r >= 0)
                r = object_parse(&definition_shape, o, &d, e);
        if (r >= 0)
                r = check_apps(&d, policy, e);
        if (r < 0)
                return r;
        *ret = d;
        d = (PodDefinition){};
        return 0;
}

int definition_read(const Pod *p, const char *path, PodDefinition *ret, Error *e)
{
        _cleanup_free_ char *text = NULL;
        size_t size;

        int r = read_file_at(p->dir_fd, path, MANIFEST_SIZE_MAX, &text, &size);
        if (r == -ENOENT)
                return error_set(e, r, "Pod %s has no recorded definition", pod_display_name(p));
        if (r < 0)
                return error_set_errno(e, r, "Cannot read the file '%s' of pod %s", path,
                                       pod_display_name(p));
        r = definition_parse(text, size, p->config.exit_policy, ret, e);
        return r < 0 ? error_prefix(e, r, "The definition of pod %s is damaged", pod_display_name(p)) : 0;
}

int pod_definition_read(const Pod *p, PodDefinition *ret, Error *e)
{
        return definition_read(p, DEFINITION_FILE, ret, e);
}

/* --- An app for a running pod -------------------------------------------------------------------------- */

int app_request_format(const PodRequest *q, json_object **ret, Error *e)
{
        _cleanup_free_ char *reference = NULL;
        AppOverrides app = q->apps[0];
        PodDefinition d = {.request = *q};

        if (reference_make_absolute(app.reference, &reference) < 0)
                return error_oom(e);
        app.reference = reference;
        d.request.apps = &app;
        d.request.n_apps = 1;
        return object_format(&definition_shape, &d, ret) < 0 ? error_oom(e) : 0;
}

int app_request_parse(json_object *o, PodDefinition *ret, Error *e)
{
        int r = object_parse(&definition_shape, o, ret, e);

        if (r >= 0 && (ret->request.template || ret->request.n_apps != 1 || ret->n_images > 0))
                r = error_set(e, -EINVAL, "it needs 'apps', with one app");
        return r < 0 ? error_prefix(e, r, "The description of the app is not valid") : 0;
}

/* --- A pod that is requested ---------------------------------------------------------------------------- */

static bool has_configured(const IsolatorList *l)
{
        for (size_t i = 0; i < l->n; i++)
                if (l->items[i].of_conf)
                        return true;
        return false;
}

/* acnspawn.conf is not for calls. */
static bool is_configured(const PodRequest *q)
{
        for (size_t i = 0; i < q->n_apps; i++)
                if (has_configured(&q->apps[i].isolators))
                        return true;
        return has_configured(&q->isolators);
}

int pod_request_parse(json_object *o, PodDefinition *ret, Error *e)
{
        const PodRequest *q = &ret->request;
        int r = object_parse(&definition_shape, o, ret, e);

        if (r >= 0 && ret->n_images > 0)
                r = error_set(e, -EINVAL, "'images' is of pods that were prepared");
        if (r >= 0 && is_configured(q))
                r = error_set(e, -EINVAL, "'configured' is of pods that were prepared");
        if (r >= 0 && q->template && q->n_apps > 0)
                r = error_set(e, -EINVAL, "'podManifest' and 'apps' cannot be combined");
        return r < 0 ? error_prefix(e, r, "The description of the pod is not valid") : 0;
}

/* --- To be compared ------------------------------------------------------------------------------------ */

int pod_request_members(const PodRequest *q, json_object **ret)
{
        PodDefinition d = {.request = *q};

        d.request.apps = NULL;
        d.request.n_apps = 0;
        return object_format(&definition_shape, &d, ret);
}

int app_overrides_members(const AppOverrides *o, json_object **ret)
{
        return object_format(&app_shape, o, ret);
}
