"""Runtime of generated stubs. Programs use the stubs; the names of this module that they need are in ``tombolo`` too.

A stub consists of declarations: types with the offsets of their fields, messages with their ordinals, and methods by name.
The compiled half of the package interprets them to encode and decode messages.
"""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import time
from types import TracebackType
from typing import Any, Awaitable, Callable, ClassVar, Generic, Optional, Tuple, TypeVar, Union

from ._native import (
    BOOL,
    DOMAIN,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Channel,
    ClientEnd,
    Domain,
    FarEnd,
    Interface,
    Later,
    Listener,
    Message,
    ServerEnd,
    Type,
    array,
    blob,
    call,
    message,
    number,
    optional,
    parameters,
    record,
    right,
    sequence,
    text,
    union,
)
from ._native import current_server as _blocking_server
from .errors import Declined, NoRoom, NotOutstanding, PeerGone, TimedOut, Unserved, WouldBlock
from .regions import Right as Right

Buffer = Union[bytes, bytearray, memoryview]

Results = TypeVar("Results")


@dataclasses.dataclass(frozen=True)
class UnknownCase:
    """A case of a union that this side does not know, from a newer peer. It cannot be sent."""

    ordinal: int


_serving: contextvars.ContextVar[Any] = contextvars.ContextVar("tombolo.serving")


def current_server() -> Any:
    """Returns the server that is calling the current handler, to send events to its client."""
    server = _serving.get(None)
    return _blocking_server() if server is None else server


class Pending(Generic[Results]):
    """A call in flight, started with a client's ``start_…``."""

    def __init__(self, client: Client, message: Message, values: Tuple[Any, ...], timeout: Optional[float]) -> None:
        self._client = client
        self._message = message
        self._timeout = client.default_timeout if timeout is None else timeout
        self._end = time.monotonic() + self._timeout
        self._number = client._start(message, values, timeout)

    @property
    def is_ready(self) -> bool:
        """Whether :meth:`wait` would return at once. Updated by the client's ``poll``."""
        return self._client._is_ready(self._number)

    def wait(self) -> Results:
        """Waits for the answer until the call's deadline. Answers to other calls are kept."""
        left = max(0.0, self._end - time.monotonic())
        return self._client._wait(self._message, self._number, left, self._timeout)

    def cancel(self) -> None:
        """Cancels the call: notifies the server, and drops the answer if one arrives."""
        self._client._give_up(self._number)


class Client(ClientEnd):
    """The calling end of a channel: calls wait for their answers, and ``start_…`` allows several calls in flight.

    One thread at a time may use it. ``events`` is an object with methods for the server's events, which are called from within
    methods of the client.
    """

    INTERFACE: ClassVar[Interface]

    @classmethod
    def connect(
        cls,
        domain: Domain,
        name: str,
        *,
        events: Any = None,
        connect_timeout: float = 30.0,
        timeout: float = 30.0,
        slots: Optional[int] = None,
        spin: Optional[float] = None,
    ) -> Any:
        """Connects to the program that exports a name.

        ``timeout`` is the default timeout of calls; ``connect_timeout`` bounds the connecting.
        """
        options = {"timeout": connect_timeout, "slots": slots, "spin": spin}
        channel = domain.connect(name, interface_hash=cls.INTERFACE.hash, **options)
        return cls(channel, events, timeout=timeout)

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Server(ServerEnd):
    """The serving end of a channel: ``serve`` until the client is gone, or ``serve_one`` message at a time.

    One thread at a time may use it; its handler may use it too.
    """

    INTERFACE: ClassVar[Interface]

    @classmethod
    def export(cls, domain: Domain, name: str, *, spin: Optional[float] = None) -> Listener:
        """Exports a name for clients of this interface."""
        return domain.export(name, interface_hash=cls.INTERFACE.hash, spin=spin)

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_NO_ROOM = "the channel had no room for the message in time: nothing was sent"


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


class _Watcher:
    """Wakes tasks when an end of a channel becomes readable or has room, with one reader in the loop for all."""

    def __init__(self, end: Any, on_ready: Callable[[], None]) -> None:
        self._end = end
        self._on_ready = on_ready
        self._loop = asyncio.get_running_loop()
        self._descriptor = end.fileno()
        # The sender that waits for room; the others queue behind it on the lock.
        self._for_room: Optional[asyncio.Future[None]] = None
        self._queue = asyncio.Lock()
        self._scheduled = False
        self._loop.add_reader(self._descriptor, self._readable)

    def _readable(self) -> None:
        self._scheduled = False
        if self._for_room is not None and not self._for_room.done():
            self._for_room.set_result(None)
        self._on_ready()
        self.arm()

    def arm(self) -> None:
        """Arms the descriptor, or schedules `_readable` if something is ready already."""
        if self._descriptor < 0 or self._scheduled:
            return
        try:
            ready = self._end.arm(self._for_room is not None and not self._for_room.done())
        except PeerGone:
            return
        if ready:
            self._scheduled = True
            self._loop.call_soon(self._readable)

    async def send(self, attempt: Callable[[], Any], seconds: float) -> Any:
        """Retries a send until there is room, one sender at a time, in order. `seconds` limits the wait for room, but not the
        wait for the senders before it."""
        if not self._queue.locked():
            try:
                return attempt()
            except NoRoom:
                pass
        async with self._queue:
            end = self._loop.time() + seconds
            while True:
                try:
                    return attempt()
                except NoRoom:
                    await self._wait_for_room(end)

    async def send_before(self, attempt: Callable[[], Any], seconds: float) -> Any:
        """As :meth:`send`, but `seconds` limits the total time."""
        if not self._queue.locked():
            try:
                return attempt()
            except NoRoom:
                pass
        try:
            return await asyncio.wait_for(self.send(attempt, seconds), seconds)
        except asyncio.TimeoutError:
            raise NoRoom(_NO_ROOM) from None

    async def _wait_for_room(self, end: float) -> None:
        waiting = self._for_room = self._loop.create_future()
        self.arm()
        timer = self._loop.call_at(end, _wake, waiting)
        try:
            await waiting
        finally:
            timer.cancel()
            self._for_room = None
        if self._loop.time() >= end:
            raise NoRoom(_NO_ROOM)

    def close(self) -> None:
        """Removes the reader from the loop."""
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            self._descriptor = -1


class AsyncClient:
    """The calling end of a channel, for an event loop: calls are coroutines, and several may be in flight.

    Cancelling a task cancels its call at the server. ``events`` is an object with methods for the server's events, which
    the loop calls.
    """

    INTERFACE: ClassVar[Interface]

    def __init__(self, channel: Channel, events: Any = None, *, timeout: float = 30.0) -> None:
        self._client = self._blocking_class()(channel, events, timeout=timeout)
        self._timeout = timeout
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._failure: Optional[BaseException] = None
        self._watcher = _Watcher(self._client, self._take)
        self._watcher.arm()

    @classmethod
    def _blocking_class(cls) -> type[Client]:
        blocking_class = cls.__dict__.get("_cached_class")
        if blocking_class is None:
            blocking_class = type("Client", (Client,), {"INTERFACE": cls.INTERFACE})
            cls._cached_class = blocking_class  # type: ignore[attr-defined]
        return blocking_class

    @classmethod
    async def connect(
        cls,
        domain: Domain,
        name: str,
        *,
        events: Any = None,
        connect_timeout: float = 30.0,
        timeout: float = 30.0,
        slots: Optional[int] = None,
    ) -> Any:
        """Connects to the program that exports a name.

        ``timeout`` is the default timeout of calls; ``connect_timeout`` bounds the connecting.
        """

        def connect() -> Channel:
            return domain.connect(name, timeout=connect_timeout, slots=slots, interface_hash=cls.INTERFACE.hash)

        channel = await asyncio.get_running_loop().run_in_executor(None, connect)
        return cls(channel, events, timeout=timeout)

    def _take(self) -> None:
        try:
            self._client.poll()
        except PeerGone as error:
            self._failure = error
            self._watcher.close()
        for number, waiting in list(self._waiting.items()):
            if not waiting.done() and (self._failure is not None or self._client._is_ready(number)):
                waiting.set_result(None)

    # The stubs annotate the result; the declaration of the message determines it.
    async def _call(
        self, message: Message, values: Tuple[Any, ...], timeout: Optional[float]
    ) -> Results:
        loop = asyncio.get_running_loop()
        seconds = self._timeout if timeout is None else timeout
        start = self._client._start
        number = await self._watcher.send_before(lambda: start(message, values, seconds, False), seconds)
        # The answer may have arrived during the send.
        self._take()
        try:
            if self._failure is None and not self._client._is_ready(number):
                waiting = loop.create_future()
                self._waiting[number] = waiting
                timer = loop.call_later(seconds, _wake, waiting)
                self._watcher.arm()
                try:
                    await waiting
                finally:
                    timer.cancel()
                    del self._waiting[number]
            # The answer has arrived, or never will: this does not wait.
            answer: Results = self._client._wait(message, number, 0.0, seconds)
            return answer
        except BaseException:
            # Most likely this task was cancelled.
            self._client._give_up(number)
            raise

    async def _tell(self, message: Message, values: Tuple[Any, ...], timeout: Optional[float]) -> None:
        seconds = self._timeout if timeout is None else timeout
        await self._watcher.send_before(lambda: self._client._tell(message, values, 0.0), seconds)
        self._watcher.arm()

    @property
    def peer(self) -> int:
        """The id of the domain at the other end."""
        return self._client.peer

    @property
    def far_end(self) -> FarEnd:
        """The other end, to which rights go and from which they come."""
        return self._client.far_end

    @property
    def peer_node(self) -> str:
        """The name of the peer's node."""
        return self._client.peer_node

    @property
    def counts(self) -> dict[str, int]:
        """What has passed; see the blocking client."""
        return self._client.counts

    def close(self) -> None:
        """Closes the channel. Doing it again does nothing."""
        self._watcher.close()
        self._client.close()

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncServer:
    """The serving end of a channel, for an event loop: each call runs in its own task, and is answered when the task ends.

    A handler's methods may be ``async`` or not. When the client cancels a call, its task is cancelled.
    """

    INTERFACE: ClassVar[Interface]

    def __init__(self, channel: Channel, handler: Any) -> None:
        self._server = self._blocking_class()(channel, handler)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._message_tasks: set[asyncio.Task[None]] = set()
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watcher = _Watcher(self._server, self._take)
        self._take()
        self._watcher.arm()

    @classmethod
    def _blocking_class(cls) -> type[Server]:
        blocking_class = cls.__dict__.get("_cached_class")
        if blocking_class is None:
            blocking_class = type("Server", (Server,), {"INTERFACE": cls.INTERFACE})
            cls._cached_class = blocking_class  # type: ignore[attr-defined]
        return blocking_class

    @classmethod
    async def run(cls, domain: Domain, name: str, handler: Any) -> None:
        """Serves all clients that connect to a name with one handler, until this is cancelled."""
        with domain.export(name, interface_hash=cls.INTERFACE.hash) as listener:
            await accept_each(listener, lambda channel: cls(channel, handler))

    def _take(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                taken = self._server._take()
                if taken is None:
                    return
                message, number, values = taken
                if message is None:
                    cancelled = self._tasks.get(number)
                    if cancelled is not None:
                        cancelled.cancel()
                    continue
                task = loop.create_task(self._serve(message, number, values))
                if number:
                    self._tasks[number] = task
                    task.add_done_callback(lambda _done, number=number: self._tasks.pop(number, None))
                else:
                    self._message_tasks.add(task)
                    task.add_done_callback(self._message_tasks.discard)
        except PeerGone:
            self.close()
        except NoRoom:
            # The client does not receive answers, not even refusals.
            self.close()

    async def _serve(self, message: Message, number: int, values: Tuple[Any, ...]) -> None:
        value, error = None, None
        # Each task has its own context.
        _serving.set(self)
        try:
            serve = getattr(self._server.handler, message.name, None)
            if serve is None:
                raise Unserved(f"the handler has no method {message.name}")
            value = serve(*values)
            if isinstance(value, Awaitable):
                value = await value
        except Exception as raised:
            error = raised
        if not number:
            if error is not None:
                asyncio.get_running_loop().call_exception_handler(
                    {"message": f"the handler of {message.name} failed", "exception": error}
                )
            return
        try:
            await self._watcher.send(lambda: self._server._answer(message, number, value, error, 0.0), 10.0)
        except (NotOutstanding, PeerGone):
            return
        except NoRoom:
            # The client does not receive answers.
            self.close()
            return
        self._watcher.arm()

    async def _tell(self, message: Message, values: Tuple[Any, ...], timeout: float) -> None:
        await self._watcher.send_before(lambda: self._server._tell(message, values, 0.0), timeout)
        self._watcher.arm()

    async def served(self) -> None:
        """Waits until the client is gone."""
        await asyncio.shield(self._ended)

    @property
    def peer(self) -> int:
        """The id of the domain at the other end."""
        return self._server.peer

    @property
    def far_end(self) -> FarEnd:
        """The other end, to which rights go and from which they come."""
        return self._server.far_end

    @property
    def counts(self) -> dict[str, int]:
        """What has passed; see the blocking server."""
        return self._server.counts

    def close(self) -> None:
        """Closes the channel, and cancels the calls being served. Closing it again does nothing."""
        self._watcher.close()
        self._server.close()
        for task in [*self._tasks.values(), *self._message_tasks]:
            task.cancel()
        if not self._ended.done():
            self._ended.set_result(None)


async def accept_each(listener: Listener, serve: Callable[[Channel], AsyncServer]) -> None:
    """Accepts clients until this is cancelled, then closes their servers."""
    loop = asyncio.get_running_loop()
    served: set[AsyncServer] = set()
    arrived = asyncio.Event()
    loop.add_reader(listener.fileno(), arrived.set)
    try:
        while True:
            arrived.clear()
            if not listener.arm():
                await arrived.wait()
                continue
            try:
                channel = await loop.run_in_executor(None, listener.accept, 0.0)
            except (TimedOut, WouldBlock):
                continue
            except Exception as error:  # A client with a mismatch must not stop the loop.
                loop.call_exception_handler({"message": "a client was not accepted", "exception": error})
                continue
            server = serve(channel)
            served.add(server)
            server._ended.add_done_callback(lambda _ended, server=server: served.discard(server))
    finally:
        loop.remove_reader(listener.fileno())
        for server in list(served):
            server.close()


__all__ = [
    "BOOL",
    "DOMAIN",
    "F32",
    "F64",
    "I8",
    "I16",
    "I32",
    "I64",
    "U8",
    "U16",
    "U32",
    "U64",
    "AsyncClient",
    "AsyncServer",
    "Buffer",
    "Client",
    "Declined",
    "Interface",
    "Later",
    "Message",
    "Pending",
    "Server",
    "Type",
    "UnknownCase",
    "Unserved",
    "array",
    "blob",
    "call",
    "current_server",
    "message",
    "number",
    "optional",
    "parameters",
    "record",
    "right",
    "sequence",
    "text",
    "union",
]
