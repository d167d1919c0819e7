#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-cat(1), sentence by sentence."""

from manual import *

PAGE = page("acnspawn-cat.1", "51a5fe9c6f926a1e")


@once
def pod(host):
    return host.prepare("--name=site", host.shell("true", name="example.com/web"), "--volume=data:/data")


@sentence("cat", "Shows the units that were generated for a pod, or one of them, named with or without its suffix; the units of an app have its name.")
@sentence("EXAMPLES", "# acnspawn cat site # acnspawn cat site app-web.service")
def the_units_of_a_pod(host):
    pod(host)
    everything = host.acnspawn("cat", "site").expect(0).out
    one = host.acnspawn("cat", "site", "app-web.service").expect(0).out
    contains(everything, one.strip())
    contains(one, "[Service]")
    true(len(one) < len(everything), "one unit is all of them")
    contains(host.acnspawn("cat", "site", "app-web").expect(0).out, one)
    contains(host.acnspawn("cat", "site", "nothing").expect(1).err, "nothing")


@sentence("cat-manifest", "Shows the reified pod manifest, with the IDs of the resolved images and the chosen volumes.")
@sentence("EXAMPLES", "# acnspawn cat-manifest site | acnspawn prepare --name=copy --pod-manifest=-")
def the_manifest_of_a_pod(host):
    pod(host)
    text = host.acnspawn("cat-manifest", "site").expect(0).out_bytes
    manifest = json.loads(text)
    equal(manifest["acKind"], "PodManifest")
    true(manifest["apps"][0]["image"]["id"].startswith("sha512-"), "no ID of the image")
    equal(len(manifest["volumes"]), 1)
    host.acnspawn("prepare", "--name=copy", "--pod-manifest=-", input=text).expect(0)
    copy = json.loads(host.acnspawn("cat-manifest", "copy").expect(0).out)
    equal(copy["apps"][0]["image"], manifest["apps"][0]["image"])


main()
