"""Typed interfaces in Python, as ``testing/e2e/src/bin/actor/typed`` does in Rust: each serves and calls each.

``typed.py serve NAME CLIENTS [PLAIN] | typed.py call WINDOW NAME...``: the same words, channels and lines as the programs in Rust and C.
"""

from __future__ import annotations

import dataclasses
import math
import os
import struct
import sys
import time

import passing
import tombolo

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
PATIENCE = 100.0
#: Timeout for the next client, which calls other servers first and may be an emulated interpreter.
NEXT_CLIENT = 1000.0


def _stubs(stem: str):
    return tombolo.load_interface(os.path.join(ROOT, "interfaces", f"{stem}.tbl"))


everything, growth, before, rights = (_stubs(stem) for stem in ("everything", "growth", "growth_before", "rights"))
NAMES = ["ä", "", "𝄞𝄞"]
MASK = (1 << 64) - 1


def expect(what, actual, expected):
    """Exits the program if the peer did not send the expected value."""
    if actual != expected:
        raise SystemExit(f"{what}: {actual!r}, not {expected!r}")


class Digest:
    """FNV-1a hash of values."""

    def __init__(self):
        self.value = 0xCBF29CE484222325

    def _bytes(self, data):
        for byte in data:
            self.value = (self.value ^ byte) * 0x100000001B3 & MASK

    def word(self, word):
        self._bytes((int(word) & MASK).to_bytes(8, "little"))

    def blob(self, data):
        self.word(len(data))
        self._bytes(data)

    def text(self, text):
        self.blob(text.encode())

    def list(self, items, each):
        self.word(len(items))
        for item in items:
            each(item)

    def maybe(self, value, each):
        self.word(value is not None)
        if value is not None:
            each(value)

    def point(self, point):
        for number in (point.x, point.y):
            self.word(struct.unpack("<I", struct.pack("<f", number))[0])
        self.word(point.tag)

    def entry(self, entry):
        self.text(entry.name)
        self.list(entry.points, self.point)
        self.maybe(entry.colour, self.word)

    def shape(self, shape):
        if isinstance(shape, everything.ShapeNothing):
            self.word(1)
        elif isinstance(shape, everything.ShapeNumber):
            self.word(2)
            self.word(shape.value)
        elif isinstance(shape, everything.ShapePoint):
            self.word(3)
            self.point(shape.value)
        elif isinstance(shape, everything.ShapeEntry):
            self.word(4)
            self.entry(shape.value)
        elif isinstance(shape, everything.ShapeNames):
            self.word(5)
            self.list(shape.value, self.text)
        else:
            self.word(shape.ordinal)

    def parts(self, **parts):
        self.text(parts["text"])
        self.blob(parts["blob"])
        self.list(parts["numbers"], self.word)
        for number in parts["fixed"]:
            self.word(number)
        self.list(parts["flags"], self.word)
        self.entry(parts["entry"])
        self.list(parts["entries"], self.entry)
        self.shape(parts["shape"])
        self.list(parts["shapes"], self.shape)
        self.maybe(parts["maybe"], self.word)
        self.maybe(parts["maybe_text"], self.text)
        self.maybe(parts["maybe_point"], self.point)
        self.maybe(parts["maybe_entry"], self.entry)
        for row in parts["matrix"]:
            for number in row:
                self.word(number)
        self.list(parts["nested"], lambda inner: self.list(inner, self.word))


def digest(kind, value):
    """Returns the digest of one value."""
    result = Digest()
    getattr(result, kind)(value)
    return result.value


class Mirror(everything.EverythingHandler):
    """Returns the arguments of calls."""

    def numbers(self, *values):
        return everything.EverythingNumbersReply(*values)

    def parts(self, text, blob, numbers, fixed, flags, entry, entries, shape, shapes, maybe, maybe_text, maybe_point, maybe_entry, matrix, nested):
        if text == "refused":
            raise everything.FailureDeclined(everything.FailureRefused())
        if text == "retry":
            raise everything.FailureDeclined(everything.FailureRetry(0xFFFFFFFF))
        if text == "because":
            raise everything.FailureDeclined(everything.FailureBecause("größte Insel: 島"))
        values = dict(locals())
        del values["self"]
        result = Digest()
        result.parts(**values)
        maybe_shape = shape
        if isinstance(shape, everything.ShapeNothing):
            maybe_shape = None
        elif isinstance(shape, everything.ShapeNames):
            maybe_shape = everything.ShapeNames(NAMES)
        return everything.EverythingPartsReply(entry, everything.ShapeNumber(result.value), maybe_shape)

    def null(self):
        return None

    def poke(self):
        tombolo.current_server().drawn(everything.ShapeNames(NAMES), timeout=PATIENCE)


class Now(growth.GrowthHandler):
    """Serves the current version of the interface."""

    def look(self, note, detail):
        thing = growth.ThingNumber(4) if detail else growth.ThingName("name")
        answered = growth.Note(note.text, note.mood, ["a", "ü"], note.due)
        return growth.GrowthLookReply(answered, thing, growth.Stamp(0x0102030405060708, 0x0102), len(note.tags))

    def number(self):
        return growth.GrowthNumberReply(5)

    def forget(self, id, why):
        if id == 3 and why in ("", "old"):
            server = tombolo.current_server()
            server.news(timeout=PATIENCE)
            server.seen(8, "somebody", timeout=PATIENCE)


class Before(before.GrowthHandler):
    """Serves the previous version of the interface."""

    def look(self, note):
        stamp = before.Stamp(0x0102030405060708, 0x0102)
        return before.GrowthLookReply(before.Note(note.text), before.ThingNumber(4), stamp)

    def forget(self, id):
        if id == 3:
            tombolo.current_server().seen(8, timeout=PATIENCE)


def serve(name, clients, plain):
    """Serves `clients` clients, one after the other; each opens the same channels in the same order.

    The last `plain` clients pass neither rights nor buffers."""
    domain = tombolo.attach()
    parts = (
        (everything.EverythingServer, Mirror, "everything"),
        (growth.GrowthServer, Now, "now"),
        (before.GrowthServer, Before, "before"),
        (rights.RightsServer, None, "rights"),
        (rights.BuffersServer, None, "buffers"),
    )
    listeners = [server.export(domain, f"{name}-{part}") for server, _, part in parts]
    print("serving", name, flush=True)
    for client in range(clients):
        for number in (0, 1, 2, 1, 2):
            server, handler, _ = parts[number]
            with server(listeners[number].accept(NEXT_CLIENT), handler()) as serving:
                serving.serve()
                counts = serving.counts
                expect("messages that were refused", counts["malformed"], 0)
                if number == 0:
                    expect("messages that were unknown", counts["unknown"], 0)
        if client + plain < clients:
            passing.serve(rights, domain, listeners[3].accept(PATIENCE))
            passing.serve_buffers(rights, domain, listeners[4].accept(PATIENCE))
    for listener in listeners:
        listener.close()
    print("served", clients, "clients")


class RecordedEvents:
    """Records the events that a client receives."""

    def __init__(self):
        self.received = []

    def drawn(self, shape):
        self.received.append(digest("shape", shape))

    def news(self):
        pass

    def seen(self, *values):
        self.received.append(values)

    def wait(self, client):
        """Polls until an event has been received."""
        end = time.monotonic() + PATIENCE
        while not self.received and time.monotonic() < end:
            client.poll()
            time.sleep(0.001)
        return self.received


def all_numbers():
    """Numbers at their limits."""
    colour, step, rights, hints = everything.Colour, everything.Step, everything.Rights, everything.Hints
    largest = struct.unpack("<f", struct.pack("<I", 0x7F7FFFFF))[0]
    everyone = rights.READ | rights.WRITE | rights.GRANT
    return [
        (True, 255, 65535, 2**32 - 1, MASK, 127, 2**15 - 1, 2**31 - 1, 2**63 - 1, largest, math.inf, colour.GREEN, 2**15 - 1, everyone, MASK, MASK),
        (False, 1, 0x0102, 0x01020304, 0x0102030405060708, -128, -(2**15), -(2**31), -(2**63), -0.0, sys.float_info.min, colour.RED, step.BACK, rights.WRITE, hints.FAR, 1),
        (False, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, colour.NONE, step.STAY, rights(0), hints(0), 0),
    ]


def all_parts():
    """Messages with every type: empty, at their limits, and with each shape."""
    point, entry = everything.Point, everything.Entry
    largest = struct.unpack("<f", struct.pack("<I", 0x7F7FFFFF))[0]
    points = [point(1.5, -2.0, 7), point(-largest, largest, 255)]
    whole = entry("島島島島島x", points + points, everything.Colour.GREEN)
    small = entry("", [])
    full = dict(
        text="🏝🏝🏝🏝🏝🏝🏝🏝",
        blob=b"\xff" * 32,
        numbers=[0, 1, 65535, 0x0102, 5, 6, 7, 8],
        fixed=[-(2**31), -1, 2**31 - 1],
        flags=[True, False, True, True, False, True, False, False, True],
        entry=whole,
        entries=[whole, small, whole],
        shape=everything.ShapeEntry(whole),
        shapes=[everything.ShapeNumber(MASK), everything.ShapeNames(NAMES), everything.ShapePoint(points[0])],
        maybe=MASK,
        maybe_text="12345678",
        maybe_point=points[1],
        maybe_entry=small,
        matrix=[[1, 2], (3, 4), bytes([5, 255])],
        nested=[[1, 2**32 - 1], [], [0x01020304]],
    )
    empty = dict(
        text="",
        blob=bytearray(),
        numbers=(),
        fixed=(0, 0, 0),
        flags=[],
        entry=small,
        entries=[],
        shape=everything.ShapeNothing(),
        shapes=[],
        maybe=None,
        maybe_text=None,
        maybe_point=None,
        maybe_entry=None,
        matrix=[b"\0\0"] * 3,
        nested=[],
    )
    return [
        full,
        {**full, "shape": everything.ShapeNumber(0x0102030405060708)},
        {**empty, "shape": everything.ShapePoint(points[1]), "maybe": 0},
        {**empty, "shape": everything.ShapeNames([]), "maybe_text": ""},
        empty,
    ]


def call_parts(client, parts):
    reply = client.parts(**parts, timeout=PATIENCE)
    sent = Digest()
    sent.parts(**parts)
    expect("entry", reply.entry, parts["entry"])
    expect("shape", reply.shape, everything.ShapeNumber(sent.value))
    shape = parts["shape"]
    if isinstance(shape, everything.ShapeNothing):
        shape = None
    elif isinstance(shape, everything.ShapeNames):
        shape = everything.ShapeNames(NAMES)
    expect("maybe_shape", reply.maybe_shape, shape)


def call_everything(domain, name):
    events = RecordedEvents()
    with everything.EverythingClient.connect(domain, name, events=events, connect_timeout=PATIENCE, timeout=PATIENCE) as client:
        for values in all_numbers():
            got = client.numbers(*values)
            expect("numbers", [str(value) for value in dataclasses.astuple(got)], [str(value) for value in values])
        expect("null", client.null(), None)
        cases = all_parts()
        for parts in cases:
            call_parts(client, parts)
        empty = cases[-1]
        for changed, allowed in (
            ({"text": "x" * 31}, True),
            ({"text": "x" * 32}, True),
            ({"text": "x" * 33}, False),
            ({"text": "é" * 16}, True),
            ({"text": "é" * 17}, False),
            ({"numbers": [7] * 7}, True),
            ({"numbers": [7] * 8}, True),
            ({"numbers": [7] * 9}, False),
        ):
            try:
                call_parts(client, {**empty, **changed})
            except tombolo.OverLimit:
                expect("within limits", False, allowed)
            else:
                expect("over a limit", True, allowed)
        declined = []
        for text in ("refused", "retry", "because"):
            try:
                client.parts(**{**empty, "text": text})
            except everything.FailureDeclined as error:
                declined.append(error.error)
        because = everything.FailureBecause("größte Insel: 島")
        expect("declined", declined, [everything.FailureRefused(), everything.FailureRetry(0xFFFFFFFF), because])
        client.poke()
        expect("what was drawn", events.wait(client), [digest("shape", everything.ShapeNames(NAMES))])


def call_as_now(domain, name, now):
    events = RecordedEvents()
    with growth.GrowthClient.connect(domain, name, events=events, connect_timeout=PATIENCE, timeout=PATIENCE) as client:
        reply = client.look(growth.Note("größte Insel: 島", 77, ["x"] * 4, 1), True)
        expect("thing", reply.thing, growth.ThingNumber(4))
        expect("stamp", reply.stamp, growth.Stamp(0x0102030405060708, 0x0102))
        # Fields that an older server does not send are zero or absent.
        grown = (77, ["a", "ü"], 1, 4) if now else (0, [], None, None)
        got = (reply.note.mood, reply.note.tags, reply.note.due, reply.count)
        expect("look, now", (reply.note.text, got), ("größte Insel: 島", grown))
        try:
            expect("number", (client.number().id, now), (5, True))
        except tombolo.UnknownCall:
            expect("number", now, False)
        client.poke()
        client.forget(3, "old")
        expect("told", events.wait(client), [(8, "somebody" if now else "")])


def call_as_before(domain, name, now):
    events = RecordedEvents()
    with before.GrowthClient.connect(domain, name, events=events, connect_timeout=PATIENCE, timeout=PATIENCE) as client:
        reply = client.look(before.Note("hello"))
        thing = tombolo.UnknownCase(2) if now else before.ThingNumber(4)
        expect("look, before", (reply.note.text, reply.thing, reply.stamp.node), ("hello", thing, 0x0102))
        client.forget(3)
        expect("told", events.wait(client), [(8,)])
        # The previous version has no event `news`.
        expect("unknown events", client.counts["unknown"], int(now))


def call(window, names):
    """Calls each of the servers. Rights are to memory in the window of node `window`.

    A server called ``plain:NAME`` gets neither rights nor buffers."""
    domain = tombolo.attach()
    for word in names:
        name = word[len("plain:") :] if word.startswith("plain:") else word
        call_everything(domain, f"{name}-everything")
        call_as_now(domain, f"{name}-now", True)
        call_as_now(domain, f"{name}-before", False)
        call_as_before(domain, f"{name}-now", True)
        call_as_before(domain, f"{name}-before", False)
        if name == word:
            passing.call(rights, domain, f"{name}-rights", window)
            passing.call_buffers(rights, domain, f"{name}-buffers", window)
        print("understood", name, flush=True)


if __name__ == "__main__":
    if len(sys.argv) in (4, 5) and sys.argv[1] == "serve":
        serve(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) == 5 else 0)
    elif len(sys.argv) > 3 and sys.argv[1] == "call":
        call(None if sys.argv[2] == "-" else sys.argv[2], sys.argv[3:])
    else:
        raise SystemExit("usage: typed.py serve NAME CLIENTS [PLAIN] | typed.py call WINDOW NAME...")
