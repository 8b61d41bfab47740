"""Channels of messages as they are, names, and what goes wrong with them."""

import ast
import contextlib
import math
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock

import tombolo
from support import PATIENCE, Task, domain, fresh_name, pair


class Jobs(unittest.TestCase):
    def member(self, rank, size="2", name="job-of-tests"):
        variables = {"TOMBOLO_RANK": rank, "TOMBOLO_SIZE": size, "TOMBOLO_JOB": name}
        with unittest.mock.patch.dict(os.environ, variables):
            return domain().job()

    def test_ranks_have_names_and_a_channel_per_pair(self):
        first, second = self.member("0"), self.member("1")
        self.assertEqual((second.rank, second.size, second.id), (1, 2, "job-of-tests"))
        self.assertEqual(first.name("results"), "job-of-tests/results")
        opening = Task(lambda: first.channel_to(1, PATIENCE))
        with second.channel_to(0, PATIENCE) as there, opening.result() as here:
            here.send(b"ping")
            self.assertEqual(there.receive(PATIENCE), b"ping")

    def test_wrong_jobs_and_ranks_are_refused(self):
        with unittest.mock.patch.dict(os.environ):
            os.environ.pop("TOMBOLO_JOB", None)
            self.assertRaises(tombolo.NotInJob, domain().job)
        for rank, size in (("x", "2"), ("2", "2"), ("-1", "2")):
            self.assertRaises(tombolo.NotInJob, self.member, rank, size)
        for peer in (0, 2):
            self.assertRaises(tombolo.NotInJob, self.member("0").channel_to, peer, 0)


class Openings(unittest.TestCase):
    KIND = 0x5E55

    def test_a_listener_decides_by_the_request(self):
        name = fresh_name("openings")
        with domain().export_for_requests(name, kind=self.KIND) as listener:
            connecting = Task(lambda: domain().connect_with(name, b"read-only", kind=self.KIND, timeout=PATIENCE))
            opening = listener.accept(PATIENCE)
            self.assertEqual(opening.request, b"read-only")
            there = opening.accept()
            with connecting.result() as here:
                here.send(b"open")
                self.assertEqual(there.receive(PATIENCE), b"open")
            self.assertRaises(tombolo.Error, opening.accept)
            self.assertEqual(opening.request, b"")

    def test_refusal_contains_the_name_and_the_reason(self):
        name = fresh_name("openings")
        with domain().export_for_requests(name, kind=self.KIND) as listener:
            for decide, reason in ((lambda it: it.refuse("it is read-only"), "it is read-only"), (lambda it: None, "made no decision")):
                connecting = Task(lambda: domain().connect_with(name, b"write", kind=self.KIND, timeout=PATIENCE))
                opening = listener.accept(PATIENCE)
                decide(opening)
                del opening
                with self.assertRaises(tombolo.OpeningRefused) as refused:
                    connecting.result()
                self.assertIn(name, str(refused.exception))
                self.assertIn(reason, str(refused.exception))

    def test_wrong_and_missing_requests_are_refused(self):
        name = fresh_name("openings")
        with domain().export_for_requests(name, kind=self.KIND) as listener:
            for connect in (
                lambda: domain().connect(name, timeout=PATIENCE),
                lambda: domain().connect_with(name, b"", kind=self.KIND + 1, timeout=PATIENCE),
            ):
                connecting = Task(connect)
                self.assertRaises(tombolo.Refused, listener.accept, PATIENCE)
                self.assertRaises(tombolo.Refused, connecting.result)
        self.assertRaises(tombolo.TooLong, domain().connect_with, name, bytes(1025))
        self.assertRaises(tombolo.Closed, listener.accept, 0)


class Messages(unittest.TestCase):
    def test_bytes_like_objects_arrive_unchanged(self):
        here, there = pair()
        for message in (b"", b"ping", bytearray(b"\0\xff"), memoryview(b"0123456789")[2:5]):
            here.send(message)
            received = there.receive(PATIENCE)
            self.assertIs(type(received), bytes)
            self.assertEqual(received, bytes(message))
        for wrong in ("text", 7, None):
            self.assertRaises(TypeError, here.send, wrong)

    def test_lengths_around_the_limit(self):
        here, there = pair(slots=8)
        longest = here.max_message_bytes
        for length in (longest - 1, longest):
            message = bytes(index % 251 for index in range(length))
            sending = Task(lambda message=message: here.send(message, PATIENCE))
            self.assertEqual(there.receive(PATIENCE), message)
            sending.result()
        with self.assertRaises(tombolo.TooLong):
            here.send(bytes(longest + 1))

    def test_both_ends_have_the_same_properties(self):
        here, there = pair()
        self.assertEqual(here.id, there.id)
        self.assertEqual((here.peer, there.peer), (domain().id, domain().id))
        self.assertEqual((here.peer_node, here.transport), (domain().node_name, "shm"))
        here.send(b"four")
        there.receive(PATIENCE)
        self.assertEqual(here.stats()["messages_sent"], 1)
        self.assertEqual(there.stats()["bytes_received"], 4)

    def test_short_buffer_does_not_lose_the_message(self):
        here, there = pair()
        here.send(b"hello")
        short, enough = bytearray(4), bytearray(b"________")
        with self.assertRaises(tombolo.BufferTooShort):
            there.receive_into(short, PATIENCE)
        self.assertTrue(there.arm())
        self.assertEqual(there.receive_into(memoryview(enough)[1:], PATIENCE), 5)
        self.assertEqual(enough, b"_hello__")
        self.assertRaises(TypeError, there.receive_into, b"cannot be written", 0)

    def test_a_received_message_is_shared_and_not_copied(self):
        here, there = pair()
        here.send(bytes(range(16)))
        message = there.receive(PATIENCE)
        view = memoryview(message).cast("I")
        self.assertIs(view.obj, message)
        self.assertEqual(view[1], int.from_bytes(bytes(range(4, 8)), sys.byteorder))

    def test_zero_timeout_does_not_block(self):
        here, there = pair(slots=2)
        self.assertRaises(tombolo.WouldBlock, there.receive, 0)
        with self.assertRaises(tombolo.WouldBlock):
            while True:
                here.send(b"x", 0)
        self.assertRaises(tombolo.TimedOut, here.send, b"x", 0.01)
        self.assertRaises(TimeoutError, here.receive, 0.01)

    def test_negative_and_nan_timeouts_are_refused(self):
        here, there = pair()
        for wrong in (-1, math.nan):
            self.assertRaises(tombolo.InvalidArgument, here.receive, wrong)
        there.send(b"x")
        self.assertEqual(here.receive(math.inf), b"x")

    def test_close_is_reported_after_sent_messages(self):
        here, there = pair()
        with here:
            here.send(b"last")
        self.assertEqual(there.receive(PATIENCE), b"last")
        with self.assertRaises(tombolo.Closed) as raised:
            there.receive(PATIENCE)
        self.assertIsInstance(raised.exception, ConnectionError)
        self.assertRaises(tombolo.Closed, here.send, b"x")
        here.close()

    def test_other_threads_run_during_a_wait(self):
        here, there = pair()
        waiting = Task(lambda: there.receive(PATIENCE))
        # With the interpreter held by the one that waits, this thread would never come here to send.
        time.sleep(0.05)
        here.send(b"at last")
        self.assertEqual(waiting.result(), b"at last")

    def test_concurrent_use_by_a_second_thread_is_refused(self):
        here, there = pair()
        waiting = Task(lambda: there.receive(PATIENCE))
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                there.stats()
            except tombolo.Busy:
                break
            self.assertLess(time.monotonic(), deadline)
        here.send(b"x")
        waiting.result()

    def test_descriptor_is_readable_when_a_message_arrives(self):
        here, there = pair()
        self.assertFalse(there.arm())
        poll = select.poll()
        poll.register(there.fileno(), select.POLLIN)
        here.send(b"x")
        self.assertTrue(poll.poll(PATIENCE * 1000))
        self.assertTrue(there.arm())
        self.assertEqual(there.receive(0), b"x")
        self.assertFalse(there.arm())

    def test_signal_ends_a_wait_and_its_thread(self):
        here, _there = pair()

        def interrupt(_signal, _frame):
            raise InterruptedError("as asked for")

        def threads():
            names = set()
            for task in pathlib.Path("/proc/self/task").iterdir():
                # One may end meanwhile.
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    names.add((task / "comm").read_text().strip())
            return names

        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            for wait in (
                lambda: here.receive(PATIENCE),
                lambda: domain().connect(fresh_name("nobody"), timeout=PATIENCE),
                lambda: domain().names.wait_for(fresh_name("nothing"), timeout=PATIENCE),
            ):
                signal.setitimer(signal.ITIMER_REAL, 0.05)
                self.assertRaises(InterruptedError, wait)
                self.assertNotIn("tombolo-wait", threads())
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


class Opening(unittest.TestCase):
    def test_options_out_of_range(self):
        for wrong in ({"slots": 3}, {"slot_bytes": 48}, {"spin": -1}):
            self.assertRaises(tombolo.InvalidArgument, domain().connect, "anybody", **wrong)

    def test_missing_peers_and_taken_names_are_refused(self):
        with self.assertRaises(tombolo.NoSuchName):
            domain().connect(fresh_name("nobody"), timeout=0.01)
        with domain().export(fresh_name("lonely")) as listener:
            self.assertRaises(tombolo.TimedOut, listener.accept, 0.01)
            with self.assertRaises(tombolo.NameTaken):
                domain().export(listener.name)
        self.assertRaises(tombolo.Closed, listener.accept, 0)

    def test_interfaces_must_be_the_same(self):
        name = fresh_name("typed")
        with domain().export(name, interface_hash=1) as listener:
            accepting = Task(lambda: listener.accept(PATIENCE))
            with self.assertRaises(tombolo.Refused):
                domain().connect(name, timeout=PATIENCE, interface_hash=2)
            self.assertRaises(tombolo.Refused, accepting.result)

    def test_a_listener_has_a_descriptor(self):
        with domain().export(fresh_name("polled")) as listener:
            self.assertFalse(listener.arm())
            poll = select.poll()
            poll.register(listener.fileno(), select.POLLIN)
            connecting = Task(lambda: domain().connect(listener.name, timeout=PATIENCE))
            deadline = time.monotonic() + PATIENCE
            while not listener.arm():
                self.assertLess(time.monotonic(), deadline)
                poll.poll(1000)
            listener.accept(PATIENCE)
            connecting.result()


class Death(unittest.TestCase):
    def test_killed_peer_is_reported(self):
        name = fresh_name("mortal")
        program = "import sys, tombolo\nchannel = tombolo.attach().connect(sys.argv[1], timeout=60)\nchannel.send(b'up')\nchannel.receive(600)"
        child = subprocess.Popen([sys.executable, "-c", program, name])
        try:
            with domain().export(name) as listener, listener.accept(PATIENCE) as channel:
                self.assertEqual(channel.receive(PATIENCE), b"up")
                child.kill()
                with self.assertRaises(tombolo.PeerDied) as raised:
                    channel.receive(PATIENCE)
                self.assertIsInstance(raised.exception, tombolo.PeerGone)
        finally:
            child.kill()
            child.wait()

    def test_a_domain_is_started_and_ends(self):
        child = domain().spawn("/bin/sh", "-c", "exit $CODE", environment={"CODE": "7"})
        self.assertEqual(child.wait(PATIENCE), ("exited", 7))
        child = domain().spawn("/bin/sleep", "1000")
        self.assertRaises(tombolo.TimedOut, child.wait, 0.01)
        child.kill()
        self.assertEqual(child.wait(PATIENCE)[0], "signalled")
        self.assertRaises(tombolo.NoSuchNode, domain().spawn, "/bin/true", node="nowhere")


class Names(unittest.TestCase):
    def test_records_are_set_found_and_deleted(self):
        names, name = domain().names, fresh_name("record")
        attributes = {"unit": "K", "value": -3, "factor": 1.5, "warm": True, "raw": b"\0\xff", "text": "größte 島"}
        version = names.set(name, attributes)
        record = names.get(name)
        self.assertEqual((record.name, record.version, record.attributes), (name, version, attributes))
        self.assertEqual((record.owner, record.endpoint), (domain().id, False))
        names.set(name, {"value": 4}, merge=True)
        self.assertEqual(names.find(f"{name} {{ value > 3 }}")[0].attributes["unit"], "K")
        names.set(f"{name} {{ value: 5 }}")
        self.assertEqual(names.wait_for(name, PATIENCE).attributes, {"value": 5})
        self.assertEqual(str(names.delete(name)), f"{name} {{ value: 5 }}")
        self.assertFalse(names.exists(name))
        for missing in (names.get, names.delete):
            self.assertRaises(LookupError, missing, name)
        self.assertRaises(tombolo.NoSuchName, names.wait_for, name, 0.01)
        self.assertRaises(tombolo.BadText, names.get, "{")
        self.assertRaises(TypeError, names.set, name, {"list": []})

    def test_changes_are_reported(self):
        names, name = domain().names, fresh_name("watched")
        names.set(name, {"n": 1})
        watch = names.watch(f"{name}*")
        self.assertEqual([record.name for record in watch.current], [name])
        names.set(name, {"n": 2})
        notice = watch.next(PATIENCE)
        self.assertEqual((notice.change, notice.record.attributes, notice.lost), ("set", {"n": 2}, 0))
        names.delete(name)
        self.assertEqual(watch.next(PATIENCE).change, "deleted")
        self.assertRaises(tombolo.TimedOut, watch.next, 0.01)
        watch.stop()
        self.assertTrue(watch.next(PATIENCE).last)


class Errors(unittest.TestCase):
    def test_errors_match_the_statuses_of_c(self):
        folder = os.path.dirname(os.path.abspath(__file__))
        with open(os.path.join(folder, "../../c/include/tombolo.h"), encoding="utf-8") as header:
            statuses = header.read().split("enum {")[1].split("};")[0]
        known = dict(re.findall(r"TOMBOLO_([A-Z_]+) = (\d+)", statuses))
        numbered = {}
        for name in tombolo.errors.__all__:
            kind = getattr(tombolo, name)
            self.assertTrue(issubclass(kind, tombolo.Error) and kind.__doc__, name)
            if "status" in vars(kind) and kind.status:
                upper = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()
                self.assertEqual(known.get(upper), str(kind.status), name)
                numbered[kind.status] = name
        # What C has and Python has not: what is no failure, is Python's own, or has no place in its means.
        without = {"OK", "INTERNAL", "NO_MEMORY", "LATER", "UNKNOWN_MESSAGE"}
        self.assertEqual({name for name, number in known.items() if int(number) not in numbered}, without)

    def test_type_checkers_see_every_error(self):
        def assigned(module):
            """Yields the values that a module assigns or adds to `__all__`."""
            with open(module.__file__, encoding="utf-8") as source:
                for node in ast.parse(source.read()).body:
                    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
                    if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
                        yield node.value

        kinds = {name for name, kind in vars(tombolo.errors).items() if isinstance(kind, type) and issubclass(kind, tombolo.Error)}
        # Type checkers read lists of literals, and the addition of another module's list.
        (errors,) = assigned(tombolo.errors)
        listed = ast.literal_eval(errors)
        self.assertEqual((set(listed), len(listed)), (kinds, len(kinds)))
        package, added = assigned(tombolo)
        self.assertIn("Channel", ast.literal_eval(package))
        self.assertEqual(ast.unparse(added), "errors.__all__")

    def test_threads_of_one_program_are_one_domain(self):
        ids = [Task(lambda: tombolo.attach().machine_name).result() for _ in range(2)]
        self.assertEqual(ids, [domain().machine_name] * 2)
        self.assertGreaterEqual(threading.active_count(), 1)


if __name__ == "__main__":
    unittest.main()
