#!/bin/sh
# Builds fabtests, libfabric's own tests, out of a tree of libfabric, and runs its quick ones over Tombolo's
# provider on this host.
#
# usage: fabtests.sh SOURCE [TARGET] [options of run_fabtests.py]
#
# SOURCE is a tree of libfabric, of the version that is installed (Debian: libfabric-dev), with its folder
# fabtests; it stays as it is. TARGET is cargo's target folder, by default `target`, which has the provider
# (`make mpi`). Needs GNU autoconf, automake and libtool. What is built is kept in TARGET/fabtests until its
# folder is removed.
set -eu
source=$(realpath "$1")
shift
target=target
case ${1:--} in -*) ;; *) target=$1 && shift ;; esac
cd "$(dirname "$0")/../.."
target=$(realpath "$target")
tests=$target/fabtests
SCRIPT=fabtests
. scripts/lib.sh

[ -f "$source/fabtests/configure.ac" ] || fail "$source has no fabtests: it is no tree of libfabric"
[ -d "$target/kit/mpi/$(uname -m)/opt/tombolo/mpi/fi" ] || fail "there is no provider in $target/kit: run \`make mpi\`"
[ -f /usr/include/rdma/fabric.h ] || fail 'libfabric is missing (Debian: libfabric-dev)'
[ -x "$target/release/tombolo" ] || fail "there is no $target/release/tombolo: run \`make mpi\`"
for tool in autoreconf libtoolize make pkill python3; do
    have "$tool" || fail "$tool is missing (Debian: autoconf automake libtool make procps python3)"
done

if [ ! -x "$tests/bin/runfabtests.sh" ]; then
    say "building, in $tests"
    rm -rf "$tests"
    mkdir -p "$tests"
    cp -r "$source/fabtests" "$tests/source"
    (cd "$tests/source" && ./autogen.sh && ./configure --prefix="$tests" && make -j"$(nproc)" && make install) \
        >"$tests/build.log" 2>&1 || fail "see $tests/build.log"
fi
exec python3 testing/mpi/run_fabtests.py "$tests" --target "$target" "$@"
