/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* stage0/api/: how a client handles replies of a supervisor, a supervisor that does not reply, and a missing
 * one. The supervisor is a thread with a script: each line is the method of the next call, and the reply. */

#include <pthread.h>
#include <sys/file.h>
#include <sys/socket.h>

#include "stage0/api/api-internal.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

#define INFO                                                                                                \
        {                                                                                                   \
                "org.varlink.service.GetInfo", "{}"                                                         \
        }
#define P "org.acnspawn.Pod."
#define ERROR(name, parameters) "{\"error\":\"" name "\",\"parameters\":" parameters "}"
#define REPLY(parameters) "{\"parameters\":" parameters "}"
#define AGAIN ERROR("io.systemd.System", "{\"errno\":11}")
#define APPS                                                                                                \
        "\"apps\":[{\"name\":\"web\",\"state\":\"running\",\"starts\":2,\"ready\":true,\"shiny\":[1]},"     \
        "{\"name\":\"db\",\"state\":\"exited\",\"starts\":1,\"exitStatus\":3,\"signal\":null,"              \
        "\"cause\":\"exited\",\"message\":\"no \\u001b disk\"},"                                            \
        "{\"name\":\"job\",\"state\":\"exited\",\"signal\":9,\"exitCode\":200}]"
#define DESCRIPTION REPLY("{\"uuid\":\"u\",\"name\":\"p\",\"state\":\"paused\"," APPS ",\"sequence\":7}")
#define DESCRIBE                                                                                            \
        {                                                                                                   \
                P "Describe", DESCRIPTION                                                                   \
        }

typedef struct Line {
        const char *method;
        const char *reply; /* NULL: none, the connection stays */
} Line;

typedef struct Fake {
        Scratch scratch;
        int lock_fd, listen_fd;
        Pod pod;
        const Line *script;
        size_t n, n_done;
        pthread_t thread;
        bool running;
        AcnPod *client;
        char wrong[256]; /* a call that is not the script's */
} Fake;

/* A message without its NUL; 0: the client has gone. */
static size_t next_call(int fd, char *buffer, size_t size)
{
        for (size_t n = 0; n < size; n++)
                if (recv(fd, buffer + n, 1, 0) != 1 || buffer[n] == 0)
                        return n;
        return 0;
}

static void *serve(void *userdata)
{
        Fake *f = userdata;
        char call[4096];
        _cleanup_close_ int fd = accept4(f->listen_fd, NULL, NULL, SOCK_CLOEXEC);

        while (fd >= 0 && f->n_done < f->n && next_call(fd, call, sizeof(call)) > 0) {
                const Line *line = &f->script[f->n_done++];
                if (!strstr(call, line->method))
                        snprintf(f->wrong, sizeof(f->wrong), "%.200s", call);
                /* Several replies have newlines between them. */
                for (const char *r = line->reply; r && *r; r += strcspn(r, "\n"), r += *r == '\n')
                        if (send(fd, r, strcspn(r, "\n"), MSG_NOSIGNAL) < 0 ||
                            send(fd, "", 1, MSG_NOSIGNAL) < 0)
                                return NULL;
                if (!line->reply)
                        (void) next_call(fd, call, sizeof(call)); /* until the client leaves */
        }
        return NULL;
}

/* A pod whose directory another process seems to hold. */
static int fake_new(Fake *f)
{
        *f = (Fake){.scratch = SCRATCH_NULL, .lock_fd = -EBADF, .listen_fd = -EBADF};
        int r = scratch_new(&f->scratch);
        if (r < 0)
                return r;
        f->lock_fd = open(f->scratch.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (f->lock_fd < 0 || flock(f->lock_fd, LOCK_EX) < 0)
                return -errno;
        f->pod = (Pod){.uuid = (char *) "00000000-0000-0000-0000-000000000000",
                       .config.name = (char *) "p",
                       .state = POD_RUNNING,
                       .dir_fd = f->scratch.fd};
        return 0;
}

static int fake_serve(Fake *f, const Line *script, size_t n)
{
        int r = fake_new(f);

        if (r < 0)
                return r;
        f->script = script;
        f->n = n;
        f->listen_fd = socket_bind_at(f->scratch.fd, "interface", SOCK_STREAM);
        if (f->listen_fd < 0 || listen(f->listen_fd, 1) < 0 || fd_set_blocking(f->listen_fd) < 0)
                return -EIO;
        r = thread_start(&f->thread, serve, f);
        f->running = r >= 0;
        if (r >= 0)
                r = acn_connect(&f->pod, &f->client, NULL);
        if (r >= 0)
                f->client->answer_usec = 300000;
        return r;
}

static void fake_done(Fake *f)
{
        acn_disconnect(f->client);
        if (f->running)
                (void) pthread_join(f->thread, NULL);
        safe_close(f->listen_fd);
        safe_close(f->lock_fd);
        scratch_done(&f->scratch);
}

#define SERVE(f, ...)                                                                                       \
        static const Line script_[] = {__VA_ARGS__};                                                        \
        _cleanup_(fake_done) Fake f = {.scratch = SCRATCH_NULL, .lock_fd = -EBADF, .listen_fd = -EBADF};    \
        ASSERT_OK(fake_serve(&f, script_, ELEMENTSOF(script_)))

/* --- Connecting ---------------------------------------------------------------------------------------- */

TEST(without_an_interface)
{
        _cleanup_(fake_done) Fake f = {.scratch = SCRATCH_NULL, .lock_fd = -EBADF, .listen_fd = -EBADF};
        _cleanup_error_ Error e = ERROR_NULL;
        AcnPod *a = NULL;

        ASSERT_OK(fake_new(&f));
        ASSERT_ERR(acn_connect(&f.pod, &a, &e), -EAGAIN);
        ASSERT_STREQ(e.message, "Pod p is still starting");
        ASSERT_OK(scratch_file(&f.scratch, "control", ""));
        ASSERT_ERR(acn_connect(&f.pod, &a, &e), -EOPNOTSUPP);
        ASSERT_STREQ(e.message, "Pod p is run by an earlier version of acnspawn, which has no interface");
        ASSERT_STREQ(e.hint, "'acnspawn stop --force p' kills the pod.");
        f.lock_fd = safe_close(f.lock_fd);
        ASSERT_ERR(acn_connect(&f.pod, &a, &e), -ESRCH);
        ASSERT_STREQ(e.message, "Pod p is not running: it has ended");
        f.pod.state = POD_PREPARED;
        ASSERT_ERR(acn_connect(&f.pod, &a, &e), -ESRCH);
        ASSERT_STREQ(e.message, "Pod p is not running: it is prepared");
}

TEST(without_an_answer)
{
        _cleanup_error_ Error e = ERROR_NULL;
        SERVE(f, {P "Pause", NULL});

        ASSERT_ERR(acn_pause(f.client, &e), -ETIMEDOUT);
        ASSERT_STREQ(e.message, "The supervisor of pod p does not respond");
        ASSERT_STREQ(e.hint, "'acnspawn stop --force p' kills the pod.");
}

/* Calls without a timeout are made only if the supervisor has replied before. */
TEST(without_an_answer_to_begin_with)
{
        SERVE(f, {"GetInfo", NULL});

        ASSERT_ERR(acn_start_app(f.client, "web", NULL), -ETIMEDOUT);
        ASSERT_EQ(f.n_done, 1U);
}

TEST(a_connection_that_ends)
{
        _cleanup_error_ Error e = ERROR_NULL;
        SERVE(f, INFO);

        ASSERT_ERR(acn_start_app(f.client, "web", &e), -ECONNRESET);
        ASSERT_STREQ(e.message, "Pod p has ended, or is about to");
        ASSERT_ERR(acn_pause(f.client, &e), -ECONNRESET);
}

TEST(what_is_no_reply)
{
        _cleanup_error_ Error e = ERROR_NULL;
        SERVE(f, {P "Pause", "[]"});

        ASSERT_ERR(acn_pause(f.client, &e), -EBADMSG);
        ASSERT_TRUE(strstr(e.message, "The supervisor of pod p sent an invalid reply"));
}

/* --- Descriptions -------------------------------------------------------------------------------------- */

TEST(descriptions)
{
        _cleanup_(acn_description_done) AcnDescription d = {};
        SERVE(f, DESCRIBE);

        ASSERT_OK(acn_describe(f.client, &d, NULL));
        ASSERT_STREQ(d.uuid, "u");
        ASSERT_STREQ(d.name, "p");
        ASSERT_TRUE(!d.exit_policy);
        ASSERT_EQ(d.state, ACN_POD_PAUSED);
        ASSERT_EQ(d.sequence, 7U);
        ASSERT_EQ(d.n_apps, 3U);
        ASSERT_EQ(d.apps[0].state, ACN_APP_RUNNING);
        ASSERT_TRUE(d.apps[0].tells_readiness && d.apps[0].ready);
        ASSERT_EQ(d.apps[0].starts, 2U);
        ASSERT_EQ(d.apps[1].exit_code, 3); /* of a supervisor that does not tell it */
        ASSERT_EQ(d.apps[1].signal, 0);
        ASSERT_STREQ(d.apps[1].cause, "exited");
        ASSERT_EQ(d.apps[2].exit_status, -1);
        ASSERT_EQ(d.apps[2].exit_code, 200);
}

TEST(invalid_descriptions)
{
        _cleanup_(acn_description_done) AcnDescription d = {};
        SERVE(f, {P "Describe", REPLY("{\"state\":\"frobnicating\"," APPS "}")},
              {P "Describe", REPLY("{\"state\":\"running\"}")},
              {P "Describe", REPLY("{\"state\":\"running\",\"apps\":[{\"name\":\"a\"}]}")},
              {P "Describe", REPLY("{\"state\":\"running\",\"apps\":[{\"state\":\"exited\"}]}")},
              {P "Describe",
               REPLY("{\"state\":\"running\",\"apps\":[{\"name\":\"a\",\"state\":\"exited\"},5]}")});

        for (unsigned i = 0; i < 5; i++)
                ASSERT_ERR(acn_describe(f.client, &d, NULL), -EBADMSG);
        ASSERT_TRUE(!d.apps);
}

/* --- Refusals ------------------------------------------------------------------------------------------ */

TEST(refusals)
{
        _cleanup_error_ Error e = ERROR_NULL;
        SERVE(f, INFO, {P "StartApp", ERROR(P "NoSuchApp", "{\"app\":\"wbe\"}")}, DESCRIBE, INFO,
              {P "StartApp", ERROR(P "WrongState", "{\"app\":\"web\",\"state\":\"running\"}")}, INFO,
              {P "StartApp", ERROR(P "WrongState", "{\"app\":\"web\",\"state\":\"stopping\"}")}, INFO,
              {P "RestartApp", ERROR(P "JobFailed", "{\"app\":\"db\",\"result\":\"failed\"}")}, DESCRIBE,
              {P "SignalApp", ERROR(P "WrongState", "{\"app\":\"db\",\"state\":\"exited\"}")}, DESCRIBE,
              INFO, {P "StopApp", ERROR(P "PodPaused", "{}")}, INFO,
              {P "StartApp", ERROR(P "PodEnds", "{}")},
              {P "ReopenLogs", ERROR("org.varlink.service.MethodNotFound", "{\"method\":\"x\"}")},
              {P "ReopenLogs", ERROR(P "LogsNotReopened", "{\"message\":\"It is a directory\"}")},
              {P "Pause", ERROR("io.systemd.System", "{\"errno\":62}")},
              {P "Resume",
               ERROR(P "PauseFailed", "{\"message\":\"Cannot resume\",\"hint\":\"Wait\",\"errno\":30}")},
              {P "Pause", ERROR(P "Unheard", "{\"of\":\"\\u001b[2J\"}")});

        ASSERT_ERR(acn_start_app(f.client, "wbe", &e), -ENOENT);
        ASSERT_STREQ(e.message, "Pod p has no app 'wbe'");
        ASSERT_STREQ(e.hint, "Did you mean 'web'? Its apps are: web, db, job");
        ASSERT_ERR(acn_start_app(f.client, "web", &e), -EALREADY);
        ASSERT_STREQ(e.message, "App web of pod p cannot be started: it is running");
        ASSERT_ERR(acn_start_app(f.client, "web", &e), -EALREADY);
        ASSERT_STREQ(e.hint, "'acnspawn stop-app p web' returns when it has ended.");
        ASSERT_ERR(acn_restart_app(f.client, "db", &e), -EIO);
        ASSERT_STREQ(e.message, "App db of pod p: the pod's systemd cannot start the app again: the job "
                                "ended with 'failed'");
        ASSERT_STREQ(e.hint, "no \\x1b disk. 'acnspawn status p' and 'acnspawn logs --app=db p' say more.");
        ASSERT_ERR(acn_signal_app(f.client, "db", 9, &e), -ESRCH);
        ASSERT_STREQ(e.message, "App db of pod p is not running: it has ended");
        ASSERT_ERR(acn_stop_app(f.client, "web", 5, &e), -EBUSY);
        ASSERT_STREQ(e.message, "Pod p is paused");
        ASSERT_ERR(acn_start_app(f.client, "db", &e), -ESHUTDOWN);
        ASSERT_ERR(acn_reopen_logs(f.client, NULL, &e), -EOPNOTSUPP);
        ASSERT_STREQ(e.message, "Pod p is run by an earlier version of acnspawn, which cannot open the log "
                                "files of it");
        ASSERT_ERR(acn_reopen_logs(f.client, NULL, &e), -EIO);
        ASSERT_STREQ(e.message, "It is a directory");
        ASSERT_ERR(acn_pause(f.client, &e), -ETIME);
        ASSERT_TRUE(startswith(e.message, "Cannot pause pod p: "));
        ASSERT_ERR(acn_resume(f.client, &e), -EROFS);
        ASSERT_STREQ(e.message, "Cannot resume");
        ASSERT_STREQ(e.hint, "Wait");
        ASSERT_ERR(acn_pause(f.client, &e), -EREMOTEIO);
        ASSERT_TRUE(!strchr(e.message, '\x1b'));
        ASSERT_STREQ(f.wrong, "");
}

/* While the pod's systemd cannot be reached, and while a process is not in its cgroup yet. */
TEST(errors_of_other_interfaces)
{
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_json_ json_object *sad = json_new_text_member("why", "s\033d"),
                                   *none = json_object_new_object(), *code = json_object_new_object(),
                                   *wrong = json_object_new_object();
        VarlinkReply r = {.error = "org.example.test.Sad", .parameters = sad};

        ASSERT_ERR(acn_service_error(&r, &e), -EREMOTEIO);
        ASSERT_CONTAINS(e.message, "'org.example.test.Sad' {\"why\":\"s\\u001bd\"}");
        ASSERT_OK(json_member_add(code, "errno", json_object_new_int(ENOENT)));
        r = (VarlinkReply){.error = "io.systemd.System", .parameters = code};
        ASSERT_ERR(acn_service_error(&r, &e), -ENOENT);
        ASSERT_OK(json_member_add(wrong, "errno", json_object_new_int(-5)));
        r.parameters = wrong;
        ASSERT_ERR(acn_service_error(&r, &e), -EREMOTEIO);
        r.parameters = none;
        ASSERT_ERR(acn_service_error(&r, &e), -EREMOTEIO);
}

TEST(calls_that_came_too_early_are_repeated)
{
        static const char foreign[] = ERROR(P "ForeignProcess", "{\"app\":\"web\"}");
        SERVE(f, {P "SignalApp", AGAIN}, {P "SignalApp", AGAIN}, {P "SignalApp", foreign},
              {P "SignalApp", REPLY("{}")});

        ASSERT_OK(acn_signal_app(f.client, "web", 15, NULL));
        ASSERT_EQ(f.n_done, 4U);
}

/* --- Signals to all, and stopping ---------------------------------------------------------------------- */

/* The origin of an isolator is left out for them. */
TEST(apps_for_supervisors_that_know_no_origins)
{
#define WITH "\"value\":{\"limit\":\"55\"},\"configured\":true}]"
#define WITHOUT "\"value\":{\"limit\":\"55\"}}]"
#define UNKNOWN                                                                                             \
        ERROR(P "AppRefused",                                                                               \
              "{\"message\":\"apps[0]: isolators[0]: unknown member 'configured'\",\"errno\":22}")
        SERVE(f, INFO, {WITH, UNKNOWN}, INFO, {WITHOUT, REPLY("{\"app\":\"a\",\"warnings\":[]}")}, INFO,
              {WITH, UNKNOWN}, INFO, {WITHOUT, REPLY("{\"apps\":[\"a\"],\"warnings\":[]}")});
        const char *const ids[] = {NULL};
        _cleanup_strv_free_ char **warnings = NULL, **more = NULL, **names = NULL;
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_free_ char *name = NULL;
        Isolator isolator = {};
        AppOverrides app = {.reference = (char *) "example.com/a",
                            .isolators = {.items = &isolator, .n = 1}};
        const PodRequest q = {.apps = &app, .n_apps = 1};

        ASSERT_OK(isolator_parse("resource/tasks", "{\"limit\":\"55\"}", &isolator, &e));
        isolator.of_conf = true;
        ASSERT_OK(acn_add_app(f.client, &q, NULL, &name, &warnings, &e));
        ASSERT_STREQ(name, "a");
        ASSERT_OK(acn_launch_group(f.client, &q, ids, &names, &more, &e));
        ASSERT_STREQ(names[0], "a");
        ASSERT_STREQ(f.wrong, "");
        isolator_done(&isolator);
}

TEST(a_signal_to_all_apps)
{
        SERVE(f, DESCRIBE, {"\"web\"", REPLY("{}")},
              {"\"db\"", ERROR(P "WrongState", "{\"app\":\"db\",\"state\":\"exited\"}")},
              {"\"job\"", ERROR(P "NoSuchApp", "{\"app\":\"job\"}")}, DESCRIBE);

        ASSERT_OK(acn_signal_apps(f.client, 1, NULL));
        ASSERT_STREQ(f.wrong, "");
}

TEST(a_signal_without_receivers)
{
        _cleanup_error_ Error e = ERROR_NULL;
        SERVE(f, {P "Describe", REPLY("{\"state\":\"running\",\"apps\":[]}")});

        ASSERT_ERR(acn_signal_apps(f.client, 1, &e), -ESRCH);
        ASSERT_STREQ(e.message, "No app of pod p is running");
}

TEST(stopping)
{
        bool killed = true;
        SERVE(f, INFO, {P "Stop", REPLY("{\"exitStatus\":0}")},
              {"\"timeoutUSec\":60000000", REPLY("{\"killed\":true}")},
              {"\"timeoutUSec\":60000000", REPLY("{}")}, {"\"timeoutUSec\":0", REPLY("{}")});

        ASSERT_OK(acn_stop(f.client, UINT64_MAX, NULL, &killed, NULL));
        ASSERT_TRUE(!killed);
        ASSERT_OK(acn_stop(f.client, 60000000, NULL, &killed, NULL));
        ASSERT_TRUE(killed);
        ASSERT_OK(acn_stop(f.client, 60000000, NULL, &killed, NULL));
        ASSERT_TRUE(!killed);
        ASSERT_OK(acn_stop(f.client, 0, NULL, &killed, NULL));
        ASSERT_TRUE(killed);
        ASSERT_STREQ(f.wrong, "");
}

/* --- Events -------------------------------------------------------------------------------------------- */

TEST(events)
{
        AcnEvent v = {};
        SERVE(f, {"\"more\":true",
                  "{\"parameters\":{\"sequence\":8,\"timeUSec\":5,\"state\":\"running\",\"app\":{\"name\":"
                  "\"web\","
                  "\"state\":\"starting\"}},\"continues\":true}\n"
                  "{\"parameters\":{\"sequence\":9,\"state\":\"exited\",\"exitStatus\":4}}"});

        ASSERT_OK(acn_monitor(f.client, 7, NULL));
        ASSERT_EQ(acn_monitor_next(f.client, UINT64_MAX, &v, NULL), 1);
        ASSERT_EQ(v.sequence, 8U);
        ASSERT_EQ(v.time_usec, 5U);
        ASSERT_STREQ(v.app.name, "web");
        ASSERT_EQ(v.app.state, ACN_APP_STARTING);
        acn_event_done(&v);
        ASSERT_EQ(acn_monitor_next(f.client, UINT64_MAX, &v, NULL), 1);
        ASSERT_EQ(v.state, ACN_POD_EXITED);
        ASSERT_EQ(v.exit_status, 4);
        ASSERT_TRUE(!v.app.name);
        ASSERT_EQ(acn_monitor_next(f.client, UINT64_MAX, &v, NULL), 0);
        acn_event_done(&v);
}

TEST(events_that_are_lost)
{
        _cleanup_error_ Error e = ERROR_NULL;
        AcnEvent v = {};
        SERVE(f, {"\"since\":3", ERROR(P "EventsLost", "{\"since\":3,\"oldest\":10}")});

        ASSERT_OK(acn_monitor(f.client, 3, NULL));
        ASSERT_ERR(acn_monitor_next(f.client, UINT64_MAX, &v, &e), -ESTALE);
        ASSERT_STREQ(e.message, "Events of pod p after number 3 are not kept any more");
        ASSERT_STREQ(e.hint, "The oldest one has number 10: '--since=9' begins with it.");
}

TEST(no_event_in_time)
{
        AcnEvent v = {};
        SERVE(f, {"Monitor", NULL});

        ASSERT_OK(acn_monitor(f.client, UINT64_MAX, NULL));
        ASSERT_ERR(acn_monitor_next(f.client, 20000, &v, NULL), -ETIMEDOUT);
        ASSERT_ERR(acn_monitor_next(f.client, 20000, &v, NULL), -ETIMEDOUT);
}

/* --- Attaching ----------------------------------------------------------------------------------------- */

TEST(attaching)
{
        AcnAttachOptions o = {
                        .app = "web", .size = {.ws_row = 3, .ws_col = 4}, .fds = {-EBADF, -EBADF, -EBADF}};
        AcnAttachState s = {};
        int pair[2];
        SERVE(f, {"\"parameters\":{\"app\":\"web\",\"rows\":3,\"columns\":4,\"stderr\":0}",
                  "{\"parameters\":{\"id\":7,\"terminal\":true},\"continues\":true}\n"
                  "{\"parameters\":{\"id\":7,\"skippedBytes\":90},\"continues\":true}\n"
                  "{\"parameters\":{\"id\":7,\"exitCode\":130}}"});

        ASSERT_OK(pipe2(pair, O_CLOEXEC));
        o.fds[STDERR_FILENO] = pair[1];
        ASSERT_OK(acn_attach(f.client, &o, NULL));
        ASSERT_EQ(o.fds[STDERR_FILENO], -EBADF);
        ASSERT_EQ(acn_attach_next(f.client, 5000000, &s, NULL), 1);
        ASSERT_TRUE(s.id == 7 && s.terminal && s.skipped == 0 && s.exit_code == -1);
        ASSERT_EQ(acn_attach_next(f.client, 5000000, &s, NULL), 1);
        ASSERT_TRUE(s.id == 7 && !s.terminal && s.skipped == 90);
        ASSERT_EQ(acn_attach_next(f.client, 5000000, &s, NULL), 0);
        ASSERT_EQ(s.exit_code, 130);
        ASSERT_STREQ(f.wrong, "");
        safe_close(pair[0]);
}

static int attach_refused(const char *reply, Error *e)
{
        AcnAttachOptions o = {.app = "web", .fds = {-EBADF, -EBADF, -EBADF}};
        const Line script[] = {{"Attach", reply}, DESCRIBE};
        _cleanup_(fake_done) Fake f = {.scratch = SCRATCH_NULL, .lock_fd = -EBADF, .listen_fd = -EBADF};
        AcnAttachState s = {};

        int r = fake_serve(&f, script, ELEMENTSOF(script));
        if (r >= 0)
                r = acn_attach(f.client, &o, e);
        return r < 0 ? r : acn_attach_next(f.client, 5000000, &s, e);
}

TEST(attaching_that_is_refused)
{
        static const struct {
                const char *reply, *message;
                int code;
        } cases[] = {
                        {ERROR(P "NoStdin", "{\"app\":\"web\"}"),
                         "App web of pod p cannot be attached to: its standard input is /dev/null",
                         -ENOTCONN},
                        {ERROR(P "TooManyAttached", "{\"limit\":64}"),
                         "Cannot attach to app web of pod p: Too many clients are attached to the pod: no "
                         "more than "
                         "64 can "
                         "at a time",
                         -EUSERS},
                        {ERROR(P "WrongState", "{\"app\":\"web\",\"state\":\"exited\"}"),
                         "App web of pod p is not running: it has ended", -ESRCH},
                        {ERROR("org.varlink.service.MethodNotFound", "{\"method\":\"x\"}"),
                         "Pod p is run by an earlier version of acnspawn, which cannot attach to it",
                         -EOPNOTSUPP},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_error_ Error e = ERROR_NULL;

                ASSERT_ERR(attach_refused(cases[i].reply, &e), cases[i].code);
                ASSERT_STREQ(e.message, cases[i].message);
        }
}

TEST(what_is_done_to_attachments)
{
        const struct winsize size = {.ws_row = 5, .ws_col = 6};
        _cleanup_error_ Error e = ERROR_NULL;
        SERVE(f, {P "CloseStdin\"", REPLY("{}")}, {"\"rows\":5,\"columns\":6,\"id\":8", REPLY("{}")},
              {"CloseStdin", ERROR(P "NotAttached", "{\"id\":7}")});

        ASSERT_OK(acn_close_stdin(f.client, 7, NULL));
        ASSERT_OK(acn_resize_terminal(f.client, 8, &size, NULL));
        ASSERT_ERR(acn_close_stdin(f.client, 7, &e), -EREMOTEIO);
        ASSERT_STREQ(f.wrong, "");
}

/* --- Logs ---------------------------------------------------------------------------------------------- */

TEST(logs)
{
        AcnLogOptions o = {.app = "web",
                           .follow = true,
                           .json = true,
                           .lines = 5,
                           .until_usec = 9,
                           .err_fd = -EBADF};
        int pair[2];
        SERVE(f,
              {"\"parameters\":{\"app\":\"web\",\"follow\":true,\"format\":\"json\",\"lines\":5,"
               "\"untilUSec\":9,\"stdout\":0}",
               REPLY("{}")},
              {"\"parameters\":{\"stdout\":0}", ERROR(P "LogsFailed", "{\"message\":\"no \\u001b disk\"}")},
              {"Logs", ERROR(P "TooManyLogs", "{\"limit\":16}")}, {"Logs", NULL});
        _cleanup_error_ Error e = ERROR_NULL;

        ASSERT_OK(pipe2(pair, O_CLOEXEC));
        o.out_fd = pair[1];
        ASSERT_OK(acn_logs(f.client, &o, NULL));
        ASSERT_EQ(o.out_fd, -EBADF);
        ASSERT_OK(acn_logs_wait(f.client, 5000000, NULL));
        o = (AcnLogOptions){
                        .lines = UINT64_MAX, .out_fd = fcntl(pair[0], F_DUPFD_CLOEXEC, 3), .err_fd = -EBADF};
        ASSERT_OK(acn_logs(f.client, &o, NULL));
        ASSERT_ERR(acn_logs_wait(f.client, 5000000, &e), -EIO);
        ASSERT_STREQ(e.message, "Cannot read the logs of pod p: no \\x1b disk");
        ASSERT_OK(acn_logs(f.client, &o, NULL));
        error_done(&e);
        ASSERT_ERR(acn_logs_wait(f.client, 5000000, &e), -EUSERS);
        ASSERT_STREQ(e.message, "Too many callers read the logs of pod p: no more than 16 can at a time");
        ASSERT_OK(acn_logs(f.client, &o, NULL));
        ASSERT_ERR(acn_logs_wait(f.client, 20000, NULL), -ETIMEDOUT);
        ASSERT_STREQ(f.wrong, "");
        safe_close(pair[0]);
}

/* --- Waiting ------------------------------------------------------------------------------------------- */

TEST(waiting_for_apps)
{
        char *apps[] = {(char *) "db", (char *) "web", NULL};
        int status = -1;
        SERVE(f, {"nothing", ""});

        /* The connection of the fixture ends; acn_wait() makes its own. */
        static const Line script[] = {
                        DESCRIBE,
                        {"\"since\":7",
                         "{\"parameters\":{\"sequence\":8,\"state\":\"running\",\"app\":{\"name\":\"web\","
                         "\"state\":\"exited\",\"signal\":9}},\"continues\":true}\n"}};
        f.client = acn_disconnect(f.client);
        ASSERT_EQ(pthread_join(f.thread, NULL), 0);
        f.script = script;
        f.n = ELEMENTSOF(script);
        f.n_done = 0;
        f.running = false;
        ASSERT_OK(thread_start(&f.thread, serve, &f));
        f.running = true;
        ASSERT_OK(acn_wait(&f.pod, apps, UINT64_MAX, &status, NULL));
        ASSERT_EQ(status, 3);
        ASSERT_STREQ(f.wrong, "");
}

int main(void)
{
        RUN(without_an_interface);
        RUN(without_an_answer);
        RUN(without_an_answer_to_begin_with);
        RUN(a_connection_that_ends);
        RUN(what_is_no_reply);
        RUN(descriptions);
        RUN(invalid_descriptions);
        RUN(refusals);
        RUN(errors_of_other_interfaces);
        RUN(calls_that_came_too_early_are_repeated);
        RUN(apps_for_supervisors_that_know_no_origins);
        RUN(a_signal_to_all_apps);
        RUN(a_signal_without_receivers);
        RUN(stopping);
        RUN(events);
        RUN(events_that_are_lost);
        RUN(no_event_in_time);
        RUN(attaching);
        RUN(attaching_that_is_refused);
        RUN(what_is_done_to_attachments);
        RUN(logs);
        RUN(waiting_for_apps);
        return TEST_END();
}
