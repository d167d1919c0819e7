#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Volumes that are images."""

from harness import *

TOOL = "example.com/tool"
FILES = {"tool": File("#!/bin/sh\necho ran\n", mode=0o755), "share/a/text": "one\n", "share/link": Link("/share/a"),
         "out": Link("../../etc"), "etc/own": "of the image\n", "owned": File("x", uid=7, gid=8), "suid": File("x", mode=0o4755), "fifo": Fifo()}


def tool(host, **files):
    return host.image(name=TOOL, base=False, files={**FILES, **files})


def volume(image, *settings):
    return "--volume=" + ",".join(["v", "kind=image", "source=" + image, *settings])


def fetched(host, image):
    return host.acnspawn("fetch", image).expect(0).out.strip()


@case
def image_is_read_only_in_a_pod(host):
    script = ("cat /v/share/a/text; /v/tool; touch /v/x 2>/dev/null || echo refused; stat -c '%u %g' /v/owned; "
              "sed -n 's/.* \\/v \\([^ ]*\\) .*/\\1/p' /proc/self/mountinfo")
    app = host.shell(script, name="example.com/app")
    r = host.run(volume(tool(host)), app, "--mount=v:/v")
    lines = r.out.splitlines()
    equal(lines[:4], ["one", "ran", "refused", "7 8"])
    for word in ("ro", "nosuid", "nodev"):
        contains(lines[4].split(","), word)
    # By its name, and in all apps; programs in it need not be executable.
    r = host.run(volume(TOOL, "exec=false"), "--mount=v:/v:ro", host.shell("cat /v/share/a/text; /v/tool 2>/dev/null || echo refused"))
    equal(r.out, "one\nrefused\n")


@case
def part_of_an_image(host):
    app = host.shell("cat /v/text /v/own 2>/dev/null; test -f /v && cat /v", name="example.com/app")
    image = fetched(host, tool(host))
    for path, text in (("share/a", "one\n"), ("share/link", "one\n"), ("share/a/text", "one\n"), ("out", "of the image\n"), ("./etc/", "of the image\n")):
        equal(host.acnspawn("run", volume(image, "subpath=" + path), app, "--mount=v:/v").out, text, path)
    for path, message in (("share/none", "Volume 'v' cannot be 'share/none' in the image %s: No such file or directory" % image),
                          ("fifo", "it is neither a directory nor a regular file")):
        contains(host.acnspawn("prepare", volume(image, "subpath=" + path), app, "--mount=v:/v").expect(1).err, message)
    contains(host.acnspawn("prepare", volume(image, "subpath=../etc"), app, "--mount=v:/v").expect(2).err, "relative and without '..'")
    equal(host.pods(), [p for p in host.pods() if "/prepared/" not in p and "/preparing/" not in p], "pods that were refused")


@case
def image_of_several_layers(host):
    """A file that is replaced, and one that the lower layer has."""
    tool(host)
    image = host.image(name="example.com/upper", base=False, files={"share/a/text": "two\n", "more": "more\n"},
                       dependencies=[{"imageName": TOOL}])
    host.acnspawn("fetch", host.path("1.aci")).expect(0)
    app = host.shell("cat /v/share/a/text /v/more /v/etc/own; cat /w", name="example.com/app")
    r = host.run(volume(image), "--volume=w,kind=image,source=%s,subpath=share/a/text" % TOOL, app, "--mount=v:/v", "--mount=w:/w")
    equal(r.out, "two\nmore\nof the image\none\n")


@case
def image_that_is_missing(host):
    r = host.acnspawn("prepare", volume("example.com/none:1\\,arch=none"), host.shell("true"), "--mount=v:/v").expect(1)
    contains(r.err, "Volume 'v'")
    contains(r.err, "example.com/none")


@case
def image_in_use_is_kept(host):
    image = fetched(host, tool(host))
    uuid = host.prepare("--name=user", volume(image, "subpath=share"), host.shell("cat /v/a/text; sleep 600", name="example.com/app"), "--mount=v:/v")
    manifest = json.loads(host.acnspawn("cat-manifest", uuid).expect(0).out)
    equal(manifest["annotations"], [{"name": "acnspawn/volume/v", "value": "kind=image,source=%s,subpath=share" % image}])
    contains(host.acnspawn("image", "rm", image).expect(1).err, "is needed by the pod")
    host.acnspawn("prune", "--force", "images").expect(0)
    host.acnspawn("run", "--detach", uuid).expect(0)
    wait_for(lambda: "one" in host.acnspawn("logs", uuid).out, "the output of the app")
    contains(host.acnspawn("image", "rm", image).expect(1).err, "is needed by the pod")
    volumes = json.loads(host.acnspawn("status", "--json", uuid).expect(0).out)["volumes"]
    equal((volumes[0]["kind"], volumes[0]["source"], volumes[0]["readOnly"]), ("image", image + ":share", True))
    contains(host.acnspawn("status", uuid).expect(0).out, "v: image %s:share, read-only" % image)
    host.acnspawn("stop", uuid).expect(0)
    host.acnspawn("rm", uuid).expect(0)
    host.acnspawn("image", "rm", image).expect(0)


@case
def volumes_of_a_pod_manifest(host):
    tool(host)
    host.acnspawn("fetch", host.path("1.aci")).expect(0)
    name = "example.com/app"
    host.acnspawn("fetch", host.shell("cat /v/text", name=name)).expect(0)
    manifest = {"acKind": "PodManifest", "acVersion": "0.8.11", "volumes": [{"name": "v", "kind": "empty"}],
                "annotations": [{"name": "acnspawn/volume/v", "value": "kind=image,source=%s,subpath=share/a" % TOOL}],
                "apps": [{"name": "a", "image": {"name": name}, "mounts": [{"volume": "v", "path": "/v"}]}]}
    with open(host.path("pod.json"), "w") as f:
        json.dump(manifest, f)
    equal(host.run("--pod-manifest=" + host.path("pod.json")).out, "one\n")
    manifest["volumes"][0]["readOnly"] = False
    with open(host.path("pod.json"), "w") as f:
        json.dump(manifest, f)
    contains(host.acnspawn("prepare", "--pod-manifest=" + host.path("pod.json")).expect(1).err, "Volume 'v' is an image, and cannot be writable")


main()
