"""Hubs that ``tombolo hubs serve`` has: those of :data:`SERVED`, which the test of the whole package starts."""

import asyncio
import os
import time
import unittest

import tombolo
from support import PATIENCE, Task, domain
from tombolo import hubs

#: What is served while these tests run; each hub is one test's.
SERVED = os.environ.get("TOMBOLO_SERVED_HUBS", "").split()


def task(priority=None):
    return hubs.Task(domain(), priority)


@unittest.skipUnless(SERVED, "no hubs are served")
class Hubs(unittest.TestCase):
    def test_a_fifo_keeps_values_until_it_is_closed_and_empty(self):
        fifo = task().chan("py-fifo", "u64", PATIENCE)
        self.assertEqual((fifo.name, fifo.capacity, len(fifo), bool(fifo)), ("py-fifo", 2, 0, True))
        fifo.send(1)
        fifo.send(2**64 - 1)
        self.assertRaises(tombolo.WouldBlock, fifo.send, 3, 0)
        self.assertRaises(tombolo.TimedOut, fifo.send, 3, 0.01)
        self.assertEqual(len(fifo), 2)
        fifo.close()
        self.assertRaises(tombolo.HubClosed, fifo.close)
        self.assertRaises(tombolo.HubClosed, fifo.send, 3)
        self.assertEqual(list(fifo), [1, 2**64 - 1])
        self.assertRaises(tombolo.HubClosed, fifo.recv)

    def test_values_have_the_type_of_the_hub(self):
        fifo = task().chan("py-bytes", timeout=PATIENCE)
        fifo.send(b"seven")
        text = task().chan("py-bytes", "text", PATIENCE)
        self.assertEqual(text.recv(), "seven")
        fifo.send(b"\xff")
        self.assertRaises(tombolo.HubRefused, text.recv)
        self.assertRaises(tombolo.TooLong, fifo.send, bytes(257))
        self.assertRaises(tombolo.HubRefused, task().event, "py-fifo", PATIENCE)
        self.assertRaises(tombolo.NoSuchName, task().chan, "nowhere", "", 0.01)
        self.assertRaises(tombolo.InvalidArgument, fifo.recv, -1)
        self.assertRaises(TypeError, fifo.send, "text")

    def test_a_port_is_a_rendezvous(self):
        port = task().chan("py-port", "text", PATIENCE)
        self.assertEqual(port.capacity, 0)
        self.assertRaises(tombolo.WouldBlock, port.send, "nobody", 0)
        receiving = Task(lambda: task().chan("py-port", "text").recv(PATIENCE))
        port.send("hello", PATIENCE)
        self.assertEqual(receiving.result(), "hello")

    def test_events_and_semaphores(self):
        event, semaphore = task().event("py-go", PATIENCE), task().semaphore("py-count", PATIENCE)
        event.raise_()
        self.assertRaises(tombolo.WouldBlock, event.raise_, 0)
        event.wait()
        self.assertRaises(tombolo.WouldBlock, event.wait, 0)
        semaphore.signal()
        self.assertEqual(semaphore.count, 1)
        semaphore.wait()
        self.assertRaises(tombolo.TimedOut, semaphore.wait, 0.01)

    def test_resource_owner_inherits_priority(self):
        low, high = task(10), task(200)
        resource = low.resource("py-guard", PATIENCE)
        with resource.lock() as owned:
            self.assertRaises(tombolo.HubHeld, resource.lock)
            waiting = Task(lambda: high.resource("py-guard", PATIENCE).lock(PATIENCE).fencing_token)
            deadline = time.monotonic() + PATIENCE
            while low.inherited_priority != 200 and time.monotonic() < deadline:
                time.sleep(0.005)
            self.assertEqual(low.inherited_priority, 200)
            self.assertFalse(owned.was_abandoned)
        self.assertGreater(waiting.result(), owned.fencing_token)
        owned = resource.lock(PATIENCE)
        owned.unlock()
        self.assertRaises(tombolo.HubHeld, owned.unlock)

    def test_blocks_of_a_pool_are_shared_memory(self):
        pool = task().pool("py-pool", PATIENCE)
        self.assertEqual((pool.capacity, pool.block_bytes, pool.is_mapped), (2, 512, True))
        with pool.allocate() as first, pool.allocate() as second:
            self.assertNotEqual(first.number, second.number)
            self.assertRaises(tombolo.WouldBlock, pool.allocate, 0)
            number, first.memory[:4] = first.number, b"kept"
        other = task().pool("py-pool", PATIENCE)
        blocks = [other.allocate(PATIENCE) for _ in range(2)]
        kept = [bytes(block.memory[:4]) for block in blocks if block.number == number]
        self.assertEqual(kept, [b"kept"])
        for block in blocks:
            block.release()

    def test_a_select_does_one_operation(self):
        one = task()
        left, right = one.chan("py-left", "u32", PATIENCE), one.chan("py-right", "u32", PATIENCE)
        self.assertRaises(tombolo.TimedOut, one.select, left, right, timeout=0)
        self.assertRaises(tombolo.TimedOut, one.select, left, right, timeout=0.01)
        self.assertRaises(tombolo.InvalidArgument, one.select, left, left)
        right.send(7)
        self.assertEqual(one.select(left, right), (1, 7))
        right.send(8)
        self.assertEqual(one.select((right, 9), left), (0, None))
        self.assertEqual([right.recv(), right.recv()], [8, 9])

    def test_coroutines_of_one_task_wait_independently(self):
        async def run():
            one = hubs.AsyncTask(domain())
            fifo = await one.chan("py-async", "u64", PATIENCE)
            event = await one.event("py-async-go", PATIENCE)
            count = await one.semaphore("py-async-count", PATIENCE)
            guard = await one.resource("py-async-guard", PATIENCE)
            with self.assertRaises(tombolo.WouldBlock):
                await fifo.recv(0)
            with self.assertRaises(tombolo.TimedOut):
                await fifo.recv(0.01)

            async def receive():
                return [value async for value in fifo]

            receiving = [asyncio.ensure_future(receive()) for _ in range(3)]
            waiting = asyncio.ensure_future(event.wait(PATIENCE))
            cancelled = asyncio.ensure_future(count.wait(PATIENCE))
            await asyncio.sleep(0.01)
            for number in range(30):
                await fifo.send(number, PATIENCE)
            cancelled.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await cancelled
            await count.signal()
            await count.wait(PATIENCE)
            await event.raise_()
            await waiting
            with await guard.lock() as owned:
                self.assertGreater(owned.fencing_token, 0)
                with self.assertRaises(tombolo.HubHeld):
                    await guard.lock()
            while len(fifo):
                await asyncio.sleep(0.001)
            choosing = asyncio.ensure_future(one.select(event, count, timeout=PATIENCE))
            await asyncio.sleep(0.01)
            await count.signal()
            self.assertEqual(await choosing, (1, None))
            fifo.close()
            received = await asyncio.gather(*receiving)
            self.assertEqual(sorted(sum(received, [])), list(range(30)))

        asyncio.run(run())
