/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Usage of a pod: its memory limit, from the files of its cgroups, and the disk space of a tree. */

#include <dirent.h>
#include <dlfcn.h>
#include <sys/resource.h>

#include "prepare/store/store.h"
#include "stage0/report/report-internal.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

TEST(limit_of_the_pod)
{
        static const struct {
                const char *own, *apps;
                uint64_t limit;
        } cases[] = {
                        {"max\n", "max\n", UINT64_MAX},
                        {"max\n", "67108864\n", 67108864}, /* the isolator of the pod */
                        {"33554432\n", "max\n", 33554432}, /* the unit that the pod runs in */
                        {"33554432\n", "67108864\n", 33554432},
                        {"134217728\n", "67108864\n", 67108864},
        };
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(scratch_new(&s));
        ASSERT_TRUE(usage_memory_limit(s.path) == UINT64_MAX); /* without the controller */
        ASSERT_OK(scratch_dir(&s, "payload"));
        ASSERT_OK(scratch_dir(&s, "payload/app.slice"));
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                ASSERT_OK(scratch_file(&s, "memory.max", cases[i].own));
                ASSERT_OK(scratch_file(&s, "payload/app.slice/memory.max", cases[i].apps));
                ASSERT_TRUE(usage_memory_limit(s.path) == cases[i].limit);
        }
        ASSERT_TRUE(usage_memory_limit("/no/such/cgroup") == UINT64_MAX);
}

static uint64_t blocks(const Scratch *s, const char *name)
{
        struct stat st;

        return fstatat(s->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : (uint64_t) st.st_blocks * 512U;
}

TEST(disk_space)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(scratch_dir(&s, "tree"));
        ASSERT_OK(scratch_dir(&s, "tree/d"));
        ASSERT_OK(scratch_file(&s, "tree/d/f", "content"));
        ASSERT_OK(scratch_file(&s, "outside", "content"));
        ASSERT_OK(symlinkat("/", s.fd, "tree/link") < 0 ? -errno : 0);
        uint64_t sum = blocks(&s, "tree") + blocks(&s, "tree/d") + blocks(&s, "tree/d/f") +
                       blocks(&s, "tree/link");
        ASSERT_EQ(disk_usage_at(s.fd, "tree", NULL), sum); /* the link is not followed */
        ASSERT_EQ(disk_usage_at(s.fd, "tree/d/f", NULL), blocks(&s, "tree/d/f"));
        ASSERT_EQ(disk_usage_at(s.fd, "nothing", NULL), 0);
        ASSERT_EQ(disk_usage_at(s.fd, "tree/link", NULL), blocks(&s, "tree/link"));

        /* A file that another tree has, too, counts in parts. */
        ASSERT_OK(linkat(s.fd, "outside", s.fd, "tree/d/same", 0) < 0 ? -errno : 0);
        ASSERT_EQ(disk_usage_at(s.fd, "tree", NULL), sum + blocks(&s, "outside") / 2);
}

/* Makes DEPTH levels, each with two files beside the next one; adds what the files take to *SUM. */
static int make_deep(const Scratch *s, unsigned depth, uint64_t *sum)
{
        int fd = openat(s->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        for (unsigned i = 0; i < depth && fd >= 0; i++) {
                static const char *const names[] = {"a", "d", "m"};
                struct stat st;
                int next = mkdirat(fd, "d", 0700) < 0 ? -1
                                                      : openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                close(fd);
                fd = next;
                for (size_t n = 0; n < ELEMENTSOF(names) && fd >= 0; n += 2) {
                        int file = openat(fd, names[n], O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
                        if (file < 0 || write(file, "x", 1) != 1 || fstat(file, &st) < 0)
                                return -1;
                        *sum += (uint64_t) st.st_blocks * 512U;
                        close(file);
                }
        }
        return fd;
}

/* Deeper than the number of descriptors, and than what is kept open. */
TEST(disk_space_of_a_deep_tree)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        uint64_t files = 0, bytes, inodes;
        struct rlimit before, few = {.rlim_cur = 128};

        ASSERT_OK(scratch_new(&s));
        int fd = make_deep(&s, 1500, &files);
        ASSERT_TRUE(fd >= 0);
        close(fd);
        ASSERT_TRUE(getrlimit(RLIMIT_NOFILE, &before) >= 0);
        few.rlim_max = before.rlim_max;
        ASSERT_TRUE(setrlimit(RLIMIT_NOFILE, &few) >= 0);
        disk_usage_count_at(s.fd, "d", NULL, &bytes, &inodes);
        ASSERT_TRUE(setrlimit(RLIMIT_NOFILE, &before) >= 0);
        ASSERT_EQ(inodes, 1500 * 3);
        ASSERT_TRUE(bytes >= files);
        ASSERT_OK(rm_rf_at(s.fd, "d"));
}

static struct {
        int fd;
        const char *from, *to;
        unsigned when; /* that many directories are opened; 0: never */
} move = {.fd = -EBADF};

/* In the place of the C library's: what an app does while its tree is walked. */
DIR *fdopendir(int fd)
{
        DIR *(*original)(int fd) = NULL;

        if (move.when > 0 && --move.when == 0)
                (void) renameat(move.fd, move.from, move.fd, move.to);
        *(void **) &original = dlsym(RTLD_NEXT, "fdopendir");
        return original(fd);
}

/* A deep directory that an app moves meanwhile does not hide what is at the top of the tree: where it is in there is the file
 * system's choice, so there are many files. */
TEST(disk_space_of_a_tree_that_changes)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        enum { DEPTH = 150, MOVED = 80, FILES = 400 };
        char path[2 * DEPTH] = "d", moved[2 * DEPTH], name[32];
        uint64_t bytes, inodes;

        ASSERT_OK(scratch_new(&s));
        for (unsigned i = 1; i <= DEPTH; i++) {
                ASSERT_OK(scratch_dir(&s, path));
                if (i == MOVED)
                        strcpy(moved, path);
                if (i < DEPTH)
                        strcat(path, "/d");
        }
        for (unsigned i = 0; i < FILES; i++) {
                snprintf(name, sizeof(name), "d/file-%u", i);
                ASSERT_OK(scratch_file(&s, name, "content"));
        }
        move.fd = s.fd;
        move.from = moved;
        move.to = "moved";
        move.when = DEPTH;
        disk_usage_count_at(s.fd, "d", NULL, &bytes, &inodes);
        ASSERT_EQ(move.when, 0);
        ASSERT_OK(faccessat(s.fd, "moved", F_OK, 0) < 0 ? -errno : 0);
        ASSERT_EQ(inodes, DEPTH + FILES);
        ASSERT_OK(rm_rf_at(s.fd, "d"));
        ASSERT_OK(rm_rf_at(s.fd, "moved"));
}

int main(void)
{
        RUN(limit_of_the_pod);
        RUN(disk_space);
        RUN(disk_space_of_a_deep_tree);
        RUN(disk_space_of_a_tree_that_changes);
        return TEST_END();
}
