/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* containers/: the HTTP service by which an app launches others that are nested under it, with calls of the v1 agent API of Mesos.
 *
 * The service is a program of its own, acnspawn-control: one process for each app that has called, outside the pod, without
 * privileges, as the metadata service. It has the listening socket of that app, which comes through a channel (SOCK_SEQPACKET,
 * descriptor 3). For each call that is well-formed it makes a pair of sockets and sends one of them through the channel: the
 * supervisor serves org.acnspawn.Control on it, checks the token, and decides. */

#include "schema/schema.h"

#define CONTROL_PROGRAM "acnspawn-control"
#define CONTROL_CHANNEL_FD 3
#define CONTROL_TOO_MANY "org.acnspawn.Control.TooMany"
#define CONTROL_BUSY "org.acnspawn.Control.Busy" /* to be tried again */
#define CONTROL_BODY_MAX (64U * 1024U)
#define CONTROL_VALUES_MAX 4096U
#define CONTROL_DEPTH_MAX 40U /* a container ID has a level for each app above */
#define CONTROL_CONNECTIONS_MAX 14U
#define CONTROL_STREAMS_MAX 10U  /* of these, calls that last: for an end, or with input or output */
#define CONTROL_CALLS_BURST 100U /* calls of one app at a time, ... */
#define CONTROL_CALLS_USEC UINT64_C(20000) /* ... and one more in each such interval */
#define CONTROL_TASKS_MAX 1024U /* of the user of the service, which all services of the pod share */

/* --- call.c: calls. Pure ------------------------------------------------------------------------------- */

typedef enum CallKind {
        CALL_LAUNCH,
        CALL_WAIT,
        CALL_KILL,
        CALL_REMOVE,
        CALL_LIST,
        CALL_OUTPUT,
        CALL_INPUT,
        CALL_SESSION,
        CALL_RESIZE, /* not a call of apps */
} CallKind;

typedef struct ContainerCall {
        CallKind kind;
        const char *type;        /* as "LAUNCH_CONTAINER" */
        const char *member;      /* with its parameters, "launch_container" */
        const char *method;      /* of org.acnspawn.Control */
        json_object *parameters; /* of the method, but for the token */
} ContainerCall;

void container_call_done(ContainerCall *c);
#define _cleanup_container_call_ _cleanup_(container_call_done)
/* -EINVAL: which member is wrong, and why. */
int container_call_parse(const char *text, size_t size, ContainerCall *ret, Error *e);
/* The ContainerID of the app at PATH. NULL: out of memory. */
json_object *container_id_new(const char *path);

/* --- exchange.c: one call of the supervisor ------------------------------------------------------------ */

typedef struct VarlinkClient VarlinkClient;
typedef struct VarlinkReply VarlinkReply;

/* Sends CALL with TOKEN and waits for the reply, or until the client at the other end of HTTP_FD has gone. FDS travel with it and are
 * taken, also on failure: pipes for the output (CALL_OUTPUT, CALL_SESSION), or the first for the input (CALL_INPUT). *RET is the connection on which
 * further replies may come. -EAGAIN: the supervisor takes no more calls; -ECONNRESET: the client or the supervisor has gone. */
int control_exchange(int channel, int http_fd, const ContainerCall *call, const char *token,
                     int fds[static 2], VarlinkClient **ret, VarlinkReply *reply);

/* --- answer.c: replies of the supervisor as those of the API. Pure ------------------------------------- */

/* The status of HTTP, and the text of the body, to be freed; NULL: out of memory. */
unsigned control_answer(const ContainerCall *call, const char *error, json_object *parameters, char **ret);

/* --- record.c: streams of records. Pure ---------------------------------------------------------------- */

#define CONTROL_OUTPUT_STEP 4096U
/* "LENGTH\n{"type": "DATA", ...}" for N bytes, at most CONTROL_OUTPUT_STEP. NULL: out of memory. */
char *output_record(bool error, const void *p, size_t n);
/* Standard base64 with its padding, without line feeds. -EINVAL. */
int base64_decode(const char *s, size_t n, unsigned char **ret, size_t *ret_size);

#define RECORD_DIGITS_MAX 10U
typedef struct RecordReader {
        char *text; /* the record, as far as it has come; not terminated */
        size_t size, filled;
        unsigned n_digits;
} RecordReader;

void record_reader_done(RecordReader *r);
/* Takes some of N bytes. 1: R->text is a record of R->size bytes, until the next call; 0: there is more to come; -EBADMSG: that is no
 * record; -EMSGSIZE: it is larger than CONTROL_BODY_MAX. */
int record_reader_take(RecordReader *r, const char *data, size_t n, size_t *ret_taken);
/* Whether a record has begun, and has not come to its end. */
bool record_reader_is_within(const RecordReader *r);

/* --- process-io.c: records of the input. Pure ---------------------------------------------------------- */

typedef enum ProcessIoKind { IO_DATA, IO_SIZE, IO_HEARTBEAT } ProcessIoKind;

typedef struct ProcessIo {
        ProcessIoKind kind;
        unsigned char *data; /* without any: the input ends */
        size_t size;
        unsigned short rows, columns;
} ProcessIo;

void process_io_done(ProcessIo *p);
/* -EINVAL: which member is wrong, and why. */
int process_io_parse(const char *text, size_t size, ProcessIo *ret, Error *e);

/* --- rate.c. Pure -------------------------------------------------------------------------------------- */

/* Whether an event at the time NOW is one too many, of which there may be BURST at a time, and one more in each INTERVAL; else it is
 * recorded in *NEXT, which is 0 at first. */
bool control_exceeds_rate(uint64_t *next, uint64_t now, unsigned burst, uint64_t interval);

/* --- http.c -------------------------------------------------------------------------------------------- */

/* Serves on LISTEN_FD, which is taken, until the channel closes. */
int control_serve(int channel, int listen_fd, Error *e);
