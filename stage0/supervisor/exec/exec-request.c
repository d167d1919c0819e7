/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The request for the launcher to run a command beside an app.
 *
 * The launcher confines the command, according to the app's own launch file: here that file gets another
 * command, and the parameters of the caller. See stage1/launch/enter.c for the other side. */

#include <sys/mman.h>

#include "stage0/supervisor/exec/exec-internal.h"

/* --- The launch file ----------------------------------------------------------------------------------- */

static int read_launch_config(Pod *p, const PodApp *app, LaunchConfig *ret, Error *e)
{
        _cleanup_free_ char *path = NULL, *data = NULL;
        _cleanup_close_ int fd = -EBADF;
        size_t size = 0;

        if (pod_app_path(p, app, "launch", &path) < 0)
                return error_oom(e);
        fd = open_beneath(p->dir_fd, path, O_RDONLY);
        int r = fd < 0 ? fd : read_fd_bounded(fd, LAUNCH_FILE_SIZE_MAX, &data, &size);
        if (r >= 0)
                r = launch_config_parse(data, size, ret);
        return r < 0 ? error_set_errno(e, r, "Cannot read the launch file of app %s", app->name) : 0;
}

static void remove_variable(char **environment, const char *assignment)
{
        size_t n = (size_t) (strchrnul(assignment, '=') - assignment) + 1, k = 0;

        for (size_t i = 0; environment && environment[i]; i++) {
                if (strncmp(environment[i], assignment, n) == 0)
                        free(environment[i]);
                else
                        environment[k++] = environment[i];
        }
        if (environment)
                environment[k] = NULL;
}

/* The terminal type, which the app's environment does not have. */
static int add_terminal(LaunchConfig *c, const char *type)
{
        STRV_FOREACH (e, c->environment)
                if (startswith(*e, "TERM="))
                        return 0;
        return strv_extendf(&c->environment, "TERM=%s", type);
}

int exec_change_config(LaunchConfig *c, const ExecOptions *o)
{
        int r = 0;

        if (o->argv) {
                c->exec = strv_free(c->exec);
                r = strv_copy(o->argv, &c->exec);
        }
        if (r >= 0 && o->terminal)
                r = add_terminal(c, o->terminal_type ?: "xterm");
        if (r < 0)
                return r;
        STRV_FOREACH (assignment, o->environment) {
                remove_variable(c->environment, *assignment);
                r = strv_extend(&c->environment, *assignment);
                if (r < 0)
                        return r;
        }
        if (!o->directory)
                return 0;
        free(c->working_directory);
        c->working_directory = strdup(o->directory);
        return c->working_directory ? 0 : -ENOMEM;
}

static int write_launch_file(const LaunchConfig *c, int *ret_fd, Error *e)
{
        _cleanup_free_ char *data = NULL;
        _cleanup_close_ int fd = -EBADF;
        size_t size = 0;

        int r = launch_config_format(c, &data, &size);
        if (r < 0)
                return error_oom(e);
        if (size > LAUNCH_FILE_SIZE_MAX)
                return error_set(e, -E2BIG, "The command for app %s is too long", c->app);
        fd = memfd_create("launch-file", MFD_CLOEXEC);
        r = fd < 0 ? -errno : loop_write(fd, data, size);
        if (r >= 0 && lseek(fd, 0, SEEK_SET) < 0)
                r = -errno;
        if (r < 0)
                return error_set_errno(e, r, "Cannot write the launch file for the command");
        *ret_fd = TAKE_FD(fd);
        return 0;
}

/* *RET_CONTROL: the app has the control API, whose socket is among its credentials. */
static int make_launch_file(Pod *p, const PodApp *app, const ExecOptions *o, int *ret_fd, bool *ret_control,
                            Error *e)
{
        _cleanup_launch_config_ LaunchConfig c = {};

        int r = read_launch_config(p, app, &c, e);
        if (r < 0)
                return r;
        *ret_control = c.control;
        return exec_change_config(&c, o) < 0 ? error_oom(e) : write_launch_file(&c, ret_fd, e);
}

/* --- The request --------------------------------------------------------------------------------------- */

static uint32_t find_modules(void)
{
        HostFeatures h = {};

        host_features_detect_security(&h);
        return security_modules(&h);
}

int exec_make_request(Pod *p, const PodApp *app, const ExecOptions *o, EnterRequest *ret, int *ret_file_fd,
                      Error *e)
{
        EnterRequest q = {.version = ENTER_PROTOCOL_VERSION,
                          .modules = find_modules(),
                          .shell = !o->argv,
                          .terminal = o->terminal,
                          .terminal_errors = o->terminal_errors,
                          .credentials = pod_app_has_credentials(p, app),
                          .size = o->size};
        _cleanup_free_ char *url = NULL;
        bool control = false;

        if (o->user && strlen(o->user) >= sizeof(q.user))
                return error_set(e, -ENAMETOOLONG, "The name of the user is too long");
        snprintf(q.user, sizeof(q.user), "%s", o->user ?: "");
        int r = pod_metadata_url_read(p, &url);
        if (r < 0 && r != -ENOENT)
                return error_set_errno(e, r, "Cannot read the address of the metadata service of pod %s",
                                       pod_display_name(p));
        if (url)
                snprintf(q.metadata_url, sizeof(q.metadata_url), "%s", url);
        snprintf(q.identity, sizeof(q.identity), "%s", o->identity ?: "");
        r = make_launch_file(p, app, o, ret_file_fd, &control, e);
        if (r < 0)
                return r;
        q.credentials = q.credentials || control;
        *ret = q;
        return 0;
}
