/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pods that are run again: a pod that has ended gets a successor, which takes over its name.
 *
 * The pod that has ended is locked meanwhile, so that there is one successor at a time and it is not
 * removed. The file "successor" in its directory is written before the successor is published, and is valid
 * only if that pod exists; the name passes to the successor with the rename(2) that publishes it
 * (pod-links.c). So a process that is killed leaves either the old pod with its name, and a pod that was
 * never fully prepared, which the collector removes; or the successor with the name.
 */

#include "prepare/pods/pods-internal.h"

#define SUCCESSOR_FILE "successor"

int pod_successor(const Pod *p, char **ret)
{
        _cleanup_free_ char *text = NULL;

        *ret = NULL;
        int r = read_file_at(p->dir_fd, SUCCESSOR_FILE, 64, &text, NULL);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        text[strcspn(text, "\n")] = 0;
        if (uuid_check(text, NULL) < 0)
                return -EINVAL;
        r = pod_exists(p->store, text, POD_PREPARED, POD_EXITED);
        if (r > 0)
                *ret = TAKE_PTR(text);
        return r < 0 ? r : 0;
}

static int refuse_faster(const Pod *reference, const Pod *successor, Error *e)
{
        int r = error_set(e, -EBUSY, "Pod %s was run again already, as pod %s, which is %s",
                          pod_display_name(reference), successor->uuid,
                          pod_state_to_string(successor->state));

        return error_hint(e, r,
                          successor->state == POD_PREPARED ? "'acnspawn run %s' runs that one."
                                                           : "'acnspawn status %s' shows it.",
                          successor->uuid);
}

int pod_successor_check(Pod *old, const Pod *reference, Error *e)
{
        _cleanup_free_ char *uuid = NULL;
        _cleanup_(pod_freep) Pod *successor = NULL;

        int r = pod_successor(old, &uuid);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read the file '" SUCCESSOR_FILE "' of pod %s",
                                       pod_display_name(reference));
        r = uuid ? pod_look(old->store, uuid, &successor, NULL) : -ENOENT;
        if (r < 0 && r != -ENOENT)
                return error_set_errno(e, r, "Cannot check pod %s", uuid);
        bool lost_name = reference->config.name && !old->config.name;
        if (successor && (lost_name || successor->state == POD_PREPARED || successor->state == POD_RUNNING))
                return refuse_faster(reference, successor, e);
        if (!lost_name)
                return 0;
        r = error_set(e, -EBUSY, "The name '%s' belongs to another pod now", reference->config.name);
        return error_hint(e, r, "Try again.");
}

static int write_successor(Pod *old, const char *uuid, Error *e)
{
        char text[64];

        snprintf(text, sizeof(text), "%s\n", uuid);
        int r = write_file_atomic_at(old->dir_fd, SUCCESSOR_FILE, text, strlen(text), 0600, true);
        return r < 0 ? error_set_errno(e, r, "Cannot write the file '" SUCCESSOR_FILE "' of pod %s",
                                       pod_display_name(old))
                     : 0;
}

int pod_succeed(Pod *p, Pod *old, Pod *holder, Error *e)
{
        Pod *from = holder ?: old;

        if (p->state != POD_PREPARING || !old->locked || old->state != POD_EXITED || !from->locked ||
            from->state != POD_EXITED)
                return error_set(e, -EINVAL, "Pod %s cannot succeed pod %s", p->uuid, old->uuid);
        free(p->config.predecessor);
        free(TAKE_PTR(p->config.name_from));
        p->config.predecessor = strdup(old->uuid);
        if (!p->config.predecessor || (holder && !(p->config.name_from = strdup(holder->uuid))))
                return error_oom(e);
        int r = write_successor(old, p->uuid, e);
        if (r < 0 || !from->config.name)
                return r;
        r = registry_pass(p->store, REGISTRY_NAMES, from->config.name, from->uuid, p->uuid, e);
        if (r == -EEXIST)
                return error_set(e, -EBUSY, "The name '%s' belongs to another pod now", from->config.name);
        return r;
}

#define GENERATIONS_MAX 1000U

bool pod_descends_from(const Pod *p, const Pod *old)
{
        _cleanup_(pod_freep) Pod *parent = NULL;

        for (unsigned i = 0; p->config.predecessor && i < GENERATIONS_MAX; i++) {
                Pod *next;

                if (streq(p->config.predecessor, old->uuid))
                        return true;
                if (pod_open(old->store, p->config.predecessor, &next, NULL) < 0)
                        return false;
                pod_free(parent);
                p = parent = next;
        }
        return false;
}

void pod_return_name(Pod *p)
{
        _cleanup_(pod_freep) Pod *old = NULL;

        const char *from = p->config.name_from ?: p->config.predecessor;

        if (!p->config.name || !from || pod_open(p->store, from, &old, NULL) < 0 ||
            old->state != POD_EXITED || !streq_ptr(old->former_name, p->config.name))
                return;
        if (registry_pass(p->store, REGISTRY_NAMES, p->config.name, p->uuid, old->uuid, NULL) >= 0)
                registry_settle(p->store, REGISTRY_NAMES, p->config.name, old->uuid);
}
