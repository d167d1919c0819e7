/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Requests for metrics, where they are served, and messages of the CRI as JSON. */

#include "cri/exporter/exporter.h"
#include "tests/unit/test.h"

TEST(places)
{
        static const char *const good[] = {"/run/metrics.sock", "/", "1", "9327", "65535"},
                                 *const bad[] = {"",   "0", "65536",        "-1",
                                                 "+1", "x", "metrics.sock", "127.0.0.1:1",
                                                 "1x"};

        for (size_t i = 0; i < ELEMENTSOF(good); i++)
                ASSERT_OK(exporter_check(good[i]));
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                ASSERT_EQ(exporter_check(bad[i]), -EINVAL);
}

static const char *judge(const char *head)
{
        return exporter_judge(head, strlen(head)) ?: "more";
}

TEST(requests)
{
        static char large[EXPORTER_HEAD_MAX];

        ASSERT_STREQ(judge(""), "more");
        ASSERT_STREQ(judge("GET /metrics HTTP/1.1\r\n"), "more");
        ASSERT_STREQ(judge("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), "200 OK");
        ASSERT_STREQ(judge("GET /metrics?a=b HTTP/1.0\r\n\r\n"), "200 OK");
        ASSERT_STREQ(judge("GET /metrics\r\n\r\n"), "404 Not Found");
        ASSERT_STREQ(judge("GET /metrics2 HTTP/1.1\r\n\r\n"), "404 Not Found");
        ASSERT_STREQ(judge("GET \r\n\r\n"), "404 Not Found");
        ASSERT_STREQ(judge("\r\n\r\n"), "405 Method Not Allowed");
        ASSERT_STREQ(judge("HEAD /metrics HTTP/1.1\r\n\r\n"), "405 Method Not Allowed");
        memset(large, 'x', sizeof(large));
        ASSERT_NULL(exporter_judge(large, sizeof(large) - 1));
        ASSERT_STREQ(exporter_judge(large, sizeof(large)), "431 Request Header Fields Too Large");
}

TEST(messages_as_json)
{
        Runtime__V1__ContainerConfig c = RUNTIME__V1__CONTAINER_CONFIG__INIT;
        Runtime__V1__ContainerMetadata m = RUNTIME__V1__CONTAINER_METADATA__INIT;
        Runtime__V1__ContainerConfig__LabelsEntry entry = RUNTIME__V1__CONTAINER_CONFIG__LABELS_ENTRY__INIT;
        Runtime__V1__ContainerConfig__LabelsEntry *labels[] = {&entry};
        Runtime__V1__Mount mount = RUNTIME__V1__MOUNT__INIT, *mounts[] = {&mount};
        char *command[] = {(char *) "sh", (char *) "", NULL};
        _cleanup_json_ json_object *o = cri_json(&c.base), *none = cri_json(NULL);

        ASSERT_STREQ(json_print(o), "{}");
        ASSERT_STREQ(json_print(none), "{}");
        m.name = (char *) "main";
        m.attempt = 3;
        entry.key = (char *) "k";
        entry.value = (char *) "";
        mount.host_path = (char *) "/h";
        mount.readonly = true;
        mount.propagation = RUNTIME__V1__MOUNT_PROPAGATION__PROPAGATION_BIDIRECTIONAL;
        c.metadata = &m;
        c.labels = labels;
        c.n_labels = 1;
        c.mounts = mounts;
        c.n_mounts = 1;
        c.command = command;
        c.n_command = 2;
        c.tty = true;
        json_object_put(o);
        o = cri_json(&c.base);
        ASSERT_STREQ(json_print(o),
                     "{\"metadata\":{\"name\":\"main\",\"attempt\":3},\"command\":[\"sh\",\"\"],\"mounts\":[{\"host_path\":"
                     "\"/h\",\"readonly\":true,\"propagation\":2}],\"labels\":{\"k\":\"\"},\"tty\":true}");
}

TEST(processes_as_json)
{
        _cleanup_json_ json_object *none = cri_json_linux(NULL, 0), *o = cri_json_linux("/c", 7);

        ASSERT_STREQ(json_print(none), "{\"namespaces\":[]}");
        ASSERT_CONTAINS(json_print(o), "\"cgroupsPath\":\"/c\"");
        ASSERT_CONTAINS(json_print(o), "{\"type\":\"network\",\"path\":\"/proc/7/ns/net\"}");
}

int main(void)
{
        RUN(places);
        RUN(requests);
        RUN(messages_as_json);
        RUN(processes_as_json);
        return TEST_END();
}
