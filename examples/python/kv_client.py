"""A client of the key-value service in Python: `python kv_client.py [NAME]`. See the book's chapter on Python."""

import sys

import tombolo
from tombolo.interfaces import kv


class Changes(kv.KvEvents):
    """Adds up what the server tells."""

    versions = 0

    def changed(self, key, version):
        self.versions += version


def main(name="kv"):
    changes = Changes()
    with kv.KvClient.connect(tombolo.attach(), name, events=changes, connect_timeout=60, timeout=60) as client:
        client.put("isle", b"sand", 0)
        try:
            client.put("isle", b"rock", 0)
        except kv.KvErrorDeclined as declined:
            assert declined.error is kv.KvError.CONFLICT
        client.put("größte Insel: 島", bytes(kv.MAX_VALUE), 0)
        try:
            client.put("more", bytes(kv.MAX_VALUE + 1))
        except tombolo.OverLimit as error:
            print(error)

        # Two calls in flight.
        there, missing = client.start_get("größte Insel: 島"), client.start_get("more")
        try:
            missing.wait()
        except kv.KvErrorDeclined as declined:
            print("declined:", kv.KvError(declined.error).name.lower())
        assert there.wait() == kv.KvGetReply(bytes(kv.MAX_VALUE), 1)

        client.forget("isle")
        for key in client.list("").keys:
            print("key:", key)
        try:
            client.await_change("isle")
        except tombolo.Unserved as error:
            print("await_change:", error)
        print(client.counts["calls"], "calls, versions", changes.versions)


if __name__ == "__main__":
    main(*sys.argv[1:])
