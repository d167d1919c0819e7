/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* BPF programs of cgroups are a few dozen instructions each, which depend on the pod; they are made here rather than by a
 * compiler and a loader, which hosts do not have. */

#include <sys/syscall.h>

#include "stage0/host/bpf-program.h"

void bpf_program_done(BpfProgram *p)
{
        free(p->items);
        *p = (BpfProgram){};
}

void bpf_emit(BpfProgram *p, uint8_t code, uint8_t to, uint8_t from, int16_t offset, int32_t number)
{
        if (p->failed || GREEDY_REALLOC(p->items, p->allocated, p->n + 1) < 0) {
                p->failed = true;
                return;
        }
        p->items[p->n++] = (struct bpf_insn){.code = code,
                                             .dst_reg = to & 0xfU,
                                             .src_reg = from & 0xfU,
                                             .off = offset,
                                             .imm = number};
}

void bpf_emit_load(BpfProgram *p, uint8_t to, uint8_t from, size_t offset)
{
        bpf_emit(p, BPF_LDX | BPF_MEM | BPF_W, to, from, (int16_t) offset, 0);
}

void bpf_emit_number(BpfProgram *p, uint8_t to, uint64_t number)
{
        bpf_emit(p, BPF_LD | BPF_DW | BPF_IMM, to, 0, 0, (int32_t) number);
        bpf_emit(p, 0, 0, 0, 0, (int32_t) (number >> 32));
}

void bpf_emit_call(BpfProgram *p, enum bpf_func_id function)
{
        bpf_emit(p, BPF_JMP | BPF_CALL, 0, 0, 0, (int32_t) function);
}

void bpf_emit_end(BpfProgram *p, bool allow)
{
        bpf_emit(p, BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, allow);
        bpf_emit(p, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

size_t bpf_emit_jump(BpfProgram *p, uint8_t code, uint8_t to, uint8_t from, int32_t number)
{
        size_t at = p->n;

        bpf_emit(p, code, to, from, 0, number);
        return at;
}

void bpf_land(BpfProgram *p, size_t jump)
{
        if (!p->failed)
                p->items[jump].off = (int16_t) (p->n - jump - 1);
}

int bpf_call(enum bpf_cmd command, union bpf_attr *a)
{
        int r = (int) syscall(SYS_bpf, command, a, sizeof(*a));

        return r < 0 ? -errno : r;
}

int bpf_program_load(const BpfProgram *p, enum bpf_prog_type type, enum bpf_attach_type attach,
                     const char *name)
{
        union bpf_attr a = {
                        .prog_type = type,
                        .expected_attach_type = attach,
                        .insns = (uint64_t) (uintptr_t) p->items,
                        .insn_cnt = (uint32_t) p->n,
                        .license = (uint64_t) (uintptr_t) "LGPL-2.1-or-later",
        };

        if (p->failed)
                return -ENOMEM;
        snprintf(a.prog_name, sizeof(a.prog_name), "%s", name);
        int r = bpf_call(BPF_PROG_LOAD, &a);
        return r == -EINVAL || r == -ENOSYS ? -EOPNOTSUPP : r;
}
