/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The bus of a pod ("launch bus"): what stands between a client of the system bus and the pod's systemd. */

#include "basic/basic.h"

/* --- bus-message.c: messages of D-Bus, as far as they have to be understood ---------------------------- */

#define BUS_HEADER_MAX 16384U       /* bytes of a message's header, with its padding */
#define BUS_MESSAGE_MAX (16U << 20) /* of a whole message; D-Bus itself has 128 MiB */
#define BUS_FDS_MAX 253U            /* of a message: what the kernel passes at once */
#define BUS_NAME_MAX 255U           /* D-Bus' own bound for names of all kinds */

enum { BUS_METHOD_CALL = 1, BUS_METHOD_RETURN = 2, BUS_METHOD_ERROR = 3, BUS_SIGNAL = 4 };
#define BUS_NO_REPLY_EXPECTED 1U

/* What the header says. The strings lie in the message; NULL: it has no such field. */
typedef struct BusHeader {
        uint8_t type, flags;
        bool big_endian;
        uint32_t serial, n_fds;
        size_t header_size, size; /* of the header with its padding; of the message */
        const char *path, *interface, *member, *destination, *signature;
} BusHeader;

/* Of what begins at DATA, N bytes are there. 1: the header is complete; 0: more bytes are needed, no
 * more than BUS_HEADER_MAX in all; -EBADMSG: that is no message; -EMSGSIZE: one beyond the bounds. */
int bus_header_parse(const uint8_t *data, size_t n, BusHeader *ret);
/* The string that the body begins with, if it is within the N bytes at DATA and not longer than MAX;
 * else NULL. */
const char *bus_first_string(const BusHeader *h, const uint8_t *data, size_t n, size_t max);

/* Values in a row; what does not fit any more is remembered as a failure. */
typedef struct BusWriter {
        uint8_t data[2048];
        size_t n;
        bool big_endian, failed;
} BusWriter;

void bus_write_u32(BusWriter *w, uint32_t u);
void bus_write_string(BusWriter *w, const char *s);
void bus_write_signature(BusWriter *w, const char *s);
void bus_write_align(BusWriter *w, size_t alignment);
/* Around the elements of an array, each of which begins at a multiple of ALIGNMENT. */
size_t bus_write_array_begin(BusWriter *w, size_t alignment);
void bus_write_array_end(BusWriter *w, size_t begin, size_t alignment);
/* The answer to the call H, from SENDER to DESTINATION: a return with BODY, or (NAME) an error. Its
 * bytes are RET->data. -EMSGSIZE: it is too long. */
int bus_write_answer(const BusHeader *h, uint32_t serial, const char *sender, const char *destination,
                     const char *error_name, const char *signature, const BusWriter *body, BusWriter *ret);

/* --- bus-driver.c: what a bus does itself -------------------------------------------------------------- */

typedef struct BusClient {
        uint32_t pid, own_pid; /* of the client (0: it has none in the pod); of the bus */
        uint32_t serial;       /* of our last message */
        bool greeted;
} BusClient;

typedef enum BusVerdict {
        BUS_PASS,   /* it is for the pod's systemd */
        BUS_ANSWER, /* an answer is in *RET */
        BUS_DROP,   /* nobody is to get it, and nobody waits for an answer */
} BusVerdict;

/* How many bytes of a message bus_driver_judge() wants to see, if there are as many. */
#define BUS_LOOK_MAX (BUS_HEADER_MAX + 2048U)
/* Judges a message of the client, the first N bytes of which are at DATA. */
BusVerdict bus_driver_judge(BusClient *c, const BusHeader *h, const uint8_t *data, size_t n, BusWriter *ret);

/* --- bus-relay.c, bus.c -------------------------------------------------------------------------------- */

/* Passes on what comes, both ways, until one side closes (0). -EBADMSG, -EMSGSIZE: somebody sent what
 * must not be; -ETIME: what somebody began, or what he was to take, took longer than the time-out. */
int bus_relay(int client_fd, int manager_fd, const BusClient *client, uint64_t timeout_usec);
/* "launch bus"; returns our exit status. */
int bus_main(void);
