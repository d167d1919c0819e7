#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""How long things take on this machine, as a multiple of what they take on one that is quiet and not emulated. Time-outs of the tests are
multiplied by what follows from it. Run as a program, it prints the number; ACNSPAWN_TEST_SLOW has it for the programs that are started
then, so that it is measured once. With --busy it prints how busy the machine is, which ACNSPAWN_TEST_BUSY keeps."""

import contextlib
import os
import sys
import time

PROCESSES = 20
LOOPS = 200000
USUAL = 0.018  # seconds for both


def measured():
    """The best of three: the pace of the machine, rather than of what else runs on it for a moment."""
    best = None
    for _ in range(3):
        began = time.monotonic()
        for _ in range(PROCESSES):
            os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
        for _ in range(LOOPS):
            pass
        took = time.monotonic() - began
        best = took if best is None else min(best, took)
    return max(1.0, best / USUAL)


def busy(seconds=1):
    """The share of all processors, from 0 to 1, that other work uses. What runs with a low priority (nice) counts while it is in the kernel;
    where the kernel divides the processors among sessions, a low priority says nothing to other sessions."""
    def divided():
        with contextlib.suppress(OSError), open("/proc/sys/kernel/sched_autogroup_enabled") as f:
            return f.read().strip() == "1"

    def times():
        with open("/proc/stat") as f:
            user, nice, system, idle, waiting, *interrupts = map(int, f.readline().split()[1:9])
        used, left = user + system + sum(interrupts), idle + waiting
        return (used + nice, left) if divided() else (used, left + nice)

    if os.environ.get("ACNSPAWN_TEST_BUSY"):
        return float(os.environ["ACNSPAWN_TEST_BUSY"])
    before = times()
    time.sleep(seconds)
    used, left = (now - then for now, then in zip(times(), before))
    return used / max(1, used + left)


SLOW = float(os.environ.get("ACNSPAWN_TEST_SLOW") or measured())


def patience(seconds):
    """A time-out, in seconds, of what takes less than half of SECONDS on a quiet machine. A machine may be busier later on than it was when
    the pace was measured."""
    return seconds * (2 + SLOW / 10)


if __name__ == "__main__":
    print("%.2f" % busy() if sys.argv[1:] == ["--busy"] else "%.1f" % SLOW)
