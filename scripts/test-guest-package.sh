#!/bin/sh
# Installs the package of TARGET/dist for this machine into a Debian with systemd and a kernel of its own,
# boots that by plain QEMU, and tests the node as which it joins: the package is all that there is of Tombolo
# in it. The guest is emulated, so this takes minutes, and `make test-packages` leaves it out.
#
# usage: test-guest-package.sh [TARGET]      TARGET is cargo's target folder, by default `target`
#
# Needs root, the kit and `make dist`, and debootstrap and network the first time. What it lacks is SKIPPED,
# aloud. However it ends, nothing of it is left running or mounted.
set -eu

target=$(realpath "${1:-target}")
cd "$(dirname "$0")/.."
SCRIPT=test-guest-package
. scripts/lib.sh
. scripts/packages.sh

if [ -z "${TOMBOLO_IN_NAMESPACE:-}" ]; then
    [ "$(id -u)" -eq 0 ] || skip "installing into an empty Debian needs root"
    have "qemu-system-$(uname -m)" || skip "there is no qemu-system-$(uname -m) here"
    have mke2fs || skip "there is no mke2fs here (apt-get install e2fsprogs)"
    export TOMBOLO_IN_NAMESPACE=yes
    exec unshare --mount --pid --ipc --fork --kill-child --mount-proc sh scripts/test-guest-package.sh "$target"
fi

make_work
architecture=$(dpkg --print-architecture)
deb=$(only "$target"/dist/tombolo_*_"$architecture".deb)
guest=$work/guest

# A guest as clouds have them, in $guest/root: Debian's kernel for clouds, systemd, and a disk by virtio.
install_guest() {
    layer system "$kept/debian"
    root=$work/system/root
    install_with_apt "$root" "linux-image-cloud-$architecture" initramfs-tools systemd systemd-sysv udev
    echo "/dev/vda / ext4 defaults 0 0" >"$root/etc/fstab"
    echo guest >"$root/etc/hostname"
}

# As a user does who has a card: the package, a key, a line of settings, and the service enabled.
install_package() {
    cp "$deb" "$root/var/tmp/tombolo.deb"
    install_with_apt "$root" /var/tmp/tombolo.deb
    rm "$root/var/tmp/tombolo.deb"
    mkdir -p "$root/etc/tombolo/join" "$guest"
    head -c 32 /dev/urandom >"$guest/key"
    install -m 600 "$guest/key" "$root/etc/tombolo/join/card0.key"
    echo "JOIN=ivshmem --key /etc/tombolo/join/card0.key --silence 5" >"$root/etc/tombolo/join/card0.conf"
    in_debian "$root" systemctl --quiet enable tombolo-join@card0
}

# What it boots from.
make_disk() {
    umount -R "$root/proc" "$root/dev" "$root/var/cache/apt/archives"
    cp "$root"/boot/vmlinuz-* "$guest/vmlinuz"
    cp "$root"/boot/initrd.img-* "$guest/initrd.img"
    used_mib=$(du -sm "$root" | cut -f 1)
    mke2fs -q -t ext4 -d "$root" "$guest/disk" $((used_mib * 5 / 4 + 64))M >"$work/log" 2>&1 || {
        cat "$work/log" >&2
        fail "no disk could be made"
    }
    umount -R "$root"
}

prepare
started=$(now)
install_guest
install_package
make_disk
say "installed in $(($(now) - started)) s"
TOMBOLO_GUEST=$guest CARGO_TARGET_DIR=$target \
    cargo test --quiet -p tombolo-e2e --test machines -- --test-threads=1 debian_guest
say "a Debian $release with the package joined a machine"
