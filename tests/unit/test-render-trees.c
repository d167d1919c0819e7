/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The trees of images with dependencies: the cases of the specification's reference renderer, and files that
 * are replaced by files of another type, in both directions. The layers are stacked here by the rules of
 * overlayfs; if an image has a pathWhitelist, the rendered tree is one of them.
 *
 * Where reference and specification differ, the specification applies: later files replace earlier ones,
 * including all contents of directories. The reference iterates from the uppermost image down, and includes
 * the contents of a directory that a layer in between has replaced by a file. Overlayfs behaves like the
 * specification. */

#include <ftw.h>
#include <sys/stat.h>

#include "tests/unit/store-fixture.h"

typedef struct TreeImage {
        const char *name;
        const char *more; /* of the manifest: dependencies, list */
        /* "path=5": a file of 5 bytes; "path/": a directory of mode 0700; "path>": a symlink */
        const char *entries[12];
} TreeImage;

typedef struct TreeCase {
        const char *name;
        TreeImage images[5];  /* dependencies first; the last one is rendered */
        const char *expected; /* sorted by name */
} TreeCase;

#define DEP(n) "{\"imageName\":\"" n "\"}"
#define DEPS(...) ",\"dependencies\":[" __VA_ARGS__ "]"
#define LIST(...) ",\"pathWhitelist\":[" __VA_ARGS__ "]"

static const TreeCase cases[] = {
                {"dir_from_parent", {{"t1", "", {"a/"}}, {"t2", DEPS(DEP("t1")), {}}}, "a/"},
                {"new_dir", {{"t1", "", {}}, {"t2", DEPS(DEP("t1")), {"a/"}}}, "a/"},
                {"dir_override", {{"t1", "", {"a/"}}, {"t2", DEPS(DEP("t1")), {"a/"}}}, "a/"},
                {"file_from_parent",
                 {{"t1", "", {"a/file01.txt=5"}}, {"t2", DEPS(DEP("t1")), {}}},
                 "a/file01.txt=5"},
                {"new_file",
                 {{"t1", "", {}}, {"t2", DEPS(DEP("t1")), {"a/file01.txt=10"}}},
                 "a/file01.txt=10"},
                {"file_override",
                 {{"t1", "", {"a/file01.txt=5"}}, {"t2", DEPS(DEP("t1")), {"a/file01.txt=10"}}},
                 "a/file01.txt=10"},
                {"file_override_dir",
                 {{"t1", "", {"a/b/", "a/b/c/", "a/b/c/file01=5"}}, {"t2", DEPS(DEP("t1")), {"a/b=10"}}},
                 "a/b=10"},
                {"list_only_parent",
                 {{"t1",
                   LIST("\"/a/file01.txt\",\"/a/file02.txt\",\"/b/link01.txt\",\"/c/\",\"/d/\""),
                   {"a/file01.txt=5", "a/file02.txt=5", "a/file03.txt=5", "b/link01.txt>", "c/",
                    "c/file01.txt=5", "d/", "d/file01.txt=5", "e/file01.txt=5"}},
                  {"t2", DEPS(DEP("t1")), {"b/file01.txt=10", "c/file02.txt=5"}}},
                 "a/file01.txt=5 a/file02.txt=5 b/file01.txt=10 b/link01.txt> c/ c/file02.txt=5 d/"},
                {"list_only_image",
                 {{"t1",
                   "",
                   {"a/file01.txt=5", "a/file02.txt=5", "a/file03.txt=5", "b/link01.txt>", "c/",
                    "c/file01.txt=5", "d/", "d/file01.txt=5", "e/file01.txt=5"}},
                  {"t2",
                   DEPS(DEP("t1")) LIST(
                                   "\"/a/file01.txt\",\"/a/file02.txt\",\"/b/link01.txt\",\"/b/file01.txt\","
                                   "\"/c/file02.txt\",\"/d/\""),
                   {"a/file01.txt=10", "c/file02.txt=5"}}},
                 /* The reference, which extracts only the files of the list, creates "c" anew; here it has
                  * been extracted. */
                 "a/file01.txt=10 a/file02.txt=5 b/link01.txt> c/ c/file02.txt=5 d/"},
                {"two_dependencies_list_of_the_first",
                 {{"t1",
                   LIST("\"/a/file01.txt\",\"/a/file02.txt\",\"/a/file03.txt\",\"/a/file04.txt\",\"/b/"
                        "link01.txt\","
                        "\"/b/file01.txt\""),
                   {"a/file01.txt=5", "a/file02.txt=5", "a/file03.txt=5", "a/file04.txt=5",
                    "b/link01.txt>"}},
                  {"t2", "", {"a/file01.txt=10", "a/file02.txt=10", "b/file01.txt=5"}},
                  {"t3",
                   DEPS(DEP("t1") "," DEP("t2"))
                                   LIST("\"/a/file01.txt\",\"/a/file02.txt\",\"/a/file03.txt\","
                                        "\"/b/link01.txt\",\"/b/file01.txt\",\"/b/file02.txt\","
                                        "\"/c/file01.txt\""),
                   {"a/file01.txt=15", "b/file02.txt=5", "c/file01.txt=5"}}},
                 "a/file01.txt=15 a/file02.txt=10 a/file03.txt=5 b/file01.txt=5 b/file02.txt=5 "
                 "b/link01.txt> c/file01.txt=5"},
                {"two_dependencies_list_of_the_second",
                 {{"t1",
                   "",
                   {"a/file01.txt=5", "a/file02.txt=5", "a/file03.txt=5", "a/file04.txt=5",
                    "b/link01.txt>"}},
                  {"t2",
                   LIST("\"/a/file01.txt\",\"/a/file02.txt\",\"/b/file01.txt\""),
                   {"a/file01.txt=10", "a/file02.txt=10", "b/file01.txt=5"}},
                  {"t3",
                   DEPS(DEP("t1") "," DEP("t2"))
                                   LIST("\"/a/file01.txt\",\"/a/file02.txt\",\"/a/file03.txt\","
                                        "\"/b/link01.txt\",\"/b/file01.txt\",\"/b/file02.txt\","
                                        "\"/c/file01.txt\""),
                   {"a/file01.txt=15", "b/file02.txt=5", "c/file01.txt=5"}}},
                 "a/file01.txt=15 a/file02.txt=10 a/file03.txt=5 b/file01.txt=5 b/file02.txt=5 "
                 "b/link01.txt> c/file01.txt=5"},
                {"three_dependencies",
                 {{"t1",
                   "",
                   {"a/file01.txt=5", "a/file02.txt=5", "a/file03.txt=5", "a/file04.txt=5",
                    "b/link01.txt>"}},
                  {"t3", "", {"a/file02.txt=5", "b/file01.txt=5", "d/", "d/file01.txt=5"}},
                  {"t2", DEPS(DEP("t3")), {"a/file01.txt=10", "a/file02.txt=10", "b/file01.txt=5"}},
                  {"t4",
                   DEPS(DEP("t1") "," DEP("t2"))
                                   LIST("\"/a/file01.txt\",\"/a/file02.txt\",\"/a/file03.txt\","
                                        "\"/b/link01.txt\",\"/b/file01.txt\",\"/b/file02.txt\","
                                        "\"/c/file01.txt\""),
                   {"a/file01.txt=15", "b/file02.txt=5", "c/file01.txt=5"}}},
                 "a/file01.txt=15 a/file02.txt=10 a/file03.txt=5 b/file01.txt=5 b/file02.txt=5 "
                 "b/link01.txt> c/file01.txt=5"},
                {"empty_root", {{"t1", "", {}}}, ""},

                /* Directories that are only implied keep the mode of lower layers; those without any entry
                 * have mode 0755. */
                {"implied_over_two",
                 {{"t1", "", {"a/", "a/b/"}},
                  {"t2", DEPS(DEP("t1")), {"a/b/x=1"}},
                  {"t3", DEPS(DEP("t2")), {"a/b/y=2"}}},
                 "a/ a/b/ a/b/x=1 a/b/y=2"},
                {"implied_half_way",
                 {{"t1", "", {"a/b/"}}, {"t2", DEPS(DEP("t1")), {"a/b/c/x=1"}}},
                 "a/b/ a/b/c/x=1"},
                {"implied_below_explicit",
                 {{"t1", "", {"a/x=1"}}, {"t2", DEPS(DEP("t1")), {"a/"}}},
                 "a/ a/x=1"},
                {"implied_in_both",
                 {{"t1", "", {"a/x=1"}}, {"t2", DEPS(DEP("t1")), {"a/y=1"}}},
                 "a/x=1 a/y=1"},
                {"implied_over_file_over_dir",
                 {{"t1", "", {"a/"}}, {"t2", DEPS(DEP("t1")), {"a=2"}}, {"t3", DEPS(DEP("t2")), {"a/x=3"}}},
                 "a/x=3"},
                {"implied_in_a_dependency",
                 {{"t1", "", {"a/"}}, {"t2", "", {"a/x=1"}}, {"t3", DEPS(DEP("t1") "," DEP("t2")), {"b=1"}}},
                 "a/ a/x=1 b=1"},
                {"implied_of_a_list",
                 {{"t1", "", {"a/"}},
                  {"t2", LIST("\"/a/x\""), {"a/x=1", "a/y=1"}},
                  {"t3", DEPS(DEP("t1") "," DEP("t2")), {}}},
                 "a/ a/x=1"},
                {"implied_of_a_list_with_dependencies",
                 {{"t1", "", {"a/", "c/"}},
                  {"t2", "", {"a/b/", "c/"}},
                  {"t3", DEPS(DEP("t2")) LIST("\"/a/b/x\""), {"a/b/x=1"}},
                  {"t4", DEPS(DEP("t1") "," DEP("t3")), {"c/y=1"}}},
                 "a/ a/b/ a/b/x=1 c/ c/y=1"},

                /* Replaced, both ways, with a list and without. */
                {"dir_over_file", {{"t1", "", {"a=5"}}, {"t2", DEPS(DEP("t1")), {"a/x=1"}}}, "a/x=1"},
                {"symlink_over_dir", {{"t1", "", {"a/x=5"}}, {"t2", DEPS(DEP("t1")), {"a>"}}}, "a>"},
                {"dir_over_symlink", {{"t1", "", {"a>"}}, {"t2", DEPS(DEP("t1")), {"a/x=1"}}}, "a/x=1"},
                {"symlink_over_file", {{"t1", "", {"a=5"}}, {"t2", DEPS(DEP("t1")), {"a>"}}}, "a>"},
                {"dir_over_file_over_dir",
                 {{"t1", "", {"a/low=1"}},
                  {"t2", DEPS(DEP("t1")), {"a=2"}},
                  {"t3", DEPS(DEP("t2")), {"a/high=3"}}},
                 "a/high=3"},
                {"dir_over_symlink_over_dir",
                 {{"t1", "", {"a/low=1"}},
                  {"t2", DEPS(DEP("t1")), {"a>"}},
                  {"t3", DEPS(DEP("t2")), {"a/high=3"}}},
                 "a/high=3"},
                {"listed_dir_over_file_over_dir",
                 {{"t1", "", {"a/low=1"}},
                  {"t2", DEPS(DEP("t1")), {"a=2"}},
                  {"t3", DEPS(DEP("t2")) LIST("\"/a/low\",\"/a/high\""), {"a/high=3"}}},
                 "a/high=3"},
                {"listed_symlink_over_dir",
                 {{"t1", "", {"a/low=1"}}, {"t2", DEPS(DEP("t1")) LIST("\"/a\",\"/a/low\""), {"a>"}}},
                 "a>"},
                {"listed_dir_over_symlink",
                 {{"t1", "", {"a>"}}, {"t2", DEPS(DEP("t1")) LIST("\"/a\",\"/a/x\""), {"a/x=1"}}},
                 "a/x=1"},
                {"unlisted_file_still_replaces",
                 {{"t1", "", {"a/low=1"}}, {"t2", DEPS(DEP("t1")) LIST("\"/a/low\""), {"a=2"}}},
                 ""},
};

/* --- Making images ------------------------------------------------------------------------------------- */

static void add_entry(Text *t, const char *spec)
{
        static const char content[] = "0123456789abcdef";
        _cleanup_free_ char *path = NULL;
        size_t n = strlen(spec);

        if (xasprintf(&path, "rootfs/%s", spec) < 0)
                return;
        path[strlen("rootfs/") + strcspn(spec, "=>")] = 0;
        if (spec[n - 1] == '/')
                aci_entry(t, (AciEntry){.name = path, .type = '5', .mode = 0700});
        else if (spec[n - 1] == '>')
                aci_symlink(t, path, "file01.txt");
        else
                aci_entry(t, (AciEntry){.name = path,
                                        .type = '0',
                                        .mode = 0644,
                                        .content = content,
                                        .size = (size_t) atoi(strchr(spec, '=') + 1)});
}

static int import(Fixture *f, const TreeImage *x, Image **ret)
{
        _cleanup_free_ char *manifest = NULL;
        _cleanup_text_ Text t = {};

        if (xasprintf(&manifest, ACI_MANIFEST("%s", "%s"), x->name, x->more) < 0)
                return -ENOMEM;
        aci_manifest(&t, manifest);
        aci_dir(&t, "rootfs");
        for (size_t i = 0; x->entries[i]; i++)
                add_entry(&t, x->entries[i]);
        aci_end(&t);
        return aci_import(f->store, &t, ret, &f->error);
}

/* --- Laying layers over each other --------------------------------------------------------------------- */

typedef struct Node {
        char *path;
        bool is_dir, closed; /* closed: nothing of the layers below shows in it */
        char *shown;         /* as in TreeCase; NULL for directories of another mode */
} Node;

static Node nodes[64];
static size_t n_nodes, root_size;

static Node *find_node(const char *path, size_t n)
{
        for (size_t i = 0; i < n_nodes; i++)
                if (strlen(nodes[i].path) == n && strncmp(nodes[i].path, path, n) == 0)
                        return &nodes[i];
        return NULL;
}

static bool is_covered(const char *path)
{
        for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
                const Node *above = find_node(path, (size_t) (slash - path));
                if (above && (!above->is_dir || above->closed))
                        return true;
        }
        return false;
}

static int lay_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
        const char *p = path + root_size;

        (void) type, (void) ftw;
        if (*p++ == 0)
                return 0;
        if (is_covered(p) || n_nodes == ELEMENTSOF(nodes))
                return 0;
        Node *there = find_node(p, strlen(p));
        if (there) {
                if (there->is_dir && !S_ISDIR(st->st_mode))
                        there->closed = true;
                return 0;
        }
        Node *n = &nodes[n_nodes++];
        *n = (Node){.path = strdup(p), .is_dir = S_ISDIR(st->st_mode)};
        if (S_ISREG(st->st_mode))
                (void) xasprintf(&n->shown, "%s=%lld", p, (long long) st->st_size);
        else if (S_ISLNK(st->st_mode))
                (void) xasprintf(&n->shown, "%s>", p);
        else if ((st->st_mode & 07777) == 0700)
                (void) xasprintf(&n->shown, "%s/", p);
        return 0;
}

static char *merge(char *const *layers)
{
        _cleanup_strv_free_ char **shown = NULL;

        STRV_FOREACH (l, layers) {
                root_size = strlen(*l);
                if (nftw(*l, lay_one, 16, FTW_PHYS) != 0)
                        return NULL;
        }
        for (size_t i = 0; i < n_nodes; i++)
                if (nodes[i].shown)
                        (void) strv_extend(&shown, nodes[i].shown);
        while (n_nodes > 0) {
                free(nodes[--n_nodes].path);
                free(nodes[n_nodes].shown);
        }
        strv_sort(shown);
        return shown ? strv_join(shown, " ") : strdup("");
}

static const TreeCase *current;

TEST(tree)
{
        _cleanup_(image_freep) Image *image = NULL;
        _cleanup_strv_free_ char **layers = NULL, **again = NULL;
        _cleanup_free_ char *tree = NULL;
        FIXTURE(f);

        for (size_t i = 0; i < ELEMENTSOF(current->images) && current->images[i].name; i++) {
                image = image_free(image);
                ASSERT_WORKS(f, import(&f, &current->images[i], &image));
        }
        ASSERT_WORKS(f, image_layers(f.store, image, &layers, &f.error));
        tree = merge(layers);
        ASSERT_STREQ(tree, current->expected);
        /* A rendered tree is found again, and is the same. */
        ASSERT_WORKS(f, image_layers(f.store, image, &again, &f.error));
        ASSERT_EQ(strv_length(again), strv_length(layers));
        for (size_t i = 0; layers[i]; i++)
                ASSERT_STREQ(again[i], layers[i]);
}

int main(void)
{
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                current = &cases[i];
                test_run_(cases[i].name, test_tree);
        }
        return TEST_END();
}
