/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* From the security context of a container to settings of an app.
 *
 * What the context asks for and this host, or this sandbox, cannot give is refused by name: a container is never less confined,
 * or less able, than it was asked to be. */

#include "cri/sandbox.h"
#include "schema/oci.h"

#define CONTEXT "linux.security_context."
#define SUPPORTED_ERROR "The field '%s' of the request is not supported with the value '%s'"
#define SECCOMP_NONE "mode=retain,@appc.io/all"

/* --- Capabilities -------------------------------------------------------------------------------------- */

static int find_capability(const char *name)
{
        const char *bare = strncasecmp(name, "CAP_", 4) == 0 ? name + 4 : name;

        for (size_t i = 0; i < CRI_N_CAPABILITIES; i++)
                if (strcasecmp(cri_capabilities[i].name + strlen("CAP_"), bare) == 0)
                        return (int) i;
        return -ENOENT;
}

/* The mask of NAMES: bit n is entry n of the table. *RET_ALL: "ALL" is among them. */
static int read_capabilities(const char *field, char *const *names, size_t n, uint64_t *ret, bool *ret_all,
                             Error *e)
{
        uint64_t mask = 0;
        bool all = false;

        for (size_t i = 0; i < n; i++) {
                int c = find_capability(names[i]);
                all |= strcasecmp(names[i], "ALL") == 0;
                if (c >= 0)
                        mask |= UINT64_C(1) << c;
                else if (strcasecmp(names[i], "ALL") != 0)
                        return error_set(e, -EINVAL, "The field '%s' has '%s', which is not a capability",
                                         field, names[i]);
        }
        *ret = mask;
        *ret_all = all;
        return 0;
}

static int format_capabilities(uint64_t mask, char **ret)
{
        _cleanup_strv_free_ char **names = NULL;

        for (size_t i = 0; i < CRI_N_CAPABILITIES; i++)
                if (mask & UINT64_C(1) << i && strv_extend(&names, cri_capabilities[i].name) < 0)
                        return -ENOMEM;
        *ret = names ? strv_join(names, ",") : strdup("none");
        return *ret ? 0 : -ENOMEM;
}

static uint64_t default_capabilities(void)
{
        uint64_t mask = 0;

        for (size_t i = 0; i < CRI_N_CAPABILITIES; i++)
                if (cri_capabilities[i].by_default)
                        mask |= UINT64_C(1) << i;
        return mask;
}

/* First "ALL" of what is added, then of what is dropped, then single additions, then what else is dropped. What is to be
 * ambient is added. */
int security_capabilities(const Runtime__V1__Capability *c, uint64_t *ret, uint64_t *ret_ambient, Error *e)
{
        const uint64_t everything = (UINT64_C(1) << CRI_N_CAPABILITIES) - 1;
        uint64_t added, dropped, ambient, mask = default_capabilities();
        bool all_added, all_dropped, all_ambient;

        int r = read_capabilities(CONTEXT "capabilities.add_capabilities", c->add_capabilities,
                                  c->n_add_capabilities, &added, &all_added, e);
        if (r >= 0)
                r = read_capabilities(CONTEXT "capabilities.drop_capabilities", c->drop_capabilities,
                                      c->n_drop_capabilities, &dropped, &all_dropped, e);
        if (r >= 0)
                r = read_capabilities(CONTEXT "capabilities.add_ambient_capabilities",
                                      c->add_ambient_capabilities, c->n_add_ambient_capabilities, &ambient,
                                      &all_ambient, e);
        if (r < 0)
                return r;
        if (all_added)
                mask = everything;
        if (all_dropped)
                mask = 0;
        mask = (mask | added | ambient) & ~dropped;
        *ret = mask;
        *ret_ambient = all_ambient ? mask : ambient & mask;
        return 0;
}

static int set_capabilities(const Runtime__V1__Capability *c, AppOverrides *a, Error *e)
{
        static const Runtime__V1__Capability none = RUNTIME__V1__CAPABILITY__INIT;
        _cleanup_free_ char *list = NULL, *ambient_list = NULL;
        uint64_t mask, ambient;

        int r = security_capabilities(c ?: &none, &mask, &ambient, e);
        if (r < 0)
                return r;
        if (format_capabilities(mask, &list) < 0 || format_capabilities(ambient, &ambient_list) < 0)
                return error_oom(e);
        if (ambient > 0)
                r = cri_set_option(app_options, a, "caps-ambient", CONTEXT "capabilities", ambient_list, e);
        if (r < 0)
                return r;
        return mask == 0 ? cri_set_option(app_options, a, "caps-remove", CONTEXT "capabilities", "all", e)
                         : cri_set_option(app_options, a, "caps-retain", CONTEXT "capabilities", list, e);
}

bool container_can_make_nodes(const SecurityContext *x)
{
        uint64_t mask, ambient;

        return x->capabilities && security_capabilities(x->capabilities, &mask, &ambient, NULL) >= 0 &&
               (mask & UINT64_C(1) << find_capability("MKNOD")) != 0;
}

/* --- The security context ------------------------------------------------------------------------------ */

/* Refuses an ID that no process can have, before the container starts: UINT32_MAX means "unchanged" to the kernel. */
static int check_id(const Runtime__V1__Int64Value *v, const char *field, Error *e)
{
        if (!v || (v->value >= 0 && v->value < UINT32_MAX))
                return 0;
        return error_set(e, -EINVAL,
                         "The field '%s' of the request is %" PRId64 ", which is not from 0 to %u", field,
                         v->value, UINT32_MAX - 1);
}

static int set_user(CriJob *j, const SecurityContext *x, AppOverrides *a, Error *e)
{
        char *user = x->run_as_user ? cri_printf(&j->memory, "%" PRId64, x->run_as_user->value)
                                    : cri_strdup(&j->memory, x->run_as_username);
        char *value = user && x->run_as_group
                                      ? cri_printf(&j->memory, "%s:%" PRId64, user, x->run_as_group->value)
                                      : user;

        if (!value)
                return error_oom(e);
        int r = check_id(x->run_as_user, CONTEXT "run_as_user", e);
        if (r >= 0)
                r = check_id(x->run_as_group, CONTEXT "run_as_group", e);
        if (r < 0)
                return r;
        if (*user == 0)
                return x->run_as_group ? error_set(e, -EINVAL,
                                                   "The field '" CONTEXT
                                                   "run_as_group' needs 'run_as_user' or "
                                                   "'run_as_username'")
                                       : 0;
        r = cri_set_option(app_options, a, "user", CONTEXT "run_as_user", value, e);
        return r < 0 || x->run_as_group ? r
                                        : cri_set_option(app_options, a, "group", CONTEXT "run_as_user",
                                                         GROUPS_OF_USER, e);
}

static int set_groups(CriJob *j, const SecurityContext *x, AppOverrides *a, Error *e)
{
        char *list = cri_strdup(&j->memory, "");

        for (size_t i = 0; list && i < x->n_supplemental_groups; i++)
                list = cri_printf(&j->memory, "%s%s%" PRId64, list, i > 0 ? "," : "",
                                  x->supplemental_groups[i]);
        if (!list)
                return error_oom(e);
        int r = *list ? cri_set_option(app_options, a, "supplementary-gids", CONTEXT "supplemental_groups",
                                       list, e)
                      : 0;
        if (r < 0)
                return r;
        return cri_set_option(app_options, a, "group-policy", CONTEXT "supplemental_groups_policy",
                              x->supplemental_groups_policy ==
                                                              RUNTIME__V1__SUPPLEMENTAL_GROUPS_POLICY__Strict
                                              ? "strict"
                                              : "merge",
                              e);
}

static int refuse_node(const Sandbox *s, const char *field, Error *e)
{
        return error_set(
                        e, -EINVAL,
                        "The field '%s' of the request is NODE, but sandbox %s is not in that namespace of the host",
                        field, s->id);
}

/* POD is not the namespace of the pod's systemd, which may be what root of the host is. TARGET needs the container's name. In the
 * pid namespace of the host all containers are that do not want one of their own. */
static int set_pid(CriJob *j, const Sandbox *s, const Runtime__V1__NamespaceOption *given, AppOverrides *a,
                   Error *e)
{
        const Runtime__V1__NamespaceOption none = RUNTIME__V1__NAMESPACE_OPTION__INIT, *o = given ?: &none;
        const char *field = CONTEXT "namespace_options.pid", *value;
        const PodConfig *pod = &s->pod->config;

        if (o->network == RUNTIME__V1__NAMESPACE_MODE__TARGET ||
            o->ipc == RUNTIME__V1__NAMESPACE_MODE__TARGET)
                return error_set(e, -EINVAL, SUPPORTED_ERROR, CONTEXT "namespace_options", "TARGET");
        if (o->ipc == RUNTIME__V1__NAMESPACE_MODE__NODE && !pod->host_ipc)
                return refuse_node(s, CONTEXT "namespace_options.ipc", e);
        if (o->pid == RUNTIME__V1__NAMESPACE_MODE__NODE && !pod->host_pid)
                return refuse_node(s, field, e);
        value = o->pid == RUNTIME__V1__NAMESPACE_MODE__CONTAINER ? "private"
                : pod->host_pid                                  ? "pod"
                : o->pid == RUNTIME__V1__NAMESPACE_MODE__TARGET
                                ? cri_printf(&j->memory, "app:%.32s", o->target_id)
                                : "shared";
        return value ? cri_set_option(app_options, a, "pid", field, value, e) : error_oom(e);
}

/* --- Profiles ------------------------------------------------------------------------------------------ */

typedef Runtime__V1__SecurityProfile Profile;

/* The older form of a profile, in TEXT, has the same values as words. *RET points into TEXT. -EINVAL: it is none. */
static int read_profile(const Profile *p, char *text, Profile *ret)
{
        static const char prefix[] = "localhost/";
        Profile q = RUNTIME__V1__SECURITY_PROFILE__INIT;

        if (p) {
                *ret = *p;
                return 0;
        }
        if (streq(text, "unconfined"))
                q.profile_type = RUNTIME__V1__SECURITY_PROFILE__PROFILE_TYPE__Unconfined;
        else if (startswith(text, prefix)) {
                q.profile_type = RUNTIME__V1__SECURITY_PROFILE__PROFILE_TYPE__Localhost;
                q.localhost_ref = text + strlen(prefix);
        } else if (!streq(text, "runtime/default") && !streq(text, "docker/default"))
                return -EINVAL;
        *ret = q;
        return 0;
}

static int refuse_profile(const char *field, const Profile *p, const char *why, Error *e)
{
        const char *name = p->profile_type == RUNTIME__V1__SECURITY_PROFILE__PROFILE_TYPE__Localhost
                                           ? p->localhost_ref
                                           : "RuntimeDefault";

        return error_set(e, -EINVAL, "The field '%s' of the request is '%s', but %s", field, name, why);
}

/* Whether a profile is loaded is checked when the app is made. */
static int set_apparmor(const SecurityContext *x, const HostFeatures *h, AppOverrides *a, Error *e)
{
        Profile p;

        if (!x->apparmor && isempty(x->apparmor_profile))
                return 0;
        if (read_profile(x->apparmor, x->apparmor_profile, &p) < 0)
                return error_set(e, -EINVAL, SUPPORTED_ERROR, CONTEXT "apparmor_profile",
                                 x->apparmor_profile);
        if (p.profile_type == RUNTIME__V1__SECURITY_PROFILE__PROFILE_TYPE__Unconfined)
                return h->apparmor ? cri_set_option(app_options, a, "apparmor-profile", CONTEXT "apparmor",
                                                    "unconfined", e)
                                   : 0;
        if (!h->apparmor)
                return refuse_profile(CONTEXT "apparmor", &p, "AppArmor is not active on this host", e);
        if (p.profile_type == RUNTIME__V1__SECURITY_PROFILE__PROFILE_TYPE__RuntimeDefault)
                return 0;
        return cri_set_option(app_options, a, "apparmor-profile", CONTEXT "apparmor.localhost_ref",
                              p.localhost_ref, e);
}

static int set_seccomp(const SecurityContext *x, AppOverrides *a, Error *e)
{
        Profile p;

        /* Without a profile there is no filter, as with other runtimes: the kubelet always names one. */
        if (!x->seccomp && isempty(x->seccomp_profile_path))
                return cri_set_option(app_options, a, "seccomp", CONTEXT "seccomp", SECCOMP_NONE, e);
        if (read_profile(x->seccomp, x->seccomp_profile_path, &p) < 0)
                return error_set(e, -EINVAL, SUPPORTED_ERROR, CONTEXT "seccomp_profile_path",
                                 x->seccomp_profile_path);
        if (p.profile_type == RUNTIME__V1__SECURITY_PROFILE__PROFILE_TYPE__RuntimeDefault)
                return 0;
        if (p.profile_type == RUNTIME__V1__SECURITY_PROFILE__PROFILE_TYPE__Localhost &&
            !path_is_absolute(p.localhost_ref))
                return error_set(e, -EINVAL,
                                 "The field '" CONTEXT
                                 "seccomp.localhost_ref' is '%s', which is not an absolute path",
                                 p.localhost_ref);
        if (p.profile_type == RUNTIME__V1__SECURITY_PROFILE__PROFILE_TYPE__Localhost)
                return cri_set_option(app_options, a, "seccomp-profile", CONTEXT "seccomp.localhost_ref",
                                      p.localhost_ref, e);
        return cri_set_option(app_options, a, "seccomp", CONTEXT "seccomp", SECCOMP_NONE, e);
}

/* What the request leaves out is as in the policies of distributions for containers. */
static int set_selinux(CriJob *j, const SecurityContext *x, const HostFeatures *h, AppOverrides *a, Error *e)
{
        const Runtime__V1__SELinuxOption *o = x->selinux_options;

        if (!o || (isempty(o->user) && isempty(o->role) && isempty(o->type) && isempty(o->level)))
                return 0;
        char *context = cri_printf(&j->memory, "%s:%s:%s:%s", isempty(o->user) ? "system_u" : o->user,
                                   isempty(o->role) ? "system_r" : o->role,
                                   isempty(o->type) ? "container_t" : o->type,
                                   isempty(o->level) ? "s0" : o->level);
        if (!context)
                return error_oom(e);
        if (h->selinux == SELINUX_OFF) { /* as in other runtimes: SELinux contexts have no effect */
                operation_message(store_operation(j->store), LOG_LEVEL_WARNING,
                                  "Container %s: the context %s of '" CONTEXT
                                  "selinux_options' has no effect, as SELinux is not active on this host.",
                                  a->name ?: "", context);
                return 0;
        }
        if (h->selinux <= SELINUX_NO_POLICY)
                return error_set(
                                e, -EINVAL,
                                "The field '" CONTEXT
                                "selinux_options' of the request asks for the context %s, but SELinux has no "
                                "policy on this host",
                                context);
        return cri_set_option(app_options, a, "selinux-context", CONTEXT "selinux_options", context, e);
}

/* --- Paths --------------------------------------------------------------------------------------------- */

static int join(CriJob *j, const char *field, char *const *paths, size_t n, char **ret, Error *e)
{
        char *list = NULL;

        for (size_t i = 0; i < n; i++) {
                if (strchr(paths[i], ','))
                        return error_set(e, -EINVAL, SUPPORTED_ERROR, field, paths[i]);
                list = list ? cri_printf(&j->memory, "%s,%s", list, paths[i])
                            : cri_strdup(&j->memory, paths[i]);
                if (!list)
                        return error_oom(e);
        }
        *ret = list;
        return 0;
}

/* A request without paths is one for none only in a pod with users of its own. Elsewhere root of a container is root of the
 * host: a client that leaves the fields out gets the default lists. */
static int set_paths(CriJob *j, const Sandbox *s, const char *option, const char *field, char *const *paths,
                     size_t n, AppOverrides *a, Error *e)
{
        char *list = NULL;

        int r = join(j, field, paths, n, &list, e);
        if (r < 0)
                return r;
        return cri_set_option(app_options, a, option, field,
                              list
                                              ?: s->pod->config.private_users ? "none"
                                                                              : "default",
                              e);
}

/* --- All of it ----------------------------------------------------------------------------------------- */

/* What confines a container, unless it is privileged. */
static int confine(CriJob *j, const Sandbox *s, const SecurityContext *x, const HostFeatures *h,
                   AppOverrides *a, Error *e)
{
        int r = set_capabilities(x->capabilities, a, e);

        if (r >= 0)
                r = set_paths(j, s, "masked-paths", CONTEXT "masked_paths", x->masked_paths,
                              x->n_masked_paths, a, e);
        if (r >= 0)
                r = set_paths(j, s, "read-only-paths", CONTEXT "readonly_paths", x->readonly_paths,
                              x->n_readonly_paths, a, e);
        if (r >= 0)
                r = set_seccomp(x, a, e);
        return r < 0 ? r : set_apparmor(x, h, a, e);
}

/* Clients send capabilities, paths and profiles for privileged containers, too; only a profile of AppArmor that they name is
 * used. In a sandbox with a range of users they are privileged among these, and /sys is that of the host. */
static int set_privileged(const Sandbox *s, const SecurityContext *x, const HostFeatures *h, AppOverrides *a,
                          Error *e)
{
        static const struct {
                const char *option, *value;
        } options[] = {
                        {"seccomp", SECCOMP_NONE},
                        {"masked-paths", "none"},
                        {"read-only-paths", "none"},
                        {"device", "all"},
        };
        const Runtime__V1__Capability everything = {
                        PROTOBUF_C_MESSAGE_INIT(&runtime__v1__capability__descriptor),
                        .n_add_capabilities = 1, .add_capabilities = (char *[]){(char *) "ALL"}};
        const SandboxConfig *c = s->config;

        if (!c->linux || !c->linux->security_context || !c->linux->security_context->privileged)
                return error_set(e, -EINVAL,
                                 "The field '" CONTEXT
                                 "privileged' is set, but sandbox %s is not privileged",
                                 s->id);
        int r = set_capabilities(&everything, a, e);
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(options); i++)
                r = cri_set_option(app_options, a, options[i].option, CONTEXT "privileged", options[i].value,
                                   e);
        if (r >= 0 && !s->pod->config.private_users)
                r = cri_set_option(app_options, a, "sys", CONTEXT "privileged", "writable", e);
        if (r < 0)
                return r;
        if (x->apparmor &&
            x->apparmor->profile_type == RUNTIME__V1__SECURITY_PROFILE__PROFILE_TYPE__Localhost)
                return set_apparmor(x, h, a, e);
        return h->apparmor ? cri_set_option(app_options, a, "apparmor-profile", CONTEXT "privileged",
                                            "unconfined", e)
                           : 0;
}

int container_security(CriJob *j, const Sandbox *s, const SecurityContext *x, AppOverrides *a, Error *e)
{
        HostFeatures h;

        int r = pod_features(s->pod, false, &h);
        if (r < 0)
                return error_set_errno(e, r, "Cannot determine the features of this host");
        r = container_users_check(s, x->namespace_options ? x->namespace_options->userns_options : NULL, e);
        if (r < 0)
                return r;
        a->read_only_rootfs = x->readonly_rootfs;
        r = set_user(j, x, a, e);
        if (r >= 0)
                r = set_groups(j, x, a, e);
        if (r >= 0 && x->no_new_privs)
                r = cri_set_option(app_options, a, "no-new-privileges", CONTEXT "no_new_privs", NULL, e);
        if (r >= 0)
                r = set_pid(j, s, x->namespace_options, a, e);
        if (r >= 0)
                r = set_selinux(j, x, &h, a, e);
        if (r < 0)
                return r;
        return x->privileged ? set_privileged(s, x, &h, a, e) : confine(j, s, x, &h, a, e);
}
