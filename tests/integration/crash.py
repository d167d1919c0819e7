#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Any process may be killed at any time: no mount, cgroup or process remains, gc leaves an empty state, and the next
prepare works.

Two ways of killing. By count: strace lets acnspawn reach its Nth system call of a kind and injects SIGKILL there, so
that the moments are exact and spread over the whole of prepare and gc. By time: a running pod loses acnspawn, nspawn or
its PID 1 after so many milliseconds, from before nspawn has begun until the pod is up and beyond.
"""

import concurrent.futures
import hashlib
import resource

from harness import *


def empty_after_gc(host):
    """gc removes everything, and a new pod can be prepared and run."""
    host.acnspawn("gc", "--grace-period=0", "--expire-prepared=0").expect(0)
    equal(host.pods(), [], "pods after gc")
    for place in ("tmp", "uids", "names"):
        path = os.path.join(host.dir, place)
        equal([n for n in os.listdir(path) if n[0] != "."] if os.path.exists(path) else [], [], "%s/ after gc" % place)


def usable(host, image):
    host.acnspawn("run", "--rm", image).expect(0)


def trace(host, *args):
    log = host.path("strace.log")
    p = subprocess.run(["strace", "-f", "-qq", "-o", log, "-e", "trace=fsync,fdatasync,syncfs,sync_file_range,rename,renameat,renameat2"]
                       + host.argv(*args), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=60)
    equal(p.returncode, 0, "exit status under strace")
    return [line.split(None, 1)[1] for line in open(log, errors="replace") if "unfinished" not in line]


def oci_layout(host, n_layers):
    """A layout with so many small layers, made by hand."""
    top = host.path("layout")
    blobs = os.path.join(top, "blobs/sha256")
    os.makedirs(blobs)

    def blob(data, kind):
        digest = hashlib.sha256(data).hexdigest()
        with open(os.path.join(blobs, digest), "wb") as f:
            f.write(data)
        return {"mediaType": "application/vnd.oci.image." + kind, "digest": "sha256:" + digest, "size": len(data)}
    layers = []
    for i in range(n_layers):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            info = tarfile.TarInfo("file%d" % i)
            info.size = 1
            tar.addfile(info, io.BytesIO(b"x"))
        layers.append(blob(buffer.getvalue(), "layer.v1.tar"))
    config = blob(json.dumps({"os": "linux", "architecture": "amd64", "config": {"Cmd": ["/x"]},
                              "rootfs": {"type": "layers", "diff_ids": [x["digest"] for x in layers]}}).encode(), "config.v1+json")
    manifest = blob(json.dumps({"schemaVersion": 2, "config": config, "layers": layers}).encode(), "manifest.v1+json")
    for name, content in ("oci-layout", {"imageLayoutVersion": "1.0.0"}), ("index.json", {"schemaVersion": 2, "manifests": [manifest]}):
        with open(os.path.join(top, name), "w") as f:
            json.dump(content, f)
    return "oci:" + top


@case
def contents_are_on_disk_before_they_are_published(host):
    """After a power failure an image or a pod exists completely or not at all: contents are synced before the rename
    that publishes them, and the rename itself before success is reported. The same holds for each layer, before the
    image that names it."""
    need_strace()
    image = host.shell("true", name="example.com/a")
    for args, place, others in ((("fetch", image), "images/", 0), (("fetch", oci_layout(host, 3)), "images/", 3),
                                (("prepare", "example.com/a"), "prepared", 0)):
        calls = trace(host, *args)
        published = [i for i, c in enumerate(calls) if "rename" in c.split("(")[0] and place in c]
        layers = [i for i, c in enumerate(calls) if "rename" in c.split("(")[0] and '"layers/' in c]
        equal(len(published), 1, "renames that publish, of %r" % calls)
        equal(len(layers), others, "renames that publish layers, of %r" % calls)
        # All contents are synced before each rename; the rename itself before the next rename, and before the end.
        synced = [i for i, c in enumerate(calls) if re.search(r"(fsync|syncfs|fdatasync)", c.split("(")[0])]
        begin, named = -1, layers + published
        for i, end in zip(named, named[1:] + [len(calls)]):
            true(any(begin < k < i for k in synced), "nothing is synced before %s" % calls[i])
            true(any(i < k < end for k in synced), "the directory is not synced after %s" % calls[i])
            begin = i


def on_small_disk(host, megabytes):
    """Puts the store on a file system that is soon full."""
    os.mkdir(host.dir, 0o700)
    p = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%dm,nr_inodes=8000,mode=0700" % megabytes, "acnspawn-test", host.dir], stderr=subprocess.PIPE)
    if p.returncode != 0:
        raise Skip("cannot mount a tmpfs here")


@contextlib.contextmanager
def filled(host):
    """Without a free block, or inode, in the file system of the store."""
    top = os.path.join(host.dir, "tmp", ".filler")
    os.mkdir(top)
    try:
        with open(os.path.join(top, "blocks"), "wb", buffering=0) as f:
            for size in 1 << 20, 4096, 1:
                with contextlib.suppress(OSError):
                    while True:
                        f.write(b"x" * size)
        with contextlib.suppress(OSError):
            for i in range(100000):
                os.close(os.open(os.path.join(top, str(i)), os.O_CREAT | os.O_WRONLY))
        yield
    finally:
        shutil.rmtree(top)


WAITS = "trap 'exit %d' TERM; touch /up; while :; do sleep 0.05; done"


def wait_trap(host, *apps):
    for app in apps:
        wait_for(lambda: any(os.path.exists(os.path.join(host.upper(app, pod), "up")) for pod in host.pods()), "the handler of app %s" % app)


def exits(host, pod):
    return {a["name"]: (a["state"], a["exitStatus"]) for a in host.status(pod)["apps"]}


@contextlib.contextmanager
def small_disk(host, megabytes=96):
    on_small_disk(host, megabytes)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", host.dir], check=True)


@case
def full_disk_while_apps_end(host):
    """How they have ended is recorded: while the pod runs, when it has ended, and when there is space again."""
    with small_disk(host):
        images = [host.shell(WAITS % n, name="example.com/" + a) for a, n in (("one", 7), ("two", 3))]
        host.acnspawn("run", "--detach", "--exit-policy=never", "--name=p", *images).expect(0)
        wait_trap(host, "one", "two")
        with filled(host):
            host.acnspawn("stop-app", "p", "one").expect(0)
            equal(exits(host, "p"), {"one": ("ended", 7), "two": ("running", None)})
            host.acnspawn("start-app", "p", "one").expect(0)
            wait_for(lambda: exits(host, "p")["one"] == ("running", None), "the state of app one")
            contains(host.acnspawn("add-app", "p", "example.com/one", "--name=three").expect(1).err, "No space left")
            host.acnspawn("stop", "p").expect(0)
            equal(host.acnspawn("wait", "p").rc, 0)
            equal(host.acnspawn("wait", "p", "two").rc, 3)
            equal(exits(host, "p")["two"], ("ended", 3))
        equal((host.status("p")["exitStatus"], host.status("p")["state"]), (0, "exited"))
        equal(exits(host, "p")["two"], ("ended", 3))
        equal([n for n in os.listdir(host.one_pod()) + os.listdir(host.one_pod() + "/status") if "reserve" in n], [])


@case
def full_disk_at_the_end_of_a_pod(host):
    with small_disk(host):
        p = subprocess.Popen(host.argv("run", "--name=p", host.shell(WAITS % 7, name="example.com/one")), stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        host.children.append(p)
        wait_trap(host, "one")
        with filled(host):
            host.acnspawn("stop-app", "p", "one").expect(0)
            equal(p.wait(patience(20)), 7)
            true("annot" not in p.stderr.read(), "nothing has failed")
            equal(host.acnspawn("wait", "p").rc, 7)
        equal(host.status("p")["exitStatus"], 7)


@case
def output_that_a_full_disk_drops_is_counted(host):
    with small_disk(host):
        script = "trap 'seq 1 20000' USR1; trap 'exit 0' TERM; touch /up; while :; do sleep 0.05; done"
        host.acnspawn("run", "--detach", "--name=p", host.shell(script, name="example.com/one"), "--log-file=" + os.path.join(host.dir, "one.log")).expect(0)
        wait_trap(host, "one")
        with filled(host):
            host.acnspawn("kill", "--signal=USR1", "--app=one", "p").expect(0)
            wait_for(lambda: host.app_status("p", "one")["logFileDroppedLines"] > 0, "the count of lines that were dropped")
        host.acnspawn("stop", "p").expect(0)
        true(host.app_status("p", "one")["logFileDroppedLines"] > 0, "the count of lines that were dropped")


@case
def a_pod_is_not_used_up_by_a_full_disk(host):
    with small_disk(host):
        uuid = host.prepare(host.shell("true", name="example.com/one"))
        with filled(host):
            contains(host.acnspawn("run", uuid).expect(1).err, "No space left")
            equal(host.state(uuid), "prepared")
        host.acnspawn("run", uuid).expect(0)


@case
def a_state_that_cannot_be_recorded_is_recorded_later(host):
    host.acnspawn("run", "--detach", "--exit-policy=never", "--name=p", host.shell(WAITS % 7, name="example.com/one")).expect(0)
    wait_trap(host, "one")
    record = os.path.join(host.one_pod(), "status", "one")
    os.rename(record, record + ".kept")
    os.mkdir(record)
    host.acnspawn("stop-app", "p", "one").expect(0)
    os.rmdir(record)
    wait_for(lambda: exits(host, "p")["one"] == ("ended", 7), "the record")
    host.acnspawn("stop", "p").expect(0)
    equal(host.acnspawn("wait", "p", "one").rc, 7)


@case
def states_that_cannot_be_kept_in_memory_are_old_until_they_can_be(host):
    host.acnspawn("run", "--detach", "--exit-policy=never", "--name=p", host.shell(WAITS % 7, name="example.com/one")).expect(0)
    wait_trap(host, "one")
    pid = host.supervisor(os.path.basename(host.one_pod()))
    app, = processes_where(lambda p: "touch /up" in read_text("/proc/%d/cmdline" % p), host.processes())
    record = os.path.join(host.one_pod(), "status", "one")
    os.rename(record, record + ".kept")
    os.mkdir(record)
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, limits[1])) # also where others are closed meanwhile
    try:
        os.kill(app, signal.SIGTERM)
        wait_for(lambda: host.status("p")["statesAreOld"], "the end that is known nowhere else")
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    wait_for(lambda: not host.status("p")["statesAreOld"], "the states in memory")
    wait_for(lambda: exits(host, "p")["one"] == ("ended", 7), "the end in memory")
    os.rmdir(record)
    wait_for(lambda: os.path.exists(record), "the record on disk")
    equal(exits(host, "p")["one"], ("ended", 7))
    host.acnspawn("stop", "p").expect(0)


FORGER = """
import os, subprocess, sys
supervisor, number, uuid = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
subprocess.run(["mount", "-t", "tmpfs", "none", "/mnt"], check=True)
os.mkdir("/mnt/status-" + uuid)
with open("/proc/sys/kernel/ns_last_pid", "w") as f:
    f.write(str(supervisor - 1))
up = os.pipe()
pid = os.fork()
if pid == 0:
    os.dup2(os.open("/mnt/status-" + uuid, os.O_RDONLY), number)
    subprocess.run(["umount", "-l", "/mnt"], check=True)
    os.write(up[1], b"x")
    os.read(os.pipe()[0], 1)
os.read(up[0], 1)
print(pid == supervisor, os.readlink("/proc/%d/fd/%d" % (pid, number)), flush=True)
subprocess.run(sys.argv[4:], check=True)
"""


@case
def states_in_memory_are_not_taken_from_another_process(host):
    """That has the number of the supervisor in another PID namespace."""
    if not os.path.exists("/proc/sys/kernel/ns_last_pid"):
        raise Skip("this kernel does not let processes have numbers that are asked for")
    uuid = host.acnspawn("run", "--detach", "--exit-policy=never", "--name=p", host.shell(WAITS % 7, name="example.com/one")).expect(0).out.strip()
    wait_trap(host, "one")
    record = os.path.join(host.one_pod(), "status", "one")
    os.rename(record, record + ".kept")
    os.mkdir(record)
    host.acnspawn("stop-app", "p", "one").expect(0)
    equal(host.status("p")["statesAreOld"], False)
    pid, name = host.supervisor(os.path.basename(host.one_pod())), "/status-" + uuid
    number, = (n for n, to in descriptors_of(pid).items() if to == name)
    r = subprocess.run(["unshare", "--pid", "--fork", "--mount", "--mount-proc", "python3", "-c", FORGER, str(pid), number, uuid] + host.argv("status", "p"),
                       stdout=subprocess.PIPE, text=True, check=True)
    equal(r.stdout.splitlines()[0], "True " + name)
    contains(r.stdout, "old states: the current ones")
    os.rmdir(record)
    wait_for(lambda: os.path.exists(record), "the record on disk")
    host.acnspawn("stop", "p").expect(0)


@contextlib.contextmanager
def stopped_supervisor(host):
    pid = host.supervisor(os.path.basename(host.one_pod()))
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def unreserve(host):
    """No space is reserved for records any more, as for those of an earlier version."""
    status = os.path.join(host.one_pod(), "status")
    for name in os.listdir(status):
        if "reserve" in name:
            os.unlink(os.path.join(status, name))


@case
def what_cannot_be_recorded_is_read_from_the_supervisor(host):
    """Also while the supervisor is stopped, and from the disk again as soon as that has space."""
    with small_disk(host):
        ill = "trap 'mv /up /ill' USR1; " + WAITS % 3  # which takes no space
        host.acnspawn("run", "--detach", "--exit-policy=never", "--name=p", host.shell(WAITS % 7, name="example.com/one"),
                      host.shell(ill, name="example.com/two"), "--health-cmd=test ! -e /ill", "--health-interval=100ms", "--health-retries=1").expect(0)
        wait_trap(host, "one", "two")
        wait_for(lambda: "running (healthy)" in host.acnspawn("list", "--format=state").out, "the check of health")
        unreserve(host)
        with filled(host):
            host.acnspawn("stop-app", "p", "one").expect(0)
            host.acnspawn("kill", "--signal=USR1", "--app=two", "p").expect(0)
            wait_for(lambda: "running (unhealthy)" in host.acnspawn("list").out, "the failed check")
            with stopped_supervisor(host), within(14, "the wait"):
                wait = subprocess.Popen(host.argv("wait", "--timeout=100ms", "p", "two"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                host.children.append(wait)
                equal(exits(host, "p"), {"one": ("ended", 7), "two": ("running", None)})
                contains(host.acnspawn("list").out, "running (unhealthy)")
                equal(host.status("p")["statesAreOld"], False)
                elsewhere = ["unshare", "--pid", "--fork", "--mount-proc"] + host.argv("status", "p")
                contains(subprocess.run(elsewhere, stdout=subprocess.PIPE, text=True, check=True).stdout, "old states: the current ones")
                contains(host.finish(wait).expect(1).err, "The supervisor of pod p does not respond")
            equal(host.acnspawn("wait", "p", "one").rc, 7)
            host.acnspawn("start-app", "p", "one").expect(0)
            wait_for(lambda: exits(host, "p")["one"] == ("running", None), "the state of app one")
            host.acnspawn("stop-app", "p", "two").expect(0)
            equal(exits(host, "p"), {"one": ("running", None), "two": ("ended", 3)})
        record = os.path.join(host.one_pod(), "status", "two")
        wait_for(lambda: "=ended" in read_text(record), "the record on disk")
        equal(exits(host, "p"), {"one": ("running", None), "two": ("ended", 3)})
        host.acnspawn("stop", "p").expect(0)
        equal(host.acnspawn("wait", "p", "two").rc, 3)


@case
def full_disk_during_fetch(host):
    on_small_disk(host, 96)
    try:
        small = host.shell("true", name="example.com/small")
        large = host.shell("true", name="example.com/large", files={"big": File(os.urandom(40 << 20))})
        r = host.acnspawn("fetch", small)
        if r.rc != 0:
            raise Skip("no store on a tmpfs here: %s" % r.err)
        r = host.acnspawn("fetch", large).expect(1)
        true("more space" in r.err or "No space left" in r.err, "message: " + r.err)
        equal(len(os.listdir(os.path.join(host.dir, "images"))), 1, "images")
        equal([n for n in os.listdir(os.path.join(host.dir, "tmp")) if n[0] != "."], [], "rubbish")
        host.acnspawn("prepare", "example.com/small").expect(0)
    finally:
        subprocess.run(["umount", "-l", host.dir], check=True)


@case
def full_disk_during_prepare(host):
    """With various amounts of free space: a complete pod or none."""
    on_small_disk(host, 96)
    try:
        r = host.acnspawn("fetch", host.shell("true", name="example.com/small"))
        if r.rc != 0:
            raise Skip("no store on a tmpfs here: %s" % r.err)
        failed = 0
        for free in range(0, 160, 8):
            filler = os.path.join(host.dir, "tmp", ".filler")
            room = os.statvfs(host.dir).f_bavail * os.statvfs(host.dir).f_frsize - free * 1024
            with open(filler, "wb") as f:
                with contextlib.suppress(OSError):
                    os.posix_fallocate(f.fileno(), 0, max(room, 1))
            r = host.acnspawn("prepare", "example.com/small")
            os.unlink(filler)
            failed += r.rc != 0
            if r.rc == 0:
                host.acnspawn("rm", r.out.strip()).expect(0)
            else:
                equal(r.rc, 1, "exit status")
                contains(r.err, "No space left", "message")
                equal(r.out, "", "stdout")
                equal(host.pods(), [], "pods")
        true(failed > 0, "the disk was never full")
        host.acnspawn("prepare", "example.com/small").expect(0)
    finally:
        subprocess.run(["umount", "-l", host.dir], check=True)


@case
@with_timeout(400)
def killed_at_many_points_of_fetch(host):
    need_strace()
    image = host.shell("true", name="example.com/a")
    total = count_calls(host, "fetch", image)
    host.acnspawn("image", "rm", "example.com/a").expect(0)
    true(total > 20, "only %d system calls seen" % total)
    killed = 0
    for n in spread(total, 30):
        killed += kill_at(host, n, "fetch", image) != 0
        images = os.listdir(os.path.join(host.dir, "images")) if os.path.exists(os.path.join(host.dir, "images")) else []
        for i in images:
            true({"manifest", "rootfs"} <= set(os.listdir(os.path.join(host.dir, "images", i))), "half an image is in the store")
            host.acnspawn("image", "rm", i).expect(0)
    true(killed >= 10, "only %d times killed" % killed)
    empty_after_gc(host)
    usable(host, image)


@case
@with_timeout(400)
def killed_at_many_points_of_prepare(host):
    need_strace()
    image = host.shell("true", name="example.com/a", app={"mountPoints": [{"name": "data", "path": "/data"}]})
    host.acnspawn("fetch", image).expect(0)
    total = count_calls(host, "prepare", "--name=web", "example.com/a")
    empty_after_gc(host)
    true(total > 20, "only %d system calls seen" % total)
    killed = 0
    for n in spread(total, 40):
        killed += kill_at(host, n, "prepare", "--name=web", "example.com/a") != 0
        for pod in json.loads(host.acnspawn("list", "--json=short").expect(0).out):
            true(pod["state"] != "running", "a pod that was never run is shown as running: %r" % pod)
        empty_after_gc(host)
    true(killed >= 10, "only %d times killed" % killed)
    host.prepare("--name=web", "example.com/a")


@case
@with_timeout(400)
def killed_at_many_points_of_gc(host):
    need_strace()
    image = host.shell("mkdir -p /srv/a/b/c; echo x >/srv/a/b/c/f", name="example.com/a")
    host.run("--name=web", image)
    saved = host.path("saved")
    subprocess.run(["cp", "-a", host.dir, saved], check=True)
    total = count_calls(host, "gc", "--grace-period=0")
    true(total > 10, "only %d system calls seen" % total)
    killed = 0
    for n in spread(total, 30):
        shutil.rmtree(host.dir)
        subprocess.run(["cp", "-a", saved, host.dir], check=True)
        killed += kill_at(host, n, "gc", "--grace-period=0") != 0
        host.acnspawn("list").expect(0)
        empty_after_gc(host)
    true(killed > 10, "only %d times killed" % killed)
    usable(host, "example.com/a")


@case
@with_timeout(400)
def killed_at_many_points_of_rm(host):
    need_strace()
    image = host.shell("true", name="example.com/a")
    host.acnspawn("fetch", image).expect(0)
    host.prepare("--name=web", "example.com/a")
    total = count_calls(host, "rm", "web")
    for n in spread(total, 15):
        host.prepare("--name=web", "example.com/a")
        kill_at(host, n, "rm", "web")
        empty_after_gc(host)
    usable(host, "example.com/a")


def started(host, name="p"):
    """A pod being run in the foreground; returns the process of acnspawn."""
    image = host.path("image.aci")
    if not os.path.exists(image):
        os.rename(host.shell("touch /out/up; exec sleep 1000", name="example.com/a"), image)
        host.acnspawn("fetch", image).expect(0)
    uuid = host.prepare("--name=" + name, "example.com/a")
    return uuid, host.start("run", uuid)


def after_the_kill(host, uuid):
    settle(host)
    # A process that is just exiting holds its locks until its memory is released.
    wait_for(lambda: host.state(uuid) in ("exited", "prepared"), "the end of the pod")
    if host.state(uuid) == "exited":
        true(host.status(uuid)["exitStatus"] != 0, "a pod that was killed counts as a success")
    host.acnspawn("gc", "--grace-period=0", "--expire-prepared=0").expect(0)
    equal(host.pods(), [], "pods after gc")
    left = [x for x in host.leftovers()]
    equal(left, [], "left behind")


MOMENTS = [0.0, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.07, 0.09, 0.12, 0.15, 0.2, 0.3, 0.5, 0.8]


@case
@with_timeout(600)
def acnspawn_killed_at_many_moments_of_run(host):
    """The pod ends with the one that ran it."""
    for moment in MOMENTS:
        uuid, p = started(host)
        time.sleep(moment)  # any time
        p.kill()
        p.wait()
        after_the_kill(host, uuid)
    host.acnspawn("run", "--rm", "example.com/a", "--exec=/bin/true").expect(0)


def pid_of(host, wanted):
    """The first process of this case whose command line begins with WANTED."""
    for pid, line in find_processes(host):
        if os.path.basename(line.split()[0] if line.split() else "") == wanted:
            return pid
    return None


@case
@with_timeout(600)
def nspawn_killed_at_many_moments(host):
    for moment in (0.0, 0.01, 0.03, 0.06, 0.1, 0.2, 0.5):
        uuid, p = started(host)
        pid = wait_for(lambda: host.note_pods() or pid_of(host, "systemd-nspawn"), "systemd-nspawn", interval=0)
        time.sleep(moment)  # any time
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        r = host.finish(p, 30)
        true(r.rc != 0, "acnspawn counts it as a success: %s" % r)
        after_the_kill(host, uuid)


@case
@with_timeout(600)
def first_process_of_the_pod_killed(host):
    for moment in (0.0, 0.05, 0.2, 0.5):
        uuid, p = started(host)
        host.wait_up("a", uuid)
        time.sleep(moment)  # any time
        os.kill(host.leader(uuid), signal.SIGKILL)
        r = host.finish(p, 30)
        true(r.rc != 0, "acnspawn counts it as a success: %s" % r)
        status = host.status(uuid)
        true(status["apps"][0]["cause"] in ("pod-killed", "signal"), "cause %r" % status["apps"][0]["cause"])
        true(r.err.strip(), "no message")
        after_the_kill(host, uuid)


@case
@with_timeout(300)
def everything_killed_at_once(host):
    for moment in (0.02, 0.1, 0.4):
        uuid, p = started(host)
        time.sleep(moment)  # any time
        host.note_pods()
        for pid in [p.pid] + host.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        p.wait()
        host.kill_pods()
        after_the_kill(host, uuid)


@case
def that_a_pod_runs_is_on_disk_before_its_apps_begin(host):
    """Otherwise it could run twice after a power failure. The pod's systemd does not wait for the disk."""
    need_strace()
    uuid = host.prepare(host.shell("true"))
    log = host.path("strace.log")
    subprocess.run(["strace", "-f", "-y", "-qq", "-o", log, "-e", "trace=fsync,clone,mount"] + host.argv("run", uuid), check=True,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=100)
    host.note_pods()
    calls = read_text(log).splitlines()

    def first(*words):
        return next((i for i, c in enumerate(calls) if all(w in c for w in words)), None)
    started, ended = first("clone(", "CLONE_NEWPID"), first('mount("overlay"')
    for place in ("running", "prepared"):
        synced = first("fsync(", "/pods/%s>" % place)
        true(synced is not None and started < synced < ended, "pods/%s: %r of %r, %r" % (place, synced, started, ended))


@case
@with_timeout(300)
def detached_supervisor_killed(host):
    uuid = host.detach("--name=p", host.shell("touch /out/up; exec sleep 1000", name="example.com/a"))
    host.wait_up("a")
    pids = [pid for pid, line in find_processes(host) if os.path.basename(line.split()[0]) == "supervise"]
    true(pids, "no supervisor: %r" % find_processes(host))
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    after_the_kill(host, uuid)


@case
def stopped_systemd_of_the_pod_does_not_hang_stop(host):
    """PID 1 of the pod does not respond: "stop --force" still ends it."""
    uuid = host.detach(host.shell("touch /out/up; exec sleep 1000", name="example.com/a"))
    host.wait_up("a")
    os.kill(host.leader(uuid), signal.SIGSTOP)
    host.acnspawn("stop", "--force", uuid, timeout=30).expect(0)
    after_the_kill(host, uuid)


@case
@with_timeout(600)
def interrupts_at_many_moments_with_rm(host):
    """By Ctrl-C, which reaches every process of the group, and a second one soon after: --rm still removes the pod."""
    image = host.shell("touch /out/up; exec sleep 1000", name="example.com/a")
    host.acnspawn("fetch", image).expect(0)
    for moment in [0.03 + 0.002 * i for i in range(30)] + MOMENTS[-6:]:
        p = host.start("run", "--rm", "example.com/a", start_new_session=True)
        time.sleep(moment)  # any time
        for _ in range(2):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(p.pid, signal.SIGINT)
            time.sleep(0.04)  # before or after the first one was taken
        r = host.finish(p, 30)
        # While the pod is prepared, or removed, acnspawn does not wait for a second signal.
        equal([x for x in host.pods() if "/running/" in x or "/exited/" in x], [], "pods after Ctrl-C at %g: %s" % (moment, r))


@case
def immutable_files(host):
    """An app without a user namespace can have the capability to set these flags."""
    if not shutil.which("chattr"):
        raise Skip("chattr is missing (Debian package e2fsprogs)")
    host.run("--no-userns", host.shell("echo x >/f", name="example.com/a"))
    uuid = os.path.basename(host.one_pod())
    if subprocess.run(["chattr", "+i", host.upper("a") + "/f"], stderr=subprocess.DEVNULL).returncode != 0:
        raise Skip("the file system has no immutable files")
    try:
        r = host.acnspawn("rm", uuid).expect(1)
        contains(r.err, "Operation not permitted")
        contains(r.err, "chattr -R -i -a %s" % host.one_pod())
    finally:
        subprocess.run(["chattr", "-R", "-i", host.one_pod()], stderr=subprocess.DEVNULL)
    host.acnspawn("rm", uuid).expect(0)


@case
def cgroups_as_deep_as_an_app_may_nest_them(host):
    """Deeper than any path can be."""
    uuid = host.detach(host.shell("touch /out/up; exec sleep 1000", name="example.com/a"))
    host.wait_up("a", uuid)
    line = next(l for l in read_text("/proc/%d/cgroup" % host.leader(uuid)).splitlines() if l.startswith("0::"))
    top = "/sys/fs/cgroup/unified" if os.path.exists("/sys/fs/cgroup/unified/cgroup.procs") else "/sys/fs/cgroup"
    fd = os.open(top + line[3:].split(uuid)[0] + uuid, os.O_RDONLY)
    for _ in range(40):
        os.mkdir("x" * 200, dir_fd=fd)
        below = os.open("x" * 200, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    host.acnspawn("stop", "--force", uuid).expect(0)
    after_the_kill(host, uuid)


@case
def interrupt_twice_is_force(host):
    """An app that ignores SIGTERM does not block the user: repeated Ctrl-C kills the pod."""
    uuid = host.prepare("--stop-timeout=60s", host.shell("trap '' TERM; touch /out/up; while :; do sleep 0.1; done",
                                                        name="example.com/a"))
    p = host.start("run", uuid)
    host.wait_up("a", uuid)
    p.send_signal(signal.SIGINT)
    wait_at_rest(p.pid)
    p.send_signal(signal.SIGINT)
    r = host.finish(p, 20)
    true(r.rc != 0, "a pod ended by force counts as a success")
    settle(host)


@case
def requests_of_others_are_no_second_interrupt(host):
    """On shutdown the host requests the end of a pod in two ways; the end of a session is SIGTERM followed by
    SIGHUP."""
    script = "trap '" + pauses(1) + "; exit 7' TERM; touch /out/up; while :; do sleep 0.1; done"

    def asked(*signals, first=None):
        uuid = host.prepare(host.shell(script, name="example.com/a"))
        p = host.start("run", uuid)
        host.wait_up("a", uuid)
        other = host.start(first, uuid) if first else None
        for number in signals:
            wait_at_rest(p.pid)
            p.send_signal(number)
        equal(host.finish(p, 30).rc, 7, "status after %s %r" % (first, signals))
        if other:
            host.finish(other, 30)

    asked(signal.SIGTERM, signal.SIGHUP)
    asked(signal.SIGHUP, signal.SIGHUP, signal.SIGTERM)
    asked(signal.SIGTERM, first="stop")


HOST_UIDS = "/var/lib/acnspawn-uids"


@case
@with_timeout(400)
def pods_of_two_stores_share_no_users(host):
    """A hundred pods in each, made by eight processes at a time. What is left when a store is deleted, any gc on the host removes."""
    image = host.image()
    stores = [host.dir, host.path("other")]
    argv = [[ACNSPAWN, "--dir=" + store, "prepare", "--quiet"] for store in stores]
    for command in argv:
        subprocess.run(command[:2] + ["fetch", image], check=True, stdout=subprocess.DEVNULL)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(subprocess.run, argv[i % 2] + ["example.com/image1"], stdout=subprocess.PIPE, text=True, check=True)
                for i in range(200)]
        uuids = [job.result().stdout.strip() for job in jobs]
    bases = set()
    for i, uuid in enumerate(uuids):
        with open(os.path.join(stores[i % 2], "pods/prepared", uuid, "config")) as f:
            bases.add(json.load(f)["uidBase"])
    equal(len(bases), 200, "ranges of 200 pods")
    for i, uuid in enumerate(uuids):
        true(any(os.readlink(os.path.join(HOST_UIDS, str(base))) == "%s:%s" % (uuid, os.path.realpath(stores[i % 2]))
                 for base in bases), "pod %s is in %s" % (uuid, HOST_UIDS))
    host.acnspawn("rm", *uuids[0::2], timeout=120).expect(0)
    left = {base for base in bases if os.path.islink(os.path.join(HOST_UIDS, str(base)))}
    equal(len(left), 100, "ranges when the pods of one store are gone")
    # If a store is deleted, the resources of its pods are released.
    shutil.rmtree(stores[1])
    # So does the gc of another test meanwhile, which is told of them then.
    out = host.acnspawn("gc").expect(0).out
    true(any("uids %d" % base in out for base in left), out)
    true(not any(os.path.islink(os.path.join(HOST_UIDS, str(base))) for base in bases), "all ranges are free")


main()
