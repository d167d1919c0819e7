/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Decisions of the default filter, for tests in other languages. Without arguments the names of the
 * machine's system calls, with their numbers, go to standard output. With the argument "decide" each line of
 * standard input is a question, "ARCHITECTURE CAPABILITIES NAME ARGUMENT1 ARGUMENT3", with 0 for the
 * machine's own architecture, 1 for the other one whose programs it runs; the answer is a line "allow",
 * "kill", the name of an error, or "none" for a call that the architecture does not have. */

#include <inttypes.h>
#include <sys/socket.h>

#include "stage1/seccomp-filter.h"
#include "stage1/seccomp-rules.h"
#include "stage1/seccomp-tables.h"
#include "tests/unit/filter-machine.h"

typedef struct Question {
        unsigned architecture;
        uint64_t capabilities, first, third;
        char name[64];
} Question;

static void list(void)
{
        for (size_t i = 0; i < SECCOMP_N_CALLS; i++)
                if (seccomp_calls[i].number[0] >= 0)
                        printf("%s %d\n", seccomp_calls[i].name, seccomp_calls[i].number[0]);
}

static int find_number(const Question *q)
{
        for (size_t i = 0; i < SECCOMP_N_CALLS; i++)
                if (streq(seccomp_calls[i].name, q->name))
                        return seccomp_calls[i].number[q->architecture];
        return -1;
}

static const char *describe(uint32_t action)
{
        if (action == SECCOMP_RET_ALLOW)
                return "allow";
        if ((action & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO)
                return strerrorname_np((int) (action & SECCOMP_RET_DATA)) ?: "unknown";
        return "kill";
}

/* P is the filter for CAPABILITIES, which is reused for the next question with the same capabilities. */
static int answer(const Question *q, SeccompProgram *p, uint64_t *capabilities)
{
        static const IsolatorList none;
        int number = q->architecture < SECCOMP_N_ARCHITECTURES ? find_number(q) : -1;

        if (number < 0) {
                puts("none");
                return 0;
        }
        if (p->n == 0 || *capabilities != q->capabilities) {
                seccomp_program_done(p);
                int r = seccomp_compile(&none, q->capabilities, p, NULL);
                if (r < 0)
                        return r;
                *capabilities = q->capabilities;
        }
        const struct seccomp_data data = {.nr = number,
                                          .arch = seccomp_architectures[q->architecture],
                                          .args = {q->first, SOCK_STREAM, q->third}};
        puts(describe(filter_run(p, &data)));
        return 0;
}

int main(int argc, char *argv[])
{
        _cleanup_seccomp_program_ SeccompProgram p = {};
        uint64_t capabilities = 0;
        char line[256];
        Question q;

        if (argc != 2 || !streq(argv[1], "decide")) {
                list();
                return EXIT_SUCCESS;
        }
        while (fgets(line, sizeof(line), stdin))
                if (sscanf(line, "%u %" SCNu64 " %63s %" SCNu64 " %" SCNu64, &q.architecture,
                           &q.capabilities, q.name, &q.first, &q.third) != 5 ||
                    answer(&q, &p, &capabilities) < 0)
                        return EXIT_FAILURE;
        return EXIT_SUCCESS;
}
