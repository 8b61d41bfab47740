"""Regions and the rights to them, and memory as other libraries view it."""

import ctypes
import gc
import math
import mmap
import os
import sys
import tempfile
import unittest

import tombolo
from support import PATIENCE, Peer, domain, eventually, eventually_raises, numpy, pyarrow, without
from tombolo import Extent, Kind, Rights
from tombolo.regions import Backing, Seal

PAGE = mmap.PAGESIZE

class Capabilities(unittest.TestCase):
    def test_region_is_created_shown_and_closed(self):
        region = domain().create_region(PAGE + 1)
        self.assertEqual((len(region), region.extent, region.rights), (2 * PAGE, Extent(0, 2 * PAGE), Rights.ALL))
        info = region.show()
        self.assertEqual(info.capability.id, region.id)
        self.assertEqual((info.capability.holder, info.capability.parent), (domain().id, None))
        self.assertEqual((info.region.backing, info.region.seal), (Backing.MEMORY, Seal.OPEN))
        self.assertIsNone(info.foreign)
        self.assertIn(region.id, [held.id for held in domain().capabilities()])
        self.assertIn(region.region, [known.id for known in domain().regions()])
        self.assertRegex(repr(region), r"<tombolo\.Region 0x[0-9a-f]+ to bytes 0\.\.\+8192 of region ")
        region.close()
        region.close()
        self.assertRaises(tombolo.NoSuchCapability, region.show)
        self.assertIn("let go", repr(region))
        self.assertNotIn(region.id, [held.id for held in domain().capabilities()])

    def test_derived_capability_cannot_exceed_its_parent(self):
        with domain().create_region(4 * PAGE) as region:
            part = region.derive((PAGE, 2 * PAGE), Rights.READ | Rights.GRANT)
            self.assertEqual((part.extent, part.region), (Extent(PAGE, 2 * PAGE), region.region))
            self.assertEqual(part.show().capability.parent, region.id)
            self.assertEqual(part.derive((PAGE, PAGE)).extent, Extent(2 * PAGE, PAGE))
            self.assertRaises(tombolo.LacksRight, part.derive, None, Rights.WRITE)
            self.assertRaises(tombolo.LacksRight, part.map, Rights.READ_WRITE)
            for extent in ((0, 3 * PAGE), (PAGE, 2 * PAGE), (2 * PAGE, 1), (1, PAGE), (0, 0), (2**63, 2**63)):
                self.assertRaises(tombolo.OutOfRange, part.derive, extent)
            self.assertRaises(tombolo.InvalidArgument, part.derive, None, 16)
            self.assertRaises(TypeError, part.derive, None, "read")

    def test_memory_is_split_into_parts_that_do_not_overlap(self):
        with domain().create_region(4 * PAGE) as region:
            first, last = region.split(Kind.POOL, [(0, PAGE), (2 * PAGE, 2 * PAGE)])
            self.assertEqual((first.kind, last.extent, region.kind), (Kind.POOL, Extent(2 * PAGE, 2 * PAGE), Kind.MEMORY))
            self.assertRaisesRegex(tombolo.InUse, f"{PAGE}\\+{2 * PAGE}.*{2 * PAGE}\\+{2 * PAGE}", region.split, Kind.FRAME, [(PAGE, 2 * PAGE)])
            self.assertRaises(tombolo.InUse, region.map)
            self.assertRaises(tombolo.WrongKind, first.map)
            self.assertRaises(tombolo.WrongKind, first.split, Kind.FRAME, [(0, PAGE)])
            self.assertRaises(tombolo.InvalidArgument, region.split, Kind.SERVICE, [(PAGE, PAGE)])
            pool = domain().create_pool(1024, 8, memory=last)
            self.assertEqual(pool.count, 8)
            self.assertRaises(tombolo.Denied, domain().create_pool, 1024, 4, memory=first, reachable_from="host")
            [frame] = region.split(Kind.FRAME, [(PAGE, PAGE)])
            with frame.map() as memory:
                memory.write(0, b"a frame")
            del pool
            region.revoke(PATIENCE)
            with region.map() as memory:
                self.assertEqual(memory.read(PAGE, 7), b"a frame")

    def test_a_service_without_a_name_is_reached_by_capability(self):
        listener, service = domain().serve()
        self.assertEqual((service.kind, service.rights), (Kind.SERVICE, Rights.CONNECT | Rights.GRANT))
        self.assertEqual(listener.name, "")
        self.assertRaises(tombolo.LacksRight, service.map, Rights.READ)
        self.assertRaises(tombolo.TimedOut, domain().connect_by, service, timeout=0.01)
        again = listener.capability()
        service.revoke_all(PATIENCE)
        self.assertRaises(tombolo.NoSuchCapability, domain().connect_by, service)
        listener.close()
        self.assertRaises(tombolo.NoSuchCapability, domain().connect_by, again)
        self.assertRaisesRegex(tombolo.NoSuchCapability, "was given nothing", domain().given, "part")

    def test_reads_and_writes_are_bounds_checked(self):
        with domain().create_region(PAGE) as region, region.map() as memory:
            self.assertEqual((len(memory), memory.writable, memory.revoked), (PAGE, True, False))
            memory.write(3, b"in the middle")
            memory.write(PAGE - 1, bytearray(b"!"))
            self.assertEqual(memory.read(3, 13), b"in the middle")
            self.assertEqual(memory.read(PAGE - 2), b"\0!")
            target = bytearray(6)
            memory.read_into(6, target)
            self.assertEqual(target, b"the mi")
            for wrong in (lambda: memory.read(PAGE, 1), lambda: memory.write(PAGE - 1, b"ab"), lambda: memory.read(0, 2**62)):
                self.assertRaises(tombolo.OutOfRange, wrong)
            self.assertRaises((TypeError, BufferError), memory.read_into, 0, b"not to be written")
            with region.map(Rights.READ) as read_only:
                self.assertEqual(read_only.read(3, 2), b"in")
                self.assertRaises(tombolo.LacksRight, read_only.write, 0, b"x")
        self.assertRaises(tombolo.Closed, memory.read)
        self.assertIn("closed", repr(memory))

    def test_right_is_granted_to_a_peer_and_revoked(self):
        with domain().create_region(PAGE) as region, region.map() as memory, Peer() as holder:
            memory.write(0, b"12345678")
            granted = region.grant(holder.id, Rights.READ)
            holder(f"held = domain.capability({granted})")
            holder("memory = held.map(); view = memoryview(memory)")
            self.assertEqual(holder("int(held.rights), len(memory), view.readonly"), f"(1, {PAGE}, True)")
            self.assertEqual(holder("memory.read(0, 8)"), "b'12345678'")
            self.assertEqual(holder("memory.write(0, b'x')"), "LacksRight")
            revocation = region.revoke(PATIENCE)
            self.assertEqual((revocation.removed, revocation.killed), (1, []))
            self.assertEqual(holder("memory.read(0, 8)"), "Revoked")
            # What still looks at it sees zeros, and never what is written here from now on.
            memory.write(0, b"a secret")
            self.assertEqual(holder("bytes(view[:8])"), repr(bytes(8)))
            self.assertEqual(holder("held.map()"), "NoSuchCapability")

    def test_right_is_given_to_a_peer(self):
        region, other = domain().create_region(PAGE), domain().create_region(PAGE)
        with Peer() as holder:
            given = region.give(holder.id)
            self.assertEqual(given, region.id)
            self.assertRaises(tombolo.NoSuchCapability, region.show)
            self.assertRaises(tombolo.NoSuchCapability, domain().capability, given)
            holder(f"held = domain.capability({given})")
            self.assertEqual(holder("held.rights == tombolo.Rights.ALL"), "True")
            self.assertEqual(holder("held.map().write(0, b'x')"), "None")
            self.assertEqual(holder(f"domain.capability({other.id})"), "NoSuchCapability")
        eventually_raises(tombolo.NoSuchDomain, lambda: other.grant(holder.id, Rights.READ))
        self.assertRaises(tombolo.NoSuchDomain, other.grant, 0, Rights.READ)

    def test_stale_ids_are_refused(self):
        for stale in (0, 1, 2**64 - 1):
            self.assertRaises(tombolo.NoSuchCapability, domain().capability, stale)
        region = domain().create_region(PAGE)
        revocation = region.revoke_all(PATIENCE)
        self.assertEqual(revocation.removed, 1)
        self.assertRaises(tombolo.NoSuchCapability, region.show)

    def test_revoked_mapping_reads_zeros(self):
        with domain().create_region(PAGE) as region, region.map() as writer:
            writer.write(0, b"\xff" * PAGE)
            reader = region.derive().map()
            exported = memoryview(reader)
            self.assertEqual(exported[0], 0xFF)
            region.revoke(PATIENCE)
            self.assertTrue(reader.revoked)
            self.assertEqual(bytes(exported), bytes(PAGE))
            exported[0] = 1
            self.assertEqual(writer.read(0, 1), b"\xff")
            self.assertIn("revoked", repr(reader))
            for checked in (reader.check, reader.read, lambda: reader.write(0, b"x")):
                self.assertRaises(tombolo.Revoked, checked)
            exported.release()

    def test_frozen_region_is_read_only(self):
        with domain().create_region(PAGE) as region:
            with region.map() as memory:
                memory.write(0, b"for ever")
                self.assertRaises(tombolo.Sealed, region.freeze)
                region.seal_to_sole_writer()
                self.assertRaises(tombolo.Sealed, region.map, Rights.READ_WRITE)
            eventually(region.freeze, tombolo.Sealed)
            self.assertEqual(region.show().region.seal, Seal.FROZEN)
            self.assertRaises(tombolo.Sealed, region.map)
            self.assertEqual(region.map(Rights.READ).read(0, 8), b"for ever")

    def test_files_and_existing_memory_become_regions(self):
        with tempfile.TemporaryFile() as file:
            file.write(b"from a file".ljust(PAGE, b"."))
            file.flush()
            with domain().region_of_file(file, PAGE) as region, region.map() as memory:
                self.assertEqual(memory.read(0, 11), b"from a file")
                memory.write(0, b"FROM")
            self.assertEqual(os.pread(file.fileno(), 11, 0), b"FROM a file")
            with open(f"/proc/self/fd/{file.fileno()}", "rb") as read_only:
                with domain().region_of_file(read_only.fileno(), PAGE) as region:
                    self.assertRaises(tombolo.Error, region.map, Rights.READ_WRITE)
        self.assertRaises(tombolo.InvalidArgument, domain().region_of_file, -1, PAGE)
        own = bytearray(b"here already".ljust(PAGE))
        with domain().register_memory(own) as region:
            place = region.show().foreign
            self.assertEqual((place.pid, region.show().region.backing), (os.getpid(), Backing.FOREIGN))
            self.assertEqual(ctypes.string_at(place.address, 12), b"here already")
            self.assertRaises(tombolo.NotReachable, region.map)
            self.assertRaises(BufferError, own.append, 1)
        own.append(1)

    def test_options_of_regions(self):
        self.assertRaises(tombolo.InvalidArgument, domain().create_region, PAGE, window=True)
        self.assertRaises(tombolo.NoSuchNode, domain().create_region, PAGE, node="nowhere")
        self.assertRaises(tombolo.Error, domain().create_region, 0)
        self.assertRaises(tombolo.InvalidArgument, domain().create_region(PAGE).revoke, math.nan)
        with domain().create_region(PAGE, node=domain().node_name, numa_node=0) as region:
            with region.map(populate=True) as memory:
                self.assertRaises(tombolo.System, region.map, address=memory.address)

    def test_classes_cannot_be_constructed(self):
        for kind in (tombolo.Mapping, tombolo.View, tombolo.Capability, tombolo.Region):
            self.assertRaises(TypeError, kind)
            self.assertTrue(kind.__doc__)
            self.assertEqual(kind.__module__, "tombolo")


class Views(unittest.TestCase):
    """Memory as other libraries view it."""

    def setUp(self):
        self.region = domain().create_region(PAGE)
        self.addCleanup(self.region.close)
        self.memory = self.region.map()

    def test_a_memoryview_is_the_memory(self):
        view = memoryview(self.memory)
        self.assertEqual((view.nbytes, view.format, view.readonly, view.contiguous), (PAGE, "B", False, True))
        self.assertIs(view.obj, self.memory)
        view[1:4] = b"abc"
        self.assertEqual(self.memory.read(0, 5), b"\0abc\0")
        view.cast("Q")[1] = 7
        self.assertEqual(self.memory.read(8, 8), (7).to_bytes(8, sys.byteorder))
        read_only = memoryview(self.region.map(Rights.READ))
        self.assertTrue(read_only.readonly)
        with self.assertRaises(TypeError):
            read_only[0] = 1
        self.assertRaises(TypeError, ctypes.c_char.from_buffer, read_only)

    def test_memory_with_open_views_is_not_unmapped(self):
        view = memoryview(self.memory)
        part = view[8:]
        with self.assertRaises(tombolo.Exported) as raised:
            self.memory.close()
        self.assertIsInstance(raised.exception, BufferError)
        view.release()
        self.assertRaises(tombolo.Exported, self.memory.close)
        part.release()
        self.memory.close()
        self.assertRaises(tombolo.Closed, memoryview, self.memory)

    def test_view_keeps_its_memory_alive(self):
        self.memory.write(0, b"still here")
        view = memoryview(self.memory)
        del self.memory
        gc.collect()
        self.assertEqual(bytes(view[:10]), b"still here")

    def test_items_and_shapes(self):
        view = self.memory.view("int32", (4, 3), offset=16)
        self.assertEqual((view.dtype, view.shape, view.nbytes, view.readonly), ("int32", (4, 3), 48, False))
        exported = memoryview(view)
        self.assertEqual((exported.format, exported.itemsize, exported.shape, exported.strides), ("i", 4, (4, 3), (12, 4)))
        exported[1, 2] = -5
        self.assertEqual(self.memory.read(16 + 20, 4), (-5).to_bytes(4, sys.byteorder, signed=True))
        self.assertEqual(bytes(view), self.memory.read(16, 48))
        self.assertEqual(self.memory.view("d").shape, (PAGE // 8,))
        self.assertEqual(self.memory.view("uint8", 3, PAGE - 3).shape, (3,))
        self.assertEqual(repr(view), "<tombolo.View of int32 [4, 3], writable>")
        for shape, offset in ((PAGE + 1, 0), ((PAGE, 2), 0), (1, PAGE), (2**62, 0), ((2**40, 2**40), 0), (1, 2**63)):
            self.assertRaises(tombolo.OutOfRange, self.memory.view, "uint8", shape, offset)
        self.assertRaises(tombolo.InvalidArgument, self.memory.view, "int32", 1, 2)
        self.assertRaises(tombolo.InvalidArgument, self.memory.view, "text")
        self.assertRaises(TypeError, self.memory.view, 7)

    def test_open_view_prevents_close(self):
        with self.memory.view("uint8") as view:
            self.assertRaises(tombolo.Exported, self.memory.close)
            exported = memoryview(view)
        self.assertRaises(tombolo.Closed, lambda: view.shape)
        self.assertRaises(tombolo.Closed, memoryview, view)
        self.assertRaises(tombolo.Exported, self.memory.close)
        exported.release()
        self.memory.close()

    def test_unused_dlpack_capsule_is_released(self):
        capsule = self.memory.view("float32").__dlpack__()
        self.assertIn('"dltensor"', repr(capsule))
        self.assertRaises(tombolo.Exported, self.memory.close)
        del capsule
        self.assertEqual(self.memory.view("uint8").__dlpack_device__(), (1, 0))
        versioned = self.memory.view("uint8").__dlpack__(max_version=(1, 1))
        self.assertIn('"dltensor_versioned"', repr(versioned))
        del versioned
        for wrong in ({"stream": 1}, {"copy": True}, {"dl_device": (2, 0)}):
            self.assertRaises(BufferError, self.memory.view("uint8").__dlpack__, **wrong)
        read_only = self.region.map(Rights.READ)
        self.assertRaises(BufferError, read_only.view("uint8").__dlpack__)
        gc.collect()
        self.memory.close()

    def test_arrow_capsules_describe_the_memory(self):
        """Read as the C data interface lays them out, without any library."""
        self.memory.write(0, b"".join(number.to_bytes(2, sys.byteorder) for number in range(4)))
        schema, array = self.memory.view("uint16", 4).__arrow_c_array__()
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        self.assertEqual(ctypes.string_at(ctypes.c_char_p.from_address(get(schema, b"arrow_schema")).value), b"S")
        numbers = (ctypes.c_int64 * 5).from_address(get(array, b"arrow_array"))
        self.assertEqual(list(numbers), [4, 0, 0, 2, 0])
        buffers = ctypes.c_void_p.from_address(get(array, b"arrow_array") + 40).value
        validity, data = (ctypes.c_void_p * 2).from_address(buffers)
        self.assertEqual((validity, data), (None, self.memory.address))
        self.assertEqual(list((ctypes.c_uint16 * 4).from_address(data)), [0, 1, 2, 3])
        self.assertRaises(tombolo.Exported, self.memory.close)
        del schema, array
        self.memory.close()

    def test_types_without_an_arrow_equivalent_are_refused(self):
        for view in (self.memory.view("bool"), self.memory.view("uint8", (2, 2)), self.memory.view("complex64")):
            self.assertRaises(BufferError, view.__arrow_c_array__)
            self.assertRaises(BufferError, view.__arrow_c_schema__)

    @unittest.skipIf(numpy is None, without("numpy"))
    def test_numpy_views_memory_without_a_copy(self):
        numbers = numpy.frombuffer(self.memory, "uint32")
        numbers[3] = 77
        self.assertEqual(self.memory.read(12, 4), (77).to_bytes(4, sys.byteorder))
        grid = self.memory.array("float32", (2, 5), offset=64)
        grid[:] = numpy.arange(10, dtype="float32").reshape(2, 5)
        self.assertEqual(grid.__array_interface__["data"][0], self.memory.address + 64)
        self.assertEqual(self.memory.view(numpy.float32, 1, 64 + 36).dtype, "float32")
        self.assertEqual(memoryview(self.memory.view(numpy.dtype("float32"), 10, 64))[9], 9.0)
        read_only = self.region.map(Rights.READ)
        fixed = read_only.array("uint8")
        with self.assertRaises(ValueError):
            fixed[0] = 1
        with self.assertRaises(ValueError):
            fixed.flags.writeable = True
        self.assertRaises(tombolo.Exported, self.memory.close)
        del numbers, grid
        self.memory.close()
        z = read_only.view("complex128", 2)
        self.assertEqual(numpy.asarray(z).dtype, numpy.complex128)

    @unittest.skipIf(numpy is None, without("numpy"))
    def test_numpy_imports_dlpack_without_a_copy(self):
        for view in (self.memory.view("float64", (4, 2)), self.region.map(Rights.READ).view("int16")):
            if view.readonly and numpy.lib.NumpyVersion(numpy.__version__) < "2.1.0":
                self.assertRaises(BufferError, numpy.from_dlpack, view)
                continue
            taken = numpy.from_dlpack(view)
            self.assertEqual((taken.shape, taken.dtype), (view.shape, numpy.dtype(view.dtype)))
            self.assertFalse(taken.flags.writeable and view.readonly)
            self.assertEqual(taken.ctypes.data % 4096, 0)
        del taken, view
        gc.collect()
        self.memory.close()

    @unittest.skipIf(numpy is None, without("numpy"))
    def test_write_takes_only_contiguous_tensors(self):
        class Tensor:
            """Has its bytes by DLPack alone."""

            def __init__(self, array):
                self._array = array

            def __dlpack__(self, **options):
                return self._array.__dlpack__(**options)

            def __dlpack_device__(self):
                return self._array.__dlpack_device__()

        numbers = numpy.arange(6, dtype="uint16")
        self.memory.write(0, Tensor(numbers))
        self.assertEqual(self.memory.read(0, 12), numbers.tobytes())
        self.assertRaises((ValueError, BufferError), self.memory.write, 0, numbers[::2])
        self.assertRaises(TypeError, self.memory.write, 0, 7)

    @unittest.skipIf(pyarrow is None, without("pyarrow"))
    def test_arrow_imports_an_array_without_a_copy(self):
        numbers = self.memory.view("int64", 4)
        memoryview(numbers)[:] = memoryview(bytes(range(32))).cast("q")
        taken = pyarrow.array(numbers)
        self.assertEqual(taken.type, pyarrow.int64())
        self.assertEqual(taken.buffers()[1].address, self.memory.address)
        self.assertEqual(taken.to_pylist(), list(memoryview(numbers)))
        numbers.close()
        del numbers
        self.assertRaises(tombolo.Exported, self.memory.close)
        del taken
        self.memory.close()


if __name__ == "__main__":
    unittest.main()
