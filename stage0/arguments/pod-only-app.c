/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Options of an app before the first image: for the only app; and settings that are for all apps there.
 *
 * In other tools all options stand before the image. With one app it is clear which one they mean, so the usual
 * ones are valid there, too. They are those of the table of apps with the same names, stored apart until the
 * whole command line is known. What is given after the image takes precedence.
 */

#include "schema/settings.h"
#include "stage0/arguments/pod-arguments.h"

int option_only_app(const Option *o, const char *value, void *target, Error *e)
{
        PodArguments *a = target;
        const Option *x = app_options;

        while (!option_is_end(x) && !streq_ptr(x->name, o->name))
                x++;
        if (option_is_end(x))
                return error_set(e, -EINVAL, "An app has no option --%s", o->name);
        if (!a->only_app_option[0])
                option_label(o, a->only_app_option);
        return x->handler(o, value, (char *) &a->only_app + x->offset, e);
}

static void move_text(char **to, char **from)
{
        if (!*to)
                *to = TAKE_PTR(*from);
}

/* Those that are there stay. */
static int add_annotations(PairList *to, const PairList *from, Error *e)
{
        for (size_t i = 0; i < from->n; i++)
                if (!pair_list_get(to, from->items[i].name) &&
                    pair_list_set(to, from->items[i].name, from->items[i].value) < 0)
                        return error_oom(e);
        return 0;
}

int only_app_give(PodArguments *a, Error *e)
{
        AppOverrides *app = &a->request.apps[0], *given = &a->only_app;

        move_text(&app->user, &given->user);
        move_text(&app->group, &given->group);
        move_text(&app->working_directory, &given->working_directory);
        if (!app->exec)
                app->exec = TAKE_PTR(given->exec);
        return add_annotations(&app->annotations, &given->annotations, e);
}

int only_app_complete(Context *c, PodArguments *a)
{
        if (!a->only_app_option[0] || a->manifest_file)
                return 0;
        if (a->request.n_apps == 1)
                return only_app_give(a, &c->error);
        if (a->request.n_apps > 1)
                return context_usage(
                                c,
                                "With several apps, %s has to be given for one of them: put it after its "
                                "image",
                                a->only_app_option);
        return exit_policy_is_open(a->options.exit_policy)
                               ? context_usage(c, "%s is for the only app, and the pod has none",
                                               a->only_app_option)
                               : 0;
}

int only_app_complete_template(Context *c, PodArguments *a)
{
        const AppOverrides *given = &a->only_app;
        PodManifest *m = a->request.template;

        if (given->user || given->group || given->working_directory || given->exec)
                return context_usage(c,
                                     "Program, user and working directory of the apps are those of the pod "
                                     "manifest: they are not options beside --pod-manifest=");
        if (given->annotations.n > 0 && m->n_apps != 1)
                return context_usage(c,
                                     "The pod manifest has %zu apps: the one that reads standard input is "
                                     "selected there, by the annotation " SETTING_PREFIX "input",
                                     m->n_apps);
        for (size_t i = 0; i < given->annotations.n; i++)
                if (pair_list_set(&m->apps[0]->annotations, given->annotations.items[i].name,
                                  given->annotations.items[i].value) < 0)
                        return error_oom(&c->error);
        return 0;
}

int pod_arguments_give_settings(PodArguments *a, Error *e)
{
        PodManifest *m = a->request.template;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < a->request.n_apps; i++)
                r = add_annotations(&a->request.apps[i].annotations, &a->app_settings, e);
        for (size_t i = 0; r >= 0 && m && i < m->n_apps; i++)
                r = add_annotations(&m->apps[i]->annotations, &a->app_settings, e);
        return r;
}
