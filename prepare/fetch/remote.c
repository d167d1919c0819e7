/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The results of fetching places: remotes/<sha256 of the place>, one small JSON file each.
 *
 * A place is a URL, the normalised reference of a registry, or a file in its state at that time (see
 * file.c). The entry has the image's ID and the server's validators for conditional requests. It is only a
 * cache, so an invalid entry is treated as missing; and it is useless without its image, so removing images
 * need not handle it.
 *
 * These files are readable only by root, and URLs in them have no user and password.
 */

#include <sys/stat.h>

#include "library/libcrypto.h"
#include "prepare/fetch/fetch-internal.h"

#define REMOTE_SIZE_MAX (64U * 1024U)
#define DIRECTORY "remotes"

void remote_done(Remote *r)
{
        free(r->image);
        free(r->etag);
        free(r->last_modified);
        free(r->signer);
        *r = (Remote){};
}

static int remote_path(const char *place, char **ret)
{
        unsigned char digest[SHA256_DIGEST_LENGTH];
        _cleanup_free_ char *hex = NULL;

        int r = library_load(&crypto_library, NULL);
        if (r < 0)
                return r == -ENOENT ? -ELIBACC : r; /* the request that follows has the message */
        (void) SHA256((const unsigned char *) place, strlen(place), digest);
        hex = hex_encode(digest, sizeof(digest));
        return hex ? xasprintf(ret, DIRECTORY "/%s", hex) : -ENOMEM;
}

/* Not what a process was killed at writing: that was complete, and is not in force. */
static bool is_entry(const char *name)
{
        return strlen(name) == (size_t) 2 * SHA256_DIGEST_LENGTH;
}

/* --- Reading ------------------------------------------------------------------------------------------- */

static int get_string(json_object *o, const char *name, char **ret)
{
        json_object *v;

        if (!json_object_object_get_ex(o, name, &v) || !v)
                return 0;
        if (!json_object_is_type(v, json_type_string))
                return -EBADMSG;
        *ret = strdup(json_object_get_string(v));
        return *ret ? 0 : -ENOMEM;
}

static uint64_t get_number(json_object *o, const char *name)
{
        json_object *v;

        if (!json_object_object_get_ex(o, name, &v) || !json_object_is_type(v, json_type_int))
                return 0;
        int64_t n = json_object_get_int64(v);
        return n < 0 ? 0 : (uint64_t) n;
}

/* -EBADMSG: the entry is invalid; other errors: it cannot be read now. */
static int read_object(Store *s, const char *path, json_object **ret)
{
        _cleanup_free_ char *text = NULL;
        size_t size;

        int r = read_file_at(store_fd(s), path, REMOTE_SIZE_MAX, &text, &size);
        if (r < 0)
                return r == -EFBIG ? -EBADMSG : r;
        r = json_parse_strict(text, size, ret, NULL, NULL);
        if (r >= 0 && json_object_is_type(*ret, json_type_object))
                return 0;
        return r == -ENOMEM ? r : -EBADMSG;
}

/* Whether the entry is for PLACE: it is for another one only if the file was edited. */
static int check_place(json_object *o, const char *place)
{
        json_object *url = json_object_object_get(o, "url");

        return json_object_is_type(url, json_type_string) && streq(json_object_get_string(url), place)
                               ? 0
                               : -EBADMSG;
}

int remote_read(Store *s, const char *place, Remote *ret)
{
        _cleanup_(remote_done) Remote m = {};
        _cleanup_json_ json_object *o = NULL;
        _cleanup_free_ char *path = NULL;

        int r = remote_path(place, &path);
        if (r >= 0)
                r = read_object(s, path, &o);
        if (r >= 0)
                r = check_place(o, place);
        if (r >= 0)
                r = get_string(o, "image", &m.image);
        if (r >= 0)
                r = get_string(o, "etag", &m.etag);
        if (r >= 0)
                r = get_string(o, "lastModified", &m.last_modified);
        if (r >= 0)
                r = get_string(o, "signer", &m.signer);
        if (r < 0)
                return r == -EBADMSG ? -ENOENT : r;
        if (!m.image || image_id_check(m.image, NULL) < 0)
                return -ENOENT;
        m.expires_usec = get_number(o, "expires");
        m.asked_usec = get_number(o, "downloaded");
        *ret = m;
        m = (Remote){};
        return 0;
}

/* --- Writing ------------------------------------------------------------------------------------------- */

static int add_string(json_object *o, const char *name, const char *s)
{
        return isempty(s) ? 0 : json_member_add_text(o, name, s);
}

static int add_number(json_object *o, const char *name, uint64_t n)
{
        return json_member_add(o, name, json_object_new_int64((int64_t) MIN(n, (uint64_t) INT64_MAX)));
}

int remote_write(Store *s, const char *place, const Remote *m)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        _cleanup_free_ char *path = NULL;

        int r = o ? remote_path(place, &path) : -ENOMEM;
        if (r >= 0)
                r = add_string(o, "url", place);
        if (r >= 0)
                r = add_string(o, "image", m->image);
        if (r >= 0)
                r = add_string(o, "etag", m->etag);
        if (r >= 0)
                r = add_string(o, "lastModified", m->last_modified);
        if (r >= 0)
                r = add_string(o, "signer", m->signer);
        if (r >= 0)
                r = add_number(o, "expires", m->expires_usec);
        if (r >= 0)
                r = add_number(o, "downloaded", now_usec(CLOCK_REALTIME));
        if (r < 0)
                return r;
        const char *text = json_print_pretty(o);
        if (!text)
                return -ENOMEM;
        if (mkdirat(store_fd(s), DIRECTORY, 0700) < 0 && errno != EEXIST)
                return -errno;
        return write_file_atomic_at(store_fd(s), path, text, strlen(text), 0600, false);
}

/* --- Collecting ---------------------------------------------------------------------------------------- */

bool remote_image_is_there(Store *s, const char *id)
{
        _cleanup_free_ char *path = NULL;

        return xasprintf(&path, "images/%s", id) < 0 ||
               faccessat(store_fd(s), path, F_OK, AT_SYMLINK_NOFOLLOW) >= 0 || errno != ENOENT;
}

/* Whether the entry of that name is still useful; *RET_URL is the place, or NULL. */
static bool is_useful(Store *s, const char *path, char **ret_url)
{
        _cleanup_json_ json_object *o = NULL;
        _cleanup_free_ char *image = NULL;

        int r = read_object(s, path, &o);
        if (r < 0)
                return r != -EBADMSG; /* what cannot be read now may be useful */
        if (get_string(o, "image", &image) < 0 || get_string(o, "url", ret_url) < 0)
                return false;
        return image && image_id_check(image, NULL) >= 0 && remote_image_is_there(s, image);
}

/* A recent file may be an entry that is just being written. */
static bool is_recent(Store *s, const char *path)
{
        struct stat st;

        return fstatat(store_fd(s), path, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
               st.st_ctim.tv_sec + 60 > (time_t) (now_usec(CLOCK_REALTIME) / 1000000);
}

int remotes_collect(Store *s, bool dry_run, char ***removed, Error *e)
{
        _cleanup_close_ int fd =
                        openat(store_fd(s), DIRECTORY, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        _cleanup_strv_free_ char **names = NULL;

        if (fd < 0 && errno == ENOENT)
                return 0;
        int r = fd < 0 ? -errno : list_names(fd, &names);
        if (r < 0)
                return error_set_errno(e, r, "Cannot list %s/" DIRECTORY, store_path(s));
        STRV_FOREACH (name, names) {
                _cleanup_free_ char *path = NULL, *url = NULL;

                if (xasprintf(&path, DIRECTORY "/%s", *name) < 0)
                        return error_oom(e);
                if ((is_entry(*name) && is_useful(s, path, &url)) || is_recent(s, path))
                        continue;
                if (!dry_run && unlinkat(store_fd(s), path, 0) < 0 && errno != ENOENT)
                        return error_set_errno(e, errno, "Cannot remove %s/%s", store_path(s), path);
                if (removed && strv_extend(removed, url ?: *name) < 0)
                        return error_oom(e);
        }
        return 0;
}

/* --- References of registries -------------------------------------------------------------------------- */

void fetched_references_free(FetchedReference *l, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                free(l[i].reference);
                free(l[i].image);
                free(l[i].digest);
        }
        free(l);
}

/* 1: the entry NAME is one, and its image is there. */
static int read_reference(Store *s, const char *name, FetchedReference *ret)
{
        _cleanup_json_ json_object *o = NULL;
        _cleanup_free_ char *path = NULL, *url = NULL, *image = NULL, *digest = NULL;

        int r = xasprintf(&path, DIRECTORY "/%s", name);
        if (r >= 0)
                r = read_object(s, path, &o);
        if (r >= 0)
                r = get_string(o, "url", &url);
        if (r >= 0)
                r = get_string(o, "image", &image);
        if (r >= 0)
                r = get_string(o, "etag", &digest);
        if (r < 0)
                return r == -ENOMEM ? r : 0;
        const char *reference = url ? startswith(url, "docker://") : NULL;
        if (!reference || !image || image_id_check(image, NULL) < 0 || !remote_image_is_there(s, image))
                return 0;
        ret->reference = strdup(reference);
        ret->image = TAKE_PTR(image);
        ret->digest = TAKE_PTR(digest);
        return ret->reference ? 1 : -ENOMEM;
}

static int compare_references(const void *a, const void *b)
{
        return strcmp(((const FetchedReference *) a)->reference, ((const FetchedReference *) b)->reference);
}

int fetched_references(Store *s, FetchedReference **ret, size_t *ret_n, Error *e)
{
        _cleanup_close_ int fd =
                        openat(store_fd(s), DIRECTORY, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        _cleanup_strv_free_ char **names = NULL;
        FetchedReference *list = NULL;
        size_t n = 0;

        int r = fd >= 0 ? list_names(fd, &names) : errno == ENOENT ? 0 : -errno;
        if (r < 0)
                return error_set_errno(e, r, "Cannot list %s/" DIRECTORY, store_path(s));
        list = calloc(strv_length(names) + 1, sizeof(FetchedReference));
        r = list ? 0 : -ENOMEM;
        STRV_FOREACH (name, names) {
                if (r >= 0 && is_entry(*name)) {
                        r = read_reference(s, *name, &list[n]);
                        n += r != 0;
                }
        }
        if (r < 0) {
                fetched_references_free(list, n);
                return error_oom(e);
        }
        qsort(list, n, sizeof(FetchedReference), compare_references);
        *ret = list;
        *ret_n = n;
        return 0;
}
