/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What all sources of OCI images have in common: little more than how they are freed. */

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
