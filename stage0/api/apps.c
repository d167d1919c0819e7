/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Starting, stopping and signalling apps of a running pod. */

#include "stage0/api/api-internal.h"

/* How long a pod may take to end after a signal to the first of its apps. */
#define END_USEC (5 * UINT64_C(1000000))

/* An app of a paused pod could not react. */
static int call_app(AcnPod *a, const AcnCall *c, Error *e)
{
        int r = pod_check_running(a->pod, e);

        return r < 0 ? r : acn_call(a, c, NULL, e);
}

int acn_start_app(AcnPod *a, const char *app, Error *e)
{
        return call_app(a,
                        &(AcnCall){.method = "StartApp",
                                   .what = "start",
                                   .app = app,
                                   .timeout_usec = UINT64_MAX},
                        e);
}

int acn_start_app_tentatively(AcnPod *a, const char *app, Error *e)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        if (json_member_add(o, "tentative", json_object_new_boolean(true)) < 0)
                return error_oom(e);
        return call_app(a,
                        &(AcnCall){.method = "StartApp",
                                   .what = "start",
                                   .app = app,
                                   .parameters = o,
                                   .timeout_usec = UINT64_MAX},
                        e);
}

int acn_stop_app(AcnPod *a, const char *app, uint64_t timeout_usec, Error *e)
{
        AcnCall c = {.method = "StopApp", .what = "stop", .app = app, .timeout_usec = UINT64_MAX};

        if (timeout_usec <= INT64_MAX) {
                c.key = "timeoutUSec";
                c.value = (int64_t) timeout_usec;
        }
        int r = acn_check_app(a, app, e);
        return r < 0 ? r : call_app(a, &c, e);
}

int acn_restart_app(AcnPod *a, const char *app, Error *e)
{
        return call_app(a,
                        &(AcnCall){.method = "RestartApp",
                                   .what = "restart",
                                   .app = app,
                                   .timeout_usec = UINT64_MAX},
                        e);
}

/* --- Signals ------------------------------------------------------------------------------------------- */

int acn_signal_app(AcnPod *a, const char *app, int signal, Error *e)
{
        const AcnCall c = {.method = "SignalApp",
                           .what = "send a signal to",
                           .app = app,
                           .key = "signal",
                           .value = signal};

        return call_app(a, &c, e);
}

static int signal_each(AcnPod *a, const AcnDescription *d, int signal, size_t *ret_n, Error *e)
{
        for (size_t i = 0; i < d->n_apps; i++) {
                int r = acn_signal_app(a, d->apps[i].name, signal, e);
                if (r < 0 && r != -ESRCH && r != -ENOENT)
                        return r;
                *ret_n += r >= 0;
        }
        return 0;
}

/* The signal to one app may end the pod before the next app gets its own. */
int acn_signal_apps(AcnPod *a, int signal, Error *e)
{
        _cleanup_(acn_description_done) AcnDescription d = {};
        size_t n = 0;

        int r = pod_check_running(a->pod, e);
        if (r < 0)
                return r;
        r = acn_describe(a, &d, e);
        if (r < 0)
                return r;
        r = signal_each(a, &d, signal, &n, e);
        if (r < 0 && (n == 0 || pod_wait(a->pod, END_USEC, NULL) < 0))
                return r;
        error_done(e);
        return n == 0 ? error_set(e, -ESRCH, "No app of pod %s is running", pod_display_name(a->pod)) : 0;
}
