/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by the files of varlink/. */

#include "schema/idl.h"
#include "varlink/varlink.h"

/* --- Connections (link.c) ------------------------------------------------------------------------------ */

typedef struct LinkMessage {
        struct LinkMessage *next;
        size_t size, sent;
        FdList fds;
        char text[];
} LinkMessage;

typedef struct Link {
        int fd;
        char *in; /* an incomplete message */
        size_t in_size, in_allocated;
        FdList in_fds;
        LinkMessage *out, **out_end;
        size_t out_size;
} Link;

/* Takes FD. L must not move. */
void link_init(Link *l, int fd);
void link_done(Link *l);
/* Reads once. 1: a message is complete; -EAGAIN: not yet; 0: the peer has closed its side. */
int link_receive(Link *l, json_object **ret, FdList *ret_fds);
/* Queues a message, with FDS, which are taken over on success, and writes as much as possible. */
int link_send(Link *l, json_object *message, FdList *fds);
/* Returns how many messages were completed. */
int link_flush(Link *l);
/* Drops unsent messages, and disconnects. */
void link_break(Link *l);

/* Adds PARAMETERS, borrowed; an empty object if it is NULL. */
int message_add_parameters(json_object *message, json_object *parameters);

#define VARLINK_SERVICE "org.varlink.service."

/* --- Services (server.c), calls (call.c) --------------------------------------------------------------- */

typedef struct Connection {
        VarlinkServer *server;
        struct Connection *next;
        Link link;
        uid_t uid;
        pid_t pid;
        VarlinkCall *call; /* not answered yet; borrowed */
        uint64_t used;     /* sequence number of the last use, among all connections */
        sd_event_source *io, *timer;
} Connection;

typedef struct Interface {
        const VarlinkInterface *table;
        void *userdata;
} Interface;

struct VarlinkServer {
        sd_event *event;
        const char *product, *version;
        uint64_t message_usec; /* to complete a message that was begun, in either direction */
        Interface interfaces[8];
        size_t n_interfaces;
        sd_event_source *listener;
        Connection *connections;
        size_t n_connections;
        uint64_t n_accepted; /* number of connections so far */
        uint64_t n_used;
};

const Interface *find_interface(const VarlinkServer *s, const char *name);

/* Marks K as the most recently used connection. */
void connection_touch(Connection *k);
/* Updates the watched events of the socket: to be called after each change. */
void connection_settle(Connection *k);
/* Handles MESSAGE: calls the method, or refuses the call. -EBADMSG: it is not a call. */
int call_dispatch(Connection *k, json_object *message, FdList *fds);
/* The connection was closed. */
void call_gone(VarlinkCall *c);
/* Replies with an error that has one parameter. */
int call_refuse(VarlinkCall *c, const char *error, const char *key, const char *value);
