# SPDX-License-Identifier: LGPL-2.1-or-later
"""A client of the CRI: gRPC for Python and the messages of cri/runtime.proto, which are compiled for it; and
acnspawn-cri, as a process of a case."""

import importlib
import os
import sys
import tempfile

DEBIAN_PYTHON = "/usr/bin/python3"

try:
    import grpc
    import google.protobuf
except ImportError:
    # Debian's packages are those of Debian's Python, which need not be the first in the path.
    if os.path.exists(DEBIAN_PYTHON) and os.path.realpath(sys.executable) != os.path.realpath(DEBIAN_PYTHON):
        os.execv(DEBIAN_PYTHON, [DEBIAN_PYTHON] + sys.argv)
    grpc = None

from harness import *

# Where this process has forked, which must not happen: see take_ignored_signals().
forks = []
if grpc is not None:
    os.register_at_fork(before=lambda: forks.append("".join(traceback.format_stack(limit=4))))

SCHEMA = os.environ.get("ACNSPAWN_TEST_SCHEMA") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../cri/runtime.proto")
PROGRAM = os.environ.get("ACNSPAWN_CRI") or os.path.join(os.path.dirname(os.path.dirname(ACNSPAWN)), "cri/acnspawn-cri")


def missing():
    """Why nothing here can be run, or None."""
    if grpc is None:
        return "Python has no gRPC (Debian packages python3-grpcio, python3-protobuf)"
    if not shutil.which("protoc"):
        return "protoc is missing (Debian package protobuf-compiler)"
    return None if os.path.exists(PROGRAM) else "acnspawn-cri is not built (libprotobuf-c-dev, protobuf-c-compiler)"


def main_of_cri():
    if missing():
        print("SKIP: " + missing())
        sys.exit(77)
    main()


@functools.lru_cache()
def messages():
    """The module of the messages. It is loaded before its directory goes."""
    with tempfile.TemporaryDirectory() as d:
        subprocess.run(["protoc", "--proto_path=" + os.path.dirname(SCHEMA), "--python_out=" + d, SCHEMA], check=True)
        sys.path.insert(0, d)
        try:
            return importlib.import_module("runtime_pb2")
        finally:
            sys.path.remove(d)


class Client:
    """call("Version", version="v1"): the methods of both services, by their names."""

    def __init__(self, path):
        self.channel = grpc.insecure_channel("unix:" + path, options=[("grpc.max_receive_message_length", 16 << 20)])
        self.methods = {}
        for service in messages().DESCRIPTOR.services_by_name.values():
            for m in service.methods:
                self.methods[m.name] = ("/%s/%s" % (service.full_name, m.name), m)

    def types(self, name):
        _, m = self.methods[name]
        return getattr(messages(), m.input_type.name), getattr(messages(), m.output_type.name)

    def method(self, name, stream=False):
        request, reply = self.types(name)
        make = self.channel.unary_stream if stream else self.channel.unary_unary
        return make(self.methods[name][0], request_serializer=request.SerializeToString, response_deserializer=reply.FromString)

    def call(self, name, *request, timeout=patience(60), **fields):
        return self.method(name)(*request or [self.types(name)[0](**fields)], timeout=timeout)

    def begin(self, name, timeout=patience(60), **fields):
        """A call that goes on: a future."""
        return self.method(name).future(self.types(name)[0](**fields), timeout=timeout)

    def stream(self, name, timeout=patience(60), **fields):
        return list(self.method(name, stream=True)(self.types(name)[0](**fields), timeout=timeout))

    def refused(self, name, **fields):
        """(status, message) of a call that fails."""
        try:
            reply = self.call(name, **fields)
        except grpc.RpcError as e:
            return e.code().name, e.details()
        fail("%s did not fail: %s" % (name, reply))

    def close(self):
        self.channel.close()


class Service:
    """acnspawn-cri with the store of the case."""

    def __init__(self, host, *options, env=None):
        self.host, self.path = host, host.path("cri.sock")
        self.conf, self.config = host.path("cni/net.d"), host.path("cri-config")
        os.makedirs(self.conf, exist_ok=True)
        os.makedirs(self.config, exist_ok=True)
        self.options = ["--socket=" + self.path, "--dir=" + host.dir, "--config-dir=" + self.config,
                        "--cni-conf-dir=" + self.conf, *options]
        self.env = env or {}
        self.clients = []
        self.expected = []  # parts of warnings that the case expects
        with contextlib.suppress(FileNotFoundError):
            os.unlink(host.path("cri-errors"))  # of an earlier one of this Host
        self.start()

    def start(self):
        self.errors = open(self.host.path("cri-errors"), "ab")
        self.process = subprocess.Popen([PROGRAM, *self.options], env=dict(os.environ, **self.env), stdin=subprocess.DEVNULL,
                                        stdout=self.errors, stderr=self.errors)
        wait_for(lambda: self.listens() or self.process.poll() is not None, "start of acnspawn-cri")
        if self.process.poll() is not None:
            fail("acnspawn-cri has ended: " + self.said())

    def listens(self):
        import socket
        with socket.socket(socket.AF_UNIX) as s:
            return s.connect_ex(self.path) == 0

    def said(self):
        return read_text(self.host.path("cri-errors"))

    def client(self):
        c = Client(self.path)
        self.clients.append(c)
        return c

    def children(self):
        return read_text("/proc/%d/task/%d/children" % (self.process.pid, self.process.pid)).split()

    def stop(self):
        for c in self.clients:
            c.close()
        self.clients = []
        if self.process.poll() is None:
            self.process.terminate()
        rc = self.process.wait(patience(60))
        self.errors.close()
        return rc

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        ended = self.process.poll()
        rc = self.stop()
        if exception[0] is not None:
            print("# acnspawn-cri %s, and wrote: %s" % ("ran" if ended is None else "had ended with %d" % ended, self.said() or "nothing"))
        else:
            said = [l for l in self.said().splitlines() if not any(w in l for w in self.expected)]
            equal((rc, said), (0, []), "exit status of acnspawn-cri, and what it wrote")
            equal(forks, [], "places where a process with gRPC has forked")


# Network plugins.

def plugin(host, script):
    """Makes a network plugin, "own". Returns its directory."""
    directory = host.path("plugins")
    os.mkdir(directory)
    with open(directory + "/own", "w") as f:
        f.write(script)
    os.chmod(directory + "/own", 0o755)
    return directory


def configure(directory, name, file="10-net.conflist"):
    """Makes a network of that plugin."""
    with open(os.path.join(directory, file), "w") as f:
        json.dump({"cniVersion": "1.0.0", "name": name, "plugins": [{"type": "own"}]}, f)


# Sandboxes and containers.

SLEEP = "trap 'exit 0' TERM; while :; do sleep 0.05; done"


def sandbox_config(name="web", uid="u1", attempt=0, **more):
    config = {"metadata": {"name": name, "namespace": "default", "uid": uid, "attempt": attempt},
              "labels": {"app": name}, "annotations": {"note": "x"},
              "linux": {"security_context": {"namespace_options": {"network": 2}}}}
    config.update(more)
    return config


def run_sandbox(client, **config):
    return client.call("RunPodSandbox", config=sandbox_config(**config)).pod_sandbox_id


def uuid_of(sandbox):
    """Of its pod."""
    return "%s-%s-%s-%s-%s" % (sandbox[:8], sandbox[8:12], sandbox[12:16], sandbox[16:20], sandbox[20:32])


def image(host):
    """The ID of an image in the store, with a shell."""
    return host.acnspawn("fetch", host.image(name="example.com/app")).expect(0).out.strip()


def container_config(name, image, script, attempt=0, **more):
    config = {"metadata": {"name": name, "attempt": attempt}, "image": {"image": image},
              "command": ["/bin/sh", "-c", script], "labels": {"c": name}}
    config.update(more)
    return config


def create(client, sandbox, *args, **more):
    return client.call("CreateContainer", pod_sandbox_id=sandbox, config=container_config(*args, **more)).container_id


def status(client, container):
    return client.call("ContainerStatus", container_id=container).status


def stop(client, container, seconds):
    """The field has the name of the client's own time-out."""
    client.call("StopContainer", messages().StopContainerRequest(container_id=container, timeout=seconds))


def state(client, container):
    return messages().ContainerState.Name(status(client, container).state)[len("CONTAINER_"):]


def sandboxes(client, **f):
    return [(s.id, messages().PodSandboxState.Name(s.state)[len("SANDBOX_"):])
            for s in client.call("ListPodSandbox", filter=f).items]


def answers(client):
    try:
        return client.call("Version")
    except grpc.RpcError as e:
        equal(e.code().name, "UNAVAILABLE")


def remove(client, *ids):
    for i in ids:
        client.call("StopPodSandbox", pod_sandbox_id=i)
        client.call("RemovePodSandbox", pod_sandbox_id=i)
