# SPDX-License-Identifier: LGPL-2.1-or-later
"""A Kubernetes of one node: etcd, API server, controller manager, scheduler, and a kubelet on acnspawn-cri; and the namespace of a case,
which kubectl works in.

Cases poll states directly from the API server, and change objects only by kubectl."""

import contextlib
import json
import os
import secrets
import signal
import ssl
import subprocess
import types
import urllib.error
import urllib.request

from conformance import NODE_ADDRESS
from harness import equal, fail, wait_for
from kubelet import complaints, configuration, describe, is_settled, prepare_kubelet, start_kubelet
from pace import patience
from terminals import Terminal

PROGRAMS = ("crictl", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kubelet")
API = "https://127.0.0.1:6443"
ETCD = "http://127.0.0.1:2379"
PEERS = "http://127.0.0.1:2380"


# For cases that wait for a restart or a rotation of logs.
QUICK = {"containerLogMaxSize": "256Ki", "containerLogMonitorInterval": "3s", "crashLoopBackOff": {"maxContainerRestartPeriod": "3s"}}


class Cluster:
    def __init__(self, world, gates, settings=QUICK):
        self.settings = settings
        self.gates = dict({name: True for name in gates}, KubeletInUserNamespace=True)
        self.world, self.children, self.kubelet, self.ends = world, [], None, False
        self.token = secrets.token_hex(16)
        self.tls = ssl._create_unverified_context()
        config = {"apiVersion": "v1", "kind": "Config", "current-context": "c",
                  "clusters": [{"name": "c", "cluster": {"server": API, "insecure-skip-tls-verify": True}}],
                  "users": [{"name": "u", "user": {"token": self.token}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}
        os.environ["KUBECONFIG"] = world.write("kubeconfig", json.dumps(config))
        os.environ["HOME"] = world.dir  # for the cache of kubectl

    # --- Its processes ------------------------------------------------------------------------------------------------------

    def __enter__(self):
        try:
            self.start_api()
            self.start_controllers()
            prepare_kubelet(self.world)
            self.start_kubelet()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception):
        """Kills the servers, whose data is not needed any more. World removes the pods."""
        self.ends = True
        for p in list(self.children):
            if p.poll() is None:
                p.kill()
                p.wait()
        for p in reversed(self.processes):
            if p in self.world.processes:
                self.world.stop(p, signal.SIGTERM if p is self.kubelet else signal.SIGKILL)

    def start(self, name, *options):
        self.processes.append(self.world.start(name, self.world.bin + "/" + name, *options, cwd=self.world.dir))

    def start_api(self):
        path, self.processes = self.world.path, []
        self.start("etcd", "--data-dir=" + path("etcd"), "--listen-client-urls=" + ETCD, "--advertise-client-urls=" + ETCD, "--unsafe-no-fsync",
                   "--listen-peer-urls=" + PEERS, "--initial-advertise-peer-urls=" + PEERS, "--initial-cluster=default=" + PEERS)
        subprocess.run(["openssl", "genrsa", "-out", path("accounts.key"), "2048"], check=True, stderr=subprocess.DEVNULL)
        self.world.write("tokens.csv", '%s,admin,admin,"system:masters"\n' % self.token)
        self.start("kube-apiserver", "--etcd-servers=" + ETCD, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=6443",
                   "--cert-dir=" + path("api-pki"), "--service-cluster-ip-range=10.96.0.0/24", "--service-account-issuer=https://localhost",
                   "--service-account-key-file=" + path("accounts.key"), "--service-account-signing-key-file=" + path("accounts.key"),
                   "--authorization-mode=AlwaysAllow", "--token-auth-file=" + path("tokens.csv"), "--allow-privileged=true",
                   "--disable-admission-plugins=TaintNodesByCondition", "--kubelet-preferred-address-types=InternalIP",
                   "--endpoint-reconciler-type=none", "--v=1")
        wait_for(lambda: self.request("/readyz") == b"ok", "the API server", 60, interval=0.2)

    def start_controllers(self):
        path = self.world.path
        common = ("--kubeconfig=" + os.environ["KUBECONFIG"], "--leader-elect=false", "--bind-address=127.0.0.1", "--kube-api-qps=200", "--kube-api-burst=300")
        self.start("kube-controller-manager", *common, "--service-account-private-key-file=" + path("accounts.key"),
                   "--root-ca-file=" + path("api-pki/apiserver.crt"), "--cert-dir=" + path("controllers-pki"))
        self.start("kube-scheduler", *common, "--cert-dir=" + path("scheduler-pki"))

    def start_kubelet(self):
        settings = configuration(self.world, address=NODE_ADDRESS, registerNode=True, featureGates=self.gates, **self.settings)
        self.kubelet = start_kubelet(self.world, settings, "--kubeconfig=" + os.environ["KUBECONFIG"])
        self.processes.append(self.kubelet)
        wait_for(self.node_is_ready, "the node", 60, interval=0.2)

    def node_is_ready(self):
        if self.kubelet.poll() is not None:
            fail("The kubelet has ended with status %d: %s" % (self.kubelet.returncode, "\n".join(complaints(self.world)[-3:])))
        conditions = self.get("/api/v1/nodes/node").get("status", {}).get("conditions", [])
        return any((c["type"], c["status"]) == ("Ready", "True") for c in conditions)

    def restart_kubelet(self, number):
        """The node stays "Ready" for a while without a kubelet: waits for a heartbeat of the new one."""
        self.world.stop(self.kubelet, number)
        renewed = self.heartbeat()
        self.start_kubelet()
        wait_for(lambda: self.heartbeat() != renewed, "the kubelet's word about its node", 60, interval=0.2)

    def heartbeat(self):
        return self.get("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node").get("spec", {}).get("renewTime")

    def restart_runtime(self, number):
        self.world.stop(self.world.runtime, number)
        self.world.start_runtime()

    # --- Its clients --------------------------------------------------------------------------------------------------------

    def request(self, path):
        q = urllib.request.Request(API + path, headers={"Authorization": "Bearer " + self.token})
        try:
            with urllib.request.urlopen(q, timeout=10, context=self.tls) as f:
                return f.read()
        except OSError:  # including requests that the server refuses
            return b""

    def get(self, path):
        """An object, or {} if it does not exist."""
        return json.loads(self.request(path) or b"{}")

    def start_kubectl(self, *arguments, **more):
        """Starts kubectl in the background; __exit__() kills it."""
        if self.ends:
            fail("The cluster ends")
        p = subprocess.Popen([self.world.bin + "/kubectl", *arguments], stdout=subprocess.PIPE, **more)
        self.children.append(p)
        return p

    def kubectl(self, *arguments, status=0, input=None, seconds=60, text=True, **more):
        p = self.start_kubectl(*arguments, stdin=subprocess.DEVNULL if input is None else subprocess.PIPE, stderr=subprocess.PIPE, text=text, **more)
        try:
            out, err = p.communicate(input, timeout=patience(seconds))
        except subprocess.TimeoutExpired:
            p.kill()
            out, err = p.communicate()
            fail("kubectl %s has not ended within %d s: %s" % (" ".join(arguments), patience(seconds), err or out))
        finally:
            self.children.remove(p)
        if status is not None and p.returncode != status:
            fail("kubectl %s ended with status %d: %s" % (" ".join(arguments), p.returncode, (err or out)[-1000:]))
        return subprocess.CompletedProcess(arguments, p.returncode, out, err)


def field(name, path):
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def new_pod(name, *containers, labels=None, **spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels or {}},
            "spec": dict({"terminationGracePeriodSeconds": 5, "containers": containers}, **spec)}


def controller(kind, name, *containers, pod=None, version="apps/v1", **spec):
    """A Deployment, StatefulSet or DaemonSet. POD is merged into the spec of its pods."""
    template = new_pod("", *containers, labels={"app": name}, **(pod or {}))
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": dict({
        "selector": {"matchLabels": {"app": name}}, "template": {"metadata": {"labels": {"app": name}}, "spec": template["spec"]}}, **spec)}


def job(name, *containers, pod=None, **spec):
    template = new_pod("", *containers, **dict({"restartPolicy": "Never"}, **(pod or {})))["spec"]
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": dict({"template": {"spec": template}}, **spec)}


class Space:
    """A namespace, and a directory that its pods can mount."""

    def __init__(self, cluster, name):
        self.cluster, self.name, self.world = cluster, name, cluster.world
        self.dir = os.path.join(self.world.path("root/shared"), name)
        os.mkdir(self.dir)
        cluster.kubectl("create", "namespace", name)
        for needed in "serviceaccounts/default", "configmaps/kube-root-ca.crt":
            wait_for(lambda: self.get(needed), needed, 30, interval=0.1)

    def remove(self):
        self.cluster.kubectl("delete", "namespace", self.name, "--wait=false")

    def out(self):
        """A volume of the directory."""
        return {"name": "out", "hostPath": {"path": self.dir}}

    def lines(self, file):
        """The lines of a file that pods write in the directory."""
        try:
            with open(os.path.join(self.dir, file)) as f:
                return f.read().splitlines()
        except FileNotFoundError:
            return []

    def kubectl(self, *arguments, **more):
        return self.cluster.kubectl("--namespace=" + self.name, *arguments, **more)

    def start(self, *arguments, **more):
        """Starts kubectl in the background."""
        streams = dict({"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT}, **more)
        return self.cluster.start_kubectl("--namespace=" + self.name, *arguments, **streams)

    def terminal(self, *arguments):
        return Terminal(types.SimpleNamespace(children=self.cluster.children), argv=[self.world.bin + "/kubectl", "--namespace=" + self.name, *arguments])

    def apply(self, *objects):
        self.kubectl("apply", "--validate=false", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def get(self, path, group="api/v1"):
        return self.cluster.get("/%s/namespaces/%s/%s" % (group, self.name, path))

    def exec(self, pod, *command):
        return self.kubectl("exec", pod, "--", *command).stdout

    def logs(self, *arguments):
        return self.kubectl("logs", *arguments).stdout

    def status(self, pod):
        return self.get("pods/" + pod).get("status", {})

    def pods(self, app):
        """The pods of a controller, except those that are being deleted."""
        items = self.get("pods?labelSelector=app%3D" + app).get("items", [])
        return [p for p in items if "deletionTimestamp" not in p["metadata"]]

    def wait(self, pod, done, what, seconds=60):
        """Waits until DONE(status) is true, and returns the status of the pod."""
        def look():
            status = self.status(pod)
            return status if done(status) else None
        return wait_for(look, lambda: "'%s' of pod %s (%s)" % (what, pod, describe(self.status(pod))), seconds, interval=0.2)

    def ready(self, pod, seconds=60):
        status = self.wait(pod, is_settled, "ready", seconds)
        equal(status["phase"], "Running", "phase of pod " + pod)
        return status

    def ended(self, pod, phase="Succeeded", seconds=60):
        status = self.wait(pod, lambda s: s.get("phase") in ("Succeeded", "Failed"), "ended", seconds)
        if status["phase"] != phase:
            fail("Pod %s is %s" % (pod, describe(status)))
        return status

    def waiting(self, pod, *reasons, seconds=60):
        """Waits until the first container is waiting for one of REASONS, and returns its status."""
        def reason(status):
            return first(status).get("state", {}).get("waiting", {}).get("reason")
        return first(self.wait(pod, lambda s: reason(s) in reasons, " or ".join(reasons), seconds))

    def event(self, reason):
        def look():
            items = self.get("events?fieldSelector=reason%3D" + reason).get("items", [])
            return items[0]["message"] if items else None
        return wait_for(look, "the event " + reason, 30, interval=0.2)

    def rollout(self, *arguments):
        return self.kubectl("rollout", *arguments, "--timeout=%ds" % patience(60), seconds=90) if arguments[0] == "status" else self.kubectl("rollout", *arguments)

    def report(self):
        """Lines about pods and events, for a failure."""
        with contextlib.suppress(Exception):
            lines = ["pod %s: %s" % (p["metadata"]["name"], describe(p["status"])) for p in self.get("pods").get("items", [])]
            events = sorted(self.get("events").get("items", []), key=lambda e: e.get("lastTimestamp") or "")
            return lines + ["event %s %s: %s" % (e["involvedObject"]["name"], e["reason"], e["message"][:300]) for e in events[-12:]]
        return []


def first(status):
    return (status.get("containerStatuses") or [{}])[0]
