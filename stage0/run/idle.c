/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Whether a pod has nothing to do, and may end.
 *
 * Whatever an app begins with, and its end too, is a question of a launcher, so that the time begins anew
 * with each. When it is over the records of the apps say whether one of them is at work: one that takes
 * longer than that ends with a question, too.
 */

#include "library/libsystemd.h"
#include "schema/settings.h"
#include "stage0/run/run-internal.h"
#include "stage1/backoff.h"

struct IdleWatch {
        Pod *pod;
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

/* Whether the app does something, or is going to without being asked. */
static bool is_active(const PodApp *app, const AppStatus *status)
{
        _cleanup_app_settings_ AppSettings settings = {};

        if (status->state == APP_WAITING)
                return !stage1_app_is_socket_activated(app->app);
        if (status->state != APP_ENDED)
                return true;
        if (app_settings_read(app, &settings, NULL) < 0)
                return false;
        return backoff_restarts(status, (RestartPolicy) settings.restart, settings.restart_limit);
}

static bool pod_is_idle(Pod *p)
{
        AppStatus *statuses = NULL;
        bool idle = true;

        if (pod_is_paused(p) || pod_read_statuses(p, false, &statuses) < 0)
                return false;
        for (size_t i = 0; i < p->manifest->n_apps; i++)
                idle &= !is_active(p->manifest->apps[i], &statuses[i]);
        app_statuses_free(statuses, p->manifest->n_apps);
        return idle;
}

void idle_watch_begin(void *userdata)
{
        IdleWatch *w = userdata;

        if (!w)
                return;
        (void) sd_event_source_set_time_relative(w->timer, w->pod->config.exit_idle_usec);
        (void) sd_event_source_set_enabled(w->timer, SD_EVENT_ONESHOT);
}

static int on_time(sd_event_source *source, uint64_t usec, void *userdata)
{
        IdleWatch *w = userdata;

        if (pod_is_idle(w->pod))
                w->idle(w->userdata);
        else
                idle_watch_begin(w);
        return 0;
}

int idle_watch_new(Pod *p, sd_event *event, void (*idle)(void *userdata), void *userdata, IdleWatch **ret,
                   Error *e)
{
        _cleanup_(idle_watch_freep) IdleWatch *w = NULL;

        if (p->config.exit_idle_usec == 0) {
                *ret = NULL;
                return 0;
        }
        w = calloc(1, sizeof(IdleWatch));
        if (!w)
                return error_oom(e);
        *w = (IdleWatch){.pod = p, .idle = idle, .userdata = userdata};
        int r = sd_event_add_time_relative(event, &w->timer, CLOCK_MONOTONIC, p->config.exit_idle_usec, 0,
                                           on_time, w);
        if (r >= 0)
                r = sd_event_source_set_enabled(w->timer, SD_EVENT_OFF);
        if (r < 0)
                return error_set_errno(e, r, "Cannot make an event loop");
        *ret = TAKE_PTR(w);
        return 0;
}
