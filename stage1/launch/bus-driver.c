/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a bus does itself, where there are two on it: a client and the pod's systemd.
 *
 * That one has all calls that are for nobody or for org.freedesktop.systemd1. What is for
 * org.freedesktop.DBus is answered here: who is there, by what names, as which user. Names are their own
 * owners, as that of the bus itself always is, so that whoever asks for the owner knows the sender of
 * signals again. Matches are taken and do nothing: systemd sends all its signals to whoever is
 * connected, and clients choose from them anyway. Nobody else is there.
 *
 * Some calls for systemd are answered here, too: those that cannot do what they are for in a pod, and
 * would fail without a word or with one that says nothing; and references to units, which it keeps for
 * clients of a bus only. They have it keep a unit in memory, and the units of a pod stay there, as its
 * target wants them.
 */

#include "stage1/launch/bus.h"

#define DRIVER "org.freedesktop.DBus"
#define MANAGER "org.freedesktop.systemd1"
#define CLIENT ":1.1"
#define ERROR_NAME(name) "org.freedesktop.DBus.Error." name

typedef struct Call {
        BusClient *client;
        const char *name; /* the first argument, if it is one; else NULL */
        BusWriter body;
        const char *signature;
        const char *error; /* a name; then there is a text in BODY */
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
                fail(c, ERROR_NAME("InvalidArgs"), "The first argument is to be a name.");
        else if (!name_is_known(c->name))
                fail(c, ERROR_NAME("NameHasNoOwner"), "In a pod nobody has the name '%s'.", c->name);
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

static void say_hello(Call *c)
{
        if (c->client->greeted)
                fail(c, ERROR_NAME("Failed"), "Hello was said before.");
        else
                add_string(c, CLIENT);
        c->client->greeted = true;
}

static void do_nothing(Call *c) {}

static void list_names_(Call *c)
{
        add_strings(c, names, ELEMENTSOF(names));
}

static void list_activatable(Call *c)
{
        add_strings(c, names, 1);
}

static void tell_whether_owned(Call *c)
{
        bus_write_u32(&c->body, name_is_known(c->name));
        c->signature = "b";
}

static void tell_owner(Call *c)
{
        if (check_name(c))
                add_string(c, c->name);
}

static void list_owners(Call *c)
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

/* --- Who they are -------------------------------------------------------------------------------------- */

static uint32_t pid_of(const Call *c)
{
        return streq(c->name, MANAGER) ? 1 : streq(c->name, DRIVER) ? c->client->own_pid : c->client->pid;
}

static void tell_user(Call *c)
{
        if (check_name(c))
                add_u32(c, 0);
}

static void tell_pid(Call *c)
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

static void tell_credentials(Call *c)
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

static void tell_no_label(Call *c)
{
        if (check_name(c))
                fail(c, ERROR_NAME("SELinuxSecurityContextUnknown"), "Labels are not known in a pod.");
}

static void refuse(Call *c)
{
        fail(c, ERROR_NAME("AccessDenied"), "A pod has no bus for that: there are its systemd and you.");
}

static const struct {
        const char *member;
        void (*answer)(Call *c);
} methods[] = {
                {"Hello", say_hello},
                {"AddMatch", do_nothing},
                {"RemoveMatch", do_nothing},
                {"Ping", do_nothing},
                {"ListNames", list_names_},
                {"ListActivatableNames", list_activatable},
                {"NameHasOwner", tell_whether_owned},
                {"GetNameOwner", tell_owner},
                {"ListQueuedOwners", list_owners},
                {"StartServiceByName", start_service},
                {"GetConnectionUnixUser", tell_user},
                {"GetConnectionUnixProcessID", tell_pid},
                {"GetConnectionCredentials", tell_credentials},
                {"GetConnectionSELinuxSecurityContext", tell_no_label},
                {"RequestName", refuse},
                {"ReleaseName", refuse},
                {"BecomeMonitor", refuse},
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

/* --- Judging ------------------------------------------------------------------------------------------- */

/* Of machinectl shell, systemd-run and the like; and of machinectl login. */
static bool wants_program(const BusHeader *h, const char *unit)
{
        return streq_ptr(h->member, "StartTransientUnit") ||
               (streq_ptr(h->member, "StartUnit") && unit && startswith(unit, "container-getty@"));
}

static bool wants_reference(const BusHeader *h)
{
        static const char *const members[] = {"Ref", "Unref", "RefUnit", "UnrefUnit"};

        for (size_t i = 0; i < ELEMENTSOF(members); i++)
                if (streq_ptr(h->member, members[i]))
                        return h->interface && startswith(h->interface, MANAGER ".");
        return false;
}

/* Whether it is answered here. */
static bool answer_for_manager(Call *c, const BusHeader *h, const uint8_t *data, size_t n)
{
        if (h->type != BUS_METHOD_CALL)
                return false;
        if (!wants_program(h, bus_first_string(h, data, n, BUS_NAME_MAX)))
                return wants_reference(h);
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
