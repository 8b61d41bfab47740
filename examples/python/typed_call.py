"""The least typed call, over `interfaces/kv.tbl`: `tombolo run --on host:2 PYTHON typed_call.py`"""

import tombolo
from tombolo.interfaces import kv


class Store(kv.KvHandler):
    def get(self, key):
        return kv.KvGetReply(b"sand", 1)


domain = tombolo.attach()
job = domain.job()
if job.rank == 0:
    with kv.KvServer.export(domain, job.name("kv")) as listener:
        kv.KvServer(listener.accept(), Store()).serve()
else:
    client = kv.KvClient.connect(domain, job.name("kv"))
    print(client.get("isle").value)
