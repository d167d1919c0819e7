/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Strict mode (spec: ace.md, "Isolators"): a pod with an isolator that this host does not enforce to the
 * letter is not run. Names all of them at once, each with the reason that status would give.
 */

#include "stage0/report/report.h"

int pod_require_isolators(Pod *p, const char *const *config_dirs, Error *e)
{
        _cleanup_(pod_report_done) PodReport report = {};
        _cleanup_text_ Text t = {};
        _cleanup_free_ char *list = NULL;
        size_t n = 0;

        int r = pod_report_isolators(p, config_dirs, &report, e);
        if (r < 0)
                return r;
        for (size_t i = 0; i < report.n_isolators; i++) {
                const IsolatorReport *k = &report.isolators[i];
                if (k->verdict == ISOLATOR_ENFORCED)
                        continue;
                text_addf(&t, "%s%s of %s%s would be %s: %s", n > 0 ? "\n  " : "", k->name,
                          k->app ? "app " : "", k->app ?: "the pod", isolator_verdict_to_string(k->verdict),
                          k->detail);
                n++;
        }
        if (n == 0)
                return 0;
        if (text_take(&t, &list, NULL) < 0)
                return error_oom(e);
        r = error_set(e, -EOPNOTSUPP, "Not all isolators of the pod can be enforced on this host:%s%s",
                      n > 1 ? "\n  " : " ", list);
        return error_hint(e, r, "Without --strict the pod runs, and 'acnspawn status' tells the same.");
}
