/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the stub of libcrypto defines: names of functions, sorted, each with the version below. They are what
 * libsystemd-shared of systemd 252 and libkmod 30 import. host-files.c compares this list with what the libraries
 * of a host import; the stub is built from it. */

#define LIBCRYPTO_STUB_SONAME "libcrypto.so.3"
#define LIBCRYPTO_STUB "pod-lib/" LIBCRYPTO_STUB_SONAME /* below the directory of our helper programs */
#define LIBCRYPTO_STUB_SYMBOL_VERSION "OPENSSL_3.0.0"

#define LIBCRYPTO_STUB_FUNCTIONS(F)                                                                         \
        F(ASN1_INTEGER_to_BN)                                                                               \
        F(ASN1_STRING_get0_data)                                                                            \
        F(ASN1_STRING_length)                                                                               \
        F(BIO_free)                                                                                         \
        F(BIO_new_mem_buf)                                                                                  \
        F(BN_bn2bin)                                                                                        \
        F(BN_free)                                                                                          \
        F(BN_num_bits)                                                                                      \
        F(ERR_error_string)                                                                                 \
        F(ERR_get_error)                                                                                    \
        F(EVP_CIPHER_CTX_ctrl)                                                                              \
        F(EVP_CIPHER_CTX_free)                                                                              \
        F(EVP_CIPHER_CTX_new)                                                                               \
        F(EVP_CIPHER_get_block_size)                                                                        \
        F(EVP_CIPHER_get_iv_length)                                                                         \
        F(EVP_CIPHER_get_key_length)                                                                        \
        F(EVP_DecryptFinal_ex)                                                                              \
        F(EVP_DecryptInit_ex)                                                                               \
        F(EVP_DecryptUpdate)                                                                                \
        F(EVP_DigestFinal_ex)                                                                               \
        F(EVP_DigestInit_ex)                                                                                \
        F(EVP_DigestUpdate)                                                                                 \
        F(EVP_EncryptFinal_ex)                                                                              \
        F(EVP_EncryptInit_ex)                                                                               \
        F(EVP_EncryptUpdate)                                                                                \
        F(EVP_MD_CTX_free)                                                                                  \
        F(EVP_MD_CTX_get0_md)                                                                               \
        F(EVP_MD_CTX_new)                                                                                   \
        F(EVP_MD_get0_name)                                                                                 \
        F(EVP_MD_get_size)                                                                                  \
        F(EVP_PKEY_CTX_free)                                                                                \
        F(EVP_PKEY_CTX_new)                                                                                 \
        F(EVP_PKEY_CTX_set_rsa_padding)                                                                     \
        F(EVP_PKEY_encrypt)                                                                                 \
        F(EVP_PKEY_encrypt_init)                                                                            \
        F(EVP_PKEY_free)                                                                                    \
        F(EVP_PKEY_get_base_id)                                                                             \
        F(EVP_PKEY_get_bits)                                                                                \
        F(EVP_PKEY_get_bn_param)                                                                            \
        F(EVP_aes_256_gcm)                                                                                  \
        F(EVP_sha256)                                                                                       \
        F(OBJ_obj2nid)                                                                                      \
        F(OPENSSL_sk_new_null)                                                                              \
        F(OPENSSL_sk_pop_free)                                                                              \
        F(OPENSSL_sk_push)                                                                                  \
        F(OPENSSL_sk_value)                                                                                 \
        F(PEM_read_PUBKEY)                                                                                  \
        F(PEM_read_X509)                                                                                    \
        F(PKCS7_SIGNER_INFO_get0_algs)                                                                      \
        F(PKCS7_free)                                                                                       \
        F(PKCS7_get_signer_info)                                                                            \
        F(PKCS7_verify)                                                                                     \
        F(X509_ALGOR_get0)                                                                                  \
        F(X509_NAME_ENTRY_get_data)                                                                         \
        F(X509_NAME_ENTRY_get_object)                                                                       \
        F(X509_NAME_entry_count)                                                                            \
        F(X509_NAME_get_entry)                                                                              \
        F(X509_NAME_oneline)                                                                                \
        F(X509_free)                                                                                        \
        F(X509_get_subject_name)                                                                            \
        F(d2i_PKCS7)                                                                                        \
        F(d2i_PKCS7_bio)                                                                                    \
        F(d2i_X509)                                                                                         \
        F(i2d_PublicKey)                                                                                    \
        F(i2d_X509)
