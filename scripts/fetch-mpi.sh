#!/bin/sh
# Puts MPICH for every instruction set that there are MPI programs for into TARGET/kit/mpi/ISA: a tree of
# files, in which MPI is opt/tombolo/mpi/{lib,include}. For aarch64, which is foreign here, it has the
# libraries of C and C++ as well; it is for the key `files` of vm and user nodes. `cargo xtask kit --mpi` adds
# opt/tombolo/mpi/fi, the provider.
#
# usage: fetch-mpi.sh [TARGET]      TARGET is cargo's target folder, by default `target`
#
# MPICH comes out of wheels of Python's package index that are pinned here (scripts/wheels.sh), the C
# libraries out of the archive of Debian (scripts/debs.sh). It needs no root. Both are kept in
# ~/.cache/tombolo; while they are there nothing is fetched. When everything is in place it does nothing. Ends
# with status 3 when an archive is out of reach.
set -eu

target=${1:-target}
kit=$target/kit/mpi
version=5.0.2
# To be raised when this script makes something else of the same packages.
recipe=2

# shellcheck disable=SC2034 # for the scripts that this sources
what='mpi'
here=$(dirname "$0")
# shellcheck source=scripts/debs.sh
. "$here/debs.sh"
# shellcheck source=scripts/wheels.sh
. "$here/wheels.sh"

in_place() {
    for isa in x86_64 aarch64; do
        [ -f "$kit/$isa/opt/tombolo/mpi/lib/libmpi.so.12" ] || return 1
        read -r made_by _ 2>/dev/null <"$kit/$isa.from" || return 1
        [ "$made_by" = "$recipe" ] || return 1
    done
}

if in_place; then
    exit 0
fi
missing=$(lacking_for_wheels) || fail "$missing"
begin "$kit"

# mpich_wheel ISA
mpich_wheel() {
    case $1 in
    x86_64) hash=8fed465ebff269ea2ebac179a25de02671ddf8df476e0f115be089015015cfd4 ;;
    aarch64) hash=992ae6ebb0da97d49d7a67000ae8112da9a3825da1bb1e6f1d196428a0410f2d ;;
    esac
    platform=manylinux_2_28_$1
    wheel "mpich==$version" "mpich-$version-py3-none-$platform.whl" "$hash" "$platform"
}

# put_mpich ISA: its libraries, headers and licences. What it brings for network cards, UCX's plug-ins and
# libfabric's, is left out: neither nodes nor the provider have a use for it.
put_mpich() {
    mpi=$work/$1/opt/tombolo/mpi
    mkdir -p "$mpi/lib/mpich" "$mpi/licenses"
    # Not in a pipe or a test, so that its failure is this script's.
    file=$(mpich_wheel "$1")
    unpack_wheel "$file" "$work/wheel-$1"
    data=$work/wheel-$1/mpich-$version.data/data
    cp -r "$data/include" "$mpi/include"
    cp "$data/lib/libmpi.so.12" "$data/lib/libmpi_abi.so.1" "$mpi/lib/"
    cp "$data"/lib/mpich/*.so.* "$mpi/lib/mpich/"
    ln -s libmpi.so.12 "$mpi/lib/libmpi.so"
    ln -s libmpi_abi.so.1 "$mpi/lib/libmpi_abi.so"
    cp "$work/wheel-$1/mpich-$version.dist-info/licenses"/* "$mpi/licenses/"
    # Its own launcher, to compare with.
    if [ "$1" = "$(uname -m)" ]; then
        mkdir "$mpi/bin"
        cp "$data/bin/mpiexec.hydra" "$data/bin/hydra_pmi_proxy" "$data/bin/mpichversion" "$mpi/bin/"
        chmod 755 "$mpi"/bin/*
    fi
    chmod 644 "$mpi"/include/*
    chmod 755 "$mpi"/lib/*.so.* "$mpi"/lib/mpich/*
    printf 'mpich %s\n' "$version" >"$mpi/version"
}

foreign_packages='libc6 libgcc-s1 libgomp1 libstdc++6'

# What programs in C and C++ for aarch64 are linked with, where Debian has it: the loader is where its name is
# fixed.
put_c_libraries() {
    for package in $foreign_packages; do
        kept "${package}_*_arm64.deb" >/dev/null || absent=yes
    done
    if [ -n "${absent:-}" ]; then
        update_lists
        # Together, so that those of one version fit each other.
        # shellcheck disable=SC2086 # one word per package
        download $foreign_packages
    fi
    mkdir "$work/debian"
    for package in $foreign_packages; do
        deb=$(kept "${package}_*_arm64.deb")
        used="$used ${deb##*/}"
        dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$work/debian" --no-same-owner
    done
    libraries=lib/aarch64-linux-gnu
    mkdir -p "$work/aarch64/$libraries"
    for name in ld-linux-aarch64.so.1 libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libutil.so.1 libresolv.so.2 \
        libgcc_s.so.1 libgomp.so.1 libstdc++.so.6; do
        file=$(find "$work/debian" -path "*/aarch64-linux-gnu/$name" | head -n 1)
        [ -n "$file" ] || fail "$used have no $name"
        # Under this name, not that of its version.
        cp -L "$file" "$work/aarch64/$libraries/$name"
    done
    ln -s aarch64-linux-gnu/ld-linux-aarch64.so.1 "$work/aarch64/lib/ld-linux-aarch64.so.1"
}

for isa in x86_64 aarch64; do
    used=
    put_mpich "$isa"
    [ "$isa" = "$(uname -m)" ] || [ "$isa" != aarch64 ] || put_c_libraries
    # The provider stays: cargo knows when it is stale.
    if [ -d "$kit/$isa/opt/tombolo/mpi/fi" ]; then
        mv "$kit/$isa/opt/tombolo/mpi/fi" "$work/$isa/opt/tombolo/mpi/fi"
    fi
    rm -rf "$kit/$isa.from" "${kit:?}/$isa"
    mv "$work/$isa" "$kit/$isa"
    printf '%s mpich-%s%s\n' "$recipe" "$version" "$used" >"$kit/$isa.from"
    say "ready: MPICH $version for $isa, $(du -sh "$kit/$isa" | cut -f1), in $kit/$isa"
done
