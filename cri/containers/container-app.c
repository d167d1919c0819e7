/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* From the config of a container to an app. */

#include "cri/sandbox.h"
#include "schema/oci.h"
#include "schema/settings.h"

#define OOM_GROUP "memory.oom.group"
#define CPU_PERIOD_DEFAULT 100000

static const char *const propagations[] = {
                [RUNTIME__V1__MOUNT_PROPAGATION__PROPAGATION_PRIVATE] = "",
                [RUNTIME__V1__MOUNT_PROPAGATION__PROPAGATION_HOST_TO_CONTAINER] = ",propagation=slave",
                [RUNTIME__V1__MOUNT_PROPAGATION__PROPAGATION_BIDIRECTIONAL] = ",propagation=shared",
};

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
        return error_set(e, -EINVAL, "The field '%s' of the request is not supported with this value",
                         field);
}

/* Attributes by the kernel's names, in JSON, as the isolator of this name has them. */
static int add_attribute(json_object *o, const char *name, const char *value, Error *e)
{
        return isempty(value) || json_member_add_text(o, name, value) >= 0 ? 0 : error_oom(e);
}

/* The limit of the request is that of memory and swap together. */
static int add_swap(const Runtime__V1__LinuxContainerResources *r, json_object *o, Error *e)
{
        int64_t both = r->memory_swap_limit_in_bytes, memory = r->memory_limit_in_bytes;
        char text[24] = "max";

        if (both == 0)
                return 0;
        if (both > 0 && (memory <= 0 || both < memory))
                return error_set(
                                e, -EINVAL,
                                "The field 'linux.resources.memory_swap_limit_in_bytes' of the request is %" PRId64
                                ", which is less than 'memory_limit_in_bytes', or without it",
                                both);
        if (both > 0)
                snprintf(text, sizeof(text), "%" PRId64, both - memory);
        return add_attribute(o, "memory.swap.max", text, e);
}

/* Limits of 0 bytes, which the kubelet sends for all sizes of pages that the host has, are those of containers without an isolator. */
static int add_huge_pages(const Runtime__V1__LinuxContainerResources *r, json_object *o, Error *e)
{
        for (size_t i = 0; i < r->n_hugepage_limits; i++) {
                const Runtime__V1__HugepageLimit *h = r->hugepage_limits[i];
                char name[64], text[24];

                if (h->limit == 0)
                        continue;
                snprintf(name, sizeof(name), "hugetlb.%s.max", h->page_size);
                snprintf(text, sizeof(text), "%" PRIu64, h->limit);
                int k = add_attribute(o, name, text, e);
                if (k < 0)
                        return k;
        }
        return 0;
}

static int set_attributes(const Runtime__V1__LinuxContainerResources *r, AppOverrides *a, Error *e)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        _cleanup_free_ char *value = NULL;

        int k = !o ? error_oom(e) : add_swap(r, o, e);
        if (k >= 0)
                k = add_huge_pages(r, o, e);
        if (k >= 0)
                k = add_attribute(o, "cpuset.cpus", r->cpuset_cpus, e);
        if (k >= 0)
                k = add_attribute(o, "cpuset.mems", r->cpuset_mems, e);
        for (size_t i = 0; k >= 0 && i < r->n_unified; i++)
                k = add_attribute(o, r->unified[i]->key, r->unified[i]->value, e);
        if (k < 0 || json_object_object_length(o) == 0)
                return k;
        const char *text = json_print(o);
        if (!text || xasprintf(&value, "os/linux/cgroup=%s", text) < 0)
                return error_oom(e);
        return cri_set_option(app_options, a, "isolator", "linux.resources.unified", value, e);
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

/* Without the controller the container could use as many as the host has. */
static int check_huge_pages(Pod *p, const Runtime__V1__LinuxContainerResources *r, Error *e)
{
        bool limited = false;
        HostFeatures h;

        for (size_t i = 0; i < r->n_hugepage_limits; i++)
                limited = limited || r->hugepage_limits[i]->limit > 0;
        if (!limited)
                return 0;
        int k = pod_features(p, false, &h);
        if (k < 0)
                return error_set_errno(e, k, "Cannot determine the features of this host");
        return h.hugetlb ? 0
                         : error_set(e, -EINVAL,
                                     "The field 'linux.resources.hugepage_limits' of the request is not "
                                     "supported: this host has no cgroup "
                                     "v2 controller 'hugetlb' for the pod");
}

/* Without the controller, memory.oom.group, which the kubelet sends with every container, is a setting of the app, so that its processes
 * end together at least. The other attributes are refused there. */
static int take_oom_group(CriJob *j, Pod *p, Runtime__V1__LinuxContainerResources *r, AppOverrides *a,
                          Error *e)
{
        const char *value = cri_map_get(r->n_unified, r->unified, OOM_GROUP);
        Runtime__V1__LinuxContainerResources__UnifiedEntry **l;
        HostFeatures h;
        size_t n = 0;

        if (!value)
                return 0;
        int k = pod_features(p, false, &h);
        if (k < 0)
                return error_set_errno(e, k, "Cannot determine the features of this host");
        if (h.memory)
                return 0;
        l = cri_alloc(&j->memory, r->n_unified * sizeof(*l));
        if (!l)
                return error_oom(e);
        for (size_t i = 0; i < r->n_unified; i++)
                if (!streq(r->unified[i]->key, OOM_GROUP))
                        l[n++] = r->unified[i];
        r->unified = l;
        r->n_unified = n;
        return cri_set_option(app_options, a, "oom-group", "linux.resources.unified",
                              streq(value, "1") ? "true" : "false", e);
}

int container_resources(const Runtime__V1__LinuxContainerResources *r, AppOverrides *a, Error *e)
{
        int k = 0;

        if (r->memory_limit_in_bytes > 0)
                k = set_number(a, "memory", "linux.resources.memory_limit_in_bytes",
                               r->memory_limit_in_bytes, e);
        if (k >= 0)
                k = set_cpu(r, a, e);
        if (k >= 0 && r->cpu_shares > 0)
                k = set_number(a, "cpu-shares", "linux.resources.cpu_shares", r->cpu_shares, e);
        if (k >= 0 && r->oom_score_adj != 0)
                k = set_number(a, "oom-score-adj", "linux.resources.oom_score_adj", r->oom_score_adj, e);
        return k < 0 ? k : set_attributes(r, a, e);
}

/* --- Files and streams --------------------------------------------------------------------------------- */

/* A source that is missing becomes an empty directory: the kubelet makes those of some volumes only, and relies on the runtime for
 * the others. */
static int make_source(const char *path, Error *e)
{
        _cleanup_close_ int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC),
                            fd = open(path, O_PATH | O_CLOEXEC), made = -EBADF;

        if (root < 0 || fd >= 0 || errno != ENOENT)
                return 0; /* a source that cannot be opened is refused later */
        int r = mkdir_p_in_root(root, path, 0755, &made);
        return r < 0 ? error_set_errno(e, r, "Cannot make the directory %s, which is to be mounted", path)
                     : 0;
}

/* What is mounted below a read-only mount can be written to, unless 'recursive_read_only' says otherwise. */
static int check_mount(const Runtime__V1__Mount *m, bool privileged, Error *e)
{
        if ((size_t) m->propagation >= ELEMENTSOF(propagations))
                return error_set(e, -EINVAL, "The field 'mounts.propagation' of the request is not valid");
        if (m->propagation == RUNTIME__V1__MOUNT_PROPAGATION__PROPAGATION_BIDIRECTIONAL && !privileged)
                return error_set(
                                e, -EINVAL,
                                "The field 'mounts.propagation' of the mount of '%s' on '%s' is PROPAGATION_BIDIRECTIONAL, but the "
                                "container is not privileged",
                                m->host_path, m->container_path);
        if (m->recursive_read_only && m->propagation != RUNTIME__V1__MOUNT_PROPAGATION__PROPAGATION_PRIVATE)
                return error_set(
                                e, -EINVAL,
                                "The mount of '%s' on '%s' has 'recursive_read_only', which takes PROPAGATION_PRIVATE",
                                m->host_path, m->container_path);
        if (!m->recursive_read_only || m->readonly)
                return 0;
        return error_set(e, -EINVAL,
                         "The mount of '%s' on '%s' has 'recursive_read_only' without 'readonly'",
                         m->host_path, m->container_path);
}

/* Takes over the text in V, also if it fails. */
static int add_volume(const char *path, const Volume *v, AppOverrides *a, Error *e)
{
        Volume volume = *v;

        if (GREEDY_REALLOC(a->mounts, a->mounts_allocated, a->n_mounts + 1) < 0) {
                volume_done(&volume);
                return error_oom(e);
        }
        Mount *n = &a->mounts[a->n_mounts++];
        *n = (Mount){.path = strdup(path), .app_volume = calloc(1, sizeof(Volume))};
        if (!n->app_volume) {
                volume_done(&volume);
                return error_oom(e);
        }
        *n->app_volume = volume;
        if (!n->path || xasprintf(&n->app_volume->name, "mount-%zu", a->n_mounts) < 0 ||
            !(n->volume = strdup(n->app_volume->name)))
                return error_oom(e);
        return 0;
}

/* Images are only read. The kubelet relies on that it is refused otherwise. */
static int add_image(CriJob *j, const Runtime__V1__Mount *m, AppOverrides *a, Error *e)
{
        Volume v = {.kind = VOLUME_EMPTY, .mode = 0755, .has_read_only = true, .read_only = true};
        char *id = NULL;

        if (!m->readonly)
                return error_set(e, -EINVAL, "The mount of the image '%s' on '%s' is not 'readonly'",
                                 m->image->image, m->container_path);
        if (!isempty(m->host_path) ||
            m->propagation != RUNTIME__V1__MOUNT_PROPAGATION__PROPAGATION_PRIVATE ||
            !path_is_absolute(m->container_path))
                return error_set(
                                e, -EINVAL,
                                "The mount of the image '%s' on '%s' has a 'host_path', a propagation other than "
                                "PROPAGATION_PRIVATE, or no absolute path in the container",
                                m->image->image, m->container_path);
        int r = container_find_image(j, m->image->image, &id, e);
        if (r < 0)
                return error_prefix(e, r, "The mount on '%s'", m->container_path);
        if (!isempty(m->image_sub_path) &&
            volume_setting_check("subpath", m->image_sub_path, &(const char *){NULL}) < 0)
                return error_set(
                                e, -EINVAL,
                                "The field 'mounts.image_sub_path' of the mount on '%s' is '%s', which is not a path in an image: "
                                "relative and without '..'",
                                m->container_path, m->image_sub_path);
        if (volume_setting_add(&v.settings, "kind", "image") < 0 ||
            volume_setting_add(&v.settings, "source", id) < 0 ||
            (!isempty(m->image_sub_path) &&
             volume_setting_add(&v.settings, "subpath", m->image_sub_path) < 0)) {
                volume_done(&v);
                return error_oom(e);
        }
        return add_volume(m->container_path, &v, a, e);
}

int container_add_host_mount(const char *source, const char *path, bool read_only, const char *settings,
                             AppOverrides *a, Error *e)
{
        const Volume v = {.kind = VOLUME_HOST,
                          .source = strdup(source),
                          .has_read_only = true,
                          .read_only = read_only,
                          .settings = strdup(settings)};

        if (v.source && v.settings)
                return add_volume(path, &v, a, e);
        free(v.source);
        free(v.settings);
        return error_oom(e);
}

static int add_mount(CriJob *j, const Sandbox *s, const Runtime__V1__Mount *m, const SecurityContext *x,
                     bool filtered, AppOverrides *a, Error *e)
{
        int r = check_mount(m, x->privileged, e);
        if (r < 0)
                return r;
        int mapped = container_mount_users(s, m, e);
        if (mapped < 0)
                return mapped;
        if (m->image && !isempty(m->image->image))
                return add_image(j, m, a, e);
        if (!isempty(m->image_sub_path))
                return error_set(e, -EINVAL, "The mount on '%s' has 'image_sub_path' without 'image'",
                                 m->container_path);
        if (!path_is_absolute(m->host_path) || !path_is_absolute(m->container_path))
                return error_set(e, -EINVAL, "The mount of '%s' on '%s' does not have two absolute paths",
                                 m->host_path, m->container_path);
        r = make_source(m->host_path, e);
        if (r >= 0 && m->selinux_relabel)
                r = container_relabel(j, s, m->host_path, x->selinux_options, e);
        if (r < 0)
                return r;
        bool nodev = !x->privileged && !filtered && container_can_make_nodes(x);
        char *settings = cri_printf(&j->memory, "%s%s%s%s",
                                    nodev ? CONTAINER_HOST_SETTINGS_NO_DEV : CONTAINER_HOST_SETTINGS,
                                    propagations[m->propagation], mapped ? "" : ",idmap=no",
                                    m->readonly && !m->recursive_read_only ? ",read-only-below=false" : "");
        return settings ? container_add_host_mount(m->host_path, m->container_path, m->readonly, settings, a,
                                                   e)
                        : error_oom(e);
}

/* Without one it is that of the image. */
static int set_stop_signal(const ContainerConfig *c, AppOverrides *a, Error *e)
{
        int number = cri_signal_to_number(c->stop_signal);

        if (c->stop_signal == RUNTIME__V1__SIGNAL__RUNTIME_DEFAULT)
                return 0;
        return number > 0 ? set_number(a, "stop-signal", "stop_signal", number, e)
                          : error_set(e, -EINVAL,
                                      "The field 'stop_signal' of the request is %d, which is not a signal",
                                      (int) c->stop_signal);
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

                if (environment_name_check(c->envs[i]->key, NULL) < 0 ||
                    (v->len > 0 && memchr(v->data, 0, v->len)))
                        return error_set(e, -EINVAL, "The environment variable '%s' is not valid",
                                         c->envs[i]->key);
                if (!value || pair_list_set(&a->environment, c->envs[i]->key, value) < 0)
                        return error_oom(e);
        }
        return 0;
}

/* Relative to the root, and with "..", as other runtimes take it. */
static int set_directory(const ContainerConfig *c, AppOverrides *a, Error *e)
{
        _cleanup_free_ char *directory = NULL;

        if (oci_clean_path(c->working_dir, &directory) < 0)
                return error_oom(e);
        return cri_set_option(app_options, a, "working-directory", "working_dir", directory, e);
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

int container_request(CriJob *j, const Sandbox *s, const ContainerConfig *c, const char *id, AppOverrides *a,
                      Error *e)
{
        const SecurityContext none = RUNTIME__V1__LINUX_CONTAINER_SECURITY_CONTEXT__INIT,
                              *x = c->linux && c->linux->security_context ? c->linux->security_context
                                                                          : &none;
        int r = set_command(c, a) < 0 ? error_oom(e) : 0;

        if (r >= 0 && xasprintf(&a->name, "%.32s", id) < 0)
                r = error_oom(e);
        if (r >= 0 && !isempty(c->working_dir))
                r = set_directory(c, a, e);
        if (r >= 0)
                r = set_environment(j, c, a, e);
        for (size_t i = 0; r >= 0 && i < c->n_mounts; i++)
                r = add_mount(j, s, c->mounts[i], x, container_devices_are_filtered(c), a, e);
        if (r >= 0)
                r = container_devices(j, s, c, a, e);
        if (r >= 0)
                r = cri_set_option(app_options, a, "log", "log_path", "none", e);
        if (r >= 0)
                r = set_stop_signal(c, a, e);
        if (r >= 0)
                r = set_log(j, s->config, c, a, e);
        if (r >= 0 && (c->tty || c->stdin))
                r = cri_set_option(app_options, a, "input", c->tty ? "tty" : "stdin",
                                   c->tty ? "terminal" : "pipe", e);
        if (r >= 0 && c->linux && c->linux->resources)
                r = check_huge_pages(s->pod, c->linux->resources, e);
        if (r >= 0 && c->linux && c->linux->resources) {
                Runtime__V1__LinuxContainerResources resources = *c->linux->resources;
                r = take_oom_group(j, s->pod, &resources, a, e);
                if (r >= 0)
                        r = container_resources(&resources, a, e);
        }
        return r < 0 ? r : container_security(j, s, x, a, e);
}
