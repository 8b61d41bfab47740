# What the scripts share that take files out of wheels of the package index, for any processor. Sourced after
# scripts/debs.sh, not run; POSIX sh.
#
# Each wheel is pinned by its hash here in the tree, fetched once by pip, which checks it, and kept in
# ~/.cache/tombolo/wheels. shellcheck shell=sh

python=${TOMBOLO_PYTHON:-python3}
wheels=${cache:?}/wheels

# Says what this machine lacks; fails if it lacks something.
lacking_for_wheels() {
    if ! "$python" -I -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
        echo "there is no Python 3.9 or newer (Debian: python3)"
    elif ! "$python" -I -m pip --version >/dev/null 2>&1 && ! "$python" -I -c 'import ensurepip, venv' 2>/dev/null; then
        echo "this Python has neither pip nor makes virtual environments (Debian: python3-venv)"
    else
        return 0
    fi
    return 1
}

# pip of this Python, else of a virtual environment that is gone with the script.
run_pip() {
    if "$python" -I -m pip --version >/dev/null 2>&1; then
        "$python" -I -m pip --disable-pip-version-check "$@"
    else
        [ -x "$work/pip/bin/python" ] || "$python" -I -m venv "$work/pip" || return 1
        "$work/pip/bin/python" -I -m pip --disable-pip-version-check "$@"
    fi
}

# Whether file $1 has the hash $2.
has_hash() { [ -f "$1" ] && printf '%s  %s\n' "$2" "$1" | sha256sum --check --status; }

# wheel REQUIREMENT FILE HASH PLATFORM [PYTHON]: makes sure that a wheel is kept, and prints its path. PYTHON
# is the version it is for, where it matters.
wheel() {
    if ! has_hash "$wheels/$2" "$3"; then
        mkdir -p "$wheels" "$work/wheels"
        say "downloading $2 to $wheels"
        printf '%s --hash=sha256:%s\n' "$1" "$3" >"$work/requirements"
        run_pip download --quiet --retries 1 --timeout 30 --no-deps --only-binary=:all: --require-hashes --platform "$4" \
            ${5:+--python-version "$5"} --dest "$work/wheels" --requirement "$work/requirements" >"$work/log" 2>&1 || {
            cat "$work/log" >&2
            unreachable "$2 did not come from the package index"
        }
        [ -f "$work/wheels/$2" ] || fail "the package index has $1 under another name than $2"
        mv "$work/wheels/$2" "$wheels/$2"
    fi
    printf '%s\n' "$wheels/$2"
}

# Unpacks wheel $1 to folder $2.
unpack_wheel() {
    "$python" -I -m zipfile -e "$1" "$2" || fail "$1 cannot be unpacked"
}
