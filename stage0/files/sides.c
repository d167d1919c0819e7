/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A copy as requested by the user: sources, target, and owner of the result. */

#include <linux/securebits.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>

#include "stage0/files/files-internal.h"

static Owners owners_of(const CopySide *s)
{
        const Pod *p = s->root ? s->root->pod : NULL;

        return p && p->config.private_users ? (Owners){.mapped = true,
                                                       .base = p->config.uid_base,
                                                       .count = pod_n_uids(&p->config)}
                                            : (Owners){};
}

/* Without --archive a copy is owned by the caller, in a pod by its root. */
static Attributes attributes_of(const CopySide *from, const CopySide *to, const CopyOptions *o)
{
        Attributes a = {.from = owners_of(from), .to = owners_of(to), .archive = o->archive};

        a.uid = to->root ? a.to.base : geteuid();
        a.gid = to->root ? a.to.base : getegid();
        return a;
}

static int check_kinds(const CopySide *side, const Source *s, const CopySide *target, const Target *t,
                       Error *e)
{
        bool directory = S_ISDIR(s->st.st_mode);

        if (!directory && !S_ISREG(s->st.st_mode) && !S_ISLNK(s->st.st_mode))
                return side_error(e, -EOPNOTSUPP, side, "is a device, a socket or a FIFO");
        if (!directory && !t->name && !s->name)
                return side_error(e, -EISDIR, target, "is a directory");
        return 0;
}

/* An id-mapped volume of the host accepts only files of owners in the pod's range. So files in a pod are
 * created as its root, but with all privileges of this process. */
static int copy_as_owner(const Source *s, const Target *t, const char *shown, const Attributes *a,
                         const CopyOptions *o, Error *e)
{
        int bits = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);

        if (!a->to.mapped)
                return tree_copy(s, t, shown, a, o, e);
        if (bits < 0 || prctl(PR_SET_SECUREBITS, bits | SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0)
                return error_set_errno(e, -errno, "Cannot keep the privileges required for copying");
        (void) setfsuid(a->to.base);
        (void) setfsgid(a->to.base);
        int r = tree_copy(s, t, shown, a, o, e);
        (void) setfsuid(geteuid());
        (void) setfsgid(getegid());
        (void) prctl(PR_SET_SECUREBITS, bits, 0, 0, 0);
        return r;
}

int source_copy(const Source *s, const CopySide *from, const char *shown, const CopySide *to,
                const CopyOptions *o, Error *e)
{
        Attributes a = attributes_of(from, to, o);
        _cleanup_(target_done) Target t = TARGET_NULL;

        int r = target_open(to, &t, e);
        if (r >= 0)
                r = check_kinds(from, s, to, &t, e);
        return r < 0 ? r : copy_as_owner(s, &t, shown, &a, o, e);
}

static int copy_one(const CopySide *from, const CopySide *to, const CopyOptions *o, Error *e)
{
        _cleanup_free_ char *shown = NULL;
        _cleanup_(source_done) Source s = SOURCE_NULL;

        if (side_show(from, &shown) < 0)
                return error_oom(e);
        int r = source_open(from, o->follow, &s, e);
        return r < 0 ? r : source_copy(&s, from, shown, to, o, e);
}

static int check_several(const CopySide *target, Error *e)
{
        _cleanup_(target_done) Target t = TARGET_NULL;

        int r = target_open(target, &t, e);
        return r >= 0 && t.name ? side_error(e, -ENOTDIR, target,
                                             "is not a directory, and there are several files to be copied")
                                : r;
}

int files_copy(const CopySide *sources, size_t n_sources, const CopySide *target, const CopyOptions *o,
               Error *e)
{
        int r = n_sources > 1 ? check_several(target, e) : 0;

        for (size_t i = 0; r >= 0 && i < n_sources; i++)
                r = copy_one(&sources[i], target, o, e);
        return r;
}
