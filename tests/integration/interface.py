#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The Varlink interface of a running pod, org.acnspawn.Pod: with a hand-written client: every call in every state of
an app."""

import select

from pod_interface import *

FOREVER = "trap 'exit 0' TERM; touch /out/up; while :; do sleep 0.1; done"


def two_apps(host, *options):
    return host.acnspawn("run", "--detach", "--name=p", "--exit-policy=all", host.shell(FOREVER, name="example.com/a"),
                         host.shell("exit 4", name="example.com/b"), *options).expect(0).out.strip()


def settled(c):
    wait_for(lambda: (c.state("a"), c.state("b")) == ("running", "exited"), "states of the apps")


@case
def describes_itself(host):
    uuid = two_apps(host)
    c = Connection(host, uuid)
    settled(c)
    pod = c.call("Describe")
    equal((pod["uuid"], pod["name"], pod["state"], pod["exitPolicy"]), (uuid, "p", "running", "all"))
    a, b = pod["apps"]
    equal((a["name"], a["state"], a["starts"], a["image"]), ("a", "running", 1, "example.com/a"))
    equal((b["name"], b["exitStatus"], b["cause"], b["starts"]), ("b", 4, "exited", 1))
    true(b["startedUSec"] <= b["endedUSec"], "times")
    info = c.call("org.varlink.service.GetInfo")
    equal((info["product"], sorted(info["interfaces"])), ("acnspawn", ["org.acnspawn.Pod", "org.varlink.service"]))
    contains(c.call("org.varlink.service.GetInterfaceDescription", interface="org.acnspawn.Pod")["description"], "method Describe()")
    equal(c.call("Nonsense")[0], "org.varlink.service.MethodNotFound")
    equal(c.call("StartApp")[0], "org.varlink.service.InvalidParameter")
    host.acnspawn("stop", "p").expect(0)


@case
def apps_are_started_and_stopped_one_by_one(host):
    uuid = two_apps(host)
    c = Connection(host, uuid)
    settled(c)
    equal(c.call("StartApp", app="a"), ("WrongState", {"app": "a", "state": "running"}))
    equal(c.call("StartApp", app="nosuch"), ("NoSuchApp", {"app": "nosuch"}))
    equal(c.call("StopApp", app="b"), {}, "stopping what has exited")
    equal(c.call("StopApp", app="a"), {})
    equal(c.state("a"), "exited")
    # Nothing runs any more: that is the end of this pod.
    host.acnspawn("status", "--wait=20s", "p", timeout=40).expect(0)
    equal(host.app_status(uuid, "a")["exitStatus"], 0)


@case
def an_app_starts_again_with_a_clean_root(host):
    script = "echo run $(ls /out | wc -l); touch /out/up; trap 'exit 0' TERM; while :; do sleep 0.1; done"
    uuid = host.detach("--name=p", "--exit-policy=all", host.shell(FOREVER, name="example.com/a"),
                       host.shell(script, name="example.com/b"))
    host.wait_up("b")
    c = Connection(host, uuid)
    wait_for(lambda: c.state("b") == "running", "state of the app")
    equal(c.call("StopApp", app="b"), {})
    equal(c.state("b"), "exited")
    equal(c.call("SignalApp", app="b", signal=10), ("WrongState", {"app": "b", "state": "exited"}))
    equal(c.call("StartApp", app="b"), {})
    equal(c.state("b"), "running")
    for n in 2, 3:
        wait_for(lambda: [a["starts"] for a in c.call("Describe")["apps"]] == [1, n], "start %d" % n)
        wait_for(lambda: os.path.exists(os.path.join(host.upper("b"), "out/up")), "what the app does first")
        if n == 2:
            equal(c.call("RestartApp", app="b"), {})
    equal(host.state(uuid), "running")
    host.acnspawn("stop", "p").expect(0)
    equal(host.acnspawn("logs", "--app=b", "p").expect(0).out, "run 0\n" * 3)


@case
def an_app_that_does_not_stop_is_killed_in_time(host):
    uuid = host.detach("--name=p", "--stop-timeout=60s", "--exit-policy=all", host.shell(FOREVER, name="example.com/a"),
                       host.shell("trap '' TERM; touch /out/up; while :; do sleep 0.1; done", name="example.com/b"))
    host.wait_up("b")
    c = Connection(host, uuid)
    wait_for(lambda: c.state("b") == "running", "state of the app")
    begin = time.monotonic()
    c.call("StopApp", app="b", timeoutUSec=300000)
    true(time.monotonic() - begin < patience(20), "time to stop")
    equal([a.get("signal") for a in c.call("Describe")["apps"]], [None, 9])
    equal(c.call("StopApp", app="a", timeoutUSec=-1), ("org.varlink.service.InvalidParameter", {"parameter": "timeoutUSec"}))
    equal(c.call("SignalApp", app="a", signal=1000), ("org.varlink.service.InvalidParameter", {"parameter": "signal"}))
    host.acnspawn("stop", "p").expect(0)


@case
def nothing_is_lost_between_describing_and_monitoring(host):
    uuid = host.detach("--name=p", "--exit-policy=all", host.shell(FOREVER, name="example.com/a"),
                       host.shell(FOREVER, name="example.com/b"))
    c, other = Connection(host, uuid), Connection(host, uuid)
    wait_for(lambda: (c.state("a"), c.state("b")) == ("running", "running"), "states of the apps")
    host.wait_up("a")
    host.wait_up("b")
    begin = c.call("Describe")["sequence"]
    equal(other.call("StopApp", app="b"), {})
    equal(c.call("Monitor")[0], "org.varlink.service.ExpectedMore")
    equal(other.call("Monitor", since=0)[0], "org.varlink.service.ExpectedMore")
    c.send("Monitor", {"since": begin}, more=True)
    events = [c.receive()["parameters"]]
    while events[-1]["app"]["state"] != "exited":
        events.append(c.receive()["parameters"])
    equal(events[-1]["app"]["name"], "b")
    equal([e["sequence"] for e in events], list(range(begin + 1, begin + 1 + len(events))))
    other.send("Monitor", {"since": events[-1]["sequence"] + 100}, more=True)
    equal(other.receive()["error"], "org.varlink.service.InvalidParameter")
    other.send("Stop")
    equal(other.receive()["parameters"], {"exitStatus": 0})
    last = {"continues": True}
    while last.get("continues"):
        last = c.receive()
    equal(last["parameters"]["state"], "exited")
    equal(c.receive(), None, "what comes after the end")


@case
def an_app_passes_through_its_states_in_order(host):
    uuid = host.detach("--name=p", "--exit-policy=all", host.shell(FOREVER, name="example.com/a"), host.shell(FOREVER, name="example.com/b"))
    host.wait_up("b")
    c, other = Connection(host, uuid), Connection(host, uuid)
    wait_for(lambda: c.state("b") == "running", "state of the app")
    c.send("Monitor", {"since": c.call("Describe")["sequence"]}, more=True)
    states = ["running"]
    for _ in range(5):
        equal(other.call("StopApp", app="b"), {})
        equal(other.call("StartApp", app="b"), {})
        wait_for(lambda: other.state("b") == "running", "state of the app")
    equal(other.call("StopApp", app="b", timeoutUSec=0), {})
    equal(other.call("RemoveApp", app="b"), {})
    while states[-1] != "removed":
        state = c.receive()["parameters"].get("app", {}).get("state", states[-1])
        if state != states[-1]:
            states.append(state)
    follows = set(zip(states, states[1:]))
    equal(sorted(follows - {("running", "stopping"), ("stopping", "exited"), ("exited", "starting"), ("starting", "running"), ("running", "exited"),
                            ("exited", "removing"), ("removing", "removed"), ("exited", "removed")}), [], "states one after the other: %s" % states)
    host.acnspawn("stop", "p").expect(0)


@case
def pods_are_paused_and_killed(host):
    uuid = two_apps(host)
    c = Connection(host, uuid)
    settled(c)
    equal(c.call("Pause"), {})
    equal((c.call("Describe")["state"], host.state(uuid)), ("paused", "paused"))
    equal(c.call("Resume"), {})
    equal(c.call("Describe")["state"], "running")
    equal(c.call("Stop", timeoutUSec=-5)[0], "org.varlink.service.InvalidParameter")
    begin = time.monotonic()
    c.send("Stop", {"timeoutUSec": 0})
    true("exitStatus" in c.receive()["parameters"], "answer of a kill")
    true(time.monotonic() - begin < patience(10), "time to kill")


def without_freezer(host):
    """A pod with another file mounted over the freezer, in the mount namespace of the supervisor alone; and a function that
    mounts there."""
    uuid = host.detach("--name=p", host.shell(FOREVER, name="example.com/a"))
    host.wait_up("a")
    # The supervisor keeps the freezer open from the first state that it tells, that of the app's start at the latest: so
    # it is to be the kernel's.
    c = Connection(host, uuid)
    wait_for(lambda: c.state("a") == "running", "state of the app")
    supervisor = host.supervisor(uuid)
    (freezer,) = [path + "/cgroup.freeze" for path in cgroups() if path.endswith(uuid) and os.path.exists(path + "/cgroup.freeze")]
    fake = host.path("freeze")
    open(fake, "w").close()

    def mount(*args):
        subprocess.run(["nsenter", "--target=%d" % supervisor, "--mount", *args], check=True)
    mount("mount", "--bind", fake, freezer)
    return uuid, freezer, mount


@case
def pods_that_cannot_be_paused_say_why(host):
    uuid, freezer, mount = without_freezer(host)
    c = Connection(host, uuid)
    error, parameters = c.call("Pause")
    equal((error, parameters["errno"]), ("PauseFailed", 62))
    true(re.fullmatch(r"Cannot pause pod \S+: processes in its cgroup app-a.service did not stop within 10 seconds", parameters["message"]), parameters["message"])
    contains(parameters["hint"], "Nothing is paused")
    mount("mount", "-o", "remount,bind,ro", freezer)
    for verb in "pause", "resume":
        contains(host.acnspawn(verb, "p").expect(1).err, "Cannot %s pod %s: cannot write cgroup.freeze of its cgroup: Read-only file system" % (verb, uuid))
    mount("umount", freezer)
    equal((c.call("Pause"), c.call("Resume"), c.call("Describe")["state"]), ({}, {}, "running"))
    host.acnspawn("stop", "p").expect(0)


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


@case
def other_calls_are_answered_while_a_pod_is_being_paused(host):
    """The freezer is frozen by the test, when it is time."""
    uuid, freezer, mount = without_freezer(host)
    pausing, resuming, c = [Connection(host, uuid) for _ in range(3)]
    pausing.send("Pause")
    # The supervisor may read calls of two connections in any order.
    is_taken = lambda: read_text(host.path("freeze")).startswith("1")  # a file mounted over the freezer
    wait_for(is_taken, "the call to be taken")
    resuming.send("Resume")
    true(not is_answered(pausing, 0.5), "nothing is paused yet")
    began = time.monotonic()
    equal([a["name"] for a in c.call("Describe")["apps"]], ["a"])
    true(time.monotonic() - began < patience(3), "Describe has waited")
    write(freezer, "1")
    equal((pausing.receive(), is_answered(resuming, 0.5)), ({"parameters": {}}, False))
    write(freezer, "0")
    began = time.monotonic()
    equal(resuming.receive(), {"parameters": {}})
    true(time.monotonic() - began < patience(3), "the answer has waited for the time-out")
    # A stop does not wait for it, nor for what comes behind it.
    pausing.send("Pause")
    wait_for(is_taken, "the call to be taken")
    resuming.send("Resume")
    true(not is_answered(pausing, 0.3), "nothing is paused yet")
    c.send("Stop")
    equal([pausing.receive()["error"], resuming.receive()["error"]], [POD + "PodEnds"] * 2)
    equal(c.receive(), {"parameters": {"exitStatus": 0}})


CONNECTIONS_MAX = 128


@case
def idle_connections_make_room(host):
    """A program run by root leaks connections without calls; the supervisor closes the oldest of them for a new client."""
    uuid = two_apps(host)
    c = Connection(host, uuid)
    settled(c)
    idle = [Connection(host, uuid) for _ in range(2 * CONNECTIONS_MAX)]
    equal(host.acnspawn("enter", "--app=a", "p", "--", "echo", "here").expect(0).out, "here\n")
    host.acnspawn("pause", "p").expect(0)
    host.acnspawn("resume", "p").expect(0)
    host.acnspawn("kill", "--signal=CONT", "--app=a", "p").expect(0)
    # The most recently used connection is still open, the first ones are closed.
    equal(idle[-1].call("Describe")["uuid"], uuid)
    equal(idle[0].socket.recv(1), b"")
    host.acnspawn("stop", "p").expect(0)
    for x in idle:
        x.socket.close()


def full(host, uuid):
    """Opens connections with unanswered calls until the limit is reached."""
    found = [Connection(host, uuid) for _ in range(CONNECTIONS_MAX)]
    for x in found:
        x.send("Monitor", {"since": 0}, more=True)
        x.receive()
    wait_for(lambda: is_refused(host, uuid), "a full interface")
    return found


def is_refused(host, uuid):
    c = Connection(host, uuid)
    with contextlib.suppress(OSError), contextlib.closing(c.socket):
        select.select([c.socket], [], [], 1)
        return c.socket.recv(4096, socket.MSG_DONTWAIT) == \
            b'{"error":"org.acnspawn.service.TooManyConnections","parameters":{"limit":%d}}\0' % CONNECTIONS_MAX


@case
@with_timeout(120)
def a_full_interface_refuses_calls_and_the_pod_can_be_stopped(host):
    for n, (command, status) in enumerate(((("stop",), 0), (("stop", "--force"), 0), (("stop", "--timeout=1s"), 0), (("rm", "--force"), None))):
        name = "p%d" % n
        uuid = host.detach("--name=" + name, host.shell("trap '' TERM; " + FOREVER.split(";", 1)[1] if n == 2 else FOREVER, name="example.com/a"),
                           *(("--stop-timeout=60s",) if n == 2 else ()))
        wait_for(lambda: Connection(host, uuid).state("a") == "running", "the app")
        connections = full(host, uuid)
        if n == 0:
            for args in (("pause", name), ("kill", name), ("update-app", "--tasks-max=10", name, "a"), ("enter", name, "--", "true")):
                r = host.acnspawn(*args)
                true(r.rc not in (0, None), "%r succeeded" % (args,))
                contains(r.err, "The interface of pod %s is busy: 128 connections have calls that are not answered yet" % name, "message of %r" % (args,))
                contains(r.err, "'acnspawn stop %s'" % name, "hint of %r" % (args,))
        with within(20, "%s of a pod with a full interface" % " ".join(command)):
            host.acnspawn(*command, name).expect(0)
        if status is None:
            equal([p for p in host.pods() if uuid in p], [])
        else:
            equal(host.state(uuid), "exited")
        for x in connections:
            x.socket.close()


@case
def clients_that_disconnect_or_send_garbage_do_no_harm(host):
    uuid = two_apps(host)
    c = Connection(host, uuid)
    settled(c)
    for text in b"\0", b"{}\0", b"[1]\0", b'{"method":5}\0', b'{"method":"org.acnspawn.Pod.Describe","parameters":[]}\0', b"\xff" * 100 + b"\0":
        bad = Connection(host, uuid)
        bad.socket.sendall(text)
        bad.receive()
    for method in "Monitor", "Describe", "RestartApp":
        gone = Connection(host, uuid)
        gone.send(method, {"app": "a"} if method == "RestartApp" else {}, more=True)
        gone.socket.close()
    wait_for(lambda: (c.state("a"), c.call("Describe")["apps"][0]["starts"]) == ("running", 2), "the restart")
    equal(c.call("StopApp", app="a"), {})


if __name__ == "__main__":
    main()
