#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-cp(1), sentence by sentence: cp and export."""

from manual import *

PAGE = page("acnspawn-cp.1", "ca083df7a30bc0f7")


@once
def pod(host):
    """Two apps, the first with a volume; nothing runs until a case starts it."""
    os.mkdir(host.path("volume"))
    files = {"srv/link": Link("/etc/passwd"), "srv/out": Link("../../../../etc/hostname"), "srv/dir": Dir(), "srv/dir/file": File("file"), "var/log": Dir(),
             "var/log/web.log": File("lines\n"), "srv/suid": File("x", 0o4755, 1000, 1000)}
    return host.prepare("--name=site", "--exit-policy=never", host.shell("touch /out/up; sleep 1000", name="example.com/web", files=files),
                        "--volume=%s:/data" % host.path("volume"), host.shell("sleep 1000", name="example.com/db"))


def cp(host, *args, verb="cp", **more):
    pod(host)
    return host.acnspawn(verb, *args, **more)


def write(host, name, text):
    with open(host.path(name), "w") as f:
        f.write(text)
    return host.path(name)


@sentence("cp", "PATH is resolved in the app's root, as by the app: symbolic links cannot lead outside")
@sentence("cp", "-L, --follow-link If the given path is a symbolic link, copy its target.")
@sentence("cp", "Below the given path no symbolic link is followed.")
def links_are_those_of_the_app(host):
    cp(host, "site:web:/srv/link", host.path("link")).expect(0)
    equal(os.readlink(host.path("link")), "/etc/passwd")
    cp(host, "-L", "site:web:/srv/link", host.path("passwd")).expect(0)
    contains(read_text(host.path("passwd")), "app:x:1000:")
    cp(host, "--follow-link", "site:web:/srv/out", host.path("out")).expect(1)
    cp(host, "site:web:/srv", host.path("srv")).expect(0)
    equal(os.readlink(host.path("srv/link")), "/etc/passwd")


@sentence("cp", "While the app runs, its volumes are part of its root; otherwise a path on a volume is refused, with the volume's name.")
def a_volume_while_the_app_does_not_run(host):
    contains(cp(host, "/etc/hostname", "site:web:/data/name").expect(1).err, "volume")
    equal(os.listdir(host.path("volume")), [])


@sentence("cp", "A file of the host whose name has a colon is written with a slash, as in ./a:b.")
@sentence("cp", "Directories are copied with their content: into the target if that is a directory, else to that name; DIRECTORY/. denotes the content only.")
@sentence("cp", "a directory is never replaced by a file, nor a file by a directory.")
def names_of_targets(host):
    write(host, "a:b", "colon")
    cp(host, "./a:b", "site:web:/srv/colon", cwd=host.tmp).expect(0)
    cp(host, "site:web:/srv/colon", host.path("colon")).expect(0)
    equal(read_text(host.path("colon")), "colon")
    os.makedirs(host.path("there"))
    for target, found in ("there", "there/dir/file"), ("new", "new/file"):
        cp(host, "site:web:/srv/dir", host.path(target)).expect(0)
        equal(read_text(host.path(found)), "file")
    cp(host, "site:web:/srv/dir/.", host.path("there")).expect(0)
    equal(read_text(host.path("there/file")), "file")
    write(host, "dir", "")
    cp(host, host.path("dir"), "site:web:/srv").expect(1)
    os.makedirs(host.path("x/colon"))
    cp(host, host.path("x/colon"), "site:web:/srv").expect(1)


@sentence("cp", "Modes, times, holes, hard links among the copied files and attributes of users (user.*) are kept; devices, sockets and FIFOs are left out, with a message.")
@sentence("cp", "Without --archive copies are owned by the caller, or in a pod by its root, and have no set-ID bits, capabilities or ACLs.")
@sentence("cp", "-a, --archive Also keep owners, set-ID bits, capabilities and ACLs. User 0 of the host is user 0 of the pod, and so on up to 65535.")
def what_is_kept_of_a_file(host):
    path = write(host, "kept", "x")
    os.chmod(path, 0o640)
    os.utime(path, (1, 1))
    os.makedirs(host.path("tree"))
    os.rename(path, host.path("tree/kept"))
    os.link(host.path("tree/kept"), host.path("tree/other"))
    os.mkfifo(host.path("tree/fifo"))
    contains(cp(host, host.path("tree"), "site:web:/srv").expect(0).err, "fifo")
    cp(host, "site:web:/srv/tree", host.path("back")).expect(0)
    equal(sorted(os.listdir(host.path("back"))), ["kept", "other"])
    s = os.stat(host.path("back/kept"))
    equal((s.st_mode & 0o7777, s.st_mtime, s.st_nlink), (0o640, 1, 2))
    for words, expected in ((), (0o755, 0, 0)), (("-a",), (0o4755, 1000, 1000)):
        cp(host, *words, "site:web:/srv/suid", host.path("suid")).expect(0)
        s = os.stat(host.path("suid"))
        equal((s.st_mode & 0o7777, s.st_uid, s.st_gid), expected)


@sentence("cp", "- in place of TARGET writes a tar archive to standard output, with the owners that the app sees; in place of SOURCE it unpacks one (compressed or not) "
                "from standard input into the directory PATH.")
@sentence("EXAMPLES", "# acnspawn cp site:web:/var/log/web.log . # acnspawn cp index.html site:web:/srv/www/ Write the content of a directory to an archive: "
                      "# acnspawn cp site:web:/etc/. - >etc.tar")
def archives(host):
    out = cp(host, "site:web:/srv/.", "-").expect(0).out_bytes
    with tarfile.open(fileobj=io.BytesIO(out)) as tar:
        member = [m for m in tar.getmembers() if m.name.endswith("suid")][0]
        equal((member.uid, member.gid), (1000, 1000))
    packed = subprocess.run(["gzip"], input=out, stdout=subprocess.PIPE, check=True).stdout
    for archive in out, packed:
        cp(host, "-", "site:db:/tmp", input=archive).expect(0)
        cp(host, "site:db:/tmp/dir/file", host.path("unpacked")).expect(0)
        equal(read_text(host.path("unpacked")), "file")
    cp(host, "site:web:/var/log/web.log", ".", cwd=host.tmp).expect(0)
    equal(read_text(host.path("web.log")), "lines\n")
    os.makedirs(host.path("www"))
    cp(host, host.path("www"), "site:web:/srv").expect(0)
    write(host, "index.html", "page")
    cp(host, "index.html", "site:web:/srv/www/", cwd=host.tmp).expect(0)
    true(cp(host, "site:web:/etc/.", "-").expect(0).out_bytes[257:262] == b"ustar", "an archive")


@sentence("COMMANDS", "The pod may be prepared, running, or have ended.")
@sentence("cp", "Read-only mounts are not written to, and files are not copied to kernel file systems, such as /proc.")
@sentence("cp", "A volume that is a single file is not replaced.")
def a_pod_that_runs(host):
    path = write(host, "single", "old")
    uuid = host.detach("--name=runs", host.shell("touch /out/up; sleep 1000", name="example.com/one"), "--volume=%s:/data:ro" % host.path("volume"),
                       "--volume=%s:/etc/single" % path)
    host.wait_up("one", uuid)
    for target in "/data/name", "/proc/name", "/etc/single":
        cp(host, "/etc/hostname", "runs:" + target).expect(1)
    equal(read_text(path), "old")
    cp(host, "/etc/hostname", "runs:/tmp/name").expect(0)
    host.acnspawn("stop", "--force", "runs").expect(0)
    cp(host, "runs:/tmp/name", host.path("name")).expect(0)
    equal(read_text(host.path("name")), read_text("/etc/hostname"))


@sentence("export", "with the app's changes, without volumes, /proc and the like. Owners are those that the app sees.")
@sentence("export", "The same files result in the same image, whose ID is printed. Times later than SOURCE_DATE_EPOCH are replaced by it.")
@sentence("export", "-a APP, --app=APP The app, if the pod has several.")
@sentence("export", "-o FILE, --output=FILE Write to FILE instead of standard output. The file appears when it is complete.")
@sentence("export", "--name=NAME[:VERSION][,LABEL=VALUE...] The name of the image, and labels to set; the default is those of the app's image.")
@sentence("export", "-f, --force Replace FILE if it exists.")
def an_image_of_an_app(host):
    pod(host)
    cp(host, "/etc/hostname", "site:web:/srv/changed").expect(0)
    env = {**os.environ, "SOURCE_DATE_EPOCH": "5"}
    words = ("-a", "web", "--name=example.com/copy:7,channel=beta", "site")
    ids = [cp(host, "--output=" + host.path("c%d.aci" % i), *words, verb="export", env=env).expect(0).out.strip() for i in range(2)]
    equal(ids[0], ids[1])
    cp(host, "site", verb="export").expect(1)
    cp(host, "-o", host.path("c0.aci"), *words, verb="export").expect(1)
    cp(host, "-f", "-o", host.path("c0.aci"), *words, verb="export", env=env).expect(0)
    with tarfile.open(host.path("c0.aci")) as tar:
        members = {m.name: m for m in tar.getmembers()}
        manifest = json.load(tar.extractfile("manifest"))
    true(max(m.mtime for m in members.values()) <= 5, "times")
    true("rootfs/srv/changed" in members and "rootfs/proc/self" not in members, "files")
    equal(members["rootfs/srv/suid"].uid, 1000)
    equal((manifest["name"], {l["name"]: l["value"] for l in manifest["labels"]}["channel"]), ("example.com/copy", "beta"))
    equal(host.acnspawn("fetch", host.path("c0.aci")).expect(0).out.strip(), ids[0])


@sentence("export", "--compression=KIND none (default), gzip, bzip2, xz or zstd.")
def compressions(host):
    host.prepare("--name=small", host.image(base=False, name="example.com/small"))
    for kind, magic in ("none", b"manifest"), ("gzip", b"\x1f\x8b"), ("bzip2", b"BZh"), ("xz", b"\xfd7zXZ"), ("zstd", b"\x28\xb5\x2f\xfd"):
        out = cp(host, "--compression=" + kind, "small", verb="export").expect(0).out_bytes
        equal(out[:len(magic)], magic)
    cp(host, "--compression=lz4", "small", verb="export").expect(2)


elsewhere(
    ("cp", "even if the app replaces files meanwhile.", "files/an_app_that_swaps_directories_for_links_gains_nothing"),
    ("cp", "Each file appears under its name when it is complete, and then replaces an existing one;", "files/interrupted_copies_leave_no_file_under_the_name"),
    ("export", "The manifest is that of the app's image, without dependencies and pathWhitelist.", "files/dependencies_and_whitelists_are_folded_in"),
    ("export", "Files that a running app writes meanwhile may be in the image or not, and a file that changes while it is read is an error: pause the pod before.",
     "files/a_pod_that_runs_can_be_exported"),
)

main()
