/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Runs a function once for each allocation that it makes, and lets that allocation fail:
 *
 *     static int parse(void *userdata, Text *result, Error *e);   writes to RESULT what it came to
 *     for_each_failing_allocation(parse, userdata);
 *
 * A run whose allocation failed has to fail with -ENOMEM and a message, or to come to the same result as without
 * a failure: the code of the error, if the input is not valid; else the text in RESULT. Nothing that it
 * allocated, and no descriptor, may be left; in the sanitized build the sanitizer says so at the end.
 *
 * The program that includes this has its own malloc() and the like, which the dynamic linker gives to all
 * libraries, too. Allocations fail in our own code, in libc (asprintf(), getline(), …) and in libjson-c: all
 * three are ours to handle. They do not fail in other libraries: what those make of it is not tested here. */

#include <execinfo.h>
#include <link.h>

#include "basic/basic.h"
#include "tests/unit/test.h"

#define ALLOCATIONS_MAX 200000U
#define ALLOCATION_FRAMES 12

/* --- The allocator ------------------------------------------------------------------------------------- */

#ifdef __SANITIZE_ADDRESS__
#define ALLOCATION_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ALLOCATION_SANITIZED 1
#endif
#endif

#ifdef ALLOCATION_SANITIZED
#define ALLOCATION_REAL(f) __interceptor_##f
#else
#define ALLOCATION_SANITIZED 0
#define ALLOCATION_REAL(f) __libc_##f
#endif

void *ALLOCATION_REAL(malloc)(size_t n);
void *ALLOCATION_REAL(calloc)(size_t n, size_t size);
void *ALLOCATION_REAL(realloc)(void *p, size_t n);
void ALLOCATION_REAL(free)(void *p);

typedef enum AllocationCaller {
        ALLOCATION_OTHER,
        ALLOCATION_PROGRAM,
        ALLOCATION_LIBC,
        ALLOCATION_JSON
} AllocationCaller;

static struct {
        uintptr_t begin, end;
        AllocationCaller caller;
} allocation_modules_[3]; /* the program first */
/* Set by cases with objects of more than ten members: json-c (0.16) loses the key of the eleventh if there is no
 * memory for more of them. */
static bool allocations_spare_json;
static size_t allocation_n_modules_;
static unsigned allocation_fails_at_, allocation_count_; /* 0: none */
static long allocation_live_;
static void *allocation_frames_[ALLOCATION_FRAMES]; /* of the one that failed */
static int allocation_n_frames_;

static AllocationCaller allocation_caller_(uintptr_t address)
{
        for (size_t i = 0; i < allocation_n_modules_; i++)
                if (address >= allocation_modules_[i].begin && address < allocation_modules_[i].end)
                        return allocation_modules_[i].caller;
        return ALLOCATION_OTHER;
}

/* AddressSanitizer ends the program if an allocation that it makes in a new thread through libc fails. vasprintf() of glibc
 * 2.36 writes past its buffer if the text fills it exactly and realloc() fails. */
static bool allocation_is_spared_(const void *address, bool again)
{
        AllocationCaller caller = allocation_caller_((uintptr_t) address);

        return caller == ALLOCATION_OTHER ||
               (caller == ALLOCATION_LIBC && (again || (ALLOCATION_SANITIZED && gettid() != getpid()))) ||
               (caller == ALLOCATION_JSON && allocations_spare_json);
}

static bool allocation_fails_(const void *address, bool again)
{
        unsigned at = __atomic_load_n(&allocation_fails_at_, __ATOMIC_RELAXED);

        if (at == 0 || allocation_is_spared_(address, again) ||
            __atomic_add_fetch(&allocation_count_, 1, __ATOMIC_RELAXED) != at)
                return false;
        allocation_n_frames_ = backtrace(allocation_frames_, ALLOCATION_FRAMES);
        errno = ENOMEM;
        return true;
}

/* The compiler knows that malloc() does not change variables of programs. */
static long allocations_live_(void)
{
        return __atomic_load_n(&allocation_live_, __ATOMIC_RELAXED);
}

static void *allocation_counted_(void *p)
{
        if (p)
                __atomic_add_fetch(&allocation_live_, 1, __ATOMIC_RELAXED);
        return p;
}

#pragma GCC visibility push(default)

#if ALLOCATION_SANITIZED
/* It knows the dynamic linker's allocations, which are never freed, by their caller: here that is malloc(). */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
        return "leak:ld-linux\n";
}
#endif

void *malloc(size_t n)
{
        return allocation_fails_(__builtin_return_address(0), false)
                               ? NULL
                               : allocation_counted_(ALLOCATION_REAL(malloc)(n));
}

void *calloc(size_t n, size_t size)
{
        return allocation_fails_(__builtin_return_address(0), false)
                               ? NULL
                               : allocation_counted_(ALLOCATION_REAL(calloc)(n, size));
}

void free(void *p)
{
        if (p)
                __atomic_sub_fetch(&allocation_live_, 1, __ATOMIC_RELAXED);
        ALLOCATION_REAL(free)(p);
}

void *realloc(void *p, size_t n)
{
        if (allocation_fails_(__builtin_return_address(0), true))
                return NULL;
        void *q = ALLOCATION_REAL(realloc)(p, n);
        if (!p)
                return allocation_counted_(q);
        if (!q && n == 0)
                __atomic_sub_fetch(&allocation_live_, 1, __ATOMIC_RELAXED);
        return q;
}

/* Those of the sanitizer do not call malloc(). */
static char *allocation_copy_(const char *s, size_t n, const void *caller)
{
        char *copy = allocation_fails_(caller, false) ? NULL
                                                      : allocation_counted_(ALLOCATION_REAL(malloc)(n + 1));

        if (copy) {
                memcpy(copy, s, n);
                copy[n] = 0;
        }
        return copy;
}

char *strdup(const char *s)
{
        return allocation_copy_(s, strlen(s), __builtin_return_address(0));
}

char *strndup(const char *s, size_t n)
{
        return allocation_copy_(s, strnlen(s, n), __builtin_return_address(0));
}

#pragma GCC visibility pop

static int allocation_add_module_(struct dl_phdr_info *m, size_t size, void *userdata)
{
        uintptr_t begin = UINTPTR_MAX, end = 0;

        AllocationCaller caller = !m->dlpi_name[0]                         ? ALLOCATION_PROGRAM
                                  : strstr(m->dlpi_name, "/libc.so.")      ? ALLOCATION_LIBC
                                  : strstr(m->dlpi_name, "/libjson-c.so.") ? ALLOCATION_JSON
                                                                           : ALLOCATION_OTHER;

        (void) size, (void) userdata;
        if (caller == ALLOCATION_OTHER)
                return 0;
        for (size_t i = 0; i < m->dlpi_phnum; i++)
                if (m->dlpi_phdr[i].p_type == PT_LOAD) {
                        uintptr_t at = m->dlpi_addr + m->dlpi_phdr[i].p_vaddr;
                        begin = MIN(begin, at);
                        end = MAX(end, at + m->dlpi_phdr[i].p_memsz);
                }
        if (allocation_n_modules_ < ELEMENTSOF(allocation_modules_)) {
                allocation_modules_[allocation_n_modules_].caller = caller;
                allocation_modules_[allocation_n_modules_].begin = begin;
                allocation_modules_[allocation_n_modules_++].end = end;
        }
        return 0;
}

/* Suspends failures, for what the test itself does in the middle of a run; the result is for resuming. */
static inline unsigned allocations_suspend(void)
{
        return __atomic_exchange_n(&allocation_fails_at_, 0, __ATOMIC_RELAXED);
}

static inline void allocations_resume(unsigned at)
{
        __atomic_store_n(&allocation_fails_at_, at, __ATOMIC_RELAXED);
}

/* --- One function, with each allocation failing -------------------------------------------------------- */

typedef int (*AllocationWork)(void *userdata, Text *result, Error *e);

/* For functions that have no Error. */
static inline int without_message(int r, Error *e)
{
        return r == -ENOMEM ? error_oom(e) : r;
}

typedef struct AllocationRun {
        int result;
        Text text;
        Error error;
} AllocationRun;

static inline void allocation_run_done_(AllocationRun *a)
{
        text_done(&a->text);
        error_done(&a->error);
}

static inline AllocationRun allocation_run_(AllocationWork work, void *userdata, unsigned at)
{
        AllocationRun a = {};

        __atomic_store_n(&allocation_count_, 0, __ATOMIC_RELAXED);
        allocation_n_frames_ = 0;
        allocations_resume(at);
        a.result = work(userdata, &a.text, &a.error);
        (void) allocations_suspend();
        if (a.result >= 0 && a.text.failed)
                a.result = error_oom(&a.error);
        return a;
}

/* Where the program asked for the memory that it did not get, for addr2line. */
static inline const char *allocation_place_(void)
{
        static char text[ALLOCATION_FRAMES * 24];
        size_t n = 0;

        text[0] = 0;
        for (int i = 1; i < allocation_n_frames_; i++) {
                uintptr_t at = (uintptr_t) allocation_frames_[i];
                if (at >= allocation_modules_[0].begin && at < allocation_modules_[0].end)
                        n += (size_t) snprintf(text + n, sizeof(text) - n, " %#lx",
                                               (unsigned long) (at - 1 - allocation_modules_[0].begin));
        }
        return text;
}

static inline const char *allocation_text_(const Text *t)
{
        return t->data ?: "";
}

static inline int allocation_lowest_fd_(void)
{
        int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);

        close(fd);
        return fd;
}

static inline const char *allocation_verdict_(const AllocationRun *a, const AllocationRun *right,
                                              bool failed)
{
        if (failed && a->result == -ENOMEM)
                return a->error.message ? NULL : "there is no message";
        if (a->result != right->result && (a->result < 0 || right->result < 0))
                return "the error is another one";
        if (a->result >= 0 && !streq(allocation_text_(&a->text), allocation_text_(&right->text)))
                return "the result is another one";
        return NULL;
}

static inline void allocation_try_(AllocationWork work, void *userdata, const AllocationRun *right,
                                   unsigned n)
{
        int fd = allocation_lowest_fd_();
        long live = allocations_live_();

        AllocationRun a = allocation_run_(work, userdata, n);
        const char *wrong = allocation_verdict_(&a, right,
                                                __atomic_load_n(&allocation_count_, __ATOMIC_RELAXED) >= n);
        if (wrong)
                test_fail_(__FILE__, __LINE__,
                           "allocation %u failed, at%s: %s: %d (%s) \"%s\", expected %d \"%s\"", n,
                           allocation_place_(), wrong, a.result, a.error.message ?: "no message",
                           allocation_text_(&a.text), right->result, allocation_text_(&right->text));
        allocation_run_done_(&a);
        long left = allocations_live_() - live;
        if (left != 0 && !ALLOCATION_SANITIZED) /* whose own functions allocate in their own way */
                TEST_FAIL("allocation %u failed, at%s: %ld allocations are left", n, allocation_place_(),
                          left);
        if (allocation_lowest_fd_() != fd)
                TEST_FAIL("allocation %u failed, at%s: a descriptor is left", n, allocation_place_());
}

static inline void allocations_all_(AllocationWork work, void *userdata, bool invalid)
{
        unsigned n = 0;

        if (allocation_n_modules_ == 0)
                dl_iterate_phdr(allocation_add_module_, NULL);
        (void) backtrace(allocation_frames_, ALLOCATION_FRAMES);  /* which allocates the first time */
        AllocationRun right = allocation_run_(work, userdata, 0); /* fills caches, too */
        if ((right.result < 0) != invalid)
                test_fail_(__FILE__, __LINE__, "without a failure it came to %d: %s", right.result,
                           right.error.message ?: "");
        while (test_state_ == TEST_GOING_ && n < ALLOCATIONS_MAX) {
                allocation_try_(work, userdata, &right, ++n);
                if (__atomic_load_n(&allocation_count_, __ATOMIC_RELAXED) < n)
                        break;
        }
        allocation_run_done_(&right);
        if (test_state_ != TEST_GOING_)
                return;
        ASSERT_LT(n, ALLOCATIONS_MAX);
        ASSERT_GT(n, 1);
}

static inline void for_each_failing_allocation(AllocationWork work, void *userdata)
{
        allocations_all_(work, userdata, false);
}

/* The same with an input that is not valid, with which WORK fails in any case. */
static inline void for_each_failing_allocation_of_invalid(AllocationWork work, void *userdata)
{
        allocations_all_(work, userdata, true);
}

/* --- Cases for parsers ---------------------------------------------------------------------------------- */

/* A case for a TEXT that WORK parses, and for one that it refuses. */
#define INPUT(name, work, text)                                                                             \
        TEST(name)                                                                                          \
        {                                                                                                   \
                for_each_failing_allocation(work, (void *) (text));                                         \
        }
#define INVALID_INPUT(name, work, text)                                                                     \
        TEST(name)                                                                                          \
        {                                                                                                   \
                for_each_failing_allocation_of_invalid(work, (void *) (text));                              \
        }

static inline void add_list(Text *t, char *const *l)
{
        STRV_FOREACH (s, l)
                text_addf(t, "'%s' ", *s);
}
