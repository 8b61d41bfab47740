"""Pools, and transfers of buffers between programs."""

import asyncio
import ctypes
import gc
import os
import re
import select
import unittest
import unittest.mock

import tombolo
from support import PATIENCE, Peer, Task, domain, eventually, fresh_name, numpy, pyarrow, without
from tombolo.regions import Counts

LENGTH = 64 * 1024


class Pair:
    """A bulk channel to a peer, which calls its end `bulk`, and an assigned pool of this program."""

    def __init__(self, peer, trust="full", count=4, **options):
        name = fresh_name("bulk")
        with domain().export_bulk(name, trust=trust) as listener:
            peer.start(f"bulk = domain.connect_bulk({name!r}, timeout=60, trust={trust!r})")
            self.bulk = listener.accept_bulk(PATIENCE)
            assert peer.answer() == "None"
        self.pool = domain().create_pool(LENGTH, count, trust=trust)
        peer.start("pool = bulk.recv_pool(60)")
        self.bulk.assign(self.pool, PATIENCE, **options)
        assert peer.answer() == "None"

    def __enter__(self):
        return self.bulk, self.pool

    def __exit__(self, *_):
        self.bulk.close()


class Transfers(unittest.TestCase):
    """The four verbs, with trust and without."""

    @classmethod
    def setUpClass(cls):
        cls.peer = Peer()

    @classmethod
    def tearDownClass(cls):
        cls.peer.kill()

    def test_moved_buffer_belongs_to_the_receiver(self):
        for trust in ("full", "none"):
            with self.subTest(trust), Pair(self.peer, trust) as (bulk, pool):
                buffer = pool.take()
                self.assertEqual((len(buffer), buffer.pool, buffer.views), (LENGTH, pool, 0))
                buffer.write(b"what is moved", 3)
                self.assertEqual(buffer.read(3, 13), b"what is moved")
                bulk.move_to(buffer, b"number 1")
                for wrong in (buffer.read, lambda: memoryview(buffer), lambda: buffer.write(b"x"), lambda: bulk.move_to(buffer)):
                    self.assertRaises(tombolo.BufferState, wrong)
                self.assertEqual(repr(buffer), "<tombolo.Buffer that was sent>")
                self.assertEqual(self.peer("a = bulk.recv(60)"), "None")
                self.assertEqual(self.peer("a.kind, a.metadata, a.count, a.pool"), "('moved', b'number 1', 1, None)")
                self.assertEqual(self.peer("a.buffer.read(0, 16)"), repr(b"\0\0\0what is moved"))
                self.assertEqual(pool.counts, Counts(3, 0, 0, 0, 1))
                # The peer changes it and moves it back.
                self.peer("a.buffer.write(b'WHAT', 3); bulk.move_to(a.buffer)")
                back = bulk.recv(PATIENCE).buffer
                self.assertEqual(back.read(0, 16), b"\0\0\0WHAT is moved")
                back.close()
                self.assertEqual(pool.counts.free, 4)
                self.peer("del a, pool; bulk.close()")

    def test_a_shared_buffer_is_read_and_released(self):
        for trust in ("full", "none"):
            with self.subTest(trust), Pair(self.peer, trust) as (bulk, pool):
                shared = bulk.share(pool.copy(b"read by both"), b"look")
                self.assertIsInstance(shared, tombolo.Shared)
                self.assertEqual((shared.is_own, shared.shares, bytes(shared)), (True, 1, b"read by both"))
                self.assertTrue(memoryview(shared).readonly)
                self.assertRaises(BufferError, shared.view, "uint8", writable=True)
                self.assertRaises(tombolo.BufferState, shared.reclaim)
                self.assertRaises(tombolo.BufferState, bulk.move_to, shared)
                self.peer("a = bulk.recv(60)")
                self.assertEqual(self.peer("a.kind, bytes(a.buffer), a.buffer.is_own"), "('shared', b'read by both', False)")
                self.assertEqual(self.peer("a.buffer.reclaim()"), "BufferState")
                self.assertEqual(self.peer("memoryview(a.buffer)[0] = 1"), "TypeError")
                self.assertEqual(self.peer("bulk.release(a.buffer, b'seen')"), "None")
                self.assertEqual(self.peer("bulk.release(a.buffer)"), "BufferState")
                arrival = bulk.recv(PATIENCE)
                self.assertEqual((arrival.kind, arrival.metadata, arrival.count), ("released", b"seen", 1))
                self.assertRaises(LookupError, lambda: arrival.buffer)
                again = shared.reclaim()
                self.assertEqual(len(again), LENGTH)
                again.write(b"write", 0)
                self.assertEqual(again.read(0, 12), b"writeby both")
                self.assertRaises(tombolo.BufferState, shared.read)
                again.close()
                self.assertEqual(pool.counts.free, 4)
                self.peer("del a, pool; bulk.close()")

    def test_buffers_dropped_by_the_peer_are_returned(self):
        with Pair(self.peer) as (bulk, pool):
            bulk.move_to(pool.take())
            shared = bulk.share(pool.take())
            bulk.share(shared)
            self.assertEqual(shared.shares, 2)
            self.peer("all = [bulk.recv(60) for _ in range(3)]; del all; bulk.settle()")

            def released():
                bulk.settle()
                if shared.shares or pool.counts.away:
                    raise LookupError

            eventually(released, LookupError)
            shared.close()
            self.assertEqual(pool.counts, Counts(4, 0, 0, 0, 0))
            self.peer("del pool; bulk.close()")

    def test_an_empty_buffer_is_passed_to_be_filled(self):
        with Pair(self.peer) as (bulk, pool):
            bulk.pass_to(pool.take(), b"fill it")
            self.peer("a = bulk.recv(60)")
            self.assertEqual(self.peer("a.kind, a.count, a.metadata"), "('passed', 1, b'fill it')")
            self.assertEqual(self.peer("pool.counts.free"), "1")
            self.peer("bulk.move_to(pool.copy(b'filled'))")
            self.assertEqual(bytes(bulk.recv(PATIENCE).buffer), b"filled")
            self.assertRaises(tombolo.InvalidArgument, bulk.pass_to, [pool.take(), pool.take()])
            self.peer("del pool, a; bulk.close()")

    def test_several_buffers_are_sent_atomically(self):
        for trust in ("full", "none"):
            with self.subTest(trust), Pair(self.peer, trust, 5) as (bulk, pool):
                pieces = [pool.copy(bytes([number]) * 3) for number in range(3)]
                pieces[0].set_part(1, 2)
                self.assertRaises(tombolo.OutOfRange, pieces[0].set_part, LENGTH, 1)
                sent = pool.take()
                bulk.move_to(sent)
                self.assertRaises(tombolo.BufferState, bulk.move_to, [*pieces, sent])
                self.assertRaises(tombolo.BufferState, bulk.move_to, [pieces[0], pieces[0]])
                self.assertEqual([len(piece) for piece in pieces], [2, 3, 3])
                bulk.move_to(pieces, b"three")
                self.assertEqual(self.peer("bulk.recv(60).count, [bytes(b) for b in bulk.recv(60).buffers]"), r"(1, [b'\x00\x00', b'\x01\x01\x01', b'\x02\x02\x02'])")
                shared = bulk.share([pool.copy(b"a")])
                self.assertEqual([bytes(each) for each in shared], [b"a"])
                self.assertRaises(tombolo.InvalidArgument, bulk.move_to, [])
                self.assertRaises(TypeError, bulk.move_to, b"no buffer")
                self.assertRaises(TypeError, bulk.move_to, [b"no buffer"])
                self.peer("bulk.recv(60); del pool; bulk.close()")

    def test_buffer_with_open_views_is_not_sent(self):
        for trust in ("full", "none"):
            with self.subTest(trust), Pair(self.peer, trust) as (bulk, pool):
                buffer = pool.take()
                view = memoryview(buffer)
                view[:5] = b"first"
                for send in (bulk.move_to, bulk.share, bulk.pass_to, lambda one: bulk.move_to([pool.take(), one])):
                    with self.assertRaises(tombolo.Exported) as raised:
                        send(buffer)
                    self.assertIsInstance(raised.exception, BufferError)
                    self.assertEqual(bytes(view[:5]), b"first")
                self.assertRaises(tombolo.Exported, buffer.close)
                self.assertEqual((buffer.views, pool.counts.away), (1, 0))
                view.release()
                bulk.move_to(buffer)
                self.peer("b = bulk.recv(60).buffer; v = memoryview(b)")
                self.assertEqual(self.peer("bytes(v[:5])"), "b'first'")
                self.assertEqual(self.peer("bulk.move_to(b)"), "Exported")
                self.assertEqual(self.peer("v[0] = 70; v.release(); bulk.move_to(b)"), "None")
                self.assertEqual(bulk.recv(PATIENCE).buffer.read(0, 5), b"First")
                self.peer("del b, v, pool; bulk.close()")

    def test_without_trust_sent_buffers_are_sealed(self):
        with Pair(self.peer, "none") as (bulk, pool):
            buffer = pool.copy(b"as it was")
            with buffer.view("uint8", writable=False) as fixed:
                self.assertTrue(fixed.readonly)
            shared = bulk.share(buffer)
            self.peer("b = bulk.recv(60).buffer")
            # The page is read-only for every holder, however it is reached.
            self.assertTrue(memoryview(shared).readonly)
            self.assertEqual(self.peer("bytes(b)"), "b'as it was'")
            # A moved buffer with a read-only view keeps its page until it is written to, which is refused
            # while the view is open.
            bulk.move_to(pool.copy(b"sealed"))
            self.peer("m = bulk.recv(60).buffer; v = m.view('uint8', writable=False)")
            self.assertEqual(self.peer("memoryview(m)"), "Exported")
            self.assertEqual(self.peer("m.write(b'x')"), "Exported")
            self.assertEqual(self.peer("bytes(v)"), "b'sealed'")
            self.assertEqual(self.peer("v.close(); m.write(b'S'); w = memoryview(m); w[1] = 69"), "None")
            self.assertEqual(self.peer("bytes(m)"), "b'SEaled'")
            self.peer("w.release(); del b, m, v, w, pool; bulk.close()")

    def test_pools_are_taken_declined_and_unassigned(self):
        name = fresh_name("asked")
        with domain().export_bulk(name, ask=True, max_pools=2) as listener:
            self.peer.start(f"bulk = domain.connect_bulk({name!r}, timeout=60)")
            bulk = listener.accept_bulk(PATIENCE)
            self.assertEqual(self.peer.answer(), "None")
            self.peer("pool = domain.create_pool(64, 2)")
            self.peer.start("bulk.assign(pool, 60)")
            offer = bulk.recv(PATIENCE)
            self.assertEqual((offer.kind, offer.offered), ("offered", (64, 2)))
            bulk.decline_pool(offer)
            self.assertEqual(self.peer.answer(), "PoolRefused")
            self.assertRaises(tombolo.InvalidArgument, bulk.take_pool, offer)
            self.peer.start("bulk.assign(pool, 60)")
            pool = bulk.take_pool(bulk.recv(PATIENCE))
            self.assertEqual(self.peer.answer(), "None")
            self.assertEqual((bulk.pools, len(pool)), ([pool], 2))
            self.peer.start("bulk.unassign(pool, 60)")
            gone = bulk.recv(PATIENCE)
            self.assertEqual((gone.kind, gone.pool), ("pool_gone", pool))
            self.assertEqual(self.peer.answer(), "None")
            self.assertEqual(bulk.pools, [])
            bulk.close()
            self.peer("del pool; bulk.close()")

    def test_ranks_of_a_job_move_buffers_of_a_shared_pool(self):
        job = "bulk-job-of-tests"
        self.peer(f"import os; os.environ.update(TOMBOLO_RANK='1', TOMBOLO_SIZE='2', TOMBOLO_JOB={job!r})")
        self.peer.start("bulk = domain.job().bulk_channel_to(0)")
        variables = {"TOMBOLO_RANK": "0", "TOMBOLO_SIZE": "2", "TOMBOLO_JOB": job}
        with unittest.mock.patch.dict(os.environ, variables):
            bulk = domain().job().bulk_channel_to(1, PATIENCE)
        self.assertEqual(self.peer.answer(), "None")
        self.peer.start("pool = bulk.recv_pool(60)")
        with bulk:
            pool = bulk.create_pool(64, 2, PATIENCE)
            self.assertEqual(self.peer.answer(), "None")
            bulk.move_to(pool.copy(b"moved"), b"1")
            self.assertEqual(self.peer("[bytes(b) for b in bulk.recv(60).buffers]"), "[b'moved']")
            self.assertEqual(len(pool), 2)
        self.peer("del pool; bulk.close()")

    def test_pool_on_two_channels_and_two_pools_on_one(self):
        with Peer() as other, Pair(self.peer) as (bulk, pool):
            second = domain().create_pool(128, 1)
            self.peer.start("second = bulk.recv_pool(60)")
            bulk.assign(second, PATIENCE)
            self.peer.answer()
            self.assertRaises(tombolo.PoolRefused, bulk.assign, second)
            bulk.move_to([pool.copy(b"one"), second.copy(b"two")])
            self.assertEqual(self.peer("[bytes(b) for b in bulk.recv(60).buffers]"), "[b'one', b'two']")
            # From this program through the peer to a third one, without a copy.
            name = fresh_name("chain")
            self.peer.start(f"listener = domain.export_bulk({name!r}); onward = listener.accept_bulk(60)")
            other(f"bulk = domain.connect_bulk({name!r}, timeout=60)")
            self.peer.answer()
            other.start("pool = bulk.recv_pool(60)")
            self.assertEqual(self.peer("onward.assign(pool, 60)"), "None")
            self.assertEqual(other.answer(), "None")
            bulk.move_to(pool.copy(b"from afar"))
            self.peer("onward.move_to(bulk.recv(60).buffer, b'on')")
            self.assertEqual(other("a = bulk.recv(60)"), "None")
            self.assertEqual(other("bytes(a.buffer), a.metadata"), "(b'from afar', b'on')")
            self.assertRaises(tombolo.PoolRefused, bulk.move_to, domain().create_pool(64, 1).take())
            self.peer("onward.close(); listener.close(); del pool, second; bulk.close()")

    def test_a_peer_that_dies_returns_its_buffers(self):
        with Peer() as mortal_peer, Pair(mortal_peer) as (bulk, pool):
            bulk.move_to(pool.take())
            shared = bulk.share(pool.copy(b"mine"))
            mortal_peer("a, b = bulk.recv(60), bulk.recv(60)")
            self.assertEqual(pool.counts.away, 1)
            mortal_peer.kill()
            with self.assertRaises(tombolo.PeerGone):
                bulk.recv(PATIENCE)
            self.assertEqual(pool.counts.away, 0)
            self.assertEqual(bytes(shared.reclaim())[:4], b"mine")
            kept = pool.take()
            self.assertRaises((tombolo.PeerGone, tombolo.PoolRefused), bulk.move_to, kept)
            self.assertEqual(len(kept), LENGTH)

    def test_waits_time_out_and_other_threads_run(self):
        with Pair(self.peer) as (bulk, _pool):
            self.assertRaises(tombolo.WouldBlock, bulk.recv, 0)
            self.assertRaises(tombolo.TimedOut, bulk.recv, 0.01)
            waiting = Task(lambda: bulk.recv(PATIENCE))

            def busy():
                bulk.settle()
                raise LookupError

            with self.assertRaises(tombolo.Busy):
                eventually(busy, LookupError)
            self.assertEqual(self.peer("p2 = domain.create_pool(64, 1)"), "None")
            self.peer.start("bulk.assign(p2, 60)")
            self.assertEqual(waiting.result().kind, "pool")
            self.assertEqual(self.peer.answer(), "None")
            self.peer("del pool, p2; bulk.close()")

    def test_full_channel_leaves_the_buffer_unsent(self):
        with Pair(self.peer, count=300) as (bulk, pool):
            sent = 0
            buffer = pool.take()
            with self.assertRaises(tombolo.WouldBlock):
                while True:
                    bulk.move_to(buffer, b"x" * 1000, 0)
                    sent, buffer = sent + 1, pool.take()
            self.assertRaises(tombolo.TimedOut, bulk.move_to, buffer, b"x" * 1000, 0.01)
            buffer.write(b"kept")
            self.assertEqual(pool.counts.away, sent)
            self.peer.start(f"for _ in range({sent + 1}): last = bulk.recv(60).buffer")
            bulk.move_to(buffer, b"", PATIENCE)
            self.assertEqual(self.peer.answer(), "None")
            self.assertEqual(self.peer("last.read(0, 4)"), "b'kept'")
            self.peer("del last, pool; bulk.close()")

    def test_arrivals_can_be_polled(self):
        with Pair(self.peer) as (bulk, pool):
            while bulk.arm():
                self.assertRaises(tombolo.WouldBlock, bulk.recv, 0)
            poll = select.poll()
            poll.register(bulk.fileno(), select.POLLIN)
            bulk.move_to(pool.copy(b"there and back"))
            self.peer("bulk.move_to(bulk.recv(60).buffer)")
            while not bulk.arm():
                self.assertTrue(poll.poll(PATIENCE * 1000))
            self.assertEqual(bytes(bulk.recv(0).buffer), b"there and back")

            self.peer("del pool; bulk.close()")

    def test_asyncio_tasks_send_and_receive_concurrently(self):
        async def run(bulk, pool):
            channel = tombolo.AsyncBulkChannel(bulk)
            with self.assertRaises(tombolo.TimedOut):
                await channel.recv(0.01)
            with self.assertRaises(tombolo.WouldBlock):
                await channel.recv(0)
            count = 10 * pool.count

            async def send():
                for number in range(count):
                    while True:
                        try:
                            buffer = pool.take()
                            break
                        except tombolo.NoBuffer:
                            channel.settle()
                            await asyncio.sleep(0.001)
                    await channel.move_to(buffer, number.to_bytes(2, "little") + bytes(1000), PATIENCE)

            receiving = asyncio.ensure_future(self.received_numbers(channel, count))
            await asyncio.sleep(0)
            self.peer.start(f"for _ in range({count}): a = bulk.recv(60); bulk.move_to(a.buffer, a.metadata)")
            await send()
            self.assertEqual(await receiving, list(range(count)))
            waiting = asyncio.ensure_future(channel.recv(PATIENCE))
            await asyncio.sleep(0)
            channel.close()
            with self.assertRaises(tombolo.Closed):
                await waiting

        with Pair(self.peer, count=20) as (bulk, pool):
            asyncio.run(run(bulk, pool))
            self.assertEqual(self.peer.answer(), "None")
            self.peer("del a, pool; bulk.close()")

    async def received_numbers(self, channel, count):
        found = []
        for _ in range(count):
            arrival = await channel.recv(PATIENCE)
            found.append(int.from_bytes(arrival.metadata[:2], "little"))
        return found

    def test_asyncio_connects_assigns_and_shares(self):
        async def run():
            with domain().export_bulk(fresh_name("aio")) as listener:
                self.peer.start(f"bulk = domain.connect_bulk({listener.name!r}, timeout=60)")
                async with await tombolo.AsyncBulkChannel.accept(listener, PATIENCE) as channel:
                    self.assertEqual(self.peer.answer(), "None")
                    pool = domain().create_pool(64, 2)
                    self.peer.start("pool = bulk.recv_pool(60)")
                    await channel.assign(pool, PATIENCE)
                    self.assertEqual(self.peer.answer(), "None")
                    shared = await channel.share(pool.copy(b"shared"), b"", PATIENCE)
                    self.peer("bulk.release(bulk.recv(60).buffer, b'seen')")
                    self.assertEqual((await channel.recv(PATIENCE)).metadata, b"seen")
                    await channel.pass_to(shared.reclaim(), b"", PATIENCE)
                    self.peer("theirs = domain.create_pool(64, 1)")
                    self.peer.start("bulk.assign(theirs, 60)")
                    taken = await channel.recv_pool(PATIENCE)
                    self.assertEqual(self.peer.answer(), "None")
                    self.assertEqual(len(taken), 1)
                self.peer("del pool, theirs; bulk.close()")

        asyncio.run(run())

    @unittest.skipIf(numpy is None, without("numpy"))
    def test_arrays_are_sent_without_a_copy(self):
        for trust in ("full", "none"):
            with self.subTest(trust), Pair(self.peer, trust) as (bulk, pool):
                buffer = pool.take()
                frame = buffer.array("float32", (64, 128))
                frame[:] = numpy.arange(64 * 128).reshape(64, 128)
                part = frame[3]
                del frame
                self.assertRaises(tombolo.Exported, bulk.move_to, buffer)
                del part
                bulk.move_to(buffer)
                self.peer("import numpy; b = bulk.recv(60).buffer; f = b.array('float32', (64, 128))")
                self.assertEqual(self.peer("float(f.sum())"), repr(float(numpy.arange(64 * 128).sum())))
                self.assertEqual(self.peer("f.flags.writeable, f.base is not None"), "(True, True)")
                shared = bulk.share(pool.copy(numpy.arange(10, dtype="int64")))
                self.assertFalse(shared.array("int64").flags.writeable)
                self.peer("s = bulk.recv(60).buffer")
                if numpy.lib.NumpyVersion(numpy.__version__) >= "2.1.0":
                    self.assertEqual(self.peer("int(numpy.from_dlpack(s.view('int64')).sum())"), "45")
                target = numpy.zeros(5, dtype="int64")
                shared.read_into(40, target)
                self.assertEqual(target.tolist(), [5, 6, 7, 8, 9])
                self.peer("del f, b, s, pool; import gc; gc.collect(); bulk.close()")

    @unittest.skipIf(pyarrow is None, without("pyarrow"))
    def test_arrow_arrays_are_copied_in_and_viewed(self):
        with Pair(self.peer) as (bulk, pool):
            numbers = pyarrow.array([1.5, 2.5], pyarrow.float64())
            buffer = pool.copy(numbers.buffers()[1])
            buffer.set_part(0, 16)
            taken = pyarrow.array(buffer.view("float64"))
            self.assertEqual(taken, numbers)
            self.assertRaises(tombolo.Exported, bulk.move_to, buffer)
            del taken
            bulk.move_to(buffer)
            self.assertEqual(self.peer("memoryview(bulk.recv(60).buffer).cast('d').tolist()"), "[1.5, 2.5]")
            self.peer("del pool; bulk.close()")


class Mistakes(unittest.TestCase):
    def test_pools_and_options_out_of_range(self):
        for wrong in ((63, 1), (0, 1), (64, 0)):
            self.assertRaises(tombolo.InvalidArgument, domain().create_pool, *wrong)
        self.assertRaises(tombolo.InvalidArgument, domain().create_pool, 64, 1, trust="some")
        self.assertRaises(tombolo.NoSuchNode, domain().create_pool, 64, 1, reachable_from="nowhere")
        for wrong in ({"max_pools": 0}, {"max_pools": 33}, {"max_metadata_bytes": 2049}, {"trust": "?"}):
            self.assertRaises(tombolo.InvalidArgument, domain().export_bulk, "any", **wrong)
        self.assertRaises(tombolo.InvalidArgument, domain().connect_bulk, "any", slots=3)
        with domain().export(fresh_name("plain")) as listener:
            self.assertRaises(tombolo.InvalidArgument, listener.accept_bulk, 0)

    def test_pool_limits_buffers_and_checks_bounds(self):
        pool = domain().create_pool(128, 2)
        self.assertEqual((len(pool), pool.buffer_bytes, pool.trust, pool.revoked), (2, 128, "full", False))
        first, second = pool.take(), pool.take()
        self.assertRaises(tombolo.NoBuffer, pool.take)
        number = second.number
        second.close()
        second.close()
        self.assertEqual(pool.take().number, number)
        self.assertRaises(tombolo.OutOfRange, pool.copy, bytes(129))
        self.assertEqual(pool.counts, Counts(1, 1, 0, 0, 0))
        self.assertRaises(tombolo.OutOfRange, first.write, b"x", 128)
        self.assertRaises(tombolo.OutOfRange, first.read, 100, 29)
        self.assertRaises(tombolo.OutOfRange, first.read, 0, 2**62)
        with pool.copy(b"short") as short:
            self.assertEqual((len(short), bytes(short)), (5, b"short"))
            self.assertRaises(tombolo.OutOfRange, short.write, b"longer")
        self.assertRegex(repr(pool), "<tombolo.Pool of 2 buffers of 128 bytes, trust full>")
        self.assertTrue(re.match(r"<tombolo.Buffer \d of 128 bytes>", repr(first)))

    def test_unreferenced_buffer_is_freed(self):
        pool = domain().create_pool(64, 1)
        view = memoryview(pool.take())
        self.assertEqual(pool.counts.free, 0)
        view[0] = 7
        gc.collect()
        self.assertEqual(view[0], 7)
        del view
        self.assertEqual(pool.counts.free, 1)

    def test_view_of_a_part_has_its_address(self):
        pool = domain().create_pool(64, 1)
        buffer = pool.take()
        buffer.set_part(3, 10)
        view = memoryview(buffer)
        view[:3] = b"abc"
        address = ctypes.addressof(ctypes.c_char.from_buffer(view))
        self.assertEqual(address % 64, 3)
        self.assertRaises(tombolo.InvalidArgument, buffer.view, "uint16")
        view.release()

    def test_classes_cannot_be_constructed(self):
        for kind in (tombolo.Pool, tombolo.Buffer, tombolo.Shared, tombolo.BulkChannel, tombolo.Arrival):
            self.assertRaises(TypeError, kind)
            self.assertTrue(kind.__doc__)


if __name__ == "__main__":
    unittest.main()
