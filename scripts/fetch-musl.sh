#!/bin/sh
# Puts musl, the C library of programs by `tombolo ompcc`, for every instruction set that there are such
# programs for into TARGET/kit/omp/ISA: include and lib. It comes out of the archive of Debian
# (scripts/debs.sh), is checked against the hashes here, and is kept in ~/.cache/tombolo; while it is there
# nothing is fetched. It needs no root.
#
# usage: fetch-musl.sh [TARGET]      TARGET is cargo's target folder, by default `target`
#
# When everything is in place it does nothing. Ends with status 3 when an archive is out of reach.
set -eu

target=${1:-target}
kit=$target/kit/omp
version=1.2.3-1
# To be raised when this script makes something else of the same packages.
recipe=1

# shellcheck disable=SC2034 # for the script that this sources
what='omp'
here=$(dirname "$0")
# shellcheck source=scripts/debs.sh
. "$here/debs.sh"

in_place() {
    for isa in x86_64 aarch64; do
        [ -f "$kit/$isa/lib/libc.a" ] || return 1
        [ "$(cat "$kit/$isa.from" 2>/dev/null)" = "$recipe musl-$version" ] || return 1
    done
}

if in_place; then
    exit 0
fi
command -v sha256sum >/dev/null || fail 'sha256sum is missing'
begin "$kit"

# package ISA: Debian's name of the architecture, and the hash of its package.
package() {
    case $1 in
    x86_64) arch=amd64 hash=7c34f29a0c1aa12f6da1d25ed6de6fe6bbd9e048ee76b3dcb88c5e51fb65507f ;;
    aarch64) arch=arm64 hash=55c2ca4bc3041c8ed8ac7dc3ef6080d9551a21650568b2fd7610b59eaf98a4f4 ;;
    esac
}

for isa in x86_64 aarch64; do
    package "$isa"
    if ! deb=$(kept "musl-dev_${version}_$arch.deb"); then
        use_architecture "$arch"
        update_lists
        download "musl-dev=$version"
        deb=$(kept "musl-dev_${version}_$arch.deb") || fail "the archive gave another musl than $version"
    fi
    printf '%s  %s\n' "$hash" "$deb" | sha256sum --check --status || fail "$deb is not the package that is pinned here: remove it"
    mkdir -p "$work/deb/$isa" "$work/$isa"
    dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$work/deb/$isa" --no-same-owner
    mv "$work/deb/$isa/usr/include/$isa-linux-musl" "$work/$isa/include"
    mv "$work/deb/$isa/usr/lib/$isa-linux-musl" "$work/$isa/lib"
    cp "$work/deb/$isa/usr/share/doc/musl-dev/copyright" "$work/$isa/copyright"
    printf 'musl %s\n' "$version" >"$work/$isa/version"
    # The run-time stays: cargo knows when it is stale.
    for file in libgomp.a libunwind.a; do
        if [ -f "$kit/$isa/lib/$file" ]; then
            mv "$kit/$isa/lib/$file" "$work/$isa/lib/$file"
        fi
    done
    rm -rf "$kit/$isa.from" "${kit:?}/$isa"
    mv "$work/$isa" "$kit/$isa"
    printf '%s musl-%s\n' "$recipe" "$version" >"$kit/$isa.from"
    say "ready: musl $version for $isa, $(du -sh "$kit/$isa" | cut -f1), in $kit/$isa"
done
