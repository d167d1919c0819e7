/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The volumes of a pod (spec: pods.md, "volumes"; ace.md, "Volume Setup").
 *
 * They come from the template, from the command line, and from mounts of a template that define a volume
 * themselves. The last become volumes of the pod like the others, under a name that begins with the app's,
 * so that there is one list of volumes.
 *
 * A host volume is checked here, so that an error is reported when the pod is prepared. The supervisor
 * opens it again, under the same rules, and mounts what it opened.
 */

#include <limits.h>
#include <sys/stat.h>

#include "prepare/pods/reify-internal.h"
#include "schema/settings.h"

static int check_text(const char *s, const char *what, const char *volume, Error *e)
{
        /* Other bytes would be replaced in the manifest, which is JSON, and result in another path when the
         * pod starts. */
        if (utf8_is_valid(s, strlen(s)))
                return 0;
        return error_set(e, -EILSEQ, "The %s of volume '%s' is not valid UTF-8, which pod manifests require",
                         what, volume);
}

/* The first component of PATH, which is normalized, that is a symlink. */
static char *first_symlink(const char *path)
{
        _cleanup_free_ char *copy = strdup(path);

        for (char *p = copy ? copy + 1 : NULL; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL) {
                char *slash = strchr(p, '/');
                struct stat st;

                if (slash)
                        *slash = 0;
                if (lstat(copy, &st) >= 0 && S_ISLNK(st.st_mode))
                        return TAKE_PTR(copy);
                if (slash)
                        *slash = '/';
        }
        return NULL;
}

static int refuse_source(const Volume *v, int code, Error *e)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(v->source), *link = NULL, *shown_link = NULL;
        int r;

        if (code == -ELOOP) {
                link = first_symlink(v->source);
                shown_link = link ? text_escape_for_terminal(link) : NULL;
                if (access(v->source, F_OK) < 0 && errno == ENOENT) {
                        r = error_set(e, -ENOENT,
                                      "Volume '%s' cannot use %s: %s is a symbolic link whose target does not exist",
                                      v->name, shown ?: "?", shown_link ?: "a part of it");
                        return error_hint(
                                        e, r,
                                        "Create the target, or name another source; 'namei %s' shows the links.",
                                        shown ?: "PATH");
                }
                r = error_set(e, code, "Volume '%s' cannot use %s: %s is a symbolic link", v->name,
                              shown ?: "?", shown_link ?: "a part of it");
                return error_hint(e, r,
                                  "Give the real path, which 'realpath %s' shows, or add "
                                  "symlinks=true to the volume.",
                                  shown ?: "PATH");
        }
        r = error_set_errno(e, code, "Volume '%s' cannot use %s", v->name, shown ?: "?");
        if (code == -ENOENT)
                return error_hint(e, r,
                                  "Directories of the host are not created: create it first, or use "
                                  "kind=empty.");
        return r;
}

/* Checks that do not depend on the host. */
static int check_source(const Volume *v, char **ret_normal, Error *e)
{
        _cleanup_free_ char *normal = NULL;

        if (!v->source)
                return error_set(e, -EINVAL, "Volume '%s' needs a source, as it is of kind host", v->name);
        int r = path_normalize(v->source, &normal);
        if (r == -ENOMEM)
                return error_oom(e);
        if (r < 0)
                return error_set(e, r, "The source of volume '%s' must be an absolute path without '..'",
                                 v->name);
        r = check_text(normal, "source", v->name, e);
        if (r >= 0)
                *ret_normal = TAKE_PTR(normal);
        return r;
}

static int check_host_volume(Volume *v, const VolumeSettings *s, Error *e)
{
        _cleanup_free_ char *normal = NULL;
        _cleanup_close_ int fd = -EBADF;
        struct stat st;

        int r = check_source(v, &normal, e);
        if (r < 0)
                return r;
        free(v->source);
        v->source = TAKE_PTR(normal);

        fd = open_to_mount(v->source, s->symlinks);
        if (fd < 0)
                return refuse_source(v, fd, e);
        if (fstat(fd, &st) < 0)
                return refuse_source(v, -errno, e);
        return 0;
}

static int check_empty_volume(const Volume *v, Error *e)
{
        if (v->source)
                return error_set(e, -EINVAL, "Volume '%s' is empty and cannot have a source", v->name);
        if (strlen(v->name) > NAME_MAX)
                return error_set(e, -ENAMETOOLONG,
                                 "The name of volume '%.40s…' is longer than %d characters", v->name,
                                 NAME_MAX);
        if (v->uid >= UID_RANGE_SIZE || v->gid >= UID_RANGE_SIZE)
                return error_set(e, -ERANGE,
                                 "Volume '%s' cannot belong to %s %u: a pod has those from 0 to %u", v->name,
                                 v->uid >= UID_RANGE_SIZE ? "user" : "group",
                                 v->uid >= UID_RANGE_SIZE ? v->uid : v->gid, UID_RANGE_SIZE - 1);
        if (v->mode > 07777)
                return error_set(e, -EINVAL, "Volume '%s' cannot have the mode %o", v->name, v->mode);
        return 0;
}

int template_volume_check(const Volume *v, Error *e)
{
        _cleanup_free_ char *normal = NULL;

        return v->kind == VOLUME_HOST ? check_source(v, &normal, e) : check_empty_volume(v, e);
}

static int check_volume(Reify *r, Volume *v, Error *e)
{
        VolumeSettings s;
        int k = ac_name_check(v->name, e);

        if (k < 0)
                return error_prefix(e, k, "A volume has a name that is not valid");
        k = volume_settings_read(r->manifest, v, &s, e);
        if (k >= 0)
                k = v->kind == VOLUME_HOST ? check_host_volume(v, &s, e) : check_empty_volume(v, e);
        return k < 0 || !s.image[0] ? k : reify_volume_image(r, v, &s, e);
}

/* The settings of the command line become an annotation of the pod. */
static int add_settings(PodManifest *m, const Volume *v, Error *e)
{
        _cleanup_free_ char *name = NULL;

        if (!v->settings)
                return 0;
        if (xasprintf(&name, VOLUME_SETTINGS_PREFIX "%s", v->name) < 0 ||
            pair_list_set(&m->annotations, name, v->settings) < 0)
                return error_oom(e);
        return 0;
}

static int add_volumes(Reify *r, const Volume *volumes, size_t n, Error *e)
{
        for (size_t i = 0; i < n; i++) {
                Volume *v;

                if (pod_manifest_find_volume(r->manifest, volumes[i].name)) {
                        int k = error_set(e, -EEXIST, "Two volumes of the pod have the name '%s'",
                                          volumes[i].name);
                        return error_hint(e, k, "Give one of them another name.");
                }
                v = pod_manifest_add_volume(r->manifest);
                if (!v || volume_copy(&volumes[i], v) < 0)
                        return error_oom(e);
                int k = add_settings(r->manifest, v, e);
                if (k >= 0)
                        k = check_volume(r, v, e);
                if (k < 0)
                        return k;
        }
        return 0;
}

int reify_add_volume(Reify *r, const char *name, const Volume *like, const char **ret_name, Error *e)
{
        _cleanup_free_ char *unique = strdup(name);
        Volume *v;

        for (unsigned i = 2; unique && pod_manifest_find_volume(r->manifest, unique); i++) {
                free(TAKE_PTR(unique));
                (void) xasprintf(&unique, "%s-%u", name, i);
        }
        v = unique ? pod_manifest_add_volume(r->manifest) : NULL;
        if (!v || volume_copy(like, v) < 0)
                return error_oom(e);
        free(v->name);
        v->name = TAKE_PTR(unique);
        *ret_name = v->name;
        int k = add_settings(r->manifest, v, e);
        return k < 0 ? k : check_volume(r, v, e);
}

/* Whether the mount, which names a named volume of the store, can be one of the pod's volume of that name:
 * that takes precedence. */
static int take_volume_of_pod(const Reify *r, Mount *m, Error *e)
{
        const char *name = m->app_volume->name;

        if (!startswith(m->app_volume->settings ?: "", "kind=named,") ||
            !pod_manifest_find_volume(r->manifest, name))
                return 0;
        free(m->volume);
        m->volume = strdup(name);
        if (!m->volume)
                return error_oom(e);
        m->app_volume = volume_free(m->app_volume);
        return 1;
}

static const char *find_kept(const Reify *r, size_t i)
{
        const char *name = i < r->n_kept ? r->kept[i] : NULL;

        return name && pod_manifest_find_volume(r->manifest, name) ? name : NULL;
}

/* Volumes that are defined by mounts. */
static int hoist_volumes(Reify *r, PodApp *a, Error *e)
{
        for (size_t i = 0; i < a->n_mounts; i++) {
                _cleanup_free_ char *name = NULL;
                Mount *m = &a->mounts[i];
                const char *given = find_kept(r, i);
                int k = 0;

                if (!m->app_volume)
                        continue;
                if (!given) {
                        k = take_volume_of_pod(r, m, e);
                        if (k < 0)
                                return k;
                        if (k > 0)
                                continue;
                        if (xasprintf(&name, "%s-%s", a->name, m->app_volume->name) < 0)
                                return error_oom(e);
                        k = reify_add_volume(r, name, m->app_volume, &given, e);
                }
                if (k < 0)
                        return error_prefix(e, k, "App %s", pod_app_path_name(a));
                m->app_volume = volume_free(m->app_volume);
                free(m->volume);
                m->volume = strdup(given);
                if (!m->volume)
                        return error_oom(e);
        }
        return 0;
}

/* The others of the request are there already. */
static int add_new_volumes(Reify *r, const Volume *volumes, size_t n, Error *e)
{
        int k = 0;

        for (size_t i = 0; i < n && k >= 0; i++)
                if (!pod_manifest_find_volume(r->manifest, volumes[i].name))
                        k = add_volumes(r, &volumes[i], 1, e);
        return k;
}

int reify_volumes(Reify *r, Error *e)
{
        const PodRequest *q = r->request;

        int k = q->template && !r->old ? add_volumes(r, q->template->volumes, q->template->n_volumes, e) : 0;
        if (k >= 0)
                k = (r->old ? add_new_volumes : add_volumes)(r, q->volumes, q->n_volumes, e);
        for (size_t i = r->first_app; i < r->manifest->n_apps && k >= 0; i++)
                k = hoist_volumes(r, r->manifest->apps[i], e);
        return k;
}
