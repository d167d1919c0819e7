#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Networks and ports of pods, with the real plugins, in a network namespace of the test's own that stands for the host.

tests/vm/network.py runs the same cases on a host of its own, with what is installed there.
"""

import ctypes
import socket
import threading
import urllib.request

from harness import *

CLONE_NEWNET = 0x40000000
DEFAULT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "stage0", "network", "default.conflist")
WEB = {"name": "http", "protocol": "tcp", "port": 80}
SERVE = "echo from $NAME >/srv/x; touch /out/up; exec httpd -f -p 80 -h /srv"
SLOW = float(os.environ.get("ACNSPAWN_TEST_SLOW", "1"))


def be_a_host():
    """Before any case: nothing that pods do to the host's network is to be seen outside."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) < 0:
        print("SKIP: cannot make a network namespace")
        sys.exit(77)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def need_plugins():
    for program in ("/usr/lib/cni/bridge", "/usr/lib/cni/portmap", "/usr/lib/cni/bandwidth"):
        if not os.access(program, os.X_OK):
            raise Skip("%s is missing (Debian package containernetworking-plugins)" % program)
    if not shutil.which("iptables"):
        raise Skip("iptables is missing")
    r = subprocess.run(["ip", "link", "add", "probe0", "type", "bridge"], capture_output=True, text=True)
    if r.returncode != 0:
        raise Skip("the kernel has no bridges here: " + r.stderr.strip())
    subprocess.run(["ip", "link", "del", "probe0"], check=True)


def configure(host, name=None, document=None):
    """The options that make acnspawn read the shipped network, or DOCUMENT."""
    directory = host.path("config/net.d")
    os.makedirs(directory, exist_ok=True)
    shutil.copy(DEFAULT, directory)
    if name:
        with open(os.path.join(directory, name), "w") as f:
            f.write(document if isinstance(document, str) else json.dumps(document))
    os.environ["ACNSPAWN_CONFIG_DIR"] = host.path("config")


def web(host, name, script=SERVE, **app):
    section = {"ports": [WEB], "environment": [{"name": "NAME", "value": name}]}
    section.update(app)
    return host.shell(script, name="example.com/" + name, app=section)


def get(address, timeout=10):
    with urllib.request.urlopen("http://%s/x" % address, timeout=timeout) as f:
        return f.read().decode().strip()


def wait_served(address, expected):
    def served():
        with contextlib.suppress(OSError):
            return get(address, 2) == expected
    wait_for(served, "an answer of " + address, timeout=20 * SLOW)


def address_of(host, pod, network=0):
    return host.status(pod)["networks"][network]["addresses"][0]["address"].split("/")[0]


def rules():
    """Of the packet filter, those that are not shared by all pods."""
    out = subprocess.run(["iptables", "-t", "nat", "-S"], capture_output=True, text=True).stdout
    return [l for l in out.splitlines() if "CNI" in l and "CNI-HOSTPORT" not in l.replace("CNI-HOSTPORT-DNAT -p", "")]


def interfaces():
    out = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    return {re.sub("@.*", "", l.split(": ")[1]) for l in out.splitlines()} - {"lo", "acnspawn0"}


def nothing_is_left(host, uuid):
    equal(rules(), [], "rules that are left")
    equal([i for i in interfaces() if i.startswith("veth") or i.startswith("bwp")], [], "interfaces that are left")
    true(not os.path.exists("/run/acnspawn/netns/" + uuid), "the network namespace is left")
    for where, _, files in os.walk("/run/acnspawn/networks"):
        for name in files:
            lacks(read_text(os.path.join(where, name)), uuid, name)


@case
def a_pod_in_the_default_network(host):
    need_plugins()
    configure(host)
    uuid = host.detach("--net=default", "--name=p", web(host, "a"))
    wait_served(address_of(host, uuid), "from a")
    status = host.status(uuid)
    n = status["networks"][0]
    equal((n["name"], n["interface"]), ("default", "eth0"))
    true(n["addresses"][0]["address"].startswith("172.16."), "the address is %r" % n["addresses"])
    equal(n["routes"][0]["destination"], "0.0.0.0/0")
    contains(host.acnspawn("status", uuid).out, "eth0 of default, 172.16.")
    true("eth0 %s" % address_of(host, uuid) in status["addresses"], "addresses are %r" % status["addresses"])
    host.acnspawn("stop", uuid).expect(0)
    nothing_is_left(host, uuid)
    equal(host.status(uuid)["networks"], [])


@case
def two_pods_talk_and_the_metadata_service_answers(host):
    need_plugins()
    configure(host)
    uuid = host.detach("--net=default", web(host, "a"))
    wait_served(address_of(host, uuid), "from a")
    script = ("set -e; wget -q -O- http://%s/x; wget -q -O- --header 'Metadata-Flavor: AppContainer' "
              "$AC_METADATA_URL/acMetadata/v1/pod/uuid" % address_of(host, uuid))
    r = host.run("--net=default", host.shell(script, name="example.com/b"))
    contains(r.out, "from a")
    true(UUID.search(r.out), "the metadata service said %r" % r.out)
    host.acnspawn("stop", uuid).expect(0)


@case
def ports_from_loopback_from_the_host_and_from_outside(host):
    need_plugins()
    configure(host)
    uuid = host.detach("--net=default", "--port=http:18080", "--port=18090:80", web(host, "a"))
    for port in 18080, 18090:
        wait_served("127.0.0.1:%d" % port, "from a")
    equal([(p["name"], p["hostPort"], p["port"]) for p in host.status(uuid)["ports"]],
          [("http", 18080, 80), ("port-18090-tcp", 18090, 80)])
    contains(host.acnspawn("status", uuid).out, "http: 18080/tcp to 80")
    other = subprocess.Popen(["unshare", "-n", "sleep", "1000"])
    try:
        wait_for(lambda: os.readlink("/proc/%d/ns/net" % other.pid) != os.readlink("/proc/self/ns/net"), "a namespace")
        subprocess.run("ip link add out0 type veth peer name in0 netns %d && ip addr add 192.0.2.1/24 dev out0 && ip link set "
                       "out0 up && nsenter -t %d -n sh -c 'ip addr add 192.0.2.2/24 dev in0; ip link set in0 up'"
                       % (other.pid, other.pid), shell=True, check=True)
        fetch = "import urllib.request as u; print(u.urlopen('http://192.0.2.1:18080/x', timeout=10).read().decode())"
        out = subprocess.run(["nsenter", "-t", str(other.pid), "-n", "python3", "-c", fetch], capture_output=True, text=True)
        contains(out.stdout, "from a", out.stderr)
    finally:
        other.kill()
        other.wait()
    host.acnspawn("stop", uuid).expect(0)
    nothing_is_left(host, uuid)


@case
def a_port_that_is_taken_is_refused_by_name(host):
    need_plugins()
    configure(host)
    uuid = host.detach("--net=default", "--port=http:18080", "--name=first", web(host, "a"))
    second = host.prepare("--net=default", "--port=18080:80", web(host, "b"))
    r = host.acnspawn("run", second).expect(1)
    contains(r.err, "Port 18080/tcp of the host is taken by pod %s (first)" % uuid)
    host.acnspawn("stop", uuid).expect(0)
    with socket.create_server(("127.0.0.1", 18080)):
        r = host.acnspawn("run", "--net=default", "--port=18080:80", web(host, "c")).expect(1)
    contains(r.err, "Port 18080/tcp of the host is taken by another process")
    equal(rules(), [])


@case
def ports_without_a_network_are_told(host):
    configure(host)
    r = host.acnspawn("prepare", "--port=http:18080", web(host, "a")).expect(0)
    contains(r.err, "Port 'http' is not exposed as port 18080 of the host: the pod has no network (--net=none)")
    r = host.acnspawn("prepare", "--net=host", "--port=http:18080", web(host, "b")).expect(0)
    contains(r.err, "the pod has the host's network (--net=host), in which it is port 80 itself")
    lacks(host.acnspawn("prepare", "--net=host", "--port=http:80", web(host, "c")).expect(0).err, "exposed")


@case
def networks_that_are_not_there(host):
    configure(host, "50-bad.conflist", '{"cniVersion": "0.4.0", "name": "bad", "plugins": [')
    r = host.acnspawn("prepare", "--net=lan", host.shell("true")).expect(1)
    contains(r.err, "There is no network 'lan'")
    contains(r.err, "50-bad.conflist")
    configure(host, "50-bad.conflist", {"cniVersion": "0.4.0", "name": "lan", "plugins": [{"type": "no-such-plugin"}]})
    r = host.acnspawn("run", "--net=lan", host.shell("true")).expect(1)
    contains(r.err, "There is no CNI plugin 'no-such-plugin' in /usr/lib/cni:/opt/cni/bin")


@case
def several_networks_and_a_fixed_address(host):
    need_plugins()
    configure(host, "lan.conf", {"cniVersion": "0.3.1", "name": "lan", "type": "bridge", "bridge": "acnspawnt1",
                                 "ipam": {"type": "host-local", "dataDir": host.path("leases"), "subnet": "10.90.0.0/24"}})
    uuid = host.detach("--net=default:IP=172.16.29.77,lan:IP=10.90.0.9", web(host, "a"))
    wait_served("172.16.29.77", "from a")
    equal([(n["interface"], n["addresses"][0]["address"]) for n in host.status(uuid)["networks"]],
          [("eth0", "172.16.29.77/22"), ("eth1", "10.90.0.9/24")])
    host.acnspawn("stop", uuid).expect(0)
    nothing_is_left(host, uuid)


@case
def killed_pods_are_taken_out_by_gc_and_by_the_next(host):
    need_plugins()
    configure(host)
    for undo in "gc", "next":
        uuid = host.detach("--net=default", "--port=http:18080", web(host, "a"))
        wait_served("127.0.0.1:18080", "from a")
        true(rules(), "there are no rules for the pod")
        host.kill_pods()
        wait_for(lambda: host.state(uuid) == "exited", "the end of the pod")
        if undo == "gc":
            host.acnspawn("gc", "--grace-period=0").expect(0)
        else:
            host.acnspawn("run", "--net=default", "--port=http:18080", host.shell("true", app={"ports": [WEB]})).expect(0)
        nothing_is_left(host, uuid)
    host.acnspawn("gc", "--grace-period=0").expect(0)


def rate(address, port, seconds):
    with socket.create_connection((address, port), timeout=10 * SLOW) as s:
        skip, got = time.monotonic() + 1, 0
        while time.monotonic() < skip:
            s.recv(65536)
        start = time.monotonic()
        while time.monotonic() < start + seconds:
            got += len(s.recv(65536))
        return got / (time.monotonic() - start)


@case
def the_bandwidth_is_limited(host):
    need_plugins()
    configure(host)
    limit = 1000000
    value = json.dumps({"default": True, "limit": str(limit)})
    script = "touch /out/up; while :; do nc -l -p 9000 -e cat /dev/zero; done"
    uuid = host.detach("--net=default", "--isolator=resource/network-bandwidth=" + value, host.shell(script, name="example.com/a"))
    equal([(i["name"], i["verdict"]) for i in host.status(uuid)["isolators"]], [("resource/network-bandwidth", "enforced")])
    host.wait_up("a", uuid)
    time.sleep(0.5 * SLOW)
    measured = rate(address_of(host, uuid), 9000, 4)
    true(0.9 * limit <= measured <= 1.1 * limit, "the rate was %d bytes a second, expected %d" % (measured, limit))
    host.acnspawn("stop", uuid).expect(0)
    nothing_is_left(host, uuid)


if __name__ == "__main__":
    if os.geteuid() == 0:
        be_a_host()
    main()
