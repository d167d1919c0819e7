#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Our Varlink library and systemd's own client, varlinkctl, which Debian has from 13 on (run.py --release=13)."""

from harness import *

SERVE = os.path.join(os.environ.get("ACNSPAWN_TEST_HELPERS", ""), "varlink-serve")


class Service:
    def __init__(self, host):
        if not shutil.which("varlinkctl"):
            raise Skip("there is no varlinkctl")
        self.path = host.path("varlink")
        self.process = subprocess.Popen([SERVE, self.path])
        wait_for(lambda: os.path.exists(self.path), "the service's socket")

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.process.kill()
        self.process.wait()

    def ctl(self, verb, *args):
        words = [a for a in args if a.startswith("--")]
        return subprocess.run(["varlinkctl", "--no-pager", *words, verb, "unix:" + self.path, *[a for a in args if a not in words]],
                              capture_output=True, text=True, timeout=60)

    def call(self, method, parameters, *options):
        r = self.ctl("call", "org.acnspawn.Test." + method, json.dumps(parameters), "--json=short", *options)
        return r, [json.loads(line.strip("\x1e")) for line in r.stdout.splitlines() if line.strip("\x1e")]


@case
def information(host):
    with Service(host) as s:
        r = s.ctl("info")
        equal(r.returncode, 0, r.stderr)
        for word in ("Tests", "org.varlink.service", "org.acnspawn.Test"):
            contains(r.stdout, word)
        equal(sorted(s.ctl("list-interfaces").stdout.split()), ["org.acnspawn.Test", "org.varlink.service"])


@case
def descriptions(host):
    """varlinkctl parses them, and prints the result."""
    with Service(host) as s:
        for interface, words in (("org.varlink.service", ("method GetInfo()", "error MethodNotFound")),
                                 ("org.acnspawn.Test", ("# A place.", "type Color", "method Count", "at: ?[]Point", "error Refused"))):
            r = s.ctl("introspect", interface)
            equal(r.returncode, 0, r.stderr)
            equal(r.stderr, "")
            for word in words:
                contains(r.stdout, word)


@case
def calls(host):
    everything = {"word": "w\u00f6rd \U0001f600 \"\\/\n", "n": -5, "at": [{"x": 1, "y": 2}, {"x": 2}], "color": "blue",
                  "names": [{"id": 1, "kind": "large"}], "rest": {"any": [None, {}]}}
    with Service(host) as s:
        r, replies = s.call("Echo", everything)
        equal(r.returncode, 0, r.stderr)
        equal(replies, [everything])
        big = {"word": "x" * 100000}
        equal(s.call("Echo", big)[1], [big])
        for method, parameters, error in (("Echo", {}, "InvalidParameter"), ("Echo", {"word": "w", "color": "pink"}, "InvalidParameter"),
                                          ("Nothing", {}, "MethodNotFound"), ("Missing", {}, "MethodNotImplemented"),
                                          ("Count", {"to": 3}, "ExpectedMore"), ("Refuse", {"why": "no"}, "org.acnspawn.Test.Refused")):
            r, _ = s.call(method, parameters)
            if r.returncode == 0:
                fail("%s: no error: %s" % (method, r.stdout))
            contains(r.stderr, error)
        equal(s.call("Echo", {"word": "w"}, "--oneway")[0].returncode, 0)


@case
def several_replies(host):
    with Service(host) as s:
        r, replies = s.call("Count", {"to": 100}, "--more")
        equal(r.returncode, 0, r.stderr)
        equal([x["n"] for x in replies], list(range(1, 101)))
        equal(s.call("Echo", {"word": "w"}, "--more")[1], [{"word": "w"}])


if __name__ == "__main__":
    main()
