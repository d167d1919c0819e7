/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The documents of OCI and Docker images: rejected documents have messages that are safe for a terminal;
 * accepted configs convert to a valid image manifest, or are rejected in the same way. */

#include "schema/oci.h"
#include "tests/fuzz/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_error(int r, Error *e)
{
        if ((r < 0) != (e->message != NULL) || r > 0)
                abort();
        if (e->message && !utf8_is_valid(e->message, strlen(e->message)))
                abort();
        error_done(e);
}

static void convert(const OciConfig *c, Findings *findings, Error *e)
{
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL, *again = NULL;
        _cleanup_free_ char *text = NULL;

        int r = oci_config_to_image_manifest(c, "example.com/app", "1.0", &m, findings, e);
        check_error(r, e);
        if (r < 0)
                return;
        if (image_manifest_format(m, &text) < 0 ||
            image_manifest_parse(text, strlen(text), &again, NULL, NULL) < 0)
                abort();
}

static void try_config(const char *text, size_t size)
{
        _cleanup_(oci_config_freep) OciConfig *c = NULL;
        _cleanup_findings_ Findings findings = {};
        _cleanup_error_ Error e = {};

        int r = oci_config_parse(text, size, &c, &findings, &e);
        check_outcome(r, &findings, &e);
        error_done(&e);
        if (r >= 0)
                convert(c, &findings, &e);
}

static void try_index(const char *text, size_t size)
{
        _cleanup_(oci_index_freep) OciIndex *i = NULL;
        _cleanup_findings_ Findings findings = {};
        _cleanup_error_ Error e = {};
        const OciDescriptor *d = NULL;

        int r = oci_index_parse(text, size, &i, &findings, &e);
        check_outcome(r, &findings, &e);
        error_done(&e);
        if (r < 0)
                return;
        r = oci_index_select(i, "linux", "amd64", &d, &e);
        check_error(r, &e);
        if (r >= 0 && (d < i->manifests || d >= i->manifests + i->n_manifests))
                abort();
}

static void try_manifest(const char *text, size_t size)
{
        _cleanup_(oci_manifest_freep) OciManifest *m = NULL;
        _cleanup_findings_ Findings findings = {};
        _cleanup_error_ Error e = {};

        int r = oci_manifest_parse(text, size, &m, &findings, &e);
        check_outcome(r, &findings, &e);
        error_done(&e);
        if (r >= 0)
                check_error(oci_manifest_check_image(m, &e), &e);
}

static void try_names(const char *text, size_t size)
{
        _cleanup_free_ char *reference = strndup(text, size), *name = NULL, *version = NULL;

        if (reference && oci_name_from_reference(reference, &name, &version, NULL) >= 0 &&
            ac_identifier_check(name, NULL) < 0)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_(docker_archive_freep) DockerArchive *a = NULL;
        _cleanup_error_ Error e = {};
        const char *text = (const char *) data;
        OciKind kind;

        check_error(oci_document_kind(text, size, NULL, &kind, &e), &e);
        check_error(docker_archive_parse(text, size, &a, NULL, &e), &e);
        (void) oci_layout_parse(text, size, NULL, NULL);
        try_index(text, size);
        try_manifest(text, size);
        try_config(text, size);
        try_names(text, size);
        return 0;
}
