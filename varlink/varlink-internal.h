/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files of varlink/ share. */

#include "varlink/varlink.h"

/* --- Descriptions of interfaces (idl.c) ---------------------------------------------------------------- */

typedef enum IdlKind {
        IDL_BOOL, /* the first six in the order of their words */
        IDL_INT,
        IDL_FLOAT,
        IDL_STRING,
        IDL_OBJECT,
        IDL_ANY,
        IDL_LIST,   /* child: its elements */
        IDL_MAP,    /* child: its values */
        IDL_STRUCT, /* child: the first field */
        IDL_ENUM,   /* child: the first word */
        IDL_WORD,
        IDL_NAMED,     /* child: what the name stands for, a struct or an enum */
        IDL_INTERFACE, /* child: the first declaration */
        IDL_TYPE,      /* child: a struct or an enum */
        IDL_METHOD,    /* child: the parameters, whose next is the reply's */
        IDL_ERROR,     /* child: the parameters */
        IDL_ANY_KIND,  /* of no node: for idl_find() */
} IdlKind;

typedef struct IdlNode {
        IdlKind kind;
        bool nullable;
        const char *name, *type; /* of a field, word or declaration; of what IDL_NAMED names; in the text */
        size_t name_size, type_size;
        size_t child, next; /* 0: none */
} IdlNode;

/* The interface is node 0. */
typedef struct Idl {
        IdlNode *nodes;
        size_t n, allocated;
} Idl;

/* TEXT has to stay as long as the result. -EBADMSG. */
int idl_parse(const char *text, Idl **ret, Error *e);
Idl *idl_free(Idl *idl);
DEFINE_TRIVIAL_CLEANUP_FUNC(Idl *, idl_free);
/* The child of PARENT that has this name and kind; 0: there is none. */
size_t idl_find(const Idl *idl, size_t parent, IdlKind kind, const char *name, size_t name_size);
/* Whether V is what NODE describes; otherwise WHERE says which part is not: "a.b[1]". */
#define IDL_WHERE_MAX 128U
bool idl_matches(const Idl *idl, size_t node, json_object *v, char where[static IDL_WHERE_MAX]);

/* --- Connections (link.c) ------------------------------------------------------------------------------ */

typedef struct LinkMessage LinkMessage;

struct LinkMessage {
        LinkMessage *next;
        char *text;
        size_t size, sent;
        VarlinkFds fds;
};

typedef struct Link {
        int fd;
        VarlinkLimits limits;
        char *in; /* what came and is not taken is from BEGIN to END; there is no NUL before SCANNED */
        size_t begin, scanned, end, allocated;
        struct {
                int fd;
                size_t at;
        } arrived[2 * VARLINK_FDS_MAX]; /* each belongs to the message that has the byte AT */
        size_t n_arrived;
        LinkMessage *out, **out_end;
        size_t out_size, out_length;
        bool ended; /* the peer sends no more */
        int broken; /* negative errno: the connection is of no use any more */

        sd_event_source *io, *timer, *work;
        bool timed;         /* the timer runs */
        bool held;          /* no message is wanted now */
        bool outlives_peer; /* ... and that the peer is gone is of no interest meanwhile */
        void (*on_message)(void *userdata, json_object *message, VarlinkFds *fds);
        void (*on_end)(void *userdata, int reason);
        void *userdata;
} Link;

/* Takes FD, also on failure. L must not move. */
int link_init(Link *l, int fd, const VarlinkLimits *limits);
void link_done(Link *l);
/* Serves L from the event loop: ON_MESSAGE for each message, borrowed but for descriptors that it takes;
 * ON_END once, at the end. Both may do link_done(). */
int link_attach(Link *l, sd_event *event, void (*on_message)(void *, json_object *, VarlinkFds *),
                void (*on_end)(void *, int), void *userdata);
void link_hold(Link *l, bool hold, bool outlives_peer);
/* Lets the connection end, from the event loop if there is one. */
void link_break(Link *l, int reason);
/* Queues a message, with FDS (or NULL), which are taken on success, and writes as much as goes. */
int link_send(Link *l, json_object *message, VarlinkFds *fds);
int link_flush(Link *l);
/* Reads once. 0: the peer sends no more. Only if no message is there already. */
int link_receive(Link *l);
/* 1: the first message; 0: none is complete. */
int link_take(Link *l, json_object **ret, VarlinkFds *ret_fds);

/* --- Messages ------------------------------------------------------------------------------------------ */

/* Puts the members of MESSAGE that are in the table into place; those that are missing are left alone.
 * -EBADMSG: one is of another type, or unknown. Strings and objects are borrowed; null is as if missing. */
typedef struct MessageField {
        const char *key;
        json_type type; /* boolean: bool; string: const char *; object: json_object * */
        void *target;
} MessageField;
int message_read(json_object *message, const MessageField *fields, size_t n);

/* {KEY: VALUE}. NULL: out of memory. */
json_object *message_one_string(const char *key, const char *value);

/* --- Services (server.c), calls (call.c) --------------------------------------------------------------- */

typedef struct Connection Connection;

struct Connection {
        VarlinkServer *server;
        Connection *next;
        Link link;
        struct ucred peer;
        VarlinkCall *call; /* that is not answered yet; borrowed */
};

struct VarlinkCall {
        unsigned n_ref;
        Connection *connection; /* NULL: it has ended, or the call is answered */
        bool answered, more, oneway;
        char *method;
        json_object *parameters; /* owned */
        const Idl *idl;          /* NULL: of no interface that is known */
        size_t reply;            /* what IDL says of replies */
        struct ucred peer;
        VarlinkFds fds, pushed;
        void (*on_gone)(VarlinkCall *c, void *userdata);
        void *userdata;
};

/* Takes METHOD, PARAMETERS and FDS on success. */
int call_new(Connection *k, const char *method, json_object *parameters, VarlinkFds *fds, VarlinkCall **ret);
/* The connection ends. */
void call_gone(VarlinkCall *c);
/* An error of org.varlink.service, with one parameter. */
int call_refuse(VarlinkCall *c, const char *error, const char *key, const char *value);
