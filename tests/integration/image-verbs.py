#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Verbs for images in the store: verification, export of the original archive, and so on."""

import hashlib
import shutil

from harness import *
from terminals import Terminal

APP = {"exec": ["/bin/true"], "user": "0", "group": "0"}
LARGE = bytes(range(256)) * 3000


def tree(host, name="tree"):
    """A directory to be packed, with files of all kinds."""
    top = host.path(name)
    root = os.path.join(top, "rootfs")
    os.makedirs(os.path.join(root, "usr/lib/deep"))
    with open(os.path.join(top, "manifest"), "w") as f:
        json.dump(image_manifest("example.com/verbs", APP), f)
    for path, content in (("empty", b""), ("usr/tool", b"#!/bin/sh\n"), ("usr/lib/large", LARGE), ("usr/lib/deep/\u00e4 b%", b"odd"),
                          ("x" * 120, b"a long name"), ("block", b"q" * 512)):
        with open(os.path.join(root, path), "wb") as f:
            f.write(content)
    os.link(os.path.join(root, "usr/tool"), os.path.join(root, "usr/alias"))
    os.symlink("usr/lib", os.path.join(root, "lib"))
    os.mkfifo(os.path.join(root, "fifo"))
    os.mknod(os.path.join(root, "null"), 0o20666, os.makedev(1, 3))
    os.chmod(os.path.join(root, "usr/tool"), 0o4755)
    os.chown(os.path.join(root, "usr/lib/large"), 1234, 5678)
    os.setxattr(os.path.join(root, "usr/lib/large"), "user.colour", b"blue")
    with open(os.path.join(root, "holes"), "wb") as f:
        f.seek(5 << 20)
        f.write(b"data")
        f.truncate(9 << 20)
    return top


def pack(host, command, name):
    top = tree(host, name + ".tree")
    out = host.path(name + ".tar")
    subprocess.run(["sh", "-c", command.format(top=top, out=out)], check=True, stderr=subprocess.DEVNULL)
    return out


PACKERS = {
    "gnu": "tar -C {top} --format=gnu -cf {out} manifest rootfs",
    "gnu-sparse": "tar -C {top} --format=gnu -S -cf {out} manifest rootfs",
    "posix": "tar -C {top} --format=posix --xattrs --acls -cf {out} manifest rootfs",
    "posix-sparse": "tar -C {top} --format=posix -S -cf {out} rootfs manifest",
    "oldgnu-blocks": "tar -C {top} --format=oldgnu -b 1 -cf {out} manifest rootfs",
    "bsdtar-pax": "bsdtar -C {top} --format=pax -cf {out} manifest rootfs",
    "bsdtar-ustar": "bsdtar -C {top} --format=ustar -cf {out} manifest rootfs/usr rootfs/lib rootfs/empty",
    "actool": "actool build --overwrite {top} {out}.aci && (gzip -dc {out}.aci || cat {out}.aci) >{out}",
    "padded": "tar -C {top} -cf {out} manifest rootfs && truncate -s +1M {out}",
}


def imported(host, file):
    return host.acnspawn("fetch", file).expect().out.strip()


def image_dir(host, id):
    return os.path.join(host.dir, "images", id)


def small(host, how="posix"):
    """The ID of an image, and the path of its rootfs in the store."""
    id = imported(host, pack(host, PACKERS[how], "small"))
    return id, os.path.join(image_dir(host, id), "rootfs")


def differences(host, *images, rc=1):
    got = json.loads(host.acnspawn("--json=short", "image", "verify", *images).expect(rc).out)
    return [(d["path"], d["difference"], d["expected"], d["found"]) for i in got for d in i["differences"]]


@case
def exported_archive_is_the_imported_one(host):
    for name, command in PACKERS.items():
        if not shutil.which(command.split()[0]):
            print(f"# {command.split()[0]} is not there")
            continue
        archive = pack(host, command, name)
        with open(archive, "rb") as f:
            want = f.read()
        id = imported(host, archive)
        equal(id, "sha512-" + hashlib.sha512(want).hexdigest(), name)
        out = host.path(name + ".out")
        host.acnspawn("image", "export", id, "-o", out).expect()
        with open(out, "rb") as f:
            true(f.read() == want, f"{name}: the archive is the same")
        host.acnspawn("image", "verify", id).expect()
        host.acnspawn("image", "rm", id).expect()
        equal(imported(host, out), id, "the ID after another import")
        size = os.path.getsize(os.path.join(image_dir(host, id), "tar.zst"))
        true(size < len(LARGE) // 4, f"{name}: the recipe is small ({size})")


@case
def exported_in_every_compression(host):
    id, _ = small(host)
    for kind in ("none", "gzip", "bzip2", "xz", "zstd"):
        out = host.path("out." + kind)
        host.acnspawn("image", "export", "--compression=" + kind, "-o", out, id).expect()
        host.acnspawn("image", "rm", id).expect()
        equal(imported(host, out), id, kind)
    host.acnspawn("image", "export", id, "--compression=lzma").expect(2)


@case
def export_replaces_nothing_unless_forced(host):
    id, _ = small(host)
    out = host.path("there")
    with open(out, "w") as f:
        f.write("mine")
    contains(host.acnspawn("image", "export", id, "-o", out).expect(1).err, "--force")
    equal(open(out).read(), "mine")
    host.acnspawn("image", "export", id, "--force", "-o", out).expect()
    equal(imported(host, out), id)


@case
def export_to_a_pipe(host):
    id, _ = small(host)
    p = host.start("image", "export", "example.com/verbs")
    equal(hashlib.sha512(p.stdout.read()).hexdigest(), id[7:], "the hash")
    equal(p.wait(), 0, "exit status")


@case
def altered_image_is_not_exported(host):
    id, root = small(host)
    with open(os.path.join(root, "usr/lib/large"), "r+b") as f:
        f.write(b"!")
    out = host.path("out")
    p = host.acnspawn("image", "export", id, "-o", out).expect(1)
    contains(p.err, "was altered in the store")
    contains(p.err, "image verify")
    true(not os.path.exists(out), "no file is left")
    equal([n for n in os.listdir(host.path()) if n.startswith(".acnspawn-")], [], "temporary files")
    os.unlink(os.path.join(root, "usr/lib/large"))
    contains(host.acnspawn("image", "export", id, "-o", out).expect(1).err, "'rootfs/usr/lib/large' is missing")


def flip(path):
    with open(path, "r+b") as f:
        first = f.read(1)
        f.seek(0)
        f.write(bytes([first[0] ^ 1]))


def replace_by_copy(path):
    with open(path, "rb") as f:
        content = f.read()
    st = os.stat(path)
    os.unlink(path)
    with open(path, "wb") as f:
        f.write(content)
    os.chmod(path, st.st_mode)


ALTERATIONS = [
    (lambda r: flip(r + "/usr/lib/large"), "rootfs/usr/lib/large", "content", None, None),
    (lambda r: flip(r + "/holes"), "rootfs/holes", "content", None, None),
    (lambda r: flip(r + "/../manifest"), "manifest", "content", None, None),
    (lambda r: open(r + "/empty", "w").write("x"), "rootfs/empty", "size", "0", "1"),
    (lambda r: os.chown(r + "/usr/lib/large", 0, 5678), "rootfs/usr/lib/large", "owner", "1234:5678", "0:5678"),
    (lambda r: os.lchown(r + "/lib", 0, 7), "rootfs/lib", "owner", "0:0", "0:7"),
    (lambda r: os.chmod(r + "/usr/lib", 0o700), "rootfs/usr/lib", "mode", "0755", "0700"),
    (lambda r: os.chmod(r + "/empty", 0o4644), "rootfs/empty", "mode", "0644", "4644"),
    (lambda r: os.setxattr(r + "/usr/lib/large", "user.colour", b"red"), "rootfs/usr/lib/large", "attributes", None, None),
    (lambda r: os.removexattr(r + "/usr/lib/large", "user.colour"), "rootfs/usr/lib/large", "attributes", None, "none"),
    (lambda r: os.setxattr(r + "/empty", "security.capability", bytes.fromhex("0100000201000000000000000000000000000000")),
     "rootfs/empty", "attributes", "none", None),
    (lambda r: os.setxattr(r + "/usr", "trusted.overlay.opaque", b"y"), "rootfs/usr", "attributes", "none", None),
    (lambda r: (os.unlink(r + "/lib"), os.symlink("/etc", r + "/lib")), "rootfs/lib", "target", "usr/lib", "/etc"),
    (lambda r: os.mknod(r + "/null", 0o20666, os.makedev(1, 3)), "rootfs/null", "added", None, None),
    (lambda r: (os.unlink(r + "/empty"), os.mknod(r + "/empty", 0o60644, os.makedev(8, 0))), "rootfs/empty", "type", "regular file", "block device"),
    (lambda r: (os.unlink(r + "/fifo"), os.mkdir(r + "/fifo")), "rootfs/fifo", "type", "FIFO", "directory"),
    (lambda r: os.unlink(r + "/usr/alias"), "rootfs/usr/alias", "missing", None, None),
    (lambda r: shutil.rmtree(r + "/usr/lib"), "rootfs/usr/lib", "missing", None, None),
    (lambda r: open(r + "/usr/lib/new", "w").close(), "rootfs/usr/lib/new", "added", None, None),
    (lambda r: os.makedirs(r + "/evil/a/b"), "rootfs/evil", "added", None, None),
    (lambda r: replace_by_copy(r + "/usr/tool"), "rootfs/usr/tool", "hard link", "rootfs/usr/alias", None),
    (lambda r: flip(r + "/../tar.zst"), "tar.zst", "error", None, Ellipsis),
    (lambda r: os.unlink(r + "/../tar.zst"), "tar.zst", "error", None, Ellipsis),
    (lambda r: os.unlink(r + "/../info"), "info", "error", None, Ellipsis),
    (lambda r: os.unlink(r + "/../manifest"), "manifest", "missing", None, None),
]


@case
def every_alteration_is_found_and_named(host):
    id, root = small(host)
    pristine = host.path("pristine")
    subprocess.run(["cp", "-a", "--sparse=always", image_dir(host, id), pristine], check=True)
    equal(differences(host, rc=0), [], "untouched")
    for alter, path, kind, expected, found in ALTERATIONS:
        alter(root)
        got = differences(host, id)
        match = [d for d in got if d[:2] == (path, kind)]
        true(match, f"{kind} of {path}: {got}")
        equal(match[0][2], expected, f"{kind} of {path}")
        if found is not Ellipsis:
            equal(match[0][3], found, f"{kind} of {path}")
        text = host.acnspawn("image", "verify", id).expect(1)
        contains(text.out, path)
        shutil.rmtree(image_dir(host, id))
        subprocess.run(["cp", "-a", "--sparse=always", pristine, image_dir(host, id)], check=True)
    equal(differences(host, "all", rc=0), [], "restored")


@case
def verify_is_bounded_and_counts(host):
    id, root = small(host)
    for i in range(250):
        open(os.path.join(root, f"new{i:03}"), "w").close()
    got = json.loads(host.acnspawn("--json=short", "image", "verify", id).expect(1).out)[0]
    equal((len(got["differences"]), got["nDifferences"], got["good"]), (100, 250, False), "differences")
    p = host.acnspawn("image", "verify", id).expect(1)
    contains(p.err, "150 more differences are not shown (250 in all)")


@case
def verify_without_a_record(host):
    id, _ = small(host)
    os.unlink(os.path.join(image_dir(host, id), "files"))
    contains(host.acnspawn("image", "verify", id).expect(1).err, "has no record of its files")
    with open(os.path.join(image_dir(host, id), "files"), "w") as f:
        f.write("files 1\n")
    contains(host.acnspawn("image", "verify").expect(1).err, "The record of its files is damaged")


@case
def verify_leaves_no_trace(host):
    id, root = small(host)
    paths = [os.path.join(d, n) for d, dirs, files in os.walk(root) for n in dirs + files]
    before = {p: (os.lstat(p).st_atime_ns, os.lstat(p).st_ctime_ns) for p in paths}
    host.acnspawn("image", "verify", id).expect()
    equal({p: (os.lstat(p).st_atime_ns, os.lstat(p).st_ctime_ns) for p in paths}, before, "times")
    equal(os.listdir(os.path.join(host.dir, "tmp")), [], "temporary files")


@case
def export_killed_at_any_moment(host):
    id, _ = small(host)
    out = host.path("killed.out")
    for delay in range(0, 40, 4):
        p = host.start("image", "export", "--compression=xz", "-o", out, id)
        time.sleep(delay / 1000)  # any time
        p.kill()
        p.wait()
        if os.path.exists(out):
            host.acnspawn("fetch", out).expect()
            os.unlink(out)


def listing(top):
    """The content of a tree, as data to compare."""
    got = {}
    for d, dirs, files in os.walk(top):
        for n in ["."] + dirs + files:
            p = os.path.join(d, n)
            st = os.lstat(p)
            content = b""
            if os.path.islink(p):
                content = os.readlink(p).encode()
            elif os.path.isfile(p):
                with open(p, "rb") as f:
                    content = f.read()
            xattrs = {x: os.getxattr(p, x, follow_symlinks=False) for x in os.listxattr(p, follow_symlinks=False)}
            size = 0 if os.path.isdir(p) else st.st_size
            got[os.path.relpath(p, top)] = (oct(st.st_mode), st.st_uid, st.st_gid, size, st.st_rdev, int(st.st_mtime), content, xattrs)
    return got


@case
def rendered_root_of_one_image(host):
    id, root = small(host, "posix-sparse")
    out = host.path("root")
    r = host.acnspawn("image", "render", "--archive", id, out).expect()
    lacks(r.err, "Files without", "messages")
    without_top = lambda tree: {k: v for k, v in tree.items() if k != "."}
    equal(without_top(listing(out)), without_top(listing(root)), "the tree")
    a, b = (os.stat(os.path.join(out, "usr", n)) for n in ("tool", "alias"))
    equal(a.st_ino, b.st_ino, "hard links")
    true(os.stat(os.path.join(out, "holes")).st_blocks * 512 < 5 << 20, "holes stay holes")
    contains(host.acnspawn("image", "render", id, out).expect(1).err, "File exists")
    contains(host.acnspawn("image", "render", id, host.path("no/where")).expect(1).err, "No such file")


@case
def a_rendered_root_gives_no_rights_on_the_host(host):
    """Neither by what an image can have, nor by what a store has of an earlier version; nor is it open to the image's users."""
    id = imported(host, host.image(name="example.com/evil", base=False, files={
        "become": File(b"x", mode=0o6755), "shared": Dir(mode=0o3777, uid=1000, gid=1000), "plain": File(b"x", mode=0o640, uid=7, gid=8)}))
    root = os.path.join(image_dir(host, id), "rootfs")
    os.mknod(os.path.join(root, "disk"), 0o60666, os.makedev(8, 0))
    os.setxattr(os.path.join(root, "plain"), "security.capability", bytes.fromhex("0100000200200000000000000000000000000000"))
    os.setxattr(os.path.join(root, "plain"), "user.colour", b"red")
    os.setxattr(os.path.join(root, "shared"), "system.posix_acl_default",
                bytes.fromhex("02000000" "01000700ffffffff" "02000700e8030000" "04000500ffffffff" "10000700ffffffff" "20000500ffffffff"))
    os.chown(root, 1000, 1000)
    os.chmod(root, 0o777)
    for option, expected in ((), 0), (("--archive",), 1):
        out = host.path("root%d" % expected)
        r = host.acnspawn("image", "render", *option, id, out).expect()
        st = {n: os.lstat(os.path.join(out, n)) for n in ("", "become", "shared", "plain")}
        equal((st[""].st_mode & 0o7777, st[""].st_uid, st[""].st_gid), (0o700, 0, 0), "the directory")
        equal(st["become"].st_mode & 0o7777, 0o6755 if expected else 0o755, "mode of a set-user-ID program")
        equal((st["plain"].st_mode & 0o7777, st["plain"].st_uid, st["plain"].st_gid), (0o640, 7, 8), "a file without special rights")
        equal(os.path.lexists(os.path.join(out, "disk")), bool(expected), "device node")
        attributes = {n: sorted(os.listxattr(os.path.join(out, n))) for n in ("plain", "shared")}
        equal(attributes, {"plain": ["security.capability"] * expected + ["user.colour"], "shared": ["system.posix_acl_default"] * expected}, "attributes")
        equal("Files without the set-ID bits, capabilities or ACLs of the image, or left out as device nodes: 4; --archive keeps them" in r.err,
              not expected, "warning in " + r.err)


@case
def rendered_root_on_another_file_system(host):
    content = os.urandom(3 << 20)
    id = imported(host, host.image(name="example.com/far", base=False, files={"f": File(content), "empty": ""}))
    there = host.path("there")
    os.mkdir(there)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "acnspawn-test", there], stderr=subprocess.DEVNULL).returncode != 0:
        raise Skip("cannot mount a tmpfs here")
    try:
        out = os.path.join(there, "root")
        host.acnspawn("image", "render", id, out).expect()
        with open(os.path.join(out, "f"), "rb") as f:
            true(f.read() == content, "the content is the same")
        equal(os.path.getsize(os.path.join(out, "empty")), 0)
        contains(host.acnspawn("image", "render", id, os.path.join(there, "no/where")).expect(1).err, "Create its parent directory first")
    finally:
        subprocess.run(["umount", there], check=True)


@case
def rendered_root_with_dependencies(host):
    low = host.image(name="example.com/low", base=False, files={"/d": Dir(0o750), "/d/low": "low", "/both": "low", "/file-to-dir": "x",
                                                              "/dir-to-file/x": "x", "/link": Link("/low")})
    mid = host.image(name="example.com/mid", base=False, files={"/d/mid": "mid", "/both": "mid"},
                     dependencies=[{"imageName": "example.com/low"}])
    top = host.image(name="example.com/top", base=False, files={"/d": Dir(0o711), "/both": "top", "/file-to-dir/y": "y",
                                                              "/dir-to-file": "file"},
                     dependencies=[{"imageName": "example.com/mid"}])
    white = host.image(name="example.com/white", base=False, files={"/own": "own", "/other": "other"},
                       dependencies=[{"imageName": "example.com/top"}], pathWhitelist=["/own", "/d", "/d/low"])
    for image in (low, mid, top, white):
        host.acnspawn("fetch", image).expect()
    out = host.path("out")
    host.acnspawn("image", "render", "example.com/top", out).expect()
    got = {k: v for k, v in listing(out).items() if not k.endswith(".")}
    for path, content in (("d/low", b"low"), ("d/mid", b"mid"), ("both", b"top"), ("file-to-dir/y", b"y"), ("dir-to-file", b"file"),
                          ("link", b"/low")):
        equal(got[path][6], content, path)
    true("dir-to-file/x" not in got, "what a file replaced is gone")
    equal(got["d"][0], "0o40711", "mode of the uppermost")
    host.acnspawn("image", "render", "example.com/white", host.path("white")).expect()
    equal(sorted(k for k in listing(host.path("white")) if not k.endswith(".")), ["d", "d/low", "own"], "only what is listed")


@case
def collected_when_unused_and_unneeded(host):
    low = imported(host, host.image(name="example.com/low", base=False, files={"/a": "a"}))
    top = imported(host, host.image(name="example.com/top", base=False, files={"/b": "b"},
                                    dependencies=[{"imageName": "example.com/low"}]))
    used = imported(host, host.image(name="example.com/used"))
    pod = host.prepare(used)
    equal(host.acnspawn("image", "gc").expect().out, "", "all were just used")
    want = sorted([low, top])
    dry = json.loads(host.acnspawn("--json=short", "image", "gc", "--grace-period=0", "--dry-run").expect().out)
    equal(sorted(x["id"] for x in dry), want, "what would go")
    equal(len(os.listdir(os.path.join(host.dir, "images"))), 3, "nothing went")
    os.utime(os.path.join(image_dir(host, top), "used"))
    gone = json.loads(host.acnspawn("--json=short", "image", "gc", "--grace-period=1h").expect().out)
    equal(gone, [], "low is needed by top, which was used")
    for i in (low, used):
        os.utime(os.path.join(image_dir(host, i), "used"), (1, 1))
    equal(json.loads(host.acnspawn("--json=short", "image", "gc", "--grace-period=1h").expect().out), [], "needed ones stay")
    gone = json.loads(host.acnspawn("--json=short", "image", "gc", "--grace-period=0").expect().out)
    equal(sorted(x["id"] for x in gone), want, "what went")
    equal(os.listdir(os.path.join(host.dir, "images")), [used], "what a pod needs stays")
    host.acnspawn("rm", pod).expect()


def allocated(path):
    """Bytes of disk space."""
    return sum(os.lstat(os.path.join(d, n)).st_blocks * 512 for d, dirs, files in os.walk(path) for n in dirs + files) \
        + os.lstat(path).st_blocks * 512


@case
def a_dry_run_lists_the_images_to_remove(host):
    """Also objects that are removed with their image: the trees rendered from it, and the layers of an OCI image."""
    plain = imported(host, host.image(name="example.com/plain", base=False, files={"/data": "x" * 300000}))
    tree = os.path.join(host.dir, "rendered", "d" * 64)
    os.makedirs(os.path.join(tree, "rootfs"))
    with open(os.path.join(tree, "layers"), "w") as f:
        f.write("images/%s/rootfs\n" % plain)
    layout = host.path("layout")
    for command in ["init", "--layout", layout], ["new", "--image", layout + ":a"]:
        subprocess.run(["umoci"] + command, check=True, capture_output=True)
    subprocess.run(["umoci", "insert", "--image", layout + ":a", os.path.join(image_dir(host, plain), "manifest"), "/file"],
                   check=True, capture_output=True)
    oci = imported(host, "oci:%s:a" % layout)
    layers = os.listdir(os.path.join(host.dir, "layers"))
    equal(len(layers), 1, "layers")
    size = {plain: allocated(image_dir(host, plain)), oci: allocated(image_dir(host, oci)), "d" * 64: allocated(tree),
            layers[0]: allocated(os.path.join(host.dir, "layers", layers[0]))}
    collect = "image", "gc", "--grace-period=0"
    dry = json.loads(host.acnspawn("--json=short", *collect, "-n").expect().out)
    equal({x["id"]: x["size"] for x in dry}, size, "what would be removed")
    r = host.acnspawn(*collect, "-n").expect()
    contains(r.err, "This would free ")
    equal(r.out.splitlines()[0].split(), ["KIND", "ID", "NAME", "SIZE"])
    true(os.path.exists(tree) and len(os.listdir(os.path.join(host.dir, "images"))) == 2, "nothing was removed")
    real = json.loads(host.acnspawn("--json=short", *collect).expect().out)
    equal(sorted(real, key=str), sorted(dry, key=str), "what was removed")
    for place in "images", "layers", "rendered":
        equal(os.listdir(os.path.join(host.dir, place)), [], "what is left in " + place)
    r = host.acnspawn(*collect).expect()
    equal((r.out, r.err), ("", "Nothing to remove.\n"))


@case
def names_in_a_list_are_distinct_on_a_narrow_terminal(host):
    names = ["example.com/a-long-name-of-a-project/with-a-long-path/and-then/the-app-%s" % w for w in ("one", "two", "three")]
    ids = [imported(host, host.image(name=n, base=False, labels=[{"name": "version", "value": "1.0.0"}])) for n in names]
    lines = {}
    for columns in 80, 200:
        t = Terminal(host, "image", "list", rows=24, columns=columns)
        t.process.wait()
        t.read(0.2)
        shown = re.sub(r"\x1b\[[0-9;:]*m", "", t.text.decode()).splitlines()
        lines[columns] = shown[1:]
        equal(shown[0].split(), ["ID", "NAME", "VERSION", "SIZE", "IMPORTED"])
        for line in shown:
            true(len(line) <= columns, "%d columns: %r" % (len(line), line))
    for id, name in zip(ids, names):
        line = [l for l in lines[80] if l.startswith(id[7:19])][0]
        contains(line, "example.com")
        contains(line, "the-app-" + name.rsplit("-", 1)[1])
        contains([l for l in lines[200] if l.startswith(id[7:19])][0], name)
        host.acnspawn("image", "show", line.split()[0]).expect()
    piped = host.acnspawn("image", "list", "--no-legend").expect().out.splitlines()
    equal(sorted(l.split()[0] for l in piped), sorted(ids), "IDs in a pipe are whole")
    contains(host.acnspawn("image", "list", "--full").expect().out.splitlines()[0], "LABELS")


@case
def orphans_are_collected(host):
    used = imported(host, host.image(name="example.com/used"))
    for path in ("layers/sha256-" + "a" * 64 + "/rootfs", "rendered/" + "b" * 64 + "/rootfs"):
        os.makedirs(os.path.join(host.dir, path))
    with open(os.path.join(host.dir, "rendered", "b" * 64, "layers"), "w") as f:
        f.write("images/sha512-" + "c" * 128 + "/rootfs\n")
    got = json.loads(host.acnspawn("--json=short", "image", "gc").expect().out)
    equal(sorted((x["kind"], x["id"]) for x in got), [("layer", "sha256-" + "a" * 64), ("rendered", "b" * 64)], "orphans")
    equal(os.listdir(os.path.join(host.dir, "layers")) + os.listdir(os.path.join(host.dir, "rendered")), [], "what is left")
    true(os.path.exists(image_dir(host, used)), "the image stays")


@case
def e7_file_system_mounted_below_an_image_is_not_emptied(host):
    """The image is removed; a file system mounted in it is unchanged, and keeps only its mount point until it is
    unmounted."""
    precious = host.path("precious")
    os.mkdir(precious)
    open(os.path.join(precious, "file"), "w").close()
    for words in ("rm", "example.com/busy"), ("gc", "--grace-period=0"):
        id = imported(host, host.image(name="example.com/busy", base=False, files={"d": Dir(), "d/f": "x"}))
        subprocess.run(["mount", "--bind", precious, os.path.join(image_dir(host, id), "rootfs/d")], check=True)
        try:
            contains(host.acnspawn("image", *words).expect(0).out, id)
            equal(os.listdir(os.path.join(host.dir, "images")), [], "images")
            r = host.acnspawn("gc").expect(1)
            contains(r.err, "Cannot remove %s/tmp/" % host.dir)
            contains(r.err, "something is mounted below it")
            contains(r.err, "run 'acnspawn gc' again")
            host.acnspawn("image", "gc")
            equal(os.listdir(precious), ["file"], "what was mounted")
        finally:
            for line in read_text("/proc/self/mountinfo").splitlines():
                if line.split()[4].startswith(host.dir):  # it went along with the image
                    subprocess.run(["umount", line.split()[4]], check=True)
        host.acnspawn("gc").expect(0)
        equal(os.listdir(os.path.join(host.dir, "tmp")), [], "what is left in tmp")


@case
def json_calls_things_the_same_everywhere(host):
    id = imported(host, host.image(name="example.com/same", base=False, files={"/a": "a"}))
    out, directory = host.path("out.aci"), host.path("rendered")

    def got(*args, rc=0):
        return json.loads(host.acnspawn("--json=short", "image", *args).expect(rc).out)
    labels = {"version": "1", "os": "linux", "arch": os_arch()}
    for rows in got("list"), got("show", id):
        equal([(r["id"], r["labels"]) for r in rows], [(id, labels)], "image")
    equal([r["id"] for r in got("verify")], [id], "what was verified")
    equal(got("export", id, "-o", out), {"id": id, "file": out}, "what export says")
    equal(got("render", id, directory), {"id": id, "directory": directory}, "what render says")
    contains(host.acnspawn("--json=short", "image", "export", id).expect(2).err, "cannot both go to standard output")
    equal(host.acnspawn("image", "export", id, "-f", "-o", out).expect().out, "", "without JSON it says nothing")
    equal(got("rm", "example.com/nobody", id, rc=1), [{"id": id}], "what was removed")


@case
def images_are_named_by_the_file_that_they_came_from(host):
    imported(host, host.image(base=False, name="example.com/other"))
    file = host.image(base=False, name="example.com/a")
    # A file that was changed just now is not recorded: it may change again without another time.
    wait_for(lambda: os.stat(file).st_ctime + 4 < time.time(), "the age of the file")
    for verb in "show", "rm":
        contains(host.acnspawn("image", verb, file).expect(1).err, "No image in the store %s came from '%s' as it is now" % (host.dir, file))
    id = imported(host, file)
    equal(json.loads(host.acnspawn("--json=short", "image", "show", file).expect(0).out)[0]["id"], id)
    contains(host.acnspawn("image", "show", file + "x").expect(1).err, "Cannot open the image '%sx'" % file)
    equal(host.acnspawn("image", "rm", file).expect(0).out.strip(), id)


@case
def everything_known_is_shown(host):
    low = imported(host, host.image(name="example.com/low", base=False, files={"/a": "a"}))
    lost = imported(host, host.image(name="example.com/lost", base=False, files={"/c": "c"}))
    top = imported(host, host.image(name="example.com/top", files={"/b": "b"}, dependencies=[
        {"imageName": "example.com/low"}, {"imageName": "example.com/lost"}]))
    shutil.rmtree(image_dir(host, lost))
    shown = json.loads(host.acnspawn("--json=short", "image", "show", top, "example.com/low").expect().out)
    equal([(x["id"], x["kind"], x["signer"]) for x in shown], [(top, "aci", None), (low, "aci", None)], "images")
    equal([d["image"] for d in shown[0]["dependencies"]], [low, None], "dependencies")
    equal(shown[0]["app"]["exec"], ["/bin/true"], "the app")
    true(shown[0]["diskSize"] > 0 and shown[0]["size"] > 0, "sizes")
    text = host.acnspawn("image", "show", top).expect().out
    for word in (top, "example.com/top", "missing", low[:19], '["/bin/true"]'):
        contains(text, word)
    pod = host.prepare(low, "--exec=/a")
    contains(host.acnspawn("image", "show", low).expect().out, pod)
    host.acnspawn("image", "show", "example.com/nobody").expect(1)


@case
def altered_image_is_refused_with_verify(host):
    id = imported(host, host.image(["/bin/true"], name="example.com/low"))
    host.acnspawn("rm", host.prepare("--verify", id)).expect()
    top = imported(host, host.image(["/bin/true"], name="example.com/top", dependencies=[{"imageName": "example.com/low"}]))
    with open(os.path.join(image_dir(host, id), "rootfs/added"), "w") as f:
        f.write("x")
    p = host.acnspawn("prepare", "--verify", top).expect(1)
    contains(p.err, "was altered in the store: 'rootfs/added' (added)")
    contains(p.err, "image verify")
    host.acnspawn("rm", host.prepare(top)).expect()


@case
def looking_is_not_using(host):
    low = imported(host, host.image(name="example.com/low", base=False))
    top = imported(host, host.image(name="example.com/top", base=False, dependencies=[{"imageName": "example.com/low"}]))

    def used():
        return {x["id"]: x["lastUsed"] for x in json.loads(host.acnspawn("--json=short", "image", "list").expect().out)}
    for id in low, top:
        os.utime(os.path.join(image_dir(host, id), "used"), (1000000000, 1000000000))
    before = used()
    for words in ("show", "example.com/top"), ("cat-manifest", top), ("verify",), ("export", top, "-o", host.path("x.aci")):
        host.acnspawn("image", *words).expect()
        equal(used(), before, "times of last use after image %s" % words[0])
    host.acnspawn("rm", host.prepare("example.com/top")).expect()
    true(all(t > before[id] for id, t in used().items()), "what a pod is made of was used: %r" % used())


@case
def damaged_objects_are_named(host):
    id, _ = small(host)
    pristine = host.path("pristine")
    subprocess.run(["cp", "-a", image_dir(host, id), pristine], check=True)
    for name in ("manifest", "info"):
        os.unlink(os.path.join(image_dir(host, id), name))
        for verb in (("image", "show", id), ("image", "export", id, "-o", host.path("x")), ("image", "cat-manifest", id)):
            p = host.acnspawn(*verb).expect(1)
            contains(p.err, name)
            contains(p.err, id)
        contains(host.acnspawn("image", "verify", id).expect(1).out, name)
        subprocess.run(["cp", "-a", os.path.join(pristine, name), image_dir(host, id)], check=True)
    # The others are shown nevertheless.
    other = imported(host, host.image(name="example.com/other", base=False))
    os.unlink(os.path.join(image_dir(host, id), "manifest"))
    p = host.acnspawn("--json=short", "image", "list").expect(1)
    equal([x["id"] for x in json.loads(p.out)], [other], "images that are shown")
    contains(p.err, "The image %s in the store %s is damaged" % (id, host.dir))
    contains(p.err, "acnspawn image rm " + id)
    host.acnspawn("image", "rm", other).expect()
    p = host.acnspawn("image", "list").expect(1)
    equal(p.out, "", "output")
    lacks(p.err, "No images")
    subprocess.run(["cp", "-a", os.path.join(pristine, "manifest"), image_dir(host, id)], check=True)
    os.unlink(os.path.join(image_dir(host, id), "tar.zst"))
    contains(host.acnspawn("image", "export", id, "-o", host.path("x")).expect(1).err, "has not kept how its archive was made")
    host.acnspawn("image", "rm", id).expect()


@case
def oci_image_is_verified_and_exported(host):
    if not shutil.which("umoci"):
        fail("umoci is not there")
    layout, bundle = host.path("layout"), host.path("bundle")
    for command in (["init", "--layout", layout], ["new", "--image", layout + ":a"], ["unpack", "--image", layout + ":a", bundle]):
        subprocess.run(["umoci"] + command, check=True, capture_output=True)
    for path, content in (("keep", "1"), ("gone", "2"), ("dir/x", "3")):
        os.makedirs(os.path.dirname(os.path.join(bundle, "rootfs", path)), exist_ok=True)
        with open(os.path.join(bundle, "rootfs", path), "w") as f:
            f.write(content)
    subprocess.run(["umoci", "repack", "--refresh-bundle", "--image", layout + ":a", bundle], check=True, capture_output=True)
    os.unlink(os.path.join(bundle, "rootfs/gone"))
    subprocess.run(["umoci", "repack", "--image", layout + ":a", bundle], check=True, capture_output=True)
    id = imported(host, "oci:" + layout + ":a")
    host.acnspawn("image", "verify", id).expect()
    host.acnspawn("image", "render", id, host.path("root")).expect()
    equal(sorted(k for k in listing(host.path("root")) if not k.endswith(".")), ["dir", "dir/x", "keep"], "the root")
    for n in ("1", "2"):
        host.acnspawn("image", "export", id, "-o", host.path(n + ".aci")).expect()
    with open(host.path("1.aci"), "rb") as a, open(host.path("2.aci"), "rb") as b:
        true(a.read() == b.read(), "always the same")
    flat = imported(host, host.path("1.aci"))
    equal(sorted(os.listdir(os.path.join(image_dir(host, flat), "rootfs"))), ["dir", "keep"], "the flat image")
    layer = os.listdir(os.path.join(host.dir, "layers"))[0]
    with open(os.path.join(host.dir, "layers", layer, "rootfs/added"), "w") as f:
        f.write("x")
    equal(differences(host, id), [("layers/" + layer + "/rootfs/added", "added", None, None)], "what was added to a layer")


@case
def places_that_an_image_came_from(host):
    """All of them mean it, by relative paths too, until something else has come from there."""
    layout, copy = host.path("layout"), host.path("copy")
    for command in (["init", "--layout", layout], ["new", "--image", layout + ":a"], ["insert", "--image", layout + ":a", "/etc/passwd", "/one"]):
        subprocess.run(["umoci"] + command, check=True, capture_output=True)
    id = imported(host, "oci:%s:a" % layout)
    shutil.copytree(layout, copy)
    equal(imported(host, "oci:%s:a" % copy), id)
    shown = lambda reference: json.loads(host.acnspawn("image", "show", "--json", reference).expect(0).out)[0]["id"]
    for reference in "oci:%s:a" % layout, "oci:%s:a" % copy, "oci:%s:a" % os.path.relpath(layout):
        equal(shown(reference), id, reference)
    subprocess.run(["umoci", "insert", "--image", copy + ":a", "/etc/passwd", "/two"], check=True, capture_output=True)
    other = imported(host, "oci:%s:a" % copy)
    equal((shown("oci:%s:a" % layout), shown("oci:%s:a" % copy)), (id, other))
    host.acnspawn("image", "rm", "oci:%s:a" % copy).expect(0)
    # That is not the one which came from there before.
    for verb in "show", "rm":
        contains(host.acnspawn("image", verb, "oci:%s:a" % copy).expect(1).err, "came from")
    equal(shown("oci:%s:a" % layout), id)
    host.acnspawn("image", "rm", "oci:%s:a" % layout).expect(0)
    contains(host.acnspawn("image", "show", "oci:%s:a" % layout).expect(1).err, "came from")


@case
def layouts_by_their_path(host):
    layout = host.path("layout")
    imported(host, host.image(base=False, name="example.com/other"))
    for command in (["init", "--layout", layout], ["new", "--image", layout + ":a"], ["insert", "--image", layout + ":a", "/etc/passwd", "/one"]):
        subprocess.run(["umoci"] + command, check=True, capture_output=True)
    error = host.acnspawn("image", "show", layout).expect(1).err
    contains(error, "No image in the store %s came from '%s'.\n" % (host.dir, layout))
    id = imported(host, layout)
    for reference in layout, os.path.relpath(layout), "oci:" + layout:
        equal(json.loads(host.acnspawn("--json=short", "image", "show", reference).expect(0).out)[0]["id"], id, reference)


@case
def what_is_no_file_is_not_opened(host):
    fifo = host.path("fifo")
    imported(host, host.image(base=False, name="example.com/other"))
    os.mkfifo(fifo)
    writer = subprocess.Popen(["sh", "-c", "echo x >%s" % fifo])
    wait_for(lambda: read_text("/proc/%d/stat" % writer.pid).rsplit(") ", 1)[1].startswith("S"), "the writer")
    for verb in "show", "rm":
        contains(host.acnspawn("image", verb, fifo).expect(1).err, "No image in the store %s came from '%s'" % (host.dir, fifo))
    equal(writer.poll(), None, "the writer's end")
    with open(fifo) as f:
        equal(f.read(), "x\n")
    equal(writer.wait(), 0, "the writer")


@case
def altered_list_and_config_of_an_oci_image(host):
    layout = host.path("layout")
    for command in (["init", "--layout", layout], ["new", "--image", layout + ":a"], ["insert", "--image", layout + ":a", "/etc/passwd", "/one"],
                    ["insert", "--image", layout + ":a", "/etc/passwd", "/two"], ["config", "--image", layout + ":a", "--config.cmd", "/two"]):
        subprocess.run(["umoci"] + command, check=True, capture_output=True)
    id = imported(host, "oci:" + layout + ":a")
    equal(differences(host, id, rc=0), [], "untouched")
    with open(os.path.join(image_dir(host, id), "layers")) as f:
        layers = f.read().split()
    equal(len(layers), 2, "layers")
    for lines in layers[:1], layers[1:], layers[::-1], []:
        with open(os.path.join(image_dir(host, id), "layers"), "w") as f:
            f.write("".join(l + "\n" for l in lines))
        equal([d[:2] for d in differences(host, id)], [("layers", "missing")], "%d layers" % len(lines))
    contains(host.acnspawn("prepare", "--verify", id).expect(1).err, "The image %s was altered in the store: 'layers' (missing)" % id)
    with open(os.path.join(image_dir(host, id), "layers"), "w") as f:
        f.write("".join(l + "\n" for l in layers))
    host.acnspawn("rm", host.prepare("--verify", id)).expect()
    with open(os.path.join(image_dir(host, id), "config"), "a") as f:
        f.write(" ")
    got = differences(host, id)
    equal([d[:3] for d in got], [("config", "content", id)], "the config")
    contains(host.acnspawn("image", "verify", id).expect(1).out, "config")
    os.unlink(os.path.join(image_dir(host, id), "config"))
    equal(differences(host, id), [("config", "missing", None, None)], "no config")


@case
def render_killed_at_any_moment(host):
    id, _ = small(host)
    for delay in range(0, 30, 3):
        out = host.path("root%d" % delay)
        p = host.start("image", "render", id, out)
        time.sleep(delay / 1000)  # any time
        p.kill()
        p.wait()
        if os.path.exists(out):
            equal(sorted(os.listdir(out)), sorted(os.listdir(os.path.join(image_dir(host, id), "rootfs"))), "whole")
    host.acnspawn("image", "verify", id).expect()


if __name__ == "__main__":
    main()
