/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pod manifests, which users write and programs generate: every accepted document is formatted, and parsed
 * again to the same text, whether it is reified or not; every rejected one has findings. */

#include "tests/fuzz/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *written(const PodManifest *m)
{
        char *text;

        if (pod_manifest_format(m, &text) < 0)
                abort();
        return text;
}

static PodManifest *read_again(const char *text)
{
        PodManifest *m;

        if (pod_manifest_parse(text, strlen(text), &m, NULL, NULL) < 0)
                abort();
        return m;
}

static void check_reified(const PodManifest *m)
{
        _cleanup_error_ Error e = {};
        int r = pod_manifest_check_reified(m, &e);

        if ((r < 0) != (e.message != NULL))
                abort();
        for (size_t i = 0; r >= 0 && i < m->n_apps; i++)
                if (!m->apps[i]->image_id)
                        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_(pod_manifest_freep) PodManifest *m = NULL, *again = NULL;
        _cleanup_free_ char *text = NULL, *text_again = NULL;
        _cleanup_findings_ Findings findings = {};
        _cleanup_error_ Error e = {};

        int r = pod_manifest_parse((const char *) data, size, &m, &findings, &e);
        check_outcome(r, &findings, &e);
        if (r < 0)
                return 0;
        check_reified(m);
        text = written(m);
        again = read_again(text);
        text_again = written(again);
        if (!streq(text, text_again))
                abort();
        return 0;
}
