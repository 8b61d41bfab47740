# What the scripts share that build the package for Python. Sourced, not run, from the root of the tree; POSIX sh. Whoever
# sources it has set `target`, the folder of what is built.
# shellcheck shell=sh

MATURIN=1.16.0
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

# Builds the wheel, with the profile $1, into the folder $2. Maturin must have been fetched.
build_wheel() {
    CARGO_TARGET_DIR=$target "$tools/bin/maturin" build --quiet --profile "$1" --locked \
        --manifest-path runtime/python/Cargo.toml --interpreter "$python" --out "$2"
}
