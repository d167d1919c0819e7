# SPDX-License-Identifier: LGPL-2.1-or-later
"""Images that stand for those of critest, of the kubelet's pods and of Kubernetes' own tests: made on the spot from busybox, some of
Debian's programs, and servers.c, and pushed into a registry by skopeo."""

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PASSWD = """root:x:0:0:root:/root:/bin/sh
daemon:x:1:1::/:/bin/false
www-data:x:33:33::/var/www:/bin/false
default-user:x:1000:1000::/:/bin/sh
nobody:x:65534:65534::/:/bin/false
"""
GROUP = """root:x:0:
daemon:x:1:
www-data:x:33:
default-user:x:1000:
group-defined-in-image:x:50000:default-user
nobody:x:65534:
"""
# In place of busybox's applets, which are not what the tests expect: a shell that runs /bin/ls and no applet of its own, and programs
# that busybox of Debian has not.
DEBIAN = ["dash", "ls", "pgrep", "ipcs", "ipcmk", "ipcrm", "curl"]
NGINX = ["nginx", "-g", "daemon off; # room for a longer title of the process"]


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def read(path):
    with open(path, "rb") as f:
        return f.read()


def debian_programs(names):
    """Path in the image and content of programs, and of the libraries that they take."""
    files = {}
    for name in names:
        path = shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin")
        if not path:
            continue
        files["bin/" + ("sh" if name == "dash" else name)] = path
        for line in subprocess.run(["ldd", path], stdout=subprocess.PIPE, text=True).stdout.splitlines():
            library = next((w for w in line.split() if w.startswith("/")), None)
            if library:
                files[library.lstrip("/").replace("usr/lib", "lib")] = library
    return {name: read(os.path.realpath(path)) for name, path in sorted(files.items())}


class Images:
    def __init__(self, directory, registry):
        self.directory, self.registry = directory, registry
        os.makedirs(directory)
        subprocess.run(["gcc", "-static", "-O1", "-o", directory + "/servers", HERE + "/servers.c"], check=True)
        self.servers = read(directory + "/servers")
        self.box = read(shutil.which("busybox"))
        self.applets = subprocess.run(["busybox", "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
        self.debian = debian_programs(DEBIAN)
        self.pushes = []

    def layer(self, extra=(), shell=True, debian=None):
        """A tar archive. EXTRA: (path, content, mode). DEBIAN: in place of the programs that most images have."""
        debian = self.debian if debian is None else debian
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as t:
            def add(name, data=None, mode=0o755, link=None):
                i = tarfile.TarInfo(name)
                i.mode = mode
                if link:
                    i.type, i.linkname = tarfile.LNKTYPE, link
                elif data is None:
                    i.type = tarfile.DIRTYPE
                else:
                    i.size = len(data)
                t.addfile(i, io.BytesIO(data) if data is not None else None)

            for d in ("bin", "etc", "proc", "sys", "dev", "root", "var", "var/run", "var/www", "usr", "usr/bin", "usr/sbin"):
                add(d)
            add("tmp", mode=0o1777)
            if shell:
                add("bin/busybox", self.box)
                for name in self.applets:
                    if name not in ("busybox", "httpd") and "bin/" + name not in debian:
                        add("bin/" + name, link="bin/busybox")
                for d in ("lib", "lib/x86_64-linux-gnu", "lib64"):
                    add(d)
                for name, data in debian.items():
                    add(name, data)
            add("etc/passwd", PASSWD.encode(), 0o644)
            add("etc/group", GROUP.encode(), 0o644)
            for name, data, mode in extra:
                add(name, data, mode)
        return out.getvalue()

    def add(self, name, tag, layer, **config):
        """An OCI layout, and the beginning of its push."""
        path = os.path.join(self.directory, name.replace("/", "_") + "_" + tag)
        os.makedirs(path + "/blobs/sha256")

        def blob(data, kind):
            with open(path + "/blobs/sha256/" + sha256(data), "wb") as f:
                f.write(data)
            return {"mediaType": "application/vnd.oci.image." + kind, "digest": "sha256:" + sha256(data), "size": len(data)}

        settings = dict({"Env": ["PATH=/bin:/usr/bin:/usr/sbin"]}, **config)
        description = blob(json.dumps({"architecture": "amd64", "os": "linux", "created": "2026-01-01T00:00:00Z", "config": settings,
                                       "rootfs": {"type": "layers", "diff_ids": ["sha256:" + sha256(layer)]}}).encode(), "config.v1+json")
        manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": description,
                    "layers": [blob(layer, "layer.v1.tar")]}
        index = dict(blob(json.dumps(manifest).encode(), "manifest.v1+json"), annotations={"org.opencontainers.image.ref.name": tag})
        with open(path + "/index.json", "w") as f:
            json.dump({"schemaVersion": 2, "manifests": [index]}, f)
        with open(path + "/oci-layout", "w") as f:
            f.write('{"imageLayoutVersion":"1.0.0"}')
        self.pushes.append(subprocess.Popen(["skopeo", "copy", "-q", "--insecure-policy", "--dest-tls-verify=false", "oci:%s:%s" % (path, tag),
                                             "docker://%s/%s:%s" % (self.registry, name, tag)]))
        if len(self.pushes) >= 4:
            self.finish()

    def finish(self):
        for p in self.pushes:
            if p.wait() != 0:
                raise RuntimeError("an image was not pushed")
        self.pushes = []


def critest(images):
    """What critest names."""
    e2e, cri = "e2e-test-images/", "k8s-staging-cri-tools/"

    def marked(text):
        return images.layer([("marker", text.encode(), 0o644)])

    def server(path, mode=0o755, more=()):
        return images.layer([(path, images.servers, mode), *more])

    images.add(e2e + "busybox", "1.29-2", images.layer(), Cmd=["sh"])
    images.add(e2e + "nginx", "1.14-2", server("usr/sbin/nginx"), Cmd=NGINX)
    images.add(e2e + "httpd", "2.4.39-4", server("usr/sbin/httpd"), Cmd=["/usr/sbin/httpd", "-D", "FOREGROUND"])
    images.add(e2e + "nonewprivs", "1.3", server("nonewprivs", 0o4755), Entrypoint=["/nonewprivs"])
    images.add(cri + "hostnet-nginx-amd64", "latest", server("usr/sbin/nginx", more=[("etc/web-port", b"12003\n", 0o644)]), Cmd=NGINX)
    for i in "123":
        images.add(cri + "test-image-" + i, "latest", marked("image " + i), Cmd=["sh"])
    images.add(cri + "test-image-latest", "latest", marked("latest"), Cmd=["sh"])
    same = marked("tags")
    for i in "123":
        images.add(cri + "test-image-tags", i, same, Cmd=["sh"])
    images.add(cri + "test-image-tag", "test", marked("tag test"), Cmd=["sh"])
    images.add(cri + "test-image-tag", "all", marked("tag all"), Cmd=["sh"])
    for name, user in (("uid", "1002"), ("username", "www-data"), ("uid-group", "1003:1004"), ("username-group", "www-data:1004")):
        images.add(cri + "test-image-user-" + name, "latest", marked("user " + name), Cmd=["sh"], User=user)
    images.add(cri + "test-image-predefined-group", "latest", marked("group"), Cmd=["sh"], User="1000")
    images.add("pause", "3.9", images.layer([("pause", images.servers, 0o755)], shell=False), Entrypoint=["/pause"])
    images.finish()


def certificate():
    """What agnhost serves TLS with: its certificate and the key."""
    with tempfile.TemporaryDirectory() as d:
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", d + "/key", "-out", d + "/crt", "-days", "3650",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,IP:::1,DNS:localhost"], check=True, stderr=subprocess.DEVNULL)
        return [("localhost.crt", read(d + "/crt"), 0o644), ("localhost.key", read(d + "/key"), 0o644)]


def node(images, agnhost):
    """What the NodeConformance specs of Kubernetes name. Most have busybox's own shell, which drops variables whose names are no
    identifiers, as dash does: see KNOWN of node.py."""
    e2e, shared_memory = "e2e-test-images/", ["ipcs", "ipcmk", "ipcrm"]
    plain = images.layer(debian={})
    program = read(agnhost)
    tools = debian_programs(["curl", "nc", "ip", "bash", *shared_memory])
    agnhost = images.layer([("agnhost", program, 0o755), ("agnhost-2", program, 0o755), *certificate()], debian=tools)
    for tag in "2.66.1", "2.55":
        images.add(e2e + "agnhost", tag, agnhost, Entrypoint=["/agnhost"], Cmd=["pause"])
    for tag in "1.37.0-2", "1.36.1-1", "1.29-2":
        images.add(e2e + "busybox", tag, plain, Cmd=["sh"])
    nginx = images.layer([("usr/sbin/nginx", images.servers, 0o755)], debian={})
    for tag in "1.27.0-2", "1.28.0-2":
        images.add(e2e + "nginx", tag, nginx, Cmd=NGINX)
    images.add(e2e + "nonewprivs", "1.4", images.layer([("nonewprivs", images.servers, 0o4755)]), Entrypoint=["/nonewprivs"])
    images.add(e2e + "nonroot", "1.5", plain, Cmd=["sh", "-c", "id -u; sleep 3600"], User="1234")
    images.add(e2e + "glibc-dns-testing", "2.1.1", images.layer(debian=debian_programs(["hostname"])), Cmd=["sh"])
    images.add(e2e + "ipc-utils", "1.4", images.layer(debian=debian_programs(shared_memory)), Cmd=["sh"])
    images.add("pause", "3.10.2", images.layer([("pause", images.servers, 0o755)], shell=False), Entrypoint=["/pause"])
    images.finish()
