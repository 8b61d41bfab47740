#!/bin/sh
# Runs the Barcelona OpenMP Tasks Suite, with its own verification, on our libgomp.so.1 and on GCC's beside
# it.
#
# usage: bots.sh SOURCE [TARGET] [options of run_speed.py]
#
# SOURCE is a tree of BOTS, which stays as it is. TARGET is cargo's target folder, by default `target`, which
# has the kit. Needs gcc, make and bash. What is made is kept in TARGET/omp-suites/bots until that folder is
# removed.
set -eu
SCRIPT=bots
. "$(dirname "$0")/suites.sh"
work=$target/omp-suites/bots

[ -f "$source/common/bots_main.c" ] || fail "$source has no common/bots_main.c: it is no tree of BOTS"
have make || fail "make is missing"
have bash || fail "bash is missing"

if [ ! -f "$work/source/config/made" ]; then
    say "building the programs, in $work/source"
    rm -rf "$work"
    mkdir -p "$work"
    cp -r "$source" "$work/source"
    (cd "$work/source" && bash configure --compiler gcc && for folder in omp-tasks/*/; do
        # Two have a folder for each of two versions; what does not compile with this GCC is said below.
        for made in "$folder"Makefile "$folder"*/Makefile; do
            [ ! -f "$made" ] || make -k -C "${made%Makefile}" || true
        done
    done) >"$work/build.log" 2>&1
    touch "$work/source/config/made"
    [ -f "$work/source/bin/fib.gcc.omp-tasks" ] || fail "see $work/build.log"
fi
exec python3 testing/omp/run_speed.py bots "$work/source" --work "$work" --library "$library" "$@"
