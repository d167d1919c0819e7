/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The part of a pod's status about resources shared by its apps: networks, names, ports and volumes; and what the
 * parts of a status share. */

#include <inttypes.h>

#include "schema/settings.h"
#include "stage0/verbs/pod-status-shared.h"

void status_add_label(Text *t, const char *label)
{
        text_addf(t, "%*s: ", STATUS_LABEL_WIDTH, label);
}

void status_add_escaped(Text *t, const char *s)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(s);

        if (shown)
                text_add(t, shown);
        else
                t->failed = true;
}

/* The label for the first of several lines, and spaces for the others. */
static void begin_line(Text *t, const char *label, bool first)
{
        if (first)
                status_add_label(t, label);
        else
                text_addf(t, "%*s", STATUS_LABEL_WIDTH + 2, "");
}

/* --- Networks ------------------------------------------------------------------------------------------ */

static void add_mode(Text *t, const Pod *p, const PodReport *r)
{
        _cleanup_free_ char *addresses = strv_join(r->addresses, ", ");
        _cleanup_free_ char *names = strv_join(p->config.networks, ", ");

        status_add_label(t, "Network");
        if (p->config.net == NET_NETWORKS)
                status_add_escaped(t, names ?: "");
        else
                text_add(t, net_mode_to_string(p->config.net));
        if (!isempty(addresses)) {
                text_add(t, "; ");
                status_add_escaped(t, addresses);
        }
        text_add(t, "\n");
}

/* "eth0 of default, 172.16.28.2/22, gateway 172.16.28.1": the results of plugins were checked before. */
static void add_interfaces(Text *t, const PodReport *r)
{
        for (size_t i = 0; i < r->n_networks; i++) {
                const NetworkReport *n = &r->networks[i];
                _cleanup_free_ char *servers = strv_join(n->dns.servers, " ");

                text_addf(t, "%*s%s of %s", STATUS_LABEL_WIDTH + 2, "", n->interface, n->network);
                for (size_t k = 0; k < n->n_addresses; k++)
                        text_addf(t, ", %s%s%s", n->addresses[k].address,
                                  n->addresses[k].gateway ? ", gateway " : "",
                                  n->addresses[k].gateway ?: "");
                if (!isempty(servers))
                        text_addf(t, ", name servers %s", servers);
                if (n->note) {
                        text_add(t, "; ");
                        status_add_escaped(t, n->note);
                }
                text_add(t, "\n");
        }
}

static void add_words(Text *t, bool *first, const char *prefix, char *const *words)
{
        _cleanup_free_ char *joined = strv_join(words, " ");

        if (!words)
                return;
        text_add(t, *first ? "" : ", ");
        text_add(t, prefix);
        status_add_escaped(t, joined ?: "");
        *first = false;
}

/* The requested settings, not those of the network. */
static void add_names(Text *t, const PodConfig *c)
{
        bool first = true;

        if (c->dns || c->dns_search || c->dns_options) {
                status_add_label(t, "DNS");
                add_words(t, &first, "", c->dns);
                add_words(t, &first, "search ", c->dns_search);
                add_words(t, &first, "options ", c->dns_options);
                text_add(t, "\n");
        }
        STRV_FOREACH (s, c->hosts_entries) {
                begin_line(t, "Hosts", s == c->hosts_entries);
                status_add_escaped(t, *s);
                text_add(t, "\n");
        }
}

/* "http: 127.0.0.1:8080/tcp to 80" */
static void add_ports(Text *t, const PodReport *r)
{
        for (size_t i = 0; i < r->n_ports; i++) {
                const PortMapping *q = &r->ports[i];
                bool v6 = q->host_ip && strchr(q->host_ip, ':');

                begin_line(t, "Ports", i == 0);
                status_add_escaped(t, q->name);
                text_addf(t, ": %s%s%s%s%" PRIu32, v6 ? "[" : "", q->host_ip ?: "", v6 ? "]" : "",
                          q->host_ip ? ":" : "", q->host_port);
                if (q->count > 1)
                        text_addf(t, "-%" PRIu32, q->host_port + q->count - 1);
                text_addf(t, "/%s to %" PRIu32, port_mapping_protocol(q), q->port);
                if (q->count > 1)
                        text_addf(t, "-%" PRIu32, q->port + q->count - 1);
                text_add(t, "\n");
        }
}

/* "127.0.0.1:8080/tcp serves web/http", "/run/web.sock (stream) serves web/http" */
static void add_sockets(Text *t, const PodReport *r)
{
        for (size_t i = 0; i < r->n_sockets; i++) {
                const ServedSocket *s = &r->sockets[i];
                bool network = streq(s->type, "tcp") || streq(s->type, "udp");

                begin_line(t, "Sockets", i == 0);
                status_add_escaped(t, s->address);
                text_addf(t, network ? "/%s" : " (%s)", s->type);
                text_addf(t, " serves %s/", s->app);
                status_add_escaped(t, s->port);
                if (s->name && !streq(s->name, s->port)) {
                        text_add(t, ", passed as ");
                        status_add_escaped(t, s->name);
                }
                if (s->exposed) {
                        text_add(t, "; exposed: the app can reach the host's network by it, as ");
                        status_add_escaped(t, s->exposed);
                }
                text_add(t, "\n");
        }
}

void status_add_network(Text *t, const Pod *p, const PodReport *r)
{
        add_mode(t, p, r);
        add_interfaces(t, r);
        add_names(t, &p->config);
        add_ports(t, r);
        add_sockets(t, r);
}

/* --- Volumes ------------------------------------------------------------------------------------------- */

const char *volume_kind_word(const PodManifest *m, const Volume *v)
{
        VolumeSettings s = {};

        if (v->kind == VOLUME_HOST)
                return "host";
        (void) volume_settings_read(m, v, &s, NULL);
        return s.tmpfs ? "tmpfs" : s.named[0] ? "named" : s.image[0] ? "image" : "empty";
}

char *volume_source(const PodManifest *m, const Volume *v)
{
        VolumeSettings s = {};

        if (v->kind == VOLUME_HOST)
                return v->source ? strdup(v->source) : NULL;
        (void) volume_settings_read(m, v, &s, NULL);
        if (s.image[0] && s.sub_path[0]) {
                char *text = NULL;
                return xasprintf(&text, "%s:%s", s.image, s.sub_path) < 0 ? NULL : text;
        }
        return s.named[0] ? strdup(s.named) : s.image[0] ? strdup(s.image) : NULL;
}

/* ", web:/data": its targets in the apps. */
static void add_targets(Text *t, const PodManifest *m, const Volume *v)
{
        for (size_t i = 0; i < m->n_apps; i++)
                for (size_t k = 0; k < m->apps[i]->n_mounts; k++) {
                        const Mount *mount = &m->apps[i]->mounts[k];

                        if (mount->app_volume || !streq_ptr(mount->volume, v->name))
                                continue;
                        text_addf(t, ", %s:", pod_app_path_name(m->apps[i]));
                        status_add_escaped(t, mount->path);
                }
}

/* "data: host /srv/data, read-only, web:/data" */
void status_add_volumes(Text *t, const PodManifest *m)
{
        for (size_t i = 0; i < m->n_volumes; i++) {
                const Volume *v = &m->volumes[i];
                _cleanup_free_ char *source = volume_source(m, v);

                begin_line(t, "Volumes", i == 0);
                text_addf(t, "%s: %s", v->name, volume_kind_word(m, v));
                if (source) {
                        text_add(t, " ");
                        status_add_escaped(t, source);
                }
                text_add(t, v->has_read_only && v->read_only ? ", read-only" : "");
                add_targets(t, m, v);
                text_add(t, "\n");
        }
}
