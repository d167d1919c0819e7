#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Images: import in one pass, all forms of names, retention while in use; hostile archives leave nothing, inside the
store or outside of it."""

import bz2
import gzip
import hashlib
import lzma

from harness import *

APP = {"exec": ["/bin/true"], "user": "0", "group": "0"}


def tar_bytes(members, format=tarfile.PAX_FORMAT):
    """A tar of TarInfo and content pairs, in this order."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data) if data is not None else None)
    return out.getvalue()


def member(name, data=None, type=None, linkname="", mode=0o644, **more):
    info = tarfile.TarInfo(name)
    info.mode, info.linkname = mode, linkname
    info.type = type or (tarfile.DIRTYPE if data is None else tarfile.REGTYPE)
    info.size = len(data) if data is not None and type is None else 0
    for key, value in more.items():
        setattr(info, key, value)
    return info, data if type is None else None


def good_start(**more):
    return [member("manifest", json.dumps(image_manifest("example.com/hostile", APP, **more)).encode()), member("rootfs", mode=0o755)]


def write(host, data, name="x.aci"):
    with open(host.path(name), "wb") as f:
        f.write(data)
    return host.path(name)


def images_in_store(host):
    try:
        return os.listdir(os.path.join(host.dir, "images"))
    except FileNotFoundError:
        return []


def rubbish(host):
    try:
        return os.listdir(os.path.join(host.dir, "tmp"))
    except FileNotFoundError:
        return []


def refused(host, data, *words, timeout=60):
    """The archive is refused; nothing partial remains; the message names the file."""
    path = write(host, data)
    r = host.acnspawn("fetch", path, timeout=timeout).expect(1)
    contains(r.err, path, "message")
    for word in words:
        contains(r.err.lower(), word.lower(), "message")
    equal(images_in_store(host), [], "images in the store")
    equal(rubbish(host), [], "rubbish in tmp/")
    return r


# --- Valid archives ---------------------------------------------------------------------------------------------------------

@case
def image_id_is_the_digest_of_the_uncompressed_tar(host):
    path = host.shell("echo hello")
    data = open(path, "rb").read()
    expected = "sha512-" + hashlib.sha512(data).hexdigest()
    for suffix, compress in (("", lambda d: d), ("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)):
        r = host.acnspawn("fetch", write(host, compress(data), "image.%s.aci" % suffix)).expect(0)
        equal(r.out.split()[0], expected, "ID of the image compressed with %s" % (suffix or "nothing"))
    equal(images_in_store(host), [expected])
    equal(host.run(expected).out, "hello\n")


@case
def everything_about_files_is_kept(host):
    """Owners, modes, times to the nanosecond, attributes, hard links; but no device nodes, which would be those of the host."""
    members = good_start() + [
        member("rootfs/setuid", b"x", mode=0o4755, uid=5, gid=6, pax_headers={"mtime": "1234567890.123456789"}),
        member("rootfs/dir", mode=0o1777, uid=7, gid=8, pax_headers={"mtime": "1000000000.5"}),
        member("rootfs/hard", type=tarfile.LNKTYPE, linkname="rootfs/setuid"),
        member("rootfs/soft", type=tarfile.SYMTYPE, linkname="/anywhere/at all"),
        member("rootfs/null", type=tarfile.CHRTYPE, devmajor=1, devminor=3, mode=0o666),
        member("rootfs/disk\033", type=tarfile.BLKTYPE, devmajor=8, devminor=0, mode=0o666),
        member("rootfs/dev/zero", type=tarfile.CHRTYPE, devmajor=1, devminor=5, mode=0o666),
        member("rootfs/fifo", type=tarfile.FIFOTYPE, mode=0o600),
        member("rootfs/attr", b"x", pax_headers={"SCHILY.xattr.user.colour": "red"}),
        member("rootfs/name with \n newline and \u00e9", b"x"),
    ]
    r = host.acnspawn("fetch", write(host, tar_bytes(members))).expect(0)
    image = r.out.split()[0]
    root = os.path.join(host.dir, "images", image, "rootfs")
    st = os.lstat(os.path.join(root, "setuid"))
    equal((st.st_mode & 0o7777, st.st_uid, st.st_gid, st.st_mtime_ns, st.st_nlink), (0o4755, 5, 6, 1234567890123456789, 2))
    st = os.lstat(os.path.join(root, "dir"))
    equal((st.st_mode & 0o7777, st.st_uid, st.st_gid, st.st_mtime_ns), (0o1777, 7, 8, 1000000000500000000))
    equal(os.readlink(os.path.join(root, "soft")), "/anywhere/at all")
    for name in "null", "disk\033", "dev/zero":
        true(not os.path.lexists(os.path.join(root, name)), "the device node %r is in the store" % name)
    true(os.path.isdir(os.path.join(root, "dev")), "the directory of a device node is there")
    contains(r.err, "Device nodes of the image are left out, 2, the first of which is '/null'", "warning")
    equal(os.lstat(os.path.join(root, "fifo")).st_mode & 0o170000, 0o010000)
    equal(os.getxattr(os.path.join(root, "attr"), "user.colour"), b"red")
    true(os.path.exists(os.path.join(root, "name with \n newline and \u00e9")), "odd name")


@case
def images_are_named_in_every_way(host):
    one = host.shell("echo one", name="example.com/tool", labels=[{"name": "version", "value": "1.2.0"},
                                                                  {"name": "os", "value": "linux"},
                                                                  {"name": "arch", "value": os_arch()}])
    two = host.shell("echo two", name="example.com/tool", labels=[{"name": "version", "value": "1.10.0"},
                                                                  {"name": "os", "value": "linux"},
                                                                  {"name": "arch", "value": os_arch()},
                                                                  {"name": "channel", "value": "beta"}])
    first = host.acnspawn("fetch", one).expect(0).out.split()[0]
    second = host.acnspawn("fetch", two).expect(0).out.split()[0]
    expected = {first: "one", first[:20]: "one", first[7:17]: "one", "example.com/tool:1.2.0": "one", "example.com/tool": "two",
                "example.com/tool:1.10.0": "two", "example.com/tool,channel=beta": "two", second: "two", one: "one"}
    for reference, output in expected.items():
        equal(host.run("--rm", reference).out, output + "\n", "image named " + reference)
    r = host.acnspawn("prepare", "example.com/tool:9").expect(1)
    contains(r.err, "example.com/tool:9", "message")


@case
def manifest_is_shown_byte_for_byte(host):
    text = (b'{ "acVersion":"0.8.11",\n\t"acKind" : "ImageManifest", "name":"example.com/odd", "app": '
            b'{"exec":["/x"],"user":"0","group":"0"}}\n\n')
    path = write(host, tar_bytes([member("manifest", text), member("rootfs", mode=0o755)]))
    host.acnspawn("fetch", path).expect(0)
    equal(host.acnspawn("image", "cat-manifest", "example.com/odd").expect(0).out_bytes, text)


@case
def an_id_without_digits_is_invalid(host):
    image = host.acnspawn("fetch", host.shell("true")).expect(0).out.split()[0]
    for words in (["image", "rm", "sha512-"], ["image", "show", "sha512-"], ["prepare", "sha512-"]):
        contains(host.acnspawn(*words).expect(1).err, "not an image ID")
    equal(images_in_store(host), [image], "images")


@case
def list_and_rm(host):
    image = host.acnspawn("fetch", host.shell("true", name="example.com/a")).expect(0).out.split()[0]
    rows = json.loads(host.acnspawn("image", "list", "--json=short").expect(0).out)
    equal([(r["id"], r["name"]) for r in rows], [(image, "example.com/a")])
    host.acnspawn("image", "rm", image).expect(0)
    equal(images_in_store(host), [])
    host.acnspawn("image", "rm", image).expect(1)


@case
def rm_refuses_an_image_in_use(host):
    image = host.acnspawn("fetch", host.shell("true", name="example.com/a")).expect(0).out.split()[0]
    uuid = host.prepare(image)
    r = host.acnspawn("image", "rm", image).expect(1)
    contains(r.err, uuid, "message")
    equal(images_in_store(host), [image])
    host.acnspawn("rm", uuid).expect(0)
    host.acnspawn("image", "rm", image).expect(0)


@case
def dependencies_are_below_the_image(host):
    base = host.image(name="example.com/base", files={"srv/base": "base\n", "srv/both": "base\n"})
    host.acnspawn("fetch", base).expect(0)
    upper = host.image(["/bin/sh", "-c", "cat /srv/base /srv/both /srv/upper"], name="example.com/upper", base=False,
                       files={"srv": Dir(), "srv/upper": "upper\n", "srv/both": "upper\n"},
                       dependencies=[{"imageName": "example.com/base"}])
    equal(host.run(upper).out, "base\nupper\nupper\n")


@case
def image_that_depends_on_itself_is_refused(host):
    path = host.image(["/bin/true"], name="example.com/a", dependencies=[{"imageName": "example.com/a"}])
    host.acnspawn("fetch", path)
    r = host.acnspawn("prepare", path, timeout=20).expect(1)
    contains(r.err, "example.com/a", "message")
    equal(host.pods(), [], "pods")


@case
def missing_dependency_is_named(host):
    path = host.image(["/bin/true"], name="example.com/a", dependencies=[{"imageName": "example.com/missing"}])
    r = host.acnspawn("prepare", path).expect(1)
    contains(r.err, "example.com/missing", "message")
    equal(host.pods(), [], "pods")


# --- Invalid archives -------------------------------------------------------------------------------------------------------

@case
def entries_that_climb_out(host):
    target = host.path("escaped")
    up = "../" * 12
    for name in ("rootfs/../../../escaped", "../escaped", "rootfs/x/../../../../escaped", "rootfs/" + up + target[1:], up + target[1:]):
        refused(host, tar_bytes(good_start() + [member(name, b"evil")]))
        true(not os.path.lexists(target), "written outside by %r" % name)


@case
def absolute_entries(host):
    target = host.path("escaped")
    r = host.acnspawn("fetch", write(host, tar_bytes(good_start() + [member(target, b"evil")])))
    true(r.rc in (0, 1), str(r))
    true(not os.path.lexists(target), "written outside")


@case
def files_through_symlinks(host):
    outside = host.path("outside")
    os.mkdir(outside)
    for link in (outside, "/", "../../../../../../../.." + outside):
        path = "rootfs/a/x" if link != "/" else "rootfs/a" + outside + "/x"
        refused(host, tar_bytes(good_start() + [member("rootfs/a", type=tarfile.SYMTYPE, linkname=link), member(path, b"evil")]))
        equal(os.listdir(outside), [], "written outside through %r" % link)


@case
def directory_replaced_by_a_link(host):
    outside = host.path("outside")
    os.mkdir(outside)
    data = tar_bytes(good_start() + [member("rootfs/d", mode=0o755), member("rootfs/d", type=tarfile.SYMTYPE, linkname=outside),
                                     member("rootfs/d/x", b"evil")])
    refused(host, data)
    equal(os.listdir(outside), [], "written outside")
    equal(os.stat(outside).st_mode & 0o7777, 0o755, "mode of a directory outside")


@case
def hard_links_out(host):
    target = host.path("target")
    with open(target, "w") as f:
        f.write("precious")
    for name in (target, "/etc/shadow", "rootfs/../../../../etc/shadow", "../../../../../../.." + target, "manifest", "rootfs/missing"):
        refused(host, tar_bytes(good_start() + [member("rootfs/l", type=tarfile.LNKTYPE, linkname=name)]))
    equal(os.stat(target).st_nlink, 1, "links to the file outside")
    equal(read_text(target), "precious")


@case
def hard_link_through_a_symlink(host):
    target = host.path("target")
    with open(target, "w") as f:
        f.write("precious")
    refused(host, tar_bytes(good_start() + [member("rootfs/way", type=tarfile.SYMTYPE, linkname=host.tmp),
                                            member("rootfs/l", type=tarfile.LNKTYPE, linkname="rootfs/way/target")]))
    equal(os.stat(target).st_nlink, 1, "links to the file outside")


@case
def wrong_layouts(host):
    manifest = member("manifest", json.dumps(image_manifest("example.com/x", APP)).encode())
    rootfs = member("rootfs", mode=0o755)
    for members in ([], [manifest], [rootfs], [manifest, rootfs, manifest], [manifest, rootfs, rootfs],
                    [manifest, rootfs, member("other", b"x")], [manifest, member("rootfs", b"x")],
                    [manifest, member("rootfs", type=tarfile.SYMTYPE, linkname="/")],
                    [member("manifest", type=tarfile.SYMTYPE, linkname="rootfs/m"), rootfs, member("rootfs/m", b"{}")],
                    [member("manifest"), rootfs],
                    [manifest, rootfs, member("rootfs/a", b"1"), member("rootfs/a", b"2")],
                    [manifest, rootfs, member("rootfs/a", b"1"), member("rootfs/./a", b"2")]):
        refused(host, tar_bytes(members))


@case
def bad_manifests(host):
    rootfs = member("rootfs", mode=0o755)
    good = image_manifest("example.com/x", APP)
    for text in (b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100000, json.dumps({**good, "acKind": "PodManifest"}).encode(),
                 json.dumps({**good, "name": "Not A Name"}).encode(), json.dumps({**good, "acVersion": "x"}).encode(),
                 json.dumps({**good, "app": {"exec": []}}).encode(), json.dumps({**good, "app": {**APP, "user": ""}}).encode(),
                 json.dumps(good).encode()[:-1] + b', "name": "example.com/y"}',
                 json.dumps({**good, "app": {**APP, "environment": [{"name": "a=b", "value": ""}]}}).encode(),
                 json.dumps({**good, "app": {**APP, "environment": [{"name": "A", "value": "x\0y"}]}}).encode(),
                 json.dumps({**good, "app": {**APP, "exec": ["a\0b"]}}).encode()):
        refused(host, tar_bytes([member("manifest", text), rootfs]))


@case
def huge_manifest(host):
    data = tar_bytes([member("manifest", b'{"acKind": "ImageManifest"' + b" " * (64 << 20) + b"}"), member("rootfs", mode=0o755)])
    refused(host, gzip.compress(data, 1))


@case
def truncated_and_spoiled_archives(host):
    data = open(host.shell("true"), "rb").read()
    packed = gzip.compress(data, 1)
    for bad in (b"", b"x", b"not a tar" * 1000, data[:512], data[:700], data[:len(data) // 2], packed[:len(packed) // 2],
                packed[:-4] + b"\0\0\0\0", packed[:200] + b"\xff" * 50 + packed[250:]):
        refused(host, bad)


@case
def other_archives_are_not_images(host):
    import zipfile
    path = host.path("x.zip")
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("manifest", json.dumps(image_manifest("example.com/x", APP)))
        z.writestr("rootfs/", "")
    refused(host, open(path, "rb").read())


@case
def overlay_attributes_and_whiteouts_are_inert(host):
    """trusted.overlay.* of an archive must not affect the overlay: files of another image neither appear nor
    disappear."""
    base = host.image(name="example.com/base", files={"srv/secret": "secret\n"})
    host.acnspawn("fetch", base).expect(0)
    members = good_start(dependencies=[{"imageName": "example.com/base"}]) + [
        member("rootfs/srv", mode=0o755, pax_headers={"SCHILY.xattr.trusted.overlay.opaque": "y",
                                                       "SCHILY.xattr.trusted.overlay.redirect": "/etc"})]
    path = write(host, tar_bytes(members))
    r = host.acnspawn("fetch", path)
    if r.rc == 0:
        image = r.out.split()[0]
        root = os.path.join(host.dir, "images", image, "rootfs/srv")
        equal([a for a in os.listxattr(root) if "overlay" in a], [], "attributes in the store")
    else:
        contains(r.err, "overlay", "message")


@case
@with_timeout(300)
def bombs_are_bounded(host):
    """A few kilobytes that unpack to a huge size: time and disk are limited."""
    big = tarfile.TarInfo("rootfs/big")
    big.size = 1 << 43
    data = tar_bytes(good_start())
    end = data.rstrip(b"\0")
    cut = (len(end) + 511) // 512 * 512
    stream = data[:cut] + big.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20)
    refused(host, gzip.compress(stream), timeout=120)
    deep = good_start() + [member("rootfs/" + "d/" * 5000 + "x", b"x")]
    r = host.acnspawn("fetch", write(host, tar_bytes(deep)), timeout=120)
    true(r.rc in (0, 1), str(r))
    long_name = good_start() + [member("rootfs/" + "n" * 5000, b"x")]
    refused(host, tar_bytes(long_name))


def add_chains(host, lengths):
    """Images in chains, each of which depends on the one before it, and the lowest of each on the same base."""
    base = host.image(name="example.com/base", files={"n": Dir(0o711)})
    host.acnspawn("fetch", base).expect(0)
    for level in range(max(lengths)):
        files = []
        for k in (k for k, length in enumerate(lengths) if level < length):
            below = "example.com/c%d-%d" % (k, level - 1) if level else "example.com/base"
            name = "example.com/c%d-%d" % (k, level)
            manifest = image_manifest(name, dependencies=[{"imageName": below}])
            files.append(write_aci(host.path("c%d.aci" % k), manifest, {"n/%d-%d" % (k, level): b"x", "last": name.encode()}))
        host.acnspawn("fetch", *files, timeout=120).expect(0)


@case
@with_timeout(400)
def e11_as_many_layers_as_there_may_be(host):
    """Four hundred are stacked in a real pod; one more is refused before there is a pod."""
    add_chains(host, [4] * 99 + [3])
    app = {"exec": ["/bin/sh", "-c", "ls /n | busybox wc -l; cat /last; echo; busybox stat -c %a /n"], "user": "0", "group": "0"}

    def stacked(name, last):
        dependencies = ["example.com/c%d-3" % k for k in range(99)] + [last]
        manifest = image_manifest(name, app, dependencies=[{"imageName": d} for d in dependencies])
        return write_aci(host.path("top.aci"), manifest, {"n/top": b"x"})

    # Itself, the base, and 99 * 4 + 2 images in chains. Directories that they only imply keep the mode of the base.
    r = host.acnspawn("run", stacked("example.com/most", "example.com/c99-1"), timeout=200).expect(0)
    equal(r.out.split(), ["399", "example.com/c99-1", "711"], "output")
    r = host.acnspawn("prepare", stacked("example.com/too-many", "example.com/c99-2"), timeout=200).expect(1)
    contains(r.err, "The image example.com/too-many has more than 400 layers", "message")
    contains(r.err, "acnspawn build", "message")
    equal([p for p in host.pods() if "/exited/" not in p], [], "pods that were made")


def write_many_entries(path, n_directories, n_files):
    """An image of so many directories, with so many empty files in each."""
    def header(name, size=0, type=tarfile.REGTYPE, mode=0o644):
        info = tarfile.TarInfo(name)
        info.size, info.type, info.mode = size, type, mode
        return info.tobuf(tarfile.USTAR_FORMAT)

    manifest = json.dumps(image_manifest("example.com/many")).encode()
    with open(path, "wb", 1 << 20) as f:
        f.write(header("manifest", len(manifest)) + manifest + bytes(-len(manifest) % 512))
        f.write(header("rootfs", type=tarfile.DIRTYPE, mode=0o755))
        for d in range(n_directories):
            f.write(header("rootfs/d%d" % d, type=tarfile.DIRTYPE, mode=0o755))
            for k in range(n_files):
                f.write(header("rootfs/d%d/f%d" % (d, k)))
        f.write(bytes(1024))
    return path


@case
@with_timeout(1200)
def a9_a_million_entries(host):
    """Imported and removed with limited memory, and with no more disk than a record of a hundred bytes per entry."""
    if not os.environ.get("ACNSPAWN_TEST_LONG"):
        raise Skip("takes minutes; set ACNSPAWN_TEST_LONG=1")
    image = write_many_entries(host.path("many.aci"), 1000, 999)
    p = subprocess.Popen(host.argv("fetch", image), stdout=subprocess.PIPE)
    out = p.stdout.read().decode()
    status, usage = os.wait4(p.pid, 0)[1:]
    p.returncode = os.waitstatus_to_exitcode(status)
    equal(p.returncode, 0, "exit status")
    true(usage.ru_maxrss < 192 << 10, "%d kB of memory were used" % usage.ru_maxrss)
    directory = os.path.join(host.dir, "images", out.strip())
    equal(sum(len(files) for _, _, files in os.walk(os.path.join(directory, "rootfs"))), 999000, "number of files")
    disk = sum(os.lstat(os.path.join(where, name)).st_blocks * 512 for where, names, files in os.walk(directory)
               for name in names + files)
    true(disk < 192 << 20, "%d bytes of disk are used" % disk)
    host.acnspawn("image", "rm", "example.com/many", timeout=600).expect(0)
    equal(os.listdir(os.path.join(host.dir, "images")) + os.listdir(os.path.join(host.dir, "tmp")), [], "what is left")


# What to mount on $D, its requirements, and the expected message. $F: a file for its content.
UNFIT = (
    ("ramfs", (), "mount -t ramfs x $D", "ramfs"),
    ("overlay", (), "mount -t tmpfs x $D && mkdir $D/l $D/u $D/w $D/o && "
                    "mount -t overlay -o lowerdir=$D/l,upperdir=$D/u,workdir=$D/w x $D/o && D=$D/o", "overlay"),
    ("vfat", ("mkfs.vfat",), "mkfs.vfat -C $F 16384 && mount -t vfat -o loop $F $D", "FAT"),
    ("ext2_filetype", ("mkfs.ext2",), "mkfs.ext2 -q -O ^filetype $F 16M && mount -t ext2 -o loop $F $D && rmdir $D/lost+found",
     "do not list the types"),
    ("xfs_ftype", ("mkfs.xfs",), "truncate -s 320M $F && mkfs.xfs -q -m crc=0 -n ftype=0 $F && mount -t xfs -o loop $F $D",
     "do not list the types"),
    # The error of a call on a file system without support.
    ("xattr", ("strace",), "T='strace -qq -o /dev/null -e trace=fsetxattr -e inject=fsetxattr:error=EOPNOTSUPP'",
     "has no extended attributes"),
    ("owners", ("strace",), "T='strace -qq -o /dev/null -e trace=fchownat -e inject=fchownat:error=EINVAL'",
     "does not store owners"),
    ("whiteouts", ("strace",), "T='strace -qq -o /dev/null -e trace=mknodat -e inject=mknodat:error=EINVAL'",
     "has no device nodes"),
    ("upper", ("strace",), "T='strace -qq -o /dev/null -e trace=fsconfig -e inject=fsconfig:error=EINVAL:when=5'",
     "cannot make an overlay on it"),
)


def on_file_system(host, name, programs, mount, command):
    """Runs the command where $D is a file system of that kind. Skips the case where there is none."""
    place = host.path(name)
    for program in programs:
        if not shutil.which(program):
            raise Skip("the program %s is missing" % program)
    os.mkdir(place)
    script = "D=%s F=%s.file T=; { %s; } >$F.log 2>&1 || exit 77; %s" % (place, place, mount, command)
    r = subprocess.run(["unshare", "--mount", "sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if r.returncode == 77:
        with open(place + ".file.log") as f:
            raise Skip("it cannot be made or mounted here: " + " ".join(f.read().split()))
    return r


def refused_on(name, programs, mount, why):
    def check(host):
        """Refused by name before anything is created, with a hint."""
        image = write(host, b"no image")
        r = on_file_system(host, name, programs, mount,
                           "$T %s --dir=$D fetch %s; r=$?; ls -A $D; exit $r" % (ACNSPAWN, image))
        equal(r.returncode, 1, "exit status")
        contains(r.stderr, "is not suitable for pods (", "message")
        contains(r.stderr, why, "message")
        contains(r.stderr, "--dir=", "message")
        equal([n for n in r.stdout.split() if n not in ("l", "u", "w", "o")], [], "what was made")
    check.__name__ = "e11_store_that_cannot_carry_overlays_" + name
    return case(check)


for unfit in UNFIT:
    refused_on(*unfit)


@case
def store_without_id_mapped_mounts(host):
    """Refused where a pod with users of its own is prepared, before its image is read; tried once."""
    refused = "strace -qq -o /dev/null -e trace=mount_setattr -e inject=mount_setattr:error=EINVAL"
    image = host.image()
    r = on_file_system(host, "unmapped", ("strace",), "mount -t tmpfs -o mode=0700 x $D",
                       "%s %s --dir=$D prepare %s; r=$?; ls $D/images; exit $r" % (refused, ACNSPAWN, image))
    equal((r.returncode, r.stdout), (1, ""), "exit status, and the images: " + r.stderr)
    contains(r.stderr, "the store %s " % host.path("unmapped"), "message")
    contains(r.stderr, "(tmpfs) cannot do id-mapped mounts: move the store, or prepare with --no-userns", "message")
    os.rmdir(host.path("unmapped"))
    r = on_file_system(host, "unmapped", ("strace",), "mount -t tmpfs -o mode=0700 x $D",
                       "%s %s --dir=$D prepare --no-userns %s && strace -qq -e trace=mount_setattr %s --dir=$D prepare %s && "
                       "%s %s --dir=$D prepare %s" % (refused, ACNSPAWN, image, ACNSPAWN, image, refused, ACNSPAWN, image))
    equal((r.returncode, len(r.stdout.split())), (0, 3), "pods: " + r.stderr)
    equal(r.stderr.count("MOUNT_ATTR_IDMAP"), 1, "trials: " + r.stderr)


@case
def e11_store_that_was_moved(host):
    """File system features are tested again if the store is on another file system, and only then."""
    host.acnspawn("fetch", host.image()).expect(0)
    marker = os.path.join(host.dir, "file-system")
    stat = os.stat(marker)
    host.acnspawn("image", "list").expect(0)
    equal(os.stat(marker).st_ino, stat.st_ino, "the file after another command")
    trial = "mkfs.ext2 -q -O ^filetype $F 16M && mount -t ext2 -o loop $F $D && cp -a %s $D/store" % host.dir
    r = on_file_system(host, "moved", ("mkfs.ext2",), trial, "%s --dir=$D/store image list" % ACNSPAWN)
    equal(r.returncode, 1, "exit status")
    contains(r.stderr, "do not list the types", "message")
    with open(marker, "w") as f:
        f.write("of another\n")
    host.acnspawn("image", "list").expect(0)
    true(open(marker).read() != "of another\n", "it was not tried again")
    equal(os.listdir(os.path.join(host.dir, "tmp")), [], "what is left of trying")


@case
def fetch_of_special_files(host):
    os.mkdir(host.path("dir.aci"))
    for path in (host.path("dir.aci"), "/dev/zero", host.path("missing.aci")):
        r = host.acnspawn("fetch", path, timeout=20).expect(1)
        contains(r.err, path, "message")
    equal(images_in_store(host), [])


@case
def unknown_references_suggest_similar_names(host):
    host.acnspawn("fetch", host.shell("true", name="example.com/webserver")).expect(0)
    r = host.acnspawn("prepare", "--pull-policy=never", "example.com/websever").expect(1)
    contains(r.err, "example.com/websever", "message")
    contains(r.err, "example.com/webserver", "message")


@case
def ambiguous_prefix_lists_the_candidates(host):
    """Images until two IDs begin with the same digit."""
    ids = {}
    for i in range(17):
        image = host.image(base=False, name="example.com/n%d" % i)
        image_id = host.acnspawn("fetch", image).expect(0).out.split()[0]
        if image_id[7] in ids:
            r = host.acnspawn("prepare", image_id[:8]).expect(1)
            contains(r.err, image_id[:12], "message")
            contains(r.err, ids[image_id[7]][:12], "message")
            return
        ids[image_id[7]] = image_id
    fail("seventeen images and no two that begin alike")


main()
