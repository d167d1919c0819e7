/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How isolators are enforced. One table has an entry for each type of the specification: the directives for
 * systemd (of the app's or the pod's slice, or of the app's service), and the verdict for the user. Limits
 * are carried by cgroups, so they hold exactly where the host has the controller. Requests are shares: an
 * app's among the apps of its pod, a pod's among the pods of the host, which stage0 sets on the pod's own
 * cgroup. An isolator without an entry, or with one that has no effect, is reported as ignored, with the
 * reason.
 */

#include "stage1/isolators-internal.h"

#define CPU_WEIGHT_MIN 1U
#define CPU_WEIGHT_MAX 10000U
#define CPU_WEIGHT_DEFAULT 100U
#define CPU_SHARES_DEFAULT 1024U
#define MILLI 1000U
/* The largest value that systemd's parser of percentages accepts. */
#define CPU_LIMIT_MAX (UINT64_C(200000) * MILLI)
#define OOM_SCORE_MAX 1000

static const char *const verdicts[] = {
                [ISOLATOR_ENFORCED] = "enforced",
                [ISOLATOR_MODIFIED] = "modified",
                [ISOLATOR_IGNORED] = "ignored",
                [ISOLATOR_OFF] = "off",
};

const char *isolator_verdict_to_string(IsolatorVerdict v)
{
        return (size_t) v < ELEMENTSOF(verdicts) ? verdicts[v] : NULL;
}

/* --- Values -------------------------------------------------------------------------------------------- */

/* Spec: ace.md, "Resource Isolators": the request defaults to the limit. */
static bool effective_request(const Isolator *i, uint64_t *ret)
{
        if (!i->has_request && !i->has_limit)
                return false;
        *ret = i->has_request ? i->request : i->limit;
        if (i->has_limit && *ret > i->limit)
                *ret = i->limit;
        return true;
}

/* VALUE as a weight, where UNIT corresponds to systemd's default weight. EXACT is set if nothing was rounded
 * or clamped. */
static uint64_t scale_weight(uint64_t value, uint64_t unit, bool *exact)
{
        if (value > CPU_WEIGHT_MAX * unit / CPU_WEIGHT_DEFAULT) {
                *exact = false;
                return CPU_WEIGHT_MAX;
        }
        uint64_t weight = (value * CPU_WEIGHT_DEFAULT + unit / 2) / unit;
        *exact = weight >= CPU_WEIGHT_MIN && weight * unit == value * CPU_WEIGHT_DEFAULT;
        return MAX(weight, CPU_WEIGHT_MIN);
}

static uint64_t cpu_request_weight(const Isolator *i, bool *exact)
{
        uint64_t request = 0;

        (void) effective_request(i, &request);
        return scale_weight(request, MILLI, exact);
}

static uint64_t cpu_shares_weight(const Isolator *i, bool *exact)
{
        return scale_weight(i->number > 0 ? (uint64_t) i->number : 0, CPU_SHARES_DEFAULT, exact);
}

/* systemd takes a quota of 0 as no quota, so the smallest possible one is used instead: a thousandth of a
 * CPU. */
static uint64_t cpu_limit(const Isolator *i)
{
        return MAX(MIN(i->limit, CPU_LIMIT_MAX), UINT64_C(1));
}

static int oom_score(const Isolator *i)
{
        return (int) MAX(MIN(i->number, (int64_t) OOM_SCORE_MAX), (int64_t) -OOM_SCORE_MAX);
}

static const char *format_percent(char buffer[static 32], uint64_t milli)
{
        if (milli % 10 == 0)
                snprintf(buffer, 32, "%llu%%", (unsigned long long) (milli / 10));
        else
                snprintf(buffer, 32, "%llu.%llu%%", (unsigned long long) (milli / 10),
                         (unsigned long long) (milli % 10));
        return buffer;
}

/* --- Directives: each function adds lines for the isolator I of the list L
 * -------------------------------------- */

typedef struct Sections {
        Text *slice, *service; /* service: NULL at pod scope */
} Sections;

/* systemd would refuse zero and leave the memory unlimited; one byte has the same effect as zero and is
 * accepted. */
static void memory_directives(const IsolatorList *l, const Isolator *i, bool pod_scope, Sections s)
{
        const Isolator *cgroup = isolator_list_find(l, ISOLATOR_CGROUP);
        uint64_t request;

        if (i->has_limit)
                text_addf(s.slice, "MemoryMax=%llu\n%s", (unsigned long long) MAX(i->limit, UINT64_C(1)),
                          cgroup && pair_list_get(&cgroup->cgroup, "memory.swap.max") ? ""
                                                                                      : "MemorySwapMax=0\n");
        if (!pod_scope && effective_request(i, &request) &&
            !(cgroup && pair_list_get(&cgroup->cgroup, "memory.low")))
                text_addf(s.slice, "MemoryLow=%llu\n", (unsigned long long) request);
}

static void cpu_directives(const IsolatorList *l, const Isolator *i, bool pod_scope, Sections s)
{
        char percent[32];
        uint64_t request;
        bool exact;

        if (i->has_limit)
                text_addf(s.slice, "CPUQuota=%s\n", format_percent(percent, cpu_limit(i)));
        /* Explicit shares take precedence over a request that is only derived from the limit. */
        if (!i->has_request && isolator_list_find(l, ISOLATOR_CPU_SHARES))
                return;
        if (!pod_scope && effective_request(i, &request))
                text_addf(s.slice, "CPUWeight=%llu\n", (unsigned long long) cpu_request_weight(i, &exact));
}

static void cpu_shares_directives(const IsolatorList *l, const Isolator *i, bool pod_scope, Sections s)
{
        const Isolator *cpu = isolator_list_find(l, ISOLATOR_RESOURCE_CPU);
        bool exact;

        if (!pod_scope && !(cpu && cpu->has_request))
                text_addf(s.slice, "CPUWeight=%llu\n", (unsigned long long) cpu_shares_weight(i, &exact));
}

static void oom_score_directives(const IsolatorList *l, const Isolator *i, bool pod_scope, Sections s)
{
        (void) l;
        if (!pod_scope && s.service)
                text_addf(s.service, "OOMScoreAdjust=%d\n", oom_score(i));
}

static void further_directives(const IsolatorList *l, const Isolator *i, bool pod_scope, Sections s)
{
        (void) l;
        (void) pod_scope;
        cgroup_directives(i, s.slice);
}

/* --- Verdicts: each function describes how the isolator is enforced, given that its controller exists
 * ------------- */

/* What the request competes with. */
static const char *competitors(bool pod_scope)
{
        return pod_scope ? "pods" : "the apps of the pod";
}

/* Requests of a whole pod are set on its scope; settings of a unit that acnspawn has not made are not
 * changed. */
static bool is_left_to_unit(const VerdictInput *j, const char *directive, Text *detail)
{
        if (!j->pod_scope || !j->host->host_unit)
                return false;
        text_addf(detail, "the pod's share is that of its unit (%s)", directive);
        return true;
}

static IsolatorVerdict memory_verdict(const VerdictInput *j, Text *detail)
{
        const Isolator *i = j->isolator;
        uint64_t request = 0;

        const Isolator *cgroup = isolator_list_find(j->list, ISOLATOR_CGROUP);
        bool swap = cgroup && pair_list_get(&cgroup->cgroup, "memory.swap.max");
        if (i->has_limit)
                text_addf(detail, "%s at most %llu bytes%s", j->pod_scope ? "all apps together" : "the app",
                          (unsigned long long) i->limit, swap ? "" : ", without swap");
        if (!i->has_request)
                return i->has_limit ? ISOLATOR_ENFORCED : ISOLATOR_IGNORED;
        (void) effective_request(i, &request);
        if (i->has_limit)
                text_add(detail, "; ");
        if (is_left_to_unit(j, "MemoryLow=", detail))
                return i->has_limit ? ISOLATOR_MODIFIED : ISOLATOR_IGNORED;
        text_addf(detail, "%llu bytes are protected where %s compete, not against the rest of the host",
                  (unsigned long long) request, competitors(j->pod_scope));
        return ISOLATOR_MODIFIED;
}

static void cpu_limit_detail(const Isolator *i, bool pod_scope, Text *detail)
{
        char percent[32];

        text_addf(detail, "%s at most %s of one CPU", pod_scope ? "all apps together" : "the app",
                  format_percent(percent, cpu_limit(i)));
        if (cpu_limit(i) > i->limit)
                text_add(detail, ", the smallest possible");
}

static IsolatorVerdict cpu_verdict(const VerdictInput *j, Text *detail)
{
        const Isolator *i = j->isolator;
        bool exact;

        if (i->has_limit)
                cpu_limit_detail(i, j->pod_scope, detail);
        if (!i->has_request)
                return !i->has_limit              ? ISOLATOR_IGNORED
                       : cpu_limit(i) == i->limit ? ISOLATOR_ENFORCED
                                                  : ISOLATOR_MODIFIED;
        if (i->has_limit)
                text_add(detail, "; ");
        if (is_left_to_unit(j, "CPUWeight=", detail))
                return i->has_limit ? ISOLATOR_MODIFIED : ISOLATOR_IGNORED;
        text_addf(detail, "a weight of %llu where %s compete, instead of a guarantee",
                  (unsigned long long) cpu_request_weight(i, &exact), competitors(j->pod_scope));
        return ISOLATOR_MODIFIED;
}

static IsolatorVerdict cpu_shares_verdict(const VerdictInput *j, Text *detail)
{
        const Isolator *i = j->isolator;
        const Isolator *cpu = isolator_list_find(j->list, ISOLATOR_RESOURCE_CPU);
        bool exact;
        uint64_t weight = cpu_shares_weight(i, &exact);

        if (cpu && cpu->has_request) {
                text_add(detail, "resource/cpu requests a weight, which takes the place of this one");
                return ISOLATOR_IGNORED;
        }
        if (is_left_to_unit(j, "CPUWeight=", detail))
                return ISOLATOR_IGNORED;
        text_addf(detail, "a weight of %llu%s where %s compete", (unsigned long long) weight,
                  exact ? "" : " (the nearest possible weight)", competitors(j->pod_scope));
        return exact ? ISOLATOR_ENFORCED : ISOLATOR_MODIFIED;
}

/* The kernel lets only root of the host go below the value that the pod was started with; negative values
 * are therefore written from outside of the pod (stage0/supervisor/apps/app-limits.c). */
static IsolatorVerdict oom_score_verdict(const VerdictInput *j, Text *detail)
{
        const Isolator *i = j->isolator;
        if (oom_score(i) < 0 && !j->host->resources) {
                text_addf(detail,
                          "%d takes CAP_SYS_RESOURCE, which acnspawn does not have here; the app starts "
                          "with no less than its pod",
                          oom_score(i));
                return ISOLATOR_MODIFIED;
        }
        text_addf(detail, "the app's processes start with %d", oom_score(i));
        return oom_score(i) == i->number ? ISOLATOR_ENFORCED : ISOLATOR_MODIFIED;
}

/* For a whole pod only explicit requests count: a limit of a pod must not reduce its share against other
 * pods. */
void stage1_pod_requests(const IsolatorList *l, PodRequests *ret)
{
        const Isolator *cpu = isolator_list_find(l, ISOLATOR_RESOURCE_CPU),
                       *shares = isolator_list_find(l, ISOLATOR_CPU_SHARES),
                       *memory = isolator_list_find(l, ISOLATOR_RESOURCE_MEMORY);
        PodRequests r = {};
        bool exact;

        if (cpu && cpu->has_request)
                r.cpu_weight = cpu_request_weight(cpu, &exact);
        else if (shares)
                r.cpu_weight = cpu_shares_weight(shares, &exact);
        if (memory && memory->has_request)
                (void) effective_request(memory, &r.memory_low);
        *ret = r;
}

/* systemd would look for the disk below the pod's root, which is not on a block device of its own: stage0
 * sets these limits from outside (stage0/supervisor/apps/app-limits.c). The kernel takes a limit of 0 as unlimited, so
 * it becomes 1. */
uint64_t stage1_block_limit(const Isolator *i)
{
        return MAX(i->limit, UINT64_C(1));
}

static IsolatorVerdict block_verdict(const VerdictInput *j, Text *detail)
{
        const Isolator *i = j->isolator;
        bool bytes = i->type == ISOLATOR_RESOURCE_BLOCK_BANDWIDTH;

        if (!i->has_limit)
                return ISOLATOR_IGNORED;
        if (!j->host->block_device) {
                text_add(detail, "the disk of the pod's files is not known (not a block device, or "
                                 "several)");
                return ISOLATOR_IGNORED;
        }
        text_addf(detail, "%s at most %llu %s a second read from each disk of the pod, and as many written",
                  j->pod_scope ? "all apps together" : "the app", (unsigned long long) stage1_block_limit(i),
                  bytes ? "bytes" : "operations");
        if (stage1_block_limit(i) == i->limit)
                return ISOLATOR_ENFORCED;
        text_add(detail, ", the smallest possible");
        return ISOLATOR_MODIFIED;
}

/* --- The table ----------------------------------------------------------------------------------------- */

typedef struct IsolatorRule {
        void (*directives)(const IsolatorList *l, const Isolator *i, bool pod_scope, Sections s);
        IsolatorVerdictFunction verdict;
        size_t feature;      /* offset in HostFeatures of the feature that it needs */
        const char *needs;   /* the name of that feature; NULL: it needs none */
        bool app_only;       /* has no meaning for a pod as a whole */
        bool adds_up;        /* all isolators of this type in a list apply, not only the last */
        const char *ignored; /* why it has no effect, if it has none */
} IsolatorRule;

#define FEATURE(name) .feature = offsetof(HostFeatures, name), .needs = #name
#define LAUNCHER(how) .verdict = how, .app_only = true
#define NOTHING(why) .ignored = why

static const IsolatorRule rules[_ISOLATOR_TYPE_MAX] = {
                [ISOLATOR_UNKNOWN] = {NOTHING("there is no isolator of this name")},
                [ISOLATOR_RESOURCE_BLOCK_BANDWIDTH] = {.verdict = block_verdict, FEATURE(io)},
                [ISOLATOR_RESOURCE_BLOCK_IOPS] = {.verdict = block_verdict, FEATURE(io)},
                [ISOLATOR_RESOURCE_CPU] = {cpu_directives, cpu_verdict, FEATURE(cpu)},
                [ISOLATOR_RESOURCE_MEMORY] = {memory_directives, memory_verdict, FEATURE(memory)},
                [ISOLATOR_RESOURCE_NETWORK_BANDWIDTH] = {NOTHING("network traffic is not shaped")},
                [ISOLATOR_RESOURCE_TASKS] = {.verdict = tasks_verdict},
                [ISOLATOR_CAPABILITIES_RETAIN_SET] = {.verdict = capabilities_verdict},
                [ISOLATOR_CAPABILITIES_REMOVE_SET] = {LAUNCHER(capabilities_verdict), .adds_up = true},
                [ISOLATOR_SECCOMP_RETAIN_SET] = {LAUNCHER(seccomp_verdict)},
                [ISOLATOR_SECCOMP_REMOVE_SET] = {LAUNCHER(seccomp_verdict)},
                [ISOLATOR_NO_NEW_PRIVILEGES] = {LAUNCHER(no_new_privileges_verdict)},
                [ISOLATOR_SELINUX_CONTEXT] = {LAUNCHER(selinux_verdict)},
                [ISOLATOR_APPARMOR_PROFILE] = {LAUNCHER(apparmor_verdict)},
                [ISOLATOR_OOM_SCORE_ADJ] = {oom_score_directives, oom_score_verdict, .app_only = true},
                [ISOLATOR_CPU_SHARES] = {cpu_shares_directives, cpu_shares_verdict, FEATURE(cpu)},
                [ISOLATOR_SYSCTL] = {.verdict = sysctl_verdict},
                [ISOLATOR_CGROUP] = {further_directives, cgroup_verdict},
};

static const IsolatorRule *rule_of(const Isolator *i)
{
        return &rules[(size_t) i->type < ELEMENTSOF(rules) ? i->type : ISOLATOR_UNKNOWN];
}

/* A list can have several of one name; for most types the last one replaces those before. */
static bool is_superseded(const IsolatorRule *rule, const VerdictInput *j)
{
        return !rule->adds_up && j->isolator->type != ISOLATOR_UNKNOWN &&
               isolator_list_find(j->list, j->isolator->type) != j->isolator;
}

static IsolatorVerdict apply_rule(const IsolatorRule *rule, const VerdictInput *j, Text *detail)
{
        if (!rule->verdict) {
                text_add(detail, rule->ignored);
                return ISOLATOR_IGNORED;
        }
        if (rule->app_only && j->pod_scope) {
                text_add(detail, "it is for apps, and has no meaning for a pod as a whole");
                return ISOLATOR_IGNORED;
        }
        if (is_superseded(rule, j)) {
                text_add(detail, "a later one of this name replaces it");
                return ISOLATOR_IGNORED;
        }
        if (rule->needs && !*(const bool *) ((const char *) j->host + rule->feature)) {
                text_addf(detail, "this host has no cgroup v2 controller '%s' for pods", rule->needs);
                return ISOLATOR_IGNORED;
        }
        return rule->verdict(j, detail);
}

int isolator_verdict(const IsolatorList *l, const Isolator *i, bool pod_scope, const HostFeatures *h,
                     IsolatorVerdict *ret, char **ret_detail)
{
        const VerdictInput j = {.isolator = i, .list = l, .pod_scope = pod_scope, .host = h};
        _cleanup_text_ Text detail = {};
        _cleanup_free_ char *text = NULL;
        IsolatorVerdict v = apply_rule(rule_of(i), &j, &detail);

        if (detail.size == 0)
                text_add(&detail, "neither a request nor a limit is given");
        int r = text_take(&detail, &text, NULL);
        if (r < 0)
                return r;
        *ret = v;
        if (ret_detail)
                *ret_detail = TAKE_PTR(text);
        return 0;
}

size_t stage1_default_isolators(const IsolatorList *l, const App *app, const HostFeatures *h,
                                const Isolator *ret[static STAGE1_DEFAULTS_MAX])
{
        const Isolator *tasks = tasks_default(l, !app),
                       *profile = app && h->apparmor ? apparmor_default(app) : NULL;
        size_t n = 0;

        if (tasks)
                ret[n++] = tasks;
        if (profile)
                ret[n++] = profile;
        return n;
}

int stage1_isolator_directives(const IsolatorList *l, bool pod_scope, Text *slice, Text *service)
{
        for (size_t i = 0; i < l->n; i++) {
                const IsolatorRule *rule = rule_of(&l->items[i]);
                if (rule->directives)
                        rule->directives(l, &l->items[i], pod_scope, (Sections){slice, service});
        }
        return slice->failed || (service && service->failed) ? -ENOMEM : 0;
}
