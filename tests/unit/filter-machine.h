/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The kernel's virtual machine for filter programs, as far as acnspawn's filters use it: the decision of a
 * program on a call, without installing it. Unknown instructions, and jumps out of the program, return
 * UINT32_MAX, which is not an action. */

#include "stage1/seccomp-program.h"

__attribute__((unused)) static uint32_t filter_run(const SeccompProgram *p, const struct seccomp_data *data)
{
        uint32_t a = 0;

        for (size_t i = 0; i < p->n; i++) {
                const struct sock_filter *f = &p->items[i];
                switch (f->code) {
                case BPF_LD | BPF_W | BPF_ABS:
                        if (f->k % 4 != 0 || f->k + 4 > sizeof(*data))
                                return UINT32_MAX;
                        memcpy(&a, (const char *) data + f->k, sizeof(a));
                        break;
                case BPF_ALU | BPF_AND | BPF_K:
                        a &= f->k;
                        break;
                case BPF_JMP | BPF_JGE | BPF_K:
                        i += a >= f->k ? f->jt : f->jf;
                        break;
                case BPF_JMP | BPF_JA:
                        i += f->k;
                        break;
                case BPF_RET | BPF_K:
                        return f->k;
                default:
                        return UINT32_MAX;
                }
        }
        return UINT32_MAX;
}
