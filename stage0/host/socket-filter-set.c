/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One set of programs and maps for the filters of sockets of all pods, as the kernel takes 64 programs of a kind in a cgroup.
 *
 * The first pod makes it; each further one adds itself to the maps. The set lasts as long as a process has descriptors of it: all supervisors of
 * such pods have. The numbers that the kernel has given to its parts, which are not used again before a reboot, are in
 * a file, whose directory is locked meanwhile. If one of them is gone, all have left, and a new set is made.
 *
 * A supervisor that was killed leaves its pod in the maps. Cgroups' numbers are not used again either, so that it has no effect; the
 * next pod that joins removes it.
 */

#include <linux/bpf.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "stage0/host/bpf-program.h"
#include "stage0/host/host-internal.h"
#include "stage0/host/socket-filter-set.h"
#include "stage0/host/socket-filter.h"

#define PARENT "/run/acnspawn"
#define DIRECTORY PARENT "/socket-filters"
#define RECORD "numbers"
#define RECORD_SIZE_MAX 4096U
#define PODS_MAX 16384U
#define PEERS_MAX 16384U
#define PUT_TRIES 10000U
#define PUT_PAUSE_USEC 500U

typedef struct Peer {
        uint64_t words[4]; /* socket-filter.c has its members */
} Peer;

void socket_filter_set_done(SocketFilterSet *s)
{
        safe_close(s->networks_fd);
        safe_close(s->peers_fd);
        safe_close(s->levels_fd);
        for (size_t i = 0; i < s->n_links; i++)
                safe_close(s->links[i]);
        *s = SOCKET_FILTER_SET_NULL;
}

/* --- Maps ---------------------------------------------------------------------------------------------- */

static int make_map(enum bpf_map_type type, size_t key_size, size_t value_size, uint32_t entries,
                    uint32_t flags, int inner_fd, const char *name)
{
        union bpf_attr a = {.map_type = type,
                            .key_size = (uint32_t) key_size,
                            .value_size = (uint32_t) value_size,
                            .max_entries = entries,
                            .map_flags = flags,
                            .inner_map_fd = inner_fd < 0 ? 0U : (uint32_t) inner_fd};

        snprintf(a.map_name, sizeof(a.map_name), "%s", name);
        int r = bpf_call(BPF_MAP_CREATE, &a);
        return r == -EINVAL || r == -ENOSYS ? -EOPNOTSUPP : r;
}

static int make_peers(void)
{
        return make_map(BPF_MAP_TYPE_LRU_HASH, sizeof(Peer), sizeof(uint32_t), PEERS_MAX, 0, -EBADF,
                        "acn_peers");
}

int socket_filter_set_make_maps(SocketFilterSet *s)
{
        _cleanup_close_ int inner = make_peers();
        int r = inner;

        *s = SOCKET_FILTER_SET_NULL;
        if (r >= 0)
                r = s->networks_fd = make_map(BPF_MAP_TYPE_HASH, sizeof(SocketFilterKey), sizeof(uint32_t),
                                              PODS_MAX * (SOCKET_FILTER_NETWORKS_MAX + 1), BPF_F_NO_PREALLOC,
                                              -EBADF, "acn_networks");
        if (r >= 0)
                r = s->peers_fd = make_map(BPF_MAP_TYPE_HASH_OF_MAPS, sizeof(uint64_t), sizeof(uint32_t),
                                           PODS_MAX, BPF_F_NO_PREALLOC, inner, "acn_pods");
        if (r >= 0)
                r = s->levels_fd = make_map(BPF_MAP_TYPE_ARRAY, sizeof(uint32_t), sizeof(uint64_t), 1, 0,
                                            -EBADF, "acn_levels");
        if (r < 0)
                socket_filter_set_done(s);
        return MIN(r, 0);
}

static uint64_t address(const void *p)
{
        return (uint64_t) (uintptr_t) p;
}

static int put(int fd, const void *key, const void *value)
{
        union bpf_attr a = {.map_fd = (uint32_t) fd,
                            .key = address(key),
                            .value = address(value),
                            .flags = BPF_ANY};

        return bpf_call(BPF_MAP_UPDATE_ELEM, &a);
}

static int get(int fd, const void *key, void *value)
{
        union bpf_attr a = {.map_fd = (uint32_t) fd, .key = address(key), .value = address(value)};

        return bpf_call(BPF_MAP_LOOKUP_ELEM, &a);
}

static int drop(int fd, const void *key)
{
        union bpf_attr a = {.map_fd = (uint32_t) fd, .key = address(key)};

        return bpf_call(BPF_MAP_DELETE_ELEM, &a);
}

/* An update of a BPF map of maps takes effect at once, but bpf() returns only after an RCU grace period of tens of
 * milliseconds. The supervisor does not wait for it: a grandchild calls bpf(), and the child in between exits at once. FD
 * negative: removes the key. */
static int change_peers(int map_fd, uint64_t cgroup, int fd)
{
        pid_t pid = fork();

        if (pid == 0) {
                int kept[] = {map_fd, fd};
                if (fork() != 0)
                        _exit(0);
                if (process_leave_streams() >= 0 && fds_close_others(kept, ELEMENTSOF(kept)) >= 0)
                        (void) (fd >= 0 ? put(map_fd, &cgroup, &fd) : drop(map_fd, &cgroup));
                _exit(0);
        }
        if (pid < 0)
                return -errno;
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
        return 0;
}

/* Returns when it is there. */
static int put_peers(int map_fd, uint64_t cgroup, int fd)
{
        int r = change_peers(map_fd, cgroup, fd);

        for (unsigned i = 0; r >= 0 && i < PUT_TRIES; i++) {
                uint32_t number;
                if (get(map_fd, &cgroup, &number) >= 0)
                        return 0;
                (void) usleep(PUT_PAUSE_USEC);
        }
        return r < 0 ? r : -ETIME;
}

/* KEY NULL: the first one. */
static int next(int fd, const void *key, void *ret)
{
        union bpf_attr a = {.map_fd = (uint32_t) fd, .key = address(key), .next_key = address(ret)};

        return bpf_call(BPF_MAP_GET_NEXT_KEY, &a);
}

/* --- Pods in them -------------------------------------------------------------------------------------- */

static int add_pod(const SocketFilterSet *s, uint64_t cgroup, uint32_t levels, const uint64_t *networks,
                   size_t n)
{
        _cleanup_close_ int peers = make_peers();
        const uint32_t one = 1, zero = 0;
        uint64_t known = 0;

        int r = peers < 0 ? peers : get(s->levels_fd, &zero, &known);
        known |= levels;
        if (r >= 0)
                r = put(s->levels_fd, &zero, &known);
        if (r >= 0)
                r = put_peers(s->peers_fd, cgroup, peers);
        for (size_t i = 0; r >= 0 && i < n; i++) {
                r = put(s->networks_fd, &(SocketFilterKey){cgroup, networks[i]}, &one);
                if (r >= 0)
                        r = put(s->networks_fd, &(SocketFilterKey){0, networks[i]}, &one);
        }
        return r;
}

/* Of all keys those of CGROUP: there are few. */
static void remove_pod(const SocketFilterSet *s, uint64_t cgroup)
{
        SocketFilterKey key, before;
        bool first = true;

        (void) change_peers(s->peers_fd, cgroup, -EBADF);
        while (next(s->networks_fd, first ? NULL : &before, &key) >= 0) {
                if (!first && before.cgroup == cgroup)
                        (void) drop(s->networks_fd, &before);
                before = key;
                first = false;
        }
        if (!first && before.cgroup == cgroup)
                (void) drop(s->networks_fd, &before);
}

/* Whether the kernel knows no cgroup of that number. */
static bool is_gone(int root_fd, uint64_t cgroup)
{
        struct {
                struct file_handle head;
                uint64_t id;
        } handle = {.head = {.handle_bytes = sizeof(uint64_t), .handle_type = 0xfe /* FILEID_KERNFS */},
                    .id = cgroup};
        _cleanup_close_ int fd = open_by_handle_at(root_fd, &handle.head, O_PATH | O_CLOEXEC);

        return fd < 0 && errno == ESTALE;
}

static void remove_gone(const SocketFilterSet *s, int root_fd)
{
        uint64_t cgroup, before = 0;
        bool first = true;

        while (next(s->peers_fd, first ? NULL : &before, &cgroup) >= 0) {
                if (!first && is_gone(root_fd, before))
                        remove_pod(s, before);
                before = cgroup;
                first = false;
        }
        if (!first && is_gone(root_fd, before))
                remove_pod(s, before);
}

/* --- The set of the host ------------------------------------------------------------------------------- */

static int by_number(enum bpf_cmd command, uint32_t number)
{
        union bpf_attr a = {.map_id = number}; /* the same place for all kinds */

        return bpf_call(command, &a);
}

/* -ESTALE: there is none. */
static int open_set(const char *text, SocketFilterSet *s)
{
        _cleanup_strv_free_ char **words = NULL;
        int r = strv_split(text, " ", &words);
        size_t n = r < 0 ? 0 : strv_length(words);
        int *maps[] = {&s->networks_fd, &s->peers_fd, &s->levels_fd};

        *s = SOCKET_FILTER_SET_NULL;
        if (r >= 0 && (n <= ELEMENTSOF(maps) || n > ELEMENTSOF(maps) + SOCKET_FILTER_HOOKS_MAX))
                r = -ESTALE;
        for (size_t i = 0; r >= 0 && i < n; i++) {
                uint64_t number = 0;
                if (parse_u64(words[i], &number) < 0 || number > UINT32_MAX) {
                        r = -ESTALE;
                        break;
                }
                r = by_number(i < ELEMENTSOF(maps) ? BPF_MAP_GET_FD_BY_ID : BPF_LINK_GET_FD_BY_ID,
                              (uint32_t) number);
                if (r >= 0 && i < ELEMENTSOF(maps))
                        *maps[i] = r;
                else if (r >= 0)
                        s->links[s->n_links++] = r;
        }
        if (r < 0)
                socket_filter_set_done(s);
        return r == -ENOENT ? -ESTALE : MIN(r, 0);
}

static int number_of(int fd, bool map, uint32_t *ret)
{
        struct bpf_map_info of_map = {};
        struct bpf_link_info of_link = {};
        union bpf_attr a = {.info.bpf_fd = (uint32_t) fd,
                            .info.info_len = map ? sizeof(of_map) : sizeof(of_link),
                            .info.info = map ? address(&of_map) : address(&of_link)};

        int r = bpf_call(BPF_OBJ_GET_INFO_BY_FD, &a);
        *ret = map ? of_map.id : of_link.id;
        return r;
}

static int record(int dir_fd, const SocketFilterSet *s)
{
        const int maps[] = {s->networks_fd, s->peers_fd, s->levels_fd};
        _cleanup_text_ Text t = {};
        _cleanup_free_ char *text = NULL;

        for (size_t i = 0; i < ELEMENTSOF(maps) + s->n_links; i++) {
                bool map = i < ELEMENTSOF(maps);
                uint32_t number = 0;
                int r = number_of(map ? maps[i] : s->links[i - ELEMENTSOF(maps)], map, &number);
                if (r < 0)
                        return r;
                text_addf(&t, "%s%" PRIu32, i > 0 ? " " : "", number);
        }
        int r = text_take(&t, &text, NULL);
        return r < 0 ? r : write_file_atomic_at(dir_fd, RECORD, text, strlen(text), 0600, false);
}

/* The directory, with a lock, which other users must not be able to take. */
static int lock_directory(void)
{
        int r = mkdir_p(PARENT, 0755);
        if (r >= 0 && mkdir(DIRECTORY, 0700) < 0 && errno != EEXIST)
                r = -errno;
        _cleanup_close_ int fd = r < 0 ? r : open(DIRECTORY, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
                return r < 0 ? r : -errno;
        while (flock(fd, LOCK_EX) < 0)
                if (errno != EINTR)
                        return -errno;
        return TAKE_FD(fd);
}

void socket_filter_set_leave(SocketFilterSet *s, uint64_t cgroup)
{
        _cleanup_close_ int dir_fd = lock_directory();
        uint64_t first = 0, second = 0;

        /* Its own key may still be there afterwards. */
        bool others = next(s->peers_fd, NULL, &first) >= 0 &&
                      (first != cgroup || next(s->peers_fd, &first, &second) >= 0);
        remove_pod(s, cgroup);
        if (dir_fd >= 0 && !others)
                (void) unlinkat(dir_fd, RECORD, 0);
        socket_filter_set_done(s);
}

void socket_filter_set_remove_leftovers(void)
{
        _cleanup_close_ int dir_fd = access(DIRECTORY "/" RECORD, F_OK) < 0 ? -EBADF : lock_directory();
        _cleanup_(socket_filter_set_done) SocketFilterSet s = SOCKET_FILTER_SET_NULL;
        _cleanup_free_ char *text = NULL;

        if (dir_fd >= 0 && read_file_at(dir_fd, RECORD, RECORD_SIZE_MAX, &text, NULL) >= 0 &&
            open_set(text, &s) == -ESTALE)
                (void) unlinkat(dir_fd, RECORD, 0);
}

int socket_filter_set_join(int (*make_links)(SocketFilterSet *s, int root_fd), int root_fd, uint64_t cgroup,
                           uint32_t levels, const uint64_t *networks, size_t n_networks,
                           SocketFilterSet *ret)
{
        _cleanup_close_ int dir_fd = lock_directory();
        _cleanup_(socket_filter_set_done) SocketFilterSet s = SOCKET_FILTER_SET_NULL;
        _cleanup_free_ char *text = NULL;
        int r = MIN(dir_fd, 0);

        if (r >= 0 && read_file_at(dir_fd, RECORD, RECORD_SIZE_MAX, &text, NULL) < 0)
                r = -ESTALE;
        if (r >= 0)
                r = open_set(text, &s);
        if (r == -ESTALE) {
                r = socket_filter_set_make_maps(&s);
                if (r >= 0)
                        r = make_links(&s, root_fd);
                if (r >= 0)
                        r = record(dir_fd, &s);
        } else if (r >= 0)
                remove_gone(&s, root_fd);
        if (r >= 0) {
                r = add_pod(&s, cgroup, levels, networks, n_networks);
                if (r < 0)
                        remove_pod(&s, cgroup);
        }
        if (r < 0)
                return r == -E2BIG ? -EUSERS : r;
        *ret = s;
        s = SOCKET_FILTER_SET_NULL;
        return 0;
}
