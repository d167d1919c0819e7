/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files of stage0/api/ share. */

#include "stage0/api/acn.h"
#include "varlink/varlink.h"

struct AcnPod {
        Pod *pod; /* borrowed */
        VarlinkClient *client;
        uint64_t answer_usec;        /* that the supervisor has to answer */
        uint64_t since;              /* of the monitor */
        char *exec_app;              /* of the last command */
        bool monitors, monitor_over; /* the pod's end was reported */
};

#define ACN_ANSWER_USEC (30 * UINT64_C(1000000))

/* --- connection.c -------------------------------------------------------------------------------------- */

typedef struct AcnCall {
        const char *method; /* without the interface */
        const char *what;   /* what cannot be done, for messages: "stop app %s of pod %s", or "… pod %s" */
        const char *app;    /* NULL: it is about the pod */
        const char *key;    /* with VALUE one more parameter; NULL: none */
        int64_t value;
        json_object *parameters; /* further ones, borrowed; NULL: none */
        uint64_t timeout_usec; /* to be answered in; 0: as usual; UINT64_MAX: without limit, after a check */
} AcnCall;

/* Calls the method, and turns errors into ours. While the pod's systemd cannot be reached the call is repeated for a while.
 * varlink_reply_done() frees *RET, which may be NULL. */
int acn_call(AcnPod *a, const AcnCall *c, VarlinkReply *ret, Error *e);
/* The error of a connection that has failed with the code R. */
int acn_connection_error(AcnPod *a, int r, Error *e);

/* --- refusals.c ---------------------------------------------------------------------------------------- */

/* The error of a reply that is one. -EAGAIN, -EREMCHG (ForeignProcess) without a message: the call may be repeated. */
int acn_refusal(AcnPod *a, const AcnCall *c, const VarlinkReply *reply, Error *e);
/* The message of -ENOENT, with the pod's apps. */
int acn_no_such_app(const Pod *p, const char *app, const AcnDescription *d, Error *e);

/* --- describe.c ---------------------------------------------------------------------------------------- */

/* Reads members of an object that a supervisor has sent; a member that is missing, or of another type, gives the default. */
const char *acn_text(json_object *o, const char *key); /* NULL */
int64_t acn_number(json_object *o, const char *key, int64_t otherwise);
int acn_app_read(json_object *o, AcnApp *ret);  /* -EBADMSG, -ENOMEM */
AcnPodState acn_pod_state_read(json_object *o); /* _ACN_POD_STATE_MAX: none that is known */
