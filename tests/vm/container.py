# SPDX-License-Identifier: LGPL-2.1-or-later
"""A container that boots the Debian host of image.py, with systemd as PID 1 and a cgroup v2 hierarchy of its own, for the programs that
need no more of a host than that.

It runs as fast as this machine does, where the emulated machine takes ten to twenty times as long. It has the kernel of this machine, and no
cgroup controller where those are in hierarchies of version 1; limits, security modules, reboots and settings of the kernel are for the machine.

Its root is an overlay on the tree that the machine's disk was made of; /var and /opt/tests are directories of this machine's file system: the
upper directory of a pod's overlay cannot be on another overlay, and a FIFO there is not that below it. systemd-nspawn runs in a mount namespace and in cgroups of its own; the end of
the container is that of all processes in these cgroups. What the programs print arrives by a FIFO in place of the machine's serial port."""

import contextlib
import fcntl
import glob
import os
import shutil
import subprocess
import tempfile
import time

import guest

# Of systemd-nspawn. Its filter of system calls would be that of the pods and their tests, too.
ENVIRONMENT = {"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1", "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "yes", "SYSTEMD_NSPAWN_USE_CGNS": "1",
               "SYSTEMD_SECCOMP": "0"}
HIERARCHIES = ("/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup")
PREFIX, SUFFIX = "acnspawn-host-", "-h"  # the name of a machine does not end with "_" or "-"
BOOT_TIMEOUT = 60 # seconds from the start of systemd-nspawn to the first line
# They would change settings of this machine's kernel: when the container boots, and when a package is installed in it.
MASKED = {"etc/systemd/system/systemd-modules-load.service": "/dev/null", "usr/lib/systemd/systemd-sysctl": "/bin/true"}

ENTER = """
set -e
work=$1 tree=$2
shift 2
mount -t overlay overlay -o "lowerdir=$tree,upperdir=$work/upper,workdir=$work/work" "$work/root"
mount --bind "$work/var" "$work/root/var"
mount --bind "$work/tests" "$work/root/opt/tests"
exec "$@"
"""


class Cgroups:
    """One in the hierarchy of version 2, and one in the named hierarchy of systemd, where there is that."""

    def __init__(self, name):
        tops = [top for top in HIERARCHIES[:2] if os.path.exists(top + "/cgroup.procs")] or [HIERARCHIES[2]]
        self.paths = [os.path.join(top, name) for top in tops]

    def __enter__(self):
        try:
            for path in self.paths:
                os.mkdir(path)
        except OSError:
            self.__exit__()
            raise
        return self

    def is_there(self):
        return any(map(os.path.isdir, self.paths))

    def join(self):
        for path in self.paths:
            with open(path + "/cgroup.procs", "w") as f:
                f.write("0")

    def kill(self):
        with contextlib.suppress(FileNotFoundError), open(self.paths[0] + "/cgroup.kill", "w") as f:
            f.write("1")

    def __exit__(self, *exception):
        end = time.monotonic() + 60
        while True:
            self.kill()
            try:
                for path in self.paths:
                    for directory, _, _ in os.walk(path, topdown=False):
                        os.rmdir(directory)
                return
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)


def missing():
    """Why no container can run here, or None."""
    if os.geteuid() != 0:
        return "needs root"
    if not shutil.which("systemd-nspawn"):
        return "systemd-nspawn is missing (Debian package systemd-container)"
    if not any(os.path.exists(top + "/cgroup.kill") or os.path.exists(top + "/cgroup.controllers") for top in HIERARCHIES):
        return "cgroup v2 is not mounted"
    return None


def hold(work):
    """Locks the directory of a container, until this process ends; returns a descriptor."""
    fd = os.open(work, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return fd


def remove(work):
    """Not what is mounted there, if that should be; files that a case has made immutable are no reason to stop."""
    subprocess.run(["chattr", "-R", "-f", "-ia", work], stderr=subprocess.DEVNULL)
    subprocess.run(["rm", "-rf", "--one-file-system", work], check=True)


def sweep():
    """Removes what containers have left whose program was killed: processes, cgroups and directories."""
    for work in glob.glob("/var/tmp/%s????????%s" % (PREFIX, SUFFIX)):  # of versions that hold a lock
        try:
            fd = hold(work)
        except OSError:
            continue  # it runs, or is no directory
        groups = Cgroups(os.path.basename(work))
        if groups.is_there():
            groups.__exit__()
        remove(work)
        os.close(fd)


def prepare(directory, payload, work):
    for name in "upper", "work", "root", "tests":
        os.mkdir(work + "/" + name)
    tree = directory + "/root"
    subprocess.run(["cp", "-a", "--reflink=auto", tree + "/var", work + "/var"], check=True)
    os.makedirs(work + "/upper/opt/tests")
    for path, target in MASKED.items():
        os.makedirs(os.path.dirname(work + "/upper/" + path), exist_ok=True)
        os.symlink(target, work + "/upper/" + path)
    subprocess.run(["tar", "-xf", payload, "-C", work + "/tests"], check=True)
    os.mkfifo(work + "/tests/output")
    return tree, work + "/tests/output"


def command(work, tree):
    return ["unshare", "--mount", "--propagation=private", "sh", "-c", ENTER, "sh", work, tree,
            "systemd-nspawn", "--quiet", "--directory=" + work + "/root", "--boot", "--machine=" + os.path.basename(work).replace("_", "-"), "--hostname=vmhost",
            "--register=no", "--keep-unit", "--capability=all", "--private-network", "--link-journal=no", "--console=pipe"]


@contextlib.contextmanager
def booted(directory, payload):
    """The container, a Guest."""
    work = tempfile.mkdtemp(prefix=PREFIX, suffix=SUFFIX, dir="/var/tmp")
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, hold(work))
        stack.callback(remove, work)
        tree, fifo = prepare(directory, payload, work)
        fd = os.open(fifo, os.O_RDWR | os.O_CLOEXEC)
        stack.callback(os.close, fd)
        console = stack.enter_context(open(payload + ".console", "wb"))
        groups = stack.enter_context(Cgroups(os.path.basename(work)))
        process = subprocess.Popen(command(work, tree), stdin=subprocess.DEVNULL, stdout=console, stderr=console, env={**os.environ, **ENVIRONMENT},
                                   preexec_fn=lambda: (guest.end_with_parent(), groups.join()), start_new_session=True)
        stack.callback(process.wait)
        stack.callback(groups.kill)
        yield guest.Guest("a container", process, fd, BOOT_TIMEOUT)
