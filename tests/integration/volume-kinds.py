#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Volumes other than the specification's two kinds: in memory, with mapped owners, through symlinks; and their
syntax."""

from harness import *


def points(*pairs):
    return {"mountPoints": [{"name": n, "path": p} for n, p in pairs]}


def source(host, name="source", mode=0o777, **owners):
    """A directory with a file for each of OWNERS."""
    path = host.path(name)
    os.mkdir(path)
    os.chmod(path, mode)
    for file, uid in owners.items():
        with open(os.path.join(path, file), "w") as f:
            f.write("from the host\n")
        os.chmod(os.path.join(path, file), 0o600)
        os.chown(os.path.join(path, file), uid, uid)
    return path


@contextlib.contextmanager
def overlay(host):
    """A file system that cannot map owners."""
    for name in "lower", "upper", "work", "merged":
        os.mkdir(host.path(name))
    path = host.path("merged")
    options = "lowerdir=%s,upperdir=%s,workdir=%s" % tuple(host.path(x) for x in ("lower", "upper", "work"))
    subprocess.run(["mount", "-t", "overlay", "-o", options, "acnspawn-test", path], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", path], check=True)


def apps_image(host, script, *pairs, name="example.com/a", **app):
    return host.shell(script, name=name, app={**points(*pairs), **app})


# --- In memory ------------------------------------------------------------------------------------------------------------

@case
def volume_in_memory_has_a_size(host):
    """Measured by filling it: 4 MiB fit, not more, then writing fails."""
    r = host.run("--volume=m,kind=tmpfs,size=4Mi", apps_image(
        host, "grep -c ' /m .* - tmpfs' /proc/self/mountinfo; head -c 4194304 /dev/zero >/m/f && stat -c %s /m/f; rm /m/f; "
        "dd if=/dev/zero of=/m/g bs=65536 count=80 2>&1 | grep -o 'No space.*'; stat -c %s /m/g", ("m", "/m")))
    equal(r.out, "1\n4194304\nNo space left on device\n4194304\n")


@case
def volume_in_memory_has_so_many_files(host):
    r = host.run("--volume=m,kind=tmpfs,nr_inodes=10", apps_image(
        host, "i=0; while touch /m/$i 2>/dev/null; do i=$((i+1)); done; echo $i", ("m", "/m")))
    equal(r.out, "9\n")


@case
def volume_in_memory_has_mode_and_owner(host):
    r = host.run("--volume=m,kind=tmpfs,size=1Mi,mode=1770,uid=1000,gid=50", apps_image(
        host, "stat -c '%a %u %g' /m; touch /m/x && echo wrote", ("m", "/m"), user="1000", group="1000"))
    equal(r.out, "1770 1000 50\nwrote\n")
    r = host.run("--no-userns", "--volume=m,kind=tmpfs,mode=750,uid=7", apps_image(host, "stat -c '%a %u %g' /m", ("m", "/m")))
    equal(r.out, "750 7 0\n")


@case
def volume_in_memory_is_shared_and_outlives_apps(host):
    """Handlers of an app can read the files that it wrote; they are not on disk, and are removed."""
    one = apps_image(host, "echo hello >/m/f; mv /m/f /m/done", ("m", "/m"), name="example.com/one",
                     eventHandlers=[{"name": "post-stop", "exec": ["/bin/sh", "-c", "cat /m/done >/out/log"]}])
    two = apps_image(host, "while ! test -e /w/done; do sleep 0.05; done; cat /w/done >/out/log", ("m", "/w"), name="example.com/two")
    host.run("--volume=m,kind=tmpfs,size=1Mi", one, two)
    equal((host.written("one", "out/log"), host.written("two", "out/log")), (b"hello\n", b"hello\n"))
    true(not os.path.exists(os.path.join(host.one_pod(), "volumes", "m")), "there is a directory for it on disk")


@case
def volume_in_memory_can_be_read_only_for_one(host):
    writer = host.shell("echo x >/m/f; mv /m/f /m/g", name="example.com/writer")
    reader = host.shell("while ! test -e /m/g; do sleep 0.05; done; cat /m/g; touch /m/y 2>/dev/null || echo refused",
                        name="example.com/reader")
    r = host.run("--volume=m,kind=tmpfs", writer, "--mount=m:/m", "---", reader, "--mount=m:/m:ro")
    contains(r.out, "refused")
    lacks(r.err, "Read-only file system\n")


@case
def volume_in_memory_has_no_devices_and_no_set_user_id(host):
    r = host.run("--volume=m,kind=tmpfs", apps_image(
        host, "sed -n 's/.* \\/m \\([^ ]*\\) .*/\\1/p' /proc/self/mountinfo", ("m", "/m")))
    contains(r.out, "nosuid,nodev")


@case
def manifest_with_volume_in_memory_is_standard(host):
    """For other executors it is an empty volume; the rest is in an annotation, also in templates."""
    uuid = host.prepare("--volume=m,kind=tmpfs,size=4Mi,mode=0700", apps_image(host, "true", ("m", "/m")))
    text = host.acnspawn("cat-manifest", uuid).expect(0).out
    manifest = json.loads(text)
    equal(manifest["volumes"], [{"name": "m", "kind": "empty", "mode": "0700", "uid": 0, "gid": 0}], "volumes")
    equal(manifest["annotations"], [{"name": "acnspawn/volume/m", "value": "kind=tmpfs,size=4Mi"}], "annotations")
    file = host.path("pod.json")
    with open(file, "w") as f:
        f.write(text)
    host.acnspawn("validate", file).expect(0)
    r = host.acnspawn("run", "--pod-manifest=" + file).expect(0)
    for a in manifest["annotations"]:
        a["value"] = "kind=tmpfs,size=huge"
    with open(file, "w") as f:
        json.dump(manifest, f)
    r = host.acnspawn("prepare", "--pod-manifest=" + file).expect(1)
    contains(r.err, "Volume 'm'", "message")
    contains(r.err, "64Mi", "message")


# --- Owners ---------------------------------------------------------------------------------------------------------------

@case
def owners_inside_and_outside_agree(host):
    """By default, if the file system supports it: readable by the owner, not by others, writable by the owner."""
    path = source(host, root=0, app=1000, other=1001)
    for option in ((), ("idmap=yes",), ("idmap=auto",)):
        r = host.run("--volume=" + ",".join(("v,kind=host,source=" + path, *option)), apps_image(
            host, "stat -c '%n %u %g' /v/*; cat /v/app; cat /v/other 2>/dev/null || echo refused; echo new >/v/new", ("v", "/v"),
            user="1000", group="1000"))
        equal(r.out, "/v/app 1000 1000\n/v/other 1001 1001\n/v/root 0 0\nfrom the host\nrefused\n")
        lacks(r.err, "nobody")
        st = os.stat(path + "/new")
        equal((st.st_uid, st.st_gid), (1000, 1000), "owner of the new file")
        os.unlink(path + "/new")


@case
def owners_are_not_mapped_if_disabled(host):
    path = source(host, root=0)
    r = host.run("--volume=v,kind=host,idmap=no,source=" + path, apps_image(
        host, "stat -c '%u' /v/root; cat /v/root 2>/dev/null || echo refused", ("v", "/v")))
    equal(r.out, "65534\nrefused\n")
    lacks(r.err, "nobody")


@case
def owners_are_mapped_as_ranges_say(host):
    """The host's user 1234 is root of the pod, and 2000 to 2009 are 5 to 14; all others are not mapped."""
    path = source(host, one=1234, two=2003, three=0)
    os.chown(path, 1234, 1234)
    for option in ((), ("--no-userns",)):
        r = host.run(*option, "--volume=v,kind=host,idmap=1234:0:1+2000:5:10,source=" + path, apps_image(
            host, "stat -c '%n %u %g' /v/*; echo x >/v/new; chown 14 /v/new; chown 15 /v/new 2>/dev/null || echo refused", ("v", "/v")))
        equal(r.out, "/v/one 0 0\n/v/three 65534 65534\n/v/two 8 8\nrefused\n")
        st = os.stat(path + "/new")
        equal((st.st_uid, st.st_gid), (2009, 1234), "owner of the new file")
        os.unlink(path + "/new")


@case
def ranges_that_make_no_sense_are_refused(host):
    path = source(host)
    for ranges in ("1:2", "0:0:70000", "0:0:10+5:20:1", "x:0:1", "", "4294967295:0:1"):
        r = host.acnspawn("prepare", "--volume=v,kind=host,source=%s,idmap=%s" % (path, ranges),
                          apps_image(host, "true", ("v", "/v")))
        equal(r.rc, 2, str(r))
        contains(r.err, "HOST:POD:COUNT", "message")


@case
def file_system_that_cannot_map_owners(host):
    """An error with the name if it was requested, a warning by default, and no message if it was disabled."""
    with overlay(host) as path:
        image = apps_image(host, "stat -c %u /v", ("v", "/v"))
        for option in "idmap=yes", "idmap=1000:0:1":
            r = host.acnspawn("prepare", "--volume=v,kind=host,%s,source=%s" % (option, path), image).expect(1)
            for word in "'v'", "overlay", "idmap=auto":
                contains(r.err, word, "message")
        equal(host.pods(), [], "pods")
        r = host.run("--volume=v,kind=host,source=" + path, image)
        equal(r.out, "65534\n")
        contains(r.err, "overlay", "warning")
        contains(r.err, "nobody", "warning")
        r = host.run("--volume=v,kind=host,idmap=no,source=" + path, image)
        lacks(r.err, "overlay")
        r = host.run("--no-userns", "--volume=v,kind=host,idmap=yes,source=" + path, image)
        equal((r.out, r.err), ("0\n", ""), "without a user namespace nothing has to be mapped")


@case
def file_system_below_that_cannot_map_owners(host):
    path = source(host)
    with overlay(host) as merged:
        os.mkdir(path + "/below")
        subprocess.run(["mount", "--bind", merged, path + "/below"], check=True)
        try:
            image = apps_image(host, "stat -c %u /v", ("v", "/v"))
            r = host.acnspawn("prepare", "--volume=v,kind=host,idmap=yes,source=" + path, image).expect(1)
            contains(r.err, "mounted below", "message")
            contains(r.err, "recursive=false", "hint")
            equal(host.run("--volume=v,kind=host,idmap=yes,recursive=false,source=" + path, image).out, "0\n")
        finally:
            subprocess.run(["umount", path + "/below"], check=True)


@case
def file_system_that_changed_after_prepare(host):
    """The request is also checked when the pod runs."""
    with overlay(host) as merged:
        path = source(host)
        uuid = host.prepare("--volume=v,kind=host,idmap=yes,source=" + path, apps_image(host, "echo ran", ("v", "/v")))
        subprocess.run(["mount", "--bind", merged, path], check=True)
        try:
            r = host.acnspawn("run", uuid)
            true(r.rc != 0 and "ran" not in r.out, str(r))
            contains(r.err, "overlay", "message")
        finally:
            subprocess.run(["umount", path], check=True)


# --- Links ----------------------------------------------------------------------------------------------------------------

@case
def links_on_the_way_to_a_source_have_to_be_allowed(host):
    path = source(host, root=0)
    os.symlink(path, host.path("link"))
    image = apps_image(host, "cat /v/root", ("v", "/v"))
    r = host.acnspawn("prepare", "--volume=v,kind=host,symlinks=false,source=" + host.path("link"), image).expect(1)
    contains(r.err, "symlinks=true", "hint")
    r = host.run("--volume=v,kind=host,symlinks=true,source=" + host.path("link"), image)
    equal(r.out, "from the host\n")


# --- Syntax ---------------------------------------------------------------------------------------------------------------

@case
def short_form(host):
    path = source(host, root=0)
    script = "cat /data/root; touch /data/new 2>/dev/null && echo written || echo refused"
    image = host.shell(script, name="example.com/a")
    equal(host.run("-v", path + ":/data", image).out, "from the host\nwritten\n", "for all apps")
    equal(host.run(image, "-v", path + ":/data:ro").out, "from the host\nrefused\n", "for one app, read-only")
    equal(host.run(image, "--volume=%s:/data:rw" % path).out, "from the host\nwritten\n")
    equal(host.run("--volume=v,kind=host,source=" + path, image, "-v", "v:/data:ro").out, "from the host\nrefused\n", "by name")
    r = host.run("-v", path + ":/data", image, "--name=one", image, "--name=two")
    for app in "one", "two":
        equal([line.split()[-1] for line in r.out.splitlines() if line.startswith(app)], ["host", "written"], "what %s did" % app)


@case
def short_form_with_invalid_values(host):
    path, image = source(host), host.shell("true", name="example.com/a")
    for value in (path, path + ":data", path + ":/data:writable", ":/data", path + ":/data:idmap=maybe", "no_name:/data"):
        r = host.acnspawn("prepare", image, "-v", value).expect(2)
        contains(r.err, value, "message")
    r = host.acnspawn("prepare", image, "--volume=v,kind=empty").expect(2)
    contains(r.err, "before the first image", "hint")
    r = host.acnspawn("prepare", image, "--mount=v:/data").expect(1)
    contains(r.err, "'v'", "message")


@case
def stricter_of_volume_and_mount_counts(host):
    path = source(host)
    script = "touch /data/x 2>/dev/null && echo written || echo refused"
    for volume, mount, expected in (("", "", "written"), (",readOnly=true", "", "refused"), ("", ",readOnly=true", "refused"),
                                    (",readOnly=true", ",readOnly=false", "refused"), (",readOnly=false", ",ro", "refused"),
                                    ("", ",readonly=false", "written")):
        r = host.run("--volume=v,kind=host,source=%s%s" % (path, volume), host.shell(script, name="example.com/a"),
                     "--mount=volume=v,target=/data" + mount)
        equal(r.out, expected + "\n", "volume%s mount%s" % (volume, mount))
    r = host.run("--volume=v,kind=host,source=" + path, host.shell(script, name="example.com/a", app={"mountPoints": [
        {"name": "data", "path": "/data", "readOnly": True}]}), "--mount=v:/data")
    equal(r.out, "refused\n", "mount point of the image")


@case
def read_only_mount_is_a_mount_point_of_the_manifest(host):
    uuid = host.prepare("--volume=v,kind=empty", host.shell("true", name="example.com/a"), "--mount=v:/one:ro", "--mount=v:/two",
                        "--mount=v:/three:ro")
    app = json.loads(host.acnspawn("cat-manifest", uuid).expect(0).out)["apps"][0]["app"]
    equal(app["mountPoints"], [{"name": "v", "path": "/one", "readOnly": True}, {"name": "v-2", "path": "/three", "readOnly": True}])


@case
def volumes_of_mounts_in_manifests(host):
    """appVolume: a volume that a mount brings along, under a name that does not clash with the pod's."""
    path = source(host, root=0)
    name = "example.com/a"
    host.acnspawn("fetch", host.shell("cat /one/root; touch /one/x 2>/dev/null || echo refused; "
                  "touch /two/x && echo written; stat -c %a /two", name=name)).expect(0)
    manifest = {"acKind": "PodManifest", "acVersion": "0.8.11", "volumes": [{"name": "v", "kind": "empty"}], "apps": [
        {"name": "a", "image": {"name": name}, "mounts": [
            {"volume": "v", "path": "/one", "appVolume": {"name": "v", "kind": "host", "source": path, "readOnly": True}},
            {"volume": "w", "path": "/two", "appVolume": {"name": "w", "kind": "empty", "mode": "0700"}}]}]}
    file = host.path("pod.json")
    with open(file, "w") as f:
        json.dump(manifest, f)
    r = host.run("--pod-manifest=" + file)
    equal(r.out, "from the host\nrefused\nwritten\n700\n")


@case
def hidden_directory_is_named_once(host):
    image = host.shell("ls -A /srv | wc -l", name="example.com/a", files={"srv/of-the-image": "x", "var/link": Link("../srv")})
    r = host.run("--volume=v,kind=empty", image, "--mount=v:/var/link")
    equal(r.out, "0\n")
    equal(r.err.count("hides"), 1, "warnings in %r" % r.err)
    contains(r.err, "/srv", "warning")
    r = host.run("--volume=v,kind=empty", image, "--mount=v:/tmp")
    lacks(r.err, "hides", "warning of an empty directory")


main()
