#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Networks and ports of pods, with the real plugins, in a network namespace of the test's own that stands for the host.

tests/vm/network.py runs the same cases on a host of its own, with what is installed there.
"""

import ctypes
import signal
import socket
import threading
import urllib.request

import pace
from listening import *
from pod_interface import *

CLONE_NEWNET = 0x40000000
DEFAULT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "stage0", "network", "default.conflist")
WEB = {"name": "http", "protocol": "tcp", "port": 80}
SERVE = "echo from $NAME >/srv/x; touch /out/up; exec httpd -f -p 80 -h /srv"
SERVE_BOTH = SERVE.replace("-p 80", "-p [::]:80")


def be_a_host():
    """Before any case: changes that pods make to the network of the host are not visible outside."""
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
    os.environ["CNI_PATH"] = host.path("cni") if os.path.isdir(host.path("cni")) else ""


def touch(path):
    with open(path, "w"):
        pass


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
    wait_for(served, "an answer of " + address, timeout=20)


def udp_answer(address, port, text="hello"):
    """The reply of a pod's echo service; None: no reply."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(0.5)
        with contextlib.suppress(OSError):
            s.connect((address, port))
            s.send(text.encode())
            return s.recv(512).decode()
    return None


def wait_udp(address, port):
    wait_for(lambda: udp_answer(address, port) == "hello!", "an answer of %s, port %d/udp" % (address, port), timeout=20)


def refused_connection(address, port):
    with contextlib.suppress(OSError):
        socket.create_connection((address, port), timeout=2).close()
        return False
    return True


def flush_rules():
    """What "nft flush ruleset" leaves of the rules of a host."""
    for program in "iptables", "ip6tables":
        for table in "nat", "raw", "mangle", "filter":
            subprocess.run([program, "-w", "5", "-t", table, "-F"], stderr=subprocess.DEVNULL)
            subprocess.run([program, "-w", "5", "-t", table, "-X"], stderr=subprocess.DEVNULL)


def rules_of(table):
    return subprocess.run(["iptables", "-w", "5", "-t", table, "-S"], capture_output=True, text=True, check=True).stdout


@contextlib.contextmanager
def neighbour():
    """Another host on the network of this one, which is 192.0.2.1 and 2001:db8::1 there. Yields its process."""
    p = subprocess.Popen(["unshare", "-n", "sleep", "1000"])
    try:
        wait_for(lambda: os.readlink("/proc/%d/ns/net" % p.pid) != os.readlink("/proc/self/ns/net"), "a namespace")
        subprocess.run(
            "ip link add out0 type veth peer name in0 netns %d && ip addr add 192.0.2.1/24 dev out0 && ip addr add 2001:db8::1/64 dev out0 nodad && "
            "ip link set out0 up && nsenter -t %d -n sh -ec 'ip addr add 192.0.2.2/24 dev in0; ip addr add 2001:db8::2/64 dev in0 nodad; "
            "ip link set in0 up; ip link set lo up'" % (p.pid, p.pid), shell=True, check=True)
        yield p
    finally:
        p.kill()
        p.wait()
        # The kernel removes the interfaces with the namespace, some time later.
        subprocess.run(["ip", "link", "del", "out0"], stderr=subprocess.DEVNULL, check=False)


FETCH = "import sys, urllib.request as u; print(u.urlopen('http://%s/x' % sys.argv[1], timeout=float(sys.argv[2])).read().decode())"


def fetched_by(other, address, timeout=10):
    """What a neighbour gets from there; None: nothing."""
    r = subprocess.run(["nsenter", "-t", str(other.pid), "-n", "python3", "-c", FETCH, address, str(timeout)], capture_output=True, text=True)
    return r.stdout.strip() if r.returncode == 0 else None


def forwarding():
    return [read_text(f).strip() for f in ("/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding",
                                           "/proc/sys/net/ipv4/conf/lo/forwarding", "/proc/sys/net/ipv6/conf/lo/forwarding")]


@contextlib.contextmanager
def addresses_of_the_host(*addresses):
    for a in addresses:
        subprocess.run(["ip", "addr", "add", a, "dev", "lo"], check=True)
    try:
        yield
    finally:
        for a in addresses:
            subprocess.run(["ip", "addr", "del", a, "dev", "lo"], check=True)


def own_plugin(host, name, script):
    """A plugin of the user's own, in a directory of CNI_PATH."""
    directory = host.path("cni")
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, name)
    with open(path, "w") as f:
        f.write("#!/bin/sh\n" + script)
    os.chmod(path, 0o755)


def own_network(host, name, script, version="0.4.0", **more):
    own_plugin(host, name + "-plugin", script)
    configure(host, name + ".conflist", {"cniVersion": version, "name": name, "plugins": [dict(more, type=name + "-plugin")]})


def address_of(host, pod, network=0, address=0):
    return host.status(pod)["networks"][network]["addresses"][address]["address"].split("/")[0]


def address_of_bridge():
    out = subprocess.run(["ip", "-4", "-o", "addr", "show", "acnspawn0"], capture_output=True, text=True, check=True).stdout
    return re.search(r"inet ([\d.]+)", out).group(1)


def rules():
    """Rules of the packet filter that are not shared by all pods."""
    out = "".join(subprocess.run([program, "-t", "nat", "-S"], capture_output=True, text=True).stdout
                  for program in ("iptables", "ip6tables"))
    return [l for l in out.splitlines() if "CNI" in l and "CNI-HOSTPORT" not in l.replace("CNI-HOSTPORT-DNAT -p", "")]


def interfaces():
    out = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    return {re.sub("@.*", "", l.split(": ")[1]) for l in out.splitlines()} - {"lo", "acnspawn0"}


def forget_network_of(uuid):
    """What plugins undo by the record of the pod, which is not there any more."""
    for program in "iptables", "ip6tables":
        for command in "-F", "-X":
            subprocess.run([program, "-t", "nat", command], check=True)
    for where, _, files in os.walk("/run/acnspawn/networks"):
        for path in (os.path.join(where, name) for name in files):
            if uuid in read_text(path):
                os.unlink(path)


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
    with neighbour() as other:
        equal(fetched_by(other, "192.0.2.1:18080"), "from a")
    host.acnspawn("stop", uuid).expect(0)
    nothing_is_left(host, uuid)


@case
def a_port_that_is_taken_is_refused_by_name(host):
    need_plugins()
    configure(host)
    uuid = host.detach("--net=default", "--port=http:18080", "--name=first", web(host, "a"))
    second = host.prepare("--net=default", "--port=18080:80", web(host, "b"))
    r = host.acnspawn("run", second).expect(1)
    contains(r.err, "Port 18080/tcp of the host is in use by pod %s (first)" % uuid)
    equal(host.state(second), "prepared", "state of a pod that has not begun to run")
    pods = len(host.pods())
    contains(host.acnspawn("run", "--detach", "--net=default", "--port=18080:80", "--name=third", web(host, "d")).expect(1).err, "(first)")
    equal(len(host.pods()), pods, "number of pods")
    host.acnspawn("stop", uuid).expect(0)
    host.acnspawn("run", "--detach", second).expect(0)
    wait_served("127.0.0.1:18080", "from b")
    host.acnspawn("stop", second).expect(0)
    with socket.create_server(("127.0.0.1", 18080)):
        r = host.acnspawn("run", "--net=default", "--port=18080:80", web(host, "c")).expect(1)
    contains(r.err, "Port 18080/tcp of the host is in use by another process")
    equal(rules(), [])


@case
def ports_of_one_family(host):
    """0.0.0.0 is every address of IPv4 and [::] every one of IPv6; two pods have one of them each."""
    need_plugins()
    configure(host)
    with addresses_of_the_host("192.0.2.1/32", "2001:db8::1/128"):
        four = host.detach("--net=default", "--port=0.0.0.0:18080:80", web(host, "a", SERVE_BOTH))
        wait_served("127.0.0.1:18080", "from a")
        equal(get("192.0.2.1:18080"), "from a")
        true(refused_connection("2001:db8::1", 18080), "a port of IPv4 is published on IPv6")
        r = host.acnspawn("run", "--net=default", "--port=192.0.2.1:18080:80", web(host, "c")).expect(1)
        contains(r.err, "Port 18080/tcp of the host is in use by pod " + four)
        six = host.detach("--net=default", "--port=[::]:18080:80", "--port=[::]:18081:80", web(host, "b", SERVE_BOTH))
        wait_served("[2001:db8::1]:18080", "from b")
        wait_served("[2001:db8::1]:18081", "from b")
        equal(get("192.0.2.1:18080"), "from a")
        for address in "127.0.0.1", "192.0.2.1":
            true(refused_connection(address, 18081), "a port of IPv6 is published on " + address)
        for port in "18081:80", "[2001:db8::1]:18081:80":
            r = host.acnspawn("run", "--net=default", "--port=" + port, web(host, "c")).expect(1)
            contains(r.err, "Port 18081/tcp of the host is in use by pod " + six)
        equal([(p["hostIP"], p["hostPort"]) for p in host.status(six)["ports"]], [("::", 18080), ("::", 18081)])
        contains(host.acnspawn("status", four).out, "port-18080-tcp: 0.0.0.0:18080/tcp to 80")
        mapped = host.detach("--net=default", "--port=[::ffff:192.0.2.1]:18082:80", web(host, "d"))
        wait_served("192.0.2.1:18082", "from d")
        for u in four, six, mapped:
            host.acnspawn("stop", u).expect(0)
    for u in four, six, mapped:
        nothing_is_left(host, u)
    r = host.acnspawn("prepare", "--net=default", "--port=0.0.0.0:18080:80", "--port=18080:81", web(host, "c")).expect(1)
    contains(r.err, "are both exposed as port 18080 of the host")


@case
def a_neighbour_reaches_published_ports_only(host):
    """It has a route to the addresses of the pods, and the host forwards."""
    need_plugins()
    configure(host)
    with neighbour() as other:
        subprocess.run("nsenter -t %d -n sh -ec 'ip route add 172.16.28.0/22 via 192.0.2.1; ip route add fd61:636e:7370::/64 via 2001:db8::1; "
                       "mkdir -p %s; echo of the neighbour >%s/x'" % (other.pid, host.path("lan"), host.path("lan")), shell=True, check=True)
        uuid = host.detach("--net=default", "--port=18080:80", "--port=127.0.0.1:18081:80", "--port=18082:81", web(
            host, "a", "mkdir /srv2; echo from a >/srv2/x; httpd -p [::]:81 -h /srv2; " + SERVE_BOTH))
        own, six = (address_of(host, uuid, address=n) for n in range(2))
        for address in own, "[%s]" % six, own + ":81", "127.0.0.1:18080", "127.0.0.1:18081":
            wait_served(address, "from a")
        equal(host.status(uuid)["networks"][0]["note"], None)
        equal(fetched_by(other, "192.0.2.1:18080"), "from a")
        equal(fetched_by(other, "[2001:db8::1]:18080"), "from a")
        for address in own, "[%s]" % six, own + ":81", "192.0.2.1:18081":
            equal(fetched_by(other, address, 1), None, address + " for a neighbour")
        # Other pods, and answers to the pod, are not affected.
        r = host.run("--net=default", host.shell("wget -q -O- http://%s/x" % own, name="example.com/b"))
        equal(r.out, "from a\n")
        server = subprocess.Popen(["nsenter", "-t", str(other.pid), "-n", sys.executable, "-m", "http.server", "-d", host.path("lan"), "8000"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: fetched_by(other, "192.0.2.2:8000") == "of the neighbour", "a server on the network")
            r = host.run("--net=default", host.shell("wget -q -O- http://192.0.2.2:8000/x", name="example.com/b"))
            equal(r.out, "of the neighbour\n")
        finally:
            server.kill()
            server.wait()
        host.acnspawn("stop", uuid).expect(0)
    nothing_is_left(host, uuid)
    for program in "iptables", "ip6tables":
        listed = subprocess.run([program, "-t", "mangle", "-S"], capture_output=True, text=True).stdout
        equal(listed.count("from outside published ports only"), 1, "rules of " + program)


@case
def forwarding_is_restored_after_the_last_pod(host):
    need_plugins()
    configure(host)
    files = ["/proc/sys/net/ipv4/conf/all/forwarding", "/proc/sys/net/ipv6/conf/all/forwarding", "/proc/sys/net/ipv4/conf/lo/forwarding"]

    def set_all(*values):
        for f, v in zip(files, values):
            with open(f, "w") as g:
                g.write(v)

    before = [read_text(f).strip() for f in files]
    try:
        for end in "stop", "kill", "record":
            set_all("0", "0", "1")
            equal(forwarding(), ["0", "0", "1", "0"])
            first = host.detach("--net=default", host.shell("exec sleep 1000", name="example.com/a"))
            second = host.detach("--net=default", host.shell("exec sleep 1000", name="example.com/b"))
            equal(forwarding(), ["1", "1", "1", "1"])
            equal(os.stat("/run/acnspawn/forwarding").st_mode & 0o7777, 0o700, "mode of the directory whose lock pods with networks take")
            host.acnspawn("stop", first).expect(0)
            equal(forwarding(), ["1", "1", "1", "1"], "with one pod")
            if end == "stop":
                host.acnspawn("stop", second).expect(0)
            else:
                host.kill_pods()
                wait_for(lambda: host.state(second) == "exited", "the end of the pod")
                if end == "record": # as the hint of a pod that cannot be removed says
                    os.unlink(os.path.join(host.pod_dir(second), "network"))
                host.acnspawn("gc", "--grace-period=0").expect(0)
                if end == "record":
                    forget_network_of(second)
            equal(forwarding(), ["0", "0", "1", "0"], "after the last one: " + end)
        set_all("1", "1", "1")
        host.run("--net=default", host.shell("true"))
        equal(forwarding(), ["1", "1", "1", "1"], "of a host that forwards")
        set_all("0", "0", "0")
        own_network(host, "broken", "test $CNI_COMMAND = ADD || exit 0; echo 1 >/proc/sys/net/ipv4/ip_forward; "
                    "echo '{\"code\": 7, \"msg\": \"no\"}'; exit 1")
        host.acnspawn("run", "--net=broken", host.shell("true")).expect(1)
        equal(forwarding()[0], "0", "after a pod that did not start")
    finally:
        set_all(*before)


@case
def udp_ports(host):
    need_plugins()
    configure(host)
    uuid = host.detach("--net=default", "--port=18053:5353/udp", "--port=18053:80", host.shell(
        "poke udp-echo 5353 & echo tcp >/srv/x; exec httpd -f -p 80 -h /srv", name="example.com/a"))
    own = address_of(host, uuid)
    wait_udp(own, 5353)
    equal(udp_answer("127.0.0.1", 18053), "hello!")
    equal(udp_answer(address_of_bridge(), 18053), "hello!")
    wait_served("127.0.0.1:18053", "tcp")
    second = host.acnspawn("run", "--net=default", "--port=18053:1/udp", host.shell("true")).expect(1)
    contains(second.err, "Port 18053/udp of the host is in use by pod " + uuid)
    host.acnspawn("stop", uuid).expect(0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 18053))
        contains(host.acnspawn("run", "--net=default", "--port=18053:1/udp", host.shell("true")).expect(1).err,
                 "Port 18053/udp of the host is in use by another process")
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        contains(host.acnspawn("run", "--net=default", "--port=18053:1/udp", host.shell("true")).expect(1).err,
                 "Port 18053/udp of the host is in use by another process")
    nothing_is_left(host, uuid)


@case
def ports_in_a_row(host):
    need_plugins()
    configure(host)
    serve = "for n in 0 1 2; do mkdir /srv/$n; echo port $n >/srv/$n/x; httpd -p 900$n -h /srv/$n; poke udp-echo 950$n & done; wait"
    ports = [{"name": "row", "protocol": "tcp", "port": 9000, "count": 3}, {"name": "urow", "protocol": "udp", "port": 9500, "count": 3}]
    image = host.shell(serve, name="example.com/a", app={"ports": ports})
    uuid = host.detach("--net=default", "--port=row:18100", "--port=urow:18100", image)
    for n in range(3):
        wait_served("127.0.0.1:%d" % (18100 + n), "port %d" % n)
        wait_udp("127.0.0.1", 18100 + n)
    true(refused_connection("127.0.0.1", 18103), "port 18103 leads somewhere")
    contains(host.acnspawn("status", uuid).out, "row: 18100-18102/tcp to 9000-9002")
    r = host.acnspawn("run", "--net=default", "--port=row:18098", image).expect(1)
    contains(r.err, "is in use by pod " + uuid)
    host.acnspawn("stop", uuid).expect(0)
    with socket.create_server(("127.0.0.1", 18102)):
        r = host.acnspawn("run", "--net=default", "--port=row:18100", image).expect(1)
    contains(r.err, "Port 18102/tcp of the host is in use by another process")
    r = host.acnspawn("prepare", "--net=default", "--port=row:65534", image).expect(1)
    contains(r.err, "do not lie between 1 and 65535")
    nothing_is_left(host, uuid)


@case
def ports_of_one_address_of_the_host(host):
    need_plugins()
    configure(host)
    with addresses_of_the_host("192.0.2.1/32", "192.0.2.2/32", "2001:db8::1/128"):
        uuid = host.detach("--net=default", "--port=http:192.0.2.1:18080", "--port=192.0.2.1:18053:5353/udp", "--port=[2001:db8::1]:18081:80",
                           web(host, "a", "poke udp-echo 5353 & " + SERVE_BOTH))
        wait_served("192.0.2.1:18080", "from a")
        wait_udp("192.0.2.1", 18053)
        wait_served("[2001:db8::1]:18081", "from a")
        for address, port in ("127.0.0.1", 18080), ("192.0.2.2", 18080), ("127.0.0.1", 18081), ("192.0.2.1", 18081):
            true(refused_connection(address, port), "%s leads to port %d" % (address, port))
        equal(udp_answer("127.0.0.1", 18053), None)
        other = host.detach("--net=default", "--port=http:192.0.2.2:18080", web(host, "b"))
        wait_served("192.0.2.2:18080", "from b")
        for port in "http:18080", "http:192.0.2.1:18080", "http:[2001:db8::1]:18081":
            r = host.acnspawn("run", "--net=default", "--port=" + port, web(host, "c")).expect(1)
            contains(r.err, "of the host is in use by pod")
        contains(host.acnspawn("status", uuid).out, "port-18081-tcp: [2001:db8::1]:18081/tcp to 80")
        for u in uuid, other:
            host.acnspawn("stop", u).expect(0)
        nothing_is_left(host, uuid)
    r = host.acnspawn("run", "--net=default", "--port=http:192.0.2.1:18080", web(host, "c")).expect(1)
    contains(r.err, "the host has no address 192.0.2.1")


@case
def ipv6_in_the_default_network(host):
    need_plugins()
    configure(host)
    uuid = host.detach("--net=default", "--port=http:18080", web(host, "a", SERVE_BOTH))
    own = host.status(uuid)["networks"][0]
    equal([a["address"].split("/")[0].startswith(p) for a, p in zip(own["addresses"], ("172.16.", "fd61:636e:7370::"))], [True, True])
    equal([r["destination"] for r in own["routes"]], ["0.0.0.0/0", "::/0"])
    equal(own["note"], None)
    six = address_of(host, uuid, address=1)
    wait_served("[%s]" % six, "from a")
    r = host.run("--net=default", host.shell("wget -q -O- http://[%s]/x" % six, name="example.com/b"))
    equal(r.out, "from a\n")
    with addresses_of_the_host("2001:db8::1/128"):
        wait_served("[2001:db8::1]:18080", "from a")
    with socket.socket(socket.AF_INET6) as s:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        s.bind(("::", 18085))
        s.listen()
        contains(host.acnspawn("run", "--net=default", "--port=http:18085", web(host, "c")).expect(1).err,
                 "Port 18085/tcp of the host is in use by another process")
    host.acnspawn("stop", uuid).expect(0)
    nothing_is_left(host, uuid)


@case
def a_host_without_ipv6(host):
    need_plugins()
    configure(host)
    switch = "/proc/sys/net/ipv6/conf/all/disable_ipv6"
    with open(switch, "w") as f:
        f.write("1")
    try:
        uuid = host.detach("--net=default", "--port=http:18080", web(host, "a"))
        wait_served("127.0.0.1:18080", "from a")
        own = host.status(uuid)["networks"][0]
        equal(len(own["addresses"]), 1)
        equal([r["destination"] for r in own["routes"]], ["0.0.0.0/0"])
        contains(own["note"], "no IPv6: it is disabled on the host")
        contains(host.acnspawn("status", uuid).out, "; no IPv6: it is disabled on the host")
        r = host.acnspawn("run", "--net=default", "--port=[::]:18081:80", web(host, "b")).expect(1)
        contains(r.err, "Port 'port-18081-tcp' cannot be exposed on ::")
        contains(r.err, "no IPv6")
        host.acnspawn("stop", uuid).expect(0)
    finally:
        with open(switch, "w") as f:
            f.write("0")
    nothing_is_left(host, uuid)


@case
def names_in_a_network(host):
    """The plugin's name servers; otherwise those of the host that can be reached. The pod's own name resolves to its
    address."""
    need_plugins()
    script = "cat /etc/hosts /etc/resolv.conf; true"
    answer = {"cniVersion": "0.4.0", "ips": [{"version": "4", "address": "10.66.0.2/24"}],
              "dns": {"nameservers": ["10.66.0.1", "2001:db8::53"], "domain": "lan.example", "options": ["ndots:3"]}}
    own_network(host, "lan", "[ $CNI_COMMAND != ADD ] || echo '%s'" % json.dumps(answer))
    r = host.run("--net=lan", "--hostname=web", host.shell(script))
    equal(r.out, "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n10.66.0.2\tweb\n"
                 "search lan.example\nnameserver 10.66.0.1\nnameserver 2001:db8::53\noptions ndots:3\n")
    r = host.run("--net=lan", "--dns-search=example.com", "--dns=192.0.2.9", host.shell(script))
    true(r.out.endswith("search example.com\nnameserver 192.0.2.9\n"), r.out)
    uuid = host.detach("--net=lan", host.shell("sleep 1000"))
    equal(host.status(uuid)["networks"][0]["dns"]["servers"], ["10.66.0.1", "2001:db8::53"])
    host.acnspawn("stop", uuid).expect(0)
    configure(host)
    usable = [l for l in read_text("/etc/resolv.conf").splitlines() if l.startswith("nameserver") and not re.search(r" (127\.|::1|fe80)", l)]
    r = host.run("--net=default", "--name=p", host.shell(script))
    equal([l for l in r.out.splitlines() if l.startswith("nameserver")], usable)
    true(re.search(r"^172\.16\.\S+\tp\nfd61:\S+\tp$", r.out, re.M), r.out)


@case
def a_host_whose_name_servers_cannot_be_reached(host):
    """They are on its own loopback, or on one link: the pod has none, which is said with what to do."""
    need_plugins()
    own_network(host, "lan", "[ $CNI_COMMAND != ADD ] || echo '%s'" % json.dumps(
        {"cniVersion": "0.4.0", "ips": [{"version": "4", "address": "10.66.0.2/24"}]}))
    with open(host.path("resolv.conf"), "w") as f:
        f.write("nameserver 127.0.0.53\nnameserver fe80::1%lo\n")
    image = host.shell("cat /etc/resolv.conf; true")
    setup = "mount --bind %s %s; exec \"$@\"" % (host.path("resolv.conf"), os.path.realpath("/etc/resolv.conf"))
    found = []
    for options in (), ("--dns=192.0.2.9",):
        r = subprocess.run(["unshare", "--mount", "sh", "-c", setup, "sh", *host.argv("run", "--net=lan", *options, image)],
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=patience(60))
        found.append((r.returncode, r.stdout, "have no name servers" in r.stderr and "--dns=ADDRESS gives them one" in r.stderr))
    equal(found, [(0, "", True), (0, "nameserver 192.0.2.9\n", False)])


@case
def ports_without_a_network_are_refused(host):
    configure(host)
    for option in "--port=http:18080", "--port=18080:80":
        r = host.acnspawn("prepare", option, web(host, "a")).expect(1)
        contains(r.err, "' cannot be exposed as port 18080 of the host: the pod has no network (--net=none)")
        contains(r.err, "--net=default gives it one")
        equal(host.pods(), [])
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
    contains(r.err, "There is no CNI plugin 'no-such-plugin' in /usr/lib/cni:/usr/libexec/cni:/opt/cni/bin")


@case
def a_build_that_is_not_installed_has_the_default_network(host):
    """... and an installed one, with any prefix: its directories are those of the build (unit/test-network)."""
    os.environ.pop("ACNSPAWN_CONFIG_DIR", None)
    directory = os.path.join(os.path.dirname(ACNSPAWN), "network")
    if not os.path.exists(os.path.join(directory, "99-default.conflist")):
        raise Skip("the program under test is installed")
    r = host.acnspawn("prepare", "--net=nosuch", host.shell("true")).expect(1)
    contains(r.err, "Available networks: ")
    contains(r.err, "default")
    host.prepare("--net=default", host.shell("true"))


@case
def a_running_pod_is_refused(host):
    """... and the message is not that another process uses the port, which is the pod's own."""
    need_plugins()
    configure(host)
    host.detach("--net=default", "--port=18080:80", "--name=p", web(host, "a"))
    for words in [], ["--detach"]:
        contains(host.acnspawn("run", *words, "p").expect(1).err, "Error: Pod p cannot be started: it is running already.")
    host.acnspawn("stop", "p").expect(0)


@case
def a_detached_pod_with_rm_leaves_its_networks(host):
    need_plugins()
    configure(host)
    uuid = host.acnspawn("run", "--detach", "--rm", "--net=default", "--port=18080:80", "--volume=data,kind=empty", "--mount=data:/data",
                         web(host, "a", script="echo x >/data/x; sleep 0.5")).expect(0).out.strip()
    wait_for(lambda: host.pods() == [], "removal of the pod", timeout=90)
    nothing_is_left(host, uuid)


@case
def several_networks_and_a_fixed_address(host):
    need_plugins()
    configure(host, "lan.conf", {"cniVersion": "0.3.1", "name": "lan", "type": "bridge", "bridge": "acnspawnt1",
                                 "ipam": {"type": "host-local", "dataDir": host.path("leases"), "subnet": "10.90.0.0/24"}})
    uuid = host.detach("--net=default:IP=172.16.29.77;MAC=02:00:00:00:00:77,lan:IP=10.90.0.9", web(host, "a"))
    wait_served("172.16.29.77", "from a")
    equal([(n["interface"], n["addresses"][0]["address"]) for n in host.status(uuid)["networks"]],
          [("eth0", "172.16.29.77/22"), ("eth1", "10.90.0.9/24")])
    equal(host.status(uuid)["networks"][0]["mac"], "02:00:00:00:00:77")
    host.acnspawn("stop", uuid).expect(0)
    nothing_is_left(host, uuid)


@case
def other_plugins_of_the_package(host):
    """ptp and macvlan, with addresses of host-local; the pod replies."""
    need_plugins()
    subprocess.run("ip link add m0 type veth peer name m1 && ip link set m0 up && ip link set m1 up && ip addr add 10.77.0.1/24 dev m1",
                   shell=True, check=True)
    try:
        ipam = {"type": "host-local", "dataDir": host.path("leases")}
        networks = [{"type": "ptp", "ipMasq": True, "ipam": dict(ipam, subnet="10.76.0.0/24")}]
        probe = subprocess.run(["ip", "link", "add", "link", "m0", "name", "mv0", "type", "macvlan"], capture_output=True)
        if probe.returncode == 0:
            subprocess.run(["ip", "link", "del", "mv0"], check=True)
            networks.append({"type": "macvlan", "master": "m0", "mode": "bridge",
                             "ipam": dict(ipam, subnet="10.77.0.0/24", rangeStart="10.77.0.50")})
        for n in networks:
            configure(host, "lan.conf", dict(n, cniVersion="0.3.1", name="lan"))
            uuid = host.detach("--net=lan", web(host, "a"))
            wait_served(address_of(host, uuid), "from a")
            host.acnspawn("stop", uuid).expect(0)
            nothing_is_left(host, uuid)
            equal([f for f in os.listdir(host.path("leases/lan")) if f.startswith("10.")], [], "addresses that are taken")
    finally:
        subprocess.run(["ip", "link", "del", "m0"], check=True)


OWN_DUMMY = """
case $CNI_COMMAND in
ADD)
        nsenter --net="$CNI_NETNS" sh -ec 'ip link add "$0" type veth peer name other; ip addr add 10.66.0.2/24 dev "$0"; ip link set "$0" up' "$CNI_IFNAME" >&2 || exit 1
        touch "$0.up.$CNI_CONTAINERID"
        echo '{"cniVersion": "0.4.0", "ips": [{"version": "4", "address": "10.66.0.2/24"}]}' ;;
DEL)
        rm -f "$0.up.$CNI_CONTAINERID" ;;
esac
"""


@case
def a_plugin_of_the_users_own(host):
    need_plugins()
    own_network(host, "own", OWN_DUMMY)
    uuid = host.detach("--net=own:FOO=bar", host.shell("ip -4 addr show eth0; touch /out/up; sleep 1000", name="example.com/a"))
    host.wait_up("a", uuid)
    true(os.path.exists(host.path("cni/own-plugin.up." + uuid)), "ADD was not called")
    wait_for(lambda: "10.66.0.2/24" in host.acnspawn("logs", uuid).out, "the pod's address in its log")
    host.acnspawn("stop", uuid).expect(0)
    true(not os.path.exists(host.path("cni/own-plugin.up." + uuid)), "DEL was not called")
    nothing_is_left(host, uuid)


@case
def plugins_that_misbehave_are_named_and_leave_nothing(host):
    need_plugins()
    add = "rm -f $0.$CNI_COMMAND; touch $0.$CNI_COMMAND; [ $CNI_COMMAND = ADD ] || exit 0; "
    for what, message in (("exec cat /dev/zero", "it printed more than 1048576 bytes and was killed"),
                          ("echo not json", "returned an invalid result"),
                          ("echo '{\"ips\": 5}'", "\"ips\" in the result is not valid: 5"),
                          ("exit 0", "returned an invalid result"),
                          ("exit 4", "it exited with status 4 and no message"),
                          ("kill -SEGV $$", "it was killed by SIGSEGV"),
                          ("echo '{\"code\": 11, \"msg\": \"later\"}'; exit 1", "later"),
                          ("echo '{\"code\": 1, \"msg\": \"incompatible\"}'; exit 1", "incompatible")):
        own_network(host, "bad", add + what)
        # The networks before it are undone as well.
        uuid = host.prepare("--net=default,bad", host.shell("true"))
        r = host.acnspawn("run", uuid).expect(1)
        contains(r.err, "The CNI plugin 'bad-plugin' of network 'bad'", what)
        contains(r.err, message, what)
        contains(r.err, "Cannot connect pod " + uuid, what)
        true(os.path.exists(host.path("cni/bad-plugin.DEL")), "DEL was not called after: " + what)
        nothing_is_left(host, uuid)
    own_network(host, "bad", "[ $CNI_COMMAND != VERSION ] || echo '{\"cniVersion\": \"1.0.0\", \"supportedVersions\": [\"0.4.0\"]}'")
    configure(host, "bad.conflist", {"cniVersion": "1.0.0", "cniVersions": ["1.0.0", "0.3.1"], "name": "bad", "plugins": [{"type": "bad-plugin"}]})
    contains(host.acnspawn("run", "--net=bad", host.shell("true")).expect(1).err, "supports none of the versions in")
    # A pod that was prepared for this run, and never started, is removed.
    pods = host.pods()
    for option in "--quiet", "--detach":
        contains(host.acnspawn("run", option, "--name=p", "--net=bad", host.shell("true")).expect(1).err, "supports none")
        equal(host.pods(), pods, "pods")


@case
def a_bridge_that_a_failed_start_has_left_is_used(host):
    """As on a host without space in /run, where addresses are kept."""
    need_plugins()
    leases = host.path("leases")
    touch(leases)
    configure(host, "own.conflist", {"cniVersion": "1.0.0", "name": "own", "plugins": [
        {"type": "bridge", "bridge": "acnspawnb0", "isGateway": True, "ipam": {"type": "host-local", "dataDir": leases, "subnet": "10.98.0.0/24"}}]})
    image = host.shell("ip -4 addr show eth0 | grep -c inet")
    contains(host.acnspawn("run", "--net=own", image).expect(1).err, "Cannot connect pod")
    contains(interfaces(), "acnspawnb0")
    os.unlink(leases)
    for _ in range(2):
        equal(host.acnspawn("run", "--net=own", image).expect(0).out, "1\n")
    subprocess.run(["ip", "link", "del", "acnspawnb0"], check=True)


@case
def a_plugin_that_hangs_ends_with_the_run(host):
    need_plugins()
    own_network(host, "slow", "[ $CNI_COMMAND != ADD ] || { touch $0.up; sleep 1000 & sleep 1000; }")
    uuid = host.prepare("--net=default,slow", host.shell("true"))
    p = host.start("run", uuid)
    wait_for(lambda: os.path.exists(host.path("cni/slow-plugin.up")), "the plugin", timeout=20)
    p.terminate()
    r = host.finish(p)
    contains(r.err, "it was killed by a stop request")
    nothing_is_left(host, uuid)


@case
def each_call_at_each_step_of_the_start_is_answered(host):
    """While the networks are made, while systemd-nspawn starts, while the first app starts, when the pod is up, and at
    its end."""
    own_network(host, "slow", "[ $CNI_COMMAND != ADD ] || { touch $0.up; while ! test -e $0.go; do sleep 0.05; done; echo '{}'; }")
    plugin = host.path("cni/slow-plugin")
    slow = {"name": "pre-start", "exec": ["/bin/sh", "-c", "touch /out/pre; while ! test -e /out/go; do sleep 0.05; done"]}
    stay = "trap 'while ! test -e /out/end; do sleep 0.05; done; exit 0' TERM; touch /out/up; while :; do sleep 0.05; done"
    image = host.shell(stay, name="example.com/a", app={"eventHandlers": [slow]})
    host.acnspawn("fetch", host.shell("while :; do sleep 0.05; done", name="example.com/plain")).expect(0)
    uuid = host.prepare("--net=slow", "--name=p", "--exit-policy=never", "--stop-timeout=60s", "--volume=o,kind=empty,mode=0777",
                        "--mount=o:/out", image, "--name=a", "---", image, "--name=x")
    data = lambda name: host.pod_dir(uuid) + "/volumes/o/" + name

    def write(path):
        with open(path, "w"):
            pass
    p = host.start("run", "--detach", uuid)
    wait_for(lambda: os.path.exists(plugin + ".up"), "the plugin", timeout=20)
    supervisor = first_of(processes_where(lambda pid: {"supervise", uuid} <= set(re.split("[/\0]", read_text("/proc/%d/cmdline" % pid)))))
    steps = [EachCall(host, uuid, ["Stop"])]
    write(plugin + ".go")
    nspawn = hold_soon("systemd-nspawn", lambda: children_of(supervisor), "systemd-nspawn")
    # A previous call may have removed the app x. A pause would hold the pod until the next step.
    steps.append(EachCall(host, uuid, ["Stop", "Pause"]))
    os.kill(nspawn, signal.SIGCONT)
    wait_for(lambda: os.path.exists(data("pre")), "the handler")
    steps.append(EachCall(host, uuid, ["Stop"]))
    write(data("go"))
    host.finish(p).expect(0)
    for answers in [step.answers() for step in steps]:
        equal((answers["Describe"], answers["CompareCredentials"]), ("ok", "ok"), "the answers %s" % answers)
    wait_for(lambda: os.path.exists(data("up")), "the app")
    answers = EachCall(host, uuid, ["Stop"]).answers()
    equal((answers["CompareCredentials"], answers["Exec"], answers["Pause"], answers["Resume"]), ("ok", "ok", "ok", "ok"), "the answers %s" % answers)
    stop = Connection(host, uuid)
    stop.send("Stop")
    wait_for(lambda: host.state(uuid) == "running" and Connection(host, uuid).call("Describe")["state"] == "stopping", "the pod to end")
    last = EachCall(host, uuid, ["Stop", "Logs"])
    write(data("end"))
    contains(last.answers().values(), "PodEnds")
    equal(stop.receive()["parameters"], {"exitStatus": 0})
    nothing_is_left(host, uuid)


@case
def a_pod_that_waits_for_a_plugin_can_be_stopped(host):
    """Also by another process, and with or without --force: there are no apps yet to stop in order."""
    need_plugins()
    own_network(host, "slow", "[ $CNI_COMMAND != ADD ] || { touch $0.up; sleep 1000 & sleep 1000; }")
    up = host.path("cni/slow-plugin.up")
    for option in [], ["--force"]:
        uuid = host.prepare("--net=default,slow", host.shell("true"))
        p = host.start("run", "--detach", uuid)
        wait_for(lambda: os.path.exists(up), "the plugin", timeout=20)
        os.unlink(up)
        r = host.acnspawn("stop", *option, uuid, timeout=30).expect(0)
        true(r.seconds < pace.SLOW * 10, "it took %.1f s" % r.seconds)
        contains(host.finish(p).err, "it was killed by a stop request")
        equal(host.state(uuid), "exited")
        nothing_is_left(host, uuid)


@case
def a_killed_pod_that_cannot_be_taken_out(host):
    """The next pod that starts tries it, and can be stopped meanwhile; later ones are not delayed; gc reports it."""
    need_plugins()
    own_network(host, "own", """[ $CNI_COMMAND = DEL ] && [ "$(cat $0.bad)" = $CNI_CONTAINERID ] && {
        echo x >>$0.tries; [ ! -e $0.hang ] || sleep 1000; exit 1; }
        echo '{}'""")
    plugin = host.path("cni/own-plugin")

    def write(suffix, text=""):
        with open(plugin + suffix, "w") as f:
            f.write(text)

    def tries():
        return len(read_text(plugin + ".tries").splitlines()) if os.path.exists(plugin + ".tries") else 0

    write(".bad")
    uuid = host.detach("--net=own", host.shell("sleep 1000"))
    host.kill_pods()
    wait_for(lambda: host.state(uuid) == "exited", "the end of the pod")
    write(".bad", uuid)
    write(".hang")
    other = host.shell("true", name="example.com/other")
    p = host.start("run", "--net=own", other)
    wait_for(tries, "the plugin", timeout=20)
    p.terminate()
    host.finish(p, 20)
    os.unlink(plugin + ".hang")
    for _ in range(3):
        host.acnspawn("run", "--net=own", other).expect(0)
        equal(tries(), 2, "attempts")
    contains(host.acnspawn("gc", "--grace-period=0").err, "Cannot remove pod %s from its networks" % uuid)
    equal(tries(), 3, "attempts")
    write(".bad", host.prepare("--net=own", "--name=last", other))
    contains(host.acnspawn("run", "last").expect(0).err, "acnspawn rm", "the warning, of which the way out is a part,")
    write(".bad")
    host.acnspawn("gc", "--grace-period=0").expect(0)
    nothing_is_left(host, uuid)


@contextlib.contextmanager
def lock_on(path, how):
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(fd, how)
        yield
    finally:
        os.close(fd)


def kill_one(host, uuid):
    host.kill_pods()
    wait_for(lambda: host.state(uuid) == "exited", "the end of pod %s" % uuid)


@case
def a_plugin_that_hangs_for_dead_pods_delays_one_start_by_seconds(host):
    """It is not waited for once for each dead pod, and for the next start, also if the first one is killed, not at all."""
    need_plugins()
    own_network(host, "own", """[ $CNI_COMMAND = DEL ] && [ -e $0.hang ] && { touch $0.up; exec sleep 1000; }
        echo '{}'""")
    hang, other = host.path("cni/own-plugin.hang"), host.shell("true", name="example.com/other")
    dead = [host.detach("--net=own", host.shell("sleep 1000")) for _ in range(2)]
    for uuid in dead:
        kill_one(host, uuid)
    touch(hang)
    with within(4, "an export of a dead pod"):
        host.acnspawn("cp", dead[0] + ":/bin/sh", "-").expect(0)
    with within(15, "a start beside two dead pods"):
        host.acnspawn("run", "--net=default", other).expect(0)
    os.unlink(host.path("cni/own-plugin.up"))
    p = host.start("run", "--net=default", other)
    wait_for(lambda: os.path.exists(host.path("cni/own-plugin.up")), "the plugin for the next one")
    host.kill_pods()
    host.finish(p)
    with within(4, "a start when all of them were tried"):
        host.acnspawn("run", "--net=default", other).expect(0)
    os.unlink(hang)
    records = [os.path.join(host.pod_dir(uuid), "network") for uuid in dead]
    equal([os.path.exists(r) for r in records], [True] * 2)
    for r in records:
        os.utime(r, (1, 1))
    host.acnspawn("run", "--net=default", other).expect(0)
    equal([os.path.exists(r) for r in records], [False] * 2)
    host.acnspawn("gc", "--grace-period=0").expect(0)
    nothing_is_left(host, dead[0])


@case
def networks_of_an_earlier_boot(host):
    """What plugins keep in memory alone is gone, and a record that a loss of power has damaged names nothing else."""
    need_plugins()
    own_plugin(host, "bridge", "[ ! -e $0.bad ] || exit 1; exec /usr/lib/cni/bridge")
    configure(host)
    for what in "whole", "damaged":
        uuid = host.detach("--net=default", host.shell("sleep 1000"))
        kill_one(host, uuid)
        touch(host.path("cni/bridge.bad"))
        if what == "damaged":
            with open(os.path.join(host.one_pod(), "network"), "wb") as f:
                f.write(bytes(4096))
        contains(host.acnspawn("rm", uuid).expect(1).err, "network")
        boot = os.path.join(host.one_pod(), "boot")
        os.unlink(boot)
        os.symlink("6a3f11ab-5a0d-4c9b-9a52-3f1f0f6f0001", boot)
        host.acnspawn("rm", uuid).expect(0)
        os.unlink(host.path("cni/bridge.bad"))
        forget_network_of(uuid)
        nothing_is_left(host, uuid)


@case
def a_declared_pod_whose_networks_cannot_be_undone_starts_again(host):
    need_plugins()
    own_network(host, "own", """[ $CNI_COMMAND = DEL ] && [ -e $0.bad ] && exit 1
        echo '{}'""")
    os.makedirs(host.path("config/pods"), exist_ok=True)
    with open(host.path("config/pods/web.pod"), "w") as f:
        f.write("[Pod]\nNetwork=own\n[App a]\nImage=%s\n" % host.shell("trap 'exit 0' TERM; touch /up; while :; do sleep 0.05; done"))

    def run(*more):
        uuid = host.acnspawn("run", "--detach", "--declared=web", *more).expect(0).out.strip()
        wait_for(lambda: os.path.exists(os.path.join(host.upper("a", host.pod_dir(uuid)), "up")), "app a")
        return uuid
    first = run()
    kill_one(host, first)
    touch(host.path("cni/own-plugin.bad"))
    second = run()
    equal((host.state(first), host.state(second), host.state("web")), ("exited", "running", "running"))
    r = host.acnspawn("run", "--detach", "--declared=web", "--replace").expect(0)
    contains(r.err, "Pod %s stays, without its name: " % second)
    contains(r.err, "'acnspawn rm %s' tries again" % second)
    third = r.out.strip()
    equal((host.state(second), host.state(third), host.state("web")), ("exited", "running", "running"))
    contains(host.acnspawn("rm", first).expect(1).err, "Cannot remove pod %s from its networks" % first)
    os.unlink(host.path("cni/own-plugin.bad"))
    host.acnspawn("stop", "web").expect(0)
    host.acnspawn("gc", "--grace-period=0").expect(0)
    equal(host.pods(), [])


@case
def a_start_waits_for_one_that_takes_its_predecessor_out_of_a_network(host):
    """Its address is free only then. What a start that was killed has noted is no reason either to leave the predecessor in its network."""
    need_plugins()
    own_network(host, "own", """case $CNI_COMMAND in
        ADD) [ ! -e $0.taken ] || exit 1; touch $0.taken ;;
        DEL) echo >>$0.dels; touch $0.up; [ ! -e $0.slow ] || { [ "$(cat $0.slow)" != 1000 ] || exec sleep 1000; sleep 1; }; rm -f $0.taken ;;
        esac
        echo '{}'""")
    other = host.shell("true", name="example.com/other")
    os.makedirs(host.path("config/pods"), exist_ok=True)
    with open(host.path("config/pods/web.pod"), "w") as f:
        f.write("[Pod]\nNetwork=own\n[App a]\nImage=%s\n" % host.shell("sleep 1000"))
    slow, up = host.path("cni/own-plugin.slow"), host.path("cni/own-plugin.up")
    uuid = host.acnspawn("run", "--detach", "--declared=web").expect(0).out.strip()
    for seconds in "1", "1000":
        kill_one(host, uuid)
        with open(slow, "w") as f:
            f.write(seconds)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(up)
        p = host.start("run", "--net=default", other)
        wait_for(lambda: os.path.exists(up), "the plugin for the dead pod")
        if seconds == "1000":
            host.kill_pods()
            host.finish(p)
            os.unlink(slow)
        uuid = host.acnspawn("run", "--detach", "--declared=web").expect(0).out.strip()
        if seconds == "1":
            host.finish(p).expect(0)
            equal(os.path.getsize(host.path("cni/own-plugin.dels")), 1, "attempts")
    host.acnspawn("stop", "web").expect(0)


@case
def a_declared_pod_starts_while_its_former_pod_is_collected(host):
    """It waits for the networks of the former pod, not for its lock. One that cannot be removed keeps its name."""
    need_plugins()
    own_network(host, "own", """[ $CNI_COMMAND = DEL ] && {
        [ ! -e $0.hang ] || touch $0.up; while [ -e $0.hang ]; do sleep 0.05; done; [ ! -e $0.bad ] || exit 1; }
        echo '{}'""")
    os.makedirs(host.path("config/pods"), exist_ok=True)
    with open(host.path("config/pods/web.pod"), "w") as f:
        f.write("[Pod]\nNetwork=own\n[App a]\nImage=%s\n" % host.shell("sleep 1000"))
    hang, bad = host.path("cni/own-plugin.hang"), host.path("cni/own-plugin.bad")

    def run(how):
        return how("run", "--detach", "--declared=web")
    first = run(host.acnspawn).expect(0).out.strip()
    kill_one(host, first)
    touch(bad)
    contains(host.acnspawn("gc", "--grace-period=0").err, "Cannot remove pod web from its networks")
    equal(host.status("web")["uuid"], first)
    os.unlink(bad)
    for words in ("gc", "--grace-period=0"), ("rm", "web"):
        touch(hang)
        remover = host.start(*words)
        wait_for(lambda: os.path.exists(host.path("cni/own-plugin.up")), "the plugin")
        p = run(host.start)
        # The new one has the name: it is not kept from starting by the lock of the other.
        wait_for(lambda: (r := host.acnspawn("status", "--json=short", "web")).rc == 0 and json.loads(r.out)["uuid"] != first, "the new pod",
                 timeout=30)
        os.unlink(hang)
        host.finish(remover).expect(0)
        second = host.finish(p).expect(0).out.strip()
        equal((host.state("web"), host.status("web")["uuid"], host.acnspawn("status", first).rc), ("running", second, 1))
        os.unlink(host.path("cni/own-plugin.up"))
        first = second
        kill_one(host, first)
    host.acnspawn("gc", "--grace-period=0").expect(0)


@case
def the_name_of_a_pod_that_another_process_has(host):
    """A removal drops the pod's name only when it has the pod's lock, which a start holds while it makes the successor, and when no other
    process reads the pod."""
    need_plugins()
    own_network(host, "own", """[ $CNI_COMMAND = DEL ] && { touch $0.up; while [ -e $0.hang ]; do sleep 0.05; done; }
        echo '{}'""")
    hang, up = host.path("cni/own-plugin.hang"), host.path("cni/own-plugin.up")
    first = host.detach("--net=own", "--name=web", host.shell("sleep 1000"))
    kill_one(host, first)
    host.acnspawn("gc").expect(0)  # moves it to those that have ended
    touch(hang)
    with lock_on(host.pod_dir(first), fcntl.LOCK_EX):
        remover = host.start("rm", "web")
        wait_for(lambda: os.path.exists(up), "the plugin")
        equal(os.readlink(os.path.join(host.dir, "names/web")), first)
        os.unlink(hang)
        contains(host.finish(remover).expect(1).err, "in use by another process")
    equal(host.status("web")["uuid"], first)
    with lock_on(os.path.join(host.pod_dir(first), "config"), fcntl.LOCK_SH):
        host.acnspawn("gc", "--grace-period=0").expect(0)
        host.acnspawn("rm", "web").expect(1)
        equal(host.status("web")["uuid"], first)
    host.acnspawn("rm", "web").expect(0)


@case
def a_host_that_was_started_anew(host):
    """The records exist; namespaces, interfaces, rules and allocated addresses do not."""
    need_plugins()
    configure(host)
    uuid = host.detach("--net=default", "--port=http:18080", web(host, "a"))
    wait_served("127.0.0.1:18080", "from a")
    host.kill_pods()
    wait_for(lambda: host.state(uuid) == "exited", "the end of the pod")
    path = "/run/acnspawn/netns/" + uuid
    subprocess.run(["umount", path], check=True)
    os.unlink(path)
    shutil.rmtree("/run/acnspawn/networks", ignore_errors=True)
    for program in "iptables", "ip6tables":
        subprocess.run("%s -t nat -F; %s -t nat -X" % (program, program), shell=True, check=True)
    wait_for(lambda: not [i for i in interfaces() if i.startswith("veth")], "the end of the interfaces")
    subprocess.run(["ip", "link", "del", "acnspawn0"], check=True)
    other = host.detach("--net=default", "--port=http:18080", web(host, "b"))
    wait_served("127.0.0.1:18080", "from b")
    host.acnspawn("gc", "--grace-period=0").expect(0)
    wait_served("127.0.0.1:18080", "from b")
    host.acnspawn("stop", other).expect(0)
    nothing_is_left(host, uuid)
    nothing_is_left(host, other)


@case
def the_hosts_loopback_and_abstract_sockets_are_out_of_reach(host):
    need_plugins()
    configure(host)
    name = "acnspawn-test-%d" % os.getpid()
    with socket.create_server(("127.0.0.1", 18099)), socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind("\0" + name)
        abstract.listen(1)
        for options in [], ["--no-userns"]:
            r = host.run("--net=default", *options, host.shell(
                "poke abstract %s; g=$(ip route | sed -n 's/default via \\([^ ]*\\) .*/\\1/p'); "
                "for a in 127.0.0.1 $g; do nc -w 1 $a 18099 </dev/null && echo reached $a; done; true" % name))
            lacks(r.out, "possible", "connecting")
            lacks(r.out, "reached", "connecting")


RAW = """
import re, socket, struct, subprocess, sys
own = re.search(r'ether (\\S+)', subprocess.run(['ip', 'link', 'show', 'eth0'], capture_output=True, text=True).stdout).group(1)
udp = struct.pack('!HHHH', 5555, 18099, 13, 0) + b'hello'
head = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0, socket.inet_aton(sys.argv[1]), socket.inet_aton(sys.argv[3]))
total = sum(struct.unpack('!10H', head))
while total >> 16:
    total = (total & 0xffff) + (total >> 16)
head = head[:10] + struct.pack('!H', ~total & 0xffff) + head[12:]
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(('eth0', 0x800))
s.send(bytes.fromhex(sys.argv[2].replace(':', '')) + bytes.fromhex(own.replace(':', '')) + b'\\x08\\x00' + head + udp)
"""


@case
def packets_made_by_hand_do_not_reach_the_hosts_loopback(host):
    """Like CVE-2020-8558: a setting that portmap needs for 127.0.0.1 of the host admits such packets. Sent in the way
    open to an app with CAP_NET_RAW."""
    need_plugins()
    configure(host)
    uuid = host.detach("--net=default", "--no-userns", "--port=http:18080", web(host, "a"))
    wait_served("127.0.0.1:18080", "from a")
    equal(host.status(uuid)["networks"][0]["note"], None)
    bridge = re.search(r"ether (\S+)", subprocess.run(["ip", "link", "show", "acnspawn0"], capture_output=True, text=True).stdout).group(1)
    for target, reached in (address_of_bridge(), True), ("127.0.0.1", False):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.bind((target, 18099))
            s.settimeout(patience(3) if reached else 1)
            subprocess.run(["nsenter", "-t", str(host.leader(uuid)), "-n", "python3", "-c", RAW, address_of(host, uuid), bridge, target],
                           check=True)
            got = None
            with contextlib.suppress(OSError):
                got = s.recv(100)
            equal(got, b"hello" if reached else None, "what %s got" % target)
    host.acnspawn("stop", uuid).expect(0)
    listed = subprocess.run(["iptables", "-t", "raw", "-S"], capture_output=True, text=True).stdout
    equal(listed.count("the loopback of the host is its own"), 1, "rules")


def own_ipv6_of_bridge():
    out = subprocess.run(["ip", "-6", "-o", "addr", "show", "acnspawn0", "scope", "global", "-tentative"], capture_output=True, text=True).stdout
    found = re.search(r"inet6 ([0-9a-f:]+)", out)
    return found and found.group(1)


@case
def no_packets_are_sent_from_addresses_of_others(host):
    """IPV6_FREEBIND lets every process bind a socket to any address of IPv6; the pod that has the address is not the one that sends."""
    need_plugins()
    configure(host)
    for options in [], ["--no-userns"]:
        other = host.detach("--net=default", host.shell("exec sleep 1000", name="example.com/a"))
        spoofed = address_of(host, other, address=1)
        bridge = wait_for(own_ipv6_of_bridge, "an address of the bridge that can be used", timeout=20)
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as s:
            s.bind((bridge, 0))
            s.settimeout(patience(20))
            port = s.getsockname()[1]
            script = ("a=$(ip -6 -o addr show eth0 scope global | sed -n 's/.*inet6 \\([^/]*\\).*/\\1/p'); "
                      "for f in %s @%s 2001:db8::7 $a @$a; do poke send-from $f,%s,%d; done; true" % (spoofed, spoofed, bridge, port))
            host.run("--net=default", *options, host.shell(script, name="example.com/b"))
            sources = [s.recvfrom(100)[1][0] for _ in range(2)]
            s.settimeout(0.1)
            with contextlib.suppress(socket.timeout):
                while True:
                    sources.append(s.recvfrom(100)[1][0])
        equal(len(sources), 2, "messages of %s" % sources)
        lacks(sources, spoofed, "messages from the address of another pod")
        lacks(sources, "2001:db8::7", "messages from an address of nobody")
        host.acnspawn("stop", other).expect(0)


@case
def the_bandwidth_of_apps_is_reported(host):
    configure(host)
    limit = "--isolator=resource/network-bandwidth=" + json.dumps({"default": True, "limit": "1000000"})
    a, b = (host.shell("true", name="example.com/" + n) for n in "ab")
    for words, verdicts in (([a, limit], ["enforced"]), ([a, limit, "---", b, limit], ["modified"] * 2), ([a, limit, "---", b], ["ignored"])):
        uuid = host.prepare("--net=default", *words)
        equal([i["verdict"] for i in host.status(uuid)["isolators"]], verdicts)
    r = host.acnspawn("prepare", "--strict", "--net=default", a, limit, "---", b).expect(1)
    contains(r.err, "resource/network-bandwidth")
    contains(r.err, "not all of them are limited")


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
            if pace.SLOW > 10 and os.path.exists("/run/acnspawn/netns/" + uuid):  # a start gives the plugins of dead pods five seconds
                host.acnspawn("gc", "--grace-period=0").expect(0)
        nothing_is_left(host, uuid)
    host.acnspawn("gc", "--grace-period=0").expect(0)


def received(address, port, size):
    """Reads at least SIZE bytes; returns how many it were, and the seconds that it took, with the connection."""
    start, got = time.monotonic(), 0
    with socket.create_connection((address, port), timeout=patience(10)) as s:
        while got < size:
            got += len(s.recv(65536))
    return got, time.monotonic() - start


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
    address = address_of(host, uuid)

    def attempt():
        with contextlib.suppress(ConnectionRefusedError):
            return received(address, 9000, 5 * limit)
    got, took = wait_for(attempt, "what the app sends")
    # However slow the machine is, there is never more than the limit and what may come in a burst; and not less by much.
    true(got <= 1.1 * limit * took + limit / 10 and took < patience(10), "%d bytes came in %.1f s, expected %d in a second" % (got, took, limit))
    host.acnspawn("stop", uuid).expect(0)
    nothing_is_left(host, uuid)


@case
def rules_that_were_removed_behind_a_pod_are_restored(host):
    """Status says that they are gone; the pod keeps its addresses, and its app does not notice."""
    need_plugins()
    configure(host)
    image = web(host, "a")
    uuid = host.detach("--net=default", "--port=http:8081", "--name=p", image)
    address, mac = address_of(host, uuid), host.status(uuid)["networks"][0]["mac"]
    wait_served("127.0.0.1:8081", "from a")
    before = {table: rules_of(table) for table in ("nat", "raw", "mangle")}
    lacks(host.acnspawn("status", uuid).expect(0).out, "packet filter")
    flush_rules()
    true(refused_connection("127.0.0.1", 8081), "the port is not published any more")
    contains(host.acnspawn("status", uuid).expect(0).out, "rules of the packet filter for its ports are gone: 'acnspawn network reload p' restores them")
    contains(host.status(uuid)["networks"][0]["note"], "acnspawn network reload p")
    for words in ["p"], []:
        host.acnspawn("network", "reload", *words).expect(0)
        wait_served("127.0.0.1:8081", "from a")
        equal((address_of(host, uuid), host.status(uuid)["networks"][0]["mac"]), (address, mac), "addresses")
        equal(get(address + ":80"), "from a")
        for table, text in before.items():
            equal(sorted(set(rules_of(table).splitlines())), sorted(set(text.splitlines())), "rules of the table " + table)
        lacks(host.acnspawn("status", uuid).expect(0).out, "packet filter")
        flush_rules()
    host.acnspawn("stop", uuid).expect(0)
    nothing_is_left(host, uuid)
    contains(host.acnspawn("network", "reload", "p").expect(1).err, "is not running")
    host.acnspawn("network", "reload").expect(0)


@case
def rules_are_restored_by_several_at_once(host):
    """As by two services that reload a firewall: one after the other."""
    need_plugins()
    configure(host)
    uuid = host.detach("--net=default", "--port=http:8081", "--name=p", web(host, "a"))
    address = address_of(host, uuid)
    wait_served("127.0.0.1:8081", "from a")
    flush_rules()
    reloads = [host.start("network", "reload", *words) for words in (["p"], [], ["p"], [])]
    for p in reloads:
        out, err = p.communicate(timeout=patience(60))
        equal((p.returncode, err), (0, b""), "exit status and messages")
    wait_served("127.0.0.1:8081", "from a")
    equal((address_of(host, uuid), get(address + ":80")), (address, "from a"))
    host.acnspawn("stop", uuid).expect(0)
    nothing_is_left(host, uuid)


@case
def ports_that_start_apps(host):
    """Through the port of the host that is forwarded there, and by a socket of the host, in which case the port is not
    forwarded as well."""
    need_plugins()
    configure(host)
    image = host.image(["/bin/serve"], name="example.com/a", app={"ports": [dict(WEB, socketActivated=True)]})
    uuid = host.detach("--net=default", "--port=http:8081", image)
    equal(host.app_status(uuid, "a")["state"], "waiting")
    equal(ask(("127.0.0.1", 8081))["name"], "http", "through the host's loopback")
    equal(ask((address_of(host, uuid), 80))["fd"], "3", "at the pod's own address")
    host.acnspawn("stop", uuid).expect(0)
    nothing_is_left(host, uuid)
    with listener(address=("127.0.0.1", 8082)) as s:
        r = start_with(host, [s], "run", "--detach", "--net=default", "--port=http:8082", image).finish(0)
        uuid = r.out.strip()
        equal(ask(("127.0.0.1", 8082))["name"], "http", "by the host's socket")
        lacks(subprocess.run(["iptables", "-t", "nat", "-S"], capture_output=True, text=True).stdout, "8082", "rules")
        host.acnspawn("stop", uuid).expect(0)
    nothing_is_left(host, uuid)


if __name__ == "__main__":
    if os.geteuid() == 0:
        be_a_host()
    main()
