/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the launcher reports to the supervisor, which keeps the app's status.
 *
 * Events are packets of their own, and are answered. What the process that becomes the app has to report is written to
 * memory that it shares with the supervisor, since the filter of the app may forbid every system call but the exec;
 * the supervisor reads it when the connection of that process is closed.
 */

#include <signal.h>
#include <sys/mman.h>

#include "stage1/launch/launch.h"

/* --- Shared memory ------------------------------------------------------------------------------------- */

int report_map(Launch *l, int fd, Failure *f)
{
        void *p = mmap(NULL, sizeof(LaunchReport), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        if (p == MAP_FAILED)
                return failure_set_errno(f, CAUSE_SETUP, -errno, "Cannot share memory with the supervisor");
        l->report = p;
        return 0;
}

int report_running(Launch *l, Failure *f)
{
        if (!l->report)
                return failure_set(f, CAUSE_SETUP, -EBADMSG,
                                   "The pod's supervisor sent no memory for reports of app %s", l->app);
        snprintf(l->report->identity, sizeof(l->report->identity), "%s", l->identity ?: "");
        l->report->started_usec = now_usec(CLOCK_REALTIME);
        return 0;
}

/* --- Events -------------------------------------------------------------------------------------------- */

static void add_failure(LaunchEvent *e, const Failure *f)
{
        e->cause = f->cause != CAUSE_NONE ? f->cause : CAUSE_SETUP;
        snprintf(e->message, sizeof(e->message), "%s", f->error.message ?: "");
}

static void add_handler(LaunchEvent *e, const HandlerStatus *h, const Failure *f)
{
        e->exit_status = h->exit_status;
        e->signal = h->signal;
        e->timed_out = h->timed_out;
        if (f)
                add_failure(e, f);
}

void report_failed(Launch *l, const Failure *f)
{
        LaunchEvent e = {.kind = LAUNCH_FAILED, .exit_status = -1};

        if (!l->report) {
                add_failure(&e, f);
                (void) launch_send_event(l, &e);
                return;
        }
        snprintf(l->report->message, sizeof(l->report->message), "%s", f->error.message ?: "");
        l->report->cause = f->cause != CAUSE_NONE ? f->cause : CAUSE_SETUP;
}

int report_handler(Launch *l, LaunchEventKind kind, const HandlerStatus *h, const Failure *f)
{
        LaunchEvent e = {.kind = kind};

        add_handler(&e, h, f);
        snprintf(e.identity, sizeof(e.identity), "%s", l->identity ?: "");
        return launch_send_event(l, &e);
}

int report_check(Launch *l, const HandlerStatus *h, const char *message, uint64_t number, bool counts)
{
        LaunchEvent e = {.kind = LAUNCH_CHECKED, .number = number, .counts = counts};

        add_handler(&e, h, NULL);
        snprintf(e.message, sizeof(e.message), "%s", message);
        return launch_send_event(l, &e);
}

/* The name systemd gives a signal ("KILL", "RTMIN+3") as a number; 0 if it is none. */
static int signal_from_name(const char *name)
{
        uint32_t n;
        const char *rest;

        if (parse_u32(name, &n) >= 0)
                return n < NSIG ? (int) n : 0;
        for (int s = 1; s < NSIG; s++)
                if (streq_ptr(sigabbrev_np(s), name))
                        return s;
        rest = startswith(name, "RTMIN");
        if (rest && *rest == '+' && parse_u32(rest + 1, &n) >= 0 && n < 64)
                return SIGRTMIN + (int) n;
        return rest && !*rest ? SIGRTMIN : 0;
}

int report_main_ended(Launch *l)
{
        const char *result = getenv("SERVICE_RESULT"), *code = getenv("EXIT_CODE"),
                   *status = getenv("EXIT_STATUS");
        LaunchEvent e = {.kind = LAUNCH_MAIN_ENDED, .exit_status = -1, .known = code && status};
        uint32_t n;

        snprintf(e.result, sizeof(e.result), "%s", result ?: "");
        if (e.known && streq(code, "exited") && parse_u32(status, &n) >= 0 && n <= 255)
                e.exit_status = (int) n;
        else if (e.known) {
                e.signal = signal_from_name(status);
                e.core_dumped = streq(code, "dumped");
        }
        return launch_send_event(l, &e);
}
