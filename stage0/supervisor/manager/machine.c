/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Registers the pod with systemd-machined, so that machinectl, systemctl -M and journalctl -M know it.
 *
 * nspawn could register it, but it does not know the number that the pod's PID 1 has on the host, as it is
 * in a pid namespace of its own. So this process does it: machined finds the pod's scope by the cgroup of
 * that PID 1.
 *
 * When the scope is stopped (machinectl terminate, systemctl stop, or shutdown of the host), systemd would
 * send SIGTERM to everything in it at once, including the apps. Before that it sends a RequestStop signal to
 * the bus connection that was named as the scope's controller when the scope was created. That connection is
 * ours, and the pod is ended in order. Any user of the host may send such a signal: the sender is looked up
 * on the bus, and only root is obeyed.
 *
 * Only two steps wait for machined: the check by --register=yes, before the start, and the removal of a stale machine, which
 * is limited to seconds.
 *
 * machined keeps a machine as long as its unit is there. A supervisor that is killed leaves the machine of its pod, and a unit
 * of the host that is restarted then (Restart=) is there all the time. So a machine of that name whose leader has ended, or
 * that is of the unit that this process is in, is unregistered first.
 *
 * machined finds its machines again in /run when it is started again, unless /run was full when it wrote them there. So the pod is registered
 * again with each machined that appears on the bus, which refuses that if it knows the machine.
 *
 * A machine has a system bus, for systemctl -M: the pod gets units for one (see stage1/bus-units.c). */

#include <sys/syscall.h>

#include "stage0/supervisor/manager/machine.h"

#define MACHINED "org.freedesktop.machine1"
#define MACHINED_PATH "/org/freedesktop/machine1"
#define MACHINED_MANAGER MACHINED ".Manager"
#define CALL_USEC UINT64_C(2000000)

struct Machine {
        Pod *pod;
        RegisterMode mode;
        MachineHandlers handlers;
        sd_bus *bus;
        char *name;
        pid_t leader;
        bool registered, cleared; /* cleared: a machine of an earlier pod was unregistered */
        bool again;               /* it is being registered with another machined than before */
};

/* --- Messages ------------------------------------------------------------------------------------------ */

static bool is_absent(const sd_bus_error *error)
{
        static const char *const names[] = {
                        "org.freedesktop.DBus.Error.ServiceUnknown",
                        "org.freedesktop.DBus.Error.NameHasNoOwner",
                        "org.freedesktop.systemd1.NoSuchUnit",
                        "org.freedesktop.systemd1.UnitMasked",
        };

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (sd_bus_error_has_name(error, names[i]))
                        return true;
        return false;
}

static bool is_taken(const sd_bus_error *error)
{
        return sd_bus_error_has_name(error, MACHINED ".MachineExists") ||
               sd_bus_error_has_name(error, "System.Error.EEXIST");
}

static int absent_error(const Machine *m, Error *e)
{
        int r = error_set(e, -ENOENT, "Pod %s cannot be registered: there is no systemd-machined on the bus",
                          pod_display_name(m->pod));
        return error_hint(e, r, "Install the package systemd-container, or run with --register=no.");
}

static int exists_error(const Machine *m, Error *e)
{
        int r = error_set(e, -EEXIST, "Pod %s cannot be registered: there is a machine called '%s' already",
                          pod_display_name(m->pod), m->name);
        return error_hint(e, r, "See 'machinectl status %s'; prepare the pod with another --name=.",
                          m->name);
}

/* --- Signals ------------------------------------------------------------------------------------------- */

/* Without a bus, which is stopped with the host as well, the sender cannot be looked up. */
static int on_sender(sd_bus_message *message, void *userdata, sd_bus_error *ret_error)
{
        const sd_bus_error *error = sd_bus_message_get_error(message);
        bool alone = error && sd_bus_error_has_name(error, "org.freedesktop.DBus.Error.NoReply");
        Machine *m = userdata;
        uint32_t uid;

        if (alone || (!error && sd_bus_message_read(message, "u", &uid) >= 0 && uid == 0))
                m->handlers.stop(m->handlers.userdata);
        return 0;
}

static int on_request_stop(sd_bus_message *message, void *userdata, sd_bus_error *error)
{
        const char *sender = sd_bus_message_get_sender(message);
        Machine *m = userdata;

        if (sender)
                (void) sd_bus_call_method_async(m->bus, NULL, "org.freedesktop.DBus",
                                                "/org/freedesktop/DBus", "org.freedesktop.DBus",
                                                "GetConnectionUnixUser", on_sender, m, "s", sender);
        return 0;
}

static int match_request_stop(Machine *m)
{
        _cleanup_free_ char *unit = NULL, *path = NULL;

        int r = pod_scope_name(m->pod, &unit);
        if (r >= 0)
                r = sd_bus_path_encode("/org/freedesktop/systemd1/unit", unit, &path);
        if (r >= 0)
                r = sd_bus_match_signal(m->bus, NULL, SYSTEMD_NAME, path, SYSTEMD_NAME ".Scope",
                                        "RequestStop", on_request_stop, m);
        return r;
}

static int call_register(Machine *m);

static int on_owner(sd_bus_message *message, void *userdata, sd_bus_error *error)
{
        const char *name, *old, *new;
        Machine *m = userdata;

        if (sd_bus_message_read(message, "sss", &name, &old, &new) < 0 || isempty(new) || !m->registered)
                return 0;
        m->again = true;
        if (call_register(m) < 0)
                m->again = false;
        return 0;
}

static int match_owner(Machine *m)
{
        return sd_bus_add_match(m->bus, NULL,
                                "type='signal',sender='org.freedesktop.DBus',path='/org/freedesktop/DBus',"
                                "interface='org.freedesktop.DBus',member='NameOwnerChanged',arg0='" MACHINED
                                "'",
                                on_owner, m);
}

/* --- A machine that was left --------------------------------------------------------------------------- */

static bool process_has_ended(uint32_t pid)
{
        _cleanup_close_ int fd = pid > 0 ? (int) syscall(SYS_pidfd_open, (pid_t) pid, 0) : -EBADF;

        return pid > 0 && fd < 0 ? errno == ESRCH : !process_is_alive(fd);
}

/* 1: yes; 0: it is that of another pod or container. */
static int is_left(Machine *m, const char *path)
{
        _cleanup_free_ char *unit = NULL;
        uint32_t leader = 0;

        int r = sd_bus_get_property_trivial(m->bus, MACHINED, path, MACHINED ".Machine", "Leader", NULL, 'u',
                                            &leader);
        if (r >= 0 && process_has_ended(leader))
                return 1;
        if (r >= 0)
                r = sd_bus_get_property_string(m->bus, MACHINED, path, MACHINED ".Machine", "Unit", NULL,
                                               &unit);
        return r < 0 ? r : unit_is_own(unit);
}

/* 1: the name is free now; 0: another pod or container has it. The pod runs already while this waits for machined, so the
 * wait is short. */
static int remove_left(Machine *m)
{
        _cleanup_free_ char *path = NULL;

        int r = sd_bus_path_encode(MACHINED_PATH "/machine", m->name, &path);
        if (r >= 0)
                r = sd_bus_set_method_call_timeout(m->bus, CALL_USEC);
        if (r >= 0)
                r = is_left(m, path);
        if (r > 0)
                r = sd_bus_call_method(m->bus, MACHINED, MACHINED_PATH, MACHINED_MANAGER,
                                       "UnregisterMachine", NULL, NULL, "s", m->name);
        (void) sd_bus_set_method_call_timeout(m->bus, 0); /* restores the default */
        if (r <= 0)
                return r;
        log_debug("The machine '%s' of an earlier pod is unregistered", m->name);
        return 1;
}

/* --- Connecting ---------------------------------------------------------------------------------------- */

/* Whether machined answers, and knows no machine of that name. */
static int check_name(Machine *m, Error *e)
{
        _cleanup_(bus_error_done) sd_bus_error error = SD_BUS_ERROR_NULL;
        int r = sd_bus_call_method(m->bus, MACHINED, MACHINED_PATH, MACHINED_MANAGER, "GetMachine", &error,
                                   NULL, "s", m->name);

        if (r >= 0)
                return remove_left(m) > 0 ? 0 : exists_error(m, e);
        if (sd_bus_error_has_name(&error, MACHINED ".NoSuchMachine"))
                return 0;
        if (is_absent(&error))
                return absent_error(m, e);
        return error_set(e, r, "Pod %s cannot be registered: %s", pod_display_name(m->pod),
                         error.message ?: strerror(-r));
}

static int connect_bus(Machine *m, Error *e)
{
        int r = sd_bus_open_system(&m->bus);

        if (r >= 0)
                r = match_request_stop(m);
        if (r >= 0)
                r = match_owner(m);
        if (r >= 0)
                return m->mode == REGISTER_YES ? check_name(m, e) : 0;
        r = error_set_errno(e, r, "Pod %s cannot be registered: there is no system bus",
                            pod_display_name(m->pod));
        return error_hint(e, r, "Install the package dbus, or run with --register=no.");
}

static int write_units(const Machine *m, Error *e)
{
        _cleanup_close_ int root_fd = open_beneath(m->pod->dir_fd, "root", O_PATH | O_DIRECTORY);
        int r = root_fd < 0 ? root_fd : stage1_write_bus(root_fd);

        return r < 0 ? error_set_errno(e, r, "Cannot write the units of the bus of pod %s",
                                       pod_display_name(m->pod))
                     : 0;
}

int machine_new(Pod *p, RegisterMode mode, const MachineHandlers *handlers, Machine **ret, Error *e)
{
        _cleanup_(machine_freep) Machine *m = NULL;

        bool systemd = host_runs_systemd();
        if (mode == REGISTER_NO || (mode == REGISTER_AUTO && (!systemd || pod_cgroup_is_below_parent(p))))
                return 0;
        if (!systemd) {
                int r = error_set(e, -ENOSYS,
                                  "Pod %s cannot be registered: systemd is not the init of this host",
                                  pod_display_name(p));
                return error_hint(e, r, "Run it with --register=no, or without the option.");
        }
        m = calloc(1, sizeof(Machine));
        if (!m)
                return error_oom(e);
        *m = (Machine){.pod = p, .mode = mode, .handlers = *handlers};
        if (pod_machine_name(p, &m->name) < 0)
                return error_oom(e);
        int r = connect_bus(m, e);
        if (r < 0 && mode == REGISTER_AUTO) { /* hosts without a bus are common */
                error_done(e);
                return 0;
        }
        if (r >= 0)
                r = write_units(m, e);
        if (r >= 0)
                *ret = TAKE_PTR(m);
        return r;
}

sd_bus *machine_bus(Machine *m)
{
        return m ? m->bus : NULL;
}

int machine_watch(Machine *m, sd_event *event)
{
        return m ? sd_bus_attach_event(m->bus, event, SD_EVENT_PRIORITY_NORMAL) : 0;
}

Machine *machine_free(Machine *m)
{
        if (!m)
                return NULL;
        /* machined notices by itself, but the next pod of the same name may start before. */
        if (m->registered && m->bus)
                (void) sd_bus_call_method_async(m->bus, NULL, MACHINED, MACHINED_PATH, MACHINED_MANAGER,
                                                "UnregisterMachine", NULL, NULL, "s", m->name);
        if (m->bus)
                sd_bus_flush_close_unref(m->bus);
        free(m->name);
        free(m);
        return NULL;
}

/* --- Registering --------------------------------------------------------------------------------------- */

static void refuse(Machine *m, const sd_bus_error *error)
{
        _cleanup_error_ Error e = ERROR_NULL;

        if (is_absent(error) && m->mode == REGISTER_AUTO)
                return;
        if (is_absent(error))
                (void) absent_error(m, &e);
        else if (is_taken(error))
                (void) exists_error(m, &e);
        else
                (void) error_set(&e, -EIO, "Pod %s cannot be registered: %s", pod_display_name(m->pod),
                                 error->message ?: error->name);
        m->handlers.refused(&e, m->handlers.userdata);
}

static int append_id(sd_bus_message *message, const char *uuid)
{
        sd_id128_t id;
        int r = sd_id128_from_string(uuid, &id);

        return r < 0 ? r : sd_bus_message_append_array(message, 'y', id.bytes, sizeof(id.bytes));
}

static int on_registered(sd_bus_message *message, void *userdata, sd_bus_error *ret_error);

static int call_register(Machine *m)
{
        sd_bus_message *message = NULL;
        _cleanup_free_ char *path = NULL, *root = NULL;

        int r = pod_path(m->pod, &path);
        if (r >= 0)
                r = xasprintf(&root, "%s/root", path);
        if (r >= 0)
                r = sd_bus_message_new_method_call(m->bus, &message, MACHINED, MACHINED_PATH,
                                                   MACHINED_MANAGER, "RegisterMachine");
        if (r >= 0)
                r = sd_bus_message_append(message, "s", m->name);
        if (r >= 0)
                r = append_id(message, m->pod->uuid);
        if (r >= 0)
                r = sd_bus_message_append(message, "ssus", "acnspawn", "container", (uint32_t) m->leader,
                                          root);
        if (r >= 0)
                r = sd_bus_call_async(m->bus, NULL, message, on_registered, m, 0);
        sd_bus_message_unref(message);
        return r;
}

static int on_registered(sd_bus_message *message, void *userdata, sd_bus_error *ret_error)
{
        const sd_bus_error *error = sd_bus_message_get_error(message);
        Machine *m = userdata;

        if (m->again) {
                if (error && !is_taken(error))
                        log_warning("Pod %s cannot be registered again: %s", pod_display_name(m->pod),
                                    error->message ?: error->name);
                m->again = false;
                return 0;
        }
        if (error && is_taken(error) && !m->cleared && remove_left(m) > 0) {
                m->cleared = true;
                if (call_register(m) >= 0)
                        return 0;
        }
        m->registered = !error;
        if (error)
                refuse(m, error);
        return 0;
}

void machine_register(Machine *m, pid_t leader)
{
        _cleanup_error_ Error e = ERROR_NULL;

        if (!m)
                return;
        m->leader = leader;
        int r = call_register(m);
        if (r >= 0)
                return;
        (void) error_set_errno(&e, r, "Pod %s cannot be registered", pod_display_name(m->pod));
        m->handlers.refused(&e, m->handlers.userdata);
}
