/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Privileges: what the isolators of an app request beyond what an app gets by default.
 *
 * The default is the capabilities of the specification, the default filter of system calls, the kernel
 * parameters as a new namespace has them, the pod's OOM score, and the labels that the host gives. An
 * isolator that narrows this needs no permission. One that goes beyond it is a privilege, which an image
 * does not get by requesting it: the operator has to grant it by name, or to give the app an equivalent
 * isolator (stage0/control/privileges.c decides). Each privilege has a name, a human-readable description,
 * and the option that gives it.
 *
 * A socket-activated port is a privilege as well, where root of the host listens for it: in a pod with the
 * host's network and users of its own, if binding the port takes CAP_NET_BIND_SERVICE.
 *
 * Resource isolators are no privileges, except for more processes and threads than the default: other limits
 * narrow, and requests only compete with the other apps of the pod, within the limits of the pod.
 * no-new-privileges is off by default, so that false requests nothing. Isolators of unknown names have no
 * effect.
 */

#include "stage1/isolators-internal.h"
#include "stage1/seccomp-filter.h"

#define CALLS_SHOWN 8U

static void privilege_done(Privilege *p)
{
        free(p->name);
        free(p->text);
        free(p->option);
        *p = (Privilege){};
}

void privilege_list_done(PrivilegeList *l)
{
        for (size_t i = 0; i < l->n; i++)
                privilege_done(&l->items[i]);
        free(l->items);
        *l = (PrivilegeList){};
}

/* Takes ownership of P. */
static int add(PrivilegeList *l, Privilege p)
{
        if (!p.name || !p.text || GREEDY_REALLOC(l->items, l->allocated, l->n + 1) < 0) {
                privilege_done(&p);
                return -ENOMEM;
        }
        l->items[l->n++] = p;
        return 0;
}

/* --- Capabilities -------------------------------------------------------------------------------------- */

static int capability_name(unsigned cap, char **ret)
{
        char name[STAGE1_CAPABILITY_NAME_SIZE];

        return stage1_capability_name(cap, name) ? xasprintf(ret, "%s", name)
                                                 : xasprintf(ret, "CAP_%u", cap);
}

static int add_capabilities(const IsolatorList *l, PrivilegeList *ret)
{
        uint64_t more = stage1_capabilities(l) & ~stage1_capabilities(NULL);

        for (unsigned cap = 0; cap < 64; cap++) {
                Privilege p = {.type = ISOLATOR_CAPABILITIES_RETAIN_SET, .grantable = true};
                if (!(more & UINT64_C(1) << cap))
                        continue;
                int r = capability_name(cap, &p.name);
                if (r >= 0)
                        p.text = strdup(p.name);
                r = add(ret, p);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* --- System calls -------------------------------------------------------------------------------------- */

/* "the system calls mount, umount2 and 3 more" */
static char *calls_text(char *const *calls)
{
        size_t n = strv_length(calls), shown = MIN(n, (size_t) CALLS_SHOWN);
        _cleanup_text_ Text t = {};
        char *text;

        text_add(&t, n == 1 ? "the system call " : "the system calls ");
        for (size_t i = 0; i < shown; i++)
                text_addf(&t, "%s%s", i > 0 ? ", " : "", calls[i]);
        if (n > shown)
                text_addf(&t, " and %zu more", n - shown);
        return text_take(&t, &text, NULL) < 0 ? NULL : text;
}

static int add_system_calls(const IsolatorList *l, PrivilegeList *ret)
{
        _cleanup_strv_free_ char **calls = NULL;
        const Isolator *set = NULL;

        for (size_t i = 0; i < l->n; i++)
                if (l->items[i].type == ISOLATOR_SECCOMP_RETAIN_SET)
                        set = &l->items[i];
        if (!set || seccomp_is_within_default(set))
                return 0;
        bool none = !seccomp_has_filter(l);
        if (!none) {
                int r = seccomp_beyond_default(set, stage1_capabilities(l), &calls);
                if (r < 0 || !calls)
                        return r;
        }
        return add(ret, (Privilege){.type = set->type,
                                    .name = strdup("seccomp"),
                                    .text = none ? strdup("no system call filter") : calls_text(calls),
                                    .grantable = true});
}

/* --- The others: each function adds what the isolator I requests
 * -------------------------------------------------- */

static int add_oom_score(const Isolator *i, PrivilegeList *ret)
{
        Privilege p = {.type = i->type, .name = strdup("oom-score-adj"), .grantable = true};

        if (i->number >= 0) {
                privilege_done(&p);
                return 0;
        }
        (void) xasprintf(&p.text, "the OOM score %lld", (long long) i->number);
        return add(ret, p);
}

static uint64_t tasks_of(const Isolator *i)
{
        return stage1_tasks_max(&(IsolatorList){.items = (Isolator *) i, .n = 1}, false);
}

/* The other resources have no default limit that an image could lift. */
static bool lifts_tasks(const Isolator *i)
{
        return tasks_of(i) > stage1_tasks_max(&(IsolatorList){}, false);
}

static int add_tasks(const Isolator *i, PrivilegeList *ret)
{
        uint64_t wanted = tasks_of(i);
        Privilege p = {.type = i->type, .name = strdup("tasks-max"), .grantable = true};

        if (!lifts_tasks(i)) {
                privilege_done(&p);
                return 0;
        }
        if (wanted == STAGE1_TASKS_UNLIMITED) {
                p.text = strdup("processes and threads without a limit");
                p.option = strdup("--tasks-max=infinity");
        } else {
                (void) xasprintf(&p.text, "%" PRIu64 " processes and threads", wanted);
                (void) xasprintf(&p.option, "--tasks-max=%" PRIu64, wanted);
        }
        return add(ret, p);
}

/* Whether a label confines more than the default one cannot be determined here; the operator has to know. */
static int add_label(const Isolator *i, PrivilegeList *ret)
{
        bool apparmor = i->type == ISOLATOR_APPARMOR_PROFILE;
        Privilege p = {.type = i->type,
                       .name = strdup(apparmor ? "apparmor-profile" : "selinux-context"),
                       .grantable = true};

        (void) xasprintf(&p.text, "the %s %s", apparmor ? "AppArmor profile" : "SELinux context",
                         i->text ?: "");
        return add(ret, p);
}

/* Quoted for a shell. Some parameters have several numbers, which may be separated by a space instead of a
 * tab. */
static int sysctl_option(const Pair *p, char **ret)
{
        bool plain = !strpbrk(p->value, " \t*?$`\"\\;&|<>()#~");

        int r = xasprintf(ret, plain ? "--sysctl=%s=%s" : "--sysctl='%s=%s'", p->name, p->value);
        for (char *c = r >= 0 ? *ret : NULL; c && *c; c++)
                *c = *c == '\t' ? ' ' : *c;
        return r < 0 ? r : 0;
}

static int add_sysctl(const Pair *pair, PrivilegeList *ret)
{
        ParameterScope scope = sysctl_scope(pair->name);
        Privilege p = {.type = ISOLATOR_SYSCTL, .grantable = scope == PARAMETER_SAFE};

        int r = xasprintf(&p.name, "sysctl:%s", pair->name);
        if (r >= 0)
                r = xasprintf(&p.text, "the kernel parameter %s=%s%s", pair->name, pair->value,
                              scope == PARAMETER_HOST ? ", which is the host's" : "");
        if (r >= 0 && scope != PARAMETER_HOST)
                r = sysctl_option(pair, &p.option);
        if (r < 0) {
                privilege_done(&p);
                return r;
        }
        return add(ret, p);
}

static int add_sysctls(const Isolator *i, PrivilegeList *ret)
{
        int r = 0;

        for (size_t k = 0; r >= 0 && k < i->sysctl.n; k++)
                r = add_sysctl(&i->sysctl.items[k], ret);
        return r;
}

static int (*const rules[_ISOLATOR_TYPE_MAX])(const Isolator *i, PrivilegeList *ret) = {
                [ISOLATOR_OOM_SCORE_ADJ] = add_oom_score, [ISOLATOR_RESOURCE_TASKS] = add_tasks,
                [ISOLATOR_APPARMOR_PROFILE] = add_label,  [ISOLATOR_SELINUX_CONTEXT] = add_label,
                [ISOLATOR_SYSCTL] = add_sysctls,
};

int stage1_privileges(const IsolatorList *l, PrivilegeList *ret)
{
        PrivilegeList list = {};

        int r = l->n == 0 ? 0 : add_capabilities(l, &list);
        if (r >= 0)
                r = add_system_calls(l, &list);
        for (size_t i = 0; r >= 0 && i < l->n; i++) {
                IsolatorType t = l->items[i].type;
                if (t < _ISOLATOR_TYPE_MAX && rules[t])
                        r = rules[t](&l->items[i], &list);
        }
        if (r < 0) {
                privilege_list_done(&list);
                return r;
        }
        *ret = list;
        return 0;
}

/* --- Ports of the host --------------------------------------------------------------------------------- */

#define PRIVILEGED_PORTS 1024U

static bool is_exposed(const PodManifest *m, const Port *p)
{
        for (size_t i = 0; i < m->n_ports; i++)
                if (streq_ptr(m->ports[i].name, p->name))
                        return true;
        return false;
}

/* The capability that the app has by default is effective in its own network namespaces only. */
int stage1_port_privileges(const PodManifest *m, const App *a, PrivilegeList *ret)
{
        for (size_t i = 0; i < a->n_ports; i++) {
                const Port *port = &a->ports[i];
                Privilege p = {.type = ISOLATOR_UNKNOWN, .grantable = true};

                if (!port->socket_activated || port->port >= PRIVILEGED_PORTS || is_exposed(m, port))
                        continue;
                (void) xasprintf(&p.name, "port:%s", port->name);
                (void) xasprintf(&p.text, "the host's port %u/%s", port->port, port->protocol);
                int r = add(ret, p);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* --- Granting and withholding -------------------------------------------------------------------------- */

bool privilege_is_granted(const Privilege *p, char *const *grants)
{
        const char *parameter = startswith(p->name, "sysctl:");

        if (!p->grantable)
                return false;
        STRV_FOREACH (grant, grants) {
                const char *granted = startswith(*grant, "sysctl:");
                if (streq(*grant, "all") || strcasecmp(*grant, p->name) == 0 ||
                    (parameter && granted && sysctl_same(parameter, granted)))
                        return true;
        }
        return false;
}

/* Replaces I by an isolator of TYPE with that set. */
static int replace_set(Isolator *i, IsolatorType type, char *const *set, Error *e)
{
        _cleanup_json_ json_object *value = json_object_new_object();
        const char *name = isolator_type_to_string(type), *text;
        Isolator other = {};

        if (json_member_add(value, "set", json_new_string_list(set)) < 0 ||
            (i->errno_name && json_member_add_text(value, "errno", i->errno_name) < 0))
                return error_oom(e);
        text = json_print(value);
        int r = text ? isolator_parse(name, text, &other, e) : error_oom(e);
        if (r < 0)
                return r;
        isolator_done(i);
        *i = other;
        return 0;
}

int stage1_bound_system_calls(IsolatorList *l, Error *e)
{
        for (size_t i = 0; i < l->n; i++) {
                _cleanup_strv_free_ char **set = NULL;
                Isolator *isolator = &l->items[i];

                if (isolator->type != ISOLATOR_SECCOMP_RETAIN_SET || seccomp_is_within_default(isolator))
                        continue;
                if (strv_copy(isolator->set, &set) < 0 || strv_extend(&set, SECCOMP_WITHIN_DEFAULT) < 0)
                        return error_oom(e);
                int r = replace_set(isolator, isolator->type, set, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int names_of_capabilities(uint64_t mask, char ***ret)
{
        for (unsigned cap = 0; cap < 64; cap++) {
                char *name = NULL;
                if (!(mask & UINT64_C(1) << cap))
                        continue;
                int r = capability_name(cap, &name);
                if (r >= 0)
                        r = strv_consume(ret, name);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* All capability isolators are replaced by one set that removes from the default what is not to be retained,
 * since an empty retain set is not valid. *RET_DROP: nothing has to be removed, so no isolator is needed. */
static int withhold_capabilities(Isolator *i, uint64_t capabilities, bool *ret_drop, Error *e)
{
        _cleanup_strv_free_ char **names = NULL;
        uint64_t removed = stage1_capabilities(NULL) & ~capabilities;

        *ret_drop = removed == 0;
        if (removed == 0)
                return 0;
        if (names_of_capabilities(removed, &names) < 0)
                return error_oom(e);
        return replace_set(i, ISOLATOR_CAPABILITIES_REMOVE_SET, names, e);
}

static int withhold(Isolator *i, uint64_t capabilities, bool *ret_drop, Error *e)
{
        *ret_drop = false;
        switch (i->type) {
        case ISOLATOR_CAPABILITIES_RETAIN_SET:
                return withhold_capabilities(i, capabilities, ret_drop, e);
        case ISOLATOR_OOM_SCORE_ADJ:
                *ret_drop = i->number < 0;
                return 0;
        case ISOLATOR_RESOURCE_TASKS:
                *ret_drop = lifts_tasks(i);
                return 0;
        case ISOLATOR_APPARMOR_PROFILE:
        case ISOLATOR_SELINUX_CONTEXT:
        case ISOLATOR_SYSCTL:
                *ret_drop = true;
                return 0;
        default:
                return 0;
        }
}

int stage1_withhold_privileges(IsolatorList *l, uint32_t types, Error *e)
{
        uint64_t capabilities = stage1_capabilities(l);
        size_t n = 0;
        int r = 0;

        for (size_t i = 0; i < l->n; i++) {
                bool drop = false;
                if (r >= 0 && types & UINT32_C(1) << l->items[i].type)
                        r = withhold(&l->items[i], capabilities, &drop, e);
                if (drop)
                        isolator_done(&l->items[i]);
                else
                        l->items[n++] = l->items[i];
        }
        l->n = n;
        return r;
}
