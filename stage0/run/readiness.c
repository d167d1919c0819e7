/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which apps of a pod are ready.
 *
 * The launchers tell it: one that runs beside an app that has become ready, and one that sees an app end
 * which never was. Whether the latter will be started again follows from its settings and its record. Of
 * apps whose being ready means no more than that they run nothing is told and nothing is kept.
 *
 * What is to be done about an app that is not healthy any more takes as long as the app takes to stop; so it
 * is done by a process of its own, in the same way as when a user asks for it from outside.
 */

#include <sys/syscall.h>
#include <sys/wait.h>

#include "schema/settings.h"
#include "stage0/control/control.h"
#include "stage0/run/readiness.h"
#include "stage1/backoff.h"

typedef struct AppWait {
        bool expected; /* there is something to wait for */
        bool ready, ended;
        RestartPolicy restart;
        uint32_t restart_limit;
        HealthAction action;
} AppWait;

struct Readiness {
        Pod *pod;
        AppWait *apps; /* in the order of the manifest */
        size_t n_expected, n_ready, n_ended;
};

Readiness *readiness_free(Readiness *r)
{
        if (r)
                free(r->apps);
        free(r);
        return NULL;
}

static int read_app(Readiness *r, size_t i, Error *e)
{
        _cleanup_app_settings_ AppSettings s = {};
        int k = app_settings_read(&r->pod->manifest->apps[i], &s, e);

        if (k < 0)
                return k;
        r->apps[i] = (AppWait){.expected = app_settings_readiness(&s) &&
                                           !stage1_app_is_socket_activated(r->pod->manifest->apps[i].app),
                               .restart = (RestartPolicy) s.restart,
                               .restart_limit = s.restart_limit,
                               .action = (HealthAction) s.health.action};
        r->n_expected += r->apps[i].expected;
        return 0;
}

int readiness_new(Pod *p, Readiness **ret, Error *e)
{
        _cleanup_(readiness_freep) Readiness *r = calloc(1, sizeof(Readiness));
        int k = 0;

        if (!r)
                return error_oom(e);
        r->pod = p;
        r->apps = calloc(p->manifest->n_apps + 1, sizeof(AppWait));
        if (!r->apps)
                return error_oom(e);
        for (size_t i = 0; k >= 0 && i < p->manifest->n_apps; i++)
                k = read_app(r, i, e);
        if (k < 0)
                return k;
        *ret = TAKE_PTR(r);
        return 0;
}

bool readiness_is_used(const Readiness *r)
{
        return r->n_expected > 0;
}

/* Where the end of one app ends the pod, there is nothing to go on without it. */
bool readiness_is_settled(const Readiness *r)
{
        return r->n_ready + (r->pod->config.exit_policy == EXIT_ON_ALL ? r->n_ended : 0) >= r->n_expected;
}

/* --- Unhealthy apps ------------------------------------------------------------------------------------ */

/* A lock of ours that the child held open would outlive us. */
static int leave_supervisor(Pod *p)
{
        sigset_t none;
        int fd = openat(p->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0 || dup3(fd, 3, O_CLOEXEC) < 0 || syscall(SYS_close_range, 4U, ~0U, 0U) < 0)
                return -errno;
        p->dir_fd = 3;
        sigemptyset(&none);
        (void) sigprocmask(SIG_SETMASK, &none, NULL);
        return 0;
}

static int act(Pod *p, const PodApp *app, HealthAction action, Error *e)
{
        if (action == HEALTH_KILL)
                return kill_app(p, app->name, SIGKILL, e);
        if (action == HEALTH_RESTART)
                return restart_app(p, app->name, e);
        int r = stop_app(p, app->name, e);
        if (r < 0 || p->config.exit_policy == EXIT_ON_ALL)
                return r;
        return control_send(p, CONTROL_STOP, e);
}

static _noreturn_ void act_in_child(Pod *p, const PodApp *app, HealthAction action)
{
        _cleanup_error_ Error e = ERROR_NULL;

        pid_t pid = fork(); /* whom we need not wait for */
        if (pid != 0)
                _exit(pid < 0);
        int r = leave_supervisor(p);
        if (r >= 0)
                r = act(p, app, action, &e);
        if (r < 0 && r != -ESRCH)
                log_warning("App %s is not healthy, and nothing can be done about it: %s.", app->name,
                            e.message ?: strerror(-r));
        _exit(r < 0);
}

static void act_on(Pod *p, const PodApp *app, HealthAction action)
{
        if (action == HEALTH_NONE)
                return;
        pid_t pid = fork();
        if (pid == 0)
                act_in_child(p, app, action);
        if (pid > 0)
                (void) waitpid(pid, NULL, 0);
}

/* --- What launchers tell ------------------------------------------------------------------------------- */

static bool will_start_again(const Readiness *r, const PodApp *app, const AppWait *w)
{
        _cleanup_close_ int fd =
                        open_beneath(r->pod->dir_fd, "root/acnspawn/status", O_RDONLY | O_DIRECTORY);
        _cleanup_app_status_ AppStatus s = {};

        if (w->restart == RESTART_NO)
                return false;
        if (fd < 0 || app_status_read(fd, app->name, &s) < 0)
                return true;
        return backoff_starts_again(&s, w->restart, w->restart_limit);
}

void readiness_told(Readiness *r, const PodApp *app, LaunchPhase what)
{
        AppWait *w = &r->apps[app - r->pod->manifest->apps];

        if (what == LAUNCH_UNHEALTHY)
                act_on(r->pod, app, w->action);
        if (!w->expected || w->ready)
                return;
        if (what == LAUNCH_READY) {
                w->ready = true;
                r->n_ready++;
                r->n_ended -= w->ended;
                w->ended = false;
        } else if (what == LAUNCH_NOT_READY && !w->ended && !will_start_again(r, app, w)) {
                w->ended = true;
                r->n_ended++;
        }
}

/* --- Words --------------------------------------------------------------------------------------------- */

static void describe_app(Text *t, int dir_fd, const char *app)
{
        _cleanup_app_status_ AppStatus s = {};
        _cleanup_health_status_ HealthStatus h = {};
        _cleanup_free_ char *shown = NULL;

        text_addf(t, "%sapp %s", t->size > 0 ? "; " : "", app);
        if (dir_fd < 0 || app_status_read(dir_fd, app, &s) < 0)
                return;
        if (s.state == APP_ENDED)
                text_add(t, " has ended");
        else
                text_add(t, s.state == APP_RUNNING ? " is still starting" : " does not run yet");
        if (health_status_read(dir_fd, app, &h) >= 0 && h.last.ran)
                text_add(t, h.last.timed_out ? ", its health check timed out" : ", its health check failed");
        shown = text_escape_for_terminal(h.message ?: s.message ?: "");
        if (!isempty(shown))
                text_addf(t, " (%s)", shown);
}

int readiness_describe(Readiness *r, char **ret)
{
        _cleanup_close_ int fd =
                        open_beneath(r->pod->dir_fd, "root/acnspawn/status", O_RDONLY | O_DIRECTORY);
        _cleanup_text_ Text t = {};

        for (size_t i = 0; i < r->pod->manifest->n_apps; i++)
                if (r->apps[i].expected && !r->apps[i].ready)
                        describe_app(&t, fd, r->pod->manifest->apps[i].name);
        return text_take(&t, ret, NULL);
}

int readiness_summary(const Readiness *r, char **ret)
{
        size_t n = r->pod->manifest->n_apps, waiting = r->n_expected - r->n_ready;

        return xasprintf(ret, "%zu of %zu app%s ready", n - waiting, n, n == 1 ? " is" : "s are");
}
