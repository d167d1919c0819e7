/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The part of D-Bus' wire format that is needed to forward messages unchanged: where a message ends, its
 * destination, and the number of its descriptors; and to write replies.
 *
 * A message begins with 16 bytes (byte order, type, flags, version, length of the body, serial, length of
 * the fields), then come the fields, each a code and a value with its type, padded to eight bytes, then the
 * body. Mandatory fields and bodies are checked by the recipient of the message.
 */

#include "stage1/launch/bus.h"

#define FIXED_SIZE 16U

/* --- Reading ------------------------------------------------------------------------------------------- */

/* Reading at or after END is a failure. */
typedef struct Cursor {
        const uint8_t *data;
        size_t at, end;
        bool big_endian, failed;
} Cursor;

static uint32_t load_u32(const uint8_t *p, bool big_endian)
{
        return big_endian ? (uint32_t) p[0] << 24 | (uint32_t) p[1] << 16 | (uint32_t) p[2] << 8 | p[3]
                          : (uint32_t) p[3] << 24 | (uint32_t) p[2] << 16 | (uint32_t) p[1] << 8 | p[0];
}

static const uint8_t *take(Cursor *c, size_t n, size_t alignment)
{
        size_t pad = (alignment - c->at % alignment) % alignment;

        if (c->failed || pad > c->end - c->at || n > c->end - c->at - pad) {
                c->failed = true;
                return NULL;
        }
        const uint8_t *p = c->data + c->at + pad;
        c->at += pad + n;
        return p;
}

static uint32_t take_u32(Cursor *c)
{
        const uint8_t *p = take(c, 4, 4);

        return p ? load_u32(p, c->big_endian) : 0;
}

/* A string of N bytes, terminated by a NUL and without one inside. */
static const char *take_text(Cursor *c, size_t n)
{
        const char *s = n < SIZE_MAX ? (const char *) take(c, n + 1, 1) : NULL;

        if (s && !s[n] && strlen(s) == n && utf8_is_valid(s, n))
                return s;
        c->failed = true;
        return NULL;
}

static const char *take_string(Cursor *c)
{
        uint32_t n = take_u32(c);

        return c->failed ? NULL : take_text(c, n);
}

static const char *take_signature(Cursor *c)
{
        const uint8_t *n = take(c, 1, 1);

        return n ? take_text(c, *n) : NULL;
}

/* The fields that are used here, each at most once. */
static const struct {
        uint8_t code;
        char type;
        size_t offset;
} fields[] = {
                {1, 'o', offsetof(BusHeader, path)},      {2, 's', offsetof(BusHeader, interface)},
                {3, 's', offsetof(BusHeader, member)},    {6, 's', offsetof(BusHeader, destination)},
                {8, 'g', offsetof(BusHeader, signature)}, {9, 'u', offsetof(BusHeader, n_fds)},
};

/* Basic types; no field has a value of a container type. */
static size_t size_of_type(char type)
{
        static const struct {
                const char *types;
                size_t size;
        } sizes[] = {{"y", 1}, {"nq", 2}, {"biuh", 4}, {"xtd", 8}};

        for (size_t i = 0; i < ELEMENTSOF(sizes); i++)
                if (strchr(sizes[i].types, type))
                        return sizes[i].size;
        return 0;
}

static const char *take_value(Cursor *c, char type, uint32_t *ret_number)
{
        size_t size = size_of_type(type);

        if (type == 's' || type == 'o')
                return take_string(c);
        if (type == 'g')
                return take_signature(c);
        if (type == 'u')
                *ret_number = take_u32(c);
        else if (size > 0)
                (void) take(c, size, size);
        else
                c->failed = true;
        return NULL;
}

static void take_field(Cursor *c, BusHeader *h, unsigned *seen)
{
        const uint8_t *code = take(c, 1, 8);
        const char *type = take_signature(c), *text;
        uint32_t number = 0;

        if (c->failed || *code == 0 || strlen(type) != 1) {
                c->failed = true;
                return;
        }
        text = take_value(c, *type, &number);
        for (size_t i = 0; i < ELEMENTSOF(fields); i++) {
                if (fields[i].code != *code)
                        continue;
                if (fields[i].type != *type || *seen & 1U << i)
                        c->failed = true;
                *seen |= 1U << i;
                if (*type == 'u')
                        memcpy((char *) h + fields[i].offset, &number, sizeof(number));
                else
                        memcpy((char *) h + fields[i].offset, &text, sizeof(text));
        }
}

static bool name_is_too_long(const char *name)
{
        return name && strlen(name) > BUS_NAME_MAX;
}

static int read_fields(const uint8_t *data, size_t end, BusHeader *h)
{
        Cursor c = {.data = data, .at = FIXED_SIZE, .end = end, .big_endian = h->big_endian};
        unsigned seen = 0;

        while (!c.failed && c.at < c.end)
                take_field(&c, h, &seen);
        if (c.failed || h->n_fds > BUS_FDS_MAX || name_is_too_long(h->interface) ||
            name_is_too_long(h->member) || name_is_too_long(h->destination))
                return -EBADMSG;
        return 1;
}

int bus_header_parse(const uint8_t *data, size_t n, BusHeader *ret)
{
        BusHeader h = {};

        if (n > 0 && data[0] != 'l' && data[0] != 'B')
                return -EBADMSG;
        if (n < FIXED_SIZE)
                return 0;
        h.big_endian = data[0] == 'B';
        h.type = data[1];
        h.flags = data[2];
        h.serial = load_u32(data + 8, h.big_endian);
        if (h.type == 0 || data[3] != 1 || h.serial == 0)
                return -EBADMSG;
        uint32_t body = load_u32(data + 4, h.big_endian), length = load_u32(data + 12, h.big_endian);
        if (length > BUS_HEADER_MAX - FIXED_SIZE || body > BUS_MESSAGE_MAX - BUS_HEADER_MAX)
                return -EMSGSIZE;
        h.header_size = (FIXED_SIZE + (size_t) length + 7) / 8 * 8;
        h.size = h.header_size + body;
        if (n < h.header_size)
                return 0;
        int r = read_fields(data, FIXED_SIZE + length, &h);
        if (r > 0)
                *ret = h;
        return r;
}

const char *bus_first_string(const BusHeader *h, const uint8_t *data, size_t n, size_t max)
{
        Cursor c = {
                        .data = data,
                        .at = h->header_size,
                        .end = MIN(n, h->size),
                        .big_endian = h->big_endian,
        };

        if (!h->signature || h->signature[0] != 's' || c.end < c.at)
                return NULL;
        const char *s = take_string(&c);
        return s && strlen(s) <= max ? s : NULL;
}

/* --- Writing ------------------------------------------------------------------------------------------- */

static uint8_t *put(BusWriter *w, size_t n, size_t alignment)
{
        bus_write_align(w, alignment);
        if (w->failed || n > sizeof(w->data) - w->n) {
                w->failed = true;
                return NULL;
        }
        w->n += n;
        return w->data + w->n - n;
}

void bus_write_align(BusWriter *w, size_t alignment)
{
        size_t pad = (alignment - w->n % alignment) % alignment;

        if (pad > sizeof(w->data) - w->n)
                w->failed = true;
        else {
                memset(w->data + w->n, 0, pad);
                w->n += pad;
        }
}

static void store_u32(uint8_t *p, uint32_t u, bool big_endian)
{
        for (unsigned i = 0; i < 4; i++)
                p[i] = (uint8_t) (u >> (big_endian ? 24 - 8 * i : 8 * i));
}

static void put_byte(BusWriter *w, uint8_t b)
{
        uint8_t *p = put(w, 1, 1);

        if (p)
                *p = b;
}

void bus_write_u32(BusWriter *w, uint32_t u)
{
        uint8_t *p = put(w, 4, 4);

        if (p)
                store_u32(p, u, w->big_endian);
}

static void put_text(BusWriter *w, const char *s)
{
        uint8_t *p = put(w, strlen(s) + 1, 1);

        if (p)
                memcpy(p, s, strlen(s) + 1);
}

void bus_write_string(BusWriter *w, const char *s)
{
        bus_write_u32(w, (uint32_t) strlen(s));
        put_text(w, s);
}

void bus_write_signature(BusWriter *w, const char *s)
{
        put_byte(w, (uint8_t) strlen(s));
        put_text(w, s);
}

size_t bus_write_array_begin(BusWriter *w, size_t alignment)
{
        bus_write_u32(w, 0);
        size_t begin = w->n;
        bus_write_align(w, alignment);
        return begin;
}

/* The length does not include the padding before the first element. */
void bus_write_array_end(BusWriter *w, size_t begin, size_t alignment)
{
        size_t first = (begin + alignment - 1) / alignment * alignment;

        if (!w->failed)
                store_u32(w->data + begin - 4, (uint32_t) (w->n - first), w->big_endian);
}

static void put_field(BusWriter *w, uint8_t code, const char *type, const char *text)
{
        if (isempty(text))
                return;
        bus_write_align(w, 8);
        put_byte(w, code);
        bus_write_signature(w, type);
        if (streq(type, "g"))
                bus_write_signature(w, text);
        else
                bus_write_string(w, text);
}

int bus_write_answer(const BusHeader *h, uint32_t serial, const char *sender, const char *destination,
                     const char *error_name, const char *signature, const BusWriter *body, BusWriter *ret)
{
        *ret = (BusWriter){.big_endian = h->big_endian};
        put_byte(ret, h->big_endian ? 'B' : 'l');
        put_byte(ret, error_name ? BUS_METHOD_ERROR : BUS_METHOD_RETURN);
        put_byte(ret, BUS_NO_REPLY_EXPECTED);
        put_byte(ret, 1);
        bus_write_u32(ret, (uint32_t) body->n);
        bus_write_u32(ret, serial);
        size_t begin = bus_write_array_begin(ret, 8);
        put_byte(ret, 5); /* REPLY_SERIAL: the serial of the call */
        bus_write_signature(ret, "u");
        bus_write_u32(ret, h->serial);
        put_field(ret, 4, "s", error_name);
        put_field(ret, 6, "s", destination);
        put_field(ret, 7, "s", sender);
        put_field(ret, 8, "g", signature);
        bus_write_array_end(ret, begin, 8);
        uint8_t *p = put(ret, body->n, 8);
        if (!p || body->failed)
                return -EMSGSIZE;
        memcpy(p, body->data, body->n);
        return 0;
}
