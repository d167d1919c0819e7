/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The last steps of a launch: environment, working directory, identity, exec.
 *
 * The environment is the specification's four variables, HOME if the image's passwd tells it, and what the manifest says, byte for
 * byte; nothing of systemd's own comes through. The executable is searched as a shell does (spec: aci.md, "exec").
 */

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "stage1/launch/launch.h"

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static bool environment_has(char *const *environment, const char *name)
{
        STRV_FOREACH (e, environment) {
                const char *rest = startswith(*e, name);
                if (rest && *rest == '=')
                        return true;
        }
        return false;
}

static int add_default(char ***environment, const char *name, const char *value)
{
        if (!value || environment_has(*environment, name))
                return 0;
        return strv_extendf(environment, "%s=%s", name, value);
}

/* What the app must be able to rely on comes last and wins; PATH and HOME may be the manifest's. */
static int build_environment(Launch *l, const Identity *id, char ***ret)
{
        _cleanup_strv_free_ char **environment = NULL;
        int r = 0;

        STRV_FOREACH (e, l->config.environment) {
                if (startswith(*e, "AC_APP_NAME=") || startswith(*e, "AC_METADATA_URL=") || startswith(*e, "container="))
                        continue;
                r = strv_extend(&environment, *e);
                if (r < 0)
                        return r;
        }
        r = add_default(&environment, "PATH", DEFAULT_PATH);
        if (r >= 0)
                r = add_default(&environment, "HOME", id->home);
        if (r >= 0)
                r = add_default(&environment, "AC_APP_NAME", l->config.app);
        if (r >= 0)
                r = add_default(&environment, "AC_METADATA_URL", l->metadata_url);
        if (r >= 0)
                r = add_default(&environment, "container", "acnspawn");
        if (r < 0)
                return r;
        *ret = TAKE_PTR(environment);
        return 0;
}

static int use_streams(Launch *l, Failure *f)
{
        _cleanup_close_ int null = open("/dev/null", O_RDONLY | O_NOCTTY | O_CLOEXEC);

        if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(l->stdout_fd, STDOUT_FILENO) < 0 ||
            dup2(l->stderr_fd, STDERR_FILENO) < 0)
                return failure_set(f, CAUSE_SETUP, -errno, "Cannot set up the standard streams");
        return 0;
}

static void reset_signals(void)
{
        sigset_t none;

        for (int s = 1; s < NSIG; s++)
                (void) signal(s, SIG_DFL);
        sigemptyset(&none);
        (void) sigprocmask(SIG_SETMASK, &none, NULL);
}

static bool found_in_path(const char *command)
{
        _cleanup_strv_free_ char **directories = NULL;

        if (strchr(command, '/'))
                return access(command, F_OK) >= 0;
        if (strv_split(getenv("PATH") ?: DEFAULT_PATH, ":", &directories) < 0)
                return false;
        STRV_FOREACH (d, directories) {
                _cleanup_free_ char *p = NULL;
                if (xasprintf(&p, "%s/%s", *d, command) >= 0 && access(p, F_OK) >= 0)
                        return true;
        }
        return false;
}

static int exec_failed(const char *command, int code, Failure *f)
{
        if (code == -ENOENT && found_in_path(command))
                return failure_set(f, CAUSE_COMMAND_NOT_EXECUTABLE, -ENOEXEC,
                                   "Cannot execute %s: the interpreter or loader that it names is missing in the image", command);
        if (code == -ENOENT || code == -ENOTDIR)
                return failure_set(f, CAUSE_COMMAND_NOT_FOUND, code, "Command %s is not in the image%s", command,
                                   strchr(command, '/') ? "" : " (searched in PATH)");
        return failure_set(f, CAUSE_COMMAND_NOT_EXECUTABLE, code, "Cannot execute %s", command);
}

int launch_execute(Launch *l, char *const *argv, const Identity *id, Failure *f)
{
        _cleanup_strv_free_ char **environment = NULL;
        int r = build_environment(l, id, &environment);

        if (r < 0)
                return failure_set(f, CAUSE_SETUP, r, "Cannot build the environment of app %s", l->app);
        r = use_streams(l, f);
        if (r < 0)
                return r;
        r = identity_assume(&l->config, id, f);
        if (r < 0)
                return r;
        if (chdir(l->config.working_directory) < 0)
                return failure_set(f, CAUSE_WORKING_DIRECTORY, -errno, "Working directory %s of app %s cannot be entered",
                                   l->config.working_directory, l->app);
        umask(0022);
        reset_signals();
        /* Everything else was opened O_CLOEXEC; this is the promise that nothing slips through. */
        (void) syscall(SYS_close_range, 3U, ~0U, 1U << 2 /* CLOSE_RANGE_CLOEXEC */);
        environ = environment;
        execvp(argv[0], argv);
        r = -errno;
        r = exec_failed(argv[0], r, f);
        environ = NULL;
        return r;
}

static char *const *phase_command(const Launch *l)
{
        switch (l->phase) {
        case LAUNCH_PRE_START:
                return l->config.pre_start;
        case LAUNCH_POST_STOP:
                return l->config.post_stop;
        default:
                return l->config.exec;
        }
}

int launch_become(Launch *l, int (*running)(Launch *l, Failure *f), Failure *f)
{
        Identity id = {};
        int r = launch_request(l, f);

        if (r >= 0 && !phase_command(l))
                r = failure_set(f, CAUSE_SETUP, -EBADMSG, "The launch file of app %s has no such command", l->app);
        if (r >= 0)
                r = launch_open_streams(l, f);
        if (r >= 0)
                r = launch_enter_root(l, f);
        if (r >= 0)
                r = identity_resolve(&l->config, &id, f);
        if (r >= 0 && running)
                r = running(l, f);
        if (r >= 0)
                r = launch_execute(l, phase_command(l), &id, f);
        free(id.home);
        return r;
}
