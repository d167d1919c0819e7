#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Pods that socket units of a real host start: the first connection, stop and start under load, idleness."""

import socket
import threading

from harness import *

UNITS = "/run/systemd/system/"
DECLARED = "/etc/acnspawn/pods/web.pod"
PORT = 8099
HTTP = {"name": "http", "protocol": "tcp", "port": 8080, "socketActivated": True}
ASK = {"name": "ask", "protocol": "udp", "port": 5353, "socketActivated": True}

SOCKET = """[Socket]
ListenStream=127.0.0.1:%d
ListenStream=%s
FileDescriptorName=http
"""

DATAGRAM = """[Socket]
ListenDatagram=127.0.0.1:%d
FileDescriptorName=ask
Service=acnspawn-test.service
"""

SERVICE = """[Service]
Type=notify
Sockets=acnspawn-test.socket acnspawn-test-ask.socket
ExecStart=%s --dir=%s run --rm --net=none --pull-policy=never --exit-idle-time=%s example.com/web
StandardInput=null
"""


def systemctl(*args, check=True):
    return subprocess.run(["systemctl", *args], check=check, stdout=subprocess.PIPE, text=True).stdout.strip()


@contextlib.contextmanager
def units(host, idle="infinity"):
    path = host.path("web.sock")
    texts = {"acnspawn-test.socket": SOCKET % (PORT, path), "acnspawn-test-ask.socket": DATAGRAM % PORT,
             "acnspawn-test.service": SERVICE % (ACNSPAWN, host.dir, idle)}
    for name, text in texts.items():
        with open(UNITS + name, "w") as f:
            f.write(text)
    systemctl("daemon-reload")
    systemctl("start", "acnspawn-test.socket", "acnspawn-test-ask.socket")
    try:
        yield path
    finally:
        systemctl("stop", *texts, check=False)
        for name in texts:
            os.unlink(UNITS + name)
        systemctl("daemon-reload")


def image(host, *words):
    host.acnspawn("fetch", host.image(["/bin/serve", *words], name="example.com/web",
                                                                 app={"ports": [HTTP, ASK]})).expect(0)


def ask(address=("127.0.0.1", PORT), text="x", family=socket.AF_INET, timeout=90):
    with socket.socket(family) as s:
        s.settimeout(timeout)
        s.connect(address)
        s.sendall(text.encode() + b"\n")
        return s.makefile().readline()


def ask_datagram(text, timeout=90):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(timeout)
        s.sendto(text.encode(), ("127.0.0.1", PORT))
        return s.recv(4096).decode()


def state(name="acnspawn-test.service"):
    return systemctl("is-active", name, check=False)


@case
def the_first_connection_starts_the_pod(host):
    image(host)
    with units(host) as path:
        equal(state(), "inactive", "the service before any connection")
        began = time.monotonic()
        answer = ask()
        first = time.monotonic() - began
        contains(answer, "name=http asked=x")
        contains(answer, "names=http:http:ask")
        began = time.monotonic()
        ask()
        print("# first answer after %.2f s, with the start of the pod; the next after %.4f s" % (first, time.monotonic() - began))
        contains(ask(path, family=socket.AF_UNIX), "fd=4 name=http")
        contains(ask_datagram("y"), "name=ask asked=y")
        wait_for(lambda: state() == "active", "readiness of the service")


@case
@with_timeout(600)
def nothing_is_lost_while_the_pod_is_stopped_and_started(host):
    """Connections and datagrams go on while the service is stopped again and again; each is answered."""
    image(host)
    with units(host):
        ask()
        done, answered, failures = threading.Event(), [0, 0], []

        def client(number, function):
            while not done.is_set():
                text = "%d" % answered[number]
                try:
                    contains(function(text), "asked=" + text + "\n")
                except (OSError, Failure) as e:
                    failures.append("%s %s: %s" % (function.__name__, text, e))
                    return
                answered[number] += 1

        threads = [threading.Thread(target=client, args=(0, lambda t: ask(text=t))),
                   threading.Thread(target=client, args=(1, ask_datagram))]
        for t in threads:
            t.start()
        for _ in range(3):
            before = list(answered)
            wait_for(lambda: failures or all(a > b for a, b in zip(answered, before)), "answers", timeout=120)
            systemctl("stop", "acnspawn-test.service")
        before = list(answered)
        wait_for(lambda: failures or all(a > b for a, b in zip(answered, before)), "answers after the last start", timeout=120)
        done.set()
        for t in threads:
            t.join()
        equal(failures, [], "connections and datagrams that got no answer")
        print("# %d connections and %d datagrams over 3 stops, all answered" % tuple(answered))


@case
@with_timeout(600)
def an_idle_pod_ends_and_comes_back(host):
    image(host, "idle=1")
    with units(host, "2s"):
        for _ in range(2):
            contains(ask(), "asked=x")
            wait_for(lambda: state() == "inactive", "end of the idle pod", timeout=60)
            equal(systemctl("show", "-P", "Result", "acnspawn-test.service"), "success")
            equal(state("acnspawn-test.socket"), "active", "the socket unit")
            host.note_pods()
        equal(host.pods(), [], "pods")


@contextlib.contextmanager
def declared(host, sockets="[Socket]\nListenStream=127.0.0.1:%d\nFileDescriptorName=http\n" % PORT):
    """A declared pod, whose socket unit acnspawn-generator makes."""
    text = ("[App web]\nImage=example.com/web\n[Pod]\nPullPolicy=never\n[Service]\nEnvironment=ACNSPAWN_DIR=%s\n"
            "%s[Install]\nWantedBy=sockets.target\n" % (host.dir, sockets))
    os.makedirs(os.path.dirname(DECLARED), exist_ok=True)
    with open(DECLARED, "w") as f:
        f.write(text)
    systemctl("daemon-reload")
    try:
        yield "acnspawn@web.socket", "acnspawn@web.service"
    finally:
        host.note_pods()
        systemctl("stop", "acnspawn@web.socket", "acnspawn@web.service", check=False)
        os.unlink(DECLARED)
        systemctl("stop", "system-acnspawn.slice", check=False)
        systemctl("daemon-reload")


@case
@with_timeout(600)
def the_socket_of_a_declared_pod(host):
    """Started alone; a connection starts the pod; the service is stopped and restarted, the socket stays."""
    host.acnspawn("fetch", host.image(["/bin/serve"], name="example.com/web", app={"ports": [HTTP]})).expect(0)
    with declared(host) as (socket_unit, service):
        contains(systemctl("list-dependencies", "--plain", "sockets.target"), socket_unit)
        lacks(systemctl("list-dependencies", "--plain", "multi-user.target"), service)
        systemctl("start", socket_unit)
        equal((state(socket_unit), state(service)), ("active", "inactive"))
        equal(host.pods(), [])
        contains(ask(), "name=http asked=x")
        wait_for(lambda: state(service) == "active", "readiness of the service")
        first = host.status("web")
        equal((first["unit"], [(s["port"], s["address"]) for s in first["sockets"]]), (service, [("http", "127.0.0.1:%d" % PORT)]))
        contains(systemctl("status", service), "TriggeredBy: ")
        systemctl("stop", service)
        equal((state(socket_unit), state(service), host.state(first["uuid"])), ("active", "inactive", "exited"))
        contains(ask(), "asked=x")
        second = host.status("web")
        equal(second["predecessor"], first["uuid"])
        systemctl("restart", service)
        contains(ask(), "asked=x")
        equal((host.status("web")["predecessor"], state(socket_unit)), (second["uuid"], "active"))
        systemctl("stop", socket_unit, service)
        equal((state(socket_unit), state(service)), ("inactive", "inactive"))
        try:
            ask()
            fail("a connection was accepted after the end of the socket")
        except ConnectionRefusedError:
            pass


@case
@with_timeout(600)
def ports_that_start_an_app_have_a_socket(host):
    """Without a section for it, of an image that marks no port; it is started with the service, and starts it later."""
    host.acnspawn("fetch", host.image(["/bin/serve"], name="example.com/web")).expect(0)
    with declared(host, "[Pod]\nPort=127.0.0.1:%d:8080\n[App web]\nSocketActivated=8080\n" % PORT) as (socket_unit, service):
        contains(systemctl("list-dependencies", "--plain", "sockets.target"), socket_unit)
        systemctl("start", service)
        equal((state(socket_unit), state(service)), ("active", "active"))
        first = host.status("web")
        equal([s["address"] for s in first["sockets"]], ["127.0.0.1:%d" % PORT])
        equal(host.app_status("web", "web")["state"], "waiting")
        contains(ask(), "asked=x")
        systemctl("stop", service)
        equal((state(socket_unit), state(service)), ("active", "inactive"))
        contains(ask(), "asked=x")
        equal(host.status("web")["predecessor"], first["uuid"])
        systemctl("restart", service)
        contains(ask(), "asked=x")


main()
