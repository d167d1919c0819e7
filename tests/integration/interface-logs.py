#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The output of apps by the interface of the pod, Logs: what comes, in which form, until when, and that those who ask for
it harm neither the pod nor its supervisor."""

import select

import pod_interface
from harness import *

SLEEP = "trap 'exit 0' TERM; while :; do sleep 0.1; done"


class Reader(pod_interface.Connection):
    """A connection whose call is Logs, with pipes self.out and self.err."""

    def logs(self, errors=False, **parameters):
        self.out, out = os.pipe()
        theirs = [out]
        if errors:
            self.err, err = os.pipe()
            theirs.append(err)
            parameters["stderr"] = 1
        self.send("Logs", dict(parameters, stdout=0), theirs)
        for fd in theirs:
            os.close(fd)
        return self

    def answer(self):
        message = self.receive()
        if "error" in message:
            return message["error"].replace("org.acnspawn.Pod.", ""), message.get("parameters", {})
        return message.get("parameters", {})

    def all(self, fd=None):
        """To the end of the pipe, and of the call."""
        data = b""
        with os.fdopen(self.out if fd is None else fd, "rb") as f:
            data = f.read()
        return data.decode(errors="replace")

    def until(self, words):
        data = b""
        while words not in data:
            true(select.select([self.out], [], [], 20)[0], "no %r: %r" % (words, data))
            part = os.read(self.out, 65536)
            true(part, "no %r: %r" % (words, data))
            data += part
        return data


def readers(host, uuid):
    """Processes below the supervisor, or their children: (pid, uid)."""
    supervisor = host.supervisor(uuid)
    fits = lambda pid: name_of(pid) == "read-logs" and supervisor in (parent_of(pid), parent_of(parent_of(pid)))
    return list(of_processes(lambda pid: int(re.search(r"Uid:\t(\d+)", read_text("/proc/%d/status" % pid)).group(1)), processes_where(fits)).items())


@both
def what_was_written(host, *options):
    one = host.shell("printf 'one\\n\\377\\0x\\nlast'; echo error >&2; touch /out/up; " + SLEEP, name="example.com/a")
    two = host.shell("echo other; touch /out/up; " + SLEEP, name="example.com/b")
    uuid = host.detach("--name=p", *options, one, "---", two)
    host.wait_up("a")
    host.wait_up("b")
    c = Reader(host, uuid)
    c.logs(errors=True, app="a")
    equal(c.answer(), {})
    with os.fdopen(c.out, "rb") as f:
        equal(f.read(), b"one\n\xff\0x\n")
    equal(c.all(c.err), "error\n")
    equal(c.logs(app="b", timestamps=False).all(), "other\n")
    equal(c.answer(), {})
    lines = c.logs(prefix=True).all().splitlines()
    equal(c.answer(), {})
    true("b: other" in lines and "a: one" in lines and "a: error" in lines, "prefixes: %r" % lines)
    records = [json.loads(line) for line in c.logs(format="json").all().splitlines()]
    equal(c.answer(), {})
    equal(sorted((r["app"], r["stream"]) for r in records if r["message"] in ("one", "error", "other")),
          [("a", "stderr"), ("a", "stdout"), ("b", "stdout")])
    first, last = records[0]["timestamp"], records[-1]["timestamp"]
    equal([json.loads(x) for x in c.logs(format="json", lines=1).all().splitlines()], records[-1:])
    c.answer()
    equal(c.logs(format="json", lines=0).all(), "")
    c.answer()
    equal([json.loads(x) for x in c.logs(format="json", sinceUSec=first, untilUSec=last).all().splitlines()], records)
    c.answer()
    equal(c.logs(sinceUSec=last + 1).all(), "")
    c.answer()
    equal(c.logs(untilUSec=first - 1).all(), "")
    c.answer()
    true(re.match(r"\d{4}-\d\d-\d\dT\d\d:", c.logs(app="b", timestamps=True).all()), "a time in front")
    equal(c.answer(), {})
    # The same as the command has it, which reads on its own.
    equal(c.logs(format="json").all(), host.acnspawn("--json=short", "logs", "p").expect(0).out)
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def following_to_the_end(host):
    uuid = host.detach("--name=p", host.shell("echo up; touch /out/up; read x; seq 1 5000; echo last; exit 3", name="example.com/a"), "--stdin")
    host.wait_up("a")
    c = Reader(host, uuid).logs(follow=True)
    equal(c.until(b"up\n"), b"up\n")
    equal([uid for _, uid in sorted(readers(host, uuid))], [0, 65534], "the users of those who read")
    host.acnspawn("attach", "p", input=b"\n").expect(3)
    equal(c.all(), "".join("%d\n" % n for n in range(1, 5001)) + "last\n")
    equal(c.answer(), {})
    wait_for(lambda: host.state("p") == "exited", "end of the pod")


@case
def a_pod_that_is_removed_at_its_end(host):
    image = host.shell("echo up; touch /out/up; read x; seq 1 2000; echo last", name="example.com/a")
    host.acnspawn("run", "--detach", "--rm", "--name=p", image, "--stdin").expect(0)
    uuid = host.status("p")["uuid"]
    host.wait_up("a")
    c = Reader(host, uuid).logs(follow=True)
    c.until(b"up\n")
    host.acnspawn("attach", "p", input=b"\n")
    true(c.all().endswith("\n2000\nlast\n"), "the last lines")
    equal(c.answer(), {})
    wait_for(lambda: host.pods() == [], "removal")


@case
def an_app_that_is_added_meanwhile(host):
    uuid = host.detach("--name=p", host.shell("echo up; touch /out/up; " + SLEEP, name="example.com/a"))
    host.wait_up("a")
    c = Reader(host, uuid).logs(follow=True, prefix=True)
    equal(c.until(b"up\n"), b"a: up\n")
    image = host.shell("echo here too; touch /out/up; " + SLEEP, name="example.com/b")
    host.acnspawn("add-app", "p", "--start", image).expect(0)
    equal(c.until(b"\n"), b"b: here too\n")
    host.acnspawn("stop", "--force", "p").expect(0)
    equal(c.answer(), {})


@case
def log_files(host):
    path = host.path("a.log")
    script = "echo in the file; touch /out/up; read x; echo more; echo last"
    uuid = host.detach("--name=p", host.shell(script, name="example.com/a"), "--stdin", "--log=none", "--log-file=" + path)
    host.wait_up("a")
    c = Reader(host, uuid)
    equal(c.logs(app="a").all(), "in the file\n")
    equal(c.answer(), {})
    c.logs(app="a", follow=True)
    c.until(b"in the file\n")
    host.acnspawn("attach", "p", input=b"\n")
    equal(c.all(), "more\nlast\n")
    equal(c.answer(), {})
    image = host.shell("touch /out/up; " + SLEEP, name="example.com/a")
    uuid = host.detach("--name=q", image, "--log=none")
    c = Reader(host, uuid).logs(app="a")
    equal(c.answer()[0], "LogsFailed")
    equal(c.all(), "")
    host.acnspawn("stop", "--force", "q").expect(0)


@case
def who_leaves_or_does_not_read(host):
    script = "echo up; touch /out/up; read x; head -c 3000000 /dev/zero | tr '\\0' x; echo; touch /out/done; read x"
    uuid = host.detach("--name=p", host.shell(script, name="example.com/a"), "--stdin")
    host.wait_up("a")
    pid = host.supervisor(uuid)
    before = steady(lambda: len(os.listdir("/proc/%d/fd" % pid)))
    gone = Reader(host, uuid).logs(follow=True)
    gone.until(b"up\n")
    gone.socket.close()
    equal(gone.all(), "")
    wait_for(lambda: readers(host, uuid) == [], "the end of who read for it")
    # At any moment of the start.
    for n in range(40):
        gone = Reader(host, uuid).logs(follow=True)
        time.sleep(n * 0.0003)  # any time
        gone.socket.close()
        os.close(gone.out)
    wait_for(lambda: readers(host, uuid) == [], "the end of who read for them")
    nothing_more(lambda: len(os.listdir("/proc/%d/fd" % pid)), before, "descriptors")
    # Who closes the pipe has all that it wants.
    closed = Reader(host, uuid).logs(follow=True, lines=0)
    wait_for(lambda: len(readers(host, uuid)) == 2, "who reads")
    wait_at_rest(*[pid for pid, _ in readers(host, uuid)])
    os.close(closed.out)
    slow = Reader(host, uuid).logs(follow=True)
    slow.until(b"up\n")
    writer = subprocess.Popen(host.argv("attach", "p"), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    host.children.append(writer)
    writer.stdin.write(b"\n")
    writer.stdin.flush()
    wait_for(lambda: os.path.exists(os.path.join(host.upper("a", host.pod_dir(uuid)), "out/done")), "end of what is written", timeout=30)
    equal(closed.answer(), {})
    # It keeps the end of the pod waiting, but not for long.
    begin = time.monotonic()
    host.acnspawn("stop", "--force", "p").expect(0)
    true(time.monotonic() - begin < patience(10), "that took %s s" % (time.monotonic() - begin))
    equal(slow.answer()[0], "io.systemd.System")


@case
def not_more_than_so_many(host):
    uuid = host.detach("--name=p", host.shell("echo up; touch /out/up; " + SLEEP, name="example.com/a"))
    host.wait_up("a")
    many = [Reader(host, uuid).logs(follow=True) for _ in range(16)]
    for c in many:
        c.until(b"up\n")
    equal(Reader(host, uuid).logs().answer(), ("TooManyLogs", {"limit": 16}))
    many[3].socket.close()
    wait_for(lambda: len(readers(host, uuid)) == 30, "room")
    equal(Reader(host, uuid).logs().all(), "up\n")
    host.acnspawn("stop", "--force", "p").expect(0)
    for n, c in enumerate(many):
        if n != 3:
            equal(c.answer(), {})


@case
def one_that_is_killed_is_told(host):
    uuid = host.detach("--name=p", host.shell("echo up; touch /out/up; " + SLEEP, name="example.com/a"))
    host.wait_up("a")
    c = Reader(host, uuid).logs(follow=True)
    c.until(b"up\n")
    confined = [pid for pid, uid in readers(host, uuid) if uid == 65534][0]
    wait_at_rest(*[pid for pid, _ in readers(host, uuid)])  # the journal is quiet: nothing but the end itself tells of it
    os.kill(confined, signal.SIGKILL)
    code, parameters = c.answer()
    equal(code, "LogsFailed")
    contains(parameters["message"], "ended by signal 9")
    c = Reader(host, uuid).logs(follow=True)
    c.until(b"up\n")
    os.kill([pid for pid, uid in readers(host, uuid) if uid == 0][0], signal.SIGKILL)
    equal(c.answer(), ("LogsFailed", {"message": "The process that reads them was killed"}))
    wait_for(lambda: readers(host, uuid) == [], "the end of both")
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def what_is_refused(host):
    uuid = host.detach("--name=p", host.shell("touch /out/up; " + SLEEP, name="example.com/a"))
    host.wait_up("a")
    c = Reader(host, uuid)
    for parameters in {"lines": -1}, {"sinceUSec": -1}, {"untilUSec": 0}, {"format": "xml"}:
        equal(c.logs(**parameters).answer(), ("org.varlink.service.InvalidParameter", {"parameter": list(parameters)[0]}))
    equal(c.logs(app="nope").answer(), ("NoSuchApp", {"app": "nope"}))
    host.acnspawn("add-app", "p", host.shell("exit 0", name="example.com/c")).expect(0)
    equal(c.logs(app="c").answer(), {})  # one that was not started yet has written nothing
    equal(c.all(), "")
    equal(c.logs(app="--help").answer(), ("NoSuchApp", {"app": "--help"}))
    with open(host.path("file"), "w") as f:
        for name in "stdout", "stderr":
            r, w = os.pipe()
            c.send("Logs", {"stdout": int(name == "stderr"), "stderr": int(name == "stdout")}, [f.fileno(), w])
            equal(c.answer(), ("org.varlink.service.InvalidParameter", {"parameter": name}))
    c.send("Logs", {"stdout": 0})
    equal(c.answer(), ("org.varlink.service.InvalidParameter", {"parameter": "stdout"}))
    equal(readers(host, uuid), [])
    host.acnspawn("stop", "--force", "p").expect(0)


if __name__ == "__main__":
    main()
