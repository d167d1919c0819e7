#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The power fails at any step of what changes a pod, an image, a volume or a trusted key: what was there before, or what
replaces it, is there afterwards, and nothing else is lost.

The store is on a file system of its own, on a loop device. strace stops acnspawn, and the supervisor of a pod, after each
system call that changes something; then the file behind the device is copied, which has what a disk would have at that
moment: of data and metadata that were not synced, nothing. Journaling file systems write metadata earlier than data, and any
program that syncs a file of its own makes them do so: at every other step the case does that first, as a neighbour. Each copy is mounted where the
store was. Then the pod is listed and run again, volumes that no pod uses can be removed, and gc removes no pod.

The last case of each file system does the same without copies: the file system itself is shut down by ioctl, without and with
its journal written.

ACNSPAWN_TEST_LONG=1 looks at every step, on ext4 and XFS; else some steps on one of them are looked at.
"""

import fcntl
import select
import signal
import struct
import zlib

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
        self.host, self.kind = host, kind
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
        """Processes of a pod that was killed may be in it for a moment."""
        wait_for(lambda: subprocess.run(["umount", self.host.dir], stderr=subprocess.DEVNULL).returncode == 0, "umount of the store")

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
    def __init__(self, number, call, file):
        self.number, self.call, self.file = number, call, file


def stopped(host, argv, pids, at_stop):
    """Runs ARGV, and calls AT_STOP(number, system call) after each call of it, and of PIDS, that changes something; all of the process
    that has made it is stopped meanwhile."""
    fifo = host.path("trace")
    if not os.path.exists(fifo):
        os.mkfifo(fifo)
    pipe = os.open(fifo, os.O_RDWR)
    options = [x for pid in pids for x in ("-p", str(pid))]
    p = subprocess.Popen(["strace", "-f", "-q", "-I2", "-o", fifo, "-e", "trace=" + CALLS, "-e", "inject=" + CALLS + ":signal=STOP", "-s", "200",
                          *options, *argv], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                         start_new_session=True)
    host.children.append(p)
    number, last, rest, ended = 0, {}, b"", False
    while p.poll() is None:
        r, _, _ = select.select([pipe], [], [], 0.02)
        if not r:
            if not ended and all(has_ended(c) for c in children_of(p.pid)): # with -p strace goes on after its command has ended
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
                at_stop(number, last.get(pid, ""))
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            elif not text.startswith(("---", "+++")):
                last[pid] = text
    os.close(pipe)
    return number


# --- Losses of power -----------------------------------------------------------------------------------------------------

# What others can see of a step: names. What is in a file is of interest when it gets its name.
NAMED = re.compile(r"(<\.\.\. )?(mkdir|rename|symlink|link|unlink)(at2?)?\b")


def is_sampled(number, call):
    if not NAMED.match(call) or " = -1" in call or "/sys/fs/" in call:
        return False
    return LONG or "rename" in call or number % 9 == 0


def losses(disk, argv, pids=(), busy=False):
    """Runs ARGV; the disks that losses of power at its steps leave behind. BUSY: a neighbour syncs at each step."""
    host, found, before = disk.host, [], [disk.written()]

    def keep(number, call):
        file = host.path("loss%d" % len(found))
        disk.copy(file)
        found.append(Step(number, call, file))

    def at_stop(number, call):
        if busy and is_sampled(number, call):
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
    return found


def some(steps):
    """In the short test no more than a few, among which the last ones are."""
    n = len(steps)
    return steps if LONG or n <= 6 else [steps[i * (n - 3) // 3] for i in range(3)] + steps[-3:]


def end_all(host):
    host.kill_pods()
    settle(host)


def look(host, step, expect):
    """With one of the disks. EXPECT(what the apps of pod web have written when it is run again, or None if there is no such pod)."""
    def acnspawn(*args):
        r = host.acnspawn(*args)
        if r.rc != 0 or "damaged" in r.err:
            fail("after a loss of power at step %d (%s): %s" % (step.number, step.call, r))
        return r
    pods = [p for p in json.loads(acnspawn("list", "--json=short").out) if p["name"] == "web"]
    for p in pods:
        acnspawn("cat-manifest", p["uuid"])
        acnspawn("status", p["uuid"])
    acnspawn("image", "list")
    acnspawn("volume", "list")
    if os.path.exists(host.dir + "/volumes/spare"):
        acnspawn("volume", "rm", "spare")
    acnspawn("gc")
    data, ran = host.dir + "/volumes/keep/data", None
    equal(read_text(data + "/precious"), "precious\n", "data that was there before, after a loss of power at step %d (%s)" % (step.number, step.call))
    if pods:
        with open(data + "/once", "w"):
            pass
        for name in os.listdir(data):
            if name.startswith("ran-"):
                os.unlink(os.path.join(data, name))
        acnspawn("run", "web")
        ran = {n[4:]: read_text(os.path.join(data, n)).strip() for n in os.listdir(data) if n.startswith("ran-")}
    if not expect(ran):
        fail("after a loss of power at step %d (%s) the apps of the pod are %s" % (step.number, step.call, ran))


def look_at_all(disk, steps, expect):
    host = disk.host
    for step in some(steps):
        disk.mount(step.file)
        try:
            look(host, step, expect)
        finally:
            end_all(host)
            host.note_pods()
            disk.unmount()
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

    def run(self, *more):
        """Runs pod web, which was long ago when the power fails."""
        uuid = self.host.detach("--name=web", "--volume=data,kind=named,source=keep", self.images[0], "--name=db", *more)
        for app in ["db"] + ["second"] * bool(more):
            wait_for(lambda: os.path.exists(self.host.dir + "/volumes/keep/data/up-" + app), "app %s to run" % app)
        return uuid


def one(ran):
    return ran == {"db": "one"}


def one_or_two(ran):
    return ran in ({"db": "one"}, {"db": "two"})


def perhaps_second(ran):
    return ran in ({"db": "one"}, {"db": "one", "second": "one"}, {"db": "one", "second": "two"})


SECOND = "ONE", "--name=second"
RUNNING = {  # name: (more apps of the pod, call, what there is afterwards)
    "update_app": ((), ("update-app", "web", "db", "--image=TWO"), one_or_two),
    "add_app": ((), ("add-app", "web", "ONE", "--name=second"), perhaps_second),
    "rm_app": (SECOND, ("rm-app", "--force", "web", "second"), perhaps_second),
    "launch_group": ((), ("launch-group", "web", "ONE", "--name=second"), perhaps_second),
}


def each(kind, name, busy):
    more, args, expect = RUNNING[name]

    def run(host):
        need_strace()
        store = Store(host, kind)
        try:
            uuid = store.run(*store.words(more))
            store.sync()
            steps = losses(store.disk, host.argv(*store.words(args)), [host.supervisor(uuid)], busy)
            host.acnspawn("rm", "--force", "web").expect(0)
        finally:
            end_all(host)
            store.disk.unmount()
        look_at_all(store.disk, steps, expect)
    run.__name__ = "%s_on_%s_%s" % (name, "busy" if busy else "quiet", kind)
    case(with_timeout(1200)(run))


for _kind in FILE_SYSTEMS:
    for _busy in True, False:
        for _name in RUNNING:
            each(_kind, _name, _busy)

main()
