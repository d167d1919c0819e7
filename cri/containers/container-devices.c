/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Devices of containers.
 *
 * A container can open the devices that every one has, and those of its request, with their permissions, and no others, wherever it
 * finds or makes nodes of them; a privileged one can open all. Where the kernel has no filters of devices, which is rare, permissions that take
 * one are refused, and devices on mounts of the host cannot be used by containers that may make nodes. */

#include "cri/cdi/cdi.h"
#include "cri/sandbox.h"
#include "stage0/host/device-filter.h"

bool container_devices_are_filtered(const ContainerConfig *c)
{
        return !container_is_privileged(c) && device_filter_available() >= 0;
}

/* Nodes that a container makes itself are not filtered, so "m" makes no difference. */
static bool is_everything(const char *permissions)
{
        return strchr(permissions, 'r') && strchr(permissions, 'w');
}

int container_add_device(CriJob *j, const ContainerConfig *c, const char *field, const char *host_path,
                         const char *path, const char *permissions, AppOverrides *a, Error *e)
{
        bool filtered = container_devices_are_filtered(c);

        if (strchr(host_path, ',') || strchr(path, ',') || strstr(path, ":/"))
                return error_set(e, -EINVAL,
                                 "The field '%s' of the request is not supported with the value '%s'", field,
                                 host_path);
        if (!filtered && !is_everything(permissions) && !container_is_privileged(c))
                return error_set_errno(
                                e, -EINVAL,
                                "The device '%s' of the request is to have the permissions '%s', but this host's kernel "
                                "refuses filters of devices (BPF programs of cgroups)",
                                host_path, permissions);
        char *value = cri_printf(&j->memory, "%s:%s%s%s", host_path, path, filtered ? ":" : "",
                                 filtered ? permissions : "");
        return value ? cri_set_option(app_options, a, "device", field, value, e) : error_oom(e);
}

static int add_device(CriJob *j, const ContainerConfig *c, const Runtime__V1__Device *d, AppOverrides *a,
                      Error *e)
{
        char permissions[4];

        if (!cdi_read_permissions(d->permissions, permissions))
                return error_set(
                                e, -EINVAL,
                                "The field 'devices.permissions' of the request is '%s', which is not made of letters of "
                                "\"rwm\"",
                                d->permissions);
        return container_add_device(j, c, "devices", d->host_path,
                                    *d->container_path ? d->container_path : d->host_path, permissions, a,
                                    e);
}

int container_devices(CriJob *j, const Sandbox *s, const ContainerConfig *c, AppOverrides *a, Error *e)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < c->n_devices; i++)
                r = add_device(j, c, c->devices[i], a, e);
        if (r >= 0)
                r = container_cdi(j, s, c, a, e);
        return r < 0 || !container_devices_are_filtered(c)
                               ? r
                               : cri_set_option(app_options, a, "device-policy", "devices", "closed", e);
}
