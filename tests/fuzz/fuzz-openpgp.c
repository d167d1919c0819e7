/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Untrusted signatures, keys and encrypted images, before they are passed to gpg: ASCII armor, and the
 * packets of a stream. The results of the packet parser must not depend on how the stream is split. The
 * first byte selects the parser: A for armor, K for files of public keys; else it is the length of the
 * pieces of a stream. */

#include "prepare/trust/trust-internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Seen {
        uint64_t sum, last;
        size_t n;
} Seen;

static int see(int tag, const unsigned char *head, size_t n_head, uint64_t offset, void *userdata, Error *e)
{
        Seen *s = userdata;

        if (n_head > 3 || tag <= 0 || tag > 63 || (s->n > 0 && offset <= s->last))
                abort();
        for (size_t i = 0; i < n_head; i++)
                s->sum = s->sum * 31 + head[i];
        s->sum = s->sum * 31 + (uint64_t) tag;
        s->last = offset;
        s->n++;
        return 0;
}

static int read_packets(const uint8_t *data, size_t size, size_t piece, Seen *ret)
{
        PacketReader p;
        int r = 0;

        *ret = (Seen){};
        packet_reader_init(&p, see, ret);
        for (size_t i = 0; i < size && r >= 0; i += piece)
                r = packet_reader_feed(&p, data + i, MIN(piece, size - i), NULL);
        return r < 0 ? r : packet_reader_finish(&p, NULL);
}

static void fuzz_packets(const uint8_t *data, size_t size, size_t piece)
{
        Seen whole, pieces;

        int a = read_packets(data, size, size ?: 1, &whole), b = read_packets(data, size, piece, &pieces);
        if (a != b || whole.sum != pieces.sum || whole.n != pieces.n)
                abort();
}

static void fuzz_armor(const uint8_t *data, size_t size)
{
        _cleanup_free_ unsigned char *out = NULL;
        size_t n = 0, blocks = 0;
        Seen seen;

        if (armor_decode((const char *) data, size, "PGP SIGNATURE", &out, &n, &blocks, NULL) < 0)
                return;
        if (n > size || (blocks == 0 && n > 0))
                abort();
        (void) read_packets(out, n, n ?: 1, &seen);
}

static void fuzz_keys(const uint8_t *data, size_t size)
{
        _cleanup_free_ unsigned char *out = NULL;
        size_t n = 0;
        Seen seen;

        if (public_keys_decode(data, size, "it", &out, &n, NULL) < 0)
                return;
        if (n > size || read_packets(out, n, n ?: 1, &seen) < 0)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size == 0)
                return 0;
        /* Of the exact size, so that sanitizers detect reads beyond it. */
        _cleanup_free_ uint8_t *copy = malloc(size - 1 ?: 1);
        memcpy(copy, data + 1, size - 1);
        if (data[0] == 'A')
                fuzz_armor(copy, size - 1);
        else if (data[0] == 'K')
                fuzz_keys(copy, size - 1);
        else
                fuzz_packets(copy, size - 1, data[0] ?: 1);
        return 0;
}
