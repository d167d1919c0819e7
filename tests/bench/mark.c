/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The app of the start benchmark: prints the time of its first instructions and exits. Under the name
 * "launch", which the units of a pod execute, it does so only for the phase "main", and writes to the file
 * /acnspawn/mark: this is the bare pod for comparison. With the word "wait" it waits for its end. */

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char *argv[])
{
        struct timespec t;
        char line[64];
        int fd = STDOUT_FILENO;

        if (argc == 2 && strcmp(argv[1], "wait") == 0)
                for (;;)
                        pause();
        clock_gettime(CLOCK_REALTIME, &t);
        if (argc == 3 && strcmp(argv[1], "main") != 0)
                return 0;
        if (argc == 3)
                fd = open("/acnspawn/mark", O_WRONLY | O_CREAT | O_APPEND, 0644);
        int n = snprintf(line, sizeof(line), "%lld.%09ld\n", (long long) t.tv_sec, t.tv_nsec);
        return fd < 0 || write(fd, line, (size_t) n) != n;
}
