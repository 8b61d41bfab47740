#!/bin/sh
# Builds MPICH's own tests with `tombolo mpicc`, for all instruction sets, and runs them on the nodes of a
# machine.
#
# usage: mpich.sh SOURCE [TARGET] [options of run_mpich.py]
#
# SOURCE is a tree of MPICH 5.0 (its folders test/mpi, confdb and maint), which stays as it is. TARGET is
# cargo's target folder, by default `target`, which has the command and the kit (`make mpi`). Needs GNU
# autoconf, automake and libtool. What is built is kept in TARGET/mpich-tests until its folder is removed.
set -eu
source=$(realpath "$1")
shift
target=target
case ${1:--} in -*) ;; *) target=$1 && shift ;; esac
cd "$(dirname "$0")/../.."
target=$(realpath "$target")
here=$PWD/testing/mpi
tombolo=$target/release/tombolo
mpi=$target/kit/mpi/$(uname -m)/opt/tombolo/mpi
tests=$target/mpich-tests
SCRIPT=mpich-tests
. scripts/lib.sh

[ -f "$source/test/mpi/configure.ac" ] || fail "$source has no test/mpi: it is no tree of MPICH"
[ -x "$tombolo" ] || fail "$tombolo is missing: run \`make mpi\`"
[ -d "$mpi" ] || fail "$mpi is missing: run \`make mpi\`"
for tool in autoreconf libtoolize make python3; do
    have "$tool" || fail "$tool is missing (Debian: autoconf automake libtool make python3)"
done

if [ ! -f "$tests/source/test/mpi/configure" ]; then
    say "generating configure, in $tests/source"
    rm -rf "$tests"
    mkdir -p "$tests/source/test"
    cp -r "$source/confdb" "$source/maint" "$tests/source/"
    cp -r "$source/test/mpi" "$tests/source/test/mpi"
    (cd "$tests/source/test/mpi" && ./autogen.sh) >"$tests/autogen.log" 2>&1 || fail "see $tests/autogen.log"
fi

# long double is on the list of what is expected to fail, and warnings are the tests' own.
compiler="$tombolo -q mpicc -w -Wno-tombolo-long-double"
if [ ! -f "$tests/built/util/Makefile" ]; then
    say "configuring, in $tests/built"
    mkdir -p "$tests/built"
    (cd "$tests/built" && "$tests/source/test/mpi/configure" --disable-fortran --disable-cxx --disable-shared --with-mpi="$mpi" \
        CC="$compiler" MPICC="$compiler" MPIEXEC="$mpi/bin/mpiexec.hydra") \
        >"$tests/configure.log" 2>&1 || true
    # Its last command wants a file that a build elsewhere does not have, and fails.
    [ -f "$tests/built/util/Makefile" ] || fail "see $tests/configure.log"
fi
folders='dtpools util pt2pt coll datatype comm init info group attr topo rma spawn threads'
for folder in $folders; do
    say "building $folder"
    # What cannot be built is told by the runner as well.
    make -k -j"$(nproc)" -C "$tests/built/$folder" >"$tests/make.log" 2>&1 || warn "not all of $folder could be built: see $tests/make.log"
done
exec python3 "$here/run_mpich.py" "$tests/built" --tombolo "$tombolo" --mpi "$mpi" "$@"
