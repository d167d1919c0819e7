/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Apps that are added to a pod that runs, and removed from it.
 *
 * One change is made after the other, in the order of the calls. An app is prepared by a child, as that reads images
 * and can take a while: it makes the app's directory and units and hands over what it has added to the manifest. Only
 * the supervisor changes the pod: it takes that over, or, if the child fails or is killed, removes what it has left.
 * The child keeps the store locked against the removal of the image until the manifest that names it is written.
 *
 * The pod's systemd reads the file of a new unit when the unit is first started. So that a later app of the same name
 * does not get the old unit, an app counts as removed once systemd has unloaded its units.
 */

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stage0/run/supervisor-internal.h"

#define PREPARE_USEC (UINT64_C(600) * 1000000)
#define ANSWER_SIZE_MAX (2U * MANIFEST_SIZE_MAX)
#define UNLOAD_USEC UINT64_C(5000)
#define ANSWER_USEC UINT64_C(2000000)
#define UNLOAD_TRIES 400U

struct AppChange {
        AppChange *next;
        Supervisor *supervisor;
        json_object *request; /* of an app to be added, as AddApp() has it; NULL: one is removed */
        char *name;           /* of an app to be removed */
        AppChangeFunction function;
        void *userdata;
        /* while it is made */
        pid_t pid;
        int sock;
        sd_event_source *io, *timer;
        Text answer;
        sd_bus_slot *slot;
        unsigned tries; /* how often systemd was asked whether the unit is loaded */
};

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
        json_object_put(c->request);
        free(c->name);
        text_done(&c->answer);
        free(c);
        return NULL;
}

/* The first of the queue is over. E is what has failed, or has no message. */
static void finish(AppChange *c, int r, const char *app, char **warnings, Error *e)
{
        Supervisor *s = c->supervisor;

        s->changes = c->next;
        c->function(c->userdata, r, app, warnings, e);
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

static int add_credential(json_object *o, CredentialList *l, Error *e)
{
        const char *name = text_of(o, "name"), *hex = text_of(o, "data");
        size_t size = hex ? strlen(hex) / 2 : 0;
        _cleanup_free_ char *data = calloc(size + 1, 1);

        if (!data)
                return error_oom(e);
        if (!name || !hex || strlen(hex) % 2 != 0 || hex_decode(hex, size, data) < 0)
                return error_set(e, -EINVAL, "A credential of the app is not a name with hexadecimal data");
        int r = credential_list_add(l, name, data, size, e);
        explicit_bzero(data, size);
        return r < 0 ? error_prefix(e, r, "A credential of the app") : 0;
}

static int prepare(const AppChange *c, char **ret, char ***warnings, Error *e)
{
        json_object *credentials = json_object_object_get(c->request, "credentials");
        const char *const ids[] = {text_of(c->request, "imageID")};
        PodDefinition d = {};

        int r = app_request_parse(json_object_object_get(c->request, "definition"), &d, e);
        for (size_t i = 0; r >= 0 && credentials && i < json_object_array_length(credentials); i++)
                r = add_credential(json_object_array_get_idx(credentials, i), &d.request.apps[0].credentials,
                                   e);
        if (r < 0)
                return r;
        d.request.image_ids = ids[0] ? ids : NULL;
        return prepare_app(c->supervisor->pod, &d.request, ret, warnings, e);
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

/* All but the units, which the pod's systemd is told of when they are started. */
static void forget_instance(Supervisor *s, AppInstance *app)
{
        for (size_t i = 0; s->manager && i < app->n_units; i++)
                manager_link_unfollow(s->manager, &app->units[i]);
        readiness_remove_app(app);
        server_remove_app(s->server, app);
        pumps_remove_app(s->pumps, app);
        inputs_remove_app(app);
        pod_mounts_remove_app(s->mounts, app->name);
}

static int know_instance(Supervisor *s, AppInstance *app, Error *e)
{
        int r = pumps_add_app(s->pumps, app, e);

        if (r >= 0)
                r = inputs_add_app(s->inputs, app, e);
        if (r < 0)
                return r;
        r = server_add_app(s->server, app);
        if (r >= 0)
                r = readiness_add_app(s->readiness, app);
        for (size_t i = 0; r >= 0 && s->manager && i < app->n_units; i++)
                r = manager_link_follow(s->manager, app->units[i].name, &app->units[i]);
        if (r < 0)
                return error_oom(e);
        for (size_t i = 0; i < app->n_units; i++)
                app->units[i].known = true; /* it was not started yet */
        return pod_mounts_take_app(s->mounts, app->manifest, app->settings.notify, e);
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
                r = pod_update_manifest(s->pod, e);
        if (r >= 0) {
                *ret = app;
                return 0;
        }
        *volumes = TAKE_PTR(app->volumes);
        forget_instance(s, app);
        app_table_remove(s->apps, app);
        return r;
}

static int take_over(Supervisor *s, const char *text, AppInstance **ret, Error *e)
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

static int read_warnings(json_object *o, char ***ret)
{
        json_object *list = json_object_object_get(o, "warnings");
        int r = 0;

        for (size_t i = 0; r >= 0 && list && i < json_object_array_length(list); i++)
                r = strv_extend(ret, json_object_get_string(json_object_array_get_idx(list, i)));
        return r;
}

/* What the child has answered, as an error of ours. */
static int read_refusal(json_object *o, Error *e)
{
        const char *message = text_of(o, "message"), *hint = text_of(o, "hint");
        int code = json_object_get_int(json_object_object_get(o, "code"));

        code = error_set(e, code < 0 ? code : -EIO, "%s", message ?: "The app cannot be prepared");
        return hint ? error_hint(e, code, "%s", hint) : code;
}

static void conclude_adding(AppChange *c)
{
        _cleanup_strv_free_ char **warnings = NULL;
        _cleanup_json_ json_object *o = NULL;
        _cleanup_error_ Error e = ERROR_NULL;
        Supervisor *s = c->supervisor;
        AppInstance *app = NULL;

        int r = c->answer.failed || c->answer.size == 0
                                ? -ECHILD
                                : json_parse_strict(c->answer.data, c->answer.size, &o, NULL, NULL);
        const char *added = r >= 0 ? text_of(o, "added") : NULL;
        if (r < 0)
                r = error_set(&e, -ECHILD, "The process that prepares the app was killed, or took too long");
        else
                r = added ? take_over(s, added, &app, &e) : read_refusal(o, &e);
        if (r >= 0)
                (void) read_warnings(o, &warnings);
        else
                sweep_apps(s->pod);
        if (app)
                interface_changed(s->interface, app);
        finish(c, r, app ? app->name : NULL, warnings, &e);
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
        conclude_adding(c);
        return 0;
}

static int on_slow(sd_event_source *source, uint64_t usec, void *userdata)
{
        AppChange *c = userdata;

        (void) kill(c->pid, SIGKILL);
        return 0;
}

static int start_child(AppChange *c)
{
        pid_t parent = getpid();
        int fds[2];

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

/* The directory is moved out of the way: what is in it may take long to remove. */
static void remove_directory(Supervisor *s, const char *place, const char *name)
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

static void remove_volumes(Supervisor *s, char *const *volumes)
{
        STRV_FOREACH (name, volumes) {
                pod_drop_volume(s->pod, *name);
                if (!pod_manifest_find_volume(s->pod->manifest, *name))
                        remove_directory(s, "volumes", *name);
        }
}

static AppInstance *instance_of(const AppChange *c)
{
        return app_table_find(c->supervisor->apps, c->name);
}

static void conclude_removing(AppChange *c, AppInstance *app)
{
        _cleanup_strv_free_ char **volumes = TAKE_PTR(app->volumes);
        _cleanup_(pod_app_freep) PodApp *manifest = app->manifest;
        _cleanup_error_ Error e = ERROR_NULL;
        Supervisor *s = c->supervisor;

        app->removed = true;
        interface_changed(s->interface, app);
        forget_instance(s, app);
        app_table_remove(s->apps, app);
        (void) pod_manifest_take_app(s->pod->manifest, manifest->name);
        remove_volumes(s, volumes);
        int r = pod_update_manifest(s->pod, &e);
        remove_directory(s, "credentials", manifest->name);
        remove_directory(s, "apps", manifest->name);
        finish(c, r, NULL, NULL, &e);
}

static int ask_whether_loaded(AppChange *c);

static int on_ask_again(sd_event_source *source, uint64_t usec, void *userdata)
{
        AppChange *c = userdata;

        if (++c->tries > UNLOAD_TRIES || ask_whether_loaded(c) < 0)
                conclude_removing(c, instance_of(c));
        return 0;
}

static int ask_later(AppChange *c, uint64_t usec)
{
        c->timer = sd_event_source_disable_unref(c->timer);
        return sd_event_add_time_relative(c->supervisor->event, &c->timer, CLOCK_MONOTONIC, usec, 0,
                                          on_ask_again, c);
}

static int on_loaded(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
        AppChange *c = userdata;

        if (sd_bus_message_get_error(m) || ask_later(c, UNLOAD_USEC) < 0)
                conclude_removing(c, instance_of(c));
        return 0;
}

/* There is no answer if the connection has to be made again. */
static int ask_whether_loaded(AppChange *c)
{
        ManagerLink *l = c->supervisor->manager;

        c->slot = sd_bus_slot_unref(c->slot);
        int r = ask_later(c, ANSWER_USEC);
        if (r < 0)
                return r;
        return l ? manager_link_is_loaded(l, instance_of(c)->units[0].name, on_loaded, c, &c->slot)
                 : -ENOTCONN;
}

/* Slices stay up without what was in them. */
static void on_slice_stopped(void *userdata, int r, const char *result)
{
        AppChange *c = userdata;

        if (r == -ECONNRESET || ask_whether_loaded(c) < 0)
                conclude_removing(c, instance_of(c));
}

static void begin_removing(AppChange *c)
{
        AppInstance *app = instance_of(c);
        ManagerLink *l = c->supervisor->manager;
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_free_ char *slice = NULL;

        if (!app) {
                finish(c, 0, NULL, NULL, &e);
                return;
        }
        if (app->units[0].life == UNIT_UP || app->n_jobs > 0) {
                int r = error_set(&e, -EBUSY, "App %s is to be stopped first", app->name);
                finish(c, r, app->name, NULL, &e);
                return;
        }
        app->removing = true;
        discard_app(c->supervisor->pod, app->manifest);
        if (l)
                (void) manager_link_reset(l, app->units[0].name);
        if (!l || stage1_app_slice_name(app->name, &slice) < 0 ||
            manager_link_run(l, "StopUnit", slice, on_slice_stopped, c) < 0)
                conclude_removing(c, app);
}

/* --- The queue ----------------------------------------------------------------------------------------- */

static void begin_adding(AppChange *c)
{
        _cleanup_error_ Error e = ERROR_NULL;
        int r = start_child(c);

        if (r < 0)
                finish(c, error_set_errno(&e, r, "Cannot start a process that prepares the app"), NULL, NULL,
                       &e);
}

static void begin_next(Supervisor *s)
{
        AppChange *c = s->changes;

        if (!c)
                return;
        if (c->request)
                begin_adding(c);
        else
                begin_removing(c);
}

/* Takes REQUEST and the texts. */
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
        int r = enqueue(s, (AppChange){.request = kept, .function = function, .userdata = userdata});

        if (r < 0)
                json_object_put(kept);
        return r;
}

int supervisor_remove_app(Supervisor *s, const char *name, AppChangeFunction function, void *userdata)
{
        char *copy = strdup(name);
        int r = copy ? enqueue(s, (AppChange){.name = copy, .function = function, .userdata = userdata})
                     : -ENOMEM;

        if (r < 0)
                free(copy);
        return r;
}

void supervisor_end_changes(Supervisor *s)
{
        for (AppChange *c; (c = s->changes);) {
                _cleanup_error_ Error e = ERROR_NULL;
                s->changes = c->next;
                if (c->pid > 0)
                        (void) kill(c->pid, SIGKILL);
                (void) error_set(&e, -ESHUTDOWN, "The pod ends");
                c->function(c->userdata, -ESHUTDOWN, NULL, NULL, &e);
                change_free(c);
        }
}
