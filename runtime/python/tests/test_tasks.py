"""Tasks on a worker of this host, which runs ``task_functions.py``."""

import asyncio
import os
import sys
import unittest

import tombolo
from support import PATIENCE, domain
from tombolo.hubs import _codec
from tombolo.tasks import Function, Tasks

SQUARE = Function("square", "u64", "u64")
DESCRIBE = Function("describe", "(u64, text)", "(text, u64)")
FAILS = Function("fails", "text")
FOREVER = Function("forever")


class Values(unittest.TestCase):
    def test_tuples_are_encoded_as_in_rust(self):
        codec = _codec("(u8, unit, (bool, u8))")
        data = bytes([1, 0, 0, 0, 1, 0, 0, 0, 0, 10, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 2])
        self.assertEqual(codec.encode((1, None, (True, 2))), data)
        self.assertEqual(codec.decode(data), (1, None, (True, 2)))
        for wrong in (b"", data[:-1], data + b"\0"):
            with self.assertRaises(Exception):
                codec.decode(wrong)
        self.assertRaises(TypeError, codec.encode, (1, None))

    def test_function_is_identified_by_name_and_types(self):
        self.assertEqual(Function("f", "(u64,text)").number, Function("f", "( u64, text )", "unit").number)
        self.assertNotEqual(Function("f", "u64").number, Function("f", "u32").number)
        self.assertRaises(tombolo.InvalidArgument, Function, "f", "(u64")


class OnAWorker(unittest.TestCase):
    def setUp(self):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "task_functions.py")
        environment = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        self.tasks = Tasks(domain(), "host", [sys.executable, script], environment)
        self.addCleanup(self.tasks.end)

    def test_many_tasks_run_and_end_once(self):
        started = [self.tasks.go(SQUARE, number) for number in range(200)]
        self.assertEqual([task.join(PATIENCE) for task in started], [number**2 for number in range(200)])
        (worker,) = self.tasks.workers
        self.assertEqual((worker.node, worker.ended, worker.alive), ("host", 200, True))
        self.assertEqual(self.tasks.go(DESCRIBE, (7, "ü")).join(PATIENCE), ("python host ü", 14))

    def test_tasks_can_be_awaited(self):
        async def run_tasks():
            started = [self.tasks.go(SQUARE, number) for number in range(20)]
            results = await asyncio.gather(*started)
            waits = self.tasks.go(FOREVER)
            with self.assertRaises(tombolo.TimedOut):
                await waits.ended(0.05)
            waits.cancel()
            with self.assertRaises(tombolo.TaskCancelled):
                await waits
            with self.assertRaises(tombolo.TaskFailed) as failed:
                await self.tasks.go(FAILS, "on purpose")
            self.assertIn("ValueError: on purpose", str(failed.exception))
            return results

        self.assertEqual(asyncio.run(run_tasks()), [number**2 for number in range(20)])

    def test_invalid_calls_are_refused(self):
        self.assertRaises(tombolo.TaskRefused, self.tasks.go, SQUARE, -1)
        self.assertRaises(tombolo.TaskRefused, self.tasks.go, FOREVER, 7)
        self.assertRaises(tombolo.TaskRefused, self.tasks.go(Function("none"), None).join, PATIENCE)
        self.assertRaises(tombolo.NoSuchNode, self.tasks.go, SQUARE, 7, "mars")
        self.assertRaises(tombolo.NoSuchNode, Tasks, domain(), "mars")
        self.tasks.end()
        self.assertRaises(tombolo.InvalidArgument, self.tasks.go, SQUARE, 7)


if __name__ == "__main__":
    unittest.main()
