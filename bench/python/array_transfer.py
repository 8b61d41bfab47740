#!/usr/bin/env python3
"""What it takes in Python until another program has an array, and to hear that it has.

    python bench/python/array_transfer.py [--mebibytes N] [--rounds N] [--json FILE]

An array that lies anywhere is copied once, into a buffer of a pool or into `multiprocessing.shared_memory`; one that was made in
there is not copied. The other program looks at its first byte and its last and answers. Through `multiprocessing.Pipe`, which comes
with Python too, the kernel copies it twice. Both sides of Tombolo's channel spin while they wait; those of a pipe sleep, for they
cannot do otherwise.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import platform
import subprocess
import sys
import time
from multiprocessing import shared_memory

import tombolo

# Seconds. As long as any answer takes when others want the processor, too.
SPIN = 0.01
BUFFERS = 2


def ends(view, number):
    """Whether the view begins and ends as it should."""
    return view[0] == number and view[-1] == number


def mark(view, number):
    """Makes it so."""
    view[0] = view[-1] = number


def take_buffers(name):
    """The other program: looks at every buffer and passes it back, until the first program is gone."""
    with tombolo.attach().connect_bulk(name, timeout=60, spin=SPIN) as bulk:
        bulk.recv_pool(60)
        try:
            while True:
                arrival = bulk.recv(60)
                with memoryview(arrival.buffer) as view:
                    right = ends(view, arrival.metadata[0])
                bulk.pass_to(arrival.buffer, b"\1" if right else b"\0")
        except (tombolo.Closed, tombolo.PeerDied):
            pass


def look_at_memory(pipe, other, name):
    """The same for shared memory; a copy of the first one's end would keep the pipe open."""
    other.close()
    memory = shared_memory.SharedMemory(name)
    try:
        while True:
            pipe.send_bytes(b"\1" if ends(memory.buf, pipe.recv_bytes()[0]) else b"\0")
    except (EOFError, OSError):
        memory.close()


def take_bytes(pipe, other):
    """The same for bytes through the pipe."""
    other.close()
    try:
        while True:
            data = pipe.recv_bytes()
            pipe.send_bytes(b"\1" if data[0] == data[-1] else b"\0")
    except (EOFError, OSError):
        pass


def measure(run, rounds):
    """Times of a transfer and its answer, in nanoseconds."""
    times = []
    for number in range(-rounds // 10 - 1, rounds):
        start = time.perf_counter_ns()
        answer = run(number & 0xFF)
        took = time.perf_counter_ns() - start
        if bytes(answer) != b"\1":
            raise SystemExit("the other program saw something else than was sent")
        if number >= 0:
            times.append(took)
    times.sort()
    return {"p50": times[rounds // 2], "p99": times[rounds * 99 // 100], "mean": round(sum(times) / rounds, 1)}


def of_pool(length, rounds):
    """Buffers of a pool."""
    name = f"array-{os.getpid()}"
    domain = tombolo.attach()
    listener = domain.export_bulk(name, spin=SPIN)
    other = subprocess.Popen([sys.executable, __file__, "--take", name])
    try:
        with listener.accept_bulk(60) as bulk:
            pool = domain.create_pool(length, BUFFERS)
            bulk.assign(pool, 60)
            array = bytearray(length)

            def move(buffer, number):
                bulk.move_to(buffer, bytes([number]))
                return bulk.recv(60).metadata

            def copied(number):
                mark(array, number)
                return move(pool.copy(array), number)

            def made_there(number):
                buffer = pool.take()
                with memoryview(buffer) as view:
                    mark(view, number)
                return move(buffer, number)

            return {"one copy": measure(copied, rounds), "no copy": measure(made_there, rounds)}
    finally:
        other.kill()
        other.wait()


def of_shared_memory(length, rounds):
    """Memory of Python's own, and a pipe to tell of it."""
    memory = shared_memory.SharedMemory(create=True, size=length)
    here, there = multiprocessing.Pipe()
    other = multiprocessing.Process(target=look_at_memory, args=(there, here, memory.name), daemon=True)
    other.start()
    there.close()
    array = bytearray(length)

    def tell(number):
        here.send_bytes(bytes([number]))
        return here.recv_bytes()

    def copied(number):
        mark(array, number)
        memory.buf[:length] = array
        return tell(number)

    def made_there(number):
        mark(memory.buf, number)
        return tell(number)

    try:
        return {"one copy": measure(copied, rounds), "no copy": measure(made_there, rounds)}
    finally:
        here.close()
        other.join(10)
        memory.close()
        memory.unlink()


def of_pipe(length, rounds):
    """All of it through a pipe."""
    here, there = multiprocessing.Pipe()
    other = multiprocessing.Process(target=take_bytes, args=(there, here), daemon=True)
    other.start()
    there.close()
    array = bytearray(length)

    def sent(number):
        mark(array, number)
        here.send_bytes(array)
        return here.recv_bytes()

    try:
        return {"through the kernel": measure(sent, max(rounds // 10, 1))}
    finally:
        here.close()
        other.join(10)


def main():
    """Measures, and says what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mebibytes", type=int, default=16, help="length of the array (16)")
    parser.add_argument("--rounds", type=int, default=500, help="transfers of each kind; of the pipe a tenth (500)")
    parser.add_argument("--json", metavar="FILE", help="write the figures there as well, in nanoseconds")
    parser.add_argument("--take", metavar="NAME", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.take:
        return take_buffers(options.take)
    if options.rounds < 1 or not 1 <= options.mebibytes <= 1024:
        parser.error("--rounds: at least 1; --mebibytes: 1 to 1024")
    length, rounds = options.mebibytes << 20, options.rounds
    figures = {
        "Tombolo pool": of_pool(length, rounds),
        "multiprocessing.shared_memory": of_shared_memory(length, rounds),
        "multiprocessing.Pipe": of_pipe(length, rounds),
    }
    print(f"{options.mebibytes} MiB there, and the answer back")
    print(f"{'':<32}{'':<20}{'p50 us':>10}{'p99 us':>10}{'mean us':>10}{'GB/s':>8}")
    for peer, rows in figures.items():
        for what, row in rows.items():
            times = "".join(f"{row[key] / 1000:>10.1f}" for key in ("p50", "p99", "mean"))
            # Nothing is carried that is not copied.
            rate = "-" if what == "no copy" else f"{length / row['p50']:.1f}"
            print(f"{peer:<32}{what:<20}{times}{rate:>8}")
    if options.json:
        about = {"python": platform.python_version(), "bytes": length, "rounds": rounds}
        pathlib.Path(options.json).write_text(json.dumps({"about": about, "latency_ns": figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()
