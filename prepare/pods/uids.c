/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Ranges of uids (and gids) for pods: 65536 from a base on. No two pods share a uid, and no user of the host
 * has one of them.
 *
 * The bases are those that systemd reserves for containers, 0x80000 to 0x6FFF0000 in steps of 65536. The
 * first base to try is a hash of the pod's UUID, so that concurrent processes rarely try the same; from
 * there on the next free one is used. A range is free if no other pod has it, of this store (uids/) or
 * another one of the host (uids-host.c), none of it is a user or group in /etc/passwd and /etc/group, or of a user who is
 * logged in, its base is not one by other sources (NSS), it does not overlap the ranges in /etc/subuid and /etc/subgid, and
 * systemd-nspawn does not use it for a container at the moment. Users of a directory service cannot be listed: a range of them has to be
 * in /etc/subuid.
 *
 * A program that a pod belongs to may choose the users of it: any number from any uid on, but for root. Whether they are free on
 * the host is that program's business. Each block of 65536 that they are in is registered, the first one, which has the host's own users,
 * too: so it is enough to look for one base to know that a range is free, and no other pod of the host has users there.
 */

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>

#include "prepare/pods/pods-internal.h"

#define UID_BASE_MIN 0x00080000U
#define UID_BASE_MAX 0x6FFF0000U
#define UID_END 0xFFFF0000U /* above are uid -1 and the range that it is in */
#define N_UID_BASES ((UID_BASE_MAX - UID_BASE_MIN) / UID_RANGE_SIZE + 1)

#define TABLE_SIZE_MAX (16U * 1024U * 1024U)
/* Entries of users longer than this (a group with thousands of members) exist; their content is not
 * needed. */
#define USER_BUFFER_SIZE 16384

bool pod_uids_are_valid(uint32_t base, uint32_t n)
{
        return base >= 1 && base < UID_END && n >= 1 && n <= POD_UIDS_MAX && n <= UID_END - base;
}

uint32_t uid_base_nth(const char *uuid, uint32_t n)
{
        uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

        for (const char *p = uuid; *p; p++)
                hash = (hash ^ (unsigned char) *p) * UINT64_C(0x100000001b3);
        return UID_BASE_MIN + (uint32_t) ((hash % N_UID_BASES + n) % N_UID_BASES) * UID_RANGE_SIZE;
}

/* One line: name:start:count. Other lines are ignored. */
static bool line_overlaps(const char *line, size_t size, uint32_t base)
{
        char copy[128];
        uint64_t start, count;

        const char *first = memchr(line, ':', size);
        if (!first)
                return false;
        size -= (size_t) (first + 1 - line);
        if (size >= sizeof(copy))
                return false;
        memcpy(copy, first + 1, size);
        copy[size] = 0;
        char *second = strchr(copy, ':');
        if (!second)
                return false;
        *second = 0;
        if (parse_u64(copy, &start) < 0 || parse_u64(second + 1, &count) < 0 || count == 0)
                return false;
        uint64_t last = count - 1 > UINT64_MAX - start ? UINT64_MAX : start + (count - 1);
        return start < (uint64_t) base + UID_RANGE_SIZE && last >= base;
}

bool subids_overlap(const char *text, uint32_t base)
{
        for (const char *p = text; p && *p;) {
                size_t n = strcspn(p, "\n");

                if (line_overlaps(p, n, base))
                        return true;
                p += n + (p[n] == '\n');
        }
        return false;
}

/* One line of passwd or group: name:password:number:… */
static bool account_is_in_range(const char *line, size_t size, uint32_t base)
{
        char copy[16];
        uint64_t number;

        for (unsigned i = 0; i < 2; i++) {
                const char *colon = memchr(line, ':', size);
                if (!colon)
                        return false;
                size -= (size_t) (colon + 1 - line);
                line = colon + 1;
        }
        const char *end = memchr(line, ':', size);
        size_t n = end ? (size_t) (end - line) : size;
        if (n >= sizeof(copy))
                return false;
        memcpy(copy, line, n);
        copy[n] = 0;
        return parse_u64(copy, &number) >= 0 && number >= base && number < (uint64_t) base + UID_RANGE_SIZE;
}

bool accounts_overlap(const char *text, uint32_t base)
{
        for (const char *p = text; p && *p;) {
                size_t n = strcspn(p, "\n");

                if (account_is_in_range(p, n, base))
                        return true;
                p += n + (p[n] == '\n');
        }
        return false;
}

/* Each user who is logged in has a directory in /run/user. */
static bool overlaps_logins(char *const *logins, uint32_t base)
{
        STRV_FOREACH (s, logins) {
                uint32_t uid;

                if (parse_u32(*s, &uid) >= 0 && uid >= base && uid - base < UID_RANGE_SIZE)
                        return true;
        }
        return false;
}

static int read_table(const char *path, char **ret, Error *e)
{
        int r = read_file_at(AT_FDCWD, path, TABLE_SIZE_MAX, ret, NULL);

        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return error_set_errno(e, r, "Cannot read %s, which lists uids in use", path);
        return 0;
}

/* Whether the base is a user or group of the host. A failed look-up counts as no: the host's directory
 * service may be down. */
static bool is_user_or_group(uint32_t base)
{
        _cleanup_free_ char *buffer = malloc(USER_BUFFER_SIZE);
        struct passwd user, *found_user = NULL;
        struct group group, *found_group = NULL;

        if (!buffer)
                return true;
        if (getpwuid_r(base, &user, buffer, USER_BUFFER_SIZE, &found_user) == ERANGE || found_user)
                return true;
        return getgrgid_r(base, &group, buffer, USER_BUFFER_SIZE, &found_group) == ERANGE || found_group;
}

/* systemd-nspawn --private-users=pick has a locked file for each range in use, and so have running pods. Those of processes that were
 * killed are not locked. The lock is looked at, not taken, as that would be in the way of who takes it now. */
static bool is_picked_by_nspawn(uint32_t base)
{
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        char path[64];

        snprintf(path, sizeof(path), "/run/systemd/nspawn-uid/%u", base);
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd < 0)
                return errno != ENOENT;
        return fcntl(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

/* What the host has users for, outside of acnspawn. */
typedef struct HostUsers {
        char *subuids, *subgids, *users, *groups;
        char **logins;
} HostUsers;

static void host_users_done(HostUsers *h)
{
        free(h->subuids);
        free(h->subgids);
        free(h->users);
        free(h->groups);
        strv_free(h->logins);
}

static int host_users_read(HostUsers *h, Error *e)
{
        const struct {
                const char *path;
                char **text;
        } tables[] = {{"/etc/subuid", &h->subuids},
                      {"/etc/subgid", &h->subgids},
                      {"/etc/passwd", &h->users},
                      {"/etc/group", &h->groups}};
        _cleanup_close_ int fd = open("/run/user", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int r = 0;

        if (fd < 0 && errno != ENOENT)
                return error_set_errno(e, -errno, "Cannot open /run/user");
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(tables); i++)
                r = read_table(tables[i].path, tables[i].text, e);
        if (r < 0 || fd < 0)
                return r;
        r = list_names(fd, &h->logins);
        return r < 0 ? error_set_errno(e, r, "Cannot read /run/user") : 0;
}

/* Whether uids of the range are in use outside of acnspawn. */
static bool is_reserved_by_host(const HostUsers *h, uint32_t base)
{
        return subids_overlap(h->subuids, base) || subids_overlap(h->subgids, base) ||
               accounts_overlap(h->users, base) || accounts_overlap(h->groups, base) ||
               overlaps_logins(h->logins, base) || is_picked_by_nspawn(base) || is_user_or_group(base);
}

/* -EEXIST: it is. */
static int check_other_pods(const Pod *p, uint32_t base, Error *e)
{
        char key[16];

        snprintf(key, sizeof(key), "%u", base);
        int r = registry_find(p->store, REGISTRY_UIDS, key, NULL, e);
        if (r != -ENOENT)
                return r < 0 ? r : -EEXIST;
        return host_uids_find(p, base, e);
}

/* -EEXIST: another pod has it. */
static int take_range(Pod *p, uint32_t base, Error *e)
{
        char key[16];

        snprintf(key, sizeof(key), "%u", base);
        int r = host_uids_take(p, base, e);
        if (r < 0)
                return r;
        r = registry_take(p->store, REGISTRY_UIDS, key, p->uuid, NULL, e);
        if (r < 0)
                host_uids_drop(p, base);
        return r;
}

static void drop_range(const Pod *p, uint32_t base)
{
        char key[16];

        snprintf(key, sizeof(key), "%u", base);
        registry_drop(p->store, REGISTRY_UIDS, key, p->uuid);
        host_uids_drop(p, base);
}

int pod_allocate_uids(Pod *p, Error *e)
{
        _cleanup_(host_users_done) HostUsers host = {};

        int r = host_users_read(&host, e);
        if (r < 0)
                return r;
        for (uint32_t i = 0; i < N_UID_BASES; i++) {
                uint32_t base = uid_base_nth(p->uuid, i);

                r = check_other_pods(p, base, e); /* before the slow checks */
                if (r == 0 && !is_reserved_by_host(&host, base))
                        r = take_range(p, base, e);
                else if (r == 0)
                        r = -EEXIST;
                if (r == -EEXIST)
                        continue;
                if (r < 0)
                        return r;
                p->config.uid_base = base;
                p->config.n_uid_ranges = 1;
                return 0;
        }
        r = error_set(e, -ENOSPC, "No range of %u uids is free for pod %s", UID_RANGE_SIZE,
                      pod_display_name(p));
        return error_hint(e, r,
                          "Remove pods that have ended with 'acnspawn gc', in each store of this host, or "
                          "look at /etc/subuid and /etc/subgid.");
}

/* A pod that has ended has no process: the range may be that of the next pod. */
static int release_ended(const Pod *p, uint32_t base, Error *e)
{
        _cleanup_(pod_freep) Pod *holder = NULL;
        _cleanup_free_ char *uuid = NULL;
        char key[16];

        snprintf(key, sizeof(key), "%u", base);
        int r = registry_find(p->store, REGISTRY_UIDS, key, &uuid, e);
        if (r < 0 || streq(uuid, p->uuid))
                return r == -ENOENT ? 0 : r;
        r = pod_open(p->store, uuid, &holder, NULL);
        if (r < 0 || holder->state != POD_EXITED)
                return r == -ENOENT ? 0 : MIN(r, 0);
        drop_range(holder, base);
        return 0;
}

void pod_drop_uids(const Pod *p)
{
        uint32_t n = p->config.uid_base > 0 ? pod_n_blocks(&p->config) : 0;

        for (uint32_t i = 0; i < n; i++)
                drop_range(p, pod_first_block(&p->config) + i * UID_RANGE_SIZE);
}

/* All of them, or none. */
static int take_blocks(Pod *p, uint32_t first, uint32_t n, Error *e)
{
        int r = 0;

        for (uint32_t i = 0; r >= 0 && i < n; i++) {
                r = release_ended(p, first + i * UID_RANGE_SIZE, e);
                if (r >= 0)
                        r = take_range(p, first + i * UID_RANGE_SIZE, e);
                while (r < 0 && i > 0)
                        drop_range(p, first + --i * UID_RANGE_SIZE);
        }
        return r;
}

int pod_take_uids(Pod *p, uint32_t base, uint32_t n, Error *e)
{
        bool whole = base % UID_RANGE_SIZE == 0 && n % UID_RANGE_SIZE == 0;
        const PodConfig c = {.uid_base = base,
                             .n_uid_ranges = whole ? n / UID_RANGE_SIZE : 0,
                             .n_uids = whole ? 0 : n};

        if (!pod_uids_are_valid(base, n))
                return error_set(
                                e, -EINVAL,
                                "%u users from %u on cannot be those of a pod, which has 1 to %u, from 1 to %u",
                                n, base, POD_UIDS_MAX, UID_END - 1);
        int r = take_blocks(p, pod_first_block(&c), pod_n_blocks(&c), e);
        if (r == -EEXIST)
                return error_set(e, -EUSERS, "The users %u to %u%s are those of another pod", base,
                                 base + (n - 1), whole ? "" : ", or others of their blocks of 65536,");
        if (r < 0)
                return r;
        p->config.uid_base = c.uid_base;
        p->config.n_uid_ranges = c.n_uid_ranges;
        p->config.n_uids = c.n_uids;
        return 0;
}
