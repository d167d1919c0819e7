# SPDX-License-Identifier: LGPL-2.1-or-later
"""Images on a web server (web.py), and people with keys who sign them."""

import hashlib

from harness import *
from harness import _read
from web import Web

NAMES = ["example.com", "*.example.com", "example.org"]


class Keys:
    """A person with a key."""

    def __init__(self, home, name):
        self.home = os.path.join(home, name)
        os.makedirs(self.home, 0o700)
        self.gpg("--passphrase", "", "--quick-generate-key", name + " <%s@example.com>" % name, "ed25519", "sign", "never")
        self.public = self.gpg("--armor", "--export")
        self.fingerprint = re.search(rb"^fpr:+([0-9A-F]+):", self.gpg("--with-colons", "--list-keys"), re.M).group(1).decode()

    def gpg(self, *args, input=b""):
        return subprocess.run(("gpg", "--homedir", self.home, "--batch", "--quiet", "--no-autostart" if "--export" in args
                               else "--pinentry-mode=loopback") + args, input=input, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=True).stdout

    def sign(self, data):
        return self.gpg("--armor", "--detach-sign", input=data)

    def close(self):
        subprocess.run(("gpgconf", "--homedir", self.home, "--kill", "all"), stderr=subprocess.DEVNULL)


class World:
    """A host with a network, and signing keys."""

    def __init__(self, host):
        self.host = host
        self.config = host.path("config")
        os.mkdir(self.config, 0o755)
        self.web = Web(host.path("web"), NAMES)
        self.people = {}

    def __enter__(self):
        self.web.__enter__()
        return self

    def __exit__(self, *args):
        self.web.__exit__(*args)
        for k in self.people.values():
            k.close()

    def key(self, name="alice"):
        if name not in self.people:
            self.people[name] = Keys(self.host.path("gnupg"), name)
        return self.people[name]

    def trust(self, prefix="example.com", name="alice"):
        path = self.host.path(name + ".asc")
        with open(path, "wb") as f:
            f.write(self.key(name).public)
        self.run("trust", "--yes", "--prefix=" + prefix, path)

    def run(self, *args, rc=0, **more):
        return self.host.acnspawn("--config-dir=" + self.config, *args, env=self.web.env(), **more).expect(rc)

    def fetch(self, *args, rc=0, **more):
        return self.run("fetch", *args, rc=rc, **more)

    def image(self, name="example.com/app", version="1.0", content="x", **more):
        labels = [{"name": "version", "value": version}, {"name": "os", "value": "linux"}, {"name": "arch", "value": os_arch()}]
        labels += more.pop("more_labels", [])
        self.host.images += 1
        path = self.host.path("%d.aci" % self.host.images)
        manifest = image_manifest(name, {"exec": ["/bin/true"], "user": "0", "group": "0"}, labels, **more)
        return _read(write_aci(path, manifest, {"content": content}))

    def publish(self, url, data, signer="alice", **how):
        self.web.put(url, data, **how)
        if signer:
            self.web.put(url + ".asc", self.key(signer).sign(data))

    def page(self, url, *metas):
        self.web.put(url + ("" if url.count("/") > 2 else "/") + "?ac-discovery=1", "<!DOCTYPE html><html><head><title>x</title>%s</head></html>" % "".join(
            '<meta name="%s" content="%s">' % m for m in metas))

    def ids(self):
        return sorted(os.listdir(os.path.join(self.host.dir, "images")))

    def nothing_left(self, images=0):
        equal(len(self.ids()), images, "number of images")
        equal(os.listdir(os.path.join(self.host.dir, "tmp")), [], "what is left in tmp")


def next_second():
    """What is signed then is later than what was signed before: signatures know seconds."""
    now = int(time.time())
    wait_for(lambda: int(time.time()) > now, "the next second")


def image_id(data):
    return "sha512-" + hashlib.sha512(data).hexdigest()


def world(function):
    @functools.wraps(function)
    def wrapped(host):
        if not shutil.which("openssl") or not shutil.which("gpg"):
            raise Skip("openssl or gpg is missing")
        with World(host) as w:
            function(w)
    return case(wrapped)
