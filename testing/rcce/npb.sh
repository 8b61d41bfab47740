#!/bin/sh
# Compiles the kernels LU and BT of NPB 3.3 (NPB3.3-MPI) for RCCE, by the layer beside this script, and runs
# them by `tombolo rccerun` on the host. Each verifies what it computed.
#
# usage: npb.sh TREE [TARGET [CLASSES [RANKS]]]
#
# TREE is a source tree of NPB3.3-MPI, which stays as it is; TARGET is cargo's target folder, by default
# `target`; CLASSES are letters, by default `SW`; RANKS are numbers with commas, by default `1,4`: of LU
# powers of two, of BT squares.
#
# Needs gfortran, and the kit with its library for C (`make kit c`). Ends with status 1 if a kernel cannot be
# compiled, or does not verify its result within ten minutes.
set -eu

[ $# -ge 1 ] || { sed -n '5,12s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
tree=$(cd "$1" && pwd)
target=$(cd "${2:-target}" && pwd)
classes=$(printf %s "${3:-SW}" | sed 's/./& /g')
ranks=$(printf %s "${4:-1,4}" | tr , ' ')
tombolo=$target/release/tombolo
library=$target/kit/c/$(uname -m)
for tool in "$tombolo" gcc gfortran make timeout; do
    command -v "$tool" >/dev/null || { echo "npb: error: $tool is missing" >&2; exit 1; }
done
[ -f "$library/lib/libtombolo.a" ] || { echo "npb: error: $library is missing: run \`make kit c\`" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cp -r "$tree/." "$work"
mkdir -p "$work/bin"
gcc -std=c11 -O2 -Wall -Wextra -Werror -I"$library/include" -c "$here/mpi_over_rcce.c" -o "$work/mpi_over_rcce.o"
# Messages of one procedure have several types, which newer Fortran refuses.
cat >"$work/config/make.def" <<END
MPIF77 = gfortran
FLINK = gfortran
FMPI_LIB = $work/mpi_over_rcce.o $library/lib/libtombolo.a -lpthread -ldl -lm
FMPI_INC = -I$here
FFLAGS = -O2 -w -std=legacy -fallow-argument-mismatch
FLINKFLAGS = -O2
CC = gcc -w
BINDIR = ../bin
RAND = randi8
END

failed=
for class in $classes; do
    for count in $ranks; do
        for kernel in lu bt; do
            name=$kernel.$class.$count
            if ! make -C "$work" "$kernel" CLASS="$class" NPROCS="$count" >"$work/output" 2>&1; then
                echo "$name: NOT COMPILED"
                tail -n 5 "$work/output"
                failed=yes
            elif timeout 600 "$tombolo" rccerun -nue "$count" "$work/bin/$name" >"$work/output" 2>&1 &&
                grep -qi 'verification *= *successful' "$work/output"; then
                echo "$name: verified, $(sed -n 's/.*Time in seconds *= */in /p' "$work/output") s"
            else
                echo "$name: FAILED"
                tail -n 5 "$work/output"
                failed=yes
            fi
        done
    done
done
[ -z "$failed" ]
