/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A pod's report as JSON: every field, null where there is no value, times in microseconds since 1970. */

#include <signal.h>

#include "schema/settings.h"
#include "stage0/host/spare-records.h"
#include "stage0/verbs/pod-status-json.h"
#include "stage0/verbs/pod-status-shared.h"

/* These add a member and return whether that failed, also if O is NULL, so that a function can combine the
 * results with |=. */

static bool put_object(json_object *o, const char *key, json_object *value)
{
        return json_member_add(o, key, value) < 0;
}

/* NULL: null, also for invalid text. */
static bool put_text(json_object *o, const char *key, const char *s)
{
        return json_member_add_text(o, key, s) < 0;
}

static bool put_bool(json_object *o, const char *key, bool b)
{
        return put_object(o, key, json_object_new_boolean(b));
}

static bool put_unsigned(json_object *o, const char *key, uint64_t n)
{
        return put_object(o, key, json_object_new_uint64(n));
}

/* A number that is null unless it is at least MINIMUM. */
static bool put_number(json_object *o, const char *key, int64_t n, int64_t minimum)
{
        return n >= minimum ? put_object(o, key, json_object_new_int64(n)) : put_text(o, key, NULL);
}

static bool put_time(json_object *o, const char *key, uint64_t usec)
{
        return usec > 0 ? put_unsigned(o, key, usec) : put_text(o, key, NULL);
}

static bool put_signal(json_object *o, int sig)
{
        const char *abbreviation = sig > 0 ? sigabbrev_np(sig) : NULL;
        char name[32] = "";

        if (abbreviation)
                snprintf(name, sizeof(name), "SIG%s", abbreviation);
        return put_number(o, "signal", sig, 1) || put_text(o, "signalName", abbreviation ? name : NULL);
}

/* Takes O; NULL if FAILED. */
static json_object *take_unless(bool failed, json_object *o)
{
        if (!failed)
                return o;
        json_object_put(o);
        return NULL;
}

static json_object *handler_json(const HandlerStatus *h)
{
        json_object *o = json_object_new_object();
        bool failed = false;

        failed |= put_bool(o, "ran", h->ran);
        failed |= put_bool(o, "timedOut", h->timed_out);
        failed |= put_number(o, "exitStatus", h->ran ? h->exit_status : -1, 0);
        failed |= put_signal(o, h->signal);
        return take_unless(failed, o);
}

static json_object *health_json(const HealthStatus *h)
{
        json_object *o = json_object_new_object();
        bool failed = false;

        failed |= put_text(o, "state", health_state_to_string(h->state));
        failed |= put_unsigned(o, "failures", h->failures);
        failed |= put_time(o, "checked", h->checked_usec);
        failed |= put_bool(o, "timedOut", h->last.timed_out);
        failed |= put_number(o, "exitStatus", h->last.ran ? h->last.exit_status : -1, 0);
        failed |= put_text(o, "output", h->message);
        return take_unless(failed, o);
}

/* Nothing is shown for apps that are ready when they run. */
static bool put_readiness(json_object *o, const AppReport *a)
{
        bool failed = a->status.readiness == READINESS_NONE
                                      ? put_text(o, "ready", NULL)
                                      : put_bool(o, "ready",
                                                 a->status.state == APP_RUNNING &&
                                                                 a->status.readiness == READINESS_READY);

        failed |= a->has_health ? put_object(o, "health", health_json(&a->health))
                                : put_text(o, "health", NULL);
        failed |= a->restarts ? put_unsigned(o, "startsInRow", a->status.consecutive_starts)
                              : put_text(o, "startsInRow", NULL);
        failed |= put_number(o, "restartLimit",
                             !a->restarts || a->restart_limit == RESTART_LIMIT_NONE
                                             ? -1
                                             : (int64_t) a->restart_limit,
                             0);
        failed |= put_time(o, "nextStart", a->next_start_usec);
        failed |= put_unsigned(o, "droppedLines", a->drops.lines);
        failed |= put_unsigned(o, "droppedSize", a->drops.bytes);
        return failed;
}

static bool put_log(json_object *o, const AppReport *a)
{
        bool failed = false;

        failed |= put_text(o, "log", log_target_to_string(a->log));
        failed |= put_text(o, "logFile", a->log_file);
        failed |= put_unsigned(o, "logFileDroppedLines", a->drops.file_lines);
        failed |= put_unsigned(o, "logFileDroppedSize", a->drops.file_bytes);
        return failed;
}

static json_object *app_json(const AppReport *a)
{
        json_object *o = json_object_new_object();
        const AppStatus *s = &a->status;
        bool failed = false;

        failed |= put_text(o, "name", pod_app_path_name(a->app));
        failed |= put_text(o, "imageID", a->app->image_id);
        failed |= put_text(o, "imageName", a->app->image_name);
        failed |= put_text(o, "newImageID", a->replaced_by.image_id);
        failed |= put_text(o, "newImageName", a->replaced_by.image_name);
        failed |= put_text(o, "imageVersion", pair_list_get(&a->app->image_labels, "version"));
        failed |= put_text(o, "imagePolicy", image_policy_to_string((ImagePolicy) a->image_policy));
        failed |= put_text(o, "failedImageID", a->failed_image);
        failed |= put_text(o, "state", app_state_to_string(s->state));
        failed |= put_text(o, "cause", s->state == APP_ENDED ? app_cause_to_string(s->cause) : NULL);
        failed |= put_number(o, "exitStatus", s->state == APP_ENDED ? s->exit_status : -1, 0);
        failed |= put_signal(o, s->signal);
        failed |= put_bool(o, "coreDumped", s->core_dumped);
        failed |= put_text(o, "message", s->message);
        failed |= put_time(o, "started", s->started_usec);
        failed |= put_time(o, "ended", s->ended_usec);
        failed |= put_unsigned(o, "starts", s->starts);
        failed |= put_object(o, "preStart", handler_json(&s->pre_start));
        failed |= put_object(o, "postStop", handler_json(&s->post_stop));
        failed |= put_readiness(o, a);
        failed |= put_log(o, a);
        failed |= put_text(o, "seccomp", filter_kind_to_string(a->filter));
        failed |= put_text(o, "seccompProfile", a->filter_digest);
        return take_unless(failed, o);
}

static json_object *isolator_json(const IsolatorReport *k)
{
        json_object *o = json_object_new_object();
        bool failed = false;

        failed |= put_text(o, "app", k->app);
        failed |= put_text(o, "name", k->name);
        failed |= put_text(o, "verdict", isolator_verdict_to_string(k->verdict));
        failed |= put_text(o, "detail", k->detail);
        failed |= put_text(o, "source",
                           k->source == GRANT_UNKNOWN ? NULL : grant_source_to_string(k->source));
        return take_unless(failed, o);
}

static json_object *grant_json(const Grant *g)
{
        json_object *o = json_object_new_object();
        bool failed = false;

        failed |= put_text(o, "app", g->app);
        failed |= put_text(o, "isolator", g->isolator);
        failed |= put_text(o, "name", g->name);
        failed |= put_text(o, "text", g->text);
        failed |= put_text(o, "decision", grant_decision_to_string(g->decision));
        failed |= put_text(o, "by", grant_source_to_string(g->by));
        return take_unless(failed, o);
}

/* Takes ITEM. */
static bool append(json_object *array, json_object *item)
{
        return json_list_append(array, item) < 0;
}

static json_object *lists_json(const PodReport *r, json_object *o)
{
        json_object *apps = json_object_new_array(), *isolators = json_object_new_array(),
                    *defaults = json_object_new_array();
        json_object *privileges = json_object_new_array();
        bool failed = false;

        for (size_t i = 0; !failed && i < r->n_apps; i++)
                failed |= append(apps, app_json(&r->apps[i]));
        for (size_t i = 0; !failed && i < r->n_isolators; i++)
                failed |= append(isolators, isolator_json(&r->isolators[i]));
        for (size_t i = 0; !failed && i < r->grants.n_grants; i++)
                failed |= append(privileges, grant_json(&r->grants.grants[i]));
        for (size_t i = 0; !failed && i < r->n_defaults; i++)
                failed |= append(defaults, isolator_json(&r->defaults[i]));
        failed |= put_object(o, "addresses", json_new_string_list(r->addresses));
        failed |= put_object(o, "apps", apps);
        failed |= put_object(o, "isolators", isolators);
        failed |= put_object(o, "defaults", defaults);
        failed |= put_object(o, "privileges", privileges);
        return take_unless(failed, o);
}

static json_object *users_json(const PodConfig *c)
{
        json_object *o = json_object_new_object();
        bool failed = false;

        failed |= put_bool(o, "private", c->private_users);
        failed |= put_unsigned(o, "base", c->uid_base);
        failed |= put_unsigned(o, "size", pod_n_uids(c));
        return take_unless(failed, o);
}

/* --- Networks and ports -------------------------------------------------------------------------------- */

static json_object *pair_json(const char *key, const char *value, const char *gateway)
{
        json_object *o = json_object_new_object();
        bool failed = false;

        failed |= put_text(o, key, value);
        failed |= put_text(o, "gateway", gateway);
        return take_unless(failed, o);
}

static json_object *dns_json(const NetworkDns *d)
{
        json_object *o = json_object_new_object();
        bool failed = false;

        failed |= put_object(o, "servers", json_new_string_list(d->servers));
        failed |= put_text(o, "domain", d->domain);
        failed |= put_object(o, "search", json_new_string_list(d->search));
        failed |= put_object(o, "options", json_new_string_list(d->options));
        return take_unless(failed, o);
}

/* The requested settings. */
static json_object *wished_dns_json(const PodConfig *c)
{
        json_object *o = json_object_new_object();
        bool failed = false;

        failed |= put_object(o, "servers", json_new_string_list(c->dns));
        failed |= put_object(o, "search", json_new_string_list(c->dns_search));
        failed |= put_object(o, "options", json_new_string_list(c->dns_options));
        return take_unless(failed, o);
}

static json_object *network_json(const NetworkReport *n)
{
        json_object *o = json_object_new_object(), *addresses = json_object_new_array();
        json_object *routes = json_object_new_array();
        bool failed = false;

        for (size_t i = 0; !failed && i < n->n_addresses; i++)
                failed |= append(addresses,
                                 pair_json("address", n->addresses[i].address, n->addresses[i].gateway));
        for (size_t i = 0; !failed && i < n->n_routes; i++)
                failed |= append(routes,
                                 pair_json("destination", n->routes[i].destination, n->routes[i].gateway));
        failed |= put_text(o, "name", n->network);
        failed |= put_text(o, "interface", n->interface);
        failed |= put_text(o, "mac", n->mac);
        failed |= put_text(o, "note", n->note);
        failed |= put_object(o, "addresses", addresses);
        failed |= put_object(o, "routes", routes);
        failed |= put_object(o, "dns", dns_json(&n->dns));
        return take_unless(failed, o);
}

static json_object *networks_json(const PodReport *r)
{
        json_object *l = json_object_new_array();
        bool failed = !l;

        for (size_t i = 0; !failed && i < r->n_networks; i++)
                failed |= append(l, network_json(&r->networks[i]));
        return take_unless(failed, l);
}

static json_object *port_json(const PortMapping *q)
{
        json_object *o = json_object_new_object();
        bool failed = false;

        failed |= put_text(o, "name", q->name);
        failed |= put_text(o, "protocol", port_mapping_protocol(q));
        failed |= put_text(o, "hostIP", q->host_ip);
        failed |= put_unsigned(o, "hostPort", q->host_port);
        failed |= put_unsigned(o, "port", q->port);
        failed |= put_unsigned(o, "count", q->count);
        return take_unless(failed, o);
}

static json_object *mounts_json(const PodManifest *m, const Volume *v)
{
        json_object *l = json_object_new_array();
        bool failed = !l;

        for (size_t i = 0; i < m->n_apps; i++)
                for (size_t k = 0; !failed && k < m->apps[i]->n_mounts; k++) {
                        const Mount *mount = &m->apps[i]->mounts[k];

                        if (mount->app_volume || !streq_ptr(mount->volume, v->name))
                                continue;
                        json_object *o = json_object_new_object();
                        failed |= put_text(o, "app", pod_app_path_name(m->apps[i])) ||
                                  put_text(o, "path", mount->path);
                        failed |= append(l, take_unless(failed, o));
                }
        return take_unless(failed, l);
}

static json_object *volume_json(const PodManifest *m, const Volume *v)
{
        json_object *o = json_object_new_object();
        _cleanup_free_ char *source = volume_source(m, v);
        bool failed = false;

        failed |= put_text(o, "name", v->name);
        failed |= put_text(o, "kind", volume_kind_word(m, v));
        failed |= put_text(o, "source", source);
        failed |= put_bool(o, "readOnly", v->has_read_only && v->read_only);
        failed |= put_object(o, "mounts", mounts_json(m, v));
        return take_unless(failed, o);
}

static json_object *volumes_json(const PodManifest *m)
{
        json_object *l = json_object_new_array();
        bool failed = !l;

        for (size_t i = 0; m && !failed && i < m->n_volumes; i++)
                failed |= append(l, volume_json(m, &m->volumes[i]));
        return take_unless(failed, l);
}

static json_object *ports_json(const PodReport *r)
{
        json_object *l = json_object_new_array();
        bool failed = !l;

        for (size_t i = 0; !failed && i < r->n_ports; i++)
                failed |= append(l, port_json(&r->ports[i]));
        return take_unless(failed, l);
}

static json_object *socket_json(const ServedSocket *s)
{
        json_object *o = json_object_new_object();
        bool failed = false;

        failed |= put_text(o, "app", s->app);
        failed |= put_text(o, "port", s->port);
        failed |= put_text(o, "type", s->type);
        failed |= put_text(o, "address", s->address);
        failed |= put_text(o, "name", s->name);
        failed |= put_text(o, "exposed", s->exposed);
        return take_unless(failed, o);
}

static json_object *sockets_json(const PodReport *r)
{
        json_object *l = json_object_new_array();
        bool failed = !l;

        for (size_t i = 0; !failed && i < r->n_sockets; i++)
                failed |= append(l, socket_json(&r->sockets[i]));
        return take_unless(failed, l);
}

/* --- The pod ------------------------------------------------------------------------------------------- */

json_object *pod_status_json(const Pod *p, const PodReport *r)
{
        json_object *o = json_object_new_object();
        const PodConfig *k = &p->config;
        _cleanup_free_ char *hostname = NULL, *successor = NULL;
        bool failed = false;

        (void) pod_successor(p, &successor); /* an unreadable record is ignored */
        failed |= put_text(o, "uuid", p->uuid);
        failed |= put_text(o, "name", k->name);
        failed |= put_text(o, "state", pod_shown_state((Pod *) p));
        failed |= put_text(o, "predecessor", k->predecessor);
        failed |= put_text(o, "successor", successor);
        failed |= put_time(o, "created", k->created_usec);
        failed |= put_time(o, "started", r->started_usec);
        failed |= put_time(o, "ended", r->ended_usec);
        failed |= put_number(o, "exitStatus", r->exit_status, 0);
        failed |= put_text(o, "endedBy", r->ended_by_reboot ? POD_ENDED_BY_REBOOT : NULL);
        failed |= put_number(o, "leader", r->leader, 1);
        failed |= put_text(o, "unit", r->unit);
        failed |= pod_hostname(p, &hostname) < 0 || put_text(o, "hostname", hostname);
        failed |= put_object(o, "dns", wished_dns_json(k));
        failed |= put_object(o, "hostsEntries", json_new_string_list(k->hosts_entries));
        failed |= put_text(o, "network", net_mode_to_string(k->net));
        failed |= put_object(o, "networks", networks_json(r));
        failed |= put_object(o, "ports", ports_json(r));
        failed |= put_object(o, "sockets", sockets_json(r));
        failed |= put_object(o, "volumes", volumes_json(p->manifest));
        failed |= put_object(o, "users", users_json(k));
        failed |= put_text(o, "exitPolicy", exit_policy_to_string(k->exit_policy));
        failed |= k->stop_timeout_usec == UINT64_MAX ? put_text(o, "stopTimeout", NULL)
                                                     : put_unsigned(o, "stopTimeout", k->stop_timeout_usec);
        failed |= k->exit_idle_usec == 0 ? put_text(o, "exitIdleTime", NULL)
                                         : put_unsigned(o, "exitIdleTime", k->exit_idle_usec);
        failed |= put_text(o, "metadata", k->no_metadata ? "no" : k->reduced_metadata ? "reduced" : "full");
        failed |= put_text(o, "stage1", k->stage1);
        failed |= put_object(o, "statesAreOld", json_object_new_boolean(pod_statuses_are_old(p)));
        failed |= put_object(o, "appsExposed", json_object_new_boolean(r->exposed_to != NULL));
        failed |= put_object(o, "appsExposedTo", json_new_string_list(r->exposed_to));
        o = take_unless(failed, o);
        return o ? lists_json(r, o) : NULL;
}
