/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Warns, when a pod is prepared, of an app that runs systemd. systemd has to be the first process of a machine, with its own
 * writable file systems and cgroups; as an app it ends at once, and has no place to log why. */

#include "stage0/control/control-internal.h"

static const char *const inits[] = {"/sbin/init", "/usr/sbin/init", "/bin/init", "/usr/bin/init", "/init"};
static const char *const systemds[] = {"/usr/lib/systemd/systemd", "/lib/systemd/systemd"};

static bool is_one_of(const char *path, const char *const *list, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (streq(path, list[i]))
                        return true;
        return false;
}

/* /sbin/init may be another program: checks whether the image contains systemd. */
static int runs_systemd(Pod *p, const PodApp *app)
{
        const char *program = app->app && app->app->exec ? app->app->exec[0] : NULL;
        int r = 0;

        if (!program || is_one_of(program, systemds, ELEMENTSOF(systemds)))
                return program != NULL;
        if (!is_one_of(program, inits, ELEMENTSOF(inits)))
                return 0;
        for (size_t i = 0; r == 0 && i < ELEMENTSOF(systemds); i++)
                r = app_image_has(p, app, systemds[i]);
        return r;
}

int warn_of_init(Pod *p, size_t first, char ***warnings, Error *e)
{
        int r = 0;

        for (size_t i = first; warnings && r >= 0 && i < p->manifest->n_apps; i++) {
                r = runs_systemd(p, p->manifest->apps[i]);
                if (r > 0)
                        r = strv_extendf(
                                        warnings,
                                        "App %s runs systemd, which has to be the first process of a machine: as an app it "
                                        "exits at once, with a status other than 0 and without a message. Run such an "
                                        "image with systemd-nspawn, or make an app of each of its services",
                                        p->manifest->apps[i]->name);
        }
        return r < 0 ? error_set_errno(e, r, "Cannot read the images of pod %s", pod_display_name(p)) : 0;
}
