#!/bin/sh
# Puts what a virtual machine node is made of, except our own monitor, into TARGET/kit/ISA:
#   vmlinuz             Debian's kernel for clouds
#   modules/*.ko,order  its vfio modules, and their order, each after those it needs
#   network-modules/*   the same for the emulator's network and disk, which nodes have none of: `tombolo bench` measures them
#   device-modules/*    the same for devices that a program provides (TUN, NBD), loaded when one is first asked for
#   dax-modules/*       the same for memory that the kernel's DAX driver has (NVDIMM), which nodes of ours do without; only
#                       for x86_64, where tests boot guests that join by themselves with it
#   busybox             the shell and tools of the node's console
#   root/               libraries of programs, at their paths on the node; only for x86_64, whose programs are not static
#   copyright-*,SOURCES under which licences they are, and where their sources are, for those who pass them on
#
# usage: fetch-vm-kit.sh [TARGET [ISA]]      TARGET is cargo's target folder, by default `target`; ISA is aarch64
#                                            (the default), riscv64 or x86_64
#
# Needs no root (scripts/debs.sh). Packages are kept in ~/.cache/tombolo/debs; while they are there nothing is
# fetched (remove them to get newer ones). When everything is in place it does nothing.
set -eu

target=${1:-target}
isa=${2:-aarch64}
kit=$target/kit/$isa
what='vm kit'
# shellcheck source=scripts/debs.sh
. "$(dirname "$0")/debs.sh"

# What Debian calls the architecture, and the packages whose libraries nodes have.
case $isa in
aarch64) debian=arm64 flavour=cloud-arm64 libraries= ;;
riscv64) debian=riscv64 flavour=riscv64 libraries= ;;
x86_64) debian=amd64 flavour=cloud-amd64 libraries='libc6 libgcc-s1' ;;
*) fail "there is no virtual machine of $isa: aarch64, riscv64 or x86_64" ;;
esac
use_architecture "$debian"
# Debian has it from version 13 on, and one kernel for all its machines.
[ "$isa" != riscv64 ] || use_suite trixie
# The first of these packages that the archive has: Debian 12 has an older kernel beside this one, which lacks
# devices that programs provide and write protection for userfaultfd; Debian 13 has no other.
kernels="linux-image-6.12-$flavour linux-image-$flavour"
needed_modules='vfio_iommu_type1 vfio-pci'
# The emulated machine has no IOMMU, without which vfio does nothing.
[ "$isa" != riscv64 ] || needed_modules=
network_modules='virtio_pci virtio_net virtio_blk'
# The kernels for clouds contain the file system of disks. As a module it asks for its check sum by name, and
# nothing on a node would load that.
[ "$isa" != riscv64 ] || network_modules="$network_modules crc32c_generic ext4"
device_modules='tun nbd'
dax_modules=
[ "$isa" != x86_64 ] || dax_modules='nfit nd_pmem dax_pmem device_dax'
# To be raised when this script makes something else of the same packages.
recipe=7

if [ -f "$kit/vm-kit" ] && [ -f "$kit/vmlinuz" ] && [ -f "$kit/modules/order" ] && [ -x "$kit/busybox" ]; then
    read -r made_by _ <"$kit/vm-kit" || made_by=
    [ "$made_by" != "$recipe" ] || exit 0
fi

begin "$kit"

# The package that holds the kernel itself: its name has the kernel's version.
kernel_image() {
    for kernel in $kernels; do
        with_apt apt-cache depends "$kernel" 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)$/\1/p'
    done | head -n 1
}

fetch() {
    update_lists
    image=$(kernel_image)
    [ -n "$image" ] || {
        cat "$work/log" >&2
        fail "apt knows no ${kernels%% *}: an archive of Debian must be among its sources, and within reach"
    }
    kept "${image}_*_$debian.deb" >/dev/null || download "$image"
    for package in busybox-static $libraries; do
        kept "${package}_*_$debian.deb" >/dev/null || download "$package"
    done
}

# Prints the file of a module. Names are written with either kind of dash.
module_file() {
    find "$work/lib" -name "$(printf '%s' "$1" | sed 's/[-_]/[-_]/g').ko*" | head -n 1
}

is_built_in() {
    find "$work/lib" -name modules.builtin -exec grep -q "/$(printf '%s' "$1" | sed 's/[-_]/[-_]/g').ko\$" {} +
}

# Installs a module into $folder after those it needs, as its own description lists them. One that the kernel
# itself contains needs no file.
add_module() {
    case " $added " in *" $1 "*) return ;; esac
    ! is_built_in "$1" || return 0
    [ -n "$(module_file "$1")" ] || fail "$kernel_deb has no module $1"
    case $(module_file "$1") in
    *.ko) ;;
    *.ko.xz) xz -d "$(module_file "$1")" || fail 'cannot unpack a module: apt-get install xz-utils' ;;
    *) fail "the module $(module_file "$1") is packed in a way that is not known" ;;
    esac
    for needed in $(tr '\0' '\n' <"$(module_file "$1")" | sed -n 's/^depends=//p' | tr ',' ' '); do
        add_module "$needed"
    done
    cp "$(module_file "$1")" "$work/$folder/"
    basename "$(module_file "$1")" >>"$work/$folder/order"
    added="$added $1"
}

# From 6.10 on.
image_pattern="linux-image-6.[1-9][0-9]*-${flavour}_*_$debian.deb"
have_all() {
    kept "$image_pattern" >/dev/null || return 1
    for package in busybox-static $libraries; do
        kept "${package}_*_$debian.deb" >/dev/null || return 1
    done
}
have_all || fetch
kernel_deb=$(kept "$image_pattern")
busybox_deb=$(kept "busybox-static_*_$debian.deb")
library_debs=
for package in $libraries; do
    library_debs="$library_debs $(kept "${package}_*_$debian.deb")"
done

say "unpacking ${kernel_deb##*/} and ${busybox_deb##*/} to $kit"
# From the folders drivers, virt and net/core. The kernel of aarch64 has no folder virt, and tar fails for a
# pattern that fits nothing.
mkdir "$work/lib" "$work/busybox" "$work/modules" "$work/network-modules" "$work/device-modules" "$work/dax-modules"
dpkg-deb --fsys-tarfile "$kernel_deb" | tar -x -C "$work/lib" --wildcards './boot/vmlinu[xz]-*' '*/modules.builtin' '*/kernel/[dv]*/*' '*/kernel/net/core/*' './usr/share/doc/*/copyright'
[ "$isa" != riscv64 ] ||
    dpkg-deb --fsys-tarfile "$kernel_deb" | tar -x -C "$work/lib" --wildcards '*/kernel/fs/*' '*/kernel/lib/*' '*/kernel/crypto/*'
dpkg-deb --fsys-tarfile "$busybox_deb" | tar -x -C "$work/busybox" --wildcards '*bin/busybox' './usr/share/doc/*/copyright'
add_modules() {
    folder=$1
    added=
    shift
    : >"$work/$folder/order"
    for module in "$@"; do
        add_module "$module"
    done
}
# shellcheck disable=SC2086  # lists of names
{
    add_modules modules $needed_modules
    add_modules network-modules $network_modules
    add_modules device-modules $device_modules
    add_modules dax-modules $dax_modules
}
# Libraries alone, without what converts character sets.
mkdir "$work/root"
for deb in $library_debs; do
    dpkg-deb -x "$deb" "$work/root"
    package=$(dpkg-deb --field "$deb" Package)
    # That of GCC's library is in a package that all of GCC shares; no package of ours passes either on.
    ! [ -f "$work/root/usr/share/doc/$package/copyright" ] ||
        cp "$work/root/usr/share/doc/$package/copyright" "$work/copyright-$package"
done
rm -rf "$work/root/etc" "$work/root/sbin" "$work/root/usr/sbin" "$work/root/usr/share" "$work"/root/usr/lib/*/gconv
# From Debian 13 on programs find them through links of another package.
for folder in lib lib64; do
    [ -z "$libraries" ] || [ -e "$work/root/$folder" ] || ln -s "usr/$folder" "$work/root/$folder"
done
mv "$work"/lib/boot/vmlinu[xz]-* "$work/vmlinuz"
mv "$(find "$work/busybox" -path '*bin/busybox')" "$work/bin-busybox"
chmod 644 "$work/vmlinuz"
chmod 755 "$work/bin-busybox"
chmod 644 "$work"/*modules/*

cp "$work"/lib/usr/share/doc/*/copyright "$work/copyright-linux"
cp "$work"/busybox/usr/share/doc/*/copyright "$work/copyright-busybox"
{
    echo 'Programs here that are under the GNU General Public License, version 2, are builds by Debian. Their source packages are'
    echo 'kept by https://snapshot.debian.org:'
    # shellcheck disable=SC2086  # a list of files, whose names apt made
    for deb in "$kernel_deb" "$busybox_deb" $library_debs; do
        dpkg-deb --show --showformat '  ${Package} ${Version}: ${source:Package} ${source:Version}, built using ${Built-Using}\n' "$deb"
    done
} >"$work/SOURCES"

rm -rf "$kit/vm-kit" "$kit/modules" "$kit/network-modules" "$kit/device-modules" "$kit/dax-modules" "$kit/root"
[ -z "$libraries" ] || mv "$work/root" "$kit/root"
mv "$work/modules" "$kit/modules"
mv "$work/network-modules" "$kit/network-modules"
mv "$work/device-modules" "$kit/device-modules"
[ -z "$dax_modules" ] || mv "$work/dax-modules" "$kit/dax-modules"
mv "$work/vmlinuz" "$kit/vmlinuz"
mv "$work/bin-busybox" "$kit/busybox"
mv "$work"/copyright-* "$work/SOURCES" "$kit/"
printf '%s %s %s\n' "$recipe" "${kernel_deb##*/}" "${busybox_deb##*/}" >"$kit/vm-kit"
say "ready: $(sed 's/^/ /' "$kit/modules/order" | tr -d '\n')"
