/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Names of a pod: its machine name for nspawn and machined, and its host name. */

#include "stage0/host/host.h"

int pod_machine_name(const Pod *p, char **ret)
{
        return p->config.name ? xasprintf(ret, "%s", p->config.name) : xasprintf(ret, "acn-%s", p->uuid);
}

int pod_hostname(const Pod *p, char **ret)
{
        return p->config.hostname ? xasprintf(ret, "%s", p->config.hostname)
               : p->former_name   ? xasprintf(ret, "%s", p->former_name)
                                  : pod_machine_name(p, ret);
}
