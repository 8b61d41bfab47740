#!/bin/sh
# Measures the package for Python: builds the wheel as it is released, installs it with numpy into a virtual
# environment, and runs the measurements of bench/python there, with a monitor of their own.
# usage: bench-python.sh TARGET_FOLDER [--ray] [options of array_transfer.py]
set -eu
target=$(realpath "$1")
shift
cd "$(dirname "$0")/.."
SCRIPT=bench-python
. scripts/lib.sh
. scripts/python.sh

peers='numpy>=2,<3'
if [ "${1:-}" = --ray ]; then
    shift
    peers="$peers ray==2.60.0"
fi
missing=$(lacking) || fail "$missing"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
build_wheel "$work"
environment=$target/wheel/bench
# shellcheck disable=SC2086 # one word per package
install_into "$environment" $peers || fail "the package index did not give: $peers"
install_into "$environment" --no-index --no-deps --force-reinstall "$work"/*.whl

mkdir -m 700 "$work/run"
export XDG_RUNTIME_DIR="$work/run" TOMBOLO_MACHINE=local
unset TOMBOLO_NODE TOMBOLO_TOMBOLOD
"$environment/bin/python" bench/python/array_transfer.py "$@"
