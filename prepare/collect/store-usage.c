/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the store uses of the disk, and how much of that pruning would free.
 *
 * Each object is measured once. Which ones can be removed is not decided here: a dry run of the collections names
 * them, so that the answer is what pruning would do.
 */

#include <sys/stat.h>

#include "prepare/collect/collect-internal.h"

#define LOGS_PARENT "root/var/log"

static const char *const kinds[_STORE_KIND_MAX] = {
                [STORE_IMAGES] = "images",       [STORE_LAYERS] = "layers", [STORE_RENDERED] = "rendered",
                [STORE_PODS] = "pods",           [STORE_LOGS] = "logs",     [STORE_VOLUMES] = "volumes",
                [STORE_DOWNLOADS] = "downloads",
};

const char *store_kind_to_string(StoreKind k)
{
        return k >= 0 && k < _STORE_KIND_MAX ? kinds[k] : NULL;
}

void store_usage_done(StoreUsage *u)
{
        for (size_t i = 0; i < u->n; i++) {
                free(u->items[i].id);
                free(u->items[i].name);
        }
        free(u->items);
        *u = (StoreUsage){};
}

static int add_object(StoreUsage *u, StoreKind kind, const char *id, const char *name, uint64_t size,
                      Error *e)
{
        if (GREEDY_REALLOC(u->items, u->allocated, u->n + 1) < 0)
                return error_oom(e);
        StoreObject *o = &u->items[u->n];
        *o = (StoreObject){.kind = kind, .id = strdup(id), .name = name ? strdup(name) : NULL, .size = size};
        u->n++;
        return o->id && (!name || o->name) ? 0 : error_oom(e);
}

/* --- What there is ------------------------------------------------------------------------------------- */

static int list_directory(Store *s, const char *name, int *ret_fd, char ***ret, Error *e)
{
        _cleanup_close_ int fd = open_beneath(s->fd, name, O_RDONLY | O_DIRECTORY);

        if (fd == -ENOENT)
                return 0;
        int r = fd < 0 ? fd : list_names(fd, ret);
        if (r < 0)
                return error_set_errno(e, r, "Cannot list %s/%s", s->path, name);
        *ret_fd = TAKE_FD(fd);
        return 0;
}

/* All entries of a directory of the store, each an object. */
static int add_directory(StoreUsage *u, Store *s, StoreKind kind, const char *directory, Error *e)
{
        _cleanup_strv_free_ char **names = NULL;
        _cleanup_close_ int fd = -EBADF;

        int r = list_directory(s, directory, &fd, &names, e);
        STRV_FOREACH (name, names) {
                if (r < 0)
                        return r;
                r = add_object(u, kind, *name, NULL, disk_usage_at(fd, *name, s->operation), e);
        }
        return r;
}

static void name_image(StoreUsage *u, const Image *i)
{
        for (size_t k = 0; k < u->n; k++)
                if (u->items[k].kind == STORE_IMAGES && streq(u->items[k].id, i->id) && !u->items[k].name)
                        (void) image_name_format(i->manifest->name, &i->manifest->labels, &u->items[k].name);
}

/* Those that cannot be read have no name. */
static int add_images(StoreUsage *u, Store *s, Error *e)
{
        size_t n = 0, n_damaged;
        Image **list = NULL;

        int r = add_directory(u, s, STORE_IMAGES, "images", e);
        if (r >= 0)
                r = image_list_readable(s, &list, &n, &n_damaged, e);
        for (size_t i = 0; r >= 0 && i < n; i++)
                name_image(u, list[i]);
        image_list_free(list, n);
        return r;
}

/* Apps have no access to the directory of the journal, but the systemd of their pod has. */
static uint64_t measure_logs(const Pod *p)
{
        _cleanup_close_ int fd = open_beneath(p->dir_fd, LOGS_PARENT, O_RDONLY | O_DIRECTORY);

        return fd < 0 ? 0 : disk_usage_at(fd, "journal", p->store->operation);
}

/* What cannot be examined does not keep the rest from being shown. */
static void show_failure(Store *s, int r, Error *e)
{
        operation_message(s->operation, LOG_LEVEL_WARNING, "%s.",
                          e && e->message ? e->message : strerror(-r));
        error_done(e);
}

static int add_pods(StoreUsage *u, Store *s, Error *e)
{
        _cleanup_strv_free_ char **uuids = NULL;

        int r = pod_list_uuids(s, &uuids, e);
        STRV_FOREACH (uuid, uuids) {
                _cleanup_(pod_freep) Pod *p = NULL;

                if (r < 0)
                        return r;
                r = pod_open(s, *uuid, &p, e);
                if (r == -ENOENT) { /* removed meanwhile */
                        error_done(e);
                        r = 0;
                        continue;
                }
                if (r < 0) {
                        show_failure(s, r, e);
                        r = 0;
                        continue;
                }
                (void) pod_load(p, NULL);
                uint64_t all = disk_usage_at(p->dir_fd, ".", s->operation), logs = measure_logs(p);
                r = add_object(u, STORE_PODS, p->uuid, p->config.name, all - MIN(all, logs), e);
                if (r >= 0 && logs > 0)
                        r = add_object(u, STORE_LOGS, p->uuid, p->config.name, logs, e);
        }
        return r;
}

/* 0 also for a damaged volume. */
static uint64_t quota_of(const Store *s, const char *name)
{
        _cleanup_named_volume_ NamedVolume v = {};

        return named_volume_read(s, name, &v, NULL) < 0 ? 0 : v.quota;
}

static int add_volumes(StoreUsage *u, Store *s, Error *e)
{
        _cleanup_strv_free_ char **names = NULL;

        int r = named_volume_list(s, &names, e);
        STRV_FOREACH (name, names) {
                if (r < 0)
                        return r;
                r = add_object(u, STORE_VOLUMES, *name, NULL, named_volume_size(s, *name), e);
                if (r >= 0)
                        u->items[u->n - 1].quota = quota_of(s, *name);
        }
        return r;
}

/* --- What can be removed ------------------------------------------------------------------------------- */

static void mark(StoreUsage *u, StoreKind kind, const char *id)
{
        for (size_t i = 0; i < u->n; i++)
                if (u->items[i].kind == kind && streq(u->items[i].id, id))
                        u->items[i].reclaimable = true;
}

static void mark_item(const GcItem *item, void *userdata)
{
        static const struct {
                const char *kind;
                StoreKind kinds[2];
        } map[] = {
                        {"image", {STORE_IMAGES, STORE_DOWNLOADS}}, /* the latter if it is unfinished */
                        {"layer", {STORE_LAYERS, STORE_LAYERS}},
                        {"rendered", {STORE_RENDERED, STORE_RENDERED}},
                        {"pod", {STORE_PODS, STORE_LOGS}},
                        {"volume", {STORE_VOLUMES, STORE_VOLUMES}},
                        {"download", {STORE_DOWNLOADS, STORE_DOWNLOADS}},
        };

        for (size_t i = 0; i < ELEMENTSOF(map); i++)
                if (streq(map[i].kind, item->kind)) {
                        mark(userdata, map[i].kinds[0], item->id);
                        mark(userdata, map[i].kinds[1], item->id);
                }
}

/* Volumes of a pod whose manifest cannot be read are not known: none is marked then. */
static int mark_reclaimable(StoreUsage *u, Store *s, const PruneKept *kept, Error *e)
{
        const PruneOptions o = {.parts = PRUNE_IMAGES | PRUNE_PODS | PRUNE_DOWNLOADS,
                                .kept = kept,
                                .dry_run = true,
                                .unmeasured = true,
                                .removed = mark_item,
                                .userdata = u};
        PruneOptions volumes = o;

        volumes.parts = PRUNE_VOLUMES;
        int r = store_prune(s, &o, e);
        if (r < 0 && !operation_ended(r)) {
                show_failure(s, r, e);
                r = 0;
        }
        if (r >= 0)
                (void) store_prune(s, &volumes, NULL);
        return r;
}

int store_usage_read(Store *s, const PruneKept *kept, StoreUsage *ret, Error *e)
{
        static const struct {
                StoreKind kind;
                const char *directory;
        } plain[] = {
                        {STORE_LAYERS, "layers"},
                        {STORE_RENDERED, "rendered"},
                        {STORE_DOWNLOADS, "downloads"},
                        {STORE_DOWNLOADS, "tmp"},
        };
        _cleanup_store_usage_ StoreUsage u = {};

        int r = add_images(&u, s, e);
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(plain); i++)
                r = add_directory(&u, s, plain[i].kind, plain[i].directory, e);
        if (r >= 0)
                r = add_pods(&u, s, e);
        if (r >= 0)
                r = add_volumes(&u, s, e);
        if (r >= 0)
                r = mark_reclaimable(&u, s, kept, e);
        if (r >= 0)
                r = operation_check(s->operation, e);
        if (r < 0)
                return r;
        *ret = u;
        u = (StoreUsage){};
        return 0;
}
