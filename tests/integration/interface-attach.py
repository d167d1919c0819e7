#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Attaching to apps by the method Attach of the pod's interface: its streams, its end, operations on its id, and that
attached clients harm neither the app nor the supervisor."""

import fcntl
import select
import socket

import pod_interface
from harness import *

ECHO = "touch /out/up; while read x; do echo got $x; echo error $x >&2; done; echo end; exit 5"


class Attached(pod_interface.Connection):
    """A connection whose call is Attach; streams are pipes of which the other ends are self.ends."""

    def attach(self, app="a", streams=("stdin", "stdout", "stderr"), **parameters):
        self.ends = {}
        theirs = []
        for n, name in enumerate(streams):
            r, w = os.pipe()
            self.ends[name] = w if name == "stdin" else r
            theirs.append(r if name == "stdin" else w)
            parameters[name] = n
        self.send("Attach", dict({"app": app}, **parameters), theirs, more=True)
        for fd in theirs:
            os.close(fd)
        return self.answer()

    def answer(self):
        message = self.receive()
        if "error" in message:
            return message["error"].replace("org.acnspawn.Pod.", ""), message.get("parameters", {})
        self.continues = message.get("continues", False)
        return message.get("parameters", {})

    def type(self, data):
        os.write(self.ends["stdin"], data)

    def read(self, name="stdout", seconds=20):
        """What is there; b"" at the end."""
        true(select.select([self.ends[name]], [], [], seconds)[0], "nothing came from " + name)
        return os.read(self.ends[name], 1 << 20)

    def read_all(self, name="stdout"):
        data = b""
        while (part := self.read(name)):
            data += part
        return data

    def until(self, words, name="stdout"):
        data = b""
        while words not in data:
            part = self.read(name)
            true(part, "no %r: %r" % (words, data))
            data += part
        return data

    def close_end(self, name):
        os.close(self.ends.pop(name))

    def close(self):
        self.socket.close()
        for name in list(self.ends):
            self.close_end(name)


def start(host, *options, script=ECHO):
    uuid = host.detach("--name=p", *options, host.shell(script, name="example.com/a"), "--stdin")
    host.wait_up("a")
    return uuid


def descriptors(host, uuid):
    return len(os.listdir("/proc/%d/fd" % host.supervisor(uuid)))


@both
def streams_and_end(host, *options):
    uuid = start(host, *options)
    one, two, other = Attached(host, uuid), Attached(host, uuid), pod_interface.Connection(host, uuid)
    first, second = one.attach(), two.attach(streams=("stdout",))
    true(first["id"] > 0 and first["id"] != second["id"], "ids: %r %r" % (first, second))
    equal((first["terminal"], second["terminal"], one.continues), (False, False, True))
    one.type(b"one\n")
    equal(one.until(b"\n"), b"got one\n")
    equal(one.until(b"\n", "stderr"), b"error one\n")
    equal(two.until(b"\n"), b"got one\n")
    # Neither that a caller closes its pipe, nor that it is gone, is the end of the app's input.
    one.close_end("stdin")
    host.wait_at_rest(uuid)
    equal(other.state("a"), "running")
    three = Attached(host, uuid)
    third = three.attach()
    three.type(b"last")
    three.close()
    four = Attached(host, uuid)
    fourth = four.attach()
    four.type(b" words\n")
    equal(two.until(b"\n"), b"got last words\n")
    equal(other.call("CloseStdin", id=third["id"]), ("NotAttached", {"id": third["id"]}))
    # The other order of both is as good.
    equal(other.call("CloseStdin", id=fourth["id"]), {})
    four.type(b"more\n")
    four.close_end("stdin")
    for c, id in (one, first["id"]), (two, second["id"]), (four, fourth["id"]):
        true(c.read_all().endswith(b"got more\nend\n"), "the last output")
        equal(c.answer(), {"id": id, "exitCode": 5})
        equal(c.continues, False)
    # The connections serve further calls, as long as there is a pod.
    wait_for(lambda: host.state("p") == "exited", "end of the pod")


@case
def the_end_after_the_pipe(host):
    uuid = start(host)
    c, other = Attached(host, uuid), pod_interface.Connection(host, uuid)
    id = c.attach()["id"]
    c.close_end("stdin")
    host.wait_at_rest(uuid)
    equal(other.state("a"), "running")
    equal(other.call("CloseStdin", id=id), {})
    equal(c.read_all(), b"end\n")
    equal(c.answer(), {"id": id, "exitCode": 5})


@both
def an_app_that_reads_nothing(host, *options):
    script = "touch /out/up; while [ ! -e /tmp/go ]; do sleep 0.1; done; cat; echo out; echo err >&2; exit 9"
    uuid = host.detach("--name=p", "--exit-policy=never", *options, host.shell(script, name="example.com/a"))
    host.wait_up("a")
    c, other = Attached(host, uuid), pod_interface.Connection(host, uuid)
    verb = subprocess.Popen(host.argv("attach", "--no-stdin", "p"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    host.children.append(verb)
    first = c.attach(streams=("stdout", "stderr"))
    equal(first["terminal"], False)
    wait_for(lambda: passes_on(verb.pid), "attach")
    host.acnspawn("enter", "p", "touch", "/tmp/go").expect(0)
    equal(c.read_all(), b"out\n")
    equal(c.read_all("stderr"), b"err\n")
    equal(c.answer(), {"id": first["id"], "exitCode": 9})
    equal((*verb.communicate(timeout=patience(20)), verb.returncode), (b"out\n", b"err\n", 9))
    wait_for(lambda: other.state("a") == "exited", "end of the app")
    equal(c.attach(streams=("stdout",)), ("WrongState", {"app": "a", "state": "exited"}))
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def a_killed_app_and_one_that_is_started_again(host):
    uuid = start(host, "--exit-policy=never")
    c, other = Attached(host, uuid), pod_interface.Connection(host, uuid)
    id = c.attach()["id"]
    equal(other.call("SignalApp", app="a", signal=9), {})
    equal(c.answer(), {"id": id, "exitCode": 137})
    wait_for(lambda: other.state("a") == "exited", "end of the app")
    equal(c.attach(), ("WrongState", {"app": "a", "state": "exited"}))
    equal(other.call("StartApp", app="a"), {})
    true(c.attach()["id"] > id, "an id comes again")
    c.type(b"again\n")
    equal(c.until(b"\n"), b"got again\n")
    host.acnspawn("stop", "--force", "p").expect(0)
    equal(c.answer().get("exitCode", 125) in (125, 137), True)


@both
def a_terminal(host, *options):
    script = "trap 'echo size $(stty size)' WINCH; echo tty $(stty size); touch /out/up; while ! read x; do :; done; echo got $x >&2; exit 3"
    uuid = host.detach("--name=p", *options, host.shell(script, name="example.com/a"), "--input=terminal")
    host.wait_up("a")
    c, other = Attached(host, uuid), pod_interface.Connection(host, uuid)
    first = c.attach(streams=("stdin", "stdout"), rows=30, columns=90)
    equal(first["terminal"], True)
    c.until(b"size 30 90")
    equal(other.call("ResizeTerminal", id=first["id"], rows=44, columns=88), {})
    c.until(b"size 44 88")
    equal(other.call("ResizeTerminal", id=first["id"] + 1, rows=44, columns=88), ("NoSuchTerminal", {"id": first["id"] + 1}))
    c.type(b"word\r")
    c.until(b"got word")
    equal(c.answer(), {"id": first["id"], "exitCode": 3})


@case
def who_does_not_read_is_told_what_is_left_out(host):
    script = "touch /out/up; read x; head -c 30000000 /dev/zero | tr '\\0' x; echo; touch /out/done; read x; echo last; exit 6"
    uuid = start(host, script=script)
    slow, quick = Attached(host, uuid), Attached(host, uuid)
    id = slow.attach()["id"]
    quick.attach(streams=())  # wants nothing but the end
    slow.type(b"go\n")
    pod = host.one_pod()
    wait_for(lambda: os.path.exists(os.path.join(host.upper("a", pod), "out/done")), "end of what is written", timeout=60)
    read = len(slow.until(b"x"))
    while select.select([slow.ends["stdout"]], [], [], 1)[0]:
        read += len(slow.read())
    slow.type(b"go\n")
    rest = slow.read_all()
    skipped, answer = 0, slow.answer()
    while slow.continues:
        skipped += answer["skippedBytes"]
        answer = slow.answer()
    equal(answer, {"id": id, "exitCode": 6})
    equal(skipped + read + len(rest), 30000000 + len("\nlast\n"), "bytes that came or were left out")
    true(skipped > 25000000, "%d bytes were left out" % skipped)
    equal(quick.answer()["exitCode"], 6)


@case
def attachments_leave_nothing_behind(host):
    uuid = start(host)
    other = pod_interface.Connection(host, uuid)
    other.call("Describe")
    before = steady(lambda: descriptors(host, uuid))
    for n in range(100):
        c = Attached(host, uuid)
        c.attach()
        if n % 2:
            c.type(b"x%d\n" % n)
            c.until(b"got x%d\n" % n)
        c.close()
    # Also of clients that do not wait for the reply, or disconnect at any point.
    for n in range(60):
        c = Attached(host, uuid)
        r, w = os.pipe()
        c.send("Attach", {"app": "a", "stdin": 0}, [r], more=True)
        time.sleep(n * 0.0001)  # any time
        c.socket.close()
        os.close(r)
        os.close(w)
    nothing_more(lambda: descriptors(host, uuid), before, "descriptors")
    many = []
    for _ in range(64):
        many.append(Attached(host, uuid))
        true("id" in many[-1].attach(), "refused")
    equal(Attached(host, uuid).attach(), ("TooManyAttached", {"limit": 64}))
    many[7].type(b"one for all\n")
    for c in many:
        equal(c.until(b"\n"), b"got one for all\n")
        c.close()
    nothing_more(lambda: descriptors(host, uuid), before, "descriptors")
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def what_cannot_be_attached(host):
    uuid = host.detach("--name=p", host.shell(ECHO, name="example.com/a"), "--stdin", "---", host.shell("sleep 1000", name="example.com/b"))
    host.wait_up("a")
    c = Attached(host, uuid)
    equal(c.call("Attach", app="a"), ("org.varlink.service.ExpectedMore", {}))
    equal(c.attach("nope"), ("NoSuchApp", {"app": "nope"}))
    equal(c.attach("b"), ("NoStdin", {"app": "b"}))
    host.acnspawn("add-app", "p", host.shell(ECHO, name="example.com/c"), "--stdin").expect(0)
    equal(c.attach("c"), ("WrongState", {"app": "c", "state": "created"}))
    equal(c.attach(rows=0), ("org.varlink.service.InvalidParameter", {"parameter": "rows"}))
    equal(c.attach(columns=65536), ("org.varlink.service.InvalidParameter", {"parameter": "columns"}))
    os.mkfifo(host.path("fifo"))
    pair = socket.socketpair()
    opened = [os.open("/dev/null", os.O_RDWR), os.open("/", os.O_RDONLY), os.open(host.path("fifo"), os.O_RDWR), pair[0].fileno(),
              os.open("/proc/self/status", os.O_RDONLY), os.memfd_create("x")]
    for fd in opened:
        for name in "stdin", "stdout", "stderr":
            c.send("Attach", {"app": "a", name: 0}, [fd], more=True)
            equal(c.answer(), ("org.varlink.service.InvalidParameter", {"parameter": name}))
    r, w = os.pipe()
    for indexes in {"stdin": 1}, {"stdin": -1}, {"stdout": 0, "stderr": 0}:
        c.send("Attach", dict({"app": "a"}, **indexes), [w], more=True)
        equal(c.answer()[0], "org.varlink.service.InvalidParameter")
    equal(c.call("CloseStdin", id=0), ("NotAttached", {"id": 0}))
    equal(c.call("CloseStdin", id=-5), ("NotAttached", {"id": -5}))
    # A pipe that others have, too, keeps its mode.
    c.send("Attach", {"app": "a", "stdin": 0, "stdout": 1}, [r, w], more=True)
    true("id" in c.answer(), "refused")
    equal((fcntl.fcntl(r, fcntl.F_GETFL) | fcntl.fcntl(w, fcntl.F_GETFL)) & os.O_NONBLOCK, 0, "modes")
    if host.acnspawn("pause", "p").rc == 0 and host.state("p") == "paused":
        equal(Attached(host, uuid).attach(), ("PodPaused", {}))
        host.acnspawn("resume", "p").expect(0)
    host.acnspawn("stop", "--force", "p").expect(0)


if __name__ == "__main__":
    main()
