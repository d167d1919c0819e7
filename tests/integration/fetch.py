#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Fetching images by name and URL: discovery, signatures, caching, dependencies, and the errors of each. web.py
provides the network."""

import base64
import pty
import select
import threading

from signed_web import *
from harness import _read

SIMPLE = "https://example.com/app-1.0-linux-%s.aci" % os_arch()


# --- Discovery ------------------------------------------------------------------------------------------------------------

@world
def simple_discovery(w):
    w.trust()
    data = w.image()
    w.publish(SIMPLE, data)
    r = w.fetch("example.com/app:1.0")
    equal(r.out, image_id(data) + "\n")
    equal(w.web.asked(), [SIMPLE + ".asc", SIMPLE], "requests")
    contains(r.err, "Fetching example.com/app:1.0\n")
    true(re.search(r"^Fetched example.com/app:1.0: [0-9.]+[KM]? in [0-9.]+s$", r.err, re.M), r.err)
    # An image in the store is not requested again.
    w.web.forget()
    r = w.fetch("example.com/app:1.0")
    equal((r.out, r.err, w.web.asked()), (image_id(data) + "\n", "", []))


@world
def meta_discovery(w):
    w.trust()
    data = w.image("example.com/team/app", "2.0", more_labels=[{"name": "channel", "value": "a b"}])
    w.page("https://example.com", ("ac-discovery", "example.com hdfs://x/{name}.{ext}"),
           ("ac-discovery", "example.org https://example.org/{name}.{ext}"),
           ("ac-discovery", "example.com https://img.example.com/{size}/{name}.{ext}"),
           ("ac-discovery", "example.com https://img.example.com/gone/{name}.{ext}"),
           ("ac-discovery", "example.com https://img.example.com/{os}/{arch}/{name}-{version}.{ext}?c={channel}"))
    url = "https://img.example.com/linux/%s/example.com/team/app-2.0.aci?c=a%%20b" % os_arch()
    w.web.put(url, data)
    w.web.put(url.replace(".aci?", ".aci.asc?"), w.key().sign(data))
    equal(w.fetch("example.com/team/app:2.0,channel=a b").out, image_id(data) + "\n")
    equal(w.web.asked("ac-discovery"), ["https://example.com/team/app?ac-discovery=1", "https://example.com/team?ac-discovery=1",
                                        "https://example.com/?ac-discovery=1"], "pages")


@world
def attempts_are_listed(w):
    w.page("https://example.com/app", ("ac-discovery", "example.com https://img.example.com/a/{name}.{ext}"),
           ("ac-discovery", "example.com https://img.example.com/b/{name}.{ext}"),
           ("ac-discovery", "example.com ftp://img.example.com/c/{name}.{ext}"))
    r = w.fetch("example.com/app", rc=1)
    for part in ("Cannot fetch the image example.com/app:\n", "/app-latest-linux-", "/a/example.com/app.aci.asc", "/b/example.com",
                 "ftp://img.example.com/c/{name}.{ext}: it is not an https URL"):
        contains(r.err, part)
    equal(r.err.count("Error:"), 1)
    w.nothing_left()


@world
def a_place_is_tried_once(w):
    w.page("https://example.com/app",
           ("ac-discovery", "example.com https://{name}-{version}-{os}-{arch}.{ext}"))  # the URL of simple discovery
    r = w.fetch("example.com/app", rc=1)
    equal(r.err.count("/app-latest-linux-"), 1, r.err)


@world
def a_host_that_does_not_answer_is_asked_once(w):
    w.web.dead.add("dead.example.com")
    r = w.fetch("dead.example.com/a/b/c/d", rc=1)
    contains(r.err, "dead.example.com")
    true(len(w.web.connects) <= 6, "%d connections" % len(w.web.connects))


@world
def no_host_no_network(w):
    r = w.fetch("app", rc=1)
    contains(r.err, "No image in the store")
    r = w.fetch("--pull-policy=update", "app", rc=1)
    with open(w.host.path("here"), "w"):
        r = w.fetch("here.img", rc=1)
    equal(w.web.connects, [c for c in w.web.connects if c.startswith("here.img")])
    with open(w.host.path("image.tar"), "wb") as f:
        f.write(w.image())
    r = w.fetch("image.tar", rc=1, cwd=w.host.tmp)
    contains(r.err, "write './image.tar'")


# --- Identity -------------------------------------------------------------------------------------------------------------

@world
def manifest_of_another_name(w):
    w.trust()
    w.publish(SIMPLE, w.image("example.com/other"))
    contains(w.fetch("example.com/app:1.0", rc=1).err, "it is example.com/other:1.0")
    w.publish(SIMPLE, w.image(version="1.1"))
    contains(w.fetch("example.com/app:1.0", rc=1).err, "it is example.com/app:1.1")
    w.nothing_left()


# --- Trust ----------------------------------------------------------------------------------------------------------------

@world
def signatures(w):
    data = w.image()
    w.publish(SIMPLE, data, signer=None)
    # None.
    r = w.fetch(SIMPLE, rc=1)
    contains(r.err, ".aci.asc")
    contains(r.err, "--insecure-options=signature")
    # By an unknown key: the image is not even requested.
    w.publish(SIMPLE, data)
    w.web.forget()
    r = w.fetch(SIMPLE, rc=1)
    contains(r.err, w.key().fingerprint)
    equal(w.web.asked(), [SIMPLE + ".asc"], "requests")
    # For another prefix.
    w.trust("example.com/apple")
    contains(w.fetch(SIMPLE, rc=1).err, w.key().fingerprint)
    # Of other bytes.
    w.trust()
    w.web.put(SIMPLE + ".asc", w.key().sign(data + b"x"))
    r = w.fetch(SIMPLE, rc=1)
    contains(r.err.lower(), "signature")
    # No signature at all.
    w.web.put(SIMPLE + ".asc", "<html>hello</html>")
    w.fetch(SIMPLE, rc=1)
    w.nothing_left()
    # As it should be.
    w.publish(SIMPLE, data)
    r = w.fetch("--json=short", SIMPLE)
    signer = json.loads(r.out)[0]["signer"]
    equal((signer["fingerprint"], signer["prefix"]), (w.key().fingerprint, "example.com"))
    equal(json.loads(w.run("--json=short", "image", "show", image_id(data)).out)[0]["signer"], signer, "the signer in image show")
    w.nothing_left(1)


@world
def web_pages_in_the_place_of_images(w):
    w.trust()
    page = b"\n <!DOCTYPE html><html><body>Please log in</body></html>"
    w.web.put(SIMPLE, page)
    w.web.put(SIMPLE + ".asc", page)
    for args in (SIMPLE,), ("--insecure-options=signature", SIMPLE):
        r = w.fetch(*args, rc=1)
        contains(r.err, "The server has sent a web page: check the URL")
    aci = w.host.path("page.aci")
    with open(aci, "wb") as f:
        f.write(page)
    contains(w.fetch(aci, rc=1).err, "It looks like a web page")
    contains(w.run("validate", aci, rc=1).out, "it looks like a web page")
    with open(aci, "wb") as f:
        f.write(w.image()[:700])
    contains(w.fetch(aci, rc=1).err, "If it was copied or downloaded, repeat that")
    # The signature is not requested from another host.
    w.web.forget()
    for url in "https://example.com", "https://example.com?x":
        contains(w.fetch(url, rc=1).err, "it names a host alone")
    equal((w.web.asked(), w.web.connects), ([], []))
    w.nothing_left()


@world
def without_a_signature_by_option(w):
    data = w.image()
    w.publish(SIMPLE, data, signer=None)
    r = w.fetch("--insecure-options=signature", SIMPLE)
    contains(r.err, "--insecure-options=signature")
    # An image fetched without a signature is not treated as a signed one.
    contains(w.fetch(SIMPLE, rc=1).err, ".aci.asc")
    w.web.forget()
    equal(w.fetch("--insecure-options=signature", SIMPLE).out, image_id(data) + "\n")
    equal(w.web.asked(), [])


@world
def keys_that_are_offered(w):
    data = w.image()
    w.publish(SIMPLE, data)
    w.web.put("https://example.com/keys", w.key().public)
    w.page("https://example.com", ("ac-discovery-pubkeys", "example.com https://example.com/keys"))
    contains(w.fetch("example.com/app:1.0", rc=1).err, w.key().fingerprint)
    r = w.fetch("--insecure-options=pubkey", "example.com/app:1.0")
    contains(r.err, "https://example.com/keys")
    contains(r.err, "--insecure-options=pubkey")
    # It is in the store, signed by a key that is not trusted: for this once.
    top = w.host.path("top.aci")
    with open(top, "wb") as f:
        f.write(w.image("example.com/top", dependencies=[{"imageName": "example.com/app"}]))
    w.run("rm", w.run("prepare", image_id(data)).out.strip())
    w.web.forget()
    for args in ("prepare", "example.com/app:1.0"), ("run", "example.com/app"), ("fetch", SIMPLE), ("prepare", top), \
                ("prepare", "--pull-policy=never", "example.com/app"):
        r = w.run(*args, rc=1)
        for part in ("The image example.com/app was signed by the key %s, which was offered by a server and accepted for one command only: "
                     "--insecure-options=pubkey" % w.key().fingerprint, "acnspawn trust --prefix=example.com/app", "image rm " + image_id(data)[:19]):
            contains(r.err, part, "message of %r" % (args,))
        r = w.run(args[0], "--insecure-options=pubkey", *args[1:], rc=127 if args[0] == "run" else 0)  # it has no such program
        contains(r.err, "it is used nevertheless: --insecure-options=pubkey", "warning of %r" % (args,))
    equal(w.web.asked(), [], "requests")
    shown = json.loads(w.run("--json=short", "image", "show", image_id(data)).out)[0]
    equal(shown["signer"]["offered"], True)
    contains(shown["signerProblem"], "accepted for one command only")
    contains(w.fetch("--update", "example.com/app:1.0", rc=1).err, w.key().fingerprint)
    w.fetch("--update", "--insecure-options=pubkey", "example.com/app:1.0")
    # Who trusts the key afterwards trusts the image.
    w.trust()
    w.run("prepare", "example.com/app:1.0")
    shown = json.loads(w.run("--json=short", "image", "show", image_id(data)).out)[0]
    equal((shown["signer"]["offered"], shown["signerProblem"]), (False, None))
    if shutil.which("strace"):
        equal(runs_of_gpg(w), 0, "runs of gpg, which has looked at the key already")
    w.run("trust", "--remove=" + w.key().fingerprint)
    contains(w.run("prepare", "example.com/app:1.0", rc=1).err, "not trusted any more")


# --- Trust that ended -----------------------------------------------------------------------------------------------------

def manifest_of(w, image):
    path = w.host.path("pod.json")
    with open(path, "w") as f:
        json.dump({"acKind": "PodManifest", "acVersion": "0.8.11", "apps": [{"name": "app", "image": image}]}, f)
    return "--pod-manifest=" + path


@world
def signer_not_trusted_any_more(w):
    """Signed images are not used any more once the key is not trusted: under any name, and without a request."""
    w.trust()
    data = w.image()
    w.publish(SIMPLE, data, etag=True)
    w.fetch("example.com/app:1.0", SIMPLE)
    by_name = manifest_of(w, {"name": "example.com/app", "labels": [{"name": "version", "value": "1.0"}]})
    w.run("prepare", by_name)
    w.run("trust", "--remove=" + w.key().fingerprint)
    w.web.forget()
    for args in (("fetch", "example.com/app:1.0"), ("fetch", SIMPLE), ("prepare", "example.com/app"), ("prepare", SIMPLE), ("prepare", by_name),
                 ("run", "example.com/app"), ("fetch", "--pull-policy=never", SIMPLE)):
        r = w.run(*args, rc=1)
        for part in ("The image example.com/app was signed by the key " + w.key().fingerprint, "alice <alice@example.com>",
                     "not trusted any more", "--insecure-options=signature", "acnspawn image rm sha512-", "acnspawn trust --prefix="):
            contains(r.err, part, "message of %r" % (args,))
    equal(w.web.asked(), [], "requests")
    # An ID identifies the bytes.
    w.run("prepare", image_id(data))
    # A warning reports the problem, and that the image is used nevertheless.
    shown = json.loads(w.run("--json=short", "image", "show", "example.com/app").out)[0]
    contains(shown["signerProblem"], "not trusted any more")
    contains(w.run("image", "show", "example.com/app").out, "Refused: The image example.com/app was signed by")
    for args in ("fetch", "example.com/app:1.0"), ("prepare", SIMPLE), ("prepare", by_name):
        contains(w.run(args[0], "--insecure-options=signature", *args[1:]).err, "it is used nevertheless: --insecure-options=signature")
    # An update requires a signature that is valid now, also if the server replies that the ETag is unchanged.
    w.web.forget()
    contains(w.fetch("--pull-policy=update", SIMPLE, rc=1).err, "no such key is trusted")
    equal(w.web.asked(), [SIMPLE + ".asc"], "requests")
    w.trust(name="bob")
    w.publish(SIMPLE, data, signer="bob", etag=True)
    w.fetch("--pull-policy=update", SIMPLE)
    w.run("prepare", "example.com/app")
    shown = json.loads(w.run("--json=short", "image", "show", "example.com/app").out)[0]
    equal((shown["signer"]["fingerprint"], shown["signerProblem"]), (w.key("bob").fingerprint, None))
    true(abs(shown["signer"]["signed"] / 1e6 - time.time()) < 600, "when it was signed: %r" % shown["signer"])


@world
def signer_of_a_dependency_not_trusted_any_more(w):
    w.trust()
    w.trust(name="bob")
    low = w.image("example.com/low", "1")
    top = w.image("example.com/top", "1", dependencies=[{"imageName": "example.com/low"}])
    for name, data, signer in ("low", low, "alice"), ("top", top, "bob"):
        url = "https://example.com/%s.aci" % name
        w.publish(url, data, signer=signer)
        w.fetch(url)
    w.run("prepare", "example.com/top")
    w.run("trust", "--remove=" + w.key().fingerprint)
    for args in ("prepare", "example.com/top"), ("prepare", image_id(top)), ("prepare", manifest_of(w, {"id": image_id(top)})):
        r = w.run(*args, rc=1)
        contains(r.err, "The image example.com/low was signed by the key " + w.key().fingerprint)
    w.run("prepare", "--insecure-options=signature", "example.com/top")


def runs_of_gpg(w):
    """When a pod of the image is prepared."""
    log = w.host.path("log")
    subprocess.run(["strace", "-f", "-qq", "-o", log, "-e", "trace=execve"] + w.host.argv("--config-dir=" + w.config, "prepare", "example.com/app"),
                   check=True, stdout=subprocess.DEVNULL)
    return read_text(log).count("/gpg\"")


@world
def keys_that_change_are_looked_at_once(w):
    """No program is run for a signer whose key has not changed; after a change, only once."""
    need_strace()
    w.trust()
    w.publish(SIMPLE, w.image())
    w.fetch("example.com/app:1.0")
    equal(runs_of_gpg(w), 0, "runs of gpg")
    for prefix in "example.com/app", "example.org":  # what another prefix has may be a revocation
        w.trust(prefix)
        true(runs_of_gpg(w) > 0, "gpg has looked at the new file of %s" % prefix)
        equal(runs_of_gpg(w), 0, "runs of gpg after that")


@world
def what_gpg_has_said_may_be_lost(w):
    """It is in a file of its own, which is not synced: empty, damaged or of another signature it costs another look at the key, and the
    record of the image stays as it is."""
    need_strace()
    w.trust()
    w.publish(SIMPLE, w.image())
    w.fetch("example.com/app:1.0")
    directory = os.path.join(w.host.dir, "images", w.ids()[0])
    info, checked = os.path.join(directory, "info"), os.path.join(directory, "checked")
    before = os.stat(info).st_ino, read_text(info)
    w.trust("example.com/app")
    true(runs_of_gpg(w) > 0, "gpg has looked at the new file")
    equal((os.stat(info).st_ino, read_text(info)), before, "the record of the image")
    good = read_text(checked)
    for text in "", good[:40], "\0" * 4096, good.replace(w.key().fingerprint, "0" * 40), "[]":
        with open(checked, "w") as f:
            f.write(text)
        equal(w.run("image", "list", "--no-legend").out.count("\n"), 1, "images")
        w.run("image", "verify", "all")
        true(runs_of_gpg(w) > 0, "gpg has looked at the key again after %r" % text)
        equal(runs_of_gpg(w), 0, "runs of gpg after that")
    w.run("trust", "--remove=" + w.key().fingerprint)
    contains(w.run("prepare", "example.com/app", rc=1).err, "not trusted any more")
    equal((os.stat(info).st_ino, read_text(info)), before, "the record of the image")


@world
def steps_back(w):
    """An old image with its old signature does not replace a newer one."""
    w.trust()
    old, new = w.image(content="old"), w.image(content="new")
    old_signature = w.key().sign(old)
    next_second()
    w.publish(SIMPLE, new)
    w.fetch("example.com/app:1.0")
    w.web.put(SIMPLE, old)
    w.web.put(SIMPLE + ".asc", old_signature)
    other = "https://example.com/other.aci"
    w.web.put(other, old)
    w.web.put(other + ".asc", old_signature)
    for url in SIMPLE, other, "example.com/app:1.0":
        r = w.fetch("--pull-policy=update", url, rc=1)
        contains(r.err, "before the one of the same name and labels that is in the store")
        contains(r.err, "acnspawn image rm " + image_id(new)[:19])
    w.nothing_left(1)
    # A local file needs no signature; and a removed image has no effect.
    w.run("image", "rm", image_id(new))
    equal(w.fetch("--pull-policy=update", SIMPLE).out, image_id(old) + "\n")
    w.publish(SIMPLE, new)
    equal(w.fetch("--pull-policy=update", SIMPLE).out, image_id(new) + "\n")
    aci = w.host.path("old.aci")
    with open(aci, "wb") as f:
        f.write(old)
    w.fetch(aci)


@world
def what_a_record_says_is_no_step_back(w):
    """What a server says is unchanged, or needs not be asked about, is as old as if it came again."""
    w.trust()
    old, new = w.image(content="old"), w.image(content="new")
    tagged, fresh, other = ("https://example.com/%s.aci" % n for n in ("tagged", "fresh", "other"))
    w.publish(tagged, old, etag=True)
    w.publish(fresh, old, headers={"Cache-Control": "max-age=3600"})
    w.fetch(tagged, fresh)
    next_second()
    w.publish(other, new)
    w.fetch(other)
    w.web.forget()
    for args in ("--update", tagged), ("--update", fresh), (tagged,), (fresh,), ("--pull-policy=never", tagged):
        r = w.fetch(*args, rc=1)
        contains(r.err, "before the one of the same name and labels that is in the store", "message of %r" % (args,))
        contains(r.err, "acnspawn image rm " + image_id(new)[:19], "hint of %r" % (args,))
    # Each time the server could have had the newer one, except for the last.
    fresh_again = [fresh + ".asc", fresh]
    equal((w.web.asked(), w.web.said()), ([tagged] + fresh_again + [tagged] + fresh_again, [304, 200, 200, 304, 200, 200]), "what was asked")
    equal(w.fetch("--insecure-options=signature", tagged).out, image_id(old) + "\n")
    w.run("image", "rm", image_id(new))
    for url in tagged, fresh:
        equal(w.fetch("--update", url).out, image_id(old) + "\n")


@world
def a_record_that_is_a_step_back_is_not_the_servers_word(w):
    """The store got the newer image from elsewhere, and the server has it by now."""
    w.trust()
    old, new = w.image(content="old"), w.image(content="new")
    urls = ["https://example.com/%s.aci" % n for n in ("updated", "used")]
    for url in urls:
        w.publish(url, old, headers={"Cache-Control": "max-age=3600"})
        w.fetch(url)
    next_second()
    w.publish("https://example.com/other.aci", new)
    w.fetch("https://example.com/other.aci")
    for url in urls:
        w.publish(url, new, headers={"Cache-Control": "max-age=3600"})
    for args in ("--update", urls[0]), (urls[1],), (urls[0],), ("--update", urls[1]):
        equal(w.fetch(*args).out, image_id(new) + "\n", "result of %r" % (args,))
    contains(w.fetch("--pull-policy=never", urls[0]).out, image_id(new))


def go_back(w, one, two):
    """TWO is fetched from a URL, and then ONE, which was signed before. Returns the URL, and what is said the second time."""
    w.trust()
    signature = w.key().sign(one)
    next_second()
    url = "https://example.com/latest.aci"
    w.publish(url, two)
    w.fetch(url)
    w.web.put(url, one)
    w.web.put(url + ".asc", signature)
    r = w.fetch("--pull-policy=update", url)
    equal(r.out, image_id(one) + "\n")
    return url, r.err


@world
def a_build_that_goes_back(w):
    """A label that differs with each build does not hide that the newer image was replaced by the older."""
    url, said = go_back(w, *[w.image(content=n, more_labels=[{"name": "build", "value": n}]) for n in ("1", "2")])
    for part in "came to example.com/app:1.0", "build=2", "and comes to example.com/app:1.0", "build=1", "which was signed earlier":
        contains(said, part)
    equal(w.fetch(url).err, "", "messages when no server is asked")


def publish_on_registry(w, name, tag, content):
    """An image of a registry, which has no signature."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo("content")
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    layer = out.getvalue()
    digest = lambda data: "sha256:" + hashlib.sha256(data).hexdigest()
    config = json.dumps({"os": "linux", "architecture": {"aarch64": "arm64"}.get(os_arch(), os_arch()), "config": {"Cmd": ["/bin/true"]},
                         "rootfs": {"type": "layers", "diff_ids": [digest(layer)]}}).encode()
    manifest = json.dumps({"schemaVersion": 2, "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest(config),
                                                          "size": len(config)},
                           "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": digest(layer),
                                       "size": len(layer)}]}).encode()
    base = "https://example.com/v2/%s/" % name
    w.web.put(base + "manifests/" + tag, manifest, headers={"Content-Type": "application/vnd.oci.image.manifest.v1+json"})
    for blob in layer, config:
        w.web.put(base + "blobs/" + digest(blob), blob)
    return "sha512-" + hashlib.sha512(config).hexdigest()


@world
def an_image_of_a_registry_does_not_have_a_signed_name(w):
    id = publish_on_registry(w, "team/app", "1.0", b"not signed")
    reference = "docker://example.com/team/app:1.0"
    w.fetch(reference)
    # No key is trusted for the name: there could be no other.
    w.run("rm", w.run("prepare", "example.com/team/app").out.strip())
    w.trust("example.org")
    w.run("rm", w.run("prepare", "example.com/team/app").out.strip())
    w.trust("example.com/team", "bob")
    top = w.host.path("top.aci")
    with open(top, "wb") as f:
        f.write(w.image("example.com/top", dependencies=[{"imageName": "example.com/team/app"}]))
    by_name = manifest_of(w, {"name": "example.com/team/app"})
    w.web.forget()
    for args in ("prepare", "example.com/team/app"), ("fetch", "example.com/team/app:1.0"), ("prepare", top), ("prepare", by_name), \
                ("run", "--pull-policy=never", "example.com/team/app"):
        r = w.run(*args, rc=1)
        for part in ("The image example.com/team/app in the store came from %s without a signature, but a key is trusted for images of this name" %
                     reference, "acnspawn image rm " + id[:19], "--insecure-options=signature"):
            contains(r.err, part, "message of %r" % (args,))
        contains(w.run(args[0], "--insecure-options=signature", *args[1:], rc=127 if args[0] == "run" else 0).err,
                 "it is used nevertheless: --insecure-options=signature", "warning of %r" % (args,))
    equal(w.web.asked(), [], "requests")
    for name in reference, id:
        w.run("prepare", name)
    # The signed image of that name.
    data = w.image("example.com/team/app")
    w.publish("https://example.com/team/app-1.0-linux-%s.aci" % os_arch(), data, signer="bob")
    equal(w.fetch("--update", "example.com/team/app:1.0").out, image_id(data) + "\n")
    w.run("prepare", "example.com/team/app")
    # Which stays the one of that name, whatever tags the registry has.
    publish_on_registry(w, "team/app", "2.0", b"not signed either")
    w.fetch("docker://example.com/team/app:2.0")
    for args in ("fetch", "example.com/team/app"), ("fetch", "--pull-policy=never", "example.com/team/app:1.0"):
        equal(w.run(*args).out, image_id(data) + "\n", "result of %r" % (args,))
    w.run("prepare", "example.com/team/app")
    w.run("prepare", top)


@world
def a_version_that_goes_back(w):
    _, said = go_back(w, w.image(version="1.0"), w.image(version="2.0"))
    contains(said, "came to example.com/app:2.0")
    contains(said, "and comes to example.com/app:1.0")


@world
def an_image_that_also_came_from_elsewhere_goes_back(w):
    """Whether a URL or a name led to it: what has come from there is known of each place, not of the last one alone."""
    w.trust()
    one, two = w.image(version="1.0"), w.image(version="2.0")
    signature = w.key().sign(one)
    next_second()
    url, elsewhere = "https://example.com/latest.aci", "https://example.com/elsewhere.aci"
    w.publish(url, two)
    w.publish(SIMPLE, two)
    for reference, place in (url, url), ("example.com/app:1.0", SIMPLE):
        if reference != url:
            two = w.image(version="1.0", more_labels=[{"name": "build", "value": "2"}])
            w.publish(SIMPLE, two)
        w.publish(elsewhere, two)
        w.fetch(reference)
        w.fetch("--pull-policy=update", elsewhere)
        w.web.put(place, one)
        w.web.put(place + ".asc", signature)
        r = w.fetch("--pull-policy=update", reference)
        equal(r.out, image_id(one) + "\n")
        contains(r.err, "which was signed earlier")
        w.run("image", "rm", image_id(one), image_id(two))


@world
def signature_in_a_file(w):
    w.trust()
    data = w.image()
    aci, asc = w.host.path("x.aci"), w.host.path("x.aci.asc")
    with open(aci, "wb") as f:
        f.write(data)
    with open(asc, "wb") as f:
        f.write(w.key().sign(data + b"x"))
    w.fetch("--signature=" + asc, aci, rc=1)
    w.nothing_left()
    with open(asc, "wb") as f:
        f.write(w.key().sign(data))
    w.fetch("--signature=" + asc, aci)
    w.run("image", "rm", image_id(data))
    w.publish(SIMPLE, data, signer=None)
    equal(w.fetch("--signature=" + asc, SIMPLE).out, image_id(data) + "\n")
    contains(w.fetch("--signature=" + asc, aci, aci, rc=2).err, "--signature=")


@world
def encrypted(w):
    w.trust()
    plain = w.image()
    secret = w.host.path("secret")
    with open(secret, "w") as f:
        f.write("open sesame\n")
    os.chmod(secret, 0o600)
    data = subprocess.run(("gpg", "--homedir", w.key().home, "--batch", "--quiet", "--pinentry-mode=loopback", "--cipher-algo",
                           "AES256", "--passphrase", "open sesame", "--symmetric"), input=plain, stdout=subprocess.PIPE,
                          check=True).stdout
    w.publish(SIMPLE, data)
    contains(w.fetch(SIMPLE, rc=1).err, "--passphrase-file=")
    equal(w.fetch("--passphrase-file=" + secret, SIMPLE).out, image_id(plain) + "\n")
    w.run("image", "rm", image_id(plain))
    # From a pipe, the wrong passphrase, and truncated data.
    equal(w.fetch("--passphrase-file=" + secret, "-", input=data).out, image_id(plain) + "\n")
    w.run("image", "rm", image_id(plain))
    w.fetch("--passphrase-file=" + secret, "-", input=data[:-20], rc=1)
    with open(secret, "w") as f:
        f.write("wrong\n")
    contains(w.fetch("--passphrase-file=" + secret, SIMPLE, rc=1).err.lower(), "passphrase")
    w.nothing_left()


# --- Transport ------------------------------------------------------------------------------------------------------------

@world
def http_only_by_name(w):
    w.trust()
    data = w.image()
    url = SIMPLE.replace("https:", "http:")
    w.publish(url, data)
    contains(w.fetch(url, rc=1).err, "--insecure-options=http")
    w.fetch("example.com/app:1.0", rc=1)
    equal(w.web.asked("http://"), [])
    # From https to http.
    w.web.put(SIMPLE, status=302, headers={"Location": url})
    w.web.put(SIMPLE + ".asc", w.key().sign(data))
    w.fetch(SIMPLE, rc=1)
    equal(w.web.asked("http://"), [])
    w.nothing_left()
    r = w.fetch("--insecure-options=http", url)
    contains(r.err, "http")
    equal(r.out, image_id(data) + "\n")


@world
def certificate_of_another_host(w):
    w.trust("example.net")
    url = "https://example.net/app.aci"
    w.publish(url, w.image("example.net/app"))
    w.fetch(url, rc=1)
    equal(w.web.asked(), [])
    w.fetch("--insecure-options=tls", url)


@world
def authorities_by_environment(w):
    """SSL_CERT_DIR and CURL_CA_BUNDLE, as curl's users expect."""
    w.trust()
    data = w.image()
    w.publish(SIMPLE, data)
    hashed, env = w.host.path("hashed"), w.web.env()
    del env["SSL_CERT_FILE"]
    os.makedirs(hashed)
    shutil.copy(w.web.ca, hashed + "/authority.pem")
    args = "--config-dir=" + w.config, "fetch", SIMPLE
    contains(w.host.acnspawn(*args, env=env).expect(1).err, "certificate")
    # It has to have names that are hashes.
    contains(w.host.acnspawn(*args, env=dict(env, SSL_CERT_DIR=hashed)).expect(1).err, "certificate")
    subprocess.run(["openssl", "rehash", hashed], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    w.host.acnspawn(*args, env=dict(env, SSL_CERT_DIR=hashed)).expect(0)
    w.run("image", "rm", image_id(data))
    w.host.acnspawn(*args, env=dict(env, CURL_CA_BUNDLE=w.web.ca, SSL_CERT_FILE="/nonexistent")).expect(0)
    contains(w.host.acnspawn(*args[:2], "--update", SIMPLE, env=dict(env, CURL_CA_BUNDLE="/nonexistent")).expect(1).err, "CURL_CA_BUNDLE")


@world
def a_proxy_that_wants_a_password(w):
    w.trust()
    data, env = w.image(), w.web.env()
    w.publish(SIMPLE, data)
    w.publish("http://example.com/plain.aci", data)
    w.web.proxy_auth = "me:open sesame"
    address = env["https_proxy"].split("//")[1]
    for url, variable, options in (SIMPLE, "https_proxy", ()), ("http://example.com/plain.aci", "http_proxy", ("--insecure-options=http",)):
        args = ("--config-dir=" + w.config, "fetch") + options + (url,)
        for word in "", "me:wrong-word@":
            r = w.host.acnspawn(*args, env=dict(env, **{variable: "http://" + word + address})).expect(1)
            contains(r.err, "the proxy at %s requires a user and password" % address)
            contains(r.err, variable + "=http://USER:PASSWORD@PROXY:PORT")
            true("wrong-word" not in r.err and "trying again" not in r.err, "message: " + r.err)
        r = w.host.acnspawn(*args, env=dict(env, **{variable: "http://me:open%20sesame@" + address})).expect(0)
        true("sesame" not in r.err, "the password is shown: " + r.err)
        w.run("image", "rm", image_id(data))
    w.web.dead.add("example.com")
    r = w.host.acnspawn(*args[:2], SIMPLE, env=dict(env, https_proxy="http://me:open%20sesame@" + address)).expect(1)
    contains(r.err, "the proxy at %s does not connect to 'example.com' (status 502)" % address)


@world
def credentials_are_not_shown(w):
    w.trust()
    data = w.image()
    auth = "Basic " + base64.b64encode(b"user:tops3cret").decode()
    w.publish(SIMPLE, data)
    for url in SIMPLE, SIMPLE + ".asc":
        w.web.pages[url].need_auth = auth
    w.fetch("example.com/app:1.0", rc=1)
    url = SIMPLE.replace("https://", "https://user:tops3cret@")
    r = w.fetch("--debug", url)
    lacks(r.out + r.err, "tops3cret")
    for top, _, files in os.walk(w.host.dir):
        for f in files:
            lacks(_read(os.path.join(top, f)), b"tops3cret", f)


# --- C7: the checked and the unpacked bytes are the same ------------------------------------------------------------------

MANY = 160 << 20  # large enough to stop in the middle


def stopped_in_the_middle(p, find, size):
    """Stops P when it has read a part of the file that FIND finds among its descriptors. Returns the path in /proc,
    and the offset that was reached."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and p.poll() is None:
        try:
            for fd in os.listdir("/proc/%d/fd" % p.pid):
                path = "/proc/%d/fd/%s" % (p.pid, fd)
                if not find(os.readlink(path), os.stat(path).st_size):
                    continue
                at = int(read_text("/proc/%d/fdinfo/%s" % (p.pid, fd)).split("pos:")[1].split()[0])
                if not size // 10 < at < size * 8 // 10:
                    continue
                os.kill(p.pid, signal.SIGSTOP)
                at = int(read_text("/proc/%d/fdinfo/%s" % (p.pid, fd)).split("pos:")[1].split()[0])
                return path, at
        except (FileNotFoundError, ProcessLookupError, IndexError):
            pass
    return None, None


def overwrite(path, data, begin, end):
    with open(path, "r+b", buffering=0) as f:
        f.seek(begin)
        f.write(memoryview(data)[begin:end])


def exchange_while_it_is_read(w, start, find, good, first, then, everything):
    """Runs START() on a file with the content FIRST, stops the process, and replaces the part that has been read, or
    EVERYTHING, with THEN."""
    for _ in range(10):
        p = start(first)
        path, at = stopped_in_the_middle(p, find, len(good))
        if path:
            overwrite(path, then, 0, len(then) if everything else at)
            os.kill(p.pid, signal.SIGCONT)
            return w.host.finish(p)
        p.kill()
        p.communicate()
        if p.returncode == 0:
            w.run("image", "rm", image_id(good))
    raise Skip("the import is too fast here to be stopped in the middle")


def big_images(w):
    """An image, and another one with different content at the same offsets."""
    half = os.urandom(1 << 20) * (MANY >> 20)
    good = w.image(content=half)
    evil = good.replace(half[:1 << 16], bytes(1 << 16))
    equal(len(evil), len(good))
    true(evil != good, "the images differ")
    return good, evil


def both_ways(w, start, find):
    good, evil = big_images(w)
    # A separate check before unpacking would read the good bytes, and unpacking would read the malicious ones.
    r = exchange_while_it_is_read(w, start, find, good, good, evil, False)
    equal(r.rc, 0, "exit status (%s)" % r.err)
    equal(r.out, image_id(good) + "\n")
    w.run("image", "verify")
    with open(os.path.join(w.host.dir, "images", image_id(good), "rootfs/content"), "rb") as f:
        true(bytes(1 << 16) not in f.read(), "what was unpacked is what was signed")
    w.run("image", "rm", image_id(good))
    # And a check after unpacking the other way round.
    r = exchange_while_it_is_read(w, start, find, good, evil, good, True)
    equal(r.rc, 1, "exit status (%s)" % r.err)
    contains(r.err.lower(), "signature")
    w.nothing_left()


@world
def c7_file_exchanged_while_it_is_imported(w):
    w.trust()
    aci, asc = w.host.path("x.aci"), w.host.path("x.asc")
    signatures = {}

    def start(data):
        with open(aci, "wb") as f:
            f.write(data)
        if not signatures:  # of the first, which is the good one
            signatures[asc] = w.key().sign(data)
            with open(asc, "wb") as f:
                f.write(signatures[asc])
        return w.host.start("--config-dir=" + w.config, "fetch", "--signature=" + asc, aci, env=w.web.env())
    both_ways(w, start, lambda target, size: target == aci)


@world
def c7_download_altered_before_it_is_imported(w):
    """The same with a downloaded file: it has been unlinked by then, but root can access it."""
    w.trust()
    signatures = []

    def start(data):
        signatures.append(signatures[0] if signatures else w.key().sign(data))
        w.web.put(SIMPLE, data)
        w.web.put(SIMPLE + ".asc", signatures[0])
        return w.host.start("--config-dir=" + w.config, "fetch", SIMPLE, env=w.web.env())
    both_ways(w, start, lambda target, size: "/downloads/" in target and target.endswith("(deleted)") and size > MANY)


@world
def c7_part_altered_before_it_is_resumed(w):
    """Files in downloads/ are checked like new downloads."""
    w.trust()
    data = w.image(content=os.urandom(4 << 20))
    pause = threading.Event()
    w.publish(SIMPLE, data, etag=True, cut=2000000, pause=pause)
    p = w.host.start("--config-dir=" + w.config, "fetch", SIMPLE, env=w.web.env())
    downloads = os.path.join(w.host.dir, "downloads")
    part = wait_for(lambda: [f for f in (os.listdir(downloads) if os.path.isdir(downloads) else []) if f.endswith(".part")
                             and os.path.getsize(os.path.join(downloads, f)) >= 1000000], "the beginning of the download")[0]
    p.kill()
    p.communicate()
    pause.set()
    overwrite(os.path.join(downloads, part), bytes(len(data)), 500000, 600000)
    w.publish(SIMPLE, data, etag=True)
    contains(w.fetch(SIMPLE, rc=1).err.lower(), "signature")
    w.nothing_left()
    equal(w.fetch(SIMPLE).out, image_id(data) + "\n")


# --- Caching --------------------------------------------------------------------------------------------------------------

@world
def update(w):
    w.trust()
    one, two = w.image(content="one"), w.image(content="two")
    w.publish(SIMPLE, one, etag=True)
    equal(w.fetch("example.com/app:1.0").out, image_id(one) + "\n")
    w.web.forget()
    r = w.fetch("--update", "example.com/app:1.0")
    equal((r.out, w.web.asked(".aci")), (image_id(one) + "\n", [SIMPLE]))
    w.publish(SIMPLE, two, etag=True)
    equal(w.fetch("example.com/app:1.0").out, image_id(one) + "\n")
    equal(w.fetch("--pull-policy=update", "example.com/app:1.0").out, image_id(two) + "\n")
    # By URL: the last result.
    w.web.forget()
    equal(w.fetch("--pull-policy=never", SIMPLE).out, image_id(two) + "\n")
    equal(w.web.asked(), [])
    contains(w.fetch("--pull-policy=never", SIMPLE + "x", rc=1).err, "--pull-policy=never")
    # A changed image with an invalid signature is not imported.
    w.publish(SIMPLE, w.image(content="three"), signer=None, etag=True)
    w.fetch("--update", "example.com/app:1.0", rc=1)
    w.nothing_left(2)


@world
def update_by_date(w):
    """A server without ETags reports changes by date."""
    w.trust()
    one, two, three = w.image(content="one"), w.image(content="two"), w.image(content="three")
    w.publish(SIMPLE, one, headers={"Last-Modified": "Mon, 02 Jan 2023 10:00:00 GMT"})
    w.fetch(SIMPLE)
    w.web.forget()
    equal(w.fetch("--update", SIMPLE).out, image_id(one) + "\n")
    equal((w.web.asked(), w.web.said()), ([SIMPLE], [304]))
    # Again: the reply without a body did not discard the stored data.
    w.web.forget()
    w.fetch("--update", SIMPLE)
    equal((w.web.asked(), w.web.said()), ([SIMPLE], [304]))
    w.publish(SIMPLE, two, headers={"Last-Modified": "Tue, 03 Jan 2023 10:00:00 GMT"})
    equal(w.fetch("--update", SIMPLE).out, image_id(two) + "\n")
    # A file that was modified in the second of the reply could be modified again in the same second: such a date is
    # not a validator.
    w.publish(SIMPLE, one, headers={"Last-Modified": "Tue, 03 Jan 2033 10:00:00 GMT"})
    equal(w.fetch("--update", SIMPLE).out, image_id(one) + "\n")
    w.publish(SIMPLE, three, headers={"Last-Modified": "Tue, 03 Jan 2033 10:00:00 GMT"})
    equal(w.fetch("--update", SIMPLE).out, image_id(three) + "\n")


@world
def a_server_that_says_for_how_long(w):
    w.trust()
    data = w.image()
    w.publish(SIMPLE, data, headers={"Cache-Control": "max-age=3600"})
    w.fetch(SIMPLE)
    w.web.forget()
    w.fetch("--update", SIMPLE)
    equal(w.web.asked(), [])
    w.run("image", "rm", image_id(data))
    w.fetch(SIMPLE)
    equal(w.web.asked("aci"), [SIMPLE + ".asc", SIMPLE])


@world
def a_server_cannot_keep_updates_from_asking(w):
    """Half a day at most, whatever it says, and whatever the clock said."""
    w.trust()
    w.publish(SIMPLE, w.image(), etag=True, headers={"Cache-Control": "max-age=31536000"})
    w.fetch(SIMPLE)
    (name,) = os.listdir(os.path.join(w.host.dir, "remotes"))
    path = os.path.join(w.host.dir, "remotes", name)
    year = 365 * 24 * 3600
    for seconds, asks in ((-60, False), (-11 * 3600, False), (-13 * 3600, True), (3600, True), (2 * year, True), (None, True)):
        record = json.loads(read_text(path))
        true(record["expires"] > (time.time() + year - 1000) * 1e6, "the server's word is kept: %r" % record)
        record["downloaded"] = int((time.time() + (seconds or 0)) * 1e6)
        if seconds is None:
            del record["downloaded"]
        with open(path, "w") as f:
            json.dump(record, f)
        w.web.forget()
        w.fetch(SIMPLE)
        equal(w.web.asked(), [], "requests without --update")
        w.fetch("--update", SIMPLE)
        equal(w.web.asked(), [SIMPLE] if asks else [], "requests when it was asked %s s ago" % (seconds and -seconds))


@world
def a_file_that_has_not_changed(w):
    path = w.host.path("x.aci")
    with open(path, "wb") as f:
        f.write(w.image())
    # Too young to be kept in mind.
    w.fetch(path)
    equal(os.listdir(os.path.join(w.host.dir, "remotes")) if os.path.exists(os.path.join(w.host.dir, "remotes")) else [], [])
    time.sleep(4.5)  # it has to be old
    first = w.fetch(path).out
    equal(len(os.listdir(os.path.join(w.host.dir, "remotes"))), 1)
    equal(w.fetch(path).out, first)
    # Different content, of the same size and with the same times, as far as these can be set.
    before = os.stat(path)
    with open(path, "r+b") as f:
        f.write(w.image(content="y"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    equal(os.stat(path).st_size, before.st_size)
    true(w.fetch(path).out != first, "the old image for the new file")


# --- Dependencies ---------------------------------------------------------------------------------------------------------

@world
def dependencies(w):
    w.trust()
    base = w.image("example.com/base", "1", content="base")
    middle = w.image("example.com/middle", "1", dependencies=[{"imageName": "example.com/base", "imageID": image_id(base)}])
    top = w.image(dependencies=[{"imageName": "example.com/middle", "labels": [{"name": "version", "value": "1"}]},
                                {"imageName": "example.com/base"}])
    w.page("https://example.com", ("ac-discovery", "example.com https://img.example.com/{name}.{ext}"))
    for name, data in (("base", base), ("middle", middle), ("app", top)):
        w.publish("https://img.example.com/example.com/%s.aci" % name, data)
    equal(w.fetch("example.com/app").out, image_id(top) + "\n")
    equal(w.ids(), sorted(image_id(x) for x in (base, middle, top)))
    equal(len(w.web.asked("base.aci")), 2, "requests for the base and its signature")
    for i in (top, middle, base):
        w.run("image", "rm", image_id(i))
    w.fetch("--no-dependencies", "example.com/app")
    w.nothing_left(1)


@world
def dependency_with_another_id(w):
    w.trust()
    wanted, there = w.image("example.com/base", "1", content="wanted"), w.image("example.com/base", "1", content="there")
    top = w.image(dependencies=[{"imageName": "example.com/base", "imageID": image_id(wanted)}])
    w.page("https://example.com", ("ac-discovery", "example.com https://img.example.com/{name}.{ext}"))
    w.publish("https://img.example.com/example.com/base.aci", there)
    w.publish(SIMPLE, top)
    r = w.fetch("example.com/app:1.0", rc=1)
    contains(r.err, image_id(wanted))
    contains(r.err, image_id(there))
    equal(w.ids(), [image_id(top)])


@world
def dependency_on_itself(w):
    w.trust()
    a = w.image("example.com/a", "1", dependencies=[{"imageName": "example.com/b"}])
    b = w.image("example.com/b", "1", dependencies=[{"imageName": "example.com/a"}])
    w.page("https://example.com", ("ac-discovery", "example.com https://img.example.com/{name}.{ext}"))
    w.publish("https://img.example.com/example.com/a.aci", a)
    w.publish("https://img.example.com/example.com/b.aci", b)
    r = w.fetch("example.com/a", rc=1)
    contains(r.err, "depends on itself")
    contains(r.err, "example.com/a:1,")
    contains(r.err, " -> example.com/b:1,")


# --- Concurrent and interrupted fetches
# -----------------------------------------------------------------------------------

@world
def several_side_by_side(w):
    w.trust()
    images = [w.image("example.com/n%d" % i) for i in range(6)]
    for i, data in enumerate(images):
        w.publish("https://example.com/n%d.aci" % i, data)
    urls = ["https://example.com/n%d.aci" % i for i in range(6)]
    r = w.fetch(*(urls[:3] + ["https://example.com/none.aci"] + urls[3:] + urls[:1]), rc=1)
    equal(r.out.split(), [image_id(x) for x in images + images[:1]])
    equal(r.err.count("Error:"), 1)
    contains(r.err, "none.aci")
    equal(len(w.web.asked("n0.aci")), 2, "requests for what was named twice")
    r = w.fetch("--quiet", *urls)
    equal(r.err, "")


@world
def two_processes(w):
    w.trust()
    data = w.image(content="x" * 2000000)
    w.publish(SIMPLE, data)
    env = w.web.env()
    p = [w.host.start("--config-dir=" + w.config, "fetch", SIMPLE, env=env) for _ in range(3)]
    for r in [w.host.finish(x) for x in p]:
        equal((r.rc, r.out), (0, image_id(data) + "\n"), str(r))
    w.nothing_left(1)


@world
def killed_and_resumed(w):
    w.trust()
    data = w.image(content="x" * 4000000)
    pause = threading.Event()
    w.publish(SIMPLE, data, etag=True, cut=2000000, pause=pause)
    p = w.host.start("--config-dir=" + w.config, "fetch", SIMPLE, env=w.web.env())
    downloads = os.path.join(w.host.dir, "downloads")

    def some():
        return os.path.isdir(downloads) and any(os.path.getsize(os.path.join(downloads, f)) >= 1000000
                                                for f in os.listdir(downloads))
    wait_for(some, "half of the download")
    p.kill()
    pause.set()
    w.host.finish(p)
    w.nothing_left()
    w.publish(SIMPLE, data, etag=True)
    w.web.forget()
    equal(w.fetch(SIMPLE).out, image_id(data) + "\n")
    ranges = [h.get("Range") for u, h in w.web.requests if u == SIMPLE]
    true(ranges and ranges[0] and ranges[0] != "bytes=0-", "it was not resumed: %r" % ranges)
    equal(os.listdir(downloads), [])


@world
def interrupted(w):
    w.trust()
    pause = threading.Event()
    w.publish(SIMPLE, w.image(content="x" * 4000000), cut=2000000, pause=pause)
    p = w.host.start("--config-dir=" + w.config, "fetch", SIMPLE, env=w.web.env())
    wait_for(lambda: SIMPLE in w.web.asked() and at_rest(p.pid), "that it waits for the rest")
    p.send_signal(signal.SIGINT)
    r = w.host.finish(p, 10)
    pause.set()
    equal((r.rc, r.out), (-signal.SIGINT, ""))
    lacks(r.err, "Error")
    w.nothing_left()


# --- Output ---------------------------------------------------------------------------------------------------------------

def on_terminal(w, *args, columns=60):
    """The output of acnspawn on a terminal, and its exit status."""
    import fcntl
    import struct
    import termios
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.clear()
        os.environ.update(w.web.env(TERM="xterm", LC_ALL="C.UTF-8"))
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 10, columns, 0, 0))
        os.execv(ACNSPAWN, w.host.argv("--config-dir=" + w.config, *args))
    out = b""
    while select.select([fd], [], [], 30)[0]:
        try:
            data = os.read(fd, 65536)
        except OSError:
            break
        if not data:
            break
        out += data
    _, status = os.waitpid(pid, 0)
    os.close(fd)
    return out.decode(errors="replace"), status


@world
def progress_on_a_terminal(w):
    w.trust()
    data = w.image("example.com/a-name-that-is-rather-long-for-a-line", content="x" * 3000000)
    url = "https://example.com/a-name-that-is-rather-long-for-a-line.aci"
    w.publish(url, data)
    out, status = on_terminal(w, "fetch", url)
    equal(status, 0)
    contains(out, "\033[1A\033[J")
    contains(out, "Fetched " + url)
    contains(out, image_id(data))
    for line in re.sub(r"\033\[[0-9]*[A-Za-z]", "", out).replace("\r", "\n").split("\n"):
        if "%" in line or "looking" in line:
            true(len(line) < 60, "%d columns: %r" % (len(line), line))
    out, status = on_terminal(w, "fetch", "--quiet", url)
    lacks(out, "\033[")


# --- Directories and special files
# ----------------------------------------------------------------------------------------

@world
def a_fifo_without_a_writer(w):
    fifo = w.host.path("fifo")
    os.mkfifo(fifo)
    p = w.host.start("fetch", fifo)
    line = p.stderr.readline().decode()
    contains(line, "Waiting for data from")
    contains(line, fifo)
    data = w.image()
    with open(fifo, "wb") as f:
        f.write(data)
    r = w.host.finish(p)
    equal((r.rc, r.out), (0, image_id(data) + "\n"))


@world
def files_that_are_no_images(w):
    for path, what in ((w.host.tmp, "is a directory"), ("/dev/null", "is a device"), ("/dev/zero", "is a device")):
        contains(w.fetch(path, rc=1).err, what)
    contains(w.fetch("file:///x.aci", rc=1).err, "Give the path")
    contains(w.fetch("gopher://example.com/x.aci", rc=1).err, "https")
    contains(w.fetch("oci:", rc=1).err, "not complete")
    contains(w.fetch("-", "-", rc=2).err, "only once")
    w.fetch("--insecure-options=everything", "x", rc=2)
    w.fetch("--pull-policy=sometimes", "x", rc=2)


# --- Pods -----------------------------------------------------------------------------------------------------------------

@world
def a_pod_of_an_image_not_fetched_yet(w):
    w.trust()
    w.publish(SIMPLE, _read(w.host.shell("echo fetched", name="example.com/app",
                                         labels=[{"name": "version", "value": "1.0"}, {"name": "os", "value": "linux"},
                                                 {"name": "arch", "value": os_arch()}])))
    contains(w.run("prepare", "--pull-policy=never", "example.com/app:1.0", rc=1).err, "No image in the store")
    w.run("prepare", "example.com/app:1.0")
    equal(len(w.ids()), 1)
    w.run("rm", w.run("list", "--json=short") and json.loads(w.run("list", "--json=short").out)[0]["uuid"])
    w.run("image", "rm", w.ids()[0])
    contains(w.run("run", "example.com/app:1.0").out, "fetched")
    contains(w.run("run", "example.com/none:1.0", rc=1).err, "Cannot fetch the image example.com/none:1.0")
    r = w.run("run", "example.com/ap", rc=1)
    contains(r.err, "Cannot fetch the image example.com/ap")
    contains(r.err, "Did you mean example.com/app:1.0")
    r = w.run("run", "nothing", rc=1)
    contains(r.err, "neither a pod nor an image")
    contains(r.err, "'acnspawn run docker://nothing'")
    for verb in "fetch", "prepare":
        contains(w.run(verb, "nothing:1.0", rc=1).err, "'docker://nothing:1.0'")


@world
def a_name_of_a_registry_is_told_before_the_network_is_asked(w):
    note = "Looking for library/nginx on the host 'library'. If it is an image of a registry, it is named 'docker://library/nginx'.\n"
    for options in [], ["--update"]:
        r = w.fetch(*options, "library/nginx", rc=1)
        contains(r.err[:r.err.index("Error: ")], note, "what is told before the error")
    lacks(w.fetch("example.com/none:1.0", rc=1).err, "Looking for", "what is told of a name with a host")
    lacks(w.run("fetch", "--pull-policy=never", "library/nginx", rc=1).err, "Looking for", "what is told without a network")


@world
def a_pod_manifest_that_names_images(w):
    w.trust()
    data = w.image()
    w.publish(SIMPLE, data)
    manifest = {"acKind": "PodManifest", "acVersion": "0.8.11", "apps": [
        {"name": "app", "image": {"name": "example.com/app", "id": image_id(data),
                                  "labels": [{"name": "version", "value": "1.0"}]}}]}
    path = w.host.path("pod.json")
    with open(path, "w") as f:
        json.dump(manifest, f)
    w.run("prepare", "--pod-manifest=" + path)
    equal(w.ids(), [image_id(data)])


if __name__ == "__main__":
    main()
