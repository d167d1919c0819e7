/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Data that a peer sends to a Varlink service: messages, split at each byte 0xff, where a descriptor is
 * added. Parameters that a method receives must match its description, all replies must be messages, and the
 * service must still reply to another client. */

#include <sys/socket.h>

#include "library/libsystemd.h"
#include "varlink/varlink-internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char description[] = "interface a.b\n"
                                  "type P (x: int, y: ?int, p: []P)\n"
                                  "method M(b: ?bool, i: ?int, s: ?string, o: ?object, l: ?[]int,\n"
                                  "        p: ?P, e: ?(on, off), t: ?(x: (y: []?(a, b)))) -> ()\n"
                                  "method K() -> ()\n";

static int check_parameters(VarlinkCall *c, json_object *parameters, void *userdata)
{
        json_object *i = json_object_object_get(parameters, "i"),
                    *p = json_object_object_get(parameters, "p");
        json_object *e = json_object_object_get(parameters, "e"),
                    *l = json_object_object_get(parameters, "l");

        if ((i && !json_object_is_type(i, json_type_int)) || (p && !json_object_object_get(p, "x")) ||
            (e && !streq(json_object_get_string(e), "on") && !streq(json_object_get_string(e), "off")) ||
            (l && !json_object_is_type(l, json_type_array)) || json_object_object_length(parameters) > 8)
                abort();
        return c->more && i ? varlink_reply_continues(c, NULL) : varlink_reply(c, NULL);
}

static int keep(VarlinkCall *c, json_object *parameters, void *userdata)
{
        VarlinkCall **kept = userdata;

        varlink_call_unref(*kept);
        *kept = varlink_call_ref(c);
        return 0;
}

static const VarlinkMethod methods[] = {{"M", check_parameters, 0}, {"K", keep, VARLINK_METHOD_FDS}};
static const VarlinkInterface interface = {"a.b", description, methods, ELEMENTSOF(methods)};

static void run(sd_event *event)
{
        while (sd_event_run(event, 0) > 0)
                ;
}

/* All replies are messages, one after the other. */
static void check_answers(int fd)
{
        static char answers[4U * 1024U * 1024U];
        size_t n = 0;
        ssize_t k;

        while ((k = recv(fd, answers + n, sizeof(answers) - n, 0)) > 0)
                n += (size_t) k;
        for (char *p = answers, *end = answers + n; p < end;) {
                _cleanup_json_ json_object *o = NULL;
                size_t size = strnlen(p, (size_t) (end - p));
                if (p + size == end)
                        return; /* the connection was ended in the middle */
                if (json_parse_strict(p, size, &o, NULL, NULL) < 0 ||
                    !json_object_object_get(o, "parameters"))
                        abort();
                p += size + 1;
        }
}

static void send_parts(sd_event *event, int fd, const uint8_t *data, size_t size)
{
        _cleanup_close_ int sent = open("/dev/null", O_RDONLY | O_CLOEXEC);

        while (size > 0) {
                const uint8_t *cut = memchr(data, 0xff, size);
                size_t n = cut ? (size_t) (cut - data) : size;
                if (n > 0 && send_fds_now(fd, data, n, &sent, cut ? 1 : 0) < 0)
                        return;
                run(event);
                data += n + (cut ? 1 : 0);
                size -= n + (cut ? 1 : 0);
        }
}

static void talk(sd_event *event, VarlinkServer *s, const uint8_t *data, size_t size)
{
        int fds[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
                return;
        if (varlink_server_add_connection(s, fds[1]) < 0)
                abort();
        send_parts(event, fds[0], data, size);
        run(event);
        check_answers(fds[0]);
        safe_close(fds[0]);
        run(event);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (library_load(&systemd_library, NULL) < 0)
                return 0;
        static const char question[] = "{\"method\":\"org.varlink.service.GetInfo\"}";
        VarlinkCall *kept = NULL;
        VarlinkServer *s = NULL;
        sd_event *event = NULL;

        if (size > 100000 || sd_event_new(&event) < 0)
                return 0;
        if (varlink_server_new(event, "", "", &s, NULL) < 0 ||
            varlink_server_add_interface(s, &interface, &kept, NULL) < 0)
                abort();
        talk(event, s, data, size);
        talk(event, s, (const uint8_t *) question, sizeof(question));
        while (kept) { /* the answer to one lets the next of its connection in */
                VarlinkCall *c = TAKE_PTR(kept);
                (void) varlink_reply(c, NULL);
                varlink_call_unref(c);
                run(event);
        }
        if (s->n_connections > 0)
                abort();
        varlink_server_free(s);
        sd_event_unref(event);
        return 0;
}
