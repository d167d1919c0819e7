#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Attacks on volumes: images with symlinks as targets, apps that may mount, a host that mounts meanwhile, handlers that
find files prepared by the app."""

from harness import *


def image(host, script, *paths, name="example.com/a", files=None, **app):
    """Mount points m0, m1, … on these paths."""
    points = [{"name": "m%d" % i, "path": p} for i, p in enumerate(paths)]
    return host.shell(script, name=name, files=files, app={"mountPoints": points, **app})


def source(host, name="source"):
    path = host.path(name)
    os.mkdir(path)
    os.chmod(path, 0o777)
    return path


@contextlib.contextmanager
def mounted(path, *options):
    subprocess.run(["mount", *options, path], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", path], check=True)


def two(host):
    return ["--volume=m%d,kind=empty" % i for i in range(2)]


# --- Where targets really are ---------------------------------------------------------------------------------------------

@case
def targets_that_a_link_puts_into_each_other(host):
    """In any order, at any depth, also with links in the middle: what is inside of another is mounted in it. Of two in one place both are
    named, and the app does not run."""
    files = {"link": Link("a"), "far": Link("/a/b/../b"), "way": Link("/"), "a": Dir(), "a/b": Dir()}
    for outer, inner, real in (("/a", "/far", "/a/b"), ("/link", "/far/c", "/a/b/c"), ("/way/a", "/a/b", "/a/b"),
                               ("/way/way/link", "/way/a/new", "/a/new")):
        for paths in ((outer, inner), (inner, outer)):
            r = host.run(*two(host), image(host, "touch %s/x && ls %s; grep -c ' /a ' /proc/self/mountinfo; grep -c ' %s ' /proc/self/mountinfo"
                                           % (real, real, real), *paths, files=files))
            equal(r.out, "x\n1\n1\n", paths)
    for outer, inner in (("/a", "/link"), ("/link", "/a"), ("/far/c", "/a/b/c"), ("/way/a", "/link"), ("/way/way/link", "/way/a")):
        r = host.acnspawn("run", *two(host), image(host, "touch /out/ran", outer, inner, files=files))
        true(r.rc in (1, 125), str(r))
        for path in (outer, inner):
            contains(r.err, path, "message about %s and %s" % (outer, inner))
        lacks(r.out, "ran")


@case
def one_volume_at_two_places(host):
    r = host.run("--volume=v,kind=empty", host.shell("echo x >/one/f; cat /two/f", name="example.com/a"), "--mount=v:/one",
                 "--mount=v:/two/")
    equal(r.out, "x\n")


@case
def one_volume_twice_at_one_place_is_refused(host):
    for path in ("/one", "/one/", "//one", "/./one"):
        r = host.acnspawn("prepare", "--volume=v,kind=empty", host.shell("true", name="example.com/a"), "--mount=v:/one",
                          "--mount=v:" + path).expect(1)
        contains(r.err, "/one", "message")


@case
def targets_with_dots_are_refused(host):
    r = host.acnspawn("prepare", "--volume=v,kind=empty", host.shell("true", name="example.com/a"), "--mount=v:/one/../two")
    true(r.rc in (1, 2), str(r))
    contains(r.err, "..", "message")


@case
def no_volume_on_proc_sys_or_dev(host):
    """No volume can be mounted on /proc, whatever the path; also without a user namespace."""
    for option in ((), ("--no-userns",)):
        for target, path in (("/proc", "/data"), ("/", "/data"), ("/dev", "/data"), ("/proc", "/data/sys"),
                             ("/proc/self", "/data/attr"), ("/", "/data/proc/1")):
            r = host.acnspawn("run", *option, "--volume=m0,kind=empty",
                              image(host, "echo ran", path, files={"data": Link(target)}))
            true(r.rc in (1, 125) and "ran" not in r.out, "%s through a link to %s: %s" % (path, target, r))
            contains(r.err, path, "message")


@both
def no_volume_on_proc_sys_or_dev_through_links(host, *options):
    """/proc and /dev may be symlinks of the image: volumes cannot be mounted on their targets, nor on parents of
    these."""
    for name in ("proc", "dev"):
        files = {name: Link("/x/real"), "x": Dir(), "x/real": Dir()}
        for path in ("/x", "/x/real") + (("/x/real/sys",) if name == "proc" else ("/x/real/credentials",)):
            r = host.acnspawn("run", *options, "--volume=m0,kind=empty", image(host, "echo ran", path, files=files),
                              "--set-credential=a:b")
            true(r.rc in (1, 125) and "ran" not in r.out, "%s, with /%s there: %s" % (path, name, r))
            contains(r.err, path, "message")
    equal(host.run(*options, "--volume=m0,kind=empty",
                   image(host, "echo ran", "/x/other", files={"proc": Link("/x/real"), "x/real": Dir()})).out, "ran\n")


@case
def post_stop_handler_finds_no_other_targets(host):
    """The app renames the directory that contains its volume, and creates a link to /proc in its place."""
    a = image(host, "mv /d /e && ln -s /proc /d && echo moved", "/d/sys",
              eventHandlers=[{"name": "post-stop", "exec": ["/bin/sh", "-c", "echo handler; grep ' /proc/sys ' /proc/self/mountinfo"]}])
    r = host.acnspawn("run", "--volume=m0,kind=empty", a)
    contains(r.out, "moved", "output")
    lacks(r.out, "handler", "output")
    contains(host.app_status(os.path.basename(host.one_pod()), "a").get("message") or "", "/proc/sys", "the app's message")


# --- Flags that cannot be removed
# -------------------------------------------------------------------------------------------

@case
def app_that_may_mount_cannot_make_a_volume_writable(host):
    path = source(host)
    os.mkdir(path + "/below")
    with mounted(path + "/below", "-t", "tmpfs", "-o", "mode=777", "acnspawn-test"):
        r = host.run("--volume=m0,kind=host,readOnly=true,source=" + path,
                     image(host, "for d in /v /v/below; do mount -o remount,bind,rw $d; mount -o remount,bind,ro,dev $d; "
                           "mount -o remount,bind,ro,suid $d; touch $d/x; umount $d/below; done 2>/dev/null; "
                           "mkdir /m; mount --bind /v /m 2>/dev/null; mount -o remount,bind,rw /m 2>/dev/null; touch /m/x 2>/dev/null; "
                           "grep -c -e ' /v ro,nosuid,nodev' -e ' /v/below ro,nosuid,nodev' /proc/self/mountinfo", "/v"),
                     "--caps-retain=CAP_SYS_ADMIN,CAP_DAC_OVERRIDE")
        equal(r.out, "2\n", "volumes that are as restricted as before")
        equal((sorted(os.listdir(path)), os.listdir(path + "/below")), (["below"], []), "files")


@case
def app_that_may_mount_cannot_change_the_devices_of_others(host):
    r = host.run(host.shell("mount -o remount,bind,rw /dev 2>/dev/null; rm /dev/null 2>/dev/null || echo kept", name="example.com/a"),
                 "--caps-retain=CAP_SYS_ADMIN,CAP_DAC_OVERRIDE,CAP_FOWNER")
    equal(r.out, "kept\n")


@case
def app_that_may_mount_gets_files_and_directories(host):
    """Locked mounts behave like others: single files, writable volumes, many of them."""
    path = source(host)
    with open(path + "/file", "w") as f:
        f.write("a file\n")
    os.chmod(path + "/file", 0o666)
    script = "cat /etc/conf; echo more >>/etc/conf; for i in 0 1 2 3 4 5 6 7 8 9; do echo $i >/v$i/f || echo failed; done; cat /v9/f"
    r = host.run("--volume=f,kind=host,source=%s/file" % path, *["--volume=v%d,kind=empty" % i for i in range(10)],
                 host.shell(script, name="example.com/a"), "--mount=f:/etc/conf", *["--mount=v%d:/v%d" % (i, i) for i in range(10)],
                 "--caps-retain=CAP_SYS_ADMIN,CAP_DAC_OVERRIDE")
    equal(r.out, "a file\n9\n")
    equal(read_text(path + "/file"), "a file\nmore\n")


@case
def later_mounts_of_the_host_do_not_propagate(host):
    """A mount that propagated from the host would lack the volume's restrictions."""
    path = source(host)
    with mounted(path, "--bind", path):
        subprocess.run(["mount", "--make-shared", path], check=True)
        os.mkdir(path + "/later")
        uuid = host.prepare("--volume=m0,kind=host,readOnly=true,source=" + path, image(
            host, "touch /out/up; while ! test -e /v/go; do sleep 0.05; done; touch /v/later/x 2>/dev/null && echo written; "
            "grep -c ' /v/later ' /proc/self/mountinfo", "/v"))
        p = host.start("run", uuid)
        host.wait_up("a", uuid)
        with mounted(path + "/later", "-t", "tmpfs", "-o", "mode=777", "acnspawn-test"):
            with open(path + "/go", "w"):
                pass
            equal(host.finish(p).out, "0\n", "mounts seen below the volume")


@case
def a_volume_that_the_store_lies_in(host):
    """Mounts of the pod, such as other apps' roots and credentials, are not visible there, and do not prevent
    id-mapping."""
    os.chmod(host.tmp, 0o755)
    with open(host.path("secret"), "w") as f:
        f.write("a secret\n")
    script = ("sleep 1; echo mine $(stat -c %u /v/file); find /v/store/pods -path '*/mounts/*'; cat /v/store/pods/*/*/mounts/c*/secret; "
              "grep -c ' /v/.*mounts' /proc/self/mountinfo; true")
    with open(host.path("file"), "w"):
        pass
    for option in ("idmap=yes",), ("idmap=auto",):
        r = host.run("--rm", "--volume=m0,kind=host,%s,source=%s" % (option[0], host.tmp), image(host, script, "/v"), "---",
                     host.shell("sleep 3", name="example.com/b"), "--credential=secret:" + host.path("secret"))
        equal([l.split("a: ", 1)[1] for l in r.out.splitlines()], ["mine 0", "0"], r.err)


@case
def mounts_of_the_app_do_not_propagate(host):
    path = source(host)
    with mounted(path, "--bind", path):
        subprocess.run(["mount", "--make-shared", path], check=True)
        before = mounts()
        host.run("--volume=m0,kind=host,source=" + path, image(
            host, "mkdir /v/d; mount -t tmpfs none /v/d && touch /v/d/inside && ls /v/d", "/v"),
            "--caps-retain=CAP_SYS_ADMIN,CAP_DAC_OVERRIDE")
        equal(os.listdir(path + "/d"), [], "files on the host")
        equal([m for m in mounts() - before if belongs_to(host, "mount", m)], [], "mounts of the host")


main()
