/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn validate: checks manifests, images and layouts against the specification and prints all findings,
 * each with its place in the document. Needs neither root nor a store, and writes nothing.
 *
 * For pod manifests it also reports errors of prepare, by the same code, as far as they do not depend on
 * images or on the host. For images it reports privileges requested beyond the defaults, which prepare
 * refuses unless they are granted: such an image is still valid.
 *
 * The type of a file is detected by its first bytes: JSON, or an archive, which may be encrypted; archives
 * of other formats by the names in them. Data in a pipe, which cannot be read again, is peeked at without
 * consuming it.
 */

#include <poll.h>
#include <sys/stat.h>

#include "library/libcapng.h"
#include "prepare/build/build.h"
#include "prepare/fetch/fetch.h"
#include "prepare/oci/oci.h"
#include "prepare/trust/trust.h"
#include "schema/settings.h"
#include "stage0/verbs/verb.h"
#include "stage1/stage1.h"

#define PEEK_SIZE 512U

static const TableColumn columns[] = {
                {"FILE", "file", false, 0},
                {"PLACE", "path", false, 0},
                {"MESSAGE", "message", false, 0},
                {"SEVERITY", "severity", false, 0},
};

typedef enum Severity { SEVERITY_ERROR, SEVERITY_NOTICE, _SEVERITY_MAX } Severity;

static const char *const severities[_SEVERITY_MAX] = {
                [SEVERITY_ERROR] = "error",
                [SEVERITY_NOTICE] = "notice",
};

typedef struct Arguments {
        const char *passphrase_file;
        bool strict;
} Arguments;

typedef struct Validation {
        Context *context;
        const Arguments *arguments;
        Table *table;
        const char *file;  /* the current file, as the user named it */
        size_t n_warnings; /* of the current OCI layout or archive */
        bool oom;
} Validation;

static const Option options[] = {
                {"Options", "passphrase-file", 0, "FILE", false,
                 "Decrypt encrypted images with the passphrase in FILE", "file", option_word,
                 offsetof(Arguments, passphrase_file)},
                {NULL, "strict", 0, NULL, false, "Treat warnings as findings", NULL, option_true,
                 offsetof(Arguments, strict)},
                OPTION_END,
};

/* --- Showing ------------------------------------------------------------------------------------------- */

static void show_finding(Validation *v, const char *file, const char *path, const char *message,
                         Severity severity)
{
        _cleanup_free_ char *line = NULL, *shown = NULL;

        table_add_text(v->table, file);
        table_add_text(v->table, path);
        table_add_text(v->table, message);
        table_add_text(v->table, severities[severity]);
        if (v->context->json != JSON_OFF)
                return;
        if (xasprintf(&line, "%s: %s%s%s", file, path, path[0] ? ": " : "", message) < 0 ||
            !(shown = text_escape_for_terminal(line)))
                v->oom = true;
        else
                printf("%s\n", shown);
}

/* Findings are the result and go to standard output; warnings go to standard error. With --strict warnings are findings. */
static void show_warning(Validation *v, const char *file, const char *path, const char *message)
{
        _cleanup_free_ char *line = NULL, *shown = NULL;

        if (v->arguments->strict)
                show_finding(v, file, path, message, SEVERITY_ERROR);
        else if (v->context->quiet)
                return;
        else if (xasprintf(&line, "%s: %s%s%s", file, path, path[0] ? ": " : "", message) < 0 ||
                 !(shown = text_escape_for_terminal(line)))
                v->oom = true;
        else
                fprintf(stderr, "Warning: %s\n", shown);
}

static void show_warnings(Validation *v, const Findings *f)
{
        for (size_t i = 0; i < f->n_warnings; i++)
                show_warning(v, v->file, f->warnings[i].path, f->warnings[i].message);
}

/* 0: valid, 1: not; errors without a place in a document are shown as well. */
static int show_result(Validation *v, int r, const char *kind, const Findings *f, const Error *e)
{
        Context *c = v->context;

        if (r == -ENOMEM || r == -EINTR || r == -ELIBACC) { /* says nothing about the file */
                r = error_set(&c->error, r, "%s", e->message ?: strerror(-r));
                return e->hint ? error_hint(&c->error, r, "%s", e->hint) : r;
        }
        for (size_t i = 0; i < f->n; i++)
                show_finding(v, v->file, f->items[i].path, f->items[i].message, SEVERITY_ERROR);
        show_warnings(v, f);
        if (r >= 0 && v->arguments->strict && f->n_warnings > 0)
                return v->oom ? error_oom(&v->context->error) : 1;
        if (r < 0 && f->n == 0)
                show_finding(v, v->file, "", e->message ?: strerror(-r), SEVERITY_ERROR);
        if (r >= 0 && c->json == JSON_OFF && !c->quiet) {
                _cleanup_free_ char *shown = text_escape_for_terminal(v->file);
                printf("%s: valid %s\n", shown ?: "?", kind);
        }
        return v->oom ? error_oom(&c->error) : r < 0;
}

/* --- Manifests ----------------------------------------------------------------------------------------- */

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

/* --- Checks of prepare --------------------------------------------------------------------------------- */

static size_t isolator_index(const IsolatorList *l, IsolatorType type)
{
        const Isolator *i = isolator_list_find(l, type);

        return i ? (size_t) (i - l->items) : 0;
}

static int show_privilege(Validation *v, const Privilege *p, size_t index)
{
        _cleanup_free_ char *path = NULL, *message = NULL;
        const char *option = p->grantable ? "--grant=" : p->option;

        if (xasprintf(&path, "app.isolators[%zu]", index) < 0 ||
            xasprintf(&message, "asks for %s, which is more than apps get by default and %s%s%s", p->text,
                      option ? "needs " : "cannot be granted", option ?: "",
                      p->grantable ? p->name : "") < 0)
                return -ENOMEM;
        show_finding(v, v->file, path, message, SEVERITY_NOTICE);
        return 0;
}

/* Shows the privileges requested by the image; -ENOMEM is remembered. */
static void show_privileges(Validation *v, const ImageManifest *m)
{
        _cleanup_(privilege_list_done) PrivilegeList l = {};

        if (!m || !m->app)
                return;
        int r = stage1_privileges(&m->app->isolators, &l);
        for (size_t i = 0; r >= 0 && i < l.n; i++)
                r = show_privilege(v, &l.items[i], isolator_index(&m->app->isolators, l.items[i].type));
        v->oom = v->oom || r < 0;
}

/* Each check stops at the first error. */
static int check_pod_manifest(Validation *v, const PodManifest *m)
{
        static int (*const checks[])(const PodManifest *m, Error *e) = {
                        pod_template_check,
                        pod_settings_check,
                        pod_annotations_check,
                        stage1_manifest_check,
        };
        int result = 0;

        for (size_t i = 0; i < ELEMENTSOF(checks); i++) {
                _cleanup_error_ Error e = ERROR_NULL;
                int r = checks[i](m, &e);
                if (r == -ENOMEM)
                        return r;
                if (r < 0) {
                        show_finding(v, v->file, "", e.message ?: strerror(-r), SEVERITY_ERROR);
                        result = 1;
                }
        }
        return result;
}

static int validate_pod_manifest(Validation *v, const char *text, size_t size)
{
        _cleanup_(pod_manifest_freep) PodManifest *m = NULL;
        _cleanup_findings_ Findings findings = {};
        _cleanup_error_ Error e = ERROR_NULL;

        int r = pod_manifest_parse(text, size, &m, &findings, &e);
        int k = r < 0 ? 0 : check_pod_manifest(v, m);
        if (k == -ENOMEM)
                return error_oom(&v->context->error);
        if (k == 0)
                return show_result(v, r, "pod manifest", &findings, &e);
        show_warnings(v, &findings);
        return 1;
}

static int validate_image_manifest(Validation *v, const char *text, size_t size)
{
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL;
        _cleanup_findings_ Findings findings = {};
        _cleanup_error_ Error e = ERROR_NULL;

        int r = image_manifest_parse(text, size, &m, &findings, &e);
        show_privileges(v, m);
        return show_result(v, r, "image manifest", &findings, &e);
}

/* Without a kind the parser of image manifests reports that it is missing, which is right for both kinds. */
static int validate_manifest(Validation *v, int fd)
{
        _cleanup_json_ json_object *document = NULL;
        _cleanup_free_ char *text = NULL;
        const char *kind;

        /* One byte more than allowed, so that the parser reports that it is too large. */
        text = malloc(MANIFEST_SIZE_MAX + 2);
        if (!text)
                return error_oom(&v->context->error);
        ssize_t n = loop_read(fd, text, MANIFEST_SIZE_MAX + 1);
        if (n < 0)
                return error_set_errno(&v->context->error, (int) n, "Cannot read '%s'", v->file);
        text[n] = 0;
        kind = document_kind(text, (size_t) n, &document);
        if (!kind && json_object_object_get_ex(document, "auths", NULL)) {
                show_finding(v, v->file, "",
                             "it has credentials for registries, as docker and podman write them; "
                             "acnspawn-auth.d(5) says where acnspawn reads them",
                             SEVERITY_ERROR);
                return v->oom ? error_oom(&v->context->error) : 1;
        }
        return streq_ptr(kind, "PodManifest") ? validate_pod_manifest(v, text, (size_t) n)
                                              : validate_image_manifest(v, text, (size_t) n);
}

/* --- Archives and layouts ------------------------------------------------------------------------------ */

static void report(const char *document, const char *path, const char *message, bool warning, void *userdata)
{
        _cleanup_free_ char *file = NULL;
        Validation *v = userdata;

        v->n_warnings += warning;
        if (xasprintf(&file, "%s/%s", v->file, document) < 0)
                v->oom = true;
        else if (warning)
                show_warning(v, file, path, message);
        else
                show_finding(v, file, path, message, SEVERITY_ERROR);
}

static int validate_oci(Validation *v, OciCheckKind kind)
{
        static const char *const kinds[] = {"OCI layout", "OCI archive", "Docker archive"};
        Context *c = v->context;

        v->n_warnings = 0;
        int r = oci_check(v->file, kind, c->operation, report, v, &c->error);
        if (r < 0)
                return error_prefix(&c->error, r, "Cannot check '%s'", v->file);
        if (r > 0 || (v->n_warnings > 0 && v->arguments->strict))
                return v->oom ? error_oom(&c->error) : 1;
        return show_result(v, 0, kinds[kind], &(Findings){}, NULL);
}

static int validate_archive(Validation *v, int fd)
{
        _cleanup_findings_ Findings findings = {};
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL;
        _cleanup_free_ char *unexpected_entry = NULL;
        _cleanup_error_ Error e = ERROR_NULL;
        OciCheckKind kind;

        int r = image_check(fd, v->context->operation, &findings, &m, &unexpected_entry, &e);
        if (r < 0 && unexpected_entry && !streq(v->file, "-") &&
            oci_kind_by_member(unexpected_entry, &kind) >= 0)
                return validate_oci(v, kind);
        show_privileges(v, m);
        return show_result(v, r, "image", &findings, &e);
}

static int validate_encrypted(Validation *v, int fd)
{
        const char *passphrase_file = v->arguments->passphrase_file;
        _cleanup_(decryption_freep) Decryption *d = NULL;
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL;
        _cleanup_findings_ Findings findings = {};
        _cleanup_error_ Error e = ERROR_NULL, late = ERROR_NULL;
        int plain = -EBADF;

        if (!passphrase_file) {
                int r = error_set(&v->context->error, -ENOKEY, "'%s' is encrypted, so it cannot be checked",
                                  v->file);
                return error_hint(&v->context->error, r,
                                  "Give the file with its passphrase: --passphrase-file=FILE");
        }
        int r = decryption_new(fd, passphrase_file, v->context->operation, NULL, NULL, &d, &plain,
                               &v->context->error);
        if (r < 0)
                return r;
        r = image_check(plain, v->context->operation, &findings, &m, NULL, &e);
        safe_close(plain);
        int k = decryption_finish(d, &late);
        if (k >= 0)
                show_privileges(v, m);
        return show_result(v, k < 0 ? k : r, "encrypted image", &findings, k < 0 ? &late : &e);
}

static int validate_directory(Validation *v)
{
        _cleanup_(layout_freep) Layout *layout = NULL;
        _cleanup_findings_ Findings findings = {};
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_free_ char *path = NULL;

        if (xasprintf(&path, "%s/index.json", v->file) < 0)
                return error_oom(&v->context->error);
        bool is_oci = access(path, F_OK) >= 0;
        free(TAKE_PTR(path));
        if (xasprintf(&path, "%s/oci-layout", v->file) < 0)
                return error_oom(&v->context->error);
        if (is_oci || access(path, F_OK) >= 0)
                return validate_oci(v, OCI_CHECK_LAYOUT);
        int r = layout_open(v->file, &layout, &findings, &e);
        show_privileges(v, layout ? layout->manifest : NULL);
        return show_result(v, r, "image layout", &findings, &e);
}

/* --- Detecting the type -------------------------------------------------------------------------------- */

/* Peeks at the first bytes in a pipe. */
static ssize_t peek_pipe(const Operation *o, int fd, void *p, size_t size)
{
        _cleanup_close_ int out = -EBADF, in = -EBADF;
        int pipe_fds[2];

        int r = operation_poll(o, fd, POLLIN, -1, NULL);
        if (r < 0)
                return r;
        if (pipe2(pipe_fds, O_CLOEXEC) < 0)
                return -errno;
        in = pipe_fds[0];
        out = pipe_fds[1];
        if (tee(fd, out, size, SPLICE_F_NONBLOCK) < 0)
                return errno == EAGAIN ? 0 : -errno;
        out = safe_close(out);
        return loop_read(in, p, size);
}

/* Other kinds of files cannot be peeked at, and are treated as a manifest. */
static ssize_t peek(const Operation *o, int fd, void *p, size_t size)
{
        struct stat st;

        if (fstat(fd, &st) < 0)
                return -errno;
        if (S_ISFIFO(st.st_mode))
                return peek_pipe(o, fd, p, size);
        if (!S_ISREG(st.st_mode))
                return 0;
        ssize_t n = pread(fd, p, size, lseek(fd, 0, SEEK_CUR));
        return n < 0 ? -errno : n;
}

/* JSON begins with a bracket, maybe after white space; other text was probably intended as a manifest. */
static bool looks_like_document(const unsigned char *p, size_t n)
{
        size_t i = 0;

        while (i < n && strchr(" \t\r\n", p[i]) && p[i])
                i++;
        if (i == n || p[i] == '{' || p[i] == '[')
                return true;
        for (i = 0; i < n; i++)
                if (p[i] == 0 || (p[i] < ' ' && !strchr("\t\r\n", p[i])) || p[i] >= 0xf8)
                        return false;
        return true;
}

static bool begins_with_word(const unsigned char *p, size_t n, const char *word)
{
        size_t size = strlen(word);

        return n >= size && strncasecmp((const char *) p, word, size) == 0;
}

/* Why it is not checked at all: an empty file, an error page of a server, or what another tool reads. */
static const char *what_else(const char *file, const unsigned char *p, size_t n, int fd)
{
        struct stat st;

        if (is_web_page((const char *) p, n))
                return "it is neither a manifest nor an image: it looks like a web page";
        if (endswith(file, ".pod"))
                return "it is the file of a declared pod, which 'acnspawn pod verify' checks";
        if (begins_with_word(p, n, "FROM ") || endswith(file, "Dockerfile") ||
            endswith(file, "Containerfile"))
                return "it looks like a Dockerfile, from which buildah and others build an image";
        return n == 0 && fstat(fd, &st) >= 0 && S_ISREG(st.st_mode) ? "the file is empty" : NULL;
}

static int validate_file(Validation *v, int fd)
{
        unsigned char head[PEEK_SIZE];
        ssize_t n = peek(v->context->operation, fd, head, sizeof(head));

        if (n < 0)
                return error_set_errno(&v->context->error, (int) n, "Cannot read '%s'", v->file);
        const char *other = what_else(v->file, head, (size_t) n, fd);
        if (other) {
                show_finding(v, v->file, "", other, SEVERITY_ERROR);
                return v->oom ? error_oom(&v->context->error) : 1;
        }
        if (is_encrypted_data(head, (size_t) n))
                return validate_encrypted(v, fd);
        return looks_like_document(head, (size_t) n) ? validate_manifest(v, fd) : validate_archive(v, fd);
}

/* 0 if it is valid, 1 if not (the findings were shown). */
static int validate_one(Context *c, const char *file, void *userdata)
{
        _cleanup_close_ int fd = input_open(file, O_RDONLY);
        Validation *v = userdata;
        struct stat st;

        v->file = file;
        if (fd < 0)
                return error_set(&c->error, fd, "Cannot open '%s': %s", file, input_problem(fd));
        if (fstat(fd, &st) < 0)
                return error_set_errno(&c->error, errno, "Cannot read '%s'", file);
        int r = library_load(&capng_library, &c->error);
        if (r < 0)
                return r;
        return S_ISDIR(st.st_mode) ? validate_directory(v) : validate_file(v, fd);
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 1,
                                       .max = SIZE_MAX,
                                       .what = "a manifest or image file, or '-' for standard input"};
        _cleanup_(table_freep) Table *t = table_new(columns, ELEMENTSOF(columns));
        Arguments a = {};
        Validation v = {.context = c, .arguments = &a, .table = t};

        int r = context_parse(c, options, &a, argc, argv, &words);
        if (r <= 0)
                return r;
        if (!t)
                return error_oom(&c->error);
        (void) interrupt_catch(c->operation);
        int status = context_for_each(c, &words, validate_one, &v);
        if (c->json != JSON_OFF)
                r = context_show_table(c, t, NULL);
        return r < 0 ? r : status;
}

const Verb verb_validate = {
                .name = "validate",
                .page = "acnspawn-build",
                .synopsis = "[OPTIONS…] FILE…",
                .brief = "FILE…",
                .summary = "Check manifests, images and layouts",
                .text = "Checks image and pod manifests, image archives, OCI layouts and archives, and "
                        "prints every finding with its place in the document. Exits with 0 if all are "
                        "valid, 1 if not. Privileges that an image requests beyond the defaults are "
                        "reported, but are not an error.",
                .words = "file",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
