/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The bus of a pod ("launch bus"): a proxy between a client of the system bus and the pod's systemd. */

#include "basic/basic.h"

/* --- bus-message.c: parsing and writing D-Bus messages ------------------------------------------------- */

#define BUS_HEADER_MAX 16384U       /* bytes of a message's header, with its padding */
#define BUS_MESSAGE_MAX (16U << 20) /* of a whole message; D-Bus itself has 128 MiB */
#define BUS_FDS_MAX 253U            /* of a message: what the kernel passes in one call */
#define BUS_NAME_MAX 255U           /* D-Bus' limit for names of all kinds */

enum { BUS_METHOD_CALL = 1, BUS_METHOD_RETURN = 2, BUS_METHOD_ERROR = 3, BUS_SIGNAL = 4 };
#define BUS_NO_REPLY_EXPECTED 1U

/* A parsed header. The strings point into the message; NULL: it has no such field. */
typedef struct BusHeader {
        uint8_t type, flags;
        bool big_endian;
        uint32_t serial, n_fds;
        size_t header_size, size; /* of the header with its padding; of the message */
        const char *path, *interface, *member, *destination, *signature;
} BusHeader;

/* Parses the N bytes at DATA, which may be only the beginning of a message. 1: the header is complete; 0:
 * more bytes are needed, no more than BUS_HEADER_MAX in all; -EBADMSG: not a message; -EMSGSIZE: it exceeds
 * a limit. */
int bus_header_parse(const uint8_t *data, size_t n, BusHeader *ret);
/* The string at the beginning of the body, if it is within the N bytes at DATA and not longer than MAX; else
 * NULL. */
const char *bus_first_string(const BusHeader *h, const uint8_t *data, size_t n, size_t max);

/* A sequence of values; if one does not fit, the writer is marked as failed. */
typedef struct BusWriter {
        uint8_t data[2048];
        size_t n;
        bool big_endian, failed;
} BusWriter;

void bus_write_u32(BusWriter *w, uint32_t u);
void bus_write_string(BusWriter *w, const char *s);
void bus_write_signature(BusWriter *w, const char *s);
void bus_write_align(BusWriter *w, size_t alignment);
/* To be called before and after the elements of an array, each of which begins at a multiple of
 * ALIGNMENT. */
size_t bus_write_array_begin(BusWriter *w, size_t alignment);
void bus_write_array_end(BusWriter *w, size_t begin, size_t alignment);
/* Writes the reply to the call H, from SENDER to DESTINATION: a return with BODY, or an error if NAME is
 * set. Its bytes are in RET->data. -EMSGSIZE: it is too long. */
int bus_write_answer(const BusHeader *h, uint32_t serial, const char *sender, const char *destination,
                     const char *error_name, const char *signature, const BusWriter *body, BusWriter *ret);

/* --- bus-driver.c: calls that the bus answers itself
 * -------------------------------------------------------------- */

typedef struct BusClient {
        uint32_t pid, own_pid; /* PID of the client (0: not a process of the pod); PID of the bus */
        uint32_t serial;       /* of the last message of the bus */
        bool hello_received;
} BusClient;

typedef enum BusVerdict {
        BUS_PASS,   /* forward it to the pod's systemd */
        BUS_ANSWER, /* send the reply in *RET */
        BUS_DROP,   /* discard it; no reply is expected */
} BusVerdict;

/* The number of bytes of a message that bus_driver_judge() needs, if the message has that many. */
#define BUS_LOOK_MAX (BUS_HEADER_MAX + 2048U)
/* Decides what to do with a message of the client, the first N bytes of which are at DATA. */
BusVerdict bus_driver_judge(BusClient *c, const BusHeader *h, const uint8_t *data, size_t n, BusWriter *ret);

/* --- bus-relay.c, bus.c -------------------------------------------------------------------------------- */

/* Forwards data in both directions until one side closes (0). -EBADMSG, -EMSGSIZE: a peer sent invalid data;
 * -ETIME: a peer did not complete a message, or did not read its data, within the time-out. */
int bus_relay(int client_fd, int manager_fd, const BusClient *client, uint64_t timeout_usec);
/* "launch bus"; returns the exit status of the process. */
int bus_main(void);
