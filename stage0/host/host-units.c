/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The pods that units of the host refer to, which collectors leave alone: the unit acnspawn@NAME could not start without its
 * pod.
 *
 * A unit counts if it is enabled, in a directory of the host's systemd, or loaded, as it is while it is active, has failed or is
 * needed by another one. A unit whose pod is declared in a file makes the pod anew at each start, and needs none. */

#include "library/libsystemd.h"
#include "stage0/declared/declared.h"
#include "stage0/host/host-internal.h"

#define PREFIX "acnspawn@"
#define SUFFIX ".service"
#define CALL_USEC (10 * UINT64_C(1000000))

/* Where units are enabled: the search path of systemd's manager. */
static const char *const unit_directories[] = {
                "/etc/systemd/system.control", "/run/systemd/system.control",
                "/run/systemd/transient",      "/run/systemd/generator.early",
                "/etc/systemd/system",         "/etc/systemd/system.attached",
                "/run/systemd/system",         "/run/systemd/system.attached",
                "/run/systemd/generator",      "/usr/local/lib/systemd/system",
                "/usr/lib/systemd/system",     "/lib/systemd/system",
                "/run/systemd/generator.late",
};

static void bus_unrefp(sd_bus **b)
{
        sd_bus_flush_close_unref(*b);
}

static void message_unrefp(sd_bus_message **m)
{
        sd_bus_message_unref(*m);
}

/* Adds NAME of the unit acnspawn@NAME.service. */
static int add_unit(char ***names, const char *unit)
{
        _cleanup_free_ char *name = NULL;
        const char *begin = startswith(unit, PREFIX), *end = begin ? endswith(begin, SUFFIX) : NULL;

        if (!end || end == begin)
                return 0;
        name = strndup(begin, (size_t) (end - begin));
        if (!name)
                return -ENOMEM;
        return strv_contains(*names, name) ? 0 : strv_consume(names, TAKE_PTR(name));
}

/* --- Enabled units ------------------------------------------------------------------------------------- */

static bool holds_dependencies(const char *name)
{
        return endswith(name, ".wants") || endswith(name, ".requires") || endswith(name, ".upholds");
}

/* What is not there has none. */
static int list_directory(int at, const char *path, char ***ret)
{
        _cleanup_close_ int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
                return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
        return list_names(fd, ret);
}

static int add_enabled_in(char ***names, const char *directory)
{
        _cleanup_strv_free_ char **entries = NULL;
        int r = list_directory(AT_FDCWD, directory, &entries);

        for (char **entry = entries; r >= 0 && entry && *entry; entry++) {
                _cleanup_strv_free_ char **units = NULL;
                _cleanup_free_ char *path = NULL;

                if (!holds_dependencies(*entry))
                        continue;
                r = xasprintf(&path, "%s/%s", directory, *entry);
                if (r >= 0)
                        r = list_directory(AT_FDCWD, path, &units);
                for (char **unit = units; r >= 0 && unit && *unit; unit++)
                        r = add_unit(names, *unit);
        }
        return r;
}

/* $SYSTEMD_UNIT_PATH replaces the directories, as for systemd. */
static int add_enabled(char ***names, Error *e)
{
        _cleanup_strv_free_ char **other = NULL;
        const char *path = secure_getenv("SYSTEMD_UNIT_PATH");
        int r = path ? strv_split(path, ":", &other) : 0;

        for (size_t i = 0; r >= 0 && !path && i < ELEMENTSOF(unit_directories); i++)
                r = add_enabled_in(names, unit_directories[i]);
        for (char **directory = other; r >= 0 && directory && *directory; directory++)
                r = add_enabled_in(names, *directory);
        return r < 0 ? error_set_errno(e, r, "Cannot read which units are enabled") : 0;
}

/* --- Loaded units -------------------------------------------------------------------------------------- */

static int read_list(sd_bus_message *m, char ***names)
{
        int r = sd_bus_message_enter_container(m, 'a', "(ssssssouso)");

        while (r >= 0) {
                const char *unit, *skipped[8];
                uint32_t job;

                r = sd_bus_message_read(m, "(ssssssouso)", &unit, &skipped[0], &skipped[1], &skipped[2],
                                        &skipped[3], &skipped[4], &skipped[5], &job, &skipped[6],
                                        &skipped[7]);
                if (r <= 0)
                        return r;
                r = add_unit(names, unit);
        }
        return r;
}

static int add_loaded(char ***names, Error *e)
{
        _cleanup_(bus_error_done) sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(message_unrefp) sd_bus_message *reply = NULL;
        _cleanup_(bus_unrefp) sd_bus *bus = NULL;

        int r = library_load(&systemd_library, e);
        if (r < 0)
                return r;
        r = host_systemd_connect(&bus);
        if (r >= 0)
                r = sd_bus_set_method_call_timeout(bus, CALL_USEC);
        if (r >= 0)
                r = sd_bus_call_method(bus, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER,
                                       "ListUnitsByPatterns", &error, &reply, "asas", 0, 1,
                                       PREFIX "*" SUFFIX);
        if (r >= 0)
                r = read_list(reply, names);
        return r < 0 ? error_set(e, r, "Cannot ask systemd which units are loaded: %s",
                                 error.message ?: strerror(-r))
                     : 0;
}

/* --- The pods ------------------------------------------------------------------------------------------ */

static int drop_declared(char **names, const char *config_dir, Error *e)
{
        _cleanup_strv_free_ char **dirs = NULL, **declared = NULL;
        size_t n = 0;

        if (declared_dirs(config_dir, &dirs) < 0)
                return error_oom(e);
        int r = declared_list(dirs, &declared, e);
        if (r < 0)
                return r;
        STRV_FOREACH (name, names) {
                if (strv_contains(declared, *name))
                        free(*name);
                else
                        names[n++] = *name;
        }
        if (names)
                names[n] = NULL;
        return 0;
}

int pods_of_units(const char *config_dir, char ***ret, Error *e)
{
        _cleanup_strv_free_ char **names = NULL;

        int r = add_enabled(&names, e);
        if (r >= 0 && host_runs_systemd())
                r = add_loaded(&names, e);
        if (r >= 0)
                r = drop_declared(names, config_dir, e);
        if (r < 0)
                return error_prefix(e, r, "Cannot find out which pods units of the host need");
        *ret = TAKE_PTR(names);
        return 0;
}
