/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Removes pods from their networks: undoes the operations in the record of a pod, in the reverse order. All
 * of it is idempotent, so that it can be repeated after an interruption.
 */

#include "stage0/network/network-internal.h"

/* As with plugins: the first failure is reported; the other networks are processed all the same. */
static int detach_all(const NetworkRecord *record, const CniTarget *t, Error *e)
{
        int result = 0;

        for (size_t i = record->n_attachments; i-- > 0;) {
                _cleanup_error_ Error own = ERROR_NULL;

                int r = cni_detach(&record->attachments[i], t, result < 0 ? NULL : &own);
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

static int tell_leftover(const Pod *p, int r, Error *e)
{
        _cleanup_free_ char *path = NULL;

        r = error_prefix(e, r, "Cannot remove pod %s from its networks", pod_display_name(p));
        if ((e && e->hint) || pod_path(p, &path) < 0)
                return r;
        return error_hint(e, r,
                          "'acnspawn rm %s' tries again; if nothing is left to be undone, remove the "
                          "file %s/network.",
                          pod_display_name(p), path);
}

/* What plugins do not know of. Also of a pod whose record was removed by hand, see tell_leftover(). */
static int remove_rest(const Pod *p, const char *netns, Error *e)
{
        int r = network_namespace_remove(netns, e);

        return r < 0 ? r : network_forwarding_release(p, e);
}

/* FOR_OTHER: called before another pod starts, which waits for a hanging plugin once, not every time, and
 * until it is stopped (STOP). */
static int take_out(Pod *p, bool for_other, const NetworkStop *stop, Error *e)
{
        _cleanup_(network_record_done) NetworkRecord record = {};
        _cleanup_free_ char *netns = NULL;

        int r = network_record_read(p, &record, e);
        if (r == -ENOENT && p->config.net != NET_NETWORKS)
                return 0;
        if (network_namespace_path(p, &netns) < 0)
                return error_oom(e);
        if (r == -ENOENT)
                return remove_rest(p, netns, e);
        if (r < 0)
                return tell_leftover(p, r, e);
        if (for_other && record.stuck)
                return -EBUSY;
        bool bound = network_namespace_is_bound(netns);
        CniTarget t = {.container = p->uuid,
                       .netns = bound ? netns : "",
                       .path = record.plugin_path,
                       .interruptible = for_other,
                       .stop = stop};
        r = detach_all(&record, &t, e);
        if (r >= 0)
                r = settle_leases(&record, e);
        if (r < 0 && r != -EINTR && for_other) {
                record.stuck = true;
                (void) network_record_write(p, &record, NULL);
        }
        if (r < 0)
                return tell_leftover(p, r, e);
        r = remove_rest(p, netns, e);
        return r < 0 ? r : network_record_remove(p, e);
}

int network_down(Pod *p, Error *e)
{
        return take_out(p, false, NULL, e);
}

void network_undo_dead_pods(Store *s, const NetworkStop *stop)
{
        Pod **pods = NULL;
        size_t n = 0;

        if (pod_list(s, &pods, &n, NULL) < 0)
                return;
        for (size_t i = 0; i < n; i++)
                if (pods[i]->state == POD_EXITED)
                        (void) take_out(pods[i], true, stop, NULL);
        pod_list_free(pods, n);
}
