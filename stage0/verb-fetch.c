/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn fetch: brings image archives into the store and prints their IDs, one per line, in the order
 * given. */

#include <sys/stat.h>

#include "stage0/verb.h"

/* Where there is no such file: whoever writes an address expects a download. */
static int explain_missing(Context *c, const char *file, int r)
{
        if (strstr(file, "://"))
                return error_hint(&c->error, r,
                                  "Images are not downloaded: bring the file here by other means, and fetch "
                                  "that.");
        return error_hint(&c->error, r, "Give the path of an image archive (.aci).");
}

static int open_image(Context *c, const char *file)
{
        struct stat st;
        _cleanup_close_ int fd = streq(file, "-") ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                                  : open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);

        if (fd < 0) {
                _cleanup_free_ char *shown = text_escape_for_terminal(file);
                int r = error_set_errno(&c->error, -errno, "Cannot open the image '%s'", shown ?: "");
                return r == -ENOENT ? explain_missing(c, file, r) : r;
        }
        if (isatty(fd)) {
                int r = error_set(&c->error, -ENOTSUP, "An image cannot be read from a terminal");
                return error_hint(&c->error, r, "Redirect it: acnspawn fetch - <FILE");
        }
        if (fstat(fd, &st) >= 0 && S_ISDIR(st.st_mode)) {
                _cleanup_free_ char *shown = text_escape_for_terminal(file);
                int r = error_set(&c->error, -EISDIR, "'%s' is a directory, not an image", shown ?: "");
                return error_hint(&c->error, r, "Give the path of an image archive (.aci).");
        }
        return TAKE_FD(fd);
}

static int fetch_one(Context *c, const char *file, void *userdata)
{
        _cleanup_(image_freep) Image *image = NULL;
        _cleanup_close_ int fd = open_image(c, file);

        if (fd < 0)
                return fd;
        int r = image_import(c->store, fd, streq(file, "-") ? "standard input" : file, &image, &c->error);
        if (r == -EPERM && geteuid() != 0)
                return error_hint(&c->error, r, "Images have files of several users: run it as root.");
        if (r < 0)
                return r;
        printf("%s\n", image->id);
        return 0;
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {
                        .min = 1, .max = SIZE_MAX, .what = "an image file, or '-' for standard input"};
        int r = context_parse(c, NULL, NULL, argc, argv, &words);

        if (r <= 0)
                return r;
        r = context_open_store(c);
        if (r < 0)
                return r;
        (void) interrupt_catch();
        return context_for_each(c, &words, fetch_one, NULL);
}

const Verb verb_fetch = {
                .group = "Image Commands",
                .name = "fetch",
                .synopsis = "[OPTIONS…] FILE…",
                .brief = "FILE…",
                .summary = "Import image archives into the store",
                .text = "Reads App Container images (tar, plain or compressed with gzip, bzip2, xz or zstd), "
                        "checks "
                        "them, and unpacks them into the store. Prints the ID of each. '-' reads standard "
                        "input.",
                .words = "file",
                .run = run,
};
