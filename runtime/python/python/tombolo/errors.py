"""What can go wrong.

Every exception of this package is an :class:`Error`. Its class says what happened, by the name that Rust and C have for
it (``PeerDied`` here, ``Error::PeerDied`` there, ``TOMBOLO_PEER_DIED`` in C), its text to whom, and what can be done.
Nothing is half done: what was to be sent was not sent unless the class says otherwise.
"""

from __future__ import annotations

from typing import ClassVar


class Error(Exception):
    """Why an operation did not happen."""

    #: The number that ``tombolo.h`` has for it; 0 for what C knows under other names.
    status: ClassVar[int] = 0

    # : Of a call that ended with its channel: whether it may be made again over another one, as it is
    # idempotent.
    may_repeat: bool = False


class WouldBlock(Error, BlockingIOError):
    """No room, or nothing there, right now."""

    status = 1


class TimedOut(Error, TimeoutError):
    """The deadline passed. A call that timed out was cancelled; it may have been served."""

    status = 2


class PeerGone(Error, ConnectionError):
    """The other end of a channel is gone, in whatever way."""


class Closed(PeerGone):
    """The peer closed the channel; everything it sent before has been received."""

    status = 3


class PeerDied(PeerGone):
    """The peer died, or its node was lost; everything it sent before has been received."""

    status = 4


class RelayDied(PeerGone):
    """A relay between the two ends of the channel died; the peer may live."""

    status = 64


class TooLong(Error, ValueError):
    """The message is longer than the channel carries."""

    status = 5


class Refused(Error):
    """The two sides of a channel do not fit."""

    status = 6


class OpeningRefused(Error):
    """The listener refused the request with which a channel was to be opened."""

    status = 65


class Violation(Error):
    """The peer broke the protocol; its channel is of no use any more."""

    status = 7


class MonitorRefused(Error):
    """The monitor refused a request."""


class NoSuchName(MonitorRefused, LookupError):
    """There is no such name, or no program took it up in time."""

    status = 8


class NameTaken(MonitorRefused):
    """Another program has the name already."""

    status = 9


class BadName(MonitorRefused, ValueError):
    """It is no name."""

    status = 10


class NoSuchNode(MonitorRefused, LookupError):
    """No node of that name in the machine."""

    status = 11


class NodeDown(MonitorRefused):
    """The node is not running."""

    status = 12


class NoSuchDomain(MonitorRefused, LookupError):
    """No live domain with that id."""

    status = 13


class BadImage(MonitorRefused):
    """The image cannot be read, or has no build for the node."""

    status = 14


class StartFailed(MonitorRefused):
    """The program did not start."""

    status = 15


class NoLink(MonitorRefused):
    """The two nodes cannot reach each other."""

    status = 16


class Limit(MonitorRefused):
    """A limit of the machine was met."""

    status = 17


class Denied(MonitorRefused):
    """The monitor declined."""

    status = 18


class MonitorLost(Error):
    """The monitor is gone, and the machine with it."""

    status = 19


class NoMachine(Error):
    """There is no machine to attach to."""

    status = 20


class MonitorProtocol(Error):
    """The monitor said something that cannot be."""

    status = 21


class BadText(Error, ValueError):
    """A record or query as it was written cannot be understood."""

    status = 22


class System(Error):
    """The operating system refused something."""

    status = 23


class InvalidArgument(Error, ValueError):
    """An argument is out of range."""

    status = 24


class BufferTooShort(Error, ValueError):
    """The buffer is too short; nothing is lost, and the next receive has the message."""

    status = 25


class Busy(Error):
    """Another thread uses the object: channels, clients and servers are used by one thread at a time."""

    status = 26


class Revoked(Error, PermissionError):
    """The right was taken back. What was read before this was not the region's any more, but zeros."""

    status = 28


class OutOfRange(Error, IndexError):
    """The bytes do not lie in the memory, or do not begin and end between pages where they have to."""

    status = 29


class NoSuchCapability(MonitorRefused, LookupError):
    """The capability is gone, or another domain's."""

    status = 30


class LacksRight(MonitorRefused, PermissionError):
    """The capability does not give the right."""

    status = 31


class NotReachable(MonitorRefused):
    """This node cannot reach the bytes: they have to be copied."""

    status = 32


class StillHeld(MonitorRefused):
    """It was revoked, but some have not let go of the memory, which is not given out again until they do or are dead."""

    status = 33


class Sealed(MonitorRefused, PermissionError):
    """A seal of the region is in the way, or something is in the way of a seal."""

    status = 34


class NoBuffer(Error):
    """All buffers of the pool are in use: wait until some come back, or make the pool larger."""

    status = 35


class BufferState(Error):
    """What the buffer is doing does not allow it: it was moved away, or is shared."""

    status = 36


class PoolRefused(Error):
    """The pool is not on the channel, or was not taken there."""

    status = 37


class ContentLost(Error):
    """Buffers arrived without their content: this process can open no more files."""

    status = 38


class Exported(Error, BufferError):
    """Something still looks at the memory: a memoryview, an array, a tensor. Let go of it first."""


class CallError(Error):
    """A call of a typed interface has no answer."""


class Declined(CallError):
    """The server answered with the error that the interface declares.

    Stubs have a class below this one for each type of errors; ``error`` is its value.
    """

    status = 40

    def __init__(self, error: object) -> None:
        super().__init__(error)
        self.error = error


class OverLimit(CallError, ValueError):
    """A value is longer than the interface allows, or has no form on the wire. Nothing was sent."""

    status = 41


class Malformed(CallError):
    """What the peer sent was refused."""

    status = 42


class Fault(CallError):
    """The server did not serve the call, for a reason that is unknown here."""

    status = 48


class UnknownCall(Fault):
    """The server does not know the call: it may be older than the client."""

    status = 43


class RequestRefused(Fault):
    """The server refused the request as malformed."""

    status = 44


class Unserved(Fault):
    """The server does not serve the call. Raised by a handler, it says so."""

    status = 45


class AnswerTooLong(Fault):
    """The answer is longer than the interface or the channel allows."""

    status = 46


class ServerBusy(Fault):
    """Too many calls of this client wait for their answers."""

    status = 47


class RightRefused(Fault):
    """A right or a buffer that came with a message is not its receiver's to take. A handler that lets it pass refuses the call."""

    status = 55


class NotOutstanding(Error):
    """The client does not wait for that answer any more: it was given, or the call was cancelled."""

    status = 51


class CannotCarry(Error):
    """The link cannot carry what the interface passes: capabilities, buffers, or messages so long."""

    status = 52


class NoRoom(CallError):
    """There was no room for the message in time: nothing was sent."""

    status = 53


class InFlight(CallError):
    """All places for calls in flight are taken: wait for one, or cancel it. Nothing was sent."""


class NotInFlight(CallError):
    """The call is not in flight any more: it was answered, or cancelled."""


class FileError(Error, OSError):
    """Something about files could not be done. Nothing has changed, but what a write that failed may have written."""


class NotGranted(FileError, PermissionError):
    """The file was not granted to this program, or not for that; or no files were."""

    status = 56


class NoSuchFile(FileError, FileNotFoundError):
    """There is nothing there."""

    status = 57


class FileExists(FileError, FileExistsError):
    """There is something already."""

    status = 58


class IsFolder(FileError, IsADirectoryError):
    """It is a folder."""

    status = 59


class NotFolder(FileError, NotADirectoryError):
    """It, or something on the way to it, is no folder."""

    status = 60


class FileEnded(FileError, EOFError):
    """The file ended before all was read."""

    status = 61


class FileFault(FileError):
    """It cannot be done to that file, for another reason."""

    status = 62


class NotInJob(Error):
    """The program was not started as one of a job, or there is no such rank in it."""

    status = 63


class HubClosed(Error):
    """The hub is closed, and for one that receives it is empty; or it was closed before."""

    status = 66


class HubHeld(Error):
    """A lock or block is not held by this task; or it is, and was to be taken again."""

    status = 67


class HubRefused(Error):
    """The hub is of another kind or has values of another type, or it has no such operation."""

    status = 68


class Expelled(Error):
    """The other members of a group took this one for dead, as its channel to one of them broke; it may join again."""

    status = 69


class InUse(MonitorRefused):
    """The bytes are those of a part that was split off, or are mapped."""

    status = 70


class WrongKind(MonitorRefused):
    """The capability is to something of another kind."""

    status = 71


class TaskFailed(Error):
    """A task ended with an exception, a panic or an error, whose text this has."""

    status = 72


class TaskLost(Error):
    """The worker of a task died; the task may have run, and is not run again."""

    status = 73


class TaskRefused(Error):
    """A task was not started, or its worker has no such function."""

    status = 74


class TaskCancelled(Error):
    """The task was cancelled."""

    status = 75


class Mistakes(Error, ValueError):
    """An interface file has mistakes; the text shows where they are and what to do."""


__all__ = [name for name, kind in list(globals().items()) if isinstance(kind, type) and issubclass(kind, Error)]
