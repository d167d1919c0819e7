#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""How long a pod takes from "acnspawn run UUID" to its apps' first instructions and to its end, for 1, 20 and 100 apps, beside
systemd-nspawn --boot of the very same stage1 (whose units exec a program that does nothing), and beside podman where it is
installed; and how long preparing takes for an image of 1 MB and one of 1 GB.

    tests/bench/start.py BUILD-DIRECTORY [--runs=N] [--apps=1,20,100] [--big]

Figures are medians of N runs in milliseconds, taken in turns so that a busy moment hits all alike. Pods are not removed before
the end: ext4 looks at every inode that was freed in the last minutes when it makes a file. Needs root.
"""

import argparse
import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import io

HERE = os.path.dirname(os.path.abspath(__file__))
SYSTEMD = ["/usr/lib/systemd/systemd", "/usr/lib/systemd/systemd-journald", "/usr/lib/systemd/systemd-shutdown"]


def add(tar, name, mode, data=None):
    info = tarfile.TarInfo(name)
    info.mode = mode
    if data is None:
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
    else:
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))


def make_image(path, mark, filler=0, words=()):
    manifest = {
        "acKind": "ImageManifest", "acVersion": "0.8.11", "name": "example.com/mark%d%s" % (filler, "".join(words)),
        "app": {"exec": ["/mark", *words], "user": "0", "group": "0"},
    }
    with tarfile.open(path, "w") as tar:
        add(tar, "manifest", 0o644, json.dumps(manifest).encode())
        add(tar, "rootfs", 0o755)
        with open(mark, "rb") as f:
            add(tar, "rootfs/mark", 0o755, f.read())
        for i in range(filler):
            add(tar, "rootfs/filler%d" % i, 0o644, os.urandom(1 << 20))
    return path


class Bench:
    def __init__(self, build, work, mark=None):
        """MARK: the program, unless it is that of the build."""
        self.acnspawn = os.path.join(build, "stage0", "acnspawn")
        self.mark = mark or os.path.join(build, "tests", "bench", "mark")
        self.work = work
        self.group = "acnspawn-bench-%d" % os.getpid()
        self.store = os.path.join(work, "store")
        self.image = make_image(os.path.join(work, "mark.aci"), self.mark)

    def call(self, *args):
        return subprocess.run([self.acnspawn, "--dir=" + self.store, *args], check=True, stdout=subprocess.PIPE, text=True).stdout

    def prepare(self, n):
        args = []
        for i in range(n):
            args += (["---"] if i else []) + [self.image, "--name=app%d" % i]
        return self.call("prepare", *args).strip()

    def pod(self, n):
        """Times of one pod: until the first instruction of the first and of the last app, and until the end."""
        uuid = self.prepare(n)
        start = time.time()
        out = self.call("run", uuid)
        end = time.time()
        marks = sorted(float(line.split()[-1]) for line in out.splitlines())
        assert len(marks) == n, out
        return marks[0] - start, marks[-1] - start, end - start

    def stage1(self, n):
        """The root of such a pod, with a copy of the host's systemd, and "mark" in place of the launcher."""
        uuid = self.prepare(n)
        root = os.path.join(self.work, "bare%d" % n)
        shutil.copytree(os.path.join(self.store, "pods/prepared", uuid, "root"), root, symlinks=True)
        files = list(SYSTEMD)
        for program in SYSTEMD:
            for line in subprocess.run(["ldd", program], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines():
                files += [word for word in line.split() if word.startswith("/")]
        for path in sorted(set(files)):
            target = root + (path if path.startswith("/usr") else "/usr" + path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy(os.path.realpath(path), target)
        shutil.copy(self.mark, os.path.join(root, "acnspawn/launch"))
        self.let_it_end(os.path.join(root, "acnspawn/units"))
        return root

    def let_it_end(self, units):
        """Without a supervisor the pod does not end with its apps."""
        with open(os.path.join(units, "bench.target"), "w") as f:
            f.write("[Unit]\nDefaultDependencies=no\nStopWhenUnneeded=yes\nSuccessAction=exit\n")
        for unit in glob.glob(os.path.join(units, "app-*.service")):
            os.mkdir(unit + ".d")
            with open(unit + ".d/bench.conf", "w") as f:
                f.write("[Unit]\nRequires=bench.target\nAfter=bench.target\n")

    def bare(self, root, environment):
        mark = os.path.join(root, "acnspawn/mark")
        if os.path.exists(mark):
            os.unlink(mark)
        groups = [os.path.join(tree, self.group) for tree in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd") if os.path.isdir(tree)]
        for path in groups:
            os.makedirs(path, exist_ok=True)

        def enter():
            for path in groups:
                with open(path + "/cgroup.procs", "w") as f:
                    f.write("0")
        start = time.time()
        subprocess.run(["systemd-nspawn", "--quiet", "--boot", "--settings=no", "--register=no", "--keep-unit", "--link-journal=no",
                        "--console=pipe", "--private-network", "--machine=" + self.group, "--directory=" + root,
                        "--setenv=SYSTEMD_UNIT_PATH=/acnspawn/units"],
                       env={"PATH": os.environ["PATH"], "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1", **environment},
                       preexec_fn=enter, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        end = time.time()
        for path in groups:
            for directory, _, _ in os.walk(path, topdown=False):
                os.rmdir(directory)
        with open(mark) as f:
            marks = sorted(float(line) for line in f)
        return marks[0] - start, marks[-1] - start, end - start

    def podman(self):
        start = time.time()
        out = subprocess.run(self.podman_command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        end = time.time()
        return float(out) - start, float(out) - start, end - start

    def podman_image(self):
        """Finds options with which podman can run a container here. Returns the reason if there are none."""
        if not shutil.which("podman"):
            return "not installed"
        with tarfile.open(self.work + "/podman.tar", "w") as tar, open(self.mark, "rb") as f:
            add(tar, "mark", 0o755, f.read())
        tag = ["localhost/mark"]
        r = subprocess.run(["podman", "import", "--change=CMD=[\"/mark\"]", self.work + "/podman.tar", *tag],
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        run = ["run", "--rm", "--network=none"]
        ways = [["podman", *run],  # on a host whose PID 1 is systemd, and elsewhere
                ["podman", "--runtime=runc", "--cgroup-manager=cgroupfs", *run, "--cgroup-parent=/" + self.group,
                 "--ulimit=nofile=1000:1000", "--ulimit=nproc=1000:1000"]]
        for way in ways if r.returncode == 0 else []:
            self.podman_command = way + tag
            r = subprocess.run(self.podman_command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            if r.returncode == 0:
                return None
        return r.stderr.strip().splitlines()[-1]

    def clean_up(self):
        for tree in glob.glob("/sys/fs/cgroup/*/" + self.group):
            for directory, _, _ in os.walk(tree, topdown=False):
                os.rmdir(directory)
        if shutil.which("podman"):
            subprocess.run(["podman", "rmi", "--force", "localhost/mark"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def measure(contenders, runs):
    results = {name: [] for name in contenders}
    for name, function in contenders.items():
        function()  # once for the caches
    for _ in range(runs):
        for name, function in contenders.items():
            results[name].append(function())
    return {name: [1000 * statistics.median(column) for column in zip(*rows)] for name, rows in results.items()}


def show(n, figures, reference):
    print("%d app%s:" % (n, "" if n == 1 else "s"))
    for name, (first, last, end) in figures.items():
        ratio = first / figures[reference][0]
        print("  %-34s first %7.1f   last %7.1f   end %7.1f   per app %5.2f   first: %.2f x" %
              (name, first, last, end, end / n, ratio))


def bench_prepare(bench, big, runs):
    print("prepare:")
    for megabytes in (1, 1024) if big else (1, 64):
        image = bench.call("fetch", make_image(os.path.join(bench.work, "big.aci"), bench.mark, megabytes)).strip()
        times = []
        for _ in range(runs):
            start = time.time()
            bench.call("prepare", image)
            times.append(time.time() - start)
        print("  image of %4d MB   %.1f (min %.1f, max %.1f)" %
              (megabytes, 1000 * statistics.median(times), 1000 * min(times), 1000 * max(times)))


def bench_start(bench, counts, runs):
    missing = bench.podman_image()
    if missing:
        print("podman: left out (%s)" % missing)
    for n in counts:
        root = bench.stage1(n)
        contenders = {
            "acnspawn run": lambda: bench.pod(n),
            "systemd-nspawn --boot": lambda: bench.bare(root, {}),
            "systemd-nspawn --boot, no seccomp": lambda: bench.bare(root, {"SYSTEMD_SECCOMP": "0"}),
        }
        if n == 1 and not missing:
            contenders["podman run"] = bench.podman
        show(n, measure(contenders, runs), "systemd-nspawn --boot")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--apps", default="1,20,100")
    parser.add_argument("--big", action="store_true", help="prepare from an image of 1 GB, too (else 64 MB)")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("needs root")
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="acnspawn-bench-") as work:
        bench = Bench(os.path.abspath(options.build), work)
        try:
            bench_prepare(bench, options.big, options.runs)
            bench_start(bench, map(int, options.apps.split(",")), options.runs)
        finally:
            bench.clean_up()


if __name__ == "__main__":
    main()
