# What the scripts share that build the package for Python. Sourced, not run, from the root of the tree; POSIX
# sh. The script that sources it sets `target`, the build folder. shellcheck shell=sh

python=${TOMBOLO_PYTHON:-python3}
# Kept between runs, as what cargo built is.
tools=$target/wheel/tools

# Says what this Python lacks to build and install a wheel; fails if it lacks something.
lacking() {
    if ! "$python" -I -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
        echo "there is no Python 3.9 or newer (Debian: python3)"
    elif ! "$python" -I -c 'import ensurepip, venv' 2>/dev/null; then
        echo "this Python makes no virtual environments (Debian: python3-venv)"
    else
        return 0
    fi
    return 1
}

# Installs packages of the package index into the virtual environment $1, made if it is not there.
install_into() {
    environment=$1
    shift
    [ -x "$environment/bin/python" ] || "$python" -m venv "$environment"
    "$environment/bin/python" -m pip --disable-pip-version-check install --quiet --retries 1 --timeout 20 "$@"
}

# The same for tools.
fetch() { install_into "$tools" "$@"; }

# Builds the wheel for this machine into the folder $1, out of what is built already and the kit that is
# there.
build_wheel() {
    CARGO_TARGET_DIR=$target TOMBOLO_PYTHON=$python cargo xtask dist --isa native --only wheel --kit-as-it-is --output "$1"
}

# Checks that wheel $1 runs wherever its tag says, by what auditwheel finds in its programs and libraries.
check_tag() {
    name=$(basename "$1" .whl)
    holds=$("$tools/bin/auditwheel" show --json "$1" 2>/dev/null |
        "$tools/bin/python" -c 'import json, sys; print(json.load(sys.stdin).get("overall_tag"))') || holds=nothing
    if [ "${name##*-}" != "$holds" ]; then
        echo "error: the wheel's tag is ${name##*-}, and auditwheel says that it is $holds" >&2
        return 1
    fi
    echo "auditwheel finds what the tag claims: $holds"
}
