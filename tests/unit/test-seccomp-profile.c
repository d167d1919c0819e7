/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Profiles of system calls in the form of OCI: what is read, what is refused, and that filters decide as profiles say. */

#include <linux/audit.h>
#include <sys/syscall.h>

#include "tests/unit/filter-machine.h"
#include "tests/unit/seccomp-reference.h"
#include "tests/unit/test.h"

#define CAP(n) (UINT64_C(1) << (n))
#define CAP_SYS_ADMIN 21
#define FAIL(e) (SECCOMP_RET_ERRNO | (e))
#define START "{\"names\":[\"execve\"],\"action\":\"SCMP_ACT_ALLOW\"}"

static int parse(const char *text, SeccompProfile **ret, Error *e)
{
        return seccomp_profile_parse(text, strlen(text), ret, e);
}

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#define OTHER AUDIT_ARCH_I386
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#define OTHER AUDIT_ARCH_ARM
#endif

#ifdef ARCHITECTURE
static uint32_t decide(const SeccompProgram *p, uint32_t architecture, int nr, const uint64_t *args)
{
        struct seccomp_data data = {.nr = nr, .arch = architecture};

        memcpy(data.args, args, sizeof(data.args));
        return filter_run(p, &data);
}

static int compile(const char *text, uint64_t capabilities, SeccompProfile **ret_profile, SeccompProgram *ret, Error *e)
{
        int r = parse(text, ret_profile, e);

        return r < 0 ? r : seccomp_profile_compile(*ret_profile, capabilities, ret, e);
}

TEST(rules_without_arguments)
{
        static const char text[] =
                        "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":38,\"architectures\":[\"SCMP_ARCH_X86_64\"],"
                        "\"syscalls\":[{\"names\":[\"execve\",\"read\",\"none_such\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":[]},"
                        "{\"name\":\"getpid\",\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":13,\"args\":null},"
                        "{\"names\":[\"read\",\"getppid\"],\"action\":\"SCMP_ACT_ERRNO\"},"
                        "{\"names\":[\"mount\"],\"action\":\"SCMP_ACT_ALLOW\",\"includes\":{\"caps\":[\"CAP_SYS_ADMIN\"]}},"
                        "{\"names\":[\"umount2\"],\"action\":\"SCMP_ACT_ALLOW\",\"excludes\":{\"caps\":[\"CAP_SYS_ADMIN\"]}},"
                        "{\"names\":[\"ptrace\"],\"action\":\"SCMP_ACT_ALLOW\",\"includes\":{\"minKernel\":\"4.8\"}},"
                        "{\"names\":[\"kcmp\"],\"action\":\"SCMP_ACT_ALLOW\",\"includes\":{\"minKernel\":\"999.0\"}},"
                        "{\"names\":[\"uname\"],\"action\":\"SCMP_ACT_LOG\",\"excludes\":{\"arches\":[\"none\"]}},"
                        "{\"names\":[\"times\"],\"action\":\"SCMP_ACT_ALLOW\",\"includes\":{\"arches\":[\"none\"]}}]}";
        static const struct {
                int nr;
                uint32_t without, with; /* CAP_SYS_ADMIN */
        } l[] = {
                        {SYS_execve, SECCOMP_RET_ALLOW, SECCOMP_RET_ALLOW}, {SYS_read, SECCOMP_RET_ALLOW, SECCOMP_RET_ALLOW},
                        {SYS_getpid, FAIL(13), FAIL(13)},                   {SYS_getppid, FAIL(1), FAIL(1)},
                        {SYS_mount, FAIL(38), SECCOMP_RET_ALLOW},           {SYS_umount2, SECCOMP_RET_ALLOW, FAIL(38)},
                        {SYS_ptrace, SECCOMP_RET_ALLOW, SECCOMP_RET_ALLOW}, {SYS_kcmp, FAIL(38), FAIL(38)},
                        {SYS_uname, SECCOMP_RET_LOG, SECCOMP_RET_LOG},      {SYS_times, FAIL(38), FAIL(38)},
                        {100000, FAIL(ENOSYS), FAIL(ENOSYS)},
        };
        static const uint64_t none[6];

        for (int with = 0; with < 2; with++) {
                _cleanup_(seccomp_profile_freep) SeccompProfile *p = NULL;
                _cleanup_seccomp_program_ SeccompProgram program = {};

                ASSERT_OK(compile(text, with ? CAP(CAP_SYS_ADMIN) : 0, &p, &program, NULL));
                for (size_t i = 0; i < ELEMENTSOF(l); i++)
                        ASSERT_EQ(decide(&program, ARCHITECTURE, l[i].nr, none), with ? l[i].with : l[i].without);
                ASSERT_EQ(decide(&program, OTHER, 1, none), SECCOMP_RET_KILL_PROCESS);
                ASSERT_EQ(decide(&program, 1, 1, none), SECCOMP_RET_KILL_PROCESS);
                ASSERT_EQ(seccomp_profile_allows(p, with ? CAP(CAP_SYS_ADMIN) : 0, "mount"), with);
        }
}

TEST(other_architectures_are_those_that_are_named)
{
        static const char *const lists[] = {
                        "\"architectures\":[\"SCMP_ARCH_X86\",\"SCMP_ARCH_ARM\"]",
                        "\"archMap\":[{\"architecture\":\"SCMP_ARCH_X86_64\",\"subArchitectures\":[\"SCMP_ARCH_X86\",\"SCMP_ARCH_X32\"]},"
                        "{\"architecture\":\"SCMP_ARCH_AARCH64\",\"subArchitectures\":[\"SCMP_ARCH_ARM\"]}]",
        };
        static const uint64_t none[6];

        for (size_t i = 0; i < ELEMENTSOF(lists); i++) {
                _cleanup_(seccomp_profile_freep) SeccompProfile *p = NULL;
                _cleanup_seccomp_program_ SeccompProgram program = {};
                _cleanup_free_ char *text = NULL;

                ASSERT_OK(xasprintf(&text, "{\"defaultAction\":\"SCMP_ACT_ERRNO\",%s,\"syscalls\":[%s]}", lists[i], START));
                ASSERT_OK(compile(text, 0, &p, &program, NULL));
                ASSERT_EQ(decide(&program, OTHER, 11, none), SECCOMP_RET_ALLOW); /* execve of both */
                ASSERT_EQ(decide(&program, OTHER, 1, none), FAIL(EPERM));
        }
}

#define ACT(action, more) "{\"names\":[\"personality\"],\"action\":\"SCMP_ACT_" action "\"" more "}"
#define ARG(index, op, value, two) "{\"index\":" #index ",\"op\":\"SCMP_CMP_" op "\",\"value\":" #value ",\"valueTwo\":" #two "}"
#define ARGS(list) ",\"args\":[" list "]"

/* Around each value of a profile. */
static void check_values(const SeccompProfile *p, const SeccompProgram *program)
{
        static const uint64_t values[] = {
                        0, 1, 2, 7, 8, 9, 0x20000, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, 0x100000001, 0x100000008,
                        0x7fffffffffffffff, 0x8000000000000000, UINT64_MAX - 1, UINT64_MAX};

        for (size_t i = 0; i < ELEMENTSOF(values); i++)
                for (size_t k = 0; k < ELEMENTSOF(values); k++) {
                        uint64_t args[6] = {values[i], values[k], values[(i + k) % ELEMENTSOF(values)]};
                        ASSERT_EQ(decide(program, ARCHITECTURE, SYS_personality, args), reference_decide(p, 0, "personality", args));
                }
}

TEST(arguments)
{
        static const char *const rules[] = {
                        ACT("ALLOW", ARGS(ARG(0, "EQ", 8, 0))),
                        ACT("ALLOW", ARGS(ARG(0, "NE", 8, 0))),
                        ACT("ALLOW", ARGS(ARG(0, "LT", 8, 0))),
                        ACT("ALLOW", ARGS(ARG(0, "LE", 4294967296, 0))),
                        ACT("ALLOW", ARGS(ARG(0, "GT", 4294967295, 0))),
                        ACT("ALLOW", ARGS(ARG(0, "GE", 9223372036854775808, 0))),
                        ACT("ALLOW", ARGS(ARG(0, "LT", 0, 0))),
                        ACT("ALLOW", ARGS(ARG(0, "GE", 0, 0))),
                        ACT("ALLOW", ARGS(ARG(0, "GT", 18446744073709551615, 0))),
                        ACT("ALLOW", ARGS(ARG(0, "MASKED_EQ", 8, 8))),
                        ACT("ALLOW", ARGS(ARG(0, "MASKED_EQ", 4294967297, 4294967296))),
                        ACT("ALLOW", ARGS(ARG(0, "MASKED_EQ", 0, 0))),
                        ACT("ALLOW", ARGS(ARG(0, "MASKED_EQ", 8, 9))),
                        ACT("ALLOW", ARGS(ARG(0, "MASKED_EQ", 0, 1))),
                        ACT("ALLOW", ARGS(ARG(0, "EQ", 8, 0) "," ARG(1, "NE", 1, 0))),
                        ACT("ALLOW", ARGS(ARG(0, "GE", 2, 0) "," ARG(1, "LE", 9, 0) "," ARG(2, "GT", 1, 0))),
                        ACT("ALLOW", ARGS(ARG(0, "EQ", 8, 0) "," ARG(0, "EQ", 1, 0))),
                        ACT("ALLOW", ARGS(ARG(0, "EQ", 8, 0))) "," ACT("ALLOW", ARGS(ARG(0, "EQ", 1, 0))) ","
                                ACT("LOG", ARGS(ARG(1, "GT", 2, 0))),
                        ACT("LOG", ARGS(ARG(0, "LT", 9, 0))) "," ACT("ALLOW", ARGS(ARG(0, "EQ", 1, 0))),
                        ACT("LOG", ARGS(ARG(0, "LT", 9, 0))) "," ACT("TRAP", "") "," ACT("ALLOW", ""),
                        ACT("ALLOW", ARGS(ARG(0, "MASKED_EQ", 0, 0))) "," ACT("LOG", ARGS(ARG(0, "EQ", 1, 0))),
                        ACT("LOG", ARGS(ARG(0, "EQ", 1, 0))) "," ACT("ALLOW", ARGS(ARG(0, "MASKED_EQ", 0, 0))),
        };

        for (size_t i = 0; i < ELEMENTSOF(rules); i++) {
                _cleanup_(seccomp_profile_freep) SeccompProfile *p = NULL;
                _cleanup_seccomp_program_ SeccompProgram program = {};
                _cleanup_free_ char *text = NULL;

                ASSERT_OK(xasprintf(&text, "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"syscalls\":[%s,%s]}", rules[i], START));
                ASSERT_OK(compile(text, 0, &p, &program, NULL));
                check_values(p, &program);
        }
}

/* As many comparisons as one call may have: each is there once in the program. */
TEST(programs_grow_with_the_number_of_comparisons)
{
        _cleanup_error_ Error e = ERROR_NULL;

        for (unsigned n = 32; n <= 65; n += n == 64 ? 1 : 32) {
                _cleanup_(seccomp_profile_freep) SeccompProfile *p = NULL;
                _cleanup_seccomp_program_ SeccompProgram program = {};
                _cleanup_text_ Text t = {};
                _cleanup_free_ char *text = NULL;

                text_add(&t, "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"syscalls\":[" START);
                for (unsigned i = 0; i < n; i++)
                        text_addf(&t, ",{\"names\":[\"personality\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":[{\"index\":%u,\"op\":"
                                      "\"SCMP_CMP_GT\",\"value\":%u}]}", i % 6, i * 3);
                text_add(&t, "]}");
                ASSERT_OK(text_take(&t, &text, NULL));
                int r = compile(text, 0, &p, &program, &e);
                if (n == 65) {
                        ASSERT_EQ(r, -E2BIG);
                        ASSERT_STREQ(e.message, "The profile of system calls compares more than 64 arguments of personality");
                        break;
                }
                ASSERT_OK(r);
                ASSERT_TRUE(program.n < 100 + n * 12);
                check_values(p, &program);
        }
}

TEST(execve_has_to_be_possible)
{
        static const struct {
                const char *rule;
                bool starts;
        } l[] = {{"{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ALLOW\"}", false},
                 {"{\"names\":[\"execve\"],\"action\":\"SCMP_ACT_KILL\"}", false},
                 {"{\"names\":[\"execve\"],\"action\":\"SCMP_ACT_LOG\"}", true},
                 {"{\"names\":[\"execve\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":[" ARG(2, "NE", 0, 0) "]}", true},
                 {START, true}};

        for (size_t i = 0; i < ELEMENTSOF(l); i++) {
                _cleanup_(seccomp_profile_freep) SeccompProfile *p = NULL;
                _cleanup_seccomp_program_ SeccompProgram program = {};
                _cleanup_error_ Error e = ERROR_NULL;
                _cleanup_free_ char *text = NULL;

                ASSERT_OK(xasprintf(&text, "{\"defaultAction\":\"SCMP_ACT_KILL\",\"syscalls\":[%s]}", l[i].rule));
                ASSERT_EQ(compile(text, 0, &p, &program, &e), l[i].starts ? 0 : -EINVAL);
                if (!l[i].starts)
                        ASSERT_CONTAINS(e.message, "blocks execve");
        }
}
#endif

TEST(profiles_that_are_refused)
{
        static const struct {
                const char *text, *message;
        } l[] = {
                        {"[]", "something else where an object"},
                        {"{", "Invalid JSON"},
                        {"{}", "has the defaultAction ''"},
                        {"{\"defaultAction\":\"SCMP_ACT_NOTIFY\"}", "'SCMP_ACT_NOTIFY', which is not supported"},
                        {"{\"defaultAction\":1}", "\"defaultAction\" of the profile is not a string"},
                        {"{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":4096}", "from 0 to 4095"},
                        {"{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"flags\":[\"SECCOMP_FILTER_FLAG_LOG\"]}", "the flag 'SECCOMP_FILTER_FLAG_LOG'"},
                        {"{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"listenerPath\":\"/x\"}", "listenerPath"},
                        {"{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":{}}", "\"syscalls\" of the profile is not a list"},
                        {"{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[1]}", "an object is expected"},
                        {"{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"action\":\"SCMP_ACT_ALLOW\"}]}", "without \"names\""},
                        {"{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[1],\"action\":\"SCMP_ACT_ALLOW\"}]}", "list of strings"},
                        {"{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[\"a\"]}]}", "the action ''"},
                        {"{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[\"a\"],\"action\":\"SCMP_ACT_LOG\",\"args\":[{\"index\":6,"
                         "\"op\":\"SCMP_CMP_EQ\"}]}]}", "from 0 to 5"},
                        {"{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[\"a\"],\"action\":\"SCMP_ACT_LOG\",\"args\":[{\"index\":1,"
                         "\"op\":\"SCMP_CMP_XX\"}]}]}", "the op 'SCMP_CMP_XX'"},
                        {"{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[\"a\"],\"action\":\"SCMP_ACT_LOG\",\"args\":[{\"index\":1,"
                         "\"value\":-1,\"op\":\"SCMP_CMP_EQ\"}]}]}", "from 0 to 18446744073709551615"},
                        {"{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[\"a\"],\"action\":\"SCMP_ACT_LOG\",\"includes\":{"
                         "\"minKernel\":\"4\"}}]}", "not like 4.8"},
        };

        for (size_t i = 0; i < ELEMENTSOF(l); i++) {
                _cleanup_(seccomp_profile_freep) SeccompProfile *p = NULL;
                _cleanup_error_ Error e = ERROR_NULL;

                ASSERT_TRUE(parse(l[i].text, &p, &e) < 0);
                ASSERT_CONTAINS(e.message, l[i].message);
        }
}

int main(void)
{
#ifdef ARCHITECTURE
        RUN(rules_without_arguments);
        RUN(other_architectures_are_those_that_are_named);
        RUN(arguments);
        RUN(programs_grow_with_the_number_of_comparisons);
        RUN(execve_has_to_be_possible);
#endif
        RUN(profiles_that_are_refused);
        return TEST_END();
}
