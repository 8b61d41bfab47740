#!/bin/sh
# Builds the peers of `tombolo bench all` and `bench rpc` (a workspace of its own) and puts them beside the
# command.
# usage: bench-peers.sh TARGET_FOLDER [cargo options]
set -eu
target=$(realpath "$1")
shift
# bindgen looks for libclang by a name that Debian's runtime package does not have, and needs a compiler's
# headers.
if [ -z "${LIBCLANG_PATH:-}" ]; then
    found=$(find /usr/lib /usr/lib64 /usr/local/lib -name 'libclang[-.]*so*' -not -name 'libclang-cpp*' 2>/dev/null | head -n 1)
    [ -z "$found" ] || export LIBCLANG_PATH="$(dirname "$found")"
fi
if [ -z "${BINDGEN_EXTRA_CLANG_ARGS:-}" ] && command -v cc >/dev/null; then
    export BINDGEN_EXTRA_CLANG_ARGS="-I$(cc -print-file-name=include)"
fi
case " $* " in
*" aeron "*)
    version=$("${CMAKE:-cmake}" --version 2>/dev/null | sed -n '1s/[^0-9]*//p')
    if [ "$(printf '%s\n3.30\n' "${version:-0}" | sort -V | head -n 1)" != 3.30 ]; then
        echo "bench-peers: Aeron needs CMake 3.30 and here is ${version:-none}: set CMAKE to a newer one (pip install cmake)" >&2
        exit 1
    fi
    # Aeron itself compiles for minutes before bindgen looks for it.
    if [ -z "${LIBCLANG_PATH:-}" ] && ! command -v llvm-config >/dev/null; then
        echo "bench-peers: Aeron needs libclang, which was not found: install libclang1, or set LIBCLANG_PATH" >&2
        exit 1
    fi
    ;;
esac
cd "$(dirname "$0")/../bench/peers"
CARGO_TARGET_DIR="$target/bench-peers" cargo build --release --locked "$@"
cp "$target/bench-peers/release/tombolo-bench-peers" "$target/release/"
echo "built $target/release/tombolo-bench-peers"
