/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Paths of helper programs. When installed, they are in one directory; in a build tree, each is in its own
 * folder, so that a build can be used without installing it. */

#include <limits.h>

#include "config.h"
#include "metadata/metadata.h"
#include "stage0/owner/owner.h"
#include "stage0/runtime/runtime.h"
#include "stage1/stub/libcrypto.h"

static const struct {
        const char *name, *in_build;
} helpers[] = {
                {"launch", "../stage1/launch"},
                {SUPERVISE_PROGRAM, "../stage0/" SUPERVISE_PROGRAM},
                {METADATA_PROGRAM, "../metadata/" METADATA_PROGRAM},
                {USERNS_OWNER_LIBRARY, "owner/" USERNS_OWNER_LIBRARY},
                {LIBCRYPTO_STUB, "../stage1/stub/" LIBCRYPTO_STUB_SONAME},
};

static const char *path_in_build(const char *name)
{
        for (size_t i = 0; i < ELEMENTSOF(helpers); i++)
                if (streq(helpers[i].name, name))
                        return helpers[i].in_build;
        return name;
}

static int beside_us(const char *name, char **ret)
{
        char self[PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

        if (n < 0)
                return -errno;
        self[n] = 0;
        *strrchr(self, '/') = 0;
        return xasprintf(ret, "%s/%s", self, path_in_build(name));
}

int helper_program_path(const char *name, char **ret, Error *e)
{
        const char *directory = secure_getenv("ACNSPAWN_LIBEXECDIR");
        _cleanup_free_ char *installed = NULL, *built = NULL;
        int r = xasprintf(&installed, "%s/%s", directory ?: ACNSPAWN_LIBEXECDIR, name);

        if (r >= 0 && !directory)
                r = beside_us(name, &built);
        if (r < 0)
                return error_set_errno(e, r, "Cannot determine the path of this program");
        /* A program in a build tree uses the helpers of that tree even if another version is installed. */
        char **found = built && access(built, X_OK) >= 0 ? &built
                       : access(installed, X_OK) >= 0    ? &installed
                                                         : NULL;
        if (!found) {
                (void) error_set(e, -ENOENT, "Helper program %s is missing", installed);
                return error_hint(e, 0, "The installation is incomplete: install acnspawn again.");
        }
        *ret = TAKE_PTR(*found);
        return 0;
}
