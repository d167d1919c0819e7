#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""How long things take on this machine, as a multiple of what they take on one that is quiet and not emulated. Time-outs of the tests are
multiplied by what follows from it. Run as a program, it prints the number; ACNSPAWN_TEST_SLOW has it for the programs that are started
then, so that it is measured once."""

import os
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


SLOW = float(os.environ.get("ACNSPAWN_TEST_SLOW") or measured())


def patience(seconds):
    """A time-out, in seconds, of what takes less than half of SECONDS on a quiet machine. A machine may be busier later on than it was when
    the pace was measured."""
    return seconds * (2 + SLOW / 10)


if __name__ == "__main__":
    print("%.1f" % SLOW)
