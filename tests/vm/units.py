#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The units that are installed for the host: a pod as acnspawn@NAME.service, and acnspawn-gc.service with its timer."""

import shlex

import pod_interface
from harness import *

NOTIFY = [{"name": "appc.io/executor/supports-systemd-notify", "value": "true"}]
UNIT = "acnspawn@web-1.service"
STAY = "trap 'exit 0' TERM; touch /out/up; while :; do sleep 1000 & wait $!; done"


def systemctl(*args, rc=0):
    r = subprocess.run(("systemctl",) + args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if rc is not None:
        equal(r.returncode, rc, "status of systemctl %s, which says %r" % (" ".join(args), r.stdout))
    return r.stdout.strip()


def tool(*argv):
    return subprocess.run(argv, stdout=subprocess.PIPE, check=True, text=True).stdout


def show(*properties, unit=UNIT):
    return tuple(systemctl("show", "-P", p, unit) for p in properties)


def run_to(state, what):
    """Starts the unit and waits until that is its state."""
    systemctl("start", UNIT)
    wait_for(lambda: show("ActiveState") == (state,), what, timeout=60)


@contextlib.contextmanager
def drop_ins(host, **texts):
    """The units as they are installed, but for the store."""
    units = {"pod": "acnspawn@.service.d", "gc": "acnspawn-gc.service.d", "update": "acnspawn-update.service.d"}
    for unit in units.values():
        os.makedirs("/run/systemd/system/" + unit)
    for key, unit in units.items():
        with open("/run/systemd/system/%s/test.conf" % unit, "w") as f:
            f.write("[Service]\nEnvironment=ACNSPAWN_DIR=%s\n%s" % (host.dir, texts.get(key, "")))
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
    """Readiness, stop, and starting it again."""
    uuid = host.prepare("--name=web-1", host.shell("while ! test -e /out/go; do sleep 0.1; done; poke notify READY=1; " + STAY,
                                                   name="example.com/a", annotations=NOTIFY))
    with drop_ins(host):
        systemctl("start", "--no-block", UNIT)
        wait_for(lambda: host.app_status(uuid, "a")["state"] == "running", "the app runs", timeout=90)
        host.wait_at_rest(uuid)
        wait_for(lambda: show("ActiveState", "StatusText") == ("activating", "0 of 1 app is ready"), "what the pod says of itself")
        host.acnspawn("enter", uuid, "--", "touch", "/out/go").expect(0)
        wait_for(lambda: show("ActiveState") == ("active",), "the unit is active", timeout=30)
        equal(show("SubState", "StatusText", "Result"), ("running", "1 of 1 app is ready", "success"))
        equal(host.status(uuid)["unit"], UNIT)
        status = systemctl("status", UNIT)
        contains(status, "/machine.slice/" + UNIT)
        contains(status, "systemd-journald")
        equal(systemctl("is-active", "acnspawn-%s.scope" % uuid, rc=None), "inactive")
        systemctl("stop", UNIT)
        equal(show("ActiveState", "Result"), ("inactive", "success"))
        equal(host.state(uuid), "exited")
        # Started again it is another pod of that name.
        systemctl("start", "--no-block", UNIT)
        wait_for(lambda: host.status("web-1")["uuid"] != uuid and host.app_status("web-1", "a")["state"] == "running", "the app runs again",
                 timeout=90)
        host.acnspawn("enter", "web-1", "--", "touch", "/out/go").expect(0)
        wait_for(lambda: show("ActiveState") == ("active",), "the unit is active", timeout=30)
        equal((host.status("web-1")["predecessor"], host.status("web-1")["unit"]), (uuid, UNIT))
        systemctl("stop", UNIT)
        equal(show("ActiveState", "Result"), ("inactive", "success"))


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
        wait_for(lambda: not os.path.exists("/sys/fs/cgroup/machine.slice/" + UNIT), "the end of the unit's cgroup")


@case
def a_pod_whose_supervisor_is_killed_is_a_machine_again(host):
    """With Restart= the unit, and with it the machine that was left, is there all the time."""
    for policy in "always", "on-failure":
        host.prepare("--name=web-1", "--replace", host.shell(STAY, name="example.com/a"))

        def machine():
            return dict(l.split("=", 1) for l in subprocess.run(("machinectl", "show", "web-1"), capture_output=True, text=True)
                        .stdout.splitlines())

        with drop_ins(host, pod="Restart=%s\nRestartSec=100ms\n" % policy):
            systemctl("start", UNIT)
            for _ in range(3):
                before = show("MainPID")
                systemctl("kill", "--kill-who=main", "--signal=KILL", UNIT)
                wait_for(lambda: show("ActiveState") == ("active",) and show("MainPID") not in (before, ("0",)), "the next run", timeout=60)
                wait_for(lambda: machine().get("Leader") == str(host.leader("web-1")), "the machine of the next run", timeout=60)
            lacks(subprocess.run(("journalctl", "--no-pager", "-o", "cat", "-b", "-u", UNIT), capture_output=True, text=True).stdout,
                  "cannot be registered")
            contains(systemctl("-M", "web-1", "list-units", "--no-legend"), "a.service")
            equal(subprocess.run(("journalctl", "-M", "web-1", "--no-pager", "-n1"), capture_output=True).returncode, 0)
            leader = machine()["Leader"]
            equal(subprocess.run(("machinectl", "poweroff", "web-1"), capture_output=True).returncode, 0)
            wait_for(lambda: machine().get("Leader") != leader, "the end of the machine", timeout=60)
            if policy == "always":  # what is stopped while it starts may not be registered any more
                wait_for(lambda: machine().get("Leader") not in (None, leader) and machine().get("Leader") == str(host.leader("web-1")),
                         "the machine of the next run", timeout=60)


@case
def a_pod_starts_with_any_umask_of_the_unit(host):
    """Hardened hosts set it for all services."""
    uuid = host.prepare("--name=web-1", host.shell(STAY, name="example.com/a"))
    with drop_ins(host, pod="UMask=0077\nSecureBits=no-setuid-fixup\nIgnoreSIGPIPE=yes\n"):
        systemctl("start", UNIT)
        equal(host.state(uuid), "running")
        systemctl("stop", UNIT)
        equal(show("ActiveState", "Result"), ("inactive", "success"))


@case
def settings_of_the_unit_hold_for_the_pod(host):
    """Those of a unit that holds the pod; a pod with a scope of its own has nothing of what has started it."""
    host.prepare("--name=web-1", host.image(["/bin/sleep", "1000"], name="example.com/a"))
    with drop_ins(host, pod="Nice=4\nOOMScoreAdjust=123\n"):
        systemctl("start", UNIT)
        leader = host.leader("web-1")
        equal((os.getpriority(os.PRIO_PROCESS, leader), read_text("/proc/%d/oom_score_adj" % leader)), (4, "123\n"))
        systemctl("stop", UNIT)
    r = subprocess.run(["systemd-run", "--quiet", "--wait", "--property=Nice=4", "--property=OOMScoreAdjust=123", "--property=UMask=0077"] +
                       host.argv("run", "--detach", "--name=own", "example.com/a"), capture_output=True, text=True)
    equal(r.returncode, 0, "exit status of systemd-run (%s)" % r.stderr)
    leader = host.leader("own")
    equal((os.getpriority(os.PRIO_PROCESS, leader), read_text("/proc/%d/oom_score_adj" % leader)),
          (os.getpriority(os.PRIO_PROCESS, 1), read_text("/proc/1/oom_score_adj")))
    host.acnspawn("stop", "--force", "own").expect(0)


@case
def a_pod_whose_unit_is_frozen(host):
    """With its supervisor: that is shown, nothing waits for it, and it can be stopped."""
    host.prepare("--name=web-1", host.shell(STAY, name="example.com/a"))
    with drop_ins(host):
        for force in (), ("--timeout=3s",):
            systemctl("start", UNIT)
            systemctl("freeze", UNIT)
            equal([p["name"] for p in json.loads(host.acnspawn("list", "--state=frozen", "--json=short").expect(0).out)], ["web-1"])
            r = host.acnspawn("enter", "web-1", "true", timeout=30).expect(1)
            contains(r.err, "is frozen, with %s" % UNIT)
            contains(r.err, "systemctl thaw")
            equal(host.state("web-1"), "frozen")
            host.acnspawn("stop", *force, "web-1", timeout=60).expect(0)
            wait_for(lambda: show("ActiveState") == ("inactive",), "the end of the unit", timeout=60)
        systemctl("start", UNIT)
        host.acnspawn("pause", "web-1").expect(0)
        systemctl("freeze", UNIT)
        equal(host.state("web-1"), "paused")
        host.acnspawn("stop", "web-1", timeout=60).expect(0)
        wait_for(lambda: show("ActiveState") == ("inactive",), "the end of a unit whose pod was paused", timeout=60)
        systemctl("start", UNIT)
        systemctl("freeze", UNIT)
        systemctl("thaw", UNIT)
        host.acnspawn("enter", "web-1", "true").expect(0)
        systemctl("stop", UNIT)


@of_machine
def limits_of_the_unit_hold_for_the_pod(host):
    """From the drop-in, and set while the pod runs; and settings without effect in a unit are reported."""
    uuid = host.prepare("--name=web-1", "--isolator=os/linux/cpu-shares=512", "--memory=300M", host.shell(STAY, name="example.com/a"), "--memory=200M")
    with drop_ins(host, pod="MemoryMax=250M\nCPUQuota=50%\n"):
        systemctl("start", UNIT)
        group = "/sys/fs/cgroup/machine.slice/" + UNIT
        pod = group + "/acnspawn-" + uuid
        line = read_text("/proc/%d/cgroup" % host.leader(uuid)).strip()
        contains(line, "/machine.slice/%s/acnspawn-%s/" % (UNIT, uuid))
        equal(read_text(group + "/cgroup.procs"), "")
        contains(read_text(group + "/supervisor/cgroup.procs").split(), show("MainPID")[0])
        for name in ("cpu", "memory", "io", "pids"):
            contains(read_text(pod + "/cgroup.controllers").split(), name)
        equal(read_text(group + "/memory.max").strip(), str(250 << 20))
        systemctl("set-property", "--runtime", UNIT, "MemoryMax=150M")
        equal(read_text(group + "/memory.max").strip(), str(150 << 20))
        verdicts = {i["name"]: i for i in host.status(uuid)["isolators"] if not i["app"]}
        equal(verdicts["os/linux/cpu-shares"]["verdict"], "ignored")
        contains(verdicts["os/linux/cpu-shares"]["detail"], "that of its unit (CPUWeight=)")
        equal(verdicts["resource/memory"]["verdict"], "enforced")
        host.acnspawn("enter", uuid, "--", "poke", "memory", "50").expect(0)
        host.acnspawn("enter", uuid, "--", "poke", "memory", "170").expect(137)
        host.acnspawn("pause", uuid).expect(0)
        equal(host.status(uuid)["state"], "paused")
        host.acnspawn("resume", uuid).expect(0)
        equal(show("ActiveState"), ("active",))
        systemctl("stop", UNIT)
        equal(show("ActiveState", "Result"), ("inactive", "success"))


@case
def a_machine_in_a_unit(host):
    """machined knows the unit, and ending the machine ends the pod in order."""
    uuid = host.prepare("--name=web-1", host.shell("trap 'exit 3' TERM; touch /out/up; while :; do sleep 1000 & wait $!; done", name="example.com/a"))
    with drop_ins(host):
        systemctl("start", UNIT)
        machine = lambda *p: subprocess.run(("machinectl",) + p, capture_output=True, text=True).stdout.strip()
        wait_for(lambda: "Unit=" + UNIT in machine("show", "web-1").splitlines(), "the machine")
        host.wait_up("a")
        machine("terminate", "web-1")
        wait_for(lambda: host.state(uuid) == "exited", "the pod's end", timeout=60)
        status = host.app_status(uuid, "a")
        equal((status["exitStatus"], status["cause"]), (3, "exited"), "how the app ended")


@case
def units_that_are_not_given_are_not_kept(host):
    uuid = host.prepare("--name=web-1", "--isolator=os/linux/cpu-shares=512", host.shell("true", name="example.com/a"))
    run = ["systemd-run", "--quiet", "--wait", "--pipe", "--collect", "--setenv=ACNSPAWN_DIR=" + host.dir]
    r = subprocess.run(run + ["--unit=kept-1", os.environ["ACNSPAWN"], "run", "--keep-unit", uuid], capture_output=True, text=True)
    equal(r.returncode, 1)
    contains(r.stderr, "Cannot keep unit kept-1.service for the pod: it is not delegated")
    contains(r.stderr, "Delegate=yes")
    equal(host.state(uuid), "prepared")
    # Before it runs, and also where a shell is in the unit too.
    run += ["--property=Delegate=yes", "--unit=kept-2", "sh", "-c", '"$@"; echo status $?', "sh", os.environ["ACNSPAWN"], "run", "--keep-unit"]
    r = subprocess.run(run + ["--strict", uuid], capture_output=True, text=True)
    contains(r.stderr, "os/linux/cpu-shares of the pod would be ignored")
    equal(host.state(uuid), "prepared")
    r = subprocess.run(run + [uuid], capture_output=True, text=True)
    equal((r.stdout, r.stderr), ("status 0\n", ""))
    equal(host.state(uuid), "exited")


@case
def units_that_put_their_processes_into_a_child(host):
    """DelegateSubgroup=, if systemd has it: the process is in a child of the delegated cgroup already."""
    uuid = host.prepare("--name=web-1", host.shell(STAY, name="example.com/a"))
    version = int(systemctl("--version").split()[1])
    subgroup = ["--property=DelegateSubgroup=main"] if version >= 254 else []
    subprocess.run(["systemd-run", "--quiet", "--collect", "--unit=kept-3", "--setenv=ACNSPAWN_DIR=" + host.dir, "--property=KillMode=mixed",
                    "--property=Delegate=yes", *subgroup, os.environ["ACNSPAWN"], "run", "--keep-unit", uuid], check=True)
    host.wait_up("a")
    equal(host.status(uuid)["unit"], "kept-3.service")
    contains(read_text("/proc/%d/cgroup" % host.leader(uuid)), "/kept-3.service/acnspawn-%s/" % uuid)
    systemctl("stop", "kept-3.service")
    equal((host.state(uuid), host.app_status(uuid, "a")["exitStatus"]), ("exited", 0))


@case
def a_unit_that_starts_the_supervisor(host):
    """It is the main process, without a client, and notifies systemd itself."""
    uuid = host.prepare("--name=web-1", host.shell(STAY, name="example.com/a"))
    unit = "kept-4.service"
    subprocess.run(["systemd-run", "--quiet", "--unit=kept-4", "--setenv=ACNSPAWN_DIR=" + host.dir, "--property=Type=notify", "--property=KillMode=mixed",
                    "--property=Delegate=yes", "/usr/lib/acnspawn/supervise", "--keep-unit", "web-1"], check=True)
    equal(show("ActiveState", "MainPID", unit=unit), ("active", str(host.supervisor(uuid))))
    equal(host.status(uuid)["unit"], unit)
    host.wait_up("a")
    systemctl("stop", unit)
    equal((host.state(uuid), host.app_status(uuid, "a")["exitStatus"]), ("exited", 0))


def records(*matches):
    """Of the unit, in the journal of the host."""
    subprocess.run(["journalctl", "--sync"], check=True)
    r = subprocess.run(["journalctl", "-u", UNIT, "-o", "json", "--no-pager", *matches], stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in r.stdout.splitlines()]


@case
def output_in_the_journal_of_the_host(host):
    """Each line once, with fields that an app cannot forge; messages about the pod; and apps that are not there."""
    uuid = host.prepare("--name=web-1", "--exit-policy=all",
                        host.shell("echo '<3>bad luck'; echo ACNSPAWN_APP=b; echo to stderr >&2; exit 3", name="example.com/a"), "---",
                        host.shell("echo of b; sleep 1", name="example.com/b"), "---",
                        host.shell("echo of c; sleep 1", name="example.com/c"), "--log=pod", "---",
                        host.shell("echo of d; sleep 1", name="example.com/d"), "--log=none")
    with drop_ins(host):
        systemctl("start", UNIT)
        wait_for(lambda: show("ActiveState")[0] in ("inactive", "failed"), "the unit has ended", timeout=90)
        lines = sorted((r["SYSLOG_IDENTIFIER"], r["MESSAGE"], r["PRIORITY"], r["ACNSPAWN_STREAM"]) for r in records("ACNSPAWN_UUID=" + uuid)
                       if "ACNSPAWN_STREAM" in r)
        equal(lines, [("a", "ACNSPAWN_APP=b", "6", "stdout"), ("a", "bad luck", "3", "stdout"), ("a", "to stderr", "6", "stderr"),
                      ("b", "of b", "6", "stdout")])
        for r in records("ACNSPAWN_APP=a"):
            equal((r["ACNSPAWN_POD"], r["ACNSPAWN_NAME"], r["ACNSPAWN_IMAGE"], r["_SYSTEMD_UNIT"]), ("web-1", "web-1", "example.com/a", UNIT))
        equal([r["MESSAGE"] for r in records("ACNSPAWN_APP=b") if "ACNSPAWN_STREAM" in r], ["of b"])
        everything = [r["MESSAGE"] for r in records() if isinstance(r["MESSAGE"], str)]
        for text in "bad luck", "of b", "to stderr":
            equal(len([m for m in everything if text in m]), 1, "lines with %r in %r" % (text, everything))
        for text in "of c", "of d":
            equal([m for m in everything if text in m], [])
        messages = [(r["MESSAGE"], r.get("EXIT_STATUS")) for r in records("ACNSPAWN_UUID=" + uuid) if "MESSAGE_ID" in r]
        for message in [("App a has started.", None), ("App a has exited with status 3.", "3"), ("Pod web-1 is up.", None),
                        ("Pod web-1 has ended with status 3.", "3")]:
            true(message in messages, "%r in %r" % (message, messages))
        contains(host.acnspawn("logs", uuid).expect(0).out, "of c")
        subprocess.run(["journalctl", "--update-catalog"], check=True)
        explained = subprocess.run(["journalctl", "-u", UNIT, "-x", "--no-pager"], stdout=subprocess.PIPE, text=True, check=True).stdout
        contains(explained, "App a of pod web-1 has ended")
        contains(explained, "has ended with status 3.")


@case
def the_scope_of_a_pod_waits_for_its_slowest_app(host):
    """At a shutdown of the host: as long as the option of the app allows."""
    uuid = host.detach("--name=p", "--stop-timeout=1s", host.shell(STAY, name="example.com/a"), "--stop-timeout=3min")
    equal(systemctl("show", "-P", "TimeoutStopUSec", "acnspawn-%s.scope" % uuid).strip(), "7min 30s")
    host.acnspawn("stop", uuid).expect(0)


@case
def output_in_the_journal_on_request(host):
    """Of a detached pod, which is in no unit but a scope."""
    uuid = host.detach("--name=p", host.shell("echo in both; " + STAY, name="example.com/a"), "--log=both")
    found = []

    def there():
        subprocess.run(["journalctl", "--sync"], check=True)
        found[:] = subprocess.run(["journalctl", "ACNSPAWN_UUID=" + uuid, "ACNSPAWN_STREAM=stdout", "-o", "cat"], stdout=subprocess.PIPE, text=True,
                                  check=True).stdout.splitlines()
        return found
    wait_for(there, "the line", timeout=30)
    equal(found, ["in both"])
    contains(host.acnspawn("logs", uuid).expect(0).out, "in both")
    host.acnspawn("stop", uuid).expect(0)


def forge(uuid):
    """A record as the supervisor writes it, of another user; it is in the journal when this returns."""
    fields = "MESSAGE=forged\nACNSPAWN_UUID=%s\nACNSPAWN_APP=a\nACNSPAWN_STREAM=stdout\nSYSLOG_IDENTIFIER=a\n_UID=0\n" % uuid
    subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "logger", "--journald"], input=fields, text=True, check=True)
    wait_for(lambda: "forged" in subprocess.run(["journalctl", "ACNSPAWN_UUID=" + uuid, "-o", "cat"], stdout=subprocess.PIPE, text=True,
                                                check=True).stdout, "the forged record", timeout=60)


def logs_by_interface(host, uuid, **parameters):
    c, (ours, theirs) = pod_interface.Connection(host, uuid), os.pipe()
    c.send("Logs", dict(parameters, stdout=0), [theirs])
    os.close(theirs)
    with os.fdopen(ours) as f:
        text = f.read()
    lacks(c.receive(), "error")
    return text


@case
def logs_from_the_journal_of_the_host(host):
    """Lines of the host's and the pod's journal appear in order, when followed and after the end, once each, only those
    of the supervisor, and byte for byte."""
    turn = "while ! test -e /out/go; do sleep 0.1; done; "
    uuid = host.detach("--name=p", host.shell("echo a1; touch /out/up; " + turn + "echo a2 >&2; printf '<4>a3'", name="example.com/a"), "--log=journal", "---",
                       host.shell("touch /out/up; " + turn + "echo b1", name="example.com/b"), "---",
                       host.shell("echo c1", name="example.com/c"), "--log=both")
    wait_for(lambda: "a: a1\n" in host.acnspawn("logs", "p").out, "the first line", timeout=60)
    forge(uuid)
    equal(host.acnspawn("logs", "--app=a", "p").expect(0).out, "a1\n")
    equal(logs_by_interface(host, uuid, app="a"), "a1\n")
    follower = host.start("logs", "--follow", "p")
    host.acnspawn("enter", "--app=b", "p", "--", "touch", "/out/go").expect(0)
    wait_for(lambda: "b: b1\n" in host.acnspawn("logs", "p").out, "the line of b", timeout=60)
    host.acnspawn("enter", "--app=a", "p", "--", "touch", "/out/go").expect(0)
    followed = host.finish(follower)
    equal((sorted(followed.out.splitlines()), followed.err), (["a: <4>a3", "a: a1", "b: b1", "c: c1"], "a: a2\n"))
    r = host.acnspawn("logs", "p").expect(0)
    equal(([l for l in r.out.splitlines() if l != "c: c1"], r.out.count("c: c1"), r.err), (["a: a1", "b: b1", "a: <4>a3"], 1, "a: a2\n"))
    r = host.acnspawn("logs", "--app=a", "p").expect(0)
    equal((r.out, r.err), ("a1\n<4>a3", "a2\n"))
    entries = [json.loads(l) for l in host.acnspawn("logs", "--json", "--lines=3", "p").expect(0).out.splitlines()]
    equal([(x["app"], x["stream"], x["message"]) for x in entries], [("b", "stdout", "b1"), ("a", "stderr", "a2"), ("a", "stdout", "<4>a3")])
    equal(host.acnspawn("logs", "--app=a", "--until=@1000000000", "p").expect(0).out, "")
    equal(host.acnspawn("logs", "--app=a", "--since=@%d" % (entries[-1]["timestamp"] // 1000000 + 1), "p").expect(0).out, "")
    equal(host.acnspawn("logs", "--app=a", "--since=@%d" % (entries[0]["timestamp"] // 1000000 - 3600), "p").expect(0).out, "a1\n<4>a3")


@case
def the_pod_of_a_loaded_unit_stays(host):
    """One that has failed, and one that another unit needs, though neither is enabled. Once they are not loaded any more nothing refers to them."""
    uuid = host.prepare("--name=web-1", host.shell("exit 3", name="example.com/a"))
    needed = host.prepare("--name=needed", "example.com/a")
    gc = lambda: {x["id"] for x in json.loads(host.acnspawn("gc", "--grace-period=0", "--expire-prepared=0", "--json=short").expect(0).out) if x["kind"] == "pod"}
    with drop_ins(host):
        with open("/run/systemd/system/needs.service", "w") as f:
            f.write("[Unit]\nAfter=acnspawn@needed.service\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=true\n")
        try:
            systemctl("daemon-reload")
            systemctl("start", UNIT, rc=None)
            wait_for(lambda: show("ActiveState") == ("failed",), "the unit has failed", timeout=60)
            wait_for(lambda: host.state(uuid) == "exited", "the end of the pod")
            systemctl("start", "needs.service")  # its order is a reference, too
            equal(gc(), set())
            systemctl("stop", "needs.service")
            systemctl("reset-failed", UNIT)
            wait_for(lambda: not systemctl("list-units", "--all", "--plain", "--no-legend", "acnspawn@*.service"), "that no unit is loaded")
            equal(gc(), {uuid, needed})
        finally:
            systemctl("stop", "needs.service", rc=None)
            os.unlink("/run/systemd/system/needs.service")


@contextlib.contextmanager
def unit_files(units):
    for unit, text in units.items():
        with open("/run/systemd/system/" + unit, "w") as f:
            f.write(text)
    try:
        systemctl("daemon-reload")
        yield
    finally:
        for unit in units:
            systemctl("stop", unit, rc=None)
        for unit in units:
            os.unlink("/run/systemd/system/" + unit)
        systemctl("daemon-reload")


@contextlib.contextmanager
def automount(what, where):
    """WHAT at WHERE, once it is used."""
    name = where[1:].replace("/", "-")
    with unit_files({name + ".automount": "[Automount]\nWhere=%s\n" % where,
                     name + ".mount": "[Mount]\nWhat=%s\nWhere=%s\nType=none\nOptions=bind\n" % (what, where)}):
        systemctl("start", name + ".automount")
        equal(show("ActiveState", unit=name + ".mount"), ("inactive",))
        yield name + ".mount"
    os.rmdir(where)


# Something that is there before the network.
LAN = "[Unit]\nWants=network.target\nBefore=network.target\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=%s\n"


@case
def a_pod_that_is_started_before_the_network(host):
    """The start of its scope is not one that waits for it itself."""
    host.prepare("--name=p", host.shell(STAY, name="example.com/a"))
    with unit_files({"lan.service": LAN % "%s --dir=%s run --detach p" % (os.environ["ACNSPAWN"], host.dir)}):
        systemctl("start", "lan.service")
        equal((host.state("p"), show("ActiveState", unit="network.target")), ("running", ("active",)))
        host.acnspawn("stop", "p").expect(0)


@case
def what_a_detached_pod_uses_outlives_it(host):
    """When the host is shut down: mounts of the store and of volumes, and the network; and the pod has the time to end that its apps have.
    It does not need what is not mounted, and a mount that cannot be stopped because of it does not end it."""
    what, mounted, late = host.path("what"), host.path("odd -.name %n"), "/srv/never"
    for directory in what, what + "/data", mounted, late:
        os.mkdir(directory)
    unit = tool("systemd-escape", "--path", "--suffix=mount", os.path.realpath(mounted)).strip()
    with unit_files({"srv-never.mount": "[Mount]\nWhat=/dev/disk/by-label/none\nWhere=%s\n" % late, "lan.service": LAN % "true"}):
        systemctl("start", "lan.service")
        for option in "--register=auto", "--register=no":
            tool("mount", "--bind", what, mounted)
            try:
                wait_for(lambda: show("ActiveState", unit=unit) == ("active",), "the mount")
                host.acnspawn("run", "--detach", "--replace", "--name=p", option, "--stop-timeout=55s", "--volume=%s/data:/data" % mounted,
                              "--volume=%s:/late" % late, host.shell(STAY, name="example.com/a")).expect(0)
                scope = "acnspawn-%s.scope" % host.status("p")["uuid"]
                after = shlex.split(show("After", unit=scope)[0])
                contains(after, "network.target")
                contains(after, unit)
                equal(show("TimeoutStopUSec", unit=scope), ("3min 20s",), "time to stop of " + option)
            finally:
                # Done, or busy.
                systemctl("stop", unit, rc=None)
                subprocess.run(("umount", "--lazy", mounted), stderr=subprocess.DEVNULL)
            equal(show("ActiveState", unit=scope), ("active",))
            host.acnspawn("stop", "p").expect(0)
    os.rmdir(late)


@of_machine
def a_volume_that_is_mounted_when_it_is_used(host):
    """By the preparation of a pod, and by its start, if it was unmounted meanwhile."""
    what, where = host.path("data"), "/srv/cold"
    os.mkdir(what)
    with automount(what, where) as unit:
        host.prepare("--name=p", "--volume=%s:/data" % where, host.shell("echo $AC_APP_NAME >>/data/made", name="example.com/a"))
        equal(show("ActiveState", unit=unit), ("active",))
        systemctl("stop", unit)
        systemctl("start", unit.replace(".mount", ".automount"))
        host.acnspawn("run", "p").expect(0)
        equal(read_text(what + "/made"), "a\n")


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


@case
def updates_by_their_service(host):
    """The timer is not on by itself; its service replaces what runs, in the cgroup that it has."""
    stay = "echo version %d; " + STAY
    host.acnspawn("fetch", host.shell(stay % 1, name="example.com/a")).expect(0)
    uuid = host.prepare("--name=web-1", "--image-policy=local", "example.com/a")
    with drop_ins(host):
        systemctl("start", UNIT)
        new = host.acnspawn("fetch", host.shell(stay % 2, name="example.com/a")).expect(0).out.strip()
        equal(show("UnitFileState", "Unit", unit="acnspawn-update.timer"), ("disabled", "acnspawn-update.service"))
        before = show("ControlGroup")
        systemctl("start", "acnspawn-update.service")
        equal(show("Result", "ExecMainStatus", unit="acnspawn-update.service"), ("success", "0"))
        equal((host.app_status(uuid, "a")["imageID"], host.app_status(uuid, "a")["state"]), (new, "running"))
        equal((show("ActiveState"), show("ControlGroup")), (("active",), before))
        systemctl("stop", UNIT)


main()
