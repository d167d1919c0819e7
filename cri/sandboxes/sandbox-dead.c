/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pods of dead sandboxes: no client knows them, but they hold names and users that a client may need for another sandbox.
 *
 * When the service starts, a worker removes those of an earlier boot of the host whose files a loss of power has emptied: it came
 * before they were up.
 * Removing one from its networks may fail for a while, for example if the agent of the plugin is a pod of this node: the
 * worker tries again, and releases the name and the users first. Pods whose calls were killed while they prepared them are
 * removed when another call needs their names or users.
 */

#include "cri/sandbox.h"

#define PAUSE_MSEC 500
#define PAUSE_MAX_MSEC 60000

/* True if P is of an earlier boot and cannot be listed as a sandbox. -EAGAIN: a file of it cannot be read now, which may be
 * whole. */
static int is_unusable(CriJob *j, Pod *p)
{
        Sandbox s = {};

        if (!pod_is_of_former_boot(p))
                return false;
        if (p->unreadable)
                (void) pod_load(p, NULL);
        bool ours = streq_ptr(p->config.owner, CRI_OWNER);
        if (p->config.owner && !ours)
                return false;
        if (p->unreadable)
                return -EAGAIN;
        if (!ours || !p->manifest || p->state != POD_EXITED)
                return true;
        int r = sandbox_open(j, p, &s, NULL); /* S only borrows P */
        return r >= 0 ? false : r == -ENOENT || r == -EBADMSG ? true : -EAGAIN;
}

/* P is locked by this process, so no other one works on it: its call was killed. */
static bool is_abandoned(const Pod *p)
{
        return p->state == POD_ABORTED_PREPARE || p->state == POD_GARBAGE ||
               (p->state == POD_PREPARED && streq_ptr(p->config.owner, CRI_OWNER));
}

/* The results for all pods. */
typedef struct Cleared {
        size_t n;    /* pods whose name and users are free now */
        size_t left; /* pods that could not be removed, or not be read */
} Cleared;

/* Another process is about to run or to remove a pod that it has locked. A pod of an earlier boot releases its name and
 * users before it is removed, because its networks may delay the removal: a call that needs them leaves the removal to the
 * worker of the start. */
static void clear_pod(CriJob *j, Pod *p, bool abandoned, Cleared *c)
{
        int former = p->state == POD_RUNNING ? false : is_unusable(j, p);

        if (former < 0) {
                c->left += !abandoned;
                return;
        }
        if (p->state == POD_RUNNING || (!former && !(abandoned && is_abandoned(p))))
                return;
        if (pod_lock(p, false, NULL) < 0) {
                c->n += former > 0;
                c->left += former > 0 && !abandoned;
                return;
        }
        if (!former && !is_abandoned(p)) /* it ran in the meantime, and has ended */
                return;
        if (former) {
                (void) pod_drop_keys(p);
                c->n++;
        }
        if (former && abandoned)
                return;
        if (discard_pod(p, NULL) < 0)
                c->left++;
        else
                c->n++;
}

static int clear(CriJob *j, bool abandoned, Cleared *c, Error *e)
{
        CriJob own = *j;
        Pod **pods = NULL;
        size_t n = 0;
        int r = pod_list(j->store, &pods, &n, e);

        own.memory = (CriMemory){};
        for (size_t i = 0; r >= 0 && i < n; i++)
                clear_pod(&own, pods[i], abandoned, c);
        pod_list_free(pods, n);
        cri_memory_done(&own.memory);
        return r;
}

bool sandbox_clear_dead(CriJob *j)
{
        Cleared c = {};

        return clear(j, true, &c, NULL) >= 0 && c.n > 0;
}

/* Runs in a worker until none is left. A failure to list the pods is temporary, too. */
static int remove_emptied(CriJob *j, const void *request, void *reply, Error *e)
{
        for (int pause = PAUSE_MSEC;; pause = MIN(2 * pause, PAUSE_MAX_MSEC)) {
                Cleared c = {};
                int r = clear(j, false, &c, e);
                if (operation_ended(r) || (r >= 0 && c.left == 0))
                        return r;
                error_done(e);
                r = operation_poll(store_operation(j->store), -1, 0, pause, e);
                if (r < 0)
                        return r;
        }
}

static const CriCall clean_call = {"clean", &runtime__v1__version_request__descriptor,
                                   &runtime__v1__version_response__descriptor, remove_emptied, CRI_WORKER};

void cri_sandboxes_clean(CriServer *s)
{
        (void) cri_worker_start(s, NULL, &clean_call, NULL, 0);
}
