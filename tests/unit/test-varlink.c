/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Varlink: replies of services, byte for byte; peers that violate the protocol; and clients. */

#include <poll.h>
#include <sys/un.h>

#include "library/libsystemd.h"
#include "tests/unit/test.h"
#include "varlink/varlink-internal.h"

static const char description[] = "# For tests.\n"
                                  "interface org.example.test\n"
                                  "type Point (x: int, y: ?int)\n"
                                  "type Color (red, green, dark_blue) # three\n"
                                  "type Tree (name: string, children: []Tree)\n"
                                  "method Echo(word: string) -> (word: string)\n"
                                  "method Kinds(b: ?bool, i: ?int, s: ?string, o: ?object, l: ?[]int, p: "
                                  "?Point, c: ?Color, e: ?(on, off), t: ?Tree, n: ?[]?int,\n"
                                  "        st: ?(a: (b: []string))) -> ()\n"
                                  "method Later() -> (n: int)\n"
                                  "method Watch() -> (n: int)\n"
                                  "method Descriptors(reply: ?int) -> (text: []string)\n"
                                  "method Ping() -> ()\n"
                                  "method Missing() -> ()\n"
                                  "method Count(to: int) -> (n: int)\n"
                                  "method Fail(how: string) -> ()\n"
                                  "method Quit() -> ()\n"
                                  "error Sad (why: string)\n";

typedef struct Service {
        sd_event *event;
        VarlinkServer *server;
        VarlinkCall *kept;
        unsigned n_calls, n_gone;
        pthread_t thread;
        int listen_fd; /* the other end of what a thread serves */
} Service;

static json_object *number(const char *key, int64_t n)
{
        json_object *o = json_object_new_object();

        return json_member_add(o, key, json_object_new_int64(n)) < 0 ? NULL : o;
}

static int echo(VarlinkCall *c, json_object *parameters, void *userdata)
{
        Service *s = userdata;

        s->n_calls++;
        return varlink_reply(c, parameters);
}

static int kinds(VarlinkCall *c, json_object *parameters, void *userdata)
{
        return varlink_reply(c, NULL);
}

static void on_gone(VarlinkCall *c, void *userdata)
{
        Service *s = userdata;

        s->n_gone++;
        s->kept = varlink_call_unref(s->kept);
}

static int keep(VarlinkCall *c, json_object *parameters, void *userdata)
{
        Service *s = userdata;

        s->n_calls++;
        varlink_call_unref(s->kept);
        s->kept = varlink_call_ref(c);
        c->on_gone = on_gone;
        c->userdata = s;
        return 0;
}

/* Reads from each descriptor, and replies with pipes that contain their index. */
static int descriptors(VarlinkCall *c, json_object *parameters, void *userdata)
{
        _cleanup_json_ json_object *reply = json_object_new_object();
        json_object *list = json_object_new_array();
        FdList *fds = &c->fds;
        int n = json_object_get_int(json_object_object_get(parameters, "reply"));

        for (size_t i = 0; i < fds->n; i++) {
                char text[16] = "";
                _cleanup_close_ int fd = fd_list_take(fds, i);
                if (read(fd, text, sizeof(text) - 1) < 0 || !(fcntl(fd, F_GETFD) & FD_CLOEXEC))
                        return -EIO;
                (void) json_list_append(list, json_object_new_string(text));
        }
        if (fd_list_take(fds, 0) != -ENXIO)
                return -EIO;
        (void) json_member_add(reply, "text", list);
        for (int i = 0; i < n; i++) {
                int p[2];
                if (pipe2(p, O_CLOEXEC) < 0 || dprintf(p[1], "%d", i) < 0)
                        return -errno;
                safe_close(p[1]);
                int r = fd_list_push(&c->reply_fds, p[0]);
                if (r < 0)
                        return r;
        }
        return varlink_reply(c, reply);
}

static int ping(VarlinkCall *c, json_object *parameters, void *userdata)
{
        return c->fds.n > 0 ? -ENOTUNIQ : varlink_reply(c, NULL);
}

static int count_to(VarlinkCall *c, json_object *parameters, void *userdata)
{
        int64_t to = json_object_get_int64(json_object_object_get(parameters, "to"));
        int r = 0;

        for (int64_t i = 1; i <= to && r >= 0; i++) {
                _cleanup_json_ json_object *o = number("n", i);
                r = i < to ? varlink_reply_continues(c, o) : varlink_reply(c, o);
        }
        return r;
}

static int fail(VarlinkCall *c, json_object *parameters, void *userdata)
{
        const char *how = json_object_get_string(json_object_object_get(parameters, "how"));
        _cleanup_json_ json_object *why = json_new_text_member("why", how);

        if (streq(how, "sad"))
                return varlink_reply_error(c, "org.example.test.Sad", why);
        if (streq(how, "foreign"))
                return varlink_reply_error(c, "org.example.Elsewhere", NULL);
        if (streq(how, "forget"))
                return 0;
        if (streq(how, "twice"))
                return varlink_reply(c, NULL) < 0 ? -EIO : varlink_reply(c, NULL);
        if (streq(how, "continues"))
                return varlink_reply_continues(c, NULL);
        return -ENOENT;
}

static int quit(VarlinkCall *c, json_object *parameters, void *userdata)
{
        Service *s = userdata;

        return sd_event_exit(s->event, 0);
}

static const VarlinkMethod methods[] = {
                {"Echo", echo, 0},
                {"Kinds", kinds, 0},
                {"Later", keep, 0},
                {"Watch", keep, VARLINK_METHOD_MORE},
                {"Descriptors", descriptors, VARLINK_METHOD_FDS},
                {"Ping", ping, 0},
                {"Count", count_to, VARLINK_METHOD_MORE},
                {"Fail", fail, 0},
                {"Quit", quit, 0},
};
static const VarlinkInterface interface = {"org.example.test", description, methods, ELEMENTSOF(methods)};

static int service_new(Service *s, uint64_t message_usec)
{
        *s = (Service){.listen_fd = -EBADF};
        int r = sd_event_new(&s->event);
        if (r >= 0)
                r = varlink_server_new(s->event, "Product", "1", &s->server, NULL);
        if (r < 0)
                return r;
        s->server->message_usec = message_usec ?: s->server->message_usec;
        return varlink_server_add_interface(s->server, &interface, s, NULL);
}

static void service_done(Service *s)
{
        varlink_server_free(s->server);
        varlink_call_unref(s->kept);
        sd_event_unref(s->event);
}

#define SERVICE(s, message_usec)                                                                            \
        _cleanup_(service_done) Service s;                                                                  \
        ASSERT_OK(service_new(&s, message_usec))

/* Runs until there is nothing left to do; or for at most this time. */
static void run_for(Service *s, uint64_t usec)
{
        for (uint64_t end = now_usec(CLOCK_MONOTONIC) + usec;;) {
                uint64_t now = now_usec(CLOCK_MONOTONIC);
                if (sd_event_run(s->event, now < end ? end - now : 0) <= 0 && now >= end)
                        return;
        }
}

static void run(Service *s)
{
        for (unsigned i = 0; i < 100000 && sd_event_run(s->event, 0) > 0; i++)
                ;
}

/* A connection of which we have the other end. */
static int join(Service *s)
{
        int fds[2], r;

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
                return -errno;
        r = varlink_server_add_connection(s->server, fds[1]);
        if (r < 0) {
                close(fds[0]);
                return r;
        }
        return fds[0];
}

static void send_text(int fd, const char *text)
{
        (void) send(fd, text, strlen(text) + 1, MSG_NOSIGNAL);
}

/* All available messages, each with a newline at the end; "end" if the connection was closed. */
static char *received(Service *s, int fd)
{
        static char buffer[1 << 16];
        size_t n = 0;
        ssize_t k;

        run(s);
        while (n < sizeof(buffer) - 8 && (k = recv(fd, buffer + n, sizeof(buffer) - 8 - n, 0)) > 0)
                n += (size_t) k;
        if (n < sizeof(buffer) - 8 && (k == 0 || errno == ECONNRESET))
                n += (size_t) snprintf(buffer + n, 8, "end") + 1;
        for (size_t i = 0; i < n; i++)
                if (!buffer[i])
                        buffer[i] = '\n';
        buffer[n] = 0;
        return buffer;
}

static char *answer(Service *s, int fd, const char *text)
{
        send_text(fd, text);
        return received(s, fd);
}

#define TEST_METHOD(name) "{\"method\":\"org.example.test." name "\""
#define ECHO(word) TEST_METHOD("Echo") ",\"parameters\":{\"word\":\"" word "\"}}"
#define ECHOED(word) "{\"parameters\":{\"word\":\"" word "\"}}\n"
#define ERROR_(name, key, value)                                                                            \
        "{\"error\":\"org.varlink.service." name "\",\"parameters\":{\"" key "\":\"" value "\"}}\n"
#define ERRNO(n, name)                                                                                      \
        "{\"error\":\"io.systemd.System\",\"parameters\":{\"origin\":\"linux\",\"errno\":" #n               \
        ",\"errnoName\":\"" name "\"}}\n"

/* --- What services answer ------------------------------------------------------------------------------ */

TEST(information)
{
        SERVICE(s, 0);
        _cleanup_close_ int fd = join(&s);
        const char *a = answer(&s, fd, "{\"method\":\"org.varlink.service.GetInfo\"}");

        ASSERT_CONTAINS(a, "\"interfaces\":[\"org.varlink.service\",\"org.example.test\"]");
        ASSERT_CONTAINS(a, "\"vendor\":\"Product\",\"product\":\"Product\",\"version\":\"1\",\"url\":\"\"");
        a = answer(&s, fd,
                   "{\"method\":\"org.varlink.service.GetInterfaceDescription\",\"parameters\":"
                   "{\"interface\":\"org.example.test\"}}");
        ASSERT_CONTAINS(a,
                        "{\"parameters\":{\"description\":\"# For tests.\\ninterface org.example.test\\n");
        a = answer(&s, fd,
                   "{\"method\":\"org.varlink.service.GetInterfaceDescription\",\"parameters\":"
                   "{\"interface\":\"org.varlink.service\"}}");
        ASSERT_CONTAINS(a, "method GetInterfaceDescription(interface: string) -> (description: string)");
        a = answer(&s, fd,
                   "{\"method\":\"org.varlink.service.GetInterfaceDescription\",\"parameters\":"
                   "{\"interface\":\"org.example\"}}");
        ASSERT_STREQ(a, ERROR_("InterfaceNotFound", "interface", "org.example"));
}

TEST(framing)
{
        SERVICE(s, 0);
        static const char two[] = ECHO("one") "\0" ECHO("tw\\u00f6");
        static const char replies[] = ECHOED("one") ECHOED("tw\u00f6");

        /* In two parts, wherever they are split. */
        for (size_t i = 0; i <= sizeof(two); i++) {
                _cleanup_close_ int fd = join(&s);
                ASSERT_EQ(send(fd, two, i, 0), i);
                run(&s);
                ASSERT_EQ(send(fd, two + i, sizeof(two) - i, 0), sizeof(two) - i);
                ASSERT_STREQ(received(&s, fd), replies);
        }
        /* Byte by byte. */
        _cleanup_close_ int fd = join(&s);
        for (size_t i = 0; i < sizeof(two); i++) {
                ASSERT_EQ(send(fd, two + i, 1, 0), 1);
                run(&s);
        }
        ASSERT_STREQ(received(&s, fd), replies);
        /* White space of JSON, and members in any order, with null for what is not there. */
        ASSERT_STREQ(answer(&s, fd,
                            " \n{ \"oneway\": null, \"more\": false, \"parameters\": {\"word\": \"w\"}, "
                            "\"method\""
                            " : \"org.example.test.Echo\" }\t"),
                     ECHOED("w"));
        ASSERT_STREQ(answer(&s, fd, TEST_METHOD("Ping") ",\"parameters\":null}"), "{\"parameters\":{}}\n");
}

TEST(calls_are_answered_in_order)
{
        SERVICE(s, 0);
        _cleanup_close_ int fd = join(&s), other = join(&s);
        _cleanup_json_ json_object *n = number("n", 7);
        static const char three[] = ECHO("1") "\0" TEST_METHOD("Later") "}\0" ECHO("2") "\0" ECHO("3");

        ASSERT_EQ(send(fd, three, sizeof(three), 0), sizeof(three));
        ASSERT_STREQ(received(&s, fd), ECHOED("1"));
        ASSERT_EQ(s.n_calls, 2); /* the third was not called */
        ASSERT_STREQ(answer(&s, other, ECHO("meanwhile")), ECHOED("meanwhile"));
        ASSERT_OK(varlink_reply(s.kept, n));
        ASSERT_STREQ(received(&s, fd), "{\"parameters\":{\"n\":7}}\n" ECHOED("2") ECHOED("3"));
        ASSERT_ERR(varlink_reply(s.kept, n), -EALREADY);
}

/* A peer that has shut down writing, but still reads, gets its replies. */
TEST(half_closed)
{
        SERVICE(s, 0);
        _cleanup_close_ int fd = join(&s);
        static const char two[] = TEST_METHOD("Later") "}\0" ECHO("2");

        ASSERT_EQ(send(fd, two, sizeof(two), 0), sizeof(two));
        ASSERT_OK(shutdown(fd, SHUT_WR));
        run(&s);
        ASSERT_OK(varlink_reply_errno(s.kept, -EBUSY));
        ASSERT_STREQ(received(&s, fd), ERRNO(16, "EBUSY") ECHOED("2") "end\n");
        ASSERT_EQ(s.server->n_connections, 0);
}

TEST(errors)
{
        static const struct {
                const char *call, *reply;
        } table[] = {
                        {"{\"method\":\"org.example.no.Echo\"}",
                         ERROR_("InterfaceNotFound", "interface", "org.example.no")},
                        {"{\"method\":\"Echo\"}", ERROR_("InterfaceNotFound", "interface", "")},
                        {"{\"method\":\"\"}", ERROR_("InterfaceNotFound", "interface", "")},
                        {"{\"method\":\".\"}", ERROR_("InterfaceNotFound", "interface", "")},
                        {TEST_METHOD("Nothing") "}",
                         ERROR_("MethodNotFound", "method", "org.example.test.Nothing")},
                        {TEST_METHOD("") "}", ERROR_("MethodNotFound", "method", "org.example.test.")},
                        {TEST_METHOD("Point") "}",
                         ERROR_("MethodNotFound", "method", "org.example.test.Point")},
                        {TEST_METHOD("Missing") "}",
                         ERROR_("MethodNotImplemented", "method", "org.example.test.Missing")},
                        {TEST_METHOD("Watch") "}",
                         "{\"error\":\"org.varlink.service.ExpectedMore\",\"parameters\":{}}\n"},
                        {TEST_METHOD("Echo") "}", ERROR_("InvalidParameter", "parameter", "word")},
                        {TEST_METHOD("Fail") ",\"parameters\":{\"how\":\"sad\"}}",
                         "{\"error\":\"org.example.test.Sad\",\"parameters\":{\"why\":\"sad\"}}\n"},
                        {TEST_METHOD("Fail") ",\"parameters\":{\"how\":\"foreign\"}}",
                         "{\"error\":\"org.example.Elsewhere\",\"parameters\":{}}\n"},
                        {TEST_METHOD("Fail") ",\"parameters\":{\"how\":\"errno\"}}", ERRNO(2, "ENOENT")},
                        {TEST_METHOD("Fail") ",\"parameters\":{\"how\":\"forget\"}}",
                         ERRNO(125, "ECANCELED")},
                        {TEST_METHOD("Fail") ",\"parameters\":{\"how\":\"twice\"}}",
                         "{\"parameters\":{}}\n"},
                        {TEST_METHOD("Fail") ",\"parameters\":{\"how\":\"continues\"}}",
                         ERRNO(22, "EINVAL")},
        };
        SERVICE(s, 0);
        _cleanup_close_ int fd = join(&s);

        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                ASSERT_STREQ(answer(&s, fd, table[i].call), table[i].reply);
        ASSERT_STREQ(answer(&s, fd, ECHO("after all")), ECHOED("after all"));
}

/* --- Parameters ---------------------------------------------------------------------------------------- */

TEST(parameters)
{
        static const struct {
                const char *parameters, *wrong; /* NULL: nothing is */
        } table[] = {
                        {"", NULL},
                        {"'b':true", NULL},
                        {"'b':null", NULL},
                        {"'b':1", "b"},
                        {"'b':'true'", "b"},
                        {"'i':0", NULL},
                        {"'i':-9223372036854775808", NULL},
                        {"'i':9223372036854775807", NULL},
                        {"'i':9223372036854775808", "i"},
                        {"'i':1.0", "i"},
                        {"'i':'1'", "i"},
                        {"'i':true", "i"},
                        {"'s':''", NULL},
                        {"'s':5", "s"},
                        {"'s':[]", "s"},
                        {"'o':{'x':[1]}", NULL},
                        {"'o':[]", "o"},
                        {"'o':'x'", "o"},
                        {"'l':[]", NULL},
                        {"'l':[1,2]", NULL},
                        {"'l':{}", "l"},
                        {"'l':[1,'2',3]", "l"},
                        {"'l':[1,null]", "l"},
                        {"'n':[1,null]", NULL},
                        {"'n':[null,'']", "n"},
                        {"'p':{'x':1}", NULL},
                        {"'p':{'x':1,'y':null}", NULL},
                        {"'p':{'y':1}", "p"},
                        {"'p':{'x':1,'y':'2'}", "p"},
                        {"'p':{'x':1,'z':2}", "p"},
                        {"'p':[]", "p"},
                        {"'c':'dark_blue'", NULL},
                        {"'c':'dark'", "c"},
                        {"'c':'red '", "c"},
                        {"'c':''", "c"},
                        {"'c':0", "c"},
                        {"'e':'on'", NULL},
                        {"'e':'red'", "e"},
                        {"'t':{'name':'a','children':[{'name':'b','children':[]}]}", NULL},
                        {"'t':{'name':'a','children':[{'name':'b'}]}", "t"},
                        {"'st':{'a':{'b':['x']}}", NULL},
                        {"'st':{'a':{'b':['x',1]}}", "st"},
                        {"'st':{'a':null}", "st"},
                        {"'unknown':1", "unknown"},
                        {"'unknown':null", "unknown"},
                        {"'':1", ""},
                        {"'b':true,'B':true", "B"},
        };
        SERVICE(s, 0);
        _cleanup_close_ int fd = join(&s);

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                char call[512], reply[512] = "{\"parameters\":{}}\n";
                snprintf(call, sizeof(call), TEST_METHOD("Kinds") ",\"parameters\":{%s}}",
                         table[i].parameters);
                for (char *c = call; *c; c++)
                        if (*c == '\'')
                                *c = '"';
                if (table[i].wrong)
                        snprintf(reply, sizeof(reply), ERROR_("InvalidParameter", "parameter", "%s"),
                                 table[i].wrong);
                ASSERT_STREQ(answer(&s, fd, call), reply);
        }
}

/* Names of parameters are repeated in errors, shortened if they are long. */
TEST(long_names)
{
        SERVICE(s, 0);
        _cleanup_close_ int fd = join(&s);
        _cleanup_free_ char *name = calloc(1, 60001), *call = NULL;

        for (size_t i = 0; i < 60000; i += 3)
                memcpy(name + i, "\xe2\x82\xac", 3); /* of three bytes: the cut is within one */
        ASSERT_OK(xasprintf(&call, TEST_METHOD("Kinds") ",\"parameters\":{\"%s\":1}}", name));
        const char *a = answer(&s, fd, call);
        ASSERT_CONTAINS(a, "InvalidParameter");
        ASSERT_LT(strlen(a), 300);
        ASSERT_TRUE(utf8_is_valid(a, strlen(a)));
        ASSERT_STREQ(answer(&s, fd, ECHO("x")), ECHOED("x"));
}

/* --- Peers that break the rules ------------------------------------------------------------------------ */

TEST(malformed_messages)
{
        static const char *const table[] = {
                        "",
                        " ",
                        "null",
                        "[]",
                        "\"x\"",
                        "{",
                        "{}",
                        "{}{}",
                        ECHO("x") "x",
                        ECHO("\x80"),
                        ECHO("\xed\xa0\x80"),
                        ECHO("\\u0000"),
                        ECHO("\\ud800"),
                        "{\"method\":1}",
                        "{\"method\":null}",
                        "{\"method\":[\"org.example.test.Ping\"]}",
                        "{\"parameters\":{}}",
                        TEST_METHOD("Ping") ",\"method\":\"org.example.test.Echo\"}",
                        TEST_METHOD("Ping") ",\"parameters\":[]}",
                        TEST_METHOD("Ping") ",\"parameters\":{\"a\":1,\"a\":1}}",
                        TEST_METHOD("Ping") ",\"more\":1}",
                        TEST_METHOD("Ping") ",\"oneway\":\"true\"}",
                        TEST_METHOD("Ping") ",\"more\":true,\"oneway\":true}",
                        TEST_METHOD("Ping") ",\"upgrade\":true,\"oneway\":true}",
                        TEST_METHOD("Ping") ",\"upgrade\":true}",
        };
        SERVICE(s, 0);
        _cleanup_close_ int good = join(&s);

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                _cleanup_close_ int fd = join(&s);
                ASSERT_OK(fd);
                ASSERT_STREQ(answer(&s, fd, table[i]), "end\n");
                ASSERT_STREQ(answer(&s, good, ECHO("unharmed")), ECHOED("unharmed"));
                ASSERT_EQ(s.server->n_connections, 1);
        }
        ASSERT_EQ(s.n_calls, ELEMENTSOF(table));
        /* What came before it is answered. */
        _cleanup_close_ int fd = join(&s);
        static const char two[] = ECHO("1") "\0\0" ECHO("2");
        ASSERT_EQ(send(fd, two, sizeof(two), 0), sizeof(two));
        ASSERT_STREQ(received(&s, fd), ECHOED("1") "end\n");
}

TEST(sizes)
{
        const size_t max = VARLINK_MESSAGE_SIZE_MAX;
        SERVICE(s, 0);
        _cleanup_free_ char *call = malloc(max + 2);
        size_t n = (size_t) snprintf(call, max + 2, "%s", ECHO("x"));

        memset(call + n, ' ', max + 2 - n);
        for (unsigned over = 0; over < 2; over++) {
                _cleanup_close_ int fd = join(&s);
                call[max + over] = 0; /* as long as can be, and one more */
                call[max] = over ? ' ' : 0;
                for (size_t sent = 0; sent < max + 1 + over;) {
                        ssize_t k = send(fd, call + sent, max + 1 + over - sent, MSG_NOSIGNAL);
                        if (k < 0 && errno != EAGAIN)
                                break;
                        sent += k < 0 ? 0 : (size_t) k;
                        run(&s);
                }
                ASSERT_STREQ(received(&s, fd), over ? "end\n" : ECHOED("x"));
        }
        /* One that never ends is not read to the end. */
        _cleanup_close_ int fd = join(&s);
        size_t sent = 0;
        for (ssize_t k = 0; sent < 10000000 && (k >= 0 || errno == EAGAIN); sent += k < 0 ? 0 : (size_t) k) {
                k = send(fd, call + 1, 100000, MSG_NOSIGNAL);
                run(&s);
        }
        ASSERT_LT(sent, 2000000);
        ASSERT_STREQ(received(&s, fd), "end\n");
}

TEST(depth_and_values)
{
        SERVICE(s, 0);
        const int values = VARLINK_VALUES_MAX;

        /* Three levels are around the lists. */
        for (int depth = 29; depth <= 30; depth++) {
                _cleanup_close_ int fd = join(&s);
                char call[256], *p = call +
                                     sprintf(call, TEST_METHOD("Kinds") ",\"parameters\":{\"o\":{\"x\":");
                memset(p, '[', (size_t) depth);
                memset(p + depth, ']', (size_t) depth);
                strcpy(p + 2 * depth, "}}}");
                ASSERT_STREQ(answer(&s, fd, call), depth == 29 ? "{\"parameters\":{}}\n" : "end\n");
        }
        /* Four values are around the list. */
        for (int n = values - 4; n <= values - 3; n++) {
                _cleanup_close_ int fd = join(&s);
                _cleanup_free_ char *call = malloc(200000);
                char *p = call + sprintf(call, TEST_METHOD("Kinds") ",\"parameters\":{\"l\":[0");
                for (int i = 1; i < n; i++)
                        p = stpcpy(p, ",0");
                strcpy(p, "]}}");
                ASSERT_STREQ(answer(&s, fd, call), n == values - 4 ? "{\"parameters\":{}}\n" : "end\n");
        }
}

TEST(messages_that_take_too_long)
{
        SERVICE(s, 100000);
        _cleanup_close_ int silent = join(&s), slow = join(&s), patient = join(&s);
        static const char two[] = TEST_METHOD("Later") "}\0{\"meth";

        ASSERT_EQ(send(patient, two, sizeof(two) - 1, 0), sizeof(two) - 1);
        for (int i = 0; i < 6; i++) { /* a byte now and then does not help */
                ASSERT_TRUE(send(slow, &"{\"method\":"[i], 1, MSG_NOSIGNAL) == 1 || i > 0);
                run_for(&s, 30000);
        }
        ASSERT_STREQ(received(&s, slow), "end\n");
        ASSERT_STREQ(received(&s, silent), "");  /* it has not begun one */
        ASSERT_STREQ(received(&s, patient), ""); /* we have not read on */
        ASSERT_OK(varlink_reply_errno(s.kept, -EBUSY));
        ASSERT_STREQ(received(&s, patient), ERRNO(16, "EBUSY"));
        run_for(&s, 200000);
        ASSERT_STREQ(received(&s, patient), "end\n");
        ASSERT_STREQ(answer(&s, silent, ECHO("x")), ECHOED("x"));
        run_for(&s, 200000);
        ASSERT_STREQ(received(&s, silent), "");
}

#define TOO_MANY(n)                                                                                         \
        "{\"error\":\"org.acnspawn.service.TooManyConnections\",\"parameters\":{\"limit\":" n "}}\n"

/* Idle connections are closed for new ones, the least recently used first. */
TEST(numbers_of_connections)
{
        SERVICE(s, 0);
        int fds[VARLINK_CONNECTIONS_MAX];

        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                ASSERT_OK(fds[i] = join(&s));
        ASSERT_STREQ(answer(&s, fds[0], ECHO("x")), ECHOED("x"));
        send_text(fds[1], "{\"method\":\"org.example.test.Later\"}");
        ASSERT_EQ(send(fds[3], ECHO("x"), 9, MSG_NOSIGNAL), 9); /* a part of it */
        run(&s);
        send_text(fds[2], ECHO("not read yet"));
        _cleanup_close_ int more = join(&s);
        ASSERT_OK(more);
        ASSERT_EQ(s.server->n_connections, VARLINK_CONNECTIONS_MAX);
        ASSERT_STREQ(received(&s, fds[0]), "");
        ASSERT_STREQ(received(&s, fds[1]), "");
        ASSERT_STREQ(received(&s, fds[2]), ECHOED("not read yet"));
        send_text(fds[3], &ECHO("x")[9]);
        run(&s);
        ASSERT_STREQ(received(&s, fds[3]), ECHOED("x"));
        ASSERT_STREQ(received(&s, fds[4]), "end\n");
        ASSERT_STREQ(answer(&s, more, ECHO("x")), ECHOED("x"));
        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                safe_close(fds[i]);
}

TEST(connections_with_calls_make_no_room)
{
        SERVICE(s, 0);
        VarlinkCall *calls[VARLINK_CONNECTIONS_MAX];
        int fds[VARLINK_CONNECTIONS_MAX], pair[2];

        for (size_t i = 0; i < ELEMENTSOF(fds); i++) {
                ASSERT_OK(fds[i] = join(&s));
                send_text(fds[i], "{\"method\":\"org.example.test.Later\"}");
                run(&s);
                calls[i] = TAKE_PTR(s.kept);
                ASSERT_TRUE(calls[i] != NULL);
        }
        ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair));
        ASSERT_ERR(varlink_server_add_connection(s.server, pair[1]), -EUSERS);
        ASSERT_STREQ(received(&s, pair[0]), TOO_MANY("128") "end\n");
        ASSERT_EQ(s.server->n_connections, VARLINK_CONNECTIONS_MAX);
        safe_close(pair[0]);
        for (size_t i = 0; i < ELEMENTSOF(fds); i++) {
                varlink_call_unref(calls[i]);
                safe_close(fds[i]);
        }
}

static int join_as(Service *s, uid_t uid)
{
        if (seteuid(uid) < 0)
                return -errno;
        int fds[2], r = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0 ? -errno
                                                                                                    : 0;
        if (seteuid(0) < 0 || r < 0)
                return r ?: -errno;
        r = varlink_server_add_connection(s->server, fds[1]);
        if (r < 0)
                close(fds[0]);
        return r < 0 ? r : fds[0];
}

/* Users other than root only displace their own connections. */
TEST(other_users)
{
        SERVICE(s, 0);
        const unsigned share = VARLINK_CONNECTIONS_PER_USER, shared = VARLINK_CONNECTIONS_MAX * 3 / 4;
        int fds[VARLINK_CONNECTIONS_MAX];
        unsigned n = 0;

        if (geteuid() != 0)
                TEST_SKIP("not root");
        for (uid_t uid = 1000; n < shared; uid++) {
                for (unsigned i = 0; i < share; i++) {
                        ASSERT_OK(fds[n] = join_as(&s, uid));
                        n++;
                }
                _cleanup_close_ int more = join_as(&s, uid);
                ASSERT_OK(more);
                ASSERT_STREQ(received(&s, fds[n - share]), "end\n");
                ASSERT_EQ(s.server->n_connections, n);
                safe_close(fds[n - share]);
                fds[n - share] = TAKE_FD(more);
        }
        ASSERT_ERR(join_as(&s, 2000), -EUSERS); /* the rest is root's */
        ASSERT_STREQ(received(&s, fds[1]), "");
        for (; n < VARLINK_CONNECTIONS_MAX; n++)
                ASSERT_OK(fds[n] = join(&s));
        _cleanup_close_ int more = join(&s);
        ASSERT_OK(more);
        ASSERT_EQ(s.server->n_connections, VARLINK_CONNECTIONS_MAX);
        ASSERT_STREQ(answer(&s, more, ECHO("x")), ECHOED("x"));
        for (unsigned i = 0; i < n; i++)
                safe_close(fds[i]);
}

/* --- Replies that come later, several, or none --------------------------------------------------------- */

TEST(several_replies)
{
        SERVICE(s, 0);
        _cleanup_close_ int fd = join(&s);
        _cleanup_json_ json_object *n = number("n", 1);

        ASSERT_STREQ(answer(&s, fd, TEST_METHOD("Watch") ",\"more\":true}"), "");
        ASSERT_TRUE(s.kept->more);
        ASSERT_STREQ(s.kept->method, "org.example.test.Watch");
        ASSERT_OK(varlink_reply_continues(s.kept, n));
        ASSERT_OK(varlink_reply_continues(s.kept, n));
        ASSERT_STREQ(answer(&s, fd, ECHO("then")), "{\"parameters\":{\"n\":1},\"continues\":true}\n{"
                                                   "\"parameters\":{\"n\":1},\"continues\":true}\n");
        ASSERT_OK(varlink_reply(s.kept, n));
        ASSERT_ERR(varlink_reply_continues(s.kept, n), -EALREADY);
        ASSERT_STREQ(received(&s, fd), "{\"parameters\":{\"n\":1}}\n" ECHOED("then"));
        ASSERT_EQ(s.n_gone, 0);
}

TEST(subscriber_that_does_not_read)
{
        SERVICE(s, 0);
        _cleanup_close_ int fd = join(&s), good = join(&s);
        _cleanup_free_ char *word = calloc(1, 100001);
        unsigned sent = 0;
        int r = 0;

        memset(word, 'x', 100000);
        _cleanup_json_ json_object *o = json_new_text_member("word", word);
        send_text(fd, TEST_METHOD("Watch") ",\"more\":true}");
        run(&s);
        for (; sent < 1000 && r >= 0; sent++) {
                r = varlink_reply_continues(s.kept, o);
                ASSERT_LE(s.kept->connection->link.out_size, VARLINK_QUEUE_MAX + 1);
        }
        ASSERT_ERR(r, -ENOBUFS);
        ASSERT_GT(sent, VARLINK_QUEUE_MAX / 100100);
        ASSERT_ERR(varlink_reply_continues(s.kept, o), -ECONNRESET);
        ASSERT_EQ(s.n_gone, 0); /* told from the event loop only */
        run(&s);
        ASSERT_EQ(s.n_gone, 1);
        ASSERT_EQ(s.server->n_connections, 1);
        ASSERT_STREQ(answer(&s, good, ECHO("unharmed")), ECHOED("unharmed"));
}

/* A peer that only sends calls is served as far as it reads replies; then it times out. */
TEST(caller_that_does_not_read)
{
        SERVICE(s, 100000);
        _cleanup_close_ int fd = join(&s);
        _cleanup_free_ char *word = calloc(1, 99901);
        _cleanup_free_ char *call = NULL;
        unsigned sent = 0;

        memset(word, 'x', 99900);
        ASSERT_OK(xasprintf(&call, "{\"method\":\"org.example.test.Echo\",\"parameters\":{\"word\":\"%s\"}}",
                            word));
        for (ssize_t k = 0; sent < 100 && k >= 0; sent++) {
                for (size_t at = 0, size = strlen(call) + 1; at < size && (k >= 0 || errno == EAGAIN);
                     at += k < 0 ? 0 : (size_t) k) {
                        k = send(fd, call + at, size - at, MSG_NOSIGNAL);
                        if (k < 0 && errno == EAGAIN) {
                                run(&s);
                                ASSERT_LE(s.server->n_connections, 1);
                                if (s.server->connections)
                                        ASSERT_LE(s.server->connections->link.out_size, 100000);
                                errno = EAGAIN;
                        }
                }
        }
        ASSERT_LT(sent, 10); /* the sockets' buffers, and no more than one */
        ASSERT_GT(s.n_calls, 1);
        ASSERT_EQ(s.server->n_connections, 0);
}

/* It takes its answers, but not in time. */
TEST(replies_that_are_not_taken)
{
        SERVICE(s, 100000);
        _cleanup_close_ int fd = join(&s);
        _cleanup_json_ json_object *n = number("n", 1);
        uint64_t began = now_usec(CLOCK_MONOTONIC);

        send_text(fd, TEST_METHOD("Watch") ",\"more\":true}");
        run(&s);
        Connection *k = s.kept->connection;
        while (!k->link.out)
                ASSERT_OK(varlink_reply_continues(s.kept, n));
        run_for(&s, 50000);
        if (now_usec(CLOCK_MONOTONIC) - began < 100000)
                ASSERT_EQ(s.n_gone, 0);
        run_for(&s, 100000);
        ASSERT_EQ(s.n_gone, 1);
}

TEST(peer_that_goes_while_its_call_is_pending)
{
        SERVICE(s, 0);
        int fd = join(&s);
        _cleanup_json_ json_object *n = number("n", 1);

        (void) answer(&s, fd, TEST_METHOD("Later") "}");
        _cleanup_(varlink_call_unrefp) VarlinkCall *c = varlink_call_ref(s.kept);
        send_text(fd, ECHO("is not called any more"));
        ASSERT_EQ(s.n_gone, 0);
        safe_close(fd);
        run(&s);
        ASSERT_EQ(s.n_gone, 1);
        ASSERT_EQ(s.n_calls, 1);
        ASSERT_EQ(s.server->n_connections, 0);
        ASSERT_ERR(varlink_reply(c, n), -ECONNRESET);
        run(&s);
        ASSERT_EQ(s.n_gone, 1);
}

TEST(service_that_goes_while_calls_are_pending)
{
        SERVICE(s, 0);
        _cleanup_close_ int fd = join(&s);

        (void) answer(&s, fd, TEST_METHOD("Later") "}");
        _cleanup_(varlink_call_unrefp) VarlinkCall *c = varlink_call_ref(s.kept);
        s.server = varlink_server_free(s.server);
        ASSERT_EQ(s.n_gone, 1);
        ASSERT_ERR(varlink_reply(c, NULL), -ECONNRESET);
        ASSERT_STREQ(received(&s, fd), "end\n");
}

TEST(a_service_that_ends_for_new_calls)
{
        SERVICE(s, 0);
        _cleanup_close_ int pending = join(&s), idle = join(&s);
        _cleanup_json_ json_object *n = number("n", 1);

        (void) answer(&s, pending, TEST_METHOD("Later") "}");
        _cleanup_(varlink_call_unrefp) VarlinkCall *c = varlink_call_ref(s.kept);
        varlink_server_end(s.server);
        ASSERT_EQ(s.server->n_connections, 1);
        ASSERT_STREQ(received(&s, idle), "end\n");
        ASSERT_EQ(s.n_gone, 0);
        ASSERT_OK(varlink_reply(c, n));
        ASSERT_STREQ(received(&s, pending), "{\"parameters\":{\"n\":1}}\n");
        varlink_server_end(s.server);
        ASSERT_STREQ(received(&s, pending), "end\n");
}

TEST(oneway)
{
        SERVICE(s, 0);
        int fd = join(&s);
        static const char calls[] =
                        TEST_METHOD("Echo") ",\"oneway\":true,\"parameters\":{\"word\":\"x\"}}"
                                            "\0" TEST_METHOD("Nothing") ",\"oneway\":true}\0" TEST_METHOD(
                                                            "Fail") ",\"oneway\":true,\"parameters\":{"
                                                                    "\"how\":\"errno\"}}\0" ECHO("reply");

        ASSERT_EQ(send(fd, calls, sizeof(calls), 0), sizeof(calls));
        ASSERT_STREQ(received(&s, fd), ECHOED("reply"));
        ASSERT_EQ(s.n_calls, 2);
        /* A peer that wants no reply may disconnect before the call is done, and its other calls are
         * processed afterwards. */
        static const char more[] = TEST_METHOD("Later") ",\"oneway\":true}\0" TEST_METHOD(
                        "Echo") ",\"oneway\":true,\"parameters\":{\"word\":\"x\"}}";
        ASSERT_EQ(send(fd, more, sizeof(more), 0), sizeof(more));
        safe_close(fd);
        run(&s);
        ASSERT_EQ(s.n_calls, 3);
        ASSERT_EQ(s.n_gone, 0);
        ASSERT_TRUE(s.kept->oneway);
        ASSERT_EQ(sd_event_run(s.event, 0), 0); /* and nothing spins meanwhile */
        s.kept = varlink_call_unref(s.kept);
        run(&s);
        ASSERT_EQ(s.n_calls, 4);
        ASSERT_EQ(s.server->n_connections, 0);
        ASSERT_EQ(s.n_gone, 0);
}

TEST(oneway_at_the_end_of_the_service)
{
        SERVICE(s, 0);
        _cleanup_close_ int fd = join(&s);

        (void) answer(&s, fd, TEST_METHOD("Later") ",\"oneway\":true}");
        s.server = varlink_server_free(s.server);
        ASSERT_NOT_NULL(s.kept);
        ASSERT_EQ(s.n_gone, 0);
}

/* --- Descriptors --------------------------------------------------------------------------------------- */

/* A pipe that has a text in it, for reading. */
static int pipe_with(const char *text)
{
        int p[2];

        if (pipe2(p, O_CLOEXEC) < 0 || write(p[1], text, strlen(text)) < 0)
                return -errno;
        close(p[1]);
        return p[0];
}

static unsigned count_fds(void)
{
        _cleanup_strv_free_ char **names = NULL;
        _cleanup_close_ int fd = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        return list_names(fd, &names) < 0 ? 0 : (unsigned) strv_length(names);
}

static int send_with_pipes(int fd, const char *text, size_t size, unsigned n, const char *label)
{
        int fds[2 * FD_LIST_MAX], r;

        for (unsigned i = 0; i < n; i++) {
                char word[16];
                snprintf(word, sizeof(word), "%s%u", label, i);
                fds[i] = pipe_with(word);
        }
        r = send_fds(fd, text, size, fds, n);
        for (unsigned i = 0; i < n; i++)
                close(fds[i]);
        return r;
}

#define DESCRIPTORS TEST_METHOD("Descriptors") "}"

TEST(descriptors_in)
{
        SERVICE(s, 0);
        static const char two[] = DESCRIPTORS "\0" DESCRIPTORS;
        const size_t half = sizeof(DESCRIPTORS);

        /* Wherever the call is split, with more calls around it. */
        for (size_t i = 1; i < half; i++) {
                _cleanup_close_ int fd = join(&s);
                ASSERT_OK(send_with_pipes(fd, two, half, 0, ""));
                ASSERT_OK(send_with_pipes(fd, two, i, 2, "a"));
                if (i % 2)
                        run(&s);
                ASSERT_OK(send_with_pipes(fd, two + i, half - i, 0, ""));
                ASSERT_OK(send_with_pipes(fd, two, half, 1, "b"));
                ASSERT_OK(send_with_pipes(fd, two, half, 0, ""));
                ASSERT_STREQ(received(&s, fd),
                             "{\"parameters\":{\"text\":[]}}\n{\"parameters\":{\"text\":[\"a0\",\"a1\"]}}\n"
                             "{\"parameters\":{\"text\":[\"b0\"]}}\n{\"parameters\":{\"text\":[]}}\n");
        }
}

TEST(too_many_descriptors)
{
        SERVICE(s, 0);
        safe_close(join(&s)); /* the event loop makes what it needs for the first */
        run(&s);
        unsigned before = count_fds();

        for (unsigned n = 16; n <= 32; n += n < 18 ? 1 : 14) {
                _cleanup_close_ int fd = join(&s);
                ASSERT_OK(send_with_pipes(fd, DESCRIPTORS, sizeof(DESCRIPTORS), n, ""));
                if (n == 16)
                        ASSERT_CONTAINS(received(&s, fd), "\"14\",\"15\"]");
                else
                        ASSERT_STREQ(received(&s, fd), "end\n");
        }
        /* With parts of the same message, which is not over. */
        _cleanup_close_ int fd = join(&s);
        for (unsigned i = 0; i < 40; i++)
                (void) send_with_pipes(fd, " ", 1, 1, "");
        ASSERT_STREQ(received(&s, fd), "end\n");
        fd = safe_close(fd);
        run(&s);
        ASSERT_EQ(count_fds(), before);
}

TEST(descriptors_of_refused_messages)
{
        static const char *const table[] = {
                        "{\"method\":\"org.example.no.Echo\"}",
                        TEST_METHOD("Nothing") "}",
                        TEST_METHOD("Missing") "}",
                        TEST_METHOD("Watch") "}",
                        TEST_METHOD("Echo") "}",
                        TEST_METHOD("Ping") "}",
                        TEST_METHOD("Ping") ",\"oneway\":true}",
                        TEST_METHOD("Later") "}",
                        "{",
                        "",
        };
        SERVICE(s, 0);
        safe_close(join(&s)); /* the event loop makes what it needs for the first */
        run(&s);
        unsigned before = count_fds();

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                _cleanup_close_ int fd = join(&s);
                ASSERT_OK(send_with_pipes(fd, table[i], strlen(table[i]) + 1, 3, ""));
                ASSERT_NOT_CONTAINS(received(&s, fd), "ENOTUNIQ");
                if (!strstr(table[i], "Later") && strlen(table[i]) > 1)
                        ASSERT_EQ(count_fds(), before + 2); /* of the connection */
        }
        run(&s);
        ASSERT_EQ(count_fds(), before);
        /* A message that never came to its end. */
        _cleanup_close_ int fd = join(&s);
        ASSERT_OK(send_with_pipes(fd, "{\"meth", 6, 3, ""));
        run(&s);
        ASSERT_EQ(count_fds(), before + 5);
        fd = safe_close(fd);
        run(&s);
        ASSERT_EQ(count_fds(), before);
}

/* If the service holds a descriptor of the peer's own end, closing is not detected; the timeout of a message
 * applies. */
TEST(a_peer_that_sends_its_own_end)
{
        SERVICE(s, 50000);
        int fd = join(&s), other = join(&s);

        ASSERT_OK(send_fds(fd, "{", 1, &fd, 1));
        ASSERT_OK(send_fds(other, TEST_METHOD("Later") "}", sizeof(TEST_METHOD("Later") "}"), &other, 1));
        run(&s);
        safe_close(fd);
        safe_close(other);
        run(&s);
        ASSERT_EQ(s.server->n_connections, 1);
        ASSERT_EQ(s.n_gone, 1); /* the method wants no descriptors */
        run_for(&s, 150000);
        ASSERT_EQ(s.server->n_connections, 0);
}

TEST(descriptors_out)
{
        SERVICE(s, 0);
        _cleanup_close_ int fd = join(&s);
        char data[4096];
        int fds[32];
        size_t n_fds = 0;

        send_text(fd, TEST_METHOD("Descriptors") ",\"parameters\":{\"reply\":16}}");
        run(&s);
        unsigned before = count_fds();
        ASSERT_GT(recv_fds(fd, data, sizeof(data), fds, 32, &n_fds), 0);
        ASSERT_EQ(n_fds, 16);
        ASSERT_EQ(count_fds(), before + 16);
        for (int i = 0; i < 16; i++) {
                char text[8] = "", expected[8];
                ASSERT_GT(read(fds[i], text, 7), 0);
                snprintf(expected, sizeof(expected), "%d", i);
                ASSERT_STREQ(text, expected);
                close(fds[i]);
        }
        ASSERT_STREQ(answer(&s, fd, TEST_METHOD("Descriptors") ",\"parameters\":{\"reply\":17}}"),
                     ERRNO(7, "E2BIG"));
        /* Replies to a peer that is gone keep none. */
        (void) answer(&s, fd, TEST_METHOD("Watch") ",\"more\":true}");
        ASSERT_OK(fd_list_push(&s.kept->reply_fds, pipe_with("x")));
        ASSERT_ERR(fd_list_push(&s.kept->reply_fds, -ENOENT), -EBADF);
        fd = safe_close(fd);
        run(&s);
        ASSERT_EQ(count_fds(), before - 2);
}

/* A message that is sent in parts, as the peer reads it, carries its descriptors once. */
TEST(descriptors_of_a_long_message)
{
        _cleanup_free_ char *word = calloc(1, 900001), *data = malloc(65536);
        _cleanup_fd_list_ FdList sent = {};
        _cleanup_(link_done) Link l = {.fd = -EBADF};
        size_t n_fds = 0, size = 0, n;
        int p[2], fds[8];

        ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, p));
        _cleanup_close_ int peer = p[1];
        link_init(&l, p[0]);
        memset(word, 'x', 900000);
        _cleanup_json_ json_object *message = json_new_text_member("word", word);
        ASSERT_OK(fd_list_push(&sent, pipe_with("x")));
        ASSERT_OK(link_send(&l, message, &sent));
        ASSERT_NOT_NULL(l.out);
        for (ssize_t k; (k = recv_fds(peer, data, 65536, fds, 8, &n)) > 0; size += (size_t) k) {
                for (size_t i = 0; i < n; i++)
                        close(fds[i]);
                n_fds += n;
                ASSERT_OK(link_flush(&l));
        }
        ASSERT_NULL(l.out);
        ASSERT_EQ(size, 900000 + sizeof("{\"word\":\"\"}"));
        ASSERT_EQ(n_fds, 1);
}

/* --- Clients ------------------------------------------------------------------------------------------- */

static void *serve(void *userdata)
{
        Service *s = userdata;

        (void) sd_event_loop(s->event);
        return NULL;
}

/* A client whose service is served by a thread. */
static int client_new(Service *s, VarlinkClient **ret)
{
        int fd = join(s);
        int r = fd < 0 ? fd : varlink_client_new(fd, NULL, ret);

        return r < 0 ? r : -pthread_create(&s->thread, NULL, serve, s);
}

static void client_done(Service *s, VarlinkClient *c)
{
        _cleanup_(varlink_reply_done) VarlinkReply r = {};

        (void) varlink_client_call(c, "org.example.test.Quit", NULL, 5000000, &r, NULL);
        (void) pthread_join(s->thread, NULL);
        varlink_client_free(c);
}

#define TIMEOUT 5000000U

TEST(client_calls)
{
        SERVICE(s, 0);
        VarlinkClient *c = NULL;
        _cleanup_(varlink_reply_done) VarlinkReply r = {};
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_json_ json_object *word = json_new_text_member("word", "x"),
                                   *sad = json_new_text_member("how", "sad"),
                                   *no = json_new_text_member("how", "no"), *reply = number("reply", 2),
                                   *to = number("to", 3);
        ASSERT_OK(client_new(&s, &c));
        ASSERT_ERR(varlink_client_next(c, TIMEOUT, &r, &e), -ENODATA);
        ASSERT_OK(varlink_client_call(c, "org.example.test.Echo", word, TIMEOUT, &r, &e));
        ASSERT_TRUE(json_object_equal(r.parameters, word));
        ASSERT_NULL(r.error);
        varlink_reply_done(&r);
        ASSERT_OK(varlink_client_call(c, "org.example.test.Fail", sad, TIMEOUT, &r, &e));
        ASSERT_STREQ(r.error, "org.example.test.Sad");
        ASSERT_STREQ(json_object_get_string(json_object_object_get(r.parameters, "why")), "sad");
        varlink_reply_done(&r);
        ASSERT_OK(varlink_client_call(c, "org.example.test.Fail", no, TIMEOUT, &r, &e));
        ASSERT_STREQ(r.error, "io.systemd.System");
        ASSERT_EQ(json_object_get_int(json_object_object_get(r.parameters, "errno")), ENOENT);
        /* Descriptors both ways. */
        varlink_reply_done(&r);
        ASSERT_OK(varlink_client_push_fd(c, pipe_with("in")));
        ASSERT_OK(varlink_client_call(c, "org.example.test.Descriptors", reply, TIMEOUT, &r, &e));
        ASSERT_STREQ(json_object_to_json_string_ext(r.parameters, JSON_C_TO_STRING_PLAIN),
                     "{\"text\":[\"in\"]}");
        ASSERT_EQ(r.fds.n, 2);
        _cleanup_close_ int fd = fd_list_take(&r.fds, 1);
        char text[4] = "";
        ASSERT_EQ(read(fd, text, 3), 1);
        ASSERT_STREQ(text, "1");
        ASSERT_ERR(fd_list_take(&r.fds, 1), -ENXIO);
        ASSERT_ERR(fd_list_take(&r.fds, 2), -ENXIO);
        /* Several replies. */
        ASSERT_OK(varlink_client_send(c, "org.example.test.Count", to, true, &e));
        ASSERT_ERR(varlink_client_call(c, "org.example.test.Echo", word, TIMEOUT, &r, &e), -EBUSY);
        for (int i = 1; i <= 3; i++) {
                varlink_reply_done(&r);
                ASSERT_OK(varlink_client_next(c, TIMEOUT, &r, &e));
                ASSERT_EQ(json_object_get_int(json_object_object_get(r.parameters, "n")), i);
                ASSERT_EQ(r.continues, i < 3);
        }
        ASSERT_ERR(varlink_client_next(c, TIMEOUT, &r, &e), -ENODATA);
        client_done(&s, c);
}

/* Data that a service sends to a client, and the results of the first and the second wait for a reply. */
TEST(invalid_replies)
{
        static const struct {
                const char *text;
                bool more;
                int first, second;
        } table[] = {
                        {"{}", false, 0, -ENODATA},
                        {"{\"parameters\":{},\"continues\":false}", false, 0, -ENODATA},
                        {"{\"continues\":true}", true, 0, -ECONNRESET},
                        {"{\"continues\":true}", false, -EBADMSG, -ENODATA},
                        {"{\"continues\":true,\"error\":\"x\"}", true, -EBADMSG, -ENODATA},
                        {"{\"error\":1}", false, -EBADMSG, -ENODATA},
                        {"{\"parameters\":[]}", false, -EBADMSG, -ENODATA},
                        {"{\"error\":\"x\",\"parameters\":null}", false, 0, -ENODATA},
                        {"[]", false, -EBADMSG, -ENODATA},
                        {"", false, -EBADMSG, -ENODATA},
                        {NULL, false, -ECONNRESET, -ENODATA},
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                _cleanup_(varlink_client_freep) VarlinkClient *c = NULL;
                _cleanup_(varlink_reply_done) VarlinkReply first = {}, second = {};
                int fds[2];
                ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
                ASSERT_OK(varlink_client_new(fds[0], NULL, &c));
                ASSERT_OK(varlink_client_send(c, "a.b.C", NULL, table[i].more, NULL));
                if (table[i].text)
                        send_text(fds[1], table[i].text);
                close(fds[1]);
                ASSERT_EQ(varlink_client_next(c, TIMEOUT, &first, NULL), table[i].first);
                ASSERT_EQ(varlink_client_next(c, TIMEOUT, &second, NULL), table[i].second);
                /* The descriptor is open until the caller has freed its event source. */
                ASSERT_OK(fcntl(varlink_client_fd(c), F_GETFD));
                if (table[i].first < 0)
                        ASSERT_ERR(varlink_client_send(c, "a.b.C", NULL, false, NULL), -ENOTCONN);
        }
}

TEST(client_waits)
{
        _cleanup_(varlink_client_freep) VarlinkClient *c = NULL;
        _cleanup_(varlink_reply_done) VarlinkReply r = {};
        _cleanup_error_ Error e = ERROR_NULL;
        int fds[2];

        ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
        ASSERT_OK(varlink_client_new(fds[0], NULL, &c));
        uint64_t begin = now_usec(CLOCK_MONOTONIC);
        ASSERT_ERR(varlink_client_call(c, "a.b.C", NULL, 50000, &r, &e), -ETIMEDOUT);
        ASSERT_GE(now_usec(CLOCK_MONOTONIC) - begin, 50000);
        ASSERT_CONTAINS(e.message, "in time");
        ASSERT_OK(send(fds[1], "{\"par", 5, 0));
        ASSERT_ERR(varlink_client_next(c, 10000, &r, &e), -ETIMEDOUT);
        send_text(fds[1], "ameters\":{\"a\":1}}");
        ASSERT_OK(varlink_client_next(c, UINT64_MAX, &r, &e));
        ASSERT_EQ(json_object_get_int(json_object_object_get(r.parameters, "a")), 1);
        /* A service that reads late. */
        varlink_reply_done(&r);
        _cleanup_free_ char *word = calloc(1, 900001);
        memset(word, 'x', 900000);
        _cleanup_json_ json_object *o = json_new_text_member("word", word);
        ASSERT_ERR(varlink_client_call(c, "a.b.C", o, 50000, &r, &e), -ETIMEDOUT);
        close(fds[1]);
        ASSERT_ERR(varlink_client_next(c, TIMEOUT, &r, &e), -ECONNRESET);
}

/* A subscriber disconnects by freeing its client: the call on the other side is notified. */
TEST(client_that_gives_up)
{
        SERVICE(s, 0);
        VarlinkClient *c = NULL;

        ASSERT_OK(varlink_client_new(join(&s), NULL, &c));
        ASSERT_OK(varlink_client_send(c, "org.example.test.Watch", NULL, true, NULL));
        run(&s);
        ASSERT_NOT_NULL(s.kept);
        varlink_client_free(c);
        run(&s);
        ASSERT_EQ(s.n_gone, 1);
        ASSERT_NULL(s.kept);
}

TEST(sockets)
{
        SERVICE(s, 0);
        _cleanup_(varlink_reply_done) VarlinkReply r = {};
        _cleanup_error_ Error e = ERROR_NULL;
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        socklen_t size = sizeof(address);
        VarlinkClient *c = NULL;

        /* The kernel gives an abstract name. */
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
        ASSERT_OK(bind(fd, (struct sockaddr *) &address, sizeof(sa_family_t)));
        ASSERT_OK(getsockname(fd, (struct sockaddr *) &address, &size));
        ASSERT_OK(listen(fd, 0));
        ASSERT_OK(varlink_server_listen(s.server, fd));
        ASSERT_OK(connect(client, (struct sockaddr *) &address, size));
        ASSERT_OK(varlink_client_new(client, NULL, &c));
        ASSERT_EQ(s.server->n_connections, 0);
        ASSERT_OK(pthread_create(&s.thread, NULL, serve, &s));
        ASSERT_OK(varlink_client_call(c, "org.example.test.Ping", NULL, TIMEOUT, &r, &e));
        client_done(&s, c);
        ASSERT_ERR(varlink_server_listen(s.server, -EBADF), -EBADF);
        ASSERT_ERR(varlink_server_add_connection(s.server, -EBADF), -EBADF);
}

/* --- Interfaces ---------------------------------------------------------------------------------------- */

TEST(interfaces_that_are_refused)
{
        SERVICE(s, 0);
        _cleanup_error_ Error e = ERROR_NULL;
        static const VarlinkMethod method = {"M", echo, 0};
        static const VarlinkInterface invalid = {"a.b", "interface", NULL, 0},
                                      undescribed = {"a.b", "interface a.b type M ()", &method, 1};
        int r = 0;

        ASSERT_ERR(varlink_server_add_interface(s.server, &invalid, NULL, &e), -EBADMSG);
        ASSERT_ERR(varlink_server_add_interface(s.server, &undescribed, NULL, &e), -EINVAL);
        ASSERT_CONTAINS(e.message, "'a.b' does not describe method 'M'");
        for (unsigned i = 0; i < 10 && r >= 0; i++)
                r = varlink_server_add_interface(s.server, &interface, &s, &e);
        ASSERT_ERR(r, -E2BIG);
}

int main(void)
{
        if (library_load(&systemd_library, NULL) < 0)
                return 1;
        RUN(information);
        RUN(framing);
        RUN(calls_are_answered_in_order);
        RUN(half_closed);
        RUN(errors);
        RUN(parameters);
        RUN(long_names);
        RUN(malformed_messages);
        RUN(sizes);
        RUN(depth_and_values);
        RUN(messages_that_take_too_long);
        RUN(numbers_of_connections);
        RUN(connections_with_calls_make_no_room);
        RUN(other_users);
        RUN(several_replies);
        RUN(subscriber_that_does_not_read);
        RUN(caller_that_does_not_read);
        RUN(replies_that_are_not_taken);
        RUN(peer_that_goes_while_its_call_is_pending);
        RUN(service_that_goes_while_calls_are_pending);
        RUN(a_service_that_ends_for_new_calls);
        RUN(oneway);
        RUN(oneway_at_the_end_of_the_service);
        RUN(descriptors_in);
        RUN(too_many_descriptors);
        RUN(descriptors_of_refused_messages);
        RUN(a_peer_that_sends_its_own_end);
        RUN(descriptors_out);
        RUN(descriptors_of_a_long_message);
        RUN(client_calls);
        RUN(invalid_replies);
        RUN(client_waits);
        RUN(client_that_gives_up);
        RUN(sockets);
        RUN(interfaces_that_are_refused);
        return TEST_END();
}
