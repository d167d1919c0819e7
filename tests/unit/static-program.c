/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Operations of every program that is built against a new C library: creating threads and examining files.
 * Linked statically, so that its C library is the one that it was built with. */

#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/stat.h>

static void *thread(void *p)
{
        *(int *) p = 1;
        return NULL;
}

int main(void)
{
        struct statx st;
        pthread_t t;
        int ran = 0;

        if (pthread_create(&t, NULL, thread, &ran) != 0 || pthread_join(t, NULL) != 0 || !ran)
                return 1;
        return statx(AT_FDCWD, "/", 0, STATX_BASIC_STATS, &st) < 0 ? 2 : 0;
}
