#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-build(1), sentence by sentence: build and validate."""

from manual import *

PAGE = page("acnspawn-build.1", "d59a91dda1e9c3fb")


@once
def layout(host):
    os.makedirs(host.path("layout/rootfs/bin"))
    with open(host.path("layout/rootfs/bin/app"), "w") as f:
        f.write("#!\n")
    os.chown(host.path("layout/rootfs/bin/app"), 7, 8)
    labels = [{"name": "version", "value": "1.0.0"}, {"name": "os", "value": "linux"}, {"name": "arch", "value": "amd64"}]
    with open(host.path("layout/manifest"), "w") as f:
        json.dump(image_manifest("example.com/reduce-worker", {"exec": ["/bin/app"], "user": "0", "group": "0"}, labels=labels), f, indent=1)
    return host.path("layout")


def build(host, *args, rc=0, **more):
    return host.acnspawn("build", *args, layout(host), **more).expect(rc)


@sentence("build", "a directory that contains the file manifest and the directory rootfs and nothing else, and prints its ID.")
@sentence("build", "named by the last part of its name and its labels version, os and arch: reduce-worker-1.0.0-linux-amd64.aci.")
@sentence("build", "The image contains the manifest, byte for byte,")
@sentence("COMMANDS", "Neither needs root or a store.")
def an_image_of_a_layout(host):
    os.makedirs(host.path("here"))
    id = build(host, cwd=host.path("here")).out.strip()
    true(not os.path.exists(host.dir), "a store was made")
    equal(os.listdir(host.path("here")), ["reduce-worker-1.0.0-linux-amd64.aci"])
    with tarfile.open(host.path("here/reduce-worker-1.0.0-linux-amd64.aci"), "r:gz") as tar:
        equal(tar.extractfile("manifest").read().decode(), read_text(layout(host) + "/manifest"))
    equal(host.acnspawn("fetch", host.path("here/reduce-worker-1.0.0-linux-amd64.aci")).expect(0).out.strip(), id)
    with open(layout(host) + "/other", "w"):
        build(host, "-o", host.path("other.aci"), rc=1)
    os.unlink(layout(host) + "/other")


@sentence("build", "Builds are reproducible: the same layout always results in the same image.")
@sentence("build", "--compression=none|gzip|bzip2|xz|zstd How the image is compressed (default: gzip). The ID does not depend on it.")
@sentence("build", "- is standard output, which must not be a terminal, and the ID is then printed to standard error.")
@sentence("build", "-f, --force Replace an existing image of that name,")
def the_same_by_any_compression(host):
    ids = {build(host, "--output=" + host.path(kind + ".aci"), "--compression=" + kind).out for kind in ("none", "gzip", "bzip2", "xz", "zstd")}
    equal(len(ids), 1, "number of IDs")
    build(host, "--output=" + host.path("none.aci"), rc=1)
    build(host, "-f", "--output=" + host.path("none.aci"))
    r = build(host, "-o", "-")
    contains(r.err, ids.pop().strip())
    equal(r.out_bytes[:2], b"\x1f\x8b")
    build(host, "-o", "-", "--compression=lz4", rc=2)


@sentence("build", "If SOURCE_DATE_EPOCH is set, later times are replaced by it,")
@sentence("build", "--owner-root Everything in the image is owned by user and group 0, whatever the owner in the layout.")
def times_and_owners(host):
    for words, owner in ((), (7, 8)), (("--owner-root",), (0, 0)):
        out = build(host, "-o", "-", "--compression=none", *words, env={**os.environ, "SOURCE_DATE_EPOCH": "9"}).out_bytes
        with tarfile.open(fileobj=io.BytesIO(out)) as tar:
            m = tar.getmember("rootfs/bin/app")
            equal((m.uid, m.gid), owner)
            true(max(x.mtime for x in tar.getmembers()) <= 9, "times")


@sentence("build", "The manifest is checked first; if it is not valid, all findings are shown and nothing is written.")
@sentence("validate", "Checks manifests, images and layouts, and prints every finding with its place in the document.")
@sentence("validate", "Keys of a manifest that the specification does not have are ignored, with a warning.")
@sentence("validate", "--strict Treat warnings as findings:")
@sentence("validate", "- reads standard input. Writes nothing.")
@sentence("EXIT STATUS", "validate exits with 0 if all files are valid, else with 1.")
@sentence("EXAMPLES", "$ acnspawn validate layout/manifest")
def findings(host):
    good = read_text(layout(host) + "/manifest")
    host.acnspawn("validate", layout(host) + "/manifest", layout(host), env={**os.environ, "PATH": os.environ["PATH"]}).expect(0)
    bad = json.loads(good)
    bad["name"], bad["app"]["exec"] = "Not A Name", 5
    os.rename(layout(host) + "/manifest", host.path("good"))
    with open(layout(host) + "/manifest", "w") as f:
        json.dump(bad, f)
    for r in build(host, "-o", host.path("bad.aci"), rc=1), host.acnspawn("validate", layout(host) + "/manifest").expect(1):
        for word in "name", "exec":
            contains(r.out + r.err, word)
    true(not os.path.exists(host.path("bad.aci")), "an image was written")
    os.rename(host.path("good"), layout(host) + "/manifest")
    odd = {**json.loads(good), "unknownKey": 1}
    text = json.dumps(odd).encode()
    r = host.acnspawn("validate", "-", input=text).expect(0)
    contains(r.out + r.err, "unknownKey")
    host.acnspawn("validate", "--strict", "-", input=text).expect(1)
    host.acnspawn("validate", layout(host) + "/manifest", host.path("nothing")).expect(1)


elsewhere(
    ("build", "The image appears complete or not at all.", "build/killed_or_interrupted_leaves_nothing"),
    ("build", "of each file its name, content, type, owner and group by number, mode, modification time in whole seconds, extended attributes and ACLs; hard links are kept.",
     "build/everything_of_a_file_arrives"),
    ("build", "Sockets, overlay whiteouts and attributes of overlayfs are refused,", "unit/pack/refused"),
    ("build", "and so is a file that changes while it is read.", "build/changes_during_the_build_are_noticed"),
    ("build", "Users other than root can build as well, from files that they can read;", "build/without_root"),
    ("build", "--one-file-system Leave directories empty on which other file systems are mounted.", "build/one_file_system"),
    ("build", "--sign[=KEY] Also write a signature to FILE.aci.asc, by the user's own key with this fingerprint or address, or by gpg's default key.", "build/signed_and_encrypted"),
    ("build", "--encrypt=FILE Encrypt the image, after compressing it, by AES with the passphrase in FILE.", "build/signed_and_encrypted"),
    ("build", "and its signature: an old signature is removed.", "build/nothing_is_replaced_unless_forced"),
    ("validate", "The kind of a file is recognized by its content:", "build/oci_layouts_and_archives"),
    ("validate", "For a pod manifest it also reports errors that prepare would report, as far as they do not depend on images or on the host.",
     "privileges/validate_finds_what_prepare_refuses"),
    ("validate", "Privileges that an image requests beyond the defaults (see ISOLATORS in acnspawn-pods(7)) are reported with the option that grants them; the image is still valid, and in "
                 "JSON the severity of such a finding is notice instead of error.", "privileges/it_is_shown_by_validate"),
    ("validate", "--passphrase-file=FILE Decrypt encrypted images with the passphrase in FILE.", "build/signed_and_encrypted"),
    ("validate", "and paths of pathWhitelist without a leading slash.", "build/whitelists_without_a_leading_slash"),
    ("EXAMPLES", "$ acnspawn build --owner-root --sign -o web.aci layout/ $ acnspawn validate web.aci", "build/signed_and_encrypted"),
)

main()
