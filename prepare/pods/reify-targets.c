/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The real paths of an app's volumes in its root.
 *
 * The target of a mount is a path in the image, and a component of it may be a symlink there. So each is
 * resolved through the layers, as it will be in the app's root, before the targets are compared: no target
 * may be the root, or be in /proc, since an app that controls files there could deceive the programs that
 * confine it; and no two may be the same. One inside of another is mounted in it.
 *
 * Opaque directories are not taken into account for links, so this may differ from the app's final root. The launcher
 * compares again, in the root itself; the check here serves to report errors early. So does the one of what can be mounted on
 * what: nothing below a file of the image, and no file on a directory of it. A directory replaces a file. In a directory of
 * the host or a named volume it does not: what that has there now has to be of the same kind.
 */

#include <dirent.h>
#include <limits.h>
#include <sys/stat.h>

#include "prepare/pods/reify-internal.h"

#define LINKS_MAX 40U

/* --- Following links ----------------------------------------------------------------------------------- */

/* Opens PATH, whose parents are no symlinks, in the topmost layer that has it or hides it. */
static int open_merged(char *const *layers, const char *path, struct stat *ret)
{
        STRV_FOREACH (layer, layers) {
                _cleanup_close_ int root_fd = open(*layer, O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -EBADF;

                if (root_fd < 0)
                        continue;
                fd = open_no_symlinks(root_fd, isempty(path) ? "." : path, O_PATH | O_NOFOLLOW);
                if (fd == -ENOENT)
                        continue;
                if (fd < 0 || fstat(fd, ret) < 0 || unpack_is_whiteout(ret))
                        return -ENOENT;
                return TAKE_FD(fd);
        }
        return -ENOENT;
}

/* The type (S_IFMT) of PATH, whose parents are no symlinks, in the app's root; 0: it is not there, or that is not certain. */
static mode_t type_of(char *const *layers, const char *path)
{
        STRV_FOREACH (layer, layers) {
                _cleanup_close_ int root_fd = open(*layer, O_PATH | O_DIRECTORY | O_CLOEXEC),
                                    parent_fd = -EBADF;
                struct stat st;

                int r = root_fd < 0 ? -errno : layer_look_up(root_fd, path, &parent_fd, &st);
                if (r != 0)
                        return r < 0 ? 0 : st.st_mode & S_IFMT;
        }
        return 0;
}

/* The path still to be walked, and the current path; both without a leading slash. FILE: on the way, below which nothing can be. */
typedef struct Walk {
        char at[PATH_MAX], rest[PATH_MAX], file[PATH_MAX + 1];
        unsigned links;
} Walk;

static void note_file(Walk *w, char *const *layers)
{
        mode_t type = isempty(w->file) && w->rest[strspn(w->rest, "/")] ? type_of(layers, w->at) : 0;

        if (type != 0 && type != S_IFDIR && type != S_IFLNK)
                snprintf(w->file, sizeof(w->file), "/%s", w->at);
}

static int follow(Walk *w, int link_fd)
{
        char target[PATH_MAX];
        size_t rest = strlen(w->rest);

        ssize_t n = readlinkat(link_fd, "", target, sizeof(target) - 1);
        if (n < 0)
                return -errno;
        if (++w->links > LINKS_MAX)
                return -ELOOP;
        if ((size_t) n + 1 + rest >= sizeof(w->rest))
                return -ENAMETOOLONG;
        memmove(w->rest + n + 1, w->rest, rest + 1);
        memcpy(w->rest, target, (size_t) n);
        w->rest[n] = '/';
        if (target[0] == '/')
                w->at[0] = 0;
        return 0;
}

/* Walks one component; 0: there is none left. */
static int step(Walk *w, char *const *layers)
{
        char *start = w->rest + strspn(w->rest, "/"), name[PATH_MAX];
        size_t n = strcspn(start, "/"), at = strlen(w->at);
        struct stat st;

        if (n == 0)
                return 0;
        snprintf(name, sizeof(name), "%.*s", (int) n, start);
        memmove(w->rest, start + n, strlen(start + n) + 1);
        if (streq(name, "."))
                return 1;
        if (streq(name, "..")) {
                char *slash = strrchr(w->at, '/');
                *(slash ?: w->at) = 0;
                return 1;
        }
        if (at + 1 + n >= sizeof(w->at))
                return -ENAMETOOLONG;
        if (at > 0)
                w->at[at] = '/';
        memcpy(w->at + at + (at > 0 ? 1 : 0), name, n + 1);
        _cleanup_close_ int fd = open_merged(layers, w->at, &st);
        if (fd >= 0 && !S_ISDIR(st.st_mode) && !S_ISLNK(st.st_mode))
                note_file(w, layers);
        if (fd < 0 || !S_ISLNK(st.st_mode))
                return 1;
        w->at[at] = 0;
        int r = follow(w, fd);
        return r < 0 ? r : 1;
}

/* RET_FILE: NULL, or a file of the image on the way; it is NULL if there is none. */
static int resolve(char *const *layers, const char *path, char **ret, char **ret_file)
{
        _cleanup_free_ Walk *w = calloc(1, sizeof(Walk));
        int r;

        if (!w)
                return -ENOMEM;
        if (strlen(path) >= sizeof(w->rest))
                return -ENAMETOOLONG;
        memcpy(w->rest, path, strlen(path) + 1);
        do
                r = step(w, layers);
        while (r > 0);
        if (r >= 0 && ret_file && !isempty(w->file) && !(*ret_file = strdup(w->file)))
                return -ENOMEM;
        return r < 0 ? r : xasprintf(ret, "/%s", w->at);
}

int reify_find_path(char *const *layers, const char *path, struct stat *ret)
{
        _cleanup_free_ char *real = NULL;
        _cleanup_close_ int fd = -EBADF;

        int r = resolve(layers, path, &real, NULL);
        if (r < 0)
                return r;
        fd = open_merged(layers, real + 1, ret);
        return fd < 0 ? fd : 0;
}

/* --- Refused targets ----------------------------------------------------------------------------------- */

typedef struct Target {
        const Mount *mount;
        char *real;  /* the resolved path in the app's root */
        char *file;  /* a file of the image on the way there; or NULL */
        char *shown; /* both, for messages */
} Target;

static void targets_free(Target *targets, size_t n)
{
        for (size_t i = 0; targets && i < n; i++) {
                free(targets[i].real);
                free(targets[i].file);
                free(targets[i].shown);
        }
        free(targets);
}

/* /dev as a whole can be a volume, of who says so. */
static const char *place_problem(const char *given, const char *path)
{
        if (streq(path, "/"))
                return "it is the root of the app";
        if (path_has_prefix(path, "/proc") && !path_in_proc_may_be_covered(path + strlen("/proc")))
                return "nothing may be mounted over /proc";
        if (path_has_prefix(path, "/dev/credentials") || (streq(path, "/dev") && !streq(given, path)))
                return "this path is reserved for acnspawn";
        return NULL;
}

static int describe(Target *t)
{
        _cleanup_free_ char *path = text_escape_for_terminal(t->mount->path),
                            *real = text_escape_for_terminal(t->real);

        if (!path || !real)
                return -ENOMEM;
        if (streq(path, real))
                t->shown = TAKE_PTR(path);
        else
                return xasprintf(&t->shown, "%s, which a symlink of the image resolves to %s", path, real);
        return 0;
}

static int find_target(const PodApp *a, char *const *layers, Target *t, Error *e)
{
        const char *why = NULL;

        int r = resolve(layers, t->mount->path, &t->real, &t->file);
        if (r == -ELOOP)
                why = "too many symlinks in its path";
        else if (r == -ENAMETOOLONG)
                why = "it is too long";
        else if (r < 0)
                return error_oom(e);
        else {
                if (describe(t) < 0)
                        return error_oom(e);
                why = place_problem(t->mount->path, t->real);
        }
        if (!why)
                return 0;
        return error_set(e, -EINVAL, "Volume '%s' cannot be mounted on %s in app %s: %s", t->mount->volume,
                         t->shown ?: t->mount->path, pod_app_path_name(a), why);
}

static int compare_targets(const void *a, const void *b)
{
        return strcmp(((const Target *) a)->real, ((const Target *) b)->real);
}

static int check_same(const PodApp *a, const Target *x, const Target *y, Error *e)
{
        if (!streq(x->real, y->real))
                return 0;
        if (streq(x->shown, y->shown))
                return error_set(e, -EINVAL, "App %s: volumes '%s' and '%s' are both mounted on %s",
                                 pod_app_path_name(a), x->mount->volume, y->mount->volume, y->shown);
        return error_set(e, -EINVAL, "App %s: volumes '%s' on %s and '%s' on %s are in the same place",
                         pod_app_path_name(a), x->mount->volume, x->shown, y->mount->volume, y->shown);
}

/* What the image has in these directories is not used. */
static bool is_unused(const char *path)
{
        static const char *const own[] = {"/dev", "/proc", "/sys"};

        for (size_t i = 0; i < ELEMENTSOF(own); i++)
                if (path_has_prefix(path, own[i]))
                        return true;
        return false;
}

/* A place in another volume is as that is when the app starts. */
static bool is_covered(const Target *targets, size_t n, const Target *t, const char *path)
{
        if (is_unused(path))
                return true;
        for (size_t i = 0; i < n; i++)
                if (&targets[i] != t && path_has_prefix(path, targets[i].real))
                        return true;
        return false;
}

static bool is_file(const Volume *v)
{
        struct stat st;

        return v && v->kind == VOLUME_HOST && stat(v->source, &st) >= 0 && !S_ISDIR(st.st_mode);
}

/* The volume in which the place of T is; NULL: it is in the image. */
static const Target *find_cover(const Target *targets, size_t n, const Target *t)
{
        const Target *found = NULL;

        for (size_t i = 0; i < n; i++)
                if (&targets[i] != t && path_has_prefix(t->real, targets[i].real) &&
                    (!found || strlen(targets[i].real) > strlen(found->real)))
                        found = &targets[i];
        return found;
}

/* The files of a volume of the host, or of a named one that exists; an error: they are not known before the app starts. */
static int open_volume(const Reify *r, const Volume *v)
{
        VolumeSettings s;

        if (v && v->kind == VOLUME_HOST) {
                int fd = open(v->source, O_PATH | O_DIRECTORY | O_CLOEXEC);
                return fd < 0 ? -errno : fd;
        }
        if (!v || volume_settings_read(r->manifest, v, &s, NULL) < 0 || !s.named[0])
                return -ENOENT;
        return store_open_volume(r->pod->store, s.named, O_PATH | O_CLOEXEC);
}

/* What is wrong with the place of T in another volume, as far as that is known before the app starts; NULL: nothing. */
static const char *problem_in_volume(const Reify *r, const Target *cover, const Target *t)
{
        _cleanup_close_ int root_fd = -EBADF, fd = -EBADF;
        const char *rest = t->real + strlen(cover->real);
        bool file = is_file(pod_manifest_find_volume(r->manifest, t->mount->volume));
        struct stat root, st;

        rest += strspn(rest, "/");
        if (!*rest)
                return NULL;
        root_fd = open_volume(r, pod_manifest_find_volume(r->manifest, cover->mount->volume));
        if (root_fd < 0 || fstat(root_fd, &root) < 0)
                return NULL;
        fd = open_no_symlinks(root_fd, rest, O_PATH | O_NOFOLLOW);
        if (fd == -ENOTDIR)
                return "is below a file of another volume";
        if (fd < 0 || fstat(fd, &st) < 0 || S_ISLNK(st.st_mode) || st.st_dev != root.st_dev)
                return NULL; /* what is mounted there need not be part of the volume */
        if (file == !S_ISDIR(st.st_mode))
                return NULL;
        return file ? "is a directory of another volume, and the volume is a file"
                    : "is a file of another volume, and the volume is a directory";
}

static int check_types(Reify *r, const PodApp *a, char *const *layers, const Target *targets,
                       const Target *t, Error *e)
{
        const Target *cover = find_cover(targets, a->n_mounts, t);
        const char *why = NULL;

        if (is_unused(t->mount->path))
                return 0; /* a link of the image there leads nowhere */
        if (t->file && !is_covered(targets, a->n_mounts, t, t->file))
                why = "is a file of the image";
        else if (is_file(pod_manifest_find_volume(r->manifest, t->mount->volume)) &&
                 type_of(layers, t->real + 1) == S_IFDIR && !is_covered(targets, a->n_mounts, t, t->real))
                why = "is a directory of the image, and the volume is a file";
        if (!why && cover)
                why = problem_in_volume(r, cover, t);
        else
                cover = NULL;
        if (!why)
                return 0;
        _cleanup_free_ char *shown = text_escape_for_terminal(cover || !t->file ? t->real : t->file);
        int k = error_set(e, -EINVAL, "Volume '%s' cannot be mounted on %s in app %s: %s %s",
                          t->mount->volume, t->shown, pod_app_path_name(a), shown ?: "?", why);
        return pod_request_tolerate(r->request, k, r->warnings, e);
}

/* --- Files hidden by a volume -------------------------------------------------------------------------- */

/* An image's directory may have any number of entries: stop at the first. */
static bool has_entries(int path_fd)
{
        int fd = fd_reopen(path_fd, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *de;
        bool found = false;

        if (!d) {
                safe_close(fd);
                return false;
        }
        while (!found && (de = readdir(d)))
                found = !streq(de->d_name, ".") && !streq(de->d_name, "..");
        closedir(d);
        return found;
}

/* Whether the target is a directory that is not empty in one of the layers. An approximation, as a layer may hide files
 * of those below; it serves a warning only. A file is replaced by a file on purpose. */
static bool hides_something(char *const *layers, const char *path)
{
        STRV_FOREACH (layer, layers) {
                _cleanup_close_ int root_fd = open(*layer, O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -EBADF;
                struct stat st;

                fd = root_fd < 0 ? root_fd : open_no_symlinks(root_fd, path + 1, O_PATH);
                if (fd < 0 || fstat(fd, &st) < 0)
                        continue;
                if (!S_ISDIR(st.st_mode))
                        return false;
                if (has_entries(fd))
                        return true;
        }
        return false;
}

static int warn_of_hidden_files(Reify *r, const PodApp *a, char *const *layers, const Target *t, Error *e)
{
        if (!r->warnings || !hides_something(layers, t->real))
                return 0;
        return reify_warn(r, e, "App %s: volume '%s' hides the image's content of %s", pod_app_path_name(a),
                          t->mount->volume, t->shown);
}

int reify_targets(Reify *r, const PodApp *a, char *const *layers, Error *e)
{
        Target *targets = calloc(a->n_mounts + 1, sizeof(Target));
        int k = targets ? 0 : error_oom(e);

        for (size_t i = 0; k >= 0 && i < a->n_mounts; i++) {
                targets[i].mount = &a->mounts[i];
                k = find_target(a, layers, &targets[i], e);
                if (k >= 0)
                        k = warn_of_hidden_files(r, a, layers, &targets[i], e);
        }
        for (size_t i = 0; k >= 0 && i < a->n_mounts; i++)
                k = check_types(r, a, layers, targets, &targets[i], e);
        if (k >= 0)
                qsort(targets, a->n_mounts, sizeof(Target), compare_targets);
        for (size_t i = 1; k >= 0 && i < a->n_mounts; i++)
                k = check_same(a, &targets[i - 1], &targets[i], e);
        targets_free(targets, a->n_mounts);
        return k;
}
