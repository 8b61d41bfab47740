#!/bin/sh
# Runs the farm of SPARQL engines (examples/mpi/rdf_farm.py) on several mixes of nodes and sets the results
# beside each other.
#
# usage: rdf-farm.sh TARGET [FILE]      TARGET is cargo's target folder; FILE an RDF file, the vocabulary Brick unless said
#
# After `make mpi4py` it fetches Oxigraph for this host and for Arm machines, and Brick, by pinned wheels. It
# brings up a machine of its own (machines/mpi-farm.toml) and takes it down again. MODES and REPEAT in the
# environment choose other modes than `task data` and how often each query is asked.
set -eu

target=$(realpath "${1:?usage: rdf-farm.sh TARGET [FILE]}")
graph=${2:-}
cd "$(dirname "$0")/.."
tombolo=${TOMBOLO:-$target/release/tombolo}
environment=$target/mpi4py
tree=$target/kit/mpi-farm/aarch64
version=0.5.13

# shellcheck disable=SC2034 # for the scripts that this sources
what='rdf farm'
# shellcheck source=scripts/debs.sh
. scripts/debs.sh
# shellcheck source=scripts/wheels.sh
. scripts/wheels.sh

# oxigraph_wheel PYTHON ISA
oxigraph_wheel() {
    case $1-$2 in
    311-x86_64) hash=20eeebb6ead914eb7030870b6d7e43f854c7a556cb75ce0375e12aa3bf4a90e5 ;;
    311-aarch64) hash=f4c81f3588e6a417a537e1155785e99331dd3e03c4362e0688d21963c2fcc0b1 ;;
    312-x86_64) hash=afb4d4ac972c17da77b5f5f17fd1b20f3a95d6a56c7dc6815bf701d1e4a0d255 ;;
    312-aarch64) hash=9f4ab8a252f198e9d414be38886bf54018d69cd0719c2d14d470c096e646bda6 ;;
    313-x86_64) hash=402f8bf9eae3b37a18e808bde1b39760a1e15f208bb0e1a59c796567e4aa2aa0 ;;
    313-aarch64) hash=7ad11cc64424fffb65e407ad6a88ce1483c8597cf196788aa2e4b89287eef860 ;;
    *) fail "no Oxigraph is pinned for Python $1 on $2: there are those for 3.11, 3.12 and 3.13" ;;
    esac
    wheel "pyoxigraph==$version" "pyoxigraph-$version-cp$1-cp$1-manylinux_2_28_$2.whl" "$hash" "manylinux_2_28_$2" "$1"
}

[ -x "$environment/bin/python" ] && [ -d "$target/kit/mpi4py/aarch64" ] || fail "mpi4py is not there: run \`make mpi4py\`"
[ -x "$tombolo" ] || fail "$tombolo is missing: run \`make build\`"
begin "$target/kit/mpi-farm"

if ! "$environment/bin/python" -I -c "import pyoxigraph, sys; sys.exit(pyoxigraph.__version__ != '$version')" 2>/dev/null; then
    file=$(oxigraph_wheel "$("$environment/bin/python" -I -c 'import sys; print("%d%d" % sys.version_info[:2])')" "$(uname -m)")
    "$environment/bin/python" -I -m pip --disable-pip-version-check install --quiet --no-index --no-deps "$file"
fi
interpreter=$(readlink -f "$target/kit/python/aarch64/usr/bin/python3")
if [ ! -d "$tree/opt/tombolo/python/pyoxigraph" ]; then
    minor=${interpreter##*python3.}
    unpack_wheel "$(oxigraph_wheel "3$minor" aarch64)" "$work/wheel"
    mkdir -p "$work/tree/opt/tombolo/python"
    mv "$work/wheel/pyoxigraph" "$work/tree/opt/tombolo/python/"
    rm -rf "$tree"
    mv "$work/tree" "$tree"
fi
mkdir -p "$tree/opt/farm"
cmp -s examples/mpi/rdf_farm.py "$tree/opt/farm/rdf_farm.py" || cp examples/mpi/rdf_farm.py "$tree/opt/farm/rdf_farm.py"
if [ -z "$graph" ]; then
    graph=$target/kit/mpi-farm/Brick.ttl
    if [ ! -f "$graph" ]; then
        brick=8ef3881534d8973da88c86538350c7242eb61285f2dae4a210de6cc8b4346186
        unpack_wheel "$(wheel brickschema==0.8.0 brickschema-0.8.0-py3-none-any.whl "$brick" any)" "$work/brick"
        mv "$work/brick/brickschema/ontologies/1.4/Brick.ttl" "$graph"
    fi
fi
[ -r "$graph" ] || fail "cannot read $graph"

export TOMBOLO_KIT="$target/kit"
run() { "$tombolo" --machine mpi-farm "$@"; }
run --quiet up machines/mpi-farm.toml >"$work/up" 2>&1 || {
    cat "$work/up" >&2
    exit 1
}
trap 'run --quiet down >/dev/null 2>&1; rm -rf "$work"' EXIT

# farm MODE HOST_WORKERS ARM_WORKERS: rank 0, the master, is on the host.
farm() {
    set -- "$1" $(($2 + 1)) "$3" examples/mpi/rdf_farm.py "$graph" --mode "$1" --json ${REPEAT:+--repeat "$REPEAT"}
    mode=$1 host=$2 arm=$3
    shift 4
    if [ "$arm" -eq 0 ]; then
        run mpirun -n "$host" "$environment/bin/python" examples/mpi/rdf_farm.py "$@"
    else
        run mpirun -n "$host" "$environment/bin/python" examples/mpi/rdf_farm.py "$@" \
            : -n "$arm" --on arm0 -x PYTHONPATH=/opt/tombolo/python "$interpreter" /opt/farm/rdf_farm.py "$@"
    fi
}

results=$work/results
for mode in ${MODES:-task data}; do
    for mix in '1 0' '2 0' '1 1' '2 1'; do
        # shellcheck disable=SC2086 # two numbers
        set -- $mix
        say "$mode-parallel: $1 workers on the host, $2 on arm0"
        farm "$mode" "$1" "$2" >>"$results" || fail "the farm ended with status $?"
    done
done
"$environment/bin/python" -I - "$results" <<'TABLE'
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    runs = [json.loads(line) for line in file if line.startswith("{")]
print(f"{runs[0]['file']}: {runs[0]['triples']} triples, {runs[0]['queries']} queries")
print(f"{'':<6}{'workers':<28}{'alone':>9}{'farm':>9}{'speed-up':>10}{'answers':>10}  by each")
for run in runs:
    nodes = [worker["node"] for worker in run["workers"]]
    mix = ", ".join(f"{nodes.count(node)} on {node}" for node in dict.fromkeys(nodes))
    found = run["completeness"].values()
    answers = f"{sum(found) / len(found):.1%}" if found else ("wrong" if run["wrong"] else "all")
    each = " ".join(str(worker["answered"]) for worker in run["workers"])
    print(f"{run['mode']:<6}{mix:<28}{run['alone_s']:>7.2f} s{run['farm_s']:>7.2f} s{run['speed_up']:>10.2f}{answers:>10}  {each}")
TABLE
