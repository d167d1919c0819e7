/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A generator of the host's systemd (systemd.generator(7)): what declared pods say about their units.
 *
 *     /usr/lib/systemd/system-generators/acnspawn-generator NORMAL-DIR EARLY-DIR LATE-DIR
 *
 * For each NAME.pod: a drop-in of acnspawn@NAME.service with [Unit] and [Service]; acnspawn@NAME.socket of
 * [Socket], and of exposed ports that are socket-activated (stage0/declared/listen.c); a drop-in of acnspawn-update@NAME.timer with [Update], and a link that starts that timer; links of
 * [Install], so that the unit is started with others. File systems that a pod uses, and the network, are dependencies of its
 * service, in a drop-in of their own (stage0/declared/needs.c); so is the file system of a store that acnspawn.conf has
 * somewhere else, of all units that use it.
 *
 * It runs while the machine boots, with hardly anything
 * there: it reads the files, and does nothing else. What is wrong with one pod is said in the kernel's log, from
 * which the journal takes it, and does not hinder the others; nor do directories that cannot be read. */

#include <sys/stat.h>

#include "config.h"
#include "stage0/cli/conf.h"
#include "stage0/declared/declared.h"

#define HEADER "# Made by acnspawn-generator\n"
/* Two names: a drop-in of an instance overrides one of the template that has the same name. */
#define STORE_DROP_IN "40-store.conf"
#define NEEDS_DROP_IN "41-needs.conf"

typedef struct Generator {
        int dir_fd;
        bool has_socket;  /* the pod that is generated now */
        bool pulls_never; /* pods that do not say otherwise */
        bool failed;
        bool kernel_log; /* messages go to it */
} Generator;

/* --- Messages ------------------------------------------------------------------------------------------ */

static void _printf_(3, 4) say(Generator *g, bool error, const char *format, ...)
{
        _cleanup_free_ char *text = NULL, *line = NULL;
        _cleanup_close_ int fd = g->kernel_log ? open("/dev/kmsg", O_WRONLY | O_CLOEXEC | O_NOCTTY) : -EBADF;
        va_list ap;

        va_start(ap, format);
        (void) xvasprintf(&text, format, ap);
        va_end(ap);
        g->failed = g->failed || error;
        if (fd >= 0 && text &&
            xasprintf(&line, "<%d>acnspawn-generator: %.900s\n", error ? 3 : 4, text) >= 0)
                (void) !write(fd, line, strlen(line));
        else if (text)
                (void) fprintf(stderr, "acnspawn-generator: %s\n", text);
}

static void say_error(Generator *g, const Error *e, int r, const char *what)
{
        say(g, true, "%s: %s", what, e->message ?: strerror(-r));
}

/* --- Files --------------------------------------------------------------------------------------------- */

static int write_unit_file(Generator *g, const char *dir, const char *file, const Text *t)
{
        _cleanup_free_ char *path = NULL;

        if (t->failed || xasprintf(&path, "%s%s%s", dir ?: "", dir ? "/" : "", file) < 0)
                return -ENOMEM;
        if (dir && mkdirat(g->dir_fd, dir, 0755) < 0 && errno != EEXIST)
                return -errno;
        return write_file_new_at(g->dir_fd, path, t->data, t->size, 0644);
}

/* TARGET.SUFFIX/UNIT, by which the host's systemd starts UNIT with TARGET. */
static int link_unit(Generator *g, const char *target, const char *suffix, const char *unit)
{
        _cleanup_free_ char *dir = NULL, *link = NULL, *to = NULL;

        if (xasprintf(&dir, "%s.%s", target, suffix) < 0 || xasprintf(&link, "%s/%s", dir, unit) < 0 ||
            xasprintf(&to, "../%s", unit) < 0)
                return -ENOMEM;
        if (mkdirat(g->dir_fd, dir, 0755) < 0 && errno != EEXIST)
                return -errno;
        return symlinkat(to, g->dir_fd, link) < 0 && errno != EEXIST ? -errno : 0;
}

/* Without SourcePath=: systemd would warn at each `systemctl reload`, which applies changes of the file. Sections for units
 * take effect at a daemon-reload only; `acnspawn apply` warns about those. */
static int write_drop_in(Generator *g, const Declared *d)
{
        _cleanup_free_ char *dir = NULL;
        _cleanup_text_ Text t = {};

        if (!declared_has_section(d, DECLARED_UNIT) && !declared_has_section(d, DECLARED_SERVICE) &&
            !g->has_socket)
                return 0;
        if (xasprintf(&dir, "acnspawn@%s.service.d", d->name) < 0)
                return -ENOMEM;
        text_addf(&t, HEADER "[Unit]\nDocumentation=file:%s\n", d->files[0]);
        declared_add_service(d, &t);
        if (g->has_socket) /* which is started with the service, too */
                text_addf(&t, "\n[Service]\nSockets=acnspawn@%s.socket\n", d->name);
        return write_unit_file(g, dir, DECLARED_DROP_IN, &t);
}

/* Addresses that [Socket] has are instead of those of the ports. */
static int write_socket(Generator *g, const Declared *d)
{
        _cleanup_free_ char *file = NULL;
        _cleanup_text_ Text t = {}, ports = {};

        int r = declared_has_addresses(d) ? 0 : declared_add_ports(d, &ports);
        if (r < 0)
                return r;
        g->has_socket = declared_has_section(d, DECLARED_SOCKET) || ports.size > 0;
        if (!g->has_socket)
                return 0;
        if (xasprintf(&file, "acnspawn@%s.socket", d->name) < 0)
                return -ENOMEM;
        text_addf(&t,
                  HEADER "[Unit]\nDescription=Sockets of Pod "
                         "%s\nDocumentation=man:acnspawn.pod(5)\nSourcePath=%s\n",
                  d->name, d->files[0]);
        if (ports.size > 0)
                text_addf(&t, "\n[Socket]\n%s", ports.data);
        declared_add_section(d, DECLARED_SOCKET, "Socket", &t);
        return write_unit_file(g, NULL, file, &t);
}

/* --- Needs --------------------------------------------------------------------------------------------- */

/* Units that use the store. Those files themselves have the usual place of it. */
static const char *const store_units[] = {
                "acnspawn@.service",   "acnspawn.service",        "acnspawn-cri.service",
                "acnspawn-gc.service", "acnspawn-update.service", "acnspawn-update@.service",
};

static int write_needs(Generator *g, const char *unit, const char *file, const Text *needs)
{
        _cleanup_free_ char *dir = NULL;
        _cleanup_text_ Text t = {};

        if (needs->failed || xasprintf(&dir, "%s.d", unit) < 0)
                return -ENOMEM;
        text_addf(&t, HEADER "[Unit]\n%s", needs->data);
        return write_unit_file(g, dir, file, &t);
}

static int write_pod_needs(Generator *g, const Declared *d)
{
        _cleanup_free_ char *unit = NULL;
        _cleanup_text_ Text t = {};

        int r = xasprintf(&unit, "acnspawn@%s.service", d->name);
        if (r >= 0)
                r = declared_add_mounts(d, &t);
        if (r >= 0)
                r = declared_uses_network(d, g->pulls_never);
        if (r > 0)
                text_add(&t, "Wants=network-online.target\nAfter=network-online.target\n");
        return r < 0 || t.size == 0 ? r : write_needs(g, unit, NEEDS_DROP_IN, &t);
}

/* What acnspawn.conf has for all pods. A value that is not valid is said by the commands that use it. */
static void generate_store(Generator *g, const char *config_dir)
{
        _cleanup_(conf_done) Conf conf = {};
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_text_ Text t = {};
        const char *dir = NULL;

        int r = conf_load(config_dir, &conf, &e);
        g->pulls_never = conf_pulls_never(&conf);
        if (r >= 0)
                r = conf_store_directory(&conf, &dir, &e);
        if (r >= 0 && (!dir || streq(dir, ACNSPAWN_STATEDIR)))
                return;
        if (r >= 0)
                r = declared_add_mount(dir, &t);
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(store_units); i++)
                r = write_needs(g, store_units[i], STORE_DROP_IN, &t);
        if (r < 0)
                say_error(g, &e, r, "Units do not wait for the file system of the store");
}

/* --- [Update] ------------------------------------------------------------------------------------------ */

/* Times that the file names are in place of the daily one of acnspawn-update@.timer. */
static bool has_times(const Declared *d)
{
        for (size_t i = 0; i < d->n_settings; i++)
                if (d->settings[i].section == DECLARED_UPDATE && startswith(d->settings[i].key, "On") &&
                    *d->settings[i].value)
                        return true;
        return false;
}

static int write_timer(Generator *g, const Declared *d)
{
        _cleanup_free_ char *unit = NULL, *dir = NULL;
        _cleanup_text_ Text t = {};

        if (!d->has_update)
                return 0;
        if (xasprintf(&unit, "acnspawn-update@%s.timer", d->name) < 0 || xasprintf(&dir, "%s.d", unit) < 0)
                return -ENOMEM;
        text_addf(&t, HEADER "[Unit]\nSourcePath=%s\n", d->files[0]);
        if (has_times(d))
                text_add(&t, "\n[Timer]\nOnCalendar=\n");
        declared_add_section(d, DECLARED_UPDATE, "Timer", &t);
        int r = write_unit_file(g, dir, DECLARED_DROP_IN, &t);
        return r < 0 ? r : link_unit(g, "timers.target", "wants", unit);
}

/* --- [Install] ----------------------------------------------------------------------------------------- */

static int link_pod(Generator *g, const Declared *d, const char *target, const char *suffix)
{
        bool is_socket = streq(target, "sockets.target") && g->has_socket;
        _cleanup_free_ char *unit = NULL;

        if (xasprintf(&unit, "acnspawn@%s.%s", d->name, is_socket ? "socket" : "service") < 0)
                return -ENOMEM;
        return link_unit(g, target, suffix, unit);
}

/* Words that are not valid have been reported. */
static int install(Generator *g, const Declared *d, const DeclaredSetting *s)
{
        const char *suffix = declared_install_suffix(s->key), *reason = NULL;
        _cleanup_strv_free_ char **words = NULL;

        int r = suffix ? declared_words(s->value, &words, &reason) : 0;
        STRV_FOREACH (word, words)
                if (r >= 0 && declared_is_unit_name(*word) && declared_may_start_with(d, *word))
                        r = link_pod(g, d, *word, suffix);
        return r == -EINVAL ? 0 : r;
}

static int install_all(Generator *g, const Declared *d)
{
        for (size_t i = 0; i < d->n_settings; i++) {
                int r = d->settings[i].section == DECLARED_INSTALL && *d->settings[i].value
                                        ? install(g, d, &d->settings[i])
                                        : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

/* --- The pods ------------------------------------------------------------------------------------------ */

/* Only the syntax and the sections for units are checked here: what the keys of pods and apps mean is said when the pod
 * is started. */
static void say_findings(Generator *g, const Declared *d)
{
        for (size_t i = 0; i < d->n_findings; i++)
                say(g, d->findings[i].error, "%s:%u: %s", d->findings[i].place.file,
                    d->findings[i].place.line, d->findings[i].text);
}

static void generate(Generator *g, char *const *dirs, const char *name)
{
        _cleanup_(declared_freep) Declared *d = NULL;
        _cleanup_error_ Error e = ERROR_NULL;

        int r = declared_load_partly(dirs, name, &d, &e);
        if (r < 0) {
                say_error(g, &e, r, name);
                return;
        }
        r = declared_check_units(d);
        say_findings(g, d);
        if (r >= 0)
                r = write_socket(g, d);
        if (r >= 0)
                r = write_drop_in(g, d);
        if (r >= 0)
                r = write_pod_needs(g, d);
        if (r >= 0)
                r = write_timer(g, d);
        if (r >= 0)
                r = install_all(g, d);
        if (r < 0)
                say(g, true, "Cannot write the units of pod %s: %s", name, strerror(-r));
}

static void say_misnamed(Generator *g, char *const *dirs)
{
        _cleanup_strv_free_ char **files = NULL;

        if (declared_list_misnamed(dirs, &files, NULL) < 0)
                return;
        STRV_FOREACH (file, files) {
                _cleanup_free_ char *shown = text_escape_for_terminal(*file);
                say(g, false, "'%.300s' declares no pod: it is not named like one", shown ?: "?");
        }
}

static void generate_pods(Generator *g, const char *config_dir)
{
        _cleanup_strv_free_ char **dirs = NULL, **readable = NULL, **failures = NULL, **names = NULL;
        _cleanup_error_ Error e = ERROR_NULL;

        int r = declared_dirs(config_dir, &dirs);
        if (r >= 0)
                r = declared_readable_dirs(dirs, &readable, &failures);
        STRV_FOREACH (failure, failures)
                say(g, true, "Pods are left out: %s", *failure);
        if (r >= 0)
                r = declared_list(readable, &names, &e);
        if (r < 0)
                say_error(g, &e, r, "Cannot list the declared pods");
        STRV_FOREACH (name, names)
                generate(g, readable, *name);
        say_misnamed(g, readable);
}

int main(int argc, char *argv[])
{
        const char *scope = getenv("SYSTEMD_SCOPE"), *config_dir = getenv("ACNSPAWN_CONFIG_DIR");
        Generator g = {.dir_fd = -EBADF, .kernel_log = scope && streq(scope, "system")};

        if (argc != 2 && argc != 4) {
                (void) fprintf(stderr, "This is a generator of systemd, see acnspawn-generator(8): it takes "
                                       "one directory, or three.\n");
                return 1;
        }
        g.dir_fd = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (g.dir_fd < 0) {
                say(&g, true, "Cannot open '%s': %s", argv[1], strerror(errno));
                return 1;
        }
        generate_store(&g, config_dir);
        generate_pods(&g, config_dir);
        safe_close(g.dir_fd);
        return g.failed;
}
