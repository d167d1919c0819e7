# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash
# What tour and check have in common: installing what is missing on Debian, and configuring builds. Sourced, not run.

# To build and run pods: a compiler, the libraries, and the systemd that is booted in pods.
PACKAGES_BUILD=(
        gcc libc6-dev meson ninja-build pkg-config
        libsystemd-dev libarchive-dev libmount-dev libjson-c-dev libcap-ng-dev libssl-dev libmicrohttpd-dev libseccomp-dev
        zlib1g-dev libcurl4-openssl-dev libxml2-dev libzstd-dev libbz2-dev liblzma-dev libgpgme-dev libnghttp2-dev
        libprotobuf-c-dev protobuf-c-compiler libyaml-dev
)
PACKAGES_RUN=(systemd systemd-container python3 busybox-static gnupg containernetworking-plugins iptables iproute2)
# To run all tests: the second compiler, Go and the specification's validator and examples, and strace, which kills at a
# chosen moment.
PACKAGES_CHECK=(clang golang-go golang-github-appc-spec-dev appc-spec strace util-linux)
# libFuzzer and the sanitizers of clang.
PACKAGES_CHECK+=(libclang-rt-14-dev)
# A registry on the loopback interface, and what fills it.
PACKAGES_CHECK+=(docker-registry skopeo umoci buildah openssl libarchive-tools)
# Programs in the images for the clients of the CRI.
PACKAGES_CHECK+=(curl procps dash)
# Shells whose completions are looked at.
PACKAGES_CHECK+=(fish zsh)
# A client of gRPC for the messages of the CRI.
PACKAGES_CHECK+=(protobuf-compiler python3-grpcio python3-protobuf)
# File systems that cannot carry a store.
PACKAGES_CHECK+=(dosfstools xfsprogs)
# For the virtual machine: the emulator, what fills its disk, and what unpacks kernels.
PACKAGES_CHECK+=(qemu-system-x86 mmdebstrap e2fsprogs lz4 xz-utils zstd)
# The packages of Debian; with --long the one of RPM, too, and what builds twice in different environments.
PACKAGES_CHECK+=(debhelper dpkg-dev dh-apparmor lintian blhc)
# What is compiled again is not compiled twice.
PACKAGES_CHECK+=(ccache)
# shellcheck disable=SC2034 # used by check
PACKAGES_LONG=(rpm reprotest disorderfs faketime fuse3 locales-all)

# Of meson, for the fuzz targets: tools/fuzz, and the build of tools/check with clang.
# shellcheck disable=SC2034
FUZZ_OPTIONS=(-Dfuzz=true --buildtype=debug --optimization=1 -Db_sanitize=address,undefined -Db_lundef=false
        "-Dc_args=-fsanitize=fuzzer-no-link -fno-sanitize-recover=undefined")

say() {
        printf '\n== %s\n' "$*"
}

die() {
        printf '%s: %s\n' "${0##*/}" "$*" >&2
        exit 1
}

need_root() {
        [ "$(id -u)" -eq 0 ] || die "needs root: it installs packages and runs pods"
}

# A compiler whose results are kept beside the virtual machines, whatever directory the source is in. Warnings are repeated.
cached() {
        export CCACHE_DIR=${CCACHE_DIR:-/var/cache/acnspawn-test/ccache} CCACHE_MAXSIZE=4G CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
        if command -v ccache >/dev/null && mkdir -p "$CCACHE_DIR" 2>/dev/null && [ -w "$CCACHE_DIR" ]; then
                CC="ccache $1"
        else
                CC=$1
        fi
        export CC
}

is_installed() {
        [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Installs those of the packages that are not there. Where there is no apt, or no network, what is missing is named.
install_missing() {
        local missing=() package
        command -v apt-get >/dev/null || die "no apt-get here; install by hand what these Debian packages have: $*"
        for package in "$@"; do
                is_installed "$package" || missing+=("$package")
        done
        [ ${#missing[@]} -eq 0 ] && return 0
        say "Installing ${missing[*]}"
        export DEBIAN_FRONTEND=noninteractive
        # Another apt may hold the lock for a while.
        apt-get -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 update >/dev/null ||
                echo "apt-get update failed; trying with the package lists that are there"
        apt-get -q -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 install --no-install-recommends "${missing[@]}" >/dev/null ||
                die "could not install ${missing[*]}"
}

# configure DIR ARGUMENTS…: meson setup, or again if the directory is there already.
configure() {
        local dir=$1 log=$1/meson-setup.log
        shift
        mkdir -p "$dir"
        if [ -f "$dir/build.ninja" ]; then
                meson setup --reconfigure "$dir" "$@" >"$log" 2>&1
        else
                meson setup "$dir" "$@" >"$log" 2>&1
        fi || {
                tail -n 30 "$log"
                return 1
        }
}
