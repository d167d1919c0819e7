/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What cgroups say, by files as the kernel writes them, and samples of it. */

#include <sys/resource.h>
#include <sys/socket.h>

#include "cri/events/events-internal.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

TEST(files_of_a_cgroup)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        CriUsage u;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(scratch_file(
                        &s, "cpu.stat",
                        "usage_usec 300\nuser_usec 200\nsystem_usec 100\nnr_periods 7\nnr_throttled 2\n"
                        "throttled_usec 55\n"));
        ASSERT_OK(scratch_file(&s, "memory.current", "1000000\n"));
        ASSERT_OK(scratch_file(&s, "memory.max", "max\n"));
        ASSERT_OK(scratch_file(&s, "memory.stat",
                               "anon 400\nfile 500\nkernel 60\nfile_mapped 70\ninactive_anon 1\n"
                               "inactive_file 300000\npgfault 8\npgmajfault 9\n"));
        ASSERT_OK(scratch_file(&s, "memory.events", "low 0\nhigh 0\nmax 3\noom 1\noom_kill 2\n"));
        ASSERT_OK(scratch_file(&s, "io.stat",
                               "8:0 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=0 dios=0\n"
                               "8:16 rbytes=30 wbytes=40 rios=3 wios=4 dbytes=0 dios=0\n"));
        ASSERT_OK(scratch_file(&s, "pids.current", "5\n"));
        ASSERT_OK(scratch_file(&s, "io.pressure",
                               "some avg10=1.50 avg60=0.25 avg300=0.00 total=1234\n"
                               "full avg10=0.50 avg60=0.00 avg300=0.00 total=34\n"));
        ASSERT_OK(cri_usage_read(s.path, CRI_PARTS_ALL, &u));
        ASSERT_EQ(u.cpu_usec, 300);
        ASSERT_EQ(u.cpu_user_usec, 200);
        ASSERT_EQ(u.cpu_throttled_usec, 55);
        ASSERT_EQ(u.memory, 1000000);
        ASSERT_TRUE(u.memory_max == UINT64_MAX && u.memory_peak == UINT64_MAX && u.swap == UINT64_MAX);
        ASSERT_EQ(u.anon, 400);
        ASSERT_EQ(u.file, 500);
        ASSERT_EQ(u.inactive_file, 300000);
        ASSERT_EQ(cri_working_set(&u), 700000);
        ASSERT_EQ(u.major_faults, 9);
        ASSERT_EQ(u.limit_hits, 3);
        ASSERT_EQ(u.oom_kills, 2);
        ASSERT_EQ(u.read_bytes, 40);
        ASSERT_EQ(u.writes, 6);
        ASSERT_EQ(u.pids, 5);
        ASSERT_TRUE(u.io_pressure.known && !u.cpu_pressure.known);
        ASSERT_EQ(u.io_pressure.some.total_usec, 1234);
        ASSERT_EQ(u.io_pressure.full.total_usec, 34);
        ASSERT_TRUE(u.io_pressure.some.averages[0] == 1.5 && u.io_pressure.some.averages[1] == 0.25);
        ASSERT_TRUE(u.taken_usec > 0);
        /* What statistics do not have is not read. */
        ASSERT_OK(cri_usage_read(s.path, CRI_PARTS_STATS, &u));
        ASSERT_EQ(u.memory, 1000000);
        ASSERT_TRUE(u.pids == UINT64_MAX && u.limit_hits == UINT64_MAX && u.read_bytes == UINT64_MAX);
        ASSERT_OK(cri_usage_read(s.path, CRI_PARTS_PROCESSES, &u));
        ASSERT_TRUE(u.pids == 5 && u.oom_kills == UINT64_MAX);
}

TEST(working_set_is_not_negative)
{
        CriUsage u;

        cri_usage_init(&u);
        ASSERT_TRUE(cri_working_set(&u) == UINT64_MAX);
        u.memory = 10;
        ASSERT_EQ(cri_working_set(&u), 10);
        u.inactive_file = 11;
        ASSERT_EQ(cri_working_set(&u), 0);
}

TEST(no_cgroup)
{
        CriUsage u;

        ASSERT_EQ(cri_usage_read("/nonexistent/cgroup", CRI_PARTS_ALL, &u), -ENOENT);
}

TEST(pressures)
{
        static const char *const damaged[] = {"", "some", "some avg10=x avg60=0 avg300=0 total=1",
                                              "full avg10=0 avg60=0 avg300=0 total=1"};
        CriPressure p;

        for (size_t i = 0; i < ELEMENTSOF(damaged); i++) {
                cri_pressure_parse(damaged[i], &p);
                ASSERT_FALSE(p.known);
        }
        cri_pressure_parse("some avg10=0.10 avg60=0.00 avg300=0.00 total=7\n", &p);
        ASSERT_TRUE(p.known);
        ASSERT_EQ(p.full.total_usec, 0);
}

TEST(devices_of_a_cgroup)
{
        _cleanup_text_ Text many = {};
        CriDevice l[CRI_DEVICES_MAX];

        ASSERT_EQ(cri_devices_parse("", l), 0);
        ASSERT_EQ(cri_devices_parse("8:0 \n7:0\nx:y rbytes=1\n8:16 dbytes=1 wbytes=2\n", l), 0);
        ASSERT_EQ(cri_devices_parse(
                                  "7:0 \n8:16 rbytes=30 wbytes=40 rios=3 wios=4 dbytes=0 dios=0\n253:7 rbytes=5",
                                  l),
                  2);
        ASSERT_TRUE(l[0].major == 8 && l[0].minor == 16 && l[0].read_bytes == 30 &&
                    l[0].written_bytes == 40);
        ASSERT_TRUE(l[1].major == 253 && l[1].minor == 7 && l[1].read_bytes == 5 && l[1].written_bytes == 0);
        for (unsigned i = 0; i < 2 * CRI_DEVICES_MAX; i++)
                text_addf(&many, "8:%u rbytes=%u wbytes=0\n", i, i);
        ASSERT_EQ(cri_devices_parse(many.data, l), CRI_DEVICES_MAX);
        ASSERT_EQ(l[CRI_DEVICES_MAX - 1].read_bytes, CRI_DEVICES_MAX - 1);
}

TEST(lists_in_files_of_a_cgroup)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        CriHugePages pages[CRI_PAGE_SIZES_MAX];
        CriDevice devices[CRI_DEVICES_MAX];

        ASSERT_OK(scratch_new(&s));
        ASSERT_EQ(cri_huge_pages_read(s.path, pages), 0);
        ASSERT_EQ(cri_devices_read(s.path, devices), 0);
        ASSERT_OK(scratch_file(&s, "hugetlb.2MB.current", "4194304\n"));
        ASSERT_OK(scratch_file(&s, "hugetlb.2MB.rsvd.current", "1\n"));
        ASSERT_OK(scratch_file(&s, "hugetlb.2MB.max", "max\n"));
        ASSERT_OK(scratch_file(&s, "hugetlb.1GB.current", "x\n"));
        ASSERT_OK(scratch_file(&s, "hugetlb.current", "1\n"));
        ASSERT_EQ(cri_huge_pages_read(s.path, pages), 1);
        ASSERT_STREQ(pages[0].size, "2MB");
        ASSERT_EQ(pages[0].bytes, UINT64_C(4194304));
        ASSERT_OK(scratch_file(&s, "io.stat", "4095:1048575 rbytes=1 wbytes=2\n"));
        ASSERT_EQ(cri_devices_read(s.path, devices), 1);
        ASSERT_STREQ(devices[0].name, "");
}

TEST(descriptors_of_processes)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        CriUsage u, more;
        struct rlimit l;
        char pids[32];
        int fds[2];

        cri_usage_init(&u);
        cri_descriptors_read("/nonexistent/cgroup", &u);
        ASSERT_EQ(u.descriptors, 0);
        ASSERT_EQ(u.descriptors_max, UINT64_MAX);
        ASSERT_OK(scratch_new(&s));
        snprintf(pids, sizeof(pids), "%d\n", (int) getpid());
        ASSERT_OK(scratch_file(&s, "cgroup.procs", pids));
        cri_usage_init(&u);
        cri_descriptors_read(s.path, &u);
        ASSERT_OK(getrlimit(RLIMIT_NOFILE, &l));
        ASSERT_EQ(u.descriptors_max, l.rlim_cur);
        ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
        cri_usage_init(&more);
        cri_descriptors_read(s.path, &more);
        ASSERT_EQ(more.descriptors, u.descriptors + 2);
        ASSERT_EQ(more.sockets, u.sockets + 2);
        safe_close(fds[0]);
        safe_close(fds[1]);
}

TEST(samples_are_merged_and_bounded)
{
        CriServer s = {};
        CriSample cpu = {.key = "a", .cpu_usec = 1, .cpu_taken_usec = 2, .nano_cores = 3},
                  disk = {.key = "a", .bytes = 4, .inodes = 5, .measured_usec = 6};

        cri_sample_put(&s, &cpu);
        cri_sample_put(&s, &disk);
        ASSERT_EQ(s.n_samples, 1);
        const CriSample *found = cri_sample_find(&s, "a");
        ASSERT_NOT_NULL(found);
        ASSERT_TRUE(found->cpu_usec == 1 && found->nano_cores == 3 && found->bytes == 4 &&
                    found->inodes == 5);
        ASSERT_TRUE(!cri_sample_find(&s, "b"));
        for (size_t i = 0; i < 9000; i++) {
                snprintf(cpu.key, sizeof(cpu.key), "%zu", i);
                cri_sample_put(&s, &cpu);
        }
        ASSERT_EQ(s.n_samples, 8192);
        cri_samples_done(&s);
}

TEST(samples_of_another_state_are_not_taken)
{
        Seen containers[] = {{.app = "main", .state = STARTED, .changed_usec = 100},
                             {.app = "ended", .state = STOPPED, .changed_usec = 100}};
        SeenSandbox sandbox = {.uuid = "u",
                               .sandbox = {.state = STARTED, .changed_usec = 10},
                               .containers = containers,
                               .n = 2};
        struct CriEvents events = {.sandboxes = &sandbox};
        CriServer s = {.events = &events};
        struct {
                UsageNote note;
                UsageNoteApp apps[2];
        } sent = {{"u", 50, {.cpu_usec = 7, .taken_usec = 1}, 2, 0},
                  {{"main", {.cpu_usec = 8, .taken_usec = 1}}, {"ended", {.cpu_usec = 9, .taken_usec = 1}}}};

        /* It was begun before the container was started once more. */
        cri_usage_take(&s, &sent, sizeof(sent));
        ASSERT_EQ(sandbox.sandbox.usage.cpu_usec, 7);
        ASSERT_FALSE(usage_is_sampled(&containers[0]));
        sent.note.begin_usec = 101;
        cri_usage_take(&s, &sent, sizeof(sent));
        ASSERT_TRUE(usage_is_sampled(&containers[0]));
        ASSERT_EQ(containers[0].usage.cpu_usec, 8);
        ASSERT_FALSE(usage_is_sampled(&containers[1]));
        /* One that comes late, of a worker that was started earlier, is older. */
        sent.note.begin_usec = 100;
        sent.apps[0].usage.cpu_usec = 1;
        cri_usage_take(&s, &sent, sizeof(sent));
        ASSERT_EQ(containers[0].usage.cpu_usec, 8);
        /* No cgroup. */
        sent.note.begin_usec = 102;
        sent.apps[0].usage.taken_usec = 0;
        cri_usage_take(&s, &sent, sizeof(sent));
        ASSERT_FALSE(usage_is_sampled(&containers[0]));
        /* What is not whole, or of no sandbox of the table. */
        sent.note.begin_usec = 103;
        sent.note.usage.cpu_usec = 70;
        cri_usage_take(&s, &sent, sizeof(sent) - 1);
        cri_usage_take(&s, &sent, sizeof(sent.note) - 1);
        sent.note.uuid[0] = 'v';
        cri_usage_take(&s, &sent, sizeof(sent));
        ASSERT_EQ(sandbox.sandbox.usage.cpu_usec, 7);
}

/* The kernel allows nearly any bytes in names of interfaces. */
TEST(interfaces_in_messages)
{
        NetworkUsage l[100] = {
                        {.name = "eth0"}, {.name = "a\xff"}, {.name = "\xc3\xa4"}, {.name = "\xed\xa0\x80"}};

        ASSERT_EQ(cri_networks_check(l, 0), 0);
        ASSERT_EQ(cri_networks_check(l, 4), 2);
        ASSERT_STREQ(l[0].name, "eth0");
        ASSERT_STREQ(l[1].name, "\xc3\xa4");
        for (size_t i = 0; i < ELEMENTSOF(l); i++)
                snprintf(l[i].name, sizeof(l[i].name), i % 2 ? "x%zu" : "\xff%zu", i);
        ASSERT_EQ(cri_networks_check(l, ELEMENTSOF(l)), 50);
        ASSERT_STREQ(l[49].name, "x99");
        for (size_t i = 0; i < ELEMENTSOF(l); i++)
                snprintf(l[i].name, sizeof(l[i].name), "x%zu", i);
        ASSERT_EQ(cri_networks_check(l, ELEMENTSOF(l)), 64);
}

int main(void)
{
        RUN(files_of_a_cgroup);
        RUN(working_set_is_not_negative);
        RUN(no_cgroup);
        RUN(pressures);
        RUN(devices_of_a_cgroup);
        RUN(lists_in_files_of_a_cgroup);
        RUN(descriptors_of_processes);
        RUN(samples_are_merged_and_bounded);
        RUN(samples_of_another_state_are_not_taken);
        RUN(interfaces_in_messages);
        return TEST_END();
}
