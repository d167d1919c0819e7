/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the end of an app means for the pod.
 *
 * This is the one place that decides it. The units of a pod say how an app is run, restarted and stopped; that an
 * app has ended for good is known from the state of its unit (manager-link.c), and the supervisor then asks the
 * pod's systemd for the orderly end of the pod.
 *
 * A pod whose apps listen on ports stays up while it listens. An app that connections start does not count as
 * ended before it ran. With the policy "never" the pod does not depend on its apps, and needs none. With "tasks" it needs
 * none at its start, and ends with the last of those that it was given.
 */

#include "stage0/supervisor/apps/app-table.h"

void pod_unit_set(PodUnit *u, UnitLife life)
{
        /* A service that is down in the first answer of systemd has run before. */
        u->was_up = u->was_up || life == UNIT_UP || (!u->known && u->kind == POD_UNIT_APP);
        if (life == UNIT_UP && u->life != UNIT_UP)
                u->unsound = false; /* of an earlier execution */
        u->life = life;
        u->known = true;
}

static PodEnd judge_unit(ExitPolicy policy, const PodUnit *u)
{
        if (u->transient)
                return POD_GOES_ON;
        if (u->kind == POD_UNIT_SOCKETS)
                return u->life == UNIT_FAILED ? POD_END_APP_GIVEN_UP : POD_GOES_ON;
        if (u->life == UNIT_UP || u->held || !u->was_up)
                return POD_GOES_ON;
        if (policy == EXIT_ON_ALL || policy == EXIT_ON_TASKS)
                return POD_GOES_ON;
        if (u->life == UNIT_FAILED || u->unsound)
                return POD_END_APP_FAILED;
        return policy == EXIT_ON_ANY ? POD_END_APP_ENDED : POD_GOES_ON;
}

PodEnd exit_policy_judge(ExitPolicy policy, PodUnit *const *units, size_t n, const PodUnit **ret_unit)
{
        size_t n_up = 0, n_ran = 0;

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
                n_up += units[i]->life == UNIT_UP || units[i]->held;
                n_ran += units[i]->was_up;
        }
        if (policy == EXIT_ON_TASKS && n_ran == 0)
                return POD_GOES_ON;
        return n_up > 0 ? POD_GOES_ON : POD_END_NOTHING_RUNS;
}

/* --- The units of a pod -------------------------------------------------------------------------------- */

void pod_units_free(PodUnit *units, size_t n)
{
        for (size_t i = 0; units && i < n; i++)
                free(units[i].name);
        free(units);
}

int pod_units_new(AppInstance *app, PodUnit **ret, size_t *ret_n)
{
        bool on_demand = stage1_app_is_socket_activated(app->app);
        size_t n = on_demand ? 2 : 1;
        PodUnit *units = calloc(n, sizeof(PodUnit));

        if (!units)
                return -ENOMEM;
        units[0] = (PodUnit){.app = app, .kind = on_demand ? POD_UNIT_APP_ON_DEMAND : POD_UNIT_APP};
        if (on_demand)
                units[1] = (PodUnit){.app = app, .kind = POD_UNIT_SOCKETS, .life = UNIT_UP, .known = true};
        for (size_t i = 0; i < n; i++)
                units[i].transient = app->settings.transient || app->settings.nested_path;
        int r = stage1_app_unit_name(app->name, &units[0].name);
        if (r < 0) {
                pod_units_free(units, n);
                return r;
        }
        *ret = units;
        *ret_n = n;
        return 0;
}
