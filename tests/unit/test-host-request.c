/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* stage0/host-service/request.c: parameters of PreparePod() and RunPod(). */

#include "schema/idl.h"
#include "stage0/host-service/service-internal.h"
#include "tests/unit/test.h"

#define WEB "\"definition\":{\"apps\":[{\"image\":\"example.com/web\",\"name\":\"web\"}]}"

typedef struct Parsed {
        json_object *parameters;
        PodArguments arguments;
        char *field;
        Error error;
        int result;
} Parsed;

static void parsed_done(Parsed *p)
{
        pod_arguments_done(&p->arguments);
        json_object_put(p->parameters);
        free(p->field);
        error_done(&p->error);
}

/* As the service gets them: compared with the description first. */
static Parsed parse(const char *text)
{
        char where[IDL_NAME_MAX] = "";
        Parsed p = {.parameters = json_tokener_parse(text)};
        const char *type;

        pod_arguments_init(&p.arguments);
        p.result = idl_find(host_interface_description, "method", "PreparePod", &type);
        if (p.result >= 0)
                p.result = idl_compare(host_interface_description, type, p.parameters, where);
        if (p.result >= 0)
                p.result = host_request_parse(p.parameters, &p.arguments, &p.field, &p.error);
        else
                (void) error_set(&p.error, p.result, "The description does not have '%s'", where);
        return p;
}

TEST(values_are_those_of_the_command_line)
{
        _cleanup_(parsed_done) Parsed p = parse(
                        "{\"definition\":{\"apps\":[{\"image\":\"/a.aci\",\"name\":\"a\",\"args\":[\"x\"]},"
                        "{\"image\":\"docker://example.com/"
                        "b\"}],\"volumes\":[{\"name\":\"v\",\"kind\":\"empty\"}],"
                        "\"verify\":true},"
                        "\"options\":{\"name\":\"web\",\"replace\":true,\"net\":[\"default\",\"other\"],"
                        "\"dnsSearch\":[\"example.com\",\"example.org\"],\"exitPolicy\":\"all\","
                        "\"stopTimeout\":\"1min\","
                        "\"noUserns\":true,\"strict\":true,\"hostname\":null},"
                        "\"fetch\":{\"pullPolicy\":\"never\",\"insecureOptions\":[\"http\",\"tls\"],"
                        "\"minSpeed\":\"7\"},"
                        "\"credentials\":[{\"name\":\"k\",\"data\":\"00ff\",\"app\":\"a\"},{\"name\":\"k\","
                        "\"data\":\"\"}]}");
        const PodArguments *a = &p.arguments;

        ASSERT_OK(p.result);
        ASSERT_EQ(a->request.n_apps, 2);
        ASSERT_STREQ(a->request.apps[0].args[0], "x");
        ASSERT_STREQ(a->request.apps[1].reference, "docker://example.com/b");
        ASSERT_EQ(a->request.n_volumes, 1);
        ASSERT_TRUE(a->request.verify && a->options.strict && a->options.replace &&
                    !a->options.private_users);
        ASSERT_STREQ(a->options.name, "web");
        ASSERT_NULL(a->options.hostname);
        ASSERT_EQ(a->options.net, NET_NETWORKS);
        ASSERT_STREQ(a->options.networks[1], "other");
        ASSERT_STREQ(a->options.dns_search[1], "example.org");
        ASSERT_EQ(a->options.exit_policy, EXIT_ON_ALL);
        ASSERT_EQ(a->options.stop_timeout_usec, 60000000);
        ASSERT_EQ(a->fetch.policy, PULL_NEVER);
        ASSERT_EQ(a->fetch.insecure, (unsigned) (INSECURE_HTTP | INSECURE_TLS));
        ASSERT_EQ(a->fetch.speed_min, 7);
        ASSERT_EQ(a->request.apps[0].credentials.n, 1);
        ASSERT_EQ(a->request.apps[0].credentials.items[0].size, 2);
        ASSERT_EQ(a->request.credentials.n, 1);
}

TEST(defaults_are_those_of_the_command_line)
{
        _cleanup_(parsed_done) Parsed p =
                        parse("{" WEB ",\"options\":{\"replace\":false,\"noUserns\":false}}");

        ASSERT_OK(p.result);
        ASSERT_TRUE(p.arguments.options.private_users && !p.arguments.options.replace);
        ASSERT_EQ(p.arguments.options.net, NET_NONE);
        ASSERT_EQ(p.arguments.options.stop_timeout_usec, 10000000);
}

TEST(a_policy_for_all_apps)
{
        _cleanup_(parsed_done) Parsed p = parse("{" WEB ",\"options\":{\"imagePolicy\":\"local\"}}");

        ASSERT_OK(p.result);
        ASSERT_STREQ(pair_list_get(&p.arguments.request.apps[0].annotations, "acnspawn/image-policy"), "local");
}

TEST(fields_that_are_refused)
{
        static const struct {
                const char *text, *field, *message;
        } bad[] = {
                        {"{\"definition\":{}}", "definition", "It needs apps"},
                        {"{\"definition\":{\"apps\":[]}}", "definition", "It needs apps"},
                        {"{\"definition\":{\"apps\":[{\"image\":\"a\",\"x\":1}]}}", "definition",
                         "apps[0]: unknown member 'x'"},
                        {"{\"definition\":{\"apps\":[{}]}}", "definition", "apps[0]: 'image' is missing"},
                        {"{\"definition\":{\"apps\":[{\"image\":\"a\"}],\"podManifest\":{\"acVersion\":\"0."
                         "8.11\","
                         "\"acKind\":\"PodManifest\",\"apps\":[]}}}",
                         "definition", "cannot be combined"},
                        {"{\"definition\":{\"apps\":[{\"image\":\"-\"}]}}", "definition.apps[0]",
                         "absolute path"},
                        {"{\"definition\":{\"apps\":[{\"image\":\"\"}]}}", "definition.apps[0]",
                         "absolute path"},
                        {"{\"definition\":{\"apps\":[{\"image\":\"a\"},{\"image\":\"./b\"}]}}",
                         "definition.apps[1]", "'./b' is not an absolute path"},
                        {"{\"definition\":{\"apps\":[{\"image\":\"oci:b:c\"}]}}", "definition.apps[0]",
                         "'oci:b:c' is not an absolute path"},
                        {"{" WEB ",\"options\":{\"name\":\"-\"}}", "options.name", "--name"},
                        {"{" WEB ",\"options\":{\"net\":[\"a\",\"b c\"]}}", "options.net", "--net"},
                        {"{" WEB ",\"options\":{\"exitPolicy\":\"x\"}}", "options.exitPolicy", "on-failure"},
                        {"{" WEB ",\"options\":{\"imagePolicy\":\"x\"}}", "options.imagePolicy",
                         "registry, local or none"},
                        {"{" WEB ",\"options\":{\"exitIdleTime\":\"-1\"}}", "options.exitIdleTime",
                         "--exit-idle-time"},
                        {"{" WEB ",\"options\":{\"replace\":true}}", "options.replace", "name"},
                        {"{" WEB ",\"options\":{\"dns\":[\"none\"],\"dnsOption\":[\"ndots:2\"]}}", "options",
                         "--dns=none"},
                        {"{" WEB ",\"fetch\":{\"pullPolicy\":\"x\"}}", "fetch.pullPolicy",
                         "new, update or never"},
                        {"{" WEB ",\"credentials\":[{\"name\":\"k\",\"data\":\"0\"}]}", "credentials",
                         "hexadecimal"},
                        {"{" WEB ",\"credentials\":[{\"name\":\"k\",\"data\":\"\",\"app\":\"x\"}]}",
                         "credentials", "'x'"},
                        {"{" WEB
                         ",\"credentials\":[{\"name\":\"k\",\"data\":\"\"},{\"name\":\"k\",\"data\":\"\"}]}",
                         "credentials", "'k'"},
        };

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                _cleanup_(parsed_done) Parsed p = parse(bad[i].text);

                ASSERT_ERR(p.result, -EINVAL);
                ASSERT_STREQ(p.field, bad[i].field);
                ASSERT_CONTAINS(p.error.message, bad[i].message);
        }
}

TEST(a_pod_without_apps)
{
        _cleanup_(parsed_done) Parsed p =
                        parse("{\"definition\":{},\"options\":{\"exitPolicy\":\"never\",\"name\":\"box\"}}");

        ASSERT_OK(p.result);
        ASSERT_EQ(p.arguments.options.exit_policy, EXIT_NEVER);
}

/* What the description offers there is on the command line, too. */
static void check_options(const char *type, const char *field)
{
        const char *at;

        ASSERT_OK(idl_find(host_interface_description, "type", type, &at));
        const char *end = strchr(at, ')');
        ASSERT_TRUE(end != NULL);
        for (const char *p = strchr(at, '(') + 1, *colon; (colon = memchr(p, ':', (size_t) (end - p)));
             p = strchr(colon, '\n')) {
                _cleanup_free_ char *request = NULL, *name = NULL;
                const char *value = startswith(colon, ": ?bool")       ? "false"
                                    : startswith(colon, ": ?[]string") ? "[]"
                                                                       : "null";
                p += strspn(p, " \n");
                ASSERT_OK(xasprintf(&name, "%.*s", (int) (colon - p), p));
                ASSERT_OK(xasprintf(&request, "{" WEB ",\"%s\":{\"%s\":%s}}", field, name, value));
                _cleanup_(parsed_done) Parsed parsed = parse(request);
                ASSERT_OK(parsed.result);
                if (!streq(value, "null") || streq(name, "strict"))
                        continue;
                /* A text is taken by an option, and not unknown. */
                free(request);
                ASSERT_OK(xasprintf(&request, "{" WEB ",\"%s\":{\"%s\":\"/ / /\"}}", field, name));
                _cleanup_(parsed_done) Parsed wrong = parse(request);
                ASSERT_ERR(wrong.result, -EINVAL);
                ASSERT_TRUE(strstr(wrong.error.message, "There is no option") == NULL);
        }
}

TEST(options_of_the_description_are_options)
{
        check_options("PodOptions", "options");
        check_options("FetchOptions", "fetch");
}

int main(void)
{
        RUN(values_are_those_of_the_command_line);
        RUN(defaults_are_those_of_the_command_line);
        RUN(a_policy_for_all_apps);
        RUN(fields_that_are_refused);
        RUN(a_pod_without_apps);
        RUN(options_of_the_description_are_options);
        return TEST_END();
}
