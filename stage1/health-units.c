/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The units of a health check.
 *
 * While the app starts, the launcher checks it as a part of the start (ExecStartPost=), so that units
 * ordered after the app wait for the first check that succeeds. From then on a timer starts a service of its
 * own for each check, beside the app in the app's slice, where the app's limits hold for both.
 *
 * Neither the timer nor the service requires the app (Requires=, BindsTo=): that would make systemd count a
 * second start with every restart of the app, or start an app that has just ended. The app wants the timer,
 * which stops when the app does not need it any more (StopWhenUnneeded=); and the launcher determines itself
 * whether there is anything to check.
 */

#include "stage1/stage1-internal.h"

/* Time allowed for a check beyond its own time-out. */
#define CHECK_EXTRA_USEC UINT64_C(30000000)

static void add_number(Text *t, const char *key, uint64_t value)
{
        text_addf(t, " %s=%llu", key, (unsigned long long) value);
}

void stage1_health_arguments(const HealthCheck *h, bool starting, Text *t)
{
        if (!h->command)
                return;
        add_number(t, "timeout", h->timeout_usec);
        if (!starting)
                return;
        add_number(t, "interval", h->interval_usec);
        add_number(t, "start-period", h->start_period_usec);
        add_number(t, "start-interval", h->start_interval_usec);
}

static void add_head(Text *t, const char *app)
{
        text_addf(t,
                  "[Unit]\n"
                  "Description=Health of App %s\n"
                  "DefaultDependencies=no\n"
                  "Conflicts=shutdown.target\n"
                  "Before=shutdown.target\n"
                  /* No limit of starts: by default systemd refuses a unit that starts more than five times
                   * in ten seconds. */
                  "StartLimitIntervalSec=0\n"
                  /* A check that is killed as its app is stopped has failed. It must not stay loaded: with it the
                   * units of the app would stay, which then could not be replaced. */
                  "CollectMode=inactive-or-failed\n",
                  app);
}

static int add_timer(Stage1Files *files, const char *app, const HealthCheck *h)
{
        unsigned long long interval = h->interval_usec;
        _cleanup_free_ char *name = NULL;
        _cleanup_text_ Text t = {};

        if (xasprintf(&name, "health-%s.timer", app) < 0)
                return -ENOMEM;
        add_head(&t, app);
        text_addf(&t, "StopWhenUnneeded=yes\nAfter=app-%s.service\n\n[Timer]\n", app);
        text_addf(&t, "OnActiveSec=%lluus\nOnUnitInactiveSec=%lluus\nAccuracySec=%lluus\n", interval,
                  interval, MIN(interval / 10, 1000000ULL));
        return stage1_add_unit_text(files, name, &t);
}

static int add_check(Stage1Files *files, const char *app, const AppSettings *s, const char *slice,
                     const Text *service)
{
        const HealthCheck *h = &s->health;
        _cleanup_free_ char *name = NULL;
        _cleanup_text_ Text t = {};

        if (xasprintf(&name, "health-%s.service", app) < 0)
                return -ENOMEM;
        add_head(&t, app);
        text_addf(&t, "\n[Service]\nType=oneshot\nSlice=%s\nExecStart=/acnspawn/launch check %s", slice,
                  app);
        stage1_pid_argument(&s->pid, &t);
        stage1_health_arguments(h, false, &t);
        text_addf(&t,
                  "\n"
                  "StandardInput=null\nStandardOutput=null\nStandardError=null\n"
                  "TimeoutStartSec=%lluus\n"
                  "KillSignal=9\n",
                  (unsigned long long) (h->timeout_usec + CHECK_EXTRA_USEC));
        text_add_bytes(&t, service->data, service->size);
        return stage1_add_unit_text(files, name, &t);
}

int stage1_add_health_units(Stage1Files *files, const PodApp *app, const AppSettings *s, const char *slice,
                            const Text *service)
{
        if (!s->health.command)
                return 0;
        int r = add_timer(files, app->name, &s->health);
        return r < 0 ? r : add_check(files, app->name, s, slice, service);
}
