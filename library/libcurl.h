/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* libcurl, loaded when one of these functions is called for the first time; see library.h. */

#include <curl/curl.h>

/* These macros check types, and hide the functions. */
#undef curl_easy_setopt
#undef curl_easy_getinfo

#include "library/library.h"

#define CURL_FUNCTIONS(F)                                                                                   \
        F(curl_easy_cleanup)                                                                                \
        F(curl_easy_getinfo)                                                                                \
        F(curl_easy_header)                                                                                 \
        F(curl_easy_init)                                                                                   \
        F(curl_easy_reset)                                                                                  \
        F(curl_easy_setopt)                                                                                 \
        F(curl_easy_strerror)                                                                               \
        F(curl_free)                                                                                        \
        F(curl_getdate)                                                                                     \
        F(curl_global_init)                                                                                 \
        F(curl_multi_add_handle)                                                                            \
        F(curl_multi_cleanup)                                                                               \
        F(curl_multi_info_read)                                                                             \
        F(curl_multi_init)                                                                                  \
        F(curl_multi_perform)                                                                               \
        F(curl_multi_poll)                                                                                  \
        F(curl_multi_remove_handle)                                                                         \
        F(curl_multi_strerror)                                                                              \
        F(curl_slist_append)                                                                                \
        F(curl_slist_free_all)                                                                              \
        F(curl_url)                                                                                         \
        F(curl_url_cleanup)                                                                                 \
        F(curl_url_get)                                                                                     \
        F(curl_url_set)

typedef struct CurlFunctions {
        CURL_FUNCTIONS(LIBRARY_MEMBER)
} CurlFunctions;

extern CurlFunctions curl_functions;
extern Library curl_library;

#define CURL_CALL(function, ...) LIBRARY_CALL(curl_library, curl_functions.function, __VA_ARGS__)

#define curl_easy_cleanup(...) CURL_CALL(curl_easy_cleanup, __VA_ARGS__)
#define curl_easy_getinfo(...) CURL_CALL(curl_easy_getinfo, __VA_ARGS__)
#define curl_easy_header(...) CURL_CALL(curl_easy_header, __VA_ARGS__)
#define curl_easy_init(...) CURL_CALL(curl_easy_init, __VA_ARGS__)
#define curl_easy_reset(...) CURL_CALL(curl_easy_reset, __VA_ARGS__)
#define curl_easy_setopt(...) CURL_CALL(curl_easy_setopt, __VA_ARGS__)
#define curl_easy_strerror(...) CURL_CALL(curl_easy_strerror, __VA_ARGS__)
#define curl_free(...) CURL_CALL(curl_free, __VA_ARGS__)
#define curl_getdate(...) CURL_CALL(curl_getdate, __VA_ARGS__)
#define curl_global_init(...) CURL_CALL(curl_global_init, __VA_ARGS__)
#define curl_multi_add_handle(...) CURL_CALL(curl_multi_add_handle, __VA_ARGS__)
#define curl_multi_cleanup(...) CURL_CALL(curl_multi_cleanup, __VA_ARGS__)
#define curl_multi_info_read(...) CURL_CALL(curl_multi_info_read, __VA_ARGS__)
#define curl_multi_init(...) CURL_CALL(curl_multi_init, __VA_ARGS__)
#define curl_multi_perform(...) CURL_CALL(curl_multi_perform, __VA_ARGS__)
#define curl_multi_poll(...) CURL_CALL(curl_multi_poll, __VA_ARGS__)
#define curl_multi_remove_handle(...) CURL_CALL(curl_multi_remove_handle, __VA_ARGS__)
#define curl_multi_strerror(...) CURL_CALL(curl_multi_strerror, __VA_ARGS__)
#define curl_slist_append(...) CURL_CALL(curl_slist_append, __VA_ARGS__)
#define curl_slist_free_all(...) CURL_CALL(curl_slist_free_all, __VA_ARGS__)
#define curl_url(...) CURL_CALL(curl_url, __VA_ARGS__)
#define curl_url_cleanup(...) CURL_CALL(curl_url_cleanup, __VA_ARGS__)
#define curl_url_get(...) CURL_CALL(curl_url_get, __VA_ARGS__)
#define curl_url_set(...) CURL_CALL(curl_url_set, __VA_ARGS__)
