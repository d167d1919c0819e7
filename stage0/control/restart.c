/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Starting an app again: its unit is restarted, and the app gets a clean root as in every execution.
 *
 * Where the pod ends with its apps, systemd would take the stop that is half of a restart for such an end.
 * So for the time of the restart a drop-in takes these actions away, and tells the launcher; each of several
 * restarts at a time has one of its own. What puts it there, and away again, is a process that goes on when
 * we are killed. An app that did not start again has failed, and as nobody else would, that process ends the
 * pod.
 */

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "stage0/control/control-internal.h"

static const char drop_in[] =
                "# While acnspawn restarts the app.\n[Unit]\nSuccessAction=none\nFailureAction=none\n"
                "\n[Service]\nEnvironment=ACNSPAWN_RESTART=1\n";

typedef struct Restart {
        char unit[300];
        int32_t units_fd; /* the directory of the pod's units; -EBADF: no drop-in is needed */
} Restart;

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

static int set_drop_in(sd_bus *bus, const Restart *x, bool present, Error *e)
{
        _cleanup_free_ char *directory = NULL, *file = NULL;

        if (x->units_fd < 0)
                return 0;
        int r = xasprintf(&directory, "%s.d", x->unit);
        if (r >= 0)
                r = xasprintf(&file, "%s/restart-%d.conf", directory, (int) getpid());
        if (r >= 0 && present) {
                r = mkdirat(x->units_fd, directory, 0755) < 0 && errno != EEXIST ? -errno : 0;
                if (r >= 0)
                        r = write_file_atomic_at(x->units_fd, file, drop_in, strlen(drop_in), 0644, false);
        } else if (r >= 0) {
                (void) unlinkat(x->units_fd, file, 0);
                (void) unlinkat(x->units_fd, directory, AT_REMOVEDIR);
        }
        if (r < 0)
                return error_set_errno(e, r, "Cannot write to the units of the pod");
        return call_manager(bus, "Reload", NULL, e);
}

/* It is not going to be started again, either. */
static bool has_failed(sd_bus *bus, const char *unit)
{
        _cleanup_(bus_error_done) sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(message_unrefp) sd_bus_message *reply = NULL;
        _cleanup_free_ char *path = NULL;
        const char *state = NULL;

        return manager_unit_path(unit, &path) >= 0 &&
               sd_bus_call_method(bus, SYSTEMD_NAME, path, "org.freedesktop.DBus.Properties", "Get", &error,
                                  &reply, "ss", "org.freedesktop.systemd1.Unit", "ActiveState") >= 0 &&
               sd_bus_message_read(reply, "v", "s", &state) >= 0 && streq(state, "failed");
}

static int restart(sd_bus *bus, void *data, int *ret_fd, Error *e)
{
        const Restart *x = data;

        /* From here to the end without us, if need be. */
        (void) setsid();
        (void) prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
        (void) signal(SIGPIPE, SIG_IGN);
        int r = set_drop_in(bus, x, true, e);
        if (r >= 0)
                (void) call_manager(bus, "ResetFailedUnit", x->unit, NULL);
        if (r >= 0)
                r = run_job(bus, "RestartUnit", "start the app again", x->unit, e);
        int k = set_drop_in(bus, x, false, r < 0 ? NULL : e);
        if (r < 0 && x->units_fd >= 0 && has_failed(bus, x->unit))
                (void) kill(1, SIGRTMIN + 3);
        return r < 0 ? r : k;
}

/* The units belong to the pod's root. */
static int open_units(Pod *p, Error *e)
{
        int fd = open_beneath(p->dir_fd, "root/acnspawn/units", O_RDONLY | O_DIRECTORY);

        return fd < 0 ? error_set_errno(e, fd, "Cannot open the units of pod %s", pod_display_name(p)) : fd;
}

/* The row of restarts ends here. */
static void forget_starts(Pod *p, const PodApp *app)
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
        const Restart *x = data;

        return run_job(bus, "StopUnit", "stop the app", x->unit, e);
}

int stop_app(Pod *p, const char *name, Error *e)
{
        const PodApp *app = NULL;
        Restart x = {.units_fd = -EBADF};
        int r = pod_check_running(p, e);

        if (r >= 0)
                r = pod_find_app(p, name, &app, e);
        if (r < 0)
                return r;
        snprintf(x.unit, sizeof(x.unit), "app-%s.service", app->name);
        r = pod_manager_call(p, stop, &x, sizeof(x), NULL, e);
        return r < 0 ? error_prefix(e, r, "App %s of pod %s", app->name, pod_display_name(p)) : 0;
}

int restart_app(Pod *p, const char *name, Error *e)
{
        const PodApp *app = NULL;
        _cleanup_close_ int fd = -EBADF;
        Restart x = {.units_fd = -EBADF};
        int r = pod_check_running(p, e);

        if (r >= 0)
                r = pod_find_app(p, name, &app, e);
        if (r >= 0 && p->config.exit_policy != EXIT_ON_ALL) {
                fd = open_units(p, e);
                r = fd;
        }
        if (r < 0)
                return r;
        x.units_fd = fd;
        forget_starts(p, app);
        snprintf(x.unit, sizeof(x.unit), "app-%s.service", app->name);
        r = pod_manager_call(p, restart, &x, sizeof(x), NULL, e);
        return r < 0 ? error_prefix(e, r, "App %s of pod %s", app->name, pod_display_name(p)) : 0;
}
