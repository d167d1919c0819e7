/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn fetch: brings image archives into the store and prints their IDs, one per line, in the order
 * given. */

#include "stage0/verb.h"

static int fetch_one(Context *c, const char *file)
{
        _cleanup_(image_freep) Image *image = NULL;
        _cleanup_close_ int fd = -EBADF;
        bool standard_input = streq(file, "-");

        fd = standard_input ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                            : open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0) {
                int r = error_set_errno(&c->error, -errno, "Cannot open the image '%s'", file);
                return r == -ENOENT ? error_hint(&c->error, r, "Give the path of an image archive (.aci).")
                                    : r;
        }

        int r = image_import(c->store, fd, standard_input ? "standard input" : file, &image, &c->error);
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
        for (size_t i = 0; r >= 0 && i < words.n; i++)
                r = fetch_one(c, words.list[i]);
        return r < 0 ? r : EXIT_SUCCESS;
}

const Verb verb_fetch = {
        .group = "Image Commands",
        .name = "fetch",
        .synopsis = "[OPTIONS…] FILE…",
        .brief = "FILE…",
        .summary = "Import image archives into the store",
        .text = "Reads App Container images (tar, plain or compressed with gzip, bzip2 or xz), checks "
                "them, and unpacks them into the store. Prints the ID of each. '-' reads standard input.",
        .words = "file",
        .run = run,
};
