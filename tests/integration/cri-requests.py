#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a kubelet 1.36 has sent for eight static pods, request by request: cri-requests.jsonl, in which @KUBELET@ stands for its
directory."""

from cri_client import *

RECORDED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cri-requests.jsonl")


def recorded(host):
    with open(RECORDED) as f:
        for line in f:
            r = json.loads(line.replace("@KUBELET@", host.path("kubelet")))
            yield r["call"], r["request"], r.get("response", {})


def make_source(path):
    """The kubelet makes the sources of mounts; those of two kinds are files."""
    if not os.path.exists(path):
        directory = path if "/volumes/" in path or path.endswith("/shared") else os.path.dirname(path)
        os.makedirs(directory, exist_ok=True)
        if directory != path:
            open(path, "w").close()


@contextlib.contextmanager
def shared_mount(path):
    """The directory of a volume whose mounts are passed on both ways."""
    os.makedirs(path)
    subprocess.run(["mount", "--bind", path, path], check=True)
    try:
        subprocess.run(["mount", "--make-shared", path], check=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


class Replay:
    """The identifiers of a record, and ours in their place."""

    def __init__(self, host, client, image_id):
        self.host, self.client, self.image, self.ids, self.logs, self.started = host, client, image_id, {}, {}, []

    def send(self, call, request):
        import google.protobuf.json_format
        kind, _ = self.client.types(call)
        return self.client.call(call, google.protobuf.json_format.ParseDict(request, kind(), ignore_unknown_fields=True))

    def run_sandbox(self, request, recorded_id):
        """Cgroups are the kubelet's, and a network takes plugins: cri-resources.py and cri-network.py have these."""
        config = request["config"]
        config["linux"].pop("cgroup_parent", None)
        config.pop("port_mappings", None)
        config["linux"]["security_context"]["namespace_options"]["network"] = "NODE"
        os.makedirs(config["log_directory"], exist_ok=True)
        self.ids[recorded_id] = self.send("RunPodSandbox", request).pod_sandbox_id
        self.logs[recorded_id] = config["log_directory"]

    def create(self, request, recorded_id):
        config = request["config"]
        os.makedirs(os.path.dirname(os.path.join(self.logs[request["pod_sandbox_id"]], config["log_path"])), exist_ok=True)
        for mount in config["mounts"]:
            make_source(mount["host_path"])
        request["pod_sandbox_id"] = self.ids[request["pod_sandbox_id"]]
        config["image"]["image"] = self.image
        config["linux"]["security_context"]["namespace_options"]["network"] = "NODE"
        request["sandbox_config"]["linux"].pop("cgroup_parent", None)
        self.ids[recorded_id] = self.send("CreateContainer", request).container_id

    def start(self, request):
        a = self.ids[request["container_id"]]
        self.client.call("StartContainer", container_id=a)
        self.started.append(a)

    def termination_message(self, a):
        """What a command in the container writes for the kubelet, and what that reads; None: the container has ended."""
        source = next(m.host_path for m in status(self.client, a).mounts if m.container_path == "/dev/termination-log")
        try:
            r = self.client.call("ExecSync", container_id=a, cmd=["/bin/sh", "-c", "echo %s >/dev/termination-log" % a])
        except grpc.RpcError:
            equal(state(self.client, a), "EXITED")
            return None
        equal((r.exit_code, r.stderr), (0, b""))
        return read_text(source)


@case
def static_pods(host):
    with shared_mount(host.path("kubelet/root/shared")), Service(host) as s:
        c = s.client()
        replay = Replay(host, c, image(host))
        for call, request, response in recorded(host):
            if call == "RunPodSandbox":
                replay.run_sandbox(request, response["pod_sandbox_id"])
            elif call == "CreateContainer":
                replay.create(request, response["container_id"])
            elif call == "StartContainer":
                replay.start(request)
        equal((len(replay.started), len(sandboxes(c))), (15, 8), "containers and sandboxes")
        running = 0
        for a in replay.started:
            text = replay.termination_message(a)
            true(text in (None, a + "\n"), text)
            running += text is not None
        true(running >= 7, "containers that run: %d" % running)
        remove(c, *(i for i, _ in sandboxes(c)))


@case
def many_connections(host):
    """Clients keep theirs, and there are many on a node: each has an answer, and another one after all of the others."""
    with Service(host) as s:
        clients = [s.client() for _ in range(200)]
        for n, c in enumerate(clients):
            c.channel = grpc.insecure_channel("unix:" + s.path, options=[("grpc.use_local_subchannel_pool", 1), ("n", n)])
            equal(c.call("Version").runtime_name, "acnspawn")
        for c in clients:
            c.call("Version")


if __name__ == "__main__":
    main_of_cri()
