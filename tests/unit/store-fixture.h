/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* A store of its own for each test, with an archive to fill and the error of the last call:
 *
 *     FIXTURE(f);
 *     aci_begin(&f.tar);
 *     aci_end(&f.tar);
 *     ASSERT_IMPORTS(f, image);
 */

#include <dirent.h>

#include "tests/unit/aci.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

typedef struct Fixture {
        Scratch scratch;
        Store *store;
        Error error;
        Text tar;
} Fixture;

static inline void fixture_done(Fixture *f)
{
        (void) store_unref(f->store);
        error_done(&f->error);
        text_done(&f->tar);
        scratch_done(&f->scratch);
}

static inline int fixture_new(Fixture *f)
{
        char path[PATH_MAX + 8];

        *f = (Fixture){.scratch = SCRATCH_NULL};
        int r = scratch_new(&f->scratch);
        if (r < 0)
                return r;
        snprintf(path, sizeof(path), "%s/store", f->scratch.path);
        return store_open_with_flags(path, STORE_UNPRIVILEGED, NULL, &f->store, &f->error);
}

#define FIXTURE(f)                                                                                          \
        _cleanup_(fixture_done) Fixture f;                                                                  \
        ASSERT_OK(fixture_new(&f))

static inline unsigned count_entries(Store *s, const char *path)
{
        unsigned n = 0;
        DIR *d = fdopendir(openat(store_fd(s), path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));

        for (struct dirent *de; d && (de = readdir(d));)
                n += de->d_name[0] != '.';
        if (d)
                closedir(d);
        return n;
}

static inline bool store_is_empty(Store *s)
{
        return count_entries(s, "images") == 0 && count_entries(s, "tmp") == 0;
}

/* Checking without importing must return the same result and the same message, except for errors of the
 * disk. */
static inline void fixture_check(const Text *t, int code, const char *message)
{
        _cleanup_close_ int fd = aci_fd(t->data, t->size);
        _cleanup_error_ Error e = ERROR_NULL;

        int r = image_check(fd, NULL, NULL, NULL, NULL, &e);
        if (code == -ENOSPC || code == -EOPNOTSUPP)
                return;
        if (r != code)
                TEST_FAIL("importing returned %d (%s), checking %d (%s)", code, message ?: "", r,
                          e.message ?: "");
        if (code < 0 && (!message || !e.message || !strstr(message, e.message)))
                TEST_FAIL("importing says '%s', checking '%s'", message ?: "", e.message ?: "");
}

/* The archive is refused with CODE and a message that contains WHY; nothing is left. */
#define ASSERT_REFUSED(f, code, why)                                                                        \
        do {                                                                                                \
                _cleanup_(image_freep) Image *image_ = NULL;                                                \
                int r_ = aci_import((f).store, &(f).tar, &image_, &(f).error);                              \
                if (r_ != (code))                                                                           \
                        TEST_FAIL("import returned %d: %s", r_, (f).error.message ?: "");                   \
                ASSERT_CONTAINS((f).error.message, "Cannot import test.aci");                               \
                ASSERT_CONTAINS((f).error.message, (why));                                                  \
                fixture_check(&(f).tar, r_, (f).error.message);                                             \
                ASSERT_TRUE(store_is_empty((f).store));                                                     \
        } while (0)

#define ASSERT_IMPORTS(f, image)                                                                            \
        do {                                                                                                \
                int r_ = aci_import((f).store, &(f).tar, &(image), &(f).error);                             \
                if (r_ < 0)                                                                                 \
                        TEST_FAIL("import failed: %s", (f).error.message ?: "");                            \
                fixture_check(&(f).tar, 0, NULL);                                                           \
                ASSERT_EQ(count_entries((f).store, "tmp"), 0);                                              \
        } while (0)
