/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The signatures of the identity endpoint: HMAC-SHA512 with a key per pod, written as base64.
 *
 * A signature is compared as text, with the text that signing produces, and in constant time: so there is
 * exactly one valid signature, no decoder is needed for untrusted input, and the time of the reply reveals
 * nothing. The crypto library's configuration file is never read: the service has no file system.
 */

#include <sys/random.h>

#include "library/libcrypto.h"
#include "metadata/metadata.h"

#define DIGEST_SIZE 64U

static const EVP_MD *sha512(void)
{
        static bool initialized;

        if (!initialized) {
                (void) OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
                initialized = true;
        }
        return EVP_sha512();
}

int metadata_hmac_sign(const uint8_t key[static METADATA_KEY_SIZE], const void *content, size_t n,
                       char ret[static METADATA_SIGNATURE_SIZE])
{
        unsigned char digest[DIGEST_SIZE], text[METADATA_SIGNATURE_SIZE];
        unsigned size = 0;

        if (!HMAC(sha512(), key, METADATA_KEY_SIZE, content ?: "", n, digest, &size) || size != DIGEST_SIZE)
                return -EIO;
        if (EVP_EncodeBlock(text, digest, DIGEST_SIZE) != (int) METADATA_SIGNATURE_SIZE - 1)
                return -EIO;
        memcpy(ret, text, METADATA_SIGNATURE_SIZE);
        return 0;
}

int metadata_hmac_verify(const uint8_t key[static METADATA_KEY_SIZE], const void *content, size_t n,
                         const char *signature, size_t signature_size)
{
        char expected[METADATA_SIGNATURE_SIZE];

        int r = metadata_hmac_sign(key, content, n, expected);
        if (r < 0)
                return r;
        if (signature_size != METADATA_SIGNATURE_SIZE - 1)
                return 0;
        r = CRYPTO_memcmp(expected, signature, METADATA_SIGNATURE_SIZE - 1) == 0;
        OPENSSL_cleanse(expected, sizeof(expected));
        return r;
}

static int fill_random(void *p, size_t n)
{
        ssize_t k = getrandom(p, n, 0); /* requests of at most 256 bytes are never interrupted */

        if (k < 0)
                return -errno;
        return (size_t) k == n ? 0 : -EIO;
}

int metadata_key_generate(uint8_t ret[static METADATA_KEY_SIZE])
{
        uint8_t key[METADATA_KEY_SIZE];

        int r = fill_random(key, sizeof(key));
        if (r < 0)
                return r;
        memcpy(ret, key, sizeof(key));
        explicit_bzero(key, sizeof(key));
        return 0;
}

int metadata_token_generate(char **ret)
{
        uint8_t bytes[24];

        int r = fill_random(bytes, sizeof(bytes));
        if (r < 0)
                return r;
        char *token = hex_encode(bytes, sizeof(bytes));
        if (!token)
                return -ENOMEM;
        *ret = token;
        return 0;
}
