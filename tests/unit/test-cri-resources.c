/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Resources of containers: what a request changes. */

#include "cri/sandbox.h"
#include "tests/unit/test.h"

typedef Runtime__V1__LinuxContainerResources Resources;
#define RESOURCES(...) \
        (Resources) { PROTOBUF_C_MESSAGE_INIT(&runtime__v1__linux_container_resources__descriptor), __VA_ARGS__ }

static CriJob job;
static Resources merged, changed;

static int merge(Resources now, Resources wanted, Error *e)
{
        static char empty[] = "";

        now.cpuset_cpus = now.cpuset_cpus ?: empty;
        now.cpuset_mems = wanted.cpuset_mems = empty;
        wanted.cpuset_cpus = wanted.cpuset_cpus ?: empty;
        return resources_merge(&job, &now, &wanted, &merged, &changed, e);
}

TEST(fields_that_are_not_set_stay)
{
        _cleanup_error_ Error e = ERROR_NULL;
        const Resources now = RESOURCES(.memory_limit_in_bytes = 100, .memory_swap_limit_in_bytes = 100, .cpu_shares = 512,
                                        .oom_score_adj = 900);

        ASSERT_OK(merge(now, RESOURCES(.cpu_shares = 1024), &e));
        ASSERT_EQ(changed.cpu_shares, 1024);
        ASSERT_EQ(changed.memory_limit_in_bytes, 0);
        ASSERT_EQ(changed.oom_score_adj, 0);
        ASSERT_EQ(merged.cpu_shares, 1024);
        ASSERT_EQ(merged.memory_limit_in_bytes, 100);
        ASSERT_EQ(merged.oom_score_adj, 900);
        /* The same again changes nothing. */
        ASSERT_OK(merge(merged, merged, &e));
        ASSERT_EQ(protobuf_c_message_get_packed_size(&changed.base), 0);
        /* None of them. */
        ASSERT_OK(merge(RESOURCES(.cpu_quota = 5000), RESOURCES(.cpu_quota = -1), &e));
        ASSERT_EQ(changed.cpu_quota, -1);
        ASSERT_OK(merge(now, RESOURCES(.oom_score_adj = -5), &e));
        ASSERT_EQ(changed.oom_score_adj, -5);
}

TEST(a_quota_is_one_of_a_period)
{
        _cleanup_error_ Error e = ERROR_NULL;
        const Resources now = RESOURCES(.cpu_quota = 5000, .cpu_period = 10000);

        ASSERT_OK(merge(now, RESOURCES(.cpu_period = 20000), &e));
        ASSERT_EQ(changed.cpu_quota, 5000);
        ASSERT_EQ(changed.cpu_period, 20000);
        ASSERT_OK(merge(now, RESOURCES(.cpu_quota = 2500), &e));
        ASSERT_EQ(changed.cpu_quota, 2500);
        ASSERT_EQ(changed.cpu_period, 10000);
}

TEST(swap_goes_with_memory)
{
        _cleanup_error_ Error e = ERROR_NULL;
        const Resources now = RESOURCES(.memory_limit_in_bytes = 100, .memory_swap_limit_in_bytes = 100);

        ASSERT_OK(merge(now, RESOURCES(.memory_limit_in_bytes = 200), &e));
        ASSERT_EQ(merged.memory_swap_limit_in_bytes, 200);
        ASSERT_OK(merge(now, RESOURCES(.memory_limit_in_bytes = 200, .memory_swap_limit_in_bytes = 200), &e));
        ASSERT_EQ(changed.memory_limit_in_bytes, 200);
        ASSERT_ERR(merge(now, RESOURCES(.memory_limit_in_bytes = 200, .memory_swap_limit_in_bytes = 300), &e), -EINVAL);
        ASSERT_CONTAINS(e.message, "memory_swap_limit_in_bytes");
        /* 50 bytes may be swapped, and go on to. */
        const Resources more = RESOURCES(.memory_limit_in_bytes = 100, .memory_swap_limit_in_bytes = 150);
        error_done(&e);
        ASSERT_OK(merge(more, RESOURCES(.memory_limit_in_bytes = 200), &e));
        ASSERT_EQ(merged.memory_swap_limit_in_bytes, 250);
        ASSERT_OK(merge(more, RESOURCES(.memory_limit_in_bytes = 200, .memory_swap_limit_in_bytes = 250), &e));
        ASSERT_EQ(changed.memory_limit_in_bytes, 200);
        ASSERT_ERR(merge(more, RESOURCES(.memory_swap_limit_in_bytes = 300), &e), -EINVAL);
}

static int isolators(Resources r, const char **ret, Error *e)
{
        static AppOverrides a;
        static char empty[] = "";

        app_overrides_done(&a);
        a = (AppOverrides){};
        r.cpuset_cpus = r.cpuset_cpus ?: empty;
        r.cpuset_mems = r.cpuset_mems ?: empty;
        int k = container_resources(&r, &a, e);
        const Isolator *i = isolator_list_find(&a.isolators, ISOLATOR_CGROUP);
        *ret = i ? json_object_to_json_string_ext(i->value, JSON_C_TO_STRING_PLAIN) : NULL;
        return k;
}

/* What there is no limit of its own for is an attribute of the cgroup. */
TEST(attributes_of_cgroups)
{
        _cleanup_error_ Error e = ERROR_NULL;
        Runtime__V1__LinuxContainerResources__UnifiedEntry one = RUNTIME__V1__LINUX_CONTAINER_RESOURCES__UNIFIED_ENTRY__INIT,
                                                           *unified[] = {&one};
        Runtime__V1__HugepageLimit some = RUNTIME__V1__HUGEPAGE_LIMIT__INIT, none = some,
                                   *pages[] = {&some, &none};
        char small[] = "2MB", large[] = "1GB", key[] = "memory.swap.max", value[] = "0", cpus[] = "0-1",
             other[] = "memory.numa", group[] = "memory.oom.group", bad[] = "a lot";
        const char *text;

        some.page_size = small;
        some.limit = 4 << 20;
        none.page_size = large;
        one.key = key;
        one.value = value;
        ASSERT_OK(isolators(RESOURCES(.cpu_shares = 2), &text, &e));
        ASSERT_NULL(text);
        /* What the kubelet sends with every container. */
        ASSERT_OK(isolators(RESOURCES(.n_unified = 1, .unified = unified), &text, &e));
        ASSERT_STREQ(text, "{\"memory.swap.max\":\"0\"}");
        ASSERT_OK(isolators(RESOURCES(.cpuset_cpus = cpus, .cpuset_mems = value), &text, &e));
        ASSERT_STREQ(text, "{\"cpuset.cpus\":\"0-1\",\"cpuset.mems\":\"0\"}");
        ASSERT_OK(isolators(RESOURCES(.n_hugepage_limits = 2, .hugepage_limits = pages), &text, &e));
        ASSERT_STREQ(text, "{\"hugetlb.2MB.max\":\"4194304\"}");
        ASSERT_OK(isolators(RESOURCES(.memory_limit_in_bytes = 100, .memory_swap_limit_in_bytes = 100), &text, &e));
        ASSERT_STREQ(text, "{\"memory.swap.max\":\"0\"}");
        ASSERT_OK(isolators(RESOURCES(.memory_limit_in_bytes = 100, .memory_swap_limit_in_bytes = 150), &text, &e));
        ASSERT_STREQ(text, "{\"memory.swap.max\":\"50\"}");
        ASSERT_OK(isolators(RESOURCES(.memory_limit_in_bytes = 100, .memory_swap_limit_in_bytes = -1), &text, &e));
        ASSERT_STREQ(text, "{\"memory.swap.max\":\"max\"}");
        ASSERT_ERR(isolators(RESOURCES(.memory_limit_in_bytes = 100, .memory_swap_limit_in_bytes = 50), &text, &e), -EINVAL);
        ASSERT_CONTAINS(e.message, "memory_swap_limit_in_bytes");
        error_done(&e);
        one.value = bad;
        ASSERT_ERR(isolators(RESOURCES(.n_unified = 1, .unified = unified), &text, &e), -EINVAL);
        ASSERT_CONTAINS(e.message, "must be a number of bytes, or max");
        error_done(&e);
        one.key = group;
        ASSERT_ERR(isolators(RESOURCES(.n_unified = 1, .unified = unified), &text, &e), -EINVAL);
        ASSERT_CONTAINS(e.message, "must be 0 or 1");
        error_done(&e);
        one.value = value;
        ASSERT_OK(isolators(RESOURCES(.n_unified = 1, .unified = unified), &text, &e));
        ASSERT_STREQ(text, "{\"memory.oom.group\":\"0\"}");
        one.key = other;
        one.value = value;
        ASSERT_ERR(isolators(RESOURCES(.n_unified = 1, .unified = unified), &text, &e), -EINVAL);
        ASSERT_CONTAINS(e.message, "memory.numa");
        ASSERT_CONTAINS(e.message, "is not a supported attribute of cgroups");
}

TEST(attributes_that_change)
{
        _cleanup_error_ Error e = ERROR_NULL;
        Runtime__V1__LinuxContainerResources__UnifiedEntry one = RUNTIME__V1__LINUX_CONTAINER_RESOURCES__UNIFIED_ENTRY__INIT,
                                                           *unified[] = {&one};
        char key[] = "memory.oom.group", value[] = "1";

        one.key = key;
        one.value = value;
        const Resources has = RESOURCES(.n_unified = 1, .unified = unified);
        ASSERT_OK(merge(has, RESOURCES(.n_unified = 1, .unified = unified, .cpu_shares = 2), &e));
        ASSERT_EQ(changed.n_unified, 0);
        ASSERT_EQ(merged.n_unified, 1);
        ASSERT_OK(merge(RESOURCES(.cpu_shares = 0), RESOURCES(.n_unified = 1, .unified = unified), &e));
        ASSERT_EQ(changed.n_unified, 1);
        ASSERT_STREQ(changed.unified[0]->key, "memory.oom.group");
        ASSERT_EQ(merged.n_unified, 1);
}

TEST(limits_of_huge_pages_that_change)
{
        _cleanup_error_ Error e = ERROR_NULL;
        Runtime__V1__HugepageLimit small = RUNTIME__V1__HUGEPAGE_LIMIT__INIT, large = small, new = small, *has[] = {&small, &large},
                                   *list[] = {&new};
        char two[] = "2MB", one[] = "1GB";

        new.page_size = small.page_size = two;
        large.page_size = one;
        small.limit = 4096;
        const Resources now = RESOURCES(.n_hugepage_limits = 2, .hugepage_limits = has), wanted = RESOURCES(.n_hugepage_limits = 1, .hugepage_limits = list);
        /* The same, and none. */
        ASSERT_OK(merge(now, now, &e));
        ASSERT_EQ(protobuf_c_message_get_packed_size(&changed.base), 0);
        ASSERT_EQ(merged.n_hugepage_limits, 2);
        ASSERT_OK(merge(RESOURCES(.cpu_shares = 0), wanted, &e));
        ASSERT_EQ(protobuf_c_message_get_packed_size(&changed.base), 0);
        ASSERT_EQ(merged.n_hugepage_limits, 1);
        /* 0 bytes are a limit, where there was one. */
        ASSERT_OK(merge(now, wanted, &e));
        ASSERT_EQ(changed.n_unified, 1);
        ASSERT_STREQ(changed.unified[0]->key, "hugetlb.2MB.max");
        ASSERT_STREQ(changed.unified[0]->value, "0");
        ASSERT_EQ(merged.n_unified, 0);
        ASSERT_EQ(merged.n_hugepage_limits, 2);
        ASSERT_STREQ(merged.hugepage_limits[0]->page_size, "1GB");
        ASSERT_EQ(merged.hugepage_limits[1]->limit, 0);
        new.limit = 8192;
        ASSERT_OK(merge(RESOURCES(.cpu_shares = 0), wanted, &e));
        ASSERT_STREQ(changed.unified[0]->value, "8192");
        ASSERT_EQ(merged.hugepage_limits[0]->limit, 8192);
}

/* Of maps the keys that are named, also those that are new; of both, only what differs. */
TEST(attributes_change)
{
        _cleanup_error_ Error e = ERROR_NULL;
        Runtime__V1__LinuxContainerResources__UnifiedEntry
                        high = RUNTIME__V1__LINUX_CONTAINER_RESOURCES__UNIFIED_ENTRY__INIT,
                        more = high, low = high, *has[] = {&high, &low}, *wanted[] = {&low, &more},
                        *fresh[] = {&low};
        char memory_high[] = "memory.high", memory_low[] = "memory.low", one[] = "1", two[] = "2",
             cpus[] = "0-1", other[] = "1";

        high.key = more.key = memory_high;
        low.key = memory_low;
        high.value = low.value = one;
        more.value = two;
        const Resources now = RESOURCES(.n_unified = 2, .unified = has, .cpuset_cpus = cpus);
        ASSERT_OK(merge(now, now, &e));
        ASSERT_EQ(protobuf_c_message_get_packed_size(&changed.base), 0);
        ASSERT_OK(merge(now, RESOURCES(.n_unified = 2, .unified = wanted, .cpuset_cpus = other), &e));
        ASSERT_EQ(changed.n_unified, 1);
        ASSERT_STREQ(changed.unified[0]->key, "memory.high");
        ASSERT_STREQ(changed.unified[0]->value, "2");
        ASSERT_STREQ(changed.cpuset_cpus, "1");
        ASSERT_EQ(merged.n_unified, 2);
        ASSERT_STREQ(cri_map_get(merged.n_unified, merged.unified, "memory.high"), "2");
        ASSERT_STREQ(cri_map_get(merged.n_unified, merged.unified, "memory.low"), "1");
        ASSERT_STREQ(merged.cpuset_cpus, "1");
        ASSERT_STREQ(high.value, "1");
        /* A key that is new beside one that stays. */
        ASSERT_OK(merge(RESOURCES(.n_unified = 1, .unified = has),
                        RESOURCES(.n_unified = 1, .unified = fresh), &e));
        ASSERT_EQ(changed.n_unified, 1);
        ASSERT_EQ(merged.n_unified, 2);
        ASSERT_STREQ(cri_map_get(merged.n_unified, merged.unified, "memory.high"), "1");
        cri_memory_done(&job.memory);
}

int main(void)
{
        RUN(fields_that_are_not_set_stay);
        RUN(a_quota_is_one_of_a_period);
        RUN(swap_goes_with_memory);
        RUN(attributes_of_cgroups);
        RUN(attributes_that_change);
        RUN(limits_of_huge_pages_that_change);
        RUN(attributes_change);
        return TEST_END();
}
