#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Trusting keys: output, confirmation, storage, and errors."""

import fcntl
import http.server
import pty
import select
import socket
import stat
import threading

from harness import *

QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


class Keys:
    """gpg with a home of its own, without passphrases."""

    def __init__(self, host):
        self.home = host.path("gnupg")
        os.makedirs(self.home, 0o700, exist_ok=True)

    def gpg(self, *args):
        return subprocess.run(["gpg", "--homedir", self.home, "--batch", "--yes", "--quiet", "--pinentry-mode", "loopback",
                               "--passphrase", ""] + list(args), check=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL).stdout

    def make(self, user, expire="0", *options):
        """Returns fingerprint and armored public key."""
        self.gpg(*options, "--quick-gen-key", user, "ed25519", "sign", expire)
        lines = self.gpg("--with-colons", "--list-keys", "=" + user).decode().splitlines()
        fingerprint = next(x for x in lines if x.startswith("fpr")).split(":")[9]
        return fingerprint, self.gpg("--armor", "--export", fingerprint)

    def close(self):
        subprocess.run(["gpgconf", "--homedir", self.home, "--kill", "all"], **QUIET)


@contextlib.contextmanager
def keys_of(host):
    if not shutil.which("gpg"):
        raise Skip("the program gpg is missing")
    keys = Keys(host)
    try:
        yield keys
    finally:
        keys.close()


def put(host, name, data):
    with open(host.path(name), "wb") as f:
        f.write(data)
    return host.path(name)


def trust(host, *args, **more):
    return host.acnspawn("--config-dir=" + host.path("etc"), "trust", *args, **more)


def stored(host):
    """Paths of the keys below trustedkeys."""
    top = host.path("etc", "trustedkeys")
    return sorted(os.path.relpath(os.path.join(root, f), top) for root, _, files in os.walk(top) for f in files if f != ".lock")


def on_terminal(host, answer, *args):
    """acnspawn trust on a separate terminal; returns the output, and its exit status."""
    pid, fd = pty.fork()
    if pid == 0:
        default_signals()
        argv = host.argv("--config-dir=" + host.path("etc"), "trust", *args)
        os.execv(argv[0], argv)
    shown = b""
    answered = False
    end = time.monotonic() + patience(30)
    while time.monotonic() < end:
        if not select.select([fd], [], [], 0.1)[0]:
            continue
        try:
            piece = os.read(fd, 4096)
        except OSError:
            break
        if not piece:
            break
        shown += piece
        if b"[y/N] " in shown and not answered:
            answered = True
            os.write(fd, answer)
    os.close(fd)
    return shown.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@case
def keys_are_shown_and_confirmed(host):
    with keys_of(host) as keys:
        fingerprint, key = keys.make("Ann Example <ann@example.com>")
        path = put(host, "ann.key", key)
        for answer in (b"n\n", b"\n", b"\x04", b"yep\n"):
            shown, status = on_terminal(host, answer, "--prefix=example.com/app", path)
            equal(status, 1, "exit status after %r" % answer)
            contains(shown, "Not confirmed", "what is shown")
            equal(stored(host), [], "trusted keys after %r" % answer)
        for answer in (b"y\n", b"YES\n"):
            shown, status = on_terminal(host, answer, "--prefix=example.com/app", path)
            equal(status, 0, "exit status after %r" % answer)
            contains(shown, " ".join(fingerprint[i:i + 4] for i in range(0, 40, 4)), "what is shown")
            for part in ("Ann Example <ann@example.com>", "ed25519", "Expires:     never", "'example.com/app' and the images"):
                contains(shown, part, "what is shown")
            equal(stored(host), ["prefix.d/example.com,app/" + fingerprint.lower()], "trusted keys")
        file = host.path("etc", "trustedkeys", stored(host)[0])
        equal(stat.S_IMODE(os.stat(file).st_mode), 0o644, "mode of the key's file")
        contains(read_text(file), "BEGIN PGP PUBLIC KEY BLOCK", "the file")


@case
def an_interrupted_question_changes_nothing(host):
    with keys_of(host) as keys:
        path = put(host, "ann.key", keys.make("Ann Example <ann@example.com>")[1])
        shown, status = on_terminal(host, b"\x03", "--prefix=example.com/app", path)
        equal(status, -signal.SIGINT, "exit status after %s" % shown)
        lacks(shown, "Error", "what is shown")
        equal(stored(host), [])
        # Nor does one that reads a key from a pipe that nothing comes from.
        reader, writer = os.pipe()
        p = subprocess.Popen(host.argv("--config-dir=" + host.path("etc"), "trust", "--yes", "--root", "-"), stdin=reader,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=default_signals)
        host.children.append(p)
        os.close(reader)
        os.write(writer, b"-----BEGIN")
        caught = re.compile(r"SigCgt:\t([0-9a-f]+)")
        wait_for(lambda: int(caught.search(read_text("/proc/%d/status" % p.pid)).group(1), 16) & 1 << signal.SIGINT - 1, "the program")
        p.send_signal(signal.SIGINT)
        r = host.finish(p, 10)
        os.close(writer)
        equal((r.rc, r.err), (-signal.SIGINT, ""))
        equal(stored(host), [])


@case
def no_terminal_to_ask_on(host):
    with keys_of(host) as keys:
        fingerprint, key = keys.make("ann <ann@example.com>")
        path = put(host, "ann.key", key)
        r = trust(host, "--root", path).expect(1)
        contains(r.err, "no terminal to ask on")
        contains(r.err, "--yes")
        contains(r.err, " ".join(fingerprint[i:i + 4] for i in range(0, 40, 4)))
        equal(stored(host), [], "trusted keys")
        for option in ("--yes", "-y", "--skip-fingerprint-review"):
            equal(trust(host, option, "--root", path).expect(0).out, fingerprint + "\n", "output with " + option)
        equal(stored(host), ["root.d/" + fingerprint.lower()], "trusted keys")
        contains(trust(host, "--yes", "--root", path).expect(0).err, "trusted already")
        r = trust(host, "--yes", "--root", "-", input=key).expect(0)
        equal(json.loads(trust(host, "--yes", "--json=short", "--root", path).expect(0).out),
              [{"fingerprint": fingerprint}], "JSON")


@case
def listed_and_removed(host):
    with keys_of(host) as keys:
        a, key_a = keys.make("ann <ann@example.com>")
        b, key_b = keys.make("\x1b[31mbob <bob@example.com>", "1d", "--faked-system-time=20200101T000000!")
        both = put(host, "both.key", key_a + key_b)
        r = trust(host, "--list").expect(0)
        equal((r.out, json.loads(trust(host, "--list", "--json").expect(0).out)), ("", []), "the list")
        contains(r.err, "No keys are trusted")
        r = trust(host, "--yes", "--prefix=example.com", both).expect(0)
        lacks(r.err, "\x1b", "what is shown")
        contains(r.err, "it has expired")
        equal(sorted(r.out.split()), sorted([a, b]), "output")
        trust(host, "--yes", "--root", put(host, "a.key", key_a)).expect(0)
        rows = json.loads(trust(host, "--list", "--json=short").expect(0).out)
        equal([(x["prefix"], x["fingerprint"], x["state"]) for x in rows],
              [("", a, "trusted")] + sorted([("example.com", a, "trusted"), ("example.com", b, "expired")], key=lambda x: x[1]),
              "the list")
        equal([x["userIDs"] for x in rows if x["prefix"] == ""], [["ann <ann@example.com>"]], "user IDs")
        equal([x["expires"] - x["created"] for x in rows if x["fingerprint"] == b], [86400 * 1000000], "life of the key")
        r = trust(host, "--list").expect(0)
        equal(len(r.out.splitlines()), 4, "lines of the list")
        lacks(r.out, "\x1b", "the list")
        equal(len(trust(host, "--list", "--no-legend").expect(0).out.splitlines()), 3, "lines without legend")

        for word in "", "xyz", a[:15], a + "x":
            contains(trust(host, "--remove=" + word).expect(2).err, "a fingerprint has 40 hexadecimal digits")
        contains(trust(host, "--remove=" + a, "--prefix=example.org").expect(1).err, "not trusted for 'example.org'")
        r = trust(host, "--remove=" + a.lower()[20:], "--root").expect(0)
        equal(r.out, host.path("etc", "trustedkeys", "root.d", a.lower()) + "\n", "output")
        trust(host, "--remove=" + " ".join(a[i:i + 4] for i in range(0, 40, 4))).expect(0)
        contains(trust(host, "--remove=" + a).expect(1).err, "not trusted for anything")
        equal(stored(host), ["prefix.d/example.com/" + b.lower()], "trusted keys")


@case
def refused(host):
    with keys_of(host) as keys:
        fingerprint, key = keys.make("ann <ann@example.com>")
        good = put(host, "good.key", key)
        secret = put(host, "secret.key", keys.gpg("--armor", "--export-secret-keys", fingerprint))
        contains(trust(host, "--yes", "--root", secret).expect(1).err, "private key")
        contains(trust(host, "--yes", "--root", put(host, "junk", b"junk")).expect(1).err, "Cannot use the key file")
        contains(trust(host, "--yes", "--root", put(host, "empty", b"")).expect(1).err, "no public key")
        contains(trust(host, "--yes", "--root", put(host, "long", bytes(2 << 20))).expect(1).err, "longer than")
        contains(trust(host, "--yes", "--root", host.path("missing")).expect(1).err, "No such file")
        contains(trust(host, "--yes", "--prefix=Not/A/Prefix", good).expect(2).err, "'Not/A/Prefix' for --prefix")
        contains(trust(host, "--yes", "--prefix=../x", good).expect(2).err, "'../x' for --prefix")
        contains(trust(host, "--prefix=", good).expect(2).err, "for --prefix")
        equal(stored(host), [], "trusted keys")
        # An invalid key does not prevent the others from being trusted.
        trust(host, "--yes", "--root", host.path("junk"), good).expect(1)
        equal(stored(host), ["root.d/" + fingerprint.lower()], "trusted keys")
        for words in (["--root"], [good], ["--root", "--prefix=example.com", good], ["--list", good], ["--remove=x", good],
                      ["--list", "--root"], ["--root", "--insecure-options=x", good]):
            trust(host, *words).expect(2)


@case
def c8_directories_of_others(host):
    with keys_of(host) as keys:
        fingerprint, key = keys.make("ann <ann@example.com>")
        good = put(host, "good.key", key)
        trust(host, "--yes", "--root", good).expect(0)
        directory = host.path("etc", "trustedkeys", "root.d")
        os.chmod(directory, 0o777)
        for words in (["--list"], ["--yes", "--root", good], ["--remove=" + fingerprint]):
            r = trust(host, *words).expect(1)
            contains(r.err, "can be written to by others")
            contains(r.err, directory)
        os.chmod(directory, 0o755)
        os.rename(directory, directory + "x")
        os.symlink(directory + "x", directory)
        contains(trust(host, "--yes", "--root", good).expect(1).err, "is a symlink")


class Pages(http.server.BaseHTTPRequestHandler):
    pages = {}

    def do_GET(self):
        data = self.pages.get(self.path)
        self.send_response(200 if data is not None else 404)
        self.send_header("Content-Length", str(len(data or b"")))
        self.end_headers()
        self.wfile.write(data or b"")

    def log_message(self, *args):
        pass


@contextlib.contextmanager
def server(pages):
    handler = type("Handler", (Pages,), {"pages": pages})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as s:
        thread = threading.Thread(target=s.serve_forever)
        thread.start()
        try:
            yield "http://127.0.0.1:%d" % s.server_port
        finally:
            s.shutdown()
            thread.join()


@case
def keys_from_urls(host):
    with keys_of(host) as keys:
        fingerprint, key = keys.make("ann <ann@example.com>")
        with server({"/ann.key": key, "/long": bytes(2 << 20)}) as url:
            r = trust(host, "--yes", "--root", url + "/ann.key").expect(1)
            contains(r.err, "http")
            equal(stored(host), [], "trusted keys")
            contains(trust(host, "--yes", "--root", "--insecure-options=http", url + "/none").expect(1).err, "404")
            trust(host, "--yes", "--root", "--insecure-options=http", url + "/long").expect(1)
            for option in ("http", "all"):
                r = trust(host, "--yes", "--root", "--insecure-options=" + option, url + "/ann.key").expect(0)
                equal(r.out, fingerprint + "\n", "output")
            equal(stored(host), ["root.d/" + fingerprint.lower()], "trusted keys")


@case
def keys_that_pages_offer(host):
    """Meta discovery, through a proxy, so that the names need not be resolved."""
    with keys_of(host) as keys:
        fingerprint, key = keys.make("ann <ann@example.com>")
        page = (b'<html><head><meta name="ac-discovery-pubkeys" content="example.com/app http://example.com/ann.key">'
                b'<meta name="ac-discovery-pubkeys" content="example.com/other http://example.com/other.key"></head></html>')
        pages = {"http://example.com/app?ac-discovery=1": page, "http://example.com/ann.key": key}
        with server(pages) as url:
            env = dict(os.environ, http_proxy=url, https_proxy=url, HTTPS_PROXY=url)
            env.pop("no_proxy", None)
            r = trust(host, "--yes", "--prefix=example.com/app", env=env).expect(1)
            equal(stored(host), [], "trusted keys")
            r = trust(host, "--insecure-options=http", "--prefix=example.com/app", env=env).expect(1)
            contains(r.err, "no terminal to ask on")
            r = trust(host, "--yes", "--insecure-options=http", "--prefix=example.com/app", env=env).expect(0)
            equal(r.out, fingerprint + "\n", "output")
            equal(stored(host), ["prefix.d/example.com,app/" + fingerprint.lower()], "trusted keys")
            r = trust(host, "--yes", "--insecure-options=http", "--prefix=example.com/else", env=env).expect(1)
            contains(r.err, "No page offers keys for 'example.com/else'")
        contains(trust(host, "--prefix=nowhere").expect(1).err, "No page offers keys for 'nowhere'")
        contains(trust(host, "--prefix=No/Where").expect(2).err, "No/Where")
        # Options for images are refused here.
        for word in "pubkey", "signature", "http,pubkey":
            contains(trust(host, "--insecure-options=" + word, "--prefix=example.com/app").expect(2).err, "this option is for images")


def fetch(host, *args):
    return host.acnspawn("--config-dir=" + host.path("etc"), "fetch", *args)


def images(host):
    with contextlib.suppress(FileNotFoundError):
        return os.listdir(os.path.join(host.dir, "images"))
    return []


@case
def signed_and_encrypted_images(host):
    """Every kind of invalid signature leaves the store empty."""
    with keys_of(host) as keys:
        fingerprint, key = keys.make("ann <ann@example.com>")
        trust(host, "--yes", "--prefix=example.com/app", put(host, "ann.key", key)).expect(0)
        signature, passphrase = host.path("x.asc"), put(host, "pass", b"secret\n")
        os.chmod(passphrase, 0o600)

        def sign(path):
            keys.gpg("--armor", "--output", signature, "--detach-sign", path)
            return "--signature=" + signature

        apple = host.image(name="example.com/apple")
        r = fetch(host, sign(apple), apple).expect(1)
        contains(r.err, fingerprint)
        contains(r.err, "only for 'example.com/app'")
        contains(r.err, "acnspawn trust --prefix=example.com/apple")
        app = host.image(name="example.com/app", compression="gz")
        r = fetch(host, sign(apple), app).expect(1)
        contains(r.err, fingerprint)
        contains(r.err, "is bad")
        # The order of the specification: compressed, then encrypted, then signed.
        keys.gpg("--passphrase", "secret", "--cipher-algo", "AES256", "--output", host.path("e.aci"), "--symmetric", app)
        option = sign(host.path("e.aci"))
        fetch(host, option, host.path("e.aci")).expect(1)
        contains(fetch(host, "--passphrase-file=" + put(host, "wrong", b"x"), option, host.path("e.aci")).expect(1).err, "mode")
        os.chmod(host.path("wrong"), 0o600)
        contains(fetch(host, "--passphrase-file=" + host.path("wrong"), option, host.path("e.aci")).expect(1).err, "passphrase")
        with open(host.path("e.aci"), "ab") as f:
            f.write(b"x")
        contains(fetch(host, "--passphrase-file=" + passphrase, option, host.path("e.aci")).expect(1).err, "data after")
        with open(host.path("e.aci"), "r+b") as f:
            f.truncate(os.path.getsize(host.path("e.aci")) - 1)
        equal(images(host), [], "images")
        r = fetch(host, "--passphrase-file=" + passphrase, option, host.path("e.aci")).expect(0)
        info = json.loads(read_text(os.path.join(host.dir, "images", r.out.strip(), "info")))
        contains(json.dumps(info), fingerprint, "the record of the image")
        # The same image, plain.
        equal(fetch(host, sign(app), app).expect(0).out, r.out, "ID")


@case
def what_is_waited_for_can_be_interrupted(host):
    """A server that does not answer, and the lock of another that changes keys."""
    with keys_of(host) as keys, socket.create_server(("127.0.0.1", 0)) as server:
        _, key = keys.make("ann <ann@example.com>")
        good = put(host, "good.key", key)
        trust(host, "--yes", "--root", good).expect(0)
        lock = host.path("etc", "trustedkeys", ".lock")

        def waits(pid):
            return any(os.path.realpath("/proc/%d/fd/%s" % (pid, fd)) == lock for fd in os.listdir("/proc/%d/fd" % pid))

        def is_interrupted(url, ready):
            p = host.start("--config-dir=" + host.path("etc"), "trust", "--yes", "--insecure-options=http", "--prefix=example.com", url)
            wait_for(lambda: ready(p.pid), "acnspawn to wait")
            p.send_signal(signal.SIGINT)
            equal(p.wait(patience(20)), -signal.SIGINT)
        connections = []
        is_interrupted("http://127.0.0.1:%d/key" % server.getsockname()[1], lambda pid: connections.append(server.accept()) or True)
        connections[0][0].close()
        with open(lock) as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            is_interrupted(good, waits)
        equal(len(stored(host)), 1, "files")


@case
def nothing_stays_running(host):
    """No agent, no directory of gpg remains; also if it is killed at any moment."""
    with keys_of(host) as keys:
        _, key = keys.make("ann <ann@example.com>")
        good = put(host, "good.key", key)
        where = host.path("tmp")  # where gpg and acnspawn make what is temporary, of this case alone
        os.mkdir(where)
        own = dict(os.environ, XDG_RUNTIME_DIR=where, TMPDIR=where)
        for n in range(12):
            p = host.start("--config-dir=" + host.path("etc"), "trust", "--yes", "--root", good, env=own)
            time.sleep(n * 0.01)  # any time
            p.kill()
            p.wait()
        trust(host, "--yes", "--root", good, env=own).expect(0)
        equal(os.listdir(where), [], "what is left behind")

        def is_ours(pid):
            with contextlib.suppress(PermissionError):
                return "XDG_RUNTIME_DIR=" + where in read_text("/proc/%d/environ" % pid).split("\0")
        equal(processes_where(is_ours), [], "processes that go on")
        equal(len(stored(host)), 1, "files")


main()
