"""The least move of a buffer: `tombolo run --on host:2 PYTHON zero_copy.py`"""

import array

import tombolo

job = tombolo.attach().job()
if job.rank == 0:
    bulk = job.bulk_channel_to(1)
    pool = bulk.create_pool(1 << 20, 1)
    frame = pool.take()
    frame.write(array.array("f", [1.5, 2.5, 3.5]))
    bulk.move_to(frame, b"frame 1")
    bulk.recv()
else:
    bulk = job.bulk_channel_to(0)
    arrival = bulk.recv()
    while arrival.kind != "moved":
        arrival = bulk.recv()
    with memoryview(arrival.buffer) as numbers:
        print(arrival.metadata.decode(), sum(numbers.cast("f")))
    bulk.pass_to(arrival.buffer, b"done")
