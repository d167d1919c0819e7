/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pods of sandboxes that are dead: no client knows them, but they have names and users that a client may need for another sandbox.
 *
 * Those of an earlier boot of the host whose files a loss of power has emptied are removed when the service starts. Taking one out of its
 * networks may fail for a while, as with a plugin whose agent is a pod of this node itself: it is tried again, and others can have its name
 * and its users meanwhile. Those whose calls were killed while they were prepared are removed when they are in the way of a call.
 */

#include "cri/sandbox.h"

#define PAUSE_MSEC 500
#define PAUSE_MAX_MSEC 60000

/* A file that cannot be read now may be whole. */
static bool is_shortage(int r)
{
        return r == -ENOMEM || r == -EMFILE || r == -ENFILE || r == -EIO;
}

/* Of an earlier boot, and not listed. */
static bool is_of_no_use(CriJob *j, Pod *p)
{
        Sandbox s = {};

        if (!pod_is_of_former_boot(p))
                return false;
        if ((!p->config.owner || !p->manifest) && is_shortage(pod_load(p, NULL)))
                return false;
        bool ours = streq_ptr(p->config.owner, CRI_OWNER);
        if (p->config.owner && !ours)
                return false;
        if (!ours || !p->manifest || p->state != POD_EXITED)
                return true;
        int r = sandbox_open(j, p, &s, NULL); /* which has only lent it */
        return r < 0 && !is_shortage(r);
}

/* No process works on P, which is locked: its call was killed. */
static bool is_abandoned(const Pod *p)
{
        return p->state == POD_ABORTED_PREPARE || p->state == POD_GARBAGE ||
               (p->state == POD_PREPARED && streq_ptr(p->config.owner, CRI_OWNER));
}

/* What has happened to a pod. */
typedef struct Cleared {
        size_t n;    /* the number of pods that nothing is in the way of any more */
        size_t left; /* of those that are to be removed and could not be */
} Cleared;

/* Pods that are locked are about to be run, or removed, by another process. Those of an earlier boot give up their names and users first,
 * as their networks may keep the removal waiting: a call that they are in the way of leaves it to the process of the start. */
static void clear_one(CriJob *j, Pod *p, bool abandoned, Cleared *c)
{
        bool former = is_of_no_use(j, p);

        if (p->state == POD_RUNNING || (!former && !(abandoned && is_abandoned(p))))
                return;
        if (pod_lock(p, false, NULL) < 0) {
                c->n += former;
                c->left += former && !abandoned;
                return;
        }
        if (!former && !is_abandoned(p)) /* it has run meanwhile, and has ended */
                return;
        if (former) {
                (void) pod_give_up(p);
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
                clear_one(&own, pods[i], abandoned, c);
        pod_list_free(pods, n);
        cri_memory_done(&own.memory);
        return r;
}

bool sandbox_clear_dead(CriJob *j)
{
        Cleared c = {};

        return clear(j, true, &c, NULL) >= 0 && c.n > 0;
}

/* In a worker, until there are none. */
static int remove_emptied(CriJob *j, const void *request, void *reply, Error *e)
{
        for (int pause = PAUSE_MSEC;; pause = MIN(2 * pause, PAUSE_MAX_MSEC)) {
                Cleared c = {};
                int r = clear(j, false, &c, e);
                if (r < 0 || c.left == 0)
                        return r;
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
