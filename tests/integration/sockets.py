#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Socket-activated apps: sockets of the pod, and sockets passed to acnspawn."""

import ctypes
import socket
import struct

from harness import *
from listening import *


def stop(host, uuid):
    host.acnspawn("stop", uuid).expect(0)


# --- What an app can do with sockets of the host ------------------------------------------------------------------------

def kernel_has_unix_filters():
    return tuple(int(x) for x in re.findall(r"\d+", os.uname().release)[:2]) >= (6, 7)


@case
def sockets_of_the_host_lead_to_their_peers_alone(host):
    """D1: an app that is started by a socket of the host does not get into the host's network by it."""
    name = host.path("in.sock")
    for net in "--net=none", "--net=host":
        with listener() as tcp, listener(type=socket.SOCK_DGRAM) as udp, listener(socket.AF_UNIX, socket.SOCK_DGRAM, name) as local, \
                listener() as target, listener(type=socket.SOCK_DGRAM, address=target.getsockname()) as datagrams, \
                socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as abstract:
            number = target.getsockname()[1]
            abstract.bind("\0%d" % number)
            image = host.image(["/bin/poke", "door", str(number)], name="example.com/web", app={
                "ports": [port("tcp", 8080), port("udp", 8081, "udp"), port("local", 8082, "udp")]})
            running = start_with(host, [tcp, udp, local], "run", net, "--name=door", image, names=["tcp", "udp", "local"])
            with socket.create_connection(tcp.getsockname(), timeout=30) as a, socket.create_connection(tcp.getsockname(), timeout=30), \
                    socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                client.bind(("127.0.0.1", 0))
                client.settimeout(30)
                client.sendto(b"hello", udp.getsockname())
                sender.sendto(b"hello", name)
                equal(a.recv(10), b"hello")
                equal([client.recv(10) for _ in range(2)], [b"hello", b"again"])
                said = dict(line.split(": ", 1) for line in running.finish().out.splitlines() if ": " in line)
            refused = "possible" if net == "--net=host" else "Operation not permitted"
            for what in ("tcp accept", "tcp answer", "tcp disconnect", "tcp accept again", "udp receive", "udp answer", "udp connect to the peer",
                         "udp answer connected", "unix receive", "own bind", "own connect"):
                equal(said[what], "possible", what)
            for what in "tcp connect", "tcp connect the listener", "udp send", "udp connect", *(("unix send", "unix connect") if kernel_has_unix_filters() else ()):
                equal(said[what], refused, what + " with " + net)
            if net == "--net=none":
                equal(said["tcp bind"], refused)
                equal(said["tcp send at once"], refused)
            host.acnspawn("rm", "door").expect(0)
        os.unlink(name)
    with listener() as tcp, listener(type=socket.SOCK_DGRAM) as other:
        image = server(host, ports=[port("tcp", 8080)])
        uuid = start_with(host, [tcp], "run", "--strict", "--detach", image, names=["tcp"]).finish(0).out.strip()
        ask(tcp.getsockname())
        equal([s["exposed"] for s in host.status(uuid)["sockets"]], [None])
        lacks(host.acnspawn("status", uuid).out, "exposed")
        # Processes of the host, and of other pods, are not affected.
        other.sendto(b"x", other.getsockname())
        equal(other.recv(10), b"x")
        stop(host, uuid)


@contextlib.contextmanager
def as_many_programs_as_the_kernel_takes():
    """At the root of the hierarchy of cgroups: each lets everything pass."""
    libc = ctypes.CDLL(None, use_errno=True)
    number = {"x86_64": 321, "aarch64": 280}.get(os.uname().machine)
    root = next((line.split()[1] for line in read_text("/proc/mounts").splitlines() if line.split()[2] == "cgroup2"), None)
    if not number or not root:
        raise Skip("no hierarchy of cgroups v2, or the number of bpf(2) is not known here")

    def bpf(command, attributes):
        buffer = ctypes.create_string_buffer(attributes.ljust(128, b"\0"), 128)
        r = libc.syscall(number, command, buffer, 128)
        if r < 0:
            raise OSError(ctypes.get_errno(), "bpf")
        fds.append(r)
        return r
    program, bind4, fds = 18, 8, [os.open(root, os.O_RDONLY | os.O_DIRECTORY)]  # BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_CGROUP_INET4_BIND
    code, licence = (ctypes.create_string_buffer(x) for x in (struct.pack("=BBhiBBhi", 0xb7, 0, 0, 1, 0x95, 0, 0, 0), b"GPL"))
    try:
        try:
            loaded = bpf(5, struct.pack("=IIQQIIQII16sII", program, 2, ctypes.addressof(code), ctypes.addressof(licence), 0, 0, 0, 0, 0, b"", 0, bind4))
        except OSError as e:
            raise Skip("the kernel takes no such programs: %s" % e)
        with contextlib.suppress(OSError):
            while len(fds) < 1000:
                bpf(28, struct.pack("=IIII", loaded, fds[0], bind4, 0))
        yield
    finally:
        for fd in fds:
            os.close(fd)


@case
def the_last_filter_of_the_kernel_is_taken(host):
    why = "the kernel takes no more filters of sockets (BPF programs of cgroups) than the 64 that there are"
    with listener() as tcp:
        image = server(host, ports=[port("tcp", 8080)])

        def refused(*options):
            """A pod of another test may have the filters already, which all share, or leave a place as it ends: then again."""
            with as_many_programs_as_the_kernel_takes():
                r = start_with(host, [tcp], "run", "--detach", *options, image, names=["tcp"]).finish(None)
            uuid = r.out.strip()
            if uuid and not host.status(uuid)["sockets"][0]["exposed"]:
                stop(host, uuid)
                return None
            return r
        r = wait_for(lambda: refused("--strict"), "that no place is left", timeout=60)
        equal((r.rc, r.out), (1, ""))
        true(re.search("Cannot keep apps of pod .* from reaching the host's network by sockets that were passed to it: " + re.escape(why), r.err), r.err)
        uuid = wait_for(refused, "that no place is left", timeout=60).out.strip()
        contains(host.acnspawn("status", uuid).out, "exposed: the app can reach the host's network by it, as " + why)
        ask(tcp.getsockname())
        stop(host, uuid)


def door(host, *options):
    """What an app says that tries to get out by a socket of TCP of the host."""
    with listener() as tcp, listener(type=socket.SOCK_DGRAM) as udp, listener(socket.AF_UNIX, socket.SOCK_DGRAM, host.path("in.sock")) as local, \
            listener() as target, listener(type=socket.SOCK_DGRAM, address=target.getsockname()):
        image = host.image(["/bin/poke", "door", str(target.getsockname()[1])], name="example.com/door", app={
            "ports": [port("tcp", 8080), port("udp", 8081, "udp"), port("local", 8082, "udp")]})
        running = start_with(host, [tcp, udp, local], "run", "--rm", *options, image, names=["tcp", "udp", "local"])
        with socket.create_connection(tcp.getsockname(), timeout=30) as a, socket.create_connection(tcp.getsockname(), timeout=30), \
                socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            client.bind(("127.0.0.1", 0))
            client.settimeout(30)
            client.sendto(b"hello", udp.getsockname())
            sender.sendto(b"hello", host.path("in.sock"))
            equal(a.recv(10), b"hello")
            equal([client.recv(10) for _ in range(2)], [b"hello", b"again"], "answers to the peer")
            said = dict(line.split(": ", 1) for line in running.finish().out.splitlines() if ": " in line)
    os.unlink(host.path("in.sock"))
    return said["tcp connect"], said["udp send"], said["udp answer"]


@case
def all_pods_share_the_filters_of_sockets(host):
    """There is one program of each kind, however many pods: another pod takes none of the kernel's places. It stays for the others when one
    ends, or its supervisor is killed."""
    record = "/run/acnspawn/socket-filters/numbers"
    filtered = ("Operation not permitted", "Operation not permitted", "possible")
    with listener() as tcp:
        image = server(host, ports=[port("tcp", 8080)])
        uuid = start_with(host, [tcp], "run", "--strict", "--detach", "--name=p", image, names=["tcp"]).finish(0).out.strip()
        numbers = read_text(record)
        with as_many_programs_as_the_kernel_takes():
            equal(door(host, "--strict", "--net=none"), filtered)
            equal(read_text(record), numbers, "the parts of the set")
        ask(tcp.getsockname())
        with listener() as other:
            second = start_with(host, [other], "run", "--strict", "--detach", "--name=q", image, names=["tcp"]).finish(0).out.strip()
            os.kill(host.supervisor(uuid), signal.SIGKILL)
            wait_for(lambda: host.state(uuid) == "exited", "the end of the pod")
            equal(door(host, "--strict", "--net=none"), filtered)
            equal(read_text(record), numbers, "the parts of the set")
            stop(host, second)
        host.acnspawn("rm", uuid).expect(0)


# --- The pod's own ------------------------------------------------------------------------------------------------------

@case
def a_connection_starts_the_app(host):
    uuid = host.detach(server(host))
    equal(host.app_status(uuid, "web")["state"], "waiting", "state before any connection")
    equal(host.state(uuid), "running")
    said = in_network_of(host, uuid, lambda: ask(("127.0.0.1", 8080)))
    equal(said["listen_pid"], said["pid"], "LISTEN_PID")
    equal((said["fds"], said["names"], said["fd"], said["asked"]), ("1", "http", "3", "hello"))
    # It may answer before the supervisor has seen that it is executed.
    wait_for(lambda: host.app_status(uuid, "web")["state"] == "running", "the state of the app")
    said = in_network_of(host, uuid, lambda: ask(("::1", 8080), family=socket.AF_INET6))
    equal(said["name"], "http", "over IPv6")
    stop(host, uuid)


@case
def ports_that_the_user_names(host):
    """--socket-activated=: ports of an image that does not mark them, by name and number, and others that it does not have."""
    web = {"name": "http", "protocol": "tcp", "port": 8080}
    dns = {"name": "dns", "protocol": "udp", "port": 5353}
    image = server(host, ports=[web, dns, {"name": "plain", "protocol": "tcp", "port": 1}])
    uuid = host.detach(image, "--socket-activated=http,5353/udp,9090,http")
    equal([(p["name"], p["port"]) for p in json.loads(host.acnspawn("cat-manifest", uuid).expect(0).out)["apps"][0]["app"]["ports"]
           if p.get("socketActivated")], [("http", 8080), ("dns", 5353), ("9090-tcp", 9090)])
    equal(host.app_status(uuid, "web")["state"], "waiting")
    said = in_network_of(host, uuid, lambda: [ask(("127.0.0.1", 8080)), ask_datagram(("127.0.0.1", 5353)), ask(("127.0.0.1", 9090))])
    equal([x["name"] for x in said], ["http", "dns", "9090-tcp"])
    equal(said[0]["names"], "http:dns:9090-tcp")
    stop(host, uuid)
    for word, rc, why, hint in (
            ("https", 1, "App web has no port 'https' that could be socket-activated", "Its ports are http, dns, plain; another one can be given as a number"),
            ("0", 2, "must be ports, by their names in the image, or as 80 or 53/udp", ""), ("80/sctp", 2, "must be ports", "")):
        r = host.acnspawn("prepare", image, "--socket-activated=" + word).expect(rc)
        contains(r.err, why)
        contains(r.err, hint)
    r = host.acnspawn("prepare", host.shell("true", name="example.com/none"), "--socket-activated=x").expect(1)
    contains(r.err, "Its image declares no ports; a port can be given as a number: 80, or 53/udp.")
    # As the socket unit of a declared pod has it: a pod without a network, whose exposed port is one of the host.
    with listener() as s:
        n = s.getsockname()[1]
        running = start_with(host, [s], "run", "--name=own", "--port=%d:8080" % n, image, "--socket-activated=8080", names=["acnspawn@own.socket"])
        equal(ask(("127.0.0.1", n))["name"], "http")
        stop(host, "own")
        running.finish()
    # The host's low ports: an image has to be granted them, the user has them by naming them.
    low = server(host, ports=[port("low", 999)], name="example.com/low")
    contains(host.acnspawn("prepare", "--net=host", low).expect(1).err, "port:low")
    host.acnspawn("prepare", "--net=host", low, "--socket-activated=low").expect(0)
    host.acnspawn("prepare", "--net=host", low, "--socket-activated=999").expect(0)


@case
def several_apps_ports_and_ranges(host):
    """D6: each app gets its own sockets, in the order of its ports, and no other."""
    ports = [port("z-last", 7000, count=3), port("admin", 9000), port("ask", 5353, "udp"), {"name": "plain", "protocol": "tcp", "port": 1}]
    a = server(host, ports=ports, name="example.com/a")
    b = server(host, ports=[port("http", 80)], name="example.com/a-b")
    plain = host.shell("show /out; touch /out/up; sleep 1000", name="example.com/plain")
    uuid = host.detach(a, b, plain)
    host.wait_up("plain")
    equal(sorted(host.show("plain").fds), [0, 1, 2], "descriptors of an app without such ports")
    true(not any(k.startswith(b"LISTEN_") for k in host.show("plain").environ), "variables of an app without such ports")

    said = in_network_of(host, uuid, lambda: [ask(("127.0.0.1", n)) for n in (7002, 7000, 7001, 9000)] +
                         [ask_datagram(("127.0.0.1", 5353))] + [ask(("127.0.0.1", 80))])
    equal([(x["fd"], x["name"]) for x in said], [("5", "z-last"), ("3", "z-last"), ("4", "z-last"), ("6", "admin"),
                                                 ("7", "ask"), ("3", "http")])
    equal(said[0]["names"], "z-last:z-last:z-last:admin:ask")
    equal(said[5]["names"], "http")
    true(said[0]["pid"] != said[5]["pid"], "two apps are two processes")
    stop(host, uuid)


@case
def an_app_has_its_sockets_and_nothing_else(host):
    """D1: an app gets descriptors 0 to 2, and its sockets; handlers get no socket, and images cannot set the
    variables."""
    fake = [{"name": "LISTEN_FDS", "value": "7"}, {"name": "LISTEN_PID", "value": "1"}, {"name": "LISTEN_FDNAMES", "value": "x"}]
    handlers = [{"name": n, "exec": ["/bin/sh", "-c", "ls -l /proc/self/fd >/out/%s; env >>/out/%s" % (n, n)]}
                for n in ("pre-start", "post-stop")]
    image = host.image(["/bin/sh", "-c", "show /out; exec serve max=1"], name="example.com/web", app={
        "ports": [HTTP, port("more", 9000, count=2)], "environment": fake, "eventHandlers": handlers})
    plain = host.shell("env >/out/env; touch /out/up; sleep 1000", name="example.com/plain", app={"environment": fake})
    uuid = host.detach(image, plain)
    host.wait_up("plain")
    lacks(host.written("plain", "out/env").decode(), "LISTEN_", "environment of an app without sockets")
    equal(host.app_status(uuid, "web")["preStart"]["ran"], False, "pre-start handler before a connection")
    in_network_of(host, uuid, lambda: ask(("127.0.0.1", 8080)))
    show = host.show("web")
    equal(sorted(show.fds), [0, 1, 2, 3, 4, 5], "descriptors")
    true(all(show.fds[n].startswith("socket:") for n in (3, 4, 5)), "sockets: %r" % show.fds)
    equal(show.environ[b"LISTEN_FDS"], b"3")
    equal([k for k in show.environ_list if k.startswith(b"LISTEN_")],
          [b"LISTEN_FDS=3", b"LISTEN_PID=" + show.environ[b"LISTEN_PID"], b"LISTEN_FDNAMES=http:more:more"])
    wait_for(lambda: host.app_status(uuid, "web")["state"] == "ended", "end of the app")
    for n in "pre-start", "post-stop":
        text = host.written("web", "out/" + n).decode()
        lacks(text, "socket:", "descriptors of the handler " + n)
        lacks(text, "LISTEN_", "environment of the handler " + n)
    stop(host, uuid)


@case
def connections_start_the_app_again_and_again(host):
    uuid = host.detach(server(host, "max=1"))
    pids = set()
    for i in range(1, 5):
        pids.add(in_network_of(host, uuid, lambda: ask(("127.0.0.1", 8080)))["pid"])
        # It may be answered before the state of the app is another one than that of its last execution.
        wait_for(lambda: [host.app_status(uuid, "web")[k] for k in ("starts", "state")] == [i, "ended"], "end %d of the app" % i)
    equal(len(pids), 4, "processes that answered")
    contains(host.acnspawn("status", uuid).out, "started 4 times")
    stop(host, uuid)
    equal(host.status(uuid)["exitStatus"], 0)


@case
def an_app_that_was_never_started_has_not_failed(host):
    uuid = host.detach(server(host))
    stop(host, uuid)
    equal(host.status(uuid)["exitStatus"], 0)
    equal(host.app_status(uuid, "web")["state"], "waiting")


@case
def many_connections_before_the_app_is_there(host):
    image = host.image(["/bin/sh", "-c", "sleep 1; exec serve"], name="example.com/web", app={"ports": [HTTP]})
    uuid = host.detach(image)

    def many():
        sockets = [socket.create_connection(("127.0.0.1", 8080), 30) for _ in range(200)]
        for i, s in enumerate(sockets):
            s.sendall(b"%d\n" % i)
        answers = [s.makefile().readline().split()[-1] for s in sockets]
        return answers

    equal(in_network_of(host, uuid, many), ["asked=%d" % i for i in range(200)])
    equal(host.app_status(uuid, "web")["starts"], 1)
    stop(host, uuid)


@case
def an_app_that_fails_ends_the_pod(host):
    uuid = host.detach(server(host, "fail"))
    in_network_of(host, uuid, lambda: ask(("127.0.0.1", 8080)))
    host.acnspawn("status", "--wait=30s", uuid)
    equal(host.status(uuid)["exitStatus"], 3)


@case
def an_app_that_shuts_its_socket_down_ends_the_pod_with_a_reason(host):
    uuid = host.detach(server(host, "shutdown"))
    in_network_of(host, uuid, lambda: socket.create_connection(("127.0.0.1", 8080), 10).close())
    host.acnspawn("status", "--wait=30s", uuid)
    equal(host.status(uuid)["exitStatus"], 125)
    app = host.app_status(uuid, "web")
    equal(app["cause"], "sockets-failed")
    contains(app["message"], "shut down")


@case
def an_app_that_leaves_connections_pending_is_given_up(host):
    uuid = host.detach(server(host, "leave"))
    in_network_of(host, uuid, lambda: socket.create_connection(("127.0.0.1", 8080), 10).close())
    host.acnspawn("status", "--wait=60s", uuid)
    equal(host.app_status(uuid, "web")["cause"], "sockets-failed")
    true(host.app_status(uuid, "web")["starts"] > 5, "starts")
    equal(host.status(uuid)["exitStatus"], 125)


@case
def starts_by_connections_are_not_consecutive_restarts(host):
    """An app that exits successfully after each connection is not delayed increasingly; one that fails is not
    restarted any more."""
    uuid = host.detach(server(host, "max=1"), "--restart=on-failure", "--restart-delay=500ms", "--restart-delay-max=30s")
    for i in range(1, 6):
        began = time.monotonic()
        in_network_of(host, uuid, lambda: ask(("127.0.0.1", 8080)))
        true(time.monotonic() - began < patience(2), "connection %d waited %.1f s" % (i, time.monotonic() - began))
        wait_for(lambda: host.app_status(uuid, "web")["state"] == "ended", "end of the app")
    equal(host.app_status(uuid, "web")["startsInRow"], 1)
    stop(host, uuid)
    for policy, command, status in (("all", "exit 3", 3), ("on-failure", "exit 3", 3), ("any", "exit 4", 4)):
        image = host.image(["/bin/sh", "-c", command], name="example.com/web", app={"ports": [HTTP]})
        uuid = host.detach("--exit-policy=" + policy, image, "--restart=on-failure", "--restart-delay=10ms", "--restart-limit=2")
        in_network_of(host, uuid, lambda: socket.create_connection(("127.0.0.1", 8080), 10).close())
        host.acnspawn("status", "--wait=60s", uuid)
        equal(host.status(uuid)["exitStatus"], status, "status of the pod with exit policy " + policy)
        app = host.app_status(uuid, "web")
        equal((app["starts"], app["cause"], app["nextStart"]), (3, "exited", None))
        contains(host.acnspawn("status", uuid).out, "restarted 2 of at most 2 times in a row, and given up")


@case
def the_restart_limit_holds_in_a_pod_that_continues(host):
    """Only a call can start the app then: connections are refused."""
    image = host.image(["/bin/sh", "-c", "exit 3"], name="example.com/web", app={"ports": [HTTP]})
    uuid = host.detach("--name=p", "--exit-policy=never", image, "--restart=on-failure", "--restart-delay=10ms", "--restart-limit=2")
    in_network_of(host, uuid, lambda: socket.create_connection(("127.0.0.1", 8080), 10).close())

    def refused():
        with contextlib.suppress(ConnectionResetError): # a connection that was made while the socket was closed
            try:
                socket.create_connection(("127.0.0.1", 8080), 10).close()
            except ConnectionRefusedError:
                return True
        return False
    wait_for(lambda: in_network_of(host, uuid, refused), "that connections are refused")
    wait_for(lambda: host.app_status(uuid, "web")["state"] == "ended", "the end of the app")
    host.wait_at_rest(uuid)
    app = host.app_status(uuid, "web")
    equal((app["starts"], app["cause"], app["exitStatus"], app["nextStart"]), (3, "exited", 3, None))
    equal(host.state(uuid), "running")
    stop(host, uuid)


@case
def an_app_that_closes_its_socket_keeps_it_for_the_next_one(host):
    image = host.image(["/bin/sh", "-c", "test -e /v/once && exec serve; touch /v/once; exec 3>&-; exit 0"],
                       name="example.com/web", app={"ports": [HTTP]})
    volume = host.path("v")
    os.mkdir(volume)
    os.chmod(volume, 0o777)
    uuid = host.detach("--no-userns", "--volume=v,kind=host,source=" + volume, "--mount=v:/v", image)
    equal(in_network_of(host, uuid, lambda: ask(("127.0.0.1", 8080)))["name"], "http")
    equal(host.app_status(uuid, "web")["starts"], 2)
    stop(host, uuid)


@case
def ports_that_cannot_be(host):
    for ports, why in (
            ([port("a", 80), port("b", 80)], "are both socket-activated as port 80/tcp"),
            ([port("a", 80, count=5), port("b", 84)], "are both socket-activated as port 84/tcp"),
            ([port("a", 80, "sctp")], "its protocol is 'sctp', not tcp or udp"),
            ([port("a", 1000, count=300)], "at most 256 are possible"),
            ([port("a" * 300, 80)], "more than 255 characters")):
        r = host.acnspawn("prepare", server(host, ports=ports)).expect(1)
        contains(r.err, why)
    r = host.acnspawn("prepare", server(host, ports=[port("a", 80), port("b", 80, "udp")])).expect(0)
    r = host.acnspawn("prepare", server(host, name="example.com/a"), server(host, name="example.com/b")).expect(1)
    contains(r.err, "of app a and port 'http' of app b")
    r = host.acnspawn("prepare", "--exit-idle-time=5", host.shell("true")).expect(1)
    contains(r.err, "none of its apps has a socket-activated port")


@case
def in_the_hosts_network(host):
    with listener() as s:
        number = s.getsockname()[1]
        taken = host.prepare("--net=host", server(host, ports=[port("http", number)], name="example.com/taken"))
        r = host.acnspawn("run", taken).expect(1)
        contains(r.err, "Cannot listen on port %d/tcp for port 'http' of app taken: Address already in use" % number)
    uuid = host.detach("--net=host", server(host, ports=[port("http", number)]))
    equal(ask(("127.0.0.1", number))["name"], "http")
    stop(host, uuid)


@case
def a_pod_that_an_earlier_version_has_prepared(host):
    """Its units listen; now that is what the supervisor does."""
    uuid = host.prepare(server(host))
    units = host.pod_dir(uuid) + "/root/acnspawn/units/"
    with open(units + "app-web:1.socket", "w") as f:
        f.write("[Unit]\nDefaultDependencies=no\n[Socket]\nService=app-web.service\nListenStream=8080\n")
    with open(units + "app-web.service", "a") as f:
        f.write("Sockets=app-web:1.socket\n")
    with open(units + "default.target", "a") as f:
        f.write("Wants=app-web:1.socket\nAfter=app-web:1.socket\n")
    os.mkdir(units + "-.slice.d")
    with open(units + "-.slice.d/sockets.conf", "w") as f:
        f.write("[Unit]\nBefore=app-web:1.socket\n")
    host.acnspawn("run", "--detach", uuid).expect(0)
    equal(in_network_of(host, uuid, lambda: ask(("127.0.0.1", 8080)))["names"], "http")
    equal(os.path.exists(units + "app-web:1.socket"), False)
    stop(host, uuid)


# --- The host's ---------------------------------------------------------------------------------------------------------

@case
def a_socket_of_the_host_serves_a_pod_without_a_network(host):
    """The same socket, by its inode; besides the app only the supervisor has it, which watches it."""
    with listener() as s:
        number = s.getsockname()[1]
        p = start_with(host, [s], "run", "--net=none", "--port=http:%d" % number, server(host, "max=1"), names=["whatever.socket"])
        said = ask(("127.0.0.1", number))
        equal((said["listen_pid"], said["names"], said["fds"]), (said["pid"], "http", "1"))
        inode = os.fstat(s.fileno()).st_ino
        uuid = os.path.basename(host.one_pod())
        for pid, n in (p.pid, 0), (host.supervisor(uuid), 1), (host.leader(uuid), 0):
            kept = list(descriptors_of(pid).values())
            equal(kept.count("socket:[%d]" % inode), n, "copies of the socket that process %d has" % pid)
        for i in range(3):
            ask(("127.0.0.1", number))
        host.note_pods()
        uuid = next(iter(host.uuids))
        equal(host.status(uuid)["sockets"], [{"app": "web", "port": "http", "type": "tcp", "address": "127.0.0.1:%d" % number,
                                              "name": "whatever.socket", "exposed": None}])
        contains(host.acnspawn("status", uuid).expect(0).out,
                 "Sockets: 127.0.0.1:%d/tcp serves web/http, passed as whatever.socket\n" % number)
        stop(host, uuid)
        p.finish(0)
        equal(host.status(uuid)["sockets"], [], "sockets of a pod that has ended")


@case
def a_port_that_is_exposed_by_its_number_needs_no_network(host):
    with listener() as s:
        number = s.getsockname()[1]
        p = start_with(host, [s], "run", "--name=p", "--net=none", "--port=%d:8080" % number, server(host, "max=1"))
        equal(ask(("127.0.0.1", number))["names"], "http")
        stop(host, "p")
        p.finish(0)


@case
def by_name_and_by_unix_socket(host):
    path = host.path("s.sock")
    with listener() as tcp, listener(socket.AF_UNIX, address=path) as unix, \
            listener(socket.AF_UNIX, address="\0acnspawn-test-%d" % os.getpid()) as abstract, \
            listener(type=socket.SOCK_DGRAM) as udp, listener(socket.AF_INET6) as six:
        ports = [HTTP, port("ask", 53, "udp")]
        other = server(host, ports=[port("http", 81)], name="example.com/other")
        p = start_with(host, [udp, tcp, unix, abstract, six], "run", server(host, ports=ports), other,
                       names=["ask", "web/http", "web/http", "web/http", "other/http"])
        equal(ask(("127.0.0.1", tcp.getsockname()[1]))["names"], "http:http:http:ask")
        equal(ask(path, family=socket.AF_UNIX)["fd"], "4")
        equal(ask(abstract.getsockname(), family=socket.AF_UNIX)["fd"], "5")
        equal(ask_datagram(udp.getsockname())["fd"], "6")
        equal(ask(six.getsockname()[:2], family=socket.AF_INET6)["names"], "http")
        told = {(s["app"], s["port"], s["type"], s["address"].split(":%d" % tcp.getsockname()[1])[0].split(":")[0])
                for s in host.status(os.path.basename(host.one_pod()))["sockets"]}
        true({("web", "ask", "udp", "127.0.0.1"), ("web", "http", "tcp", "127.0.0.1"), ("web", "http", "stream", path),
              ("web", "http", "stream", "@acnspawn-test-%d" % os.getpid())} < told and len(told) == 5, "sockets: %r" % told)
        true(os.path.exists(path), "the host's socket in the file system")
        host.note_pods()
        stop(host, next(iter(host.uuids)))
        p.finish(0)
        true(os.path.exists(path), "the host's socket after the pod")


@case
def mismatches_are_reported_before_anything_starts(host):
    image = server(host, ports=[port("http", 8080), port("range", 7000, count=2), port("ask", 53, "udp")])
    plain = host.shell("true", name="example.com/plain")
    with listener() as s, listener() as t, listener(type=socket.SOCK_DGRAM) as d, open(os.devnull) as null, \
            socket.socket() as unbound:
        n = s.getsockname()[1]
        pair = socket.socketpair()
        twin = s.dup()
        for sockets, names, more, why in (
                ([s], None, [image], "Socket 3 (tcp 127.0.0.1:%d), passed by LISTEN_FDS, fits no socket-activated port" % n),
                ([s], ["x.socket"], [image], "web/http (8080/tcp), web/range (7000/tcp), web/ask (53/udp)"),
                ([s], None, [plain], "fits no socket-activated port of pod"),
                ([s], None, [plain], "No app has a port that is socketActivated in its image, or named by --socket-activated=; without LISTEN_FDS"),
                ([s], ["ask"], [image], "is named after port 'ask' of app web, which is udp"),
                ([d], ["http"], [image], "is named after port 'http' of app web, which is tcp"),
                ([s], ["range"], [image], "1 sockets were passed for port 'range' of app web, which has 2 numbers, from 7000 on"),
                ([s], ["http"], ["--port=http:1", image], "is exposed as port 1 of the host"),
                ([s, twin], ["http", "http"], [image], "has the same address as socket 3"),
                ([], [], ["--port=http:1", image], "no socket was passed for it, and the pod has no network"),
                ([t], ["http"], [image, "---", server(host, ports=[port("http", 1)], name="example.com/b")], "fits the port of two apps, web and b"),
                ([s, null], ["http", "http"], [image], "Descriptor 4, passed by LISTEN_FDS, cannot be used: it is not a socket"),
                ([unbound], ["http"], [image], "it does not listen"),
                ([pair[0]], ["http"], [image], "it does not listen, or is a connection already (Accept=yes)"),
                ([s], ["http", "more"], [image], "more names than LISTEN_FDS sockets")):
            r = start_with(host, sockets, "run", *more, names=names).finish()
            equal(r.rc, 1, "exit status, where %r was expected, of %s" % (why, r))
            contains(r.err, why)
            equal(host.pods(), [], "pods that were made for nothing")
        for end in pair:
            end.close()
        twin.close()


@case
def variables_that_lie(host):
    image = server(host)
    with listener() as s:
        n = s.getsockname()[1]
        for count, why in ((100000, "LISTEN_FDS says that 100000 sockets are passed; more than 256 cannot be"),
                           (-1, "LISTEN_FDS is not a number of sockets"), (99999999999, "LISTEN_FDS is not a number of sockets"),
                           (2, "LISTEN_FDS says that 2 sockets are passed, but descriptor 4 is not open")):
            r = start_with(host, [s], "run", image, count=count).finish(1)
            contains(r.err, why)
        equal(host.pods(), [], "pods")
        r = start_with(host, [s], "run", "--port=http:%d" % n, image, pid=1).finish(1)
        contains(r.err, "LISTEN_PID is 1, not this process")
        contains(r.err, "no socket was passed for it")


@case
def sockets_and_the_end_of_a_pod(host):
    """A connection that is made while the pod ends, or between two pods, is served by the next pod."""
    with listener() as s:
        number = s.getsockname()[1]
        image = server(host, "max=1")
        asked = []
        for i in range(3):
            p = start_with(host, [s], "run", "--rm", "--port=http:%d" % number, image)
            with contextlib.ExitStack() as waiting:
                ask(("127.0.0.1", number), "first")
                os.kill(p.pid, signal.SIGTERM)
                asked = [waiting.enter_context(socket.create_connection(("127.0.0.1", number), 30)) for _ in range(20)]
                for k in asked:
                    k.sendall(b"late\n")
                p.finish()
                q = start_with(host, [s], "run", "--rm", "--port=http:%d" % number, server(host))
                for k in asked:
                    k.settimeout(30)
                    # Some may have been answered by the first pod.
                    contains(k.makefile().readline(), "asked=late")
                os.kill(q.pid, signal.SIGTERM)
                q.finish()


@case
def connections_remain_when_the_pod_ends_by_itself(host):
    """The pod's systemd was told to by another process than the supervisor; it takes a while."""
    slow = host.shell("trap ': >/out/ends; " + pauses(4) + "; exit 0' TERM; touch /out/up; while :; do sleep 0.05; done", name="example.com/slow")
    with listener() as s:
        number = s.getsockname()[1]
        p = start_with(host, [s], "run", "--name=p", "--port=http:%d" % number, server(host, "max=1"), slow)
        ask(("127.0.0.1", number))
        host.wait_up("slow")
        wait_for(lambda: host.app_status("p", "web")["state"] == "ended", "the end of the app")
        os.kill(host.leader("p"), signal.SIGRTMIN + 3)
        wait_for(lambda: os.path.exists(host.upper("slow") + "/out/ends"), "the pod's systemd ends the apps")
        with socket.create_connection(("127.0.0.1", number), 30) as late:
            late.sendall(b"late\n")
            p.finish(0)
            app = host.app_status("p", "web")
            equal((app["cause"], app["starts"], app["exitStatus"]), ("exited", 1, 0))
            q = start_with(host, [s], "run", "--rm", "--port=http:%d" % number, server(host))
            contains(late.makefile().readline(), "asked=late")
            os.kill(q.pid, signal.SIGTERM)
            q.finish()


@case
def an_idle_pod_ends(host):
    with listener() as s:
        number = s.getsockname()[1]
        image = server(host, "idle=1")
        p = start_with(host, [s], "run", "--exit-idle-time=2", "--port=http:%d" % number, image)
        began = time.monotonic()
        ask(("127.0.0.1", number))
        ask(("127.0.0.1", number))
        r = p.finish(0)
        took = time.monotonic() - began
        true(2.9 <= took < patience(15), "it took %.1f s" % took)
        contains(r.err, "is idle: it ends")
        # Also without any connection; and not while an app that is not socket-activated runs.
        start_with(host, [s], "run", "--exit-idle-time=500ms", "--port=http:%d" % number, image).finish(0)
        p = start_with(host, [s], "run", "--exit-idle-time=500ms", "--port=http:%d" % number, image, host.shell("sleep 3; exit 7", name="example.com/b"))
        began = time.monotonic()
        p.finish(7)
        true(time.monotonic() - began > 2.9, "the pod ended while an app ran")


@case
def an_ended_app_does_not_keep_an_idle_pod(host):
    ended = host.shell("sleep 0.3; kill -TERM $$", name="example.com/ended")  # for systemd that is in order
    given_up = host.shell("exit 143", name="example.com/given-up")
    with listener() as s:
        p = start_with(host, [s], "run", "--exit-idle-time=1s", "--exit-policy=all", "--port=http:%d" % s.getsockname()[1],
                       server(host, "idle=1"), ended, "--restart=on-failure", given_up, "--restart=on-failure",
                       "--restart-delay=100ms", "--restart-limit=1")
        contains(p.finish(143).err, "is idle: it ends")


@case
def a_restart_of_the_app_by_hand_keeps_its_sockets(host):
    uuid = host.detach(server(host))
    first = in_network_of(host, uuid, lambda: ask(("127.0.0.1", 8080)))["pid"]
    host.acnspawn("restart-app", uuid, "web").expect(0)
    second = in_network_of(host, uuid, lambda: ask(("127.0.0.1", 8080)))
    true(first != second["pid"], "the app is another process")
    equal(second["listen_pid"], second["pid"])
    stop(host, uuid)


@case
def a_detached_pod_has_the_sockets_too(host):
    with listener() as s:
        r = start_with(host, [s], "run", "--detach", server(host), names=["http"]).finish(0)
        uuid = r.out.strip()
        ask(s.getsockname())
        stop(host, uuid)


main()
