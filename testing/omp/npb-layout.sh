#!/bin/sh
# Compiles the eight kernels of NPB 3.0 in C with OpenMP (NPB3.0-omp-C) by `tombolo ompcc`, and reports how
# far the builds agree.
#
# usage: npb-layout.sh TREE [TARGET [CLASS [OPTIONS…]]]
#
# TREE is a source tree of NPB3.0-omp-C, which stays as it is; TARGET is cargo's target folder, by default
# `target`.
#
# Ends with status 1 if a kernel cannot be compiled, or if a symbol that both builds have is not at one
# address.
set -eu

[ $# -ge 1 ] || { sed -n '4,5s/^# //p' "$0" >&2; exit 2; }
tree=$(cd "$1" && pwd)
target=$(cd "${2:-target}" && pwd)
class=${3:-S}
[ $# -lt 3 ] && shift $# || shift 3
[ $# -gt 0 ] || set -- -O2
for tool in "$target/release/tombolo" python3 gcc; do
    command -v "$tool" >/dev/null || { echo "npb-layout: error: $tool is missing" >&2; exit 1; }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cp -r "$tree/." "$work"
cp "$work/config/make.def.template" "$work/config/make.def"
gcc -w -o "$work/sys/setparams" "$work/sys/setparams.c"
# In place of a run-time, which is not under test: one thread.
cat >"$work/one.c" <<'C'
void GOMP_parallel(void (*region)(void *), void *data, unsigned threads, unsigned flags)
{ (void)threads; (void)flags; region(data); }
int omp_get_num_threads(void) { return 1; }
int omp_get_thread_num(void) { return 0; }
_Bool GOMP_single_start(void) { return 1; }
void GOMP_barrier(void) {}
void GOMP_atomic_start(void) {}
void GOMP_atomic_end(void) {}
void GOMP_critical_start(void) {}
void GOMP_critical_end(void) {}
C

failed=
for kernel in ep cg mg ft is lu bt sp; do
    cd "$work/$(printf %s "$kernel" | tr a-z A-Z)"
    ../sys/setparams "$kernel" "$class" >/dev/null
    sources="$kernel.c ../common/c_print_results.c ../common/c_timers.c ../common/wtime.c ../one.c"
    case $kernel in ep | cg | mg | ft) sources="$sources ../common/c_randdp.c" ;; esac
    # shellcheck disable=SC2086 # one word per source
    if ! "$target/release/tombolo" ompcc "$@" -w -fopenmp -fcommon -I../common $sources -o "$work/$kernel.tbi" -lm --json >report; then
        failed=yes
        continue
    fi
    python3 - "$kernel" <<'PYTHON' || failed=yes
import json, sys

with open("report") as file:
    report = json.load(file)
symbols = report["symbols"]
print(
    f"{sys.argv[1]}: {symbols['equal']} of {symbols['common']} common symbols equal, {symbols['outlined']} outlined functions, "
    f"{report['variables_compared']} variables and {report['frames_compared']} frames compared"
)
for different in symbols["different"]:
    print("   differs:", different["name"], *(hex(address) for address in different["addresses"]))
sys.exit(symbols["equal"] != symbols["common"])
PYTHON
done
[ -z "$failed" ]
