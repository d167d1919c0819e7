/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Shared by all verbs: global options, usage errors, opening the store, and writing results.
 *
 * Results are buffered by stdio and flushed at the end of main(), where a full disk or a closed pipe is
 * detected. Text from images or pods is escaped by text_escape_for_terminal() before it is written to a
 * terminal, so that they cannot control it.
 */

#include <poll.h>

#include "config.h"
#include "stage0/context/context.h"
#include "stage0/host/host.h"

/* --- Global options ------------------------------------------------------------------------------------ */

static const char *const json_modes[_JSON_MODE_MAX] = {
                [JSON_OFF] = "off",
                [JSON_SHORT] = "short",
                [JSON_PRETTY] = "pretty",
};

static int option_json(const Option *o, const char *value, void *target, Error *e)
{
        JsonMode *mode = target;

        if (!value) { /* depends on the output */
                *mode = isatty(STDOUT_FILENO) ? JSON_PRETTY : JSON_SHORT;
                return 0;
        }
        int r = word_index(json_modes, ELEMENTSOF(json_modes), value);
        if (r < 0)
                return option_invalid(o, value, e, "must be short, pretty or off");
        *mode = (JsonMode) r;
        return 0;
}

static int option_quiet(const Option *o, const char *value, void *target, Error *e)
{
        *(bool *) target = true;
        log_set_max_level(LOG_LEVEL_ERROR);
        return 0;
}

static int option_debug(const Option *o, const char *value, void *target, Error *e)
{
        *(bool *) target = true;
        log_set_max_level(LOG_LEVEL_DEBUG);
        return 0;
}

const Option global_options[] = {
                {"Global Options", "dir", 0, "PATH", false,
                 "Use the store at PATH instead of " ACNSPAWN_STATEDIR, "directory", option_word,
                 offsetof(Context, dir)},
                {NULL, "config-dir", 0, "PATH", false,
                 "Read configuration from PATH instead of " ACNSPAWN_SYSCONFDIR " and " ACNSPAWN_LIBEXECDIR,
                 "directory", option_word, offsetof(Context, config_dirs)},
                {NULL, "json", 0, "MODE", true, "Show results as JSON: short, pretty or off",
                 "short|pretty|off", option_json, offsetof(Context, json)},
                {NULL, NULL, 'j', NULL, false, "Same as --json=pretty on a terminal, --json=short elsewhere",
                 NULL, option_json, offsetof(Context, json)},
                {NULL, "no-legend", 0, NULL, false, "Do not show table headers", NULL, option_true,
                 offsetof(Context, no_legend)},
                {NULL, "quiet", 'q', NULL, false, "Show errors only: no warnings, no progress", NULL,
                 option_quiet, offsetof(Context, quiet)},
                {NULL, "debug", 0, NULL, false, "Show what is being done in detail", NULL, option_debug,
                 offsetof(Context, debug)},
                {NULL, "help", 'h', NULL, false, "Show this help", NULL, option_stop,
                 offsetof(Context, help)},
                {NULL, "version", 0, NULL, false, "Show the version", NULL, option_stop,
                 offsetof(Context, version)},
                OPTION_END,
};

const char *const *context_config_dirs(const Context *c)
{
        return isempty(c->config_dirs[0]) ? NULL : c->config_dirs;
}

/* --- Command lines ------------------------------------------------------------------------------------- */

int context_usage_error(Context *c, int r)
{
        _cleanup_free_ char *hint = c->error.hint ? strdup(c->error.hint) : NULL;
        const char *name = c->verb ? c->verb->name : NULL;

        c->usage = true;
        return error_hint(&c->error, r, "%s%sTry 'acnspawn %s%s--help' for more information.", hint ?: "",
                          hint ? " " : "", name ?: "", name ? " " : "");
}

int context_usage(Context *c, const char *format, ...)
{
        _cleanup_free_ char *message = NULL;
        va_list ap;

        va_start(ap, format);
        int r = xvasprintf(&message, format, ap);
        va_end(ap);
        if (r < 0)
                return error_oom(&c->error);
        return context_usage_error(c, error_set(&c->error, -EINVAL, "%s", message));
}

void words_done(Words *w)
{
        free(w->list);
        w->list = NULL;
}

static int check_words(Context *c, const Words *w)
{
        if (w->n < w->min)
                return context_usage(c, "'acnspawn %s' needs %s", c->verb->name, w->what);
        if (w->n > w->max) {
                _cleanup_free_ char *shown = text_escape_for_terminal(w->list[w->max]);
                return context_usage(c, "Unexpected argument '%s'", shown ?: "");
        }
        return 1;
}

int context_parse(Context *c, const Option *options, void *data, int argc, char **argv, Words *words)
{
        static const Option none[] = {OPTION_END};
        _cleanup_words_ Words no_words = {};
        OptionSet sets[] = {{options ?: none, data}, {global_options, c}};
        OptionParser p = {.sets = sets, .n_sets = ELEMENTSOF(sets), .argc = argc, .argv = argv};
        Words *w = words ?: &no_words;

        int r = options_words(&p, &w->list, &w->n, &c->error);
        if (r < 0)
                return context_usage_error(c, r);
        if (c->help || c->version)
                return c->help ? context_show_help(c, c->verb) : context_show_version(c);
        r = check_words(c, w);
        if (r > 0 && context_apply_conf(c, "Image", &sets[0]) < 0)
                return -EINVAL;
        if (r > 0 && context_apply_conf(c, "Run", &sets[0]) < 0)
                return -EINVAL;
        return r;
}

bool context_was_interrupted(const Context *c, int r)
{
        return r == -EINTR && operation_is_cancelled(c->operation);
}

void context_print_error(Context *c, int r)
{
        r = host_limits_hint(c->store ? store_path(c->store) : c->dir ?: ACNSPAWN_STATEDIR, &c->error, r);
        (void) fflush(stdout); /* keeps the order where both streams go to one file */
        error_print(&c->error, r);
}

void context_show_warnings(char *const *warnings)
{
        STRV_FOREACH (w, warnings) {
                _cleanup_free_ char *shown = text_escape_for_terminal(*w);
                log_warning("%s", shown ?: "");
        }
}

int context_for_each(Context *c, const Words *words,
                     int (*function)(Context *c, const char *word, void *userdata), void *userdata)
{
        int status = EXIT_SUCCESS;

        for (size_t i = 0; i < words->n; i++) {
                int r = function(c, words->list[i], userdata);
                if (context_was_interrupted(c, r))
                        return r;
                if (r < 0) {
                        context_print_error(c, r);
                        error_done(&c->error);
                }
                if (r != 0)
                        status = EXIT_STATUS_FAILURE;
        }
        return status;
}

/* --- acnspawn.conf ------------------------------------------------------------------------------------- */

int context_read_conf(Context *c)
{
        if (c->has_conf)
                return 0;
        int r = conf_load(c->config_dirs[0], &c->conf, &c->error);
        if (r < 0)
                return r;
        c->has_conf = true;
        STRV_FOREACH (w, c->conf.warnings)
                log_warning("%s", *w);
        return 0;
}

int context_apply_conf_as(Context *c, const char *verb, const char *section, const OptionSet *set)
{
        int r = context_read_conf(c);

        return r < 0 ? r : conf_apply(&c->conf, verb, section, set, &c->error);
}

int context_apply_conf(Context *c, const char *section, const OptionSet *set)
{
        return context_apply_conf_as(c, c->verb->name, section, set);
}

int context_find_dir(Context *c)
{
        if (c->dir)
                return 0;
        int r = context_read_conf(c);
        if (r < 0)
                return r;
        const char *dir = ACNSPAWN_STATEDIR;
        r = conf_store_directory(&c->conf, &dir, &c->error);
        if (r >= 0)
                c->dir = dir;
        return r;
}

/* --- The store ----------------------------------------------------------------------------------------- */

static int refuse_user(Context *c, const char *dir)
{
        error_set(&c->error, -EACCES,
                  "'acnspawn %s' needs root: the store '%s' is not accessible to user %u", c->verb->name,
                  dir, (unsigned) geteuid());
        return error_hint(&c->error, -EACCES, "Run it as root, for example with sudo.");
}

int context_open_store(Context *c)
{
        int r = context_find_dir(c);

        if (r < 0)
                return r;
        r = store_open(c->dir, c->operation, &c->store, &c->error);

        if ((r == -EACCES || r == -EPERM) && geteuid() != 0)
                return refuse_user(c, c->dir);
        return r;
}

int context_open_store_if_there(Context *c)
{
        int r = context_find_dir(c);

        if (r < 0)
                return r;
        if (!isempty(c->dir) && access(c->dir, F_OK) < 0 && errno == ENOENT)
                return 0;
        r = context_open_store(c);
        return r < 0 ? r : 1;
}

int context_open_existing_store(Context *c)
{
        int r = context_open_store_if_there(c);

        if (r != 0)
                return r;
        r = error_set(&c->error, -ENOENT, "There is no store at '%s'", c->dir);
        return error_hint(&c->error, r, "Use another one with --dir=; 'acnspawn fetch' creates a new one.");
}

int context_parse_for_store(Context *c, const Option *options, void *data, int argc, char **argv,
                            Words *words)
{
        int r = context_parse(c, options, data, argc, argv, words);

        if (r <= 0)
                return r;
        r = context_open_existing_store(c);
        return r < 0 ? r : 1;
}

static int require_root(Context *c)
{
        if (geteuid() == 0)
                return 0;
        error_set(&c->error, -EPERM, "'acnspawn %s' needs root: it creates mounts and namespaces",
                  c->verb->name);
        return error_hint(&c->error, -EPERM, "Run it as root, for example with sudo.");
}

int context_open_store_as_root(Context *c)
{
        int r = require_root(c);

        return r < 0 ? r : context_open_store(c);
}

int context_open_store_if_there_as_root(Context *c)
{
        int r = require_root(c);

        return r < 0 ? r : context_open_store_if_there(c);
}

int context_open_existing_store_as_root(Context *c)
{
        int r = require_root(c);

        return r < 0 ? r : context_open_existing_store(c);
}

/* --- Results ------------------------------------------------------------------------------------------- */

/* Why an earlier write has failed: the stream remembers that it did, but not why. */
static int earlier_failure(void)
{
        struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};

        return poll(&p, 1, 0) > 0 && (p.revents & POLLERR) ? EPIPE : EIO;
}

int context_flush(Context *c)
{
        errno = 0;
        if (fflush(stdout) == 0 && !ferror(stdout))
                return 0;
        return error_set_errno(&c->error, -(errno ?: earlier_failure()), "Cannot write to standard output");
}

int context_show_text(Context *c, const char *text)
{
        /* The stream remembers a failure; context_flush() reports it. */
        (void) fputs(text, stdout);
        return 0;
}

int context_show_json(Context *c, json_object *o)
{
        _cleanup_free_ char *text = NULL;

        if (json_to_text(o, c->json == JSON_PRETTY, &text) < 0)
                return error_oom(&c->error);
        return context_show_text(c, text);
}

/* With --quiet a list is for programs: what identifies each object, in full. */
static int show_objects(Context *c, const Table *t)
{
        _cleanup_text_ Text lines = {};
        _cleanup_free_ char *text = NULL;

        for (size_t i = 0; i < table_n_rows(t); i++) {
                _cleanup_free_ char *value = table_value(t, i, 0);
                if (!value)
                        return error_oom(&c->error);
                text_addf(&lines, "%s\n", value);
        }
        text_add(&lines, "");
        return text_take(&lines, &text, NULL) < 0 ? error_oom(&c->error) : context_show_text(c, text);
}

int context_show_table(Context *c, const Table *t, const char *what)
{
        _cleanup_free_ char *text = NULL;
        Display d = display_of(STDOUT_FILENO);

        if (c->json != JSON_OFF) {
                _cleanup_json_ json_object *o = table_to_json(t);
                return context_show_json(c, o);
        }
        if (what && c->quiet && table_lists_objects(t))
                return show_objects(c, t);
        if (what && table_n_rows(t) == 0) {
                log_info("No %s in the store %s.", what, c->store ? store_path(c->store) : c->dir);
                return 0;
        }
        if (table_format(t, &d, !c->no_legend, &text) < 0)
                return error_oom(&c->error);
        return context_show_text(c, text);
}

int context_check_format(Context *c, const TableFormat *f)
{
        return f->text && c->json != JSON_OFF ? context_usage(c, "--format= with fields in braces cannot be "
                                                                 "combined with --json; a list of fields "
                                                                 "can")
                                              : 0;
}

int context_show_table_as(Context *c, Table *t, const TableFormat *f, const char *const *usual,
                          const char *what)
{
        _cleanup_free_ char *text = NULL;

        if (f->text && table_n_rows(t) == 0)
                return context_show_table(c, t, what);
        if (!f->text)
                return table_select_format(t, f, usual) < 0 ? error_oom(&c->error)
                                                            : context_show_table(c, t, what);
        if (table_fill_text(t, f, &text) < 0)
                return error_oom(&c->error);
        return context_show_text(c, text);
}

int context_show_version(Context *c)
{
        if (c->json == JSON_OFF) {
                printf("acnspawn %s\nApp Container specification %s\n", ACNSPAWN_VERSION, SCHEMA_VERSION);
                return EXIT_SUCCESS;
        }
        _cleanup_json_ json_object *o = json_object_new_object();
        if (json_member_add_text(o, "version", ACNSPAWN_VERSION) < 0 ||
            json_member_add_text(o, "acVersion", SCHEMA_VERSION) < 0)
                return error_oom(&c->error);
        return context_show_json(c, o);
}

void context_add_removed(Context *c, Table *t, const char *name)
{
        if (c->json == JSON_OFF)
                printf("%s\n", name);
        else
                table_add_text(t, name);
}

int context_show_removed(Context *c, const Table *t, int status)
{
        if (status < 0 || c->json == JSON_OFF)
                return status;
        int r = context_show_table(c, t, NULL);
        return r < 0 ? r : status;
}

static int show_escaped_line(Context *c, const char *line, size_t n)
{
        _cleanup_free_ char *copy = strndup(line, n), *shown = copy ? text_escape_for_terminal(copy) : NULL;

        if (!shown)
                return error_oom(&c->error);
        return context_show_text(c, shown);
}

int context_show_document(Context *c, const char *text, size_t size)
{
        const char *end = text + size;

        if (!isatty(STDOUT_FILENO)) {
                (void) fwrite(text, 1, size, stdout);
                return 0;
        }
        while (text < end) {
                /* Tabs are safe, and text between them is not truncated at NUL bytes this way. */
                size_t n = 0;
                while (text + n < end && text[n] != '\n' && text[n] != '\t' && text[n] != 0)
                        n++;
                int r = show_escaped_line(c, text, n);
                if (r < 0)
                        return r;
                if (text + n < end)
                        (void) fputs(text[n] == 0 ? "\\x00" : text[n] == '\n' ? "\n" : "\t", stdout);
                text += n + 1;
        }
        if (size > 0 && end[-1] != '\n')
                (void) fputs("\n", stdout); /* separates it from the prompt */
        return 0;
}
