/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files of cri/streaming/ share. */

#include "cri/streaming/streaming.h"

/* --- http-head.c --------------------------------------------------------------------------------------- */

#define HTTP_HEAD_SIZE_MAX 16384U
#define HTTP_FIELDS_MAX 64U

typedef struct HttpField {
        const char *name, *value;
} HttpField;

typedef struct HttpHead {
        const char *method, *path; /* without a query */
        HttpField fields[HTTP_FIELDS_MAX];
        size_t n_fields;
} HttpHead;

/* Pure, but for DATA, which is changed and lent to RET. Returns the size of the head; 0: it is not complete; -EBADMSG: it is
 * not valid; -EMSGSIZE: it is too large. */
ssize_t http_head_parse(char *data, size_t n, HttpHead *ret);
/* Whether ITEM is in the lists of all fields NAME; letter case does not count. */
bool http_head_lists(const HttpHead *h, const char *name, const char *item);
/* The one field NAME; NULL: there is none, or several. */
const char *http_head_value(const HttpHead *h, const char *name);

/* --- Protocols: websocket.c, spdy.c -------------------------------------------------------------------- */

#define FRAME_SIZE_MAX (1024U * 1024U) /* of a client's frames */

/* What a client has sent. */
typedef struct ProtocolEvents {
        int (*opened)(void *userdata, StreamChannel c);
        int (*data)(void *userdata, StreamChannel c, const uint8_t *data, size_t n);
        int (*ended)(void *userdata, StreamChannel c);
        int (*closed)(void *userdata); /* all of it */
        void *userdata;
} ProtocolEvents;

typedef struct Protocol Protocol;

/* The functions of a protocol. All of them add what is to be sent to OUT. */
typedef struct ProtocolOps {
        bool implicit; /* all streams are open from the beginning */
        /* Takes what is complete of N bytes. Returns how many bytes it has taken; -EPROTO: they are not valid. */
        ssize_t (*take)(Protocol *p, const uint8_t *data, size_t n, const ProtocolEvents *events, Text *out);
        int (*send)(Protocol *p, StreamChannel c, const uint8_t *data, size_t n, Text *out);
        /* Nothing more is sent on a channel. */
        int (*end)(Protocol *p, StreamChannel c, Text *out);
        int (*close)(Protocol *p, Text *out);
        void (*done)(Protocol *p);
} ProtocolOps;

struct Protocol {
        const ProtocolOps *ops;
        unsigned version; /* of channel.k8s.io */
};

/* Chooses the version for the request H, and adds the head of the response. -EPROTONOSUPPORT: it supports none of ours; -EBADMSG: the request is not valid. */
int websocket_accept(const HttpHead *h, Protocol **ret, Text *out);
bool websocket_is_asked_for(const HttpHead *h);
int spdy_accept(const HttpHead *h, Protocol **ret, Text *out);
bool spdy_is_asked_for(const HttpHead *h);
/* The dictionary of header blocks; returns its size. */
#define SPDY_DICTIONARY_SIZE 1423U
size_t spdy_dictionary(uint8_t ret[static SPDY_DICTIONARY_SIZE]);
Protocol *protocol_free(Protocol *p);
DEFINE_TRIVIAL_CLEANUP_FUNC(Protocol *, protocol_free);

/* --- session.c ----------------------------------------------------------------------------------------- */

/* FD is the connection, taken over; REST is what was read after the head. */
int session_new(int fd, Protocol *p, const uint8_t *rest, size_t n_rest, Session **ret);
Session *session_free(Session *s);
DEFINE_TRIVIAL_CLEANUP_FUNC(Session *, session_free);
/* Sends what is in OUT, and waits until the client has opened all of these streams. -ETIMEDOUT: it has not in time. */
int session_begin(Session *s, Text *out, unsigned streams);
