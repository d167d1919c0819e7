/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Loads a library and resolves its functions.
 *
 * A library stays loaded until the program ends: some of them leave threads or exit handlers that need their
 * code. All their symbols are bound at once, so that a version that lacks a function is detected here and
 * not in the middle of its use.
 */

#include <assert.h>
#include <dlfcn.h>
#include <pthread.h>

#include "library/library.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int find_functions(Library *l, void *handle, Error *e)
{
        for (size_t i = 0; i < l->n_functions; i++) {
                void *address = dlsym(handle, l->functions[i].name);
                if (!address)
                        return error_set(e, -ELIBACC,
                                         "The library %s, which is needed for %s, is not the version that "
                                         "acnspawn was built against: it has no %s()",
                                         l->file, l->purpose, l->functions[i].name);
                memcpy(l->functions[i].slot, &address, sizeof(address));
        }
        return 0;
}

static int load(Library *l, Error *e)
{
        void *handle = dlopen(l->file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

        if (!handle) {
                const char *why = dlerror();
                int r = error_set(e, -ELIBACC, "Cannot load a library that is needed for %s: %s", l->purpose,
                                  why ?: l->file);
                return error_hint(e, r, "On Debian it is in the package %s.", l->package);
        }
        int r = find_functions(l, handle, e);
        if (r >= 0 && l->wrap)
                l->wrap();
        return r;
}

int library_load(Library *l, Error *e)
{
        int r = 0;

        if (__atomic_load_n(&l->loaded, __ATOMIC_ACQUIRE))
                return 0;
        (void) pthread_mutex_lock(&lock);
        if (!l->loaded) {
                r = load(l, e);
                if (r >= 0)
                        __atomic_store_n(&l->loaded, 1, __ATOMIC_RELEASE);
        }
        (void) pthread_mutex_unlock(&lock);
        return r;
}

bool library_is_ready(Library *l)
{
        _cleanup_error_ Error e = ERROR_NULL;

        if (__atomic_load_n(&l->loaded, __ATOMIC_ACQUIRE))
                return true;
#ifdef LIBRARY_STRICT
        fprintf(stderr, "Error of the program: %s is used before library_load().\n", l->file);
        assert(l->loaded);
#endif
        return library_load(l, &e) >= 0;
}
