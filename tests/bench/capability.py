#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a user namespace of its own costs an app that has CAP_SYS_ADMIN, in a pod with a user namespace: the time from "acnspawn run UUID" to the
app's first instruction and to the pod's end, and the memory of all processes of a pod that runs, beside an app without this
capability, and beside another build, in which such an app has none.

    tests/bench/capability.py BUILD-DIRECTORY [--before=BUILD-DIRECTORY] [--runs=15]

Figures are medians of N runs, taken in turns so that a busy moment hits all alike, and the ratios are of these. Needs root.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

from start import Bench, make_image

ADMIN = "--caps-retain=CAP_CHOWN,CAP_SYS_ADMIN"
PLAIN = "--caps-retain=CAP_CHOWN"


def descendants(pid):
    found, todo = [], [pid]
    while todo:
        pid = todo.pop()
        try:
            with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
                todo += [int(n) for n in f.read().split()]
            found.append(pid)
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def memory_of(pid):
    """KiB, its share of what it has in common with others."""
    try:
        with open("/proc/%d/smaps_rollup" % pid) as f:
            return sum(int(line.split()[1]) for line in f if line.startswith("Pss:"))
    except (FileNotFoundError, ProcessLookupError):
        return 0


class Kind:
    """Pods of one build, with one set of capabilities."""

    def __init__(self, name, bench, capabilities):
        self.name, self.bench, self.capabilities = name, bench, capabilities
        self.first, self.end, self.memory = [], [], []

    def start(self):
        uuid = self.bench.call("prepare", self.bench.image, self.capabilities).strip()
        begin = time.time()
        out = self.bench.call("run", uuid)
        end = time.time()
        self.first.append((float(out.split()[-1]) - begin) * 1000)
        self.end.append((end - begin) * 1000)

    def hold(self, waiting):
        uuid = self.bench.call("run", "--detach", waiting, self.capabilities).strip()
        with open(os.path.join(self.bench.store, "pods/running", uuid, "runtime")) as f:
            supervisor = json.load(f)["supervisor"]
        time.sleep(0.5)  # what a start has used is freed
        self.memory.append(sum(memory_of(pid) for pid in descendants(supervisor)))
        self.bench.call("stop", "--force", uuid)


def ratio(a, b):
    return "%.2f" % (statistics.median(a) / statistics.median(b))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build")
    parser.add_argument("--before")
    parser.add_argument("--runs", type=int, default=15)
    a = parser.parse_args()
    work = tempfile.mkdtemp(prefix="acnspawn-bench-", dir="/var/tmp")
    signal.signal(signal.SIGTERM, lambda *_: exit(1))
    try:
        kinds = []
        for name, build in ("now", a.build), ("before", a.before):
            if build:
                directory = os.path.join(work, name)
                os.mkdir(directory)
                bench = Bench(build, directory, os.path.join(a.build, "tests", "bench", "mark"))
                bench.waiting = make_image(os.path.join(directory, "wait.aci"), bench.mark, words=("wait",))
                kinds += [Kind(name + ", without CAP_SYS_ADMIN", bench, PLAIN), Kind(name + ", with CAP_SYS_ADMIN", bench, ADMIN)]
        for run in range(a.runs + 1):
            for k in kinds:
                k.start()
                if run == 0:  # caches
                    k.first.clear(), k.end.clear()
        for _ in range(a.runs):
            for k in kinds:
                k.hold(k.bench.waiting)
        print("%-30s %14s %10s %10s" % ("", "first instr.", "end", "memory"))
        for k in kinds:
            print("%-30s %11.1f ms %7.1f ms %6.0f KiB" % (k.name, statistics.median(k.first), statistics.median(k.end), statistics.median(k.memory)))
        pairs = [(1, 0)] + ([(3, 2), (1, 3), (0, 2)] if a.before else [])
        for x, y in pairs:
            k, other = kinds[x], kinds[y]
            print("%s / %s: first instruction %s, end %s, memory %s" %
                  (k.name, other.name, ratio(k.first, other.first), ratio(k.end, other.end), ratio(k.memory, other.memory)))
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
