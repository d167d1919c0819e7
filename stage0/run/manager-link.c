/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The connection of the supervisor to the pod's systemd.
 *
 * On its private socket systemd sends every signal to every connection, so nothing has to be subscribed to. The
 * state of a unit is what PropertiesChanged says of it; what was before the connection is asked for once, with
 * one call for all units. Signals that arrive before the answer are older than the answer.
 *
 * Before systemd starts a unit again it may report it as inactive or failed for a moment. So when a unit is reported
 * to be down, its state is asked for: the answer comes after systemd has decided. A unit that waits for its next
 * start is "activating", or has a job.
 */

#include "stage0/control/control.h"
#include "stage0/run/manager-link.h"

#define UNIT_INTERFACE "org.freedesktop.systemd1.Unit"
#define SERVICE_INTERFACE "org.freedesktop.systemd1.Service"
#define LOCAL_INTERFACE "org.freedesktop.DBus.Local" /* of signals that sd-bus makes itself */

typedef struct LinkedUnit LinkedUnit;

struct LinkedUnit {
        LinkedUnit *next;
        const char *name;
        void *tag;
        char *path; /* of its object */
        char active[24], sub[40], reported[24];
        uint32_t job;
        bool known, asked;
        UnitLife life;
        ManagerLink *link;
        sd_bus_slot *slot; /* of the call that asks for its state */
};

typedef struct LinkJob LinkJob;
typedef struct LinkQuery LinkQuery;

struct ManagerLink {
        sd_bus *bus;
        LinkJob *jobs; /* that have not ended */
        LinkQuery *queries;
        LinkedUnit *units;
        ManagerLinkEvents events;
        void *userdata;
};

UnitLife unit_life(const char *active_state, const char *sub_state, uint32_t job)
{
        bool failed = streq(active_state, "failed");

        if (job > 0 || endswith(sub_state, "-before-auto-restart")) /* systemd 254 and later */
                return UNIT_UP;
        if (failed)
                return UNIT_FAILED;
        return streq(active_state, "inactive") ? UNIT_DOWN : UNIT_UP;
}

static void end_all_jobs(ManagerLink *l);
static void forget_unit(ManagerLink *l, const LinkedUnit *u);

/* Jobs that wait for it go on without it. */
static void drop_unit(ManagerLink *l, LinkedUnit **place)
{
        LinkedUnit *u = *place;

        forget_unit(l, u);
        *place = u->next;
        sd_bus_slot_unref(u->slot);
        free(u->path);
        free(u);
}
static void end_all_queries(ManagerLink *l);

ManagerLink *manager_link_free(ManagerLink *l)
{
        if (!l)
                return NULL;
        end_all_jobs(l);
        end_all_queries(l);
        if (l->bus)
                sd_bus_flush_close_unref(l->bus);
        while (l->units)
                drop_unit(l, &l->units);
        free(l);
        return NULL;
}

static void update(ManagerLink *l, LinkedUnit *u)
{
        UnitLife life = unit_life(u->active, u->sub, u->job);

        if (u->known && life == u->life && streq(u->active, u->reported))
                return;
        log_debug("Unit %s is %s (%s)", u->name, u->active, u->sub);
        memcpy(u->reported, u->active, sizeof(u->reported));
        u->known = true;
        u->life = life;
        l->events.changed(l->userdata, u->tag, life);
}

/* --- Reading messages ------------------------------------------------------------------------------------------- */

static LinkedUnit *find_path(ManagerLink *l, const char *path)
{
        LinkedUnit *u = path ? l->units : NULL;

        while (u && !streq(u->path, path))
                u = u->next;
        return u;
}

static int read_text(sd_bus_message *m, char *buffer, size_t size)
{
        const char *value;
        int r = sd_bus_message_read(m, "v", "s", &value);

        if (r >= 0)
                snprintf(buffer, size, "%s", value);
        return r;
}

static int read_job(sd_bus_message *m, uint32_t *ret)
{
        const char *path;

        return sd_bus_message_read(m, "v", "(uo)", ret, &path);
}

static int read_property(sd_bus_message *m, LinkedUnit *u)
{
        const char *name;
        int r = sd_bus_message_read(m, "s", &name);

        if (r < 0)
                return r;
        if (streq(name, "ActiveState"))
                return read_text(m, u->active, sizeof(u->active));
        if (streq(name, "SubState"))
                return read_text(m, u->sub, sizeof(u->sub));
        if (streq(name, "Job"))
                return read_job(m, &u->job);
        return sd_bus_message_skip(m, "v");
}

static int read_properties(sd_bus_message *m, LinkedUnit *u)
{
        const char *interface;

        int r = sd_bus_message_read(m, "s", &interface);
        if (r >= 0)
                r = sd_bus_message_enter_container(m, 'a', "{sv}");
        while (r >= 0 && (r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
                r = read_property(m, u);
                if (r >= 0)
                        r = sd_bus_message_exit_container(m);
        }
        return r;
}

/* --- Lists of units ------------------------------------------------------------------------ */

static LinkedUnit *find_name(ManagerLink *l, const char *name)
{
        LinkedUnit *u = l->units;

        while (u && !streq(u->name, name))
                u = u->next;
        return u;
}

static int read_listed(ManagerLink *l, sd_bus_message *m)
{
        const char *name, *description, *load, *active, *sub, *follows, *path, *job_type, *job_path;
        uint32_t job;

        int r = sd_bus_message_read(m, "(ssssssouso)", &name, &description, &load, &active, &sub, &follows,
                                    &path, &job, &job_type, &job_path);
        LinkedUnit *u = r > 0 ? find_name(l, name) : NULL;
        if (!u)
                return r;
        snprintf(u->active, sizeof(u->active), "%s", active);
        snprintf(u->sub, sizeof(u->sub), "%s", sub);
        u->job = job;
        return r;
}

static int read_list(ManagerLink *l, sd_bus_message *m)
{
        int r = sd_bus_message_get_error(m) ? -EIO : sd_bus_message_enter_container(m, 'a', "(ssssssouso)");

        while (r >= 0 && (r = read_listed(l, m)) > 0)
                ;
        return r;
}

/* At the beginning. Units that are not listed are not loaded: they are down. */
static int on_all(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
        ManagerLink *l = userdata;
        int r = read_list(l, m);

        for (LinkedUnit *u = r >= 0 ? l->units : NULL; u; u = u->next)
                update(l, u);
        return 0;
}

/* --- Changes ------------------------------------------------------------------------------------------- */

static int on_one(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
        LinkedUnit *u = userdata;

        u->asked = false;
        u->slot = sd_bus_slot_unref(u->slot);
        if (read_list(u->link, m) >= 0)
                update(u->link, u);
        return 0;
}

static int ask(LinkedUnit *u)
{
        if (u->asked)
                return 0;
        int r = sd_bus_call_method_async(u->link->bus, &u->slot, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER,
                                         "ListUnitsByNames", on_one, u, "as", 1, u->name);
        u->asked = r >= 0;
        return r;
}

static int on_properties(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
        ManagerLink *l = userdata;
        LinkedUnit *u = find_path(l, sd_bus_message_get_path(m));

        if (!u || read_properties(m, u) < 0)
                return 0;
        if (unit_life(u->active, u->sub, u->job) == UNIT_UP)
                update(l, u);
        else if (u->life == UNIT_UP)
                (void) ask(u); /* fails if the connection is gone: the pod ends */
        return 0;
}

/* --- Jobs ---------------------------------------------------------------------------------------------- */

struct LinkJob {
        LinkJob *next;
        ManagerLink *link;
        LinkedUnit *unit; /* NULL: it is none that is followed */
        char *path;       /* from when systemd has accepted the job until it has ended */
        char result[32];
        ManagerJobFunction function;
        void *userdata;
};

/* The call that enqueues the job refers to it until it is answered, so that is where it is freed if it ends before. */
static void end_job(LinkJob *j, int r, const char *result)
{
        for (LinkJob **i = &j->link->jobs; *i; i = &(*i)->next)
                if (*i == j) {
                        *i = j->next;
                        break;
                }
        if (j->function)
                j->function(j->userdata, r, result);
        free(j->path);
        free(j);
}

static void forget_unit(ManagerLink *l, const LinkedUnit *u)
{
        for (LinkJob *j = l->jobs; j; j = j->next)
                if (j->unit == u)
                        j->unit = NULL;
}

static void end_all_jobs(ManagerLink *l)
{
        while (l->jobs)
                end_job(l->jobs, -ECONNRESET, NULL);
}

static int on_state_after_job(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
        LinkJob *j = userdata;

        if (read_list(j->link, m) >= 0 && j->unit)
                update(j->link, j->unit);
        end_job(j, 0, j->result);
        return 0;
}

/* The signals that tell the state may come later than this one: who asked for the job is to find the new state. */
static void finish_job(LinkJob *j, const char *result)
{
        snprintf(j->result, sizeof(j->result), "%s", result);
        free(j->path);
        j->path = NULL;
        int r = !j->unit ? -ENOENT
                         : sd_bus_call_method_async(j->link->bus, NULL, SYSTEMD_NAME, SYSTEMD_PATH,
                                                    SYSTEMD_MANAGER, "ListUnitsByNames", on_state_after_job,
                                                    j, "as", 1, j->unit->name);
        if (r < 0)
                end_job(j, 0, j->result);
}

static int on_job_removed(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
        ManagerLink *l = userdata;
        const char *path, *unit, *result;
        uint32_t id;

        if (sd_bus_message_read(m, "uoss", &id, &path, &unit, &result) < 0)
                return 0;
        for (LinkJob *j = l->jobs; j; j = j->next)
                if (streq_ptr(j->path, path)) {
                        finish_job(j, result);
                        break;
                }
        return 0;
}

/* Answers come before the signal that the job has ended. */
static int on_job(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
        const char *path;
        LinkJob *j = userdata;

        if (sd_bus_message_get_error(m) || sd_bus_message_read(m, "o", &path) < 0)
                end_job(j, -EREMOTEIO, NULL);
        else if (!(j->path = strdup(path)))
                end_job(j, -ENOMEM, NULL);
        return 0;
}

int manager_link_run(ManagerLink *l, const char *method, const char *unit, ManagerJobFunction function,
                     void *userdata)
{
        LinkJob *j = calloc(1, sizeof(LinkJob));

        if (!j)
                return -ENOMEM;
        *j = (LinkJob){.next = l->jobs,
                       .link = l,
                       .unit = find_name(l, unit),
                       .function = function,
                       .userdata = userdata};
        int r = sd_bus_call_method_async(l->bus, NULL, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER, method,
                                         on_job, j, "ss", unit, "replace");
        if (r < 0) {
                free(j);
                return r;
        }
        l->jobs = j;
        return 0;
}

/* --- Main processes ------------------------------------------------------------------------------------ */

struct LinkQuery {
        LinkQuery *next;
        ManagerLink *link;
        ManagerProcessFunction function;
        void *userdata;
};

static void end_query(LinkQuery *q, int r, uint32_t number)
{
        for (LinkQuery **i = &q->link->queries; *i; i = &(*i)->next)
                if (*i == q) {
                        *i = q->next;
                        break;
                }
        q->function(q->userdata, r, number);
        free(q);
}

static void end_all_queries(ManagerLink *l)
{
        while (l->queries)
                end_query(l->queries, -ECONNRESET, 0);
}

static int on_main_process(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
        uint32_t number = 0;
        int r = sd_bus_message_get_error(m) ? -EREMOTEIO : sd_bus_message_read(m, "v", "u", &number);

        end_query(userdata, MIN(r, 0), number);
        return 0;
}

int manager_link_main_process(ManagerLink *l, const char *unit, ManagerProcessFunction function,
                              void *userdata)
{
        LinkedUnit *u = find_name(l, unit);
        LinkQuery *q;

        if (!u)
                return -ENOENT;
        q = calloc(1, sizeof(LinkQuery));
        if (!q)
                return -ENOMEM;
        *q = (LinkQuery){.next = l->queries, .link = l, .function = function, .userdata = userdata};
        int r = sd_bus_call_method_async(l->bus, NULL, SYSTEMD_NAME, u->path,
                                         "org.freedesktop.DBus.Properties", "Get", on_main_process, q, "ss",
                                         SERVICE_INTERFACE, "MainPID");
        if (r < 0) {
                free(q);
                return r;
        }
        l->queries = q;
        return 0;
}

/* --- Properties ---------------------------------------------------------------------------------------- */

static int on_set(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
        end_job(userdata, sd_bus_message_get_error(m) ? -EREMOTEIO : 0, "done");
        return 0;
}

static int add_properties(sd_bus_message *m, const UnitProperty *properties, size_t n)
{
        int r = sd_bus_message_open_container(m, 'a', "(sv)");

        for (size_t i = 0; r >= 0 && i < n; i++)
                r = sd_bus_message_append(m, "(sv)", properties[i].name, "t", properties[i].value);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

/* It is a job of ours, not one of systemd's. */
int manager_link_set(ManagerLink *l, const char *unit, const UnitProperty *properties, size_t n,
                     ManagerJobFunction function, void *userdata)
{
        LinkJob *j = calloc(1, sizeof(LinkJob));
        sd_bus_message *m = NULL;

        if (!j)
                return -ENOMEM;
        *j = (LinkJob){.next = l->jobs, .link = l, .function = function, .userdata = userdata};
        int r = sd_bus_message_new_method_call(l->bus, &m, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER,
                                               "SetUnitProperties");
        if (r >= 0)
                r = sd_bus_message_append(m, "sb", unit, 1);
        if (r >= 0)
                r = add_properties(m, properties, n);
        if (r >= 0)
                r = sd_bus_call_async(l->bus, NULL, m, on_set, j, 0);
        sd_bus_message_unref(m);
        if (r < 0) {
                free(j);
                return r;
        }
        l->jobs = j;
        return 0;
}

/* --- Other calls --------------------------------------------------------------------------------------- */

int manager_link_kill(ManagerLink *l, const char *unit, bool all, int sig)
{
        return sd_bus_call_method_async(l->bus, NULL, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER,
                                        "KillUnit", NULL, NULL, "ssi", unit, all ? "all" : "main",
                                        (int32_t) sig);
}

int manager_link_is_loaded(ManagerLink *l, const char *unit, sd_bus_message_handler_t function,
                           void *userdata, sd_bus_slot **ret_slot)
{
        return sd_bus_call_method_async(l->bus, ret_slot, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER,
                                        "GetUnit", function, userdata, "s", unit);
}

int manager_link_reset(ManagerLink *l, const char *unit)
{
        return sd_bus_call_method_async(l->bus, NULL, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER,
                                        "ResetFailedUnit", NULL, NULL, "s", unit);
}

const char *manager_link_state(const ManagerLink *l, const void *tag)
{
        const LinkedUnit *u = l->units;

        while (u && u->tag != tag)
                u = u->next;
        return u ? u->active : "inactive";
}

/* --- What is followed ------------------------------------------------------------------------------------------- */

int manager_link_follow(ManagerLink *l, const char *name, void *tag)
{
        LinkedUnit *u = calloc(1, sizeof(LinkedUnit));

        if (!u)
                return -ENOMEM;
        *u = (LinkedUnit){.next = l->units, .link = l, .name = name, .tag = tag, .active = "inactive"};
        int r = manager_unit_path(name, &u->path);
        if (r < 0) {
                free(u);
                return r;
        }
        l->units = u;
        return 0;
}

void manager_link_unfollow(ManagerLink *l, const void *tag)
{
        for (LinkedUnit **i = &l->units; *i; i = &(*i)->next)
                if ((*i)->tag == tag) {
                        drop_unit(l, i);
                        return;
                }
}

/* --- Beginning ----------------------------------------------------------------------------------------- */

static int on_disconnected(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
        ManagerLink *l = userdata;

        l->events.lost(l->userdata);
        return 0;
}

static int follow(ManagerLink *l, sd_event *event)
{
        int r = sd_bus_add_match(l->bus, NULL,
                                 "type='signal',interface='org.freedesktop.DBus.Properties',"
                                 "member='PropertiesChanged',arg0='" UNIT_INTERFACE "'",
                                 on_properties, l);

        if (r >= 0)
                r = sd_bus_match_signal(l->bus, NULL, NULL, SYSTEMD_PATH, SYSTEMD_MANAGER, "JobRemoved",
                                        on_job_removed, l);
        if (r >= 0)
                r = sd_bus_match_signal(l->bus, NULL, NULL, "/org/freedesktop/DBus/Local", LOCAL_INTERFACE,
                                        "Disconnected", on_disconnected, l);
        if (r >= 0)
                r = sd_bus_attach_event(l->bus, event, 0);
        if (r < 0)
                return r;
        return sd_bus_call_method_async(l->bus, NULL, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER,
                                        "ListUnitsByPatterns", on_all, l, "asas", 0, 1, "app-*");
}

int manager_link_new(Pod *p, sd_event *event, const ManagerLinkEvents *events, void *userdata,
                     ManagerLink **ret, Error *e)
{
        _cleanup_(manager_link_freep) ManagerLink *l = calloc(1, sizeof(ManagerLink));

        if (!l)
                return error_oom(e);
        *l = (ManagerLink){.events = *events, .userdata = userdata};
        int r = pod_manager_connect(p, &l->bus, e);
        if (r < 0)
                return r;
        r = follow(l, event);
        if (r < 0)
                return error_set_errno(e, r, "Cannot follow the units of pod %s", pod_display_name(p));
        *ret = TAKE_PTR(l);
        return 0;
}
