# SPDX-License-Identifier: LGPL-2.1-or-later
"""The image of a Debian host with systemd as PID 1, for the tests that need such a host: machine.py boots it in a virtual machine,
container.py in a container. It is made once for each release and content of this file, and kept in the cache directory (cache.py):

  root.img     an ext4 file system that mmdebstrap filled from the mirror that apt itself uses here; a run writes to a snapshot of it.
  root         the tree that is in it; a container writes to an overlay on it.
  initrd       busybox and the few modules that find the disk.
  kernel       the kernel's unpacked ELF file, which the small machine "microvm" boots directly.
"""

import io
import os
import shutil
import subprocess
import sys

RELEASES = {"12": "bookworm", "13": "trixie", "sid": "sid"}
DISK_MIB = 3072
PACKAGES = (
    "systemd systemd-sysv systemd-container dbus dbus-daemon kmod iproute2 iptables nftables containernetworking-plugins "
    "e2fsprogs linux-image-cloud-amd64 busybox-static python3-minimal libpython3-stdlib gnupg procps apparmor checkpolicy "
    "python3-grpcio python3-protobuf protobuf-compiler libprotobuf-c1").split()
# What the package of acnspawn depends on and recommends beyond that, by the names of each release.
LIBRARIES = {
    "12": "libarchive13 libbz2-1.0 libcap-ng0 libcurl4 libgpgme11 libjson-c5 libmicrohttpd12 libmount1 libssl3 libsystemd0 libxml2 libzstd1",
    "13": "libarchive13t64 libbz2-1.0 libcap-ng0 libcurl4t64 libgpgme11t64 libjson-c5 libmicrohttpd12t64 libmount1 libssl3t64 libsystemd0 libxml2 "
          "libzstd1",
    "sid": "libarchive13t64 libbz2-1.0 libcap-ng0 libcurl4t64 libgpgme45 libjson-c5 libmicrohttpd12t64 libmount1 libssl3t64 libsystemd0 libxml2-16 "
           "libzstd1",
}
# Kernel modules that are kept: the directories with drivers for disks, overlays, networks of namespaces and packet
# filters.
MODULES = (
    "drivers/block/loop drivers/block/virtio_blk drivers/char/virtio_console drivers/net/dummy drivers/net/ifb drivers/net/ipvlan drivers/net/macvlan "
    "drivers/net/tun drivers/net/veth drivers/virtio fs/ext4 fs/jbd2 fs/mbcache fs/overlayfs fs/autofs fs/quota lib crypto net/802 "
    "net/bridge net/ipv4 net/ipv6 net/llc net/netfilter net/sched").split()
# Cases load profiles of the host themselves: apparmor.service would take seconds of each boot.
MASKED = (
    "apparmor.service apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer "
    "getty@tty1.service ldconfig.service systemd-binfmt.service systemd-firstboot.service systemd-hwdb-update.service "
    "systemd-journal-catalog-update.service systemd-machine-id-commit.service systemd-network-generator.service "
    "systemd-networkd.service systemd-pcrphase-sysinit.service systemd-pcrphase.service systemd-pstore.service "
    "systemd-random-seed.service systemd-resolved.service systemd-timesyncd.service systemd-tpm2-setup-early.service "
    "systemd-tpm2-setup.service systemd-udev-settle.service systemd-udev-trigger.service systemd-udevd.service "
    "systemd-udevd-control.socket systemd-udevd-kernel.socket systemd-update-done.service systemd-update-utmp.service "
    "systemd-user-sessions.service serial-getty@ttyS0.service proc-sys-fs-binfmt_misc.automount").split()

INIT = """#!/busybox sh
/busybox mount -t devtmpfs dev /dev
/busybox mount -t proc proc /proc
while read m; do /busybox insmod "$m"; done </modules.list
n=0
while [ ! -b /dev/vda ] && [ $n -lt 200 ]; do /busybox usleep 20000; n=$((n + 1)); done
/busybox mount -t ext4 -o noatime /dev/vda /root
/busybox mount --move /dev /root/dev
/busybox umount /proc
exec /busybox switch_root /root /sbin/init
"""

SERVICE = """[Unit]
Description=The tests
After=basic.target dbus.socket
[Service]
Type=oneshot
TimeoutStartSec=infinity
StandardInput=null
ExecStart=/usr/local/sbin/tests-main
[Install]
WantedBy=multi-user.target
"""

MAIN = """#!/bin/busybox sh
set -- /dev/vport*p1
[ -e "$1" ] || set -- /opt/tests/output # of a container
exec >"$1" 2>&1
mkdir -p /opt/tests
cd /opt/tests
[ -e main ] || tar -xf /dev/vdb # this is the first boot
echo "guest: $(systemctl --version | head -n 1), $(uname -r)"
./main
echo "guest: exit status $?"
[ -e /dev/vdb ] || exit 0 # the kernel is that of the tests' machine
sync
echo o >/proc/sysrq-trigger
sleep 60
"""


def say(text):
    print("vm: " + text, file=sys.stderr, flush=True)


def mirror():
    """The address of Debian's archive that apt uses on this machine, whatever its configuration looks like."""
    targets = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(ORIGIN) $(LABEL)", "Created-By: Packages"],
        capture_output=True, text=True, check=True).stdout
    for line in targets.splitlines():
        words = line.split()
        if words[1:] == ["Debian", "Debian"]:
            return words[0]
    raise RuntimeError("apt knows no archive of Debian here: see /etc/apt/sources.list")


def bootstrap(release, directory):
    options = ["--variant=minbase", "--include=" + ",".join(PACKAGES + LIBRARIES[release].split()), "--aptopt=Acquire::Retries 3",
               "--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*",
               "--dpkgopt=path-exclude=/usr/share/locale/*",
               "--dpkgopt=force-confold",
               # The initrd is built here; building Debian's takes longer than all the rest.
               "--essential-hook=mkdir -p \"$1/etc/initramfs-tools\" && echo update_initramfs=no "
               ">\"$1/etc/initramfs-tools/update-initramfs.conf\""]
    if release == "sid":
        options.append("--aptopt=Acquire::Check-Valid-Until false")
    subprocess.run(["mmdebstrap", "--quiet"] + options + [RELEASES[release], directory, mirror()], check=True,
                   stdout=sys.stderr)


def unpack_by(program, data):
    # Data follows the stream in a kernel image; programs report that as an error, after writing the output.
    return subprocess.run([program, "-dcq"], input=data, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout


def unpacked_kernel(data):
    """The ELF file in a bzImage: the first compressed stream in it that unpacks to one."""
    for magic, program in ((b"\xfd7zXZ\0", "xz"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"\x02\x21\x4c\x18", "lz4"),
                           (b"\x1f\x8b\x08", "gzip")):
        at = data.find(magic)
        while at >= 0:
            kernel = unpack_by(program, data[at:])
            if kernel[:4] == b"\x7fELF":
                return kernel
            at = data.find(magic, at + 1)
    raise RuntimeError("the kernel is compressed in a way that is not known here")


def cpio(files):
    """A "newc" archive of (name, mode, bytes)."""
    out = io.BytesIO()
    for i, (name, mode, data) in enumerate(files + [("TRAILER!!!", 0, b"")]):
        raw = name.encode() + b"\0"
        fields = [i + 1, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(raw), 0]
        out.write(b"070701" + b"".join(b"%08x" % f for f in fields) + raw)
        out.write(b"\0" * (-out.tell() % 4) + data)
        out.write(b"\0" * (-out.tell() % 4))
    return out.getvalue()


def early_modules(root, version):
    """Those that find the disk, in the order in which they can be loaded; and the serial port."""
    wanted, done = ["virtio_mmio", "virtio_blk", "ext4", "virtio_console"], []
    depends = {}
    for line in open("%s/usr/lib/modules/%s/modules.dep" % (root, version)):
        name, _, needs = line.partition(":")
        depends[name] = needs.split()

    def add(path):
        for other in depends[path]:
            add(other)
        if path not in done:
            done.append(path)
    for module in wanted:
        for path in depends:
            if os.path.basename(path).split(".")[0].replace("-", "_") == module:
                add(path)
    return done


def write_initrd(root, version, path):
    base = "%s/usr/lib/modules/%s/" % (root, version)
    files = [(d, 0o40755, b"") for d in ("dev", "proc", "root")]
    files += [("busybox", 0o100755, open(root + "/bin/busybox", "rb").read()), ("init", 0o100755, INIT.encode())]
    names = []
    for module in early_modules(root, version):
        data = open(base + module, "rb").read()
        if module.endswith(".xz"):
            data = unpack_by("xz", data)
        elif module.endswith(".zst"):
            data = unpack_by("zstd", data)
        name = os.path.basename(module).split(".ko")[0] + ".ko"
        files.append((name, 0o100644, data))
        names.append("/" + name)
    files.append(("modules.list", 0o100644, ("\n".join(names) + "\n").encode()))
    with open(path, "wb") as f:
        f.write(cpio(files))


def drop_modules(root, version):
    base = "%s/usr/lib/modules/%s/kernel" % (root, version)
    for where, _, files in os.walk(base):
        for name in files:
            inside = os.path.relpath(where + "/" + name, base)
            if not any(inside.startswith((m + "/", m + ".")) for m in MODULES):
                os.unlink(where + "/" + name)
    subprocess.run(["chroot", root, "depmod", version], check=True, stdout=sys.stderr)


def write_file(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, mode)


def configure(root):
    for unit in MASKED:
        path = root + "/etc/systemd/system/" + unit
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not os.path.lexists(path):
            os.symlink("/dev/null", path)
    write_file(root + "/etc/systemd/system/tests.service", SERVICE)
    write_file(root + "/usr/local/sbin/tests-main", MAIN, 0o755)
    wants = root + "/etc/systemd/system/multi-user.target.wants"
    os.makedirs(wants, exist_ok=True)
    os.symlink("../tests.service", wants + "/tests.service")
    default = root + "/etc/systemd/system/default.target"
    if os.path.lexists(default):
        os.unlink(default)
    os.symlink("/usr/lib/systemd/system/multi-user.target", default)
    write_file(root + "/etc/machine-id", "11112222333344445555666677778888\n")
    write_file(root + "/etc/hostname", "vmhost\n")
    write_file(root + "/etc/fstab", "")


def make_image(release, directory):
    say("making the image of Debian %s; once, some minutes" % release)
    root = directory + "/root"
    bootstrap(release, root)
    version = os.listdir(root + "/usr/lib/modules")[0]
    with open(directory + "/kernel", "wb") as f:
        f.write(unpacked_kernel(open("%s/boot/vmlinuz-%s" % (root, version), "rb").read()))
    write_initrd(root, version, directory + "/initrd")
    drop_modules(root, version)
    shutil.rmtree(root + "/boot")
    configure(root)
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", root, "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1",
                    directory + "/root.img", "%dM" % DISK_MIB], check=True, stdout=sys.stderr)
