"""Exceptions of this package.

Every exception is an :class:`Error`. Its class identifies the error, by the name that Rust and C use too (``PeerDied`` here,
``Error::PeerDied`` in Rust, ``TOMBOLO_PEER_DIED`` in C). Its text describes the failure and possible remedies. A failed
operation has no effect: a message was not sent, unless the class says otherwise.
"""

from __future__ import annotations

from typing import ClassVar


class Error(Exception):
    """Reason why an operation failed."""

    #: Status in ``tombolo.h``; 0 for errors that C reports under other names.
    status: ClassVar[int] = 0

    #: Whether a call that failed with its channel may be repeated over another one, as it is
    #: idempotent.
    may_repeat: bool = False


class WouldBlock(Error, BlockingIOError):
    """No room to send, or no message to receive, right now."""

    status = 1


class TimedOut(Error, TimeoutError):
    """The deadline passed. A call that timed out was cancelled; it may have been served."""

    status = 2


class PeerGone(Error, ConnectionError):
    """The other end of a channel is gone, for any reason."""


class Closed(PeerGone):
    """The peer closed the channel; everything it sent before has been received."""

    status = 3


class PeerDied(PeerGone):
    """The peer died, or its node was lost; everything it sent before has been received."""

    status = 4


class RelayDied(PeerGone):
    """A relay between the two ends of the channel died; the peer may be alive."""

    status = 64


class TooLong(Error, ValueError):
    """The message exceeds the channel's maximum."""

    status = 5


class Refused(Error):
    """The options of the channel's two sides do not match."""

    status = 6


class OpeningRefused(Error):
    """The listener refused the opening request."""

    status = 65


class Violation(Error):
    """The peer violated the protocol; the channel is unusable from now on."""

    status = 7


class MonitorRefused(Error):
    """The monitor refused a request."""


class NoSuchName(MonitorRefused, LookupError):
    """No such name, or no program exported it in time."""

    status = 8


class NameTaken(MonitorRefused):
    """Another program owns the name."""

    status = 9


class BadName(MonitorRefused, ValueError):
    """Not a valid name."""

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
    """The image is unreadable, or has no build for the node."""

    status = 14


class StartFailed(MonitorRefused):
    """The program did not start."""

    status = 15


class NoLink(MonitorRefused):
    """The two nodes cannot reach each other."""

    status = 16


class Limit(MonitorRefused):
    """A limit of the machine was reached."""

    status = 17


class Denied(MonitorRefused):
    """The monitor refused the request."""

    status = 18


class MonitorLost(Error):
    """The monitor is gone, and the machine with it."""

    status = 19


class NoMachine(Error):
    """There is no machine to attach to."""

    status = 20


class MonitorProtocol(Error):
    """The monitor sent an invalid message."""

    status = 21


class BadText(Error, ValueError):
    """The text of a record or query cannot be parsed."""

    status = 22


class System(Error):
    """A call to the operating system failed."""

    status = 23


class InvalidArgument(Error, ValueError):
    """An argument is out of range."""

    status = 24


class BufferTooShort(Error, ValueError):
    """The buffer is too short; nothing is lost, and the next receive has the message."""

    status = 25


class Busy(Error):
    """Another thread is using the object: channels, clients and servers may be used by one thread at a time."""

    status = 26


class Revoked(Error, PermissionError):
    """The right was revoked. The preceding reads may have returned zeros instead of the region's bytes."""

    status = 28


class OutOfRange(Error, IndexError):
    """The range is outside the memory, or not page-aligned where it must be."""

    status = 29


class NoSuchCapability(MonitorRefused, LookupError):
    """The capability does not exist any more, or another domain holds it."""

    status = 30


class LacksRight(MonitorRefused, PermissionError):
    """The capability does not include the right."""

    status = 31


class NotReachable(MonitorRefused):
    """The memory cannot be mapped on this node: copy the bytes."""

    status = 32


class StillHeld(MonitorRefused):
    """Revoked, but some programs still hold the memory, which is not reused until they release it or die."""

    status = 33


class Sealed(MonitorRefused, PermissionError):
    """A seal of the region prevents the operation, or something prevents sealing."""

    status = 34


class NoBuffer(Error):
    """All buffers of the pool are in use: wait until some are returned, or create a larger pool."""

    status = 35


class BufferState(Error):
    """Not allowed in the buffer's current state: it was moved away, or is shared."""

    status = 36


class PoolRefused(Error):
    """The pool is not assigned to the channel, or the peer did not take it."""

    status = 37


class ContentLost(Error):
    """Buffers arrived without content: this process is out of file descriptors."""

    status = 38


class Exported(Error, BufferError):
    """A view of the memory still exists: a memoryview, an array, a tensor. Release it first."""


class CallError(Error):
    """A call of a typed interface failed."""


class Declined(CallError):
    """The server replied with the error that the interface declares.

    Stubs have a subclass for each type of error; ``error`` is its value.
    """

    status = 40

    def __init__(self, error: object) -> None:
        super().__init__(error)
        self.error = error


class OverLimit(CallError, ValueError):
    """A value exceeds the interface's limit, or has no wire representation. Nothing was sent."""

    status = 41


class Malformed(CallError):
    """The peer sent a malformed message."""

    status = 42


class Fault(CallError):
    """The server dropped the call without an answer, as its handler failed, or gave a reason that this side does not know."""

    status = 48


class UnknownCall(Fault):
    """The server does not know the call: it may be older than the client."""

    status = 43


class RequestRefused(Fault):
    """The server refused the request as malformed."""

    status = 44


class Unserved(Fault):
    """The server does not serve the call. A handler can raise it to report that to the client."""

    status = 45


class AnswerTooLong(Fault):
    """The answer is longer than the interface or the channel allows."""

    status = 46


class ServerBusy(Fault):
    """Too many calls of this client are outstanding."""

    status = 47


class RightRefused(Fault):
    """The receiver may not take a right or buffer that came with a message. A handler that does not catch it refuses the call."""

    status = 55


class NotOutstanding(Error):
    """The client no longer waits for that answer: it was sent, or the call was cancelled."""

    status = 51


class CannotCarry(Error):
    """The link cannot carry what the interface passes: capabilities, buffers, or messages of that length."""

    status = 52


class NoRoom(CallError):
    """No room for the message before the deadline: nothing was sent."""

    status = 53


class InFlight(CallError):
    """Too many calls are in flight: wait for one, or cancel it. Nothing was sent."""


class NotInFlight(CallError):
    """The call is no longer in flight: it was answered or cancelled."""


class FileError(Error, OSError):
    """An operation on files failed. It had no effect, except that a failed write may have written some of its bytes."""


class NotGranted(FileError, PermissionError):
    """The file was not granted to this program, or not for this access; or no files were granted."""

    status = 56


class NoSuchFile(FileError, FileNotFoundError):
    """No file or folder at that path."""

    status = 57


class FileExists(FileError, FileExistsError):
    """A file or folder exists at that path."""

    status = 58


class IsFolder(FileError, IsADirectoryError):
    """The path is a folder."""

    status = 59


class NotFolder(FileError, NotADirectoryError):
    """The path, or one of its parents, is not a folder."""

    status = 60


class FileEnded(FileError, EOFError):
    """The file ended before everything was read."""

    status = 61


class FileFault(FileError):
    """The operation failed on that file for another reason."""

    status = 62


class NotInJob(Error):
    """The program was not started as part of a job, or the job has no such rank."""

    status = 63


class HubClosed(Error):
    """The hub is closed, and for a receive also empty; or it was closed already."""

    status = 66


class HubHeld(Error):
    """This task does not hold the resource or block, or holds it already."""

    status = 67


class HubRefused(Error):
    """The hub is of another kind, has values of another type, or has no such operation."""

    status = 68


class Expelled(Error):
    """The other members of a group consider this one dead, as its channel to one of them broke; it may join again."""

    status = 69


class InUse(MonitorRefused):
    """The bytes belong to a part that was split off, or are mapped."""

    status = 70


class WrongKind(MonitorRefused):
    """The capability refers to an object of another kind."""

    status = 71


class TaskFailed(Error):
    """A task ended with an exception, a panic or an error, whose text is included."""

    status = 72


class TaskLost(Error):
    """The worker of a task died; the task may have run, and is not retried."""

    status = 73


class TaskRefused(Error):
    """A task was not started, or its worker has no such function."""

    status = 74


class TaskCancelled(Error):
    """The task was cancelled."""

    status = 75


class Mistakes(Error, ValueError):
    """An interface file has errors; the text shows where they are and how to fix them."""


# Literal, for type checkers; a test compares it with the classes.
__all__ = [
    "AnswerTooLong",
    "BadImage",
    "BadName",
    "BadText",
    "BufferState",
    "BufferTooShort",
    "Busy",
    "CallError",
    "CannotCarry",
    "Closed",
    "ContentLost",
    "Declined",
    "Denied",
    "Error",
    "Expelled",
    "Exported",
    "Fault",
    "FileEnded",
    "FileError",
    "FileExists",
    "FileFault",
    "HubClosed",
    "HubHeld",
    "HubRefused",
    "InFlight",
    "InUse",
    "InvalidArgument",
    "IsFolder",
    "LacksRight",
    "Limit",
    "Malformed",
    "Mistakes",
    "MonitorLost",
    "MonitorProtocol",
    "MonitorRefused",
    "NameTaken",
    "NoBuffer",
    "NoLink",
    "NoMachine",
    "NoRoom",
    "NoSuchCapability",
    "NoSuchDomain",
    "NoSuchFile",
    "NoSuchName",
    "NoSuchNode",
    "NodeDown",
    "NotFolder",
    "NotGranted",
    "NotInFlight",
    "NotInJob",
    "NotOutstanding",
    "NotReachable",
    "OpeningRefused",
    "OutOfRange",
    "OverLimit",
    "PeerDied",
    "PeerGone",
    "PoolRefused",
    "Refused",
    "RelayDied",
    "RequestRefused",
    "Revoked",
    "RightRefused",
    "Sealed",
    "ServerBusy",
    "StartFailed",
    "StillHeld",
    "System",
    "TaskCancelled",
    "TaskFailed",
    "TaskLost",
    "TaskRefused",
    "TimedOut",
    "TooLong",
    "UnknownCall",
    "Unserved",
    "Violation",
    "WouldBlock",
    "WrongKind",
]
