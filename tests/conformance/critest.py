#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""critest, the conformance program of the CRI, against acnspawn-cri.

    critest.py [--focus=REGEX] [--report=FILE]"""

import argparse
import json
import re
import subprocess
import sys

import images
from conformance import *

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
    """Returns the reports of the specs, and of setup or teardown that failed; and critest's exit status."""
    report = world.path("report.json")
    command = [world.bin + "/critest", "-config", world.path("crictl.yaml"), "-runtime-endpoint", "unix://" + world.socket,
               "-image-endpoint", "unix://" + world.socket, "--ginkgo.json-report=" + report, "--ginkgo.no-color", "--ginkgo.seed=1"]
    with open(world.path("critest.log"), "w") as log:
        rc = subprocess.run(command + (["--ginkgo.focus=" + focus] if focus else []), stdout=log, stderr=log, cwd=world.dir, check=False).returncode
    with open(report) as f:
        return [s for s in json.load(f)[0]["SpecReports"] if s["LeafNodeType"] == "It" or s["State"] not in ("passed", "skipped", "pending")], rc


def tell(specs, rc, focus):
    count = Count()
    states = [s["State"] for s in specs]
    for s in specs:
        name = re.sub(r"^\[k8s.io\] ", "", " / ".join((s["ContainerHierarchyTexts"] or []) + [s["LeafNodeText"] or s["LeafNodeType"]]))
        why = s.get("Failure", {}).get("Message", "")
        known = next((w for k, (how, w) in KNOWN.items() if re.search(k, name) and re.search(how, why)), None)
        if s["State"] == "passed":
            count.line("ok", name)
        elif s["State"] in ("skipped", "pending"):
            if not focus:
                count.line("skip", name, why)
        elif known:
            count.line("skip", name, known)
        else:
            count.line("not ok", name, why[:400] or s["State"])
    if set(s["State"] for s in specs if s["LeafNodeType"] == "It") <= {"skipped", "pending"}:  # for example after the setup of the suite failed
        count.line("not ok", "specs", "none of them has run")
    elif rc != 0 and not set(states) - {"passed", "skipped", "pending"}:
        count.line("not ok", "specs", "critest ended with status %d, and none of them has failed" % rc)
    return count


def main():
    p = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    p.add_argument("--focus", default="")
    p.add_argument("--report")
    a = p.parse_args()
    enter("crictl", "critest")
    with World("crictl", "critest") as world:
        with open(world.bin + "/hosts") as f:
            world.serve_images(f.read().split())
        images.critest(images.Images(world.path("layouts"), REGISTRY))
        world.start_runtime()
        specs, rc = run(world, a.focus)
        if a.report:
            shutil.copy(world.path("report.json"), a.report)
    return 1 if tell(specs, rc, a.focus).failed else 0


if __name__ == "__main__":
    sys.exit(main())
