/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A cgroup for each command that runs beside an app, below that of the app's unit, so that all that it starts can
 * be killed at once, also what has made a session of its own.
 *
 * It is made in the v2 hierarchy only, without controllers: what the app is limited to holds for the command. The
 * pod's systemd kills and removes the cgroups below that of a unit which it stops.
 */

#include <sys/stat.h>

#include "stage0/supervisor/exec/exec-internal.h"

#define PROCS_SIZE_MAX (1U << 20)
#define MOVE_TRIES 8U

void exec_cgroup_done(ExecCgroup *c)
{
        c->fd = safe_close(c->fd);
        c->app_fd = safe_close(c->app_fd);
}

static int open_app(Pod *p, const char *app)
{
        _cleanup_free_ char *slice = NULL, *unit = NULL, *unified = NULL, *path = NULL;

        int r = nested_slices(app, &slice);
        if (r >= 0)
                r = stage1_app_unit_name(app, &unit);
        if (r >= 0)
                r = pod_cgroup_unified(p, &unified);
        if (r >= 0)
                r = xasprintf(&path, "%s/payload/app.slice/%s/%s", unified, slice, unit);
        if (r < 0)
                return r;
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

static int make(Pod *p, const char *app, uint64_t id, ExecCgroup *c)
{
        c->app_fd = open_app(p, app);
        if (c->app_fd < 0)
                return c->app_fd;
        snprintf(c->name, sizeof(c->name), "exec-%" PRIu64, id);
        if (mkdirat(c->app_fd, c->name, 0755) < 0)
                return -errno;
        c->fd = openat(c->app_fd, c->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return c->fd < 0 ? -errno : 0;
}

int exec_cgroup_make(Pod *p, const char *app, uint64_t id, ExecCgroup *ret)
{
        ExecCgroup c = EXEC_CGROUP_NULL;

        int r = make(p, app, id, &c);
        if (r < 0) {
                exec_cgroup_done(&c);
                return r == -ENOENT || r == -ENODEV ? -ESRCH : r;
        }
        *ret = c;
        return 0;
}

int exec_cgroup_kill(const ExecCgroup *c)
{
        return write_attribute_at(c->fd, "cgroup.kill", "1");
}

/* Moves them to where the app's own processes are. A process that forks meanwhile leaves its child here. */
static int move_processes(const ExecCgroup *c)
{
        _cleanup_free_ char *text = NULL;

        int r = read_file_at(c->fd, "cgroup.procs", PROCS_SIZE_MAX, &text, NULL);
        for (char *line = text, *end; r >= 0 && *line; line = end) {
                end = line + strcspn(line, "\n");
                if (*end)
                        *end++ = 0;
                (void) write_attribute_at(c->app_fd, "cgroup.procs", line);
        }
        return r;
}

static int remove_once(const ExecCgroup *c)
{
        return unlinkat(c->app_fd, c->name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

int exec_cgroup_remove(const ExecCgroup *c, bool move)
{
        int r = remove_once(c);

        for (unsigned i = 0; r == -EBUSY && move && i < MOVE_TRIES; i++) {
                if (move_processes(c) < 0)
                        return r;
                r = remove_once(c);
        }
        return r;
}
