/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The image with which an app did not get ready when 'acnspawn update' replaced it: one ID, in a file beside the
 * app's other files. When the app is replaced by one of another image it goes with them. */

#include "prepare/pods/pods-internal.h"

#define FAILED_IMAGE_FILE "failed-image"
#define FAILED_IMAGE_SIZE_MAX 256U

int pod_failed_image_read(const Pod *p, const PodApp *app, char **ret)
{
        _cleanup_free_ char *path = NULL, *text = NULL;

        *ret = NULL;
        if (pod_app_path(p, app, FAILED_IMAGE_FILE, &path) < 0)
                return -ENOMEM;
        int r = read_file_at(p->dir_fd, path, FAILED_IMAGE_SIZE_MAX, &text, NULL);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        text[strcspn(text, "\n")] = 0;
        if (image_id_check(text, NULL) >= 0) /* a damaged one is as none: the image is tried again */
                *ret = TAKE_PTR(text);
        return 0;
}

int pod_failed_image_write(const Pod *p, const PodApp *app, const char *id, Error *e)
{
        _cleanup_free_ char *path = NULL, *line = NULL;

        if (pod_app_path(p, app, FAILED_IMAGE_FILE, &path) < 0 || xasprintf(&line, "%s\n", id) < 0)
                return error_oom(e);
        int r = write_file_atomic_at(p->dir_fd, path, line, strlen(line), 0600, true);
        return r < 0 ? error_set_errno(e, r, "Cannot record the failed image of app %s of pod %s", app->name,
                                       pod_display_name(p))
                     : 0;
}
