# SPDX-License-Identifier: LGPL-2.1-or-later
"""Debian's docker-registry on the loopback interface, and images for it, made by umoci and pushed by skopeo."""

import ctypes
import subprocess
import urllib.error
import urllib.request

from harness import *

TOOLS = ("docker-registry", "skopeo", "umoci", "openssl")


def need_tools():
    missing = [t for t in TOOLS if not shutil.which(t)]
    if missing:
        raise Skip("not installed: " + ", ".join(missing))


def command(*argv, **more):
    p = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    if p.returncode != 0:
        fail("%s: %s" % (" ".join(argv), p.stdout.decode(errors="replace")[-2000:]))
    return p.stdout.decode()


class Registry:
    """A docker-registry, until the case ends. AUTH and TLS are parts of its configuration; CLIENTS is the CA whose
    client certificates are required."""

    def __init__(self, host, tls=None, auth=None, storage="storage", clients=None):
        need_tools()
        self.storage, self.barriers = host.path(storage), 0
        config = {"version": "0.1", "log": {"level": "info", "formatter": "text"},
                  "storage": {"filesystem": {"rootdirectory": self.storage}, "delete": {"enabled": True}},
                  "http": {"addr": "127.0.0.1:0", "secret": "x"}}
        if tls:
            config["http"]["tls"] = {"certificate": tls.certificate, "key": tls.key, **({"clientcas": [clients]} if clients else {})}
        if auth:
            config["auth"] = auth
        n = len(host.children)
        name, self.log = host.path("registry%d.yml" % n), host.path("registry%d.log" % n)
        with open(name, "w") as f:
            json.dump(config, f)  # which is YAML
        with open(self.log, "wb") as log:
            p = subprocess.Popen(["docker-registry", "serve", name], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                 env={"PATH": os.environ["PATH"], "OTEL_TRACES_EXPORTER": "none"})
        host.children.append(p)
        self.process = p
        self.address = wait_for(self.listening, "start of docker-registry")
        self.url = ("https://" if tls else "http://") + self.address

    def listening(self):
        found = re.search(r"listening on (127\.0\.0\.1:\d+)", read_text(self.log))
        return found and found.group(1)

    def requests(self):
        """The requests so far, as "GET /path". The log may be a moment behind: one more, whose line is waited for, tells."""
        self.barriers += 1
        mark = "/v2/barrier/tags/list?n=%d" % self.barriers
        with contextlib.suppress(urllib.error.HTTPError):
            self.get(mark, "*/*")
        wait_for(lambda: mark in read_text(self.log), "the log of docker-registry")
        return re.findall(r'"(GET|HEAD|PUT|POST) (/v2/(?!barrier/)\S*) HTTP', read_text(self.log))

    def push(self, layout, name, *options):
        command("skopeo", "--insecure-policy", "copy", "--dest-tls-verify=false", *options, "oci:" + layout,
                "docker://%s/%s" % (self.address, name))

    def get(self, path, accept):
        q = urllib.request.Request(self.url + path, headers={"Accept": accept})
        with urllib.request.urlopen(q) as r:
            return r.read(), r.headers

    def blob_file(self, digest):
        algorithm, hex = digest.split(":")
        return os.path.join(self.storage, "docker/registry/v2/blobs", algorithm, hex[:2], hex, "data")


def make_layout(host, script="echo from a registry", name="layout", arch=None):
    """An OCI layout with the image "1", of two layers, whose app runs SCRIPT."""
    need_tools()
    layout, bundle = host.path(name), host.path(name + ".bundle")
    image, root = layout + ":1", bundle + "/rootfs"
    command("umoci", "init", "--layout", layout)
    command("umoci", "new", "--image", image)
    command("umoci", "unpack", "--image", image, bundle)
    os.makedirs(root + "/bin")
    shutil.copy(BUSYBOX, root + "/bin/busybox")
    for applet in "sh", "echo", "cat", "ls":
        os.symlink("busybox", root + "/bin/" + applet)
    command("umoci", "repack", "--refresh-bundle", "--image", image, bundle)
    os.makedirs(root + "/etc")
    with open(root + "/etc/motd", "w") as f:
        f.write("second layer of %s\n" % name)
    command("umoci", "repack", "--image", image, bundle)
    command("umoci", "config", "--image", image, "--config.entrypoint", "/bin/sh", "--config.entrypoint", "-c", "--config.cmd",
            script, "--architecture", arch or {"aarch64": "arm64"}.get(os_arch(), os_arch()))
    return image


def bcrypt(password):
    crypt = ctypes.CDLL("libcrypt.so.1").crypt
    crypt.restype = ctypes.c_char_p
    return crypt(password.encode(), b"$2b$05$" + b"abcdefghijklmnopqrstuu").decode()
