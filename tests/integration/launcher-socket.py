#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The socket for launchers, if a process of an app gains access to it: only launchers get replies, and only once."""

import array
import socket
import struct

from harness import *

PROTOCOL_VERSION = int(re.search(r"LAUNCH_PROTOCOL_VERSION (\d+)U", read_text(os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "../../stage1/launch-protocol.h"))).group(1))
PRE_START, MAIN, POST_STOP, HEALTH, DELAY, AWAIT_EXEC, AWAIT_READY, ASK_READY, CHECK, FLUSH = range(10)
STARTS, PRE_START_ENDED, FAILED, READY, CHECKED, MAIN_ENDED, POST_STOP_ENDED = range(7)
CLONE_NEWNS = 0x20000


def pod(host, *options):
    """Two apps that run, each with a credential."""
    images = [host.shell("touch /out/up; sleep 1000", name="example.com/" + n) for n in "ab"]
    for n in "ab":
        with open(host.path(n), "w") as f:
            f.write("secret-of-" + n)
    host.detach("--name=p", *options, images[0], "--credential=c:" + host.path("a"), "---", images[1], "--credential=c:" + host.path("b"))
    for n in "ab":
        host.wait_up(n)


def unified_path(host):
    leader = host.status("p")["leader"]
    line = [l for l in read_text("/proc/%d/cgroup" % leader).splitlines() if l.startswith("0::")][0]
    mount = "/sys/fs/cgroup" if os.path.exists("/sys/fs/cgroup/cgroup.controllers") else "/sys/fs/cgroup/unified"
    return mount + os.path.dirname(line[3:])  # without init.scope


def request(app, phase):
    return struct.pack("II248s", PROTOCOL_VERSION, phase, app.encode()), 0 if phase > HEALTH else 2


def event(app, kind, status=0, message=b"It says so"):
    return struct.pack("IIiiIIIIIxxxxQ248s24s1024s2048s", PROTOCOL_VERSION, kind, status, 0, 1, 0, 0, 1, 0, 0, app.encode(), b"success",
                       b"", message), 0


def ask(host, app, phase, **options):
    return tell(host, *request(app, phase), **options)


def tell(host, packet, n_streams, cgroup=None, in_pod=True):
    """As a process in the cgroup of an app, as root of the pod. Returns the supervisor's reply: error, text, number of
    descriptors."""
    leader = host.status("p")["leader"]
    uid = os.stat("/proc/%d" % leader).st_uid
    directory = unified_path(host)
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if cgroup:
                with open("%s/app.slice/app-%s.slice/app-%s.service/cgroup.procs" % (directory, cgroup, cgroup), "w") as f:
                    f.write(str(os.getpid()))
            path = "/proc/self/fd/%d" % os.open("/proc/%d/root/acnspawn/socket" % leader, os.O_PATH)
            if in_pod:
                fd = os.open("/proc/%d/ns/mnt" % leader, os.O_RDONLY)
                if ctypes.CDLL(None, use_errno=True).setns(fd, CLONE_NEWNS) < 0:
                    raise OSError(ctypes.get_errno(), "setns")
                path = "/acnspawn/socket"
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            s.settimeout(patience(10))
            s.connect(path)
            streams = [os.open("/dev/null", os.O_RDWR) for _ in range(n_streams)]
            s.sendmsg([packet], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", streams))] if streams else [])
            data, ancillary, _, _ = s.recvmsg(8192, socket.CMSG_LEN(4 * 250))
            error = struct.unpack_from("i", data)[0]
            n = sum(len(d) // 4 for _, t, d in ancillary if t == socket.SCM_RIGHTS)
            os.write(w, ("%d %d %s" % (error, n, data[-2036:].split(b"\0")[0].decode())).encode())
        except BaseException as e:
            os.write(w, ("0 -1 %r" % e).encode())
        os._exit(0)
    os.close(w)
    with os.fdopen(r) as f:
        answer = f.read()
    os.waitpid(pid, 0)
    error, n, text = answer.split(" ", 2)
    return int(error), int(n), text


def is_refused(answer, text):
    true(answer[0] < 0 and answer[1] == 0 and text in answer[2], "it is refused with %r: %r" % (text, answer))


@both
def another_app_is_refused(host, *options):
    """A process of one app that has entered the mount namespace of the pod's systemd requests the other app's
    descriptors."""
    pod(host, *options)
    for phase in range(FLUSH):
        is_refused(ask(host, "b", phase, cgroup="a"), "is not one of app b")
    for kind in range(POST_STOP_ENDED + 1):
        is_refused(tell(host, *event("b", kind), cgroup="a"), "is not one of app b")
    is_refused(ask(host, "", FLUSH, cgroup="a"), "Only the pod's PID 1 may send this request")
    is_refused(ask(host, "c", MAIN, cgroup="a"), "The pod has no app c")
    equal(host.app_status("p", "b")["state"], "running")
    host.acnspawn("stop", "p").expect(0)


@both
def descriptors_are_passed_only_once(host, *options):
    """In the same way, to a process of the app itself."""
    pod(host, *options)
    for phase in MAIN, PRE_START:
        is_refused(ask(host, "a", phase, cgroup="a"), "The files of app a were passed on in this execution already")
    equal(read_text(host.upper("a") + "/out/up"), "")  # nor is its root created again
    host.acnspawn("restart-app", "p", "a").expect(0)
    wait_for(lambda: os.path.exists(host.upper("a") + "/out/up"), "the app runs again")
    host.acnspawn("stop", "p").expect(0)


@case
def a_process_in_another_mount_namespace_is_refused(host):
    """Like those of apps: neither for its own app, nor from outside of all apps."""
    pod(host)
    is_refused(ask(host, "a", HEALTH, cgroup="a", in_pod=False), "is not a launcher of app a")
    is_refused(ask(host, "a", HEALTH, in_pod=False), "is not one of app a")
    is_refused(ask(host, "a", HEALTH), "is not one of app a")
    host.acnspawn("stop", "p").expect(0)


@case
def nothing_is_reported_of_an_app_that_runs_on(host):
    """By the same way: an app cannot be made to seem to have ended, nor to begin anew."""
    pod(host)
    before = host.app_status("p", "a")
    is_refused(tell(host, *event("a", MAIN_ENDED), cgroup="a"), "It runs")
    for kind in PRE_START_ENDED, POST_STOP_ENDED, CHECKED:
        tell(host, *event("a", kind), cgroup="a")
    tell(host, *request("a", DELAY), cgroup="a")
    after = host.app_status("p", "a")
    equal([after[k] for k in ("state", "cause", "starts", "started")], [before[k] for k in ("state", "cause", "starts", "started")])
    host.acnspawn("stop", "p").expect(0)
    equal(host.app_status("p", "a")["cause"], "signal")


@case
def packets_that_are_no_requests_are_refused(host):
    pod(host)
    is_refused(ask(host, "a", 77, cgroup="a"), "This is not a request of a launcher")
    is_refused(ask(host, "a" * 248, HEALTH, cgroup="a"), "This is not a request of a launcher")
    is_refused(tell(host, *event("a", 77), cgroup="a"), "This is not a request of a launcher")
    is_refused(tell(host, *event("a", READY, status=256), cgroup="a"), "This is not a request of a launcher")
    is_refused(tell(host, *event("a", FAILED, message=b"x" * 2048), cgroup="a"), "This is not a request of a launcher")
    host.acnspawn("stop", "p").expect(0)


main()
