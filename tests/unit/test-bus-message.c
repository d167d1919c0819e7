/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The bus of a pod: malformed messages of every kind, and the replies of the bus itself. */

#include "tests/unit/bus-message.h"
#include "tests/unit/test.h"

#define DRIVER "org.freedesktop.DBus"
#define MANAGER "org.freedesktop.systemd1"

/* --- Headers ------------------------------------------------------------------------------------------- */

/* In memory that ends with the last byte, for sanitizers. The strings of RET are freed then. */
static int parse_exact(const void *data, size_t n, BusHeader *ret)
{
        _cleanup_free_ uint8_t *exact = malloc(n);

        memcpy(exact, data, n);
        return bus_header_parse(exact, n, ret);
}

static int parse(const Message *m)
{
        BusHeader h;

        return parse_exact(m->data, m->n, &h);
}

TEST(header_of_either_byte_order)
{
        for (unsigned big = 0; big < 2; big++) {
                Message m = {};
                BusHeader h;
                m_call(&m, big, 0x01020304, DRIVER, "AddMatch", "type='signal'", 3);
                ASSERT_ERR(bus_header_parse(m.data, m.n, &h), 1);
                ASSERT_EQ(h.type, BUS_METHOD_CALL);
                ASSERT_EQ(h.big_endian, big);
                ASSERT_EQ(h.serial, 0x01020304);
                ASSERT_EQ(h.n_fds, 3);
                ASSERT_EQ(h.size, m.n);
                ASSERT_STREQ(h.path, "/org/example");
                ASSERT_STREQ(h.destination, DRIVER);
                ASSERT_STREQ(h.member, "AddMatch");
                ASSERT_STREQ(h.interface, "org.example.Interface");
                ASSERT_STREQ(h.signature, "s");
                ASSERT_STREQ(bus_first_string(&h, m.data, m.n, 255), "type='signal'");
                ASSERT_NULL(bus_first_string(&h, m.data, m.n - 1, 255));
                ASSERT_NULL(bus_first_string(&h, m.data, m.n, 5));
        }
}

TEST(header_that_is_cut_anywhere)
{
        Message m = {};
        BusHeader h;

        m_call(&m, false, 1, MANAGER, "GetUnit", "x.service", 0);
        ASSERT_OK(bus_header_parse(m.data, m.n, &h));
        for (size_t n = 0; n < m.n; n++)
                ASSERT_ERR(parse_exact(m.data, n, &h), n < h.header_size ? 0 : 1);
}

TEST(header_with_any_byte_changed)
{
        Message m = {}, other;
        BusHeader h;

        m_call(&m, false, 1, MANAGER, "GetUnit", "x.service", 1);
        for (size_t at = 0; at < m.n; at++)
                for (unsigned b = 0; b < 256; b++) {
                        other = m;
                        other.data[at] = (uint8_t) b;
                        int r = parse_exact(other.data, other.n, &h);
                        ASSERT_TRUE(r >= 0 || r == -EBADMSG || r == -EMSGSIZE);
                        if (r > 0)
                                ASSERT_TRUE(h.header_size <= other.n && h.size <= BUS_MESSAGE_MAX);
                }
}

TEST(invalid_beginning)
{
        static const struct {
                size_t at;
                uint8_t value;
        } faults[] = {{0, 'x'}, {0, 0}, {1, 0}, {3, 0}, {3, 2}, {8, 0}};

        for (size_t i = 0; i < ELEMENTSOF(faults); i++) {
                Message m = {};
                m_call(&m, false, 1, MANAGER, "GetUnit", NULL, 0);
                m.data[faults[i].at] = faults[i].value;
                ASSERT_ERR(parse(&m), -EBADMSG);
        }
}

TEST(lengths_beyond_the_bounds)
{
        static const uint32_t lengths[] = {UINT32_MAX, UINT32_MAX - 7, UINT32_MAX - 15, INT32_MAX, 1U << 27};

        for (size_t i = 0; i < ELEMENTSOF(lengths); i++) {
                Message m = {};
                m_call(&m, i % 2, 1, MANAGER, "GetUnit", NULL, 0);
                m_u32_at(&m, 12, lengths[i]);
                ASSERT_ERR(parse(&m), -EMSGSIZE);
                m_call(&m, i % 2, 1, MANAGER, "GetUnit", NULL, 0);
                m_u32_at(&m, 4, lengths[i]);
                ASSERT_ERR(parse(&m), -EMSGSIZE);
        }
        /* A header that is too long is detected before it has been received. */
        Message m = {};
        m_call(&m, false, 1, MANAGER, "GetUnit", NULL, 0);
        m_u32_at(&m, 12, BUS_HEADER_MAX - 15);
        ASSERT_ERR(parse(&m), -EMSGSIZE);
        m_u32_at(&m, 12, BUS_HEADER_MAX - 16);
        ASSERT_ERR(parse(&m), 0);
}

TEST(fields_that_end_beyond_the_header)
{
        Message m = {};

        m_call(&m, false, 1, MANAGER, "GetUnit", "x", 0);
        for (uint32_t n = 1; n <= (uint32_t) m.n - 24; n++) {
                Message cut = m;
                m_u32_at(&cut, 12, n);
                int r = parse(&cut);
                ASSERT_TRUE(r == -EBADMSG || r == 1);
        }
        /* A string whose length exceeds the header, or overflows. */
        static const uint32_t lengths[] = {UINT32_MAX, UINT32_MAX - 3, 13, 200, 1U << 31};
        for (size_t i = 0; i < ELEMENTSOF(lengths); i++) {
                m_call(&m, false, 1, MANAGER, "GetUnit", NULL, 0);
                m_u32_at(&m, 20, lengths[i]);
                ASSERT_ERR(parse(&m), -EBADMSG);
        }
}

static int parse_field(unsigned code, const char *type, const void *value, size_t n)
{
        Message m = {};

        m_begin(&m, false, BUS_SIGNAL, 0, 1);
        m_field(&m, code, type);
        memcpy(m.data + m.n, value, n);
        m.n += n;
        m_body(&m);
        m_end(&m, m.n);
        return parse(&m);
}

TEST(fields_of_many_kinds)
{
        ASSERT_ERR(parse_field(6, "s", "\1\0\0\0a\0", 6), 1);
        ASSERT_ERR(parse_field(6, "s", "\1\0\0\0ab", 6), -EBADMSG);    /* no end */
        ASSERT_ERR(parse_field(6, "s", "\2\0\0\0\0b\0", 7), -EBADMSG); /* one in the middle */
        ASSERT_ERR(parse_field(6, "s", "\1\0\0\0\377\0", 6), -EBADMSG);
        ASSERT_ERR(parse_field(6, "o", "\1\0\0\0a\0", 6), -EBADMSG); /* not its type */
        ASSERT_ERR(parse_field(9, "s", "\1\0\0\0a\0", 6), -EBADMSG);
        ASSERT_ERR(parse_field(9, "u", "\375\0\0\0", 4), 1);
        ASSERT_ERR(parse_field(9, "u", "\376\0\0\0", 4), -EBADMSG); /* more than can come */
        ASSERT_ERR(parse_field(9, "u", "\377\377\377\377", 4), -EBADMSG);
        ASSERT_ERR(parse_field(0, "s", "\1\0\0\0a\0", 6), -EBADMSG);
        ASSERT_ERR(parse_field(77, "s", "\1\0\0\0a\0", 6), 1); /* unknown */
        ASSERT_ERR(parse_field(77, "y", "a", 1), 1);
        ASSERT_ERR(parse_field(77, "n", "ab", 2), 1);
        ASSERT_ERR(parse_field(77, "t", "\0\0\0\0aaaaaaaa", 12), 1);
        ASSERT_ERR(parse_field(77, "as", "\0\0\0\0", 4), -EBADMSG); /* has parts */
        ASSERT_ERR(parse_field(77, "v", "\1y\0a", 4), -EBADMSG);
        ASSERT_ERR(parse_field(77, "", "", 0), -EBADMSG);
        ASSERT_ERR(parse_field(77, "u", "", 0), -EBADMSG);
        ASSERT_ERR(parse_field(8, "g", "\3ab\0", 4), -EBADMSG);
}

TEST(fields_that_come_twice)
{
        Message m = {};

        m_begin(&m, false, BUS_METHOD_CALL, 0, 1);
        m_field_text(&m, 6, "s", MANAGER);
        m_field_text(&m, 6, "s", DRIVER);
        m_body(&m);
        ASSERT_ERR(parse(&m), -EBADMSG);
}

TEST(names_that_are_too_long)
{
        char name[300];
        Message m = {};

        memset(name, 'a', sizeof(name));
        name[256] = 0;
        m_call(&m, false, 1, name, "GetUnit", NULL, 0);
        ASSERT_ERR(parse(&m), -EBADMSG);
        m_call(&m, false, 1, MANAGER, name, NULL, 0);
        ASSERT_ERR(parse(&m), -EBADMSG);
        name[255] = 0;
        m_call(&m, false, 1, name, name, NULL, 0);
        ASSERT_ERR(parse(&m), 1);
}

/* --- Answers ------------------------------------------------------------------------------------------- */

typedef struct Said {
        BusVerdict verdict;
        BusWriter answer;
        BusHeader header;
} Said;

/* What a bus says to one call; until the next. */
static const Said *say(BusClient *c, const Message *m)
{
        static Said s;
        BusHeader h;

        s = (Said){};
        if (bus_header_parse(m->data, m->n, &h) != 1)
                abort();
        s.verdict = bus_driver_judge(c, &h, m->data, m->n, &s.answer);
        if (s.verdict == BUS_ANSWER && (bus_header_parse(s.answer.data, s.answer.n, &s.header) != 1 ||
                                        s.header.size != s.answer.n || !streq(s.header.destination, ":1.1")))
                abort();
        return &s;
}

static const Said *ask(BusClient *c, const char *destination, const char *member, const char *argument)
{
        Message m = {};

        m_call(&m, false, 7, destination, member, argument, 0);
        return say(c, &m);
}

static bool says(const Said *s, const char *text)
{
        return s->verdict == BUS_ANSWER && memmem(s->answer.data, s->answer.n, text, strlen(text));
}

static uint32_t number(const Said *s)
{
        uint32_t u;

        memcpy(&u, s->answer.data + s->header.header_size, sizeof(u));
        return u;
}

TEST(hello_is_said_once)
{
        BusClient c = {};
        const Said *s = ask(&c, DRIVER, "Hello", NULL);

        ASSERT_EQ(s->header.type, BUS_METHOD_RETURN);
        ASSERT_TRUE(says(s, ":1.1"));
        s = ask(&c, DRIVER, "Hello", NULL);
        ASSERT_EQ(s->header.type, BUS_METHOD_ERROR);
}

TEST(answers_have_the_byte_order_of_the_call)
{
        BusClient c = {};
        Message m = {};

        m_call(&m, true, 0x01020304, DRIVER, "GetConnectionUnixProcessID", MANAGER, 0);
        const Said *s = say(&c, &m);
        ASSERT_EQ(s->answer.data[0], 'B');
        ASSERT_MEMEQ(s->answer.data + s->header.header_size, "\0\0\0\1", 4);
        ASSERT_TRUE(memmem(s->answer.data, s->answer.n, "\5\1u\0\1\2\3\4", 8) != NULL);
}

TEST(matches_are_taken)
{
        BusClient c = {};
        const Said *s = ask(&c, DRIVER, "AddMatch", "type='signal'");

        ASSERT_EQ(s->header.type, BUS_METHOD_RETURN);
        ASSERT_EQ(s->header.size, s->header.header_size);
        s = ask(&c, DRIVER, "RemoveMatch", "type='signal'");
        ASSERT_EQ(s->header.type, BUS_METHOD_RETURN);
}

TEST(names_and_their_owners)
{
        BusClient c = {.pid = 77, .own_pid = 78};
        const Said *s = ask(&c, DRIVER, "ListNames", NULL);

        ASSERT_TRUE(says(s, MANAGER) && says(s, ":1.1"));
        s = ask(&c, DRIVER, "GetNameOwner", MANAGER);
        ASSERT_STREQ(bus_first_string(&s->header, s->answer.data, s->answer.n, 255), MANAGER);
        s = ask(&c, DRIVER, "GetNameOwner", "org.freedesktop.login1");
        ASSERT_TRUE(says(s, "NameHasNoOwner"));
        s = ask(&c, DRIVER, "GetNameOwner", NULL);
        ASSERT_TRUE(says(s, "InvalidArgs"));
        s = ask(&c, DRIVER, "NameHasOwner", MANAGER);
        ASSERT_EQ(number(s), 1);
        s = ask(&c, DRIVER, "NameHasOwner", "org.freedesktop.login1");
        ASSERT_EQ(number(s), 0);
        s = ask(&c, DRIVER, "GetConnectionUnixProcessID", ":1.1");
        ASSERT_EQ(number(s), 77);
        s = ask(&c, DRIVER, "GetConnectionUnixProcessID", DRIVER);
        ASSERT_EQ(number(s), 78);
        s = ask(&c, DRIVER, "GetConnectionUnixUser", MANAGER);
        ASSERT_EQ(number(s), 0);
        s = ask(&c, DRIVER, "GetConnectionCredentials", MANAGER);
        ASSERT_STREQ(s->header.signature, "a{sv}");
        ASSERT_EQ(number(s), s->header.size - s->header.header_size - 8);
        c.pid = 0;
        s = ask(&c, DRIVER, "GetConnectionUnixProcessID", ":1.1");
        ASSERT_TRUE(says(s, "UnixProcessIdUnknown"));
}

TEST(what_is_refused)
{
        static const struct {
                const char *destination, *member, *argument, *error;
        } calls[] = {
                        {DRIVER, "RequestName", "org.example", "Error.AccessDenied"},
                        {DRIVER, "BecomeMonitor", NULL, "Error.AccessDenied"},
                        {DRIVER, "ReloadConfig", NULL, "Error.UnknownMethod"},
                        {DRIVER, NULL, NULL, "Error.UnknownMethod"},
                        {DRIVER, "StartServiceByName", "org.example", "Error.ServiceUnknown"},
                        {"org.freedesktop.login1", "PowerOff", NULL, "Error.ServiceUnknown"},
                        {":1.1", "Ping", NULL, "Error.ServiceUnknown"},
                        {MANAGER, "StartTransientUnit", "container-shell@1.service", "acnspawn enter"},
                        {NULL, "StartTransientUnit", NULL, "acnspawn enter"},
                        {MANAGER, "StartUnit", "container-getty@1.service", "acnspawn enter"},
        };

        for (size_t i = 0; i < ELEMENTSOF(calls); i++) {
                BusClient c = {};
                const Said *s = ask(&c, calls[i].destination, calls[i].member, calls[i].argument);
                ASSERT_EQ(s->header.type, BUS_METHOD_ERROR);
                ASSERT_TRUE(says(s, calls[i].error));
        }
}

TEST(long_names_are_still_refused)
{
        char name[BUS_NAME_MAX + 1];
        BusClient c = {};

        memset(name, 'a', sizeof(name));
        name[BUS_NAME_MAX] = 0;
        const Said *s = ask(&c, name, name, name);
        ASSERT_TRUE(says(s, name));
        s = ask(&c, DRIVER, name, name);
        ASSERT_TRUE(says(s, name));
}

TEST(what_is_for_systemd)
{
        BusClient c = {};

        ASSERT_EQ(ask(&c, MANAGER, "StartUnit", "app-web.service")->verdict, BUS_PASS);
        ASSERT_EQ(ask(&c, MANAGER, "StartUnit", "container-getty")->verdict, BUS_PASS);
        ASSERT_EQ(ask(&c, MANAGER, "StartUnit", NULL)->verdict, BUS_PASS);
        ASSERT_EQ(ask(&c, MANAGER, "GetUnit", "container-getty@1.service")->verdict, BUS_PASS);
        ASSERT_EQ(ask(&c, MANAGER, "Ref", NULL)->verdict, BUS_PASS);
        ASSERT_EQ(ask(&c, NULL, "Hello", NULL)->verdict, BUS_PASS);
        ASSERT_EQ(c.serial, 0);
}

TEST(references_are_taken)
{
        BusClient c = {};
        Message m = {};

        m_begin(&m, false, BUS_METHOD_CALL, 0, 1);
        m_field_text(&m, 1, "o", "/org/freedesktop/systemd1/unit/app_2da_2eservice");
        m_field_text(&m, 2, "s", MANAGER ".Unit");
        m_field_text(&m, 3, "s", "Ref");
        m_field_text(&m, 6, "s", MANAGER);
        m_body(&m);
        ASSERT_EQ(say(&c, &m)->header.type, BUS_METHOD_RETURN);
}

TEST(one_way_messages_have_no_reply)
{
        static const unsigned types[] = {BUS_METHOD_RETURN, BUS_METHOD_ERROR, BUS_SIGNAL, 99};
        static const char *const destinations[] = {DRIVER, "org.example"};
        BusClient c = {};
        Message m = {};

        for (size_t k = 0; k < ELEMENTSOF(destinations); k++) {
                m_call(&m, false, 1, destinations[k], "Hello", NULL, 0);
                m.data[2] = BUS_NO_REPLY_EXPECTED;
                ASSERT_EQ(say(&c, &m)->verdict, BUS_DROP);
                for (size_t i = 0; i < ELEMENTSOF(types); i++) {
                        m_call(&m, false, 1, destinations[k], "Hello", NULL, 0);
                        m.data[1] = (uint8_t) types[i];
                        ASSERT_EQ(say(&c, &m)->verdict, BUS_DROP);
                }
        }
}

int main(void)
{
        RUN(header_of_either_byte_order);
        RUN(header_that_is_cut_anywhere);
        RUN(header_with_any_byte_changed);
        RUN(invalid_beginning);
        RUN(lengths_beyond_the_bounds);
        RUN(fields_that_end_beyond_the_header);
        RUN(fields_of_many_kinds);
        RUN(fields_that_come_twice);
        RUN(names_that_are_too_long);
        RUN(hello_is_said_once);
        RUN(answers_have_the_byte_order_of_the_call);
        RUN(matches_are_taken);
        RUN(names_and_their_owners);
        RUN(what_is_refused);
        RUN(long_names_are_still_refused);
        RUN(what_is_for_systemd);
        RUN(references_are_taken);
        RUN(one_way_messages_have_no_reply);
        return TEST_END();
}
