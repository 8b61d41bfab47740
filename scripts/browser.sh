#!/bin/sh
# Tests the page of `tombolo web` in Chromium against a real machine with an Arm virtual machine, and against
# a synthetic one of a thousand nodes. Fetches the packages of package-lock.json by npm, which verifies them.
# usage: browser.sh TARGET_FOLDER [words in the names of tests…]
#        browser.sh TARGET_FOLDER --pictures    takes the screenshots of the book
#        browser.sh TARGET_FOLDER --soak [MINUTES]
set -eu
TARGET=$(realpath "$1")
shift
cd "$(dirname "$0")/.."
export SCRIPT=browser TARGET
. scripts/lib.sh

sh scripts/setup.sh browser
cargo xtask kit --synthetic

cd testing/browser
# Installed packages are kept while they match the lock file.
if ! cmp -s package-lock.json node_modules/.installed; then
    say "fetching what package-lock.json names"
    retry npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null || fail "npm could not fetch it"
    cp package-lock.json node_modules/.installed
fi

case ${1:-} in
--pictures) exec node pictures.mjs ;;
--soak) exec node soak.mjs "${2:-60}" ;;
esac
status=0
node machine.mjs "$@" || status=1
[ $# -gt 0 ] || node synthetic.mjs || status=1
exit $status
