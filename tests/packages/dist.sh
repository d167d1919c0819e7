#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# The archive of a release: "meson dist" makes it, and what it holds builds and passes the unit tests.
#
#   tests/packages/dist.sh OUTPUT-DIRECTORY
set -uo pipefail
out=$1
source=$(cd "$(dirname "$0")/../.." && pwd)

result() { # NAME COMMAND…
        local name=$1
        shift
        if "$@" >"$out/$name.log" 2>&1; then
                echo "ok dist/$name"
        else
                tail -n 20 "$out/$name.log" >&2
                echo "not ok dist/$name: see $out/$name.log"
                exit 1
        fi
}

[ -e "$source/.git" ] || {
        echo "skip dist: not a checkout of git, which meson dist needs"
        exit 0
}
rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)
result configure meson setup "$out/setup" "$source"
result archive meson dist -C "$out/setup" --no-tests --allow-dirty --formats=xztar
result unpack tar -C "$out" -xJf "$out"/setup/meson-dist/acnspawn-*.tar.xz
mv "$out"/acnspawn-* "$out/tree"
result build bash -c "meson setup '$out/build' '$out/tree' -Dtests=true && ninja -C '$out/build'"
result unit-tests meson test -C "$out/build" --no-rebuild --suite unit
