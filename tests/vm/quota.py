#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Quotas of named volumes, on a store whose file system is ext4 with project quotas: a loop device."""

from harness import *

MIB = 1 << 20
FIRST, LAST = 1094713344, 1095761919  # acnspawn-volume(1)
FILL = "dd if=/dev/zero of=/d/%s bs=64k count=%d 2>&1 | grep -o 'quota exceeded'; du -k /d | cut -f1"


@contextlib.contextmanager
def store_on_ext4(host, options="loop,prjquota"):
    """The case's store is on a file system of its own."""
    image, top, before = host.path("disk.img"), host.path("disk"), host.dir
    if not os.path.exists(image):
        with open(image, "wb") as f:
            f.truncate(256 * MIB)
        subprocess.run(["mkfs.ext4", "-q", "-O", "quota,project", "-E", "quotatype=prjquota,lazy_itable_init=1", image], check=True)
        os.mkdir(top)
    subprocess.run(["mount", "-o", options, image, top], check=True)
    host.dir = os.path.join(top, "store")
    try:
        yield top
    finally:
        host.acnspawn("rm", "--force", *json_pods(host))
        subprocess.run(["umount", top], check=True)
        host.dir = before


def json_pods(host):
    return [p["uuid"] for p in json.loads(host.acnspawn("list", "--all", "--json").expect(0).out)]


def volume(host, *args, rc=0, **more):
    return host.acnspawn("volume", *args, **more).expect(rc)


def shown(host, name):
    return json.loads(volume(host, "show", "--json", name).out)[0]


def data(host, name, *parts):
    return os.path.join(host.dir, "volumes", name, "data", *parts)


def project(path):
    out = subprocess.run(["lsattr", "-p", "-d", path], check=True, capture_output=True, text=True).stdout
    return int(out.split()[0])


def limit_of(top, number):
    """What statfs() says about a directory of that project: its limit, if there is one."""
    path = os.path.join(top, "probe")
    os.mkdir(path)
    try:
        subprocess.run(["chattr", "-p", str(number), "+P", path], check=True)
        s = os.statvfs(path)
        return s.f_blocks * s.f_frsize
    finally:
        os.rmdir(path)


@case
def app_gets_edquot(host):
    """At its quota, whatever other volumes have left; the space of a removed file can be used again."""
    with store_on_ext4(host):
        volume(host, "create", "--quota=2Mi", "small")
        image = host.shell(FILL % ("f", 64) + "; rm /d/f; " + FILL % ("g", 16) + "; df -k /d | tail -n 1 | awk '{print $2}'")
        out = host.run("--volume=small:/d", image).out.split("\n")
        equal(out[0], "quota exceeded")
        true(1900 <= int(out[1]) <= 2048, "what was written: %s" % out)
        true(1024 <= int(out[2]) < 1200, "what was written then: %s" % out)
        equal(out[3], "2048", "what df shows")
        v = shown(host, "small")
        equal((v["quota"], v["quotaInForce"]), (2 * MIB, True))
        true(MIB <= v["size"] <= 2 * MIB, "size: %s" % v)
        lacks(volume(host, "show", "small").out, "not in force")
        r = host.run("--volume=plain:/d", host.shell("dd if=/dev/zero of=/d/f bs=64k count=64 2>/dev/null; stat -c %s /d/f"))
        equal(r.out, "4194304\n", "a volume without a quota")


@case
def declared_and_listed(host):
    """quota= of --volume is that of the volume which is made, also with the owner of the image."""
    with store_on_ext4(host):
        host.run("--volume=d,kind=named,source=data,quota=1Mi", host.shell(FILL % ("f", 32)), "--mount=d:/d")
        equal(shown(host, "data")["quota"], MIB)
        volume(host, "create", "plain")
        rows = {v["name"]: v["quota"] for v in json.loads(volume(host, "list", "--json").out)}
        equal(rows, {"data": MIB, "plain": None})
        contains(volume(host, "list").out, "1.0M")
        df = [r for r in json.loads(host.acnspawn("df", "--verbose", "--json").expect(0).out) if r["kind"] == "volumes"]
        equal({r["id"]: r["quota"] for r in df}, {"data": MIB, "plain": None})


@case
def projects_differ_and_are_released(host):
    """Each volume has one of its own; after rm, and after a kill and gc, its limit is gone."""
    with store_on_ext4(host) as top:
        whole = os.statvfs(top).f_blocks * os.statvfs(top).f_frsize
        for name in "a", "b":
            volume(host, "create", "--quota=1Mi", name)
        a, b = project(data(host, "a")), project(data(host, "b"))
        true(FIRST <= a <= LAST and FIRST <= b <= LAST and a != b, "projects %s and %s" % (a, b))
        equal(limit_of(top, a), MIB)
        volume(host, "rm", "a")
        equal(limit_of(top, a), whole, "the limit of the removed one")
        equal(limit_of(top, b), MIB, "the limit of the other")
        # The number that the name leads to is taken: the next one is used.
        os.mkdir(os.path.join(top, "other"))
        subprocess.run(["chattr", "-p", str(a), "+P", os.path.join(top, "other")], check=True)
        volume(host, "create", "--quota=1Mi", "a")
        equal(project(data(host, "a")), a + 1)
        # As rm leaves it when it is killed after the rename.
        os.rename(os.path.join(host.dir, "volumes", "b"), os.path.join(host.dir, "tmp", "0123456789abcdef"))
        host.acnspawn("gc").expect(0)
        equal(limit_of(top, b), whole, "the limit after gc")
        equal(limit_of(top, a + 1), MIB, "the limit of the volume that is there")


@case
def killed_anywhere_nothing_is_half_made(host):
    """A volume that exists has its quota in force."""
    with store_on_ext4(host):
        for i in range(8):
            p = host.start("volume", "create", "--quota=1Mi", "data")
            time.sleep(0.02 * i)  # any time
            p.kill()
            host.finish(p)
            if "data" in [v["name"] for v in json.loads(volume(host, "list", "--json").out)]:
                true(shown(host, "data")["quotaInForce"], "a volume without its quota")
                volume(host, "rm", "data")
        host.acnspawn("gc").expect(0)
        equal(os.listdir(os.path.join(host.dir, "tmp")), [])


@case
def exported_and_imported(host):
    """With its quota, another, or none; files that exceed it make no volume."""
    with store_on_ext4(host):
        volume(host, "create", "--quota=1Mi", "data")
        with open(data(host, "data", "f"), "wb") as f:
            f.write(b"x" * 600000)
        tar = host.path("data.tar")
        volume(host, "export", "-o", tar, "data")
        volume(host, "import", "copy", tar)
        v = shown(host, "copy")
        equal((v["quota"], v["quotaInForce"]), (MIB, True))
        equal(project(data(host, "copy", "f")), project(data(host, "copy")), "the project of the file")
        equal(os.listxattr(data(host, "copy")), [], "attributes")
        r = host.run("--volume=copy:/d", host.shell(FILL % ("g", 16)))
        contains(r.out, "quota exceeded")
        volume(host, "import", "--quota=2Mi", "more", tar)
        equal((shown(host, "more")["quota"], shown(host, "more")["quotaInForce"]), (2 * MIB, True))
        volume(host, "import", "--quota=none", "free", tar)
        equal(shown(host, "free")["quota"], None)
        err = volume(host, "import", "--quota=512Ki", "less", tar, rc=1).err
        contains(err, "use more than the volume's quota")
        contains(err, "--quota=none")
        equal(sorted(v["name"] for v in json.loads(volume(host, "list", "--json").out)), ["copy", "data", "free", "more"])
        equal(os.listdir(os.path.join(host.dir, "tmp")), [])


@case
def mounted_without_the_option(host):
    """New quotas are refused; that of an existing volume is shown as not in force."""
    with store_on_ext4(host):
        volume(host, "create", "--quota=1Mi", "data")
    with store_on_ext4(host, "loop"):
        err = volume(host, "create", "--quota=1Mi", "new", rc=1).err
        contains(err, "(ext4) is not mounted with the option prjquota")
        contains(err, "tune2fs -O project,quota")
        equal((shown(host, "data")["quota"], shown(host, "data")["quotaInForce"]), (MIB, False))
        contains(volume(host, "show", "data").out, "not in force")
        volume(host, "rm", "data")


main()
