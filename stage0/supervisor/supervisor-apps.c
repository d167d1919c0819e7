/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Apps that are added to a running pod, and removed from it; for replacing them see supervisor-replace.c.
 *
 * Changes are made one after the other, in the order of the calls. An app is prepared by a child, as that
 * reads images and can take a while: it makes the app's directory and units and returns what it has added to
 * the manifest. Only the supervisor changes the pod: it takes over the result, or, if the child fails or is
 * killed, removes what it has left. The child keeps the store locked against the removal of the image until
 * the manifest that names it is written.
 *
 * The pod's systemd reads the file of a new unit when the unit is first started. So that a later app of the
 * same name does not get the old unit, an app counts as removed once systemd has unloaded its units. */

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stage0/supervisor/app-change.h"
#include "stage0/supervisor/app-limits.h"
#include "stage0/supervisor/task-state.h"

#define PREPARE_USEC (UINT64_C(600) * 1000000)
#define ANSWER_SIZE_MAX (2U * MANIFEST_SIZE_MAX)
#define UNLOAD_USEC UINT64_C(5000)
#define ANSWER_USEC UINT64_C(2000000)
#define UNLOAD_TRIES 2000U                  /* ten seconds: the host may be busy */
#define UNLOAD_ACCURACY_USEC UINT64_C(1000) /* the default of sd-event is 250 ms */

static void begin_next(Supervisor *s);

static AppChange *change_free(AppChange *c)
{
        if (!c)
                return NULL;
        sd_event_source_disable_unref(c->io);
        sd_event_source_disable_unref(c->timer);
        sd_bus_slot_unref(c->slot);
        safe_close(c->sock); /* the child ends */
        if (c->pid > 0)
                (void) waitpid(c->pid, NULL, 0);
        group_done(c);
        json_object_put(c->request);
        strv_free(c->units);
        free(c->name);
        text_done(&c->answer);
        free(c);
        return NULL;
}

bool change_resume(AppChange *c)
{
        c->waits = false;
        if (!c->abandoned)
                return true;
        change_free(c);
        return false;
}

static void on_job(void *userdata, int r, const char *result)
{
        AppChange *c = userdata;

        if (change_resume(c))
                c->job_done(c, r, result);
}

int change_run(AppChange *c, const char *method, const char *unit,
               void (*done)(AppChange *c, int r, const char *result))
{
        ManagerLink *l = c->supervisor->manager;

        c->job_done = done;
        int r = l ? manager_link_run(l, method, unit, on_job, c) : -ENOTCONN;
        c->waits = r >= 0;
        return r;
}

bool change_reaches_manager(AppChange *c, void (*resume)(AppChange *c))
{
        const Supervisor *s = c->supervisor;

        if (s->linked && manager_link_is_open(s->manager))
                return true;
        c->resume = resume;
        return false;
}

void supervisor_resume_changes(Supervisor *s)
{
        AppChange *c = s->changes;
        void (*resume)(AppChange * c) = c ? TAKE_PTR(c->resume) : NULL;

        if (resume)
                resume(c);
}

static void report(AppChange *c, int r, const char *app, char *const *warnings, const Error *e)
{
        if (c->group_function)
                c->group_function(c->userdata, r, r < 0 ? NULL : group_names(c), warnings, e);
        else
                c->function(c->userdata, r, app, warnings, e);
}

void change_finish(AppChange *c, int r, const char *app, char **warnings, Error *e)
{
        Supervisor *s = c->supervisor;

        s->changes = c->next;
        report(c, r, app, warnings, e);
        change_free(c);
        begin_next(s);
}

/* --- The child ----------------------------------------------------------------------------------------- */

static const char *text_of(json_object *o, const char *key)
{
        json_object *v = json_object_object_get(o, key);

        return json_object_is_type(v, json_type_string) ? json_object_get_string(v) : NULL;
}

static int write_answer(int fd, const char *added, char *const *warnings, const Error *e)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        json_object *list = json_object_new_array();
        int r = json_member_add(o, "warnings", list);

        STRV_FOREACH (w, warnings)
                if (r >= 0)
                        r = json_list_append(list, json_object_new_string(*w));
        if (r >= 0 && added)
                r = json_member_add_text(o, "added", added);
        if (r >= 0 && !added)
                r = json_member_add(o, "code", json_object_new_int(e->code));
        if (r >= 0 && !added)
                r = json_member_add_text(o, "message", e->message ?: strerror(-e->code));
        if (r >= 0 && !added && e->hint)
                r = json_member_add_text(o, "hint", e->hint);
        if (r < 0)
                return r;
        const char *text = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN |
                                                                             JSON_C_TO_STRING_NOSLASHESCAPE);
        return text ? loop_write(fd, text, strlen(text)) : -ENOMEM;
}

static int check_data(const CredentialList *l, Error *e)
{
        for (size_t i = 0; i < l->n; i++)
                if (!l->items[i].data)
                        return error_set(e, -EINVAL, "The credential '%s' of the app has no data",
                                         l->items[i].name);
        return 0;
}

static int take_owner_data(const AppChange *c, OwnerData *ret, Error *e)
{
        const char *hex = text_of(c->request, "ownerData");
        size_t size = hex ? strlen(hex) / 2 : 0;
        _cleanup_free_ char *data = hex ? calloc(size + 1, 1) : NULL;

        if (!hex)
                return 0;
        if (!data)
                return error_oom(e);
        if (strlen(hex) % 2 != 0 || hex_decode(hex, size, data) < 0)
                return error_set(e, -EINVAL, "The owner's data of the app are not hexadecimal");
        *ret = (OwnerData){.data = TAKE_PTR(data), .size = size};
        return 0;
}

/* What the definition says without it has to be complete with it. */
static int take_credentials(const AppChange *c, CredentialList *l, Error *e)
{
        int r = interface_read_credentials(json_object_object_get(c->request, "credentials"), l, e);

        return r < 0 ? error_prefix(e, r, "A credential of the app") : check_data(l, e);
}

static int take_parent(const AppChange *c, PodRequest *q, Error *e)
{
        const char *parent = text_of(c->request, "parent");

        if (!parent)
                return 0;
        if (q->n_apps != 1)
                return error_set(e, -EINVAL, "An app of a pod manifest cannot be nested under another one");
        q->apps[0].nested_number = c->nested_number;
        q->apps[0].parent = strdup(parent);
        return q->apps[0].parent ? 0 : error_oom(e);
}

static int prepare_added(const AppChange *c, PodDefinition *d, char **ret, char ***warnings, Error *e)
{
        const char *const ids[] = {text_of(c->request, "imageID")};

        int r = app_request_parse(json_object_object_get(c->request, "definition"), d, e);
        if (r >= 0)
                r = take_credentials(c, &d->request.apps[0].credentials, e);
        if (r >= 0)
                r = take_owner_data(c, &d->request.apps[0].owner_data, e);
        if (r >= 0 && pod_request_separate(&d->request) < 0)
                r = error_oom(e);
        if (r >= 0)
                r = take_parent(c, &d->request, e);
        if (r < 0)
                return r;
        d->request.image_ids = ids[0] ? ids : NULL;
        return prepare_app(c->supervisor->pod, &d->request, ret, warnings, e);
}

/* Without their content the credentials stay with the app: it is known to nobody else any more. */
static int check_place(const AppOverrides *old, const AppOverrides *new, bool credentials, Error *e)
{
        _cleanup_strv_free_ char **keys = NULL;

        if (!streq_ptr(old->name, new->name))
                return error_set(e, -EINVAL, "The definition is not that of app %s", old->name);
        if (app_overrides_compare(old, new, &keys) < 0)
                return error_oom(e);
        if (credentials || !strv_contains(keys, "credentials"))
                return 0;
        return error_set(e, -EINVAL, "The credentials of app %s, which are others, have no data", old->name);
}

static int take_definition(const AppChange *c, json_object *o, PodDefinition *d, Error *e)
{
        bool credentials = json_object_object_get(c->request, "credentials");
        PodDefinition new = {}; /* freed when the process ends */

        if (d->request.template)
                return error_set(e, -EINVAL,
                                 "The pod is made from a pod manifest: of its apps only the image can be "
                                 "replaced");
        int r = app_request_parse(o, &new, e);
        if (r >= 0 && pod_request_separate(&new.request) < 0)
                r = error_oom(e);
        if (r >= 0)
                r = check_place(&d->request.apps[0], &new.request.apps[0], credentials, e);
        if (r >= 0 && credentials)
                r = take_credentials(c, &new.request.apps[0].credentials, e);
        if (r >= 0)
                *d = new;
        return r;
}

static int prepare_replaced(const AppChange *c, PodDefinition *d, char **ret, char ***warnings, Error *e)
{
        Pod *p = c->supervisor->pod;
        const PodApp *app = pod_manifest_find_app(p->manifest, c->name);
        json_object *definition = json_object_object_get(c->request, "definition");
        const char *const ids[] = {text_of(c->request, "imageID")};

        int r = app ? pod_app_definition_read(p, app, d, e) : -ENOENT;
        if (r >= 0 && definition)
                r = take_definition(c, definition, d, e);
        else if (r >= 0 && pod_definition_set_image(d, text_of(c->request, "image") ?: ids[0], ids[0]) < 0)
                r = error_oom(e);
        if (r < 0)
                return r;
        d->request.image_ids = ids;
        return prepare_replacement(p, c->name, &d->request, ret, warnings, e);
}

/* One app after the other. What each of them adds is a text of a JSON list. */
static int prepare_group(const AppChange *c, char **ret, char ***warnings, Error *e)
{
        json_object *apps = json_object_object_get(c->request, "apps");
        _cleanup_json_ json_object *list = json_object_new_array();
        int r = list ? 0 : error_oom(e);

        for (size_t i = 0; r >= 0 && i < json_object_array_length(apps); i++) {
                const AppChange one = {.supervisor = c->supervisor,
                                       .request = json_object_array_get_idx(apps, i),
                                       .nested_number = c->nested_number + i};
                PodDefinition d = {}; /* freed when the process ends */
                _cleanup_free_ char *added = NULL;

                r = prepare_added(&one, &d, &added, warnings, e);
                if (r < 0)
                        return error_prefix(e, r, "App %zu of the group", i + 1);
                if (json_list_append(list, json_object_new_string(added)) < 0)
                        r = error_oom(e);
        }
        if (r < 0)
                return r;
        *ret = strdup(json_object_to_json_string_ext(list,
                                                     JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)
                                      ?: "");
        return *ret ? 0 : error_oom(e);
}

static int prepare(const AppChange *c, char **ret, char ***warnings, Error *e)
{
        PodDefinition d = {}; /* freed when the process ends */

        if (c->group_function)
                return prepare_group(c, ret, warnings, e);
        return c->name ? prepare_replaced(c, &d, ret, warnings, e) : prepare_added(c, &d, ret, warnings, e);
}

static _noreturn_ void child(const AppChange *c, int sock, pid_t parent)
{
        _cleanup_strv_free_ char **warnings = NULL;
        _cleanup_free_ char *added = NULL;
        Error e = ERROR_NULL;
        sigset_t none;
        char byte;

        (void) sigemptyset(&none);
        (void) sigprocmask(SIG_SETMASK, &none, NULL);
        (void) prctl(PR_SET_NAME, "prepare-apps");
        if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
                _exit(1);
        int r = prepare(c, &added, &warnings, &e);
        if (r < 0 && e.code == 0)
                e.code = r;
        r = write_answer(sock, r < 0 ? NULL : added, warnings, &e);
        if (r < 0 || shutdown(sock, SHUT_WR) < 0)
                _exit(1);
        while (read(sock, &byte, 1) < 0 && errno == EINTR) /* until it is taken over */
                ;
        _exit(0);
}

/* --- Adding -------------------------------------------------------------------------------------------- */

void change_forget_instance(Supervisor *s, AppInstance *app)
{
        if (s->manager)
                manager_link_unfollow(s->manager, &app->units[0]);
        readiness_remove_app(app);
        server_remove_app(s->server, app);
        forwarders_remove_app(s->forwarders, app);
        inputs_remove_app(app);
}

static void forget_instance(Supervisor *s, AppInstance *app)
{
        change_forget_instance(s, app);
        pod_mounts_remove_app(s->mounts, app->name);
        tasks_remove(s->pod, app->name);
}

int change_know_instance(Supervisor *s, AppInstance *app, Error *e)
{
        int r = forwarders_add_app(s->forwarders, app, e);

        if (r >= 0)
                r = inputs_add_app(s->inputs, app, e);
        if (r < 0)
                return r;
        r = server_add_app(s->server, app);
        if (r >= 0)
                r = readiness_add_app(s->readiness, app);
        if (r >= 0 && s->manager)
                r = manager_link_follow(s->manager, app->units[0].name, &app->units[0]);
        if (r < 0)
                return error_oom(e);
        app->units[0].known = true; /* it was not started yet */
        return 0;
}

static int know_instance(Supervisor *s, AppInstance *app, Error *e)
{
        int r = change_know_instance(s, app, e);

        return r < 0 ? r : pod_mounts_take_app(s->mounts, app->manifest, app->settings.notify, e);
}

static void drop_volumes(Supervisor *s, char *const *volumes)
{
        STRV_FOREACH (name, volumes)
                pod_drop_volume(s->pod, *name);
}

/* Puts APP, which is in the manifest, into the pod. */
static int adopt(Supervisor *s, PodApp *manifest, char ***volumes, AppInstance **ret, Error *e)
{
        AppInstance *app = NULL;
        int r = app_table_add(s->apps, manifest, &app, e);

        if (r < 0)
                return r;
        app->volumes = TAKE_PTR(*volumes);
        r = know_instance(s, app, e);
        if (r >= 0)
                r = app_sockets_new(s->pod, s->runtime.leader, manifest, NULL, &app->sockets, e);
        if (r >= 0) {
                *ret = app;
                return 0;
        }
        *volumes = TAKE_PTR(app->volumes);
        forget_instance(s, app);
        app_table_remove(s->apps, app);
        return r;
}

int change_take_over(Supervisor *s, const char *text, AppInstance **ret, Error *e)
{
        _cleanup_(pod_manifest_freep) PodManifest *added = NULL;
        _cleanup_strv_free_ char **volumes = NULL;
        PodApp *app = NULL;

        int r = pod_manifest_parse(text, strlen(text), &added, NULL, e);
        if (r >= 0)
                r = pod_merge_added(s->pod, added, &app, &volumes, e);
        if (r < 0)
                return r;
        r = adopt(s, app, &volumes, ret, e);
        if (r >= 0)
                return 0;
        discard_app(s->pod, app);
        (void) pod_manifest_take_app(s->pod->manifest, app->name);
        drop_volumes(s, volumes);
        pod_app_free(app);
        return r;
}

void change_drop(Supervisor *s, AppInstance *app)
{
        _cleanup_strv_free_ char **volumes = TAKE_PTR(app->volumes);
        _cleanup_(pod_app_freep) PodApp *manifest = app->manifest;

        forget_instance(s, app);
        app_table_remove(s->apps, app);
        (void) pod_manifest_take_app(s->pod->manifest, manifest->name);
        change_remove_volumes(s, volumes);
}

static int read_warnings(json_object *o, char ***ret)
{
        json_object *list = json_object_object_get(o, "warnings");
        int r = 0;

        for (size_t i = 0; r >= 0 && list && i < json_object_array_length(list); i++)
                r = strv_extend(ret, json_object_get_string(json_object_array_get_idx(list, i)));
        return r;
}

/* Converts the child's failure into an error. */
static int read_refusal(json_object *o, Error *e)
{
        const char *message = text_of(o, "message"), *hint = text_of(o, "hint");
        int code = json_object_get_int(json_object_object_get(o, "code"));

        code = error_set(e, code < 0 ? code : -EIO, "%s", message ?: "The app cannot be prepared");
        return hint ? error_hint(e, code, "%s", hint) : code;
}

int change_read_answer(const AppChange *c, char **ret_added, char ***warnings, Error *e)
{
        _cleanup_json_ json_object *o = NULL;

        int r = c->answer.failed || c->answer.size == 0
                                ? -ECHILD
                                : json_parse_strict(c->answer.data, c->answer.size, &o, NULL, NULL);
        const char *added = r >= 0 ? text_of(o, "added") : NULL;
        if (r < 0) {
                r = error_set(e, -ECHILD, "The process that prepares the app%s was killed, or took too long",
                              c->group_function ? "s of the group" : "");
                return error_hint(e, r, "Nothing of it is kept. Try it again when the host is less busy.");
        }
        if (!added)
                return read_refusal(o, e);
        *ret_added = strdup(added);
        return *ret_added && read_warnings(o, warnings) >= 0 ? 0 : error_oom(e);
}

/* The first app that shares its pid namespace needs process 1 of that, which takes as long to start as an app does: it is started when the app
 * was added, and not only with it. */
static void start_processes(Supervisor *s, const AppInstance *app)
{
        if (s->has_processes || app->settings.pid.mode != PID_SHARED || !s->manager || s->ends)
                return;
        s->has_processes = manager_link_run(s->manager, "StartUnit", LAUNCH_PROCESSES_UNIT, NULL, NULL) >= 0;
}

static void conclude_adding(AppChange *c)
{
        _cleanup_strv_free_ char **warnings = NULL;
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_free_ char *added = NULL;
        Supervisor *s = c->supervisor;
        AppInstance *app = NULL;

        int r = change_read_answer(c, &added, &warnings, &e);
        if (r >= 0)
                r = change_take_over(s, added, &app, &e);
        if (r >= 0) {
                r = pod_update_manifest(s->pod, &e);
                if (r < 0) {
                        discard_app(s->pod, app->manifest);
                        change_drop(s, app);
                        app = NULL;
                }
        }
        if (r < 0)
                sweep_apps(s->pod);
        if (app) {
                supervisor_listen(s, app);
                interface_changed(s->interface, app);
                start_processes(s, app);
        }
        change_finish(c, r, app ? app_instance_path(app) : NULL, warnings, &e);
}

static int on_answer(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        static char chunk[65536];
        AppChange *c = userdata;

        ssize_t n = read(fd, chunk, sizeof(chunk));
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n > 0 && c->answer.size <= ANSWER_SIZE_MAX) {
                text_add_bytes(&c->answer, chunk, (size_t) n);
                return 0;
        }
        c->io = sd_event_source_disable_unref(c->io);
        c->timer = sd_event_source_disable_unref(c->timer);
        if (c->group_function)
                group_prepared(c);
        else if (c->name)
                replace_prepared(c);
        else
                conclude_adding(c);
        return 0;
}

static int on_slow(sd_event_source *source, uint64_t usec, void *userdata)
{
        AppChange *c = userdata;

        (void) kill(c->pid, SIGKILL);
        return 0;
}

int change_prepare(AppChange *c)
{
        pid_t parent = getpid();
        int fds[2];

        cgroup_moves_expect(c->supervisor->moves, MOVES_OF_START_USEC);
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
                return -errno;
        c->pid = fork();
        if (c->pid == 0) {
                (void) close(fds[0]);
                child(c, fds[1], parent);
        }
        int r = c->pid < 0 ? -errno : 0;
        safe_close(fds[1]);
        c->sock = fds[0];
        if (r < 0)
                return r;
        if (fcntl(c->sock, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
                return -errno;
        r = sd_event_add_io(c->supervisor->event, &c->io, c->sock, EPOLLIN, on_answer, c);
        return r < 0 ? r
                     : sd_event_add_time_relative(c->supervisor->event, &c->timer, CLOCK_MONOTONIC,
                                                  PREPARE_USEC, 0, on_slow, c);
}

/* --- Removing ------------------------------------------------------------------------------------------ */

/* The directory is renamed first: removing its content may take long. */
void change_remove_directory(Supervisor *s, const char *place, const char *name)
{
        _cleanup_close_ int from = openat(s->pod->dir_fd, place,
                                          O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
                            to = openat(s->pod->dir_fd, "apps",
                                        O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        char removed[40];

        snprintf(removed, sizeof(removed), ".removed-%" PRIu64, ++s->n_removed);
        if (from >= 0 && to >= 0 && renameat(from, name, to, removed) >= 0)
                server_remove_tree(s->server, to, removed);
}

static AppInstance *find_user(const Supervisor *s, const char *volume)
{
        FOREACH_APP(app, s->apps)
        for (size_t i = 0; i < app->manifest->n_mounts; i++)
                if (streq_ptr(app->manifest->mounts[i].volume, volume))
                        return app;
        return NULL;
}

/* A volume that another app mounts goes with that one. */
static void remove_volume(Supervisor *s, const char *name)
{
        AppInstance *user = find_user(s, name);

        if (user) {
                (void) strv_extend(&user->volumes, name);
                return;
        }
        pod_drop_volume(s->pod, name);
        if (pod_manifest_find_volume(s->pod->manifest, name))
                return;
        pod_mounts_forget_volume(s->mounts, name);
        change_remove_directory(s, "volumes", name);
}

void change_remove_volumes(Supervisor *s, char *const *volumes)
{
        STRV_FOREACH (name, volumes)
                remove_volume(s, *name);
}

/* What is nested under an app that is removed goes first. */
AppInstance *change_instance(const AppChange *c)
{
        AppTable *apps = c->supervisor->apps;
        AppInstance *below = c->request ? NULL : app_table_last_below(apps, c->name);

        return below ?: app_table_find(apps, c->name);
}

static void begin_removing(AppChange *c);

static void conclude_removing(AppChange *c, AppInstance *app)
{
        _cleanup_strv_free_ char **volumes = TAKE_PTR(app->volumes);
        _cleanup_(pod_app_freep) PodApp *manifest = app->manifest;
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_free_ char *files = NULL;
        Supervisor *s = c->supervisor;

        bool ordered = app->settings.after && *app->settings.after;
        (void) pod_app_path(s->pod, manifest, NULL, &files);
        app->removed = true;
        interface_changed(s->interface, app);
        forget_instance(s, app);
        app_table_remove(s->apps, app);
        (void) pod_manifest_take_app(s->pod->manifest, manifest->name);
        if (ordered)
                sweep_units(s->pod);
        change_remove_volumes(s, volumes);
        int r = pod_update_manifest(s->pod, &e);
        (void) app_sockets_record(s->apps, NULL);
        change_remove_directory(s, "credentials", files ? files + strlen("apps/") : manifest->name);
        change_remove_directory(s, "apps", files ? files + strlen("apps/") : manifest->name);
        if (r >= 0 && app_table_find(s->apps, c->name)) {
                begin_removing(c);
                return;
        }
        change_finish(c, r, NULL, NULL, &e);
        supervisor_judge(s); /* what has listened may have kept the pod up */
}

/* --- Unloading units ----------------------------------------------------------------------------------- */

static int ask_whether_loaded(AppChange *c);

static void end_unloading(AppChange *c, bool done)
{
        c->timer = sd_event_source_disable_unref(c->timer);
        c->slot = sd_bus_slot_unref(c->slot);
        c->units = strv_free(c->units);
        c->unloaded(c, done);
}

static int on_ask_again(sd_event_source *source, uint64_t usec, void *userdata)
{
        AppChange *c = userdata;

        if (++c->tries > UNLOAD_TRIES || ask_whether_loaded(c) < 0)
                end_unloading(c, false);
        return 0;
}

static int ask_later(AppChange *c, uint64_t usec)
{
        c->timer = sd_event_source_disable_unref(c->timer);
        return sd_event_add_time_relative(c->supervisor->event, &c->timer, CLOCK_MONOTONIC, usec,
                                          UNLOAD_ACCURACY_USEC, on_ask_again, c);
}

/* The last one of the list is checked first. */
static char **current_unit(const AppChange *c)
{
        size_t n = strv_length(c->units);

        return n > 0 ? &c->units[n - 1] : NULL;
}

static int on_loaded(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
        AppChange *c = userdata;
        char **unit = current_unit(c);

        if (sd_bus_message_get_error(m) && !manager_link_is_open(c->supervisor->manager))
                end_unloading(c, false);
        else if (sd_bus_message_get_error(m) && unit) {
                *unit = (free(*unit), NULL);
                unit = current_unit(c);
                if (!unit)
                        end_unloading(c, true);
                else if (ask_whether_loaded(c) < 0)
                        end_unloading(c, false);
        } else if (ask_later(c, UNLOAD_USEC) < 0)
                end_unloading(c, false);
        return 0;
}

/* There is no reply if the connection is made again. */
static int ask_whether_loaded(AppChange *c)
{
        ManagerLink *l = c->supervisor->manager;

        c->slot = sd_bus_slot_unref(c->slot);
        int r = ask_later(c, ANSWER_USEC);
        if (r < 0)
                return r;
        return l ? manager_link_is_loaded(l, *current_unit(c), on_loaded, c, &c->slot) : -ENOTCONN;
}

static void on_target_stopped(AppChange *c, int r, const char *result)
{
        c->supervisor->target_released = r >= 0;
        if (r == -ECONNRESET || ask_whether_loaded(c) < 0)
                end_unloading(c, false);
}

/* The target that has started the pod wants the units of the apps that it was prepared with, and keeps them
 * loaded as long as it is active. Once the pod is up, nothing depends on it. */
static int release_target(AppChange *c)
{
        Supervisor *s = c->supervisor;

        if (!s->manager || s->target_released)
                return ask_whether_loaded(c);
        return change_run(c, "StopUnit", "default.target", on_target_stopped);
}

/* Slices stay active after their units have ended. */
static void on_slice_stopped(AppChange *c, int r, const char *result)
{
        if (r == -ECONNRESET || release_target(c) < 0)
                end_unloading(c, false);
}

/* The slice comes first in the list, so it is unloaded after the units in it. */
static int list_units(const AppInstance *app, char ***ret)
{
        char *slice = NULL;

        int r = stage1_app_slice_name(app->name, &slice);
        if (r >= 0)
                r = strv_consume(ret, slice);
        if (r >= 0 && app->settings.health.command)
                r = strv_extendf(ret, "health-%s.timer", app->name);
        if (r >= 0 && app->settings.health.command)
                r = strv_extendf(ret, "health-%s.service", app->name);
        return r < 0 ? r : strv_extend(ret, app->units[0].name);
}

int change_unload(AppChange *c, const AppInstance *app, void (*then)(AppChange *c, bool done))
{
        ManagerLink *l = c->supervisor->manager;

        c->unloaded = then;
        c->tries = 0;
        c->units = strv_free(c->units);
        if (list_units(app, &c->units) < 0)
                return -ENOMEM;
        if (!l)
                return -ENOTCONN;
        for (char **unit = c->units + 1; *unit; unit++)
                (void) manager_link_reset(l, *unit);
        return change_run(c, "StopUnit", c->units[0], on_slice_stopped);
}

/* --- The removal --------------------------------------------------------------------------------------- */

static void on_unloaded(AppChange *c, bool done)
{
        conclude_removing(c, change_instance(c));
}

static bool is_up(const AppInstance *app)
{
        return app->units[0].life == UNIT_UP || app->n_jobs > 0 || app->waking;
}

static void refuse_removing(AppChange *c, AppInstance *app, int code, const char *why)
{
        _cleanup_error_ Error e = ERROR_NULL;
        Supervisor *s = c->supervisor;

        int r = error_set(&e, code, "App %s %s", app_instance_path(app), why);
        if (code != -EBUSY)
                (void) error_hint(&e, r, "Try it again; 'acnspawn stop %s' ends the app with the pod.",
                                  pod_display_name(s->pod));
        change_finish(c, r, app_instance_path(app), NULL, &e);
        if (app_table_has(s->apps, app)) /* the next change may have been its removal */
                supervisor_listen(s, app);
}

/* First its sockets: what connects from now on is refused. */
static void remove_app(AppChange *c, AppInstance *app)
{
        app->removing = true;
        app->sockets = app_sockets_free(app->sockets);
        interface_changed(c->supervisor->interface, app);
        discard_app(c->supervisor->pod, app->manifest);
        if (change_unload(c, app, on_unloaded) < 0)
                conclude_removing(c, app);
}

/* One of the apps to be removed that is up; the app itself before those that are nested under it. */
static AppInstance *find_up(const AppChange *c)
{
        FOREACH_APP(app, c->supervisor->apps)
        if ((streq(app->name, c->name) || nested_is_below(app->name, c->name)) && is_up(app))
                return app;
        return NULL;
}

static void on_app_stopped(AppChange *c, int r, const char *result);

static void on_calls_answered(void *userdata, int r, uint32_t number)
{
        AppChange *c = userdata;

        if (change_resume(c))
                on_app_stopped(c, r == -ECONNRESET ? r : 0, "done");
}

/* Other calls may have asked for the stop as well, and not be answered yet. What systemd replies to them comes before its
 * reply to this. */
static bool await_calls(AppChange *c, const AppInstance *app)
{
        ManagerLink *l = c->supervisor->manager;

        if (app->n_jobs == 0 || !l ||
            manager_link_main_process(l, app->units[0].name, on_calls_answered, c) < 0)
                return false;
        c->waits = true;
        return true;
}

/* When the connection to the pod's systemd was lost, systemd is asked again over the next one. */
static void on_app_stopped(AppChange *c, int r, const char *result)
{
        AppInstance *app = c->stopping;

        if (r >= 0 && await_calls(c, app))
                return;
        c->timer = sd_event_source_disable_unref(c->timer);
        bool stopped = r >= 0 && !is_up(app);
        if (!stopped && !change_reaches_manager(c, begin_removing))
                return;
        if (!stopped && r != -ECONNRESET)
                refuse_removing(c, app, r < 0 ? r : -EIO, "could not be stopped");
        else
                begin_removing(c);
}

static int on_kill(sd_event_source *source, uint64_t usec, void *userdata)
{
        AppChange *c = userdata;

        FOREACH_APP(app, c->supervisor->apps)
        if (c->supervisor->manager && is_up(app) &&
            (app == c->stopping || nested_is_below(app->name, c->stopping->name)))
                (void) manager_link_kill(c->supervisor->manager, app->units[0].name, true, SIGKILL);
        return 0;
}

/* Connections and calls do not start it any more meanwhile. */
static void stop_for_removal(AppChange *c, AppInstance *app)
{
        int r = c->kill_usec == UINT64_MAX
                                ? 0
                                : sd_event_add_time_relative(c->supervisor->event, &c->timer,
                                                             CLOCK_MONOTONIC, c->kill_usec, 0, on_kill, c);

        c->stopping = app;
        app->stopped = STOP_REQUESTED;
        supervisor_end_below(c->supervisor, app);
        if (r >= 0)
                r = change_run(c, "StopUnit", app->units[0].name, on_app_stopped);
        if (r < 0 && c->supervisor->manager && !change_reaches_manager(c, begin_removing))
                c->timer = sd_event_source_disable_unref(c->timer);
        else if (r < 0)
                refuse_removing(c, app, r, "cannot be stopped");
}

static void begin_removing(AppChange *c)
{
        AppInstance *app = change_instance(c), *up = find_up(c);
        _cleanup_error_ Error e = ERROR_NULL;

        if (!app)
                change_finish(c, 0, NULL, NULL, &e);
        else if (!up)
                remove_app(c, app);
        else if (c->stops)
                stop_for_removal(c, up);
        else
                refuse_removing(c, up, -EBUSY, "is to be stopped first");
}

bool supervisor_removes_app(const Supervisor *s, const AppInstance *app)
{
        const AppChange *c = s->changes;

        return app->removing ||
               (c && !c->request && (streq_ptr(c->name, app->name) || nested_is_below(app->name, c->name)));
}

/* --- The queue ----------------------------------------------------------------------------------------- */

static void begin_adding(AppChange *c)
{
        _cleanup_error_ Error e = ERROR_NULL;
        int r = change_prepare(c);

        if (r < 0)
                change_finish(c, error_set_errno(&e, r, "Cannot start a process that prepares the app"),
                              NULL, NULL, &e);
}

static void begin_next(Supervisor *s)
{
        AppChange *c = s->changes;

        if (!c)
                return;
        if (c->request && c->name)
                replace_begin(c);
        else if (c->request)
                begin_adding(c);
        else
                begin_removing(c);
}

/* Takes over REQUEST and the texts. */
static int enqueue(Supervisor *s, AppChange change)
{
        AppChange *c = malloc(sizeof(AppChange)), **last = &s->changes;

        if (!c)
                return -ENOMEM;
        *c = change;
        c->supervisor = s;
        c->sock = -EBADF;
        while (*last)
                last = &(*last)->next;
        *last = c;
        if (s->changes == c)
                begin_next(s);
        return 0;
}

int supervisor_add_app(Supervisor *s, json_object *request, AppChangeFunction function, void *userdata)
{
        json_object *kept = json_object_get(request);
        int r = enqueue(s, (AppChange){.request = kept,
                                       .nested_number = ++s->n_nested,
                                       .function = function,
                                       .userdata = userdata});

        if (r < 0)
                json_object_put(kept);
        return r;
}

int supervisor_launch_group(Supervisor *s, json_object *request, GroupFunction function, void *userdata)
{
        json_object *kept = json_object_get(request);
        uint64_t number = s->n_nested + 1;

        s->n_nested += json_object_array_length(json_object_object_get(request, "apps"));
        int r = enqueue(s, (AppChange){.request = kept,
                                       .nested_number = number,
                                       .group_function = function,
                                       .userdata = userdata});

        if (r < 0)
                json_object_put(kept);
        return r;
}

/* The name of the app that a request names, perhaps by its path. */
static char *copy_name(const Supervisor *s, json_object *request)
{
        const char *name = text_of(request, "app") ?: "";
        const AppInstance *app = app_table_find(s->apps, name);

        return strdup(app ? app->name : name);
}

int supervisor_remove_app(Supervisor *s, json_object *request, AppChangeFunction function, void *userdata)
{
        json_object *timeout = json_object_object_get(request, "timeoutUSec");
        char *name = copy_name(s, request);

        int r = !name ? -ENOMEM
                      : enqueue(s,
                                (AppChange){.name = name,
                                            .stops = json_object_get_boolean(
                                                            json_object_object_get(request, "stop")),
                                            .kill_usec = timeout ? (uint64_t) json_object_get_int64(timeout)
                                                                 : UINT64_MAX,
                                            .function = function,
                                            .userdata = userdata});
        if (r < 0)
                free(name);
        return r;
}

int supervisor_replace_app(Supervisor *s, json_object *request, AppChangeFunction function, void *userdata)
{
        char *name = copy_name(s, request);
        json_object *kept = json_object_get(request);
        int r = !name ? -ENOMEM
                      : enqueue(s, (AppChange){.request = kept,
                                               .name = name,
                                               .function = function,
                                               .userdata = userdata});

        if (r < 0) {
                json_object_put(kept);
                free(name);
        }
        return r;
}

void supervisor_end_changes(Supervisor *s)
{
        for (AppChange *c; (c = s->changes);) {
                _cleanup_error_ Error e = ERROR_NULL;
                s->changes = c->next;
                if (c->pid > 0)
                        (void) kill(c->pid, SIGKILL);
                replace_abandon(c);
                (void) error_set(&e, -ESHUTDOWN, "The pod ends");
                report(c, -ESHUTDOWN, NULL, NULL, &e);
                c->abandoned = true;
                c->timer = sd_event_source_disable_unref(c->timer);
                c->slot = sd_bus_slot_unref(c->slot);
                if (!c->waits)
                        change_free(c);
        }
}
