/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The file "network" of a pod: the operations to undo when it has ended, with all data needed to do so.
 *
 * It exists from before the first operation until after the last one is undone, and is replaced atomically.
 * It contains the configurations of networks as used, as the administrator may change them while the pod
 * runs. Although acnspawn writes the file, it contains results of plugins: its size is limited, and each
 * member is checked.
 *
 * After a loss of power it is needed for what plugins keep on disk: as soon as it names such a network it is on disk, too, before
 * it replaces an earlier one. Otherwise nothing waits for the disk, and the file may be empty afterwards: what it named is gone
 * with that boot.
 */

#include <sys/stat.h>

#include "stage0/network/network-internal.h"

#define RECORD_FILE "network"
#define RECORD_SIZE_MAX (48U * 1024U * 1024U) /* the maximum of a configuration and a result per network */
#define RECORD_PORTS_MAX 8192U

void attachment_done(Attachment *a)
{
        free(a->network);
        free(a->interface);
        free(a->args);
        free(a->version);
        free(a->note);
        json_object_put(a->plugins);
        json_object_put(a->runtime);
        json_object_put(a->result);
        *a = (Attachment){};
}

void network_record_done(NetworkRecord *r)
{
        for (size_t i = 0; i < r->n_attachments; i++)
                attachment_done(&r->attachments[i]);
        free(r->attachments);
        port_mappings_free(r->ports, r->n_ports);
        free(r->plugin_path);
        *r = (NetworkRecord){};
}

/* --- Writing ------------------------------------------------------------------------------------------- */

static json_object *format_port(const PortMapping *q)
{
        json_object *o = json_object_new_object();
        bool failed = false;

        failed |= json_member_add(o, "name", json_object_new_string(q->name)) < 0;
        failed |= json_member_add(o, "hostIP", json_object_new_string(q->host_ip ?: "")) < 0;
        failed |= json_member_add(o, "udp", json_object_new_boolean(q->udp)) < 0;
        if (q->sctp)
                failed |= json_member_add(o, "sctp", json_object_new_boolean(true)) < 0;
        failed |= json_member_add(o, "hostPort", json_object_new_int64(q->host_port)) < 0;
        failed |= json_member_add(o, "port", json_object_new_int64(q->port)) < 0;
        failed |= json_member_add(o, "count", json_object_new_int64(q->count)) < 0;
        if (!failed)
                return o;
        json_object_put(o);
        return NULL;
}

static json_object *format_attachment(const Attachment *a)
{
        json_object *o = json_object_new_object();
        bool failed = false;

        failed |= json_member_add(o, "network", json_object_new_string(a->network)) < 0;
        failed |= json_member_add(o, "interface", json_object_new_string(a->interface)) < 0;
        failed |= json_member_add(o, "args", json_object_new_string(a->args)) < 0;
        failed |= json_member_add(o, "version", json_object_new_string(a->version)) < 0;
        if (a->note)
                failed |= json_member_add(o, "note", json_object_new_string(a->note)) < 0;
        failed |= json_member_add(o, "plugins", json_object_get(a->plugins)) < 0;
        failed |= json_member_add(o, "runtime", json_object_get(a->runtime)) < 0;
        if (a->result)
                failed |= json_member_add(o, "result", json_object_get(a->result)) < 0;
        if (!failed)
                return o;
        json_object_put(o);
        return NULL;
}

int network_record_format(const NetworkRecord *r, char **ret)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        json_object *ports = json_object_new_array(), *networks = json_object_new_array();
        bool failed = !ports || !networks;

        for (size_t i = 0; !failed && i < r->n_ports; i++)
                failed |= json_list_append(ports, format_port(&r->ports[i])) < 0;
        for (size_t i = 0; !failed && i < r->n_attachments; i++)
                failed |= json_list_append(networks, format_attachment(&r->attachments[i])) < 0;
        failed |= json_member_add(o, "ports", ports) < 0;
        failed |= json_member_add(o, "networks", networks) < 0;
        failed |= json_member_add(o, "pluginPath", json_object_new_string(r->plugin_path ?: "")) < 0;
        if (r->stuck)
                failed |= json_member_add(o, "stuck", json_object_new_boolean(true)) < 0;
        const char *text = failed ? NULL : json_print(o);
        if (!text || !(*ret = strdup(text)))
                return -ENOMEM;
        return 0;
}

/* --- Reading ------------------------------------------------------------------------------------------- */

static int get(json_object *o, const char *key, json_type type, json_object **ret)
{
        return json_object_object_get_ex(o, key, ret) && json_object_is_type(*ret, type) ? 0 : -EBADMSG;
}

static int get_text(json_object *o, const char *key, char **ret)
{
        json_object *v;
        int r = get(o, key, json_type_string, &v);

        if (r < 0)
                return r;
        *ret = strdup(json_object_get_string(v));
        return *ret ? 0 : -ENOMEM;
}

static int get_number(json_object *o, const char *key, uint32_t *ret)
{
        json_object *v;
        int r = get(o, key, json_type_int, &v);

        if (r < 0)
                return r;
        if (json_object_get_int64(v) < 1 || json_object_get_int64(v) > UINT16_MAX)
                return -EBADMSG;
        *ret = (uint32_t) json_object_get_int64(v);
        return 0;
}

static int parse_port(json_object *o, PortMapping *q)
{
        json_object *udp, *sctp;

        int r = get_text(o, "name", &q->name);
        if (r >= 0)
                r = get_text(o, "hostIP", &q->host_ip);
        if (r >= 0 && isempty(q->host_ip)) {
                free(q->host_ip);
                q->host_ip = NULL;
        }
        if (r >= 0)
                r = get(o, "udp", json_type_boolean, &udp);
        if (r >= 0) {
                q->udp = json_object_get_boolean(udp);
                q->sctp = json_object_object_get_ex(o, "sctp", &sctp) && json_object_get_boolean(sctp);
                r = get_number(o, "hostPort", &q->host_port);
        }
        if (r >= 0)
                r = get_number(o, "port", &q->port);
        return r < 0 ? r : get_number(o, "count", &q->count);
}

static int check_plugins(json_object *l)
{
        if (json_object_array_length(l) > CNI_PLUGINS_MAX)
                return -EBADMSG;
        for (size_t i = 0; i < json_object_array_length(l); i++) {
                json_object *o = json_object_array_get_idx(l, i);

                if (!json_object_is_type(o, json_type_object) || isempty(cni_plugin_type(o)) ||
                    strchr(cni_plugin_type(o), '/'))
                        return -EBADMSG;
        }
        return 0;
}

static int parse_attachment(json_object *o, Attachment *a)
{
        json_object *plugins, *runtime, *result;

        int r = get_text(o, "network", &a->network);
        if (r >= 0)
                r = get_text(o, "interface", &a->interface);
        if (r >= 0)
                r = get_text(o, "args", &a->args);
        if (r >= 0)
                r = get_text(o, "version", &a->version);
        if (r >= 0 && json_object_object_get_ex(o, "note", NULL))
                r = get_text(o, "note", &a->note);
        if (r >= 0)
                r = get(o, "plugins", json_type_array, &plugins);
        if (r >= 0)
                r = check_plugins(plugins);
        if (r >= 0) {
                a->plugins = json_object_get(plugins);
                r = get(o, "runtime", json_type_object, &runtime);
        }
        if (r < 0)
                return r;
        a->runtime = json_object_get(runtime);
        if (!json_object_object_get_ex(o, "result", &result))
                return 0;
        if (!json_object_is_type(result, json_type_object))
                return -EBADMSG;
        a->result = json_object_get(result);
        return 0;
}

static int parse_ports(json_object *o, NetworkRecord *r)
{
        json_object *l;
        int k = get(o, "ports", json_type_array, &l);

        if (k < 0 || json_object_array_length(l) > RECORD_PORTS_MAX)
                return -EBADMSG;
        r->ports = calloc(json_object_array_length(l) + 1, sizeof(PortMapping));
        if (!r->ports)
                return -ENOMEM;
        while (k >= 0 && r->n_ports < json_object_array_length(l)) {
                json_object *item = json_object_array_get_idx(l, r->n_ports);
                k = json_object_is_type(item, json_type_object) ? parse_port(item, &r->ports[r->n_ports++])
                                                                : -EBADMSG;
        }
        return k;
}

static int parse_attachments(json_object *o, NetworkRecord *r)
{
        json_object *l;
        int k = get(o, "networks", json_type_array, &l);

        if (k < 0 || json_object_array_length(l) > NETWORKS_MAX)
                return -EBADMSG;
        r->attachments = calloc(NETWORKS_MAX, sizeof(Attachment));
        if (!r->attachments)
                return -ENOMEM;
        while (k >= 0 && r->n_attachments < json_object_array_length(l)) {
                json_object *item = json_object_array_get_idx(l, r->n_attachments);
                k = json_object_is_type(item, json_type_object)
                                    ? parse_attachment(item, &r->attachments[r->n_attachments++])
                                    : -EBADMSG;
        }
        return k;
}

int network_record_parse(const char *text, size_t size, NetworkRecord *ret)
{
        _cleanup_(network_record_done) NetworkRecord r = {};
        _cleanup_json_ json_object *o = NULL;

        int k = json_parse_strict(text, size, &o, NULL, NULL);
        if (k >= 0 && !json_object_is_type(o, json_type_object))
                k = -EBADMSG;
        if (k >= 0)
                k = get_text(o, "pluginPath", &r.plugin_path);
        r.stuck = k >= 0 && json_object_object_get_ex(o, "stuck", NULL);
        if (k >= 0)
                k = parse_ports(o, &r);
        if (k >= 0)
                k = parse_attachments(o, &r);
        if (k < 0)
                return k;
        *ret = r;
        r = (NetworkRecord){};
        return 0;
}

/* --- The file ------------------------------------------------------------------------------------------ */

int network_record_read(const Pod *p, NetworkRecord *ret, Error *e)
{
        _cleanup_free_ char *text = NULL;
        size_t size = 0;

        int r = read_file_at(p->dir_fd, RECORD_FILE, RECORD_SIZE_MAX, &text, &size);
        if (r == -ENOENT)
                return r;
        if (r >= 0 && size == 0) /* see above */
                return -ENOENT;
        if (r >= 0)
                r = network_record_parse(text, size, ret);
        return r < 0 ? error_set_errno(e, r, "Cannot read the network record of pod %s", pod_display_name(p))
                     : 0;
}

static bool outlives_the_boot(const NetworkRecord *r)
{
        for (size_t i = 0; i < r->n_attachments; i++)
                if (!cni_state_is_volatile(r->attachments[i].plugins))
                        return true;
        return false;
}

int network_record_write(Pod *p, const NetworkRecord *r, Error *e)
{
        _cleanup_free_ char *text = NULL;

        int k = network_record_format(r, &text);
        if (k >= 0)
                k = write_file_atomic_at(p->dir_fd, RECORD_FILE, text, strlen(text), 0600,
                                         outlives_the_boot(r));
        return k < 0 ? error_set_errno(e, k, "Cannot write the network record of pod %s",
                                       pod_display_name(p))
                     : 0;
}

bool network_is_left(const Pod *p)
{
        return faccessat(p->dir_fd, RECORD_FILE, F_OK, AT_SYMLINK_NOFOLLOW) >= 0 || errno != ENOENT;
}

int network_record_remove(Pod *p, Error *e)
{
        if (unlinkat(p->dir_fd, RECORD_FILE, 0) < 0 && errno != ENOENT)
                return error_set_errno(e, -errno, "Cannot remove the network record of pod %s",
                                       pod_display_name(p));
        return 0;
}

uint64_t network_record_age(const Pod *p)
{
        uint64_t now = now_usec(CLOCK_REALTIME);
        struct stat st;

        if (fstatat(p->dir_fd, RECORD_FILE, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_mtim.tv_sec < 0)
                return UINT64_MAX;
        uint64_t then = (uint64_t) st.st_mtim.tv_sec * 1000000U;
        return then > now ? UINT64_MAX : now - then;
}
