#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Images built from layouts: reproducible, readable by other tools, signed and encrypted, complete or not at all; and
the verdicts of validate on built images, compared with those of actool."""

import bz2
import gzip
import hashlib
import lzma
import shutil
import socket
import stat

from harness import *

MANIFEST = {"acKind": "ImageManifest", "acVersion": "0.8.11", "name": "example.com/tools/built",
            "labels": [{"name": "version", "value": "1.2.3"}, {"name": "os", "value": "linux"}, {"name": "arch", "value": "amd64"}]}
TIME = 1500000000
KINDS = ["none", "gzip", "bzip2", "xz", "zstd"]


def layout(host, name="layout", manifest=MANIFEST):
    """A layout with a bit of everything."""
    top = host.path(name)
    root = os.path.join(top, "rootfs")
    os.makedirs(os.path.join(root, "bin"))
    os.makedirs(os.path.join(root, "empty"))
    with open(os.path.join(top, "manifest"), "w") as f:
        f.write(json.dumps(manifest) if not isinstance(manifest, str) else manifest)
    with open(os.path.join(root, "bin/program"), "wb") as f:
        f.write(b"#!/bin/sh\n" * 5000)
    os.link(os.path.join(root, "bin/program"), os.path.join(root, "bin/again"))
    os.symlink("/bin/program", os.path.join(root, "bin/link"))
    os.mkfifo(os.path.join(root, "fifo"))
    os.mknod(os.path.join(root, "null"), 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    os.chown(os.path.join(root, "bin/program"), 123, 3000000)
    os.chmod(os.path.join(root, "bin/program"), 0o4755)
    os.setxattr(os.path.join(root, "bin/program"), "user.test", b"a\0b")
    os.setxattr(os.path.join(root, "bin/link"), "trusted.test", b"of a symlink", follow_symlinks=False)
    for path, dirs, files in os.walk(root, topdown=False):
        for f in files + dirs + ["."]:
            os.utime(os.path.join(path, f), (TIME, TIME), follow_symlinks=False)
    return top


def build(host, *words, env=None):
    return host.acnspawn("build", *words, env=dict(os.environ, **(env or {})))


def built(host, top, *words, name="x.aci", **more):
    r = build(host, top, "-o", host.path(name), *words, **more).expect(0)
    return r.out.strip(), host.path(name)


def left(host):
    """Files in the directory besides the stores and layouts."""
    return sorted(n for n in os.listdir(host.path("")) if ".aci" in n)


# --- The image --------------------------------------------------------------------------------------------------------------

@case
def same_id_by_every_compression_and_for_everybody(host):
    top = layout(host)
    ids = set()
    for kind in KINDS:
        id, path = built(host, top, "--compression=" + kind, name=kind + ".aci")
        ids.add(id)
        equal(host.acnspawn("fetch", path).expect(0).out.strip(), id, "ID of what was fetched")
        if kind != "zstd" and shutil.which("actool"):
            r = subprocess.run(["actool", "validate", path], capture_output=True, text=True)
            equal(r.returncode, 0, "actool validate of %s: %s" % (kind, r.stderr))
    equal(len(ids), 1, "IDs by any compression")
    for kind, read in (("none", lambda d: d), ("gzip", gzip.decompress), ("bzip2", bz2.decompress), ("xz", lzma.decompress)):
        data = read(open(host.path(kind + ".aci"), "rb").read())
        equal({"sha512-" + hashlib.sha512(data).hexdigest()}, ids, "digest of what is in " + kind)


@case
def same_layout_same_bytes(host):
    one, two = layout(host, "one"), layout(host, "two")
    for kind in KINDS:
        a, b = built(host, one, "--compression=" + kind, name="a.aci"), built(host, two, "--compression=" + kind, name="b.aci")
        equal(a[0], b[0], "IDs")
        equal(open(a[1], "rb").read() == open(b[1], "rb").read(), True, "the same bytes by " + kind)
        os.unlink(a[1])
        os.unlink(b[1])


@case
def everything_of_a_file_arrives(host):
    id, path = built(host, layout(host))
    host.acnspawn("fetch", path).expect(0)
    root = os.path.join(host.dir, "images", id, "rootfs")
    st = os.stat(os.path.join(root, "bin/program"))
    equal((st.st_uid, st.st_gid, st.st_mode & 0o7777, st.st_mtime), (123, 3000000, 0o4755, TIME), "owner, mode, time")
    equal(os.stat(os.path.join(root, "bin/again")).st_ino, st.st_ino, "the hard link")
    equal(os.readlink(os.path.join(root, "bin/link")), "/bin/program", "the symlink")
    equal(os.getxattr(os.path.join(root, "bin/program"), "user.test"), b"a\0b", "the attribute")
    equal(os.getxattr(os.path.join(root, "bin/link"), "trusted.test", follow_symlinks=False), b"of a symlink", "the symlink's attribute")
    equal(stat.S_ISFIFO(os.stat(os.path.join(root, "fifo")).st_mode), True, "the FIFO")
    with tarfile.open(path) as tar:
        device = tar.getmember("rootfs/null")
        equal((device.type, device.devmajor, device.devminor), (tarfile.CHRTYPE, 1, 3), "the device in the archive")
    equal(os.path.exists(os.path.join(root, "null")), False, "the device in the store")
    equal(os.stat(root).st_mtime, TIME, "time of the rootfs")


@case
def owner_root_and_source_date_epoch(host):
    top = layout(host)
    _, path = built(host, top, "--owner-root", "--compression=none", env={"SOURCE_DATE_EPOCH": str(TIME - 1)})
    with tarfile.open(path) as tar:
        for m in tar:
            equal((m.uid, m.gid, m.uname, m.gname), (0, 0, "", ""), "owner of " + m.name)
            equal(m.mtime, 0 if m.name == "manifest" else TIME - 1, "time of " + m.name)
    r = build(host, top, "-o", host.path("y.aci"), env={"SOURCE_DATE_EPOCH": "yesterday"}).expect(1)
    contains(r.err, "SOURCE_DATE_EPOCH is 'yesterday'", "message")


@case
def entries_are_in_order(host):
    _, path = built(host, layout(host), "--compression=none")
    with tarfile.open(path) as tar:
        names = tar.getnames()
    equal(names[:2], ["manifest", "rootfs"], "the first entries")
    equal(names[1:], sorted(names[1:], key=lambda n: n.split("/")), "order of the entries")


@case
def without_root(host):
    """An unprivileged user builds from readable files, and gets an error for others."""
    top = host.path("layout")
    os.makedirs(os.path.join(top, "rootfs"))
    with open(os.path.join(top, "manifest"), "w") as f:
        f.write(json.dumps(MANIFEST))
    with open(os.path.join(top, "rootfs/secret"), "w") as f:
        os.fchmod(f.fileno(), 0o600)
    os.makedirs(host.path("out"))
    os.chown(host.path("out"), 65534, 65534)
    program = [os.environ["ACNSPAWN"], "build", top, "-o", host.path("out/x.aci")]
    for d in (host.path(""), os.path.dirname(host.path("").rstrip("/"))):
        if not os.stat(d).st_mode & 0o001:
            os.chmod(d, os.stat(d).st_mode | 0o011)
    drop = {"user": 65534, "group": 65534, "extra_groups": []}
    try:
        r = subprocess.run(program, capture_output=True, text=True, **drop)
    except PermissionError:
        raise Skip("the program cannot be run by others")
    equal(r.returncode, 1, "exit status: " + r.stderr)
    contains(r.stderr, "Cannot pack 'rootfs/secret': cannot open it: Permission denied", "message")
    equal(os.listdir(host.path("out")), [], "what is left")
    os.chmod(os.path.join(top, "rootfs/secret"), 0o644)
    r = subprocess.run(program, capture_output=True, text=True, **drop)
    equal(r.returncode, 0, "exit status: " + r.stderr)
    equal(host.acnspawn("fetch", host.path("out/x.aci")).expect(0).out, r.stdout, "ID")


# --- Output -----------------------------------------------------------------------------------------------------------------

@case
def file_is_named_by_the_manifest(host):
    top = layout(host)
    work = host.path("work")
    os.mkdir(work)
    r = subprocess.run([os.environ["ACNSPAWN"], "build", top], cwd=work, capture_output=True, text=True)
    equal(r.returncode, 0, "exit status: " + r.stderr)
    equal(os.listdir(work), ["built-1.2.3-linux-amd64.aci"], "what was written")
    contains(r.stderr, "Written to 'built-1.2.3-linux-amd64.aci'", "message")


@case
def nothing_is_replaced_unless_forced(host):
    top = layout(host)
    with open(host.path("x.aci"), "w") as f:
        f.write("mine")
    with open(host.path("x.aci.asc"), "w") as f:
        f.write("signature of mine")
    r = build(host, top, "-o", host.path("x.aci")).expect(1)
    contains(r.err, "it already exists", "message")
    contains(r.err, "--force", "hint")
    equal(open(host.path("x.aci")).read(), "mine", "the file")
    built(host, top, "--force")
    equal(left(host), ["x.aci"], "a signature of another image does not stay")
    os.mkdir(host.path("d.aci"))
    contains(build(host, top, "-f", "-o", host.path("d.aci")).expect(1).err, "exists and is not a regular file", "message")


@case
def standard_output(host):
    top = layout(host)
    r = subprocess.run([os.environ["ACNSPAWN"], "build", top, "-o", "-"], capture_output=True)
    equal(r.returncode, 0, "exit status")
    id = "sha512-" + hashlib.sha512(gzip.decompress(r.stdout)).hexdigest()
    contains(r.stderr.decode(), id, "standard error")
    contains(build(host, top, "-o", "-", "--sign").expect(2).err, "needs a file", "message")


@case
def wrong_layouts(host):
    top = layout(host)
    root = os.path.join(top, "rootfs")
    out = host.path("x.aci")

    def refused(*words, code=1):
        r = build(host, top, "-o", out).expect(code)
        for w in words:
            contains(r.err, w, "message")
        equal(left(host), [], "what is left")

    contains(build(host, top, "-o", host.path("x.tar")).expect(1).err, "ends in .aci", "message")
    contains(build(host, top, "-o", os.path.join(root, "x.aci")).expect(1).err, "is inside of the layout", "message")
    contains(build(host, host.path("nowhere"), "-o", out).expect(1).err, "Cannot open the layout", "message")
    contains(build(host, os.path.join(top, "manifest"), "-o", out).expect(1).err, "it is not a directory", "message")

    with open(os.path.join(top, ".hidden"), "w"):
        refused("it contains '.hidden'")
    os.unlink(os.path.join(top, ".hidden"))

    with socket.socket(socket.AF_UNIX) as s:
        s.bind(os.path.join(root, "socket"))
        refused("'rootfs/socket': it is a socket", "Remove it")
    os.unlink(os.path.join(root, "socket"))

    os.mknod(os.path.join(root, "whiteout"), 0o600 | stat.S_IFCHR, 0)
    refused("'rootfs/whiteout'", "is a whiteout")
    os.unlink(os.path.join(root, "whiteout"))

    os.setxattr(root, "trusted.overlay.opaque", b"y")
    refused("'rootfs': its attribute trusted.overlay.opaque controls overlayfs")
    os.removexattr(root, "trusted.overlay.opaque")

    os.rename(root, os.path.join(host.path(""), "elsewhere"))
    os.symlink(os.path.join(host.path(""), "elsewhere"), root)
    refused("its rootfs is not a directory")
    os.unlink(root)
    refused("it has no rootfs")
    os.rename(os.path.join(top, "manifest"), host.path("m"))
    os.symlink(host.path("m"), os.path.join(top, "manifest"))
    refused("its manifest is a symbolic link")
    os.unlink(os.path.join(top, "manifest"))
    refused("it has no manifest")


@case
def every_finding_of_the_manifest(host):
    top = layout(host, manifest=dict(MANIFEST, name="Not A Name", acVersion="x"))
    r = build(host, top, "-o", host.path("x.aci")).expect(1)
    contains(r.err, "manifest: name:", "the first finding")
    contains(r.err, "manifest: acVersion:", "the second")
    equal(left(host), [], "what is left")


@case
def symlinks_are_never_followed(host):
    top = layout(host)
    os.symlink("/etc", os.path.join(top, "rootfs/etc"))
    _, path = built(host, top, "--compression=none")
    with tarfile.open(path) as tar:
        equal([m.linkname for m in tar if m.name.startswith("rootfs/etc")], ["/etc"], "entries")


@case
def changes_during_the_build_are_noticed(host):
    """A file that grows continuously: no archive with an incomplete file is written."""
    top = layout(host)
    # Large, so that it grows while it is read.
    with open(top + "/rootfs/log", "wb") as f:
        f.truncate(256 << 20)
    grower = subprocess.Popen(["sh", "-c", "while :; do echo more >>%s/rootfs/log; done" % top])
    try:
        wait_for(lambda: os.path.exists(top + "/rootfs/log"), "the file")
        for _ in range(20):
            r = build(host, top, "-f", "-o", host.path("x.aci"), "--compression=none")
            if r.rc != 0:
                break
    finally:
        grower.kill()
        grower.wait()
    equal(r.rc, 1, "exit status")
    contains(r.err, "Cannot pack 'rootfs/log': it", "message")
    contains(r.err, "a copy, or a snapshot", "hint")


@case
def killed_or_interrupted_leaves_nothing(host):
    top = layout(host)
    with open(os.path.join(top, "rootfs/large"), "wb") as f:
        f.truncate(1 << 30)
    for s in (signal.SIGKILL, signal.SIGINT):
        p = subprocess.Popen([os.environ["ACNSPAWN"], "build", top, "-o", host.path("x.aci"), "--compression=xz"],
                             stderr=subprocess.DEVNULL, preexec_fn=default_signals)
        wait_for(lambda: len(os.listdir("/proc/%d/task" % p.pid)) > 1, "threads of the compressor")
        p.send_signal(s)
        equal(p.wait(timeout=patience(30)), -s, "how it ended")
        equal([n for n in os.listdir(host.path("")) if "x.aci" in n], [], "what is left")


@case
def full_disk(host):
    top = layout(host)
    with open(os.path.join(top, "rootfs/noise"), "wb") as f:
        f.write(os.urandom(3 << 20))
    small = host.path("small")
    os.mkdir(small)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small], check=True)
    try:
        r = build(host, top, "-o", os.path.join(small, "x.aci")).expect(1)
        contains(r.err, "No space left on device", "message")
        equal(os.listdir(small), [], "what is left")
    finally:
        subprocess.run(["umount", small], check=True)


@case
def one_file_system(host):
    top = layout(host)
    mounted = os.path.join(top, "rootfs/empty")
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", mounted], check=True)
    try:
        with open(os.path.join(mounted, "file"), "w"):
            pass
        _, with_it = built(host, top, "--compression=none")
        _, without = built(host, top, "--compression=none", "--one-file-system", name="y.aci")
    finally:
        subprocess.run(["umount", mounted], check=True)
    with tarfile.open(with_it) as a, tarfile.open(without) as b:
        equal(set(a.getnames()) - set(b.getnames()), {"rootfs/empty/file"}, "what was left out")


@case
def whitelists_without_a_leading_slash(host):
    path = host.image(name="example.com/listed", files={"d/two": File(b"2"), "gone": File(b"1")}, base=False, exec=["/d/two"],
                      pathWhitelist=["d/two"])
    r = host.acnspawn("validate", path).expect(0)
    contains(r.err, "pathWhitelist[0]: is not an absolute path", "warning")
    r = host.acnspawn("validate", "--strict", path).expect(1)
    contains(r.out, "pathWhitelist[0]: is not an absolute path", "finding")
    host.acnspawn("fetch", path).expect(0)
    host.acnspawn("image", "render", "example.com/listed", host.path("tree")).expect(0)
    equal(sorted(os.listdir(host.path("tree"))), ["d"], "what was rendered")
    equal(os.listdir(host.path("tree/d")), ["two"], "what was rendered in d")


@case
def times_that_a_file_system_cannot_store(host):
    """Headers of GNU tar can hold times such as 2^35 seconds: a warning names them, and they are not replaced silently."""
    path = host.path("x.tar")
    manifest = json.dumps(image_manifest("example.com/x", {"exec": ["/f"], "user": "0", "group": "0"})).encode()
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as t:
        for name, kind, mtime, content in ("manifest", tarfile.REGTYPE, 0, manifest), ("rootfs", tarfile.DIRTYPE, 0, b""), ("rootfs/f", tarfile.REGTYPE, 2 ** 35, b"x"):
            member = tarfile.TarInfo(name)
            member.type, member.mtime, member.size, member.mode = kind, mtime, len(content), 0o755
            t.addfile(member, io.BytesIO(content))
    r = host.acnspawn("validate", path).expect(0)
    equal((r.out, "rootfs/f: its modification time is out of the range of some file systems" in r.err), (path + ": valid image\n", True), r.err)
    host.acnspawn("validate", "--strict", path).expect(1)
    r = host.acnspawn("fetch", path).expect(0)
    held = os.stat(os.path.join(host.dir, "images", r.out.split()[-1], "rootfs/f")).st_mtime == 2 ** 35
    equal("the first of which is 'rootfs/f'" in r.err, not held, r.err)


# --- validate ---------------------------------------------------------------------------------------------------------------

def tar(members):
    """Pairs of TarInfo and bytes (or None) as a tar."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as t:
        for info, data in members:
            t.addfile(info, io.BytesIO(data) if data is not None else None)
    return out.getvalue()


def entry(name, data=None, type=None, linkname=""):
    info = tarfile.TarInfo(name)
    info.type = type or (tarfile.DIRTYPE if data is None else tarfile.REGTYPE)
    info.linkname = linkname
    info.size = len(data or b"")
    info.mode = 0o755
    return info, data


def manifest_with(**more):
    return json.dumps(dict(MANIFEST, **more)).encode()


GOOD = [entry("manifest", manifest_with()), entry("rootfs")]

# What both take, and what both refuse.
BOTH_TAKE = {
    "plain": tar(GOOD),
    "manifest last": tar([GOOD[1], entry("rootfs/x", b"x"), GOOD[0]]),
    "dot in front": tar([entry("./manifest", manifest_with()), entry("./rootfs")]),
    "app": tar([entry("manifest", manifest_with(app={"exec": ["/bin/true"], "user": "0", "group": "0"})), GOOD[1]]),
}
BOTH_REFUSE = {
    "nothing in it": tar([]),
    "no manifest": tar(GOOD[1:]),
    "no rootfs": tar(GOOD[:1]),
    "rootfs is a file": tar([GOOD[0], entry("rootfs", b"x")]),
    "another file": tar(GOOD + [entry("other", b"x")]),
    "twice": tar(GOOD + [entry("rootfs/x", b"x"), entry("rootfs/x", b"y")]),
    "no JSON": tar([entry("manifest", b"{"), GOOD[1]]),
    "wrong kind": tar([entry("manifest", manifest_with(acKind="PodManifest")), GOOD[1]]),
    "no name": tar([entry("manifest", manifest_with(name="")), GOOD[1]]),
    "bad name": tar([entry("manifest", manifest_with(name="Not a name")), GOOD[1]]),
    "bad version": tar([entry("manifest", manifest_with(acVersion="1")), GOOD[1]]),
    "arch of no os": tar([entry("manifest", manifest_with(labels=[{"name": "os", "value": "linux"}, {"name": "arch", "value": "pdp11"}])), GOOD[1]]),
    "labels twice": tar([entry("manifest", manifest_with(labels=[{"name": "os", "value": "linux"}] * 2)), GOOD[1]]),
    "no user": tar([entry("manifest", manifest_with(app={"exec": ["/x"], "group": "0"})), GOOD[1]]),
}
# Refused by acnspawn but not by actool, which does not check the result of unpacking.
WE_REFUSE = {
    "out of the root": tar(GOOD + [entry("rootfs/../../x", b"x")]),
    "through a symlink": tar(GOOD + [entry("rootfs/l", type=tarfile.SYMTYPE, linkname="/etc"), entry("rootfs/l/x", b"x")]),
    "hard link out": tar(GOOD + [entry("rootfs/h", type=tarfile.LNKTYPE, linkname="/etc/passwd")]),
    "two manifests": tar(GOOD + GOOD[:1]),
    "whiteout": tar(GOOD + [entry("rootfs/w", type=tarfile.CHRTYPE)]),
}


def valid(host, data, name="x.aci"):
    with open(host.path(name), "wb") as f:
        f.write(data)
    r = host.acnspawn("validate", host.path(name))
    true(r.rc in (0, 1), "exit status of %s" % r)
    true(host.path(name) in r.out and r.err == "", "the verdict in %s" % r)
    true(not os.path.exists(host.dir) or not os.listdir(host.dir), "store untouched")
    return r.rc == 0


@case
def same_verdict_as_actool(host):
    if not shutil.which("actool"):
        raise Skip("there is no actool")
    for verdict, table in ((True, BOTH_TAKE), (False, BOTH_REFUSE)):
        for name, data in table.items():
            equal(valid(host, data), verdict, "verdict on '%s'" % name)
            r = subprocess.run(["actool", "validate", host.path("x.aci")], capture_output=True)
            equal(r.returncode == 0, verdict, "actool's verdict on '%s'" % name)


@case
def archive_that_cannot_be_unpacked_is_not_valid(host):
    for name, data in WE_REFUSE.items():
        equal(valid(host, data), False, "verdict on '%s'" % name)
        host.acnspawn("fetch", host.path("x.aci")).expect(1)
        shutil.rmtree(host.dir, ignore_errors=True)


@case
def same_verdict_by_any_compression_and_from_a_pipe(host):
    top = layout(host)
    for kind in KINDS:
        _, path = built(host, top, "--compression=" + kind, name=kind + ".aci")
        data = open(path, "rb").read()
        equal(host.acnspawn("validate", path).expect(0).out, path + ": valid image\n", "verdict")
        equal(host.acnspawn("validate", "-", input=data).expect(0).out, "-: valid image\n", "verdict on standard input")
        if kind != "none":
            host.acnspawn("validate", "-", input=data[:-20]).expect(1)
    equal(host.acnspawn("validate", top).expect(0).out, top + ": valid image layout\n", "verdict on the layout")


@case
def findings_have_their_places(host):
    bad = tar([entry("manifest", manifest_with(name="Not a name", app={"exec": ["/x"], "user": "0", "group": "0", "isolators": [
        {"name": "resource/memory", "value": {"limit": "many"}}]})), GOOD[1]])
    with open(host.path("x.aci"), "wb") as f:
        f.write(bad)
    with open(host.path("m"), "w") as f:
        f.write('{\n  "acKind": nonsense}')
    r = host.acnspawn("validate", "--json=short", host.path("x.aci"), host.path("m")).expect(1)
    found = {(os.path.basename(f["file"]), f["path"]) for f in json.loads(r.out)}
    true({("x.aci", "name"), ("x.aci", "app.isolators[0].value.limit"), ("m", "line 2, column 13")} <= found, "places: %s" % found)


@case
def oci_layouts_and_archives(host):
    """A layout written by hand: valid, and with every possible error."""
    top = host.path("oci")
    blobs = os.path.join(top, "blobs/sha256")
    os.makedirs(blobs)

    def blob(data, kind):
        data = data if isinstance(data, bytes) else json.dumps(data).encode()
        digest = hashlib.sha256(data).hexdigest()
        with open(os.path.join(blobs, digest), "wb") as f:
            f.write(data)
        return {"mediaType": "application/vnd.oci.image.%s" % kind, "digest": "sha256:" + digest, "size": len(data)}

    data = tar([entry("etc")])
    layer = blob(data, "layer.v1.tar")
    config = blob({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}}, "config.v1+json")
    manifest = blob({"schemaVersion": 2, "config": config, "layers": [layer]}, "manifest.v1+json")
    for name, content in (("oci-layout", {"imageLayoutVersion": "1.0.0"}), ("index.json", {"schemaVersion": 2, "manifests": [manifest]})):
        with open(os.path.join(top, name), "w") as f:
            json.dump(content, f)
    archive = host.path("oci.tar")
    subprocess.run(["tar", "-C", top, "-cf", archive, "."], check=True)
    r = host.acnspawn("validate", top, archive).expect(0)
    equal(r.out, "%s: valid OCI layout\n%s: valid OCI archive\n" % (top, archive), "verdicts")

    # The layers in the config, uncompressed.
    def publish(diff_ids):
        config = blob({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": diff_ids}}, "config.v1+json")
        manifest = blob({"schemaVersion": 2, "config": config, "layers": [layer]}, "manifest.v1+json")
        with open(os.path.join(top, "index.json"), "w") as f:
            json.dump({"schemaVersion": 2, "manifests": [manifest]}, f)
        return config["digest"][7:]
    publish(["sha256:" + "0" * 64])
    equal(host.acnspawn("validate", top).expect(1).out, "%s/blobs/sha256/%s: its content does not match the image's config\n"
          % (top, layer["digest"][7:]), "findings")
    config = publish([layer["digest"]] * 2)
    equal(host.acnspawn("validate", top).expect(1).out, "%s/blobs/sha256/%s: rootfs.diff_ids: there are more or fewer than layers in the manifest\n"
          % (top, config), "findings")
    publish([layer["digest"]])
    host.acnspawn("validate", top).expect(0)

    path = os.path.join(blobs, layer["digest"][7:])
    with open(path, "r+b") as f:
        f.write(b"X")
    contains(host.acnspawn("validate", top).expect(1).out, "/blobs/sha256/%s: its content does not match the digest" % layer["digest"][7:], "finding")
    with open(path, "ab") as f:
        f.write(b"X")
    contains(host.acnspawn("validate", top).expect(1).out, "it has %d bytes instead of %d" % (len(data) + 1, len(data)), "finding")
    os.unlink(path)
    contains(host.acnspawn("validate", top).expect(1).out, "it does not exist", "finding")
    with open(os.path.join(top, "index.json"), "w") as f:
        f.write('{"schemaVersion": 2, "manifests": [{"mediaType": 1}]}')
    contains(host.acnspawn("validate", top).expect(1).out, "/index.json: manifests[0].", "finding")
    os.unlink(os.path.join(top, "oci-layout"))
    contains(host.acnspawn("validate", top).expect(1).out, "/oci-layout: it does not exist", "finding")


# --- Signed and encrypted ---------------------------------------------------------------------------------------------------

def make_key(host):
    home = host.path("gnupg")
    os.makedirs(home, 0o700)
    subprocess.run(["gpg", "--homedir", home, "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", "",
                    "--quick-generate-key", "builder@example.com", "ed25519", "sign", "never"],
                   check=True, capture_output=True)
    subprocess.run(["gpgconf", "--homedir", home, "--kill", "gpg-agent"], check=False, capture_output=True)
    return home


@case
def signed_and_encrypted(host):
    if not shutil.which("gpg"):
        raise Skip("there is no gpg")
    top, home = layout(host), make_key(host)
    secret = host.path("passphrase")
    with open(secret, "w") as f:
        os.fchmod(f.fileno(), 0o600)
        f.write("correct horse\n")
    verify = lambda path: subprocess.run(["gpg", "--homedir", home, "--batch", "--verify", path + ".asc", path], capture_output=True).returncode

    env = {"GNUPGHOME": home}
    id, path = built(host, top, "--sign", env=env)
    equal(verify(path), 0, "gpg --verify")
    contains(build(host, top, "-o", path, "--sign", env=env).expect(1).err, "already exists", "message")
    again, path = built(host, top, "--sign=builder@example.com", "--encrypt=" + secret, name="y.aci", env=env)
    equal(again, id, "the ID of what is inside")
    equal(verify(path), 0, "gpg --verify of the encrypted image")
    equal(open(path, "rb").read(2) == b"\x1f\x8b", False, "readable")
    plain = subprocess.run(["gpg", "--homedir", home, "--batch", "--pinentry-mode", "loopback", "--passphrase-file", secret, "-d", path],
                           check=True, capture_output=True).stdout
    equal("sha512-" + hashlib.sha512(gzip.decompress(plain)).hexdigest(), id, "what gpg decrypts")
    subprocess.run(["gpgconf", "--homedir", home, "--kill", "gpg-agent"], check=False, capture_output=True)

    equal(host.acnspawn("validate", "--passphrase-file=" + secret, path).expect(0).out, path + ": valid encrypted image\n", "verdict")
    contains(host.acnspawn("validate", path).expect(1).err, "is encrypted", "message")

    r = build(host, top, "-o", host.path("z.aci"), "--sign=nobody@example.com", env=env).expect(1)
    contains(r.err, "nobody@example.com", "message")
    equal([n for n in left(host) if n.startswith("z")], [], "what is left")


main()
