/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Samples of what sandboxes and running containers use, for the lists of statistics.
 *
 * To read the cgroups of a node full of pods takes many times longer than to answer from what was read before. So the table of the server
 * (events-table.c) keeps the last sample of each, with its time, which is that of the reply, too. A list takes samples that are a few
 * seconds old. What has none, as it was just started, is read by the worker of the call; a sample of an earlier state (of a
 * container that ended since, and runs again) does not count.
 *
 * While lists are requested, a worker without a client takes new samples every few seconds, and after a list was answered by some
 * that were not new: so no client waits, and one that asks twice within a second or two gets two different samples. A minute after the last
 * request that ends. */

#include "cri/events/events-internal.h"
#include "library/libsystemd.h"

#define USEC_PER_MSEC UINT64_C(1000)
#define REFRESH_USEC (5000 * USEC_PER_MSEC)
#define AGE_MAX_USEC                                                                                        \
        (8000 * USEC_PER_MSEC)         /* of what is reported; refreshing takes its time on a busy host */
#define NEW_USEC (500 * USEC_PER_MSEC) /* younger than that: no new ones are needed after a list */
#define SOON_USEC (50 * USEC_PER_MSEC) /* from a list to the new ones */
#define REQUESTED_USEC (60 * 1000 * USEC_PER_MSEC) /* from the last list to the end of refreshing */

/* --- The table ------------------------------------------------------------------------------------------ */

static bool has_sample(const Seen *x, uint64_t now, uint64_t age)
{
        return x->sampled_usec > 0 && now - MIN(x->sampled_usec, now) < age;
}

static bool has_samples(const SeenSandbox *x, uint64_t age)
{
        uint64_t now = now_usec(CLOCK_MONOTONIC);

        for (size_t i = 0; i < x->n; i++)
                if (x->containers[i].state == STARTED && !has_sample(&x->containers[i], now, age))
                        return false;
        return has_sample(&x->sandbox, now, age);
}

/* The cgroup of one that has just ended is gone before that is reported. */
bool usage_is_sampled(const Seen *x)
{
        return x->state == STARTED && x->sampled_usec > 0 && x->usage.taken_usec > 0;
}

/* False: it is of an earlier state, or older than the one that is there. */
static bool take(Seen *x, const CriUsage *u, uint64_t begin)
{
        if (x->state != STARTED || begin < MAX(x->changed_usec, x->sampled_usec))
                return false;
        x->usage = *u;
        x->sampled_usec = begin;
        return true;
}

static void take_networks(SeenSandbox *x, const void *data, size_t n)
{
        NetworkUsage *l = n > 0 ? malloc(n * sizeof(NetworkUsage)) : NULL;

        if (l)
                memcpy(l, data, n * sizeof(NetworkUsage));
        free(x->networks);
        x->networks = l;
        x->n_networks = l ? n : 0;
}

void cri_usage_take(CriServer *s, const void *data, size_t size)
{
        const char *p = data;
        SeenSandbox *x;
        UsageNote note;

        if (size < sizeof(note))
                return;
        memcpy(&note, p, sizeof(note));
        p += sizeof(note);
        if (size != sizeof(note) + note.n_apps * sizeof(UsageNoteApp) +
                                            note.n_networks * sizeof(NetworkUsage) ||
            !s->events || !(x = events_table_find(s, note.uuid)))
                return;
        bool taken = take(&x->sandbox, &note.usage, note.begin_usec);
        for (size_t i = 0; i < note.n_apps; i++, p += sizeof(UsageNoteApp)) {
                UsageNoteApp app;
                memcpy(&app, p, sizeof(app));
                for (size_t k = 0; k < x->n; k++)
                        if (streq(x->containers[k].app, app.app))
                                (void) take(&x->containers[k], &app.usage, note.begin_usec);
        }
        if (taken)
                take_networks(x, p, note.n_networks);
}

/* --- In a worker ---------------------------------------------------------------------------------------- */

static int add_apps(const SeenSandbox *x, PodManifest *m)
{
        for (size_t i = 0; i < x->n; i++) {
                PodApp *a = x->containers[i].state == STARTED ? pod_manifest_add_app(m) : NULL;
                if (x->containers[i].state == STARTED && (!a || !(a->name = strdup(x->containers[i].app))))
                        return -ENOMEM;
        }
        return 0;
}

static NetMode net_of(const SandboxConfig *c)
{
        const Runtime__V1__NamespaceOption *o =
                        c->linux && c->linux->security_context
                                        ? c->linux->security_context->namespace_options
                                        : NULL;

        return o && o->network == RUNTIME__V1__NAMESPACE_MODE__NODE ? NET_HOST : NET_NETWORKS;
}

/* The pod with its directory, the names of its running apps and whether the network is the host's: no file of it is read, which would
 * take longer than its cgroups do. -ENOENT: it has ended. */
static int open_seen(CriJob *j, const SeenSandbox *x, Sandbox *ret)
{
        _cleanup_(pod_freep) Pod *p = NULL;

        int r = pod_look(j->store, x->uuid, &p, NULL);
        if (r >= 0 && p->state != POD_RUNNING)
                r = -ENOENT;
        if (r < 0)
                return r;
        p->manifest = pod_manifest_new();
        if (!p->manifest || add_apps(x, p->manifest) < 0)
                return -ENOMEM;
        p->config.net = net_of(x->config);
        *ret = (Sandbox){.pod = TAKE_PTR(p), .config = x->config, .handler = x->handler};
        memcpy(ret->id, x->sandbox.id, sizeof(ret->id));
        return 0;
}

static void *make_note(const Sandbox *s, UsageNote *note, const CriUsage *apps, const NetworkUsage *networks,
                       size_t *ret_size)
{
        size_t size = sizeof(*note) + note->n_apps * sizeof(UsageNoteApp) +
                      note->n_networks * sizeof(NetworkUsage);
        char *data = malloc(size), *p = data;

        if (!data)
                return NULL;
        memcpy(note->uuid, s->pod->uuid, sizeof(note->uuid));
        p = mempcpy(p, note, sizeof(*note));
        for (size_t i = 0; i < note->n_apps; i++) {
                UsageNoteApp app = {.usage = apps[i]};
                snprintf(app.app, sizeof(app.app), "%s", s->pod->manifest->apps[i]->name);
                p = mempcpy(p, &app, sizeof(app));
        }
        if (note->n_networks > 0)
                memcpy(p, networks, note->n_networks * sizeof(NetworkUsage));
        *ret_size = size;
        return data;
}

/* The server gets it, and the copy of its table that the worker has. */
static int sample(CriJob *j, const SeenSandbox *x, Error *e)
{
        UsageNote note = {.begin_usec = now_usec(CLOCK_MONOTONIC)};
        _cleanup_free_ NetworkUsage *networks = NULL;
        _cleanup_sandbox_ Sandbox s = {};
        _cleanup_free_ void *data = NULL;
        CriUsage *apps;
        size_t size;

        int r = open_seen(j, x, &s);
        if (r < 0)
                return r == -ENOMEM ? error_oom(e) : 0;
        r = cri_usage_of(j, &s, CRI_PARTS_STATS, &note.usage, &apps, e);
        if (r < 0)
                return r;
        if (sandbox_networks(&s, &networks, &note.n_networks) < 0)
                note.n_networks = 0;
        note.n_apps = s.pod->manifest->n_apps;
        data = make_note(&s, &note, apps, networks, &size);
        if (!data)
                return error_oom(e);
        cri_worker_note_usage(j, data, size);
        cri_usage_take(j->server, data, size);
        return 1;
}

int usage_sample(CriJob *j, SeenSandbox *x, Error *e)
{
        if (has_samples(x, AGE_MAX_USEC))
                return 1;
        if (!j->grpc)
                return sample(j, x, e);
        j->needs_worker = true;
        return -EAGAIN;
}

/* --- Refreshing ----------------------------------------------------------------------------------------- */

static int refresh(CriJob *j, const void *request, void *reply, Error *e)
{
        SeenSandbox **l;
        size_t n;

        int r = events_table_sorted(j, &l, &n, e);
        for (size_t i = 0; r >= 0 && i < n; i++)
                if (l[i]->sandbox.state == STARTED &&
                    (r = operation_check(store_operation(j->store), e)) >= 0)
                        r = sample(j, l[i], e);
        return r;
}

static const CriCall refresh_call = {"refresh", &runtime__v1__list_pod_sandbox_stats_request__descriptor,
                                     &runtime__v1__list_pod_sandbox_stats_response__descriptor, refresh,
                                     CRI_WORKER};

void cri_usage_ended(CriServer *s, const CriCall *call)
{
        if (call == &refresh_call)
                s->sampling = false;
}

static int set_timer(CriServer *s, uint64_t usec)
{
        s->usage_due_usec = now_usec(CLOCK_MONOTONIC) + usec;
        int r = sd_event_source_set_time_relative(s->usage_timer, usec);
        return r < 0 ? r : sd_event_source_set_enabled(s->usage_timer, SD_EVENT_ONESHOT);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
        CriServer *s = userdata;

        if (s->ending || now_usec(CLOCK_MONOTONIC) - s->usage_asked_usec > REQUESTED_USEC) {
                s->usage_timer = sd_event_source_disable_unref(s->usage_timer);
                return 0;
        }
        if (!s->sampling)
                s->sampling = cri_worker_start(s, NULL, &refresh_call, NULL, 0) >= 0;
        return set_timer(s, REFRESH_USEC);
}

/* The oldest of the samples tells when new ones are due. */
static bool are_new(const CriServer *s)
{
        for (const SeenSandbox *x = s->events->sandboxes; x; x = x->next)
                if (x->sandbox.state == STARTED && !has_samples(x, NEW_USEC))
                        return false;
        return true;
}

void cri_usage_asked(CriServer *s)
{
        uint64_t now = now_usec(CLOCK_MONOTONIC);

        if (!s->events || s->ending)
                return;
        s->usage_asked_usec = now;
        if (!s->usage_timer) {
                if (sd_event_add_time_relative(s->event, &s->usage_timer, CLOCK_MONOTONIC, REFRESH_USEC,
                                               USEC_PER_MSEC, on_timer, s) >= 0)
                        s->usage_due_usec = now + REFRESH_USEC;
        } else if (s->usage_due_usec > now + SOON_USEC && !are_new(s))
                (void) set_timer(s, SOON_USEC);
}
