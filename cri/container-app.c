/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* From the config of a container to an app. */

#include "cri/sandbox.h"

#define CONTEXT "linux.security_context."
#define SUPPORTED_ERROR "The field '%s' of the request is not supported with the value '%s'"
#define SECCOMP_NONE "mode=retain,@appc.io/all"
#define CPU_PERIOD_DEFAULT 100000
#define CAPABILITIES_MAX 64U

typedef Runtime__V1__LinuxContainerSecurityContext SecurityContext;

/* Setting of the app for which there is no more than a number. */
static int set_number(AppOverrides *a, const char *option, const char *field, int64_t value, Error *e)
{
        char text[24];

        snprintf(text, sizeof(text), "%" PRId64, value);
        return cri_set_option(app_options, a, option, field, text, e);
}

/* --- Resources ----------------------------------------------------------------------------------------- */

static int refuse_limit(const char *field, Error *e)
{
        return error_set(e, -EINVAL, "The field '%s' of the request is not supported with this value", field);
}

/* Swap cannot be limited apart from memory: the same value, or none, is what clients send that do not use it. */
static int check_resources(const Runtime__V1__LinuxContainerResources *r, Error *e)
{
        if (r->memory_swap_limit_in_bytes > 0 && r->memory_swap_limit_in_bytes != r->memory_limit_in_bytes)
                return refuse_limit("linux.resources.memory_swap_limit_in_bytes", e);
        for (size_t i = 0; i < r->n_unified; i++)
                if (!streq(r->unified[i]->key, "memory.oom.group"))
                        return error_set(e, -EINVAL, SUPPORTED_ERROR, "linux.resources.unified", r->unified[i]->key);
        return 0;
}

/* A quota that is not positive is none; the processor time is in thousandths of a processor. */
static int set_cpu(const Runtime__V1__LinuxContainerResources *r, AppOverrides *a, Error *e)
{
        int64_t period = r->cpu_period > 0 ? r->cpu_period : CPU_PERIOD_DEFAULT, quota;
        char text[32];

        if (r->cpu_quota <= 0)
                return 0;
        if (__builtin_mul_overflow(r->cpu_quota, INT64_C(1000), &quota))
                return refuse_limit("linux.resources.cpu_quota", e);
        snprintf(text, sizeof(text), "%" PRId64 "m", MAX(quota / period, INT64_C(1)));
        return cri_set_option(app_options, a, "cpu", "linux.resources.cpu_quota", text, e);
}

int container_resources(const Runtime__V1__LinuxContainerResources *r, AppOverrides *a, Error *e)
{
        int k = check_resources(r, e);

        if (k >= 0 && r->memory_limit_in_bytes > 0)
                k = set_number(a, "memory", "linux.resources.memory_limit_in_bytes", r->memory_limit_in_bytes, e);
        if (k >= 0)
                k = set_cpu(r, a, e);
        if (k >= 0 && r->cpu_shares > 0)
                k = set_number(a, "cpu-shares", "linux.resources.cpu_shares", r->cpu_shares, e);
        if (k >= 0 && r->oom_score_adj != 0)
                k = set_number(a, "oom-score-adj", "linux.resources.oom_score_adj", r->oom_score_adj, e);
        for (size_t i = 0; k >= 0 && i < r->n_unified; i++)
                k = cri_set_option(app_options, a, "oom-group", "linux.resources.unified",
                                   streq(r->unified[i]->value, "1") ? "true" : "false", e);
        return k;
}

/* --- Capabilities -------------------------------------------------------------------------------------- */

static const char *const default_capabilities[] = {
                "CAP_AUDIT_WRITE", "CAP_CHOWN",    "CAP_DAC_OVERRIDE",     "CAP_FOWNER",   "CAP_FSETID",
                "CAP_KILL",        "CAP_MKNOD",    "CAP_NET_BIND_SERVICE", "CAP_NET_RAW",  "CAP_SETFCAP",
                "CAP_SETGID",      "CAP_SETPCAP",  "CAP_SETUID",           "CAP_SYS_CHROOT",
};

/* With and without "CAP_". */
static bool is_in(char *const *list, size_t n, const char *name)
{
        const char *bare = name + strlen("CAP_");

        for (size_t i = 0; i < n; i++)
                if (strcasecmp(list[i], "ALL") == 0 || strcasecmp(list[i], name) == 0 || strcasecmp(list[i], bare) == 0)
                        return true;
        return false;
}

/* First the additions of all, then what is dropped, then the single additions. */
static int set_capabilities(const Runtime__V1__Capability *c, AppOverrides *a, Error *e)
{
        _cleanup_strv_free_ char **kept = NULL;
        _cleanup_free_ char *list = NULL;

        if (!c)
                return 0;
        for (size_t i = 0; i < ELEMENTSOF(default_capabilities); i++)
                if (!is_in(c->drop_capabilities, c->n_drop_capabilities, default_capabilities[i]) &&
                    strv_extend(&kept, default_capabilities[i]) < 0)
                        return error_oom(e);
        for (size_t i = 0; i < c->n_add_capabilities && i < CAPABILITIES_MAX; i++) {
                const char *s = c->add_capabilities[i];
                bool has_prefix = strncasecmp(s, "CAP_", 4) == 0;
                _cleanup_free_ char *name = NULL;

                if (strcasecmp(s, "ALL") == 0)
                        return error_set(e, -EINVAL, SUPPORTED_ERROR, CONTEXT "capabilities.add_capabilities", s);
                if (xasprintf(&name, "%s%s", has_prefix ? "" : "CAP_", s) < 0)
                        return error_oom(e);
                for (char *p = name; *p; p++)
                        *p = to_upper(*p);
                if (!strv_contains(kept, name) && strv_extend(&kept, name) < 0)
                        return error_oom(e);
        }
        if (!kept)
                return cri_set_option(app_options, a, "caps-remove", CONTEXT "capabilities", "all", e);
        list = strv_join(kept, ",");
        return list ? cri_set_option(app_options, a, "caps-retain", CONTEXT "capabilities", list, e) : error_oom(e);
}

/* --- The security context ------------------------------------------------------------------------------ */

static int set_user(CriJob *j, const SecurityContext *x, AppOverrides *a, Error *e)
{
        char *user = x->run_as_user ? cri_printf(&j->memory, "%" PRId64, x->run_as_user->value)
                                    : cri_strdup(&j->memory, x->run_as_username);
        char *value = user && x->run_as_group ? cri_printf(&j->memory, "%s:%" PRId64, user, x->run_as_group->value) : user;

        if (!value)
                return error_oom(e);
        if (*user == 0)
                return x->run_as_group ? error_set(e, -EINVAL,
                                                   "The field '" CONTEXT "run_as_group' needs 'run_as_user' or "
                                                   "'run_as_username'")
                                       : 0;
        return cri_set_option(app_options, a, "user", CONTEXT "run_as_user", value, e);
}

static int set_groups(CriJob *j, const SecurityContext *x, AppOverrides *a, Error *e)
{
        char *list = cri_strdup(&j->memory, "");

        for (size_t i = 0; list && i < x->n_supplemental_groups; i++)
                list = cri_printf(&j->memory, "%s%s%" PRId64, list, i > 0 ? "," : "", x->supplemental_groups[i]);
        if (!list)
                return error_oom(e);
        return *list ? cri_set_option(app_options, a, "supplementary-gids", CONTEXT "supplemental_groups", list, e) : 0;
}

/* Settings of the app, where this version of it has them. TARGET needs the container's name. */
static int set_pid(CriJob *j, const Runtime__V1__NamespaceOption *o, AppOverrides *a, Error *e)
{
        const char *field = CONTEXT "namespace_options.pid", *value;

        if (!o)
                return 0;
        if (o->network == RUNTIME__V1__NAMESPACE_MODE__TARGET || o->ipc == RUNTIME__V1__NAMESPACE_MODE__TARGET ||
            o->ipc == RUNTIME__V1__NAMESPACE_MODE__NODE || o->pid == RUNTIME__V1__NAMESPACE_MODE__NODE)
                return error_set(e, -EINVAL, SUPPORTED_ERROR, CONTEXT "namespace_options", "NODE");
        value = o->pid == RUNTIME__V1__NAMESPACE_MODE__CONTAINER ? "private"
                : o->pid == RUNTIME__V1__NAMESPACE_MODE__TARGET
                                ? cri_printf(&j->memory, "app:%.32s", o->target_id)
                                : "shared";
        if (o->pid == RUNTIME__V1__NAMESPACE_MODE__POD && !cri_has_option(app_options, "pid"))
                return 0;
        return value ? cri_set_option(app_options, a, "pid", field, value, e) : error_oom(e);
}

static int set_profiles(const SecurityContext *x, AppOverrides *a, Error *e)
{
        if (x->apparmor && x->apparmor->profile_type == RUNTIME__V1__SECURITY_PROFILE__PROFILE_TYPE__Localhost)
                return error_set(e, -EINVAL, SUPPORTED_ERROR, CONTEXT "apparmor.profile_type", "Localhost");
        if (!x->seccomp || x->seccomp->profile_type == RUNTIME__V1__SECURITY_PROFILE__PROFILE_TYPE__RuntimeDefault)
                return 0;
        if (x->seccomp->profile_type == RUNTIME__V1__SECURITY_PROFILE__PROFILE_TYPE__Localhost)
                return error_set(e, -EINVAL, SUPPORTED_ERROR, CONTEXT "seccomp.profile_type", "Localhost");
        return cri_set_option(app_options, a, "seccomp", CONTEXT "seccomp", SECCOMP_NONE, e);
}

/* The launcher masks these in every app, and makes these read-only; others are not supported. */
static const char *const masked_paths[] = {
                "/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
                "/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/powercap",
                "/sys/firmware",
};
static const char *const read_only_paths[] = {
                "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger",
};

static int check_paths(const char *field, char *const *paths, size_t n, const char *const *known, size_t n_known, Error *e)
{
        for (size_t i = 0; i < n; i++) {
                size_t k = 0;

                while (k < n_known && !streq(paths[i], known[k]))
                        k++;
                if (k == n_known)
                        return error_set(e, -EINVAL, SUPPORTED_ERROR, field, paths[i]);
        }
        return 0;
}

static int check_proc(const SecurityContext *x, Error *e)
{
        int r = check_paths(CONTEXT "masked_paths", x->masked_paths, x->n_masked_paths, masked_paths,
                            ELEMENTSOF(masked_paths), e);

        return r < 0 ? r
                     : check_paths(CONTEXT "readonly_paths", x->readonly_paths, x->n_readonly_paths, read_only_paths,
                                   ELEMENTSOF(read_only_paths), e);
}

static int set_context(CriJob *j, const SecurityContext *x, AppOverrides *a, Error *e)
{
        a->read_only_rootfs = x->readonly_rootfs;
        int r = check_proc(x, e);
        if (r >= 0)
                r = set_user(j, x, a, e);
        if (r >= 0)
                r = set_groups(j, x, a, e);
        if (r >= 0)
                r = set_capabilities(x->capabilities, a, e);
        if (r >= 0 && x->no_new_privs)
                r = cri_set_option(app_options, a, "no-new-privileges", CONTEXT "no_new_privs", NULL, e);
        if (r >= 0)
                r = set_pid(j, x->namespace_options, a, e);
        return r < 0 ? r : set_profiles(x, a, e);
}

/* --- Files and streams --------------------------------------------------------------------------------- */

static int add_mount(const Runtime__V1__Mount *m, AppOverrides *a, Error *e)
{
        if (!path_is_absolute(m->host_path) || !path_is_absolute(m->container_path))
                return error_set(e, -EINVAL, "The mount of '%s' on '%s' does not have two absolute paths", m->host_path,
                                 m->container_path);
        if (GREEDY_REALLOC(a->mounts, a->mounts_allocated, a->n_mounts + 1) < 0)
                return error_oom(e);
        Mount *n = &a->mounts[a->n_mounts++];
        *n = (Mount){.path = strdup(m->container_path), .app_volume = calloc(1, sizeof(Volume))};
        if (!n->path || !n->app_volume)
                return error_oom(e);
        Volume *v = n->app_volume;
        *v = (Volume){.kind = VOLUME_HOST, .source = strdup(m->host_path), .has_read_only = true,
                      .read_only = m->readonly, .settings = strdup("symlinks=true")};
        if (!v->source || !v->settings || xasprintf(&v->name, "mount-%zu", a->n_mounts) < 0 ||
            !(n->volume = strdup(v->name)))
                return error_oom(e);
        return 0;
}

/* The log is in the directory of the sandbox. */
static int set_log(CriJob *j, const SandboxConfig *s, const ContainerConfig *c, AppOverrides *a, Error *e)
{
        if (isempty(s->log_directory) || isempty(c->log_path))
                return 0;
        char *path = cri_printf(&j->memory, "%s/%s", s->log_directory, c->log_path);
        if (!path)
                return error_oom(e);
        return cri_set_option(app_options, a, "log-file", "log_path", path, e);
}

static int set_environment(CriJob *j, const ContainerConfig *c, AppOverrides *a, Error *e)
{
        for (size_t i = 0; i < c->n_envs; i++) {
                const ProtobufCBinaryData *v = &c->envs[i]->value;
                char *value = cri_printf(&j->memory, "%.*s", (int) v->len, (const char *) v->data);

                if (environment_name_check(c->envs[i]->key, NULL) < 0 || (v->len > 0 && memchr(v->data, 0, v->len)))
                        return error_set(e, -EINVAL, "The environment variable '%s' is not valid", c->envs[i]->key);
                if (!value || pair_list_set(&a->environment, c->envs[i]->key, value) < 0)
                        return error_oom(e);
        }
        return 0;
}

static int set_command(const ContainerConfig *c, AppOverrides *a)
{
        for (size_t i = 0; i < c->n_command; i++)
                if (strv_extend(&a->exec, c->command[i]) < 0)
                        return -ENOMEM;
        for (size_t i = 0; i < c->n_args; i++)
                if (strv_extend(&a->args, c->args[i]) < 0)
                        return -ENOMEM;
        return 0;
}

int container_request(CriJob *j, const Sandbox *s, const ContainerConfig *c, const char *id, AppOverrides *a, Error *e)
{
        int r = set_command(c, a) < 0 ? error_oom(e) : 0;

        if (r >= 0 && xasprintf(&a->name, "%.32s", id) < 0)
                r = error_oom(e);
        if (r >= 0 && !isempty(c->working_dir))
                r = cri_set_option(app_options, a, "working-directory", "working_dir", c->working_dir, e);
        if (r >= 0)
                r = set_environment(j, c, a, e);
        for (size_t i = 0; r >= 0 && i < c->n_mounts; i++)
                r = add_mount(c->mounts[i], a, e);
        if (r >= 0)
                r = cri_set_option(app_options, a, "log", "log_path", "none", e);
        if (r >= 0)
                r = set_log(j, s->config, c, a, e);
        if (r >= 0 && (c->tty || c->stdin))
                r = cri_set_option(app_options, a, "input", c->tty ? "tty" : "stdin", c->tty ? "terminal" : "pipe", e);
        if (r >= 0 && c->linux && c->linux->resources)
                r = container_resources(c->linux->resources, a, e);
        return r < 0 || !c->linux || !c->linux->security_context ? r : set_context(j, c->linux->security_context, a, e);
}
