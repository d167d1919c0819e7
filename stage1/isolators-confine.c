/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Verdicts of the isolators that the launcher applies to each process of an app, right before it executes
 * it: capabilities, system calls and no_new_privs. What is applied is in the app's launch file
 * (launch-plan.c); none of it depends on cgroups. Labels of security modules are in isolators-label.c.
 */

#include "library/libcapng.h"
#include "stage1/isolators-internal.h"
#include "stage1/seccomp-filter.h"

/* Names of a set that are unknown on this machine are left out when it is applied. */
static IsolatorVerdict set_verdict(char *const *unknown, const char *known_detail, Text *detail)
{
        _cleanup_free_ char *names = unknown ? strv_join(unknown, ", ") : NULL;

        text_add(detail, known_detail);
        if (!unknown)
                return ISOLATOR_ENFORCED;
        text_addf(detail, "; without effect, or with a different effect, on this machine: %s",
                  names ?: "some names");
        return ISOLATOR_MODIFIED;
}

IsolatorVerdict capabilities_verdict(const VerdictInput *j, Text *detail)
{
        const Isolator *i = j->isolator;
        _cleanup_strv_free_ char **unknown = NULL;

        STRV_FOREACH (name, i->set)
                if (!startswith(*name, "CAP_") || capng_name_to_capability(*name + strlen("CAP_")) < 0)
                        if (strv_extend(&unknown, *name) < 0)
                                detail->failed = true;
        return set_verdict(
                        unknown,
                        j->pod_scope ? "apps that are added to the pod can have these, besides the defaults"
                                     : "the launcher bounds the app's capabilities",
                        detail);
}

/* The calls that the default filter removes from a set that it bounds. */
static IsolatorVerdict within_default(const VerdictInput *j, IsolatorVerdict v, Text *detail)
{
        _cleanup_strv_free_ char **calls = NULL;
        _cleanup_free_ char *names = NULL;

        if (seccomp_limited_by_default(j->isolator, stage1_capabilities(j->list), &calls) < 0)
                detail->failed = true;
        if (!calls)
                return v;
        names = strv_join(calls, ", ");
        text_addf(detail, "; the default filter refuses or limits %s", names ?: "some of them");
        return ISOLATOR_MODIFIED;
}

/* Spec: ace.md allows a retain set to be extended by the calls that every process needs. */
static IsolatorVerdict retain_verdict(const VerdictInput *j, IsolatorVerdict v, Text *detail)
{
        if (seccomp_names_all(j->isolator)) {
                text_add(detail, "; it is the default filter");
                return ISOLATOR_MODIFIED;
        }
        if (seccomp_is_within_default(j->isolator))
                v = within_default(j, v, detail);
        if (seccomp_names_life_cycle(j->isolator))
                return v;
        text_add(detail, "; the calls that every process needs are allowed as well (@systemd/default)");
        return ISOLATOR_MODIFIED;
}

/* A set that cannot be applied at all keeps the app from starting; the verdict gives the same reason. */
IsolatorVerdict seccomp_verdict(const VerdictInput *j, Text *detail)
{
        const Isolator *i = j->isolator;
        const IsolatorList alone = {.items = (Isolator *) i, .n = 1};
        _cleanup_strv_free_ char **different = NULL;
        _cleanup_error_ Error e = ERROR_NULL;
        int r = seccomp_isolator_check(i, &different, &e);

        if (r < 0) {
                detail->failed |= r == -ENOMEM;
                text_add(detail, e.message ?: strerror(-r));
                return ISOLATOR_IGNORED;
        }
        if (!seccomp_has_filter(&alone)) {
                text_add(detail, "the app has no filter and may make every system call");
                return ISOLATOR_OFF;
        }
        IsolatorVerdict v = set_verdict(different, "the launcher filters the app's system calls", detail);
        return i->type == ISOLATOR_SECCOMP_RETAIN_SET ? retain_verdict(j, v, detail) : v;
}

IsolatorVerdict no_new_privileges_verdict(const VerdictInput *j, Text *detail)
{
        bool enabled = j->isolator->enabled;

        text_add(detail, enabled ? "the launcher sets the flag before it starts the app"
                                 : "the flag is not set: set-user-ID programs give the app privileges");
        return enabled ? ISOLATOR_ENFORCED : ISOLATOR_OFF;
}
