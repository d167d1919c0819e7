/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Volumes and mounts on the command line of prepare and run.
 *
 * In full both are comma-separated lists of KEY=VALUE; a comma or a backslash in a value is escaped with a
 * backslash. The short form, HOST:PATH[:OPTIONS], is a mount that also defines a volume of the host; with
 * the name of a volume instead of a path of the host it is a mount of that volume of the pod, or else of the
 * named volume. Names and quantities are
 * checked by the functions that check manifests, so that the same rules apply.
 *
 * The operator has written the command line, so symbolic links in a host path are resolved here, once, unless symlinks= is given. The
 * resolved path is stored, and every later open refuses symbolic links (stage0/mounts/volume.c): no other user can redirect
 * the volume after this check. Sources in images and manifests are never resolved.
 */

#include <limits.h>

#include "schema/settings.h"
#include "stage0/arguments/pod-fields.h"
#include "stage0/arguments/pod-values.h"

/* --- Volumes ------------------------------------------------------------------------------------------- */

typedef struct VolumeFields {
        Volume volume;
        bool has_kind, has_owner, has_tmpfs, has_tmpfs_limit, has_host_setting, has_named, has_quota,
                        has_image, has_image_setting, has_symlinks;
} VolumeFields;

/* Settings of volumes are kept as text, as in manifests. */
static int add_setting(VolumeFields *f, const char *key, const char *value)
{
        return volume_setting_add(&f->volume.settings, key, value);
}

static int store_setting(const char *key, void *target, const char *value, const char **reason)
{
        int r = volume_setting_check(key, value, reason);

        return r < 0 ? r : add_setting(target, key, value);
}

static int store_tmpfs_setting(const char *key, void *target, const char *value, const char **reason)
{
        ((VolumeFields *) target)->has_tmpfs_limit = true;
        return store_setting(key, target, value, reason);
}

static int store_quota(const char *key, void *target, const char *value, const char **reason)
{
        ((VolumeFields *) target)->has_quota = true;
        return store_setting(key, target, value, reason);
}

static int store_image_setting(const char *key, void *target, const char *value, const char **reason)
{
        ((VolumeFields *) target)->has_image_setting = true;
        return store_setting(key, target, value, reason);
}

static int store_host_setting(const char *key, void *target, const char *value, const char **reason)
{
        VolumeFields *f = target;

        f->has_host_setting = true;
        f->has_symlinks = f->has_symlinks || streq(key, "symlinks");
        return store_setting(key, target, value, reason);
}

static int store_kind(const char *key, void *target, const char *value, const char **reason)
{
        VolumeFields *f = target;

        *reason = f->has_kind ? "is the second kind" : "must be empty, tmpfs, named, image or host";
        if (f->has_kind || (!streq(value, "host") && !streq(value, "empty") && !streq(value, "tmpfs") &&
                            !streq(value, "named") && !streq(value, "image")))
                return -EINVAL;
        f->has_kind = true;
        f->has_tmpfs = streq(value, "tmpfs");
        f->has_named = streq(value, "named");
        f->has_image = streq(value, "image");
        f->volume.kind = streq(value, "host") ? VOLUME_HOST : VOLUME_EMPTY;
        return f->has_tmpfs || f->has_named || f->has_image ? add_setting(f, key, value) : 0;
}

static int store_source(const char *key, void *target, const char *value, const char **reason)
{
        VolumeFields *f = target;

        *reason = "is empty";
        if (isempty(value))
                return -EINVAL;
        free(f->volume.source);
        f->volume.source = strdup(value);
        return f->volume.source ? 0 : -ENOMEM;
}

static int store_boolean(const char *value, bool *ret_has, bool *ret, const char **reason)
{
        int b = parse_boolean(value);

        *reason = "must be true or false";
        if (b < 0)
                return b;
        *ret_has = true;
        *ret = b > 0;
        return 0;
}

static int store_read_only(const char *key, void *target, const char *value, const char **reason)
{
        Volume *v = &((VolumeFields *) target)->volume;

        return store_boolean(value, &v->has_read_only, &v->read_only, reason);
}

static int store_read_write(const char *key, void *target, const char *value, const char **reason)
{
        Volume *v = &((VolumeFields *) target)->volume;
        bool writable = false;

        int r = store_boolean(value, &v->has_read_only, &writable, reason);
        if (r >= 0)
                v->read_only = !writable;
        return r;
}

static int store_recursive(const char *key, void *target, const char *value, const char **reason)
{
        Volume *v = &((VolumeFields *) target)->volume;

        return store_boolean(value, &v->has_recursive, &v->recursive, reason);
}

static int store_mode(const char *key, void *target, const char *value, const char **reason)
{
        VolumeFields *f = target;
        uint32_t mode;

        *reason = "must be an octal mode up to 7777";
        if (parse_octal(value, &mode) < 0 || mode > 07777)
                return -EINVAL;
        f->volume.mode = mode;
        f->has_owner = true;
        return 0;
}

static int store_id(VolumeFields *f, const char *value, uint32_t *ret, const char **reason)
{
        *reason = "must be a number below 65536";
        if (parse_u32(value, ret) < 0 || *ret >= UID_RANGE_SIZE)
                return -EINVAL;
        f->has_owner = true;
        return 0;
}

static int store_uid(const char *key, void *target, const char *value, const char **reason)
{
        VolumeFields *f = target;

        return store_id(f, value, &f->volume.uid, reason);
}

static int store_gid(const char *key, void *target, const char *value, const char **reason)
{
        VolumeFields *f = target;

        return store_id(f, value, &f->volume.gid, reason);
}

static const Field volume_fields[] = {
                {"kind", store_kind},
                {"source", store_source},
                {"readOnly", store_read_only, true},
                {"recursive", store_recursive, true},
                {"mode", store_mode},
                {"uid", store_uid},
                {"gid", store_gid},
                {"size", store_tmpfs_setting},
                {"nr_inodes", store_tmpfs_setting},
                {"quota", store_quota},
                {"subpath", store_image_setting},
                {"exec", store_image_setting},
                {"idmap", store_host_setting, true},
                {"symlinks", store_host_setting, true},
                {"dev", store_host_setting, true},
                {"suid", store_host_setting, true},
                {"propagation", store_host_setting},
                {"read-only-below", store_host_setting},
                {"nested", store_setting, true},
};

/* Checks the combination of fields. */
static const char *volume_problem(const VolumeFields *f)
{
        if (!f->has_kind)
                return "needs kind=empty, kind=tmpfs, kind=named, kind=image or kind=host";
        if (f->volume.kind == VOLUME_HOST && !f->volume.source)
                return "a host volume needs source=PATH";
        if (f->volume.kind == VOLUME_HOST && !path_is_absolute(f->volume.source))
                return "the source of a host volume must be an absolute path";
        if (f->volume.kind == VOLUME_HOST && f->has_owner)
                return "mode, uid and gid are for empty volumes";
        if (f->has_named && f->volume.source && path_is_absolute(f->volume.source))
                return "the source of a named volume is its name, not a path";
        if (f->volume.kind == VOLUME_EMPTY &&
            ((f->volume.source && !f->has_named && !f->has_image) || f->volume.has_recursive))
                return "source and recursive are for host volumes";
        if (f->volume.kind == VOLUME_EMPTY && f->has_host_setting)
                return "idmap, symlinks, dev, suid and propagation are for host volumes";
        if (f->has_tmpfs_limit && !f->has_tmpfs)
                return "size and nr_inodes are for volumes of kind=tmpfs";
        if (f->has_quota && !f->has_named)
                return "quota is for volumes of kind=named";
        if (f->has_image_setting && !f->has_image)
                return "subpath and exec are for volumes of kind=image";
        if (f->has_image && !f->volume.source)
                return "an image volume needs source=IMAGE";
        if (f->has_image && strlen(f->volume.source) > VOLUME_IMAGE_MAX)
                return "the source is too long for the reference of an image";
        if (f->has_image && f->has_owner)
                return "mode, uid and gid are for empty volumes";
        if (f->has_image && f->volume.has_read_only && !f->volume.read_only)
                return "images are mounted read-only";
        return NULL;
}

/* Without "..", which the full form does not have. */
static bool path_is_normal(const char *path)
{
        _cleanup_free_ char *normal = NULL;

        return path_normalize(path, &normal) >= 0;
}

/* What does not exist stays as it is: it may exist when the pod runs. */
static int settle_host(VolumeFields *f)
{
        char *real = f->has_symlinks ? NULL : realpath(f->volume.source, NULL);

        if (!real) {
                int r = path_make_absolute(f->volume.source, &real);
                if (r < 0)
                        return r;
        }
        free(f->volume.source);
        f->volume.source = real;
        return 0;
}

/* The name of a named volume is a setting; a new one is as the image's directory unless its owner or mode is
 * given. */
static int settle_named(VolumeFields *f, const char *name)
{
        int r = add_setting(f, "source", name);

        f->volume.source = (free(f->volume.source), NULL);
        return r < 0 || f->has_owner ? r : add_setting(f, "owner", "image");
}

/* The reference of an image is a setting. */
static int settle_image(VolumeFields *f)
{
        int r = add_setting(f, "source", f->volume.source);

        f->volume.source = (free(f->volume.source), NULL);
        f->volume.has_read_only = f->volume.read_only = true;
        return r;
}

static int parse_volume(const Option *o, const char *value, VolumeFields *f, Error *e)
{
        _cleanup_error_ Error reason = ERROR_NULL;
        _cleanup_strv_free_ char **fields = NULL;
        const char *problem;

        if (strv_split_fields(value, &fields) < 0)
                return error_oom(e);
        if (ac_name_check(fields[0], &reason) < 0)
                return option_invalid_because(o, value, e, &reason);
        int r = store_fields(o, value, volume_fields, ELEMENTSOF(volume_fields), fields + 1, f, e);
        if (r < 0)
                return r;
        problem = volume_problem(f);
        if (problem)
                return option_invalid(o, value, e, "%s", problem);
        if (f->has_named && !f->volume.source && volume_name_check(fields[0], &reason) < 0)
                return option_invalid_because(o, value, e, &reason);
        if (f->has_named && f->volume.source && volume_name_check(f->volume.source, NULL) < 0)
                return option_invalid(o, value, e, "source '%s' must be the name of a volume",
                                      f->volume.source);
        if (f->has_named && settle_named(f, f->volume.source ?: fields[0]) < 0)
                return error_oom(e);
        if (f->has_image && settle_image(f) < 0)
                return error_oom(e);
        if (f->volume.kind == VOLUME_HOST && path_is_normal(f->volume.source) && settle_host(f) < 0)
                return error_oom(e);
        f->volume.name = strdup(fields[0]);
        return f->volume.name ? 0 : error_oom(e);
}

static int add_volume(const Option *o, const char *value, PodRequest *request, Error *e)
{
        VolumeFields f = {.volume.mode = 0755};

        int r = parse_volume(o, value, &f, e);
        for (size_t i = 0; r >= 0 && i < request->n_volumes; i++)
                if (streq(request->volumes[i].name, f.volume.name))
                        r = option_invalid(o, value, e, "there is a volume '%s' already", f.volume.name);
        if (r >= 0 &&
            GREEDY_REALLOC(request->volumes, request->volumes_allocated, request->n_volumes + 1) < 0)
                r = error_oom(e);
        if (r < 0) {
                volume_done(&f.volume);
                return r;
        }
        request->volumes[request->n_volumes++] = f.volume;
        return 0;
}

/* --- Mounts -------------------------------------------------------------------------------------------- */

static int store_mount_volume(const char *key, void *target, const char *value, const char **reason)
{
        Mount *m = target;

        *reason = path_is_absolute(value) ? "is not the name of a volume; --volume=HOST:PATH mounts a path "
                                            "of the host"
                                          : "is not the name of a volume";
        if (ac_name_check(value, NULL) < 0)
                return -EINVAL;
        free(m->volume);
        m->volume = strdup(value);
        return m->volume ? 0 : -ENOMEM;
}

static int store_mount_target(const char *key, void *target, const char *value, const char **reason)
{
        Mount *m = target;

        *reason = "must be an absolute path";
        if (!path_is_absolute(value))
                return -EINVAL;
        free(m->path);
        m->path = strdup(value);
        return m->path ? 0 : -ENOMEM;
}

static int store_mount_read_only(const char *key, void *target, const char *value, const char **reason)
{
        Mount *m = target;
        bool given;

        return store_boolean(value, &given, &m->read_only, reason);
}

static int store_mount_read_write(const char *key, void *target, const char *value, const char **reason)
{
        Mount *m = target;
        bool given, writable = false;

        int r = store_boolean(value, &given, &writable, reason);
        if (r >= 0)
                m->read_only = !writable;
        return r;
}

/* In other tools this key selects the type of the mount. */
static int store_mount_type(const char *key, void *target, const char *value, const char **reason)
{
        *reason = "is not for mounts: --volume=HOST:PATH mounts a path of the host, --volume=NAME,kind=… "
                  "makes a volume";
        return -EINVAL;
}

/* With aliases from other tools. */
static const Field mount_fields[] = {
                {"volume", store_mount_volume},
                {"target", store_mount_target},
                {"readOnly", store_mount_read_only, true},
                {"source", store_mount_volume},
                {"src", store_mount_volume},
                {"dst", store_mount_target},
                {"destination", store_mount_target},
                {"readonly", store_mount_read_only, true},
                {"ro", store_mount_read_only, true},
                {"type", store_mount_type},
};

/* --- The short form ------------------------------------------------------------------------------------ */

static bool is_short(const char *value)
{
        size_t n = strcspn(value, ":=,");

        return value[n] == ':' || path_is_absolute(value);
}

/* "./x", "../x", "x/y": a name has no slash, and does not begin with a dot. */
static bool is_relative(const char *source)
{
        return !path_is_absolute(source) && (*source == '.' || strchr(source, '/'));
}

static bool takes_short_form(const Option *o)
{
        return o->handler == option_volume || o->handler == option_app_volume ||
               o->handler == option_pod_mount || o->handler == option_app_mount;
}

int volume_option_make_absolute(const Option *o, const char *value, char **ret)
{
        _cleanup_free_ char *source = strndup(value, strcspn(value, ":")), *absolute = NULL;

        if (!source)
                return -ENOMEM;
        if (!takes_short_form(o) || !is_short(value) || !is_relative(source))
                return 0;
        int r = path_make_absolute(source, &absolute);
        return r < 0 ? r : xasprintf(ret, "%s%s", absolute, value + strlen(source)) < 0 ? -ENOMEM : 1;
}

static int split_short(const Option *o, const char *value, char ***ret, Error *e)
{
        const char *path = strchr(value, ':'), *options = path ? strchr(path + 1, ':') : NULL;
        _cleanup_strv_free_ char **parts = NULL;

        if (!path || path == value || !path_is_absolute(path + 1))
                return option_invalid(o, value, e,
                                      "must be HOST:PATH[:OPTIONS] or VOLUME:PATH[:OPTIONS], PATH being "
                                      "absolute");
        if (strv_extendf(&parts, "%.*s", (int) (path - value), value) < 0 ||
            strv_extendf(&parts, "%.*s", (int) (options ? options - path - 1 : INT_MAX), path + 1) < 0 ||
            strv_extend(&parts, options ? options + 1 : "") < 0)
                return error_oom(e);
        *ret = TAKE_PTR(parts);
        return 0;
}

/* Options of a mount of an existing volume, */
static const Field mount_words[] = {
                {"ro", store_mount_read_only, true},
                {"rw", store_mount_read_write, true},
                {"readOnly", store_mount_read_only, true},
};

/* and of a mount that defines its volume. */
static const Field short_fields[] = {
                {"ro", store_read_only, true},       {"rw", store_read_write, true},
                {"readOnly", store_read_only, true}, {"recursive", store_recursive, true},
                {"idmap", store_host_setting, true}, {"symlinks", store_host_setting, true},
                {"dev", store_host_setting, true},   {"suid", store_host_setting, true},
                {"propagation", store_host_setting}, {"read-only-below", store_host_setting},
                {"nested", store_setting, true},
};

/* The name of such a volume: derived from its target. */
static int name_volume(const char *path, char **ret)
{
        int r = app_name_from_image_name(path, ret);

        if (r != -EINVAL)
                return r;
        *ret = strdup("volume");
        return *ret ? 0 : -ENOMEM;
}

static int bring_volume(const Option *o, const char *value, char *const *parts, char *const *words, Mount *m,
                        Error *e)
{
        VolumeFields f = {.volume = {.kind = VOLUME_HOST}};

        int r = store_fields(o, value, short_fields, ELEMENTSOF(short_fields), words, &f, e);
        f.volume.source = strdup(parts[0]);
        if (r >= 0 && f.volume.source && settle_host(&f) < 0)
                r = error_oom(e);
        if (r >= 0 && (!f.volume.source || name_volume(parts[1], &f.volume.name) < 0 ||
                       !(m->volume = strdup(f.volume.name)) || !(m->app_volume = calloc(1, sizeof(Volume)))))
                r = error_oom(e);
        if (r < 0) {
                volume_done(&f.volume);
                return r;
        }
        *m->app_volume = f.volume;
        return 0;
}

/* A named volume, unless the pod has a volume of that name. */
static int bring_named(const char *name, Mount *m, Error *e)
{
        VolumeFields f = {.volume = {.kind = VOLUME_EMPTY, .mode = 0755}};

        f.volume.name = strdup(name);
        m->app_volume = calloc(1, sizeof(Volume));
        if (!f.volume.name || !m->app_volume || add_setting(&f, "kind", "named") < 0 ||
            settle_named(&f, name) < 0) {
                volume_done(&f.volume);
                return error_oom(e);
        }
        *m->app_volume = f.volume;
        return 0;
}

/* Drops options of other tools that need nothing to be done: files have the same owners in the pod as on the host. */
static int drop_ignored(const Option *o, const char *value, char **words, Error *e)
{
        static const char *const ignored[] = {"z", "Z", "U", "cached", "delegated", "consistent"};
        size_t kept = 0;

        for (size_t i = 0; words && words[i]; i++) {
                size_t k = 0;
                while (k < ELEMENTSOF(ignored) && !streq(words[i], ignored[k]))
                        k++;
                if (k < 2 && access("/sys/fs/selinux/enforce", F_OK) >= 0) {
                        int r = option_invalid(o, value, e, "files are not labelled for SELinux here");
                        return error_hint(e, r, "Label them once: chcon -R -t container_file_t");
                }
                if (k == ELEMENTSOF(ignored))
                        words[kept++] = words[i];
                else
                        free(words[i]);
        }
        if (words)
                words[kept] = NULL;
        return 0;
}

/* NAMED: a name may be that of a named volume. */
static int parse_short(const Option *o, const char *value, bool named, Mount *m, Error *e)
{
        _cleanup_strv_free_ char **parts = NULL, **words = NULL;
        _cleanup_error_ Error reason = ERROR_NULL;

        int r = split_short(o, value, &parts, e);
        if (r < 0)
                return r;
        if (strv_split(parts[2], ",", &words) < 0 || !(m->path = strdup(parts[1])))
                return error_oom(e);
        r = drop_ignored(o, value, words, e);
        if (r < 0)
                return r;
        if (path_is_absolute(parts[0]) || is_relative(parts[0]))
                return bring_volume(o, value, parts, words, m, e);
        if (ac_name_check(parts[0], &reason) < 0)
                return option_invalid_because(o, value, e, &reason);
        m->volume = strdup(parts[0]);
        if (!m->volume)
                return error_oom(e);
        r = named && volume_name_check(parts[0], NULL) >= 0 ? bring_named(parts[0], m, e) : 0;
        return r < 0 ? r : store_fields(o, value, mount_words, ELEMENTSOF(mount_words), words, m, e);
}

static int parse_mount(const Option *o, const char *value, bool named, Mount *m, Error *e)
{
        _cleanup_strv_free_ char **fields = NULL;

        static const char forms[] = "needs volume=NAME and target=PATH, or NAME:PATH";
        if (is_short(value))
                return parse_short(o, value, named, m, e);
        if (!strchr(value, '='))
                return option_invalid(o, value, e, "%s", forms);
        int r = strv_split_fields(value, &fields);
        if (r < 0)
                return error_oom(e);
        r = store_fields(o, value, mount_fields, ELEMENTSOF(mount_fields), fields, m, e);
        if (r < 0)
                return r;
        if (!m->volume || !m->path)
                return option_invalid(o, value, e, "%s", forms);
        return 0;
}

static int add_mount(const Option *o, const char *value, bool named, Mount **mounts, size_t *n,
                     size_t *allocated, Error *e)
{
        Mount m = {};

        int r = parse_mount(o, value, named, &m, e);
        if (r >= 0 && GREEDY_REALLOC(*mounts, *allocated, *n + 1) < 0)
                r = error_oom(e);
        if (r < 0) {
                mount_done(&m);
                return r;
        }
        (*mounts)[(*n)++] = m;
        return 0;
}

int option_pod_mount(const Option *o, const char *value, void *target, Error *e)
{
        PodRequest *p = target;

        return add_mount(o, value, false, &p->mounts, &p->n_mounts, &p->mounts_allocated, e);
}

int option_app_mount(const Option *o, const char *value, void *target, Error *e)
{
        AppOverrides *a = target;

        return add_mount(o, value, false, &a->mounts, &a->n_mounts, &a->mounts_allocated, e);
}

/* Either form. */
int option_volume(const Option *o, const char *value, void *target, Error *e)
{
        PodRequest *p = target;

        if (!is_short(value))
                return add_volume(o, value, p, e);
        return add_mount(o, value, true, &p->mounts, &p->n_mounts, &p->mounts_allocated, e);
}

int option_app_volume(const Option *o, const char *value, void *target, Error *e)
{
        AppOverrides *a = target;

        if (is_short(value))
                return add_mount(o, value, true, &a->mounts, &a->n_mounts, &a->mounts_allocated, e);
        int r = option_invalid(o, value, e, "here it must be HOST:PATH[:OPTIONS] or VOLUME:PATH[:OPTIONS]");
        return error_hint(e, r, "Volumes are for the whole pod: define them before the first image.");
}
