/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Internal to prepare/registry/: one endpoint of a registry, and its authentication. */

#include <pthread.h>

#include "prepare/oci/oci.h"
#include "prepare/registry/registry-internal.h"
#include "prepare/transfer/transfer.h"

/* An endpoint may be used by several threads. */
typedef struct Endpoint {
        RegistryPlace place; /* owned */
        Transfer *transfer;
        const RegistryOptions *options;
        unsigned insecure; /* InsecureOptions allowed here, by the user or by configuration */

        pthread_mutex_t lock; /* protects the members below */
        bool http;            /* https failed, http is used */
        bool https;           /* something speaks https there: http is not used any more */
        bool insecure_noted;  /* the user has been notified that it is insecure */
        bool unreachable;     /* it does not answer */
        bool certificates_known;
        RegistryCertificates certificates; /* constant once loaded */
        bool credentials_known;
        char *basic, *bearer;  /* credentials as headers, or NULL */
        char *identity_token;  /* an OAuth2 refresh token, or NULL */
        char *origin;          /* the file with these credentials, or NULL */
        char *authorization;   /* the header to send, or NULL */
        uint64_t expires_usec; /* expiry in CLOCK_BOOTTIME; UINT64_MAX: never */
} Endpoint;

/* Takes the content of PLACE. */
void endpoint_init(Endpoint *p, RegistryPlace *place, Transfer *t, const RegistryOptions *o);
void endpoint_done(Endpoint *p);

/* A request. */
typedef struct EndpointRequest {
        const char *path;     /* below /v2/REPOSITORY/ */
        const char *what;     /* for messages: "the manifest of example.com/app:1.0" */
        char *const *headers; /* or NULL */
        const char *etag;     /* or NULL */
        uint64_t size_max;
        bool has_alternatives; /* there are other endpoints */
        void (*progress)(uint64_t done, uint64_t total, void *userdata);
        void *userdata;
} EndpointRequest;

/* As transfer_get() and transfer_download(), including authentication. */
int endpoint_get(Endpoint *p, const EndpointRequest *q, char **ret_body, size_t *ret_size,
                 TransferReply *ret, Error *e);
int endpoint_download(Endpoint *p, const EndpointRequest *q, Store *s, int *ret_fd, TransferReply *ret,
                      Error *e);

/* --- endpoint-auth.c ----------------------------------------------------------------------------------- */

/* A copy of the header to send, "" for none. To be freed by authorization_free(). NULL: out of memory. */
char *endpoint_authorization(Endpoint *p);
/* After a reply of 401 with CHALLENGE to a request that was sent with USED: obtains the required
 * credentials. -EACCES: not possible. */
int endpoint_authenticate(Endpoint *p, const char *challenge, const char *used, Error *e);
/* The scheme to use now. */
const char *endpoint_scheme(Endpoint *p);
/* The certificates for this endpoint; the strings of *RET are owned by the endpoint. */
int endpoint_tls(Endpoint *p, TransferTls *ret, Error *e);
/* Insecure options beyond those of the transfer. */
static inline unsigned endpoint_insecure_options(const Endpoint *p)
{
        return p->place.insecure_by ? INSECURE_HTTP | INSECURE_TLS : 0;
}
