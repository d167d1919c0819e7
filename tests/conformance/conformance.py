# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the programs of this directory have in common: namespaces of their own, a registry, acnspawn-cri, and the lines that they print.

A program runs in mount and network namespaces of its own, which the kernel removes: lo, and an address of the node on an
interface without a neighbour. The registry is on loopback, as a mirror of the registries in the names of the images."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid

from images import DEBIAN  # of this directory: that of the integration tests has a program of that name

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../integration"))

from pace import patience

PROGRAM = os.environ.get("ACNSPAWN_CRI", os.path.join(HERE, "../../build/check/gcc/cri/acnspawn-cri"))
REGISTRY = "127.0.0.1:5000"
NODE_ADDRESS = "10.77.0.1"
INSIDE = "ACNSPAWN_TEST_INSIDE"


def skip(why):
    print("skip all: " + why)
    sys.exit(0)


def enter(*needed):
    """Re-executes this program in namespaces of its own, or skips it. Builds the programs NEEDED before: the namespaces
    have no network."""
    if os.geteuid() != 0:
        skip("needs root")
    if not os.path.exists(PROGRAM):
        skip("acnspawn-cri is not built, or ACNSPAWN_CRI does not name it")
    for program in ("docker-registry", "skopeo", "busybox", "gcc", "ip", "iptables", *DEBIAN):
        if not shutil.which(program):
            skip("%s is missing" % program)
    if INSIDE not in os.environ:
        clients(needed)
        sys.stdout.flush()
        os.execvpe("unshare", ["unshare", "--net", "--mount", "--propagation=private", sys.executable, *sys.argv], dict(os.environ, **{INSIDE: "1"}))
    # As a host with systemd has it; these mounts are passed on to nobody else.
    subprocess.run(["mount", "--make-rshared", "/"], check=True)
    ip = ["link set lo up", "link add node0 type veth peer name node1", "addr add %s/24 dev node0" % NODE_ADDRESS, "link set node0 up",
          "link set node1 up", "route add default dev node0"]
    subprocess.run(["ip", "-batch", "-"], input="\n".join(ip), text=True, check=True)
    with open("/proc/sys/net/ipv4/ip_forward", "w") as f:
        f.write("1")


def clients(needed):
    """The directory of the programs that go.mod names; they are built, which takes minutes, where they are not there yet."""
    build = os.path.join(HERE, "build")
    where = subprocess.run([build, "--where", *needed], stdout=subprocess.PIPE, text=True)
    if where.returncode == 0:
        return where.stdout.strip()
    built = subprocess.run([build, *needed], stdout=subprocess.PIPE, text=True)
    if built.returncode == 77:
        skip(built.stdout.strip())
    built.check_returncode()
    return built.stdout.strip()


def has_memory_controller():
    try:
        with open("/sys/fs/cgroup/cgroup.controllers") as f:
            return "memory" in f.read().split()
    except OSError:
        return False


def wait_for(done, what, seconds=30):
    until = time.monotonic() + patience(seconds)
    while not done():
        if time.monotonic() > until:
            raise TimeoutError("waited in vain for " + what)
        time.sleep(0.05)


def accepts(family, address):
    with socket.socket(family) as s:
        return s.connect_ex(address) == 0


class World:
    """A registry and acnspawn-cri, with a store of its own, and the programs that are needed."""

    def __init__(self, *needed):
        self.bin = clients(needed)
        self.dir = tempfile.mkdtemp(prefix="acnspawn-conformance-", dir="/var/tmp")
        self.socket = self.dir + "/cri.sock"
        self.processes = []

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w") as f:
            f.write(text)
        return self.path(name)

    def start(self, name, *command, **more):
        """Starts a process with its output in NAME.log. Processes are ended in reverse order. Each gets its own session, so that a signal to
        the process group of this program leaves it alone: sandboxes cannot be removed without the runtime."""
        with open(self.path(name + ".log"), "ab") as log:
            p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, **more)
        self.processes.append(p)
        return p

    def stop(self, p, number=signal.SIGTERM):
        self.processes.remove(p)
        p.send_signal(number)
        try:
            p.wait(patience(30))
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()

    def start_registry(self, name, address, **more):
        """All registries serve the same images; MORE is added to the configuration."""
        config = dict({"version": "0.1", "log": {"level": "error"}, "storage": {"filesystem": {"rootdirectory": self.path("registry")}},
                       "http": {"addr": address}}, **more)
        self.start(name, "docker-registry", "serve", self.write(name + ".yml", json.dumps(config)))
        host, port = address.split(":")
        wait_for(lambda: accepts(socket.AF_INET, (host, int(port))), "the registry")

    def serve_images(self, hosts):
        self.start_registry("registry", REGISTRY)
        entry = '[[registry]]\nprefix = "%s"\nlocation = "%s"\n[[registry.mirror]]\nlocation = "%s"\ninsecure = true\n'
        self.write("config/registries.d/test.conf", "".join(entry % (h, h, REGISTRY) for h in hosts))

    def write_network(self):
        network = {"cniVersion": "0.4.0", "name": "conformance", "plugins": [
            {"type": "bridge", "bridge": "cri0", "isGateway": True, "ipMasq": False, "hairpinMode": True,
             "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.214.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}],
                      "dataDir": self.path("ipam")}},
            {"type": "portmap", "capabilities": {"portMappings": True}}, {"type": "loopback"}]}
        self.write("cni/net.d/10-bridge.conflist", json.dumps(network))
        self.write("crictl.yaml", "{}\n")

    def start_runtime(self):
        """Starts the runtime, also after it was stopped."""
        self.write_network()
        self.runtime = self.start("runtime", PROGRAM, "--socket=" + self.socket, "--dir=" + self.path("store"), "--config-dir=" + self.path("config"),
                                  "--cni-conf-dir=" + self.path("cni/net.d"), "--cni-bin-dir=/usr/lib/cni")
        wait_for(lambda: accepts(socket.AF_UNIX, self.socket), "acnspawn-cri")

    def kill(self, *processes):
        for p in processes:
            self.processes.remove(p)
            p.kill()
            p.wait()

    def lose_power(self):
        """Kills the supervisors of all sandboxes, and makes their pods ones of an earlier boot. To be called while the runtime is down. The boot ID
        in /proc cannot be changed instead: the mounts of the kubelet would hide it."""
        running, other = self.path("store/pods/running"), str(uuid.uuid4())
        for pod in [os.path.join(running, name) for name in os.listdir(running)]:
            with open(pod + "/runtime") as f:
                supervisor = json.load(f)["supervisor"]
            os.kill(supervisor, signal.SIGKILL)
            wait_for(lambda: not os.path.exists("/proc/%d/exe" % supervisor), "the end of a supervisor")
            with open(pod + "/config") as f:
                config = f.read()
            with open(pod + "/config", "w") as f:
                f.write(config.replace(os.readlink(pod + "/owner-boot"), other))
            os.unlink(pod + "/owner-boot")
            os.symlink(other, pod + "/owner-boot")

    def crictl(self, *arguments):
        """Runs crictl and returns its standard output."""
        return subprocess.run([self.bin + "/crictl", "--config", self.path("crictl.yaml"), "--runtime-endpoint", "unix://" + self.socket,
                               "--timeout=60s", *arguments], stdout=subprocess.PIPE, text=True).stdout

    def __enter__(self):
        for number in signal.SIGTERM, signal.SIGHUP:
            signal.signal(number, lambda number, _: sys.exit(128 + number))  # run the cleanup of __exit__()
        return self

    def __exit__(self, *exception):
        """Ends all sandboxes first: they outlive the runtime. With ACNSPAWN_TEST_KEEP the directory is left."""
        for number in signal.SIGTERM, signal.SIGHUP:
            signal.signal(number, signal.SIG_IGN)
        for sandbox in self.crictl("pods", "-q").split():
            self.crictl("rmp", "-f", sandbox)
        while self.processes:
            self.stop(self.processes[-1])
        if "ACNSPAWN_TEST_KEEP" in os.environ:
            print("Kept: " + self.dir)
            return
        with open("/proc/self/mounts") as f:
            mounts = [line.split()[1] for line in f]
        for m in sorted((m for m in mounts if m.startswith(self.dir + "/")), reverse=True):
            subprocess.run(["umount", "-l", m], stderr=subprocess.DEVNULL)
        shutil.rmtree(self.dir, ignore_errors=True)


class Count:
    """Lines of cases as tests/run reads them."""

    def __init__(self):
        self.failed = 0

    def line(self, kind, name, why=""):
        self.failed += kind == "not ok"
        why = " ".join(why.split())
        print("%s %s%s" % (kind, name.replace(":", ""), ": " + why if why else ""), flush=True)
