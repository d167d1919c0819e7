#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Two builds of the packages of Debian give the same bytes: in another directory, with another umask, locale, time zone, home, user
name and number of jobs, and at another time.

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
# Directory, umask, jobs, environment.
BUILDS = (
    ("a/acnspawn", 0o022, 2, {"LC_ALL": "C.UTF-8", "TZ": "UTC", "HOME": "/root", "USER": "root"}),
    ("b/somewhere/else/source-of-acnspawn", 0o077, 1,
     {"LC_ALL": "C", "LANG": "de_DE.UTF-8", "TZ": "Pacific/Kiritimati", "HOME": "/nonexistent", "USER": "builder", "CAPTURED": "x"}),
)


def build(directory, umask, jobs, environment):
    """{name of the package: its path}."""
    tree = OUT + "/" + directory
    env = dict(os.environ, DEB_BUILD_OPTIONS="nocheck parallel=%d" % jobs, CCACHE_DISABLE="1", **environment)
    log = OUT + "/" + directory.split("/")[0] + ".log"
    old = os.umask(umask)
    try:
        subprocess.run([HERE + "/source", tree], check=True)
        with open(log, "w") as f:
            r = subprocess.run(["dpkg-buildpackage", "--no-sign", "--build=any,all"], cwd=tree, env=env, stdout=f, stderr=subprocess.STDOUT)
    finally:
        os.umask(old)
    if r.returncode != 0:
        print("not ok reproducible: the build in %s ends with %d, see %s" % (directory, r.returncode, log))
        sys.exit(1)
    return {os.path.basename(p): p for p in glob.glob(os.path.dirname(tree) + "/*.deb")}


def members(path):
    """{member: hash} of a package, to name what differs."""
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
    if not shutil.which("dh"):
        print("skip reproducible: there is no debhelper")
        return 0
    shutil.rmtree(OUT, ignore_errors=True)
    first, second = [build(*b) for b in BUILDS]
    failures = 0
    for name in sorted(set(first) | set(second)):
        wrong = "made once only" if name not in first or name not in second else compare(first[name], second[name])
        failures += bool(wrong)
        print("not ok reproducible/%s: differs: %s" % (name, wrong) if wrong else "ok reproducible/" + name)
    return 1 if failures else 0


sys.exit(main())
