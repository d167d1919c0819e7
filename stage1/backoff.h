/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* How long an app waits before it is started again. Depends on basic/ alone, as units are generated with it
 * and the launcher waits by it. */

#include <signal.h>

#include "schema/settings.h"
#include "stage1/app-status.h"

/* Before restart number N in a row (from 1): FIRST, doubled each time, up to MAX. */
static inline uint64_t backoff_delay(uint64_t first_usec, uint64_t max_usec, uint64_t n)
{
        uint64_t delay = first_usec;

        for (uint64_t i = 1; i < n && delay < max_usec; i++)
                delay = delay > max_usec / 2 ? max_usec : delay * 2;
        return MAX(first_usec, MIN(delay, max_usec));
}

/* Whether systemd takes an app's end for a success, after which Restart=on-failure does not start it
 * again. */
static inline bool backoff_ended_well(const AppStatus *s)
{
        return s->cause == CAUSE_EXITED
                               ? s->exit_status == 0
                               : s->cause == CAUSE_SIGNAL && (s->signal == SIGHUP || s->signal == SIGINT ||
                                                              s->signal == SIGTERM || s->signal == SIGPIPE);
}

/* Starts in a row with the last one, as the next start finds them: a run that lasted begins the count
 * anew. */
static inline uint64_t backoff_row(const AppStatus *s)
{
        bool lasted = s->state == APP_ENDED && s->started_usec > 0 && s->ended_usec > s->started_usec &&
                      s->ended_usec - s->started_usec >= RESTART_QUIET_USEC;

        return lasted ? 0 : s->row;
}

/* Whether systemd starts the app again that has ended like this, by its policy and LIMIT restarts in a
 * row. */
static inline bool backoff_starts_again(const AppStatus *s, RestartPolicy policy, uint32_t limit)
{
        if (s->begins)
                return true;
        if (policy == RESTART_NO || (policy == RESTART_ON_FAILURE && backoff_ended_well(s)))
                return false;
        return limit == RESTART_LIMIT_NONE || backoff_row(s) <= limit;
}

/* In which time the first start and N restarts in a row fall, if no run was long enough to begin anew. */
static inline uint64_t backoff_interval(uint64_t first_usec, uint64_t max_usec, uint64_t n)
{
        uint64_t sum = RESTART_QUIET_USEC;

        for (uint64_t i = 1; i <= n; i++)
                if (__builtin_add_overflow(sum, backoff_delay(first_usec, max_usec, i), &sum) ||
                    __builtin_add_overflow(sum, RESTART_QUIET_USEC, &sum))
                        return UINT64_MAX;
        return sum;
}
