/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The messages of the control channel, and the format of a configuration. Internal to metadata/.
 *
 * A message is one packet that starts with MetadataMessage; some carry one descriptor. Both ends are built
 * from the same source and run on the same machine, so numbers are in the machine's own order. The parent
 * does not trust any message: the service communicates with the pod's apps and may have been compromised by
 * one of them.
 */

#include "metadata/metadata.h"

#define METADATA_CHANNEL_FD 3
#define METADATA_MESSAGE_TEXT_MAX 1024U

typedef enum MetadataMessageType {
        /* parent to service */
        METADATA_MESSAGE_CONFIG = 1, /* serial; descriptor: memfd */
        METADATA_MESSAGE_LISTENER,   /* descriptor: socket */
        METADATA_MESSAGE_VERDICT,    /* serial of the query; code: 1 yes, 0 no */
        /* service to parent */
        METADATA_MESSAGE_CONFIGURED, /* serial; code: 0, or negative errno if refused, with the reason in
                                      * text
                                      */
        METADATA_MESSAGE_SERVING,    /* code: 0, or negative errno with the reason in text */
        METADATA_MESSAGE_VERIFY,     /* serial; uuid; signature; descriptor: memfd with the content */
        METADATA_MESSAGE_SIGN,       /* serial; a signature was requested: may it be returned? */
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

/* Sends M, with FD unless it is negative, without blocking (-EAGAIN: the other side does not read). */
int metadata_message_send(int channel, const MetadataMessage *m, int fd);
/* 1 and a message, with its descriptor or -EBADF; 0: the other side has closed; -EAGAIN: none available;
 * -EBADMSG: not a valid message. Strings are always terminated. */
int metadata_message_receive(int channel, MetadataMessage *ret, int *ret_fd);
/* Creates a sealed memfd with N bytes, which cannot be changed any more. */
int metadata_memfd_new(const char *name, const void *p, size_t n, int *ret);

/* Writes CONFIG into a sealed memfd. -E2BIG: beyond METADATA_CONFIG_MAX or METADATA_APPS_MAX. */
int metadata_config_encode(const MetadataConfig *config, int *ret_fd, Error *e);

/* A decoded configuration; CONFIG points into DATA and APPS. */
typedef struct MetadataConfigOwned {
        MetadataConfig config;
        char *data;
        size_t size;
        MetadataApp *apps;
} MetadataConfigOwned;

/* Reads a configuration. -EBADMSG: it is not valid. */
int metadata_config_decode(int fd, MetadataConfigOwned *ret, Error *e);
void metadata_config_owned_done(MetadataConfigOwned *c); /* wipes the key */
