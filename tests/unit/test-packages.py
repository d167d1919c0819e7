#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The packages of Debian, Fedora or openSUSE, and Arch (debian/, packaging/) agree with the project: its version, the files that
meson installs, and the libraries that it is built with and loads. A new file that no package ships fails here.

usage: test-packages.py SOURCE-DIRECTORY BUILD-DIRECTORY VERSION
"""

import fnmatch
import glob
import json
import os
import re
import sys

SOURCE, BUILD, VERSION = sys.argv[1:]
failures = 0

# By the name that meson.build asks for: Debian's packages for building, and the packages with the library of Fedora and Arch. Libraries
# that are linked, whose dependencies RPM finds itself, have none of Fedora; those that the build alone needs have neither.
LIBRARIES = {
    "bz2": ("libbz2-dev", "bzip2-libs", "bzip2"),
    "gpgme": ("libgpgme-dev", "gpgme", "gpgme"),
    "json-c": ("libjson-c-dev", None, "json-c"),
    "libarchive": ("libarchive-dev", "libarchive", "libarchive"),
    "libcap-ng": ("libcap-ng-dev", "libcap-ng", "libcap-ng"),
    "libcrypto": ("libssl-dev", "openssl-libs", "openssl"),
    "libcurl": ("libcurl4-openssl-dev", "libcurl", "curl"),
    "liblzma": ("liblzma-dev", "xz-libs", "xz"),
    "libmicrohttpd": ("libmicrohttpd-dev", None, "libmicrohttpd"),
    "libnghttp2": ("libnghttp2-dev", None, "libnghttp2"),
    "libprotobuf-c": ("libprotobuf-c-dev", None, "protobuf-c"),
    "libseccomp": ("libseccomp-dev:native", None, None),
    "libssl": ("libssl-dev", "openssl-libs", "openssl"),
    "libsystemd": ("libsystemd-dev", "systemd-libs", "systemd-libs"),
    "libxml-2.0": ("libxml2-dev", "libxml2", "libxml2"),
    "libzstd": ("libzstd-dev", "libzstd", "zstd"),
    "yaml-0.1": ("libyaml-dev", "libyaml", "libyaml"),
    "mount": ("libmount-dev", "libmount", "util-linux-libs"),
    "systemd": ("systemd-dev", "systemd", "systemd"),
    "zlib": ("zlib1g-dev", "zlib", "zlib"),
}
# By the name in library/: as meson.build has it.
LOADED = {"libbz2": "bz2", "libcapng": "libcap-ng", "libgpgme": "gpgme", "libmnt": "mount", "libxml": "libxml-2.0", "libz": "zlib"}


def read(path):
    with open(os.path.join(SOURCE, path)) as f:
        return f.read()


def case(name, wrong):
    global failures
    failures += bool(wrong)
    print(f"not ok {name}: {wrong}" if wrong else f"ok {name}")


def matches(pattern, path):
    return fnmatch.fnmatchcase(path, pattern) or pattern.endswith("/") and path.startswith(pattern)


def arch_array(name):
    text = re.search(r"(?m)^%s=\(([^)]*)\)$" % name, re.sub(r"(?m)^ *#.*", "", PKGBUILD)).group(1)
    return [w.strip("'") for w in re.findall(r"'[^']*'|[^\s']+", text)]


def without_version(words):
    return {re.split(r"[><=:]", w)[0] for w in words}


def rpm_tags(tag):
    """Name and version of each."""
    return dict(re.findall(r"(?m)^%s: +(\S+)(?: >= (\S+))?$" % tag, SPEC))


SPEC, PKGBUILD, CONTROL = read("packaging/rpm/acnspawn.spec"), read("packaging/arch/PKGBUILD"), read("debian/control")
MESON = read("meson.build")
with open(os.path.join(BUILD, "meson-info", "intro-installed.json")) as f:
    INSTALLED = sorted(set(json.load(f).values()))
NEEDED = dict(re.findall(r"(?:dependency|find_library)\('([^']+)'(?:, version : '>= ([^']+)')?", MESON))
NEEDED = {name: version for name, version in NEEDED.items() if name != "threads"}
NEEDED["systemd"] = ""


def versions():
    found = {
        "debian/changelog": re.match(r"acnspawn \(([^)]*)\)", read("debian/changelog")).group(1),
        "packaging/rpm/acnspawn.spec": re.search(r"(?m)^Version: +(\S+)$", SPEC).group(1),
        "packaging/arch/PKGBUILD": re.search(r"(?m)^pkgver=(\S+)$", PKGBUILD).group(1),
        "NEWS.md": re.search(r"(?m)^## (\S+)", read("NEWS.md")).group(1),
    }
    case("versions", [f"{path} has {v}, meson.build {VERSION}" for path, v in found.items() if v != VERSION])


def files_of_rpm():
    macros = {"_prefix": "/usr", "_bindir": "/usr/bin", "_datadir": "/usr/share", "_mandir": "/usr/share/man", "_sysconfdir": "/etc"}
    lines = [re.sub(r"%\{(\w+)\}", lambda m: macros[m.group(1)], line.split()[-1])
             for line in SPEC.split("\n%files\n")[1].splitlines() if re.match(r"%(\{|config)", line)]
    # Where this system's pkg-config and zsh have them.
    installed = [p.replace("/zsh/vendor-completions/", "/zsh/site-functions/") for p in INSTALLED]
    installed = [re.sub(r"^(/usr)?/lib/systemd/", "/usr/lib/systemd/", p) for p in installed]
    case("rpm-ships-all-files", [f"%files does not have {p}" for p in installed if not any(matches(l, p) for l in lines)])
    case("rpm-has-no-other-files", [f"{l} is not installed" for l in lines if not any(matches(l, p) for p in installed)])


def configuration_files():
    ours = {p.lstrip("/") for p in INSTALLED if p.startswith("/etc/")}
    case("arch-backup", sorted(ours ^ set(arch_array("backup"))))
    case("rpm-config", [p for p in ours if "%config(noreplace) %{_sysconfdir}" + p[3:] + "\n" not in SPEC])


def debian_ships_all():
    """Everything that meson installs goes into one package; units that are enabled are those of the preset."""
    rules = read("debian/rules")
    enabled = set(" ".join(re.findall(r"dh_installsystemd -pacnspawn(?:-cri)? ([^-].*)", rules)).split())
    preset = set(re.findall(r"(?m)^enable (\S+)$", read("units/90-acnspawn.preset")))
    disabled = set(re.findall(r"(?m)^disable (\S+)$", read("units/90-acnspawn.preset")))
    case("debian-one-package", "debian/rules does not install into debian/acnspawn"
         if "dh_auto_install --destdir=debian/acnspawn\n" not in rules else None)
    case("units-that-are-enabled", sorted(enabled ^ preset))
    not_enabled = set(re.search(r"dh_installsystemd -pacnspawn --no-enable --no-start (.*)", rules).group(1).split())
    case("units-that-are-disabled", sorted(not_enabled ^ disabled))
    for macro in "systemd_post", "systemd_preun", "systemd_postun_with_restart":
        words = " ".join(re.findall(r"%%\{\?%s:%%%s (.*)\}" % (macro, macro), SPEC)).split()
        case("rpm-" + macro, sorted(set(words) ^ (preset | disabled)))
    profiles = {os.path.basename(p) for p in INSTALLED if re.match(r"/etc/apparmor\.d/[^/]+$", p)}
    case("debian-apparmor", sorted(profiles ^ set(re.findall(r"--profile-name=(\S+)", rules))))


def package_of_the_cri():
    """All that has its name is in a package of its own, in each distribution, and is built there."""
    ours = {re.sub(r"^(/usr)?/lib/systemd/", "/usr/lib/systemd/", p).lstrip("/") for p in INSTALLED if "/acnspawn-cri" in p}
    rules = read("debian/rules").replace("\\\n", " ")
    debian = re.search(r"(?m)^cri_files := (.*)$", rules).group(1).replace("$(patsubst /%,%,$(unitdir))", "usr/lib/systemd/system").split()
    case("debian-cri", sorted(ours ^ set(debian)) if ours else None)
    macros = {"%{_bindir}": "usr/bin", "%{_prefix}": "usr", "%{_mandir}": "usr/share/man"}
    rpm = {line for line in SPEC.split("\n%files cri\n")[1].split()}
    for macro, path in macros.items():
        rpm = {line.replace(macro, path) for line in rpm}
    case("rpm-cri", sorted(ours ^ {line.rstrip("*") for line in rpm}) if ours else None)
    arch = re.search(r"(?m)^_cri_files=\((.*)\)$", PKGBUILD).group(1).split()
    arch = {a for w in arch for a in ([w.replace("{service,socket}", s) for s in ("service", "socket")] if "{" in w else [w])}
    case("arch-cri", sorted(ours ^ arch) if ours else None)
    for name, text in ("debian/rules", rules), ("acnspawn.spec", SPEC), ("PKGBUILD", PKGBUILD):
        case("built-with-cri-" + name.replace("/", "-"), None if "-Dcri=enabled" in text else "%s does not say -Dcri=enabled" % name)


def built_with():
    case("known-libraries", sorted(set(NEEDED) ^ set(LIBRARIES)))
    rpm = rpm_tags("BuildRequires")
    debian = CONTROL.split("\nPackage:")[0]
    arch = without_version(arch_array("depends") + arch_array("makedepends"))
    for name, version in NEEDED.items():
        deb = re.search(r"[\s|]%s(?: \(>= ([^)]*)\))?[,\s]" % re.escape(LIBRARIES[name][0]), debian)
        wrong = []
        if not deb:
            wrong.append("debian/control has no " + LIBRARIES[name][0])
        elif (deb.group(1) or "") != version:
            wrong.append(f"debian/control has version {deb.group(1)}, meson.build {version or 'none'}")
        wanted = "bzip2-devel" if name == "bz2" else f"pkgconfig({name})"
        if rpm.get(wanted) != version:
            wrong.append(f"acnspawn.spec has no BuildRequires of {wanted} {version}")
        if (LIBRARIES[name][2] or name) not in arch:
            wrong.append(f"PKGBUILD has no {LIBRARIES[name][2] or name}")
        case("built-with-" + name, wrong)


def loaded():
    """As the notes in the program have it; those of Debian are found by dpkg-shlibdeps."""
    requires, recommends = rpm_tags("Requires"), rpm_tags("Recommends")
    for path in sorted(glob.glob(os.path.join(SOURCE, "library", "lib?*.c"))):
        key = os.path.basename(path)[:-2]
        if key == "library":
            continue
        name = LOADED.get(key, key)
        required = "LIBRARY_REQUIRED" in read(path)
        _, fedora, arch = LIBRARIES[name]
        wrong = []
        if fedora not in (requires if required else recommends):
            wrong.append(f"acnspawn.spec does not {'require' if required else 'recommend'} {fedora}")
        elif (requires if required else recommends)[fedora] != NEEDED[name]:
            wrong.append(f"acnspawn.spec has another version of {fedora} than meson.build")
        if arch not in without_version(arch_array("depends" if required else "optdepends")):
            wrong.append(f"PKGBUILD has no {arch}")
        case("loads-" + key, wrong)


def programs():
    """What pods need beside libraries is the same everywhere."""
    section = CONTROL.split("\nPackage: acnspawn\n")[1].split("\nPackage:")[0]
    fields = re.findall(r"(?m)^(?:Depends|Recommends):((?:.*\n)(?:^ .*\n)*)", section)
    debian = {re.split(r"[ (]", w.strip())[0] for w in ",".join(fields).split(",") if re.match(r"\s*[a-z]", w)}
    rpm = set(rpm_tags("Requires")) | set(rpm_tags("Recommends"))
    arch = without_version(arch_array("depends") + arch_array("optdepends"))
    names = {"iproute2": ("iproute", "iproute2"), "gnupg": ("gnupg2", "gnupg"), "systemd-container": ("systemd-container", "systemd"),
             "containernetworking-plugins": ("containernetworking-plugins", "cni-plugins")}
    for name in sorted(debian):
        fedora, archs = names.get(name, (name, name))
        case("program-" + name, (fedora not in rpm and f"acnspawn.spec has no {fedora}") or (archs not in arch and f"PKGBUILD has no {archs}"))


versions()
files_of_rpm()
configuration_files()
debian_ships_all()
package_of_the_cri()
built_with()
loaded()
programs()
sys.exit(1 if failures else 0)
