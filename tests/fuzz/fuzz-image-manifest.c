/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Image manifests, which are untrusted: every accepted document is formatted, and parsed again to the same
 * text, also from a copy of its app; every rejected one has findings that are safe for a terminal. */

#include "tests/fuzz/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *written(const ImageManifest *m)
{
        char *text;

        if (image_manifest_format(m, &text) < 0)
                abort();
        return text;
}

static ImageManifest *read_again(const char *text)
{
        ImageManifest *m;

        if (image_manifest_parse(text, strlen(text), &m, NULL, NULL) < 0)
                abort();
        return m;
}

static void swap_app_for_copy(ImageManifest *m)
{
        App *copy;

        if (!m->app)
                return;
        if (app_copy(m->app, &copy) < 0)
                abort();
        app_free(m->app);
        m->app = copy;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL, *again = NULL;
        _cleanup_free_ char *text = NULL, *text_again = NULL;
        _cleanup_findings_ Findings findings = {};
        _cleanup_error_ Error e = {};

        int r = image_manifest_parse((const char *) data, size, &m, &findings, &e);
        check_outcome(r, &findings, &e);
        if (r < 0)
                return 0;
        text = written(m);
        again = read_again(text);
        swap_app_for_copy(again);
        text_again = written(again);
        if (!streq(text, text_again))
                abort();
        return 0;
}
