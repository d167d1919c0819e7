/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Replaces the apps of a pod in a child process, one after the other; the child sends a line of JSON per app. An app that
 * does not get ready delays the other apps of its pod, but no other pod. The child ends with its parent; the supervisor of
 * the pod finishes, or undoes, a request that it has received by then. */

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "stage0/update/update-internal.h"

/* For apps without a start time-out, which is the default: an app that never gets ready must not delay the others for ever. */
#define READY_USEC (600 * UINT64_C(1000000))
#define END_USEC (10 * UINT64_C(1000000)) /* for a pod that is about to end */
#define ANSWER_MAX (16U * 1024U * 1024U)

/* --- The process --------------------------------------------------------------------------------------- */

/* The time in which the new app has to be ready. */
static uint64_t ready_timeout(const AppUpdate *a, const UpdateOptions *o)
{
        _cleanup_app_settings_ AppSettings s = {};

        if (o->ready_timeout_usec != UPDATE_READY_DEFAULT)
                return o->ready_timeout_usec;
        if (app_settings_read(a->app, &s, NULL) < 0 || s.start_timeout_usec == UINT64_MAX)
                return READY_USEC + (s.health.command ? s.health.start_period_usec : 0);
        return UINT64_MAX; /* the start time-out of the app applies */
}

/* The pod has ended before, or is still starting. */
static bool is_unconnected(int r)
{
        return r == -ESRCH || r == -ECONNRESET || r == -EAGAIN;
}

/* Whether another call has removed the app since its newer image was looked for. */
static bool is_removed(const Pod *p, const char *app)
{
        _cleanup_(pod_freep) Pod *now = NULL;

        return pod_look(p->store, p->uuid, &now, NULL) >= 0 && pod_load(now, NULL) >= 0 &&
               !pod_manifest_find_app(now->manifest, app);
}

/* Whether the pod, which ends, was stopped. The new app may be why it ends, too. */
static bool is_stopped(Pod *p)
{
        _cleanup_(pod_freep) Pod *now = NULL;

        if (pod_wait(p, END_USEC, NULL) < 0)
                return true; /* apps have their time to end */
        int r = pod_look(p->store, p->uuid, &now, NULL);
        return r == -ENOENT ||
               (r >= 0 && pod_load(now, NULL) >= 0 && !pod_end_is_failure(pod_end(now).exit_status));
}

/* The pod is paused, or stopped before or after the supervisor has taken the call, or another call changes the app. */
static bool is_passing(Pod *p, const char *app, int r)
{
        return r == -EBUSY || (r == -ENOENT && is_removed(p, app)) ||
               ((r == -ESHUTDOWN || r == -ECONNRESET) && is_stopped(p));
}

static int replace(Pod *p, AppReplacement *y, const UpdateOptions *options)
{
        _cleanup_(acn_disconnectp) AcnPod *pod = NULL;
        AppUpdate *a = &y->update;
        const AcnReplaceOptions o = {.reference = y->reference,
                                     .image_id = a->newer_id,
                                     .ready_timeout_usec = ready_timeout(a, options)};
        bool replaced = false;

        a->result = UPDATE_FAILED;
        int r = acn_connect(p, &pod, &a->error);
        bool passes = is_unconnected(r);
        if (r >= 0) {
                r = acn_replace_app(pod, a->app->name, &o, &replaced, &a->warnings, &a->error);
                passes = is_passing(p, a->app->name, r);
        }
        if (r >= 0)
                a->result = replaced ? UPDATE_REPLACED : UPDATE_CURRENT;
        else if (options->passes_over && passes)
                a->result = UPDATE_PASSED_OVER;
        if (r != -ECONNABORTED)
                return r;
        a->result = UPDATE_ROLLED_BACK;
        _cleanup_error_ Error e = ERROR_NULL;
        if (pod_failed_image_write(p, a->app, a->newer_id, &e) < 0 && e.message)
                (void) strv_extend(&a->warnings, e.message);
        return r;
}

static int send_result(int fd, size_t i, const AppReplacement *y)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        json_object *warnings = json_object_new_array();
        const AppUpdate *a = &y->update;
        const char *text;

        int r = json_member_add(o, "warnings", warnings);
        STRV_FOREACH (w, a->warnings)
                if (r >= 0)
                        r = json_list_append(warnings, json_object_new_string(*w));
        if (r >= 0)
                r = json_member_add(o, "index", json_object_new_uint64(i));
        if (r >= 0)
                r = json_member_add(o, "result", json_object_new_int((int) a->result));
        if (r >= 0)
                r = json_member_add(o, "code", json_object_new_int(y->code));
        if (r >= 0 && a->error.message)
                r = json_member_add_text(o, "message", a->error.message);
        if (r >= 0 && a->error.hint)
                r = json_member_add_text(o, "hint", a->error.hint);
        if (r < 0)
                return r;
        text = json_print(o);
        if (!text)
                return -ENOMEM;
        r = loop_write(fd, text, strlen(text));
        return r < 0 ? r : loop_write(fd, "\n", 1);
}

static _noreturn_ void process(PodUpdate *x, const UpdateOptions *o, int fd, pid_t parent)
{
        static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

        for (size_t i = 0; i < ELEMENTSOF(signals); i++) {
                struct sigaction old;
                if (sigaction(signals[i], NULL, &old) >= 0 && old.sa_handler != SIG_IGN)
                        (void) signal(signals[i], SIG_DFL);
        }
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
                _exit(1);
        for (size_t i = 0; i < x->n; i++) {
                AppReplacement *y = &x->apps[i];
                if (!y->pending)
                        continue;
                y->code = replace(x->pod, y, o);
                if (send_result(fd, i, y) < 0)
                        _exit(1);
        }
        _exit(0);
}

/* --- Its parent ---------------------------------------------------------------------------------------- */

static int start(PodUpdate *x, const UpdateOptions *o)
{
        pid_t parent = getpid();
        int fd;

        pid_t pid = child_fork_with_pipe(&fd);
        if (pid == 0)
                process(x, o, fd, parent);
        if (pid < 0)
                return pid;
        x->pid = pid;
        x->fd = fd;
        return 0;
}

void pod_update_begin(PodUpdate *x, const UpdateOptions *o)
{
        for (size_t i = 0; i < x->n; i++)
                x->apps[i].begun = x->apps[i].pending;
        x->failure = start(x, o);
}

void pod_update_kill(PodUpdate *x)
{
        x->fd = safe_close(x->fd);
        if (x->pid <= 0)
                return;
        (void) kill(x->pid, SIGKILL);
        while (waitpid(x->pid, NULL, 0) < 0 && errno == EINTR)
                ;
        x->pid = 0;
}

static int take_texts(json_object *list, char ***ret)
{
        int r = 0;

        for (size_t i = 0;
             r >= 0 && json_object_is_type(list, json_type_array) && i < json_object_array_length(list); i++)
                r = strv_extend(ret, json_object_get_string(json_object_array_get_idx(list, i)) ?: "");
        return r;
}

static int take_result(PodUpdate *x, const char *line, size_t n)
{
        _cleanup_json_ json_object *o = NULL;

        if (json_parse_strict(line, n, &o, NULL, NULL) < 0)
                return -EBADMSG;
        uint64_t i = json_object_get_uint64(json_object_object_get(o, "index"));
        if (i >= x->n)
                return -EBADMSG;
        AppReplacement *y = &x->apps[i];
        const char *message = json_object_get_string(json_object_object_get(o, "message")),
                   *hint = json_object_get_string(json_object_object_get(o, "hint"));
        int result = json_object_get_int(json_object_object_get(o, "result"));

        y->pending = false;
        y->code = json_object_get_int(json_object_object_get(o, "code"));
        y->update.result =
                        result >= 0 && result < _UPDATE_RESULT_MAX ? (UpdateResult) result : UPDATE_FAILED;
        if (message)
                (void) error_set(&y->update.error, y->code, "%s", message);
        if (hint)
                (void) error_hint(&y->update.error, y->code, "%s", hint);
        return take_texts(json_object_object_get(o, "warnings"), &y->update.warnings);
}

/* Apps without a result have failed. */
static void conclude(PodUpdate *x, int r)
{
        for (size_t i = 0; i < x->n; i++) {
                AppReplacement *y = &x->apps[i];
                if (!y->pending)
                        continue;
                y->pending = false;
                y->update.result = UPDATE_FAILED;
                y->code = r < 0 ? error_set_errno(&y->update.error, r,
                                                  "Cannot start a process that replaces the app")
                                : error_set(&y->update.error, -ECHILD,
                                            "The process that replaces the app was killed");
        }
}

/* If the operation ends, also reads the results that were sent before. */
static int read_all(PodUpdate *x, const Operation *o, Text *t, Error *e)
{
        char chunk[4096];
        int r = 0;

        for (;;) {
                if (r >= 0) {
                        r = operation_poll(o, x->fd, POLLIN, -1, e);
                        if (r < 0 && fcntl(x->fd, F_SETFL, O_NONBLOCK) < 0)
                                return r;
                }
                ssize_t n = read(x->fd, chunk, sizeof(chunk));
                if (n == 0 || (n < 0 && errno != EINTR) || t->size > ANSWER_MAX)
                        return MIN(r, 0);
                if (n > 0)
                        text_add_bytes(t, chunk, (size_t) n);
        }
}

int pod_update_finish(PodUpdate *x, const Operation *o, Error *e)
{
        _cleanup_text_ Text t = {};
        int r = x->pid > 0 ? read_all(x, o, &t, e) : 0;

        pod_update_kill(x);
        for (size_t i = 0; i < t.size && !t.failed;) {
                const char *end = memchr(t.data + i, '\n', t.size - i);
                if (!end || take_result(x, t.data + i, (size_t) (end - t.data) - i) < 0)
                        break;
                i = (size_t) (end - t.data) + 1;
        }
        if (r >= 0)
                conclude(x, x->failure);
        return r;
}
