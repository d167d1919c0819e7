/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* prepare/pod*.c and uids.c: the life of pods, and leftovers when their processes are killed. */

#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "prepare/pods/pods-internal.h"
#include "tests/unit/pod.h"
#include "tests/unit/scratch.h"
#include "tests/unit/small-disk.h"
#include "tests/unit/test.h"

#define USEC_HOUR (3600ULL * 1000000ULL)

/* --- Help ---------------------------------------------------------------------------------------------- */

#define STORE(s, scratch)                                                                                   \
        _cleanup_(scratch_done) Scratch scratch = SCRATCH_NULL;                                             \
        _cleanup_(store_unrefp) Store *s = NULL;                                                            \
        _cleanup_error_ Error e = ERROR_NULL;                                                               \
        ASSERT_OK(scratch_new(&scratch));                                                                   \
        ASSERT_OK(store_open_with_flags(scratch.path, STORE_UNPRIVILEGED, NULL, &s, &e))

/* The number of entries in a directory of the store, without hidden ones. */
static size_t count(Store *s, const char *directory)
{
        _cleanup_strv_free_ char **names = NULL;
        _cleanup_close_ int fd = openat(store_fd(s), directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        size_t n = 0;

        if (fd < 0 || list_names(fd, &names) < 0)
                return SIZE_MAX;
        STRV_FOREACH (name, names)
                n += (*name)[0] != '.';
        return n;
}

/* Whether there are no pods and no traces of any. */
static bool is_clean(Store *s)
{
        static const char *const directories[] = {
                        "pods/embryo",  "pods/preparing", "pods/prepared", "pods/running", "pods/exited",
                        "pods/garbage", "names",          "uids",          "tmp",
        };

        for (size_t i = 0; i < ELEMENTSOF(directories); i++)
                if (count(s, directories[i]) != 0)
                        return false;
        return true;
}

static const GcOptions gc_everything = {};
static const GcOptions gc_careful = {.grace_usec = USEC_HOUR, .expire_prepared_usec = UINT64_MAX};

/* Runs F in a process of its own, which reports by its exit status. */
static pid_t spawn(int (*f)(Store *s, void *data), Store *s, void *data)
{
        fflush(stdout);
        pid_t pid = fork();

        if (pid == 0) {
                (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
                _exit(f(s, data));
        }
        return pid;
}

static int wait_for(pid_t pid)
{
        int status;

        if (pid < 0 || waitpid(pid, &status, 0) != pid)
                return -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The other process writes the UUID to a pipe, and then sleeps until it is killed. */
static pid_t spawn_holder(int (*f)(Store *s, Pod **ret), Store *s, char uuid[static 37])
{
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -1;
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
                Pod *p = NULL;
                (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (f(s, &p) < 0 || loop_write(fds[1], p->uuid, 37) < 0)
                        _exit(1);
                for (;;)
                        pause();
        }
        close(fds[1]);
        ssize_t n = loop_read(fds[0], uuid, 37);
        close(fds[0]);
        return n == 37 ? pid : -1;
}

static void kill_holder(pid_t pid)
{
        if (pid > 0) {
                kill(pid, SIGKILL);
                (void) wait_for(pid);
        }
}

static int hold_preparing(Store *s, Pod **ret)
{
        int r = pod_new(s, ret, NULL);

        if (r >= 0)
                r = pod_allocate_uids(*ret, NULL);
        return r < 0 ? r : pod_reserve_name(*ret, "web", NULL);
}

static int hold_running(Store *s, Pod **ret)
{
        int r = prepare_test_pod(s, "web", ret, NULL);

        return r < 0 ? r : pod_begin_run(*ret, NULL);
}

/* --- Life ---------------------------------------------------------------------------------------------- */

TEST(words)
{
        ASSERT_STREQ(pod_state_to_string(POD_EMBRYO), "embryo");
        ASSERT_STREQ(pod_state_to_string(POD_ABORTED_PREPARE), "aborted prepare");
        ASSERT_STREQ(pod_state_to_string(POD_GARBAGE), "garbage");
        ASSERT_NULL(pod_state_to_string(_POD_STATE_MAX));
        for (int i = 0; i < _EXIT_POLICY_MAX; i++)
                ASSERT_EQ(exit_policy_from_string(exit_policy_to_string((ExitPolicy) i)), i);
        for (int i = 0; i < _NET_MODE_MAX; i++)
                ASSERT_EQ(net_mode_from_string(net_mode_to_string((NetMode) i)), i);
        ASSERT_ERR(exit_policy_from_string("sometimes"), -EINVAL);
        ASSERT_ERR(net_mode_from_string(NULL), -EINVAL);
}

TEST(life)
{
        STORE(s, dir);
        _cleanup_(pod_freep) Pod *p = NULL, *found = NULL;
        _cleanup_free_ char *path = NULL;
        char key[16];

        ASSERT_OK(pod_new(s, &p, &e));
        ASSERT_EQ(p->state, POD_PREPARING);
        ASSERT_TRUE(p->locked);
        ASSERT_OK(uuid_check(p->uuid, NULL));
        ASSERT_EQ(strlen(p->uuid), 36);
        ASSERT_EQ(count(s, "pods/preparing"), 1);
        ASSERT_OK(pod_find(s, p->uuid, &found, &e));
        ASSERT_EQ(found->state, POD_PREPARING);
        ASSERT_NULL(found->manifest);

        ASSERT_OK(pod_allocate_uids(p, &e));
        ASSERT_TRUE(pod_uids_are_valid(p->config.uid_base, 1));
        snprintf(key, sizeof(key), "%u", p->config.uid_base);
        ASSERT_OK(pod_reserve_name(p, "web", &e));
        p->manifest = parse_test_manifest();
        ASSERT_NOT_NULL(p->manifest);
        ASSERT_OK(pod_publish(p, &e));
        ASSERT_EQ(p->state, POD_PREPARED);
        ASSERT_EQ(count(s, "pods/preparing"), 0);

        ASSERT_OK(pod_begin_run(p, &e));
        ASSERT_EQ(p->state, POD_RUNNING);
        ASSERT_OK(pod_path(p, &path));
        ASSERT_CONTAINS(path, "/pods/running/");
        found = pod_free(found);
        ASSERT_OK(pod_find(s, "web", &found, &e));
        ASSERT_EQ(found->state, POD_RUNNING);
        ASSERT_STREQ(found->uuid, p->uuid);
        ASSERT_EQ(found->config.uid_base, p->config.uid_base);
        ASSERT_NOT_NULL(found->manifest);
        ASSERT_EQ(found->manifest->n_apps, 1);

        ASSERT_OK(file_reserve_at(p->dir_fd, POD_RESULT_RESERVE));
        ASSERT_OK(pod_end_run(p, &e));
        ASSERT_TRUE(faccessat(p->dir_fd, POD_RESULT_RESERVE, F_OK, 0) < 0);
        ASSERT_EQ(p->state, POD_EXITED);
        ASSERT_LE(now_usec(CLOCK_REALTIME) - pod_ended_usec(p), 60000000);
        ASSERT_OK(pod_remove(p, &e));
        ASSERT_TRUE(is_clean(s));
}

/* Operations that are not possible in the state of a pod, and their messages. */
TEST(wrong_moments)
{
        STORE(s, dir);
        _cleanup_(pod_freep) Pod *p = NULL, *q = NULL;

        ASSERT_OK(pod_new(s, &p, &e));
        ASSERT_OK(pod_find(s, p->uuid, &q, &e));
        ASSERT_ERR(pod_begin_run(q, &e), -EBUSY);
        ASSERT_CONTAINS(e.message, "still being prepared");
        ASSERT_ERR(pod_remove(q, &e), -EBUSY);
        ASSERT_CONTAINS(e.message, "still being prepared");
        pod_abandon(p);
        p = pod_free(p);
        q = pod_free(q);

        ASSERT_OK(prepare_test_pod(s, NULL, &p, &e));
        ASSERT_OK(pod_begin_run(p, &e));
        ASSERT_OK(pod_find(s, p->uuid, &q, &e));
        ASSERT_ERR(pod_begin_run(q, &e), -EBUSY);
        ASSERT_CONTAINS(e.message, "is running already");
        ASSERT_CONTAINS(e.hint, "' stops it first.");
        ASSERT_ERR(pod_remove(q, &e), -EBUSY);
        ASSERT_CONTAINS(e.hint, "acnspawn stop");
        ASSERT_ERR(pod_remove(p, &e), -EBUSY);
        ASSERT_ERR(pod_end_run(q, &e), -EINVAL);
        ASSERT_OK(pod_end_run(p, &e));
        ASSERT_ERR(pod_begin_run(p, &e), -ESTALE);
        ASSERT_CONTAINS(e.message, "has run and ended");
        ASSERT_CONTAINS(e.hint, "runs it again");
        ASSERT_OK(pod_remove(p, &e));
        ASSERT_ERR(pod_begin_run(p, &e), -ESTALE);
        ASSERT_TRUE(is_clean(s));
}

/* A process that opened the pod while it was prepared is too late. */
TEST(late_starter)
{
        STORE(s, dir);
        _cleanup_(pod_freep) Pod *p = NULL, *late = NULL, *later = NULL, *latest = NULL;

        ASSERT_OK(prepare_test_pod(s, NULL, &p, &e));
        ASSERT_OK(pod_find(s, p->uuid, &late, &e));
        ASSERT_OK(pod_find(s, p->uuid, &later, &e));
        ASSERT_OK(pod_find(s, p->uuid, &latest, &e));
        ASSERT_EQ(late->state, POD_PREPARED);
        ASSERT_ERR(pod_begin_run(late, &e), -EBUSY);
        ASSERT_CONTAINS(e.message, "being started or removed");
        ASSERT_OK(pod_begin_run(p, &e));
        ASSERT_ERR(pod_begin_run(late, &e), -EBUSY);
        ASSERT_CONTAINS(e.message, "is running already");
        ASSERT_ERR(pod_remove(later, &e), -EBUSY);
        ASSERT_OK(pod_end_run(p, &e));
        p = pod_free(p);
        ASSERT_ERR(pod_begin_run(late, &e), -ESTALE);
        ASSERT_OK(pod_remove(later, &e));
        ASSERT_ERR(pod_begin_run(late, &e), -ENOENT);
        ASSERT_ERR(pod_remove(latest, &e), -ENOENT);
        ASSERT_TRUE(is_clean(s));
}

TEST(publish_without_manifest_removes)
{
        STORE(s, dir);
        _cleanup_(pod_freep) Pod *p = NULL;

        ASSERT_OK(pod_new(s, &p, &e));
        ASSERT_OK(pod_reserve_name(p, "web", &e));
        ASSERT_ERR(pod_publish(p, &e), -EINVAL);
        ASSERT_TRUE(is_clean(s));
}

TEST(publish_invalid_manifest_removes)
{
        STORE(s, dir);
        _cleanup_(pod_freep) Pod *p = NULL;

        ASSERT_OK(pod_new(s, &p, &e));
        ASSERT_OK(pod_allocate_uids(p, &e));
        p->manifest = parse_test_manifest();
        ASSERT_NOT_NULL(p->manifest);
        free(p->manifest->apps[0]->name);
        p->manifest->apps[0]->name = strdup("No Name");
        ASSERT_ERR(pod_publish(p, &e), -EINVAL);
        ASSERT_CONTAINS(e.message, "does not result in a valid pod manifest");
        ASSERT_CONTAINS(e.message, "apps[0].name");
        ASSERT_TRUE(is_clean(s));
}

TEST(published_modes)
{
        STORE(s, dir);
        _cleanup_(pod_freep) Pod *p = NULL;
        struct stat st;
        mode_t old = umask(0077);

        int r = prepare_test_pod(s, NULL, &p, &e);
        umask(old);
        ASSERT_OK(r);
        ASSERT_OK(fstat(p->dir_fd, &st));
        ASSERT_EQ(st.st_mode & 07777, 0711);
        ASSERT_EQ(fcntl(p->dir_fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

/* The lock is passed with the descriptor, so that the supervisor can be another process than the one that
 * took the lock. */
TEST(lock_is_inherited)
{
        STORE(s, dir);
        _cleanup_(pod_freep) Pod *p = NULL, *q = NULL;
        int fds[2];

        ASSERT_OK(prepare_test_pod(s, "web", &p, &e));
        ASSERT_OK(pod_begin_run(p, &e));
        ASSERT_OK(pipe2(fds, O_CLOEXEC));
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
                char c;
                close(fds[1]);
                _exit(read(fds[0], &c, 1) == 0 ? 0 : 1);
        }
        close(fds[0]);
        p = pod_free(p);
        ASSERT_OK(pod_find(s, "web", &q, &e));
        ASSERT_EQ(q->state, POD_RUNNING);
        close(fds[1]);
        ASSERT_EQ(wait_for(pid), 0);
        q = pod_free(q);
        ASSERT_OK(pod_find(s, "web", &q, &e));
        ASSERT_EQ(q->state, POD_EXITED);
}

/* A process that reads the pod, like "list", holds a shared lock; on a slow host for some time. */
TEST(removal_waits_for_those_that_look)
{
        STORE(s, dir);
        _cleanup_(pod_freep) Pod *p = NULL, *q = NULL;
        int fds[2];
        char c;

        ASSERT_OK(prepare_test_pod(s, "web", &p, &e));
        p = pod_free(p);
        ASSERT_OK(pod_find(s, "web", &q, &e));
        ASSERT_OK(pipe2(fds, O_CLOEXEC));
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
                int fd = openat(q->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                if (flock(fd, LOCK_SH | LOCK_NB) < 0 || write(fds[1], "x", 1) != 1)
                        _exit(1);
                usleep(300000);
                _exit(0);
        }
        close(fds[1]);
        ASSERT_EQ(read(fds[0], &c, 1), 1);
        close(fds[0]);
        ASSERT_OK(pod_remove(q, &e));
        ASSERT_EQ(wait_for(pid), 0);
}

/* "rm --force" of a pod whose "run --rm" removes it at the same time. */
TEST(removal_waits_for_another_removal)
{
        STORE(s, dir);
        _cleanup_(pod_freep) Pod *p = NULL, *q = NULL;
        int fds[2];
        char c;

        ASSERT_OK(prepare_test_pod(s, "web", &p, &e));
        ASSERT_OK(pod_begin_run(p, &e));
        ASSERT_OK(pod_end_run(p, &e));
        p = pod_free(p);
        ASSERT_OK(pod_find(s, "web", &p, &e));
        ASSERT_OK(pod_find(s, "web", &q, &e));
        ASSERT_OK(pipe2(fds, O_CLOEXEC));
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
                if (pod_lock(p, false, &e) < 0 || write(fds[1], "x", 1) != 1)
                        _exit(1);
                usleep(300000);
                _exit(pod_remove(p, &e) < 0);
        }
        p = pod_free(p);
        close(fds[1]);
        ASSERT_EQ(read(fds[0], &c, 1), 1);
        close(fds[0]);
        ASSERT_ERR(pod_remove(q, &e), -ENOENT);
        ASSERT_EQ(wait_for(pid), 0);
}

/* --- Killed -------------------------------------------------------------------------------------------- */

TEST(killed_while_preparing)
{
        STORE(s, dir);
        _cleanup_(pod_freep) Pod *p = NULL;
        char uuid[37];

        pid_t pid = spawn_holder(hold_preparing, s, uuid);
        ASSERT_TRUE(pid > 0);
        ASSERT_OK(store_gc(s, &gc_everything, &e));
        ASSERT_OK(pod_find(s, uuid, &p, &e));
        ASSERT_EQ(p->state, POD_PREPARING);
        kill_holder(pid);
        p = pod_free(p);
        ASSERT_OK(pod_find(s, uuid, &p, &e));
        ASSERT_EQ(p->state, POD_ABORTED_PREPARE);
        ASSERT_ERR(pod_begin_run(p, &e), -ESTALE);
        ASSERT_CONTAINS(e.message, "never fully prepared");
        ASSERT_EQ(count(s, "names"), 1);
        ASSERT_OK(store_gc(s, &gc_careful, &e));
        ASSERT_TRUE(is_clean(s));
}

TEST(killed_while_running)
{
        STORE(s, dir);
        _cleanup_(pod_freep) Pod *p = NULL;
        char uuid[37];

        pid_t pid = spawn_holder(hold_running, s, uuid);
        ASSERT_TRUE(pid > 0);
        ASSERT_OK(store_gc(s, &gc_everything, &e));
        ASSERT_EQ(count(s, "pods/running"), 1);
        kill_holder(pid);
        ASSERT_OK(pod_find(s, "web", &p, &e));
        ASSERT_EQ(p->state, POD_EXITED);
        ASSERT_EQ(p->place, POD_RUNNING);
        ASSERT_EQ(count(s, "pods/running"), 1);
        ASSERT_ERR(pod_begin_run(p, &e), -ESTALE);

        /* Within its grace it only gets to where it belongs. */
        ASSERT_OK(store_gc(s, &gc_careful, &e));
        ASSERT_EQ(count(s, "pods/running"), 0);
        ASSERT_EQ(count(s, "pods/exited"), 1);
        p = pod_free(p);
        ASSERT_OK(pod_find(s, "web", &p, &e));
        ASSERT_EQ(p->state, POD_EXITED);
        ASSERT_TRUE(faccessat(p->dir_fd, "ended", F_OK, 0) == 0);
        p = pod_free(p);
        ASSERT_OK(store_gc(s, &gc_everything, &e));
        ASSERT_TRUE(is_clean(s));
}

TEST(killed_while_running_then_removed)
{
        STORE(s, dir);
        _cleanup_(pod_freep) Pod *p = NULL;
        char uuid[37];

        pid_t pid = spawn_holder(hold_running, s, uuid);
        ASSERT_TRUE(pid > 0);
        kill_holder(pid);
        ASSERT_OK(pod_find(s, uuid, &p, &e));
        ASSERT_OK(pod_remove(p, &e));
        ASSERT_TRUE(is_clean(s));
}

/* A whole life. */
static int live(Store *s, void *data)
{
        Pod *p = NULL;

        if (prepare_test_pod(s, data, &p, NULL) < 0 || pod_begin_run(p, NULL) < 0 ||
            pod_end_run(p, NULL) < 0 || pod_remove(p, NULL) < 0)
                return 1;
        pod_free(p);
        return 0;
}

static int live_traced(Store *s, void *data)
{
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0 || raise(SIGSTOP) != 0)
                return 77;
        return live(s, data);
}

/* Kills the process at its N-th entry to or exit from the kernel. 1: killed; 0: it ended before; negative:
 * neither. */
static int kill_at(Store *s, unsigned n)
{
        int status;
        pid_t pid = spawn(live_traced, s, (void *) "web");

        if (pid < 0 || waitpid(pid, &status, 0) != pid)
                return -1;
        if (WIFEXITED(status))
                return WEXITSTATUS(status) == 77 ? -77 : -1;
        for (unsigned i = 0; i < n; i++) {
                if (ptrace(PTRACE_SYSCALL, pid, NULL, NULL) < 0 || waitpid(pid, &status, 0) != pid)
                        return -1;
                if (WIFEXITED(status))
                        return WEXITSTATUS(status) == 0 ? 0 : -1;
        }
        kill(pid, SIGKILL);
        return wait_for(pid) == 128 + SIGKILL ? 1 : -1;
}

/* Threat E1. */
TEST(killed_at_every_step)
{
        STORE(s, dir);
        unsigned n = 1;
        int r;

        while ((r = kill_at(s, n)) > 0) {
                _cleanup_(pod_freep) Pod *p = NULL;

                ASSERT_OK(store_gc(s, &gc_everything, &e));
                ASSERT_TRUE(is_clean(s));
                if (n % 16 == 0) { /* and everything goes on working */
                        ASSERT_OK(prepare_test_pod(s, "web", &p, &e));
                        ASSERT_OK(pod_remove(p, &e));
                }
                n++;
        }
        if (r == -77)
                TEST_SKIP("processes cannot be traced here");
        ASSERT_EQ(r, 0);
        ASSERT_GT(n, 100);
        ASSERT_TRUE(is_clean(s));
}

static int collect_forever(Store *s, void *data)
{
        while (store_gc(s, &gc_careful, NULL) >= 0)
                ;
        return 1;
}

/* Threat E5: collectors at full speed remove nothing that is in use. */
TEST(collected_all_the_time)
{
        STORE(s, dir);
        pid_t collectors[2], workers[3];
        char names[ELEMENTSOF(workers)][8];
        int failed = 0;

        for (size_t i = 0; i < ELEMENTSOF(collectors); i++)
                collectors[i] = spawn(collect_forever, s, NULL);
        for (unsigned round = 0; round < 20; round++) {
                for (size_t i = 0; i < ELEMENTSOF(workers); i++) {
                        snprintf(names[i], sizeof(names[i]), "w%zu", i);
                        workers[i] = spawn(live, s, names[i]);
                }
                for (size_t i = 0; i < ELEMENTSOF(workers); i++)
                        failed += wait_for(workers[i]) != 0;
        }
        for (size_t i = 0; i < ELEMENTSOF(collectors); i++) {
                failed += kill(collectors[i], SIGKILL) != 0;
                failed += wait_for(collectors[i]) != 128 + SIGKILL;
        }
        ASSERT_EQ(failed, 0);
        ASSERT_TRUE(is_clean(s));
}

static int live_forever(Store *s, void *data)
{
        while (live(s, NULL) == 0)
                ;
        return 1;
}

/* Listing never fails while pods change state, and each pod that is listed has a valid state. */
TEST(listed_all_the_time)
{
        STORE(s, dir);
        pid_t pid = spawn(live_forever, s, NULL);
        int r = 0;

        for (unsigned i = 0; i < 200 && r >= 0; i++) {
                Pod **l = NULL;
                size_t n = 0;
                r = pod_list(s, &l, &n, &e);
                pod_list_free(l, n);
        }
        kill(pid, SIGKILL);
        (void) wait_for(pid);
        ASSERT_OK(r);
}

/* --- Races --------------------------------------------------------------------------------------------- */

static int try_begin(Store *s, void *data)
{
        Pod *p = NULL;

        int r = pod_find(s, data, &p, NULL);
        if (r >= 0)
                r = pod_begin_run(p, NULL);
        if (r == -EBUSY || r == -ESTALE)
                return 2;
        if (r < 0)
                return 1;
        (void) usleep(2000);
        return pod_end_run(p, NULL) < 0 ? 1 : 0;
}

TEST(one_of_many_begins)
{
        STORE(s, dir);

        for (unsigned round = 0; round < 10; round++) {
                _cleanup_(pod_freep) Pod *p = NULL;
                pid_t pids[6];
                unsigned results[3] = {};

                ASSERT_OK(prepare_test_pod(s, NULL, &p, &e));
                _cleanup_free_ char *uuid = strdup(p->uuid);
                p = pod_free(p);
                for (size_t i = 0; i < ELEMENTSOF(pids); i++)
                        pids[i] = spawn(try_begin, s, uuid);
                for (size_t i = 0; i < ELEMENTSOF(pids); i++) {
                        int status = wait_for(pids[i]);
                        results[status >= 0 && status <= 2 ? status : 1]++;
                }
                ASSERT_EQ(results[0], 1);
                ASSERT_EQ(results[1], 0);
                ASSERT_EQ(results[2], ELEMENTSOF(pids) - 1);
        }
}

static int try_name(Store *s, void *data)
{
        Pod *p = NULL;
        int r;

        if (pod_new(s, &p, NULL) < 0)
                return 1;
        do /* what another has for an instant does not count */
                r = pod_reserve_name(p, "web", NULL);
        while (r == -EAGAIN);
        int fd = *(int *) data;
        char c;
        if (r >= 0 && read(fd, &c, 1) < 0) /* keep it until all have tried */
                return 1;
        pod_abandon(p);
        return r == -EEXIST ? 2 : r < 0 ? 1 : 0;
}

TEST(one_of_many_gets_a_name)
{
        STORE(s, dir);
        pid_t pids[6];
        unsigned lost = 0, won = 0;
        int fds[2];

        ASSERT_OK(pipe2(fds, O_CLOEXEC));
        /* A stale link makes it harder. */
        ASSERT_OK(symlinkat("01234567-89ab-cdef-0123-456789abcdef", store_fd(s), "names/web"));
        for (size_t i = 0; i < ELEMENTSOF(pids); i++)
                pids[i] = spawn(try_name, s, &fds[0]);
        for (size_t i = 0; i < ELEMENTSOF(pids) - 1; i++) {
                int status;
                lost += waitpid(-1, &status, 0) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 2;
        }
        ASSERT_OK(loop_write(fds[1], "", 1));
        int status;
        won = waitpid(-1, &status, 0) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
        close(fds[0]);
        close(fds[1]);
        ASSERT_EQ(lost, ELEMENTSOF(pids) - 1);
        ASSERT_EQ(won, 1);
        ASSERT_TRUE(is_clean(s));
}

static int prepare_many(Store *s, void *data)
{
        for (unsigned i = 0; i < 5; i++) {
                Pod *p = NULL;
                if (prepare_test_pod(s, NULL, &p, NULL) < 0)
                        return 1;
                pod_free(p);
        }
        return 0;
}

/* Threat D5. */
TEST(ranges_are_disjoint)
{
        STORE(s, dir);
        Pod **l = NULL;
        size_t n = 0, same = 0;
        pid_t pids[4];

        for (size_t i = 0; i < ELEMENTSOF(pids); i++)
                pids[i] = spawn(prepare_many, s, NULL);
        for (size_t i = 0; i < ELEMENTSOF(pids); i++)
                ASSERT_EQ(wait_for(pids[i]), 0);
        ASSERT_OK(pod_list(s, &l, &n, &e));
        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < i; k++)
                        same += l[i]->config.uid_base == l[k]->config.uid_base;
        bool sorted = true;
        for (size_t i = 1; i < n; i++)
                sorted = sorted && l[i - 1]->config.created_usec <= l[i]->config.created_usec;
        pod_list_free(l, n);
        ASSERT_EQ(n, 20);
        ASSERT_EQ(same, 0);
        ASSERT_TRUE(sorted);
        ASSERT_EQ(count(s, "uids"), 20);
        ASSERT_OK(store_gc(s, &gc_everything, &e));
        ASSERT_TRUE(is_clean(s));
}

/* --- Uids ---------------------------------------------------------------------------------------------- */

TEST(uid_bases)
{
        static const char uuid[] = "01234567-89ab-cdef-0123-456789abcdef";

        for (uint32_t i = 0; i < 100000; i += 7)
                ASSERT_TRUE(pod_uids_are_valid(uid_base_nth(uuid, i), 1));
        ASSERT_NE(uid_base_nth(uuid, 0), uid_base_nth(uuid, 1));
        ASSERT_NE(uid_base_nth(uuid, 0), uid_base_nth("11234567-89ab-cdef-0123-456789abcdef", 0));
        ASSERT_FALSE(pod_uids_are_valid(0, 1));
        ASSERT_TRUE(pod_uids_are_valid(1, 1));
        ASSERT_TRUE(pod_uids_are_valid(0x80001, 1));
        ASSERT_TRUE(pod_uids_are_valid(0x10000, POD_UIDS_MAX));
        ASSERT_TRUE(pod_uids_are_valid(0xFFFE0000, 0x10000));
        ASSERT_TRUE(pod_uids_are_valid(0xFFFEFFFF, 1));
        ASSERT_FALSE(pod_uids_are_valid(0xFFFEFFFF, 2));
        ASSERT_FALSE(pod_uids_are_valid(0xFFFF0000, 1));
        ASSERT_FALSE(pod_uids_are_valid(0xFFFE0000, 0x10001));
        ASSERT_FALSE(pod_uids_are_valid(0x10000, 0));
        ASSERT_FALSE(pod_uids_are_valid(0x10000, POD_UIDS_MAX + 1));
        ASSERT_FALSE(pod_uids_are_valid(0x10000, UINT32_MAX));
}

TEST(taken_range_is_skipped)
{
        STORE(s, dir);
        _cleanup_(pod_freep) Pod *p = NULL, *q = NULL;
        char key[16];

        ASSERT_OK(pod_new(s, &p, &e));
        ASSERT_OK(pod_new(s, &q, &e));
        ASSERT_OK(pod_allocate_uids(p, &e));
        uint32_t first = p->config.uid_base;
        snprintf(key, sizeof(key), "%u", first);
        registry_drop(s, REGISTRY_UIDS, key, q->uuid); /* of another pod */
        ASSERT_EQ(count(s, "uids"), 1);
        registry_drop(s, REGISTRY_UIDS, key, p->uuid);
        ASSERT_EQ(count(s, "uids"), 0);
        ASSERT_OK(registry_take(s, REGISTRY_UIDS, key, q->uuid, NULL, &e));
        ASSERT_OK(pod_allocate_uids(p, &e));
        ASSERT_NE(p->config.uid_base, first);
        pod_abandon(p);
        pod_abandon(q);
        ASSERT_EQ(count(s, "uids"), 1); /* which only the registry knew of */
        ASSERT_OK(store_gc(s, &gc_careful, &e));
        ASSERT_TRUE(is_clean(s));
}

/* --- Journals ------------------------------------------------------------------------------------------ */

static void no_journal_links(int *unused)
{
        (void) unused;
        pod_journal_links_set_directory(NULL);
}

static bool link_leads_to(const Scratch *journals, const char *id, const Pod *p)
{
        _cleanup_free_ char *path = NULL, *expected = NULL;
        char target[PATH_MAX];

        ssize_t n = readlinkat(journals->fd, id, target, sizeof(target) - 1);
        if (n < 0 || pod_path(p, &path) < 0 ||
            xasprintf(&expected, "%s/root/var/log/journal/%s", path, id) < 0)
                return false;
        target[n] = 0;
        return streq(target, expected);
}

TEST(journal_is_linked_while_the_pod_exists)
{
        STORE(s, scratch);
        _cleanup_(scratch_done) Scratch journals = SCRATCH_NULL;
        __attribute__((unused, cleanup(no_journal_links))) int unused = 0;
        _cleanup_(pod_freep) Pod *p = NULL;
        char id[64] = "", gone[] = "00000000000000000000000000000001",
             other[] = "00000000000000000000000000000002";
        _cleanup_free_ char *target = NULL;

        ASSERT_OK(scratch_new(&journals));
        pod_journal_links_set_directory(journals.path);
        ASSERT_OK(prepare_test_pod(s, NULL, &p, &e));
        for (const char *c = p->uuid; *c; c++)
                if (*c != '-')
                        id[strlen(id)] = *c;
        ASSERT_TRUE(faccessat(journals.fd, id, F_OK, AT_SYMLINK_NOFOLLOW) < 0);
        ASSERT_OK(pod_begin_run(p, &e));
        ASSERT_TRUE(link_leads_to(&journals, id, p));
        ASSERT_OK(pod_end_run(p, &e));
        ASSERT_TRUE(link_leads_to(&journals, id, p));
        /* Removed is what leads nowhere in this store, and nothing else. */
        ASSERT_TRUE(xasprintf(&target, "%s/pods/exited/x", store_path(s)) >= 0);
        ASSERT_OK(scratch_symlink(&journals, gone, target));
        ASSERT_OK(scratch_symlink(&journals, other, "/nowhere/pods/x"));
        pod_journal_links_collect(s);
        ASSERT_TRUE(faccessat(journals.fd, gone, F_OK, AT_SYMLINK_NOFOLLOW) < 0);
        ASSERT_OK(faccessat(journals.fd, other, F_OK, AT_SYMLINK_NOFOLLOW));
        ASSERT_OK(pod_remove(p, &e));
        ASSERT_TRUE(faccessat(journals.fd, id, F_OK, AT_SYMLINK_NOFOLLOW) < 0);
        ASSERT_OK(faccessat(journals.fd, other, F_OK, AT_SYMLINK_NOFOLLOW));
}

/* --- Ranges of several stores -------------------------------------------------------------------------- */

static void no_host_uids(int *unused)
{
        (void) unused;
        host_uids_set_directory(NULL);
}

/* Two stores of one host, which has the directory of ranges HOST. */
#define TWO_STORES(a, b)                                                                                    \
        STORE(a, scratch_##a);                                                                              \
        _cleanup_(scratch_done) Scratch scratch_##b = SCRATCH_NULL, host = SCRATCH_NULL;                    \
        _cleanup_(store_unrefp) Store *b = NULL;                                                            \
        __attribute__((unused, cleanup(no_host_uids))) int unused = 0;                                      \
        ASSERT_OK(scratch_new(&scratch_##b));                                                               \
        ASSERT_OK(scratch_new(&host));                                                                      \
        ASSERT_OK(store_open_with_flags(scratch_##b.path, STORE_UNPRIVILEGED, NULL, &b, &e));               \
        host_uids_set_directory(host.path)

static size_t count_host_ranges(const Scratch *host)
{
        _cleanup_strv_free_ char **names = NULL;
        size_t n = 0;

        if (list_names(host->fd, &names) < 0)
                return SIZE_MAX;
        STRV_FOREACH (name, names)
                n += (*name)[0] != '.';
        return n;
}

static int link_range(const Scratch *host, uint32_t base, const char *uuid, const char *store)
{
        char key[16], target[PATH_MAX + 64];

        snprintf(key, sizeof(key), "%u", base);
        snprintf(target, sizeof(target), "%s:%s", uuid, store);
        (void) unlinkat(host->fd, key, 0);
        return scratch_symlink(host, key, target);
}

/* The range that P would get now: the first ones for it may be users of the real host. */
static uint32_t first_free_base(Pod *p)
{
        uint32_t base = pod_allocate_uids(p, NULL) < 0 ? 0 : p->config.uid_base;

        pod_drop_uids(p);
        p->config.uid_base = 0;
        return base;
}

/* Threat D5. */
TEST(ranges_of_two_stores_are_disjoint)
{
        TWO_STORES(s, t);
        uint32_t bases[80];
        size_t n = 0, same = 0;
        pid_t pids[16];

        for (size_t i = 0; i < ELEMENTSOF(pids); i++)
                pids[i] = spawn(prepare_many, i % 2 ? s : t, NULL);
        for (size_t i = 0; i < ELEMENTSOF(pids); i++)
                ASSERT_EQ(wait_for(pids[i]), 0);
        for (size_t i = 0; i < 2; i++) {
                Pod **l = NULL;
                size_t k = 0;

                ASSERT_OK(pod_list(i ? s : t, &l, &k, &e));
                for (size_t j = 0; j < k && n < ELEMENTSOF(bases); j++)
                        bases[n++] = l[j]->config.uid_base;
                pod_list_free(l, k);
        }
        ASSERT_EQ(n, ELEMENTSOF(bases));
        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < i; k++)
                        same += bases[i] == bases[k];
        ASSERT_EQ(same, 0);
        ASSERT_EQ(count_host_ranges(&host), n);
        ASSERT_OK(store_gc(s, &gc_everything, &e));
        ASSERT_EQ(count_host_ranges(&host), n / 2);
        ASSERT_OK(store_gc(t, &gc_everything, &e));
        ASSERT_EQ(count_host_ranges(&host), 0);
}

/* The same UUID would get the same range if only the stores were checked. */
TEST(range_of_another_store_is_skipped)
{
        TWO_STORES(s, t);
        _cleanup_(pod_freep) Pod *p = NULL, *q = NULL;

        ASSERT_OK(pod_new(s, &p, &e));
        ASSERT_OK(pod_new(t, &q, &e));
        uint32_t first = uid_base_nth(p->uuid, 0);
        ASSERT_OK(link_range(&host, first, q->uuid, store_path(t)));
        ASSERT_OK(pod_allocate_uids(p, &e));
        ASSERT_NE(p->config.uid_base, first);
        ASSERT_EQ(count_host_ranges(&host), 2);
        pod_abandon(p);
        ASSERT_EQ(count_host_ranges(&host), 1);
        pod_abandon(q);
}

/* A range that the owner of a pod has chosen is the pod's until it has ended; other pods can have it then. */
TEST(chosen_range)
{
        TWO_STORES(s, t);
        _cleanup_(pod_freep) Pod *p = NULL, *q = NULL, *r = NULL;

        ASSERT_OK(pod_new(s, &p, &e));
        ASSERT_OK(pod_new(s, &q, &e));
        ASSERT_OK(pod_new(t, &r, &e));
        ASSERT_ERR(pod_take_uids(p, 0, 0x10000, &e), -EINVAL);
        ASSERT_OK(pod_take_uids(p, 0x30000, 0x10000, &e));
        ASSERT_EQ(p->config.uid_base, 0x30000);
        ASSERT_ERR(pod_take_uids(q, 0x30000, 0x10000, &e), -EUSERS);
        ASSERT_STREQ(e.message, "The users 196608 to 262143 are those of another pod");
        error_done(&e);
        ASSERT_ERR(pod_take_uids(r, 0x30000, 0x10000, &e), -EUSERS);
        p->manifest = parse_test_manifest();
        ASSERT_OK(pod_publish(p, &e));
        ASSERT_OK(pod_begin_run(p, &e));
        error_done(&e);
        ASSERT_ERR(pod_take_uids(q, 0x30000, 0x10000, &e), -EUSERS);
        ASSERT_OK(pod_end_run(p, &e));
        ASSERT_OK(pod_take_uids(q, 0x30000, 0x10000, &e));
        ASSERT_EQ(q->config.uid_base, 0x30000);
        p = pod_free(p);
        ASSERT_OK(store_gc(s, &gc_everything, &e));
        ASSERT_EQ(count(s, "uids"), 1);
        ASSERT_EQ(count_host_ranges(&host), 1);
        pod_abandon(q);
        pod_abandon(r);
        ASSERT_EQ(count_host_ranges(&host), 0);
}

/* Several ranges are registered one by one, or none of them is. */
TEST(chosen_ranges)
{
        TWO_STORES(s, t);
        _cleanup_(pod_freep) Pod *p = NULL, *q = NULL;

        ASSERT_OK(pod_new(s, &p, &e));
        ASSERT_OK(pod_new(t, &q, &e));
        ASSERT_ERR(pod_take_uids(p, 0x30000, 0, &e), -EINVAL);
        ASSERT_ERR(pod_take_uids(p, 0x30000, POD_UIDS_MAX + 1, &e), -EINVAL);
        ASSERT_ERR(pod_take_uids(p, 0xFFFE0000, 0x20000, &e), -EINVAL);
        ASSERT_STREQ(e.message,
                     "131072 users from 4294836224 on cannot be those of a pod, which has 1 to 16777216, "
                     "from 1 to 4294901759");
        error_done(&e);
        ASSERT_OK(pod_take_uids(p, 0x30000, 0x30000, &e));
        ASSERT_EQ(pod_n_uids(&p->config), 3 * 65536);
        ASSERT_EQ(count(s, "uids"), 3);
        ASSERT_EQ(count_host_ranges(&host), 3);
        ASSERT_ERR(pod_take_uids(q, 0x10000, 0x30000, &e), -EUSERS);
        ASSERT_STREQ(e.message, "The users 65536 to 262143 are those of another pod");
        error_done(&e);
        ASSERT_EQ(count(t, "uids"), 0);
        ASSERT_EQ(count_host_ranges(&host), 3);
        ASSERT_ERR(pod_take_uids(q, 0x50000, 0x10000, &e), -EUSERS);
        ASSERT_OK(pod_take_uids(q, 0x10000, 0x20000, &e));
        ASSERT_EQ(count_host_ranges(&host), 5);
        pod_abandon(p);
        pod_abandon(q);
        ASSERT_EQ(count(s, "uids"), 0);
        ASSERT_EQ(count_host_ranges(&host), 0);
}

/* They may begin and end anywhere. Blocks of which a pod has some are its own, also the first one, in which are the host's users. */
TEST(chosen_ranges_of_any_start_and_length)
{
        TWO_STORES(s, t);
        _cleanup_(pod_freep) Pod *p = NULL, *q = NULL, *r = NULL;

        ASSERT_OK(pod_new(s, &p, &e));
        ASSERT_OK(pod_new(s, &q, &e));
        ASSERT_OK(pod_new(t, &r, &e));
        ASSERT_OK(pod_take_uids(p, 1000, 100000, &e));
        ASSERT_EQ(pod_n_uids(&p->config), 100000);
        ASSERT_EQ(pod_first_block(&p->config), 0);
        ASSERT_EQ(pod_n_blocks(&p->config), 2);
        ASSERT_EQ(count(s, "uids"), 2);
        ASSERT_EQ(count_host_ranges(&host), 2);
        ASSERT_ERR(pod_take_uids(q, 1, 1, &e), -EUSERS);
        ASSERT_CONTAINS(e.message,
                        "The users 1 to 1, or others of their blocks of 65536, are those of another pod");
        error_done(&e);
        ASSERT_ERR(pod_take_uids(q, 0x1FFFF, 2, &e), -EUSERS);
        error_done(&e);
        ASSERT_EQ(count(s, "uids"), 2);
        ASSERT_ERR(pod_take_uids(r, 101000, 7, &e), -EUSERS);
        error_done(&e);
        ASSERT_ERR(pod_take_uids(r, 2000, 60000, &e), -EUSERS);
        error_done(&e);
        ASSERT_OK(pod_take_uids(q, 0x2FFFF, 2, &e));
        ASSERT_EQ(pod_first_block(&q->config), 0x20000);
        ASSERT_EQ(count_host_ranges(&host), 4);
        pod_abandon(p);
        ASSERT_EQ(count(s, "uids"), 2);
        ASSERT_EQ(count_host_ranges(&host), 2);
        ASSERT_OK(pod_take_uids(r, 2000, 60000, &e));
        pod_abandon(q);
        pod_abandon(r);
        ASSERT_EQ(count(s, "uids"), 0);
        ASSERT_EQ(count(t, "uids"), 0);
        ASSERT_EQ(count_host_ranges(&host), 0);
}

/* Of the host's users processes of the host always have some, so a link of a store that is missing holds nothing. */
TEST(first_block_of_a_missing_store_is_free)
{
        static const char gone[] = "21234567-89ab-4def-8123-456789abcdef";
        TWO_STORES(s, t);
        _cleanup_(pod_freep) Pod *p = NULL;

        ASSERT_OK(pod_new(s, &p, &e));
        ASSERT_OK(link_range(&host, 0, gone, "/nonexistent/store"));
        ASSERT_OK(pod_take_uids(p, 1000, 3000, &e));
        ASSERT_EQ(count_host_ranges(&host), 1);
        pod_abandon(p);
        ASSERT_EQ(count_host_ranges(&host), 0);
}

/* An incomplete pod, one of a removed store, and a foreign link. */
TEST(stale_range_is_taken)
{
        static const char gone[] = "21234567-89ab-4def-8123-456789abcdef";
        TWO_STORES(s, t);

        for (unsigned i = 0; i < 4; i++) {
                _cleanup_(pod_freep) Pod *p = NULL;

                ASSERT_OK(pod_new(s, &p, &e));
                uint32_t first = first_free_base(p);
                if (i == 3)
                        ASSERT_OK(link_range(&host, first, "nobody", "/"));
                else
                        ASSERT_OK(link_range(&host, first, gone,
                                             i == 0   ? store_path(s)
                                             : i == 1 ? store_path(t)
                                                      : "/nonexistent/store"));
                ASSERT_OK(pod_allocate_uids(p, &e));
                ASSERT_EQ(p->config.uid_base, first);
                pod_abandon(p);
        }
        ASSERT_EQ(count_host_ranges(&host), 0);
}

static void lock_range_of_nspawn(void)
{
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        TWO_STORES(s, t);
        _cleanup_(pod_freep) Pod *p = NULL;
        char path[64];

        ASSERT_TRUE(mount("run", "/run", "tmpfs", 0, NULL) >= 0);
        ASSERT_OK(mkdir_p("/run/systemd/nspawn-uid", 0755));
        ASSERT_OK(pod_new(s, &p, &e));
        uint32_t first = first_free_base(p);
        snprintf(path, sizeof(path), "/run/systemd/nspawn-uid/%u", first);
        _cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        ASSERT_TRUE(fd >= 0);
        ASSERT_EQ(first_free_base(p), first);
        ASSERT_OK(fcntl(fd, F_OFD_SETLK, &lock));
        ASSERT_NE(first_free_base(p), first);
        ASSERT_EQ(unlink(path), 0);
        ASSERT_EQ(mkfifo(path, 0600), 0);
        ASSERT_EQ(first_free_base(p), first);
        ASSERT_EQ(unlink(path), 0);
        ASSERT_EQ(symlink("/dev/null", path), 0);
        ASSERT_NE(first_free_base(p), first);
}

/* What is left of one that was killed does not keep its range. */
TEST(range_is_that_of_a_container_while_it_is_locked)
{
        on_small_disk("size=20m", lock_range_of_nspawn);
}

static void note_uids(const GcItem *item, void *userdata)
{
        if (streq(item->kind, "uids"))
                ++*(size_t *) userdata;
}

TEST(ranges_of_killed_processes_are_collected)
{
        static const char gone[] = "21234567-89ab-4def-8123-456789abcdef";
        TWO_STORES(s, t);
        size_t n = 0;
        char uuid[37];
        GcOptions o = {.dry_run = true, .removed = note_uids, .userdata = &n};

        pid_t pid = spawn_holder(hold_preparing, s, uuid);
        ASSERT_TRUE(pid > 0);
        ASSERT_OK(store_gc(t, &gc_everything, &e));
        ASSERT_EQ(count_host_ranges(&host), 1); /* it is at work */
        kill_holder(pid);
        ASSERT_OK(link_range(&host, 0x80000, gone, store_path(s)));
        ASSERT_OK(store_gc(t, &o, &e));
        ASSERT_EQ(n, 1);
        ASSERT_EQ(count_host_ranges(&host), 2);
        o.dry_run = false;
        ASSERT_OK(store_gc(t, &o, &e));
        ASSERT_EQ(n, 2);
        ASSERT_EQ(count_host_ranges(&host), 1); /* of the pod that is half made */
        ASSERT_OK(store_gc(s, &gc_everything, &e));
        ASSERT_EQ(count_host_ranges(&host), 0);
        ASSERT_TRUE(is_clean(s));
}

/* Like pods of earlier versions, and stores that were not mounted for a while. */
TEST(range_is_claimed_when_a_pod_starts)
{
        TWO_STORES(s, t);
        _cleanup_(pod_freep) Pod *p = NULL, *q = NULL, *r = NULL;

        host_uids_set_directory(NULL);
        ASSERT_OK(prepare_test_pod(s, NULL, &p, &e));
        ASSERT_OK(prepare_test_pod(s, NULL, &r, &e));
        host_uids_set_directory(host.path);
        ASSERT_EQ(count_host_ranges(&host), 0);
        ASSERT_OK(pod_new(t, &q, &e));
        ASSERT_OK(link_range(&host, r->config.uid_base, q->uuid, store_path(t)));

        ASSERT_OK(pod_begin_run(p, &e));
        ASSERT_EQ(count_host_ranges(&host), 2);
        ASSERT_ERR(pod_begin_run(r, &e), -EUSERS);
        ASSERT_CONTAINS(e.message, r->uuid);
        ASSERT_CONTAINS(e.message, q->uuid);
        ASSERT_CONTAINS(e.message, store_path(t));
        ASSERT_CONTAINS(e.hint, "Prepare another pod");
        ASSERT_EQ(r->state, POD_PREPARED);
        pod_abandon(q);
        ASSERT_OK(pod_begin_run(r, &e)); /* it is free again */
        ASSERT_OK(pod_end_run(p, &e));
        ASSERT_OK(pod_end_run(r, &e));
}

TEST(directory_of_ranges_is_roots_alone)
{
        TWO_STORES(s, t);
        _cleanup_(pod_freep) Pod *p = NULL;

        ASSERT_OK(pod_new(s, &p, &e));
        ASSERT_OK(fchmod(host.fd, 0777));
        ASSERT_ERR(pod_allocate_uids(p, &e), -EPERM);
        ASSERT_CONTAINS(e.message, host.path);
        ASSERT_CONTAINS(e.hint, "chmod 0700");
        ASSERT_OK(fchmod(host.fd, 0700));
        ASSERT_OK(pod_allocate_uids(p, &e));
        pod_abandon(p);
}

TEST(ranges_are_exhausted)
{
        TWO_STORES(s, t);
        _cleanup_(pod_freep) Pod *p = NULL, *q = NULL;

        ASSERT_OK(pod_new(s, &p, &e));
        ASSERT_OK(pod_new(t, &q, &e));
        uint32_t free_one = first_free_base(p);
        ASSERT_OK(link_range(&host, 0x80000, q->uuid, store_path(t)));
        for (uint32_t base = 0x90000; base <= 0x6FFF0000; base += UID_RANGE_SIZE) {
                char other[16];
                snprintf(other, sizeof(other), "%u", base);
                ASSERT_OK(linkat(host.fd, "524288", host.fd, other, 0)); /* quicker than as many inodes */
        }
        ASSERT_ERR(pod_allocate_uids(p, &e), -ENOSPC);
        ASSERT_CONTAINS(e.message, "No range of 65536 uids is free for pod");
        ASSERT_CONTAINS(e.hint, "in each store of this host");
        ASSERT_EQ(count(s, "uids"), 0);
        char key[16];
        snprintf(key, sizeof(key), "%u", free_one);
        ASSERT_OK(unlinkat(host.fd, key, 0));
        ASSERT_OK(pod_allocate_uids(p, &e));
        ASSERT_EQ(p->config.uid_base, free_one);
        pod_abandon(p);
        pod_abandon(q);
}

TEST(subids)
{
        ASSERT_FALSE(subids_overlap(NULL, 0x80000));
        ASSERT_FALSE(subids_overlap("", 0x80000));
        ASSERT_TRUE(subids_overlap("a:524288:65536\n", 0x80000));
        ASSERT_FALSE(subids_overlap("a:524288:65536\n", 0x90000));
        ASSERT_TRUE(subids_overlap("a:1:1\nb:589823:1", 0x80000));
        ASSERT_FALSE(subids_overlap("a:589824:1", 0x80000));
        ASSERT_FALSE(subids_overlap("a:100000:424288", 0x80000));
        ASSERT_TRUE(subids_overlap("a:100000:424289", 0x80000));
        ASSERT_TRUE(subids_overlap("a:0:18446744073709551615", 0x80000));
        ASSERT_FALSE(subids_overlap("a:18446744073709551615:18446744073709551615", 0x80000));
        ASSERT_FALSE(subids_overlap("a:524288:0", 0x80000));
        ASSERT_FALSE(subids_overlap("524288:65536\na:b\n::\n:\n#a:524288:x\n\n", 0x80000));
}

/* A user in the middle of a range shares files and signals with its pod. */
TEST(users_of_the_host)
{
        ASSERT_FALSE(accounts_overlap(NULL, 0x80000));
        ASSERT_TRUE(accounts_overlap("root:x:0:0:root:/root:/bin/sh\na:x:524288:100::/:/bin/sh\n", 0x80000));
        ASSERT_TRUE(accounts_overlap("a:x:560000:100::/:/bin/sh", 0x80000));
        ASSERT_TRUE(accounts_overlap("a:x:589823:b,c\n", 0x80000));
        ASSERT_TRUE(accounts_overlap("a::589823", 0x80000));
        ASSERT_FALSE(accounts_overlap("a:x:589824:\nb:x:524287:\n", 0x80000));
        ASSERT_FALSE(accounts_overlap(
                        "a:560000:7:560000::/:/bin/sh\n560000\n::\n:\na:x:\nb:x:99999999999999999999:\n",
                        0x80000));
}

/* --- Names and references ------------------------------------------------------------------------------ */

TEST(name_check)
{
        static const char *const good[] = {"a", "web", "web-1", "1", "a.b", "a-b.c-d", "abcdef"};
        static const char *const bad[] = {
                        "",
                        ".",
                        "..",
                        "-a",
                        "a-",
                        "a..b",
                        ".a",
                        "a.",
                        "a-.b",
                        "a.-b",
                        "Web",
                        "a b",
                        "a/b",
                        "ä",
                        "a_b",
                        ".lock",
                        "01234567-89ab-cdef-0123-456789abcdef",
                        "a234567890123456789012345678901234567890123456789012345678901234",
        };
        _cleanup_error_ Error e = ERROR_NULL;

        for (size_t i = 0; i < ELEMENTSOF(good); i++)
                ASSERT_OK(pod_name_check(good[i], &e));
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                ASSERT_ERR(pod_name_check(bad[i], &e), -EINVAL);
        ASSERT_CONTAINS(e.message, "it is too long");
        ASSERT_ERR(pod_name_check("a\033b", &e), -EINVAL);
        ASSERT_NOT_CONTAINS(e.message, "\033");
        ASSERT_OK(hostname_check("Web.example.org", &e));
        ASSERT_ERR(hostname_check("web_1", &e), -EINVAL);
}

TEST(name_taken)
{
        STORE(s, dir);
        _cleanup_(pod_freep) Pod *p = NULL, *q = NULL;

        ASSERT_OK(prepare_test_pod(s, "web", &p, &e));
        ASSERT_OK(pod_new(s, &q, &e));
        ASSERT_ERR(pod_reserve_name(q, "web", &e), -EEXIST);
        ASSERT_CONTAINS(e.message, p->uuid);
        ASSERT_CONTAINS(e.message, "(prepared)");
        ASSERT_CONTAINS(e.hint, ": acnspawn rm web");
        ASSERT_NULL(q->config.name);
        ASSERT_OK(pod_reserve_name(q, "web2", &e));
        ASSERT_OK(pod_reserve_name(q, "web2", &e));
        ASSERT_OK(pod_reserve_name(q, "web3", &e));
        ASSERT_EQ(count(s, "names"), 2);
        ASSERT_OK(pod_remove(p, &e));
        ASSERT_OK(pod_reserve_name(q, "web", &e));
        ASSERT_EQ(count(s, "names"), 1);
}

/* --- Successors ---------------------------------------------------------------------------------------- */

/* A pod of that name that has ended, and one that is to be its successor. */
static int ended_and_next(Store *s, const char *name, Pod **ret_old, Pod **ret_new, Error *error)
{
        int r = prepare_test_pod(s, name, ret_old, error);
        if (r >= 0)
                r = pod_begin_run(*ret_old, error);
        if (r >= 0)
                r = pod_end_run(*ret_old, error);
        if (r >= 0)
                r = pod_new(s, ret_new, error);
        if (r >= 0)
                r = pod_allocate_uids(*ret_new, error);
        if (r < 0)
                return r;
        (*ret_new)->manifest = parse_test_manifest();
        (*ret_new)->config.name = name ? strdup(name) : NULL;
        return (*ret_new)->manifest ? 0 : -ENOMEM;
}

static bool has_name(Store *s, const char *uuid, const char *name)
{
        _cleanup_(pod_freep) Pod *p = NULL;

        return pod_open(s, uuid, &p, NULL) >= 0 && streq_ptr(p->config.name, name);
}

static bool is_of(Store *s, const char *name, const char *uuid)
{
        _cleanup_(pod_freep) Pod *p = NULL;

        return pod_open_by_name(s, name, &p, NULL) >= 0 ? streq_ptr(p->uuid, uuid) : !uuid;
}

/* The target of the link of the name "web"; two UUIDs while the name is being transferred. */
static size_t link_length(Store *s)
{
        char text[128];
        ssize_t n = readlinkat(store_fd(s), "names/web", text, sizeof(text));

        return n < 0 ? 0 : (size_t) n;
}

TEST(a_pod_that_stays_takes_its_name_back)
{
        STORE(s, dir);
        _cleanup_(pod_freep) Pod *p = NULL, *q = NULL;
        _cleanup_free_ char *garbage = NULL;

        ASSERT_OK(ended_and_next(s, "web", &p, &q, &e));
        ASSERT_OK(pod_place_path(p->uuid, POD_GARBAGE, &garbage));
        ASSERT_OK(mkdirat(store_fd(s), garbage, 0700)); /* keeps it from being moved */
        pod_drop_name(p);
        ASSERT_ERR(pod_remove(p, &e), -EEXIST);
        ASSERT_TRUE(is_of(s, "web", p->uuid));
        /* Not from another one, nor what it had not dropped. */
        pod_drop_name(p);
        ASSERT_OK(pod_reserve_name(q, "web", &e));
        ASSERT_ERR(pod_remove(p, &e), -EEXIST);
        ASSERT_TRUE(is_of(s, "web", q->uuid));
        pod_drop_name(p);
        pod_drop_name(q);
        pod_take_name_back(p);
        ASSERT_EQ(count(s, "names"), 0);
        ASSERT_OK(unlinkat(store_fd(s), garbage, AT_REMOVEDIR));
}

TEST(name_goes_to_the_successor)
{
        STORE(s, dir);
        _cleanup_(pod_freep) Pod *p = NULL, *q = NULL, *again = NULL;
        _cleanup_free_ char *uuid = NULL, *none = NULL;

        ASSERT_OK(ended_and_next(s, "web", &p, &q, &e));
        ASSERT_OK(pod_succeed(q, p, NULL, &e));
        /* Until it is published nothing has changed. */
        ASSERT_TRUE(is_of(s, "web", p->uuid));
        ASSERT_TRUE(has_name(s, p->uuid, "web"));
        ASSERT_OK(pod_successor(p, &none));
        ASSERT_NULL(none);
        ASSERT_EQ(link_length(s), 73);
        ASSERT_OK(pod_publish(q, &e));
        ASSERT_TRUE(is_of(s, "web", q->uuid));
        ASSERT_TRUE(has_name(s, p->uuid, NULL));
        ASSERT_TRUE(has_name(s, q->uuid, "web"));
        ASSERT_EQ(link_length(s), 36);
        ASSERT_OK(pod_open(s, p->uuid, &again, &e));
        ASSERT_STREQ(again->former_name, "web");
        ASSERT_OK(pod_successor(p, &uuid));
        ASSERT_STREQ(uuid, q->uuid);
        ASSERT_STREQ(q->config.predecessor, p->uuid);
        /* Neither takes from the other what it has. */
        ASSERT_OK(pod_remove(p, &e));
        ASSERT_TRUE(is_of(s, "web", q->uuid));
        ASSERT_OK(pod_remove(q, &e));
        ASSERT_EQ(count(s, "names"), 0);
        ASSERT_TRUE(is_clean(s));
}

TEST(abandoned_successor_leaves_the_name)
{
        STORE(s, dir);
        _cleanup_(pod_freep) Pod *p = NULL, *q = NULL;
        _cleanup_free_ char *uuid = NULL;

        ASSERT_OK(ended_and_next(s, "web", &p, &q, &e));
        ASSERT_OK(pod_succeed(q, p, NULL, &e));
        pod_abandon(q);
        ASSERT_TRUE(is_of(s, "web", p->uuid));
        ASSERT_TRUE(has_name(s, p->uuid, "web"));
        ASSERT_EQ(link_length(s), 36);
        ASSERT_OK(pod_successor(p, &uuid));
        ASSERT_NULL(uuid);
        ASSERT_OK(pod_remove(p, &e));
        ASSERT_EQ(count(s, "names"), 0);
}

/* Its process was killed: its lock was released, and nothing was cleaned up. */
TEST(killed_successor_leaves_the_name)
{
        STORE(s, dir);
        _cleanup_(pod_freep) Pod *p = NULL, *q = NULL, *third = NULL;

        ASSERT_OK(ended_and_next(s, "web", &p, &q, &e));
        ASSERT_OK(pod_succeed(q, p, NULL, &e));
        q = pod_free(q);
        ASSERT_TRUE(is_of(s, "web", p->uuid));
        ASSERT_EQ(link_length(s), 73);
        ASSERT_OK(symlinkat("half", store_fd(s), "names/.next"));
        /* Another one may try, */
        ASSERT_OK(pod_new(s, &third, &e));
        ASSERT_OK(pod_allocate_uids(third, &e));
        third->manifest = parse_test_manifest();
        third->config.name = strdup("web");
        ASSERT_OK(pod_succeed(third, p, NULL, &e));
        ASSERT_OK(pod_publish(third, &e));
        ASSERT_TRUE(is_of(s, "web", third->uuid));
        ASSERT_OK(pod_remove(third, &e));
        ASSERT_OK(pod_remove(p, &e));
        ASSERT_OK(store_gc(s, &gc_everything, &e));
        ASSERT_EQ(count(s, "names"), 0);
}

/* ... or the old one is removed while the link is about both. */
TEST(removed_while_the_name_changes_hands)
{
        for (unsigned published = 0; published < 2; published++) {
                STORE(s, dir);
                _cleanup_(pod_freep) Pod *p = NULL, *q = NULL;
                _cleanup_free_ char *both = NULL;

                ASSERT_OK(ended_and_next(s, "web", &p, &q, &e));
                ASSERT_OK(pod_succeed(q, p, NULL, &e));
                ASSERT_OK(xasprintf(&both, "%s %s", q->uuid, p->uuid));
                if (published) { /* but killed before the link was settled */
                        ASSERT_OK(pod_publish(q, &e));
                        ASSERT_OK(unlinkat(store_fd(s), "names/web", 0));
                        ASSERT_OK(symlinkat(both, store_fd(s), "names/web"));
                        ASSERT_TRUE(is_of(s, "web", q->uuid));
                        ASSERT_TRUE(has_name(s, q->uuid, "web"));
                }
                ASSERT_OK(pod_load(p, NULL));
                ASSERT_OK(pod_remove(p, &e));
                ASSERT_TRUE(is_of(s, "web", published ? q->uuid : NULL));
                pod_abandon(q);
                ASSERT_OK(store_gc(s, &gc_everything, &e));
                ASSERT_EQ(count(s, "names"), 0);
        }
}

TEST(name_goes_back)
{
        STORE(s, dir);
        _cleanup_(pod_freep) Pod *p = NULL, *q = NULL;

        ASSERT_OK(ended_and_next(s, "web", &p, &q, &e));
        ASSERT_OK(pod_succeed(q, p, NULL, &e));
        ASSERT_OK(pod_publish(q, &e));
        pod_return_name(q);
        ASSERT_TRUE(is_of(s, "web", p->uuid));
        ASSERT_TRUE(has_name(s, p->uuid, "web"));
        ASSERT_EQ(link_length(s), 36);
        ASSERT_OK(pod_remove(q, &e));
        ASSERT_TRUE(is_of(s, "web", p->uuid));
        ASSERT_OK(pod_remove(p, &e));
        ASSERT_EQ(count(s, "names"), 0);
}

/* P1 was run again as P2, and then as P3, which has its name from P2. */
TEST(name_goes_back_to_its_holder)
{
        STORE(s, dir);
        _cleanup_(pod_freep) Pod *p1 = NULL, *p2 = NULL, *p3 = NULL, *again = NULL;

        ASSERT_OK(ended_and_next(s, "web", &p1, &p2, &e));
        ASSERT_OK(pod_succeed(p2, p1, NULL, &e));
        ASSERT_OK(pod_publish(p2, &e));
        ASSERT_OK(pod_begin_run(p2, &e));
        ASSERT_OK(pod_end_run(p2, &e));
        ASSERT_OK(pod_new(s, &p3, &e));
        ASSERT_OK(pod_allocate_uids(p3, &e));
        p3->manifest = parse_test_manifest();
        p3->config.name = strdup("web");
        ASSERT_OK(pod_succeed(p3, p1, p2, &e));
        ASSERT_OK(pod_publish(p3, &e));
        ASSERT_TRUE(is_of(s, "web", p3->uuid));
        ASSERT_OK(pod_open(s, p3->uuid, &again, &e));
        ASSERT_STREQ(again->config.predecessor, p1->uuid);
        ASSERT_STREQ(again->config.name_from, p2->uuid);
        pod_return_name(again);
        ASSERT_TRUE(is_of(s, "web", p2->uuid));
        ASSERT_EQ(link_length(s), 36);
}

TEST(succession_is_refused)
{
        STORE(s, dir);
        _cleanup_(pod_freep) Pod *p = NULL, *q = NULL, *third = NULL, *look = NULL;

        ASSERT_OK(ended_and_next(s, "web", &p, &q, &e));
        ASSERT_OK(pod_open(s, p->uuid, &look, &e));
        ASSERT_OK(prepare_test_pod(s, "other", &third, &e));
        ASSERT_ERR(pod_succeed(q, third, NULL, &e), -EINVAL); /* it has not ended */
        ASSERT_OK(pod_successor_check(p, look, &e));
        ASSERT_OK(pod_succeed(q, p, NULL, &e));
        ASSERT_OK(pod_publish(q, &e));
        ASSERT_OK(pod_load(p, NULL));
        ASSERT_ERR(pod_successor_check(p, look, &e), -EBUSY);
        ASSERT_CONTAINS(e.message, "Pod web was run again already, as pod");
        ASSERT_CONTAINS(e.message, "which is prepared");
        ASSERT_CONTAINS(e.hint, "'acnspawn run ");
        /* Nor may one that has lost the name hand it on. */
        third = pod_free(third);
        ASSERT_OK(pod_new(s, &third, &e));
        free(p->config.name);
        p->config.name = strdup("web");
        ASSERT_ERR(pod_succeed(third, p, NULL, &e), -EBUSY);
        ASSERT_CONTAINS(e.message, "The name 'web' belongs to another pod now");
        pod_abandon(third);
        ASSERT_TRUE(is_of(s, "web", q->uuid));
}

TEST(damaged_links_have_no_owner)
{
        static const char *const targets[] = {
                        "", "x", "01234567-89ab-cdef-0123-456789abcdef x",
                        "01234567-89ab-cdef-0123-456789abcdef/01234567-89ab-cdef-0123-456789abcdef",
                        "01234567-89ab-cdef-0123-456789abcdef 01234567-89ab-cdef-0123-456789abcdeg"};
        STORE(s, dir);

        for (size_t i = 0; i < ELEMENTSOF(targets); i++) {
                _cleanup_(pod_freep) Pod *p = NULL;

                if (targets[i][0])
                        ASSERT_OK(symlinkat(targets[i], store_fd(s), "names/web"));
                ASSERT_TRUE(is_of(s, "web", NULL));
                ASSERT_OK(prepare_test_pod(s, "web", &p, &e));
                ASSERT_TRUE(is_of(s, "web", p->uuid));
                ASSERT_OK(pod_remove(p, &e));
        }
}

TEST(find)
{
        STORE(s, dir);
        _cleanup_(pod_freep) Pod *p = NULL, *q = NULL;
        char prefix[37];

        ASSERT_ERR(pod_find(s, "web", &q, &e), -ENOENT);
        ASSERT_CONTAINS(e.message, "There is no pod 'web'");
        ASSERT_CONTAINS(e.hint, "acnspawn list");
        ASSERT_ERR(pod_find(s, "", &q, &e), -ENOENT);
        ASSERT_ERR(pod_find(s, "01234567-89ab-cdef-0123-456789abcdef", &q, &e), -ENOENT);
        ASSERT_ERR(pod_find(s, "../running", &q, &e), -ENOENT);
        ASSERT_ERR(pod_find(s, "a\nb", &q, &e), -ENOENT);
        ASSERT_NOT_CONTAINS(e.message, "\n");

        ASSERT_OK(prepare_test_pod(s, "webserver", &p, &e));
        for (size_t n = 1; n < 37; n++) {
                snprintf(prefix, sizeof(prefix), "%.*s", (int) n, p->uuid);
                ASSERT_OK(pod_find(s, prefix, &q, &e));
                ASSERT_STREQ(q->uuid, p->uuid);
                q = pod_free(q);
        }
        for (char *c = prefix; *c; c++)
                *c = *c >= 'a' && *c <= 'f' ? (char) (*c - 32) : *c;
        ASSERT_OK(pod_find(s, prefix, &q, &e));
        ASSERT_STREQ(q->uuid, p->uuid);
        q = pod_free(q);
        ASSERT_OK(pod_find(s, "webserver", &q, &e));
        q = pod_free(q);
        ASSERT_ERR(pod_find(s, "webs", &q, &e), -ENOENT);
        ASSERT_CONTAINS(e.hint, "webserver");
        ASSERT_NULL(q);
}

/* Makes a pod directory of a given UUID. */
static int make_pod_directory(Store *s, const char *place, const char *uuid)
{
        _cleanup_free_ char *path = NULL;

        int r = xasprintf(&path, "%s/%s", place, uuid);
        return r < 0 ? r : mkdirat(store_fd(s), path, 0755) < 0 ? -errno : 0;
}

TEST(find_ambiguous)
{
        STORE(s, dir);
        _cleanup_(pod_freep) Pod *p = NULL;

        ASSERT_OK(make_pod_directory(s, "pods/prepared", "01234567-89ab-4def-8123-456789abcdef"));
        ASSERT_OK(make_pod_directory(s, "pods/exited", "0123cdef-89ab-4def-8123-456789abcdef"));
        ASSERT_OK(make_pod_directory(s, "pods/exited", "not-a-pod"));
        ASSERT_ERR(pod_find(s, "0123", &p, &e), -ENOTUNIQ);
        ASSERT_CONTAINS(e.message, "01234567-89ab-4def-8123-456789abcdef (prepared)");
        ASSERT_CONTAINS(e.message, "0123cdef-89ab-4def-8123-456789abcdef (exited)");
        ASSERT_OK(pod_find(s, "01234", &p, &e));
        ASSERT_EQ(p->state, POD_PREPARED);
        p = pod_free(p);
        ASSERT_OK(pod_find(s, "0123C", &p, &e));
        ASSERT_EQ(p->state, POD_EXITED);
}

/* Each of them is open as long as the list is there. */
TEST(more_pods_than_descriptors)
{
        STORE(s, dir);
        struct rlimit before, few;
        Pod **l = NULL;
        size_t n = 0;

        for (unsigned i = 0; i < 300; i++) {
                char uuid[64];

                snprintf(uuid, sizeof(uuid), "%08x-89ab-4def-8123-456789abcdef", i);
                ASSERT_OK(make_pod_directory(s, "pods/exited", uuid));
        }
        ASSERT_OK(getrlimit(RLIMIT_NOFILE, &before));
        few = (struct rlimit){.rlim_cur = 64, .rlim_max = before.rlim_max};
        ASSERT_OK(setrlimit(RLIMIT_NOFILE, &few));
        int r = pod_list(s, &l, &n, &e);
        pod_list_free(l, n);
        ASSERT_OK(setrlimit(RLIMIT_NOFILE, &before));
        ASSERT_OK(r);
        ASSERT_EQ(n, 300U);
}

/* --- What is written ----------------------------------------------------------------------------------- */

#define CONFIG(uid, more)                                                                                   \
        "{\"name\":null,\"hostname\":\"h\",\"uidBase\":" uid ",\"privateUsers\":true,\"net\":\"none\","     \
        "\"strict\":false,\"exitPolicy\":\"any\",\"stopTimeoutUSec\":18446744073709551615,\"createdUSec\":" \
        "5,\"stage1\":"                                                                                     \
        "null" more "}"

static int parse_config(const char *text, PodConfig *ret, Error *e)
{
        return pod_config_parse(text, strlen(text), ret, e);
}

TEST(config)
{
        _cleanup_(pod_config_done) PodConfig c = {}, again = {};
        _cleanup_free_ char *text = NULL, *text2 = NULL;
        _cleanup_error_ Error e = ERROR_NULL;

        ASSERT_OK(parse_config(CONFIG("524288", ""), &c, &e));
        ASSERT_NULL(c.name);
        ASSERT_STREQ(c.hostname, "h");
        ASSERT_EQ(c.uid_base, 524288);
        ASSERT_EQ(pod_n_uids(&c), 65536);
        ASSERT_EQ(c.stop_timeout_usec, UINT64_MAX);
        ASSERT_EQ(c.exit_policy, EXIT_ON_ANY);
        ASSERT_EQ(c.capabilities, UINT64_C(0));
        c.capabilities = UINT64_C(1) << 40;
        c.name = strdup("web");
        c.stage1 = strdup("/usr/lib/\"x\"/ä");
        ASSERT_OK(strv_extend(&c.dns, "192.0.2.1"));
        ASSERT_OK(strv_extend(&c.hosts_entries, "192.0.2.1=a,b"));
        ASSERT_OK(pod_config_format(&c, &text, &e));
        ASSERT_OK(parse_config(text, &again, &e));
        ASSERT_STREQ(again.stage1, c.stage1);
        ASSERT_STREQ(again.name, "web");
        ASSERT_EQ(again.capabilities, UINT64_C(1) << 40);
        ASSERT_STREQ(again.dns[0], "192.0.2.1");
        ASSERT_STREQ(again.hosts_entries[0], "192.0.2.1=a,b");
        ASSERT_NULL(again.dns_search);
        ASSERT_TRUE(again.private_users);
        ASSERT_OK(pod_config_format(&again, &text2, &e));
        ASSERT_STREQ(text, text2);
}

TEST(config_with_users_of_any_start)
{
        _cleanup_(pod_config_done) PodConfig c = {}, again = {};
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_free_ char *text = NULL;

        ASSERT_OK(parse_config(CONFIG("1000", ",\"uidCount\":100000"), &c, &e));
        ASSERT_EQ(pod_n_uids(&c), 100000);
        ASSERT_OK(pod_config_format(&c, &text, &e));
        ASSERT_OK(parse_config(text, &again, &e));
        ASSERT_EQ(again.uid_base, 1000);
        ASSERT_EQ(pod_n_uids(&again), 100000);
        ASSERT_CONTAINS(text, "\"uidCount\"");
}

/* Versions that do not know the number of users refuse a pod that has it, so only those that need it do. */
TEST(config_without_a_number_of_users)
{
        _cleanup_(pod_config_done) PodConfig c = {};
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_free_ char *text = NULL;

        ASSERT_OK(parse_config(CONFIG("524288", ""), &c, &e));
        ASSERT_OK(pod_config_format(&c, &text, &e));
        ASSERT_NOT_CONTAINS(text, "uidCount");
}

TEST(config_refused)
{
        static const struct {
                const char *text, *why;
        } cases[] = {
                        {"", ""},
                        {"[]", "it is not a JSON object"},
                        {"{}", "'name' is missing"},
                        {CONFIG("524289", ""), "is not the base of a range"},
                        {CONFIG("0", ""), "is not the base of a range"},
                        {CONFIG("524288", ",\"uidRanges\":257"), "is not the base of a range"},
                        {CONFIG("524288", ",\"uidCount\":16777217"), "is not the base of a range"},
                        {CONFIG("4294901759", ",\"uidCount\":2"), "is not the base of a range"},
                        {CONFIG("4295491584", ""), "'uidBase' cannot be"},
                        {CONFIG("-1", ""), "'uidBase' cannot be -1"},
                        {CONFIG("\"524288\"", ""), "'uidBase' cannot be"},
                        {CONFIG("524288", ",\"extra\":1"), "unknown member 'extra'"},
                        {CONFIG("524288", ",\"dns\":[\"x\"]"), "'x' is not a valid IP address"},
                        {CONFIG("524288", ",\"hostsEntries\":[1]"), "'hostsEntries' cannot be"},
                        {CONFIG("524288", ",\"owner\":\"cri\""), "owner and bootID are given together"},
                        {CONFIG("524288", ",\"owner\":\"C I\",\"bootID\":\"x\""), "owner is not an AC name"},
                        {CONFIG("524288", ",\"cgroupParent\":\"a\""), "is not an absolute path"},
                        {CONFIG("524288", ",\"name\":\"a\""), ""},
                        {CONFIG("524288", "") "x", ""},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(pod_config_done) PodConfig c = {};
                _cleanup_error_ Error e = ERROR_NULL;

                ASSERT_TRUE(parse_config(cases[i].text, &c, &e) < 0);
                ASSERT_CONTAINS(e.message, cases[i].why);
        }
}

/* A prepared pod of the owner "cri" that has data, made in boot BOOT of the host (NULL: this one). */
static int prepare_owned_pod(Store *s, const char *boot, Pod **ret, Error *e)
{
        const OwnerData data = {.data = (char *) "a\0b", .size = 3};
        _cleanup_(pod_freep) Pod *p = NULL;

        int r = pod_new(s, &p, e);
        if (r >= 0)
                r = pod_set_owner(p, "cri", e);
        if (r >= 0 && boot) {
                free(p->config.boot_id);
                p->config.boot_id = strdup(boot);
        }
        if (r >= 0)
                r = pod_allocate_uids(p, e);
        if (r >= 0)
                r = pod_owner_data_write(p, NULL, &data, e);
        if (r < 0)
                return r;
        p->manifest = parse_test_manifest();
        r = pod_publish(p, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(p);
        return 0;
}

TEST(owner_removes_its_pods)
{
        STORE(s, dir);
        _cleanup_(pod_freep) Pod *p = NULL, *again = NULL;
        char uuid[UUID_TEXT_SIZE];

        ASSERT_OK(prepare_owned_pod(s, NULL, &p, &e));
        strcpy(uuid, p->uuid);
        p = pod_free(p);
        ASSERT_OK(store_gc(s, &gc_everything, &e)); /* it is prepared */
        ASSERT_OK(pod_open(s, uuid, &p, &e));
        ASSERT_STREQ(p->config.owner, "cri");
        ASSERT_FALSE(pod_is_of_former_boot(p));
        ASSERT_OK(pod_begin_run(p, &e));
        ASSERT_OK(pod_sync_run(p, &e));
        ASSERT_OK(pod_end_run(p, &e));
        p = pod_free(p);
        ASSERT_OK(store_gc(s, &gc_everything, &e)); /* it has ended */
        ASSERT_OK(store_prune(s, &(PruneOptions){.parts = PRUNE_PODS}, &e));
        ASSERT_OK(pod_open(s, uuid, &again, &e));
        ASSERT_EQ(again->state, POD_EXITED);
        ASSERT_OK(pod_remove(again, &e));
}

/* A pod of an earlier boot; it has run if RUNS. */
static int make_former(Store *s, bool runs, Pod **ret, Error *e)
{
        static const char boot[] = "00000000-0000-4000-8000-000000000000";
        int r = prepare_owned_pod(s, boot, ret, e);

        if (r >= 0 && (unlinkat((*ret)->dir_fd, "owner-boot", 0) < 0 ||
                       symlinkat(boot, (*ret)->dir_fd, "owner-boot") < 0))
                r = -errno;
        if (r >= 0 && runs)
                r = pod_begin_run(*ret, e);
        if (r >= 0 && runs)
                r = store_gc(s, &gc_careful, e); /* must keep it: it is locked */
        return r < 0 || !runs ? r : pod_end_run(*ret, e);
}

TEST(owned_pods_of_a_former_boot_are_collected)
{
        static const char *const empty[] = {NULL, "config", "pod"}; /* truncated by a loss of power */

        for (unsigned i = 0; i < ELEMENTSOF(empty); i++) {
                STORE(s, dir);
                _cleanup_(pod_freep) Pod *p = NULL;

                ASSERT_OK(make_former(s, i > 0, &p, &e));
                ASSERT_TRUE(pod_is_of_former_boot(p));
                if (empty[i])
                        ASSERT_OK(close(openat(p->dir_fd, empty[i], O_WRONLY | O_TRUNC)));
                p = pod_free(p);
                ASSERT_OK(store_gc(s, &gc_careful, &e));
                ASSERT_TRUE(is_clean(s));
        }
}

/* The disk fails for a while: this is no loss of power, and the owner of the pod may not be known. */
TEST(unreadable_pods_of_a_former_boot_are_kept)
{
        static const char *const unreadable[] = {"config", "pod"};

        for (unsigned i = 0; i < ELEMENTSOF(unreadable); i++) {
                STORE(s, dir);
                _cleanup_(pod_freep) Pod *p = NULL;
                char uuid[UUID_TEXT_SIZE];

                ASSERT_OK(make_former(s, true, &p, &e));
                strcpy(uuid, p->uuid);
                ASSERT_OK(renameat(p->dir_fd, unreadable[i], p->dir_fd, "whole"));
                ASSERT_OK(symlinkat(unreadable[i], p->dir_fd, unreadable[i]));
                p = pod_free(p);
                ASSERT_ERR(store_gc(s, &gc_everything, &e), -ELOOP);
                ASSERT_ERR(store_prune(s, &(PruneOptions){.parts = PRUNE_PODS}, &e), -ELOOP);
                ASSERT_OK(pod_open(s, uuid, &p, &e));
                ASSERT_TRUE(p->unreadable && p->state == POD_EXITED);
                ASSERT_OK(renameat(p->dir_fd, "whole", p->dir_fd, unreadable[i]));
                ASSERT_OK(pod_load(p, &e));
                ASSERT_FALSE(p->unreadable);
                p = pod_free(p);
                ASSERT_OK(store_gc(s, &gc_everything, &e));
                ASSERT_OK(pod_open(s, uuid, &p, &e));
        }
}

/* The owner may read the exit status of its apps. */
TEST(an_owner_keeps_its_pods_of_a_former_boot)
{
        STORE(s, dir);
        _cleanup_(pod_freep) Pod *p = NULL;

        ASSERT_OK(make_former(s, true, &p, &e));
        char uuid[UUID_TEXT_SIZE];
        strcpy(uuid, p->uuid);
        p = pod_free(p);
        ASSERT_OK(store_gc(s, &gc_everything, &e));
        ASSERT_OK(pod_open(s, uuid, &p, &e));
        ASSERT_TRUE(p->state == POD_EXITED && pod_is_of_former_boot(p));
        ASSERT_OK(pod_remove(p, &e));
}

/* Other pods can take its name and users before it is removed. */
TEST(a_pod_gives_up_what_others_need)
{
        STORE(s, dir);
        _cleanup_(pod_freep) Pod *p = NULL, *q = NULL, *again = NULL;

        ASSERT_OK(pod_new(s, &p, &e));
        ASSERT_OK(pod_reserve_name(p, "web", &e));
        ASSERT_OK(pod_take_uids(p, 0x70000000, 0x20000, &e));
        ASSERT_OK(pod_new(s, &q, &e));
        ASSERT_EQ(pod_reserve_name(q, "web", NULL), -EEXIST);
        ASSERT_EQ(pod_take_uids(q, 0x70010000, 0x10000, NULL), -EUSERS);
        ASSERT_EQ(pod_drop_keys(p), (size_t) 3);
        ASSERT_EQ(pod_drop_keys(p), (size_t) 0);
        ASSERT_OK(pod_reserve_name(q, "web", &e));
        ASSERT_OK(pod_take_uids(q, 0x70010000, 0x10000, &e));
        pod_abandon(p); /* does not release the name and users of Q */
        ASSERT_OK(pod_new(s, &again, &e));
        ASSERT_EQ(pod_reserve_name(again, "web", NULL), -EEXIST);
        ASSERT_EQ(pod_take_uids(again, 0x70010000, 0x10000, NULL), -EUSERS);
        pod_abandon(again);
        pod_abandon(q);
}

TEST(data_of_the_owner)
{
        STORE(s, dir);
        _cleanup_(pod_freep) Pod *p = NULL;
        OwnerData d = {}, none = {}, large = {.data = (char *) "", .size = OWNER_DATA_SIZE_MAX + 1};

        ASSERT_OK(prepare_owned_pod(s, NULL, &p, &e));
        ASSERT_OK(pod_owner_data_read(p, NULL, &d, &e));
        ASSERT_EQ(d.size, 3);
        ASSERT_EQ(memcmp(d.data, "a\0b", 4), 0);
        free(d.data);
        struct stat before, after;
        const OwnerData other = {.data = (char *) "others", .size = 6};
        const struct timespec times[] = {{.tv_sec = 1}, {.tv_sec = 2, .tv_nsec = 3}};
        ASSERT_EQ(utimensat(p->dir_fd, "owner-data", times, 0), 0);
        ASSERT_EQ(fstatat(p->dir_fd, "owner-data", &before, 0), 0);
        ASSERT_OK(pod_owner_data_replace(p, NULL, &other, &e));
        ASSERT_EQ(fstatat(p->dir_fd, "owner-data", &after, 0), 0);
        ASSERT_TRUE(before.st_ino != after.st_ino);
        ASSERT_EQ(after.st_mtim.tv_nsec, 3);
        ASSERT_OK(pod_owner_data_read(p, NULL, &d, &e));
        ASSERT_EQ(d.size, 6);
        ASSERT_EQ(memcmp(d.data, "others", 7), 0);
        free(d.data);
        ASSERT_ERR(pod_owner_data_replace(p, NULL, &large, &e), -E2BIG);
        error_done(&e);
        ASSERT_OK(pod_owner_data_write(p, NULL, &none, &e));
        ASSERT_ERR(pod_owner_data_write(p, NULL, &large, &e), -E2BIG);
        ASSERT_CONTAINS(e.message, "larger than 262144 bytes");
        error_done(&e);
        ASSERT_OK(unlinkat(p->dir_fd, "owner-data", 0));
        ASSERT_ERR(pod_owner_data_read(p, NULL, &d, &e), -ENOENT);
        ASSERT_CONTAINS(e.message, p->uuid);
        error_done(&e);
        ASSERT_ERR(pod_owner_data_replace(p, NULL, &other, &e), -ENOENT);
        error_done(&e);
        ASSERT_OK(mkdirat(p->dir_fd, "apps", 0755));
        ASSERT_OK(mkdirat(p->dir_fd, "apps/web", 0755));
        const OwnerData own = {.data = (char *) "app", .size = 3};
        ASSERT_OK(pod_owner_data_write(p, p->manifest->apps[0], &own, &e));
        ASSERT_OK(pod_owner_data_read(p, p->manifest->apps[0], &d, &e));
        ASSERT_EQ(memcmp(d.data, "app", 4), 0);
        free(d.data);
}

TEST(cgroup_parents)
{
        static const char *const good[] = {"/kubepods/burstable/pod1", "/kubepods.slice/kubepods-pod1.slice",
                                           "/a//b/"};
        static const char *const bad[] = {"", "/", "a/b", "/a/../b", "/a/.", "/a b", "/a\n"};

        for (size_t i = 0; i < ELEMENTSOF(good); i++)
                ASSERT_OK(pod_cgroup_parent_check(good[i], NULL));
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                _cleanup_error_ Error e = ERROR_NULL;
                ASSERT_ERR(pod_cgroup_parent_check(bad[i], &e), -EINVAL);
                ASSERT_CONTAINS(e.message, "the cgroup parent '");
        }
}

/* A pod whose files are damaged can be seen and removed, but not run. */
TEST(damaged)
{
        static const char *const files[] = {"config", "pod"};

        for (size_t i = 0; i < ELEMENTSOF(files); i++) {
                STORE(s, dir);
                _cleanup_(pod_freep) Pod *p = NULL;
                Pod **l = NULL;
                size_t n = 0;

                ASSERT_OK(prepare_test_pod(s, "web", &p, &e));
                ASSERT_OK(write_file_atomic_at(p->dir_fd, files[i], "{", 1, 0600, false));
                p = pod_free(p);
                ASSERT_OK(pod_list(s, &l, &n, &e));
                pod_list_free(l, n);
                ASSERT_EQ(n, 1);
                ASSERT_OK(pod_find(s, "web", &p, &e));
                ASSERT_EQ(p->state, POD_PREPARED);
                ASSERT_TRUE(pod_load(p, &e) < 0);
                ASSERT_CONTAINS(e.message, "is damaged");
                /* The name comes from the configuration, which may be the damaged file. */
                ASSERT_CONTAINS(e.message, p->config.name ?: p->uuid);
                if (i == 1)
                        ASSERT_ERR(pod_begin_run(p, &e), -EBADMSG);
                ASSERT_OK(pod_remove(p, &e));
                ASSERT_OK(store_gc(s, &gc_careful, &e)); /* whose name and uids cannot be known */
                ASSERT_TRUE(is_clean(s));
        }
}

/* --- Collecting ---------------------------------------------------------------------------------------- */

typedef struct Seen {
        char **removed;
        unsigned released;
        int fail; /* of pods that have ended */
} Seen;

static int release(Pod *p, void *userdata, Error *e)
{
        Seen *seen = userdata;

        seen->released++;
        if (seen->fail < 0 && p->state == POD_EXITED)
                return error_set(e, seen->fail, "Cannot release pod %s", p->uuid);
        return 0;
}

static void removed(const GcItem *item, void *userdata)
{
        _cleanup_free_ char *s = NULL;

        if (xasprintf(&s, "%s %s %s %s", item->kind, item->id, item->name ?: "-", item->state ?: "-") >= 0)
                (void) strv_extend(&((Seen *) userdata)->removed, s);
}

static int prepare_exited(Store *s, const char *name)
{
        _cleanup_(pod_freep) Pod *p = NULL;

        int r = prepare_test_pod(s, name, &p, NULL);
        if (r >= 0)
                r = pod_begin_run(p, NULL);
        return r < 0 ? r : pod_end_run(p, NULL);
}

TEST(gc_grace)
{
        STORE(s, dir);
        Seen seen = {};
        GcOptions o = {.grace_usec = USEC_HOUR,
                       .expire_prepared_usec = UINT64_MAX,
                       .release = release,
                       .removed = removed,
                       .userdata = &seen};

        _cleanup_(pod_freep) Pod *p = NULL;

        ASSERT_OK(prepare_exited(s, "web"));
        ASSERT_OK(store_gc(s, &o, &e));
        ASSERT_EQ(seen.released, 0);
        ASSERT_EQ(count(s, "pods/exited"), 1);
        /* Two hours ago. */
        char text[32];
        snprintf(text, sizeof(text), "%" PRIu64 "\n", (uint64_t) (now_usec(CLOCK_REALTIME) - 2 * USEC_HOUR));
        ASSERT_OK(pod_find(s, "web", &p, &e));
        ASSERT_OK(write_file_atomic_at(p->dir_fd, "ended", text, strlen(text), 0600, false));
        o.dry_run = true;
        ASSERT_OK(store_gc(s, &o, &e));
        ASSERT_EQ(strv_length(seen.removed), 1);
        ASSERT_CONTAINS(seen.removed[0], p->uuid);
        ASSERT_CONTAINS(seen.removed[0], " web exited");
        ASSERT_EQ(seen.released, 0);
        ASSERT_EQ(count(s, "pods/exited"), 1);
        o.dry_run = false;
        ASSERT_OK(store_gc(s, &o, &e));
        ASSERT_EQ(seen.released, 1);
        ASSERT_EQ(strv_length(seen.removed), 2);
        strv_free(seen.removed);
        ASSERT_TRUE(is_clean(s));
}

static void write_end(const Pod *p, uint64_t clock, const char *boot, uint64_t boot_time)
{
        char text[96];

        snprintf(text, sizeof(text), "%" PRIu64 "\n%s\n%" PRIu64 "\n", clock, boot, boot_time);
        ASSERT_OK(write_file_atomic_at(p->dir_fd, "ended", text, strlen(text), 0600, false));
}

/* The clock may have been set since: from 1970, or back. In the same boot its own clock tells the age; that of an end in another boot
 * is known only by a clock that can be right. */
TEST(gc_after_the_clock_was_set)
{
        static const char other[] = "00000000-0000-4000-8000-000000000000";
        const uint64_t second = 1000000U, clock = now_usec(CLOCK_REALTIME);
        const GcOptions o = {.grace_usec = USEC_HOUR, .expire_prepared_usec = UINT64_MAX};
        const uint64_t ends[] = {second, clock + 9 * USEC_HOUR, clock - 9 * USEC_HOUR};
        _cleanup_free_ char *boot = NULL;
        _cleanup_(pod_freep) Pod *p = NULL;
        STORE(s, dir);

        ASSERT_OK(read_boot_id(&boot));
        ASSERT_OK(prepare_exited(s, "web"));
        ASSERT_OK(pod_find(s, "web", &p, &e));
        ASSERT_LE(pod_ended_age_usec(p), 60 * second);
        for (size_t i = 0; i < ELEMENTSOF(ends); i++) {
                write_end(p, ends[i], boot, now_usec(CLOCK_BOOTTIME) - second);
                ASSERT_LE(second, pod_ended_age_usec(p));
                ASSERT_LE(pod_ended_age_usec(p), 60 * second);
                ASSERT_OK(store_gc(s, &o, &e));
                ASSERT_EQ(count(s, "pods/exited"), 1);
        }
        for (size_t i = 0; i < 2; i++) {
                uint64_t before = now_usec(CLOCK_BOOTTIME);

                write_end(p, ends[i], other, 0);
                ASSERT_LE(before, pod_ended_age_usec(p));
                ASSERT_LE(pod_ended_age_usec(p), before + 60 * second);
        }
        write_end(p, ends[2], other, 0);
        ASSERT_LE(9 * USEC_HOUR, pod_ended_age_usec(p));
        ASSERT_OK(store_gc(s, &o, &e));
        ASSERT_EQ(count(s, "pods/exited"), 0);
}

/* It may have been prepared just before the clock was set back. */
TEST(a_prepared_pod_of_the_future_is_new)
{
        STORE(s, dir);
        _cleanup_(pod_freep) Pod *p = NULL;

        ASSERT_OK(prepare_test_pod(s, "web", &p, &e));
        p->config.created_usec = now_usec(CLOCK_REALTIME) + USEC_HOUR;
        ASSERT_EQ(pod_created_age_usec(p), (uint64_t) 0);
        p->config.created_usec = now_usec(CLOCK_REALTIME) - USEC_HOUR;
        ASSERT_LE(USEC_HOUR, pod_created_age_usec(p));
}

/* Names that cannot be read are not "another pod has it now". */
TEST(gc_keeps_pods_of_units_when_names_cannot_be_read)
{
        STORE(s, dir);
        char *names[] = {(char *) "web", NULL};
        const KeptPods kept = {.names = names};
        const GcOptions o = {.kept = &kept};

        ASSERT_OK(prepare_exited(s, "web"));
        ASSERT_OK(renameat(store_fd(s), "names", store_fd(s), "elsewhere"));
        ASSERT_OK(symlinkat("names", store_fd(s), "names"));
        ASSERT_ERR(store_gc(s, &o, NULL), -ENOTDIR);
        ASSERT_EQ(count(s, "pods/exited"), 1);
        ASSERT_OK(unlinkat(store_fd(s), "names", 0));
        ASSERT_OK(renameat(store_fd(s), "elsewhere", store_fd(s), "names"));
        ASSERT_OK(store_gc(s, &o, &e));
        ASSERT_EQ(count(s, "pods/exited"), 1);
        ASSERT_OK(store_gc(s, &(GcOptions){}, &e));
        ASSERT_EQ(count(s, "pods/exited"), 0);
}

TEST(gc_prepared)
{
        STORE(s, dir);
        _cleanup_(pod_freep) Pod *p = NULL;
        GcOptions o = {.grace_usec = 0, .expire_prepared_usec = UINT64_MAX};

        ASSERT_OK(prepare_test_pod(s, "web", &p, &e));
        p = pod_free(p);
        ASSERT_OK(store_gc(s, &o, &e));
        ASSERT_EQ(count(s, "pods/prepared"), 1);
        o.expire_prepared_usec = USEC_HOUR;
        ASSERT_OK(store_gc(s, &o, &e));
        ASSERT_EQ(count(s, "pods/prepared"), 1);
        o.expire_prepared_usec = 0;
        ASSERT_OK(store_gc(s, &o, &e));
        ASSERT_TRUE(is_clean(s));
}

/* If resources outside of the store cannot be removed, their pod is kept; the others are removed
 * nevertheless. */
TEST(gc_failure)
{
        STORE(s, dir);
        Seen seen = {.fail = -EBUSY};
        GcOptions o = {.release = release, .removed = removed, .userdata = &seen};
        _cleanup_(pod_freep) Pod *p = NULL;

        ASSERT_OK(prepare_exited(s, "one"));
        ASSERT_OK(prepare_exited(s, "two"));
        ASSERT_OK(prepare_test_pod(s, "three", &p, &e));
        p = pod_free(p);
        ASSERT_ERR(store_gc(s, &o, &e), -EBUSY);
        ASSERT_CONTAINS(e.message, "Cannot release pod");
        ASSERT_EQ(seen.released, 3); /* every pod that is to go */
        ASSERT_EQ(count(s, "pods/exited"), 2);
        ASSERT_EQ(count(s, "pods/prepared"), 0);
        ASSERT_EQ(strv_length(seen.removed), 1);
        strv_free(seen.removed);
        seen = (Seen){};
        ASSERT_OK(store_gc(s, &o, &e));
        ASSERT_EQ(seen.released, 2);
        strv_free(seen.removed);
        ASSERT_TRUE(is_clean(s));
}

TEST(gc_rubbish)
{
        STORE(s, dir);
        Seen seen = {};
        GcOptions o = {.grace_usec = USEC_HOUR,
                       .expire_prepared_usec = UINT64_MAX,
                       .removed = removed,
                       .userdata = &seen};
        _cleanup_close_ int fd = -EBADF;

        ASSERT_OK(make_pod_directory(s, "pods/embryo", "01234567-89ab-4def-8123-456789abcdef"));
        ASSERT_OK(make_pod_directory(s, "pods/garbage", "11234567-89ab-4def-8123-456789abcdef"));
        ASSERT_OK(make_pod_directory(s, "pods/garbage/11234567-89ab-4def-8123-456789abcdef", "apps"));
        ASSERT_OK(make_pod_directory(s, "tmp", "dead"));
        ASSERT_OK(make_pod_directory(s, "tmp/dead", "rootfs"));
        ASSERT_OK(make_pod_directory(s, "tmp", "alive"));
        ASSERT_OK(scratch_file(&dir, "tmp/file", "x"));
        ASSERT_OK(scratch_symlink(&dir, "tmp/link", "/"));
        ASSERT_OK(mkfifoat(dir.fd, "tmp/fifo", 0600));
        ASSERT_OK(scratch_symlink(&dir, "names/ghost", "21234567-89ab-4def-8123-456789abcdef"));
        ASSERT_OK(scratch_symlink(&dir, "names/strange", "../../etc/passwd"));
        ASSERT_OK(scratch_symlink(&dir, "uids/524288", "21234567-89ab-4def-8123-456789abcdef"));
        fd = openat(dir.fd, "tmp/alive", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ASSERT_OK(flock(fd, LOCK_EX | LOCK_NB));

        o.dry_run = true;
        ASSERT_OK(store_gc(s, &o, &e));
        ASSERT_EQ(count(s, "tmp"), 5);
        ASSERT_EQ(count(s, "names"), 2);
        o.dry_run = false;
        seen.removed = strv_free(seen.removed);
        ASSERT_OK(store_gc(s, &o, &e));
        ASSERT_EQ(count(s, "tmp"), 1);
        ASSERT_EQ(strv_length(seen.removed), 9);
        ASSERT_TRUE(strv_contains(seen.removed, "name ghost - -"));
        ASSERT_TRUE(strv_contains(seen.removed, "uids 524288 - -"));
        ASSERT_TRUE(strv_contains(seen.removed, "image dead - unfinished"));
        strv_free(seen.removed);
        ASSERT_OK(flock(fd, LOCK_UN));
        ASSERT_OK(store_gc(s, &gc_careful, &e));
        ASSERT_TRUE(is_clean(s));
}

/* A pod that cannot be removed now is removed later, and keeps its identity until then. */
TEST(removal_is_repeated)
{
        STORE(s, dir);
        _cleanup_(pod_freep) Pod *p = NULL;

        if (geteuid() == 0)
                TEST_SKIP("root can remove everything");
        ASSERT_OK(prepare_exited(s, "web"));
        ASSERT_OK(pod_find(s, "web", &p, &e));
        ASSERT_OK(mkdirat(p->dir_fd, "stuck", 0700));
        ASSERT_OK(mkdirat(p->dir_fd, "stuck/x", 0700));
        ASSERT_OK(fchmodat(p->dir_fd, "stuck", 0500, 0));
        ASSERT_ERR(pod_remove(p, &e), -EACCES);
        ASSERT_CONTAINS(e.message, "'stuck'");
        ASSERT_EQ(count(s, "pods/garbage"), 1);
        ASSERT_TRUE(faccessat(p->dir_fd, "pod", F_OK, 0) == 0);
        ASSERT_EQ(count(s, "names"), 0);
        ASSERT_EQ(count(s, "uids"), 1); /* there are files left that have them */
        ASSERT_OK(fchmodat(p->dir_fd, "stuck", 0700, 0));
        p = pod_free(p);
        ASSERT_OK(store_gc(s, &gc_careful, &e));
        ASSERT_TRUE(is_clean(s));
}

int main(void)
{
        RUN(words);
        RUN(life);
        RUN(wrong_moments);
        RUN(late_starter);
        RUN(publish_without_manifest_removes);
        RUN(publish_invalid_manifest_removes);
        RUN(published_modes);
        RUN(lock_is_inherited);
        RUN(removal_waits_for_those_that_look);
        RUN(removal_waits_for_another_removal);
        RUN(killed_while_preparing);
        RUN(killed_while_running);
        RUN(killed_while_running_then_removed);
        RUN(killed_at_every_step);
        RUN(collected_all_the_time);
        RUN(listed_all_the_time);
        RUN(one_of_many_begins);
        RUN(one_of_many_gets_a_name);
        RUN(ranges_are_disjoint);
        RUN(uid_bases);
        RUN(taken_range_is_skipped);
        RUN(journal_is_linked_while_the_pod_exists);
        RUN(ranges_of_two_stores_are_disjoint);
        RUN(range_of_another_store_is_skipped);
        RUN(chosen_range);
        RUN(chosen_ranges);
        RUN(chosen_ranges_of_any_start_and_length);
        RUN(first_block_of_a_missing_store_is_free);
        RUN(stale_range_is_taken);
        RUN(range_is_that_of_a_container_while_it_is_locked);
        RUN(ranges_of_killed_processes_are_collected);
        RUN(range_is_claimed_when_a_pod_starts);
        RUN(directory_of_ranges_is_roots_alone);
        RUN(ranges_are_exhausted);
        RUN(subids);
        RUN(users_of_the_host);
        RUN(name_check);
        RUN(name_taken);
        RUN(a_pod_that_stays_takes_its_name_back);
        RUN(name_goes_to_the_successor);
        RUN(abandoned_successor_leaves_the_name);
        RUN(killed_successor_leaves_the_name);
        RUN(removed_while_the_name_changes_hands);
        RUN(name_goes_back);
        RUN(name_goes_back_to_its_holder);
        RUN(succession_is_refused);
        RUN(damaged_links_have_no_owner);
        RUN(find);
        RUN(find_ambiguous);
        RUN(more_pods_than_descriptors);
        RUN(config);
        RUN(config_with_users_of_any_start);
        RUN(config_without_a_number_of_users);
        RUN(config_refused);
        RUN(owner_removes_its_pods);
        RUN(owned_pods_of_a_former_boot_are_collected);
        RUN(unreadable_pods_of_a_former_boot_are_kept);
        RUN(an_owner_keeps_its_pods_of_a_former_boot);
        RUN(a_pod_gives_up_what_others_need);
        RUN(data_of_the_owner);
        RUN(cgroup_parents);
        RUN(damaged);
        RUN(gc_grace);
        RUN(gc_after_the_clock_was_set);
        RUN(a_prepared_pod_of_the_future_is_new);
        RUN(gc_keeps_pods_of_units_when_names_cannot_be_read);
        RUN(gc_prepared);
        RUN(gc_failure);
        RUN(gc_rubbish);
        RUN(removal_is_repeated);
        return TEST_END();
}
