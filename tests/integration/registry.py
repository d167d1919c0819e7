#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Images of registries: Debian's docker-registry on the loopback interface, filled by umoci and skopeo, with and without TLS,
passwords and tokens."""

import base64
import ctypes
import hashlib
import http.server
import socket
import ssl
import threading
import urllib.parse
import urllib.request

from registry_server import *

INDEX = "application/vnd.oci.image.index.v1+json"


class Tls:
    """A CA, and a certificate signed by it for 127.0.0.1."""

    def __init__(self, host):
        self.ca, ca_key = host.path("ca.pem"), host.path("ca.key")
        self.certificate, self.key = host.path("server.pem"), host.path("server.key")
        request, extensions = host.path("server.csr"), host.path("extensions")
        command("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=Test authority",
                "-keyout", ca_key, "-out", self.ca)
        command("openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1", "-keyout", self.key, "-out", request)
        with open(extensions, "w") as f:
            f.write("subjectAltName=IP:127.0.0.1\n")
        command("openssl", "x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", ca_key, "-CAcreateserial", "-days", "2",
                "-extfile", extensions, "-out", self.certificate)


def digest_of(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def config_id(host, registry, name, tag):
    """The expected ID of the image: the SHA-512 of its config."""
    manifest = json.loads(registry.get("/v2/%s/manifests/%s" % (name, tag), "application/vnd.oci.image.manifest.v1+json")[0])
    config, _ = registry.get("/v2/%s/blobs/%s" % (name, manifest["config"]["digest"]), "*/*")
    return "sha512-" + hashlib.sha512(config).hexdigest(), manifest


def fetch(host, *args, rc=0, conf="", auth=None, **env):
    """acnspawn fetch, only with the configuration of the case."""
    with open(host.path("registries.conf"), "w") as f:
        f.write(conf)
    with open(host.path("auth.json"), "w") as f:
        json.dump({"auths": {k: {"auth": base64.b64encode(v.encode()).decode()} for k, v in (auth or {}).items()}}, f)
    os.chmod(host.path("auth.json"), 0o600)
    environment = {"PATH": os.environ["PATH"], "HOME": host.tmp, "REGISTRY_AUTH_FILE": host.path("auth.json"),
                   "CONTAINERS_REGISTRIES_CONF": host.path("registries.conf")}
    environment.update(env)
    r = host.acnspawn("fetch", *args, env=environment).expect(rc)
    for secret in (auth or {}).values():
        lacks(r.err + r.out, secret.split(":")[1], "output")
        lacks(r.err + r.out, base64.b64encode(secret.encode()).decode(), "output")
    return r


def nothing_left(host, images=0):
    for place, n in ("images", images), ("tmp", 0), ("downloads", 0):
        with contextlib.suppress(FileNotFoundError):
            equal(len(os.listdir(os.path.join(host.dir, place))), n, "entries of " + place)


# --- Plain -------------------------------------------------------------------------------------------------------------

@case
def by_tag_and_by_digest(host):
    registry = Registry(host)
    registry.push(make_layout(host), "team/app:1.0")
    expected, _ = config_id(host, registry, "team/app", "1.0")
    reference = "docker://%s/team/app:1.0" % registry.address
    r = fetch(host, "--insecure-options=http", reference)
    equal(r.out.strip(), expected, "ID")
    contains(r.err, "http", "warning")
    body, _ = registry.get("/v2/team/app/manifests/1.0", "application/vnd.oci.image.manifest.v1+json")
    r = fetch(host, "--insecure-options=http", "docker://%s/team/app@%s" % (registry.address, digest_of(body)))
    equal(r.out.strip(), expected, "ID by digest")
    nothing_left(host, 1)
    host.run(expected)
    contains(host.run(expected).out, "from a registry", "output of the app")
    for verb in ("cat-manifest", "verify"):
        host.acnspawn("image", verb, reference).expect(0)
    contains(host.acnspawn("image", "show", reference).expect(0).out, expected)
    contains(host.acnspawn("image", "show", reference + "1").expect(1).err, "came from")
    host.acnspawn("gc", "--grace-period=0").expect(0)
    equal(host.acnspawn("image", "rm", reference).expect(0).out.strip(), expected)


@case
def missing_objects(host):
    registry = Registry(host)
    registry.push(make_layout(host), "team/app:1.0")
    r = fetch(host, "--insecure-options=http", "docker://%s/team/app:2.0" % registry.address, rc=1)
    contains(r.err, "MANIFEST_UNKNOWN")
    contains(r.err, "which tags")
    r = fetch(host, "--insecure-options=http", "docker://%s/other" % registry.address, rc=1)
    contains(r.err, "/other:latest")
    contains(r.err, "library/other")
    r = fetch(host, "--insecure-options=http", "docker://%s/team/app@sha256:%s" % (registry.address, "0" * 64), rc=1)
    contains(r.err, "404")
    r = fetch(host, "docker://%s/Team/app" % registry.address, rc=1)
    contains(r.err, "upper case")
    nothing_left(host)


@case
def plain_http_has_to_be_allowed(host):
    registry = Registry(host)
    registry.push(make_layout(host), "app:1")
    r = fetch(host, "docker://%s/app:1" % registry.address, rc=1)
    contains(r.err, "--insecure-options=http")
    contains(r.err, "insecure = true")
    nothing_left(host)
    conf = "[[registry]]\nlocation = '%s'\ninsecure = true\n" % registry.address
    r = fetch(host, "docker://%s/app:1" % registry.address, conf=conf)
    contains(r.err, "insecure = true", "warning")


@case
def layers_that_are_there_are_not_fetched(host):
    registry = Registry(host)
    layout = make_layout(host)
    registry.push(layout, "app:1")
    command("umoci", "config", "--image", layout, "--config.env", "A=b")
    registry.push(layout, "app:2")
    fetch(host, "--insecure-options=http", "docker://%s/app:1" % registry.address)
    before = len(registry.requests())
    fetch(host, "--insecure-options=http", "docker://%s/app:2" % registry.address)
    blobs = [path for _, path in registry.requests()[before:] if "/blobs/" in path]
    equal(len(blobs), 1, "blobs fetched for the second image")
    nothing_left(host, 2)


@case
def to_see_that_nothing_changed_takes_one_request(host):
    registry = Registry(host)
    layout = make_layout(host)
    registry.push(layout, "app:1")
    reference = "docker://%s/app:1" % registry.address
    first = fetch(host, "--insecure-options=http", reference).out
    before = len(registry.requests())
    equal(fetch(host, "--insecure-options=http", reference).out, first, "ID")
    equal(len(registry.requests()), before, "requests when there is no need for any")
    equal(fetch(host, "--insecure-options=http", "--pull-policy=update", reference).out, first, "ID")
    equal(len(registry.requests()), before + 1, "requests for an update without change")
    command("umoci", "config", "--image", layout, "--config.env", "A=b")
    registry.push(layout, "app:1")
    true(fetch(host, "--insecure-options=http", "--pull-policy=update", reference).out != first, "the update is not seen")


@case
def zstd_layers(host):
    registry = Registry(host)
    registry.push(make_layout(host), "app:z", "--format=oci", "--dest-compress-format=zstd", "--dest-force-compress-format") \
        if "force-compress" in command("skopeo", "copy", "--help") else \
        registry.push(make_layout_uncompressed(host), "app:z", "--format=oci", "--dest-compress-format=zstd")
    _, manifest = config_id(host, registry, "app", "z")
    for layer in manifest["layers"]:
        contains(layer["mediaType"], "zstd", "media type of a layer")
    id = fetch(host, "--insecure-options=http", "docker://%s/app:z" % registry.address).out.strip()
    contains(host.run(id).out, "from a registry", "output of the app")


def make_layout_uncompressed(host):
    """The same with layers that are not compressed, which skopeo then compresses as requested."""
    image, plain = make_layout(host, name="compressed"), host.path("plain")
    command("skopeo", "--insecure-policy", "copy", "--dest-decompress", "oci:" + image, "dir:" + plain)
    command("skopeo", "--insecure-policy", "copy", "--dest-oci-accept-uncompressed-layers", "dir:" + plain,
            "oci:" + host.path("layout") + ":1")
    return host.path("layout") + ":1"


@case
def docker_schema_2(host):
    registry = Registry(host)
    registry.push(make_layout(host), "app:docker", "--format=v2s2")
    id = fetch(host, "--insecure-options=http", "docker://%s/app:docker" % registry.address).out.strip()
    contains(host.run(id).out, "from a registry", "output of the app")


def push_index(registry, name, tag, images):
    """An index of IMAGES, pairs of tag and platform."""
    manifests = []
    for image, platform in images:
        body, headers = registry.get("/v2/%s/manifests/%s" % (name, image), "application/vnd.oci.image.manifest.v1+json")
        manifests.append({"mediaType": headers["Content-Type"], "digest": digest_of(body), "size": len(body), "platform": platform})
    index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}).encode()
    q = urllib.request.Request("%s/v2/%s/manifests/%s" % (registry.url, name, tag), index, {"Content-Type": INDEX}, method="PUT")
    urllib.request.urlopen(q).close()
    return digest_of(index)


@case
def images_for_several_architectures(host):
    registry = Registry(host)
    own = {"aarch64": "arm64"}.get(os_arch(), os_arch())
    registry.push(make_layout(host, name="own"), "app:own")
    registry.push(make_layout(host, "echo wrong", name="other", arch="s390x"), "app:other")
    expected, _ = config_id(host, registry, "app", "own")
    digest = push_index(registry, "app", "all", [("other", {"os": "linux", "architecture": "s390x"}),
                                                 ("own", {"os": "linux", "architecture": own})])
    equal(fetch(host, "--insecure-options=http", "docker://%s/app:all" % registry.address).out.strip(), expected, "ID")
    equal(fetch(host, "--insecure-options=http", "docker://%s/app@%s" % (registry.address, digest)).out.strip(), expected, "ID")
    push_index(registry, "app", "foreign", [("other", {"os": "linux", "architecture": "s390x"})])
    r = fetch(host, "--insecure-options=http", "docker://%s/app:foreign" % registry.address, rc=1)
    contains(r.err, "s390x")


# --- Configuration -----------------------------------------------------------------------------------------------------

@case
def mirrors_and_short_names(host):
    registry = Registry(host)
    registry.push(make_layout(host), "mirrored/app:1")
    expected, _ = config_id(host, registry, "mirrored/app", "1")
    conf = ("unqualified-search-registries = ['images.example.com']\n"
            "[[registry]]\nprefix = 'images.example.com'\nlocation = '127.0.0.1:1'\n"
            "[[registry.mirror]]\nlocation = '%s/mirrored'\ninsecure = true\n"
            "[[registry]]\nprefix = 'dead.example.com'\nlocation = '%s/mirrored'\ninsecure = true\n"
            "[[registry.mirror]]\nlocation = '127.0.0.1:1'\n"
            "[[registry]]\nlocation = 'evil.example.com'\nblocked = true\n"
            "[aliases]\nshort = 'images.example.com/app'\n" % (registry.address, registry.address))
    for name in "docker://images.example.com/app:1", "docker://app:1", "docker://short:1":
        equal(fetch(host, name, conf=conf).out.strip(), expected, "ID of " + name)
    r = fetch(host, "docker://dead.example.com/app:1", conf=conf)
    equal(r.out.strip(), expected, "ID")
    contains(r.err, "The mirror '127.0.0.1:1' failed")
    contains(fetch(host, "docker://evil.example.com/app:1", conf=conf, rc=1).err, "blocked")
    contains(fetch(host, "docker://app:1", rc=1).err, "has no registry")
    contains(fetch(host, "docker://x.example.com/app:1", conf="[[registry]]\nlocation = 1\n", rc=1).err, "'location' is not a string")


# --- Damage ------------------------------------------------------------------------------------------------------------

@case
def blobs_that_are_damaged(host):
    registry = Registry(host)
    registry.push(make_layout(host), "app:1")
    _, manifest = config_id(host, registry, "app", "1")
    reference = "docker://%s/app:1" % registry.address
    for blob in manifest["config"], manifest["layers"][0], manifest["layers"][1]:
        path = registry.blob_file(blob["digest"])
        whole = open(path, "rb").read()
        for damaged in whole[:-1] + bytes([whole[-1] ^ 1]), whole[:-1], whole + b"x", b"":
            with open(path, "wb") as f:
                f.write(damaged)
            r = fetch(host, "--insecure-options=http", reference, rc=1)
            contains(r.err, blob["digest"].split(":")[1][:12], "message")
            nothing_left(host)
        with open(path, "wb") as f:
            f.write(whole)
    fetch(host, "--insecure-options=http", reference)


@case
def a_mirror_with_damaged_blobs(host):
    """A blob with a wrong digest at a mirror is requested at the next endpoint; the message names the mirror."""
    registry, mirror = Registry(host), Registry(host, storage="mirror")
    registry.push(make_layout(host), "app:1")
    mirror.push(host.path("layout") + ":1", "app:1")
    expected, manifest = config_id(host, mirror, "app", "1")
    conf = ("[[registry]]\nprefix = 'images.example.com'\nlocation = '%s'\ninsecure = true\n"
            "[[registry.mirror]]\nlocation = '%s'\ninsecure = true\n" % (registry.address, mirror.address))
    for blob in manifest["config"], manifest["layers"][0], manifest["layers"][1]:
        path = mirror.blob_file(blob["digest"])
        with open(path, "rb") as f:
            whole = f.read()
        half = len(whole) // 2
        for damaged in whole[:-1] + bytes([whole[-1] ^ 1]), whole[:half] + bytes(len(whole) - half), bytes(len(whole)), whole[:half]:
            with open(path, "wb") as f:
                f.write(damaged)
            r = fetch(host, "docker://images.example.com/app:1", conf=conf)
            equal(r.out.strip(), expected, "ID")
            contains(r.err, "The mirror '%s' failed, trying the next: " % mirror.address)
            contains(r.err, blob["digest"])
            host.acnspawn("image", "verify").expect(0)
            host.acnspawn("image", "rm", expected).expect(0)
            host.acnspawn("image", "gc", "--grace-period=0").expect(0)
            nothing_left(host)
        # Without another endpoint it is an error.
        shutil.copy(path, registry.blob_file(blob["digest"]))
        contains(fetch(host, "docker://images.example.com/app:1", conf=conf, rc=1).err, blob["digest"])
        nothing_left(host)
        for r in registry, mirror:
            with open(r.blob_file(blob["digest"]), "wb") as f:
                f.write(whole)
    # A mirror without the image gets a single message.
    equal(fetch(host, "docker://images.example.com/app:1", conf=conf).err.count("does not do"), 0, "complaints of a good mirror")


@case
def a_mirror_with_another_manifest(host):
    registry, mirror = Registry(host), Registry(host, storage="mirror")
    registry.push(make_layout(host), "app:1")
    mirror.push(host.path("layout") + ":1", "app:1")
    expected, _ = config_id(host, registry, "app", "1")
    body, _ = registry.get("/v2/app/manifests/1", "application/vnd.oci.image.manifest.v1+json")
    with open(mirror.blob_file(digest_of(body)), "r+b") as f:
        f.write(body.replace(b'"size"', b'"sIze"'))
    conf = ("[[registry]]\nprefix = 'images.example.com'\nlocation = '%s'\ninsecure = true\n"
            "[[registry.mirror]]\nlocation = '%s'\ninsecure = true\n" % (registry.address, mirror.address))
    for reference in "app:1", "app@" + digest_of(body):
        r = fetch(host, "docker://images.example.com/" + reference, conf=conf)
        equal(r.out.strip(), expected, "ID")
        contains(r.err, "The mirror '%s' failed, trying the next: " % mirror.address)


# --- TLS and passwords -------------------------------------------------------------------------------------------------

@case
def own_authority(host):
    tls = Tls(host)
    Registry(host).push(make_layout(host), "app:1")
    reference = "docker://%s/app:1" % Registry(host, tls).address
    r = fetch(host, reference, rc=1)
    contains(r.err, "certificate")
    nothing_left(host)
    # Not even by http if that is allowed, unless certificate checks are disabled.
    fetch(host, "--insecure-options=http", reference, rc=1)
    fetch(host, reference, SSL_CERT_FILE=tls.ca)
    contains(fetch(host, "--insecure-options=tls", "--pull-policy=update", reference).err, "ertificate", "warning")


def registry_with_passwords(host):
    """Serves team/app:1 to the user "someone" with the password sesame-open."""
    tls = Tls(host)
    with open(host.path("htpasswd"), "w") as f:
        f.write("someone:%s\n" % bcrypt("sesame-open"))
    Registry(host).push(make_layout(host), "team/app:1")
    registry = Registry(host, tls, {"htpasswd": {"realm": "x", "path": host.path("htpasswd")}})
    reference = "docker://%s/team/app:1" % registry.address
    return tls, registry, reference


@case
def private_with_passwords(host):
    tls, registry, reference = registry_with_passwords(host)
    r = fetch(host, reference, rc=1, SSL_CERT_FILE=tls.ca)
    contains(r.err, "no credentials")
    contains(r.err, "auth.d")
    r = fetch(host, reference, rc=1, auth={registry.address: "someone:wrong-word"}, SSL_CERT_FILE=tls.ca)
    contains(r.err, "401")
    # Credentials for other registries are not used.
    fetch(host, reference, rc=1, auth={"127.0.0.1": "someone:sesame-open", registry.address + "/te": "someone:sesame-open"},
          SSL_CERT_FILE=tls.ca)
    nothing_left(host)
    fetch(host, reference, auth={registry.address: "someone:wrong-word", registry.address + "/team": "someone:sesame-open"},
          SSL_CERT_FILE=tls.ca)


class TwoFaced:
    """Speaks TLS, and records whatever comes in plain text on the same port. ANSWER(path, authorization) returns what is sent."""

    def __init__(self, tls, answer):
        self.answer, self.plain, self.asked, self.dumb = answer, [], [], False
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(tls.certificate, tls.key)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.serve, args=(self.socket.accept()[0],), daemon=True).start()

    def serve(self, connection):
        with contextlib.suppress(OSError), connection:
            if connection.recv(1, socket.MSG_PEEK) != b"\x16":
                self.plain.append(connection.recv(65536))
                return
            if self.dumb:
                return
            with self.context.wrap_socket(connection, server_side=True) as c:
                request = b""
                while b"\r\n\r\n" not in request:
                    data = c.recv(65536)
                    if not data:
                        return
                    request += data
                lines = request.decode().split("\r\n")
                authorization = "".join(l.split(": ", 1)[1] for l in lines if l.lower().startswith("authorization:"))
                self.asked.append((lines[0].split()[1], authorization))
                c.sendall(self.answer(*self.asked[-1]))


def reply(status, *headers):
    return ("HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n%s\r\n" % (status, "".join(h + "\r\n" for h in headers))).encode()


@case
def http_is_no_way_out_after_https(host):
    """A registry that may be insecure, and has answered by https: whatever fails after that, nothing is sent to it in plain text."""
    tls = Tls(host)
    closed = socket.socket()
    closed.bind(("127.0.0.1", 0))  # and does not listen
    refuses = "127.0.0.1:%d" % closed.getsockname()[1]
    basic = "Basic " + base64.b64encode(b"someone:sesame-open").decode()
    failures = {"the target of a redirect refuses the connection": reply("307 Moved", "Location: https://%s/store" % refuses),
                "the target of a redirect does not speak TLS": reply("307 Moved", "Location: https://%s/store" % Registry(host).address),
                "the connection ends without an answer": b"",
                "the answer is none": b"\0\1\2\3"}
    for what, failure in failures.items():
        def answer(path, authorization):
            return failure if authorization == basic else reply("401 Unauthorized", 'WWW-Authenticate: Basic realm="x"')
        registry = TwoFaced(tls, answer)
        conf = "[[registry]]\nlocation = '%s'\ninsecure = true\n" % registry.address
        fetch(host, "docker://%s/app:1" % registry.address, rc=1, conf=conf, auth={registry.address: "someone:sesame-open"})
        true((registry.asked or [0])[-1] == ("/v2/app/manifests/1", basic), "%s: asked %r" % (what, registry.asked))
        equal(registry.plain, [], "what came in plain text when " + what)
        registry.socket.close()

    # Not even when it does not speak TLS any more.
    manifest = json.dumps({"schemaVersion": 2, "config": {"mediaType": "application/vnd.oci.image.config.v1+json",
                                                          "digest": digest_of(b"{}"), "size": 2}, "layers": []}).encode()

    def once(path, authorization):
        if authorization != basic:
            return reply("401 Unauthorized", 'WWW-Authenticate: Basic realm="x"')
        registry.dumb = True
        return b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(manifest), manifest)
    registry = TwoFaced(tls, once)
    conf = "[[registry]]\nlocation = '%s'\ninsecure = true\n" % registry.address
    r = fetch(host, "docker://%s/app:1" % registry.address, rc=1, conf=conf, auth={registry.address: "someone:sesame-open"})
    contains(r.err, "the blob " + digest_of(b"{}"), "message")
    equal((len(registry.asked), registry.plain), (2, []), "requests, and what came in plain text")


@case
def a_redirects_target_gets_no_credentials(host):
    """A registry that redirects to a server whose challenge names a token service: that gets neither password nor refresh token."""
    tls = Tls(host)
    service = TwoFaced(tls, lambda *_: reply("500 No"))
    target = TwoFaced(tls, lambda *_: reply("401 Unauthorized", 'WWW-Authenticate: Bearer realm="https://%s/token",service="x"' % service.address))
    registry = TwoFaced(tls, lambda *_: reply("307 Moved", "Location: https://%s/store" % target.address))
    for auth in {"auth": base64.b64encode(b"someone:sesame-open").decode()}, {"identitytoken": "refresh-me"}:
        with open(host.path("own.json"), "w") as f:
            json.dump({"auths": {registry.address: auth}}, f)
        os.chmod(host.path("own.json"), 0o600)
        r = fetch(host, "docker://%s/app:1" % registry.address, rc=1, SSL_CERT_FILE=tls.ca, REGISTRY_AUTH_FILE=host.path("own.json"))
        contains(r.err, "the server requires authentication (401)", "message")
        contains(r.err, "The registry '%s' redirects to that server, which does not get the registry's credentials" % registry.address, "hint")
    equal((target.asked, service.asked), ([("/store", "")] * 2, []), "what was asked")


def certs_d(host, registry, **files):
    """certs.d below a HOME of this case, with FILES in it ("ca_crt"); previous files are removed."""
    directory = host.path(".config/containers/certs.d/" + registry.address)
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    for name, source in files.items():
        with open(os.path.join(directory, name.replace("_", ".")), "w") as f:
            f.write(read_text(source) if os.path.exists(source) else source)
    return directory


@case
def authority_of_one_registry(host):
    """certs.d has CA certificates for one registry, in addition to those of the host, and for its token service."""
    tls = Tls(host)
    service = TokenService(host, tls)
    layout = make_layout(host)
    Registry(host).push(layout, "public/app:1")
    registry = Registry(host, tls, {"token": {"realm": service.realm, "service": "test registry", "issuer": "test",
                                              "rootcertbundle": tls.ca}})
    other = Registry(host, tls)
    reference = "docker://%s/public/app:1" % registry.address
    directory = certs_d(host, registry, ca_crt=tls.ca)
    fetch(host, reference)
    contains(fetch(host, "--pull-policy=update", "docker://%s/public/app:1" % other.address, rc=1).err, "certificate")
    # The environment is honoured as well, and a malformed certificate is detected.
    fetch(host, "--pull-policy=update", reference, SSL_CERT_FILE=tls.ca)
    fetch(host, "--pull-policy=update", reference, SSL_CERT_FILE="/nonexistent")
    certs_d(host, registry, a_crt="no certificate\n", ca_crt="")
    r = fetch(host, "--pull-policy=update", reference, rc=1)
    contains(r.err, "certificate")
    certs_d(host, registry, client_cert=tls.certificate)
    r = fetch(host, "--pull-policy=update", reference, rc=1)
    contains(r.err, "There is %s/client.cert, and no client.key with it" % directory)
    certs_d(host, registry, client_key=tls.key)
    contains(fetch(host, "--pull-policy=update", reference, rc=1).err, "and no client.cert with it")
    service.server.shutdown()


@case
def client_certificates(host):
    """A registry that requires a client certificate."""
    tls = Tls(host)
    Registry(host).push(make_layout(host), "app:1")
    registry = Registry(host, tls, clients=tls.ca)
    reference = "docker://%s/app:1" % registry.address
    certs_d(host, registry, ca_crt=tls.ca)
    r = fetch(host, reference, rc=1)
    contains(r.err, "client certificate")
    contains(r.err, "certs.d")
    certs_d(host, registry, ca_crt=tls.ca, client_cert=tls.certificate, client_key=tls.key)
    fetch(host, reference)
    certs_d(host, registry, ca_crt=tls.ca, client_cert=tls.certificate, client_key="no key\n")
    r = fetch(host, "--pull-policy=update", reference, rc=1)
    contains(r.err, "client certificate for '%s' cannot be used" % registry.address)
    contains(r.err, "certs.d/" + registry.address)
    # Our own configuration does as well.
    shutil.rmtree(host.path(".config"))
    config = host.path("configuration")
    os.makedirs(config + "/auth.d")
    with open(config + "/auth.d/x.conf", "w") as f:
        f.write("[Host]\nName=%s\nClientCertificate=%s\nClientKey=%s\n" % (registry.address, tls.certificate, tls.key))
    os.chmod(config + "/auth.d/x.conf", 0o600)
    fetch(host, "--config-dir=" + config, "--pull-policy=update", reference, SSL_CERT_FILE=tls.ca)


@case
def helpers_for_credentials(host):
    """Credential helpers of auth files are run; if one fails, public images can still be fetched."""
    tls, registry, reference = registry_with_passwords(host)
    os.makedirs(host.path("bin"))
    path = host.path("bin") + ":" + os.environ["PATH"]

    def ask(file, script, rc=0):
        with open(host.path("bin/docker-credential-test"), "w") as f:
            f.write("#!/bin/sh\nread server; echo \"$server\" >> %s; %s\n" % (host.path("asked"), script))
        os.chmod(host.path("bin/docker-credential-test"), 0o755)
        with open(host.path("helped.json"), "w") as f:
            json.dump(file, f)
        os.chmod(host.path("helped.json"), 0o600)
        r = fetch(host, "--pull-policy=update", reference, rc=rc, SSL_CERT_FILE=tls.ca, PATH=path,
                  REGISTRY_AUTH_FILE=host.path("helped.json"))
        true("sesame" not in r.err, "no message has the password")
        return r

    good = 'echo \'{"ServerURL":"x","Username":"someone","Secret":"sesame-open"}\''
    entry = {registry.address: {"auth": base64.b64encode(b"someone:sesame-open").decode()}}
    ask({"credHelpers": {registry.address: "test"}}, good)
    ask({"credsStore": "test"}, good)
    ask({"credsStore": "test", "auths": {"https://%s/v1/" % registry.address: {}}}, good)
    equal(read_text(host.path("asked")), "%s\n%s\nhttps://%s/v1/\n" % ((registry.address,) * 3), "what the helper was asked for")
    # A helper without credentials, and one that fails; the entry of the file still exists.
    ask({"credHelpers": {registry.address: "test"}, "auths": entry}, "echo credentials not found in native keychain; exit 1")
    r = ask({"credHelpers": {registry.address: "test"}, "auths": entry}, "echo the keychain is locked; exit 1")
    contains(r.err, "No credentials for '%s' come from the helper 'test'" % registry.address)
    contains(r.err, "the keychain is locked")
    contains(ask({"credsStore": "test"}, "echo credentials not found in native keychain; exit 1", rc=1).err, "no credentials")
    contains(ask({"credsStore": "../bin/x"}, good, rc=1).err, "that is not the name of a helper")
    contains(ask({"credsStore": "missing"}, good, rc=1).err, "there is no program docker-credential-missing in PATH")


# --- Tokens ------------------------------------------------------------------------------------------------------------

def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=")


class TokenService:
    """Issues tokens over TLS: for public/… to all clients, for private/… to one user."""

    def __init__(self, host, tls):
        self.host, self.tls, self.asked, self.certificates = host, tls, [], []
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                service.answer(self)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls.certificate, tls.key)
        context.load_verify_locations(tls.ca)
        context.verify_mode = ssl.CERT_OPTIONAL
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.realm = "https://127.0.0.1:%d/token" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, request):
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(request.path).query)
        credentials = request.headers.get("Authorization", "")
        self.asked.append((query.get("scope"), credentials))
        self.certificates.append(bool(request.connection.getpeercert()))
        _, name, actions = query["scope"][0].split(":")
        wanted = "Basic " + base64.b64encode(b"someone:sesame-open").decode()
        status, reply = 200, {"token": self.token(name, actions.split(",")), "expires_in": 300}
        if credentials not in ("", wanted):
            status, reply = 401, {"errors": [{"code": "UNAUTHORIZED", "message": "wrong password"}]}
        elif name.startswith("private/") and not credentials:
            reply["token"] = self.token(name, [])
        body = json.dumps(reply).encode()
        request.send_response(status)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def token(self, name, actions):
        der = ssl.PEM_cert_to_DER_cert(read_text(self.tls.certificate))
        now = int(time.time())
        header = {"typ": "JWT", "alg": "RS256", "x5c": [base64.b64encode(der).decode()]}
        claims = {"iss": "test", "sub": "", "aud": "test registry", "exp": now + 300, "nbf": now - 10, "iat": now, "jti": str(now),
                  "access": [{"type": "repository", "name": name, "actions": actions}]}
        text = base64url(json.dumps(header).encode()) + b"." + base64url(json.dumps(claims).encode())
        signature = subprocess.run(["openssl", "dgst", "-sha256", "-sign", self.tls.key], input=text, stdout=subprocess.PIPE,
                                   check=True).stdout
        return (text + b"." + base64url(signature)).decode()


@case
def tokens(host):
    tls = Tls(host)
    service = TokenService(host, tls)
    plain = Registry(host)
    layout = make_layout(host)
    plain.push(layout, "public/app:1")
    plain.push(layout, "private/app:1")
    registry = Registry(host, tls, {"token": {"realm": service.realm, "service": "test registry", "issuer": "test",
                                              "rootcertbundle": tls.ca}})
    public, private = ("docker://%s/%s/app:1" % (registry.address, n) for n in ("public", "private"))
    good, wrong = {registry.address: "someone:sesame-open"}, {registry.address: "someone:wrong-word"}
    fetch(host, public, SSL_CERT_FILE=tls.ca)
    equal(service.asked, [(["repository:public/app:pull"], "")], "what the token service was asked")
    contains(fetch(host, private, rc=1, SSL_CERT_FILE=tls.ca).err, "401")
    r = fetch(host, private, rc=1, auth=wrong, SSL_CERT_FILE=tls.ca)
    contains(r.err, "its token service")
    contains(r.err, "wrong password")
    # Credentials for the token service's own host are not for this registry.
    n = len(service.asked)
    fetch(host, private, rc=1, auth={service.realm.split("/")[2]: "someone:sesame-open"}, SSL_CERT_FILE=tls.ca)
    equal([c for _, c in service.asked[n:]], [""], "credentials that the token service got")
    config = host.path("configuration")
    os.makedirs(config + "/auth.d")
    with open(config + "/auth.d/x.conf", "w") as f:
        f.write("[Host]\nName=%s\nClientCertificate=%s\nClientKey=%s\n" % (service.realm.split("/")[2], tls.certificate, tls.key))
    os.chmod(config + "/auth.d/x.conf", 0o600)
    fetch(host, "--config-dir=" + config, private, rc=1, SSL_CERT_FILE=tls.ca)
    equal(any(service.certificates), False, "whether the token service was shown a certificate")
    fetch(host, private, auth=good, SSL_CERT_FILE=tls.ca)
    service.server.shutdown()


if __name__ == "__main__":
    main()
