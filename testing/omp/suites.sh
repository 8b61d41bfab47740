# What the scripts have in common that run programs of others on our libgomp.so.1. Sourced, not run; POSIX sh.
# shellcheck shell=sh
#
# Takes SOURCE and, if it is there, TARGET from the arguments, and leaves the others. `source`, `target` and
# `library` are absolute afterwards, and the current folder is the project's. `SCRIPT` is the name of who
# calls.

[ $# -ge 1 ] || { sed -n 's/^# usage: /usage: /p' "$0" >&2; exit 2; }
source=$(realpath "$1")
shift
target=target
case ${1:--} in -*) ;; *) target=$1 && shift ;; esac
cd "$(dirname "$0")/../.."
target=$(realpath "$target")
. scripts/lib.sh

# shellcheck disable=SC2034 # for the scripts that source this
library=$target/kit/gomp/$(uname -m)
[ -f "$library/libgomp.so.1" ] || fail "$library/libgomp.so.1 is missing: run \`make kit\`"
