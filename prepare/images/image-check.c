/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Checks whether an archive is a valid image: reads it to its end, with every check of importing, without a
 * store, without writing anything and without being root. The decompressed size is limited by
 * IMAGE_CHECK_MAX, as no disk limits it. */

#include "prepare/images/aci.h"

#define IMAGE_CHECK_MAX (1ULL << 40) /* bytes, uncompressed */

static int check_entry(const char *path, struct archive *a, struct archive_entry *entry, void *userdata,
                       Error *e)
{
        return unpack_check_entry(userdata, path, a, entry, e);
}

static int check(AciReader *x, UnpackCheck *c, int fd, const Operation *operation,
                 ImageManifest **ret_manifest, Findings *findings, Error *e)
{
        const PipelineOptions o = {.size_max = IMAGE_CHECK_MAX, .hooks.operation = operation};
        PipelineResult result = {};

        int r = archive_reader_new(fd, &o, &x->reader, e);
        if (r >= 0)
                r = archive_reader_run(x->reader, aci_reader_entry, x, &result, e);
        free(result.id);
        if (r >= 0 && unpack_check_odd_time(c) &&
            findings_add_warning(
                            findings, unpack_check_odd_time(c),
                            "its modification time is out of the range of some file systems: ext4 stores "
                            "1901 to 2446") < 0)
                r = error_oom(e);
        return r < 0 ? r : aci_reader_finish(x, unpack_check_has_rootfs(c), ret_manifest, findings, e);
}

int image_check(int fd, const Operation *o, Findings *findings, ImageManifest **ret_manifest,
                char **ret_unexpected_entry, Error *e)
{
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL;
        _cleanup_(unpack_check_freep) UnpackCheck *c = NULL;

        int r = unpack_check_new(o, &c, e);
        if (r < 0)
                return r;
        _cleanup_(aci_reader_done) AciReader x = {.entry = check_entry, .userdata = c};
        r = check(&x, c, fd, o, &m, findings, e);
        if (ret_unexpected_entry)
                *ret_unexpected_entry = TAKE_PTR(x.unexpected_entry);
        if (r >= 0 && ret_manifest)
                *ret_manifest = TAKE_PTR(m);
        return r;
}
