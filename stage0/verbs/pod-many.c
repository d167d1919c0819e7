/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Runs an operation on many pods in parallel.
 *
 * Stopping a pod takes time, so several are stopped at once, each by a child process, which does the same as
 * for a single pod, and reports the result. Errors and results are shown in the order of the command line,
 * each as soon as the previous ones are known. The children are killed if their parent ends.
 */

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "stage0/verbs/pod-words.h"

#define CHILDREN_MAX 64U

/* The result of one pod, sent by the child. */
typedef struct Report {
        int32_t result;
        char uuid[40], message[2048], hint[4096];
} Report;

typedef struct Task {
        pid_t pid; /* 0: not started, or ended */
        int fd;
        bool over;
        Report *report; /* NULL: none received */
} Task;

typedef struct Tasks {
        Context *context;
        const Words *words;
        const PodWork *work;
        Task *items;
        size_t n_begun, n_shown, n_running;
        int status; /* exit status */
} Tasks;

static int work_on(Context *c, const char *word, const PodWork *w, char uuid[static 40])
{
        _cleanup_(pod_freep) Pod *p = NULL;

        int r = context_find_pod(c, word, &p);
        if (r < 0)
                return r;
        snprintf(uuid, 40, "%s", p->uuid);
        return w->function(c, p, w->userdata);
}

/* --- Children ------------------------------------------------------------------------------------------ */

static _noreturn_ void child(Tasks *t, size_t i, int fd, pid_t parent)
{
        Context *c = t->context;
        Report report = {};

        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
                _exit(1);
        report.result = work_on(c, t->words->list[i], t->work, report.uuid);
        snprintf(report.message, sizeof(report.message), "%s", c->error.message ?: "");
        snprintf(report.hint, sizeof(report.hint), "%s", c->error.hint ?: "");
        _exit(loop_write(fd, &report, sizeof(report)) < 0);
}

static int begin(Tasks *t, size_t i)
{
        pid_t parent = getpid();
        int fd;

        pid_t pid = child_fork_with_pipe(&fd);
        if (pid == 0)
                child(t, i, fd, parent);
        if (pid < 0)
                return pid;
        t->items[i] = (Task){.pid = pid, .fd = fd};
        t->n_running++;
        return 0;
}

/* Starts as many as possible. Fails if not even one can be started. */
static int begin_more(Tasks *t)
{
        while (t->n_begun < t->words->n && t->n_running < CHILDREN_MAX) {
                int r = begin(t, t->n_begun);

                if (r < 0 && t->n_running > 0)
                        return 0;
                if (r < 0)
                        return error_set_errno(&t->context->error, r,
                                               "Cannot start processes for '%s' and the following ones",
                                               t->words->list[t->n_begun]);
                t->n_begun++;
        }
        return 0;
}

static int end(Tasks *t, Task *i)
{
        Report *report = malloc(sizeof(Report));

        if (!report)
                return error_oom(&t->context->error);
        if (loop_read(i->fd, report, sizeof(*report)) == (ssize_t) sizeof(*report))
                i->report = TAKE_PTR(report);
        free(report);
        i->fd = safe_close(i->fd);
        while (waitpid(i->pid, NULL, 0) < 0 && errno == EINTR)
                ;
        i->pid = 0;
        i->over = true;
        t->n_running--;
        return 0;
}

/* Waits until at least one has ended. */
static int wait_for_some(Tasks *t)
{
        struct pollfd polled[CHILDREN_MAX];
        size_t index[CHILDREN_MAX];
        nfds_t n = 0;

        for (size_t i = t->n_shown; i < t->n_begun; i++) {
                if (t->items[i].over)
                        continue;
                index[n] = i;
                polled[n++] = (struct pollfd){.fd = t->items[i].fd, .events = POLLIN};
        }
        while (poll(polled, n, -1) < 0)
                if (errno != EINTR)
                        return error_set_errno(&t->context->error, -errno, "Cannot wait for processes");
        for (nfds_t k = 0; k < n; k++) {
                int r = polled[k].revents ? end(t, &t->items[index[k]]) : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

/* --- Results ------------------------------------------------------------------------------------------- */

/* If the process was killed there is no report. */
static int take_report(Tasks *t, size_t i)
{
        const Report *report = t->items[i].report;
        Error *e = &t->context->error;

        if (!report)
                return error_set(e, -ECHILD, "The process for '%s' was killed", t->words->list[i]);
        if (report->result >= 0)
                return report->result;
        if (report->message[0])
                (void) error_set(e, report->result, "%s", report->message);
        return report->hint[0] ? error_hint(e, report->result, "%s", report->hint) : report->result;
}

static void show(Tasks *t, size_t i)
{
        Context *c = t->context;

        int r = take_report(t, i);
        if (r < 0)
                context_print_error(c, r);
        error_done(&c->error);
        if (r >= 0 && t->work->done)
                t->work->done(c, t->items[i].report->uuid, t->work->userdata);
        if (r != 0)
                t->status = EXIT_STATUS_FAILURE;
}

static int work_on_all(Tasks *t)
{
        while (t->n_shown < t->words->n) {
                int r = begin_more(t);
                if (r >= 0)
                        r = wait_for_some(t);
                if (r < 0)
                        return r;
                for (; t->n_shown < t->n_begun && t->items[t->n_shown].over; t->n_shown++)
                        show(t, t->n_shown);
        }
        return t->status;
}

static void tasks_done(Tasks *t)
{
        for (size_t i = 0; i < t->n_begun; i++) {
                Task *item = &t->items[i];

                if (item->pid > 0) {
                        (void) kill(item->pid, SIGKILL);
                        (void) waitpid(item->pid, NULL, 0);
                        safe_close(item->fd);
                }
                free(item->report);
        }
        free(t->items);
}

static int work_on_one(Context *c, const char *word, void *userdata)
{
        const PodWork *w = userdata;
        char uuid[40] = "";

        int r = work_on(c, word, w, uuid);
        if (r >= 0 && w->done)
                w->done(c, uuid, w->userdata);
        return r;
}

int context_for_many_pods(Context *c, const Words *words, const PodWork *w)
{
        PodWork copy = *w;

        if (words->n == 1)
                return context_for_each(c, words, work_on_one, &copy);
        _cleanup_(tasks_done) Tasks t = {.context = c,
                                         .words = words,
                                         .work = w,
                                         .items = calloc(words->n, sizeof(Task)),
                                         .status = EXIT_SUCCESS};
        if (!t.items)
                return error_oom(&c->error);
        (void) fflush(NULL); /* or each child would have a copy of the buffered output */
        return work_on_all(&t);
}
