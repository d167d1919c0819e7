/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Seccomp profiles: JSON as in the runtime specification of OCI ("linux.seccomp"), with the extensions of container engines'
 * profile files. */

#include "schema/schema.h"

#define SECCOMP_PROFILE_SIZE_MAX (1U << 20)
#define SECCOMP_PROFILE_ARGUMENTS_MAX 6U

typedef enum SeccompOperator {
        SECCOMP_NE,
        SECCOMP_LT,
        SECCOMP_LE,
        SECCOMP_EQ,
        SECCOMP_GE,
        SECCOMP_GT,
        SECCOMP_MASKED_EQ, /* the argument and VALUE is VALUE_TWO */
        _SECCOMP_OPERATOR_MAX,
} SeccompOperator;

typedef struct SeccompArgument {
        unsigned index; /* 0 to 5 */
        SeccompOperator op;
        uint64_t value, value_two;
} SeccompArgument;

/* What has to hold, or must not, for a rule to be used. */
typedef struct SeccompCondition {
        char **capabilities, **architectures; /* "CAP_…" in upper case; as Go calls them */
        unsigned kernel_major, kernel_minor;  /* at least; 0.0: any */
} SeccompCondition;

typedef struct SeccompProfileRule {
        char **names;    /* of system calls */
        uint32_t action; /* SECCOMP_RET_… */
        SeccompArgument arguments[SECCOMP_PROFILE_ARGUMENTS_MAX];
        size_t n_arguments; /* which all have to match */
        SeccompCondition includes, excludes;
} SeccompProfileRule;

/* The architectures, as libseccomp calls them, that programs of ARCHITECTURE may be of, too. */
typedef struct SeccompArchitectures {
        char *architecture;
        char **below;
} SeccompArchitectures;

typedef struct SeccompProfile {
        uint32_t default_action;
        char **architectures;
        SeccompArchitectures *map;
        size_t n_map;
        SeccompProfileRule *rules;
        size_t n_rules;
} SeccompProfile;

SeccompProfile *seccomp_profile_free(SeccompProfile *p);
DEFINE_TRIVIAL_CLEANUP_FUNC(SeccompProfile *, seccomp_profile_free);
/* -EBADMSG: it is not JSON, -EINVAL: nor a profile, or one that cannot be applied here; -EFBIG: it is too large. */
int seccomp_profile_parse(const char *text, size_t size, SeccompProfile **ret, Error *e);
