/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A Varlink service for other clients: varlink-serve SOCKET. */

#include <sys/un.h>

#include "varlink/varlink.h"

static const char description[] = "# For tests.\n"
                                  "interface org.acnspawn.Test\n"
                                  "\n"
                                  "# A place.\n"
                                  "type Point (x: int, y: ?int)\n"
                                  "\n"
                                  "type Color (red, green, blue)\n"
                                  "\n"
                                  "# What comes back is what was sent.\n"
                                  "method Echo(\n"
                                  "  word: string,\n"
                                  "  n: ?int,\n"
                                  "  at: ?[]Point,\n"
                                  "  color: ?Color,\n"
                                  "  names: ?[](id: int, kind: (small, large)),\n"
                                  "  rest: ?object\n"
                                  ") -> (\n"
                                  "  word: string,\n"
                                  "  n: ?int,\n"
                                  "  at: ?[]Point,\n"
                                  "  color: ?Color,\n"
                                  "  names: ?[](id: int, kind: (small, large)),\n"
                                  "  rest: ?object\n"
                                  ")\n"
                                  "\n"
                                  "# A reply for each number.\n"
                                  "method Count(to: int) -> (n: int)\n"
                                  "\n"
                                  "method Refuse(why: string) -> ()\n"
                                  "\n"
                                  "method Missing() -> ()\n"
                                  "\n"
                                  "error Refused (why: string)\n";

static int echo(VarlinkCall *c, json_object *parameters, void *userdata)
{
        return varlink_reply(c, parameters);
}

static int count(VarlinkCall *c, json_object *parameters, void *userdata)
{
        int64_t to = json_object_get_int64(json_object_object_get(parameters, "to"));
        int r = 0;

        for (int64_t i = 1; i <= to && r >= 0; i++) {
                _cleanup_json_ json_object *o = json_object_new_object();
                if (json_member_add(o, "n", json_object_new_int64(i)) < 0)
                        return -ENOMEM;
                r = i < to ? varlink_reply_continues(c, o) : varlink_reply(c, o);
        }
        return r;
}

static int refuse(VarlinkCall *c, json_object *parameters, void *userdata)
{
        return varlink_reply_error(c, "org.acnspawn.Test.Refused", parameters);
}

static const VarlinkMethod methods[] = {
                {"Echo", echo, 0},
                {"Count", count, VARLINK_METHOD_MORE},
                {"Refuse", refuse, 0},
};
static const VarlinkInterface interface = {"org.acnspawn.Test", description, methods, ELEMENTSOF(methods)};

static int serve(const char *path, Error *e)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        VarlinkServer *s = NULL;
        sd_event *event = NULL;
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
        if (fd < 0 || bind(fd, (struct sockaddr *) &address, sizeof(address)) < 0 || listen(fd, 16) < 0)
                return error_set_errno(e, -errno, "Cannot listen at '%s'", path);
        int r = sd_event_new(&event);
        if (r < 0)
                return error_set_errno(e, r, "Cannot create an event loop");
        r = varlink_server_new(event, "Tests", "1", &s, e);
        if (r < 0)
                return r;
        r = varlink_server_add_interface(s, &interface, NULL, e);
        if (r < 0)
                return r;
        r = varlink_server_listen(s, fd);
        if (r < 0)
                return error_set_errno(e, r, "Cannot serve '%s'", path);
        return sd_event_loop(event);
}

int main(int argc, char **argv)
{
        _cleanup_error_ Error e = ERROR_NULL;
        int r = argc == 2 ? serve(argv[1], &e) : error_set(&e, -EINVAL, "One path is expected");

        if (r < 0)
                error_print(&e, r);
        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
