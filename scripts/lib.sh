# What the scripts here share. Sourced, not run; POSIX sh.
# shellcheck shell=sh

# The oldest Rust that builds this project; Cargo.toml says the same to cargo.
# shellcheck disable=SC2034 # for the scripts that source this
RUST_MINIMUM=1.95

say() { printf '%s: %s\n' "${SCRIPT:-tombolo}" "$*"; }
warn() { say "$*" >&2; }
fail() {
    say "error: $*" >&2
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

can_be_root() { [ "$(id -u)" -eq 0 ] || have sudo; }

# Runs a command as root; says which one it could not run.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif have sudo; then
        # Without a terminal sudo cannot ask for a password: fail instead of waiting for one.
        if [ -t 0 ]; then sudo "$@"; else sudo -n "$@"; fi
    else
        fail "needs root, and there is no sudo; as root, run: $*"
    fi
}

# Runs a command up to three times: downloads fail now and then.
retry() {
    for pause in 2 5 0; do
        "$@" && return 0
        [ "$pause" -eq 0 ] || sleep "$pause"
    done
    return 1
}

# Whether version $1 is at least $2, by their first two numbers.
at_least() {
    major=${1%%.*} rest=${1#*.}
    minor=${rest%%[!0-9]*}
    wanted_major=${2%%.*} wanted_minor=${2#*.}
    case $major$minor in '' | *[!0-9]*) return 1 ;; esac
    [ "$major" -gt "$wanted_major" ] || { [ "$major" -eq "$wanted_major" ] && [ "$minor" -ge "$wanted_minor" ]; }
}
