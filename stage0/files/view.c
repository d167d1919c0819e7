/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Accesses files as seen by a pod: in a child that is root in a user namespace with the pod's range of uids.
 * There the kernel reports owners, ACLs and capabilities of files as to the pod, and the child has no more
 * privileges than the pod's root. */

#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

#include "stage0/files/files-internal.h"

typedef struct Call {
        const Pod *pod;
        int (*function)(void *data, int *ret_fd, char **ret_text, Error *e);
        void *data;
} Call;

static int become_root_of_pod(const Pod *p, Error *e)
{
        _cleanup_close_ int fd = -EBADF;

        int r = userns_open(p->config.uid_base, pod_n_uids(&p->config), &fd, e);
        if (r < 0)
                return r;
        if (setns(fd, CLONE_NEWUSER) < 0 || setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 ||
            setresuid(0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
            prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
                return error_set_errno(e, -errno, "Cannot join the user namespace of pod %s",
                                       pod_display_name(p));
        return 0;
}

static int call(void *data, int *ret_fd, char **ret_text, Error *e)
{
        const Call *c = data;
        int r = c->pod->config.private_users ? become_root_of_pod(c->pod, e) : 0;

        return r < 0 ? r : c->function(c->data, ret_fd, ret_text, e);
}

int pod_view_call(const Pod *p, const Operation *o,
                  int (*function)(void *data, int *ret_fd, char **ret_text, Error *e), void *data,
                  const char *what, char **ret_text, Error *e)
{
        Call c = {.pod = p, .function = function, .data = data};

        const ChildWork w = {.what = what, .function = call, .data = &c, .operation = o};

        return child_run(&w, NULL, ret_text, e);
}

bool files_leave_out(int fd, const struct stat *st, const char *path, void *userdata)
{
        const FilesNotes *notes = userdata;
        const char *why = S_ISSOCK(st->st_mode)                               ? "it is a socket"
                          : S_ISDIR(st->st_mode) && is_kernel_file_system(fd) ? "it is a kernel file system"
                                                                              : NULL;
        _cleanup_free_ char *shown = why ? text_escape_for_terminal(path) : NULL;

        if (shown && notes->note)
                notes->note(shown, why, notes->userdata);
        return why;
}
