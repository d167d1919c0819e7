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

/* Consecutive starts up to the last one: a run of at least RESTART_QUIET_USEC resets the count. Failed checks of an unhealthy app
 * may take longer than that: checks that succeeded for that time have reset the count. */
static inline uint64_t backoff_consecutive_starts(const AppStatus *s)
{
        bool lasted = s->state == APP_ENDED && s->cause != CAUSE_UNHEALTHY && s->started_usec > 0 &&
                      s->ended_usec > s->started_usec &&
                      s->ended_usec - s->started_usec >= RESTART_QUIET_USEC;

        return lasted ? 0 : s->consecutive_starts;
}

/* Whether the health check restarts an app that has ended like this: not systemd, which would wait first. */
static inline bool backoff_is_by_health(const AppStatus *s, const AppSettings *settings)
{
        return s->cause == CAUSE_UNHEALTHY && settings->health.action == HEALTH_RESTART;
}

/* Whether an app that has ended like this is restarted, as long as it has restarts left. */
static inline bool backoff_applies(const AppStatus *s, const AppSettings *settings)
{
        if (backoff_is_by_health(s, settings))
                return true;
        return settings->restart == RESTART_ALWAYS ||
               (settings->restart == RESTART_ON_FAILURE && !backoff_ended_successfully(s));
}

static inline bool backoff_is_used_up(const AppStatus *s, const AppSettings *settings)
{
        return settings->restart_limit != RESTART_LIMIT_NONE &&
               backoff_consecutive_starts(s) > settings->restart_limit;
}

static inline bool backoff_restarts(const AppStatus *s, const AppSettings *settings)
{
        return s->restarting || (backoff_applies(s, settings) && !backoff_is_used_up(s, settings));
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
