#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# 64-bit ARM: everything is built by Debian's cross compiler, without a warning, and the unit tests run under qemu-user.
#
#   tests/packages/arm64.sh OUTPUT-DIRECTORY
#
# The compiler and the libraries for arm64 are in a root of their own, which mmdebstrap fills from the mirror that apt uses here; it is
# kept in the cache directory of the tests in virtual machines. The emulator in it is that of Debian 13: the one of 12 does not have
# openat2(), without which there is no store. Cases that the emulator cannot run are listed below.
set -uo pipefail
out=$1
here=$(cd "$(dirname "$0")" && pwd)
cache=${ACNSPAWN_TEST_VM_CACHE:-/var/cache/acnspawn-test}
release=bookworm
release_of_emulator=trixie
packages=(
        gcc libc6-dev gcc-aarch64-linux-gnu libc6-dev:arm64 meson ninja-build pkg-config binutils systemd python3
        libseccomp-dev busybox-static ca-certificates gnupg openssl procps protobuf-c-compiler
)
for name in libarchive libbz2 libcap-ng libcurl4-openssl libgpgme libjson-c liblzma libmicrohttpd libmount libnghttp2 libprotobuf-c libseccomp libssl libsystemd \
        libxml2 libyaml libzstd zlib1g; do
        packages+=("$name-dev:arm64")
done

for program in mmdebstrap unshare; do
        command -v "$program" >/dev/null || {
                echo "skip arm64: there is no $program"
                exit 0
        }
done

# Complete or not there.
root=$cache/arm64-$(printf '%s ' "$release" "$release_of_emulator" "${packages[@]}" | sha256sum | cut -c 1-16)
if [ ! -d "$root" ]; then
        echo "# making a root with the cross compiler; once, some minutes"
        mkdir -p "$cache"
        rm -rf "$cache"/arm64-* "$cache"/new-arm64-*
        mirror=$(cd "$here/../vm" && PYTHONDONTWRITEBYTECODE=1 python3 -c 'import image; print(image.mirror())')
        new=$(mktemp -d "$cache/new-arm64-XXXXXX")
        mmdebstrap --quiet --variant=minbase --architectures=amd64,arm64 --include="$(IFS=, && echo "${packages[*]}")" \
                --customize-hook="echo 'deb $mirror $release_of_emulator main' >\"\$1/etc/apt/sources.list.d/emulator.list\"" \
                --customize-hook='chroot "$1" apt-get -qq update' \
                --customize-hook="chroot \"\$1\" sh -ec 'cd /tmp; apt-get -qq download qemu-user/$release_of_emulator
                        dpkg-deb -x qemu-user_*.deb qemu; mv qemu/usr/bin/qemu-aarch64 /usr/local/bin; rm -r qemu*'" \
                --aptopt='Acquire::Retries 3' --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
                "$release" "$new/root" "$mirror" >&2 || {
                echo "not ok arm64/root: it cannot be made"
                exit 1
        }
        mv "$new/root" "$root"
        rmdir "$new"
fi

rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)
"$here/source" "$out/tree/source"
cat >"$out/tree/cross" <<'E2'
[binaries]
c = 'aarch64-linux-gnu-gcc'
ar = 'aarch64-linux-gnu-ar'
strip = 'aarch64-linux-gnu-strip'
pkgconfig = 'pkg-config'
exe_wrapper = '/usr/local/bin/qemu-aarch64'

[properties]
needs_exe_wrapper = true
pkg_config_libdir = '/usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig'

[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
E2

inside() {
        "$here/inside" "$root" "$out/tree" "$1"
}

if ! inside 'cd /out && meson setup build source --cross-file cross -Dtests=true --buildtype=debugoptimized && ninja -C build' \
        >"$out/build.log" 2>&1; then
        grep -E 'error:|ERROR|FAILED' "$out/build.log" | head -n 20 >&2
        tail -n 5 "$out/build.log" >&2
        echo "not ok arm64/builds: see $out/build.log"
        exit 1
fi
echo "ok arm64/builds"
if grep -q 'warning:' "$out/build.log"; then
        grep 'warning:' "$out/build.log" | sort -u | head -n 20 >&2
        echo "not ok arm64/warnings: see $out/build.log"
else
        echo "ok arm64/warnings"
fi


# The unit tests that are not run.
without=(
        # They start programs of acnspawn, which the kernel cannot execute here.
        cli filter-table generator host-units man metadata-client metadata-hostile metadata-limits metadata-service reference
        # The emulator has no filters of system calls and no Landlock, and differs in pidfds and in ancillary data.
        confine connections gpg-call interrupt journal process seccomp-filter
        # Its sockets are out of memory after some ten megabytes.
        grpc
        # These run in the other builds, as they are about the source alone; they have nothing of an architecture.
        packages
        # They take minutes under emulation.
        allocation-faults archive compress hostile-archives store-stress
)
mapfile -t names < <(inside 'meson test -C /out/build --list --suite unit 2>/dev/null' | sed 's,.* / ,,' | grep -vxF -f <(printf '%s\n' "${without[@]}"))
[ ${#names[@]} -gt 0 ] || {
        echo "not ok arm64/unit: there are no tests"
        exit 1
}
inside "meson test -C /out/build --no-rebuild --suite unit --timeout-multiplier 5 ${names[*]}" >"$out/unit.log" 2>&1
python3 - "$out/tree/build/meson-logs/testlog.json" "${without[@]}" <<'E2'
import json
import re
import sys

with open(sys.argv[1]) as f:
    tests = [json.loads(line) for line in f if line.strip()]
for test in sorted(tests, key=lambda t: t["name"]):
    name, result = "arm64/" + test["name"].split(" / ")[-1], test["result"]
    if result == "OK":
        print("ok " + name)
    elif result == "SKIP":
        print("skip %s: the program says so" % name)
    else:
        print("not ok %s: %s" % (name, " ".join(re.findall("(?m)^not ok (.*)", test.get("stdout") or ""))[:500] or result))
for name in sys.argv[2:]:
    print("skip arm64/%s: cannot run, or takes too long, under emulation" % name)
E2
