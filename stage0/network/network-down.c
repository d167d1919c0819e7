/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Removes pods from their networks: undoes the operations in the record of a pod, in the reverse order. All
 * of it is idempotent, so that it can be repeated after an interruption. Leftovers of one pod never keep another from starting: its
 * start tries to undo them, for some seconds.
 */

#include <poll.h>
#include <sys/file.h>

#include "stage0/network/network-internal.h"

#define LOCK_MSEC 20         /* interval of looks at the lock of an attempt */
#define PREDECESSOR_FACTOR 4 /* of the time for other dead pods: the pod may need its addresses */
#define STUCK_USEC (600 * UINT64_C(1000000)) /* until starts of others try it again */

/* As with plugins: the first failure is reported; the other networks are processed all the same. What a network had in an EARLIER
 * boot is gone, unless its plugins keep it on disk. */
static int detach_all(const NetworkRecord *record, bool earlier, const CniTarget *t, Error *e)
{
        int result = 0;

        for (size_t i = record->n_attachments; i-- > 0;) {
                const Attachment *a = &record->attachments[i];
                _cleanup_error_ Error own = ERROR_NULL;

                if (earlier && cni_state_is_volatile(a->plugins))
                        continue;
                int r = cni_detach(a, t, result < 0 ? NULL : &own);
                if (r < 0 && result >= 0) {
                        result = r;
                        (void) error_move(e, &own);
                }
        }
        return result;
}

/* Before the record, which alone names them, is removed. */
static int settle_leases(const NetworkRecord *record, Error *e)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < record->n_attachments; i++)
                r = cni_leases_settle(&record->attachments[i], e);
        return r;
}

/* The hint has the UUID, as the pod may lose its name. */
static int tell_leftover(const Pod *p, int r, Error *e)
{
        _cleanup_free_ char *path = NULL;

        r = error_prefix(e, r, "Cannot remove pod %s from its networks", pod_display_name(p));
        if ((e && e->hint) || pod_path(p, &path) < 0)
                return r;
        return error_hint(e, r,
                          "'acnspawn rm %s' tries again; if nothing is left to be undone, remove the "
                          "file %s/network.",
                          p->uuid, path);
}

/* What plugins do not know of. Also of a pod whose record was removed by hand, see tell_leftover(). */
static int remove_rest(const Pod *p, const char *netns, Error *e)
{
        int r = network_namespace_remove(netns, e);

        return r < 0 ? r : network_forwarding_release(p, e);
}

/* Before another pod starts, which waits for a hanging plugin for a while, and until it is stopped. */
typedef struct OtherStart {
        const char *predecessor; /* UUID, or NULL: always tried, as its successor may need the same addresses */
        const NetworkStop *stop;
        uint64_t deadline;
} OtherStart;

/* The record may have been removed meanwhile, with the pod. */
static void set_stuck(Pod *p, NetworkRecord *record, bool stuck)
{
        if (!network_is_left(p))
                return;
        record->stuck = stuck;
        (void) network_record_write(p, record, NULL);
}

static int undo(Pod *p, const NetworkRecord *record, const char *netns, bool earlier, const OtherStart *o,
                Error *e)
{
        CniTarget t = {.container = p->uuid,
                       .netns = network_namespace_is_bound(netns) ? netns : "",
                       .path = record->plugin_path,
                       .interruptible = o,
                       .stop = o ? o->stop : NULL,
                       .deadline = o ? o->deadline : 0};
        int r = detach_all(record, earlier, &t, e);

        return r < 0 ? r : settle_leases(record, e);
}

/* O: the pod that starts, or NULL. A start marks P as stuck before its attempt, so that other starts pass over P if this one is
 * killed. */
static int take_out(Pod *p, const OtherStart *o, Error *e)
{
        _cleanup_(network_record_done) NetworkRecord record = {};
        _cleanup_free_ char *netns = NULL;
        bool earlier = pod_ran_in_earlier_boot(p);

        if (pod_is_copy(p))
                return network_record_remove(p, e);
        int r = network_record_read(p, &record, e);
        if (r == -EBADMSG && earlier) { /* what a loss of power has left of it */
                error_done(e);
                r = -ENOENT;
        }
        if (r == -ENOENT && p->config.net != NET_NETWORKS)
                return 0;
        if (network_namespace_path(p, &netns) < 0)
                return error_oom(e);
        if (r == -ENOENT) {
                r = remove_rest(p, netns, e);
                return r < 0 ? r : network_record_remove(p, e);
        }
        if (r < 0)
                return tell_leftover(p, r, e);
        if (o && record.stuck && !streq_ptr(p->uuid, o->predecessor) && network_record_age(p) < STUCK_USEC)
                return -EBUSY;
        if (o)
                set_stuck(p, &record, true);
        r = undo(p, &record, netns, earlier, o, e);
        if (r == -EINTR && o)
                set_stuck(p, &record, false);
        if (r < 0)
                return tell_leftover(p, r, e);
        r = remove_rest(p, netns, e);
        return r < 0 ? r : network_record_remove(p, e);
}

/* The lock of an attempt, which is on a directory of the pod that nothing else locks. */
static int open_attempt(const Pod *p)
{
        int fd = openat(p->dir_fd, "root", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        return fd < 0 ? -errno : fd;
}

/* By a start. -EBUSY: the wait for another one has ended. */
static int lock_attempt(const Pod *p, const OtherStart *o)
{
        _cleanup_close_ int fd = open_attempt(p);

        if (fd < 0)
                return fd;
        while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
                struct pollfd stop = {.fd = o->stop ? o->stop->fd : -EBADF, .events = POLLIN};

                if (errno != EWOULDBLOCK && errno != EINTR)
                        return -errno;
                if (deadline_left(o->deadline) == 0 || network_stop_is_pending(o->stop))
                        return -EBUSY;
                (void) poll(&stop, 1, LOCK_MSEC);
        }
        return TAKE_FD(fd);
}

/* What another start tries now is waited for. */
static void take_out_before_start(Pod *p, const OtherStart *o)
{
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_close_ int lock = -EBADF;
        int r = -EBUSY;

        if (p->state != POD_EXITED || deadline_left(o->deadline) == 0)
                return;
        lock = lock_attempt(p, o);
        if (lock != -EBUSY)
                r = take_out(p, o, &e);
        if (r < 0 && streq_ptr(p->uuid, o->predecessor) && !network_stop_is_pending(o->stop))
                operation_message(pod_operation(p), LOG_LEVEL_WARNING, "%s%s%s",
                                  e.message ?: "The networks of the former pod are still being undone",
                                  e.hint ? ". " : "", e.hint ?: "");
}

/* Starts wait for the attempt for a while, and it waits for none: it is to report what the plugins say. */
int network_down(Pod *p, Error *e)
{
        _cleanup_close_ int lock = network_is_left(p) ? open_attempt(p) : -EBADF;

        if (lock >= 0)
                (void) flock(lock, LOCK_EX | LOCK_NB);
        return take_out(p, NULL, e);
}

/* The predecessor, and pods that had the name until they were about to be removed, may have what P needs. */
typedef enum Nearness {
        NEAR_PREDECESSOR,
        NEAR_NAMESAKE,
        NEAR_OTHER,
        _NEARNESS_MAX,
} Nearness;

static Nearness nearness(const Pod *p, const Pod *old)
{
        if (streq_ptr(old->uuid, p->config.predecessor))
                return NEAR_PREDECESSOR;
        return p->config.name && streq_ptr(old->former_name, p->config.name) ? NEAR_NAMESAKE : NEAR_OTHER;
}

void network_undo_dead_pods(const Pod *p, const NetworkStop *stop)
{
        OtherStart o = {.predecessor = p->config.predecessor,
                        .stop = stop,
                        .deadline = deadline_after(PREDECESSOR_FACTOR * cni_others_usec)};
        Pod **pods = NULL;
        size_t n = 0;

        if (pod_list(p->store, &pods, &n, NULL) < 0)
                return;
        for (Nearness near = 0; near < _NEARNESS_MAX; near++) {
                if (near == NEAR_OTHER)
                        o.deadline = deadline_after(cni_others_usec);
                for (size_t i = 0; i < n; i++)
                        if (nearness(p, pods[i]) == near)
                                take_out_before_start(pods[i], &o);
        }
        pod_list_free(pods, n);
}
