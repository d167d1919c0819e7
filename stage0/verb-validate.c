/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn validate: checks image and pod manifests against the specification and prints all that is wrong
 * with them, each with its place in the document. Needs neither root nor a store.
 */

#include "stage0/verb.h"

static const TableColumn columns[] = {
                {"FILE", "file", false, 0},
                {"PLACE", "path", false, 0},
                {"MESSAGE", "message", false, 0},
};

static int read_manifest(Context *c, const char *file, char **ret, size_t *ret_size)
{
        _cleanup_close_ int fd = -EBADF;
        _cleanup_free_ char *text = NULL;
        bool standard_input = streq(file, "-");

        fd = standard_input ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                            : open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0)
                return error_set_errno(&c->error, -errno, "Cannot open '%s'", file);

        /* One byte more than may be there, so that the parser sees that it is too much. Pipes are fine,
         * too. */
        text = malloc(MANIFEST_SIZE_MAX + 2);
        if (!text)
                return error_oom(&c->error);
        ssize_t n = loop_read(fd, text, MANIFEST_SIZE_MAX + 1);
        if (n < 0)
                return error_set_errno(&c->error, (int) n, "Cannot read '%s'", file);
        text[n] = 0;
        *ret = TAKE_PTR(text);
        *ret_size = (size_t) n;
        return 0;
}

static bool looks_like_archive(const char *text, size_t n)
{
        static const char *const magics[] = {"\x1f\x8b", "BZh", "\xfd\x37zXZ"};

        for (size_t i = 0; i < ELEMENTSOF(magics); i++)
                if (n > strlen(magics[i]) && memcmp(text, magics[i], strlen(magics[i])) == 0)
                        return true;
        return n > 262 && memcmp(text + 257, "ustar", 5) == 0;
}

/* The kind of document, by its acKind; NULL if it has none. *RET_DOCUMENT keeps the string alive. */
static const char *document_kind(const char *text, size_t size, json_object **ret_document)
{
        json_object *kind;

        if (json_parse_strict(text, size, ret_document, NULL, NULL) < 0)
                return NULL;
        if (!json_object_is_type(*ret_document, json_type_object) ||
            !json_object_object_get_ex(*ret_document, "acKind", &kind) ||
            !json_object_is_type(kind, json_type_string))
                return NULL;
        return json_object_get_string(kind);
}

/* Without a kind the parser of image manifests says what is missing, which is right for either. */
static int check(const char *text, size_t size, Findings *findings, const char **ret_kind, Error *e)
{
        _cleanup_(image_manifest_freep) ImageManifest *image = NULL;
        _cleanup_(pod_manifest_freep) PodManifest *pod = NULL;
        _cleanup_json_ json_object *document = NULL;
        const char *kind = document_kind(text, size, &document);

        if (kind && streq(kind, "PodManifest")) {
                *ret_kind = "pod manifest";
                return pod_manifest_parse(text, size, &pod, findings, e);
        }
        *ret_kind = "image manifest";
        return image_manifest_parse(text, size, &image, findings, e);
}

static int show_finding(Context *c, const char *file, const Finding *f, FILE *to)
{
        _cleanup_free_ char *line = NULL, *shown = NULL;

        if (xasprintf(&line, "%s: %s%s%s", file, f->path, f->path[0] ? ": " : "", f->message) < 0 ||
            !(shown = text_escape_for_terminal(line)))
                return error_oom(&c->error);
        fprintf(to, "%s%s\n", to == stderr ? "Warning: " : "", shown);
        return 0;
}

/* Findings are the result, and go to the output; warnings are beside it. */
static int show_findings(Context *c, Table *t, const char *file, const Findings *findings)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < findings->n; i++) {
                table_add_text(t, file);
                table_add_text(t, findings->items[i].path);
                table_add_text(t, findings->items[i].message);
                if (c->json == JSON_OFF)
                        r = show_finding(c, file, &findings->items[i], stdout);
        }
        for (size_t i = 0; r >= 0 && !c->quiet && i < findings->n_warnings; i++)
                r = show_finding(c, file, &findings->warnings[i], stderr);
        return r;
}

/* 0 if the document is valid, 1 if not (the findings were shown). */
static int validate_one(Context *c, const char *file, void *userdata)
{
        _cleanup_findings_ Findings findings = {};
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_free_ char *text = NULL;
        Table *t = userdata;
        const char *kind;
        size_t size = 0;

        int r = read_manifest(c, file, &text, &size);
        if (r < 0)
                return r;
        if (looks_like_archive(text, size)) {
                r = error_set(&c->error, -EINVAL, "'%s' is an archive, not a manifest", file);
                return error_hint(&c->error, r,
                                  "'acnspawn fetch' checks an image archive and the manifest in it.");
        }
        r = check(text, size, &findings, &kind, &e);
        if (r == -ENOMEM)
                return error_oom(&c->error);
        if (r < 0 && findings.n == 0) /* nothing to be pointed at: too large, for one */
                return error_set(&c->error, r, "'%s': %s", file, e.message ?: strerror(-r));
        if (r >= 0 && c->json == JSON_OFF && !c->quiet)
                printf("%s: valid %s\n", file, kind);
        int k = show_findings(c, t, file, &findings);
        return k < 0 ? k : r < 0;
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {
                        .min = 1, .max = SIZE_MAX, .what = "a manifest file, or '-' for standard input"};
        _cleanup_(table_freep) Table *t = table_new(columns, ELEMENTSOF(columns));

        int r = context_parse(c, NULL, NULL, argc, argv, &words);
        if (r <= 0)
                return r;
        if (!t)
                return error_oom(&c->error);
        int status = context_for_each(c, &words, validate_one, t);
        if (c->json != JSON_OFF)
                r = context_show_table(c, t, NULL);
        return r < 0 ? r : status;
}

const Verb verb_validate = {
                .name = "validate",
                .synopsis = "[OPTIONS…] FILE…",
                .brief = "FILE…",
                .summary = "Check image and pod manifests",
                .text = "Checks manifests against the App Container specification and prints every finding "
                        "with "
                        "its place in the document. Exits with 0 if all are valid, 1 if not.",
                .words = "file",
                .run = run,
};
