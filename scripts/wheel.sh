#!/bin/sh
# Builds the wheel, has auditwheel read which C library it needs, installs it into a fresh virtual
# environment, makes a call through it, and lets mypy look at generated stubs. What is not there, or cannot be
# had from the package index, is skipped aloud. It compiles nothing that the kit did.
# usage: wheel.sh TARGET_FOLDER
set -eu
target=$(realpath "$1")
cd "$(dirname "$0")/.."
. scripts/python.sh
MYPY=1.18.2
AUDITWHEEL=6.8.2

skip() {
    echo "SKIPPED: $1"
    exit 0
}

missing=$(lacking) || skip "wheel: $missing"

work=$(mktemp -d)
servers=
trap '[ -z "$servers" ] || kill $servers 2>/dev/null || true; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

build_wheel "$work" >/dev/null
if fetch "auditwheel==$AUDITWHEEL"; then
    check_tag "$work"/*.whl
else
    echo "SKIPPED: what the wheel's tag claims: the package index did not give auditwheel $AUDITWHEEL"
fi
"$python" -m venv "$work/fresh"
"$work/fresh/bin/python" -m pip --disable-pip-version-check install --quiet --no-index --no-deps "$work"/*.whl
echo "installed $(cd "$work" && echo *.whl)"

# The monitor is that of the wheel, and ends with the programs.
mkdir -m 700 "$work/run"
export XDG_RUNTIME_DIR="$work/run" PYTHONPATH="$PWD" PYTHONIOENCODING=utf-8 TOMBOLO_MACHINE=local
unset TOMBOLO_NODE TOMBOLO_TOMBOLOD
"$work/fresh/bin/python" examples/python/kv_server.py kv-wheel >"$work/served" 2>&1 &
servers=$!
waited=0
until grep -q '^serving kv-wheel' "$work/served"; do
    waited=$((waited + 1))
    if [ "$waited" -gt 600 ] || ! kill -0 "$servers" 2>/dev/null; then
        cat "$work/served"
        exit 1
    fi
    sleep 0.1
done
"$work/fresh/bin/python" examples/python/kv_client.py kv-wheel >"$work/said"
grep -q '^key: größte Insel: 島$' "$work/said" || {
    cat "$work/said"
    exit 1
}
echo "called and was answered through the wheel"

fetch "mypy==$MYPY" || skip "types in Python: the package index did not give mypy $MYPY"
for interface in kv everything rights; do
    "$work/fresh/bin/python" -c 'import sys; from tombolo._native import compile_interface
print(compile_interface(sys.argv[1]), end="")' "interfaces/$interface.tbl" >"$work/$interface.py"
done
cd "$work"
"$tools/bin/mypy" --strict --python-executable "$work/fresh/bin/python" --cache-dir "$work/cache" \
    kv.py everything.py rights.py
