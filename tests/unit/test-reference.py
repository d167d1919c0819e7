#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Compares acnspawn's validation with that of the specification's reference, actool: documents that differ from a
valid one in one place, with values from the tables of the reference's own tests and with other boundary values. Both
must accept or refuse the same documents, except for the differences listed here with their reasons."""

import concurrent.futures
import copy
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

ACNSPAWN = sys.argv[1]
ACTOOL = shutil.which("actool")

ID = "sha512-" + "8d3fffddf79e9a232ffd19f9ccaa4d6b37a6a243dbe0f23137b108a043d9da13" * 2
APP = {"exec": ["/bin/x"], "user": "0", "group": "0"}
IMAGE = {"acKind": "ImageManifest", "acVersion": "0.8.11", "name": "example.com/app", "app": APP}
POD = {"acKind": "PodManifest", "acVersion": "0.8.11",
       "apps": [{"name": "app", "image": {"id": ID}, "app": APP}]}
ABSENT = object()

NAMES = ["asdf", "foo-bar-baz", "database", "example.com", "example.com/a/b", "a", "0", "9a", "", " ", "-a", "a-", ".a", "a.", "~a", "a~b",
         "a_b", "A", "Foo", "foo#", "foo bar", "foo/", "/foo", "a//b", "a--b", "a-.b", "example.com/Foo", "ü", "x" * 512, "a\n"]
VERSIONS = ["0.8.11", "1.0.0", "0.1.1", "1.2.3-pre", "1.2.3+build", "1.2.3-4+5", "", "1", "1.2", "1.2.3.4", "v1.2.3", "01.2.3", "1.2.x",
            "1.2.-3", "99999999999999999999.0.0", " 1.2.3", "1.2.3 ", "0.5.2", "0.6.0"]
KINDS = ["ImageManifest", "PodManifest", "imagemanifest", "", "Image", None, 7]
TEXTS = [None, "", 0, 1.5, True, [], {}, "x"]
QUANTITIES = ["1", "0", "1k", "1K", "1Ki", "1M", "1Mi", "1G", "1Gi", "1T", "1Ti", "1P", "1Pi", "1E", "1Ei", "100m", "0.5", "1.5Gi", ".5", "5.",
              "1e3", "1E3", "1e-3", "12.345", "1n", "1u", "", " ", "x", "1x", "1 G", " 1", "1 ", "+1", "-1", "-0", "1ki", "1KI", "1GB", "1.2.3", "1e",
              "0x10", "1_000", "9223372036854775807", "9223372036854775808", "8Ei", "7Ei", "99999999999999999999", "1e19", "1e999", "0.0001",
              "NaN", "inf", 1, 0, -1, 1.5, True, None, [], {}]
OSES = [("linux", a) for a in ("amd64", "i386", "aarch64", "aarch64_be", "armv6l", "armv7l", "armv7b", "ppc64", "ppc64le", "s390x", "arm",
                               "x86_64", "arm64", "AMD64", "", "mips")]
OSES += [("freebsd", a) for a in ("amd64", "i386", "arm", "x86_64", "arm64")] + [("darwin", a) for a in ("x86_64", "i386", "amd64")]
OSES += [(o, "amd64") for o in ("windows", "", "Linux", "openbsd", None)] + [("linux", None), (None, "nonsense")]
TIMES = ["2015-06-09T10:00:00Z", "2015-06-09T10:00:00+02:00", "2015-06-09T10:00:00.123456789Z", "2015-06-09", "2015-06-09 10:00:00", "", "x",
         "2015-13-09T10:00:00Z", "2015-02-30T10:00:00Z", "2016-02-29T10:00:00Z", "2015-06-09T25:00:00Z", "2015-06-09T10:60:00Z",
         "2015-06-09T10:00:00", "2015-06-09T10:00:00+2:00", "1996-12-19T16:39:57-08:00"]
HASHES = [ID, ID[:-1], ID + "0", ID.upper(), "sha512-", "sha256-" + "0" * 64, "sha512:" + ID[7:], "", "x", "sha512-0", "sha512-" + "g" * 128, None, 7]


def at(document, path, value):
    """A copy of DOCUMENT with VALUE at PATH, "a.0.b"; what is missing on the way is made."""
    result = copy.deepcopy(document)
    place, keys = result, path.split(".")
    for i, key in enumerate(keys[:-1]):
        key = int(key) if isinstance(place, list) else key
        if isinstance(place, list) and key == len(place):
            place.append([] if keys[i + 1].isdigit() else {})
        elif isinstance(place, dict) and key not in place:
            place[key] = [] if keys[i + 1].isdigit() else {}
        place = place[key]
    key = int(keys[-1]) if isinstance(place, list) else keys[-1]
    if value is ABSENT:
        del place[key]
    elif isinstance(place, list) and key == len(place):
        place.append(value)
    else:
        place[key] = value
    return result


def isolator(name, value):
    return at(IMAGE, "app.isolators.0", {"name": name, "value": value})


def named(kind, value):
    return {"name": kind, "value": value}


def documents():
    """Pairs of a name and a document."""
    def each(where, document, path, values):
        for v in values:
            yield "%s %s = %s" % (where, path, json.dumps(v)[:60]), at(document, path, v)

    for path in ("acKind", "acVersion", "name", "app", "app.exec", "app.user", "app.group"):
        yield "image without " + path, at(IMAGE, path, ABSENT)
    for path in ("acKind", "acVersion", "apps", "apps.0.name", "apps.0.image", "apps.0.image.id", "apps.0.app"):
        yield "pod without " + path, at(POD, path, ABSENT)
    yield from each("image", IMAGE, "name", NAMES + TEXTS)
    yield from each("image", IMAGE, "acVersion", VERSIONS + TEXTS)
    yield from each("image", IMAGE, "acKind", KINDS)
    yield from each("pod", POD, "acVersion", VERSIONS + TEXTS)
    yield from each("pod", POD, "apps.0.name", NAMES + TEXTS)
    yield from each("pod", POD, "apps.0.image.id", HASHES)
    yield from each("image", IMAGE, "app.user", ["0", "root", "/path", "", " ", "1000", "a b", None, 0])
    yield from each("image", IMAGE, "app.group", ["0", "root", "/path", "", None, 0])
    yield from each("image", IMAGE, "app.exec", [[], ["x"], ["/x", ""], [""], [7], "x", None, {}, ["/x", None]])
    yield from each("image", IMAGE, "app.workingDirectory", ["/", "/a/b", "a", "./a", "", "/a/../b", None, 7])
    yield from each("image", IMAGE, "app.supplementaryGIDs", [[], [1, 2], [-1], [1, 1], ["1"], [4294967295], [4294967296], [9 ** 30], None, {}])
    yield from each("image", IMAGE, "app.environment.0.name", ["A", "A_B", "_A", "a.b", "a-b", "1A", "", "A=B", "A B", "ü", None])
    yield from each("image", IMAGE, "app.environment.0", [named("A", ""), named("A", None), {"name": "A"}, {"value": "x"}, {}, [], "A=B"])
    yield "same variable twice", at(IMAGE, "app.environment", [named("A", "1"), named("A", "2")])
    for event in ("pre-start", "post-stop", "pre-stop", "", None):
        yield "event handler %s" % event, at(IMAGE, "app.eventHandlers.0", {"name": event, "exec": ["/x"]})
    yield "event handler twice", at(IMAGE, "app.eventHandlers", [{"name": "pre-start", "exec": ["/x"]}] * 2)
    yield "event handler without exec", at(IMAGE, "app.eventHandlers.0", {"name": "pre-start"})
    yield from each("image", at(IMAGE, "app.mountPoints.0", {"name": "a", "path": "/a"}), "app.mountPoints.0.path",
                    ["/a", "/", "a", "", "../a", "/../a", None, 7])
    yield from each("image", at(IMAGE, "app.mountPoints.0", {"name": "a", "path": "/a"}), "app.mountPoints.0.readOnly", [True, False, None, "true", 1])
    yield from each("image", at(IMAGE, "app.mountPoints.0", {"name": "a", "path": "/a"}), "app.mountPoints.0.name", NAMES[:12])
    port = at(IMAGE, "app.ports.0", {"name": "a", "protocol": "tcp", "port": 80})
    yield from each("image", port, "app.ports.0.port", [1, 65535, 0, 65536, -1, "80", 80.5, None, 1e30])
    yield from each("image", port, "app.ports.0.count", [0, 1, 2, 65456, 65457, -1, "1", None, 9 ** 30])
    yield from each("image", port, "app.ports.0.protocol", ["tcp", "udp", "sctp", "", None, 7])
    yield from each("image", port, "app.ports.0.socketActivated", [True, False, "true", None])
    yield "port range at the end", at(IMAGE, "app.ports.0", {"name": "a", "protocol": "tcp", "port": 65000, "count": 536})
    yield "port range over the end", at(IMAGE, "app.ports.0", {"name": "a", "protocol": "tcp", "port": 65000, "count": 537})
    for o, a in OSES:
        yield "labels %s %s" % (o, a), at(IMAGE, "labels", [named(n, v) for n, v in (("os", o), ("arch", a)) if v is not None])
        yield "dependency labels %s %s" % (o, a), at(IMAGE, "dependencies.0", {"imageName": "a", "labels": [named(n, v) for n, v in (
            ("os", o), ("arch", a)) if v is not None]})
    for labels in ([named("name", "x")], [named("version", "1"), named("version", "2")], [named("a b", "x")], [{"name": "a"}], [{"value": "a"}],
                   [named("a", None)], [named("a", 7)], {}, "x", [None]):
        yield "labels %s" % json.dumps(labels), at(IMAGE, "labels", labels)
    for v in HASHES:
        yield "dependency id %s" % v, at(IMAGE, "dependencies.0", {"imageName": "a", "imageID": v})
    for v in (0, 1, 1 << 32, 1 << 62, 1 << 63, (1 << 64) - 1, 1 << 64, -1, 1.5, "1", None):
        yield "dependency size %s" % v, at(IMAGE, "dependencies.0", {"imageName": "a", "size": v})
    for v in NAMES:
        yield "dependency name %s" % v[:20], at(IMAGE, "dependencies.0", {"imageName": v})
    yield "dependency without name", at(IMAGE, "dependencies.0", {"imageID": ID})
    yield from each("image", IMAGE, "pathWhitelist", [[], ["/a"], ["/a", "/b"], ["a"], [""], [7], "x", None])
    for v in TIMES:
        yield "created %s" % v, at(IMAGE, "annotations.0", named("created", v))
    for n, v in (("homepage", "http://example.com"), ("homepage", "https://example.com"), ("homepage", "ftp://example.com"), ("homepage", "x"),
                 ("homepage", ""), ("homepage", "unix://x"), ("homepage", "not a url"), ("homepage", "http://example.com/x?is=y"), ("documentation", "http://example.com/x"), ("documentation", "file:///x"), ("documentation", "zzz"),
                 ("authors", "x"), ("a b", "x"), ("A", "x"), ("a", None), ("a", 7), ("", "x")):
        yield "annotation %s %s" % (n, v), at(IMAGE, "annotations.0", named(n, v))
    yield "annotation twice", at(IMAGE, "annotations", [named("a", "1"), named("a", "2")])
    for kind in ("userAnnotations", "userLabels"):
        yield from each("image", IMAGE, "app." + kind, [{}, {"a": "b"}, {"A B": "ü"}, {"": ""}, {"a": 7}, {"a": None}, [], None, "x"])
        yield from each("pod", POD, kind, [{}, {"a": "b"}, {"a": 7}, [], None])
    for name in ("resource/cpu", "resource/memory"):
        for q in QUANTITIES:
            yield "%s limit %s" % (name, json.dumps(q)), isolator(name, {"limit": q})
            yield "%s request %s" % (name, json.dumps(q)), isolator(name, {"request": q, "limit": "1"})
        for v in ({}, [], "1", None, 7, {"default": True, "limit": "1"}, {"default": False, "limit": "1"}, {"request": "2", "limit": "1"}):
            yield "%s = %s" % (name, json.dumps(v)), isolator(name, v)
    for name in ("resource/block-bandwidth", "resource/block-iops", "resource/network-bandwidth"):
        for v in ({"default": True, "limit": "1"}, {"default": False, "limit": "1"}, {"limit": "1"}, {"default": True},
                  {"default": True, "limit": "1", "request": "1"}, {"default": True, "limit": "x"}, {}, None):
            yield "%s = %s" % (name, json.dumps(v)), isolator(name, v)
    for name in ("os/linux/capabilities-retain-set", "os/linux/capabilities-remove-set", "os/linux/seccomp-retain-set", "os/linux/seccomp-remove-set"):
        for v in ({"set": ["CAP_KILL"]}, {"set": []}, {}, {"set": [""]}, {"set": "x"}, {"set": [7]}, {"set": None}, None, [],
                  {"set": ["CAP_KILL", "CAP_KILL"]}, {"set": ["@appc.io/all"]}, {"set": ["@appc.io/all", "read"]}, {"set": ["read"], "errno": "EPERM"},
                  {"set": ["read"], "errno": ""}, {"set": ["read"], "errno": "nonsense"}, {"set": ["read"], "errno": 7},
                  {"set": ["@appc.io/empty"]}, {"set": ["@x/y"]}):
            yield "%s = %s" % (name, json.dumps(v)), isolator(name, v)
    for name, values in (("os/linux/no-new-privileges", [True, False, None, "true", {}, 1]),
                         ("os/linux/oom-score-adj", [0, -1000, 1000, -1001, 1001, "0", 1.5, None]),
                         ("os/linux/cpu-shares", [2, 1024, 262144, 1, 0, -1, 262145, "2", 2.5, None]),
                         ("os/linux/apparmor-profile", [{"profile": "x"}, {"profile": ""}, {}, "x", None]),
                         ("os/linux/selinux-context", [{"user": "u", "role": "r", "type": "t", "level": "s0"}, {"user": "u"}, {},
                                                       {"user": "u:", "role": "r", "type": "t", "level": "s0"},
                                                       {"user": "u", "role": "r", "type": "t"}, "x", None]),
                         ("os/unix/sysctl", [{"net.x": "1"}, {}, {"a": 7}, [], None, {"": "x"}]),
                         ("example.com/other", [{}, None, 7, "x"]), ("bad name", [{}]), ("", [{}])):
        for v in values:
            yield "%s = %s" % (name, json.dumps(v)), isolator(name, v)
    both = [named("os/linux/capabilities-retain-set", {"set": ["CAP_KILL"]}), named("os/linux/capabilities-remove-set", {"set": ["CAP_KILL"]})]
    yield "both capability sets", at(IMAGE, "app.isolators", both)
    yield "memory twice", at(IMAGE, "app.isolators", [named("resource/memory", {"limit": "1G"})] * 2)
    yield "retain set twice", at(IMAGE, "app.isolators", both[:1] * 2)
    volume = {"name": "v", "kind": "host", "source": "/v"}
    for change in ({}, {"kind": "empty"}, {"source": "v"}, {"source": ""}, {"source": ABSENT}, {"kind": "x"}, {"kind": ABSENT}, {"name": "A"},
                   {"readOnly": True}, {"readOnly": "x"}, {"recursive": False}, {"mode": "0755"}, {"uid": 1}, {"source": "/../v"}):
        v = {k: x for k, x in {**volume, **change}.items() if x is not ABSENT}
        yield "volume %s" % json.dumps(v), at(POD, "volumes.0", v)
    for change in ({}, {"mode": "0755"}, {"mode": "755"}, {"mode": "7777"}, {"mode": "9"}, {"mode": "x"}, {"mode": ""}, {"mode": 493}, {"uid": 0},
                   {"uid": -1}, {"uid": 1 << 31}, {"gid": 5}, {"uid": "0"}, {"source": "/x"}, {"readOnly": True}, {"recursive": True}):
        yield "empty volume %s" % json.dumps(change), at(POD, "volumes.0", {"name": "v", "kind": "empty", **change})
    yield "volume twice", at(POD, "volumes", [volume, volume])
    for p in ({"name": "p", "hostPort": 80}, {"name": "p"}, {"name": "p", "hostPort": 65536}, {"name": "p", "hostPort": 0},
              {"name": "p", "hostPort": 80, "hostIP": "127.0.0.1"}, {"name": "p", "hostPort": 80, "hostIP": "::1"},
              {"name": "p", "hostPort": 80, "hostIP": "x"}, {"name": "p", "hostPort": 80, "podPort": {"name": "q", "protocol": "tcp", "port": 1}},
              {"name": "p", "hostPort": 80, "podPort": {"name": "q", "protocol": "tcp", "port": 0}}, {"name": "P", "hostPort": 80}):
        yield "exposed port %s" % json.dumps(p), at(POD, "ports.0", p)
    yield "app twice", at(POD, "apps.1", POD["apps"][0])
    for more in ({"nonsense": 1}, {"NAME": "x"}, {"Name": "example.com/app"}):
        yield "more keys %s" % json.dumps(more), {**IMAGE, **more}


REFUSED, ACCEPTED = "refused by us alone", "accepted by us alone"
# Intended differences: which of the two refuses, the names of the documents, and why.
DIFFERENCES = [
    (REFUSED, r"pod without |exposed port \{\"name\": \"p\"\}|labels \[\{\"(name|value)\": \"a\"\}\]|image app.ports.0.protocol = null"
              r"|image app.mountPoints.0.path = null|image app.environment.0(.name)? = (\{\"name\": \"A\"\}|\"(A|A_B|_A|a.b|a-b)\")",
     "the specification requires it; Go takes what is missing for empty"),
    (REFUSED, r".*(\[null\]|, null\]|: null\}\]?|= None| None)$", "null where a string or an object has to be"),
    (REFUSED, r"(image name|dependency name|pod apps.0.name).*(a//b|a--b)", "the pattern of the specification has single separators"),
    (REFUSED, r".*acVersion = \"01.2.3\"", "no leading zeros in semantic versions"),
    (REFUSED, r"image acKind = \"PodManifest\"", "a pod manifest without apps; see above"),
    (REFUSED, r"(pod apps.0.image.id =|dependency id) \"?sha512-", "an ID is 128 hex digits"),
    (REFUSED, r"image app.supplementaryGIDs = \[", "numbers that no group can have"),
    (REFUSED, r"image app.mountPoints.0.path = \"(\"|/?../a)", "cannot be mounted on"),
    (REFUSED, r"image app.ports.0.protocol = \"\"", "no protocol"),
    (REFUSED, r"dependency size (9223372036854775808|18446744073709551615)$", "more than any file has"),
    (REFUSED, r"image pathWhitelist = \[\"a?\"\]", "the specification wants absolute paths"),
    (REFUSED, r"resource/\S+ (limit|request) \"( 1|1 )\"", "spaces are no part of a quantity"),
    (REFUSED, r"resource/\S+ (limit|request) \"?-", "no resource is negative"),
    (REFUSED, r"resource/\S+ (limit|request) \"(9+|9223372036854775808|9223372036854775807|[78]Ei|1Ei?|1e19|1e999)\"",
     "does not fit into 64 bits, of cores in thousandths; the reference takes the largest number for it"),
    (REFUSED, r"os/linux/(capabilities|seccomp)-\S+ = .*\"(@\S+|)\"", "neither a capability nor a system call"),
    (REFUSED, r"os/unix/sysctl = \{\"\"", "an empty name"),
    (REFUSED, r"both capability sets", "the specification says that they exclude each other"),
    (REFUSED, r"empty volume \{\"mode\": \"(9|x|)\"", "no mode"),
    (REFUSED, r"empty volume \{\"uid\": -1", "no user"),
    (REFUSED, r"exposed port .*\"hostPort\": (0|65536)\}", "no port"),
    (REFUSED, r"exposed port .*\"hostPort\": 80(, \"hostIP\": \"(127.0.0.1|::1)\")?\}", "no app of the pod has a port of that name"),
    (REFUSED, r"pod apps.0.name = \"x{40,}", "the name of an app becomes the name of a unit, which has a limit"),
    (REFUSED, r"volume .*\"source\": \"/\.\./v\"", "a source is taken as it is written, without '..'"),
    (REFUSED, r"empty volume \{\"uid\": 2147483648\}", "no user of a pod, which has 65536"),
    (REFUSED, r"more keys ", "one field in two spellings"),
    (ACCEPTED, r"resource/\S+ (limit|request) \"1K\"", "the specification has K"),
    (ACCEPTED, r"os/linux/apparmor-profile = \"x\"", "not in the specification"),
    (ACCEPTED, r"example.com/other = ", "isolators that are not known are kept, and reported as ignored"),
]


def ours(paths):
    """Which of the documents we take."""
    r = subprocess.run([ACNSPAWN, "validate"] + paths, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if r.returncode not in (0, 1):
        print("not ok reference: acnspawn ended with exit status %d" % r.returncode)
        sys.exit(1)
    return {line.split(":")[0] for line in r.stdout.splitlines() if re.search(r": valid (image|pod) manifest$", line)}


def theirs(paths):
    """It stops at the first one that is wrong."""
    def run(path):
        return subprocess.run([ACTOOL, "validate", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return {path for path, good in zip(paths, pool.map(run, paths)) if good}


def main():
    if not ACTOOL:
        print("SKIP: no actool here, the reference (Debian package appc-spec)")
        return 77
    bad, met = 0, set()
    with tempfile.TemporaryDirectory() as d:
        names = {}
        for name, document in documents():
            path = os.path.join(d, str(len(names)))
            names[path] = name
            with open(path, "w") as f:
                json.dump(document, f)
        us, them = ours(list(names)), theirs(list(names))
        for path in sorted(us ^ them, key=lambda p: int(os.path.basename(p))):
            kind = ACCEPTED if path in us else REFUSED
            rules = [i for i, (k, pattern, _) in enumerate(DIFFERENCES) if k == kind and re.match(pattern, names[path])]
            met.update(rules)
            if not rules:
                print("not ok reference: %s: %s" % (names[path], kind))
                bad += 1
    for i in set(range(len(DIFFERENCES))) - met:
        print("not ok reference: there is no difference any more: %s" % DIFFERENCES[i][1])
        bad += 1
    if not us or not them:
        print("not ok reference: nothing was accepted")
        bad += 1
    if not bad:
        print("ok reference")
        print("# %d documents, %d accepted by both, %d differences" % (len(names), len(us & them), len(us ^ them)))
    return 1 if bad else 0


sys.exit(main())
