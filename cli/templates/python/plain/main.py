"""Two programs send a message back and forth: `tombolo run --on host:2 PYTHON main.py`"""

import os
import statistics
import sys
import time

import tombolo

ROUNDS = 10_000
PATIENCE = 30


def measure(domain, name):
    """Rank 0 takes up the name, waits for the other to connect, and measures."""
    with domain.export(name) as listener, listener.accept(PATIENCE) as channel:
        times_us = []
        for number in range(ROUNDS):
            message = number.to_bytes(4, "little")
            start = time.perf_counter()
            channel.send(message, PATIENCE)
            received = channel.receive(PATIENCE)
            times_us.append((time.perf_counter() - start) * 1e6)
            assert received == message
        median_us = statistics.median(times_us)
        print(f"{domain.node_name} -> {channel.peer_node}: {ROUNDS} round trips, median {median_us:.2f} us")


def return_all(domain, name):
    """Rank 1 connects, and returns every message until rank 0 closes the channel."""
    with domain.connect(name, timeout=PATIENCE) as channel:
        while True:
            try:
                channel.send(channel.receive(PATIENCE), PATIENCE)
            except tombolo.Closed:
                return


def main():
    # What `tombolo run` tells each domain: its number, how many there are, a prefix for names of its own job.
    rank, size, job = (os.environ.get(f"TOMBOLO_{it}") for it in ("RANK", "SIZE", "JOB"))
    if size != "2":
        sys.exit("@name@: start two of me: tombolo run --on host:2 PYTHON main.py, with the path of python3")
    (measure if rank == "0" else return_all)(tombolo.attach(), f"{job}/ping")


if __name__ == "__main__":
    main()
