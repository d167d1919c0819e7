/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Writes D-Bus messages, also malformed ones, without the launcher's code, for its tests. */

#include "stage1/launch/bus.h"

typedef struct Message {
        uint8_t data[BUS_HEADER_MAX + 4096];
        size_t n;
        bool big_endian;
} Message;

__attribute__((unused)) static void m_align(Message *m, size_t alignment)
{
        while (m->n % alignment != 0)
                m->data[m->n++] = 0;
}

__attribute__((unused)) static void m_byte(Message *m, unsigned b)
{
        m->data[m->n++] = (uint8_t) b;
}

__attribute__((unused)) static void m_u32_at(Message *m, size_t at, uint32_t u)
{
        for (unsigned i = 0; i < 4; i++)
                m->data[at + i] = (uint8_t) (u >> 8 * (m->big_endian ? 3 - i : i));
}

__attribute__((unused)) static void m_u32(Message *m, uint32_t u)
{
        m_align(m, 4);
        m->n += 4;
        m_u32_at(m, m->n - 4, u);
}

__attribute__((unused)) static void m_string(Message *m, const char *s)
{
        m_u32(m, (uint32_t) strlen(s));
        memcpy(m->data + m->n, s, strlen(s) + 1);
        m->n += strlen(s) + 1;
}

__attribute__((unused)) static void m_signature(Message *m, const char *s)
{
        m_byte(m, (unsigned) strlen(s));
        memcpy(m->data + m->n, s, strlen(s) + 1);
        m->n += strlen(s) + 1;
}

/* The code and the type of a field, whose value comes next. */
__attribute__((unused)) static void m_field(Message *m, unsigned code, const char *type)
{
        m_align(m, 8);
        m_byte(m, code);
        m_signature(m, type);
}

__attribute__((unused)) static void m_field_text(Message *m, unsigned code, const char *type, const char *s)
{
        if (!s)
                return;
        m_field(m, code, type);
        if (*type == 'g')
                m_signature(m, s);
        else
                m_string(m, s);
}

__attribute__((unused)) static void m_begin(Message *m, bool big_endian, unsigned type, unsigned flags,
                                            uint32_t serial)
{
        m->n = 0;
        m->big_endian = big_endian;
        m_byte(m, big_endian ? 'B' : 'l');
        m_byte(m, type);
        m_byte(m, flags);
        m_byte(m, 1);
        m_u32(m, 0);
        m_u32(m, serial);
        m_u32(m, 0);
}

/* The fields are complete, the body comes next. */
__attribute__((unused)) static void m_body(Message *m)
{
        m_u32_at(m, 12, (uint32_t) m->n - 16);
        m_align(m, 8);
}

__attribute__((unused)) static void m_end(Message *m, size_t body)
{
        m_u32_at(m, 4, (uint32_t) (m->n - body));
}

/* A call with one string, or (NULL) no arguments. */
__attribute__((unused)) static void m_call(Message *m, bool big_endian, uint32_t serial,
                                           const char *destination, const char *member, const char *argument,
                                           uint32_t n_fds)
{
        m_begin(m, big_endian, BUS_METHOD_CALL, 0, serial);
        m_field_text(m, 1, "o", "/org/example");
        m_field_text(m, 6, "s", destination);
        m_field_text(m, 2, "s", "org.example.Interface");
        m_field_text(m, 3, "s", member);
        m_field_text(m, 8, "g", argument ? "s" : NULL);
        if (n_fds > 0) {
                m_field(m, 9, "u");
                m_u32(m, n_fds);
        }
        m_body(m);
        size_t body = m->n;
        if (argument)
                m_string(m, argument);
        m_end(m, body);
}
