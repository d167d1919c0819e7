#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A Kubernetes of one node on acnspawn-cri, driven by kubectl.

    cluster.py [--only=PATTERN] [--gates=NAME,…]

Each case has a namespace of its own. They run in parallel, because they mostly wait, long ones first; cases that disrupt
the node (@alone) run after the others, one at a time. No pod may be left at the end. Gates are features of the kubelet that are off by default."""

import argparse
import contextlib
import fnmatch
import gzip
import hashlib
import json
import os
import queue
import re
import select
import subprocess
import sys
import threading
import time
import urllib.request

import images
from conformance import *
from harness import Failure, Skip, contains, equal, fail, true, wait_for
from kubelet import BUSYBOX, IMAGES, complaints, container, mount
from kubernetes import *
from registry_server import bcrypt

SIDE_BY_SIDE = 6
LIMIT = 600  # seconds for all cases, multiplied by patience()
PRIVATE = "127.0.0.1:5001"
STAY = 'trap "exit 0" TERM; sleep 3600 & wait'
SERVE = 'trap "exit 0" TERM; busybox httpd -f -p 8080 -h /www & wait'
OUT = [mount("out", "/out")]
APP = IMAGES + "/app:%d"
CASES = []


def case(function):
    function.alone = False
    CASES.append(function)
    return function


def alone(function):
    case(function).alone = True
    return function


def exec_probe(*command, **more):
    return dict({"exec": {"command": command}, "periodSeconds": 1, "timeoutSeconds": 10}, **more)


def app(version, **more):
    return container("main", STAY, image=APP % version, **more)


# --- Those that take long by themselves -------------------------------------------------------------------------------------

@case
def cron_jobs(k):
    """A CronJob creates a job each minute, and kubectl one by hand."""
    template = job("", container("main", "echo by the clock"))["spec"]
    k.apply({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": template}}})
    k.kubectl("create", "job", "by-hand", "--from=cronjob/c")
    k.kubectl("wait", "--for=condition=complete", "job/by-hand", "--timeout=120s", seconds=120)
    equal(k.logs("job/by-hand"), "by the clock\n")

    def scheduled():
        items = k.get("jobs", "apis/batch/v1").get("items", [])
        return [j for j in items if j["metadata"]["name"].startswith("c-") and j["status"].get("succeeded") == 1]
    wait_for(scheduled, "the job of a minute", 100, interval=0.5)


@case
def grace_of_the_pod(k):
    """A container that ends after 15 of its 40 seconds is not killed earlier; one that ignores SIGTERM is killed after
    its 4 seconds."""
    slow = """echo asked >>/out/slow; i=0; while [ $i -lt 15 ]; do sleep 1; i=$((i+1)); echo $i >>/out/slow; done; echo ended >>/out/slow; exit 0"""
    k.apply(new_pod("slow", container("main", "trap '%s' TERM; sleep 3600 & wait" % slow, volumeMounts=OUT), volumes=[k.out()], terminationGracePeriodSeconds=40),
            new_pod("stubborn", container("main", "trap '' TERM; while :; do cat /proc/uptime >>/out/stubborn; sleep 0.1; done", volumeMounts=OUT),
                    volumes=[k.out()], terminationGracePeriodSeconds=4))
    for name in "slow", "stubborn":
        k.ready(name)
    began = uptime()
    k.kubectl("delete", "pod", "stubborn", "--timeout=60s")
    last = float(k.lines("stubborn")[-1].split()[0])
    true(last - began > 3.5, "It was killed after %.1f s" % (last - began))
    k.kubectl("delete", "pod", "slow", "--timeout=90s", seconds=90)
    equal(k.lines("slow"), ["asked", *map(str, range(1, 16)), "ended"])


@case
def evictions(k):
    """A pod that has more than its limit in a volume, or in the root of a container, is evicted, one below it is not. The latter is what the
    runtime measures, at most every minute."""
    def writes(size, where):
        return "head -c %d /dev/zero >%s/file; %s" % (size, where, STAY)

    def evicted():
        events = k.get("events?fieldSelector=reason%3DEvicted").get("items", [])
        return {e["involvedObject"]["name"]: e["message"] for e in events}
    limits = {"limits": {"ephemeral-storage": "2Mi"}}
    k.apply(new_pod("volume", container("main", writes(5 << 20, "/data"), volumeMounts=[mount("data", "/data")]), volumes=[{"name": "data", "emptyDir": {"sizeLimit": "1Mi"}}]),
            new_pod("root", container("main", writes(5 << 20, ""), resources=limits)), new_pod("within", container("main", writes(1 << 20, ""), resources=limits)))
    wait_for(lambda: set(evicted()) >= {"volume", "root"}, lambda: "two evictions (%s)" % evicted(), 180, interval=0.5)
    contains(evicted()["volume"], "EmptyDir")
    contains(evicted()["root"], "ephemeral local storage")
    for name in "volume", "root":
        k.wait(name, lambda s: s.get("phase") in ("Failed", "Succeeded"), "ended")
    equal("within" in evicted(), False)
    equal(first(k.ready("within"))["restartCount"], 0)


def uptime():
    with open("/proc/uptime") as f:
        return float(f.read().split()[0])


@case
def logs_are_rotated(k):
    """No line is lost when the kubelet rotates the log."""
    lines = 10000
    k.apply(new_pod("p", container("main", 'i=0; while [ $i -lt %d ]; do i=$((i+1)); echo "line $i %s"; [ $((i %% 400)) -ne 0 ] || sleep 0.3; done; %s'
                                   % (lines, "x" * 50, STAY))))
    k.ready("p")
    path = k.world.path("logs/%s_p_%s/main" % (k.name, k.get("pods/p")["metadata"]["uid"]))

    def numbers():
        text = b""
        for name in sorted(os.listdir(path), key=lambda n: (n == "0.log", n)):
            with open(os.path.join(path, name), "rb") as f:
                text += gzip.decompress(f.read()) if name.endswith(".gz") else f.read()
        return [int(n) for n in re.findall(rb"stdout F line (\d+) ", text)], len(os.listdir(path))

    def complete():
        try:
            seen, files = numbers()
        except (OSError, EOFError):  # while the file is renamed or compressed
            return None
        return files if files > 1 and seen == list(range(1, lines + 1)) else None
    wait_for(complete, lambda: "All lines, in files of which there are some (%s)" % ", ".join(os.listdir(path)), 60, interval=0.5)


# --- Pods -------------------------------------------------------------------------------------------------------------------

@case
def pods(k):
    k.apply(new_pod("p", container("main", 'echo "$NAME $ADDRESS"; cat /var/run/secrets/kubernetes.io/serviceaccount/namespace; echo; hostname; %s' % STAY,
                                   env=[field("NAME", "metadata.name"), field("ADDRESS", "status.podIP")])))
    status = k.ready("p")
    equal(k.logs("p").splitlines(), ["p " + status["podIP"], k.name, "p"])
    contains(k.kubectl("describe", "pod", "p").stdout, status["containerStatuses"][0]["containerID"])
    k.kubectl("delete", "pod", "p", "--timeout=60s")
    equal(k.get("pods/p"), {})


@case
def host_ports(k):
    """A host port reaches the pod that has it, and afterwards the next pod with the same port."""
    for name in "one", "two":
        k.apply(new_pod(name, container("main", "mkdir /www; hostname >/www/name; " + SERVE, ports=[{"containerPort": 8080, "hostPort": 18080}],
                                        readinessProbe={"httpGet": {"path": "/name", "port": 8080}, "periodSeconds": 1})))
        k.ready(name)
        equal(body("http://%s:18080/name" % NODE_ADDRESS), name.encode() + b"\n")
        k.kubectl("delete", "pod", name, "--timeout=60s")


def body(url):
    with urllib.request.urlopen(url, timeout=patience(10)) as f:
        return f.read()


@case
def forced_deletion(k):
    """The API server drops the pod at once, and its container ends soon, whatever its grace period is."""
    k.apply(new_pod("p", container("main", "trap '' TERM; echo begins >>/out/log; while :; do sleep 0.1; done", volumeMounts=OUT), volumes=[k.out()],
                    terminationGracePeriodSeconds=3600))
    k.ready("p")
    id = first(k.status("p"))["containerID"].split("//")[1]
    k.kubectl("delete", "pod", "p", "--force", "--grace-period=0")
    equal(k.get("pods/p"), {})
    wait_for(lambda: id not in k.world.crictl("ps", "-q", "--no-trunc"), "the end of the container", 30, interval=0.2)


@case
def back_off(k):
    k.apply(new_pod("crashes", container("main", "echo again; exit 9")), new_pod("missing", container("main", STAY, image=IMAGES + "/none:1")))
    contains(k.waiting("missing", "ImagePullBackOff")["state"]["waiting"]["message"], "none:1")
    k.kubectl("set", "image", "pod/missing", "main=" + BUSYBOX)
    k.ready("missing")
    k.wait("crashes", lambda s: first(s).get("restartCount", 0) >= 2, "two restarts")
    last = k.waiting("crashes", "CrashLoopBackOff")["lastState"]["terminated"]
    equal((last["exitCode"], last["reason"]), (9, "Error"))
    # It goes on crashing, and the kubelet keeps one container that has ended: the one that the status names may be gone by then.
    wait_for(lambda: k.logs("crashes", "--previous") == "again\n", "the output of the container before", 30, interval=0.5)


@case
def image_pull_secrets(k):
    """A pod without the password cannot use an image that another pod has pulled with it."""
    def secret(name, password):
        k.kubectl("create", "secret", "docker-registry", name, "--docker-server=" + PRIVATE, "--docker-username=someone", "--docker-password=" + password)
        return {"imagePullSecrets": [{"name": name}]}

    def private(name, **more):
        return new_pod(name, container("main", STAY, image=PRIVATE + "/app:1"), **more)

    failed = ("ErrImagePull", "ImagePullBackOff")
    k.apply(private("without"), private("wrong", **secret("wrong", "guessed")))
    for name in "without", "wrong":
        contains(k.waiting(name, *failed)["state"]["waiting"]["message"], PRIVATE)
    k.apply(private("right", **secret("right", "sesame-open")))
    k.ready("right")
    k.apply(private("later"))
    k.waiting("later", *failed)


@case
def updates_seen_in_volumes(k):
    """Updates of a ConfigMap, a Secret and annotations appear in the volumes of a running pod."""
    watch = "for f in config secret info; do until grep -q new /$f/key; do sleep 0.2; done; echo $f; done"
    k.kubectl("create", "configmap", "c", "--from-literal=key=old")
    k.kubectl("create", "secret", "generic", "s", "--from-literal=key=old")
    info = {"items": [{"path": "key", "fieldRef": {"fieldPath": "metadata.annotations"}}]}
    k.apply(new_pod("p", container("main", "cat /config/key /secret/key; echo; " + watch, volumeMounts=[mount(n, "/" + n) for n in ("config", "secret", "info")]),
                    restartPolicy="Never", volumes=[{"name": "config", "configMap": {"name": "c"}}, {"name": "secret", "secret": {"secretName": "s"}},
                                                    {"name": "info", "downwardAPI": info}]))
    k.ready("p")
    k.kubectl("patch", "configmap", "c", "--patch", json.dumps({"data": {"key": "new"}}))
    k.kubectl("patch", "secret", "s", "--patch", json.dumps({"stringData": {"key": "new"}}))
    k.kubectl("annotate", "pod", "p", "seen=new")
    k.ended("p", seconds=120)
    equal(k.logs("p").split(), ["oldold", "config", "secret", "info"])


@case
def readiness_probes(k):
    """Probes by HTTP, TCP, gRPC (of an etcd) and a command."""
    def probe(**kind):
        return dict({"periodSeconds": 1, "timeoutSeconds": 10}, **kind)
    etcd = {"name": "grpc", "image": IMAGES + "/etcd:1", "readinessProbe": probe(grpc={"port": 2379}),
            "command": ["/etcd", "--data-dir=/data", "--listen-client-urls=http://0.0.0.0:2379", "--advertise-client-urls=http://127.0.0.1:2379", "--unsafe-no-fsync"]}
    k.apply(new_pod("p", etcd, container("http", "mkdir /www; echo ok >/www/ready; " + SERVE, readinessProbe=probe(httpGet={"path": "/ready", "port": 8080})),
                    container("tcp", 'trap "exit 0" TERM; busybox httpd -f -p 8081 & wait', readinessProbe=probe(tcpSocket={"port": 8081})),
                    container("command", STAY, readinessProbe=exec_probe("test", "-f", "/tmp/ready"))))
    k.wait("p", lambda s: sorted(c["name"] for c in s.get("containerStatuses", []) if c["ready"]) == ["grpc", "http", "tcp"], "three of four ready")
    k.kubectl("exec", "p", "-c", "command", "--", "touch", "/tmp/ready")
    k.ready("p")
    k.kubectl("exec", "p", "-c", "http", "--", "rm", "/www/ready")
    k.wait("p", lambda s: [c["name"] for c in s.get("containerStatuses", []) if not c["ready"]] == ["http"], "http not ready")
    equal([c["restartCount"] for c in k.status("p")["containerStatuses"]], [0] * 4)


@case
def liveness_probes(k):
    """A failing liveness probe restarts the container; it is not used before the startup probe has succeeded."""
    k.apply(new_pod("p", container("main", "touch /tmp/alive; " + STAY, livenessProbe=exec_probe("test", "-f", "/tmp/alive", failureThreshold=1,
                                                                                                          initialDelaySeconds=2))),
            new_pod("slow", container("main", "sleep 4; touch /tmp/alive; " + STAY, livenessProbe=exec_probe("test", "-f", "/tmp/alive", failureThreshold=1),
                                      startupProbe=exec_probe("test", "-f", "/tmp/alive", failureThreshold=60))))
    k.ready("p")
    k.exec("p", "rm", "/tmp/alive")
    k.wait("p", lambda s: first(s).get("restartCount") == 1 and first(s)["ready"], "one restart")
    contains(k.event("Unhealthy"), "probe failed")
    equal(first(k.ready("slow"))["restartCount"], 0)


@case
def hooks(k):
    k.apply(new_pod("p", container("main", "until [ -f /out/started ]; do sleep 0.1; done; echo main >>/out/log; trap 'echo asked >>/out/log; exit 0' TERM; sleep 3600 & wait",
                                   volumeMounts=OUT, lifecycle={
        "postStart": {"exec": {"command": ["sh", "-c", "echo postStart >>/out/log; touch /out/started"]}},
        "preStop": {"exec": {"command": ["sh", "-c", "echo preStop >>/out/log; sleep 1; echo preStop ends >>/out/log"]}}}),
        terminationGracePeriodSeconds=20, volumes=[k.out()]),
        new_pod("fails", container("main", STAY, lifecycle={"postStart": {"exec": {"command": ["sh", "-c", "echo why; exit 3"]}}}), restartPolicy="Never"))
    k.ready("p")
    wait_for(lambda: "main" in k.lines("log"), "the container's line")
    k.kubectl("delete", "pod", "p", "--timeout=60s")
    equal(k.lines("log"), ["postStart", "main", "preStop", "preStop ends", "asked"])
    k.event("FailedPostStartHook")
    k.wait("fails", lambda s: s.get("phase") in ("Failed", "Succeeded"), "ended")


@case
def sidecars(k):
    """Sidecars start before the containers and end after them, are restarted, and do not keep a job from completing."""
    sidecar = container("sidecar", "echo sidecar >>/out/log; trap 'echo sidecar ends >>/out/log; exit 0' TERM; sleep 3600 & wait", restartPolicy="Always",
                        volumeMounts=OUT, startupProbe=exec_probe("test", "-f", "/out/log"))
    k.apply(job("j", container("main", "echo main >>/out/log", volumeMounts=OUT), pod={"initContainers": [sidecar], "volumes": [k.out()]}),
            new_pod("p", container("main", STAY), volumes=[{"name": "data", "emptyDir": {}}], initContainers=[
                container("sidecar", "[ ! -f /data/again ] || { %s; }; touch /data/again; exit 3" % STAY, restartPolicy="Always", volumeMounts=[mount("data", "/data")])]))
    k.kubectl("wait", "--for=condition=complete", "job/j", "--timeout=120s", seconds=120)
    equal(k.lines("log"), ["sidecar", "main", "sidecar ends"])
    status = k.wait("p", lambda s: any(c["restartCount"] == 1 and c["ready"] for c in s.get("initContainerStatuses", [])), "the sidecar once more")
    equal(first(status)["restartCount"], 0)


@case
def ephemeral_containers(k):
    """kubectl debug joins the processes of a container, and can use a terminal."""
    k.apply(new_pod("p", container("main", "echo of main >/tmp/mark; " + STAY)))
    k.ready("p")
    debug = ("debug", "p", "--image=" + BUSYBOX, "--target=main", "--profile=general")
    k.kubectl(*debug, "--container=look", "--", "sh", "-c", "cat /proc/1/root/tmp/mark; tr '\\0' ' ' </proc/1/cmdline")

    def ended(status):
        return any("terminated" in c.get("state", {}) for c in status.get("ephemeralContainerStatuses", []))
    k.wait("p", ended, "the end of the ephemeral container")
    said = k.logs("p", "-c", "look")
    contains(said, "of main\n")
    contains(said, "sleep 3600")
    t = k.terminal(*debug, "--container=shell", "-it", "--", "sh")
    t.send(b"echo seen-$((6*7))\n")
    t.expect(b"seen-42")
    t.send(b"exit\n")
    equal(t.end(), 0)
    equal(first(k.ready("p"))["restartCount"], 0)


@case
def resize_in_place(k):
    if not has_memory_controller():
        raise Skip("this host has no controllers with cgroup v2")
    k.apply(new_pod("p", container("main", STAY, resources={"limits": {"cpu": "100m", "memory": "64Mi"}})))
    k.ready("p")
    limits = {"cpu": "200m", "memory": "96Mi"}
    patch = {"spec": {"containers": [{"name": "main", "resources": {"limits": limits, "requests": limits}}]}}
    k.kubectl("patch", "pod", "p", "--subresource=resize", "--patch", json.dumps(patch))
    status = k.wait("p", lambda s: first(s).get("resources", {}).get("limits") == limits, "the new limits")
    equal(first(status)["restartCount"], 0)
    equal(k.exec("p", "cat", "/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/memory.max").split(), ["20000", "100000", str(96 << 20)])


@case
def out_of_memory(k):
    if not has_memory_controller():
        raise Skip("this host has no controllers with cgroup v2")
    k.apply(new_pod("p", container("main", "tail /dev/zero", resources={"limits": {"memory": "32Mi"}}), restartPolicy="Never"))
    ended = first(k.ended("p", "Failed"))["state"]["terminated"]
    equal((ended["reason"], ended["exitCode"]), ("OOMKilled", 137))


# --- Into a container, and out of it ----------------------------------------------------------------------------------------

def digest(data):
    return hashlib.sha256(data).hexdigest()


@case
def exec_in_a_container(k):
    """kubectl exec works over WebSocket and SPDY; with a terminal it passes the window size on."""
    k.apply(new_pod("p", container("main", STAY)))
    k.ready("p")
    data = os.urandom(3 << 20)
    for by_websocket in "true", "false":
        more = {"env": dict(os.environ, KUBECTL_REMOTE_COMMAND_WEBSOCKETS=by_websocket)}
        r = k.kubectl("exec", "p", "--", "sh", "-c", "echo out; echo err >&2; exit 7", status=7, **more)
        equal(r.stdout, "out\n")
        contains(r.stderr, "err\n")
        r = k.kubectl("exec", "-i", "p", "--", "sha256sum", input=data, text=False, **more)
        equal(r.stdout.split()[0].decode(), digest(data))
        r = k.kubectl("exec", "-i", "p", "--", "cat", input=data, text=False, **more)
        equal(digest(r.stdout), digest(data))
    contains(k.kubectl("exec", "p", "--", "no-such-program", status=None).stderr, "no-such-program")
    t = k.terminal("exec", "-it", "p", "--", "sh")
    t.send(b"stty size\n")
    t.expect(b"33 77")
    t.resize(40, 100)
    t.send(b"until stty size | grep '40 100'; do sleep 0.1; done; echo resized-$((1+1))\n")
    t.expect(b"resized-2")
    t.send(b"sh -c 'trap \"echo caught-$((2+2)); exit\" INT; echo set-$((1+1)); while :; do sleep 0.1; done'\n")
    t.expect(b"set-2")
    t.send(b"\x03")
    t.expect(b"caught-4")
    t.send(b"exit 5\n")
    equal(t.end(), 5)


@case
def copies(k):
    k.apply(new_pod("p", container("main", STAY)))
    k.ready("p")
    there, back, data = os.path.join(k.dir, "there"), os.path.join(k.dir, "back"), os.urandom(5 << 20)
    os.makedirs(there + "/deep/er")
    for name in "file", "deep/er/file":
        with open(os.path.join(there, name), "wb") as f:
            f.write(data)
    k.kubectl("cp", there, "p:/tmp/there")
    equal(k.exec("p", "sha256sum", "/tmp/there/deep/er/file").split()[0], digest(data))
    k.kubectl("cp", "p:/tmp/there", back)
    for name in "file", "deep/er/file":
        with open(os.path.join(back, name), "rb") as f:
            equal(digest(f.read()), digest(data))


@case
def port_forward(k):
    k.apply(new_pod("p", container("main", "mkdir /www; head -c 2000000 /dev/urandom >/www/file; sha256sum /www/file; " + SERVE,
                                   readinessProbe={"httpGet": {"path": "/file", "port": 8080}, "periodSeconds": 1})))
    k.ready("p")
    expected = k.logs("p").split()[0]
    p = k.start("port-forward", "p", ":8080", text=True)
    found = re.match(r"Forwarding from 127.0.0.1:(\d+) -> 8080", p.stdout.readline())
    true(found, "kubectl does not tell its port")
    got = []

    def fetch():
        got.append(digest(body("http://127.0.0.1:%s/file" % found[1])))
    threads = [threading.Thread(target=fetch) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    equal(got, [expected] * 8)
    p.terminate()
    p.wait()


@case
def attach(k):
    """Input and its end reach the container; a container with a terminal continues when its client disconnects."""
    r = k.kubectl("run", "hello", "--image=" + BUSYBOX, "--rm", "-i", "--quiet", "--restart=Never", "--", "sh", "-c", 'while read -r l; do echo "got $l"; done; echo end',
                  input="one\ntwo\n", seconds=30)
    equal(r.stdout.splitlines()[:3], ["got one", "got two", "end"])
    k.apply(new_pod("t", container("main", "trap 'exit 0' TERM; while read -r l; do echo got-$l; done", stdin=True, tty=True)))
    k.ready("t")
    for word in b"first", b"second":
        t = k.terminal("attach", "-it", "t")
        t.send(word + b"\n")
        t.expect(b"got-" + word)
        t.process.terminate()
        t.process.wait()
    equal(first(k.ready("t"))["restartCount"], 0)


@case
def logs(k):
    many = "echo begin; until [ -f /out/go ]; do sleep 0.1; done; i=0; while [ $i -lt 50 ]; do i=$((i+1)); echo line $i; sleep 0.02; done; printf end"
    k.apply(new_pod("p", container("main", "if [ -f /out/again ]; then echo again; %s; fi; touch /out/again; %s; exit 4" % (STAY, many), volumeMounts=OUT),
                    container("other", "echo of the other; " + STAY), volumes=[k.out()]))
    k.ready("p")
    expected = ["begin", *("line %d" % i for i in range(1, 51)), "end"]
    follower = k.start("logs", "-f", "p", "-c", "main", text=True)
    equal(follower.stdout.readline(), "begin\n")
    k.world.write("root/shared/%s/go" % k.name, "")
    equal(follower.communicate(timeout=patience(60))[0].splitlines(), expected[1:])
    equal(follower.returncode, 0)
    k.wait("p", lambda s: any(c["restartCount"] == 1 and c["ready"] for c in s["containerStatuses"]), "one restart")
    equal(k.logs("p", "-c", "main", "--previous").splitlines(), expected)
    equal(k.logs("p", "-c", "main"), "again\n")
    equal(k.logs("p", "-c", "main", "--previous", "--tail=2").splitlines(), ["line 50", "end"])
    true(re.match(r"\d{4}-\d\d-\d\dT\S+Z again\n$", k.logs("p", "-c", "main", "--timestamps")), "no time before the line")
    equal(sorted(k.logs("p", "--all-containers").splitlines()), ["again", "of the other"])


# --- Controllers ------------------------------------------------------------------------------------------------------------

def versions(k, name):
    """The version of the image in each pod of a controller."""
    return [k.exec(p["metadata"]["name"], "cat", "/version").strip() for p in k.pods(name)]


@case
def deployments(k):
    """A Deployment is rolled out, rolled back and scaled."""
    k.apply(controller("Deployment", "web", app(1), replicas=3))
    k.rollout("status", "deployment/web")
    equal(versions(k, "web"), ["1"] * 3)
    k.kubectl("set", "image", "deployment/web", "main=" + APP % 2)
    k.rollout("status", "deployment/web")
    equal(versions(k, "web"), ["2"] * 3)
    k.rollout("undo", "deployment/web")
    k.rollout("status", "deployment/web")
    equal(versions(k, "web"), ["1"] * 3)
    k.kubectl("scale", "deployment/web", "--replicas=1")
    wait_for(lambda: len(k.pods("web")) == 1, "a single pod", interval=0.2)
    k.rollout("restart", "deployment/web")
    k.rollout("status", "deployment/web")


@case
def stateful_sets(k):
    """Pods of a StatefulSet keep their names and volumes."""
    size = {"requests": {"storage": "1Mi"}}
    for i in range(2):
        path = "%s/volume-%d" % (k.dir, i)
        os.mkdir(path)
        k.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "%s-%d" % (k.name, i)}, "spec": {
            "capacity": size["requests"], "accessModes": ["ReadWriteOnce"], "storageClassName": k.name, "hostPath": {"path": path}}})
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": k.name, "resources": size}}
    k.apply(controller("StatefulSet", "db", container("main", "hostname >>/data/starts; " + STAY, volumeMounts=[mount("data", "/data")]), replicas=2,
                       serviceName="db", volumeClaimTemplates=[claim]))
    k.rollout("status", "statefulset/db")
    equal(sorted(p["metadata"]["name"] for p in k.pods("db")), ["db-0", "db-1"])
    before = k.get("pods/db-0")["metadata"]["uid"]
    k.kubectl("delete", "pod", "db-0", "--timeout=60s")
    k.ready("db-0")
    true(k.get("pods/db-0")["metadata"]["uid"] != before, "It is the same pod")
    equal(k.exec("db-0", "cat", "/data/starts").split(), ["db-0"] * 2)
    equal(k.exec("db-1", "cat", "/data/starts").split(), ["db-1"])


@case
def daemon_sets(k):
    k.apply(controller("DaemonSet", "agent", app(1)))
    k.rollout("status", "daemonset/agent")
    equal(versions(k, "agent"), ["1"])
    k.kubectl("set", "image", "daemonset/agent", "main=" + APP % 2)
    k.rollout("status", "daemonset/agent")
    equal(versions(k, "agent"), ["2"])


@case
def jobs(k):
    again = "[ -f /data/again ] && exit 0; touch /data/again; exit 3"
    k.apply(job("good", container("main", "echo done"), completions=3, parallelism=2), job("bad", container("main", "exit 3"), backoffLimit=0),
            job("again", container("main", again, volumeMounts=[mount("data", "/data")]), pod={
                "restartPolicy": "OnFailure", "volumes": [{"name": "data", "emptyDir": {}}]}))
    for name, condition in ("good", "complete"), ("again", "complete"), ("bad", "failed"):
        k.kubectl("wait", "--for=condition=" + condition, "job/" + name, "--timeout=120s", seconds=120)
    equal(k.get("jobs/good", "apis/batch/v1")["status"]["succeeded"], 3)
    equal([first(p["status"])["state"]["terminated"]["exitCode"] for p in k.get("pods?labelSelector=job-name%3Dbad")["items"]], [3])


@case
def services(k):
    """The endpoints of a service are its ready pods, each of which answers."""
    serve = "mkdir /www; hostname >/www/name; touch /www/ready; " + SERVE
    k.apply(controller("Deployment", "web", container("main", serve, readinessProbe={"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 1}), replicas=2),
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}})
    k.rollout("status", "deployment/web")

    def endpoints():
        slices = k.get("endpointslices?labelSelector=kubernetes.io/service-name%3Dweb", "apis/discovery.k8s.io/v1").get("items", [])
        return {e["targetRef"]["name"]: e["addresses"][0] for s in slices for e in s["endpoints"] or [] if e["conditions"]["ready"]}
    wait_for(lambda: len(endpoints()) == 2, "two endpoints", interval=0.2)
    for name, address in endpoints().items():
        equal(body("http://%s:8080/name" % address).decode().strip(), name)
    gone = sorted(endpoints())[0]
    k.exec(gone, "rm", "/www/ready")
    wait_for(lambda: len(endpoints()) == 1 and gone not in endpoints(), "one endpoint", 30, interval=0.2)


# --- What interrupts the node -----------------------------------------------------------------------------------------------

@alone
def drain(k):
    k.apply(controller("Deployment", "web", app(1), replicas=3), controller("DaemonSet", "agent", app(1)),
            new_pod("single", container("main", STAY, volumeMounts=[mount("data", "/data")]), volumes=[{"name": "data", "emptyDir": {}}]))
    for name in "deployment/web", "daemonset/agent":
        k.rollout("status", name)
    k.ready("single")
    k.kubectl("drain", "node", "--force", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s", seconds=120)
    equal(k.get("pods/single"), {})
    wait_for(lambda: [p["status"]["phase"] for p in k.pods("web")] == ["Pending"] * 3, "three pods without a node", interval=0.2)
    equal([p["status"]["phase"] for p in k.pods("agent")], ["Running"])
    k.kubectl("uncordon", "node")
    k.rollout("status", "deployment/web")


def incarnations(k, *names):
    """IDs and restart counts of the containers of controllers' pods."""
    return sorted((c["containerID"], c["restartCount"]) for n in names for p in k.pods(n) for c in p["status"]["containerStatuses"])


@alone
def kubelet_is_restarted(k):
    """Containers keep running; the new kubelet sees which have ended in the meantime."""
    for number in signal.SIGTERM, signal.SIGKILL:
        name = signal.Signals(number).name.lower()
        k.apply(controller("Deployment", "stays-" + name, app(1), replicas=3),
                new_pod("ends-" + name, container("main", "until [ -f /out/%s ]; do sleep 0.1; done; echo over" % name, volumeMounts=OUT),
                        restartPolicy="Never", volumes=[k.out()]))
        k.rollout("status", "deployment/stays-" + name)
        k.ready("ends-" + name)
        before = incarnations(k, "stays-" + name)
        k.world.write("root/shared/%s/%s" % (k.name, name), "")
        k.cluster.restart_kubelet(number)
        k.ended("ends-" + name)
        equal(k.logs("ends-" + name), "over\n")
        k.apply(new_pod("new-" + name, container("main", STAY)))
        k.ready("new-" + name)
        equal(incarnations(k, "stays-" + name), before)


@alone
def runtime_is_killed_under_load(k):
    """Running containers continue, pending changes complete, and deleted pods go."""
    k.apply(controller("Deployment", "stays", app(1), replicas=3), controller("Deployment", "goes", app(1), replicas=3))
    for name in "stays", "goes":
        k.rollout("status", "deployment/" + name)
    before = incarnations(k, "stays")
    pod = k.pods("stays")[0]["metadata"]["name"]
    session = k.start("exec", "-i", pod, "--", "cat", stdin=subprocess.PIPE, bufsize=0)
    k.apply(controller("Deployment", "load", app(2), replicas=8), job("work", container("main", "sleep 1"), completions=8, parallelism=3, backoffLimit=20))
    k.kubectl("delete", "deployment", "goes", "--wait=false")
    for n in 1, 2, 4, 6, 8:
        wait_for(lambda: sum("ready" in first(p["status"]) for p in k.pods("load")) >= n, "%d pods under way" % n, 60, interval=0.05)
        echoes(session, n)
        k.cluster.restart_runtime(signal.SIGKILL)
        echoes(session, n)
    session.communicate(timeout=patience(30))
    equal(session.returncode, 0)
    k.rollout("status", "deployment/load")
    k.kubectl("wait", "--for=condition=complete", "job/work", "--timeout=180s", seconds=180)
    wait_for(lambda: not k.get("pods?labelSelector=app%3Dgoes")["items"], "the end of the pods that were deleted", 60, interval=0.2)
    equal(k.exec(pod, "cat", "/version"), "1\n")
    equal(incarnations(k, "stays"), before)


def echoes(session, n):
    """Sends a line to cat in an exec session, and expects it back."""
    line = b"line %d\n" % n
    session.stdin.write(line)
    true(select.select([session.stdout], [], [], patience(20))[0], "nothing comes back through 'kubectl exec'")
    equal(session.stdout.readline(), line, "what comes back through 'kubectl exec'")


@alone
def runtime_is_restarted(k):
    """Restarted in order, as by an upgrade of its package, while pods are started: none of them fails."""
    k.apply(controller("Deployment", "stays", app(1), replicas=2))
    k.rollout("status", "deployment/stays")
    before = incarnations(k, "stays")
    k.apply(controller("Deployment", "load", app(2), replicas=6))
    for n in 1, 4:
        wait_for(lambda: sum("ready" in first(p["status"]) for p in k.pods("load")) >= n, "%d pods under way" % n, 60, interval=0.05)
        k.cluster.restart_runtime(signal.SIGTERM)
    k.rollout("status", "deployment/load")
    equal(incarnations(k, "stays"), before)


# --- Running them -----------------------------------------------------------------------------------------------------------

def run_case(cluster, function):
    """Runs a case. Returns the kind of its line, the reason, the seconds, and details of a failure."""
    began, space, kind, why, more = time.monotonic(), None, "ok", "", []
    try:
        space = Space(cluster, function.__name__.replace("_", "-"))
        function(space)
    except Skip as e:
        kind, why = "skip", str(e)
    except Exception as e:
        kind, why = "not ok", str(e) if isinstance(e, Failure) else "%s: %s" % (type(e).__name__, e)
        more = space.report() if space else []
    try:
        if space:
            space.remove()
    except Exception as e:
        kind, why = "not ok", why or "its namespace: %s" % e
    return kind, why, time.monotonic() - began, more


def results(cluster, functions, side_by_side, until):
    """Yields each function with its result, as they end. A case that hangs does not delay the others, nor the end of all."""
    waiting, done = queue.SimpleQueue(), queue.SimpleQueue()

    def work():
        while True:
            try:
                function = waiting.get_nowait()
            except queue.Empty:
                return
            done.put((function, run_case(cluster, function)))
    for f in functions:
        waiting.put(f)
    for _ in range(side_by_side):
        threading.Thread(target=work, daemon=True).start()
    left = list(functions)
    while left:
        try:
            function, result = done.get(timeout=max(1, until - time.monotonic()))
        except queue.Empty:
            for function in left:
                yield function, ("not ok", "has not ended in time", 0, [])
            return
        left.remove(function)
        yield function, result


def remaining(world):
    """Pods, containers, mounts and addresses that still exist."""
    found = world.crictl("pods", "-q").split() + world.crictl("ps", "-a", "-q").split()
    with open("/proc/self/mounts") as f:
        found += [line.split()[1] for line in f if line.split()[1].startswith((world.path("store/"), world.path("root/pods/")))]
    with contextlib.suppress(FileNotFoundError):
        found += [name for name in os.listdir(world.path("ipam/conformance")) if name[0].isdigit()]
    return found


def nothing_is_left(world, count):
    """Checks that the node is empty after the namespaces were deleted."""
    try:
        wait_for(lambda: not remaining(world), lambda: "An empty node (%s)" % " ".join(remaining(world)), 90, interval=0.5)
        count.line("ok", "nothing_is_left")
    except Failure as e:
        count.line("not ok", "nothing_is_left", str(e))


def run(cluster, cases, count):
    until, took = time.monotonic() + patience(LIMIT), []
    together, single = [f for f in cases if not f.alone], [[f] for f in cases if f.alone]
    for functions in [together, *single]:
        for function, (kind, why, seconds, more) in results(cluster, functions, SIDE_BY_SIDE if functions is together else 1, until):
            name = function.__name__
            count.line(kind, name, why[:2000])
            took.append("%s %.0f" % (name, seconds))
            for line in more:
                print("        " + " ".join(line.split()), flush=True)
    nothing_is_left(cluster.world, count)
    print("Seconds: " + ", ".join(took))


def make_images(world):
    made = images.Images(world.path("layouts"), REGISTRY)
    made.add("busybox", "1", made.layer(), Cmd=["sh"])
    for version in "12":
        made.add("app", version, made.layer([("version", version.encode() + b"\n", 0o644)]), Cmd=["sh"])
    made.add("etcd", "1", made.layer([("etcd", images.read(world.bin + "/etcd"), 0o755)], shell=False), Entrypoint=["/etcd"])
    made.finish()


def serve_private_images(world):
    passwords = world.write("passwords", "someone:%s\n" % bcrypt("sesame-open"))
    world.start_registry("private", PRIVATE, auth={"htpasswd": {"realm": "private", "path": passwords}})
    world.write("config/registries.d/private.conf", '[[registry]]\nlocation = "%s"\ninsecure = true\n' % PRIVATE)


def main():
    p = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    p.add_argument("--only", default="*")
    p.add_argument("--gates", default="")
    a = p.parse_args()
    if not shutil.which("openssl"):
        skip("openssl is missing")
    enter(*PROGRAMS)
    count, began = Count(), time.monotonic()
    with World(*PROGRAMS) as world:
        world.serve_images([IMAGES])
        make_images(world)
        serve_private_images(world)
        cluster = Cluster(world, a.gates.split(",") if a.gates else [])
        world.start_runtime()
        with cluster:
            print("The node is ready after %.1f s" % (time.monotonic() - began), flush=True)
            run(cluster, [f for f in CASES if fnmatch.fnmatch(f.__name__, a.only)], count)
            if count.failed:
                print("\n".join(complaints(world)))
    print("All took %.0f s" % (time.monotonic() - began))
    return 1 if count.failed else 0


if __name__ == "__main__":
    sys.exit(main())
