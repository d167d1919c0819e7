/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Warnings, when a pod is prepared, about host name files in its images or volumes, if the user requested
 * others by --hostname=, --hosts-entry= or --dns=. Requested files replace those of an image (see
 * stage0/mounts/name-files.c), and are covered by volumes. */

#include <sys/stat.h>

#include "stage0/control/control-internal.h"

typedef struct RequestedFile {
        const char *path, *option;
        bool is_set;
} RequestedFile;

/* Whether LAYER has a file at PATH; *RET_FULL: one that is not empty. */
static bool layer_has(const char *layer, const char *path, bool *ret_full)
{
        _cleanup_close_ int root_fd = open(layer, O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -EBADF;
        struct stat st;

        fd = root_fd < 0 ? -EBADF : open_in_root(root_fd, path, O_PATH);
        if (fd < 0 || fstat(fd, &st) < 0)
                return false;
        *ret_full = S_ISREG(st.st_mode) && st.st_size > 0;
        return true;
}

static bool image_has(char *const *layers, const char *path)
{
        bool full = false;

        STRV_FOREACH (layer, layers)
                if (layer_has(*layer, path, &full))
                        break;
        return full;
}

static const Mount *find_mount(const PodApp *app, const char *path)
{
        for (size_t i = 0; i < app->n_mounts; i++)
                if (path_has_prefix(path, app->mounts[i].path))
                        return &app->mounts[i];
        return NULL;
}

static int list_layers(Pod *p, const PodApp *app, char ***ret)
{
        _cleanup_free_ char *name = NULL;

        int r = pod_app_path(p, app, "lowers", &name);
        return r < 0 ? r : pod_lowers_read(p, name, ret);
}

int app_image_has(Pod *p, const PodApp *app, const char *path)
{
        _cleanup_strv_free_ char **layers = NULL;
        int r = list_layers(p, app, &layers);

        return r < 0 ? r : image_has(layers, path);
}

static int check_app(Pod *p, const PodApp *app, const RequestedFile *files, size_t n, char ***warnings)
{
        _cleanup_strv_free_ char **layers = NULL;
        int r = list_layers(p, app, &layers);

        for (size_t i = 0; r >= 0 && i < n; i++) {
                if (!files[i].is_set)
                        continue;
                const Mount *mount = find_mount(app, files[i].path);
                if (mount)
                        r = strv_extendf(warnings,
                                         "App %s does not use the file for %s: %s is on or in a volume, "
                                         "mounted at %s",
                                         app->name, files[i].option, files[i].path, mount->path);
                else if (image_has(layers, files[i].path))
                        r = strv_extendf(warnings, "App %s: %s of its image is replaced, because of %s",
                                         app->name, files[i].path, files[i].option);
        }
        return r;
}

int check_name_files(Pod *p, size_t first, char ***warnings, Error *e)
{
        const PodConfig *c = &p->config;
        const RequestedFile files[] = {
                        {"/etc/hostname", "--hostname=", c->hostname},
                        {"/etc/hosts", "--hosts-entry=", c->hosts_entries},
                        {"/etc/resolv.conf", "--dns=", c->dns && !streq(c->dns[0], "none")},
                        {"/etc/resolv.conf", c->dns_search ? "--dns-search=" : "--dns-option=",
                         !c->dns && (c->dns_search || c->dns_options)},
        };
        bool any = false;
        int r = 0;

        for (size_t i = 0; i < ELEMENTSOF(files); i++)
                any |= files[i].is_set;
        for (size_t i = first; any && r >= 0 && i < p->manifest->n_apps; i++)
                r = check_app(p, p->manifest->apps[i], files, ELEMENTSOF(files), warnings);
        return r < 0 ? error_set_errno(e, r, "Cannot read the images of pod %s", pod_display_name(p)) : 0;
}
