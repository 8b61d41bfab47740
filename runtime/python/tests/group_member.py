"""``group_member.py NAME PARTIES COUNT per-source|total``: a member of a group of programs in several languages. It does what ``actor
group`` does, and prints the same lines: ``member ID``, ``left ID DIED``, and at the end for each source ``took ID COUNT HASH``, or
with a total order ``took all COUNT HASH``."""

import os
import signal
import sys

import tombolo
from support import PATIENCE
from tombolo.groups import Group, Joined, Left

LAST_WORDS = 40


def message(number):
    """Returns the message with a number: the number and bytes derived from it. Every seventh has several chunks."""
    length = 3000 if number % 7 == 0 else 8 + number % 90
    return number.to_bytes(8, "little") + bytes([number & 0xFF]) * (length - 8)


class Audience:
    """Received messages of each source, and members that joined or died."""

    def __init__(self, total):
        self.total = total
        self.joined = self.died = 0
        self.last = {}
        self.took = {}

    def take(self, event):
        if isinstance(event, Joined):
            self.joined += 1
        elif isinstance(event, Left):
            print("left", event.member, str(event.died).lower(), flush=True)
            self.died += event.died
        else:
            number = self.last.get(event.source, 0) + 1
            if event.data != message(number):
                sys.exit(f"message {number} of {event.source} is another")
            self.last[event.source] = number
            key = "all" if self.total else event.source
            count, value = self.took.get(key, (0, 0xCBF29CE484222325))
            for byte in event.source.to_bytes(8, "little") + event.data:
                value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
            self.took[key] = (count + 1, value)


def main(name, parties, count, order):
    parties, count = int(parties), int(count)
    audience = Audience(order == "total")
    # In a chain each member but the last is an inner one.
    group = Group.join(
        tombolo.attach(),
        name,
        fan_out=1,
        chunk_bytes=1024,
        buffers=1,
        window_chunks=8,
        total_order=audience.total,
        timeout=PATIENCE,
    )
    with group:
        print("member", group.id, flush=True)
        while audience.joined < parties:
            audience.take(group.recv(PATIENCE))
        for number in range(1, (count or LAST_WORDS) + 1):
            group.broadcast(message(number), PATIENCE)
            event = group.try_recv()
            while event is not None:
                audience.take(event)
                event = group.try_recv()
        if count == 0:
            os.kill(os.getpid(), signal.SIGKILL)

        def is_complete():
            done = sum(last == count for member, last in audience.last.items() if member != group.id)
            own = not audience.total or audience.last.get(group.id) == count
            return audience.died > 0 and done >= parties - 2 and own

        while not is_complete():
            audience.take(group.recv(PATIENCE))
        group.flush(PATIENCE)
        for source, (number, value) in audience.took.items():
            print("took", source, number, f"{value:016x}", flush=True)


main(*sys.argv[1:])
