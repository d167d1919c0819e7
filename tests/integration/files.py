#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn cp and export: files into apps and out of them, in all states of the pod; with an app that exchanges files
meanwhile (see CVE-2018-15664 and CVE-2019-14271)."""

import io
import stat
import tarfile

from harness import *


SLEEP = "touch /out/up; trap 'exit 0' TERM; while :; do sleep 0.05; done"


def running(host, *options, script=SLEEP, app="a", **more):
    uuid = host.detach("--name=p", *options, host.shell(script, name="example.com/" + app, **more))
    host.wait_up(app)
    return uuid


def make_tree(host, name="tree"):
    """All kinds of files, with distinctive owners and times."""
    top = host.path(name)
    os.makedirs(top + "/sub/deep")
    os.makedirs(top + "/empty")
    with open(top + "/file", "w") as f:
        f.write("hello\n")
    with open(top + "/sub/program", "w") as f:
        f.write("#!/bin/sh\n")
    os.chmod(top + "/sub/program", 0o4755)
    os.chown(top + "/file", 1000, 1002)
    os.chmod(top + "/file", 0o640)
    os.chmod(top + "/empty", 0o1777)
    os.setxattr(top + "/file", "user.note", b"kept")
    os.link(top + "/file", top + "/sub/deep/again")
    os.symlink("/etc/passwd", top + "/absolute")
    os.symlink("../file", top + "/sub/relative")
    os.mkfifo(top + "/fifo")
    with open(top + "/sparse", "wb") as f:
        f.write(b"begin")
        f.seek(1 << 30)
        f.write(b"end")
    for path in "file", "sub", "sparse", "empty":
        os.utime(top + "/" + path, ns=(10**18 + 123456789, 10**18 + 987654321))
    os.utime(top + "/absolute", ns=(10**18 + 1, 10**18 + 1), follow_symlinks=False)
    return top


def compare(one, other, owner=None, archive=False, base=0):
    """OTHER is a copy of ONE."""
    for where, dirs, files in os.walk(one):
        for name in dirs + files + ["."]:
            left = os.path.join(where, name)
            right = os.path.join(other, os.path.relpath(left, one))
            a = os.lstat(left)
            if stat.S_ISFIFO(a.st_mode):
                true(not os.path.lexists(right), "the FIFO was copied")
                continue
            b = os.lstat(right)
            expected = a.st_mode if archive else a.st_mode & ~0o6000
            equal(oct(b.st_mode), oct(expected), "mode of " + right)
            equal(b.st_mtime_ns, a.st_mtime_ns, "time of " + right)
            if stat.S_ISREG(a.st_mode):
                equal(b.st_size, a.st_size, "size of " + right)
                true(b.st_blocks <= a.st_blocks + 64, "%s is not sparse" % right)
            if stat.S_ISLNK(a.st_mode):
                equal(os.readlink(right), os.readlink(left), "target of " + right)
            who = (a.st_uid + base, a.st_gid + base) if archive else owner
            equal((b.st_uid, b.st_gid), who, "owner of " + right)
    equal(os.getxattr(other + "/file", "user.note"), b"kept")
    equal(os.stat(other + "/file").st_ino, os.stat(other + "/sub/deep/again").st_ino, "inode of the hard link")


def in_and_out(host, uuid, upper, options):
    base = 0 if "--no-userns" in options else host.uid_base("p")
    tree = make_tree(host)
    for archive in [], ["--archive"]:
        name = "kept" if archive else "plain"
        r = host.acnspawn("cp", *archive, tree, "p:/srv/" + name).expect(0)
        contains(r.err, "fifo': it is a device, a socket or a FIFO")
        equal("set-ID bits" in r.err, not archive, "a word about set-ID bits")
        compare(tree, upper() + "/srv/" + name, (base, base), archive, base)
        r = host.acnspawn("cp", *archive, "p:a:srv/" + name, host.path(name)).expect(0)
        compare(tree, host.path(name), (0, 0), archive) if archive else None
        equal(oct(os.stat(host.path(name, "sub/program")).st_mode), "0o10" + ("4755" if archive else "0755"))
    contains(read_text(host.path("kept/file")), "hello")


@both
def a_tree_goes_in_and_out_of_a_running_app(host, *options):
    uuid = running(host, *options)
    in_and_out(host, uuid, lambda: host.upper("a"), options)
    equal(host.acnspawn("enter", "p", "cat", "/srv/plain/sub/relative").expect(0).out, "hello\n")
    host.acnspawn("stop", "--force", "p").expect(0)


@both
def a_tree_goes_in_and_out_of_a_prepared_pod(host, *options):
    host.prepare("--name=p", *options, host.shell("cat /srv/plain/file; touch /srv/plain/new", name="example.com/a"))
    in_and_out(host, None, lambda: host.upper("a"), options)
    equal(host.run("p").out, "hello\n")
    equal(host.acnspawn("cp", "p:/srv/plain/new", host.path("new")).expect(0).err, "")


@case
def of_several_apps_one_is_named(host):
    host.prepare("--name=p", host.shell("true", name="example.com/a"), "---", host.shell("true", name="example.com/b"))
    r = host.acnspawn("cp", "p:/etc/passwd", host.path("x")).expect(1)
    contains(r.err, "has several apps: specify one.\nGive it after the pod, as POD:APP:PATH. Its apps are: a, b\n")
    host.acnspawn("cp", "p:b:/etc/passwd", host.path("x")).expect(0)


@both
def a_tree_goes_in_and_out_of_a_pod_that_has_ended(host, *options):
    host.run("--name=p", *options, host.shell("rm /etc/group; echo changed >/etc/passwd", name="example.com/a"))
    in_and_out(host, None, lambda: host.upper("a"), options)
    host.acnspawn("cp", "p:/etc/passwd", host.path("passwd")).expect(0)
    equal(read_text(host.path("passwd")), "changed\n")
    contains(host.acnspawn("cp", "p:/etc/group", host.path("group")).expect(1).err, "'p:a:/etc/group' does not exist")


@case
def names_are_as_with_cp(host):
    running(host)
    os.makedirs(host.path("d"))
    for name in "one", "two":
        with open(host.path(name), "w") as f:
            f.write(name)
    cp = lambda *args: host.acnspawn("cp", *args)
    cp(host.path("one"), host.path("two"), "p:/srv").expect(0)
    cp("p:/srv/one", "p:a:/srv/two", host.path("d")).expect(0)
    equal(sorted(os.listdir(host.path("d"))), ["one", "two"])
    cp(host.path("d"), "p:/srv").expect(0)
    cp(host.path("d") + "/.", "p:/tmp").expect(0)
    cp(host.path("one"), "p:/srv/renamed").expect(0)
    cp(host.path("two"), "p:/srv/renamed").expect(0)
    out = host.acnspawn("enter", "p", "sh", "-c", "cat /srv/d/one /tmp/two /srv/renamed").expect(0).out
    equal(out, "onetwotwo")
    cp("p:bin/sh", host.path("link")).expect(0)
    equal(os.readlink(host.path("link")), "busybox")
    cp("-L", "p:bin/sh", host.path("followed")).expect(0)
    true(os.path.isfile(host.path("followed")) and not os.path.islink(host.path("followed")), "the link was not followed")
    # A link to a directory that is given as the target is followed, inside the app's root.
    host.acnspawn("enter", "p", "ln", "-s", "/srv", "/tmp/link").expect(0)
    cp(host.path("one"), "p:/tmp/link").expect(0)
    for args, rc, words in (
            (["p:/nope", host.path("x")], 1, "'p:a:/nope' does not exist"),
            (["p:/etc/passwd", host.path("no/x")], 1, "/no/x' cannot be created: its directory does not exist"),
            (["p:/etc/passwd", host.path("x/")], 1, "/x/' does not exist.\nCreate the directory first"),
            ([host.path("one"), "p:/nope/x"], 1, "'p:a:/nope/x' cannot be created: its directory does not exist"),
            (["p:/etc", host.path("one")], 1, "something else is in its place"),
            ([host.path("one"), host.path("two"), "p:/srv/renamed"], 1, "is not a directory, and there are several"),
            (["p:/dev/null", host.path("x")], 1, "is a device"),
            (["p:/proc/1/environ", host.path("x")], 1, "is in a kernel file system"),
            ([host.path("one"), "p:/proc/sys/kernel/core_pattern"], 1, "is in a kernel file system"),
            ([host.path("one"), "p:/sys/fs/cgroup"], 1, "is in a kernel file system"),
            ([host.path("one"), "p:b:/srv"], 1, "has no app 'b'"),
            ([host.path("one"), "nobody:/srv"], 1, "nobody"),
            ([host.path("one"), host.path("x")], 2, "needs a pod"),
            (["p:/etc", "p:/srv"], 2, "between the host and an app"),
            (["p:", host.path("x")], 2, "names no file"),
            (["-", host.path("one"), "p:/srv"], 2, "cannot be combined with other files"),
            (["p:/etc"], 2, "")):
        r = cp(*args).expect(rc)
        contains(r.err, words)
    true(not os.path.lexists(host.path("x")), "a refused copy left something")
    host.acnspawn("stop", "--force", "p").expect(0)


@both
def archives_are_streams(host, *options):
    running(host, *options)
    tree = make_tree(host)
    os.unlink(tree + "/sparse")
    host.acnspawn("cp", "-a", tree, "p:/srv/t").expect(0)
    r = host.acnspawn("cp", "p:/srv/t", "-").expect(0)
    with tarfile.open(fileobj=io.BytesIO(r.out_bytes)) as tar:
        names = {m.name: m for m in tar.getmembers()}
        equal((names["t/file"].uid, names["t/file"].gid, names["t/file"].mode), (1000, 1002, 0o640))
        equal(names["t/sub/deep/again"].linkname, "t/file")
        equal(names["t/absolute"].linkname, "/etc/passwd")
    equal(host.acnspawn("cp", "p:/etc/passwd", "-").expect(0).out_bytes[:10], b"etc/passwd"[4:] + b"\0\0\0\0")
    for archive in [], ["-a"]:
        host.acnspawn("cp", *archive, "-", "p:/tmp", input=r.out_bytes).expect(0)
        got = host.acnspawn("enter", "p", "stat", "-c", "%u %g %a", "/tmp/t/file").expect(0).out.strip()
        equal(got, "1000 1002 640" if archive else "0 0 640")
    # Files of an archive cannot be written outside of the directory, and there are no partial copies.
    for name, words in (("../../etc/evil", ".."), ("a/../../b", "..")):
        bad = io.BytesIO()
        with tarfile.open(fileobj=bad, mode="w") as tar:
            tar.addfile(tarfile.TarInfo("good"), None)
            tar.addfile(tarfile.TarInfo(name), None)
        contains(host.acnspawn("cp", "-", "p:/tmp", input=bad.getvalue()).expect(1).err, words)
    lacks(host.acnspawn("enter", "p", "ls", "/tmp").out, "good")
    contains(host.acnspawn("cp", "-", "p:/tmp", input=b"rubbish" * 500).expect(1).err, "not a tar archive")
    contains(host.acnspawn("cp", "-", "p:/nope/x", input=r.out_bytes).expect(1).err, "does not exist")
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def volumes_are_there_while_the_app_runs(host):
    os.makedirs(host.path("v"))
    with open(host.path("f"), "w") as f:
        f.write("x")
    ro, rw = "--volume=ro,kind=host,source=%s,readOnly=true" % host.path("v"), "--volume=rw,kind=host,source=" + host.path("v")
    uuid = host.prepare("--name=p", ro, rw, "--volume=e,kind=empty", "--mount=volume=ro,target=/ro", "--mount=volume=rw,target=/rw",
                        "--mount=volume=e,target=/e", host.shell(SLEEP, name="example.com/a"))
    contains(host.acnspawn("cp", host.path("f"), "p:/srv").expect(0).err, "")
    host.acnspawn("run", "--detach", uuid).expect(0)
    host.wait_up("a")
    r = host.acnspawn("cp", host.path("f"), "p:/ro").expect(1)
    contains(r.err, "on the volume ro, which is mounted read-only")
    host.acnspawn("cp", host.path("f"), "p:/rw/g").expect(0)
    equal(read_text(host.path("v/g")), "x")
    host.acnspawn("cp", host.path("f"), "p:/e").expect(0)
    host.acnspawn("cp", "p:/ro/g", host.path("out")).expect(0)
    # A directory is not copied into itself, whatever the path.
    host.acnspawn("cp", "p:/rw", host.path("v/copy")).expect(0)
    equal(sorted(os.listdir(host.path("v/copy"))), ["g"])
    host.acnspawn("stop", "p").expect(0)
    r = host.acnspawn("cp", "p:/rw/g", host.path("out")).expect(1)
    contains(r.err, "is on the volume rw, which is mounted only while the app runs")
    r = host.acnspawn("cp", "p:/e", host.path("out2")).expect(1)
    contains(r.err, "is on the volume e, which is mounted only while the app runs")
    contains(host.acnspawn("cp", host.path("f"), "p:/rw").expect(1).err, "It is %s on the host" % host.path("v"))


@both
def a_volume_that_is_one_file_stays_where_it_is(host, *options):
    """Replacing the mount point by a new file would take the volume away from the app, whichever command wrote it."""
    for name in "host", "new":
        with open(host.path(name), "w") as f:
            f.write(name + "\n")
    os.makedirs(host.path("tree"))
    shutil.copy(host.path("new"), host.path("tree/conf"))
    os.symlink("new", host.path("tree/link"))
    volumes = ["--volume=%s,kind=host,source=%s%s" % (v, host.path("host"), more)
               for v, more in (("ro", ",readOnly=true"), ("rw", ""))]
    mounts = ["--mount=volume=ro,target=/etc/conf", "--mount=volume=rw,target=/srv/link"]
    uuid = host.prepare("--name=p", *options, *volumes, *mounts,
                        host.shell(SLEEP, name="example.com/a", files={"etc/conf": File("image\n"), "srv/link": File("")}))
    for args in ([host.path("new"), "p:/etc/conf"], ["p:/etc/conf", host.path("out")]):
        contains(host.acnspawn("cp", *args).expect(1).err, "is on the volume ro, which is mounted only while the app runs")
    host.acnspawn("run", "--detach", uuid).expect(0)
    host.wait_up("a")
    for args in ([host.path("new"), "p:/etc/conf"], [host.path("tree/conf"), "p:/etc"], [host.path("tree") + "/.", "p:/etc"],
                 [host.path("tree/link"), "p:/srv"], [host.path("new"), "p:/srv/link"]):
        contains(host.acnspawn("cp", *args).expect(1).err, "a file is mounted in its place")
        r = host.acnspawn("enter", "p", "sh", "-c", "cat /etc/conf /srv/link; ls -A /etc /srv | grep acnspawn")
        equal(r.out, "host\nhost\n", "what the app sees after %r" % (args,))
    equal(read_text(host.path("host")), "host\n")
    host.acnspawn("cp", "p:/etc/conf", host.path("out")).expect(0)
    equal(read_text(host.path("out")), "host\n")
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def volumes_on_links_of_the_image_hide_what_is_copied_below_them(host):
    files = {"run": Dir(), "var/run": Link("/run"), "run/app": Dir()}
    host.prepare("--name=p", "--volume=v,kind=empty", "--volume=w,kind=empty",
                 host.shell("true", name="example.com/a", files=files), "--mount=v:/var/run/app", "--mount=w:/var/run/new/dir")
    for path, volume in (("/var/run/app/f", "v"), ("/run/app/f", "v"), ("/run/app", "v"), ("/run/app/", "v"),
                         ("/var/run/app/none", "v")):
        contains(host.acnspawn("cp", "/etc/hostname", "p:" + path).expect(1).err, "is on the volume " + volume)
    for path in ("/run/new", "/run/apple", "/var/run/other"):
        host.acnspawn("cp", "/etc/hostname", "p:" + path).expect(0)


@case
def an_app_is_started_again_while_files_are_copied_into_it(host):
    """Files created in its old root meanwhile do no harm."""
    running(host, "--exit-policy=all")
    source = host.path("many")
    os.makedirs(source)
    for i in range(4000):
        with open(os.path.join(source, "f%d" % i), "w"):
            pass
    for _ in range(6):
        copies = [host.start("cp", source, "p:/srv") for _ in range(2)]
        time.sleep(0.1)  # any time
        host.acnspawn("restart-app", "p", "a").expect(0)
        lacks(host.acnspawn("export", "p", "-o", host.path("x.aci"), "--force").err, "has no root yet")
        for p in copies:
            lacks(p.communicate()[1].decode(), "has no root yet")
        wait_for(lambda: host.app_status("p", "a")["state"] in ("running", "ended"), "app a")
        equal(host.app_status("p", "a")["state"], "running")
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def a_root_that_is_read_only_is_not_written_to(host):
    host.prepare("--name=p", host.shell("sleep 1000", name="example.com/a"), "--readonly-rootfs")
    contains(host.acnspawn("cp", "/etc/hostname", "p:/srv").expect(1).err, "read-only for the app")
    host.acnspawn("run", "--detach", "p").expect(0)
    host.note_pods()
    contains(wait_for(lambda: (lambda r: r.err if r.rc == 1 and "just" not in r.err else None)(
        host.acnspawn("cp", "/etc/hostname", "p:/srv")), "an answer"), "read-only for the app")
    host.acnspawn("stop", "--force", "p").expect(0)


@both
def an_app_that_swaps_directories_for_links_gains_nothing(host, *options):
    """/etc/hostname and similar files of the host are neither read nor written; the app's own files are copied."""
    marker = "/var/tmp/acnspawn-cp-marker-%d" % os.getpid()
    os.makedirs(marker)
    try:
        script = ("mkdir -p /tmp/x/d; ln -s %s /tmp/l; touch /out/up; cd /tmp; while :; do "
                  "mv -T x y; mv -T l x; mv -T x l; mv -T y x; done 2>/dev/null" % marker)
        running(host, *options, script=script)
        source = host.path("src")
        os.makedirs(source + "/d/e")
        for i in range(20):
            with open(source + "/d/e/f%d" % i, "w") as f:
                f.write("x")
        for i in range(25):
            host.acnspawn("cp", source + "/.", "p:/tmp/x")
            host.acnspawn("cp", "-a", source, "p:/tmp/x/d")
            host.acnspawn("cp", "p:/tmp/x", host.path("out%d" % i))
            host.acnspawn("cp", "p:/tmp", host.path("all%d" % i))
        equal(os.listdir(marker), [], "what got out of the app")
        for where, dirs, files in os.walk(host.tmp):
            for name in dirs + files:
                true("acnspawn-cp-marker" not in name and "debian_version" not in name, "got %s from the host" % name)
    finally:
        shutil.rmtree(marker)
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def interrupted_copies_leave_no_file_under_the_name(host):
    running(host)
    with open(host.path("big"), "wb") as f:
        for _ in range(64):
            f.write(os.urandom(1 << 20))
    for sig in signal.SIGINT, signal.SIGKILL, signal.SIGTERM:
        p = host.start("cp", host.path("big"), "p:/srv/big")
        time.sleep(0.02)  # any time
        p.send_signal(sig)
        p.communicate()
        names = set(host.acnspawn("enter", "p", "ls", "-A", "/srv").out.split())
        true(names <= {"big"}, "left in the target: %r" % names)
        if "big" in names:
            equal(host.acnspawn("enter", "p", "stat", "-c", "%s", "/srv/big").out.strip(), str(64 << 20))
            host.acnspawn("enter", "p", "rm", "/srv/big").expect(0)
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def a_huge_directory_needs_little_memory(host):
    running(host)
    host.acnspawn("enter", "p", "sh", "-c", "mkdir /srv/h; cd /srv/h; seq 40000 | sed s/$/-and-a-rather-long-name-so-that-it-adds-up/ | xargs touch").expect(0)
    r = subprocess.run(["/usr/bin/env", "python3", "-c", "import resource,subprocess,sys;p=subprocess.run(sys.argv[1:]);"
                        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss);sys.exit(p.returncode)"]
                       + host.argv("cp", "p:/srv/h", host.path("h")), capture_output=True, text=True)
    equal(r.returncode, 0, r.stderr)
    equal(len(os.listdir(host.path("h"))), 40000)
    true(int(r.stdout) < 24000, "used %s KiB" % r.stdout.strip())
    host.acnspawn("stop", "--force", "p").expect(0)


# --- export -------------------------------------------------------------------------------------------------------------

SCRIPT = ("echo new >/srv/new; rm /etc/group; chown 1000:1002 /srv/new; chmod 4755 /srv/new; ln /srv/new /srv/again; mkdir /var/lib; "
          "setfattr -n user.x -v 1 /srv/new 2>/dev/null; touch /out/up; ")


def exported(path):
    with tarfile.open(path) as tar:
        return json.load(tar.extractfile("manifest")), {m.name: m for m in tar.getmembers()}


@both
def an_export_is_an_image_that_runs(host, *options):
    image = host.shell(SCRIPT + "echo lost >/vol/x; echo runs", name="example.com/a", annotations=[{"name": "authors", "value": "x"}],
                       labels=[{"name": "version", "value": "1.2"}, {"name": "os", "value": "linux"}, {"name": "arch", "value": os_arch()}])
    host.run("--name=p", "--volume=v,kind=empty", "--mount=volume=v,target=/vol", *options, image)
    r = host.acnspawn("export", "p", "-o", host.path("x.aci")).expect(0)
    equal(r.err, "")
    manifest, names = exported(host.path("x.aci"))
    equal(manifest["name"], "example.com/a")
    equal([l["value"] for l in manifest["labels"] if l["name"] == "version"], ["1.2"])
    equal(manifest["annotations"], [{"name": "authors", "value": "x"}])
    new = names["rootfs/srv/new"]
    one, other = sorted(["rootfs/srv/new", "rootfs/srv/again"])
    equal((names[one].uid, names[one].gid, names[one].mode), (1000, 1002, 0o4755))
    equal(names[other].linkname, one)
    true(new is not None and "rootfs/etc/group" not in names and "rootfs/vol/x" not in names, "wrong files: %r" % sorted(names))
    true(all(m.uid < 65536 for m in names.values()), "owners of the pod's range")
    lacks(" ".join(names), "rootfs/proc/")
    host.acnspawn("validate", host.path("x.aci")).expect(0)
    if shutil.which("actool"):
        subprocess.run(["actool", "validate", host.path("x.aci")], check=True)
    again = host.acnspawn("export", "p").expect(0)
    with open(host.path("x.aci"), "rb") as f:
        equal(again.out_bytes, f.read(), "a second export")
    contains(again.err, r.out.strip())
    host.acnspawn("export", "--compression=zstd", "--name=example.com/b:2,os=linux", "p", "-o", host.path("y.aci")).expect(0)
    equal(host.acnspawn("fetch", host.path("y.aci")).rc, 0)
    equal([i["version"] for i in json.loads(host.acnspawn("image", "list", "--json=short").out) if i["name"] == "example.com/b"], ["2"])
    r = host.acnspawn("run", "--volume=v,kind=empty", "--mount=volume=v,target=/vol", *options, host.path("x.aci")).expect(0)
    contains(r.out, "runs")
    contains(host.acnspawn("export", "p", "-o", host.path("x.aci")).expect(1).err, "already exists")
    contains(host.acnspawn("export", "--name=NO NAME", "p").expect(2).err, "NO NAME")


@case
def dependencies_and_whitelists_are_folded_in(host):
    base = host.image(name="example.com/base", files={"srv/below": File("below"), "srv/hidden": File("x")}, base=True)
    host.acnspawn("fetch", base).expect(0)
    image = host.image(["/bin/sh", "-c", "cat /srv/below"], name="example.com/top", base=False, files={"srv/top": File("top")},
                       dependencies=[{"imageName": "example.com/base"}],
                       pathWhitelist=["/bin/sh", "/bin/busybox", "/bin/cat", "/srv/below", "/srv/top"])
    host.prepare("--name=p", image)
    host.acnspawn("export", "p", "-o", host.path("x.aci")).expect(0)
    manifest, names = exported(host.path("x.aci"))
    true("dependencies" not in manifest and not manifest.get("pathWhitelist"), "manifest: %r" % manifest)
    true("rootfs/srv/below" in names and "rootfs/srv/top" in names and "rootfs/srv/hidden" not in names, "files: %r" % sorted(names))
    other = Host(host.name)
    try:
        equal(other.run(host.path("x.aci")).out, "below")
    finally:
        other.close()


@both
def a_pod_that_runs_can_be_exported(host, *options):
    running(host, *options, script=SCRIPT + SLEEP)
    host.acnspawn("enter", "p", "sh", "-c", "nc -l -s 127.0.0.1 -p 1 >/dev/null 2>&1 & true")
    r = host.acnspawn("export", "p", "-o", host.path("x.aci")).expect(0)
    contains(r.err, "may be in the image or not")
    true("rootfs/srv/new" in exported(host.path("x.aci"))[1], "what the app wrote")
    host.acnspawn("pause", "p").expect(0)
    r = host.acnspawn("export", "p", "-o", host.path("y.aci")).expect(0)
    equal(r.err, "")
    host.acnspawn("resume", "p").expect(0)
    host.acnspawn("stop", "--force", "p").expect(0)


def reader(host, pod):
    """An export that has begun, and cannot end before its output is read."""
    p = subprocess.Popen(host.argv("export", "--compression=none", pod), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    host.children.append(p)
    p.begun = p.stdout.read(1)
    true(p.begun, "the export has begun")
    return p


@case
def who_reads_an_ended_pod_is_not_in_the_way(host):
    """It has ended for all, also if its supervisor was killed; it can be run again and read by others, and is not removed meanwhile."""
    host.acnspawn("fetch", host.shell("head -c 3000000 /dev/urandom >/big; echo words >/small; exec sleep 1000", name="example.com/a")).expect(0)
    for killed in False, True:
        uuid = host.detach("--name=p", "example.com/a", "--environment=A=1")
        wait_for(lambda: host.acnspawn("cp", "p:/small", "-").rc == 0, "what the app writes")
        if killed:
            os.kill(host.supervisor(uuid), signal.SIGKILL)
            wait_for(lambda: host.state(uuid) == "exited", "the end of the pod")
        else:
            host.acnspawn("stop", "p").expect(0)
        readers = [reader(host, uuid), reader(host, uuid)]
        equal(host.state(uuid), "exited")
        with within(4, "a stop of what has ended"):
            host.acnspawn("stop", "--force", uuid)
        with within(8, "a start beside readers"):
            host.acnspawn("run", "--detach", "p").expect(0)
        with open(os.path.join(host.pod_dir(uuid), "cgroups")) as f:
            equal([c for c in f.read().split() if os.path.exists(c)], [], "cgroups of what has ended, beside its successor")
        contains(host.acnspawn("cp", uuid + ":/small", "-").expect(0).out, "words")
        contains(host.acnspawn("rm", uuid).expect(1).err, "The files of pod %s are being read by another process" % uuid)
        contains(host.acnspawn("cp", "/etc/hostname", uuid + ":/x").expect(1).err, "are being read by another process")
        equal(host.acnspawn("gc", "--grace-period=0").expect(0).out.count(uuid), 0, "removals by gc")
        for r in readers:
            r.communicate(timeout=patience(60))
            equal(r.returncode, 0, "status of export")
        host.acnspawn("rm", uuid).expect(0)
        host.acnspawn("rm", "--force", "p").expect(0)


@case
def a_pod_that_is_read_has_its_image_and_can_be_replaced(host):
    host.acnspawn("fetch", host.shell("head -c 3000000 /dev/urandom >/big; touch /out/up; exec sleep 1000", name="example.com/a")).expect(0)
    host.acnspawn("fetch", host.shell("exec sleep 1000", name="example.com/b")).expect(0)
    uuid = host.detach("--name=p", "example.com/a")
    host.wait_up("a")
    host.acnspawn("stop", "p").expect(0)
    r = reader(host, uuid)
    contains(host.acnspawn("image", "rm", "example.com/a").expect(1).err, uuid)
    host.acnspawn("prune", "--force").expect(0)
    contains(host.acnspawn("image", "list").expect(0).out, "example.com/a")
    with within(8, "a start in place of what is read"):
        contains(host.acnspawn("run", "--detach", "--replace", "--name=p", host.shell("exec sleep 1000", name="example.com/b")).expect(0).err,
                 "Pod %s stays, without its name" % uuid)
    with within(60, "the export"):
        archive = r.begun + r.stdout.read()
        equal(r.wait(), 0, "status of export")
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        true({"rootfs/bin/busybox", "rootfs/big"} <= {m.name.removeprefix("./") for m in tar.getmembers()}, tar.getnames()[:20])
    host.acnspawn("prune", "--force").expect(0)
    equal("example.com/a" in host.acnspawn("image", "list").expect(0).out, False, "the image is there")
    host.acnspawn("stop", "p").expect(0)


main()
