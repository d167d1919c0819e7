/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Runs a fuzz target over the files of the directories given, its corpus, once each: regression tests for
 * the findings of fuzzers, with every compiler and without a fuzzer. */

#include <dirent.h>

#include "basic/basic.h"

#define INPUT_MAX (16U * 1024U * 1024U)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void closedirp(DIR **d)
{
        if (*d)
                (void) closedir(*d);
}

static int replay_file(int dir_fd, const char *name)
{
        _cleanup_free_ char *text = NULL, *exact = NULL;
        size_t size;

        int r = read_file_at(dir_fd, name, INPUT_MAX, &text, &size);
        if (r < 0)
                return r;
        exact = malloc(size); /* without the NUL at the end, which would hide reading too far */
        if (!exact && size > 0)
                return -ENOMEM;
        if (size > 0)
                memcpy(exact, text, size);
        (void) LLVMFuzzerTestOneInput((const uint8_t *) exact, size);
        return 0;
}

static int replay_directory(const char *path)
{
        _cleanup_(closedirp) DIR *d = opendir(path);
        int n = 0;

        if (!d)
                return -errno;
        for (struct dirent *de; (de = readdir(d));) {
                if (de->d_name[0] == '.')
                        continue;
                int r = replay_file(dirfd(d), de->d_name);
                if (r < 0)
                        return r;
                n++;
        }
        return n;
}

int main(int argc, char **argv)
{
        for (int i = 1; i < argc; i++) {
                int n = replay_directory(argv[i]);
                if (n < 0) {
                        log_message(LOG_LEVEL_ERROR, "Cannot replay %s: %s.", argv[i], strerror(-n));
                        return EXIT_FAILURE;
                }
                printf("ok replay of %d inputs\n", n);
        }
        return EXIT_SUCCESS;
}
