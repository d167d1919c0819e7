#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The units of the host: systemd-analyze accepts them, and they start the program with valid arguments. The files of
sysctl.d raise limits that exist in the kernel, that of sysusers.d makes a user and that of tmpfiles.d directories that the
program uses.

usage: test-host-units.py ACNSPAWN BINDIR LIBEXECDIR UNIT|SYSCTL-FILE|SYSUSERS-FILE|TMPFILES-FILE…
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

PROGRAM, BINDIR, LIBEXECDIR, *FILES = sys.argv[1:]
UNITS = [path for path in FILES if not path.endswith(".conf")]
failures = 0


def case(name, why):
    global failures
    failures += bool(why)
    print(f"not ok {name}: {why}" if why else f"ok {name}")


def tmpfiles(path):
    with open(path) as f, open(PROGRAM, "rb") as p:
        lines, program = [line.strip() for line in f if line.strip() and line[0] != "#"], p.read()
    wrong = [line for line in lines if not re.fullmatch(r"d /run/[a-z/]+ 0755 root root -", line) or line.split()[1].encode() not in program]
    case(os.path.basename(path), f"no directories of the program: {wrong}" if wrong or not lines else None)


def sysusers(path):
    """In a root of its own, where the user and its group are made, which can neither log in nor have files."""
    with open(path) as f, open(PROGRAM, "rb") as p:
        names, program = re.findall(r"(?m)^u (\S+) - \"[^\"]+\"$", f.read()), p.read()
    wrong = [name for name in names if name.encode() + b"\0" not in program]
    case(os.path.basename(path), f"no users of the program: {wrong}" if wrong or not names else None)
    if not shutil.which("systemd-sysusers"):
        print("skip users-are-made: systemd-sysusers is missing (Debian package systemd)")
        return
    with tempfile.TemporaryDirectory() as root:
        os.mkdir(root + "/etc")
        r = subprocess.run(["systemd-sysusers", "--root=" + root, path], text=True, capture_output=True)
        made = {}
        for file in "passwd", "group":
            if os.path.exists(f"{root}/etc/{file}"):
                with open(f"{root}/etc/{file}") as f:
                    made[file] = [line.rstrip("\n").split(":") for line in f]
        users = [(u[0], u[5], u[6].split("/")[-1]) for u in made.get("passwd", [])]
        expected = [(name, "/", "nologin") for name in names]
        groups = [g[0] for g in made.get("group", [])]
        case("users-are-made", f"{users} and {groups}; {r.stderr}" if users != expected or groups != names else None)


for path in sorted(set(FILES) - set(UNITS)):
    if path.endswith(".sysusers.conf"):
        sysusers(path)
        continue
    if path.endswith(".tmpfiles.conf"):
        tmpfiles(path)
        continue
    with open(path) as f:
        lines = [line.strip() for line in f if line.strip() and line[0] != "#"]
    wrong = [line for line in lines if not re.fullmatch(r"[a-z._]+ = \d+", line)
             or not os.path.exists("/proc/sys/" + line.split()[0].replace(".", "/"))]
    case(os.path.basename(path), f"no kernel parameters: {wrong}" if wrong or not lines else None)
if not shutil.which("systemd-analyze"):
    print("SKIP: systemd-analyze is missing (Debian package systemd)")
    sys.exit(77)
with tempfile.TemporaryDirectory() as directory:
    # Files that are not installed yet are missing at their final paths.
    for unit in UNITS:
        with open(unit) as f:
            text = f.read()
        with open(os.path.join(directory, os.path.basename(unit)), "w") as f:
            cri = os.path.join(os.path.dirname(os.path.dirname(PROGRAM)), "cri/acnspawn-cri")
            f.write(text.replace(BINDIR + "/acnspawn-cri", cri).replace(BINDIR + "/acnspawn", PROGRAM).replace(LIBEXECDIR, os.path.dirname(PROGRAM)))
    probe = os.path.join(directory, "probe.service")
    with open(probe, "w") as f:
        f.write("[Service]\nExecStart=/bin/true\n")
    env = dict(os.environ, SYSTEMD_UNIT_PATH=directory + ":", SYSTEMD_LOG_LEVEL="notice", LC_ALL="C.UTF-8")
    verify = ["systemd-analyze", "verify", "--man=no"]
    r = subprocess.run(verify + [probe], env=env, text=True, capture_output=True)
    if r.returncode != 0:
        print(f"SKIP: systemd-analyze verify does not work here: {r.stderr.strip()}")
        sys.exit(77)
    for unit in sorted(os.path.basename(u) for u in UNITS):
        name = unit.replace("@.", "@web-1.")
        r = subprocess.run(verify + [os.path.join(directory, name)], env=env, text=True, capture_output=True)
        # Other units of this host are not ours to judge.
        said = [l for l in r.stderr.splitlines() if "acnspawn" in l or directory in l]
        case(unit.replace("@.", "-template."), f"exit status {r.returncode}, {r.stderr.strip()}" if r.returncode or said else None)
sys.exit(1 if failures else 0)
