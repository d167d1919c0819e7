/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Unloading the units of an app that is down. The pod's systemd reads the file of a unit when it loads it, so a later app of the
 * same name, or another one in the place of this, would get the old unit as long as that is loaded. systemd unloads a unit that is
 * down and has no references with a delay, so the supervisor asks until it has.
 *
 * systemd stores limits that were changed by calls in drop-ins, which would apply to a later app of the same name: they are
 * removed, too. */

#include "stage0/supervisor/pod/app-change.h"

#define UNLOAD_USEC UINT64_C(5000)
#define ANSWER_USEC UINT64_C(2000000)
#define UNLOAD_TRIES 2000U                  /* ten seconds: the host may be busy */
#define UNLOAD_ACCURACY_USEC UINT64_C(1000) /* the default of sd-event is 250 ms */

static int ask_whether_loaded(AppChange *c);

static void end_unloading(AppChange *c, bool done)
{
        c->timer = sd_event_source_disable_unref(c->timer);
        c->slot = sd_bus_slot_unref(c->slot);
        c->units = strv_free(c->units);
        c->unloaded(c, done);
}

static int on_ask_again(sd_event_source *source, uint64_t usec, void *userdata)
{
        AppChange *c = userdata;

        if (++c->tries > UNLOAD_TRIES || ask_whether_loaded(c) < 0)
                end_unloading(c, false);
        return 0;
}

static int ask_later(AppChange *c, uint64_t usec)
{
        c->timer = sd_event_source_disable_unref(c->timer);
        return sd_event_add_time_relative(c->supervisor->event, &c->timer, CLOCK_MONOTONIC, usec,
                                          UNLOAD_ACCURACY_USEC, on_ask_again, c);
}

/* The last one of the list is checked first. */
static char **current_unit(const AppChange *c)
{
        size_t n = strv_length(c->units);

        return n > 0 ? &c->units[n - 1] : NULL;
}

static int on_loaded(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
        AppChange *c = userdata;
        char **unit = current_unit(c);

        if (sd_bus_message_get_error(m) && !manager_link_is_open(c->supervisor->manager))
                end_unloading(c, false);
        else if (sd_bus_message_get_error(m) && unit) {
                *unit = (free(*unit), NULL);
                unit = current_unit(c);
                if (!unit)
                        end_unloading(c, true);
                else if (ask_whether_loaded(c) < 0)
                        end_unloading(c, false);
        } else if (ask_later(c, UNLOAD_USEC) < 0)
                end_unloading(c, false);
        return 0;
}

/* There is no reply if the connection is made again. */
static int ask_whether_loaded(AppChange *c)
{
        ManagerLink *l = c->supervisor->manager;

        c->slot = sd_bus_slot_unref(c->slot);
        int r = ask_later(c, ANSWER_USEC);
        if (r < 0)
                return r;
        return l ? manager_link_is_loaded(l, *current_unit(c), on_loaded, c, &c->slot) : -ENOTCONN;
}

static void on_target_stopped(AppChange *c, int r, const char *result)
{
        c->supervisor->target_released = r >= 0;
        if (r == -ECONNRESET || ask_whether_loaded(c) < 0)
                end_unloading(c, false);
}

/* The target that has started the pod wants the units of the apps that it was prepared with, and keeps them
 * loaded as long as it is active. Once the pod is up, nothing depends on it. */
static int release_target(AppChange *c)
{
        Supervisor *s = c->supervisor;

        if (!s->manager || s->target_released)
                return ask_whether_loaded(c);
        return change_run(c, "StopUnit", "default.target", on_target_stopped);
}

/* Slices stay active after their units have ended. */
static void on_slice_stopped(AppChange *c, int r, const char *result)
{
        if (r == -ECONNRESET || release_target(c) < 0)
                end_unloading(c, false);
}

/* The slice comes first in the list, so it is unloaded after the units in it. */
static int list_units(const AppInstance *app, char ***ret)
{
        char *slice = NULL;

        int r = stage1_app_slice_name(app->name, &slice);
        if (r >= 0)
                r = strv_consume(ret, slice);
        if (r >= 0 && app->settings.health.command)
                r = strv_extendf(ret, "health-%s.timer", app->name);
        if (r >= 0 && app->settings.health.command)
                r = strv_extendf(ret, "health-%s.service", app->name);
        return r < 0 ? r : strv_extend(ret, app->units[0].name);
}

/* Opened below the root of the pod, so that links cannot lead out of it. */
static void remove_drop_ins(const Supervisor *s, char *const *units)
{
        char root[sizeof("/proc//root") + 10];

        snprintf(root, sizeof(root), "/proc/%d/root", (int) s->runtime.leader);
        _cleanup_close_ int root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
        _cleanup_close_ int fd = root_fd < 0 ? -EBADF
                                             : open_beneath(root_fd, "run/systemd/system.control",
                                                            O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        STRV_FOREACH (unit, units) {
                _cleanup_free_ char *name = NULL;

                if (fd >= 0 && xasprintf(&name, "%s.d", *unit) >= 0)
                        (void) rm_rf_at(fd, name);
        }
}

int change_unload(AppChange *c, const AppInstance *app, void (*then)(AppChange *c, bool done))
{
        ManagerLink *l = c->supervisor->manager;

        c->unloaded = then;
        c->tries = 0;
        c->units = strv_free(c->units);
        if (list_units(app, &c->units) < 0)
                return -ENOMEM;
        if (!l)
                return -ENOTCONN;
        remove_drop_ins(c->supervisor, c->units);
        for (char **unit = c->units + 1; *unit; unit++)
                (void) manager_link_reset(l, *unit);
        return change_run(c, "StopUnit", c->units[0], on_slice_stopped);
}
