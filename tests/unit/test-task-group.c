/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Groups of tasks of Mesos as groups of apps. */

#include "schema/settings.h"
#include "stage0/arguments/task-group.h"

#include "tests/unit/test.h"

#define IMAGE "\"image\": {\"type\": \"DOCKER\", \"docker\": {\"name\": \"library/busybox:1\"}}"
#define TASK(id, more) "{\"task_id\": {\"value\": \"" id "\"}, \"name\": \"n\"" more "}"
#define CONTAINER(more) ", \"container\": {\"type\": \"MESOS\", \"mesos\": {" IMAGE "}" more "}"
#define GROUP(tasks) "{\"tasks\": [" tasks "]}"

static int parse(const char *text, bool nested, PodRequest *q, Error *e)
{
        return task_group_parse(text, strlen(text), NULL, nested, q, e);
}

static const char *setting(const AppOverrides *o, const char *name)
{
        return pair_list_get(&o->annotations, name);
}

TEST(a_task_with_everything)
{
        static const char text[] = GROUP(TASK(
                        "Web.1",
                        ", \"agent_id\": {\"value\": \"a\"}" CONTAINER(
                                        ", \"volumes\": [{\"mode\": \"RW\", \"container_path\": \"/data\", "
                                        "\"source\": {\"type\": \"SANDBOX_PATH\","
                                        "\"sandbox_path\": {\"type\": \"PARENT\", \"path\": "
                                        "\"shared/data\"}}},"
                                        "{\"mode\": \"RO\", \"container_path\": \"/etc/x\", \"host_path\": "
                                        "\"/srv/x\"},"
                                        "{\"mode\": \"RW\", \"container_path\": \"/own\", \"source\": "
                                        "{\"type\": \"SANDBOX_PATH\","
                                        "\"sandbox_path\": {\"type\": \"SELF\", \"path\": \"own\"}}}],"
                                        "\"linux_info\": {\"share_cgroups\": false, "
                                        "\"share_pid_namespace\": false}") ", \"command\": {\"value\": "
                                                                           "\"echo $A\", \"user\": \"7\", "
                                                                           "\"environment\": "
                                                                           "{\"variables\": ["
                                                                           "{\"name\": \"A\", \"value\": "
                                                                           "\"b\", \"type\": \"VALUE\"}]}}"
                                                                           ", \"resources\": [{\"name\": "
                                                                           "\"cpus\", \"type\": \"SCALAR\", "
                                                                           "\"scalar\": {\"value\": 0.25}},"
                                                                           "{\"name\": \"mem\", \"type\": "
                                                                           "\"SCALAR\", \"scalar\": "
                                                                           "{\"value\": 32}, \"role\": "
                                                                           "\"*\"}]"
                                                                           ", \"limits\": {\"cpus\": "
                                                                           "{\"value\": \"Infinity\"}, "
                                                                           "\"mem\": {\"value\": 64}}"
                                                                           ", \"health_check\": {\"type\": "
                                                                           "\"COMMAND\", \"command\": "
                                                                           "{\"shell\": false, \"value\": "
                                                                           "\"/bin/test\","
                                                                           "\"arguments\": [\"test\", "
                                                                           "\"-e\", \"/up\"]}, "
                                                                           "\"interval_seconds\": 2.5, "
                                                                           "\"consecutive_failures\": 5}"
                                                                           ", \"kill_policy\": "
                                                                           "{\"grace_period\": "
                                                                           "{\"nanoseconds\": 5000000000}}"
                                                                           ", \"max_completion_time\": "
                                                                           "{\"nanoseconds\": 60000000000}"
                                                                           ", \"labels\": {\"labels\": "
                                                                           "[{\"key\": \"tier\", \"value\": "
                                                                           "\"front\"}, {\"key\": "
                                                                           "\"acnspawn/control\", \"value\": "
                                                                           "\"true\"}, {\"key\": "
                                                                           "\"acnspawn/control-images\", "
                                                                           "\"value\": \"example.com/*\"}, "
                                                                           "{\"key\": \"acnspawn/grant\", "
                                                                           "\"value\": \"all\"}]}"));
        PodRequest q = {};

        ASSERT_OK(parse(text, false, &q, NULL));
        ASSERT_EQ(q.n_apps, 1);
        const AppOverrides *o = &q.apps[0];
        ASSERT_STREQ(o->name, "web-1");
        ASSERT_STREQ(o->reference, "docker://library/busybox:1");
        ASSERT_STREQ(o->exec[0], "/bin/sh");
        ASSERT_STREQ(o->exec[1], "-c");
        ASSERT_STREQ(o->exec[2], "echo $A");
        ASSERT_STREQ(o->user, "7");
        ASSERT_STREQ(pair_list_get(&o->environment, "A"), "b");
        const Isolator *cpu = isolator_list_find(&o->isolators, ISOLATOR_RESOURCE_CPU),
                       *memory = isolator_list_find(&o->isolators, ISOLATOR_RESOURCE_MEMORY);
        ASSERT_NOT_NULL(cpu);
        ASSERT_NOT_NULL(memory);
        ASSERT_EQ(cpu->request, 250);
        ASSERT_FALSE(cpu->has_limit);
        ASSERT_EQ(memory->request, 32 << 20);
        ASSERT_EQ(memory->limit, 64 << 20);
        ASSERT_STREQ(setting(o, "acnspawn/health-cmd"), "[\"CMD\",\"/bin/test\",\"-e\",\"/up\"]");
        ASSERT_STREQ(setting(o, "acnspawn/health-interval"), "2500000us");
        ASSERT_STREQ(setting(o, "acnspawn/health-retries"), "5");
        ASSERT_STREQ(setting(o, "acnspawn/health-on-failure"), "kill");
        ASSERT_STREQ(setting(o, "acnspawn/stop-timeout"), "5000000us");
        ASSERT_STREQ(setting(o, "acnspawn/max-runtime"), "60000000us");
        ASSERT_STREQ(setting(o, "acnspawn/pid"), "private");
        ASSERT_NULL(setting(o, "acnspawn/share-cgroups"));
        ASSERT_STREQ(pair_list_get(&o->user_labels, "tier"), "front");
        ASSERT_STREQ(setting(o, "acnspawn/control"), "true");
        ASSERT_STREQ(setting(o, "acnspawn/control-images"), "example.com/*");
        ASSERT_TRUE(!pair_list_get(&o->user_labels, "acnspawn/control"));
        ASSERT_TRUE(!setting(o, "acnspawn/grant")); /* an ordinary label */
        ASSERT_STREQ(pair_list_get(&o->user_annotations, "mesos/task-id"), "Web.1");
        ASSERT_EQ(o->n_mounts, 3);
        ASSERT_EQ(q.n_volumes, 3);
        ASSERT_STREQ(o->mounts[0].volume, "shared-data");
        ASSERT_STREQ(q.volumes[1].source, "/srv/x");
        ASSERT_TRUE(o->mounts[1].read_only);
        pod_request_done(&q);
}

#define SANDBOX(type, path)                                                                                 \
        CONTAINER(", \"volumes\": [{\"mode\": \"RW\", \"container_path\": \"/a\", \"source\": {\"type\": "  \
                  "\"SANDBOX_PATH\", "                                                                      \
                  "\"sandbox_path\": {\"type\": \"" type "\", \"path\": \"" path "\"}}}]")
#define HOST_PATH(target)                                                                                   \
        CONTAINER(", \"volumes\": [{\"mode\": \"RO\", \"container_path\": \"" target                        \
                  "\", \"host_path\": \"/srv\"}]")

/* Failures count after the delay and the grace period, whichever is longer. */
TEST(checks)
{
#define COMMAND "\"command\": {\"value\": \"a\"}"
        static const struct {
                const char *more, *start_period, *action;
        } cases[] = {
                        {"\"health_check\": {\"type\": \"COMMAND\", " COMMAND "}", "15000000us", "kill"},
                        {"\"health_check\": {" COMMAND
                         ", \"delay_seconds\": 15.0, \"grace_period_seconds\": 10.0}",
                         "15000000us", "kill"},
                        {"\"health_check\": {" COMMAND
                         ", \"delay_seconds\": 0, \"grace_period_seconds\": 2.5}",
                         "2500000us", "kill"},
                        {"\"health_check\": {" COMMAND
                         ", \"delay_seconds\": 3, \"grace_period_seconds\": 0}",
                         "3000000us", "kill"},
                        {"\"health_check\": {" COMMAND ", \"delay_seconds\": 1}", "10000000us", "kill"},
                        {"\"check\": {\"type\": \"COMMAND\", \"command\": {" COMMAND "}}", "15000000us",
                         "none"},
                        {"\"check\": {\"type\": \"COMMAND\", \"command\": {" COMMAND
                         "}, \"delay_seconds\": 0}",
                         "0us", "none"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *text = NULL;
                PodRequest q = {};

                ASSERT_OK(xasprintf(&text, GROUP("{\"task_id\": {\"value\": \"a\"}, %s}"), cases[i].more));
                ASSERT_OK(parse(text, true, &q, NULL));
                ASSERT_STREQ(setting(&q.apps[0], "acnspawn/health-start-period"), cases[i].start_period);
                ASSERT_STREQ(setting(&q.apps[0], "acnspawn/health-on-failure"), cases[i].action);
                ASSERT_STREQ(setting(&q.apps[0], "acnspawn/health-interval"), "10s");
                pod_request_done(&q);
        }
}

/* A later group neither has the volumes of one task of an earlier one. */
TEST(volumes_of_tasks_of_earlier_groups)
{
        Volume volumes[] = {{.name = (char *) "a-b"}, {.name = (char *) "a-c"}, {.name = (char *) "shared"}};
        App app = {};
        PodApp a = {.name = (char *) "a", .app = &app}, *apps[] = {&a};
        const PodManifest m = {.volumes = volumes, .n_volumes = 3, .apps = apps, .n_apps = 1};
        static const struct {
                const char *text;
                int r;
        } cases[] = {{GROUP(TASK("c", SANDBOX("PARENT", "a-b"))), -EINVAL},
                     {GROUP(TASK("c", SANDBOX("PARENT", "a/c"))), -EINVAL},
                     {GROUP(TASK("c", SANDBOX("PARENT", "shared"))), 0}};
        PodRequest q = {};

        ASSERT_OK(parse(GROUP(TASK("a", SANDBOX("SELF", "b"))), false, &q, NULL));
        ASSERT_STREQ(pair_list_get(&q.apps[0].user_annotations, "mesos/own-volumes"), "a-b");
        pod_request_done(&q);
        ASSERT_OK(pair_list_set(&app.user_annotations, "mesos/own-volumes", "a-b a-c"));
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                ASSERT_EQ(task_group_parse(cases[i].text, strlen(cases[i].text), &m, false, &q, NULL),
                          cases[i].r);
                pod_request_done(&q);
        }
        pair_list_done(&app.user_annotations);
}

TEST(nested_tasks)
{
        static const char text[] =
                        GROUP(TASK("a", ", \"command\": {\"value\": \"true\"}, "
                                        "\"resources\": [{\"name\": \"mem\","
                                        "\"type\": \"SCALAR\", \"scalar\": {\"value\": "
                                        "32}}]") "," TASK("b", ", \"command\": {\"shell\": "
                                                               "false, \"arguments\": "
                                                               "[\"-v\"]}" CONTAINER(", "
                                                                                     "\"linux_info\": "
                                                                                     "{\"share_"
                                                                                     "cgroups\": "
                                                                                     "true}")));
        PodRequest q = {};

        ASSERT_OK(parse(text, true, &q, NULL));
        ASSERT_EQ(q.n_apps, 2);
        ASSERT_STREQ(q.apps[0].reference, "@parent");
        ASSERT_EQ(q.apps[0].isolators.n, 0); /* it counts against those of the parent */
        ASSERT_STREQ(setting(&q.apps[1], "acnspawn/share-cgroups"), "true");
        ASSERT_STREQ(q.apps[1].args[0], "-v");
        ASSERT_NULL(q.apps[1].exec);
        pod_request_done(&q);
}

TEST(an_image_of_appc)
{
        PodRequest q = {};

        ASSERT_OK(parse(GROUP(TASK("a", ", \"container\": {\"mesos\": {\"image\": {\"type\": \"APPC\", "
                                        "\"appc\": {\"labels\": {"
                                        "\"labels\": [{\"key\": \"version\", \"value\": \"1\"}]}, \"name\": "
                                        "\"example.com/a\"}}}}")),
                        false, &q, NULL));
        ASSERT_STREQ(q.apps[0].reference, "example.com/a,version=1");
        pod_request_done(&q);
}

/* Each by its place. */
TEST(what_cannot_be_honoured)
{
        static const struct {
                const char *more, *message;
                bool nested;
        } cases[] = {
                        {", \"discovery\": {}", "tasks[0].discovery: this cannot be honoured"},
                        {", \"executor\": {}", "tasks[0].executor: this cannot be honoured"},
                        {", \"data\": \"\"", "tasks[0].data: this cannot be honoured"},
                        {", \"check\": {}", "tasks[0].check: it needs command"},
                        {", \"name\": 1", "tasks[0].name: it is not a string"},
                        {", \"command\": {\"uris\": []}", "tasks[0].command.uris: this cannot be honoured"},
                        {", \"command\": {}", "tasks[0].command: a command of the shell needs value"},
                        {", \"command\": {\"shell\": false, \"value\": \"/bin/a\", \"arguments\": [\"b\"]}",
                         "tasks[0].command: the first of arguments"},
                        {", \"command\": {\"value\": \"a\", \"environment\": {\"variables\": [{\"name\": "
                         "\"A\", \"value\": \"b\", "
                         "\"type\": \"SECRET\"}]}}",
                         "tasks[0].command.environment.variables[0].type: 'SECRET' cannot be honoured"},
                        {", \"container\": {\"type\": \"DOCKER\"}",
                         "tasks[0].container.type: 'DOCKER' cannot be honoured"},
                        {", \"container\": {\"hostname\": \"h\"}",
                         "tasks[0].container.hostname: this cannot be honoured"},
                        {", \"container\": {\"network_infos\": []}",
                         "tasks[0].container.network_infos: this cannot be honoured"},
                        {", \"container\": {\"tty_info\": {}}",
                         "tasks[0].container.tty_info: this cannot be honoured"},
                        {", \"container\": {\"mesos\": {\"image\": {\"type\": \"DOCKER\", \"docker\": "
                         "{\"name\": \"a\"}, \"cached\": "
                         "false}}}",
                         "tasks[0].container.mesos.image.cached: images are not fetched anew"},
                        {", \"container\": {\"linux_info\": {\"effective_capabilities\": {}}}",
                         "tasks[0].container.linux_info.effective_capabilities: this cannot be honoured"},
                        {CONTAINER(", \"volumes\": [{\"mode\": \"RW\", \"container_path\": \"rel\", "
                                   "\"host_path\": \"/a\"}]"),
                         "tasks[0].container.volumes[0]: it needs container_path"},
                        {CONTAINER(", \"volumes\": [{\"mode\": \"RW\", \"container_path\": \"/a\", "
                                   "\"host_path\": \"rel\"}]"),
                         "tasks[0].container.volumes[0].host_path: it is not an absolute path of the host"},
                        {CONTAINER(", \"volumes\": [{\"mode\": \"RW\", \"container_path\": \"/a\", "
                                   "\"source\": {\"type\": \"SECRET\"}}]"),
                         "tasks[0].container.volumes[0].source.type: 'SECRET' cannot be honoured"},
                        {CONTAINER(", \"volumes\": [{\"mode\": \"RW\", \"container_path\": \"/a\", "
                                   "\"source\": {\"type\": "
                                   "\"SANDBOX_PATH\", \"sandbox_path\": {\"type\": \"PARENT\", \"path\": "
                                   "\"../b\"}}}]"),
                         "tasks[0].container.volumes[0].source.sandbox_path: it needs a type"},
                        {CONTAINER(", \"volumes\": [{\"mode\": \"RW\", \"container_path\": \"/a\", "
                                   "\"source\": {\"type\": "
                                   "\"SANDBOX_PATH\", \"sandbox_path\": {\"type\": \"PARENT\", \"path\": "
                                   "\"b\"}}}]"),
                         "the parent has no volume 'b'", true},
                        {", \"resources\": [{\"name\": \"disk\", \"type\": \"SCALAR\", \"scalar\": "
                         "{\"value\": 1}}]",
                         "tasks[0].resources[0]: only cpus and mem"},
                        {", \"resources\": [{\"name\": \"cpus\", \"type\": \"SCALAR\", \"scalar\": "
                         "{\"value\": -1}}]",
                         "tasks[0].resources[0]: it needs value, a number"},
                        {", \"resources\": [{\"name\": \"ports\", \"type\": \"RANGES\", \"ranges\": {}}]",
                         "tasks[0].resources[0].type: 'RANGES' cannot be honoured"},
                        {", \"resources\": [{\"name\": \"cpus\", \"reservations\": []}]",
                         "tasks[0].resources[0].reservations: this cannot be honoured"},
                        {", \"limits\": {\"mem\": {\"value\": 1}}", "share_cgroups to be false", true},
                        {", \"limits\": {\"disk\": {\"value\": 1}}",
                         "tasks[0].limits.disk: this cannot be honoured"},
                        {", \"health_check\": {\"type\": \"HTTP\", \"http\": {}}",
                         "tasks[0].health_check: checks of type HTTP cannot be made from outside of the "
                         "app; give it type "
                         "COMMAND, with a program of the image such as wget"},
                        {", \"health_check\": {\"tcp\": {\"port\": 80}}",
                         "tasks[0].health_check: checks of type TCP cannot be made from outside of the app; "
                         "give it type "
                         "COMMAND, with a program of the image such as nc -z"},
                        {", \"check\": {\"type\": \"HTTP\", \"http\": {}}",
                         "tasks[0].check: checks of type HTTP"},
                        {", \"check\": {\"type\": \"COMMAND\", \"command\": {}}",
                         "tasks[0].check.command: it needs command"},
                        {", \"check\": {\"type\": \"COMMAND\", \"command\": {\"command\": {\"value\": "
                         "\"a\"}}}, "
                         "\"health_check\": {\"type\": \"COMMAND\", \"command\": {\"value\": \"a\"}}",
                         "tasks[0].health_check: a task has either check or health_check"},
                        {", \"health_check\": {\"type\": \"COMMAND\", \"command\": {\"value\": \"a\"}, "
                         "\"delay_seconds\": -1}",
                         "tasks[0].health_check.delay_seconds: it is not a number of seconds"},
                        {", \"kill_policy\": {\"grace_period\": {\"nanoseconds\": 0}}",
                         "tasks[0].kill_policy.grace_period: it needs nanoseconds"},
                        {"", "tasks[0]: it needs container.mesos.image"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_error_ Error e = ERROR_NULL;
                _cleanup_free_ char *text = NULL;
                PodRequest q = {};

                ASSERT_OK(xasprintf(&text, GROUP("{\"task_id\": {\"value\": \"a\"}%s}"), cases[i].more));
                ASSERT_ERR(parse(text, cases[i].nested, &q, &e), -EINVAL);
                ASSERT_CONTAINS(e.message, cases[i].message);
                pod_request_done(&q);
        }
}

/* Different places whose names would be the same; those of the pod are not those of a task. */
TEST(volumes_are_not_mixed_up)
{
        static const char *const pairs[][2] = {
                        {TASK("a", SANDBOX("SELF", "b/c")), TASK("a-b", SANDBOX("SELF", "c"))},
                        {TASK("a", SANDBOX("SELF", "b")), TASK("c", SANDBOX("PARENT", "a-b"))},
                        {TASK("c", SANDBOX("PARENT", "a/b")), TASK("a", SANDBOX("SELF", "b"))},
                        {TASK("a", SANDBOX("PARENT", "a/b")), TASK("c", SANDBOX("PARENT", "a-b"))},
                        {TASK("a", HOST_PATH("/b")), TASK("c", SANDBOX("PARENT", "a-b"))},
                        {TASK("c", SANDBOX("PARENT", "a-b")), TASK("a", HOST_PATH("/b"))},
        };
        Volume volumes[] = {{.name = (char *) "a-b"}};
        const PodManifest m = {.volumes = volumes, .n_volumes = 1};
        static const char same[] =
                        GROUP(TASK("a", SANDBOX("PARENT", "a/b")) "," TASK("c", SANDBOX("PARENT", "a/b/"))),
                          self[] = GROUP(TASK("a", SANDBOX("SELF", "b")));
        PodRequest q = {};

        for (size_t i = 0; i < ELEMENTSOF(pairs); i++) {
                _cleanup_error_ Error e = ERROR_NULL;
                _cleanup_free_ char *text = NULL;
                ASSERT_OK(xasprintf(&text, GROUP("%s,%s"), pairs[i][0], pairs[i][1]));
                ASSERT_ERR(parse(text, false, &q, &e), -EINVAL);
                ASSERT_CONTAINS(e.message, "tasks[1].container.volumes[0].");
                pod_request_done(&q);
        }
        ASSERT_OK(parse(same, false, &q, NULL));
        ASSERT_EQ(q.n_volumes, 1);
        pod_request_done(&q);
        ASSERT_OK(task_group_parse(same, strlen(same), &m, false, &q, NULL));
        ASSERT_EQ(q.n_volumes, 0);
        pod_request_done(&q);
        ASSERT_ERR(task_group_parse(self, strlen(self), &m, false, &q, NULL), -EINVAL);
        pod_request_done(&q);
}

TEST(all_errors_are_told)
{
        _cleanup_error_ Error e = ERROR_NULL;
        PodRequest q = {};

        ASSERT_ERR(parse("{\"tasks\": [{}, {\"x\": 1}, 3], \"y\": 1}", false, &q, &e), -EINVAL);
        ASSERT_CONTAINS(e.message, "tasks[0]: it needs task_id");
        ASSERT_CONTAINS(e.message, "tasks[1].x: this cannot be honoured");
        ASSERT_CONTAINS(e.message, "tasks[2]: it is not an object");
        ASSERT_CONTAINS(e.message, "y: this cannot be honoured");
        pod_request_done(&q);
        error_done(&e);
        ASSERT_ERR(parse("{\"tasks\": []}", false, &q, &e), -EINVAL);
        ASSERT_CONTAINS(e.message, "The group has no tasks");
        error_done(&e);
        ASSERT_ERR(parse("{", false, &q, &e), -EBADMSG);
        ASSERT_TRUE(task_group_is("{\"tasks\": []}", strlen("{\"tasks\": []}")));
        ASSERT_FALSE(task_group_is("{\"apps\": []}", strlen("{\"apps\": []}")));
        ASSERT_FALSE(task_group_is("[", 1));
        pod_request_done(&q);
}

int main(void)
{
        RUN(a_task_with_everything);
        RUN(checks);
        RUN(volumes_of_tasks_of_earlier_groups);
        RUN(nested_tasks);
        RUN(an_image_of_appc);
        RUN(what_cannot_be_honoured);
        RUN(volumes_are_not_mixed_up);
        RUN(all_errors_are_told);
        return TEST_END();
}
