/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn image gc: removes images that were not used for a while. */

#include "stage0/arguments/pod-declared.h"
#include "stage0/verbs/collected.h"

#define DEFAULT_GRACE_USEC (24 * 3600 * 1000000ULL)

static const Option options[] = {
                {"Options", "grace-period", 0, "TIME", false,
                 "Keep images used less than TIME ago (default: 24h)", NULL, option_usec,
                 offsetof(ImageGcOptions, grace_usec)},
                {NULL, "dry-run", 'n', NULL, false, "Only show what would be removed", NULL, option_true,
                 offsetof(ImageGcOptions, dry_run)},
                OPTION_END,
};

static int collect(Context *c, ImageGcOptions *o, Collected *t)
{
        _cleanup_kept_pods_ KeptPods pods = {};
        _cleanup_strv_free_ char **kept = NULL;
        _cleanup_error_ Error e = ERROR_NULL;

        int r = c->store ? pods_of_units(c->config_dirs[0], &pods.names, &c->error) : 0;
        if (r >= 0)
                r = context_needed_images(c, &pods, &kept);
        if (r < 0)
                return r;
        o->kept = kept;
        o->removed = collected_add;
        o->userdata = t;
        (void) interrupt_catch(c->operation);
        r = c->store ? image_gc(c->store, o, &e) : 0;
        return collected_show(c, t, o->dry_run, r, &e);
}

static int run(Context *c, int argc, char **argv)
{
        ImageGcOptions o = {.grace_usec = DEFAULT_GRACE_USEC};
        _cleanup_(collected_done) Collected t = {};

        int r = context_parse(c, options, &o, argc, argv, NULL);
        if (r <= 0)
                return r;
        r = context_open_store_if_there(c);
        if (r < 0)
                return r;
        if (collected_init(&t, false) < 0)
                return error_oom(&c->error);
        return collect(c, &o, &t);
}

const Verb verb_image_gc = {
                .name = "image gc",
                .page = "acnspawn-image",
                .synopsis = "[OPTIONS…]",
                .summary = "Remove unused images",
                .text = "Removes images that were last used before the grace period and that neither a "
                        "pod, prepared, running or declared, nor another image needs, layers that no image has, and trees that were "
                        "rendered from removed images. Prints what it removed, and how much disk space "
                        "that freed.",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
