"""Hubs: channels, semaphores, locks, events and pools that programs on all nodes share.

A hub is on one node, and any node finds it by name. ``tombolo hubs serve`` or an application file creates hubs. A
:class:`Task` is the user of hubs: one thread of a program, with a priority::

    import tombolo
    from tombolo.hubs import Task

    task = Task(tombolo.attach())
    jobs = task.chan("jobs", "u64")
    results = task.chan("results", "u64")
    for job in jobs:                    # until 'jobs' is closed and empty
        results.send(job * job)
    with task.resource("guard").lock() as owned:
        print("the fencing token is", owned.fencing_token)

In asyncio, :class:`AsyncTask` has the same operations as coroutines.

* Every wait has a timeout, in seconds (30 by default). With 0, operations do not wait, and raise ``WouldBlock``.
* Waiters are served by priority, then in order of arrival.
* When a hub's node or the server of its hubs dies, waits on the hub end with ``PeerDied``.
"""

from __future__ import annotations

import asyncio
import struct
from types import TracebackType
from typing import Any, Callable, Generic, Iterator, NamedTuple, Optional, Sequence, TypeVar, Union

from ._native import DEFAULT_TIMEOUT, Begun, Domain, HubEnd, Mapping, TaskEnd
from .errors import HubClosed, HubRefused

_Self = TypeVar("_Self")
_HeldSelf = TypeVar("_HeldSelf", bound="_Held")

#: ``struct`` formats of the numeric value types.
_NUMBERS = {
    "u8": "<B",
    "u16": "<H",
    "u32": "<I",
    "u64": "<Q",
    "i8": "<b",
    "i16": "<h",
    "i32": "<i",
    "i64": "<q",
    "f32": "<f",
    "f64": "<d",
    "bool": "<?",
}


class _Codec(NamedTuple):
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


def _encode_unit(value: Any) -> bytes:
    if value is not None:
        raise TypeError(f"a value of type 'unit' is None, not {value!r}")
    return b""


def _element_types(value_type: str) -> list[str]:
    """Splits the type of a tuple into its element types."""
    parts, depth, begun = [], 0, 1
    for at, letter in enumerate(value_type):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if (letter == "," and depth == 1) or (depth == 0 and letter == ")"):
            parts.append(value_type[begun:at])
            begun = at + 1
    return parts


def _tuple_codec(codecs: Sequence[_Codec]) -> _Codec:
    def encode(values: Any) -> bytes:
        if not isinstance(values, tuple) or len(values) != len(codecs):
            raise TypeError(f"{values!r} is not a tuple of {len(codecs)}")
        fields = [codec.encode(value) for codec, value in zip(codecs, values)]
        return b"".join(struct.pack("<I", len(field)) + field for field in fields)

    def decode(data: bytes) -> tuple[Any, ...]:
        values, at = [], 0
        for codec in codecs:
            (length,) = struct.unpack_from("<I", data, at)
            if length > len(data) - at - 4:
                raise ValueError("a value of the tuple is cut off")
            values.append(codec.decode(data[at + 4 : at + 4 + length]))
            at += 4 + length
        if at != len(data):
            raise ValueError("something follows the tuple")
        return tuple(values)

    return _Codec(encode, decode)


def _codec(value_type: str) -> _Codec:
    value_type = value_type.strip()
    if value_type.startswith("("):
        return _tuple_codec([_codec(part) for part in _element_types(value_type)])
    form = _NUMBERS.get(value_type)
    if form is not None:
        number = struct.Struct(form)
        return _Codec(number.pack, lambda data: number.unpack(data)[0])
    if value_type == "text":
        return _Codec(str.encode, bytes.decode)
    if value_type == "unit":
        return _Codec(_encode_unit, lambda data: None)
    return _Codec(bytes, bytes)


def _decode(hub: HubEnd, codec: _Codec, data: bytes) -> Any:
    try:
        return codec.decode(data)
    except (struct.error, ValueError) as error:
        raise HubRefused(f"hub {hub.name!r} on {hub.node} brought {len(data)} bytes that are not a value: {error}") from None


class _Hub:
    """Base class of all hubs."""

    def __init__(self, end: HubEnd) -> None:
        self._end = end

    @property
    def name(self) -> str:
        """The hub's name."""
        return self._end.name

    @property
    def node(self) -> str:
        """The node that the hub is on."""
        return self._end.node

    @property
    def capacity(self) -> int:
        """Maximum number of values, units or blocks; 0 for a port."""
        return self._end.capacity

    def __repr__(self) -> str:
        return f"<tombolo.hubs.{type(self).__name__} {self.name!r} on {self.node}>"

    # Converts what a get or a select returns.
    def _convert_result(self, taken: Any) -> Any:
        return taken


class _Closable(_Hub):
    def close(self) -> None:
        """Closes the hub: it accepts nothing from now on, and waiters get ``HubClosed`` once it is empty. Raises ``HubClosed`` if it
        was closed already.
        """
        self._end.close()


class _ValueChannel(_Closable):
    def __init__(self, end: HubEnd, value_type: str) -> None:
        super().__init__(end)
        self._codec = _codec(value_type)

    def __len__(self) -> int:
        """Number of values in the channel; a hint, as others send and receive concurrently."""
        return self._end.depth()

    def __bool__(self) -> bool:
        # An empty channel is true too, although its length is 0.
        return True

    def _convert_result(self, taken: Any) -> Any:
        return _decode(self._end, self._codec, taken)


class _Held:
    """A lock or block that a task holds, until :meth:`release` or the end of a ``with``."""

    def __init__(self, end: HubEnd, taken: tuple[int, int, bool]) -> None:
        self._end = end
        self._number, self._token, self._abandoned = taken
        self._held = True

    @property
    def fencing_token(self) -> int:
        """A number larger than that of every earlier holder. Whatever the lock protects can reject smaller ones."""
        return self._token

    def release(self) -> None:
        """Releases the lock or block without waiting for the answer."""
        if self._held:
            self._held = False
            self._end.release(self._token)

    def __enter__(self: _HeldSelf) -> _HeldSelf:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()


class Owned(_Held):
    """A resource that this task owns."""

    @property
    def was_abandoned(self) -> bool:
        """Whether the previous owner died while it owned the resource: what it protects may be inconsistent."""
        return self._abandoned

    def unlock(self) -> None:
        """Unlocks the resource, and waits until that is done."""
        self._held = False
        self._end.give_back(self._token)


class Block(_Held):
    """A block of a pool that this task holds."""

    def __init__(self, end: HubEnd, taken: tuple[int, int, bool], memory: Optional[Mapping]) -> None:
        super().__init__(end, taken)
        self._memory = memory

    @property
    def number(self) -> int:
        """Number of the block, from 0."""
        return self._number

    @property
    def memory(self) -> memoryview:
        """The block's bytes, which its next holder shares: release the view before the block. Raises ``HubRefused`` if this task and
        the pool are on different kernels.
        """
        if self._memory is None:
            raise HubRefused(f"pool {self._end.name!r} is on {self._end.node}, whose memory this program cannot map")
        size = self._end.value_bytes
        return memoryview(self._memory)[self._number * size : (self._number + 1) * size]


class Chan(_ValueChannel):
    """A port or fifo, opened by :meth:`Task.chan`. A port is Go's unbuffered channel: a send completes when a receiver takes the
    value. A fifo is Go's buffered channel: a send completes when the value is stored.
    """

    def send(self, value: Any, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Sends a value, waiting for a receiver or for room."""
        self._end.put(self._codec.encode(value), timeout)

    def recv(self, timeout: float = DEFAULT_TIMEOUT) -> Any:
        """Receives a value. Raises ``HubClosed`` when the channel is closed and empty."""
        return self._convert_result(self._end.get(timeout))

    def __iter__(self) -> Iterator[Any]:
        """Receives until it is closed and empty."""
        while True:
            try:
                value = self.recv()
            except HubClosed:
                return
            yield value


class Event(_Closable):
    """A bit, raised by one task, awaited and cleared by another."""

    def raise_(self, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Raises the event, waiting while it is still raised."""
        self._end.put(b"", timeout)

    def wait(self, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Waits until the event is raised, and clears it."""
        self._end.get(timeout)


class Semaphore(_Closable):
    """A count, from 0 to its capacity."""

    def signal(self, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Increases the count, waiting while it is at its maximum."""
        self._end.put(b"", timeout)

    def wait(self, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Waits until the count is positive, and decreases it."""
        self._end.get(timeout)

    @property
    def count(self) -> int:
        """The count; a hint, as others change it concurrently."""
        return self._end.depth()


class Resource(_Hub):
    """A lock with an owner, which inherits the highest priority of its waiters."""

    def lock(self, timeout: float = DEFAULT_TIMEOUT) -> Owned:
        """Locks the resource, waiting while another task owns it. Raises ``HubHeld`` if this task owns it."""
        return self._convert_result(self._end.get(timeout))

    def _convert_result(self, taken: Any) -> Owned:
        return Owned(self._end, taken)


class Pool(_Hub):
    """Blocks of memory of equal size, each held by one task at a time."""

    def __init__(self, end: HubEnd) -> None:
        super().__init__(end)
        self._memory = end.map()

    @property
    def block_bytes(self) -> int:
        """The size of a block."""
        return self._end.value_bytes

    @property
    def is_mapped(self) -> bool:
        """Whether the blocks' memory is mapped here: on other kernels, blocks are only numbers."""
        return self._memory is not None

    def allocate(self, timeout: float = DEFAULT_TIMEOUT) -> Block:
        """Allocates a block, waiting until one is free. It contains what its last holder left."""
        return self._convert_result(self._end.get(timeout))

    def _convert_result(self, taken: Any) -> Block:
        return Block(self._end, taken, self._memory)


#: Arm of a select: a hub to take from, or a channel and the value to send.
Arm = Union[_Hub, "tuple[_Valued, Any]"]


def _select_ends(arms: Sequence[Arm]) -> list[tuple[HubEnd, Optional[bytes]]]:
    ends: list[tuple[HubEnd, Optional[bytes]]] = []
    for arm in arms:
        if isinstance(arm, tuple):
            chan, value = arm
            ends.append((chan._end, chan._codec.encode(value)))
        else:
            ends.append((arm._end, None))
    return ends


def _select_result(arms: Sequence[Arm], result: tuple[int, Any]) -> tuple[int, Any]:
    index, taken = result
    arm = arms[index]
    return index, None if isinstance(arm, tuple) or taken is None else arm._convert_result(taken)


class _TaskBase:
    """Base class of both kinds of tasks."""

    def __init__(self, domain: Domain, priority: Optional[int] = None) -> None:
        self._end = TaskEnd(domain, priority)

    @property
    def inherited_priority(self) -> int:
        """The highest priority waiting for a resource that this task owns; 0 for none."""
        return self._end.inherited_priority()


class Task(_TaskBase):
    """The user of hubs: one thread of a program.

    `priority`, 0 to 255, is that of the task's requests in the queues of hubs; larger is more urgent. The default is the one in the
    application file, or else 100. When a task ends, its waits are cancelled, and its locks and blocks are released.
    """

    def chan(self, name: str, value_type: str = "", timeout: float = DEFAULT_TIMEOUT) -> Chan:
        """Opens a port or fifo of ``u8`` to ``u64``, ``i8`` to ``i64``, ``f32``, ``f64``, ``bool``, ``text`` or ``unit``, or of tuples
        such as ``(u64, text)``. Values of any other type, which must be the hub's, and of the empty type are bytes.
        """
        return Chan(self._end.open(name, ["port", "fifo"], value_type, timeout), value_type)

    def event(self, name: str, timeout: float = DEFAULT_TIMEOUT) -> Event:
        """Opens an event."""
        return Event(self._end.open(name, ["event"], "", timeout))

    def semaphore(self, name: str, timeout: float = DEFAULT_TIMEOUT) -> Semaphore:
        """Opens a semaphore."""
        return Semaphore(self._end.open(name, ["semaphore"], "", timeout))

    def resource(self, name: str, timeout: float = DEFAULT_TIMEOUT) -> Resource:
        """Opens a resource."""
        return Resource(self._end.open(name, ["resource"], "", timeout))

    def pool(self, name: str, timeout: float = DEFAULT_TIMEOUT) -> Pool:
        """Opens a pool, and maps its memory if the pool is on the same kernel."""
        return Pool(self._end.open(name, ["pool"], "", timeout))

    def select(self, *arms: Arm, timeout: float = DEFAULT_TIMEOUT) -> tuple[int, Any]:
        """Waits for the first of several operations, on hubs of any nodes, and performs one. Returns its index and what it took.

        An arm is a hub to take from, or a channel and a value to send::

            index, value = task.select(jobs, (results, 7), done)
        """
        return _select_result(arms, self._end.select(_select_ends(arms), timeout))


class AsyncChan(_ValueChannel):
    """A :class:`Chan` in asyncio."""

    def __init__(self, task: AsyncTask, end: HubEnd, value_type: str) -> None:
        super().__init__(end, value_type)
        self._task = task

    async def send(self, value: Any, timeout: float = DEFAULT_TIMEOUT) -> None:
        """As :meth:`Chan.send`. A cancelled send may have sent the value."""
        await self._task._wait_for(self._end.start_put(self._codec.encode(value), timeout))

    async def recv(self, timeout: float = DEFAULT_TIMEOUT) -> Any:
        """As :meth:`Chan.recv`. A value that arrives for a cancelled receive goes to the next one."""
        return self._convert_result(await self._task._wait_for(self._end.start_get(timeout)))

    def __aiter__(self) -> AsyncChan:
        """Receives until it is closed and empty."""
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.recv()
        except HubClosed:
            raise StopAsyncIteration from None


class _AsyncHub(_Hub):
    def __init__(self, task: AsyncTask, end: HubEnd) -> None:
        super().__init__(end)
        self._task = task


class AsyncEvent(_AsyncHub, _Closable):
    """An :class:`Event` in asyncio."""

    async def raise_(self, timeout: float = DEFAULT_TIMEOUT) -> None:
        """As :meth:`Event.raise_`."""
        await self._task._wait_for(self._end.start_put(b"", timeout))

    async def wait(self, timeout: float = DEFAULT_TIMEOUT) -> None:
        """As :meth:`Event.wait`."""
        await self._task._wait_for(self._end.start_get(timeout))


class AsyncSemaphore(_AsyncHub, _Closable):
    """A :class:`Semaphore` in asyncio."""

    async def signal(self, timeout: float = DEFAULT_TIMEOUT) -> None:
        """As :meth:`Semaphore.signal`."""
        await self._task._wait_for(self._end.start_put(b"", timeout))

    async def wait(self, timeout: float = DEFAULT_TIMEOUT) -> None:
        """As :meth:`Semaphore.wait`."""
        await self._task._wait_for(self._end.start_get(timeout))


class AsyncResource(_AsyncHub):
    """A :class:`Resource` in asyncio."""

    async def lock(self, timeout: float = DEFAULT_TIMEOUT) -> Owned:
        """As :meth:`Resource.lock`."""
        return self._convert_result(await self._task._wait_for(self._end.start_get(timeout)))

    def _convert_result(self, taken: Any) -> Owned:
        return Owned(self._end, taken)


class AsyncTask(_TaskBase):
    """A :class:`Task` in the event loop of asyncio. Any number of coroutines may use it, and wait concurrently::

        task = AsyncTask(tombolo.attach())
        jobs = await task.chan("jobs", "u64")
        async for job in jobs:
            print(job)

    A cancelled operation is withdrawn.
    """

    def __init__(self, domain: Domain, priority: Optional[int] = None) -> None:
        super().__init__(domain, priority)
        self._loop = asyncio.get_running_loop()
        self._waiting: set[asyncio.Future[None]] = set()

    async def _open(self, name: str, kinds: list[str], value_type: str, timeout: float) -> HubEnd:
        opening = self._loop.run_in_executor(None, self._end.open, name, kinds, value_type, timeout)
        while not opening.done():
            # The thread may receive answers that other coroutines wait for.
            await asyncio.wait({opening}, timeout=0.02)
            self._wake()
        return opening.result()

    async def chan(self, name: str, value_type: str = "", timeout: float = DEFAULT_TIMEOUT) -> AsyncChan:
        """As :meth:`Task.chan`."""
        return AsyncChan(self, await self._open(name, ["port", "fifo"], value_type, timeout), value_type)

    async def event(self, name: str, timeout: float = DEFAULT_TIMEOUT) -> AsyncEvent:
        """As :meth:`Task.event`."""
        return AsyncEvent(self, await self._open(name, ["event"], "", timeout))

    async def semaphore(self, name: str, timeout: float = DEFAULT_TIMEOUT) -> AsyncSemaphore:
        """As :meth:`Task.semaphore`."""
        return AsyncSemaphore(self, await self._open(name, ["semaphore"], "", timeout))

    async def resource(self, name: str, timeout: float = DEFAULT_TIMEOUT) -> AsyncResource:
        """As :meth:`Task.resource`."""
        return AsyncResource(self, await self._open(name, ["resource"], "", timeout))

    async def select(self, *arms: Arm, timeout: float = DEFAULT_TIMEOUT) -> tuple[int, Any]:
        """As :meth:`Task.select`."""
        return _select_result(arms, await self._wait_for(self._end.start_select(_select_ends(arms), timeout)))

    async def _wait_for(self, begun: Begun) -> Any:
        try:
            while True:
                self._receive_answers()
                result = begun.try_take()
                if result is not None:
                    return result[0]
                await self._wait_for_change(begun.seconds_left())
        finally:
            begun.withdraw()

    def _receive_answers(self) -> None:
        if self._end.hear():
            self._wake()

    async def _wait_for_change(self, seconds: float) -> None:
        if not self._waiting:
            self._loop.add_reader(self._end.fileno(), self._wake)
        waiting: asyncio.Future[None] = self._loop.create_future()
        self._waiting.add(waiting)
        timer = self._loop.call_later(seconds, self._wake)
        try:
            await waiting
        finally:
            timer.cancel()
            self._waiting.discard(waiting)
            if not self._waiting:
                self._loop.remove_reader(self._end.fileno())

    def _wake(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)


__all__ = [
    "AsyncChan",
    "AsyncEvent",
    "AsyncResource",
    "AsyncSemaphore",
    "AsyncTask",
    "Block",
    "Chan",
    "Event",
    "Owned",
    "Pool",
    "Resource",
    "Semaphore",
    "Task",
]
