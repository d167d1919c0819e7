#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What apps reach of the host beside files: its devices, numbers that the kernel has once for all pods, and processes of acnspawn
that look at an app."""

import stat

from harness import *

FUSE = 10, 229  # every user may open it
ADMIN = "--caps-retain=CAP_SYS_ADMIN,CAP_MKNOD,CAP_DAC_OVERRIDE"


def tried(script):
    """What the commands of a script say, a line each: what failed is no end."""
    return "exec 2>&1; " + script + "; true"


# --- Devices ---------------------------------------------------------------------------------------------------------

def with_node(host, **more):
    """An image in the store whose root has a device node: only one that was unpacked by an earlier version has."""
    image = host.acnspawn("fetch", host.shell("true", name="example.com/a", **more)).expect(0).out.split()[0]
    root = os.path.join(host.dir, "images", image, "rootfs")
    os.mknod(os.path.join(root, "node"), stat.S_IFCHR | 0o666, os.makedev(*FUSE))
    os.chmod(os.path.join(root, "node"), 0o666)
    return image


@case
def flags_of_the_root_are_locked(host):
    """For an app that may mount: no devices, and read-only where it is so. The device is open for all by its mode."""
    image = with_node(host, files={"mnt": Dir()})
    script = tried("mount -o remount,bind,dev /; mount --bind / /mnt && mount -o remount,bind,dev /mnt; "
                   "mount -o remount,bind,rw,dev /; poke open /node; poke open /mnt/node; "
                   "grep -E ' (/|/mnt) ' /proc/self/mountinfo")
    for options in (), ("--readonly-rootfs",):
        r = host.run("--rm", image, ADMIN, *options, "--exec=/bin/sh", "--", "-c", script)
        equal(r.out.count("permission denied"), 3, "remounts that are refused with %r: %s" % (options, r.out))
        lacks(r.out, "possible", "use of the device of the host")
        lines = [l for l in r.out.splitlines() if re.match(r"\d+ \d+ \d+:\d+ / (/|/mnt) ", l)]
        true(lines and all("nodev" in l.split()[5].split(",") for l in lines), "mounts of the root: %r" % lines)


@case
def a_read_only_root_stays_so(host):
    """`--readonly-rootfs` cannot be undone by an app that may mount, and mount points that the image lacks are made all the same, with
    hooks or handlers too."""
    image = host.shell("true", name="example.com/a", app={
        "eventHandlers": [{"name": "pre-start", "exec": ["/bin/sh", "-c", "touch /pre; test -d /new/point && echo handler"]}]})
    script = tried("mount -o remount,bind,rw /; mount -o remount,rw /; touch /file && echo written; echo x >/new/point/f && cat /new/point/f; "
                   "test -f /deep/file && echo file")
    with open(host.path("file"), "w") as f:
        f.write("x")
    r = host.run("--rm", "--volume=v,kind=empty,mode=1777", "--volume=f,kind=host,readOnly=true,source=" + host.path("file"), image, ADMIN,
                 "--readonly-rootfs", "--mount=v:/new/point", "--mount=f:/deep/file", "--exec=/bin/sh", "--", "-c", script)
    lacks(r.out, "written", "output")
    equal([l for l in r.out.splitlines() if l in ("handler", "x", "file")], ["handler", "x", "file"], "output " + r.out)
    contains(r.out + r.err, "Read-only file system", "message of the app")


@both
def devices_of_apps_that_may_mount_are_filtered(host, *options):
    """Wherever the node is: the flags of mounts do not matter. A device that is given is not refused, nor those of a volume with devices."""
    if " fuse\n" not in read_text("/proc/misc"):
        raise Skip("this kernel has no /dev/fuse")
    os.mkdir(host.path("devices"))
    os.mknod(host.path("devices/fuse"), stat.S_IFCHR | 0o666, os.makedev(*FUSE))
    os.chmod(host.path("devices/fuse"), 0o666)
    script = tried("mount -t tmpfs -o dev none /srv; mknod /srv/node c %d %d && poke open /srv/node; poke open /node; "
                   "test -e /dev/given && poke open /dev/given; test -e /volume/fuse && poke open /volume/fuse; "
                   "echo x >/dev/null && head -c 3 /dev/zero | wc -c" % FUSE)
    image = with_node(host)

    def run(*more):
        pod = [o for o in more if o.startswith("--volume")]
        return host.run("--rm", *options, *pod, image, ADMIN, *more[len(pod):], "--exec=/bin/sh", "--", "-c", script).out
    out = run()
    lacks(out, "possible", "use of a device of the host")
    contains(out, "3\n", "output")
    contains(run("--device=%s:/dev/given" % host.path("devices/fuse")), "open /dev/given: possible", "use of a device that was given")
    contains(run("--volume=d,kind=host,dev=true,source=" + host.path("devices"), "--mount=d:/volume"), "open /volume/fuse: possible",
             "use of a volume with devices")


if __name__ == "__main__":
    main()
