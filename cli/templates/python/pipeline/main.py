"""Buffers go through three programs, and none of them is copied: `tombolo run --on host:3 PYTHON main.py`"""

import sys

import tombolo

BUFFER_BYTES = 65_536
BUFFERS = 4
ROUNDS = 200
DOUBLED = bytes(byte * 2 % 256 for byte in range(256))


def expect(bulk, kind):
    """What the other side does next, which has to be of that kind."""
    arrival = bulk.recv()
    if arrival.kind != kind:
        sys.exit(f"@name@: something else came: {arrival.kind}")
    return arrival


def take_back(bulk, pool):
    """A buffer that comes back, to be used again."""
    expect(bulk, "passed")
    return pool.take()


def source(domain, stage):
    """Rank 0 has the buffers: it fills what is free and moves it on."""
    with domain.connect_bulk(stage) as following:
        pool = domain.create_pool(BUFFER_BYTES, BUFFERS)
        following.assign(pool)
        for number in range(ROUNDS):
            buffer = pool.take() if number < BUFFERS else take_back(following, pool)
            buffer.write(bytes([number % 256]) * BUFFER_BYTES)
            following.move_to(buffer, bytes([number % 256]))
        # When all buffers are back, all have been seen.
        for _ in range(BUFFERS):
            expect(following, "passed")
    print(f"{BUFFERS} buffers of {BUFFER_BYTES} bytes went round {ROUNDS} times")


def stage(domain, name, sink):
    """Rank 1 changes each buffer where it lies, moves it on, and passes back what the sink is done with."""
    with domain.export_bulk(name) as listener, listener.accept_bulk() as previous:
        pool, ahead = previous.recv_pool(), 0
        with domain.connect_bulk(sink) as following:
            following.assign(pool)
            for number in range(1, ROUNDS + 1):
                arrival = expect(previous, "moved")
                with memoryview(arrival.buffer) as view:
                    view[:] = bytes(view).translate(DOUBLED)
                following.move_to(arrival.buffer, arrival.metadata)
                ahead += 1
                # Half of the buffers may be ahead, so that the source has some to fill; in the end all come
                # back.
                while ahead > (0 if number == ROUNDS else BUFFERS // 2):
                    previous.pass_to(take_back(following, pool), b"free")
                    ahead -= 1
    print(f"{domain.node_name} doubled {ROUNDS} buffers")


def sink(domain, name):
    """Rank 2 looks at every buffer and passes it back."""
    with domain.export_bulk(name) as listener, listener.accept_bulk() as previous:
        previous.recv_pool()
        for number in range(ROUNDS):
            arrival = expect(previous, "moved")
            expected = bytes([number * 2 % 256]) * BUFFER_BYTES
            if arrival.metadata != bytes([number % 256]) or arrival.buffer.read() != expected:
                sys.exit(f"@name@: buffer {number} is not as it should be")
            previous.pass_to(arrival.buffer, b"free")
        print(f"{ROUNDS} buffers came by {previous.peer_node} as they should be")


def main():
    domain = tombolo.attach()
    job = domain.job()
    if job.size != 3:
        sys.exit("@name@: start three of me: tombolo run --on host:3 PYTHON main.py, with the path of python3")
    if job.rank == 0:
        source(domain, job.name("stage"))
    elif job.rank == 1:
        stage(domain, job.name("stage"), job.name("sink"))
    else:
        sink(domain, job.name("sink"))


if __name__ == "__main__":
    main()
