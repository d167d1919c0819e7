/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Finds sandboxes and containers in the store.
 *
 * A sandbox is a pod that belongs to this endpoint. A prepared pod that is not locked was left by a call that was killed: it
 * is listed, so that the client removes it. A locked one is about to be run by its call, and is not listed yet. A pod of an
 * earlier boot of the host is listed as ended: the exit status of its containers tells the client which of them need not run
 * again. */

#include <sys/socket.h>
#include <sys/stat.h>

#include "cri/sandbox.h"

#define END_USEC UINT64_C(5000000) /* between the close of its connections and the end of a supervisor */
#define END_STEP_USEC UINT64_C(50000)
#define END_SERVED 3U /* a supervisor whose socket accepts in so many steps is not ending */

typedef Runtime__V1__StatusResponse__InfoEntry Entry; /* all maps of text have such entries */

void sandbox_done(Sandbox *s)
{
        s->pod = pod_free(s->pod);
}

void sandbox_list_free(Sandbox *l, size_t n)
{
        for (size_t i = 0; l && i < n; i++)
                sandbox_done(&l[i]);
        free(l);
}

bool sandbox_is_ready(const Sandbox *s)
{
        return s->pod->state == POD_RUNNING;
}

/* True if a supervisor listens, even if its backlog is full. */
static bool is_served(const Pod *p)
{
        int fd, r = socket_connect_at(p->dir_fd, "interface", SOCK_STREAM | SOCK_NONBLOCK, &fd);

        if (r >= 0)
                safe_close(fd);
        return r >= 0 || r == -ETIMEDOUT;
}

/* A supervisor that ends closes its connections, then its socket, and releases the lock of the pod last. */
bool sandbox_has_ended(Sandbox *s, int r)
{
        uint64_t end = now_usec(CLOCK_MONOTONIC) + END_USEC;
        unsigned served = 0;

        if (!sandbox_is_ready(s))
                return true;
        if (r != -ECONNRESET && r != -ESHUTDOWN && r != -ESRCH && r != -EAGAIN && r != -ECONNREFUSED)
                return false;
        do {
                if (pod_wait(s->pod, END_STEP_USEC, NULL) >= 0) {
                        s->pod->state = POD_EXITED;
                        return true;
                }
                served = is_served(s->pod) ? served + 1 : 0;
        } while (served < END_SERVED && now_usec(CLOCK_MONOTONIC) < end);
        return false;
}

int sandbox_not_running(CriJob *j, Sandbox *s, int r)
{
        if (r == -ESRCH || r == -EALREADY || r == -ESHUTDOWN || (r < 0 && sandbox_has_ended(s, r)))
                return cri_status(j, GRPC_FAILED_PRECONDITION, r);
        return r;
}

int cri_not_found(CriJob *j, int r)
{
        return r == -ENOENT ? cri_status(j, GRPC_NOT_FOUND, r) : r;
}

int cri_found(CriJob *j, int r, Error *e)
{
        if (r != -ENOENT)
                return r < 0 ? r : 1;
        error_done(e);
        return cri_status(j, GRPC_OK, 0);
}

const char *cri_map_get(size_t n, const void *list, const char *key)
{
        Entry *const *entries = list;

        for (size_t i = 0; i < n; i++)
                if (streq(entries[i]->key, key))
                        return entries[i]->value;
        return NULL;
}

bool cri_map_matches(size_t n, const void *list, size_t n_selector, const void *selector)
{
        Entry *const *wanted = selector;

        for (size_t i = 0; i < n_selector; i++)
                if (!streq_ptr(cri_map_get(n, list, wanted[i]->key), wanted[i]->value))
                        return false;
        return true;
}

/* --- Sandboxes ----------------------------------------------------------------------------------------- */

static bool is_listed(Pod *p)
{
        if (!streq_ptr(p->config.owner, CRI_OWNER) || !p->manifest)
                return false;
        if (p->state == POD_PREPARED)
                return !pod_is_of_former_boot(p) && pod_lock(p, false, NULL) >= 0;
        return p->state == POD_RUNNING || p->state == POD_EXITED;
}

int sandbox_open(CriJob *j, Pod *p, Sandbox *ret, Error *e)
{
        Runtime__V1__RunPodSandboxRequest *request;
        ProtobufCMessage *message;
        OwnerData d = {};

        int r = pod_owner_data_read(p, NULL, &d, e);
        if (r < 0)
                return r;
        r = cri_unpack(&j->memory, &runtime__v1__run_pod_sandbox_request__descriptor, d.data, d.size,
                       &message);
        free(d.data);
        request = r < 0 ? NULL : (Runtime__V1__RunPodSandboxRequest *) message;
        if (!request || !request->config || !request->config->metadata)
                return error_set(e, r < 0 ? r : -EBADMSG, "The request of sandbox %s cannot be read",
                                 p->uuid);
        *ret = (Sandbox){.config = request->config, .handler = request->runtime_handler};
        r = cri_sandbox_id(p->uuid, request->config->metadata, ret->id);
        if (r < 0)
                return error_set_errno(e, r, "Cannot compute the ID of sandbox %s", p->uuid);
        ret->pod = p;
        return 0;
}

int sandbox_list(CriJob *j, Sandbox **ret, size_t *ret_n, Error *e)
{
        Pod **pods = NULL;
        size_t n = 0, k = 0;

        int r = pod_list_all(j->store, &pods, &n, e);
        if (r < 0)
                return r;
        Sandbox *l = calloc(MAX(n, (size_t) 1), sizeof(Sandbox));
        for (size_t i = 0; l && i < n; i++)
                if (is_listed(pods[i]) && sandbox_open(j, pods[i], &l[k], NULL) >= 0) {
                        pods[i] = NULL;
                        k++;
                }
        pod_list_free(pods, n);
        if (!l)
                return error_oom(e);
        *ret = l;
        *ret_n = k;
        return 0;
}

static int no_sandbox(const char *id, Error *e)
{
        return error_set(e, -ENOENT, "There is no sandbox '%.64s'", id);
}

static int find_exactly(CriJob *j, const char *id, Sandbox *ret, Error *e)
{
        _cleanup_(pod_freep) Pod *p = NULL;
        char uuid[UUID_TEXT_SIZE];

        cri_uuid_from_digits(id + CRI_SANDBOX_UUID, uuid);
        int r = pod_open(j->store, uuid, &p, e);
        if (r == -ENOENT || (r >= 0 && !is_listed(p)))
                return no_sandbox(id, e);
        if (r < 0)
                return r;
        r = sandbox_open(j, p, ret, e);
        if (r < 0)
                return r;
        (void) TAKE_PTR(p);
        if (streq(ret->id, id))
                return 0;
        sandbox_done(ret);
        return no_sandbox(id, e);
}

static int find_by_prefix(CriJob *j, const char *prefix, Sandbox *ret, Error *e)
{
        Sandbox *l = NULL, *found = NULL;
        size_t n = 0, matches = 0;

        int r = sandbox_list(j, &l, &n, e);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++)
                if (startswith(l[i].id, prefix)) {
                        found = &l[i];
                        matches++;
                }
        if (matches == 1) {
                *ret = *found;
                found->pod = NULL;
        } else
                r = matches > 1 ? error_set(e, -EINVAL, "Several sandboxes have IDs that begin with '%s'",
                                            prefix)
                                : no_sandbox(prefix, e);
        sandbox_list_free(l, n);
        return r;
}

int sandbox_find(CriJob *j, const char *id, Sandbox *ret, Error *e)
{
        int r = !cri_id_is_valid(id)  ? no_sandbox(id, e)
                : !cri_id_is_full(id) ? find_by_prefix(j, id, ret, e)
                                      : find_exactly(j, id, ret, e);

        return cri_not_found(j, r);
}

/* --- Containers ---------------------------------------------------------------------------------------- */

static uint64_t created_usec(const Pod *p, const PodApp *app)
{
        _cleanup_free_ char *path = NULL;
        struct stat st;

        if (pod_app_path(p, app, "owner-data", &path) < 0 ||
            fstatat(p->dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return 0;
        return (uint64_t) st.st_mtim.tv_sec * 1000000U + (uint64_t) st.st_mtim.tv_nsec / 1000U;
}

int container_open(CriJob *j, Sandbox *s, PodApp *app, Container *ret, Error *e)
{
        ProtobufCMessage *message = NULL;
        OwnerData d = {};

        int r = pod_owner_data_read(s->pod, app, &d, e);
        if (r < 0)
                return r;
        r = cri_unpack(&j->memory, &runtime__v1__container_config__descriptor, d.data, d.size, &message);
        free(d.data);
        ContainerConfig *c = r < 0 ? NULL : (ContainerConfig *) message;
        if (!c || !c->metadata)
                return error_set(e, r < 0 ? r : -EBADMSG, "The request of container %s cannot be read",
                                 app->name);
        *ret = (Container){.sandbox = s, .app = app, .config = c, .created_usec = created_usec(s->pod, app)};
        r = cri_container_id(s->pod->uuid, c->metadata, ret->id);
        return r < 0 ? error_set_errno(e, r, "Cannot compute the ID of container %s", app->name) : 0;
}

static int no_container(const char *id, Error *e)
{
        return error_set(e, -ENOENT, "There is no container '%.64s'", id);
}

/* The name of its app is the first half of the ID of a container. */
static bool may_match(const PodApp *app, const char *prefix)
{
        return strncmp(app->name, prefix, MIN(strlen(app->name), strlen(prefix))) == 0;
}

/* In the pod of S. */
static int find_in(CriJob *j, Sandbox *s, const char *prefix, Container *ret)
{
        int found = 0;

        for (size_t i = 0; i < s->pod->manifest->n_apps; i++) {
                PodApp *app = s->pod->manifest->apps[i];
                Container c;
                if (!may_match(app, prefix) || container_open(j, s, app, &c, NULL) < 0 ||
                    !startswith(c.id, prefix))
                        continue;
                *ret = c;
                found++;
        }
        return found;
}

static int find_container_by_prefix(CriJob *j, const char *prefix, Sandbox *sandbox, Container *ret,
                                    Error *e)
{
        size_t n = 0, k = 0;
        Sandbox *l = NULL;
        int found = 0;

        int r = sandbox_list(j, &l, &n, e);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++) {
                int m = find_in(j, &l[i], prefix, ret);
                if (m > 0)
                        k = i;
                found += m;
        }
        if (found == 1) {
                *sandbox = l[k];
                l[k].pod = NULL;
                ret->sandbox = sandbox;
        } else
                r = found > 1 ? error_set(e, -EINVAL, "Several containers have IDs that begin with '%s'",
                                          prefix)
                              : no_container(prefix, e);
        sandbox_list_free(l, n);
        return r;
}

static int find_container(CriJob *j, const char *id, Sandbox *sandbox, Container *ret, Error *e)
{
        _cleanup_(pod_freep) Pod *p = NULL;
        char uuid[UUID_TEXT_SIZE];

        if (!cri_id_is_valid(id))
                return no_container(id, e);
        if (!cri_id_is_full(id))
                return find_container_by_prefix(j, id, sandbox, ret, e);
        cri_uuid_from_digits(id + CRI_CONTAINER_UUID, uuid);
        int r = pod_open(j->store, uuid, &p, e);
        if (r == -ENOENT || (r >= 0 && !is_listed(p)))
                return no_container(id, e);
        if (r >= 0)
                r = sandbox_open(j, p, sandbox, e);
        if (r < 0)
                return r;
        (void) TAKE_PTR(p);
        if (find_in(j, sandbox, id, ret) == 1)
                return 0;
        sandbox_done(sandbox);
        return no_container(id, e);
}

int container_find(CriJob *j, const char *id, Sandbox *sandbox, Container *ret, Error *e)
{
        return cri_not_found(j, find_container(j, id, sandbox, ret, e));
}
