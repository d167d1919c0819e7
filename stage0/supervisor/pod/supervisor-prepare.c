/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The process that prepares an app, or the apps of a group, for a pod that runs: it reads images, which can take a while,
 * makes the directory and the units of each app, and answers with what it has added to the manifest, or why it has not. It
 * waits then, with its lock on the store, until that is in the manifest on disk. If it fails or is killed, the
 * caller of change_prepare() removes what it has left.
 *
 * It looks up paths of the host, such as sources of volumes, in the host's mount namespace: what was mounted there since the pod was
 * started does not arrive in the supervisor's if the host's mounts are private. */

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "stage0/supervisor/pod/app-change.h"
#include "stage0/supervisor/apps/left-process.h"

#define PREPARE_USEC (UINT64_C(600) * 1000000)
#define ANSWER_SIZE_MAX (2U * MANIFEST_SIZE_MAX)

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
        const char *text = json_print(o);
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

/* Without their content the credentials stay with the app: no other copy of it exists by then. */
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
        const char *text = json_print(list);
        *ret = text ? strdup(text) : NULL;
        return *ret ? 0 : error_oom(e);
}

/* What is added is on disk before the manifest that has it. An app that is replaced was taken out of the manifest. */
static int prepare(const AppChange *c, char **ret, char ***warnings, Error *e)
{
        const PodManifest *m = c->supervisor->pod->manifest;
        size_t first = m->n_apps - (c->kind == CHANGE_REPLACES ? 1 : 0), first_volume = m->n_volumes;
        PodDefinition d = {}; /* freed when the process ends */
        int r;

        if (c->kind == CHANGE_LAUNCHES)
                r = prepare_group(c, ret, warnings, e);
        else
                r = c->kind == CHANGE_REPLACES ? prepare_replaced(c, &d, ret, warnings, e)
                                               : prepare_added(c, &d, ret, warnings, e);
        for (size_t i = first; r >= 0 && i < m->n_apps; i++)
                r = forwarders_check_log(c->supervisor->forwarders, m->apps[i], e);
        return r < 0 ? r : pod_sync_added(c->supervisor->pod, first, first_volume, e);
}

/* Of what is inherited only what is needed. The pod's lock is not, nor are connections: this process may outlast the pod, if it waits for the
 * file system of a volume. */
static int close_others(const Supervisor *s, int sock)
{
        Pod *p = s->pod;
        _cleanup_close_ int dir_fd = openat(p->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        const MountNamespace *host = forwarders_host(s->forwarders);
        int kept[] = {sock, p->dir_fd, store_fd(p->store), host->fd, host->root_fd};

        int r = process_leave_streams();
        if (r < 0)
                return r;
        if (dir_fd < 0 || dup3(dir_fd, p->dir_fd, O_CLOEXEC) < 0)
                return -errno;
        return fds_close_others(kept, ELEMENTSOF(kept));
}

static int enter_host(const Supervisor *s, Error *e)
{
        int r = mount_namespace_return(forwarders_host(s->forwarders));

        return r < 0 ? error_set_errno(e, r, "Cannot enter the mount namespace of the host") : 0;
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
        int r = close_others(c->supervisor, sock);
        if (r >= 0)
                r = enter_host(c->supervisor, &e);
        if (r >= 0)
                r = prepare(c, &added, &warnings, &e);
        if (r < 0 && e.code == 0)
                e.code = r;
        r = write_answer(sock, r < 0 ? NULL : added, warnings, &e);
        if (r < 0 || shutdown(sock, SHUT_WR) < 0)
                _exit(1);
        while (read(sock, &byte, 1) < 0 && errno == EINTR) /* until it is taken over */
                ;
        _exit(0);
}

/* --- The supervisor's side ------------------------------------------------------------------------------ */

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
                              c->kind == CHANGE_LAUNCHES ? "s of the group" : "");
                return error_hint(e, r, "Nothing of it is kept. Try it again when the host is less busy.");
        }
        if (!added)
                return read_refusal(o, e);
        *ret_added = strdup(added);
        return *ret_added && read_warnings(o, warnings) >= 0 ? 0 : error_oom(e);
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
        c->prepared(c);
        return 0;
}

static int on_slow(sd_event_source *source, uint64_t usec, void *userdata)
{
        AppChange *c = userdata;

        (void) kill(c->pid, SIGKILL);
        return 0;
}

void change_end_preparing(AppChange *c)
{
        c->io = sd_event_source_disable_unref(c->io);
        c->sock = safe_close(c->sock); /* makes the child end */
        if (c->pid > 0)
                leave_process(c->supervisor->event, c->pid);
        c->pid = 0;
        text_done(&c->answer);
}

int change_prepare(AppChange *c, void (*prepared)(AppChange *c))
{
        pid_t parent = getpid();
        int fds[2];

        c->prepared = prepared;
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
