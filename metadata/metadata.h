/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* metadata/: the App Container metadata service of one pod (spec: ace.md, "App Container Metadata Service").
 *
 * The service is a program of its own, acnspawn-metadata: one process per pod, outside the pod, without
 * privileges. The pod's supervisor starts it through the client below and stays connected to it by
 * a control channel (a SOCK_SEQPACKET socket pair; the service's end is its descriptor 3). All data of the
 * service comes through that channel; it opens no files itself:
 *
 *     parent -> service   configuration (a sealed memfd), as often as the pod's set of apps changes
 *     parent -> service   the listening socket, opened in the pod's network namespace
 *     service -> parent   configuration N is in force, or was refused and why; serving has begun
 *     service -> parent   "did the pod UUID sign this content so?"; parent -> service yes or no
 *     service -> parent   "may I sign?", before the first signature; parent -> service yes or no
 *
 * The service ends when the channel closes, that is when the parent ends or frees the client, or on SIGTERM:
 * a caller that stops a pod by signals should not signal the service until the apps' post-stop handlers have
 * run. It only ever has the key of its own pod.
 *
 * Signatures: base64 (RFC 4648 standard alphabet, with padding, 88 characters) of HMAC-SHA512 (RFC 2104)
 * over the content alone, keyed with the pod's own 64 random bytes. As no two pods share a key, the key
 * identifies the UUID.
 *
 * Resources, below http://ADDRESS:PORT/TOKEN/acMetadata/v1:
 *
 *     pod/annotations  pod/manifest  apps/APP/annotations  apps/APP/image/manifest      application/json
 *     pod/uuid  apps/APP/image/id  pod/hmac/sign  pod/hmac/verify          text/plain; charset=us-ascii
 */

#include <sys/types.h>

#include "schema/schema.h"

#define METADATA_PROGRAM "acnspawn-metadata" /* in ACNSPAWN_LIBEXECDIR */
#define METADATA_KEY_SIZE 64U
#define METADATA_SIGNATURE_SIZE 89U /* with the NUL */
/* A token is 22 to 128 characters out of A-Z a-z 0-9 - _ : at least 128 bits, if all of them are random. */
#define METADATA_TOKEN_MIN 22U
#define METADATA_TOKEN_MAX 128U
#define METADATA_APPS_MAX 4096U
#define METADATA_CONFIG_MAX (64U * 1024U * 1024U) /* bytes of one configuration */
#define METADATA_BODY_MAX (1024U * 1024U)         /* bytes of a request's body, and so of signed content */

/* --- Signatures (hmac.c) ------------------------------------------------------------------------------- */

/* -EIO if the crypto library fails. */
int metadata_hmac_sign(const uint8_t key[static METADATA_KEY_SIZE], const void *content, size_t n,
                       char ret[static METADATA_SIGNATURE_SIZE]);
/* 1: SIGNATURE is exactly the result of metadata_hmac_sign(); 0: it is not. Runs in constant time. */
int metadata_hmac_verify(const uint8_t key[static METADATA_KEY_SIZE], const void *content, size_t n,
                         const char *signature, size_t signature_size);
/* A new key for a new pod; to be stored in a file that only root can read, for as long as signatures are to
 * be verified. */
int metadata_key_generate(uint8_t ret[static METADATA_KEY_SIZE]);
/* A new token with 192 random bits. */
int metadata_token_generate(char **ret);

/* --- Configuration of the service (config.c) ----------------------------------------------------------- */

typedef struct MetadataApp {
        const char *name;           /* AC_APP_NAME */
        const char *image_id;       /* sha512-… */
        const char *image_manifest; /* byte for byte as in the image */
        size_t image_manifest_size;
} MetadataApp;

/* Does not own its members; they are only used until the called function returns. */
typedef struct MetadataConfig {
        const char *uuid;
        const char *token;
        const uint8_t *key;       /* METADATA_KEY_SIZE bytes */
        const char *pod_manifest; /* reified; served unchanged, except for "annotations": [] if it has
                                   * none */
        size_t pod_manifest_size;
        const MetadataApp *apps; /* every app must be in the pod manifest */
        size_t n_apps;
        uint32_t request_timeout_msec; /* time within which a connection has to complete a request; 0: 15 s
                                        */
        uint32_t verify_timeout_msec;  /* time within which the parent has to answer a query; 0: 5 s */
} MetadataConfig;

/* --- The parent's side (client.c) ---------------------------------------------------------------------- */

typedef struct MetadataClient MetadataClient;

typedef struct MetadataStart {
        const char *program; /* NULL: the installed one */
        /* The user and group of the service, if the caller is root. Should be a uid and gid of the pod's own
         * range that is not used in the pod (base + 65535), so that the services of two pods cannot signal
         * each other. Without root: the caller's. */
        uid_t uid;
        gid_t gid;
} MetadataStart;

/* Starts the service and sends it its first configuration. Does not wait for it: call this early, and send
 * the listening socket once it exists. The service gets no environment, a session of its own, and stderr
 * until it has dropped its privileges; later errors are reported through the channel. Only the caller may
 * have the client's end of the channel: it is close-on-exec, and a forked child that does not exec must
 * close it. */
int metadata_client_start(const MetadataStart *start, const MetadataConfig *config, MetadataClient **ret,
                          Error *e);
/* Replaces the configuration atomically: requests see all of the old or all of the new one. If the service
 * refuses it, the old one stays in force and metadata_client_handle() returns the reason. */
int metadata_client_configure(MetadataClient *c, const MetadataConfig *config, Error *e);
/* Passes a listening TCP socket; the caller should close its own afterwards. Connections made before the
 * service is ready wait in the socket's backlog, so give listen() at least 128. */
int metadata_client_send_listener(MetadataClient *c, int listen_fd, Error *e);

/* For the caller's poll loop: POLLIN on this descriptor means that metadata_client_handle() is to be
 * called. */
int metadata_client_fd(const MetadataClient *c);
pid_t metadata_client_pid(const MetadataClient *c);
/* Whether the service answers requests. */
bool metadata_client_serving(const MetadataClient *c);
/* Whether the last configuration sent is in force. */
bool metadata_client_configured(const MetadataClient *c);

/* Finds the key of the pod UUID (lower case, checked): 0 and the key, or a negative errno if there is no
 * such pod. */
typedef int (*MetadataKeyLookup)(const char *uuid, uint8_t key[METADATA_KEY_SIZE], void *userdata);

/* Whether the service may return signatures made with its key, that is, whether the key is stored durably: 1
 * if so, a negative errno if not; 0: not known yet, metadata_client_answer() with SERIAL will follow. */
typedef int (*MetadataMaySign)(uint64_t serial, void *userdata);

/* Without one, or with NULL, the service may sign at once. */
void metadata_client_set_may_sign(MetadataClient *c, MetadataMaySign function, void *userdata);
/* The deferred answer to a query. If it is too late, the service has treated the query as answered with
 * no. */
void metadata_client_answer(MetadataClient *c, uint64_t serial, bool yes);

/* Processes one message of the service, without blocking. 1: there was one; 0: there was none. -ECONNRESET:
 * the service has ended (reap it with metadata_client_free()); -EREMOTEIO: the service reports a failure,
 * which is in the error object; the service continues. -EBADMSG: it violates the protocol, free the
 * client. */
int metadata_client_handle(MetadataClient *c, MetadataKeyLookup lookup, void *userdata, Error *e);

/* Ends the service and waits for it (not long: it is killed if it does not end by itself). Accepts NULL. */
MetadataClient *metadata_client_free(MetadataClient *c);
DEFINE_TRIVIAL_CLEANUP_FUNC(MetadataClient *, metadata_client_free);
