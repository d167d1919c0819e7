#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The units that are installed for the host: a pod as acnspawn@NAME.service, and acnspawn-gc.service with its timer."""

from harness import *

NOTIFY = [{"name": "appc.io/executor/supports-systemd-notify", "value": "true"}]
UNIT = "acnspawn@web-1.service"
STAY = "trap 'exit 0' TERM; touch /out/up; while true; do sleep 0.1; done"


def systemctl(*args, rc=0):
    r = subprocess.run(("systemctl",) + args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if rc is not None:
        equal(r.returncode, rc, "status of systemctl %s, which says %r" % (" ".join(args), r.stdout))
    return r.stdout.strip()


def show(*properties, unit=UNIT):
    return tuple(systemctl("show", "-P", p, unit) for p in properties)


def run_to(state, what):
    """Starts the unit and waits until that is its state."""
    systemctl("start", UNIT)
    wait_for(lambda: show("ActiveState") == (state,), what, timeout=60)


@contextlib.contextmanager
def drop_ins(host, **texts):
    """The units as they are installed, but for the store."""
    units = {"pod": "acnspawn@.service.d", "gc": "acnspawn-gc.service.d"}
    for unit in units.values():
        os.makedirs("/run/systemd/system/" + unit)
    for key, unit in units.items():
        with open("/run/systemd/system/%s/test.conf" % unit, "w") as f:
            f.write("[Unit]\nConditionPathExists=\n[Service]\nEnvironment=ACNSPAWN_DIR=%s\n%s" % (host.dir, texts.get(key, "")))
    try:
        systemctl("daemon-reload")
        yield
    finally:
        host.note_pods()
        systemctl("stop", UNIT, "acnspawn-gc.service", "acnspawn-gc.timer", rc=None)
        systemctl("reset-failed", UNIT, rc=None)
        systemctl("stop", "system-acnspawn.slice", rc=None)
        for unit in units.values():
            shutil.rmtree("/run/systemd/system/" + unit)
        systemctl("daemon-reload")


@case
def a_pod_as_a_unit_of_the_host(host):
    """Readiness, stop, and what is said when it is started again."""
    uuid = host.prepare("--name=web-1", host.shell("while ! test -e /out/go; do sleep 0.1; done; poke notify READY=1; " + STAY,
                                                   name="example.com/a", annotations=NOTIFY))
    with drop_ins(host):
        systemctl("start", "--no-block", UNIT)
        wait_for(lambda: host.app_status(uuid, "a")["state"] == "running", "the app runs", timeout=90)
        time.sleep(1)
        equal(show("ActiveState", "StatusText"), ("activating", "0 of 1 app is ready"))
        host.acnspawn("enter", uuid, "--", "touch", "/out/go").expect(0)
        wait_for(lambda: show("ActiveState") == ("active",), "the unit is active", timeout=30)
        equal(show("SubState", "StatusText", "Result"), ("running", "1 of 1 app is ready", "success"))
        contains(systemctl("status", "acnspawn-%s.scope" % uuid), "machine.slice")
        contains(systemctl("show", "-P", "Delegate", "acnspawn-%s.scope" % uuid), "yes")
        systemctl("stop", UNIT)
        equal(show("ActiveState", "Result"), ("inactive", "success"))
        equal(host.state(uuid), "exited")
        # A pod runs once.
        systemctl("start", UNIT, rc=1)
        equal(show("ActiveState", "ExecMainStatus"), ("failed", "1"))
        subprocess.run(["journalctl", "--sync"], check=True)
        contains(subprocess.run(["journalctl", "-u", UNIT, "-o", "cat"], capture_output=True, text=True).stdout, "a pod runs once")


@case
def an_app_that_is_restarted_leaves_the_unit_as_it_is(host):
    uuid = host.prepare("--name=web-1", host.shell(STAY, name="example.com/a"), "--restart=always")
    with drop_ins(host):
        systemctl("start", UNIT)
        main = show("MainPID")
        host.acnspawn("restart-app", uuid, "a").expect(0)
        host.acnspawn("kill", "--signal=KILL", uuid).expect(0)
        wait_for(lambda: host.app_status(uuid, "a")["starts"] == 3 and host.app_status(uuid, "a")["state"] == "running", "the third start", timeout=60)
        equal((show("ActiveState"), show("MainPID")), (("active",), main))
        systemctl("stop", UNIT)
        equal(show("ActiveState", "Result"), ("inactive", "success"))


@case
def a_pod_that_does_its_work_at_once(host):
    uuid = host.prepare("--name=web-1", host.shell("true", name="example.com/a"))
    with drop_ins(host):
        run_to("inactive", "the end of the unit")
        equal(show("Result", "ExecMainStatus"), ("success", "0"))
        equal(host.status(uuid)["exitStatus"], 0)


@case
def a_unit_fails_with_its_pod(host):
    uuid = host.prepare("--name=web-1", host.shell("touch /out/up; sleep 2; exit 3", name="example.com/a"))
    with drop_ins(host):
        run_to("failed", "the unit fails")
        equal(show("ExecMainStatus", "Result", "NRestarts"), ("3", "exit-code", "0"))
        equal(host.status(uuid)["exitStatus"], 3)


@case
def a_unit_whose_process_is_killed_leaves_nothing(host):
    uuid = host.prepare("--name=web-1", host.shell(STAY, name="example.com/a"))
    with drop_ins(host):
        systemctl("start", UNIT)
        systemctl("kill", "--kill-who=main", "--signal=KILL", UNIT)
        wait_for(lambda: show("ActiveState") == ("failed",), "the unit fails", timeout=60)
        wait_for(lambda: host.state(uuid) == "exited", "the pod ends", timeout=60)
        wait_for(lambda: systemctl("is-active", "acnspawn-%s.scope" % uuid, rc=None) != "active", "the scope ends", timeout=60)


@case
def gc_by_its_service_and_timer(host):
    uuid = host.prepare("--name=web-1", host.shell("true", name="example.com/a"))
    kept = host.prepare("example.com/a")
    with drop_ins(host, gc="ExecStart=\nExecStart=/usr/bin/acnspawn gc --grace-period=0s\n"):
        systemctl("start", UNIT)
        wait_for(lambda: host.state(uuid) == "exited", "the pod ends", timeout=60)
        systemctl("start", "acnspawn-gc.timer")
        equal(show("Unit", "ActiveState", unit="acnspawn-gc.timer"), ("acnspawn-gc.service", "active"))
        systemctl("start", "acnspawn-gc.service")
        equal(show("Result", "ExecMainStatus", unit="acnspawn-gc.service"), ("success", "0"))
        equal([os.path.basename(p) for p in host.pods()], [kept])


main()
