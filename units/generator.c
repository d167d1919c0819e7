/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A generator of the host's systemd (systemd.generator(7)): what declared pods say about their units.
 *
 *     /usr/lib/systemd/system-generators/acnspawn-generator NORMAL-DIR EARLY-DIR LATE-DIR
 *
 * For each NAME.pod: a drop-in of acnspawn@NAME.service with [Unit] and [Service]; acnspawn@NAME.socket of
 * [Socket], and of exposed ports that are socket-activated (stage0/declared/listen.c); a drop-in of acnspawn-update@NAME.timer with [Update], and a link that starts that timer; links of
 * [Install], so that the unit is started with others. It runs while the machine boots, with hardly anything
 * there: it reads the files, and does nothing else. What is wrong with one pod is said in the kernel's log, from
 * which the journal takes it, and does not hinder the others. */

#include <sys/stat.h>

#include "stage0/declared/declared.h"

#define HEADER "# Made by acnspawn-generator\n"

typedef struct Generator {
        int dir_fd;
        bool has_socket; /* the pod that is generated now */
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

        int r = declared_load(dirs, name, &d, &e);
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

int main(int argc, char *argv[])
{
        const char *scope = getenv("SYSTEMD_SCOPE");
        Generator g = {.dir_fd = -EBADF, .kernel_log = scope && streq(scope, "system")};
        _cleanup_strv_free_ char **dirs = NULL, **names = NULL;
        _cleanup_error_ Error e = ERROR_NULL;

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
        int r = declared_dirs(getenv("ACNSPAWN_CONFIG_DIR"), &dirs);
        if (r >= 0)
                r = declared_list(dirs, &names, &e);
        if (r < 0)
                say_error(&g, &e, r, "Cannot list the declared pods");
        STRV_FOREACH (name, names)
                generate(&g, dirs, *name);
        say_misnamed(&g, dirs);
        safe_close(g.dir_fd);
        return g.failed;
}
