/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What is told about the isolators that the launcher applies to each process of an app, right before it
 * executes it: capabilities, system calls and no_new_privs. What it does is in the app's launch file
 * (launch-plan.c); none of it depends on cgroups. Labels of security modules are in isolators-label.c.
 */

#include "library/libcapng.h"
#include "stage1/isolators-internal.h"
#include "stage1/seccomp-filter.h"

/* Names of a set that mean nothing here are passed over by whoever applies it. */
static IsolatorVerdict set_verdict(char *const *unknown, const char *known_detail, Text *detail)
{
        _cleanup_free_ char *names = unknown ? strv_join(unknown, ", ") : NULL;

        text_add(detail, known_detail);
        if (!unknown)
                return ISOLATOR_ENFORCED;
        text_addf(detail, "; without effect, or with another one, on this machine: %s",
                  names ?: "some names");
        return ISOLATOR_MODIFIED;
}

IsolatorVerdict capabilities_verdict(const Isolator *i, bool pod_scope, const HostFeatures *h, Text *detail)
{
        _cleanup_strv_free_ char **unknown = NULL;

        (void) pod_scope;
        (void) h;
        STRV_FOREACH (name, i->set)
                if (!startswith(*name, "CAP_") || capng_name_to_capability(*name + strlen("CAP_")) < 0)
                        if (strv_extend(&unknown, *name) < 0)
                                detail->failed = true;
        return set_verdict(unknown, "the launcher bounds the app's capabilities", detail);
}

/* A set that cannot be applied at all keeps the app from starting, and the reason is the same as there. */
IsolatorVerdict seccomp_verdict(const Isolator *i, bool pod_scope, const HostFeatures *h, Text *detail)
{
        _cleanup_strv_free_ char **different = NULL;
        _cleanup_error_ Error e = ERROR_NULL;
        int r = seccomp_isolator_check(i, &different, &e);

        (void) pod_scope;
        (void) h;
        if (r >= 0)
                return set_verdict(different, "the launcher filters the app's system calls", detail);
        detail->failed |= r == -ENOMEM;
        text_add(detail, e.message ?: strerror(-r));
        return ISOLATOR_IGNORED;
}

IsolatorVerdict no_new_privileges_verdict(const Isolator *i, bool pod_scope, const HostFeatures *h,
                                          Text *detail)
{
        (void) pod_scope;
        (void) h;
        text_add(detail, i->enabled ? "the launcher sets the flag before it starts the app"
                                    : "the flag is not set, as asked");
        return ISOLATOR_ENFORCED;
}
