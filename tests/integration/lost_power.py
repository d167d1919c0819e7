# SPDX-License-Identifier: LGPL-2.1-or-later
"""Losses of power, for tests: the disk as it is at a step of acnspawn, and what is found on it later.

The store is on a file system of its own, on a loop device. strace stops acnspawn, and the supervisor of a pod, after each
system call that changes something; then the file behind the device is copied, which has what a disk would have at that
moment: of data and metadata that were not synced, nothing. Journaling file systems write metadata earlier than data, and any
program that syncs a file of its own makes them do so: at every other step the case does that first, as a neighbour. Each copy is mounted where the
store was, with the boot ID of another boot, and what is in /run is gone. """

import select
import signal
import uuid

from harness import *

LONG = os.environ.get("ACNSPAWN_TEST_LONG") == "1"
LONG_TIMEOUT = 3600  # of a case that looks at each step
CALLS = CHANGES + ",fdatasync,syncfs,fchmod,symlink,link,unlink,ftruncate,utimensat"

# ext4 writes data of a file that replaces another before the rename, unless it is told not to; other file systems do not.
# Its journal is committed when a program syncs something, and not by the time meanwhile.
FILE_SYSTEMS = {
    "ext4": (192, ["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1"], "noauto_da_alloc,commit=600"),
    "xfs": (320, ["mkfs.xfs", "-q", "-f"], "nouuid"),
}

# Ends soon in a pod that is run after the loss of power; until then it stays.
APP = """if [ -e /data/once ]; then cat /data/precious; echo VERSION $(cat "$CREDENTIALS_DIRECTORY/token" 2>/dev/null) > /data/ran-$AC_APP_NAME; exit 0; fi
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

    def is_end(self):
        """Whether acnspawn had reported success."""
        return self.call.startswith("the end")

    def __str__(self):
        return "a loss of power in %s at step %d (%s)" % (self.verb, self.number, self.call)


def stopped(host, argv, pids, at_stop, begin=None, follow=False):
    """Runs ARGV, and calls AT_STOP(number, system call) after each call of it, and of PIDS, that changes something; all of the process
    that has made it is stopped meanwhile. It ends when AT_STOP returns True. Programs that are executed are of interest if FOLLOW, as by "run",
    which executes the supervisor.
    Without ARGV, BEGIN() makes the processes do something, and returns a function that tells whether that is over."""
    fifo = host.path("trace")
    if not os.path.exists(fifo):
        os.mkfifo(fifo)
    pipe = os.open(fifo, os.O_RDWR)
    options = [x for pid in pids for x in ("-p", str(pid))]
    p = subprocess.Popen(["strace", "-f", "-q", "-I2", *([] if follow else ["-b", "execve"]), "-o", fifo, "-e", "trace=" + CALLS, "-e", "inject=" + CALLS + ":signal=STOP", "-s", "200",
                          *options, *argv], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                         start_new_session=True, env=dict(os.environ, ACNSPAWN_CONFIG_DIR=host.path("config")))
    host.children.append(p)
    number, last, rest, ended, is_over = 0, {}, b"", False, None
    while p.poll() is None:
        r, _, _ = select.select([pipe], [], [], 0.02)
        if not r:
            if begin and not is_over:
                is_over = begin() if tracer_of(pids[0]) else None
            elif number and not ended and (is_over() if begin else all(has_ended(c) for c in children_of(p.pid))): # strace -p goes on then
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
    if not NAMED.match(call) or " = -1" in call or re.search("\"/(sys|run|dev|proc)/", call):
        return False
    return LONG or call.startswith("rename")


def some(steps, pick=None):
    """Without ACNSPAWN_TEST_LONG one in the middle, and those of the end; or the first and the last whose system call PICK finds."""
    if pick and not LONG:
        found = [s for s in steps if re.search(pick, s.call)]
        true(found, "no system call %r was seen" % pick)
        return list(dict.fromkeys((found[0], found[-1])))
    n = len(steps)
    return steps if LONG or n <= 3 else [steps[i] for i in sorted({n // 2, n - 3, n - 1})]


def losses(disk, args, pids=(), busy=False, begin=None, pick=None):
    """Runs acnspawn, or what BEGIN begins (see stopped()), which ARGS describe; the disks that losses of power at its steps leave behind. BUSY: a
    neighbour syncs at each step. PICK: see some()."""
    host, found, before, verb = disk.host, [], [disk.written()], " ".join(args)
    argv = [] if begin else host.argv(*args)

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
    total = stopped(host, argv, pids, at_stop, begin, args[0] == "run")
    true(total > 10, "only %d system calls seen of %s" % (total, verb))
    keep(total, "the end")
    if busy:
        disk.sync_neighbour()
        keep(total, "the end, and a neighbour's sync")
    chosen = some(found, pick)
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


REMOVALS = ("rm ", "gc ", "volume rm ", "image rm ")  # what they have removed may be there once more


def expect(step, value, expected, what):
    """EXPECTED: before and after the change. What was reported is on disk."""
    if step.is_end() and not step.verb.startswith(REMOVALS):
        equal(value, expected[1], "%s, after %s" % (what, step))
    else:
        contains(expected, value, "%s, after %s" % (what, step))


def works(host, step):
    """A function that runs acnspawn after a loss of power, which has to succeed."""
    def acnspawn(*args):
        r = host.acnspawn(*args)
        if r.rc != 0 or "damaged" in r.err:
            fail("%s, after %s" % (r, step))
        return r
    return acnspawn


def look(host, step, expected):
    """At what a loss of power has left. EXPECTED: what the apps of pod web may write when it is run again, before and after the
    change; none: it is not there."""
    acnspawn = works(host, step)
    pods = [p for p in json.loads(acnspawn("list", "--json=short").out) if p["state"] in ("prepared", "running", "exited")]
    for p in pods:
        acnspawn("cat-manifest", p["uuid"])
        acnspawn("status", p["uuid"])
    acnspawn("image", "list")
    acnspawn("volume", "list")
    if os.path.exists(host.dir + "/volumes/spare"):
        acnspawn("volume", "rm", "spare")
    acnspawn("gc", "--grace-period=24h") # a long case takes longer than pods that have ended are kept
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
    expect(step, ran, expected, "apps of the pod, of %r" % pods)


@contextlib.contextmanager
def another_boot(host):
    """The kernel has another boot ID, and there is nothing in /run/acnspawn: for this program and what it starts, see be_alone()."""
    places = ["/proc/sys/kernel/random/boot_id", "/run/acnspawn"]
    file = host.path("boot-id")
    with open(file, "w") as f:
        f.write("%s\n" % uuid.uuid4())
    os.makedirs(places[1], exist_ok=True)
    subprocess.run(["mount", "--bind", file, places[0]], check=True)
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0%o" % (os.stat(places[1]).st_mode & 0o777), "lost-power", places[1]], check=True)
        yield
    finally:
        end_all(host)
        for place in reversed(places):
            subprocess.run(["umount", "-l", place], stderr=subprocess.DEVNULL)
        os.unlink(file)


def look_at_all(disk, found, look=look):
    """FOUND has pairs of steps and what is expected after each."""
    host = disk.host
    for steps, expected in found:
        for step in steps:
            disk.mount(step.file)
            try:
                with another_boot(host):
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


def bridge(number, name, directory):
    """The configuration of a network whose plugin for addresses keeps them in this directory."""
    if not all(os.access("/usr/lib/cni/" + p, os.X_OK) for p in ("bridge", "host-local")):
        raise Skip("plugins are missing (Debian package containernetworking-plugins)")
    return json.dumps({"cniVersion": "1.0.0", "name": name, "plugins": [
        {"type": "bridge", "bridge": "acnspawnp%d" % number,
         "ipam": {"type": "host-local", "dataDir": directory, "subnet": "10.9%d.0.0/24" % number}}]})


def leases(host):
    """Of the plugin host-local, which syncs nothing: one may be empty, and names no pod then."""
    return [f for _, _, files in os.walk(host.dir + "/leases") for f in files if f.startswith("10.")]


def loses_power(seconds):
    """Makes cases of a function of the host, the file system, and whether a neighbour syncs: one of its name, on ext4 beside such a neighbour,
    and the others with ACNSPAWN_TEST_LONG=1."""
    def make(function):
        def add(name, bound, *args):
            def run(host):
                if args != ("ext4", True) and not LONG:
                    raise Skip("only with ACNSPAWN_TEST_LONG=1")
                function(host, *args)
            run.__name__ = name
            case(with_timeout(bound)(run))
        add(function.__name__, LONG_TIMEOUT if LONG else seconds, "ext4", True)
        for kind, busy in ("ext4", False), ("xfs", True), ("xfs", False):
            add("%s_on_%s_%s" % (function.__name__, "busy" if busy else "quiet", kind), LONG_TIMEOUT, kind, busy)
        return function
    return make


def be_alone():
    """Before any case: pods of other programs would get copies of the mounts, and keep them; and changes that pods make to the network of the
    host are not visible outside."""
    if os.geteuid() != 0:
        return
    if ctypes.CDLL(None, use_errno=True).unshare(0x20000 | 0x40000000) < 0:  # CLONE_NEWNS, CLONE_NEWNET
        print("SKIP: cannot make a mount and a network namespace")
        sys.exit(77)
    subprocess.run(["mount", "--make-rslave", "/"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
