/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* From a request to a prepared pod: the pod directory (prepare/), the root of its systemd and the launch
 * files (stage1/). Nothing is mounted and nothing is copied, so it takes the same few milliseconds for
 * images of any size. */

#include <sys/stat.h>

#include "stage0/control/control-internal.h"
#include "stage0/report/report.h"
#include "stage1/launch-protocol.h"

/* None stays NULL. */
static int copy_list(char *const *l, char ***ret)
{
        return l ? strv_copy(l, ret) : 0;
}

static int configure(Pod *p, const PrepareOptions *o)
{
        PodConfig *c = &p->config;

        c->private_users = o->private_users;
        c->host_pid = o->host_pid;
        c->host_ipc = o->host_ipc;
        c->net = o->net;
        c->strict = o->strict;
        c->reduced_metadata = o->reduced_metadata;
        c->no_metadata = o->no_metadata;
        c->exit_policy = o->exit_policy;
        c->stop_timeout_usec = o->stop_timeout_usec;
        c->exit_idle_usec = o->exit_idle_usec == UINT64_MAX ? 0 : o->exit_idle_usec;
        if (c->created_usec == 0)
                c->created_usec = now_usec(CLOCK_REALTIME);
        if (copy_list(o->networks, &c->networks) < 0 || copy_list(o->dns, &c->dns) < 0 ||
            copy_list(o->dns_search, &c->dns_search) < 0 || copy_list(o->dns_options, &c->dns_options) < 0 ||
            copy_list(o->hosts_entries, &c->hosts_entries) < 0)
                return -ENOMEM;
        if (o->hostname && !(c->hostname = strdup(o->hostname)))
                return -ENOMEM;
        if (o->stage1 && !(c->stage1 = strdup(o->stage1)))
                return -ENOMEM;
        if (o->cgroup_parent && !(c->cgroup_parent = strdup(o->cgroup_parent)))
                return -ENOMEM;
        if (o->declared_run && !(c->declared_run = strdup(o->declared_run)))
                return -ENOMEM;
        return 0;
}

static Stage1Options stage1_options(const Pod *p, const char *hostname)
{
        return (Stage1Options){
                        .uuid = p->uuid,
                        .hostname = hostname,
                        .stop_timeout_usec = p->config.stop_timeout_usec,
                        .host_pid = p->config.host_pid,
                        .keeps_slice = exit_policy_is_open(p->config.exit_policy),
        };
}

static int write_root(Pod *p, Error *e)
{
        _cleanup_free_ char *hostname = NULL;
        _cleanup_close_ int root_fd = -EBADF;

        if (pod_hostname(p, &hostname) < 0)
                return error_oom(e);
        const Stage1Options o = stage1_options(p, hostname);
        int r = mkdir_at(p->dir_fd, "root", 0755);
        if (r < 0)
                return error_set_errno(e, r, "Cannot create the root of pod %s", pod_display_name(p));
        root_fd = openat(p->dir_fd, "root", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (root_fd < 0)
                return error_set_errno(e, -errno, "Cannot open the root of pod %s", pod_display_name(p));
        return stage1_write_root(root_fd, p->manifest, &o, pod_root_uid(p), e);
}

static int write_launch_file(Pod *p, const PodApp *app, Error *e)
{
        _cleanup_free_ char *data = NULL, *path = NULL;
        size_t size;

        int r = stage1_launch_file(p->manifest, app, &data, &size, e);
        if (r < 0)
                return r;
        if (size > LAUNCH_FILE_SIZE_MAX)
                return error_set(e, -E2BIG, "Arguments and environment of app %s are larger than %u bytes",
                                 app->name, LAUNCH_FILE_SIZE_MAX);
        if (pod_app_path(p, app, "launch", &path) < 0)
                return error_oom(e);
        r = write_file_new_at(p->dir_fd, path, data, size, 0600);
        return r < 0 ? error_set_errno(e, r, "Cannot write the launch file of app %s", app->name) : 0;
}

static int check_sockets(const Pod *p, Error *e)
{
        int r = stage1_sockets_check(p->manifest, e);

        if (r < 0 || p->config.exit_idle_usec == 0)
                return r;
        if (p->config.exit_policy == EXIT_NEVER)
                return error_set(
                                e, -EINVAL,
                                "--exit-idle-time= ends a pod that is idle, and with --exit-policy=never it "
                                "ends only when it is stopped");
        if (stage1_pod_is_socket_activated(p->manifest))
                return 0;
        r = error_set(e, -EINVAL,
                      "The pod cannot end for being idle: none of its apps has a socket-activated port");
        return error_hint(e, r, "It ends when its apps have ended, without --exit-idle-time=.");
}

/* OTHER has ended, and cannot be removed, because of its networks for example. It does not keep the name; gc and rm try again. R and E say
 * why. -EBUSY: it is read, which does not keep its successor from starting; or the user has mounted something below it, or another
 * process has it. */
static int leave_unnamed(Pod *other, int r, Error *e)
{
        _cleanup_(pod_freep) Pod *now = NULL;

        pod_unlock(other);
        if (operation_ended(r) || pod_open(other->store, other->uuid, &now, NULL) < 0 ||
            pod_lock(now, true, NULL) < 0 || now->state != POD_EXITED)
                return r;
        if (r == -EBUSY && pod_exclude_readers(now, false, NULL) != -EBUSY)
                return r;
        if (pod_release_processes(now, NULL) < 0)
                return r;
        if (now->place == POD_RUNNING)
                (void) pod_end_run(now, NULL);
        pod_drop_name(now);
        operation_message(pod_operation(now), LOG_LEVEL_WARNING, "Pod %s stays, without its name: %s%s%s",
                          now->uuid, e && e->message ? e->message : strerror(-r), e && e->hint ? ". " : "",
                          e && e->hint ? e->hint : "");
        return 0;
}

/* Whether a pod that has the name may be there until the new one has passed all checks. */
static bool replaces(const PrepareOptions *o)
{
        return o->replace || o->unused;
}

/* Another pod may take the name meanwhile, and then keeps it. */
static int take_name(Pod *p, const PrepareOptions *o, Error *e)
{
        _cleanup_(pod_freep) Pod *other = NULL;

        int r = o->replace ? pod_open_by_name(p->store, o->name, &other, e) : -ENOENT;
        if (r >= 0)
                r = pod_keep_images(p, e);
        if (r >= 0) {
                r = discard_pod(other, e);
                if (r < 0)
                        r = leave_unnamed(other, r, e);
        } else if (o->unused)
                r = discard_pod(o->unused, e);
        if (r < 0 && r != -ENOENT)
                return error_prefix(e, r, "Cannot replace pod '%s'", o->name);
        error_done(e);
        return pod_reserve_name(p, o->name, e);
}

/* Until it is published the name belongs to the predecessor, but the files that are written contain it. */
static int expect_name(Pod *p, const Pod *old, const Pod *holder, Error *e)
{
        const char *name = holder ? holder->config.name : old->config.name;
        int r = 0;

        if (!name)
                return old->former_name ? pod_reserve_name(p, old->former_name, e) : 0;
        free(p->config.name);
        p->config.name = strdup(name);
        if (!p->config.name)
                r = error_oom(e);
        return r;
}

/* Until now the predecessor may have run. */
static int succeed(Pod *p, Pod *old, Pod *holder, Error *e)
{
        _cleanup_free_ char *name = NULL;
        int r = old->state == POD_RUNNING ? pod_keep_images(p, e) : 0;

        if (r >= 0 && old->state == POD_RUNNING)
                r = stop_pod(old, STOP_AS_CONFIGURED, e);
        if (r >= 0)
                r = pod_lock(old, true, e);
        if (r >= 0)
                return pod_succeed(p, old, holder, e);
        if (r != -ENOENT || !p->config.name)
                return r == -ENOENT ? 0 : r;
        error_done(e); /* it was run with --rm */
        name = TAKE_PTR(p->config.name);
        return pod_reserve_name(p, name, e);
}

/* Named volumes are made last: they stay if the pod cannot be prepared. */
static int make_volumes(Pod *p, size_t first, Error *e)
{
        int r = pod_volumes_create(p, first, e);

        return r < 0 ? r : pod_named_volumes_check(p, first, e);
}

/* Decides what apps of the pod can have: what the pod declares bounds also the first of them. */
static int decide_capabilities(Pod *p, Error *e)
{
        char name[STAGE1_CAPABILITY_NAME_SIZE] = "a capability";
        bool declared;

        p->config.capabilities = stage1_pod_capabilities(p->manifest, &declared);
        for (size_t i = 0; declared && i < p->manifest->n_apps; i++) {
                const PodApp *a = p->manifest->apps[i];
                uint64_t beyond = stage1_app_capabilities(a->app) & ~p->config.capabilities;

                if (beyond == 0)
                        continue;
                (void) stage1_capability_name((unsigned) __builtin_ctzll(beyond), name);
                int r = error_set(e, -EPERM,
                                  "App %s requires %s, which is not among the capabilities that its pod "
                                  "declares",
                                  a->name, name);
                return error_hint(e, r,
                                  "Add it to those of the pod (--caps-retain= before the first image, "
                                  "CapsRetain= in [Pod], or the isolator os/linux/capabilities-retain-set "
                                  "of the pod manifest), or give the app fewer by --caps-remove=.");
        }
        return 0;
}

static int fill_pod(Pod *p, const PodRequest *request, const PrepareOptions *o, char ***warnings, Error *e)
{
        int r = configure(p, o);

        if (r < 0)
                return error_oom(e);
        r = image_policies_check(request, e);
        if (r >= 0 && p->config.private_users)
                r = store_check_id_mapped(p->store, e);
        if (r >= 0 && o->owner)
                r = pod_set_owner(p, o->owner, e);
        if (r >= 0 && o->cgroup_parent)
                r = cgroup_parent_check(o->cgroup_parent, e);
        if (r >= 0)
                r = o->uid_base > 0 ? pod_take_uids(p, o->uid_base, o->n_uids, e) : pod_allocate_uids(p, e);
        if (r >= 0 && o->name && !replaces(o))
                r = take_name(p, o, e);
        if (r >= 0 && o->predecessor)
                r = expect_name(p, o->predecessor, o->name_holder, e);
        if (r >= 0)
                r = pod_reify(p, request, warnings, e);
        if (r >= 0)
                r = stage1_load_libraries(p->manifest, e);
        if (r >= 0)
                r = decide_privileges(p, request, e);
        if (r >= 0)
                r = confine_all_nested(p, e);
        if (r >= 0)
                r = decide_capabilities(p, e);
        if (r >= 0)
                r = pod_request_tolerate(request, check_users(p, 0, 0, e), warnings, e);
        if (r >= 0)
                r = pod_volumes_check(p, 0, warnings, e);
        if (r >= 0)
                r = pod_volume_quotas_check(p, 0, o->predecessor ? warnings : NULL, e);
        if (r >= 0)
                r = check_sockets(p, e);
        if (r >= 0)
                r = network_check(p, o->config_dirs, warnings, e);
        if (r >= 0)
                r = check_name_files(p, 0, warnings, e);
        if (r >= 0)
                r = warn_of_init(p, 0, warnings, e);
        if (r >= 0)
                r = pod_isolators_check(p, e);
        if (r >= 0 && o->strict)
                r = pod_require_isolators(p, o->config_dirs, false, e);
        else if (r >= 0 && !o->dry_run) /* which shows them all */
                r = pod_warn_isolators(p, request, 0, o->config_dirs, warnings, e);
        if (r >= 0)
                r = warn_of_grants(p, request, 0, warnings, e);
        if (r < 0 || o->dry_run)
                return r;
        if (replaces(o))
                r = take_name(p, o, e);
        if (r >= 0)
                r = write_root(p, e);
        for (size_t i = 0; r >= 0 && i < p->manifest->n_apps; i++)
                r = write_launch_file(p, p->manifest->apps[i], e);
        if (r >= 0)
                r = pod_definition_write(p, request, e);
        if (r >= 0)
                r = pod_owner_data_write(p, NULL, &o->owner_data, e);
        if (r >= 0)
                r = make_volumes(p, 0, e);
        if (r >= 0)
                r = operation_check(pod_operation(p), e);
        return r < 0 || !o->predecessor ? r : succeed(p, o->predecessor, o->name_holder, e);
}

int prepare_pod(Store *s, const PodRequest *request, const PrepareOptions *o, Pod **ret, char ***warnings,
                Error *e)
{
        _cleanup_(pod_freep) Pod *p = NULL;
        int r = pod_new(s, &p, e);

        if (r < 0)
                return r;
        r = fill_pod(p, request, o, warnings, e);
        if (r < 0) {
                pod_abandon(p);
                return r;
        }
        r = o->dry_run ? 0 : pod_publish(p, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(p);
        return 0;
}

/* --- Another app for a running pod --------------------------------------------------------------------- */

static int refuse_capability(const Pod *p, const PodApp *a, unsigned capability, Error *e)
{
        char name[STAGE1_CAPABILITY_NAME_SIZE] = "a capability";

        (void) stage1_capability_name(capability, name);
        int r = error_set(e, -EPERM, "App %s requires %s, which pod %s does not have", a->name, name,
                          pod_display_name(p));
        return error_hint(
                        e, r,
                        "A pod keeps the capabilities that it was started with: those that it declares, "
                        "or else those of its first apps. Run it again with %s in its --caps-retain=, "
                        "which stands with --exit-policy=never or tasks before the first image, or give the app "
                        "fewer by --caps-remove=.",
                        name);
}

/* The pod's systemd cannot grant capabilities that it does not have, nor can parameters of its namespaces
 * change. */
static int check_within_pod(const Pod *p, const PodApp *a, uint64_t capabilities, Error *e)
{
        uint64_t beyond = stage1_app_capabilities(a->app) & ~capabilities;
        const IsolatorList *l = &a->app->isolators;

        if (beyond > 0)
                return refuse_capability(p, a, (unsigned) __builtin_ctzll(beyond), e);
        for (size_t i = 0; i < l->n; i++)
                if (l->items[i].sysctl.n > 0)
                        return error_set(e, -EOPNOTSUPP,
                                         "App %s is to set the kernel parameter %s, and pod %s, whose "
                                         "parameters are set before its apps start, runs",
                                         a->name, l->items[i].sysctl.items[0].name, pod_display_name(p));
        return 0;
}

static int write_units(Pod *p, const PodApp *a, Error *e)
{
        _cleanup_close_ int root_fd = open_beneath(p->dir_fd, "root", O_RDONLY | O_DIRECTORY);
        const Stage1Options o = stage1_options(p, "");

        if (root_fd < 0)
                return error_set_errno(e, root_fd, "Cannot open the root of pod %s", pod_display_name(p));
        return stage1_write_app(root_fd, a, &o, pod_root_uid(p), e);
}

/* Volumes that the pod had before are not checked again: it can go on without a source that is gone. */
static int check_app(Pod *p, size_t first, size_t first_volume, char ***warnings, Error *e)
{
        int r = pod_volumes_check(p, first_volume, warnings, e);

        if (r >= 0)
                r = stage1_sockets_check(p->manifest, e);
        if (r >= 0)
                r = check_name_files(p, first, warnings, e);
        if (r >= 0)
                r = warn_of_init(p, first, warnings, e);
        if (r >= 0)
                r = pod_isolators_check(p, e);
        return r < 0 || !p->config.strict ? r : pod_require_isolators(p, NULL, false, e);
}

/* What comes after the app's own files, of which all but its units are in one directory. */
static int complete_app(Pod *p, const PodRequest *q, size_t first, size_t first_volume,
                        uint64_t capabilities, char ***warnings, Error *e)
{
        const PodApp *app = p->manifest->apps[first];

        int r = stage1_load_isolator_libraries(&app->app->isolators, e);
        if (r >= 0)
                r = decide_app_privileges(p, q, e);
        if (r >= 0)
                r = confine_nested(p, first_volume, e);
        if (r >= 0)
                r = check_within_pod(p, app, capabilities, e);
        if (r >= 0)
                r = check_users(p, first, first_volume, e);
        if (r >= 0)
                r = check_app(p, first, first_volume, warnings, e);
        if (r >= 0)
                r = pod_volume_quotas_check(p, first_volume, NULL, e);
        if (r >= 0)
                r = pod_warn_isolators(p, q, first, NULL, warnings, e);
        if (r >= 0)
                r = warn_of_grants(p, q, first, warnings, e);
        if (r >= 0)
                r = write_launch_file(p, app, e);
        if (r >= 0 && !q->template)
                r = pod_owner_data_write(p, app, &q->apps[0].owner_data, e);
        return r < 0 ? r : pod_app_definition_write(p, app, q, e);
}

int prepare_app(Pod *p, const PodRequest *q, char **ret_added, char ***warnings, Error *e)
{
        size_t first = p->manifest->n_apps, first_volume = p->manifest->n_volumes;

        int r = stage1_load_libraries(p->manifest, e);
        if (r < 0)
                return r;
        uint64_t capabilities = pod_capabilities(p);
        r = image_policies_check(q, e);
        if (r >= 0)
                r = pod_reify_app(p, q, NULL, warnings, e);
        if (r >= 0)
                r = complete_app(p, q, first, first_volume, capabilities, warnings, e);
        if (r >= 0)
                r = write_units(p, p->manifest->apps[first], e);
        if (r >= 0)
                r = make_volumes(p, 0, e);
        return r < 0 ? r : pod_format_added(p, first, first_volume, ret_added, e);
}

int prepare_replacement(Pod *p, const char *name, const PodRequest *q, char **ret_added, char ***warnings,
                        Error *e)
{
        int r = stage1_load_libraries(p->manifest, e);
        if (r < 0)
                return r;
        uint64_t capabilities = pod_capabilities(p);
        _cleanup_(pod_app_freep) PodApp *old = pod_manifest_take_app(p->manifest, name);
        size_t first = p->manifest->n_apps, first_volume = p->manifest->n_volumes;
        const Stage1Options o = stage1_options(p, "");

        if (!old)
                return error_set(e, -ENOENT, "Pod %s has no app %s", pod_display_name(p), name);
        r = pod_reify_app(p, q, old, warnings, e);
        if (r < 0)
                return r;
        r = complete_app(p, q, first, first_volume, capabilities, warnings, e);
        if (r >= 0)
                r = stage1_check_app(p->manifest->apps[first], &o, e);
        if (r >= 0) /* one that the pod had and that is gone is not made again, empty */
                r = make_volumes(p, first_volume, e);
        return r < 0 ? r : pod_format_added(p, first, first_volume, ret_added, e);
}

int exchange_units(Pod *p, const PodApp *old, const PodApp *new, Error *e)
{
        _cleanup_close_ int root_fd = open_beneath(p->dir_fd, "root", O_RDONLY | O_DIRECTORY);
        const Stage1Options o = stage1_options(p, "");

        if (root_fd < 0)
                return error_set_errno(e, root_fd, "Cannot open the root of pod %s", pod_display_name(p));
        (void) stage1_remove_app(root_fd, old, &o);
        return stage1_write_app(root_fd, new, &o, pod_root_uid(p), e);
}

void discard_app(Pod *p, const PodApp *a)
{
        _cleanup_close_ int root_fd = open_beneath(p->dir_fd, "root", O_RDONLY | O_DIRECTORY);
        const Stage1Options o = stage1_options(p, "");

        if (root_fd >= 0)
                (void) stage1_remove_app(root_fd, a, &o);
}

void sweep_apps(Pod *p)
{
        (void) pod_sweep(p);
        sweep_units(p);
}

void sweep_units(Pod *p)
{
        _cleanup_close_ int root_fd = open_beneath(p->dir_fd, "root", O_RDONLY | O_DIRECTORY);
        const Stage1Options o = stage1_options(p, "");

        if (root_fd >= 0)
                (void) stage1_sweep_units(root_fd, p->manifest, &o);
}
