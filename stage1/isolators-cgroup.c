/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The isolator os/linux/cgroup: attributes of an app's cgroup by the kernel's names, for programs that know these, such as the kubelet. The
 * pod's systemd writes them, but for limits of huge pages and memory.oom.group, which it does not know of slices: the supervisor does. Their values were checked when the
 * manifest was parsed. */

#include "stage1/isolators-internal.h"

static const struct Attribute {
        const char *name, *directive, *controller;
        size_t feature; /* in HostFeatures */
} attributes[] = {
                {"cpuset.cpus", "AllowedCPUs", "cpuset", offsetof(HostFeatures, cpuset)},
                {"cpuset.mems", "AllowedMemoryNodes", "cpuset", offsetof(HostFeatures, cpuset)},
                {"memory.high", "MemoryHigh", "memory", offsetof(HostFeatures, memory)},
                {"memory.low", "MemoryLow", "memory", offsetof(HostFeatures, memory)},
                {"memory.min", "MemoryMin", "memory", offsetof(HostFeatures, memory)},
                {"memory.oom.group", NULL, "memory", offsetof(HostFeatures, memory)},
                {"memory.swap.max", "MemorySwapMax", "memory", offsetof(HostFeatures, memory)},
};

static const struct Attribute hugetlb = {"hugetlb.", NULL, "hugetlb", offsetof(HostFeatures, hugetlb)};

static const struct Attribute *find_attribute(const char *name)
{
        if (startswith(name, hugetlb.name))
                return &hugetlb;
        for (size_t i = 0; i < ELEMENTSOF(attributes); i++)
                if (streq(attributes[i].name, name))
                        return &attributes[i];
        return NULL;
}

void cgroup_directives(const Isolator *i, Text *slice)
{
        for (size_t k = 0; k < i->cgroup.n; k++) {
                const struct Attribute *a = find_attribute(i->cgroup.items[k].name);
                const char *value = i->cgroup.items[k].value;
                if (a && a->directive)
                        text_addf(slice, "%s=%s\n", a->directive, streq(value, "max") ? "infinity" : value);
        }
}

const char *stage1_missing_controller(const PairList *l, const HostFeatures *h)
{
        for (size_t i = 0; i < l->n; i++) {
                const struct Attribute *a = find_attribute(l->items[i].name);
                if (a && !*(const bool *) ((const char *) h + a->feature))
                        return a->controller;
        }
        return NULL;
}

IsolatorVerdict cgroup_verdict(const VerdictInput *j, Text *detail)
{
        const Isolator *i = j->isolator;
        size_t n = 0;

        for (size_t k = 0; k < i->cgroup.n; k++) {
                const struct Attribute *a = find_attribute(i->cgroup.items[k].name);
                bool has = a && *(const bool *) ((const char *) j->host + a->feature);
                if (!a)
                        continue;
                text_addf(detail, "%s%s is %s", k > 0 ? "; " : "", i->cgroup.items[k].name,
                          i->cgroup.items[k].value);
                if (!has)
                        text_addf(detail, ", but this host has no cgroup v2 controller '%s' for pods",
                                  a->controller);
                n += has;
        }
        return n == i->cgroup.n ? n > 0 ? ISOLATOR_ENFORCED : ISOLATOR_IGNORED
               : n > 0          ? ISOLATOR_MODIFIED
                                : ISOLATOR_IGNORED;
}
