/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calls by which apps launch others: what is accepted, what becomes of it, and the bounds. */

#include "containers/containers.h"
#include "stage0/supervisor/control-api.h"
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
                        {"{\"type\":\"KILL_CONTAINER\",\"kill_container\":{" ID "}}", "Kill",
                         "{\"signal\":9,\"container\":\"web/a/b\"}"},
                        {"{\"type\":\"GET_CONTAINERS\"}", "List", "{}"},
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

TEST(launches_over_time_are_bounded)
{
        uint64_t next = 0, now = UINT64_C(1000000000);

        for (unsigned i = 0; i < CONTROL_BURST; i++)
                ASSERT_FALSE(control_api_exceeds_rate(&next, now));
        ASSERT_TRUE(control_api_exceeds_rate(&next, now));
        ASSERT_FALSE(control_api_exceeds_rate(&next, now + CONTROL_INTERVAL_USEC));
        ASSERT_TRUE(control_api_exceeds_rate(&next, now + CONTROL_INTERVAL_USEC));
}

TEST(output_is_sent_in_records)
{
        _cleanup_free_ char *record = output_record(false, "hello", 5);

        ASSERT_STREQ(record, "58\n{\"type\":\"DATA\",\"data\":{\"type\":\"STDOUT\",\"data\":\"aGVsbG8=\"}}");
}

int main(void)
{
        RUN(calls_become_those_of_the_supervisor);
        RUN(what_is_not_known_is_refused_by_name);
        RUN(launches_over_time_are_bounded);
        RUN(output_is_sent_in_records);
        return TEST_END();
}
