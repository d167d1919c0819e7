#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn update: apps of running pods that are replaced by those of newer images, from a registry, a web server, files and the
store; and what happens if the newer one is not any good."""

import signal
import threading

from registry_server import *
from signed_web import World, image_id, next_second
from web import Web

STAY = "trap 'exit 0' TERM; touch /up; while :; do sleep 0.05; done"
HTTP = "--insecure-options=http"


def say(version, script=STAY):
    return "echo version %s; %s" % (version, script)


def publish(host, registry, version, name="app:1"):
    script = "trap 'exit 0' TERM; while :; do busybox sleep 0.05; done"
    registry.push(make_layout(host, say(version, script), name="layout-%s" % version), name)
    return "docker://%s/%s" % (registry.address, name)


def image(host, version, name="example.com/web", path=None, script=STAY, **more):
    """A file with an image of that name, whose app says which version it is."""
    made = host.shell(say(version, script), name=name, **more)
    if path:
        os.replace(made, path)
    return path or made


def fetch(host, *args):
    return host.acnspawn("fetch", HTTP, *args).expect(0).out.strip()


def update(host, *args, rc=0, **more):
    return host.acnspawn("update", HTTP, *args, **more).expect(rc)


def rows(host, *args, rc=0, **more):
    return [(r["pod"], r["app"], r["result"]) for r in json.loads(update(host, "--json", *args, rc=rc, **more).out)]


def run(host, name, *args, **more):
    return host.acnspawn("run", "--detach", "--name=" + name, HTTP, *args, **more).expect(0).out.strip()


def said(host, pod, app, version):
    wait_for(lambda: ("version %s\n" % version) in host.acnspawn("logs", "--app=" + app, pod).expect(0).out,
             "version %s of app %s" % (version, app))


def image_of(host, pod, app):
    return host.app_status(pod, app)["imageID"]


# --- Registries --------------------------------------------------------------------------------------------------------

@case
@with_timeout(180)
def the_registry_has_a_newer_image(host):
    registry = Registry(host)
    reference = publish(host, registry, 1)
    run(host, "one", reference, "--name=web", "--image-policy=registry")
    run(host, "two", "--image-policy=registry", reference, "--name=web")
    run(host, "other", reference, "--name=web")
    first = image_of(host, "one", "web")
    equal(host.app_status("one", "web")["imagePolicy"], "registry")
    equal(host.app_status("other", "web")["imagePolicy"], "none")
    contains(host.acnspawn("status", "one").expect(0).out, "image policy registry")

    # Nothing is newer: one request, for both pods.
    before = len(registry.requests())
    equal(rows(host), [("one", "web", "current"), ("two", "web", "current")])
    equal(len(registry.requests()), before + 1, "requests")

    publish(host, registry, 2)
    table = json.loads(update(host, "--dry-run", "--json").out)
    equal([(r["pod"], r["result"], r["currentID"], r["image"], r["policy"]) for r in table],
          [(p, "available", first, reference, "registry") for p in ("one", "two")])
    newer = table[0]["newerID"]
    true(newer != first and newer == table[1]["newerID"], "the newer ID is %s" % newer)
    equal(image_of(host, "one", "web"), first)
    shown = update(host, "--dry-run").out
    for word in ("POD", "RESULT", "available", "one", reference):
        contains(shown, word)
    lacks(update(host, "--dry-run", "--no-legend").out, "RESULT")
    equal(update(host, "--dry-run", "--format={pod} {result}").out, "one available\ntwo available\n")

    # One by name, then all.
    equal(rows(host, "one"), [("one", "web", "replaced")])
    said(host, "one", "web", 2)
    equal((image_of(host, "one", "web"), image_of(host, "two", "web")), (newer, first))
    equal(rows(host), [("one", "web", "current"), ("two", "web", "replaced")])
    equal([image_of(host, p, "web") for p in ("one", "two", "other")], [newer, newer, first])

    # What comes after it has the newer image, too, and its policy.
    host.acnspawn("stop", "one").expect(0)
    contains(update(host, "one", rc=1).err, "Pod one is not running, but exited")
    host.acnspawn("run", "--detach", "one").expect(0)
    equal((image_of(host, "one", "web"), host.app_status("one", "web")["imagePolicy"]), (newer, "registry"))
    equal(rows(host, "one"), [("one", "web", "current")])
    host.acnspawn("stop", "one", "two", "other").expect(0)


@case
def a_tag_is_not_the_version_of_an_image(host):
    """The store has the image by the tag 1.5 first; the app's tag, 1, means the same, and then a newer one."""
    registry = Registry(host)
    reference = publish(host, registry, 1)
    registry.push(host.path("layout-1") + ":1", "app:1.5")
    fetch(host, reference + ".5")
    run(host, "p", reference, "--name=web", "--image-policy=registry")
    contains(host.acnspawn("image", "cat-manifest", image_of(host, "p", "web")).expect(0).out, '"1.5"', "manifest")
    publish(host, registry, 2)
    equal(rows(host), [("p", "web", "replaced")])
    said(host, "p", "web", 2)
    host.acnspawn("stop", "p").expect(0)


@case
@with_timeout(120)
def a_registry_that_cannot_be_reached(host):
    registry = Registry(host)
    reference = publish(host, registry, 1)
    run(host, "a", reference, "--name=web", "--image-policy=registry")
    fetch(host, image(host, 1))
    run(host, "b", "example.com/web", "--name=web", "--image-policy=local")
    fetch(host, image(host, 2))
    registry.process.kill()
    registry.process.wait()
    r = update(host, "--json", rc=1)
    equal([(x["pod"], x["result"]) for x in json.loads(r.out)], [("a", "failed"), ("b", "replaced")])
    for word in ("Pod a: app web (%s)" % reference, registry.address):
        contains(r.err, word)
    said(host, "b", "web", 2)
    said(host, "a", "web", 1)
    host.acnspawn("stop", "a", "b").expect(0)


@case
@with_timeout(120)
def a_pod_starts_while_the_registry_is_away(host):
    """--pull-policy=update: of what is in the store, with a warning; what is not in the store cannot be started."""
    registry = Registry(host)
    reference = publish(host, registry, 1)
    options = ("run", "--detach", "--name=p", HTTP, "--pull-policy=update")
    with Web(host.path("web"), ["example.com"]) as web:
        base = open(host.shell(say(1), name="example.com/base"), "rb").read()
        more = image_manifest("example.com/app", {"exec": ["/bin/sh", "-c", say(1)], "user": "0", "group": "0"},
                              dependencies=[{"imageName": "example.com/base"}])
        for name, data in ("base", base), ("app", open(write_aci(host.path("app.aci"), more, {}), "rb").read()):
            for url in "https://example.com/%s-latest-linux-%s.aci" % (name, os_arch()), "https://example.com/%s-1-linux-%s.aci" % (name, os_arch()), \
                    "https://example.com/%s.aci" % name:
                web.put(url, data, etag=True)
        words = (reference, "--name=a", "---", "example.com/app", "--name=b")
        env = web.env(no_proxy="127.0.0.1")
        signed = ("--insecure-options=http,signature",)
        host.acnspawn(*options, *signed, *words, env=env).expect(0)
        before = [image_of(host, "p", app) for app in "ab"]
        host.acnspawn("rm", "--force", "p").expect(0)
        # What the server says about the image counts.
        host.acnspawn("fetch", *signed, "https://example.com/app.aci", env=env).expect(0)
        del web.pages["https://example.com/base.aci"]
        contains(host.acnspawn(*options, *signed, "https://example.com/base.aci", env=env).expect(1).err, "the server does not have it")
        web.put("https://example.com/app.aci", b"", status=400)
        contains(host.acnspawn(*options, *signed, "https://example.com/app.aci", env=env).expect(1).err, "does not understand the request (400)")
    registry.process.kill()
    registry.process.wait()
    r = host.acnspawn(*options, *signed, *words, env=env).expect(0)
    used = "The image %s of the store is used, as its server cannot be asked for a newer one: %s"
    for what in reference, "example.com/app":
        contains(r.err, used % (what, "Cannot fetch"))
    # A host that was not reached is not asked once more.
    contains(r.err, used % ("example.com/base", "example.com was not reached before."))
    equal([image_of(host, "p", app) for app in "ab"], before)
    host.acnspawn("rm", "--force", "p").expect(0)
    r = host.acnspawn(*options, *signed, reference, "--name=a", "---", reference, "--name=b", env=env).expect(0)
    contains(r.err, used % (reference, "%s was not reached before." % registry.address))
    host.acnspawn("rm", "--force", "p").expect(0)
    host.acnspawn("fetch", *signed, "--pull-policy=update", reference, env=env).expect(1)
    host.acnspawn(*options, *signed, reference + "x", env=env).expect(1)


CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

/* Ten days after the epoch. */
#define NOW (10 * 86400)

time_t time(time_t *t)
{
        return t ? *t = NOW : NOW;
}

int clock_gettime(clockid_t id, struct timespec *t)
{
        int (*next)(clockid_t, struct timespec *) = (int (*)(clockid_t, struct timespec *)) dlsym(RTLD_NEXT, "clock_gettime");
        int r = next(id, t);

        if (r == 0 && id == CLOCK_REALTIME)
                t->tv_sec = NOW;
        return r;
}
"""


@case
@with_timeout(120)
def a_host_whose_clock_is_not_set_yet(host):
    """The certificate of each server is from the future: the image of the store is used, and the warning names the clock."""
    clock = library(host, "clock", CLOCK)
    url, options = "https://example.com/web.aci", ("--insecure-options=signature", "--pull-policy=update")
    with Web(host.path("web"), ["example.com"]) as web:
        web.put(url, open(image(host, 1), "rb").read())
        early = web.env(LD_PRELOAD=clock)
        r = host.acnspawn("prepare", *options, url, env=early).expect(1)
        contains(r.err, "as the clock of this host is wrong: it is at 1970-01-11")
        host.acnspawn("prepare", *options, url, env=web.env()).expect(0)
        r = host.acnspawn("prepare", *options, url, env=early).expect(0)
        contains(r.err, "The image %s of the store is used, as its server cannot be asked for a newer one: " % url)
        contains(r.err, "the clock of this host is wrong")
        # A certificate that is refused for another reason is the server's.
        r = host.acnspawn("prepare", *options, url, env=dict(web.env(), SSL_CERT_FILE="/etc/ssl/certs/ca-certificates.crt")).expect(1)
        contains(r.err, "certificate")


# --- Servers, files, the store -----------------------------------------------------------------------------------------

@case
@with_timeout(120)
def an_image_of_a_url(host):
    with Web(host.path("web"), ["example.com"]) as web:
        read = lambda path: open(path, "rb").read()
        web.put("https://example.com/web.aci", read(image(host, 1)), etag=True)
        more = {"env": web.env()}
        run(host, "p", "--insecure-options=signature", "https://example.com/web.aci", "--name=web", "--image-policy=registry", **more)
        signed = "--insecure-options=signature"
        equal(rows(host, signed, **more), [("p", "web", "current")])
        equal(web.statuses[-1], 304, "status of the request")
        web.put("https://example.com/web.aci", read(image(host, 2)), etag=True)
        # Verified as always: without its signature it is not taken.
        r = update(host, rc=1, **more)
        contains(r.err, "Pod p: app web (https://example.com/web.aci)")
        contains(r.err, "signature")
        equal(rows(host, signed, **more), [("p", "web", "replaced")])
        said(host, "p", "web", 2)
        host.acnspawn("stop", "p").expect(0)


def build(w, n, name="example.com/web", version="1.0"):
    """The bytes of an image whose label "build" differs each time."""
    labels = [{"name": "version", "value": version}, {"name": "os", "value": "linux"}, {"name": "arch", "value": os_arch()},
              {"name": "build", "value": str(n)}]
    with open(image(w.host, n, name=name, labels=labels), "rb") as f:
        return f.read()


@case
@with_timeout(120)
def a_server_with_an_older_image_or_another_one(host):
    """Both are signed by a trusted key: an app that runs is not replaced by them."""
    if not shutil.which("gpg"):
        raise Skip("gpg is missing")
    url = "https://example.com/web.aci"
    with World(host) as w:
        w.trust("example.com")
        old, new, other = build(w, 1), build(w, 2), build(w, 3, name="example.com/other")
        signature = w.key().sign(old)
        next_second()
        w.publish(url, new)
        w.run("run", "--detach", "--name=p", url, "--name=web", "--image-policy=registry")

        def rows(*args, rc=0):
            r = w.run("update", "--json", *args, rc=rc)
            return [(x["app"], x["result"]) for x in json.loads(r.out)], r.err
        w.web.put(url, old)
        w.web.put(url + ".asc", signature)
        for args in (), ("--dry-run",), ("p",), ("--retry",):
            got, err = rows(*args, rc=1)
            equal(got, [("web", "failed")], "result with %r" % (args,))
            for part in ("Pod p: app web (%s): It means the image %s by now, which was signed on " % (url, image_id(old)[:19]),
                         "before the app's image, on ", "update --allow-older"):
                contains(err, part, "message with %r" % (args,))
        equal(host.app_status("p", "web")["imageID"], image_id(new), "image of the app")
        # Nor by another name, whichever options there are; it is signed by the same key, and newer.
        w.publish(url, other)
        for args in (), ("--allow-older",):
            got, err = rows(*args, rc=1)
            equal(got, [("web", "failed")], "result with %r" % (args,))
            for part in ("It means the image %s by now, which is example.com/other, but the app's image is example.com/web" % image_id(other)[:19],
                         "acnspawn update-app --image="):
                contains(err, part, "message with %r" % (args,))
        said(host, "p", "web", 2)
        w.web.put(url, old)
        w.web.put(url + ".asc", signature)
        equal(rows("--allow-older", "--dry-run")[0], [("web", "available")])
        equal(rows("--allow-older")[0], [("web", "replaced")])
        said(host, "p", "web", 1)
        w.publish(url, new)
        equal(rows()[0], [("web", "replaced")])
        host.acnspawn("stop", "p").expect(0)


@case
def versions_that_go_back_without_signatures(host):
    """Where there are no signatures the version decides, if it is a number."""
    path = host.path("web.aci")

    def put(n, version):
        labels = [{"name": "version", "value": version}, {"name": "os", "value": "linux"}, {"name": "arch", "value": os_arch()}]
        image(host, n, path=path, labels=labels)
    put(1, "2.10")
    run(host, "p", path, "--name=web", "--image-policy=local")
    put(2, "2.9")
    r = update(host, rc=1)
    contains(r.err, "whose version 2.9 is before that of the app's image, 2.10")
    contains(r.err, "--allow-older")
    said(host, "p", "web", 1)
    equal(rows(host, "--allow-older"), [("p", "web", "replaced")])
    said(host, "p", "web", 2)
    for n, version in (3, "2.9"), (4, "f00d"), (5, "beef"), (6, "9f00dab"), (7, "1"), (8, "1beef01"), (9, "0dab001"):
        put(n, version)
        equal(rows(host), [("p", "web", "replaced")], "version " + version)
    host.acnspawn("stop", "p").expect(0)


@case
@with_timeout(120)
def a_server_that_takes_too_long(host):
    with Web(host.path("web"), ["example.com"]) as web:
        read = lambda path: open(path, "rb").read()
        url, more = "https://example.com/web.aci", {"env": web.env()}
        web.put(url, read(image(host, 1)), etag=True)
        run(host, "p", "--insecure-options=signature", url, "--name=web", "--image-policy=registry", **more)
        run(host, "q", "--insecure-options=signature", url, "--name=web", "--image-policy=registry", **more)
        fetch(host, image(host, 1, "example.com/other"))
        run(host, "z", "example.com/other", "--name=web", "--image-policy=local")
        fetch(host, image(host, 2, "example.com/other"))
        goes_on = threading.Event()
        newer = read(image(host, 2))
        web.put(url, newer, etag=True, cut=len(newer) // 2, pause=goes_on)
        web.forget()
        r = update(host, "--insecure-options=signature", "--fetch-timeout=1s", "--json", rc=1, **more)
        equal([(x["pod"], x["result"]) for x in json.loads(r.out)], [("p", "failed"), ("q", "failed"), ("z", "replaced")])
        contains(r.err, "Pod p: app web (%s): Fetching the image took longer than 1 s" % url)
        contains(r.err, "--fetch-timeout=")
        said(host, "z", "web", 2)
        equal(len(web.asked("web.aci")), 1, "requests")
        goes_on.set()
        equal(rows(host, "--insecure-options=signature", "p", "q", **more), [("p", "web", "replaced"), ("q", "web", "replaced")])
        true(206 in web.statuses, "it was continued: %r" % web.statuses)
        contains(host.acnspawn("update", "--fetch-timeout=0").expect(2).err, "--fetch-timeout= must be longer than 0")
        host.acnspawn("stop", "p", "q", "z").expect(0)


@case
def images_of_the_store_and_of_files(host):
    path = host.path("web.aci")
    fetch(host, image(host, 1, name="example.com/named"))
    run(host, "p", "example.com/named", "--name=named", "--image-policy=local", "---", image(host, 1, path=path), "--name=file",
        "--image-policy=local", "---", image(host, 1, name="example.com/plain"), "--name=plain")
    equal(rows(host), [("p", "named", "current"), ("p", "file", "current")])
    fetch(host, image(host, 2, name="example.com/named"))
    image(host, 2, path=path)
    equal(rows(host), [("p", "named", "replaced"), ("p", "file", "replaced")])
    said(host, "p", "named", 2)
    said(host, "p", "file", 2)
    said(host, "p", "plain", 1)
    # An app that does not run is replaced without being started.
    host.acnspawn("stop-app", "p", "named").expect(0)
    fetch(host, image(host, 3, name="example.com/named"))
    # A pod that is named twice is updated once.
    equal(rows(host, "p", "p"), [("p", "named", "replaced"), ("p", "file", "current")])
    equal(host.app_status("p", "named")["state"], "waiting")
    os.unlink(path)
    r = update(host, "--json", rc=1)
    equal([x["result"] for x in json.loads(r.out)], ["current", "failed"])
    contains(r.err, "Pod p: app file (%s)" % path)
    host.acnspawn("stop", "p").expect(0)


@case
def apps_are_replaced_in_the_order_in_which_they_start(host):
    names = ("c", "b", "a")
    for n in names:
        fetch(host, image(host, 1, name="example.com/" + n))
    run(host, "p", "--image-policy=local", "example.com/c", "--name=c", "--after=b", "---", "example.com/b", "--name=b", "--after=a", "---",
        "example.com/a", "--name=a")
    for n in names:
        fetch(host, image(host, 2, name="example.com/" + n))
    equal(rows(host), [("p", n, "replaced") for n in ("a", "b", "c")])
    host.acnspawn("stop", "p").expect(0)


# --- Images that fail --------------------------------------------------------------------------------------------------

@case
@with_timeout(120)
def an_image_that_does_not_get_ready_is_not_tried_again(host):
    bad = {"app": {"exec": ["/bin/missing"], "user": "0", "group": "0"}}
    for pod in "a", "b":
        fetch(host, image(host, 1, name="example.com/" + pod))
        run(host, pod, "example.com/" + pod, "--name=web", "--image-policy=local")
    good = image_of(host, "a", "web")
    failed = fetch(host, image(host, 2, name="example.com/a", **bad))
    fetch(host, image(host, 2, name="example.com/b"))
    equal(json.loads(update(host, "--dry-run", "--json", "a").out)[0]["result"], "available")
    r = update(host, "--json", rc=1)
    equal([(x["pod"], x["result"]) for x in json.loads(r.out)], [("a", "rolled back"), ("b", "replaced")])
    for text in ("Pod a: app web (example.com/a)", "could not be started with the image", "of the old image runs again", "--retry"):
        contains(r.err, text)
    equal((image_of(host, "a", "web"), host.app_status("a", "web")["failedImageID"]), (good, failed))
    contains(host.acnspawn("status", "a").expect(0).out, "image policy local; %.19s failed" % failed)

    # Neither is the app stopped again for it, nor is that a failure.
    starts = host.app_status("a", "web")["starts"]
    r = update(host, "--json")
    equal([(x["pod"], x["result"], x["newerID"]) for x in json.loads(r.out)], [("a", "failed before", failed), ("b", "current", None)])
    contains(r.err, "Pod a: app web: image %.19s (example.com/a) failed before; --retry tries it again" % failed)
    equal(host.app_status("a", "web")["starts"], starts)
    equal(rows(host, "--retry", "a", rc=1), [("a", "web", "rolled back")])

    # Another one is tried, and then nothing is left of the failure.
    fetch(host, image(host, 3, name="example.com/a"))
    equal(rows(host, "a"), [("a", "web", "replaced")])
    equal(host.app_status("a", "web")["failedImageID"], None)
    said(host, "a", "web", 3)
    host.acnspawn("stop", "a", "b").expect(0)


@case
def the_time_to_get_ready_is_limited(host):
    fetch(host, image(host, 1))
    run(host, "p", "example.com/web", "--name=web", "--image-policy=local", "--health-cmd=test -e /up", "--health-interval=100ms",
        "--health-start-period=60s")
    fetch(host, image(host, 2, script="while :; do sleep 0.05; done"))
    equal(rows(host, "--ready-timeout=1s", rc=1), [("p", "web", "rolled back")])
    wait_for(lambda: host.app_status("p", "web")["ready"], "the old app to be ready again")
    contains(update(host, "--ready-timeout=0", rc=2).err, "must be longer than 0")
    host.acnspawn("stop", "p").expect(0)


@case
@with_timeout(120)
def a_new_app_whose_check_never_succeeds_is_rolled_back(host):
    """The old app is put back once the check has failed often enough to make the new one unhealthy, whatever its action
    is, and without a time-out."""
    actions = {"a": "none", "b": "restart", "c": "stop", "d": "kill"}
    for pod, action in actions.items():
        fetch(host, image(host, 1, "example.com/" + pod))
        run(host, pod, "example.com/" + pod, "--name=web", "--image-policy=local", "--health-cmd=test -e /up", "--health-interval=100ms",
            "--health-retries=10", "--health-on-failure=" + action)
    fetch(host, image(host, 1, "example.com/z"))
    run(host, "z", "example.com/z", "--name=web", "--image-policy=local")
    for pod in (*actions, "z"):
        fetch(host, image(host, 2, "example.com/" + pod, script=STAY if pod == "z" else "while :; do sleep 0.05; done"))
    with within(30, "an update with four apps that do not get healthy"):
        r = update(host, "--json", rc=1)
    equal({x["pod"]: x["result"] for x in json.loads(r.out)}, dict({p: "rolled back" for p in actions}, z="replaced"))
    for pod in actions:
        contains(r.err, "Pod %s: app web (example.com/%s)" % (pod, pod))
        wait_for(lambda: host.app_status(pod, "web")["health"]["state"] == "healthy", "the old app to be healthy again")
        said(host, pod, "web", 1)
    contains(r.err, "its health check has failed 10 times")
    host.acnspawn("stop", *actions, "z").expect(0)


@case
@with_timeout(120)
def updates_of_pods_are_independent_and_survive_their_client(host):
    options = ["--name=web", "--image-policy=local"]
    for pod in "a", "z":
        fetch(host, image(host, 1, "example.com/" + pod))
    run(host, "a", "example.com/a", *options, "--health-cmd=test -e /up", "--health-interval=100ms", "--health-start-period=1h")
    run(host, "z", "example.com/z", *options)
    first = image_of(host, "a", "web")
    fetch(host, image(host, 2, "example.com/a", script="echo starts; while :; do sleep 0.05; done"))
    newer = fetch(host, image(host, 2, "example.com/z"))
    p = host.start("update", HTTP)
    wait_for(lambda: image_of(host, "z", "web") == newer, "the app of the other pod to be replaced")
    wait_for(lambda: "starts" in host.acnspawn("logs", "--app=web", "a").out, "the start of the new app")
    equal(p.poll(), None)
    equal(host.app_status("a", "web")["newImageID"], json.loads(update(host, "--dry-run", "--json", "a").out)[0]["newerID"])
    contains(host.acnspawn("status", "a").expect(0).out, "is being replaced by example.com/a sha512-")
    p.kill()
    host.finish(p)
    # The next update undoes a replacement whose caller has disconnected.
    with within(20, "an update after one that was killed"):
        equal(rows(host, "--ready-timeout=1s", "a", rc=1), [("a", "web", "rolled back")])
    equal((image_of(host, "a", "web"), host.app_status("a", "web")["newImageID"]), (first, None))
    wait_for(lambda: host.app_status("a", "web")["ready"], "the old app to be ready again")
    fetch(host, image(host, 3, "example.com/a"))
    equal(rows(host, "a"), [("a", "web", "replaced")])
    host.acnspawn("stop", "a", "z").expect(0)


# --- Policies ----------------------------------------------------------------------------------------------------------

@case
def policies_that_make_no_sense_are_refused(host):
    path = image(host, 1)
    r = host.acnspawn("prepare", path, "--image-policy=registry").expect(1)
    contains(r.err, "'%s' is not on the network, and --image-policy=registry is for names, URLs and docker:// references" % path)
    contains(r.err, "--image-policy=local")
    r = host.acnspawn("prepare", "-", "--image-policy=local", input=open(path, "rb").read()).expect(1)
    contains(r.err, "read from standard input")
    contains(host.acnspawn("prepare", path, "--image-policy=never").expect(2).err, "must be registry, local or none")
    contains(host.acnspawn("prepare", "--image-policy=x", path).expect(2).err, "must be registry, local or none")
    equal(host.pods(), [])


@case
def pods_that_do_not_run(host):
    """They are an error, or passed over on request, as timers of pods need it."""
    fetch(host, image(host, 1))
    run(host, "p", "example.com/web", "--name=web", "--image-policy=local")
    host.acnspawn("prepare", "--name=q", "example.com/web", "--image-policy=local").expect(0)
    fetch(host, image(host, 2))
    contains(update(host, "q", rc=1).err, "Pod q is not running, but prepared")
    contains(update(host, "none", rc=1).err, "There is no pod 'none'")
    equal(rows(host, "--if-running", "q", "none", "p"), [("p", "web", "replaced")])
    equal(update(host, "--if-running", "q", "none").err, "")
    contains(update(host, "--if-running", rc=2).err, "--if-running is for pods that are named")
    host.acnspawn("stop", "p").expect(0)


@case
def pods_that_cannot_be_updated_just_now(host):
    """One that is paused, or that another call changes, is no failure of an update of all pods, as a timer does it each night, nor with --if-running."""
    fetch(host, image(host, 1))
    for name in "p", "q", "r":
        run(host, name, "example.com/web", "--name=web", "--image-policy=local", "--health-cmd=test -e /up", "--health-interval=100ms",
            "--health-start-period=1h")
    fetch(host, image(host, 2))
    host.acnspawn("pause", "p").expect(0)
    equal(rows(host), [("p", "web", "passed over"), ("q", "web", "replaced"), ("r", "web", "replaced")])
    contains(update(host, "--if-running", "p").err, "Pod p is paused")
    contains(update(host, "p", rc=1).err, "Pod p is paused")
    host.acnspawn("resume", "p").expect(0)
    equal(rows(host, "p"), [("p", "web", "replaced")])
    # Another update is under way, whose app does not get ready.
    fetch(host, image(host, 3, script="echo starts; while :; do sleep 0.05; done"))
    p = host.start("update", HTTP, "p")
    wait_for(lambda: "starts" in host.acnspawn("logs", "--app=web", "p").out, "the start of the new app")
    fetch(host, image(host, 4))
    equal(rows(host), [("p", "web", "passed over"), ("q", "web", "replaced"), ("r", "web", "replaced")])
    contains(update(host, "p", rc=1).err, "App web of pod p is just being replaced")
    # A pod that ends while its app is replaced.
    host.acnspawn("stop", "--force", "p").expect(0)
    host.finish(p).expect(1)
    host.acnspawn("stop", "q", "r").expect(0)


@case
def pods_that_end_during_their_update(host):
    """One that was stopped is passed over; that one dies with its new app is a failure of the update, also without names."""
    fetch(host, image(host, 1, name="example.com/waits"))
    for stops, name in (True, "example.com/a"), (False, "example.com/b"):
        fetch(host, image(host, 1, name))
        run(host, "p", name, "--name=web", "--image-policy=local", "--health-cmd=test -e /up", "--health-interval=100ms",
            "--health-start-period=1h", "---", "example.com/waits", "--name=waits", "--image-policy=local")
        fetch(host, image(host, 2, name, script="trap 'exit 0' TERM; echo starts; while :; do sleep 0.05; done"))
        p = host.start("update", HTTP, "--json")
        wait_for(lambda: "starts" in host.acnspawn("logs", "--app=web", "p").out, "the start of the new app")
        if stops:
            host.acnspawn("stop", "p").expect(0)
        else:
            os.kill(host.supervisor(host.status("p")["uuid"]), signal.SIGKILL)
        r = host.finish(p).expect(0 if stops else 1)
        equal([(x["app"], x["result"]) for x in json.loads(r.out)], [("web", "passed over" if stops else "failed"), ("waits", "current")])
        contains(r.err, "Pod p: app web")
        wait_for(lambda: host.state("p") == "exited", "the end of the pod")
        host.acnspawn("rm", "p").expect(0)


@case
def a_stop_during_an_update_is_no_failure_of_the_image(host):
    """The new app ends before the pod does, which waits for another app: the old one is not put back, and the image is tried again."""
    os.mkdir(host.path("signals"))
    os.chmod(host.path("signals"), 0o777)
    fetch(host, image(host, 1))
    run(host, "p", "example.com/web", "--name=web", "--image-policy=local", "--health-cmd=test -e /up", "--health-interval=100ms",
        "--health-start-period=1h", "---", host.shell("trap 'until [ -e /signals/go ]; do sleep 0.05; done; exit 0' TERM; touch /out/up; "
                                                      "while :; do sleep 0.05; done", name="example.com/last"), "--name=last",
        "--volume=%s:/signals" % host.path("signals"))
    host.wait_up("last")
    fetch(host, image(host, 2, script="trap 'exit 0' TERM; echo starts; while :; do sleep 0.05; done"))
    p = host.start("update", HTTP, "--json")
    wait_for(lambda: "starts" in host.acnspawn("logs", "--app=web", "p").out, "the start of the new app")
    stop = host.start("stop", "p")
    wait_for(lambda: host.app_status("p", "web")["state"] == "ended", "the end of the new app")
    open(host.path("signals", "go"), "w").close()
    host.finish(stop).expect(0)
    r = host.finish(p).expect(0)
    equal(([(x["app"], x["result"]) for x in json.loads(r.out)], host.status("p")["exitStatus"]), ([("web", "passed over")], 0))
    lacks(r.err, "runs again")
    host.acnspawn("run", "--detach", "p").expect(0)
    equal([(x["app"], x["newerID"] is not None) for x in json.loads(host.acnspawn("update", HTTP, "--json", "--dry-run").expect(0).out)], [("web", True)])
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def an_app_that_is_removed_before_its_turn(host):
    """It is no failure of an update of all pods; the app before it in its pod gets ready late."""
    os.mkdir(host.path("signals"))
    os.chmod(host.path("signals"), 0o777)
    fetch(host, image(host, 1))
    fetch(host, image(host, 1, name="example.com/next"))
    run(host, "p", "example.com/web", "--name=web", "--image-policy=local", "--health-cmd=test -e /up", "--health-interval=100ms",
        "--health-start-period=1h", "--volume=%s:/signals" % host.path("signals"), "---", "example.com/next", "--name=next", "--image-policy=local",
        "--after=web")
    fetch(host, image(host, 2, script="echo starts; until [ -e /signals/go ]; do sleep 0.05; done; " + STAY))
    fetch(host, image(host, 2, name="example.com/next"))
    p = host.start("update", HTTP, "--json")
    wait_for(lambda: "starts" in host.acnspawn("logs", "--app=web", "p").out, "the start of the new app")
    child, = children_of(p.pid)
    os.kill(child, signal.SIGSTOP)
    open(host.path("signals", "go"), "w").close()
    host.acnspawn("rm-app", "--force", "p", "next").expect(0)
    os.kill(child, signal.SIGCONT)
    r = host.finish(p).expect(0)
    equal([(x["app"], x["result"]) for x in json.loads(r.out)], [("web", "replaced"), ("next", "passed over")])
    contains(r.err, "Pod p has no app 'next'")
    host.acnspawn("stop", "p").expect(0)


@case
def apps_without_a_policy_are_left_alone(host):
    run(host, "p", "--image-policy=local", image(host, 1, name="example.com/a"), "--name=a", "--image-policy=none")
    contains(update(host).err, "No app of a running pod has an image policy")
    contains(update(host, "p").err, "No app of pod p has an image policy")
    equal(update(host, "--json").out.strip(), "[]")
    contains(update(host, "q", rc=1).err, "q")
    # Others come by add-app, and by pod manifests.
    host.acnspawn("add-app", "p", "--start", image(host, 1, name="example.com/b"), "--name=b", "--image-policy=local").expect(0)
    equal(rows(host), [("p", "b", "current")])
    host.acnspawn("stop", "p").expect(0)


@case
def pods_of_pod_manifests(host):
    one = fetch(host, image(host, 1))
    manifest = {"acVersion": "0.8.11", "acKind": "PodManifest", "apps": [
        {"name": "web", "image": {"name": "example.com/web"}, "annotations": [{"name": "acnspawn/image-policy", "value": "local"}]},
        {"name": "pinned", "image": {"id": one}, "annotations": [{"name": "acnspawn/image-policy", "value": "local"}]}]}
    with open(host.path("pod"), "w") as f:
        json.dump(manifest, f)
    host.acnspawn("run", "--detach", "--name=p", "--pod-manifest=" + host.path("pod")).expect(0)
    for version in 2, 3:
        fetch(host, image(host, version))
        r = update(host, "--json", rc=1)
        equal([(x["app"], x["result"]) for x in json.loads(r.out)], [("web", "replaced"), ("pinned", "failed")])
        contains(r.err, "Pod p: app pinned")
        contains(r.err, "names its image by the ID")
        said(host, "p", "web", version)
    newest = image_of(host, "p", "web")
    host.acnspawn("stop", "p").expect(0)
    host.acnspawn("run", "--detach", "p").expect(0)
    equal(image_of(host, "p", "web"), newest)
    host.acnspawn("stop", "p").expect(0)


@case
def a_declared_pod_is_updated_while_it_runs(host):
    os.makedirs(host.path("config/pods"))
    fetch(host, image(host, 1))
    with open(host.path("config/pods/shop.pod"), "w") as f:
        f.write("[Pod]\nImagePolicy=local\n[App web]\nImage=example.com/web\n[App other]\nImage=%s\nImagePolicy=none\n" %
                image(host, 1, name="example.com/other"))
    env = dict(os.environ, ACNSPAWN_CONFIG_DIR=host.path("config"))
    host.acnspawn("pod", "verify", "shop", env=env).expect(0)
    host.acnspawn("run", "--detach", "--declared=shop", env=env).expect(0)
    newer = fetch(host, image(host, 2))
    equal(rows(host), [("shop", "web", "replaced")])
    said(host, "shop", "web", 2)
    host.acnspawn("stop", "shop").expect(0)
    # Made of the file again, which says the same of a store that has another image.
    host.acnspawn("run", "--detach", "--declared=shop", env=env).expect(0)
    equal(image_of(host, "shop", "web"), newer)
    equal(rows(host), [("shop", "web", "current")])
    host.acnspawn("stop", "shop").expect(0)


if __name__ == "__main__":
    main()
