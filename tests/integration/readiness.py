#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Readiness of apps: by notification, and by health check; waiting for it; and apps that never become ready, or are not
healthy any more."""

import socket
import struct

import pace
from harness import *
from terminals import Terminal

SLOW = "sleep 0.7; poke notify READY=1 >/dev/null; echo told; while :; do sleep 0.1; done"
NOTIFY = [{"name": "appc.io/executor/supports-systemd-notify", "value": "true"}]


def health(**more):
    return json.dumps(dict({"Test": ["CMD-SHELL", "test -e /out/good"], "Interval": 200000000, "Timeout": 5000000000}, **more))


def checked(host, script, **more):
    """An image whose health check sees the file /out/good."""
    return host.shell(script, annotations=[{"name": "org.opencontainers.image.healthcheck", "value": health(**more)}])


class Listener:
    """Receives the messages of sd_notify()."""

    def __init__(self, host):
        self.path = host.path("notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.lines = []

    def environment(self):
        return dict(os.environ, NOTIFY_SOCKET=self.path)

    def has(self, line):
        self.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self.lines += self.socket.recv(4096).decode().splitlines()
        return line in self.lines


# --- Notifications -------------------------------------------------------------------------------------------------------


@case
def detached_run_returns_when_the_app_says_it_is_ready(host):
    uuid = host.prepare(host.shell(SLOW, annotations=NOTIFY))
    start = time.monotonic()
    host.acnspawn("run", "--detach", uuid).expect(0)
    true(time.monotonic() - start >= 0.7, "run did not wait")
    equal(host.app_status(uuid, "image1")["ready"], True)
    contains(host.acnspawn("status", uuid).out, "ready")
    host.acnspawn("stop", uuid).expect(0)


@case
def an_image_that_does_not_tell_has_nothing_of_it(host):
    host.run("--name=p", host.shell("echo socket=$NOTIFY_SOCKET; ls /dev; ls -d /run/systemd/notify"), rc=1)
    r = host.acnspawn("logs", "p")
    contains(r.out, "socket=\n")
    lacks(r.out, "notify")
    equal(host.app_status("p", "image1")["ready"], None)


@case
def the_socket_is_all_that_the_app_sees_of_the_pods_systemd(host):
    script = "echo $NOTIFY_SOCKET; ls /run; grep notify /proc/self/mountinfo | wc -l; poke notify READY=1"
    r = host.run("--name=p", host.shell(script, annotations=NOTIFY), "--environment=NOTIFY_SOCKET=/elsewhere")
    contains(r.out, "/dev/notify\n1\n")


@case
def an_option_takes_it_from_an_image_or_gives_it(host):
    host.run("--name=a", host.shell("echo socket=$NOTIFY_SOCKET", annotations=NOTIFY), "--notify=false")
    r = host.run("--name=b", host.shell("echo socket=$NOTIFY_SOCKET; poke notify READY=1"), "--notify=true")
    contains(r.out, "socket=/dev/notify")


@case
def status_shows_which_apps_are_starting(host):
    p = host.start("run", "--name=p", host.shell("while ! test -e /out/go; do sleep 0.05; done; poke notify READY=1; sleep 1000",
                                                 annotations=NOTIFY), "---", host.shell("sleep 1000"))
    wait_for(lambda: host.pods() and "running" in host.pods()[0] and host.app_status("p", "image1")["state"] == "running", "the app runs")
    equal(host.app_status("p", "image1")["ready"], False)
    equal(host.app_status("p", "image2")["ready"], None)
    contains(host.acnspawn("status", "p").out, "starting")
    host.acnspawn("enter", "--app=image1", "p", "--", "touch", "/out/go").expect(0)
    wait_for(lambda: host.app_status("p", "image1")["ready"], "the app is ready")
    host.acnspawn("stop", "p").expect(0)
    host.finish(p)


@case
def a_pod_that_does_its_work_at_once_has_not_failed_to_start(host):
    """It may have ended before it is reported as up; its exit status says how. If it cannot be executed, it has."""
    listener = Listener(host)
    image = host.shell("true", name="example.com/a")
    fails = host.shell("exit 3", name="example.com/b")
    for i in range(8):
        host.run("--rm", fails if i % 2 else image, env=listener.environment(), rc=3 if i % 2 else 0)
        wait_for(lambda: listener.has("READY=1") and listener.lines.count("READY=1") == i + 1, "READY=1 of pod %d" % (i + 1))
    host.run("--rm", image, "--exec=/bin/missing", env=listener.environment(), rc=127)
    wait_for(lambda: listener.has("STOPPING=1") and listener.lines.count("STOPPING=1") == 9, "STOPPING=1 of the last pod")
    # A pod that is ready says so before it says that it stops: systemd 262 refuses READY=1 after STOPPING=1.
    equal([line for line in listener.lines if line in ("READY=1", "STOPPING=1")], 8 * ["READY=1", "STOPPING=1"] + ["STOPPING=1"])


@case
def the_foreground_notifies_its_parent(host):
    listener = Listener(host)
    p = host.start("run", "--name=p", host.shell(SLOW, annotations=NOTIFY), "---", host.shell("sleep 1000"),
                   env=listener.environment())
    wait_for(lambda: listener.has("STATUS=1 of 2 apps are ready"), "the first status")
    true(not listener.has("READY=1"), "it was ready before the app was")
    wait_for(lambda: listener.has("READY=1"), "the pod is ready")
    true(listener.has("STATUS=2 of 2 apps are ready"), "the last status is missing: %r" % listener.lines)
    true(not listener.has("STOPPING=1"), "it stops too early")
    host.acnspawn("stop", "p").expect(0)
    wait_for(lambda: listener.has("STOPPING=1"), "the pod says that it stops")
    host.finish(p)


@case
def an_app_after_another_waits_until_that_is_ready(host):
    first = host.shell("sleep 0.4; echo ready >>/data/order; poke notify READY=1", name="example.com/first", annotations=NOTIFY)
    then = host.shell("echo then >>/data/order", name="example.com/then")
    host.run("--name=p", "--volume=data,kind=empty,mode=0777", "--mount=data:/data", then, "--after=first", "---", first)
    equal(read_text(host.one_pod() + "/volumes/data/order").split(), ["ready", "then"])


@case
def an_app_that_is_not_ready_in_time_has_failed(host):
    image = host.shell("sleep 1000", annotations=NOTIFY)
    r = host.run("--name=p", image, "--start-timeout=300ms", rc=125)
    contains(r.err, "App image1: It was not ready in time")
    status = host.app_status("p", "image1")
    equal((status["cause"], status["ready"]), ("not-ready", False))
    r = host.acnspawn("run", "--name=q", "--detach", image, "--start-timeout=300ms").expect(125)
    equal(r.err, "Error: Pod q ended before it was ready: app image1 has ended (It was not ready in time).\n"
                 "'acnspawn status q' and 'acnspawn logs q' say more.\n")
    equal(r.out, "")
    equal(host.state("q"), "exited")


@case
def an_app_that_times_out_before_its_start_was_not_ready(host):
    """Its launcher gets no reply from the supervisor, which is stopped with SIGSTOP."""
    pre = [{"name": "pre-start", "exec": ["/bin/sh", "-c", "touch /out/up; sleep 1"]}]
    image = host.shell("sleep 1000", name="example.com/a", annotations=NOTIFY, app={"eventHandlers": pre})
    p = host.start("run", "--name=p", image, "--start-timeout=2s")
    host.wait_up("a")
    supervisor = host.supervisor(os.path.basename(host.one_pod()))
    leader = host.leader("p")
    launchers = processes_where(lambda pid: parent_of(pid) == leader and name_of(pid) == "launch")
    os.kill(supervisor, signal.SIGSTOP)
    wait_for(lambda: all(map(has_ended, launchers)), "the end of the launcher, which has waited for too long")
    os.kill(supervisor, signal.SIGCONT)
    equal(host.finish(p).rc, 125)
    equal(host.app_status("p", "a")["cause"], "not-ready")


@case
def a_health_check_that_fails_ends_the_wait_for_the_pod(host):
    """With "run --detach", as --ready-timeout= does; what is waited for is said on a terminal."""
    image = host.shell("trap 'exit 0' TERM; while :; do sleep 0.05; done", name="example.com/a")
    r = host.acnspawn("run", "--detach", "--name=p", image, "--health-cmd=exit 1", "--health-interval=100ms", "--health-retries=2").expect(1)
    contains(r.err, "Error: Pod p does not get ready, as a health check fails: ")
    equal(host.state("p"), "exited")
    t = Terminal(host, "run", "--detach", "--name=q", image, "--health-cmd=test -e /out/healthy", "--health-interval=100ms", "--health-retries=1000")
    t.expect(b"Waiting until pod q is up: 'acnspawn status q' shows how far it is.")
    host.acnspawn("stop", "q").expect(0)
    true(t.end() != 0, "run succeeds for a pod that was stopped before it was up")


@case
def an_app_with_a_health_check_that_succeeds_at_once_has_succeeded(host):
    """As a command that is run in an image of a server; it has no message of the check that came too late."""
    for i, check in enumerate(("true", "sleep 1", "exit 1")):
        name = "p%d" % i
        r = host.run("--name=" + name, host.shell("exit 0", name="example.com/a"), "--health-cmd=" + check)
        equal((r.out, r.err), ("", ""))
        status = host.app_status(name, "a")
        equal((status["cause"], status["exitStatus"], status.get("message")), ("exited", 0, None))
    host.run(host.shell("exit 7", name="example.com/a"), "--health-cmd=true", rc=7)


@case
def an_app_that_ends_before_it_is_ready_has_failed(host):
    host.run("--name=p", host.shell("true", annotations=NOTIFY), rc=125)
    equal(host.app_status("p", "image1")["cause"], "not-ready")
    host.run("--name=q", host.shell("exit 7", annotations=NOTIFY), rc=7)
    equal(host.app_status("q", "image2")["cause"], "exited")
    r = host.acnspawn("run", "--detach", host.shell("exit 7", annotations=NOTIFY)).expect(7)
    contains(r.err, "ended before it was ready: app image3 has ended with exit status 7.\n'acnspawn status ")
    r = host.acnspawn("run", "--detach", host.image(["nosuch"], annotations=NOTIFY)).expect(127)
    contains(r.err, "ended before it was ready: app image4 could not be started (Command nosuch is not in the image")


@case
def a_pod_that_is_not_ready_in_time_is_stopped(host):
    uuid = host.prepare("--name=p", host.shell("sleep 1000"), "---", host.shell("trap 'exit 0' TERM; while :; do sleep 0.1; done", annotations=NOTIFY))
    r = host.acnspawn("run", "--detach", "--ready-timeout=700ms", uuid).expect(1)
    contains(r.err, "Pod %s was not ready in time: app image2 is still starting" % uuid)
    lacks(r.err, "image1")
    equal(host.state(uuid), "exited")
    equal(r.out, "")
    r = host.acnspawn("run", "--ready-timeout=700ms", host.shell("sleep 1000", annotations=NOTIFY)).expect(1)
    contains(r.err, "was not ready in time: app image3 is still starting")


@case
def a_pod_that_does_without_the_app_is_up_with_a_warning(host):
    uuid = host.prepare("--exit-policy=all", host.shell("exit 3", annotations=NOTIFY), "---", host.shell("sleep 1000"))
    r = host.acnspawn("run", "--detach", uuid).expect(0)
    contains(r.err, "is up, but: app image1 has ended with exit status 3.")
    equal(r.out.strip(), uuid)
    host.acnspawn("stop", uuid).expect(0)


@case
def an_app_that_is_started_again_may_be_ready_then(host):
    script = "echo x >>/data/runs; test $(wc -l </data/runs) -ge 3 || exit 1; poke notify READY=1; sleep 1000"
    uuid = host.prepare("--volume=data,kind=empty,mode=0777", "--mount=data:/data", host.shell(script, annotations=NOTIFY),
                        "--restart=on-failure", "--restart-delay=10ms")
    host.acnspawn("run", "--detach", uuid).expect(0)
    equal(read_text(host.pod_dir(uuid) + "/volumes/data/runs"), "x\nx\nx\n")
    equal(host.app_status(uuid, "image1")["startsInRow"], 3)
    host.acnspawn("stop", uuid).expect(0)


@case
def a_pod_can_be_stopped_while_it_starts(host):
    p = host.start("run", "--name=p", host.shell("sleep 1000", annotations=NOTIFY))
    wait_for(lambda: host.pods() and "running" in host.pods()[0] and host.app_status("p", "image1")["state"] == "running", "the app runs")
    start = time.monotonic()
    host.acnspawn("stop", "p").expect(0)
    true(time.monotonic() - start < patience(5), "it took too long")
    equal(host.finish(p).rc, 143)
    equal(host.app_status("p", "image1")["cause"], "signal")


@case
def a_message_counts_when_its_sender_has_ended(host):
    """The pod's systemd, which is stopped meanwhile, could not identify the sender of the message any more."""
    uuid = host.prepare("--name=p", "--volume=data,kind=empty,mode=0777", "--mount=data:/data",
                        host.shell("touch /out/up; while ! test -e /data/go; do sleep 0.05; done; poke notify READY=1; touch /data/sent; sleep 1000",
                                   name="example.com/a", annotations=NOTIFY))
    p = host.start("run", uuid)
    data = lambda: host.pod_dir(uuid) + "/volumes/data/"
    host.wait_up("a")
    leader = host.status("p")["leader"]
    os.kill(leader, signal.SIGSTOP)
    try:
        with open(data() + "go", "w"):
            pass
        wait_for(lambda: os.path.exists(data() + "sent"), "the message is sent")
        wait_at_rest(host.supervisor(uuid))
    finally:
        os.kill(leader, signal.SIGCONT)
    wait_for(lambda: host.app_status("p", "a")["ready"], "the app is ready")
    host.acnspawn("stop", "p").expect(0)
    host.finish(p)


@case
def an_app_that_notifies_and_ends_at_once_was_ready(host):
    for _ in range(20):
        host.run("--rm", host.shell("poke notify READY=1", annotations=NOTIFY))


def daemon(script, first="while ! test -e /out/named; do sleep 0.05; done"):
    """An app whose first process forks twice. The second runs SCRIPT as a child of the pod's systemd, while the first does FIRST."""
    return ("cat >/out/daemon <<'EOF'\nwhile test $(cut -d ' ' -f 4 /proc/$$/stat) != 1; do sleep 0.02; done\n%s\nEOF\n"
            "(sh /out/daemon &); %s" % (script, first))


@case
def an_app_that_forks_names_its_main_process(host):
    """"kill" signals that process, and its end is the end of the app; the first process may exit."""
    script = "poke notify-barrier \"$(printf 'MAINPID=%s\\nREADY=1' $$)\"; touch /out/named; trap 'exit 7' USR1; while :; do sleep 0.05; done"
    r = host.acnspawn("run", "--detach", "--name=p", host.shell(daemon(script), name="example.com/a", annotations=NOTIFY)).expect(0)
    lacks(r.err, "refused")
    wait_for(lambda: (host.app_status("p", "a")["state"], host.app_status("p", "a")["ready"]) == ("running", True), "the app without its first process")
    host.acnspawn("enter", "p", "true").expect(0)
    host.acnspawn("kill", "--signal=USR1", "p").expect(0)
    wait_for(lambda: host.state("p") == "exited", "the end of the pod")
    equal((host.app_status("p", "a")["cause"], host.app_status("p", "a")["exitStatus"]), ("exited", 7), "how the app ended")


@case
def a_main_process_is_named_while_the_app_runs(host):
    """Twice: the end of the previous process is not the end of the app, and statuses are forwarded for the last
    one."""
    last = ("poke notify-barrier \"MAINPID=$$\"; touch /out/third; sleep 0.5; poke notify STATUS=third; touch /out/up; sleep 0.5; exit 9")
    second = ("poke notify-barrier \"MAINPID=$$\"; touch /out/named\ncat >/out/last <<'END'\n"
              "while test $(cut -d ' ' -f 4 /proc/$$/stat) != 1; do sleep 0.02; done\n%s\nEND\n"
              "(sh /out/last &); while ! test -e /out/third; do sleep 0.05; done" % last)
    image = host.shell("poke notify READY=1; sleep 0.3; " + daemon(second), name="example.com/a", annotations=NOTIFY)
    equal(host.acnspawn("run", "--name=p", image).rc, 9)
    equal(host.app_status("p", "a")["exitStatus"], 9)


@case
def a_process_that_waits_for_a_barrier_may_end(host):
    """The first process ends as soon as the second's message has been processed."""
    second = "trap 'exit 7' TERM; poke notify-barrier \"MAINPID=$$\"; kill $(cat /out/first); sleep 0.3; exit 5"
    image = host.shell("echo $$ >/out/first; poke notify READY=1; sleep 0.2; " + daemon(second, "sleep 1000"), name="example.com/a", annotations=NOTIFY)
    for _ in range(5):
        host.run("--rm", image, rc=5)


@case
def an_app_cannot_name_another_process_as_its_main_one(host):
    """Neither a process of another app, nor the pod's PID 1, nor one that has ended or whose end systemd would not
    receive."""
    evil = ("until pidof tail >/dev/null; do sleep 0.05; done; other=$(pidof tail); sh -c 'exit 0' & dead=$!; wait; sleep 1000 & child=$!; "
            "for pid in $other 1 $dead $child 99999999 -1 x; do poke notify MAINPID=$pid; sleep 0.3; done; "
            "poke notify \"$(printf 'READY=1\\nMAINPID=%s' $other)\"; poke notify MAINPID=$$; touch /out/up; while :; do :; done")
    r = host.acnspawn("run", "--detach", "--name=p", "--exit-policy=all", host.shell(evil, name="example.com/evil", annotations=NOTIFY), "---",
                      host.shell("exec tail -f /dev/null", name="example.com/other")).expect(0)
    host.wait_up("evil")
    host.wait_at_rest("p")
    equal(host.acnspawn("enter", "--app=evil", "p", "sh", "-c", "test -e /out/up").rc, 0)
    host.acnspawn("kill", "--app=evil", "--signal=KILL", "p").expect(0)
    wait_for(lambda: host.app_status("p", "evil")["state"] == "ended", "the end of the app")
    equal((host.app_status("p", "evil")["cause"], host.app_status("p", "evil")["signal"]), ("signal", 9))
    equal(host.app_status("p", "other")["state"], "running")
    host.acnspawn("stop", "p").expect(0)
    equal(host.app_status("p", "other")["cause"], "signal")


@case
def a_refused_main_process_is_reported_once(host):
    p = host.start("run", "--name=p", host.shell("for i in 1 2 3; do poke notify MAINPID=1; done; poke notify READY=1; exit 3",
                                                 name="example.com/a", annotations=NOTIFY))
    r = host.finish(p)
    equal(r.rc, 3)
    line = "App a names process 1 as its main process, which is refused: it belongs to the pod.\n"
    equal(r.err.count(line), 1, "times that this is told in %r" % r.err)
    p = host.start("run", "--name=q", host.shell("sleep 100 & poke notify MAINPID=$!; poke notify READY=1; touch /out/up; while :; do sleep 0.1; done",
                                                 name="example.com/b", annotations=NOTIFY))
    host.wait_up("b")
    wait_for(lambda: host.app_status("q", "b").get("ready"), "the second notice, which is taken after the first")
    host.acnspawn("stop", "--force", "q").expect(0)
    contains(host.finish(p).err, "as its main process, which is refused: its parent is still there")


@case
def an_app_may_ask_for_more_time(host):
    script = "poke notify EXTEND_TIMEOUT_USEC=20000000; sleep 3; poke notify READY=1; while :; do sleep 0.1; done"
    uuid = host.prepare(host.shell(script, annotations=NOTIFY), "--start-timeout=2s")
    host.acnspawn("run", "--detach", uuid).expect(0)
    equal(host.app_status(uuid, "image1")["ready"], True)
    host.acnspawn("stop", uuid).expect(0)


@case
def an_endless_sender_of_messages_blocks_nothing(host):
    flood = "poke notify READY=1; touch /out/up; poke notify-without-end STATUS=x"
    host.detach("--name=p", host.shell(flood, name="example.com/a", annotations=NOTIFY), "---", host.shell("while :; do sleep 0.1; done", name="example.com/b"))
    host.wait_up("a")
    supervisor = parent_of(parent_of(host.leader("p")))
    ticks = lambda: sum(int(f) for f in read_text("/proc/%d/stat" % supervisor).rpartition(")")[2].split()[11:13])
    before = ticks()
    time.sleep(3)  # of processor time it takes a share, which grows as the machine is slow
    used = (ticks() - before) / os.sysconf("SC_CLK_TCK")
    true(used < 0.6 * pace.SLOW, "the process that runs the pod has used %.1f s of 3 s" % used)
    start = time.monotonic()
    host.acnspawn("restart-app", "p", "b").expect(0)
    host.acnspawn("stop", "p").expect(0)
    true(time.monotonic() - start < patience(10), "it took too long")


@case
def an_invalid_annotation_is_reported(host):
    r = host.acnspawn("prepare", host.shell("true", annotations=[dict(NOTIFY[0], value="maybe")])).expect(0)
    contains(r.err, "supports-systemd-notify is neither true nor false")


# --- Health checks -------------------------------------------------------------------------------------------------------


@case
def an_app_is_ready_when_its_first_check_succeeds(host):
    uuid = host.prepare(checked(host, "sleep 0.5; touch /out/good; sleep 1000", Interval=30000000000))
    host.acnspawn("run", "--detach", uuid).expect(0)
    true(os.path.exists(host.pod_dir(uuid) + "/apps/image1/upper/out/good"), "run did not wait")
    status = host.app_status(uuid, "image1")
    equal((status["ready"], status["health"]["state"], status["health"]["failures"]), (True, "healthy", 0))
    contains(host.acnspawn("status", uuid).out, "healthy")
    host.acnspawn("stop", uuid).expect(0)


@case
def checks_go_on_and_tell_when_the_app_is_not_healthy(host):
    uuid = host.detach(host.shell("touch /out/good; while :; do sleep 0.1; done"), "--health-cmd=test -e /out/good || { echo it is gone; exit 1; }",
                       "--health-interval=200ms", "--health-retries=2", "--health-start-period=60s")
    host.acnspawn("enter", uuid, "--", "rm", "/out/good").expect(0)
    wait_for(lambda: host.app_status(uuid, "image1")["health"]["state"] == "unhealthy", "the app is unhealthy")
    found = host.app_status(uuid, "image1")
    true(found["health"]["failures"] >= 2, "there are too few failures: %r" % found)
    equal((found["health"]["output"], found["health"]["exitStatus"]), ("it is gone", 1))
    contains(host.acnspawn("status", uuid).out, "it is gone")
    lacks(host.acnspawn("logs", uuid).out, "it is gone")
    equal(found["state"], "running")
    host.acnspawn("enter", uuid, "--", "touch", "/out/good").expect(0)
    wait_for(lambda: host.app_status(uuid, "image1")["health"]["state"] == "healthy", "the app is healthy")
    host.acnspawn("stop", uuid).expect(0)


@case
def a_check_is_confined_as_the_app_is(host):
    image = host.image(["/bin/sh", "-c", "show /out; sleep 1000"], app={"user": "app", "group": "app", "environment": [{"name": "X", "value": "y"}],
                       "workingDirectory": "/tmp", "isolators": [{"name": "os/linux/capabilities-retain-set", "value": {"set": ["CAP_CHOWN"]}}]})
    uuid = host.detach(image, "--health-cmd=[\"CMD\",\"/bin/show\",\"/out\"]", "--health-interval=30s")
    upper = host.upper("image1", host.pod_dir(uuid)) + "/out"

    def whole():
        with contextlib.suppress(ValueError):
            return [Show(os.path.join(upper, n)) for n in sorted(os.listdir(upper))[:2]]
    reports = wait_for(lambda: len(os.listdir(upper)) >= 2 and whole(), "two reports")
    a, b = sorted(reports, key=lambda r: b"SHLVL" not in r.environ) # the shell's first
    for name in (b"SHLVL", b"PWD"):
        a.environ.pop(name, None)
    for field in ("uids", "gids", "groups", "cwd", "environ", "hostname", "oom_score_adj"):
        equal(getattr(b, field), getattr(a, field), field)
    for field in ("CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters"):
        equal(b.status_field(field), a.status_field(field), field)
    for name in ("user", "pid", "net", "ipc", "uts"):
        equal(b.namespaces[name], a.namespaces[name], name)
    for show in a, b: # each is in a cgroup namespace that its own cgroup is the root of
        contains(show.cgroup.splitlines(), "0::/")
    equal(sorted(b.mounts()), sorted(a.mounts()))
    host.acnspawn("stop", uuid).expect(0)


@case
def a_check_that_takes_too_long_has_failed_and_is_killed(host):
    uuid = host.prepare("--name=p", host.shell("sleep 1000"), "--health-cmd=sleep 777 & sleep 777", "--health-timeout=200ms", "--health-interval=200ms", "--health-retries=1")
    r = host.acnspawn("run", "--detach", "--ready-timeout=2s", uuid).expect(1)
    contains(r.err, "app image1 is still starting, its health check timed out")
    equal(host.app_status("p", "image1")["health"]["state"], "unhealthy")


@case
def a_check_that_hangs_leaves_no_process_while_its_app_starts(host):
    """Not even one that has made a session of its own: each check has a cgroup."""
    for pid in "pod", "private", "shared":
        uuid = host.prepare("--name=p-" + pid, "--exit-policy=never", host.shell("while :; do sleep 0.1; done"), "--pid=" + pid,
                            "--health-cmd=setsid sleep 777 & (setsid sleep 778 &); echo x >>/tmp/checks; sleep 779", "--health-timeout=100ms",
                            "--health-interval=100ms", "--health-retries=1000")
        p = host.start("run", "--detach", uuid)
        count = lambda: int(host.acnspawn("enter", uuid, "--", "sh", "-c", "cat /tmp/checks | wc -l").out or 0)
        wait_for(lambda: count() >= 4, "four checks")
        left = lambda: list(processes_where(lambda x: read_text("/proc/%d/cmdline" % x).startswith("sleep\00077"), host.processes()))
        true(len(left()) <= 3, "%d processes of checks after four of them" % len(left()))
        host.acnspawn("stop", uuid).expect(0)
        host.finish(p)


@case
def a_check_with_endless_output_still_has_a_timeout(host):
    uuid = host.detach(host.shell("touch /out/good; while :; do sleep 0.1; done"), "--health-cmd=test -e /out/good || cat /dev/zero",
                       "--health-timeout=200ms", "--health-interval=100ms", "--health-retries=1", "--health-start-period=60s")
    host.acnspawn("enter", uuid, "--", "rm", "/out/good").expect(0)
    wait_for(lambda: host.app_status(uuid, "image1")["health"]["state"] == "unhealthy", "the app is unhealthy")
    true(host.app_status(uuid, "image1")["health"]["timedOut"], "its check did not time out")
    host.acnspawn("stop", uuid).expect(0)


@case
def the_time_of_a_check_does_not_run_while_the_pod_is_paused(host):
    uuid = host.detach(host.shell("while :; do sleep 0.1; done"), "--health-cmd=sleep 0.5", "--health-interval=100ms",
                       "--health-timeout=2s", "--health-retries=1", "--health-on-failure=kill")
    leader = host.leader(uuid)
    command = lambda pid: parent_of(parent_of(pid)) == leader and "sleep\0000.5\0" == read_text("/proc/%d/cmdline" % pid)
    for _ in range(3):
        wait_for(lambda: processes_where(command), "a check", interval=0)
        host.acnspawn("pause", uuid).expect(0)
        time.sleep(3)  # longer than a check may take
        host.acnspawn("resume", uuid).expect(0)
        before = host.app_status(uuid, "image1")["health"]["checked"]
        wait_for(lambda: host.app_status(uuid, "image1")["health"]["checked"] > before, "the next check")
        equal((host.state(uuid), host.app_status(uuid, "image1")["health"]["failures"]), ("running", 0))
    host.acnspawn("stop", uuid).expect(0)


@case
def images_health_checks_can_be_left_out_or_changed(host):
    image = checked(host, "sleep 1000")
    uuid = host.detach(image, "--no-healthcheck")
    equal(host.app_status(uuid, "image1")["health"], None)
    lacks(host.acnspawn("cat", uuid).out, "health")
    # The interval comes from the image, so there is no warning that it has no effect.
    lacks(host.acnspawn("prepare", image, "--no-healthcheck").expect(0).err, "health")
    contains(host.acnspawn("prepare", image, "--no-healthcheck", "--health-interval=5s").expect(0).err, "--health-interval has no effect")
    host.acnspawn("stop", uuid).expect(0)
    uuid = host.detach(image, "--health-cmd=true")
    equal(host.app_status(uuid, "image1")["health"]["state"], "healthy")
    contains(host.acnspawn("cat", uuid).out, "OnUnitInactiveSec=200000us")
    host.acnspawn("stop", uuid).expect(0)


@case
def an_invalid_health_check_is_reported(host):
    r = host.acnspawn("prepare", host.shell("true", annotations=[{"name": "org.opencontainers.image.healthcheck", "value": "{\"Test\": 1}"}])).expect(0)
    contains(r.err, "App image1: the health check of its image is ignored")


def sick(host, action, *more, policy="on-failure"):
    return host.prepare("--name=p", "--exit-policy=" + policy, "--volume=data,kind=empty,mode=0777", "--mount=data:/data",
                        host.shell("echo x >>/data/runs; touch /out/good; while ! test -e /out/seen; do sleep 0.05; done; rm /out/good; "
                                   "while :; do sleep 0.1; done", name="example.com/sick"), "--health-cmd=test -e /out/good && touch /out/seen",
                        "--health-interval=100ms", "--health-retries=2", "--health-start-period=60s", "--health-on-failure=" + action, *more)


@case
def an_unhealthy_app_is_killed(host):
    r = host.acnspawn("run", sick(host, "kill")).expect(125)
    contains(r.err, "App sick: Its health check failed too often")
    status = host.app_status("p", "sick")
    equal((status["cause"], status["signal"]), ("unhealthy", 9))


@case
def an_unhealthy_app_that_is_killed_is_started_again_by_its_policy(host):
    uuid = sick(host, "kill", "--restart=on-failure", "--restart-delay=10ms")
    host.acnspawn("run", "--detach", uuid).expect(0)
    runs = host.pod_dir(uuid) + "/volumes/data/runs"
    wait_for(lambda: read_text(runs).count("x") >= 3, "three starts")
    host.acnspawn("stop", uuid).expect(0)


@case
def an_unhealthy_app_is_restarted(host):
    uuid = sick(host, "restart")
    host.acnspawn("run", "--detach", uuid).expect(0)
    runs = host.pod_dir(uuid) + "/volumes/data/runs"
    wait_for(lambda: read_text(runs).count("x") >= 3, "three starts")
    equal(host.state(uuid), "running")
    host.acnspawn("stop", uuid).expect(0)


def flawed(host, *more, policy="on-failure", **app):
    """An app whose check succeeds once, and then fails; /data has the times of its starts and ends."""
    script = "trap 'read -r up </proc/uptime; echo $up >>/data/ends; exit 0' TERM; cat /proc/uptime >>/data/starts; touch /tmp/up; while :; do sleep 0.05; done"
    return host.prepare("--name=p", "--exit-policy=" + policy, "--volume=data,kind=empty,mode=0777", "--mount=data:/data",
                        host.shell(script, name="example.com/flawed", app=app), "--health-cmd=test -e /tmp/up && echo >>/tmp/checks; test $(wc -l </tmp/checks) -eq 1",
                        "--health-interval=100ms", "--health-retries=1", "--health-start-period=60s", "--health-on-failure=restart", *more)


def times(host, uuid, what):
    path = "%s/volumes/data/%s" % (host.pod_dir(uuid), what)
    return [float(line.split()[0]) for line in read_text(path).splitlines()] if os.path.exists(path) else []


@case
def an_unhealthy_app_waits_longer_before_each_restart_and_is_given_up(host):
    uuid = flawed(host, "--restart-delay=100ms", "--restart-delay-max=300ms", "--restart-limit=4")
    host.acnspawn("run", uuid).expect(125)
    starts, ends = times(host, uuid, "starts"), times(host, uuid, "ends")
    equal((len(starts), len(ends)), (5, 5), "starts and ends")
    gaps = [start - end for start, end in zip(starts[1:], ends)]
    for gap, least in zip(gaps, (0.1, 0.2, 0.3, 0.3)):
        true(gap >= least - 0.02, "the app waited %r, expected 0.1, 0.2, 0.3, 0.3" % gaps)
    status = host.app_status(uuid, "flawed")
    equal((status["cause"], status["startsInRow"], status["restartLimit"], status["nextStart"]), ("unhealthy", 5, 4, None))
    contains(host.acnspawn("status", uuid).out, "restarted 4 of at most 4 times in a row, and given up")


@case
def an_unhealthy_app_with_a_restart_policy_is_given_up_as_well(host):
    uuid = flawed(host, "--restart=always", "--restart-delay=50ms", "--restart-limit=2", "---", host.shell("sleep 1000", name="example.com/other"), policy="all")
    host.acnspawn("run", "--detach", uuid).expect(0)
    wait_for(lambda: "restarted 2 of at most 2 times in a row, and given up" in host.acnspawn("status", uuid).out, "the end of that")
    host.wait_at_rest(uuid)
    equal((len(times(host, uuid, "starts")), host.app_status(uuid, "flawed")["cause"]), (3, "unhealthy"))
    equal(host.app_status(uuid, "other")["state"], "running")
    host.acnspawn("start-app", uuid, "flawed").expect(0)  # and has all of its restarts once more
    wait_for(lambda: len(times(host, uuid, "starts")) == 6, "three starts more")
    host.acnspawn("stop", uuid).expect(0)


@case
def an_unhealthy_app_that_waits_is_restarted_or_stopped_at_once(host):
    uuid = flawed(host, "--restart-delay=10min", "--restart-delay-max=10min")
    host.acnspawn("run", "--detach", uuid).expect(0)
    waits = lambda: host.app_status(uuid, "flawed")["nextStart"]
    wait_for(waits, "the app waits")
    contains(host.acnspawn("status", uuid).out, "restarted 0 of at most 10 times in a row, again in ")
    host.acnspawn("restart-app", uuid, "flawed").expect(0)
    equal(len(times(host, uuid, "starts")), 2)
    wait_for(waits, "the app waits")
    host.acnspawn("stop", uuid).expect(0)
    equal((len(times(host, uuid, "starts")), host.app_status(uuid, "flawed")["cause"]), (2, "unhealthy"))


def stops_alone(host, uuid, app):
    """A stop by a call is no failure, for which the pod would end."""
    host.acnspawn("stop-app", uuid, app).expect(0)
    host.wait_at_rest(uuid)
    equal((host.state(uuid), host.app_status(uuid, "other")["state"]), ("running", "running"))
    host.acnspawn("stop", uuid).expect(0)


@case
def an_app_that_waits_to_be_started_again_is_stopped_alone(host):
    """In the launcher, after a failed check; and in the pod's systemd, after an execution that did not become ready."""
    other = ("---", host.shell("sleep 1000", name="example.com/other"))
    uuid = flawed(host, "--restart-delay=10min", "--restart-delay-max=10min", *other)
    host.acnspawn("run", "--detach", uuid).expect(0)
    wait_for(lambda: host.app_status(uuid, "flawed")["nextStart"], "the app waits")
    stops_alone(host, uuid, "flawed")
    uuid = host.prepare("--name=q", "--exit-policy=on-failure", host.shell("exit 0", name="example.com/late", annotations=NOTIFY), "--restart=always",
                        "--restart-delay=10min", "--restart-delay-max=10min", *other)
    p = host.start("run", uuid)
    wait_for(lambda: host.app_status(uuid, "late")["nextStart"], "the app waits")
    host.wait_at_rest(uuid)
    stops_alone(host, uuid, "late")
    host.finish(p)


@case
def the_handler_of_an_app_that_is_stopped_before_it_does_not_run(host):
    """systemd continues with the next command when the launcher that waits is stopped."""
    handler = {"name": "pre-start", "exec": ["/bin/sh", "-c", "cat /proc/uptime >>/data/handled; test $(wc -l </data/handled) -eq 1"]}
    uuid = flawed(host, "--restart-delay=10min", "--restart-delay-max=10min", "---", host.shell("sleep 1000", name="example.com/other"),
                  eventHandlers=[handler])
    host.acnspawn("run", "--detach", uuid).expect(0)
    wait_for(lambda: host.app_status(uuid, "flawed")["nextStart"], "the app waits")
    host.acnspawn("stop-app", uuid, "flawed").expect(0)
    host.wait_at_rest(uuid)
    equal((host.state(uuid), host.app_status(uuid, "other")["state"], len(times(host, uuid, "handled"))), ("running", "running", 1))
    os.unlink("%s/volumes/data/handled" % host.pod_dir(uuid))
    host.acnspawn("start-app", uuid, "flawed").expect(0)
    # It is unhealthy again 100 ms later, and then waits for ten minutes.
    equal((len(times(host, uuid, "starts")), len(times(host, uuid, "handled"))), (2, 1))
    host.acnspawn("stop", uuid).expect(0)


@case
def an_app_without_restarts_left_is_stopped_alone(host):
    uuid = host.detach("--exit-policy=on-failure", host.shell("trap 'exit 0' TERM; touch /out/up; while :; do sleep 0.05; done", name="example.com/last"),
                       "--restart=always", "--restart-limit=0", "--health-cmd=true", "--health-interval=100ms", "--health-on-failure=restart",
                       "---", host.shell("sleep 1000", name="example.com/other"))
    host.wait_up("last")
    stops_alone(host, uuid, "last")


@case
def checks_go_on_however_many_there_are(host):
    """By default systemd does not restart a unit that has started five times in ten seconds."""
    uuid = host.detach(host.shell("sleep 1000"), "--health-cmd=echo x >>/tmp/checks; test $(wc -l </tmp/checks) -lt 12", "--health-interval=100ms",
                       "--health-retries=1")
    wait_for(lambda: host.app_status(uuid, "image1")["health"]["state"] == "unhealthy", "the twelfth check")
    host.acnspawn("stop", uuid).expect(0)


@case
def an_unhealthy_app_is_stopped(host):
    host.acnspawn("run", sick(host, "stop")).expect(125)
    equal(host.app_status("p", "sick")["cause"], "unhealthy")


@case
def an_unhealthy_app_is_stopped_alone_if_the_pod_goes_on(host):
    uuid = sick(host, "stop", "---", host.shell("sleep 1000", name="example.com/other"), policy="all")
    host.acnspawn("run", "--detach", uuid).expect(0)
    wait_for(lambda: host.app_status("p", "sick")["state"] == "ended", "the app ends")
    equal(host.app_status("p", "other")["state"], "running")
    host.acnspawn("stop", uuid).expect(0)
    equal(host.app_status("p", "sick")["cause"], "unhealthy")


main()
