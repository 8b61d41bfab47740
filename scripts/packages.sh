# What the scripts share that install packages into an empty Debian. Sourced after lib.sh, not run; POSIX sh.
# They set `target`, the folder that cargo builds in, and have mount and process namespaces of their own. What
# they download is kept in TARGET/packages.
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

# equip ROOT: what a running Debian has besides files. Its devices are its own, not this machine's.
equip() {
    mount -t proc proc "$1/proc"
    mount -t tmpfs -o mode=755 tmpfs "$1/dev"
    mkdir -m 1777 "$1/dev/shm"
    for device in null:3 zero:5 full:7 random:8 urandom:9; do
        mknod -m 666 "$1/dev/${device%:*}" c 1 "${device#*:}"
    done
    ln -s /proc/self/fd "$1/dev/fd"
}

# Makes TARGET/packages/debian, with nothing in it, and /cache, where apt keeps what it downloaded.
prepare() {
    [ ! -f "$kept/debian/ready" ] || return 0
    have debootstrap || skip "there is no debootstrap here (apt-get install debootstrap)"
    say "making an empty Debian $release in $kept (once)"
    rm -rf --one-file-system "$kept/debian"
    mkdir -p "$kept"
    debootstrap --variant=minbase "$release" "$kept/debian" "$mirror" >"$kept/log" 2>&1 || {
        tail -n 5 "$kept/log" >&2
        skip "the archive of Debian did not come"
    }
    in_debian "$kept/debian" useradd --create-home --uid 1000 --shell /bin/sh user
    in_debian "$kept/debian" apt-get -q -q update
    touch "$kept/debian/ready"
}

# layer NAME BELOW: a Debian of its own over another, in $work/NAME/root.
layer() {
    mkdir -p "$work/$1/changes" "$work/$1/spare" "$work/$1/root"
    mount -t overlay overlay -o "lowerdir=$2,upperdir=$work/$1/changes,workdir=$work/$1/spare" "$work/$1/root"
    equip "$work/$1/root"
    mkdir -p "$kept/archives/partial"
    mount --bind "$kept/archives" "$work/$1/root/var/cache/apt/archives"
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
