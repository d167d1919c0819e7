#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A kubelet without an API server, on static pods, against acnspawn-cri: each pod is a case.

    kubelet.py [--minor=VERSION] [--only=PATTERN]

--minor takes the kubelet of an older minor version of Kubernetes, of those that build has: 1.35 or 1.36. With ACNSPAWN_TEST_LONG=1 a supervisor does not answer for more than a minute, and a full node is drained."""

import argparse
import fnmatch
import json
import re
import subprocess
import sys
import urllib.request

import images
from conformance import *

LONG = os.environ.get("ACNSPAWN_TEST_LONG") == "1"
FULL_NODE = 110  # pods, as many as a kubelet allows by default
# In place of the name of a registry: the one of the test stands for it.
IMAGES = "images.test"
BUSYBOX = IMAGES + "/busybox:1"
STAY = 'trap "exit 0" TERM; while :; do sleep 0.2; done'
# Ends later than acnspawn's default stop time-out.
FLUSH = 'trap "sleep 11.5; echo done >/host/flushed; exit 0" TERM; while :; do sleep 0.2; done'


def configuration(world, **more):
    """The configuration of the kubelet, as JSON, which is valid YAML."""
    return dict({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "containerRuntimeEndpoint": "unix://" + world.socket,
        "staticPodPath": world.path("manifests"), "podLogsDir": world.path("logs"), "volumePluginDir": world.path("plugins"),
        "resolvConf": world.path("resolv.conf"), "address": "127.0.0.1", "port": 10250, "readOnlyPort": 10255, "healthzPort": 10248,
        "healthzBindAddress": "127.0.0.1", "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"}, "fileCheckFrequency": "1s", "syncFrequency": "2s", "nodeStatusUpdateFrequency": "2s",
        "runtimeRequestTimeout": "60s", "registerNode": False, "failCgroupV1": False, "failSwapOn": False, "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": False, "enforceNodeAllocatable": ["none"], "makeIPTablesUtilChains": False, "maxOpenFiles": 1000, "maxPods": 200,
        "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99, "serializeImagePulls": False,
        "evictionHard": {"memory.available": "1Mi", "nodefs.available": "0.1%", "imagefs.available": "0.1%"},
        "featureGates": {"KubeletInUserNamespace": True}}, **more)


# The kubelet cannot write to its /proc/sys, and finds the parameters that it would set there. /proc/sys of other processes
# is not affected: the mounts are private, as propagated ones would double with each start.
PARAMETERS = {"vm/overcommit_memory": 1, "vm/panic_on_oom": 0, "kernel/panic": 10, "kernel/panic_on_oops": 1,
              "kernel/keys/root_maxkeys": 1000000, "kernel/keys/root_maxbytes": 25000000}
PREPARE = """mount --make-private /proc && mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys &&
(cd "$0" && find * -type f) | while read f; do mount --bind "$0/$f" "/proc/sys/$f" || exit 1; done && exec "$@"
"""


def container(name, script, **more):
    return dict({"name": name, "image": BUSYBOX, "command": ["sh", "-c", script]}, **more)


def mount(name, path, **more):
    return dict({"name": name, "mountPath": path}, **more)


def pods(shared):
    """Name, what becomes of it, and its description. SHARED is a directory on a shared mount."""
    empty = {"name": "data", "emptyDir": {}}
    ready = {"exec": {"command": ["test", "-f", "/data/file"]}, "periodSeconds": 1}
    return [
        ("hello", "Running", {"containers": [container("main", "echo hello; " + STAY, resources={"limits": {"memory": "64Mi"}, "requests": {"cpu": "10m"}})]}),
        ("fails", "Failed", {"restartPolicy": "Never", "containers": [
            container("main", "echo ran >>/host/runs; echo why >/dev/termination-log; exit 7", volumeMounts=[mount("host", "/host")])],
                             "volumes": [{"name": "host", "hostPath": {"path": shared}}]}),
        ("once", "Succeeded", {"restartPolicy": "Never", "containers": [container("main", "echo out; echo err >&2; id", securityContext={
            "capabilities": {"drop": ["ALL"]}, "runAsUser": 1000, "runAsGroup": 1001, "readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False,
            "seccompProfile": {"type": "RuntimeDefault"}})]}),
        ("host", "Running", {"hostNetwork": True, "hostPID": True, "containers": [container("main", STAY, securityContext={"privileged": True}, volumeMounts=[
            mount("host", "/host", mountPropagation="Bidirectional")])], "volumes": [{"name": "host", "hostPath": {"path": shared}}]}),
        ("shared", "Running", {"shareProcessNamespace": True, "containers": [container("one", STAY), container("two", STAY)]}),
        ("http", "Running", {"containers": [container("main", "mkdir /www; echo fine >/www/index.html; exec busybox httpd -f -p 8080 -h /www",
                                                      readinessProbe={"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1},
                                                      ports=[{"containerPort": 8080}])]}),
        ("two", "Running", {"initContainers": [container("init", "echo made by init >/data/file", volumeMounts=[mount("data", "/data")]),
                                               container("sidecar", STAY, restartPolicy="Always", startupProbe=ready, volumeMounts=[mount("data", "/data")])],
                            "containers": [container("reader", "cat /data/file; " + STAY, volumeMounts=[mount("data", "/data"), mount("mem", "/mem")],
                                                     lifecycle={"postStart": {"exec": {"command": ["sh", "-c", "echo started >/data/post-start"]}}})],
                            "volumes": [empty, {"name": "mem", "emptyDir": {"medium": "Memory"}}]}),
        ("restarts", "Running", {"containers": [container("main", "if [ -f /data/again ]; then %s; fi; touch /data/again; exit 3" % STAY,
                                                          volumeMounts=[mount("data", "/data")])], "volumes": [empty]}),
        ("nested", "Running", {"containers": [container("main", "cat /etc/hosts /data/sub/file && " + STAY, volumeMounts=[
            mount("data", "/data/sub", subPath="in"), mount("etc", "/etc"), mount("outer", "/data")], readinessProbe={
                "exec": {"command": ["sh", "-c", "echo x >/data/sub/file && test -f /etc/hosts"]}, "periodSeconds": 1})],
            "volumes": [empty, {"name": "etc", "emptyDir": {}}, {"name": "outer", "emptyDir": {}}]}),
        ("flushes", "Running", {"terminationGracePeriodSeconds": 40, "containers": [container("main", FLUSH, volumeMounts=[mount("host", "/host")])],
                                "volumes": [{"name": "host", "hostPath": {"path": shared}}]}),
    ]


def manifest(name, spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": dict({"terminationGracePeriodSeconds": 2}, **spec)}


def is_settled(status):
    """Whether all that is to run is ready, or has ended."""
    containers = status.get("containerStatuses", [])
    return status.get("phase") in ("Succeeded", "Failed") or (
        status.get("phase") == "Running" and bool(containers) and all(c.get("ready") for c in containers))


def describe(status):
    words = [status.get("phase", "?")]
    for c in status.get("initContainerStatuses", []) + status.get("containerStatuses", []):
        state, detail = next(iter(c.get("state", {"unknown": {}}).items()))
        words.append("%s %s %s %s" % (c["name"], state, detail.get("reason", ""), re.sub("[0-9a-f]{64}", "ID", detail.get("message", ""))))
    return "; ".join(words)


def prepare_kubelet(world):
    """Makes the directories of a kubelet. Paths that it has fixed names for exist only in this program's mount namespace."""
    root = world.path("root")
    for name in ("root", "logs", "plugins", "manifests", "pki"):
        os.mkdir(world.path(name))
    subprocess.run(["mount", "--bind", root, root], check=True)
    subprocess.run(["mount", "--make-shared", root], check=True)
    os.mkdir(root + "/shared")
    for name in ("/var/lib/kubelet", "/var/log/containers"):
        os.makedirs(name, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "kubelet", name], check=True)
    world.write("resolv.conf", "nameserver 127.0.0.53\n")
    for name, value in PARAMETERS.items():
        world.write("parameters/" + name, "%d\n" % value)


def start_kubelet(world, settings, *options, program="kubelet"):
    """Starts the kubelet, also after it was stopped."""
    config = world.write("kubelet.yaml", json.dumps(settings))
    return world.start("kubelet", "unshare", "--mount", "--propagation", "unchanged", "sh", "-c", PREPARE, world.path("parameters"),
                       os.path.join(world.bin, program), "--config=" + config, "--root-dir=" + world.path("root"), "--cert-dir=" + world.path("pki"),
                       "--hostname-override=node", "--node-ip=" + NODE_ADDRESS, "--v=2", *options)


def complaints(world):
    with open(world.path("kubelet.log"), errors="replace") as f:
        return [line.rstrip()[:400] for line in f if line[:1] in "EF"][-20:]


class Kubelet:
    def __init__(self, world, wanted, program):
        self.world, self.wanted, self.program, self.statuses = world, wanted, program, {}
        prepare_kubelet(world)
        for name, _, spec in wanted:
            world.write("manifests/%s.json" % name, json.dumps(manifest(name, spec)))
        self.config = configuration(world)
        self.start()

    def start(self):
        self.process = start_kubelet(self.world, self.config, program=self.program)

    def reboot(self):
        """Reboots the node as a loss of power does."""
        self.world.kill(self.process, self.world.runtime)
        self.world.lose_power()
        self.world.start_runtime()
        self.start()

    def look(self):
        """Statuses by the names of the pods, to which the kubelet adds its own."""
        try:
            with urllib.request.urlopen("http://127.0.0.1:10255/pods", timeout=5) as f:
                items = json.load(f)["items"] or []
        except OSError:
            return None
        self.statuses = {p["metadata"]["name"][:-len("-node")]: p["status"] for p in items}
        return self.statuses

    def is_done(self):
        seen = self.look() or {}
        if self.process.poll() is not None:
            raise RuntimeError("the kubelet has ended with status %d" % self.process.returncode)
        return all(is_settled(seen.get(name, {})) and seen[name]["phase"] in (phase, "Succeeded", "Failed") for name, phase, _ in self.wanted)

    def remove_pods(self):
        for name, _, _ in self.wanted:
            os.unlink(self.world.path("manifests/%s.json" % name))
        wait_for(lambda: self.look() == {}, "the end of the pods", 60)
        # The kubelet drops the pods from its list at once; their containers end later.
        wait_for(lambda: json.loads(self.world.crictl("ps", "--output=json") or "{}").get("containers") == [], "the end of the containers", 60)


def tell(count, kubelet, wanted):
    for name, phase, _ in wanted:
        status = kubelet.statuses.get(name, {})
        good = is_settled(status) and status["phase"] == phase
        count.line("ok" if good else "not ok", name, "" if good else describe(status))
    ended = kubelet.statuses.get("fails", {}).get("containerStatuses", [{}])[0].get("state", {}).get("terminated", {})
    if "fails" in kubelet.statuses:
        good = (ended.get("exitCode"), ended.get("message")) == (7, "why\n")
        count.line("ok" if good else "not ok", "message_of_termination", "" if good else json.dumps(ended))


def check_reboot(world, kubelet, count):
    """Checks after a reboot that pods run again which are to run, and that completed ones do not."""
    kubelet.reboot()
    try:
        wait_for(kubelet.is_done, "the pods after a reboot", 60)
    except TimeoutError:
        pass
    with open(world.path("root/shared/runs")) as f:
        runs = f.read().split()
    wrong = ["%s: %s" % (name, describe(kubelet.statuses.get(name, {}))) for name, phase, _ in kubelet.wanted
             if kubelet.statuses.get(name, {}).get("phase") != phase or not is_settled(kubelet.statuses[name])]
    good = runs == ["ran"] and not wrong
    count.line("ok" if good else "not ok", "a_reboot_runs_what_is_to_run", "" if good else "%d runs; %s" % (len(runs), "; ".join(wrong)))


def result(count, name, check, *args):
    """The line of a case that is a function."""
    try:
        check(*args)
        count.line("ok", name)
    except (AssertionError, TimeoutError, ValueError, KeyError) as e:  # crictl may print nothing, or something else
        count.line("not ok", name, str(e))


def containers_of(world, pod):
    listed = json.loads(world.crictl("ps", "--all", "--label=io.kubernetes.pod.name=%s-node" % pod, "--output=json"))["containers"]
    return sorted((c["id"], c["state"], c["metadata"].get("attempt", 0)) for c in listed)


def check_stopped_supervisor(world, kubelet):
    """The kubelet is restarted in the meantime, so that it has to ask for the container."""
    pod, = world.crictl("pods", "--quiet", "--name=hello-node").split()
    with open(world.path("store/pods/running/%s/runtime" % uuid.UUID(pod[:32]))) as f:
        supervisor = json.load(f)["supervisor"]
    before = containers_of(world, "hello")
    os.kill(supervisor, signal.SIGSTOP)
    try:
        world.stop(kubelet.process)
        kubelet.start()
        until = time.monotonic() + 75
        while time.monotonic() < until:
            now = containers_of(world, "hello")
            assert now == before, "containers while the supervisor is stopped: %s, before: %s" % (now, before)
            time.sleep(1)
    finally:
        os.kill(supervisor, signal.SIGCONT)
    wait_for(kubelet.is_done, "the pods, once the supervisor goes on", 120)
    status, = kubelet.statuses["hello"]["containerStatuses"]
    assert status["restartCount"] == 0 and containers_of(world, "hello") == before, "%s; %s" % (describe(kubelet.statuses["hello"]), containers_of(world, "hello"))


def slowest_call(world):
    """Seconds of the slowest of the calls by which a kubelet finds out whether its node is ready."""
    slowest = 0
    for words in ("version",), ("info",), ("pods", "--quiet"), ("ps", "--quiet"):
        began = time.monotonic()
        assert world.crictl(*words) or words[0] in ("pods", "ps"), "crictl %s has failed" % words[0]
        slowest = max(slowest, time.monotonic() - began)
    return slowest


def check_drain(world, kubelet):
    """All pods are deleted at once, and each takes longer to end than acnspawn's default stop time-out. They have users of their own: root has
    128 inotify instances by default, of which a pod of root takes three."""
    names = ["drain-%d" % n for n in range(FULL_NODE)]
    script = 'trap "sleep 11.5; touch /host/%s; exit 0" TERM; sleep 3600 & wait'
    host = {"name": "host", "hostPath": {"path": world.path("root/shared")}}
    kubelet.wanted = [(name, "Running", {"hostUsers": False, "terminationGracePeriodSeconds": 120, "volumes": [host], "containers": [
        container("main", script % name, volumeMounts=[mount("host", "/host")])]}) for name in names]
    for name, _, spec in kubelet.wanted:
        world.write("manifests/%s.json" % name, json.dumps(manifest(name, spec)))
    try:
        wait_for(kubelet.is_done, "%d pods" % len(names), 300)
    finally:
        log = os.path.getsize(world.path("kubelet.log"))
        for name in names:
            os.unlink(world.path("manifests/%s.json" % name))
    left, slowest, until = None, 0, time.monotonic() + patience(300)
    while left != []:
        slowest = max(slowest, slowest_call(world))
        left = json.loads(world.crictl("ps", "--output=json"))["containers"]
        assert time.monotonic() < until, "%d containers have not ended" % len(left)
    print("The slowest call while %d pods ended took %.1f s" % (len(names), slowest))
    assert slowest < patience(5), "a call took %.1f s" % slowest
    killed = [name for name in names if not os.path.exists(world.path("root/shared/" + name))]
    assert not killed, "killed in their grace period: %s" % killed
    with open(world.path("kubelet.log"), errors="replace") as f:
        f.seek(log)
        unhealthy = [line for line in f if "PLEG is not healthy" in line or "runtime sanity check failed" in line or "Container runtime not ready" in line]
    assert not unhealthy, unhealthy[0]
    wait_for(lambda: not world.crictl("pods", "--quiet"), "the end of the sandboxes", 120)


def run(world, wanted, program, count):
    kubelet = Kubelet(world, wanted, program)
    began = time.monotonic()
    try:
        wait_for(kubelet.is_done, "the pods", 60)
        print("The pods took %.1f s" % (time.monotonic() - began))
    except TimeoutError:
        pass
    tell(count, kubelet, wanted)
    if LONG and "hello" in kubelet.statuses:
        result(count, "no_container_starts_beside_one_whose_supervisor_is_stopped", check_stopped_supervisor, world, kubelet)
    if "fails" in kubelet.statuses:
        check_reboot(world, kubelet, count)
    try:
        kubelet.remove_pods()
        count.line("ok", "pods_are_removed")
    except TimeoutError as e:
        count.line("not ok", "pods_are_removed", str(e))
    if "flushes" in [name for name, _, _ in wanted]:
        count.line("ok" if os.path.exists(world.path("root/shared/flushed")) else "not ok", "grace_period_is_that_of_the_pod")
    if LONG:
        result(count, "a_full_node_is_drained", check_drain, world, kubelet)
    if count.failed:
        print("\n".join(complaints(world)))


def main():
    p = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    p.add_argument("--minor")
    p.add_argument("--only", default="*")
    a = p.parse_args()
    program = "kubelet-" + a.minor if a.minor else "kubelet"
    enter("crictl", program)
    count = Count()
    with World("crictl", program) as world:
        world.serve_images([IMAGES])
        made = images.Images(world.path("layouts"), REGISTRY)
        made.add("busybox", "1", made.layer(), Cmd=["sh"])
        made.finish()
        world.start_runtime()
        run(world, [x for x in pods(world.path("root/shared")) if fnmatch.fnmatch(x[0], a.only)], program, count)
    return 1 if count.failed else 0


if __name__ == "__main__":
    sys.exit(main())
