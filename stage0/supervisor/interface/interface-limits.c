/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Limits of an app, changed while the pod runs.
 *
 * The pod's systemd has the app's slice, and writes what is changed to the kernel before it answers. It gets
 * the differences between the current unit and the unit for the new isolators, so that a limit means the
 * same here as at the start. Attributes of the isolator os/linux/cgroup are written to the kernel before, which may refuse them:
 * app-attributes.c. After that the isolators become those of the app: in the unit's file, for when
 * systemd loads the slice again, and in the manifest, for all other readers. Limits that this host has no
 * controller for are refused, all of the call with them. */

#include "stage0/control/control.h"
#include "stage0/supervisor/apps/app-limits.h"
#include "stage0/supervisor/interface/interface-internal.h"

typedef struct Limit {
        const char *parameter;
        IsolatorType type;
        const char *unit;       /* behind the number in the isolator's value; NULL: the value is a number */
        const char *controller; /* the name in cgroup v2 */
        size_t feature;         /* in HostFeatures: whether the host has that controller */
        size_t other_feature;   /* or an alternative */
        int64_t unlimited;      /* the value for no limit; 0: without the isolator there is none */
} Limit;

#define TASKS_UNLIMITED 4194304 /* without a limit there is a default limit */
#define CLEARED INT64_C(-1)

#define FEATURE(name) offsetof(HostFeatures, name)

static const Limit limits[] = {
                {"memory", ISOLATOR_RESOURCE_MEMORY, "", "memory", FEATURE(memory), FEATURE(memory), 0},
                {"cpu", ISOLATOR_RESOURCE_CPU, "m", "cpu", FEATURE(cpu), FEATURE(cpu), 0},
                {"cpuShares", ISOLATOR_CPU_SHARES, NULL, "cpu", FEATURE(cpu), FEATURE(cpu), 0},
                {"tasks", ISOLATOR_RESOURCE_TASKS, "", "pids", FEATURE(pids), FEATURE(pids_v1),
                 TASKS_UNLIMITED},
};

#define N_LIMITS ELEMENTSOF(limits)
#define LIMIT_MEMORY 0

typedef struct Update {
        Interface *interface;
        VarlinkCall *call;
        json_object *parameters;
        char *app;
        int64_t values[N_LIMITS]; /* 0: unchanged; CLEARED */
        PairList attributes;      /* of the isolator os/linux/cgroup, those that change */
        PairList old;             /* those that were written to the kernel, with their values before */
        bool drops_swap;          /* of the image, as the limit of memory is the caller's */
} Update;

static Update *update_free(Update *u)
{
        varlink_call_unref(u->call);
        json_object_put(u->parameters);
        pair_list_done(&u->attributes);
        pair_list_done(&u->old);
        free(u->app);
        free(u);
        return NULL;
}

/* --- Isolators ----------------------------------------------------------------------------------------- */

/* A request of the old isolator is kept if the limit is not below it. */
static json_object *limit_json(const Limit *k, int64_t value, const Isolator *old)
{
        _cleanup_json_ json_object *o = NULL;
        char text[32];

        if (!k->unit)
                return json_object_new_int64(value);
        if (old && json_object_deep_copy(old->value, &o, NULL) < 0)
                return NULL;
        if (!o)
                o = json_object_new_object();
        if (value == CLEARED) {
                json_object_object_del(o, "limit");
                return TAKE_PTR(o);
        }
        if (old && old->has_request && old->request > (uint64_t) value)
                json_object_object_del(o, "request");
        snprintf(text, sizeof(text), "%lld%s", (long long) value, k->unit);
        return json_member_add_text(o, "limit", text) < 0 ? NULL : TAKE_PTR(o);
}

static void remove_isolator(IsolatorList *l, Isolator *i)
{
        isolator_done(i);
        memmove(i, i + 1, (size_t) (l->items + --l->n - i) * sizeof(Isolator));
}

/* Replaces the isolator of this type, or adds it. */
static int put_isolator(IsolatorList *l, IsolatorType type, json_object *value, Error *e)
{
        const char *text = json_print(value);
        Isolator *old = isolator_list_find(l, type), changed = {};

        if (!text)
                return -ENOMEM;
        if (!old && GREEDY_REALLOC(l->items, l->allocated, l->n + 1) < 0)
                return -ENOMEM;
        int r = isolator_parse(isolator_type_to_string(type), text, &changed, e);
        if (r < 0)
                return r;
        if (!old)
                l->items[l->n++] = changed;
        else {
                isolator_done(old);
                *old = changed;
        }
        return 0;
}

static int set_isolator(IsolatorList *l, const Limit *k, int64_t value)
{
        const Isolator *old = isolator_list_find(l, k->type);

        if (value == CLEARED && k->unlimited > 0)
                value = k->unlimited;
        if (value == CLEARED && (!old || !old->has_request)) {
                if (old)
                        remove_isolator(l, isolator_list_find(l, k->type));
                return 0;
        }
        _cleanup_json_ json_object *o = limit_json(k, value, old);
        return o ? put_isolator(l, k->type, o, NULL) : -ENOMEM;
}

/* Attributes of the isolator that are not among ATTRIBUTES stay. */
static int set_attributes(IsolatorList *l, const PairList *attributes, Error *e)
{
        const Isolator *old = isolator_list_find(l, ISOLATOR_CGROUP);
        _cleanup_(pair_list_done) PairList all = {};
        _cleanup_json_ json_object *o = json_object_new_object();

        if (attributes->n == 0)
                return 0;
        int r = !o ? -ENOMEM : old ? pair_list_copy(&old->cgroup, &all) : 0;
        for (size_t i = 0; r >= 0 && i < attributes->n; i++)
                r = pair_list_set(&all, attributes->items[i].name, attributes->items[i].value);
        for (size_t i = 0; r >= 0 && i < all.n; i++)
                r = json_member_add_text(o, all.items[i].name, all.items[i].value);
        return r < 0 ? r : put_isolator(l, ISOLATOR_CGROUP, o, e);
}

/* A copy of the app with the new isolators. */
static int change_app(const PodApp *app, const Update *u, App **ret)
{
        _cleanup_(app_freep) App *copy = NULL;
        int r = app_copy(app->app, &copy);

        for (size_t i = 0; r >= 0 && i < N_LIMITS; i++)
                if (u->values[i] != 0)
                        r = set_isolator(&copy->isolators, &limits[i], u->values[i]);
        if (r >= 0 && u->drops_swap)
                r = isolator_list_drop_attribute(&copy->isolators, CGROUP_SWAP_MAX);
        if (r >= 0)
                r = set_attributes(&copy->isolators, &u->attributes, NULL);
        if (r >= 0)
                *ret = TAKE_PTR(copy);
        return r;
}

/* --- The unit ------------------------------------------------------------------------------------------ */

/* Directives of slices, and the properties that they set. */
static const struct {
        const char *directive, *property;
        bool percent;    /* a share of a processor, as microseconds in a second */
        uint64_t absent; /* the value without the directive */
        bool list;       /* of numbers */
} slice_directives[] = {
                {"\nMemoryMax=", "MemoryMax", false, UINT64_MAX},
                {"\nMemorySwapMax=", "MemorySwapMax", false, UINT64_MAX},
                {"\nMemoryLow=", "MemoryLow", false, 0},
                {"\nCPUQuota=", "CPUQuotaPerSecUSec", true, UINT64_MAX},
                {"\nCPUWeight=", "CPUWeight", false, UINT64_MAX},
                {"\nTasksMax=", "TasksMax", false, UINT64_MAX},
                {"\nMemoryHigh=", "MemoryHigh", false, UINT64_MAX},
                {"\nMemoryMin=", "MemoryMin", false, 0},
                {"\nAllowedCPUs=", "AllowedCPUs", .list = true},
                {"\nAllowedMemoryNodes=", "AllowedMemoryNodes", .list = true},
};

/* The last one in the text is in force. NULL: there is none. */
static const char *find_directive(const char *text, const char *directive)
{
        const char *value = NULL;

        for (const char *p = text; (p = strstr(p, directive));)
                value = p += strlen(directive);
        return value;
}

/* "12.5%" are 125000 of a million. */
static bool read_directive(const char *text, const char *directive, bool percent, uint64_t *ret)
{
        const char *value = find_directive(text, directive);
        char *end;

        if (!value)
                return false;
        if (startswith(value, "infinity")) {
                *ret = UINT64_MAX;
                return true;
        }
        *ret = strtoull(value, &end, 10);
        if (percent)
                *ret = *ret * 10000 + (*end == '.' ? (uint64_t) (end[1] - '0') * 1000 : 0);
        return true;
}

static bool same_line(const char *a, const char *b)
{
        size_t n = strcspn(a, "\n");

        return n == strcspn(b, "\n") && memcmp(a, b, n) == 0;
}

size_t interface_limit_properties(const char *before, const char *after,
                                  UnitProperty ret[static UNIT_PROPERTIES_MAX])
{
        size_t n = 0;

        for (size_t i = 0; i < ELEMENTSOF(slice_directives); i++) {
                uint64_t old, new;
                if (slice_directives[i].list) {
                        const char *was = find_directive(before, slice_directives[i].directive),
                                   *is = find_directive(after, slice_directives[i].directive);
                        if (!same_line(was ?: "", is ?: ""))
                                ret[n++] = (UnitProperty){.name = slice_directives[i].property,
                                                          .list = is ?: ""};
                        continue;
                }
                bool was = read_directive(before, slice_directives[i].directive, slice_directives[i].percent,
                                          &old);
                bool is = read_directive(after, slice_directives[i].directive, slice_directives[i].percent,
                                         &new);
                if (is ? !was || old != new : was)
                        ret[n++] = (UnitProperty){.name = slice_directives[i].property,
                                                  .value = is ? new : slice_directives[i].absent};
        }
        return n;
}

static int write_unit(const Interface *i, const char *app, const char *text)
{
        _cleanup_free_ char *slice = NULL;
        _cleanup_close_ int fd = open_beneath(i->pod->dir_fd, "root/" STAGE1_UNITS, O_RDONLY | O_DIRECTORY);

        if (fd < 0)
                return fd;
        int r = stage1_app_slice_name(app, &slice);
        return r < 0 ? r : write_file_atomic_at(fd, slice, text, strlen(text), 0644, false);
}

/* --- The call ------------------------------------------------------------------------------------------ */

/* Copies an isolator from APP to the definition. One that the definition does not have has to be in it
 * nevertheless: the image may have it. */
static int define_isolator(const PodApp *app, IsolatorType type, IsolatorList *l)
{
        Isolator *old = isolator_list_find(l, type);
        const Isolator *new = isolator_list_find(&app->app->isolators, type);
        Isolator copy = {};

        const char *text = new ? json_print(new->value) : "{}";
        int r = text ? isolator_parse(isolator_type_to_string(type), text, &copy, NULL) : -ENOMEM;
        if (r < 0)
                return r;
        if (old)
                remove_isolator(l, old);
        if (GREEDY_REALLOC(l->items, l->allocated, l->n + 1) < 0) {
                isolator_done(&copy);
                return -ENOMEM;
        }
        l->items[l->n++] = copy;
        return 0;
}

static int define_limits(const Update *u, const PodApp *app, IsolatorList *l)
{
        int r = u->attributes.n > 0 ? define_isolator(app, ISOLATOR_CGROUP, l) : 0;

        for (size_t i = 0; r >= 0 && i < N_LIMITS; i++)
                if (u->values[i] != 0)
                        r = define_isolator(app, limits[i].type, l);
        return r;
}

/* For later runs of the pod. If the definition is a pod manifest, it is made from the manifest of the
 * pod. */
static int define(const Update *u, const PodApp *app)
{
        _cleanup_(pod_definition_done) PodDefinition d = {};
        _cleanup_free_ char *path = NULL, *text = NULL;
        const Pod *p = u->interface->pod;

        int r = pod_app_definition_read(p, app, &d, NULL);
        if (r == -ENOENT || r == -ENODATA) /* a pod of an earlier version has none */
                return 0;
        if (r >= 0 && d.request.n_apps == 1)
                r = define_limits(u, app, &d.request.apps[0].isolators);
        if (r >= 0)
                r = pod_app_definition_format(p, app, &d.request, &path, &text, NULL);
        return r < 0 ? r : file_keeper_replace(u->interface->keeper, path, TAKE_PTR(text));
}

/* For 'acnspawn status': where the limits of the app come from. */
static int record_origin(const Update *u, const PodApp *app)
{
        uint32_t types = u->attributes.n > 0 ? UINT32_C(1) << ISOLATOR_CGROUP : 0;
        _cleanup_free_ char *path = NULL, *text = NULL;

        for (size_t i = 0; i < N_LIMITS; i++)
                if (u->values[i] != 0)
                        types |= UINT32_C(1) << limits[i].type;
        int r = pod_grants_format_app(u->interface->pod, app, types, GRANT_COMMAND_LINE, &path, &text, NULL);
        if (r < 0) /* a damaged file, which status reports, does not undo what is in force */
                return r == -ENOMEM ? r : 0;
        return file_keeper_replace(u->interface->keeper, path, TAKE_PTR(text));
}

static void on_recorded(void *userdata, int r, const Error *e);

/* The limits are in force now. */
static int record(Update *u)
{
        Pod *p = u->interface->pod;
        AppInstance *instance = interface_find_app(u->interface, u->app);
        _cleanup_(app_freep) App *changed = NULL;
        _cleanup_free_ char *text = NULL;

        if (!instance)
                return -ESRCH; /* the app was removed meanwhile */
        PodApp *app = instance->manifest;
        int r = change_app(app, u, &changed);
        if (r >= 0)
                r = stage1_app_slice_text(app->name, &changed->isolators, &text);
        if (r >= 0)
                r = write_unit(u->interface, app->name, text);
        if (r < 0)
                return r;
        IsolatorList old = app->app->isolators;
        app->app->isolators = changed->isolators;
        changed->isolators = old;
        instance->n_updated++;
        u->interface->ops.manifest_changed(u->interface->userdata);
        r = tasks_update(p, app);
        if (r >= 0)
                r = define(u, app);
        if (r >= 0)
                r = record_origin(u, app);
        return r < 0 ? r : file_keeper_write(u->interface->keeper, on_recorded, u);
}

/* The app may have been removed, or replaced by one of the same name, in the meantime. */
static void count_out(const Update *u)
{
        AppInstance *app = interface_find_app(u->interface, u->app);

        if (app && app->n_updates > 0)
                app->n_updates--;
}

static void conclude(Update *u, int r)
{
        AppInstance *app = interface_find_app(u->interface, u->app);

        count_out(u);
        if (r < 0)
                (void) varlink_reply_errno(u->call, r);
        else {
                if (app)
                        interface_changed(u->interface, app);
                (void) varlink_reply(u->call, NULL);
        }
        update_free(u);
}

static void on_recorded(void *userdata, int r, const Error *e)
{
        conclude(userdata, r);
}

/* The definition on disk has the limits of all updates before. */
static void on_idle(void *userdata, int r, const Error *e)
{
        Update *u = userdata;
        FileKeeper *k = u->interface->keeper;

        r = file_keeper_is_idle(k) ? record(u) : file_keeper_wait(k, on_idle, u);
        if (r < 0)
                conclude(u, r);
}

static void on_set(void *userdata, int r, const char *result)
{
        Update *u = userdata;

        if (r < 0)
                attributes_restore(u->interface->pod, u->app, &u->old);
        if (r == -ECONNRESET) { /* repeat it over the next connection */
                r = interface_defer(u->interface, u->call, u->parameters, interface_update_app);
                if (r >= 0) {
                        count_out(u);
                        update_free(u);
                        return;
                }
        }
        if (r < 0)
                conclude(u, r);
        else
                on_idle(u, 0, NULL);
}

static bool is_cleared(json_object *parameters, const char *name)
{
        json_object *list = json_object_object_get(parameters, "unlimited");

        for (size_t i = 0; list && i < json_object_array_length(list); i++)
                if (streq(json_object_get_string(json_object_array_get_idx(list, i)), name))
                        return true;
        return false;
}

/* The parameters for one limit. -EINVAL: they are not valid. */
static int read_limit(json_object *parameters, const Limit *k, int64_t *ret)
{
        json_object *value = json_object_object_get(parameters, k->parameter);
        bool cleared = is_cleared(parameters, k->parameter);

        if (value && (cleared || json_object_get_int64(value) <= 0))
                return -EINVAL;
        *ret = value ? json_object_get_int64(value) : cleared ? CLEARED : 0;
        return 0;
}

/* 1: the call was answered with an error. */
static int read_limits(Update *u, json_object *parameters)
{
        HostFeatures h = {};
        int r = pod_features(u->interface->pod, false, &h);

        for (size_t i = 0; r >= 0 && i < N_LIMITS; i++) {
                if (read_limit(parameters, &limits[i], &u->values[i]) < 0) {
                        r = varlink_reply_invalid_parameter(u->call, limits[i].parameter);
                        return r < 0 ? r : 1;
                }
                if (u->values[i] == 0 || *((const bool *) &h + limits[i].feature) ||
                    *((const bool *) &h + limits[i].other_feature))
                        continue;
                r = interface_reply_error(u->call, "org.acnspawn.Pod.NotSupported", "controller",
                                          limits[i].controller, NULL, NULL);
                return r < 0 ? r : 1;
        }
        return r;
}

/* Also of an app that does not run, whose values the kernel gets later. */
static int check_list(const Pair *a, Error *e)
{
        uint8_t bits[UNIT_LIST_SIZE_MAX];
        size_t size;

        int r = startswith(a->name, "cpuset.") ? manager_link_list_bits(a->value, bits, &size) : 0;
        return r < 0 ? error_set(e, -EINVAL, "Attribute %s: '%s' is not a valid list of numbers", a->name,
                                 a->value)
                     : 0;
}

static int take_attributes(Update *u, json_object *list, Error *e)
{
        IsolatorList checked = {};
        int r = 0;

        for (size_t i = 0; r >= 0 && i < json_object_array_length(list); i++) {
                json_object *a = json_object_array_get_idx(list, i);
                r = pair_list_set(&u->attributes, json_object_get_string(json_object_object_get(a, "name")),
                                  json_object_get_string(json_object_object_get(a, "value")));
        }
        if (r >= 0)
                r = set_attributes(&checked, &u->attributes, e);
        isolator_list_done(&checked);
        for (size_t i = 0; r >= 0 && i < u->attributes.n; i++)
                r = check_list(&u->attributes.items[i], e);
        return r;
}

/* 1: the call was answered with an error. */
static int read_attributes(Update *u, json_object *parameters)
{
        json_object *list = json_object_object_get(parameters, "attributes");
        _cleanup_error_ Error e = ERROR_NULL;
        HostFeatures h = {};

        if (!list)
                return 0;
        int r = take_attributes(u, list, &e);
        if (r < 0) {
                r = interface_refuse(u->call, r, "%s", e.message ?: strerror(-r));
                return r < 0 ? r : 1;
        }
        r = pod_features(u->interface->pod, false, &h);
        const char *missing = r < 0 ? NULL : stage1_missing_controller(&u->attributes, &h);
        if (missing)
                r = interface_reply_error(u->call, "org.acnspawn.Pod.NotSupported", "controller", missing,
                                          NULL, NULL);
        return r < 0 ? r : missing ? 1 : 0;
}

/* Whether a limit of swap is that of the app's image, and the limit of memory is not: as when the pod is prepared with it. */
static bool has_swap_of_image(const Update *u, const PodApp *app)
{
        _cleanup_(pod_definition_done) PodDefinition d = {};

        if (u->values[LIMIT_MEMORY] == 0 || pod_app_definition_read(u->interface->pod, app, &d, NULL) < 0 ||
            d.request.n_apps != 1)
                return false;
        const Isolator *given = isolator_list_find(&d.request.apps[0].isolators, ISOLATOR_CGROUP);
        return !given || !pair_list_get(&given->cgroup, CGROUP_SWAP_MAX);
}

/* 1: the call was answered with an error. */
static int begin(Update *u, ManagerLink *l, PodApp *app)
{
        _cleanup_free_ char *slice = NULL, *before = NULL, *after = NULL;
        _cleanup_(app_freep) App *changed = NULL;
        UnitProperty properties[UNIT_PROPERTIES_MAX];
        _cleanup_error_ Error e = ERROR_NULL;

        u->drops_swap = has_swap_of_image(u, app);
        int r = change_app(app, u, &changed);
        if (r >= 0)
                r = stage1_app_slice_name(app->name, &slice);
        if (r >= 0)
                r = stage1_app_slice_text(app->name, &app->app->isolators, &before);
        if (r >= 0)
                r = stage1_app_slice_text(app->name, &changed->isolators, &after);
        if (r < 0)
                return r;
        r = nested_check_limits(u->interface->pod, app, &changed->isolators, &e);
        if (r < 0) {
                r = interface_refuse(u->call, r, "%s", e.message ?: strerror(-r));
                return r < 0 ? r : 1;
        }
        r = attributes_write(u->interface->pod, u->app, &u->attributes, &u->old, &e);
        if (r < 0) {
                r = interface_refuse(u->call, r, "%s", e.message ?: strerror(-r));
                return r < 0 ? r : 1;
        }
        size_t n = interface_limit_properties(before, after, properties);
        r = manager_link_set(l, slice, properties, n, on_set, u);
        if (r < 0)
                attributes_restore(u->interface->pod, u->app, &u->old);
        return r;
}

int interface_update_app(VarlinkCall *call, json_object *parameters, void *userdata)
{
        Interface *i = userdata;
        AppInstance *app = NULL;

        int r = interface_begin(i, call, parameters, false, interface_update_app, &app);
        if (r != 0)
                return MIN(r, 0);
        if (app->settings.nested_path && !app->settings.own_limits)
                return interface_refuse(call, -EINVAL,
                                        "App %s has share-cgroups=true, and so no limits of its own: those "
                                        "of the app that it is nested under can be changed",
                                        app->settings.nested_path);
        Update *u = calloc(1, sizeof(Update));
        if (!u)
                return -ENOMEM;
        *u = (Update){.interface = i,
                      .call = varlink_call_ref(call),
                      .parameters = json_object_get(parameters),
                      .app = strdup(app->name)};
        r = u->app ? read_limits(u, parameters) : -ENOMEM;
        if (r == 0)
                r = read_attributes(u, parameters);
        if (r == 0)
                r = begin(u, i->ops.manager(i->userdata), app->manifest);
        if (r != 0)
                update_free(u);
        else
                app->n_updates++;
        /* The connection may have been lost a moment ago. */
        return (r == -ENOTCONN || r == -ECONNRESET) && !i->ops.manager(i->userdata)
                               ? interface_defer(i, call, parameters, interface_update_app)
                               : MIN(r, 0);
}
