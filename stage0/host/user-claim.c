/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Tells systemd which users are those of a running pod.
 *
 * systemd-nspawn picks a range of users for a container (-U, --private-users=pick) by the lock of a file that is named by the first
 * one, below /run/systemd/nspawn-uid, and unless that is a user or group of the host. So the supervisor
 * holds the locks of its ranges, and the first user and group of each exist as long: as records in /run/userdb, which nss-systemd and
 * systemd's other programs read (nss-systemd(8)).
 *
 * nspawn removes the file before it releases its lock, and so is done here: a process that gets the lock of a file that was removed
 * tries again. What is left of a process that was killed is not locked; it is removed with the pod, unless another pod has the
 * range by then.
 *
 * Users that the owner of a pod has chosen may begin and end within such a range, of which systemd knows only the whole: then the range
 * that they begin in has the lock alone. The first one has the users of the host: systemd does not pick it, and it needs no lock nor
 * records.
 */

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "stage0/host/host.h"
#include "stage0/host/user-claim.h"

#define LOCKS "/run/systemd/nspawn-uid"
#define RECORDS "/run/userdb"
#define ATTEMPTS_MAX 16U

struct UserClaim {
        uint32_t base;
        size_t n;
        int locks[]; /* one of each range; -EBADF: of the host's users */
};

/* --- Locks --------------------------------------------------------------------------------------------- */

static int lock_path(uint32_t base, char path[static 64])
{
        return snprintf(path, 64, LOCKS "/%" PRIu32, base);
}

/* Also by flock(), which old versions of nspawn use. */
static int lock_file(int fd)
{
        struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

        if (fcntl(fd, F_OFD_SETLK, &whole) < 0)
                return errno == EACCES ? -EAGAIN : -errno;
        return flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : 0;
}

/* -EAGAIN: another process has it. */
static int take_lock(uint32_t base, int flags)
{
        char path[64];

        (void) lock_path(base, path);
        for (unsigned i = 0; i < ATTEMPTS_MAX; i++) {
                _cleanup_close_ int fd =
                                open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | flags, 0600);
                struct stat st;

                if (fd < 0)
                        return -errno;
                int r = lock_file(fd);
                if (r < 0)
                        return r;
                if (fstat(fd, &st) < 0)
                        return -errno;
                if (st.st_nlink > 0)
                        return TAKE_FD(fd);
        }
        return -EAGAIN;
}

/* --- Records ------------------------------------------------------------------------------------------- */

static const struct {
        const char *suffix, *format;
} records[] = {
                {"user",
                 "{\"userName\":\"acnspawn-%" PRIu32 "\",\"uid\":%" PRIu32 ",\"gid\":%" PRIu32
                 ",\"realName\":\"Root of a pod of acnspawn\",\"disposition\":\"container\",\"locked\":true,"
                 "\"homeDirectory\":\"/\",\"shell\":\"/usr/sbin/nologin\"}\n"},
                {"group", "{\"groupName\":\"acnspawn-%" PRIu32 "\",\"gid\":%" PRIu32
                          ",\"disposition\":\"container\"}\n"},
};

static void record_names(uint32_t base, size_t i, char name[static 64], char number[static 64])
{
        snprintf(name, 64, "acnspawn-%" PRIu32 ".%s", base, records[i].suffix);
        snprintf(number, 64, "%" PRIu32 ".%s", base, records[i].suffix);
}

/* By name, and by number as a link to it. */
static int write_record(int dir_fd, uint32_t base, size_t i)
{
        char name[64], number[64], text[512];

        record_names(base, i, name, number);
        snprintf(text, sizeof(text), records[i].format, base, base, base);
        int r = write_file_atomic_at(dir_fd, name, text, strlen(text), 0644, false);
        if (r < 0)
                return r;
        return symlinkat(name, dir_fd, number) < 0 && errno != EEXIST ? -errno : 0;
}

/* The number may be another's record. */
static void remove_record(int dir_fd, const char *name, const char *number)
{
        char target[64];

        ssize_t n = readlinkat(dir_fd, number, target, sizeof(target));
        if (n == (ssize_t) strlen(name) && memcmp(target, name, (size_t) n) == 0)
                (void) unlinkat(dir_fd, number, 0);
        (void) unlinkat(dir_fd, name, 0);
}

static void remove_records(uint32_t base)
{
        _cleanup_close_ int dir_fd = open(RECORDS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        char name[64], number[64];

        for (size_t i = 0; dir_fd >= 0 && i < ELEMENTSOF(records); i++) {
                record_names(base, i, name, number);
                remove_record(dir_fd, name, number);
        }
}

static int write_records(uint32_t base)
{
        int r = mkdir_p(RECORDS, 0755);
        _cleanup_close_ int dir_fd = r < 0 ? r : open(RECORDS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (dir_fd < 0)
                return r < 0 ? r : -errno;
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(records); i++)
                r = write_record(dir_fd, base, i);
        return r;
}

/* --- Claims -------------------------------------------------------------------------------------------- */

/* The records first, as the lock holds others off. */
static void give_back(uint32_t base, int lock_fd)
{
        char path[64];

        if (base == 0)
                return;
        (void) lock_path(base, path);
        remove_records(base);
        (void) unlink(path);
        safe_close(lock_fd);
}

UserClaim *user_claim_free(UserClaim *c)
{
        for (size_t i = 0; c && i < c->n; i++)
                give_back(c->base + (uint32_t) i * UID_RANGE_SIZE, c->locks[i]);
        free(c);
        return NULL;
}

static int claim_one(const Pod *p, UserClaim *c, Error *e)
{
        uint32_t base = c->base + (uint32_t) c->n * UID_RANGE_SIZE;
        int fd = -EBADF;

        if (base == 0) {
                c->locks[c->n++] = fd;
                return 0;
        }
        fd = take_lock(base, O_CREAT);
        if (fd == -EAGAIN || fd == -EWOULDBLOCK) {
                int r = error_set(e, -EUSERS,
                                  "Pod %s cannot be started: its users %" PRIu32 " to %" PRIu32
                                  " are those of a container of systemd-nspawn",
                                  pod_display_name(p), base, base + UID_RANGE_SIZE - 1);
                return error_hint(
                                e, r,
                                "Prepare another pod, which gets a range of its own, and remove this one.");
        }
        if (fd < 0)
                return error_set_errno(e, fd, "Cannot lock " LOCKS "/%" PRIu32 ", the users of pod %s", base,
                                       pod_display_name(p));
        c->locks[c->n++] = fd;
        remove_records(base); /* of a pod that was killed with its supervisor */
        /* A number below those of the pod is a user that it does not have, and others may. */
        int r = base >= p->config.uid_base ? write_records(base) : 0;
        return r < 0 ? error_set_errno(e, r, "Cannot write records of the users of pod %s to " RECORDS,
                                       pod_display_name(p))
                     : 0;
}

int user_claim_new(const Pod *p, UserClaim **ret, Error *e)
{
        size_t n = p->config.private_users && p->config.uid_base > 0 ? pod_n_blocks(&p->config) : 0;
        UserClaim *c = calloc(1, sizeof(UserClaim) + n * sizeof(int));

        if (!c)
                return error_oom(e);
        c->base = pod_first_block(&p->config);
        int r = n > 0 ? mkdir_p(LOCKS, 0755) : 0;
        if (r < 0)
                r = error_set_errno(e, r, "Cannot create " LOCKS);
        while (r >= 0 && c->n < n)
                r = claim_one(p, c, e);
        if (r < 0) {
                user_claim_free(c);
                return r;
        }
        *ret = c;
        return 0;
}

void user_claim_remove_leftovers(const Pod *p)
{
        uint32_t n = p->config.private_users && p->config.uid_base > 0 ? pod_n_blocks(&p->config) : 0;

        for (uint32_t i = 0; i < n; i++) {
                uint32_t base = pod_first_block(&p->config) + i * UID_RANGE_SIZE;
                int fd = base > 0 ? take_lock(base, 0) : -EBADF;
                if (fd >= 0)
                        give_back(base, fd);
        }
}
