/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* ContainerStatus. The states come from the supervisor; once the pod has ended, from its records. */

#include <signal.h>

#include "cri/sandbox.h"
#include "cri/statistics/usage.h"
#include "schema/settings.h"
#include "stage0/control/control.h"

#define NSEC_PER_USEC 1000
#define EXIT_UNKNOWN 255

/* How an app is. */
typedef struct State {
        Runtime__V1__ContainerState state;
        uint64_t started_usec, ended_usec;
        int exit_code;
        const char *cause;
        char *message; /* belongs to the memory of the call */
} State;

/* --- States -------------------------------------------------------------------------------------------- */

static const Runtime__V1__ContainerState states[_ACN_APP_STATE_MAX] = {
                [ACN_APP_CREATED] = RUNTIME__V1__CONTAINER_STATE__CONTAINER_CREATED,
                [ACN_APP_STARTING] = RUNTIME__V1__CONTAINER_STATE__CONTAINER_RUNNING,
                [ACN_APP_RUNNING] = RUNTIME__V1__CONTAINER_STATE__CONTAINER_RUNNING,
                [ACN_APP_STOPPING] = RUNTIME__V1__CONTAINER_STATE__CONTAINER_RUNNING,
                [ACN_APP_EXITED] = RUNTIME__V1__CONTAINER_STATE__CONTAINER_EXITED,
                [ACN_APP_REMOVING] = RUNTIME__V1__CONTAINER_STATE__CONTAINER_EXITED,
                [ACN_APP_REMOVED] = RUNTIME__V1__CONTAINER_STATE__CONTAINER_UNKNOWN,
};

static State state_from_app(CriJob *j, const AcnApp *a)
{
        return (State){.state = states[a->state],
                       .started_usec = a->started_usec,
                       .ended_usec = a->ended_usec,
                       .exit_code = a->exit_code,
                       .cause = a->cause ? cri_strdup(&j->memory, a->cause) : NULL,
                       .message = a->message ? cri_strdup(&j->memory, a->message) : NULL};
}

static State state_from_record(CriJob *j, const AppStatus *s)
{
        int code = app_status_to_exit_code(s);

        return (State){.state = RUNTIME__V1__CONTAINER_STATE__CONTAINER_EXITED,
                       .started_usec = s->started_usec,
                       .ended_usec = s->ended_usec,
                       .exit_code = code < 0 ? EXIT_UNKNOWN : code,
                       .cause = app_cause_to_string(s->cause),
                       .message = s->message ? cri_strdup(&j->memory, s->message) : NULL};
}

static int ask_states(CriJob *j, const Sandbox *s, State *l, Error *e)
{
        _cleanup_(acn_disconnectp) AcnPod *a = NULL;
        _cleanup_(acn_description_done) AcnDescription d = {};
        const PodManifest *m = s->pod->manifest;

        int r = acn_connect(s->pod, &a, e);
        if (r >= 0)
                r = acn_describe(a, &d, e);
        for (size_t i = 0; r >= 0 && i < m->n_apps; i++) {
                l[i].state = RUNTIME__V1__CONTAINER_STATE__CONTAINER_UNKNOWN;
                for (size_t k = 0; k < d.n_apps; k++)
                        if (streq(d.apps[k].name, m->apps[i]->name))
                                l[i] = state_from_app(j, &d.apps[k]);
        }
        return r;
}

/* The states of the apps of S, in the order of its manifest: from the supervisor, or, once the pod has ended, from the
 * records of the apps. */
static int read_states(CriJob *j, Sandbox *s, State *l, Error *e)
{
        const PodManifest *m = s->pod->manifest;
        AppStatus *records = NULL;
        int r = 0;

        if (sandbox_is_ready(s)) {
                r = ask_states(j, s, l, e);
                if (r >= 0 || !sandbox_has_ended(s, r))
                        return r;
                error_done(e);
        }
        r = pod_read_statuses(s->pod, true, &records);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read the records of sandbox %s", s->id);
        for (size_t i = 0; i < m->n_apps; i++)
                l[i] = state_from_record(j, &records[i]);
        app_statuses_free(records, m->n_apps);
        return 0;
}

/* --- Images -------------------------------------------------------------------------------------------- */

/* The ID that clients know the image by. */
static char *image_id_of(CriJob *j, const char *stored)
{
        _cleanup_(image_freep) Image *i = NULL;
        bool known = image_open(j->store, stored, &i, NULL) >= 0 && i->info.config_digest;

        return cri_strdup(&j->memory, known ? i->info.config_digest : stored);
}

char *container_image_id(CriJob *j, const PodApp *app)
{
        return image_id_of(j, app->image_id);
}

/* --- Status -------------------------------------------------------------------------------------------- */

/* As other runtimes call it. */
static const char *reason_of(const State *t)
{
        if (t->state != RUNTIME__V1__CONTAINER_STATE__CONTAINER_EXITED)
                return "";
        if (streq_ptr(t->cause, "oom-kill"))
                return "OOMKilled";
        return t->exit_code == 0 ? "Completed" : "Error";
}

static int add_log(CriJob *j, const Container *c, Runtime__V1__ContainerStatus *t)
{
        const char *directory = c->sandbox->config->log_directory;

        if (isempty(directory) || isempty(c->config->log_path))
                return 0;
        t->log_path = cri_printf(&j->memory, "%s/%s", directory, c->config->log_path);
        return t->log_path ? 0 : -ENOMEM;
}

static int add_resources(CriJob *j, const ContainerConfig *c, Runtime__V1__ContainerStatus *t)
{
        if (!c->linux || !c->linux->resources)
                return 0;
        t->resources = cri_message(&j->memory, &runtime__v1__container_resources__descriptor);
        if (!t->resources)
                return -ENOMEM;
        t->resources->linux = c->linux->resources;
        return 0;
}

/* Groups in TEXT, which are separated by commas. */
static int add_groups(CriJob *j, const char *text, Runtime__V1__LinuxContainerUser *u)
{
        _cleanup_strv_free_ char **words = NULL;
        uint32_t gid;

        int r = strv_split(text, ",", &words);
        if (r < 0)
                return r;
        u->supplemental_groups = cri_alloc(&j->memory, (strv_length(words) + 1) * sizeof(int64_t));
        if (!u->supplemental_groups)
                return -ENOMEM;
        STRV_FOREACH (word, words)
                if (parse_u32(*word, &gid) >= 0)
                        u->supplemental_groups[u->n_supplemental_groups++] = gid;
        return 0;
}

/* What the launcher has found out and the record has, once the container was started: "UID:GID:GROUP,GROUP". */
static int add_user(CriJob *j, const Container *c, Runtime__V1__ContainerStatus *t)
{
        _cleanup_app_status_ AppStatus record = app_status_initial();
        _cleanup_close_ int fd = pod_open_statuses(c->sandbox->pod);
        _cleanup_strv_free_ char **words = NULL;
        uint32_t uid, gid;

        if (fd < 0 || app_status_read(fd, c->app->name, &record) < 0 || !record.identity)
                return 0;
        int r = strv_split(record.identity, ":", &words);
        if (r < 0)
                return r;
        if (strv_length(words) < 2 || parse_u32(words[0], &uid) < 0 || parse_u32(words[1], &gid) < 0)
                return 0;
        t->user = cri_message(&j->memory, &runtime__v1__container_user__descriptor);
        if (!t->user ||
            !(t->user->linux = cri_message(&j->memory, &runtime__v1__linux_container_user__descriptor)))
                return -ENOMEM;
        t->user->linux->uid = uid;
        t->user->linux->gid = gid;
        return words[2] ? add_groups(j, words[2], t->user->linux) : 0;
}

/* The one that it is stopped by, whether the request or the image has it. */
static int add_stop_signal(const Container *c, Runtime__V1__ContainerStatus *t)
{
        _cleanup_app_settings_ AppSettings settings = {};

        if (app_settings_read(c->app, &settings, NULL) < 0)
                return 0;
        t->stop_signal = cri_signal_from_number(settings.stop_signal > 0 ? settings.stop_signal : SIGTERM);
        return 0;
}

/* Mounts of images have the ID of the image, too. Those of the request come first among the app's. */
static int add_mounts(CriJob *j, const Container *c, Runtime__V1__ContainerStatus *t)
{
        t->n_mounts = c->config->n_mounts;
        t->mounts = c->config->mounts;
        for (size_t i = 0; i < t->n_mounts && i < c->app->n_mounts; i++) {
                const Volume *v = pod_manifest_find_volume(c->sandbox->pod->manifest,
                                                           c->app->mounts[i].volume);
                Runtime__V1__ImageSpec *image = t->mounts[i]->image;
                VolumeSettings s;

                if (!image || !v || volume_settings_read(c->sandbox->pod->manifest, v, &s, NULL) < 0 ||
                    !s.image[0])
                        continue;
                image->image_ref = image_id_of(j, s.image);
                if (!image->image_ref)
                        return -ENOMEM;
        }
        return 0;
}

static int fill_status(CriJob *j, const Container *c, const State *s, Runtime__V1__ContainerStatus *t)
{
        t->id = cri_strdup(&j->memory, c->id);
        t->metadata = c->config->metadata;
        t->state = s->state;
        t->created_at = (int64_t) c->created_usec * NSEC_PER_USEC;
        t->started_at = (int64_t) s->started_usec * NSEC_PER_USEC;
        if (s->state == RUNTIME__V1__CONTAINER_STATE__CONTAINER_EXITED) {
                t->finished_at = (int64_t) s->ended_usec * NSEC_PER_USEC;
                t->exit_code = s->exit_code;
        }
        t->image = c->config->image;
        t->image_ref = t->image_id = container_image_id(j, c->app);
        t->reason = cri_strdup(&j->memory, reason_of(s));
        t->message = cri_strdup(&j->memory, s->message);
        t->n_labels = c->config->n_labels;
        t->labels = (void *) c->config->labels;
        t->n_annotations = c->config->n_annotations;
        t->annotations = (void *) c->config->annotations;
        return t->id && t->image_ref && t->reason && t->message && add_log(j, c, t) >= 0 &&
                                               add_mounts(j, c, t) >= 0 &&
                                               add_resources(j, c->config, t) >= 0 &&
                                               add_user(j, c, t) >= 0 && add_stop_signal(c, t) >= 0
                               ? 0
                               : -ENOMEM;
}

static size_t index_of(const PodManifest *m, const PodApp *app)
{
        size_t i = 0;

        while (m->apps[i] != app)
                i++;
        return i;
}

/* All containers of S, the newest first: a kubelet that uses events takes the first container of a name as the current
 * attempt. New apps are appended to the manifest. */
int container_statuses(CriJob *j, Sandbox *s, Runtime__V1__ContainerStatus ***ret, size_t *ret_n, Error *e)
{
        size_t n = s->pod->manifest->n_apps, k = 0;
        State *l = cri_alloc(&j->memory, (n + 1) * sizeof(State));
        Runtime__V1__ContainerStatus **list =
                        cri_alloc(&j->memory, (n + 1) * sizeof(Runtime__V1__ContainerStatus *));

        int r = l && list ? read_states(j, s, l, e) : error_oom(e);
        if (r < 0)
                return r;
        for (size_t i = n; i-- > 0;) {
                Container c;
                if (container_open(j, s, s->pod->manifest->apps[i], &c, NULL) < 0)
                        continue;
                list[k] = cri_message(&j->memory, &runtime__v1__container_status__descriptor);
                if (!list[k] || fill_status(j, &c, &l[i], list[k]) < 0)
                        return error_oom(e);
                k++;
        }
        *ret = list;
        *ret_n = k;
        return 0;
}

/* 0: there is none. */
static pid_t process_of(const Container *c, const Runtime__V1__ContainerStatus *t)
{
        AppProcess process;

        if (t->state != RUNTIME__V1__CONTAINER_STATE__CONTAINER_RUNNING ||
            app_process_open(c->sandbox->pod, c->app, &process, NULL) < 0)
                return 0;
        safe_close(process.pid_fd);
        return process.pid;
}

/* "process" of the OCI specification. */
static json_object *json_of_process(const Container *c)
{
        const App *app = c->app->app;
        _cleanup_json_ json_object *o = json_object_new_object(), *list = json_object_new_array();

        for (size_t i = 0; list && i < app->environment.n; i++) {
                const Pair *p = &app->environment.items[i];
                _cleanup_free_ char *text = NULL;
                if (xasprintf(&text, "%s=%s", p->name, p->value) < 0 ||
                    json_list_append(list, json_new_string_lossy(text)) < 0)
                        return NULL;
        }
        return o && list && json_member_add(o, "terminal", json_object_new_boolean(c->config->tty)) >= 0 &&
                                               json_member_add(o, "args", json_new_string_list(app->exec)) >=
                                                               0 &&
                                               json_member_add(o, "env", TAKE_PTR(list)) >= 0 &&
                                               json_member_add_text(o, "cwd",
                                                                    app->working_directory ?: "/") >= 0
                               ? TAKE_PTR(o)
                               : NULL;
}

static json_object *json_of_spec(const Container *c, pid_t pid)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        _cleanup_free_ char *cgroup = NULL;

        if (pid > 0)
                (void) cri_app_cgroup(c->sandbox, c->app, &cgroup);
        return o && json_member_add(o, "process", json_of_process(c)) >= 0 &&
                                               json_member_add(o, "linux", cri_json_linux(cgroup, pid)) >= 0
                               ? TAKE_PTR(o)
                               : NULL;
}

/* As JSON: the pod and its app, for the commands of acnspawn, and what tools look for by the names of containerd. */
static int add_info(CriJob *j, const Container *c, Runtime__V1__ContainerStatusResponse *answer, Error *e)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        pid_t pid = process_of(c, answer->status);
        bool fits = protobuf_c_message_get_packed_size(&c->config->base) <= CRI_JSON_CONFIG_MAX;

        if (!o || json_member_add_text(o, "pod", c->sandbox->pod->uuid) < 0 ||
            json_member_add_text(o, "app", c->app->name) < 0 ||
            json_member_add_text(o, "image", c->app->image_id) < 0 ||
            json_member_add_text(o, "sandboxID", c->sandbox->id) < 0 ||
            json_member_add(o, "pid", json_object_new_int((int) pid)) < 0 ||
            json_member_add(o, "removing", json_object_new_boolean(false)) < 0 ||
            json_member_add_text(o, "runtimeType", CRI_RUNTIME_NAME) < 0 ||
            (fits && (json_member_add(o, "config", cri_json(&c->config->base)) < 0 ||
                      json_member_add(o, "runtimeSpec", json_of_spec(c, pid)) < 0)))
                return error_oom(e);
        return cri_map_add(&j->memory, &answer->n_info, &answer->info,
                           &runtime__v1__container_status_response__info_entry__descriptor, "info",
                           json_print(o)) < 0
                               ? error_oom(e)
                               : 0;
}

int cri_container_status(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__ContainerStatusRequest *q = request;
        Runtime__V1__ContainerStatusResponse *answer = reply;
        _cleanup_sandbox_ Sandbox s = {};
        Container c;

        int r = container_find(j, q->container_id, &s, &c, e);
        if (r < 0)
                return r;
        answer->status = cri_message(&j->memory, &runtime__v1__container_status__descriptor);
        State *l = cri_alloc(&j->memory, s.pod->manifest->n_apps * sizeof(State));
        if (!l || !answer->status)
                return error_oom(e);
        r = read_states(j, &s, l, e);
        if (r < 0)
                return r;
        if (fill_status(j, &c, &l[index_of(s.pod->manifest, c.app)], answer->status) < 0)
                return error_oom(e);
        return q->verbose ? add_info(j, &c, answer, e) : 0;
}
