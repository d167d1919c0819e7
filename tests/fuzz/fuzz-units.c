/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* From a pod manifest to the units of the pod: for every manifest that parsing accepts, the generated units
 * contain, according to a second parser, only directives that the generator is known to write, with values
 * that systemd neither expands nor unquotes; and no string of the manifest appears in the units except for
 * the names of apps. */

#include "library/libcapng.h"
#include "tests/unit/unit-tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define APPS_MAX 64U      /* looking up files in the tree takes quadratic time */
#define APP_NAME_MAX 200U /* bytes, as in prepare/pods */

static const Stage1Options options = {
                .uuid = "01234567-89ab-cdef-0123-456789abcdef",
                .hostname = "pod",
                .stop_timeout_usec = 10000000,
};

/* An app without commands, environment and annotations is the same to systemd. */
static void strip(PodManifest *m)
{
        pair_list_done(&m->annotations);
        pair_list_done(&m->user_annotations);
        pair_list_done(&m->user_labels);
        for (size_t i = 0; i < m->n_apps; i++) {
                App *a = m->apps[i]->app;

                pair_list_done(&m->apps[i]->annotations);
                pair_list_done(&m->apps[i]->image_labels);
                if (!a)
                        continue;
                pair_list_done(&a->environment);
                pair_list_done(&a->user_annotations);
                pair_list_done(&a->user_labels);
                free(a->working_directory);
                a->working_directory = NULL;
                for (char **s = a->exec; s && *s; s++)
                        (*s)[MIN(strlen(*s), (size_t) 1)] = 0;
        }
}

/* "prepare", which comes between the two, rejects longer names and invalid ports, and adds the missing app
 * objects. */
static bool is_accepted(const PodManifest *m)
{
        for (size_t i = 0; i < m->n_apps; i++)
                if (strlen(m->apps[i]->name) > APP_NAME_MAX || !m->apps[i]->app)
                        return false;
        return m->n_apps <= APPS_MAX && stage1_sockets_check(m, NULL) >= 0;
}

static void check_same(const Stage1Files *a, const Stage1Files *b)
{
        if (a->n != b->n)
                abort();
        for (size_t i = 0; i < a->n; i++) {
                const Stage1File *x = &a->items[i], *y = &b->items[i];

                if (!streq(x->path, y->path) || !streq_ptr(x->target, y->target) || x->size != y->size ||
                    (x->size > 0 && memcmp(x->content, y->content, x->size) != 0))
                        abort();
        }
}

static void check_launch_files(const PodManifest *m)
{
        for (size_t i = 0; i < m->n_apps; i++) {
                _cleanup_free_ char *launch = NULL, *unit = NULL;
                size_t size = 0;

                if (!m->apps[i]->app || stage1_launch_file(m, m->apps[i], &launch, &size, NULL) < 0)
                        continue;
                if (size == 0 || stage1_app_unit_name(m->apps[i]->name, &unit) < 0)
                        abort();
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (library_load(&capng_library, NULL) < 0)
                return 0;
        _cleanup_(pod_manifest_freep) PodManifest *m = NULL;
        _cleanup_stage1_files_ Stage1Files files = {}, again = {};
        _cleanup_error_ Error e = {};

        if (pod_manifest_parse((const char *) data, size, &m, NULL, &e) < 0)
                return 0;
        if (!is_accepted(m))
                return 0;
        int r = stage1_generate(m, &options, &files, &e);
        if ((r < 0) != (e.message != NULL))
                abort();
        if (r < 0)
                return 0;
        char *why = tree_complaint(&files);
        if (why) {
                fprintf(stderr, "%s\n", why);
                abort();
        }
        check_launch_files(m);
        strip(m);
        if (stage1_generate(m, &options, &again, NULL) < 0)
                abort();
        check_same(&files, &again);
        return 0;
}
