/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The named volumes of declared pods, so that they are not removed while the pods do not run: their data has no other copy.
 *
 * A file is read as a start of the pod would read it. If there is a mistake anywhere in it, a volume may be missing in what was
 * understood, so that is an error. */

#include "schema/settings.h"
#include "stage0/arguments/pod-declared.h"

static int refuse_mistake(Context *c, const Declared *d)
{
        const DeclaredFinding *f = d->findings;
        char line[16] = "";

        for (size_t i = 0; i < d->n_findings; i++)
                if (d->findings[i].error) {
                        f = &d->findings[i];
                        break;
                }
        if (f->place.line > 0)
                snprintf(line, sizeof(line), ":%u", f->place.line);
        int r = error_set(&c->error, -EINVAL, "the declaration of pod '%s' has a mistake: %s%s: %s", d->name,
                          f->place.file, line, f->text);
        return error_hint(&c->error, r, "'acnspawn pod verify %s' shows all of them.", d->name);
}

static int read_pod(Context *c, Declared *d, PodArguments *a, char ***names)
{
        _cleanup_run_arguments_ RunArguments own = {};

        run_arguments_init(&own);
        int r = declared_apply(d, a, &own, &c->error);
        if (r < 0)
                return r;
        if (d->has_errors)
                return refuse_mistake(c, d);
        r = a->manifest_file ? pod_arguments_read_manifest(c, a) : 0;
        if (r >= 0 && a->request.template)
                r = pod_volume_settings_check(a->request.template, &c->error);
        if (r >= 0 && request_named_volumes(&a->request, names) < 0)
                r = error_oom(&c->error);
        return r;
}

static int add_pod(Context *c, Declared *d, void *userdata)
{
        _cleanup_pod_arguments_ PodArguments a = {};

        pod_arguments_init(&a);
        return read_pod(c, d, &a, userdata);
}

int context_declared_volumes(Context *c, char ***ret)
{
        _cleanup_strv_free_ char **names = NULL;

        int r = context_for_each_declared(c, add_pod, &names,
                                          "Cannot find out which volumes declared pods use");
        if (r < 0)
                return r;
        *ret = TAKE_PTR(names);
        return 0;
}
