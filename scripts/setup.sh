#!/bin/sh
# Installs what Tombolo needs and this machine lacks; says what, and why. What is there is left alone, and
# when everything is there it does nothing.
#
# usage: setup.sh         what building and running need
#        setup.sh run FILE    what the nodes of this machine file need
#        setup.sh c       also what programs in C for Arm machines need
#        setup.sh mpi     also what MPI for every instruction set needs
#        setup.sh omp     also what OpenMP programs for unlike processors need
#        setup.sh bench-omp   also what `tombolo bench omp` compares
#        setup.sh browser     also what tests the page of `tombolo web`
#        setup.sh dist    also what packages for the other processor need
#        setup.sh test    also what only the checks need
#
# Debian packages go in with apt-get, as root or with sudo. Rust: targets and components are added to
# rustup's stable toolchain; where there is no rustup, or it can not be reached, Debian's own Rust is
# installed, with its libraries for foreign architectures.
set -eu
cd "$(dirname "$0")/.."
SCRIPT=setup
. scripts/lib.sh

purpose=${1:-run}
case $purpose in
run | c | board-c | mpi | omp | bench-omp | browser | dist | test) ;;
*) fail "unknown purpose '$purpose'; it is 'run', 'c', 'board-c', 'mpi', 'omp', 'bench-omp', 'browser', 'dist' or 'test'" ;;
esac

# The foreign nodes of the machine file as words `kind:isa`; without a file, one of each kind and instruction
# set.
nodes="vm:aarch64 bare:aarch64 bare:riscv64 user:aarch64 user:riscv64 user:s390x"
if [ -n "${2:-}" ]; then
    [ -r "$2" ] || fail "cannot read the machine file $2"
    nodes=$(awk -F'"' '
        function add() { if (kind != "" && kind != "host") print kind ":" isa; kind = ""; isa = "" }
        /^\[/ { add() }
        /^kind *=/ { kind = $2 }
        /^isa *=/ { isa = $2 }
        END { add() }' "$2")
fi

# Whether the machine has a node like this: needs '*:riscv64'
needs() {
    for node in $nodes; do
        # shellcheck disable=SC2254 # a pattern
        case $node in $1) return 0 ;; esac
    done
    return 1
}

PATH=$PATH:${HOME:-/root}/.cargo/bin
# Debian's Rust stands in for rustup's by way of this folder, which the Makefile puts first on the path.
stand_in=${CARGO_TARGET_DIR:-target}/debian-rust
if [ -d "$stand_in" ]; then
    PATH=$(cd "$stand_in" && pwd):$PATH
fi
export PATH
log=${CARGO_TARGET_DIR:-target}/setup.log

changed=
# Says what is about to change on this machine.
announce() {
    changed=yes
    say "$*"
}

# --- Debian packages ---------------------------------------------------------------------------------

packages=
# want PACKAGE WHY: to be installed.
want() {
    packages="$packages $1"
    say "missing: $1 ($2)"
}

# Whether compiler $1 finds its static C library.
has_libc() { have "$1" && [ "$("$1" -print-file-name=libc.a)" != libc.a ]; }

# Whether there is a Python that the package works with.
has_python() { have python3 && python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))'; }

find_missing_packages() {
    ! needs 'vm:x86_64' || have qemu-system-x86_64 ||
        want qemu-system-x86 "virtual machines of x86_64: node kind vm"
    ! { needs 'vm:aarch64' || needs 'bare:aarch64'; } || have qemu-system-aarch64 ||
        want qemu-system-arm "virtual machines and boards of aarch64: node kinds vm and bare"
    ! { needs 'vm:riscv64' || needs 'bare:riscv64'; } || have qemu-system-riscv64 ||
        want qemu-system-misc "virtual machines and boards of riscv64: node kinds vm and bare"
    ! needs 'user:*' || { have qemu-aarch64 && have qemu-riscv64 && have qemu-s390x; } ||
        want qemu-user "programs of foreign instruction sets on this kernel: node kind user"
    have gcc || want gcc "links programs of this host"
    has_libc gcc || want libc6-dev "C library of this host"
    have git || want git "lists the files of the tree"
    have xz || want xz-utils "unpacks the virtual machine's kernel"
    for pair in aarch64:arm64 riscv64:riscv64 s390x:s390x; do
        isa=${pair%:*}
        # Rust brings its own linker and C library for aarch64: a machine without other nodes needs no
        # compiler for it.
        needs "user:$isa" || { [ "$isa" = aarch64 ] && needs 'vm:*' && { [ "$purpose" = c ] || ! has_rustup; }; } || continue
        have "$isa-linux-gnu-gcc" || want "gcc-$isa-linux-gnu" "compiles and links programs for $isa"
        has_libc "$isa-linux-gnu-gcc" || want "libc6-dev-${pair#*:}-cross" "C library for $isa"
    done
    case $purpose in mpi | test) find_missing_for_mpi ;; esac
    case $purpose in board-c | test) find_missing_for_board_c ;; esac
    case $purpose in dist) find_missing_for_packages ;; esac
    case $purpose in browser | test) find_missing_for_browser ;; esac
    case $purpose in test)
        have cmake || want cmake "tests that programs in C find an installation"
        have pkg-config || want pkg-config "tests that programs in C find an installation"
        have gfortran || want gfortran "tests the run-time of OpenMP with Fortran"
        has_go || want golang-go "tests programs in Go"
        ;;
    esac
    case $purpose in bench-omp)
        have clang || want clang "compiles for LLVM's run-time of OpenMP"
        has_libomp || want libomp-dev "LLVM's run-time of OpenMP"
        ;;
    esac
    [ -e /etc/ssl/certs/ca-certificates.crt ] || want ca-certificates "downloads over TLS"
}

# Packages for Arm are linked and stripped by Debian's compiler.
find_missing_for_packages() {
    { have aarch64-linux-gnu-gcc && has_libc aarch64-linux-gnu-gcc; } ||
        want gcc-aarch64-linux-gnu "links programs of an Arm host"
    has_libc aarch64-linux-gnu-gcc || want libc6-dev-arm64-cross "C library of an Arm host"
    has_python || want python3 "packs wheels"
}

# The C library of RISC-V boards takes a gigabyte, and is left to who has such boards.
find_missing_for_board_c() {
    have aarch64-linux-gnu-gcc || want gcc-aarch64-linux-gnu "compiles and links programs for Arm boards"
    [ -e /usr/lib/picolibc/aarch64-linux-gnu/picolibc.specs ] ||
        want picolibc-aarch64-linux-gnu "C library of Arm boards"
}

# What drives a browser is fetched by scripts/browser.sh; it needs Node 18.
find_missing_for_browser() {
    have chromium || want chromium "tests of the page of tombolo web"
    { have node && at_least "$(node --version | cut -c2-)" 18.0; } || want nodejs "drives the browser"
    have npm || want npm "fetches what drives the browser"
}

# Whether clang finds LLVM's run-time.
has_libomp() { have clang && echo 'int main(void) { return 0; }' | clang -fopenmp -x c - -o /dev/null 2>/dev/null; }

# What MPI and its programs need, and so do the checks.
find_missing_for_mpi() {
    have g++ || want g++ "MPI programs in C++"
    have aarch64-linux-gnu-g++ || want g++-aarch64-linux-gnu "MPI programs in C++ for aarch64"
    has_python || want python3 "the package for Python; and MPI comes out of its package index"
    { has_python && has_pip; } || want python3-venv "fetches MPI out of the package index"
    [ "$purpose" = mpi ] || have NPopenmpi || want netpipe-openmpi "Open MPI, and a program of others for the tests of MPI"
}

# Whether there is a Go that the SDK works with.
has_go() {
    have go || return 1
    go_version=$(go env GOVERSION 2>/dev/null) || return 1
    go_version=${go_version#go1.}
    go_version=${go_version%%[!0-9]*}
    [ "${go_version:-0}" -ge 19 ]
}

# Whether the Python that is there can fetch from the package index.
has_pip() {
    python3 -I -m pip --version >/dev/null 2>&1 || python3 -I -c 'import ensurepip, venv' 2>/dev/null
}

has_package_lists() { ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1; }

update_lists() {
    announce "reading the archives' package lists: $1"
    retry as_root apt-get -q -q -o Acquire::Retries=3 update >/dev/null
}

apt_install() {
    can_be_root || fail "installing needs root, and there is no sudo; as root, run:" \
        "apt-get update && apt-get install --no-install-recommends $*"
    if ! has_package_lists; then
        update_lists "there are none yet"
    elif ! apt-get -q -q --simulate --no-install-recommends install "$@" >/dev/null 2>&1; then
        update_lists "they do not have all of: $*"
    fi
    announce "installing $*"
    apt_install_once "$@" && return 0
    # Lists that are older than the archive name files that are gone.
    update_lists "installing failed, and they may be stale"
    apt_install_once "$@"
}

# apt's many lines matter only when it fails.
apt_install_once() {
    mkdir -p "${log%/*}"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Acquire::Retries=3 -o DPkg::Lock::Timeout=120 \
        -o Dpkg::Use-Pty=0 --no-install-recommends install "$@" >"$log" 2>&1 && return 0
    tail -n 20 "$log" >&2
    return 1
}

install_packages() {
    find_missing_packages
    if [ -n "$packages" ]; then
        have apt-get || fail "there is no apt-get here: install by other means what Debian calls$packages"
        # shellcheck disable=SC2086 # one word per package
        apt_install $packages || fail "could not install$packages; see apt-get's message above"
    fi
    # The default input of the main job is the graph of Debian's packages.
    if have apt-get && ! has_package_lists; then
        { can_be_root && update_lists "the main job's default graph is made of them"; } ||
            warn "no package lists: give the main job a graph of your own with GRAPH=file"
    fi
}

# --- Rust --------------------------------------------------------------------------------------------


rust_is_new_enough() {
    have cargo && have rustc || return 1
    version=$(cargo --version 2>/dev/null) || return 1
    version=${version#cargo }
    at_least "$version" "$RUST_MINIMUM"
}

has_rustup() { [ ! -d "$stand_in" ] && have rustup; }

# Targets of $1 that the active toolchain lacks.
missing_targets() {
    sysroot=$(rustc --print sysroot)
    for target in $1; do
        [ -d "$sysroot/lib/rustlib/$target/lib" ] || printf '%s ' "$target"
    done
}

# Brings rustup's toolchain up to what is needed; fails where rustup can not reach its server.
prepare_rustup() {
    if ! rust_is_new_enough; then
        announce "installing rustup's stable toolchain: Rust $RUST_MINIMUM or newer is needed"
        retry rustup -q toolchain install stable --profile minimal --component rustfmt --component clippy || return 1
        # A default of the user's choice stays as it is; this run of make uses stable.
        rust_is_new_enough || rustup -q default stable || return 1
        rust_is_new_enough || return 1
    fi
    targets=
    ! { needs 'vm:*' || needs 'user:aarch64'; } || targets="$targets aarch64-unknown-linux-musl"
    ! needs 'user:riscv64' || targets="$targets riscv64gc-unknown-linux-gnu"
    ! needs 'user:s390x' || targets="$targets s390x-unknown-linux-gnu"
    ! needs 'bare:aarch64' || targets="$targets aarch64-unknown-none"
    ! needs 'bare:riscv64' || targets="$targets riscv64gc-unknown-none-elf"
    # What is linked with OpenMP programs has to fit their C library.
    case $purpose in omp | dist | test) targets="$targets x86_64-unknown-linux-musl" ;; esac
    targets=$(missing_targets "$targets")
    if [ -n "$targets" ]; then
        announce "adding Rust's libraries for $targets"
        # shellcheck disable=SC2086 # one word per target
        retry rustup -q target add $targets || return 1
    fi
    case $purpose in c | mpi | dist | test) prepare_glibc_on_arm ;; esac
    if [ "$purpose" = test ]; then
        sysroot=$(rustc --print sysroot)
        if [ ! -x "$sysroot/bin/rustfmt" ] || [ ! -x "$sysroot/bin/cargo-clippy" ]; then
            announce "adding rustfmt and clippy"
            retry rustup -q component add rustfmt clippy || return 1
        fi
        prepare_miri
    fi
}

# Programs in C and Python, and MPI's, on Arm are linked by Debian's compiler with glibc, which Rust's library
# has to fit. Without it the checks say that they skipped them.
prepare_glibc_on_arm() {
    [ -n "$(missing_targets aarch64-unknown-linux-gnu)" ] || return 0
    announce "adding Rust's library for aarch64-unknown-linux-gnu, which programs in C, MPI and the checks use"
    retry rustup -q target add aarch64-unknown-linux-gnu ||
        warn "no library for aarch64-unknown-linux-gnu could be had: C, Python and MPI on Arm will be SKIPPED"
}

# Miri comes only with nightly. Without it the checks say that they skipped it.
prepare_miri() {
    nightly=$(rustup run nightly rustc --print sysroot 2>/dev/null) || nightly=
    if [ -n "$nightly" ] && [ -x "$nightly/bin/miri" ] && [ -d "$nightly/lib/rustlib/src/rust" ]; then
        return 0
    fi
    announce "installing rustup's nightly toolchain with miri, which only the checks use"
    retry rustup -q toolchain install nightly --profile minimal --component miri --component rust-src ||
        warn "no nightly with miri could be had: its step will be SKIPPED"
}

# The candidate version of package $1, without its Debian part.
candidate() { apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: \([0-9.]*\).*/\1/p'; }

# Debian's Rust that is new enough, as "cargo rustc rustfmt clippy library".
debian_rust() {
    at_least "$(candidate rustc-web)" "$RUST_MINIMUM" && at_least "$(candidate cargo-web)" "$RUST_MINIMUM" &&
        echo cargo-web rustc-web rustfmt-web rust-web-clippy libstd-rust-web-dev && return
    at_least "$(candidate rustc)" "$RUST_MINIMUM" && at_least "$(candidate cargo)" "$RUST_MINIMUM" &&
        echo cargo rustc rustfmt rust-clippy libstd-rust-dev && return
    return 1
}

prepare_debian_rust() {
    have apt-get || return 1
    rust=$(debian_rust) || {
        update_lists "no Rust $RUST_MINIMUM in them"
        rust=$(debian_rust)
    } || return 1
    # shellcheck disable=SC2086 # five words, as debian_rust says
    set -- $rust
    if [ ! -x /usr/bin/cargo ] || ! at_least "$(/usr/bin/cargo --version | cut -d' ' -f2)" "$RUST_MINIMUM"; then
        announce "installing Debian's Rust $(candidate "$2")"
        apt_install "$1" "$2" || return 1
    fi
    if [ "$purpose" = test ] && ! { [ -x /usr/bin/rustfmt ] && [ -x /usr/bin/cargo-clippy ]; }; then
        apt_install "$3" "$4" || return 1
    fi
    # Its library for aarch64 is for glibc, which the linker of rustup's Rust does not know.
    { have aarch64-linux-gnu-gcc && has_libc aarch64-linux-gnu-gcc; } ||
        apt_install gcc-aarch64-linux-gnu libc6-dev-arm64-cross || return 1
    add_foreign_library "$5" arm64 aarch64-unknown-linux-gnu ||
        fail "Debian's Rust has no library for aarch64, without which there is no Arm node"
    warn "Debian's Rust has no libraries for riscv64 and s390x: nodes of these need rustup"
    use_debian_rust
}

# add_foreign_library PACKAGE ARCHITECTURE TARGET: unless it is there.
add_foreign_library() {
    [ ! -d "/usr/lib/rustlib/$3/lib" ] || return 0
    if ! dpkg --print-foreign-architectures | grep -qx "$2"; then
        announce "letting dpkg have packages of $2, for $1:$2"
        as_root dpkg --add-architecture "$2"
        update_lists "those of $2 are new"
    fi
    [ -n "$(candidate "$1:$2")" ] && apt_install "$1:$2"
}

# Puts Debian's Rust first on the path of make, and of the rest of this script.
use_debian_rust() {
    mkdir -p "$stand_in"
    for program in cargo rustc rustdoc rustfmt cargo-fmt cargo-clippy clippy-driver; do
        if [ -x "/usr/bin/$program" ]; then
            ln -sf "/usr/bin/$program" "$stand_in/$program"
        fi
    done
    PATH=$(cd "$stand_in" && pwd):$PATH
}

# Whether a Rust from elsewhere than rustup has all that Debian's could give.
other_rust_is_enough() {
    rust_is_new_enough && [ -z "$(missing_targets aarch64-unknown-linux-gnu)" ] || return 1
    [ "$purpose" = run ] || { have cargo-fmt && have cargo-clippy; }
}

install_rust() {
    if has_rustup; then
        prepare_rustup && return 0
        warn "rustup could not get what is missing; trying Debian's Rust instead"
    elif other_rust_is_enough; then
        return 0
    fi
    prepare_debian_rust || fail "no Rust $RUST_MINIMUM or newer: neither rustup nor Debian has one for this machine." \
        "Get rustup from https://rustup.rs and run make again"
}

# One line on what there is now.
summarise() {
    qemu=
    ! have qemu-system-aarch64 || qemu=$(qemu-system-aarch64 --version | sed -n '1s/.*version \([0-9.]*\).*/QEMU \1, /p')
    say "ready: $qemu$(gcc --version | sed -n '1s/.* /gcc /p'), $(cargo --version | cut -d' ' -f1,2)"
}

install_packages
install_rust
[ -z "$changed" ] || summarise
