/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* IDs of sandboxes and containers: 64 hexadecimal digits, from which pod and app follow without an index.
 *
 * They begin with digits that differ between sandboxes, and between containers, as clients show only the first ones. The name
 * of an app follows from the names of its container, and the name of a pod from those of its sandbox: that two calls cannot
 * make the same one at the same time is then up to the supervisor of the pod, and the registry of names. */

#include "cri/sandbox.h"
#include "library/libcrypto.h"

#define DIGITS 32U /* half an ID */

/* The first half of the SHA-256 of the texts and their NULs. */
static int hash(const char *const *texts, size_t n, char ret[static DIGITS + 1])
{
        unsigned char sum[EVP_MAX_MD_SIZE];
        _cleanup_free_ char *hex = NULL;
        _cleanup_text_ Text all = {};

        int r = library_load(&crypto_library, NULL);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++)
                text_add_bytes(&all, texts[i], strlen(texts[i]) + 1);
        if (all.failed || EVP_Digest(all.data, all.size, sum, NULL, EVP_sha256(), NULL) != 1)
                return -ENOMEM;
        hex = hex_encode(sum, DIGITS / 2);
        if (!hex)
                return -ENOMEM;
        memcpy(ret, hex, DIGITS + 1);
        return 0;
}

static void uuid_digits(const char *uuid, char *ret)
{
        for (; *uuid; uuid++)
                if (*uuid != '-')
                        *ret++ = *uuid;
        *ret = 0;
}

static int hash_sandbox(const Runtime__V1__PodSandboxMetadata *m, char ret[static DIGITS + 1])
{
        char attempt[16];

        snprintf(attempt, sizeof(attempt), "%u", m->attempt);
        const char *const texts[] = {m->name, m->namespace_, m->uid, attempt};
        return hash(texts, ELEMENTSOF(texts), ret);
}

int cri_sandbox_id(const char *uuid, const Runtime__V1__PodSandboxMetadata *m, char ret[static CRI_ID_SIZE])
{
        uuid_digits(uuid, ret);
        return hash_sandbox(m, ret + DIGITS);
}

int cri_pod_name(const Runtime__V1__PodSandboxMetadata *m, char **ret)
{
        char digits[DIGITS + 1];
        int r = hash_sandbox(m, digits);

        return r < 0 ? r : xasprintf(ret, "cri-%s", digits);
}

int cri_container_id(const char *uuid, const Runtime__V1__ContainerMetadata *m, char ret[static CRI_ID_SIZE])
{
        char attempt[16];

        snprintf(attempt, sizeof(attempt), "%u", m->attempt);
        const char *const texts[] = {uuid, m->name, attempt};
        int r = hash(texts, ELEMENTSOF(texts), ret);
        if (r >= 0)
                uuid_digits(uuid, ret + DIGITS);
        return r;
}

void cri_uuid_from_digits(const char *digits, char ret[static UUID_TEXT_SIZE])
{
        for (size_t i = 0; i < UUID_TEXT_SIZE - 1; i++)
                ret[i] = i == 8 || i == 13 || i == 18 || i == 23 ? '-' : *digits++;
        ret[UUID_TEXT_SIZE - 1] = 0;
}

bool cri_id_is_valid(const char *s)
{
        size_t n = strspn(s, "0123456789abcdef");

        return n > 0 && n < CRI_ID_SIZE && s[n] == 0;
}

bool cri_id_is_full(const char *s)
{
        return cri_id_is_valid(s) && strlen(s) == CRI_ID_SIZE - 1;
}
