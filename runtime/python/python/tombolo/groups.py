"""Groups: sets of domains on any nodes in which each broadcasts to all others.

Members join and leave while the others go on; when one dies, all that live on get the same of its messages::

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

* A member takes part while it calls: every method that may wait also receives and forwards what is for others. A program that computes
  for long calls :meth:`Group.try_recv` meanwhile, or has a thread for its group.
* Every wait has a deadline, in seconds (30 unless said). With 0, an operation only tries, and raises ``WouldBlock``.
* ``Expelled``: the other members took this one for dead, as its channel to one of them broke. It may join again.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Iterator, NamedTuple, Optional, TypeVar, Union

from ._native import DEFAULT_TIMEOUT, Domain, GroupEnd, Job
from .errors import WouldBlock

_Self = TypeVar("_Self", bound="Group")


class Joined(NamedTuple):
    """A member has joined. Comes before its first message, and at first for each member that there is, this one included."""

    member: int


class Message(NamedTuple):
    """A message of the member ``source``."""

    source: int
    data: bytes


class Left(NamedTuple):
    """A member is gone. Comes after the last of its messages that any living member has. ``died``: it did not leave in order: it died,
    its node was lost, or its channel to a member broke.
    """

    member: int
    died: bool


class Peer(NamedTuple):
    """Another member, as this one reaches it."""

    member: int
    domain: int
    node: str


#: What happens in a group.
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
    """A member of a group, used by one thread at a time. From :meth:`join` or :meth:`of_job`.

    Options, which all members choose the same but for the last two; a program with others is refused when it joins: ``fan_out``, the most
    members that one forwards a chunk to (1 to 255); ``chunk_bytes``, the longest part of a message that travels as one (1 to 1 MiB);
    ``buffers``, chunks that a member forwards at a time (1 to 256); ``window_chunks``, chunks of one source that not all members have
    taken (1 to 65,536); ``max_message_bytes`` (1 to 1 GiB); ``total_order``, all members take all messages in one order, their own
    included; ``inbox_bytes``, messages held for this program, beyond which sources wait for it; ``spin_ns``, before sleeping.
    """

    def __init__(self, end: GroupEnd) -> None:
        self._end = end

    @classmethod
    def join(cls: type[_Self], domain: Domain, name: str, *, timeout: float = DEFAULT_TIMEOUT, **options: Any) -> _Self:
        """Joins a group, or founds it, if the machine has no group of this name; made of letters, digits and ``._-/:``."""
        return cls(GroupEnd.join(domain, name, _options(**options), timeout))

    @classmethod
    def of_job(cls: type[_Self], domain: Domain, job: Job, *, timeout: float = DEFAULT_TIMEOUT, **options: Any) -> _Self:
        """The group of all domains of a job, each of which calls this. Members have the numbers of their ranks; no others can join."""
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
        """The other members that it has channels to."""
        return [Peer(*peer) for peer in self._end.peers()]

    def broadcast(self, message: bytes, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Broadcasts a message to all other members, and with a total order to this one, too; waits for room. Returns when the message is
        accepted, not when it has arrived. ``TimedOut``: members did not take enough of the messages before it, and it was not sent.
        """
        self._end.broadcast(message, timeout)

    def try_broadcast(self, message: bytes) -> bool:
        """Broadcasts a message if there is room; False if there is none."""
        try:
            self._end.broadcast(message, 0.0)
        except WouldBlock:
            return False
        return True

    def recv(self, timeout: float = DEFAULT_TIMEOUT) -> Event:
        """Waits for the next event."""
        return _event(*self._end.recv(timeout))

    def try_recv(self) -> Optional[Event]:
        """The next event, if there is one. Also receives and forwards what has come for others."""
        try:
            return self.recv(0.0)
        except WouldBlock:
            return None

    def flush(self, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Waits until all members have taken everything that this one has broadcast."""
        self._end.flush(timeout)

    def leave(self, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Leaves: waits until all others have taken everything that this member broadcast. It has left whatever this raises, and doing
        it again does nothing.
        """
        self._end.leave(timeout)

    def close(self) -> None:
        """Leaves without waiting: what it broadcast just before may be lost."""
        self._end.close()

    def __iter__(self) -> Iterator[Event]:
        """Receives without end, waiting up to 30 s for each event."""
        while True:
            yield self.recv()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        # After an error the others need not be waited for.
        if kind is None:
            self.leave()
        else:
            self.close()

    def __repr__(self) -> str:
        return f"<tombolo.groups.Group {self.name!r}: member {self.id}>"


__all__ = ["Event", "Group", "Joined", "Left", "Message", "Peer"]
