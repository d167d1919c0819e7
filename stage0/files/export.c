/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Exports the root of an app as an image (spec: aci.md): its image's files and the app's changes, merged.
 *
 * The image's manifest is kept, except for dependencies and the path whitelist: the new image contains
 * exactly the files of the image that the app could see.
 */

#include "stage0/files/files-internal.h"

static int rename_image(ImageManifest *m, const char *text, Error *e)
{
        ImageName name = {};

        int r = image_name_parse(text, &name, e);
        if (r < 0)
                return r;
        free(m->name);
        m->name = TAKE_PTR(name.name);
        for (size_t i = 0; r >= 0 && i < name.labels.n; i++)
                r = pair_list_set(&m->labels, name.labels.items[i].name, name.labels.items[i].value);
        image_name_done(&name);
        return r < 0 ? error_oom(e) : 0;
}

/* Formats the manifest without dependencies and path whitelist. */
static int format_complete(ImageManifest *m, char **ret)
{
        size_t n = m->n_dependencies;

        m->path_whitelist = strv_free(m->path_whitelist);
        m->n_dependencies = 0;
        int r = image_manifest_format(m, ret);
        m->n_dependencies = n;
        return r;
}

/* The result is parsed again: the requested name or labels may not be valid. */
static int check_manifest(const char *text, Error *e)
{
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL;
        int r = image_manifest_parse(text, strlen(text), &m, NULL, e);

        return r < 0 ? error_prefix(e, r, "The image would not be valid") : 0;
}

static int make_manifest(const AppRoot *root, const char *name, char **ret, Error *e)
{
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL;
        _cleanup_free_ char *path = NULL, *text = NULL, *made = NULL;
        size_t size;

        if (pod_app_path(root->pod, root->app, "manifest", &path) < 0)
                return error_oom(e);
        int r = read_file_at(root->pod->dir_fd, path, MANIFEST_SIZE_MAX, &text, &size);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read the manifest of the image of app %s",
                                       root->app->name);
        r = image_manifest_parse(text, size, &m, NULL, e);
        if (r >= 0 && name)
                r = rename_image(m, name, e);
        if (r < 0)
                return r;
        if (format_complete(m, &made) < 0)
                return error_oom(e);
        r = check_manifest(made, e);
        if (r >= 0)
                *ret = TAKE_PTR(made);
        return r;
}

typedef struct Work {
        const AppRoot *root;
        const ExportOptions *options;
        const char *manifest, *what;
        int out_fd;
} Work;

/* Files of host names belong to the pod, not to the app. */
static bool leave_out(int fd, const struct stat *st, const char *path, void *userdata)
{
        return name_file_is_made(fd, st) || files_leave_out(fd, st, path, userdata);
}

static int pack(void *data, int *ret_fd, char **ret_text, Error *e)
{
        const Work *w = data;
        PackOptions o = w->options->pack;
        _cleanup_close_ int fd = openat(w->root->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
                return error_set_errno(e, -errno, "Cannot open the root of app %s", w->root->app->name);
        o.tree.one_file_system = true;
        o.tree.leave_out = leave_out;
        o.tree.userdata = (void *) &w->options->notes;
        return pack_image(fd, w->manifest, strlen(w->manifest), &o, w->out_fd, w->what, ret_text, e);
}

int files_export(const AppRoot *root, const ExportOptions *o, int out_fd, const char *what, char **ret_id,
                 Error *e)
{
        _cleanup_free_ char *manifest = NULL;
        Work w = {.root = root, .options = o, .what = what, .out_fd = out_fd};

        int r = make_manifest(root, o->name, &manifest, e);
        if (r < 0)
                return r;
        w.manifest = manifest;
        r = pod_view_call(root->pod, o->pack.operation, pack, &w, "pack the root of an app", ret_id, e);
        if (r == -EAGAIN && root->changing)
                return error_hint(
                                e, r,
                                "The app is writing to it: 'acnspawn pause %s' before, and 'acnspawn resume "
                                "%s' after.",
                                pod_display_name(root->pod), pod_display_name(root->pod));
        return r;
}
