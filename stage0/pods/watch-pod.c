/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A running pod in the watch of all pods: events of its supervisor, by the interface org.acnspawn.Pod.
 * Nothing here blocks.
 *
 * If the start of a pod was observed, all of its events are read, from the first one on. For another pod the
 * state of its apps is read first, and then the events after that state. The end of the connection is the
 * end of the pod, or of its supervisor; if the pod still runs, the next connection continues after the last
 * event. */

#include <sys/epoll.h>
#include <sys/socket.h>

#include "stage0/pods/watch-internal.h"

#define SOCKET_NAME "interface"

void watch_disconnect(WatchedPod *p)
{
        p->io = sd_event_source_disable_unref(p->io);
        p->client = varlink_client_free(p->client);
        p->step = STEP_NONE;
}

/* The events after the last known one. */
static int ask_events(WatchedPod *p)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        if (json_member_add(o, "since", json_object_new_uint64(p->sequence)) < 0)
                return -ENOMEM;
        p->step = STEP_MONITOR;
        return varlink_client_send(p->client, "org.acnspawn.Pod.Monitor", o, true, NULL);
}

static int ask_description(WatchedPod *p)
{
        p->step = STEP_DESCRIBE;
        return varlink_client_send(p->client, "org.acnspawn.Pod.Describe", NULL, false, NULL);
}

/* --- Replies ------------------------------------------------------------------------------------------- */

static const char *text_of(json_object *o, const char *key)
{
        json_object *v = json_object_object_get(o, key);

        return json_object_is_type(v, json_type_string) ? json_object_get_string(v) : NULL;
}

/* "exited" is reported when the pod was moved to the ended ones. */
static void take_state(WatchedPod *p, json_object *o)
{
        const char *state = text_of(o, "state");

        if (state && !streq(state, "exited"))
                watch_tell_state(p, state);
}

static int take_sequence(WatchedPod *p, json_object *o)
{
        json_object *sequence = json_object_object_get(o, "sequence");

        if (!json_object_is_type(sequence, json_type_int) || json_object_get_int64(sequence) < 0)
                return -EBADMSG;
        p->sequence = json_object_get_uint64(sequence);
        p->knows_events = true;
        return 0;
}

static int take_description(WatchedPod *p, json_object *o)
{
        json_object *apps = json_object_object_get(o, "apps");
        int r = take_sequence(p, o);

        if (r < 0)
                return r;
        take_state(p, o);
        for (size_t i = 0; json_object_is_type(apps, json_type_array) && i < json_object_array_length(apps);
             i++)
                watch_tell(p->watch, PODS_APP, p, json_object_array_get_idx(apps, i));
        if (json_object_is_type(apps, json_type_array))
                watch_tell(p->watch, PODS_APPS, p, apps);
        return ask_events(p);
}

static int take_event(WatchedPod *p, const VarlinkReply *reply)
{
        json_object *app = json_object_object_get(reply->parameters, "app");
        int r = take_sequence(p, reply->parameters);

        if (r < 0)
                return r;
        take_state(p, reply->parameters);
        if (json_object_is_type(app, json_type_object))
                watch_tell(p->watch, PODS_APP, p, app);
        return reply->continues ? 0 : -ESHUTDOWN;
}

/* If events are not kept any more, the state is read instead. */
static int take_reply(WatchedPod *p, const VarlinkReply *reply)
{
        if (reply->error)
                return streq(reply->error, "org.acnspawn.Pod.EventsLost") ? ask_description(p) : -EREMOTEIO;
        return p->step == STEP_DESCRIBE ? take_description(p, reply->parameters) : take_event(p, reply);
}

static int on_supervisor(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        WatchedPod *p = userdata;
        int r;

        do {
                _cleanup_(varlink_reply_done) VarlinkReply reply = {};
                r = varlink_client_next(p->client, 0, &reply, NULL);
                if (r >= 0)
                        r = take_reply(p, &reply);
        } while (r >= 0);
        if (r == -ETIMEDOUT)
                return 0;
        watch_disconnect(p);
        if (p->ending)
                watch_pod_ended(p);
        else
                watch_arm(p->watch);
        return 0;
}

/* --- Connecting ---------------------------------------------------------------------------------------- */

static int connect_to(WatchedPod *p)
{
        _cleanup_(pod_freep) Pod *pod = NULL;
        int fd, r = pod_look(p->watch->store, p->uuid, &pod, NULL);

        if (r >= 0)
                r = socket_connect_at(pod->dir_fd, SOCKET_NAME, SOCK_STREAM | SOCK_NONBLOCK, &fd);
        if (r >= 0)
                r = varlink_client_new(fd, NULL, &p->client);
        if (r < 0)
                return r;
        r = p->knows_events ? ask_events(p) : ask_description(p);
        return r < 0 ? r
                     : sd_event_add_io(p->watch->event, &p->io, varlink_client_fd(p->client), EPOLLIN,
                                       on_supervisor, p);
}

void watch_connect(WatchedPod *p)
{
        if (connect_to(p) < 0)
                watch_disconnect(p);
}
