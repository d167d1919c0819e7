#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Named volumes: made, shared by pods with different uids, listed, removed, pruned, exported and imported."""

from harness import *


def volume(host, *args, rc=0, **more):
    return host.acnspawn("volume", *args, **more).expect(rc)


def names(host):
    return [v["name"] for v in json.loads(volume(host, "list", "--json").out)]


def data(host, name, *parts):
    return os.path.join(host.dir, "volumes", name, "data", *parts)


def tmp_of(host):
    return os.listdir(os.path.join(host.dir, "tmp"))


def tar_of(*members):
    """An archive of (TarInfo, content) pairs."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as t:
        for info, content in members:
            info.size = len(content)
            t.addfile(info, io.BytesIO(content))
    return out.getvalue()


def member(name, kind=tarfile.REGTYPE, link="", mode=0o644, uid=0, gid=0):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.uid, info.gid = kind, link, mode, uid, gid
    return info


# --- In pods --------------------------------------------------------------------------------------------------------------

@case
def content_outlives_pods(host):
    """Made by the first pod, read by the second, and kept by rm and gc."""
    image = host.shell("cat /d/f 2>/dev/null; echo hello >/d/f")
    equal(host.run("--rm", "--volume=data:/d", image).out, "")
    equal(names(host), ["data"], "volumes")
    equal(host.run("--name=two", "--volume=data:/d", image).out, "hello\n")
    host.acnspawn("rm", "two").expect(0)
    host.acnspawn("gc", "--grace-period=0", "--expire-prepared=0").expect(0)
    equal(host.run(image, "--volume=data:/d").out, "hello\n")


@case
def pods_with_different_uids_share_files(host):
    """On disk an owner is the app's user; every pod sees that, though its users have other IDs on the host."""
    write = host.shell("echo x >/d/$(id -u); stat -c '%n %u %g' /d/*", name="example.com/w", app={"user": "1000", "group": "50"})
    root = host.shell("echo x >/d/root; stat -c '%n %u %g' /d/*", name="example.com/r")
    define = "--volume=d,kind=named,source=shared,mode=1777"
    equal(host.run("--name=one", define, write, "--mount=d:/d").out, "/d/1000 1000 50\n")
    equal(host.run("--name=two", define, root, "--mount=d:/d").out, "/d/1000 1000 50\n/d/root 0 0\n")
    equal(host.run("--name=three", "--no-userns", define, root, "--mount=d:/d").out, "/d/1000 1000 50\n/d/root 0 0\n")
    true(host.uid_base("one") != host.uid_base("two"), "both pods have the same users")
    st = os.stat(data(host, "shared", "1000"))
    equal((st.st_uid, st.st_gid), (1000, 50), "the owner on disk")


@case
def two_running_pods_share_a_volume(host):
    """At the same time, and apps of one pod as well."""
    reader = host.shell("while ! test -e /d/done; do sleep 0.05; done; cat /d/done", name="example.com/reader")
    pod = host.detach("--name=reader", "--volume=shared:/d", reader, "---", reader, "--name=other")
    host.run("--volume=shared:/d", host.shell("echo both >/d/f; mv /d/f /d/done", name="example.com/writer"))
    host.acnspawn("wait", pod).expect(0)
    equal(host.acnspawn("logs", "--app=reader", pod).out.count("both"), 1)
    equal(host.acnspawn("logs", "--app=other", pod).out.count("both"), 1)


@case
def read_only_mount_cannot_be_written(host):
    host.run("--volume=data:/d", host.shell("echo a >/d/f", name="example.com/a"))
    r = host.run("--volume=data:/d:ro", host.shell("cat /d/f; touch /d/g 2>/dev/null || echo refused", name="example.com/b"))
    equal(r.out, "a\nrefused\n")
    r = host.run("--volume=data,kind=named,readOnly", host.shell("touch /d/g 2>/dev/null || echo refused", name="example.com/c"),
                 "--mount=data:/d")
    equal(r.out, "refused\n")


@case
def mount_has_no_devices_and_no_set_user_id(host):
    r = host.run("--volume=data:/d", host.shell("sed -n 's/.* \\/d \\([^ ]*\\) .*/\\1/p' /proc/self/mountinfo"))
    contains(r.out, "nosuid,nodev")


@case
def new_volume_has_mode_and_owner(host):
    """Those that are given; an existing volume is not changed by them."""
    image = host.shell("stat -c '%a %u %g' /d")
    define = "--volume=d,kind=named,source=data,mode=0710,uid=33,gid=34"
    equal(host.run(define, image, "--mount=d:/d").out, "710 33 34\n")
    equal(host.run("--volume=d,kind=named,source=data,mode=0700,uid=1", image, "--mount=d:/d").out, "710 33 34\n")
    equal(host.run("--volume=plain:/d", image).out, "755 0 0\n")


@case
def file_system_that_cannot_map_owners_is_named(host):
    """When the pod is prepared and when it runs; without a user namespace nothing has to be mapped."""
    image = host.shell("stat -c %u /d/f", name="example.com/a")
    volume(host, "create", "data")
    early = host.prepare("--volume=data:/d", image)
    for name in "lower", "upper", "work":
        os.mkdir(host.path(name))
    options = "lowerdir=%s,upperdir=%s,workdir=%s" % tuple(host.path(x) for x in ("lower", "upper", "work"))
    subprocess.run(["mount", "-t", "overlay", "-o", options, "acnspawn-test", data(host, "data")], check=True)
    try:
        with open(data(host, "data", "f"), "w"):
            os.chown(data(host, "data", "f"), 7, 7)
        r = host.acnspawn("prepare", "--volume=data:/d", image).expect(1)
        contains(r.err, "named volume data cannot be mapped: its file system (overlay)")
        r = host.acnspawn("run", early)
        true(r.rc != 0, "the pod ran")
        contains(r.err, "(overlay) does not support that")
        equal(host.run("--no-userns", "--volume=data:/d", image).out, "7\n")
    finally:
        subprocess.run(["umount", data(host, "data")], check=True)


@case
def volume_of_the_pod_takes_precedence(host):
    """With the short form too: NAME:PATH is the pod's volume of that name, if it has one."""
    host.run("--volume=data,kind=empty", host.shell("echo x >/d/f"), "--volume=data:/d")
    equal(names(host), [], "volumes")


@case
def mount_point_of_the_image_is_satisfied(host):
    r = host.run("--volume=data:/d", host.shell("echo x >/d/f", app={"mountPoints": [{"name": "m", "path": "/d"}]}))
    lacks(r.err, "empty volume")
    with open(data(host, "data", "f")) as f:
        equal(f.read(), "x\n")


@case
def manifest_with_a_named_volume_is_standard(host):
    uuid = host.prepare("--volume=d,kind=named,source=data,uid=5", host.shell("true"), "--mount=d:/d")
    manifest = json.loads(host.acnspawn("cat-manifest", uuid).expect(0).out)
    equal(manifest["volumes"], [{"name": "d", "kind": "empty", "mode": "0755", "uid": 5, "gid": 0}], "volumes")
    equal(manifest["annotations"], [{"name": "acnspawn/volume/d", "value": "kind=named,source=data"}], "annotations")
    true(not os.path.exists(os.path.join(host.pod_dir(uuid), "volumes", "d")), "the pod has a directory for it")
    v = host.status(uuid)["volumes"][0]
    equal((v["kind"], v["source"]), ("named", "data"), "status")


@case
def pod_that_runs_again_has_its_volumes(host):
    host.run("--name=p", "--volume=data:/d", host.shell("echo x >>/d/f; wc -l </d/f"))
    equal(host.acnspawn("run", "p").expect(0).out, "2\n")


@case
def app_that_is_added_may_bring_a_volume(host):
    pod = host.detach("--name=p", "--exit-policy=never")
    host.acnspawn("add-app", pod, host.shell("echo x >/d/f", name="example.com/late"), "--volume=late:/d").expect(0)
    host.acnspawn("start-app", pod, "late").expect(0)
    host.acnspawn("wait", pod, "late").expect(0)
    with open(data(host, "late", "f")) as f:
        equal(f.read(), "x\n")
    contains(volume(host, "rm", "late", rc=1).err, "used by the pod p (running)")
    host.acnspawn("rm-app", pod, "late").expect(0)
    volume(host, "rm", "late")
    host.acnspawn("stop", pod).expect(0)


@case
def replaced_app_keeps_its_volume(host):
    """With another image, and when the pod is run again."""
    one = host.shell("echo one >>/d/f; sleep 1000", name="example.com/one")
    two = host.shell("echo two >>/d/f; sleep 1000", name="example.com/two")
    host.detach("--name=p", "--volume=data:/d", one, "--name=a")
    lines = lambda: open(data(host, "data", "f")).read().split()
    wait_for(lambda: os.path.exists(data(host, "data", "f")) and lines(), "the first app")
    host.acnspawn("update-app", "p", "a", "--image=" + two).expect(0)
    wait_for(lambda: lines() == ["one", "two"], "the second app")
    contains(volume(host, "rm", "data", rc=1).err, "used by the pod p (running)")
    host.acnspawn("stop", "p").expect(0)
    host.acnspawn("run", "--detach", "p").expect(0)
    wait_for(lambda: lines() == ["one", "two", "two"], "the second app, again")
    host.acnspawn("stop", "p").expect(0)


@case
def dry_run_makes_no_volume(host):
    host.acnspawn("prepare", "--dry-run", "--volume=data:/d", host.shell("true")).expect(0)
    equal(names(host), [], "volumes")


@case
def volume_that_is_gone_is_named(host):
    uuid = host.prepare("--volume=data:/d", host.shell("echo ran"))
    shutil.rmtree(os.path.join(host.dir, "volumes", "data"))
    r = host.acnspawn("run", uuid)
    true(r.rc != 0, "the pod ran")
    contains(r.err + host.acnspawn("logs", uuid).out, "data")
    lacks(r.out, "ran")


# --- Threats --------------------------------------------------------------------------------------------------------------

@case
def app_cannot_get_out_of_its_volume(host):
    """Links and renames in the volume are inert; "meta" and the name are above what is mounted."""
    script = ("ls -a /d/..; ln -s /etc/passwd /d/link; ln -s .. /d/up; mv /d /e 2>/dev/null || echo kept; "
              "rmdir /d 2>/dev/null || echo kept; test -e /d/up/meta || echo none")
    out = host.run("--volume=data:/d", host.shell(script)).out
    equal(out.count("kept"), 2)
    contains(out, "none")
    lacks(out, "meta\n")
    equal(sorted(os.listdir(os.path.join(host.dir, "volumes", "data"))), ["data", "meta"])


@case
def volume_that_became_a_link_is_refused(host):
    """The store's directory is walked without following links."""
    uuid = host.prepare("--volume=data:/d", host.shell("ls /d"))
    secret = host.path("secret")
    os.mkdir(secret)
    open(os.path.join(secret, "leaked"), "w").close()
    os.rmdir(data(host, "data"))
    os.symlink(secret, data(host, "data"))
    r = host.acnspawn("run", uuid)
    true(r.rc != 0, "the pod ran")
    lacks(r.out, "leaked")
    true(host.acnspawn("volume", "export", "data").rc != 0, "it was exported")
    host.acnspawn("rm", uuid).expect(0)
    volume(host, "rm", "data")
    true(os.path.exists(os.path.join(secret, "leaked")), "what the link led to was removed")


@case
def hostile_archives_are_refused(host):
    """As images are; nothing is left of them, and no volume."""
    outside = host.path("outside")
    evil = {
        "..": tar_of((member("../x"), b"x")),
        "absolute": tar_of((member("/x"), b"x")),
        "through a link": tar_of((member("l", tarfile.SYMTYPE, outside), b""), (member("l/x"), b"x")),
        "hard link out": tar_of((member("h", tarfile.LNKTYPE, "../../x"), b"")),
        "a link as the top": tar_of((member(".", tarfile.SYMTYPE, outside), b"")),
        "truncated": tar_of((member("a"), b"x" * 100000))[:60000],
        "without an end": tar_of((member("a"), b"x" * 512))[:1024],
        "nothing": b"",
        "noise": b"noise" * 1000,
    }
    os.mkdir(outside)
    for what, archive in evil.items():
        r = host.acnspawn("volume", "import", "evil", input=archive)
        equal(r.rc, 1, f"the status of {what}: {r.err}")
        equal((names(host), tmp_of(host), os.listdir(outside)), ([], [], []), f"what {what} left")


@case
def bad_names_are_refused(host):
    for name in "", "..", "a/b", "/a", "A", "a_b", "-a", "x" * 64, "a\n":
        for verb in "create", "rm", "show", "export", "import":
            r = host.acnspawn("volume", verb, "--", name, input=b"")
            equal(r.rc, 2 if verb in ("create", "import") else 1, f"the status of {verb} {name!r}")
    equal(names(host), [])
    volume(host, "create", "x" * 63)


# --- Commands -------------------------------------------------------------------------------------------------------------

@case
def created_with_mode_owner_and_labels(host):
    equal(volume(host, "create", "--mode=2770", "--owner=33:34", "--label=tier=db", "--label=b=c", "data").out, "data\n")
    v = json.loads(volume(host, "show", "--json", "data").out)[0]
    equal((v["name"], v["mode"], v["uid"], v["gid"], v["labels"], v["pods"]),
          ("data", "2770", 33, 34, {"tier": "db", "b": "c"}, []))
    equal(v["path"], data(host, "data"))
    true(abs(v["created"] / 1e6 - time.time()) < 60, "when it was made")
    contains(volume(host, "show", "data").out, "tier=db")
    contains(volume(host, "create", "data", rc=1).err, "There is a volume 'data' already")
    for words in ("create", "Bad"), ("import", "Bad", "/dev/null"):
        contains(volume(host, *words, rc=2).err, '"Bad" is not an AC Name')
    equal(host.run("--volume=data:/d", host.shell("stat -c '%a %u %g' /d")).out, "2770 33 34\n")


@case
def list_shows_sizes_and_users(host):
    contains(volume(host, "list").err, "No volumes in the store")
    host.prepare("--name=p", "--volume=big:/d", host.shell("true"))
    volume(host, "create", "idle")
    with open(data(host, "big", "f"), "wb") as f:
        f.write(b"x" * 300000)
    lines = volume(host, "list", "--no-legend").out.splitlines()
    equal([l.split()[:3] for l in lines], [["big", "-", "p"], ["idle", "-", "-"]])
    equal(volume(host, "list").out.splitlines()[0].split(), ["NAME", "QUOTA", "USED", "BY", "CREATED"])
    equal(volume(host, "list", "--size").out.splitlines()[0].split(), ["NAME", "SIZE", "QUOTA", "USED", "BY", "CREATED"])
    rows = json.loads(volume(host, "list", "--size", "--json").out)
    true(rows[0]["size"] >= 300000 > rows[1]["size"], f"sizes {rows}")
    equal(rows[0]["pods"], ["p"])


@case
def quota_of_a_volume_that_exists_does_not_change(host):
    """Another one is refused, also by a dry run; the same one is given again by each run."""
    image = host.shell("sleep 1000", name="example.com/a")
    quota = lambda q: ("--volume=d,kind=named,source=data,quota=" + q, image, "--mount=d:/d")
    volume(host, "create", "data")
    for dry in [], ["--dry-run"]:
        err = host.acnspawn("prepare", *dry, *quota("1Mi")).expect(1).err
        contains(err, "Volume 'd' cannot have a quota of 1048576 bytes: the named volume data exists, with no quota")
        contains(err, "acnspawn volume import --quota=")
    equal(host.pods(), [], "pods")
    # As on a file system that has quotas.
    path = os.path.join(host.dir, "volumes/data/meta")
    meta = json.loads(read_text(path))
    with open(path, "w") as f:
        json.dump({**meta, "quota": 1048576}, f)
    host.acnspawn("prepare", "--dry-run", *quota("1Mi")).expect(0)
    contains(host.acnspawn("prepare", *quota("2Mi")).expect(1).err, "exists, with a quota of 1048576 bytes")
    # A pod that is run again is not kept from it by a volume that was made anew.
    uuid = host.prepare("--name=p", "--volume=d,kind=named,source=data,quota=1Mi", host.shell("true", name="example.com/b"), "--mount=d:/d")
    host.acnspawn("run", uuid).expect(0)
    with open(path, "w") as f:
        json.dump(meta, f)
    contains(host.acnspawn("run", "p").expect(0).err, "Volume 'd': quota= has no effect: the named volume data exists, with no quota")


@case
def quota_needs_a_file_system_that_has_it(host):
    """It is named, with what to do; no volume, pod or temporary file is left. tests/vm/quota.py has one that works."""
    host.dir = os.path.join("/dev/shm", os.path.basename(host.tmp))
    try:
        err = volume(host, "create", "--quota=1Mi", "data", rc=1).err
        contains(err, "The volume data cannot have a quota: the file system of the store %s (tmpfs) has no project quotas" % host.dir)
        contains(err, "Put the store on ext4 or XFS, mounted with the option prjquota")
        r = host.acnspawn("prepare", "--volume=d,kind=named,source=data,quota=1Mi", host.shell("true"), "--mount=d:/d").expect(1)
        contains(r.err, "The volume data cannot have a quota")
        volume(host, "create", "plain")
        tar = host.path("plain.tar")
        volume(host, "export", "-o", tar, "plain")
        contains(volume(host, "import", "--quota=1Mi", "data", tar, rc=1).err, "data cannot have a quota")
        with open(tar, "wb") as f:
            info = member(".", tarfile.DIRTYPE)
            info.pax_headers = {"SCHILY.xattr.trusted.acnspawn.quota": "1048576"}
            f.write(tar_of((info, b"")))
        contains(volume(host, "import", "data", tar, rc=1).err, "--quota=none")
        volume(host, "import", "--quota=none", "data", tar)
        v = json.loads(volume(host, "show", "--json", "data").out)[0]
        equal((v["quota"], os.listxattr(data(host, "data"))), (None, []))
        with open(tar, "wb") as f:
            info.pax_headers = {"SCHILY.xattr.trusted.acnspawn.quota": "-1"}
            f.write(tar_of((info, b"")))
        contains(volume(host, "import", "evil", tar, rc=1).err, "has a quota that is not valid")
        equal((names(host), tmp_of(host)), (["data", "plain"], []))
        equal(json.loads(host.acnspawn("list", "--all", "--json").expect(0).out), [], "pods")
    finally:
        shutil.rmtree(host.dir)


@case
def used_volumes_are_not_removed(host):
    """By pods that are prepared, run, or have ended; their names and states are told."""
    image = host.shell("echo x >/d/f")
    host.prepare("--name=ready", "--volume=data:/d", image)
    host.detach("--name=busy", "--volume=data:/d", host.shell("sleep 1000", name="example.com/s"))
    host.run("--name=over", "--volume=data:/d", image)
    err = volume(host, "rm", "data", rc=1).err
    for words in "ready (prepared)", "busy (running)", "over (exited)":
        contains(err, words)
    equal(json.loads(volume(host, "prune", "--json").out), [])
    host.acnspawn("rm", "--force", "busy", "over").expect(0)
    contains(volume(host, "rm", "data", rc=1).err, "used by the pod ready (prepared)")
    host.acnspawn("rm", "ready").expect(0)
    equal(volume(host, "rm", "data").out, "data\n")
    equal((names(host), tmp_of(host)), ([], []))
    contains(volume(host, "rm", "data", rc=1).err, "There is no volume 'data'")


@case
def prune_removes_what_no_pod_uses(host):
    host.prepare("--name=p", "--volume=used:/d", host.shell("true"))
    for name in "a", "b":
        volume(host, "create", name)
    with open(data(host, "a", "f"), "wb") as f:
        f.write(b"x" * 300000)
    rows = json.loads(volume(host, "prune", "--dry-run", "--json").out)
    equal([r["name"] for r in rows], ["a", "b"])
    equal(names(host), ["a", "b", "used"])
    again = json.loads(volume(host, "prune", "--json").out)
    equal(again, rows, "what the dry run said")
    equal((names(host), tmp_of(host)), (["used"], []))
    contains(volume(host, "prune").err, "Nothing to remove")


@case
def damaged_pod_keeps_all_volumes(host):
    """Which ones it uses is not known."""
    uuid = host.prepare("--volume=data:/d", host.shell("true"))
    with open(os.path.join(host.pod_dir(uuid), "pod"), "w") as f:
        f.write("{")
    contains(volume(host, "rm", "data", rc=1).err, uuid)
    contains(volume(host, "prune", rc=1).err, uuid)
    equal(names(host), ["data"])
    host.acnspawn("rm", uuid).expect(0)
    volume(host, "rm", "data")


@case
def exported_and_imported(host):
    """Owners, modes, links and the directory's own attributes are kept."""
    volume(host, "create", "--mode=1770", "--owner=5:6", "data")
    host.run("--volume=data:/d", host.shell(
        "echo hello >/d/f; chown 33:34 /d/f; chmod 4750 /d/f; ln -s f /d/l; ln /d/f /d/h; mkdir -p /d/x/y; mkfifo /d/p"))
    host.acnspawn("gc", "--grace-period=0").expect(0)
    tar = host.path("data.tar")
    volume(host, "export", "-o", tar, "data")
    with open(tar, "rb") as f:
        archive = f.read()
    volume(host, "import", "--label=from=data", "copy", input=archive)
    look = lambda name: subprocess.run(
        ["find", data(host, name), "-printf", "%P %y %m %U %G %l %n\n"], check=True, text=True, capture_output=True).stdout
    equal(sorted(look("copy").splitlines()), sorted(look("data").splitlines()))
    contains(look("copy"), "f f 4750 33 34  2\n")
    equal(json.loads(volume(host, "show", "--json", "copy").out)[0]["labels"], {"from": "data"})
    contains(volume(host, "import", "copy", rc=1, input=archive).err, "There is a volume 'copy' already")
    volume(host, "import", "--mode=0700", "--owner=7", "third", tar)
    st = os.stat(data(host, "third"))
    equal((st.st_mode & 0o7777, st.st_uid, st.st_gid), (0o700, 7, 0))
    equal(host.run("--volume=copy:/d", host.shell("cat /d/l")).out, "hello\n")


@case
def imports_that_are_killed_leave_nothing(host):
    """Half an archive, then SIGKILL: no volume, and gc sweeps the rest."""
    archive = tar_of((member("a"), b"x" * 4000000))
    p = subprocess.Popen(host.argv("volume", "import", "data"), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
    host.children.append(p)
    p.stdin.write(archive[:3000000])
    p.stdin.flush()
    wait_for(lambda: tmp_of(host), "something to sweep")
    p.kill()
    p.wait()
    p.stdin.close()
    equal(names(host), [], "volumes")
    host.acnspawn("gc").expect(0)
    equal(tmp_of(host), [], "what gc left")


def killed_after(host, seconds, *args):
    p = subprocess.Popen(host.argv(*args), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    host.children.append(p)
    time.sleep(seconds)  # any time
    p.kill()
    p.wait()
    host.note_pods()


@case
def killed_anywhere_nothing_is_half_made(host):
    """Whenever a command is killed: each volume is complete or absent, and gc sweeps the rest."""
    image = host.shell("true", name="example.com/a")
    host.acnspawn("fetch", image).expect(0)
    for i in range(30):
        killed_after(host, 0.0003 * i, "volume", "create", "--owner=5:6", "--mode=0750", "--label=a=b", "data")
        if "data" in names(host):
            v = json.loads(volume(host, "show", "--json", "data").out)[0]
            equal((v["mode"], v["uid"], v["gid"], v["labels"]), ("0750", 5, 6, {"a": "b"}), "what was made")
        else:
            volume(host, "create", "data")
        os.mkdir(data(host, "data", "d"))
        killed_after(host, 0.0003 * i, "volume", "rm", "data")
        if "data" in names(host):
            true(os.path.isdir(data(host, "data", "d")), "the volume lost its files")
            volume(host, "rm", "data")
        killed_after(host, 0.005 * i, "prepare", "--volume=other:/d", "example.com/a")
        for name in names(host):
            volume(host, "show", name)
    host.acnspawn("gc", "--expire-prepared=0").expect(0)
    equal(tmp_of(host), [], "what gc left")
    volume(host, "prune")
    equal(names(host), [], "volumes")


@case
def removal_waits_for_pods_that_are_prepared(host):
    """A pod that could be prepared has its volume, though it is removed and pruned all the time."""
    image = host.shell("true", name="example.com/a")
    host.acnspawn("fetch", image).expect(0)
    for i in range(12):
        removers = [host.start("volume", *words) for words in (("prune",), ("rm", "data"), ("prune",))]
        uuid = host.prepare("--volume=data:/d", "example.com/a")
        for p in removers:
            p.communicate(timeout=patience(60))
        equal(names(host), ["data"], "volumes of the pod")
        host.acnspawn("rm", uuid).expect(0)


@case
def copying_from_a_volume_of_a_pod_that_ended_names_it(host):
    host.run("--name=p", "--volume=data:/d", host.shell("echo x >/d/f"))
    contains(host.acnspawn("cp", "p:/d", host.path("x")).expect(1).err, "It is the named volume data")


@case
def devices_and_sockets_are_left_out(host):
    volume(host, "import", "data", input=tar_of((member("zero", tarfile.CHRTYPE), b""), (member("f"), b"x")))
    equal(os.listdir(data(host, "data")), ["f"])
    os.mknod(data(host, "data", "null"), 0o600 | 0o020000, os.makedev(1, 3))
    tar = host.path("data.tar")
    r = volume(host, "export", "-o", tar, "data")
    contains(r.err, "it is a device")
    with tarfile.open(tar) as t:
        equal(sorted(t.getnames()), [".", "./f"])


main()
