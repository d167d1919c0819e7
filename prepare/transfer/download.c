/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The body into a file of the store's downloads/ that can be resumed.
 *
 * NAME.part has the data so far, NAME.json describes the file: its ETag (or date), its length; NAME is the
 * SHA-256 of the URL. NAME.json is written before the first byte of NAME.part, and data is only appended if
 * the server confirms that it continues the same file (If-Range), so if the process is killed at any point,
 * the remaining part is the beginning of a file with a known ETag, or is started again. After a crash of the
 * machine only synced data is used. A downloading process has a flock on NAME.part; another process with the
 * same URL downloads into an unnamed file, without waiting.
 *
 * A complete file is unlinked at once: its space is freed when the caller closes it.
 */

#include <sys/file.h>
#include <sys/stat.h>

#include "library/libcrypto.h"
#include "schema/schema.h"

#include "prepare/transfer/transfer-internal.h"

#define INFO_SIZE_MAX (64U << 10)
#define WRITEBACK_SIZE (8ULL << 20) /* bytes after which the kernel begins to write them */

typedef struct Download {
        Sink sink;       /* first */
        const char *url; /* without credentials */
        int dir_fd, fd;
        char *part, *info;          /* names in it; NULL: the file has none */
        char *etag, *last_modified; /* one of them, if it can be resumed at all */
        uint64_t written_back;
        uint64_t unchecked; /* bytes written since the free space was last read */
        bool ranged;        /* the current request is for what is missing */
} Download;

static void download_done(Download *d)
{
        safe_close(d->fd);
        safe_close(d->dir_fd);
        free(d->part);
        free(d->info);
        free(d->etag);
        free(d->last_modified);
}

static bool can_be_resumed(const Download *d)
{
        return d->part && (d->etag || d->last_modified);
}

/* --- NAME.json ----------------------------------------------------------------------------------------- */

static int add_string(json_object *o, const char *key, const char *value)
{
        return value ? json_member_add_text(o, key, value) : 0;
}

static int write_info(const Download *d, uint64_t synced)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        _cleanup_free_ char *boot = NULL;

        (void) read_boot_id(&boot);
        if (add_string(o, "url", d->url) < 0 || add_string(o, "etag", d->etag) < 0 ||
            add_string(o, "lastModified", d->last_modified) < 0 || add_string(o, "boot", boot) < 0 ||
            (d->sink.total != UNKNOWN &&
             json_member_add(o, "total", json_object_new_uint64(d->sink.total)) < 0) ||
            json_member_add(o, "synced", json_object_new_uint64(synced)) < 0)
                return -ENOMEM;
        const char *text = json_print(o);
        return text ? write_file_atomic_at(d->dir_fd, d->info, text, strlen(text), 0600, false) : -ENOMEM;
}

static uint64_t info_number(json_object *o, const char *key, uint64_t fallback)
{
        json_object *v = NULL;

        if (!json_object_object_get_ex(o, key, &v) || !json_object_is_type(v, json_type_int))
                return fallback;
        return json_object_get_uint64(v);
}

static const char *info_string(json_object *o, const char *key)
{
        json_object *v = NULL;

        if (!json_object_object_get_ex(o, key, &v) || !json_object_is_type(v, json_type_string))
                return NULL;
        const char *s = json_object_get_string(v);
        for (const char *p = s; *p; p++) /* it becomes a header */
                if ((unsigned char) *p < ' ' || *p == 0x7f)
                        return NULL;
        return s;
}

static int take_info(Download *d, json_object *o)
{
        const char *etag = info_string(o, "etag"), *date = info_string(o, "lastModified");
        _cleanup_free_ char *boot = NULL;
        struct stat st;

        (void) read_boot_id(&boot);
        if (!streq_ptr(info_string(o, "url"), d->url) || (!etag && !date))
                return 0;
        if (fstat(d->fd, &st) < 0)
                return -errno;
        if ((etag && !(d->etag = strdup(etag))) || (!etag && !(d->last_modified = strdup(date))))
                return -ENOMEM;
        uint64_t done = (uint64_t) st.st_size;
        if (!boot || !streq_ptr(info_string(o, "boot"), boot))
                done = MIN(done, info_number(o, "synced", 0));
        d->sink.total = info_number(o, "total", UNKNOWN);
        d->sink.done = done <= d->sink.total ? done : 0;
        return 0;
}

/* What cannot be read means only that the download begins anew. */
static int load_info(Download *d)
{
        _cleanup_free_ char *text = NULL;
        _cleanup_json_ json_object *o = NULL;
        size_t size = 0;

        int r = read_file_at(d->dir_fd, d->info, INFO_SIZE_MAX, &text, &size);
        if (r >= 0)
                r = json_parse_strict(text, size, &o, NULL, NULL);
        if (r < 0)
                return r == -ENOMEM ? r : 0;
        return json_object_is_type(o, json_type_object) ? take_info(d, o) : 0;
}

/* --- NAME.part ----------------------------------------------------------------------------------------- */

static int make_names(Download *d)
{
        unsigned char hash[EVP_MAX_MD_SIZE];
        unsigned size = 0;

        if (EVP_Digest(d->url, strlen(d->url), hash, &size, EVP_sha256(), NULL) != 1)
                return -ENOMEM;
        _cleanup_free_ char *name = hex_encode(hash, size);
        if (!name)
                return -ENOMEM;
        int r = xasprintf(&d->part, "%s.part", name);
        return r < 0 ? r : xasprintf(&d->info, "%s.json", name);
}

/* 1: locked. 0: another process has the lock. -EAGAIN: it was removed meanwhile. */
static int open_and_lock(Download *d)
{
        struct stat here, there;
        _cleanup_close_ int fd =
                        openat(d->dir_fd, d->part,
                               O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK, 0600);

        if (fd < 0)
                return -errno;
        if (flock(fd, LOCK_EX | LOCK_NB) < 0)
                return errno == EWOULDBLOCK ? 0 : -errno;
        if (fstat(fd, &here) < 0)
                return -errno;
        if (fstatat(d->dir_fd, d->part, &there, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? -EAGAIN : -errno;
        if (here.st_ino != there.st_ino || here.st_dev != there.st_dev)
                return -EAGAIN;
        if (!S_ISREG(here.st_mode))
                return -EBADMSG;
        d->fd = TAKE_FD(fd);
        return 1;
}

static int open_without_name(Download *d)
{
        free(d->part);
        free(d->info);
        d->part = d->info = NULL;
        d->fd = openat(d->dir_fd, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
        return d->fd < 0 ? -errno : 0;
}

static int open_part(Download *d)
{
        int r = make_names(d);

        if (r < 0)
                return r;
        for (unsigned i = 0; i < 16; i++) {
                r = open_and_lock(d);
                if (r != -EAGAIN)
                        break;
        }
        if (r == 0 || r == -EAGAIN)
                return open_without_name(d);
        return r < 0 ? r : load_info(d);
}

static int download_open(Download *d, Store *s, Error *e)
{
        if (mkdirat(store_fd(s), "downloads", 0700) < 0 && errno != EEXIST)
                return error_set_errno(e, errno, "Cannot create the directory %s/downloads", store_path(s));
        d->dir_fd = openat(store_fd(s), "downloads", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (d->dir_fd < 0)
                return error_set_errno(e, errno, "Cannot open the directory %s/downloads", store_path(s));
        (void) downloads_limit(d->dir_fd, NULL);
        int r = open_part(d);
        return r < 0 ? error_set_errno(e, r, "Cannot open a file in %s/downloads", store_path(s)) : 0;
}

static void remove_names(Download *d)
{
        if (!d->part)
                return;
        (void) unlinkat(d->dir_fd, d->info, 0);
        (void) unlinkat(d->dir_fd, d->part, 0);
}

/* --- While it comes ------------------------------------------------------------------------------------ */

static int add_range(Sink *s, struct curl_slist **l)
{
        Download *d = (Download *) s;
        _cleanup_free_ char *range = NULL, *condition = NULL;

        d->ranged = s->done > 0 && (d->etag || d->last_modified);
        if (!d->ranged) {
                s->done = 0;
                return 0;
        }
        if (xasprintf(&range, "Range: bytes=%llu-", (unsigned long long) s->done) < 0 ||
            xasprintf(&condition, "If-Range: %s", d->etag ?: d->last_modified) < 0)
                return -ENOMEM;
        struct curl_slist *n = curl_slist_append(*l, range);
        if (n) {
                *l = n;
                n = curl_slist_append(*l, condition);
        }
        if (!n)
                return -ENOMEM;
        *l = n;
        return 0;
}

/* The size that the server or the image's manifest states, without what is there; 0 if neither does. */
static uint64_t missing_size(const Sink *s)
{
        uint64_t size = MIN(s->total, s->size_max);

        return size == UNKNOWN ? 0 : size - MIN(s->done, size);
}

/* Before anything is written, and again and again: the size may be unknown, and others write to the same
 * disk, too. */
static int check_room(Download *d, Error *e)
{
        uint64_t missing = missing_size(&d->sink);
        FreeSpace space;
        int r;

        d->unchecked = 0;
        if (free_space_read(d->fd, &space) < 0)
                return 0;
        if (space.inodes == 0)
                r = error_set(e, -ENOSPC,
                              "the file system of the store has no inodes left but %u that are reserved",
                              INODE_RESERVE);
        else if (space.bytes == 0)
                r = error_set(e, -ENOSPC, "the store has no space left but %llu bytes that are reserved",
                              DISK_RESERVE);
        else if (space.bytes < missing)
                r = error_set(e, -ENOSPC,
                              "the store has no space for %llu bytes: %llu are free, and %llu more reserved",
                              (unsigned long long) missing, (unsigned long long) space.bytes, DISK_RESERVE);
        else
                return 0;
        return error_hint(e, r, "Remove unused pods and images: acnspawn gc, acnspawn image rm.");
}

static int go_on(Download *d, const Response *r, Error *e)
{
        Sink *s = &d->sink;

        if (!d->ranged)
                return error_set(e, -EBADMSG,
                                 "the server sends a part although the whole was requested (206)");
        if (r->range_first != s->done ||
            (s->total != UNKNOWN && r->range_total != UNKNOWN && s->total != r->range_total) ||
            (d->etag && r->etag && !streq(d->etag, r->etag))) {
                s->done = 0;
                s->total = UNKNOWN;
                return error_set(e, -ESTALE, "the server continues with a different file");
        }
        if (r->range_total != UNKNOWN)
                s->total = r->range_total;
        if (ftruncate(d->fd, (off_t) s->done) < 0)
                return error_set_errno(e, errno, "the download cannot be resumed");
        return check_room(d, e);
}

/* A weak ETag is for what means the same, not for the same bytes. */
static int take_validator(Download *d, const Response *r)
{
        free(d->etag);
        free(d->last_modified);
        d->etag = d->last_modified = NULL;
        if (r->etag && r->etag[0] == '"') {
                d->etag = strdup(r->etag);
                return d->etag ? 0 : -ENOMEM;
        }
        if (!r->etag && r->last_modified && r->last_modified_is_strong) {
                d->last_modified = strdup(r->last_modified);
                return d->last_modified ? 0 : -ENOMEM;
        }
        return 0;
}

static int start_anew(Download *d, const Response *r, Error *e)
{
        d->sink.done = 0;
        d->sink.total = r->length;
        d->written_back = 0;
        if (ftruncate(d->fd, 0) < 0)
                return error_set_errno(e, errno, "the download cannot be restarted");
        int k = take_validator(d, r);
        if (k >= 0 && d->info)
                k = write_info(d, 0);
        if (k < 0)
                return error_set_errno(e, k, "the download cannot be recorded in the store");
        return check_room(d, e);
}

static int download_begin(Sink *s, const Response *r, Error *e)
{
        Download *d = (Download *) s;

        int k = r->status == 206 ? go_on(d, r, e) : start_anew(d, r, e);
        if (k < 0)
                return k;
        if (lseek(d->fd, (off_t) s->done, SEEK_SET) < 0)
                return error_set_errno(e, errno, "the file in the store cannot be written to");
        return 0;
}

static int download_write(Sink *s, const void *data, size_t n, Error *e)
{
        Download *d = (Download *) s;

        d->unchecked += n;
        int r = d->unchecked >= SPACE_INTERVAL ? check_room(d, e) : 0;
        if (r < 0)
                return r;
        r = loop_write(d->fd, data, n);
        if (r < 0) {
                r = error_set_errno(e, r, "the file in the store cannot be written to");
                if (r == -ENOSPC || r == -EDQUOT)
                        (void) error_hint(e, r,
                                          "Remove unused pods and images: acnspawn gc, acnspawn image rm.");
                return r;
        }
        /* So that memory does not fill with what has not been written yet. */
        if (s->done + n - MIN(d->written_back, s->done) >= WRITEBACK_SIZE) {
                (void) sync_file_range(d->fd, (off_t) d->written_back, 0, SYNC_FILE_RANGE_WRITE);
                d->written_back = s->done + n;
        }
        return 0;
}

/* Killed after the last byte, before it was known to be the last. */
static bool download_is_complete(const Sink *s, const Response *r)
{
        const Download *d = (const Download *) s;

        return d->ranged && r->range_total == s->done && (!r->etag || !d->etag || streq(r->etag, d->etag));
}

/* --- All of it ----------------------------------------------------------------------------------------- */

/* What is left of a failure stays if the next try can go on with it. */
static void keep_or_remove(Download *d, int r)
{
        static const int hopeless[] = {-ENOENT, -EFBIG, -ENOSPC, -EDQUOT, -EIO, -EROFS, -EBADMSG, -ESTALE};

        if (!d->part)
                return;
        bool keep = can_be_resumed(d) && d->sink.done > 0;
        for (size_t i = 0; i < ELEMENTSOF(hopeless); i++)
                keep = keep && r != hopeless[i];
        if (!keep || downloads_limit(d->dir_fd, d->part) == 0 || fdatasync(d->fd) < 0 ||
            write_info(d, d->sink.done) < 0)
                remove_names(d);
}

static int copy_if_missing(const char *from, char **to)
{
        if (!*to && from)
                *to = strdup(from);
        return *to || !from ? 0 : -ENOMEM;
}

/* The reply does not show that the file was downloaded in parts. */
static int make_whole(const Download *d, TransferReply *reply)
{
        if (reply->status != 206 && reply->status != 416)
                return 0;
        reply->status = 200;
        int r = copy_if_missing(d->etag, &reply->etag);
        return r < 0 ? r : copy_if_missing(d->last_modified, &reply->last_modified);
}

static int finish(Download *d, TransferReply *reply, int *ret_fd, Error *e)
{
        remove_names(d);
        if (make_whole(d, reply) < 0)
                return error_oom(e);
        if (reply->not_modified) {
                *ret_fd = -EBADF;
                return 0;
        }
        if (lseek(d->fd, 0, SEEK_SET) < 0)
                return error_set_errno(e, errno, "Cannot read the downloaded file");
        (void) flock(d->fd, LOCK_UN);
        *ret_fd = TAKE_FD(d->fd);
        return 0;
}

int transfer_download(Transfer *t, const TransferRequest *r, Store *s, int *ret_fd, TransferReply *ret,
                      Error *e)
{
        _cleanup_(transfer_reply_done) TransferReply own = TRANSFER_REPLY_NULL;
        TransferReply *reply = ret ?: &own;
        _cleanup_free_ char *url = NULL;
        _cleanup_(download_done) Download d = {.dir_fd = -EBADF,
                                               .fd = -EBADF,
                                               .sink = {.headers = add_range,
                                                        .begin = download_begin,
                                                        .write = download_write,
                                                        .is_complete = download_is_complete,
                                                        .total = UNKNOWN,
                                                        .size_max = r->size_max ?: UNKNOWN}};

        *reply = TRANSFER_REPLY_NULL;
        int k = url_check(r->url, t->options.insecure | r->insecure, e);
        if (k < 0)
                return k;
        if (url_without_credentials(r->url, &url) < 0)
                return error_oom(e);
        d.url = url;
        k = download_open(&d, s, e);
        if (k < 0)
                return k;
        d.written_back = d.sink.done;
        k = transfer_perform(t, r, &d.sink, reply, e);
        if (k < 0) {
                keep_or_remove(&d, k);
                return k;
        }
        return finish(&d, reply, ret_fd, e);
}
