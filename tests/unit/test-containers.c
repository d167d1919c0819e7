/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calls by which apps launch others: what is accepted, what becomes of it, and the bounds. */

#include "containers/containers.h"
#include "tests/unit/test.h"

#define ID "\"container_id\":{\"parent\":{\"parent\":{\"value\":\"web\"},\"value\":\"a\"},\"value\":\"b\"}"
#define LAUNCH(more) "{\"type\":\"LAUNCH_CONTAINER\",\"launch_container\":{" ID more "}}"

static const char *text_of(json_object *o)
{
        return json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

TEST(calls_become_those_of_the_supervisor)
{
        static const struct {
                const char *text, *method, *parameters;
        } rows[] = {
                        {LAUNCH(""), "Launch", "{\"container\":\"web/a/b\"}"},
                        {LAUNCH(",\"command\":{\"value\":\"true\"}"), "Launch",
                         "{\"exec\":[\"/bin/sh\",\"-c\",\"true\"],\"container\":\"web/a/b\"}"},
                        {LAUNCH(",\"command\":{\"shell\":false,\"value\":\"/"
                                "x\",\"arguments\":[\"x\",\"1\"]}"),
                         "Launch", "{\"exec\":[\"/x\",\"1\"],\"container\":\"web/a/b\"}"},
                        {"{\"type\":\"LAUNCH_NESTED_CONTAINER_SESSION\",\"launch_nested_container_session\":"
                         "{" ID ",\"command\":{\"value\":\"true\"}}}",
                         "Session", "{\"exec\":[\"/bin/sh\",\"-c\",\"true\"],\"container\":\"web/a/b\"}"},
                        {"{\"type\":\"KILL_CONTAINER\",\"kill_container\":{" ID "}}", "Kill",
                         "{\"signal\":9,\"container\":\"web/a/b\"}"},
                        {"{\"type\":\"GET_CONTAINERS\"}", "List", "{}"},
                        {"{\"type\":\"ATTACH_CONTAINER_INPUT\",\"attach_container_input\":{\"type\":"
                         "\"CONTAINER_ID\"," ID "}}",
                         "Input", "{\"container\":\"web/a/b\"}"},
                        {LAUNCH(",\"container\":{\"type\":\"MESOS\",\"tty_info\":{}}"), "Launch",
                         "{\"terminal\":true,\"container\":\"web/a/b\"}"},
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_container_call_ ContainerCall c = {};
                ASSERT_OK(container_call_parse(rows[i].text, strlen(rows[i].text), &c, NULL));
                ASSERT_STREQ(text_of(c.parameters), rows[i].parameters);
                ASSERT_STREQ(c.method, rows[i].method);
        }
}

TEST(what_is_not_known_is_refused_by_name)
{
        static const struct {
                const char *text, *message;
        } rows[] = {
                        {"{\"type\":\"SET_LOGGING_LEVEL\"}", "There is no call 'SET_LOGGING_LEVEL'"},
                        {LAUNCH(",\"resources\":[]"), "launch_container.resources is not known"},
                        {LAUNCH(",\"command\":{\"value\":1}"), "command.value has the wrong type"},
                        {LAUNCH(",\"command\":{\"value\":\"a\\u0000b\"}"), NULL},
                        {"{\"type\":\"WAIT_CONTAINER\",\"wait_container\":{\"container_id\":{\"value\":"
                         "\"web\"}}}",
                         NULL},
                        {"{\"type\":\"WAIT_CONTAINER\",\"wait_container\":{\"container_id\":{\"value\":\"a/"
                         "b\"}}}",
                         NULL},
                        {"{\"type\":\"WAIT_CONTAINER\"}", "wait_container is missing"},
                        {"[]", "The call is not an object"},
                        {"", NULL},
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_container_call_ ContainerCall c = {};
                _cleanup_error_ Error e = ERROR_NULL;
                ASSERT_TRUE(container_call_parse(rows[i].text, strlen(rows[i].text), &c, &e) < 0);
                if (rows[i].message)
                        ASSERT_STREQ(e.message, rows[i].message);
        }
}

TEST(events_over_time_are_bounded)
{
        uint64_t next = 0, now = UINT64_C(1000000000);

        for (unsigned i = 0; i < 32; i++)
                ASSERT_FALSE(control_exceeds_rate(&next, now, 32, 100000));
        ASSERT_TRUE(control_exceeds_rate(&next, now, 32, 100000));
        ASSERT_FALSE(control_exceeds_rate(&next, now + 100000, 32, 100000));
        ASSERT_TRUE(control_exceeds_rate(&next, now + 100000, 32, 100000));
}

TEST(output_is_sent_in_records)
{
        _cleanup_free_ char *record = output_record(false, "hello", 5);

        ASSERT_STREQ(record, "58\n{\"type\":\"DATA\",\"data\":{\"type\":\"STDOUT\",\"data\":\"aGVsbG8=\"}}");
}

TEST(base64_is_strict)
{
        static const struct {
                const char *text, *bytes; /* NULL: it is refused */
        } rows[] = {{"", ""},         {"YQ==", "a"},        {"YWI=", "ab"},
                    {"YWJj", "abc"},  {"YWJjZA==", "abcd"}, {"Y", NULL},
                    {"YQ", NULL},     {"YQ=", NULL},        {"YR==", NULL},
                    {"YWJ=", NULL},   {"YQ==YQ==", NULL},   {"====", NULL},
                    {"Y===", NULL},   {"YW J", NULL},       {"YQ=a", NULL},
                    {"YWJj\n", NULL}, {"-_-_", NULL}};

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_free_ unsigned char *data = NULL;
                size_t size = 0;
                int r = base64_decode(rows[i].text, strlen(rows[i].text), &data, &size);
                ASSERT_EQ(r, rows[i].bytes ? 0 : -EINVAL);
                if (rows[i].bytes) {
                        ASSERT_EQ(size, strlen(rows[i].bytes));
                        ASSERT_TRUE(memcmp(data, rows[i].bytes, size) == 0);
                }
        }
}

/* What comes of TEXT in pieces of STEP bytes: records with a comma behind each, or the error. */
static int read_records(const char *text, size_t step, char *ret, size_t room)
{
        RecordReader reader = {};
        size_t n = strlen(text), used = 0;
        int r = 0;

        for (size_t at = 0; at < n && r >= 0;) {
                size_t taken = 0;
                r = record_reader_take(&reader, text + at, MIN(step, n - at), &taken);
                at += taken;
                if (r > 0)
                        used += (size_t) snprintf(ret + used, room - used, "%.*s,", (int) reader.size,
                                                  reader.text);
        }
        if (r >= 0 && record_reader_is_within(&reader))
                r = -ENODATA;
        record_reader_done(&reader);
        return MIN(r, 0);
}

TEST(records_are_read_in_pieces_of_any_size)
{
        static const struct {
                const char *text;
                int r;
                const char *records;
        } rows[] = {{"1\na", 0, "a,"},
                    {"2\n{}10\n0123456789", 0, "{},0123456789,"},
                    {"", 0, ""},
                    {"5\nabc", -ENODATA, ""},
                    {"5", -ENODATA, ""},
                    {"0\n", -EBADMSG, ""},
                    {"\n", -EBADMSG, ""},
                    {"-1\na", -EBADMSG, ""},
                    {"x", -EBADMSG, ""},
                    {"1\nab", -EBADMSG, "a,"},
                    {"65537\n", -EMSGSIZE, ""},
                    {"00000000001\na", -EBADMSG, ""}};
        char got[64];

        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                for (size_t step = 1; step < 20; step++) {
                        got[0] = 0;
                        ASSERT_EQ(read_records(rows[i].text, step, got, sizeof(got)), rows[i].r);
                        ASSERT_STREQ(got, rows[i].records);
                }
}

#define IO(rest)                                                                                            \
        "{\"type\":\"ATTACH_CONTAINER_INPUT\",\"attach_container_input\":{\"type\":\"PROCESS_IO\","         \
        "\"process_io\":" rest "}}"
#define DATA(type, text) IO("{\"type\":\"DATA\",\"data\":{\"type\":\"" type "\",\"data\":\"" text "\"}}")
#define TTY(rows)                                                                                           \
        IO("{\"type\":\"CONTROL\",\"control\":{\"type\":\"TTY_INFO\",\"tty_info\":{\"window_size\":{"       \
           "\"rows\":" rows ",\"columns\":80}}}}")

TEST(records_of_input)
{
        static const struct {
                const char *text;
                ProcessIoKind kind;
                size_t size;
                unsigned rows;
        } rows[] = {{DATA("STDIN", "YWI="), IO_DATA, 2, 0},
                    {DATA("STDIN", ""), IO_DATA, 0, 0},
                    {TTY("24"), IO_SIZE, 0, 24},
                    {IO("{\"type\":\"CONTROL\",\"control\":{\"type\":\"HEARTBEAT\",\"heartbeat\":{}}}"),
                     IO_HEARTBEAT, 0, 0}};
        static const struct {
                const char *text, *message;
        } wrong[] = {{DATA("STDOUT", ""), "data.type has to be STDIN"},
                     {DATA("STDIN", "x"), "data.data is not base64"},
                     {TTY("0"), "window_size.rows is not the size of a terminal"},
                     {TTY("65536"), "window_size.rows is not the size of a terminal"},
                     {IO("{\"type\":\"SIGNAL\"}"), "process_io.type has to be DATA or CONTROL"},
                     {IO("{\"type\":\"DATA\"}"), "process_io.data is missing"},
                     {"{\"type\":\"GET_CONTAINERS\"}", "type has to be ATTACH_CONTAINER_INPUT"},
                     {"7", "The record is not an object"}};

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_(process_io_done) ProcessIo p = {};
                ASSERT_OK(process_io_parse(rows[i].text, strlen(rows[i].text), &p, NULL));
                ASSERT_EQ(p.kind, rows[i].kind);
                ASSERT_EQ(p.size, rows[i].size);
                ASSERT_EQ(p.rows, rows[i].rows);
        }
        for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
                _cleanup_(process_io_done) ProcessIo p = {};
                _cleanup_error_ Error e = ERROR_NULL;
                ASSERT_EQ(process_io_parse(wrong[i].text, strlen(wrong[i].text), &p, &e), -EINVAL);
                ASSERT_STREQ(e.message, wrong[i].message);
        }
}

int main(void)
{
        RUN(base64_is_strict);
        RUN(records_are_read_in_pieces_of_any_size);
        RUN(records_of_input);
        RUN(calls_become_those_of_the_supervisor);
        RUN(what_is_not_known_is_refused_by_name);
        RUN(events_over_time_are_bounded);
        RUN(output_is_sent_in_records);
        return TEST_END();
}
