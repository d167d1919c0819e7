#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The commands that are clients of a pod's interface: starting and stopping single apps, waiting for their ends, and
showing what happens. Their messages, also when no interface answers."""

import signal
import socket
import threading

from harness import *

FOREVER = "trap 'exit 0' TERM; touch /out/up; while :; do sleep 0.05; done"
STUBBORN = "trap '' TERM; touch /out/up; while :; do sleep 0.05; done"


def two(host, first=FOREVER, second=FOREVER, *options):
    """A pod "p" with the apps web and db, which continues when one of them has ended."""
    uuid = host.detach("--name=p", "--exit-policy=all", *options, host.shell(first, name="example.com/web"),
                       host.shell(second, name="example.com/db"))
    return uuid


@contextlib.contextmanager
def connecting(host, n):
    """Returns once the N clients that are started within are connected to the supervisor, and have sent what they have to say."""
    supervisor = host.supervisor(host.status("p")["uuid"])
    before = steady(lambda: len(clients_of(supervisor)), 0.3)
    yield
    wait_for(lambda: len(clients_of(supervisor)) >= before + n, "the connections")
    wait_at_rest(*clients(host), supervisor)


def clients(host):
    """The acnspawn processes that this case has started and not waited for."""
    return [p.pid for p in host.children if p.poll() is None]


def state(host, app):
    return host.app_status("p", app)["state"]


def refused(host, *args):
    r = host.acnspawn(*args).expect(1)
    equal(r.out, "")
    return r.err


# --- start-app, stop-app -----------------------------------------------------------------------------------------------

@both
def apps_are_stopped_and_started(host, *options):
    two(host, FOREVER, FOREVER, *options)
    host.wait_up("web")
    host.wait_up("db")
    r = host.acnspawn("stop-app", "p", "web").expect(0)
    equal((r.out, r.err), ("", ""))
    equal((state(host, "web"), state(host, "db"), host.state("p")), ("ended", "running", "running"))
    host.acnspawn("stop-app", "p", "web").expect(0)
    r = host.acnspawn("start-app", "p", "web").expect(0)
    equal((r.out, r.err), ("", ""))
    wait_for(lambda: state(host, "web") == "running", "the app")
    host.wait_up("web")
    equal(host.state("p"), "running")
    host.acnspawn("stop-app", "p", "db", "web").expect(0)
    # Nothing runs any more.
    host.acnspawn("wait", "p").expect(0)
    equal(host.state("p"), "exited")


@case
def an_app_that_ignores_the_signal_is_killed_after_the_timeout(host):
    two(host, STUBBORN, FOREVER, "--stop-timeout=1h")
    host.wait_up("web")
    r = host.acnspawn("stop-app", "--timeout=300ms", "p", "web", timeout=20).expect(0)
    true(0.3 <= r.seconds < patience(10), "stopped after %.1f s" % r.seconds)
    equal(host.app_status("p", "web")["signal"], 9)
    host.acnspawn("start-app", "p", "web").expect(0)
    wait_for(lambda: state(host, "web") == "running", "the app")
    host.acnspawn("stop-app", "-t0", "p", "web", timeout=20).expect(0)
    host.acnspawn("stop", "p").expect(0)


FLUSHING = "trap '" + pauses(2.5) + "; exit 3' TERM; touch /out/up; while :; do sleep 0.05; done"


@both
def a_stop_call_can_extend_the_stop_timeout(host, *options):
    """A call can give an app more time to stop than its own time-out; the next stop uses its own again."""
    two(host, FLUSHING, FLUSHING, "--stop-timeout=1s", "--exit-policy=never", *options)
    host.wait_up("web")
    host.wait_up("db")
    begun = time.monotonic()
    stop, remove = host.start("stop-app", "--timeout=1min", "p", "web"), host.start("rm-app", "--force", "--timeout=1min", "p", "db")
    for p in remove, stop:
        out, err = p.communicate(timeout=patience(60))
        equal((p.returncode, out, err), (0, b"", b""))
        true(time.monotonic() - begun > 2.4, "it has ended in order")
    equal(host.app_status("p", "web")["exitStatus"], 3)
    host.acnspawn("start-app", "p", "web").expect(0)
    host.wait_up("web")
    host.acnspawn("stop-app", "p", "web").expect(0)
    equal(host.app_status("p", "web")["signal"], 9)
    host.acnspawn("stop", "p").expect(0)


@case
def messages_name_app_state_and_the_way_out(host):
    two(host)
    equal(refused(host, "start-app", "p", "web"),
          "Error: App web of pod p cannot be started: it is running.\n'acnspawn restart-app p web' stops it and starts it again.\n")
    for verb in "start-app", "stop-app", "restart-app", "wait":
        equal(refused(host, verb, "p", "wbe"),
              "Error: Pod p has no app 'wbe'.\nDid you mean 'web'? Its apps are: web, db\n")
        equal(refused(host, verb, "p", "mail\x1b"), "Error: Pod p has no app 'mail\\x1b'.\nIts apps are: web, db\n")
        contains(refused(host, verb, "nosuch", "web"), "nosuch")
    equal(refused(host, "kill", "--app=bd", "p"), "Error: Pod p has no app 'bd'.\nDid you mean 'db'? Its apps are: web, db\n")
    # One that fails does not keep the others from their turn.
    contains(refused(host, "stop-app", "p", "nosuch", "web"), "has no app 'nosuch'")
    equal(state(host, "web"), "ended")
    equal(refused(host, "kill", "--app=web", "p"),
          "Error: App web of pod p is not running: it has ended.\n'acnspawn start-app p web' starts it.\n")
    host.acnspawn("pause", "p").expect(0)
    for verb in "start-app", "stop-app", "restart-app":
        equal(refused(host, verb, "p", "db"), "Error: Pod p is paused.\n'acnspawn resume p' lets it continue.\n")
    host.acnspawn("resume", "p").expect(0)
    host.acnspawn("stop", "p").expect(0)
    for args in ["start-app", "p", "web"], ["stop-app", "p", "web"], ["monitor", "p"], ["kill", "p"]:
        equal(refused(host, *args), "Error: Pod p is not running: it is exited.\n"
              "'acnspawn run p' runs it again, 'acnspawn status p' shows how it ended.\n")
    for args in (["start-app", "p"], ["stop-app", "p"], ["stop-app", "--timeout=x", "p", "web"], ["wait"], ["monitor", "p", "q"],
                 ["monitor", "--since=-1", "p"], ["wait", "--timeout=x", "p"]):
        equal(host.acnspawn(*args).rc, 2, " ".join(args))


@case
def the_reason_why_an_app_does_not_start_is_reported(host):
    handler = [{"name": "pre-start", "exec": ["/bin/sh", "-c", "test -e /v/spoiled && exit 4; exit 0"]}]
    host.detach("--name=p", "--exit-policy=all", "--volume=v,kind=empty",
                host.shell("exec sleep 1000", name="example.com/web",
                           app={"mountPoints": [{"name": "v", "path": "/v"}], "eventHandlers": handler}),
                host.shell(FOREVER, name="example.com/db"))
    host.wait_up("db")
    host.acnspawn("enter", "--app=web", "p", "touch", "/v/spoiled").expect(0)
    host.acnspawn("stop-app", "p", "web").expect(0)
    for verb, what in ("start-app", "start the app"), ("restart-app", "start the app again"):
        words = refused(host, verb, "p", "web")
        contains(words, "Error: App web of pod p: the pod's systemd cannot %s: the job ended with 'failed'.\n" % what)
        contains(words, "'acnspawn status p' and 'acnspawn logs --app=web p' say more.\n")
    equal(host.app_status("p", "web")["cause"], "pre-start-failed")
    host.acnspawn("stop", "p").expect(0)


# --- wait --------------------------------------------------------------------------------------------------------------

ENDING = "while test ! -e /v/go%d; do sleep 0.02; done; %s"


@case
def waiting_for_several_pods(host):
    host.detach("--name=long", host.shell("while ! test -e /go; do sleep 0.1; done; exit 3", name="example.com/a"), "--name=a")
    host.detach("--name=short", host.shell("exit 4", name="example.com/b"), "--name=b")
    host.prepare("--name=never", host.shell("true", name="example.com/c"))
    contains(host.acnspawn("wait", "--pods", "-t", "300ms", "short", "long").expect(1).err, "has not ended in time")
    contains(host.acnspawn("wait", "-p", "long", "nothing").expect(1).err, "nothing")
    waiters = [host.start("wait", "--pods", *pods) for pods in (["long", "short"], ["short", "long"], ["long"])]
    supervisor = host.supervisor(host.status("long")["uuid"])
    wait_for(lambda: len(clients_of(supervisor)) >= len(waiters), "the connections")
    wait_at_rest(*clients(host), supervisor)
    equal([w.poll() for w in waiters], [None] * 3, "waiters")
    host.acnspawn("enter", "long", "touch", "/go").expect(0)
    equal([host.finish(w).rc for w in waiters], [3, 4, 3], "statuses")
    equal(host.acnspawn("wait", "--pods", "short", "long").rc, 4, "status after the end")
    contains(host.acnspawn("wait", "--pods", "short", "never").expect(1).err, "never")


@case
def waiting_gives_the_status_of_the_pod_and_of_apps(host):
    volumes = {"mountPoints": [{"name": "v", "path": "/v"}]}
    os.mkdir(host.path("v"))
    os.chmod(host.path("v"), 0o777)
    uuid = host.detach("--name=p", "--exit-policy=all", "--volume=v,kind=host,source=" + host.path("v"),
                       *[host.shell(ENDING % (i, end), name="example.com/a%d" % i, app=volumes)
                         for i, end in enumerate(("exit 0", "exit 7", "kill -9 $$"))])
    waiters = [host.start("wait", *args) for args in (["p"], [uuid], ["p", "a0"], ["p", "a1"], ["p", "a1"], ["p", "a2"],
                                                       ["p", "a0", "a2", "a1"])]
    r = host.acnspawn("wait", "--timeout=200ms", "p").expect(1)
    equal(r.err, "Error: Pod p has not ended in time.\n")
    equal(host.acnspawn("wait", "-t", "200ms", "p", "a1").expect(1).err, "Error: App a1 of pod p has not ended in time.\n")
    equal([w.poll() for w in waiters], [None] * 7, "waiters")
    open(host.path("v/go0"), "w").close()
    equal(host.finish(waiters[2]).rc, 0)
    host.acnspawn("wait", "p", "a0").expect(0)
    open(host.path("v/go1"), "w").close()
    equal([host.finish(w).rc for w in waiters[3:5]], [7, 7])
    equal([w.poll() for w in waiters], [None, None, 0, 7, 7, None, None], "waiters")
    open(host.path("v/go2"), "w").close()
    equal([host.finish(waiters[i]).rc for i in (0, 1, 5, 6)], [7, 7, 137, 137])
    # And after the end.
    equal([host.acnspawn("wait", *args).rc for args in (["p"], ["p", "a0"], ["p", "a1"], ["p", "a2"], ["p", "a0", "a1"])],
          [7, 0, 7, 137, 7])
    contains(refused(host, "wait", "p", "a11"), "Pod p has no app 'a11'.\nDid you mean 'a1'? Its apps are: a0, a1, a2\n")


@case
def waiting_outlives_removal_restarts_and_crashes(host):
    image = host.shell("trap 'exit 5' TERM; touch /out/up; while :; do sleep 0.05; done", name="example.com/web")
    # --rm removes it as soon as it has ended.
    p = host.start("run", "--rm", "--name=p", image)
    host.wait_up("web")
    with connecting(host, 10):
        waiters = [host.start("wait", "p") for _ in range(5)] + [host.start("wait", "p", "web") for _ in range(5)]
    host.acnspawn("stop", "p").expect(0)
    equal([host.finish(w).rc for w in waiters], [5] * 10)
    host.finish(p)
    # An app that is restarted has ended; an app that restarts by its policy has not.
    host.detach("--name=p", "--exit-policy=all", host.shell("exit 3", name="example.com/web"), "--restart=always",
                "--restart-delay=200ms", "--restart-limit=infinity", "---", host.shell(FOREVER, name="example.com/db"))
    host.wait_up("db")
    contains(host.acnspawn("wait", "--timeout=1s", "p", "web").expect(1).err, "has not ended in time")
    # The process that runs the pod is killed.
    with connecting(host, 2):
        w = [host.start("wait", "p"), host.start("wait", "p", "db")]
    os.kill(host.supervisor(host.status("p")["uuid"]), signal.SIGKILL)
    true(all(host.finish(x).rc > 0 for x in w), "statuses of a pod that was killed")
    host.acnspawn("rm", "p").expect(0)
    host.acnspawn("prepare", "--name=q", image).expect(0)
    contains(refused(host, "wait", "q"), "Pod q is not running: it is prepared")


# --- monitor -----------------------------------------------------------------------------------------------------------

def number(line):
    return int(line.split()[1])


@case
def events_come_as_lines_and_as_json(host):
    two(host, FOREVER, "trap 'exit 3' TERM; touch /out/up; while :; do sleep 0.05; done")
    host.wait_up("web")
    host.wait_up("db")
    m, j = host.start("monitor", "--since=0", "p"), host.start("monitor", "--json=short", "--since=0", "p")
    line, first = m.stdout.readline(), json.loads(j.stdout.readline())
    equal((number(line.decode()), first["sequence"]), (1, 1))
    host.acnspawn("pause", "p").expect(0)
    host.acnspawn("resume", "p").expect(0)
    host.acnspawn("stop-app", "p", "db").expect(0)
    host.acnspawn("stop", "p").expect(0)
    lines = (line + m.stdout.read()).decode().splitlines()
    equal((m.wait(timeout=patience(20)), m.stderr.read()), (0, b""))
    for line in lines:
        true(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}[+-]\d\d:\d\d \d+ (pod|app (web|db)) \w+(, .*)?", line), "line %r" % line)
    equal([number(l) for l in lines], list(range(number(lines[0]), number(lines[0]) + len(lines))))
    text = [l.split(" ", 2)[2] for l in lines]
    expected = ["pod paused", "pod running", "app db exited, status 3", "pod stopping", "app web exited, status 0", "pod exited, status 3"]
    equal([t for t in text if t in expected], expected)
    events = [first] + [json.loads(l) for l in j.stdout.read().splitlines()]
    equal(j.wait(timeout=patience(20)), 0)
    equal([e["sequence"] for e in events], list(range(1, len(events) + 1)))
    equal(events[-1]["state"], "exited")
    equal(events[-1]["exitStatus"], 3)
    true("app" not in events[-1] and events[-1]["timeUSec"] > 1e15, "the last event: %r" % events[-1])
    ended = [e["app"] for e in events if "app" in e and e["app"]["state"] == "exited"]
    equal([(a["name"], a["exitCode"], a["cause"]) for a in ended if a["name"] == "db"][-1], ("db", 3, "exited"))


@case
def events_can_be_requested_by_number(host):
    two(host)
    host.wait_up("web")
    equal(refused(host, "monitor", "--since=100000", "p"), "Error: Pod p has had no event 100000 yet.\n")
    m = host.start("monitor", "--since=0", "p")
    n = number(m.stdout.readline().decode())
    equal(n, 1)
    m.kill()
    # More than are kept.
    for _ in range(260):
        host.acnspawn("pause", "p").expect(0)
        host.acnspawn("resume", "p").expect(0)
    words = refused(host, "monitor", "--since=1", "p")
    oldest = int(re.search(r"'--since=(\d+)' begins with it", words).group(1))
    contains(words, "Error: Events of pod p after number 1 are not kept any more.\nThe oldest one has number %d:" % (oldest + 1))
    m = host.start("monitor", "--since=%d" % oldest, "p")
    equal(number(m.stdout.readline().decode()), oldest + 1)
    # A reader that goes away ends it without a message.
    m.stdout.close()
    host.acnspawn("pause", "p").expect(0)
    equal(m.wait(timeout=patience(20)), 1)
    equal(m.stderr.read(), b"")
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def the_supervisor_dies_under_its_clients(host):
    uuid = two(host, STUBBORN, STUBBORN, "--stop-timeout=1h")
    host.wait_up("web")
    with connecting(host, 3):
        m, s, a = host.start("monitor", "p"), host.start("stop", "p"), host.start("stop-app", "p", "web")
    os.kill(host.supervisor(host.status("p")["uuid"]), signal.SIGKILL)
    r = host.finish(m)
    equal((r.rc, r.err), (1, "Error: Pod p has ended, or is about to.\n'acnspawn status p' shows how it ended.\n"))
    host.finish(s).expect(0)
    equal(host.finish(a).rc, 1)
    equal(host.state(uuid), "exited")
    host.acnspawn("rm", "p").expect(0)


# --- Supervisors that do not answer ------------------------------------------------------------------------------------

@case
def a_pod_without_an_interface_can_be_killed(host):
    """Like a pod that is run by an earlier build, whose socket is at another path."""
    uuid = two(host)
    host.wait_up("web")
    os.rename(os.path.join(host.pod_dir(uuid), "interface"), os.path.join(host.pod_dir(uuid), "control"))
    for args in ["stop", "p"], ["stop", "--timeout=1s", "p"], ["restart-app", "p", "web"], ["pause", "p"], ["kill", "p"], ["monitor", "p"]:
        equal(refused(host, *args), "Error: Pod p is run by an earlier version of acnspawn, which has no interface.\n"
              "'acnspawn stop --force p' kills the pod.\n")
    w = host.start("wait", "p")
    host.acnspawn("stop", "--force", "p").expect(0)
    true(host.finish(w).rc > 0, "status of a pod that was killed")


@case
def a_pod_of_a_version_that_knows_less(host):
    """A service in place of the supervisor, which lacks some of the current methods and members."""
    uuid = two(host)
    host.wait_up("web")
    directory = os.open(host.pod_dir(uuid), os.O_PATH)
    os.rename("interface", "real", src_dir_fd=directory, dst_dir_fd=directory)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind("/proc/self/fd/%d/interface" % directory)
    server.listen()
    replies = {"org.varlink.service.GetInfo": {"parameters": {}}, "org.acnspawn.Pod.Stop": {"parameters": {"exitStatus": 0}},
               "org.acnspawn.Pod.Describe": {"parameters": {"uuid": uuid, "state": "frobnicating"}}}

    def serve():
        with contextlib.suppress(OSError):
            while True:
                s = server.accept()[0]
                message = b""
                while True:
                    part = s.recv(65536)
                    if not part:
                        break
                    message += part
                    while b"\0" in message:
                        one, message = message.split(b"\0", 1)
                        method = json.loads(one)["method"]
                        reply = replies.get(method, {"error": "org.varlink.service.MethodNotFound", "parameters": {"method": method}})
                        s.sendall(json.dumps(reply).encode() + b"\0")

    threading.Thread(target=serve, daemon=True).start()
    equal(refused(host, "logs", "--reopen", "p"),
          "Error: Pod p is run by an earlier version of acnspawn, which cannot open the log files of it.\n"
          "A pod that is stopped and run again is run by the installed version.\n")
    contains(refused(host, "wait", "p"), "The supervisor of pod p sent an invalid reply")
    contains(refused(host, "start-app", "p", "web"), "earlier version of acnspawn, which cannot start it")
    server.close()
    os.unlink("interface", dir_fd=directory)
    os.rename("real", "interface", src_dir_fd=directory, dst_dir_fd=directory)
    os.close(directory)
    host.acnspawn("stop", "p").expect(0)


@case
def a_stop_in_time_does_not_need_its_client(host):
    uuid = two(host, STUBBORN, STUBBORN, "--stop-timeout=1h")
    host.wait_up("web")
    with connecting(host, 1):
        s = host.start("stop", "--timeout=2s", "p")
    s.kill()
    host.acnspawn("status", "--wait=20s", "p", timeout=30).expect(0)
    equal(host.state(uuid), "exited")
    # And where it is there, it says so.
    host.acnspawn("rm", "p").expect(0)
    two(host, STUBBORN, STUBBORN, "--stop-timeout=1h")
    host.wait_up("web")
    r = host.acnspawn("stop", "--timeout=300ms", "p").expect(0)
    equal(r.err, "Warning: Pod p had not ended in time, and was killed.\n")


if __name__ == "__main__":
    main()
