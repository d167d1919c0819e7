/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pod manifests (spec: pods.md), templates as well as reified ones.
 *
 * A template may omit what is filled in before the pod runs: the IDs of images that it names, and volumes.
 * The additional requirements of a reified manifest are checked by pod_manifest_check_reified().
 *
 * Before 0.7.0 a mount referred to a mount point of the app by name ("mountPoint"), not by path. Such a
 * mount gets its path when the mount points are known: at once if the pod manifest has an app object, else
 * in pod_app_resolve_mounts() from the image's. Until then the path is set to the name, which is
 * unambiguous, as paths are absolute.
 */

#include <arpa/inet.h>

#include "schema/schema-internal.h"
#include "schema/settings.h"

/* --- Mounts -------------------------------------------------------------------------------------------- */

/* PATH, the current form, takes precedence if both are present. */
typedef struct MountForms {
        Mount mount;
        char *mount_point;
} MountForms;

static const Field mount_fields[] = {
                {"volume", &type_ac_name, offsetof(MountForms, mount.volume), FIELD_REQUIRED},
                {"path", &type_mount_path, offsetof(MountForms, mount.path)},
                {"mountPoint", &type_ac_name, offsetof(MountForms, mount_point)},
                {"appVolume", &type_volume_pointer, offsetof(MountForms, mount.app_volume)},
                {},
};
static const Type type_mount_forms = {OBJECT_OPS, .size = sizeof(MountForms), .fields = mount_fields};

static void mount_parse(Parser *p, const Type *t, json_object *v, void *target)
{
        MountForms forms = {};
        size_t before = p->findings->n;

        object_parse(p, &type_mount_forms, v, &forms);
        if (!forms.mount.path)
                forms.mount.path = TAKE_PTR(forms.mount_point);
        if (!forms.mount.path && p->findings->n == before)
                parser_finding_at(p, "path", "is required, but missing");
        free(forms.mount_point);
        *(Mount *) target = forms.mount;
}

static MountForms mount_forms(const Mount *m)
{
        MountForms forms = {.mount = *m};

        if (m->path && !path_is_absolute(m->path)) {
                forms.mount_point = m->path;
                forms.mount.path = NULL;
        }
        return forms;
}

static int mount_format(const Type *t, const void *source, json_object **ret)
{
        MountForms forms = mount_forms(source);

        return object_format(&type_mount_forms, &forms, ret);
}

void mount_done(Mount *m)
{
        MountForms forms = {.mount = *m};

        object_done(&type_mount_forms, &forms);
        *m = (Mount){};
}

static void mount_item_done(const Type *t, void *target)
{
        mount_done(target);
}

static const Type type_mount = {
                .parse = mount_parse,
                .format = mount_format,
                .done = mount_item_done,
                .size = sizeof(Mount),
};
static const Type type_mounts = {LIST_OPS, .item = &type_mount, .growable = true};

static const MountPoint *find_mount_point(const App *a, const char *name)
{
        for (size_t i = 0; i < a->n_mount_points; i++)
                if (streq_ptr(a->mount_points[i].name, name))
                        return a->mount_points + i;
        return NULL;
}

int pod_app_resolve_mounts(PodApp *a, const App *app, Error *e)
{
        for (size_t i = 0; i < a->n_mounts; i++) {
                _cleanup_free_ char *quoted = NULL;
                Mount *m = a->mounts + i;
                const MountPoint *point;

                if (!m->path || path_is_absolute(m->path))
                        continue;
                quoted = quote_value(m->path);
                point = app ? find_mount_point(app, m->path) : NULL;
                if (!point || !point->path)
                        return error_set(e, -ENOENT,
                                         "App %s has no mount point %s, which mounts[%zu] refers to",
                                         a->name ?: "", quoted ?: "of the name", i);
                char *path = strdup(point->path);
                if (!path)
                        return error_oom(e);
                free(m->path);
                m->path = path;
        }
        return 0;
}

/* --- Apps ---------------------------------------------------------------------------------------------- */

/* The object "image" has no structure of its own: its members are stored in that of the app. */
static const Field image_fields[] = {
                {"name", &type_ac_identifier, offsetof(PodApp, image_name)},
                {"id", &type_image_id, offsetof(PodApp, image_id)},
                {"labels", &type_labels, offsetof(PodApp, image_labels)},
                {},
};

static void image_finish(Parser *p, void *target)
{
        const PodApp *a = target;

        if (!a->image_id && !a->image_name)
                parser_finding(p, "needs an id, or a name by which it can be found");
}

static const Type type_image = {OBJECT_OPS, .fields = image_fields, .finish = image_finish};

static const Field pod_app_fields[] = {
                {"name", &type_ac_name, offsetof(PodApp, name), FIELD_REQUIRED},
                {"image", &type_image, 0, FIELD_REQUIRED},
                {"app", &type_app_pointer, offsetof(PodApp, app)},
                {"readOnlyRootFS", &type_bool, offsetof(PodApp, read_only_rootfs)},
                LIST_FIELD("mounts", PodApp, mounts, n_mounts, &type_mounts, 0),
                {"annotations", &type_annotations, offsetof(PodApp, annotations)},
                {},
};

static void pod_app_finish(Parser *p, void *target)
{
        PodApp *a = target;

        if (!a->app)
                return;
        for (size_t i = 0; i < a->n_mounts; i++) {
                _cleanup_free_ char *quoted = NULL;
                Mount *m = a->mounts + i;

                if (!m->path || path_is_absolute(m->path) || find_mount_point(a->app, m->path))
                        continue;
                size_t mark = parser_enter_key(p, "mounts");
                (void) parser_enter_index(p, i);
                (void) parser_enter_key(p, "mountPoint");
                quoted = quote_value(m->path);
                parser_finding(p, "the app has no mount point %s", quoted ?: "of this name");
                parser_leave(p, mark);
                return;
        }
        if (pod_app_resolve_mounts(a, a->app, NULL) == -ENOMEM)
                p->oom = true;
}

static const Type type_pod_app = {
                OBJECT_OPS,
                .size = sizeof(PodApp),
                .fields = pod_app_fields,
                .finish = pod_app_finish,
};

static void apps_finish(Parser *p, void *target)
{
        const List *l = target;
        PodApp **apps = l->items;
        _cleanup_free_ char **names = calloc(l->n + 1, sizeof(char *));

        for (size_t i = 0; names && i < l->n; i++)
                names[i] = apps[i] ? apps[i]->name : NULL;
        if (names)
                parser_check_unique(p, names, l->n, sizeof(char *));
        else
                p->oom = true;
}

static void volumes_finish(Parser *p, void *target)
{
        const List *l = target;

        parser_check_unique(p, l->items, l->n, sizeof(Volume));
}

static const Type type_pod_app_pointer = {POINTER_OPS, .size = sizeof(PodApp *), .item = &type_pod_app};
static const Type type_pod_apps = {
                LIST_OPS,           .item = &type_pod_app_pointer, .growable = true,
                .keep_empty = true, .finish = apps_finish,
};
static const Type type_volumes = {
                LIST_OPS,
                .item = &type_volume,
                .growable = true,
                .finish = volumes_finish,
};

/* --- Exposed ports ------------------------------------------------------------------------------------- */

/* The specification has IPv4 addresses only; its reference accepts both kinds, as hosts have both. Numbers
 * with leading zeros, which some programs read as octal, are not valid. */
static int ip_check(const char *s, Error *e)
{
        struct in6_addr buffer;

        if (inet_pton(AF_INET, s, &buffer) == 1 || inet_pton(AF_INET6, s, &buffer) == 1)
                return 0;
        return error_value(e, s, "is not an IP address as in 203.0.113.23");
}

static const Type type_ip = {
                STRING_OPS,
                .size = sizeof(char *),
                .check = ip_check,
                .empty_is_absent = true,
};
static const Field exposed_port_fields[] = {
                {"name", &type_ac_name, offsetof(ExposedPort, name), FIELD_REQUIRED},
                {"hostPort", &type_port_number, offsetof(ExposedPort, host_port), FIELD_REQUIRED},
                {"hostIP", &type_ip, offsetof(ExposedPort, host_ip)},
                {"podPort", &type_port_pointer, offsetof(ExposedPort, pod_port)},
                {},
};
static const Type type_exposed_port = {
                OBJECT_OPS,
                .size = sizeof(ExposedPort),
                .fields = exposed_port_fields,
};
static const Type type_exposed_ports = {LIST_OPS, .item = &type_exposed_port, .growable = true};

/* --- The pod ------------------------------------------------------------------------------------------- */

static const Type type_kind = {CONSTANT_OPS, .constant = "PodManifest"};

static const Field pod_manifest_fields[] = {
                {"acVersion", &type_ac_version, offsetof(PodManifest, ac_version), FIELD_REQUIRED},
                {"acKind", &type_kind, 0, FIELD_REQUIRED},
                LIST_FIELD("apps", PodManifest, apps, n_apps, &type_pod_apps, FIELD_REQUIRED),
                LIST_FIELD("volumes", PodManifest, volumes, n_volumes, &type_volumes, 0),
                {"isolators", &type_isolators, offsetof(PodManifest, isolators)},
                {"annotations", &type_annotations, offsetof(PodManifest, annotations)},
                LIST_FIELD("ports", PodManifest, ports, n_ports, &type_exposed_ports, 0),
                {"userAnnotations", &type_user_map, offsetof(PodManifest, user_annotations)},
                {"userLabels", &type_user_map, offsetof(PodManifest, user_labels)},
                {},
};
static const Type type_pod_manifest = {
                OBJECT_OPS,
                .size = sizeof(PodManifest),
                .fields = pod_manifest_fields,
};
static const Type type_pod_manifest_pointer = {
                POINTER_OPS,
                .size = sizeof(void *),
                .item = &type_pod_manifest,
};

PodManifest *pod_manifest_free(PodManifest *m)
{
        pointer_done(&type_pod_manifest_pointer, &m);
        return NULL;
}

PodApp *pod_app_free(PodApp *a)
{
        pointer_done(&type_pod_app_pointer, &a);
        return NULL;
}

int pod_manifest_parse(const char *text, size_t size, PodManifest **ret, Findings *findings, Error *e)
{
        _cleanup_(pod_manifest_freep) PodManifest *m = NULL;
        int r = manifest_parse(text, size, "pod manifest", &type_pod_manifest_pointer, &m, findings, e);

        if (r < 0)
                return r;
        *ret = TAKE_PTR(m);
        return 0;
}

int pod_manifest_format(const PodManifest *m, char **ret)
{
        return manifest_format(&type_pod_manifest, m, ret);
}

/* --- Building ------------------------------------------------------------------------------------------ */

PodManifest *pod_manifest_new(void)
{
        _cleanup_(pod_manifest_freep) PodManifest *m = calloc(1, sizeof(PodManifest));

        if (!m)
                return NULL;
        m->ac_version = strdup(SCHEMA_VERSION);
        return m->ac_version ? TAKE_PTR(m) : NULL;
}

PodApp *pod_manifest_find_app(const PodManifest *m, const char *name)
{
        for (size_t i = 0; i < m->n_apps; i++)
                if (streq_ptr(m->apps[i]->name, name) || streq_ptr(pod_app_path_name(m->apps[i]), name))
                        return m->apps[i];
        return NULL;
}

bool app_has_read_only(const App *a, const char *path)
{
        for (size_t i = 0; i < a->n_mount_points; i++)
                if (streq_ptr(a->mount_points[i].path, path))
                        return a->mount_points[i].read_only;
        return false;
}

const char *pod_app_path_name(const PodApp *a)
{
        return pair_list_get(&a->annotations, SETTING_PREFIX NESTED_PATH_SETTING) ?: a->name;
}

size_t pod_manifest_index_of(const PodManifest *m, const PodApp *a)
{
        size_t i = 0;

        while (m->apps[i] != a)
                i++;
        return i;
}

Volume *pod_manifest_find_volume(const PodManifest *m, const char *name)
{
        for (size_t i = 0; i < m->n_volumes; i++)
                if (streq_ptr(m->volumes[i].name, name))
                        return m->volumes + i;
        return NULL;
}

PodApp *pod_manifest_add_app(PodManifest *m)
{
        PodApp *a = GREEDY_REALLOC(m->apps, m->apps_allocated, m->n_apps + 1) < 0
                                    ? NULL
                                    : calloc(1, sizeof(PodApp));

        if (a)
                m->apps[m->n_apps++] = a;
        return a;
}

PodApp *pod_manifest_take_app(PodManifest *m, const char *name)
{
        size_t i = 0;

        while (i < m->n_apps && !streq_ptr(m->apps[i]->name, name))
                i++;
        if (i == m->n_apps)
                return NULL;
        PodApp *a = m->apps[i];
        memmove(m->apps + i, m->apps + i + 1, (--m->n_apps - i) * sizeof(PodApp *));
        return a;
}

void pod_manifest_insert_app(PodManifest *m, size_t i, PodApp *a)
{
        memmove(m->apps + i + 1, m->apps + i, (m->n_apps++ - i) * sizeof(PodApp *));
        m->apps[i] = a;
}

Volume *pod_manifest_add_volume(PodManifest *m)
{
        if (GREEDY_REALLOC(m->volumes, m->volumes_allocated, m->n_volumes + 1) < 0)
                return NULL;
        m->volumes[m->n_volumes] = (Volume){};
        return m->volumes + m->n_volumes++;
}

Mount *pod_app_add_mount(PodApp *a)
{
        if (GREEDY_REALLOC(a->mounts, a->mounts_allocated, a->n_mounts + 1) < 0)
                return NULL;
        a->mounts[a->n_mounts] = (Mount){};
        return a->mounts + a->n_mounts++;
}
