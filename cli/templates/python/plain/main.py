"""Two programs send a message back and forth: `tombolo run --on host:2 PYTHON main.py`"""

import statistics
import sys
import time

import tombolo

ROUNDS = 10_000


def measure(domain, channel):
    """Rank 0 sends each message when the one before has come back, and measures."""
    times_us = []
    for number in range(ROUNDS):
        message = number.to_bytes(4, "little")
        start = time.perf_counter()
        channel.send(message)
        received = channel.receive()
        times_us.append((time.perf_counter() - start) * 1e6)
        assert received == message
    median_us = statistics.median(times_us)
    print(f"{domain.node_name} -> {channel.peer_node}: {ROUNDS} round trips, median {median_us:.2f} us")


def return_all(channel):
    """Rank 1 returns every message until rank 0 closes the channel."""
    while True:
        try:
            channel.send(channel.receive())
        except tombolo.Closed:
            return


def main():
    domain = tombolo.attach()
    job = domain.job()
    if job.size != 2:
        sys.exit("@name@: start two of me: tombolo run --on host:2 PYTHON main.py, with the path of python3")
    with job.channel_to(1 - job.rank) as channel:
        if job.rank == 0:
            measure(domain, channel)
        else:
            return_all(channel)


if __name__ == "__main__":
    main()
