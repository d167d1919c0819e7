/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The rights of an app that is nested under another one: never more than its parent has.
 *
 * What the app does not say itself it has from its parent: the sets of capabilities and of system calls, no-new-privileges, labels
 * of security modules, the score of the OOM killer, profile and masks, and a pid namespace. What it does say is compared with
 * the parent's, and refused if it is more, by name; nothing is cut down silently. Limits are compared with those of all apps
 * above, whose cgroups the app is in.
 *
 * With share-cgroups (the default) the app has no limits of its own and counts against those of its parent; without, it has
 * its own. Apps with the same parent are alike in that. Memory beyond its request makes such an app one of the first that the
 * kernel kills when the host runs out of memory. */

#include <linux/capability.h>
#include <sys/sysinfo.h>

#include "schema/settings.h"
#include "stage0/control/control-internal.h"
#include "stage1/launch-config.h"
#include "stage1/seccomp-filter.h"

#define OOM_SCORE_LEAST 2
#define OOM_SCORE_MOST 999

typedef struct Nesting {
        Pod *pod;
        PodApp *app;
        const PodApp *parent;
        AppSettings own, above;
        size_t first_volume;
} Nesting;

static int refuse(const Nesting *n, Error *e, const char *format, ...) _printf_(3, 4);
static int refuse(const Nesting *n, Error *e, const char *format, ...)
{
        _cleanup_free_ char *what = NULL;
        va_list args;

        va_start(args, format);
        int r = xvasprintf(&what, format, args);
        va_end(args);
        if (r < 0)
                return error_oom(e);
        return error_set(e, -EPERM,
                         "App %s cannot have more rights than app %s, which it is nested under: %s",
                         pod_app_path_name(n->app), pod_app_path_name(n->parent), what);
}

static bool is_root(const char *user)
{
        return !user || streq(user, "0") || streq(user, "root");
}

/* --- Isolators ----------------------------------------------------------------------------------------- */

static int add_isolator(IsolatorList *l, const char *name, const char *value)
{
        Isolator copy = {};

        int r = value ? isolator_parse(name, value, &copy, NULL) : -ENOMEM;
        if (r < 0)
                return r;
        if (GREEDY_REALLOC(l->items, l->allocated, l->n + 1) < 0) {
                isolator_done(&copy);
                return -ENOMEM;
        }
        l->items[l->n++] = copy;
        return 0;
}

static const Isolator *find(const PodApp *a, IsolatorType type)
{
        return isolator_list_find(&a->app->isolators, type);
}

static int inherit(const Nesting *n, IsolatorType type, Error *e)
{
        const Isolator *above = find(n->parent, type);

        if (!above || find(n->app, type))
                return 0;
        int r = add_isolator(&n->app->app->isolators, above->name, json_print(above->value));
        return r < 0 ? error_set_errno(e, r, "Cannot give app %s the isolator %s of app %s",
                                       pod_app_path_name(n->app), above->name, pod_app_path_name(n->parent))
                     : 0;
}

/* A set is given by one of two isolators. */
static int inherit_set(const Nesting *n, IsolatorType retain, IsolatorType remove, Error *e)
{
        if (find(n->app, retain) || find(n->app, remove))
                return 0;
        int r = inherit(n, retain, e);
        return r < 0 ? r : inherit(n, remove, e);
}

static int check_capabilities(const Nesting *n, Error *e)
{
        char name[STAGE1_CAPABILITY_NAME_SIZE] = "a capability";
        int r = inherit_set(n, ISOLATOR_CAPABILITIES_RETAIN_SET, ISOLATOR_CAPABILITIES_REMOVE_SET, e);

        if (r < 0)
                return r;
        uint64_t beyond = stage1_app_capabilities(n->app->app) & ~stage1_app_capabilities(n->parent->app);
        if (beyond == 0)
                return 0;
        (void) stage1_capability_name((unsigned) __builtin_ctzll(beyond), name);
        r = refuse(n, e, "%s", name);
        return error_hint(e, r, "Give it fewer with --caps-retain= or --caps-remove= after the image.");
}

/* Root has all of the set in effect; another user only those that are ambient. */
static int check_ambient(const Nesting *n, Error *e)
{
        if (is_root(n->parent->app->user))
                return 0;
        STRV_FOREACH (name, n->own.caps_ambient)
                if (!strv_contains(n->above.caps_ambient, *name))
                        return refuse(n, e, "%s is ambient", *name);
        return 0;
}

static int check_profile(const Nesting *n, Error *e)
{
        const char *own = n->own.seccomp_profile, *above = n->above.seccomp_profile;

        if (own)
                return streq_ptr(own, above) ? 1 : refuse(n, e, "another profile of system calls");
        if (!above)
                return 0;
        return pair_list_set(&n->app->annotations, SETTING_PREFIX "seccomp-profile", above) < 0
                               ? error_oom(e)
                               : 1;
}

static int check_system_calls(const Nesting *n, Error *e)
{
        const IsolatorList *own = &n->app->app->isolators, *above = &n->parent->app->isolators;
        _cleanup_strv_free_ char **calls = NULL;

        int r = check_profile(n, e);
        if (r == 0)
                r = inherit_set(n, ISOLATOR_SECCOMP_RETAIN_SET, ISOLATOR_SECCOMP_REMOVE_SET, e);
        if (r != 0 || !seccomp_has_filter(above))
                return MIN(r, 0);
        if (!seccomp_has_filter(own))
                return refuse(n, e, "no filter of system calls");
        r = seccomp_beyond(own, stage1_app_capabilities(n->app->app), above,
                           stage1_app_capabilities(n->parent->app), &calls, e);
        if (r < 0 || !calls)
                return r;
        return refuse(n, e, "the system call %s%s", calls[0], calls[1] ? ", and others" : "");
}

static int check_labels(const Nesting *n, Error *e)
{
        static const IsolatorType types[] = {ISOLATOR_APPARMOR_PROFILE, ISOLATOR_SELINUX_CONTEXT};

        for (size_t i = 0; i < ELEMENTSOF(types); i++) {
                int r = inherit(n, types[i], e);
                if (r < 0)
                        return r;
                const Isolator *own = find(n->app, types[i]), *above = find(n->parent, types[i]);
                if (own && (!above || !streq_ptr(own->text, above->text)))
                        return refuse(n, e, "another %s", isolator_type_to_string(types[i]));
        }
        return 0;
}

static int check_flags(const Nesting *n, Error *e)
{
        if (stage1_app_is_socket_activated(n->app->app))
                return error_set(e, -EINVAL,
                                 "App %s is nested under another one, and so cannot be started by "
                                 "connections",
                                 pod_app_path_name(n->app));
        int r = inherit(n, ISOLATOR_NO_NEW_PRIVILEGES, e);

        if (r >= 0)
                r = inherit(n, ISOLATOR_OOM_SCORE_ADJ, e);
        if (r < 0)
                return r;
        const Isolator *own = find(n->app, ISOLATOR_NO_NEW_PRIVILEGES),
                       *above = find(n->parent, ISOLATOR_NO_NEW_PRIVILEGES);
        /* By a set-user-ID program of its image it would be root, which its parent is not. Those who want that say so for the parent. */
        bool keeps = !above && !is_root(n->parent->app->user);
        if (own && !own->enabled && (keeps || (above && above->enabled)))
                return refuse(n, e, "%s is false", own->name);
        if (keeps && !own) {
                r = add_isolator(&n->app->app->isolators, "os/linux/no-new-privileges", "true");
                if (r < 0)
                        return error_set_errno(e, r, "Cannot confine app %s", pod_app_path_name(n->app));
        }
        own = find(n->app, ISOLATOR_OOM_SCORE_ADJ);
        above = find(n->parent, ISOLATOR_OOM_SCORE_ADJ);
        if (own && own->number < (above ? above->number : 0))
                return refuse(n, e, "a lower %s", own->name);
        return 0;
}

/* --- Users --------------------------------------------------------------------------------------------- */

/* Names mean the same in the same image only. */
static bool same_account(const Nesting *n, const char *own, const char *above)
{
        uint64_t id;

        if (!streq_ptr(own, above))
                return false;
        return parse_u64(own, &id) >= 0 || streq_ptr(n->app->image_id, n->parent->image_id);
}

static bool has_group(const App *a, uint32_t gid)
{
        uint64_t own;

        for (size_t i = 0; i < a->n_supplementary_gids; i++)
                if (a->supplementary_gids[i] == gid)
                        return true;
        return a->group && parse_u64(a->group, &own) >= 0 && own == gid;
}

/* Whether it is in the groups that the image's files have for its user. */
static bool has_groups_of_image(const App *a, const AppSettings *s)
{
        return s->group_policy == GROUP_POLICY_MERGE ||
               (s->group_policy == GROUP_POLICY_AUTO && streq_ptr(a->group, GROUPS_OF_USER));
}

static const char *show_group(const char *group)
{
        return !group ? "0" : streq(group, GROUPS_OF_USER) ? "of the user in the image" : group;
}

/* Root can take another identity, unless it lacks the capability. */
static bool can_change(const Nesting *n, unsigned capability)
{
        const App *above = n->parent->app;

        return is_root(above->user) && (stage1_app_capabilities(above) & UINT64_C(1) << capability);
}

static int check_groups(const Nesting *n, Error *e)
{
        const App *own = n->app->app, *above = n->parent->app;

        if (can_change(n, CAP_SETGID))
                return 0;
        if (!same_account(n, own->group, above->group))
                return refuse(n, e, "the group %s, not %s", show_group(own->group),
                              show_group(above->group));
        for (size_t i = 0; i < own->n_supplementary_gids; i++)
                if (!has_group(above, own->supplementary_gids[i]))
                        return refuse(n, e, "the group %u", own->supplementary_gids[i]);
        if (has_groups_of_image(own, &n->own) &&
            (!has_groups_of_image(above, &n->above) || !streq_ptr(n->app->image_id, n->parent->image_id)))
                return refuse(n, e, "the groups of its user in the image");
        return 0;
}

static int check_user(const Nesting *n, Error *e)
{
        const App *own = n->app->app, *above = n->parent->app;
        bool same = (is_root(own->user) && is_root(above->user)) || same_account(n, own->user, above->user);
        int r = 0;

        if (!same && !can_change(n, CAP_SETUID))
                r = refuse(n, e, "the user %s, not %s", own->user ?: "0", above->user ?: "0");
        if (r >= 0)
                r = check_groups(n, e);
        return r < 0 ? error_hint(e, r,
                                  "In an image of its own, an app is given the same user by number: "
                                  "--user=, --group=.")
                     : 0;
}

/* --- Settings ------------------------------------------------------------------------------------------ */

/* Settings that are the parent's unless the app has them itself, and then as the parent. */
static int check_equal(const Nesting *n, Error *e)
{
        static const char *const names[] = {"masked-paths", "read-only-paths"};

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                _cleanup_free_ char *key = NULL;

                if (xasprintf(&key, SETTING_PREFIX "%s", names[i]) < 0)
                        return error_oom(e);
                const char *own = pair_list_get(&n->app->annotations, key),
                           *above = pair_list_get(&n->parent->annotations, key);
                if (own && !streq_ptr(own, above))
                        return refuse(n, e, "other %s", names[i]);
                if (!own && above && pair_list_set(&n->app->annotations, key, above) < 0)
                        return error_oom(e);
        }
        return 0;
}

static bool has_device(const DevicesSetting *all, const DeviceSetting *d)
{
        unsigned access = 0;

        for (size_t i = 0; i < all->n; i++)
                if (streq(all->items[i].source, d->source))
                        access |= all->items[i].access ?: DEVICE_ACCESS_ALL;
        if (all->all && startswith(d->source, "/dev/"))
                access = DEVICE_ACCESS_ALL;
        return ((d->access ?: DEVICE_ACCESS_ALL) & ~access) == 0;
}

static int check_devices(const Nesting *n, Error *e)
{
        const DevicesSetting *own = &n->own.devices, *above = &n->above.devices;

        if (own->all && !above->all)
                return refuse(n, e, "all devices");
        for (size_t i = 0; i < own->n; i++)
                if (!has_device(above, &own->items[i]))
                        return refuse(n, e, "the device %s", own->items[i].source);
        return n->own.writable_sys && !n->above.writable_sys ? refuse(n, e, "a writable /sys") : 0;
}

/* An app in a pid namespace does not see the other processes of the pod, nor does what is nested under it; to see those of its
 * parent is no more than that one can. */
static int check_processes(const Nesting *n, Error *e)
{
        const PidSetting *own = &n->own.pid, *above = &n->above.pid;
        bool given = pair_list_get(&n->app->annotations, SETTING_PREFIX "pid");

        if (above->mode == PID_POD || own->mode == PID_PRIVATE)
                return 0;
        if (own->mode == PID_APP && (streq(own->app, n->parent->name) || streq_ptr(own->app, above->app)))
                return 0;
        if (own->mode == PID_SHARED && above->mode == PID_SHARED)
                return 0;
        if (given)
                return refuse(n, e, "the processes of other apps");
        return pair_list_set(&n->app->annotations, SETTING_PREFIX "pid", "private") < 0 ? error_oom(e) : 0;
}

static int check_settings(const Nesting *n, Error *e)
{
        int r = check_equal(n, e);

        if (r >= 0 && n->own.control && !n->above.control)
                r = refuse(n, e, "to launch apps (--control=true)");
        for (size_t i = 0; r >= 0 && n->own.control_images && n->own.control_images[i]; i++)
                if (!strv_contains(n->above.control_images, n->own.control_images[i]))
                        r = refuse(n, e, "to launch apps of the images %s", n->own.control_images[i]);
        if (r >= 0 && n->own.landlock_optional && !n->above.landlock_optional)
                r = refuse(n, e, "to run without Landlock (--landlock=optional)");
        if (r >= 0 && n->own.hooks)
                r = refuse(n, e, "hooks on the host");
        if (r >= 0)
                r = check_devices(n, e);
        return r < 0 ? r : check_processes(n, e);
}

/* --- Volumes ------------------------------------------------------------------------------------------- */

/* 1: it mounts the volume so that it can be written to; 0: only read-only; -ENOENT: not at all. */
static int writes_volume(const PodApp *a, const char *volume)
{
        int r = -ENOENT;

        for (size_t i = 0; i < a->n_mounts && r <= 0; i++)
                if (streq_ptr(a->mounts[i].volume, volume))
                        r = !app_has_read_only(a->app, a->mounts[i].path);
        return r;
}

/* Of the volumes of the pod an app may have those that its parent shares. */
static int check_mount(const Nesting *n, Mount *m, Error *e)
{
        Volume *v = pod_manifest_find_volume(n->pod->manifest, m->volume);
        int writes = writes_volume(n->parent, m->volume);
        VolumeSettings s;

        if (!v || (size_t) (v - n->pod->manifest->volumes) >= n->first_volume)
                return 0;
        int r = volume_settings_read(n->pod->manifest, v, &s, e);
        if (r < 0)
                return r;
        if (writes >= 0 && s.nested) {
                m->read_only = m->read_only || writes == 0;
                return pod_app_keep_read_only(n->app, m, e);
        }
        r = refuse(n, e, "the volume %s", m->volume);
        return error_hint(e, r,
                          "A volume that an app mounts and that has nested=true is there for apps under it, "
                          "too.");
}

static int check_volumes(const Nesting *n, Error *e)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < n->app->n_mounts; i++)
                r = check_mount(n, &n->app->mounts[i], e);
        return r;
}

/* --- Resources ----------------------------------------------------------------------------------------- */

static const IsolatorType resources[] = {ISOLATOR_RESOURCE_MEMORY,
                                         ISOLATOR_RESOURCE_CPU,
                                         ISOLATOR_CPU_SHARES,
                                         ISOLATOR_RESOURCE_TASKS,
                                         ISOLATOR_RESOURCE_BLOCK_BANDWIDTH,
                                         ISOLATOR_RESOURCE_BLOCK_IOPS,
                                         ISOLATOR_RESOURCE_NETWORK_BANDWIDTH,
                                         ISOLATOR_CGROUP};

static int check_siblings(const Nesting *n, Error *e)
{
        const PodManifest *m = n->pod->manifest;
        size_t length = strlen(n->parent->name);

        for (size_t i = 0; i < m->n_apps; i++) {
                const PodApp *other = m->apps[i];
                _cleanup_app_settings_ AppSettings s = {};

                if (other == n->app || nested_parent_length(other->name) != length ||
                    !startswith(other->name, n->parent->name))
                        continue;
                int r = app_settings_read(other, &s, e);
                if (r < 0)
                        return r;
                if (s.own_limits == n->own.own_limits)
                        continue;
                return error_set(e, -EINVAL,
                                 "App %s has share-cgroups=%s, but app %s, beside it, has share-cgroups=%s",
                                 pod_app_path_name(n->app), n->own.own_limits ? "false" : "true",
                                 pod_app_path_name(other), s.own_limits ? "false" : "true");
        }
        return 0;
}

static int refuse_limits(const Nesting *n, const char *name, Error *e)
{
        int r = error_set(e, -EINVAL,
                          "App %s cannot have %s: with share-cgroups=true it has no limits of its own, and "
                          "counts against those of app %s",
                          pod_app_path_name(n->app), name, pod_app_path_name(n->parent));

        return error_hint(e, r, "Give it, and the apps beside it, --share-cgroups=false.");
}

/* The nearest app above that has a limit of that type. */
static const Isolator *find_limit(const Nesting *n, IsolatorType type, const PodApp **ret)
{
        for (const PodApp *a = n->parent; a;) {
                const Isolator *i = find(a, type);
                size_t length = nested_parent_length(a->name);
                _cleanup_free_ char *name = length > 0 ? strndup(a->name, length) : NULL;

                if (i && i->has_limit) {
                        *ret = a;
                        return i;
                }
                a = name ? pod_manifest_find_app(n->pod->manifest, name) : NULL;
        }
        return NULL;
}

static int check_limit(const Nesting *n, const Isolator *own, Error *e)
{
        const PodApp *of = NULL;
        const Isolator *above = find_limit(n, own->type, &of);
        uint64_t most = MAX(own->has_limit ? own->limit : 0, own->has_request ? own->request : 0);

        if (!above || most <= above->limit)
                return 0;
        return refuse(n, e, "%s of %" PRIu64 ", where app %s has a limit of %" PRIu64, own->name, most,
                      pod_app_path_name(of), above->limit);
}

/* As Mesos and Kubernetes have it: the more of the host's memory an app has requested, the later it is its turn. */
static int score_memory(const Nesting *n, Error *e)
{
        const Isolator *memory = find(n->app, ISOLATOR_RESOURCE_MEMORY),
                       *given = find(n->app, ISOLATOR_OOM_SCORE_ADJ);
        struct sysinfo host;
        char value[32];

        if (!memory || !memory->has_request || !memory->has_limit || memory->limit <= memory->request ||
            given)
                return 0;
        if (sysinfo(&host) < 0)
                return error_set_errno(e, -errno, "Cannot read the size of the host's memory");
        uint64_t total = (uint64_t) host.totalram * host.mem_unit;
        long long score =
                        1000 - (long long) (1000.0 * (double) MIN(memory->request, total) / (double) total);
        snprintf(value, sizeof(value), "%lld", MIN(MAX(score, OOM_SCORE_LEAST), OOM_SCORE_MOST));
        int r = add_isolator(&n->app->app->isolators, "os/linux/oom-score-adj", value);
        return r < 0 ? error_set_errno(e, r, "Cannot set the OOM score of app %s", pod_app_path_name(n->app))
                     : 0;
}

static int check_resources(const Nesting *n, Error *e)
{
        int r = check_siblings(n, e);

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(resources); i++) {
                const Isolator *own = find(n->app, resources[i]);
                if (own)
                        r = n->own.own_limits ? check_limit(n, own, e) : refuse_limits(n, own->name, e);
        }
        return r < 0 ? r : score_memory(n, e);
}

/* --- All of it ----------------------------------------------------------------------------------------- */

static int confine(const Nesting *n, Error *e)
{
        static int (*const checks[])(const Nesting *n, Error *e) = {
                        check_capabilities, check_ambient,  check_system_calls, check_labels,   check_flags,
                        check_user,         check_settings, check_volumes,      check_resources};
        int r = 0;

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(checks); i++)
                r = checks[i](n, e);
        return r;
}

/* 0: the app is not nested. */
static int find_parent(Nesting *n, Error *e)
{
        size_t length = nested_parent_length(n->app->name);
        _cleanup_free_ char *name = length > 0 ? strndup(n->app->name, length) : NULL;

        if (length == 0)
                return 0;
        n->parent = name ? pod_manifest_find_app(n->pod->manifest, name) : NULL;
        if (n->parent)
                return 1;
        return name ? error_set(e, -ENOENT, "App %s is nested under an app that does not exist",
                                n->app->name)
                    : error_oom(e);
}

int nested_check_limits(Pod *p, PodApp *app, const IsolatorList *limits, Error *e)
{
        Nesting n = {.pod = p, .app = app};
        int r = find_parent(&n, e);

        for (size_t i = 0; r > 0 && i < ELEMENTSOF(resources); i++) {
                const Isolator *own = isolator_list_find(limits, resources[i]);
                if (own && check_limit(&n, own, e) < 0)
                        return -EPERM;
        }
        return MIN(r, 0);
}

static int confine_app(Pod *p, PodApp *app, size_t first_volume, Error *e)
{
        Nesting n = {.pod = p, .app = app, .first_volume = first_volume};

        int r = find_parent(&n, e);
        if (r <= 0)
                return r;
        r = stage1_load_isolator_libraries(&n.parent->app->isolators, e);
        if (r >= 0)
                r = app_settings_read(app, &n.own, e);
        if (r >= 0)
                r = app_settings_read(n.parent, &n.above, e);
        if (r >= 0)
                r = confine(&n, e);
        app_settings_done(&n.own);
        app_settings_done(&n.above);
        return r;
}

int confine_nested(Pod *p, size_t first_volume, Error *e)
{
        return confine_app(p, p->manifest->apps[p->manifest->n_apps - 1], first_volume, e);
}

int confine_all_nested(Pod *p, Error *e)
{
        const PodManifest *m = p->manifest;
        int r = 0;

        /* From the outside in, as an app inherits from its parent. */
        for (size_t level = 2; r >= 0 && level <= NESTED_LEVELS_MAX; level++)
                for (size_t i = 0; r >= 0 && i < m->n_apps; i++)
                        if (nested_level(m->apps[i]->name) == level)
                                r = confine_app(p, m->apps[i], m->n_volumes, e);
        return r;
}
