/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Attributes of an app's cgroup that are changed while the app runs.
 *
 * The pod's systemd only logs what the kernel refuses, so they are written here before it gets them: all, or none. It enables
 * controllers only where one of its units needs them, which is done here as well; those that turn out not to be needed stay until it
 * arranges the cgroups anew. An app that does not run has no cgroup, and nothing is written. Limits of huge pages, and
 * memory.oom.group of slices, are unknown to systemd, and are written again whenever an app starts. */

#include "stage0/supervisor/apps/app-limits.h"

#define VALUE_SIZE_MAX 65536U

/* In the cgroups above that of the app, from the top down: SLICES is "payload/app.slice/app-web.slice", its place below that of the pod. */
static int enable_controller(int pod_fd, const char *slices, const char *controller)
{
        _cleanup_free_ char *path = strdup(slices), *text = NULL;
        int r = path ? xasprintf(&text, "+%s", controller) : -ENOMEM;

        if (r >= 0)
                r = write_attribute_at(pod_fd, "cgroup.subtree_control", text);
        for (char *end = path; r >= 0 && (end = strchr(end, '/')); end++) {
                *end = 0;
                _cleanup_close_ int fd = open_beneath(pod_fd, path, O_PATH | O_DIRECTORY);
                r = fd < 0 ? fd : write_attribute_at(fd, "cgroup.subtree_control", text);
                *end = '/';
        }
        return r;
}

/* The cgroup of the pod, and that of the app, which is at *RET_SLICES below. */
static int open_app(Pod *p, const char *app, int *ret_pod, char **ret_slices, int *ret_app)
{
        _cleanup_free_ char *slice = NULL, *own = NULL, *slices = NULL;

        int r = nested_slices(app, &slice);
        if (r >= 0)
                r = pod_cgroup_unified(p, &own);
        if (r >= 0)
                r = xasprintf(&slices, "payload/app.slice/%s", slice);
        if (r < 0)
                return r;
        _cleanup_close_ int pod = open(own, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (pod < 0)
                return -errno;
        int fd = open_beneath(pod, slices, O_PATH | O_DIRECTORY);
        if (fd < 0)
                return fd;
        *ret_pod = TAKE_FD(pod);
        *ret_slices = TAKE_PTR(slices);
        *ret_app = fd;
        return 0;
}

/* The old value goes to OLD. Without text after it, a write would not reach the kernel. */
static int change(int pod_fd, const char *slices, int app_fd, const Pair *a, PairList *old)
{
        _cleanup_free_ char *before = NULL, *controller = strndup(a->name, strcspn(a->name, "."));

        if (!controller)
                return -ENOMEM;
        int r = faccessat(app_fd, a->name, F_OK, 0) < 0 ? enable_controller(pod_fd, slices, controller) : 0;
        if (r >= 0)
                r = read_file_at(app_fd, a->name, VALUE_SIZE_MAX, &before, NULL);
        if (r >= 0)
                r = write_attribute_at(app_fd, a->name, a->value);
        return r < 0 ? r : pair_list_set(old, a->name, isempty(before) ? "\n" : before);
}

static void put_back(int app_fd, const PairList *old)
{
        for (size_t i = old->n; i > 0; i--)
                (void) write_attribute_at(app_fd, old->items[i - 1].name, old->items[i - 1].value);
}

int attributes_write(Pod *p, const char *app, const PairList *l, PairList *ret_old, Error *e)
{
        _cleanup_close_ int pod_fd = -EBADF, app_fd = -EBADF;
        _cleanup_(pair_list_done) PairList old = {};
        _cleanup_free_ char *slices = NULL;

        int r = l->n > 0 ? open_app(p, app, &pod_fd, &slices, &app_fd) : 0;
        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return error_set_errno(e, r, "Cannot find the cgroup of app %s", app);
        for (size_t i = 0; i < l->n; i++) {
                r = change(pod_fd, slices, app_fd, &l->items[i], &old);
                if (r >= 0)
                        continue;
                put_back(app_fd, &old);
                r = error_set_errno(e, r,
                                    "Attribute %s of app %s cannot be set to '%s', and none was changed",
                                    l->items[i].name, app, l->items[i].value);
                return r == -ERANGE ? -EINVAL : r; /* a processor that does not exist, for example */
        }
        *ret_old = old;
        old = (PairList){};
        return 0;
}

void attributes_restore(Pod *p, const char *app, const PairList *old)
{
        _cleanup_close_ int pod_fd = -EBADF, app_fd = -EBADF;
        _cleanup_free_ char *slices = NULL;

        if (old->n > 0 && open_app(p, app, &pod_fd, &slices, &app_fd) >= 0)
                put_back(app_fd, old);
}

static bool is_unknown_to_systemd(const char *name, const HostFeatures *h)
{
        return (startswith(name, "hugetlb.") && h->hugetlb) ||
               (streq(name, "memory.oom.group") && h->memory);
}

int attributes_apply(const Limits *l, Pod *p, const PodApp *app, Error *e)
{
        const Isolator *isolator = isolator_list_find(&app->app->isolators, ISOLATOR_CGROUP);
        _cleanup_(pair_list_done) PairList wanted = {}, old = {};
        int r = 0;

        if (!isolator)
                return 0;
        for (size_t i = 0; r >= 0 && i < isolator->cgroup.n; i++)
                if (is_unknown_to_systemd(isolator->cgroup.items[i].name, &l->features))
                        r = pair_list_set(&wanted, isolator->cgroup.items[i].name,
                                          isolator->cgroup.items[i].value);
        return r < 0 ? error_oom(e) : attributes_write(p, app->name, &wanted, &old, e);
}
