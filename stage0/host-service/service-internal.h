/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files of stage0/host-service/ share. */

#include "stage0/host-service/host-service.h"
#include "stage0/pods/pods.h"
#include "varlink/varlink.h"

#define HOST_INTERFACE "org.acnspawn.Host"

/* Each kind of call has its own limit, so that queries never wait for changes, and stopping a pod does not wait for
 * registries. */
typedef enum HostCallKind {
        HOST_CALL_QUERIES,
        HOST_CALL_FETCHES, /* may wait for registries and other hosts */
        HOST_CALL_CHANGES,
        _HOST_CALL_MAX,
} HostCallKind;

typedef struct HostService {
        const HostServiceOptions *options;
        sd_event *event;
        VarlinkServer *server;
        sd_event_source *idle;
        uint64_t n_accepted; /* at the last check for idleness */
        struct HostTask *tasks;
        struct HostMonitor *monitors;
        size_t n_tasks[_HOST_CALL_MAX], n_monitors;
        bool ending;
} HostService;

/* --- service.c ----------------------------------------------------------------------------------------- */

/* org.acnspawn.Host.varlink. Calls are checked against it before these functions are called. */
extern const char host_interface_description[];

/* --- job.c: calls that run in a separate process ------------------------------------------------------- */

#define HOST_TASKS_MAX 32U        /* of each kind */
#define HOST_TASKS_PER_CLIENT 16U /* of each kind, for one client process */
#define HOST_MONITORS_MAX 16U

/* A call, in its process. */
typedef struct HostJob {
        const HostServiceOptions *options;
        json_object *parameters;
        bool more;            /* the caller accepts several replies */
        Operation *operation; /* cancelled when the caller disconnects */
        Store *store;         /* NULL: no store exists, and the job does not need one */
        char **warnings;      /* messages of the operation, for the reply */
        int fd;               /* pipe to the service */
        bool answered;
        bool tells_progress;
        uint64_t progress_usec; /* when the last progress was told, and of which phase */
        OperationPhase progress_phase;
} HostJob;

/* Replies by the functions below. If it returns a negative errno, with the reason in E, without a reply, the
 * reply is OperationFailed. */
typedef int (*HostJobFunction)(HostJob *j, Error *e);

typedef enum HostStoreUse {
        STORE_IF_THERE, /* HostJob.store may be NULL */
        STORE_NEEDED,   /* create the store if needed */
} HostStoreUse;

/* Starts the process for a call. */
int host_task_start(HostService *s, VarlinkCall *call, json_object *parameters, HostCallKind kind,
                    HostStoreUse use, HostJobFunction function);
/* Cancels the calls of all processes. */
void host_tasks_cancel(HostService *s);

/* O is taken over, also on failure; NULL: out of memory. */
int job_reply(HostJob *j, json_object *o);
int job_reply_continues(HostJob *j, json_object *o);
/* ERROR is a name without the interface. */
int job_reply_error(HostJob *j, const char *error, json_object *o);
int job_reply_invalid_parameter(HostJob *j, const char *parameter);

/* A string, a number or a boolean parameter. */
const char *job_text(const HostJob *j, const char *key); /* NULL: absent */
int job_usec(const HostJob *j, const char *key, uint64_t otherwise,
             uint64_t *ret); /* -EINVAL: it is negative */
bool job_flag(const HostJob *j, const char *key);

/* --- refusals.c ---------------------------------------------------------------------------------------- */

/* Replies with the error for a pod or an image that was not found, or for another failure of the look-up. */
int job_refuse_pod(HostJob *j, int r, const char *pod, Error *e);
int job_refuse_image(HostJob *j, int r, const char *image, Error *e);
int job_refuse_state(HostJob *j, Pod *p);
int job_refuse_field(HostJob *j, const char *field, Error *e);
/* An object with the message and the hint of E. */
json_object *error_to_json(const Error *e);

/* --- pods.c, images.c, monitor.c ----------------------------------------------------------------------- */

int job_list_pods(HostJob *j, Error *e);
int job_describe_pod(HostJob *j, Error *e);
int job_prepare_pod(HostJob *j, Error *e);
int job_run_pod(HostJob *j, Error *e);
int job_start_pod(HostJob *j, Error *e);
int job_stop_pod(HostJob *j, Error *e);
int job_remove_pod(HostJob *j, Error *e);

int job_list_images(HostJob *j, Error *e);
int job_describe_image(HostJob *j, Error *e);
int job_fetch_image(HostJob *j, Error *e);
int job_remove_image(HostJob *j, Error *e);
int job_collect_garbage(HostJob *j, Error *e);

int host_monitor(VarlinkCall *call, json_object *parameters, void *userdata);
