#!/bin/sh
# `make run`: brings a machine up, runs the main job on all of it, and takes it down again in any case.
#
# usage: TOMBOLO=program KIT=folder MACHINE=file [GRAPH=file] run.sh [option of the job…]
set -eu
cd "$(dirname "$0")/.."
SCRIPT=run
. scripts/lib.sh

: "${TOMBOLO:?the command tombolo}" "${KIT:?the folder of the kit}" "${MACHINE:?a machine file}"
# Beside the kit, which is under the build folder.
DRAWING=$(cd "$KIT/.." && pwd)/communities.svg
set -- --svg "$DRAWING" "$@"
if [ -n "${GRAPH:-}" ]; then
    [ -r "$GRAPH" ] || fail "cannot read the graph $GRAPH"
    # The job reads what it is granted, on whatever node it runs.
    set -- --grant "$GRAPH:ro" "$KIT/images/communities.tbi" -- --compare-spreading --verify "$GRAPH" "$@"
else
    set -- "$KIT/images/communities.tbi" -- --compare-spreading --verify --debian "$@"
fi

take_down() {
    status=$?
    trap - EXIT INT TERM
    "$TOMBOLO" down || [ "$status" -ne 0 ] || status=1
    exit "$status"
}

# Others may be up: every command means the one of this file, whose name is its first key.
TOMBOLO_MACHINE=$(sed -n 's/^name *= *"\([a-z0-9-]*\)".*/\1/p' "$MACHINE" | head -n 1)
[ -n "$TOMBOLO_MACHINE" ] || fail "$MACHINE names no machine"
export TOMBOLO_MACHINE
"$TOMBOLO" up "$MACHINE"
# Only a machine that is ours is taken down: `up` refuses one that is up already.
trap take_down EXIT
trap 'exit 130' INT TERM
"$TOMBOLO" status
# A node whose memory cannot be trusted gives wrong answers, and not always. That a busy host cuts the test
# short (3) is said.
"$TOMBOLO" litmus --rounds 20000 || [ $? -eq 3 ]
"$TOMBOLO" run --on host "$@"
echo "The largest communities are drawn in ${DRAWING#"$PWD"/}."
