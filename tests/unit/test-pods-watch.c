/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* stage0/pods/watch.c: what is told of pods that are moved from place to place, and what their supervisors say, which here
 * are a thread with a script: for each connection the calls that are expected, and the replies. */

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "library/libsystemd.h"
#include "stage0/pods/pods.h"
#include "tests/unit/pod.h"
#include "tests/unit/store-fixture.h"

#define P "org.acnspawn.Pod."
#define EVENT(n, app)                                                                                       \
        "{\"parameters\":{\"sequence\":" n ",\"timeUSec\":1,\"state\":\"running\"" app                      \
        "},\"continues\":true}"
#define APP(state) ",\"app\":{\"name\":\"web\",\"state\":\"" state "\",\"starts\":1}"
#define LAST(n) "{\"parameters\":{\"sequence\":" n ",\"timeUSec\":1,\"state\":\"exited\",\"exitStatus\":3}}"
#define DESCRIPTION(n, state)                                                                               \
        "{\"parameters\":{\"uuid\":\"u\",\"state\":\"running\",\"exitPolicy\":\"all\",\"sequence\":" n      \
        ",\"apps\":[{\"name\":\"web\",\"state\":\"" state "\",\"starts\":1}]}}"
#define LOST "{\"error\":\"" P "EventsLost\",\"parameters\":{\"since\":0,\"oldest\":5}}"

typedef struct Line {
        const char *call;  /* what is in the call; NULL: the connection is closed */
        const char *reply; /* several have newlines between them */
} Line;

typedef struct Watched {
        Fixture store;
        sd_event *event;
        PodsWatch *watch;
        Text told; /* a word for each event */
        uint64_t sequence;
        Pod *pod;
        /* The supervisor */
        int listen_fd;
        const Line *script;
        size_t n_lines, n_done;
        pthread_t thread;
        bool running;
        char wrong[256];
} Watched;

static const char *text_of(json_object *o, const char *key)
{
        return json_object_get_string(json_object_object_get(o, key)) ?: "-";
}

static void on_event(const PodsEvent *v, void *userdata)
{
        Watched *w = userdata;

        if (v->kind == PODS_APPS) {
                if (v->sequence != w->sequence || json_object_array_length(v->app) != 1)
                        text_add(&w->told, "WRONG ");
                return;
        }
        if (v->sequence != ++w->sequence || !v->pod != (v->kind == PODS_COMPLETE))
                text_add(&w->told, "WRONG ");
        if (v->kind == PODS_APP)
                text_addf(&w->told, "web:%s ", text_of(v->app, "state"));
        else if (v->kind == PODS_PRESENT)
                text_addf(&w->told, "present:%s ", text_of(v->pod, "state"));
        else
                text_addf(&w->told, "%s ",
                          v->kind == PODS_CHANGED ? text_of(v->pod, "state")
                                                  : pods_event_kind_to_string(v->kind));
}

/* --- The supervisor ------------------------------------------------------------------------------------ */

static bool read_call(int fd, char *call, size_t size)
{
        for (size_t n = 0; n < size; n++) {
                if (recv(fd, call + n, 1, 0) != 1)
                        return false;
                if (call[n] == 0)
                        return true;
        }
        return false;
}

/* Returns when a line closes the connection, or at the end. */
static void serve_connection(Watched *w, int fd)
{
        char call[4096];

        while (w->n_done < w->n_lines && w->script[w->n_done].call) {
                const Line *line = &w->script[w->n_done];
                if (!read_call(fd, call, sizeof(call)))
                        return;
                if (!strstr(call, line->call))
                        snprintf(w->wrong, sizeof(w->wrong), "%.200s", call);
                for (const char *r = line->reply; r && *r; r += strcspn(r, "\n"), r += *r == '\n')
                        if (send(fd, r, strcspn(r, "\n"), MSG_NOSIGNAL) < 0 ||
                            send(fd, "", 1, MSG_NOSIGNAL) < 0)
                                return;
                w->n_done++;
        }
        w->n_done += w->n_done < w->n_lines;
}

static void *serve(void *userdata)
{
        Watched *w = userdata;

        while (w->n_done < w->n_lines) {
                _cleanup_close_ int fd = accept4(w->listen_fd, NULL, NULL, SOCK_CLOEXEC);
                if (fd < 0)
                        break;
                serve_connection(w, fd);
        }
        return NULL;
}

static int start_supervisor(Watched *w, const Line *script, size_t n)
{
        w->script = script;
        w->n_lines = n;
        w->listen_fd = socket_bind_at(w->pod->dir_fd, "interface", SOCK_STREAM);
        if (w->listen_fd < 0 || listen(w->listen_fd, 8) < 0 || fd_set_blocking(w->listen_fd) < 0)
                return -EIO;
        int r = thread_start(&w->thread, serve, w);
        w->running = r >= 0;
        return r;
}

/* --- Fixture ------------------------------------------------------------------------------------------- */

static void watched_done(Watched *w)
{
        if (w->listen_fd >= 0)
                (void) shutdown(w->listen_fd, SHUT_RDWR);
        pods_watch_free(w->watch);
        if (w->running)
                (void) pthread_join(w->thread, NULL);
        safe_close(w->listen_fd);
        pod_free(w->pod);
        sd_event_unref(w->event);
        text_done(&w->told);
        fixture_done(&w->store);
}

static int watched_new(Watched *w)
{
        *w = (Watched){.listen_fd = -EBADF};
        int r = fixture_new(&w->store);
        return r < 0 ? r : sd_event_new(&w->event);
}

#define WATCHED(w)                                                                                          \
        _cleanup_(watched_done) Watched w;                                                                  \
        ASSERT_OK(watched_new(&w))

static int begin(Watched *w)
{
        return pods_watch_new(w->store.store, w->event, on_event, w, &w->watch, &w->store.error);
}

static int prepare_pod_of(Watched *w)
{
        return prepare_test_pod(w->store.store, "web", &w->pod, &w->store.error);
}

/* Runs the loop until EXPECTED is told, and for a while longer, in which nothing else is. */
static bool tells(Watched *w, const char *expected)
{
        uint64_t end = now_usec(CLOCK_MONOTONIC) + 5000000, quiet = 0;

        while (now_usec(CLOCK_MONOTONIC) < end && (quiet == 0 || now_usec(CLOCK_MONOTONIC) < quiet)) {
                (void) sd_event_run(w->event, 20000);
                if (quiet == 0 && w->told.data && strlen(w->told.data) >= strlen(expected))
                        quiet = now_usec(CLOCK_MONOTONIC) + 100000;
        }
        bool same = w->told.data && streq(w->told.data, expected) && !w->wrong[0];
        if (!same)
                printf("# told %s, expected %s; wrong call: %s\n", w->told.data ?: "", expected, w->wrong);
        text_done(&w->told);
        return same;
}

/* --- Places -------------------------------------------------------------------------------------------- */

TEST(every_step_is_told_once)
{
        WATCHED(w);

        ASSERT_OK(begin(&w));
        ASSERT_TRUE(tells(&w, "complete "));
        ASSERT_OK(prepare_pod_of(&w));
        ASSERT_TRUE(tells(&w, "preparing prepared "));
        ASSERT_OK(pod_begin_run(w.pod, &w.store.error));
        ASSERT_TRUE(tells(&w, "running "));
        ASSERT_OK(pod_end_run(w.pod, &w.store.error));
        ASSERT_TRUE(tells(&w, "exited "));
        ASSERT_OK(pod_remove(w.pod, &w.store.error));
        ASSERT_TRUE(tells(&w, "garbage removed "));
}

TEST(steps_that_are_read_late)
{
        WATCHED(w);

        ASSERT_OK(begin(&w));
        ASSERT_TRUE(tells(&w, "complete "));
        ASSERT_OK(prepare_pod_of(&w));
        ASSERT_OK(pod_begin_run(w.pod, &w.store.error));
        ASSERT_OK(pod_end_run(w.pod, &w.store.error));
        ASSERT_OK(pod_remove(w.pod, &w.store.error));
        ASSERT_TRUE(tells(&w, "preparing prepared running exited garbage removed "));
}

/* The notifications are there, and the list has what they lead to. */
TEST(steps_before_the_list)
{
        WATCHED(w);

        ASSERT_OK(begin(&w));
        ASSERT_OK(prepare_pod_of(&w));
        ASSERT_OK(pod_begin_run(w.pod, &w.store.error));
        ASSERT_OK(pod_end_run(w.pod, &w.store.error));
        ASSERT_TRUE(tells(&w, "present:exited complete "));
        ASSERT_OK(pod_remove(w.pod, &w.store.error));
        ASSERT_TRUE(tells(&w, "garbage removed "));
}

TEST(processes_that_die)
{
        WATCHED(w);

        ASSERT_OK(pod_new(w.store.store, &w.pod, &w.store.error));
        ASSERT_OK(begin(&w));
        ASSERT_TRUE(tells(&w, "present:preparing complete "));
        w.pod = pod_free(w.pod); /* and its lock */
        ASSERT_TRUE(tells(&w, "aborted prepare "));
        ASSERT_OK(prepare_pod_of(&w));
        ASSERT_OK(pod_begin_run(w.pod, &w.store.error));
        ASSERT_TRUE(tells(&w, "preparing prepared running "));
        w.pod = pod_free(w.pod);
        ASSERT_TRUE(tells(&w, "exited "));
}

TEST(what_is_no_pod)
{
        WATCHED(w);

        ASSERT_OK(begin(&w));
        ASSERT_TRUE(tells(&w, "complete "));
        ASSERT_OK(mkdirat(store_fd(w.store.store), "pods/prepared/x", 0700) < 0 ? -errno : 0);
        ASSERT_OK(prepare_pod_of(&w));
        ASSERT_TRUE(tells(&w, "preparing prepared "));
}

/* Returns the limit of before. */
static rlim_t limit_descriptors(rlim_t n)
{
        struct rlimit l = {};

        (void) getrlimit(RLIMIT_NOFILE, &l);
        rlim_t before = l.rlim_cur;
        l.rlim_cur = n;
        (void) setrlimit(RLIMIT_NOFILE, &l);
        return before;
}

/* More than the kernel keeps: what comes after them is not notified. */
static void flood(const Watched *w)
{
        _cleanup_free_ char *text = NULL;
        int fd = store_fd(w->store.store);

        ASSERT_OK(read_file_at(AT_FDCWD, "/proc/sys/fs/inotify/max_queued_events", 64, &text, NULL));
        for (long n = strtol(text, NULL, 10) / 2 + 1; n >= 0; n--) {
                ASSERT_EQ(mkdirat(fd, "pods/exited/x", 0700), 0);
                ASSERT_EQ(unlinkat(fd, "pods/exited/x", AT_REMOVEDIR), 0);
        }
}

/* The process has no descriptor to list the pods with, at first and when notifications were lost. */
TEST(lists_that_fail)
{
        WATCHED(w);

        ASSERT_OK(prepare_pod_of(&w));
        ASSERT_OK(begin(&w));
        rlim_t before = limit_descriptors(3);
        (void) sd_event_run(w.event, 100000);
        (void) sd_event_run(w.event, 100000);
        (void) limit_descriptors(before);
        ASSERT_TRUE(!w.told.data);
        ASSERT_TRUE(tells(&w, "present:prepared complete "));
        flood(&w);
        ASSERT_OK(pod_begin_run(w.pod, &w.store.error));
        ASSERT_OK(pod_end_run(w.pod, &w.store.error));
        (void) limit_descriptors(3);
        for (unsigned i = 0; i < 500; i++)
                (void) sd_event_run(w.event, 0);
        (void) limit_descriptors(before);
        ASSERT_TRUE(!w.told.data);
        ASSERT_TRUE(tells(&w, "exited "));
}

/* --- Supervisors --------------------------------------------------------------------------------------- */

TEST(a_pod_that_ran_before)
{
        static const Line script[] = {{P "Describe", DESCRIPTION("7", "running")},
                                      {"\"since\":7", EVENT("8", APP("exited")) "\n" LAST("9")}};
        WATCHED(w);

        ASSERT_OK(prepare_pod_of(&w));
        ASSERT_OK(pod_begin_run(w.pod, &w.store.error));
        ASSERT_OK(start_supervisor(&w, script, ELEMENTSOF(script)));
        ASSERT_OK(begin(&w));
        ASSERT_TRUE(tells(&w, "present:running complete web:running web:exited "));
        ASSERT_OK(pod_end_run(w.pod, &w.store.error));
        ASSERT_TRUE(tells(&w, "exited "));
}

TEST(a_pod_whose_start_was_seen)
{
        static const Line script[] = {{"\"since\":0", EVENT("1", APP("running")) "\n" EVENT(
                                                                      "2", APP("exited")) "\n" LAST("3")}};
        WATCHED(w);

        ASSERT_OK(begin(&w));
        ASSERT_OK(prepare_pod_of(&w));
        ASSERT_TRUE(tells(&w, "present:prepared complete "));
        ASSERT_OK(pod_begin_run(w.pod, &w.store.error));
        ASSERT_OK(start_supervisor(&w, script, ELEMENTSOF(script)));
        ASSERT_TRUE(tells(&w, "running web:running web:exited "));
}

/* What the supervisor has sent is told before the end of the pod, though the notification is there, too. */
TEST(last_events_come_before_the_end)
{
        static const char first[] = EVENT("1", APP("running"));
        static const char last[] = EVENT("2", APP("exited")) "\0" LAST("3");
        WATCHED(w);

        ASSERT_OK(begin(&w));
        ASSERT_OK(prepare_pod_of(&w));
        ASSERT_TRUE(tells(&w, "present:prepared complete "));
        ASSERT_OK(pod_begin_run(w.pod, &w.store.error));
        w.listen_fd = socket_bind_at(w.pod->dir_fd, "interface", SOCK_STREAM);
        ASSERT_OK(listen(w.listen_fd, 8));
        ASSERT_TRUE(tells(&w, "running "));
        _cleanup_close_ int fd = accept4(w.listen_fd, NULL, NULL, SOCK_CLOEXEC);
        ASSERT_OK(fd);
        ASSERT_OK(pod_end_run(w.pod, &w.store.error));
        ASSERT_EQ(send(fd, first, sizeof(first), MSG_NOSIGNAL), (ssize_t) sizeof(first));
        ASSERT_TRUE(tells(&w, "web:running ")); /* the end waits for the rest */
        ASSERT_EQ(send(fd, last, sizeof(last), MSG_NOSIGNAL), (ssize_t) sizeof(last));
        ASSERT_TRUE(tells(&w, "web:exited exited "));
}

TEST(a_supervisor_that_keeps_silent_at_the_end)
{
        WATCHED(w);

        ASSERT_OK(prepare_pod_of(&w));
        ASSERT_OK(pod_begin_run(w.pod, &w.store.error));
        w.listen_fd = socket_bind_at(w.pod->dir_fd, "interface", SOCK_STREAM);
        ASSERT_OK(listen(w.listen_fd, 8));
        ASSERT_OK(begin(&w));
        ASSERT_TRUE(tells(&w, "present:running complete "));
        ASSERT_OK(pod_end_run(w.pod, &w.store.error));
        ASSERT_TRUE(tells(&w, "exited "));
}

TEST(a_connection_that_is_lost)
{
        static const Line script[] = {{P "Describe", DESCRIPTION("7", "running")},
                                      {"\"since\":7", EVENT("8", APP("stopping"))},
                                      {NULL, NULL},
                                      {"\"since\":8", EVENT("9", APP("exited"))}};
        WATCHED(w);

        ASSERT_OK(prepare_pod_of(&w));
        ASSERT_OK(pod_begin_run(w.pod, &w.store.error));
        ASSERT_OK(start_supervisor(&w, script, ELEMENTSOF(script)));
        ASSERT_OK(begin(&w));
        ASSERT_TRUE(tells(&w, "present:running complete web:running web:stopping web:exited "));
}

/* A process that was forked while the connection was open, such as a worker, keeps a copy of it, so that the kernel still
 * reports its events after it was closed: none of them may reach a source that was freed. */
TEST(a_lost_connection_that_another_process_has_as_well)
{
        static const char description[] = DESCRIPTION("7", "running"), event[] = EVENT("8", APP("exited"));
        WATCHED(w);

        ASSERT_OK(prepare_pod_of(&w));
        ASSERT_OK(pod_begin_run(w.pod, &w.store.error));
        w.listen_fd = socket_bind_at(w.pod->dir_fd, "interface", SOCK_STREAM);
        ASSERT_OK(listen(w.listen_fd, 8));
        ASSERT_OK(begin(&w));
        ASSERT_TRUE(tells(&w, "present:running complete "));
        _cleanup_close_ int first = accept4(w.listen_fd, NULL, NULL, SOCK_CLOEXEC);
        ASSERT_OK(first);
        pid_t pid = fork();
        if (pid == 0) {
                (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
                (void) pause();
                _exit(0);
        }
        ASSERT_OK(pid);
        (void) shutdown(first, SHUT_RDWR); /* the child has a copy of FIRST, too */
        first = safe_close(first);
        (void) sd_event_run(w.event, 1000000);
        (void) fd_set_blocking(w.listen_fd);
        struct pollfd p = {.fd = w.listen_fd, .events = POLLIN};
        for (int i = 0; i < 500 && poll(&p, 1, 0) <= 0; i++)
                (void) sd_event_run(w.event, 10000);
        _cleanup_close_ int second = accept4(w.listen_fd, NULL, NULL, SOCK_CLOEXEC);
        ASSERT_OK(second);
        ASSERT_EQ(send(second, description, sizeof(description), MSG_NOSIGNAL),
                  (ssize_t) sizeof(description));
        ASSERT_EQ(send(second, event, sizeof(event), MSG_NOSIGNAL), (ssize_t) sizeof(event));
        bool told = tells(&w, "web:running web:exited ");
        (void) kill(pid, SIGKILL);
        (void) waitpid(pid, NULL, 0);
        ASSERT_TRUE(told);
}

TEST(events_that_are_not_kept)
{
        static const Line script[] = {{"\"since\":0", LOST},
                                      {P "Describe", DESCRIPTION("700", "exited")},
                                      {"\"since\":700", EVENT("701", APP("running"))}};
        WATCHED(w);

        ASSERT_OK(begin(&w));
        ASSERT_OK(prepare_pod_of(&w));
        ASSERT_TRUE(tells(&w, "present:prepared complete "));
        ASSERT_OK(pod_begin_run(w.pod, &w.store.error));
        ASSERT_OK(start_supervisor(&w, script, ELEMENTSOF(script)));
        ASSERT_TRUE(tells(&w, "running web:exited web:running "));
}

TEST(a_supervisor_that_talks_nonsense)
{
        static const Line script[] = {{P "Describe", "{\"parameters\":{\"state\":7}}"},
                                      {NULL, NULL},
                                      {P "Describe", "nonsense"},
                                      {NULL, NULL},
                                      {P "Describe", "{\"error\":\"x.y\",\"parameters\":{}}"},
                                      {NULL, NULL},
                                      {P "Describe", DESCRIPTION("1", "running")},
                                      {"\"since\":1", "{\"parameters\":{\"app\":[]},\"continues\":true}"},
                                      {NULL, NULL},
                                      {"\"since\":1", EVENT("2", APP("exited"))}};
        WATCHED(w);

        ASSERT_OK(prepare_pod_of(&w));
        ASSERT_OK(pod_begin_run(w.pod, &w.store.error));
        ASSERT_OK(start_supervisor(&w, script, ELEMENTSOF(script)));
        ASSERT_OK(begin(&w));
        ASSERT_TRUE(tells(&w, "present:running complete web:running web:exited "));
        ASSERT_OK(pod_end_run(w.pod, &w.store.error));
        ASSERT_TRUE(tells(&w, "exited "));
}

int main(void)
{
        if (library_load(&systemd_library, NULL) < 0)
                return 1;
        RUN(every_step_is_told_once);
        RUN(steps_that_are_read_late);
        RUN(steps_before_the_list);
        RUN(processes_that_die);
        RUN(what_is_no_pod);
        RUN(lists_that_fail);
        RUN(a_pod_that_ran_before);
        RUN(a_pod_whose_start_was_seen);
        RUN(last_events_come_before_the_end);
        RUN(a_supervisor_that_keeps_silent_at_the_end);
        RUN(a_connection_that_is_lost);
        RUN(a_lost_connection_that_another_process_has_as_well);
        RUN(events_that_are_not_kept);
        RUN(a_supervisor_that_talks_nonsense);
        return TEST_END();
}
