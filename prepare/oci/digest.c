/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Digests as OCI writes them: the algorithm, a colon, and lower case hex. */

#include "library/libcrypto.h"
#include "prepare/oci/oci-internal.h"

#define BUFFER_SIZE (256U * 1024U)

int digester_init(Digester *d, const char *algorithm)
{
        bool sha512 = startswith(algorithm, "sha512:");

        *d = (Digester){};
        int r = library_load(&crypto_library, NULL);
        if (r < 0)
                return r;
        d->context = EVP_MD_CTX_new();
        if (!d->context || EVP_DigestInit_ex(d->context, sha512 ? EVP_sha512() : EVP_sha256(), NULL) != 1)
                return -ENOMEM;
        return 0;
}

void digester_done(Digester *d)
{
        if (d->context)
                EVP_MD_CTX_free(d->context);
        d->context = NULL;
}

void digester_add(Digester *d, const void *p, size_t n)
{
        d->failed = d->failed || EVP_DigestUpdate(d->context, p, n) != 1;
        d->size += n;
}

int digester_finish(Digester *d, char **ret)
{
        _cleanup_free_ char *hex = NULL;
        unsigned char hash[EVP_MAX_MD_SIZE];
        unsigned size = 0;

        if (d->failed || EVP_DigestFinal_ex(d->context, hash, &size) != 1)
                return -EIO;
        hex = hex_encode(hash, size);
        return hex ? xasprintf(ret, "%s%s", size == 64 ? "sha512:" : "sha256:", hex) : -ENOMEM;
}

int digest_bytes(const char *like, const void *p, size_t n, char **ret)
{
        _cleanup_digester_ Digester d = {};

        int r = digester_init(&d, like);
        if (r < 0)
                return r;
        digester_add(&d, p, n);
        return digester_finish(&d, ret);
}

int digest_check_fd(const char *digest, int fd, off_t offset, uint64_t size, const Operation *o, Error *e)
{
        _cleanup_digester_ Digester d = {};
        _cleanup_free_ char *found = NULL, *buffer = malloc(BUFFER_SIZE);
        ssize_t n;

        if (!buffer || digester_init(&d, digest) < 0)
                return error_oom(e);
        if (lseek(fd, offset, SEEK_SET) < 0)
                return error_set_errno(e, errno, "Cannot read the file again");
        while ((n = loop_read(fd, buffer, (size_t) MIN(size, (uint64_t) BUFFER_SIZE))) > 0) {
                int r = operation_check(o, e);
                if (r < 0)
                        return r;
                digester_add(&d, buffer, (size_t) n);
                size -= (uint64_t) n;
        }
        if (n < 0)
                return error_set_errno(e, (int) n, "Cannot read the file again");
        return digester_finish(&d, &found) < 0 ? error_oom(e) : streq(found, digest);
}

int digest_check_bytes(const char *digest, const void *p, size_t n, const char *what, Error *e)
{
        _cleanup_free_ char *found = NULL;

        int r = oci_digest_check(digest, e);
        if (r < 0)
                return r;
        r = digest_bytes(digest, p, n, &found);
        if (r < 0)
                return error_set_errno(e, r, "Cannot hash %s", what);
        if (!streq(digest, found))
                return error_set(e, -EBADMSG, "%s is damaged or was replaced: its digest is %s, not %s",
                                 what, found, digest);
        return 0;
}
