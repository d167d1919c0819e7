/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The host's systemd, over its private socket, which does not depend on a D-Bus daemon: that is stopped early when
 * the host is shut down. */

#include "library/libsystemd.h"
#include "stage0/host/host-internal.h"

static void bus_unrefp(sd_bus **b)
{
        sd_bus_flush_close_unref(*b);
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

bool host_is_shutting_down(void)
{
        _cleanup_(bus_error_done) sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(bus_unrefp) sd_bus *bus = NULL;
        _cleanup_free_ char *state = NULL;

        return access(SYSTEMD_SOCKET, F_OK) >= 0 && host_systemd_connect(&bus) >= 0 &&
               sd_bus_get_property_string(bus, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER, "SystemState",
                                          &error, &state) >= 0 &&
               streq(state, "stopping");
}

#define ANSWER_USEC (2 * UINT64_C(1000000)) /* of a systemd that may be busy, for what is only of interest */

char *host_unit_restart(const char *unit)
{
        _cleanup_(bus_error_done) sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(bus_unrefp) sd_bus *bus = NULL;
        _cleanup_free_ char *path = NULL;
        char *value = NULL;

        if (!endswith(unit, ".service") || library_load(&systemd_library, NULL) < 0 ||
            host_systemd_connect(&bus) < 0 || sd_bus_set_method_call_timeout(bus, ANSWER_USEC) < 0 ||
            sd_bus_path_encode(SYSTEMD_PATH "/unit", unit, &path) < 0 ||
            sd_bus_get_property_string(bus, SYSTEMD_NAME, path, "org.freedesktop.systemd1.Service",
                                       "Restart", &error, &value) < 0)
                return NULL;
        return value;
}
