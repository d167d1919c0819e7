/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Internal to prepare/registry/: one place of a registry, and authentication there. */

#include <pthread.h>

#include "prepare/oci/oci.h"
#include "prepare/registry/registry-internal.h"
#include "prepare/transfer/transfer.h"

/* A place may be used by several threads. */
typedef struct Endpoint {
        RegistryPlace place; /* owned */
        Transfer *transfer;
        const RegistryOptions *options;
        unsigned insecure; /* InsecureOptions allowed here, by the user or by configuration */

        pthread_mutex_t lock; /* of what follows */
        bool http;            /* https does not work, http is used */
        bool insecure_noted;  /* the user has been notified that it is insecure */
        bool unreachable;     /* it does not answer */
        bool certificates_known;
        RegistryCertificates certificates; /* do not change once they are known */
        bool credentials_known;
        char *basic, *bearer;  /* credentials as headers, or NULL */
        char *identity_token;  /* a third kind, or NULL */
        char *origin;          /* the file that these are from, or NULL */
        char *authorization;   /* what is sent now, or NULL */
        uint64_t expires_usec; /* of CLOCK_BOOTTIME: until when; UINT64_MAX: for good */
} Endpoint;

/* Takes the content of PLACE. */
void endpoint_init(Endpoint *p, RegistryPlace *place, Transfer *t, const RegistryOptions *o);
void endpoint_done(Endpoint *p);

/* What is asked for. */
typedef struct EndpointRequest {
        const char *path;     /* below /v2/REPOSITORY/ */
        const char *what;     /* for messages: "the manifest of example.com/app:1.0" */
        char *const *headers; /* or NULL */
        const char *etag;     /* or NULL */
        uint64_t size_max;
        bool has_alternatives; /* there are other places */
        void (*progress)(uint64_t done, uint64_t total, void *userdata);
        void *userdata;
} EndpointRequest;

/* As transfer_get() and transfer_download(), including authentication. */
int endpoint_get(Endpoint *p, const EndpointRequest *q, char **ret_body, size_t *ret_size,
                 TransferReply *ret, Error *e);
int endpoint_download(Endpoint *p, const EndpointRequest *q, Store *s, int *ret_fd, TransferReply *ret,
                      Error *e);

/* --- endpoint-auth.c ----------------------------------------------------------------------------------- */

/* What to send now: a copy, "" for nothing. To be freed by authorization_free(). NULL: out of memory. */
char *endpoint_authorization(Endpoint *p);
/* After a reply of 401 with CHALLENGE to a request that was sent with USED: obtains the required
 * credentials. -EACCES: not possible. */
int endpoint_authenticate(Endpoint *p, const char *challenge, const char *used, Error *e);
/* The scheme to use now. */
const char *endpoint_scheme(Endpoint *p);
/* The certificates that are for this place; what *RET points to is the endpoint's. */
int endpoint_tls(Endpoint *p, TransferTls *ret, Error *e);
/* What of it the transfer does not know of. */
static inline unsigned endpoint_insecure_options(const Endpoint *p)
{
        return p->place.insecure_by ? INSECURE_HTTP | INSECURE_TLS : 0;
}
