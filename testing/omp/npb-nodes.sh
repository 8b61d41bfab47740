#!/bin/sh
# Compiles the eight kernels of NPB 3.0 in C with OpenMP (NPB3.0-omp-C) by `tombolo ompcc`, and runs each in a
# team of workers on the host and on other nodes of the machine that TOMBOLO_MACHINE names. Each verifies what
# it computed.
#
# usage: npb-nodes.sh TREE [TARGET [CLASS [MODE [THREADS]]]]
#
# TREE is a source tree of NPB3.0-omp-C, which stays as it is; TARGET is cargo's target folder, by default
# `target`; MODE is `hybrid@arm0`, or another mode at nodes with a `+` between them.
#
# Ends with status 1 if a kernel cannot be compiled, or does not verify its result within ten minutes.
set -eu

[ $# -ge 1 ] || { sed -n '5,7s/^# //p' "$0" >&2; exit 2; }
tree=$(cd "$1" && pwd)
target=$(cd "${2:-target}" && pwd)
class=${3:-S}
mode=${4:-hybrid@arm0}
threads=${5:-2}
tombolo=$target/release/tombolo
for tool in "$tombolo" gcc timeout; do
    command -v "$tool" >/dev/null || { echo "npb-nodes: error: $tool is missing" >&2; exit 1; }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cp -r "$tree/." "$work"
cp "$work/config/make.def.template" "$work/config/make.def"
gcc -w -o "$work/sys/setparams" "$work/sys/setparams.c"
export OMP_TOMBOLO="${mode%@*}" OMP_TOMBOLO_NODES OMP_NUM_THREADS="$threads"
OMP_TOMBOLO_NODES=$(printf %s "${mode#*@}" | tr + ,)

failed=
for kernel in ep cg mg ft is lu bt sp; do
    cd "$work/$(printf %s "$kernel" | tr a-z A-Z)"
    ../sys/setparams "$kernel" "$class" >/dev/null
    sources="$kernel.c ../common/c_print_results.c ../common/c_timers.c ../common/wtime.c"
    case $kernel in ep | cg | mg | ft) sources="$sources ../common/c_randdp.c" ;; esac
    # shellcheck disable=SC2086 # one word per source
    if ! "$tombolo" ompcc -O2 -w -fopenmp -fcommon -I../common $sources -o "$work/$kernel.tbi" -lm; then
        failed=yes
        continue
    fi
    if timeout 600 "$tombolo" run --on host "$work/$kernel.tbi" >output 2>&1 &&
        grep -qi 'verification.*successful' output && ! grep -qi 'verification.*unsuccessful' output; then
        echo "$kernel.$class: verified, $(sed -n 's/ *Time in seconds *= */in /p' output) s"
    else
        echo "$kernel.$class: FAILED"
        tail -n 5 output
        failed=yes
    fi
    rm -f "$work/$kernel.tbi"
done
[ -z "$failed" ]
