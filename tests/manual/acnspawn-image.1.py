#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-image(1), sentence by sentence."""

from manual import *

PAGE = page("acnspawn-image.1", "40ef56824ce95d8c")


@once
def ids(host):
    """Small images: web, which db depends on, and one that a pod needs."""
    found = {}
    for name, more in ("web", {"annotations": [{"name": "tier", "value": "front"}]}), ("used", {}), ("idle", {}):
        path = host.image(name="example.com/" + name, base=False, files={"etc": Dir(), "etc/name": File(name), "suid": File("x", 0o4755)}, **more)
        found[name] = host.acnspawn("fetch", path).expect(0).out.strip()
    path = host.image(name="example.com/db", base=False, dependencies=[{"imageName": "example.com/web"}])
    found["db"] = host.acnspawn("fetch", path).expect(0).out.strip()
    host.prepare("--name=site", "example.com/used")
    return found


def image(host, *args, rc=0, **more):
    ids(host)
    return host.acnspawn("image", *args, **more).expect(rc)


@sentence("DESCRIPTION", "These commands work on images that are in the store, and fetch nothing. An IMAGE is named by its ID or a prefix of it, by its name and labels, or by "
                         "what it was fetched as;")
def names_of_images(host):
    for word in ids(host)["web"], ids(host)["web"][:19], "example.com/web", "example.com/web:1,os=linux":
        contains(image(host, "show", word).out, "example.com/web")
    image(host, "show", "example.com/nothing", rc=1)


@sentence("image list", "Lists the images in the store, by name and version.")
@sentence("image list", "Only images that match: name= with a pattern for the name, with or without :VERSION, or the ID; label=NAME[=VALUE]; annotation=NAME[=VALUE].")
@sentence("image list", "The fields are id, name, version, labels, size, imported and lastUsed.")
def lists(host):
    names = lambda *args: image(host, "list", "--format={name}", *args).out.split()
    equal(names(), ["example.com/" + n for n in ("db", "idle", "used", "web")])
    for words, expected in ("name=*web", ["web"]), ("name=*:1", ["db", "idle", "used", "web"]), ("name=" + ids(host)["db"], ["db"]), ("label=os=linux", ["db", "idle", "used", "web"]), \
            ("annotation=tier", ["web"]), ("annotation=tier=back", []):
        equal(names("-f", words), ["example.com/" + n for n in expected], words)
    rows = json.loads(image(host, "list", "--json", "--format=id,name,version,labels,size,imported,lastUsed").out)
    equal(set(rows[0]), set("id name version labels size imported lastUsed".split()))


@sentence("image show", "their sizes, their dependencies and whether these are in the store, their layers, and the pods that use them.")
@sentence("image cat-manifest", "Shows the manifest of an image, byte for byte.")
def details(host):
    contains(image(host, "show", "example.com/db").out, "example.com/web")
    contains(image(host, "show", "example.com/used").out, os.path.basename(host.one_pod()))
    with open(os.path.join(host.dir, "images", ids(host)["web"], "manifest"), "rb") as f:
        equal(image(host, "cat-manifest", "example.com/web").out_bytes, f.read())


@sentence("image verify", "Compares every file of the images (default: all), and of their layers, with the record made when they were unpacked")
@sentence("image verify", "Prints the path and what differs, at most 100 differences per image, and exits with 1 if there is any.")
def damage_is_found(host):
    for words in (), ("all",), ("example.com/web",):
        image(host, "verify", *words)
    path = os.path.join(host.dir, "images", ids(host)["idle"], "rootfs/etc/name")
    with open(path, "a") as f:
        f.write("!")
    contains(image(host, "verify", rc=1).out, "etc/name")
    with open(path, "w") as f:
        f.write("idle")


@sentence("image export", "Before compression it is the same byte for byte, so it has the same ID.")
@sentence("image export", "-o FILE, --output=FILE Write to FILE instead of standard output. The file appears when it is complete; an existing file is not replaced.")
@sentence("image export", "--compression=KIND none (default), gzip, bzip2, xz or zstd. -f, --force Replace FILE if it exists.")
def exports(host):
    out = image(host, "export", "example.com/web").out_bytes
    with open(host.path("1.aci"), "rb") as f:
        equal(out, f.read())
    image(host, "export", "example.com/web", "-o", host.path("web.aci"))
    image(host, "export", "example.com/web", "--output=" + host.path("web.aci"), rc=1)
    image(host, "export", "example.com/web", "-f", "--compression=gzip", "-o", host.path("web.aci"))
    equal(host.acnspawn("fetch", host.path("web.aci")).expect(0).out.strip(), ids(host)["web"])
    image(host, "export", "example.com/web", "--compression=lz4", rc=2)


@sentence("image render", "Creates a new directory with the root that an app of the image would see: the image over its dependencies,")
@sentence("image render", "It belongs to the caller, with the mode 0700 whatever the image says: below it are files of any owner.")
@sentence("image render", "Set-user-ID and set-group-ID bits, file capabilities, ACLs, attributes other than those of users (user.*), and device nodes are left out, with a warning:")
@sentence("image render", "-a, --archive Keep these, too.")
def renders(host):
    for name, words, mode in ("plain", (), 0o755), ("archive", ("-a",), 0o4755):
        r = image(host, "render", *words, "example.com/db", host.path(name))
        equal("left out" in r.err or "warning" in r.err.lower(), not words, "warnings: %r" % r.err)
        equal(read_text(host.path(name, "etc/name")), "web")
        equal((os.stat(host.path(name)).st_mode & 0o7777, os.stat(host.path(name, "suid")).st_mode & 0o7777), (0o700, mode))
    image(host, "render", "example.com/db", host.path("plain"), rc=1)


@sentence("image rm", "Removes images, with all of their names, and prints their IDs. An image that a pod needs or another image depends on is kept, with a message that names what needs it.")
@sentence("image gc", "--grace-period=TIME Keep images that were used less than TIME ago (default: 24h). -n, --dry-run Only show what would be removed, and how much disk space that would free.")
@sentence("image gc", "Prints the removed objects with their disk space, and the sum to standard error.")
def images_are_removed(host):
    contains(image(host, "rm", "example.com/used", rc=1).err, os.path.basename(host.one_pod()))
    contains(image(host, "rm", "example.com/web", rc=1).err, "example.com/db")
    extra = host.acnspawn("fetch", host.image(name="example.com/extra", base=False)).expect(0).out.strip()
    equal(image(host, "rm", "example.com/extra").out.strip(), extra)
    lacks(image(host, "gc").out, ids(host)["idle"])
    dry = image(host, "gc", "--grace-period=0", "--dry-run")
    contains(dry.out, ids(host)["idle"])
    lacks(dry.out, ids(host)["used"])
    true(re.search(r"\d", dry.err), "the sum: %r" % dry.err)
    image(host, "show", "example.com/idle")
    contains(image(host, "gc", "--grace-period=0").out, ids(host)["idle"])
    image(host, "show", "example.com/idle", rc=1)
    image(host, "show", "example.com/used")


elsewhere(
    ("image list", "On a terminal IDs are shortened to twelve digits, and names are cut in the middle if the line would be too long.",
     "image-verbs/names_in_a_list_are_distinct_on_a_narrow_terminal"),
    ("image show", "the signer with the fingerprint of the key, when the image was signed and until when the signature is valid, and why the image is refused if it is not valid "
                   "any more;", "fetch/signer_not_trusted_any_more"),
    ("image verify", "content, owner, mode, extended attributes and ACLs, type, target of links, device numbers, missing and added files.",
     "image-verbs/every_alteration_is_found_and_named"),
    ("image verify", "For an OCI image, compares the hash of its config with the ID, and the list of its layers with the one that follows from the config.",
     "image-verbs/altered_list_and_config_of_an_oci_image"),
    ("image export", "The hash is checked while the archive is written; if the image was altered, no file is left.", "image-verbs/altered_image_is_not_exported"),
    ("image export", "An OCI image is written as an App Container image of one layer, always the same for the same image.", "image-verbs/oci_image_is_verified_and_exported"),
    ("image render", "The directory appears when it is complete.", "image-verbs/render_killed_at_any_moment"),
    ("image gc", "Removes images that were last used before the grace period and that neither a pod, also a declared one that does not run, nor another image needs; layers "
                 "without an image; and trees that were rendered from removed images.", "image-verbs/collected_when_unused_and_unneeded"),
    ("image gc", "Images of a pod that has ended are kept while cp or export reads it,", "files/a_pod_that_is_read_has_its_image_and_can_be_replaced"),
    ("image gc", "If a declaration, an image, the configuration of registries or the list of units cannot be read, nothing is removed, and the command fails.",
     "prune/what_cannot_be_found_out_is_not_unneeded"),
)

main()
