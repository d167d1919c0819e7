/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn monitor: the events of a running pod, a line for each, until it ends. */

#include "stage0/pod-words.h"

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
}

static int show_text(Context *c, const AcnEvent *v)
{
        _cleanup_text_ Text t = {};

        text_add_moment(&t, v->time_usec);
        text_addf(&t, " %llu", (unsigned long long) v->sequence);
        if (v->app.name)
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
            add_number(o, "exitStatus", app->exit_status, exited && app->exit_status >= 0) >= 0 &&
            add_number(o, "signal", app->signal, exited && app->signal > 0) >= 0 &&
            add_number(o, "exitCode", app->exit_code, exited) >= 0 &&
            (!app->cause || json_member_add_text(o, "cause", app->cause) >= 0) &&
            (!app->message || json_member_add_text(o, "message", app->message) >= 0))
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

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 1, .max = 1, .what = A_POD};
        _cleanup_(acn_disconnectp) AcnPod *pod = NULL;
        _cleanup_(pod_freep) Pod *p = NULL;
        Arguments a = {.since = UINT64_MAX};

        int r = context_parse(c, options, &a, argc, argv, &words);
        if (r <= 0)
                return r;
        r = context_open_existing_store_as_root(c);
        if (r < 0)
                return r;
        r = context_find_pod(c, words.list[0], &p);
        if (r < 0)
                return r;
        r = acn_connect(p, &pod, &c->error);
        if (r < 0)
                return r;
        r = acn_monitor(pod, a.since, &c->error);
        return r < 0 ? r : follow(c, pod);
}

const Verb verb_monitor = {
                .name = "monitor",
                .page = "acnspawn-status",
                .synopsis = "[OPTIONS…] POD",
                .brief = "POD",
                .summary = "Show events of a running pod",
                .text = "Shows what happens in the pod, a line for each event, until the pod ends: apps "
                        "that "
                        "start, become ready, stop and exit, and changes of the pod itself. Each event has "
                        "a "
                        "number. With --json each is an object on a line of its own.",
                .words = "pod:running,paused",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
