/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The delay before an app is restarted. Depends on basic/ alone, as both the unit generator and the launcher
 * use it. */

#include <signal.h>

#include "schema/settings.h"
#include "stage1/app-status.h"

/* The delay before consecutive restart number N (from 1): FIRST, doubled each time, up to MAX. */
static inline uint64_t backoff_delay(uint64_t first_usec, uint64_t max_usec, uint64_t n)
{
        uint64_t delay = first_usec;

        for (uint64_t i = 1; i < n && delay < max_usec; i++)
                delay = delay > max_usec / 2 ? max_usec : delay * 2;
        return MAX(first_usec, MIN(delay, max_usec));
}

/* Whether systemd regards an app's end as a success, after which Restart=on-failure does not start it
 * again. */
static inline bool backoff_ended_successfully(const AppStatus *s)
{
        return s->cause == CAUSE_EXITED
                               ? s->exit_status == 0
                               : s->cause == CAUSE_SIGNAL && (s->signal == SIGHUP || s->signal == SIGINT ||
                                                              s->signal == SIGTERM || s->signal == SIGPIPE);
}

/* Consecutive starts up to the last one: a run of at least RESTART_QUIET_USEC resets the count. */
static inline uint64_t backoff_consecutive_starts(const AppStatus *s)
{
        bool lasted = s->state == APP_ENDED && s->started_usec > 0 && s->ended_usec > s->started_usec &&
                      s->ended_usec - s->started_usec >= RESTART_QUIET_USEC;

        return lasted ? 0 : s->consecutive_starts;
}

/* Whether systemd restarts an app that has ended like this, by its policy and LIMIT consecutive restarts. */
static inline bool backoff_restarts(const AppStatus *s, RestartPolicy policy, uint32_t limit)
{
        if (s->restarting)
                return true;
        if (policy == RESTART_NO || (policy == RESTART_ON_FAILURE && backoff_ended_successfully(s)))
                return false;
        return limit == RESTART_LIMIT_NONE || backoff_consecutive_starts(s) <= limit;
}

/* The time within which the first start and N consecutive restarts fall, if no run was long enough to reset
 * the count. */
static inline uint64_t backoff_interval(uint64_t first_usec, uint64_t max_usec, uint64_t n)
{
        uint64_t sum = RESTART_QUIET_USEC;

        for (uint64_t i = 1; i <= n; i++)
                if (__builtin_add_overflow(sum, backoff_delay(first_usec, max_usec, i), &sum) ||
                    __builtin_add_overflow(sum, RESTART_QUIET_USEC, &sum))
                        return UINT64_MAX;
        return sum;
}
