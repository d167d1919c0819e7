/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Starting an app again: its unit is restarted, and the app gets a clean root as in every execution.
 *
 * Where the pod ends with its apps, systemd would take the stop that is half of a restart for such an end.
 * So for the time of the restart a drop-in takes these actions away. What puts it there, and away again, is a
 * process that goes on when we are killed.
 */

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "stage0/control/control-internal.h"

#define MANAGER "org.freedesktop.systemd1.Manager"
#define DROP_IN "restart.conf"

static const char drop_in[] =
                "# While acnspawn restarts the app.\n[Unit]\nSuccessAction=none\nFailureAction=none\n";

typedef struct Restart {
        char unit[300];
        int32_t units_fd; /* the directory of the pod's units; -EBADF: no drop-in is needed */
} Restart;

typedef struct Job {
        const char *path;
        char *result; /* once it has ended */
} Job;

static void message_unrefp(sd_bus_message **m)
{
        sd_bus_message_unref(*m);
}

static void slot_unrefp(sd_bus_slot **s)
{
        sd_bus_slot_unref(*s);
}

static int call_manager(sd_bus *bus, const char *method, const char *unit, const char *mode,
                        sd_bus_message **ret, Error *e)
{
        _cleanup_(bus_error_done) sd_bus_error error = SD_BUS_ERROR_NULL;
        const char *types = mode ? "ss" : unit ? "s" : "";

        int r = sd_bus_call_method(bus, "org.freedesktop.systemd1", "/org/freedesktop/systemd1", MANAGER,
                                   method, &error, ret, types, unit, mode);
        return r < 0 ? manager_error(&error, r, "restart the app", e) : 0;
}

static int on_job_removed(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
        const char *path, *unit, *result;
        Job *job = userdata;
        uint32_t id;

        if (sd_bus_message_read(m, "uoss", &id, &path, &unit, &result) < 0)
                return 0;
        if (job->path && !job->result && streq(path, job->path))
                job->result = strdup(result);
        return 0;
}

/* An app may take its time to stop, and a handler to prepare it: as long as its own time-outs let it. */
static int wait_for_job(sd_bus *bus, const Job *job)
{
        while (!job->result) {
                int r = sd_bus_process(bus, NULL);
                if (r == 0)
                        r = sd_bus_wait(bus, UINT64_MAX);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int restart_unit(sd_bus *bus, const char *unit, Error *e)
{
        _cleanup_(message_unrefp) sd_bus_message *reply = NULL;
        _cleanup_(slot_unrefp) sd_bus_slot *slot = NULL;
        Job job = {};

        int r = sd_bus_match_signal(bus, &slot, NULL, "/org/freedesktop/systemd1", MANAGER, "JobRemoved",
                                    on_job_removed, &job);
        if (r >= 0)
                r = call_manager(bus, "RestartUnit", unit, "replace", &reply, e);
        if (r >= 0)
                r = sd_bus_message_read(reply, "o", &job.path);
        if (r >= 0)
                r = wait_for_job(bus, &job);
        if (r >= 0 && job.result && !streq(job.result, "done"))
                r = error_set(e, -EIO, "The app did not start again: the job ended with '%s'", job.result);
        else if (r < 0)
                r = error_set_errno(e, r, "The app cannot be restarted");
        free(job.result);
        return r;
}

static int set_drop_in(sd_bus *bus, const Restart *x, bool present, Error *e)
{
        _cleanup_free_ char *directory = NULL, *file = NULL;

        if (x->units_fd < 0)
                return 0;
        int r = xasprintf(&directory, "%s.d", x->unit);
        if (r >= 0)
                r = xasprintf(&file, "%s/" DROP_IN, directory);
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
        return call_manager(bus, "Reload", NULL, NULL, NULL, e);
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
                r = call_manager(bus, "ResetFailedUnit", x->unit, NULL, NULL, NULL) < 0 ? 0 : r;
        if (r >= 0)
                r = restart_unit(bus, x->unit, e);
        int k = set_drop_in(bus, x, false, r < 0 ? NULL : e);
        return r < 0 ? r : k;
}

/* The units belong to the pod's root. */
static int open_units(Pod *p, Error *e)
{
        int fd = open_beneath(p->dir_fd, "root/acnspawn/units", O_RDONLY | O_DIRECTORY);

        return fd < 0 ? error_set_errno(e, fd, "Cannot open the units of pod %s", p->uuid) : fd;
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
        snprintf(x.unit, sizeof(x.unit), "app-%s.service", app->name);
        r = pod_manager_call(p, restart, &x, sizeof(x), NULL, e);
        return r < 0 ? error_prefix(e, r, "App %s of pod %s", app->name, p->uuid) : 0;
}
