/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* libcrypto, loaded when one of these functions is called for the first time; see library.h. */

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include "library/library.h"

#define CRYPTO_FUNCTIONS(F)                                                                                 \
        F(CRYPTO_memcmp)                                                                                    \
        F(ERR_clear_error)                                                                                  \
        F(ERR_peek_error)                                                                                   \
        F(ERR_reason_error_string)                                                                          \
        F(EVP_DecodeBlock)                                                                                  \
        F(EVP_DecodeFinal)                                                                                  \
        F(EVP_DecodeInit)                                                                                   \
        F(EVP_DecodeUpdate)                                                                                 \
        F(EVP_Digest)                                                                                       \
        F(EVP_DigestFinal_ex)                                                                               \
        F(EVP_DigestInit_ex)                                                                                \
        F(EVP_DigestUpdate)                                                                                 \
        F(EVP_ENCODE_CTX_free)                                                                              \
        F(EVP_ENCODE_CTX_new)                                                                               \
        F(EVP_EncodeBlock)                                                                                  \
        F(EVP_MD_CTX_free)                                                                                  \
        F(EVP_MD_CTX_new)                                                                                   \
        F(EVP_get_digestbyname)                                                                             \
        F(EVP_sha256)                                                                                       \
        F(EVP_sha512)                                                                                       \
        F(HMAC)                                                                                             \
        F(OPENSSL_cleanse)                                                                                  \
        F(OPENSSL_init_crypto)                                                                              \
        F(SHA256)

typedef struct CryptoFunctions {
        CRYPTO_FUNCTIONS(LIBRARY_MEMBER)
} CryptoFunctions;

extern CryptoFunctions crypto_functions;
extern Library crypto_library;

#define CRYPTO_CALL(function, ...) LIBRARY_CALL(crypto_library, crypto_functions.function, __VA_ARGS__)

#define CRYPTO_memcmp(...) CRYPTO_CALL(CRYPTO_memcmp, __VA_ARGS__)
#define ERR_clear_error(...) CRYPTO_CALL(ERR_clear_error, __VA_ARGS__)
#define ERR_peek_error(...) CRYPTO_CALL(ERR_peek_error, __VA_ARGS__)
#define ERR_reason_error_string(...) CRYPTO_CALL(ERR_reason_error_string, __VA_ARGS__)
#define EVP_DecodeBlock(...) CRYPTO_CALL(EVP_DecodeBlock, __VA_ARGS__)
#define EVP_DecodeFinal(...) CRYPTO_CALL(EVP_DecodeFinal, __VA_ARGS__)
#define EVP_DecodeInit(...) CRYPTO_CALL(EVP_DecodeInit, __VA_ARGS__)
#define EVP_DecodeUpdate(...) CRYPTO_CALL(EVP_DecodeUpdate, __VA_ARGS__)
#define EVP_Digest(...) CRYPTO_CALL(EVP_Digest, __VA_ARGS__)
#define EVP_DigestFinal_ex(...) CRYPTO_CALL(EVP_DigestFinal_ex, __VA_ARGS__)
#define EVP_DigestInit_ex(...) CRYPTO_CALL(EVP_DigestInit_ex, __VA_ARGS__)
#define EVP_DigestUpdate(...) CRYPTO_CALL(EVP_DigestUpdate, __VA_ARGS__)
#define EVP_ENCODE_CTX_free(...) CRYPTO_CALL(EVP_ENCODE_CTX_free, __VA_ARGS__)
#define EVP_ENCODE_CTX_new(...) CRYPTO_CALL(EVP_ENCODE_CTX_new, __VA_ARGS__)
#define EVP_EncodeBlock(...) CRYPTO_CALL(EVP_EncodeBlock, __VA_ARGS__)
#define EVP_MD_CTX_free(...) CRYPTO_CALL(EVP_MD_CTX_free, __VA_ARGS__)
#define EVP_MD_CTX_new(...) CRYPTO_CALL(EVP_MD_CTX_new, __VA_ARGS__)
#define EVP_get_digestbyname(...) CRYPTO_CALL(EVP_get_digestbyname, __VA_ARGS__)
#define EVP_sha256(...) CRYPTO_CALL(EVP_sha256, __VA_ARGS__)
#define EVP_sha512(...) CRYPTO_CALL(EVP_sha512, __VA_ARGS__)
#define HMAC(...) CRYPTO_CALL(HMAC, __VA_ARGS__)
#define OPENSSL_cleanse(...) CRYPTO_CALL(OPENSSL_cleanse, __VA_ARGS__)
#define OPENSSL_init_crypto(...) CRYPTO_CALL(OPENSSL_init_crypto, __VA_ARGS__)
#define SHA256(...) CRYPTO_CALL(SHA256, __VA_ARGS__)
