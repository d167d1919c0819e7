#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The systemd of a pod, accessed from the host like that of any other machine: systemctl -M, busctl -M, machinectl,
systemd-cgls -M."""

import re
import socket

from harness import *

SCRIPT = "trap 'echo got term; exit 0' TERM; echo hello; touch /out/up; while :; do sleep 1000 & wait $!; done"
MANAGER = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")


def tool(*command, rc=0):
    r = subprocess.run(command, capture_output=True, text=True, timeout=60, env=dict(os.environ, SYSTEMD_PAGER="", SYSTEMD_COLORS="0"))
    if rc is not None and r.returncode != rc:
        fail("%r: status %d, %s%s" % (command, r.returncode, r.stdout, r.stderr))
    return r


def systemctl(*args, rc=0):
    return tool("systemctl", "-M", "p1", "--no-pager", *args, rc=rc)


def started(host, *options, apps=("a", "b"), script=SCRIPT):
    words = []
    for app in apps:
        words += [host.shell(script, name="example.com/" + app)]
    uuid = host.prepare("--name=p1", *options, *words)
    host.acnspawn("run", "--detach", "--register=yes", uuid).expect(0)
    for app in apps:
        host.wait_up(app, uuid)
    wait_for(lambda: os.path.exists("/run/systemd/machines/p1"), "the machine")
    return uuid


def in_pod(host, uuid, path):
    return "/proc/%d/root%s" % (host.leader(uuid), path)


def ended(host, uuid):
    host.acnspawn("status", "--wait=60s", uuid, timeout=90).expect(0)
    equal(host.state(uuid), "exited")


@both
def systemctl_shows_the_pod(host, *options):
    uuid = started(host, *options)
    contains(systemctl("status").stdout, "State: running")
    contains(systemctl("status", "app-a.service").stdout, "active (running)")
    units = systemctl("list-units", "--no-legend", "--plain", "-t", "service").stdout
    contains(re.sub(" +", " ", units), "app-a.service loaded active running App a of image example.com/a")
    equal(systemctl("is-system-running").stdout, "running\n")
    equal(systemctl("show", "app-b.service", "-P", "SubState").stdout, "running\n")
    equal([l.split()[1] for l in tool("systemctl", "list-machines", "--no-legend", "--plain").stdout.splitlines() if l.startswith("p1 ")],
          ["running"])
    contains(tool("systemd-analyze", "-M", "p1", "time").stdout, "default.target reached")
    host.acnspawn("stop", "--force", uuid).expect(0)


@case
def systemctl_starts_and_stops_apps(host):
    uuid = started(host)
    systemctl("stop", "app-b.service")
    equal(systemctl("is-active", "app-b.service", rc=3).stdout, "inactive\n")
    equal(host.app_status(uuid, "b")["exitStatus"], 0)
    systemctl("start", "app-b.service")
    systemctl("restart", "app-b.service")
    systemctl("daemon-reload")
    systemctl("set-property", "--runtime", "app-b.service", "CPUWeight=50")
    equal(systemctl("is-active", "app-b.service").stdout, "active\n")
    contains(systemctl("stop", "nothing.service", rc=5).stderr, "not loaded")
    # A client that waits for the app's end.
    waits = subprocess.Popen(["systemctl", "-M", "p1", "start", "--wait", "app-b.service"], stderr=subprocess.PIPE, text=True)
    host.children.append(waits)
    wait_for(lambda: len(clients(host, uuid)) == 1, "the client that waits")
    kill = systemctl("kill", "-s", "KILL", "--kill-whom=main", "app-a.service", rc=None)
    wait_for(lambda: waits.poll() is not None, lambda: "the end of the client that waits (kill: %s %s; pod: %s)" % (kill.returncode, kill.stderr, host.status(uuid)), 60)
    equal(waits.returncode, 0, waits.stderr.read())
    ended(host, uuid)
    equal(host.app_status(uuid, "a")["signal"], 9)


def ends(host, *command):
    uuid = started(host)
    tool(*command)
    ended(host, uuid)
    equal([host.app_status(uuid, app)["exitStatus"] for app in ("a", "b")], [0, 0], "after %r" % (command,))
    contains(host.acnspawn("logs", uuid).out, "got term")
    host.acnspawn("rm", uuid).expect(0)
    wait_for(lambda: not os.path.exists("/run/systemd/machines/p1"), "the machine's end")


@case
@with_timeout(200)
def ways_to_end_the_pod_in_order(host):
    """A pod runs once: what would start a machine again ends it, too."""
    for command in (("systemctl", "-M", "p1", "poweroff"), ("systemctl", "-M", "p1", "reboot"), ("machinectl", "reboot", "p1"),
                    ("systemctl", "-M", "p1", "stop", "app-a.service", "app-b.service")):
        ends(host, *command)


@case
def a_client_that_has_ended_the_pod_is_told_so(host):
    """Also if the process that serves it comes to forward that only when the pod's systemd has left, and all processes get SIGTERM."""
    out = host.path("out")
    os.mkdir(out)
    uuid = started(host, "-v", out + ":/host", apps=("a",),
                   script="trap ': >/out/ends; while ! test -e /host/go; do sleep 0.05; done; exit 0' TERM; touch /out/up; while :; do sleep 0.05; done")
    waits = subprocess.Popen(["systemctl", "-M", "p1", "stop", "app-a.service"], stderr=subprocess.PIPE, text=True)
    host.children.append(waits)
    wait_for(lambda: os.path.exists(host.upper("a") + "/out/ends"), "the request to end")
    bus, = clients(host, uuid)
    os.kill(int(bus), signal.SIGSTOP)  # which SIGCONT undoes, after SIGTERM
    with open(out + "/go", "w"):
        pass
    # What it asks for after that is not answered any more.
    equal(waits.wait(patience(60)), 0, waits.stderr.read())
    ended(host, uuid)


@case
def machinectl_kill_ends_the_pod(host):
    uuid = started(host)
    tool("machinectl", "kill", "--kill-whom=leader", "-s", "KILL", "p1")
    host.acnspawn("status", "--wait=60s", uuid, timeout=90)
    equal(host.state(uuid), "exited")
    wait_for(lambda: not os.path.exists("/run/systemd/machines/p1"), "the machine's end")


@case
def machinectl_status_and_cgls_show_apps(host):
    uuid = started(host)
    for command in (("machinectl", "--no-pager", "status", "p1"), ("systemd-cgls", "--no-pager", "-M", "p1")):
        text = tool(*command).stdout
        for part in ("app-a.service", "app-b.service", "systemd-journald.service", "acnspawn-%s" % uuid):
            contains(text, part, "%r" % (command,))
    contains(tool("journalctl", "-M", "p1", "--no-pager", "-o", "cat").stdout, "hello")
    host.acnspawn("stop", "--force", uuid).expect(0)


@of_machine
def cgtop_shows_slices(host):
    uuid = started(host)
    contains(tool("systemd-cgtop", "-M", "p1", "-b", "-n", "1").stdout, "app.slice")
    host.acnspawn("stop", "--force", uuid).expect(0)


@case
def busctl_speaks_to_systemd(host):
    uuid = started(host)
    contains(tool("busctl", "-M", "p1", "list", "--no-pager").stdout, "org.freedesktop.systemd1")
    contains(tool("busctl", "-M", "p1", "tree", "--list", "org.freedesktop.systemd1").stdout, "unit/app_2da_2eservice")
    contains(tool("busctl", "-M", "p1", "introspect", "--no-pager", *MANAGER[:2]).stdout, ".ListUnits ")
    equal(tool("busctl", "-M", "p1", "get-property", *MANAGER, "Virtualization").stdout, 's "systemd-nspawn"\n')
    contains(tool("busctl", "-M", "p1", "status", "--no-pager", "org.freedesktop.systemd1").stdout, "PID=1\n")
    # A descriptor comes back.
    contains(tool("busctl", "-M", "p1", "call", *MANAGER, "DumpByFileDescriptor").stdout, "h ")
    host.acnspawn("stop", "--force", uuid).expect(0)


@case
def invalid_combinations_are_reported(host):
    uuid = started(host)
    for command in (("machinectl", "shell", "p1"), ("machinectl", "shell", "p1", "/bin/ls"), ("machinectl", "login", "p1"),
                    ("systemd-run", "-M", "p1", "/bin/sh"), ("systemd-run", "-M", "p1", "--wait", "--pipe", "/bin/sh"),
                    ("systemctl", "-M", "root@p1", "status")):
        contains(tool(*command, rc=1).stderr, "'acnspawn enter POD' runs a command in one", "%r" % (command,))
    for command in (("hostnamectl", "-M", "p1"), ("loginctl", "-M", "p1")):
        contains(tool(*command, rc=1).stderr, "In a pod there is no 'org.freedesktop.", "%r" % (command,))
    contains(tool("busctl", "-M", "p1", "monitor", rc=1).stderr, "denied")
    equal(systemctl("is-system-running").stdout, "running\n")
    host.acnspawn("stop", "--force", uuid).expect(0)


# --- Access and limits ---------------------------------------------------------------------------------------

def clients(host, uuid):
    """The processes of the pod's bus."""
    with open("/proc/%d/cgroup" % host.leader(uuid)) as f:
        inside = [l.strip().split("::")[1] for l in f if "::" in l][0].rsplit("/init.scope", 1)[0]
    found = []
    for where, _, files in os.walk("/sys/fs/cgroup%s/system.slice" % inside):
        if "acnspawn-bus@" in where and "cgroup.procs" in files:
            with contextlib.suppress(OSError): # it has just ended
                found += read_text(where + "/cgroup.procs").split()
    return found


def connect(host, uuid):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.settimeout(30)
    s.connect(in_pod(host, uuid, "/run/dbus/system_bus_socket"))
    return s


@both
def apps_do_not_get_to_it(host, *options):
    script = "for p in /run/dbus /run/systemd /var/run/dbus /proc/1/root/run; do ls -d $p/. && echo $p is there; echo looked for $p; done; touch /out/up; sleep 1000"
    uuid = host.prepare("--name=p1", *options, host.shell(script, name="example.com/a"))
    host.acnspawn("run", "--detach", "--register=yes", uuid).expect(0)
    host.wait_up("a", uuid)
    wait_for(lambda: "looked for /proc/1/root/run" in host.acnspawn("logs", uuid).out, "what the app finds")
    found = host.acnspawn("logs", uuid).out
    lacks(found, "is there", "what an app finds")
    for path, mode in (("/run/dbus", 0o700), ("/run/dbus/system_bus_socket", 0o600)):
        st = os.stat(in_pod(host, uuid, path))
        equal((st.st_mode & 0o777, st.st_uid), (mode, 0 if options else host.uid_base(uuid)), path)
    host.acnspawn("stop", "--force", uuid).expect(0)


@case
def only_root_of_the_pod_is_served(host):
    """Root of the host is not mapped in the pod's user namespace."""
    uuid = started(host, apps=("a",))
    with connect(host, uuid) as s:
        try:
            s.sendall(b"\0AUTH EXTERNAL\r\nDATA\r\n")
            equal(s.recv(100), b"", "what somebody of another user namespace gets")
        except (ConnectionResetError, BrokenPipeError):
            pass
    wait_for(lambda: not clients(host, uuid), "the end of the bus")
    tool("busctl", "-M", "p1", "call", *MANAGER, "StopUnit", "ss", "app-a.service", "replace")
    ended(host, uuid)


@case
@with_timeout(200)
def clients_are_bounded_and_leave_nothing(host):
    uuid = started(host, "--no-userns", apps=("a",))
    sockets = [connect(host, uuid) for _ in range(50)]
    wait_for(lambda: len(clients(host, uuid)) == 32, "as many clients as there may be")
    pid = clients(host, uuid)[0]
    status = read_text("/proc/%s/status" % pid)
    contains(status, "CapEff:\t0000000000000000")
    contains(status, "NoNewPrivs:\t1")
    closed = 0
    for s in sockets:
        s.settimeout(0.2)
        try:
            closed += s.recv(1) == b""
        except ConnectionResetError:
            closed += 1
        except TimeoutError:
            pass
    equal(closed, 18, "connections that were refused")
    sockets[0].sendall(b"\0AUTH EXTERNAL\r\nDATA\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n" + b"x" * 64)
    for s in sockets[1:]:
        s.close()
    wait_for(lambda: not clients(host, uuid), "the end of the clients")
    sockets[0].close()
    equal(systemctl("is-system-running").stdout, "running\n")
    equal(systemctl("list-units", "--all", "--no-legend", "--plain", "acnspawn-bus@*").stdout.count("\n"), 1, "what is left of them")
    host.acnspawn("stop", "--force", uuid).expect(0)


@case
def without_a_machine_there_is_no_bus(host):
    uuid = host.prepare("--name=p1", host.shell(SCRIPT, name="example.com/a"))
    host.acnspawn("run", "--detach", "--register=no", uuid).expect(0)
    host.wait_up("a", uuid)
    true(not os.path.exists(in_pod(host, uuid, "/run/dbus")), "no socket")
    lacks(host.acnspawn("cat", uuid).out, "acnspawn-bus")
    host.acnspawn("stop", "--force", uuid).expect(0)


main()
