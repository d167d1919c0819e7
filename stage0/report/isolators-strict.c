/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Strict mode (spec: ace.md, "Isolators"): a pod is not run if this host does not fully enforce all of its
 * isolators, or if the kernel cannot prevent its apps from accessing each other's processes. All isolators
 * are named at once, each with the reason that status would give. Without strict mode there is a warning if
 * an isolator of an option will be ignored.
 */

#include "stage0/report/report.h"

/* A pod of one app needs no such separation. */
static int require_confinement(const PodReport *report, Error *e)
{
        _cleanup_free_ char *names = NULL;

        if (!report->exposed_to)
                return 0;
        names = strv_join(report->exposed_to, ", ");
        if (!names)
                return error_oom(e);
        int r = error_set(e, -EOPNOTSUPP,
                          "Processes of app %s cannot be prevented from accessing the pod's other apps: %s",
                          names,
                          report->exposed_to_all ? pod_report_exposure_reason(report)
                                                 : "it may mount, and this kernel is older than Linux 6.12");
        return error_hint(e, r, "Without --strict the pod runs, and 'acnspawn status' shows the same.");
}

int pod_require_isolators(Pod *p, const char *const *config_dirs, bool keep_unit, Error *e)
{
        _cleanup_(pod_report_done) PodReport report = {};
        _cleanup_text_ Text t = {};
        _cleanup_free_ char *list = NULL;
        size_t n = 0;

        int r = pod_report_isolators(p, config_dirs, keep_unit, &report, e);
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
                return require_confinement(&report, e);
        if (text_take(&t, &list, NULL) < 0)
                return error_oom(e);
        r = error_set(e, -EOPNOTSUPP, "Not all isolators of the pod can be enforced on this host:%s%s",
                      n > 1 ? "\n  " : " ", list);
        return error_hint(e, r, "Without --strict the pod runs, and 'acnspawn status' shows the same.");
}

static bool has_isolator(const IsolatorList *l, const char *name)
{
        for (size_t i = 0; i < l->n; i++)
                if (streq(l->items[i].name, name))
                        return true;
        return false;
}

/* Whether it comes from an option. */
static bool is_asked_for(const Pod *p, const PodRequest *request, size_t first, const IsolatorReport *k)
{
        const PodManifest *m = p->manifest;

        if (!k->app)
                return first == 0 && has_isolator(&request->isolators, k->name);
        for (size_t i = 0; i < request->n_apps && first + i < m->n_apps; i++) /* in one order */
                if (streq(pod_app_path_name(m->apps[first + i]), k->app))
                        return has_isolator(&request->apps[i].isolators, k->name);
        return false;
}

int pod_warn_isolators(Pod *p, const PodRequest *request, size_t first, const char *const *config_dirs,
                       char ***warnings, Error *e)
{
        _cleanup_(pod_report_done) PodReport report = {};
        size_t n = first == 0 ? request->isolators.n : 0;

        for (size_t i = 0; i < request->n_apps; i++)
                n += request->apps[i].isolators.n;
        if (n == 0)
                return 0; /* which costs nothing */
        int r = pod_report_isolators(p, config_dirs, false, &report, e);
        if (r < 0)
                return r;
        for (size_t i = 0; i < report.n_isolators; i++) {
                const IsolatorReport *k = &report.isolators[i];
                if (k->verdict == ISOLATOR_IGNORED && is_asked_for(p, request, first, k) &&
                    strv_extendf(warnings, "%s of %s%s will be ignored: %s", k->name, k->app ? "app " : "",
                                 k->app ?: "the pod", k->detail ?: "this host cannot enforce it") < 0)
                        return error_oom(e);
        }
        return 0;
}
