/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The output of apps in the journal of the host: records that cannot be forged, and a journal that takes nothing. */

#include <endian.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "library/libsystemd.h"
#include "stage0/supervisor/streams/forwarder-internal.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

typedef struct Fixture {
        Scratch scratch;
        Pod pod;
        PodApp manifest;
        AppInstance app, *apps[1];
        AppTable table;
        AppLog log;
        Forwarders all;
        Forwarder forwarder;
        struct sockaddr_un address;
        int journal_fd;
        unsigned rooms;
} Fixture;

#define FIXTURE_NULL ((Fixture){.scratch = SCRATCH_NULL, .journal_fd = -EBADF})

static void fixture_done(Fixture *f)
{
        host_journal_free(f->all.host_journal);
        text_done(&f->forwarder.host_lines);
        text_done(&f->forwarder.marked);
        safe_close(f->journal_fd);
        sd_event_unref(f->all.event);
        scratch_done(&f->scratch);
}

static void on_room(void *userdata)
{
        Fixture *f = userdata;

        f->rooms++;
}

/* A journal of our own, for which records wait until they are read. */
static int listen_anew(Fixture *f)
{
        safe_close(f->journal_fd);
        (void) unlink(f->address.sun_path);
        f->journal_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        return bind(f->journal_fd, (struct sockaddr *) &f->address, sizeof(f->address)) < 0 ? -errno : 0;
}

static int set_up(Fixture *f, LogTarget target)
{
        int r = library_load(&systemd_library, NULL);

        if (r >= 0)
                r = scratch_new(&f->scratch);
        if (r >= 0)
                r = sd_event_new(&f->all.event);
        if (r < 0)
                return r;
        f->address.sun_family = AF_UNIX;
        if (strlen(f->scratch.path) + sizeof("/journal") > sizeof(f->address.sun_path))
                return -ENAMETOOLONG;
        (void) stpcpy(stpcpy(f->address.sun_path, f->scratch.path), "/journal");
        f->pod = (Pod){.uuid = (char *) "6dba1ba6-a5a2-4b0c-9a0a-0d8a36a1f0a7",
                       .config.name = (char *) "site"};
        f->manifest = (PodApp){.name = (char *) "web", .image_name = (char *) "example.com/web"};
        f->log = (AppLog){.app = (char *) "web", .target = target};
        f->app = (AppInstance){.name = "web", .manifest = &f->manifest, .log = &f->log};
        f->apps[0] = &f->app;
        f->table = (AppTable){.items = f->apps, .n = 1};
        f->all.pod = &f->pod;
        f->all.apps = &f->table;
        f->forwarder = (Forwarder){.all = &f->all, .app = &f->app, .log = &f->log, .journal_fd = -EBADF};
        forwarder_open_host(&f->forwarder);
        r = host_journal_new(f->all.event, &f->pod, f->address.sun_path, on_room, f, &f->all.host_journal);
        return r < 0 ? r : listen_anew(f);
}

static void say(Fixture *f, const char *text)
{
        char data[131072];
        size_t n = strlen(text);

        memcpy(data, text, n + 1);
        forwarder_store(&f->forwarder, data, n);
}

/* The fields of the next record as "NAME=value|NAME=value|"; NULL: there is none. */
static char *next_record(Fixture *f)
{
        static char data[131072];
        ssize_t size = recv(f->journal_fd, data, sizeof(data), 0);
        _cleanup_text_ Text t = {};
        char *ret = NULL;

        if (size < 0)
                return NULL;
        for (const char *p = data, *end = data + size; p < end;) {
                const char *newline = memchr(p, '\n', (size_t) (end - p)), *equals;

                if (!newline)
                        return NULL;
                equals = memchr(p, '=', (size_t) (newline - p));
                uint64_t n = equals ? (uint64_t) (newline - equals - 1) : 0;
                const char *name_end = equals ?: newline, *value = equals ? equals + 1 : newline + 9;
                if (!equals) {
                        memcpy(&n, newline + 1, sizeof(n));
                        n = le64toh(n);
                }
                text_add_bytes(&t, p, (size_t) (name_end - p));
                text_add(&t, "=");
                text_add_bytes(&t, value, n);
                text_add(&t, "|");
                if (value[n] != '\n')
                        return NULL;
                p = value + n + 1;
        }
        return text_take(&t, &ret, NULL) < 0 ? NULL : ret;
}

#define POD_FIELDS "ACNSPAWN_POD=site|ACNSPAWN_UUID=6dba1ba6-a5a2-4b0c-9a0a-0d8a36a1f0a7|ACNSPAWN_NAME=site|"
#define APP_FIELDS(stream)                                                                                  \
        "SYSLOG_IDENTIFIER=web|ACNSPAWN_APP=web|ACNSPAWN_IMAGE=example.com/web|ACNSPAWN_STREAM=" stream "|"

#define ASSERT_RECORD(f, expected)                                                                          \
        do {                                                                                                \
                _cleanup_free_ char *record = next_record(f);                                               \
                ASSERT_STREQ(record, expected);                                                             \
        } while (0)
#define ASSERT_NO_RECORD(f)                                                                                 \
        do {                                                                                                \
                _cleanup_free_ char *record = next_record(f);                                               \
                ASSERT_TRUE(!record);                                                                       \
        } while (0)

TEST(a_record_for_each_line)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;

        ASSERT_OK(set_up(&f, LOG_TARGET_BOTH));
        say(&f, "one\n\n<3>tw");
        say(&f, "o\nthree");
        ASSERT_RECORD(&f, POD_FIELDS "PRIORITY=6|" APP_FIELDS("stdout") "MESSAGE=one|");
        ASSERT_RECORD(&f, POD_FIELDS "PRIORITY=6|" APP_FIELDS("stdout") "MESSAGE=|");
        ASSERT_RECORD(&f, POD_FIELDS "PRIORITY=3|" APP_FIELDS("stdout") "ACNSPAWN_LEVEL=<3>|MESSAGE=two|");
        ASSERT_NO_RECORD(&f);
        forwarder_end_storing(&f.forwarder);
        ASSERT_RECORD(&f, POD_FIELDS
                      "PRIORITY=6|" APP_FIELDS("stdout") "ACNSPAWN_LINE_BREAK=eof|MESSAGE=three|");
        ASSERT_NO_RECORD(&f);
}

TEST(fields_cannot_be_forged)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;

        ASSERT_OK(set_up(&f, LOG_TARGET_JOURNAL));
        f.forwarder.error = true;
        f.manifest.image_name = (char *) "x\nACNSPAWN_APP=other";
        say(&f, "ACNSPAWN_APP=other\n<9>x\n<1>\n<77>y\n");
        ASSERT_RECORD(&f, POD_FIELDS "PRIORITY=6|SYSLOG_IDENTIFIER=web|ACNSPAWN_APP=web|ACNSPAWN_IMAGE="
                                     "x\nACNSPAWN_APP=other|"
                                     "ACNSPAWN_STREAM=stderr|MESSAGE=ACNSPAWN_APP=other|");
        ASSERT_RECORD(&f, POD_FIELDS "PRIORITY=6|SYSLOG_IDENTIFIER=web|ACNSPAWN_APP=web|ACNSPAWN_IMAGE="
                                     "x\nACNSPAWN_APP=other|"
                                     "ACNSPAWN_STREAM=stderr|MESSAGE=<9>x|");
        ASSERT_RECORD(&f, POD_FIELDS "PRIORITY=1|SYSLOG_IDENTIFIER=web|ACNSPAWN_APP=web|ACNSPAWN_IMAGE="
                                     "x\nACNSPAWN_APP=other|"
                                     "ACNSPAWN_STREAM=stderr|ACNSPAWN_LEVEL=<1>|MESSAGE=|");
        ASSERT_RECORD(&f, POD_FIELDS "PRIORITY=6|SYSLOG_IDENTIFIER=web|ACNSPAWN_APP=web|ACNSPAWN_IMAGE="
                                     "x\nACNSPAWN_APP=other|"
                                     "ACNSPAWN_STREAM=stderr|MESSAGE=<77>y|");
        ASSERT_NO_RECORD(&f);
}

TEST(where_it_goes)
{
        static const struct {
                LogTarget target;
                bool journal_stream, expected;
        } cases[] = {
                        {LOG_TARGET_AUTO, false, false}, {LOG_TARGET_AUTO, true, true},
                        {LOG_TARGET_POD, true, false},   {LOG_TARGET_JOURNAL, false, true},
                        {LOG_TARGET_BOTH, false, true},  {LOG_TARGET_NONE, true, false},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;

                ASSERT_OK(set_up(&f, cases[i].target));
                f.all.journal_streams[0] = cases[i].journal_stream;
                forwarder_open_host(&f.forwarder);
                say(&f, "line\n");
                _cleanup_free_ char *record = next_record(&f);
                ASSERT_EQ(record != NULL, cases[i].expected);
        }
}

TEST(long_lines_are_cut)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;
        char text[100001];

        ASSERT_OK(set_up(&f, LOG_TARGET_JOURNAL));
        memset(text, 'x', sizeof(text) - 2);
        strcpy(text + sizeof(text) - 2, "\n");
        say(&f, text);
        size_t sizes[4] = {};
        for (size_t i = 0; i < ELEMENTSOF(sizes); i++) {
                _cleanup_free_ char *record = next_record(&f);
                ASSERT_EQ(record && strstr(record, "|ACNSPAWN_LINE_BREAK=line-max|"), i < 2);
                sizes[i] = record ? strlen(strstr(record, "MESSAGE=")) - strlen("MESSAGE=|") : 0;
        }
        ASSERT_TRUE(sizes[0] == 49152 && sizes[1] == 49152 && sizes[2] == 99999 - 2 * 49152 &&
                    sizes[3] == 0);
}

/* All records of a long line have the priority of its beginning. */
TEST(a_level_is_at_the_beginning_of_a_line_alone)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;
        char text[49152 + sizeof("<3>more\n<4>next\n")];

        ASSERT_OK(set_up(&f, LOG_TARGET_JOURNAL));
        memset(text, 'x', 49152);
        memcpy(text, "<5>", 3);
        strcpy(text + 49152, "<3>more\n<4>next\n");
        say(&f, text);
        _cleanup_free_ char *first = next_record(&f);
        ASSERT_TRUE(first && strstr(first, "PRIORITY=5|") &&
                    strstr(first, "|ACNSPAWN_LEVEL=<5>|MESSAGE=xxx"));
        ASSERT_RECORD(&f, POD_FIELDS "PRIORITY=5|" APP_FIELDS("stdout") "MESSAGE=<3>more|");
        ASSERT_RECORD(&f, POD_FIELDS "PRIORITY=4|" APP_FIELDS("stdout") "ACNSPAWN_LEVEL=<4>|MESSAGE=next|");
}

/* It waits for a journal that reads, and not for long for one that does not. */
TEST(waiting_until_records_are_taken)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;

        ASSERT_OK(set_up(&f, LOG_TARGET_JOURNAL));
        host_journal_sync(f.all.host_journal, 1000); /* nothing was sent */
        say(&f, "one\n");
        uint64_t begin = now_usec(CLOCK_MONOTONIC);
        host_journal_sync(f.all.host_journal, 50);
        ASSERT_TRUE(now_usec(CLOCK_MONOTONIC) >= begin + 50000);
        pid_t pid = fork();
        if (pid == 0) {
                char byte;
                usleep(100000);
                _exit(recv(f.journal_fd, &byte, 1, 0) == 1 ? 0 : 1);
        }
        ASSERT_TRUE(pid > 0);
        host_journal_sync(f.all.host_journal, 60000);
        int status = -1;
        ASSERT_NO_RECORD(&f); /* the child had taken it by then */
        ASSERT_TRUE(waitpid(pid, &status, 0) == pid && status == 0);
}

TEST(a_journal_that_is_full)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;
        unsigned n = 0, read = 0;

        ASSERT_OK(set_up(&f, LOG_TARGET_JOURNAL));
        while (!f.forwarder.host_full && n < 100000) {
                char line[32];
                snprintf(line, sizeof(line), "line %u\n", n++);
                say(&f, line);
        }
        ASSERT_TRUE(f.forwarder.host_full);
        ASSERT_EQ(f.rooms, 0);
        for (;; read++) {
                _cleanup_free_ char *record = next_record(&f), *expected = NULL;
                if (!record)
                        break;
                ASSERT_TRUE(xasprintf(&expected, "MESSAGE=line %u|", read) >= 0 && strstr(record, expected));
        }
        ASSERT_TRUE(read == n - 1);
        for (unsigned i = 0; f.rooms == 0 && i < 100; i++)
                ASSERT_OK(sd_event_run(f.all.event, 100000));
        ASSERT_EQ(f.rooms, 1);
        ASSERT_TRUE(forwarder_resume_host(&f.forwarder));
        _cleanup_free_ char *record = next_record(&f), *expected = NULL;
        ASSERT_OK(xasprintf(&expected, "MESSAGE=line %u|", n - 1));
        ASSERT_TRUE(record && strstr(record, expected));
}

TEST(a_journal_that_is_started_anew)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;

        ASSERT_OK(set_up(&f, LOG_TARGET_JOURNAL));
        say(&f, "one\n");
        ASSERT_OK(listen_anew(&f));
        say(&f, "two\n");
        ASSERT_RECORD(&f, POD_FIELDS "PRIORITY=6|" APP_FIELDS("stdout") "MESSAGE=two|");
        f.journal_fd = safe_close(f.journal_fd);
        (void) unlink(f.address.sun_path);
        say(&f, "nowhere\n");
        ASSERT_TRUE(!f.forwarder.host_full && f.forwarder.host_lines.size == 0);
}

TEST(messages_about_the_pod)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;

        ASSERT_OK(set_up(&f, LOG_TARGET_POD));
        forwarders_report(&f.all, NULL, &(HostRecord){.message = "x", .size = 1, .exit_status = -1});
        ASSERT_NO_RECORD(&f);
        f.log.target = LOG_TARGET_BOTH;
        forwarders_report(&f.all, NULL,
                          &(HostRecord){.message = "Up.",
                                        .size = 3,
                                        .priority = 5,
                                        .message_id = "00112233445566778899aabbccddeeff",
                                        .exit_status = -1});
        ASSERT_RECORD(&f, POD_FIELDS "PRIORITY=5|SYSLOG_IDENTIFIER=acnspawn|MESSAGE_ID="
                                     "00112233445566778899aabbccddeeff|MESSAGE=Up.|");
        forwarders_report(&f.all, &f.app,
                          &(HostRecord){.message = "Ended.", .size = 6, .priority = 4, .exit_status = 3});
        ASSERT_RECORD(&f, POD_FIELDS "PRIORITY=4|SYSLOG_IDENTIFIER=acnspawn|ACNSPAWN_APP=web|ACNSPAWN_IMAGE="
                                     "example.com/web|"
                                     "EXIT_STATUS=3|MESSAGE=Ended.|");
}

TEST(streams_of_the_journal)
{
        _cleanup_close_ int fd = memfd_create("x", MFD_CLOEXEC), other = memfd_create("y", MFD_CLOEXEC);
        char value[64];
        struct stat st;

        ASSERT_OK(fstat(fd, &st));
        snprintf(value, sizeof(value), "%llu:%llu", (unsigned long long) st.st_dev,
                 (unsigned long long) st.st_ino);
        ASSERT_OK(setenv("JOURNAL_STREAM", value, 1));
        ASSERT_TRUE(fd_is_journal_stream(fd) && !fd_is_journal_stream(other));
        strcat(value, "x");
        ASSERT_OK(setenv("JOURNAL_STREAM", value, 1));
        ASSERT_TRUE(!fd_is_journal_stream(fd));
        ASSERT_OK(unsetenv("JOURNAL_STREAM"));
        ASSERT_TRUE(!fd_is_journal_stream(fd));
}

int main(void)
{
        RUN(a_record_for_each_line);
        RUN(fields_cannot_be_forged);
        RUN(where_it_goes);
        RUN(long_lines_are_cut);
        RUN(a_level_is_at_the_beginning_of_a_line_alone);
        RUN(waiting_until_records_are_taken);
        RUN(a_journal_that_is_full);
        RUN(a_journal_that_is_started_anew);
        RUN(messages_about_the_pod);
        RUN(streams_of_the_journal);
        return TEST_END();
}
