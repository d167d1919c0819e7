#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""If the output of a pod is not read, or its journal is stopped, only the app that writes is blocked: the supervisor
still serves launchers and stop requests. The same if the file system of an app's log file hangs."""

import pty
import termios

import pod_interface
from hanging_fs import HangingFs
from harness import *

FLOOD = "trap 'exit 0' TERM; yes | head -c 3000000; sleep 1000 & wait"
# Without child processes: systemd also signals processes that appear while it iterates over the cgroup.
CLOCK = ("trap ': >/out/term; exit 0' TERM; touch /out/up; while true; do cut -d. -f1 /proc/uptime >/out/now; sleep 0.1; done")


def run_two(host, script=FLOOD, **more):
    p = subprocess.Popen(host.argv("run", "--name=p", host.shell(script, name="example.com/flood"),
                                   host.shell("sleep 1; " + CLOCK, name="example.com/other")), stdin=subprocess.DEVNULL, **more)
    host.children.append(p)
    return p


def stop_in_time(host):
    r = host.acnspawn("stop", "p", timeout=30).expect(0)
    true(os.path.exists(os.path.join(host.upper("other"), "out/term")), "the other app was not asked to end")
    equal(host.state("p"), "exited")
    return r.seconds


@case
def reader_that_does_not_read(host):
    r, w = os.pipe()
    p = run_two(host, stdout=w, stderr=subprocess.DEVNULL)
    os.close(w)
    host.wait_up("other")  # starts although its output is not read
    stop_in_time(host)
    equal(p.poll(), None, "status of acnspawn, which still has something to say")
    with open(r, "rb") as f:
        shown = f.read().count(b"\n")
    equal(p.wait(patience(20)), 0)
    true(shown > 10000, "only %d lines came" % shown)
    logged = host.acnspawn("logs", "--app=flood", "p").expect(0).out.count("\n")
    true(abs(shown - logged) <= 1, "%d lines were shown, %d are in the journal" % (shown, logged))


@case
def an_interrupt_while_the_rest_is_shown_removes_the_pod(host):
    r, w = os.pipe()
    image = host.shell("head -c 200000 /dev/zero | tr '\\0' x", name="example.com/a")
    p = subprocess.Popen(host.argv("run", "--rm", "--name=p", image), stdin=subprocess.DEVNULL, stdout=w, stderr=subprocess.DEVNULL,
                         preexec_fn=default_signals)
    os.close(w)
    wait_for(lambda: any("/exited/" in x for x in host.pods()), "the pod's end")
    wait_at_rest(p.pid)
    equal(p.poll(), None, "status of acnspawn, which still has something to say")
    os.kill(p.pid, signal.SIGINT)
    equal(p.wait(patience(20)), -signal.SIGINT)
    os.close(r)
    equal(host.pods(), [])


@case
def reader_that_does_not_read_errors(host):
    r, w = os.pipe()
    p = run_two(host, "exec 1>&2; " + FLOOD, stdout=subprocess.DEVNULL, stderr=w)
    os.close(w)
    host.wait_up("other")
    stop_in_time(host)
    p.kill()
    p.wait()
    os.close(r)


@case
def stopped_terminal(host):
    master, slave = pty.openpty()
    p = run_two(host, stdout=slave, stderr=slave)
    termios.tcflow(slave, termios.TCOOFF)
    host.wait_up("other")
    stop_in_time(host)
    equal(p.poll(), None, "status of acnspawn")
    os.kill(p.pid, signal.SIGTERM)
    equal(p.wait(patience(20)), -signal.SIGTERM)
    os.close(slave)
    os.close(master)


@case
def message_that_cannot_be_shown(host):
    """Messages of acnspawn do not block either: the terminal is not full to the point that apps would block."""
    master, slave = pty.openpty()
    p = run_two(host, "head -c 50000 /dev/zero | tr '\\\\0' x >&2; touch /out/written; sleep 1000", stdout=slave, stderr=slave)
    termios.tcflow(slave, termios.TCOOFF)
    wait_for(lambda: os.path.exists(os.path.join(host.upper("flood"), "out/written")), "what the app writes")
    host.wait_up("other")
    p.send_signal(signal.SIGTERM)
    wait_for(lambda: os.path.exists(os.path.join(host.upper("other"), "out/term")), "the end of the other app")
    wait_for(lambda: host.state("p") == "exited", "the pod's end")
    p.kill()
    p.wait()
    os.close(slave)
    os.close(master)


@case
def signal_ends_the_pod_although_output_is_not_read(host):
    r, w = os.pipe()
    p = run_two(host, stdout=w, stderr=subprocess.DEVNULL)
    os.close(w)
    host.wait_up("other")
    p.send_signal(signal.SIGTERM)
    wait_for(lambda: host.state("p") == "exited", "the pod's end")
    p.kill()
    p.wait()
    os.close(r)


@case
def streams_stay_blocking_for_others(host):
    """The flags of a shared standard output, such as that of the caller's shell, must not be changed."""
    r, w = os.pipe()
    p = run_two(host, "true", stdout=w, stderr=w)
    host.wait_up("other")
    equal(os.get_blocking(w), True, "whether the pipe blocks")
    stop_in_time(host)
    p.wait(patience(20))
    os.close(r)
    os.close(w)


@case
def slow_reader_gets_everything_in_order(host):
    r, w = os.pipe()
    p = subprocess.Popen(host.argv("run", host.shell("seq 1 200000")), stdin=subprocess.DEVNULL, stdout=w, stderr=subprocess.DEVNULL)
    host.children.append(p)
    os.close(w)
    wait_for(lambda: unread(r) > 4096 and at_rest(p.pid), "that the pipe is full")
    with open(r, "rb") as f:
        lines = f.read().split()
    equal(len(lines), 200000, "lines")
    equal(lines == [b"%d" % i for i in range(1, 200001)], True, "order")
    equal(p.wait(patience(20)), 0)


@case
def socket_as_standard_output(host):
    import socket
    ours, theirs = socket.socketpair()
    p = subprocess.Popen(host.argv("run", host.shell("seq 1 100000")), stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.DEVNULL)
    host.children.append(p)
    theirs.close()
    wait_for(lambda: unread(ours) > 4096 and at_rest(p.pid), "that the socket is full")
    with ours.makefile("rb") as f:
        equal(len(f.read().split()), 100000, "lines")
    equal(p.wait(patience(20)), 0)


@case
def stopped_journal_daemon_blocks_nothing(host):
    """A root app may stop the journal daemon. Writers then block, but the pod can be stopped at once."""
    script = ("sleep 0.5; for p in /proc/[0-9]*; do case $(cat $p/comm) in systemd-journal) kill -STOP ${p#/proc/};; esac; done; "
              "touch /out/stopped; yes >&2")
    flood = host.shell(script, name="example.com/flood")
    other = host.shell("trap ': >/out/term; exit 0' TERM; touch /out/up; while true; do cut -d' ' -f1 /proc/uptime >>/out/times; echo x; "
                       "sleep 0.05; done", name="example.com/other")
    host.detach("--name=p", "--stop-timeout=3s", flood, other)
    wait_for(lambda: os.path.exists(os.path.join(host.upper("flood"), "out/stopped")), "the stop of the journal daemon")
    times = lambda: [float(t) for t in host.written("other", "out/times").split()]
    n = len(times())
    wait_for(lambda: len(times()) > n + 40, "what the other app goes on to do")
    host.acnspawn("stop", "p", timeout=40).expect(0)
    found = times()
    true(max(b - a for a, b in zip(found, found[1:])) < patience(1.5), "the other app was held up")


@case
def files_of_a_removed_app_are_removed_while_others_run(host):
    """Before it restarts. That may take long: forever, if the process that restarts it is stopped."""
    big = host.shell("test -e /v/again && { ls /tmp; touch /v/clean; exec sleep 1000; }; cd /tmp; "
                     "for i in $(seq 20); do mkdir d$i; (cd d$i; touch $(seq 1500)); done; touch /v/again; sleep 1; exit 1",
                     name="example.com/big")
    uuid = host.prepare("--volume=v,kind=empty,mode=0777", "--exit-policy=all", big, "--mount=v:/v", "--restart=on-failure",
                        "--restart-delay=1s", host.shell(CLOCK.replace("sleep 0.1", "echo tick; sleep 0.1"), name="example.com/other"))
    for stopped in False, True:
        if stopped:
            uuid = host.prepare("--volume=v,kind=empty,mode=0777", "--exit-policy=all", "example.com/big", "--mount=v:/v",
                                "--restart=on-failure", "--restart-delay=1s", "example.com/other")
        p = host.start("run", uuid)
        host.wait_up("other", uuid)
        volume = host.pod_dir(uuid) + "/volumes/v/"
        wait_for(lambda: os.path.exists(volume + "again"), "what was written", timeout=60)
        if stopped:
            supervisor = host.supervisor(uuid)
            hold_soon("the process that removes it", lambda: children_of(supervisor), "remove-files")
            n = len(host.acnspawn("logs", "--app=other", uuid).out)
            wait_for(lambda: len(host.acnspawn("logs", "--app=other", uuid).out) > n + 20, "more of the other app")
        else:
            wait_for(lambda: os.path.exists(volume + "clean"), "the second start", timeout=30)
            equal(host.acnspawn("logs", "--app=big", uuid).out, "", "what the app finds")
            equal([n for n in os.listdir(host.pod_dir(uuid) + "/apps/big") if n.startswith("upper.")], [], "what is left")
        with within(10, "stopping"):
            host.acnspawn("stop", uuid).expect(0)
        host.finish(p)


@case
def nothing_listens_where_apps_can_send(host):
    """All processes that share a network namespace can connect to an abstract socket. If a connection with SO_LINGER
    were passed to it, close() would block for as long as the sender likes."""
    import array
    import socket
    uuid = host.detach("--name=p", "--net=host",
                       host.shell("trap 'exit 0' TERM; touch /out/up; while true; do sleep 0.1; done", name="example.com/a"))
    host.wait_up("a")
    with open("/proc/net/unix") as f:
        addresses = [a for a in (line.split()[-1] for line in f) if a.startswith("@") and uuid in a]
    listener = socket.create_server(("127.0.0.1", 0))
    for address in addresses:
        c = socket.create_connection(listener.getsockname())
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, array.array("i", [1, 60]).tobytes())
        c.setblocking(False)
        try:
            while True:
                c.send(bytes(65536))
        except BlockingIOError:
            pass
        s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        s.connect("\0" + address[1:])
        socket.send_fds(s, [b"x"], [c.fileno()])
        c.close()
    host.acnspawn("stop", "p", timeout=30).expect(0)
    equal(addresses, [], "sockets that anybody can send to")


@contextlib.contextmanager
def callers(host, uuid, base, packet=None):
    """Another root process of the pod that connects to the launchers' socket repeatedly, and sends nothing, or only
    PACKET. All of its allowed connections are in use all the time."""
    script = ("import os, select, socket, sys, time\n"
              "os.chdir(sys.argv[1]); os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))\n"
              "p = select.poll(); l = {}; told = False\n"
              "while True:\n"
              "    while len(l) < 200:\n"
              "        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
              "        s.connect('socket')\n"
              "        try:\n"
              "            if len(sys.argv) > 3: s.send(sys.argv[3].encode())\n"
              "        except OSError: pass\n"
              "        l[s.fileno()] = s; p.register(s, select.POLLIN)\n"
              "    if not told: print('full', flush=True); told = True\n"
              "    for fd, what in p.poll():\n"
              "        if what & (select.POLLHUP | select.POLLIN): p.unregister(fd); l.pop(fd).close()\n"
              "    time.sleep(0.001)  # others run, too\n")
    argv = [sys.executable, "-c", script, os.path.join(host.pod_dir(uuid), "root/acnspawn"), str(base)] + ([packet] if packet else [])
    p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    host.children.append(p)
    equal(p.stdout.readline(), b"full\n", "what the connections are")
    try:
        yield p
    finally:
        p.kill()
        p.wait()
        p.stdout.close()


def does_not_wait_for_silent_peers(host, packet):
    uuid = host.detach("--name=p", host.shell("trap 'exit 0' TERM; while true; do echo y; sleep 0.1; done", name="example.com/a"), "--stdin",
                       host.shell(CLOCK, name="example.com/b"))
    host.wait_up("b")
    with callers(host, uuid, host.uid_base("p"), packet) as caller:
        for verb in (("status", "p"), ("restart-app", "p", "b")):
            r = host.acnspawn(*verb).expect(0)
            true(r.seconds < patience(2), "%s took %.1f s" % (verb[0], r.seconds))
        p = subprocess.Popen(host.argv("attach", "p"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        host.children.append(p)
        with within(2, "attach"):
            equal(p.stdout.read(2), b"y\n", "what the app writes")
        p.kill()
        p.wait()
        supervisor = "/proc/%d/fd" % host.supervisor(uuid)
        true(len(os.listdir(supervisor)) < 120, "%d descriptors are open" % len(os.listdir(supervisor)))
        equal(caller.poll(), None, "status of the one who connects")
        r = host.acnspawn("stop", "p").expect(0)
        true(r.seconds < patience(4), "stop took %.1f s" % r.seconds)


@case
def callers_that_say_nothing(host):
    does_not_wait_for_silent_peers(host, None)


@case
def callers_that_say_a_byte(host):
    does_not_wait_for_silent_peers(host, "x")


@case
def a_caller_that_is_slow_is_not_displaced(host):
    """A launcher that has connected and not sent its packet yet, while another process connects repeatedly: if its
    connection were closed, its app would fail, and the pod would end."""
    import socket
    uuid = host.detach("--name=p", host.shell(CLOCK, name="example.com/b"))
    host.wait_up("b")
    script = ("import os, socket, struct, sys\n"
              "os.chdir(sys.argv[1]); os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))\n"
              "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect('socket'); s.settimeout(60)\n"
              "print('connected', flush=True); sys.stdin.readline()\n"
              "s.send(struct.pack('IIi248s', 5, 4, -1, b'b')); print(len(s.recv(4096)), flush=True)\n")
    base = host.uid_base("p")
    for _ in range(3):
        slow = subprocess.Popen([sys.executable, "-c", script, os.path.join(host.pod_dir(uuid), "root/acnspawn"), str(base)],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        host.children.append(slow)
        equal(slow.stdout.readline(), b"connected\n")
        with callers(host, uuid, base):
            time.sleep(0.3)  # Any time: the others connect and are disconnected meanwhile
            out, _ = slow.communicate(b"\n", timeout=patience(20))
        true(out.strip().isdigit() and int(out) > 100, "no answer: %r" % out)
    host.acnspawn("stop", "p").expect(0)


@case
def a_silent_client_is_disconnected(host):
    import socket
    uuid = host.detach("--name=p", "--no-userns", host.shell(CLOCK, name="example.com/b"))
    host.wait_up("b")
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    d = os.open(os.path.join(host.pod_dir(uuid), "root/acnspawn"), os.O_PATH)
    s.connect("/proc/self/fd/%d/socket" % d)
    os.close(d)
    s.settimeout(patience(10))
    begun = time.monotonic()
    with within(6, "hanging up"):
        equal(s.recv(100), b"", "what is said to somebody silent")
    true(1 < time.monotonic() - begun, "hung up on after %.1f s" % (time.monotonic() - begun))
    s.close()
    host.acnspawn("stop", "p").expect(0)


# Without a handler: the shell would execute it only when its output is taken.
COUNTS = "touch /out/up; i=0; while :; do i=$((i + 1)); echo $i; done"
TICKS = "trap 'exit 0' TERM; touch /out/up; i=0; while :; do i=$((i + 1)); echo $i; sleep 0.05; done"


def writers_of(supervisor):
    return processes_where(lambda pid: name_of(pid) == "write-log", children_of(supervisor))


def mounts_of(pid):
    return os.readlink("/proc/%d/ns/mnt" % pid)


def below(pid, name):
    """Children of children of the process."""
    return processes_where(lambda p: name_of(p) == name, [n for found in of_processes(children_of, children_of(pid)).values() for n in found])


def lines_of(path):
    """Complete lines of a plain log file."""
    return read_text(path).split("\n")[:-1]


def is_counted(lines):
    """True if these are all numbers of one or more executions. The shell adds words of its own."""
    numbers = [0] + [int(l) for l in lines if l.isdigit()]
    return all(b in (a + 1, 1) for a, b in zip(numbers, numbers[1:]))


def hanging_log(host, fs):
    """Arguments for pod p of app a, whose log file is on FS, and of b, whose log file is elsewhere."""
    return ["--name=p", "--exit-policy=never", host.shell(COUNTS, name="example.com/a"), "--log=none", "--log-file=%s/a.log,format=plain" % fs.directory,
            "---", host.shell(TICKS, name="example.com/b"), "--log-file=%s,format=plain" % host.path("b.log")]


def hang_in_use(host, fs):
    """The file system hangs while app a writes, until that waits. Returns the UUID of the pod, and its processes that write log files."""
    host.wait_up("a")
    host.wait_up("b")
    wait_for(lambda: os.path.getsize(fs.directory + "/a.log") > 100000, "output of the app")
    fs.hang()
    uuid = host.status("p")["uuid"]
    apps = processes_where(lambda pid: "/app-a.service" in read_text("/proc/%d/cgroup" % pid), host.processes())
    true(apps, "the app runs")
    wait_for(lambda: at_rest(*apps), "that the app waits")
    writers = writers_of(host.supervisor(uuid))
    equal(len(writers), 2, "processes that write log files")
    return uuid, writers


@case
def a_log_file_system_that_hangs_delays_its_app_alone(host):
    with HangingFs(host.path("hanging")) as fs:
        host.detach(*hanging_log(host, fs))
        uuid, _ = hang_in_use(host, fs)
        supervisor = host.supervisor(uuid)
        b = host.path("b.log")
        with within(8, "everything else"):
            size = os.path.getsize(b)
            wait_for(lambda: os.path.getsize(b) > size, "lines of the other app")
            equal(host.acnspawn("enter", "--app=b", "p", "echo", "in").expect(0).out, "in\n")
            equal(host.acnspawn("enter", "--app=a", "p", "echo", "in").expect(0).out, "in\n")
            for verb in "stop-app", "start-app", "restart-app":
                host.acnspawn(verb, "p", "b").expect(0)
            os.rename(b, b + ".1")
            host.acnspawn("logs", "--reopen", "--app=b", "p").expect(0)
            true(os.path.exists(b), "the new file is there")
            host.acnspawn("add-app", "p", "--start", host.shell(TICKS, name="example.com/c"), "--log-file=" + host.path("c.log")).expect(0)
            wait_for(lambda: os.path.getsize(host.path("c.log")) > 0, "lines of the added app")
            host.acnspawn("rm-app", "--force", "p", "c").expect(0)
        reopening = host.start("logs", "--reopen", "--app=a", "p")
        wait_at_rest(supervisor)
        fs.answer()
        equal(host.finish(reopening).rc, 0, "status of the call that waited")
        size = os.path.getsize(fs.directory + "/a.log")
        wait_for(lambda: os.path.getsize(fs.directory + "/a.log") > size + 300000, "that the app goes on")
        host.acnspawn("stop", "p").expect(0)
        lines = lines_of(fs.directory + "/a.log")
        true(is_counted(lines) and len(lines) > 10000, "lines are missing among %d" % len(lines))
        true(is_counted(lines_of(b + ".1") + lines_of(b)), "lines of the other app")


@case
def calls_that_open_a_log_file_do_not_wait_for_ever(host):
    with HangingFs(host.path("hanging")) as fs:
        host.detach(*hanging_log(host, fs))
        uuid, writers = hang_in_use(host, fs)
        log = "%s/c.log" % fs.directory
        adding = host.start("add-app", "p", host.shell(TICKS, name="example.com/c"), "--log-file=" + log)
        reopening = host.start("logs", "--reopen", "p")
        running = host.start("run", host.shell("true", name="example.com/d"), "--log-file=" + fs.directory + "/d.log")
        checking, = wait_for(lambda: below(host.supervisor(uuid), "check-log"), "the check of the file of the added app")
        wait_for(lambda: at_rest(checking), "that it waits")
        equal(mounts_of(checking), mounts_of(writers[0]), "mount namespace of the check")
        calls = [pod_interface.Connection(host, uuid) for _ in range(64)]
        for c in calls:
            c.send("ReopenLogs", {"app": "a"})
        for p, app, path in (adding, "c", log), (reopening, "a", fs.directory + "/a.log"), (running, "d", fs.directory + "/d.log"):
            r = host.finish(p)
            true(r.rc != 0, "status")
            contains(r.err, "Cannot write the log of app %s to %s: its file system does not answer" % (app, path))
        true(all("error" in c.receive() for c in calls), "an error for each call")
        equal(calls[0].call("ReopenLogs", app="b"), {})
        fs.answer()
        host.acnspawn("logs", "--reopen", "p").expect(0)
        host.acnspawn("add-app", "p", "example.com/c", "--log-file=" + log).expect(0)
        host.acnspawn("stop", "--force", "p").expect(0)


def ends_in_time(host, *words):
    """The pod ends, and is removed, while the process that writes its log file cannot be killed."""
    with HangingFs(host.path("hanging")) as fs:
        p = subprocess.Popen(host.argv("run", *hanging_log(host, fs)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        host.children.append(p)
        _, writers = hang_in_use(host, fs)
        with within(15, "the end"):
            host.acnspawn("stop", *words, "p").expect(0)
        equal(host.state("p"), "exited")
        _, err = p.communicate(timeout=patience(20))
        contains(re.sub(r"\d+ bytes", "N bytes", err.decode()), "Warning: The file system of the log file %s/a.log of app a does not answer: "
                 "N bytes of output at its end are given up\n" % fs.directory)
        with within(5, "the removal"):
            host.acnspawn("rm", "p").expect(0)
        equal(len([w for w in writers if not has_ended(w)]), 1, "processes that cannot end")
        fs.answer()
        wait_for(lambda: all(map(has_ended, writers)), "the end of that process")
        lines = lines_of(fs.directory + "/a.log")
        true(is_counted(lines), "lines are missing among %d" % len(lines))
        true(is_counted(lines_of(host.path("b.log"))), "lines of the other app")


@case
def a_pod_ends_while_the_file_system_of_a_log_hangs(host):
    ends_in_time(host)


@case
def a_pod_is_killed_while_the_file_system_of_a_log_hangs(host):
    ends_in_time(host, "--force")


@case
def a_process_that_writes_a_log_file_is_replaced(host):
    log = host.path("a.log")
    host.detach("--name=p", host.shell(TICKS, name="example.com/a"), "--log-file=%s,format=plain" % log)
    host.wait_up("a")
    supervisor = host.supervisor(host.status("p")["uuid"])
    writer, = writers_of(supervisor)
    wait_for(lambda: os.path.getsize(log) > 0, "lines in the file")
    mounts = mounts_of(writer)
    os.kill(writer, signal.SIGKILL)
    wait_for(lambda: writers_of(supervisor) not in ([], [writer]), "another process")
    size = os.path.getsize(log)
    wait_for(lambda: os.path.getsize(log) > size, "more lines")
    equal([mounts_of(w) for w in writers_of(supervisor)], [mounts], "mount namespace of the other process")
    said = "acnspawn: the process that writes the log file %s of app a was killed: " % log
    wait_for(lambda: said in host.acnspawn("logs", "p").expect(0).out, "the message")
    host.acnspawn("stop", "p").expect(0)
    lines = [int(l) for l in lines_of(log) if l.isdigit()]
    true(lines == sorted(set(lines)), "lines are doubled, or not in order")


@case
def a_log_file_is_complete_after_the_death_of_the_supervisor(host):
    log = host.path("a.log")
    uuid = host.detach("--name=p", host.shell(COUNTS, name="example.com/a"), "--log=none", "--log-file=%s,format=plain" % log)
    host.wait_up("a")
    supervisor = host.supervisor(uuid)
    writer, = writers_of(supervisor)
    wait_for(lambda: os.path.getsize(log) > 100000, "lines in the file")
    os.kill(supervisor, signal.SIGKILL)
    wait_for(lambda: has_ended(writer), "the end of the process that writes the file")
    true(is_counted(lines_of(log)), "lines are missing")
    host.acnspawn("rm", "p").expect(0)


main()
