# What the scripts share that install packages into an empty Debian. Sourced after lib.sh, not run; POSIX sh.
# They set `target`, the folder that cargo builds in, and have mount and process namespaces of their own.
# shellcheck shell=sh

release=bookworm
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
kept=$target/packages

skip() {
    echo "SKIPPED packages: $*"
    exit 0
}

# A file system that only this namespace has: what is in it, and every mount below it, goes with the
# namespace. Nothing here removes files recursively, so that nothing can follow a mount out of it.
make_work() {
    work=$kept/work
    mkdir -p "$work"
    mount -t tmpfs -o mode=755 tmpfs "$work"
    # What the programs here make of their own.
    export TMPDIR="$work"
}

# in_debian ROOT COMMAND...: runs a command there as root.
in_debian() {
    root=$1
    shift
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}

# as_user ROOT LINE: runs a shell line there as an unprivileged user.
as_user() {
    chroot --userspec=1000:1000 "$1" env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/home/user LC_ALL=C.UTF-8 sh -euc "$2"
}

install_with_apt() {
    root=$1
    shift
    # As quick as an empty machine can be: it need not survive a power cut.
    in_debian "$root" apt-get -q -q -y --no-install-recommends -o Dpkg::Options::=--force-unsafe-io \
        -o APT::Keep-Downloaded-Packages=true -o APT::Sandbox::User= install "$@" >"$work/log" 2>&1 || {
        cat "$work/log" >&2
        fail "installing $* failed"
    }
}

# Seconds, to tell how long something took.
now() { date +%s; }

# A keeper of a machine ends just after what it kept.
nothing_runs() {
    waited=0
    while left=$(ps -o args= -C tombolod,qemu-system-aarch64,tombolo); do
        waited=$((waited + 1))
        [ "$waited" -lt 100 ] || fail "$1 left processes behind: $left"
        sleep 0.1
    done
}

# only PATTERN: the one file of this name, which `make dist` made.
only() {
    [ -f "$1" ] || fail "$1 is missing: run \`make dist\` first"
    [ $# -eq 1 ] || fail "several packages of one kind: $*; remove those that are old"
    printf '%s\n' "$1"
}
