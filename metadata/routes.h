/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Parsing of requests: paths and form fields, as pure functions. Internal to metadata/. */

#include "metadata/metadata.h"

typedef enum MetadataResource {
        METADATA_POD_ANNOTATIONS,
        METADATA_POD_MANIFEST,
        METADATA_POD_UUID,
        METADATA_APP_ANNOTATIONS,
        METADATA_APP_IMAGE_MANIFEST,
        METADATA_APP_IMAGE_ID,
        METADATA_HMAC_SIGN,
        METADATA_HMAC_VERIFY,
        _METADATA_RESOURCE_MAX,
} MetadataResource;

/* The number of resources of the pod, and of each app; the values above are in that order. */
#define METADATA_POD_RESOURCES 3U
#define METADATA_APP_RESOURCES 3U
#define METADATA_TYPE_JSON "application/json"
#define METADATA_TYPE_TEXT "text/plain; charset=us-ascii"

static inline bool metadata_resource_is_app(MetadataResource r)
{
        return r >= METADATA_APP_ANNOTATIONS && r <= METADATA_APP_IMAGE_ID;
}

static inline bool metadata_resource_is_post(MetadataResource r)
{
        return r == METADATA_HMAC_SIGN || r == METADATA_HMAC_VERIFY;
}

const char *metadata_resource_content_type(MetadataResource r);

typedef struct MetadataRoute {
        MetadataResource resource;
        const char *app; /* points into the path */
        size_t app_size;
} MetadataRoute;

/* Finds the resource of the decoded PATH. -ENOENT: there is none, or the token is wrong; the token is
 * compared in constant time. */
int metadata_route(const char *token, size_t token_size, const char *path, MetadataRoute *ret);

/* --- Forms (form.c) ------------------------------------------------------------------------------------ */

typedef enum MetadataField {
        METADATA_FIELD_CONTENT,
        METADATA_FIELD_UUID,
        METADATA_FIELD_SIGNATURE,
        _METADATA_FIELD_MAX,
} MetadataField;

#define METADATA_FIELDS_MAX 16U /* per form, known and unknown */

typedef struct MetadataForm {
        struct {
                const char *value; /* NULL: absent; may contain NULs; not terminated */
                size_t size;
        } fields[_METADATA_FIELD_MAX];
} MetadataForm;

/* Parses application/x-www-form-urlencoded, decoding in place: the values point into DATA. Fields with other
 * names are skipped. -EINVAL: an invalid escape, a duplicate field, or too many fields. */
int metadata_form_parse(char *data, size_t size, MetadataForm *ret);
/* Whether a Content-Type header names that encoding; its parameters are ignored. */
bool metadata_form_type(const char *content_type);
