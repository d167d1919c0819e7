/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files of cri/ share. */

#include <protobuf-c/protobuf-c.h>

#include "cri/cri.h"
#include "cri/runtime.pb-c.h" /* generated from runtime.proto */
#include "grpc/grpc.h"
#include "prepare/prepare.h"
#include "schema/schema.h"

#define CRI_VERSION "v1"
#define CRI_RUNTIME_NAME "acnspawn" /* also of the one handler, by its name */
/* Worker processes. A node has hundreds of pods, whose calls may all wait at the same time. The difference is reserved for
 * calls without CRI_WAITS. */
#define CRI_WORKERS_MAX 2048U
#define CRI_WORKERS_WAITING_MAX 1792U
/* Bytes that a request takes when it is unpacked, with the temporary data of the parser: lists of empty messages take
 * much more than on the wire. */
#define CRI_REQUEST_MEMORY_MAX (64U * 1024U * 1024U)

/* --- memory.c: what belongs to a call ------------------------------------------------------------------ */

/* Memory that is freed at once, with the call. */
typedef struct CriMemory {
        struct CriChunk *chunks;
        size_t used, max; /* bytes; MAX 0: not limited */
        bool failed;      /* an allocation, for want of memory or beyond MAX */
} CriMemory;

void cri_memory_done(CriMemory *m);
#define _cleanup_cri_memory_ _cleanup_(cri_memory_done)
/* Zeroed. NULL: out of memory, or beyond the maximum. */
void *cri_alloc(CriMemory *m, size_t size);
/* A copy of S; NULL becomes "", as empty fields are. */
char *cri_strdup(CriMemory *m, const char *s);
char *cri_printf(CriMemory *m, const char *format, ...) _printf_(2, 3);
/* An initialized message. */
void *cri_message(CriMemory *m, const ProtobufCMessageDescriptor *d);
/* A request of N bytes. -EBADMSG: it is not valid, or has text that is not UTF-8; -ENOMEM: out of memory, or beyond the maximum. */
int cri_unpack(CriMemory *m, const ProtobufCMessageDescriptor *d, const uint8_t *data, size_t n,
               ProtobufCMessage **ret);

/* --- calls.c, dispatch.c: the calls -------------------------------------------------------------------- */

typedef struct CriServer CriServer;
typedef struct CriJob CriJob;

/* A call: gets the unpacked REQUEST, and fills in REPLY, which is initialized; both are of the types in the table, and
 * what is allocated for them belongs to J->memory. A failure is a negative errno with the reason in E; its status is that
 * of cri_status(), or else follows from the errno, which never gives NOT_FOUND or ALREADY_EXISTS, as clients draw
 * conclusions from these.
 *
 * A call with CRI_STREAM sends its replies by cri_send(), and REPLY is not sent. */
typedef int (*CriFunction)(CriJob *j, const void *request, void *reply, Error *e);

typedef enum CriFlags {
        CRI_WORKER = 1
                     << 0, /* runs in a process of its own (worker.c): it may wait, and is cancelled with its call */
        CRI_STREAM = 1 << 1, /* has any number of replies */
        CRI_DISK = 1
                   << 2, /* wants sizes of trees: they are measured in the background, if that was long ago */
        CRI_IMAGES = 1 << 3,  /* changes images: these sizes are not current after it */
        CRI_EVENTS = 1 << 4,  /* goes on until the client or the server ends it; it has no function */
        CRI_SAMPLED = 1 << 5, /* needs no worker while there are recent samples (usage-sample.c) */
        CRI_WAITS = 1 << 6,   /* waits for containers, networks or registries */
} CriFlags;

typedef struct CriCall {
        const char *path; /* "/runtime.v1.RuntimeService/Version" */
        const ProtobufCMessageDescriptor *request, *reply;
        CriFunction function;
        CriFlags flags;
} CriCall;

/* Calls that are not in the table are answered by UNIMPLEMENTED. */
extern const CriCall cri_calls[];
extern const size_t n_cri_calls;

/* A call that is served. */
struct CriJob {
        CriServer *server; /* in a worker: a copy, as it was when the worker was started */
        const CriCall *call;
        GrpcCall *grpc; /* NULL in a worker */
        CriMemory memory;
        Store *store;         /* for the operation of the call */
        GrpcStatus status;    /* of a failure; GRPC_OK: by its errno */
        const char *trace_id; /* NULL: the call has no trace (exporter/trace.c) */
        bool needs_worker;    /* the call has failed in the server because it would have to wait */
        int fd;               /* of a worker: a pipe to the server */
};

/* Sets the status of a failure. Returns R. */
int cri_status(CriJob *j, GrpcStatus status, int r);
/* Sends a reply of a stream. */
int cri_send(CriJob *j, const ProtobufCMessage *reply, Error *e);
/* Runs the call in this process, all but the end of it. *RET_STATUS and *RET_MESSAGE (to be freed, or NULL) are how it
 * ends. */
void cri_job_run(CriJob *j, const uint8_t *request, size_t size, GrpcStatus *ret_status, char **ret_message);
/* GrpcHandler of all calls. */
int cri_dispatch(GrpcCall *c, const uint8_t *request, size_t size, void *userdata);

/* --- worker.c: calls that run in a separate process ---------------------------------------------------- */

/* Starts a worker for the call; if there are too many, finishes the call instead. C is NULL for work without a client. */
int cri_worker_start(CriServer *s, GrpcCall *c, const CriCall *call, const uint8_t *request, size_t size);
/* Whether a process runs FUNCTION now. */
bool cri_worker_runs(const CriServer *s, CriFunction function);
/* Cancels the calls of all processes. */
void cri_workers_cancel(CriServer *s);
/* Ends the processes that belong to no call any more. */
void cri_workers_end_idle(CriServer *s);
/* In a worker: passes a sample to the server (see usage.h). */
void cri_worker_note(CriJob *j, const void *sample, size_t size);
/* The same of samples of a sandbox (see usage-sample.c). */
void cri_worker_note_usage(CriJob *j, const void *data, size_t size);
/* The same of a CriEventNote (see events.h). */
void cri_worker_note_event(CriJob *j, const void *note, size_t size);
/* In a worker: sends a reply. */
int cri_worker_send(CriJob *j, const void *reply, size_t size);

/* --- server.c ------------------------------------------------------------------------------------------ */

struct CriServer {
        const CriOptions *options;
        sd_event *event;
        GrpcServer *grpc;
        GrpcMethod *methods; /* of cri_calls, in their order */
        Store *store;        /* without an operation */
        int lock_fd;
        struct CriWorker *workers;
        size_t n_workers;
        sd_event_source *timer;
        bool ending, drained;
        struct CriSample *samples; /* usage-cache.c */
        size_t n_samples, samples_allocated;
        struct sd_event_source *usage_timer; /* usage-sample.c; NULL: samples are not refreshed */
        uint64_t usage_asked_usec, usage_due_usec;
        bool sampling;
        uint64_t measured_usec; /* when measuring trees was begun; 0: it is due */
        bool measuring;
        struct CriEvents *events; /* events.c */
        struct StreamServer *streams;
        struct StreamTls *stream_tls; /* NULL: without */
        bool has_users;               /* see cri_users_are_supported() */
        struct CriFigures *figures;   /* exporter/figures.c */
        struct Exporter *exporter;    /* NULL: without */
};

/* A worker has ended: so does the server, if it was the last thing to wait for. */
void cri_server_check_end(CriServer *s);
/* Takes the lock of the store for the one process that serves it. -EBUSY, with its process ID. */
int cri_lock(Store *s, int *ret_fd, Error *e);

/* --- usage-measure.c ------------------------------------------------------------------------------------- */

/* Measures trees in the background, if that is due. */
void cri_measure_start(CriServer *s);
/* The worker of CALL has ended. */
void cri_measure_ended(CriServer *s, const CriCall *call);

/* --- usage-sample.c -------------------------------------------------------------------------------------- */

/* A call is about to need samples. */
void cri_usage_asked(CriServer *s);
/* The worker of CALL has ended. */
void cri_usage_ended(CriServer *s, const CriCall *call);
/* A worker has sent samples of a sandbox. */
void cri_usage_take(CriServer *s, const void *data, size_t size);

/* --- sandbox-dead.c -------------------------------------------------------------------------------------- */

/* Removes sandboxes whose files a loss of power has emptied, in the background, until none is left. */
void cri_sandboxes_clean(CriServer *s);

/* --- container-stop.c ------------------------------------------------------------------------------------ */

/* Takes over a StopContainer call for a running container, and returns true; otherwise the call needs a worker. */
bool cri_stop_begin(CriServer *s, GrpcCall *c, const CriCall *call, const uint8_t *request, size_t size);

/* --- stream-calls.c -------------------------------------------------------------------------------------- */

struct Session;
/* In a process of its own: serves what a client has opened (see streaming/streaming.h). */
void cri_stream_serve(struct Session *session, unsigned kind, const void *data, size_t size, void *userdata);

/* --- users.c ------------------------------------------------------------------------------------------- */

/* Whether sandboxes can have ranges of users. */
bool cri_users_are_supported(const Store *s);

/* --- socket.c ------------------------------------------------------------------------------------------ */

/* A listening socket: the one that was passed (*RET_PASSED), or a new one at PATH. The store has to be locked. */
int cri_socket_open(const char *path, bool *ret_passed, Error *e);
/* A new one at PATH, which only root can connect to; one that a killed process has left there is replaced. */
int cri_socket_listen(const char *path, Error *e);

/* --- The calls ----------------------------------------------------------------------------------------- */

/* runtime.c */
int cri_version(CriJob *j, const void *request, void *reply, Error *e);
int cri_runtime_status(CriJob *j, const void *request, void *reply, Error *e);
int cri_runtime_config(CriJob *j, const void *request, void *reply, Error *e);
int cri_update_runtime_config(CriJob *j, const void *request, void *reply, Error *e);

/* images.c */
/* "sha256:…", as clients know it; of an image without a config, the ID in the store. */
const char *cri_image_id(const Image *i);
int cri_list_images(CriJob *j, const void *request, void *reply, Error *e);
int cri_stream_images(CriJob *j, const void *request, void *reply, Error *e);
int cri_image_status(CriJob *j, const void *request, void *reply, Error *e);
int cri_remove_image(CriJob *j, const void *request, void *reply, Error *e);
/* images-space.c */
int cri_image_fs_info(CriJob *j, const void *request, void *reply, Error *e);
/* pull.c */
/* -EINVAL: SPEC names no image. */
int cri_check_image(const Runtime__V1__ImageSpec *spec, Error *e);
int cri_pull_image(CriJob *j, const void *request, void *reply, Error *e);

/* --- json.c: what is shown beside messages ------------------------------------------------------------- */

/* M as an object: names and numbers of the schema, without defaults; of NULL an empty one. NULL: out of memory. */
json_object *cri_json(const ProtobufCMessage *m);
/* What the OCI specification has as "linux": the cgroup, or NULL, and the namespaces of PID, if it is not 0. NULL: out of memory. */
json_object *cri_json_linux(const char *cgroup, pid_t pid);
/* Bytes of a request that is shown, beyond which it is left out: a reply is bounded, and text may grow to six times of that. */
#define CRI_JSON_CONFIG_MAX (1024U * 1024U)

/* --- map.c: maps --------------------------------------------------------------------------------------- */

/* Appends an entry to a map<string, string>: N and LIST are the members of the message, D the descriptor of the entries. */
int cri_map_add(CriMemory *m, size_t *n, void *list, const ProtobufCMessageDescriptor *d, const char *key,
                const char *value);
