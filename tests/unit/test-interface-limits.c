/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The properties that are sent to the pod's systemd when limits of an app change: the differences in the
 * text of the slice. */

#include "stage0/supervisor/interface/interface-internal.h"
#include "tests/unit/test.h"

static char *slice(const char *cpu, const char *memory, const char *tasks)
{
        const char *names[] = {"resource/cpu", "resource/memory", "resource/tasks"},
                   *values[] = {cpu, memory, tasks};
        Isolator items[3] = {};
        IsolatorList l = {.items = items};
        char *text = NULL;

        for (size_t i = 0; i < 3; i++)
                if (values[i] && isolator_parse(names[i], values[i], &items[l.n], NULL) >= 0)
                        l.n++;
        (void) stage1_app_slice_text("a", &l, &text);
        for (size_t i = 0; i < l.n; i++)
                isolator_done(&items[i]);
        return text;
}

#define HALF "{\"limit\":\"500m\"}"
#define EIGHTH "{\"limit\":\"125m\"}"
#define SMALL "{\"limit\":\"1000\"}"
#define LARGE "{\"limit\":\"2000\",\"request\":\"1000\"}"

TEST(differences)
{
        static const struct {
                const char *before[3], *after[3];
                UnitProperty expected[4];
        } table[] = {
                        {{NULL}, {NULL}, {{NULL, 0}}},
                        {{HALF, SMALL, SMALL}, {HALF, SMALL, SMALL}, {{NULL, 0}}},
                        {{NULL}, {HALF}, {{"CPUQuotaPerSecUSec", 500000}, {"CPUWeight", 50}}},
                        {{HALF}, {EIGHTH}, {{"CPUQuotaPerSecUSec", 125000}, {"CPUWeight", 13}}},
                        {{NULL},
                         {NULL, SMALL},
                         {{"MemoryMax", 1000}, {"MemorySwapMax", 0}, {"MemoryLow", 1000}}},
                        {{NULL, SMALL}, {NULL, LARGE}, {{"MemoryMax", 2000}}},
                        {{NULL}, {NULL, NULL, SMALL}, {{"TasksMax", 1000}}},
                        {{NULL, NULL, SMALL},
                         {NULL, NULL, "{\"limit\":\"4194304\"}"},
                         {{"TasksMax", UINT64_MAX}}},
                        {{HALF}, {NULL}, {{"CPUQuotaPerSecUSec", UINT64_MAX}, {"CPUWeight", UINT64_MAX}}},
                        {{NULL, SMALL},
                         {NULL},
                         {{"MemoryMax", UINT64_MAX}, {"MemorySwapMax", UINT64_MAX}, {"MemoryLow", 0}}},
                        {{NULL, LARGE},
                         {NULL, "{\"request\":\"1000\"}"},
                         {{"MemoryMax", UINT64_MAX}, {"MemorySwapMax", UINT64_MAX}}},
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                _cleanup_free_ char *before =
                                slice(table[i].before[0], table[i].before[1], table[i].before[2]);
                _cleanup_free_ char *after = slice(table[i].after[0], table[i].after[1], table[i].after[2]);
                UnitProperty found[UNIT_PROPERTIES_MAX];
                ASSERT_NOT_NULL(before);
                ASSERT_NOT_NULL(after);
                size_t n = interface_limit_properties(before, after, found);
                for (size_t k = 0; k < n; k++) {
                        ASSERT_STREQ(found[k].name, table[i].expected[k].name);
                        ASSERT_EQ(found[k].value, table[i].expected[k].value);
                }
                ASSERT_NULL(table[i].expected[n].name);
        }
}

static char *slice_of_attributes(const char *value)
{
        Isolator item = {};
        IsolatorList l = {.items = &item, .n = 1};
        char *text = NULL;

        if (isolator_parse("os/linux/cgroup", value, &item, NULL) >= 0)
                (void) stage1_app_slice_text("a", &l, &text);
        isolator_done(&item);
        return text;
}

/* Those of cgroups by the kernel's names; lists are compared as text. */
TEST(differences_of_attributes)
{
        _cleanup_free_ char *before = slice_of_attributes("{\"cpuset.cpus\":\"0-1\",\"cpuset.mems\":\"0\","
                                                          "\"memory.high\":\"5\"}"),
                            *after = slice_of_attributes("{\"cpuset.cpus\":\"0-13\",\"cpuset.mems\":\"0\","
                                                         "\"memory.high\":\"max\","
                                                         "\"memory.min\":\"7\"}");
        UnitProperty found[UNIT_PROPERTIES_MAX];

        ASSERT_NOT_NULL(before);
        ASSERT_NOT_NULL(after);
        ASSERT_EQ(interface_limit_properties(before, before, found), 0);
        ASSERT_EQ(interface_limit_properties(before, after, found), 3);
        ASSERT_STREQ(found[0].name, "MemoryHigh");
        ASSERT_EQ(found[0].value, UINT64_MAX);
        ASSERT_STREQ(found[1].name, "MemoryMin");
        ASSERT_EQ(found[1].value, 7);
        ASSERT_STREQ(found[2].name, "AllowedCPUs");
        ASSERT_EQ(strncmp(found[2].list, "0-13\n", 5), 0);
}

TEST(bits_of_lists)
{
        static const struct {
                const char *list;
                int r;
                size_t size;
                uint8_t bits[3];
        } table[] = {
                        {"", 0, 0, {0}},
                        {"0", 0, 1, {1}},
                        {"0-3,7", 0, 1, {0x8f}},
                        {"17,8-9\nMemoryHigh=3", 0, 3, {0, 3, 2}},
                        {"8191", 0, UNIT_LIST_SIZE_MAX, {0}},
                        {"8192", -ERANGE, 0, {0}},
                        {"0-99999999999999999999999", -ERANGE, 0, {0}},
                        {"3-1", -EINVAL, 0, {0}},
                        {"1--2", -EINVAL, 0, {0}},
                        {"1-2-3", -EINVAL, 0, {0}},
                        {"1,,2", -EINVAL, 0, {0}},
                        {"-1", -EINVAL, 0, {0}},
                        {"1 2", -EINVAL, 0, {0}},
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                uint8_t bits[UNIT_LIST_SIZE_MAX];
                size_t size = 0;
                ASSERT_EQ(manager_link_list_bits(table[i].list, bits, &size), table[i].r);
                ASSERT_EQ(size, table[i].size);
                if (table[i].r >= 0)
                        ASSERT_EQ(memcmp(bits, table[i].bits, sizeof(table[i].bits)), 0);
        }
}

int main(void)
{
        RUN(differences);
        RUN(differences_of_attributes);
        RUN(bits_of_lists);
        return TEST_END();
}
