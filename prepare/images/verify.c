/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Verifies that an image in the store is unchanged since its import.
 *
 * Its files and those of its layers are compared with the records made when they were unpacked. For an ACI a
 * second check runs in parallel in a thread: the archive is reproduced and hashed, and the hash has to be
 * the ID. That proves content, manifest and recipe without trusting the store; the record identifies the
 * altered file.
 *
 * The store is not locked meanwhile, as this takes long: an image that is removed meanwhile is reported as
 * removed.
 */

#include <sys/stat.h>

#include "prepare/images/images-internal.h"

typedef struct IdCheck {
        int image_fd;
        const char *id;
        const Operation *operation;
        pthread_t thread;
        bool started;
        int stop; /* set by the main thread */
        int result;
        Error error;
} IdCheck;

static int look_for_stop(const void *p, size_t n, void *userdata, Error *e)
{
        const IdCheck *c = userdata;

        return __atomic_load_n(&c->stop, __ATOMIC_RELAXED) ? error_set(e, -ECANCELED, "Stopped") : 0;
}

static void *id_thread(void *userdata)
{
        IdCheck *c = userdata;

        c->result = image_replay(c->image_fd, c->id, c->operation, look_for_stop, c, &c->error);
        return NULL;
}

static int id_check_start(IdCheck *c)
{
        int r = thread_start(&c->thread, id_thread, c);

        c->started = r == 0;
        return r;
}

static void id_check_done(IdCheck *c)
{
        __atomic_store_n(&c->stop, 1, __ATOMIC_RELAXED);
        if (c->started)
                (void) pthread_join(c->thread, NULL);
        error_done(&c->error);
}

/* If altered files were found, the ID cannot match, and is not reported additionally. */
static int id_check_finish(IdCheck *c, RecordCheck *check, Error *e)
{
        (void) pthread_join(c->thread, NULL);
        c->started = false;
        if (c->result >= 0 || (c->result == -EBADMSG && check->n_found > 0))
                return 0;
        if (c->result == -EBADMSG || c->result == -ENOENT)
                return record_check_add(check, RECIPE_FILE, DIFFERENCE_ERROR, NULL, c->error.message) < 0
                                       ? error_oom(e)
                                       : 0;
        (void) error_move(e, &c->error);
        return c->result;
}

/* --- One directory ------------------------------------------------------------------------------------- */

typedef struct Verification {
        Store *store;
        const char *id;
        int dir_fd, tmp_fd;
        ImageInfo info;
        RecordCheck *check;
} Verification;

static void verification_done(Verification *v)
{
        safe_close(v->dir_fd);
        safe_close(v->tmp_fd);
        image_info_done(&v->info);
}

static int verify_directory(Verification *v, int fd, const char *what, Error *e)
{
        v->check->operation = v->store->operation;
        int r = record_verify(fd, v->tmp_fd, v->check, e);

        if (r == -ENOENT) {
                r = error_set(e, r, "%s has no record of its files, so alterations cannot be detected",
                              what);
                return error_hint(e, r, "Remove the image with 'acnspawn image rm' and import it again.");
        }
        return r < 0 ? error_prefix(e, r, "Cannot verify %s", what) : 0;
}

static int verify_layer(Verification *v, const char *layer, Error *e)
{
        _cleanup_free_ char *path = NULL, *prefix = NULL, *what = NULL;
        _cleanup_close_ int fd = -EBADF;

        if (xasprintf(&path, "layers/%s", layer) < 0 || xasprintf(&prefix, "layers/%s/", layer) < 0 ||
            xasprintf(&what, "the layer %s", layer) < 0)
                return error_oom(e);
        fd = open_beneath(v->store->fd, path, O_RDONLY | O_DIRECTORY);
        if (fd == -ENOENT)
                return record_check_add(v->check, path, DIFFERENCE_MISSING, NULL, NULL) < 0 ? error_oom(e)
                                                                                            : 0;
        if (fd < 0)
                return error_set_errno(e, fd, "Cannot open the layer %s", layer);
        v->check->prefix = prefix;
        int r = verify_directory(v, fd, what, e);
        v->check->prefix = NULL;
        return r;
}

static int verify_layers(Verification *v, Error *e)
{
        _cleanup_strv_free_ char **ids = NULL;
        _cleanup_error_ Error error = ERROR_NULL;

        int r = image_read_layer_ids(v->dir_fd, &ids, &error);
        if (r == -ENOMEM)
                return error_oom(e);
        if (r < 0)
                return record_check_add(v->check, "layers", DIFFERENCE_ERROR, NULL, error.message) < 0
                                       ? error_oom(e)
                                       : 0;
        STRV_FOREACH (id, ids) {
                r = verify_layer(v, *id, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* --- The image ----------------------------------------------------------------------------------------- */

static int read_info(Verification *v, Error *e)
{
        _cleanup_error_ Error error = ERROR_NULL;

        int r = image_info_read(v->dir_fd, &v->info, &error);
        if (r == -ENOMEM)
                return error_oom(e);
        return r < 0 && record_check_add(v->check, "info", DIFFERENCE_ERROR, NULL, error.message) < 0
                               ? error_oom(e)
                               : 0;
}

static int open_image(Verification *v, Error *e)
{
        _cleanup_free_ char *path = NULL;

        int r = image_id_check(v->id, e);
        if (r < 0)
                return r;
        if (xasprintf(&path, "images/%s", v->id) < 0)
                return error_oom(e);
        v->dir_fd = open_beneath(v->store->fd, path, O_RDONLY | O_DIRECTORY);
        if (v->dir_fd < 0)
                return error_set_errno(e, v->dir_fd, "Cannot open the image %s", v->id);
        v->tmp_fd = openat(v->store->fd, "tmp", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return v->tmp_fd < 0 ? error_set_errno(e, errno, "Cannot open %s/tmp", v->store->path) : 0;
}

/* Whether the directory still is the image: removal renames it first. */
static bool is_in_place(const Verification *v)
{
        _cleanup_free_ char *path = NULL;
        struct stat ours, there;

        return xasprintf(&path, "images/%s", v->id) >= 0 && fstat(v->dir_fd, &ours) >= 0 &&
               fstatat(v->store->fd, path, &there, AT_SYMLINK_NOFOLLOW) >= 0 && ours.st_ino == there.st_ino;
}

int image_verify(Store *s, const char *id, bool check_id, RecordCheck *check, Error *e)
{
        _cleanup_(verification_done) Verification v = {
                        .store = s, .id = id, .dir_fd = -EBADF, .tmp_fd = -EBADF, .check = check};
        _cleanup_(id_check_done) IdCheck ids = {.id = id, .operation = s->operation};
        _cleanup_free_ char *what = NULL;

        int r = open_image(&v, e);
        if (r >= 0)
                r = read_info(&v, e);
        if (r >= 0 && xasprintf(&what, "the image %s", id) < 0)
                r = error_oom(e);
        ids.image_fd = v.dir_fd;
        check_id = check_id && v.info.kind == IMAGE_KIND_ACI;
        if (r >= 0 && check_id && (r = id_check_start(&ids)) < 0)
                r = error_set_errno(e, r, "Cannot start a thread");
        if (r >= 0)
                r = verify_directory(&v, v.dir_fd, what, e);
        if (r >= 0 && v.info.kind == IMAGE_KIND_OCI)
                r = verify_layers(&v, e);
        if (r >= 0 && check_id)
                r = id_check_finish(&ids, check, e);
        if ((r < 0 || check->n_found > 0) && v.dir_fd >= 0 && !operation_ended(r) && !is_in_place(&v))
                return error_set(e, -ENOENT, "The image %s was removed while it was verified", id);
        return r;
}

/* --- The layers of a pod ------------------------------------------------------------------------------- */

static int report_altered_file(const char *what, const RecordCheck *c, Error *e)
{
        const Difference *d = c->n_kept > 0 ? &c->differences[0] : NULL;
        _cleanup_free_ char *shown = d ? text_escape_for_terminal(d->path) : NULL;

        if (c->n_found == 0)
                return 0;
        int r = error_set(e, -EBADMSG, "%s was altered in the store: '%s' (%s)%s", what, shown ?: "?",
                          d ? difference_kind_to_string(d->kind) : "?", c->n_found > 1 ? " and more" : "");
        return error_hint(e, r, "'acnspawn image verify all' shows everything that was altered.");
}

/* PATH: a lower directory, relative to the store. */
static int verify_lower(Store *s, const char *path, Error *e)
{
        _cleanup_record_check_ RecordCheck check = {.n_max = 1};
        _cleanup_free_ char *directory = strdup(path), *what = NULL;
        _cleanup_close_ int fd = -EBADF, tmp_fd = -EBADF;

        if (!directory)
                return error_oom(e);
        char *slash = strchr(directory, '/'), *end = slash ? strchr(slash + 1, '/') : NULL;
        if (end)
                *end = 0;
        if (xasprintf(&what, "%s %s", startswith(directory, "layers/") ? "The layer" : "The image",
                      slash ? slash + 1 : directory) < 0)
                return error_oom(e);
        fd = open_beneath(s->fd, directory, O_RDONLY | O_DIRECTORY);
        tmp_fd = openat(s->fd, "tmp", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || tmp_fd < 0)
                return error_set_errno(e, fd < 0 ? fd : errno, "Cannot open '%s' in the store", directory);
        Verification v = {.store = s, .dir_fd = -EBADF, .tmp_fd = tmp_fd, .check = &check};
        int r = verify_directory(&v, fd, what, e);
        return r < 0 ? r : report_altered_file(what, &check, e);
}

/* A rendered tree shares the files of its layers. */
static int add_lowers(Store *s, const char *path, char ***lowers, Error *e)
{
        _cleanup_free_ char *key = NULL, *text = NULL;
        _cleanup_strv_free_ char **lines = NULL;
        _cleanup_close_ int fd = -EBADF;

        if (!startswith(path, "rendered/"))
                return strv_contains(*lowers, path) || strv_extend(lowers, path) >= 0 ? 0 : error_oom(e);
        key = strndup(path, strlen(path) - strlen("/rootfs"));
        if (!key)
                return error_oom(e);
        fd = open_beneath(s->fd, key, O_PATH | O_DIRECTORY);
        int r = fd < 0 ? fd : render_read_layers(fd, &text);
        if (r >= 0)
                r = strv_split(text, "\n", &lines);
        STRV_FOREACH (l, lines)
                if (r >= 0 && !startswith(*l, "rendered/") && !strv_contains(*lowers, *l))
                        r = strv_extend(lowers, *l);
        return r < 0 ? error_set_errno(e, r, "Cannot read what %s was made of", path) : 0;
}

int image_verify_layers(Store *s, char *const *layers, Error *e)
{
        _cleanup_strv_free_ char **lowers = NULL;
        int r = 0;

        STRV_FOREACH (l, layers) {
                const char *relative = startswith(*l, s->path);
                if (r >= 0)
                        r = relative && *relative == '/'
                                            ? add_lowers(s, relative + 1, &lowers, e)
                                            : error_set(e, -EINVAL, "'%s' is not a layer of the store", *l);
        }
        STRV_FOREACH (l, lowers)
                if (r >= 0)
                        r = verify_lower(s, *l, e);
        return r;
}
