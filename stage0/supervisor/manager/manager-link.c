/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The connection of the supervisor to the pod's systemd.
 *
 * On its private socket systemd sends every signal to every connection, without subscriptions. The state of
 * a unit is taken from PropertiesChanged; the initial state is read once, by one call for all units. Signals
 * that arrive before the reply are older than the reply.
 *
 * Before systemd starts a unit again it may report it as inactive or failed for a moment. So when a unit is
 * reported to be down, its state is read again: the reply comes after systemd has decided. A unit that waits
 * for its next start is "activating", or has a job. The call is sent after everything received was
 * processed: if systemd has ended meanwhile, sending would close the connection, and signals in it would be
 * lost.
 *
 * Calls have no time-out: systemd answers as long as it lives, but not while the pod is paused, which can take days. A query
 * that fails is repeated after a delay, because otherwise the state would stay unknown.
 *
 * How the main process of a service has ended comes with every change of its state, in a separate signal
 * that is sent just before. For services that had ended before the connection the kernel may know it, of the
 * process that became the app; else all properties of the service are read by a call. */

#include <signal.h>

#include "stage0/control/control.h"
#include "stage0/supervisor/manager/manager-link.h"

#define UNIT_INTERFACE "org.freedesktop.systemd1.Unit"
#define SERVICE_INTERFACE "org.freedesktop.systemd1.Service"
#define LOCAL_INTERFACE "org.freedesktop.DBus.Local" /* of signals that sd-bus makes itself */

#define RETRY_USEC UINT64_C(1000000)

typedef struct LinkedUnit LinkedUnit;

struct LinkedUnit {
        LinkedUnit *next;
        const char *name;
        void *tag;
        char *path; /* of its object */
        char active[24], sub[40], reported[24];
        uint32_t job, up_job; /* the latter: its job when it was up last */
        bool service;
        bool known, asked;
        bool to_ask;    /* read its state when the link is idle, or again after a failure */
        bool end_known; /* END belongs to the state that was reported last */
        MainEnd end;
        uint32_t main_pid;
        int main_code, main_status; /* as waitid(2) has them */
        UnitLife life;
        ManagerLink *link;
        sd_bus_slot *slot;     /* of the call that asks for its state */
        sd_bus_slot *end_slot; /* of the one that asks for END */
};

typedef struct LinkJob LinkJob;
typedef struct LinkQuery LinkQuery;

struct ManagerLink {
        sd_bus *bus;
        LinkJob *jobs; /* calls without a reply so far */
        LinkQuery *queries;
        LinkedUnit *units;
        sd_event_source *ask_source, *retry_source;
        bool to_list; /* the list could not be read: read it again */
        bool listed;  /* the list was read, and READY is not reported yet */
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

UnitActivity unit_activity(const char *active_state)
{
        if (streq(active_state, "active") || streq(active_state, "reloading"))
                return UNIT_RUNS;
        return streq(active_state, "deactivating") ? UNIT_STOPS : UNIT_STARTS;
}

bool unit_is_at_rest(const char *sub_state)
{
        return streq(sub_state, "dead") || streq(sub_state, "failed") ||
               startswith(sub_state, "auto-restart") || endswith(sub_state, "-before-auto-restart");
}

static void end_all_jobs(ManagerLink *l);
static void forget_unit(ManagerLink *l, const LinkedUnit *u);

/* Jobs that wait for this property continue without it. */
static void drop_unit(ManagerLink *l, LinkedUnit **place)
{
        LinkedUnit *u = *place;

        forget_unit(l, u);
        *place = u->next;
        sd_bus_slot_unref(u->slot);
        sd_bus_slot_unref(u->end_slot);
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
        sd_event_source_disable_unref(l->ask_source);
        sd_event_source_disable_unref(l->retry_source);
        if (l->bus)
                sd_bus_flush_close_unref(l->bus);
        while (l->units)
                drop_unit(l, &l->units);
        free(l);
        return NULL;
}

static bool is_down(const LinkedUnit *u)
{
        return streq(u->active, "inactive") || streq(u->active, "failed");
}

/* It is down, but the job that has stopped it is not done, so it counts as up: what was reported last holds until then. With
 * another job it is about to be started again. */
static bool has_just_stopped(const LinkedUnit *u, UnitLife life)
{
        return life == UNIT_UP && u->life == UNIT_UP && is_down(u) &&
               (u->up_job == 0 || u->job == u->up_job) &&
               (streq(u->reported, "active") || streq(u->reported, "deactivating"));
}

static void update(ManagerLink *l, LinkedUnit *u)
{
        UnitLife life = unit_life(u->active, u->sub, u->job);

        if (!is_down(u))
                u->up_job = u->job;
        if (u->known && ((life == u->life && streq(u->active, u->reported)) || has_just_stopped(u, life)))
                return;
        log_debug("Unit %s is %s (%s)", u->name, u->active, u->sub);
        memcpy(u->reported, u->active, sizeof(u->reported));
        u->known = true;
        u->life = life;
        l->events.changed(l->userdata, u->tag, life, unit_activity(u->active));
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

static int read_number(sd_bus_message *m, const char *type, void *ret)
{
        return sd_bus_message_read(m, "v", type, ret);
}

static int read_unit_property(sd_bus_message *m, LinkedUnit *u, const char *name)
{
        if (streq(name, "ActiveState"))
                return read_text(m, u->active, sizeof(u->active));
        if (streq(name, "SubState"))
                return read_text(m, u->sub, sizeof(u->sub));
        if (streq(name, "Job"))
                return read_job(m, &u->job);
        return sd_bus_message_skip(m, "v");
}

static int read_service_property(sd_bus_message *m, LinkedUnit *u, const char *name)
{
        if (streq(name, "Result"))
                return read_text(m, u->end.result, sizeof(u->end.result));
        if (streq(name, "ExecMainPID"))
                return read_number(m, "u", &u->main_pid);
        if (streq(name, "ExecMainCode"))
                return read_number(m, "i", &u->main_code);
        if (streq(name, "ExecMainStatus"))
                return read_number(m, "i", &u->main_status);
        if (streq(name, "ExecMainExitTimestamp"))
                return read_number(m, "t", &u->end.usec);
        return sd_bus_message_skip(m, "v");
}

typedef int (*PropertyFunction)(sd_bus_message *m, LinkedUnit *u, const char *name);

static int read_properties(sd_bus_message *m, LinkedUnit *u, PropertyFunction function)
{
        int r = sd_bus_message_enter_container(m, 'a', "{sv}");

        while (r >= 0 && (r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
                const char *name;
                r = sd_bus_message_read(m, "s", &name);
                if (r >= 0)
                        r = function(m, u, name);
                if (r >= 0)
                        r = sd_bus_message_exit_container(m);
        }
        return r;
}

/* As systemd itself reports it to commands that run after the end of a service. */
static int read_end(sd_bus_message *m, LinkedUnit *u)
{
        int r = read_properties(m, u, read_service_property);

        if (r < 0)
                return r;
        MainEnd *end = &u->end;
        end->known = u->main_pid > 0 && end->usec > 0;
        end->given_up = u->main_pid > 0 && end->usec == 0;
        end->exit_status = end->known && u->main_code == CLD_EXITED ? u->main_status & 255 : -1;
        end->signal = end->known && u->main_code != CLD_EXITED ? u->main_status : 0;
        end->core_dumped = end->known && u->main_code == CLD_DUMPED;
        u->end_known = true;
        return 0;
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

/* While a job is pending, systemd may report a service as dead whose main process it has just started. */
static void report_end(ManagerLink *l, LinkedUnit *u)
{
        if (u->service && u->end_known && unit_is_at_rest(u->sub) && (u->end.known || u->job == 0))
                l->events.stopped(l->userdata, u->tag, &u->end);
}

static void take_state(ManagerLink *l, LinkedUnit *u)
{
        report_end(l, u);
        update(l, u);
}

static void check_ready(ManagerLink *l)
{
        if (!l->listed)
                return;
        for (const LinkedUnit *u = l->units; u; u = u->next)
                if (u->end_slot)
                        return;
        l->listed = false;
        l->events.ready(l->userdata);
}

static void end_waiting_jobs(ManagerLink *l, const LinkedUnit *u);

static int on_end(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
        LinkedUnit *u = userdata;
        ManagerLink *l = u->link;

        u->end_slot = sd_bus_slot_unref(u->end_slot);
        if (!sd_bus_message_get_error(m))
                (void) read_end(m, u);
        take_state(l, u);
        end_waiting_jobs(l, u);
        check_ready(l);
        return 0;
}

/* A unit that is inactive, and not failed, has ended with success, whatever the status of its main process. */
static bool find_end(ManagerLink *l, LinkedUnit *u)
{
        MainEnd end = {.exit_status = -1, .result = "success"};

        if (!streq(u->sub, "dead") || !l->events.find_end || !l->events.find_end(l->userdata, u->tag, &end))
                return false;
        u->end = end;
        u->end_known = true;
        return true;
}

/* Takes the state of U from a list. A service may have ended before this connection: then how it has ended
 * is read first. */
static void take_listed_state(ManagerLink *l, LinkedUnit *u)
{
        if (u->end_slot)
                return;
        if (!u->service || !unit_is_at_rest(u->sub) || u->job > 0 || u->end_known || find_end(l, u) ||
            sd_bus_call_method_async(l->bus, &u->end_slot, SYSTEMD_NAME, u->path,
                                     "org.freedesktop.DBus.Properties", "GetAll", on_end, u, "s",
                                     SERVICE_INTERFACE) < 0)
                take_state(l, u);
}

static void retry_later(ManagerLink *l)
{
        (void) sd_event_source_set_time_relative(l->retry_source, RETRY_USEC);
        (void) sd_event_source_set_enabled(l->retry_source, SD_EVENT_ONESHOT);
}

static void ask_later(LinkedUnit *u)
{
        if (!u || !manager_link_is_open(u->link))
                return;
        u->to_ask = true;
        retry_later(u->link);
}

static int read_list(ManagerLink *l, sd_bus_message *m)
{
        int r = sd_bus_message_get_error(m) ? -EIO : sd_bus_message_enter_container(m, 'a', "(ssssssouso)");

        while (r >= 0 && (r = read_listed(l, m)) > 0)
                ;
        return r;
}

/* For the first list. Units that are not listed are not loaded: they are down. */
static int on_all(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
        ManagerLink *l = userdata;
        int r = read_list(l, m);

        for (LinkedUnit *u = r >= 0 ? l->units : NULL; u; u = u->next)
                take_listed_state(l, u);
        l->listed = r >= 0;
        if (r < 0 && manager_link_is_open(l)) {
                l->to_list = true;
                retry_later(l);
        }
        check_ready(l);
        return 0;
}

static int list_all(ManagerLink *l)
{
        l->to_list = false;
        return sd_bus_call_method_async(l->bus, NULL, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER,
                                        "ListUnitsByPatterns", on_all, l, "asas", 0, 1, "app-*");
}

/* --- Changes ------------------------------------------------------------------------------------------- */

static int on_one(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
        LinkedUnit *u = userdata;

        u->asked = false;
        u->slot = sd_bus_slot_unref(u->slot);
        if (read_list(u->link, m) >= 0)
                take_listed_state(u->link, u);
        else
                ask_later(u);
        return 0;
}

static void ask(LinkedUnit *u)
{
        if (u->asked || u->slot)
                return;
        int r = sd_bus_call_method_async(u->link->bus, &u->slot, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER,
                                         "ListUnitsByNames", on_one, u, "as", 1, u->name);
        u->asked = r >= 0; /* fails if the connection is gone: the pod ends */
}

/* Everything received is processed. */
static int on_quiet(sd_event_source *source, void *userdata)
{
        ManagerLink *l = userdata;

        for (LinkedUnit *u = l->units; u; u = u->next) {
                if (u->to_ask)
                        ask(u);
                u->to_ask = false;
        }
        check_ready(l);
        return 0;
}

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata)
{
        ManagerLink *l = userdata;

        if (l->to_list)
                (void) list_all(l);
        return on_quiet(NULL, l);
}

static int on_properties(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
        ManagerLink *l = userdata;
        LinkedUnit *u = find_path(l, sd_bus_message_get_path(m));
        const char *interface;

        if (!u || sd_bus_message_read(m, "s", &interface) < 0)
                return 0;
        if (streq(interface, SERVICE_INTERFACE)) {
                (void) read_end(m, u);
                return 0;
        }
        if (read_properties(m, u, read_unit_property) < 0)
                return 0;
        report_end(l, u);
        if (!unit_is_at_rest(u->sub))
                u->end_known = false;
        if (unit_life(u->active, u->sub, u->job) == UNIT_UP)
                update(l, u);
        else if (u->life == UNIT_UP) {
                u->to_ask = true;
                (void) sd_event_source_set_enabled(l->ask_source, SD_EVENT_ONESHOT);
        }
        return 0;
}

void manager_link_drain(ManagerLink *l)
{
        while (l && l->bus && sd_bus_process(l->bus, NULL) > 0)
                ;
}

/* --- Jobs ---------------------------------------------------------------------------------------------- */

struct LinkJob {
        LinkJob *next;
        ManagerLink *link;
        LinkedUnit *unit; /* NULL: a job that is not followed */
        char *path;       /* from when systemd has accepted the job until it has ended */
        char result[32];
        bool ended; /* only how its unit has ended is still missing */
        ManagerJobFunction function;
        void *userdata;
};

/* The call that enqueues the job refers to it until the reply, so a job that ends before is freed there. */
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

static LinkJob *find_oldest_waiting_job(ManagerLink *l, const LinkedUnit *u)
{
        LinkJob *found = NULL;

        for (LinkJob *j = l->jobs; j; j = j->next)
                if (j->ended && j->unit == u)
                        found = j;
        return found;
}

static void end_waiting_jobs(ManagerLink *l, const LinkedUnit *u)
{
        for (LinkJob *j; (j = find_oldest_waiting_job(l, u));)
                end_job(j, 0, j->result);
}

static void forget_unit(ManagerLink *l, const LinkedUnit *u)
{
        end_waiting_jobs(l, u);
        for (LinkJob *j = l->jobs; j; j = j->next)
                if (j->unit == u)
                        j->unit = NULL;
}

static void end_all_jobs(ManagerLink *l)
{
        while (l->jobs) {
                LinkJob *oldest = l->jobs;
                while (oldest->next)
                        oldest = oldest->next;
                end_job(oldest, -ECONNRESET, NULL);
        }
}

static int on_state_after_job(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
        LinkJob *j = userdata;

        int r = read_list(j->link, m);
        if (r < 0 && !manager_link_is_open(j->link)) { /* the next connection tells what the job has done */
                end_job(j, -ECONNRESET, NULL);
                return 0;
        }
        if (r < 0)
                ask_later(j->unit);
        else if (j->unit)
                take_listed_state(j->link, j->unit);
        j->ended = true;
        if (!j->unit || !j->unit->end_slot)
                end_job(j, 0, j->result);
        return 0;
}

/* The signals with the new state may come later than this one; the requester of the job must find the new
 * state. */
static void finish_job(LinkJob *j, const char *result)
{
        snprintf(j->result, sizeof(j->result), "%s", result);
        free(j->path);
        j->path = NULL;
        int r = !j->unit ? -ENOENT
                         : sd_bus_call_method_async(j->link->bus, NULL, SYSTEMD_NAME, SYSTEMD_PATH,
                                                    SYSTEMD_MANAGER, "ListUnitsByNames", on_state_after_job,
                                                    j, "as", 1, j->unit->name);
        if (r < 0 && j->unit && !manager_link_is_open(j->link))
                end_job(j, -ECONNRESET, NULL);
        else if (r < 0)
                end_job(j, 0, j->result);
}

/* Calls for the same kind of job share one job. They are answered in the order in which they came. */
static LinkJob *find_oldest_job(ManagerLink *l, const char *path)
{
        LinkJob *found = NULL;

        for (LinkJob *j = l->jobs; j; j = j->next)
                if (streq_ptr(j->path, path))
                        found = j;
        return found;
}

static int on_job_removed(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
        ManagerLink *l = userdata;
        const char *path, *unit, *result;
        uint32_t id;

        if (sd_bus_message_read(m, "uoss", &id, &path, &unit, &result) < 0)
                return 0;
        for (LinkJob *j; (j = find_oldest_job(l, path));)
                finish_job(j, result);
        return 0;
}

/* Replies that do not come any more are errors that sd-bus makes, before it reports the connection as lost. */
static int reply_error(const ManagerLink *l, sd_bus_message *m)
{
        if (!sd_bus_message_get_error(m))
                return 0;
        return manager_link_is_open(l) ? -EREMOTEIO : -ECONNRESET;
}

/* The reply to a call comes before the signal that the job has ended. */
static int on_job(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
        const char *path;
        LinkJob *j = userdata;
        int r = reply_error(j->link, m);

        if (r >= 0 && sd_bus_message_read(m, "o", &path) < 0)
                r = -EREMOTEIO;
        if (r < 0)
                end_job(j, r, NULL);
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
        LinkQuery *q = userdata;
        uint32_t number = 0;
        int r = reply_error(q->link, m);

        if (r >= 0)
                r = sd_bus_message_read(m, "v", "u", &number);
        end_query(q, MIN(r, 0), number);
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
        LinkJob *j = userdata;

        end_job(j, reply_error(j->link, m), "done");
        return 0;
}

/* A number at *P, which is moved behind it. */
static int take_index(const char **p, unsigned long *ret)
{
        char *end;

        if (**p < '0' || **p > '9')
                return -EINVAL;
        *ret = strtoul(*p, &end, 10);
        *p = end;
        return *ret < UNIT_LIST_SIZE_MAX * 8 ? 0 : -ERANGE;
}

int manager_link_list_bits(const char *list, uint8_t ret[static UNIT_LIST_SIZE_MAX], size_t *ret_size)
{
        size_t size = 0;

        memset(ret, 0, UNIT_LIST_SIZE_MAX);
        for (const char *p = list; *p && *p != '\n';) {
                unsigned long first, last;
                int r = take_index(&p, &first);
                last = first;
                if (r >= 0 && *p == '-') {
                        p++;
                        r = take_index(&p, &last);
                }
                if (r < 0 || last < first || (*p && *p != '\n' && *p != ','))
                        return r < 0 ? r : -EINVAL;
                for (unsigned long i = first; i <= last; i++)
                        ret[i / 8] |= (uint8_t) (1U << i % 8);
                size = MAX(size, (size_t) last / 8 + 1);
                p += *p == ',';
        }
        *ret_size = size;
        return 0;
}

static int add_list(sd_bus_message *m, const UnitProperty *p)
{
        uint8_t bits[UNIT_LIST_SIZE_MAX];
        size_t size = 0;

        int r = manager_link_list_bits(p->list, bits, &size);
        if (r >= 0)
                r = sd_bus_message_open_container(m, 'r', "sv");
        if (r >= 0)
                r = sd_bus_message_append(m, "s", p->name);
        if (r >= 0)
                r = sd_bus_message_open_container(m, 'v', "ay");
        if (r >= 0)
                r = sd_bus_message_append_array(m, 'y', bits, size);
        if (r >= 0)
                r = sd_bus_message_close_container(m);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

static int add_properties(sd_bus_message *m, const UnitProperty *properties, size_t n)
{
        int r = sd_bus_message_open_container(m, 'a', "(sv)");

        for (size_t i = 0; r >= 0 && i < n; i++)
                r = properties[i].list ? add_list(m, &properties[i])
                                       : sd_bus_message_append(m, "(sv)", properties[i].name, "t",
                                                               properties[i].value);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

/* This job is not one of systemd's. */
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

bool manager_link_is_open(const ManagerLink *l)
{
        return l && sd_bus_is_open(l->bus) > 0;
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

/* --- What is followed ------------------------------------------------------------------------------------------- */

int manager_link_follow(ManagerLink *l, const char *name, void *tag)
{
        LinkedUnit *u = calloc(1, sizeof(LinkedUnit));

        if (!u)
                return -ENOMEM;
        *u = (LinkedUnit){.next = l->units,
                          .link = l,
                          .name = name,
                          .tag = tag,
                          .active = "inactive",
                          .service = endswith(name, ".service") != NULL};
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
                        bool waits = (*i)->end_slot;
                        drop_unit(l, i);
                        if (waits) /* it may be the last for which the others wait */
                                (void) sd_event_source_set_enabled(l->ask_source, SD_EVENT_ONESHOT);
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
                r = sd_bus_add_match(l->bus, NULL,
                                     "type='signal',interface='org.freedesktop.DBus.Properties',"
                                     "member='PropertiesChanged',arg0='" SERVICE_INTERFACE "'",
                                     on_properties, l);
        if (r >= 0)
                r = sd_event_add_defer(event, &l->ask_source, on_quiet, l);
        if (r >= 0)
                r = sd_event_source_set_priority(l->ask_source, SD_EVENT_PRIORITY_NORMAL + 10);
        if (r >= 0)
                r = sd_event_source_set_enabled(l->ask_source, SD_EVENT_OFF);
        if (r >= 0)
                r = sd_event_add_time_relative(event, &l->retry_source, CLOCK_MONOTONIC, RETRY_USEC, 0,
                                               on_retry, l);
        if (r >= 0)
                r = sd_event_source_set_enabled(l->retry_source, SD_EVENT_OFF);
        if (r >= 0)
                r = sd_bus_set_method_call_timeout(l->bus, UINT64_MAX);
        if (r >= 0)
                r = sd_bus_match_signal(l->bus, NULL, NULL, SYSTEMD_PATH, SYSTEMD_MANAGER, "JobRemoved",
                                        on_job_removed, l);
        if (r >= 0)
                r = sd_bus_match_signal(l->bus, NULL, NULL, "/org/freedesktop/DBus/Local", LOCAL_INTERFACE,
                                        "Disconnected", on_disconnected, l);
        if (r >= 0)
                r = sd_bus_attach_event(l->bus, event, 0);
        return r < 0 ? r : list_all(l);
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
