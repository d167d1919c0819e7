#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The packages of Debian: built by dpkg-buildpackage from a copy of the source, and looked at.

    tests/packages/deb.py OUTPUT-DIRECTORY

Afterwards OUTPUT-DIRECTORY holds acnspawn.deb, acnspawn-cri.deb and acnspawn-doc.deb, and the log of the build. The unit tests do not run during the
build here; they run by themselves. Every case prints "ok NAME", "not ok NAME: why" or "skip NAME: why".
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.abspath(sys.argv[1])
LOG = OUT + "/build.log"
failures = 0


def case(name, wrong):
    global failures
    failures += bool(wrong)
    print("not ok %s: %s" % (name, wrong) if wrong else "ok " + name, flush=True)


def output(*args, **more):
    return subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more).stdout


def build():
    """The .changes file, that of the source package, and the tree that was built in."""
    shutil.rmtree(OUT, ignore_errors=True)
    tree = OUT + "/build/acnspawn"
    subprocess.run([HERE + "/source", tree], check=True)
    subprocess.run(["dpkg-source", "--build", "acnspawn"], cwd=os.path.dirname(tree), check=True, stdout=subprocess.DEVNULL)
    env = dict(os.environ, DEB_BUILD_OPTIONS="nocheck parallel=%d" % len(os.sched_getaffinity(0)))
    env.pop("DEB_BUILD_PROFILES", None)
    with open(LOG, "w") as log:
        r = subprocess.run(["dpkg-buildpackage", "--no-sign", "--build=any,all"], cwd=tree, env=env, stdout=log, stderr=subprocess.STDOUT)
    if r.returncode != 0:
        with open(LOG) as f:
            sys.stderr.write("".join(f.readlines()[-30:]))
        case("deb/builds", "exit status %d, see %s" % (r.returncode, LOG))
        sys.exit(1)
    for name in "acnspawn", "acnspawn-cri", "acnspawn-doc":
        found = glob.glob(OUT + "/build/%s_*.deb" % name)
        os.link(found[0], "%s/%s.deb" % (OUT, name))
    case("deb/builds", None)
    return glob.glob(OUT + "/build/*.changes")[0], glob.glob(OUT + "/build/*.dsc")[0], tree


def warnings():
    with open(LOG) as f:
        lines = [line.strip() for line in f if "warning:" in line]
    # Of the objects from which dependencies on loaded libraries are derived; see debian/dlopen-libraries.
    known = ("binaries to analyze should already be installed", "couldn't parse dynamic symbol definition: no symbols")
    case("deb/warnings", [line for line in lines if not any(k in line for k in known)])


def lintian(changes, source, tree):
    """Errors, warnings, and what an override names that is not there."""
    said = output("lintian", "--allow-root", "--display-info", "--tag-display-limit=0", changes, source)
    said = [l for l in said.splitlines() if re.match("[EWI]: |lintian: ", l)]
    # Bytes of machine code that look like a short word, which change with each compiler: "wTH".
    code = re.compile(r"I: \S+ spelling-error-in-binary (?=\S{,4} )\S*[a-z]\S*[A-Z]\S* ")
    case("deb/lintian", [l for l in said if not code.match(l)])
    overrides = sorted(glob.glob(tree + "/debian/*.lintian-overrides") + glob.glob(tree + "/debian/source/lintian-overrides"))
    for path in overrides:
        with open(path) as f:
            lines = f.read().splitlines()
        case("deb/overrides-" + path.split("/debian/")[1].replace("/", "-"),
             None if lines[0].startswith("# ") else "the first override has no explanation")


def contents(package):
    """Path to mode and owner."""
    found = {}
    for line in output("dpkg-deb", "--contents", package).splitlines():
        mode, owner, *_, path = line.split(" -> ")[0].split()
        if not path.endswith("/"):
            found[path[1:]] = (mode, owner)
    return found


def has_all_files(tree):
    plan = output("meson", "introspect", "--installed", glob.glob(tree + "/obj-*")[0])
    files = contents(OUT + "/acnspawn.deb")
    cri = contents(OUT + "/acnspawn-cri.deb")
    case("deb/no-file-in-two-packages", sorted(set(files) & set(cri)))
    files.update(cri)
    wanted = set(json.loads(plan).values())
    shipped = {p[:-3] if p.endswith(".gz") else p for p in files}
    case("deb/has-what-meson-installs", sorted(wanted - shipped))
    more = shipped - wanted - {"/usr/share/lintian/overrides/acnspawn", "/usr/share/lintian/overrides/acnspawn-cri"}
    case("deb/has-nothing-else", sorted(p for p in more if not p.startswith(("/usr/share/doc/acnspawn/", "/usr/share/doc/acnspawn-cri/"))))
    # Where systemd has none, dpkg warns, when the package is purged, of a directory that is not empty.
    places = {os.path.dirname(p) for p in files if "/lib/systemd/" in p}
    case("deb/directories-of-systemd", sorted(d for d in places if not re.search(r"(?m)^(.*, )?systemd(, .*)?: %s$" % d, output("dpkg-query", "--search", d))))
    case("deb/owners", sorted(p for p, (mode, owner) in files.items()
                                   if mode[0] != "l" and (owner != "root/root" or mode[5] == "w" or mode[8] == "w" or "s" in mode)))


def program_headers(path):
    return output("readelf", "--wide", "--file-header", "--program-headers", "--dynamic", path)


def hardened(tree):
    """The flags by the log, and what they made of each program."""
    said = output("blhc", "--bindnow", "--ignore-flag", "-fPIE", LOG)
    case("deb/blhc", [l[:200] for l in said.splitlines() if not l.startswith("running with root")])
    base = tree + "/debian/acnspawn/usr/"
    for path in [base + "bin/acnspawn", tree + "/debian/acnspawn-cri/usr/bin/acnspawn-cri"] + sorted(glob.glob(base + "lib/acnspawn/*")):
        if os.path.isdir(path):
            continue
        text, wrong = program_headers(path), []
        if not re.search(r"Type: +DYN", text):
            wrong.append("not position-independent")
        if "GNU_RELRO" not in text:
            wrong.append("no RELRO")
        if not re.search(r"FLAGS.*BIND_NOW|FLAGS_1.*NOW", text):
            wrong.append("not bound at once")
        if re.search(r"GNU_STACK .* RWE", text):
            wrong.append("executable stack")
        case("deb/hardened-" + os.path.basename(path), wrong)


def dependencies():
    """Those on loaded libraries: required ones, and those that only some operations need."""
    fields = dict(line.split(": ", 1) for line in output("dpkg-deb", "--field", OUT + "/acnspawn.deb", "Depends", "Recommends").splitlines())
    for field, libraries in (("Depends", "libarchive libcap-ng libmount libssl libsystemd libjson-c libc6 libmicrohttpd"),
                             ("Recommends", "libbz2 libcurl libgpgme liblzma libxml2 libzstd zlib1g")):
        names = [w.strip().split(" ")[0] for w in fields[field].split(",")]
        case("deb/" + field.lower(), [l for l in libraries.split() if not any(n.startswith(l) for n in names)])


def dependencies_of_the_cri():
    depends = output("dpkg-deb", "--field", OUT + "/acnspawn-cri.deb", "Depends")
    version = output("dpkg-deb", "--field", OUT + "/acnspawn.deb", "Version").strip()
    case("deb/cri-depends", [l for l in ("acnspawn (= %s)" % version, "libnghttp2", "libprotobuf-c", "libc6") if l not in depends])


def scripts(tree):
    """Maintainer scripts as they are in the package: for any shell, and with nothing that restarts or stops pods in an upgrade."""
    for name in "postinst", "prerm", "postrm":
        path = "%s/debian/acnspawn/DEBIAN/%s" % (tree, name)
        wrong = output("sh", "-n", path)
        with open(path) as f:
            text = f.read()
        if re.search(r"(restart|stop) [^\n]*acnspawn@", text) and name != "prerm":
            wrong += "touches instances of acnspawn@.service"
        case("deb/" + name, wrong)


def main():
    missing = [p for p in ("dpkg-buildpackage", "dh", "dh_apparmor", "lintian", "blhc") if not shutil.which(p)]
    if missing:
        print("skip deb: there is no " + " ".join(missing))
        return 0
    changes, source, tree = build()
    warnings()
    lintian(changes, source, tree)
    has_all_files(tree)
    hardened(tree)
    dependencies()
    dependencies_of_the_cri()
    scripts(tree)
    return 1 if failures else 0


sys.exit(main())
