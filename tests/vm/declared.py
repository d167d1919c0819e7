#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Declared pods as services of the host: acnspawn@NAME.service, and what the generator makes of their files."""

from harness import *

UNIT = "acnspawn@web.service"
PODS = "/etc/acnspawn/pods"
STAY = "trap 'exit 0' TERM; touch /out/up; while true; do sleep 0.1; done"


def systemctl(*args, rc=0):
    r = subprocess.run(("systemctl",) + args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if rc is not None:
        equal(r.returncode, rc, "status of systemctl %s, which says %r" % (" ".join(args), r.stdout))
    return r.stdout.strip()


def show(*properties, unit=UNIT):
    return tuple(systemctl("show", "-P", p, unit) for p in properties)


@contextlib.contextmanager
def declared(host, text):
    """A declared pod, in the store of the case."""
    os.makedirs(PODS, exist_ok=True)
    with open(PODS + "/web.pod", "w") as f:
        f.write(text + "\n[Service]\nEnvironment=ACNSPAWN_DIR=%s\n" % host.dir)
    try:
        systemctl("daemon-reload")
        yield
    finally:
        host.note_pods()
        systemctl("stop", UNIT, rc=None)
        systemctl("reset-failed", UNIT, rc=None)
        os.unlink(PODS + "/web.pod")
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


@case
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
