/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The values of the options of prepare and run: pairs, volumes, mounts.
 *
 * Volumes and mounts are lists of KEY=VALUE between commas; a comma or a backslash in a value is written
 * with a backslash in front. Names and quantities are checked by the functions that check manifests, so that
 * both know the same rules.
 */

#include "schema/settings.h"
#include "stage0/pod-arguments.h"

/* --- Pairs --------------------------------------------------------------------------------------------- */

static int add_pair(const Option *o, const char *value, PairList *l, int (*check)(const char *, Error *),
                    Error *e)
{
        const char *equals = strchr(value, '=');
        _cleanup_error_ Error reason = ERROR_NULL;
        _cleanup_free_ char *name = NULL;

        if (!equals || equals == value)
                return option_invalid(o, value, e, "must be NAME=VALUE");
        name = strndup(value, (size_t) (equals - value));
        if (!name)
                return error_oom(e);
        if (check && check(name, &reason) < 0)
                return option_invalid_because(o, value, e, &reason);
        return pair_list_set(l, name, equals + 1) < 0 ? error_oom(e) : 0;
}

/* A name alone takes the value from our own environment. */
int option_environment(const Option *o, const char *value, void *target, Error *e)
{
        _cleanup_free_ char *pair = NULL;
        const char *inherited;

        if (strchr(value, '='))
                return add_pair(o, value, target, environment_name_check, e);
        inherited = getenv(value);
        if (!inherited)
                return option_invalid(o, value, e,
                                      "no value given, and there is no such variable to take it from");
        if (xasprintf(&pair, "%s=%s", value, inherited) < 0)
                return error_oom(e);
        return add_pair(o, pair, target, environment_name_check, e);
}

int option_annotation(const Option *o, const char *value, void *target, Error *e)
{
        return add_pair(o, value, target, ac_identifier_check, e);
}

/* A setting of the app has the name of its option. */
int option_setting(const Option *o, const char *value, void *target, Error *e)
{
        _cleanup_error_ Error reason = ERROR_NULL;
        _cleanup_free_ char *name = NULL;

        if (app_setting_check(o->name, value, &reason) < 0)
                return option_invalid_because(o, value, e, &reason);
        if (xasprintf(&name, SETTING_PREFIX "%s", o->name) < 0 || pair_list_set(target, name, value) < 0)
                return error_oom(e);
        return 0;
}

int option_pair(const Option *o, const char *value, void *target, Error *e)
{
        return add_pair(o, value, target, NULL, e);
}

/* --- Lists of fields ----------------------------------------------------------------------------------- */

/* Splits at commas, taking away the backslashes. */
static int split_fields(const char *s, char ***ret)
{
        _cleanup_strv_free_ char **fields = NULL;

        for (bool more = true; more;) {
                _cleanup_text_ Text field = {};
                char *text;

                for (; *s && *s != ','; s++) {
                        if (*s == '\\' && (s[1] == ',' || s[1] == '\\'))
                                s++;
                        text_add_bytes(&field, s, 1);
                }
                more = *s == ',';
                s += more;
                if (text_take(&field, &text, NULL) < 0 || strv_consume(&fields, text) < 0)
                        return -ENOMEM;
        }
        *ret = TAKE_PTR(fields);
        return 0;
}

/* One key of such a list: stores its value, or says with a negative errno and REASON what is wrong. */
typedef struct Field {
        const char *key;
        int (*store)(void *target, const char *value, const char **reason);
} Field;

static int store_field(const Option *o, const char *whole, const Field *fields, size_t n_fields,
                       const char *text, void *target, Error *e)
{
        const char *equals = strchr(text, '='), *reason = "not valid";
        _cleanup_free_ char *key = NULL;

        if (!equals)
                return option_invalid(o, whole, e, "'%s' is not KEY=VALUE", text);
        key = strndup(text, (size_t) (equals - text));
        if (!key)
                return error_oom(e);
        for (size_t i = 0; i < n_fields; i++) {
                if (!streq(fields[i].key, key))
                        continue;
                int r = fields[i].store(target, equals + 1, &reason);
                if (r == -ENOMEM)
                        return error_oom(e);
                return r < 0 ? option_invalid(o, whole, e, "%s '%s' %s", key, equals + 1, reason) : 0;
        }

        int r = option_invalid(o, whole, e, "unknown key '%s'", key);
        const char *near = nearest_match(key, &fields[0].key, n_fields, sizeof(Field));
        return near ? error_hint(e, r, "Did you mean '%s'?", near) : r;
}

static int store_fields(const Option *o, const char *whole, const Field *fields, size_t n_fields,
                        char *const *texts, void *target, Error *e)
{
        STRV_FOREACH (s, texts) {
                int r = store_field(o, whole, fields, n_fields, *s, target, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* --- Volumes ------------------------------------------------------------------------------------------- */

typedef struct VolumeFields {
        Volume volume;
        bool has_kind, has_owner;
} VolumeFields;

static int store_kind(void *target, const char *value, const char **reason)
{
        VolumeFields *f = target;

        *reason = "must be empty or host";
        f->has_kind = true;
        f->volume.kind = streq(value, "host") ? VOLUME_HOST : VOLUME_EMPTY;
        return streq(value, "host") || streq(value, "empty") ? 0 : -EINVAL;
}

static int store_source(void *target, const char *value, const char **reason)
{
        VolumeFields *f = target;

        *reason = "must be an absolute path";
        if (!path_is_absolute(value))
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

static int store_read_only(void *target, const char *value, const char **reason)
{
        Volume *v = &((VolumeFields *) target)->volume;

        return store_boolean(value, &v->has_read_only, &v->read_only, reason);
}

static int store_recursive(void *target, const char *value, const char **reason)
{
        Volume *v = &((VolumeFields *) target)->volume;

        return store_boolean(value, &v->has_recursive, &v->recursive, reason);
}

static int store_mode(void *target, const char *value, const char **reason)
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

static int store_uid(void *target, const char *value, const char **reason)
{
        VolumeFields *f = target;

        return store_id(f, value, &f->volume.uid, reason);
}

static int store_gid(void *target, const char *value, const char **reason)
{
        VolumeFields *f = target;

        return store_id(f, value, &f->volume.gid, reason);
}

static const Field volume_fields[] = {
                {"kind", store_kind},
                {"source", store_source},
                {"readOnly", store_read_only},
                {"recursive", store_recursive},
                {"mode", store_mode},
                {"uid", store_uid},
                {"gid", store_gid},
};

/* What fits together. */
static const char *volume_problem(const VolumeFields *f)
{
        if (!f->has_kind)
                return "needs kind=empty or kind=host";
        if (f->volume.kind == VOLUME_HOST && !f->volume.source)
                return "a host volume needs source=PATH";
        if (f->volume.kind == VOLUME_HOST && f->has_owner)
                return "mode, uid and gid are for empty volumes";
        if (f->volume.kind == VOLUME_EMPTY && (f->volume.source || f->volume.has_recursive))
                return "source and recursive are for host volumes";
        return NULL;
}

static int parse_volume(const Option *o, const char *value, VolumeFields *f, Error *e)
{
        _cleanup_error_ Error reason = ERROR_NULL;
        _cleanup_strv_free_ char **fields = NULL;
        const char *problem;

        if (split_fields(value, &fields) < 0)
                return error_oom(e);
        if (ac_name_check(fields[0], &reason) < 0)
                return option_invalid_because(o, value, e, &reason);
        int r = store_fields(o, value, volume_fields, ELEMENTSOF(volume_fields), fields + 1, f, e);
        if (r < 0)
                return r;
        problem = volume_problem(f);
        if (problem)
                return option_invalid(o, value, e, "%s", problem);
        f->volume.name = strdup(fields[0]);
        return f->volume.name ? 0 : error_oom(e);
}

int option_volume(const Option *o, const char *value, void *target, Error *e)
{
        VolumeFields f = {.volume.mode = 0755};
        PodRequest *request = target;

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

static int store_mount_volume(void *target, const char *value, const char **reason)
{
        Mount *m = target;

        *reason = "is not the name of a volume";
        if (ac_name_check(value, NULL) < 0)
                return -EINVAL;
        free(m->volume);
        m->volume = strdup(value);
        return m->volume ? 0 : -ENOMEM;
}

static int store_mount_target(void *target, const char *value, const char **reason)
{
        Mount *m = target;

        *reason = "must be an absolute path";
        if (!path_is_absolute(value))
                return -EINVAL;
        free(m->path);
        m->path = strdup(value);
        return m->path ? 0 : -ENOMEM;
}

static const Field mount_fields[] = {
                {"volume", store_mount_volume},
                {"target", store_mount_target},
};

/* VOLUME:PATH as the two fields it stands for, or NULL if it is no such thing. */
static int expand_short_mount(const char *value, char ***ret)
{
        const char *colon = strchr(value, ':');

        if (!colon || memchr(value, '=', (size_t) (colon - value)) ||
            memchr(value, ',', (size_t) (colon - value)))
                return 0;
        _cleanup_strv_free_ char **fields = NULL;
        if (strv_extendf(&fields, "volume=%.*s", (int) (colon - value), value) < 0 ||
            strv_extendf(&fields, "target=%s", colon + 1) < 0)
                return -ENOMEM;
        *ret = TAKE_PTR(fields);
        return 1;
}

static int parse_mount(const Option *o, const char *value, Mount *m, Error *e)
{
        _cleanup_strv_free_ char **fields = NULL;

        static const char forms[] = "needs volume=NAME and target=PATH, or NAME:PATH";
        if (!strpbrk(value, ":="))
                return option_invalid(o, value, e, "%s", forms);
        int r = expand_short_mount(value, &fields);
        if (r == 0)
                r = split_fields(value, &fields);
        if (r < 0)
                return error_oom(e);
        r = store_fields(o, value, mount_fields, ELEMENTSOF(mount_fields), fields, m, e);
        if (r < 0)
                return r;
        if (!m->volume || !m->path)
                return option_invalid(o, value, e, "%s", forms);
        return 0;
}

static int add_mount(const Option *o, const char *value, Mount **mounts, size_t *n, size_t *allocated,
                     Error *e)
{
        Mount m = {};

        int r = parse_mount(o, value, &m, e);
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

        return add_mount(o, value, &p->mounts, &p->n_mounts, &p->mounts_allocated, e);
}

int option_app_mount(const Option *o, const char *value, void *target, Error *e)
{
        AppOverrides *a = target;

        return add_mount(o, value, &a->mounts, &a->n_mounts, &a->mounts_allocated, e);
}

/* --- The rest ------------------------------------------------------------------------------------------ */

int option_exec(const Option *o, const char *value, void *target, Error *e)
{
        _cleanup_strv_free_ char **exec = NULL;

        if (isempty(value))
                return option_invalid(o, value, e, "must not be empty");
        if (strv_extend(&exec, value) < 0)
                return error_oom(e);
        strv_free(*(char ***) target);
        *(char ***) target = TAKE_PTR(exec);
        return 0;
}

int option_gids(const Option *o, const char *value, void *target, Error *e)
{
        _cleanup_strv_free_ char **words = NULL;
        AppOverrides *a = target;

        if (strv_split(value, ",", &words) < 0)
                return error_oom(e);
        STRV_FOREACH (s, words) {
                uint32_t gid;

                if (parse_u32(*s, &gid) < 0)
                        return option_invalid(o, value, e, "'%s' is not a group number", *s);
                if (GREEDY_REALLOC(a->supplementary_gids, a->supplementary_gids_allocated,
                                   a->n_supplementary_gids + 1) < 0)
                        return error_oom(e);
                a->supplementary_gids[a->n_supplementary_gids++] = gid;
        }
        return 0;
}
