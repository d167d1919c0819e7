/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Stopping an app, and starting it again: its unit is restarted, and the app gets a clean root as in every
 * execution.
 *
 * The supervisor sees that a start follows the stop, and does not take it for the end of the app. If the app cannot
 * be started again, its unit fails, which has the effect that the exit policy gives it.
 */

#include "stage0/control/control-internal.h"

typedef struct AppJob {
        char unit[300];
} AppJob;

static void message_unrefp(sd_bus_message **m)
{
        sd_bus_message_unref(*m);
}

static int call_manager(sd_bus *bus, const char *method, const char *unit, Error *e)
{
        _cleanup_(bus_error_done) sd_bus_error error = SD_BUS_ERROR_NULL;

        int r = sd_bus_call_method(bus, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER, method, &error, NULL,
                                   unit ? "s" : "", unit);
        return r < 0 ? manager_error(&error, r, "restart the app", e) : 0;
}

/* An app may take its time to stop, and a handler to prepare it: as long as its own time-outs let it. */
static int run_job(sd_bus *bus, const char *method, const char *what, const char *unit, Error *e)
{
        _cleanup_(bus_error_done) sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(message_unrefp) sd_bus_message *call = NULL;
        _cleanup_free_ char *result = NULL;

        int r = sd_bus_message_new_method_call(bus, &call, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER,
                                               method);
        if (r >= 0)
                r = sd_bus_message_append(call, "ss", unit, "replace");
        if (r >= 0)
                r = systemd_run_job(bus, call, UINT64_MAX, &result, &error);
        if (r < 0)
                return manager_error(&error, r, what, e);
        if (!streq(result, "done"))
                return error_set(e, -EIO, "The pod's systemd cannot %s: the job ended with '%s'", what,
                                 result);
        return 0;
}

static int restart(sd_bus *bus, void *data, int *ret_fd, Error *e)
{
        const AppJob *x = data;

        (void) call_manager(bus, "ResetFailedUnit", x->unit, NULL);
        return run_job(bus, "RestartUnit", "start the app again", x->unit, e);
}

void app_forget_starts(Pod *p, const PodApp *app)
{
        _cleanup_close_ int fd = open_beneath(p->dir_fd, "root/acnspawn/status", O_RDONLY | O_DIRECTORY);
        _cleanup_app_status_ AppStatus s = {};

        if (fd < 0 || app_status_read(fd, app->name, &s) < 0 || s.consecutive_starts == 0)
                return;
        s.consecutive_starts = 0;
        (void) app_status_write(fd, app->name, &s);
}

static int stop(sd_bus *bus, void *data, int *ret_fd, Error *e)
{
        const AppJob *x = data;

        return run_job(bus, "StopUnit", "stop the app", x->unit, e);
}

static int run_app_job(Pod *p, const char *name,
                       int (*function)(sd_bus *bus, void *data, int *ret_fd, Error *e), bool forget,
                       Error *e)
{
        const PodApp *app = NULL;
        AppJob x;
        int r = pod_check_running(p, e);

        if (r >= 0)
                r = pod_find_app(p, name, &app, e);
        if (r < 0)
                return r;
        if (forget)
                app_forget_starts(p, app);
        snprintf(x.unit, sizeof(x.unit), "app-%s.service", app->name);
        r = pod_manager_call(p, function, &x, sizeof(x), NULL, e);
        return r < 0 ? error_prefix(e, r, "App %s of pod %s", app->name, pod_display_name(p)) : 0;
}

int stop_app(Pod *p, const char *name, Error *e)
{
        return run_app_job(p, name, stop, false, e);
}

int restart_app(Pod *p, const char *name, Error *e)
{
        return run_app_job(p, name, restart, true, e);
}
