/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Delegated units of the host's systemd: the scope created for a pod, or, for run --keep-unit, the unit that
 * acnspawn was started in.
 *
 * The latter may be subdivided only if it is delegated (Delegate=): systemd marks the cgroups of such units
 * with an extended attribute. Other processes in the unit, such as the shell that started acnspawn, are
 * moved along with it. A service ends with the pod, so nothing has to be undone.
 */

#include <sys/stat.h>
#include <sys/xattr.h>

#include "stage0/host/host-internal.h"

#define PROCS_SIZE_MAX (1024U * 1024U)
#define MOVE_ATTEMPTS 16U

int cgroup_put(const char *path, pid_t pid)
{
        char number[16];

        if (mkdir(path, 0755) < 0 && errno != EEXIST)
                return -errno;
        _cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        snprintf(number, sizeof(number), "%d", (int) pid);
        return write_attribute_at(fd, "cgroup.procs", number);
}

/* One at a time, so that one that is not available does not prevent the others. The pod's status reports
 * missing ones. */
void cgroup_hand_on_controllers(const char *path)
{
        _cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        _cleanup_free_ char *text = NULL;
        _cleanup_strv_free_ char **names = NULL;

        if (fd < 0 || read_file_at(fd, "../cgroup.controllers", 4096, &text, NULL) < 0 ||
            strv_split(text, " \n", &names) < 0)
                return;
        STRV_FOREACH (name, names) {
                _cleanup_free_ char *word = NULL;
                if (**name && xasprintf(&word, "+%s", *name) >= 0)
                        (void) write_attribute_at(fd, "../cgroup.subtree_control", word);
        }
}

/* --- The current unit ---------------------------------------------------------------------------------- */

/* With several hierarchies systemd marks only the one that it uses. */
static bool is_delegated(const char *path)
{
        static const char *const attributes[] = {"trusted.delegate", "user.delegate"};
        char value;

        for (size_t i = 0; i < ELEMENTSOF(attributes); i++)
                if (getxattr(path, attributes[i], &value, sizeof(value)) == sizeof(value) && value == '1')
                        return true;
        return false;
}

/* Processes that have ended meanwhile, or were moved by another process, are ignored. */
static int move_listed(const char *list, const char *target)
{
        _cleanup_strv_free_ char **pids = NULL;
        int r = strv_split(list, "\n", &pids);

        if (r < 0)
                return r;
        STRV_FOREACH (text, pids) {
                uint32_t pid;

                r = parse_u32(*text, &pid);
                if (r >= 0)
                        r = cgroup_put(target, (pid_t) pid);
                if (r < 0 && r != -ESRCH)
                        return r;
        }
        return 0;
}

/* They may fork while they are moved. */
static int move_all(const char *path, const char *target)
{
        _cleanup_free_ char *procs = NULL;
        int r = xasprintf(&procs, "%s/cgroup.procs", path);

        for (unsigned i = 0; r >= 0 && i < MOVE_ATTEMPTS; i++) {
                _cleanup_free_ char *list = NULL;

                r = read_file_at(AT_FDCWD, procs, PROCS_SIZE_MAX, &list, NULL);
                if (r >= 0 && isempty(list))
                        return 0;
                if (r >= 0)
                        r = move_listed(list, target);
        }
        return r < 0 ? r : -EBUSY;
}

static int divide(const Cgroups *unit, Error *e)
{
        STRV_FOREACH (path, unit->paths) {
                _cleanup_free_ char *target = NULL;
                int r = xasprintf(&target, "%s/" CGROUP_SUPERVISOR, *path);

                if (r >= 0)
                        r = move_all(*path, target);
                if (r < 0)
                        return error_set_errno(e, r,
                                               "Cannot move the processes of cgroup %s to a child of it",
                                               *path);
                if (streq(*path, unit->unified))
                        cgroup_hand_on_controllers(target);
        }
        return 0;
}

static int not_delegated_error(const char *path, Error *e)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(strrchr(path, '/') + 1);
        int r = error_set(e, -EPERM, "Cannot keep unit %s for the pod: it is not delegated to acnspawn",
                          isempty(shown) ? "/" : shown);

        return error_hint(e, r,
                          "Set Delegate=yes in the unit, or run the pod without --keep-unit, in a scope of "
                          "its own. From a shell: systemd-run --property=Delegate=yes acnspawn run "
                          "--keep-unit …");
}

static bool any_is_delegated(const Cgroups *c)
{
        STRV_FOREACH (path, c->paths)
                if (is_delegated(*path))
                        return true;
        return false;
}

/* The unit may be configured (DelegateSubgroup=) to have its processes in a child of its cgroup. */
static bool find_unit(Cgroups *c)
{
        if (any_is_delegated(c))
                return true;
        STRV_FOREACH (path, c->paths)
                *strrchr(*path, '/') = 0;
        *strrchr(c->unified, '/') = 0;
        return any_is_delegated(c);
}

int unit_keep(Error *e)
{
        _cleanup_(cgroups_done) Cgroups unit = {};

        if (!host_runs_systemd()) {
                int r = error_set(e, -ENOSYS,
                                  "Cannot keep the unit for the pod: systemd is not the init of this host");
                return error_hint(e, r, "Run it without --keep-unit.");
        }
        int r = cgroups_of_process(getpid(), &unit, e);
        if (r < 0)
                return r;
        _cleanup_free_ char *own = strdup(unit.unified);
        if (!own)
                return error_oom(e);
        return find_unit(&unit) ? divide(&unit, e) : not_delegated_error(own, e);
}
