/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn trust: manages the keys that are trusted for signatures of images.
 *
 * A key from a file, a URL or, for a prefix, found by meta discovery, is shown with its fingerprint and user
 * IDs, and trusted after confirmation: only the user can compare the fingerprint with that published by its
 * owner. Without a terminal to ask on, the key is refused unless --yes is given.
 */

#include <poll.h>

#include "prepare/discovery/discovery.h"
#include "prepare/transfer/transfer.h"
#include "prepare/trust/trust.h"
#include "stage0/cli/interrupt.h"
#include "stage0/verbs/verb.h"

typedef struct Arguments {
        const char *prefix, *remove;
        bool root, yes, list;
        unsigned insecure;
        /* The state of the command. */
        Context *context;
        Trust *trust;
        Transfer *transfer; /* created when it is needed */
        Table *table;       /* of the changes */
} Arguments;

/* Insecure connections for fetching keys. The keys themselves are confirmed by the user, or by --yes. */
static int option_insecure(const Option *o, const char *value, void *target, Error *e)
{
        unsigned *all = target, these;

        if (insecure_options_from_string(value, &these) < 0)
                return option_invalid(o, value, e, "must be a list of http and tls; or none, all");
        bool named = strstr(value, "signature") || strstr(value, "pubkey");
        if (named)
                return option_invalid(o, value, e,
                                      "keys are fetched with http and tls only; this option is for images");
        *all = these == 0 ? 0 : *all | (these & (INSECURE_HTTP | INSECURE_TLS));
        return 0;
}

static int option_fingerprint(const Option *o, const char *value, void *target, Error *e)
{
        if (trust_fingerprint_check(value, NULL) < 0)
                return option_invalid(o, value, e,
                                      "a fingerprint has 40 hexadecimal digits; the last 16 of them or more "
                                      "are enough");
        *(const char **) target = value;
        return 0;
}

/* Checked before anything is fetched. */
static int option_prefix(const Option *o, const char *value, void *target, Error *e)
{
        _cleanup_error_ Error why = ERROR_NULL;

        if (ac_identifier_check(value, &why) < 0)
                return option_invalid_because(o, value, e, &why);
        *(const char **) target = value;
        return 0;
}

static const Option options[] = {
                {"Options", "prefix", 0, "PREFIX", false,
                 "Trust the keys for the image PREFIX, and for all names that begin with PREFIX and a slash",
                 NULL, option_prefix, offsetof(Arguments, prefix)},
                {NULL, "root", 0, NULL, false, "Trust the keys for all images", NULL, option_true,
                 offsetof(Arguments, root)},
                {NULL, "yes", 'y', NULL, false, "Do not ask whether the fingerprints are right", NULL,
                 option_true, offsetof(Arguments, yes)},
                {NULL, "skip-fingerprint-review", 0, NULL, false, "Same as --yes", NULL, option_true,
                 offsetof(Arguments, yes)},
                {NULL, "insecure-options", 0, "LIST", false,
                 "Accept keys over insecure connections: http (no encryption), tls (certificates not "
                 "checked)",
                 "http|tls|none|all", option_insecure, offsetof(Arguments, insecure)},
                {NULL, "list", 0, NULL, false, "Show the keys that are trusted", NULL, option_true,
                 offsetof(Arguments, list)},
                {NULL, "remove", 0, "FINGERPRINT", false,
                 "Stop trusting a key; with --prefix= or --root only for that", NULL, option_fingerprint,
                 offsetof(Arguments, remove)},
                OPTION_END,
};

static void arguments_done(Arguments *a)
{
        (void) transfer_free(a->transfer);
        (void) trust_free(a->trust);
        (void) table_free(a->table);
}

/* --- Getting keys -------------------------------------------------------------------------------------- */

/* What comes from a pipe may take long. */
static int read_input(Context *c, int fd, const char *file, char *data, size_t size, size_t *ret_size)
{
        size_t n = 0;

        for (;;) {
                int r = operation_poll(c->operation, fd, POLLIN, -1, &c->error);
                if (operation_ended(r))
                        return r;
                ssize_t k = r < 0 ? r : read(fd, data + n, size - n);
                if (k < 0 && r >= 0)
                        k = -errno;
                if (k == -EINTR)
                        continue;
                if (k < 0)
                        return error_set_errno(&c->error, (int) k, "Cannot read the key file '%s'", file);
                n += (size_t) k;
                if (k == 0 || n == size)
                        break;
        }
        *ret_size = n;
        return 0;
}

static int read_file(Context *c, const char *file, char **ret, size_t *ret_size)
{
        _cleanup_free_ char *data = malloc(TRUST_KEY_FILE_MAX + 2);
        _cleanup_close_ int fd = input_open(file, O_RDONLY);

        if (!data)
                return error_oom(&c->error);
        if (fd < 0)
                return error_set(&c->error, fd, "Cannot open the key file '%s': %s", file,
                                 input_problem(fd));
        /* One byte more than allowed, so that the parser reports that it is too large. */
        int r = read_input(c, fd, file, data, TRUST_KEY_FILE_MAX + 1, ret_size);
        if (r >= 0)
                *ret = TAKE_PTR(data);
        return r;
}

static void note(const char *line, void *userdata)
{
        log_warning("%s", line);
}

static int open_transfer(Arguments *a)
{
        TransferOptions o = {.insecure = a->insecure,
                             .operation = a->context->operation,
                             .config_dirs = context_config_dirs(a->context),
                             .note = note};

        return a->transfer ? 0 : transfer_new(&o, &a->transfer, &a->context->error);
}

static int download(Arguments *a, const char *url, char **ret, size_t *ret_size)
{
        TransferRequest request = {.url = url, .size_max = TRUST_KEY_FILE_MAX, .what = "the keys"};
        int r = open_transfer(a);

        return r < 0 ? r : transfer_get(a->transfer, &request, ret, ret_size, NULL, &a->context->error);
}

/* --- Confirmation -------------------------------------------------------------------------------------- */

static void add_date(Text *t, const char *label, uint64_t usec, const char *none)
{
        _cleanup_free_ char *date = usec > 0 ? format_timestamp(usec) : strdup(none);

        text_addf(t, "  %-12s %s", label, date ?: "?");
}

static void add_fingerprint(Text *t, const char *fingerprint)
{
        text_addf(t, "  %-12s", "Fingerprint:");
        for (size_t i = 0; fingerprint[i]; i++)
                text_addf(t, "%s%c", i % 4 == 0 ? " " : "", fingerprint[i]);
        text_add(t, "\n");
}

static void add_key(Text *t, const TrustKey *k)
{
        add_fingerprint(t, k->fingerprint);
        STRV_FOREACH (u, k->user_ids) {
                _cleanup_free_ char *shown = text_escape_for_terminal(*u);
                text_addf(t, "  %-12s %s\n", "User ID:", shown ?: "?");
        }
        text_addf(t, "  %-12s %s\n", "Algorithm:", k->algorithm);
        add_date(t, "Created:", k->created_usec, "?");
        text_add(t, "\n");
        add_date(t, "Expires:", k->expires_usec, "never");
        text_addf(t, "%s\n", k->expired ? " (it has expired: its signatures are not accepted)" : "");
        if (k->revoked)
                text_add(t, "  It has been revoked: its signatures are not accepted.\n");
        else if (!k->can_sign && !k->expired)
                text_add(t, "  It cannot sign.\n");
}

/* Shows the properties of the keys on standard error. */
static int show_keys(const Arguments *a, const TrustKeys *keys, const char *what)
{
        _cleanup_text_ Text t = {};
        _cleanup_free_ char *text = NULL;

        text_addf(&t, "%s has %s%s%s%s:\n", what, keys->n == 1 ? "this key for " : "these keys for ",
                  a->prefix ? "'" : "all images", a->prefix ?: "",
                  a->prefix ? "' and the images below" : "");
        for (size_t i = 0; i < keys->n; i++) {
                if (i > 0)
                        text_add(&t, "\n");
                add_key(&t, &keys->items[i]);
        }
        if (text_take(&t, &text, NULL) < 0)
                return -ENOMEM;
        text[0] = to_upper(text[0]);
        fputs(text, stderr);
        return 0;
}

static int refuse_to_guess(Context *c, const char *what)
{
        int r = error_set(&c->error, -ENOTTY,
                          "The fingerprints of %s have to be compared with those published by the owner, "
                          "and there is no terminal to ask on",
                          what);
        return error_hint(&c->error, r, "Run it on a terminal, or with --yes if the source can be trusted.");
}

/* 0: the user agrees. */
static int ask(Context *c, const TrustKeys *keys, const char *what)
{
        char answer[16] = "";

        if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
                return refuse_to_guess(c, what);
        fprintf(stderr, "Trust %s? [y/N] ", keys->n == 1 ? "this key" : "these keys");
        int r = operation_poll(c->operation, STDIN_FILENO, POLLIN, -1, &c->error);
        if (r < 0)
                return r;
        if (!fgets(answer, sizeof(answer), stdin))
                fputc('\n', stderr);
        answer[strcspn(answer, "\r\n")] = 0;
        if (strcasecmp(answer, "y") == 0 || strcasecmp(answer, "yes") == 0)
                return 0;
        return error_set(&c->error, -ECANCELED, "Not confirmed: %s changes nothing", what);
}

/* --- Adding -------------------------------------------------------------------------------------------- */

static int need_root(Context *c, int r)
{
        if ((r == -EACCES || r == -EPERM || r == -EROFS) && geteuid() != 0 && !c->error.hint)
                return error_hint(&c->error, r, "Run it as root, for example with sudo.");
        return r;
}

static int add_data(Arguments *a, const char *data, size_t size, const char *what)
{
        _cleanup_trust_keys_ TrustKeys keys = {};
        Context *c = a->context;

        int r = trust_inspect_key(data, size, what, c->operation, &keys, &c->error);
        if (r < 0)
                return r;
        if ((!a->yes || !c->quiet) && show_keys(a, &keys, what) < 0)
                return error_oom(&c->error);
        if (!a->yes)
                r = ask(c, &keys, what);
        if (r >= 0)
                r = trust_add(a->trust, a->prefix, data, size, what, &c->error);
        if (r < 0)
                return need_root(c, r);
        if (r == 0)
                log_info("Nothing is new in %s: it is trusted already.", what);
        for (size_t i = 0; i < keys.n; i++)
                table_add_text(a->table, keys.items[i].fingerprint);
        return 0;
}

static int add_one(Context *c, const char *word, void *userdata)
{
        bool is_url = strstr(word, "://");
        _cleanup_free_ char *data = NULL, *what = NULL, *shown = NULL;
        Arguments *a = userdata;
        size_t size = 0;

        shown = is_url ? url_for_display(word) : text_escape_for_terminal(word);
        if (!shown || xasprintf(&what, streq(word, "-") ? "standard input" : "the key file '%s'", shown) < 0)
                return error_oom(&c->error);
        int r = is_url ? download(a, word, &data, &size) : read_file(c, word, &data, &size);
        return r < 0 ? r : add_data(a, data, size, what);
}

static int add_all(Context *c, Arguments *a, const Words *words)
{
        int status = context_for_each(c, words, add_one, a);
        int r = status >= 0 ? context_show_table(c, a->table, NULL) : status;

        return r < 0 ? r : status;
}

/* --- Keys that their owner offers for a prefix (spec: discovery.md) ------------------------------------ */

static int not_offered(Arguments *a, char *const *attempts)
{
        _cleanup_free_ char *tried = strv_join(attempts, "; ");
        Context *c = a->context;
        int r = error_set(&c->error, -ENOENT, "No page offers keys for '%s'%s%s%s", a->prefix,
                          isempty(tried) ? "" : " (", tried ?: "", isempty(tried) ? "" : ")");

        return error_hint(&c->error, r, "Give a file or a URL with the keys after --prefix=%s.", a->prefix);
}

static int find_offered(Arguments *a, Discovery *d)
{
        _cleanup_strv_free_ char **attempts = NULL;
        Context *c = a->context;
        PairList labels = {};

        int r = open_transfer(a);
        if (r >= 0 && discovery_labels(&labels, &labels) < 0)
                r = error_oom(&c->error);
        if (r >= 0)
                r = discovery_walk(a->transfer, a->prefix, &labels, DISCOVERY_PUBKEYS, a->insecure, d,
                                   &attempts, &c->error);
        pair_list_done(&labels);
        return r == 0 ? not_offered(a, attempts) : r;
}

static int add_offered(Context *c, Arguments *a)
{
        _cleanup_discovery_ Discovery d = {};
        _cleanup_words_ Words words = {};

        int r = discovery_possible(a->prefix) ? find_offered(a, &d) : not_offered(a, NULL);
        if (r < 0)
                return r;
        words.n = strv_length(d.pubkeys);
        words.list = calloc(words.n + 1, sizeof(char *));
        if (!words.list)
                return error_oom(&c->error);
        for (size_t i = 0; i < words.n; i++)
                words.list[i] = d.pubkeys[i];
        return add_all(c, a, &words);
}

/* --- Listing and removing ------------------------------------------------------------------------------ */

static const TableColumn list_columns[] = {
                {"PREFIX", "prefix", false, 16},   {"FINGERPRINT", "fingerprint", false, 0},
                {"USER ID", "userIDs", false, 16}, {"CREATED", "created", false, 0},
                {"EXPIRES", "expires", false, 0},  {"STATE", "state", false, 0},
                {"FILE", "file", false, 20},
};

static void add_state(Table *t, const TrustKey *k)
{
        const char *state = k->problem   ? "unusable"
                            : k->revoked ? "revoked"
                            : k->expired ? "expired"
                                         : "trusted";

        table_add_text(t, state);
        table_set_color(t, streq(state, "trusted") ? COLOR_GREEN : COLOR_RED);
}

static int list(Context *c, Arguments *a)
{
        _cleanup_(table_freep) Table *t = table_new(list_columns, ELEMENTSOF(list_columns));
        _cleanup_trust_keys_ TrustKeys keys = {};
        _cleanup_strv_free_ char **strays = NULL;

        if (!t)
                return error_oom(&c->error);
        int r = trust_list(a->trust, &keys, &strays, &c->error);
        if (r < 0)
                return r;
        for (size_t i = 0; i < keys.n; i++) {
                const TrustKey *k = &keys.items[i];
                table_add_text_as(t, k->prefix, k->prefix[0] ? k->prefix : "(all images)");
                table_add_text(t, k->fingerprint);
                table_add_list(t, k->user_ids);
                table_add_time(t, k->created_usec);
                table_add_time(t, k->expires_usec);
                add_state(t, k);
                table_add_text(t, k->path);
                if (k->problem)
                        log_warning("'%s' is not usable: %s.", k->path, k->problem);
        }
        STRV_FOREACH (s, strays) {
                _cleanup_free_ char *shown = text_escape_for_terminal(*s);
                log_warning("'%s' is not a valid file name of a trusted key, and is ignored; 'acnspawn "
                            "trust' creates such files.",
                            shown ?: "?");
        }
        if (keys.n == 0 && c->json == JSON_OFF) {
                log_info("No keys are trusted.");
                return 0;
        }
        return context_show_table(c, t, NULL);
}

static const TableColumn removed_columns[] = {{"REMOVED", "removed", false, 0}};
static const TableColumn trusted_columns[] = {{"FINGERPRINT", "fingerprint", false, 0}};

static int remove_key(Context *c, Arguments *a)
{
        _cleanup_strv_free_ char **lines = NULL;
        int r = trust_remove(a->trust, a->root ? "" : a->prefix, a->remove, &lines, &c->error);

        if (r < 0)
                return need_root(c, r);
        STRV_FOREACH (l, lines)
                table_add_text(a->table, *l);
        return context_show_table(c, a->table, NULL);
}

/* --- The command line ---------------------------------------------------------------------------------- */

static int check_arguments(Context *c, const Arguments *a, const Words *w)
{
        if (a->prefix && a->root)
                return context_usage(c, "--prefix and --root cannot be given together");
        if (a->list && (a->remove || a->prefix || a->root))
                return context_usage(c, "--list shows all keys, and takes no other options");
        if ((a->list || a->remove) && w->n > 0)
                return context_usage(c, "--list and --remove take no key files");
        if (a->list || a->remove)
                return 0;
        if (!a->prefix && !a->root)
                return context_usage(c, "'acnspawn trust' needs --prefix=PREFIX or --root, or --list");
        if (a->root && w->n == 0)
                return context_usage(c, "'acnspawn trust --root' needs a key file or a URL");
        return 0;
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_(arguments_done) Arguments a = {.context = c};
        _cleanup_words_ Words words = {.max = SIZE_MAX};

        int r = context_parse(c, options, &a, argc, argv, &words);
        if (r > 0) {
                r = check_arguments(c, &a, &words);
                if (r < 0)
                        return r;
        } else
                return r;
        (void) interrupt_catch(c->operation);
        r = trust_open(context_config_dirs(c), c->operation, &a.trust, &c->error);
        if (r < 0)
                return r;
        if (a.list)
                return list(c, &a);
        /* One item per line, for scripts; a header is useless. */
        c->no_legend = true;
        a.table = a.remove ? table_new(removed_columns, 1) : table_new(trusted_columns, 1);
        if (!a.table)
                return error_oom(&c->error);
        if (a.remove)
                return remove_key(c, &a);
        return words.n > 0 ? add_all(c, &a, &words) : add_offered(c, &a);
}

const Verb verb_trust = {
                .name = "trust",
                .page = "acnspawn-trust",
                .synopsis = "[OPTIONS…] --prefix=PREFIX [KEYFILE|URL…]\n"
                            "[OPTIONS…] --root KEYFILE|URL…\n"
                            "[OPTIONS…] --list\n"
                            "[OPTIONS…] --remove=FINGERPRINT",
                .brief = "[KEYFILE|URL…]",
                .summary = "Trust keys that sign images",
                .text = "Shows the public keys in files ('-' is standard input) or at URLs, and asks "
                        "whether to trust them. An image from the network needs a valid signature by a key "
                        "that is trusted for its name.",
                .words = "file",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
