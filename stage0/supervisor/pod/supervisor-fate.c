/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Apps that share their fate: if one of them fails for good, the others are stopped.
 *
 * systemd stops them in order, each with its own time-out, and those first that started after others (After=). An app that is
 * stopped, or ends successfully, concerns no other. What happens to the pod is decided afterwards, by the exit policy. */

#include "stage0/supervisor/pod/supervisor-internal.h"
#include "stage0/supervisor/apps/task-state.h"

static bool has_failed(const PodUnit *u)
{
        return u->known && u->was_up && !u->held &&
               (u->life == UNIT_FAILED || (u->life == UNIT_DOWN && u->unsound));
}

static void stop_others(Supervisor *s, const AppInstance *failed)
{
        FOREACH_APP(app, s->apps)
        {
                const PodUnit *u = &app->units[0];

                if (app == failed || u->life != UNIT_UP || u->held ||
                    !streq_ptr(app->settings.fate_group, failed->settings.fate_group))
                        continue;
                int r = manager_link_run(s->manager, "StopUnit", u->name, NULL, NULL);
                app_stop_handle(app, FATE_GROUP_FAILED);
                if (r < 0)
                        log_warning("App %s of group %s has failed, but app %s cannot be stopped: %s.",
                                    app_instance_path(failed), failed->settings.fate_group,
                                    app_instance_path(app), strerror(-r));
        }
}

/* Once for each failure: an app that is started again afterwards stays. */
void supervisor_spread_fate(Supervisor *s)
{
        FOREACH_APP(app, s->apps)
        {
                bool failed = has_failed(&app->units[0]);

                if (!app->settings.fate_group || failed == app->fate_spread || (failed && !s->manager))
                        continue;
                app->fate_spread = failed;
                if (!failed)
                        continue;
                log_debug("App %s has failed: the others of group %s are stopped", app->name,
                          app->settings.fate_group);
                stop_others(s, app);
        }
}
