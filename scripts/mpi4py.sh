#!/bin/sh
# Puts mpi4py beside MPI: a virtual environment for this host's Python in TARGET/mpi4py, and for Debian's
# Python on Arm machines a tree of files in TARGET/kit/mpi4py/aarch64, where it is opt/tombolo/python/mpi4py.
# Which MPI it uses it learns when it is started: `tombolo mpirun` says so.
#
# usage: mpi4py.sh [--host] [TARGET]      TARGET is cargo's target folder, by default `target`; --host leaves Arm machines out
#
# The wheels are pinned here (scripts/wheels.sh). When everything is in place it does nothing. Ends with
# status 3 when the package index or the archive of Debian is out of reach, or has none for this Python.
set -eu

only_host=
if [ "${1:-}" = --host ]; then
    only_host=yes
    shift
fi
target=${1:-target}
version=4.1.2
environment=$target/mpi4py
tree=$target/kit/mpi4py/aarch64

# shellcheck disable=SC2034 # for the scripts that this sources
what='mpi4py'
here=$(dirname "$0")
# shellcheck source=scripts/debs.sh
. "$here/debs.sh"
# shellcheck source=scripts/wheels.sh
. "$here/wheels.sh"

# mpi4py_wheel PYTHON ISA: for a version of Python such as 311.
mpi4py_wheel() {
    case $2 in
    x86_64) platform=manylinux1_x86_64 tags=manylinux1_x86_64.manylinux_2_5_x86_64 ;;
    aarch64) platform=manylinux2014_aarch64 tags=manylinux2014_aarch64.manylinux_2_17_aarch64 ;;
    esac
    case $1-$2 in
    311-x86_64) hash=de484475b80f9e1ffe98cb85e1b776eb9f42bb73ae4d79449d42953f80025bf4 ;;
    311-aarch64) hash=a05ce06c564044d6a605f197ad81335af760f4294963263d953e46c38819f554 ;;
    312-x86_64) hash=00f4cce8999d19f35243c3442ea22debbe3336f69c309cd5d3176df4e51c717a ;;
    312-aarch64) hash=0a58e164776acb7b52414548b1bf0e5caafce0ee90345deff147873a64b6b2cc ;;
    313-x86_64) hash=085e0cb05427398fe2281856f27a87984b9f234cd6d98a2a384a6fbfe679a56f ;;
    313-aarch64) hash=429437883b4511583d56a57bc58ad0d02965fb6c19f84f39e30c0646e6c0cab9 ;;
    *) unreachable "no mpi4py is pinned for Python $1 on $2: there are those for 3.11, 3.12 and 3.13" ;;
    esac
    wheel "mpi4py==$version" "mpi4py-$version-cp$1-cp$1-$tags.whl" "$hash" "$platform" "$1"
}

missing=$(lacking_for_wheels) || fail "$missing"
"$python" -I -c 'import ensurepip, venv' 2>/dev/null || fail 'this Python makes no virtual environments (Debian: python3-venv)'
begin "$target/kit/mpi4py"

if ! "$environment/bin/python" -I -c "import mpi4py, sys; sys.exit(mpi4py.__version__ != '$version')" 2>/dev/null; then
    file=$(mpi4py_wheel "$("$python" -I -c 'import sys; print("%d%d" % sys.version_info[:2])')" "$(uname -m)")
    rm -rf "$environment"
    "$python" -I -m venv "$environment"
    "$environment/bin/python" -I -m pip --disable-pip-version-check install --quiet --no-index --no-deps "$file"
    say "ready: mpi4py $version for this host, in $environment"
fi

if [ -z "$only_host" ] && [ ! -f "$tree/opt/tombolo/python/mpi4py/__init__.py" ]; then
    sh "$here/fetch-vm-python.sh" "$target" || exit
    minor=$(readlink "$target/kit/python/aarch64/usr/bin/python3")
    file=$(mpi4py_wheel "3${minor##*.}" aarch64)
    unpack_wheel "$file" "$work/wheel"
    packages=$work/tree/opt/tombolo/python
    mkdir -p "$packages"
    mv "$work/wheel/mpi4py" "$packages/mpi4py"
    # For MPICH's binary interface alone, and for programs, not for those who compile against it.
    rm -rf "$packages"/mpi4py/MPI.openmpi.* "$packages/mpi4py/include" "$packages"/mpi4py/*.p[xy][di] "$packages"/mpi4py/*.h
    mkdir -p "${tree%/*}"
    rm -rf "$tree"
    mv "$work/tree" "$tree"
    say "ready: mpi4py $version for Arm machines, $(du -sh "$tree" | cut -f1), in $tree"
fi
