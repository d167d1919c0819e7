#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# The packages of Debian built on another release, in a root that has what debian/control needs for building: without a warning, and
# with the dependencies of that release. The root is filled by mmdebstrap from the mirror that apt uses here, and kept in the cache
# directory of the tests in virtual machines.
#
#   tests/packages/release.sh 13|sid OUTPUT-DIRECTORY
#
# Afterwards OUTPUT-DIRECTORY/acnspawn.deb is the package, for the tests in a virtual machine with that release.
set -uo pipefail
release=$1 out=$2
here=$(cd "$(dirname "$0")" && pwd)
cache=${ACNSPAWN_TEST_VM_CACHE:-/var/cache/acnspawn-test}
name=deb-$release
case $release in
13) suite=trixie ;;
sid) suite=sid ;;
*)
        echo "release.sh: no such release: $release" >&2
        exit 2
        ;;
esac

for program in mmdebstrap unshare; do
        command -v "$program" >/dev/null || {
                echo "skip $name: there is no $program"
                exit 0
        }
done
rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)
"$here/source" "$out/tree/acnspawn"

# Complete or not there.
root=$cache/build-$release-$(sha256sum <"$out/tree/acnspawn/debian/control" | cut -c 1-16)
if [ ! -d "$root" ]; then
        echo "# making a root of $suite with what the build needs; once, some minutes"
        mkdir -p "$cache"
        rm -rf "$cache/build-$release-"* "$cache/new-build-$release-"*
        mirror=$(cd "$here/../vm" && PYTHONDONTWRITEBYTECODE=1 python3 -c 'import image; print(image.mirror())')
        new=$(mktemp -d "$cache/new-build-$release-XXXXXX")
        mmdebstrap --quiet --variant=buildd --customize-hook='mkdir -p "$1/source"' \
                --customize-hook="sync-in '$out/tree/acnspawn' /source" \
                --customize-hook='chroot "$1" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -P nocheck --no-install-recommends build-dep /source' \
                --customize-hook='rm -r "$1/source"' \
                --aptopt='Acquire::Retries 3' --aptopt='Acquire::Check-Valid-Until false' \
                --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
                "$suite" "$new/root" "$mirror" >"$out/root.log" 2>&1 || {
                tail -n 5 "$out/root.log" >&2
                echo "not ok $name/root: it cannot be made, see $out/root.log"
                exit 1
        }
        mv "$new/root" "$root"
        rmdir "$new"
fi

log=$out/build.log
if ! "$here/inside" "$root" "$out/tree" "cd /out/acnspawn && DEB_BUILD_OPTIONS='nocheck parallel=$(nproc)' DEB_BUILD_PROFILES=nocheck \
        dpkg-buildpackage --no-sign --build=binary" >"$log" 2>&1; then
        grep -E 'error:|ERROR|FAILED' "$log" | head -n 20 >&2
        tail -n 5 "$log" >&2
        echo "not ok $name/builds: see $log"
        exit 1
fi
echo "ok $name/builds"
# As tests/packages/deb.py has it: of objects from which dependencies on loaded libraries are derived.
warnings=$(grep 'warning:' "$log" | grep -vE "binaries to analyze should already be installed|(couldn't|cannot) parse dynamic symbol definition: no symbols" | sort -u)
if [ -n "$warnings" ]; then
        head -n 20 <<<"$warnings" >&2
        echo "not ok $name/warnings: see $log"
else
        echo "ok $name/warnings"
fi
for package in acnspawn acnspawn-cri acnspawn-doc; do
        cp "$out/tree/${package}_"*.deb "$out/$package.deb" || {
                echo "not ok $name/$package: it was not built"
                exit 1
        }
done
# dpkg warns of directories that stay as they are not empty: files that are not where packages of that release have theirs.
if ! left=$("$here/inside" "$root" "$out" "dpkg --install --force-depends /out/acnspawn.deb && dpkg --purge acnspawn" 2>&1) || grep -q 'while removing acnspawn' <<<"$left"; then
        tail -n 5 <<<"$left" >&2
        echo "not ok $name/purge: it fails, or leaves directories"
else
        echo "ok $name/purge"
fi
# Libraries that are loaded have other names there.
depends=$(dpkg-deb --field "$out/acnspawn.deb" Depends Recommends)
missing=
for library in libarchive libcap-ng libmount libssl libsystemd libjson-c libc6 libmicrohttpd libcurl libgpgme libxml2 libzstd; do
        grep -q " $library" <<<"$depends" || missing+=" $library"
done
if [ -n "$missing" ]; then
        echo "not ok $name/depends: neither depended on nor recommended:$missing"
else
        echo "ok $name/depends"
fi
rm -r "$out/tree"
