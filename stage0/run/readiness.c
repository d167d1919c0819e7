/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which apps of a pod are up.
 *
 * An app that says when it is ready, or has a health check, is ready when its launcher reports that. Every
 * other app is ready when it was executed: its launcher keeps its connection to the supervisor until the
 * exec, which closes it. If the exec fails, the app's record says why before the connection ends. A launcher
 * that does not get that far (its pre-start handler failed, for one) is followed by the one that reports the
 * end of the app.
 *
 * An app that is started by a connection is not waited for.
 */

#include "stage0/run/readiness.h"
#include "stage1/backoff.h"

typedef enum WaitState {
        WAIT_NONE, /* not waited for */
        WAIT_STARTING,
        WAIT_READY,
        WAIT_AGAIN,  /* could not be executed, and will be started again */
        WAIT_FAILED, /* will not become ready */
        _WAIT_STATE_MAX,
} WaitState;

typedef struct AppWait AppWait;

struct AppWait {
        Readiness *all;
        AppInstance *app;
        WaitState state;
        bool tells;  /* it, or its health check, says when it is ready */
        char *why;   /* why it could not be executed, as its record has it; or NULL */
        int link_fd; /* the connection of its launcher, until the exec; or -EBADF */
        sd_event_source *link_source;
};

struct Readiness {
        Pod *pod;
        sd_event *event;
        void (*changed)(void *userdata, AppInstance *app);
        void *userdata;
        AppTable *apps;
        size_t n[_WAIT_STATE_MAX]; /* how many are in each state */
        size_t n_tell, n_told;     /* say when they are ready; have done so */
};

static void set_state(AppWait *w, WaitState state)
{
        Readiness *r = w->all;

        r->n[w->state]--;
        r->n[state]++;
        r->n_told += (w->tells && state == WAIT_READY) - (w->tells && w->state == WAIT_READY);
        w->state = state;
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
        *app->wait = (AppWait){.all = r, .app = app, .link_fd = -EBADF};
        r->n[WAIT_NONE]++;
        return 0;
}

void readiness_remove_app(AppInstance *app)
{
        AppWait *w = app->wait;

        if (!w)
                return;
        set_state(w, WAIT_NONE);
        w->all->n[WAIT_NONE]--;
        w->all->n_tell -= w->tells;
        drop_link(w);
        free(w->why);
        app->wait = (free(w), NULL);
}

/* The pod is not up before this app is, unless connections start it. */
static void wait_for_app(AppWait *w)
{
        if (stage1_app_is_socket_activated(w->app->app))
                return;
        w->tells = app_settings_readiness(&w->app->settings);
        w->all->n_tell += w->tells;
        set_state(w, WAIT_STARTING);
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
        return r->n_tell > 0;
}

bool readiness_waits_for_word(const Readiness *r)
{
        FOREACH_APP(app, r->apps)
        if (app->wait->tells && app->wait->state == WAIT_STARTING)
                return true;
        return false;
}

/* By its exit policy, or as nothing is left that runs. */
static bool pod_ends(const Readiness *r)
{
        if (r->n[WAIT_FAILED] == 0 || r->pod->config.exit_policy == EXIT_NEVER)
                return false;
        return r->pod->config.exit_policy != EXIT_ON_ALL || r->n[WAIT_FAILED] == r->apps->n;
}

bool readiness_is_settled(const Readiness *r)
{
        return r->n[WAIT_STARTING] == 0 && !pod_ends(r);
}

bool readiness_is_complete(const Readiness *r)
{
        return r->n[WAIT_NONE] + r->n[WAIT_READY] == r->apps->n;
}

/* --- Records ------------------------------------------------------------------------------------------- */

static int read_record(const Readiness *r, const AppInstance *app, AppStatus *ret)
{
        _cleanup_close_ int fd =
                        open_beneath(r->pod->dir_fd, "root/acnspawn/status", O_RDONLY | O_DIRECTORY);

        return fd < 0 ? fd : app_status_read(fd, app->name, ret);
}

static bool will_start_again(const AppWait *w)
{
        _cleanup_app_status_ AppStatus s = {};

        const AppSettings *settings = &w->app->settings;

        if (settings->restart == RESTART_NO)
                return false;
        return read_record(w->all, w->app, &s) < 0 ||
               backoff_restarts(&s, (RestartPolicy) settings->restart, settings->restart_limit);
}

/* --- Being executed ------------------------------------------------------------------------------------ */

/* ENDED: no process of the app is left, so the record says all there is. */
static void judge_start(AppWait *w, bool ended)
{
        _cleanup_app_status_ AppStatus s = {};

        if (w->state != WAIT_STARTING && w->state != WAIT_AGAIN)
                return;
        if (read_record(w->all, w->app, &s) < 0 || s.started_usec > 0)
                set_state(w, WAIT_READY);
        else if (ended || s.cause != CAUSE_NONE) {
                free(w->why);
                w->why = TAKE_PTR(s.message);
                set_state(w, will_start_again(w) ? WAIT_AGAIN : WAIT_FAILED);
        }
}

static int on_link(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        AppWait *w = userdata;
        Readiness *r = w->all;

        drop_link(w);
        if (!w->tells)
                judge_start(w, false);
        r->changed(r->userdata, w->app);
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
                if (!w->tells && (w->state == WAIT_STARTING || w->state == WAIT_AGAIN))
                        set_state(w, WAIT_READY); /* its end will be seen */
        }
}

/* --- What launchers tell ------------------------------------------------------------------------------- */

void readiness_told(Readiness *r, AppInstance *app, LaunchPhase what)
{
        AppWait *w = app->wait;

        if (what == LAUNCH_FLUSH && !w->tells)
                judge_start(w, true);
        if (!w->tells || w->state == WAIT_READY)
                return;
        if (what == LAUNCH_READY)
                set_state(w, WAIT_READY);
        if (what == LAUNCH_NOT_READY && !will_start_again(w))
                set_state(w, WAIT_FAILED);
}

/* --- Words --------------------------------------------------------------------------------------------- */

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

static void describe_app(Text *t, const AppWait *w, int dir_fd)
{
        _cleanup_app_status_ AppStatus s = {};
        _cleanup_health_status_ HealthStatus h = {};
        _cleanup_free_ char *shown = NULL;

        text_addf(t, "%sapp %s", t->size > 0 ? "; " : "", w->app->name);
        if (w->why) {
                shown = text_escape_for_terminal(w->why);
                text_addf(t, " could not be started%s: %s",
                          w->state == WAIT_AGAIN ? ", and is started again" : "", shown ?: "");
                return;
        }
        if (dir_fd < 0 || app_status_read(dir_fd, w->app->name, &s) < 0)
                return;
        if (s.state == APP_ENDED)
                describe_end(t, &s);
        else
                text_add(t, s.state == APP_RUNNING ? " is still starting" : " does not run yet");
        if (health_status_read(dir_fd, w->app->name, &h) >= 0 && h.last.ran)
                text_add(t, h.last.timed_out ? ", its health check timed out" : ", its health check failed");
        shown = text_escape_for_terminal(h.message ?: s.message ?: "");
        if (!isempty(shown))
                text_addf(t, " (%s)", shown);
}

int readiness_describe(Readiness *r, char **ret)
{
        _cleanup_close_ int fd =
                        open_beneath(r->pod->dir_fd, "root/acnspawn/status", O_RDONLY | O_DIRECTORY);
        _cleanup_text_ Text t = {};

        FOREACH_APP(app, r->apps)
        if (app->wait->state != WAIT_NONE && app->wait->state != WAIT_READY)
                describe_app(&t, app->wait, fd);
        return text_take(&t, ret, NULL);
}

int readiness_summary(const Readiness *r, char **ret)
{
        size_t n = r->apps->n;

        return xasprintf(ret, "%zu of %zu app%s ready", n - (r->n_tell - r->n_told), n,
                         n == 1 ? " is" : "s are");
}
