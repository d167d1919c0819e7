/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* stage1/units.c and root-files.c: the files in the root of a pod, for the manifests in tests/golden.
 *
 * Each case there has a manifest, options (some), and the expected tree; ACNSPAWN_UPDATE_GOLDEN=1
 * writes the trees anew, and the difference must be reviewed. Every tree is parsed again by a second reader
 * and, if it is installed, by systemd. Last, hostile strings are inserted at every place of a manifest that
 * can hold strings: either the manifest is refused, or the tree is the same to the byte. */

#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "stage1/stage1-internal.h"
#include "tests/unit/unit-tree.h"

#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

#define UUID "01234567-89ab-cdef-0123-456789abcdef"

static const Stage1Options default_options = {
                .uuid = UUID,
                .hostname = "pod",
                .stop_timeout_usec = 10000000,
};

static void pod_manifest_freep_(PodManifest **m)
{
        pod_manifest_free(*m);
}
#define _cleanup_pod_ _cleanup_(pod_manifest_freep_)

/* --- Trees as text ------------------------------------------------------------------------------------- */

static bool same_file(const Stage1File *a, const Stage1File *b)
{
        return a && b && a->mode == b->mode && streq_ptr(a->target, b->target) && a->size == b->size &&
               (a->size == 0 || memcmp(a->content, b->content, a->size) == 0);
}

static void add_file(Text *t, const Stage1File *f)
{
        if (f->target)
                text_addf(t, "== %s -> %s\n", f->path, f->target);
        else
                text_addf(t, "== %s%s %04o\n", f->path, S_ISDIR(f->mode) ? "/" : "", f->mode & 07777);
        if (f->content)
                text_add_bytes(t, f->content, f->size);
}

/* All files but those that are the same in COMMON, if that is given. */
static char *tree_text(const Stage1Files *files, const Stage1Files *common)
{
        _cleanup_text_ Text t = {};
        char *text;

        for (size_t i = 0; i < files->n; i++)
                if (!common || !same_file(&files->items[i], find_file(common, files->items[i].path)))
                        add_file(&t, &files->items[i]);
        return text_take(&t, &text, NULL) < 0 ? NULL : text;
}

static void check_tree(const Stage1Files *files)
{
        _cleanup_free_ char *why = tree_complaint(files);

        if (why)
                TEST_FAIL("%s", why);
}

/* --- systemd's opinion --------------------------------------------------------------------------------- */

/* Whether a message of systemd is about a unit of the pod, and not about this machine. */
static bool is_about_unit(const char *line)
{
        return strstr(line, UNITS) || strstr(line, ".service: ") || strstr(line, ".target: ") ||
               strstr(line, ".slice: ") || strstr(line, ".socket: ");
}

/* The launcher and journald are expected to be missing: they are mounted when the pod starts. */
static void check_complaints(char *text)
{
        for (char *line = text, *next; line && *line; line = next) {
                next = strchr(line, '\n');
                if (next)
                        *next++ = 0;
                if (is_about_unit(line) && !strstr(line, "/acnspawn/launch is not executable") &&
                    !strstr(line, "systemd-journald is not executable"))
                        TEST_FAIL("systemd-analyze says: %s", line);
        }
}

static int run_verify(const Scratch *s, char *const *units, char **ret)
{
        _cleanup_close_ int log = openat(s->fd, "log", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        _cleanup_strv_free_ char **argv = NULL;
        _cleanup_free_ char *path = NULL;
        int r = strv_extend(&argv, "systemd-analyze"), status;

        if (r < 0 || strv_extend(&argv, "verify") < 0 || strv_extend(&argv, "--man=no") < 0 ||
            xasprintf(&path, "%s/" UNITS, s->path) < 0)
                return -ENOMEM;
        STRV_FOREACH (unit, units)
                if (strv_extendf(&argv, "%s%s", path, *unit) < 0)
                        return -ENOMEM;
        pid_t pid = fork();
        if (pid == 0) {
                dup2(log, STDERR_FILENO);
                setenv("SYSTEMD_UNIT_PATH", path, true);
                setenv("SYSTEMD_COLORS", "0", true);
                execvp(argv[0], argv);
                _exit(127);
        }
        if (pid < 0 || waitpid(pid, &status, 0) < 0)
                return -ECHILD;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
                return -ENOENT;
        return read_fd_bounded(log, 1 << 20, ret, NULL);
}

/* --- Cases --------------------------------------------------------------------------------------------- */

static int read_option(char *line, Stage1Options *o)
{
        char *value = strchr(line, '=');

        if (!value)
                return -EINVAL;
        *value++ = 0;
        return streq(line, "stop-timeout") ? parse_usec(value, &o->stop_timeout_usec) : -EINVAL;
}

static int read_options(int dir_fd, Stage1Options *o)
{
        _cleanup_strv_free_ char **lines = NULL;
        _cleanup_free_ char *text = NULL;
        int r = read_file_at(dir_fd, "options", 4096, &text, NULL);

        *o = default_options;
        if (r == -ENOENT)
                return 0;
        if (r >= 0)
                r = strv_split(text, "\n", &lines);
        for (char **line = lines; r >= 0 && line && *line; line++)
                r = read_option(*line, o);
        return r;
}

/* Options of a pod that is registered as a machine: if the case has a file of that name. */
static int add_bus(int dir_fd, Stage1Files *files)
{
        _cleanup_stage1_files_ Stage1Files bus = {};
        int r = faccessat(dir_fd, "machine", F_OK, 0) < 0 ? 0 : stage1_generate_bus(&bus);

        for (size_t i = 0; r >= 0 && i < bus.n; i++) {
                const Stage1File *f = &bus.items[i];
                r = f->target ? stage1_files_add_symlink(files, f->path, f->target)
                              : stage1_files_add(files, f->path, f->content, f->size, f->mode);
        }
        return r;
}

static int generate_case(int dir_fd, const Stage1Options *o, Stage1Files *ret, Error *e)
{
        _cleanup_pod_ PodManifest *m = NULL;
        _cleanup_free_ char *text = NULL;
        size_t size;
        int r = read_file_at(dir_fd, "manifest.json", MANIFEST_SIZE_MAX, &text, &size);

        if (r >= 0)
                r = pod_manifest_parse(text, size, &m, NULL, e);
        if (r >= 0)
                r = stage1_generate(m, o, ret, e);
        return r < 0 ? r : add_bus(dir_fd, ret);
}

static int write_tree(const Stage1Files *files, const Scratch *s)
{
        for (size_t i = 0; i < files->n; i++) {
                const Stage1File *f = &files->items[i];
                int r = 0;
                if (!startswith(f->path, UNITS))
                        continue;
                if (f->target)
                        r = symlinkat(f->target, s->fd, f->path) < 0 ? -errno : 0;
                else if (S_ISDIR(f->mode))
                        r = mkdirat(s->fd, f->path, 0755) < 0 ? -errno : 0;
                else
                        r = write_file_new_at(s->fd, f->path, f->content, f->size, 0644);
                if (r < 0)
                        return r;
        }
        return 0;
}

static void verify_tree(const Stage1Files *files)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_strv_free_ char **units = NULL;
        _cleanup_free_ char *complaints = NULL;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(mkdir_p_in_root(s.fd, UNITS "-.slice.d", 0755, NULL));
        ASSERT_OK(write_tree(files, &s));
        for (size_t i = 0; i < files->n; i++)
                if (startswith(files->items[i].path, UNITS) && files->items[i].content &&
                    !endswith(files->items[i].path, ".conf"))
                        ASSERT_OK(strv_extend(&units, files->items[i].path + strlen(UNITS)));
        int r = run_verify(&s, units, &complaints);
        if (r != -ENOENT) {
                ASSERT_OK(r);
                check_complaints(complaints);
        }
}

static void compare_golden(int dir_fd, const char *name, const char *tree)
{
        _cleanup_free_ char *expected = NULL;

        if (getenv("ACNSPAWN_UPDATE_GOLDEN"))
                ASSERT_OK(write_file_atomic_at(dir_fd, "tree", tree, strlen(tree), 0644, false));
        ASSERT_OK(read_file_at(dir_fd, "tree", 1 << 20, &expected, NULL));
        const char *a = tree, *b = expected;
        unsigned line = 1;
        for (; *a && *a == *b; a++, b++)
                line += *a == '\n';
        if (*a != *b)
                TEST_FAIL("%s differs from its golden tree in line %u: \"%.60s\" instead of \"%.60s\"", name,
                          line, a, b);
}

/* Files that are the same in every pod are only in the golden tree of the first case. */
#define FULL_CASE "one-app"

static void run_case(int golden_fd, const char *name)
{
        _cleanup_close_ int dir_fd = openat(golden_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_pod_ PodManifest *empty = pod_manifest_new();
        _cleanup_stage1_files_ Stage1Files files = {}, common = {};
        _cleanup_free_ char *tree = NULL;
        _cleanup_error_ Error e = {};
        Stage1Options o;

        ASSERT_OK(dir_fd);
        ASSERT_OK(read_options(dir_fd, &o));
        ASSERT_OK(stage1_generate(empty, &o, &common, NULL));
        if (generate_case(dir_fd, &o, &files, &e) < 0)
                TEST_FAIL("%s: %s", name, e.message);
        tree = tree_text(&files, streq(name, FULL_CASE) ? NULL : &common);
        check_tree(&files);
        compare_golden(dir_fd, name, tree);
        verify_tree(&files);
}

static int is_case(const struct dirent *de)
{
        return de->d_name[0] != '.';
}

TEST(golden_trees)
{
        _cleanup_close_ int fd = open(GOLDEN_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct dirent **cases = NULL;

        ASSERT_OK(fd);
        int n = scandirat(fd, ".", &cases, is_case, alphasort);
        for (int i = 0; i < n; i++) {
                run_case(fd, cases[i]->d_name);
                free(cases[i]);
        }
        free(cases);
        ASSERT_GE(n, 8);
}

TEST(same_input_same_output)
{
        _cleanup_close_ int dir_fd = open(GOLDEN_DIR "/many-apps", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_stage1_files_ Stage1Files a = {}, b = {};
        _cleanup_free_ char *tree_a = NULL, *tree_b = NULL;

        ASSERT_OK(generate_case(dir_fd, &default_options, &a, NULL));
        ASSERT_OK(generate_case(dir_fd, &default_options, &b, NULL));
        tree_a = tree_text(&a, NULL);
        tree_b = tree_text(&b, NULL);
        ASSERT_STREQ(tree_a, tree_b);
}

/* The pod's limits are there without apps, too, where that was asked for. */
TEST(slice_of_pods_without_apps)
{
        for (int keeps = 0; keeps < 2; keeps++) {
                _cleanup_pod_ PodManifest *empty = pod_manifest_new();
                _cleanup_stage1_files_ Stage1Files files = {};
                Stage1Options o = default_options;

                o.keeps_slice = keeps;
                ASSERT_OK(stage1_generate(empty, &o, &files, NULL));
                check_tree(&files);
                verify_tree(&files);
                const Stage1File *target = find_file(&files, UNITS "default.target");
                ASSERT_NOT_NULL(target);
                ASSERT_EQ(strstr(target->content, "\nWants=app.slice\nAfter=app.slice\n") != NULL, keeps);
        }
}

/* --- Hostile manifests (B1, B2, B3, B11) --------------------------------------------------------------- */

static const char *const hostile[] = {
                "x\nExecStartPre=/bin/sh -c id",
                "x\n[Service]\nUser=root\nExecStart=/bin/sh",
                "x\r\nExecStop=/bin/true",
                "%h%n%i%%",
                "$HOME ${HOME} $$",
                "\" ; ExecStart=/bin/sh ; \"",
                "'\\x0a' \\n \\",
                "-+!@:/bin/sh",
                "../../../etc/systemd/system/x",
                "init.scope",
                "a.service",
                "\342\200\250ExecStart=/bin/sh", /* U+2028, a separator of lines */
                "\x7f\x1b]0;title\x07",
                "",
                " x ",
                "# comment",
                "x\\",
};

/* A place in a document that holds a string: the value of a member or an element, or the name of a
 * member. */
typedef struct Place {
        json_object *parent;
        const char *key; /* NULL: INDEX is in a list */
        size_t index;
} Place;

typedef struct Places {
        Place items[200];
        size_t n;
} Places;

/* The document is our own, and a few levels deep. */
static void find_strings(json_object *o, Places *places)
{
        json_object_iter it;

        if (json_object_is_type(o, json_type_array))
                for (size_t i = 0; i < json_object_array_length(o); i++) {
                        json_object *item = json_object_array_get_idx(o, i);
                        if (json_object_is_type(item, json_type_string))
                                places->items[places->n++] = (Place){o, NULL, i};
                        find_strings(item, places);
                }
        if (json_object_is_type(o, json_type_object))
                json_object_object_foreachC(o, it)
                {
                        if (json_object_is_type(it.val, json_type_string))
                                places->items[places->n++] = (Place){o, it.key, 0};
                        find_strings(it.val, places);
                }
}

static void put_string(const Place *p, const char *s)
{
        if (p->key)
                json_object_object_add(p->parent, p->key, json_object_new_string(s));
        else
                json_object_array_put_idx(p->parent, p->index, json_object_new_string(s));
}

static const char *get_string(const Place *p)
{
        return json_object_get_string(p->key ? json_object_object_get(p->parent, p->key)
                                             : json_object_array_get_idx(p->parent, p->index));
}

/* The tree of a document; NULL if it is refused. */
static char *tree_of(json_object *document)
{
        const char *text = json_object_to_json_string(document);
        _cleanup_stage1_files_ Stage1Files files = {};
        _cleanup_pod_ PodManifest *m = NULL;

        if (pod_manifest_parse(text, strlen(text), &m, NULL, NULL) < 0 ||
            stage1_generate(m, &default_options, &files, NULL) < 0)
                return NULL;
        check_tree(&files);
        return tree_text(&files, NULL);
}

static json_object *hostile_document(void)
{
        _cleanup_free_ char *text = NULL;
        json_object *o;
        size_t size;

        if (read_file_at(AT_FDCWD, GOLDEN_DIR "/everything/manifest.json", MANIFEST_SIZE_MAX, &text, &size) <
                            0 ||
            json_parse_strict(text, size, &o, NULL, NULL) < 0)
                return NULL;
        return o;
}

static void try_place(json_object *document, const Place *p, const char *harmless_tree, size_t *n_taken)
{
        _cleanup_free_ char *original = strdup(get_string(p));

        for (size_t i = 0; i < ELEMENTSOF(hostile); i++) {
                put_string(p, hostile[i]);
                _cleanup_free_ char *tree = tree_of(document);
                /* Names of images appear in units, and those of isolators select lines; both have only
                 * harmless characters. */
                if (tree && !streq(tree, harmless_tree) && ac_identifier_check(hostile[i], NULL) < 0)
                        TEST_FAIL("\"%s\" as %s changes the tree", hostile[i], p->key ? p->key : original);
                *n_taken += tree != NULL;
        }
        put_string(p, original);
}

TEST(hostile_strings_change_nothing)
{
        _cleanup_json_ json_object *document = hostile_document();
        static Places places;
        size_t n_taken = 0;

        ASSERT_NOT_NULL(document);
        _cleanup_free_ char *harmless_tree = tree_of(document);
        ASSERT_NOT_NULL(harmless_tree);
        find_strings(document, &places);
        ASSERT_GT(places.n, 50);
        for (size_t i = 0; i < places.n; i++)
                try_place(document, &places.items[i], harmless_tree, &n_taken);
        /* Most places accept hostile strings: arguments, environment, annotations. */
        ASSERT_GT(n_taken, 200);
        _cleanup_free_ char *tree = tree_of(document);
        ASSERT_STREQ(tree, harmless_tree); /* all is as it was */
}

/* The names of annotations and labels of users, and of unknown members. */
TEST(hostile_keys_change_nothing)
{
        for (size_t i = 0; i < ELEMENTSOF(hostile); i++) {
                static const char *const maps[] = {"userAnnotations", "userLabels"};
                for (size_t k = 0; k <= ELEMENTSOF(maps); k++) {
                        _cleanup_json_ json_object *document = hostile_document();
                        _cleanup_free_ char *before = tree_of(document), *after = NULL;
                        json_object *map = k < ELEMENTSOF(maps) ? json_object_object_get(document, maps[k])
                                                                : document;
                        ASSERT_NOT_NULL(map);
                        json_object_object_add(map, hostile[i], json_object_new_string(hostile[i]));
                        after = tree_of(document);
                        if (after)
                                ASSERT_STREQ(after, before);
                }
        }
}

/* The second reader does see what it is there for. */
TEST(reader_sees_faults)
{
        static const char *const units[] = {
                        "[Service]\nExecStart=/acnspawn/launch main a\nExecStart=/bin/sh\n",
                        "[Service]\nExecStart=/bin/sh\n",
                        "[Service]\nExecStart=/acnspawn/launch main a\nUser=root\n",
                        "[Service]\nExecStart=/acnspawn/launch main %n\n",
                        "[Service]\nExecStart=/acnspawn/launch main a \\\n",
                        "[Service]\nExecStart=/acnspawn/launch main a\n[Install]\n",
                        "[Service]\nExecStart=/acnspawn/launch main a\nbare words\n",
                        "ExecStart=/acnspawn/launch main a\n",
                        "[Unit]\nRequires=dbus.service\n[Service]\nExecStart=/acnspawn/launch main a\n",
        };

        for (size_t i = 0; i < ELEMENTSOF(units); i++) {
                _cleanup_free_ char *bad = NULL;
                Stage1Files none = {};
                UnitReader r = {.files = &none, .unit = "app-a.service"};
                int k = unit_file_read(units[i], check_line, &r, &bad);
                text_done(&r.seen);
                if (k != -EBADMSG)
                        TEST_FAIL("\"%s\" is taken", units[i]);
        }
}

int main(void)
{
        RUN(golden_trees);
        RUN(same_input_same_output);
        RUN(slice_of_pods_without_apps);
        RUN(hostile_strings_change_nothing);
        RUN(hostile_keys_change_nothing);
        RUN(reader_sees_faults);
        return TEST_END();
}
