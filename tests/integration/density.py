#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Many pods on one host: their resources, and the messages when limits of the host are reached."""

import concurrent.futures
import contextlib
import ctypes
import fcntl
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import time

from harness import (ACNSPAWN, UUID, Skip, case, children_of, contains, equal, has_ended, lacks, main, name_of, of_processes, patience, read_text, true,
                     wait_at_rest, wait_for, with_timeout)


def sleepers(host, n, *options):
    """N running pods of one app that waits."""
    image = host.acnspawn("fetch", host.image(["/bin/sleep", "1000000"])).expect(0).out.strip()
    return [host.detach(image, *options) for _ in range(n)]


def processes_of(uuids):
    """Pid -> UUID of all processes of the pods, and of their supervisors."""
    texts, known = of_processes(lambda pid: read_text("/proc/%d/cgroup" % pid) + read_text("/proc/%d/cmdline" % pid)), set(uuids)
    return {pid: uuid for pid, text in texts.items() for uuid in UUID.findall(text) if uuid in known}


@case
def processes_of_a_pod(host):
    """Each costs memory, which tests/bench/density measures."""
    uuid, = sleepers(host, 1)
    def names():
        return sorted(of_processes(name_of, processes_of([uuid])).values())
    # One that moves processes to their cgroups ends some time after the start.
    wait_for(lambda: names() == ["sleep", "supervise", "systemd", "systemd-journal", "systemd-nspawn"],
             lambda: "that a pod of one app has no other processes (%s)" % names())
    host.acnspawn("rm", "--force", uuid).expect(0)


LIBCRYPTO = "libcrypto.so.3"
STUB = os.path.join(os.path.dirname(ACNSPAWN), "../stage1/stub", LIBCRYPTO)
IMPORT = b"\0EVP_sha256\0"


def need_linked_libcrypto():
    if LIBCRYPTO not in subprocess.run(["ldd", "/usr/lib/systemd/systemd"], stdout=subprocess.PIPE, text=True, check=True).stdout:
        raise Skip("systemd does not link libcrypto here")
    if not os.path.exists(STUB):
        raise Skip("the build has no stub of libcrypto")


def libcryptos_of(uuid):
    """Name of a process of the pod -> inode of the libcrypto that it has mapped, if any."""
    def mapped(pid):
        return name_of(pid), re.findall(r"^\S+ \S+ \S+ \S+ (\d+) +\S*/libcrypto\.so\.3$", read_text("/proc/%d/maps" % pid), re.M)
    return {name: int(inodes[0]) for name, inodes in of_processes(mapped, processes_of([uuid])).values() if inodes}


def check_libcryptos(uuid, pods, nspawns):
    """The pod's systemd and journald have mapped the file PODS, nspawn the file NSPAWNS."""
    pods, nspawns = (os.stat(path).st_ino for path in (pods, nspawns))
    found = libcryptos_of(uuid)
    found.pop("acnspawn", None)  # which may have made a digest
    equal(found, {"systemd": pods, "systemd-journal": pods, "systemd-nspawn": nspawns}, "files that are mapped as libcrypto")


def host_libcrypto():
    return re.search(r"libcrypto\.so\.3 => (\S+)", subprocess.run(
        ["ldd", "/usr/lib/systemd/systemd"], stdout=subprocess.PIPE, text=True, check=True).stdout).group(1)


def systemd_tree(host, name):
    """A copy of the host's systemd and its libraries."""
    root = host.path(name)
    files = {"/usr/lib/systemd/systemd", "/usr/lib/systemd/systemd-journald"}
    for program in sorted(files):
        out = subprocess.run(["ldd", program], stdout=subprocess.PIPE, text=True, check=True).stdout
        files.update(word for word in out.split() if word.startswith("/"))
    for path in files:
        target = root + (path if path.startswith("/usr") else "/usr" + path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(os.path.realpath(path), target)
    for link in "lib", "lib64":
        os.symlink("usr/" + link, os.path.join(root, link))
    return root


def find_file(root, name):
    return next(os.path.join(directory, file) for directory, _, files in os.walk(root) for file in files if file.startswith(name))


@case
def stub_of_libcrypto_is_used(host):
    need_linked_libcrypto()
    uuid, = sleepers(host, 1)
    check_libcryptos(uuid, STUB, STUB)
    equal(host.acnspawn("enter", uuid, "echo", "here").expect(0).out, "here\n")
    host.acnspawn("stop", uuid).expect(0)


@case
def libcrypto_is_used_where_the_stub_lacks_something(host):
    """In a tree whose libsystemd-shared imports a further function, which pods do not call."""
    need_linked_libcrypto()
    root = systemd_tree(host, "tree")
    uuid = host.detach("--stage1=" + root, host.image(["/bin/sleep", "1000000"]))
    check_libcryptos(uuid, STUB, host_libcrypto())  # what nspawn loads is not of the tree
    shared = find_file(root, "libsystemd-shared-")
    with open(shared, "rb") as f:
        content = f.read()
    equal(content.count(IMPORT), 1, "names of that function")
    with open(shared + ".new", "wb") as f:
        f.write(content.replace(IMPORT, b"\0EVP_sha384\0"))
    os.chmod(shared + ".new", 0o755)
    os.rename(shared + ".new", shared)
    other = host.detach("--stage1=" + root, host.image(["/bin/sleep", "1000000"]))
    check_libcryptos(other, find_file(root, LIBCRYPTO), host_libcrypto())
    host.acnspawn("stop", uuid, other).expect(0)


@case
def libcrypto_is_used_where_the_stub_is_missing(host):
    need_linked_libcrypto()
    helpers = host.path("helpers")
    os.mkdir(helpers)
    for program in "stage0/supervise", "stage1/launch", "metadata/acnspawn-metadata":
        shutil.copy(os.path.join(os.path.dirname(ACNSPAWN), "..", program), helpers)
    uuid = host.prepare(host.image(["/bin/sleep", "1000000"]))
    host.acnspawn("run", "--detach", uuid, env=dict(os.environ, ACNSPAWN_LIBEXECDIR=helpers)).expect(0)
    check_libcryptos(uuid, host_libcrypto(), host_libcrypto())
    host.acnspawn("stop", uuid).expect(0)


@case
@with_timeout(900)
def three_hundred_pods(host):
    """Each with an app; with the limits of this host."""
    if not os.environ.get("ACNSPAWN_TEST_LONG"):
        raise Skip("takes minutes and 1.5 GB of memory; set ACNSPAWN_TEST_LONG=1")
    image = host.acnspawn("fetch", host.image(["/bin/sleep", "1000000"])).expect(0).out.strip()

    def start(_):
        uuid = subprocess.run(host.argv("prepare", image), check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        begin = time.monotonic()
        subprocess.run(host.argv("run", "--detach", uuid), check=True, stdout=subprocess.DEVNULL)
        return uuid, time.monotonic() - begin

    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        started = list(pool.map(start, range(300)))
    print("# 300 pods were started in %.1f s, the slowest in %.1f s" % (time.monotonic() - begin, max(t for _, t in started)))
    uuids = [uuid for uuid, _ in started]
    states = {row["uuid"]: row["state"] for row in json.loads(host.acnspawn("list", "--json=short").expect(0).out)}
    equal([states.get(uuid) for uuid in uuids], ["running"] * 300, "states of the pods")
    equal(host.acnspawn("enter", uuids[-1], "echo", "here").expect(0).out, "here\n")
    r = host.acnspawn("stop", *uuids, timeout=300).expect(0)
    print("# and stopped in %.1f s" % r.seconds)
    r = host.acnspawn("rm", *uuids, timeout=300).expect(0)
    print("# and removed in %.1f s" % r.seconds)
    equal(host.pods(), [], "pods that are left")


# --- Many at a time ------------------------------------------------------------------------------------------------------

STUBBORN = "trap '' TERM; echo > /out/up; while :; do sleep 1; done"


def stubborn(host, n, seconds):
    """N running pods whose apps have to be killed, after so many seconds."""
    image = host.acnspawn("fetch", host.shell(STUBBORN)).expect(0).out.strip()
    uuids = [host.detach("--stop-timeout=%ds" % seconds, "--name=pod%d" % i, image) for i in range(n)]
    for uuid in uuids:
        host.wait_up(app_of(host, uuid), uuid)
    return uuids


def app_of(host, uuid):
    return host.status(uuid)["apps"][0]["name"]


@case
def pods_are_stopped_at_the_same_time(host):
    uuids = stubborn(host, 6, 5)
    r = host.acnspawn("stop", *uuids).expect(0)
    true(5 <= r.seconds < patience(12), "six pods that take 5 s each are stopped in %.1f s" % r.seconds)
    for uuid in uuids:
        equal(host.state(uuid), "exited", "state of %s" % uuid)
    # In the order of the command line, regardless of which ended first.
    words = list(reversed(uuids))
    equal(host.acnspawn("rm", *words).expect(0).out.split(), words, "pods that were removed")


@case
def each_pod_has_its_own_result(host):
    first, second, third = sleepers(host, 3)
    prepared = host.prepare(host.image())
    r = host.acnspawn("stop", first, "nobody", second, prepared, third, "dead").expect(1)
    lines = [line for line in r.err.splitlines() if line.startswith("Error: ")]
    equal(len(lines), 3, "errors of %s" % r)
    for line, word in zip(lines, ("nobody", prepared, "dead")):
        contains(line, word)
    contains(r.err, "'acnspawn rm %s' removes it." % prepared)
    for uuid in first, second, third:
        equal(host.state(uuid), "exited", "state of %s" % uuid)
    r = host.acnspawn("rm", "--json=short", third, "nobody", first).expect(1)
    equal([row["uuid"] for row in json.loads(r.out)], [third, first], "pods that were removed")
    # The same pod under two names.
    uuid = host.detach("--name=twice", host.image(["/bin/sleep", "1000"]))
    host.acnspawn("stop", uuid, "twice", uuid[:13])
    equal(host.state(uuid), "exited", "state of a pod that was named three times")
    r = host.acnspawn("rm", second, "--", prepared).expect(0)
    equal(r.out.split(), [second, prepared], "pods that were removed")


@case
def ctrl_c_ends_stop_not_the_pods(host):
    uuids = stubborn(host, 3, 60)
    p = host.start("stop", *uuids)
    children = wait_for(lambda: children_of(p.pid), "children")
    wait_at_rest(p.pid, *children)
    p.send_signal(signal.SIGINT)
    r = host.finish(p, 10)
    equal(r.rc, -signal.SIGINT, "how stop ended")
    wait_for(lambda: all(map(has_ended, children)), "end of its processes")
    for uuid in uuids:
        equal(host.state(uuid), "running", "state of %s" % uuid)
    host.acnspawn("stop", "--force", *uuids).expect(0)


@case
def more_pods_than_children(host):
    """Pods that are only prepared, so that it is quick."""
    image = host.acnspawn("fetch", host.image()).expect(0).out.strip()
    uuids = [host.prepare(image) for _ in range(70)]
    r = host.acnspawn("rm", *uuids).expect(0)
    equal(r.out.split(), uuids, "pods that were removed")
    equal(host.pods(), [], "pods that are left")


@case
def signals_and_pauses_of_many(host):
    uuids = sleepers(host, 3)
    host.acnspawn("pause", *uuids).expect(0)
    host.acnspawn("resume", *uuids).expect(0)
    r = host.acnspawn("kill", "--signal=KILL", uuids[0], "nobody", *uuids[1:]).expect(1)
    contains(r.err, "nobody")
    for uuid in uuids:
        wait_for(lambda: host.state(uuid) == "exited", "end of %s" % uuid)


# --- Users of the host ---------------------------------------------------------------------------------------------------

HOST_UIDS = "/var/lib/acnspawn-uids"


@case
def pod_of_a_range_that_was_given_away_does_not_start(host):
    """As if the store's file system had not been mounted for a while."""
    uuid = host.prepare(host.image())
    other = host.prepare(host.image())
    link = "%s/%d" % (HOST_UIDS, host.uid_base(uuid))
    os.unlink(link)
    os.symlink("%s:%s" % (other, host.dir), link)
    r = host.acnspawn("run", uuid).expect(1)
    contains(r.err, "Pod %s cannot be started: its users %d to %d are now those of pod %s in the store %s" %
             (uuid, host.uid_base(uuid), host.uid_base(uuid) + 65535, other, host.dir))
    equal(host.state(uuid), "prepared", "state")
    os.unlink(link)
    host.run(uuid)
    equal(os.readlink(link), "%s:%s" % (uuid, host.dir), "who has the range")


# --- Whose limits they are ------------------------------------------------------------------------------------------------

NS_GET_OWNER_UID = 0xb704  # ioctl_ns(2)


@case
def user_namespace_is_the_pods_own(host):
    """Resources of a namespace also count for the user that owns the namespace."""
    uuid, = sleepers(host, 1)
    with open("/proc/%d/ns/user" % host.leader(uuid)) as f:
        owner = struct.unpack("I", fcntl.ioctl(f, NS_GET_OWNER_UID, bytes(4)))[0]
    equal(owner, host.uid_base(uuid), "owner of the pod's user namespace")
    lacks(read_text("/proc/%d/environ" % host.leader(uuid)), "LD_PRELOAD", "environment of the pod's systemd")
    host.acnspawn("enter", uuid, "true").expect(0)
    host.acnspawn("stop", uuid).expect(0)


@case
def app_that_takes_all_inotify_instances(host):
    """Another pod still starts: it has limits of its own, as root has."""
    limit = int(read_text("/proc/sys/fs/inotify/max_user_instances"))
    if limit > 256:
        raise Skip("there may be %d instances of a user here" % limit)
    uuid = host.detach(host.image(["/bin/poke", "inotify", "/out/up"], name="example.com/hog"))
    host.wait_up("hog", uuid)
    host.run(host.image())
    fds = []
    libc = ctypes.CDLL(None)
    for _ in range(3):
        fds.append(libc.inotify_init1(os.O_CLOEXEC))
    for fd in fds:
        os.close(fd) if fd >= 0 else None
    true(-1 not in fds, "root of the host has instances left")
    host.acnspawn("stop", "--force", uuid).expect(0)


# --- Limits of the host --------------------------------------------------------------------------------------------------

@case
def limit_of_open_files_is_named(host):
    uuid = host.prepare(host.image())
    r = subprocess.run(["prlimit", "--nofile=20:20", *host.argv("run", uuid)], capture_output=True, text=True)
    equal(r.returncode, 1, "exit status")
    contains(r.stderr, "Too many open files")
    contains(r.stderr, "he limit of open files of a process (RLIMIT_NOFILE=20) is reached.")
    contains(r.stderr, "Raise it with 'ulimit -n 524288' before acnspawn is started")


@contextlib.contextmanager
def cgroup_of_pids(limit):
    """A cgroup limited to LIMIT processes; in the cgroup of a unit, a child cgroup is created."""
    for top, prefix in ("/sys/fs/cgroup/pids", r"\d+:pids:"), ("/sys/fs/cgroup", "0::"):
        path = top + re.search("^%s(.*)$" % prefix, read_text("/proc/self/cgroup"), re.M).group(1).rstrip("/") \
            if re.search("^%s" % prefix, read_text("/proc/self/cgroup"), re.M) else top
        path = "%s/acnspawn-test-%d" % (path, os.getpid())
        with contextlib.suppress(OSError):
            os.mkdir(path)
            if os.path.exists(path + "/pids.max"):
                with open(path + "/pids.max", "w") as f:
                    f.write(str(limit))
                try:
                    yield path
                finally:
                    os.rmdir(path)
                return
            os.rmdir(path)
    raise Skip("no cgroup controller for pids here")


@case
def limit_of_processes_is_named(host):
    image = host.acnspawn("fetch", host.image()).expect(0).out.strip()
    # acnspawn cannot start the supervisor; the supervisor cannot start nspawn; or it cannot start another of its
    # processes, or nspawn cannot start the pod's systemd, depending on timing.
    for limit, message in ((1, "Cannot execute .*/supervise: Resource temporarily unavailable"), (2, "Cannot start a process for pod"),
                           (4, r"did not start|Cannot create a user namespace")):
        uuid = host.prepare(image)
        with cgroup_of_pids(limit) as path:
            def enter():
                with open(path + "/cgroup.procs", "w") as f:
                    f.write("0")
            r = subprocess.run(host.argv("run", uuid), capture_output=True, text=True, preexec_fn=enter)
        equal(r.returncode, 1, "exit status with %d processes" % limit)
        true(re.search(message, r.stderr), "one of '%s' in %r" % (message, r.stderr))
        contains(r.stderr, "he limit of processes and threads of the cgroup %s (pids.max=%d) is reached" % (path, limit))
        contains(r.stderr, "Raise it with 'echo %d > %s/pids.max'." % (4 * limit, path))
        host.acnspawn("rm", uuid).expect(0)


if __name__ == "__main__":
    main()
