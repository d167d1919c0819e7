/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the end of an app means for the pod.
 *
 * This is the one place that decides it. The units of a pod say how an app is run, restarted and stopped; that an
 * app has ended for good is known from the state of its unit (manager-link.c), and the supervisor then asks the
 * pod's systemd for the orderly end of the pod.
 *
 * A pod whose apps listen on ports stays up while it listens. An app that connections start does not count as
 * ended before it ran. With the policy "never" the pod does not depend on its apps, and needs none.
 */

#include "stage0/run/app-table.h"

static bool is_app(const PodUnit *u)
{
        return u->kind == POD_UNIT_APP || u->kind == POD_UNIT_APP_ON_DEMAND;
}

void pod_unit_set(PodUnit *u, UnitLife life)
{
        /* A service that is down when systemd is asked for the first time has run and ended before. */
        u->was_up = u->was_up || life == UNIT_UP || (!u->known && u->kind == POD_UNIT_APP);
        if (life == UNIT_UP && u->life != UNIT_UP)
                u->unsound = false; /* of an earlier execution */
        u->life = life;
        u->known = true;
}

static PodEnd judge_unit(ExitPolicy policy, const PodUnit *u)
{
        if (u->life == UNIT_UP || !u->was_up)
                return POD_GOES_ON;
        if (u->kind == POD_UNIT_GIVEN_UP)
                return POD_END_APP_GIVEN_UP;
        if (!is_app(u) || policy == EXIT_ON_ALL)
                return POD_GOES_ON;
        if (u->life == UNIT_FAILED || u->unsound)
                return POD_END_APP_FAILED;
        return policy == EXIT_ON_ANY ? POD_END_APP_ENDED : POD_GOES_ON;
}

PodEnd exit_policy_judge(ExitPolicy policy, PodUnit *const *units, size_t n, const PodUnit **ret_unit)
{
        size_t n_up = 0;

        *ret_unit = NULL;
        if (policy == EXIT_NEVER)
                return POD_GOES_ON;
        for (size_t i = 0; i < n; i++)
                if (!units[i]->known)
                        return POD_GOES_ON;
        for (size_t i = 0; i < n; i++) {
                PodEnd end = judge_unit(policy, units[i]);
                if (end != POD_GOES_ON) {
                        *ret_unit = units[i];
                        return end;
                }
                n_up += units[i]->life == UNIT_UP;
        }
        return n_up > 0 ? POD_GOES_ON : POD_END_NOTHING_RUNS;
}

/* --- The units of a pod -------------------------------------------------------------------------------- */

void pod_units_free(PodUnit *units, size_t n)
{
        for (size_t i = 0; units && i < n; i++)
                free(units[i].name);
        free(units);
}

/* NAME is taken over. */
static int add_unit(PodUnit **units, size_t *n, AppInstance *app, PodUnitKind kind, char *name)
{
        PodUnit *grown = name ? reallocarray(*units, *n + 1, sizeof(PodUnit)) : NULL;

        if (!grown) {
                free(name);
                return -ENOMEM;
        }
        grown[(*n)++] = (PodUnit){.name = name, .app = app, .kind = kind};
        *units = grown;
        return 0;
}

static int add_app_units(AppInstance *app, PodUnit **units, size_t *n)
{
        bool on_demand = stage1_app_is_socket_activated(app->app);
        _cleanup_strv_free_ char **sockets = NULL;
        char *name = NULL;

        int r = stage1_app_unit_name(app->name, &name);
        if (r < 0)
                return r;
        r = add_unit(units, n, app, on_demand ? POD_UNIT_APP_ON_DEMAND : POD_UNIT_APP, name);
        if (r < 0 || !on_demand)
                return r;
        r = stage1_given_up_unit_name(app->name, &name);
        if (r >= 0)
                r = add_unit(units, n, app, POD_UNIT_GIVEN_UP, name);
        if (r >= 0)
                r = stage1_socket_unit_names(app->manifest, &sockets);
        if (r < 0)
                return r;
        STRV_FOREACH (socket, sockets) {
                r = add_unit(units, n, app, POD_UNIT_SOCKET, strdup(*socket));
                if (r < 0)
                        return r;
        }
        return 0;
}

int pod_units_new(AppInstance *app, PodUnit **ret, size_t *ret_n)
{
        PodUnit *units = NULL;
        size_t n = 0;

        int r = add_app_units(app, &units, &n);
        if (r < 0) {
                pod_units_free(units, n);
                return r;
        }
        *ret = units;
        *ret_n = n;
        return 0;
}
