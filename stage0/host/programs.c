/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Helper programs: their paths, and executing them. When installed, they are in one directory; in a build tree, each is in its own
 * folder, so that a build can be used without installing it. */

#include <limits.h>
#include <spawn.h>

#include "config.h"
#include "containers/containers.h"
#include "metadata/metadata.h"
#include "stage0/owner/owner.h"
#include "stage0/host/host.h"
#include "stage1/stub/libcrypto.h"

static const struct Helper {
        const char *name, *in_build;
        int access; /* libraries are not executable where a distribution installs them */
} helpers[] = {
                {"launch", "../stage1/launch", X_OK},
                {READ_LOGS_PROGRAM, "../stage0/" READ_LOGS_PROGRAM, X_OK},
                {SUPERVISE_PROGRAM, "../stage0/" SUPERVISE_PROGRAM, X_OK},
                {CONTROL_PROGRAM, "../containers/" CONTROL_PROGRAM, X_OK},
                {METADATA_PROGRAM, "../metadata/" METADATA_PROGRAM, X_OK},
                {USERNS_OWNER_LIBRARY, "owner/" USERNS_OWNER_LIBRARY, R_OK},
                {LIBCRYPTO_STUB, "../stage1/stub/" LIBCRYPTO_STUB_SONAME, R_OK},
};

/* NAME is one of them. */
static const struct Helper *find_helper(const char *name)
{
        const struct Helper *h = helpers;

        while (!streq(h->name, name))
                h++;
        return h;
}

static int beside_us(const struct Helper *h, char **ret)
{
        char self[PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

        if (n < 0)
                return -errno;
        self[n] = 0;
        *strrchr(self, '/') = 0;
        return xasprintf(ret, "%s/%s", self, h->in_build);
}

int helper_program_path(const char *name, char **ret, Error *e)
{
        const char *directory = secure_getenv("ACNSPAWN_LIBEXECDIR");
        const struct Helper *h = find_helper(name);
        _cleanup_free_ char *installed = NULL, *built = NULL;
        int r = xasprintf(&installed, "%s/%s", directory ?: ACNSPAWN_LIBEXECDIR, name);

        if (r >= 0 && !directory)
                r = beside_us(h, &built);
        if (r < 0)
                return error_set_errno(e, r, "Cannot determine the path of this program");
        /* A program in a build tree uses the helpers of that tree even if another version is installed. */
        char **found = built && access(built, h->access) >= 0 ? &built
                       : access(installed, h->access) >= 0    ? &installed
                                                              : NULL;
        if (!found) {
                (void) error_set(e, -ENOENT, "Helper program %s is missing", installed);
                return error_hint(e, 0, "The installation is incomplete: install acnspawn again.");
        }
        *ret = TAKE_PTR(*found);
        return 0;
}

static int add_descriptors(posix_spawn_file_actions_t *actions, int first, const int *fds, size_t n_fds)
{
        for (size_t i = 0; i < n_fds; i++) {
                int r = posix_spawn_file_actions_adddup2(actions, fds[i], first + (int) i);
                if (r != 0)
                        return -r;
        }
        return 0;
}

static int set_attributes(posix_spawnattr_t *attributes, const sigset_t *mask)
{
        int r = -posix_spawnattr_setsigmask(attributes, mask);

        return r < 0 ? r
                     : -posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
}

int helper_program_spawn(char *const *argv, const sigset_t *mask, int first, const int *fds, size_t n_fds,
                         pid_t *ret_pid, Error *e)
{
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        int r = -posix_spawn_file_actions_init(&actions);

        if (r < 0)
                return error_set_errno(e, r, "Cannot execute %s", argv[0]);
        r = -posix_spawnattr_init(&attributes);
        if (r >= 0) {
                r = add_descriptors(&actions, first, fds, n_fds);
                if (r >= 0)
                        r = set_attributes(&attributes, mask);
                if (r >= 0)
                        r = -posix_spawn(ret_pid, argv[0], &actions, &attributes, argv, environ);
                (void) posix_spawnattr_destroy(&attributes);
        }
        (void) posix_spawn_file_actions_destroy(&actions);
        return r < 0 ? error_set_errno(e, r, "Cannot execute %s", argv[0]) : 0;
}
