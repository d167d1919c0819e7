/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Filters of sockets of the host that a pod was given, those that connections start its apps by.
 *
 * A socket stays in the network in which it was made, whichever process holds it. An app that could do everything with a socket of the host
 * could reach whatever the host can: it takes a connection, disconnects it (connect() with AF_UNSPEC), and connects it to
 * 127.0.0.1; or sends messages from a socket of UDP to any address, or from a unix one to any abstract name. With these programs
 * it can accept connections, talk over them, and answer those that it had messages from, no more: connect(), bind(), and sending
 * to others are refused (EPERM).
 *
 * The kernel asks the programs of the cgroup in which a socket was made, which is one of the host's: so they are on the root of the
 * hierarchy, and let everything pass but sockets of such networks in the hands of processes of a pod that was given some. There they are as
 * links, which end with the last process that has their descriptors. The kernel takes 64 of each kind in a cgroup: all pods
 * share one set of them (socket-filter-set.c), and are in its maps. In networks of its own a pod is not restricted.
 *
 * Peers of UDP are remembered, by socket, from the call that receives a message; of many the oldest are forgotten.
 */

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "stage0/host/bpf-program.h"
#include "stage0/host/host-internal.h"
#include "stage0/host/socket-filter-set.h"
#include "stage0/host/socket-filter.h"

#define LEVELS_MAX 30U /* bits of a number, with a sign */

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71 /* Linux 5.14 */
#endif

/* Of Linux 6.7. */
enum { CGROUP_UNIX_CONNECT = 49, CGROUP_UNIX_SENDMSG = 50 };

typedef enum HookKind {
        HOOK_REFUSE,   /* always */
        HOOK_TO_PEER,  /* unless it is a known peer */
        HOOK_FROM_PEER /* remembers the peer */
} HookKind;

static const struct Hook {
        int type;
        HookKind kind;
        bool ipv6, optional; /* not on all kernels */
} hooks[] = {
                {BPF_CGROUP_INET4_CONNECT, HOOK_TO_PEER, false, false},
                {BPF_CGROUP_INET6_CONNECT, HOOK_TO_PEER, true, false},
                {BPF_CGROUP_UDP4_SENDMSG, HOOK_TO_PEER, false, false},
                {BPF_CGROUP_UDP6_SENDMSG, HOOK_TO_PEER, true, false},
                {BPF_CGROUP_UDP4_RECVMSG, HOOK_FROM_PEER, false, false},
                {BPF_CGROUP_UDP6_RECVMSG, HOOK_FROM_PEER, true, false},
                {BPF_CGROUP_INET4_BIND, HOOK_REFUSE, false, false},
                {BPF_CGROUP_INET6_BIND, HOOK_REFUSE, true, false},
                {CGROUP_UNIX_CONNECT, HOOK_REFUSE, false, true},
                {CGROUP_UNIX_SENDMSG, HOOK_REFUSE, false, true},
};

_Static_assert(ELEMENTSOF(hooks) <= SOCKET_FILTER_HOOKS_MAX, "a link for each");

struct SocketFilter {
        SocketFilterSet set;
        uint64_t cgroup;
};

/* --- The programs -------------------------------------------------------------------------------------- */

enum {
        CONTEXT = BPF_REG_6, /* kept by calls */
        LEVELS = BPF_REG_7,
        OTHER = BPF_REG_2,
};

/* Of a peer, on the stack; IPv4 addresses are in the form of IPv6 ones, as sockets of IPv6 have them. */
typedef struct Peer {
        uint64_t socket;
        uint8_t address[16];
        uint32_t port, reserved;
} Peer;

#define STACK_PEER (-(int) sizeof(Peer))
#define STACK_VALUE (STACK_PEER - 8)
#define STACK_KEY (STACK_VALUE - (int) sizeof(SocketFilterKey))
#define STACK_CGROUP (STACK_KEY + (int) offsetof(SocketFilterKey, cgroup))
#define STACK_NETWORK (STACK_KEY + (int) offsetof(SocketFilterKey, network))

static void emit_set(BpfProgram *p, uint8_t to, int32_t number)
{
        bpf_emit(p, BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, number);
}

static void emit_copy(BpfProgram *p, uint8_t to, uint8_t from)
{
        bpf_emit(p, BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0);
}

static void emit_stack_address(BpfProgram *p, uint8_t to, int offset)
{
        emit_copy(p, to, BPF_REG_10);
        bpf_emit(p, BPF_ALU64 | BPF_ADD | BPF_K, to, 0, 0, offset);
}

static void emit_store(BpfProgram *p, int offset, uint8_t from)
{
        bpf_emit(p, BPF_STX | BPF_MEM | BPF_W, BPF_REG_10, from, (int16_t) offset, 0);
}

static void emit_store_number(BpfProgram *p, int offset, int32_t number)
{
        bpf_emit(p, BPF_ST | BPF_MEM | BPF_W, BPF_REG_10, 0, (int16_t) offset, number);
}

static void emit_store_long(BpfProgram *p, int offset, uint8_t from)
{
        bpf_emit(p, BPF_STX | BPF_MEM | BPF_DW, BPF_REG_10, from, (int16_t) offset, 0);
}

/* Looks the key at OFFSET of the stack up. */
static void emit_lookup(BpfProgram *p, int map_fd, int offset)
{
        bpf_emit(p, BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, map_fd);
        bpf_emit(p, 0, 0, 0, 0, 0);
        emit_stack_address(p, BPF_REG_2, offset);
        bpf_emit_call(p, BPF_FUNC_map_lookup_elem);
}

/* Goes on if register 0 is not 0; else the program ends. */
static void emit_unless_null(BpfProgram *p, bool allow)
{
        size_t jump = bpf_emit_jump(p, BPF_JMP | BPF_JNE | BPF_K, BPF_REG_0, 0, 0);

        bpf_emit_end(p, allow);
        bpf_land(p, jump);
}

/* Goes on if the socket is of a network of which some pod has sockets; else the program ends and allows the call. */
static void emit_network(BpfProgram *p, const SocketFilterSet *s)
{
        emit_copy(p, BPF_REG_1, CONTEXT);
        bpf_emit_call(p, BPF_FUNC_get_netns_cookie);
        emit_store_long(p, STACK_NETWORK, BPF_REG_0);
        emit_set(p, OTHER, 0);
        emit_store_long(p, STACK_CGROUP, OTHER);
        emit_lookup(p, s->networks_fd, STACK_KEY);
        emit_unless_null(p, true);
}

/* The same if the calling process is one of a pod that has such sockets: the key has its cgroup then. */
static void emit_pod(BpfProgram *p, const SocketFilterSet *s)
{
        size_t found[LEVELS_MAX + 1], ends[LEVELS_MAX + 1], n = 0;

        emit_store_number(p, STACK_VALUE, 0);
        emit_lookup(p, s->levels_fd, STACK_VALUE);
        emit_unless_null(p, true);
        bpf_emit(p, BPF_LDX | BPF_MEM | BPF_DW, LEVELS, BPF_REG_0, 0, 0);
        for (unsigned level = 1; level <= LEVELS_MAX; level++) {
                size_t used = bpf_emit_jump(p, BPF_JMP | BPF_JSET | BPF_K, LEVELS, 0,
                                            (int32_t) (1U << level));
                size_t skip = bpf_emit_jump(p, BPF_JMP | BPF_JA, 0, 0, 0);
                bpf_land(p, used);
                emit_set(p, BPF_REG_1, (int32_t) level);
                bpf_emit_call(p, BPF_FUNC_get_current_ancestor_cgroup_id);
                ends[n] = bpf_emit_jump(p, BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_0, 0, 0);
                emit_store_long(p, STACK_CGROUP, BPF_REG_0);
                emit_lookup(p, s->networks_fd, STACK_KEY);
                found[n++] = bpf_emit_jump(p, BPF_JMP | BPF_JNE | BPF_K, BPF_REG_0, 0, 0);
                bpf_land(p, skip);
        }
        for (size_t i = 0; i < n; i++)
                bpf_land(p, ends[i]);
        bpf_emit_end(p, true);
        for (size_t i = 0; i < n; i++)
                bpf_land(p, found[i]);
}

static void emit_peer(BpfProgram *p, bool ipv6)
{
        const int address = STACK_PEER + (int) offsetof(Peer, address),
                  port = STACK_PEER + (int) offsetof(Peer, port);

        emit_copy(p, BPF_REG_1, CONTEXT);
        bpf_emit_call(p, BPF_FUNC_get_socket_cookie);
        bpf_emit(p, BPF_STX | BPF_MEM | BPF_DW, BPF_REG_10, BPF_REG_0, STACK_PEER, 0);
        for (int i = 0; i < 4; i++) {
                if (!ipv6 && i < 3) {
                        emit_store_number(p, address + 4 * i, i == 2 ? (int32_t) htonl(0xffff) : 0);
                        continue;
                }
                bpf_emit_load(p, OTHER, CONTEXT,
                              ipv6 ? offsetof(struct bpf_sock_addr, user_ip6) + 4U * (unsigned) i
                                   : offsetof(struct bpf_sock_addr, user_ip4));
                emit_store(p, address + 4 * i, OTHER);
        }
        bpf_emit_load(p, OTHER, CONTEXT, offsetof(struct bpf_sock_addr, user_port));
        emit_store(p, port, OTHER);
        emit_store_number(p, port + 4, 0);
}

static void emit_hook(BpfProgram *p, const SocketFilterSet *s, const struct Hook *h)
{
        emit_copy(p, CONTEXT, BPF_REG_1);
        emit_network(p, s);
        emit_pod(p, s);
        if (h->kind == HOOK_REFUSE) {
                bpf_emit_end(p, false);
                return;
        }
        emit_peer(p, h->ipv6);
        emit_lookup(p, s->peers_fd, STACK_CGROUP);
        emit_unless_null(p, h->kind == HOOK_FROM_PEER);
        /* That is the pod's own map of peers. */
        emit_copy(p, BPF_REG_1, BPF_REG_0);
        emit_stack_address(p, BPF_REG_2, STACK_PEER);
        if (h->kind == HOOK_FROM_PEER) {
                emit_store_number(p, STACK_VALUE, 1);
                emit_stack_address(p, BPF_REG_3, STACK_VALUE);
                emit_set(p, BPF_REG_4, BPF_ANY);
                bpf_emit_call(p, BPF_FUNC_map_update_elem);
                bpf_emit_end(p, true);
                return;
        }
        bpf_emit_call(p, BPF_FUNC_map_lookup_elem);
        emit_unless_null(p, false);
        bpf_emit_end(p, true);
}

static int load(const SocketFilterSet *s, const struct Hook *h)
{
        _cleanup_bpf_program_ BpfProgram p = {};

        emit_hook(&p, s, h);
        return bpf_program_load(&p, BPF_PROG_TYPE_CGROUP_SOCK_ADDR, (enum bpf_attach_type) h->type,
                                "acn_sockets");
}

/* --- Is it possible? ----------------------------------------------------------------------------------- */

int socket_network(int fd, uint64_t *ret)
{
        socklen_t size = sizeof(*ret);

        if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, ret, &size) >= 0)
                return 0;
        return errno == ENOPROTOOPT ? -EOPNOTSUPP : -errno;
}

static int try_hooks(bool optional)
{
        _cleanup_(socket_filter_set_done) SocketFilterSet s = SOCKET_FILTER_SET_NULL;
        int r = socket_filter_set_make_maps(&s);

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(hooks); i++) {
                if (hooks[i].optional != optional)
                        continue;
                r = load(&s, &hooks[i]);
                safe_close(r);
        }
        return MIN(r, 0);
}

int socket_filter_available(void)
{
        static int result = 1;

        if (result > 0) {
                _cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
                uint64_t network;

                result = fd < 0 ? -errno : socket_network(fd, &network);
                if (result >= 0)
                        result = cgroup_unified_mount() ? try_hooks(false) : -EOPNOTSUPP;
        }
        return result;
}

int socket_filter_available_unix(void)
{
        static int result = 1;

        if (result > 0) {
                result = socket_filter_available();
                if (result >= 0)
                        result = try_hooks(true);
        }
        return result;
}

const char *socket_filter_failure(int code)
{
        return code == -EUSERS ? "the kernel takes no more filters of sockets (BPF programs of cgroups) than the 64 that there are"
                               : "filters of sockets (BPF programs of cgroups, Linux 5.14) are not available";
}

/* --- Of a pod ------------------------------------------------------------------------------------------ */

static unsigned depth_of(const char *path)
{
        unsigned n = 0;

        for (const char *s = path; *s; s++)
                n += *s == '/' && s[1] && s[1] != '/';
        return n;
}

/* In a container the root that is seen may not be the one that levels are counted from, which alone has no type. */
static bool sees_all_cgroups(const char *mount)
{
        _cleanup_free_ char *path = NULL;

        return xasprintf(&path, "%s/cgroup.type", mount) >= 0 && access(path, F_OK) < 0 && errno == ENOENT;
}

/* All processes of the pod are in that cgroup, nspawn is not. */
static int find_cgroup(Pod *p, uint64_t *ret, uint32_t *ret_levels)
{
        _cleanup_free_ char *own = NULL, *path = NULL;
        const char *mount = cgroup_unified_mount();
        struct stat st;

        int r = pod_cgroup_unified(p, &own);
        if (r >= 0)
                r = xasprintf(&path, "%s/payload", own);
        if (r < 0 || !mount)
                return r < 0 ? r : -EOPNOTSUPP;
        if (stat(path, &st) < 0)
                return -errno;
        unsigned from = depth_of(path + strlen(mount)), to = sees_all_cgroups(mount) ? from : LEVELS_MAX;
        if (from == 0 || from > LEVELS_MAX)
                return -E2BIG;
        *ret = st.st_ino;
        *ret_levels = ((UINT32_C(2) << to) - 1) & ~((UINT32_C(1) << from) - 1);
        return 0;
}

SocketFilter *socket_filter_free(SocketFilter *f)
{
        if (f)
                socket_filter_set_leave(&f->set, f->cgroup);
        free(f);
        return NULL;
}

static int add_link(SocketFilterSet *s, const struct Hook *h, int root_fd)
{
        _cleanup_close_ int program = load(s, h);

        if (program < 0)
                return h->optional && program == -EOPNOTSUPP ? 0 : program;
        union bpf_attr a = {.link_create.prog_fd = (uint32_t) program,
                            .link_create.target_fd = (uint32_t) root_fd,
                            .link_create.attach_type = (uint32_t) h->type};
        int r = bpf_call(BPF_LINK_CREATE, &a);
        if (r >= 0)
                s->links[s->n_links++] = r;
        return MIN(r, 0);
}

static int make_links(SocketFilterSet *s, int root_fd)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(hooks); i++)
                r = add_link(s, &hooks[i], root_fd);
        return r;
}

void socket_filter_remove_leftovers(void)
{
        socket_filter_set_remove_leftovers();
}

int socket_filter_new(Pod *p, const uint64_t *networks, size_t n, SocketFilter **ret)
{
        _cleanup_close_ int root_fd = -EBADF;
        uint32_t levels = 0;

        int r = n > SOCKET_FILTER_NETWORKS_MAX ? -E2BIG : socket_filter_available();
        SocketFilter *f = r < 0 ? NULL : malloc(sizeof(SocketFilter));
        if (!f)
                return r < 0 ? r : -ENOMEM;
        r = find_cgroup(p, &f->cgroup, &levels);
        if (r >= 0) {
                root_fd = open(cgroup_unified_mount(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                r = root_fd < 0 ? -errno
                                : socket_filter_set_join(make_links, root_fd, f->cgroup, levels, networks, n,
                                                         &f->set);
        }
        if (r < 0) {
                free(f);
                return r;
        }
        *ret = f;
        return 0;
}
