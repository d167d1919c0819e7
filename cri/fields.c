/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The fields of requests that are honoured.
 *
 * A request that sets any other field to something else than its default is refused, and the field is named: nothing that a
 * client asks for is left out in silence. Fields that are honoured only with some of their values are checked where they are
 * used. */

#include "cri/sandbox.h"

#define FIELD_PATH_MAX 512U
#define COMMON_RESOURCES(prefix)                                                                            \
        prefix "cpu_period", prefix "cpu_quota", prefix "cpu_shares", prefix "memory_limit_in_bytes",       \
                        prefix "memory_swap_limit_in_bytes", prefix "oom_score_adj",                        \
                        prefix "hugepage_limits.*"

/* There is no process of a sandbox of its own, so settings of its user and its confinement concern nothing; resources and
 * overhead are those of the cgroup that the client makes itself. */
const char *const cri_sandbox_fields[] = {
                "metadata.*",
                "hostname",
                "log_directory",
                "dns_config.*",
                "port_mappings.*",
                "labels.*",
                "annotations.*",
                "linux.cgroup_parent",
                "linux.sysctls.*",
                "linux.overhead.*",
                "linux.resources.*",
                "linux.security_context.namespace_options.network",
                "linux.security_context.namespace_options.pid",
                "linux.security_context.namespace_options.ipc",
                "linux.security_context.namespace_options.userns_options.*",
                "linux.security_context.run_as_user.*",
                "linux.security_context.run_as_group.*",
                "linux.security_context.readonly_rootfs",
                "linux.security_context.supplemental_groups",
                "linux.security_context.supplemental_groups_policy",
                "linux.security_context.seccomp.*",
                "linux.security_context.seccomp_profile_path",
                "linux.security_context.apparmor.*",
                "linux.security_context.selinux_options.*",
                "linux.security_context.privileged",
                NULL,
};

const char *const cri_container_fields[] = {
                "metadata.*",
                "image.*",
                "command",
                "args",
                "working_dir",
                "envs.*",
                "labels.*",
                "annotations.*",
                "log_path",
                "stop_signal",
                "stdin",
                "stdin_once",
                "tty",
                "devices.*",
                "CDI_devices.*",
                "mounts.container_path",
                "mounts.host_path",
                "mounts.readonly",
                "mounts.recursive_read_only",
                "mounts.propagation",
                "mounts.image.*",
                "mounts.image_sub_path",
                "mounts.selinux_relabel",
                "mounts.uidMappings.*",
                "mounts.gidMappings.*",
                COMMON_RESOURCES("linux.resources."),
                "linux.resources.unified.*",
                "linux.resources.cpuset_cpus",
                "linux.resources.cpuset_mems",
                "linux.security_context.capabilities.*",
                "linux.security_context.privileged",
                "linux.security_context.namespace_options.network",
                "linux.security_context.namespace_options.pid",
                "linux.security_context.namespace_options.ipc",
                "linux.security_context.namespace_options.target_id",
                "linux.security_context.namespace_options.userns_options.*",
                "linux.security_context.run_as_user.*",
                "linux.security_context.run_as_group.*",
                "linux.security_context.run_as_username",
                "linux.security_context.readonly_rootfs",
                "linux.security_context.supplemental_groups",
                "linux.security_context.no_new_privs",
                "linux.security_context.supplemental_groups_policy",
                "linux.security_context.masked_paths",
                "linux.security_context.readonly_paths",
                "linux.security_context.seccomp.*",
                "linux.security_context.seccomp_profile_path",
                "linux.security_context.apparmor.*",
                "linux.security_context.apparmor_profile",
                "linux.security_context.selinux_options.*",
                NULL,
};

static bool is_honoured(const char *const *honoured, const char *path)
{
        for (; *honoured; honoured++) {
                const char *all = endswith(*honoured, ".*");
                size_t n = all ? (size_t) (all - *honoured) : strlen(*honoured);

                if (strncmp(path, *honoured, n) == 0 && (path[n] == 0 || (all && path[n] == '.')))
                        return true;
        }
        return false;
}

bool cri_field_is_set(const ProtobufCFieldDescriptor *f, const void *p)
{
        switch (f->type) {
        case PROTOBUF_C_TYPE_STRING:
                return !isempty(*(const char *const *) p);
        case PROTOBUF_C_TYPE_BYTES:
                return ((const ProtobufCBinaryData *) p)->len > 0;
        case PROTOBUF_C_TYPE_BOOL:
                return *(const protobuf_c_boolean *) p;
        case PROTOBUF_C_TYPE_INT64:
        case PROTOBUF_C_TYPE_SINT64:
        case PROTOBUF_C_TYPE_SFIXED64:
        case PROTOBUF_C_TYPE_UINT64:
        case PROTOBUF_C_TYPE_FIXED64:
        case PROTOBUF_C_TYPE_DOUBLE:
                return *(const uint64_t *) p != 0;
        default:
                return *(const uint32_t *) p != 0;
        }
}

static int check_message(const ProtobufCMessage *m, const char *prefix, const char *const *honoured,
                         Error *e);

static int check_value(const ProtobufCFieldDescriptor *f, const void *p, bool repeated, const char *path,
                       const char *const *honoured, Error *e)
{
        if (is_honoured(honoured, path))
                return 0;
        if (f->type == PROTOBUF_C_TYPE_MESSAGE)
                return check_message(*(ProtobufCMessage *const *) p, path, honoured, e);
        if (!repeated && !cri_field_is_set(f, p))
                return 0;
        return error_set(e, -EINVAL, "The field '%s' of the request is not supported", path);
}

/* The depth of messages is that of the schema. */
static int check_message(const ProtobufCMessage *m, const char *prefix, const char *const *honoured,
                         Error *e)
{
        const char *base = (const char *) m;

        for (unsigned i = 0; m && i < m->descriptor->n_fields; i++) {
                const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
                bool repeated = f->label == PROTOBUF_C_LABEL_REPEATED;
                const void *p = base + f->offset;
                size_t n = repeated ? *(const size_t *) (const void *) (base + f->quantifier_offset) : 1;
                char path[FIELD_PATH_MAX];

                snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix ? "." : "", f->name);
                if (repeated)
                        p = *(const void *const *) p;
                for (size_t k = 0; k < n; k++) {
                        const void *value = f->type == PROTOBUF_C_TYPE_MESSAGE
                                                            ? (const void *) ((void *const *) p + k)
                                                            : p;
                        int r = check_value(f, value, repeated, path, honoured, e);
                        if (r < 0)
                                return r;
                }
        }
        return 0;
}

int cri_check_fields(const ProtobufCMessage *m, const char *const *honoured, Error *e)
{
        return check_message(m, "", honoured, e);
}
