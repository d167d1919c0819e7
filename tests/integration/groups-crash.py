#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""While a group of ten is launched, each process that takes part is killed between any two of its steps: then the whole group is
there, or nothing of it, and the pod takes the next one. Without its supervisor the pod ends, and nothing of it stays.

Processes that exist for a moment only, the one that prepares the apps and their launchers, are stopped as soon as they are
there, and strace kills them at a certain one of their system calls. The client of a group only waits once it has sent the call, so it
is killed as soon as so many of the apps are there. live-crash.py does the same for other changes."""

import signal

from harness import *
from pod_manager import Held

SIZE = 10
NAMES = ["g%d" % i for i in range(SIZE)]
LONG = os.environ.get("ACNSPAWN_TEST_LONG") == "1"
POINTS = 60 if LONG else 8
STAY = "trap 'exit 0' TERM; while :; do sleep 1000 & wait $!; done"
LAUNCH = ["launch-group", "p"] + [w for n in NAMES for w in ("---", "example.com/stay", "--name=" + n)][1:]
# Of a launcher: up to the execution of the app.
LAUNCHER_CALLS = "socket,connect,sendmsg,recvmsg,mount,umount2,open_tree,move_mount,unshare,setns,pivot_root,fchdir,chroot,openat,setresuid,setresgid,setgroups,capset,prctl,seccomp,execve"
SUPERVISOR_CALLS = CHANGES + ",sendmsg,sendto,fork,clone,kill"


def pod(host):
    host.acnspawn("fetch", host.shell(STAY, name="example.com/stay")).expect(0)
    return host.acnspawn("run", "--detach", "--exit-policy=never", "--name=p").expect(0).out.strip()


def used_pod(host):
    """With what it holds once there has been a group: what comes with the first app stays."""
    uuid = pod(host)
    host.acnspawn(*LAUNCH).expect(0)
    host.acnspawn("rm-app", "--force", "p", *NAMES).expect(0)
    held = Held(host, uuid)
    return uuid, held, held.counted()


def directories(host, uuid):
    return sorted(n for n in os.listdir(host.pod_dir(uuid) + "/apps") if n[0] != ".")


def whole_or_none(host, uuid, held, before):
    """Which of both it is. Without the group all is as it was; then, and after the group was removed, the next one is launched."""
    apps = [a["name"] for a in host.status("p")["apps"]]
    contains(([], NAMES), apps, "the apps")
    equal([a["name"] for a in json.loads(host.acnspawn("cat-manifest", "p").expect(0).out)["apps"]], apps)
    if apps:
        host.acnspawn("rm-app", "--force", "p", *apps).expect(0)
    nothing_more(held.counted, before, "after the group")
    equal(directories(host, uuid), [])
    return bool(apps)


def takes_the_next_group(host):
    equal(host.acnspawn(*LAUNCH).expect(0).out.split(), NAMES)
    equal([a["state"] for a in host.status("p")["apps"]], ["running"] * SIZE)
    host.acnspawn("stop", "p").expect(0)


def traced(host, pid, *options, calls):
    """strace, which has attached to PID when this returns, or has seen its end."""
    p = subprocess.Popen(["strace", "-qq", "-p", str(pid), "-o", host.path("trace"), "-e", "trace=" + calls, *options],
                         stderr=subprocess.DEVNULL)
    wait_for(lambda: tracer_of(pid) != 0 or p.poll() is not None, "strace to attach", interval=0)
    return p


def hold_of_group(host, parent, name):
    """Launches the group until a new child of this name of PARENT could be stopped. Returns that and the client."""
    for _ in range(5):
        before = set(children_of(parent))
        client = host.start(*LAUNCH)
        pid = hold_soon(name, lambda: set(children_of(parent)) - before, name, lambda: client.poll() is not None)
        if pid:
            return pid, client
        host.finish(client).expect(0)
        host.acnspawn("rm-app", "--force", "p", *NAMES).expect(0)
    fail("no process %s was seen" % name)


def kill_new(host, parent, name, calls):
    """Runs the launch of the group; returns a function that does so and kills such a process at its Nth call, and the number
    of its calls."""
    def run(n=None):
        pid, client = hold_of_group(host, parent, name)
        options = ["-e", "inject=%s:signal=KILL:when=%d" % (calls, n)] if n else []
        p = traced(host, pid, *options, calls=calls)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        if n is None:
            wait_for(lambda: client.poll() is not None, "the client to end")
            p.send_signal(signal.SIGINT)
        r = host.finish(client)
        p.send_signal(signal.SIGINT)
        p.wait(patience(30))
        true(r.rc in (0, 1), "exit status %d: %s" % (r.rc, r.err))
        return r

    equal(run().rc, 0)
    return run, len(read_text(host.path("trace")).splitlines())


@case
@with_timeout(300)
def the_process_that_prepares_the_apps_is_killed(host):
    need_strace()
    uuid, held, before = used_pod(host)
    supervisor = host.supervisor(uuid)
    run, total = kill_new(host, supervisor, "prepare-apps", CHANGES)
    true(whole_or_none(host, uuid, held, before), "the group is there")
    messages = set()
    for n in spread(total, POINTS):
        r = run(n)
        there = whole_or_none(host, uuid, held, before)
        equal((r.rc, there), (0, True) if there else (1, False))
        messages.add(r.err.splitlines()[0] if r.err else "")
    true(any("The process that prepares the apps of the group was killed, or took too long" in m for m in messages), "the messages: %s" % messages)
    takes_the_next_group(host)


@case
@with_timeout(300)
def the_launcher_of_an_app_is_killed(host):
    need_strace()
    uuid, held, before = used_pod(host)
    run, total = kill_new(host, held.leader, "launch", LAUNCHER_CALLS)
    true(whole_or_none(host, uuid, held, before), "the group is there")
    failed = 0
    for n in spread(total, POINTS):
        r = run(n)
        there = whole_or_none(host, uuid, held, before)
        equal(r.rc, 0 if there else 1, "exit status of the client: %s" % r.err)
        failed += not there
        if not there:
            contains(r.err, "could not be started")
            contains(r.err, "None of the 10 apps of the group was kept")
    true(failed > 0, "no launcher was killed in time")
    takes_the_next_group(host)


@case
@with_timeout(300)
def the_client_is_killed(host):
    """As soon as so many of the apps are there, or run."""
    uuid, held, before = used_pod(host)
    supervisor = host.supervisor(uuid)
    running = lambda: len(processes_where(lambda pid: name_of(pid) in ("sh", "busybox"), children_of(held.leader)))
    for measure in lambda: len(directories(host, uuid)), running:
        for n in range(0, SIZE + 1, 1 if LONG else 3):
            client = host.start(*LAUNCH)
            with contextlib.suppress(OSError):
                while client.poll() is None and measure() < n:
                    pass
            client.kill()
            client.communicate()
            steady(lambda: (children_of(supervisor), directories(host, uuid)))  # a call that was sent goes on
            whole_or_none(host, uuid, held, before)
    takes_the_next_group(host)


@case
@with_timeout(300)
def the_systemd_of_the_pod_executes_itself_again(host):
    """As soon as so many apps run: its connections are lost then, and with them what has become of the starts."""
    uuid, held, before = used_pod(host)
    running = lambda: len(processes_where(lambda pid: name_of(pid) in ("sh", "busybox", "launch"), children_of(held.leader)))

    def again():
        os.kill(held.leader, signal.SIGTERM)

    again()
    wait_for(lambda: host.acnspawn(*LAUNCH).rc == 0, "a group to be launched")
    host.acnspawn("rm-app", "--force", "p", *NAMES).expect(0)
    before = held.counted()
    for n in list(range(SIZE)) * (4 if LONG else 1):
        client = host.start(*LAUNCH)
        with contextlib.suppress(OSError):
            while client.poll() is None and running() < n:
                pass
        again()
        r = host.finish(client)
        there = whole_or_none(host, uuid, held, before)
        equal((r.rc, there), (0, True) if there else (1, False))
        if not there:
            contains(r.err, "None of the 10 apps of the group was kept")
    wait_for(lambda: host.acnspawn(*LAUNCH).rc == 0, "a group to be launched")
    host.acnspawn("stop", "p").expect(0)


@case
@with_timeout(600)
def the_supervisor_is_killed(host):
    need_strace()
    uuid = pod(host)
    p = traced(host, host.supervisor(uuid), calls=SUPERVISOR_CALLS)
    host.acnspawn(*LAUNCH).expect(0)
    p.send_signal(signal.SIGINT)
    p.wait()
    total = len(read_text(host.path("trace")).splitlines())
    host.acnspawn("rm", "--force", "p").expect(0)
    for n in spread(total, POINTS):
        uuid = pod(host)
        pid = host.supervisor(uuid)
        supervisor = os.pidfd_open(pid)
        p = traced(host, pid, "-e", "inject=%s:signal=KILL:when=%d" % (SUPERVISOR_CALLS, n), calls=SUPERVISOR_CALLS)
        r = host.acnspawn(*LAUNCH, timeout=60)
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(supervisor, signal.SIGKILL)  # the last of its calls are not always made
        os.close(supervisor)
        p.wait(patience(30))
        true(r.rc in (0, 1), "exit status %d: %s" % (r.rc, r.err))
        wait_for(lambda: host.state(uuid) == "exited", "the end of the pod")
        apps = [a["name"] for a in host.status(uuid)["apps"]]
        contains(([], NAMES), apps, "the apps")
        if r.rc == 0:
            equal(apps, NAMES)
        host.acnspawn("rm", uuid).expect(0)
        equal(host.pods(), [])


if __name__ == "__main__":
    main()
