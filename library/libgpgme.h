/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* libgpgme, loaded when one of these functions is called for the first time; see library.h. */

#include <gpgme.h>

#include "library/library.h"

#define GPGME_FUNCTIONS(F)                                                                                  \
        F(gpgme_check_version_internal)                                                                     \
        F(gpgme_ctx_set_engine_info)                                                                        \
        F(gpgme_data_new)                                                                                   \
        F(gpgme_data_new_from_cbs)                                                                          \
        F(gpgme_data_new_from_fd)                                                                           \
        F(gpgme_data_new_from_mem)                                                                          \
        F(gpgme_data_release)                                                                               \
        F(gpgme_data_release_and_get_mem)                                                                   \
        F(gpgme_data_set_flag)                                                                              \
        F(gpgme_engine_check_version)                                                                       \
        F(gpgme_err_code_to_errno)                                                                          \
        F(gpgme_free)                                                                                       \
        F(gpgme_get_dirinfo)                                                                                \
        F(gpgme_get_key)                                                                                    \
        F(gpgme_key_unref)                                                                                  \
        F(gpgme_new)                                                                                        \
        F(gpgme_op_decrypt)                                                                                 \
        F(gpgme_op_decrypt_result)                                                                          \
        F(gpgme_op_encrypt)                                                                                 \
        F(gpgme_op_export)                                                                                  \
        F(gpgme_op_import)                                                                                  \
        F(gpgme_op_keylist_next)                                                                            \
        F(gpgme_op_keylist_start)                                                                           \
        F(gpgme_op_sign)                                                                                    \
        F(gpgme_op_spawn)                                                                                   \
        F(gpgme_op_verify)                                                                                  \
        F(gpgme_op_verify_result)                                                                           \
        F(gpgme_pubkey_algo_string)                                                                         \
        F(gpgme_release)                                                                                    \
        F(gpgme_set_armor)                                                                                  \
        F(gpgme_set_engine_info)                                                                            \
        F(gpgme_set_offline)                                                                                \
        F(gpgme_set_protocol)                                                                               \
        F(gpgme_signers_add)                                                                                \
        F(gpgme_strerror_r)

typedef struct GpgmeFunctions {
        GPGME_FUNCTIONS(LIBRARY_MEMBER)
} GpgmeFunctions;

extern GpgmeFunctions gpgme_functions;
extern Library gpgme_library;

#define GPGME_CALL(function, ...) LIBRARY_CALL(gpgme_library, gpgme_functions.function, __VA_ARGS__)

#define gpgme_check_version_internal(...) GPGME_CALL(gpgme_check_version_internal, __VA_ARGS__)
#define gpgme_ctx_set_engine_info(...) GPGME_CALL(gpgme_ctx_set_engine_info, __VA_ARGS__)
#define gpgme_data_new(...) GPGME_CALL(gpgme_data_new, __VA_ARGS__)
#define gpgme_data_new_from_cbs(...) GPGME_CALL(gpgme_data_new_from_cbs, __VA_ARGS__)
#define gpgme_data_new_from_fd(...) GPGME_CALL(gpgme_data_new_from_fd, __VA_ARGS__)
#define gpgme_data_new_from_mem(...) GPGME_CALL(gpgme_data_new_from_mem, __VA_ARGS__)
#define gpgme_data_release(...) GPGME_CALL(gpgme_data_release, __VA_ARGS__)
#define gpgme_data_release_and_get_mem(...) GPGME_CALL(gpgme_data_release_and_get_mem, __VA_ARGS__)
#define gpgme_data_set_flag(...) GPGME_CALL(gpgme_data_set_flag, __VA_ARGS__)
#define gpgme_engine_check_version(...) GPGME_CALL(gpgme_engine_check_version, __VA_ARGS__)
#define gpgme_err_code_to_errno(...) GPGME_CALL(gpgme_err_code_to_errno, __VA_ARGS__)
#define gpgme_free(...) GPGME_CALL(gpgme_free, __VA_ARGS__)
#define gpgme_get_dirinfo(...) GPGME_CALL(gpgme_get_dirinfo, __VA_ARGS__)
#define gpgme_get_key(...) GPGME_CALL(gpgme_get_key, __VA_ARGS__)
#define gpgme_key_unref(...) GPGME_CALL(gpgme_key_unref, __VA_ARGS__)
#define gpgme_new(...) GPGME_CALL(gpgme_new, __VA_ARGS__)
#define gpgme_op_decrypt(...) GPGME_CALL(gpgme_op_decrypt, __VA_ARGS__)
#define gpgme_op_decrypt_result(...) GPGME_CALL(gpgme_op_decrypt_result, __VA_ARGS__)
#define gpgme_op_encrypt(...) GPGME_CALL(gpgme_op_encrypt, __VA_ARGS__)
#define gpgme_op_export(...) GPGME_CALL(gpgme_op_export, __VA_ARGS__)
#define gpgme_op_import(...) GPGME_CALL(gpgme_op_import, __VA_ARGS__)
#define gpgme_op_keylist_next(...) GPGME_CALL(gpgme_op_keylist_next, __VA_ARGS__)
#define gpgme_op_keylist_start(...) GPGME_CALL(gpgme_op_keylist_start, __VA_ARGS__)
#define gpgme_op_sign(...) GPGME_CALL(gpgme_op_sign, __VA_ARGS__)
#define gpgme_op_spawn(...) GPGME_CALL(gpgme_op_spawn, __VA_ARGS__)
#define gpgme_op_verify(...) GPGME_CALL(gpgme_op_verify, __VA_ARGS__)
#define gpgme_op_verify_result(...) GPGME_CALL(gpgme_op_verify_result, __VA_ARGS__)
#define gpgme_pubkey_algo_string(...) GPGME_CALL(gpgme_pubkey_algo_string, __VA_ARGS__)
#define gpgme_release(...) GPGME_CALL(gpgme_release, __VA_ARGS__)
#define gpgme_set_armor(...) GPGME_CALL(gpgme_set_armor, __VA_ARGS__)
#define gpgme_set_engine_info(...) GPGME_CALL(gpgme_set_engine_info, __VA_ARGS__)
#define gpgme_set_offline(...) GPGME_CALL(gpgme_set_offline, __VA_ARGS__)
#define gpgme_set_protocol(...) GPGME_CALL(gpgme_set_protocol, __VA_ARGS__)
#define gpgme_signers_add(...) GPGME_CALL(gpgme_signers_add, __VA_ARGS__)
#define gpgme_strerror_r(...) GPGME_CALL(gpgme_strerror_r, __VA_ARGS__)
