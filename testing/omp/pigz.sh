#!/bin/sh
# Compiles pigz, a program with threads of POSIX that knows nothing of nodes, and zlib by `tombolo ompcc`, and
# has its threads compress a file on the host and on other nodes of the machine that TOMBOLO_MACHINE names.
# What comes out has to be what gunzip makes the same file of.
#
# usage: pigz.sh PIGZ ZLIB FILE [TARGET [NODES [THREADS]]]
#
# PIGZ is a source tree of pigz 2.8, ZLIB one of zlib, which stay as they are; TARGET is cargo's target
# folder, by default `target`; NODES are as in OMP_TOMBOLO_NODES, by default `arm0`.
#
# Prints the seconds of each run and ends with status 1 if a result is wrong.
set -eu

[ $# -ge 3 ] || { sed -n '6,9s/^# //p' "$0" >&2; exit 2; }
pigz=$(cd "$1" && pwd)
zlib=$(cd "$2" && pwd)
file=$(realpath "$3")
target=$(cd "${4:-target}" && pwd)
nodes=${5:-arm0}
threads=${6:-3}
tombolo=$target/release/tombolo
for tool in "$tombolo" gzip timeout; do
    command -v "$tool" >/dev/null || { echo "pigz: error: $tool is missing" >&2; exit 1; }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cd "$work"
# zlib's functions that read and write files are for programs without a pigz.
sources=$(ls "$zlib"/*.c | grep -v '/gz[a-z]*\.c$')
# shellcheck disable=SC2086 # one word per source
"$tombolo" ompcc -O2 -w -DNDEBUG -I"$zlib" "$pigz"/pigz.c "$pigz"/yarn.c "$pigz"/try.c \
    "$pigz"/zopfli/src/zopfli/[bcdhklstu]*.c $sources -o pigz.tbi -lm -lpthread

failed=
# Runs it with what is in the environment, and compares: WHAT WORDS...
try() {
    what=$1
    shift
    start=$(date +%s.%N)
    if timeout 600 "$tombolo" run --on host pigz.tbi "$@" -p "$threads" -c "$file" >out.gz &&
        gzip -dc out.gz | cmp -s - "$file"; then
        echo "$what: right, $(echo "$(date +%s.%N) $start" | awk '{ printf "%.2f", $1 - $2 }') s, $(wc -c <out.gz) bytes"
    else
        echo "$what: FAILED"
        failed=yes
    fi
}

try "one process"
export OMP_TOMBOLO=hybrid OMP_TOMBOLO_NODES="$nodes" OMP_TOMBOLO_PTHREADS
for OMP_TOMBOLO_PTHREADS in here spread others; do
    try "$OMP_TOMBOLO_PTHREADS"
done
[ -z "$failed" ]
