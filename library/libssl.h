/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* libssl, loaded when one of these functions is called for the first time; see library.h. */

#include <openssl/ssl.h>

#include "library/library.h"

#define SSL_FUNCTIONS(F)                                                                                    \
        F(SSL_CTX_check_private_key)                                                                        \
        F(SSL_CTX_ctrl)                                                                                     \
        F(SSL_CTX_free)                                                                                     \
        F(SSL_CTX_new)                                                                                      \
        F(SSL_CTX_set_default_passwd_cb)                                                                    \
        F(SSL_CTX_set_options)                                                                              \
        F(SSL_CTX_use_PrivateKey_file)                                                                      \
        F(SSL_CTX_use_certificate_chain_file)                                                               \
        F(SSL_free)                                                                                         \
        F(SSL_get_error)                                                                                    \
        F(SSL_new)                                                                                          \
        F(SSL_pending)                                                                                      \
        F(SSL_read)                                                                                         \
        F(SSL_set_accept_state)                                                                             \
        F(SSL_set_fd)                                                                                       \
        F(SSL_shutdown)                                                                                     \
        F(SSL_write)                                                                                        \
        F(TLS_server_method)

typedef struct SslFunctions {
        SSL_FUNCTIONS(LIBRARY_MEMBER)
} SslFunctions;

extern SslFunctions ssl_functions;
extern Library ssl_library;

#define SSL_CALL(function, ...) LIBRARY_CALL(ssl_library, ssl_functions.function, __VA_ARGS__)

#define SSL_CTX_check_private_key(...) SSL_CALL(SSL_CTX_check_private_key, __VA_ARGS__)
#define SSL_CTX_ctrl(...) SSL_CALL(SSL_CTX_ctrl, __VA_ARGS__)
#define SSL_CTX_free(...) SSL_CALL(SSL_CTX_free, __VA_ARGS__)
#define SSL_CTX_new(...) SSL_CALL(SSL_CTX_new, __VA_ARGS__)
#define SSL_CTX_set_default_passwd_cb(...) SSL_CALL(SSL_CTX_set_default_passwd_cb, __VA_ARGS__)
#define SSL_CTX_set_options(...) SSL_CALL(SSL_CTX_set_options, __VA_ARGS__)
#define SSL_CTX_use_PrivateKey_file(...) SSL_CALL(SSL_CTX_use_PrivateKey_file, __VA_ARGS__)
#define SSL_CTX_use_certificate_chain_file(...) SSL_CALL(SSL_CTX_use_certificate_chain_file, __VA_ARGS__)
#define SSL_free(...) SSL_CALL(SSL_free, __VA_ARGS__)
#define SSL_get_error(...) SSL_CALL(SSL_get_error, __VA_ARGS__)
#define SSL_new(...) SSL_CALL(SSL_new, __VA_ARGS__)
#define SSL_pending(...) SSL_CALL(SSL_pending, __VA_ARGS__)
#define SSL_read(...) SSL_CALL(SSL_read, __VA_ARGS__)
#define SSL_set_accept_state(...) SSL_CALL(SSL_set_accept_state, __VA_ARGS__)
#define SSL_set_fd(...) SSL_CALL(SSL_set_fd, __VA_ARGS__)
#define SSL_shutdown(...) SSL_CALL(SSL_shutdown, __VA_ARGS__)
#define SSL_write(...) SSL_CALL(SSL_write, __VA_ARGS__)
#define TLS_server_method(...) SSL_CALL(TLS_server_method, __VA_ARGS__)
