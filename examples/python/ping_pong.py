"""The least ping-pong: `tombolo run --on host:2 PYTHON ping_pong.py`"""

import tombolo

job = tombolo.attach().job()
if job.rank == 0:
    channel = job.channel_to(1)
    channel.send(b"ping")
    print(channel.peer_node, "said", channel.receive().decode())
else:
    channel = job.channel_to(0)
    channel.receive()
    channel.send(b"pong")
