/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* OCI image layouts, as a directory or as an archive (image-spec, "Image Layout").
 *
 * index.json lists the images, which are distinguished by an annotation: a tag, or a whole reference.
 * Everything else is a blob, found by its digest.
 */

#include "prepare/oci/oci-internal.h"

#define CONTAINERD_NAME                                                                                     \
        "io.containerd.image.name" /* a complete reference, in addition to a tag in
                                                    * ref.name */

typedef struct Layout {
        OciSource source;
        Files *files;
        char *index_text;
        size_t index_size;
        OciIndex *index;
        const OciDescriptor *chosen; /* NULL: the index itself is the image's */
} Layout;

/* --- The source ---------------------------------------------------------------------------------------- */

static int open_digest(Layout *l, const char *digest, int *ret_fd, uint64_t *ret_size, Error *e)
{
        _cleanup_free_ char *name = NULL;

        int r = oci_digest_check(digest, e);
        if (r < 0)
                return r;
        const char *colon = strchr(digest, ':');
        if (xasprintf(&name, "blobs/%.*s/%s", (int) (colon - digest), digest, colon + 1) < 0)
                return error_oom(e);
        r = l->files->open(l->files, name, ret_fd, ret_size, e);
        if (r == -ENOENT)
                return error_set(e, r, "The layout has no blob %s", digest);
        return r;
}

static int layout_open_blob(OciSource *s, const OciDescriptor *d, int *ret_fd, Error *e)
{
        _cleanup_close_ int fd = -EBADF;
        uint64_t size;

        int r = open_digest((Layout *) s, d->digest, &fd, &size, e);
        if (r < 0)
                return r;
        if (size != d->size)
                return error_set(e, -EBADMSG, "The blob %s has %" PRIu64 " bytes instead of %" PRIu64,
                                 d->digest, size, d->size);
        *ret_fd = TAKE_FD(fd);
        return 0;
}

static int read_blob(Layout *l, const char *digest, char **ret, size_t *ret_size, Error *e)
{
        _cleanup_close_ int fd = -EBADF;
        uint64_t size;

        int r = open_digest(l, digest, &fd, &size, e);
        return r < 0 ? r : document_read(fd, size, "manifest", digest, ret, ret_size, e);
}

static int layout_get_manifest(OciSource *s, const char *digest, char **ret, size_t *ret_size,
                               char **ret_media_type, Error *e)
{
        Layout *l = (Layout *) s;
        const OciDescriptor *d = digest ? NULL : l->chosen;
        _cleanup_free_ char *type = d ? strdup(d->media_type) : NULL, *text = NULL;
        size_t size = l->index_size;
        int r = 0;

        if (d && !type)
                return error_oom(e);
        if (digest || d)
                r = read_blob(l, digest ?: d->digest, &text, &size, e);
        else {
                text = strdup(l->index_text);
                r = text ? 0 : error_oom(e);
        }
        /* A caller that requests a digest checks it; the digest of the reference is only known here. */
        if (r >= 0 && d)
                r = digest_check_bytes(d->digest, text, size, "The manifest", e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(text);
        *ret_size = size;
        *ret_media_type = TAKE_PTR(type);
        return 0;
}

static void source_layout_free(OciSource *s)
{
        Layout *l = (Layout *) s;

        oci_source_done(s);
        (void) files_free(l->files);
        free(l->index_text);
        (void) oci_index_free(l->index);
        free(l);
}

static const OciSourceVTable layout_vtable = {layout_get_manifest, layout_open_blob, source_layout_free};

/* --- Which image --------------------------------------------------------------------------------------- */

static const char *tag_of(const char *name)
{
        const char *slash = strrchr(name, '/'), *colon = strrchr(slash ?: name, ':');

        return colon ? colon + 1 : name;
}

static bool is_called(const OciDescriptor *d, const char *tag)
{
        const char *names[] = {pair_list_get(&d->annotations, OCI_REF_NAME),
                               pair_list_get(&d->annotations, CONTAINERD_NAME)};

        if (streq(d->digest, tag))
                return true;
        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (names[i] && (streq(names[i], tag) || streq(tag_of(names[i]), tag)))
                        return true;
        return false;
}

static int list_names_of(const OciIndex *index, char **ret, Error *e)
{
        _cleanup_strv_free_ char **l = NULL;
        _cleanup_free_ char *list = NULL;

        for (size_t i = 0; i < index->n_manifests && strv_length(l) < 32; i++) {
                const OciDescriptor *d = &index->manifests[i];
                const char *name = pair_list_get(&d->annotations, OCI_REF_NAME) ?: d->digest;
                if (!strv_contains(l, name) && strv_extend(&l, name) < 0)
                        return error_oom(e);
        }
        list = strv_join(l, ", ");
        *ret = list ? text_escape_for_terminal(list) : NULL;
        return *ret ? 0 : error_oom(e);
}

/* Selects the one for this host from several with the same name. */
static int choose_platform(Layout *l, const size_t *found, size_t n, Error *e)
{
        _cleanup_free_ OciDescriptor *some = calloc(n, sizeof(OciDescriptor));
        const OciDescriptor *chosen;

        if (!some)
                return error_oom(e);
        for (size_t i = 0; i < n; i++)
                some[i] = l->index->manifests[found[i]]; /* borrowed */
        const OciIndex index = {.manifests = some, .n_manifests = n};
        int r = oci_index_select(&index, host_os_label(), host_arch_label(), &chosen, e);
        if (r >= 0)
                l->chosen = &l->index->manifests[found[chosen - some]];
        return r;
}

static int choose_tag(Layout *l, const char *tag, Error *e)
{
        _cleanup_free_ size_t *found = calloc(l->index->n_manifests + 1, sizeof(size_t));
        _cleanup_free_ char *list = NULL, *shown = NULL;
        size_t n = 0;

        if (!found)
                return error_oom(e);
        for (size_t i = 0; i < l->index->n_manifests; i++)
                if (is_called(&l->index->manifests[i], tag))
                        found[n++] = i;
        if (n == 1)
                l->chosen = &l->index->manifests[found[0]];
        if (n > 0)
                return n == 1 ? 0 : choose_platform(l, found, n, e);
        int r = list_names_of(l->index, &list, e);
        if (r < 0)
                return r;
        shown = text_escape_for_terminal(tag);
        return error_set(e, -ENOENT, "There is no image '%s' in it, only: %s", shown ?: "?", list);
}

static int choose_only(Layout *l, Error *e)
{
        _cleanup_free_ char *list = NULL;
        bool named = false;

        if (l->index->n_manifests == 0)
                return error_set(e, -ENOENT, "There is no image in it");
        if (l->index->n_manifests == 1) {
                l->chosen = &l->index->manifests[0];
                return 0;
        }
        for (size_t i = 0; i < l->index->n_manifests; i++)
                named = named || pair_list_get(&l->index->manifests[i].annotations, OCI_REF_NAME);
        if (!named) /* one image for several platforms */
                return 0;
        int r = list_names_of(l->index, &list, e);
        if (r < 0)
                return r;
        r = error_set(e, -EINVAL, "There are several images in it: %s", list);
        return error_hint(e, r, "Select one of them after a colon, as in %s:TAG.", l->source.reference);
}

/* --- Names --------------------------------------------------------------------------------------------- */

/* "/a/Busybox.tar.gz" is "busybox". */
static int name_from_path(const char *path, char **ret)
{
        static const char *const suffixes[] = {".gz", ".bz2", ".xz", ".zst", ".tar", ".tgz", ".oci"};
        _cleanup_free_ char *whole = streq(path, "-") ? NULL : realpath(path, NULL), *version = NULL;
        char *base = whole && strrchr(whole, '/') ? strrchr(whole, '/') + 1 : (char *) "image";

        for (size_t i = 0; i < ELEMENTSOF(suffixes) && whole; i++) {
                const char *suffix = endswith(base, suffixes[i]);
                if (suffix && suffix != base)
                        base[suffix - base] = 0;
        }
        /* Not a reference: a colon in it is no tag. */
        for (char *p = whole ? base : NULL; p && *p; p++)
                *p = strchr(":@", *p) ? '-' : *p;
        int r = oci_name_from_reference(base, ret, &version, NULL);
        if (r == -EINVAL) {
                *ret = strdup("image");
                r = *ret ? 0 : -ENOMEM;
        }
        return r;
}

int oci_source_set_name(OciSource *s, const char *path, const char *name, Error *e)
{
        int r;

        free(s->image_name);
        free(s->image_version);
        s->image_name = s->image_version = NULL;
        if (name && strpbrk(name, "/:"))
                return oci_name_from_reference(name, &s->image_name, &s->image_version, e);
        r = name_from_path(path, &s->image_name);
        if (r >= 0 && name) {
                s->image_version = strdup(name);
                r = s->image_version ? 0 : -ENOMEM;
        }
        return r < 0 ? error_oom(e) : 0;
}

int oci_source_set_reference(OciSource *s, const char *transport, const char *path, const char *tag,
                             Error *e)
{
        int r = xasprintf(&s->reference, "%s:%s%s%s", transport, path, tag ? ":" : "", tag ?: "");

        return r < 0 ? error_oom(e) : 0;
}

/* --- Opening ------------------------------------------------------------------------------------------- */

static int read_layout(Layout *l, Error *e)
{
        _cleanup_free_ char *marker = NULL;
        size_t size;

        int r = files_read(l->files, "oci-layout", &marker, &size, e);
        if (r == -ENOENT) {
                r = error_set(e, r, "It is not an OCI image layout: it has no file oci-layout");
                return error_hint(
                                e, r,
                                "App Container images are given by their path alone, their layouts are for "
                                "'acnspawn build'; for Docker archives use docker-archive:.");
        }
        if (r >= 0)
                r = oci_layout_parse(marker, size, NULL, e);
        if (r >= 0)
                r = files_read(l->files, "index.json", &l->index_text, &l->index_size, e);
        if (r == -ENOENT)
                return error_set(e, r, "It is not an OCI image layout: it has no file index.json");
        return r < 0 ? r : oci_index_parse(l->index_text, l->index_size, &l->index, NULL, e);
}

/* Takes ownership of FILES. */
static int layout_new(Files *files, const char *transport, const char *path, const char *tag,
                      OciSource **ret, Error *e)
{
        _cleanup_(oci_source_freep) OciSource *s = NULL;
        Layout *l = calloc(1, sizeof(Layout));

        if (!l) {
                (void) files_free(files);
                return error_oom(e);
        }
        *l = (Layout){.source = {.vtable = &layout_vtable}, .files = files};
        s = &l->source;
        int r = oci_source_set_reference(s, transport, path, tag, e);
        if (r >= 0)
                r = read_layout(l, e);
        if (r >= 0)
                r = tag ? choose_tag(l, tag, e) : choose_only(l, e);
        if (r >= 0) {
                const PairList *a = l->chosen ? &l->chosen->annotations : &l->index->annotations;
                r = oci_source_set_name(s, path,
                                        pair_list_get(a, CONTAINERD_NAME) ?: pair_list_get(a, OCI_REF_NAME),
                                        e);
        }
        if (r < 0)
                return r;
        *ret = TAKE_PTR(s);
        return 0;
}

static int opening_error(int r, const char *transport, const char *path, Error *e)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(path);

        return error_prefix(e, r, "Cannot read %s:%s", transport, shown ?: "?");
}

int oci_layout_open(const char *dir, const char *tag, OciSource **ret, Error *e)
{
        Files *files;

        int r = files_open_directory(dir, &files, e);
        if (r >= 0)
                r = layout_new(files, "oci", dir, tag, ret, e);
        return r < 0 ? opening_error(r, "oci", dir, e) : 0;
}

int oci_archive_open(Store *s, const char *file, const char *tag, OciSource **ret, Error *e)
{
        Files *files;

        int r = files_open_archive(s, file, s->operation, &files, e);
        if (r >= 0)
                r = layout_new(files, "oci-archive", file, tag, ret, e);
        return r < 0 ? opening_error(r, "oci-archive", file, e) : 0;
}
