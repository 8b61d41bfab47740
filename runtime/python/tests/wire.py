"""``wire.py FILE``: reads messages and says of each what Rust says, and writes again what it could read.

A message stands in the file after the number of its record, whether Rust takes it (1) and whether it is as Rust wrote it (1),
and its length in four bytes.
"""

import os
import sys

import tombolo

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")


def main(path):
    everything, kv = (
        tombolo.load_interface(os.path.join(ROOT, "interfaces", f"{stem}.tbl")) for stem in ("everything", "kv")
    )
    kinds = [
        everything._EverythingPartsRequest,
        everything._EverythingPartsReply,
        everything._EverythingNumbersRequest,
        kv._KvPutRequest,
        kv._KvListReply,
    ]
    with open(path, "rb") as file:
        data = file.read()
    at = refused = again = 0
    while at < len(data):
        which, is_taken, is_whole = data[at : at + 3]
        length = int.from_bytes(data[at + 3 : at + 7], "little")
        message = data[at + 7 : at + 7 + length]
        at += 7 + length
        try:
            ordinal, _kind, call, value = kinds[which].decode(message)
        except tombolo.Malformed as error:
            assert not is_taken, f"record {which}: Rust takes it, and Python says {error}\n{message.hex(' ', 8)}"
            refused += 1
            continue
        assert is_taken, f"record {which}: Rust refuses what Python reads as {value!r}\n{message.hex(' ', 8)}"
        if is_whole:
            assert kinds[which].encode(ordinal, call, value) == message, f"record {which}: {value!r}"
            again += 1
    print(f"{refused} refused, {again} written again")


main(sys.argv[1])
