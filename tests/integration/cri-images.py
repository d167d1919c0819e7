#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Images by the Container Runtime Interface: pulled from a registry on the loopback interface, listed, found and removed."""

import base64
import socket
import threading

from cri_client import *
from registry_server import *

class ImageService(Service):
    """With a configuration that allows the registries to be used by HTTP, about which the service warns."""

    def __init__(self, host, *addresses, options=()):
        with open(host.path("registries.conf"), "w") as f:
            for a in addresses:
                f.write('[[registry]]\nlocation = "%s"\ninsecure = true\n' % a)
        with open(host.path("auth.json"), "w") as f:
            json.dump({"auths": {}}, f)
        os.chmod(host.path("auth.json"), 0o600)
        super().__init__(host, *options, env={"CONTAINERS_REGISTRIES_CONF": host.path("registries.conf"), "HOME": host.tmp,
                                    "REGISTRY_AUTH_FILE": host.path("auth.json")})

    def said(self):
        lines = super().said().splitlines(keepends=True)
        return "".join(l for l in lines if "insecure" not in l and "; trying again in " not in l)


def images(client, image=None):
    r = client.call("ListImages", filter={"image": {"image": image}} if image else None)
    return {i.id: i for i in r.images}


def config_digest(registry, name, tag):
    return json.loads(registry.get("/v2/%s/manifests/%s" % (name, tag), "application/vnd.oci.image.manifest.v1+json")[0])["config"]["digest"]


@case
def pulls_lists_and_removes(host):
    registry = Registry(host)
    layout = make_layout(host)
    registry.push(layout, "team/app:1")
    registry.push(layout, "team/app:stable")
    name = registry.address + "/team/app"
    with ImageService(host, registry.address) as s:
        c = s.client()
        equal(images(c), {})
        equal(c.call("ImageStatus", image={"image": name + ":1"}).HasField("image"), False)
        id = c.call("PullImage", image={"image": name + ":1"}).image_ref
        equal(id, config_digest(registry, "team/app", "1"))
        equal(c.call("PullImage", image={"image": name + ":stable"}).image_ref, id)
        image = images(c)[id]
        equal(sorted(image.repo_tags), [name + ":1", name + ":stable"])
        equal(len(image.repo_digests), 1)
        true(image.size > 0 and not image.pinned, "size, and no pin")
        # By all of its names.
        digest = image.repo_digests[0]
        for n in name + ":1", name + ":stable", digest, id, id.split(":")[1], id.split(":")[1][:13]:
            equal(list(images(c, n)), [id], n)
            equal(c.call("ImageStatus", image={"image": n}).image.id, id, n)
        equal(images(c, name + ":2"), {})
        equal(images(c, id.split(":")[1][:8]), {})
        equal([[i.id for i in r.images] for r in c.stream("StreamImages")], [[id]])
        info = json.loads(c.call("ImageStatus", image={"image": id}, verbose=True).info["info"])
        contains(host.acnspawn("image", "list").out, info["id"][:len("sha512-") + 8])
        # All of its names go with it; again is no failure.
        c.call("RemoveImage", image={"image": name + ":1"})
        equal(images(c), {})
        c.call("RemoveImage", image={"image": name + ":1"})
        c.call("RemoveImage", image={"image": id})


@case
def a_tag_moves(host):
    registry = Registry(host)
    layout = make_layout(host)
    registry.push(layout, "app:1")
    name = registry.address + "/app:1"
    with ImageService(host, registry.address) as s:
        c = s.client()
        old = c.call("PullImage", image={"image": name}).image_ref
        command("umoci", "config", "--image", layout, "--config.env", "A=b", "--config.user", "1000:1000")
        registry.push(layout, "app:1")
        new = c.call("PullImage", image={"image": name}).image_ref
        true(old != new, "another image")
        found = images(c)
        equal(sorted(found), sorted([old, new]))
        equal(list(found[new].repo_tags), [name])
        true(name not in found[old].repo_tags, "the tag to have moved")
        equal(found[new].uid.value, 1000)
        equal(c.call("ImageStatus", image={"image": name}).image.id, new)


@case
def images_of_the_store_by_name(host):
    image = host.shell("exit 0", name="example.com/worker")
    host.acnspawn("fetch", "--insecure-options=signature", image).expect()
    with ImageService(host) as s:
        c = s.client()
        (found,) = images(c).values()
        equal(list(found.repo_tags), ["example.com/worker:1"])
        equal(c.call("ImageStatus", image={"image": "example.com/worker"}).image.id, found.id)
        pod = host.acnspawn("prepare", "example.com/worker").expect().out.strip()
        status, message = c.refused("RemoveImage", image={"image": "example.com/worker"})
        equal(status, "FAILED_PRECONDITION")
        contains(message, pod[:8])
        host.acnspawn("rm", pod).expect()
        c.call("RemoveImage", image={"image": "example.com/worker"})
        equal(images(c), {})


@case
def pinned_images(host):
    for name in "kept", "other":
        host.acnspawn("fetch", "--insecure-options=signature", host.shell("exit 0", name="example.com/" + name)).expect()
    with Service(host, "--pinned-image=example.com/kept", "--pinned-image=example.com/none") as s:
        c = s.client()
        equal({i.repo_tags[0]: i.pinned for i in images(c).values()}, {"example.com/kept:1": True, "example.com/other:1": False})
        equal([c.call("ImageStatus", image={"image": "example.com/" + n}).image.pinned for n in ("kept", "other")], [True, False])


def registry_with_password(host):
    """With the image app:1; and what the password is, for the parameter "auth" of calls."""
    passwords = host.path("htpasswd")
    with open(passwords, "w") as f:
        f.write("someone:%s\n" % bcrypt("sesame-open"))
    registry = Registry(host, auth={"htpasswd": {"realm": "x", "path": passwords}})
    registry.push(make_layout(host), "app:1", "--dest-creds=someone:sesame-open")
    return registry, {"username": "someone", "password": "sesame-open"}


@case
def credentials_of_the_request(host):
    registry, good = registry_with_password(host)
    name = registry.address + "/app:1"
    encoded = {"auth": base64.b64encode(b"someone:sesame-open").decode()}
    with ImageService(host, registry.address) as s:
        c = s.client()
        status, message = c.refused("PullImage", image={"image": name})
        equal(status, "PERMISSION_DENIED")
        contains(message, registry.address)
        equal(c.refused("PullImage", image={"image": name}, auth=dict(good, password="wrong"))[0], "PERMISSION_DENIED")
        # They are for another server, and not sent to this one.
        equal(c.refused("PullImage", image={"image": name}, auth=dict(good, server_address="https://example.com/v1/"))[0],
              "PERMISSION_DENIED")
        status, message = c.refused("PullImage", image={"image": name}, auth={"auth": "x"})
        equal(status, "INVALID_ARGUMENT")
        contains(message, "Base64")
        for auth in good, encoded, dict(good, server_address="http://%s/" % registry.address):
            id = c.call("PullImage", image={"image": name}, auth=auth).image_ref
            c.call("RemoveImage", image={"image": id})


@case
def a_digest_that_is_there_takes_credentials(host):
    """An image that another tenant has pulled is no other tenant's, by whichever name."""
    registry, good = registry_with_password(host)
    tag = registry.address + "/app:1"
    with ImageService(host, registry.address) as s:
        c = s.client()
        id = c.call("PullImage", image={"image": tag}, auth=good).image_ref
        (digest,) = images(c)[id].repo_digests
        for _ in range(2):  # the second time it is known by this name
            equal(c.call("PullImage", image={"image": digest}, auth=good).image_ref, id)
            # What the kubelet compares its records of pulls with.
            for name in tag, digest:
                equal(c.call("ImageStatus", image={"image": name}).image.id, id, name)
            for auth in None, dict(good, password="wrong"), dict(good, server_address="https://example.com/"):
                for name in tag, digest:
                    status, message = c.refused("PullImage", image={"image": name}, **({"auth": auth} if auth else {}))
                    equal(status, "PERMISSION_DENIED", "%s with %r" % (name, auth))
                    contains(message, "401")
            equal(list(images(c)), [id])
        before = len(registry.requests())
        equal(c.call("PullImage", image={"image": digest}, auth=good).image_ref, id)
        equal(registry.requests()[before:], [("GET", "/v2/app/manifests/" + digest.split("@")[1])] * 2, "without and with credentials")
        # Without the registry it is an error, as for a tag.
        registry.process.kill()
        registry.process.wait()
        (by_tag, why), (by_digest, same) = (c.refused("PullImage", image={"image": name}, auth=good) for name in (tag, digest))
        equal(by_digest, by_tag)
        equal(re.sub("/manifests/[^']*", "", same.replace(digest, tag)), re.sub("/manifests/[^']*", "", why))
    for options, pinned in ((), False), (("--pinned-image=" + digest,), True):
        with ImageService(host, registry.address, options=options) as s:
            equal([s.client().call("ImageStatus", image={"image": name}).image.pinned for name in (tag, digest, id)], [pinned] * 3)


@case
def failures_have_a_status(host):
    registry = Registry(host)
    with ImageService(host, registry.address) as s:
        c = s.client()
        status, message = c.refused("PullImage", image={"image": registry.address + "/no-such:1"})
        equal(status, "NOT_FOUND")
        contains(message, "no-such")
        for call in "PullImage", "ImageStatus", "RemoveImage":
            equal(c.refused(call), ("INVALID_ARGUMENT", "The request names no image"))
        equal(c.refused("PullImage", image={"image": "not a name"})[0], "INVALID_ARGUMENT")


@case
def a_pull_is_cancelled(host):
    """A registry that does not answer."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(16)
        name = "127.0.0.1:%d/app:1" % silent.getsockname()[1]
        with ImageService(host, name.split("/")[0]) as s:
            c = s.client()
            # By the client.
            call = c.begin("PullImage", image={"image": name})
            wait_for(s.children, "the worker to start")
            call.cancel()
            wait_for(lambda: not s.children(), "the worker to end")
            # By its deadline.
            try:
                c.call("PullImage", image={"image": name}, timeout=0.5)
                fail("the pull succeeded")
            except grpc.RpcError as e:
                equal(e.code().name, "DEADLINE_EXCEEDED")
            wait_for(lambda: not s.children(), "the worker to end")
            # By the end of the connection; of the service, killed; and of the service, in order.
            call = c.begin("PullImage", image={"image": name})
            wait_for(s.children, "the worker to start")
            c.close()
            wait_for(lambda: not s.children(), "the worker to end")
            call = s.client().begin("PullImage", image={"image": name})
            (worker,) = wait_for(s.children, "the worker to start")
            s.process.kill()
            s.process.wait(patience(60))
            wait_for(lambda: not os.path.exists("/proc/" + worker), "the worker to end")
            s.start()
            equal(os.listdir(os.path.join(host.dir, "tmp")), [])


class Throttle:
    """Passes connections on to a registry, and from it no more than so many bytes until it is opened."""

    def __init__(self, target, limit):
        self.target, self.limit, self.passed = target.split(":"), limit, 0
        self.opened, self.blocked, self.lock = threading.Event(), threading.Event(), threading.Lock()
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.socket.accept()
                server = socket.create_connection((self.target[0], int(self.target[1])))
                for source, sink, counts in (client, server, False), (server, client, True):
                    threading.Thread(target=self.pump, args=(source, sink, counts), daemon=True).start()

    def pump(self, source, sink, counts):
        with contextlib.suppress(OSError):
            while data := source.recv(16384):
                with self.lock:
                    self.passed += len(data) if counts else 0
                    over = counts and self.passed > self.limit and not self.opened.is_set()
                if over:
                    self.blocked.set()
                    self.opened.wait()
                sink.sendall(data)
        for s in source, sink:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
            s.close()


def received(host, worker):
    """Bytes in the downloads that a process has open."""
    size = 0
    with contextlib.suppress(OSError):
        for fd in os.listdir("/proc/%s/fd" % worker):
            path = "/proc/%s/fd/%s" % (worker, fd)
            if os.readlink(path).startswith(host.dir + "/downloads/"):
                size += os.stat(path).st_size
    return size


@case
def the_service_is_killed_in_the_middle_of_a_download(host):
    """What was received is kept, and is not fetched again."""
    registry = Registry(host)
    registry.push(make_layout(host), "app:1")
    throttle = Throttle(registry.address, 100000)
    name = throttle.address + "/app:1"
    left = lambda: os.listdir(os.path.join(host.dir, "tmp"))
    with ImageService(host, throttle.address) as s:
        c = s.client()
        for end in "kill", "stop":
            throttle.passed = 0
            call = c.begin("PullImage", image={"image": name})
            true(throttle.blocked.wait(patience(60)), "a part of the image")
            worker = wait_for(lambda: next((w for w in s.children() if received(host, w) > 0), None), "what was received")
            if end == "kill":
                s.process.kill()
            else:
                call.cancel()
            wait_for(lambda: not os.path.exists("/proc/" + worker), "the end of the worker")
            if end == "kill":
                s.process.wait(patience(60))
                equal(call.exception(timeout=60).code().name, "UNAVAILABLE")
                s.start()
                c = s.client()
                wait_for(lambda: answers(c), "a reply after the restart")
            equal((left(), len(c.call("ListImages").images)), ([], 0))
            throttle.blocked.clear()
        throttle.opened.set()
        throttle.passed = 0
        id = c.call("PullImage", image={"image": name}).image_ref
        equal([(i.id, list(i.repo_tags)) for i in c.call("ListImages").images], [(id, [name])])
        equal((left(), os.listdir(host.dir + "/downloads")), ([], []))
        manifest = json.loads(registry.get("/v2/app/manifests/1", "application/vnd.oci.image.manifest.v1+json")[0])
        size = sum(l["size"] for l in manifest["layers"])
        true(throttle.passed < size, "%d bytes were fetched in the end, of %d" % (throttle.passed, size))
        host.acnspawn("image", "verify", "all").expect(0)


if __name__ == "__main__":
    main_of_cri()
