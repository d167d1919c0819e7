/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The messages of the control channel, and the format of a configuration. Internal to metadata/.
 *
 * A message is one packet that starts with MetadataMessage; some carry one descriptor. Both ends are built
 * from the same source and run on the same machine, so numbers are in the machine's own order. The parent
 * trusts nothing that it receives: the service talks to the pod's apps and may have been taken over by one
 * of them.
 */

#include "metadata/metadata.h"

#define METADATA_CHANNEL_FD 3
#define METADATA_MESSAGE_TEXT_MAX 1024U

typedef enum MetadataMessageType {
        /* parent to service */
        METADATA_MESSAGE_CONFIG = 1, /* serial; descriptor: memfd */
        METADATA_MESSAGE_LISTENER,   /* descriptor: socket */
        METADATA_MESSAGE_VERDICT,    /* serial of the question; code: 1 yes, 0 no */
        /* service to parent */
        METADATA_MESSAGE_CONFIGURED, /* serial; code: 0, or negative errno and text says why it was refused
                                      */
        METADATA_MESSAGE_SERVING,    /* code: 0, or negative errno and text says why not */
        METADATA_MESSAGE_VERIFY,     /* serial; uuid; signature; descriptor: memfd with the content */
        METADATA_MESSAGE_SIGN,       /* serial; a signature is asked for: may it be given out? */
        _METADATA_MESSAGE_TYPE_MAX,
} MetadataMessageType;

typedef struct MetadataMessage {
        uint32_t type;
        int32_t code;
        uint64_t serial;
        char uuid[40];
        char signature[METADATA_SIGNATURE_SIZE + 7]; /* NUL-terminated */
        char text[METADATA_MESSAGE_TEXT_MAX];        /* NUL-terminated */
} MetadataMessage;

/* Sends M, with FD if it is one, without blocking (-EAGAIN: the other side does not read). */
int metadata_message_send(int channel, const MetadataMessage *m, int fd);
/* 1 and a message, with its descriptor or -EBADF; 0: the other side has closed; -EAGAIN: nothing there;
 * -EBADMSG: no message of ours. Strings are terminated whatever the other side sent. */
int metadata_message_receive(int channel, MetadataMessage *ret, int *ret_fd);
/* A memfd that holds N bytes and that nobody can change any more. */
int metadata_memfd_new(const char *name, const void *p, size_t n, int *ret);

/* Writes CONFIG into a sealed memfd. -E2BIG: beyond METADATA_CONFIG_MAX or METADATA_APPS_MAX. */
int metadata_config_encode(const MetadataConfig *config, int *ret_fd, Error *e);

/* A configuration read back; CONFIG points into DATA and APPS. */
typedef struct MetadataConfigOwned {
        MetadataConfig config;
        char *data;
        size_t size;
        MetadataApp *apps;
} MetadataConfigOwned;

/* Reads a configuration. -EBADMSG: it is none. */
int metadata_config_decode(int fd, MetadataConfigOwned *ret, Error *e);
void metadata_config_owned_done(MetadataConfigOwned *c); /* wipes the key */
