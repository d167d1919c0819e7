/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Pods for tests that need one, whatever is in it. */

#include "prepare/pods/pods-internal.h"
#include "prepare/prepare.h"
#include "prepare/unpack/unpack.h"

#define TEST_IMAGE_ID                                                                                       \
        "sha512-"                                                                                           \
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"                                  \
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static inline PodManifest *parse_test_manifest(void)
{
        static const char text[] =
                        "{\"acVersion\":\"0.8.11\",\"acKind\":\"PodManifest\",\"apps\":[{\"name\":\"web\","
                        "\"image\":{\"id\":\"" TEST_IMAGE_ID "\",\"name\":\"example.com/web\"},"
                        "\"app\":{\"exec\":[\"/bin/web\"],\"user\":\"0\",\"group\":\"0\"}}]}";
        PodManifest *m = NULL;

        return pod_manifest_parse(text, sizeof(text) - 1, &m, NULL, NULL) < 0 ? NULL : m;
}

/* A prepared pod, locked by us. NAME may be NULL. */
static inline int prepare_test_pod(Store *s, const char *name, Pod **ret, Error *e)
{
        _cleanup_(pod_freep) Pod *p = NULL;

        int r = pod_new(s, &p, e);
        if (r >= 0)
                r = pod_allocate_uids(p, e);
        if (r >= 0 && name)
                r = pod_reserve_name(p, name, e);
        if (r >= 0) {
                p->manifest = parse_test_manifest();
                r = p->manifest ? pod_publish(p, e) : -EINVAL;
        }
        if (r < 0)
                return r;
        *ret = TAKE_PTR(p);
        return 0;
}
