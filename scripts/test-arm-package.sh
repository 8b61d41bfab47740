#!/bin/sh
# Installs the package of TARGET/dist for Arm into an empty Debian for Arm, as a user of an Arm machine would,
# and runs ping-pong there between two instruction sets. An emulator runs all of it, so it takes minutes, and
# `make test-packages` leaves it out.
#
# usage: test-arm-package.sh [TARGET]      TARGET is cargo's target folder, by default `target`
#
# Needs root, Linux 6.7 (which lets a user namespace have a binfmt_misc of its own: nothing of this machine
# changes), and qemu-user-static; the first time also debootstrap and network: the empty Debian is kept in
# TARGET/packages. What it lacks is SKIPPED, aloud. However it ends, nothing of it is left running or mounted.
set -eu

target=$(realpath "${1:-target}")
cd "$(dirname "$0")/.."
SCRIPT=test-arm-package
. scripts/lib.sh
. scripts/packages.sh

debian=$kept/debian-arm64
# It runs by the emulator and is static, so that its node needs nothing of this machine.
foreign=riscv64

# --- Outside -----------------------------------------------------------------------------------------

fetch_debian() {
    [ ! -d "$debian/debootstrap" ] && [ -d "$debian/bin" ] && return 0
    have debootstrap || skip "there is no debootstrap here (apt-get install debootstrap)"
    say "fetching an empty Debian $release for Arm to $debian (once)"
    rm -rf --one-file-system "$debian"
    mkdir -p "$kept"
    debootstrap --foreign --arch=arm64 --variant=minbase "$release" "$debian" "$mirror" >"$kept/log" 2>&1 || {
        tail -n 5 "$kept/log" >&2
        skip "the archive of Debian did not come"
    }
}

# Runs this script again in namespaces of its own. The user namespace has this machine's users, which only a
# process outside can give it. The inner one holds the reading end of a pipe: it ends when this process does,
# however that ends.
run_inside() {
    pipe=$(mktemp -u)
    mkfifo "$pipe"
    exec 3<>"$pipe" 4<"$pipe" 5>"$pipe" 3>&-
    rm "$pipe"
    # shellcheck disable=SC2016 # expanded there
    TOMBOLO_IN_NAMESPACE=yes unshare --user --mount --pid --ipc --fork --kill-child --mount-proc sh -c '
        trap "exit 1" TERM
        read -r go <&4
        (cat <&4 >/dev/null; kill -TERM 1) &
        sh "$@" &
        wait $!' sh scripts/test-arm-package.sh "$target" 5>&- &
    inner=$!
    waited=0
    until [ "$(readlink "/proc/$inner/ns/user")" != "$(readlink /proc/self/ns/user)" ]; do
        waited=$((waited + 1))
        [ "$waited" -lt 100 ] && kill -0 "$inner" 2>/dev/null || skip "there are no user namespaces here"
        sleep 0.1
    done
    for map in uid_map gid_map; do
        echo "0 0 65536" >"/proc/$inner/$map"
    done
    echo go >&5
    wait "$inner"
}

if [ -z "${TOMBOLO_IN_NAMESPACE:-}" ]; then
    [ "$(id -u)" -eq 0 ] || skip "installing into an empty Debian needs root"
    have qemu-aarch64-static || skip "there is no qemu-aarch64-static here (apt-get install qemu-user-static)"
    only "$target"/dist/tombolo_*_arm64.deb >/dev/null
    fetch_debian
    run_inside
    exit
fi

# --- Inside ------------------------------------------------------------------------------------------

make_work

# The kernel opens the emulator now (F), so that it is found in every root, and the programs (O), which may
# lie in no folder.
emulate_arm() {
    mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc 2>"$work/log" ||
        skip "this kernel has no binfmt_misc for a user namespace: $(cat "$work/log")"
    magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
    mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
    printf ':aarch64:M::%s:%s:%s:OF' "$magic" "$mask" "$(command -v qemu-aarch64-static)" >/proc/sys/fs/binfmt_misc/register
}

# equip ROOT: what a running Debian has besides files. A user namespace can make no devices, so these are this
# machine's.
equip() {
    mount -t proc proc "$1/proc"
    mount -t tmpfs -o mode=755 tmpfs "$1/dev"
    mkdir -m 1777 "$1/dev/shm"
    for device in null zero full random urandom; do
        touch "$1/dev/$device"
        mount --bind "/dev/$device" "$1/dev/$device"
    done
    ln -s /proc/self/fd "$1/dev/fd"
}

# The second half of debootstrap, which runs programs for Arm.
complete_debian() {
    [ ! -f "$debian/ready" ] || return 0
    started=$(now)
    # With this it makes no devices.
    in_debian "$debian" container=lxc /debootstrap/debootstrap --second-stage >"$work/log" 2>&1 || {
        tail -n 20 "$work/log" >&2
        fail "debootstrap's second stage failed"
    }
    in_debian "$debian" useradd --create-home --uid 1000 --shell /bin/sh user
    in_debian "$debian" sh -c "echo 'deb $mirror $release main' >/etc/apt/sources.list && apt-get -q -q update"
    touch "$debian/ready"
    say "completed an empty Debian for Arm in $(($(now) - started)) s"
}

test_deb() {
    root=$work/root
    mkdir -p "$work/changes" "$work/spare" "$root" "$kept/archives-arm64/partial"
    mount -t overlay overlay -o "userxattr,lowerdir=$debian,upperdir=$work/changes,workdir=$work/spare" "$root"
    equip "$root"
    mount --bind "$kept/archives-arm64" "$root/var/cache/apt/archives"
    cp "$(only "$target"/dist/tombolo_*_arm64.deb)" "$root/tmp/tombolo.deb"
    started=$(now)
    # Virtual machines need qemu-system-arm; an emulated emulator of whole machines is slower than they wait
    # for.
    install_with_apt "$root" /tmp/tombolo.deb qemu-user
    in_debian "$root" dpkg --verify tombolo
    say "installed in $(($(now) - started)) s"
    cat >"$root/home/user/machine.toml" <<END
name = "arm"
[[node]]
name = "host"
kind = "host"
[[node]]
name = "other"
kind = "user"
isa = "$foreign"
END
    started=$(now)
    said=$(as_user "$root" "cd; uname -m; tombolo --quiet up machine.toml
        tombolo run --on host,other /usr/lib/tombolo/kit/images/pingpong.tbi
        tombolo --quiet down" 2>&1) || fail "ping-pong: $said"
    echo "$said" | grep -q "aarch64 on host -> $foreign on other: 10000 round trips" || fail "ping-pong said: $said"
    nothing_runs ping-pong
    say "ran in $(($(now) - started)) s: $said"
    in_debian "$root" dpkg --purge tombolo >/dev/null
    left=$(find "$root/usr" -iname '*tombolo*')
    [ -z "$left" ] || fail "left after dpkg --purge: $left"
}

emulate_arm
complete_debian
test_deb
say "installed the package for Arm into an empty Debian $release, and ran ping-pong there"
