/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Roots and volumes of apps, as mounts in the namespace of the supervisor.
 *
 * A tmpfs on mounts/ of the pod directory, seen by us alone, holds them while the pod runs:
 *
 *     l<n>    an image layer, id-mapped to the pod's range of uids: nothing is copied, nothing is chowned
 *     a<n>    the overlay of one app: layers below, apps/<app>/upper on top; or of an image that is a volume, read-only
 *     dev     the device nodes of the OS specification, read-only, shared by all apps
 *
 * A process of an app gets clones of what it needs, as descriptors, through the launch protocol. So there is
 * no app's mount in the pod's own namespace or in another app's, and with our last process the kernel takes
 * all of them away.
 */

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "stage0/mounts/mounts-internal.h"

int mount_namespace_unshare(MountNamespace *ret_before, Error *e)
{
        _cleanup_(mount_namespace_done) MountNamespace before = MOUNT_NAMESPACE_NULL;
        int r = ret_before ? mount_namespace_open(&before) : 0;

        if (r < 0)
                return error_set_errno(e, r, "Cannot open the mount namespace of the host");
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL) < 0)
                return error_set_errno(e, -errno, "Cannot create a mount namespace for the pod");
        if (ret_before)
                *ret_before = TAKE_GENERIC(before, MountNamespace, MOUNT_NAMESPACE_NULL);
        return 0;
}

int pod_mounts_hold(PodMounts *m, int mount_fd, const char *name)
{
        if (mkdirat(m->holder_fd, name, 0700) < 0 && errno != EEXIST)
                return -errno;
        return mount_attach(mount_fd, m->holder_fd, name);
}

void pod_mounts_let_go(PodMounts *m, const char *name)
{
        if (fchdir(m->holder_fd) < 0)
                return;
        (void) umount2(name, MNT_DETACH | UMOUNT_NOFOLLOW);
        (void) unlinkat(m->holder_fd, name, AT_REMOVEDIR);
}

/* --- The holder ---------------------------------------------------------------------------------------- */

static int make_holder(int dir_fd)
{
        _cleanup_close_ int fd = -EBADF;
        char path[64];

        if (mkdirat(dir_fd, "mounts", 0700) < 0 && errno != EEXIST)
                return -errno;
        fd = openat(dir_fd, "mounts", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        if (mount("acnspawn", path, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700,size=1m") < 0)
                return -errno;
        _cleanup_close_ int holder =
                        openat(dir_fd, "mounts", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (holder < 0)
                return -errno;
        /* A host volume that the store lies in shows none of this. */
        int r = mount_set_attributes(holder, &(struct mount_attr){.propagation = MS_UNBINDABLE}, false);
        return r < 0 ? r : TAKE_FD(holder);
}

static int chdir_root(void)
{
        return chdir("/") < 0 ? -errno : 0;
}

static void app_mount_done(AppMount *a)
{
        free(a->name);
        free(a->root.layers);
        if (a->parked)
                free(a->parked->layers);
        free(a->parked);
}

PodMounts *pod_mounts_free(PodMounts *m)
{
        if (!m)
                return NULL;
        for (size_t i = 0; i < m->n_layers; i++)
                free(m->layers[i].path);
        for (size_t i = 0; i < m->n_apps; i++)
                app_mount_done(&m->apps[i]);
        for (size_t i = 0; i < m->n_volumes; i++)
                volume_mount_done(&m->volumes[i]);
        free(m->volumes);
        free(m->layers);
        free(m->apps);
        /* Its mounts are detached with it; clones that processes hold stay until the processes end. */
        if (m->holder_fd >= 0 && fchdir(m->dir_fd) >= 0)
                (void) umount2("mounts", MNT_DETACH);
        (void) chdir_root();
        safe_close(m->dir_fd);
        safe_close(m->holder_fd);
        safe_close(m->userns_fd);
        mount_namespace_done(&m->host);
        name_files_done(&m->names);
        free(m);
        return NULL;
}

int pod_mounts_new(Pod *p, PodMounts **ret, Error *e)
{
        _cleanup_(pod_mounts_freep) PodMounts *m = calloc(1, sizeof(PodMounts));
        _cleanup_free_ char *path = NULL;

        if (!m)
                return error_oom(e);
        *m = (PodMounts){.pod = p,
                         .dir_fd = -EBADF,
                         .holder_fd = -EBADF,
                         .userns_fd = -EBADF,
                         .host = MOUNT_NAMESPACE_NULL};
        int r = pod_path(p, &path);
        if (r >= 0) {
                m->dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                r = m->dir_fd < 0 ? -errno : 0;
        }
        if (r >= 0)
                r = m->holder_fd = make_holder(m->dir_fd);
        if (r < 0)
                return error_set_errno(e, r, "Cannot create the directory for the mounts of pod %s",
                                       pod_display_name(p));
        if (p->config.private_users)
                r = userns_open(p->config.uid_base, pod_n_uids(&p->config), &m->userns_fd, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(m);
        return 0;
}

void pod_mounts_set_host(PodMounts *m, MountNamespace *host)
{
        mount_namespace_done(&m->host);
        m->host = TAKE_GENERIC(*host, MountNamespace, MOUNT_NAMESPACE_NULL);
}

int pod_mounts_mount_devices(PodMounts *m, Error *e)
{
        int r = pod_mounts_take_credentials(m, e);

        if (r < 0)
                return r;
        r = pod_mounts_make_dev(m);
        return r < 0 ? error_set_errno(e, r, "Cannot create the device nodes of pod %s",
                                       pod_display_name(m->pod))
                     : 0;
}

/* --- Layers -------------------------------------------------------------------------------------------- */

static int mount_layer(PodMounts *m, const char *path, unsigned index, Error *e)
{
        char name[16];
        _cleanup_close_ int fd = mount_clone(AT_FDCWD, path, false);
        int r = fd;

        if (r < 0)
                return error_set_errno(e, r, "Cannot open image layer %s", path);
        r = m->userns_fd < 0 ? 0 : mount_map_owners(fd, m->userns_fd, false);
        if (r < 0) {
                _cleanup_free_ char *layer = NULL;

                if (xasprintf(&layer, "image layer %s", path) < 0)
                        return error_oom(e);
                return refuse_id_mapped(m->pod->store, r, layer, e);
        }
        snprintf(name, sizeof(name), "l%u", index);
        r = pod_mounts_hold(m, fd, name);
        return r < 0 ? error_set_errno(e, r, "Cannot mount image layer %s", path) : 0;
}

/* A place in the table of layers: a free one, or a new one. */
static int take_place(PodMounts *m, size_t *ret)
{
        size_t i = 0;

        while (i < m->n_layers && m->layers[i].path)
                i++;
        if (i == m->n_layers) {
                if (GREEDY_REALLOC(m->layers, m->layers_allocated, m->n_layers + 1) < 0)
                        return -ENOMEM;
                m->layers[m->n_layers++] = (Layer){.index = (unsigned) i};
        }
        *ret = i;
        return 0;
}

static int find_layer(PodMounts *m, const char *path, unsigned *ret_index, Error *e)
{
        size_t place;

        for (size_t i = 0; i < m->n_layers; i++)
                if (streq_ptr(m->layers[i].path, path)) {
                        *ret_index = m->layers[i].index;
                        return 0;
                }
        if (take_place(m, &place) < 0)
                return error_oom(e);
        Layer *l = &m->layers[place];
        int r = mount_layer(m, path, l->index, e);
        if (r < 0)
                return r;
        l->path = strdup(path); /* if that fails, the next layer is mounted over it */
        *ret_index = l->index;
        return l->path ? 0 : error_oom(e);
}

static bool has_layer(const AppOverlay *o, unsigned layer)
{
        for (size_t i = 0; o && i < o->n_layers; i++)
                if (o->layers[i] == layer)
                        return true;
        return false;
}

static int add_use(AppOverlay *o, unsigned layer)
{
        unsigned *grown;

        if (has_layer(o, layer))
                return 0;
        grown = reallocarray(o->layers, o->n_layers + 1, sizeof(unsigned));
        if (!grown)
                return -ENOMEM;
        o->layers = grown;
        o->layers[o->n_layers++] = layer;
        return 0;
}

static bool is_used(const PodMounts *m, unsigned layer)
{
        for (size_t i = 0; i < m->n_apps; i++)
                if (has_layer(&m->apps[i].root, layer) || has_layer(m->apps[i].parked, layer))
                        return true;
        for (size_t i = 0; i < m->n_volumes; i++)
                if (has_layer(&m->volumes[i].image, layer))
                        return true;
        return false;
}

static void let_go(PodMounts *m, const char *kind, unsigned index)
{
        char name[24];

        snprintf(name, sizeof(name), "%s%u", kind, index);
        pod_mounts_let_go(m, name);
}

static void forget_notify(PodMounts *m, unsigned index)
{
        char name[32];

        snprintf(name, sizeof(name), "notify/%u", index);
        (void) unlinkat(m->holder_fd, name, 0);
}

/* O is not used as a root any more; KEEPS, of the same app, is, or is NULL. */
static void let_overlay_go(PodMounts *m, AppOverlay *o, const AppOverlay *keeps)
{
        let_go(m, "a", o->index);
        if (!keeps || keeps->credentials != o->credentials)
                let_go(m, "c", o->credentials);
        for (size_t i = 0; i < o->n_layers; i++) {
                Layer *l = &m->layers[o->layers[i]];
                if (!l->path || is_used(m, l->index))
                        continue;
                let_go(m, "l", l->index);
                l->path = (free(l->path), NULL);
        }
        free(o->layers);
        *o = (AppOverlay){};
}

void pod_mounts_release_image(PodMounts *m, VolumeMount *v)
{
        AppOverlay image = v->image;

        v->image = (AppOverlay){};
        if (image.n_layers > 0)
                let_overlay_go(m, &image, NULL);
}

void pod_mounts_remove_app(PodMounts *m, const char *name)
{
        AppMount a = {}, *place = m->apps;

        while (place < m->apps + m->n_apps && !streq(place->name, name))
                place++;
        if (place == m->apps + m->n_apps)
                return;
        a = *place;
        *place = m->apps[--m->n_apps];
        forget_notify(m, a.index);
        let_overlay_go(m, &a.root, NULL);
        if (a.parked)
                let_overlay_go(m, a.parked, NULL);
        app_mount_done(&a);
}

/* --- Replaced apps ------------------------------------------------------------------------------------- */

/* The root stays mounted, so that the app can go on in it. */
int pod_mounts_replace_app(PodMounts *m, const PodApp *app, bool notify, Error *e)
{
        AppMount *a = pod_mounts_know_app(m, app->name);
        AppOverlay *parked = a ? malloc(sizeof(AppOverlay)) : NULL;

        if (!parked)
                return error_oom(e);
        int r = pod_mounts_extend_dev(m, notify, pod_app_has_credentials(m->pod, app));
        if (r < 0) {
                free(parked);
                return error_set_errno(e, r, "Cannot extend the devices of pod %s",
                                       pod_display_name(m->pod));
        }
        *parked = a->root;
        a->parked = parked;
        a->root = (AppOverlay){.index = m->next_index++, .credentials = parked->credentials};
        r = pod_mounts_exchange_credentials(m, app, a);
        if (r < 0) {
                pod_mounts_restore_app(m, app->name);
                return error_set_errno(e, r, "Cannot load the credentials of app %s into memory", app->name);
        }
        return 0;
}

void pod_mounts_restore_app(PodMounts *m, const char *name)
{
        AppMount *a = pod_mounts_know_app(m, name);
        AppOverlay failed;

        if (!a || !a->parked)
                return;
        failed = a->root;
        a->root = *a->parked;
        a->root.kept = a->root.mounted;
        a->parked = (free(a->parked), NULL);
        let_overlay_go(m, &failed, &a->root);
}

void pod_mounts_forget_replaced(PodMounts *m, const char *name)
{
        AppMount *a = pod_mounts_know_app(m, name);
        AppOverlay old;

        if (!a || !a->parked)
                return;
        old = *a->parked;
        a->parked = (free(a->parked), NULL);
        let_overlay_go(m, &old, &a->root);
}

int pod_mounts_app_path(const PodMounts *m, const char *app, const char *file, char **ret)
{
        const PodApp *known = pod_manifest_find_app(m->pod->manifest, app);

        return known ? pod_app_path(m->pod, known, file, ret) : -ENOENT;
}

static int read_lowers(PodMounts *m, const char *app, char ***ret, Error *e)
{
        _cleanup_free_ char *name = NULL;
        int r = pod_mounts_app_path(m, app, "lowers", &name);

        if (r >= 0)
                r = pod_lowers_read(m->pod, name, ret);
        return r < 0 ? error_set_errno(e, r, "Cannot read the list of image layers of app %s", app) : 0;
}

int pod_mounts_add_layers(PodMounts *m, char *const *lowers, AppOverlay *o, Text *t, Error *e)
{
        STRV_FOREACH (lower, lowers) {
                unsigned index = 0;
                int r = find_layer(m, *lower, &index, e);
                if (r < 0)
                        return r;
                if (add_use(o, index) < 0)
                        return error_oom(e);
                text_addf(t, "%sl%u", lower == lowers ? "" : ":", index);
        }
        return 0;
}

int pod_mounts_list_layers(PodMounts *m, const char *app, Text *t, char **ret_top, Error *e)
{
        _cleanup_strv_free_ char **lowers = NULL;
        int r = read_lowers(m, app, &lowers, e);
        AppMount *a = pod_mounts_know_app(m, app);

        if (r < 0)
                return r;
        if (!a)
                return error_oom(e);
        r = pod_mounts_add_layers(m, lowers, &a->root, t, e);
        if (r < 0)
                return r;
        *ret_top = strdup(lowers[0]);
        return *ret_top ? 0 : error_oom(e);
}

/* --- Overlays ------------------------------------------------------------------------------------------ */

/* The root directory itself takes owner and mode from the upper layer: those of the image are copied. */
static int adopt_root_attributes(PodMounts *m, int upper_fd, const char *top)
{
        uint32_t base = pod_root_uid(m->pod), n = pod_n_uids(&m->pod->config);
        struct stat st;

        if (stat(top, &st) < 0)
                return -errno;
        if (fchown(upper_fd, base + st.st_uid % n, base + st.st_gid % n) < 0 ||
            fchmod(upper_fd, st.st_mode & 07777) < 0)
                return -errno;
        return 0;
}

int pod_mounts_open_app(const PodMounts *m, const char *app)
{
        _cleanup_free_ char *path = NULL;
        int r = pod_mounts_app_path(m, app, NULL, &path);

        return r < 0 ? r : open_beneath(m->dir_fd, path, O_RDONLY | O_DIRECTORY);
}

int pod_mounts_renew(int app_fd, const char *name)
{
        int r = rm_rf_at(app_fd, name);

        if (r < 0)
                return r;
        return mkdir_at(app_fd, name, 0755);
}

/* An upper layer is never used twice: the files of an earlier execution are removed. The first execution
 * uses the one that was made with the pod. */
static int renew_upper(int app_fd)
{
        static const char *const names[] = {"upper", "work"};

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                int r = pod_mounts_renew(app_fd, names[i]);
                if (r < 0)
                        return r;
        }
        return 0;
}

int pod_mounts_make_upper(PodMounts *m, const char *app, const char *top, bool renew)
{
        _cleanup_close_ int app_fd = pod_mounts_open_app(m, app), upper_fd = -EBADF;

        if (app_fd < 0)
                return app_fd;
        if (renew) {
                int r = renew_upper(app_fd);
                if (r < 0)
                        return r;
        }
        upper_fd = open_beneath(app_fd, "upper", O_RDONLY | O_DIRECTORY);
        return upper_fd < 0 ? upper_fd : adopt_root_attributes(m, upper_fd, top);
}

static int mount_overlay(PodMounts *m, const char *app, unsigned index, bool renew, Error *e)
{
        _cleanup_free_ char *top = NULL, *options = NULL, *files = NULL;
        _cleanup_text_ Text t = {};
        char name[16];
        size_t size;

        int r = pod_mounts_app_path(m, app, NULL, &files);
        if (r < 0)
                return error_set_errno(e, r, "Cannot find the files of app %s", app);
        text_add(&t, "lowerdir=");
        r = pod_mounts_list_layers(m, app, &t, &top, e);
        if (r < 0)
                return r;
        r = pod_mounts_make_upper(m, app, top, renew);
        if (r < 0)
                return error_set_errno(e, r, "Cannot create the writable layer of app %s", app);
        /* This layer does not survive a crash of the host, so nothing has to be synced. */
        text_addf(&t, ",upperdir=../%s/upper,workdir=../%s/work,volatile", files, files);
        r = text_take(&t, &options, &size);
        if (r < 0)
                return error_oom(e);
        if (size > OVERLAY_OPTIONS_MAX)
                return error_set(e, -E2BIG, "App %s has more image layers than the kernel can stack", app);
        snprintf(name, sizeof(name), "a%u", index);
        if (mkdirat(m->holder_fd, name, 0700) < 0 && errno != EEXIST)
                return error_set_errno(e, -errno, "Cannot create a mount point for app %s", app);
        /* Relative names: they fit into a page, and avoid characters of the store's path that overlayfs
         * would interpret. */
        if (fchdir(m->holder_fd) < 0 || mount("overlay", name, "overlay", MS_NODEV, options) < 0) {
                (void) error_set_errno(e, -errno, "Cannot mount the overlay of app %s (%s)", app, options);
                return error_hint(e, 0,
                                  "The store must lie on a file system that can be an overlay's upper "
                                  "layer, such as ext4, xfs or btrfs.");
        }
        return 0;
}

AppMount *pod_mounts_know_app(PodMounts *m, const char *name)
{
        for (size_t i = 0; i < m->n_apps; i++)
                if (streq(m->apps[i].name, name))
                        return &m->apps[i];
        if (GREEDY_REALLOC(m->apps, m->apps_allocated, m->n_apps + 1) < 0)
                return NULL;
        char *copy = strdup(name);
        if (!copy)
                return NULL;
        m->apps[m->n_apps] = (AppMount){.name = copy, .index = m->next_index};
        m->apps[m->n_apps].root.index = m->apps[m->n_apps].root.credentials = m->next_index++;
        return &m->apps[m->n_apps++];
}

static int write_names(PodMounts *m, const PodApp *app, unsigned index, Error *e)
{
        _cleanup_close_ int root_fd = -EBADF;
        char name[16];

        snprintf(name, sizeof(name), "a%u", index);
        root_fd = openat(m->holder_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (root_fd < 0)
                return error_set_errno(e, -errno, "Cannot open the root of app %s", app->name);
        return pod_mounts_write_names(m, app, root_fd, e);
}

static int unmount_overlay(PodMounts *m, AppOverlay *a)
{
        char name[16];

        snprintf(name, sizeof(name), "a%u", a->index);
        if (fchdir(m->holder_fd) < 0 || umount2(name, MNT_DETACH) < 0)
                return -errno;
        a->mounted = false;
        return 0;
}

int pod_mounts_retire_app(PodMounts *m, const PodApp *app)
{
        AppMount *a = pod_mounts_know_app(m, app->name);
        AppOverlay *o = a ? &a->root : NULL;
        _cleanup_close_ int app_fd = o && o->used && !o->kept ? pod_mounts_open_app(m, app->name) : -EBADF;

        if (app_fd < 0 || (o->mounted && unmount_overlay(m, o) < 0) ||
            renameat2(app_fd, "upper", app_fd, RETIRED_UPPER, RENAME_NOREPLACE) < 0)
                return -ENOENT;
        (void) mkdir_at(app_fd, "upper", 0755);
        o->retired = true;
        return TAKE_FD(app_fd);
}

int pod_mounts_prepare_app(PodMounts *m, const PodApp *app, bool fresh, Error *e)
{
        AppMount *known = pod_mounts_know_app(m, app->name);
        AppOverlay *a = known ? &known->root : NULL;
        bool renew = a && a->used && fresh && !a->kept;

        if (!a)
                return error_oom(e);
        if (a->retired && !fresh)
                return error_set(e, -EAGAIN, "The root of app %s is being recreated", app->name);
        a->retired = a->kept = false;
        if (a->mounted && renew) {
                int r = unmount_overlay(m, a);
                if (r < 0)
                        return error_set_errno(e, r, "Cannot unmount the overlay of app %s", app->name);
        }
        if (a->mounted)
                return 0;
        int r = mount_overlay(m, app->name, a->index, renew, e);
        if (r < 0)
                return r;
        r = write_names(m, app, a->index, e);
        if (r < 0) { /* the next attempt starts as this one did */
                (void) unmount_overlay(m, a);
                a->used = true;
                return r;
        }
        a->mounted = true;
        return 0;
}
