# What the scripts share that fetch Debian's packages, for arm64 unless they say otherwise. Sourced, not run;
# POSIX sh. The script that sources it sets `what`, its own name in messages, and calls `begin` before it
# fetches anything.
#
# It reads Debian's signed archive through the system's sources and keys, but into lists of its own, so it
# needs no root and leaves the system's package lists and architectures alone. shellcheck shell=sh

cache=${XDG_CACHE_HOME:-${HOME:?}/.cache}/tombolo
debs=$cache/debs

say() { printf '%s: %s\n' "${what:?}" "$*" >&2; }
fail() {
    say "error: $*"
    exit 1
}

# Whose packages are fetched, as Debian calls it.
architecture=arm64
use_architecture() { architecture=$1; }

# Takes packages from this release of Debian, beside the system's own sources, from the archive that the
# system uses. Their lists are kept apart.
suite=
use_suite() { suite=$1; }

# The options that say so; none where the system's own sources serve. The system's archive and its keys are
# used, of whatever release it is.
suite_options() {
    [ -n "$suite" ] || return 0
    [ -f "$cache/apt/$suite.list" ] || write_suite
    printf '%s\n' "-oDir::Etc::sourcelist=$cache/apt/$suite.list" "-oDir::Etc::sourceparts=/nonexistent"
}

write_suite() {
    archive=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep '/debian/*$' | head -n 1)
    [ -n "$archive" ] || fail "an archive of Debian must be among apt's sources: $suite of Debian comes from there"
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    mkdir -p "$cache/apt"
    printf 'deb [signed-by=%s] %s %s main\n' "$keys" "$archive" "$suite" >"$cache/apt/$suite.list"
}

# Makes sure of the tools and of the folders, and makes `work` in folder $1: what is drafted there goes with
# the script.
begin() {
    for tool in dpkg-deb tar; do
        command -v "$tool" >/dev/null || fail "$tool is missing"
    done
    mkdir -p "$1" "$debs" || fail "cannot write to $1 and $debs"
    work=$(mktemp -d "$1/.draft-XXXXXX")
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT TERM
}

# Runs a program of apt for one architecture alone, with lists of our own.
with_apt() {
    program=$1
    shift
    # shellcheck disable=SC2046  # options without spaces
    "$program" -q $(suite_options) \
        -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" -o APT::Sandbox::User= \
        -o Dir::State="$cache/apt" -o Dir::State::lists="$cache/apt/lists$suite" \
        -o Dir::State::status="$cache/apt/status" \
        -o Dir::Cache="$cache/apt" -o Dir::Cache::archives="$cache/apt/archives" \
        -o Acquire::Languages=none -o Acquire::Retries=3 \
        -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
        -o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false \
        "$@"
}

# Ends with a status of its own: with the archive in reach it may well go.
unreachable() {
    say "error: $*"
    exit 3
}

update_lists() {
    command -v apt-get >/dev/null || fail 'apt-get is missing: this comes from the archive of Debian'
    mkdir -p "$cache/apt/lists$suite/partial" "$cache/apt/archives/partial"
    : >"$cache/apt/status"
    say "downloading the $architecture package lists to $cache/apt"
    with_apt apt-get update >"$work/log" 2>&1 || {
        cat "$work/log" >&2
        unreachable 'the package lists did not come'
    }
}

# Prints the path of the newest kept package of a file name pattern; fails when there is none.
kept() {
    # shellcheck disable=SC2012,SC2086  # a pattern of names that apt made
    newest=$(ls -t "$debs"/$1 2>/dev/null | head -n 1)
    [ -n "$newest" ] && printf '%s\n' "$newest"
}

# Downloads packages. apt checks them against the signed lists, and only then are they kept.
download() {
    say "downloading $* to $debs"
    mkdir -p "$work/debs"
    (cd "$work/debs" && with_apt apt-get download "$@") >"$work/log" 2>&1 || {
        cat "$work/log" >&2
        unreachable "$* did not come"
    }
    mv "$work/debs"/*.deb "$debs/"
}
