#!/bin/sh
# Runs the tests of OpenMP_VV on our libgomp.so.1: those that need no device, or with `--devices` the others.
#
# usage: vv.sh SOURCE [TARGET] [options of run_validation.py]
#
# SOURCE is a tree of OpenMP_VV, which stays as it is. TARGET is cargo's target folder, by default `target`,
# which has the kit. What is made is kept in TARGET/omp-suites/vv until that folder is removed.
set -eu
SCRIPT=vv
. "$(dirname "$0")/suites.sh"

[ -f "$source/ompvv/ompvv.h" ] || fail "$source has no ompvv/ompvv.h: it is no tree of OpenMP_VV"
exec python3 testing/omp/run_validation.py vv "$source" --work "$target/omp-suites/vv" --library "$library" "$@"
