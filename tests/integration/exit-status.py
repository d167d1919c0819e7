#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""How apps end and the pod's exit status: code, signal and cause are separate, nothing is lost."""

from harness import *


def ended(host, rc, *args, app=None):
    """Runs a pod, expects its exit status, and returns the app's record."""
    r = host.run(*args, rc=rc)
    uuid = os.path.basename(host.one_pod())
    apps = host.status(uuid)["apps"]
    return next(a for a in apps if app is None or a["name"] == app), r


@case
def success_is_zero(host):
    app, _ = ended(host, 0, host.shell("exit 0"))
    equal(app["cause"], "exited")
    equal(app["exitStatus"], 0)


@case
def exit_code_is_passed_on(host):
    app, _ = ended(host, 3, host.shell("exit 3"))
    equal((app["cause"], app["exitStatus"], app["signal"]), ("exited", 3, None))


@case
def every_kind_of_exit_code(host):
    for code in (1, 2, 77, 125, 126, 127, 128, 133, 137, 200, 203, 255):
        r = host.acnspawn("run", host.shell("exit %d" % code))
        equal(r.rc, code, "exit status")


@case
def signals_are_no_exit_codes(host):
    """exit 9 and SIGKILL are distinguished, in the status and in the record."""
    for name, number in (("KILL", 9), ("SEGV", 11), ("ABRT", 6), ("USR1", 10), ("SYS", 31)):
        host.acnspawn("run", "--name=sig" + name.lower(), host.shell("kill -%s $$; sleep 60" % name)).expect(128 + number)
        app = host.status("sig" + name.lower())["apps"][0]
        equal((app["cause"], app["signal"], app["exitStatus"]), ("signal", number, None), name)
    host.acnspawn("run", "--name=nine", host.shell("exit 9")).expect(9)
    app = host.status("nine")["apps"][0]
    equal((app["cause"], app["signal"], app["exitStatus"]), ("exited", None, 9))


@case
def fault_of_a_static_program(host):
    app, _ = ended(host, 139, host.image(["/bin/poke", "segv"]))
    equal((app["cause"], app["signal"]), ("signal", 11))


@case
def an_app_that_has_used_up_its_time_has_failed(host):
    """Whatever it says itself when it is stopped for that; the time begins when it is healthy, and so has its handler."""
    script = "trap 'exit %d' TERM; touch /tmp/up; while :; do sleep 0.05; done"
    limit = ["--max-runtime=50ms", "--health-cmd=test -e /tmp/up", "--health-interval=100ms", "--health-start-period=1min"]
    for status, expected in (0, 125), (3, 3):
        app, _ = ended(host, expected, host.shell(script % status, name="example.com/a"), *limit)
        equal((app["cause"], app["exitStatus"]), ("timeout", status))
        host.acnspawn("rm", os.path.basename(host.one_pod())).expect(0)
    uuid = host.detach("--exit-policy=never", host.shell(script % 0, name="example.com/a"), *limit)
    host.acnspawn("wait", uuid, "a").expect(125)
    host.acnspawn("stop", uuid).expect(0)
    host.acnspawn("rm", uuid).expect(0)
    # The status of the pod is its own, not that of the app that is stopped because of it.
    app, _ = ended(host, 125, host.shell("sleep 1000", name="example.com/b"), "---", host.shell(script % 0, name="example.com/a"), *limit, app="a")
    equal(app["cause"], "timeout")


@case
def what_a_job_leaves_behind_is_not_its_exit_status(host):
    """Also if it has to be killed, as the main process has ended by itself, in the time that it had."""
    script = "mkfifo /tmp/up; (trap '' TERM; echo >/tmp/up; while :; do sleep 1; done) & read x </tmp/up; exit %d"
    for status, *more in (0,), (3,), (0, "--max-runtime=1h"):
        app, _ = ended(host, status, "--stop-timeout=100ms", host.shell(script % status, name="example.com/a"), *more)
        equal((app["exitStatus"], app["signal"]), (status, None))
        true(status != 0 or app["cause"] == "exited", "cause %s" % app["cause"])
        host.acnspawn("rm", os.path.basename(host.one_pod())).expect(0)


@case
def missing_command_is_127(host):
    app, r = ended(host, 127, host.image(["/no/such/program"]))
    equal(app["cause"], "command-not-found")
    equal((app["exitStatus"], app["signal"]), (None, None))
    contains(r.err, "/no/such/program", "message")


@case
def missing_command_in_path_is_127(host):
    app, r = ended(host, 127, host.image(["nosuchprogram"]))
    equal(app["cause"], "command-not-found")
    equal(r.err, "Error: App %s: Command nosuchprogram is not in the image (searched in PATH).\n" % app["name"])


@case
def missing_interpreter_is_named(host):
    files = {"script": File("#!/no/interpreter\n", 0o755)}
    app, r = ended(host, 126, host.image(["/script"], files=files))
    equal(app["cause"], "command-not-executable")
    contains(r.err, "/script", "message")
    contains(r.err, "interpreter", "message")


@case
def not_executable_is_126(host):
    for number, (path, what) in enumerate((("/data", File("#!/bin/sh\n", 0o644)), ("/garbage", File(b"\1\2\3\4", 0o755)),
                                           ("/srv", Dir()))):
        name = "n%d" % number
        r = host.acnspawn("run", "--name=" + name, host.image([path], files={path[1:]: what})).expect(126)
        contains(r.err, path, "message")
        equal(host.status(name)["apps"][0]["cause"], "command-not-executable", path)


@case
def working_directory_below_a_file_is_125(host):
    image = host.image(["/bin/touch", "/out/ran"], app={"workingDirectory": "/etc/passwd/directory"})
    app, r = ended(host, 125, image)
    equal(app["cause"], "working-directory-missing")
    contains(r.err, "Cannot change to the working directory /etc/passwd/directory: Not a directory.", "message")
    true(not os.path.exists(os.path.join(host.upper(app["name"]), "out/ran")), "the app ran all the same")


@case
def working_directory_that_is_a_file_is_125(host):
    app, _ = ended(host, 125, host.image(app={"workingDirectory": "/etc/passwd"}))
    equal(app["cause"], "working-directory-missing")


@case
def app_that_traps_term_keeps_its_own_code_on_stop(host):
    """The status is read after the app has ended, not while it is being stopped."""
    uuid = host.detach(host.shell("trap 'exit 5' TERM; touch /out/up; while :; do sleep 0.1; done", name="example.com/a"))
    host.wait_up("a")
    host.acnspawn("stop", uuid).expect(0)
    app = host.app_status(uuid, "a")
    equal((app["cause"], app["exitStatus"], app["signal"]), ("exited", 5, None))
    equal(host.status(uuid)["exitStatus"], 5, "exit status of the pod")


@case
def sibling_stopped_with_the_pod_keeps_its_own_code(host):
    """One app fails; the other is stopped in order, and its exit status is recorded."""
    first = host.shell("trap 'exit 6' TERM; touch /shared/up; while :; do sleep 0.1; done", name="example.com/patient",
                       app={"mountPoints": [{"name": "shared", "path": "/shared"}]})
    second = host.shell("while ! test -e /shared/up; do sleep 0.05; done; exit 4", name="example.com/failing",
                        app={"mountPoints": [{"name": "shared", "path": "/shared"}]})
    r = host.acnspawn("run", "--volume=shared,kind=empty", "--name=p", first, second)
    equal(r.rc, 4, "exit status of the pod: the first that failed")
    equal(host.app_status("p", "failing")["exitStatus"], 4)
    equal(host.app_status("p", "patient")["exitStatus"], 6)


@case
def app_killed_from_outside(host):
    uuid = host.detach(host.shell("echo $$; exec sleep 1000", name="example.com/a"))
    pids = wait_for(lambda: [p for p, line in find_processes(host) if line == "sleep 1000"], "app start")
    os.kill(pids[0], signal.SIGKILL)
    host.acnspawn("status", "--wait", uuid)
    app = host.app_status(uuid, "a")
    equal((app["cause"], app["signal"], app["exitStatus"]), ("signal", 9, None))
    equal(host.status(uuid)["exitStatus"], 137)


@case
def app_that_ignores_term_is_killed_in_time(host):
    image = host.shell("trap '' TERM; touch /out/up; while :; do sleep 0.1; done", name="example.com/a")
    uuid = host.detach("--stop-timeout=1s", image)
    host.wait_up("a")
    start = time.monotonic()
    host.acnspawn("stop", uuid, timeout=30).expect(0)
    true(time.monotonic() - start < patience(15), "stop took %.1f s" % (time.monotonic() - start))
    app = host.app_status(uuid, "a")
    equal((app["cause"], app["signal"], app["exitStatus"]), ("timeout", 9, None))


@case
def times_are_recorded(host):
    before = time.time()
    app, _ = ended(host, 0, host.shell("sleep 0.3"))
    after = time.time()
    started, finished = app["started"] / 1e6, app["ended"] / 1e6
    true(before - 1 <= started <= finished - 0.25 and finished <= after + 1,
         "started %r, ended %r, between %r and %r" % (started, finished, before, after))


@case
def first_failure_of_several_counts(host):
    """Under the policy "all" every app runs to its end; the pod's status is that of the first that failed."""
    one = host.shell("sleep 0.6; exit 11", name="example.com/one")
    two = host.shell("sleep 0.1; exit 22", name="example.com/two")
    three = host.shell("sleep 0.3; exit 0", name="example.com/three")
    host.acnspawn("run", "--name=p", "--exit-policy=all", one, two, three).expect(22)
    equal([host.app_status("p", n)["exitStatus"] for n in ("one", "two", "three")], [11, 22, 0])


@case
def status_is_kept_until_the_pod_is_removed(host):
    host.run("--name=p", host.shell("exit 3"), rc=3)
    for _ in range(2):
        equal(host.status("p")["apps"][0]["exitStatus"], 3)
    host.acnspawn("rm", "p").expect(0)
    host.acnspawn("status", "p").expect(1)


@case
def prepare_warns_of_systemd_as_an_app(host):
    """systemd prints nothing itself."""
    for exec, files, warned in (["/usr/lib/systemd/systemd"], {}, True), (["/sbin/init"], {"sbin/init": Link("/lib/systemd/systemd"), "lib/systemd/systemd": File("#!/bin/sh\n", mode=0o755)}, True), \
            (["/sbin/init"], {"sbin/init": File("#!/bin/sh\n", mode=0o755)}, False):
        r = host.acnspawn("prepare", host.image(exec, files=files)).expect(0)
        equal("runs systemd, which has to be the first process of a machine" in r.err, warned, r.err)


main()
