/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The layout of image archives (spec: aci.md, "Image Archives"): a manifest, a rootfs, and nothing else.
 *
 * Importing and checking an image use the same reading code; the entries below rootfs are passed to a
 * function of the caller.
 */

#include "library/libarchive.h"
#include "prepare/images/aci.h"

void aci_reader_done(AciReader *x)
{
        x->reader = archive_reader_free(x->reader);
        free(x->manifest);
        free(x->unexpected_entry);
        *x = (AciReader){};
}

static int read_manifest(AciReader *x, struct archive *a, struct archive_entry *entry, Error *e)
{
        size_t n = 0;

        if (x->manifest)
                return error_set(e, -EBADMSG, "The archive has two manifests");
        if (archive_entry_hardlink(entry) || archive_entry_filetype(entry) != AE_IFREG)
                return error_set(e, -EBADMSG, "The archive's manifest is not a regular file");
        if (archive_entry_size(entry) > (int64_t) MANIFEST_SIZE_MAX)
                return error_set(e, -EFBIG, "The archive's manifest is longer than %u bytes (%" PRId64 ")",
                                 MANIFEST_SIZE_MAX, (int64_t) archive_entry_size(entry));
        x->manifest = malloc(MANIFEST_SIZE_MAX + 1);
        if (!x->manifest)
                return error_oom(e);
        while (n <= MANIFEST_SIZE_MAX) {
                la_ssize_t k = archive_read_data(a, x->manifest + n, MANIFEST_SIZE_MAX + 1 - n);
                if (k < 0)
                        return archive_reader_error(x->reader, e);
                if (k == 0)
                        break;
                n += (size_t) k;
        }
        if (n > MANIFEST_SIZE_MAX)
                return error_set(e, -EFBIG, "The archive's manifest is longer than %u bytes",
                                 MANIFEST_SIZE_MAX);
        x->manifest[n] = 0;
        x->manifest_size = n;
        return 0;
}

int aci_reader_entry(struct archive *a, struct archive_entry *entry, void *userdata, Error *e)
{
        _cleanup_free_ char *path = NULL;
        AciReader *x = userdata;
        const char *name = archive_entry_pathname(entry);

        int r = unpack_normalize_path(name, &path, e);
        if (r < 0)
                return r;
        if (streq(path, "manifest"))
                return read_manifest(x, a, entry, e);
        if (streq(path, "rootfs") || startswith(path, "rootfs/"))
                return x->entry(path, a, entry, x->userdata, e);
        if (streq(path, "") && archive_entry_filetype(entry) == AE_IFDIR && !archive_entry_hardlink(entry))
                return 0;
        free(x->unexpected_entry);
        x->unexpected_entry = TAKE_PTR(path);
        r = unpack_error(e, -EBADMSG, name, "it is neither the manifest nor below rootfs");
        return error_hint(e, r,
                          "An image archive contains the file 'manifest' and the directory 'rootfs', and "
                          "nothing else.");
}

int aci_reader_finish(AciReader *x, bool has_rootfs, ImageManifest **ret, Findings *findings, Error *e)
{
        if (!x->manifest)
                return error_set(e, -EBADMSG, "The archive has no manifest");
        if (!has_rootfs)
                return error_set(e, -EBADMSG, "The archive has no rootfs");
        int r = image_manifest_parse(x->manifest, x->manifest_size, ret, findings, e);
        return r < 0 ? error_prefix(e, r, "The manifest is not valid") : 0;
}
