/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The metadata service from its parent's side: start, configuration, end; and, if run as root, the
 * privileges that it drops. */

#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "metadata/drop.h"
#include "tests/unit/metadata-service.h"

/* A new configuration replaces the old one completely; an invalid one replaces nothing, and the parent gets
 * the reason. */
TEST(reconfigure)
{
        uint64_t deadline = now_usec(CLOCK_MONOTONIC) + EXCHANGE_TIMEOUT_USEC;
        _cleanup_service_ Service s = {};
        MetadataConfig c = config;

        ASSERT_OK(service_start(&s, &config));
        c.pod_manifest = pod_manifest_plain;
        c.pod_manifest_size = strlen(pod_manifest_plain);
        ASSERT_OK(metadata_client_configure(s.client, &c, &s.error));
        while (s.handled >= 0 && now_usec(CLOCK_MONOTONIC) < deadline)
                ASSERT_OK(service_wait(&s, -1, deadline));
        ASSERT_ERR(s.handled, -EREMOTEIO);
        ASSERT_STREQ(s.error.message, "The metadata service of pod " UUID
                                      " refuses its configuration: Pod " UUID " has no app web");
        ASSERT_FALSE(metadata_client_configured(s.client));
        expect(&s, get, BASE "apps/web/image/id", 200, PLAIN, IMAGE_ID);

        c.n_apps = 0;
        c.token = "another-token-of-enough-length";
        ASSERT_OK(metadata_client_configure(s.client, &c, &s.error));
        while (!metadata_client_configured(s.client) && now_usec(CLOCK_MONOTONIC) < deadline)
                ASSERT_OK(service_wait(&s, -1, deadline));
        ASSERT_TRUE(metadata_client_configured(s.client));
        expect(&s, get, BASE "pod/uuid", 404, PLAIN, NULL);
        expect(&s, get, "/another-token-of-enough-length/acMetadata/v1/pod/uuid", 200, PLAIN, UUID);
        expect(&s, get, "/another-token-of-enough-length/acMetadata/v1/apps/web/image/id", 404, PLAIN, NULL);
}

/* A manifest of megabytes arrives whole, also at a client that reads slowly while the configuration
 * changes. */
TEST(large_manifest)
{
        enum { SIZE = 3 * 1024 * 1024 };
        _cleanup_free_ char *value = malloc(SIZE + 1), *manifest = NULL, *answer = NULL;
        _cleanup_service_ Service s = {};
        _cleanup_close_ int fd = -EBADF;
        MetadataConfig c = config;

        ASSERT_NOT_NULL(value);
        memset(value, 'v', SIZE);
        value[SIZE] = 0;
        ASSERT_OK(xasprintf(
                        &manifest,
                        "{\"acVersion\":\"0.8.11\",\"acKind\":\"PodManifest\",\"apps\":[],\"annotations\":"
                        "[{\"name\":\"large\",\"value\":\"%s\"}]}",
                        value));
        c.n_apps = 0;
        c.pod_manifest = manifest;
        c.pod_manifest_size = strlen(manifest);
        ASSERT_OK(service_start(&s, &c));
        fd = service_connect(&s);
        ASSERT_OK(send_text(fd, "GET " BASE "pod/manifest HTTP/1.1\r\nHost: p\r\n\r\n",
                            strlen("GET " BASE "pod/manifest HTTP/1.1\r\nHost: p\r\n\r\n")));
        ASSERT_OK(service_wait(&s, fd, now_usec(CLOCK_MONOTONIC) + EXCHANGE_TIMEOUT_USEC));
        ASSERT_OK(metadata_client_configure(s.client, &config, &s.error));
        expect(&s, get, BASE "pod/manifest", 200, JSON, pod_manifest);
        ASSERT_OK(read_answer(&s, fd, false, &answer));
        ASSERT_TRUE(streq(body_of(answer), manifest));
}

/* Waits until the service has ended. */
static bool has_ended(Service *s)
{
        uint64_t deadline = now_usec(CLOCK_MONOTONIC) + EXCHANGE_TIMEOUT_USEC;
        int r = 0;

        while (r >= 0 && now_usec(CLOCK_MONOTONIC) < deadline)
                r = service_wait(s, -1, deadline);
        return r == -ECONNRESET;
}

/* After some of all operations, so that a build with leak detection covers them. */
TEST(ends_on_sigterm)
{
        _cleanup_free_ char *answer = NULL;
        _cleanup_close_ int waiting = -EBADF;
        _cleanup_service_ Service s = {};
        siginfo_t info = {};

        ASSERT_OK(service_start(&s, &config));
        ASSERT_OK(metadata_client_configure(s.client, &config, &s.error));
        waiting = service_connect(&s);
        ASSERT_OK(waiting);
        ASSERT_OK(send_text(waiting, "POST " BASE, strlen("POST " BASE)));
        ASSERT_OK(post_form(&s, BASE "pod/hmac/sign", "content=x", &answer));
        ASSERT_EQ(status_of(answer), 200);
        ASSERT_OK(kill(metadata_client_pid(s.client), SIGTERM));
        ASSERT_TRUE(has_ended(&s));
        ASSERT_STREQ(s.error.message, "The metadata service of pod " UUID " has ended");
        ASSERT_FALSE(metadata_client_serving(s.client));
        ASSERT_OK(waitid(P_PID, (id_t) metadata_client_pid(s.client), &info, WEXITED | WNOWAIT));
        ASSERT_EQ(info.si_code, CLD_EXITED);
        ASSERT_EQ(info.si_status, 0);
        ASSERT_ERR(metadata_client_configure(s.client, &config, &s.error), -ECONNRESET);
}

/* The parent is killed; the service detects it by itself, with a client in the middle of a request. */
TEST(ends_with_parent)
{
        int pipe_fds[2];
        pid_t service = 0;

        ASSERT_OK(pipe2(pipe_fds, O_CLOEXEC));
        pid_t parent = fork();
        ASSERT_OK(parent);
        if (parent == 0) {
                Service s = {};
                char *answer;
                if (service_start(&s, &config) < 0)
                        _exit(1);
                s.ignores_requests = true;
                pid_t pid = metadata_client_pid(s.client);
                (void) loop_write(pipe_fds[1], &pid, sizeof(pid));
                (void) post_form(&s, BASE "pod/hmac/verify", "content=x&uuid=" OTHER_UUID "&signature=x",
                                 &answer);
                (void) pause();
                _exit(0);
        }
        safe_close(pipe_fds[1]);
        ssize_t n = loop_read(pipe_fds[0], &service, sizeof(service));
        safe_close(pipe_fds[0]);
        (void) kill(parent, SIGKILL);
        (void) waitpid(parent, NULL, 0);
        ASSERT_EQ(n, (ssize_t) sizeof(service));
        ASSERT_TRUE(WAIT_FOR(test_has_exited(service)));
}

TEST(program_missing)
{
        _cleanup_error_ Error e = ERROR_NULL;
        MetadataClient *c = NULL;

        ASSERT_ERR(metadata_client_start(&(MetadataStart){.program = "/nonexistent/metadata"}, &config, &c,
                                         &e),
                   -ENOENT);
        ASSERT_STREQ(e.message, "Cannot start the metadata service /nonexistent/metadata of pod " UUID
                                ": No such file or directory");
        ASSERT_STREQ(e.hint, "It is part of acnspawn; install the package again.");
        ASSERT_NULL(c);
}

TEST(not_a_listener)
{
        _cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        uint64_t deadline = now_usec(CLOCK_MONOTONIC) + EXCHANGE_TIMEOUT_USEC;
        _cleanup_service_ Service s = {};

        ASSERT_OK(metadata_client_start(&(MetadataStart){service_program(), getuid(), getgid()}, &config,
                                        &s.client, &s.error));
        ASSERT_OK(metadata_client_send_listener(s.client, fd, &s.error));
        while (s.handled >= 0 && now_usec(CLOCK_MONOTONIC) < deadline)
                ASSERT_OK(service_wait(&s, -1, deadline));
        ASSERT_STREQ(s.error.message,
                     "The metadata service of pod " UUID
                     " cannot serve: The received descriptor is not a listening stream socket");
}

static void expect_status_line(const char *status, const char *line)
{
        ASSERT_CONTAINS(status, line);
}

/* Entries of a directory, without . and .. */
static int count_entries(const char *path)
{
        DIR *d = opendir(path);
        int n = 0;

        if (!d)
                return -errno;
        while (readdir(d))
                n++;
        (void) closedir(d);
        return n - 2;
}

TEST(privileges)
{
        static const char *const lines[] = {
                        "\nUid:\t65533\t65533\t65533\t65533\n",
                        "\nGid:\t65532\t65532\t65532\t65532\n",
                        "\nGroups:\t \n",
                        "\nNoNewPrivs:\t1\n",
                        "\nThreads:\t1\n",
                        "\nCapInh:\t0000000000000000\n",
                        "\nCapPrm:\t0000000000000000\n",
                        "\nCapEff:\t0000000000000000\n",
                        "\nCapBnd:\t0000000000000000\n",
                        "\nCapAmb:\t0000000000000000\n",
        };
        _cleanup_free_ char *proc = NULL, *path = NULL, *text = NULL, *mounts = NULL, *environment = NULL;
        _cleanup_service_ Service s = {};
        struct stat ours, theirs;

        if (geteuid() != 0)
                TEST_SKIP("only root can drop privileges");
        int r = service_start_as(&s, &config, 65533, 65532);
        if (r == -ECONNRESET)
                TEST_SKIP("this root cannot make namespaces");
        ASSERT_OK(r);
        expect(&s, get, BASE "pod/uuid", 200, PLAIN, UUID);
        ASSERT_OK(xasprintf(&proc, "/proc/%d", (int) metadata_client_pid(s.client)));
        int dir = open(proc, O_PATH | O_CLOEXEC);
        ASSERT_OK(dir);
        ASSERT_OK(read_file_at(dir, "status", 65536, &text, NULL));
        for (size_t i = 0; i < ELEMENTSOF(lines); i++)
                expect_status_line(text, lines[i]);
        ASSERT_OK(read_file_at(dir, "environ", 65536, &environment, NULL));
        ASSERT_STREQ(environment, "");
        ASSERT_OK(read_file_at(dir, "mountinfo", 65536, &mounts, NULL));
        ASSERT_CONTAINS(mounts, " / / ro,nosuid,nodev,noexec");
        ASSERT_TRUE(strchr(mounts, '\n') == strrchr(mounts, '\n'));
        ASSERT_OK(xasprintf(&path, "%s/root", proc));
        ASSERT_EQ(count_entries(path), 0);
        static const char *const namespaces[] = {"ns/mnt", "ns/net", "ns/ipc", "ns/uts"};
        for (size_t i = 0; i < ELEMENTSOF(namespaces); i++) {
                char self[64];
                (void) snprintf(self, sizeof(self), "/proc/self/%s", namespaces[i]);
                ASSERT_OK(stat(self, &ours));
                ASSERT_OK(fstatat(dir, namespaces[i], &theirs, 0));
                ASSERT_TRUE(ours.st_ino != theirs.st_ino);
        }
#if !SANITIZED
        /* The files in /proc of a process that may not be traced belong to root. */
        ASSERT_OK(fstatat(dir, "environ", &theirs, 0));
        ASSERT_EQ(theirs.st_uid, 0);
#endif
        safe_close(dir);
}

TEST(never_root)
{
        _cleanup_service_ Service s = {};

        if (geteuid() != 0)
                TEST_SKIP("only for root");
        ASSERT_ERR(service_start_as(&s, &config, 0, 0), -ECONNRESET);
}

int main(void)
{
        if (service_program()) {
                RUN(privileges);
                RUN(never_root);
        }
        const char *why = become_ordinary();
        if (why)
                return TEST_SKIP_ALL("%s", why);

        RUN(reconfigure);
        RUN(large_manifest);
        RUN(ends_on_sigterm);
        RUN(ends_with_parent);
        RUN(program_missing);
        RUN(not_a_listener);
        return TEST_END();
}
