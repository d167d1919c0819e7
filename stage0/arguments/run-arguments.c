/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The options of run beyond those of a pod, which are also keys of declared pods. */

#include "stage0/arguments/pod-values.h"
#include "stage0/arguments/run-arguments.h"

/* Timeout of --detach for apps that do not report readiness: the default of systemd for starting. */
#define START_WAIT_USEC UINT64_C(90000000)

void run_arguments_init(RunArguments *a)
{
        *a = (RunArguments){.ready_timeout_usec = UINT64_MAX, .start_wait_usec = START_WAIT_USEC};
        (void) detach_keys_parse(DETACH_KEYS_DEFAULT, &a->keys);
}

void run_arguments_done(RunArguments *a)
{
        passed_sockets_done(&a->sockets);
}

int run_arguments_take_policy(Context *c, const RunArguments *own, PodArguments *a)
{
        if (!own->executor)
                return 0;
        if (a->options.exit_policy != EXIT_ON_FAILURE && a->options.exit_policy != EXIT_ON_TASKS)
                return context_usage(c, "--executor is --exit-policy=tasks, and cannot be given with "
                                        "another policy");
        a->options.exit_policy = EXIT_ON_TASKS;
        a->describes_pod = a->describes_whole_pod = true;
        return 0;
}

int run_arguments_format(const RunArguments *a, char **ret)
{
        return xasprintf(ret, "rm=%s register=%s ready-timeout=%" PRIu64, a->remove ? "yes" : "no",
                         register_mode_to_string(a->registration), a->ready_timeout_usec);
}

int option_detach_keys(const Option *o, const char *value, void *target, Error *e)
{
        int r = detach_keys_parse(value, target);

        if (r == -ENOMEM)
                return error_oom(e);
        return r < 0 ? option_invalid(o, value, e,
                                      "must be at most eight keys, as ctrl-p or q, with commas between")
                     : 0;
}

static int option_register(const Option *o, const char *value, void *target, Error *e)
{
        int mode = register_mode_from_string(value);

        if (mode < 0)
                return option_invalid(o, value, e, "must be yes, no or auto");
        *(RegisterMode *) target = (RegisterMode) mode;
        return 0;
}

static int option_images(const Option *o, const char *value, void *target, Error *e)
{
        RunArguments *a = target;

        if (!streq(value, "pinned") && !streq(value, "resolve"))
                return option_invalid(o, value, e, "must be pinned or resolve");
        a->again = true;
        a->resolve = streq(value, "resolve");
        return 0;
}

static int option_apps(const Option *o, const char *value, void *target, Error *e)
{
        RunArguments *a = target;

        if (!streq(value, "last") && !streq(value, "prepared"))
                return option_invalid(o, value, e, "must be last or prepared");
        a->again = true;
        a->as_prepared = streq(value, "prepared");
        return 0;
}

/* A timeout that is too large for the clock is clamped. */
static int option_ready_timeout(const Option *o, const char *value, void *target, Error *e)
{
        RunArguments *a = target;

        a->start_wait_usec = UINT64_MAX;
        return option_usec(o, value, &a->ready_timeout_usec, e);
}

const Option run_options[] = {
                {"Run Options (before the first image)", "detach", 'd', NULL, false,
                 "Return once the pod is up and its apps are ready, and print its UUID", NULL, option_true,
                 offsetof(RunArguments, detach)},
                {NULL, "detach-keys", 0, "KEY[,…]", false,
                 "Keys that detach from the terminal of an app (default: ctrl-] three times); empty: none",
                 NULL, option_detach_keys, offsetof(RunArguments, keys)},
                {NULL, "executor", 0, NULL, false,
                 "Run a pod for apps that are launched in it, which ends with the last of them (--exit-policy=tasks)",
                 NULL, option_true, offsetof(RunArguments, executor)},
                {NULL, "rm", 0, NULL, false, "Remove the pod when it has ended", NULL, option_true,
                 offsetof(RunArguments, remove)},
                {NULL, "ready-timeout", 0, "TIME", false,
                 "Stop the pod unless it is ready within this time (default: infinity)", NULL,
                 option_ready_timeout, 0},
                {NULL, "images", 0, "pinned|resolve", false,
                 "Of a pod that is run again: use the same images (default), or what their names mean now",
                 "pinned|resolve", option_images, 0},
                {NULL, "apps", 0, "last|prepared", false,
                 "Of a pod that is run again: the apps that it had at its end (default), or those that it "
                 "was prepared with",
                 "last|prepared", option_apps, 0},
                {NULL, "declared", 0, "NAME", false,
                 "Run the pod that NAME.pod declares (see acnspawn.pod(5)), made of that file anew",
                 "declared", option_pod_name, offsetof(RunArguments, declared)},
                {NULL, "service", 0, NULL, false,
                 "Run POD as acnspawn@POD.service does: as it is declared, if it is", NULL, option_true,
                 offsetof(RunArguments, service)},
                {NULL, "raw", 0, NULL, false,
                 "On a terminal, write the apps' control characters as they are (default: visibly)", NULL,
                 option_true, offsetof(RunArguments, raw)},
                {NULL, "strict", 0, NULL, false, "Do not run unless all isolators are enforced", NULL,
                 option_true, offsetof(RunArguments, strict)},
                {NULL, "register", 0, "yes|no|auto", false,
                 "Register the pod with systemd-machined; auto (default): if that is installed",
                 "yes|no|auto", option_register, offsetof(RunArguments, registration)},
                {NULL, "keep-unit", 0, NULL, false,
                 "Run the pod in the unit that acnspawn was started in, not in a scope of its own", NULL,
                 option_true, offsetof(RunArguments, keep_unit)},
                OPTION_END,
};
