/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn monitor: the events of a running pod, a line for each, until it ends; or those of all pods. */

#include "stage0/verbs/pod-words.h"
#include "stage0/pods/pods.h"

#include <signal.h>

typedef struct Arguments {
        uint64_t since;
} Arguments;

static const Option options[] = {
                {"Options", "since", 'S', "NUMBER", false,
                 "Show the events after this one first (0: all that are still known)", NULL, option_u64,
                 offsetof(Arguments, since)},
                OPTION_END,
};

/* --- As text ------------------------------------------------------------------------------------------- */

static void add_end(Text *t, const AcnApp *app)
{
        const char *name = app->signal > 0 ? sigabbrev_np(app->signal) : NULL;

        if (name)
                text_addf(t, ", signal %s", name);
        else if (app->signal > 0)
                text_addf(t, ", signal %d", app->signal);
        else
                text_addf(t, ", status %d", app->exit_code);
        _cleanup_free_ char *message = app->message ? text_escape_for_terminal(app->message) : NULL;
        if (message)
                text_addf(t, ": %s", message);
}

static void add_app(Text *t, const AcnApp *app)
{
        text_addf(t, " app %s %s", app->name, acn_app_state_to_string(app->state));
        if (app->state == ACN_APP_EXITED)
                add_end(t, app);
        else if (app->state == ACN_APP_RUNNING && app->tells_readiness)
                text_add(t, app->ready ? ", ready" : ", not ready yet");
        if (app->state == ACN_APP_RUNNING && app->health && !streq(app->health, "starting"))
                text_addf(t, ", %s", app->health);
}

static void add_change(Text *t, const AcnEvent *v)
{
        _cleanup_free_ char *image = v->app.image ? text_escape_for_terminal(v->app.image) : NULL,
                            *message = v->message ? text_escape_for_terminal(v->message) : NULL;

        text_addf(t, " app %s ", v->app.name ?: "");
        if (streq(v->change, "rolledBack"))
                text_addf(t, "rolled back to image %s%s%s", image ?: "", message ? ": " : "", message ?: "");
        else if (streq(v->change, "replaced"))
                text_addf(t, "replaced, image %s", image ?: "");
        else
                text_addf(t, "being replaced, image %s", image ?: "");
}

static int show_text(Context *c, const AcnEvent *v)
{
        _cleanup_text_ Text t = {};

        text_add_moment(&t, v->time_usec);
        text_addf(&t, " %llu", (unsigned long long) v->sequence);
        if (v->change)
                add_change(&t, v);
        else if (v->app.name)
                add_app(&t, &v->app);
        else
                text_addf(&t, " pod %s", acn_pod_state_to_string(v->state));
        if (!v->app.name && v->exit_status >= 0)
                text_addf(&t, ", status %d", v->exit_status);
        text_add(&t, "\n");
        return t.failed ? error_oom(&c->error) : context_show_text(c, t.data);
}

/* --- As JSON ------------------------------------------------------------------------------------------- */

static int add_number(json_object *o, const char *key, int64_t value, bool known)
{
        return known ? json_member_add(o, key, json_object_new_int64(value)) : 0;
}

static json_object *app_json(const AcnApp *app)
{
        json_object *o = json_object_new_object();
        bool exited = app->state == ACN_APP_EXITED;

        if (json_member_add_text(o, "name", app->name) >= 0 &&
            json_member_add_text(o, "state", acn_app_state_to_string(app->state)) >= 0 &&
            add_number(o, "starts", (int64_t) app->starts, true) >= 0 &&
            (!app->tells_readiness ||
             json_member_add(o, "ready", json_object_new_boolean(app->ready)) >= 0) &&
            (!app->health || json_member_add_text(o, "health", app->health) >= 0) &&
            add_number(o, "exitStatus", app->exit_status, exited && app->exit_status >= 0) >= 0 &&
            add_number(o, "signal", app->signal, exited && app->signal > 0) >= 0 &&
            add_number(o, "exitCode", app->exit_code, exited) >= 0 &&
            (!app->cause || json_member_add_text(o, "cause", app->cause) >= 0) &&
            (!app->message || json_member_add_text(o, "message", app->message) >= 0) &&
            (!app->task || json_member_add_text(o, "task", app->task) >= 0) &&
            (!app->reason || json_member_add_text(o, "reason", app->reason) >= 0))
                return o;
        json_object_put(o);
        return NULL;
}

static int show_json(Context *c, const AcnEvent *v)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        if (add_number(o, "sequence", (int64_t) v->sequence, true) < 0 ||
            add_number(o, "timeUSec", (int64_t) v->time_usec, v->time_usec > 0) < 0 ||
            json_member_add_text(o, "state", acn_pod_state_to_string(v->state)) < 0 ||
            (v->app.name && json_member_add(o, "app", app_json(&v->app)) < 0) ||
            (v->change && json_member_add_text(o, "change", v->change) < 0) ||
            (v->message && json_member_add_text(o, "message", v->message) < 0) ||
            add_number(o, "exitStatus", v->exit_status, v->exit_status >= 0) < 0)
                return error_oom(&c->error);
        return context_show_json(c, o);
}

/* --- The verb ------------------------------------------------------------------------------------------ */

/* A reader gets each event when it happens. */
static int follow(Context *c, AcnPod *pod)
{
        for (;;) {
                _cleanup_(acn_event_done) AcnEvent event = {};

                int r = acn_monitor_next(pod, UINT64_MAX, &event, &c->error);
                if (r <= 0)
                        return r;
                r = c->json != JSON_OFF ? show_json(c, &event) : show_text(c, &event);
                if (r >= 0)
                        r = context_flush(c);
                if (r == -EPIPE) {
                        clearerr(stdout); /* a reader that has left needs no message */
                        error_done(&c->error);
                        return EXIT_STATUS_FAILURE;
                }
                if (r < 0)
                        return r;
        }
}

static int monitor_pod(Context *c, const char *reference, uint64_t since)
{
        _cleanup_(acn_disconnectp) AcnPod *pod = NULL;
        _cleanup_(pod_freep) Pod *p = NULL;

        int r = context_find_pod(c, reference, &p);
        if (r < 0)
                return r;
        r = acn_connect(p, &pod, &c->error);
        if (r < 0)
                return r;
        r = acn_monitor(pod, since, &c->error);
        return r < 0 ? r : follow(c, pod);
}

/* --- All pods ------------------------------------------------------------------------------------------ */

typedef struct AllPods {
        Context *context;
        sd_event *event;
        int result;
} AllPods;

static const char *text_of(json_object *o, const char *key)
{
        json_object *v = json_object_object_get(o, key);

        return json_object_is_type(v, json_type_string) ? json_object_get_string(v) : NULL;
}

static int add_app_of_pod(Text *t, json_object *o)
{
        AcnApp app = {};
        int r = acn_app_read(o, &app);

        if (r >= 0)
                add_app(t, &app);
        acn_app_done(&app);
        return r == -EBADMSG ? 0 : r; /* of a supervisor of another version */
}

static int show_pods_text(Context *c, const PodsEvent *v)
{
        const char *name = text_of(v->pod, "name") ?: text_of(v->pod, "uuid");
        json_object *status = json_object_object_get(v->pod, "exitStatus");
        _cleanup_text_ Text t = {};

        text_add_moment(&t, v->time_usec);
        text_addf(&t, " %llu", (unsigned long long) v->sequence);
        if (v->kind == PODS_COMPLETE)
                text_add(&t, " complete");
        else
                text_addf(&t, " pod %s", name ?: "");
        if (v->kind == PODS_APP && add_app_of_pod(&t, v->app) < 0)
                return error_oom(&c->error);
        if (v->kind == PODS_REMOVED)
                text_add(&t, " removed");
        if (v->kind == PODS_PRESENT || v->kind == PODS_CHANGED)
                text_addf(&t, " %s", text_of(v->pod, "state") ?: "");
        if (v->kind == PODS_CHANGED && status)
                text_addf(&t, ", status %d", json_object_get_int(status));
        text_add(&t, "\n");
        return t.failed ? error_oom(&c->error) : context_show_text(c, t.data);
}

static void on_pods_event(const PodsEvent *v, void *userdata)
{
        AllPods *a = userdata;
        Context *c = a->context;

        if (a->result < 0 || v->kind == PODS_APPS)
                return;
        _cleanup_json_ json_object *o = c->json != JSON_OFF ? pods_event_to_json(v) : NULL;
        a->result = c->json != JSON_OFF ? context_show_json(c, o) : show_pods_text(c, v);
        if (a->result >= 0)
                a->result = context_flush(c);
        if (a->result < 0)
                (void) sd_event_exit(a->event, 0);
}

static int monitor_all(Context *c)
{
        _cleanup_(pods_watch_freep) PodsWatch *w = NULL;
        AllPods a = {.context = c};

        int r = library_load(&systemd_library, &c->error);
        if (r < 0)
                return r;
        r = sd_event_new(&a.event);
        if (r < 0)
                return error_set_errno(&c->error, r, "Cannot make an event loop");
        r = pods_watch_new(c->store, a.event, on_pods_event, &a, &w, &c->error);
        if (r >= 0 && (r = sd_event_loop(a.event)) < 0)
                (void) error_set_errno(&c->error, r, "The event loop failed");
        w = pods_watch_free(w);
        sd_event_unref(a.event);
        if (r < 0 || a.result != -EPIPE)
                return MIN(r, 0) ?: a.result;
        clearerr(stdout); /* a reader that has left needs no message */
        error_done(&c->error);
        return EXIT_STATUS_FAILURE;
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.max = 1, .what = A_POD};
        Arguments a = {.since = UINT64_MAX};

        int r = context_parse(c, options, &a, argc, argv, &words);
        if (r <= 0)
                return r;
        if (words.n == 0 && a.since != UINT64_MAX)
                return context_usage(c, "--since= is for a single pod, whose events have lasting numbers");
        r = words.n > 0 ? context_open_existing_store_as_root(c) : context_open_store_as_root(c);
        if (r < 0)
                return r;
        return words.n > 0 ? monitor_pod(c, words.list[0], a.since) : monitor_all(c);
}

const Verb verb_monitor = {
                .name = "monitor",
                .also = "events",
                .page = "acnspawn-status",
                .synopsis = "[OPTIONS…] [POD]",
                .brief = "[POD]",
                .summary = "Show events of a running pod, or of all pods",
                .text = "Shows what happens in the pod, a line for each event, until the pod ends: apps "
                        "that start, become ready, stop and exit, and changes of the pod itself. Without a "
                        "pod shows all pods as they are, and from then on what happens to any of them. Each "
                        "event has a number. With --json each is an object on a line of its own. 'events' "
                        "is the same command.",
                .words = "pod:running,paused",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
