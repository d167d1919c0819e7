#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Readiness that reaches units of the host, and apps without memory, where systemd is the host's init."""

from harness import *

NOTIFY = [{"name": "appc.io/executor/supports-systemd-notify", "value": "true"}]


def systemctl(*args):
    return subprocess.run(("systemctl",) + args, capture_output=True, text=True)


@contextlib.contextmanager
def host_unit(host, text):
    path = "/run/systemd/system/site.service"
    with open(path, "w") as f:
        f.write("[Service]\nType=notify\nKillMode=mixed\n" + text)
    try:
        systemctl("daemon-reload")
        yield
    finally:
        systemctl("stop", "site.service")
        os.unlink(path)
        systemctl("daemon-reload")
        host.note_pods()


def show(*properties):
    out = systemctl("show", "site.service", "--property=" + ",".join(properties)).stdout
    return dict(line.split("=", 1) for line in out.splitlines())


@case
def a_unit_of_the_host_waits_until_the_app_is_ready(host):
    uuid = host.prepare("--name=p", host.shell("while ! test -e /out/go; do sleep 0.1; done; poke notify READY=1; sleep 1000", annotations=NOTIFY))
    with host_unit(host, "ExecStart=%s --dir=%s run %s\nTimeoutStartSec=2min\n" % (ACNSPAWN, host.dir, uuid)):
        systemctl("start", "--no-block", "site.service")
        wait_for(lambda: host.app_status(uuid, "image1")["state"] == "running", "the app runs", timeout=90)
        host.wait_at_rest(uuid)
        wait_for(lambda: show("ActiveState", "StatusText") == {"ActiveState": "activating", "StatusText": "0 of 1 app is ready"},
                 "what the pod says of itself")
        host.acnspawn("enter", uuid, "--", "touch", "/out/go").expect(0)
        wait_for(lambda: show("ActiveState")["ActiveState"] == "active", "the unit is active", timeout=30)
        equal(show("StatusText", "SubState"), {"StatusText": "1 of 1 app is ready", "SubState": "running"})
        equal(systemctl("stop", "site.service").returncode, 0)
        equal(host.state(uuid), "exited")


@case
def a_unit_of_the_host_fails_with_an_app_that_does_not_get_ready(host):
    uuid = host.prepare("--name=p", host.shell("sleep 1000", annotations=NOTIFY), "--start-timeout=1s")
    with host_unit(host, "ExecStart=%s --dir=%s run %s\n" % (ACNSPAWN, host.dir, uuid)):
        true(systemctl("start", "site.service").returncode != 0, "the unit was started")
        equal(show("ActiveState", "ExecMainStatus"), {"ActiveState": "failed", "ExecMainStatus": "125"})
        equal(host.app_status(uuid, "image1")["cause"], "not-ready")


@case
def messages_of_an_app_are_passed_on_to_the_pods_systemd(host):
    """Its status, in the name of its main process, although the sender has ended; and nothing that changes the
    unit."""
    script = "poke notify \"$(printf 'STATUS=nearly there\\nMAINPID=1\\nREADY=1')\"; while :; do sleep 1; done"
    uuid = host.detach("--name=p", host.shell(script, name="example.com/a", annotations=NOTIFY))

    def properties():
        out = systemctl("-M", "p", "show", "app-a.service", "--property=StatusText,ActiveState,MainPID").stdout
        return dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
    wait_for(lambda: properties().get("StatusText") == "nearly there", "the status", timeout=30)
    equal(properties()["ActiveState"], "active")
    true(properties()["MainPID"] not in ("0", "1"), "the main process is %r" % properties()["MainPID"])
    host.acnspawn("stop", uuid).expect(0)


def memory(limit):
    return {"isolators": [{"name": "resource/memory", "value": {"limit": limit}}]}


HOG = "touch /out/up; sleep 1; poke memory 200; echo hog=$?; sleep 1000"


@of_machine
def one_process_that_is_killed_for_memory_does_not_end_the_app(host):
    uuid = host.detach("--name=p", host.shell(HOG, name="example.com/a", app=memory("40Mi")))
    wait_for(lambda: "hog=137" in host.acnspawn("logs", uuid).out, "the hog is killed", timeout=60)
    equal(host.app_status(uuid, "a")["state"], "running")
    r = host.acnspawn("enter", uuid, "poke", "memory", "200")
    equal(r.rc, 137, "a hog beside the app")
    host.wait_at_rest(uuid)
    equal(host.app_status(uuid, "a")["state"], "running")
    host.acnspawn("kill", "--signal=TERM", uuid).expect(0)
    host.acnspawn("status", "--wait=60s", uuid)
    equal(host.app_status(uuid, "a")["cause"], "signal")


@of_machine
def with_oom_group_all_of_the_app_is_killed(host):
    other = host.shell("sleep 1000", name="example.com/b")
    uuid = host.detach("--name=p", "--exit-policy=all", host.shell(HOG, name="example.com/a", app=memory("40Mi")), "--oom-group=true", "---", other)
    wait_for(lambda: host.app_status(uuid, "a")["state"] == "ended", "the end of the app", timeout=60)
    status = host.app_status(uuid, "a")
    equal((status["cause"], status["signal"]), ("oom-kill", 9))
    lacks(host.acnspawn("logs", uuid).out, "hog=")
    equal(host.app_status(uuid, "b")["state"], "running")
    host.acnspawn("stop", uuid).expect(0)


@of_machine
def the_count_of_one_run_is_not_taken_for_the_next(host):
    """An app that was killed for memory, and is killed by a user after its restart."""
    script = "if ! test -e /data/was; then touch /data/was; exec poke memory 200; fi; touch /out/up; sleep 1000"
    uuid = host.detach("--name=p", "--volume=data,kind=empty,mode=0777", "--mount=data:/data",
                       host.shell(script, name="example.com/a", app=memory("40Mi")), "--restart=on-failure", "--restart-limit=1")
    wait_for(lambda: os.path.exists(host.upper("a", host.pod_dir(uuid)) + "/out/up"), "the second run", timeout=60)
    equal(host.app_status(uuid, "a")["startsInRow"], 2)
    host.acnspawn("kill", "--signal=KILL", uuid).expect(0)
    host.acnspawn("status", "--wait=60s", uuid)
    equal((host.app_status(uuid, "a")["cause"], host.app_status(uuid, "a")["signal"]), ("signal", 9))


main()
