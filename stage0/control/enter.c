/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Running a command beside an app that runs.
 *
 * What confines the command is the launcher, with the app's own launch file: here that file gets another
 * command, and what the user asked for. The streams are pipes or a new terminal of the pod's, never our own:
 * an open file is a way to the file, and a terminal a way to what its owner types. See
 * stage1/launch/enter.c for the other side.
 */

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "stage0/control/control-internal.h"
#include "stage1/launch-config.h"
#include "stage1/launch-protocol.h"

/* --- The launch file ----------------------------------------------------------------------------------- */

static int read_launch_config(Pod *p, const PodApp *app, LaunchConfig *ret, Error *e)
{
        _cleanup_free_ char *path = NULL, *data = NULL;
        _cleanup_close_ int fd = -EBADF;
        size_t size = 0;

        if (xasprintf(&path, "apps/%s/launch", app->name) < 0)
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

/* What the terminal is, which the app's environment cannot know. */
static int add_terminal(LaunchConfig *c)
{
        STRV_FOREACH (e, c->environment)
                if (startswith(*e, "TERM="))
                        return 0;
        return strv_extendf(&c->environment, "TERM=%s", terminal_type());
}

static int change_config(LaunchConfig *c, const EnterOptions *o, bool terminal)
{
        int r = 0;

        if (o->argv && o->argv[0]) {
                c->exec = strv_free(c->exec);
                r = strv_copy(o->argv, &c->exec);
        }
        if (r >= 0 && terminal)
                r = add_terminal(c);
        STRV_FOREACH (assignment, o->environment) {
                remove_variable(c->environment, *assignment);
                if (r >= 0)
                        r = strv_extend(&c->environment, *assignment);
        }
        if (r >= 0 && o->directory) {
                free(c->working_directory);
                c->working_directory = strdup(o->directory);
                r = c->working_directory ? 0 : -ENOMEM;
        }
        return r;
}

static uint32_t find_modules(void)
{
        HostFeatures h = {};

        host_features_detect_security(&h);
        return security_modules(&h);
}

static int make_launch_file(Pod *p, const PodApp *app, const EnterOptions *o, EnterRequest *q, int *ret_fd,
                            Error *e)
{
        _cleanup_launch_config_ LaunchConfig c = {};
        _cleanup_free_ char *data = NULL;
        _cleanup_close_ int fd = -EBADF;
        size_t size = 0;

        int r = read_launch_config(p, app, &c, e);
        if (r < 0)
                return r;
        q->modules = find_modules();
        r = change_config(&c, o, q->terminal);
        if (r >= 0)
                r = launch_config_format(&c, &data, &size);
        if (r < 0)
                return error_oom(e);
        if (size > LAUNCH_FILE_SIZE_MAX)
                return error_set(e, -E2BIG, "The command for app %s is too long", app->name);
        fd = memfd_create("launch-file", MFD_CLOEXEC);
        r = fd < 0 ? -errno : loop_write(fd, data, size);
        if (r >= 0 && lseek(fd, 0, SEEK_SET) < 0)
                r = -errno;
        if (r < 0)
                return error_set_errno(e, r, "Cannot write the launch file for the command");
        *ret_fd = TAKE_FD(fd);
        return 0;
}

/* --- The request --------------------------------------------------------------------------------------- */

typedef struct Session {
        EnterRequest request;
        int fds[ENTER_FD_CGROUPS + ENTER_CGROUPS_MAX];
        size_t n_fds;
        pid_t launcher;
        EnterReply reply;
        Forward forward;
} Session;

static void session_init(Session *s)
{
        *s = (Session){
                        .request.version = ENTER_PROTOCOL_VERSION,
                        .n_fds = ENTER_FD_CGROUPS,
                        .forward = FORWARD_NULL,
        };
        for (size_t i = 0; i < ELEMENTSOF(s->fds); i++)
                s->fds[i] = -EBADF;
}

static void session_done(Session *s)
{
        for (size_t i = 0; i < ELEMENTSOF(s->fds); i++)
                s->fds[i] = safe_close(s->fds[i]);
        forward_done(&s->forward);
        if (s->launcher > 0) {
                (void) kill(s->launcher, ENTER_END);
                (void) waitpid(s->launcher, NULL, 0);
        }
}

/* A pipe whose end in the pod belongs to the pod's root, who gives it on. */
static int make_pipe(Session *s, size_t i, uid_t owner)
{
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        s->fds[ENTER_FD_STDIN + i] = fds[i == 0 ? 0 : 1];
        s->forward.fds[i] = fds[i == 0 ? 1 : 0];
        return fchown(fds[0], owner, owner) < 0 ? -errno : 0;
}

/* A terminal if we have one; what is not on it stays apart. */
static int open_streams(Session *s, Pod *p, Error *e)
{
        uid_t owner = pod_root_uid(p);
        bool terminal = s->request.terminal;

        for (size_t i = 0; i < 3; i++) {
                int r = 0;
                if (terminal && (i < 2 || s->request.terminal_errors)) {
                        s->fds[ENTER_FD_STDIN + i] = open("/dev/null", O_RDWR | O_CLOEXEC | O_NOCTTY);
                        r = s->fds[ENTER_FD_STDIN + i] < 0 ? -errno : 0;
                } else
                        r = make_pipe(s, i, owner);
                if (r < 0)
                        return error_set_errno(e, r, "Cannot make the streams of the command");
        }
        return 0;
}

static int fill_request(Session *s, Pod *p, const EnterOptions *o, Error *e)
{
        _cleanup_free_ char *url = NULL;
        EnterRequest *q = &s->request;

        q->terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
        q->terminal_errors = q->terminal && isatty(STDERR_FILENO);
        q->shell = !o->argv || !o->argv[0];
        if (q->terminal)
                forward_get_size(&q->size);
        if (o->user && strlen(o->user) >= sizeof(q->user))
                return error_set(e, -ENAMETOOLONG, "The name of the user is too long");
        snprintf(q->user, sizeof(q->user), "%s", o->user ?: "");
        int r = pod_metadata_url_read(p, &url);
        if (r < 0 && r != -ENOENT)
                return error_set_errno(e, r, "Cannot read the address of the metadata service of pod %s",
                                       pod_display_name(p));
        if (url)
                snprintf(q->metadata_url, sizeof(q->metadata_url), "%s", url);
        return 0;
}

/* What the app has made of its passwd since is not to be asked. */
static void fill_identity(EnterRequest *q, Pod *p, const PodApp *app)
{
        _cleanup_close_ int fd = open_beneath(p->dir_fd, "root/acnspawn/status", O_RDONLY | O_DIRECTORY);
        _cleanup_app_status_ AppStatus s = {};

        if (fd >= 0 && app_status_read(fd, app->name, &s) >= 0 && s.identity)
                snprintf(q->identity, sizeof(q->identity), "%s", s.identity);
}

static int find_place(Session *s, Pod *p, const PodApp *app, Error *e)
{
        AppProcess process = {.pid_fd = -EBADF};
        size_t n = 0;

        int r = app_process_open(p, app, &process, e);
        if (r < 0)
                return r;
        s->fds[ENTER_FD_APP] = process.pid_fd;
        s->request.app = process.pid;
        r = pod_cgroup_open_process(p, process.pid, s->fds + ENTER_FD_CGROUPS, ENTER_CGROUPS_MAX, &n);
        s->n_fds += n;
        if (r == -ESRCH)
                return error_set(e, r, "App %s of pod %s has just ended", app->name, pod_display_name(p));
        return r < 0 ? error_set_errno(e, r, "Cannot find the cgroups of app %s of pod %s", app->name,
                                       pod_display_name(p))
                     : 0;
}

static int start(Session *s, Pod *p, const PodApp *app, const EnterOptions *o, Error *e)
{
        int r = fill_request(s, p, o, e);

        s->request.credentials = pod_app_has_credentials(p, app->name);
        if (r >= 0)
                r = find_place(s, p, app, e);
        if (r >= 0)
                fill_identity(&s->request, p, app);
        if (r >= 0)
                r = make_launch_file(p, app, o, &s->request, &s->fds[ENTER_FD_FILE], e);
        if (r >= 0)
                r = open_streams(s, p, e);
        if (r >= 0)
                r = launcher_start(&s->launcher, &s->forward.socket, e);
        if (r < 0)
                return r;
        r = send_fds(s->forward.socket, &s->request, sizeof(s->request), s->fds, s->n_fds);
        for (size_t i = 0; i < ELEMENTSOF(s->fds); i++)
                s->fds[i] = safe_close(s->fds[i]);
        return r < 0 ? error_set_errno(e, r, "Cannot start the launcher") : 0;
}

/* --- While it runs ------------------------------------------------------------------------------------- */

static int on_launcher(Forward *f)
{
        int fd = -EBADF;
        size_t n_fds = 0;
        EnterReply reply;
        Session *s = f->userdata;

        ssize_t n = recv_fds(f->socket, &reply, sizeof(reply), &fd, 1, &n_fds);
        if (n != (ssize_t) sizeof(reply))
                return -ECONNRESET;
        reply.text[sizeof(reply.text) - 1] = 0;
        if (reply.event != ENTER_TERMINAL) {
                s->reply = reply;
                safe_close(fd);
                return 1;
        }
        if (n_fds == 1 && !f->terminal)
                forward_take_terminal(f, TAKE_FD(fd));
        safe_close(fd);
        return 0;
}

static int pass_on_signal(Forward *f, int sig)
{
        Session *s = f->userdata;

        (void) kill(s->launcher, sig);
        return 0;
}

static void set_size(Forward *f, const struct winsize *size)
{
        if (f->fds[0] >= 0)
                (void) ioctl(f->fds[0], TIOCSWINSZ, size);
}

static const ForwardOps ops = {
                .what = "The command",
                .event = on_launcher,
                .signal = pass_on_signal,
                .resized = set_size,
};

/* --- The end ------------------------------------------------------------------------------------------- */

static int conclude(const EnterReply *reply, int *ret_status, Error *e)
{
        if (reply->event == ENTER_FAILED) {
                AppStatus s = {.cause = (AppCause) reply->cause, .exit_status = -1};
                *ret_status = app_status_to_exit_code(&s) ?: 125;
                return error_set(e, -ENOEXEC, "%s", reply->text);
        }
        *ret_status = WIFEXITED(reply->status) ? WEXITSTATUS(reply->status) : 128 + WTERMSIG(reply->status);
        return 0;
}

int enter_app(Pod *p, const EnterOptions *o, int *ret_status, Error *e)
{
        const PodApp *app = NULL;
        Session s;

        int r = pod_check_running(p, e);
        if (r >= 0)
                r = pod_find_app(p, o->app, &app, e);
        if (r < 0)
                return r;
        session_init(&s);
        s.forward.ops = &ops;
        s.forward.userdata = &s;
        r = start(&s, p, app, o, e);
        if (r >= 0)
                r = forward_streams(&s.forward, e);
        if (r >= 0 && s.forward.signal > 0)
                *ret_status = 128 + s.forward.signal;
        else if (r >= 0)
                r = conclude(&s.reply, ret_status, e);
        session_done(&s);
        return r;
}
