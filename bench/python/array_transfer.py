#!/usr/bin/env python3
"""What it takes in Python until another program has an array, and to hear that it has.

    python bench/python/array_transfer.py [--mebibytes N] [--rounds N] [--runs N] [--json FILE]

An array of numpy's that lies anywhere is copied once, into a buffer of a pool, into `multiprocessing.shared_memory` or into Ray's
store; one that was made in there is not copied (in Ray's it was put before the clock runs, for it is only read there). The other
program looks at its first byte and its last and answers. Through `multiprocessing.Pipe`, which comes with Python too, the kernel
copies it twice. Both sides of Tombolo's channel spin while they wait; those of a pipe and of Ray sleep, for they cannot do
otherwise. The first row is one copy within this program, which no other can be faster than.

All of them run one after the other, and all of that several times: a figure is the median of the runs, with the least and the most
of them. Without numpy the array is a bytearray. What is not installed is said to be so. `make bench-python` installs all but Ray,
and with RAY=1 that too.
"""

import argparse
import importlib
import json
import multiprocessing
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time
from multiprocessing import shared_memory

import tombolo

# Seconds. As long as any answer takes when others want the processor, too.
SPIN = 0.01
BUFFERS = 2
#: What one copy should reach, in GB/s, and what none may take, in microseconds.
TARGET_RATE, TARGET_US = 25.0, 10.0


def optional(name):
    """Imports a module; None if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


numpy = optional("numpy")


def create_array(length):
    """Creates an array in private memory, with all pages touched."""
    return bytearray(length) if numpy is None else numpy.zeros(length, "uint8") + numpy.uint8(0)


def copy_into(target, array):
    """Copies an array into a view."""
    if numpy is None:
        target[:] = array
    else:
        numpy.copyto(numpy.frombuffer(target, "uint8"), array)


def has_marks(view, number):
    """Whether the first and last byte of the view are the number."""
    return view[0] == number and view[-1] == number


def set_marks(view, number):
    """Sets the first and last byte of the view to the number."""
    view[0] = view[-1] = number


def as_array(buffer):
    """Returns the buffer as a numpy array, or as a memoryview without numpy."""
    return memoryview(buffer) if numpy is None else buffer.array("uint8", (len(buffer),))


def run_buffer_peer(name):
    """The other program: checks every buffer and passes it back, until the first program is gone."""
    with tombolo.attach().connect_bulk(name, timeout=60, spin=SPIN) as bulk:
        bulk.recv_pool(60)
        try:
            while True:
                arrival = bulk.recv(60)
                view = as_array(arrival.buffer)
                right = has_marks(view, arrival.metadata[0])
                # A buffer with a view cannot be passed.
                del view
                bulk.pass_to(arrival.buffer, b"\1" if right else b"\0")
        except (tombolo.Closed, tombolo.PeerDied):
            pass


def run_memory_peer(pipe, other, name):
    """The same for shared memory; a copy of the first one's end would keep the pipe open."""
    other.close()
    memory = shared_memory.SharedMemory(name)
    try:
        while True:
            pipe.send_bytes(b"\1" if has_marks(memory.buf, pipe.recv_bytes()[0]) else b"\0")
    except (EOFError, OSError):
        memory.close()


def run_pipe_peer(pipe, other):
    """The same for bytes through the pipe."""
    other.close()
    try:
        while True:
            data = pipe.recv_bytes()
            pipe.send_bytes(b"\1" if data[0] == data[-1] else b"\0")
    except (EOFError, OSError):
        pass


def measure(run, rounds):
    """Measures a transfer and its answer, in nanoseconds."""
    times = []
    for number in range(-rounds // 10 - 1, rounds):
        start = time.perf_counter_ns()
        answer = run(number & 0xFF)
        elapsed_ns = time.perf_counter_ns() - start
        if bytes(answer) != b"\1":
            raise SystemExit("the other program saw something else than was sent")
        if number >= 0:
            times.append(elapsed_ns)
    times.sort()
    return {"p50": times[rounds // 2], "p99": times[rounds * 99 // 100], "mean": round(sum(times) / rounds, 1)}


def measure_pool(length, rounds):
    """Measures buffers of a pool."""
    name = f"array-{os.getpid()}"
    domain = tombolo.attach()
    listener = domain.export_bulk(name, spin=SPIN)
    other = subprocess.Popen([sys.executable, __file__, "--take", name])
    try:
        with listener.accept_bulk(60) as bulk:
            pool = domain.create_pool(length, BUFFERS)
            bulk.assign(pool, 60)
            array = create_array(length)

            def move(buffer, number):
                bulk.move_to(buffer, bytes([number]))
                return bulk.recv(60).metadata

            def copy_and_send(number):
                set_marks(array, number)
                return move(pool.copy(array), number)

            def fill_in_place(number):
                buffer = pool.take()
                view = as_array(buffer)
                set_marks(view, number)
                del view
                return move(buffer, number)

            return {"one copy": measure(copy_and_send, rounds), "no copy": measure(fill_in_place, rounds)}
    finally:
        other.kill()
        other.wait()


def measure_shared_memory(length, rounds):
    """Measures Python's shared memory, with notifications through a pipe."""
    memory = shared_memory.SharedMemory(create=True, size=length)
    here, there = multiprocessing.Pipe()
    other = multiprocessing.Process(target=run_memory_peer, args=(there, here, memory.name), daemon=True)
    other.start()
    there.close()
    array = create_array(length)

    def notify(number):
        here.send_bytes(bytes([number]))
        return here.recv_bytes()

    def copy_and_send(number):
        set_marks(array, number)
        copy_into(memory.buf[:length], array)
        return notify(number)

    def fill_in_place(number):
        set_marks(memory.buf, number)
        return notify(number)

    try:
        return {"one copy": measure(copy_and_send, rounds), "no copy": measure(fill_in_place, rounds)}
    finally:
        here.close()
        other.join(10)
        memory.close()
        memory.unlink()


def measure_ray(length, rounds):
    """Measures Ray's object store, with an actor as receiver."""
    ray = optional("ray")
    if ray is None or numpy is None:
        return "not installed" if ray is None else "needs numpy"
    ray.init(
        num_cpus=1,
        include_dashboard=False,
        logging_level="error",
        log_to_driver=False,
        object_store_memory=max(16 * length, 256 << 20),
    )

    @ray.remote
    class Receiver:
        """The other program."""

        def check(self, array, number):
            return b"\1" if array[0] == number and array[-1] == number else b"\0"

    try:
        receiver = Receiver.remote()
        array = create_array(length)

        def copy_and_send(number):
            set_marks(array, number)
            return ray.get(receiver.check.remote(ray.put(array), number))

        set_marks(array, 7)
        there = ray.put(array)
        rounds = max(rounds // 10, 1)
        return {
            "one copy": measure(copy_and_send, rounds),
            "no copy": measure(lambda _: ray.get(receiver.check.remote(there, 7)), rounds),
        }
    finally:
        ray.shutdown()


def measure_local_copy(length, rounds):
    """Measures one copy within this program."""
    source, target = create_array(length), create_array(length)

    def copy(number):
        set_marks(source, number)
        copy_into(memoryview(target), source)
        return b"\1" if has_marks(target, number) else b"\0"

    return {"one copy": measure(copy, rounds)}


def measure_pipe(length, rounds):
    """Measures arrays through a pipe."""
    here, there = multiprocessing.Pipe()
    other = multiprocessing.Process(target=run_pipe_peer, args=(there, here), daemon=True)
    other.start()
    there.close()
    array = create_array(length)

    def send_array(number):
        set_marks(array, number)
        here.send_bytes(array)
        return here.recv_bytes()

    try:
        return {"through the kernel": measure(send_array, max(rounds // 10, 1))}
    finally:
        here.close()
        other.join(10)


PEERS = {
    "this program alone": measure_local_copy,
    "Tombolo pool": measure_pool,
    "multiprocessing.shared_memory": measure_shared_memory,
    "multiprocessing.Pipe": measure_pipe,
    "Ray": measure_ray,
}


def summarize_runs(figures):
    """Returns the median of each figure of several runs, and the least and largest p50; or the reason why there are none."""
    if isinstance(figures[0], str):
        return figures[0]
    rows = {}
    for what in figures[0]:
        row = {key: statistics.median(run[what][key] for run in figures) for key in figures[0][what]}
        p50s = [run[what]["p50"] for run in figures]
        rows[what] = {**row, "least": min(p50s), "most": max(p50s)}
    return rows


def print_table(figures, length):
    """Prints the table and the targets."""
    print(f"{'':<32}{'':<20}{'p50 us':>10}{'least':>10}{'most':>10}{'p99 us':>10}{'GB/s':>8}")
    for peer, rows in figures.items():
        if isinstance(rows, str):
            print(f"{peer:<32}{rows}")
            continue
        for what, row in rows.items():
            times = "".join(f"{row[key] / 1000:>10.1f}" for key in ("p50", "least", "most", "p99"))
            # Nothing is carried that is not copied.
            rate = "-" if what == "no copy" else f"{length / row['p50']:.1f}"
            print(f"{peer:<32}{what:<20}{times}{rate:>8}")
    for target in targets(figures, length):
        print(f"aim: {target['aim']}: {target['value']:.1f}, {'met' if target['met'] else 'missed'}")


def targets(figures, length):
    """Returns Tombolo's targets for 16 MiB, and whether they are met."""
    pool = figures["Tombolo pool"]
    rate, elapsed_us = length / pool["one copy"]["p50"], pool["no copy"]["p50"] / 1000
    return [
        {"aim": f"one copy, at least {TARGET_RATE:g} GB/s", "value": round(rate, 2), "met": rate >= TARGET_RATE},
        {"aim": f"no copy, at most {TARGET_US:g} us", "value": round(elapsed_us, 2), "met": elapsed_us <= TARGET_US},
    ]


def main():
    """Measures and prints the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mebibytes", type=int, default=16, help="length of the array (16)")
    parser.add_argument("--rounds", type=int, default=300, help="transfers of each kind; of pipe and Ray a tenth (300)")
    parser.add_argument("--runs", type=int, default=7, help="how often all of it is done, for medians (7)")
    parser.add_argument("--json", metavar="FILE", help="write the figures there as well, in nanoseconds; - is standard output")
    parser.add_argument("--take", metavar="NAME", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.take:
        return run_buffer_peer(options.take)
    if options.rounds < 1 or options.runs < 1 or not 1 <= options.mebibytes <= 1024:
        parser.error("--rounds, --runs: at least 1; --mebibytes: 1 to 1024")
    length, rounds = options.mebibytes << 20, options.rounds
    runs = []
    for run in range(options.runs):
        print(f"run {run + 1} of {options.runs}", file=sys.stderr)
        runs.append({name: peer(length, rounds) for name, peer in PEERS.items()})
    figures = {name: summarize_runs([run[name] for run in runs]) for name in PEERS}
    versions = {name: getattr(optional(name), "__version__", None) for name in ("numpy", "ray")}
    about = {"python": platform.python_version(), **versions, "bytes": length, "rounds": rounds, "runs": options.runs}
    whole = {"about": about, "latency_ns": figures, "aims": targets(figures, length)}
    if options.json == "-":
        print(json.dumps(whole, indent=2))
        return
    kind = "bytearray" if numpy is None else f"array of numpy {numpy.__version__}"
    print(f"{options.mebibytes} MiB, {kind}, there, and the answer back; medians of {options.runs} runs")
    print_table(figures, length)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(whole, indent=2) + "\n")


if __name__ == "__main__":
    main()
