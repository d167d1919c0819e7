/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A scope unit for every pod, on hosts whose init is systemd.
 *
 * There, all cgroups are managed by systemd, and a subtree has to be delegated: a scope with Delegate= is
 * requested, as nspawn would. A scope exists as long as it contains a process, so it ends with the pod in
 * any case. Only if the process dies while systemd is moving it there, systemd does not notice that the
 * scope is empty; so it is stopped before the pod is removed.
 *
 * The request is sent over systemd's private socket, which does not depend on a D-Bus daemon.
 */

#include <limits.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "library/libsystemd.h"
#include "schema/settings.h"
#include "stage0/host/host-internal.h"

#define START_TIMEOUT_USEC (30 * UINT64_C(1000000))
#define STOP_ANSWER_USEC (10 * UINT64_C(1000000))
#define UNIT_NAME_MAX 255U
#define MANAGER_STOP_USEC (90 * UINT64_C(1000000)) /* for the pod's systemd: the default of units */

/* Without a flush, which waits for a systemd that does not answer. */
static void bus_unrefp(sd_bus **b)
{
        sd_bus_close_unref(*b);
}

static void message_unrefp(sd_bus_message **m)
{
        sd_bus_message_unref(*m);
}

/* systemd applies the stop time-out of a unit to the stop signal and again to SIGKILL; a post-stop handler adds its own run,
 * its stop signal and its SIGKILL. */
static uint64_t app_stop_timeout(const Pod *p, const PodApp *a)
{
        _cleanup_(app_settings_done) AppSettings s = {};
        uint64_t timeout = p->config.stop_timeout_usec;

        if (app_settings_read(a, &s, NULL) >= 0 && s.stop_timeout_usec > 0)
                timeout = s.stop_timeout_usec;
        return __builtin_mul_overflow(timeout, a->app && a->app->post_stop ? 5U : 2U, &timeout) ? UINT64_MAX
                                                                                                : timeout;
}

/* In the worst case all apps stop one after the other. */
uint64_t pod_stop_timeout(const Pod *p)
{
        uint64_t sum = MANAGER_STOP_USEC;

        for (size_t i = 0; p->manifest && i < p->manifest->n_apps; i++)
                if (__builtin_add_overflow(sum, app_stop_timeout(p, p->manifest->apps[i]), &sum))
                        return UINT64_MAX;
        return sum;
}

/* Requests, relative to other pods, which are in the same slice. */
static int append_requests(sd_bus_message *m, const Pod *p)
{
        PodRequests q = {};
        int r = 0;

        if (p->manifest)
                stage1_pod_requests(&p->manifest->isolators, &q);
        if (q.cpu_weight > 0)
                r = sd_bus_message_append(m, "(sv)", "CPUWeight", "t", q.cpu_weight);
        if (r >= 0 && q.memory_low > 0)
                r = sd_bus_message_append(m, "(sv)", "MemoryLow", "t", q.memory_low);
        return r;
}

/* --- Order --------------------------------------------------------------------------------------------- */

/* If it is about to start, a scope after it would wait for that start, which may wait for the unit that runs this pod. */
static bool network_is_up(sd_bus *bus, uint64_t end_usec, const NetworkStop *stop)
{
        _cleanup_free_ char *state = NULL;

        return host_systemd_get(bus, SYSTEMD_PATH "/unit/network_2etarget", SYSTEMD_NAME ".Unit",
                                "ActiveState", end_usec, stop, &state) >= 0 &&
               streq(state, "active");
}

/* The name of the mount unit of PATH, as systemd has it. Longer ones are hashed, by newer versions. */
static int add_mount_unit(const char *path, size_t size, char ***units)
{
        _cleanup_text_ Text t = {};

        for (size_t i = 1; i < size; i++) {
                char c = path[i];
                if (c == '/')
                        text_add(&t, "-");
                else if (is_alphanumeric(c) || c == '_' || c == ':' || (c == '.' && i > 1))
                        text_addf(&t, "%c", c);
                else
                        text_addf(&t, "\\x%02x", (unsigned char) c);
        }
        text_add(&t, ".mount");
        if (t.failed)
                return -ENOMEM;
        return t.size > UNIT_NAME_MAX || strv_contains(*units, t.data) ? 0 : strv_extend(units, t.data);
}

/* True also if the kernel cannot tell without asking the file system: an order after a unit that does not exist has no effect. */
static bool is_mounted(const char *path)
{
        _cleanup_close_ int fd = open_cached(path, false);
        struct statx st;

        return fd < 0 || fd_stat_cached(fd, &st) < 0 || st.stx_attributes & STATX_ATTR_MOUNT_ROOT;
}

/* The mounts that PATH is on. They are not required: the stop of one does not end the pod. */
static int add_mounts(const char *path, char ***units)
{
        int r = 0;

        if (!path_is_normalized(path) || !path_is_absolute(path))
                return 0;
        for (size_t n = 1; r >= 0 && path[n];) {
                n += strcspn(path + n + 1, "/") + 1;
                _cleanup_free_ char *part = strndup(path, n);
                if (!part)
                        return -ENOMEM;
                if (is_mounted(part))
                        r = add_mount_unit(path, n, units);
        }
        return r;
}

/* The source of a host volume without symlinks, as far as that is known without asking its file system, which may not answer. */
static int real_source(const Volume *v, char **ret)
{
        _cleanup_close_ int fd = open_cached(v->source, true);
        _cleanup_free_ char *link = NULL;
        char path[PATH_MAX];

        if (xasprintf(&link, "/proc/self/fd/%d", fd) < 0)
                return -ENOMEM;
        ssize_t n = fd < 0 ? fd : readlink(link, path, sizeof(path) - 1);
        path[MAX(n, 0)] = 0;
        *ret = strdup(n > 0 && path_is_normalized(path) ? path : v->source);
        return *ret ? 0 : -ENOMEM;
}

/* File systems of the store and of host volumes. */
static int add_file_systems(const Pod *p, char ***units)
{
        int r = add_mounts(store_path(p->store), units);

        for (size_t i = 0; r >= 0 && p->manifest && i < p->manifest->n_volumes; i++) {
                _cleanup_free_ char *source = NULL;
                if (p->manifest->volumes[i].kind != VOLUME_HOST)
                        continue;
                r = real_source(&p->manifest->volumes[i], &source);
                if (r >= 0)
                        r = add_mounts(source, units);
        }
        return r;
}

/* When the host is shut down, what a pod uses until its end is stopped after the scope: the network, file systems and name
 * spaces that are mounted, and, for the request to a controller, the bus. By default the order is that of chance. */
static int append_order(sd_bus_message *m, bool has_network, const Pod *p, const char *controller)
{
        _cleanup_strv_free_ char **units = NULL;

        int r = strv_extend(&units, "basic.target");
        if (r >= 0 && has_network)
                r = strv_extend(&units, "network.target");
        if (r >= 0 && controller)
                r = strv_extend(&units, "dbus.service");
        if (r >= 0 && controller)
                r = strv_extend(&units, "systemd-machined.service");
        if (r >= 0)
                r = add_file_systems(p, &units);
        if (r >= 0)
                r = sd_bus_message_open_container(m, 'r', "sv");
        if (r >= 0)
                r = sd_bus_message_append(m, "s", "After");
        if (r >= 0)
                r = sd_bus_message_open_container(m, 'v', "as");
        if (r >= 0)
                r = sd_bus_message_append_strv(m, units);
        if (r >= 0)
                r = sd_bus_message_close_container(m);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

/* --- The unit ------------------------------------------------------------------------------------------ */

/* The unit's name, without its suffix, is also that of cgroups created on hosts without systemd. */
int pod_scope_name(const Pod *p, char **ret)
{
        return xasprintf(ret, "acnspawn-%s.scope", p->uuid);
}

/* The last part of the path is the name of the slice, which has those of its parents in it. */
static const char *slice_of(const Pod *p)
{
        return p->config.cgroup_parent ? strrchr(p->config.cgroup_parent, '/') + 1 : "machine.slice";
}

static int append_properties(sd_bus_message *m, bool has_network, const Pod *p, pid_t pid,
                             const char *controller)
{
        _cleanup_free_ char *description = NULL;

        int r = xasprintf(&description, "Pod %s", p->uuid);
        if (r >= 0)
                r = sd_bus_message_open_container(m, 'a', "(sv)");
        if (r >= 0)
                r = sd_bus_message_append(m, "(sv)(sv)(sv)(sv)(sv)(sv)(sv)", "Description", "s", description,
                                          "Slice", "s", slice_of(p), "Delegate", "b", 1, "TasksMax", "t",
                                          UINT64_MAX, "CollectMode", "s", "inactive-or-failed",
                                          "TimeoutStopUSec", "t", pod_stop_timeout(p), "PIDs", "au", 1,
                                          (uint32_t) pid);
        if (r >= 0 && controller)
                r = sd_bus_message_append(m, "(sv)", "Controller", "s", controller);
        if (r >= 0)
                r = append_order(m, has_network, p, controller);
        if (r >= 0)
                r = append_requests(m, p);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

static int new_call(sd_bus *bus, bool has_network, const Pod *p, pid_t pid, const char *controller,
                    sd_bus_message **ret)
{
        _cleanup_(message_unrefp) sd_bus_message *m = NULL;
        _cleanup_free_ char *unit = NULL;

        int r = pod_scope_name(p, &unit);
        if (r >= 0)
                r = sd_bus_message_new_method_call(bus, &m, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER,
                                                   "StartTransientUnit");
        if (r >= 0)
                r = sd_bus_message_append(m, "ss", unit, "fail");
        if (r >= 0)
                r = append_properties(m, has_network, p, pid, controller);
        if (r >= 0)
                r = sd_bus_message_append(m, "a(sa(sv))", 0);
        if (r >= 0)
                *ret = TAKE_PTR(m);
        return r;
}

/* If /run is full, systemd reports only that it did not find the unit, which it could not write. */
static bool run_is_full(void)
{
        struct statvfs fs;

        return statvfs("/run", &fs) >= 0 &&
               ((fs.f_blocks > 0 && fs.f_bavail == 0) || (fs.f_files > 0 && fs.f_favail == 0));
}

static int start_unit(sd_bus *bus, const Pod *p, pid_t pid, const char *controller, const NetworkStop *stop,
                      Error *e)
{
        _cleanup_(bus_error_done) sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(message_unrefp) sd_bus_message *call = NULL;
        _cleanup_free_ char *result = NULL;

        uint64_t end = deadline_after(START_TIMEOUT_USEC);
        bool has_network = network_is_up(bus, end, stop);

        int r = stop && network_stop_is_pending(stop)
                                ? -EINTR
                                : new_call(bus, has_network, p, pid, controller, &call);
        if (r >= 0)
                r = systemd_run_job(bus, call, end, stop, &result, &error);
        if (r == -EINTR)
                return error_set(e, r, "Interrupted while systemd creates the scope of pod %s",
                                 pod_display_name(p));
        if (r >= 0 && !streq(result, "done"))
                r = -EIO;
        if (r >= 0)
                return 0;
        if (run_is_full()) {
                r = error_set(e, -ENOSPC,
                              "systemd did not create a scope for pod %s: there is no space in /run",
                              pod_display_name(p));
                return error_hint(e, r,
                                  "Remove files there, or make it larger: mount -o remount,size=SIZE /run");
        }
        return error_set(e, r, "systemd did not create a scope for pod %s: %s", pod_display_name(p),
                         result ?: error.message ?: strerror(-r));
}

bool unit_is_own(const char *unit)
{
        _cleanup_free_ char *own = NULL, *part = NULL;

        return xasprintf(&part, "/%s/", unit) >= 0 &&
               read_file_at(AT_FDCWD, "/proc/self/cgroup", 65536, &own, NULL) >= 0 && strstr(own, part);
}

int pod_scope_stop(const Pod *p, Error *e)
{
        _cleanup_(bus_error_done) sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(bus_unrefp) sd_bus *bus = NULL;
        _cleanup_(message_unrefp) sd_bus_message *call = NULL, *reply = NULL;
        _cleanup_free_ char *unit = NULL;

        int r = pod_scope_name(p, &unit);
        /* A supervisor that was started detached is in the scope of its pod. Stopping the scope would end it with the
         * pod half removed. */
        if (r >= 0 && unit_is_own(unit))
                return 0;
        if (r >= 0)
                r = host_systemd_connect(&bus);
        if (r >= 0)
                r = sd_bus_message_new_method_call(bus, &call, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER,
                                                   "StopUnit");
        if (r >= 0)
                r = sd_bus_message_append(call, "ss", unit, "replace");
        if (r >= 0)
                r = systemd_call(bus, call, deadline_after(STOP_ANSWER_USEC), NULL, &reply, &error);
        if (r >= 0 || sd_bus_error_has_name(&error, "org.freedesktop.systemd1.NoSuchUnit"))
                return 0;
        return error_set(e, r, "Cannot stop the scope of pod %s: %s", pod_display_name(p),
                         error.message ?: strerror(-r));
}

/* On the system bus this process has a name, by which systemd can call back. */
static int start_unit_by_name(const PodPlace *place, const Pod *p, pid_t pid, Error *e)
{
        const char *name;
        int r = sd_bus_get_unique_name(place->bus, &name);

        if (r < 0)
                return error_set_errno(e, r,
                                       "Cannot request a scope for pod %s from systemd over the system bus",
                                       pod_display_name(p));
        return start_unit(place->bus, p, pid, name, place->stop, e);
}

int pod_scope_start(const Pod *p, pid_t pid, const PodPlace *place, Error *e)
{
        _cleanup_(bus_unrefp) sd_bus *bus = NULL;

        if (place->bus)
                return start_unit_by_name(place, p, pid, e);
        int r = host_systemd_connect(&bus);
        if (r < 0) {
                r = error_set_errno(e, r,
                                    "Cannot request a scope for pod %s from systemd over " SYSTEMD_SOCKET,
                                    pod_display_name(p));
                return error_hint(e, r,
                                  "Run acnspawn as root, and not in a container that sees the host's /run.");
        }
        return start_unit(bus, p, pid, NULL, place->stop, e);
}
