/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* SELinux labels of what is mounted into containers (`selinux_relabel` of mounts).
 *
 * The kubelet requests it for nearly every mount, whether its host has SELinux or not. Where SELinux is not active nothing has a
 * label, and there is nothing to do. Elsewhere all that is below the source gets the label of files of containers, with the level
 * of the container, before the container is made: the container cannot use the files otherwise. Other containers may
 * have the source already and replace directories by links meanwhile, so the walk goes by the directory that is open, and follows
 * no link. */

#include <fts.h>
#include <sys/xattr.h>

#include "cri/sandbox.h"

#define LABEL "security.selinux"
#define CHECK_EVERY 256U /* entries between looks at whether the call was cancelled */

/* The labels of these are those of the host, whose services could not use them any more. */
static bool is_of_system(const char *path)
{
        static const char *const all[] = {"/bin",   "/boot", "/dev",  "/etc", "/lib",
                                          "/lib64", "/proc", "/sbin", "/sys", "/usr"},
                                 *const alone[] = {"/",        "/home",    "/media",  "/mnt", "/opt",
                                                   "/root",    "/run",     "/srv",    "/tmp", "/var",
                                                   "/var/lib", "/var/log", "/var/tmp"};

        for (size_t i = 0; i < ELEMENTSOF(all); i++)
                if (path_has_prefix(path, all[i]))
                        return true;
        for (size_t i = 0; i < ELEMENTSOF(alone); i++)
                if (streq(path, alone[i]))
                        return true;
        return false;
}

static int refuse(const char *path, int code, Error *e)
{
        return error_set_errno(
                        e, code,
                        "Cannot give %s the SELinux label of the container, as 'mounts.selinux_relabel' requests",
                        path);
}

/* 1: it has the label now; 0: its file system has no labels. */
static int label_entry(const FTSENT *f, const char *label, Error *e)
{
        if (f->fts_info == FTS_DP) /* a directory, for the second time */
                return 1;
        if (f->fts_info == FTS_DNR || f->fts_info == FTS_ERR || f->fts_info == FTS_NS)
                return f->fts_errno == ENOENT ? 1 : refuse(f->fts_path, -f->fts_errno, e);
        if (lsetxattr(f->fts_accpath, LABEL, label, strlen(label) + 1, 0) >= 0 || errno == ENOENT)
                return 1;
        return errno == EOPNOTSUPP ? 0 : refuse(f->fts_path, -errno, e);
}

static int label_tree(FTS *tree, const char *label, const Operation *o, Error *e)
{
        int r = 1;

        for (unsigned n = 1; r > 0; n++) {
                errno = 0;
                FTSENT *f = fts_read(tree);
                if (!f)
                        return errno == 0 ? 0 : -errno;
                r = label_entry(f, label, e);
                if (r > 0 && n % CHECK_EVERY == 0) {
                        int k = operation_check(o, e);
                        r = k < 0 ? k : r;
                }
        }
        return r;
}

int relabel_tree(const char *path, const char *label, const Operation *o, Error *e)
{
        _cleanup_free_ char *real = realpath(path, NULL);
        char *const roots[] = {real, NULL};

        if (!real)
                return refuse(path, -errno, e);
        if (is_of_system(real))
                return error_set(
                                e, -EINVAL,
                                "'mounts.selinux_relabel' requests another SELinux label for %s, which is a directory of the system",
                                real);
        FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_XDEV, NULL);
        if (!tree)
                return refuse(real, -errno, e);
        int r = label_tree(tree, label, o, e);
        (void) fts_close(tree);
        return r;
}

int container_relabel(CriJob *j, const Sandbox *s, const char *path, const Runtime__V1__SELinuxOption *x,
                      Error *e)
{
        HostFeatures h;

        int r = pod_features(s->pod, false, &h);
        if (r < 0)
                return error_set_errno(e, r, "Cannot determine the features of this host");
        if (h.selinux <= SELINUX_NO_POLICY)
                return 0;
        const char *label = cri_printf(&j->memory, "system_u:object_r:container_file_t:%s",
                                       x && !isempty(x->level) ? x->level : "s0");
        return label ? relabel_tree(path, label, j->store->operation, e) : error_oom(e);
}
