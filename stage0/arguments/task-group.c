/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* From a group of tasks of Mesos (TaskGroupInfo, JSON of the v1 API) to a group of apps.
 *
 * A task is an app: its command, image, environment, resources, volumes, health check, kill policy and labels are the app's. What
 * cannot be honoured is refused, all of it at once and each by its place, as tasks[0].discovery: tables have the fields that are
 * known, and everything else is an error, so that nothing is lost silently. Fields that say where a task comes from have no
 * effect here: agent_id; task_id gives the app its name. Labels replace fields that Mesos lacks: whether a task may launch others,
 * and of which images.
 *
 * Mesos' sandbox of the executor is the pod, or the app that the tasks are nested under. A volume of it (SANDBOX_PATH, PARENT) is
 * an empty volume that all tasks with the same path share, or, for nested tasks, the parent's volume of that name. */

#include <math.h>

#include "schema/settings.h"
#include "stage0/arguments/task-group.h"

#define DEPTH_MAX 32U
#define VALUES_MAX 65536U
#define REFUSED_MAX 64U
#define MEBIBYTE 1048576.0
#define OWN_VOLUMES "mesos/own-volumes"
#define LIMIT_MOST 9.0e15 /* numbers of JSON are exact up to there */

typedef struct Reading {
        const PodManifest *manifest;
        PodRequest *request;
        AppOverrides *app;
        bool nested, out_of_memory;
        PairList places; /* volumes by their names -> whose they are, and where */
        Text refused;
        size_t n_refused;
        double request_cpus, request_memory, limit_cpus, limit_memory; /* negative: not given */
        bool shares;                                                   /* the cgroup of the parent */
        bool checked;                                                  /* it has a check of its health */
        double start_seconds; /* failures of that do not count before */
} Reading;

/* --- Errors -------------------------------------------------------------------------------------------- */

static void refuse(Reading *x, const char *path, const char *format, ...) _printf_(3, 4);
static void refuse(Reading *x, const char *path, const char *format, ...)
{
        _cleanup_free_ char *why = NULL, *shown = text_escape_for_terminal(path);
        va_list args;

        va_start(args, format);
        int r = xvasprintf(&why, format, args);
        va_end(args);
        if (r < 0 || !shown) {
                x->out_of_memory = true;
                return;
        }
        if (++x->n_refused <= REFUSED_MAX)
                text_addf(&x->refused, "\n  %s: %s", shown, why);
}

static void keep(Reading *x, int r)
{
        x->out_of_memory = x->out_of_memory || r < 0;
}

/* --- Objects ------------------------------------------------------------------------------------------- */

/* Reads the member VALUE at PATH. */
typedef void (*MemberFunction)(Reading *x, const char *path, json_object *value);

typedef struct Member {
        const char *name;
        enum json_type type;
        MemberFunction read; /* NULL: it has no effect */
} Member;

static const char *type_name(enum json_type t)
{
        return t == json_type_object    ? "an object"
               : t == json_type_array   ? "a list"
               : t == json_type_string  ? "a string"
               : t == json_type_boolean ? "true or false"
                                        : "a number";
}

static bool has_type(json_object *value, enum json_type type)
{
        return json_object_is_type(value, type) ||
               (type == json_type_double && json_object_is_type(value, json_type_int));
}

static void read_member(Reading *x, const Member *m, const char *path, const char *key, json_object *value)
{
        _cleanup_free_ char *place = NULL;

        if (xasprintf(&place, "%s%s%s", path, isempty(path) ? "" : ".", key) < 0) {
                x->out_of_memory = true;
                return;
        }
        while (m->name && !streq(m->name, key))
                m++;
        if (!m->name)
                refuse(x, place, "this cannot be honoured");
        else if (!has_type(value, m->type))
                refuse(x, place, "it is not %s", type_name(m->type));
        else if (m->read)
                m->read(x, place, value);
}

static void read_object(Reading *x, const Member *members, const char *path, json_object *o)
{
        json_object_object_foreach (o, key, value)
                read_member(x, members, path, key, value);
}

/* MEMBERS of each object of the list. */
static void read_list(Reading *x, const char *path, json_object *list, MemberFunction function)
{
        for (size_t i = 0; i < json_object_array_length(list); i++) {
                json_object *item = json_object_array_get_idx(list, i);
                _cleanup_free_ char *place = NULL;

                if (xasprintf(&place, "%s[%zu]", path, i) < 0)
                        x->out_of_memory = true;
                else if (!json_object_is_type(item, json_type_object))
                        refuse(x, place, "it is not an object");
                else
                        function(x, place, item);
        }
}

static const char *text_of(json_object *o, const char *key)
{
        json_object *v = json_object_object_get(o, key);

        return json_object_is_type(v, json_type_string) ? json_object_get_string(v) : NULL;
}

/* A boolean, or what it is by default. */
static bool flag_of(json_object *o, const char *key, bool otherwise)
{
        json_object *v = json_object_object_get(o, key);

        return json_object_is_type(v, json_type_boolean) ? json_object_get_boolean(v) : otherwise;
}

/* A member with one of the words of a table. NULL: it is not given, or was refused. */
static const char *word_of(Reading *x, const char *path, json_object *o, const char *key,
                           const char *const *known)
{
        const char *word = text_of(o, key);

        for (; word && *known; known++)
                if (streq(word, *known))
                        return word;
        if (word) {
                _cleanup_free_ char *place = NULL;
                if (xasprintf(&place, "%s.%s", path, key) < 0)
                        x->out_of_memory = true;
                else
                        refuse(x, place, "'%s' cannot be honoured", word);
        }
        return NULL;
}

static void set_setting(Reading *x, const char *path, const char *name, const char *value)
{
        _cleanup_free_ char *key = NULL;
        _cleanup_error_ Error why = ERROR_NULL;

        if (xasprintf(&key, SETTING_PREFIX "%s", name) < 0)
                x->out_of_memory = true;
        else {
                int r = app_setting_check(name, value, &why);
                if (r == -ENOMEM)
                        x->out_of_memory = true;
                else if (r < 0)
                        refuse(x, path, "'%s' %s", value, why.message ?: "is not valid");
                else
                        keep(x, pair_list_set(&x->app->annotations, key, value));
        }
}

static void set_setting_from(Reading *x, const char *path, const char *name, const char *format, ...)
                _printf_(4, 5);
static void set_setting_from(Reading *x, const char *path, const char *name, const char *format, ...)
{
        _cleanup_free_ char *value = NULL;
        va_list args;

        va_start(args, format);
        int r = xvasprintf(&value, format, args);
        va_end(args);
        if (r < 0)
                x->out_of_memory = true;
        else
                set_setting(x, path, name, value);
}

/* --- Commands ------------------------------------------------------------------------------------------ */

static const Member plain_value[] = {{"value", json_type_string, NULL}, {}};

static void read_variable(Reading *x, const char *path, json_object *o)
{
        static const Member members[] = {{"name", json_type_string, NULL},
                                         {"value", json_type_string, NULL},
                                         {"type", json_type_string, NULL},
                                         {}};
        static const char *const types[] = {"VALUE", NULL};
        const char *name = text_of(o, "name"), *value = text_of(o, "value");

        read_object(x, members, path, o);
        (void) word_of(x, path, o, "type", types);
        if (!name || !value)
                refuse(x, path, "it needs name and value");
        else if (environment_name_check(name, NULL) < 0)
                refuse(x, path, "its name is not valid");
        else
                keep(x, pair_list_set(&x->app->environment, name, value));
}

static void read_variables(Reading *x, const char *path, json_object *list)
{
        read_list(x, path, list, read_variable);
}

static void read_environment(Reading *x, const char *path, json_object *o)
{
        static const Member members[] = {{"variables", json_type_array, read_variables}, {}};

        read_object(x, members, path, o);
}

static void read_user(Reading *x, const char *path, json_object *value)
{
        const char *user = json_object_get_string(value);

        if (isempty(user))
                refuse(x, path, "it is empty");
        else if (!(x->app->user = strdup(user)))
                x->out_of_memory = true;
}

/* The words of a command: the program is its value, and the first argument is what the program sees as its name. */
static void list_words(Reading *x, const char *path, json_object *o, char ***ret_program,
                       char ***ret_arguments)
{
        const char *value = text_of(o, "value"), *base = value ? strrchr(value, '/') : NULL;
        json_object *arguments = json_object_object_get(o, "arguments");
        size_t n = arguments && json_object_is_type(arguments, json_type_array)
                                   ? json_object_array_length(arguments)
                                   : 0;

        if (flag_of(o, "shell", true)) {
                if (!value)
                        refuse(x, path, "a command of the shell needs value");
                else if (n > 0)
                        refuse(x, path, "a command of the shell has no arguments");
                else if (strv_extend(ret_program, "/bin/sh") < 0 || strv_extend(ret_program, "-c") < 0 ||
                         strv_extend(ret_program, value) < 0)
                        x->out_of_memory = true;
                return;
        }
        if (value && strv_extend(ret_program, value) < 0)
                x->out_of_memory = true;
        for (size_t i = 0; i < n; i++) {
                const char *word = json_object_get_string(json_object_array_get_idx(arguments, i)) ?: "";
                if (i == 0 && value && !streq(word, value) && !streq_ptr(word, base ? base + 1 : NULL))
                        refuse(x, path,
                               "the first of arguments is the name of the program, which is that of value "
                               "here");
                else if (i > 0 || !value)
                        keep(x, strv_extend(value ? ret_program : ret_arguments, word));
        }
}

static void read_command(Reading *x, const char *path, json_object *o)
{
        static const Member members[] = {{"value", json_type_string, NULL},
                                         {"shell", json_type_boolean, NULL},
                                         {"arguments", json_type_array, NULL},
                                         {"environment", json_type_object, read_environment},
                                         {"user", json_type_string, read_user},
                                         {}};

        read_object(x, members, path, o);
        list_words(x, path, o, &x->app->exec, &x->app->args);
}

/* --- Images -------------------------------------------------------------------------------------------- */

static void set_reference(Reading *x, const char *format, ...) _printf_(2, 3);
static void set_reference(Reading *x, const char *format, ...)
{
        va_list args;

        free(x->app->reference);
        va_start(args, format);
        if (xvasprintf(&x->app->reference, format, args) < 0) {
                x->app->reference = NULL;
                x->out_of_memory = true;
        }
        va_end(args);
}

static void read_docker_image(Reading *x, const char *path, json_object *o)
{
        static const Member members[] = {{"name", json_type_string, NULL}, {}};
        const char *name = text_of(o, "name");

        read_object(x, members, path, o);
        if (isempty(name))
                refuse(x, path, "it needs name");
        else
                set_reference(x, "docker://%s", name);
}

static void read_appc_label(Reading *x, const char *path, json_object *o)
{
        static const Member members[] = {
                        {"key", json_type_string, NULL}, {"value", json_type_string, NULL}, {}};
        _cleanup_free_ char *before = x->app->reference;
        const char *key = text_of(o, "key"), *value = text_of(o, "value");

        x->app->reference = NULL;
        read_object(x, members, path, o);
        if (ac_identifier_check(key ?: "", NULL) < 0 || isempty(value))
                refuse(x, path, "it needs key and value, and the key is a name");
        set_reference(x, "%s,%s=%s", before ?: "", key ?: "", value ?: "");
}

static void read_appc_labels(Reading *x, const char *path, json_object *list)
{
        read_list(x, path, list, read_appc_label);
}

static void read_appc_label_list(Reading *x, const char *path, json_object *o)
{
        static const Member members[] = {{"labels", json_type_array, read_appc_labels}, {}};

        read_object(x, members, path, o);
}

static void read_appc_id(Reading *x, const char *path, json_object *value)
{
        const char *id = json_object_get_string(value);

        if (image_id_check(id, NULL) < 0)
                refuse(x, path, "it is not the ID of an image");
        else
                set_reference(x, "%s", id);
}

/* The name comes first, whatever the order of the document: labels are appended to it, and an ID replaces both. */
static void read_appc_image(Reading *x, const char *path, json_object *o)
{
        static const Member members[] = {{"name", json_type_string, NULL},
                                         {"labels", json_type_object, NULL},
                                         {"id", json_type_string, NULL},
                                         {}},
                            last[] = {{"name", json_type_string, NULL},
                                      {"labels", json_type_object, read_appc_label_list},
                                      {"id", json_type_string, NULL},
                                      {}};
        const char *name = text_of(o, "name");
        json_object *id = json_object_object_get(o, "id");

        read_object(x, members, path, o);
        if (ac_identifier_check(name ?: "", NULL) < 0) {
                refuse(x, path, "it needs name, which is the name of an image");
                return;
        }
        set_reference(x, "%s", name);
        if (x->n_refused == 0)
                read_object(x, last, path, o);
        if (json_object_is_type(id, json_type_string))
                read_appc_id(x, path, id);
}

static void read_cached(Reading *x, const char *path, json_object *value)
{
        if (!json_object_get_boolean(value))
                refuse(x, path, "images are not fetched anew for one task; see --pull-policy=");
}

static void read_image(Reading *x, const char *path, json_object *o)
{
        static const Member members[] = {{"type", json_type_string, NULL},
                                         {"docker", json_type_object, read_docker_image},
                                         {"appc", json_type_object, read_appc_image},
                                         {"cached", json_type_boolean, read_cached},
                                         {}};
        static const char *const types[] = {"DOCKER", "APPC", NULL};
        const char *type = word_of(x, path, o, "type", types);
        bool docker = json_object_object_get(o, "docker"), appc = json_object_object_get(o, "appc");

        if (!type || docker == appc || docker != streq(type, "DOCKER"))
                refuse(x, path, "it needs a type, DOCKER or APPC, and the member for that type alone");
        read_object(x, members, path, o);
}

/* --- Volumes ------------------------------------------------------------------------------------------- */

static const Volume *find_volume(const Reading *x, const char *name)
{
        const PodRequest *q = x->request;

        for (size_t i = 0; i < q->n_volumes; i++)
                if (streq_ptr(q->volumes[i].name, name))
                        return &q->volumes[i];
        return x->manifest ? pod_manifest_find_volume(x->manifest, name) : NULL;
}

/* Volumes of one task alone, by their names, in an annotation of its app: groups that are launched later do not take them for those that
 * tasks share. */
static void record_own(Reading *x, const char *name)
{
        const char *before = pair_list_get(&x->app->user_annotations, OWN_VOLUMES);
        _cleanup_free_ char *all = NULL;

        if (xasprintf(&all, "%s%s%s", before ?: "", before ? " " : "", name) < 0)
                x->out_of_memory = true;
        else
                keep(x, pair_list_set(&x->app->user_annotations, OWN_VOLUMES, all));
}

static bool has_word(const char *list, const char *word)
{
        for (size_t n; list && *list; list += n + (list[n] == ' ')) {
                n = strcspn(list, " ");
                if (n == strlen(word) && memcmp(list, word, n) == 0)
                        return true;
        }
        return false;
}

/* Whether it is the volume of one task of an earlier group. */
static bool is_own_of_other(const Reading *x, const char *name)
{
        for (size_t i = 0; x->manifest && i < x->manifest->n_apps; i++) {
                const App *a = x->manifest->apps[i]->app;
                if (a && has_word(pair_list_get(&a->user_annotations, OWN_VOLUMES), name))
                        return true;
        }
        return false;
}

/* Whether the pod has it already. */
static bool pod_has_volume(const Reading *x, const char *name)
{
        return x->manifest && pod_manifest_find_volume(x->manifest, name);
}

static Volume *add_volume(Reading *x, const char *name)
{
        PodRequest *q = x->request;

        if (GREEDY_REALLOC(q->volumes, q->volumes_allocated, q->n_volumes + 1) < 0) {
                x->out_of_memory = true;
                return NULL;
        }
        Volume *v = &q->volumes[q->n_volumes];
        *v = (Volume){.name = strdup(name), .kind = VOLUME_EMPTY, .mode = 0755};
        if (!v->name) {
                x->out_of_memory = true;
                return NULL;
        }
        q->n_volumes++;
        return v;
}

static void add_mount(Reading *x, const char *volume, const char *path, bool read_only)
{
        AppOverrides *o = x->app;

        if (GREEDY_REALLOC(o->mounts, o->mounts_allocated, o->n_mounts + 1) < 0) {
                x->out_of_memory = true;
                return;
        }
        Mount *m = &o->mounts[o->n_mounts++];
        *m = (Mount){.volume = strdup(volume), .path = strdup(path), .read_only = read_only};
        x->out_of_memory = x->out_of_memory || !m->volume || !m->path;
}

static void name_volume(Reading *x, const char *prefix, const char *path, char **ret)
{
        _cleanup_free_ char *text = NULL;

        if (xasprintf(&text, "%s%s%s", prefix ?: "", prefix ? "-" : "", path) < 0 ||
            ac_name_from(text, 63, ret) == -ENOMEM)
                x->out_of_memory = true;
}

/* Different paths may give the same name. A volume of a task alone is not one that others have, of the pod or of the group. */
static bool take_place(Reading *x, const char *name, bool self, const char *path)
{
        _cleanup_free_ char *absolute = NULL, *normal = NULL, *place = NULL;
        const char *taken = pair_list_get(&x->places, name);

        if (xasprintf(&absolute, "/%s", path) < 0) {
                x->out_of_memory = true;
                return false;
        }
        int r = path_normalize(absolute, &normal);
        if (r >= 0)
                r = xasprintf(&place, "%s%s", self && x->app->name ? x->app->name : "", normal);
        x->out_of_memory |= r == -ENOMEM;
        if (r < 0)
                return false;
        if (taken)
                return streq(taken, place);
        if (find_volume(x, name) && (self || !pod_has_volume(x, name) || is_own_of_other(x, name)))
                return false;
        keep(x, pair_list_set(&x->places, name, place));
        return true;
}

static void use_sandbox(Reading *x, const char *path, json_object *o, const char *target, bool read_only)
{
        static const Member members[] = {
                        {"type", json_type_string, NULL}, {"path", json_type_string, NULL}, {}};
        static const char *const types[] = {"PARENT", "SELF", NULL};
        const char *type = word_of(x, path, o, "type", types), *place = text_of(o, "path");
        _cleanup_free_ char *name = NULL;
        bool self = type && streq(type, "SELF");

        read_object(x, members, path, o);
        if (!type || isempty(place) || *place == '/' || strstr(place, "..")) {
                refuse(x, path,
                       "it needs a type, PARENT or SELF, and a path, which is relative and has no '..'");
                return;
        }
        name_volume(x, self ? x->app->name : NULL, place, &name);
        if (!name) {
                refuse(x, path, "no name for a volume can be made of its path");
                return;
        }
        if (!take_place(x, name, self, place)) {
                refuse(x, path, "the volume '%s' is another one, and no other name can be made of its path",
                       name);
                return;
        }
        if (!self && x->nested && !find_volume(x, name)) {
                refuse(x, path, "the parent has no volume '%s'", name);
                return;
        }
        if (!find_volume(x, name))
                (void) add_volume(x, name);
        if (self && !has_word(pair_list_get(&x->app->user_annotations, OWN_VOLUMES), name))
                record_own(x, name);
        add_mount(x, name, target, read_only);
}

static void use_host_path(Reading *x, const char *path, const char *source, const char *target,
                          bool read_only)
{
        _cleanup_free_ char *name = NULL;

        if (isempty(source) || *source != '/') {
                refuse(x, path, "it is not an absolute path of the host");
                return;
        }
        name_volume(x, x->app->name, target, &name);
        if (!name || find_volume(x, name)) {
                refuse(x, path, "no name for a volume of its own can be made of the path in the container");
                return;
        }
        Volume *v = add_volume(x, name);
        if (!v)
                return;
        record_own(x, name);
        v->kind = VOLUME_HOST;
        v->mode = 0;
        keep(x, (v->source = strdup(source)) ? 0 : -ENOMEM);
        add_mount(x, name, target, read_only);
}

static void use_source(Reading *x, const char *path, json_object *o, const char *target, bool read_only)
{
        static const Member members[] = {{"type", json_type_string, NULL},
                                         {"sandbox_path", json_type_object, NULL},
                                         {"host_path", json_type_object, NULL},
                                         {}},
                            host[] = {{"path", json_type_string, NULL}, {}};
        static const char *const types[] = {"SANDBOX_PATH", "HOST_PATH", NULL};
        const char *type = word_of(x, path, o, "type", types);
        const char *key = type && streq(type, "HOST_PATH") ? "host_path" : "sandbox_path";
        json_object *value = json_object_object_get(o, key);
        _cleanup_free_ char *place = NULL;

        read_object(x, members, path, o);
        if (xasprintf(&place, "%s.%s", path, key) < 0) {
                x->out_of_memory = true;
                return;
        }
        if (!type || !json_object_is_type(value, json_type_object) || json_object_object_length(o) != 2) {
                refuse(x, path,
                       "it needs a type, SANDBOX_PATH or HOST_PATH, and the member for that type alone");
                return;
        }
        if (streq(key, "sandbox_path")) {
                use_sandbox(x, place, value, target, read_only);
                return;
        }
        read_object(x, host, place, value);
        use_host_path(x, place, text_of(value, "path"), target, read_only);
}

static void read_volume(Reading *x, const char *path, json_object *o)
{
        static const Member members[] = {{"mode", json_type_string, NULL},
                                         {"container_path", json_type_string, NULL},
                                         {"host_path", json_type_string, NULL},
                                         {"source", json_type_object, NULL},
                                         {}};
        static const char *const modes[] = {"RW", "RO", NULL};
        const char *mode = word_of(x, path, o, "mode", modes), *target = text_of(o, "container_path"),
                   *source = text_of(o, "host_path");
        json_object *from = json_object_object_get(o, "source");
        _cleanup_free_ char *normal = NULL;
        bool read_only = mode && streq(mode, "RO");

        read_object(x, members, path, o);
        if (!mode)
                refuse(x, path, "it needs a mode, RW or RO");
        int r = target ? path_normalize(target, &normal) : -EINVAL;
        x->out_of_memory |= r == -ENOMEM;
        if (r < 0) {
                refuse(x, path, "it needs container_path, which is absolute and has no '..'");
                return;
        }
        bool from_object = json_object_is_type(from, json_type_object);
        if (from_object == (source != NULL)) {
                refuse(x, path, "it needs either host_path or source");
                return;
        }
        _cleanup_free_ char *place = NULL;
        if (xasprintf(&place, "%s.%s", path, source ? "host_path" : "source") < 0)
                x->out_of_memory = true;
        else if (source)
                use_host_path(x, place, source, normal, read_only);
        else
                use_source(x, place, from, normal, read_only);
}

static void read_volumes(Reading *x, const char *path, json_object *list)
{
        read_list(x, path, list, read_volume);
}

/* --- Containers ---------------------------------------------------------------------------------------- */

static void read_share_cgroups(Reading *x, const char *path, json_object *value)
{
        x->shares = json_object_get_boolean(value);
        if (x->nested)
                set_setting(x, path, "share-cgroups", x->shares ? "true" : "false");
        else if (!x->shares)
                return; /* apps of the pod itself always have limits of their own */
}

static void read_share_pids(Reading *x, const char *path, json_object *value)
{
        if (!json_object_get_boolean(value))
                set_setting(x, path, "pid", "private");
}

static void read_linux_info(Reading *x, const char *path, json_object *o)
{
        static const Member members[] = {{"share_cgroups", json_type_boolean, read_share_cgroups},
                                         {"share_pid_namespace", json_type_boolean, read_share_pids},
                                         {}};

        read_object(x, members, path, o);
}

static void read_mesos_image(Reading *x, const char *path, json_object *o)
{
        static const Member members[] = {{"image", json_type_object, read_image}, {}};

        read_object(x, members, path, o);
}

static void read_container(Reading *x, const char *path, json_object *o)
{
        static const Member members[] = {{"type", json_type_string, NULL},
                                         {"mesos", json_type_object, read_mesos_image},
                                         {"volumes", json_type_array, read_volumes},
                                         {"linux_info", json_type_object, read_linux_info},
                                         {}};
        static const char *const types[] = {"MESOS", NULL};

        read_object(x, members, path, o);
        (void) word_of(x, path, o, "type", types);
}

/* --- Resources ----------------------------------------------------------------------------------------- */

/* -1: infinite, or refused. */
static double read_scalar(Reading *x, const char *path, json_object *o)
{
        json_object *value = json_object_object_get(o, "value");
        static const Member number[] = {{"value", json_type_double, NULL}, {}};

        if (json_object_object_length(o) == 1 && json_object_is_type(value, json_type_string) &&
            streq(json_object_get_string(value), "Infinity"))
                return -1;
        read_object(x, number, path, o);
        double n = has_type(value, json_type_double) ? json_object_get_double(value) : NAN;
        if (n >= 0 && n < LIMIT_MOST)
                return n;
        refuse(x, path, "it needs value, a number that is not negative");
        return -1;
}

static void take_resource(Reading *x, const char *path, const char *name, double value)
{
        if (streq_ptr(name, "cpus"))
                x->request_cpus = MAX(x->request_cpus, 0) + value;
        else if (streq_ptr(name, "mem"))
                x->request_memory = MAX(x->request_memory, 0) + value;
        else
                refuse(x, path, "only cpus and mem can be honoured");
}

static void read_resource(Reading *x, const char *path, json_object *o)
{
        static const Member members[] = {{"name", json_type_string, NULL},
                                         {"type", json_type_string, NULL},
                                         {"scalar", json_type_object, NULL},
                                         {"role", json_type_string, NULL},
                                         {}};
        static const char *const types[] = {"SCALAR", NULL}, *const roles[] = {"*", NULL};
        json_object *scalar = json_object_object_get(o, "scalar");
        size_t before = x->n_refused;

        read_object(x, members, path, o);
        (void) word_of(x, path, o, "type", types);
        (void) word_of(x, path, o, "role", roles);
        if (x->n_refused > before)
                return;
        if (!scalar) {
                refuse(x, path, "it needs scalar");
                return;
        }
        double value = read_scalar(x, path, scalar);
        if (value < 0)
                refuse(x, path, "a request cannot be infinite");
        else
                take_resource(x, path, text_of(o, "name"), value);
}

static void read_resources(Reading *x, const char *path, json_object *list)
{
        read_list(x, path, list, read_resource);
}

static void read_cpu_limit(Reading *x, const char *path, json_object *o)
{
        x->limit_cpus = read_scalar(x, path, o);
}

static void read_memory_limit(Reading *x, const char *path, json_object *o)
{
        x->limit_memory = read_scalar(x, path, o);
}

static void read_limits(Reading *x, const char *path, json_object *o)
{
        static const Member members[] = {{"cpus", json_type_object, read_cpu_limit},
                                         {"mem", json_type_object, read_memory_limit},
                                         {}};

        read_object(x, members, path, o);
}

static void add_isolator(Reading *x, const char *path, const char *name, double request, double limit,
                         const char *format)
{
        _cleanup_text_ Text t = {};
        _cleanup_free_ char *text = NULL;
        _cleanup_error_ Error why = ERROR_NULL;
        IsolatorList *l = &x->app->isolators;
        Isolator i = {};

        if (request < 0 && limit < 0)
                return;
        text_add(&t, "{");
        if (request >= 0)
                text_addf(&t, format, "\"request\": ", request);
        if (limit >= 0)
                text_addf(&t, format, request >= 0 ? ", \"limit\": " : "\"limit\": ", limit);
        text_add(&t, "}");
        if (text_take(&t, &text, NULL) < 0 || GREEDY_REALLOC(l->items, l->allocated, l->n + 1) < 0)
                x->out_of_memory = true;
        else {
                int r = isolator_parse(name, text, &i, &why);
                if (r == -ENOMEM)
                        x->out_of_memory = true;
                else if (r < 0)
                        refuse(x, path, "%s", why.message ?: name);
                else
                        l->items[l->n++] = i;
        }
}

/* What shares the cgroup of its parent counts there: its requests are no limits of its own. */
static void add_resources(Reading *x, const char *path)
{
        bool limited = x->limit_cpus >= 0 || x->limit_memory >= 0;

        if (x->nested && x->shares) {
                if (limited)
                        refuse(x, path, "limits need container.linux_info.share_cgroups to be false");
                return;
        }
        add_isolator(x, path, "resource/cpu", x->request_cpus * 1000,
                     x->limit_cpus < 0 ? -1 : x->limit_cpus * 1000, "%s\"%.0fm\"");
        add_isolator(x, path, "resource/memory", x->request_memory < 0 ? -1 : x->request_memory * MEBIBYTE,
                     x->limit_memory < 0 ? -1 : x->limit_memory * MEBIBYTE, "%s\"%.0f\"");
}

/* --- Health and ends ----------------------------------------------------------------------------------- */

static void read_health_command(Reading *x, const char *path, json_object *o)
{
        static const Member members[] = {{"value", json_type_string, NULL},
                                         {"shell", json_type_boolean, NULL},
                                         {"arguments", json_type_array, NULL},
                                         {}};
        _cleanup_strv_free_ char **program = NULL, **arguments = NULL;
        _cleanup_json_ json_object *list = json_object_new_array();
        size_t before = x->n_refused;

        read_object(x, members, path, o);
        list_words(x, path, o, &program, &arguments);
        if (x->n_refused > before)
                return;
        if (!program) {
                refuse(x, path, "it needs value");
                return;
        }
        keep(x, list ? json_list_append(list, json_object_new_string("CMD")) : -ENOMEM);
        STRV_FOREACH (word, program)
                keep(x, list ? json_list_append(list, json_object_new_string(*word)) : -ENOMEM);
        const char *text = x->out_of_memory ? NULL : json_print(list);
        if (text)
                set_setting(x, path, "health-cmd", text);
        else
                x->out_of_memory = true;
}

static void set_seconds(Reading *x, const char *path, const char *name, json_object *value)
{
        double seconds = json_object_get_double(value);

        if (seconds >= 0 && seconds < LIMIT_MOST / 1e6)
                set_setting_from(x, path, name, "%.0fus", seconds * 1e6);
        else
                refuse(x, path, "it is not a number of seconds");
}

static void read_interval(Reading *x, const char *path, json_object *value)
{
        set_seconds(x, path, "health-interval", value);
}

static void read_timeout(Reading *x, const char *path, json_object *value)
{
        set_seconds(x, path, "health-timeout", value);
}

/* Failures do not count before the later of both. Checks are made already: that of an app which is up early succeeds early. */
static void read_start(Reading *x, const char *path, json_object *value)
{
        double seconds = json_object_get_double(value);

        if (seconds >= 0 && seconds < LIMIT_MOST / 1e6)
                x->start_seconds = MAX(x->start_seconds, seconds);
        else
                refuse(x, path, "it is not a number of seconds");
}

static void read_failures(Reading *x, const char *path, json_object *value)
{
        set_setting_from(x, path, "health-retries", "%lld", (long long) json_object_get_int64(value));
}

static const char *const check_types[] = {"COMMAND", "HTTP", "TCP", NULL};

/* Checks are commands in the app. */
static bool is_command_check(Reading *x, const char *path, json_object *o)
{
        const char *type = word_of(x, path, o, "type", check_types);

        if (!type)
                type = json_object_object_get(o, "http")  ? "HTTP"
                       : json_object_object_get(o, "tcp") ? "TCP"
                                                          : "COMMAND";
        if (streq(type, "COMMAND"))
                return true;
        refuse(x, path,
               "checks of type %s cannot be made from outside of the app; give it type COMMAND, with a "
               "program of the image such as %s",
               type,
               streq(type, "HTTP") ? "wget -q -O /dev/null http://localhost:PORT/PATH"
                                   : "nc -z localhost PORT");
        return false;
}

static double seconds_of(json_object *o, const char *key, double otherwise)
{
        return json_object_object_get(o, key) ? 0 : otherwise; /* one that is given is read as a member */
}

/* What Mesos has by default, where it is something else here. */
static void read_any_check(Reading *x, const char *path, json_object *o, const Member *members,
                           double grace_seconds, const char *action)
{
        if (!is_command_check(x, path, o))
                return;
        if (x->checked) {
                refuse(x, path, "a task has either check or health_check");
                return;
        }
        x->checked = true;
        x->start_seconds = MAX(seconds_of(o, "delay_seconds", 15), grace_seconds);
        set_setting(x, path, "health-interval", "10s");
        set_setting(x, path, "health-timeout", "20s");
        set_setting(x, path, "health-retries", "3");
        set_setting(x, path, "health-on-failure", action);
        read_object(x, members, path, o);
        set_setting_from(x, path, "health-start-period", "%.0fus", x->start_seconds * 1e6);
        if (!json_object_object_get(o, "command"))
                refuse(x, path, "it needs command");
}

static void read_health_check(Reading *x, const char *path, json_object *o)
{
        static const Member members[] = {{"type", json_type_string, NULL},
                                         {"command", json_type_object, read_health_command},
                                         {"delay_seconds", json_type_double, read_start},
                                         {"interval_seconds", json_type_double, read_interval},
                                         {"timeout_seconds", json_type_double, read_timeout},
                                         {"grace_period_seconds", json_type_double, read_start},
                                         {"consecutive_failures", json_type_int, read_failures},
                                         {}};

        read_any_check(x, path, o, members, seconds_of(o, "grace_period_seconds", 10), "kill");
}

static void read_check_command(Reading *x, const char *path, json_object *o)
{
        static const Member members[] = {{"command", json_type_object, read_health_command}, {}};

        read_object(x, members, path, o);
        if (!json_object_object_get(o, "command"))
                refuse(x, path, "it needs command");
}

/* Its result is shown, and nothing else comes of it. */
static void read_check(Reading *x, const char *path, json_object *o)
{
        static const Member members[] = {{"type", json_type_string, NULL},
                                         {"command", json_type_object, read_check_command},
                                         {"delay_seconds", json_type_double, read_start},
                                         {"interval_seconds", json_type_double, read_interval},
                                         {"timeout_seconds", json_type_double, read_timeout},
                                         {}};

        read_any_check(x, path, o, members, 0, "none");
}

static void read_nanoseconds(Reading *x, const char *path, json_object *o, const char *name)
{
        static const Member members[] = {{"nanoseconds", json_type_int, NULL}, {}};
        json_object *value = json_object_object_get(o, "nanoseconds");

        read_object(x, members, path, o);
        if (!json_object_is_type(value, json_type_int) || json_object_get_int64(value) <= 0)
                refuse(x, path, "it needs nanoseconds, a number above 0");
        else
                set_setting_from(x, path, name, "%lldus",
                                 (long long) ((json_object_get_int64(value) - 1) / 1000 + 1));
}

static void read_grace_period(Reading *x, const char *path, json_object *o)
{
        read_nanoseconds(x, path, o, "stop-timeout");
}

static void read_kill_policy(Reading *x, const char *path, json_object *o)
{
        static const Member members[] = {{"grace_period", json_type_object, read_grace_period}, {}};

        read_object(x, members, path, o);
}

static void read_max_completion_time(Reading *x, const char *path, json_object *o)
{
        read_nanoseconds(x, path, o, "max-runtime");
}

/* Options of an app for which TaskGroupInfo has no member. */
static bool is_setting(const char *key)
{
        return streq(key, SETTING_PREFIX "control") || streq(key, SETTING_PREFIX "control-images");
}

static void read_label(Reading *x, const char *path, json_object *o)
{
        static const Member members[] = {
                        {"key", json_type_string, NULL}, {"value", json_type_string, NULL}, {}};
        const char *key = text_of(o, "key");

        read_object(x, members, path, o);
        if (isempty(key))
                refuse(x, path, "it needs key");
        else if (is_setting(key))
                set_setting(x, path, key + strlen(SETTING_PREFIX), text_of(o, "value") ?: "");
        else
                keep(x, pair_list_set(&x->app->user_labels, key, text_of(o, "value") ?: ""));
}

static void read_labels(Reading *x, const char *path, json_object *list)
{
        read_list(x, path, list, read_label);
}

static void read_label_list(Reading *x, const char *path, json_object *o)
{
        static const Member members[] = {{"labels", json_type_array, read_labels}, {}};

        read_object(x, members, path, o);
}

/* --- Tasks --------------------------------------------------------------------------------------------- */

static void read_id(Reading *x, const char *path, json_object *o)
{
        read_object(x, plain_value, path, o);
}

/* The name is that of the task's ID, which is unique: volumes are named by it, so it is read first. */
static void name_app(Reading *x, const char *path, json_object *o)
{
        json_object *id = json_object_object_get(o, "task_id");
        const char *value = json_object_is_type(id, json_type_object) ? text_of(id, "value") : NULL;

        if (isempty(value)) {
                refuse(x, path, "it needs task_id, with a value");
                return;
        }
        int r = ac_name_from(value, 63, &x->app->name);
        if (r == -ENOMEM)
                x->out_of_memory = true;
        else if (r < 0)
                refuse(x, path, "no name for an app can be made of task_id");
        keep(x, pair_list_set(&x->app->user_annotations, "mesos/task-id", value));
        if (text_of(o, "name"))
                keep(x, pair_list_set(&x->app->user_annotations, "mesos/task-name", text_of(o, "name")));
}

static void read_task(Reading *x, const char *path, json_object *o)
{
        static const Member members[] = {{"name", json_type_string, NULL},
                                         {"task_id", json_type_object, read_id},
                                         {"agent_id", json_type_object, read_id},
                                         {"command", json_type_object, read_command},
                                         {"container", json_type_object, read_container},
                                         {"resources", json_type_array, read_resources},
                                         {"limits", json_type_object, read_limits},
                                         {"check", json_type_object, read_check},
                                         {"health_check", json_type_object, read_health_check},
                                         {"kill_policy", json_type_object, read_kill_policy},
                                         {"max_completion_time", json_type_object, read_max_completion_time},
                                         {"labels", json_type_object, read_label_list},
                                         {}};
        PodRequest *q = x->request;

        if (GREEDY_REALLOC(q->apps, q->apps_allocated, q->n_apps + 1) < 0) {
                x->out_of_memory = true;
                return;
        }
        x->app = &q->apps[q->n_apps++];
        *x->app = (AppOverrides){};
        x->request_cpus = x->request_memory = x->limit_cpus = x->limit_memory = -1;
        x->shares = true;
        x->checked = false;
        name_app(x, path, o);
        read_object(x, members, path, o);
        add_resources(x, path);
        if (x->app->reference)
                return;
        if (!x->nested)
                refuse(x, path, "it needs container.mesos.image, as it is not nested under an app");
        else
                set_reference(x, "@parent");
}

static void read_tasks(Reading *x, const char *path, json_object *list)
{
        read_list(x, path, list, read_task);
}

static int conclude(Reading *x, Error *e)
{
        _cleanup_free_ char *list = NULL;

        if (text_take(&x->refused, &list, NULL) < 0 || x->out_of_memory)
                return error_oom(e);
        if (x->n_refused == 0)
                return x->request->n_apps > 0 ? 0 : error_set(e, -EINVAL, "The group has no tasks");
        return error_set(e, -EINVAL, "The group of tasks cannot be launched as it is:%s%s", list,
                         x->n_refused > REFUSED_MAX ? "\n  and more" : "");
}

bool task_group_is(const char *text, size_t size)
{
        _cleanup_json_ json_object *o = NULL;

        return size <= MANIFEST_SIZE_MAX &&
               json_parse_bounded(text, size, DEPTH_MAX, VALUES_MAX, &o, NULL, NULL) >= 0 &&
               json_object_is_type(o, json_type_object) && json_object_object_get(o, "tasks");
}

int task_group_parse(const char *text, size_t size, const PodManifest *m, bool nested, PodRequest *ret,
                     Error *e)
{
        static const Member members[] = {{"tasks", json_type_array, read_tasks}, {}};
        Reading x = {.manifest = m, .request = ret, .nested = nested};
        _cleanup_json_ json_object *o = NULL;

        if (size > MANIFEST_SIZE_MAX)
                return error_set(e, -EFBIG, "The group of tasks is larger than %u bytes", MANIFEST_SIZE_MAX);
        int r = json_parse_bounded(text, size, DEPTH_MAX, VALUES_MAX, &o, NULL, e);
        if (r < 0)
                return r;
        if (!json_object_is_type(o, json_type_object))
                return error_set(e, -EINVAL, "A group of tasks is a JSON object");
        read_object(&x, members, "", o);
        r = conclude(&x, e);
        text_done(&x.refused);
        pair_list_done(&x.places);
        return r;
}
