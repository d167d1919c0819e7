# SPDX-License-Identifier: LGPL-2.1-or-later
"""A virtual machine that boots a Debian host with systemd as PID 1 and cgroup v2, for the tests that need such a host.

QEMU emulates the processor (TCG), so that it works wherever there is no KVM: what takes a second outside takes ten to
twenty inside. The machine boots the image of image.py, and has a second disk with the payload, a tar file made by the caller: it is unpacked
below /opt/tests, where the program "main" is run. What that prints comes out of a serial port line by line, and last its exit status.
"""

import contextlib
import ctypes
import io
import mmap
import subprocess
import sys
import tarfile
import time

import guest

MEMORY_MIB = 1536
BOOT_TIMEOUT = 180  # seconds from the start of QEMU to the first line, in which nothing is known of its pace
# Security modules of the guest. The last one is the flavour: only one of the modules with labels can be active.
MODULES_ACTIVE = {"apparmor": "capability,landlock,apparmor", "selinux": "capability,landlock,selinux", "none": "capability,landlock"}


def tsc_khz():
    """Frequency of this processor's time stamp counter; the guest has no other clock to calibrate it."""
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\x0f\x31\x48\xc1\xe2\x20\x48\x09\xd0\xc3")  # rdtsc; shl rdx, 32; or rax, rdx; ret
    read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    before, started = read(), time.perf_counter_ns()
    time.sleep(0.1)  # as long as makes it exact
    after, ended = read(), time.perf_counter_ns()
    return (after - before) * 1000000 // (ended - started)


def command_line(directory, payload, lsm, reboots):
    words = ("console=ttyS0 quiet mitigations=off init_on_alloc=0 cryptomgr.notests rcupdate.rcu_expedited=1 lsm=%s "
             "panic=-1 reboot=t tsc_early_khz=%d systemd.show_status=no" % (MODULES_ACTIVE[lsm], tsc_khz()))
    return ["qemu-system-x86_64", "-accel", "tcg", "-M", "microvm,rtc=on", "-cpu", "max,la57=off,cx16=off", "-smp", "1", "-m",
            str(MEMORY_MIB), "-nodefaults", "-no-user-config", "-display", "none", "-snapshot", *([] if reboots else ["-no-reboot"]),
            "-kernel", directory + "/kernel", "-initrd", directory + "/initrd", "-append", words,
            "-serial", "file:" + payload + ".console",
            "-drive", "if=none,id=a,format=raw,file=" + directory + "/root.img", "-device", "virtio-blk-device,drive=a",
            "-drive", "if=none,id=b,format=raw,file=" + payload, "-device", "virtio-blk-device,drive=b",
            "-device", "virtio-serial-device", "-chardev", "file,id=c,path=/dev/stdout", "-device", "virtserialport,chardev=c"]


@contextlib.contextmanager
def booted(directory, payload, lsm="apparmor", reboots=False):
    """The emulator, a Guest. Where it may reboot, its disk stays as it is until the end."""
    qemu = subprocess.Popen(command_line(directory, payload, lsm, reboots), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=sys.stderr, start_new_session=True, preexec_fn=guest.end_with_parent)
    try:
        yield guest.Guest("a machine", qemu, qemu.stdout.fileno(), BOOT_TIMEOUT)
    finally:
        qemu.kill()
        qemu.wait()
        qemu.stdout.close()


def pack(files, path):
    """A tar file of {name inside: path or bytes}, padded to whole sectors by the format itself."""
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, source in files.items():
            if isinstance(source, bytes):
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(source), 0o755
                tar.addfile(entry, io.BytesIO(source))
            else:
                tar.add(source, name)
