#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Two builds of the packages of Debian give the same bytes. Debian's reprotest makes both: the second in another directory whose files are
in another order, on a host of another name, with another umask, locale, time zone, home, search path, environment, number of CPUs, and at
another time. Its virtual server is "null": both run on this machine, in a directory below $TMPDIR.

    tests/packages/reproducible.py OUTPUT-DIRECTORY
"""

import glob
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.abspath(sys.argv[1])
LOG = OUT + "/log"
VARIATIONS = "environment build_path aslr num_cpus time fileordering domain_host home locales exec_path timezone umask".split()
# What a variation needs.
PROGRAMS = {"time": "faketime", "fileordering": "disorderfs", "num_cpus": "taskset"}
# Not varied: builds as other users need one that exists and sudo; kernel makes uname(1) say the name of any architecture, which
# is not that of the compiler.
NOT_VARIED = "user_group kernel".split()


def possible():
    """The variations, and why those that are left out cannot be made on this machine."""
    without = {}
    for variation, program in PROGRAMS.items():
        if not shutil.which(program):
            without[variation] = "there is no " + program
    if not os.access("/dev/fuse", os.W_OK) or not shutil.which("fusermount"):
        without.setdefault("fileordering", "there is no FUSE")
    if subprocess.run(["unshare", "-r", "--uts", "true"], stderr=subprocess.DEVNULL).returncode != 0:
        without["domain_host"] = "user namespaces cannot be made"
    return [v for v in VARIATIONS if v not in without], without


def build(variations):
    """What reprotest returns, with the packages of both builds in OUT/packages."""
    tree = OUT + "/acnspawn"
    subprocess.run([HERE + "/source", tree], check=True)
    env = dict(os.environ, TMPDIR=OUT)
    command = ["reprotest", "--verbose", "--no-diffoscope", "--store-dir=" + OUT + "/packages",
               "--variations=" + ",".join(["-all"] + ["+" + v for v in variations]),
               "--build-command=CCACHE_DISABLE=1 DEB_BUILD_OPTIONS=\"nocheck parallel=$(nproc)\" dpkg-buildpackage --no-sign --build=any,all",
               tree, "../*.deb", "--", "null"]
    with open(LOG, "w") as log:
        return subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT).returncode


def packages(which):
    """{name of the package: its path}."""
    return {os.path.basename(p): p for p in glob.glob("%s/packages/%s/**/*.deb" % (OUT, which), recursive=True)}


def members(path):
    """{member: attributes and hash} of a package, to name what differs."""
    found = {}
    for which in "--ctrl-tarfile", "--fsys-tarfile":
        with subprocess.Popen(["dpkg-deb", which, path], stdout=subprocess.PIPE) as p, tarfile.open(fileobj=p.stdout, mode="r|") as tar:
            for m in tar:
                data = tar.extractfile(m).read() if m.isreg() else b""
                found[which[2:6] + ":" + m.name] = (m.mode, m.uid, m.gid, m.mtime, hashlib.sha256(data).hexdigest())
    return found


def compare(first, second):
    with open(first, "rb") as a, open(second, "rb") as b:
        if a.read() == b.read():
            return None
    a, b = members(first), members(second)
    return sorted(n for n in set(a) | set(b) if a.get(n) != b.get(n)) or "the archives, though not their members"


def main():
    missing = [p for p in ("dh", "reprotest") if not shutil.which(p)]
    if missing:
        print("skip reproducible: there is no " + " ".join(missing))
        return 0
    shutil.rmtree(OUT, ignore_errors=True)
    os.makedirs(OUT)
    variations, without = possible()
    for variation, why in without.items():
        print("skip reproducible/varies-%s: %s" % (variation, why))
    status = build(variations)
    first, second = packages("control"), packages("experiment-1")
    if not first or not second:
        print("not ok reproducible: reprotest ends with %d, see %s" % (status, LOG))
        return 1
    failures = 0
    for name in sorted(set(first) | set(second)):
        wrong = "made once only" if name not in first or name not in second else compare(first[name], second[name])
        failures += bool(wrong)
        print("not ok reproducible/%s: differs: %s" % (name, wrong) if wrong else "ok reproducible/" + name)
    print("ok reproducible/reprotest" if status == 0 else "not ok reproducible/reprotest: ends with %d, see %s" % (status, LOG))
    return 1 if failures or status else 0


sys.exit(main())
