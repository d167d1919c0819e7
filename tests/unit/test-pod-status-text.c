/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The output of "status" for a pod, as text and as JSON, from reports built by the test. */

#include <signal.h>

#include "schema/settings.h"
#include "stage0/verbs/pod-status-json.h"
#include "stage0/verbs/pod-status-text.h"
#include "stage0/verbs/pod-words.h"
#include "tests/unit/test.h"

#define SECOND 1000000ULL
#define NOW (1000000000ULL * SECOND)

static const Display plain = {.utf8 = true, .now = NOW};

static PodApp pod_apps[] = {
                {.name = (char *) "web",
                 .image_name = (char *) "example.com/web",
                 .image_id = (char *) "sha512-0123456789abcdef"},
                {.name = (char *) "sync"},
};

static PodApp *const pod_app_list[] = {&pod_apps[0], &pod_apps[1]};
static PodManifest manifest = {.apps = (PodApp **) pod_app_list, .n_apps = 2};

static Pod make_pod(PodState state)
{
        return (Pod){
                        .uuid = (char *) "01234567-89ab-cdef-0123-456789abcdef",
                        .state = state,
                        .dir_fd = -EBADF,
                        .manifest = &manifest,
                        .config = {.name = (char *) "site",
                                   .uid_base = 65536,
                                   .private_users = true,
                                   .net = NET_NONE,
                                   .exit_policy = EXIT_ON_FAILURE,
                                   .stop_timeout_usec = 10 * SECOND,
                                   .created_usec = NOW - 120 * SECOND},
        };
}

TEST(running)
{
        AppReport apps[] = {
                        {&pod_apps[0],
                         {.state = APP_RUNNING, .exit_status = -1, .started_usec = NOW - 60 * SECOND}},
                        {&pod_apps[1], {.state = APP_WAITING, .exit_status = -1}},
        };
        IsolatorReport isolators[] = {
                        {"web", "resource/memory", ISOLATOR_ENFORCED, (char *) "MemoryMax=64M"},
                        {NULL, "example.com/own", ISOLATOR_IGNORED, (char *) "not known"},
        };
        char *addresses[] = {(char *) "lo 127.0.0.1", NULL};
        const PodReport report = {.apps = apps,
                                  .n_apps = 2,
                                  .isolators = isolators,
                                  .n_isolators = 2,
                                  .addresses = addresses,
                                  .started_usec = NOW - 61 * SECOND,
                                  .exit_status = -1,
                                  .leader = 4711};
        const Pod p = make_pod(POD_RUNNING);
        _cleanup_free_ char *s = NULL;

        ASSERT_OK(pod_status_text(&p, &report, &plain, &s));
        ASSERT_STREQ(s, "● site - 01234567-89ab-cdef-0123-456789abcdef\n"
                        "      State: running since Sun 2001-09-09 01:45:39 UTC; 1min 1s ago\n"
                        "    Created: Sun 2001-09-09 01:44:40 UTC; 2min ago\n"
                        "     Leader: 4711\n"
                        "    Network: none; lo 127.0.0.1\n"
                        "      Users: private, 65536 to 131071\n"
                        "Exit policy: on-failure, stop time-out 10s\n"
                        "       Apps: ● web   running; 1min ago  example.com/web sha512-0123456789ab\n"
                        "             ● sync  waiting\n"
                        "  Isolators: web resource/memory: enforced, MemoryMax=64M\n"
                        "             pod example.com/own: ignored, not known\n");
}

TEST(without_apps)
{
        PodManifest none = {};
        const PodReport report = {.exit_status = -1};
        Pod p = make_pod(POD_PREPARED);
        _cleanup_free_ char *s = NULL, *damaged = NULL;

        p.manifest = &none;
        p.config.exit_policy = EXIT_NEVER;
        ASSERT_OK(pod_status_text(&p, &report, &plain, &s));
        ASSERT_CONTAINS(s, "\nExit policy: never, stop time-out 10s\n"
                           "       Apps: none\n");
        p.manifest = NULL; /* what it has is not known */
        ASSERT_OK(pod_status_text(&p, &report, &plain, &damaged));
        ASSERT_NULL(strstr(damaged, "Apps:"));
}

TEST(volumes)
{
        Volume volumes[] = {
                        {.name = (char *) "data",
                         .kind = VOLUME_HOST,
                         .source = (char *) "/srv/a\nb",
                         .has_read_only = true,
                         .read_only = true},
                        {.name = (char *) "board", .kind = VOLUME_EMPTY},
        };
        Mount mounts[] = {{.volume = (char *) "data", .path = (char *) "/data"}};
        PodApp apps[] = {{.name = (char *) "web", .mounts = mounts, .n_mounts = 1},
                         {.name = (char *) "sync", .mounts = mounts, .n_mounts = 1}};
        PodApp *list[] = {&apps[0], &apps[1]};
        PodManifest m = {.apps = list, .n_apps = 2, .volumes = volumes, .n_volumes = 2};
        Pod p = make_pod(POD_PREPARED);
        const PodReport report = {.exit_status = -1};
        _cleanup_free_ char *s = NULL;

        p.manifest = &m;
        ASSERT_OK(pod_status_text(&p, &report, &plain, &s));
        ASSERT_CONTAINS(s, "    Volumes: data: host /srv/a\\x0ab, read-only, web:/data, sync:/data\n"
                           "             board: empty\n");

        json_object *o = pod_status_json(&p, &report);
        ASSERT_NOT_NULL(o);
        ASSERT_CONTAINS(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN |
                                                                          JSON_C_TO_STRING_NOSLASHESCAPE),
                        "\"volumes\":[{\"name\":\"data\",\"kind\":\"host\",\"source\":\"/srv/"
                        "a\\nb\",\"readOnly\":true,"
                        "\"mounts\":[{\"app\":\"web\",\"path\":\"/data\"},{\"app\":\"sync\",\"path\":\"/"
                        "data\"}]},"
                        "{\"name\":\"board\",\"kind\":\"empty\",\"source\":null,\"readOnly\":false,"
                        "\"mounts\":[]}]");
        json_object_put(o);
}

TEST(sockets)
{
        ServedSocket sockets[] = {
                        {(char *) "web", (char *) "http", (char *) "tcp", (char *) "127.0.0.1:80",
                         (char *) "http"},
                        {(char *) "web", (char *) "admin", (char *) "stream", (char *) "/run/a.sock", NULL},
                        {(char *) "dns", (char *) "ask", (char *) "udp", (char *) "[::1]:53",
                         (char *) "a\nb", (char *) "filters are not available"},
        };
        PodManifest m = {};
        Pod p = make_pod(POD_RUNNING);
        const PodReport report = {.exit_status = -1, .sockets = sockets, .n_sockets = ELEMENTSOF(sockets)};
        _cleanup_free_ char *s = NULL;

        p.manifest = &m;
        ASSERT_OK(pod_status_text(&p, &report, &plain, &s));
        ASSERT_CONTAINS(s,
                        "    Sockets: 127.0.0.1:80/tcp serves web/http\n"
                        "             /run/a.sock (stream) serves web/admin\n"
                        "             [::1]:53/udp serves dns/ask, passed as a\\x0ab; exposed: the app can reach the host's "
                        "network by it, as filters are not available\n");

        json_object *o = pod_status_json(&p, &report);
        ASSERT_NOT_NULL(o);
        ASSERT_CONTAINS(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN |
                                                                          JSON_C_TO_STRING_NOSLASHESCAPE),
                        "\"sockets\":[{\"app\":\"web\",\"port\":\"http\",\"type\":\"tcp\",\"address\":\"127."
                        "0.0.1:80\","
                        "\"name\":\"http\",\"exposed\":null},"
                        "{\"app\":\"web\",\"port\":\"admin\",\"type\":\"stream\",\"address\":\"/run/"
                        "a.sock\",\"name\":null,\"exposed\":null},");
        json_object_put(o);
}

TEST(exposed_apps)
{
        char *names[] = {(char *) "db", (char *) "web", NULL};
        PodReport report = {.exit_status = -1, .exposed_to = names, .exposed_to_all = true};
        const Pod p = make_pod(POD_RUNNING);
        _cleanup_free_ char *s = NULL, *some = NULL;

        ASSERT_OK(pod_status_text(&p, &report, &plain, &s));
        ASSERT_CONTAINS(s, " Neighbours: exposed, apps of one user can access each other's processes: this "
                           "kernel does not support Landlock, or it is disabled (lsm=)\n");
        report.exposed_to_all = false;
        ASSERT_OK(pod_status_text(&p, &report, &plain, &some));
        ASSERT_CONTAINS(some, " Neighbours: exposed to db, web, which may mount: Linux prevents such apps "
                              "from accessing others from 6.12 on\n");
}

TEST(ended)
{
        AppReport apps[] = {
                        {&pod_apps[0],
                         {.state = APP_ENDED,
                          .cause = CAUSE_EXITED,
                          .exit_status = 3,
                          .ended_usec = NOW - SECOND}},
                        {&pod_apps[1],
                         {.state = APP_ENDED,
                          .cause = CAUSE_SETUP,
                          .exit_status = -1,
                          .message = (char *) "bad\033[2J\nnews"}},
        };
        const PodReport report = {.apps = apps,
                                  .n_apps = 2,
                                  .started_usec = NOW - 3 * SECOND,
                                  .ended_usec = NOW - SECOND,
                                  .exit_status = 3};
        const Pod p = make_pod(POD_EXITED);
        _cleanup_free_ char *s = NULL;

        ASSERT_OK(pod_status_text(&p, &report, &plain, &s));
        ASSERT_CONTAINS(s, "State: exited with status 3 at Sun 2001-09-09 01:46:39 UTC; 1s ago\n");
        ASSERT_CONTAINS(s, "Started: Sun 2001-09-09 01:46:37 UTC; 3s ago\n");
        ASSERT_CONTAINS(s, "● web   exited with status 3; 1s ago  example.com/web");
        ASSERT_CONTAINS(s, "● sync  could not be set up\n               bad\\x1b[2J\\x0anews\n");
        ASSERT_TRUE(!strstr(s, "Leader"));
}

TEST(phrases)
{
        static const struct {
                AppStatus status;
                const char *phrase;
        } cases[] = {
                        {{.state = APP_PRE_START}, "pre-start handler runs"},
                        {{.state = APP_POST_STOP}, "post-stop handler runs"},
                        {{.state = APP_RUNNING}, "running"},
                        {{.state = APP_RUNNING, .readiness = READINESS_STARTING}, "starting"},
                        {{.state = APP_RUNNING, .readiness = READINESS_READY}, "running, ready"},
                        {{.state = APP_ENDED, .cause = CAUSE_NOT_READY}, "did not get ready"},
                        {{.state = APP_ENDED, .cause = CAUSE_UNHEALTHY, .signal = SIGKILL},
                         "ended for not being healthy"},
                        {{.state = APP_ENDED, .cause = CAUSE_HOST_REBOOTED},
                         "ended by a reboot of the host"},
                        {{.state = APP_ENDED, .cause = CAUSE_EXITED}, "exited with status 0"},
                        {{.state = APP_ENDED, .cause = CAUSE_SIGNAL, .signal = SIGSEGV, .core_dumped = true},
                         "killed by SIGSEGV, core dumped"},
                        {{.state = APP_ENDED, .cause = CAUSE_SIGNAL, .signal = 40}, "killed by signal 40"},
                        {{.state = APP_ENDED, .cause = CAUSE_OOM_KILL, .signal = SIGKILL},
                         "killed for lack of memory"},
                        {{.state = APP_ENDED, .cause = CAUSE_TIMEOUT, .signal = SIGKILL},
                         "killed after a time-out"},
                        {{.state = APP_ENDED, .cause = CAUSE_COMMAND_NOT_FOUND}, "command not found"},
                        {{.state = APP_ENDED,
                          .cause = CAUSE_PRE_START,
                          .pre_start = {.ran = true, .exit_status = 3}},
                         "pre-start handler exited with status 3"},
                        {{.state = APP_ENDED,
                          .cause = CAUSE_PRE_START,
                          .pre_start = {.ran = true, .timed_out = true}},
                         "pre-start handler timed out"},
                        {{.state = APP_ENDED,
                          .cause = CAUSE_EXITED,
                          .post_stop = {.ran = true, .exit_status = -1, .signal = SIGKILL}},
                         "exited with status 0; post-stop handler killed by SIGKILL"},
                        {{.state = APP_ENDED, .cause = CAUSE_EXITED, .post_stop = {.ran = true}},
                         "exited with status 0"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *s = NULL;

                ASSERT_OK(app_status_phrase(&cases[i].status, &s));
                ASSERT_STREQ(s, cases[i].phrase);
        }
        for (AppCause cause = 0; cause < _APP_CAUSE_MAX; cause++) {
                const AppStatus status = {
                                .state = APP_ENDED, .cause = cause, .exit_status = -1, .signal = SIGKILL};
                _cleanup_free_ char *s = NULL;

                ASSERT_OK(app_status_phrase(&status, &s));
                ASSERT_TRUE(s[0]);
        }
}

TEST(health_and_restarts)
{
        AppReport app = {.app = &pod_apps[0],
                         .status = {.state = APP_RUNNING,
                                    .exit_status = -1,
                                    .readiness = READINESS_READY,
                                    .started_usec = NOW - 2000000,
                                    .consecutive_starts = 4},
                         .health = {.state = HEALTH_UNHEALTHY,
                                    .failures = 3,
                                    .last.ran = true,
                                    .message = (char *) "gone\x1b[2J"},
                         .has_health = true,
                         .restarts = true,
                         .restart_limit = 10,
                         .log_file = (char *) "/l\x1b",
                         .filter = FILTER_PROFILE,
                         .filter_digest = (char *) "sha256:0123456789abcdef",
                         .drops = {.file_lines = 3, .file_bytes = 2048}};
        const PodReport report = {.apps = &app, .n_apps = 1, .exit_status = -1};
        const Pod p = make_pod(POD_RUNNING);
        _cleanup_free_ char *s = NULL, *t = NULL, *u = NULL, *v = NULL;

        ASSERT_OK(pod_status_text(&p, &report, &plain, &s));
        ASSERT_CONTAINS(s, "web  running, ready, unhealthy (3 failures); 2s ago");
        ASSERT_CONTAINS(s, "\n               gone\\x1b[2J\n");
        ASSERT_CONTAINS(s, "\n               restarted 3 of at most 10 times in a row\n");
        ASSERT_CONTAINS(s, "\n               log file /l\\x1b\n               3 lines (2.0K) not in the log "
                           "file: it has its max-size=, or could not be written\n");
        json_object *o = pod_status_json(&p, &report);
        ASSERT_CONTAINS(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN),
                        "\"ready\":true,\"health\":{\"state\":\"unhealthy\",\"failures\":3,\"checked\":null,"
                        "\"timedOut\":false,\"exitStatus\":0,\"output\":\"gone\\u001b[2J\"},\"startsInRow\":"
                        "4,"
                        "\"restartLimit\":10,\"nextStart\":null,\"droppedLines\":0,\"droppedSize\":0,"
                        "\"log\":\"auto\",\"logFile\":\"\\/l\\u001b\",\"logFileDroppedLines\":3,"
                        "\"logFileDroppedSize\":2048,\"seccomp\":\"profile\","
                        "\"seccompProfile\":\"sha256:0123456789abcdef\"");
        ASSERT_CONTAINS(s, "\n               profile of system calls sha256:0123456789ab\n");
        json_object_put(o);
        app.status.state = APP_ENDED;
        app.status.started_usec = NOW - 2000000;
        app.status.ended_usec = NOW - 1000000;
        app.next_start_usec = NOW + 5000000;
        ASSERT_OK(pod_status_text(&p, &report, &plain, &t));
        ASSERT_CONTAINS(t, "restarted 3 of at most 10 times in a row, again in 5s\n");
        ASSERT_TRUE(!strstr(t, "unhealthy"));
        app.next_start_usec = 0;
        app.status.consecutive_starts = 11;
        ASSERT_OK(pod_status_text(&p, &report, &plain, &u));
        ASSERT_CONTAINS(u, "restarted 10 of at most 10 times in a row, and given up\n");
        app.status.started_usec = app.status.ended_usec - RESTART_QUIET_USEC; /* begins the row anew */
        ASSERT_OK(pod_status_text(&p, &report, &plain, &v));
        ASSERT_TRUE(!strstr(v, "given up"));
}

TEST(what_was_stopped_is_not_red)
{
        const Display colored = {.colors = true, .now = NOW};
        AppReport app = {&pod_apps[0],
                         {.state = APP_ENDED, .cause = CAUSE_SIGNAL, .exit_status = -1, .signal = SIGTERM}};
        PodReport report = {.apps = &app, .n_apps = 1, .exit_status = 128 + SIGTERM, .ended_usec = NOW};
        const Pod p = make_pod(POD_EXITED);
        _cleanup_free_ char *stopped = NULL, *killed = NULL;

        ASSERT_OK(pod_status_text(&p, &report, &colored, &stopped));
        ASSERT_TRUE(!strstr(stopped, "\033[0;1;31m"));
        app.status.signal = SIGKILL;
        report.exit_status = 128 + SIGKILL;
        ASSERT_OK(pod_status_text(&p, &report, &colored, &killed));
        ASSERT_CONTAINS(killed, "\033[0;1;31m");
        ASSERT_EQ(pod_state_color(POD_EXITED, 128 + SIGTERM), COLOR_GREY);
        ASSERT_EQ(pod_state_color(POD_EXITED, 1), COLOR_RED);
}

TEST(json)
{
        AppReport apps[] = {
                        {&pod_apps[0],
                         {.state = APP_ENDED,
                          .cause = CAUSE_SIGNAL,
                          .exit_status = -1,
                          .signal = SIGTERM,
                          .message = (char *) "x\n",
                          .ended_usec = NOW}},
                        {&pod_apps[1], {.state = APP_RUNNING, .exit_status = -1, .started_usec = NOW}},
        };
        const PodReport report = {.apps = apps, .n_apps = 2, .exit_status = 143, .ended_usec = NOW};
        const Pod p = make_pod(POD_EXITED);
        json_object *o = pod_status_json(&p, &report);
        const char *s;

        ASSERT_TRUE(o);
        s = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN);
        ASSERT_CONTAINS(s, "{\"uuid\":\"01234567-89ab-cdef-0123-456789abcdef\",\"name\":\"site\",\"state\":"
                           "\"exited\",");
        ASSERT_CONTAINS(s,
                        "\"started\":null,\"ended\":1000000000000000,\"exitStatus\":143,\"endedBy\":null,\"leader\":null,");
        ASSERT_CONTAINS(s, "\"users\":{\"private\":true,\"base\":65536,\"size\":65536}");
        ASSERT_CONTAINS(s, "\"state\":\"ended\",\"cause\":\"signal\",\"exitStatus\":null,\"signal\":15,"
                           "\"signalName\":\"SIGTERM\",\"coreDumped\":false,\"message\":\"x\\n\"");
        ASSERT_CONTAINS(s, "\"state\":\"running\",\"cause\":null,\"exitStatus\":null,\"signal\":null,");
        ASSERT_CONTAINS(s, "\"postStop\":{\"ran\":false,\"timedOut\":false,\"exitStatus\":null,");
        json_object_put(o);
}

int main(void)
{
        setenv("TZ", "UTC", 1);
        tzset();
        RUN(running);
        RUN(without_apps);
        RUN(volumes);
        RUN(sockets);
        RUN(exposed_apps);
        RUN(ended);
        RUN(phrases);
        RUN(health_and_restarts);
        RUN(what_was_stopped_is_not_red);
        RUN(json);
        return TEST_END();
}
