/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Varlink: what services answer, byte for byte; peers that break the rules; and clients. */

#include <poll.h>
#include <sys/un.h>

#include "tests/unit/scratch.h"
#include "tests/unit/test.h"
#include "varlink/varlink-internal.h"

static const char description[] =
                "# For tests.\n"
                "interface org.example.test\n"
                "type Point (x: int, y: ?int)\n"
                "type Color (red, green, dark_blue) # three\n"
                "type Tree (name: string, children: []Tree)\n"
                "method Echo(word: string) -> (word: string)\n"
                "method Kinds(b: ?bool, i: ?int, f: ?float, s: ?string, o: ?object, a: ?any, l: ?[]int,\n"
                "        m: ?[string]string, p: ?Point, c: ?Color, e: ?(on, off), t: ?Tree, n: ?[]?int,\n"
                "        st: ?(a: (b: []string))) -> ()\n"
                "method Later() -> (n: int)\n"
                "method Watch() -> (n: int)\n"
                "method Descriptors(reply: ?int) -> (text: []string)\n"
                "method Deaf() -> ()\n"
                "method Missing() -> ()\n"
                "method Private() -> (uid: int, pid: int)\n"
                "method Fail(how: string) -> ()\n"
                "method Quit() -> ()\n"
                "error Sad (why: string)\n";

typedef struct Service {
        sd_event *event;
        VarlinkServer *server;
        VarlinkCall *kept;
        unsigned n_calls, n_gone, n_idle;
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
        varlink_call_on_gone(c, on_gone, s);
        return 0;
}

/* Reads what is in each, and replies with pipes that have their index in them. */
static int descriptors(VarlinkCall *c, json_object *parameters, void *userdata)
{
        _cleanup_json_ json_object *reply = json_object_new_object();
        json_object *list = json_object_new_array();
        VarlinkFds *fds = varlink_call_fds(c);
        int n = json_object_get_int(json_object_object_get(parameters, "reply"));

        for (size_t i = 0; i < fds->n; i++) {
                char text[16] = "";
                _cleanup_close_ int fd = varlink_fds_take(fds, i);
                if (read(fd, text, sizeof(text) - 1) < 0 || !(fcntl(fd, F_GETFD) & FD_CLOEXEC))
                        return -EIO;
                (void) json_list_append(list, json_object_new_string(text));
        }
        if (varlink_fds_take(fds, 0) != -ENXIO)
                return -EIO;
        (void) json_member_add(reply, "text", list);
        for (int i = 0; i < n; i++) {
                int p[2];
                if (pipe2(p, O_CLOEXEC) < 0 || dprintf(p[1], "%d", i) < 0)
                        return -errno;
                safe_close(p[1]);
                int r = varlink_call_push_fd(c, p[0]);
                if (r < 0)
                        return r;
        }
        return varlink_reply(c, reply);
}

static int deaf(VarlinkCall *c, json_object *parameters, void *userdata)
{
        return varlink_call_fds(c)->n > 0 ? -ENOTUNIQ : varlink_reply(c, NULL);
}

static int private(VarlinkCall *c, json_object *parameters, void *userdata)
{
        _cleanup_json_ json_object *o = number("uid", varlink_call_peer(c)->uid);

        (void) json_member_add(o, "pid", json_object_new_int(varlink_call_peer(c)->pid));
        _cleanup_close_ int pidfd = varlink_call_peer_pidfd(c);
        if (pidfd < 0 && pidfd != -EOPNOTSUPP)
                return pidfd;
        return varlink_reply(c, o);
}

static int fail(VarlinkCall *c, json_object *parameters, void *userdata)
{
        const char *how = json_object_get_string(json_object_object_get(parameters, "how"));
        _cleanup_json_ json_object *why = message_one_string("why", how);

        if (streq(how, "sad"))
                return varlink_reply_error(c, "org.example.test.Sad", why);
        if (streq(how, "sad without why"))
                return varlink_reply_error(c, "org.example.test.Sad", NULL);
        if (streq(how, "undeclared"))
                return varlink_reply_error(c, "org.example.test.Glad", NULL);
        if (streq(how, "foreign"))
                return varlink_reply_error(c, "org.example.Elsewhere", NULL);
        if (streq(how, "forget"))
                return 0;
        if (streq(how, "twice"))
                return varlink_reply(c, NULL) < 0 ? -EIO : varlink_reply(c, NULL);
        if (streq(how, "continues"))
                return varlink_reply_continues(c, NULL);
        if (streq(how, "wrong reply"))
                return varlink_reply(c, why);
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
                {"Deaf", deaf, 0},
                {"Private", private, VARLINK_METHOD_PRIVILEGED},
                {"Fail", fail, 0},
                {"Quit", quit, 0},
};
static const VarlinkInterface interface = {description, methods, ELEMENTSOF(methods)};

static void on_idle(void *userdata)
{
        ((Service *) userdata)->n_idle++;
}

static int service_new(Service *s, const VarlinkLimits *limits)
{
        VarlinkServerOptions o = {
                        .vendor = "Vendor", .product = "Product", .version = "1", .on_idle = on_idle};

        *s = (Service){.listen_fd = -EBADF};
        o.userdata = s;
        if (limits)
                o.limits = *limits;
        int r = sd_event_new(&s->event);
        if (r >= 0)
                r = varlink_server_new(s->event, &o, &s->server, NULL);
        return r < 0 ? r : varlink_server_add_interface(s->server, &interface, s, NULL);
}

static void service_done(Service *s)
{
        varlink_server_free(s->server);
        varlink_call_unref(s->kept);
        sd_event_unref(s->event);
}

#define SERVICE(s, limits)                                                                                  \
        _cleanup_(service_done) Service s;                                                                  \
        ASSERT_OK(service_new(&s, limits))

/* Until there is nothing to do any more; or for at most so long. */
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

/* All that is there to be read: messages, each ended by a line break; "end" if that was the end. */
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
        SERVICE(s, NULL);
        _cleanup_close_ int fd = join(&s);
        const char *a = answer(&s, fd, "{\"method\":\"org.varlink.service.GetInfo\"}");

        ASSERT_CONTAINS(a, "\"interfaces\":[\"org.varlink.service\",\"org.example.test\"]");
        ASSERT_CONTAINS(a, "\"vendor\":\"Vendor\",\"product\":\"Product\",\"version\":\"1\",\"url\":\"\"");
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
        SERVICE(s, NULL);
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
        ASSERT_STREQ(answer(&s, fd, TEST_METHOD("Deaf") ",\"parameters\":null}"), "{\"parameters\":{}}\n");
}

TEST(calls_are_answered_in_order)
{
        SERVICE(s, NULL);
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

/* A peer that has no more to say, but listens, gets its answers. */
TEST(half_closed)
{
        SERVICE(s, NULL);
        _cleanup_close_ int fd = join(&s);
        static const char two[] = TEST_METHOD("Later") "}\0" ECHO("2");

        ASSERT_EQ(send(fd, two, sizeof(two), 0), sizeof(two));
        ASSERT_OK(shutdown(fd, SHUT_WR));
        run(&s);
        ASSERT_OK(varlink_reply_errno(s.kept, -EBUSY));
        ASSERT_STREQ(received(&s, fd), ERRNO(16, "EBUSY") ECHOED("2") "end\n");
        ASSERT_EQ(varlink_server_n_connections(s.server), 0);
        ASSERT_EQ(s.n_idle, 1);
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
                        {TEST_METHOD("Echo") ",\"upgrade\":true}",
                         ERROR_("MethodNotImplemented", "method", "org.example.test.Echo")},
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
                        /* Mistakes of the service. */
                        {TEST_METHOD("Fail") ",\"parameters\":{\"how\":\"sad without why\"}}",
                         ERRNO(22, "EINVAL")},
                        {TEST_METHOD("Fail") ",\"parameters\":{\"how\":\"undeclared\"}}",
                         ERRNO(22, "EINVAL")},
                        {TEST_METHOD("Fail") ",\"parameters\":{\"how\":\"wrong reply\"}}",
                         ERRNO(22, "EINVAL")},
        };
        SERVICE(s, NULL);
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
                        {"'f':1.5", NULL},
                        {"'f':2", NULL},
                        {"'f':'2'", "f"},
                        {"'s':''", NULL},
                        {"'s':5", "s"},
                        {"'s':[]", "s"},
                        {"'o':{'x':[1]}", NULL},
                        {"'o':[]", "o"},
                        {"'o':'x'", "o"},
                        {"'a':[1,{}]", NULL},
                        {"'a':null", NULL},
                        {"'l':[]", NULL},
                        {"'l':[1,2]", NULL},
                        {"'l':{}", "l"},
                        {"'l':[1,'2',3]", "l[1]"},
                        {"'l':[1,null]", "l[1]"},
                        {"'n':[1,null]", NULL},
                        {"'n':[null,'']", "n[1]"},
                        {"'m':{}", NULL},
                        {"'m':{'any key':'x',' ':'y'}", NULL},
                        {"'m':{'k':1}", "m.k"},
                        {"'m':[]", "m"},
                        {"'p':{'x':1}", NULL},
                        {"'p':{'x':1,'y':null}", NULL},
                        {"'p':{'y':1}", "p.x"},
                        {"'p':{'x':1,'y':'2'}", "p.y"},
                        {"'p':{'x':1,'z':2}", "p.z"},
                        {"'p':[]", "p"},
                        {"'c':'dark_blue'", NULL},
                        {"'c':'dark'", "c"},
                        {"'c':'red '", "c"},
                        {"'c':''", "c"},
                        {"'c':0", "c"},
                        {"'e':'on'", NULL},
                        {"'e':'red'", "e"},
                        {"'t':{'name':'a','children':[{'name':'b','children':[]}]}", NULL},
                        {"'t':{'name':'a','children':[{'name':'b'}]}", "t.children[0].children"},
                        {"'st':{'a':{'b':['x']}}", NULL},
                        {"'st':{'a':{'b':['x',1]}}", "st.a.b[1]"},
                        {"'st':{'a':null}", "st.a"},
                        {"'unknown':1", "unknown"},
                        {"'unknown':null", "unknown"},
                        {"'':1", ""},
                        {"'b':true,'B':true", "B"},
        };
        SERVICE(s, NULL);
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

/* What a peer calls its parameters comes back, cut where that is long. */
TEST(long_names)
{
        SERVICE(s, NULL);
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
                        "{\"method\":[\"org.example.test.Deaf\"]}",
                        "{\"parameters\":{}}",
                        TEST_METHOD("Deaf") ",\"method\":\"org.example.test.Echo\"}",
                        TEST_METHOD("Deaf") ",\"parameters\":[]}",
                        TEST_METHOD("Deaf") ",\"parameters\":{\"a\":1,\"a\":1}}",
                        TEST_METHOD("Deaf") ",\"more\":1}",
                        TEST_METHOD("Deaf") ",\"oneway\":\"true\"}",
                        TEST_METHOD("Deaf") ",\"more\":true,\"oneway\":true}",
                        TEST_METHOD("Deaf") ",\"upgrade\":true,\"oneway\":true}",
                        TEST_METHOD("Deaf") ",\"continues\":true}",
                        TEST_METHOD("Deaf") ",\"unknown\":null}",
        };
        SERVICE(s, NULL);
        _cleanup_close_ int good = join(&s);

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                _cleanup_close_ int fd = join(&s);
                ASSERT_OK(fd);
                ASSERT_STREQ(answer(&s, fd, table[i]), "end\n");
                ASSERT_STREQ(answer(&s, good, ECHO("unharmed")), ECHOED("unharmed"));
                ASSERT_EQ(varlink_server_n_connections(s.server), 1);
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
        const VarlinkLimits limits = {.message_size = 200000};
        SERVICE(s, &limits);
        _cleanup_free_ char *call = malloc(200002);
        size_t n = (size_t) snprintf(call, 200002, "%s", ECHO("x"));

        memset(call + n, ' ', 200002 - n);
        for (unsigned over = 0; over < 2; over++) {
                _cleanup_close_ int fd = join(&s);
                call[200000 + over] = 0; /* of 200000, and one more */
                call[200000] = over ? ' ' : 0;
                for (size_t sent = 0; sent < 200001 + over;) {
                        ssize_t k = send(fd, call + sent, 200001 + over - sent, MSG_NOSIGNAL);
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
        ASSERT_LT(sent, 1000000);
        ASSERT_STREQ(received(&s, fd), "end\n");
}

TEST(depth_and_values)
{
        const VarlinkLimits limits = {.n_values = 1000};
        SERVICE(s, &limits);

        /* Two levels are the message's own. */
        for (int depth = 30; depth <= 31; depth++) {
                _cleanup_close_ int fd = join(&s);
                char call[256], *p = call + sprintf(call, TEST_METHOD("Kinds") ",\"parameters\":{\"a\":");
                memset(p, '[', (size_t) depth);
                memset(p + depth, ']', (size_t) depth);
                strcpy(p + 2 * depth, "}}");
                ASSERT_STREQ(answer(&s, fd, call), depth == 30 ? "{\"parameters\":{}}\n" : "end\n");
        }
        /* Four values are around the list. */
        for (int n = 996; n <= 997; n++) {
                _cleanup_close_ int fd = join(&s);
                char call[4096], *p = call + sprintf(call, TEST_METHOD("Kinds") ",\"parameters\":{\"l\":[0");
                for (int i = 1; i < n; i++)
                        p = stpcpy(p, ",0");
                strcpy(p, "]}}");
                ASSERT_STREQ(answer(&s, fd, call), n == 996 ? "{\"parameters\":{}}\n" : "end\n");
        }
}

TEST(messages_that_take_too_long)
{
        const VarlinkLimits limits = {.message_usec = 100000};
        SERVICE(s, &limits);
        _cleanup_close_ int silent = join(&s), slow = join(&s), patient = join(&s);
        static const char two[] = TEST_METHOD("Later") "}\0{\"meth";

        ASSERT_EQ(send(patient, two, sizeof(two) - 1, 0), sizeof(two) - 1);
        for (int i = 0; i < 6; i++) { /* a byte now and then does not help */
                ASSERT_TRUE(send(slow, &"{\"method\":"[i], 1, MSG_NOSIGNAL) == 1 || i > 3);
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

TEST(numbers_of_connections)
{
        const VarlinkLimits limits = {.connections = 8, .connections_per_user = 2};
        SERVICE(s, &limits);
        int fds[10];

        for (int i = 0; i < 10; i++)
                fds[i] = join(&s);
        ASSERT_OK(fds[7]);
        ASSERT_ERR(fds[8], -EUSERS);
        ASSERT_EQ(varlink_server_n_connections(s.server), 8);
        fds[0] = safe_close(fds[0]);
        run(&s);
        ASSERT_EQ(varlink_server_n_connections(s.server), 7);
        fds[0] = join(&s);
        ASSERT_OK(fds[0]);
        ASSERT_STREQ(answer(&s, fds[0], ECHO("x")), ECHOED("x"));
        ASSERT_EQ(s.n_idle, 0);
        for (int i = 0; i < 10; i++)
                safe_close(fds[i]);
        run(&s);
        ASSERT_EQ(s.n_idle, 1);
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

TEST(other_users)
{
        const VarlinkLimits limits = {.connections = 8, .connections_per_user = 2};
        SERVICE(s, &limits);
        int fds[7], own[2];
        char expected[128];

        if (geteuid() != 0)
                TEST_SKIP("not root");
        for (int i = 0; i < 7; i++)
                fds[i] = join_as(&s, 1000 + (uid_t) i / 3);
        ASSERT_OK(fds[1]);
        ASSERT_ERR(fds[2], -EUSERS);
        ASSERT_OK(fds[4]);
        ASSERT_ERR(fds[5], -EUSERS);
        ASSERT_OK(fds[6]);
        _cleanup_close_ int sixth = join_as(&s, 1003), seventh = join_as(&s, 1004);
        ASSERT_OK(sixth);
        ASSERT_ERR(seventh, -EUSERS); /* the rest is root's */
        ASSERT_OK(own[0] = join(&s));
        ASSERT_OK(own[1] = join(&s));
        ASSERT_ERR(join(&s), -EUSERS);
        ASSERT_STREQ(answer(&s, fds[0], TEST_METHOD("Private") "}"),
                     "{\"error\":\"org.varlink.service.PermissionDenied\",\"parameters\":{}}\n");
        ASSERT_STREQ(answer(&s, fds[0], ECHO("x")), ECHOED("x"));
        snprintf(expected, sizeof(expected), "{\"parameters\":{\"uid\":0,\"pid\":%d}}\n", (int) getpid());
        ASSERT_STREQ(answer(&s, own[0], TEST_METHOD("Private") "}"), expected);
        for (int i = 0; i < 7; i++)
                safe_close(fds[i]);
        safe_close(own[0]);
        safe_close(own[1]);
}

/* --- Replies that come later, several, or none --------------------------------------------------------- */

TEST(several_replies)
{
        SERVICE(s, NULL);
        _cleanup_close_ int fd = join(&s);
        _cleanup_json_ json_object *n = number("n", 1), *wrong = number("m", 1);

        ASSERT_STREQ(answer(&s, fd, TEST_METHOD("Watch") ",\"more\":true}"), "");
        ASSERT_TRUE(varlink_call_more(s.kept));
        ASSERT_STREQ(varlink_call_method(s.kept), "org.example.test.Watch");
        ASSERT_OK(varlink_reply_continues(s.kept, n));
        ASSERT_ERR(varlink_reply_continues(s.kept, wrong), -EINVAL);
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
        const VarlinkLimits limits = {.queue_length = 10};
        SERVICE(s, &limits);
        _cleanup_close_ int fd = join(&s), good = join(&s);
        _cleanup_json_ json_object *n = number("n", 1);
        unsigned sent = 0;
        int r = 0;

        send_text(fd, TEST_METHOD("Watch") ",\"more\":true}");
        run(&s);
        for (; sent < 100000 && r >= 0; sent++) {
                r = varlink_reply_continues(s.kept, n);
                ASSERT_LE(s.kept->connection->link.out_length, 10);
        }
        ASSERT_ERR(r, -ENOBUFS);
        ASSERT_GT(sent, 10);
        ASSERT_ERR(varlink_reply_continues(s.kept, n), -ECONNRESET);
        ASSERT_EQ(s.n_gone, 0); /* told from the event loop only */
        run(&s);
        ASSERT_EQ(s.n_gone, 1);
        ASSERT_EQ(varlink_server_n_connections(s.server), 1);
        ASSERT_STREQ(answer(&s, good, ECHO("unharmed")), ECHOED("unharmed"));
}

TEST(bytes_in_the_queue)
{
        const VarlinkLimits limits = {.queue_size = 1,
                                      .message_size = 100000}; /* as long as a message, then */
        SERVICE(s, &limits);
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
                        run(&s);
                }
        }
        ASSERT_LT(sent, 10); /* the socket's buffer, and no more than two */
        ASSERT_GT(s.n_calls, 1);
        ASSERT_EQ(varlink_server_n_connections(s.server), 0);
}

/* It takes its answers, but not in time. */
TEST(replies_that_are_not_taken)
{
        const VarlinkLimits limits = {.message_usec = 100000};
        SERVICE(s, &limits);
        _cleanup_close_ int fd = join(&s);
        _cleanup_json_ json_object *n = number("n", 1);

        send_text(fd, TEST_METHOD("Watch") ",\"more\":true}");
        run(&s);
        Connection *k = s.kept->connection;
        while (!k->link.out)
                ASSERT_OK(varlink_reply_continues(s.kept, n));
        run_for(&s, 50000);
        ASSERT_EQ(s.n_gone, 0);
        run_for(&s, 100000);
        ASSERT_EQ(s.n_gone, 1);
}

TEST(peer_that_goes_while_its_call_is_pending)
{
        SERVICE(s, NULL);
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
        ASSERT_EQ(varlink_server_n_connections(s.server), 0);
        ASSERT_ERR(varlink_reply(c, n), -ECONNRESET);
        ASSERT_ERR(varlink_call_peer_pidfd(c), -ECONNRESET);
        run(&s);
        ASSERT_EQ(s.n_gone, 1);
}

TEST(service_that_goes_while_calls_are_pending)
{
        SERVICE(s, NULL);
        _cleanup_close_ int fd = join(&s);

        (void) answer(&s, fd, TEST_METHOD("Later") "}");
        _cleanup_(varlink_call_unrefp) VarlinkCall *c = varlink_call_ref(s.kept);
        s.server = varlink_server_free(s.server);
        ASSERT_EQ(s.n_gone, 1);
        ASSERT_ERR(varlink_reply(c, NULL), -ECONNRESET);
        ASSERT_STREQ(received(&s, fd), "end\n");
}

TEST(oneway)
{
        SERVICE(s, NULL);
        int fd = join(&s);
        static const char calls[] =
                        TEST_METHOD("Echo") ",\"oneway\":true,\"parameters\":{\"word\":\"x\"}}"
                                            "\0" TEST_METHOD("Nothing") ",\"oneway\":true}\0" TEST_METHOD(
                                                            "Fail") ",\"oneway\":true,\"parameters\":{"
                                                                    "\"how\":\"errno\"}}\0" ECHO("reply");

        ASSERT_EQ(send(fd, calls, sizeof(calls), 0), sizeof(calls));
        ASSERT_STREQ(received(&s, fd), ECHOED("reply"));
        ASSERT_EQ(s.n_calls, 2);
        /* Whoever wants no reply may go before it is done, and what he said then is done after it. */
        static const char more[] = TEST_METHOD("Later") ",\"oneway\":true}\0" TEST_METHOD(
                        "Echo") ",\"oneway\":true,\"parameters\":{\"word\":\"x\"}}";
        ASSERT_EQ(send(fd, more, sizeof(more), 0), sizeof(more));
        safe_close(fd);
        run(&s);
        ASSERT_EQ(s.n_calls, 3);
        ASSERT_EQ(s.n_gone, 0);
        ASSERT_TRUE(varlink_call_oneway(s.kept));
        ASSERT_EQ(sd_event_run(s.event, 0), 0); /* and nothing spins meanwhile */
        s.kept = varlink_call_unref(s.kept);
        run(&s);
        ASSERT_EQ(s.n_calls, 4);
        ASSERT_EQ(varlink_server_n_connections(s.server), 0);
        ASSERT_EQ(s.n_gone, 0);
}

TEST(oneway_at_the_end_of_the_service)
{
        SERVICE(s, NULL);
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
        int fds[2 * VARLINK_FDS_MAX], r;

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
        SERVICE(s, NULL);
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
        /* With the second of two that are sent at once, as sd-varlink does. */
        _cleanup_close_ int fd = join(&s);
        ASSERT_OK(send_with_pipes(fd, two, sizeof(two), 1, "c"));
        ASSERT_STREQ(received(&s, fd),
                     "{\"parameters\":{\"text\":[]}}\n{\"parameters\":{\"text\":[\"c0\"]}}\n");
}

TEST(too_many_descriptors)
{
        SERVICE(s, NULL);
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
                        TEST_METHOD("Deaf") "}",
                        TEST_METHOD("Deaf") ",\"oneway\":true}",
                        TEST_METHOD("Later") "}",
                        "{",
                        "",
        };
        SERVICE(s, NULL);
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

/* A peer whose own end is held by the service is not seen to close it; the time of a message ends that. */
TEST(a_peer_that_sends_its_own_end)
{
        const VarlinkLimits limits = {.message_usec = 50000};
        SERVICE(s, &limits);
        int fd = join(&s), other = join(&s);

        ASSERT_OK(send_fds(fd, "{", 1, &fd, 1));
        ASSERT_OK(send_fds(other, TEST_METHOD("Later") "}", sizeof(TEST_METHOD("Later") "}"), &other, 1));
        run(&s);
        safe_close(fd);
        safe_close(other);
        run(&s);
        ASSERT_EQ(varlink_server_n_connections(s.server), 1);
        ASSERT_EQ(s.n_gone, 1); /* the method wants no descriptors */
        run_for(&s, 150000);
        ASSERT_EQ(varlink_server_n_connections(s.server), 0);
}

TEST(descriptors_out)
{
        SERVICE(s, NULL);
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
        ASSERT_OK(varlink_call_push_fd(s.kept, pipe_with("x")));
        ASSERT_ERR(varlink_call_push_fd(s.kept, -ENOENT), -EBADF);
        fd = safe_close(fd);
        run(&s);
        ASSERT_EQ(count_fds(), before - 2);
}

/* A message that is sent in parts, as the peer reads it, has its descriptors once. */
TEST(descriptors_of_a_long_message)
{
        _cleanup_free_ char *word = calloc(1, 900001), *data = malloc(65536);
        _cleanup_(varlink_fds_done) VarlinkFds sent = {};
        _cleanup_(link_done) Link l = {.fd = -EBADF};
        size_t n_fds = 0, size = 0, n;
        int p[2], fds[8];

        ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, p));
        _cleanup_close_ int peer = p[1];
        ASSERT_OK(link_init(&l, p[0], NULL));
        memset(word, 'x', 900000);
        _cleanup_json_ json_object *message = message_one_string("word", word);
        ASSERT_OK(varlink_fds_push(&sent, pipe_with("x")));
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
        SERVICE(s, NULL);
        VarlinkClient *c = NULL;
        _cleanup_(varlink_reply_done) VarlinkReply r = {};
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_json_ json_object *word = message_one_string("word", "x"),
                                   *sad = message_one_string("how", "sad"),
                                   *no = message_one_string("how", "no"), *reply = number("reply", 2),
                                   *foreign = message_one_string("how", "foreign");
        static const struct {
                const char *method;
                VarlinkOutcome outcome;
                int code;
                const char *message;
        } table[] = {
                        {"org.example.no.X", VARLINK_INTERFACE_NOT_FOUND, -EOPNOTSUPP,
                         "no interface 'org.example.no'"},
                        {"org.example.test.X", VARLINK_METHOD_NOT_FOUND, -EOPNOTSUPP,
                         "no method 'org.example.test.X'"},
                        {"org.example.test.Missing", VARLINK_METHOD_NOT_IMPLEMENTED, -EOPNOTSUPP,
                         "'org.example.test.Missing'"},
                        {"org.example.test.Echo", VARLINK_INVALID_PARAMETER, -EINVAL,
                         "refuses parameter 'word'"},
                        {"org.example.test.Watch", VARLINK_EXPECTED_MORE, -EINVAL, "\"more\""},
        };

        ASSERT_OK(client_new(&s, &c));
        ASSERT_ERR(varlink_client_next(c, TIMEOUT, &r, &e), -ENODATA);
        ASSERT_EQ(varlink_client_call(c, "org.example.test.Echo", word, TIMEOUT, &r, &e), VARLINK_OK);
        ASSERT_TRUE(json_object_equal(r.parameters, word));
        ASSERT_NULL(r.error);
        ASSERT_EQ(varlink_reply_to_error(&r, &e), 0);
        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                varlink_reply_done(&r);
                ASSERT_EQ(varlink_client_call(c, table[i].method, NULL, TIMEOUT, &r, &e), table[i].outcome);
                ASSERT_ERR(varlink_reply_to_error(&r, &e), table[i].code);
                ASSERT_CONTAINS(e.message, table[i].message);
        }
        varlink_reply_done(&r);
        ASSERT_EQ(varlink_client_call(c, "org.example.test.Fail", sad, TIMEOUT, &r, &e), VARLINK_ERROR);
        ASSERT_STREQ(r.error, "org.example.test.Sad");
        ASSERT_STREQ(json_object_get_string(json_object_object_get(r.parameters, "why")), "sad");
        ASSERT_ERR(varlink_reply_to_error(&r, &e), -EREMOTEIO);
        ASSERT_CONTAINS(e.message, "'org.example.test.Sad' {\"why\":\"sad\"}");
        varlink_reply_done(&r);
        ASSERT_EQ(varlink_client_call(c, "org.example.test.Fail", foreign, TIMEOUT, &r, &e), VARLINK_ERROR);
        varlink_reply_done(&r);
        ASSERT_EQ(varlink_client_call(c, "org.example.test.Fail", no, TIMEOUT, &r, &e),
                  VARLINK_SYSTEM_ERROR);
        ASSERT_ERR(varlink_reply_to_error(&r, &e), -ENOENT);
        /* Descriptors both ways. */
        varlink_reply_done(&r);
        ASSERT_OK(varlink_client_push_fd(c, pipe_with("in")));
        ASSERT_EQ(varlink_client_call(c, "org.example.test.Descriptors", reply, TIMEOUT, &r, &e),
                  VARLINK_OK);
        ASSERT_STREQ(json_object_to_json_string_ext(r.parameters, JSON_C_TO_STRING_PLAIN),
                     "{\"text\":[\"in\"]}");
        ASSERT_EQ(r.fds.n, 2);
        _cleanup_close_ int fd = varlink_fds_take(&r.fds, 1);
        char text[4] = "";
        ASSERT_EQ(read(fd, text, 3), 1);
        ASSERT_STREQ(text, "1");
        ASSERT_ERR(varlink_fds_take(&r.fds, 1), -ENXIO);
        ASSERT_ERR(varlink_fds_take(&r.fds, 2), -ENXIO);
        /* None is answered out of order. */
        ASSERT_OK(varlink_client_send(c, "org.example.test.Echo", word, VARLINK_CALL_ONEWAY));
        ASSERT_OK(varlink_client_send(c, "org.example.test.Echo", word, 0));
        ASSERT_OK(varlink_client_send(c, "org.example.test.Fail", sad, 0));
        ASSERT_ERR(varlink_client_call(c, "org.example.test.Echo", word, TIMEOUT, &r, &e), -EBUSY);
        varlink_reply_done(&r);
        ASSERT_EQ(varlink_client_next(c, TIMEOUT, &r, &e), VARLINK_OK);
        varlink_reply_done(&r);
        ASSERT_EQ(varlink_client_next(c, TIMEOUT, &r, &e), VARLINK_ERROR);
        client_done(&s, c);
}

/* What a service sends to a client, and what the first and the second wait for a reply return. */
TEST(replies_that_are_none)
{
        static const struct {
                const char *text;
                bool more;
                int first, second;
        } table[] = {
                        {"{}", false, VARLINK_OK, -ENODATA},
                        {"{\"parameters\":{},\"continues\":false}", false, VARLINK_OK, -ENODATA},
                        {"{\"continues\":true}", true, VARLINK_OK, -ECONNRESET},
                        {"{\"continues\":true}", false, -EBADMSG, -EBADMSG},
                        {"{\"continues\":true,\"error\":\"x\"}", true, -EBADMSG, -EBADMSG},
                        {"{\"error\":1}", false, -EBADMSG, -EBADMSG},
                        {"{\"parameters\":[]}", false, -EBADMSG, -EBADMSG},
                        {"{\"method\":\"x.y\"}", false, -EBADMSG, -EBADMSG},
                        {"[]", false, -EBADMSG, -EBADMSG},
                        {"", false, -EBADMSG, -EBADMSG},
                        {NULL, false, -ECONNRESET, -ECONNRESET},
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                _cleanup_(varlink_client_freep) VarlinkClient *c = NULL;
                _cleanup_(varlink_reply_done) VarlinkReply first = {}, second = {};
                int fds[2];
                ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
                ASSERT_OK(varlink_client_new(fds[0], NULL, &c));
                ASSERT_OK(varlink_client_send(c, "a.b.C", NULL, table[i].more ? VARLINK_CALL_MORE : 0));
                if (table[i].text)
                        send_text(fds[1], table[i].text);
                close(fds[1]);
                ASSERT_ERR(varlink_client_next(c, TIMEOUT, &first, NULL), table[i].first);
                ASSERT_ERR(varlink_client_next(c, TIMEOUT, &second, NULL), table[i].second);
        }
}

/* That one call may have several replies is of no use to the next. */
TEST(several_replies_to_another_call)
{
        _cleanup_(varlink_client_freep) VarlinkClient *c = NULL;
        int fds[2];
        static const struct {
                const char *text;
                int result;
        } table[] = {
                        {"{\"continues\":true}", VARLINK_OK},
                        {"{}", VARLINK_OK},
                        {"{\"continues\":true}", -EBADMSG},
        };

        ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
        _cleanup_close_ int peer = fds[1];
        ASSERT_OK(varlink_client_new(fds[0], NULL, &c));
        ASSERT_OK(varlink_client_send(c, "a.b.C", NULL, VARLINK_CALL_MORE));
        ASSERT_OK(varlink_client_send(c, "a.b.C", NULL, 0));
        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                _cleanup_(varlink_reply_done) VarlinkReply r = {};
                send_text(peer, table[i].text);
                ASSERT_ERR(varlink_client_next(c, TIMEOUT, &r, NULL), table[i].result);
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
        ASSERT_EQ(varlink_client_next(c, UINT64_MAX, &r, &e), VARLINK_OK);
        ASSERT_EQ(json_object_get_int(json_object_object_get(r.parameters, "a")), 1);
        for (unsigned i = 0; i < 64; i++)
                ASSERT_OK(varlink_client_send(c, "a.b.C", NULL, 0));
        ASSERT_ERR(varlink_client_send(c, "a.b.C", NULL, 0), -EBUSY);
        close(fds[1]);
}

typedef struct Seen {
        unsigned n;
        int result;
        bool continues;
        VarlinkClient *client; /* to be freed at the end */
        bool free_at_reply;
} Seen;

static void on_reply(VarlinkClient *c, int result, VarlinkReply *reply, void *userdata)
{
        Seen *seen = userdata;

        seen->n++;
        seen->result = result;
        seen->continues = reply && reply->continues;
        if (result < 0 || seen->free_at_reply)
                seen->client = varlink_client_free(c);
}

TEST(client_in_the_event_loop)
{
        SERVICE(s, NULL);
        Seen seen = {};
        _cleanup_json_ json_object *n = number("n", 1);

        ASSERT_OK(varlink_client_new(join(&s), NULL, &seen.client));
        ASSERT_OK(varlink_client_attach(seen.client, s.event, on_reply, &seen));
        ASSERT_OK(varlink_client_send(seen.client, "org.example.test.Watch", NULL, VARLINK_CALL_MORE));
        ASSERT_OK(varlink_client_send(seen.client, "org.example.test.Nothing", NULL, 0));
        run(&s);
        ASSERT_EQ(seen.n, 0);
        for (unsigned i = 1; i < 4; i++) {
                ASSERT_OK(varlink_reply_continues(s.kept, n));
                run(&s);
                ASSERT_EQ(seen.n, i);
                ASSERT_TRUE(seen.continues);
        }
        ASSERT_OK(varlink_reply(s.kept, n));
        run(&s);
        ASSERT_EQ(seen.n, 5);
        ASSERT_EQ(seen.result, VARLINK_METHOD_NOT_FOUND);
        /* The service ends. */
        s.server = varlink_server_free(s.server);
        run(&s);
        ASSERT_EQ(seen.n, 6);
        ASSERT_ERR(seen.result, -ECONNRESET);
        ASSERT_NULL(seen.client);
}

TEST(client_that_is_freed_by_a_reply)
{
        SERVICE(s, NULL);
        Seen seen = {.free_at_reply = true};

        ASSERT_OK(varlink_client_new(join(&s), NULL, &seen.client));
        ASSERT_OK(varlink_client_attach(seen.client, s.event, on_reply, &seen));
        for (unsigned i = 0; i < 3; i++)
                ASSERT_OK(varlink_client_send(seen.client, "org.example.test.Deaf", NULL, 0));
        run(&s);
        ASSERT_EQ(seen.n, 1);
        ASSERT_NULL(seen.client);
        ASSERT_EQ(varlink_server_n_connections(s.server), 0);
}

/* A subscriber goes away by freeing its client: the call on the other side is told. */
TEST(client_that_gives_up)
{
        SERVICE(s, NULL);
        VarlinkClient *c = NULL;

        ASSERT_OK(varlink_client_new(join(&s), NULL, &c));
        ASSERT_OK(varlink_client_send(c, "org.example.test.Watch", NULL, VARLINK_CALL_MORE));
        run(&s);
        ASSERT_NOT_NULL(s.kept);
        varlink_client_free(c);
        run(&s);
        ASSERT_EQ(s.n_gone, 1);
        ASSERT_NULL(s.kept);
}

TEST(sockets)
{
        SERVICE(s, NULL);
        _cleanup_(scratch_done) Scratch dir = SCRATCH_NULL;
        _cleanup_(varlink_reply_done) VarlinkReply r = {};
        _cleanup_error_ Error e = ERROR_NULL;
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        VarlinkClient *c = NULL;
        char path[PATH_MAX + 200];

        ASSERT_OK(scratch_new(&dir));
        snprintf(path, sizeof(path), "%s/%0150d", dir.path, 0); /* longer than an address */
        ASSERT_OK(mkdir(path, 0700));
        _cleanup_close_ int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        strcat(path, "/socket");
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/socket", dir_fd);
        ASSERT_OK(bind(fd, (struct sockaddr *) &address, sizeof(address)));
        ASSERT_ERR(varlink_client_connect(path, TIMEOUT, &c, &e), -ECONNREFUSED);
        ASSERT_CONTAINS(e.message, "/socket'");
        ASSERT_OK(listen(fd, 0));
        ASSERT_OK(varlink_server_listen(s.server, fd));
        ASSERT_OK(varlink_client_connect(path, TIMEOUT, &c, &e));
        ASSERT_EQ(varlink_server_n_connections(s.server), 0);
        _cleanup_(varlink_client_freep) VarlinkClient *waits = NULL;
        ASSERT_ERR(varlink_client_connect(path, 20000, &waits, &e), -ETIMEDOUT); /* nobody accepts */
        ASSERT_OK(pthread_create(&s.thread, NULL, serve, &s));
        ASSERT_EQ(varlink_client_call(c, "org.example.test.Deaf", NULL, TIMEOUT, &r, &e), VARLINK_OK);
        client_done(&s, c);
        ASSERT_ERR(varlink_client_connect("/nonexistent/socket", TIMEOUT, &waits, &e), -ENOENT);
        ASSERT_ERR(varlink_server_listen(s.server, -EBADF), -EBADF);
        ASSERT_ERR(varlink_server_add_connection(s.server, -EBADF), -EBADF);
}

/* --- Descriptions -------------------------------------------------------------------------------------- */

TEST(descriptions)
{
        static const struct {
                const char *text, *fault; /* NULL: there is none */
        } table[] = {
                        {"interface a.b", NULL},
                        {"interface a.b # the end", NULL},
                        {"\n#x\ninterface a--0.0-b.c\nmethod M()->()", NULL},
                        {"interface a.b type T () type E (a) type S (a: T, b: ?[]?[string]?E)", NULL},
                        {"interface a.b error E ()", NULL},
                        {"interface a.b type typeX (type: int, interface: bool)",
                         "line 1: a type, or a name that begins"},
                        {"interface a.b type T (type: int, method: bool, string: string)", NULL},
                        {"", "line 1: 'interface' expected"},
                        {"interfacea.b", "'interface' expected"},
                        {"interface", "a name expected"},
                        {"interface a", "a name with a dot"},
                        {"interface a..b", "a name"},
                        {"interface a.b.", "a name"},
                        {"interface a.-b", "a name"},
                        {"interface 0.b", "a name"},
                        {"interface a_b.c", "a name with a dot"},
                        {"interface a.b\n\ninterface c.d", "line 3: 'type', 'method' or 'error' expected"},
                        {"interface a.b type t ()", "a name that begins with a capital letter"},
                        {"interface a.b type T_x ()", "'(' expected"},
                        {"interface a.b type T", "'(' expected"},
                        {"interface a.b type T (", "a name expected"},
                        {"interface a.b type T (a", "',' or ')' expected"},
                        {"interface a.b type T (a,", "a name expected"},
                        {"interface a.b type T (a,)", "a name expected"},
                        {"interface a.b type T (a: int, b)", "':' expected"},
                        {"interface a.b type T (a, b: int)", "',' or ')' expected"},
                        {"interface a.b type T (a b)", "',' or ')' expected"},
                        {"interface a.b type T (a_: int)", "a name"},
                        {"interface a.b type T (_a: int)", "a name"},
                        {"interface a.b type T (a__b: int)", "a name"},
                        {"interface a.b type T (a: integer)", "a type, or a name"},
                        {"interface a.b type T (a: ??int)", "a type, or a name"},
                        {"interface a.b type T (a: [int]int)", "a type, or a name"},
                        {"interface a.b type T (a: [])", "a type, or a name"},
                        {"interface a.b\ntype T (a: U)", "line 2: a type that is declared"},
                        {"interface a.b method M() -> () type T (a: M)", "a type that is declared"},
                        {"interface a.b type T int", "'(' expected"},
                        {"interface a.b method M(a) -> ()", "':' expected"},
                        {"interface a.b method M()", "'->' expected"},
                        {"interface a.b method M() ->", "'(' expected"},
                        {"interface a.b type T (a: int, a: int)", "a name that is not there yet"},
                        {"interface a.b type T (a, a)", "a name that is not there yet"},
                        {"interface a.b type T () error T ()", "a name that is not there yet"},
                        {"interface a.b type T (a: [][][][][][][][][][][][][][][][]int)",
                         "nested less deeply"},
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                _cleanup_(idl_freep) Idl *idl = NULL;
                _cleanup_error_ Error e = ERROR_NULL;
                int r = idl_parse(table[i].text, &idl, &e);
                if (table[i].fault) {
                        ASSERT_ERR(r, -EBADMSG);
                        ASSERT_CONTAINS(e.message, table[i].fault);
                } else
                        ASSERT_OK(r);
        }
}

TEST(interfaces_that_are_refused)
{
        SERVICE(s, NULL);
        _cleanup_error_ Error e = ERROR_NULL;
        static const VarlinkMethod method = {"M", echo, 0};
        static const VarlinkInterface invalid = {"interface", NULL, 0},
                                      undescribed = {"interface a.b type M ()", &method, 1};

        ASSERT_ERR(varlink_server_add_interface(s.server, &invalid, NULL, &e), -EBADMSG);
        ASSERT_ERR(varlink_server_add_interface(s.server, &undescribed, NULL, &e), -EINVAL);
        ASSERT_CONTAINS(e.message, "'a.b' does not describe method 'M'");
        ASSERT_ERR(varlink_server_add_interface(s.server, &interface, NULL, &e), -EEXIST);
}

int main(void)
{
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
        RUN(other_users);
        RUN(several_replies);
        RUN(subscriber_that_does_not_read);
        RUN(bytes_in_the_queue);
        RUN(replies_that_are_not_taken);
        RUN(peer_that_goes_while_its_call_is_pending);
        RUN(service_that_goes_while_calls_are_pending);
        RUN(oneway);
        RUN(oneway_at_the_end_of_the_service);
        RUN(descriptors_in);
        RUN(too_many_descriptors);
        RUN(descriptors_of_refused_messages);
        RUN(a_peer_that_sends_its_own_end);
        RUN(descriptors_out);
        RUN(descriptors_of_a_long_message);
        RUN(client_calls);
        RUN(replies_that_are_none);
        RUN(several_replies_to_another_call);
        RUN(client_waits);
        RUN(client_in_the_event_loop);
        RUN(client_that_is_freed_by_a_reply);
        RUN(client_that_gives_up);
        RUN(sockets);
        RUN(descriptions);
        RUN(interfaces_that_are_refused);
        return TEST_END();
}
