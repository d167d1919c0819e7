/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The host's systemd, over its private socket, which does not depend on a D-Bus daemon: that is stopped early when
 * the host is shut down. */

#include "library/libsystemd.h"
#include "stage0/host/host-internal.h"

/* Without a flush, which waits for a systemd that does not answer. */
static void bus_unrefp(sd_bus **b)
{
        sd_bus_close_unref(*b);
}

static void message_unrefp(sd_bus_message **m)
{
        sd_bus_message_unref(*m);
}

int host_systemd_connect(sd_bus **ret)
{
        _cleanup_(bus_unrefp) sd_bus *bus = NULL;

        int r = sd_bus_new(&bus);
        if (r >= 0)
                r = sd_bus_set_address(bus, "unix:path=" SYSTEMD_SOCKET);
        if (r >= 0)
                r = sd_bus_start(bus);
        if (r >= 0)
                *ret = TAKE_PTR(bus);
        return r;
}

int host_systemd_get(sd_bus *bus, const char *path, const char *interface, const char *property,
                     uint64_t end_usec, const NetworkStop *stop, char **ret)
{
        _cleanup_(bus_error_done) sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(message_unrefp) sd_bus_message *call = NULL, *reply = NULL;
        const char *value;

        int r = sd_bus_message_new_method_call(bus, &call, SYSTEMD_NAME, path,
                                               "org.freedesktop.DBus.Properties", "Get");
        if (r >= 0)
                r = sd_bus_message_append(call, "ss", interface, property);
        if (r >= 0)
                r = systemd_call(bus, call, end_usec, stop, &reply, &error);
        if (r >= 0)
                r = sd_bus_message_read(reply, "v", "s", &value);
        if (r < 0)
                return r;
        *ret = strdup(value);
        return *ret ? 0 : -ENOMEM;
}

#define ANSWER_USEC (2 * UINT64_C(1000000)) /* of a systemd that may be busy, for what is only of interest */

bool host_is_shutting_down(void)
{
        _cleanup_(bus_unrefp) sd_bus *bus = NULL;
        _cleanup_free_ char *state = NULL;

        return access(SYSTEMD_SOCKET, F_OK) >= 0 && host_systemd_connect(&bus) >= 0 &&
               host_systemd_get(bus, SYSTEMD_PATH, SYSTEMD_MANAGER, "SystemState",
                                deadline_after(ANSWER_USEC), NULL, &state) >= 0 &&
               streq(state, "stopping");
}

char *host_unit_restart(const char *unit)
{
        _cleanup_(bus_unrefp) sd_bus *bus = NULL;
        _cleanup_free_ char *path = NULL;
        char *value = NULL;

        if (!endswith(unit, ".service") || library_load(&systemd_library, NULL) < 0 ||
            host_systemd_connect(&bus) < 0 || sd_bus_path_encode(SYSTEMD_PATH "/unit", unit, &path) < 0 ||
            host_systemd_get(bus, path, "org.freedesktop.systemd1.Service", "Restart",
                             deadline_after(ANSWER_USEC), NULL, &value) < 0)
                return NULL;
        return value;
}
