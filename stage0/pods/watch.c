/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Events of all pods of a store.
 *
 * The state of a pod is the directory that it is in, and changes by a rename. So these directories are
 * watched by inotify, and each rename is an event. The notifications begin before the pods are listed;
 * notifications that are older than the list are recognized by the order of the states, which only go
 * forward. If the kernel has dropped notifications, the pods are listed again, and differences are reported.
 *
 * Other events come from elsewhere: those of a running pod from its supervisor (watch-pod.c). A process that
 * prepares or runs a pod may be killed, which renames nothing: a timer detects that as long as there are
 * such pods. */

#include <sys/epoll.h>
#include <sys/inotify.h>

#include "stage0/pods/watch-internal.h"

#define MASK (IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_ONLYDIR)
#define USEC_PER_SEC UINT64_C(1000000)

static const PodState places[] = {POD_PREPARING, POD_PREPARED, POD_RUNNING, POD_EXITED, POD_GARBAGE};

static const char *const kinds[_PODS_EVENT_MAX] = {
                [PODS_PRESENT] = "present", [PODS_COMPLETE] = "complete", [PODS_CHANGED] = "changed",
                [PODS_APP] = "app",         [PODS_REMOVED] = "removed",   [PODS_APPS] = "apps",
};

const char *pods_event_kind_to_string(PodsEventKind k)
{
        return kinds[k];
}

json_object *pods_event_to_json(const PodsEvent *v)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        if (json_member_add(o, "sequence", json_object_new_uint64(v->sequence)) < 0 ||
            json_member_add(o, "timeUSec", json_object_new_uint64(v->time_usec)) < 0 ||
            json_member_add_text(o, "event", kinds[v->kind]) < 0 ||
            (v->pod && json_member_add(o, "pod", json_object_get(v->pod)) < 0) ||
            (v->app && json_member_add(o, "app", json_object_get(v->app)) < 0))
                return NULL;
        return TAKE_PTR(o);
}

/* --- Reporting ----------------------------------------------------------------------------------------- */

void watch_tell(PodsWatch *w, PodsEventKind kind, WatchedPod *p, json_object *app)
{
        const PodsEvent v = {.kind = kind,
                             .sequence = kind == PODS_APPS ? w->sequence : ++w->sequence,
                             .time_usec = now_usec(CLOCK_REALTIME),
                             .pod = p ? p->json : NULL,
                             .app = app};

        w->function(&v, w->userdata);
}

static const char *told_state(const WatchedPod *p)
{
        return json_object_get_string(json_object_object_get(p->json, "state")) ?: "";
}

/* A copy, as the function may have kept the previous one. */
static int set_state(WatchedPod *p, const char *shown)
{
        json_object *copy = NULL;

        if (json_object_deep_copy(p->json, &copy, NULL) < 0)
                return -ENOMEM;
        json_object_put(p->json);
        p->json = copy;
        return json_member_add_text(copy, "state", shown);
}

static void tell_as(PodsEventKind kind, WatchedPod *p, const char *shown)
{
        if (set_state(p, shown) >= 0)
                watch_tell(p->watch, kind, p, NULL);
}

void watch_tell_state(WatchedPod *p, const char *shown)
{
        if (!streq(told_state(p), shown))
                tell_as(PODS_CHANGED, p, shown);
}

/* --- Pods ---------------------------------------------------------------------------------------------- */

static WatchedPod *find_pod(PodsWatch *w, const char *uuid)
{
        WatchedPod *p = w->pods;

        while (p && !streq(p->uuid, uuid))
                p = p->next;
        return p;
}

/* Including what is known of any pod. */
static WatchedPod *add_pod(PodsWatch *w, const char *uuid)
{
        WatchedPod *p = calloc(1, sizeof(WatchedPod));
        json_object *o = json_object_new_object();

        if (!p || json_member_add_text(o, "uuid", uuid) < 0 || json_member_add_text(o, "state", "") < 0 ||
            json_member_add(o, "apps", json_object_new_array()) < 0) {
                json_object_put(o);
                free(p);
                return NULL;
        }
        *p = (WatchedPod){.next = w->pods, .watch = w, .state = POD_EMBRYO, .json = o};
        snprintf(p->uuid, sizeof(p->uuid), "%s", uuid);
        w->pods = p;
        return p;
}

static void drop_pod(WatchedPod *p)
{
        WatchedPod **i = &p->watch->pods;

        while (*i != p)
                i = &(*i)->next;
        *i = p->next;
        watch_disconnect(p);
        json_object_put(p->json);
        free(p);
}

void watch_read_pod(WatchedPod *p, Pod *pod)
{
        _cleanup_(pod_freep) Pod *own = NULL;
        _cleanup_free_ char *shown = strdup(told_state(p));
        json_object *o = NULL;

        if (!pod && pod_open(p->watch->store, p->uuid, &own, NULL) < 0)
                return;
        if (!shown || pod_to_json(pod ?: own, &o) < 0)
                return;
        if (json_member_add_text(o, "state", shown) < 0) {
                json_object_put(o);
                return;
        }
        json_object_put(p->json);
        p->json = o;
}

void watch_pod_ended(WatchedPod *p)
{
        p->ending = false;
        if (p->state < POD_EXITED)
                p->state = POD_EXITED;
        watch_disconnect(p);
        watch_read_pod(p, NULL);
        watch_tell_state(p, "exited");
}

/* All events of a new pod are reported. */
static void begin_running(WatchedPod *p, bool is_new)
{
        p->knows_events = is_new;
        p->since_usec = now_usec(CLOCK_MONOTONIC);
        watch_connect(p);
        watch_arm(p->watch);
}

/* Unread events of the supervisor come first. */
static void begin_ending(WatchedPod *p)
{
        if (!p->client) {
                watch_pod_ended(p);
                return;
        }
        p->ending = true;
        p->since_usec = now_usec(CLOCK_MONOTONIC);
        watch_arm(p->watch);
}

/* The pod is in PLACE, or a later one. Earlier ones are not reported any more. POD, if known, is the pod
 * there. */
static void advance(WatchedPod *p, PodState place, Pod *pod, PodsEventKind kind)
{
        if (place <= p->state)
                return;
        if (place == POD_GARBAGE && p->ending)
                watch_pod_ended(p);
        p->state = place;
        if (place == POD_EXITED && kind == PODS_CHANGED) {
                begin_ending(p);
                return;
        }
        if (place != POD_GARBAGE)
                watch_read_pod(p, pod);
        tell_as(kind, p, pod && kind == PODS_PRESENT ? pod_shown_state(pod) : pod_state_to_string(place));
        if (place == POD_RUNNING)
                begin_running(p, kind == PODS_CHANGED);
        if (place == POD_PREPARING)
                watch_arm(p->watch);
}

static void remove_pod(WatchedPod *p)
{
        if (p->ending)
                watch_pod_ended(p);
        watch_tell(p->watch, PODS_REMOVED, p, NULL);
        drop_pod(p);
}

/* --- Listing ------------------------------------------------------------------------------------------- */

static PodState place_of(const Pod *p)
{
        return p->state == POD_ABORTED_PREPARE ? POD_PREPARING : p->state;
}

static int list_pods(PodsWatch *w, PodsEventKind kind, Error *e)
{
        Pod **pods = NULL;
        size_t n = 0;

        int r = pod_list(w->store, &pods, &n, e);
        if (r < 0)
                return r;
        for (WatchedPod *p = w->pods; p; p = p->next)
                p->seen = false;
        for (size_t i = 0; i < n; i++) {
                if (pods[i]->state == POD_EMBRYO)
                        continue;
                WatchedPod *p = find_pod(w, pods[i]->uuid) ?: add_pod(w, pods[i]->uuid);
                if (!p) {
                        r = error_oom(e);
                        break;
                }
                p->seen = true;
                advance(p, place_of(pods[i]), pods[i], kind);
        }
        pod_list_free(pods, n);
        for (WatchedPod *p = w->pods, *next; r >= 0 && p; p = next) {
                next = p->next;
                if (!p->seen)
                        remove_pod(p);
        }
        return r;
}

static void catch_up(PodsWatch *w)
{
        int r = list_pods(w, w->is_complete ? PODS_CHANGED : PODS_PRESENT, NULL);
        w->relist_usec = r < 0 ? now_usec(CLOCK_MONOTONIC) + USEC_PER_SEC : 0;
        if (r < 0)
                watch_arm(w);
        else if (!w->is_complete) {
                w->is_complete = true;
                watch_tell(w, PODS_COMPLETE, NULL, NULL);
        }
}

static int on_start(sd_event_source *source, void *userdata)
{
        catch_up(userdata);
        return 0;
}

/* --- Notifications ------------------------------------------------------------------------------------- */

static void take_notification(PodsWatch *w, const struct inotify_event *v)
{
        if (v->mask & IN_Q_OVERFLOW)
                catch_up(w);
        if (v->len == 0 || uuid_check(v->name, NULL) < 0)
                return;
        WatchedPod *p = find_pod(w, v->name);
        if (v->mask & IN_DELETE) {
                if (p)
                        remove_pod(p);
                return;
        }
        for (size_t i = 0; i < ELEMENTSOF(places); i++)
                if (w->places[places[i]] == v->wd && (p || (p = add_pod(w, v->name))))
                        advance(p, places[i], NULL, PODS_CHANGED);
}

static int on_notifications(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        _Alignas(struct inotify_event) char buffer[16384];
        PodsWatch *w = userdata;
        ssize_t n = read(fd, buffer, sizeof(buffer));

        for (char *at = buffer; n > 0 && at < buffer + n;) {
                const struct inotify_event *v = (const struct inotify_event *) (void *) at;
                take_notification(w, v);
                at += sizeof(*v) + v->len;
        }
        return 0;
}

static int watch_places(PodsWatch *w, Error *e)
{
        w->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        if (w->fd < 0)
                return error_set_errno(e, -errno, "Cannot create an inotify instance");
        for (size_t i = 0; i < ELEMENTSOF(places); i++) {
                _cleanup_free_ char *path = NULL;
                const char *name = pod_state_to_string(places[i]);

                if (xasprintf(&path, "%s/pods/%s", store_path(w->store), name) < 0)
                        return error_oom(e);
                w->places[places[i]] = inotify_add_watch(w->fd, path, MASK);
                if (w->places[places[i]] < 0)
                        return error_set_errno(e, -errno, "Cannot watch %s", path);
        }
        return 0;
}

/* --- The timer ----------------------------------------------------------------------------------------- */

/* A supervisor opens its interface some milliseconds after the pod has begun to run. */
static uint64_t retry_usec(const WatchedPod *p, uint64_t now)
{
        uint64_t age = now - p->since_usec;

        return age < USEC_PER_SEC ? 10000 : age < 10 * USEC_PER_SEC ? 100000 : USEC_PER_SEC;
}

/* The time until the pod has to be checked again; UINT64_MAX: events will report changes. */
static uint64_t due_usec(const WatchedPod *p, uint64_t now)
{
        if (p->ending || (p->state == POD_RUNNING && !p->client))
                return retry_usec(p, now);
        return p->state == POD_PREPARING ? USEC_PER_SEC : UINT64_MAX;
}

void watch_arm(PodsWatch *w)
{
        uint64_t now = now_usec(CLOCK_MONOTONIC), due = UINT64_MAX;

        if (w->relist_usec > 0)
                due = w->relist_usec > now ? w->relist_usec - now : 0;
        for (const WatchedPod *p = w->pods; p; p = p->next)
                due = MIN(due, due_usec(p, now));
        if (due == UINT64_MAX)
                return;
        (void) sd_event_source_set_time_relative(w->timer, due);
        (void) sd_event_source_set_enabled(w->timer, SD_EVENT_ONESHOT);
}

/* Whether the process that prepares or runs the pod has ended. */
static void check_process(WatchedPod *p)
{
        _cleanup_(pod_freep) Pod *pod = NULL;

        if (pod_look(p->watch->store, p->uuid, &pod, NULL) < 0)
                return;
        if (pod->state == POD_ABORTED_PREPARE)
                watch_tell_state(p, pod_state_to_string(pod->state));
        else if (pod->state == POD_EXITED && pod->place == POD_RUNNING && p->state == POD_RUNNING)
                watch_pod_ended(p);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
        PodsWatch *w = userdata;
        uint64_t now = now_usec(CLOCK_MONOTONIC);

        if (w->relist_usec > 0 && now >= w->relist_usec)
                catch_up(w);
        for (WatchedPod *p = w->pods; p; p = p->next) {
                if (p->ending && now - p->since_usec > 2 * USEC_PER_SEC)
                        watch_pod_ended(p);
                else if (p->state == POD_RUNNING && !p->client)
                        watch_connect(p);
                if (p->state == POD_PREPARING || (p->state == POD_RUNNING && !p->client))
                        check_process(p);
        }
        watch_arm(w);
        return 0;
}

/* --- Beginning and end --------------------------------------------------------------------------------- */

PodsWatch *pods_watch_free(PodsWatch *w)
{
        if (!w)
                return NULL;
        while (w->pods)
                drop_pod(w->pods);
        sd_event_source_disable_unref(w->io);
        sd_event_source_disable_unref(w->timer);
        sd_event_source_disable_unref(w->start);
        safe_close(w->fd);
        free(w);
        return NULL;
}

int pods_watch_new(Store *s, sd_event *event, void (*function)(const PodsEvent *v, void *userdata),
                   void *userdata, PodsWatch **ret, Error *e)
{
        _cleanup_(pods_watch_freep) PodsWatch *w = NULL;
        int r = library_load(&systemd_library, e);

        if (r < 0)
                return r;
        w = calloc(1, sizeof(PodsWatch));
        if (!w)
                return error_oom(e);
        *w = (PodsWatch){.store = s,
                         .event = event,
                         .function = function,
                         .userdata = userdata,
                         .fd = -EBADF};
        r = watch_places(w, e);
        if (r < 0)
                return r;
        r = sd_event_add_io(event, &w->io, w->fd, EPOLLIN, on_notifications, w);
        if (r >= 0)
                r = sd_event_add_time_relative(event, &w->timer, CLOCK_MONOTONIC, 0, 1000, on_timer, w);
        if (r >= 0)
                r = sd_event_source_set_enabled(w->timer, SD_EVENT_OFF);
        if (r >= 0)
                r = sd_event_add_defer(event, &w->start, on_start, w);
        /* Before the first notification is read. */
        if (r >= 0)
                r = sd_event_source_set_priority(w->start, -1);
        if (r < 0)
                return error_set_errno(e, r, "Cannot watch the pods of the store %s", store_path(s));
        *ret = TAKE_PTR(w);
        return 0;
}
