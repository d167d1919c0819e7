/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The memory of a call: its unpacked request and its reply.
 *
 * Messages are trees of many small parts. All of them belong to the call and are freed with it, so the functions of
 * calls need no clean-up. Every part is allocated by itself, so that sanitizers see its bounds. The depth of a request is
 * bounded by its type, as no message of the schema contains itself (see the unit test); its size in memory by a limit. */

#include <stddef.h>

#include "cri/cri-internal.h"

typedef struct CriChunk {
        struct CriChunk *next;
        max_align_t data[];
} CriChunk;

void cri_memory_done(CriMemory *m)
{
        while (m->chunks) {
                CriChunk *c = m->chunks;
                m->chunks = c->next;
                free(c);
        }
        m->used = 0;
}

void *cri_alloc(CriMemory *m, size_t size)
{
        CriChunk *c = NULL;

        if (m->max == 0 || (size <= m->max && m->used <= m->max - size))
                c = calloc(1, sizeof(CriChunk) + MAX(size, 1U));
        if (!c) {
                m->failed = true;
                return NULL;
        }
        m->used += sizeof(CriChunk) + size;
        c->next = m->chunks;
        m->chunks = c;
        return c->data;
}

char *cri_strdup(CriMemory *m, const char *s)
{
        size_t n = s ? strlen(s) : 0;
        char *copy = cri_alloc(m, n + 1);

        if (copy && s)
                memcpy(copy, s, n);
        return copy;
}

char *cri_printf(CriMemory *m, const char *format, ...)
{
        _cleanup_free_ char *s = NULL;
        va_list ap;

        va_start(ap, format);
        int n = xvasprintf(&s, format, ap);
        va_end(ap);
        if (n < 0)
                return NULL;
        return cri_strdup(m, s);
}

void *cri_message(CriMemory *m, const ProtobufCMessageDescriptor *d)
{
        void *p = cri_alloc(m, d->sizeof_message);

        if (p)
                protobuf_c_message_init(d, p);
        return p;
}

/* --- Requests ------------------------------------------------------------------------------------------ */

static void *allocate(void *userdata, size_t size)
{
        return cri_alloc(userdata, size);
}

static void release(void *userdata, void *p) {}

static bool text_is_valid(const char *s)
{
        return !s || utf8_is_valid(s, strlen(s));
}

static bool message_is_valid(const ProtobufCMessage *message);

/* Field I of N values at P. */
static bool values_are_valid(const ProtobufCFieldDescriptor *f, const void *p, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                if (f->type == PROTOBUF_C_TYPE_STRING && !text_is_valid(((char *const *) p)[i]))
                        return false;
                if (f->type == PROTOBUF_C_TYPE_MESSAGE &&
                    !message_is_valid(((ProtobufCMessage *const *) p)[i]))
                        return false;
        }
        return true;
}

/* A field has the number 0 in no message. The library accepts that in two bytes, and then not what it packs of it. */
static bool unknown_fields_are_valid(const ProtobufCMessage *message)
{
        for (unsigned i = 0; i < message->n_unknown_fields; i++)
                if (message->unknown_fields[i].tag == 0)
                        return false;
        return true;
}

/* The library does not check that text is UTF-8, as which it would be sent back to clients that do. */
static bool message_is_valid(const ProtobufCMessage *message)
{
        const char *base = (const char *) message;

        if (message && !unknown_fields_are_valid(message))
                return false;
        for (unsigned i = 0; message && i < message->descriptor->n_fields; i++) {
                const ProtobufCFieldDescriptor *f = &message->descriptor->fields[i];
                const void *p = base + f->offset;
                size_t n = 1;

                if (f->label == PROTOBUF_C_LABEL_REPEATED) {
                        n = *(const size_t *) (const void *) (base + f->quantifier_offset);
                        p = *(const void *const *) p;
                }
                if (!values_are_valid(f, p, n))
                        return false;
        }
        return true;
}

int cri_unpack(CriMemory *m, const ProtobufCMessageDescriptor *d, const uint8_t *data, size_t n,
               ProtobufCMessage **ret)
{
        ProtobufCAllocator allocator = {.alloc = allocate, .free = release, .allocator_data = m};

        ProtobufCMessage *message = protobuf_c_message_unpack(d, &allocator, n, data);
        if (!message)
                return m->failed ? -ENOMEM : -EBADMSG;
        if (!message_is_valid(message))
                return -EBADMSG;
        *ret = message;
        return 0;
}
