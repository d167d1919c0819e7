/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Filters of devices: BPF programs of a cgroup, which the kernel asks whenever one of its processes opens a device, or makes a node of it.
 *
 * The pod's systemd, which has such filters by DeviceAllow=, may not load programs inside a pod, so this is done from outside, on the cgroup of the
 * app. They are of cgroup v2 also where the controllers are in hierarchies of version 1, whose controller of devices is not needed. A
 * process is refused if any filter of its cgroup, or of one above, refuses; so these only take away. The program goes with the cgroup.
 *
 * Making nodes is always allowed, as it takes CAP_MKNOD, and a node that cannot be opened has no effect. */

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "stage0/host/bpf-program.h"
#include "stage0/host/device-filter.h"
#include "stage0/host/host.h"

#define TERMINALS_MAJOR 136U /* of devpts */

void device_rules_done(DeviceRules *l)
{
        free(l->items);
        *l = (DeviceRules){};
}

static int add(DeviceRules *l, bool block, uint32_t major, uint32_t minor, unsigned access)
{
        for (size_t i = 0; i < l->n; i++) {
                DeviceRule *r = &l->items[i];
                if (r->block == block && r->major == major && r->minor == minor) {
                        r->access |= access;
                        return 0;
                }
        }
        if (l->n >= DEVICE_RULES_MAX)
                return -E2BIG;
        if (GREEDY_REALLOC(l->items, l->allocated, l->n + 1) < 0)
                return -ENOMEM;
        l->items[l->n++] = (DeviceRule){.block = block, .major = major, .minor = minor, .access = access};
        return 0;
}

int device_rules_add(DeviceRules *l, bool block, dev_t device, unsigned access)
{
        return add(l, block, major(device), minor(device), access & (DEVICE_READ | DEVICE_WRITE));
}

int device_rules_add_default(DeviceRules *l)
{
        /* null, zero, full, random, urandom, tty, ptmx; and net/tun, which has an effect only in the app's own network, and there
         * takes CAP_NET_ADMIN. */
        static const uint32_t devices[][2] = {{1, 3}, {1, 5}, {1, 7}, {1, 8},
                                              {1, 9}, {5, 0}, {5, 2}, {10, 200}};
        int r = 0;

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(devices); i++)
                r = add(l, false, devices[i][0], devices[i][1], DEVICE_READ | DEVICE_WRITE);
        return r < 0 ? r : add(l, false, TERMINALS_MAJOR, DEVICE_RULE_ANY, DEVICE_READ | DEVICE_WRITE);
}

bool device_rules_equal(const DeviceRules *a, const DeviceRules *b)
{
        if (a->closed != b->closed || a->n != b->n)
                return false;
        for (size_t i = 0; i < a->n; i++) {
                const DeviceRule *x = &a->items[i], *y = &b->items[i];
                if (x->block != y->block || x->major != y->major || x->minor != y->minor ||
                    x->access != y->access)
                        return false;
        }
        return true;
}

/* --- The program --------------------------------------------------------------------------------------- */

/* DEVICE is the type and the major number in the upper half, and the minor number in the lower one. */
enum {
        DEVICE = BPF_REG_2,
        ACCESS = BPF_REG_3,
        MAJOR = BPF_REG_4,
        OTHER = BPF_REG_5,
};
#define TYPE_SHIFT 56
#define MAJOR_SHIFT 32

static uint64_t device_number(const DeviceRule *r)
{
        uint64_t type = r->block ? BPF_DEVCG_DEV_BLOCK : BPF_DEVCG_DEV_CHAR;

        return type << TYPE_SHIFT | (uint64_t) r->major << MAJOR_SHIFT |
               (r->minor == DEVICE_RULE_ANY ? 0 : r->minor);
}

static unsigned kernel_access(unsigned access)
{
        return (access & DEVICE_READ ? BPF_DEVCG_ACC_READ : 0U) |
               (access & DEVICE_WRITE ? BPF_DEVCG_ACC_WRITE : 0U);
}

/* Allows the access if the device is the rule's, and all that is requested is in it. */
static void emit_rule(BpfProgram *p, const DeviceRule *r)
{
        unsigned refused = ~kernel_access(r->access) & (BPF_DEVCG_ACC_READ | BPF_DEVCG_ACC_WRITE);

        if (r->minor == DEVICE_RULE_ANY)
                bpf_emit(p, BPF_ALU64 | BPF_RSH | BPF_K, DEVICE, 0, 0, MAJOR_SHIFT);
        bpf_emit_number(p, OTHER, device_number(r) >> (r->minor == DEVICE_RULE_ANY ? MAJOR_SHIFT : 0));
        bpf_emit(p, BPF_JMP | BPF_JNE | BPF_X, DEVICE, OTHER, 4, 0);
        bpf_emit(p, BPF_ALU64 | BPF_AND | BPF_K, ACCESS, 0, 0, (int32_t) refused);
        bpf_emit(p, BPF_JMP | BPF_JNE | BPF_K, ACCESS, 0, 2, 0);
        bpf_emit_end(p, true);
        bpf_emit_end(p, false);
}

/* A binary search: the kernel's check of a program goes through all of its paths, of which a list of comparisons would have too many. */
static void emit_rules(BpfProgram *p, const DeviceRule *l, size_t n)
{
        if (n == 1) {
                emit_rule(p, l);
                return;
        }
        bpf_emit_number(p, OTHER, device_number(&l[n / 2]));
        size_t jump = bpf_emit_jump(p, BPF_JMP | BPF_JGE | BPF_X, DEVICE, OTHER, 0);
        emit_rules(p, l, n / 2);
        bpf_land(p, jump);
        emit_rules(p, l + n / 2, n - n / 2);
}

static int compare_rules(const void *a, const void *b)
{
        uint64_t x = device_number(a), y = device_number(b);

        return (x > y) - (x < y);
}

/* Sorted, without those of devices for which another one stands. */
static int sort_rules(const DeviceRules *l, DeviceRule **ret, size_t *ret_n)
{
        DeviceRule *sorted = calloc(l->n, sizeof(DeviceRule));
        size_t n = 0;

        if (!sorted)
                return -ENOMEM;
        for (size_t i = 0; i < l->n; i++) {
                const DeviceRule *r = &l->items[i];
                bool contained = false;
                for (size_t k = 0; k < l->n && r->minor != DEVICE_RULE_ANY; k++)
                        contained = contained ||
                                    (l->items[k].minor == DEVICE_RULE_ANY && l->items[k].block == r->block &&
                                     l->items[k].major == r->major);
                if (!contained)
                        sorted[n++] = *r;
        }
        qsort(sorted, n, sizeof(DeviceRule), compare_rules);
        *ret = sorted;
        *ret_n = n;
        return 0;
}

static void emit_head(BpfProgram *p)
{
        bpf_emit_load(p, DEVICE, BPF_REG_1, offsetof(struct bpf_cgroup_dev_ctx, access_type));
        bpf_emit_load(p, MAJOR, BPF_REG_1, offsetof(struct bpf_cgroup_dev_ctx, major));
        bpf_emit_load(p, OTHER, BPF_REG_1, offsetof(struct bpf_cgroup_dev_ctx, minor));
        /* The type is in the lower half, what is requested in the upper one. */
        bpf_emit(p, BPF_ALU64 | BPF_MOV | BPF_X, ACCESS, DEVICE, 0, 0);
        bpf_emit(p, BPF_ALU64 | BPF_RSH | BPF_K, ACCESS, 0, 0, 16);
        bpf_emit(p, BPF_ALU64 | BPF_AND | BPF_K, ACCESS, 0, 0, BPF_DEVCG_ACC_READ | BPF_DEVCG_ACC_WRITE);
        bpf_emit(p, BPF_JMP | BPF_JNE | BPF_K, ACCESS, 0, 2, 0);
        bpf_emit_end(p, true);
        bpf_emit(p, BPF_ALU64 | BPF_AND | BPF_K, DEVICE, 0, 0, 0xffff);
        bpf_emit(p, BPF_ALU64 | BPF_LSH | BPF_K, DEVICE, 0, 0, TYPE_SHIFT);
        bpf_emit(p, BPF_ALU64 | BPF_LSH | BPF_K, MAJOR, 0, 0, MAJOR_SHIFT);
        bpf_emit(p, BPF_ALU64 | BPF_OR | BPF_X, DEVICE, MAJOR, 0, 0);
        bpf_emit(p, BPF_ALU64 | BPF_OR | BPF_X, DEVICE, OTHER, 0, 0);
}

int device_filter_compile(const DeviceRules *l, struct bpf_insn **ret, size_t *ret_n)
{
        _cleanup_free_ DeviceRule *sorted = NULL;
        _cleanup_bpf_program_ BpfProgram p = {};
        size_t n = 0;

        int r = l->n > 0 ? sort_rules(l, &sorted, &n) : 0;
        if (r < 0)
                return r;
        emit_head(&p);
        if (n > 0)
                emit_rules(&p, sorted, n);
        else
                bpf_emit_end(&p, false);
        if (p.failed)
                return -ENOMEM;
        *ret = TAKE_PTR(p.items);
        *ret_n = p.n;
        return 0;
}

/* --- In the kernel ------------------------------------------------------------------------------------- */

int device_filter_load(const DeviceRules *l)
{
        _cleanup_bpf_program_ BpfProgram p = {};

        int r = device_filter_compile(l, &p.items, &p.n);
        return r < 0 ? r
                     : bpf_program_load(&p, BPF_PROG_TYPE_CGROUP_DEVICE, BPF_CGROUP_DEVICE, "acn_devices");
}

int device_filter_attach(int cgroup_fd, int program_fd, int replaced_fd)
{
        union bpf_attr a = {
                        .target_fd = (uint32_t) cgroup_fd,
                        .attach_bpf_fd = (uint32_t) program_fd,
                        .attach_type = BPF_CGROUP_DEVICE,
                        .attach_flags = BPF_F_ALLOW_MULTI | (replaced_fd >= 0 ? BPF_F_REPLACE : 0U),
                        .replace_bpf_fd = replaced_fd >= 0 ? (uint32_t) replaced_fd : 0U,
        };

        return bpf_call(BPF_PROG_ATTACH, &a);
}

int device_filter_detach(int cgroup_fd, int program_fd)
{
        union bpf_attr a = {
                        .target_fd = (uint32_t) cgroup_fd,
                        .attach_bpf_fd = (uint32_t) program_fd,
                        .attach_type = BPF_CGROUP_DEVICE,
        };

        return bpf_call(BPF_PROG_DETACH, &a);
}

int device_filter_available(void)
{
        static int result = 1;

        if (result > 0) {
                _cleanup_close_ int fd = device_filter_load(&(DeviceRules){});
                result = MIN(fd, 0);
        }
        return result;
}

int device_filters_check(const PodManifest *m, Error *e)
{
        for (size_t i = 0; i < m->n_apps; i++) {
                _cleanup_app_settings_ AppSettings s = {};
                int r = app_settings_read(m->apps[i], &s, e);
                if (r < 0)
                        return r;
                if (!app_settings_filter_devices(&s))
                        continue;
                r = device_filter_available();
                if (r >= 0)
                        return 0;
                r = error_set_errno(
                                e, r == -EPERM ? -EACCES : r,
                                "The devices of app %s are to be filtered, but this host's kernel refuses "
                                "filters of devices (BPF programs of cgroups)",
                                m->apps[i]->name);
                return error_hint(
                                e, r,
                                "They take a kernel with CONFIG_CGROUP_BPF, and CAP_BPF and CAP_NET_ADMIN on "
                                "the host. Without them, devices can only be given without permissions, and "
                                "with --device-policy=auto.");
        }
        return 0;
}
