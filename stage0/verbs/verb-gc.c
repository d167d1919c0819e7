/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn gc: removes unused pods and downloads, and prints what it removed. */

#include "stage0/verbs/collected.h"

static const Option options[] = {
                {"Options", "grace-period", 0, "TIME", false,
                 "Keep pods that ended less than TIME ago (default: 30min)", NULL, option_usec,
                 offsetof(GcOptions, grace_usec)},
                {NULL, "expire-prepared", 0, "TIME", false,
                 "Remove pods that were prepared more than TIME ago and never run (default: 24h; infinity: "
                 "never)",
                 NULL, option_usec, offsetof(GcOptions, expire_prepared_usec)},
                {NULL, "expire-downloads", 0, "TIME", false,
                 "Remove partial downloads that were interrupted more than TIME ago (default: 24h; infinity: "
                 "never)",
                 NULL, option_usec, offsetof(GcOptions, expire_downloads_usec)},
                {NULL, "dry-run", 'n', NULL, false, "Only show what would be removed", NULL, option_true,
                 offsetof(GcOptions, dry_run)},
                OPTION_END,
};

static int collect(Context *c, GcOptions *o, Collected *t)
{
        _cleanup_kept_pods_ KeptPods kept = {};
        _cleanup_error_ Error e = ERROR_NULL, unknown = ERROR_NULL;

        int k = c->store ? pods_of_units(c->config_dirs[0], &kept.names, &unknown) : 0;
        kept.all = k < 0; /* the other things are collected all the same */
        o->kept = &kept;
        o->removed = collected_add;
        o->release = pod_release;
        o->userdata = t;
        int r = c->store ? store_gc(c->store, o, &e) : 0;
        return r < 0 ? collected_show(c, t, o->dry_run, r, &e)
                     : collected_show(c, t, o->dry_run, k, &unknown);
}

static int run(Context *c, int argc, char **argv)
{
        GcOptions o = GC_OPTIONS_DEFAULT;
        _cleanup_(collected_done) Collected t = {};

        int r = context_parse(c, options, &o, argc, argv, NULL);
        if (r <= 0)
                return r;
        r = context_open_store_if_there(c);
        if (r < 0)
                return r;
        if (collected_init(&t, true) < 0)
                return error_oom(&c->error);
        return collect(c, &o, &t);
}

const Verb verb_gc = {
                .name = "gc",
                .page = "acnspawn-stop",
                .synopsis = "[OPTIONS…]",
                .summary = "Remove unused pods and downloads",
                .text = "Removes pods that have ended, prepared pods that were never run, preparations "
                        "that were interrupted, partly unpacked images, and interrupted downloads. Prints "
                        "what it removed, and how much disk space that freed. What is in use is not "
                        "touched, nor is a pod that an enabled or loaded unit acnspawn@NAME needs; it may be run at any time.",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
