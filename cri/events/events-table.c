/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which transitions of sandboxes and containers there are.
 *
 * The table has the states that were reported. It is filled from the store when the server starts, and then compared with what
 * the supervisors of the pods report (stage0/pods/watch.c); only differences are events, so each is sent once, and none is lost
 * between the two. Workers report what no supervisor can: that a sandbox is up with its networks, and that a container was
 * removed from a pod that has ended. */

#include "cri/events/events-internal.h"
#include "stage0/host/host.h"

#define NSEC_PER_USEC 1000U

/* --- Transitions --------------------------------------------------------------------------------------- */

/* From what was reported to TYPE, with the events between. */
static void advance(CriServer *s, const SeenSandbox *sandbox, Seen *x, EventType type, bool was_executed)
{
        if (type == x->state)
                return;
        if (type == STARTED && x->state == STOPPED) /* once more */
                x->state = CREATED;
        if (type < x->state)
                return;
        if (type >= STOPPED && x->state < STARTED && was_executed)
                events_emit(s, sandbox, x, STARTED);
        if (type == DELETED && x->state < STOPPED)
                events_emit(s, sandbox, x, STOPPED);
        events_emit(s, sandbox, x, type);
}

/* --- The table ----------------------------------------------------------------------------------------- */

SeenSandbox *events_table_find(const CriServer *s, const char *uuid)
{
        SeenSandbox *x = s->events->sandboxes;

        while (x && !streq(x->uuid, uuid))
                x = x->next;
        return x;
}

static int compare_sandboxes(const void *a, const void *b)
{
        const SeenSandbox *x = *(SeenSandbox *const *) a, *y = *(SeenSandbox *const *) b;

        if (x->sandbox.created_usec != y->sandbox.created_usec)
                return x->sandbox.created_usec < y->sandbox.created_usec ? -1 : 1;
        return strcmp(x->uuid, y->uuid);
}

int events_table_sorted(CriJob *j, SeenSandbox ***ret, size_t *ret_n, Error *e)
{
        struct CriEvents *v = j->server->events;
        size_t n = 0, i = 0;
        int r = v->stale && j->grpc ? events_table_read(j->server, e) : 0;

        if (r < 0)
                return r;
        for (SeenSandbox *x = v->sandboxes; x; x = x->next)
                n++;
        SeenSandbox **l = cri_alloc(&j->memory, (n + 1) * sizeof(*l));
        if (!l)
                return error_oom(e);
        for (SeenSandbox *x = v->sandboxes; x; x = x->next)
                l[i++] = x;
        qsort(l, n, sizeof(*l), compare_sandboxes);
        *ret = l;
        *ret_n = n;
        return 0;
}

static void keep_status(CriJob *j, const Sandbox *s, SeenSandbox *x)
{
        Runtime__V1__PodSandboxStatus *t =
                        cri_message(&j->memory, &runtime__v1__pod_sandbox_status__descriptor);

        if (!t)
                return;
        t->id = x->sandbox.id;
        t->metadata = s->config->metadata;
        t->state = RUNTIME__V1__POD_SANDBOX_STATE__SANDBOX_NOTREADY;
        t->created_at = (int64_t) (s->pod->config.created_usec * NSEC_PER_USEC);
        t->n_labels = s->config->n_labels;
        t->labels = (void *) s->config->labels;
        t->n_annotations = s->config->n_annotations;
        t->annotations = (void *) s->config->annotations;
        t->runtime_handler = (char *) s->handler;
        x->status = malloc(MAX(protobuf_c_message_get_packed_size(&t->base), (size_t) 1));
        if (x->status)
                x->status_size = protobuf_c_message_pack(&t->base, x->status);
}

static ProtobufCMessage *copy_message(CriMemory *m, const ProtobufCMessage *message)
{
        size_t size = protobuf_c_message_get_packed_size(message);
        _cleanup_free_ uint8_t *data = malloc(MAX(size, (size_t) 1));
        ProtobufCMessage *copy = NULL;

        if (!data)
                return NULL;
        (void) protobuf_c_message_pack(message, data);
        return cri_unpack(m, message->descriptor, data, size, &copy) < 0 ? NULL : copy;
}

static Seen *add_container(CriJob *j, SeenSandbox *x, const Container *c)
{
        CriJob own = {.server = j->server, .store = j->store, .fd = -EBADF};

        if (strlen(c->app->name) >= sizeof(x->containers->app) ||
            GREEDY_REALLOC(x->containers, x->allocated, x->n + 1) < 0)
                return NULL;
        ProtobufCMessage *config = copy_message(&own.memory, &c->config->base);
        char *image = container_image_id(&own, c->app);
        if (!config || !image) {
                cri_memory_done(&own.memory);
                return NULL;
        }
        Seen *n = &x->containers[x->n++];
        *n = (Seen){.state = CREATED,
                    .created_usec = c->created_usec,
                    .memory = own.memory,
                    .config = (ContainerConfig *) config,
                    .image_id = image};
        snprintf(n->app, sizeof(n->app), "%s", c->app->name);
        memcpy(n->id, c->id, sizeof(n->id));
        return n;
}

static SeenSandbox *add_sandbox(CriJob *j, const Sandbox *s)
{
        SeenSandbox *x = calloc(1, sizeof(SeenSandbox));

        if (!x)
                return NULL;
        *x = (SeenSandbox){.next = j->server->events->sandboxes,
                           .sandbox = {.state = CREATED, .created_usec = s->pod->config.created_usec}};
        x->config = (SandboxConfig *) copy_message(&x->memory, &s->config->base);
        x->handler = cri_strdup(&x->memory, s->handler);
        if (!x->config || !x->handler) {
                cri_memory_done(&x->memory);
                free(x);
                return NULL;
        }
        snprintf(x->uuid, sizeof(x->uuid), "%s", s->pod->uuid);
        memcpy(x->sandbox.id, s->id, sizeof(x->sandbox.id));
        keep_status(j, s, x);
        j->server->events->sandboxes = x;
        return x;
}

static void drop_sandbox(CriServer *s, SeenSandbox *x)
{
        SeenSandbox **i = &s->events->sandboxes;

        while (*i != x)
                i = &(*i)->next;
        *i = x->next;
        for (size_t k = 0; k < x->n; k++)
                cri_memory_done(&x->containers[k].memory);
        cri_memory_done(&x->memory);
        free(x->containers);
        free(x->networks);
        free(x->status);
        free(x);
}

/* Opens the pod as a sandbox. -ENOENT: it is none. */
static int open_pod(CriJob *j, const char *uuid, Sandbox *ret)
{
        _cleanup_(pod_freep) Pod *pod = NULL;
        int r = pod_open(j->store, uuid, &pod, NULL);

        if (r >= 0 && (!streq_ptr(pod->config.owner, CRI_OWNER) || !pod->manifest))
                r = -ENOENT;
        if (r >= 0)
                r = sandbox_open(j, pod, ret, NULL);
        if (r >= 0)
                (void) TAKE_PTR(pod);
        return r;
}

/* --- What is reported ---------------------------------------------------------------------------------- */

static Seen *find_container(CriJob *j, SeenSandbox *x, const char *app)
{
        _cleanup_sandbox_ Sandbox s = {};
        Container c;

        for (size_t i = 0; i < x->n; i++)
                if (streq(x->containers[i].app, app))
                        return &x->containers[i];
        if (open_pod(j, x->uuid, &s) < 0)
                return NULL;
        for (size_t i = 0; i < s.pod->manifest->n_apps; i++)
                if (streq(s.pod->manifest->apps[i]->name, app) &&
                    container_open(j, &s, s.pod->manifest->apps[i], &c, NULL) >= 0) {
                        Seen *new = add_container(j, x, &c);
                        if (new)
                                events_emit(j->server, x, new, CREATED);
                        return new;
                }
        return NULL;
}

static void forget_container(SeenSandbox *x, Seen *c)
{
        size_t i = (size_t) (c - x->containers);

        cri_memory_done(&c->memory);
        x->n--;
        memmove(c, c + 1, (x->n - i) * sizeof(Seen));
}

static void container_removed(CriServer *s, SeenSandbox *x, Seen *c)
{
        advance(s, x, c, DELETED, false);
        forget_container(x, c);
}

/* Before its launcher has executed it, an app that runs for systemd has no time of its start. */
static void take_app(CriJob *j, SeenSandbox *x, const AcnApp *a)
{
        bool removed = a->state == ACN_APP_REMOVED;
        Seen *c = NULL;

        for (size_t i = 0; removed && i < x->n; i++)
                if (streq(x->containers[i].app, a->name))
                        c = &x->containers[i];
        if (!removed)
                c = find_container(j, x, a->name);
        if (!c)
                return;
        if (a->state == ACN_APP_RUNNING && a->started_usec > 0)
                advance(j->server, x, c, STARTED, true);
        else if (a->state == ACN_APP_EXITED)
                advance(j->server, x, c, STOPPED, a->started_usec > 0);
        else if (removed)
                container_removed(j->server, x, c);
}

/* APPS are all apps of the pod: drops containers that were removed before the supervisor was asked. */
static void drop_unnamed_apps(CriServer *s, SeenSandbox *x, json_object *apps)
{
        for (size_t i = x->n; i-- > 0;) {
                bool named = false;
                for (size_t k = 0; !named && k < json_object_array_length(apps); k++)
                        named = streq_ptr(x->containers[i].app,
                                          json_object_get_string(json_object_object_get(
                                                          json_object_array_get_idx(apps, k), "name")));
                if (!named)
                        container_removed(s, x, &x->containers[i]);
        }
}

/* Processes in the pid namespace of the host do not end with a supervisor that was killed: they are what is left in the cgroups of the
 * pod, which belong to no other once it has ended. */
static void end_processes(const Sandbox *s)
{
        if (s->pod->config.host_pid && s->pod->state == POD_EXITED && s->pod->place == POD_RUNNING)
                (void) pod_cgroup_kill(s->pod, NULL);
}

static bool is_in_pid_namespace_of_host(const SeenSandbox *x)
{
        const Runtime__V1__LinuxSandboxSecurityContext *c =
                        x->config && x->config->linux ? x->config->linux->security_context : NULL;

        return c && c->namespace_options && c->namespace_options->pid == RUNTIME__V1__NAMESPACE_MODE__NODE;
}

static void sandbox_stopped(CriJob *j, SeenSandbox *x)
{
        CriServer *s = j->server;
        _cleanup_sandbox_ Sandbox sandbox = {};

        if (is_in_pid_namespace_of_host(x) && open_pod(j, x->uuid, &sandbox) >= 0)
                end_processes(&sandbox);
        for (size_t i = 0; i < x->n; i++)
                advance(s, x, &x->containers[i], STOPPED, false);
        advance(s, x, &x->sandbox, STOPPED, false);
}

/* The sandbox may have ended before it was added to the table: its end was reported by then. */
static void settle_sandbox(CriJob *j, const Sandbox *s, SeenSandbox *x)
{
        advance(j->server, x, &x->sandbox, STARTED, true);
        if (!sandbox_is_ready(s))
                sandbox_stopped(j, x);
}

static void sandbox_removed(CriServer *s, SeenSandbox *x)
{
        for (size_t i = 0; i < x->n; i++)
                advance(s, x, &x->containers[i], DELETED, false);
        advance(s, x, &x->sandbox, DELETED, false);
        drop_sandbox(s, x);
}

/* The watch of the pods began after the store was read: it does not report pods that were removed in between. */
static void drop_unnamed_sandboxes(CriServer *s)
{
        for (SeenSandbox *x = s->events->sandboxes, *next; x; x = next) {
                next = x->next;
                if (!x->named)
                        sandbox_removed(s, x);
        }
}

/* A sandbox is reported when its networks are up: by the worker that has run it, unless that was killed. */
void events_table_take(const PodsEvent *v, void *userdata)
{
        CriServer *s = userdata;
        CriJob j = {.server = s, .store = s->store, .fd = -EBADF};
        const char *uuid = v->pod ? json_object_get_string(json_object_object_get(v->pod, "uuid")) : NULL,
                   *state = v->pod ? json_object_get_string(json_object_object_get(v->pod, "state")) : NULL;
        SeenSandbox *x = uuid ? events_table_find(s, uuid) : NULL;
        AcnApp app = {};

        /* Pods that were added between the read of the store and the begin of the watch are not in the table. */
        if (!x && v->kind != PODS_COMPLETE) {
                s->events->stale |= (v->kind == PODS_CHANGED || v->kind == PODS_PRESENT) &&
                                    !streq_ptr(state, "garbage");
                return;
        }
        if (x)
                x->named = true;
        if (v->kind == PODS_COMPLETE)
                drop_unnamed_sandboxes(s);
        else if (v->kind == PODS_APPS)
                drop_unnamed_apps(s, x, v->app);
        else if (v->kind == PODS_APP && acn_app_read(v->app, &app) >= 0)
                take_app(&j, x, &app);
        else if (v->kind == PODS_REMOVED || streq_ptr(state, "garbage"))
                sandbox_removed(s, x);
        else if ((v->kind == PODS_CHANGED || v->kind == PODS_PRESENT) && streq_ptr(state, "exited"))
                sandbox_stopped(&j, x);
        acn_app_done(&app);
        cri_memory_done(&j.memory);
        events_answer_held(s);
        events_send(s);
}

void cri_event_note(CriJob *j, CriNoteKind kind, const char *uuid, const char *id)
{
        CriEventNote note = {.kind = kind};

        snprintf(note.uuid, sizeof(note.uuid), "%s", uuid);
        snprintf(note.id, sizeof(note.id), "%s", id);
        cri_worker_note_event(j, &note, sizeof(note));
}

void cri_event_note_absent(CriJob *j, const char *id, size_t uuid_at)
{
        char uuid[UUID_TEXT_SIZE];

        if (!cri_id_is_full(id))
                return;
        cri_uuid_from_digits(id + uuid_at, uuid);
        cri_event_note(j, CRI_NOTE_ABSENT, uuid, id);
}

static void take_new(CriJob *j, const CriEventNote *note)
{
        _cleanup_sandbox_ Sandbox s = {};
        SeenSandbox *x;

        if (events_table_find(j->server, note->uuid))
                return;
        if (open_pod(j, note->uuid, &s) < 0 || !(x = add_sandbox(j, &s))) {
                j->server->events->stale = true;
                return;
        }
        x->named = true;
        events_emit(j->server, x, &x->sandbox, CREATED);
        settle_sandbox(j, &s, x);
}

static void take_gone(CriServer *s, SeenSandbox *x, const char *id)
{
        if (streq(x->sandbox.id, id)) {
                sandbox_removed(s, x);
                return;
        }
        for (size_t i = 0; i < x->n; i++)
                if (streq(x->containers[i].id, id)) {
                        container_removed(s, x, &x->containers[i]);
                        return;
                }
}

void cri_events_take(CriServer *s, const CriEventNote *note)
{
        CriJob j = {.server = s, .store = s->store, .fd = -EBADF};
        SeenSandbox *x = s->events ? events_table_find(s, note->uuid) : NULL;

        if (s->events && note->kind == CRI_NOTE_UP)
                take_new(&j, note);
        else if (x && (note->kind == CRI_NOTE_REMOVED || note->kind == CRI_NOTE_ABSENT))
                take_gone(s, x, note->id);
        cri_memory_done(&j.memory);
        if (s->events)
                events_send(s);
}

/* --- Begin and end ------------------------------------------------------------------------------------- */

/* The states of containers, by their records. */
static int read_containers(CriJob *j, Sandbox *s, SeenSandbox *x)
{
        size_t n = s->pod->manifest->n_apps;
        AppStatus *records = NULL;
        int r = pod_read_statuses(s->pod, !sandbox_is_ready(s), &records);

        for (size_t i = 0; r >= 0 && i < n; i++) {
                PodApp *app = s->pod->manifest->apps[i];
                Container c;
                Seen *seen = container_open(j, s, app, &c, NULL) >= 0 ? add_container(j, x, &c) : NULL;
                if (!seen)
                        continue;
                events_emit(j->server, x, seen, CREATED);
                if (records[i].state == APP_ENDED)
                        advance(j->server, x, seen, STOPPED, records[i].started_usec > 0);
                else if (records[i].state != APP_WAITING)
                        advance(j->server, x, seen, STARTED, true);
        }
        if (r >= 0)
                app_statuses_free(records, n);
        return r;
}

static int add_existing(CriJob *j, Error *e)
{
        Sandbox *l = NULL;
        size_t n = 0;

        int r = sandbox_list(j, &l, &n, e);
        for (size_t i = 0; r >= 0 && i < n; i++) {
                if (events_table_find(j->server, l[i].pod->uuid))
                        continue;
                end_processes(&l[i]);
                SeenSandbox *x = add_sandbox(j, &l[i]);
                if (!x) {
                        r = error_oom(e);
                        break;
                }
                events_emit(j->server, x, &x->sandbox, CREATED);
                advance(j->server, x, &x->sandbox, sandbox_is_ready(&l[i]) ? STARTED : STOPPED, false);
                if (read_containers(j, &l[i], x) < 0)
                        r = error_oom(e);
        }
        sandbox_list_free(l, n);
        return r;
}

int events_table_read(CriServer *s, Error *e)
{
        CriJob j = {.server = s, .store = s->store, .fd = -EBADF};

        if (cri_worker_runs(s, cri_run_pod_sandbox)) /* these are not up yet */
                return 0;
        int r = add_existing(&j, e);

        s->events->stale = r < 0;
        cri_memory_done(&j.memory);
        events_send(s);
        return r;
}

void events_table_done(CriServer *s)
{
        while (s->events->sandboxes)
                drop_sandbox(s, s->events->sandboxes);
}

void cri_events_count(const CriServer *s, CriCounts *ret)
{
        *ret = (CriCounts){};
        for (const SeenSandbox *x = s->events ? s->events->sandboxes : NULL; x; x = x->next) {
                *(x->sandbox.state == STARTED ? &ret->ready : &ret->not_ready) += 1;
                for (size_t i = 0; i < x->n; i++) {
                        ret->created += x->containers[i].state == CREATED;
                        ret->running += x->containers[i].state == STARTED;
                        ret->exited += x->containers[i].state == STOPPED;
                }
        }
}
