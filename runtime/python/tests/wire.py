"""``wire.py FILE``: decodes messages, checks that Rust accepts and refuses the same ones, and encodes the accepted ones again.

In the file, each message follows the number of its record, whether Rust accepts it (1), whether it is unchanged from what Rust wrote
(1), and its length in four bytes.
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
    at = refused = reencoded = 0
    while at < len(data):
        record, is_accepted, is_unchanged = data[at : at + 3]
        length = int.from_bytes(data[at + 3 : at + 7], "little")
        message = data[at + 7 : at + 7 + length]
        at += 7 + length
        try:
            ordinal, _kind, call, value = kinds[record].decode(message)
        except tombolo.Malformed as error:
            assert not is_accepted, f"record {record}: Rust takes it, and Python says {error}\n{message.hex(' ', 8)}"
            refused += 1
            continue
        assert is_accepted, f"record {record}: Rust refuses what Python reads as {value!r}\n{message.hex(' ', 8)}"
        if is_unchanged:
            assert kinds[record].encode(ordinal, call, value) == message, f"record {record}: {value!r}"
            reencoded += 1
    print(f"{refused} refused, {reencoded} written again")


main(sys.argv[1])
