/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The parent process of a metadata service, for measurements. "start N" starts N services, one after the
 * other, and prints how long each step took; "serve" starts one, prints its pid and the URL of its pod, and
 * keeps it until its stdin ends. */

#include "tests/unit/metadata-service.h"

static int compare_numbers(const void *a, const void *b)
{
        uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

        return x < y ? -1 : x > y;
}

static void print_numbers(const char *what, uint64_t *l, size_t n)
{
        qsort(l, n, sizeof(*l), compare_numbers);
        printf("%-46s median %7.2f ms  p90 %7.2f ms\n", what, (double) l[n / 2] / 1000,
               (double) l[n * 9 / 10] / 1000);
}

static uid_t service_uid(void)
{
        return geteuid() == 0 ? 65533 : getuid();
}

/* Times until it is started, serves, has sent a first reply, and has ended; each from the previous step. */
static int measure_start(uint64_t *started, uint64_t *serving, uint64_t *answered, uint64_t *ended)
{
        _cleanup_free_ char *answer = NULL;
        Service s = {};
        uint64_t begin = now_usec(CLOCK_MONOTONIC);

        /* Like stage0, without waiting: the delay of the pod's own start. */
        int r = metadata_client_start(&(MetadataStart){service_program(), service_uid(), service_uid()},
                                      &config, &s.client, &s.error);
        *started = now_usec(CLOCK_MONOTONIC) - begin;
        service_done(&s);
        if (r < 0)
                return r;

        s = (Service){};
        begin = now_usec(CLOCK_MONOTONIC);
        r = service_start_as(&s, &config, service_uid(), service_uid());
        *serving = now_usec(CLOCK_MONOTONIC) - begin;
        begin = now_usec(CLOCK_MONOTONIC);
        if (r >= 0)
                r = get(&s, BASE "pod/uuid", &answer);
        *answered = now_usec(CLOCK_MONOTONIC) - begin;
        begin = now_usec(CLOCK_MONOTONIC);
        if (r < 0)
                error_print(&s.error, r);
        service_done(&s);
        *ended = now_usec(CLOCK_MONOTONIC) - begin;
        return r;
}

static int measure_starts(size_t n)
{
        _cleanup_free_ uint64_t *l = calloc(4 * n, sizeof(*l));

        if (!l)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                int r = measure_start(l + i, l + n + i, l + 2 * n + i, l + 3 * n + i);
                if (r < 0)
                        return r;
        }
        print_numbers("start, what the parent is held up", l, n);
        print_numbers("start, until it serves", l + n, n);
        print_numbers("first answer", l + 2 * n, n);
        print_numbers("end", l + 3 * n, n);
        return 0;
}

static int serve(void)
{
        _cleanup_service_ Service s = {};

        int r = service_start_as(&s, &config, service_uid(), service_uid());
        if (r < 0) {
                error_print(&s.error, r);
                return r;
        }
        printf("%d http://127.0.0.1:%u" BASE "\n", (int) metadata_client_pid(s.client),
               (unsigned) ntohs(s.address.sin_port));
        fflush(stdout);
        while (service_wait(&s, STDIN_FILENO, now_usec(CLOCK_MONOTONIC) + EXCHANGE_TIMEOUT_USEC) == 0)
                ;
        return 0;
}

int main(int argc, char **argv)
{
        uint64_t n;

        if (!service_program())
                return EXIT_FAILURE;
        if (argc == 3 && streq(argv[1], "start") && parse_u64(argv[2], &n) >= 0 && n > 0 && n <= 1000)
                return measure_starts(n) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
        if (argc == 2 && streq(argv[1], "serve"))
                return serve() < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
        return EXIT_FAILURE;
}
