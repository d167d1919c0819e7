#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Commands run in apps by the method Exec of the pod's interface: their streams, terminals and ends, the processes
that are killed with them, and that the supervisor keeps no resources of them."""

import fcntl
import select
import socket
import struct
import termios

import pod_interface
from harness import *

APP = "trap 'exit 0' TERM; touch /out/up; while :; do sleep 0.1; done"


class Connection(pod_interface.Connection):
    def answer(self):
        """The parameters of the next reply; for an error, its name without the interface, and the parameters."""
        message = self.receive()
        if "error" in message:
            return message["error"].replace("org.acnspawn.Pod.", ""), message.get("parameters", {})
        return message.get("parameters", {})

    def exec(self, *command, fds=(), more=True, **parameters):
        """Begins one."""
        self.send("Exec", dict({"app": "a", "command": list(command)}, **parameters), fds, more=more)
        return self

    def run(self, script, **parameters):
        """(standard output, last reply)"""
        r, w = os.pipe()
        self.exec("sh", "-c", script, fds=[w], stdout=0, more=False, **parameters)
        os.close(w)
        with os.fdopen(r, "rb") as f:
            out = f.read()
        return out.decode(), self.answer()

    def close(self):
        self.socket.close()
        for fd in self.fds:
            os.close(fd)


the_pod = {}  # "uuid": of the last one that was started


def start(host, *options, script=APP):
    uuid = the_pod["uuid"] = host.detach("--name=p", *options, host.shell(script, name="example.com/a"))
    host.wait_up("a")
    return uuid, Connection(host, uuid)


def descriptors(host, uuid):
    return len(os.listdir("/proc/%d/fd" % host.supervisor(uuid)))


def children(host, uuid):
    """Of the supervisor: (name, state)."""
    return list(of_processes(lambda pid: (name_of(pid), read_text("/proc/%d/stat" % pid).rpartition(")")[2].split()[0]),
                             children_of(host.supervisor(uuid))).values())


def app_cgroup(host, pid):
    """Directory, in the v2 hierarchy, of the cgroup of the app that the process belongs to."""
    line = re.search(r"^0::(.*)$", read_text("/proc/%s/cgroup" % pid), re.M).group(1)
    mount = "/sys/fs/cgroup/unified" if os.path.isdir("/sys/fs/cgroup/unified") else "/sys/fs/cgroup"
    return mount + re.sub(r"/exec-\d+$", "", line)


def execs_of(directory):
    return sorted(n for n in os.listdir(directory) if n.startswith("exec-"))


def sleeping():
    """Pid of the host to the command line, of processes of this case's pod. Another run of these tests has the same ones."""
    uuid = the_pod["uuid"]
    lines = of_processes(lambda pid: (uuid in read_text("/proc/%d/cgroup" % pid), read_text("/proc/%d/cmdline" % pid)))
    return {pid: line for pid, (ours, line) in lines.items() if ours}


def named(seconds):
    """The host's pids of those that sleep so long."""
    return [pid for pid, line in sleeping().items() if line == "sleep\0%s\0" % seconds]


def numbers(*seconds):
    """How many sleep so long, for each of SECONDS; seen at once."""
    lines = list(sleeping().values())
    return [lines.count("sleep\0%s\0" % n) for n in seconds]


def has_pids_controller():
    """Conditions under which limits of processes are in force: see isolators.py."""
    controllers = "/sys/fs/cgroup/cgroup.controllers"
    return os.path.isdir("/sys/fs/cgroup/pids") or (os.path.exists(controllers) and "pids" in read_text(controllers).split())


# The process that it starts runs in the background, in a separate session, and is not its child any more.
HIDDEN = "(setsid sh -c 'trap \"\" TERM HUP; sleep %s; :' &) ; (setsid sh -c 'exec sleep %s' &)"


# --- Streams and ends ---------------------------------------------------------------------------------------------------

@both
def streams_and_status(host, *options):
    uuid, c = start(host, *options)
    pipes = [os.pipe() for _ in range(3)]
    c.exec("sh", "-c", "cat; echo err >&2; exit 7", fds=[pipes[0][0], pipes[1][1], pipes[2][1]], stdin=0, stdout=1, stderr=2)
    for fd in pipes[0][0], pipes[1][1], pipes[2][1]:
        os.close(fd)
    first = c.answer()
    equal((first["id"], "terminal" in first), (1, False))
    true(os.path.exists("/proc/%d" % first["pid"]), "the process that was named")
    contains(read_text("/proc/self/fdinfo/%d" % c.fds[first["process"]]), "Pid:\t%d\n" % first["pid"])
    os.write(pipes[0][1], b"in\0put")
    os.close(pipes[0][1])
    equal((os.read(pipes[1][0], 100), os.read(pipes[2][0], 100)), (b"in\0put", b"err\n"))
    equal(c.answer(), {"id": 1, "exitStatus": 7})
    equal((os.read(pipes[1][0], 100), os.read(pipes[2][0], 100)), (b"", b""), "what comes behind")
    equal(c.run("kill -9 $$")[1], {"id": 2, "signal": 9})
    equal(c.run("echo x >/dev/stdout; echo $A; pwd; id -u", environment=["A=1", "A=2"], workingDirectory="/out", user="7")[0],
          "x\n2\n/out\n7\n")
    equal(c.run("echo $(id -u) $(id -g)", user="7", group="8")[0], "7 8\n")
    for who in {"user": ":8"}, {"group": "8"}:
        equal(c.run("echo $(id -u) $(id -g)", **who)[0], "0 8\n")
    equal(c.run("echo $(id -u) $(id -g)", user="7:")[0], "7 0\n")
    host.acnspawn("stop", "p").expect(0)


@both
def streams_that_are_not_given_are_null(host, *options):
    uuid, c = start(host, *options)
    out, end = c.run("cat; echo lost >&2 && echo kept; ls -l /proc/self/fd/2 >/dev/null; stat -L -c '%t %T' /proc/self/fd/0 /proc/self/fd/2")
    equal((out, end["exitStatus"]), ("kept\n1 3\n1 3\n", 0))
    # It is the app's own, and shows no path of the host.
    equal(c.run("readlink /proc/self/fd/0; readlink /proc/self/fd/2")[0], "/dev/null\n/dev/null\n")
    equal(c.exec("sh", "-c", "echo lost; cat", more=False).answer()["exitStatus"], 0)
    # The node is still that of the app's /dev, whatever the command does with its streams.
    before = os.stat("/dev/null")
    c.run("chmod 600 /proc/self/fd/2; chown 5 /proc/self/fd/2; true")
    after = os.stat("/dev/null")
    equal((after.st_mode, after.st_uid), (before.st_mode, before.st_uid), "the host's null device")
    host.acnspawn("stop", "p").expect(0)


@both
def terminals(host, *options):
    uuid, c = start(host, *options)
    equal(c.exec("tty", terminal=True, more=False).answer()[0], "org.varlink.service.ExpectedMore")
    c.exec("sh", "-c", "tty; stty size; echo $TERM; read x; stty size; echo got $x >/dev/tty; exit 3", terminal=True, rows=33,
           columns=77, terminalType="xterm-test")
    first = c.answer()
    master = c.fds[first["terminal"]]
    text = b""

    def until(words):
        nonlocal text
        while words not in text:
            select.select([master], [], [], 30)  # it does not block
            text += os.read(master, 1000)
    until(b"xterm-test")
    true(re.match(rb"/dev/pts/\d+\r\n33 77\r\n", text), "what is on the terminal: %r" % text)
    other = Connection(host, uuid)
    equal(other.call("ResizeTerminal", id=first["id"], rows=44, columns=88), {})
    equal(struct.unpack("HHHH", fcntl.ioctl(master, termios.TIOCGWINSZ, bytes(8)))[:2], (44, 88))
    for rows, columns in (0, 5), (5, 0), (-1, 5), (70000, 5):
        equal(other.call("ResizeTerminal", id=first["id"], rows=rows, columns=columns)[0], "org.varlink.service.InvalidParameter")
    equal(other.call("ResizeTerminal", id=99, rows=4, columns=4), ("NoSuchTerminal", {"id": 99}))
    os.write(master, b"word\n")
    until(b"got word")
    contains(text, b"44 88")
    equal(c.answer(), {"id": first["id"], "exitStatus": 3})
    equal(other.call("ResizeTerminal", id=first["id"], rows=4, columns=4)[0], "NoSuchTerminal")
    # Errors apart.
    r, w = os.pipe()
    c.exec("sh", "-c", "test -t 0 && test -t 1 && ! test -t 2 && echo apart >&2", terminal=True, stderr=0, fds=[w])
    os.close(w)
    equal(os.read(r, 100), b"apart\n")
    c.answer()
    equal(c.answer()["exitStatus"], 0)
    os.close(r)
    # Without a terminal there is nothing to resize.
    other.exec("sleep", "1000")
    equal(c.call("ResizeTerminal", id=other.answer()["id"], rows=4, columns=4)[0], "NoSuchTerminal")
    other.close()
    host.acnspawn("stop", "p").expect(0)


# --- What is killed -----------------------------------------------------------------------------------------------------

@both
def a_time_out_kills_all_that_it_has_started(host, *options):
    uuid, c = start(host, *options)
    begin = time.monotonic()
    c.exec("sh", "-c", HIDDEN % (70001, 70002) + "; trap '' TERM; sleep 70003; sleep 70003", timeoutUSec=2000000)
    directory = app_cgroup(host, c.answer()["pid"])
    wait_for(lambda: numbers(70001, 70002, 70003) == [1, 1, 1], "what the command starts")
    equal(execs_of(directory), ["exec-1"])
    end = c.answer()
    equal((end["timedOut"], end["signal"]), (True, 9))
    true(1.9 < time.monotonic() - begin < patience(15), "time until it was killed")
    equal(numbers(70001, 70002, 70003), [0, 0, 0], "what is left when that is answered")
    equal(execs_of(directory), [], "cgroups")
    r = host.acnspawn("enter", "--timeout=300ms", "p", "sleep", "70004").expect(124)
    contains(r.err, "timed out")
    equal(c.run("true", timeoutUSec=20000000)[1]["exitStatus"], 0)
    host.acnspawn("stop", "p").expect(0)


@case
def a_caller_that_disconnects_ends_its_command(host):
    uuid, c = start(host)
    other = Connection(host, uuid)
    other.exec("sh", "-c", HIDDEN % (70011, 70012) + "; sleep 70013")
    directory = app_cgroup(host, other.answer()["pid"])
    wait_for(lambda: numbers(70011, 70012, 70013) == [1, 1, 1], "what the command starts")
    other.close()
    wait_for(lambda: numbers(70011, 70012, 70013) == [0, 0, 0], "the end of all")
    wait_for(lambda: execs_of(directory) == [], "removal of the cgroup")
    # At any moment of the start.
    for n in range(60):
        gone = Connection(host, uuid)
        gone.exec("sleep", "70014")
        time.sleep(n * 0.0003)  # any time
        gone.close()
    wait_for(lambda: named(70014) == [] and execs_of(directory) == [], "the end of all")
    equal(c.run("echo here")[0], "here\n")
    equal([x for x in children(host, uuid) if x[1] == "Z" or "launch" in x[0]], [], "processes that are left")
    host.acnspawn("stop", "p").expect(0)


@case
def background_processes_of_a_command_belong_to_the_app(host):
    uuid, c = start(host)
    c.exec("sh", "-c", HIDDEN % (70021, 70022) + "; until [ -e /out/go ]; do sleep 0.05; done")
    first = c.answer()
    directory = app_cgroup(host, first["pid"])
    running = lambda: numbers(70021, 70022)
    wait_for(lambda: running() == [1, 1], "the processes in the background")
    host.acnspawn("enter", "p", "touch", "/out/go").expect(0)
    equal(c.answer()["exitStatus"], 0)
    wait_for(lambda: execs_of(directory) == [], "removal of the cgroup")
    equal(running(), [1, 1], "what was left running")
    for pid in named(70021) + named(70022):
        contains(read_text(os.path.join(directory, "cgroup.procs")).split(), str(pid))
    c.exec("sleep", "70023", more=False)
    begin = time.monotonic()
    host.acnspawn("stop", "--force", "p").expect(0)
    true(time.monotonic() - begin < patience(10), "time to stop")
    equal(numbers(70021, 70022, 70023), [0, 0, 0])


@case
def a_one_way_call_leaves_it_running(host):
    uuid, c = start(host)
    c.send("Exec", {"app": "a", "command": ["sleep", "70031"]}, oneway=True)
    wait_for(lambda: len(named(70031)) == 1, "the command")
    c.close()
    c = Connection(host, uuid)
    equal(c.run("echo here")[0], "here\n")
    equal(len(named(70031)), 1, "commands of one-way calls")
    equal(c.call("StopApp", app="a"), {}, "stop of the app")
    wait_for(lambda: named(70031) == [], "its end with the app")
    host.acnspawn("status", "--wait=20s", "p").expect(0)


@both
def it_ends_with_the_app_and_does_not_hold_it_up(host, *options):
    uuid = the_pod["uuid"] = host.detach("--name=p", *options, "--exit-policy=all", "--stop-timeout=60s", host.shell(APP, name="example.com/a"),
                       host.shell(APP, name="example.com/b"))
    host.wait_up("a")
    host.wait_up("b")
    c, other = Connection(host, uuid), Connection(host, uuid)
    for method, state in ("RestartApp", "running"), ("StopApp", "exited"):
        c.exec("sh", "-c", "trap '' TERM HUP INT; echo; " + HIDDEN % (70041, 70042) + "; while :; do sleep 1; done")
        directory = app_cgroup(host, c.answer()["pid"])
        wait_for(lambda: numbers(70041, 70042) == [1, 1], "what the command starts")
        begin = time.monotonic()
        equal(other.call(method, app="a"), {})
        true(time.monotonic() - begin < patience(15), "%s was held up: %.1f s" % (method, time.monotonic() - begin))
        equal(c.answer()["signal"], 9)
        equal(numbers(70041, 70042), [0, 0])
        wait_for(lambda: [a["state"] for a in other.call("Describe")["apps"]][0] == state, "state of the app")
    true(not os.path.exists(directory), "the cgroup of an app that was stopped")
    equal(c.exec("true").answer(), ("WrongState", {"app": "a", "state": "exited"}))
    equal(c.exec("true", app="b").answer()["pid"] > 0, True)
    host.acnspawn("stop", "p").expect(0)


# --- Many ---------------------------------------------------------------------------------------------------------------

@case
def a_hundred_at_once(host):
    uuid, c = start(host)
    equal(c.run("true")[1]["exitStatus"], 0)
    before = steady(lambda: descriptors(host, uuid))
    many = [Connection(host, uuid) for _ in range(100)]
    pipes = [os.pipe() for _ in many]
    wait, go = os.pipe()
    for n, (x, (r, w)) in enumerate(zip(many, pipes)):
        x.exec("sh", "-c", "cat; echo %d; exit %d" % (n, n), fds=[wait, w], stdin=0, stdout=1)
        os.close(w)
    os.close(wait)
    firsts = [x.answer() for x in many]
    equal(len({f["id"] for f in firsts}), 100)
    directory = app_cgroup(host, firsts[0]["pid"])
    os.close(go)
    equal([x.answer()["exitStatus"] for x in many], list(range(100)))
    equal([os.read(r, 100).decode() for r, _ in pipes], ["%d\n" % n for n in range(100)])
    for x, (r, _) in zip(many, pipes):
        x.close()
        os.close(r)
    nothing_more(lambda: descriptors(host, uuid), before, "descriptors")
    equal(execs_of(directory), [], "cgroups")
    for n in range(50):
        equal(c.exec("true").answer()["id"], 102 + n)
        equal(c.answer()["exitStatus"], 0)
    for fd in c.fds:
        os.close(fd)
    c.fds = []
    nothing_more(lambda: descriptors(host, uuid), before, "descriptors")
    equal([x for x in children(host, uuid) if x[1] == "Z" or "launch" in x[0]], [], "processes that are left")
    host.acnspawn("stop", "p").expect(0)


@case
def not_more_than_so_many(host):
    uuid, c = start(host)
    for n in range(128):
        c.send("Exec", {"app": "a", "command": ["sleep", "70051"]}, oneway=True)
    equal(c.exec("true").answer(), ("TooManyExecs", {"limit": 128}))
    contains(host.acnspawn("enter", "p", "true").expect(1).err, "Too many commands")
    true(len(named(70051)) <= 128, "commands")
    equal(c.call("StopApp", app="a"), {})
    host.acnspawn("status", "--wait=30s", "p").expect(0)
    equal(named(70051), [])


@case
def an_app_at_its_limit_of_processes(host):
    """The command's own process is allowed; its children are not."""
    if not has_pids_controller():
        raise Skip("this host has no pids controller")
    uuid, c = start(host, "--tasks-max=4", script="touch /out/up; sleep 70061 & sleep 70061 & sleep 70061 & exec sleep 70062")
    wait_for(lambda: (len(named(70061)), len(named(70062))) == (3, 1), "an app that has all its processes")
    r, w = os.pipe()
    c.exec("echo", "in", fds=[w], stdout=0, more=False)
    os.close(w)
    equal((c.answer()["exitStatus"], os.read(r, 100)), (0, b"in\n"))
    os.close(r)
    host.acnspawn("stop", "--force", "p").expect(0)


# --- What is refused ----------------------------------------------------------------------------------------------------

@case
def commands_that_cannot_be_run(host):
    uuid, c = start(host)
    invalid = "org.varlink.service.InvalidParameter"
    equal(c.exec("true", app="nosuch").answer(), ("NoSuchApp", {"app": "nosuch"}))
    error, p = c.exec("nope").answer()
    equal((error, p["app"]), ("CommandNotFound", "a"))
    contains(p["message"], "nope is not in the image")
    equal(c.exec("/etc/passwd").answer()[0], "CannotExecute")
    for key, value, cause in ("workingDirectory", "/nope", "working-directory-missing"), ("user", "nobody-here", "user-not-found"):
        error, p = c.exec("true", **{key: value}).answer()
        equal((error, p["cause"]), ("ExecFailed", cause))
        true(p["message"], "a message")
    for key, value in (("workingDirectory", "x"), ("user", ""), ("user", ":"), ("environment", ["X"]),
                       ("environment", ["=x"]), ("command", [""]), ("rows", 0),
                       ("columns", 65536), ("timeoutUSec", 0), ("timeoutUSec", -1), ("stdin", -1), ("stdout", 0), ("stderr", 1 << 40),
                       ("command", "true"), ("terminal", 1), ("terminalType", "x" * 100)):
        parameters = dict({"app": "a", "command": ["true"]}, **{key: value})
        c.send("Exec", parameters, more=True)
        error, p = c.answer()
        equal(error, invalid, "answer to %s %r" % (key, value))
        contains(p["parameter"], key)
    equal(c.call("ResizeTerminal", id=1, rows=1)[0], invalid)
    host.acnspawn("pause", "p").expect(0)
    equal(c.exec("true").answer(), ("PodPaused", {}))
    host.acnspawn("resume", "p").expect(0)
    equal(c.run("echo x")[0], "x\n")
    host.acnspawn("stop", "p").expect(0)


@case
def only_pipes_are_streams(host):
    """Other descriptors would give access to objects of the host, or their owner would be changed."""
    uuid, c = start(host)
    os.mkfifo(host.path("fifo"))
    with open(host.path("file"), "w"):
        pass
    pair = socket.socketpair()
    opened = [os.open(host.path("file"), os.O_RDWR), os.open("/dev/null", os.O_RDWR), os.open("/", os.O_RDONLY), os.open("/", os.O_PATH),
              os.open(host.path("fifo"), os.O_RDWR), os.open("/proc/self/status", os.O_RDONLY), pair[0].fileno(), os.memfd_create("x")]
    before = [(os.fstat(fd).st_uid, os.fstat(fd).st_gid) for fd in opened]
    for fd in opened:
        for name in "stdin", "stdout", "stderr":
            equal(c.exec("true", fds=[fd], **{name: 0}).answer(), ("org.varlink.service.InvalidParameter", {"parameter": name}))
    equal([(os.fstat(fd).st_uid, os.fstat(fd).st_gid) for fd in opened], before, "owners")
    r, w = os.pipe()
    equal(c.exec("true", fds=[w], stdout=0, stderr=0).answer(), ("org.varlink.service.InvalidParameter", {"parameter": "stderr"}))
    equal(c.exec("true", fds=[r], stdin=0, terminal=True).answer(), ("org.varlink.service.InvalidParameter", {"parameter": "stdin"}))
    # The command has no other descriptor of the call.
    out, _ = c.run("ls /proc/self/fd")
    equal(out.split()[:3], ["0", "1", "2"])
    equal(len(out.split()), 4)  # that of ls itself
    host.acnspawn("stop", "p").expect(0)


main()
