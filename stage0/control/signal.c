/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A signal to the main process of an app, by the pod's systemd, which knows it and cannot mistake another
 * process for it. */

#include "stage0/control/control-internal.h"

#define LOST_TIMEOUT_USEC (5 * UINT64_C(1000000))

typedef struct KillCall {
        char unit[300];
        int32_t signal;
        bool gone; /* there is no main process */
} KillCall;

static int kill_unit(sd_bus *bus, void *data, int *ret_fd, Error *e)
{
        _cleanup_(bus_error_done) sd_bus_error error = SD_BUS_ERROR_NULL;
        KillCall *k = data;

        int r = sd_bus_call_method(bus, "org.freedesktop.systemd1", "/org/freedesktop/systemd1",
                                   "org.freedesktop.systemd1.Manager", "KillUnit", &error, NULL, "ssi",
                                   k->unit, "main", k->signal);
        if (r >= 0)
                return 0;
        if (sd_bus_error_has_name(&error, "org.freedesktop.systemd1.NoSuchProcess") ||
            sd_bus_error_has_name(&error, "org.freedesktop.systemd1.NoSuchUnit")) {
                k->gone = true;
                return 0;
        }
        return manager_error(&error, r, "send the signal", e);
}

/* 1: sent, 0: it does not run. */
static int kill_one(Pod *p, const PodApp *app, int signal, Error *e)
{
        KillCall k = {.signal = signal};

        snprintf(k.unit, sizeof(k.unit), "app-%s.service", app->name);
        int r = pod_manager_call(p, kill_unit, &k, sizeof(k), NULL, e);
        return r < 0 ? r : !k.gone;
}

/* A pod may end by the signal before its systemd can say that it was sent, and by that of one app before it
 * is another's turn. */
static bool is_lost(int code, size_t n_sent)
{
        return n_sent > 0 || code == -ENOTCONN || code == -ECONNRESET || code == -EPIPE;
}

int kill_app(Pod *p, const char *name, int signal, Error *e)
{
        const PodApp *app = NULL;
        size_t n_sent = 0;
        int r = pod_check_running(p, e);

        if (r >= 0 && name)
                r = pod_find_app(p, name, &app, e);
        for (size_t i = 0; r >= 0 && p->manifest && i < p->manifest->n_apps; i++) {
                if (app && app != &p->manifest->apps[i])
                        continue;
                r = kill_one(p, &p->manifest->apps[i], signal, e);
                n_sent += r > 0;
        }
        if (r < 0 && is_lost(r, n_sent) && pod_wait(p, LOST_TIMEOUT_USEC, NULL) >= 0) {
                error_done(e); /* that is what came of it */
                return 0;
        }
        if (r < 0)
                return r;
        if (n_sent == 0 && app)
                return app_not_running(p, app, e);
        return n_sent == 0 ? error_set(e, -ESRCH, "No app of pod %s is running", p->uuid) : 0;
}
