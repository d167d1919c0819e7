/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn update-app: changes limits of an app of a running pod, or its image. The image is fetched here, with all that users
 * see of it; the rest is done by the supervisor of the pod. */

#include "stage0/context/fetching.h"
#include "stage0/arguments/pod-values.h"
#include "stage0/verbs/pod-words.h"

typedef struct Arguments {
        IsolatorList limits;
        const char *image;
        uint64_t ready_timeout_usec;
        FetchOptions fetch;
} Arguments;

/* "infinity" is an isolator without a limit. */
static int option_limit(const Option *o, const char *value, void *target, Error *e)
{
        const char *name = isolator_type_to_string(streq(o->name, "cpu") ? ISOLATOR_RESOURCE_CPU
                                                                         : ISOLATOR_RESOURCE_MEMORY);
        /* Replaces the value of an earlier option. */
        int r = streq(value, "infinity")
                                ? option_add_isolator(o, value, name, "{\"request\":\"1\"}", target, e)
                                : option_isolator_short(o, value, target, e);

        if (r < 0 && streq(value, "0"))
                return error_hint(e, r, "For no limit: --%s=infinity", o->name);
        return r;
}

#define LIMITS offsetof(Arguments, limits)

static const Option options[] = {
                {"Options", "memory", 'm', "SIZE", false, "Limit the app's memory: 64Mi, 1G, …, or infinity",
                 NULL, option_limit, LIMITS},
                {NULL, "cpu", 0, "AMOUNT", false, "Limit the app's processor time: 500m, 2, …, or infinity",
                 NULL, option_limit, LIMITS},
                {NULL, "cpu-shares", 0, "NUMBER", false,
                 "Set the CPU weight among the apps of the pod: 2 to 262144", NULL, option_isolator_short,
                 LIMITS},
                {NULL, "tasks-max", 0, "NUMBER", false,
                 "Limit the app's processes and threads: a number, or infinity", NULL, option_isolator_short,
                 LIMITS},
                {"Image Options", "image", 0, "IMAGE", false,
                 "Replace the app by one of IMAGE, which keeps its options and volumes", "image",
                 option_word, offsetof(Arguments, image)},
                {NULL, "ready-timeout", 0, "TIME", false,
                 "Go back to the old image unless the new app is ready within this time (default: its own "
                 "start time-out)",
                 NULL, option_usec, offsetof(Arguments, ready_timeout_usec)},
                OPTIONS_FETCH(NULL, offsetof(Arguments, fetch)),
                OPTION_END,
};

static int replace(Context *c, AcnPod *pod, const char *app, Arguments *a)
{
        _cleanup_strv_free_ char **warnings = NULL;
        const char *references[] = {a->image, NULL};
        _cleanup_strv_free_ char **ids = NULL;
        bool replaced = false;

        int r = context_fetch_images(c, &a->fetch, references, &ids);
        if (r < 0)
                return r;
        const AcnReplaceOptions o = {.reference = a->image,
                                     .image_id = ids[0],
                                     .ready_timeout_usec = a->ready_timeout_usec};
        r = acn_replace_app(pod, app, &o, &replaced, &warnings, &c->error);
        if (r < 0)
                return r;
        context_show_warnings(warnings);
        if (!replaced && !c->quiet)
                log_info("App %s has the image %.19s already.", app, ids[0]);
        return 0;
}

/* Limits first: the new app has them from its start. */
static int update(Context *c, Pod *p, const char *app, Arguments *a)
{
        _cleanup_(acn_disconnectp) AcnPod *pod = NULL;

        int r = acn_connect(p, &pod, &c->error); /* before anything is fetched in vain */
        if (r >= 0 && a->limits.n > 0)
                r = acn_update_app(pod, app, &a->limits, &c->error);
        return r < 0 || !a->image ? r : replace(c, pod, app, a);
}

static int check(Context *c, const Arguments *a)
{
        if (!a->image && a->ready_timeout_usec != UINT64_MAX)
                return context_usage(c, "--ready-timeout= is for --image=");
        if (a->image && a->ready_timeout_usec == 0)
                return context_usage(c, "--ready-timeout= must be longer than 0");
        if (a->limits.n > 0 || a->image)
                return 1;
        return context_usage(c, "No limit is given, and no image");
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 2, .max = 2, .what = "a pod and one of its apps"};
        Arguments a = {.ready_timeout_usec = UINT64_MAX};
        _cleanup_(pod_freep) Pod *p = NULL;

        int r = context_parse(c, options, &a, argc, argv, &words);
        if (r > 0)
                r = check(c, &a);
        if (r <= 0) {
                isolator_list_done(&a.limits);
                return r;
        }
        r = a.image ? context_open_store_as_root(c) : context_open_existing_store_as_root(c);
        if (r >= 0)
                r = context_find_pod(c, words.list[0], &p);
        if (r >= 0)
                r = update(c, p, words.list[1], &a);
        isolator_list_done(&a.limits);
        return r;
}

const Verb verb_update_app = {
                .name = "update-app",
                .page = "acnspawn-update-app",
                .synopsis = "[OPTIONS…] POD APP",
                .brief = "[OPTIONS…] POD APP",
                .summary = "Change limits or the image of an app of a running pod",
                .text = "Changes limits of an app of a running pod, at once and for its later starts; those "
                        "that are not given stay as they are. Below what the app uses, memory is reclaimed, "
                        "and processes are killed if that does not suffice. What this host has no cgroup "
                        "controller for is refused. With --image= the app is replaced by one of that image, "
                        "which is prepared first. If it cannot be executed, or is not ready in time, the "
                        "old one is put back.",
                .words = "pod:running app",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
