"""Groups: sets of domains on any nodes in which each broadcasts to all others.

Members join and leave while the others continue. When a member dies, all survivors receive the same set of its messages::

    import tombolo
    from tombolo.groups import Group, Joined, Left, Message

    with Group.join(tombolo.attach(), "sensors") as group:
        group.broadcast(b"ready")
        for event in group:
            if isinstance(event, Message):
                print(event.source, "sent", event.data)
            elif isinstance(event, Joined):
                print(event.member, "is a member")
            elif isinstance(event, Left):
                print(event.member, "is gone, died:", event.died)

* A member makes progress only inside calls: every method that may wait also receives and forwards messages for others. A program that
  computes for long should call :meth:`Group.try_recv` now and then, or run its group in a thread.
* Every wait has a timeout, in seconds (30 by default). With 0, operations do not wait, and raise ``WouldBlock``.
* ``Expelled``: the other members consider this one dead, as its channel to one of them broke. It may join again.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Iterator, NamedTuple, Optional, TypeVar, Union

from ._native import DEFAULT_TIMEOUT, Domain, GroupEnd, Job
from .errors import WouldBlock

_Self = TypeVar("_Self", bound="Group")


class Joined(NamedTuple):
    """A member has joined. Precedes its first message; initially there is one per member, this one included."""

    member: int


class Message(NamedTuple):
    """A message from the member ``source``."""

    source: int
    data: bytes


class Left(NamedTuple):
    """A member is gone. Follows the last of its messages that any living member has. ``died``: it did not leave properly: it died, its
    node was lost, or its channel to a member broke.
    """

    member: int
    died: bool


class Peer(NamedTuple):
    """Another member that this one has a channel to."""

    member: int
    domain: int
    node: str


#: An event in a group.
Event = Union[Joined, Message, Left]


def _event(member: int, what: Any) -> Event:
    if what is None:
        return Joined(member)
    return Message(member, what) if isinstance(what, bytes) else Left(member, what)


def _options(
    fan_out: int = 4,
    chunk_bytes: int = 4096,
    buffers: int = 4,
    window_chunks: int = 32,
    max_message_bytes: int = 1 << 20,
    total_order: bool = False,
    inbox_bytes: int = 16 << 20,
    spin_ns: Optional[int] = None,
) -> dict[str, Any]:
    return dict(locals())


class Group:
    """A member of a group, used by one thread at a time. Created by :meth:`join` or :meth:`of_job`.

    All members must choose the same options, except for the last two; a program with other options is refused when it joins:
    ``fan_out``, maximum number of members to which one member forwards a chunk (1 to 255); ``chunk_bytes``, size of the chunks that
    messages are sent in (1 to 1 MiB); ``buffers``, chunks that a member forwards at a time (1 to 256); ``window_chunks``, maximum of a
    source's chunks that not all members have taken (1 to 65,536); ``max_message_bytes`` (1 to 1 GiB); ``total_order``, all members
    receive all messages in the same order, their own included; ``inbox_bytes``, limit of messages queued for this program, beyond
    which sources wait for it; ``spin_ns``, how long to spin before sleeping.
    """

    def __init__(self, end: GroupEnd) -> None:
        self._end = end

    @classmethod
    def join(cls: type[_Self], domain: Domain, name: str, *, timeout: float = DEFAULT_TIMEOUT, **options: Any) -> _Self:
        """Joins a group, or creates it if the machine has none of this name. Names consist of letters, digits and ``._-/:``."""
        return cls(GroupEnd.join(domain, name, _options(**options), timeout))

    @classmethod
    def of_job(cls: type[_Self], domain: Domain, job: Job, *, timeout: float = DEFAULT_TIMEOUT, **options: Any) -> _Self:
        """Joins the group of all domains of a job, each of which must call this. Member numbers are ranks; no others can join."""
        return cls(GroupEnd.of_job(domain, job, _options(**options), timeout))

    @property
    def name(self) -> str:
        """The name of the group, or the id of the job."""
        return self._end.name

    @property
    def id(self) -> int:
        """This member's number, higher than those of all that joined before; or the rank."""
        return self._end.id

    @property
    def peers(self) -> list[Peer]:
        """The members that this one has channels to."""
        return [Peer(*peer) for peer in self._end.peers()]

    def broadcast(self, message: bytes, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Broadcasts a message to all other members, and in total order to this one too; waits for room. Returns when the message is
        accepted, not when it has arrived. ``TimedOut``: members did not take enough of the earlier messages, and it was not sent.
        """
        self._end.broadcast(message, timeout)

    def try_broadcast(self, message: bytes) -> bool:
        """Broadcasts a message if there is room; returns False otherwise."""
        try:
            self._end.broadcast(message, 0.0)
        except WouldBlock:
            return False
        return True

    def recv(self, timeout: float = DEFAULT_TIMEOUT) -> Event:
        """Waits for the next event."""
        return _event(*self._end.recv(timeout))

    def try_recv(self) -> Optional[Event]:
        """Returns the next event, if there is one. Also receives and forwards messages for others."""
        try:
            return self.recv(0.0)
        except WouldBlock:
            return None

    def flush(self, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Waits until all members have taken everything that this one broadcast."""
        self._end.flush(timeout)

    def leave(self, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Leaves the group: waits until all others have taken everything that this member broadcast. The member has left even if this
        raises; calling it again does nothing.
        """
        self._end.leave(timeout)

    def close(self) -> None:
        """Leaves the group without waiting: recent broadcasts may be lost."""
        self._end.close()

    def __iter__(self) -> Iterator[Event]:
        """Receives events endlessly, waiting up to 30 s for each."""
        while True:
            yield self.recv()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        # Do not wait for the others after an error.
        if kind is None:
            self.leave()
        else:
            self.close()

    def __repr__(self) -> str:
        return f"<tombolo.groups.Group {self.name!r}: member {self.id}>"


__all__ = ["Event", "Group", "Joined", "Left", "Message", "Peer"]
