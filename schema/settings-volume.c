/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Settings of volumes: properties that the specification's two kinds, empty and host, cannot express. They
 * are in the annotation acnspawn/volume/<name> of the pod, as KEY=VALUE separated by commas, so that every
 * executor can read the manifest: for other executors a volume in memory, a named volume of the store and an
 * image are empty ones. Commas and backslashes in values are escaped with a backslash. */

#include "schema/settings.h"

/* --- Values: each reads VALUE into its member ---------------------------------------------------------- */

#define ANY_KIND (-1)

enum { OF_TMPFS = 1, OF_NAMED = 2, OF_IMAGE = 4, OF_SOURCE = 8 };

#define NAME_EXPECTED                                                                                       \
        "must be the name of a named volume: at most 63 lower case letters and digits, with '-' between "   \
        "them"

typedef struct Reading {
        VolumeSettings settings;
        const char *source; /* its meaning depends on the kind */
        int kind, needs;    /* OF_… */
} Reading;

static int read_kind(const char *value, Reading *x)
{
        x->kind = streq(value, "tmpfs")   ? OF_TMPFS
                  : streq(value, "named") ? OF_NAMED
                  : streq(value, "image") ? OF_IMAGE
                                          : 0;
        x->settings.tmpfs = x->kind == OF_TMPFS;
        return x->kind ? 0 : -EINVAL;
}

static int read_source(const char *value, Reading *x)
{
        x->source = value;
        return 0;
}

/* Relative, without "..": what leads out of the image is refused before it is looked up there. */
static int read_sub_path(const char *value, Reading *x)
{
        _cleanup_strv_free_ char **parts = NULL;

        if (isempty(value) || *value == '/' || strlen(value) > VOLUME_SUB_PATH_MAX ||
            !utf8_is_valid(value, strlen(value)))
                return -EINVAL;
        int r = strv_split(value, "/", &parts);
        if (r >= 0 && strv_contains(parts, ".."))
                r = -EINVAL;
        if (r >= 0)
                memcpy(x->settings.sub_path, value, strlen(value) + 1);
        return r;
}

static int read_exec(const char *value, Reading *x)
{
        int r = parse_boolean(value);

        x->settings.no_exec = r == 0;
        return r;
}

static int read_owner(const char *value, Reading *x)
{
        x->settings.owner_image = streq(value, "image");
        return x->settings.owner_image ? 0 : -EINVAL;
}

int volume_quota_parse(const char *value, uint64_t *ret)
{
        uint64_t quota;
        int r = quantity_parse(value, 1, &quota, NULL);

        if (r >= 0 && (quota < VOLUME_QUOTA_MIN || quota > VOLUME_QUOTA_MAX))
                r = -EINVAL;
        if (r >= 0)
                *ret = quota;
        return r;
}

static int read_quota(const char *value, Reading *x)
{
        return volume_quota_parse(value, &x->settings.quota);
}

static int read_size(const char *value, Reading *x)
{
        VolumeSettings *s = &x->settings;
        int r = quantity_parse(value, 1, &s->size, NULL);

        return r >= 0 && s->size == 0 ? -EINVAL : r;
}

static int read_inodes(const char *value, Reading *x)
{
        VolumeSettings *s = &x->settings;
        int r = quantity_parse(value, 1, &s->n_inodes, NULL);

        return r >= 0 && s->n_inodes == 0 ? -EINVAL : r;
}

static int read_symlinks(const char *value, Reading *x)
{
        int r = parse_boolean(value);

        x->settings.symlinks = r > 0;
        return r;
}

static int read_devices(const char *value, Reading *x)
{
        int r = parse_boolean(value);

        x->settings.devices = r > 0;
        return r;
}

static int read_set_uid(const char *value, Reading *x)
{
        int r = parse_boolean(value);

        x->settings.set_uid = r > 0;
        return r;
}

static int read_read_only_below(const char *value, Reading *x)
{
        int r = parse_boolean(value);

        x->settings.writable_below = r == 0;
        return r;
}

static int read_nested(const char *value, Reading *x)
{
        int r = parse_boolean(value);

        x->settings.nested = r > 0;
        return r;
}

static int read_propagation(const char *value, Reading *x)
{
        static const char *const words[_PROPAGATION_MAX] = {"private", "slave", "shared"};

        int r = word_index(words, ELEMENTSOF(words), value);

        if (r >= 0)
                x->settings.propagation = r;
        return MIN(r, 0);
}

static bool ranges_meet(uint32_t a, uint32_t b, uint32_t n_a, uint32_t n_b)
{
        return a < b ? b - a < n_a : a - b < n_b;
}

static int add_range(VolumeSettings *s, const IdRange *range)
{
        if (s->n_ranges >= VOLUME_ID_RANGES_MAX)
                return -E2BIG;
        for (size_t i = 0; i < s->n_ranges; i++) {
                const IdRange *o = &s->ranges[i];
                if (ranges_meet(o->host, range->host, o->count, range->count) ||
                    ranges_meet(o->pod, range->pod, o->count, range->count))
                        return -EINVAL;
        }
        s->ranges[s->n_ranges++] = *range;
        return 0;
}

/* HOST:POD:COUNT */
static int read_range(char *text, VolumeSettings *s)
{
        char *pod = strchr(text, ':'), *count = pod ? strchr(pod + 1, ':') : NULL;
        IdRange range;

        if (!count)
                return -EINVAL;
        *pod = *count = 0;
        if (parse_u32(text, &range.host) < 0 || parse_u32(pod + 1, &range.pod) < 0 ||
            parse_u32(count + 1, &range.count) < 0 || range.count == 0)
                return -EINVAL;
        /* The largest number is not a valid user ID. */
        if (range.host > UINT32_MAX - range.count || range.pod >= VOLUME_POD_IDS ||
            range.count > VOLUME_POD_IDS - range.pod)
                return -EINVAL;
        return add_range(s, &range);
}

static int read_id_map(const char *value, Reading *x)
{
        VolumeSettings *s = &x->settings;
        _cleanup_strv_free_ char **ranges = NULL;
        int b = parse_boolean(value);

        if (b >= 0 || streq(value, "auto")) {
                s->id_map = b < 0 ? ID_MAP_AUTO : b > 0 ? ID_MAP_YES : ID_MAP_NO;
                return 0;
        }
        int r = strv_split(value, "+", &ranges);
        s->id_map = ID_MAP_RANGES;
        s->n_ranges = 0;
        for (size_t i = 0; r >= 0 && ranges && ranges[i]; i++)
                r = read_range(ranges[i], s);
        return r >= 0 && s->n_ranges == 0 ? -EINVAL : r;
}

/* --- The table ----------------------------------------------------------------------------------------- */

static const struct Setting {
        const char *key;
        int (*read)(const char *value, Reading *x);
        const char *expected;
        int kind;  /* VolumeKind of volumes that it applies to; or ANY_KIND */
        int needs; /* of the empty ones only to these, or 0 */
} settings[] = {
                {"nested", read_nested, "must be true or false", ANY_KIND, 0},
                {"kind", read_kind, "must be tmpfs, named or image", VOLUME_EMPTY, 0},
                {"size", read_size, "must be a number of bytes, as 64Mi or 1G", VOLUME_EMPTY, OF_TMPFS},
                {"nr_inodes", read_inodes, "must be a number of files, as 1000 or 10k", VOLUME_EMPTY,
                 OF_TMPFS},
                {"source", read_source, NAME_EXPECTED, VOLUME_EMPTY, OF_SOURCE},
                {"subpath", read_sub_path, "must be a path in the image, relative and without '..'",
                 VOLUME_EMPTY, OF_IMAGE},
                {"exec", read_exec, "must be true or false", VOLUME_EMPTY, OF_IMAGE},
                {"owner", read_owner, "must be image", VOLUME_EMPTY, OF_NAMED},
                {"quota", read_quota, VOLUME_QUOTA_EXPECTED, VOLUME_EMPTY, OF_NAMED},
                {"idmap", read_id_map,
                 "must be yes, no, auto, or ranges of users that do not overlap, as HOST:POD:COUNT[+…], "
                 "with those of the pod below 65536",
                 VOLUME_HOST, 0},
                {"symlinks", read_symlinks, "must be true or false", VOLUME_HOST, 0},
                {"dev", read_devices, "must be true or false", VOLUME_HOST, 0},
                {"suid", read_set_uid, "must be true or false", VOLUME_HOST, 0},
                {"read-only-below", read_read_only_below, "must be true or false", VOLUME_HOST, 0},
                {"propagation", read_propagation, "must be private, slave or shared", VOLUME_HOST, 0},
};

static const struct Setting *find_setting(const char *key, size_t n)
{
        for (size_t i = 0; i < ELEMENTSOF(settings); i++)
                if (strlen(settings[i].key) == n && strncmp(settings[i].key, key, n) == 0)
                        return &settings[i];
        return NULL;
}

int volume_setting_check(const char *key, const char *value, const char **ret_expected)
{
        const struct Setting *row = find_setting(key, strlen(key));
        Reading x = {};

        *ret_expected = row ? row->expected : "is not a setting of volumes";
        return row ? row->read(value, &x) : -ENOENT;
}

int volume_name_check(const char *s, Error *e)
{
        if (strlen(s) > VOLUME_NAME_MAX)
                return error_set(e, -EINVAL,
                                 "'%.20s…' is not the name of a volume: it is longer than %u characters", s,
                                 VOLUME_NAME_MAX);
        return ac_name_check(s, e);
}

static int read_pair(const char *pair, const Volume *v, Reading *x, Error *e)
{
        size_t n = strcspn(pair, "=");
        const struct Setting *row = pair[n] ? find_setting(pair, n) : NULL;
        _cleanup_free_ char *shown = text_escape_for_terminal(pair);

        if (!row)
                return error_set(e, -EINVAL, "Volume '%s' has an unknown setting '%s'", v->name,
                                 shown ?: "?");
        if (row->kind != ANY_KIND && row->kind != (int) v->kind)
                return error_set(e, -EINVAL, "Volume '%s' cannot have %s: that is for %s volumes", v->name,
                                 row->key, row->kind == VOLUME_HOST ? "host" : "empty");
        int r = row->read(pair + n + 1, x);
        if (r == -ENOMEM)
                return error_oom(e);
        if (r < 0)
                return error_set(e, -EINVAL, "Volume '%s' has the setting '%s', but %s %s", v->name,
                                 shown ?: "?", row->key, row->expected);
        x->needs |= row->needs;
        return 0;
}

/* Checks the combination of settings. */
static const char *settings_problem(const Reading *x)
{
        if (x->needs & OF_TMPFS && x->kind != OF_TMPFS)
                return "cannot have size or nr_inodes: that is for volumes in memory, of kind=tmpfs";
        if (x->needs & OF_NAMED && x->kind != OF_NAMED)
                return "cannot have owner or quota: that is for named volumes, of kind=named";
        if (x->needs & OF_IMAGE && x->kind != OF_IMAGE)
                return "cannot have subpath or exec: that is for images, of kind=image";
        if (x->needs & OF_SOURCE && x->kind != OF_NAMED && x->kind != OF_IMAGE)
                return "cannot have source: that is for volumes of kind=named, and of kind=image";
        if (x->kind == OF_NAMED && !x->source)
                return "needs source=NAME, as it is of kind=named";
        if (x->kind == OF_IMAGE && isempty(x->source))
                return "needs source=IMAGE, as it is of kind=image";
        if (x->kind == OF_IMAGE && strlen(x->source) > VOLUME_IMAGE_MAX)
                return "has a source that is too long for the reference of an image";
        return NULL;
}

static int settle_source(Reading *x, const Volume *v, Error *e)
{
        VolumeSettings *s = &x->settings;

        if (x->kind == OF_IMAGE)
                memcpy(s->image, x->source, strlen(x->source) + 1);
        if (x->kind != OF_NAMED)
                return 0;
        if (volume_name_check(x->source, NULL) < 0) {
                _cleanup_free_ char *shown = text_escape_for_terminal(x->source);
                return error_set(e, -EINVAL, "Volume '%s' has the setting 'source=%s', but source %s",
                                 v->name, shown ?: "?", NAME_EXPECTED);
        }
        memcpy(s->named, x->source, strlen(x->source) + 1);
        return 0;
}

int volume_settings_parse(const char *text, const Volume *v, VolumeSettings *ret, Error *e)
{
        Reading x = {.settings.id_map = ID_MAP_AUTO};
        _cleanup_strv_free_ char **pairs = NULL;
        const char *problem;

        if (strv_split_fields(text, &pairs) < 0)
                return error_oom(e);
        STRV_FOREACH (pair, pairs) {
                int r = isempty(*pair) ? 0 : read_pair(*pair, v, &x, e);
                if (r < 0)
                        return r;
        }
        problem = settings_problem(&x);
        if (problem)
                return error_set(e, -EINVAL, "Volume '%s' %s", v->name, problem);
        int r = settle_source(&x, v, e);
        if (r >= 0)
                *ret = x.settings;
        return r;
}

int volume_setting_add(char **list, const char *key, const char *value)
{
        _cleanup_text_ Text t = {};
        char *text;

        if (*list)
                text_addf(&t, "%s,", *list);
        text_addf(&t, "%s=", key);
        for (; *value; value++)
                text_addf(&t, "%s%c", *value == ',' || *value == '\\' ? "\\" : "", *value);
        int r = text_take(&t, &text, NULL);
        if (r < 0)
                return r;
        free(*list);
        *list = text;
        return 0;
}

int volume_settings_read(const PodManifest *m, const Volume *v, VolumeSettings *ret, Error *e)
{
        _cleanup_free_ char *name = NULL;
        VolumeSettings s = {.id_map = ID_MAP_AUTO};

        if (m->annotations.n > 0) {
                if (xasprintf(&name, VOLUME_SETTINGS_PREFIX "%s", v->name) < 0)
                        return error_oom(e);
                const char *text = pair_list_get(&m->annotations, name);
                int r = text ? volume_settings_parse(text, v, &s, e) : 0;
                if (r < 0)
                        return r;
        }
        *ret = s;
        return 0;
}

int pod_volume_settings_check(const PodManifest *m, Error *e)
{
        VolumeSettings s;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < m->n_volumes; i++)
                r = volume_settings_read(m, &m->volumes[i], &s, e);
        for (size_t i = 0; r >= 0 && i < m->annotations.n; i++) {
                const char *name = startswith(m->annotations.items[i].name, VOLUME_SETTINGS_PREFIX);
                if (name && !pod_manifest_find_volume(m, name))
                        r = error_set(e, -ENOENT,
                                      "The annotation %s is for a volume that the pod does not have",
                                      m->annotations.items[i].name);
        }
        return r;
}
