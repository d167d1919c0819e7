/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The state of a pod: running, paused, or in between.
 *
 * The kernel freezes processes one by one, and a process in a system call only when that returns, so a pause takes time to
 * begin and to end. A user can also freeze the cgroup of the pod, or of its unit, directly. The kernel reports both in
 * "cgroup.events". The table below has the action and the next state for each event in each state.
 *
 * Processes cannot use time in which they are frozen, so timers that limit them (PodTimer) stop during a pause. */

#include <sys/epoll.h>

#include "stage0/supervisor/apps/pod-pause.h"
#include "stage0/supervisor/apps/state-table.h"

#define GRACE_USEC UINT64_C(1000000) /* the least time that a timer has left after a pause */

typedef enum PauseState {
        PAUSE_NONE,   /* the pod runs */
        PAUSE_BEGINS, /* a request has begun to freeze the pod */
        PAUSE_HOLDS,
        PAUSE_ENDS, /* a request has begun to thaw it */
        PAUSE_OVER, /* the pod ends, and cannot be paused any more */
        _PAUSE_STATE_MAX,
} PauseState;

typedef enum PauseEvent {
        ASKED_TO_PAUSE,
        ASKED_TO_RESUME,
        SAW_FROZEN, /* in "cgroup.events" */
        SAW_THAWED,
        WAS_LATE, /* the request was not done in time */
        FAILED,   /* the request cannot be done */
        POD_ENDS,
        _PAUSE_EVENT_MAX,
} PauseEvent;

typedef enum PauseAction {
        IMPOSSIBLE, /* the event cannot occur in this state */
        NOTHING,
        FREEZE,
        THAW,
        SUCCEED, /* answer the request */
        FAIL,
        UNDO,    /* and fail the request */
        REFUSE,  /* fail the request: the pod ends */
        RELEASE, /* thaw the pod, and refuse a request */
        THAW_AT_END,
        _PAUSE_ACTION_MAX,
} PauseAction;

static const char *const states[_PAUSE_STATE_MAX] = {
                [PAUSE_NONE] = "none", [PAUSE_BEGINS] = "begins", [PAUSE_HOLDS] = "holds",
                [PAUSE_ENDS] = "ends", [PAUSE_OVER] = "over",
};

static const char *const events[_PAUSE_EVENT_MAX] = {
                [ASKED_TO_PAUSE] = "pause", [ASKED_TO_RESUME] = "resume", [SAW_FROZEN] = "frozen",
                [SAW_THAWED] = "thawed",    [WAS_LATE] = "late",          [FAILED] = "failed",
                [POD_ENDS] = "pod-ends",
};

static const StateTransition transitions[_PAUSE_STATE_MAX][_PAUSE_EVENT_MAX] = {
                [PAUSE_NONE] = {[ASKED_TO_PAUSE] = {PAUSE_BEGINS, FREEZE},
                                [ASKED_TO_RESUME] = {PAUSE_ENDS, THAW},
                                [SAW_FROZEN] = {PAUSE_HOLDS, NOTHING}, /* frozen by a user */
                                [SAW_THAWED] = {PAUSE_NONE, NOTHING},
                                [POD_ENDS] = {PAUSE_OVER, RELEASE}},
                [PAUSE_BEGINS] = {[SAW_FROZEN] = {PAUSE_HOLDS, SUCCEED},
                                  [SAW_THAWED] = {PAUSE_BEGINS, NOTHING},
                                  [WAS_LATE] = {PAUSE_NONE, UNDO},
                                  [FAILED] = {PAUSE_NONE, FAIL},
                                  [POD_ENDS] = {PAUSE_OVER, RELEASE}},
                /* A user may have frozen the pod: a request to pause it freezes it here, too. */
                [PAUSE_HOLDS] = {[ASKED_TO_PAUSE] = {PAUSE_BEGINS, FREEZE},
                                 [ASKED_TO_RESUME] = {PAUSE_ENDS, THAW},
                                 [SAW_FROZEN] = {PAUSE_HOLDS, NOTHING},
                                 [SAW_THAWED] = {PAUSE_NONE, NOTHING},
                                 [POD_ENDS] = {PAUSE_OVER, RELEASE}},
                [PAUSE_ENDS] = {[SAW_FROZEN] = {PAUSE_ENDS, NOTHING},
                                [SAW_THAWED] = {PAUSE_NONE, SUCCEED},
                                [WAS_LATE] = {PAUSE_HOLDS, UNDO},
                                [FAILED] = {PAUSE_NONE, FAIL},
                                [POD_ENDS] = {PAUSE_OVER, RELEASE}},
                [PAUSE_OVER] = {[ASKED_TO_PAUSE] = {PAUSE_OVER, REFUSE},
                                [ASKED_TO_RESUME] = {PAUSE_OVER, THAW_AT_END},
                                [SAW_FROZEN] = {PAUSE_OVER, NOTHING},
                                [SAW_THAWED] = {PAUSE_OVER, NOTHING},
                                [POD_ENDS] = {PAUSE_OVER, RELEASE}},
};

static const StateTable table = STATE_TABLE("pause", states, events, transitions);

struct PodPause {
        Pod *pod;
        sd_event *event;
        PauseState state;
        int events_fd; /* "cgroup.events" of the pod; negative: not open */
        sd_event_source *events_source, *late_source;
        PauseFunction done; /* answers the pending request; NULL: no request is pending */
        void *userdata;
        PodTimer *timers;
        void (*changed)(void *userdata, bool frozen);
        void *changed_userdata;
        bool frozen; /* what was reported to it */
};

static void handle(PodPause *x, PauseEvent event, int r, const Error *why);

/* --- Timers -------------------------------------------------------------------------------------------- */

struct PodTimer {
        PodTimer *next;
        PodPause *pause;
        sd_event_source *source;
        uint64_t due_usec;  /* CLOCK_MONOTONIC; 0: it has expired */
        uint64_t left_usec; /* time left when it was stopped */
        bool stopped;
        void (*function)(void *userdata);
        void *userdata;
};

static bool time_runs(const PodPause *x)
{
        return !x || x->state == PAUSE_NONE || x->state == PAUSE_OVER;
}

static int start_timer(PodTimer *t, uint64_t usec)
{
        t->stopped = false;
        t->due_usec = now_usec(CLOCK_MONOTONIC) + usec;
        int r = sd_event_source_set_time_relative(t->source, usec);
        return r < 0 ? r : sd_event_source_set_enabled(t->source, SD_EVENT_ONESHOT);
}

static void stop_timer(PodTimer *t)
{
        uint64_t now = now_usec(CLOCK_MONOTONIC);

        if (t->stopped || t->due_usec == 0)
                return;
        t->stopped = true;
        t->left_usec = t->due_usec > now ? t->due_usec - now : 0;
        (void) sd_event_source_set_enabled(t->source, SD_EVENT_OFF);
}

static void set_timers(PodPause *x)
{
        for (PodTimer *t = x->timers; t; t = t->next)
                if (!time_runs(x))
                        stop_timer(t);
                else if (t->stopped)
                        (void) start_timer(t, MAX(t->left_usec, GRACE_USEC));
}

/* Reads "cgroup.events" now: a change may not have been reported by the event loop yet. */
static int check_events(PodPause *x)
{
        int r = x && x->events_fd >= 0 ? freezer_check(x->events_fd, true) : -ENOENT;

        if (r >= 0)
                handle(x, r > 0 ? SAW_FROZEN : SAW_THAWED, 0, NULL);
        return r;
}

static int on_time(sd_event_source *source, uint64_t usec, void *userdata)
{
        PodTimer *t = userdata;

        (void) check_events(t->pause);
        if (t->stopped)
                return 0;
        if (!time_runs(t->pause)) {
                stop_timer(t);
                return 0;
        }
        t->due_usec = 0;
        t->function(t->userdata);
        return 0;
}

static void open_events(PodPause *x);

int pod_timer_set(PodTimer *t, uint64_t usec)
{
        int r = start_timer(t, usec);

        if (r >= 0 && !time_runs(t->pause))
                stop_timer(t);
        return r;
}

int pod_timer_new(PodPause *x, sd_event *event, uint64_t usec, void (*function)(void *userdata),
                  void *userdata, PodTimer **ret)
{
        PodTimer *t = malloc(sizeof(PodTimer));

        if (!t)
                return -ENOMEM;
        *t = (PodTimer){.pause = x, .function = function, .userdata = userdata};
        int r = sd_event_add_time_relative(event, &t->source, CLOCK_MONOTONIC, usec, 0, on_time, t);
        if (r < 0) {
                free(t);
                return r;
        }
        if (x) {
                t->next = x->timers;
                x->timers = t;
                open_events(x);
                (void) check_events(x);
        }
        r = pod_timer_set(t, usec);
        if (r < 0) {
                (void) pod_timer_free(t);
                return r;
        }
        *ret = t;
        return 0;
}

bool pod_timer_has_expired(const PodTimer *t)
{
        return t && t->due_usec == 0;
}

PodTimer *pod_timer_free(PodTimer *t)
{
        if (!t)
                return NULL;
        for (PodTimer **i = t->pause ? &t->pause->timers : NULL; i && *i; i = &(*i)->next)
                if (*i == t) {
                        *i = t->next;
                        break;
                }
        sd_event_source_disable_unref(t->source);
        free(t);
        return NULL;
}

/* --- The kernel ---------------------------------------------------------------------------------------- */

static int on_events(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        PodPause *x = userdata;

        if (check_events(x) < 0) /* the cgroup was removed */
                (void) sd_event_source_set_enabled(source, SD_EVENT_OFF);
        return 0;
}

/* Opened for the first pause, or the first timer: other pods do not need it. The cgroup does not exist before nspawn is
 * started. */
static void open_events(PodPause *x)
{
        if (x->events_fd >= 0)
                return;
        x->events_fd = pod_open_freezer_events(x->pod);
        if (x->events_fd < 0)
                return;
        if (sd_event_add_io(x->event, &x->events_source, x->events_fd, EPOLLPRI, on_events, x) < 0)
                x->events_fd = safe_close(x->events_fd);
}

/* The supervisor itself may have been late: checks whether the kernel has reported the end of the request before it counts
 * as late. */
static int on_late(sd_event_source *source, uint64_t usec, void *userdata)
{
        PodPause *x = userdata;

        (void) check_events(x);
        if (x->late_source == source) /* the request is still pending */
                handle(x, WAS_LATE, 0, NULL);
        return 0;
}

/* Most requests are done before this returns. */
static void begin(PodPause *x, bool freeze)
{
        _cleanup_error_ Error e = ERROR_NULL;

        int r = pod_freeze(x->pod, freeze, &e);
        if (r >= 0) {
                open_events(x);
                if (x->events_fd < 0)
                        r = error_set_errno(&e, x->events_fd, "Cannot read cgroup.events of pod %s",
                                            pod_display_name(x->pod));
        }
        if (r >= 0) {
                r = sd_event_add_time_relative(x->event, &x->late_source, CLOCK_MONOTONIC,
                                               FREEZE_TIMEOUT_USEC, 0, on_late, x);
                if (r < 0)
                        (void) error_set_errno(&e, r, "Cannot wait for the processes of pod %s",
                                               pod_display_name(x->pod));
        }
        if (r >= 0)
                r = check_events(x);
        if (r >= 0)
                return;
        if (!e.message)
                (void) error_set_errno(&e, r, "Cannot read cgroup.events of pod %s",
                                       pod_display_name(x->pod));
        if (freeze)
                (void) pod_freeze(x->pod, false, NULL);
        handle(x, FAILED, r, &e);
}

/* --- Transitions --------------------------------------------------------------------------------------- */

static void answer(PodPause *x, int r, const Error *e)
{
        PauseFunction done = TAKE_PTR(x->done);

        x->late_source = sd_event_source_disable_unref(x->late_source);
        if (done)
                done(x->userdata, r, e);
}

static void undo(PodPause *x, bool freeze)
{
        _cleanup_error_ Error e = ERROR_NULL;
        int r = pod_freeze_undo(x->pod, freeze, &e);

        answer(x, r, &e);
}

static void act(PodPause *x, PauseAction action, PauseState from, int r, const Error *why)
{
        switch (action) {
        case FREEZE:
        case THAW:
                begin(x, action == FREEZE);
                break;
        case SUCCEED:
                answer(x, 0, NULL);
                break;
        case FAIL:
                answer(x, r, why);
                break;
        case UNDO:
                undo(x, from == PAUSE_BEGINS);
                break;
        case REFUSE:
                answer(x, -ESHUTDOWN, NULL);
                break;
        case RELEASE:
                /* PID 1 receives its signal to end when it is thawed; the supervisor does not wait for that. */
                (void) pod_freeze(x->pod, false, NULL);
                answer(x, -ESHUTDOWN, NULL);
                break;
        case THAW_AT_END:
                (void) pod_freeze(x->pod, false, NULL);
                answer(x, 0, NULL);
                break;
        default:
                break;
        }
}

/* It stays frozen until a request to resume it is done. */
static void report_change(PodPause *x)
{
        bool frozen = x->state == PAUSE_HOLDS || (x->frozen && !time_runs(x));

        if (frozen == x->frozen)
                return;
        x->frozen = frozen;
        if (x->changed)
                x->changed(x->changed_userdata, frozen);
}

/* The state of X may have changed again when this returns: the answer to a request can start the next one. */
static void handle(PodPause *x, PauseEvent event, int r, const Error *why)
{
        PauseState from = x->state;
        const StateTransition *t = state_table_find(&table, from, event);

        if (!t)
                return;
        x->state = t->to;
        set_timers(x);
        report_change(x);
        act(x, t->action, from, r, why);
}

void pod_pause_request(PodPause *x, bool freeze, PauseFunction done, void *userdata)
{
        x->done = done;
        x->userdata = userdata;
        handle(x, freeze ? ASKED_TO_PAUSE : ASKED_TO_RESUME, 0, NULL);
}

void pod_pause_watch(PodPause *x, void (*function)(void *userdata, bool frozen), void *userdata)
{
        x->changed = function;
        x->changed_userdata = userdata;
}

void pod_pause_release(PodPause *x)
{
        if (x)
                handle(x, POD_ENDS, 0, NULL);
}

/* --- The object ---------------------------------------------------------------------------------------- */

int pod_pause_new(Pod *p, sd_event *event, PodPause **ret)
{
        PodPause *x = malloc(sizeof(PodPause));

        if (!x)
                return -ENOMEM;
        *x = (PodPause){.pod = p, .event = event, .events_fd = -EBADF};
        *ret = x;
        return 0;
}

PodPause *pod_pause_free(PodPause *x)
{
        if (!x)
                return NULL;
        sd_event_source_disable_unref(x->events_source);
        sd_event_source_disable_unref(x->late_source);
        safe_close(x->events_fd);
        free(x);
        return NULL;
}
