#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Failures around a kubelet: long grace periods and many of them, supervisors that do not answer, calls that were killed or cancelled,
sandboxes that no client lists, and a reboot of the node."""

import itertools
import resource
import signal
import socket
import threading

from cri_client import *
from hanging_fs import HangingFs

FLUSHES = "trap '%s; exit 7' TERM; touch /tmp/up; while :; do sleep 0.05; done"
IGNORES = "trap '' TERM; touch /tmp/up; while :; do sleep 0.05; done"
LONG = os.environ.get("ACNSPAWN_TEST_LONG") == "1"
OTHER_BOOT = "00000000-0000-4000-8000-000000000000"
PLUGIN = r"""#!/bin/sh
set -e
dir=$(dirname "$0")
cat >/dev/null
case $CNI_COMMAND in
ADD)
        touch "$dir/adds"
        while [ -e "$dir/hold" ]; do sleep 0.02; done
        echo '{"cniVersion": "1.0.0", "ips": [{"address": "10.67.0.2/24"}]}' ;;
DEL)
        touch "$dir/dels"
        [ ! -e "$dir/fail-del" ] || { echo '{"code": 11, "msg": "the agent is not there"}'; exit 1; } ;;
esac
"""


def touch(path):
    with open(path, "w"):
        pass


def own_network(host):
    """Makes a network plugin, and a network of it for sandboxes. Returns the directory."""
    directory = plugin(host, PLUGIN)
    os.makedirs(host.path("cni/net.d"))
    configure(host.path("cni/net.d"), "pods")
    return directory


def held_start(c, directory):
    """A call of RunPodSandbox whose plugin waits."""
    touch(directory + "/hold")
    call = c.begin("RunPodSandbox", config=sandbox_config(linux={}))
    wait_for(lambda: os.path.exists(directory + "/adds"), "the plugin to be called")
    return call


def kill_service(service):
    service.process.kill()
    service.process.wait(patience(60))


def restart_service(service):
    service.start()
    c = service.client()
    wait_for(lambda: answers(c), "a reply after the restart")
    return c


def run(c, sandbox, name, image_id, script, **more):
    """Starts a container, and waits for the file that it writes once it is up."""
    a = create(c, sandbox, name, image_id, script, **more)
    c.call("StartContainer", container_id=a)
    if "/tmp/up" in script:
        wait_for(lambda: c.call("ExecSync", container_id=a, cmd=["test", "-e", "/tmp/up"]).exit_code == 0, "container %s" % name)
    return a


def begin_stop(c, container, seconds):
    return c.method("StopContainer").future(messages().StopContainerRequest(container_id=container, timeout=seconds), timeout=patience(120))


def pods_on_disk(host):
    return sorted(u for s in ("preparing", "prepared", "running", "exited", "garbage") for u in os.listdir(os.path.join(host.dir, "pods", s))
                  if len(u) == 36)


def names(host):
    return sorted(n for n in os.listdir(os.path.join(host.dir, "names")) if not n.startswith("."))


@case
def a_stop_uses_the_grace_period_of_the_call(host):
    """Longer than the default stop time-out of a pod (10 s), shorter, and shortened by a second call."""
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        i = run_sandbox(c)
        flushes, ignores, shortened = run(c, i, "flushes", image_id, FLUSHES % pauses(11.5)), run(c, i, "ignores", image_id, IGNORES), run(
            c, i, "shortened", image_id, IGNORES)
        begun = time.monotonic()
        long = begin_stop(c, flushes, 40)
        first = begin_stop(c, shortened, 60)
        stop(c, ignores, 1)
        equal(status(c, ignores).exit_code, 137)
        stop(c, shortened, 1)
        first.result()
        equal(status(c, shortened).exit_code, 137)
        true(time.monotonic() - begun < patience(9), "short grace periods are short")
        running = state(c, flushes)
        true(running == "RUNNING" or time.monotonic() - begun > 11, "it was killed early")
        long.result()
        equal((status(c, flushes).exit_code, status(c, flushes).reason), (7, "Error"))
        true(time.monotonic() - begun > 11, "the long one was used")
        remove(c, i)


@contextlib.contextmanager
def full_interface(host, sandbox):
    """Occupies all connections of a pod's interface with calls."""
    path = os.path.join(host.dir, "pods/running", uuid_of(sandbox), "interface")
    held = []
    directory = os.open(os.path.dirname(path), os.O_PATH)
    try:
        while True:
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(patience(20))
            held.append(s)
            try:
                s.connect("/proc/self/fd/%d/interface" % directory)
                s.sendall(b'{"method":"org.acnspawn.Pod.Monitor","parameters":{"since":0},"more":true}\0')
                if not (reply := s.recv(65536)) or b"TooManyConnections" in reply:
                    break
            except (BrokenPipeError, ConnectionResetError): # no room
                break
        yield
    finally:
        for s in held:
            s.close()
        os.close(directory)


def is_answered(c, **fields):
    try:
        return c.call("ContainerStatus", **fields)
    except grpc.RpcError as e:
        equal(e.code().name, "UNAVAILABLE")
        return None


@case
def containers_run_while_their_supervisor_does_not_answer(host):
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        i = run_sandbox(c)
        a = run(c, i, "main", image_id, SLEEP)
        with full_interface(host, i):
            for call, fields in (("ContainerStatus", {"container_id": a}), ("PodSandboxStatus", {"pod_sandbox_id": i})):
                equal(c.refused(call, **fields)[0], "UNAVAILABLE", call)
            try:
                stop(c, a, 5)
                fail("it was not stopped")
            except grpc.RpcError as e:
                equal(e.code().name, "UNAVAILABLE")
            equal([x.state for x in c.call("ListContainers").containers], [1], "it runs")
            equal(sandboxes(c), [(i, "READY")])
        wait_for(lambda: is_answered(c, container_id=a), "the supervisor to have noticed that the connections are closed")
        equal(state(c, a), "RUNNING")
        stop(c, a, 30)
        equal((state(c, a), status(c, a).exit_code), ("EXITED", 0))
        remove(c, i)


@case
def containers_run_while_their_supervisor_has_no_descriptors(host):
    """It accepts no connection then; with ACNSPAWN_TEST_LONG=1, as a call waits for half a minute."""
    if not LONG:
        raise Skip("it takes half a minute: ACNSPAWN_TEST_LONG=1")
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        i = run_sandbox(c)
        a = run(c, i, "main", image_id, SLEEP)
        supervisor = host.supervisor(uuid_of(i))
        wait_at_rest(supervisor)
        limits = resource.prlimit(supervisor, resource.RLIMIT_NOFILE)
        open_ = set(map(int, descriptors_of(supervisor)))
        resource.prlimit(supervisor, resource.RLIMIT_NOFILE, (next(n for n in itertools.count() if n not in open_), limits[1]))
        equal(c.refused("ContainerStatus", container_id=a)[0], "DEADLINE_EXCEEDED")
        equal([x.state for x in c.call("ListContainers").containers], [1], "it runs")
        equal(sandboxes(c), [(i, "READY")])
        resource.prlimit(supervisor, resource.RLIMIT_NOFILE, limits)
        wait_for(lambda: state(c, a) == "RUNNING", "the status")
        stop(c, a, 30)
        equal((state(c, a), status(c, a).exit_code), ("EXITED", 0))
        remove(c, i)


@case
def containers_run_while_their_supervisor_is_stopped(host):
    """A supervisor is stopped for longer than calls wait for it; with ACNSPAWN_TEST_LONG=1."""
    if not LONG:
        raise Skip("it takes a minute and a half: ACNSPAWN_TEST_LONG=1")
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        i = run_sandbox(c)
        a = run(c, i, "main", image_id, SLEEP)
        supervisor = host.supervisor(uuid_of(i))
        os.kill(supervisor, signal.SIGSTOP)
        try:
            equal(c.refused("ContainerStatus", container_id=a)[0], "DEADLINE_EXCEEDED")
            try:
                stop(c, a, 1)
                fail("it was not stopped")
            except grpc.RpcError as e:
                equal(e.code().name, "DEADLINE_EXCEEDED")
            equal([x.state for x in c.call("ListContainers").containers], [1], "it runs")
        finally:
            os.kill(supervisor, signal.SIGCONT)
        wait_for(lambda: state(c, a) == "EXITED", "the stop, which was requested")
        remove(c, i)


def supervises(process, uuid):
    with contextlib.suppress(OSError):
        words = read_text("/proc/%s/cmdline" % process).split("\0")
        return words[0].endswith("/supervise") and uuid in words
    return False


@case
@with_timeout(300)
def a_sandbox_whose_supervisor_is_stopped_as_it_starts(host):
    """The call that is given up waits for it for a minute at most; with ACNSPAWN_TEST_LONG=1."""
    if not LONG:
        raise Skip("it takes a minute: ACNSPAWN_TEST_LONG=1")
    directory = own_network(host)
    with Service(host, "--cni-bin-dir=" + directory) as s:
        c = s.client()
        call = held_start(c, directory)
        pod, = pods_on_disk(host)
        supervisor, *_ = sorted(int(p) for p in os.listdir("/proc") if p.isdigit() and supervises(p, pod))
        os.kill(supervisor, signal.SIGSTOP)
        try:
            call.cancel()
            wait_for(lambda: not s.children(), "the end of the call", timeout=90)
        finally:
            os.unlink(directory + "/hold")
            os.kill(supervisor, signal.SIGCONT)
        wait_for(lambda: all(x == "NOTREADY" for _, x in sandboxes(c)), lambda: "sandboxes: %s" % sandboxes(c))
        remove(c, *[i for i, _ in sandboxes(c)])
        equal(pods_on_disk(host), [])


@case
def a_sandbox_that_is_ending_refuses_containers(host):
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        i = run_sandbox(c)
        a = run(c, i, "main", image_id, IGNORES)
        p, attempts = host.start("stop", uuid_of(i)), itertools.count() # in order, takes 10 s

        def refusal():
            try:
                create(c, i, "late", image_id, "true", attempt=next(attempts))
            except grpc.RpcError as e:
                return e.code().name, e.details()
        status_, message = wait_for(refusal, "a refusal")
        contains(message, "is about to end")
        equal((status_, c.refused("StartContainer", container_id=a)[0]), ("FAILED_PRECONDITION", "FAILED_PRECONDITION"))
        c.call("StopPodSandbox", pod_sandbox_id=i)
        p.communicate(timeout=patience(60))
        equal(c.refused("CreateContainer", pod_sandbox_id=i, config=container_config("late", image_id, "true"))[0], "FAILED_PRECONDITION")
        remove(c, i)


@case
def names_and_users_of_dead_sandboxes_are_free(host):
    """Their calls were killed: while preparing the pod, when it was prepared, and while removing it."""
    ranges = {"uids": [{"host_id": 0x70000000, "container_id": 0, "length": 65536}], "gids": [{"host_id": 0x70000000, "container_id": 0, "length": 65536}]}
    own = {"security_context": {"namespace_options": {"network": 2, "pid": 1, "userns_options": dict(ranges, mode=0)}}}
    with Service(host) as s:
        c = s.client()
        for place in "preparing", "prepared", "garbage":
            i = run_sandbox(c, linux=own)
            c.call("StopPodSandbox", pod_sandbox_id=i)
            os.rename(os.path.join(host.dir, "pods/exited", uuid_of(i)), os.path.join(host.dir, "pods", place, uuid_of(i)))
            other = run_sandbox(c, name="other", linux=own) # with the same users
            remove(c, other)
            again_ = run_sandbox(c, linux=own)
            equal([x for x, _ in sandboxes(c)], [again_], place)
            remove(c, again_)
            equal(pods_on_disk(host), [])


def lose_power(host, sandbox, *files):
    """Makes an ended pod one of an earlier boot; a loss of power has emptied FILES."""
    path = os.path.join(host.dir, "pods/exited", uuid_of(sandbox))
    config = read_text(path + "/config")
    boot = read_text("/proc/sys/kernel/random/boot_id").strip()
    contains(config, boot)
    with open(path + "/config", "w") as f:
        f.write(config.replace(boot, OTHER_BOOT))
    os.unlink(path + "/owner-boot")
    os.symlink(OTHER_BOOT, path + "/owner-boot")
    for name in files:
        os.truncate(os.path.join(path, name), 0)
    return path


@case
def sandboxes_of_an_earlier_boot_release_names_and_users(host):
    """A loss of power has emptied their files, and their networks cannot be undone yet, because the agent of the plugin
    is a pod of this node."""
    directory = own_network(host)
    config = lambda: sandbox_config(linux={})
    with Service(host, "--cni-bin-dir=" + directory) as s:
        c = s.client()
        for files in ("config", "pod", "owner-data"), ("owner-data",), ("pod",):
            i = c.call("RunPodSandbox", config=config()).pod_sandbox_id
            touch(directory + "/fail-del")
            c.refused("StopPodSandbox", pod_sandbox_id=i)
            kill_service(s)
            lose_power(host, i, *files)
            c = restart_service(s)
            wait_for(lambda: sandboxes(c) == [], "a list without it") # its remains are not listed
            k = c.call("RunPodSandbox", config=config()).pod_sandbox_id
            equal(sandboxes(c), [(k, "READY")], files)
            contains(" ".join(pods_on_disk(host)), uuid_of(i))
            os.unlink(directory + "/fail-del")
            # The worker of this start tries again.
            wait_for(lambda: pods_on_disk(host) == [uuid_of(k)], "the removal of the old one")
            remove(c, k)
            equal(pods_on_disk(host), [])


@case
def a_cancelled_sandbox_is_undone(host):
    """The client cancels RunPodSandbox while the network plugin runs, or the service is killed."""
    directory = own_network(host)
    with Service(host, "--cni-bin-dir=" + directory) as s:
        c = s.client()
        for end in "cancelled", "terminated":
            touch(directory + "/hold")
            call = c.begin("RunPodSandbox", config=sandbox_config(linux={}))
            wait_for(lambda: os.path.exists(directory + "/adds") or call.done(), "the plugin to be called")
            true(not call.done(), "the call goes on")
            if end == "cancelled":
                call.cancel()
            else:
                kill_service(s)
            os.unlink(directory + "/hold")
            os.unlink(directory + "/adds")
            wait_for(lambda: pods_on_disk(host) == [], lambda: "pods %s to be removed" % pods_on_disk(host))
            if end != "cancelled":
                c = restart_service(s)
            wait_for(lambda: sandboxes(c) == [], "a list without it")
            remove(c, c.call("RunPodSandbox", config=sandbox_config(linux={})).pod_sandbox_id)
            os.unlink(directory + "/adds")


@case
def a_sandbox_is_undone_whenever_it_is_cancelled(host):
    """The pod may still be prepared when its supervisor begins. There are few at a time, as each takes three of root's inotify instances, of
    which the machine may have 128."""
    with Service(host) as s:
        c = s.client()
        # Sandboxes whose call was answered before the cancellation remain.
        ready = lambda: sorted(uuid_of(i) for i, s in sandboxes(c) if s == "READY")
        for first in range(0, 25, 5):
            for k in range(first, first + 5):
                call = c.begin("RunPodSandbox", config=sandbox_config("early-%d" % k))
                time.sleep(0.01 * k)  # at varying moments
                call.cancel()
            # By the reply to the list the calls before it have begun.
            wait_for(lambda: ready() == pods_on_disk(host) and not s.children(),
                     lambda: "pods %s to be removed, but for %s; calls: %s" % (pods_on_disk(host), ready(), s.children()))
            for i, _ in sandboxes(c):
                remove(c, i)
            equal(pods_on_disk(host), [])


EXHAUSTED = r"""
#include <errno.h>

int inotify_init1(int flags)
{
        errno = EMFILE;
        return -1;
}
"""


@case
def a_service_that_cannot_start_names_the_limit_and_accepts_no_client(host):
    """Root has no inotify instance left."""
    preload = library(host, "exhausted", EXHAUSTED)
    with Service(host) as s:
        equal(s.stop(), 0)
        p = subprocess.run([PROGRAM, *s.options], env=dict(os.environ, LD_PRELOAD=preload), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                           timeout=patience(20))
        equal((p.returncode, os.path.exists(s.path)), (1, False))
        contains(p.stderr, "Cannot create an inotify instance")
        contains(p.stderr, "fs.inotify.max_user_instances")
        s.start()


UNREADABLE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int call(const char *name, int fd, const char *path, int flags, va_list args)
{
        int (*original)(int, const char *, int, ...) = (int (*)(int, const char *, int, ...)) dlsym(RTLD_NEXT, name);
        const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path, *unreadable = getenv("UNREADABLE");
        int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, int) : 0;

        if (unreadable && strcmp(base, unreadable) == 0) {
                close(creat(getenv("HIT"), 0600));
                errno = EIO;
                return -1;
        }
        return original(fd, path, flags, mode);
}

int openat(int fd, const char *path, int flags, ...)
{
        va_list args;

        va_start(args, flags);
        int r = call("openat", fd, path, flags, args);
        va_end(args);
        return r;
}

int openat64(int fd, const char *path, int flags, ...)
{
        va_list args;

        va_start(args, flags);
        int r = call("openat64", fd, path, flags, args);
        va_end(args);
        return r;
}
"""


@case
def a_sandbox_that_cannot_be_read_now_is_kept(host):
    """It is of an earlier boot, and whole; but a disk that fails for a while is no loss of power."""
    preload = library(host, "unreadable", UNREADABLE)
    with Service(host) as s:
        c = s.client()
        for name in "config", "pod", "owner-data":
            i = run_sandbox(c)
            c.call("StopPodSandbox", pod_sandbox_id=i)
            kill_service(s)
            lose_power(host, i)
            hit = host.path("hit-" + name)
            s.env = {"LD_PRELOAD": preload, "UNREADABLE": name, "HIT": hit}
            c = restart_service(s)
            # It waits then, to read it again.
            wait_for(lambda: os.path.exists(hit) and s.children() and at_rest(*map(int, s.children())), "the worker to have read it")
            equal(pods_on_disk(host), [uuid_of(i)], name)
            kill_service(s)
            s.env = {}
            c = restart_service(s)
            equal(sandboxes(c), [(i, "NOTREADY")], name)
            remove(c, i)
            equal(pods_on_disk(host), [])


@case
def an_emptied_sandbox_that_cannot_be_read_now_is_removed_later(host):
    """Its configuration cannot be read when the service starts."""
    with Service(host) as s:
        c = s.client()
        i, other = run_sandbox(c), run_sandbox(c, name="other")
        c.call("StopPodSandbox", pod_sandbox_id=i)
        c.call("StopPodSandbox", pod_sandbox_id=other)
        kill_service(s)
        path = lose_power(host, i, "pod")
        os.rename(path + "/config", path + "/whole")
        os.symlink("config", path + "/config")
        lose_power(host, other, "pod")
        c = restart_service(s)
        wait_for(lambda: uuid_of(other) not in pods_on_disk(host), "the removal of the other one")
        equal(pods_on_disk(host), [uuid_of(i)])
        p = host.acnspawn("gc")
        true(p.rc != 0, "gc reports it")
        contains(p.err, "Cannot read 'config' of pod %s" % uuid_of(i))
        equal(pods_on_disk(host), [uuid_of(i)])
        os.rename(path + "/whole", path + "/config")
        wait_for(lambda: pods_on_disk(host) == [], "the removal")


STALL = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void note(const char *variable)
{
        int fd = open(getenv(variable), O_WRONLY | O_CREAT | O_APPEND, 0600);
        char text[32];

        (void) !write(fd, text, (size_t) snprintf(text, sizeof(text), "%d\n", getpid()));
        (void) close(fd);
}

int fsync(int fd)
{
        int (*original)(int) = (int (*)(int)) dlsym(RTLD_NEXT, "fsync"), held = 0, r;

        while (access(getenv("HOLD"), F_OK) == 0) {
                if (!held++)
                        note("HELD");
                (void) usleep(10000);
        }
        r = original(fd);
        if (held)
                note("SYNCED");
        return r;
}
"""


def stalls(host):
    """A disk that does not take anything while the file "hold" exists."""
    return {"LD_PRELOAD": library(host, "stall", STALL), **{n: host.path(n.lower()) for n in ("HOLD", "HELD", "SYNCED")}}


def lines_of(host, name):
    return read_text(host.path(name)).split() if os.path.exists(host.path(name)) else []


def end_stall(host):
    """The disk takes everything again, and processes that have waited for that end."""
    held = set(lines_of(host, "held"))
    os.unlink(host.path("hold"))
    wait_for(lambda: not any(os.path.exists("/proc/" + p) for p in held), "the end of processes that sync")


@case
def a_sandbox_is_undone_while_the_disk_stalls(host):
    """A supervisor answers while the sandbox is being written to disk, and the sandbox is not up."""
    with Service(host, env=stalls(host)) as s:
        c = s.client()
        touch(host.path("hold"))
        call = c.begin("RunPodSandbox", config=sandbox_config("early"))
        wait_for(lambda: lines_of(host, "held") or call.done(), "the sync")
        pod, = pods_on_disk(host)
        with within(12, "a call to the supervisor, and the end"):
            wait_for(lambda: host.acnspawn("status", "--json=short", pod).rc == 0 and host.status(pod).get("leader"), "the pod's systemd")
            true(not call.done(), "the sandbox is not up")
            call.cancel()
            wait_for(lambda: pods_on_disk(host) == [], lambda: "pods %s to be removed" % pods_on_disk(host))
        equal(sandboxes(c), [])
        end_stall(host)
        remove(c, run_sandbox(c))


@case
def a_sandbox_ends_while_the_disk_stalls(host):
    """The status of its container is written once the disk takes it."""
    with Service(host, env=stalls(host)) as s:
        c, image_id = s.client(), image(host)
        i = run_sandbox(c)
        a = run(c, i, "main", image_id, "trap 'exit 3' TERM; touch /tmp/up; while :; do sleep 0.05; done")
        touch(host.path("hold"))
        with within(12, "the end"):
            stop(c, a, 5)
            wait_for(lambda: lines_of(host, "held"), "the sync")
            c.call("StopPodSandbox", pod_sandbox_id=i)
        equal((sandboxes(c), status(c, a).exit_code), ([(i, "NOTREADY")], 3))
        equal(lines_of(host, "synced"), [])
        end_stall(host)
        true(lines_of(host, "synced"), "it was synced")
        remove(c, i)


HOLD = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

/* After the store was read, and before it is watched. */
int inotify_init1(int flags)
{
        int (*original)(int) = (int (*)(int)) dlsym(RTLD_NEXT, "inotify_init1");
        const char *path = getenv("HOLD");

        for (int fd; path && access(path, F_OK) == 0;) {
                fd = creat(getenv("HELD"), 0600);
                (void) close(fd);
                (void) usleep(10000);
        }
        return original(flags);
}
"""


@case
def changes_before_the_watch_begins_are_listed(host):
    """The service is held between reading the store and watching it. A sandbox that is added then was created by a call that the end of
    the service interrupted."""
    preload = library(host, "hold", HOLD)
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        gone, dead, come, i = [run_sandbox(c, name=n) for n in ("gone", "dead", "come", "main")]
        c.call("StopPodSandbox", pod_sandbox_id=come)
        a, b = run(c, i, "gone", image_id, "exit 3"), run(c, i, "stays", image_id, SLEEP)
        wait_for(lambda: state(c, a) == "EXITED", "the end of a container")
        kill_service(s)
        place = os.path.join(host.dir, "pods/exited", uuid_of(come))
        os.rename(place, host.dir + "/come")
        touch(host.path("hold"))
        s.env = {"LD_PRELOAD": preload, "HOLD": host.path("hold"), "HELD": host.path("held")}
        starter = threading.Thread(target=s.start)
        starter.start()
        wait_for(lambda: os.path.exists(host.path("held")), "the service to have read the store")
        host.acnspawn("rm", "--force", uuid_of(gone)).expect(0)
        os.rename(host.dir + "/come", place)
        os.kill(host.supervisor(uuid_of(dead)), 9)
        host.acnspawn("rm-app", uuid_of(i), a[:32]).expect(0)
        os.unlink(host.path("hold"))
        starter.join()
        s.env = {}
        c = s.client()
        wait_for(lambda: answers(c), "a reply after the restart")
        wait_for(lambda: sorted(sandboxes(c)) == sorted([(i, "READY"), (dead, "NOTREADY"), (come, "NOTREADY")]),
                 lambda: "sandboxes: %s" % sandboxes(c))
        wait_for(lambda: [x.id for x in c.call("ListContainers").containers] == [b], lambda: "containers: %s" % c.call("ListContainers"))
        remove(c, i, dead, come)
        equal((sandboxes(c), len(c.call("ListContainers").containers)), ([], 0))


@case
def a_container_missing_from_the_store_is_dropped_from_lists(host):
    """A call removed a container from an ended sandbox, and was killed before it could report it."""
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        i = run_sandbox(c)
        a = run(c, i, "main", image_id, "exit 3")
        c.call("StopPodSandbox", pod_sandbox_id=i)
        path = os.path.join(host.dir, "pods/exited", uuid_of(i), "pod")
        manifest = json.loads(read_text(path))
        manifest["apps"] = []
        with open(path, "w") as f:
            json.dump(manifest, f)
        equal(c.refused("ContainerStatus", container_id=a)[0], "NOT_FOUND")
        c.call("RemoveContainer", container_id=a)
        equal(len(c.call("ListContainers").containers), 0)
        remove(c, i)


@case
def a_sandbox_that_dies_as_it_is_added_is_not_ready(host):
    """The worker of RunPodSandbox is stopped, and reports the sandbox as up only after it has ended."""
    directory = own_network(host)
    with Service(host, "--cni-bin-dir=" + directory) as s:
        c = s.client()
        call = held_start(c, directory)
        processes = [int(p) for p in s.children()]
        for p in processes:
            os.kill(p, signal.SIGSTOP)
        os.unlink(directory + "/hold")
        pod, = pods_on_disk(host)
        wait_for(lambda: host.acnspawn("status", "--json=short", pod).rc == 0 and host.status(pod).get("leader"), "the pod to be up")
        host.wait_at_rest(pod)
        os.kill(host.supervisor(pod), 9)
        wait_for(lambda: host.status(pod)["state"] == "exited", "the end of the pod")
        time.sleep(0.5)  # time for the service to see the end
        for p in processes:
            os.kill(p, signal.SIGCONT)
        with contextlib.suppress(grpc.RpcError): # it may have succeeded or failed
            call.result()
        wait_for(lambda: all(x == "NOTREADY" for _, x in sandboxes(c)), lambda: "sandboxes: %s" % sandboxes(c))
        remove(c, *[i for i, _ in sandboxes(c)])
        equal(pods_on_disk(host), [])


@case
@with_timeout(900 if LONG else CASE_TIMEOUT)
def many_slow_stops_do_not_block_other_calls(host):
    """A full node is drained: each container has a grace period. With ACNSPAWN_TEST_LONG=1 it has 110 pods, as many as a kubelet allows by
    default; they have users of their own, as the machine may have too few inotify instances for those of root."""
    def own_users(n):
        ranges = [{"host_id": 0x72000000 + 65536 * n, "container_id": 0, "length": 65536}]
        return {"linux": {"security_context": {"namespace_options": {"network": 2, "pid": 1, "userns_options": {"mode": 0, "uids": ranges, "gids": ranges}}}}}

    with Service(host) as s:
        c, image_id = s.client(), image(host)
        stops, containers, sandboxes_ = [], [], [run_sandbox(c, name="web%d" % n, **own_users(n) if LONG else {})
                                           for n in range(110 if LONG else 3)]
        for i in sandboxes_:
            containers.append(run(c, i, "main", image_id, IGNORES))
        quick = run(c, sandboxes_[0], "quick", image_id, SLEEP)
        for n in range(210): # over one connection
            stops.append(begin_stop(c, containers[n % len(containers)], 100))
        with within(20, "calls beside slow ones"):
            c.call("Version")
            c.call("Status")
            equal(len(c.call("ListContainers").containers), len(containers) + 1)
            equal(state(c, quick), "RUNNING")
            equal(c.call("PodSandboxStatus", pod_sandbox_id=sandboxes_[0]).status.state, 0)
            equal(c.call("ExecSync", container_id=quick, cmd=["echo", "x"]).stdout, b"x\n")
        true(len(s.children()) < 20, "processes of %d calls that wait: %d" % (len(stops), len(s.children())))
        for a in containers:
            stop(c, a, 0)
        for call in stops:
            call.result()
        equal({status(c, a).exit_code for a in containers}, {137})
        remove(c, *sandboxes_)


@case
def a_log_directory_that_hangs_delays_its_container_alone(host):
    logs = host.path("pod-logs")
    os.makedirs(logs + "/fine")
    with HangingFs(logs + "/bad") as fs, Service(host) as s:
        c, image_id = s.client(), image(host)
        i = run_sandbox(c, log_directory=logs)
        bad = run(c, i, "bad", image_id, "touch /tmp/up; i=0; while :; do i=$((i + 1)); echo $i; done", log_path="bad/0.log")
        fine = run(c, i, "fine", image_id, "echo line; " + SLEEP, log_path="fine/0.log")
        wait_for(lambda: os.path.getsize(logs + "/bad/0.log") > 100000, "lines of the container")
        fs.hang()
        with within(12, "calls while the file system hangs"):
            for a in fine, bad:
                equal(c.call("ExecSync", container_id=a, cmd=["echo", "x"]).stdout, b"x\n")
            stop(c, fine, 5)
            equal(status(c, fine).exit_code, 0)
            later = run(c, i, "later", image_id, "echo line; " + SLEEP, log_path="fine/1.log")
            os.rename(logs + "/fine/1.log", logs + "/fine/1.log.1")
            c.call("ReopenContainerLog", container_id=later)
            true(os.path.exists(logs + "/fine/1.log"), "the new file is there")
            equal((state(c, bad), state(c, later)), ("RUNNING", "RUNNING"))
            stop(c, bad, 5)
            equal(state(c, bad), "EXITED")
            c.call("RemoveContainer", container_id=bad)
            remove(c, i)
        true(read_text(logs + "/fine/0.log").split(" ", 1)[1].startswith("stdout F line\n"), "the line of the container that was stopped")
        fs.answer()
        lines = [l.split(" ", 3)[3] for l in read_text(logs + "/bad/0.log").split("\n")[:-1]]
        equal(lines == [str(n) for n in range(1, len(lines) + 1)], True, "lines of the container")


if __name__ == "__main__":
    main_of_cri()
