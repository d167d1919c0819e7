#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Volumes and the app's root: mounts, their flags, and that no target is outside of the root."""

import hashlib

from harness import *


def mount_point(name, path, read_only=False):
    point = {"name": name, "path": path}
    if read_only:
        point["readOnly"] = True
    return point


def with_mounts(host, script, *points, name="example.com/a", files=None, **app):
    return host.shell(script, name=name, files=files, app={"mountPoints": list(points), **app})


def source(host, name="source", mode=0o777):
    path = host.path(name)
    os.mkdir(path)
    os.chmod(path, mode)
    with open(os.path.join(path, "file"), "w") as f:
        f.write("from the host\n")
    return path


def etc_digest():
    h = hashlib.sha256()
    for root, dirs, files in os.walk("/etc"):
        dirs.sort()
        for name in sorted(files + dirs):
            st = os.lstat(os.path.join(root, name))
            h.update(("%s %d %d %d\n" % (os.path.join(root, name), st.st_mode, st.st_size, st.st_mtime_ns)).encode())
    return h.hexdigest()


# --- Empty volumes --------------------------------------------------------------------------------------------------------

@case
def empty_volume_is_shared_by_two_apps(host):
    one = with_mounts(host, "echo hello >/v/f; while ! test -e /v/answer; do sleep 0.05; done; cat /v/answer >/out/log",
                      mount_point("v", "/v"), name="example.com/one")
    two = with_mounts(host, "while ! test -s /w/f; do sleep 0.05; done; cat /w/f >/out/log; echo ok >/w/answer.tmp; "
                      "mv /w/answer.tmp /w/answer", mount_point("v", "/w"), name="example.com/two")
    host.run("--volume=v,kind=empty", one, two)
    equal((host.written("one", "out/log"), host.written("two", "out/log")), (b"ok\n", b"hello\n"))


@case
def empty_volume_mode_and_owner(host):
    r = host.run("--volume=v,kind=empty,mode=1770,uid=1000,gid=50",
                 with_mounts(host, "stat -c '%a %u %g' /v", mount_point("v", "/v")))
    equal(r.out, "1770 1000 50\n")


@case
def empty_volume_defaults(host):
    r = host.run("--volume=v,kind=empty", with_mounts(host, "umask 077; stat -c '%a %u %g' /v; ls -A /v | wc -l",
                                                      mount_point("v", "/v")))
    equal(r.out, "755 0 0\n0\n")


@case
def empty_volume_can_be_used_by_its_owner_only(host):
    image = with_mounts(host, "touch /mine/f && echo mine; touch /roots/f 2>/dev/null || echo refused",
                        mount_point("mine", "/mine"), mount_point("roots", "/roots"), user="1000", group="1000")
    r = host.run("--volume=mine,kind=empty,uid=1000,gid=1000,mode=0700", "--volume=roots,kind=empty,mode=0700", image)
    equal(r.out, "mine\nrefused\n")


@case
def mount_point_without_volume_gets_one_and_a_warning(host):
    r = host.run(with_mounts(host, "echo x >/v/f && cat /v/f; grep -c ' /v ' /proc/self/mountinfo", mount_point("data", "/v")))
    equal(r.out, "x\n1\n")
    contains(r.err, "data", "warning")
    contains(r.err.lower(), "warning", "warning")


@case
def read_only_mount_point_of_an_empty_volume(host):
    reader = with_mounts(host, "touch /v/x 2>/dev/null && echo written || echo refused", mount_point("v", "/v", True),
                         name="example.com/reader")
    r = host.run("--volume=v,kind=empty", reader)
    equal(r.out, "refused\n")


# --- Host volumes ---------------------------------------------------------------------------------------------------------

@case
def host_volume_for_reading_and_writing(host):
    path = source(host)
    r = host.run("--volume=v,kind=host,source=" + path, with_mounts(host, "cat /v/file; echo new >/v/new",
                                                                   mount_point("v", "/v")))
    equal(r.out, "from the host\n")
    equal(read_text(os.path.join(path, "new")), "new\n")


@case
def host_volume_read_only_by_volume(host):
    path = source(host)
    r = host.run("--volume=v,kind=host,readOnly=true,source=" + path,
                 with_mounts(host, "cat /v/file; touch /v/new 2>&1", mount_point("v", "/v")), rc=1)
    contains(r.out, "Read-only file system")
    true(not os.path.exists(os.path.join(path, "new")), "written to a read-only volume")


@case
def host_volume_read_only_by_mount_point(host):
    path = source(host)
    r = host.run("--volume=v,kind=host,source=" + path,
                 with_mounts(host, "touch /v/new 2>&1", mount_point("v", "/v", True)), rc=1)
    contains(r.out, "Read-only file system")


@case
def host_volume_is_a_single_file(host):
    path = os.path.join(source(host), "file")
    r = host.run("--volume=v,kind=host,source=" + path, with_mounts(host, "cat /etc/conf", mount_point("v", "/etc/conf")))
    equal(r.out, "from the host\n")


def with_mount_below(host, path):
    below = os.path.join(path, "below")
    os.mkdir(below)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0777", "acnspawn-test", below], check=True)
    with open(os.path.join(below, "deep"), "w") as f:
        f.write("deep\n")
    return below


@case
def host_volume_recursive_and_not(host):
    path = source(host)
    below = with_mount_below(host, path)
    try:
        script = "cat /v/below/deep 2>/dev/null || echo absent"
        r = host.run("--volume=v,kind=host,source=" + path, with_mounts(host, script, mount_point("v", "/v")))
        equal(r.out, "deep\n", "recursive is the default")
        r = host.run("--volume=v,kind=host,recursive=false,source=" + path, with_mounts(host, script, mount_point("v", "/v")))
        equal(r.out, "absent\n")
    finally:
        subprocess.run(["umount", below], check=True)


@case
def read_only_holds_for_mounts_below_as_well(host):
    path = source(host)
    below = with_mount_below(host, path)
    try:
        r = host.run("--volume=v,kind=host,readOnly=true,recursive=true,source=" + path, with_mounts(
            host, "touch /v/below/new 2>/dev/null && echo written || echo refused", mount_point("v", "/v")))
        equal(r.out, "refused\n")
    finally:
        subprocess.run(["umount", below], check=True)


@case
def unmounting_on_the_host_is_not_held_up_by_a_pod_that_ended(host):
    path = source(host)
    below = with_mount_below(host, path)
    host.run("--volume=v,kind=host,source=" + path, with_mounts(host, "true", mount_point("v", "/v")))
    subprocess.run(["umount", below], check=True)


@case
def symlink_as_source_is_refused(host):
    """In the words of a manifest, and with symlinks=false."""
    path = source(host)
    os.symlink(path, host.path("link"))
    os.symlink(host.tmp, host.path("way"))
    image = with_mounts(host, "cat /v/file", mount_point("v", "/v"))
    uuid = host.prepare("--volume=v,kind=host,source=" + path, image)
    manifest = json.loads(host.acnspawn("cat-manifest", uuid).expect(0).out)
    host.acnspawn("rm", uuid).expect(0)
    for bad in (host.path("link"), host.path("way", "source")):
        manifest["volumes"][0]["source"] = bad
        with open(host.path("manifest"), "w") as f:
            json.dump(manifest, f)
        for options in ["--volume=v,kind=host,symlinks=false,source=" + bad, image], ["--pod-manifest=" + host.path("manifest")]:
            r = host.acnspawn("prepare", *options).expect(1)
            contains(r.err, bad, "message")
            contains(r.err.lower(), "symbolic link", "message")
    equal(host.pods(), [], "pods")


@case
def symlinks_of_the_command_line_are_followed(host):
    """Once, by the one who gives the command: what the link becomes later has no effect."""
    path = source(host)
    other = os.path.join(host.tmp, "other")
    os.mkdir(other)
    link = host.path("link")
    for options in ["--volume=v,kind=host,source=" + link], ["-v", link + ":/v"], ["-v", os.path.join(link, "../link/.") + ":/v"]:
        os.symlink(path, link)
        uuid = host.prepare(*options, host.shell("cat /v/file", name="example.com/a") if options[0] == "-v" else
                            with_mounts(host, "cat /v/file", mount_point("v", "/v")))
        os.unlink(link)
        os.symlink(other, link)
        r = host.acnspawn("run", uuid).expect(0)
        true(r.out, "the file's content: %s" % r)
        os.unlink(link)
    contains(host.acnspawn("prepare", "-v", link + ":/v", host.shell("true", name="example.com/b")).expect(1).err, "No such file")
    os.symlink(host.path("nowhere"), link)
    r = host.acnspawn("prepare", "-v", link + ":/v", "example.com/b").expect(1)
    contains(r.err, "%s is a symbolic link whose target does not exist.\nCreate the target" % link)
    lacks(r.err, "symlinks=true")


@case
def sources_and_options_as_podman_takes_them(host):
    """Relative sources, options for SELinux and caches, which need nothing; no warning about a file on a file."""
    path = source(host)
    image = host.shell("cat $(test -e /v/file && echo /v/file || echo /etc/passwd)", name="example.com/a")
    expected = read_text(os.path.join(path, "file"))
    above = os.path.dirname(path)
    for words in "./source:/v", "source/../source:/v:ro", "../%s/source:/v:z" % os.path.basename(above), path + ":/v:Z,ro,cached,delegated,consistent,U":
        r = host.acnspawn("run", "-v", words, image, cwd=above).expect(0)
        equal((r.out, r.err), (expected, ""), words)
    r = host.acnspawn("run", "-v", os.path.join(path, "file") + ":/etc/passwd:z", image).expect(0)
    equal((r.out, r.err), (expected, ""))
    host.run("-v", "data:/v:z,U", host.shell("test -d /v", name="example.com/b"))
    # In a file of a declared pod a path is absolute; what writes one makes it so.
    units = host.path("units")
    os.mkdir(units)
    with open(os.path.join(units, "x.pod"), "w") as f:
        f.write("[Pod]\nVolume=./a:/v\n[App]\nImage=example.com/a\n")
    contains(host.acnspawn("pod", "verify", os.path.join(units, "x.pod")).expect(1).out, "the path must be absolute")


@case
def source_swapped_for_a_symlink_after_prepare_is_refused(host):
    path = source(host)
    uuid = host.prepare("--volume=v,kind=host,source=" + path, with_mounts(host, "cat /v/shadow; true", mount_point("v", "/v")))
    os.rename(path, path + ".moved")
    os.symlink("/etc", path)
    r = host.acnspawn("run", uuid)
    true(r.rc != 0, "the pod ran with a symlink as source: %s" % r)
    lacks(r.out, "root:")


@case
def missing_source_is_refused(host):
    r = host.acnspawn("prepare", "--volume=v,kind=host,source=" + host.path("missing"),
                      with_mounts(host, "true", mount_point("v", "/v"))).expect(1)
    contains(r.err, host.path("missing"), "message")
    equal(host.pods(), [], "pods")


@case
def source_with_dots_is_refused(host):
    path = source(host)
    r = host.acnspawn("prepare", "--volume=v,kind=host,source=%s/../source" % path,
                      with_mounts(host, "true", mount_point("v", "/v")))
    true(r.rc in (1, 2), str(r))


# --- Targets --------------------------------------------------------------------------------------------------------------

@case
def missing_targets_are_created(host):
    r = host.run("--volume=v,kind=empty", with_mounts(host, "echo x >/deep/er/and/deeper/f; ls /deep/er/and/deeper",
                                                      mount_point("v", "/deep/er/and/deeper")))
    equal(r.out, "f\n")


@case
def target_that_is_a_link_lands_inside(host):
    """/data -> /etc in the image: the volume appears on the image's /etc; the host's is as before."""
    before = etc_digest()
    path = source(host)
    r = host.run("--volume=v,kind=host,source=" + path, with_mounts(
        host, "cat /etc/file; echo changed >/etc/written", mount_point("v", "/data"), files={"data": Link("/etc")}))
    equal(r.out, "from the host\n")
    equal(etc_digest(), before, "/etc of the host")
    true(os.path.exists(os.path.join(path, "written")), "the volume was not written to")


@case
def target_through_links_that_climb_lands_inside(host):
    before = etc_digest()
    for number, link in enumerate(("../../../../../../etc", "/../../etc", "/proc/1/root/etc")):
        r = host.acnspawn("run", "--name=p%d" % number, "--volume=v,kind=empty", with_mounts(
            host, "echo x >/up/sub/f && cat /up/sub/f", mount_point("v", "/up/sub"), files={"up": Link(link)}))
        true(r.rc in (0, 1, 125), str(r))
        if r.rc == 0:
            equal(r.out, "x\n", link)
        equal(etc_digest(), before, "/etc of the host after %s" % link)


@case
def target_below_a_plain_file_is_an_error(host):
    """Before anything is prepared; and so is a file on a directory of the image, but not one on a directory in another volume."""
    image, path = with_mounts(host, "true", mount_point("v", "/etc/passwd/x")), source(host)
    plain = host.shell("true", name="example.com/b")
    for verb in ["run"], ["prepare", "--dry-run", "--strict"]:
        r = host.acnspawn(*verb, "--volume=v,kind=empty", image).expect(1)
        contains(r.err, "on /etc/passwd/x in app a: /etc/passwd is a file of the image")
        r = host.acnspawn(*verb, "--volume=%s/file:/etc" % path, plain).expect(1)
        contains(r.err, "/etc is a directory of the image, and the volume is a file")
        # In another volume the place is as it is there: nothing is replaced.
        os.makedirs(path + "/directory", exist_ok=True)
        for volume, target, why in (path, "/data/file", "/data/file is a file of another volume, and the volume is a directory"), \
                (path, "/data/file/x", "/data/file/x is below a file of another volume"), \
                (path + "/file", "/data/directory", "/data/directory is a directory of another volume, and the volume is a file"):
            r = host.acnspawn(*verb, "--volume=%s:/data" % path, "--volume=%s:%s" % (volume, target), plain).expect(1)
            contains(r.err, why)
    host.acnspawn("volume", "create", "named").expect(0)
    with open(host.dir + "/volumes/named/data/file", "w"):
        pass
    for verb in ["run"], ["prepare", "--dry-run", "--strict"]:
        r = host.acnspawn(*verb, "--volume=named:/data", "--volume=%s:/data/file" % path, plain).expect(1)
        contains(r.err, "/data/file is a file of another volume, and the volume is a directory")
    host.acnspawn("prepare", "--dry-run", "--volume=named:/data", "--volume=%s/file:/data/file" % path, "--volume=%s:/data/new" % path, plain).expect(0)
    equal(host.pods(), [], "pods")
    host.acnspawn("prepare", "--dry-run", "--volume=%s:/data" % path, "--volume=%s:/data/directory" % path, "--volume=%s/file:/data/file" % path, plain).expect(0)
    host.acnspawn("prepare", "--dry-run", "--volume=v:/etc", "--volume=%s/file:/etc/ssl" % path, plain).expect(0)
    # The image's /dev is not used, nor are links in it.
    files = {"dev/file": "x", "dev/directory": Dir(), "dev/log": Link("/usr"), "dev/lp": Link("/etc/passwd")}
    equal(host.run("--volume=%s:/dev/file/in" % path, "--volume=%s:/dev/lp/in" % path, "--volume=%s/file:/dev/directory" % path,
                   "--volume=%s/file:/dev/log" % path,
                   host.shell("cat /dev/file/in/file /dev/lp/in/file /dev/directory /dev/log", name="example.com/c", files=files)).out,
          "from the host\n" * 4)


@case
def target_that_is_a_dangling_link_is_an_error_or_inside(host):
    r = host.acnspawn("run", "--volume=v,kind=empty", with_mounts(host, "touch /data/x", mount_point("v", "/data"),
                                                                  files={"data": Link("/var/tmp/acnspawn-dangling")}))
    true(r.rc in (0, 1, 125), str(r))
    true(not os.path.lexists("/var/tmp/acnspawn-dangling"), "created on the host")


@case
def volumes_inside_of_others(host):
    """Whatever their order is: the outer one is mounted first, and has what the image has not of the way to the inner one."""
    for points in ((("inner", "/a/b"), ("outer", "/a")), (("outer", "/a"), ("inner", "/a/b")), (("inner", "/a//b/"), ("outer", "/a/"))):
        image = with_mounts(host, "touch /a/x /a/b/y; ls /a /a/b; grep -cE ' /a(/b)? ' /proc/self/mountinfo", *(mount_point(*p) for p in points))
        equal(host.run("--volume=inner,kind=empty", "--volume=outer,kind=empty", image).out.split(), ["/a:", "b", "x", "/a/b:", "y", "2"])
    # Through a symlink of the image, four deep, a file among them.
    outer, file = source(host), host.path("token")
    with open(file, "w") as f:
        f.write("secret\n")
    image = with_mounts(host, "cat /run/outer/in/token /var/run/outer/file; ls /run/outer/in", mount_point("file", "/run/outer/in/token"),
                        mount_point("deep", "/var/run/outer/in"), mount_point("outer", "/run/outer"), files={"var/run": Link("/run"), "run": Dir()})
    r = host.run("--volume=file,kind=host,source=" + file, "--volume=deep,kind=empty", "--volume=outer,kind=host,source=" + outer, image)
    equal(r.out, "secret\nfrom the host\ntoken\n")
    equal(sorted(os.listdir(outer)), ["file", "in"], "the place of a volume in a volume of the host")


@case
def links_in_volumes_lead_nowhere_else(host):
    """A link in the outer volume decides where the inner one is mounted: in the root of the app, and not over what is mounted already."""
    outer = source(host)
    for target, works in (("/srv", True), ("../../../../etc", True), ("/proc", False), ("/proc/self", False), ("/dev", False), ("/other", False), ("/", False)):
        os.symlink(target, os.path.join(outer, "in"))
        before = etc_digest()
        image = with_mounts(host, "touch /outer/in/x && ls -a / >/dev/null", mount_point("outer", "/outer"), mount_point("inner", "/outer/in"),
                            mount_point("other", "/other"))
        r = host.acnspawn("run", "--volume=outer,kind=host,source=" + outer, "--volume=inner,kind=empty", "--volume=other,kind=empty", image)
        equal(r.rc == 0, works, "link to %s: %s" % (target, r))
        equal(etc_digest(), before, "/etc of the host")
        os.unlink(os.path.join(outer, "in"))


@case
def files_in_volumes_are_not_replaced_by_directories(host):
    """A file of the image in the place of a directory's volume is replaced, in the root of the app. One in another volume is the host's, and
    nothing of it is removed; also where a link of the volume leads from one to another."""
    outer, other = source(host), source(host, "other")
    os.symlink("/other/file", os.path.join(outer, "link"))
    for place in "/outer/file", "/outer/link":
        image = with_mounts(host, "true", mount_point("outer", "/outer"), mount_point("other", "/other"), mount_point("inner", place))
        r = host.acnspawn("run", "--volume=outer,kind=host,source=" + outer, "--volume=other,kind=host,source=" + other, "--volume=inner,kind=empty", image)
        true(r.rc != 0, "a volume at %s: %s" % (place, r))
        equal([read_text(os.path.join(d, "file")) for d in (outer, other)], ["from the host\n"] * 2, "files of the host")
    equal(sorted(os.listdir(outer)), ["file", "link"], "the volume")
    r = host.run("--volume=inner,kind=empty", with_mounts(host, "test -d /srv/file && echo replaced", mount_point("inner", "/srv/file"), files={"srv/file": "x"}))
    equal(r.out, "replaced\n")


@case
def volumes_in_dev(host):
    """As everywhere else, although /dev itself is read-only; also of apps that have devices of the host, and of all at once."""
    directory, file = source(host), host.path("log")
    open(file, "w").close()
    image = with_mounts(host, "echo ended >/dev/termination-log; cat /dev/own/deep/file; echo x >/dev/shm/in/x; touch /dev/other 2>/dev/null || echo refused; "
                        "test -c /dev/null && ls /dev/shm", mount_point("log", "/dev/termination-log"), mount_point("own", "/dev/own/deep"),
                        mount_point("shm", "/dev/shm/in"))
    for options in ((), ("--device=/dev/zero",)):
        r = host.run("--volume=log,kind=host,source=" + file, "--volume=own,kind=host,source=" + directory, "--volume=shm,kind=empty", image, *options)
        equal(r.out, "from the host\nrefused\nin\n")
        equal(read_text(file), "ended\n")
    r = host.acnspawn("run", "--volume=x,kind=empty", with_mounts(host, "true", mount_point("x", "/dev/credentials/x")))
    contains(r.expect(1).err, "reserved")


@case
def files_of_proc_that_tell_of_the_machine(host):
    """They can be emulated; all else in /proc cannot be covered."""
    file = host.path("cpuinfo")
    with open(file, "w") as f:
        f.write("processor : 7\n")
    r = host.run("--volume=v,kind=host,source=" + file, with_mounts(host, "cat /proc/cpuinfo", mount_point("v", "/proc/cpuinfo")))
    equal(r.out, "processor : 7\n")
    for path in ("/proc", "/proc/self", "/proc/sys/kernel/core_pattern", "/proc/version"):
        r = host.acnspawn("run", "--volume=v,kind=host,source=" + file, with_mounts(host, "true", mount_point("v", path))).expect(1)
        contains(r.err, "nothing may be mounted over /proc")


@case
def sources_of_all_types(host):
    """Sockets, pipes, and devices that every app has; others are there, and cannot be opened."""
    import socket
    os.mkfifo(host.path("pipe"))
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(host.path("socket"))
        for points in ("/pipe", "/socket", "/null"), ("/etc/passwd", "/srv/socket", "/etc/group"):
            image = with_mounts(host, "test -p %s && test -S %s && wc -c <%s && echo x >%s && echo all" % (points + points[-1:]),
                                *(mount_point(n, p) for n, p in zip(("pipe", "socket", "null"), points)))
            r = host.run("--volume=pipe,kind=host,source=" + host.path("pipe"), "--volume=socket,kind=host,source=" + host.path("socket"),
                         "--volume=null,kind=host,source=/dev/null", image)
            equal(r.out, "0\nall\n")
    r = host.run("--volume=v,kind=host,source=/dev/kmsg", with_mounts(host, "test -c /v && ! head -c 1 /v 2>/dev/null && echo refused", mount_point("v", "/v")))
    equal(r.out, "refused\n")


@case
def two_mount_points_on_one_path_are_refused(host):
    """Neither is ignored silently, whether there are volumes for them or not. Both are named."""
    image = with_mounts(host, "true", mount_point("one", "/a"), mount_point("two", "/a"))
    for options in ((), ("--volume=one,kind=empty", "--volume=two,kind=empty")):
        r = host.acnspawn("prepare", *options, image).expect(1)
        for word in ("'one'", "'two'", "/a"):
            contains(r.err, word, "message")
    equal(host.pods(), [], "pods")


@case
def targets_that_only_look_alike_are_fine(host):
    image = with_mounts(host, "touch /a/x /ab/x /a-b/x && ls /a /ab /a-b", mount_point("one", "/a"), mount_point("two", "/ab"),
                        mount_point("three", "/a-b"))
    r = host.run("--volume=one,kind=empty", "--volume=two,kind=empty", "--volume=three,kind=empty", image)
    equal(r.out.split(), ["/a:", "x", "/a-b:", "x", "/ab:", "x"])


@case
def target_that_a_link_puts_onto_another(host):
    """/link -> /a in the image, with a volume on each: both are mounted inside of the root, and one of them is
    visible."""
    image = with_mounts(host, "touch /link/x; test -e /a/x && echo inside", mount_point("one", "/a"), mount_point("two", "/link"),
                        files={"link": Link("/a"), "a": Dir()})
    r = host.acnspawn("run", "--volume=one,kind=empty", "--volume=two,kind=empty", image)
    true((r.rc, r.out) == (0, "inside\n") or r.rc in (1, 125), str(r))


@case
def volume_over_a_directory_of_the_image_hides_it(host):
    r = host.run("--volume=v,kind=empty", with_mounts(host, "ls -A /srv | wc -l", mount_point("v", "/srv"),
                                                      files={"srv/of-the-image": "x"}))
    equal(r.out, "0\n")


@case
def mounts_of_the_command_line(host):
    path = source(host)
    image = host.shell("cat /mnt/here/file", name="example.com/a")
    r = host.run("--volume=v,kind=host,source=" + path, image, "--mount=volume=v,target=/mnt/here")
    equal(r.out, "from the host\n")


@case
def mount_of_a_volume_that_is_not_there_is_refused(host):
    r = host.acnspawn("prepare", host.shell("true"), "--mount=volume=nowhere,target=/x")
    true(r.rc in (1, 2), str(r))
    contains(r.err, "nowhere", "message")
    equal(host.pods(), [], "pods")


@case
def volume_has_no_setuid_and_no_devices_through_it(host):
    """A device node on a host volume must not give an app with its own uid range access to the host's devices."""
    path = source(host)
    os.mknod(os.path.join(path, "zero"), 0o666 | 0o020000, os.makedev(1, 5))
    r = host.run("--volume=v,kind=host,source=" + path,
                 with_mounts(host, "poke read /v/zero; true", mount_point("v", "/v")))
    lacks(r.out, "possible", "reading a device on a volume")


@both
def devices_and_set_user_id_bits_on_request(host, *options):
    path = source(host)
    os.mknod(os.path.join(path, "zero"), 0o666 | 0o020000, os.makedev(1, 5))
    os.chmod(os.path.join(path, "zero"), 0o666)
    shutil.copy(os.path.join(HELPERS, "show"), path + "/show")
    os.chmod(path + "/show", 0o4755)
    script = "head -c 2 /v/zero 2>/dev/null | wc -c; /v/show; sed -n 's/.*uids\": .[0-9]*, \\([0-9]*\\).*/\\1/p' /out/*.json; grep ' /v ' /proc/mounts | grep -c nodev; true"
    image = host.shell(script, app={"user": "1000", "group": "1000"}, files={"v": Dir()})
    for settings, found in (("", ["0", "1000", "1"]), ("dev=true", ["2", "1000", "0"]), ("suid=true", ["0", "0", "1"]),
                            ("dev=true,suid=true", ["2", "0", "0"])):
        r = host.run(*options, image, "--volume=%s:/v:idmap=auto,%s" % (path, settings or "ro"))
        equal(r.out.split(), found, settings)


@both
def mounts_of_the_host_arrive_with_propagation_slave(host, *options):
    path = source(host)
    os.mkdir(path + "/below")
    refused = host.acnspawn("prepare", *options, host.shell("true"), "--volume=%s:/v:propagation=slave" % path)
    # Whether the directory of the tests is on a shared mount depends on the host.
    if refused.rc != 0:
        contains(refused.err, "its source %s is on a mount that is neither shared nor a slave" % path)
        contains(refused.err, "mount --make-shared")
    subprocess.run(["mount", "--bind", path, path], check=True)
    try:
        subprocess.run(["mount", "--make-shared", path], check=True)
        script = ("touch /w/up; until test -e /v/below/deep; do sleep 0.05; done; ls /w/below; touch /v/below/x 2>/dev/null && echo written; "
                  "touch /v/seen; until test -e /v/ended; do sleep 0.05; done; ls /v/below")
        p = host.start("run", *options, host.shell(script), "--volume=%s:/v:propagation=slave" % path, "--volume=%s:/w" % path)
        wait_for(lambda: os.path.exists(path + "/up"), "start of the app")
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0777", "acnspawn-test", path + "/below"], check=True)
        try:
            with open(path + "/below/deep", "w"):
                pass
            wait_for(lambda: os.path.exists(path + "/seen"), "the app to see the mount")
        finally:
            subprocess.run(["umount", path + "/below"], check=True)
        with open(path + "/ended", "w"):
            pass
        equal(host.finish(p).expect(0).out, "written\n")
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


@both
def sources_are_looked_up_on_the_host_at_each_start(host, *options):
    """They are on a private mount, so that what is mounted there later does not propagate to the supervisor."""
    path = source(host)
    os.mkdir(path + "/late")
    subprocess.run(["mount", "--bind", path, path], check=True)
    try:
        subprocess.run(["mount", "--make-private", path], check=True)
        host.acnspawn("run", "--detach", "--name=p", "--exit-policy=never", *options, host.shell("exec sleep 600"), "--name=web",
                      "--volume=%s/late:/v" % path).expect(0)
        listed = lambda: host.acnspawn("enter", "p", "--", "ls", "/v").expect(0).out
        equal(listed(), "")
        subprocess.run(["mount", "-t", "tmpfs", "acnspawn-test", path + "/late"], check=True)
        with open(path + "/late/x", "w"):
            pass
        equal(listed(), "")
        host.acnspawn("stop-app", "-t0", "p", "web").expect(0)
        host.acnspawn("start-app", "p", "web").expect(0)
        equal(listed(), "x\n")
        subprocess.run(["umount", path + "/late"], check=True)
        os.rmdir(path + "/late")
        host.acnspawn("stop-app", "-t0", "p", "web").expect(0)
        contains(host.acnspawn("start-app", "p", "web").expect(1).err, "Cannot open source %s/late" % path)
        host.acnspawn("stop", "p")
    finally:
        subprocess.run(["umount", "--recursive", "--lazy", path], check=True)


@case
def sources_are_below_the_root_that_acnspawn_was_started_in(host):
    """As by 'chroot /host acnspawn run' in a container."""
    path, root, helpers = source(host), host.path("root"), host.path("helpers")
    os.mkdir(helpers)
    for program in "stage0/supervise", "stage1/launch", "metadata/acnspawn-metadata":
        shutil.copy(os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(ACNSPAWN))), program), helpers)
    with open(path + "/outside", "w"):
        pass
    os.mkdir(root)
    os.mkdir(host.path("in"))
    with open(host.path("in", "inside"), "w"):
        pass

    def enter_root():
        """In mounts of its own: others who unmount and remove something meanwhile would find it busy in a copy of the host's."""
        if ctypes.CDLL(None, use_errno=True).unshare(0x20000) < 0: # CLONE_NEWNS
            raise OSError(ctypes.get_errno(), "unshare")
        for arguments in ["--make-rprivate", "/"], ["--rbind", "/", root], ["--bind", host.path("in"), root + path]:
            subprocess.run(["mount", *arguments], check=True)
        os.chroot(root)
    image = host.shell("ls /v; echo logged >&2")
    host.acnspawn("run", "--rm", "--no-userns", image, "--volume=%s:/v" % path, "--log-file=%s/log" % path,
                  env=dict(os.environ, ACNSPAWN_LIBEXECDIR=helpers), preexec_fn=enter_root).expect(0)
    equal(sorted(os.listdir(host.path("in"))), ["inside", "log"])
    log = read_text(host.path("in", "log"))
    contains(log, "inside")
    lacks(log, "outside")
    equal(sorted(os.listdir(path)), ["file", "outside"])


@case
def mounts_of_an_app_are_on_the_host_with_propagation_shared(host):
    path = source(host)
    os.mkdir(path + "/below")
    subprocess.run(["mount", "--bind", path, path], check=True)
    try:
        subprocess.run(["mount", "--make-private", path], check=True)
        volume, image = "--volume=%s:/v:propagation=shared" % path, host.shell("mount -t tmpfs none /v/below && touch /v/below/x; echo $?")
        contains(host.acnspawn("prepare", "--no-userns", image, volume).expect(1).err, "its source %s is on a mount that is not shared" % path)
        subprocess.run(["mount", "--make-shared", path], check=True)
        for verb in ["run"], ["prepare", "--dry-run", "--strict"]:
            r = host.acnspawn(*verb, image, volume).expect(1)
            contains(r.err, "cannot have propagation=shared in a pod with users of its own")
            contains(r.err, "--no-userns")
        equal(os.listdir(path + "/below"), [])
        equal(host.run("--no-userns", image, volume, "--caps-retain=CAP_SYS_ADMIN,CAP_DAC_OVERRIDE", "--apparmor-profile=unconfined").out, "0\n")
        # It is the host's now, and stays when the pod has ended.
        equal(os.listdir(path + "/below"), ["x"])
        subprocess.run(["umount", path + "/below"], check=True)
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


@case
def nothing_of_a_pod_is_mounted_on_the_host_with_propagation_shared(host):
    """Neither another volume inside of it, nor what an app gets in /dev, nor what hides a path: each start of the app would leave one more mount on
    the host, and /dev/pts of an app would take the place of the host's."""
    path = source(host)
    for name in "below", "pts", "shm", "mqueue":
        os.mkdir(os.path.join(path, name))
    open(os.path.join(path, "console"), "w").close()
    subprocess.run(["mount", "--bind", path, path], check=True)
    try:
        subprocess.run(["mount", "--make-shared", path], check=True)
        mounts = lambda: [l.split()[4] for l in read_text("/proc/self/mountinfo").splitlines() if l.split()[4].startswith(path)]
        for options in (("--volume=%s:/v:propagation=shared" % path, "--volume=in:/v/below"), ("--volume=%s:/dev:propagation=shared" % path,),
                        ("--volume=%s:/v:propagation=shared" % path, "--masked-paths=/v/below")):
            r = host.acnspawn("run", "--no-userns", host.shell("true"), *options)
            equal(mounts(), [path], "mounts of the host with %s: %s" % (options, r))
            true(r.rc != 0, "%s: %s" % (options, r))
            contains(r.err, "propagation=shared", "message with %s" % (options,))
    finally:
        for mount in reversed(mounts()):
            subprocess.run(["umount", "--lazy", mount], check=True)


# --- The root ---------------------------------------------------------------------------------------------------------------

@case
def read_only_root(host):
    image = with_mounts(host, "touch /x 2>/dev/null && echo written || echo refused; touch /v/x && echo volume; "
                        "touch /tmp/x 2>/dev/null && echo written || echo refused; echo x >/dev/shm/x && echo shm",
                        mount_point("v", "/v"))
    r = host.run("--volume=v,kind=empty", image, "--readonly-rootfs")
    equal(r.out, "refused\nvolume\nrefused\nshm\n")


@case
def read_only_root_still_creates_mount_targets(host):
    r = host.run("--volume=v,kind=empty", with_mounts(host, "touch /not/there/x && echo fine", mount_point("v", "/not/there")),
                 "--readonly-rootfs")
    equal(r.out, "fine\n")


@case
def image_is_never_changed(host):
    """Files written by an app are in its own upper directory; a second pod of the image starts clean."""
    image = host.shell("test -e /srv/new && echo dirty; echo x >/srv/new; rm /etc/group; echo gone >/etc/passwd")
    for _ in range(2):
        equal(host.run(image).out, "")
    images = os.path.join(host.dir, "images")
    root = os.path.join(images, os.listdir(images)[0], "rootfs")
    true(os.path.exists(os.path.join(root, "etc/group")), "the image lost a file")
    true(not os.path.exists(os.path.join(root, "srv/new")), "the image gained a file")


@case
def apps_of_one_image_have_roots_of_their_own(host):
    image = host.shell("echo $AC_APP_NAME >/srv/name; sleep 0.3; cat /srv/name")
    r = host.run(image, "--name=one", image, "--name=two")
    equal(sorted(line.split()[-1] for line in r.out.splitlines()), ["one", "two"])
    for line in r.out.splitlines():
        equal(line.count(line.split()[-1]), 2, "line %r has the name of app and root" % line)


main()
