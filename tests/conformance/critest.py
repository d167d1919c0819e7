#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""critest, the conformance program of the CRI, against acnspawn-cri.

    critest.py [--focus=REGEX] [--report=FILE] [--control]

--control runs it against containerd as well, and prints the counts of both and the specs that end differently."""

import argparse
import subprocess
import sys

import containerd
import images
import specs
from conformance import *
from containerd import Control

# Specs that cannot pass here: how they fail, and why. Another failure of them counts.
KNOWN = {
    r"public image with digest should be pulled": ("Cannot fetch the manifest of", "names an image by a digest, which only its own registry has"),
    r"runtime should support MaskedPaths": (
        r"/bin/sh: 1: ls: Permission denied",
        "compares the message of a shell that the image has not: busybox of Debian runs its applets, and dash says it in other words"),
}
if not has_memory_controller():
    KNOWN.update({
        r"should terminate with exitCode 137 and reason OOMKilled": ("^Timed out", "this host has no controller of memory with cgroup v2"),
        r"runtime should support listing pod sandbox metrics": ("^Expected container_", "this host has no controllers with cgroup v2, whose figures are expected"),
    })


def run(world, focus):
    """Returns the specs, and critest's exit status."""
    report = world.path("report.json")
    command = [world.bin + "/critest", "-config", world.path("crictl.yaml"), "-runtime-endpoint", "unix://" + world.socket,
               "-image-endpoint", "unix://" + world.socket, "--ginkgo.json-report=" + report, "--ginkgo.no-color", "--ginkgo.seed=1"]
    with open(world.path("critest.log"), "w") as log:
        rc = subprocess.run(command + (["--ginkgo.focus=" + focus] if focus else []), stdout=log, stderr=log, cwd=world.dir, check=False).returncode
    return specs.read(report), rc


def test(world, a):
    with world:
        with open(world.bin + "/hosts") as f:
            world.serve_images(f.read().split())
        images.critest(images.Images(world.path("layouts"), REGISTRY))
        world.start_runtime()
        seen, rc = run(world, a.focus)
        if a.report and not isinstance(world, Control):
            shutil.copy(world.path("report.json"), a.report)
        return seen, rc


def main():
    p = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    p.add_argument("--focus", default="")
    p.add_argument("--report")
    p.add_argument("--control", action="store_true")
    a = p.parse_args()
    enter("crictl", "critest", *(containerd.PROGRAMS if a.control else ()))
    ours, rc = test(World("crictl", "critest"), a)
    count = specs.tell(ours, rc, KNOWN, a.focus)
    if a.control:
        theirs, _ = test(Control("crictl", "critest", pause="registry.k8s.io/pause:3.9"), a)
        specs.compare({"acnspawn-cri": ours, "containerd": theirs})
    return 1 if count.failed else 0


if __name__ == "__main__":
    sys.exit(main())
