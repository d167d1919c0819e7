#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The supervisor as a program: as the other side of "acnspawn run", started by hand, and across an upgrade of the package."""

import fcntl
import socket

from harness import *

SUPERVISE = os.path.join(os.path.dirname(os.path.realpath(ACNSPAWN)), "supervise")
STAY = "trap 'echo ended; exit 5' TERM; touch /out/up; while :; do sleep 0.1; done"


def supervise(host, *args, **more):
    more.setdefault("preexec_fn", default_signals)
    p = subprocess.Popen([SUPERVISE, "--dir=" + host.dir, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
    host.children.append(p)
    return p


# --- Started directly ----------------------------------------------------------------------------------------------------


@case
def by_hand(host):
    uuid = host.prepare("--name=p", host.shell("echo said; echo warned >&2; exit 7"))
    r = host.finish(supervise(host, "p")).expect(7)
    equal((r.out, r.err), ("said\n", "warned\n"))
    equal((host.state(uuid), host.status(uuid)["exitStatus"]), ("exited", 7))
    contains(host.acnspawn("logs", uuid).out, "said")


@case
def nothing_is_shown_with_quiet(host):
    host.prepare("--name=p", host.shell("echo said"))
    equal(host.finish(supervise(host, "--quiet", "p")).expect(0).out, "")


@case
def the_pod_is_removed_with_rm(host):
    host.prepare("--name=p", host.shell("exit 3"))
    host.finish(supervise(host, "--rm", "p")).expect(3)
    equal(host.pods(), [], "pods")


@case
def a_signal_ends_the_pod_in_order_and_a_second_one_kills(host):
    uuid = host.prepare("--name=p", host.shell(STAY, name="example.com/a"))
    p = supervise(host, "p")
    host.wait_up("a")
    equal(host.supervisor(uuid), p.pid)
    p.send_signal(signal.SIGTERM)
    contains(host.finish(p).expect(5).out, "ended")
    uuid = host.prepare("--name=q", host.shell("trap '' TERM; touch /out/up; while :; do sleep 0.1; done", name="example.com/a"))
    p = supervise(host, "q")
    wait_for(lambda: os.path.exists(os.path.join(host.pod_dir(uuid), "apps/a/upper/out/up")), "the app")
    p.send_signal(signal.SIGTERM)
    wait_at_rest(p.pid)
    p.send_signal(signal.SIGTERM)
    true(host.finish(p, 20).rc != 0, "exit status of a pod that was killed")
    equal(host.state(uuid), "exited")


@case
def it_notifies_the_hosts_systemd_itself(host):
    """A unit with NotifyAccess=main accepts notifications of the main process, which is the supervisor."""
    path = host.path("notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(path)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        s.settimeout(60)
        host.prepare("--name=p", host.shell(STAY, name="example.com/a"))
        p = supervise(host, "p", env=dict(os.environ, NOTIFY_SOCKET=path))

        def next_message():
            text, control, _, _ = s.recvmsg(4096, 256)
            return text.decode(), int.from_bytes(control[0][2][:4], sys.byteorder)
        equal(next_message(), ("READY=1", p.pid))
        host.wait_up("a")
        host.acnspawn("stop", "p").expect(0)
        equal(next_message(), ("STOPPING=1", p.pid))
        host.finish(p).expect(5)


@case
def sockets_are_passed_to_it(host):
    """By the protocol of sd_listen_fds(3). The helper "show" reports them in the app."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        number = listening.getsockname()[1]
        image = host.image(["/bin/serve", "max=1"], name="example.com/web", app={
            "ports": [{"name": "http", "protocol": "tcp", "port": 8080, "socketActivated": True}]})
        uuid = host.prepare("--port=http:%d" % number, image)
        copy = fcntl.fcntl(listening.fileno(), fcntl.F_DUPFD, 100)
        p = subprocess.Popen(
            ["/bin/sh", "-c", 'export LISTEN_PID=$$; exec "$@"', "sh", SUPERVISE, "--dir=" + host.dir, uuid],
            env=dict(os.environ, LISTEN_FDS="1", LISTEN_FDNAMES="http"), preexec_fn=lambda: os.dup2(copy, 3), close_fds=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        host.children.append(p)
        with socket.create_connection(("127.0.0.1", number), timeout=60) as c:
            c.sendall(b"hello\n")
            true(c.recv(4096), "an answer")
        host.acnspawn("stop", uuid)
        host.finish(p)
        os.close(copy)


@case
def why_it_does_not_run_a_pod(host):
    def refused(why, *args, rc=1, **more):
        contains(host.finish(supervise(host, *args, **more)).expect(rc).err, why)
    uuid = host.prepare("--name=p", host.shell(STAY, name="example.com/a"))
    refused("There is no pod 'nope'", "nope")
    refused("One pod is needed", rc=2)
    refused("One pod is needed", "p", "q", rc=2)
    refused("--nope", "--nope", "p", rc=2)
    refused("Cannot read the request", "--request-fd=77", "p")
    refused("must be the number of a descriptor", "--request-fd=1", "p", rc=2)
    fd = os.open(host.pod_dir(uuid), os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    refused("Pod p cannot be started: it is being started or removed by another process", "p")
    os.close(fd)
    equal(host.state(uuid), "prepared")
    p = supervise(host, "p")
    host.wait_up("a")
    refused("Pod p cannot be started: it is running already", "p")
    p.send_signal(signal.SIGTERM)
    host.finish(p).expect(5)
    refused("Pod p cannot be started: it has run and ended", "p")


# --- Requests ------------------------------------------------------------------------------------------------------------


def with_request(host, uuid, lock=None, **members):
    """Its error for such a request."""
    read, write = os.pipe()
    os.write(write, json.dumps(members).encode())
    os.close(write)
    r = host.finish(supervise(host, "--request-fd=%d" % read, uuid, pass_fds=[read] + ([lock] if lock else []))).expect(1)
    os.close(read)
    return r.err


@case
def requests_that_it_does_not_understand(host):
    """The package was replaced between the start of the client and that of the supervisor. Members are not ignored
    silently."""
    uuid = host.prepare(host.shell("true"))
    contains(with_request(host, uuid, version=2), "knows requests up to version 1, and this one is of version 2")
    err = with_request(host, uuid, version=1, colour="blue")
    contains(err, "does not know the option 'colour'")
    contains(err, "installed anew")
    contains(with_request(host, uuid, version=1, register="perhaps"), "'register'")
    contains(with_request(host, uuid, version=1, reportFD=99), "'reportFD' was not passed")
    contains(with_request(host, uuid), "The request to the supervisor is not valid")
    equal(host.state(uuid), "prepared")


@case
def a_lock_that_is_another_pods(host):
    one, two = host.prepare(host.shell("true")), host.prepare(host.shell("true"))
    fd = os.open(host.pod_dir(two), os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    with_request(host, one, lock=fd, version=1, client=os.getpid(), podFD=fd)
    os.close(fd)
    equal((host.state(one), host.state(two)), ("prepared", "prepared"))


# --- With a client -------------------------------------------------------------------------------------------------------


@case
def its_command_line_and_libraries(host):
    uuid = host.detach(host.shell(STAY, name="example.com/a"))
    host.wait_up("a")
    words = read_text("/proc/%d/cmdline" % host.supervisor(uuid)).split("\0")
    equal((os.path.basename(words[0]), words[1]), ("supervise", uuid))
    equal(os.listdir("/proc/%d/task" % host.supervisor(uuid)), [str(host.supervisor(uuid))], "threads")
    loaded = read_text("/proc/%d/maps" % host.supervisor(uuid))
    for library in ("libcurl", "libgpgme", "libarchive", "libxml2"):
        lacks(loaded, library)
    host.acnspawn("stop", uuid).expect(0)


@case
def the_client_killed_in_the_foreground_ends_the_pod(host):
    for number in (signal.SIGKILL, signal.SIGQUIT):
        uuid = host.prepare(host.shell(STAY, name="example.com/a"))
        p = host.start("run", uuid)
        wait_for(lambda: os.path.exists(os.path.join(host.pod_dir(uuid), "apps/a/upper/out/up")), "the app")
        supervisor = host.supervisor(uuid)
        true(supervisor != p.pid, "client and supervisor are two processes")
        leader = host.leader(uuid)
        p.send_signal(number)
        equal(host.finish(p).rc, -number)
        wait_for(lambda: has_ended(supervisor) and has_ended(leader), "the end of the pod", timeout=10)
        equal(host.state(uuid), "exited")
        host.acnspawn("rm", uuid).expect(0)


@case
def the_client_killed_while_it_waits_leaves_a_detached_pod(host):
    uuid = host.prepare(host.shell("touch /out/up; while ! test -e /out/go; do sleep 0.05; done; poke notify READY=1; sleep 1000", name="example.com/a",
                                   annotations=[{"name": "appc.io/executor/supports-systemd-notify", "value": "true"}]))
    p = host.start("run", "--detach", uuid)
    host.wait_up("a")
    p.kill()
    p.wait()
    host.acnspawn("enter", uuid, "--", "touch", "/out/go").expect(0)
    wait_for(lambda: host.app_status(uuid, "a")["ready"], "the app is ready")
    host.acnspawn("stop", uuid).expect(0)


@case
def a_killed_supervisor_is_reported_by_the_client(host):
    uuid = host.prepare("--name=p", host.shell(STAY, name="example.com/a"))
    p = host.start("run", "p")
    host.wait_up("a")
    os.kill(host.supervisor(uuid), signal.SIGKILL)
    contains(host.finish(p).expect(1).err, "The process that runs pod p was killed")
    wait_for(lambda: host.state(uuid) == "exited", "the end of the pod")
    host.acnspawn("rm", uuid).expect(0)


@case
def a_signal_to_the_whole_unit_is_one_request(host):
    """As with KillMode=control-group: the client passes on a signal that the supervisor has received, too."""
    uuid = host.prepare(host.shell(STAY, name="example.com/a"))
    p = host.start("run", uuid)
    host.wait_up("a")
    for pid in (p.pid, host.supervisor(uuid)):
        os.kill(pid, signal.SIGTERM)
    contains(host.finish(p).expect(5).out, "ended")


@case
def a_supervisor_that_is_missing(host):
    helpers = host.path("helpers")
    os.mkdir(helpers)
    uuid = host.prepare(host.shell("true"))
    for args in ((), ("--detach",)):
        r = host.acnspawn("run", *args, uuid, env=dict(os.environ, ACNSPAWN_LIBEXECDIR=helpers)).expect(1)
        contains(r.err, "Helper program %s/supervise is missing" % helpers)
    equal(host.state(uuid), "prepared")


@case
def it_outlives_an_upgrade_of_the_package(host):
    """The file has been replaced. Requests to the old process use its sockets, as before."""
    built = os.path.dirname(os.path.dirname(os.path.realpath(ACNSPAWN)))
    helpers = host.path("helpers")
    os.mkdir(helpers)
    for program in ("stage0/supervise", "stage1/launch", "metadata/acnspawn-metadata"):
        shutil.copy(os.path.join(built, program), helpers)
    uuid = host.prepare(host.shell(STAY, name="example.com/a"))
    host.acnspawn("run", "--detach", uuid, env=dict(os.environ, ACNSPAWN_LIBEXECDIR=helpers)).expect(0)
    os.unlink(helpers + "/supervise")
    with open(helpers + "/supervise", "w") as f:
        f.write("#!/bin/false\n")
    os.chmod(f.name, 0o755)
    host.wait_up("a")
    host.acnspawn("enter", uuid, "--", "true").expect(0)
    host.acnspawn("restart-app", uuid, "a").expect(0)
    equal(host.status(uuid)["state"], "running")
    host.wait_up("a")
    host.acnspawn("stop", uuid).expect(0)
    equal(host.app_status(uuid, "a")["exitStatus"], 5)


main()
