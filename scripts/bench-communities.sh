#!/bin/sh
# Measures the main job beside igraph and leidenalg, which it installs into a virtual environment below
# TARGET_FOLDER, on a machine that it brings up and takes down again: this host and an Arm virtual machine.
# usage: bench-communities.sh TARGET_FOLDER [options of compare.py]
set -eu
target=$(realpath "$1")
shift
cd "$(dirname "$0")/.."
SCRIPT=bench-communities
. scripts/lib.sh
. scripts/python.sh

peers='igraph==1.0.0 leidenalg==0.12.0'
missing=$(lacking) || fail "$missing"
for file in "$target/release/tombolo" "$target/release/communities" "$target/kit/images/communities.tbi"; do
    [ -e "$file" ] || fail "$file is missing: run \`make bench-communities\`"
done
environment=$target/communities/venv
# shellcheck disable=SC2086 # one word per package
install_into "$environment" $peers || fail "the package index did not give: $peers"

# A machine of its own, whatever else is up.
work=$(mktemp -d)
take_down() {
    status=$?
    trap - EXIT INT TERM
    [ ! -e "$work/up" ] || "$target/release/tombolo" down || status=1
    rm -rf "$work"
    exit "$status"
}
trap take_down EXIT
trap 'exit 130' INT TERM
# The first name of the file is the machine's, the others are those of nodes.
sed '0,/^name *=/s/^name *=.*/name = "bench-communities"/' machines/default.toml >"$work/machine.toml"
export TOMBOLO_MACHINE=bench-communities TOMBOLO_KIT="$target/kit"
"$target/release/tombolo" up "$work/machine.toml"
: >"$work/up"
"$environment/bin/python" bench/communities/compare.py --job "$target/release/communities" \
    --tombolo "$target/release/tombolo" --image "$target/kit/images/communities.tbi" "$@"
