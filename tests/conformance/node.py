#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The NodeConformance specs of Kubernetes' own tests, on a Kubernetes of one node on acnspawn-cri.

    node.py [--runtime=acnspawn|containerd] [--focus=REGEX] [--processes=N] [--timeout=DURATION] [--report=FILE]
            [--control]

They mostly wait: all of them take about a quarter of an hour, and few a processor. --control runs them on containerd as well, and prints the
counts of both and the specs that end differently."""

import argparse
import contextlib
import subprocess
import sys
import time

import containerd
import images
import specs
from conformance import *
from containerd import Control
from kubelet import complaints
from kubernetes import PROGRAMS, Cluster

NEEDED = (*PROGRAMS, "agnhost", "e2e.test", "ginkgo")
ALL = r"\[NodeConformance\]"
HOSTS = ["registry.k8s.io"]

# Specs that are not run.
LEFT_OUT = {r"should cap back-off at MaxContainerBackOff": "it waits for half an hour for the longest delay of the kubelet"}
if not has_memory_controller():
    LEFT_OUT[r"InPlacePodVerticalScaling|InPlacePodLevelResourcesVerticalScaling|Pod InPlace Resize"] = "this host has no controllers with cgroup v2"

# Specs that cannot pass here: how they fail, and why. Another failure of them counts.
KNOWN = {
    r"PrivilegedPod / should enable privileged commands": ("ip link add dummy1 .*Operation not supported", "the kernel of this host has no dummy links"),
    r"(Secrets|ConfigMap) / should be consumable via the environment": (
        'expected "data-1=value-1" in container output', "the shell of Debian's busybox drops variables whose names are no identifiers"),
}
if not shutil.which("nc"):  # else it is in the images
    KNOWN[r"Granular Checks: Pods / should function for node-pod communication: udp"] = (
        "Error dialing UDP from node to pod", "the nc of Debian's busybox has no UDP")


def run_group(command, **more):
    """Returns the exit status. Nothing of the command is left, also if this program is ended meanwhile: ginkgo leaves its processes behind."""
    p = subprocess.Popen(command, start_new_session=True, **more)
    try:
        return p.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(p.pid, signal.SIGKILL)
        p.wait()


def run(world, a):
    """Returns the specs, and the exit status of ginkgo."""
    skip = ["--skip=" + name for name in LEFT_OUT]
    command = [world.bin + "/ginkgo", "--procs=%d" % a.processes, "--no-color", "--timeout=" + a.timeout, "--json-report=report.json",
               "--output-dir=" + world.dir, "--focus=" + (a.focus or ALL), *skip, world.bin + "/e2e.test", "--", "--kubeconfig=" + os.environ["KUBECONFIG"],
               "--provider=skeleton", "--num-nodes=1", "--disable-log-dump", "--minStartupPods=0", "--report-dir=" + world.path("reports"),
               "--kubectl-path=" + world.bin + "/kubectl"]
    os.makedirs(world.path("reports"), exist_ok=True)
    with open(world.path("e2e.log"), "w") as log:
        rc = run_group(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=world.dir)
    return specs.read(world.path("report.json"), ALL), rc


def test(world, a):
    began = time.monotonic()
    with world:
        world.serve_images(HOSTS)
        images.node(images.Images(world.path("layouts"), REGISTRY), world.bin + "/agnhost")
        cluster = Cluster(world, [], {})
        world.start_runtime()
        with cluster:
            print("The node is ready after %.1f s" % (time.monotonic() - began), flush=True)
            seen, rc = run(world, a)
            if rc != 0:
                print("\n".join(complaints(world)))
        if a.report:
            shutil.copy(world.path("report.json"), a.report)
    print("All took %.0f s: %s" % (time.monotonic() - began, specs.counts(seen)))
    return seen, rc


def main():
    p = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    p.add_argument("--runtime", choices=("acnspawn", "containerd"), default="acnspawn")
    p.add_argument("--focus", default="")
    p.add_argument("--processes", type=int, default=12)
    p.add_argument("--timeout", default="60m")
    p.add_argument("--report")
    p.add_argument("--control", action="store_true")
    a = p.parse_args()
    if not shutil.which("openssl"):
        skip("openssl is missing")
    with_containerd = a.control or a.runtime == "containerd"
    enter(*NEEDED, *(containerd.PROGRAMS if with_containerd else ()))

    def other():
        return Control(*NEEDED, pause="registry.k8s.io/pause:3.10.2")

    if a.runtime == "containerd":
        seen, rc = test(other(), a)
        return 1 if specs.tell(seen, rc, KNOWN, a.focus, LEFT_OUT).failed else 0
    seen, rc = test(World(*NEEDED), a)
    count = specs.tell(seen, rc, KNOWN, a.focus, LEFT_OUT)
    if a.control:
        specs.compare({"acnspawn-cri": seen, "containerd": test(other(), argparse.Namespace(**dict(vars(a), report=None)))[0]})
    return 1 if count.failed else 0


if __name__ == "__main__":
    sys.exit(main())
