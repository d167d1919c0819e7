/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Filters of devices: what their programs decide, by a small machine for the instructions that they use. */

#include <sys/sysmacros.h>

#include "stage0/host/device-filter.h"
#include "tests/unit/test.h"

/* The result of the program; UINT32_MAX: it is not a valid one. */
static uint32_t run(const struct bpf_insn *l, size_t n, const struct bpf_cgroup_dev_ctx *context)
{
        uint64_t registers[16] = {};

        for (size_t i = 0; i < n; i++) {
                const struct bpf_insn *p = &l[i];
                uint64_t *to = &registers[p->dst_reg], from = registers[p->src_reg];
                uint32_t word;

                switch (p->code) {
                case BPF_LD | BPF_DW | BPF_IMM:
                        if (++i >= n || p[1].code != 0)
                                return UINT32_MAX;
                        *to = (uint64_t) (uint32_t) p[1].imm << 32 | (uint32_t) p->imm;
                        break;
                case BPF_LDX | BPF_MEM | BPF_W:
                        if (p->src_reg != BPF_REG_1 || p->off < 0 || (size_t) p->off + 4 > sizeof(*context))
                                return UINT32_MAX;
                        memcpy(&word, (const char *) context + p->off, sizeof(word));
                        *to = word;
                        break;
                case BPF_ALU64 | BPF_MOV | BPF_K:
                        *to = (uint64_t) p->imm;
                        break;
                case BPF_ALU64 | BPF_MOV | BPF_X:
                        *to = from;
                        break;
                case BPF_ALU64 | BPF_AND | BPF_K:
                        *to &= (uint64_t) p->imm;
                        break;
                case BPF_ALU64 | BPF_RSH | BPF_K:
                        *to >>= p->imm;
                        break;
                case BPF_ALU64 | BPF_LSH | BPF_K:
                        *to <<= p->imm;
                        break;
                case BPF_ALU64 | BPF_OR | BPF_X:
                        *to |= from;
                        break;
                case BPF_JMP | BPF_JNE | BPF_K:
                        i += *to != (uint64_t) p->imm ? (size_t) p->off : 0;
                        break;
                case BPF_JMP | BPF_JNE | BPF_X:
                        i += *to != from ? (size_t) p->off : 0;
                        break;
                case BPF_JMP | BPF_JGE | BPF_X:
                        i += *to >= from ? (size_t) p->off : 0;
                        break;
                case BPF_JMP | BPF_EXIT:
                        return (uint32_t) registers[BPF_REG_0];
                default:
                        return UINT32_MAX;
                }
        }
        return UINT32_MAX;
}

static uint32_t decide(const DeviceRules *l, bool block, uint32_t major, uint32_t minor, unsigned access)
{
        const struct bpf_cgroup_dev_ctx c = {
                        .access_type = access << 16 | (block ? BPF_DEVCG_DEV_BLOCK : BPF_DEVCG_DEV_CHAR),
                        .major = major,
                        .minor = minor};
        struct bpf_insn *program = NULL;
        size_t n;

        if (device_filter_compile(l, &program, &n) < 0)
                return UINT32_MAX;
        uint32_t result = run(program, n, &c);
        free(program);
        return result;
}

#define R BPF_DEVCG_ACC_READ
#define W BPF_DEVCG_ACC_WRITE
#define M BPF_DEVCG_ACC_MKNOD

/* Each kind of access, alone and together, of each kind of rule. */
TEST(permissions)
{
        for (unsigned given = 0; given <= DEVICE_ACCESS_ALL; given++)
                for (unsigned requested = 0; requested <= (R | W | M); requested++) {
                        _cleanup_device_rules_ DeviceRules l = {.closed = true};
                        bool expected = (!(requested & R) || (given & DEVICE_READ)) &&
                                        (!(requested & W) || (given & DEVICE_WRITE)),
                             others = !(requested & (R | W));

                        ASSERT_OK(device_rules_add(&l, false, makedev(10, 200), given));
                        ASSERT_EQ(decide(&l, false, 10, 200, requested), expected);
                        ASSERT_EQ(decide(&l, true, 10, 200, requested), others);
                        ASSERT_EQ(decide(&l, false, 10, 201, requested), others);
                        ASSERT_EQ(decide(&l, false, 11, 200, requested), others);
                }
}

TEST(several_rules)
{
        _cleanup_device_rules_ DeviceRules l = {.closed = true};

        ASSERT_EQ(decide(&l, false, 1, 3, R), 0);
        ASSERT_EQ(decide(&l, false, 1, 3, M), 1);
        ASSERT_OK(device_rules_add(&l, true, makedev(8, 0), DEVICE_READ));
        ASSERT_OK(device_rules_add(&l, false, makedev(4095, 1048575), DEVICE_READ | DEVICE_WRITE));
        ASSERT_EQ(l.n, 2);
        ASSERT_EQ(decide(&l, true, 8, 0, R), 1);
        ASSERT_EQ(decide(&l, true, 8, 0, W), 0);
        ASSERT_EQ(decide(&l, false, 4095, 1048575, R | W | M), 1);
        /* What one of the rules of a device allows is allowed. */
        ASSERT_OK(device_rules_add(&l, true, makedev(8, 0), DEVICE_WRITE));
        ASSERT_EQ(l.n, 2);
        ASSERT_EQ(decide(&l, true, 8, 0, R | W), 1);
}

/* Any set of devices, in any order, against a list that is looked through. */
TEST(many_rules)
{
        for (unsigned n = 0; n <= 40; n++) {
                _cleanup_device_rules_ DeviceRules l = {.closed = true};

                for (unsigned i = 0, x = n; i < n; i++, x = x * 7 + 3)
                        ASSERT_OK(device_rules_add(&l, x % 2 > 0, makedev(x % 3, x % 11), 1 + x % 3));
                for (unsigned i = 0; i < 2 * 4 * 12 * 4; i++) {
                        bool block = i % 2 > 0;
                        unsigned major = i / 2 % 4, minor = i / 8 % 12, access = i / 96,
                                 expected = access == 0;
                        for (size_t k = 0; k < l.n; k++)
                                if (l.items[k].block == block && l.items[k].major == major &&
                                    l.items[k].minor == minor)
                                        expected = (access & ~l.items[k].access) == 0;
                        ASSERT_EQ(decide(&l, block, major, minor,
                                         (access & 1 ? R : 0) | (access & 2 ? W : 0)),
                                  expected);
                }
        }
}

TEST(devices_of_every_app)
{
        static const uint32_t allowed[][2] = {{1, 3}, {1, 5},   {1, 7},    {1, 8},         {1, 9},   {5, 0},
                                              {5, 2}, {136, 0}, {136, 77}, {136, 1048575}, {10, 200}};
        static const uint32_t refused[][2] = {{1, 1}, {1, 2},    {1, 4},    {1, 6},         {1, 11}, {4, 0},
                                              {5, 1}, {10, 201}, {10, 229}, {135, 1048575}, {137, 0}};
        _cleanup_device_rules_ DeviceRules l = {.closed = true};

        ASSERT_OK(device_rules_add_default(&l));
        for (size_t i = 0; i < ELEMENTSOF(allowed); i++) {
                ASSERT_EQ(decide(&l, false, allowed[i][0], allowed[i][1], R | W), 1);
                ASSERT_EQ(decide(&l, true, allowed[i][0], allowed[i][1], R), 0);
        }
        /* A terminal that is given as well takes nothing away. */
        ASSERT_OK(device_rules_add(&l, false, makedev(136, 5), DEVICE_READ));
        ASSERT_EQ(decide(&l, false, 136, 5, R | W), 1);
        ASSERT_EQ(decide(&l, false, 136, 6, R | W), 1);
        for (size_t i = 0; i < ELEMENTSOF(refused); i++) {
                ASSERT_EQ(decide(&l, false, refused[i][0], refused[i][1], R), 0);
                ASSERT_EQ(decide(&l, false, refused[i][0], refused[i][1], W), 0);
        }
}

TEST(equality)
{
        _cleanup_device_rules_ DeviceRules a = {.closed = true}, b = {.closed = true};

        ASSERT_TRUE(device_rules_equal(&a, &b));
        ASSERT_OK(device_rules_add(&a, true, makedev(8, 0), DEVICE_READ));
        ASSERT_TRUE(!device_rules_equal(&a, &b));
        ASSERT_OK(device_rules_add(&b, true, makedev(8, 0), DEVICE_WRITE));
        ASSERT_TRUE(!device_rules_equal(&a, &b));
        ASSERT_OK(device_rules_add(&b, true, makedev(8, 0), DEVICE_READ));
        ASSERT_OK(device_rules_add(&a, true, makedev(8, 0), DEVICE_WRITE));
        ASSERT_TRUE(device_rules_equal(&a, &b));
        b.closed = false;
        ASSERT_TRUE(!device_rules_equal(&a, &b));
}

/* As many as there can be, which the kernel takes, too, where this process may load them. */
TEST(limits)
{
        _cleanup_device_rules_ DeviceRules l = {.closed = true};

        for (unsigned i = 0; i < DEVICE_RULES_MAX; i++)
                ASSERT_OK(device_rules_add(&l, true, makedev(8, i), DEVICE_READ));
        ASSERT_ERR(device_rules_add(&l, true, makedev(8, DEVICE_RULES_MAX), DEVICE_READ), -E2BIG);
        ASSERT_OK(device_rules_add(&l, true, makedev(8, 0), DEVICE_WRITE));
        ASSERT_EQ(decide(&l, true, 8, DEVICE_RULES_MAX - 1, R), 1);
        ASSERT_EQ(decide(&l, true, 8, DEVICE_RULES_MAX - 1, W), 0);
        ASSERT_EQ(decide(&l, true, 8, DEVICE_RULES_MAX, R), 0);
        if (device_filter_available() < 0)
                return;
        _cleanup_close_ int fd = device_filter_load(&l);
        ASSERT_OK(fd);
}

int main(void)
{
        RUN(permissions);
        RUN(several_rules);
        RUN(many_rules);
        RUN(devices_of_every_app);
        RUN(equality);
        RUN(limits);
        return TEST_END();
}
