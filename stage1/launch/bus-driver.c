/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The bus driver (org.freedesktop.DBus) of a bus with two peers: a client and the pod's systemd.
 *
 * systemd receives all calls without a destination or for org.freedesktop.systemd1. Calls of
 * org.freedesktop.DBus are answered here: the names on the bus, their owners and credentials. The owner of a
 * name is the name itself, as it always is for the name of the bus, so that a client that queries the owner
 * recognizes the sender of signals. Matches are accepted and have no effect: systemd sends all its signals
 * to every connection, and clients filter them anyway. There are no other peers.
 *
 * Some calls for systemd are also answered here: those that cannot work in a pod and would fail without a
 * useful error; and references to units, which systemd supports for clients of a bus only. A reference keeps
 * a unit in memory, and the units of a pod stay loaded anyway, as its target wants them.
 */

#include "stage1/launch/bus.h"

#define DRIVER "org.freedesktop.DBus"
#define MANAGER "org.freedesktop.systemd1"
#define CLIENT ":1.1"
#define ERROR_NAME(name) "org.freedesktop.DBus.Error." name

typedef struct Call {
        BusClient *client;
        const char *name; /* the first argument if it is a string; else NULL */
        BusWriter body;
        const char *signature;
        const char *error; /* error name, with the message in BODY; or NULL */
} Call;

static void fail(Call *c, const char *error, const char *format, ...) _printf_(3, 4);
static void fail(Call *c, const char *error, const char *format, ...)
{
        char text[1024];
        va_list ap;

        va_start(ap, format);
        (void) vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        c->body.n = 0;
        bus_write_string(&c->body, text);
        c->signature = "s";
        c->error = error;
}

/* --- Names --------------------------------------------------------------------------------------------- */

static const char *const names[] = {DRIVER, MANAGER, CLIENT};

static bool name_is_known(const char *name)
{
        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (streq_ptr(name, names[i]))
                        return true;
        return false;
}

static bool check_name(Call *c)
{
        if (!c->name)
                fail(c, ERROR_NAME("InvalidArgs"), "The first argument has to be a name.");
        else if (!name_is_known(c->name))
                fail(c, ERROR_NAME("NameHasNoOwner"), "The bus of a pod has no name '%s'.", c->name);
        return !c->error;
}

static void add_strings(Call *c, const char *const *l, size_t n)
{
        size_t begin = bus_write_array_begin(&c->body, 4);

        for (size_t i = 0; i < n; i++)
                bus_write_string(&c->body, l[i]);
        bus_write_array_end(&c->body, begin, 4);
        c->signature = "as";
}

static void add_string(Call *c, const char *s)
{
        bus_write_string(&c->body, s);
        c->signature = "s";
}

static void add_u32(Call *c, uint32_t u)
{
        bus_write_u32(&c->body, u);
        c->signature = "u";
}

static void reply_hello(Call *c)
{
        if (c->client->hello_received)
                fail(c, ERROR_NAME("Failed"), "Hello has already been called.");
        else
                add_string(c, CLIENT);
        c->client->hello_received = true;
}

static void do_nothing(Call *c) {}

static void reply_names(Call *c)
{
        add_strings(c, names, ELEMENTSOF(names));
}

static void reply_activatable_names(Call *c)
{
        add_strings(c, names, 1);
}

static void reply_name_has_owner(Call *c)
{
        bus_write_u32(&c->body, name_is_known(c->name));
        c->signature = "b";
}

static void reply_owner(Call *c)
{
        if (check_name(c))
                add_string(c, c->name);
}

static void reply_owners(Call *c)
{
        if (check_name(c))
                add_strings(c, &c->name, 1);
}

static void start_service(Call *c)
{
        if (name_is_known(c->name))
                add_u32(c, 2); /* it runs already */
        else
                fail(c, ERROR_NAME("ServiceUnknown"), "In a pod there is only " MANAGER ".");
}

/* --- Credentials --------------------------------------------------------------------------------------- */

static uint32_t pid_of(const Call *c)
{
        return streq(c->name, MANAGER) ? 1 : streq(c->name, DRIVER) ? c->client->own_pid : c->client->pid;
}

static void reply_user(Call *c)
{
        if (check_name(c))
                add_u32(c, 0);
}

static void reply_pid(Call *c)
{
        if (!check_name(c))
                return;
        if (pid_of(c) > 0)
                add_u32(c, pid_of(c));
        else
                fail(c, ERROR_NAME("UnixProcessIdUnknown"), "The client is not a process of the pod.");
}

static void add_credential(Call *c, const char *key, uint32_t value)
{
        bus_write_align(&c->body, 8);
        bus_write_string(&c->body, key);
        bus_write_signature(&c->body, "u");
        bus_write_u32(&c->body, value);
}

static void reply_credentials(Call *c)
{
        if (!check_name(c))
                return;
        size_t begin = bus_write_array_begin(&c->body, 8);
        add_credential(c, "UnixUserID", 0);
        if (pid_of(c) > 0)
                add_credential(c, "ProcessID", pid_of(c));
        bus_write_array_end(&c->body, begin, 8);
        c->signature = "a{sv}";
}

static void reply_no_label(Call *c)
{
        if (check_name(c))
                fail(c, ERROR_NAME("SELinuxSecurityContextUnknown"), "Labels are not known in a pod.");
}

static void reply_access_denied(Call *c)
{
        fail(c, ERROR_NAME("AccessDenied"),
             "The bus of a pod does not support this: only the pod's systemd and the client are connected.");
}

static const struct {
        const char *member;
        void (*answer)(Call *c);
} methods[] = {
                {"Hello", reply_hello},
                {"AddMatch", do_nothing},
                {"RemoveMatch", do_nothing},
                {"Ping", do_nothing},
                {"ListNames", reply_names},
                {"ListActivatableNames", reply_activatable_names},
                {"NameHasOwner", reply_name_has_owner},
                {"GetNameOwner", reply_owner},
                {"ListQueuedOwners", reply_owners},
                {"StartServiceByName", start_service},
                {"GetConnectionUnixUser", reply_user},
                {"GetConnectionUnixProcessID", reply_pid},
                {"GetConnectionCredentials", reply_credentials},
                {"GetConnectionSELinuxSecurityContext", reply_no_label},
                {"RequestName", reply_access_denied},
                {"ReleaseName", reply_access_denied},
                {"BecomeMonitor", reply_access_denied},
};

static void answer_driver_call(Call *c, const BusHeader *h)
{
        for (size_t i = 0; h->member && i < ELEMENTSOF(methods); i++)
                if (streq(h->member, methods[i].member)) {
                        methods[i].answer(c);
                        return;
                }
        fail(c, ERROR_NAME("UnknownMethod"), "The bus of a pod has no method '%s'.", h->member ?: "");
}

/* --- Classification of messages
 * ------------------------------------------------------------------------------------------- */

/* Calls of machinectl shell, systemd-run and the like; and of machinectl login. */
static bool is_start_program_call(const BusHeader *h, const char *unit)
{
        return streq_ptr(h->member, "StartTransientUnit") ||
               (streq_ptr(h->member, "StartUnit") && unit && startswith(unit, "container-getty@"));
}

static bool is_reference_call(const BusHeader *h)
{
        static const char *const members[] = {"Ref", "Unref", "RefUnit", "UnrefUnit"};

        for (size_t i = 0; i < ELEMENTSOF(members); i++)
                if (streq_ptr(h->member, members[i]))
                        return h->interface && startswith(h->interface, MANAGER ".");
        return false;
}

/* Returns whether the call is answered here. */
static bool answer_for_manager(Call *c, const BusHeader *h, const uint8_t *data, size_t n)
{
        if (h->type != BUS_METHOD_CALL)
                return false;
        if (!is_start_program_call(h, bus_first_string(h, data, n, BUS_NAME_MAX)))
                return is_reference_call(h);
        fail(c, ERROR_NAME("NotSupported"),
             "A pod has no programs but those of its apps; 'acnspawn enter POD' runs a command in one.");
        return true;
}

static BusVerdict answer(Call *c, const BusHeader *h, BusWriter *ret)
{
        if (h->type != BUS_METHOD_CALL || h->flags & BUS_NO_REPLY_EXPECTED)
                return BUS_DROP;
        int r = bus_write_answer(h, ++c->client->serial, DRIVER, CLIENT, c->error, c->signature, &c->body,
                                 ret);
        return r < 0 ? BUS_DROP : BUS_ANSWER;
}

BusVerdict bus_driver_judge(BusClient *client, const BusHeader *h, const uint8_t *data, size_t n,
                            BusWriter *ret)
{
        Call c = {.client = client, .body.big_endian = h->big_endian};

        if (streq_ptr(h->destination, DRIVER)) {
                c.name = bus_first_string(h, data, n, BUS_NAME_MAX);
                if (h->type == BUS_METHOD_CALL)
                        answer_driver_call(&c, h);
        } else if (h->destination && !streq(h->destination, MANAGER))
                fail(&c, ERROR_NAME("ServiceUnknown"), "In a pod there is no '%s', only " MANAGER ".",
                     h->destination);
        else if (!answer_for_manager(&c, h, data, n))
                return BUS_PASS;
        return answer(&c, h, ret);
}
