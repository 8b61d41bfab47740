#!/bin/sh
# Installs each package of TARGET/dist for this machine into an empty Debian, as a user would, and runs
# ping-pong there between two instruction sets; and sees that packages are refused where they do not belong.
#
# usage: test-packages.sh [TARGET [KIND...]]      TARGET is cargo's target folder, by default `target`; KIND is deb, tarball,
#                                                 wheel or refusals, by default all of them
#
# Needs root, and debootstrap and network the first time: an empty Debian, and the packages that ours need
# there, are kept in TARGET/packages. What it lacks is SKIPPED, aloud. Each Debian is a layer over the kept
# one and is gone afterwards, with all that ran in it.
set -eu

target=$(realpath "${1:-target}")
[ $# -eq 0 ] || shift
cd "$(dirname "$0")/.."
SCRIPT=test-packages
. scripts/lib.sh
. scripts/packages.sh

image=lib/tombolo/kit/images/pingpong.tbi

# --- Where packages are installed --------------------------------------------------------------------

# In namespaces of our own: mounts and processes go with them.
if [ -z "${TOMBOLO_IN_NAMESPACE:-}" ]; then
    [ "$(id -u)" -eq 0 ] || skip "installing into an empty Debian needs root"
    have dpkg-deb || skip "there is no dpkg-deb here"
    export TOMBOLO_IN_NAMESPACE=yes
    exec unshare --mount --pid --ipc --fork --kill-child --mount-proc sh scripts/test-packages.sh "$target" "$@"
fi

make_work

# The packages that ours asks for, and what installing a wheel takes.
recommended() { dpkg-deb --field "$deb" Recommends | tr -d ','; }

# --- What is tried -----------------------------------------------------------------------------------

# ping_pong NAME ROOT BIN PREFIX: a machine comes up, two instruction sets talk, it goes down, and nothing is
# left.
ping_pong() {
    said=$(as_user "$2" "PATH=$3:\$PATH
        tombolo --quiet up
        tombolo run --on host,arm0 '$4/$image'
        tombolo --quiet down") || fail "$1: $said"
    echo "$said" | grep -q "$(uname -m) on host -> aarch64 on arm0: 10000 round trips" || fail "$1: ping-pong said: $said"
    nothing_runs "$1"
    say "$1: $said"
}

# refused WHAT WORDS COMMAND...: fails, and says so in these words.
refused() {
    what=$1 words=$2
    shift 2
    if "$@" >"$work/log" 2>&1; then
        fail "$what was not refused"
    fi
    grep -q -- "$words" "$work/log" || {
        cat "$work/log" >&2
        fail "$what was refused in other words than: $words"
    }
    say "refused $what: $(grep -- "$words" "$work/log" | head -n 1 | sed 's/^ *//')"
}

test_deb() {
    layer deb "$kept/debian"
    root=$work/deb/root
    cp "$deb" "$root/tmp/tombolo.deb"
    started=$(now)
    # shellcheck disable=SC2046 # one word per package
    install_with_apt "$root" /tmp/tombolo.deb $(recommended)
    ping_pong deb "$root" /usr/bin /usr
    say "deb: installed and run in $(($(now) - started)) s"
    in_debian "$root" dpkg --verify tombolo
    in_debian "$root" bash -c '. /usr/share/bash-completion/completions/tombolo && complete -p tombolo' >/dev/null
    for file in share/man/man1/tombolo-up.1 share/zsh/site-functions/_tombolo share/fish/vendor_completions.d/tombolo.fish \
        share/doc/tombolo/copyright share/doc/tombolo/tombolo.spdx.json include/tombolo.h; do
        [ -s "$root/usr/$file" ] || fail "deb: /usr/$file is missing"
    done
    if have systemd-analyze; then
        # Against this machine's units, of which an empty Debian has none, and with a program that it has.
        unit=$work/tombolo-machine@try.service
        sed 's|^ExecStart=tombolo |ExecStart=/bin/true |' "$root/usr/lib/systemd/system/tombolo-machine@.service" >"$unit"
        systemd-analyze --man=no verify "$unit" 2>&1 | grep tombolo && fail "deb: systemd finds fault with the unit"
    fi
    test_foreground "$root"
    test_other_kit "$root"
    in_debian "$root" dpkg --purge tombolo >/dev/null
    left=$(find "$root/usr" -iname '*tombolo*')
    [ -z "$left" ] || fail "deb: left after dpkg --purge: $left"
}

# What the unit runs: it says when the machine is up, and takes it down on SIGTERM.
test_foreground() {
    as_user "$1" 'tombolo up --foreground >/tmp/said 2>&1 & machine=$!
        waited=0
        until tombolo --quiet status >/dev/null 2>&1; do
            waited=$((waited + 1))
            [ "$waited" -lt 600 ] && kill -0 "$machine" || { cat /tmp/said; exit 1; }
            sleep 0.1
        done
        kill -TERM "$machine"
        wait "$machine"' || fail "deb: tombolo up --foreground"
    nothing_runs "tombolo up --foreground"
    say "deb: a machine that is kept in the foreground goes down on SIGTERM"
}

test_other_kit() {
    cp -r "$1/usr/lib/tombolo/kit" "$1/tmp/kit"
    echo 0.0.9 >"$1/tmp/kit/version"
    refused "a kit of another version" 'are those of Tombolo 0.0.9, and this is Tombolo' \
        as_user "$1" 'TOMBOLO_KIT=/tmp/kit tombolo up'
    nothing_runs "a refused kit"
    rm -r --one-file-system "$1/tmp/kit"
}

# A Debian with QEMU and what a wheel takes, over which the others lie.
prepare_emulators() {
    layer emulators "$kept/debian"
    # shellcheck disable=SC2046 # one word per package
    install_with_apt "$work/emulators/root" $(recommended) python3-venv
    umount -R "$work/emulators/root"
}

test_tarball() {
    layer tarball "$work/emulators/changes:$kept/debian"
    root=$work/tarball/root
    started=$(now)
    tar -x -C "$root/home/user" -f "$tarball" --no-same-owner
    name=$(basename "$tarball" .tar.gz)
    ping_pong tarball "$root" "/home/user/$name/bin" "/home/user/$name"
    say "tarball: installed and run in $(($(now) - started)) s"
}

test_wheel() {
    layer wheel "$work/emulators/changes:$kept/debian"
    root=$work/wheel/root
    cp "$wheel" "$root/tmp/"
    started=$(now)
    as_user "$root" "python3 -m venv /home/user/env
        /home/user/env/bin/pip --quiet --disable-pip-version-check install --no-index /tmp/$(basename "$wheel")"
    ping_pong wheel "$root" /home/user/env/bin /home/user/env
    # The host's part in Python, with the monitor and the command that came in the wheel.
    said=$(as_user "$root" "cd /home/user; PATH=/home/user/env/bin:\$PATH
        tombolo --quiet up
        python - <<'END'
import pathlib, sys, tombolo
domain = tombolo.attach()
job = {'TOMBOLO_RANK': '1', 'TOMBOLO_SIZE': '2', 'TOMBOLO_JOB': 'try'}
with domain.export('try/ping') as listener:
    child = domain.spawn(pathlib.Path(sys.prefix, '$image'), node='arm0', environment=job)
    with listener.accept(30) as channel:
        isa = bytes(channel.receive(30)).decode()
        for number in range(1000):
            channel.send(number.to_bytes(8, 'little'), 30)
            assert bytes(channel.receive(30)) == number.to_bytes(8, 'little')
        print('Python on', domain.node_name, '->', isa, 'on', channel.peer_node)
END
        tombolo --quiet down") || fail "wheel: $said"
    [ "$said" = "Python on host -> aarch64 on arm0" ] || fail "wheel: $said"
    say "wheel: $said"
    # Without a machine: the monitor of a plain host is the wheel's own.
    as_user "$root" "cd /home/user; env/bin/python -c 'import tombolo; print(tombolo.attach(\"local\").node_name)'" >"$work/log" ||
        fail "wheel: no monitor of its own"
    say "wheel: installed and run in $(($(now) - started)) s"
}

# A Debian whose C library is older, and one for another processor, as far as dpkg looks before it installs
# anything.
test_refusals() {
    mkdir -p "$work/old/var/lib/dpkg/updates" "$work/old/var/lib/dpkg/info"
    cat >"$work/old/var/lib/dpkg/status" <<'END'
Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.31-13+deb11u11
Maintainer: somebody
Description: the C library of Debian 11

END
    sed -i "s/^Architecture: .*/Architecture: $(dpkg --print-architecture)/" "$work/old/var/lib/dpkg/status"
    refused "the package on Debian 11" 'pre-dependency problem' dpkg --root="$work/old" --install "$deb"
    grep -q 'libc6 (>= ' "$work/log" || fail "dpkg does not say which C library is too old"
    for other in "$target"/dist/tombolo_*.deb; do
        [ "$other" = "$deb" ] || refused "the package for another processor" 'does not match system' \
            dpkg --root="$work/old" --install "$other"
    done
    python3 -m pip --version >/dev/null 2>&1 || return 0
    for other in "$target"/dist/tombolo-*.whl; do
        [ "$other" = "$wheel" ] || refused "the wheel for another processor" 'not a supported wheel on this platform' \
            python3 -m pip --disable-pip-version-check install --dry-run --no-index --no-deps "$other"
    done
}

deb=$(only "$target"/dist/tombolo_*_"$(dpkg --print-architecture)".deb)
tarball=$(only "$target"/dist/tombolo-*-"$(uname -m)"-linux.tar.gz)
wheel=$(only "$target"/dist/tombolo-*_"$(uname -m)".whl)
[ $# -gt 0 ] || set -- deb tarball wheel refusals
prepare
for kind in "$@"; do
    case $kind in
    deb) test_deb ;;
    tarball | wheel)
        [ -d "$work/emulators" ] || prepare_emulators
        "test_$kind"
        ;;
    refusals) test_refusals ;;
    *) fail "there is no '$kind': it is deb, tarball, wheel or refusals" ;;
    esac
done
say "installed into an empty Debian $release, and ran ping-pong there: $*"
