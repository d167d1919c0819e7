#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# packaging/rpm/acnspawn.spec: rpmbuild makes a package of it, without a look at BuildRequires, which are names of other
# distributions; the package has what meson installs.
#
#   tests/packages/rpm.sh OUTPUT-DIRECTORY
set -uo pipefail
out=$1
source=$(cd "$(dirname "$0")/../.." && pwd)

fail() {
        echo "not ok rpm/$1: $2"
        exit 1
}

command -v rpmbuild >/dev/null || {
        echo "skip rpm: there is no rpmbuild"
        exit 0
}
rm -rf "$out"
mkdir -p "$out"/{SOURCES,SPECS}
out=$(cd "$out" && pwd)
spec=$source/packaging/rpm/acnspawn.spec
name=acnspawn-$(sed -n 's/^Version: *//p' "$spec")
"$source/tests/packages/source" "$out/$name"
tar -C "$out" -cJf "$out/SOURCES/$name.tar.xz" "$name"
rm -r "${out:?}/$name"
# What Debian's rpm does not define, or does with tools of other distributions.
rpmbuild --define "_topdir $out" --define 'debug_package %{nil}' --define '_build_id_links none' --nodeps -bb "$spec" >"$out/log" 2>&1 || {
        tail -n 30 "$out/log" >&2
        fail builds "see $out/log"
}
echo "ok rpm/builds"
mapfile -t packages < <(find "$out/RPMS" -name '*.rpm' | sort)
[ ${#packages[@]} = 2 ] || fail packages "there are ${#packages[@]} packages rather than two"
rpm -qpl "${packages[@]}" >"$out/files" 2>/dev/null
double=$(sort "$out/files" | uniq -d)
[ -z "$double" ] || fail packages "in both packages: $double"
rpm -qpR "$(find "$out/RPMS" -name "$name-*.rpm")" 2>/dev/null | grep -q '^systemd-container >= 252' || fail requires "the package does not require systemd-container"
echo "ok rpm/requires"
# As in the specification; rpmbuild removes the directory that it built in.
meson setup "$out/plan.build" "$source" --prefix=/usr --sysconfdir=/etc -Dsystemunitdir=/usr/lib/systemd/system \
        -Dzshcompletiondir=/usr/share/zsh/site-functions -Dapparmordir=no >"$out/plan.log" || fail files "meson setup fails, see $out/plan.log"
meson introspect --installed "$out/plan.build" |
        python3 -c 'import json, sys; print("\n".join(sorted(set(json.load(sys.stdin).values()))))' >"$out/plan"
missing=$(sed 's/\.gz$//' "$out/files" | grep -vxF -f - "$out/plan")
[ -z "$missing" ] || fail files "missing: $missing"
[ -s "$out/plan" ] || fail files "nothing is installed"
echo "ok rpm/files"
