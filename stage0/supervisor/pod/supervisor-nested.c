/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Apps that are nested under others end with them.
 *
 * All apps below the one that ends are stopped at once, by jobs that the pod's systemd runs in order: the unit of a nested app is
 * ordered after that of its parent, so it is stopped before; those with the same parent are stopped at the same time. An app
 * that is restarted has ended, too: what was nested under it stays down. */

#include "stage0/supervisor/pod/supervisor-internal.h"
#include "stage0/supervisor/apps/task-state.h"

/* True if APP is being stopped for good: it will not be restarted, and the stop is more than a signal. */
static bool is_being_stopped(const AppInstance *app)
{
        return app_is_ending(app) && stop_reason_is_repeated(app->stop);
}

/* If there is no connection to the pod's systemd, or it is lost, the stops are requested again over the next one. */
void supervisor_end_below(Supervisor *s, const AppInstance *app)
{
        if (!supervisor_is_connected(s) && s->connection != CONNECTION_LOST)
                return;
        for (size_t i = s->apps->n; i > 0; i--) { /* the deepest first */
                AppInstance *below = s->apps->items[i - 1];

                if (!nested_is_below(below->name, app->name) || !app_is_up(below) || is_being_stopped(below))
                        continue;
                int r = s->manager ? manager_link_run(s->manager, "StopUnit", below->units[0].name, NULL,
                                                      NULL)
                                   : -ENOTCONN;
                bool later = r == -ENOTCONN || r == -ECONNRESET;
                if (r >= 0 || later)
                        app_stop_handle(below, PARENT_ENDS);
                if (r < 0 && !later)
                        log_warning("App %s has ended, but app %s, which is nested under it, cannot be "
                                    "stopped: %s.",
                                    app_instance_path(app), app_instance_path(below), strerror(-r));
        }
}
