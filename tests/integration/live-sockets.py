#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Apps with socket-activated ports that are added to a running pod, replaced and removed."""

import glob
import signal
import socket
import threading

from listening import *
from pod_interface import *

FOREVER = "trap 'exit 0' TERM; touch /out/up; while :; do sleep 0.05; done"
ADDRESS = ("127.0.0.1", 8080)


def pod(host, *options):
    """A pod "p" without apps, which stays."""
    return host.acnspawn("run", "--detach", "--exit-policy=never", "--name=p", *options).expect(0).out.strip()


def add(host, *args):
    host.acnspawn("add-app", "p", *args).expect(0)


def refused(host, *args):
    r = host.acnspawn(*args).expect(1)
    equal(r.out, "")
    return r.err


def state(host, app="web"):
    return host.app_status("p", app)["state"]


def names(host):
    return [a["name"] for a in host.status("p")["apps"]]


def ask_in(host, uuid, number=8080):
    return in_network_of(host, uuid, lambda: ask(("127.0.0.1", number)))


def unaccepted(leader, number=8080):
    """How many connections to that port of the pod, whose PID 1 is LEADER, were made and not accepted yet."""
    rows = [line.split() for name in ("tcp", "tcp6") for line in read_text("/proc/%d/net/%s" % (leader, name)).splitlines()[1:]]
    return sum(int(row[4].split(":")[1], 16) for row in rows if row[1].endswith(":%04X" % number) and row[3] == "0A")


def connects(host, uuid, number=8080):
    """Whether something listens there; what connects is closed at once."""
    def connect():
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", number)) == 0
    return in_network_of(host, uuid, connect)


def units(host, uuid):
    return {n: read_text(host.pod_dir(uuid) + "/root/acnspawn/units/" + n)
            for n in os.listdir(host.pod_dir(uuid) + "/root/acnspawn/units") if "app-" in n}


def listening(host, uuid):
    """The local addresses of TCP sockets in the pod's network that listen, but for that of the metadata service."""
    lines = [line.split() for f in ("tcp", "tcp6") for line in read_text("/proc/%d/net/%s" % (host.leader(uuid), f)).splitlines()[1:]]
    return sorted(line[1] for line in lines if line[3] == "0A" and not line[1].endswith(":46C0"))


def settled(host, uuid):
    wait_for(lambda: sorted(n.split("@")[0] for n in os.listdir(host.pod_dir(uuid) + "/apps")) == sorted(names(host)),
             "the directories to be those of the apps")


# --- The life of an app ------------------------------------------------------------------------------------------------

@both
def an_added_app_is_started_by_a_connection(host, *options):
    uuid = pod(host, *options)
    add(host, server(host))
    equal((state(host), host.state("p")), ("waiting", "running"))
    said = ask_in(host, uuid)
    equal((said["fds"], said["names"], said["fd"], said["asked"], said["listen_pid"]), ("1", "http", "3", "hello", said["pid"]))
    # It may answer before the supervisor has seen that it is executed.
    wait_for(lambda: (state(host), host.app_status("p", "web")["starts"]) == ("running", 1), "the state of the app")
    equal(ask_in(host, uuid)["pid"], said["pid"], "the process that serves the second connection")
    host.acnspawn("stop-app", "p", "web").expect(0)
    equal(state(host), "ended")
    true(ask_in(host, uuid)["pid"] != said["pid"], "a connection starts it again")
    wait_for(lambda: state(host) == "running", "the state of the app")
    contains(refused(host, "rm-app", "p", "web"), "App web of pod p cannot be removed: it is running.")
    host.acnspawn("restart-app", "p", "web").expect(0)
    ask_in(host, uuid)
    host.acnspawn("rm-app", "--force", "p", "web").expect(0)
    equal((names(host), connects(host, uuid), listening(host, uuid), units(host, uuid)), ([], False, [], {}))
    host.acnspawn("stop", "p").expect(0)


@case
def an_added_app_is_like_one_of_the_beginning(host):
    ports = [port("z-last", 7000, count=70), port("admin", 9000), port("ask", 5353, "udp")]
    args = server(host, ports=ports), "--restart=on-failure", "--environment=A=b"
    first = host.detach("--exit-policy=never", *args)
    second = pod(host)
    add(host, *args)
    for uuid in first, second:
        # Each has more sockets than one packet for a launcher takes.
        said = in_network_of(host, uuid, lambda: [ask(("127.0.0.1", n)) for n in (7069, 7000, 9000)] + [ask_datagram(("127.0.0.1", 5353))])
        equal([(x["fd"], x["name"], x["fds"]) for x in said],
              [("72", "z-last", "72"), ("3", "z-last", "72"), ("73", "admin", "72"), ("74", "ask", "72")])
    equal(units(host, first), units(host, second))
    for uuid in first, second:
        wait_for(lambda: host.app_status(uuid, "web")["state"] == "running", "the state of the app")

    def lasting(uuid):
        app = dict(host.app_status(uuid, "web"))
        return {k: v for k, v in app.items() if "USec" not in k and "Time" not in k and k not in ("started", "ended", "pid")}

    equal(lasting(first), lasting(second))
    for uuid in first, second:
        c = Connection(host, uuid)
        wait_for(lambda: [(a["state"], a["starts"]) for a in c.call("Describe")["apps"]] == [("running", 1)], "what Describe tells")
        host.acnspawn("stop", uuid).expect(0)


@case
def the_same_name_gets_the_new_app(host):
    """Also where the first one was there from the beginning; no unit of it stays loaded."""
    host.detach("--name=p", "--exit-policy=never", server(host))
    uuid = host.status("p")["uuid"]
    for i in range(4):
        if i % 2:
            ask_in(host, uuid, 8080 + (i - 1) if i > 1 else 8080)
        number = 8080 + i
        began = time.monotonic()
        host.acnspawn("rm-app", "--force", "p", "web").expect(0)
        true(time.monotonic() - began < patience(4), "the units stay loaded: %.1f s" % (time.monotonic() - began))
        # The one before was not restarted.
        add(host, server(host, "fail", ports=[port("n%d" % i, number)], name="example.com/n%d" % i), "--name=web", "--restart=always",
            "--restart-delay=10ms")
        equal(listening(host, uuid), ["00000000000000000000000000000000:%04X" % number])
        equal(ask_in(host, uuid, number)["names"], "n%d" % i)
        wait_for(lambda: host.app_status("p", "web")["state"] == "ended" or host.app_status("p", "web")["startsInRow"], "the end")
    host.acnspawn("stop", "p").expect(0)


@case
def an_app_that_is_asked_all_the_time_can_be_removed(host):
    """With --force connections do not start it between its end and its removal."""
    uuid = pod(host)
    for _ in range(3):
        add(host, server(host, "max=1"))
        with Clients(host, uuid, 0.2) as c:
            wait_for(lambda: host.app_status("p", "web")["starts"] > 2, "some starts")
            host.acnspawn("rm-app", "--force", "p", "web").expect(0)
        true(c.answers, "answers")
        equal((names(host), connects(host, uuid)), ([], False))
    host.acnspawn("stop", "p").expect(0)


@case
def nothing_is_left_of_apps_that_came_and_went(host):
    uuid = pod(host)
    image = server(host, ports=[HTTP, port("more", 7000, count=5), port("ask", 53, "udp")])
    leader = host.leader(uuid)

    def cycle(i):
        add(host, image)
        if i % 2:
            ask_in(host, uuid)
        host.acnspawn("rm-app", "--force", "p", "web").expect(0)

    def measure():
        return {"supervisor": held_by_supervisor(host, uuid), "fds": len(os.listdir("/proc/%d/fd" % leader)),
                "listening": listening(host, uuid),
                "udp": [read_text("/proc/%d/net/%s" % (leader, f)).count("\n") for f in ("udp", "udp6")]}

    for i in range(2):
        cycle(i)
    settled(host, uuid)
    before = steady(measure)
    for i in range(20):
        cycle(i)
    wait_for(lambda: measure() == before, lambda: "%s to be as before: %s" % (measure(), before))
    equal(before["listening"], [])
    host.acnspawn("stop", "p").expect(0)


@case
def what_listens_keeps_the_pod(host):
    """By the exit policy it counts as one of the beginning: until it is removed."""
    host.detach("--name=p", "--exit-policy=all", host.shell("until test -e /out/end; do sleep 0.1; done", name="example.com/first"))
    uuid = host.status("p")["uuid"]
    add(host, server(host, "max=1"))
    host.acnspawn("stop-app", "p", "first").expect(0)
    for _ in range(2):
        ask_in(host, uuid)
        wait_for(lambda: state(host) == "ended", "the end of the app")
    equal(host.state("p"), "running")
    host.acnspawn("rm-app", "--force", "p", "web")
    wait_for(lambda: host.state(uuid) == "exited", "the end of the pod")


@case
def an_app_that_is_given_up_refuses_connections_until_it_is_started(host):
    uuid = pod(host)
    for word in "leave", "shutdown":
        add(host, server(host, word, name="example.com/" + word), "--name=web")
        equal(connects(host, uuid), True)
        wait_for(lambda: host.app_status("p", "web")["cause"] == "sockets-failed", "the app to be given up", 60)
        equal((state(host), connects(host, uuid), host.state("p")), ("ended", False, "running"))
        contains(host.acnspawn("status", "p").expect(0).out, "Its sockets failed")
        starts = host.app_status("p", "web")["starts"]
        host.acnspawn("start-app", "p", "web").expect(0)
        # It listens again, and is given up again.
        wait_for(lambda: host.app_status("p", "web")["starts"] > starts, "the start")
        if word == "leave":
            equal(connects(host, uuid), True)
        wait_for(lambda: state(host) == "ended" and host.app_status("p", "web")["cause"] == "sockets-failed", "the end of the app", 60)
        host.acnspawn("rm-app", "--force", "p", "web").expect(0)
        equal(listening(host, uuid), [])
    host.acnspawn("stop", "p").expect(0)


@case
def a_paused_pod_serves_when_it_goes_on(host):
    uuid = pod(host)
    add(host, server(host))
    host.acnspawn("pause", "p").expect(0)
    answers, leader = [], host.leader(uuid)
    t = threading.Thread(target=lambda: answers.append(ask_in(host, uuid)))
    t.start()
    # No program is started until then: it would leave its pipes to the process that asks.
    wait_for(lambda: unaccepted(leader) > 0, "the connection")
    time.sleep(0.2)  # in which it would have been accepted
    equal((answers, unaccepted(leader)), ([], 1))
    host.acnspawn("resume", "p").expect(0)
    t.join()
    equal(answers[0]["names"], "http")
    host.acnspawn("stop", "p").expect(0)


@case
def a_successor_listens(host):
    uuid = pod(host)
    add(host, server(host), "--name=one")
    add(host, server(host, ports=[port("http", 81)], name="example.com/two"))
    host.acnspawn("rm-app", "p", "one").expect(0)
    add(host, server(host, ports=[port("http", 82)], name="example.com/three"))
    ask_in(host, uuid, 82)
    host.acnspawn("stop", "p").expect(0)
    uuid = host.acnspawn("run", "--detach", "p").expect(0).out.strip()
    equal(sorted(names(host)), ["three", "two"])
    equal([ask_in(host, uuid, n)["names"] for n in (81, 82)], ["http"] * 2)
    equal(connects(host, uuid), False)
    host.acnspawn("stop", "p").expect(0)


# --- What is refused ---------------------------------------------------------------------------------------------------

@case
def ports_that_are_taken(host):
    uuid = pod(host)
    add(host, server(host))
    before = units(host, uuid)
    for ports, why in (
            ([HTTP], "Port 'http' of app web and port 'http' of app other are both socket-activated as port 8080/tcp"),
            ([port("x", 8000, count=81)], "Port 'http' of app web and port 'x' of app other are both socket-activated as port 8080/tcp"),
            ([port("x", 80, "sctp")], "its protocol is 'sctp', not tcp or udp"),
            ([port("x", 1000, count=256)], "at most 256 are possible")):
        contains(refused(host, "add-app", "p", server(host, ports=ports, name="example.com/other")), why)
        equal((names(host), units(host, uuid)), (["web"], before))
    ask_in(host, uuid)
    # A port that an app listens on itself.
    add(host, "--start", host.image(["/bin/httpd", "-f", "-p", "9000"], name="example.com/plain"))
    wait_for(lambda: connects(host, uuid, 9000), "the app to listen")
    contains(refused(host, "add-app", "p", server(host, ports=[port("x", 8999, count=2)], name="example.com/other")),
             "Cannot listen on port 9000/tcp for port 'x' of app other: Address already in use")
    equal(names(host), ["web", "plain"])
    equal((connects(host, uuid, 8999), "app-other.service" in units(host, uuid)), (False, False))
    host.acnspawn("rm-app", "--force", "p", "plain").expect(0)
    add(host, server(host, ports=[port("x", 8999, count=2)], name="example.com/other"))
    equal(ask_in(host, uuid, 9000)["fd"], "4")
    host.acnspawn("stop", "p").expect(0)


@case
def ports_of_the_hosts_network(host):
    with listener() as s:
        number = s.getsockname()[1]
        taken = server(host, ports=[port("http", number)])
        pod(host, "--net=host")
        contains(refused(host, "add-app", "p", taken),
                 "Cannot listen on port %d/tcp for port 'http' of app web: Address already in use" % number)
        equal(names(host), [])
    add(host, taken)
    equal(ask(("127.0.0.1", number))["names"], "http")
    # Another pod has it.
    other = host.acnspawn("run", "--detach", "--exit-policy=never", "--net=host").expect(0).out.strip()
    contains(refused(host, "add-app", other, taken), "Address already in use")
    host.acnspawn("rm-app", "--force", "p", "web").expect(0)
    host.acnspawn("add-app", other, taken).expect(0)
    equal(ask(("127.0.0.1", number))["names"], "http")
    for p in other, "p":
        host.acnspawn("stop", p).expect(0)


# --- Sockets of the host -----------------------------------------------------------------------------------------------

@case
def a_socket_of_the_host_goes_with_its_app(host):
    with listener() as s:
        number = s.getsockname()[1]
        p = start_with(host, [s], "run", "--name=p", "--exit-policy=never", server(host), names=["http"])
        equal(ask(("127.0.0.1", number))["names"], "http")
        uuid = host.status("p")["uuid"]
        # It stays while the app is replaced, whether it runs or not.
        host.acnspawn("update-app", "p", "web", "--image=" + server(host, ports=[HTTP, port("more", 81)], name="example.com/v2")).expect(0)
        equal((ask(("127.0.0.1", number))["names"], ask_in(host, uuid, 81)["fd"]), ("http:more", "4"))
        host.acnspawn("stop-app", "p", "web").expect(0)
        host.acnspawn("update-app", "p", "web", "--image=" + server(host, name="example.com/v3")).expect(0)
        equal((ask(("127.0.0.1", number))["names"], connects(host, uuid, 81)), ("http", False))
        equal([x["address"] for x in host.status("p")["sockets"]], ["127.0.0.1:%d" % number])
        # Of one more number there is no socket.
        contains(host.acnspawn("update-app", "p", "web", "--image=" + server(host, ports=[port("http", 8080, count=2)], name="example.com/v4")).expect(1).err,
                 "1 sockets were passed for port 'http' of app web, which has 2 numbers now")
        equal(ask(("127.0.0.1", number))["names"], "http")
        host.acnspawn("rm-app", "--force", "p", "web").expect(0)
        equal(host.status("p")["sockets"], [])
        # An app that is added listens in the pod.
        add(host, server(host))
        equal((ask_in(host, uuid)["names"], host.status("p")["sockets"]), ("http", []))
        host.acnspawn("stop", "p").expect(0)
        p.finish(0)


@case
def a_socket_of_the_host_that_is_given_up_is_not_opened_again(host):
    with listener() as s:
        number = s.getsockname()[1]
        p = start_with(host, [s], "run", "--name=p", "--exit-policy=never", server(host, "leave"), names=["http"])
        with socket.create_connection(("127.0.0.1", number), 30):
            host.wait_named("p")
            wait_for(lambda: names(host) and host.app_status("p", "web")["cause"] == "sockets-failed", "the end", 60)
            contains(refused(host, "start-app", "p", "web"), "Sockets of app web that were passed to the pod were given up")
        host.acnspawn("rm-app", "p", "web").expect(0)
        add(host, server(host))
        equal(ask_in(host, host.status("p")["uuid"])["names"], "http")
        host.acnspawn("stop", "p").expect(0)
        p.finish(0)


# --- Replacing ---------------------------------------------------------------------------------------------------------

class Clients:
    """Connect in the network of the pod, one after the other, until they are told to end. An app that ends after each connection
    is not to be started more often than 14 times in 2 seconds: then it would be given up."""

    def __init__(self, host, uuid, pause=0.0, number=8080):
        self.answers, self.failures = [], []
        reader, writer = os.pipe()
        end, self.end = os.pipe()
        self.child = os.fork()
        if self.child == 0:
            os.close(self.end)
            os.set_blocking(end, False)
            with os.fdopen(writer, "w", 1) as f:
                in_this_network(host.leader(uuid))
                while not ended(end):
                    try:
                        f.write(json.dumps(ask(("127.0.0.1", number))) + "\n")
                        time.sleep(pause)
                    except BaseException as e:
                        f.write(json.dumps({"failure": repr(e)}) + "\n")
                        time.sleep(0.01)  # leaves others some time
            os._exit(0)
        os.close(writer)
        os.close(end)
        self.reader = threading.Thread(target=self.read, args=(reader,))
        self.reader.start()

    def read(self, fd):
        with os.fdopen(fd) as f:
            for line in f:
                o = json.loads(line)
                (self.failures if "failure" in o else self.answers).append(o)

    def __enter__(self):
        return self

    def __exit__(self, *args):
        os.close(self.end)
        self.reader.join()
        os.waitpid(self.child, 0)


def ended(fd):
    try:
        return os.read(fd, 1) == b""
    except BlockingIOError:
        return False


@both
def no_connection_is_refused_while_an_app_is_replaced(host, *options):
    """Whatever the port is called, whether the app runs all the time or ends after each connection."""
    uuid = pod(host, *options)
    for words, pause in ((), 0), (("max=1",), 0.2):
        add(host, server(host, *words), "--name=web")
        with Clients(host, uuid, pause) as c:
            for i in range(4):
                n = len(c.answers)
                wait_for(lambda: len(c.answers) > n + 5, "answers")
                image = server(host, *words, ports=[port("v%d" % i, 8080)], name="example.com/v%d" % i)
                r = host.acnspawn("update-app", "p", "web", "--image=" + image)
                true(r.rc == 0, "update %d: %s" % (i, r.err))
            n = len(c.answers)
            wait_for(lambda: len(c.answers) > n + 5, "answers of the last one")
        equal(c.failures, [])
        equal(list(dict.fromkeys(a["names"] for a in c.answers)), ["http", "v0", "v1", "v2", "v3"])
        host.acnspawn("rm-app", "--force", "p", "web").expect(0)
        equal(listening(host, uuid), [])
    host.acnspawn("stop", "p").expect(0)


@case
def a_replacement_that_fails_goes_back_and_serves_on(host):
    uuid = pod(host)
    add(host, "--start", server(host), "--name=web")
    before = units(host, uuid)
    bad = host.image(["/none"], name="example.com/bad", app={"ports": [HTTP, port("more", 81)]})
    with Clients(host, uuid) as c:
        for _ in range(3):
            n = len(c.answers)
            wait_for(lambda: len(c.answers) > n + 3, "answers")
            r = host.acnspawn("update-app", "p", "web", "--image=" + bad).expect(1)
            contains(r.err, "could not be started with the image example.com/bad")
            contains(r.err, "App web of the old image runs again.")
        n = len(c.answers)
        wait_for(lambda: len(c.answers) > n + 3, "answers")
    equal(c.failures, [])
    equal({a["names"] for a in c.answers}, {"http"})
    equal((units(host, uuid), connects(host, uuid, 81), state(host)), (before, False, "running"))
    # One that waits is replaced without being started; what is wrong with the new one is seen with the next connection.
    host.acnspawn("stop-app", "p", "web").expect(0)
    host.acnspawn("update-app", "p", "web", "--image=" + bad).expect(0)
    equal((state(host), connects(host, uuid, 81)), ("waiting", True))
    wait_for(lambda: host.app_status("p", "web")["cause"] == "not-found" or state(host) == "ended", "the end of the app")
    host.acnspawn("stop", "p").expect(0)


@case
def ports_come_and_go_with_the_image(host):
    uuid = pod(host)
    add(host, server(host, ports=[HTTP, port("old", 81)]), "--name=web")
    add(host, server(host, ports=[port("x", 99)], name="example.com/other"))
    ask_in(host, uuid, 81)

    def update(image, rc=0):
        return host.acnspawn("update-app", "p", "web", "--image=" + image).expect(rc)

    update(server(host, ports=[port("new", 82), HTTP], name="example.com/v2"))
    equal((ask_in(host, uuid)["fd"], ask_in(host, uuid, 82)["fd"], connects(host, uuid, 81)), ("4", "3", False))
    contains(update(server(host, ports=[port("y", 99)], name="example.com/v3"), 1).err,
             "are both socket-activated as port 99/tcp")
    equal(ask_in(host, uuid, 82)["names"], "new:http")
    # To one that connections do not start, and back.
    update(host.shell(FOREVER, name="example.com/plain"))
    equal((state(host), listening(host, uuid)), ("running", ["00000000000000000000000000000000:0063"]))
    update(server(host, name="example.com/v4"))
    equal((ask_in(host, uuid)["names"], state(host)), ("http", "running"))
    host.acnspawn("stop-app", "p", "web").expect(0)
    ask_in(host, uuid)
    host.acnspawn("stop", "p").expect(0)


# --- What is killed ----------------------------------------------------------------------------------------------------

@case
def a_preparation_that_is_killed_leaves_no_socket(host):
    uuid = pod(host)
    image, second = server(host), server(host, ports=[HTTP, port("more", 81)], name="example.com/v2")
    supervisor = host.supervisor(uuid)
    for args, apps in (("add-app", "p", image, "--name=web"), []), (("update-app", "p", "web", "--image=" + second), ["web"]):
        killed = False
        for _ in range(30):
            p = host.start(*args)
            while p.poll() is None:
                for child in processes_where(lambda pid: name_of(pid) == "prepare-apps", children_of(supervisor)):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)
            r = host.finish(p)
            killed = r.rc != 0
            if killed:
                break
            host.acnspawn("rm-app", "--force", "p", "web").expect(0)
            if apps:
                add(host, image, "--name=web")
        true(killed, "no preparation was killed in time")
        contains(r.err, "The process that prepares the app was killed, or took too long")
        equal((names(host), connects(host, uuid), connects(host, uuid, 81)), (apps, bool(apps), False))
        if not apps:
            add(host, image, "--name=web")
    equal(ask_in(host, uuid)["names"], "http")
    host.acnspawn("stop", "p").expect(0)


@case
def a_killed_supervisor_takes_the_sockets_away(host):
    for i in range(4):
        uuid = pod(host, "--net=host")
        with listener() as s:
            number = s.getsockname()[1]
        p = host.start("add-app", "p", server(host, ports=[port("http", number)]))
        time.sleep(0.01 * i)  # any time
        os.kill(host.supervisor(uuid), signal.SIGKILL)
        host.finish(p)
        wait_for(lambda: host.state("p") == "exited", "the end of the pod")
        with socket.socket() as s:
            true(s.connect_ex(("127.0.0.1", number)) != 0, "nothing listens any more")
        host.acnspawn("rm", "p").expect(0)
        equal(glob.glob("%s/pods/*/%s" % (host.dir, uuid)), [])


if __name__ == "__main__":
    main()
