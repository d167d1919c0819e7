/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Whether a pod has nothing to do, and may end.
 *
 * The time begins anew with whatever an app begins with, and with its end. When it is over, the statuses of the apps
 * say whether one of them is at work.
 */

#include "library/libsystemd.h"
#include "schema/settings.h"
#include "stage0/supervisor/apps/app-table.h"
#include "stage1/backoff.h"

struct IdleWatch {
        AppTable *apps;
        sd_event_source *timer;
        void (*idle)(void *userdata);
        void *userdata;
};

IdleWatch *idle_watch_free(IdleWatch *w)
{
        if (!w)
                return NULL;
        sd_event_source_disable_unref(w->timer);
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

void idle_watch_begin(void *userdata)
{
        IdleWatch *w = userdata;

        if (!w)
                return;
        (void) sd_event_source_set_time_relative(w->timer, w->apps->pod->config.exit_idle_usec);
        (void) sd_event_source_set_enabled(w->timer, SD_EVENT_ONESHOT);
}

static int on_time(sd_event_source *source, uint64_t usec, void *userdata)
{
        IdleWatch *w = userdata;

        if (pod_is_idle(w->apps))
                w->idle(w->userdata);
        else
                idle_watch_begin(w);
        return 0;
}

int idle_watch_new(AppTable *apps, sd_event *event, void (*idle)(void *userdata), void *userdata,
                   IdleWatch **ret, Error *e)
{
        _cleanup_(idle_watch_freep) IdleWatch *w = NULL;

        if (apps->pod->config.exit_idle_usec == 0) {
                *ret = NULL;
                return 0;
        }
        w = calloc(1, sizeof(IdleWatch));
        if (!w)
                return error_oom(e);
        *w = (IdleWatch){.apps = apps, .idle = idle, .userdata = userdata};
        int r = sd_event_add_time_relative(event, &w->timer, CLOCK_MONOTONIC,
                                           apps->pod->config.exit_idle_usec, 0, on_time, w);
        if (r >= 0)
                r = sd_event_source_set_enabled(w->timer, SD_EVENT_OFF);
        if (r < 0)
                return error_set_errno(e, r, "Cannot create an event loop");
        *ret = TAKE_PTR(w);
        return 0;
}
