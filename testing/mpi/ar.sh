#!/bin/sh
# ar for every instruction set: what is done to an archive of this host's objects is done to that of the
# others' beside it, where `tombolo mpicc` puts and looks for them.
# usage: as ar, with an operation, an archive, files
set -eu
ar "$@"
operation=$1 archive=$2
shift 2
case $operation in
*t* | *p*) exit 0 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for isa in aarch64; do
    foreign=$(realpath "$(dirname "$archive")")/.tombolo/$isa/$(basename "$archive")
    mkdir -p "${foreign%/*}" "$work/$isa"
    case $operation in
    *x*)
        # libtool looks for everything that is called an object, also in folders: these are called otherwise.
        mkdir -p ".tombolo/$isa"
        (cd "$work/$isa" && "$isa-linux-gnu-ar" "$operation" "$foreign")
        for object in "$work/$isa"/*; do
            mv "$object" ".tombolo/$isa/${object##*/}.extracted"
        done
        ;;
    *)
        for object; do
            beside=$(dirname "$object")/.tombolo/$isa/$(basename "$object")
            [ -e "$beside" ] || beside=$beside.extracted
            cp "$beside" "$work/$isa/${object##*/}"
        done
        "$isa-linux-gnu-ar" "$operation" "$foreign" "$work/$isa"/*
        ;;
    esac
done
