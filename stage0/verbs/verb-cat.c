/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn cat-manifest: shows the manifest of a pod. acnspawn cat: shows the units that were generated from
 * it, in the format of "systemctl cat": each with its path in front.
 *
 * They are read from the pod's directory, so they are those that the pod's systemd reads. Directories (such
 * as the symlinks below pod.target.wants/) are one level deep; deeper ones are ignored.
 */

#include <dirent.h>
#include <sys/stat.h>

#include "stage0/verbs/pod-words.h"

#define UNITS_PATH "acnspawn/units"
#define UNIT_SIZE_MAX (4U * 1024U * 1024U)

/* --- cat-manifest -------------------------------------------------------------------------------------- */

static int cat_manifest(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 1, .max = 1, .what = A_POD};
        _cleanup_(pod_freep) Pod *p = NULL;
        _cleanup_free_ char *text = NULL;
        size_t size = 0;

        int r = context_parse_pod(c, NULL, NULL, argc, argv, &words, &p);
        if (r <= 0)
                return r;
        r = read_file_at(p->dir_fd, "pod", MANIFEST_SIZE_MAX, &text, &size);
        if (r < 0)
                return error_set_errno(&c->error, r, "Cannot read the manifest of pod '%s' (%s)",
                                       pod_display_name(p), pod_state_to_string(p->state));
        return context_show_document(c, text, size);
}

const Verb verb_cat_manifest = {
                .name = "cat-manifest",
                .page = "acnspawn-cat",
                .synopsis = "[OPTIONS…] POD",
                .brief = "POD",
                .summary = "Show the pod manifest of a pod",
                .text = "Shows the reified pod manifest: with the image IDs that were resolved and the "
                        "volumes that were chosen.",
                .words = "pod -",
                .run = cat_manifest,
};

/* --- cat ----------------------------------------------------------------------------------------------- */

/* The names in a directory, sorted. */
static int list_directory(int dir_fd, char ***ret)
{
        _cleanup_strv_free_ char **names = NULL;
        int r = 0;

        int fd = fd_reopen(dir_fd, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return fd;
        DIR *d = fdopendir(fd);
        if (!d) {
                r = -errno;
                safe_close(fd);
                return r;
        }
        for (struct dirent *de; r >= 0 && (de = readdir(d));)
                if (!streq(de->d_name, ".") && !streq(de->d_name, ".."))
                        r = strv_extend(&names, de->d_name);
        closedir(d);
        if (r < 0)
                return r;
        strv_sort(names);
        *ret = TAKE_PTR(names);
        return 0;
}

/* Units are shown with their path in the pod as a comment, symlinks as a comment alone. */
static int show_heading(Context *c, const char *path, const char *target)
{
        _cleanup_free_ char *line = NULL, *shown = NULL;
        Display d = display_of(STDOUT_FILENO);

        if (xasprintf(&line, "# /%s/%s%s%s", UNITS_PATH, path, target ? " -> " : "", target ?: "") < 0 ||
            !(shown = text_escape_for_terminal(line)))
                return error_oom(&c->error);
        printf("%s%s%s\n", color_sequence(&d, COLOR_GREY), shown, color_sequence(&d, COLOR_NONE));
        return 0;
}

static int show_link(Context *c, int dir_fd, const char *name, const char *path)
{
        char target[PATH_MAX];
        ssize_t n = readlinkat(dir_fd, name, target, sizeof(target) - 1);

        if (n < 0)
                return error_set_errno(&c->error, -errno, "Cannot read the link '%s'", path);
        target[n] = 0;
        return show_heading(c, path, target);
}

static int show_unit(Context *c, int dir_fd, const char *name, const char *path)
{
        _cleanup_free_ char *text = NULL;
        size_t size = 0;

        int r = read_file_at(dir_fd, name, UNIT_SIZE_MAX, &text, &size);
        if (r < 0)
                return error_set_errno(&c->error, r, "Cannot read the unit '%s'", path);
        r = show_heading(c, path, NULL);
        if (r >= 0)
                r = context_show_document(c, text, size);
        if (r >= 0)
                (void) fputs("\n", stdout);
        return r;
}

/* Whether this unit was requested: UNIT is a unit's name, with or without suffix, or an app's, or NULL for
 * all. */
static bool unit_is_wanted(const char *name, const char *unit)
{
        const char *app = unit ? startswith(name, "app-") : NULL;
        const char *rest = unit ? startswith(name, unit) : "";
        const char *app_rest = app ? startswith(app, unit) : NULL;

        return (rest && (!*rest || *rest == '.')) || (app_rest && *app_rest == '.');
}

/* Shows the files in a directory, and collects its subdirectories. */
static int show_directory(Context *c, int dir_fd, const char *prefix, const char *unit, char ***directories,
                          size_t *n_shown)
{
        _cleanup_strv_free_ char **names = NULL;

        int r = list_directory(dir_fd, &names);
        if (r < 0)
                return error_set_errno(&c->error, r, "Cannot list the units of the pod");
        STRV_FOREACH (name, names) {
                _cleanup_free_ char *path = NULL;
                struct stat st;

                if (xasprintf(&path, "%s%s", prefix, *name) < 0)
                        return error_oom(&c->error);
                if (fstatat(dir_fd, *name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                        return error_set_errno(&c->error, -errno, "Cannot stat the unit '%s'", path);
                if (S_ISDIR(st.st_mode) && directories) {
                        r = strv_extend(directories, *name);
                } else if (!S_ISDIR(st.st_mode) && unit_is_wanted(*name, unit)) {
                        r = S_ISLNK(st.st_mode) ? show_link(c, dir_fd, *name, path)
                                                : show_unit(c, dir_fd, *name, path);
                        (*n_shown)++;
                }
                if (r < 0)
                        return r;
        }
        return 0;
}

static int show_units(Context *c, int units_fd, const char *unit, size_t *n_shown)
{
        _cleanup_strv_free_ char **directories = NULL;

        int r = show_directory(c, units_fd, "", unit, &directories, n_shown);
        STRV_FOREACH (d, directories) {
                _cleanup_free_ char *prefix = NULL;
                _cleanup_close_ int fd = -EBADF;

                if (r < 0)
                        return r;
                if (xasprintf(&prefix, "%s/", *d) < 0)
                        return error_oom(&c->error);
                fd = open_beneath(units_fd, *d, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                if (fd < 0)
                        return error_set_errno(&c->error, fd, "Cannot open the units below '%s'", *d);
                r = show_directory(c, fd, prefix, unit, NULL, n_shown);
        }
        return r;
}

static int no_such_unit(Context *c, const Pod *p, const char *unit)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(unit);

        int r = error_set(&c->error, -ENOENT, "Pod '%s' has no unit '%s'", pod_display_name(p), shown ?: "");
        return error_hint(&c->error, r, "'acnspawn cat %s' shows all of its units.", pod_display_name(p));
}

static int cat(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 1, .max = 2, .what = A_POD};
        _cleanup_(pod_freep) Pod *p = NULL;
        _cleanup_close_ int fd = -EBADF;
        size_t n_shown = 0;

        int r = context_parse_pod(c, NULL, NULL, argc, argv, &words, &p);
        if (r <= 0)
                return r;
        fd = open_beneath(p->dir_fd, "root/" UNITS_PATH, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return error_set_errno(&c->error, fd, "Cannot open the units of pod '%s' (%s)",
                                       pod_display_name(p), pod_state_to_string(p->state));
        r = show_units(c, fd, words.n > 1 ? words.list[1] : NULL, &n_shown);
        return r >= 0 && n_shown == 0 ? no_such_unit(c, p, words.n > 1 ? words.list[1] : "*") : r;
}

const Verb verb_cat = {
                .name = "cat",
                .page = "acnspawn-cat",
                .synopsis = "[OPTIONS…] POD [UNIT]",
                .brief = "POD [UNIT]",
                .summary = "Show the units generated for a pod",
                .text = "Shows the units that the pod's systemd reads, or one of them, by its name with or "
                        "without suffix (an app's name, for one).",
                .words = "pod -",
                .run = cat,
};
