/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files of stage0/api/ share. */

#include "stage0/api/acn.h"
#include "varlink/varlink.h"

struct AcnPod {
        Pod *pod; /* borrowed */
        VarlinkClient *client;
        uint64_t answer_usec;        /* the time that the supervisor has to reply */
        uint64_t since;              /* for the monitor */
        char *app;                   /* of the last Exec, or Attach */
        bool monitors, monitor_over; /* the end of the pod was reported */
};

#define ACN_ANSWER_USEC (30 * UINT64_C(1000000))

/* --- connection.c -------------------------------------------------------------------------------------- */

typedef struct AcnCall {
        const char *method; /* without the interface */
        const char *what;   /* the operation, for messages: "stop app %s of pod %s", or "… pod %s" */
        const char *app;    /* NULL: it is about the pod */
        const char *key;    /* one more parameter, with VALUE; NULL: none */
        int64_t value;
        json_object *parameters; /* more parameters, borrowed; NULL: none */
        uint64_t timeout_usec; /* time to reply; 0: the default; UINT64_MAX: without limit, after a check */
        bool checks;           /* checks first, whatever the time-out is */
        uint64_t late_usec;    /* ON_LATE is called if there is no reply by then; 0: never */
        void (*on_late)(void *userdata);
        void *userdata;
} AcnCall;

/* Calls the method, and translates errors. While the pod's systemd cannot be reached the call is repeated
 * for a while. varlink_reply_done() frees *RET, which may be NULL. */
int acn_call(AcnPod *a, const AcnCall *c, VarlinkReply *ret, Error *e);
/* The error of a connection that has failed with the code R. */
int acn_connection_error(AcnPod *a, int r, Error *e);

/* --- refusals.c ---------------------------------------------------------------------------------------- */

/* The error for an error reply. -EAGAIN, -EREMCHG (ForeignProcess) without a message: the call may be
 * repeated. */
/* VARLINK_TOO_MANY_CONNECTIONS */
int acn_too_many(AcnPod *a, const VarlinkReply *reply, Error *e);
int acn_refusal(AcnPod *a, const AcnCall *c, const VarlinkReply *reply, Error *e);
/* The same for errors that are not of the pod's interface: the errno of a system error; -EREMOTEIO for others. */
int acn_service_error(const VarlinkReply *reply, Error *e);
/* Whether the pod runs and has APP. For the supervisor, stopping and removing an app that does not exist
 * succeeds; for a user it is probably a typing error. */
int acn_check_app(AcnPod *a, const char *app, Error *e);
/* The message of -ENOENT, with the pod's apps. */
int acn_no_such_app(const Pod *p, const char *app, const AcnDescription *d, Error *e);

/* --- attach.c ------------------------------------------------------------------------------------------ */

/* Passes descriptors with the call whose parameters O are; their indexes are added to O, and the descriptors
 * become -EBADF. */
int acn_add_streams(AcnPod *a, json_object *o, int fds[static 3]);
int acn_add_size(json_object *o, const struct winsize *size); /* unless the size is zero */

/* --- describe.c ---------------------------------------------------------------------------------------- */

/* Reads members of an object that a supervisor has sent; a missing member, or one of another type, has the
 * default value. */
const char *acn_text(json_object *o, const char *key); /* NULL */
int64_t acn_number(json_object *o, const char *key, int64_t otherwise);
AcnPodState acn_pod_state_read(json_object *o); /* _ACN_POD_STATE_MAX: unknown */
