#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn df and prune: what the store uses, and that prune frees what df says it would, and nothing else."""

import hashlib

from harness import *
from terminals import Terminal


def df(host, *args):
    return {row["kind"]: row for row in json.loads(host.acnspawn("df", "--json=short", *args).expect(0).out)}


def objects(host):
    return json.loads(host.acnspawn("df", "--verbose", "--json=short").expect(0).out)


def prune(host, *args):
    """The rows of what was removed, without ranges of users: those are the host's, and other pods leave some, too."""
    return [r for r in json.loads(host.acnspawn("prune", "--json=short", *args).expect(0).out) if r["kind"] != "uids"]


def kinds(rows):
    return sorted({r["kind"] for r in rows})


def download(host, age=0):
    """What an interrupted download leaves."""
    directory = os.path.join(host.dir, "downloads")
    for name, content in (("%064x.part" % 1, b"x" * 100000), ("%064x.json" % 1, b"{}")):
        with open(os.path.join(directory, name), "wb") as f:
            f.write(content)
        os.utime(os.path.join(directory, name), (time.time() - age,) * 2)


def image_named(name):
    return "example.com/%s:1,os=linux,arch=%s" % (name, os_arch())


def fill(host):
    """An ended pod, a running one, images of both and a third, volumes of the running pod and of none, a download."""
    ended = host.prepare("--name=ended", host.shell("echo words; head -c 300000 /dev/zero >/big", name="example.com/ended"))
    host.run("ended")
    running = host.detach("--name=running", "--volume=used:/data", host.shell("sleep 1000", name="example.com/running"))
    host.acnspawn("fetch", "--insecure-options=signature", host.image(name="example.com/idle")).expect(0)
    host.acnspawn("volume", "create", "idle").expect(0)
    download(host)
    return ended, running


@case
def an_empty_store(host):
    r = host.acnspawn("df").expect(0)
    equal([line.split() for line in r.out.splitlines()],
          [["KIND", "COUNT", "SIZE", "RECLAIMABLE"]] +
          [[k, "0", "0B", "0B"] for k in ("images", "layers", "rendered", "pods", "logs", "volumes", "downloads")])
    equal(r.err, "")
    equal(host.acnspawn("df", "--verbose").expect(0).out, "")
    contains(host.acnspawn("prune", "--force").expect(0).err, "Nothing to remove.")


@case
def what_is_used_and_by_what(host):
    ended, running = fill(host)
    d = df(host)
    equal({k: d[k]["count"] for k in d},
          {"images": 3, "layers": 0, "rendered": 0, "pods": 2, "logs": 2, "volumes": 2, "downloads": 2})
    true(d["pods"]["size"] >= 300000, "the pod's files count: %r" % d["pods"])
    true(d["downloads"]["size"] >= 100000, "downloads have a size: %r" % d["downloads"])
    rows = objects(host)
    equal({(r["kind"], r["name"]) for r in rows if r["reclaimable"] and r["kind"] in ("images", "pods", "logs")},
          {("images", image_named("ended")), ("images", image_named("idle")), ("pods", "ended"), ("logs", "ended")})
    equal({r["id"] for r in rows if r["kind"] == "volumes" and r["reclaimable"]}, {"idle"})
    equal({r["id"] for r in rows if r["kind"] == "pods"}, {ended, running})
    for kind in d:
        mine = [r for r in rows if r["kind"] == kind]
        equal((len(mine), sum(r["size"] for r in mine), sum(r["size"] for r in mine if r["reclaimable"])),
              (d[kind]["count"], d[kind]["size"], d[kind]["reclaimable"]), kind)
    r = host.acnspawn("df").expect(0)
    contains(r.err, "can be freed ('acnspawn prune').")
    host.acnspawn("stop", running).expect(0)


@case
def pruning_frees_what_df_says(host):
    ended, running = fill(host)
    before = df(host)
    dry = prune(host, "--dry-run")
    equal(df(host), before, "after a dry run")
    rows = prune(host, "--force")
    equal(rows, dry, "what was removed, and what would have been")
    equal(kinds(rows), ["download", "image", "pod"])
    equal(sum(r["size"] for r in rows if r["kind"] == "pod"), before["pods"]["reclaimable"] + before["logs"]["reclaimable"])
    for kind, one in (("images", "image"), ("downloads", "download")):
        true(before[kind]["reclaimable"] >= sum(r["size"] for r in rows if r["kind"] == one) > 0, "the sizes of %s" % kind)
    after = df(host)
    equal({k: (after[k]["count"], after[k]["reclaimable"]) for k in after if k != "volumes"},
          {"images": (1, 0), "layers": (0, 0), "rendered": (0, 0), "pods": (1, 0), "logs": (1, 0), "downloads": (0, 0)})
    equal(after["volumes"]["count"], 2, "volumes, which were not named")
    equal(host.state(running), "running")
    equal([r["id"] for r in prune(host, "--force", "volumes")], ["idle"])
    equal(df(host)["volumes"]["count"], 1)
    host.acnspawn("stop", running).expect(0)


@case
def parts_alone(host):
    fill(host)
    equal(kinds(prune(host, "--force", "pods")), ["pod"])
    equal(kinds(prune(host, "--force", "downloads")), ["download"])
    equal(kinds(prune(host, "--dry-run", "volumes", "all")), ["image", "volume"])
    equal(kinds(prune(host, "--force", "images")), ["image"])
    equal(prune(host, "--force"), [])
    host.acnspawn("stop", "running").expect(0)


@case
def prepared_pods_stay(host):
    """... and their images."""
    host.prepare("--name=p", host.shell("true", name="example.com/a"))
    equal(prune(host, "--force"), [])
    host.acnspawn("run", "p").expect(0)


@case
def it_asks_on_a_terminal(host):
    host.run("--name=p", host.shell("true", name="example.com/a"))
    t = Terminal(host, "prune", "pods")
    t.expect(b"Remove all of that? [y/N]")
    true(b"pod" in t.text and b" p " in t.text, "the pod is shown: %r" % t.text)
    t.send(b"n\n")
    equal(t.end(), 1)
    true(b"Nothing was removed." in t.text, "that is said: %r" % t.text)
    equal(df(host)["pods"]["count"], 1)
    t = Terminal(host, "prune", "pods")
    t.expect(b"Remove all of that? [y/N]")
    t.send(b"y\n")
    equal(t.end(), 0)
    true(b"This freed" in t.text, "that is said: %r" % t.text)
    equal(df(host)["pods"]["count"], 0)
    # Ranges of users that are of no pod any more may be those of other stores, whose test ends just now: that is asked, too.
    def says_nothing():
        t = Terminal(host, "prune", "pods")
        wait_for(lambda: (t.read(), t.process.poll() is not None or b"[y/N]" in t.text)[1], lambda: "the answer, after %r" % t.text)
        if b"[y/N]" not in t.text:
            equal(t.end(), 0)
            return b"Nothing to remove." in t.text
        true(b"uids" in t.text and b" p " not in t.text, "no pod is shown: %r" % t.text)
        t.send(b"n\n")
        equal(t.end(), 1)
        return False
    wait_for(says_nothing, "that there is nothing to remove")


@case
def elsewhere_it_needs_force(host):
    host.run("--name=p", host.shell("true", name="example.com/a"))
    for args in ("prune",), ("prune", "pods"), ("prune", "--json=short"):
        contains(host.acnspawn(*args).expect(2).err, "can only ask on a terminal: give --force to remove, or --dry-run")
    equal(df(host)["pods"]["count"], 1)


@case
def images_of_declared_pods_stay(host):
    """Also while no pod is made of them: by name, by a pod manifest, and with what they depend on."""
    declared, config = host.path("config/pods"), {"env": dict(os.environ, ACNSPAWN_CONFIG_DIR=host.path("config"))}
    os.makedirs(declared)
    base = host.acnspawn("fetch", host.image(name="example.com/base")).expect(0).out.strip()
    ids = {n: host.acnspawn("fetch", host.shell("true", name="example.com/" + n, **more)).expect(0).out.strip()
           for n, more in (("named", {"dependencies": [{"imageName": "example.com/base"}]}), ("listed", {}), ("idle", {}), ("masked", {}), ("mounted", {}), ("listed-volume", {}))}
    path, mounted = host.shell("true", name="example.com/file"), host.shell("true", name="example.com/mounted-file")
    with open(host.path("manifest"), "w") as f:
        json.dump({"acVersion": "0.8.11", "acKind": "PodManifest", "apps": [{"name": "a", "image": {"name": "example.com/listed"}}],
                   "volumes": [{"name": "l", "kind": "empty"}],
                   "annotations": [{"name": "acnspawn/volume/l", "value": "kind=image,source=example.com/listed-volume"}]}, f)
    for name, text in (("a", "[App a]\nImage=example.com/idle\nImage=example.com/named\n[App f]\nImage=%s\n[App x]\nImage=example.com/not-there\n" % path),
                       ("b", "[Pod]\nPodManifest=%s\nVolume=m,kind=image,source=example.com/mounted,subpath=bin f,kind=image,source=%s\n" % (host.path("manifest"), mounted))):
        with open(os.path.join(declared, name + ".pod"), "w") as f:
            f.write(text)
    os.symlink("/dev/null", os.path.join(declared, "masked.pod"))
    run = lambda *args: json.loads(host.acnspawn(*args, **config).expect(0).out)
    images = lambda rows: sorted(r["id"] for r in rows if r["kind"] in ("image", "images"))
    files = [host.acnspawn("fetch", p).expect(0).out.strip() for p in (path, mounted)]
    unneeded = images(run("prune", "--json", "--dry-run"))
    true(ids["idle"] in unneeded and ids["masked"] in unneeded, "prune would remove %s" % unneeded)
    true(not {base, *files, *(ids[n] for n in ("named", "listed", "mounted", "listed-volume"))} & set(unneeded), "prune would remove %s" % unneeded)
    equal(images(r for r in run("df", "--verbose", "--json") if r["reclaimable"]), unneeded)
    equal(images(run("image", "gc", "--grace-period=0", "--json", "--dry-run")), unneeded)
    equal(images(run("prune", "--json", "--force", "images")), unneeded)
    equal(sorted(os.listdir(os.path.join(host.dir, "images"))), sorted([base, *files, ids["named"], ids["listed"], ids["mounted"], ids["listed-volume"]]))
    # Also while the file is not there, as on a file system that is not mounted now.
    os.rename(path, path + "-away")
    equal(images(run("prune", "--json", "--dry-run")), [])
    # Not without the files, and never by accident.
    os.rename(os.path.join(declared, "a.pod"), os.path.join(declared, "a.pod.x"))
    os.mkdir(os.path.join(declared, "a.pod"))
    contains(host.acnspawn("prune", "--force", "images", **config).expect(1).err, "Cannot find out which images declared pods need")
    os.rmdir(os.path.join(declared, "a.pod"))
    equal(images(run("prune", "--json", "--force", "images")), sorted([base, files[0], ids["named"]]))


def declare(host, **pods):
    """Files of pods by their names; the environment with which acnspawn finds them."""
    os.makedirs(host.path("config/pods"), exist_ok=True)
    for name, text in pods.items():
        with open(host.path("config/pods/%s.pod" % name), "w") as f:
            f.write(text)
    return {"env": dict(os.environ, ACNSPAWN_CONFIG_DIR=host.path("config"))}


def make_volumes(host, *names):
    for name in names:
        host.acnspawn("volume", "create", name).expect(0)


def volumes(host):
    return sorted(os.listdir(os.path.join(host.dir, "volumes")))


@case
def volumes_of_declared_pods_stay(host):
    """In whatever form a file names them, while the pods do not run and nothing in the store says that they use them."""
    make_volumes(host, "by-source", "by-name", "of-only-app", "of-app", "of-manifest", "idle")
    with open(host.path("manifest"), "w") as f:
        json.dump({"acVersion": "0.8.11", "acKind": "PodManifest", "apps": [{"name": "a", "image": {"name": "example.com/x"}}],
                   "volumes": [{"name": "l", "kind": "empty"}],
                   "annotations": [{"name": "acnspawn/volume/l", "value": "kind=named,source=of-manifest"}]}, f)
    config = declare(host, a="[Pod]\nVolume=v,kind=named,source=by-source by-name,kind=named\n[App a]\nImage=example.com/x\nVolume=of-app:/data\n",
                     b="[Pod]\nVolume=of-only-app:/data\n[App a]\nImage=example.com/x\n", c="[Pod]\nPodManifest=%s\n" % host.path("manifest"))
    run = lambda *args: json.loads(host.acnspawn(*args, **config).expect(0).out)
    reclaimable = lambda: [r["id"] for r in run("df", "--verbose", "--json") if r["kind"] == "volumes" and r["reclaimable"]]
    kept = ["by-name", "by-source", "of-app", "of-manifest", "of-only-app"]
    equal(reclaimable(), ["idle"])
    equal([r["name"] for r in run("volume", "prune", "--dry-run", "--json")], ["idle"])
    equal([r["id"] for r in run("prune", "--dry-run", "--json", "volumes")], ["idle"])
    equal([r["id"] for r in run("prune", "--force", "--json", "volumes")], ["idle"])
    equal(run("volume", "prune", "--json"), [])
    equal(volumes(host), kept)
    # Where a file has a mistake the names of its volumes are not known, and nothing is removed; other kinds are.
    for text, why in (("[Pod]\nVolume=by-name,kind=nmaed\n[App a]\nImage=example.com/x\n", "b.pod:2:"), ("[App a\nImage=example.com/x\n", "b.pod: "),
                      ("[Pod]\nPodManifest=/nonexistent\n", "/nonexistent")):
        declare(host, b=text)
        for verb in ("prune", "--force", "volumes"), ("prune", "--force", "volumes", "pods"), ("volume", "prune"):
            r = host.acnspawn(*verb, **config).expect(1)
            contains(r.err, "Cannot find out which volumes declared pods use: ")
            contains(r.err, why)
        contains(host.acnspawn("df", **config).expect(0).err, "Cannot find out which volumes declared pods use: ")
        equal(reclaimable(), [])
        run("prune", "--force", "--json", "pods")
        equal(volumes(host), kept)
    for name in "a", "b", "c":
        os.unlink(host.path("config/pods/%s.pod" % name))
    equal(sorted(r["id"] for r in run("prune", "--force", "--json", "volumes")), kept)


@case
def what_an_empty_file_may_have_declared_stays(host):
    """An editor or a loss of power may have emptied it. A link to /dev/null masks the pod, and its volumes go."""
    make_volumes(host, "data", "more")
    image = host.acnspawn("fetch", host.shell("true", name="example.com/a")).expect(0).out.strip()
    config, pods = declare(host, web="[Pod]\nVolume=data:/data\n[App a]\nImage=example.com/a\n"), host.path("config/pods")
    web, drop_in = os.path.join(pods, "web.pod"), os.path.join(pods, "web.pod.d/more.conf")
    os.mkdir(os.path.dirname(drop_in))
    for path, text in (drop_in, "[Pod]\nVolume=more:/more\n"), (web, open(web).read()):
        with open(path, "w"):
            pass
        for verb in ("volume", "prune"), ("prune", "--force"), ("image", "gc", "--grace-period=0"):
            r = host.acnspawn(*verb, **config).expect(1)
            contains(r.err, "'%s' is empty" % path)
            contains(r.err, "A link to /dev/null masks")
        with open(path, "w") as f:
            f.write(text)
        equal(host.acnspawn("volume", "prune", **config).expect(0).out, "")
    with open(web, "w"):
        pass
    contains(host.acnspawn("run", "--declared=web", **config).expect(1).err, "Pod 'web' is masked: '%s' is empty" % web)
    os.unlink(web)
    os.symlink("/dev/null", web)
    contains(host.acnspawn("volume", "prune", **config).expect(0).out, "data")
    host.acnspawn("image", "rm", image).expect(0)


@case
def what_links_that_lead_nowhere_declare_stays(host):
    """The file system with the declarations may not be mounted now: that is not none."""
    make_volumes(host, "data")
    image = host.acnspawn("fetch", host.shell("true", name="example.com/a")).expect(0).out.strip()
    config, pods = declare(host, web="[Pod]\nVolume=data:/data\n[App a]\nImage=example.com/a\n"), host.path("config/pods")
    web, away = os.path.join(pods, "web.pod"), host.path("away")

    def behind_a_link(path, said="a link that leads to nothing"):
        os.rename(path, away)
        os.symlink(host.path("gone"), path)
        for verb in ("volume", "prune"), ("prune", "--force"), ("image", "gc", "--grace-period=0"), ("run", "--declared=web"):
            contains(host.acnspawn(*verb, **config).expect(1).err, said)
        contains(host.acnspawn("pod", "list", **config).err, said)
        os.unlink(path)
        os.rename(away, path)

    behind_a_link(web)
    behind_a_link(pods)
    behind_a_link(os.path.dirname(pods), os.path.dirname(pods))
    os.mkdir(web + ".d")
    behind_a_link(web + ".d")
    with open(web + ".d/1.conf", "w") as f:
        f.write("[Pod]\n")
    behind_a_link(web + ".d/1.conf")
    for verb in ("volume", "prune"), ("prune", "--force"), ("image", "gc", "--grace-period=0"), ("run", "--declared=web"), ("pod", "list"):
        contains(host.acnspawn("--config-dir=" + host.path("gone"), *verb).expect(1).err, "Cannot open the configuration directory")
    equal(volumes(host), ["data"])
    equal(os.listdir(os.path.join(host.dir, "images")), [image])


@case
def volumes_of_a_pod_that_is_being_prepared_stay(host):
    """While its image is fetched the pod has no manifest: here the image comes from a pipe."""
    make_volumes(host, "data", "more", "idle")
    with open(os.path.join(host.dir, "volumes/data/data/precious"), "w") as f:
        f.write("words")
    image = open(host.shell("cat /data/precious", name="example.com/a"), "rb").read()
    p = subprocess.Popen(host.argv("run", "--rm", "--volume=m,kind=named,source=more", "-", "--volume=data:/data"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    host.children.append(p)
    p.stdin.write(image[:100])
    p.stdin.flush()
    wait_for(lambda: os.listdir(os.path.join(host.dir, "pods/preparing")) and os.listdir(os.path.join(host.dir, "tmp")), "the pod that is being prepared")
    equal([r["id"] for r in prune(host, "--force", "volumes")], ["idle"])
    contains(host.acnspawn("volume", "rm", "data").expect(1).err, "is used by the pod")
    out, err = p.communicate(image[100:], patience(60))
    equal((p.returncode, out), (0, b"words"), "the pod, which says %r" % err)
    equal([r["id"] for r in prune(host, "--force", "volumes")], ["data", "more"])


@case
def what_was_shown_is_removed(host):
    """... and nothing that can be removed only since."""
    make_volumes(host, "shown", "declared")
    config = declare(host, x="[App a]\nImage=example.com/x\n")
    os.environ["ACNSPAWN_CONFIG_DIR"] = config["env"]["ACNSPAWN_CONFIG_DIR"]
    try:
        host.acnspawn("fetch", host.shell("true", name="example.com/a")).expect(0)
        host.prepare("--name=shown", "example.com/a")
        host.prepare("--name=later", "--volume=used:/data", "example.com/a")
        host.run("shown")
        t = Terminal(host, "prune", "all", "volumes")
        t.expect(b"Remove all of that? [y/N]")
        host.run("later")
        host.acnspawn("rm", "later").expect(0)
        host.run("--name=last", "example.com/a")
        idle = host.acnspawn("fetch", host.image(name="example.com/idle")).expect(0).out.strip()
        make_volumes(host, "new")
        declare(host, y="[App a]\nImage=example.com/x\nVolume=declared:/data\n")
        download(host)
        t.send(b"y\n")
        equal(t.end(), 0)
        equal(volumes(host), ["declared", "new", "used"])
        equal([r["name"] for r in objects(host) if r["kind"] == "pods"], ["last"])
        true(idle in os.listdir(os.path.join(host.dir, "images")), "the new image stays")
        equal(df(host)["downloads"]["count"], 2)
    finally:
        del os.environ["ACNSPAWN_CONFIG_DIR"]


@contextlib.contextmanager
def unreadable(path):
    """Reading the file at PATH fails with EIO, as this process has nothing at its address 0."""
    subprocess.run(["mount", "--bind", "/proc/%d/mem" % os.getpid(), path], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", path], check=True)


@case
def what_cannot_be_found_out_is_not_unneeded(host):
    """A mistake in registries.d, or a bad block: the images of declared pods stay, and what says where they came from."""
    ids = {n: host.acnspawn("fetch", host.shell("true", name="example.com/" + n, **more)).expect(0).out.strip()
           for n, more in (("base", {}), ("named", {"dependencies": [{"imageName": "example.com/base"}]}), ("pulled", {}), ("idle", {}))}
    place = "docker://registry.example.com/app:latest"
    os.makedirs(os.path.join(host.dir, "remotes"), exist_ok=True)
    record = os.path.join(host.dir, "remotes", hashlib.sha256(place.encode()).hexdigest())
    with open(record, "w") as f:
        json.dump({"url": place, "image": ids["pulled"]}, f)
    os.utime(record, (0, 0))
    config = declare(host, a="[App a]\nImage=docker://registry.example.com/app\n[App b]\nImage=example.com/named\n")
    images = lambda: sorted(os.listdir(os.path.join(host.dir, "images")))
    gc, all_of = ("image", "gc", "--grace-period=0"), sorted(ids.values())

    def refused(*words):
        for verb in gc, ("prune", "--force", "images"):
            r = host.acnspawn(*verb, **config).expect(1)
            for word in words:
                contains(r.err, word)
        equal(images(), all_of)
        true(os.path.exists(record), "the record stays")

    os.mkdir(host.path("config/registries.d"))
    with open(host.path("config/registries.d/x.conf"), "w") as f:
        f.write("[[registry\n")
    refused("Cannot find out which images declared pods need", "x.conf")
    os.unlink(host.path("config/registries.d/x.conf"))
    with unreadable(record):
        refused("Cannot find out which images declared pods need", "Input/output error")
        host.acnspawn("gc", **config).expect(0)
    true(os.path.exists(record), "the record stays")
    # An image that cannot be read may need others.
    with unreadable(os.path.join(host.dir, "images", ids["named"], "manifest")):
        r = host.acnspawn(*gc, **config).expect(1)
        contains(r.err, "the image %s cannot be read: Input/output error" % ids["named"])
    equal(images(), all_of)
    # A damaged one is kept, and nothing else.
    with open(os.path.join(host.dir, "images", ids["pulled"], "manifest"), "r+") as f:
        text = f.read()
        f.truncate(0)
    host.acnspawn(*gc, "--dry-run", **config).expect(0)
    host.acnspawn("df", **config).expect(0)
    true(ids["pulled"] not in host.acnspawn("prune", "--dry-run", "images", **config).expect(0).out, "it stays")
    with open(os.path.join(host.dir, "images", ids["pulled"], "manifest"), "w") as f:
        f.write(text)
    declare(host, m="[Pod]\nPodManifest=%s\n" % host.path("config"))  # which is no file
    refused("Cannot find out which images declared pods need")
    os.unlink(host.path("config/pods/m.pod"))
    host.acnspawn(*gc, **config).expect(0)
    equal(images(), sorted(ids[n] for n in ("base", "named", "pulled")))


@case
def the_image_of_a_pod_that_cannot_be_read_stays(host):
    """It may be that of an enabled unit. And df shows sizes, though it is not known which pods and images units need."""
    os.makedirs(host.path("units/multi-user.target.wants"))
    config = {"env": dict(os.environ, SYSTEMD_UNIT_PATH=host.path("units"))}
    image = host.acnspawn("fetch", host.shell("true", name="example.com/a")).expect(0).out.strip()
    uuid = host.prepare("--name=p", "example.com/a")
    host.run("p")
    os.symlink("/lib/systemd/system/acnspawn@.service", host.path("units/multi-user.target.wants/acnspawn@p.service"))
    for name in "config", "pod":
        with unreadable(os.path.join(host.pod_dir(uuid), name)):
            contains(host.acnspawn("image", "gc", "--grace-period=0", **config).expect(1).err, "Cannot read '%s' of pod" % name)
            host.acnspawn("gc", "--grace-period=0", **config).expect(1)
    equal(os.listdir(os.path.join(host.dir, "images")), [image])
    host.pod_dir(uuid) # it is there
    os.unlink(host.path("units/multi-user.target.wants/acnspawn@p.service"))
    marked = lambda: {r["kind"] for r in json.loads(host.acnspawn("df", "--verbose", "--json", **config).expect(0).out) if r["reclaimable"]}
    equal(marked(), {"images", "pods", "logs"})
    os.symlink("loop.wants", host.path("units/loop.wants"))
    contains(host.acnspawn("df", **config).expect(0).err, "Cannot find out which pods units of the host need")
    equal(marked(), set())


@case
def a_pod_that_is_pruned_when_it_has_ended_keeps_its_status(host):
    """Of "run --rm", which removes the pod itself, a prune beside it can be quicker."""
    host.acnspawn("fetch", host.shell("exit 0", name="example.com/a")).expect(0)
    host.prepare("--name=keeps-the-image", "example.com/a")
    results = []
    for _ in range(10):
        running = [host.start("run", "--rm", "example.com/a") for _ in range(2)]
        while any(p.poll() is None for p in running):
            host.acnspawn("prune", "--force", "pods")
        results += [(p.returncode, p.stderr.read()) for p in running]
    equal(set(results), {(0, b"")})


main()
