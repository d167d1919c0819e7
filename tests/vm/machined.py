#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Pods as machines of systemd-machined: shown, stopped and powered off by machinectl, read by journalctl, and refused by name."""

from harness import *
from terminals import Terminal

SCRIPT = "trap 'echo got term; exit 3' TERM; echo hello; touch /out/up; while :; do sleep 1000 & wait $!; done"


def machinectl(*args):
    return subprocess.run(["machinectl", "--no-pager", "--no-legend"] + list(args), capture_output=True, text=True, timeout=60)


def machines():
    return {l.split()[0]: l.split()[1:3] for l in machinectl("list").stdout.splitlines() if l.strip()}


def started(host, *options, name="p1"):
    uuid = host.prepare("--name=" + name, host.shell(SCRIPT, name="example.com/a"))
    r = host.acnspawn("run", "--detach", *options, uuid).expect(0)
    host.wait_up("a", uuid)
    return uuid, r


@case
def a_pod_is_shown_as_a_machine(host):
    uuid, _ = started(host)
    wait_for(lambda: "p1" in machines(), "the machine")
    equal(machines()["p1"], ["container", "acnspawn"])
    show = dict(l.split("=", 1) for l in machinectl("show", "p1").stdout.splitlines())
    equal(show["Leader"], str(host.leader(uuid)))
    equal(show["Unit"], "acnspawn-%s.scope" % uuid)
    equal(show["Id"], uuid.replace("-", ""))
    contains(machinectl("status", "p1").stdout, "Leader: ")
    contains(subprocess.run(["journalctl", "-M", "p1", "--no-pager", "-o", "cat"], capture_output=True, text=True).stdout, "hello")
    host.acnspawn("stop", uuid).expect(0)
    wait_for(lambda: "p1" not in machines(), "the machine's end", timeout=5)
    # At once again, under the same name.
    host.acnspawn("rm", uuid).expect(0)
    uuid, r = started(host)
    lacks(r.err, "cannot be registered")
    wait_for(lambda: "p1" in machines(), "the machine")
    host.acnspawn("stop", "--force", uuid).expect(0)


@case
def no_process_of_a_pod_stays_with_a_client_that_detaches(host):
    """The end of the client's session ends what is in its cgroup."""
    image = host.shell("echo up; touch /out/up; while read x; do :; done", name="example.com/a")
    uuid = host.prepare("--name=p1", image, "--input=terminal", "--log-file=" + host.path("a.log"))
    t = Terminal(host, "run", uuid)
    host.wait_up("a", uuid)
    t.wait_raw()
    supervisor = host.supervisor(uuid)
    true(processes_where(lambda pid: name_of(pid) == "write-log", children_of(supervisor)), "a process that writes the file")
    wait_for(lambda: os.path.getsize(host.path("a.log")) > 0, "a line in the file")
    t.send(b"\x1d\x1d\x1d")
    equal(t.end(), 0)
    scope = "/acnspawn-%s.scope/" % uuid
    equal({name_of(p): read_text("/proc/%d/cgroup" % p) for p in [supervisor, *children_of(supervisor)]
           if scope not in read_text("/proc/%d/cgroup" % p)}, {})
    contains(read_text("/proc/%d/cgroup" % supervisor), scope + "supervisor\n")
    host.acnspawn("stop", "--force", uuid).expect(0)


@case
def journals_of_pods_are_merged(host):
    """By "journalctl --merge", and by it alone; also when the pod has ended, and until it is removed."""
    made = not os.path.exists("/var/log/journal")
    os.makedirs("/var/log/journal", exist_ok=True)
    try:
        uuid, _ = started(host)
        machine = uuid.replace("-", "")

        def lines(*words):
            return subprocess.run(["journalctl", "--quiet", "--no-pager", "-o", "cat", "SYSLOG_IDENTIFIER=a", "_MACHINE_ID=" + machine, *words],
                                  capture_output=True, text=True, check=True, timeout=120).stdout.split()
        wait_for(lambda: lines("--merge") == ["hello"], "the line in the merged journals", timeout=60)
        equal(lines(), [], "lines without --merge")
        host.acnspawn("stop", uuid).expect(0)
        equal(lines("--merge")[0], "hello")
        host.acnspawn("rm", uuid).expect(0)
        true(not os.path.lexists("/var/log/journal/" + machine), "the link is gone")
    finally:
        if made:
            with contextlib.suppress(OSError):
                os.rmdir("/var/log/journal")


@case
def a_machine_has_its_log_and_its_addresses(host):
    """In "machinectl status", of a pod whose apps write to the journal of the host, and in "machinectl list"."""
    host.prepare("--name=p1", "--net=default", host.shell(SCRIPT, name="example.com/a"), "--log=both")
    uuid = host.status("p1")["uuid"]
    host.acnspawn("run", "--detach", uuid).expect(0)
    host.wait_up("a", uuid)
    addresses = [a.split()[1].split("/")[0] for a in host.status(uuid)["addresses"] if not a.startswith("lo ") and "." in a]
    true(addresses, "addresses of the pod")
    wait_for(lambda: addresses[0] in machinectl("list").stdout, "the address %s of the machine" % addresses[0], timeout=30)
    wait_for(lambda: "hello" in machinectl("status", "p1").stdout, "the line in the status", timeout=30)
    contains(machinectl("status", "p1").stdout, addresses[0])
    host.acnspawn("stop", uuid).expect(0)


@case
def detached_pods_with_rm_are_removed(host):
    """The process that removes such a pod is itself in the scope of the pod."""
    image = host.shell("exit 0", name="example.com/a")
    for i in range(5):
        uuid = host.acnspawn("run", "--detach", "--rm", image).expect(0).out.strip()
        wait_for(lambda: host.pods() == [], "removal of the pod", timeout=30)
        unit = "acnspawn-%s.scope" % uuid
        wait_for(lambda: unit not in subprocess.run(["systemctl", "list-units", "--all", "--no-legend", "acnspawn-*"],
                                                    capture_output=True, text=True).stdout, "the end of its scope")


def ends_in_order(host, *command):
    uuid, _ = started(host)
    wait_for(lambda: "p1" in machines(), "the machine")
    equal(subprocess.run(command, capture_output=True, timeout=60).returncode, 0, "status of %r" % (command,))
    host.acnspawn("status", "--wait=60s", uuid, timeout=90).expect(0)
    equal(host.state(uuid), "exited")
    status = host.app_status(uuid, "a")
    equal((status["exitStatus"], status["cause"]), (3, "exited"), "how the app ended")
    contains(host.acnspawn("logs", uuid).out, "got term")
    wait_for(lambda: "p1" not in machines(), "the machine's end")


@case
def terminating_the_machine_ends_the_pod_in_order(host):
    ends_in_order(host, "machinectl", "terminate", "p1")


@case
def powering_the_machine_off_ends_the_pod_in_order(host):
    ends_in_order(host, "machinectl", "poweroff", "p1")


@case
def a_pod_in_the_foreground_is_ended_in_order(host):
    host.prepare("--name=p1", host.shell(SCRIPT, name="example.com/a"))
    p = host.start("run", "--register=yes", "p1")
    wait_for(lambda: "p1" in machines(), "the machine")
    host.wait_up("a")
    equal(machinectl("terminate", "p1").returncode, 0)
    equal(host.finish(p).rc, 3)


def asked_to_stop(uuid, *before, destination=None):
    """Sends the signal by which the host's systemd requests the end of the pod's scope."""
    path = "/org/freedesktop/systemd1/unit/acnspawn_2d%s_2escope" % uuid.replace("-", "_2d")
    to = ["--destination=" + destination] if destination else []
    subprocess.run([*before, "busctl", "--system", *to, "emit", path, "org.freedesktop.systemd1.Scope", "RequestStop"], check=True, timeout=60)


@case
def other_users_of_the_host_cannot_end_a_pod(host):
    """Any client may send signals over the system bus, broadcast or unicast."""
    uuid, _ = started(host)
    wait_for(lambda: "p1" in machines(), "the machine")
    names = [l.split()[0] for l in subprocess.run(["busctl", "--system", "--unique", "--no-legend", "list"], check=True, text=True,
                                                  capture_output=True).stdout.splitlines() if l.split()[2] == "supervise"]
    equal(len(names), 1, "connections of the supervisor to the bus")
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    asked_to_stop(uuid, *nobody)
    asked_to_stop(uuid, *nobody, destination=names[0])
    host.wait_at_rest(uuid)
    equal((host.state(uuid), host.app_status(uuid, "a")["state"]), ("running", "running"))
    equal(machinectl("terminate", "p1").returncode, 0) # which has systemd send it
    host.acnspawn("status", "--wait=60s", uuid, timeout=90).expect(0)
    equal(host.app_status(uuid, "a")["exitStatus"], 3)


@case
def a_name_in_use_is_reported(host):
    uuid, _ = started(host)
    wait_for(lambda: "p1" in machines(), "the machine")
    other = Host(host.name)
    try:
        image = other.shell(SCRIPT, name="example.com/a")
        r = other.acnspawn("run", "--register=yes", "--name=p1", image).expect(1)
        contains(r.err, "there is a machine called 'p1' already")
        other.acnspawn("gc", "--grace-period=0")
        p = other.start("run", "--name=p1", image)
        other.wait_up("a")
        wait_for(lambda: other.state("p1") == "running", "the pod")
        other.wait_at_rest("p1", p.pid)
        p.terminate()
        contains(other.finish(p).err, "there is a machine called 'p1' already")
        equal(machines()["p1"], ["container", "acnspawn"])
    finally:
        other.close()
    host.acnspawn("stop", "--force", uuid).expect(0)


@case
def a_pod_without_registration_is_no_machine(host):
    uuid, _ = started(host, "--register=no")
    host.wait_at_rest(uuid)
    equal(machines(), {})
    host.acnspawn("stop", uuid).expect(0)


@case
def a_machine_that_machined_has_lost_is_registered_again(host):
    """It does not find those that it could not write, because /run was full, when it is started again."""
    uuid, _ = started(host)
    wait_for(lambda: "p1" in machines(), "the machine")
    subprocess.run(["systemctl", "stop", "systemd-machined.service"], check=True)
    os.unlink("/run/systemd/machines/p1")
    wait_for(lambda: "p1" in machines(), "the machine again", timeout=20)
    subprocess.run(["systemctl", "restart", "systemd-machined.service"], check=True)
    wait_for(lambda: "p1" in machines(), "the machine, which another machined knows", timeout=20)
    host.acnspawn("stop", uuid).expect(0)
    wait_for(lambda: "p1" not in machines(), "the machine's end", timeout=20)


@case
def a_full_run_is_named(host):
    """Of a pod with no users of its own, of which nothing else is written there."""
    uuid = host.prepare("--name=p1", "--no-userns", host.shell("true"))
    try:
        with open("/run/filler", "wb", buffering=0) as f:
            for size in 1 << 20, 4096, 1:
                with contextlib.suppress(OSError):
                    while True:
                        f.write(b"x" * size)
        contains(host.acnspawn("run", uuid).expect(1).err, "no space in /run")
    finally:
        os.unlink("/run/filler")


@case
def pods_run_without_machined(host):
    subprocess.run(["systemctl", "mask", "--now", "--runtime", "systemd-machined.service"], check=True, capture_output=True)
    try:
        uuid, r = started(host)
        equal(r.err.strip(), "")
        host.acnspawn("stop", uuid).expect(0)
        equal(host.app_status(uuid, "a")["exitStatus"], 3)
        r = host.acnspawn("run", "--register=yes", host.shell("true")).expect(1)
        contains(r.err, "cannot be registered")
    finally:
        subprocess.run(["systemctl", "unmask", "--runtime", "systemd-machined.service"], check=True, capture_output=True)


main()
