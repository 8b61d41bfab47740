#!/bin/sh
# Puts Debian's Python for aarch64, with the libraries that it is linked with, into TARGET/kit/python/aarch64:
# a folder for the key `files` of a vm node. Its interpreter is usr/bin/python3 there.
#
# usage: fetch-vm-python.sh [TARGET]      TARGET is cargo's target folder, by default `target`
#
# Needs no root (scripts/debs.sh). Packages are kept in ~/.cache/tombolo/debs; while they are there nothing is
# fetched (remove them to get newer ones). When everything is in place it does nothing. Ends with status 3
# when the archive is out of reach.
set -eu

target=${1:-target}
kit=$target/kit/python
tree=$kit/aarch64
made_of=$kit/aarch64.from
# To be raised when this script makes something else of the same packages.
recipe=2

what='python for vms'
# shellcheck source=scripts/debs.sh
. "$(dirname "$0")/debs.sh"

if [ -f "$made_of" ] && [ -x "$tree/usr/bin/python3" ]; then
    read -r made_by _ <"$made_of" || made_by=
    [ "$made_by" != "$recipe" ] || exit 0
fi

begin "$kit"

# The release's Python: the package `python3-minimal` depends on the one that has its version in the name.
python_package() {
    with_apt apt-cache depends python3-minimal 2>/dev/null |
        sed -n 's/^ *\(Pre\)\{0,1\}Depends: \(python3\.[0-9]*-minimal\)$/\2/p' | head -n 1
}

# All that Python 3.$1 takes: itself, what it is linked with, and what extension modules written in Rust are.
packages() {
    for package in "python3.$1-minimal" "libpython3.$1-minimal" "libpython3.$1-stdlib" libc6 libgcc-s1 zlib1g libexpat1 libffi8; do
        echo "$package"
    done
}

# The minor version of the newest Python that is kept.
kept_version() {
    deb=$(kept 'python3.*-minimal_*_arm64.deb') || return 1
    deb=${deb##*/python3.}
    printf '%s\n' "${deb%%-*}"
}

all_kept() {
    for package in $(packages "$1"); do
        kept "${package}_*_arm64.deb" >/dev/null || return 1
    done
}

version=$(kept_version) || version=
if [ -z "$version" ] || ! all_kept "$version"; then
    update_lists
    package=$(python_package)
    [ -n "$package" ] || unreachable 'apt knows no python3-minimal: an archive of Debian must be among its sources'
    version=${package#python3.}
    version=${version%-minimal}
    # Together, so that those of one version fit each other.
    # shellcheck disable=SC2046 # one word per package
    download $(packages "$version")
fi

say "unpacking Python 3.$version to $tree"
mkdir "$work/root"
used=
for package in $(packages "$version"); do
    deb=$(kept "${package}_*_arm64.deb")
    used="$used ${deb##*/}"
    # Encodings of the C library, the tests of Python and documents would be the half of it.
    dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$work/root" --no-same-owner \
        --exclude='*/gconv' --exclude='./usr/share' --exclude="./usr/lib/python3.$version/test" \
        --exclude="./usr/lib/python3.$version/pydoc_data"
done
ln -s "python3.$version" "$work/root/usr/bin/python3"
[ -x "$work/root/usr/bin/python3" ] || fail "$used have no /usr/bin/python3.$version"

# Under emulation to compile is most of what a program takes to start, so it is done here, where it lasts.
# What is compiled is taken as it is, whatever times its sources have.
emulator=$(command -v qemu-aarch64 || command -v qemu-aarch64-static) || emulator=
if [ -n "$emulator" ]; then
    say 'compiling its library'
    "$emulator" -L "$work/root" "$work/root/usr/bin/python3" -I -m compileall -q --invalidation-mode unchecked-hash \
        -s "$work/root" -p / "$work/root/usr/lib/python3.$version" >"$work/log" 2>&1 || {
        cat "$work/log" >&2
        fail 'its library could not be compiled'
    }
else
    say 'its library is not compiled: there is no qemu-aarch64 (Debian: qemu-user), and programs will start slowly'
fi

rm -rf "$made_of" "$tree"
mv "$work/root" "$tree"
printf '%s%s\n' "$recipe" "$used" >"$made_of"
say "ready: $(du -sh "$tree" | cut -f1), for \`files = [\"$(cd "$tree" && pwd)\"]\` of a vm node"
