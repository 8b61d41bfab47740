"""A key-value service in Python: `python kv_server.py [NAME]`. See the book's chapter on Python."""

import sys
import threading

import tombolo
from tombolo.interfaces import kv


class Store(kv.KvHandler):
    """Values by name, for all clients. A lock keeps them apart: each client has a thread."""

    def __init__(self):
        self.entries = {}
        self.lock = threading.Lock()

    def get(self, key):
        with self.lock:
            if key not in self.entries:
                raise kv.KvErrorDeclined(kv.KvError.NOT_FOUND)
            return kv.KvGetReply(*self.entries[key])

    def put(self, key, value, expected):
        with self.lock:
            version = self.entries.get(key, (b"", 0))[1]
            if expected is not None and expected != version:
                raise kv.KvErrorDeclined(kv.KvError.CONFLICT)
            self.entries[key] = (value, version + 1)
        tombolo.current_server().changed(key, version + 1)
        return kv.KvPutReply(version + 1)

    def list(self, prefix):
        with self.lock:
            return kv.KvListReply(sorted(key for key in self.entries if key.startswith(prefix))[:64])

    def forget(self, key):
        with self.lock:
            self.entries.pop(key, None)


def main(name="kv"):
    domain, store = tombolo.attach(), Store()
    with kv.KvServer.export(domain, name) as listener:
        print(f"serving {name} on {domain.node_name}", flush=True)
        while True:
            try:
                server = kv.KvServer(listener.accept(timeout=60), store)
            except tombolo.TimedOut:
                continue
            threading.Thread(target=server.serve, daemon=True).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
