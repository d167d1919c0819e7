/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Makes the launch file of an app, from the app of the reified manifest: everything the launcher has to
 * do. */

#include <linux/capability.h>

#include "schema/settings.h"
#include "stage1/launch-config.h"
#include "stage1/launch-protocol.h"
#include "stage1/seccomp-filter.h"
#include "stage1/seccomp-profile.h"
#include "stage1/stage1.h"

static bool wants_no_new_privileges(const App *app)
{
        bool enabled = false;

        for (size_t i = 0; i < app->isolators.n; i++)
                if (app->isolators.items[i].type == ISOLATOR_NO_NEW_PRIVILEGES)
                        enabled = app->isolators.items[i].enabled;
        return enabled;
}

static int plan_label(const App *app, IsolatorType type, char **ret)
{
        for (size_t i = 0; i < app->isolators.n; i++)
                if (app->isolators.items[i].type == type) {
                        free(*ret);
                        *ret = strdup(app->isolators.items[i].text);
                        if (!*ret)
                                return -ENOMEM;
                }
        return 0;
}

static int plan_environment(const App *app, LaunchConfig *c)
{
        for (size_t i = 0; i < app->environment.n; i++) {
                const Pair *p = &app->environment.items[i];
                int r = strv_extendf(&c->environment, "%s=%s", p->name, p->value);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int plan_groups(const App *app, LaunchConfig *c)
{
        for (size_t i = 0; i < app->n_supplementary_gids; i++) {
                if (GREEDY_REALLOC(c->gids, c->gids_allocated, c->n_gids + 1) < 0)
                        return -ENOMEM;
                c->gids[c->n_gids++] = app->supplementary_gids[i];
        }
        return 0;
}

static int plan_mounts(const PodApp *pa, LaunchConfig *c)
{
        for (size_t i = 0; i < pa->n_mounts; i++) {
                int r = strv_extend(&c->mounts, pa->mounts[i].path);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* One name for each port; all sockets of a port range have the same name. */
static int plan_sockets(const App *app, LaunchConfig *c)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < app->n_ports; i++)
                for (uint32_t k = 0;
                     r >= 0 && app->ports[i].socket_activated && k < stage1_port_count(&app->ports[i]); k++)
                        r = strv_extend(&c->sockets, app->ports[i].name);
        return r;
}

static int plan_strings(const PodApp *pa, LaunchConfig *c)
{
        c->app = strdup(pa->name);
        c->user = strdup(pa->app->user);
        c->group = strdup(pa->app->group);
        c->working_directory = strdup(pa->app->working_directory ?: "/");
        return c->app && c->user && c->group && c->working_directory ? 0 : -ENOMEM;
}

static int plan_app(const PodApp *pa, LaunchConfig *c)
{
        int r = plan_strings(pa, c);

        if (r >= 0)
                r = strv_copy(pa->app->exec, &c->exec);
        if (r >= 0 && pa->app->pre_start)
                r = strv_copy(pa->app->pre_start, &c->pre_start);
        if (r >= 0 && pa->app->post_stop)
                r = strv_copy(pa->app->post_stop, &c->post_stop);
        if (r >= 0)
                r = plan_environment(pa->app, c);
        if (r >= 0)
                r = plan_groups(pa->app, c);
        if (r >= 0)
                r = plan_mounts(pa, c);
        if (r >= 0)
                r = plan_sockets(pa->app, c);
        if (r >= 0)
                r = plan_label(pa->app, ISOLATOR_APPARMOR_PROFILE, &c->apparmor_profile);
        if (r >= 0)
                r = plan_label(pa->app, ISOLATOR_SELINUX_CONTEXT, &c->selinux_context);
        c->capabilities = stage1_app_capabilities(pa->app);
        c->no_new_privileges = wants_no_new_privileges(pa->app);
        c->read_only_root = pa->read_only_rootfs;
        return r;
}

/* Only what the app may have can be ambient. */
static int plan_ambient(const PodApp *pa, char *const *names, LaunchConfig *c, Error *e)
{
        char known[STAGE1_CAPABILITY_NAME_SIZE];

        STRV_FOREACH (name, names) {
                unsigned cap = 0;
                while (cap < 64 && !(c->capabilities & UINT64_C(1) << cap &&
                                     stage1_capability_name(cap, known) && streq(known, *name)))
                        cap++;
                if (cap == 64) {
                        int r = error_set(
                                        e, -EINVAL,
                                        "%s is not among the capabilities of app %s, and cannot be ambient",
                                        *name, pa->name);
                        return error_hint(e, r, "Add it to --caps-retain=.");
                }
                c->ambient |= UINT64_C(1) << cap;
        }
        return 0;
}

/* The settings of the app that the launcher needs; the others are in the units. */
static int plan_settings(const PodApp *pa, LaunchConfig *c, Error *e)
{
        _cleanup_app_settings_ AppSettings s = {};
        int r = app_settings_read(pa, &s, e);

        if (r < 0)
                return r;
        if (s.health.command && strv_copy(s.health.command, &c->health) < 0)
                return error_oom(e);
        c->has_masked = s.masked.given;
        c->masked = TAKE_PTR(s.masked.paths);
        c->has_read_only = s.read_only.given;
        c->read_only = TAKE_PTR(s.read_only.paths);
        c->notify = s.notify;
        c->control = s.control;
        c->hostname = s.hostname_variable;
        c->landlock_optional = s.landlock_optional;
        c->shares_processes = app_settings_share_processes(&s);
        c->merges_groups = s.group_policy == GROUP_POLICY_MERGE;
        c->writable_sys = s.writable_sys;
        c->strict_groups = s.group_policy == GROUP_POLICY_STRICT;
        return plan_ambient(pa, s.caps_ambient, c, e);
}

bool stage1_app_may_mount(const App *app)
{
        return seccomp_allows(&app->isolators, stage1_app_capabilities(app), "mount");
}

/* A profile of the user takes the place of the isolators. */
static int compile_filter(const PodApp *pa, LaunchConfig *c, SeccompProgram *ret, Error *e)
{
        _cleanup_(seccomp_profile_freep) SeccompProfile *profile = NULL;
        _cleanup_app_settings_ AppSettings s = {};

        int r = app_settings_read(pa, &s, e);
        if (r < 0)
                return r;
        if (!s.seccomp_profile) {
                c->may_mount = stage1_app_may_mount(pa->app);
                r = seccomp_compile(&pa->app->isolators, c->capabilities, ret, e);
                return r < 0 ? error_prefix(e, r, "App %s", pa->name) : 0;
        }
        r = seccomp_profile_parse(s.seccomp_profile, strlen(s.seccomp_profile), &profile, e);
        if (r >= 0)
                r = seccomp_profile_compile(profile, c->capabilities, ret, e);
        if (r < 0)
                return error_prefix(e, r, "App %s", pa->name);
        c->may_mount = seccomp_profile_allows(profile, c->capabilities, "mount");
        return 0;
}

static int plan_filter(const PodApp *pa, LaunchConfig *c, Error *e)
{
        _cleanup_seccomp_program_ SeccompProgram program = {};

        int r = compile_filter(pa, c, &program, e);
        if (r < 0)
                return r;
        c->filter = TAKE_PTR(program.items);
        c->n_filter = program.n;
        c->has_filter = true;
        return 0;
}

/* Version 1 of Landlock has no rule that lets apps move files between directories, and before version 6
 * every domain forbids mounting. */
bool stage1_app_is_confined(const PodApp *pa, const HostFeatures *h)
{
        const App *app = pa->app;
        uint64_t capabilities = stage1_app_capabilities(app);
        _cleanup_app_settings_ AppSettings s = {};

        /* It does not see others, or only those that it is to share. With CAP_SYS_PTRACE it could take the place of a
         * launcher that starts one of these. */
        if (app_settings_read(pa, &s, NULL) >= 0 && s.pid.mode != PID_POD)
                return !app_settings_share_processes(&s) || !(capabilities & UINT64_C(1) << CAP_SYS_PTRACE);

        if (h->landlock >= 6)
                return true;
        return h->landlock >= 2 && !(capabilities & UINT64_C(1) << CAP_SYS_ADMIN &&
                                     seccomp_allows(&app->isolators, capabilities, "mount"));
}

int stage1_launch_file(const PodManifest *m, const PodApp *app, char **ret, size_t *ret_size, Error *e)
{
        _cleanup_launch_config_ LaunchConfig c = {};

        (void) m;
        if (app->n_mounts > LAUNCH_MOUNTS_MAX)
                return error_set(e, -E2BIG, "App %s has %zu mounts, at most %u are possible", app->name,
                                 app->n_mounts, LAUNCH_MOUNTS_MAX);
        int r = plan_app(app, &c);
        if (r < 0)
                return error_oom(e);
        r = plan_settings(app, &c, e);
        if (r >= 0)
                r = plan_filter(app, &c, e);
        if (r < 0)
                return r;
        r = launch_config_format(&c, ret, ret_size);
        return r < 0 ? error_oom(e) : 0;
}
