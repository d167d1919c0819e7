/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Archives as "docker save", "podman save" and others write them.
 *
 * manifest.json lists the members that are the config and the layers of an image; names are arbitrary.
 * Layers are usually uncompressed, without a digest of their own, so the manifest that is generated here
 * uses the digests in the config, which are of the uncompressed layers. Members may be links: Docker writes
 * a layer that two images share once.
 */

#include "prepare/oci/oci-internal.h"

#define CONFIG_TYPE "application/vnd.docker.container.image.v1+json"
#define LAYER_TYPE "application/vnd.docker.image.rootfs.diff.tar"

typedef struct Docker {
        OciSource source;
        Files *files;
        DockerArchive *archive;
        const DockerArchiveImage *image;
        char *config_text, *config_digest;
        size_t config_size;
        OciConfig *config;
        char *manifest; /* as an OCI manifest */
} Docker;

/* --- The source ---------------------------------------------------------------------------------------- */

static int docker_get_manifest(OciSource *s, const char *digest, char **ret, size_t *ret_size,
                               char **ret_media_type, Error *e)
{
        Docker *d = (Docker *) s;

        if (digest)
                return error_set(e, -ENOENT, "The archive has no manifest %s", digest);
        char *copy = strdup(d->manifest);
        if (!copy)
                return error_oom(e);
        *ret = copy;
        *ret_size = strlen(copy);
        *ret_media_type = NULL;
        return 0;
}

static int open_member(Docker *d, const char *name, int *ret_fd, uint64_t *ret_size, Error *e)
{
        int r = d->files->open(d->files, name, ret_fd, ret_size, e);

        if (r == -ENOENT) {
                _cleanup_free_ char *shown = text_escape_for_terminal(name);
                return error_set(e, r, "The archive has no member %s, which its manifest.json names",
                                 shown ?: "?");
        }
        return r;
}

static int docker_open_blob(OciSource *s, const OciDescriptor *x, int *ret_fd, Error *e)
{
        Docker *d = (Docker *) s;

        if (streq(x->digest, d->config_digest)) {
                uint64_t size;
                return open_member(d, d->image->config, ret_fd, &size, e);
        }
        for (size_t i = 0; d->config->diff_ids && d->config->diff_ids[i]; i++) {
                _cleanup_close_ int fd = -EBADF;
                uint64_t size;

                if (!streq(x->digest, d->config->diff_ids[i]))
                        continue;
                int r = open_member(d, d->image->layers[i], &fd, &size, e);
                if (r < 0)
                        return r;
                if (size != x->size)
                        continue; /* the same layer in another form */
                *ret_fd = TAKE_FD(fd);
                return 0;
        }
        return error_set(e, -ENOENT, "The archive has no layer %s", x->digest);
}

static void docker_free(OciSource *s)
{
        Docker *d = (Docker *) s;

        oci_source_done(s);
        (void) files_free(d->files);
        (void) docker_archive_free(d->archive);
        (void) oci_config_free(d->config);
        free(d->config_text);
        free(d->config_digest);
        free(d->manifest);
        free(d);
}

static const OciSourceVTable docker_vtable = {docker_get_manifest, docker_open_blob, docker_free};

/* --- Which image --------------------------------------------------------------------------------------- */

/* "app" and "app:1.0" also match "example.com/library/app:latest" and "…/app:1.0". */
static bool is_called(const char *repo_tag, const char *tag)
{
        _cleanup_free_ char *latest = NULL;
        const char *rest = endswith(repo_tag, tag);

        if (rest && (rest == repo_tag || rest[-1] == '/'))
                return true;
        if (strchr(strrchr(tag, '/') ?: tag, ':') || xasprintf(&latest, "%s:latest", tag) < 0)
                return false;
        rest = endswith(repo_tag, latest);
        return rest && (rest == repo_tag || rest[-1] == '/');
}

static int list_images(const DockerArchive *a, char **ret, Error *e)
{
        _cleanup_strv_free_ char **l = NULL;
        _cleanup_free_ char *list = NULL;

        for (size_t i = 0; i < a->n_images && strv_length(l) < 32; i++) {
                const DockerArchiveImage *image = &a->images[i];
                int r = image->repo_tags ? strv_extend(&l, image->repo_tags[0])
                                         : strv_extendf(&l, "@%zu", i);
                if (r < 0)
                        return error_oom(e);
        }
        list = strv_join(l, ", ");
        *ret = list ? text_escape_for_terminal(list) : NULL;
        return *ret ? 0 : error_oom(e);
}

static int no_image(Docker *d, const char *tag, Error *e)
{
        _cleanup_free_ char *list = NULL, *shown = tag ? text_escape_for_terminal(tag) : NULL;

        int r = list_images(d->archive, &list, e);
        if (r < 0)
                return r;
        if (tag)
                return error_set(e, -ENOENT, "There is no image '%s' in it, only: %s", shown ?: "?", list);
        r = error_set(e, -EINVAL, "There are several images in it: %s", list);
        return error_hint(e, r,
                          "Select one of them after a colon; 'acnspawn fetch --all' takes all of them.");
}

static int choose(Docker *d, const char *tag, const char **ret_name, Error *e)
{
        const DockerArchive *a = d->archive;
        uint32_t number;

        if (!tag && a->n_images == 1)
                d->image = &a->images[0];
        if (tag && tag[0] == '@' && parse_u32(tag + 1, &number) >= 0 && number < a->n_images)
                d->image = &a->images[number];
        if (d->image) {
                *ret_name = d->image->repo_tags ? d->image->repo_tags[0] : NULL;
                return 0;
        }
        for (size_t i = 0; tag && i < a->n_images; i++)
                STRV_FOREACH (t, a->images[i].repo_tags)
                        if (is_called(*t, tag)) {
                                d->image = &a->images[i];
                                *ret_name = *t;
                                return 0;
                        }
        return no_image(d, tag, e);
}

/* --- The generated manifest ---------------------------------------------------------------------------- */

static void add_descriptor(Text *t, const char *type, const char *digest, uint64_t size)
{
        text_addf(t, "{\"mediaType\":\"%s\",\"digest\":\"%s\",\"size\":%" PRIu64 "}", type, digest, size);
}

static int make_manifest(Docker *d, Error *e)
{
        size_t n = strv_length(d->config->diff_ids);
        _cleanup_text_ Text t = {};

        if (n != strv_length(d->image->layers))
                return error_set(e, -EBADMSG, "manifest.json lists %zu layers, but the image's config %zu",
                                 strv_length(d->image->layers), n);
        text_add(&t, "{\"schemaVersion\":2,\"config\":");
        add_descriptor(&t, CONFIG_TYPE, d->config_digest, d->config_size);
        text_add(&t, ",\"layers\":[");
        for (size_t i = 0; i < n; i++) {
                _cleanup_close_ int fd = -EBADF;
                uint64_t size;

                int r = open_member(d, d->image->layers[i], &fd, &size, e);
                if (r < 0)
                        return r;
                text_add(&t, i > 0 ? "," : "");
                add_descriptor(&t, LAYER_TYPE, d->config->diff_ids[i], size);
        }
        text_add(&t, "]}");
        return text_take(&t, &d->manifest, NULL) < 0 ? error_oom(e) : 0;
}

static int read_config(Docker *d, Error *e)
{
        int r = files_read(d->files, d->image->config, &d->config_text, &d->config_size, e);

        if (r == -ENOENT)
                return error_set(e, r, "The archive does not have the config that its manifest.json names");
        if (r >= 0)
                r = oci_config_parse(d->config_text, d->config_size, &d->config, NULL, e);
        if (r >= 0 && digest_bytes("sha256:", d->config_text, d->config_size, &d->config_digest) < 0)
                r = error_oom(e);
        return r;
}

static int read_manifest_json(Docker *d, Error *e)
{
        _cleanup_free_ char *text = NULL;
        size_t size;

        int r = files_read(d->files, "manifest.json", &text, &size, e);
        if (r == -ENOENT) {
                r = error_set(e, r, "It is not a Docker archive: it has no file manifest.json");
                return error_hint(
                                e, r,
                                "Archives of Docker before 1.10 have to be loaded and saved again; for OCI "
                                "image layouts use oci-archive:.");
        }
        return r < 0 ? r : docker_archive_parse(text, size, &d->archive, NULL, e);
}

int docker_archive_count(Store *s, const char *file, size_t *ret, Error *e)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(file);
        Docker d = {};

        int r = files_open_archive(s, file, s->operation, &d.files, e);
        if (r >= 0)
                r = read_manifest_json(&d, e);
        size_t n = r < 0 ? 0 : d.archive->n_images;
        (void) files_free(d.files);
        (void) docker_archive_free(d.archive);
        if (r < 0)
                return error_prefix(e, r, "Cannot read docker-archive:%s", shown ?: "?");
        *ret = n;
        return 0;
}

int docker_archive_open(Store *s, const char *file, const char *tag, OciSource **ret, Error *e)
{
        _cleanup_(oci_source_freep) OciSource *source = NULL;
        _cleanup_free_ char *shown = text_escape_for_terminal(file);
        const char *name = NULL;

        Docker *d = calloc(1, sizeof(Docker));
        if (!d)
                return error_oom(e);
        d->source = (OciSource){.vtable = &docker_vtable, .layers_by_diff_id = true};
        source = &d->source;
        int r = oci_source_set_reference(source, "docker-archive", file, tag, e);
        if (r >= 0)
                r = files_open_archive(s, file, s->operation, &d->files, e);
        if (r >= 0)
                r = read_manifest_json(d, e);
        if (r >= 0)
                r = choose(d, tag, &name, e);
        if (r >= 0)
                r = oci_source_set_name(source, file, name, e);
        if (r >= 0)
                r = read_config(d, e);
        if (r >= 0)
                r = make_manifest(d, e);
        if (r < 0)
                return error_prefix(e, r, "Cannot read docker-archive:%s", shown ?: "?");
        *ret = TAKE_PTR(source);
        return 0;
}
