/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sets the owner of a pod's user namespace.
 *
 * The kernel counts inotify instances and watches, fanotify groups and namespaces of a pod in the pod's user
 * namespace, and also for the user who created that namespace. systemd-nspawn creates it as root, so all
 * pods together, and root itself, would share the limits of one user: 128 inotify instances by default, of
 * which each pod's systemd takes three, and any app could use up the rest. If the root user of the pod's own
 * range creates it, each pod has separate limits.
 *
 * nspawn has no option for that. So this library is loaded in front of the C library in nspawn alone (its
 * environment is not the pod's), and makes the one system call that creates the namespace with the effective
 * user id that is named in the environment. nspawn keeps its capabilities meanwhile. If a step fails, the
 * call is made unchanged. */

#include <dlfcn.h>
#include <errno.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stage0/owner/owner.h"

#define N_ARGUMENTS 6
#define KEEP ((long) -1) /* of setresuid() */

typedef long (*Syscall)(long number, ...);

static long call(Syscall function, long number, const long a[static N_ARGUMENTS])
{
        return function(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* 0: none was given. */
static unsigned long requested_owner(void)
{
        const char *text = getenv(USERNS_OWNER_VARIABLE);
        char *end = NULL;

        unsigned long uid = text ? strtoul(text, &end, 10) : 0;
        return end && *end == 0 ? uid : 0;
}

/* A change of the effective user id resets the dumpable flag, which core dumps and /proc depend on, and the
 * parent death signal. */
static void restore(int dumpable, int death_signal)
{
        if (dumpable == 1)
                (void) prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
        (void) prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0);
}

static long clone_as(unsigned long uid, Syscall function, const long a[static N_ARGUMENTS])
{
        int bits = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0), dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0),
            sig = 0;

        if (bits < 0 || prctl(PR_GET_PDEATHSIG, &sig, 0, 0, 0) < 0 ||
            prctl(PR_SET_SECUREBITS, bits | SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0)
                return call(function, SYS_clone, a);
        /* For this thread alone: the C library's setresuid() changes all threads. */
        if (function(SYS_setresuid, KEEP, uid, KEEP) < 0) {
                (void) prctl(PR_SET_SECUREBITS, bits, 0, 0, 0);
                return call(function, SYS_clone, a);
        }
        long r = call(function, SYS_clone, a);
        int error = errno;
        if (r == 0) { /* the child has all capabilities, and no parent death signal yet */
                restore(dumpable, 0);
                return 0;
        }
        (void) function(SYS_setresuid, KEEP, 0L, KEEP);
        (void) prctl(PR_SET_SECUREBITS, bits, 0, 0, 0);
        restore(dumpable, sig);
        if (r < 0 && error != ENOSPC) /* a limit of that user */
                return call(function, SYS_clone, a);
        errno = error;
        return r;
}

/* In the place of the C library's syscall(). */
long intercept_call(long number, ...) __asm__("syscall") __attribute__((visibility("default")));

long intercept_call(long number, ...)
{
        static Syscall function;
        long a[N_ARGUMENTS];
        va_list ap;

        if (!function) {
                function = (Syscall) dlsym(RTLD_NEXT, "syscall");
                if (!function) {
                        errno = ENOSYS;
                        return -1;
                }
        }
        va_start(ap, number);
        for (size_t i = 0; i < N_ARGUMENTS; i++)
                a[i] = va_arg(ap, long);
        va_end(ap);
        unsigned long uid = number == SYS_clone && (a[0] & CLONE_NEWUSER) ? requested_owner() : 0;
        return uid ? clone_as(uid, function, a) : call(function, number, a);
}
