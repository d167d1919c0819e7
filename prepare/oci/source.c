/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Common code of all sources of OCI images. */

#include "prepare/oci/oci.h"

void oci_source_done(OciSource *s)
{
        free(s->reference);
        free(s->image_name);
        free(s->image_version);
        s->reference = s->image_name = s->image_version = NULL;
}

OciSource *oci_source_free(OciSource *s)
{
        if (s)
                s->vtable->free(s);
        return NULL;
}

/* Names such as "0123…", which Docker uses for layers and configs. */
static bool begins_with_digest(const char *name)
{
        return strspn(name, "0123456789abcdef") >= 64 && (!name[64] || name[64] == '/' || name[64] == '.');
}

int oci_kind_by_member(const char *name, OciCheckKind *ret)
{
        static const struct {
                const char *name;
                OciCheckKind kind;
        } names[] = {
                        {"oci-layout", OCI_CHECK_ARCHIVE},
                        {"index.json", OCI_CHECK_ARCHIVE},
                        {"blobs", OCI_CHECK_ARCHIVE},
                        {"manifest.json", OCI_CHECK_DOCKER_ARCHIVE},
                        {"repositories", OCI_CHECK_DOCKER_ARCHIVE},
        };

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                const char *rest = startswith(name, names[i].name);
                if (!rest || (*rest && *rest != '/'))
                        continue;
                *ret = names[i].kind;
                return 0;
        }
        if (!endswith(name, ".json") && !endswith(name, ".tar") && !begins_with_digest(name))
                return -ENOENT;
        *ret = OCI_CHECK_DOCKER_ARCHIVE;
        return 0;
}
