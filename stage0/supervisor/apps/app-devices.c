/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Filters of the devices that apps can open, and the number of cgroups that they can make.
 *
 * The filter is on the app's slice: all of the app is below, and the commands that run beside it, and what is nested under it. It is put there
 * when a launcher requests the app, before anything of the app has run. The cgroup, and with it the filter, goes when all processes have ended;
 * for another one of the same cgroup there is nothing to do, unless the devices of the app are other ones by now: one that was plugged in
 * again, for example. Apps with the same devices, which most have, share a program.
 *
 * An app that may mount, also in a user namespace that it makes, can have its own cgroup writable. The slice is above that, and read-only for it. */

#include <sys/stat.h>

#include "stage0/host/host.h"
#include "stage0/supervisor/apps/app-devices.h"

/* Systems with a manager of their own, a node of Kubernetes for example, need some hundreds of cgroups; apps are nested to level 32. The time
 * to look through cgroups grows with the product of both. Nested apps count for those above them: each has a slice, a service, and one for a
 * health check and for each command, and there can be NESTED_APPS_MAX of them; some may make cgroups themselves. */
#define CGROUPS_MAX "2048"
#define CGROUPS_WITH_NESTED_MAX "16384"
#define CGROUP_LEVELS_MAX "64"

/* One in the kernel. */
typedef struct DeviceProgram {
        unsigned n_users;
        int fd;
        DeviceRules rules;
} DeviceProgram;

struct AppDevices {
        uint64_t cgroup; /* on which PROGRAM is: the kernel does not use a number again */
        DeviceProgram *program;
};

static void program_unref(DeviceProgram *p)
{
        if (!p || --p->n_users > 0)
                return;
        safe_close(p->fd);
        device_rules_done(&p->rules);
        free(p);
}

static void forget_program(AppInstance *a)
{
        program_unref(a->devices->program);
        *a->devices = (struct AppDevices){};
}

void app_devices_forget(AppInstance *a)
{
        if (a->devices)
                program_unref(a->devices->program);
        free(a->devices);
        a->devices = NULL;
}

static DeviceProgram *find_program(const AppTable *t, const DeviceRules *l)
{
        FOREACH_APP(a, t)
        {
                if (a->devices && a->devices->program && device_rules_equal(&a->devices->program->rules, l))
                        return a->devices->program;
        }
        return NULL;
}

/* Takes L over, unless there is such a program. */
static int get_program(const AppTable *t, DeviceRules *l, DeviceProgram **ret)
{
        DeviceProgram *p = find_program(t, l);

        if (p) {
                p->n_users++;
                *ret = p;
                return 0;
        }
        p = malloc(sizeof(DeviceProgram));
        if (!p)
                return -ENOMEM;
        int fd = device_filter_load(l);
        if (fd < 0) {
                free(p);
                return fd;
        }
        *p = (DeviceProgram){.n_users = 1, .fd = fd, .rules = *l};
        *l = (DeviceRules){};
        *ret = p;
        return 0;
}

/* The slice of the app. -ESRCH: the process is not in it. */
static int open_slice(Pod *p, const AppInstance *a, pid_t pid)
{
        _cleanup_free_ char *slices = NULL, *own = NULL, *place = NULL, *path = NULL, *full = NULL;

        int r = nested_slices(a->name, &slices);
        if (r >= 0)
                r = pod_cgroup_unified(p, &own);
        if (r >= 0)
                r = xasprintf(&place, "payload/app.slice/%s/", slices);
        if (r >= 0)
                r = pod_cgroup_of_process(p, pid, &path);
        if (r >= 0 && !startswith(path, place))
                r = -ESRCH;
        if (r >= 0)
                r = xasprintf(&full, "%s/%s", own, place);
        if (r < 0)
                return r;
        int fd = open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

static int apply(AppInstance *a, DeviceRules *l, int cgroup_fd)
{
        struct AppDevices *d = a->devices;
        DeviceProgram *program = NULL;
        struct stat st;

        if (fstat(cgroup_fd, &st) < 0)
                return -errno;
        bool there = d->program && d->cgroup == st.st_ino;
        if (there && device_rules_equal(&d->program->rules, l))
                return 0;
        int r = l->closed ? get_program(a->table, l, &program) : 0;
        if (r >= 0 && program)
                r = device_filter_attach(cgroup_fd, program->fd, there ? d->program->fd : -EBADF);
        else if (r >= 0 && there)
                r = device_filter_detach(cgroup_fd, d->program->fd);
        if (r < 0) {
                program_unref(program);
                return r;
        }
        forget_program(a);
        *d = (struct AppDevices){.cgroup = program ? st.st_ino : 0, .program = program};
        return 0;
}

/* Without cgroup v2 there is nothing to be bounded. -ESRCH: the process has ended, as that of an app which is stopped while it starts. */
static void bound_cgroups(AppInstance *a, int cgroup_fd)
{
        struct stat st = {};

        if (cgroup_fd >= 0 && fstat(cgroup_fd, &st) >= 0 && st.st_ino == a->bounded_cgroup)
                return;
        const char *n = a->settings.control ? CGROUPS_WITH_NESTED_MAX : CGROUPS_MAX;
        int r = cgroup_fd < 0 ? cgroup_fd : write_attribute_at(cgroup_fd, "cgroup.max.descendants", n);

        if (r >= 0)
                r = write_attribute_at(cgroup_fd, "cgroup.max.depth", CGROUP_LEVELS_MAX);
        if (r >= 0)
                a->bounded_cgroup = st.st_ino;
        else if (r != -ENOENT && r != -ESRCH)
                log_warning("The number of cgroups that app %s can make is not bounded: %s.",
                            app_instance_path(a), strerror(-r));
}

int app_devices_apply(Pod *p, AppInstance *a, DeviceRules *l, pid_t pid, Error *e)
{
        bool filtered = l->closed || a->devices, bounded = a->writes_cgroups;

        if (!filtered && !bounded)
                return 0;
        if (filtered && !a->devices && !(a->devices = calloc(1, sizeof(struct AppDevices))))
                return error_oom(e);
        _cleanup_close_ int fd = open_slice(p, a, pid);
        if (bounded)
                bound_cgroups(a, fd);
        if (!filtered)
                return 0;
        int r = fd < 0 ? fd : apply(a, l, fd);
        return r < 0 ? error_set_errno(e, r, "Cannot filter the devices of app %s", app_instance_path(a))
                     : 0;
}
