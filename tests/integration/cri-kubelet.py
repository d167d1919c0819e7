#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The life of pods as the kubelet has it, call by call in its order; with the service killed between any two of them, and in the midst of
each."""

import itertools
import threading

from cri_client import *

LONG = os.environ.get("ACNSPAWN_TEST_LONG") == "1"
SERVE = "trap 'exit 0' TERM; touch /tmp/up; echo serving; while :; do sleep 0.05; done"
GRACE = 30


class Node:
    """The service, as the kubelet uses it: with KILLS it is killed before each call."""

    def __init__(self, host, service, kills=False):
        self.host, self.service, self.kills, self.n = host, service, kills, 0
        self.client = service.client()
        self.logs = host.path("logs")

    def restart(self):
        self.service.process.kill()
        self.service.process.wait(patience(60))
        self.again()

    def again(self):
        self.service.start()
        self.client.close()
        self.client = self.service.client()
        wait_for(lambda: answers(self.client), "a reply after the restart")

    def call(self, name, *request, **fields):
        self.n += 1
        if self.kills:
            self.restart()
        return self.client.call(name, *request, **fields)

    def status(self, container):
        return self.call("ContainerStatus", container_id=container).status

    def exec(self, container, *command):
        return self.call("ExecSync", messages().ExecSyncRequest(container_id=container, cmd=command, timeout=GRACE))

    def stop(self, container, seconds=GRACE):
        self.call("StopContainer", messages().StopContainerRequest(container_id=container, timeout=seconds))

    def wait_for_end(self, container):
        wait_for(lambda: self.status(container).state == 2, "the end of %s" % container)
        return self.status(container)


class KubePod:
    """A pod of the node: one sandbox at a time, and its containers by name."""

    def __init__(self, node, name, image_id):
        self.node, self.name, self.image, self.attempt, self.containers, self.config, self.sandbox = node, name, image_id, 0, {}, None, None

    def run_sandbox(self):
        directory = os.path.join(self.node.logs, "default_%s_u-%s" % (self.name, self.name))
        os.makedirs(directory, exist_ok=True)
        self.config = sandbox_config(name=self.name, uid="u-" + self.name, attempt=self.attempt, hostname=self.name, log_directory=directory,
                                     labels={"io.kubernetes.pod.name": self.name, "io.kubernetes.pod.uid": "u-" + self.name},
                                     linux={"security_context": {"namespace_options": {"network": 2, "pid": 1, "userns_options": {"mode": 2}}, "seccomp": {}},
                                            "overhead": {}, "resources": {"cpu_shares": 2}})
        self.sandbox = self.node.call("RunPodSandbox", config=self.config).pod_sandbox_id
        equal(self.node.call("PodSandboxStatus", pod_sandbox_id=self.sandbox).status.state, 0)

    def container(self, name, script, attempt=0, pid=1, target="", **more):
        os.makedirs(os.path.join(self.config["log_directory"], name), exist_ok=True)
        return container_config(name, self.image, script, attempt=attempt, log_path="%s/%d.log" % (name, attempt), **dict({"linux": {
            "resources": {"cpu_period": 100000, "cpu_shares": 2, "oom_score_adj": 1000, "hugepage_limits": [{"page_size": "2MB", "limit": 0}],
                          "unified": {"memory.swap.max": "0", "memory.oom.group": "1"}},
            "security_context": {"namespace_options": {"network": 2, "pid": pid, "target_id": target, "userns_options": {"mode": 2}}, "seccomp": {},
                                 "masked_paths": ["/proc/kcore"], "readonly_paths": ["/proc/sys"], "supplemental_groups": [0]}}}, **more))

    def start(self, name, script, **more):
        """As for each container: is its image there, then made, and started."""
        true(self.node.call("ImageStatus", image={"image": self.image}).image.id, "the image")
        a = self.node.call("CreateContainer", pod_sandbox_id=self.sandbox, config=self.container(name, script, **more),
                           sandbox_config=self.config).container_id
        self.node.call("StartContainer", container_id=a)
        self.containers[name] = a
        return a

    def log(self, name, attempt=0):
        return [line.split(" ", 3) for line in read_text("%s/%s/%d.log" % (self.config["log_directory"], name, attempt)).splitlines()]

    def end(self, seconds=GRACE):
        for a in self.containers.values():
            self.node.stop(a, seconds)
        self.node.call("StopPodSandbox", pod_sandbox_id=self.sandbox)

    def remove(self):
        for c in self.node.call("ListContainers", filter={"pod_sandbox_id": self.sandbox}).containers:
            self.node.call("RemoveContainer", container_id=c.id)
        self.node.call("RemovePodSandbox", pod_sandbox_id=self.sandbox)


def life(node, image_id):
    """Init containers, a sidecar, the main one with its probes and hooks, a crash, debugging, logs, resources, the end."""
    p = KubePod(node, "web", image_id)
    equal(node.call("Version", version="v1").runtime_name, "acnspawn")
    true(node.call("Status").status.conditions[0].status, "RuntimeReady")
    node.call("RuntimeConfig")
    node.call("UpdateRuntimeConfig", runtime_config={"network_config": {"pod_cidr": "10.0.0.0/24"}})
    p.run_sandbox()
    # Init containers one after the other; the second fails once.
    equal(node.wait_for_end(p.start("init-1", "echo first")).exit_code, 0)
    t = node.wait_for_end(p.start("init-2", "exit 3"))
    equal((t.exit_code, t.reason), (3, "Error"))
    equal(node.wait_for_end(p.start("init-2", "echo second", attempt=1)).reason, "Completed")
    equal([x[3] for x in p.log("init-2", 1)], ["second"])
    # A sidecar, with its startup probe; then the container, its hook, and its probes.
    sidecar = p.start("sidecar", SERVE)
    wait_for(lambda: node.exec(sidecar, "test", "-e", "/tmp/up").exit_code == 0, "the startup probe")
    main = p.start("main", SERVE)
    equal(node.exec(main, "sh", "-c", "touch /tmp/hook").exit_code, 0)
    wait_for(lambda: node.exec(main, "test", "-e", "/tmp/up", "-a", "-e", "/tmp/hook").exit_code == 0, "the readiness probe")
    equal(node.exec(main, "false").exit_code, 1)
    # The liveness probe has failed: the next attempt, and the one before the last is removed.
    for attempt in (1, 2):
        node.stop(main)
        before, main = main, p.start("main", SERVE, attempt=attempt)
        equal(node.status(before).state, 2)
        node.call("RemoveContainer", container_id=before)
    equal(sorted((c.metadata.name, c.metadata.attempt) for c in node.call("ListContainers", filter={"pod_sandbox_id": p.sandbox}).containers),
          [("init-1", 0), ("init-2", 0), ("init-2", 1), ("main", 2), ("sidecar", 0)])
    # A debug container among the processes of another one.
    debug = p.start("debug", "ps; readlink /proc/1/root; kill -0 1 && echo sees", pid=3, target=main)
    equal(node.wait_for_end(debug).exit_code, 0)
    contains("\n".join(x[3] for x in p.log("debug")), "sees")
    # The log is rotated, and resources are what they are.
    log = "%s/main/2.log" % p.config["log_directory"]
    wait_for(lambda: os.path.exists(log) and "serving" in read_text(log), "the log")
    os.rename(log, log + ".1")
    node.call("ReopenContainerLog", container_id=main)
    true(os.path.exists(log), "the new log")
    resources = node.status(main).resources.linux
    node.call("UpdatePodSandboxResources", pod_sandbox_id=p.sandbox, resources={"cpu_shares": 4})
    node.call("UpdateContainerResources", container_id=main, linux=resources)
    equal(node.status(main).resources.linux, resources)
    node.call("ListPodSandboxStats")
    node.call("ListContainerStats")
    # The sandbox dies: another one with the next attempt, and all containers anew.
    os.kill(node.host.supervisor("%s-%s-%s-%s-%s" % (p.sandbox[:8], p.sandbox[8:12], p.sandbox[12:16], p.sandbox[16:20], p.sandbox[20:32])), 9)
    wait_for(lambda: node.call("PodSandboxStatus", pod_sandbox_id=p.sandbox).status.state == 1, "the end of the sandbox")
    dead = KubePod(node, "web", image_id)
    dead.sandbox, dead.config = p.sandbox, p.config
    node.call("StopPodSandbox", pod_sandbox_id=dead.sandbox)
    p.containers, p.attempt = {}, 1
    p.run_sandbox()
    main = p.start("main", SERVE)
    dead.remove()
    # Images: unused ones go, those that are used do not.
    true(image_id in [x.id for x in node.call("ListImages").images], "the image")
    true(node.call("ImageFsInfo").image_filesystems, "file systems")
    try:
        node.call("RemoveImage", image={"image": image_id})
        fail("an image that is in use was removed")
    except grpc.RpcError as e:
        contains(e.details(), "is needed by the pod")
    # The end, with its hook; all calls may be repeated.
    equal(node.exec(main, "sh", "-c", "echo bye").stdout, b"bye\n")
    for _ in range(2):
        p.end()
    equal([s.state for s in node.call("ListPodSandbox").items], [1])
    for _ in range(2):
        p.remove()
    equal((len(node.call("ListPodSandbox").items), len(node.call("ListContainers").containers)), (0, 0))
    node.call("RemoveImage", image={"image": image_id})
    equal(len(node.call("ListImages").images), 0)


@case
def a_pods_life(host):
    with Service(host) as s:
        life(Node(host, s), image(host))


@case
def a_pods_life_with_a_service_that_is_killed_before_each_call(host):
    with Service(host) as s:
        node = Node(host, s, kills=True)
        life(node, image(host))
        true(node.n > 80, "%d calls" % node.n)


def interrupted(node, name, pause, *request, **fields):
    """Begins the call, and kills the service when it has worked on it for a while. Returns whether the call was done before."""
    call = node.client.method(name).future(*request or [node.client.types(name)[0](**fields)], timeout=60)
    wait_for(lambda: call.done() or node.service.children(), "the begin of " + name)
    time.sleep(pause)  # any time
    node.service.process.kill()
    node.service.process.wait(patience(60))
    wait_for(call.done, "the end of " + name)
    node.again()
    return call.code() == grpc.StatusCode.OK


@case
def the_service_is_killed_in_the_midst_of_each_call(host):
    with Service(host) as s:
        node, image_id = Node(host, s), image(host)
        attempts = itertools.count()
        for pause in (0, 0.004, 0.02, 0.08):
            p = KubePod(node, "web", image_id)
            p.attempt = next(attempts)
            p.run_sandbox()
            p.end()
            p.remove()
            # What is listed is what there is, and another attempt is possible.
            p.attempt = next(attempts)
            interrupted(node, "RunPodSandbox", pause, config=dict(p.config, metadata=dict(p.config["metadata"], attempt=p.attempt)))
            for x in node.call("ListPodSandbox").items:
                node.call("StopPodSandbox", pod_sandbox_id=x.id)
                node.call("RemovePodSandbox", pod_sandbox_id=x.id)
            equal(len(node.call("ListPodSandbox").items), 0)
            p.attempt = next(attempts)
            p.run_sandbox()
            config = p.container("main", SERVE)
            interrupted(node, "CreateContainer", pause, pod_sandbox_id=p.sandbox, config=config, sandbox_config=p.config)
            ids = lambda: [x.id for x in node.call("ListContainers").containers]
            # The supervisor completes what it has begun.
            a = wait_for(lambda: ids() or create_again(node, p, config), "the container")
            a = a[0]
            interrupted(node, "StartContainer", pause, container_id=a)
            if node.status(a).state == 0:
                with contextlib.suppress(grpc.RpcError): # it starts already
                    node.call("StartContainer", container_id=a)
            wait_for(lambda: node.status(a).state == 1, "the start of the container")
            interrupted(node, "ExecSync", pause, messages().ExecSyncRequest(container_id=a, cmd=["sleep", "1000"]))
            wait_for(lambda: b"sleep\n1000" not in node.exec(a, "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'").stdout, "the end of the command")
            interrupted(node, "StopContainer", pause, messages().StopContainerRequest(container_id=a, timeout=GRACE))
            node.stop(a)
            equal((node.status(a).state, node.status(a).exit_code), (2, 0))
            interrupted(node, "RemoveContainer", pause, container_id=a)
            node.call("RemoveContainer", container_id=a)
            equal(ids(), [])
            interrupted(node, "StopPodSandbox", pause, pod_sandbox_id=p.sandbox)
            node.call("StopPodSandbox", pod_sandbox_id=p.sandbox)
            interrupted(node, "RemovePodSandbox", pause, pod_sandbox_id=p.sandbox)
            node.call("RemovePodSandbox", pod_sandbox_id=p.sandbox)
            equal(len(node.call("ListPodSandbox").items), 0)


def create_again(node, p, config):
    with contextlib.suppress(grpc.RpcError): # the first request is carried out meanwhile
        return [node.call("CreateContainer", pod_sandbox_id=p.sandbox, config=config, sandbox_config=p.config).container_id]


@case
@with_timeout(1200 if LONG else CASE_TIMEOUT)
def pods_come_and_go(host):
    """Several at once, under a client that polls lists and statuses, as static pods whose files change; then all of them, as when a node is
    drained."""
    workers, until, rounds = (10, time.monotonic() + 600, 1000) if LONG else (4, time.monotonic() + 3600, 2)
    if LONG and int(read_text("/proc/sys/fs/inotify/max_user_instances")) < 1024: # the package raises it; a pod takes three
        raise Skip("100 pods take more inotify instances than fs.inotify.max_user_instances allows here")
    errors, done = [], threading.Event()

    def guarded(function):
        def run():
            try:
                function()
            except Exception as e:
                errors.append(e)
        return run

    def descriptors():
        return len(os.listdir("/proc/%d/fd" % s.process.pid))

    def memory():
        """Without pages of files, in KiB; all of them, as those that are shared with a process of a call are the daemon's."""
        return int(re.search(r"^RssAnon:\s*(\d+)", read_text("/proc/%d/status" % s.process.pid), re.M).group(1))

    with Service(host) as s:
        node, image_id = Node(host, s), image(host)
        node.call("Version")
        before, samples = descriptors(), []

        def poll():
            while not done.wait(0.05):
                for x in node.client.call("ListPodSandbox").items:
                    with contextlib.suppress(grpc.RpcError): # it may have gone
                        node.client.call("PodSandboxStatus", pod_sandbox_id=x.id)
                node.client.call("ListContainers")

        def churn(n):
            for k in range(rounds):
                pods = [KubePod(node, "static-%d-%d" % (n, j), image_id) for j in range(10 if LONG else 1)]
                for p in pods:
                    p.attempt = k
                    p.run_sandbox()
                    p.start("main", SERVE)
                    equal(node.exec(p.containers["main"], "true").exit_code, 0)
                for p in pods:
                    p.end(0 if k % 2 else GRACE) # every other one is evicted
                    p.remove()
                if n == 0:
                    samples.append(memory())
                if time.monotonic() > until:
                    return

        poller = threading.Thread(target=guarded(poll))
        threads = [threading.Thread(target=guarded(functools.partial(churn, n))) for n in range(workers)]
        poller.start()
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        pods = [KubePod(node, "drained-%d" % n, image_id) for n in range(4)]
        for p in pods:
            p.run_sandbox()
            p.start("main", SERVE)
        threads = [threading.Thread(target=guarded(lambda p=p: (p.end(), p.remove()))) for p in pods]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        done.set()
        poller.join()
        equal(errors, [])
        equal((len(node.call("ListPodSandbox").items), len(node.call("ListContainers").containers)), (0, 0))
        wait_for(lambda: descriptors() <= before and not s.children(), "the daemon without descriptors and processes of pods that have gone")
        if LONG:
            true(memory() < samples[0] + 4096, "memory of the daemon, in KiB, has not grown from %s to %d" % (samples, memory()))


if __name__ == "__main__":
    main_of_cri()
