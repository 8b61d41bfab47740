#!/usr/bin/env python3
"""What a call costs in Python: one there and its answer back, between two programs.

    python bench/python/null_call.py [--calls N] [--json FILE]

Beside the typed calls of Tombolo stands `multiprocessing.Pipe`, which comes with Python. Both sides of the calls spin while
they wait, as they would where latency counts; those of the pipe sleep, for they cannot do otherwise.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

import tombolo

INTERFACE = pathlib.Path(__file__).resolve().parents[2] / "interfaces" / "echo.tbl"
# Seconds. As long as any answer takes when others want the processor, too.
SPIN = 0.01
ROUNDS = 5


def serve(name):
    """The other program: answers until its client is gone."""
    echo = tombolo.load_interface(str(INTERFACE))

    class Echo(echo.EchoHandler):
        def null(self):
            return None

        def echo(self, data):
            return echo.EchoEchoReply(data)

    with echo.EchoServer.export(tombolo.attach(), name, spin=SPIN) as listener:
        echo.EchoServer(listener.accept(60), Echo()).serve()


def run_pipe_server(pipe, other):
    """The other program of the pipe; its copy of the first one's end would keep the pipe open."""
    other.close()
    try:
        while True:
            pipe.send_bytes(pipe.recv_bytes())
    except (EOFError, OSError):
        pass


def measure(call, calls):
    """Measures one call, in nanoseconds: the median of several rounds for each figure."""
    for _ in range(calls // 10 + 1):
        call()
    figures = []
    for _ in range(ROUNDS):
        times = []
        for _ in range(calls):
            start = time.perf_counter_ns()
            call()
            times.append(time.perf_counter_ns() - start)
        times.sort()
        start = time.perf_counter_ns()
        for _ in range(calls):
            call()
        mean = (time.perf_counter_ns() - start) / calls
        figures.append((times[calls // 2], times[calls * 99 // 100], mean))
    p50, p99, mean = (statistics.median(figure) for figure in zip(*figures))
    return {"p50": p50, "p99": p99, "mean": round(mean, 1)}


def measure_tombolo(calls):
    """Measures typed calls."""
    name = f"null-call-{os.getpid()}"
    server = subprocess.Popen([sys.executable, __file__, "--serve", name])
    try:
        echo = tombolo.load_interface(str(INTERFACE))
        with echo.EchoClient.connect(tombolo.attach(), name, timeout=60, spin=SPIN, slots=4096) as client:
            rows = {"null": measure(client.null, calls)}
            for length in (32, 1024, 65536):
                data = bytes(length)
                rows[f"{length} B"] = measure(lambda data=data: client.echo(data), max(calls // 10, 1))
            return rows
    finally:
        server.kill()
        server.wait()


def measure_pipe(calls):
    """Measures the same bytes through Python's pipe; one byte for null, as there is no empty message."""
    here, there = multiprocessing.Pipe()
    server = multiprocessing.Process(target=run_pipe_server, args=(there, here), daemon=True)
    server.start()
    there.close()
    try:
        rows = {}
        for name, length in (("null", 1), ("32 B", 32), ("1024 B", 1024), ("65536 B", 65536)):
            data = bytes(length)

            def call(data=data):
                here.send_bytes(data)
                here.recv_bytes()

            rows[name] = measure(call, max(calls // 10, 1))
        return rows
    finally:
        here.close()
        server.join(10)


def main():
    """Measures and prints the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=20_000, help="in a round of null calls; others a tenth (20000)")
    parser.add_argument("--json", metavar="FILE", help="write the figures there as well, in nanoseconds")
    parser.add_argument("--serve", metavar="NAME", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve)
    if options.calls < 1:
        parser.error("--calls: at least 1")
    figures = {"Tombolo calls": measure_tombolo(options.calls), "multiprocessing.Pipe": measure_pipe(options.calls)}
    print(f"{'':<22}{'':<10}{'p50 us':>10}{'p99 us':>10}{'mean us':>10}")
    for peer, rows in figures.items():
        for what, row in rows.items():
            print(f"{peer:<22}{what:<10}" + "".join(f"{row[key] / 1000:>10.2f}" for key in ("p50", "p99", "mean")))
    if options.json:
        about = {"python": platform.python_version(), "calls": options.calls, "rounds": ROUNDS}
        pathlib.Path(options.json).write_text(json.dumps({"about": about, "latency_ns": figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()
