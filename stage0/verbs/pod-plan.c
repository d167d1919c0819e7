/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The plan of a pod: three tables, or with --json one object of three arrays, of its apps with their images,
 * of its volumes, and of its isolators with their state on this host. */

#include "schema/settings.h"
#include "stage0/verbs/pod-plan.h"
#include "stage0/verbs/pod-status-shared.h"

static Table *app_table(const Pod *p)
{
        static const TableColumn columns[] = {
                        {"APP", "name"}, {"IMAGE", "imageName"}, {"ID", "imageID"}, {"COMMAND", "exec"}};
        Table *t = table_new(columns, ELEMENTSOF(columns));

        for (size_t i = 0; t && i < p->manifest->n_apps; i++) {
                const PodApp *a = p->manifest->apps[i];
                _cleanup_free_ char *id = strndup(a->image_id, 19), *command = strv_join(a->app->exec, " ");
                if (!id || !command)
                        return table_free(t);
                table_add_text(t, a->name);
                table_add_text(t, a->image_name);
                table_add_text_as(t, a->image_id, id);
                table_add_text(t, command);
        }
        return t;
}

static Table *volume_table(const Pod *p)
{
        static const TableColumn columns[] = {{"VOLUME", "name"}, {"KIND", "kind"}, {"SOURCE", "source"}};
        Table *t = table_new(columns, ELEMENTSOF(columns));

        for (size_t i = 0; t && i < p->manifest->n_volumes; i++) {
                const Volume *v = &p->manifest->volumes[i];
                _cleanup_free_ char *source = volume_source(p->manifest, v);
                table_add_text(t, v->name);
                table_add_text(t, volume_kind_word(p->manifest, v));
                if (source)
                        table_add_text(t, source);
                else
                        table_add_none(t);
        }
        return t;
}

static Table *isolator_table(const PodReport *r)
{
        static const TableColumn columns[] = {{"OF", "app"},
                                              {"ISOLATOR", "name"},
                                              {"VERDICT", "verdict"},
                                              {"SOURCE", "source"},
                                              {"DETAIL", "detail"}};
        static const Color colors[] = {
                        [ISOLATOR_ENFORCED] = COLOR_NONE,
                        [ISOLATOR_MODIFIED] = COLOR_YELLOW,
                        [ISOLATOR_IGNORED] = COLOR_RED,
                        [ISOLATOR_OFF] = COLOR_YELLOW,
        };
        Table *t = table_new(columns, ELEMENTSOF(columns));

        for (size_t i = 0; t && i < r->n_isolators; i++) {
                const IsolatorReport *k = &r->isolators[i];
                table_add_text_as(t, k->app, k->app ?: "the pod");
                table_add_text(t, k->name);
                table_add_text(t, isolator_verdict_to_string(k->verdict));
                table_set_color(t, colors[k->verdict]);
                table_add_text(t, grant_source_to_string(k->source));
                table_add_text(t, k->detail);
        }
        return t;
}

enum { PLAN_APPS, PLAN_VOLUMES, PLAN_ISOLATORS, _PLAN_MAX };

static int show_json(Context *c, Table *const tables[static _PLAN_MAX])
{
        static const char *const keys[_PLAN_MAX] = {"apps", "volumes", "isolators"};
        _cleanup_json_ json_object *o = json_object_new_object();

        for (size_t i = 0; o && i < _PLAN_MAX; i++) {
                if (json_member_add(o, keys[i], table_to_json(tables[i])) < 0)
                        return error_oom(&c->error);
        }
        return context_show_json(c, o);
}

static int show_text(Context *c, Table *const tables[static _PLAN_MAX])
{
        Display d = display_of(STDOUT_FILENO);
        _cleanup_text_ Text all = {};
        _cleanup_free_ char *whole = NULL;

        for (size_t i = 0; i < _PLAN_MAX; i++) {
                _cleanup_free_ char *text = NULL;
                if (table_n_rows(tables[i]) == 0)
                        continue;
                if (table_format(tables[i], &d, !c->no_legend, &text) < 0)
                        return error_oom(&c->error);
                text_addf(&all, "%s%s", all.size > 0 ? "\n" : "", text);
        }
        if (text_take(&all, &whole, NULL) < 0)
                return error_oom(&c->error);
        return context_show_text(c, whole);
}

int context_show_plan(Context *c, Pod *p)
{
        _cleanup_(pod_report_done) PodReport report = {};
        int r = pod_report_isolators(p, context_config_dirs(c), false, &report, &c->error);

        if (r < 0)
                return r;
        Table *tables[_PLAN_MAX] = {app_table(p), volume_table(p), isolator_table(&report)};
        if (!tables[PLAN_APPS] || !tables[PLAN_VOLUMES] || !tables[PLAN_ISOLATORS])
                r = error_oom(&c->error);
        else
                r = c->json != JSON_OFF ? show_json(c, tables) : show_text(c, tables);
        for (size_t i = 0; i < _PLAN_MAX; i++)
                table_free(tables[i]);
        return r;
}
