"""Bulk channels in the event loop of asyncio."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Awaitable, Callable, Iterable, Optional, TypeVar, Union

from ._native import Arrival, Buffer, BulkChannel, Domain, Listener, Pool, Shared
from .errors import TimedOut, WouldBlock

_Result = TypeVar("_Result")

Buffers = Union[Buffer, Iterable[Buffer]]


class AsyncBulkChannel:
    """A :class:`BulkChannel <tombolo.BulkChannel>` whose waits do not block the event loop::

        async with await AsyncBulkChannel.connect(domain, "frames") as bulk:
            pool = domain.create_pool(1 << 20, 8)
            await bulk.assign(pool)
            await bulk.move_to(pool.copy(frame), b"number 1")
            arrival = await bulk.recv()

    Tasks may send and receive concurrently. Cancelling a waiting task leaves the channel unchanged.
    """

    def __init__(self, bulk: BulkChannel) -> None:
        self._bulk = bulk
        self._loop = asyncio.get_running_loop()
        #: Waiting tasks, and whether each waits for room.
        self._waiting: dict[asyncio.Future[None], bool] = {}
        self._watched: Optional[int] = None

    @classmethod
    async def connect(cls, domain: Domain, name: str, **options: Any) -> AsyncBulkChannel:
        """As :meth:`Domain.connect_bulk <tombolo.Domain.connect_bulk>`."""
        loop = asyncio.get_running_loop()
        return cls(await loop.run_in_executor(None, lambda: domain.connect_bulk(name, **options)))

    @classmethod
    async def accept(cls, listener: Listener, timeout: float = 30.0) -> AsyncBulkChannel:
        """As :meth:`Listener.accept_bulk <tombolo.Listener.accept_bulk>`."""
        return cls(await asyncio.get_running_loop().run_in_executor(None, listener.accept_bulk, timeout))

    @property
    def bulk(self) -> BulkChannel:
        """The underlying channel."""
        return self._bulk

    async def recv(self, timeout: float = 30.0) -> Arrival:
        """As :meth:`BulkChannel.recv <tombolo.BulkChannel.recv>`."""
        return await self._retry_until(lambda: self._bulk.recv(0), False, timeout)

    async def move_to(self, buffers: Buffers, metadata: Any = b"", timeout: float = 30.0) -> None:
        """As :meth:`BulkChannel.move_to <tombolo.BulkChannel.move_to>`."""
        await self._retry_until(lambda: self._bulk.move_to(buffers, metadata, 0), True, timeout)

    async def share(self, buffers: Union[Buffers, Shared], metadata: Any = b"", timeout: float = 30.0) -> Any:
        """As :meth:`BulkChannel.share <tombolo.BulkChannel.share>`."""
        return await self._retry_until(lambda: self._bulk.share(buffers, metadata, 0), True, timeout)

    async def pass_to(self, buffer: Buffer, metadata: Any = b"", timeout: float = 30.0) -> None:
        """As :meth:`BulkChannel.pass_to <tombolo.BulkChannel.pass_to>`."""
        await self._retry_until(lambda: self._bulk.pass_to(buffer, metadata, 0), True, timeout)

    async def release(self, shared: Shared, metadata: Any = b"", timeout: float = 30.0) -> None:
        """As :meth:`BulkChannel.release <tombolo.BulkChannel.release>`."""
        await self._retry_until(lambda: self._bulk.release(shared, metadata, 0), True, timeout)

    def settle(self) -> None:
        """As :meth:`BulkChannel.settle <tombolo.BulkChannel.settle>`, and wakes the tasks that receive. Do not call the method of the
        underlying channel while tasks wait: it consumes the wake-ups of what it finds.
        """
        self._bulk.settle()
        self._wake(keep_senders=True)

    async def assign(self, pool: Pool, timeout: float = 30.0) -> None:
        """As :meth:`BulkChannel.assign <tombolo.BulkChannel.assign>`, on a thread; the channel is not usable meanwhile."""
        await self._loop.run_in_executor(None, self._bulk.assign, pool, timeout)
        self._wake()

    async def recv_pool(self, timeout: float = 30.0) -> Pool:
        """Waits until the peer has assigned a pool. Drops everything else that arrives before."""
        return await self._with_timeout(self._next_pool(), timeout, "a pool")

    async def _next_pool(self) -> Pool:
        while True:
            arrival = await self.recv(float("inf"))
            if arrival.kind == "pool" and arrival.pool is not None:
                return arrival.pool

    async def _retry_until(self, attempt: Callable[[], _Result], for_room: bool, timeout: float) -> _Result:
        try:
            return attempt()
        except WouldBlock:
            if timeout == 0:
                raise
        what = "room" if for_room else "an arrival"
        return await self._with_timeout(self._retry(attempt, for_room), timeout, what)

    async def _with_timeout(self, work: Awaitable[_Result], timeout: float, what: str) -> _Result:
        try:
            return await asyncio.wait_for(work, None if timeout == float("inf") else timeout)
        except asyncio.TimeoutError:
            raise TimedOut(f"waited {timeout} s in vain for {what} on {self._bulk!r}") from None

    async def _retry(self, attempt: Callable[[], _Result], for_room: bool) -> _Result:
        while True:
            await self._wait_for_change(for_room)
            try:
                return attempt()
            except WouldBlock:
                if for_room:
                    # The descriptor does not signal again what the attempt has taken in: wake the receivers.
                    self.settle()

    async def _wait_for_change(self, for_room: bool) -> None:
        waiting: asyncio.Future[None] = self._loop.create_future()
        self._waiting[waiting] = for_room
        try:
            if self._bulk.arm(any(self._waiting.values())):
                # Something is ready already: yield, so that the tasks that were woken run before this one
                # looks again. Arrivals may wake a task that waits for room over and over, so it backs off
                # for a millisecond.
                self._wake()
                await asyncio.sleep(0.001 if for_room else 0)
            else:
                self._watch()
                await waiting
        finally:
            self._waiting.pop(waiting, None)
            if not self._waiting:
                self._unwatch()

    def _wake(self, keep_senders: bool = False) -> None:
        for waiting, for_room in list(self._waiting.items()):
            if not waiting.done() and not (keep_senders and for_room):
                waiting.set_result(None)
        if not keep_senders:
            self._unwatch()

    def _watch(self) -> None:
        if self._watched is None:
            self._watched = self._bulk.fileno()
            self._loop.add_reader(self._watched, self._wake)

    def _unwatch(self) -> None:
        if self._watched is not None:
            self._loop.remove_reader(self._watched)
            self._watched = None

    def close(self) -> None:
        """Closes the channel. Waiting tasks get ``Closed``."""
        self._wake()
        self._bulk.close()

    async def __aenter__(self) -> AsyncBulkChannel:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


__all__ = ["AsyncBulkChannel"]
