#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Operations on running pods: signals to apps, pausing and resuming, restarting one app; resource usage."""

import signal

from harness import *
from terminals import Terminal

TRAP = "trap 'echo got usr1' USR1; trap 'echo got term; exit 3' TERM; touch /out/up; while :; do sleep 0.05; done"


def logged(host, words, app="a"):
    return wait_for(lambda: words in host.acnspawn("logs", "--app=" + app, "p").out, "%r in the log" % words)


@both
def signals_reach_apps(host, *options):
    host.detach("--name=p", "--exit-policy=all", *options, host.shell(TRAP, name="example.com/a"), host.shell(TRAP, name="example.com/b"))
    host.wait_up("a")
    host.wait_up("b")
    host.acnspawn("kill", "--signal=USR1", "--app=a", "p").expect(0)
    logged(host, "got usr1")
    lacks(host.acnspawn("logs", "--app=b", "p").out, "got")
    host.acnspawn("kill", "-s", "10", "p").expect(0)
    logged(host, "got usr1", "b")
    host.acnspawn("kill", "--app=b", "p").expect(0)
    wait_for(lambda: host.app_status("p", "b")["state"] == "ended", "end of app b")
    equal(host.app_status("p", "b")["exitStatus"], 3)
    contains(host.acnspawn("kill", "--app=b", "p").expect(1).err, "not running: it has ended")
    contains(host.acnspawn("kill", "--app=c", "p").expect(1).err, "has no app 'c'")
    equal(host.acnspawn("kill", "--signal=NOPE", "p").rc, 2)
    host.acnspawn("kill", "--signal=KILL", "p").expect(0)
    host.acnspawn("status", "--wait=20s", "p").expect(0)
    equal(host.app_status("p", "a")["signal"], 9)
    contains(host.acnspawn("kill", "p").expect(1).err,
             "not running: it is exited.\n'acnspawn run p' runs it again, 'acnspawn status p' shows how it ended.\n")


def count(host, pod):
    return len(host.written("a", "out/count", host.pod_dir(pod)))


@both
def a_paused_pod_does_nothing_until_it_goes_on(host, *options):
    uuid = host.detach("--name=p", *options, host.shell(": >/out/count; touch /out/up; while :; do printf x >>/out/count; sleep 0.02; done",
                                                        name="example.com/a"))
    host.wait_up("a")
    wait_for(lambda: count(host, uuid) > 3, "work of the app")
    host.acnspawn("pause", "p").expect(0)
    n = count(host, uuid)
    time.sleep(0.5)  # in which it would have worked 25 times
    equal(count(host, uuid), n, "work while paused")
    equal(host.state("p"), "paused")
    contains(host.acnspawn("status", "p").expect(0).out, "paused")
    contains(host.acnspawn("list").expect(0).out, "paused")
    equal(json.loads(host.acnspawn("list", "--json=short").out)[0]["state"], "paused")
    for verb in (["enter", "p", "true"], ["kill", "p"], ["restart-app", "p", "a"]):
        r = host.acnspawn(*verb).expect(1)
        contains(r.err, "is paused")
        contains(r.err, "acnspawn resume")
    host.acnspawn("pause", "p").expect(0)
    host.acnspawn("resume", "p").expect(0)
    host.acnspawn("resume", "p").expect(0)
    equal(host.state("p"), "running")
    wait_for(lambda: count(host, uuid) > n, "work of the app")
    host.acnspawn("stop", "p").expect(0)
    contains(host.acnspawn("pause", "p").expect(1).err, "not running: it is exited")


@case
def a_paused_pod_can_be_stopped(host):
    for force in [], ["--force"]:
        uuid = host.detach(host.shell(TRAP, name="example.com/a"))
        host.wait_up("a", uuid)
        host.acnspawn("pause", uuid).expect(0)
        host.acnspawn("stop", *force, uuid).expect(0)
        equal(host.state(uuid), "exited")
        if not force:
            equal(host.app_status(uuid, "a")["exitStatus"], 3)


@case
def a_pod_whose_systemd_was_frozen_by_hand_goes_on_and_can_be_stopped(host):
    """Not the pod's own cgroup, by which it would be paused, but the one below it that nspawn makes for the payload."""
    uuid = host.detach(host.shell(TRAP, name="example.com/a"))
    host.wait_up("a", uuid)
    (payload,) = [path + "/payload" for path in cgroups() if path.endswith(uuid) and os.path.exists(path + "/payload/cgroup.freeze")]

    def frozen():
        with open(payload + "/cgroup.events") as f:
            return "frozen 1" in f.read()

    def freeze():
        with open(payload + "/cgroup.freeze", "w") as f:
            f.write("1")
        wait_for(frozen, "the payload to be frozen")
    freeze()
    equal((host.state(uuid), json.loads(host.acnspawn("list", "--json").out)[0]["state"]), ("frozen", "frozen"))
    r = host.acnspawn("enter", uuid, "--", "true").expect(1)
    equal(r.err, "Error: Pod %s is frozen, by the cgroup payload below its own.\n'acnspawn resume %s' lets it continue.\n" % (uuid, uuid))
    host.acnspawn("resume", uuid).expect(0)
    equal((frozen(), host.state(uuid)), (False, "running"))
    freeze()
    host.acnspawn("stop", uuid).expect(0)
    equal(host.state(uuid), "exited")
    equal(host.app_status(uuid, "a")["exitStatus"], 3)


@case
def a_paused_pod_in_the_foreground_ends_on_a_signal(host):
    p = host.start("run", "--name=p", host.shell(TRAP, name="example.com/a"))
    host.wait_up("a")
    host.acnspawn("pause", "p").expect(0)
    p.terminate()
    equal(host.finish(p).rc, 3)


def restarted(host, policy, *options):
    script = ("test -e /out/mark && echo dirty; touch /out/mark; echo started; trap 'exit 3' TERM; touch /out/up; "
              "while :; do sleep 0.05; done")
    host.detach("--name=p", "--exit-policy=" + policy, *options, host.shell(script, name="example.com/a"),
                host.shell(TRAP, name="example.com/b"))
    host.wait_up("a")
    for n in range(2, 9):
        host.acnspawn("restart-app", "p", "a").expect(0)
        wait_for(lambda: host.acnspawn("logs", "--app=a", "p").out.count("started") == n, "start number %d" % n)
        wait_for(lambda: host.app_status("p", "a")["state"] == "running", "app a")
    lacks(host.acnspawn("logs", "p").out, "dirty")
    equal(host.app_status("p", "b")["state"], "running")
    contains(host.acnspawn("restart-app", "p", "c").expect(1).err, "has no app 'c'")
    equal(host.acnspawn("restart-app", "p").rc, 2)
    equal([f for f in os.listdir(os.path.join(host.one_pod(), "root/acnspawn/units")) if f.endswith(".d")], [])
    if policy != "all":
        # The exit policy is in force again.
        host.acnspawn("kill", "--app=a", "p").expect(0)
        host.acnspawn("status", "--wait=20s", "p").expect(0)
        equal(host.state("p"), "exited")
    else:
        host.acnspawn("stop", "--force", "p").expect(0)


@both
def an_app_is_started_again(host, *options):
    restarted(host, "on-failure", *options)


@case
def an_app_is_started_again_where_its_end_ends_the_pod(host):
    restarted(host, "any")


@case
def an_app_is_started_again_where_all_have_to_end(host):
    restarted(host, "all")


@both
def an_app_that_does_not_start_again_has_failed(host, *options):
    """The exit policy then applies as after any other start."""
    handler = [{"name": "pre-start", "exec": ["/bin/sh", "-c", "test -e /v/spoiled && exit 4; exit 0"]}]
    image = host.shell("exec sleep 1000", name="example.com/a",
                       app={"mountPoints": [{"name": "v", "path": "/v"}], "eventHandlers": handler})
    for policy, state in (("on-failure", "exited"), ("any", "exited"), ("all", "running")):
        uuid = host.detach("--name=p", "--exit-policy=" + policy, "--volume=v,kind=empty", *options, image,
                           host.shell(TRAP, name="example.com/b"))
        host.wait_up("b", uuid)
        host.acnspawn("enter", "--app=a", "p", "touch", "/v/spoiled").expect(0)
        contains(host.acnspawn("restart-app", "p", "a").expect(1).err, "cannot start the app again")
        host.acnspawn("status", "--wait=3s", "p")
        equal(host.state("p"), state, "state of the pod with the policy " + policy)
        equal(host.app_status("p", "a")["cause"], "pre-start-failed")
        if state == "exited":
            equal(host.app_status("p", "b")["exitStatus"], 3, "exit status of the other")
        else:
            host.acnspawn("stop", "--force", "p").expect(0)
        host.acnspawn("rm", "p").expect(0)


@case
def a_signal_to_many_apps_of_which_the_first_ends_the_pod(host):
    images = [host.image(["/bin/sleep", "1000"], name="example.com/a%d" % i) for i in range(8)]
    for _ in range(12):
        host.detach("--name=p", "--exit-policy=any", *images)
        r = host.acnspawn("kill", "--signal=SIGKILL", "p").expect(0)
        equal(r.err, "")
        host.acnspawn("status", "--wait=20s", "p").expect(0)
        host.acnspawn("rm", "p").expect(0)


def busy_processes(host):
    """The process of the app "busy", when the one that has created /out/up has ended."""
    def find():
        return processes_where(lambda pid: "/app.slice/app-busy.slice/" in read_text("/proc/%d/cgroup" % pid), host.processes())
    wait_for(lambda: len(find()) == 1, "one process of the app")
    return find()[0]


def processor_time(pid):
    fields = read_text("/proc/%d/stat" % pid).rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@case
def usage_of_pods_is_counted(host):
    busy = host.shell("touch /out/up; while :; do :; done", name="example.com/busy")
    host.detach("--name=p", busy, host.shell("touch /out/up; sleep 1000 & wait", name="example.com/idle-one"))
    host.wait_up("busy")
    host.wait_up("idle-one")

    def measure():
        rows = json.loads(host.acnspawn("stats", "--json=short", "p").expect(0).out)
        return rows if rows[1]["cpuTime"] > 200000 else None
    rows = wait_for(measure, "200 ms of processor time")
    equal([(r["pod"], r["app"]) for r in rows], [("p", None), ("p", "busy"), ("p", "idle-one")])
    pod, busy, idle = rows
    true(pod["cpuTime"] >= busy["cpuTime"] > 200000 > idle["cpuTime"] > 0, "processor times: %r" % rows)
    equal((busy["pids"], idle["pids"]), (1, 2))
    true(pod["pids"] >= 6, "processes of the pod: %r" % pod)
    # Compared with the kernel's accounting of the processes.
    r = host.acnspawn("stats").expect(0)
    lines = r.out.splitlines()
    equal(lines[0].split(), "POD APP CPU MEMORY LIMIT READ WRITTEN PIDS".split())
    equal([l.split()[1] for l in lines[1:]], ["-", "busy", "idle-one"])
    equal(host.acnspawn("stats", "--no-legend").expect(0).out.count("\n"), 3)
    if pod["memory"] is None:
        contains(r.err, "cannot be measured: this host has no cgroup v2 controller")
        equal(r.err.count("\n"), 1, "lines of notes")
    # The second that is measured is a part of the time that the command takes.
    main = busy_processes(host)
    begin, used = time.monotonic(), processor_time(main)
    rows = json.loads(host.acnspawn("top", "--json=short", "p").expect(0).out)
    used, took = processor_time(main) - used, time.monotonic() - begin
    share = rows[1]["cpuPermille"] / 1000
    true(share <= used + 0.05 and share * took >= used - (took - 1) - 0.05 and share > rows[2]["cpuPermille"] / 1000,
         "shares: %r, but %.3f s of %.3f s were used" % (rows, used, took))
    contains(host.acnspawn("stats", "nope").expect(1).err, "nope")
    equal(host.acnspawn("top", "--delay=1us").rc, 2)
    host.acnspawn("stop", "--force", "p").expect(0)
    contains(host.acnspawn("stats", "p").expect(1).err, "not running: it is exited")
    equal(json.loads(host.acnspawn("stats", "--json=short").expect(0).out), [])
    host.acnspawn("top").expect(0)


ALTERNATE, USUAL = b"\033[?1049h", b"\033[?1049l"


def updates(terminal, n):
    wait_for(lambda: terminal.read() or terminal.text.count(b"\033[H") >= n, "updates of the screen")


def left(terminal):
    """The status, after the terminal is as it was."""
    status = terminal.process.wait(timeout=patience(20))
    terminal.read(0.2)
    equal(terminal.text.count(USUAL), terminal.text.count(ALTERNATE), "times that the screen was left")
    true(terminal.text.rindex(b"\033[?25h") > terminal.text.rindex(b"\033[?25l"), "the cursor is back")
    terminal.check_mode()
    return status


@case
def top_has_a_screen_until_q_is_pressed(host):
    host.detach("--name=p", host.shell("touch /out/up; sleep 1000", name="example.com/a"))
    t = Terminal(host, "top", "--delay=200ms")
    updates(t, 3)
    contains(t.text.decode(), "CPU%")
    true(t.text.startswith(ALTERNATE), "the alternate screen: %r" % t.text[:40])
    t.wait_raw()
    t.send(b"x")
    updates(t, t.text.count(b"\033[H") + 2)
    t.send(b"q")
    equal(left(t), 0)
    t = Terminal(host, "top", "--delay=1h")
    t.expect(ALTERNATE)
    t.wait_raw()
    t.send(b"\x03")
    equal(left(t), -signal.SIGINT)
    # Ctrl-Z restores the terminal for the shell until the job continues.
    top = " ".join(host.argv("top", "--delay=200ms"))
    t = Terminal(host, argv=["bash", "-mc", "%s; stty -a | tr ';' '\\n' >%s; fg" % (top, host.path("mode"))])
    updates(t, 2)
    t.wait_raw()
    t.send(b"\x1a")
    wait_for(lambda: t.read() or t.text.count(ALTERNATE) == 2, "the screen of the job that goes on")
    equal(t.text.count(USUAL), 1)
    contains(read_text(host.path("mode")).split(), "icanon")
    t.send(b"Q")
    equal(left(t), 0)
    # More rows than lines: nothing is scrolled out of the screen.
    t = Terminal(host, "top", "--delay=100ms", rows=2)
    updates(t, 2)
    equal(t.text.split(b"\033[H")[1].count(b"\n"), 1, "line breaks on a screen of two lines")
    t.send(b"q")
    equal(left(t), 0)
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def top_ends_with_the_pods(host):
    host.detach("--name=p", host.shell("touch /out/up; sleep 1000", name="example.com/a"))
    all, one = Terminal(host, "top", "--delay=200ms"), Terminal(host, "top", "--delay=200ms", "p")
    for t in all, one:
        updates(t, 2)
    host.acnspawn("stop", "--force", "p").expect(0)
    equal(left(all), 0)
    contains(all.text.decode().split(USUAL.decode())[-1], "No pod is running any more.")
    equal(left(one), 1)
    contains(one.text.decode().split(USUAL.decode())[-1], "is not running")


main()
