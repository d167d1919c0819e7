/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The users of a sandbox: those of the host, or a range of the host's that the client has chosen for it and that no other
 * sandbox has. Such a request has the range with each mount as well, whose files have the same owners in the container as on the
 * host. */

#include "cri/sandbox.h"
#include "stage0/host/host.h"

#define UIDS_MIN 6U /* terminals belong to the group tty, which is 5 */
#define FIELD "linux.security_context.namespace_options.userns_options"

typedef Runtime__V1__IDMapping IDMapping;
typedef Runtime__V1__UserNamespace UserNamespace;

static const UserNamespace *users_of(const SandboxConfig *c)
{
        return c->linux && c->linux->security_context && c->linux->security_context->namespace_options
                               ? c->linux->security_context->namespace_options->userns_options
                               : NULL;
}

static bool is_private(const UserNamespace *u)
{
        return u && u->mode != RUNTIME__V1__NAMESPACE_MODE__NODE;
}

typedef struct Range {
        uint32_t base, count; /* on the host */
} Range;

static bool is_same(Range a, Range b)
{
        return a.base == b.base && a.count == b.count;
}

static int read_range(IDMapping *const *l, size_t n, const char *field, Range *ret, Error *e)
{
        if (n == 1 && l[0]->container_id == 0 && l[0]->length >= UIDS_MIN &&
            pod_uids_are_valid(l[0]->host_id, l[0]->length)) {
                *ret = (Range){.base = l[0]->host_id, .count = l[0]->length};
                return 0;
        }
        int r = error_set(
                        e, -EINVAL,
                        "The field '%s' of the request has to be one range of %u to %u users, from 0 in the container and "
                        "from another user than root on the host",
                        field, UIDS_MIN, POD_UIDS_MAX);
        return n == 1 && l[0]->length > POD_UIDS_MAX
                               ? error_hint(e, r, "The kubelet has this length as userNamespaces.idsPerPod.")
                               : r;
}

int sandbox_users(const SandboxConfig *c, PrepareOptions *o, Error *e)
{
        const UserNamespace *u = users_of(c);
        Range users, groups;

        if (u && u->mode != RUNTIME__V1__NAMESPACE_MODE__POD && u->mode != RUNTIME__V1__NAMESPACE_MODE__NODE)
                return error_set(e, -EINVAL,
                                 "The field '" FIELD ".mode' of the request is neither POD nor NODE");
        if (!is_private(u)) {
                if (u && (u->n_uids > 0 || u->n_gids > 0))
                        return error_set(e, -EINVAL,
                                         "The field '" FIELD
                                         "' of the request has a range with the mode NODE");
                o->private_users = false;
                return 0;
        }
        int r = read_range(u->uids, u->n_uids, FIELD ".uids", &users, e);
        if (r >= 0)
                r = read_range(u->gids, u->n_gids, FIELD ".gids", &groups, e);
        if (r < 0)
                return r;
        if (!is_same(users, groups))
                return error_set(e, -EINVAL,
                                 "The field '" FIELD
                                 "' of the request has different ranges of users and groups");
        o->private_users = true;
        o->uid_base = users.base;
        o->n_uids = users.count;
        return 0;
}

/* Those of a container are the sandbox's, whether it names them or not. */
int container_users_check(const Sandbox *s, const UserNamespace *u, Error *e)
{
        const UserNamespace *own = users_of(s->config);
        bool same = !u || is_private(u) == is_private(own);

        if (same && is_private(u))
                same = u->mode == own->mode && u->n_uids == 1 && u->n_gids == 1 && own->n_uids == 1 &&
                       u->uids[0]->host_id == own->uids[0]->host_id &&
                       u->uids[0]->length == own->uids[0]->length &&
                       u->gids[0]->host_id == own->uids[0]->host_id &&
                       u->gids[0]->length == own->uids[0]->length;
        return same ? 0
                    : error_set(e, -EINVAL,
                                "The field '" FIELD "' of the request is not that of sandbox %s, whose "
                                "users its containers have",
                                s->id);
}

/* 1: files of M have the same owners in the container as on the host; 0: in the container they have the kernel's overflow
 * IDs, so none of its users owns them. */
int container_mount_users(const Sandbox *s, const Runtime__V1__Mount *m, Error *e)
{
        const Range own = {.base = s->pod->config.uid_base, .count = pod_n_uids(&s->pod->config)};
        Range users, groups;

        if (m->n_uidmappings == 0 && m->n_gidmappings == 0)
                return !s->pod->config.private_users;
        int r = read_range(m->uidmappings, m->n_uidmappings, "mounts.uidMappings", &users, e);
        if (r >= 0)
                r = read_range(m->gidmappings, m->n_gidmappings, "mounts.gidMappings", &groups, e);
        if (r < 0)
                return r;
        if (s->pod->config.private_users && is_same(users, own) && is_same(groups, own))
                return 1;
        return error_set(e, -EINVAL, "The mount on '%s' has a range of users that is not that of sandbox %s",
                         m->container_path, s->id);
}

/* Whether the owners of the images' files can be mapped, which a range of users takes. */
bool cri_users_are_supported(const Store *s)
{
        _cleanup_close_ int users = -EBADF, tree = -EBADF;

        return userns_open(UID_RANGE_SIZE, UID_RANGE_SIZE, &users, NULL) >= 0 &&
               (tree = mount_clone(store_fd(s), "", false)) >= 0 &&
               mount_map_owners(tree, users, false) >= 0;
}
