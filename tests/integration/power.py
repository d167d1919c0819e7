#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The power fails at any step of what changes a pod, an image, a volume or a trusted key: what was there before, or what
replaces it, is there afterwards, and nothing else is lost.

The store is on a file system of its own, on a loop device. strace stops acnspawn, and the supervisor of a pod, after each
system call that changes something; then the file behind the device is copied, which has what a disk would have at that
moment: of data and metadata that were not synced, nothing. Journaling file systems write metadata earlier than data, and any
program that syncs a file of its own makes them do so: at every other step the case does that first, as a neighbour. Each copy is mounted where the
store was. Then the pod is listed and run again, volumes that no pod uses can be removed, and gc removes no pod.

Without copies, and so at few steps: the file system is shut down by ioctl, with and without its journal written.

With ACNSPAWN_TEST_LONG=1 every step is looked at, on ext4 and XFS, otherwise a few of them.
"""

import fcntl
import select
import signal
import struct

from harness import *

LONG = os.environ.get("ACNSPAWN_TEST_LONG") == "1"
CALLS = CHANGES + ",fdatasync,syncfs,fchmod,symlink,link,unlink,ftruncate,utimensat"

# ext4 writes data of a file that replaces another before the rename, unless it is told not to; other file systems do not.
# Its journal is committed when a program syncs something, and not by the time meanwhile.
FILE_SYSTEMS = {
    "ext4": (192, ["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1"], "noauto_da_alloc,commit=600"),
    "xfs": (320, ["mkfs.xfs", "-q", "-f"], "nouuid"),
}

# Ends soon in a pod that is run after the loss of power; until then it stays.
APP = """if [ -e /data/once ]; then cat /data/precious; echo VERSION > /data/ran-$AC_APP_NAME; exit 0; fi
trap 'exit 0' TERM; touch /data/up-$AC_APP_NAME; while :; do sleep 0.05; done"""


class Disk:
    """A file system for the store of a case."""

    def __init__(self, host, kind):
        self.host, self.kind, self.copies = host, kind, 0
        size, mkfs, self.options = FILE_SYSTEMS[kind]
        self.file = host.path("disk")
        if not shutil.which(mkfs[0]):
            raise Skip("%s is missing" % mkfs[0])
        with open(self.file, "wb") as f:
            f.truncate(size << 20)
        subprocess.run(mkfs + [self.file], check=True, stdout=subprocess.DEVNULL)
        os.mkdir(host.dir, 0o700)
        self.mount(self.file)
        os.chmod(host.dir, 0o700)

    def mount(self, file):
        """The kernel detaches the loop device with the file system, even if nothing of this program is left to do so."""
        p = subprocess.run(["mount", "-t", self.kind, "-o", "loop," + self.options, file, self.host.dir], stderr=subprocess.PIPE, text=True)
        if p.returncode != 0:
            raise Skip("%s on a loop device cannot be mounted here: %s" % (self.kind, p.stderr))
        number = os.stat(self.host.dir).st_dev
        self.statistics = "/sys/dev/block/%d:%d/stat" % (os.major(number), os.minor(number))

    def unmount(self):
        """Processes of a pod that was killed may be in it, or have it mounted, for a moment."""
        wait_for(lambda: subprocess.run(["umount", self.host.dir], stderr=subprocess.DEVNULL).returncode == 0, "umount of the store")
        backing = os.path.join(os.path.dirname(self.statistics), "loop/backing_file")

        def is_gone():
            with contextlib.suppress(FileNotFoundError):
                return self.host.tmp not in read_text(backing)
            return True
        wait_for(is_gone, "the last mount of the store to go")

    def written(self):
        return read_text(self.statistics).split()[6]

    def copy(self, to):
        subprocess.run(["cp", "--sparse=always", self.file, to], check=True)

    def sync_neighbour(self):
        """Writes the metadata of all files, and the data of this one."""
        with open(os.path.join(self.host.dir, ".neighbour"), "a") as f:
            f.write("x")
            f.flush()
            os.fsync(f.fileno())


class Step:
    def __init__(self, verb, number, call, file):
        self.verb, self.number, self.call, self.file = verb, number, call, file

    def __str__(self):
        return "a loss of power in %s at step %d (%s)" % (self.verb, self.number, self.call)


def stopped(host, argv, pids, at_stop):
    """Runs ARGV, and calls AT_STOP(number, system call) after each call of it, and of PIDS, that changes something; all of the process
    that has made it is stopped meanwhile. It ends when AT_STOP returns True. Programs that are executed are not of interest."""
    fifo = host.path("trace")
    if not os.path.exists(fifo):
        os.mkfifo(fifo)
    pipe = os.open(fifo, os.O_RDWR)
    options = [x for pid in pids for x in ("-p", str(pid))]
    p = subprocess.Popen(["strace", "-f", "-q", "-I2", "-b", "execve", "-o", fifo, "-e", "trace=" + CALLS, "-e", "inject=" + CALLS + ":signal=STOP", "-s", "200",
                          *options, *argv], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                         start_new_session=True, env=dict(os.environ, ACNSPAWN_CONFIG_DIR=host.path("config")))
    host.children.append(p)
    number, last, rest, ended = 0, {}, b"", False
    while p.poll() is None:
        r, _, _ = select.select([pipe], [], [], 0.02)
        if not r:
            if number and not ended and all(has_ended(c) for c in children_of(p.pid)): # with -p strace goes on after its command has ended
                ended = True
                p.send_signal(signal.SIGINT)
            continue
        rest += os.read(pipe, 65536)
        *lines, rest = rest.split(b"\n")
        for line in lines:
            m = re.match(r"(\d+)\s+(.*)", line.decode(errors="replace"))
            if not m:
                continue
            pid, text = int(m[1]), m[2]
            if "stopped by SIGSTOP" in text:
                number += 1
                ended = at_stop(number, last.get(pid, "")) is True or ended
                if ended:
                    p.send_signal(signal.SIGINT)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            elif text.startswith("<... "):
                last[pid] = last.get(pid, "").replace(" <unfinished ...>", "") + text.partition(" resumed>")[2]
            elif not text.startswith(("---", "+++")):
                last[pid] = text
    os.close(pipe)
    return number


# --- Losses of power -----------------------------------------------------------------------------------------------------

# What others can see of a step: names. What is in a file is of interest when it gets its name.
NAMED = re.compile(r"(mkdir|rename|symlink|link|unlink)(at2?)?\b")


def is_sampled(call):
    if not NAMED.match(call) or " = -1" in call or "/sys/fs/" in call:
        return False
    return LONG or call.startswith("rename")


def some(steps):
    """Without ACNSPAWN_TEST_LONG one in the middle, and those of the end."""
    n = len(steps)
    return steps if LONG or n <= 3 else [steps[i] for i in sorted({n // 2, n - 3, n - 1})]


def losses(disk, args, pids=(), busy=False):
    """Runs acnspawn; the disks that losses of power at its steps leave behind. BUSY: a neighbour syncs at each step."""
    host, found, before, verb = disk.host, [], [disk.written()], " ".join(args)
    argv = host.argv(*args)

    def keep(number, call):
        disk.copies += 1
        file = host.path("loss%d" % disk.copies)
        disk.copy(file)
        found.append(Step(verb, number, call, file))

    def at_stop(number, call):
        if busy and is_sampled(call):
            disk.sync_neighbour()
            keep(number, call)
        elif not busy and disk.written() != before[0]:
            before[0] = disk.written()
            keep(number, call)
    total = stopped(host, argv, pids, at_stop)
    true(total > 20, "only %d system calls seen of %r" % (total, argv))
    keep(total, "the end")
    if busy:
        disk.sync_neighbour()
        keep(total, "the end, and a neighbour's sync")
    chosen = some(found)
    for step in found:
        if step not in chosen:
            os.unlink(step.file)
    return chosen


def kill_users(host):
    """Of the store itself nothing may be readable: kills processes that have it mounted, other than in the mount namespace of this program, or name
    it. Returns their pids."""
    own = os.readlink("/proc/self/ns/mnt")

    def uses(pid):
        with contextlib.suppress(OSError):  # those of zombies and of the host cannot be read
            if pid != os.getpid() and os.readlink("/proc/%d/ns/mnt" % pid) != own and host.tmp in read_text("/proc/%d/mountinfo" % pid):
                return True
        return pid != os.getpid() and host.tmp in read_text("/proc/%d/cmdline" % pid)
    pids = processes_where(uses)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return pids


def end_all(host):
    wait_for(lambda: not kill_users(host), "the end of all processes")


def remove_cgroups(host):
    """Of pods that were killed."""
    for cgroup in sorted(cgroups() - host.before["cgroup"], reverse=True):
        if belongs_to(host, "cgroup", cgroup):
            with contextlib.suppress(OSError):
                os.rmdir(cgroup)


def look(host, step, expected):
    """At what a loss of power has left. EXPECTED: what the apps of pod web may write when it is run again; none: it is not to be there."""
    def acnspawn(*args):
        r = host.acnspawn(*args)
        if r.rc != 0 or "damaged" in r.err:
            fail("%s, after %s" % (r, step))
        return r
    pods = [p for p in json.loads(acnspawn("list", "--json=short").out) if p["state"] in ("prepared", "running", "exited")]
    for p in pods:
        acnspawn("cat-manifest", p["uuid"])
        acnspawn("status", p["uuid"])
    acnspawn("image", "list")
    acnspawn("volume", "list")
    if os.path.exists(host.dir + "/volumes/spare"):
        acnspawn("volume", "rm", "spare")
    acnspawn("gc")
    equal(sorted(p["uuid"] for p in json.loads(acnspawn("list", "--json=short").out)), sorted(p["uuid"] for p in pods), "pods after gc, after %s" % step)
    data, ran = host.dir + "/volumes/keep/data", {}
    equal(read_text(data + "/precious"), "precious\n", "data that was there before, after %s" % step)
    if [p for p in pods if p["name"] == "web"]:
        with open(data + "/once", "w"):
            pass
        for name in os.listdir(data):
            if name.startswith("ran-"):
                os.unlink(os.path.join(data, name))
        acnspawn("run", "web")
        ran = {n[4:]: read_text(os.path.join(data, n)).strip() for n in os.listdir(data) if n.startswith("ran-")}
    contains(expected, ran, "apps of the pod, after %s, of %r" % (step, pods))


def look_at_all(disk, found):
    """FOUND has pairs of steps and what is expected after each."""
    host = disk.host
    for steps, expected in found:
        for step in steps:
            disk.mount(step.file)
            try:
                look(host, step, expected)
            finally:
                end_all(host)
                with contextlib.suppress(OSError):
                    host.note_pods()
                disk.unmount()
                remove_cgroups(host)
        for step in steps:
            os.unlink(step.file)


class Store:
    """With images "one" and "two" of an app, a volume that a pod uses, and another that none does."""

    def __init__(self, host, kind):
        self.disk, self.host = Disk(host, kind), host
        points = {"mountPoints": [{"name": "data", "path": "/data"}]}
        self.images = [host.shell(APP.replace("VERSION", v), name="example.com/db", app=points, labels=[{"name": "version", "value": v}])
                       for v in ("one", "two")]
        for volume in "keep", "spare":
            host.acnspawn("volume", "create", "--mode=0777", volume).expect(0)
        with open(host.dir + "/volumes/keep/data/precious", "w") as f:
            f.write("precious\n")

    def words(self, args):
        return [a.replace("ONE", self.images[0]).replace("TWO", self.images[1]) for a in args]

    def sync(self):
        fd = os.open(self.host.dir, os.O_RDONLY)
        ctypes.CDLL(None).syncfs(fd)
        os.close(fd)

    def declare(self, tasks):
        os.makedirs(self.host.path("config/pods"), exist_ok=True)
        with open(self.host.path("config/pods/web.pod"), "w") as f:
            f.write("[Pod]\nVolume=data,kind=named,source=keep\n[App db]\nImage=%s\nTasksMax=%d\n" % (self.images[0], tasks))

    def run(self):
        """Runs pod web."""
        self.declare(100)
        uuid = self.host.acnspawn("run", "--detach", "--declared=web", env=dict(os.environ, ACNSPAWN_CONFIG_DIR=self.host.path("config"))).expect(0).out.strip()
        wait_for(lambda: os.path.exists(self.host.dir + "/volumes/keep/data/up-db"), "app db to run")
        return uuid


@contextlib.contextmanager
def store(host, kind):
    need_strace()
    s = Store(host, kind)
    try:
        yield s
    finally:
        end_all(host)
        s.disk.unmount()
        remove_cgroups(host)


# --- Cases ---------------------------------------------------------------------------------------------------------------

ONE, TWO = {"db": "one"}, {"db": "two"}
SECOND, THIRD = {"db": "two", "second": "one"}, {"db": "two", "third": "one"}

# Calls that change a pod that runs, and what its apps are before and after.
RUNNING = (
    (("apply", "web"), ONE, ONE),
    (("update-app", "web", "db", "--image=TWO"), ONE, TWO),
    (("add-app", "web", "ONE", "--name=second"), TWO, SECOND),
    (("rm-app", "--force", "web", "second"), SECOND, TWO),
    (("launch-group", "web", "ONE", "--name=third"), TWO, THIRD),
)

# Others, with a pod that has run.
OTHERS = (
    (("fetch", "TWO"), ONE, ONE),
    (("volume", "create", "another"), ONE, ONE),
    (("prepare", "--name=other", "--volume=data,kind=named,source=another", "TWO"), ONE, ONE),
    (("run", "web"), ONE, ONE),
    (("rm", "other"), ONE, ONE),
    (("volume", "rm", "another"), ONE, ONE),
    (("image", "rm", "example.com/db:two"), ONE, ONE),
    (("rm", "web"), ONE, {}),
    (("gc", "--grace-period=0"), {}, {}),
)


def a_running_pod_changes(host, kind, busy):
    with store(host, kind) as s:
        uuid, found = s.run(), []
        s.declare(50)
        for args, before, after in RUNNING:
            s.sync()  # the last change was long ago
            steps = losses(s.disk, s.words(args), [host.supervisor(uuid)], busy)
            equal({a["name"]: a["image"]["labels"][0]["value"] for a in json.loads(host.acnspawn("cat-manifest", "web").expect(0).out)["apps"]},
                  after, "apps after %r" % (args,))
            found.append((steps, (before, after)))
            equal(steps[-1].verb, " ".join(s.words(args)))
        host.acnspawn("rm", "--force", "web").expect(0)
    look_at_all(s.disk, found)


def a_store_changes(host, kind, busy):
    with store(host, kind) as s:
        s.run()
        with open(host.dir + "/volumes/keep/data/once", "w"):
            pass
        host.acnspawn("stop", "web").expect(0)
        found = []
        for args, before, after in OTHERS:
            s.sync()
            found.append((losses(s.disk, s.words(args), (), busy), (before, after)))
            settle(host)  # the pod that was run ends
    look_at_all(s.disk, found)


@case
@with_timeout(1200)
def a_running_pod_is_changed_beside_a_neighbour_that_syncs(host):
    a_running_pod_changes(host, "ext4", True)


@case
@with_timeout(1200)
def a_store_is_changed_beside_a_neighbour_that_syncs(host):
    a_store_changes(host, "ext4", True)


def long_case(function, kind, busy):
    def run(host):
        if not LONG:
            raise Skip("only with ACNSPAWN_TEST_LONG=1")
        function(host, kind, busy)
    run.__name__ = "%s_on_%s_%s" % (function.__name__, "busy" if busy else "quiet", kind)
    case(with_timeout(1800)(run))


for _function in a_running_pod_changes, a_store_changes:
    for _kind, _busy in ("ext4", False), ("xfs", True), ("xfs", False):
        long_case(_function, _kind, _busy)


FS_IOC_SHUTDOWN = 0x8004587d  # _IOR('X', 125, __u32)
LOGFLUSH, NOLOGFLUSH = 1, 2


def shut_down(host, kind, flags, at):
    """The file system is shut down when an app is updated: at the step AT, or at the end."""
    with store(host, kind) as s:
        uuid = s.run()
        s.sync()
        seen = []

        def now(number, call):
            fd = os.open(host.dir, os.O_RDONLY)
            try:
                fcntl.ioctl(fd, FS_IOC_SHUTDOWN, struct.pack("I", flags))
            except OSError as e:
                raise Skip("%s cannot be shut down here: %s" % (kind, e))
            finally:
                os.close(fd)
            seen.append(Step("update-app, by ioctl", number, call, None))
            return True
        stopped(host, host.argv(*s.words(("update-app", "web", "db", "--image=TWO"))), [host.supervisor(uuid)],
                lambda number, call: not seen and at and re.search(at, call) and now(number, call))
        if not seen and not at:
            now(0, "the end")
        true(seen, "no system call %r was seen" % at)
        end_all(host)
        s.disk.unmount()
        s.disk.mount(s.disk.file)
        look(host, seen[0], (ONE, TWO))


@case
@with_timeout(600)
def the_file_system_is_shut_down(host):
    points = [("xfs" if shutil.which("mkfs.xfs") else "ext4", LOGFLUSH, r'renameat\(.*"pod"\)')]
    if LONG:
        points = [(kind, flags, at) for kind in FILE_SYSTEMS for flags in (LOGFLUSH, NOLOGFLUSH)
                  for at in (r'/definition"\)', r'"pod\..*tmp"', r'renameat\(.*"pod"\)', r'"\.removed', None)]
    for kind, flags, at in points:
        shut_down(host, kind, flags, at)
        shutil.rmtree(host.dir)


def syncs_of_supervisor(host, uuid, *args):
    """How often the supervisor, and what it forks, waits for the disk while acnspawn is run."""
    log = host.path("syncs")
    pid = host.supervisor(uuid)
    p = subprocess.Popen(["strace", "-f", "-qq", "-p", str(pid), "-o", log, "-e", "trace=fsync,fdatasync,syncfs"], stderr=subprocess.DEVNULL)
    host.children.append(p)
    wait_for(lambda: tracer_of(pid) != 0, "strace to attach")
    host.acnspawn(*args).expect(0)
    p.send_signal(signal.SIGINT)
    p.wait(20)
    lines = [line for line in read_text(log).splitlines() if re.search(r"\d+\s+(fsync|fdatasync|syncfs)\(", line)]
    true(all("fsync" in line for line in lines), "syncs of single files: %r" % lines)
    return len(lines), {line.split()[0] for line in lines}, pid


@case
def changes_wait_for_the_disk_as_seldom_as_they_can(host):
    """Two syncs for the manifest, also of several apps at once, and one for each new file and the directories with their names. The
    supervisor itself never waits."""
    need_strace()
    image = host.shell("trap 'exit 0' TERM; touch /out/up; while :; do sleep 0.05; done", name="example.com/db")
    other = host.shell("trap 'exit 0' TERM; touch /out/up; while :; do :; sleep 0.05; done", name="example.com/db")
    uuid = host.detach("--name=web", image, "--name=db")
    host.wait_up("db", uuid)
    app = ["manifest", "lowers", "launch", "definition", "grants"]
    new = len(app) + 2  # its directory, and "apps"
    for args, limit in ((("add-app", "web", image, "--name=second"), new + 2),
                        (("update-app", "web", "db", "--image=" + other), new + 2),
                        (("add-app", "web", "--start", image, "--name=top"), new + 2),
                        (("add-app", "web", "--parent=top", image, "--name=low"), new + 2),
                        (("rm-app", "--force", "web", "second"), 2),
                        (("rm-app", "--force", "web", "top"), 2)):
        n, threads, pid = syncs_of_supervisor(host, uuid, *args)
        true(0 < n <= limit, "%d syncs of %r, expected no more than %d" % (n, args, limit))
        true(str(pid) not in threads, "the supervisor waits for the disk in %r" % (args,))
        if args[0] != "rm-app":
            name = next(n for n in os.listdir(host.pod_dir(uuid) + "/apps") if n.startswith(args[-1][7:]) or n.startswith("db@"))
            equal(sorted(n for n in os.listdir(os.path.join(host.pod_dir(uuid), "apps", name))
                         if os.path.isfile(os.path.join(host.pod_dir(uuid), "apps", name, n))), sorted(app), "files of the app")
    host.acnspawn("rm", "--force", "web").expect(0)


@case
def a_manifest_that_cannot_be_written_changes_nothing_on_disk(host):
    """Also when something else is swept meanwhile: what that manifest has stays."""
    if not shutil.which("chattr"):
        raise Skip("chattr is missing (Debian package e2fsprogs)")
    image = host.shell("trap 'exit 0' TERM; touch /out/up; while :; do sleep 0.05; done", name="example.com/db")
    other = host.shell("trap 'exit 0' TERM; touch /out/up; while :; do :; sleep 0.05; done", name="example.com/db")
    uuid = host.detach("--name=web", image, "--name=db")
    host.wait_up("db", uuid)
    host.acnspawn("add-app", "web", image, "--name=second").expect(0)
    pod = host.pod_dir(uuid)
    before = read_text(pod + "/pod")
    if subprocess.run(["chattr", "+i", pod + "/pod"], stderr=subprocess.DEVNULL).returncode != 0:
        raise Skip("the file system has no immutable files")
    try:
        refused = "Cannot write 'pod' of pod %s: Operation not permitted" % uuid
        contains(host.acnspawn("add-app", "web", image, "--name=third").expect(1).err, refused)
        contains(host.acnspawn("update-app", "web", "db", "--image=" + other).expect(1).err, refused)
        equal({a["name"]: a["state"] for a in host.status("web")["apps"]}["db"], "running", "the old app")
        contains(host.acnspawn("rm-app", "web", "second").expect(1).err, refused)
        host.acnspawn("add-app", "web", host.path("none.aci"), "--name=fourth").expect(1)
        contains(host.acnspawn("launch-group", "web", image, "--name=third").expect(1).err, refused)
        wait_for(lambda: sorted(n for n in os.listdir(pod + "/apps") if n[0] != ".") == ["db", "second"],
                 lambda: "the directories of the manifest: %s" % os.listdir(pod + "/apps"))
        equal(read_text(pod + "/pod"), before)
    finally:
        subprocess.run(["chattr", "-i", pod + "/pod"], check=True)
    host.acnspawn("add-app", "web", image, "--name=third").expect(0)
    host.acnspawn("add-app", "web", host.path("none.aci"), "--name=fourth").expect(1)
    equal([a["name"] for a in json.loads(read_text(pod + "/pod"))["apps"]], ["db", "third"])
    host.acnspawn("rm", "--force", "web").expect(0)


if __name__ == "__main__":
    # Pods of other programs would get copies of the mounts, and keep them.
    if os.geteuid() == 0:
        ctypes.CDLL(None).unshare(0x20000)  # CLONE_NEWNS
        subprocess.run(["mount", "--make-rslave", "/"], check=True)
    main()
