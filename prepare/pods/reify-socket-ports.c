/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Ports that are socket-activated because the user says so (--socket-activated=), whatever the image has: OCI images
 * cannot mark ports. They become ports of the app in the pod's manifest, so that all other code uses the manifest only. */

#include "prepare/pods/reify-internal.h"
#include "schema/settings.h"

static int no_such_port(const PodApp *a, const char *name, Error *e)
{
        _cleanup_strv_free_ char **names = NULL;
        _cleanup_free_ char *list = NULL;

        for (size_t i = 0; i < a->app->n_ports; i++)
                if (strv_extend(&names, a->app->ports[i].name) < 0)
                        return error_oom(e);
        int r = error_set(e, -ENOENT, "App %s has no port '%s' that could be socket-activated",
                          pod_app_path_name(a), name);
        if (!names)
                return error_hint(e, r,
                                  "Its image declares no ports; a port can be given as a number: 80, or "
                                  "53/udp.");
        list = strv_join(names, ", ");
        return error_hint(e, r, "Its ports are %s; another one can be given as a number: 80, or 53/udp.",
                          list ?: "");
}

static int add_port(App *a, uint32_t port, const char *protocol)
{
        Port p = {.port = port, .count = 1, .socket_activated = true, .protocol = strdup(protocol)};
        Port *ports = reallocarray(a->ports, a->n_ports + 1, sizeof(Port));

        if (ports)
                a->ports = ports;
        if (!ports || !p.protocol || xasprintf(&p.name, "%u-%s", port, protocol) < 0) {
                free(p.protocol);
                return -ENOMEM;
        }
        a->ports[a->n_ports++] = p;
        return 0;
}

static int mark(PodApp *a, const char *word, Error *e)
{
        const char *protocol;
        bool found = false;
        uint32_t port;

        for (size_t i = 0; i < a->app->n_ports; i++)
                if (socket_port_is(word, &a->app->ports[i]))
                        found = a->app->ports[i].socket_activated = true;
        if (found)
                return 0;
        if (socket_port_parse(word, &port, &protocol) <= 0)
                return no_such_port(a, word, e);
        return add_port(a->app, port, protocol) < 0 ? error_oom(e) : 0;
}

int reify_socket_ports(PodApp *a, Error *e)
{
        _cleanup_app_settings_ AppSettings s = {};

        if (!pair_list_get(&a->annotations, SETTING_PREFIX "socket-activated"))
                return 0;
        int r = app_settings_read(a, &s, e);
        STRV_FOREACH (word, s.socket_activated)
                if (r >= 0)
                        r = mark(a, *word, e);
        return r;
}
