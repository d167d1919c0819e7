/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Whether a pod has nothing to do, and may end.
 *
 * The time begins anew with whatever an app begins with, and with its end, and stops while the pod is paused. When it is
 * over, the statuses of the apps say whether one of them is at work.
 */

#include "library/libsystemd.h"
#include "schema/settings.h"
#include "stage0/supervisor/apps/app-table.h"
#include "stage1/backoff.h"

struct IdleWatch {
        AppTable *apps;
        sd_event *event;
        PodTimer *timer; /* NULL: no app has begun yet */
        void (*idle)(void *userdata);
        void *userdata;
};

IdleWatch *idle_watch_free(IdleWatch *w)
{
        if (!w)
                return NULL;
        pod_timer_free(w->timer);
        free(w);
        return NULL;
}

/* Whether the app is active, or is going to be without a request. */
static bool is_active(const AppInstance *app)
{
        if (app->status.state == APP_WAITING)
                return !stage1_app_is_socket_activated(app->app);
        if (app->status.state != APP_ENDED)
                return true;
        return backoff_restarts(&app->status, &app->settings);
}

static bool pod_is_idle(const AppTable *apps)
{
        if (pod_is_paused(apps->pod))
                return false;
        FOREACH_APP(app, apps)
        if (is_active(app))
                return false;
        return true;
}

static void on_time(void *userdata)
{
        IdleWatch *w = userdata;

        if (pod_is_idle(w->apps))
                w->idle(w->userdata);
        else
                idle_watch_begin(w);
}

void idle_watch_begin(void *userdata)
{
        IdleWatch *w = userdata;

        if (!w)
                return;
        uint64_t usec = w->apps->pod->config.exit_idle_usec;
        int r = w->timer ? pod_timer_set(w->timer, usec)
                         : pod_timer_new(w->apps->pause, w->event, usec, on_time, w, &w->timer);
        if (r < 0)
                log_warning("Pod %s will not end when it is idle: %s", pod_display_name(w->apps->pod),
                            strerror(-r));
}

int idle_watch_new(AppTable *apps, sd_event *event, void (*idle)(void *userdata), void *userdata,
                   IdleWatch **ret, Error *e)
{
        IdleWatch *w = NULL;

        if (apps->pod->config.exit_idle_usec > 0) {
                w = malloc(sizeof(IdleWatch));
                if (!w)
                        return error_oom(e);
                *w = (IdleWatch){.apps = apps, .event = event, .idle = idle, .userdata = userdata};
        }
        *ret = w;
        return 0;
}
