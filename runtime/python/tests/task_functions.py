"""``task_functions.py ON FIFO [WORKER …]``: tasks of programs in several languages. It does what ``actor tasks`` and
``testing/e2e/c/tasks.c`` do: as a worker it has the functions of all three, and as a starter it prints the same lines."""

import asyncio
import os
import sys

import tombolo
from support import PATIENCE
from tombolo import hubs
from tombolo.tasks import Function, Functions, Tasks

VALUES = 10

functions = Functions()


@functions.register("square", "u64", "u64")
def square(context, number):
    return number * number


@functions.register("describe", "(u64, text)", "(text,u64)")
async def describe(context, argument):
    number, text = argument
    return f"python {context.node_name} {text}", number * 2


@functions.register("fails", "text", "unit")
async def fails(context, text):
    raise ValueError(text)


@functions.register("forever")
async def forever(context, _):
    while True:
        await asyncio.sleep(0)


@functions.register("send", "(text, u64)", "u64")
async def send(context, argument):
    fifo, count = argument
    chan = await context.hubs.chan(fifo, "u64")
    for value in range(1, count + 1):
        await chan.send(value)
    return count


@functions.register("nested", "u64", "u64")
async def nested(context, count):
    return sum([await task for task in [context.go(square, number) for number in range(count)]])


@functions.register("die")
async def die(context, _):
    os.abort()


def print_end(what, task):
    try:
        result = task.join(PATIENCE)
    except tombolo.Error as error:
        print(f"{what}: {error}", flush=True)
        return type(error)
    sys.exit(f"{what}: it has a result, {result!r}")


def expect(kind, function, *arguments):
    try:
        function(*arguments)
    except kind:
        return
    sys.exit(f"{function!r} of {arguments!r} is not refused with {kind!r}")


def start(on, fifo, worker):
    domain = tombolo.attach()
    expect(tombolo.NoSuchNode, Tasks, domain, "mars")
    with Tasks(domain, on, worker or None) as tasks:
        print("square", tasks.go(square, 7).join(PATIENCE))
        print("described", *tasks.go(describe, (7, "hällo")).join(PATIENCE))
        cancelled = tasks.go(forever)
        expect(tombolo.TimedOut, cancelled.join, 0.1)
        cancelled.cancel()
        assert print_end("cancelled", cancelled) is tombolo.TaskCancelled
        assert print_end("unknown", tasks.go(Function("square", "u8", "u8"), 7)) is tombolo.TaskRefused
        expect(tombolo.TaskRefused, tasks.go, square, "seven")
        expect(tombolo.NoSuchNode, tasks.go, square, 7, "mars")
        chan = hubs.Task(domain).chan(fifo, "u64")
        senders = [tasks.go(send, (fifo, VALUES)) for _ in range(2)]
        total = sum(chan.recv(PATIENCE) for _ in range(2 * VALUES))
        print("sum", total, "of", sum(sender.join(PATIENCE) for sender in senders))
        print("nested", tasks.go(nested, 10).join(PATIENCE))
        assert print_end("failed", tasks.go(fails, "on purpose")) is tombolo.TaskFailed
        assert print_end("lost", tasks.go(die)) is tombolo.TaskLost
        print("again", asyncio.run(tasks.go(square, 10).ended(PATIENCE)), flush=True)


if __name__ == "__main__":
    functions.run_worker()
    start(sys.argv[1], sys.argv[2], sys.argv[3:])
