/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Framing of OpenPGP: ASCII armor, and the packets of a stream.
 *
 * gpg is permissive: it accepts signatures in messages with other data, secret keys among public ones,
 * encrypted messages without integrity protection or followed by another message. Untrusted input is
 * therefore checked first by its framing (tags and lengths; RFC 4880, 4.2 and 6), and only input of exactly
 * the expected form is passed to gpg. The reader of packets holds no more than a few bytes, so that it can
 * follow a stream of any length.
 */

#include "library/libcrypto.h"
#include "prepare/trust/trust-internal.h"

/* --- Packets ------------------------------------------------------------------------------------------- */

void packet_reader_init(PacketReader *p, PacketFunction function, void *userdata)
{
        *p = (PacketReader){.function = function, .userdata = userdata, .tag = -1};
}

static uint64_t big_endian(const unsigned char *p, size_t n)
{
        uint64_t x = 0;

        for (size_t i = 0; i < n; i++)
                x = x << 8 | p[i];
        return x;
}

/* The length in the new format: one, two or five bytes, or one for a part. H begins with it. */
static size_t new_length_size(unsigned char first)
{
        return first < 192 || (first >= 224 && first < 255) ? 1 : first < 224 ? 2 : 5;
}

static void take_new_length(PacketReader *p, const unsigned char *h)
{
        p->partial = h[0] >= 224 && h[0] < 255;
        if (h[0] < 192)
                p->left = h[0];
        else if (h[0] < 224)
                p->left = ((uint64_t) (h[0] - 192) << 8) + h[1] + 192;
        else if (p->partial)
                p->left = 1ULL << (h[0] & 0x1f);
        else
                p->left = big_endian(h + 1, 4);
}

/* Bytes of the header that begins as in P; 0: not known yet. */
static size_t header_size(const PacketReader *p)
{
        static const size_t old[] = {2, 3, 5, 1};

        if (p->tag >= 0) /* the length of a further part */
                return new_length_size(p->header[0]);
        if (!(p->header[0] & 0x40))
                return old[p->header[0] & 3];
        return p->n_header < 2 ? 0 : 1 + new_length_size(p->header[1]);
}

static int take_header(PacketReader *p, Error *e)
{
        const unsigned char *h = p->header;

        if (p->tag >= 0) {
                take_new_length(p, h);
        } else {
                p->n_head = 0;
                p->called = p->endless = p->partial = false;
                p->packet_offset = p->offset - p->n_header;
                if (h[0] & 0x40) {
                        p->tag = h[0] & 0x3f;
                        take_new_length(p, h + 1);
                } else {
                        p->tag = h[0] >> 2 & 15;
                        p->endless = (h[0] & 3) == 3;
                        p->left = p->endless ? UINT64_MAX : big_endian(h + 1, p->n_header - 1);
                }
        }
        p->n_header = 0;
        return p->tag == 0 ? error_set(e, -EBADMSG, "not OpenPGP data") : 0;
}

static int call(PacketReader *p, Error *e)
{
        if (p->called)
                return 0;
        p->called = true;
        return p->function(p->tag, p->head, p->n_head, p->packet_offset, p->userdata, e);
}

/* One byte of a header. */
static int feed_header(PacketReader *p, unsigned char c, Error *e)
{
        if (p->tag < 0 && p->n_header == 0 && !(c & 0x80))
                return error_set(e, -EBADMSG, "not OpenPGP data");
        p->header[p->n_header++] = c;
        p->offset++;
        size_t n = header_size(p);
        return n > 0 && p->n_header == n ? take_header(p, e) : 0;
}

/* Whether the next byte belongs to a header. */
static bool in_header(const PacketReader *p)
{
        return p->tag < 0 || (p->left == 0 && p->partial);
}

static int feed_body(PacketReader *p, const unsigned char **data, size_t *size, Error *e)
{
        size_t n = (size_t) MIN((uint64_t) *size, p->left);
        size_t head = MIN(n, sizeof(p->head) - p->n_head);

        memcpy(p->head + p->n_head, *data, head);
        p->n_head += head;
        *data += n;
        *size -= n;
        p->offset += n;
        if (!p->endless)
                p->left -= n;
        return p->n_head == sizeof(p->head) ? call(p, e) : 0;
}

int packet_reader_feed(PacketReader *p, const void *data, size_t size, Error *e)
{
        const unsigned char *b = data;
        int r = 0;

        while (size > 0 && r >= 0) {
                if (in_header(p)) {
                        r = feed_header(p, *b++, e);
                        size--;
                } else
                        r = feed_body(p, &b, &size, e);
                /* A packet may be empty, and then ends with its header. */
                if (r >= 0 && p->tag >= 0 && p->n_header == 0 && p->left == 0 && !p->partial) {
                        r = call(p, e);
                        p->tag = -1;
                }
        }
        return r < 0 ? r : 0;
}

int packet_reader_finish(PacketReader *p, Error *e)
{
        if (p->tag < 0 && p->n_header == 0)
                return 0;
        if (p->endless)
                return call(p, e);
        return error_set(e, -EBADMSG, "it ends in the middle");
}

/* --- Armor --------------------------------------------------------------------------------------------- */

#define ARMOR_BEGIN "-----BEGIN "
#define ARMOR_DASHES "-----"

typedef struct Lines {
        const char *p, *end;
} Lines;

/* The next line without what ends it, and without white space at its end. */
static bool next_line(Lines *l, const char **ret, size_t *ret_size)
{
        if (l->p >= l->end)
                return false;
        const char *nl = memchr(l->p, '\n', (size_t) (l->end - l->p));
        size_t n = (size_t) ((nl ?: l->end) - l->p);

        *ret = l->p;
        l->p += n + (nl != NULL);
        while (n > 0 && strchr(" \t\r", (*ret)[n - 1]))
                n--;
        *ret_size = n;
        return true;
}

static bool line_is(const char *line, size_t size, const char *begin, const char *kind)
{
        size_t n = strlen(begin), k = strlen(kind), d = strlen(ARMOR_DASHES);

        return size == n + k + d && memcmp(line, begin, n) == 0 && memcmp(line + n, kind, k) == 0 &&
               memcmp(line + n + k, ARMOR_DASHES, d) == 0;
}

static bool line_begins(const char *line, size_t size, const char *with)
{
        return size >= strlen(with) && memcmp(line, with, strlen(with)) == 0;
}

bool armor_is(const void *data, size_t size)
{
        const char *p = data;

        while (size > 0 && strchr(" \t\r\n", *p) && *p)
                p++, size--;
        return line_begins(p, size, ARMOR_BEGIN "PGP ");
}

static int damaged(Error *e, const char *why)
{
        return error_set(e, -EBADMSG, "its ASCII armor is damaged: %s", why);
}

/* Passes over the headers ("Version: …") up to the empty line. */
static int skip_armor_headers(Lines *l, Error *e)
{
        const char *line;
        size_t n;

        while (next_line(l, &line, &n)) {
                if (n == 0)
                        return 0;
                if (!memchr(line, ':', n))
                        return damaged(e, "no empty line before the data");
        }
        return damaged(e, "it ends in the middle");
}

/* The data of one block up to its end line; the checksum, which every line could fake, is passed over. */
static int decode_block(Lines *l, const char *kind, unsigned char *out, size_t *n_out, Error *e)
{
        const char *line = NULL; /* there may be none at all */
        bool sum = false;
        size_t n = 0;
        int k = 0, r = library_load(&crypto_library, e);
        if (r < 0)
                return r;
        EVP_ENCODE_CTX *c = EVP_ENCODE_CTX_new();

        if (!c)
                return error_oom(e);
        EVP_DecodeInit(c);
        while (r >= 0 && next_line(l, &line, &n)) {
                if (line_begins(line, n, ARMOR_DASHES))
                        break;
                sum = sum || (n == 5 && line[0] == '=');
                if (sum && !(n == 5 && line[0] == '=') && n > 0)
                        r = -1; /* data behind the checksum */
                if (!sum && n > 0)
                        r = EVP_DecodeUpdate(c, out + *n_out, &k, (const unsigned char *) line, (int) n);
                *n_out += !sum && n > 0 && r >= 0 ? (size_t) k : 0;
                line = NULL;
        }
        if (r >= 0 && EVP_DecodeFinal(c, out + *n_out, &k) < 0)
                r = -1;
        EVP_ENCODE_CTX_free(c);
        if (r < 0)
                return damaged(e, "the data is not base64");
        return line && line_is(line, n, "-----END ", kind) ? 0 : damaged(e, "no line ends it");
}

int armor_decode(const char *text, size_t size, const char *kind, unsigned char **ret, size_t *ret_size,
                 size_t *ret_n, Error *e)
{
        /* What base64 is decoded to is shorter than it. */
        _cleanup_free_ unsigned char *out = malloc(size + 64);
        Lines l = {text, text + size};
        size_t n_out = 0, n_blocks = 0, n;
        const char *line;

        if (!out)
                return error_oom(e);
        while (next_line(&l, &line, &n)) {
                if (!line_begins(line, n, ARMOR_BEGIN))
                        continue;
                if (!line_is(line, n, ARMOR_BEGIN, kind))
                        return error_set(e, -EBADMSG, "it holds something else than a %s", kind);
                int r = skip_armor_headers(&l, e);
                if (r >= 0)
                        r = decode_block(&l, kind, out, &n_out, e);
                if (r < 0)
                        return r;
                n_blocks++;
        }
        *ret = TAKE_PTR(out);
        *ret_size = n_out;
        *ret_n = n_blocks;
        return 0;
}

/* --- Public keys --------------------------------------------------------------------------------------- */

static int check_key_packet(int tag, const unsigned char *head, size_t n_head, uint64_t offset,
                            void *userdata, Error *e)
{
        static const int allowed[] = {PACKET_PUBLIC_KEY, PACKET_PUBLIC_SUBKEY, PACKET_USER_ID,
                                      PACKET_ATTRIBUTE,  PACKET_SIGNATURE,     PACKET_TRUST,
                                      PACKET_MARKER,     PACKET_PADDING};
        bool *seen = userdata;

        if (tag == PACKET_SECRET_KEY || tag == PACKET_SECRET_SUBKEY) {
                int r = error_set(e, -EINVAL, "it holds a private key");
                return error_hint(e, r, "Give the public key only; 'gpg --armor --export' writes it.");
        }
        *seen = *seen || tag == PACKET_PUBLIC_KEY;
        for (size_t i = 0; i < ELEMENTSOF(allowed); i++)
                if (tag == allowed[i] && *seen)
                        return 0;
        return error_set(e, -EBADMSG, "it holds something else than public keys");
}

static int decode_keys(const void *data, size_t size, unsigned char **ret, size_t *ret_size, Error *e)
{
        size_t n = 0;

        if (size > TRUST_KEY_FILE_MAX)
                return error_set(e, -EFBIG, "it is longer than %u bytes", TRUST_KEY_FILE_MAX);
        if (memmem(data, size, "PRIVATE KEY BLOCK", 17))
                return check_key_packet(PACKET_SECRET_KEY, NULL, 0, 0, NULL, e);
        if (memmem(data, size, ARMOR_BEGIN, strlen(ARMOR_BEGIN)))
                return armor_decode(data, size, "PGP PUBLIC KEY BLOCK", ret, ret_size, &n, e);
        *ret = malloc(size + 1);
        if (!*ret)
                return error_oom(e);
        memcpy(*ret, data, size);
        *ret_size = size;
        return 0;
}

static int cannot_use(int code, const char *what, Error *e)
{
        int r = error_prefix(e, code, "Cannot use %s", what);

        return r == -EBADMSG && e && !e->hint ? error_hint(e, r,
                                                           "A file of public keys is written by 'gpg "
                                                           "--export --armor KEY'.")
                                              : r;
}

int public_keys_decode(const void *data, size_t size, const char *what, unsigned char **ret,
                       size_t *ret_size, Error *e)
{
        _cleanup_free_ unsigned char *out = NULL;
        bool seen = false;
        PacketReader p;
        size_t n = 0;

        packet_reader_init(&p, check_key_packet, &seen);
        int r = decode_keys(data, size, &out, &n, e);
        if (r >= 0)
                r = packet_reader_feed(&p, out, n, e);
        if (r >= 0)
                r = packet_reader_finish(&p, e);
        if (r >= 0 && !seen)
                r = error_set(e, -EBADMSG, "it holds no public key");
        if (r < 0)
                return cannot_use(r, what, e);
        *ret = TAKE_PTR(out);
        *ret_size = n;
        return 0;
}
