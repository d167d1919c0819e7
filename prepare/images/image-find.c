/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Finds an image by a user's reference: a file, an ID or a prefix of one, or a name with labels.
 *
 * Ambiguous references are refused with a list of the candidates. If a name matches several images, one is
 * preferred (image-index.c).
 */

#include <sys/stat.h>

#include "prepare/images/images-internal.h"

#define CANDIDATES_MAX 8U       /* shown in a message */
#define HEX_PREFIX_MIN 4U       /* minimal number of digits of an ID's prefix */
#define SIMILAR_LENGTH_MAX 128U /* longer names are not compared */
#define ID_SHOWN (7 + 16)       /* length of IDs in messages */

/* --- By file ------------------------------------------------------------------------------------------- */

/* Whether REFERENCE can only mean a file. */
static bool must_be_file(const char *reference)
{
        return reference[0] == '/' || startswith(reference, "./") || startswith(reference, "../") ||
               endswith(reference, ".aci");
}

/* 1: imported; 0: there is no such file, and the reference may be something else. */
static int find_by_file(Store *s, const char *reference, Image **ret, Error *e)
{
        _cleanup_close_ int fd = -EBADF;
        _cleanup_free_ char *shown = text_escape_for_terminal(reference);
        struct stat st;

        if (!shown)
                return error_oom(e);
        if (!strchr(reference, '/') && !endswith(reference, ".aci"))
                return 0;
        fd = open(reference, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); /* do not block on a FIFO */
        if (fd < 0) {
                if (!must_be_file(reference) &&
                    (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG))
                        return 0;
                return error_set_errno(e, errno, "Cannot open the image %s", shown);
        }
        if (fstat(fd, &st) < 0)
                return error_set_errno(e, errno, "Cannot open the image %s", shown);
        if (!S_ISREG(st.st_mode)) {
                if (!must_be_file(reference))
                        return 0;
                return error_set(e, S_ISDIR(st.st_mode) ? -EISDIR : -EBADMSG,
                                 "The image %s is not a regular file", shown);
        }
        int r = image_import(s, fd, reference, ret, e);
        return r < 0 ? r : 1;
}

/* --- By ID --------------------------------------------------------------------------------------------- */

static bool is_hex(const char *s)
{
        return strspn(s, "0123456789abcdef") == strlen(s);
}

static int ambiguous_id(ImageIndex *x, const char *reference, char *const *ids, Error *e)
{
        _cleanup_text_ Text t = {};
        _cleanup_free_ char *candidates = NULL;
        size_t n = 0;

        STRV_FOREACH (id, ids) {
                _cleanup_(image_freep) Image *i = NULL;
                _cleanup_free_ char *name = NULL;

                if (n++ >= CANDIDATES_MAX)
                        continue;
                if (image_index_open(x, *id, &i, NULL) >= 0)
                        (void) image_name_format(i->manifest->name, &i->manifest->labels, &name);
                text_addf(&t, "%s%.*s… (%s)", n > 1 ? ", " : "", ID_SHOWN, *id, name ?: "damaged");
        }
        if (n > CANDIDATES_MAX)
                text_addf(&t, " and %zu more", n - CANDIDATES_MAX);
        if (text_take(&t, &candidates, NULL) < 0)
                return error_oom(e);
        int r = error_set(e, -ENOTUNIQ, "'%s' is the beginning of several image IDs: %s", reference,
                          candidates);
        return error_hint(e, r, "Write more digits of the ID.");
}

/* 1: found; 0: no image's ID has that prefix, and REFERENCE may be a name. */
static int find_by_id(ImageIndex *x, const char *reference, char **ret, Error *e)
{
        Store *s = image_index_store(x);
        _cleanup_strv_free_ char **ids = NULL;
        _cleanup_free_ char *prefix = NULL, *shown = NULL;
        const char *digits = startswith(reference, IMAGE_ID_PREFIX);

        if (!digits && (strlen(reference) < HEX_PREFIX_MIN || !is_hex(reference)))
                return 0;
        if (digits && isempty(digits)) {
                int r = error_set(e, -EINVAL, "'%s' is not an image ID: it has no digits", reference);
                return error_hint(e, r, "'acnspawn image list' shows all images.");
        }
        if (xasprintf(&prefix, IMAGE_ID_PREFIX "%s", digits ?: reference) < 0)
                return error_oom(e);
        int r = image_list_ids(s, prefix, &ids, e);
        if (r < 0)
                return r;
        if (strv_length(ids) > 1)
                return ambiguous_id(x, reference, ids, e);
        if (strv_length(ids) == 0) {
                if (!digits)
                        return 0;
                shown = text_escape_for_terminal(reference);
                r = error_set(e, -ENOENT, "No image in the store %s has an ID that begins with %s", s->path,
                              shown ?: "?");
                return error_hint(e, r, "'acnspawn image list' shows all images.");
        }
        *ret = TAKE_PTR(ids[0]);
        return 1;
}

/* --- By name ------------------------------------------------------------------------------------------- */

/* The number of letters that have to be added, removed or replaced to turn A into B. */
static size_t edit_distance(const char *a, const char *b)
{
        size_t row[SIMILAR_LENGTH_MAX + 1], n = strlen(a), m = strlen(b);

        for (size_t j = 0; j <= m; j++)
                row[j] = j;
        for (size_t i = 1; i <= n; i++) {
                size_t diagonal = row[0];
                row[0] = i;
                for (size_t j = 1; j <= m; j++) {
                        size_t best = MIN(row[j], row[j - 1]) + 1;
                        best = MIN(best, diagonal + (a[i - 1] != b[j - 1]));
                        diagonal = row[j];
                        row[j] = best;
                }
        }
        return row[m];
}

static const char *last_component(const char *name)
{
        const char *slash = strrchr(name, '/');

        return slash ? slash + 1 : name;
}

static bool is_similar(const char *wanted, const char *name)
{
        if (strlen(wanted) > SIMILAR_LENGTH_MAX || strlen(name) > SIMILAR_LENGTH_MAX)
                return false;
        return streq(last_component(wanted), last_component(name)) || edit_distance(wanted, name) <= 2;
}

static bool has_same_name(const char *wanted, const char *name)
{
        return streq(wanted, name);
}

static char *list_candidates(Image **list, size_t n, const char *name,
                             bool (*select)(const char *, const char *))
{
        _cleanup_text_ Text t = {};
        size_t n_shown = 0;
        char *text;

        for (size_t i = 0; i < n; i++) {
                _cleanup_free_ char *shown = NULL;
                if (!select(name, list[i]->manifest->name) || ++n_shown > CANDIDATES_MAX)
                        continue;
                if (image_name_format(list[i]->manifest->name, &list[i]->manifest->labels, &shown) >= 0)
                        text_addf(&t, "%s%s", n_shown > 1 ? ", " : "", shown);
        }
        if (n_shown > CANDIDATES_MAX)
                text_addf(&t, " and %zu more", n_shown - CANDIDATES_MAX);
        return n_shown == 0 || text_take(&t, &text, NULL) < 0 ? NULL : text;
}

static int not_found(const ImageIndex *x, const char *reference, const ImageName *name, Error *e)
{
        _cleanup_free_ Image **list = image_index_by_name(x);
        size_t n, n_damaged = image_index_n_damaged(x);
        _cleanup_free_ char *same = NULL, *similar = NULL, *shown = text_escape_for_terminal(reference);

        (void) image_index_images(x, &n);
        if (!list || !shown)
                return error_oom(e);
        same = list_candidates(list, n, name->name, has_same_name);
        similar = list_candidates(list, n, name->name, is_similar);
        int r = error_set(e, -ENOENT, "No image in the store %s is named '%s'", image_index_store(x)->path,
                          shown);
        if (same)
                return error_hint(e, r, "The store has these images of that name: %s.", same);
        if (similar)
                return error_hint(e, r, "Did you mean %s?", similar);
        if (n_damaged > 0)
                return error_hint(e, r, "%zu images there are damaged: see 'acnspawn image list'.",
                                  n_damaged);
        if (strlen(reference) < HEX_PREFIX_MIN && is_hex(reference))
                return error_hint(e, r,
                                  "An ID needs at least %u digits, or '" IMAGE_ID_PREFIX "' before them.",
                                  HEX_PREFIX_MIN);
        if (startswith(reference, "docker:"))
                return error_hint(e, r, "For an image of a registry, write 'docker://%s'.",
                                  shown + strlen("docker:"));
        if (oci_reference_is_likely(reference))
                return error_hint(e, r,
                                  "%s If it is an image of a registry, write 'docker://%s': 'acnspawn "
                                  "fetch' and 'acnspawn run' get it from there.",
                                  n > 0 ? "'acnspawn image list' shows the images in the store."
                                        : "The store has no images.",
                                  shown);
        return error_hint(e, r,
                          "'acnspawn image list' shows the images in the store, 'acnspawn fetch' fetches "
                          "more.");
}

static int find_by_name(ImageIndex *x, const char *reference, Image **ret, Error *e)
{
        _cleanup_(image_name_done) ImageName name = {};

        int r = image_name_parse(reference, &name, e);
        if (r >= 0)
                r = image_index_find(x, name.name, &name.labels, ret, e);
        return r == -ENOENT ? not_found(x, reference, &name, e) : r;
}

/* A word such as "cafe" can be the prefix of an ID and a name: if both exist, the user has to decide. */
static int check_not_a_name(ImageIndex *x, const char *reference, const char *id, Error *e)
{
        _cleanup_(image_freep) Image *named = NULL;

        if (startswith(reference, IMAGE_ID_PREFIX) || find_by_name(x, reference, &named, NULL) < 0 ||
            streq(named->id, id))
                return 0;
        int r = error_set(e, -ENOTUNIQ,
                          "'%s' is the name of the image %.*s… and the beginning of the ID %.*s…", reference,
                          ID_SHOWN, named->id, ID_SHOWN, id);
        return error_hint(e, r, "To use the ID, write it with 'sha512-' before it.");
}

/* 1: *RET_ID; 0: *RET_IMAGE. */
static int find_in_store(ImageIndex *x, const char *reference, char **ret_id, Image **ret_image, Error *e)
{
        _cleanup_free_ char *id = NULL;

        int r = find_by_id(x, reference, &id, e);
        if (r > 0)
                r = check_not_a_name(x, reference, id, e);
        else if (r == 0)
                return find_by_name(x, reference, ret_image, e);
        if (r < 0)
                return r;
        *ret_id = TAKE_PTR(id);
        return 1;
}

static int image_name_empty(Error *e)
{
        int r = error_set(e, -EINVAL, "The name of the image is empty");

        return error_hint(e, r, "'acnspawn image list' shows the images in the store.");
}

int image_index_look_up(ImageIndex *x, const char *reference, Image **ret, Error *e)
{
        _cleanup_free_ char *id = NULL;

        if (isempty(reference))
                return image_name_empty(e);
        int r = find_in_store(x, reference, &id, ret, e);
        return r > 0 ? image_index_open(x, id, ret, e) : r;
}

int image_find(Store *s, const char *reference, Image **ret, Error *e)
{
        _cleanup_(image_index_freep) ImageIndex *x = NULL;

        if (isempty(reference))
                return image_name_empty(e);
        int r = find_by_file(s, reference, ret, e);
        if (r != 0)
                return r < 0 ? r : 0;
        r = image_index_new(s, &x, e);
        return r < 0 ? r : image_index_look_up(x, reference, ret, e);
}

int image_find_id(Store *s, const char *reference, char **ret, Error *e)
{
        _cleanup_(image_index_freep) ImageIndex *x = NULL;
        _cleanup_(image_freep) Image *i = NULL;
        char *id = NULL;

        if (isempty(reference))
                return image_name_empty(e);
        int r = image_index_new(s, &x, e);
        if (r >= 0)
                r = find_in_store(x, reference, &id, &i, e);
        if (r == 0)
                id = strdup(i->id);
        if (r >= 0 && !id)
                r = error_oom(e);
        if (r < 0)
                return r;
        *ret = id;
        return 0;
}
