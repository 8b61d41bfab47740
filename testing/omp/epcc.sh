#!/bin/sh
# Measures the constructs of OpenMP with EPCC's microbenchmarks, on our libgomp.so.1 and on GCC's beside it.
#
# usage: epcc.sh SOURCE [TARGET] [options of run_speed.py]
#
# SOURCE is a tree of the microbenchmarks 3.1, or of both versions, which stays as it is. TARGET is cargo's
# target folder, by default `target`, which has the kit. Needs gcc. What is made is kept in
# TARGET/omp-suites/epcc until that folder is removed.
set -eu
SCRIPT=epcc
. "$(dirname "$0")/suites.sh"

[ -d "$source/openmpbench_C_v31" ] && source=$source/openmpbench_C_v31
[ -f "$source/syncbench.c" ] || fail "$source has no syncbench.c: it is no tree of the microbenchmarks"
exec python3 testing/omp/run_speed.py epcc "$source" --work "$target/omp-suites/epcc" --library "$library" "$@"
