/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* bpf-program.c: making BPF programs of cgroups, instruction by instruction. */

#include <linux/bpf.h>

#include "basic/basic.h"

typedef struct BpfProgram {
        struct bpf_insn *items;
        size_t n, allocated;
        bool failed; /* out of memory */
} BpfProgram;

void bpf_program_done(BpfProgram *p);
#define _cleanup_bpf_program_ _cleanup_(bpf_program_done)

void bpf_emit(BpfProgram *p, uint8_t code, uint8_t to, uint8_t from, int16_t offset, int32_t number);
/* TO becomes the 32 bits at OFFSET of what register FROM points to. */
void bpf_emit_load(BpfProgram *p, uint8_t to, uint8_t from, size_t offset);
void bpf_emit_number(BpfProgram *p, uint8_t to, uint64_t number);
void bpf_emit_call(BpfProgram *p, enum bpf_func_id function);
/* The end, with that result. */
void bpf_emit_end(BpfProgram *p, bool allow);
/* A jump whose target is set by bpf_land(), which makes it the next instruction. */
size_t bpf_emit_jump(BpfProgram *p, uint8_t code, uint8_t to, uint8_t from, int32_t number);
void bpf_land(BpfProgram *p, size_t jump);

/* The system call; negative errno. Descriptors are O_CLOEXEC. */
int bpf_call(enum bpf_cmd command, union bpf_attr *a);
/* Loads it, as a descriptor. -EOPNOTSUPP: this kernel has no such programs; -EPERM: it lets this process load none. */
int bpf_program_load(const BpfProgram *p, enum bpf_prog_type type, enum bpf_attach_type attach,
                     const char *name);
