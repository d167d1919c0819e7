/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Downloads into the store: complete, interrupted and resumed, of files that change, by processes that are
 * killed. */

#include <dirent.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/unit/faults.h"
#include "tests/unit/small-disk.h"
#include "tests/unit/transfer-fixture.h"

#define SIZE 300000U

/* The file: its content at each offset, in each of its versions. */
static char content_at(size_t offset, char state)
{
        return (char) (offset * 7 + offset / 251 + (unsigned char) state);
}

static bool is_content(int fd, char state)
{
        static char buffer[SIZE + 1];

        if (loop_read(fd, buffer, sizeof(buffer)) != SIZE)
                return false;
        for (size_t i = 0; i < SIZE; i++)
                if (buffer[i] != content_at(i, state))
                        return false;
        return true;
}

static unsigned count_downloads(const Net *n)
{
        unsigned count = 0;
        DIR *d = fdopendir(openat(store_fd(n->store), "downloads", O_RDONLY | O_DIRECTORY | O_CLOEXEC));

        for (struct dirent *de; d && (de = readdir(d));)
                count += de->d_name[0] != '.';
        if (d)
                closedir(d);
        return count;
}

/* --- The server ---------------------------------------------------------------------------------------- */

static bool send_content(Connection *c, size_t from, size_t to, char state)
{
        static _Thread_local char buffer[SIZE];

        for (size_t i = from; i < to; i++)
                buffer[i] = content_at(i, state);
        return say_bytes(c, buffer + from, to - from);
}

/* Sends the requested range, or all; only up to END. */
static void send_file(Connection *c, char state, size_t end)
{
        char range[64] = "", condition[64] = "", etag[8];
        size_t from = 0;

        snprintf(etag, sizeof(etag), "\"%c\"", state);
        if (asked(c->request, "Range", range, sizeof(range)) &&
            streq(asked(c->request, "If-Range", condition, sizeof(condition)) ?: etag, etag))
                from = strtoul(range + strlen("bytes="), NULL, 10);
        if (from >= SIZE) {
                say(c, "HTTP/1.1 416 No\r\nContent-Range: bytes */%u\r\nContent-Length: 0\r\n\r\n", SIZE);
                return;
        }
        if (from > 0)
                say(c, "HTTP/1.1 206 Part\r\nContent-Range: bytes %zu-%u/%u\r\n", from, SIZE - 1, SIZE);
        else
                say(c, "HTTP/1.1 200 OK\r\n");
        say(c, "ETag: %s\r\nContent-Length: %zu\r\n\r\n", etag, SIZE - from);
        send_content(c, from, MAX(from, end), state);
}

static void serve_whole(Connection *c)
{
        send_file(c, 'a', SIZE);
}

/* Breaks off twice. */
static void serve_in_three(Connection *c)
{
        send_file(c, 'a', c->n < 3 ? c->n * 100000 : SIZE);
}

/* Breaks off always, having got no further. */
static void serve_half(Connection *c)
{
        send_file(c, 'a', SIZE / 2);
}

/* Another file than the one that was begun. */
static void serve_changed(Connection *c)
{
        send_file(c, 'b', SIZE);
}

static void serve_missing(Connection *c)
{
        answer(c, "404 Not Found", "", "");
}

/* Does not support ranges, and closes the connection early the first time. */
static void serve_without_ranges(Connection *c)
{
        say(c, "HTTP/1.1 200 OK\r\nETag: \"a\"\r\nContent-Length: %u\r\n\r\n", SIZE);
        send_content(c, 0, c->n == 1 ? SIZE / 2 : SIZE, 'a');
}

/* A range of another file as if it were the same. */
static void serve_lies(Connection *c)
{
        char range[64];

        if (!asked(c->request, "Range", range, sizeof(range))) {
                send_file(c, 'b', SIZE);
                return;
        }
        if (asks_for(c, "/etag"))
                say(c, "HTTP/1.1 206 Part\r\nETag: \"b\"\r\nContent-Range: bytes %u-%u/%u\r\n\r\n", SIZE / 2,
                    SIZE - 1, SIZE);
        else if (asks_for(c, "/total"))
                say(c, "HTTP/1.1 206 Part\r\nContent-Range: bytes %u-%u/%u\r\n\r\n", SIZE / 2, SIZE,
                    SIZE + 1);
        else
                say(c, "HTTP/1.1 206 Part\r\nContent-Range: bytes 1-%u/%u\r\n\r\n", SIZE - 1, SIZE);
        send_content(c, SIZE / 2, SIZE, 'b');
}

/* No ETag, no length: an interrupted download cannot be resumed, and its end is not known in advance. */
static void serve_plain(Connection *c)
{
        say(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n", SIZE);
        send_content(c, 0, c->n < 3 ? SIZE / 2 : SIZE, 'a');
        if (c->n >= 3)
                say(c, "\r\n0\r\n\r\n");
}

static void serve_and_stall(Connection *c)
{
        if (c->n == 1) {
                send_file(c, 'a', SIZE / 2);
                server_stall(c);
        } else
                send_file(c, 'a', SIZE);
}

static unsigned long range_of(const Server *s)
{
        char range[64];

        return asked(s->last, "Range", range, sizeof(range)) ? strtoul(range + strlen("bytes="), NULL, 10)
                                                             : 0;
}

/* --- Whole --------------------------------------------------------------------------------------------- */

static void count_progress(uint64_t done, uint64_t total, void *userdata)
{
        uint64_t *seen = userdata;

        seen[0] = done;
        seen[1] = total;
}

TEST(whole)
{
        SERVER(s, serve_whole);
        NET(n, INSECURE_HTTP);
        uint64_t seen[2] = {};
        struct stat st;

        n.request.progress = count_progress;
        n.request.userdata = seen;
        ASSERT_OK(net_download(&n, &s, "/file"));
        ASSERT_TRUE(is_content(n.fd, 'a'));
        ASSERT_STREQ(n.reply.etag, "\"a\"");
        ASSERT_EQ(seen[0], SIZE);
        ASSERT_EQ(seen[1], SIZE);
        ASSERT_OK(fstat(n.fd, &st));
        ASSERT_EQ(st.st_nlink, 0);
        ASSERT_EQ(count_downloads(&n), 0);
}

static void serve_not_modified(Connection *c)
{
        say(c, "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n");
}

TEST(not_modified)
{
        SERVER(s, serve_not_modified);
        NET(n, INSECURE_HTTP);

        n.request.etag = "\"a\"";
        ASSERT_OK(net_download(&n, &s, "/file"));
        ASSERT_TRUE(n.reply.not_modified);
        ASSERT_EQ(n.fd, -EBADF);
        ASSERT_EQ(count_downloads(&n), 0);
}

static void serve_endless(Connection *c)
{
        say(c, "HTTP/1.1 200 OK\r\nETag: \"a\"\r\n\r\n");
        for (unsigned i = 0; i < 100 && send_content(c, 0, SIZE, 'a'); i++)
                ;
}

TEST(too_large)
{
        SERVER(s, serve_whole);
        SERVER(endless, serve_endless);
        NET(n, INSECURE_HTTP);

        n.request.size_max = SIZE - 1;
        ASSERT_ERR(net_download(&n, &s, "/file"), -EFBIG);
        ASSERT_CONTAINS(n.error.message, "it is larger than 299999 bytes");
        ASSERT_ERR(net_download(&n, &endless, "/file"), -EFBIG);
        ASSERT_EQ(count_downloads(&n), 0);
        n.request.size_max = SIZE;
        ASSERT_OK(net_download(&n, &s, "/file"));
}

static void serve_huge(Connection *c)
{
        say(c, "HTTP/1.1 200 OK\r\nETag: \"a\"\r\nContent-Length: 9000000000000000000\r\n\r\n");
        send_content(c, 0, SIZE, 'a');
}

TEST(no_room)
{
        SERVER(s, serve_huge);
        NET(n, INSECURE_HTTP);

        ASSERT_ERR(net_download(&n, &s, "/file"), -ENOSPC);
        ASSERT_CONTAINS(n.error.message, "the store has no space for 9000000000000000000 bytes");
        ASSERT_EQ(count_downloads(&n), 0);
}

/* Sends N MiB, and announces LENGTH bytes, or no length. */
static void send_large(Connection *c, unsigned n, unsigned long length)
{
        static char zeros[1 << 20];

        say(c, "HTTP/1.1 200 OK\r\nETag: \"a\"\r\n");
        if (length > 0)
                say(c, "Content-Length: %lu\r\n", length);
        say(c, "\r\n");
        for (unsigned i = 0; i < n && say_bytes(c, zeros, sizeof(zeros)); i++) {
        }
}

static void serve_large(Connection *c)
{
        send_large(c, 30, 0);
}

static void download_without_length(void)
{
        SERVER(s, serve_large);
        NET(n, INSECURE_HTTP);

        /* 64 MiB of 80 are reserved. */
        ASSERT_ERR(net_download(&n, &s, "/file"), -ENOSPC);
        ASSERT_CONTAINS(n.error.message, "the store has no space left but 67108864 bytes that are reserved");
        ASSERT_CONTAINS(n.error.hint, "acnspawn gc");
        ASSERT_EQ(count_downloads(&n), 0);
        ASSERT_EQ(s.n_requests, 1);
        /* The size that the image states counts, too. */
        n.request.size_max = 40000000;
        ASSERT_ERR(net_download(&n, &s, "/file"), -ENOSPC);
        ASSERT_CONTAINS(n.error.message, "the store has no space for 40000000 bytes: ");
        ASSERT_CONTAINS(n.error.message, "and 67108864 more reserved");
        n.request.size_max = SIZE;
        SERVER(whole, serve_whole);
        ASSERT_OK(net_download(&n, &whole, "/file"));
}

TEST(no_room_without_length)
{
        on_small_disk("size=80m", download_without_length);
}

/* Each of them alone would fit. */
static void serve_while_another_writes(Connection *c)
{
        static char zeros[1 << 20];
        const char *other = getenv("TMPDIR");
        _cleanup_close_ int dir_fd = open(other, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        say(c, "HTTP/1.1 200 OK\r\nContent-Length: 20971520\r\n\r\n");
        for (unsigned i = 0; i < 20; i++) {
                say_bytes(c, zeros, sizeof(zeros));
                if (i >= 10)
                        continue; /* so that there is some space left, however far the client is */
                char name[16];
                snprintf(name, sizeof(name), "other-%u", i);
                (void) write_file_new_at(dir_fd, name, zeros, sizeof(zeros), 0600);
        }
}

static void two_downloads(void)
{
        SERVER(s, serve_while_another_writes);
        NET(n, INSECURE_HTTP);

        ASSERT_ERR(net_download(&n, &s, "/file"), -ENOSPC);
        ASSERT_CONTAINS(n.error.message, "more reserved");
}

TEST(no_room_for_several)
{
        on_small_disk("size=92m", two_downloads);
}

static void download_without_inodes(void)
{
        SERVER(s, serve_whole);
        NET(n, INSECURE_HTTP);

        ASSERT_ERR(net_download(&n, &s, "/file"), -ENOSPC);
        ASSERT_CONTAINS(n.error.message, "no inodes left but 4096 that are reserved");
}

TEST(no_inodes)
{
        on_small_disk("size=80m,nr_inodes=4100", download_without_inodes);
}

/* --- What interrupted downloads occupy --------------------------------------------------------------- */

static int make_part(const Net *n, unsigned number, size_t size, time_t age)
{
        _cleanup_close_ int fd = -EBADF, dir_fd = openat(store_fd(n->store), "downloads",
                                                         O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        const struct timespec times[2] = {{.tv_sec = time(NULL) - age}, {.tv_sec = time(NULL) - age}};
        char part[32], info[32];

        snprintf(part, sizeof(part), "%04u.part", number);
        snprintf(info, sizeof(info), "%04u.json", number);
        fd = openat(dir_fd, part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 || (size > 0 && posix_fallocate(fd, 0, (off_t) size) != 0) || futimens(fd, times) < 0)
                return -EIO;
        return write_file_new_at(dir_fd, info, "{}", 2, 0600);
}

static bool has_part(const Net *n, unsigned number)
{
        char path[64];

        snprintf(path, sizeof(path), "downloads/%04u.part", number);
        return faccessat(store_fd(n->store), path, F_OK, 0) >= 0;
}

/* An eighth of 160 MiB: the oldest go first, but not one that is being written to. */
static void limit_parts(void)
{
        SERVER(s, serve_whole);
        NET(n, INSECURE_HTTP);

        for (unsigned i = 0; i < 4; i++)
                ASSERT_OK(make_part(&n, i, 8 << 20, 100 * (time_t) i));
        _cleanup_close_ int fd = openat(store_fd(n.store), "downloads/0003.part", O_RDONLY | O_CLOEXEC);
        ASSERT_OK(flock(fd, LOCK_EX));
        ASSERT_OK(net_download(&n, &s, "/file"));
        ASSERT_TRUE(has_part(&n, 0));
        ASSERT_TRUE(has_part(&n, 1));
        ASSERT_FALSE(has_part(&n, 2));
        ASSERT_TRUE(has_part(&n, 3));
        ASSERT_EQ(count_downloads(&n), 6);
        fd = safe_close(fd);
        ASSERT_OK(net_download(&n, &s, "/file"));
        ASSERT_EQ(count_downloads(&n), 4);
        for (unsigned i = 10; i < 300; i++)
                ASSERT_OK(make_part(&n, i, 0, 1000));
        ASSERT_OK(net_download(&n, &s, "/file"));
        ASSERT_EQ(count_downloads(&n), 2 * 256);
}

TEST(parts_are_limited)
{
        on_small_disk("size=160m", limit_parts);
}

static void serve_large_half(Connection *c)
{
        send_large(c, 14, 20 << 20);
}

static void leave_large_part(void)
{
        SERVER(s, serve_large_half);
        NET(n, INSECURE_HTTP);

        ASSERT_OK(make_part(&n, 1, 1 << 20, 100));
        ASSERT_ERR(net_download(&n, &s, "/file"), -ECONNRESET);
        ASSERT_TRUE(has_part(&n, 1));
        ASSERT_EQ(count_downloads(&n), 2);
}

/* More than an eighth by itself. */
TEST(large_part_is_not_kept)
{
        on_small_disk("size=100m", leave_large_part);
}

/* --- In parts ------------------------------------------------------------------------------------------ */

TEST(broken_off)
{
        SERVER(s, serve_in_three);
        NET(n, INSECURE_HTTP);

        ASSERT_OK(net_download(&n, &s, "/file"));
        ASSERT_TRUE(is_content(n.fd, 'a'));
        ASSERT_EQ(s.n_requests, 3);
        ASSERT_EQ(range_of(&s), 200000);
        ASSERT_CONTAINS(n.notes.data, "it is truncated: the connection ended after 100000 of 300000 bytes");
}

/* Leaves half of it in the store. */
static int leave_half(Net *n, Server *s)
{
        s->handler = serve_half;
        int r = net_download(n, s, "/file");
        return r == -ECONNRESET && count_downloads(n) == 2 ? 0 : -EBADMSG;
}

TEST(resumed)
{
        SERVER(s, serve_half);
        NET(n, INSECURE_HTTP);

        ASSERT_OK(leave_half(&n, &s));
        s.handler = serve_whole;
        ASSERT_OK(net_download(&n, &s, "/file"));
        ASSERT_EQ(range_of(&s), SIZE / 2);
        ASSERT_TRUE(is_content(n.fd, 'a'));
        ASSERT_EQ(n.reply.status, 200);
        ASSERT_STREQ(n.reply.etag, "\"a\"");
        ASSERT_EQ(count_downloads(&n), 0);
}

TEST(changed_meanwhile)
{
        SERVER(s, serve_half);
        NET(n, INSECURE_HTTP);

        ASSERT_OK(leave_half(&n, &s));
        s.handler = serve_changed;
        ASSERT_OK(net_download(&n, &s, "/file"));
        ASSERT_EQ(range_of(&s), SIZE / 2);
        ASSERT_TRUE(is_content(n.fd, 'b'));
}

TEST(gone_meanwhile)
{
        SERVER(s, serve_half);
        NET(n, INSECURE_HTTP);

        ASSERT_OK(leave_half(&n, &s));
        s.handler = serve_missing;
        ASSERT_ERR(net_download(&n, &s, "/file"), -ENOENT);
        ASSERT_EQ(count_downloads(&n), 0);
}

TEST(without_ranges)
{
        SERVER(s, serve_without_ranges);
        NET(n, INSECURE_HTTP);

        ASSERT_OK(net_download(&n, &s, "/file"));
        ASSERT_TRUE(is_content(n.fd, 'a'));
        ASSERT_EQ(s.n_requests, 2);
        ASSERT_EQ(range_of(&s), SIZE / 2);
}

TEST(lies_about_ranges)
{
        static const char *const paths[] = {"/etag", "/total", "/first"};
        SERVER(s, serve_half);
        NET(n, INSECURE_HTTP);

        for (size_t i = 0; i < ELEMENTSOF(paths); i++) {
                s.handler = serve_half;
                ASSERT_ERR(net_download(&n, &s, paths[i]), -ECONNRESET);
                s.handler = serve_lies;
                ASSERT_OK(net_download(&n, &s, paths[i]));
                ASSERT_TRUE(is_content(n.fd, 'b'));
        }
        ASSERT_EQ(count_downloads(&n), 0);
}

TEST(without_validator)
{
        SERVER(s, serve_plain);
        NET(n, INSECURE_HTTP);

        ASSERT_OK(net_download(&n, &s, "/file"));
        ASSERT_TRUE(is_content(n.fd, 'a'));
        ASSERT_EQ(range_of(&s), 0);
        s.n_requests = 0;
        ASSERT_OK(net_open(&n, INSECURE_HTTP));
}

/* The names of what lies in downloads/ are the SHA-256 of the URL. */
static int find_part(const Net *n, char *ret, size_t size)
{
        DIR *d = fdopendir(openat(store_fd(n->store), "downloads", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        int r = -ENOENT;

        for (struct dirent *de; d && (de = readdir(d));)
                if (endswith(de->d_name, ".part")) {
                        snprintf(ret, size, "downloads/%s", de->d_name);
                        r = 0;
                }
        if (d)
                closedir(d);
        return r;
}

/* The partial file is complete, but this is not recorded. */
TEST(complete_already)
{
        SERVER(s, serve_half);
        NET(n, INSECURE_HTTP);
        char path[300];

        ASSERT_OK(leave_half(&n, &s));
        ASSERT_OK(find_part(&n, path, sizeof(path)));
        _cleanup_close_ int fd = openat(store_fd(n.store), path, O_WRONLY | O_CLOEXEC);
        ASSERT_GE(fd, 0);
        for (size_t i = 0; i < SIZE; i++) {
                char c = content_at(i, 'a');
                ASSERT_EQ(write(fd, &c, 1), 1);
        }
        s.handler = serve_whole;
        ASSERT_OK(net_download(&n, &s, "/file"));
        ASSERT_EQ(range_of(&s), SIZE);
        ASSERT_EQ(n.reply.status, 200);
        ASSERT_STREQ(n.reply.etag, "\"a\"");
        ASSERT_TRUE(is_content(n.fd, 'a'));
        /* Longer than the file: begun anew. */
        ASSERT_OK(leave_half(&n, &s));
        ASSERT_OK(fd = safe_close(fd) == -EBADF ? openat(store_fd(n.store), path, O_WRONLY | O_CLOEXEC)
                                                : -1);
        ASSERT_OK(ftruncate(fd, SIZE + 5));
        s.handler = serve_whole;
        ASSERT_OK(net_download(&n, &s, "/file"));
        ASSERT_TRUE(is_content(n.fd, 'a'));
}

/* Whatever NAME.json contains, the download starts again. */
TEST(damaged_notes)
{
        static const char *const damage[] = {"",
                                             "{",
                                             "[]",
                                             "{\"url\":1}",
                                             "{\"etag\":\"\\\"a\\\"\"}",
                                             "{\"url\":\"http://example.com/\",\"etag\":\"\\\"a\\\"\"}"};
        SERVER(s, serve_half);
        NET(n, INSECURE_HTTP);
        char path[300];

        for (size_t i = 0; i < ELEMENTSOF(damage); i++) {
                ASSERT_OK(leave_half(&n, &s));
                ASSERT_OK(find_part(&n, path, sizeof(path)));
                memcpy(strrchr(path, '.'), ".json", strlen(".json") + 1);
                ASSERT_OK(write_file_atomic_at(store_fd(n.store), path, damage[i], strlen(damage[i]), 0600,
                                               false));
                s.handler = serve_whole;
                ASSERT_OK(net_download(&n, &s, "/file"));
                ASSERT_EQ(range_of(&s), 0);
                ASSERT_TRUE(is_content(n.fd, 'a'));
        }
}

/* Another process downloads the same file: there are two downloads, neither of which waits. */
TEST(locked)
{
        SERVER(s, serve_half);
        NET(n, INSECURE_HTTP);
        char path[300];

        ASSERT_OK(leave_half(&n, &s));
        ASSERT_OK(find_part(&n, path, sizeof(path)));
        _cleanup_close_ int fd = openat(store_fd(n.store), path, O_RDONLY | O_CLOEXEC);
        ASSERT_OK(flock(fd, LOCK_EX));
        s.handler = serve_whole;
        ASSERT_OK(net_download(&n, &s, "/file"));
        ASSERT_EQ(range_of(&s), 0);
        ASSERT_TRUE(is_content(n.fd, 'a'));
        ASSERT_EQ(count_downloads(&n), 2);
}

/* --- Collected ----------------------------------------------------------------------------------------- */

static int make_old(const Net *n, const char *path)
{
        const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};

        return utimensat(store_fd(n->store), path, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static void count_removed(const GcItem *item, void *userdata)
{
        *(unsigned *) userdata += streq(item->kind, "download") && streq(item->state, "unfinished");
}

/* Old ones are removed, with their metadata, unless they are in use. */
TEST(collected)
{
        SERVER(s, serve_half);
        NET(n, INSECURE_HTTP);
        unsigned removed = 0;
        GcOptions o = {.expire_downloads_usec = 3600 * 1000000ULL,
                       .removed = count_removed,
                       .userdata = &removed};
        char path[300];

        ASSERT_OK(leave_half(&n, &s));
        ASSERT_OK(store_gc(n.store, &o, &n.error));
        ASSERT_EQ(count_downloads(&n), 2);
        ASSERT_OK(find_part(&n, path, sizeof(path)));
        ASSERT_OK(make_old(&n, path));
        o.dry_run = true;
        ASSERT_OK(store_gc(n.store, &o, &n.error));
        ASSERT_EQ(removed, 1);
        ASSERT_EQ(count_downloads(&n), 2);
        o.dry_run = false;
        _cleanup_close_ int fd = openat(store_fd(n.store), path, O_RDONLY | O_CLOEXEC);
        ASSERT_OK(flock(fd, LOCK_EX));
        ASSERT_OK(store_gc(n.store, &o, &n.error));
        ASSERT_EQ(count_downloads(&n), 2);
        fd = safe_close(fd);
        ASSERT_OK(store_gc(n.store, &o, &n.error));
        ASSERT_EQ(removed, 2);
        ASSERT_EQ(count_downloads(&n), 0);
        /* Temporary files of processes that were killed. */
        ASSERT_OK(write_file_new_at(store_fd(n.store), "downloads/x.json", "{}", 2, 0600));
        ASSERT_OK(write_file_new_at(store_fd(n.store), "downloads/x.json.1-1.tmp", "{}", 2, 0600));
        ASSERT_OK(make_old(&n, "downloads/x.json"));
        ASSERT_OK(make_old(&n, "downloads/x.json.1-1.tmp"));
        ASSERT_OK(store_gc(n.store, &o, &n.error));
        ASSERT_EQ(count_downloads(&n), 0);
}

static void collect_on_full_disk(void)
{
        NET(n, INSECURE_HTTP);
        GcOptions o = GC_OPTIONS_DEFAULT;
        _cleanup_close_ int fd = -EBADF;

        ASSERT_OK(make_part(&n, 1, 1 << 20, 3600));
        ASSERT_OK(make_part(&n, 2, 1 << 20, 60));
        ASSERT_OK(make_part(&n, 3, 1 << 20, 25 * 3600));
        ASSERT_OK(store_gc(n.store, &o, &n.error));
        ASSERT_TRUE(has_part(&n, 1));
        ASSERT_TRUE(has_part(&n, 2));
        ASSERT_FALSE(has_part(&n, 3)); /* after a day */
        fd = openat(n.scratch.fd, "rest", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        ASSERT_EQ(posix_fallocate(fd, 0, 18 << 20), 0);
        o.expire_downloads_usec = UINT64_MAX;
        ASSERT_OK(store_gc(n.store, &o, &n.error));
        ASSERT_TRUE(has_part(&n, 1));
        o = GC_OPTIONS_DEFAULT;
        ASSERT_OK(store_gc(n.store, &o, &n.error));
        ASSERT_FALSE(has_part(&n, 1));
        ASSERT_TRUE(has_part(&n, 2));
}

TEST(collected_early_on_a_full_disk)
{
        on_small_disk("size=22m", collect_on_full_disk);
}

/* --- Killed and cancelled ------------------------------------------------------------------------------ */

static bool has_half(const Net *n)
{
        struct stat st;
        char path[300];

        return find_part(n, path, sizeof(path)) >= 0 && fstatat(store_fd(n->store), path, &st, 0) >= 0 &&
               st.st_size >= SIZE / 2;
}

static bool wait_for_half(const Net *n)
{
        return WAIT_FOR(has_half(n));
}

TEST(killed)
{
        _cleanup_(server_done) Server s = {.fd = -1};
        NET(n, INSECURE_HTTP);
        int status;

        ASSERT_OK(server_listen(&s, serve_and_stall));
        pid_t pid = fork();
        ASSERT_GE(pid, 0);
        if (pid == 0) {
                (void) net_download(&n, &s, "/file");
                _exit(1);
        }
        ASSERT_OK(server_start(&s));
        bool half = wait_for_half(&n);
        ASSERT_OK(kill(pid, SIGKILL));
        ASSERT_EQ(waitpid(pid, &status, 0), pid);
        ASSERT_TRUE(half);
        ASSERT_OK(net_download(&n, &s, "/file"));
        ASSERT_EQ(range_of(&s), SIZE / 2);
        ASSERT_TRUE(is_content(n.fd, 'a'));
        ASSERT_EQ(count_downloads(&n), 0);
}

static void *cancel_at_half(void *userdata)
{
        const Net *n = userdata;

        if (wait_for_half(n))
                operation_cancel(n->operation);
        return NULL;
}

/* The part is kept, for a later operation. */
TEST(cancelled)
{
        _cleanup_(operation_freep) Operation *o = NULL;
        SERVER(s, serve_and_stall);
        NET(n, INSECURE_HTTP);
        pthread_t thread;

        ASSERT_OK(operation_new(NULL, &o));
        n.operation = o;
        ASSERT_OK(net_open(&n, INSECURE_HTTP));
        ASSERT_EQ(pthread_create(&thread, NULL, cancel_at_half, &n), 0);
        int r = net_download(&n, &s, "/file");
        (void) pthread_join(thread, NULL);
        ASSERT_ERR(r, -EINTR);
        ASSERT_EQ(count_downloads(&n), 2);
        ASSERT_EQ(s.n_requests, 1);

        n.operation = NULL;
        ASSERT_OK(net_open(&n, INSECURE_HTTP));
        ASSERT_OK(net_download(&n, &s, "/file"));
        ASSERT_EQ(range_of(&s), SIZE / 2);
        ASSERT_TRUE(is_content(n.fd, 'a'));
        ASSERT_EQ(count_downloads(&n), 0);
}

/* *HALF: by then half of the file has come. */
static void pass_deadline(uint64_t usec, bool *half)
{
        _cleanup_(operation_freep) Operation *o = NULL;
        SERVER(s, serve_and_stall);
        NET(n, INSECURE_HTTP);
        const OperationOptions options = {.deadline_usec = now_usec(CLOCK_MONOTONIC) + usec};

        *half = true;
        ASSERT_OK(operation_new(&options, &o));
        n.operation = o;
        ASSERT_OK(net_open(&n, INSECURE_HTTP));
        ASSERT_ERR(net_download(&n, &s, "/file"), -ETIME);
        ASSERT_CONTAINS(n.error.message, "The deadline has passed");
        *half = has_half(&n);
        if (!*half)
                return;
        ASSERT_EQ(s.n_requests, 1);
        ASSERT_ERR(net_download(&n, &s, "/file"), -ETIME);
        ASSERT_EQ(s.n_requests, 1);
}

/* There is no further attempt, and it does not wait for a stalled connection. On a busy machine the server may not be asked in time: then
 * there is more of it. */
TEST(deadline)
{
        bool half = false;

        for (uint64_t usec = 100000; !half && usec < 30 * UINT64_C(1000000); usec *= 2)
                pass_deadline(usec, &half);
        ASSERT_TRUE(half);
}

/* --- Faults -------------------------------------------------------------------------------------------- */

typedef struct Faulty {
        Net *net;
        const Server *server;
} Faulty;

/* In another process, so with a separate connection. */
static int download_anew(void *userdata, Error *e)
{
        const Faulty *x = userdata;
        Net *n = x->net;

        int r = net_open(n, INSECURE_HTTP);
        if (r >= 0)
                r = net_download(n, x->server, "/file");
        *e = TAKE_GENERIC(n->error, Error, ERROR_NULL);
        return r >= 0 && !is_content(n->fd, 'a') ? -EBADMSG : r;
}

/* For a fault at each step, and if killed at each step: a reported success means that the file is complete,
 * and the next download gets it, by resuming or anew, and leaves nothing that is not collected. */
static void download_under(FaultKind kind)
{
        SERVER(s, serve_whole);
        NET(n, INSECURE_HTTP);
        Faulty x = {.net = &n, .server = &s};
        bool more = true;
        unsigned step;

        for (step = 1; more && step < 500; step++) {
                Fault f = {.kind = kind, .step = step};

                int r = fault_run(&f, download_anew, &x);
                if (r == -ENOSYS)
                        TEST_SKIP("system calls cannot be made to fail here");
                ASSERT_OK(r);
                more = f.reached;
                if (!more)
                        ASSERT_OK(f.result);
                if (f.result < 0 && (f.result == -EBADMSG || !f.message[0]))
                        TEST_FAIL("%s at step %u (system call %d): %d, \"%s\"", fault_kinds[kind].name, step,
                                  f.call, f.result, f.message);
                ASSERT_OK(net_download(&n, &s, "/file"));
                ASSERT_TRUE(is_content(n.fd, 'a'));
                /* Half a note, if it was killed at that. */
                if (kind == FAULT_KILL)
                        ASSERT_OK(store_gc(n.store, &(GcOptions){.expire_prepared_usec = UINT64_MAX},
                                           &n.error));
                if (count_downloads(&n) > 0)
                        TEST_FAIL("%s at step %u (system call %d): it left something",
                                  fault_kinds[kind].name, step, f.call);
        }
        ASSERT_FALSE(more);
        ASSERT_GT(step, 3);
}

TEST(e1_download_killed)
{
        download_under(FAULT_KILL);
}
TEST(e2_download_enospc)
{
        download_under(FAULT_ENOSPC);
}
TEST(e2_download_eio)
{
        download_under(FAULT_EIO);
}
TEST(e2_download_emfile)
{
        download_under(FAULT_EMFILE);
}

int main(void)
{
        RUN(whole);
        RUN(not_modified);
        RUN(too_large);
        RUN(no_room);
        RUN(no_room_without_length);
        RUN(no_room_for_several);
        RUN(no_inodes);
        RUN(parts_are_limited);
        RUN(large_part_is_not_kept);
        RUN(broken_off);
        RUN(resumed);
        RUN(changed_meanwhile);
        RUN(gone_meanwhile);
        RUN(without_ranges);
        RUN(lies_about_ranges);
        RUN(without_validator);
        RUN(complete_already);
        RUN(damaged_notes);
        RUN(locked);
        RUN(collected);
        RUN(collected_early_on_a_full_disk);
        RUN(killed);
        RUN(e1_download_killed);
        RUN(e2_download_enospc);
        RUN(e2_download_eio);
        RUN(e2_download_emfile);
        RUN(cancelled);
        RUN(deadline);
        return TEST_END();
}
