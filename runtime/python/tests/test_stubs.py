"""Typed interfaces: stubs made at import, clients and servers, and malformed messages."""

import asyncio
import contextlib
import importlib
import logging
import os
import queue
import re
import sys
import tempfile
import threading
import time
import unittest

import passing
import tombolo
from support import PATIENCE, Task, domain, eventually_raises, fresh_name
from tombolo import interfaces

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
interfaces.folders.append(os.path.join(ROOT, "interfaces"))

from tombolo.interfaces import everything, growth, growth_before, kv, rights  # noqa: E402


class Store(kv.KvHandler):
    """Values by name, in memory."""

    def __init__(self):
        self.entries = {}
        self.waiting = {}
        self.failing = None

    def get(self, key):
        if self.failing:
            return self.failing()
        if key not in self.entries:
            raise kv.KvErrorDeclined(kv.KvError.NOT_FOUND)
        return kv.KvGetReply(*self.entries[key])

    def put(self, key, value, expected):
        version = self.entries.get(key, (b"", 0))[1]
        if expected not in (None, version):
            raise kv.KvErrorDeclined(kv.KvError.CONFLICT)
        self.entries[key] = (value, version + 1)
        for waiting in self.waiting.pop(key, []):
            if waiting.is_outstanding:
                waiting.reply(kv.KvAwaitChangeReply(version + 1))
        tombolo.current_server().changed(key, version + 1)
        return kv.KvPutReply(version + 1)

    def list(self, prefix):
        return kv.KvListReply(sorted(key for key in self.entries if key.startswith(prefix)))

    def await_change(self, key):
        later = tombolo.later()
        self.waiting.setdefault(key, []).append(later)
        return later

    def forget(self, key):
        if key == "raise":
            raise KeyError(key)
        self.entries.pop(key, None)


@contextlib.contextmanager
def running_server(server, handler):
    """Runs a server for one client; yields its name, and a list that receives its counts when it has ended."""
    name = fresh_name("served")
    outcome = []

    def serve():
        with listener, server(listener.accept(PATIENCE), handler) as serving:
            serving.serve()
            return serving.counts

    listener = server.export(domain(), name)
    task = Task(serve)
    yield name, outcome
    outcome.append(task.result())


class RecordedEvents(kv.KvEvents):
    """Records the events that it receives."""

    def __init__(self):
        self.received = []

    def changed(self, key, version):
        self.received.append((key, version))


class Blocking(unittest.TestCase):
    def test_calls_events_and_declared_errors(self):
        events = RecordedEvents()
        with running_server(kv.KvServer, Store()) as (name, outcome):
            with kv.KvClient.connect(domain(), name, events=events, timeout=PATIENCE) as client:
                self.assertEqual(client.put("größte Insel: 島", b"\0\xff"), kv.KvPutReply(1))
                self.assertEqual(client.get("größte Insel: 島"), kv.KvGetReply(b"\0\xff", 1))
                with self.assertRaises(kv.KvErrorDeclined) as raised:
                    client.put("größte Insel: 島", b"", 7)
                self.assertIs(raised.exception.error, kv.KvError.CONFLICT)
                self.assertIsInstance(raised.exception, tombolo.Declined)
                client.forget("größte Insel: 島")
                self.assertEqual(client.list("").keys, [])
                self.assertEqual(events.received, [("größte Insel: 島", 1)])
                self.assertEqual(client.counts["messages"], 1)
        self.assertEqual(outcome[0]["malformed"], 0)

    def test_several_calls_are_in_flight(self):
        with running_server(kv.KvServer, Store()) as (name, _):
            with kv.KvClient.connect(domain(), name, timeout=PATIENCE) as client:
                waiting = client.start_await_change("key")
                others = [client.start_get(f"{number}") for number in range(20)]
                self.assertFalse(waiting.is_ready)
                for other in reversed(others):
                    self.assertRaises(kv.KvErrorDeclined, other.wait)
                client.put("key", b"value")
                self.assertEqual(waiting.wait().version, 1)
                self.assertRaises(tombolo.NotInFlight, waiting.wait)
                cancelled_call = client.start_await_change("key")
                cancelled_call.cancel()
                self.assertRaises(tombolo.NotInFlight, cancelled_call.wait)
                client.put("key", b"again")
                self.assertEqual(client.counts["late"], 0)

    def test_calls_in_flight_are_limited(self):
        with running_server(kv.KvServer, Store()) as (name, _):
            # With room for all messages, so that every cancellation is sent.
            with kv.KvClient.connect(domain(), name, timeout=PATIENCE, slots=1024) as client:
                calls = [client.start_await_change("key") for _ in range(256)]
                self.assertRaises(tombolo.InFlight, client.start_await_change, "key")
                for call in calls:
                    call.cancel()
                self.assertEqual(client.list("").keys, [])

    def test_a_deadline_ends_a_call(self):
        with running_server(kv.KvServer, Store()) as (name, _):
            with kv.KvClient.connect(domain(), name, timeout=PATIENCE) as client:
                with self.assertRaises(tombolo.TimedOut):
                    client.await_change("never", timeout=0.01)
                self.assertRaises(tombolo.TimedOut, client.start_await_change("never", timeout=0.0).wait)
                self.assertEqual(client.list("").keys, [])

    def test_calls_fail_when_the_server_ends(self):
        name = fresh_name("mute")
        with kv.KvServer.export(domain(), name) as listener:
            accepting = Task(lambda: listener.accept(PATIENCE))
            client = kv.KvClient.connect(domain(), name, timeout=PATIENCE)
            accepting.result().close()
        for call, may_repeat in ((lambda: client.get("key"), True), (lambda: client.put("key", b""), False)):
            with self.assertRaises(tombolo.Closed) as raised:
                call()
            self.assertIs(raised.exception.may_repeat, may_repeat)
        client.close()

    def test_event_handlers_can_make_calls(self):
        class CallingEvents(kv.KvEvents):
            def changed(self, key, version):
                self.reply = self.client.get(key)

        events = CallingEvents()
        with running_server(kv.KvServer, Store()) as (name, _):
            with kv.KvClient.connect(domain(), name, events=events, timeout=PATIENCE) as events.client:
                events.client.put("key", b"value")
                self.assertEqual(events.reply, kv.KvGetReply(b"value", 1))


class Limits(unittest.TestCase):
    def test_values_around_their_limits(self):
        with running_server(kv.KvServer, Store()) as (name, _):
            with kv.KvClient.connect(domain(), name, timeout=PATIENCE) as client:
                for key, value in (("k" * 63, bytes(2047)), ("k" * 64, bytes(2048)), ("é" * 32, memoryview(b"x"))):
                    version = client.put(key, value).version
                    self.assertEqual(client.get(key), kv.KvGetReply(bytes(value), version))
                for key, value in (("k" * 65, b""), ("é" * 33, b""), ("k", bytes(2049)), ("\ud800", b"")):
                    with self.assertRaises(tombolo.OverLimit):
                        client.put(key, value)
                for expected in (-1, 1 << 64):
                    with self.assertRaises(tombolo.OverLimit):
                        client.put("k", b"", expected)
                for wrong in ((1, b""), ("k", "text"), ("k", b"", 1.5), ("k", 7), ("k", None)):
                    with self.assertRaises(TypeError):
                        client.put(*wrong)
                self.assertEqual(client.counts["calls"], 6)

    def test_integers_enums_and_arrays(self):
        kind = everything._EverythingNumbersRequest
        good = [True, 1, 2, 3, 4, 5, 6, 7, 8, 1.5, 2.5, everything.Colour.RED, 77, 3, 1 << 63, 9]
        places = {1: 256, 2: 1 << 16, 3: 1 << 32, 4: 1 << 64, 5: 128, 6: -(1 << 15) - 1, 7: 1 << 31, 8: 1 << 63, 9: 1e39, 11: 3, 13: 4}
        message = kind.encode(1, 2, tuple(good))
        values = kind.decode(message)[3]
        self.assertEqual(list(values), good)
        self.assertIs(values[11], everything.Colour.RED)
        self.assertEqual(values[13], everything.Rights.READ | everything.Rights.WRITE)
        for place, wrong in places.items():
            with self.assertRaises(tombolo.OverLimit, msg=f"value {place}"):
                kind.encode(1, 2, tuple(good[:place] + [wrong] + good[place + 1 :]))
        for place, wrong in {0: 1, 1: "1", 9: "x", 11: None}.items():
            with self.assertRaises(TypeError, msg=f"value {place}"):
                kind.encode(1, 2, tuple(good[:place] + [wrong] + good[place + 1 :]))
        self.assertRaises(TypeError, kind.encode, 1, 2, tuple(good[:-1]))

    def test_example_of_the_specification(self):
        with open(os.path.join(ROOT, "docs/specs/interface.md"), encoding="utf-8") as spec:
            text = spec.read().split("Example: call 2 of `Kv`")[1]
        words = re.findall(r"^([0-9a-f]{16})\b", text, re.MULTILINE)[:8]
        message = bytes.fromhex("".join(words))
        values = ("isle", bytes(range(1, 10)), 7)
        self.assertEqual(kv._KvPutRequest.encode(2, 0x020304, values), message)
        self.assertEqual(kv._KvPutRequest.decode(message), (2, 2, 0x020304, values))

    def test_old_and_new_records(self):
        new = growth._GrowthLookRequest
        old = growth_before._GrowthLookRequest
        note = growth.Note("text", growth.Mood.MERRY, ["a"], 5)
        self.assertEqual(old.decode(new.encode(1, 1, (note, True)))[3], (growth_before.Note("text"),))
        read = new.decode(old.encode(1, 1, (growth_before.Note("text"),)))[3]
        self.assertEqual(read, (growth.Note("text", growth.Mood.CALM, [], None), False))
        thing = growth._GrowthLookReply.encode(1, 1, growth.GrowthLookReply(note, growth.ThingName("n"), growth.Stamp(1, 2)))
        reply = growth_before._GrowthLookReply.decode(thing)[3]
        self.assertEqual(reply.thing, tombolo.UnknownCase(2))
        with self.assertRaises(tombolo.OverLimit):
            growth_before._GrowthLookReply.encode(1, 1, reply)

    def test_unsuitable_channels_are_refused_when_bound(self):
        name = fresh_name("buffers")
        with rights.BuffersServer.export(domain(), name) as listener:
            accepting = Task(lambda: listener.accept(PATIENCE))
            with self.assertRaises(tombolo.CannotCarry):
                rights.BuffersClient.connect(domain(), name)
            with accepting.result() as channel, self.assertRaises(tombolo.CannotCarry):
                rights.BuffersServer(channel, rights.BuffersHandler())

    def test_messages_carry_rights(self):
        name = fresh_name("rights")
        with rights.RightsServer.export(domain(), name) as listener:
            serving = Task(lambda: passing.serve(rights, domain(), listener.accept(PATIENCE)))
            passing.call(rights, domain(), name, None)
            serving.result()

    def test_fields_take_only_rights_of_their_kind(self):
        def encode(region):
            endpoint = tombolo.Right(7, 1, False)
            return rights._RightsPassRequest.encode(1, 2, (endpoint, region, None, []))

        moved = tombolo.Right(42, 2, True)
        self.assertEqual(rights._RightsPassRequest.decode(encode(moved))[3][1], moved)
        for other in (tombolo.Right(42, 2, False), tombolo.Right(42, 3, True)):
            with self.assertRaises(tombolo.OverLimit):
                encode(other)
        with self.assertRaises(TypeError):
            encode(42)


class MalformedMessages(unittest.TestCase):
    def test_server_refuses_wrong_messages_and_continues(self):
        def head(ordinal, words, kind, call):
            return bytes([ordinal, 0, words, 0, kind, call, 0, 0])

        def key(offset, length):
            return bytes([offset, 0, 0, 0, length, 0, 0, 0])

        bad = [
            (head(99, 0, 2, 1), 1),
            (head(5, 0, 2, 1), 1),
            (head(1, 1, 2, 1) + key(16, 9) + b"too shor", 2),
            (head(1, 1, 2, 1) + key(16, 65), 2),
            (head(1, 1, 2, 1) + key(12, 4) + b"isle\0\0\0\0", 2),
            (head(1, 1, 2, 1) + key(16, 1) + b"\xff" + bytes(7), 2),
            (head(2, 4, 2, 1) + bytes(16) + key(2, 0) + bytes(8), 2),
        ]
        with running_server(kv.KvServer, Store()) as (name, outcome):
            with domain().connect(name, interface_hash=kv.Kv.hash, timeout=PATIENCE) as channel:
                for message, fault in bad:
                    channel.send(message)
                    answer = channel.receive(PATIENCE)
                    self.assertEqual((answer[4], answer[8]), (5, fault), message.hex(" ", 8))
                # No call, no answer: counted.
                for message in (b"\1\2\3", b"", head(5, 9, 1, 0), head(77, 0, 1, 0), head(1, 0, 9, 1), head(1, 0, 3, 1)):
                    channel.send(message)
                channel.send(head(1, 1, 2, 2) + key(16, 4) + b"isle\0\0\0\0")
                answer = channel.receive(PATIENCE)
                self.assertEqual((answer[4], answer[5], answer[8]), (4, 2, kv.KvError.NOT_FOUND))
        self.assertEqual((outcome[0]["unknown"], outcome[0]["malformed"]), (3, 10))

    def test_handler_exception_fails_only_its_call(self):
        def fail():
            raise ZeroDivisionError("a defect")

        store = Store()
        with running_server(kv.KvServer, store) as (name, _):
            with kv.KvClient.connect(domain(), name, timeout=PATIENCE) as client:
                wrong = (fail, lambda: "no reply", lambda: kv.KvGetReply("text", 1))
                over_limit = (lambda: kv.KvGetReply(b"", -1), lambda: kv.KvGetReply(bytes(2049), 1))
                with self.assertLogs("tombolo", logging.ERROR) as logs:
                    for store.failing in wrong:
                        with self.assertRaisesRegex(tombolo.Fault, "dropped the call") as raised:
                            client.get("key")
                        self.assertIs(type(raised.exception), tombolo.Fault)
                    for store.failing in over_limit:
                        self.assertRaises(tombolo.AnswerTooLong, client.get, "key")
                    client.forget("raise")
                    self.assertEqual(client.list("").keys, [])
                self.assertEqual(len(logs.output), 6)
        # Only a missing method is unserved, whether the handler has the generated base class or not.
        for handler in (kv.KvHandler(), object()):
            with running_server(kv.KvServer, handler) as (name, _):
                with kv.KvClient.connect(domain(), name, timeout=PATIENCE) as client:
                    self.assertRaises(tombolo.Unserved, client.get, "key")

    def test_later_is_answered_by_the_thread_that_serves(self):
        class Slow(kv.KvHandler):
            laters = queue.SimpleQueue()

            def get(self, key):
                later = tombolo.later()
                self.laters.put(later)
                return later

        def serve(listener):
            with listener, kv.KvServer(listener.accept(PATIENCE), Slow()) as server:
                with contextlib.suppress(tombolo.PeerGone):
                    while True:
                        server.serve_one(timeout=0.01)
                        while not finished.empty():
                            later, reply = finished.get()
                            later.reply(reply)

        name, finished = fresh_name("slow"), queue.SimpleQueue()
        serving = Task(lambda listener=kv.KvServer.export(domain(), name): serve(listener))
        with kv.KvClient.connect(domain(), name, timeout=PATIENCE) as client:
            call = client.start_get("key")
            finished.put((Slow.laters.get(timeout=PATIENCE), kv.KvGetReply(b"sand", 1)))
            self.assertEqual(call.wait().value, b"sand")
        serving.result()
        # While the server waits, other threads cannot reply.
        with running_server(kv.KvServer, Slow()) as (name, _):
            with kv.KvClient.connect(domain(), name, timeout=PATIENCE) as client:
                call = client.start_get("key")
                later = Slow.laters.get(timeout=PATIENCE)
                eventually_raises(tombolo.Busy, lambda: later.is_outstanding)
                self.assertRaises(tombolo.Busy, later.reply, kv.KvGetReply(b"sand", 1))
                del later
                with self.assertRaises(tombolo.Fault):
                    call.wait()

    def test_dropped_later_ends_its_call(self):
        class Dropping(kv.KvHandler):
            kept = []

            def get(self, key):
                return tombolo.later()

            def await_change(self, key):
                later, again = tombolo.later(), tombolo.later()
                self.kept.append(later)
                del again
                return later

            def list(self, prefix):
                later = tombolo.later()
                if prefix == "raise":
                    raise ZeroDivisionError(later)
                return kv.KvListReply([prefix])

        with running_server(kv.KvServer, Dropping()) as (name, outcome):
            with kv.KvClient.connect(domain(), name, timeout=PATIENCE) as client:
                # Dropped by the handler: the next wait of the server answers it.
                with self.assertRaisesRegex(tombolo.Fault, "dropped the call"):
                    client.get("key")
                # A call that is answered at once after all has one answer.
                with self.assertLogs("tombolo", logging.ERROR):
                    self.assertRaises(tombolo.Fault, client.list, "raise")
                self.assertEqual(client.list("key").keys, ["key"])
                # Dropped by another thread while the server waits.
                waiting = client.start_await_change("key")
                self.assertEqual(client.list("key").keys, ["key"])
                self.assertFalse(waiting.is_ready)
                Dropping.kept.clear()
                with self.assertRaisesRegex(tombolo.Fault, "dropped the call"):
                    waiting.wait()
                self.assertEqual(client.counts["late"], 0)
        self.assertEqual((outcome[0]["calls"], outcome[0]["answers"]), (5, 5))

    def test_client_refuses_wrong_answers(self):
        answers = [
            bytes([1, 0, 1, 0, 3, 0, 0, 0]) + bytes([16, 0, 0, 0, 65, 0, 0, 0]),
            bytes([2, 0, 0, 0, 3, 0, 0, 0]),
            bytes([3, 0, 0, 0, 4, 0, 0, 0]),
        ]

        def serve(channel):
            for answer in answers:
                call = channel.receive(PATIENCE)
                channel.send(b"junk")
                channel.send(answer[:5] + call[5:8] + answer[8:])

        name = fresh_name("wrong")
        with kv.KvServer.export(domain(), name) as listener:
            serving = Task(lambda: serve(listener.accept(PATIENCE)))
            with kv.KvClient.connect(domain(), name, timeout=PATIENCE) as client:
                for call in (lambda: client.get("k"), lambda: client.get("k"), lambda: client.list("")):
                    self.assertRaises(tombolo.Malformed, call)
                self.assertEqual(client.counts["malformed"], 3)
            serving.result()


class AtImport(unittest.TestCase):
    def test_same_file_gives_the_same_module(self):
        path = os.path.join(ROOT, "interfaces/kv.tbl")
        module = tombolo.load_interface(path)
        self.assertIs(tombolo.load_interface(path), module)
        self.assertEqual((module.MAX_KEY, module.Kv.hash), (64, kv.Kv.hash))
        self.assertIs(importlib.import_module("tombolo.interfaces.kv"), kv)
        self.assertIn("the number of times it was set", kv.KvClient.get.__doc__)
        with self.assertRaises(ModuleNotFoundError):
            importlib.import_module("tombolo.interfaces.no_such_interface")

    def test_mistakes_are_reported_with_their_line(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "bad.tbl")
            self.assertRaises(FileNotFoundError, tombolo.load_interface, path)
            with open(path, "w", encoding="utf-8") as file:
                file.write("package bad;\nstruct Bad {\n    @1 text: strin<4>,\n}\n")
            with self.assertRaises(tombolo.Mistakes) as raised:
                tombolo.load_interface(path)
        self.assertIn("bad.tbl:3", str(raised.exception))

    def test_names_that_python_reserves(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "words.tbl")
            with open(path, "w", encoding="utf-8") as file:
                file.write('package words;\n/// A "quoted" \\ word"\nstruct None { @1 class: u8, @2 self: u8 }\ninterface Words version 1 {\n@1 call import(lambda: None, timeout: u8) -> (yield: None);\n@2 message close();\n}\n')
            words = tombolo.load_interface(path)
        none = words.None_(1, self_=2)
        encoded = words._WordsImportRequest.encode(1, 1, (none, 3))
        self.assertEqual(words._WordsImportRequest.decode(encoded)[3], (none, 3))
        self.assertEqual(words.None_.__doc__, 'A "quoted" \\ word"')
        self.assertTrue(callable(words.WordsClient.import_) and callable(words.WordsClient.close_))


class AsyncStore(kv.KvAsyncHandler):
    """Answers ``get`` once ``go`` is set."""

    def __init__(self):
        self.cancelled = asyncio.Event()
        self.go = asyncio.Event()

    async def get(self, key):
        await self.go.wait()
        return kv.KvGetReply(key.encode(), 1)

    async def put(self, key, value, expected):
        await tombolo.current_server().changed(key, 9)
        raise kv.KvErrorDeclined(kv.KvError.FULL)

    async def await_change(self, key):
        try:
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def list(self, prefix):
        return kv.KvListReply([prefix] * 40)


class Async(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.store = AsyncStore()
        self.name = fresh_name("async")
        self.running = asyncio.ensure_future(kv.KvAsyncServer.run(domain(), self.name, self.store))

    async def asyncTearDown(self):
        self.running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.running

    async def connect(self, events=None):
        options = {"events": events, "timeout": PATIENCE, "connect_timeout": PATIENCE}
        return await kv.KvAsyncClient.connect(domain(), self.name, **options)

    async def test_calls_of_several_tasks_and_clients(self):
        clients = [await self.connect() for _ in range(3)]
        calls = [asyncio.ensure_future(client.get(f"{n}-{i}")) for i, client in enumerate(clients) for n in range(40)]
        await clients[0].list("all of them wait, and this does not")
        self.assertFalse(any(call.done() for call in calls))
        self.store.go.set()
        values = [reply.value.decode() for reply in await asyncio.gather(*calls)]
        self.assertEqual(values, [f"{n}-{i}" for i in range(3) for n in range(40)])
        for client in clients:
            client.close()

    async def test_events_and_declared_errors(self):
        events = RecordedEvents()
        async with await self.connect(events) as client:
            with self.assertRaises(kv.KvErrorDeclined) as raised:
                await client.put("key", b"")
            self.assertIs(raised.exception.error, kv.KvError.FULL)
            self.assertEqual(events.received, [("key", 9)])

    async def test_failing_and_missing_methods(self):
        class Failing(AsyncStore):
            put = None

            async def get(self, key):
                raise ZeroDivisionError("a defect")

        name = fresh_name("failing")
        running = asyncio.ensure_future(kv.KvAsyncServer.run(domain(), name, Failing()))
        async with await kv.KvAsyncClient.connect(domain(), name, timeout=PATIENCE) as client:
            with self.assertLogs("tombolo", logging.ERROR), self.assertRaises(tombolo.Fault) as raised:
                await client.get("key")
            self.assertIs(type(raised.exception), tombolo.Fault)
            with self.assertRaises(tombolo.Unserved):
                await client.put("key", b"")
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running

    async def test_cancelled_task_cancels_its_call(self):
        async with await self.connect() as client:
            waiting = asyncio.ensure_future(client.await_change("key"))
            await client.list("")
            waiting.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await waiting
            await asyncio.wait_for(self.store.cancelled.wait(), PATIENCE)
            self.store.cancelled.clear()
            with self.assertRaises(tombolo.TimedOut):
                await client.await_change("key", timeout=0.01)
            await asyncio.wait_for(self.store.cancelled.wait(), PATIENCE)

    async def test_calls_wait_for_room(self):
        async with await self.connect() as client:
            answers = await asyncio.gather(*(client.list("x" * 48) for _ in range(200)))
            self.assertTrue(all(len(answer.keys) == 40 for answer in answers))

    async def test_calls_fail_when_the_server_ends(self):
        async with await self.connect() as client:
            waiting = asyncio.ensure_future(client.get("key"))
            await client.list("")
            self.running.cancel()
            with self.assertRaises(tombolo.Closed):
                await waiting
            with self.assertRaises(tombolo.Closed):
                await client.get("again")

    async def test_refused_client_does_not_block_others(self):
        loop = asyncio.get_running_loop()
        reported = []
        loop.set_exception_handler(lambda _loop, context: reported.append(context))

        def wrong():
            with self.assertRaises(tombolo.Refused):
                domain().connect(self.name, interface_hash=1, timeout=PATIENCE)

        await loop.run_in_executor(None, wrong)
        async with await self.connect() as client:
            await client.list("")
        self.assertIsInstance(reported[0]["exception"], tombolo.Refused)


if __name__ == "__main__":
    unittest.main()
