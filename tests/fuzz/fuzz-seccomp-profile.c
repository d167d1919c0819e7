/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Profiles of system calls: the filter of every accepted one decides as the profile says, on arguments around those that it
 * has. */

#include <linux/audit.h>
#include <sys/syscall.h>

#include "tests/unit/filter-machine.h"
#include "tests/unit/seccomp-reference.h"

#define ARGUMENTS_MAX 16U

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_call(const SeccompProfile *p, const SeccompProgram *program, uint64_t capabilities, const uint64_t *args)
{
#ifdef __x86_64__
        struct seccomp_data call = {.nr = SYS_personality, .arch = AUDIT_ARCH_X86_64};

        memcpy(call.args, args, sizeof(call.args));
        if (filter_run(program, &call) != reference_decide(p, capabilities, "personality", args))
                abort();
#else
        (void) p;
        (void) program;
        (void) capabilities;
        (void) args;
#endif
}

static void check_values(const SeccompProfile *p, const SeccompProgram *program, uint64_t capabilities)
{
        unsigned n = 0;

        for (size_t i = 0; i < p->n_rules; i++)
                for (size_t k = 0; k < p->rules[i].n_arguments && n++ < ARGUMENTS_MAX; k++)
                        for (int add = -1; add < 2; add++) {
                                const SeccompArgument *a = &p->rules[i].arguments[k];
                                uint64_t args[6] = {};
                                args[a->index] = a->value + (uint64_t) add;
                                check_call(p, program, capabilities, args);
                                args[a->index] ^= a->value_two;
                                check_call(p, program, capabilities, args);
                        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const uint64_t capabilities[] = {0, UINT64_C(1) << 21};
        _cleanup_(seccomp_profile_freep) SeccompProfile *p = NULL;
        _cleanup_error_ Error e = ERROR_NULL;

        if (seccomp_profile_parse((const char *) data, size, &p, &e) < 0) {
                if (!e.message)
                        abort();
                return 0;
        }
        for (size_t i = 0; i < ELEMENTSOF(capabilities); i++) {
                _cleanup_seccomp_program_ SeccompProgram program = {};
                _cleanup_error_ Error refused = ERROR_NULL;
                int r = seccomp_profile_compile(p, capabilities[i], &program, &refused);

                if (r < 0 && !refused.message)
                        abort();
                if (r >= 0)
                        check_values(p, &program, capabilities[i]);
        }
        return 0;
}
