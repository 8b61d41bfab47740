#!/bin/sh
# Runs the OpenMP validation suite of the University of Houston on our libgomp.so.1.
#
# usage: uh.sh SOURCE [TARGET] [options of run_validation.py]
#
# SOURCE is a tree of the suite 3.0, which stays as it is. TARGET is cargo's target folder, by default
# `target`, which has the kit. Needs perl and gcc. What is made is kept in TARGET/omp-suites/uh until that
# folder is removed.
set -eu
SCRIPT=uh
. "$(dirname "$0")/suites.sh"
work=$target/omp-suites/uh

[ -f "$source/runtest.pl" ] || fail "$source has no runtest.pl: it is no tree of the suite"
have perl || fail "perl is missing"

if [ ! -f "$work/source/bin/c/test_has_openmp.c" ]; then
    say "generating the tests, in $work/source"
    rm -rf "$work"
    mkdir -p "$work"
    cp -r "$source" "$work/source"
    # It would compile them too, and in an order of its own; here it only writes them.
    (cd "$work/source" && PERL5LIB=. perl runtest.pl --lang=c --norun testlist-c.txt CC=false) >"$work/generate.log" 2>&1 || true
    [ -f "$work/source/bin/c/test_has_openmp.c" ] || fail "see $work/generate.log"
fi
exec python3 testing/omp/run_validation.py uh "$work/source" --work "$work/built" --library "$library" "$@"
