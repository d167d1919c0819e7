#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs the cases of this folder on a host that is Debian with systemd as PID 1 and cgroup v2, in guests: virtual machines, and
a container for the programs that need no more.

    tests/vm/run.py [--release=12|13|sid] [--lsm=apparmor|selinux|none] [--cache=DIR] [--machines=N] [--container=yes|no]
                    [--package=FILE] [--tutorial=DIR] [--only=PROGRAM[,PROGRAM…]] [--list] BUILDDIR

PROGRAM can also be one of tests/integration: named so, it runs in a machine, with the kernel of the release.

The programs of CONTAINER run in the container if the release is that of this machine, ten times as fast; with --container=no, and if
ACNSPAWN_TEST_LONG is set, they run in the virtual machines as well as the others, with the kernel of the release; and reboot.py looks at
what a loss of power leaves of a sandbox.

FILE, or that in the environment variable ACNSPAWN_TEST_PACKAGE, is the package of Debian that is installed in the machine, acnspawn.deb
or acnspawn_VERSION_ARCHITECTURE.deb; its dependencies are there. cri.py installs the package acnspawn-cri, the file beside it, and
purges it. Without one, as is quicker during development, the files that
BUILDDIR would install are installed, and the linked libraries that are missing there; packages.py is skipped then.
Several machines share the programs, as each has one processor. The programs are files of cases on
tests/integration/harness.py, like those of tests/integration; their lines come out here as they are printed.

DIR, or that in ACNSPAWN_TEST_TUTORIAL, has the images of tutorial.py, which is skipped without.

With --lsm the machine has another security module than AppArmor, or none of that kind; unless programs are named, only
those about such modules are run. """

import argparse
import concurrent.futures
import functools
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import cache
import container
import guest
import image
import machine

HERE = os.path.dirname(os.path.abspath(__file__))
INTEGRATION = os.path.join(HERE, "..", "integration")
NOT_CASES = ("cache.py", "container.py", "guest.py", "image.py", "machine.py", "run.py")
OF_MODULES = {"none": ("apparmor",), "selinux": ("selinux",)}
# About how long each takes in a machine whose pace is PACE (tests/integration/pace.py).
PACE = 50
SECONDS = {"network": 150, "apparmor": 215, "units": 140, "machined": 70, "varlink": 60, "control": 20, "density": 225, "bus": 70,
           "limits": 145, "sockets": 60, "declared": 140, "cri": 105, "readiness": 60, "host-service": 25, "nested": 20, "packages": 300,
           "quota": 25, "upgrade": 60, "reboot": 60, "tutorial": 5}
SECONDS_OF_INTEGRATION = 900
SECONDS_OF_CASE = 20 # of one that a container cannot run, in a program of which it runs the others
BOUND = 4 # times as long, until a guest is ended
CONTAINER = ("bus", "declared", "density", "host-service", "machined", "packages", "readiness", "sockets", "units", "varlink")
REBOOTS = {"reboot": 2}

FROM_BUILD = """
for f in lib/*; do
        ldconfig -p | grep -qF "$(basename "$f")" || cp "$f" /usr/local/lib/
done
ldconfig
cp -a stage/. /
systemctl daemon-reload
"""

FROM_PACKAGE = """
dpkg --install package/acnspawn.deb >package.log 2>&1 || {
        cat package.log
        echo "not ok package: it cannot be installed"
        exit 1
}
systemctl daemon-reload
"""

# Before each program, as boots and installations switch these on. Cases about profiles load them themselves, and nothing is
# collected in the midst of others.
BEFORE_EACH = """
[ -e /sys/kernel/security/apparmor/.remove ] && for profile in acnspawn-app acnspawn-app-mounts; do
        printf %s "$profile" >/sys/kernel/security/apparmor/.remove 2>/dev/null
done
systemctl is-active --quiet acnspawn-gc.timer && systemctl stop acnspawn-gc.timer
"""

MAIN = """#!/bin/sh
[ -e installed ] || {
INSTALL
        touch installed
        sync
}
modprobe -a overlay veth bridge br_netfilter nf_tables 2>/dev/null
export ACNSPAWN=/usr/bin/acnspawn ACNSPAWN_TEST_HELPERS=/opt/tests/helpers ACNSPAWN_TEST_DIR=/var/tmp PYTHONDONTWRITEBYTECODE=1
export ACNSPAWN_CRI=/usr/bin/acnspawn-cri ACNSPAWN_TEST_SCHEMA=/opt/tests/runtime.proto
export PYTHONPATH=/opt/tests/integration
export ACNSPAWN_TEST_SLOW=$(python3 integration/pace.py)
echo "guest: pace $ACNSPAWN_TEST_SLOW"
export ACNSPAWN_TEST_NETWORK=NETWORK_CASES ACNSPAWN_TEST_SANDBOX=WITH_SANDBOX
for program in PROGRAMS; do
        [ -e done/$program ] && continue # in an earlier boot
BEFORE_EACH
        echo "# $program"
        begin=$(date +%s)
        case " DIVIDED " in
        *" $program "*) ACNSPAWN_TEST_GUEST=KIND python3 cases/$program ;;
        *) python3 cases/$program ;;
        esac
        echo "# $program: exit status $?, $(($(date +%s) - begin)) s"
        mkdir -p done && touch done/$program && sync
done
"""


class Report:
    """What the programs of a machine print: every one has to run to its end, and to say of at least one case how it went. A guest in which
    nothing works says nothing."""

    def __init__(self, names):
        self.names = [n[:-3] for n in names]
        self.cases = dict.fromkeys(self.names, 0)
        self.bad = dict.fromkeys(self.names, 0)
        self.ended = {}  # name to exit status
        self.current = None

    def line(self, text):
        """The program whose case it is, or None."""
        m = re.match(r"# ([a-z-]+)\.py(?:: exit status (\d+), .*)?$", text)
        if m and m.group(2):
            self.ended[m.group(1)] = int(m.group(2))
            self.current = None
        elif m:
            self.current = m.group(1)
        elif self.current in self.cases and re.match("(ok|not ok|skip) ", text):
            self.cases[self.current] += 1
            self.bad[self.current] += text.startswith("not ok ")
            return self.current
        return None

    def wrong(self, name):
        """What is wrong with a program that none of its cases tells, or None."""
        if name not in self.ended:
            return "it did not run to its end" if name == self.current or self.cases[name] else "it was not run"
        if not self.cases[name]:
            return "it printed no case, and ended with exit status %d" % self.ended[name]
        if self.ended[name] and not self.bad[name]:
            return "it ended with exit status %d, and none of its cases failed" % self.ended[name]
        return None

    def missing(self):
        """Lines of cases that failed: of the programs themselves."""
        return ["not ok %s: %s" % (name, self.wrong(name)) for name in self.names if self.wrong(name)]

    def failed(self):
        return any(self.bad.values()) or bool(self.missing())


def libraries(programs):
    """The files of the libraries that the programs are linked with."""
    found = {}
    # Libraries loaded by dlopen(): not in the program's headers, but in its text.
    named = {n.decode() for p in programs for n in re.findall(rb"(lib[a-z0-9_-]+\.so\.[0-9.]+)(?=\0)", open(p, "rb").read())}
    cache = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    loaded = [m.group(2) for m in re.finditer(r"^\t(\S+) .* => (/\S+)$", cache, re.M) if m.group(1) in named]
    found.update(("lib/" + os.path.basename(p), os.path.realpath(p)) for p in loaded)
    for program in programs + loaded:
        out = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        for line in out.splitlines():
            m = re.match(r"\s*(\S+) => (/\S+)", line)
            if m and not re.match(r"(libc|libm|libpthread|ld-linux.*)\.so", m.group(1)):
                found["lib/" + m.group(1)] = os.path.realpath(m.group(2))
    return found


def path_of(name):
    """Of a program: one of this folder goes before one of tests/integration."""
    here = os.path.join(HERE, name)
    return here if os.path.exists(here) else os.path.join(INTEGRATION, name)


def programs(only, lsm):
    names = sorted(n for n in os.listdir(HERE) if n.endswith(".py") and n not in NOT_CASES)
    if only:
        unknown = [n for n in only if n + ".py" in NOT_CASES or not os.path.exists(path_of(n + ".py"))]
        if unknown:
            sys.exit("run.py: no such program: %s; there are: %s" % (" ".join(sorted(unknown)), " ".join(n[:-3] for n in names)))
        return sorted(n + ".py" for n in set(only))
    if lsm == "apparmor":
        return [n for n in names if n != "selinux.py"]
    return [n + ".py" for n in OF_MODULES[lsm]]


def of_machine(name):
    """The number of cases of a program that a container cannot run."""
    with open(path_of(name)) as f:
        return len(re.findall(r"(?m)^@(?:of_machine|needs_package_in_machine)$", f.read()))


def seconds(name, divided=()):
    if name[:-3] not in SECONDS and os.path.dirname(path_of(name)) == INTEGRATION:
        return SECONDS_OF_INTEGRATION
    return SECONDS_OF_CASE * of_machine(name) if name in divided else SECONDS.get(name[:-3], 60)


def shares(names, n, divided):
    """At most N lists that take about the same time."""
    found = [[] for _ in range(max(1, min(n, len(names))))]
    for name in sorted(names, key=lambda name: -seconds(name, divided)):
        min(found, key=lambda share: sum(seconds(x, divided) for x in share)).append(name)
    return found


def next_version(package, work):
    """The package once more as a higher version: the same program, but for the version that it shows."""
    tree, path = work + "/next", work + "/acnspawn-next.deb"
    subprocess.run(["dpkg-deb", "--raw-extract", package, tree], check=True)
    with open(tree + "/DEBIAN/control") as f:
        control = f.read()
    version = re.search(r"(?m)^Version: ([0-9.]+)", control).group(1)
    higher = "9" + version[1:]  # as long as the other, to take its place in the program
    with open(tree + "/DEBIAN/control", "w") as f:
        f.write(re.sub(r"(?m)^Version: .*", "Version: " + higher, control))
    for name in [tree + "/usr/bin/acnspawn"] + [tree + "/usr/lib/acnspawn/" + n for n in ("supervise", "serve-host")]:
        with open(name, "rb") as f:
            data = f.read()
        with open(name, "wb") as f:
            f.write(data.replace(b"acnspawn/%s\0" % version.encode(), b"acnspawn/%s\0" % higher.encode()))
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", tree, path], check=True, stdout=sys.stderr)
    return path


def files_for(build, package, tutorial, work):
    """Everything except for the programs: what is installed, and files needed by the cases."""
    files = {"integration": INTEGRATION}
    for helper in ("show", "poke", "serve"):
        files["helpers/" + helper] = os.path.join(build, "tests", "integration", helper)
    files["helpers/varlink-serve"] = os.path.join(build, "tests", "vm", "varlink-serve")
    source = os.path.join(HERE, "..", "..")
    files["runtime.proto"] = source + "/cri/runtime.proto"
    if tutorial:
        files.update({"tutorial/" + n: os.path.join(tutorial, n) for n in os.listdir(tutorial) if n.endswith(".oci")})
        files["tutorial/acnspawn-intro.7"] = source + "/man/acnspawn-intro.7"
    if package:
        # With the name of the other: acnspawn-cri.deb, or acnspawn-cri_VERSION_ARCHITECTURE.deb.
        cri = os.path.join(os.path.dirname(package), os.path.basename(package).replace("acnspawn", "acnspawn-cri", 1))
        if os.path.exists(cri):
            files["package/acnspawn-cri.deb"] = cri
        files.update({"package/acnspawn.deb": package, "package/acnspawn-next.deb": next_version(package, work),
                      "source/debian/tests": source + "/debian/tests",
                      "source/tools/make-example-images": source + "/tools/make-example-images"})
        return files
    stage = files["stage"] = work + "/stage"
    subprocess.run(["meson", "install", "-C", build, "--destdir", stage, "--no-rebuild", "--quiet"], check=True,
                   stdout=sys.stderr)
    linked = [stage + "/usr/bin/acnspawn", files["helpers/varlink-serve"]]
    linked += glob.glob(stage + "/usr/bin/acnspawn-cri")
    linked += [p for p in (os.path.join(stage, "usr/lib/acnspawn", n) for n in os.listdir(stage + "/usr/lib/acnspawn"))
               if os.access(p, os.X_OK) and subprocess.run(["ldd", p], capture_output=True).returncode == 0]
    files.update(libraries(linked))
    return files


def show(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def network_cases(release):
    """"all" those of networks, or the "host"'s: where tests/integration/network.py runs on this machine, the others have been run."""
    if release != "12" or os.environ.get("ACNSPAWN_TEST_LONG") or not os.access("/usr/lib/cni/bridge", os.X_OK) or not shutil.which("iptables"):
        return "all"
    probe = subprocess.run(["unshare", "--net", "ip", "link", "add", "probe0", "type", "bridge"], capture_output=True)
    return "host" if probe.returncode == 0 else "all"


def bound(names, pace):
    """Seconds after which something in a guest hangs."""
    return BOUND * max(pace / PACE, 1) * sum(seconds(name) for name in names)


def run_guest(booted, kind, files, names, divided, path, networks):
    """Exit status of the programs NAMES, of which those DIVIDED run the cases of this kind of guest alone; lines of several guests do not
    mix."""
    replacements = {"INSTALL": FROM_PACKAGE if "package/acnspawn.deb" in files else FROM_BUILD, "BEFORE_EACH": BEFORE_EACH, "PROGRAMS": " ".join(names),
                    "NETWORK_CASES": networks, "WITH_SANDBOX": "yes" if os.environ.get("ACNSPAWN_TEST_LONG") else "no", "DIVIDED": " ".join(divided), "KIND": kind}
    text = re.sub("|".join(replacements), lambda m: replacements[m.group()], MAIN)
    machine.pack({**files, "main": text.encode(), **{"cases/" + n: path_of(n) for n in names}}, path)
    report = Report(names)

    def line(text):
        program = report.line(text)
        show(re.sub("^(ok|not ok|skip) ", r"\g<0>%s/" % program, text) if program else text)
    with booted(path) as g:
        status = guest.follow(g, lambda pace: bound(names, pace), line, 1 + sum(REBOOTS.get(n[:-3], 0) for n in names))
    for text in report.missing():
        show(text)
    if status is None:
        show("not ok %s: it ended without the exit status of %s" % (g.kind.replace("a ", "virtual-"), " ".join(names)))
        sys.stderr.write(open(path + ".console", errors="replace").read()[-3000:])
    return 1 if status != 0 or report.failed() else 0


def guests(names, directory, a):
    """For each guest: what boots it, by the path of its payload, its kind, the programs that run in it, and those of them that run in
    guests of both kinds."""
    contained = [n for n in names if n[:-3] in CONTAINER and a.container == "yes" and a.lsm == "apparmor"]
    if contained and container.missing():
        print("vm: no container (%s): all programs run in machines" % container.missing(), file=sys.stderr)
        contained = []
    divided = [n for n in contained if of_machine(n)]
    found = [(functools.partial(container.booted, directory), "container", contained, divided)] if contained else []
    others = [n for n in names if n not in contained or n in divided]
    for share in shares(others, a.machines, divided) if others else ():
        reboots = any(n[:-3] in REBOOTS for n in share)
        found.append((functools.partial(machine.booted, directory, lsm=a.lsm, reboots=reboots), "machine", share, divided))
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--release", default="12", choices=sorted(image.RELEASES))
    parser.add_argument("--lsm", default="apparmor", choices=sorted(machine.MODULES_ACTIVE))
    parser.add_argument("--cache", default=cache.CACHE)
    parser.add_argument("--machines", type=int, default=2)
    here = "yes" if not os.environ.get("ACNSPAWN_TEST_LONG") else "no"
    parser.add_argument("--container", choices=("yes", "no"), help="(%s)" % here)
    parser.add_argument("--only", type=lambda s: s.split(",") if s else [], default=os.environ.get("ACNSPAWN_TEST_VM_ONLY", ""))
    parser.add_argument("--package", default=os.environ.get("ACNSPAWN_TEST_PACKAGE"))
    parser.add_argument("--tutorial", default=os.environ.get("ACNSPAWN_TEST_TUTORIAL"))
    parser.add_argument("--list", action="store_true", help="prints the programs")
    parser.add_argument("build", nargs="?", default=".")
    a = parser.parse_args()
    if a.list:
        print("\n".join(n[:-3] for n in programs(a.only, a.lsm)))
        return 0
    a.container = a.container or (here if a.release == "12" else "no")
    for program in ("qemu-system-x86_64", "mmdebstrap", "mke2fs", "apt-get"):
        if not shutil.which(program):
            print("skip virtual-machine: there is no %s" % program)
            return 77
    for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
        signal.signal(number, lambda *_: guest.cancelled.set())
    container.sweep()
    work = tempfile.mkdtemp(prefix="acnspawn-vm-")
    try:
        directory, held = cache.held_image(a.release, a.cache)
        files = files_for(a.build, a.package, a.tutorial, work)
        jobs = guests(programs(a.only, a.lsm), directory, a)
        with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
            results = [pool.submit(run_guest, booted, kind, files, names, divided, "%s/payload%d" % (work, i), network_cases(a.release))
                       for i, (booted, kind, names, divided) in enumerate(jobs)]
        return max(r.result() for r in results)
    except cache.NotMade as e:
        print("not ok image: %s" % e)
        return 1
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    sys.exit(main())
