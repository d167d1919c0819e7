/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn image render: writes the root that an app of the image would see to a directory.
 *
 * It is created under a temporary name beside the requested one, and renamed when it is complete. Its root is the caller's and open for
 * no other user, whatever the image says: below it are files of any owner and mode.
 */

#include <sys/stat.h>

#include "stage0/verbs/archive-options.h"
#include "stage0/verbs/verb.h"

typedef struct Arguments {
        bool archive;
} Arguments;

static const Option options[] = {
                {"Options", "archive", 'a', NULL, false,
                 "Also keep set-ID bits, capabilities, ACLs and device nodes", NULL, option_true,
                 offsetof(Arguments, archive)},
                OPTION_END,
};

typedef struct Target {
        int parent_fd;
        const char *name; /* in it, points into the path */
        char temporary[40];
        bool made;
} Target;

static void target_done(Target *t)
{
        if (t->made)
                (void) rm_rf_at(t->parent_fd, t->temporary);
        safe_close(t->parent_fd);
}

static int target_error(Context *c, int code, const char *path)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(path);

        code = error_set_errno(&c->error, code, "Cannot create the directory '%s'", shown ?: "?");
        return code == -ENOENT ? error_hint(&c->error, code, "Create its parent directory first.") : code;
}

static int open_parent(Target *t, char *path)
{
        char *slash;

        while ((slash = strrchr(path, '/')) && slash != path && !slash[1])
                *slash = 0;
        t->name = slash ? slash + 1 : path;
        if (isempty(t->name) || streq(t->name, ".") || streq(t->name, ".."))
                return -EEXIST;
        const char *parent = !slash ? "." : slash == path ? "/" : path;
        if (slash && slash != path)
                *slash = 0;
        t->parent_fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return t->parent_fd < 0 ? -errno : 0;
}

static int make_target(Target *t, int *ret_fd)
{
        char hex[RANDOM_HEX_SIZE];
        struct stat st;

        if (fstatat(t->parent_fd, t->name, &st, AT_SYMLINK_NOFOLLOW) >= 0)
                return -EEXIST;
        int r = random_hex(hex);
        if (r < 0)
                return r;
        snprintf(t->temporary, sizeof(t->temporary), ".acnspawn-%s", hex);
        if (mkdirat(t->parent_fd, t->temporary, 0700) < 0)
                return -errno;
        t->made = true;
        *ret_fd = openat(t->parent_fd, t->temporary, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return *ret_fd < 0 ? -errno : 0;
}

static int render(Context *c, const Image *i, const Arguments *a, const char *directory)
{
        _cleanup_(target_done) Target t = {.parent_fd = -EBADF};
        _cleanup_free_ char *path = strdup(directory);
        _cleanup_close_ int fd = -EBADF;

        if (!path)
                return error_oom(&c->error);
        int r = open_parent(&t, path);
        if (r >= 0)
                r = make_target(&t, &fd);
        if (r == -EEXIST) {
                r = target_error(c, r, directory);
                return error_hint(&c->error, r, "Give one that does not exist.");
        }
        if (r < 0)
                return target_error(c, r, directory);
        r = image_render(c->store, i, fd, a->archive ? RENDER_ARCHIVE : 0, &c->error);
        if (r < 0)
                return error_prefix(&c->error, r, "Cannot render the image %s", i->id);
        if (renameat2(t.parent_fd, t.temporary, t.parent_fd, t.name, RENAME_NOREPLACE) < 0)
                return target_error(c, errno, directory);
        t.made = false;
        return 0;
}

/* The image and its layers are locked while they are copied. */
static int find_and_render(Context *c, const char *reference, const Arguments *a, const char *directory)
{
        _cleanup_(image_freep) Image *image = NULL;
        _cleanup_free_ char *id = NULL;
        _cleanup_close_ int lock = -EBADF;

        int r = store_lock_shared(c->store, &lock, &c->error);
        if (r >= 0)
                r = fetch_find_id(c->store, reference, context_config_dirs(c), &id, &c->error);
        if (r >= 0)
                r = image_open(c->store, id, &image, &c->error);
        if (r >= 0)
                r = render(c, image, a, directory);
        return r < 0 || c->json == JSON_OFF ? r : context_show_written(c, id, "directory", directory);
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 2, .max = 2, .what = "an image and a directory"};
        Arguments a = {};

        int r = context_parse(c, options, &a, argc, argv, &words);
        if (r <= 0)
                return r;
        r = context_open_existing_store_as_root(c);
        if (r < 0)
                return r;
        (void) interrupt_catch(c->operation);
        return find_and_render(c, words.list[0], &a, words.list[1]);
}

const Verb verb_image_render = {
                .name = "image render",
                .page = "acnspawn-image",
                .synopsis = "[OPTIONS…] IMAGE DIRECTORY",
                .brief = "IMAGE DIRECTORY",
                .summary = "Copy the root that an app would see",
                .text = "Creates a new directory with the root that an app of the image would see: the "
                        "image over its dependencies, without files excluded by its pathWhitelist. Files "
                        "are cloned where the file system supports it, else copied. The directory is "
                        "accessible to its owner only; set-user-ID and set-group-ID bits, capabilities, ACLs and "
                        "device nodes are left out without --archive.",
                .options = (const Option *const[]){options, NULL},
                .words = "image",
                .run = run,
};
