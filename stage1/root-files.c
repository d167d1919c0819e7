/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The root of the pod's systemd: a few small files and empty directories. First everything is generated as a
 * list, which the unit tests check; then the list is written below a directory descriptor.
 */

#include <sys/stat.h>

#include "stage1/stage1-internal.h"

void stage1_files_done(Stage1Files *f)
{
        for (size_t i = 0; i < f->n; i++) {
                free(f->items[i].path);
                free(f->items[i].content);
                free(f->items[i].target);
        }
        free(f->items);
        *f = (Stage1Files){};
}

static int add_item(Stage1Files *f, Stage1File item, const char *path, const char *content,
                    const char *target)
{
        if (GREEDY_REALLOC(f->items, f->allocated, f->n + 1) < 0)
                return -ENOMEM;
        item.path = strdup(path);
        if (content) {
                item.content = malloc(item.size + 1);
                if (item.content) {
                        memcpy(item.content, content, item.size);
                        item.content[item.size] = 0;
                }
        }
        item.target = target ? strdup(target) : NULL;
        f->items[f->n++] = item;
        return item.path && (!content || item.content) && (!target || item.target) ? 0 : -ENOMEM;
}

int stage1_files_add(Stage1Files *f, const char *path, const char *content, size_t size, mode_t mode)
{
        return add_item(f, (Stage1File){.size = size, .mode = mode}, path, content, NULL);
}

int stage1_files_add_symlink(Stage1Files *f, const char *path, const char *target)
{
        return add_item(f, (Stage1File){.mode = 0777}, path, NULL, target);
}

static const char manager_configuration[] = "[Manager]\n"
                                            "LogTarget=journal-or-kmsg\n"
                                            "ShowStatus=no\n"
                                            /* Failures are logged; a line for every start and stop would
                 * only cost time. */
                                            "LogLevel=notice\n"
                                            /* The OOM killer kills one process, which may be one that was
                 * started beside the app by 'enter'. If it is the app's main
                 * process, the app ends as after any other signal. */
                                            "DefaultOOMPolicy=continue\n"
                                            /* The slices of apps have limits of their own. */
                                            "DefaultTasksMax=infinity\n"
                                            /* systemd's defaults for services, whatever limits the pod's
                 * systemd was started with. */
                                            "DefaultLimitNOFILE=1024:524288\n"
                                            "DefaultLimitMEMLOCK=8388608\n"
                                            "DefaultLimitCORE=0:infinity\n";

/* The files whose content is the same in every pod. */
static const struct {
        const char *path, *content;
} fixed_files[] = {
                /* nspawn accepts a directory as a root only if this file exists. */
                {"etc/os-release", "ID=acnspawn\nNAME=\"acnspawn pod\"\nPRETTY_NAME=\"acnspawn pod\"\n"},
                {"etc/passwd", "root:x:0:0:root:/:/nonexistent\n"},
                {"etc/group", "root:x:0:\n"},
                /* How much an app may log is limited where its output is forwarded
                 * (stage0/supervisor/streams/forwarder-bound.c), not here: no rate limit, and no messages of the host's kernel.
                 * The hash table of a journal file is as large as SystemMaxFileSize= requires, and journald
                 * has all of it in memory: 3.6 MiB with the default of 128 MiB, 0.2 MiB with 8 MiB, 0.1 MiB
                 * with 4 MiB. Readers open all files at once, so there are no more than 256: 1 GiB of log. */
                {"etc/systemd/journald.conf", "[Journal]\n"
                                              "Storage=persistent\n"
                                              "SystemMaxFileSize=4M\n"
                                              "SystemMaxFiles=256\n"
                                              "RateLimitIntervalSec=0\n"
                                              "SplitMode=none\n"
                                              "ForwardToSyslog=no\n"
                                              "ForwardToKMsg=no\n"
                                              "ForwardToConsole=no\n"
                                              "ForwardToWall=no\n"
                                              "ReadKMsg=no\n"
                                              "Audit=no\n"},
                {"etc/systemd/system.conf", manager_configuration},
};

static const char *const directories[] = {
                "usr", "usr/bin", "usr/lib", "usr/lib64", "usr/sbin",        "proc",         "sys",
                "dev", "run",     "tmp",     "root",      "var/log/journal", "acnspawn/mnt",
};

static const struct {
        const char *path, *target;
} links[] = {{"bin", "usr/bin"}, {"lib", "usr/lib"}, {"lib64", "usr/lib64"}, {"sbin", "usr/sbin"}};

static int add_machine_id(Stage1Files *files, const char *uuid)
{
        _cleanup_free_ char *journal = NULL;
        char id[34];
        size_t n = 0;

        for (const char *c = uuid; *c && n < 32; c++)
                if (*c != '-')
                        id[n++] = *c;
        id[n] = 0;
        int r = xasprintf(&journal, "var/log/journal/%s", id);
        if (r >= 0)
                r = stage1_files_add(files, journal, NULL, 0, S_IFDIR | 0755);
        id[n++] = '\n';
        return r < 0 ? r : stage1_files_add(files, "etc/machine-id", id, n, 0444);
}

static int add_hostname(Stage1Files *files, const char *hostname)
{
        _cleanup_free_ char *text = NULL;
        int r = xasprintf(&text, "%s\n", hostname);

        return r < 0 ? r : stage1_files_add(files, "etc/hostname", text, strlen(text), 0644);
}

int stage1_generate(const PodManifest *m, const Stage1Options *o, Stage1Files *ret, Error *e)
{
        _cleanup_stage1_files_ Stage1Files files = {};
        int r = 0;

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(directories); i++)
                r = stage1_files_add(&files, directories[i], NULL, 0, S_IFDIR | 0755);
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(links); i++)
                r = stage1_files_add_symlink(&files, links[i].path, links[i].target);
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(fixed_files); i++)
                r = stage1_files_add(&files, fixed_files[i].path, fixed_files[i].content,
                                     strlen(fixed_files[i].content), 0644);
        if (r >= 0 && o->host_pid) /* the pod's systemd is one of a user */
                r = stage1_files_add(&files, "etc/systemd/user.conf", manager_configuration,
                                     strlen(manager_configuration), 0644);
        if (r >= 0)
                r = add_machine_id(&files, o->uuid);
        if (r >= 0)
                r = add_hostname(&files, o->hostname);
        if (r >= 0)
                r = stage1_generate_units(m, o, &files, e);
        if (r == -ENOMEM)
                return error_oom(e);
        if (r < 0)
                return r;
        *ret = files;
        files = (Stage1Files){};
        return 0;
}

/* --- Writing ------------------------------------------------------------------------------------------- */

static int make_parents(int root_fd, const char *path, uid_t owner)
{
        _cleanup_free_ char *copy = strdup(path);

        if (!copy)
                return -ENOMEM;
        for (char *p = strchr(copy, '/'); p; p = strchr(p + 1, '/')) {
                *p = 0;
                int r = mkdir_at(root_fd, copy, 0755);
                if (r >= 0 && fchownat(root_fd, copy, owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
                        r = -errno;
                if (r < 0 && r != -EEXIST)
                        return r;
                *p = '/';
        }
        return 0;
}

static int write_item(int root_fd, const Stage1File *f)
{
        if (f->target)
                return symlinkat(f->target, root_fd, f->path) < 0 ? -errno : 0;
        if (S_ISDIR(f->mode)) {
                int r = mkdir_at(root_fd, f->path, f->mode & 07777);
                return r == -EEXIST ? 0 : r;
        }
        return write_file_new_at(root_fd, f->path, f->content, f->size, f->mode);
}

static int write_one(int root_fd, const Stage1File *f, uid_t owner)
{
        int r = write_item(root_fd, f);

        if (r == -ENOENT) {
                r = make_parents(root_fd, f->path, owner);
                if (r >= 0)
                        r = write_item(root_fd, f);
        }
        if (r >= 0 && fchownat(root_fd, f->path, owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
                r = -errno;
        return r;
}

int stage1_write_root(int root_fd, const PodManifest *m, const Stage1Options *o, uid_t owner, Error *e)
{
        _cleanup_stage1_files_ Stage1Files files = {};
        int r = stage1_generate(m, o, &files, e);

        if (r < 0)
                return r;
        for (size_t i = 0; i < files.n; i++) {
                r = write_one(root_fd, &files.items[i], owner);
                if (r < 0)
                        return error_set_errno(e, r, "Cannot write %s of the pod's root",
                                               files.items[i].path);
        }
        return fchown(root_fd, owner, owner) < 0
                               ? error_set_errno(e, -errno, "Cannot give the pod's root to user %u", owner)
                               : 0;
}

/* --- One more app -------------------------------------------------------------------------------------- */

/* All of them are in one directory. Nothing in the pod's root is trusted while the pod runs. */
static int open_units(int root_fd)
{
        return open_beneath(root_fd, "acnspawn/units", O_RDONLY | O_DIRECTORY);
}

static const char *unit_name(const Stage1File *f)
{
        return strrchr(f->path, '/') + 1;
}

static int write_unit(int dir_fd, const Stage1File *f, uid_t owner)
{
        const char *name = unit_name(f);
        int r = write_file_new_at(dir_fd, name, f->content, f->size, f->mode);

        if (r >= 0 && fchownat(dir_fd, name, owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
                r = -errno;
        return r;
}

int stage1_write_app(int root_fd, const PodApp *app, const Stage1Options *o, uid_t owner, Error *e)
{
        _cleanup_stage1_files_ Stage1Files files = {};
        _cleanup_close_ int fd = open_units(root_fd);

        int r = fd < 0 ? fd : stage1_generate_app(app, o, &files, e);
        for (size_t i = 0; r >= 0 && i < files.n; i++) {
                r = write_unit(fd, &files.items[i], owner);
                if (r == -EEXIST && stage1_is_shared_unit(unit_name(&files.items[i])))
                        r = 0;
        }
        if (r >= 0)
                return 0;
        (void) stage1_remove_app(root_fd, app, o);
        return error_set_errno(e, r, "Cannot write the units of app %s", app->name);
}

int stage1_check_app(const PodApp *app, const Stage1Options *o, Error *e)
{
        _cleanup_stage1_files_ Stage1Files files = {};
        int r = stage1_generate_app(app, o, &files, e);

        return r == -ENOMEM ? error_oom(e) : r;
}

/* Also if there is none. */
static void remove_unit(int dir_fd, const char *name, int *r)
{
        if (unlinkat(dir_fd, name, 0) < 0 && errno != ENOENT && *r >= 0)
                *r = -errno;
}

int stage1_remove_app(int root_fd, const PodApp *app, const Stage1Options *o)
{
        _cleanup_stage1_files_ Stage1Files files = {};
        _cleanup_close_ int fd = open_units(root_fd);

        int r = fd < 0 ? fd : stage1_generate_app(app, o, &files, NULL);
        for (size_t i = 0; i < files.n; i++)
                if (!stage1_is_shared_unit(unit_name(&files.items[i])))
                        remove_unit(fd, unit_name(&files.items[i]), &r);
        return r;
}

bool stage1_has_unit(const Stage1Files *files, const char *name)
{
        for (size_t i = 0; i < files->n; i++)
                if (streq_ptr(startswith(files->items[i].path, "acnspawn/units/"), name))
                        return true;
        return false;
}

int stage1_sweep_units(int root_fd, const PodManifest *m, const Stage1Options *o)
{
        _cleanup_stage1_files_ Stage1Files files = {};
        _cleanup_close_ int fd = open_units(root_fd);
        _cleanup_strv_free_ char **names = NULL;

        int r = fd < 0 ? fd : stage1_generate_units(m, o, &files, NULL);
        if (r >= 0)
                r = list_names(fd, &names);
        STRV_FOREACH (name, names)
                if ((startswith(*name, "app-") || startswith(*name, "health-") ||
                     stage1_is_shared_unit(*name)) &&
                    !stage1_has_unit(&files, *name))
                        remove_unit(fd, *name, &r);
        return r;
}
