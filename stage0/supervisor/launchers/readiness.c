/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which apps of a pod are up.
 *
 * An app with readiness messages or a health check is ready when its launcher reports that. Every other app
 * is ready when it was executed: its launcher keeps its connection to the supervisor until the exec, which
 * closes it. If the exec fails, the launcher has reported why before the connection ends. If it does not get
 * that far (its pre-start handler failed, for one), the app ends.
 *
 * An app that is started by a connection is not waited for. */

#include <poll.h>

#include "stage0/supervisor/apps/app-life.h"
#include "stage0/supervisor/apps/state-table.h"
#include "stage0/supervisor/launchers/readiness.h"
#include "stage1/backoff.h"

typedef enum WaitState {
        WAIT_NONE, /* not waited for */
        WAIT_STARTING,
        WAIT_READY,
        WAIT_AGAIN,   /* could not be executed, and will be restarted */
        WAIT_FAILED,  /* will not become ready */
        WAIT_STOPPED, /* was stopped first: the start of the pod does not wait for it */
        _WAIT_STATE_MAX,
} WaitState;

typedef enum WaitEvent {
        APP_AWAITED, /* the pod is not up before it is */
        APP_READY,
        APP_STARTS_AGAIN, /* it could not be executed, and is restarted */
        APP_FAILED,
        APP_STOPPED,
        APP_REMOVED,
        _WAIT_EVENT_MAX,
} WaitEvent;

static const char *const states[_WAIT_STATE_MAX] = {
                [WAIT_NONE] = "none",   [WAIT_STARTING] = "starting", [WAIT_READY] = "ready",
                [WAIT_AGAIN] = "again", [WAIT_FAILED] = "failed",     [WAIT_STOPPED] = "stopped",
};

static const char *const events[_WAIT_EVENT_MAX] = {
                [APP_AWAITED] = "awaited", [APP_READY] = "ready",     [APP_STARTS_AGAIN] = "starts-again",
                [APP_FAILED] = "failed",   [APP_STOPPED] = "stopped", [APP_REMOVED] = "removed",
};

/* An app that was ready once stays so: what happens to it later does not matter for the start of the pod. One that is added later is not
 * awaited. */
static const StateTransition transitions[_WAIT_STATE_MAX][_WAIT_EVENT_MAX] = {
                [WAIT_NONE] = {[APP_AWAITED] = {WAIT_STARTING, STATE_ONLY},
                               [APP_READY] = {WAIT_NONE, STATE_ONLY},
                               [APP_STARTS_AGAIN] = {WAIT_NONE, STATE_ONLY},
                               [APP_FAILED] = {WAIT_NONE, STATE_ONLY},
                               [APP_STOPPED] = {WAIT_NONE, STATE_ONLY},
                               [APP_REMOVED] = {WAIT_NONE, STATE_ONLY}},
                [WAIT_STARTING] = {[APP_READY] = {WAIT_READY, STATE_ONLY},
                                   [APP_STARTS_AGAIN] = {WAIT_AGAIN, STATE_ONLY},
                                   [APP_FAILED] = {WAIT_FAILED, STATE_ONLY},
                                   [APP_STOPPED] = {WAIT_STOPPED, STATE_ONLY},
                                   [APP_REMOVED] = {WAIT_NONE, STATE_ONLY}},
                [WAIT_READY] = {[APP_READY] = {WAIT_READY, STATE_ONLY},
                                [APP_STARTS_AGAIN] = {WAIT_READY, STATE_ONLY},
                                [APP_FAILED] = {WAIT_READY, STATE_ONLY},
                                [APP_STOPPED] = {WAIT_READY, STATE_ONLY},
                                [APP_REMOVED] = {WAIT_NONE, STATE_ONLY}},
                [WAIT_AGAIN] = {[APP_READY] = {WAIT_READY, STATE_ONLY},
                                [APP_STARTS_AGAIN] = {WAIT_AGAIN, STATE_ONLY},
                                [APP_FAILED] = {WAIT_FAILED, STATE_ONLY},
                                [APP_STOPPED] = {WAIT_STOPPED, STATE_ONLY},
                                [APP_REMOVED] = {WAIT_NONE, STATE_ONLY}},
                /* It may be started by a call. */
                [WAIT_FAILED] = {[APP_READY] = {WAIT_READY, STATE_ONLY},
                                 [APP_STARTS_AGAIN] = {WAIT_FAILED, STATE_ONLY},
                                 [APP_FAILED] = {WAIT_FAILED, STATE_ONLY},
                                 [APP_STOPPED] = {WAIT_FAILED, STATE_ONLY},
                                 [APP_REMOVED] = {WAIT_NONE, STATE_ONLY}},
                [WAIT_STOPPED] = {[APP_READY] = {WAIT_READY, STATE_ONLY},
                                  [APP_STARTS_AGAIN] = {WAIT_STOPPED, STATE_ONLY},
                                  [APP_FAILED] = {WAIT_FAILED, STATE_ONLY},
                                  [APP_STOPPED] = {WAIT_STOPPED, STATE_ONLY},
                                  [APP_REMOVED] = {WAIT_NONE, STATE_ONLY}},
};

static const StateTable table = STATE_TABLE("wait", states, events, transitions);

typedef struct AppWait AppWait;

struct AppWait {
        Readiness *all;
        AppInstance *app;
        WaitState state;
        bool reports; /* readiness is reported by the app, or by its health check */
        char *why;    /* why it could not be executed; or NULL */
        int link_fd;  /* the connection of its launcher, until the exec; or -EBADF */
        sd_event_source *link_source;
        int exec_fd; /* the connection of a launcher that waits for the exec; or -EBADF */
        void (*answer)(int sock);
};

struct Readiness {
        Pod *pod;
        sd_event *event;
        void (*changed)(void *userdata, AppInstance *app);
        void *userdata;
        AppTable *apps;
        size_t n[_WAIT_STATE_MAX];      /* how many are in each state */
        size_t n_reporting, n_reported; /* apps that report readiness, and those that have done so */
};

static void handle(AppWait *w, WaitEvent event)
{
        const StateTransition *t = state_table_find(&table, w->state, event);
        Readiness *r = w->all;

        if (!t)
                return;
        r->n[w->state]--;
        r->n[t->to]++;
        r->n_reported += (w->reports && t->to == WAIT_READY) - (w->reports && w->state == WAIT_READY);
        w->state = t->to;
}

static void drop_link(AppWait *w)
{
        w->link_source = sd_event_source_disable_unref(w->link_source);
        w->link_fd = safe_close(w->link_fd);
}

Readiness *readiness_free(Readiness *r)
{
        if (!r)
                return NULL;
        FOREACH_APP(app, r->apps)
        readiness_remove_app(app);
        free(r);
        return NULL;
}

int readiness_add_app(Readiness *r, AppInstance *app)
{
        app->wait = calloc(1, sizeof(AppWait));
        if (!app->wait)
                return -ENOMEM;
        *app->wait = (AppWait){.all = r, .app = app, .link_fd = -EBADF, .exec_fd = -EBADF};
        r->n[WAIT_NONE]++;
        return 0;
}

void readiness_remove_app(AppInstance *app)
{
        AppWait *w = app->wait;

        if (!w)
                return;
        handle(w, APP_REMOVED);
        w->all->n[WAIT_NONE]--;
        w->all->n_reporting -= w->reports;
        drop_link(w);
        safe_close(w->exec_fd);
        free(w->why);
        app->wait = (free(w), NULL);
}

/* The pod is not up before this app is, unless connections start it. */
static void wait_for_app(AppWait *w)
{
        if (stage1_app_is_socket_activated(w->app->app))
                return;
        w->reports = app_settings_readiness(&w->app->settings);
        w->all->n_reporting += w->reports;
        handle(w, APP_AWAITED);
}

int readiness_new(Pod *p, AppTable *apps, sd_event *event, void (*changed)(void *userdata, AppInstance *app),
                  void *userdata, Readiness **ret, Error *e)
{
        _cleanup_(readiness_freep) Readiness *r = calloc(1, sizeof(Readiness));

        if (!r)
                return error_oom(e);
        *r = (Readiness){.pod = p, .apps = apps, .event = event, .changed = changed, .userdata = userdata};
        FOREACH_APP(app, apps)
        {
                if (readiness_add_app(r, app) < 0)
                        return error_oom(e);
                wait_for_app(app->wait);
        }
        *ret = TAKE_PTR(r);
        return 0;
}

bool readiness_is_used(const Readiness *r)
{
        return r->n_reporting > 0;
}

bool readiness_awaits_reports(const Readiness *r)
{
        FOREACH_APP(app, r->apps)
        if (app->wait->reports && app->wait->state == WAIT_STARTING)
                return true;
        return false;
}

/* By its exit policy, or as nothing is left that runs. */
static bool pod_ends(const Readiness *r)
{
        ExitPolicy policy = r->pod->config.exit_policy;
        size_t n_gone = r->n[WAIT_FAILED] + r->n[WAIT_STOPPED];

        if (n_gone == 0 || exit_policy_is_open(policy))
                return false;
        if (n_gone == r->apps->n)
                return true;
        return policy != EXIT_ON_ALL && (policy == EXIT_ON_ANY || r->n[WAIT_FAILED] > 0);
}

bool readiness_is_settled(const Readiness *r)
{
        return r->n[WAIT_STARTING] == 0 && !pod_ends(r);
}

bool readiness_is_complete(const Readiness *r)
{
        return r->n[WAIT_NONE] + r->n[WAIT_READY] == r->apps->n;
}

static bool will_start_again(const AppWait *w)
{
        if (w->app->stop == STOP_TO_RESTART)
                return true;
        if (app_was_stopped(w->app))
                return false;
        return backoff_restarts(&w->app->status, &w->app->settings);
}

/* --- Being executed ------------------------------------------------------------------------------------ */

/* What has happened to an app that will not become ready: a stop by a call is not a failure. */
static WaitEvent why_not_ready(const AppWait *w)
{
        StopReason stop = w->app->stop;

        return stop == STOP_NONE || stop == STOP_KILLED || stop == STOP_POD_ENDED ? APP_FAILED : APP_STOPPED;
}

/* ENDED: no process of the app is left, so its status is final. */
static void judge_start(AppWait *w, bool ended)
{
        const AppStatus *s = &w->app->status;

        if (s->started_usec > 0)
                handle(w, APP_READY);
        else if (ended || s->cause != CAUSE_NONE) {
                free(w->why);
                w->why = s->message ? strdup(s->message) : NULL;
                handle(w, will_start_again(w) ? APP_STARTS_AGAIN : why_not_ready(w));
        }
}

/* Notifies the launcher that waits; if the app could not be executed, its connection is closed, which it
 * takes as a failure. */
static void answer_exec(AppWait *w)
{
        if (w->exec_fd >= 0 && w->app->status.state == APP_RUNNING && w->app->status.cause == CAUSE_NONE)
                w->answer(w->exec_fd);
        w->exec_fd = safe_close(w->exec_fd);
}

static void link_gone(AppWait *w)
{
        Readiness *r = w->all;

        drop_link(w);
        app_life_take_report(w->app);
        if (!w->reports)
                judge_start(w, false);
        answer_exec(w);
        r->changed(r->userdata, w->app);
}

static int on_link(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        link_gone(userdata);
        return 0;
}

void readiness_settle(AppInstance *app)
{
        struct pollfd p = {.fd = app->wait ? app->wait->link_fd : -EBADF, .events = POLLIN};

        if (p.fd >= 0 && poll(&p, 1, 0) > 0)
                link_gone(app->wait);
}

int readiness_await_exec(AppInstance *app, int sock, void (*answer)(int sock))
{
        AppWait *w = app->wait;

        readiness_settle(app);
        safe_close(w->exec_fd);
        w->exec_fd = fcntl(sock, F_DUPFD_CLOEXEC, 3);
        if (w->exec_fd < 0)
                return -errno;
        w->answer = answer;
        if (w->link_fd < 0 && app->status.state == APP_RUNNING)
                answer_exec(w);
        return 0;
}

void readiness_launched(Readiness *r, AppInstance *app, int fd)
{
        AppWait *w = app->wait;

        drop_link(w);
        w->link_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        if (w->link_fd < 0 ||
            sd_event_add_io(r->event, &w->link_source, w->link_fd, EPOLLIN, on_link, w) < 0) {
                drop_link(w);
                if (!w->reports)
                        handle(w, APP_READY); /* its end will be seen */
        }
}

/* --- The state of the app ------------------------------------------------------------------------------- */

void readiness_reported(AppInstance *app)
{
        AppWait *w = app->wait;

        handle(w, APP_READY);
}

void readiness_ended(AppInstance *app)
{
        AppWait *w = app->wait;

        w->exec_fd = safe_close(w->exec_fd);
        if (!w->reports)
                judge_start(w, true);
        else if (app->status.readiness != READINESS_READY && !will_start_again(w))
                handle(w, why_not_ready(w));
}

void readiness_down(AppInstance *app)
{
        AppWait *w = app->wait;

        if (w && (w->state == WAIT_STARTING || w->state == WAIT_AGAIN))
                handle(w, why_not_ready(w));
}

/* --- Text ---------------------------------------------------------------------------------------------- */

static void describe_end(Text *t, const AppStatus *s)
{
        if (s->started_usec == 0)
                text_add(t, " could not be started");
        else if (s->exit_status >= 0)
                text_addf(t, " has ended with exit status %d", s->exit_status);
        else if (s->cause == CAUSE_SIGNAL)
                text_addf(t, " was ended by SIG%s", sigabbrev_np(s->signal) ?: "?");
        else
                text_add(t, " has ended");
}

static void describe_app(Text *t, const AppWait *w)
{
        const AppStatus *s = &w->app->status;
        const HealthStatus *h = &w->app->health;
        _cleanup_free_ char *shown = NULL;

        text_addf(t, "%sapp %s", t->size > 0 ? "; " : "", w->app->name);
        if (w->why) {
                shown = text_escape_for_terminal(w->why);
                text_addf(t, " could not be started%s: %s",
                          w->state == WAIT_AGAIN ? ", and is started again" : "", shown ?: "");
                return;
        }
        if (w->state == WAIT_STOPPED)
                text_add(t, " was stopped before it was ready");
        else if (s->state == APP_ENDED)
                describe_end(t, s);
        else
                text_add(t, s->state == APP_RUNNING ? " is still starting" : " does not run yet");
        if (w->app->check != CHECK_NONE && h->last.ran)
                text_add(t,
                         h->last.timed_out ? ", its health check timed out" : ", its health check failed");
        shown = text_escape_for_terminal(h->message ?: s->message ?: "");
        if (!isempty(shown))
                text_addf(t, " (%s)", shown);
}

int readiness_describe(Readiness *r, char **ret)
{
        _cleanup_text_ Text t = {};

        FOREACH_APP(app, r->apps)
        if (app->wait->state != WAIT_NONE && app->wait->state != WAIT_READY)
                describe_app(&t, app->wait);
        return text_take(&t, ret, NULL);
}

int readiness_summary(const Readiness *r, char **ret)
{
        size_t n = r->apps->n;

        return xasprintf(ret, "%zu of %zu app%s ready", n - (r->n_reporting - r->n_reported), n,
                         n == 1 ? " is" : "s are");
}
