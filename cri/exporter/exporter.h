/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* cri/exporter/: figures of the service itself, as metrics in OpenMetrics format by HTTP, and traces of its calls. What pods use is in
 * cri/statistics/. */

#include "cri/cri-internal.h"

/* --- figures.c: what is counted ------------------------------------------------------------------------ */

typedef struct CriFigures CriFigures;

int cri_figures_new(CriFigures **ret);
CriFigures *cri_figures_free(CriFigures *f);
/* A call of METHOD, an index of cri_calls, has begun; or ended with STATUS after USEC. */
void cri_figures_begun(CriFigures *f);
void cri_figures_ended(CriFigures *f, size_t method, GrpcStatus status, uint64_t usec);
/* Appends the metrics, and the end of their text. */
void cri_figures_format(const CriServer *s, Text *t);

/* --- exporter.c: the socket ---------------------------------------------------------------------------- */

#define EXPORTER_CONNECTIONS_MAX 16U
#define EXPORTER_HEAD_MAX 8192U                /* bytes of a request */
#define EXPORTER_USEC (10 * UINT64_C(1000000)) /* for a request and its reply */

typedef struct Exporter Exporter;

/* WHERE, which is lent, is an absolute path of a socket that root can connect to, or the number of a port of 127.0.0.1. If that is taken, a
 * warning says so, and it is tried again. */
int exporter_new(CriServer *s, const char *where, Exporter **ret, Error *e);
/* NULL is fine. */
Exporter *exporter_free(Exporter *x);
/* -EINVAL: WHERE is neither. */
int exporter_check(const char *where);
/* The head of a request, of which N bytes are there: the status line of the reply; NULL: more has to come. */
const char *exporter_judge(const char *head, size_t n);

/* --- trace.c: lines about calls ------------------------------------------------------------------------ */

/* Counts the calls of the server, and writes their traces. */
void cri_trace_calls(CriServer *s);
/* The ID of C, which is lent by it; NULL: it has no trace, or C is NULL. */
const char *cri_trace_id(const CriServer *s, const CriCall *call, GrpcCall *c);
/* A message of the operation of a call, a CriJob, which is USERDATA: see OperationOptions. */
void cri_trace_message(LogLevel level, const char *line, void *userdata);
/* What a request is about. */
void cri_trace_request(const CriJob *j, const ProtobufCMessage *request);
