/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Each allocation fails once, in a Varlink service that answers a call, and in a client that makes one: see allocations.h.
 * A call is answered as it should be, or by an error, or loses its connection; never by anything else. */

#include <sys/socket.h>

#include "library/libsystemd.h"
#include "tests/unit/allocations.h"
#include "varlink/varlink.h"

static const char description[] =
                "interface org.example.test\n"
                "method Echo(word: string, more: ?[]string) -> (word: string, more: ?[]string)\n"
                "method Count() -> (n: int)\n";

static int echo(VarlinkCall *c, json_object *parameters, void *userdata)
{
        return varlink_reply(c, parameters);
}

static int count(VarlinkCall *c, json_object *parameters, void *userdata)
{
        int r = 0;

        for (int i = 0; i < 3 && r >= 0; i++) {
                _cleanup_json_ json_object *o = json_object_new_object();
                r = json_member_add(o, "n", json_object_new_int(i));
                if (r >= 0)
                        r = i < 2 ? varlink_reply_continues(c, o) : varlink_reply(c, o);
        }
        return r;
}

static const VarlinkMethod methods[] = {{"Echo", echo, 0}, {"Count", count, VARLINK_METHOD_MORE}};
static const VarlinkInterface interface = {"org.example.test", description, methods, ELEMENTSOF(methods)};

/* All messages that have come, a line each. */
static void receive(int fd, Text *result)
{
        char buffer[8192];
        ssize_t n;

        while ((n = recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT)) > 0)
                for (ssize_t i = 0; i < n; i++)
                        text_add_bytes(result, buffer[i] ? &buffer[i] : "\n", 1);
        if (n == 0)
                text_add(result, "end\n");
}

/* A call is lost with its connection, or is answered by an error; that is no failure of the service. */
static int verdict(const Text *answers, const char *const *replies, Text *result, Error *e)
{
        const char *s = answers->data ?: "";

        if (answers->failed)
                return -EPROTO;
        for (; *replies; replies++) {
                const char *rest = startswith(s, *replies);
                if (!rest && (startswith(s, "end") || strstr(s, "\"errno\":12") || !*s))
                        return error_oom(e);
                if (!rest) {
                        text_add(result, s);
                        return 0;
                }
                text_add(result, *replies);
                s = rest;
        }
        text_add(result, s);
        return 0;
}

typedef struct Call {
        const char *text;
        const char *const *replies;
} Call;

static int serve(void *userdata, Text *result, Error *e)
{
        _cleanup_(varlink_server_freep) VarlinkServer *s = NULL;
        _cleanup_text_ Text answers = {};
        const Call *call = userdata;
        sd_event *event = NULL;
        int fds[2];

        if (sd_event_new(&event) < 0 ||
            socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
                return -EIO;
        int r = varlink_server_new(event, "Product", "1", &s, e);
        if (r >= 0)
                r = varlink_server_add_interface(s, &interface, NULL, e);
        if (r >= 0)
                r = without_message(varlink_server_add_connection(s, fds[1]), e);
        else
                safe_close(fds[1]);
        if (r >= 0) {
                (void) send(fds[0], call->text, strlen(call->text) + 1, MSG_NOSIGNAL);
                while (sd_event_run(event, 0) > 0)
                        ;
                unsigned at = allocations_suspend();
                receive(fds[0], &answers);
                r = verdict(&answers, call->replies, result, e);
                allocations_resume(at);
        }
        s = varlink_server_free(s);
        sd_event_unref(event);
        safe_close(fds[0]);
        return r;
}

#define CALL(name, text, ...)                                                                               \
        TEST(name)                                                                                          \
        {                                                                                                   \
                static const char *const replies[] = {__VA_ARGS__, NULL};                                   \
                Call call = {text, replies};                                                                \
                for_each_failing_allocation(serve, &call);                                                  \
        }

CALL(echoed,
     "{\"method\":\"org.example.test.Echo\",\"parameters\":{\"word\":\"a\\u00e4\",\"more\":[\"x\",\"y\"]}}",
     "{\"parameters\":{\"word\":\"a\u00e4\",\"more\":[\"x\",\"y\"]}}\n")
CALL(counted, "{\"method\":\"org.example.test.Count\",\"more\":true}",
     "{\"parameters\":{\"n\":0},\"continues\":true}\n", "{\"parameters\":{\"n\":1},\"continues\":true}\n",
     "{\"parameters\":{\"n\":2}}\n")
CALL(invalid_parameter, "{\"method\":\"org.example.test.Echo\",\"parameters\":{\"word\":5}}",
     "{\"error\":\"org.varlink.service.InvalidParameter\",\"parameters\":{\"parameter\":\"word\"}}\n")
CALL(no_such_method, "{\"method\":\"org.example.test.None\"}",
     "{\"error\":\"org.varlink.service.MethodNotFound\",\"parameters\":{\"method\":\"None\"}}\n")
CALL(broken, "{\"method\":", "end\n")

/* The reply is there before the client asks. */
static int ask(void *userdata, Text *result, Error *e)
{
        _cleanup_(varlink_client_freep) VarlinkClient *c = NULL;
        _cleanup_json_ json_object *parameters = json_object_new_object();
        const char *reply = userdata;
        VarlinkReply got = {};
        int fds[2];

        if (json_member_add_text(parameters, "word", "a") < 0)
                return error_oom(e);
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
                return -errno;
        (void) send(fds[0], reply, strlen(reply) + 1, MSG_NOSIGNAL);
        int r = without_message(varlink_client_new(fds[1], NULL, &c), e);
        if (r >= 0)
                r = varlink_client_call(c, "org.example.test.Echo", parameters, UINT64_MAX, &got, e);
        if (r >= 0) {
                const char *text = json_print(got.parameters);
                text_addf(result, "%s %s", got.error ?: "", text ?: "");
                result->failed |= !text;
        }
        varlink_reply_done(&got);
        safe_close(fds[0]);
        return r;
}

TEST(client)
{
        for_each_failing_allocation(ask, (void *) "{\"parameters\":{\"word\":\"b\",\"list\":[1,2,{}]}}");
        for_each_failing_allocation(
                        ask, (void *) "{\"error\":\"org.example.test.Sad\",\"parameters\":{\"why\":\"x\"}}");
        for_each_failing_allocation_of_invalid(ask, (void *) "{\"parameters\":");
}

int main(void)
{
        if (library_load(&systemd_library, NULL) < 0)
                return TEST_SKIP_ALL("no libsystemd");
        RUN(echoed);
        RUN(counted);
        RUN(invalid_parameter);
        RUN(no_such_method);
        RUN(broken);
        RUN(client);
        return TEST_END();
}
