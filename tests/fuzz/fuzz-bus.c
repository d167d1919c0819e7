/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Data that a client sends to the bus of a pod. The first byte selects the target: 'm', the filter of
 * messages, one message after the other; else the input is all that the client sends, including the
 * handshake, and passes through the relay. Replies must be valid messages. */

#include <sys/socket.h>

#include "stage1/launch/bus.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_answer(const BusWriter *w)
{
        BusHeader h;

        if (bus_header_parse(w->data, w->n, &h) != 1 || h.size != w->n ||
            (h.type != BUS_METHOD_RETURN && h.type != BUS_METHOD_ERROR))
                abort();
}

static void fuzz_messages(const uint8_t *data, size_t size)
{
        BusClient client = {.pid = 2, .own_pid = 3};

        while (size > 0) {
                BusHeader h;
                BusWriter answer = {};
                if (bus_header_parse(data, size, &h) != 1)
                        return;
                if (h.header_size > BUS_HEADER_MAX || h.size > BUS_MESSAGE_MAX || h.n_fds > BUS_FDS_MAX)
                        abort();
                if (bus_driver_judge(&client, &h, data, size, &answer) == BUS_ANSWER)
                        check_answer(&answer);
                if (h.size >= size)
                        return;
                data += h.size;
                size -= h.size;
        }
}

static void fuzz_relay(const uint8_t *data, size_t size)
{
        static const char answers[] = "DATA\r\nOK 0123456789abcdef0123456789abcdef\r\nAGREE_UNIX_FD\r\n";
        static const BusClient c = {.pid = 5, .own_pid = 6};
        int client[2], manager[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, client) < 0)
                return;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, manager) >= 0) {
                if (send(client[0], data, size, MSG_NOSIGNAL) >= 0 &&
                    send(manager[0], answers, strlen(answers), MSG_NOSIGNAL) >= 0) {
                        (void) shutdown(client[0], SHUT_WR);
                        (void) bus_relay(client[1], manager[1], &c, 1000);
                }
                safe_close(manager[0]);
                safe_close(manager[1]);
        }
        safe_close(client[0]);
        safe_close(client[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size > 0 && data[0] == 'm')
                fuzz_messages(data + 1, size - 1);
        else if (size > 0 && size <= 65536)
                fuzz_relay(data, size);
        return 0;
}
