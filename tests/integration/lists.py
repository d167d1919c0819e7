#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""--filter and --format of list, image list and volume list."""

from harness import *


def names(host, *args, verb=("list",)):
    return host.acnspawn(*verb, "--format={name}", *args).expect(0).out.splitlines()


@case
def pods_by_filters(host):
    web = host.shell("true", name="example.com/web")
    db = host.shell("sleep 1000", name="example.org/db")
    host.prepare("--name=web-1", "--user-label=tier=front", "--annotation=example.com/note=x", web, "--name=one")
    host.run("--name=web-2", "--user-label=tier=front", "--user-label=zone=a", "--network=host", web, "--name=two")
    running = host.detach("--name=db", "--user-label=tier=back", "--user-annotation=owner=me", db, "--name=three")
    everything = ["web-1", "web-2", "db"]
    for filters, expected in (
            ([], everything),
            (["state=running"], ["db"]),
            (["state=running", "state=prepared"], ["web-1", "db"]),
            (["state=frozen"], []),
            (["name=web-*"], ["web-1", "web-2"]),
            (["name=web-*", "state=exited"], ["web-2"]),
            (["name=web"], []),
            (["app=t*"], ["web-2", "db"]),
            (["image=example.com/*"], ["web-1", "web-2"]),
            (["image=example.org/db:1"], ["db"]),
            (["image=example.org/db:2"], []),
            (["image=sha512-*"], everything),
            (["network=host"], ["web-2"]),
            (["network=none"], ["web-1", "db"]),
            (["label=tier"], everything),
            (["label=tier=front"], ["web-1", "web-2"]),
            (["label=tier=front", "label=zone=a"], ["web-2"]),
            (["annotation=example.com/note=x"], ["web-1"]),
            (["annotation=owner"], ["db"])):
        equal(names(host, *["--filter=" + f for f in filters]), expected, str(filters))
    equal(names(host, "-f", "name=db"), ["db"])
    r = host.acnspawn("list", "--filter=name=nothing").expect(0)
    equal(r.out, "")
    contains(r.err, "No such pods in the store")
    equal(json.loads(host.acnspawn("list", "--filter=name=nothing", "--json=short").expect(0).out), [])
    equal([p["name"] for p in json.loads(host.acnspawn("list", "--filter=app=three", "--json=short").expect(0).out)], ["db"])
    host.acnspawn("stop", running).expect(0)


@case
def pods_by_names(host):
    """Also by the beginning of a UUID, as everywhere; what is not there is said, and the rest is listed."""
    image = host.shell("true", name="example.com/a")
    one, two = host.prepare("--name=one", image), host.prepare("--name=two", image)
    for word in "one", one, one.upper(), next(one[:n] for n in range(1, 37) if not two.startswith(one[:n])):
        equal(names(host, word), ["one"], word)
    equal(names(host, "two", one), ["one", "two"])
    equal(names(host, "one", "--state=running"), [])
    r = host.acnspawn("list", "--format={name}", "nope", "two").expect(1)
    equal(r.out, "two\n")
    contains(r.err, "There is no pod 'nope' in the store")
    r = host.acnspawn("list", "--json=short", "nope").expect(1)
    equal(json.loads(r.out), [])
    host.acnspawn("run", "--replace", "two").expect(0)
    equal(len(names(host, "--all", "two")), 1)
    contains(host.acnspawn("--dir=" + host.path("none"), "list", "one").expect(1).err, "There is no store at")


@case
def pods_in_formats(host):
    uuid = host.prepare("--name=p", "--network=host", "--user-label=tier=front", "--user-annotation=owner=me",
                        "--annotation=example.com/note=x", host.shell("true", name="example.com/a"), "--name=one", "---",
                        host.shell("true", name="example.com/b"), "--name=two")
    equal(host.acnspawn("list", "--format=state,name").expect(0).out, "STATE    NAME\nprepared p\n")
    equal(host.acnspawn("list", "--format=name", "--no-legend").expect(0).out, "p\n")
    equal(host.acnspawn("list", "--format={uuid}\\t{apps}\\t{exitStatus}|{images}|{networks}|{labels}").expect(0).out,
          uuid + "\tone,two\t|example.com/a:1,example.com/b:1|host|tier=front\n")
    equal(host.acnspawn("list", "--format={annotations}").expect(0).out, "example.com/note=x,owner=me\n")
    created = host.acnspawn("list", "--format={created}").expect(0).out.strip()
    true(abs(int(created) / 1e6 - time.time()) < 600, "the time of creation is %s" % created)
    whole = json.loads(host.acnspawn("list", "--json=short").expect(0).out)
    equal(set(whole[0]), {"uuid", "name", "state", "apps", "created", "exitStatus"})
    equal(json.loads(host.acnspawn("list", "--json=short", "--format=name,networks").expect(0).out), [{"name": "p", "networks": ["host"]}])
    contains(host.acnspawn("list", "--json=short", "--format={name}").expect(2).err, "cannot be combined with --json; a list of fields can")
    contains(host.acnspawn("list", "--format={Names}").expect(2).err,
             "there is no field 'Names'; the fields are uuid, name, state, apps, created, exitStatus, endedBy, health, images, networks, labels, annotations")
    contains(host.acnspawn("list", "--filter=status=running").expect(2).err, "'status' is none of state, name, app, image, network, label, annotation")
    contains(host.acnspawn("list", "--filter=state=up").expect(2).err, "the state is none of preparing|")


@case
def images(host):
    verb = "image", "list"
    for name in "example.com/a", "example.com/b", "example.org/c":
        host.acnspawn("fetch", "--insecure-options=signature", host.image(name=name)).expect(0)
    equal(names(host, "--filter=name=example.com/*", verb=verb), ["example.com/a", "example.com/b"])
    equal(names(host, "--filter=name=*/c:1", verb=verb), ["example.org/c"])
    equal(names(host, "--filter=label=os=linux", "--filter=label=version=2", verb=verb), [])
    listed = json.loads(host.acnspawn(*verb, "--json=short").expect(0).out)
    equal(host.acnspawn(*verb, "--format={id} {size} {labels}").expect(0).out.splitlines(),
          ["%s %d %s" % (i["id"], i["size"], ",".join("%s=%s" % l for l in i["labels"].items())) for i in listed])
    equal(host.acnspawn(*verb, "--format=version,name", "--filter=name=*/c").expect(0).out, "VERSION NAME\n1       example.org/c\n")
    contains(host.acnspawn(*verb, "--format=repository").expect(2).err, "the fields are id, name, version, labels, size, imported, lastUsed")
    contains(host.acnspawn(*verb, "--filter=dangling=true").expect(2).err, "'dangling' is none of name, label, annotation")


@case
def volumes(host):
    verb = "volume", "list"
    host.acnspawn("volume", "create", "--label=kind=cache", "one").expect(0)
    host.acnspawn("volume", "create", "two").expect(0)
    host.prepare("--name=p", "--volume=two:/data", host.shell("true", name="example.com/a"))
    for filters, expected in ((["used=yes"], ["two"]), (["used=no"], ["one"]), (["pod=p*"], ["two"]), (["label=kind"], ["one"]),
                              (["name=*"], ["one", "two"]), (["name=*", "label=kind=x"], [])):
        equal(names(host, *["--filter=" + f for f in filters], verb=verb), expected, str(filters))
    rows = [line.split("|") for line in host.acnspawn(*verb, "--format={name}|{pods}|{labels}|{size}").expect(0).out.splitlines()]
    equal([r[:3] for r in rows], [["one", "", "kind=cache"], ["two", "p", ""]])
    true(all(int(r[3]) > 0 for r in rows), "sizes: %r" % rows)
    equal(host.acnspawn(*verb, "--format=name,pods").expect(0).out, "NAME USED BY\none  -\ntwo  p\n")
    equal([set(v) for v in json.loads(host.acnspawn(*verb, "--json=short").expect(0).out)], [{"name", "quota", "pods", "created"}] * 2)
    equal([list(v) for v in json.loads(host.acnspawn(*verb, "--size", "--json=short").expect(0).out)], [["name", "size", "quota", "pods", "created"]] * 2)
    contains(host.acnspawn(*verb, "--filter=used=maybe").expect(2).err, "must be used=yes or used=no")


@case
def quiet_lists_are_for_programs(host):
    """One identifier a line, in full, as with podman."""
    uuids = [host.prepare("--name=p%d" % i, host.shell("true", name="example.com/a")) for i in range(2)]
    equal(host.acnspawn("list", "-q").expect(0).out.split("\n"), [*uuids, ""])
    equal(host.acnspawn("list", "-q", "--filter=name=p1").expect(0).out, uuids[1] + "\n")
    equal(host.acnspawn("list", "-q", "--filter=name=x").expect(0).out, "")
    host.acnspawn("volume", "create", "one").expect(0)
    equal(host.acnspawn("volume", "list", "--quiet").expect(0).out, "one\n")
    images = json.loads(host.acnspawn("image", "list", "--json=short").expect(0).out)
    equal(host.acnspawn("image", "list", "-q").expect(0).out, "".join(i["id"] + "\n" for i in images))
    contains(host.acnspawn("list", "--format={{.Names}}").expect(2).err, "A field is in single braces, as in '{uuid}'")
    equal(host.acnspawn("list", "--format={{{name}}}", "--filter=name=p0").expect(0).out, "{p0}\n")


@case
def health_of_pods(host):
    """The worst of their apps."""
    image = host.shell("touch /out/up; sleep 1000", name="example.com/a")
    good, bad = ["--health-cmd=true", "--health-interval=100ms"], ["--health-cmd=test ! -e /tmp/bad", "--health-interval=100ms", "--health-retries=1"]
    host.detach("--name=none", image)
    host.detach("--name=both", image, *good, "---", image, "--name=b", *bad)

    def health():
        return dict(line.split("=") for line in host.acnspawn("list", "--format={name}={health}").expect(0).out.split())
    wait_for(lambda: health() == {"none": "", "both": "healthy"}, "health of both apps")
    contains(host.acnspawn("list").expect(0).out, "running (healthy)")
    host.acnspawn("enter", "--app=b", "both", "touch", "/tmp/bad").expect(0)
    wait_for(lambda: health()["both"] == "unhealthy", "an unhealthy app")
    contains(host.acnspawn("list").expect(0).out, "running (unhealthy)")
    for name in "none", "both":
        host.acnspawn("stop", name).expect(0)
    equal(health(), {"none": "", "both": ""})
    true("(" not in host.acnspawn("list").expect(0).out, "no health after the end")


@case
def a_pod_that_cannot_be_opened_is_missing_alone(host):
    """What looks at all pods shows the others, and says which one it is; but nothing takes it for one that is not there."""
    ended = host.prepare("--name=ended", host.shell("true", name="example.com/a"))
    host.run("ended")
    host.detach("--name=p", host.shell("echo words; exec sleep 1000", name="example.com/b"))
    wait_for(lambda: "words" in host.acnspawn("logs", "p").out, "the output of the app")
    host.acnspawn("volume", "create", "v").expect(0)
    bad = "11111111-2222-4333-8444-555555555555"
    with open(os.path.join(host.dir, "pods/exited", bad), "w"):
        pass
    for words in ("list", "--all"), ("stats",), ("top",), ("update", "--dry-run"), ("df",), ("network", "reload"):
        r = host.acnspawn(*words).expect(0)
        contains(r.err, "Cannot open pod %s: " % bad, "the message of %s" % words[0])
    equal(names(host, "--all"), ["ended", "p"])
    host.run("--name=beside", "example.com/a")
    monitor = host.start("monitor", "--json=short")
    while "beside" not in (line := monitor.stdout.readline().decode()):
        true(line, "the events of the others")
    monitor.kill()
    for words in ("prune", "--force", "volumes"), ("volume", "rm", "v"):
        contains(host.acnspawn(*words).expect(1).err, "Cannot open pod %s: " % bad)
    r = host.acnspawn("gc", "--grace-period=0", "--json=short").expect(1)
    contains(r.err, "Cannot open pod %s: " % bad)
    true(ended in [x["id"] for x in json.loads(r.out)], "other pods are collected")
    os.unlink(os.path.join(host.dir, "pods/exited", bad))
    host.acnspawn("stop", "p").expect(0)


@case
def what_only_looks_works_on_a_frozen_file_system(host):
    """As for a snapshot: who wrote anything, or only asked to make what is there, would wait in state D until it is thawed."""
    if not shutil.which("mkfs.ext4"):
        raise Skip("mkfs.ext4 is missing")
    disk, place, usual = host.path("disk"), host.path("place"), host.dir
    with open(disk, "wb") as f:
        f.truncate(256 << 20)
    subprocess.run(["mkfs.ext4", "-q", disk], check=True)
    os.mkdir(place)
    if subprocess.run(["mount", "-o", "loop", disk, place], stderr=subprocess.DEVNULL).returncode != 0:
        raise Skip("no loop device can be mounted here")
    frozen, looks = False, []
    try:
        host.dir = place + "/store"
        host.acnspawn("run", "--detach", "--name=p", host.shell("echo words; exec sleep 1000", name="example.com/a")).expect(0)
        wait_for(lambda: "words" in host.acnspawn("logs", "p").out, "the output of the app")
        host.acnspawn("volume", "create", "v").expect(0)
        host.wait_at_rest("p")
        subprocess.run(["fsfreeze", "-f", place], check=True)
        frozen = True
        for words in (("list",), ("list", "--all", "--json"), ("status", "p"), ("logs", "p"), ("enter", "p", "true"), ("image", "list"), ("volume", "list", "--size"),
                      ("cat-manifest", "p"), ("stats", "p"), ("top", "p"), ("df",), ("gc", "--dry-run"), ("prune", "--dry-run", "all", "volumes")):
            looks.append((words, subprocess.Popen(host.argv(*words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)))
        host.children += [p for _, p in looks]
        end = time.monotonic() + patience(15)
        while any(p.poll() is None for _, p in looks) and time.monotonic() < end:
            time.sleep(0.02)
        equal([w for w, p in looks if p.poll() is None], [], "what waits")
        equal([(w, p.returncode, p.stderr.read()) for w, p in looks if p.returncode != 0], [], "what fails")
    finally:
        if frozen:
            subprocess.run(["fsfreeze", "-u", place], check=True)
        for _, p in looks:
            p.communicate()
        host.acnspawn("rm", "--force", "p")
        host.dir = usual
        wait_for(lambda: subprocess.run(["umount", place]).returncode == 0, "that the file system is not in use")


main()
