# SPDX-License-Identifier: LGPL-2.1-or-later
"""The harness of the integration tests: images built on the fly, acnspawn with a separate store, and a check for
resources that a test has left behind.

A test program is a file of functions marked @case, each of which gets a Host and checks the results; it ends with
main(). Every case prints one line, "ok NAME", "not ok NAME: why" or "skip NAME: why", which tests/run counts.

Images hold a static busybox and the helpers of helpers/, so nothing is downloaded. Every case has a store of its own in
a fresh directory. After a case its pods are killed, and then no mount, cgroup, process, network namespace or runtime
file of the case's store, pods or uid ranges may remain on the host. """

import contextlib
import ctypes
import fcntl
import functools
import io
import json
import os
import re
import secrets
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import termios
import time
import traceback

from pace import patience

ACNSPAWN = os.environ.get("ACNSPAWN", "acnspawn")
if "/" in ACNSPAWN:
    ACNSPAWN = os.path.abspath(ACNSPAWN)  # cases start it from directories of their own
HELPERS = os.environ.get("ACNSPAWN_TEST_HELPERS", "")
# Shells of apps begin their scripts late: shows tests that assume that an app which was started has done something.
LATE = "sleep %s; " % os.environ["ACNSPAWN_TEST_LATE"] if os.environ.get("ACNSPAWN_TEST_LATE") else ""
BUSYBOX = "/bin/busybox"
CASE_TIMEOUT = 180  # seconds for one case, and
RUN_TIMEOUT = 60    # seconds for one acnspawn, before patience()
LONG = 15           # seconds of a case, which are printed
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

# The bounding set that the specification gives an app by default (ace.md, "os/linux/capabilities-remove-set").
DEFAULT_CAPABILITIES = frozenset(
    "AUDIT_WRITE CHOWN DAC_OVERRIDE FSETID FOWNER KILL MKNOD NET_RAW NET_BIND_SERVICE SETUID SETGID SETPCAP SETFCAP "
    "SYS_CHROOT".split())
CAPABILITIES = (
    "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE "
    "NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN "
    "SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE "
    "MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE").split()

# Of the applets of busybox those that a test may use: every link costs at each of a thousand images that are unpacked and removed.
APPLETS = frozenset(
    "[ [[ adjtimex arch ascii ash awk base64 basename bc bzip2 cat chmod chown chroot clear cp cpio cut date dc dd depmod df dirname "
    "dpkg dpkg-deb du echo env false find fold free fstrim getty grep groups gzip halt head hostname httpd id init insmod ip kill last "
    "less link ln logger login ls lzma mkdir mke2fs mkfifo mknod mktemp modprobe more mount mv nc nologin nproc nsenter od passwd patch "
    "pidof ping pivot_root poweroff printf ps pwd readlink realpath reboot reset resume rm rmdir route sed seq setpriv setsid sh "
    "sha256sum sleep sort stat strings stty switch_root sync sysctl tail tar test time timeout top touch tr true truncate tty umount "
    "uname uniq unlink unshare uptime usleep w watch watchdog wc wget which who xargs xz yes".split())


def library(host, name, text):
    """A library to be loaded before others."""
    if not shutil.which("cc"):
        raise Skip("there is no compiler (Debian package gcc)")
    with open(host.path(name + ".c"), "w") as f:
        f.write(text)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", host.path(name + ".so"), host.path(name + ".c"), "-ldl"], check=True)
    return host.path(name + ".so")


def default_signals():
    """For child processes: the caller of the tests may ignore some of these signals, as nohup does, and acnspawn would
    inherit that."""
    for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT:
        signal.signal(number, signal.SIG_DFL)


def take_ignored_signals():
    """Instead of ignoring a signal, as nohup has it, this process handles it by doing nothing: programs that it starts have the default
    action then. Other than default_signals() that takes no fork, for which gRPC of Debian 13 waits forever once it has a channel; Python
    starts programs by vfork if it has nothing to call in between."""
    for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT:
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


class Skip(Exception):
    pass


class Failure(AssertionError):
    pass


def fail(text):
    raise Failure(text)


def equal(got, expected, what="value"):
    if got != expected:
        fail("%s is %r, expected %r" % (what, got, expected))


def true(condition, what):
    if not condition:
        fail(what)


def contains(haystack, needle, what="text"):
    if needle not in haystack:
        fail("%s does not contain %r: %r" % (what, needle, haystack))


def lacks(haystack, needle, what="text"):
    if needle in haystack:
        fail("%s contains %r: %r" % (what, needle, haystack))


def wait_for(function, what, timeout=20, interval=0.02):
    """Calls FUNCTION until it returns something true, and returns that, for TIMEOUT seconds, or as many times more as the machine is slow.
    WHAT may be a function that returns the text. Most of the time is left to what is waited for: on a machine with one processor a function
    that starts programs would take it all."""
    timeout = patience(timeout)
    end = time.monotonic() + timeout
    while True:
        began = time.monotonic()
        value = function()
        if value:
            return value
        now = time.monotonic()
        if now > end:
            fail("%s did not come about within %d s" % (what() if callable(what) else what, timeout))
        time.sleep(max(interval, min(2 * (now - began), 1)))


@contextlib.contextmanager
def within(seconds, what):
    """What is done in this block takes less than SECONDS on a quiet machine, where it would take more than twice as many if it waited for the
    time-out that it is not to wait for."""
    began = time.monotonic()
    yield
    took = time.monotonic() - began
    true(took < patience(seconds), "%s took %.1f s" % (what, took))


def steady(measure, seconds=1):
    """What MEASURE returns once it has returned the same for a while: things that clients of before have used are gone."""
    value, since = measure(), time.monotonic()
    while time.monotonic() - since < seconds:
        time.sleep(0.05)
        now = measure()
        if now != value:
            value, since = now, time.monotonic()
    return value


def nothing_more(measure, before, what, timeout=20):
    """Waits until no number of MEASURE, one or a dictionary of them, is above what it was BEFORE, and what is no number is
    the same."""
    def above(now):
        return {k: "%s, and was %s" % (v, before[k]) for k, v in now.items()
                if (v > before[k] if isinstance(v, int) else v != before[k])}

    def one(value):
        return value if isinstance(value, dict) else {what: value}

    before = one(before)
    timeout = patience(timeout)
    end = time.monotonic() + timeout
    while above(one(measure())):
        if time.monotonic() > end:
            fail("%s: there is more than before for %d s: %s" % (what, timeout, above(one(measure()))))
        time.sleep(0.05)


def pauses(seconds):
    """For the handler of SIGTERM in the script of an app, which is to take so long: many short pauses, and no process that has to survive. systemd
    also signals those that appear while it goes over the cgroup."""
    return "n=0; while [ $((n += 1)) -le %d ]; do sleep 0.25; done" % (4 * seconds + 2)


# Of each device after it a word: whether it can be opened for reading, writing, and both ("yny"), as far as permissions are concerned.
OPEN_EACH = ("each() { for d; do for how in '<' '>' '<>'; do (eval \": $how$d\") 2>&1 | grep -q 'not permitted' && echo -n n || echo -n y; done; "
             "echo; done; }; each ")


def read_text(path):
    with open(path, errors="surrogateescape") as f:
        return f.read()


def need_fuse():
    if " fuse\n" not in read_text("/proc/misc"):
        raise Skip("this kernel has no /dev/fuse")


# --- Images ------------------------------------------------------------------------------------------------------------

class Dir:
    def __init__(self, mode=0o755, uid=0, gid=0):
        self.mode, self.uid, self.gid = mode, uid, gid


class Link:
    def __init__(self, target):
        self.target = target


class File:
    def __init__(self, content=b"", mode=0o644, uid=0, gid=0):
        self.content = content.encode() if isinstance(content, str) else content
        self.mode, self.uid, self.gid = mode, uid, gid


class Fifo:
    mode = 0o644


class Sparse:
    """A file of so many bytes, all zero."""

    def __init__(self, size):
        self.size = size


def _read(path):
    with open(path, "rb") as f:
        return f.read()


@functools.lru_cache(None)
def _busybox_applets():
    out = subprocess.run([BUSYBOX, "--list"], stdout=subprocess.PIPE, check=True, text=True).stdout
    return tuple(APPLETS.intersection(out.split()))


def base_rootfs():
    """A root that has a shell, the helpers, some users, and /out, writable for all users."""
    files = {
        "bin": Dir(), "etc": Dir(), "tmp": Dir(0o1777), "out": Dir(0o1777), "root": Dir(0o700), "proc": Dir(),
        "sys": Dir(), "dev": Dir(), "var": Dir(), "usr": Dir(), "srv": Dir(),
        "bin/busybox": File(_read(BUSYBOX), 0o755),
        "etc/passwd": File("root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000:App:/home/app:/bin/sh\n"
                           "other:x:1001:1002:Other:/:/bin/sh\n"),
        "etc/group": File("root:x:0:\napp:x:1000:\nstaff:x:50:app\nothers:x:1002:\n"),
    }
    for applet in _busybox_applets():
        if applet != "busybox":
            files["bin/" + applet] = Link("busybox")
    for helper in ("show", "poke", "serve"):
        files["bin/" + helper] = File(_read(os.path.join(HELPERS, helper)), 0o755)
    return files


def image_manifest(name, app=None, labels=None, **more):
    manifest = {"acKind": "ImageManifest", "acVersion": "0.8.11", "name": name}
    manifest["labels"] = labels or [{"name": "version", "value": "1"}, {"name": "os", "value": "linux"},
                                    {"name": "arch", "value": os_arch()}]
    if app is not None:
        manifest["app"] = app
    manifest.update(more)
    return manifest


def os_arch():
    return {"x86_64": "amd64", "aarch64": "aarch64", "i686": "i386"}.get(os.uname().machine, os.uname().machine)


def _add(tar, name, what):
    info = tarfile.TarInfo(name)
    data = None
    if isinstance(what, Dir):
        info.type, info.mode, info.uid, info.gid = tarfile.DIRTYPE, what.mode, what.uid, what.gid
    elif isinstance(what, Link):
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, what.target, 0o777
    elif isinstance(what, Fifo):
        info.type, info.mode = tarfile.FIFOTYPE, what.mode
    elif isinstance(what, Sparse):
        info.size, info.mode = what.size, 0o644
        data = ZeroStream(what.size)
    else:
        if not isinstance(what, File):
            what = File(what)
        info.size, info.mode, info.uid, info.gid = len(what.content), what.mode, what.uid, what.gid
        data = io.BytesIO(what.content)
    tar.addfile(info, data)


def landlock_version():
    """The kernel's ABI version; below 1: not supported."""
    return ctypes.CDLL(None).syscall(444, None, 0, 1)


class ZeroStream(io.RawIOBase):
    def __init__(self, size):
        self.left = size

    def read(self, n=-1):
        n = self.left if n < 0 else min(n, self.left)
        self.left -= n
        return bytes(n)


@functools.lru_cache(None)
def _link_entry(name, target):
    """The bytes of a link in the archive: images have hundreds of them, the same in all."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = tarfile.SYMTYPE, target, 0o777
    return info.tobuf(tarfile.PAX_FORMAT)


def write_aci(path, manifest, files, compression=""):
    """Packs an image reproducibly. FILES maps names below the root to Dir, Link, File, Fifo, Sparse, bytes or text."""
    text = manifest if isinstance(manifest, bytes) else json.dumps(manifest, indent=1).encode()
    with tarfile.open(path, "w:" + compression, format=tarfile.PAX_FORMAT) as tar:
        _add(tar, "manifest", File(text))
        _add(tar, "rootfs", Dir())
        for name in sorted(files):
            if isinstance(files[name], Link):
                entry = _link_entry("rootfs/" + name, files[name].target)
                tar.fileobj.write(entry)
                tar.offset += len(entry)
            else:
                _add(tar, "rootfs/" + name, files[name])
    return path


# --- Running -----------------------------------------------------------------------------------------------------------

class Result:
    def __init__(self, argv, rc, out, err, seconds):
        self.argv, self.rc, self.out_bytes, self.err_bytes, self.seconds = argv, rc, out, err, seconds
        self.out = out.decode(errors="backslashreplace")
        self.err = err.decode(errors="backslashreplace")

    def __str__(self):
        return "%s -> %d in %.2f s, stdout %r, stderr %r" % (
            " ".join(map(str, self.argv[2:8])), self.rc, self.seconds, self.out[-1500:], self.err[-1500:])

    def expect(self, rc=0):
        if self.rc != rc:
            fail("expected exit status %s of %s" % (rc, self))
        return self


class Show:
    """The report of the helper "show", decoded."""

    def __init__(self, path):
        with open(path) as f:
            self.raw = json.load(f)
        unhex = bytes.fromhex
        self.argv = [unhex(x) for x in self.raw["argv"]]
        self.environ_list = [unhex(x) for x in self.raw["environ"]]
        self.environ = dict(x.split(b"=", 1) for x in self.environ_list)
        self.cwd = unhex(self.raw["cwd"]).decode()
        self.hostname = unhex(self.raw["hostname"]).decode()
        self.uids, self.gids, self.groups = self.raw["uids"], self.raw["gids"], sorted(self.raw["groups"])
        self.fds = {int(k): unhex(v).decode() for k, v in self.raw["fds"].items()}
        for key in ("status", "mountinfo", "cgroup", "limits", "uid_map", "net_dev", "net_tcp", "oom_score_adj", "exe"):
            value = self.raw[key]
            setattr(self, key, None if value is None else unhex(value).decode(errors="replace"))
        self.namespaces = {k[3:]: unhex(v).decode() for k, v in self.raw.items() if k.startswith("ns_") and v}
        self.dev = {unhex(k).decode(): v for k, v in (self.raw["dev"] or {}).items()}
        self.root_dir = {unhex(k).decode(): v for k, v in (self.raw["root_dir"] or {}).items()}

    def status_field(self, name):
        return re.search(r"^%s:\s*(.*)$" % name, self.status, re.M).group(1)

    def capabilities(self, which):
        bits = int(self.status_field("Cap" + which), 16)
        return frozenset(c for i, c in enumerate(CAPABILITIES) if bits >> i & 1)

    def mounts(self):
        """Mount point -> (options of the mount, type of file system, options of the file system); the last one counts."""
        found = {}
        for line in self.mountinfo.splitlines():
            left, right = line.split(" - ", 1)
            fields = left.split()
            found[fields[4]] = (fields[5].split(","), right.split()[0], right.split()[2].split(","))
        return found


class Host:
    """What one case works with."""

    def __init__(self, name):
        self.name = name
        base = os.environ.get("ACNSPAWN_TEST_DIR", "/var/tmp")
        # Letters and digits only: some tools parse paths as references, in which no name begins or ends with "_".
        self.tmp = "%s/acnspawn-test-%s" % (base, secrets.token_hex(5))
        os.mkdir(self.tmp, 0o700)
        self.dir = os.path.join(self.tmp, "store")
        self.uuids = set()
        self.children = []
        self.images = 0
        self.before = snapshot()

    # Making things.

    def path(self, *parts):
        return os.path.join(self.tmp, *parts)

    def image(self, exec=None, name=None, files=None, app=None, base=True, compression="", **more):
        """An image file whose app runs EXEC as root; APP overrides and adds fields of the app section."""
        self.images += 1
        name = name or "example.com/image%d" % self.images
        rootfs = base_rootfs() if base else {}
        rootfs.update(files or {})
        section = {"exec": exec or ["/bin/true"], "user": "0", "group": "0"}
        section.update(app or {})
        manifest = image_manifest(name, section, **more)
        return write_aci(self.path("%d.aci" % self.images), manifest, rootfs, compression)

    def shell(self, script, **more):
        """An image whose app runs SCRIPT."""
        return self.image(["/bin/sh", "-c", LATE + script], **more)

    # Running acnspawn.

    def argv(self, *args):
        return [ACNSPAWN, "--dir=" + self.dir] + list(args)

    def acnspawn(self, *args, timeout=RUN_TIMEOUT, input=None, env=None, **more):
        argv = self.argv(*args)
        timeout = patience(timeout)
        start = time.monotonic()
        p = subprocess.Popen(argv, stdin=subprocess.PIPE if input is not None else subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, **more)
        self.children.append(p)
        try:
            out, err = p.communicate(input, timeout)
        except subprocess.TimeoutExpired:
            p.kill()
            self.kill_pods()
            out, err = p.communicate()
            fail("timed out after %d s: %s" % (timeout, Result(argv, -9, out, err, timeout)))
        result = Result(argv, p.returncode, out, err, time.monotonic() - start)
        if os.environ.get("ACNSPAWN_TEST_VERBOSE"):
            print("# %s" % result, flush=True)
        self.note_pods()
        return result

    def start(self, *args, **more):
        """acnspawn in the background; the caller waits."""
        p = subprocess.Popen(self.argv(*args), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             **more)
        self.children.append(p)
        return p

    def finish(self, p, timeout=RUN_TIMEOUT):
        timeout = patience(timeout)
        try:
            out, err = p.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            fail("acnspawn (pid %d) did not end within %d s" % (p.pid, timeout))
        self.note_pods()
        return Result(p.args, p.returncode, out, err, 0)

    def prepare(self, *args, **more):
        """Prepares a pod and returns its UUID, which must be the only output on stdout."""
        r = self.acnspawn("prepare", *args, **more).expect(0)
        if not UUID.fullmatch(r.out.strip()) or r.out.count("\n") != 1:
            fail("prepare printed %r, expected one UUID" % r.out)
        return r.out.strip()

    def run(self, *args, rc=0, **more):
        return self.acnspawn("run", *args, **more).expect(rc)

    def detach(self, *args):
        """Prepares and starts a pod in the background; returns its UUID."""
        uuid = self.prepare(*args)
        self.acnspawn("run", "--detach", uuid).expect(0)
        return uuid

    def one_pod(self):
        """The directory of the only pod, in any state."""
        for _ in range(100):
            # A pod that is renamed meanwhile is seen twice or not at all.
            pods = [p for p in self.pods() if "/embryo/" not in p]
            if len(pods) == 1:
                return pods[0]
            time.sleep(0.01)
        fail("there are %d pods, expected 1" % len(pods))

    # Looking.

    def pods(self):
        found = []
        with contextlib.suppress(FileNotFoundError):
            for state in os.listdir(os.path.join(self.dir, "pods")):
                for uuid in os.listdir(os.path.join(self.dir, "pods", state)):
                    found.append(os.path.join(self.dir, "pods", state, uuid))
        return found

    def note_pods(self):
        self.uuids.update(os.path.basename(p) for p in self.pods())

    def pod_dir(self, uuid):
        for _ in range(100):
            for p in self.pods():
                if os.path.basename(p) == uuid:
                    return p
            time.sleep(0.01)
        fail("pod %s has no directory" % uuid)

    def upper(self, app, pod=None):
        """The directory with the files that APP has written to its root."""
        return os.path.join(pod or self.one_pod(), "apps", app, "upper")

    def written(self, app, path, pod=None):
        return _read(os.path.join(self.upper(app, pod), path))

    def show(self, app, number=0, pod=None, where=None):
        """The report number NUMBER of the helper "show", left by APP in /out of its root (or in the directory WHERE)."""
        path = os.path.join(where or os.path.join(self.upper(app, pod), "out"), "%s.%d.json" % (app, number))
        if not os.path.exists(path):
            fail("app %s left no report %s" % (app, path))
        return Show(path)

    def status(self, pod):
        return json.loads(self.acnspawn("status", "--json=short", pod).expect(0).out)

    def app_status(self, pod, app):
        for a in self.status(pod)["apps"]:
            if a["name"] == app:
                return a
        fail("status has no app %s" % app)

    def state(self, pod):
        return self.status(pod)["state"]

    def leader(self, pod):
        """The pid of the pod's PID 1, as the host numbers it."""
        return self.status(pod)["leader"]

    def supervisor(self, uuid):
        """The pid of the process that runs the pod."""
        return json.loads(_read(os.path.join(self.pod_dir(uuid), "runtime")))["supervisor"]

    def uid_base(self, pod):
        return self.status(pod)["users"]["base"]

    def wait_named(self, name):
        """Waits until acnspawn in the background has made a pod of that name. Its directory is there before."""
        wait_for(lambda: self.acnspawn("status", name).rc == 0, "pod " + name)

    def wait_up(self, app, uuid=None):
        """Waits for an app whose script leaves /out/up. The pod's directory may be renamed meanwhile."""
        def is_up():
            pods = [p for p in self.pods() if uuid in (None, os.path.basename(p))]
            return any(os.path.exists(os.path.join(self.upper(app, p), "out/up")) for p in pods)
        wait_for(is_up, "start of app %s" % app)

    def wait_at_rest(self, pod, *pids):
        """Waits until the supervisor of a running pod, the pod's systemd, and PIDS have done all that they had to do, see at_rest()."""
        status = self.status(pod)
        wait_at_rest(self.supervisor(status["uuid"]), status["leader"], *pids)

    # Cleaning up.

    def processes(self):
        """Processes of this case's pods and of acnspawn: their command lines name the store or a pod of the case, or
        their uid is in the range of such a pod, or that of its services."""
        return [pid for pid, _ in find_processes(self)]

    def kill_pods(self):
        """Ends everything of this case by force, by pid."""
        for _ in range(50):
            pids = self.processes()
            if not pids:
                return
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)

    def close(self):
        """Ends the case; returns what was left behind."""
        for p in self.children:
            if p.poll() is None:
                p.kill()
                p.wait()
            for f in (p.stdin, p.stdout, p.stderr):
                if f:
                    f.close()
        self.note_pods()
        left, end = self.leftovers(), time.monotonic() + 5
        while left and time.monotonic() < end:
            time.sleep(0.02)
            left = self.leftovers()
        if left:
            self.kill_pods()
            remove_leftovers(self)
        forget_users(self)
        forget_ranges(self.tmp) # while the store is there: any gc or prune on the host takes those of a store that is gone
        shutil.rmtree(self.tmp, ignore_errors=True)
        forget_journals(self.tmp)
        if os.path.exists(self.tmp):
            subprocess.run(["rm", "-rf", "--one-file-system", self.tmp], stderr=subprocess.DEVNULL)
        return left

    def leftovers(self):
        self.note_pods()
        left = ["process %d (%s)" % p for p in find_processes(self)]
        now = snapshot()
        for kind in ("mount", "cgroup", "file"):
            for thing in sorted(now[kind] - self.before[kind]):
                if belongs_to(self, kind, thing):
                    left.append("%s %s" % (kind, thing))
        return left


# --- Processes ----------------------------------------------------------------------------------------------------------

def of_processes(read, among=None):
    """Pid -> what READ(pid) returns, for the pids AMONG or those of all processes. READ has to do with their files in /proc: a process that
    ends meanwhile is left out."""
    found = {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc")) if among is None else among):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found[pid] = read(pid)
    return found


def processes_where(fits, among=None):
    """The pids for which FITS(pid) is true, see of_processes()."""
    return [pid for pid, yes in of_processes(fits, among).items() if yes]


def await_handler(pid, number=signal.SIGTERM):
    """Until the process handles the signal, which ends it before."""
    def is_handled():
        caught = [l.split()[1] for l in read_text("/proc/%d/status" % pid).splitlines() if l.startswith("SigCgt:")]
        return caught and int(caught[0], 16) & 1 << (number - 1)
    wait_for(is_handled, "the handler of signal %d in process %d" % (number, pid))


def name_of(pid):
    return read_text("/proc/%d/comm" % pid)[:-1]


def parent_of(pid):
    return int(read_text("/proc/%d/stat" % pid).rpartition(")")[2].split()[1])


def first_of(pids):
    """The process among PIDS whose parent is not one of them, or None. Numbers tell nothing of that: they wrap."""
    return next(iter(processes_where(lambda pid: parent_of(pid) not in pids, pids)), None)


def has_ended(pid):
    """Also if its parent has not waited for it yet."""
    return not processes_where(lambda pid: "State:\tZ" not in read_text("/proc/%d/status" % pid), [pid])


def tracer_of(pid):
    """The pid of the strace that has attached to the process, 0 if none has, None if the process has ended."""
    return of_processes(lambda pid: int(re.search(r"TracerPid:\t(\d+)", read_text("/proc/%d/status" % pid)).group(1)), [pid]).get(pid)


def at_rest(*pids):
    """Whether the processes, apart from those that have ended, have done all that they had to do until now: each of their threads waits in
    the kernel, and none has run between two looks. A signal or message that was sent to one of them before has been taken by then, since
    its sender makes it runnable. What a timer begins later is not covered."""
    def threads(pid):
        found = {}
        for tid in os.listdir("/proc/%d/task" % pid):
            status = read_text("/proc/%d/task/%s/status" % (pid, tid))
            found[tid] = [re.search(r"^State:\t(.)", status, re.M).group(1)] + re.findall(r"ctxt_switches:\t(\d+)", status)
        return found

    before = of_processes(threads, pids)
    if any(state[0] not in "SZ" for found in before.values() for state in found.values()):
        return False
    time.sleep(0.02)  # between the two looks
    return of_processes(threads, pids) == before


def wait_at_rest(*pids):
    wait_for(lambda: at_rest(*pids), "that the processes %s have nothing left to do" % ", ".join(map(str, pids)))


def unread(fd):
    """How many bytes there are to read from a pipe or socket."""
    return struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))[0]


# --- What a supervisor holds --------------------------------------------------------------------------------------------

def children_of(pid):
    """Read in one go, as a process may be there for a few milliseconds."""
    return [int(n) for n in read_text("/proc/%d/task/%d/children" % (pid, pid)).split()]


@contextlib.contextmanager
def promptly():
    """The test runs whenever it has something to do, however busy the machine is; what it starts does not."""
    usual = os.sched_getscheduler(0), os.sched_getparam(0)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, *usual)


def hold_soon(what, processes, name, is_over=lambda: False):
    """Stops the first of PROCESSES() that has this name, and returns its pid: one that is there for a few milliseconds only. None once
    IS_OVER() is true."""
    deadline = time.monotonic() + patience(20)
    with promptly():
        while time.monotonic() < deadline:
            over = is_over()
            for pid in processes():
                with contextlib.suppress(OSError):
                    if name_of(pid) == name:
                        os.kill(pid, signal.SIGSTOP)
                        return pid
            if over:
                return None
            time.sleep(0.0002)
    fail("%s was not seen" % what)


def descriptors_of(pid):
    found = {}
    for fd in os.listdir("/proc/%d/fd" % pid):
        with contextlib.suppress(FileNotFoundError):
            found[fd] = os.readlink("/proc/%d/fd/%s" % (pid, fd))
    return found


def passes_on(pid):
    """Whether a client of an app, such as "acnspawn attach", has the app's streams: only then it watches for signals."""
    with contextlib.suppress(OSError):
        return any("signalfd" in target for target in descriptors_of(pid).values())
    return False


def clients_of(pid):
    """The sockets of a supervisor that are connected to clients and launchers: they have the names of those it listens on."""
    own = set(descriptors_of(pid).values())
    rows = [line.split() for line in read_text("/proc/%d/net/unix" % pid).splitlines()]
    return [row for row in rows if len(row) == 8 and row[5] == "03" and "socket:[%s]" % row[6] in own]


def held_by_supervisor(host, uuid):
    """What the supervisor of a pod holds, once earlier clients and all its children but systemd-nspawn are gone. Mounts of
    others, which propagate into its mount namespace, are not counted."""
    pid = host.supervisor(uuid)
    wait_for(lambda: len(children_of(pid)) == 1 and not clients_of(pid) and
             not any(n.startswith(".") for n in os.listdir(host.pod_dir(uuid) + "/apps")),
             lambda: "a supervisor that is done (children %s, clients %s)" % (children_of(pid), clients_of(pid)))
    return {"fds": len(descriptors_of(pid)), "mounts": read_text("/proc/%d/mountinfo" % pid).count(host.tmp + "/"),
            "units": sorted(os.listdir(host.pod_dir(uuid) + "/root/acnspawn/units")),
            "files": sorted(os.listdir(host.pod_dir(uuid))), "apps": len(os.listdir(host.pod_dir(uuid) + "/apps"))}


# --- Killing at system calls --------------------------------------------------------------------------------------------

# Calls that change the state of the system.
CHANGES = "mkdir,mkdirat,rename,renameat,renameat2,symlinkat,linkat,unlinkat,openat,write,fsync,fchown,fchownat,flock"


def settle(host):
    """Waits until no process of a killed pod remains."""
    wait_for(lambda: not host.processes(), "end of all processes of the pod (left: %s)" % find_processes(host), timeout=20)


def count_calls(host, *args, env=None):
    log = host.path("strace.log")
    subprocess.run(["strace", "-f", "-qq", "-o", log, "-e", "trace=" + CHANGES] + host.argv(*args),
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=patience(60), env=env)
    return sum(1 for line in open(log, errors="replace") if "(" in line and "resumed" not in line)


def kill_at(host, number, *args, env=None):
    """Runs acnspawn, and kills it at the NUMBERth of its system calls that change something."""
    return subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=" + CHANGES, "-e",
                           "inject=%s:signal=KILL:when=%d" % (CHANGES, number)] + host.argv(*args),
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=patience(60), env=env).returncode


def need_strace():
    if not shutil.which("strace"):
        raise Skip("strace is missing (Debian package strace)")
    probe = subprocess.run(["strace", "-o", "/dev/null", "-e", "inject=write:signal=KILL:when=1", "/bin/echo"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if probe.returncode == 0:
        raise Skip("strace cannot inject signals here")


def spread(total, points):
    """About this many numbers from 1 to TOTAL: the first ones, the last ones, and others evenly spaced between
    them."""
    numbers = {1, 2, 3, total - 1, total} | {1 + i * (total - 1) // points for i in range(points + 1)}
    return sorted(n for n in numbers if 1 <= n <= total)


# --- Leftovers of cases ------------------------------------------------------------------------------------------------

def snapshot():
    return {"mount": mounts(), "cgroup": cgroups(), "file": runtime_files()}


def mounts():
    found = set()
    with open("/proc/self/mountinfo") as f:
        for line in f:
            fields = line.split()
            found.add(fields[4] + " " + line.split(" - ")[1].strip())
    return found


def cgroups():
    return directories_below("/sys/fs/cgroup")


def directories_below(top):
    """As os.walk() finds them, which calls itself for each level with Python 3.11: a case beside this one may have made cgroups a thousand levels deep."""
    found, left = set(), [top]
    while left:
        with contextlib.suppress(OSError), os.scandir(left.pop()) as entries:
            below = [e.path for e in entries if e.is_dir(follow_symlinks=False)]
            found.update(below)
            left += below
    return found


def runtime_files():
    """Names in the directories that are used by pods at run time."""
    found = set()
    for top in ("/run/acnspawn", "/run/systemd/nspawn", "/run/systemd/machines", "/run/netns", "/var/run/netns",
                "/var/log/journal"):
        for root, dirs, files in os.walk(top):
            found.update(os.path.join(root, x) for x in dirs + files)
    # Links to journals of pods that exist stay with them.
    found = {x for x in found if not (x.startswith("/var/log/journal/") and os.path.islink(x) and os.path.exists(x))}
    for top in ("/tmp", "/dev/shm", "/run", "/dev/mqueue"):
        with contextlib.suppress(FileNotFoundError):
            found.update(os.path.join(top, x) for x in os.listdir(top) if "nspawn" in x)
    return found


def own_cgroups():
    """Directory of this process's cgroup in each hierarchy, wherever it is mounted."""
    found = set()
    for line in read_text("/proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        name = "unified" if number == "0" else controllers.replace("name=", "")
        found.update(("/sys/fs/cgroup/" + name + path.rstrip("/"), "/sys/fs/cgroup" + path.rstrip("/")))
    return found


def names_of(host):
    """The words that identify resources of this case."""
    names = {host.tmp}
    for uuid in host.uuids:
        names.update((uuid, uuid.replace("-", "")))
    return names


def belongs_to(host, kind, thing):
    """Whether it is of this case, by its name: other programs run pods and make mounts at the same time."""
    if any(name in thing for name in names_of(host)):
        return True
    # nspawn that got no cgroup of its own would split ours.
    return kind == "cgroup" and any(thing == own + split for own in own_cgroups() for split in ("/payload", "/supervisor"))


PF_EXITING, PF_KTHREAD = 0x4, 0x200000  # of the kernel


def find_processes(host):
    names = [n.encode() for n in names_of(host)]
    ranges = uid_ranges(host)
    found = []
    for pid in os.listdir("/proc"):
        if not pid.isdigit() or int(pid) == os.getpid():
            continue
        try:
            state, *_, flags = _read("/proc/%s/stat" % pid).rpartition(b")")[2].split()[:7]
            # A process that exits has closed its files, and so released its locks, some time before it is a zombie.
            if state == b"Z" or int(flags) & (PF_EXITING | PF_KTHREAD):
                continue
            cmdline, cgroup = _read("/proc/%s/cmdline" % pid), _read("/proc/%s/cgroup" % pid)
            ours = any(n in cmdline or n in cgroup for n in names)
            if not ours and ranges:
                uid = int(re.search(rb"Uid:\t(\d+)", _read("/proc/%s/status" % pid)).group(1))
                ours = any(b <= uid < b + 65536 or uid == service_user(b) for b in ranges)
        except (FileNotFoundError, ProcessLookupError):
            continue
        if ours:
            found.append((int(pid), cmdline.replace(b"\0", b" ").decode(errors="replace").strip()[:120]))
    return found


def service_user(base):
    """The user on the host of the services of a pod whose users begin with BASE."""
    return 0x7fff0000 + base // 65536


def uid_ranges(host):
    found = set()
    with contextlib.suppress(FileNotFoundError):
        for base in os.listdir(os.path.join(host.dir, "uids")):
            if base.isdigit() and base != "0":  # the host's users, of which a pod may have some
                found.add(int(base))
    return found


def forget_ranges(directory):
    """Releases the host's uid ranges of the pods of stores in DIRECTORY, as "acnspawn gc" does."""
    with contextlib.suppress(FileNotFoundError):
        for base in os.listdir("/var/lib/acnspawn-uids"):
            path = os.path.join("/var/lib/acnspawn-uids", base)
            with contextlib.suppress(OSError):
                if ":" + directory + "/" in os.readlink(path):
                    os.unlink(path)


def forget_users(host):
    """The same for records of users of pods."""
    for base in uid_ranges(host):
        for name in "acnspawn-%d.user", "acnspawn-%d.group", "%d.user", "%d.group":
            with contextlib.suppress(FileNotFoundError):
                os.unlink("/run/userdb/" + name % base)


def forget_journals(directory):
    """The same for links to journals of pods."""
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir("/var/log/journal"):
            path = os.path.join("/var/log/journal", name)
            with contextlib.suppress(OSError):
                if os.readlink(path).startswith(directory + "/"):
                    os.unlink(path)


def remove_leftovers(host):
    """Best effort, so that one failure does not cause others."""
    for mount in mounts() - host.before["mount"]:
        if belongs_to(host, "mount", mount):
            subprocess.run(["umount", "-l", mount.split()[0]], stderr=subprocess.DEVNULL)
    for cgroup in sorted(cgroups() - host.before["cgroup"], reverse=True):
        if belongs_to(host, "cgroup", cgroup):
            with contextlib.suppress(OSError):
                os.rmdir(cgroup)


# --- Cases -------------------------------------------------------------------------------------------------------------

_cases = []


def case(function):
    _cases.append(function)
    return function


def of_machine(function):
    """A case of tests/vm that needs a machine with a kernel of its own and cgroup controllers, in a program whose others run in a
    container as well."""
    function.of_machine = True
    return case(function)


def is_for(function, guest):
    """Whether a case runs in this kind of guest, "machine" or "container", of two that share the program; anything else is alone."""
    return guest not in ("machine", "container") or (guest == "machine") == hasattr(function, "of_machine")


def both(function):
    """Makes two cases of one: with a user namespace and without, both with the timeout of the original."""
    @functools.wraps(function)
    def with_userns(host):
        function(host)

    @functools.wraps(function)
    def without_userns(host):
        function(host, "--no-userns")
    without_userns.__name__ += "_without_user_namespace"
    case(with_userns)
    case(without_userns)
    return function


class CaseTimeout(BaseException):
    pass


def _alarm(signum, frame):
    raise CaseTimeout()


_running = []  # the Host of the case


def end_by_signal(number):
    """The program is to end at once: meson leaves it half a second. Pods would go on."""
    main = os.getpid()

    def on_signal(*_):
        signal.signal(number, signal.SIG_DFL)
        if os.getpid() == main:
            for pid in [pid for host in _running for pid in host.processes()]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        os.kill(os.getpid(), number)
    signal.signal(number, on_signal)


def _one_line(text):
    return " ~ ".join(str(text).strip().splitlines())[:3000]


def _verdict(function, host):
    """None: passed. Else ("not ok" or "skip", why)."""
    timeout = int(patience(getattr(function, "timeout", CASE_TIMEOUT)))
    signal.alarm(timeout)
    try:
        function(host)
    except Skip as e:
        return ("skip", e)
    except AssertionError as e:
        where = traceback.extract_tb(e.__traceback__)
        own = [f for f in where if f.filename == sys.argv[0] or f.filename.endswith(sys.argv[0])] or where
        return ("not ok", "line %d: %s" % (own[-1].lineno, e))
    except CaseTimeout:
        return ("not ok", "took longer than %d s" % timeout)
    except Exception:
        return ("not ok", traceback.format_exc())
    finally:
        signal.alarm(0)
    return None


def _closed(host, verdict):
    """The verdict with what is left behind."""
    left = host.close()
    if left and (verdict is None or verdict[0] == "skip"):
        return ("not ok", "left behind: " + "; ".join(left))
    return verdict


def _run_case(function, shared=None):
    """A verdict. SHARED is the Host of all cases of the program, if they have one."""
    host = shared or Host(function.__name__)
    _running[:] = [host]
    verdict = _verdict(function, host)
    return verdict if shared else _closed(host, verdict)


def with_timeout(seconds):
    def mark(function):
        function.timeout = seconds
        return function
    return mark


def need_root_and_nspawn():
    """Why no case can run here, or None."""
    if os.geteuid() != 0:
        return "needs root"
    if not shutil.which("systemd-nspawn"):
        return "systemd-nspawn is missing (Debian package systemd-container)"
    if not os.access(BUSYBOX, os.X_OK):
        return "%s is missing (Debian package busybox-static)" % BUSYBOX
    if not shutil.which(ACNSPAWN):
        return "acnspawn is not built (%s)" % ACNSPAWN
    return None


CLOSING = "nothing_is_left_behind"


def _print(name, verdict):
    print("ok %s" % name if verdict is None else "%s %s: %s" % (verdict[0], name, _one_line(verdict[1])), flush=True)


def main(shared=None):
    """Runs the cases (those named on the command line, or all) and exits. With SHARED all of them have one Host, for which it is called after
    the last one, to end what they have used together."""
    reason = need_root_and_nspawn()
    if reason:
        print("SKIP: " + reason)
        sys.exit(77)
    signal.signal(signal.SIGALRM, _alarm)
    take_ignored_signals()
    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        end_by_signal(signal.SIGTERM)
    failed = False
    common = Host("shared") if shared else None
    wanted = [] if shared and CLOSING in sys.argv else sys.argv[1:]  # it is about all of them
    unknown = set(wanted) - {f.__name__ for f in _cases}
    if unknown:
        print("no such case: %s" % ", ".join(sorted(unknown)), file=sys.stderr)
        sys.exit(2)
    for function in _cases:
        if function.__name__ not in wanted if wanted else not is_for(function, os.environ.get("ACNSPAWN_TEST_GUEST")):
            continue
        began = time.monotonic()
        verdict = _run_case(function, common)
        if time.monotonic() - began > LONG:
            print("# %s: %d s" % (function.__name__, time.monotonic() - began), flush=True)
        _print(function.__name__, verdict)
        failed = failed or verdict is not None and verdict[0] == "not ok"
    if shared:
        verdict = _closed(common, _verdict(shared, common))  # what the cases have shared is a last case
        _print(CLOSING, verdict)
        failed = failed or verdict is not None
    sys.exit(1 if failed else 0)
