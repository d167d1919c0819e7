#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Declared pods as services of the host: acnspawn@NAME.service, and what the generator makes of their files."""

from harness import *

UNIT = "acnspawn@web.service"
TIMER, UPDATE = "acnspawn-update@web.timer", "acnspawn-update@web.service"
PODS = "/etc/acnspawn/pods"
NOTIFY = [{"name": "appc.io/executor/supports-systemd-notify", "value": "true"}]
STAY = "trap 'exit 0' TERM; touch /out/up; while :; do sleep 1000 & wait $!; done"


def systemctl(*args, rc=0):
    r = subprocess.run(("systemctl",) + args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if rc is not None:
        equal(r.returncode, rc, "status of systemctl %s, which says %r" % (" ".join(args), r.stdout))
    return r.stdout.strip()


def show(*properties, unit=UNIT):
    return tuple(systemctl("show", "-P", p, unit) for p in properties)


@contextlib.contextmanager
def declared(host, text, **others):
    """Declared pods, in the store of the case: "web", and OTHERS."""
    os.makedirs(PODS, exist_ok=True)
    texts = {"web": text, **others}
    units = ["acnspawn@%s.service" % name for name in texts]
    for name, text in texts.items():
        with open("%s/%s.pod" % (PODS, name), "w") as f:
            f.write(text + "\n[Service]\nEnvironment=ACNSPAWN_DIR=%s\n" % host.dir)
    try:
        systemctl("daemon-reload")
        yield
    finally:
        host.note_pods()
        systemctl("stop", *units, rc=None)
        systemctl("reset-failed", *units, rc=None)
        for name in texts:
            os.unlink("%s/%s.pod" % (PODS, name))
        systemctl("stop", "system-acnspawn.slice", rc=None)
        systemctl("daemon-reload")


@case
def started_stopped_and_restarted(host):
    """Each start makes the pod of the file as it is by then, and the earlier ones stay."""
    image = host.shell(STAY, name="example.com/a")
    text = "[Pod]\nHostname=one\n[App a]\nImage=%s\n[Unit]\nDescription=The web\n[Service]\nWatchdogSec=2min\n[Install]\nWantedBy=multi-user.target\n" % image
    with declared(host, text):
        contains(systemctl("list-dependencies", "--plain", "multi-user.target"), UNIT)
        equal(show("Description"), ("The web",))
        systemctl("start", UNIT)
        equal(show("ActiveState", "WatchdogUSec"), ("active", "2min"))
        first = host.status("web")
        equal((first["unit"], first["hostname"]), (UNIT, "one"))
        with open(PODS + "/web.pod", "a") as f:
            f.write("[Pod]\nHostname=two\n")
        systemctl("restart", UNIT)
        second = host.status("web")
        equal((second["predecessor"], second["hostname"], second["state"]), (first["uuid"], "two", "running"))
        # What only a new pod can have, and an app of which the environment is different.
        with open(PODS + "/web.pod", "a") as f:
            f.write("[Pod]\nHostname=three\n")
        contains(systemctl("reload", UNIT, rc=1), "failed")
        contains(subprocess.run(("journalctl", "-b", "-u", UNIT), stdout=subprocess.PIPE, text=True).stdout, "only a new pod can have another hostname")
        with open(PODS + "/web.pod", "a") as f:
            f.write("Hostname=two\n[App a]\nEnvironment=A=b\n")
        systemctl("reload", UNIT)
        now = host.status("web")
        equal((now["uuid"], now["state"], now["apps"][0]["state"]), (second["uuid"], "running", "running"))
        true(now["apps"][0]["started"] > second["apps"][0]["started"], "the app was replaced")
        systemctl("stop", UNIT)
        equal(show("ActiveState", "Result"), ("inactive", "success"))
        systemctl("start", UNIT)
        equal((host.status("web")["predecessor"], host.state("web")), (second["uuid"], "running"))
        systemctl("stop", UNIT)
        listed = json.loads(host.acnspawn("list", "--all", "--json", "web").expect(0).out)
        equal([p["state"] for p in listed], ["exited"] * 3)
        contains(systemctl("reload", UNIT, rc=1), UNIT + " is not active, cannot reload")


def write_pod(host, text):
    """The file of "web" with TEXT, which needs no daemon-reload."""
    with open(PODS + "/web.pod", "w") as f:
        f.write(text + "\n[Service]\nEnvironment=ACNSPAWN_DIR=%s\n" % host.dir)


def lives(host):
    """Of each app: its state, and since when it is so."""
    return {a["name"]: (a["state"], a["started"]) for a in host.status("web")["apps"]}


def messages_of_unit(unit=UNIT):
    return subprocess.run(("journalctl", "-b", "-o", "cat", "-u", unit), stdout=subprocess.PIPE, text=True).stdout


@case
@with_timeout(600)
def reload_after_an_edit_does_not_warn(host):
    """No warning that the source of the unit has changed on disk, but one about changed sections for systemd."""
    text = "[App a]\nImage=%s\n" % host.shell(STAY, name="example.com/a")
    with declared(host, text):
        systemctl("start", UNIT)
        contains(systemctl("show", "--property=Documentation", UNIT), "file:" + PODS + "/web.pod")
        write_pod(host, text + "Environment=A=1\n")
        lacks(systemctl("reload", UNIT), "changed on disk")
        equal(show("NeedDaemonReload"), ("no",))
        lacks(messages_of_unit(), "daemon-reload")
        write_pod(host, text + "Environment=A=2\n[Unit]\nDescription=Other\n")
        lacks(systemctl("reload", UNIT), "changed on disk")
        contains(messages_of_unit(), "[Unit] or [Service] of pod web has changed; systemd reads these sections at 'systemctl daemon-reload'.")


@of_machine
@with_timeout(600)
def each_kind_of_change_by_reload(host):
    """Apps are added, replaced, limited and removed; what does not get ready is undone, and what needs a new pod is refused."""
    one, two = (host.shell(STAY, name="example.com/" + n) for n in ("one", "two"))
    app = "[App %s]\nImage=%s\n%s\n"
    first = app % ("stays", one, "") + app % ("image", one, "") + app % ("limit", one, "Memory=64Mi") + app % ("gone", one, "")
    with declared(host, first):
        systemctl("start", UNIT)
        uuid, before, group = host.status("web")["uuid"], lives(host), show("ControlGroup", "MainPID")
        second = app % ("stays", one, "") + app % ("image", two, "After=new") + app % ("limit", one, "Memory=48Mi") + app % ("new", one, "")
        write_pod(host, second)
        contains(host.acnspawn("apply", "--dry-run", "web").expect(0).out, "planned")
        equal(lives(host), before, "apps after a dry run")
        systemctl("reload", UNIT)
        after = lives(host)
        equal(sorted(after), ["image", "limit", "new", "stays"])
        equal({state for state, _ in after.values()}, {"running"})
        equal([after[n] for n in ("stays", "limit")], [before[n] for n in ("stays", "limit")], "apps that go on")
        true(after["image"][1] >= after["new"][1], "the new app was started before the one that comes after it")
        equal(host.status("web")["uuid"], uuid)
        # It does not get ready: what was there is there again.
        write_pod(host, second.replace("Memory=48Mi", "Memory=32Mi").replace(two, two + "\nExec=/none"))
        contains(systemctl("reload", UNIT, rc=1), "failed")
        contains(messages_of_unit(), "App image of the old image runs again")
        now = lives(host)
        equal([now[n] for n in ("stays", "limit", "new")], [after[n] for n in ("stays", "limit", "new")], "the other apps")
        equal(now["image"][0], "running")
        # Nothing is done if one of the changes needs a new pod.
        write_pod(host, "[Pod]\nHostname=other\n" + first)
        contains(systemctl("reload", UNIT, rc=1), "failed")
        contains(messages_of_unit(), "only a new pod can have another hostname")
        equal(lives(host), now)
        equal((show("ActiveState", "NRestarts"), show("ControlGroup", "MainPID")), (("active", "0"), group))
        systemctl("restart", UNIT)
        status = host.status("web")
        equal((status["predecessor"], status["hostname"], sorted(lives(host))), (uuid, "other", ["gone", "image", "limit", "stays"]))


@contextlib.contextmanager
def updates_in_the_store_of(host):
    path = "/run/systemd/system/acnspawn-update@.service.d"
    os.makedirs(path)
    with open(path + "/test.conf", "w") as f:
        f.write("[Service]\nEnvironment=ACNSPAWN_DIR=%s\n" % host.dir)
    try:
        yield
    finally:
        systemctl("stop", TIMER, UPDATE, rc=None)
        systemctl("reset-failed", UPDATE, rc=None)
        systemctl("stop", "system-acnspawn\\x2dupdate.slice", rc=None)
        shutil.rmtree(path)
        systemctl("daemon-reload")


@case
@with_timeout(600)
def updates_by_the_timer_of_a_pod(host):
    """At the times of the file; an image that does not get ready is not kept, and a pod that does not run is no failure."""
    def fetch(n, script=STAY, **more):
        return host.acnspawn("fetch", host.shell("echo version %d; %s" % (n, script), name="example.com/a", **more)).expect(0).out.strip()
    def runs():
        a = host.app_status("web", "a")
        return a["imageID"], a["state"]
    first = fetch(1)
    text = "[App a]\nImage=example.com/a\nImagePolicy=local\n[Update]\nOnActiveSec=1s\nAccuracySec=1ms\nRandomizedDelaySec=0\n"
    with updates_in_the_store_of(host), declared(host, text):
        equal(show("ActiveState", unit=TIMER), ("inactive",))
        contains(systemctl("list-dependencies", "--plain", "timers.target"), TIMER)
        systemctl("start", UPDATE)
        equal(show("Result", "ExecMainStatus", unit=UPDATE), ("success", "0"))
        systemctl("start", UNIT)
        second = fetch(2)
        equal(runs(), (first, "running"))
        systemctl("start", TIMER)
        equal(show("TimersCalendar", unit=TIMER), ("",))
        wait_for(lambda: runs() == (second, "running"), "a replacement at the time of the timer", timeout=120)
        wait_for(lambda: show("ActiveState", unit=UPDATE) == ("inactive",), "the end of the update", timeout=60)
        third = fetch(3, app={"exec": ["/bin/missing"]})
        systemctl("start", UPDATE, rc=1)
        equal((runs(), host.app_status("web", "a")["failedImageID"]), ((second, "running"), third))
        contains(messages_of_unit(UPDATE), "of the old image runs again")
        # It is not tried again, and that is not a failure.
        starts = host.app_status("web", "a")["starts"]
        systemctl("start", UPDATE)
        equal((runs(), host.app_status("web", "a")["starts"]), ((second, "running"), starts))
        equal(show("ActiveState"), ("active",))


@case
def a_directory_that_cannot_be_read(host):
    """Limits of pods that run stay in force when systemd reads all units anew."""
    with declared(host, "[App a]\nImage=%s\n[Service]\nMemoryMax=1G\nIPAddressDeny=any\n" % host.shell(STAY, name="example.com/a")):
        systemctl("start", UNIT)
        before = show("MemoryMax", "IPAddressDeny", "DropInPaths")
        os.makedirs("/run/acnspawn", exist_ok=True)
        moved = os.path.isdir("/run/acnspawn/pods")
        if moved:
            os.rename("/run/acnspawn/pods", "/run/acnspawn/pods.kept")
        open("/run/acnspawn/pods", "x").close()
        try:
            systemctl("daemon-reload")
            equal(show("MemoryMax", "IPAddressDeny", "DropInPaths"), before)
            equal(show("ActiveState"), ("active",))
        finally:
            os.unlink("/run/acnspawn/pods")
            if moved:
                os.rename("/run/acnspawn/pods.kept", "/run/acnspawn/pods")


@case
def exit_status_and_result_are_those_of_the_pod(host):
    """0, a status of failure, and the signal by which the pod is stopped, which is no failure."""
    with declared(host, "[App a]\nImage=%s\n" % host.shell("exit $(cat /out/status)", name="example.com/a") +
                  "Mount=out:/out\n[Pod]\nVolume=out,kind=host,source=%s\n" % host.path("out")):
        os.makedirs(host.path("out"))
        for code, state, result in (0, "inactive", "success"), (3, "failed", "exit-code"), (143, "inactive", "success"):
            with open(host.path("out/status"), "w") as f:
                f.write(str(code))
            systemctl("start", UNIT, rc=None)
            wait_for(lambda: show("ActiveState") == (state,), "unit %s" % state, timeout=60)
            equal(show("Result"), (result,))
            equal(host.status("web")["exitStatus"], code)
            if state == "failed": # else systemd has forgotten the unit
                equal(show("ExecMainStatus"), (str(code),))
                contains(systemctl("status", UNIT, rc=3), "code=exited, status=%d" % code)


@case
def a_watchdog_of_the_unit(host):
    """The supervisor serves it as long as it works."""
    text = "[App a]\nImage=%s\n[Service]\nWatchdogSec=10s\n" % host.shell(STAY, name="example.com/a")
    with declared(host, text):
        systemctl("start", UNIT)
        uuid = host.status("web")["uuid"]
        first = show("WatchdogTimestampMonotonic")
        wait_for(lambda: show("WatchdogTimestampMonotonic") != first, "a notification", timeout=30)
        equal(show("ActiveState"), ("active",))
        os.kill(host.supervisor(uuid), signal.SIGSTOP)
        wait_for(lambda: show("ActiveState") == ("failed",), "the unit fails", timeout=120)
        equal(show("Result"), ("watchdog",))
        wait_for(lambda: host.state(uuid) == "exited", "the pod ends", timeout=60)


@case
def a_unit_that_starts_the_pod_again_is_named(host):
    """Restart=always: `acnspawn stop` alone does not end such a pod."""
    with declared(host, "[App a]\nImage=%s\n[Service]\nRestart=always\nRestartSec=0\n" % host.shell(STAY, name="example.com/a")):
        systemctl("start", UNIT)
        first = host.status("web")["uuid"]
        contains(host.acnspawn("stop", "web").expect(0).err,
                 "%s starts a pod again when web has ended (Restart=always); 'systemctl stop %s' ends both." % (UNIT, UNIT))
        wait_for(lambda: host.status("web")["uuid"] != first and host.state("web") == "running", "the next pod")
        systemctl("stop", UNIT)
        equal(host.state("web"), "exited")
    with declared(host, "[App a]\nImage=%s\n[Service]\nRestart=on-failure\nRestartSec=0\n" % host.shell("trap '' TERM; " + STAY.split(";", 1)[1],
                                                                                                     name="example.com/c")):
        systemctl("start", UNIT)
        host.wait_up("a", host.status("web")["uuid"])
        contains(host.acnspawn("stop", "--timeout=1s", "web").expect(0).err, "%s starts a pod again when web has ended (Restart=on-failure)" % UNIT)
        systemctl("stop", UNIT)
    uuid = host.detach(host.shell(STAY, name="example.com/b"))
    equal(host.acnspawn("stop", uuid).expect(0).err, "")


@case
def a_supervisor_that_is_killed(host):
    """The unit fails, and is started again if that is its policy: as another pod, with nothing left of the first one."""
    text = "[App a]\nImage=%s\n[Service]\n%s\n"
    image = host.shell(STAY, name="example.com/a")
    with declared(host, text % (image, "")):
        systemctl("start", UNIT)
        uuid = host.status("web")["uuid"]
        os.kill(host.supervisor(uuid), signal.SIGKILL)
        wait_for(lambda: show("ActiveState") == ("failed",), "the unit fails", timeout=60)
        equal(show("Result", "NRestarts"), ("exit-code", "0"))
        wait_for(lambda: host.state(uuid) == "exited", "the pod ends", timeout=60)
        equal((host.status(uuid)["exitStatus"], host.app_status(uuid, "a")["cause"]), (125, "pod-killed"))
    with declared(host, text % (image, "Restart=on-failure")):
        systemctl("start", UNIT)
        first = host.status("web")["uuid"]
        os.kill(host.supervisor(first), signal.SIGKILL)
        wait_for(lambda: show("NRestarts", "ActiveState") == ("1", "active"), "the unit runs again", timeout=120)
        status = host.status("web")
        equal((status["predecessor"], status["state"], status["unit"]), (first, "running", UNIT))
        equal([c for c in cgroups() if first in c], [], "cgroups of the first pod")
        systemctl("stop", UNIT)
        equal(show("ActiveState", "Result"), ("inactive", "success"))


@case
def a_pod_that_needs_another_one(host):
    """It is started after that, when its apps are ready, and stopped before."""
    ready = host.shell("sleep 1; poke notify READY=1; " + STAY, name="example.com/db", annotations=NOTIFY)
    web = "[Unit]\nRequires=acnspawn@db.service\nAfter=acnspawn@db.service\n[App a]\nImage=%s\n" % host.shell(STAY, name="example.com/a")
    with declared(host, web, db="[App a]\nImage=%s\n" % ready):
        contains(systemctl("list-dependencies", "--plain", UNIT), "acnspawn@db.service")
        systemctl("start", UNIT)
        db, a = host.status("db"), host.status("web")
        equal((db["state"], db["apps"][0]["ready"], a["state"]), ("running", True, "running"))
        true(int(show("ActiveEnterTimestampMonotonic", unit="acnspawn@db.service")[0]) <= int(show("InactiveExitTimestampMonotonic")[0]),
             "the pod was started before the other one was ready")
        systemctl("stop", "acnspawn@db.service")
        equal(show("ActiveState"), ("inactive",))
        true(host.status("web")["ended"] <= host.status("db")["ended"], "the pod ended after the one that it needs")


@of_machine
def mistakes_are_in_the_journal(host):
    with declared(host, "[App a]\nImage=x\nMemory=y\n[Unit]\nnonsense\n"):
        systemctl("start", UNIT, rc=1)
        equal(show("ActiveState", "Result", "ExecMainStatus"), ("failed", "exit-code", "1"))
        journal = lambda *a: subprocess.run(["journalctl", "-b", "-o", "cat", *a], capture_output=True, text=True).stdout
        wait_for(lambda: "web.pod:3: Invalid value 'y' for Memory=" in journal("-u", UNIT), "the message of the pod", timeout=60)
        wait_for(lambda: "web.pod:5: the line is not KEY=VALUE" in journal("-t", "acnspawn-generator"), "the message of the generator", timeout=60)
    equal(host.pods(), [])


@case
def enabled_by_its_template(host):
    with declared(host, "[App a]\nImage=%s\n" % host.shell(STAY, name="example.com/a")):
        systemctl("enable", "--now", UNIT)
        try:
            equal((show("ActiveState"), systemctl("is-enabled", UNIT)), (("active",), "enabled"))
        finally:
            systemctl("disable", UNIT)


if __name__ == "__main__":
    main()
