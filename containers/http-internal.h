/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files of the HTTP side share. */

#include <microhttpd.h>
#include <pthread.h>

#include "containers/containers.h"
#include "varlink/varlink.h"

#define STEP_SECONDS 15U

typedef struct Service {
        int channel;
        pthread_mutex_t lock;
        uint64_t next_usec; /* control_exceeds_rate() */
        unsigned n_streams; /* calls that last */
} Service;

/* --- http.c -------------------------------------------------------------------------------------------- */

enum MHD_Result http_refuse(struct MHD_Connection *http, unsigned status, const char *text);
int http_socket(struct MHD_Connection *http);
void http_limit_time(struct MHD_Connection *http, unsigned seconds);
/* Whether there may be one more call that lasts; to be released. */
bool service_take_stream(Service *s);
void service_release_stream(Service *s);

/* --- http-input.c: the input of an app, as a stream of records ----------------------------------------- */

typedef struct InputStream InputStream;

/* NULL: out of memory. TOKEN is that of the request. */
InputStream *input_stream_new(Service *s, struct MHD_Connection *http, const char *token);
/* The input of the app ends. NULL is fine; returns NULL. */
InputStream *input_stream_free(InputStream *i);
/* Bytes of the request, which are passed on before it returns. MHD_NO: the connection is to be closed, and has got its answer. */
enum MHD_Result input_stream_take(InputStream *i, const char *data, size_t n);
/* The request has come to its end. */
enum MHD_Result input_stream_answer(InputStream *i);
