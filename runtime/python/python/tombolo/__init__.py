"""Message passing between programs on processors of different kinds.

A *machine* is a set of *nodes*: this host, Arm programs under emulation, virtual machines behind a shared-memory window. A
program that runs on a node is a *domain*. Two domains communicate over a *channel*, which works the same over any link::

    import tombolo

    domain = tombolo.attach()
    with domain.connect("pong") as channel:
        channel.send(b"ping")
        print(channel.peer_node, "said", channel.receive().decode())

* Every wait has a timeout, in seconds (30 by default), and fails early, with ``PeerDied``, when the peer dies.
* Waits release the GIL: other threads continue to run.
* A send that fails raises an exception.
* A plain host needs no setup: the first program starts a monitor, the ``tombolod`` installed with this package or else the
  one on ``PATH``. ``TOMBOLO_TOMBOLOD`` overrides it.
"""

from . import _monitor, errors, files, groups, hubs, interfaces, regions, tasks
from ._native import (
    DEFAULT_TIMEOUT,
    Arrival,
    Buffer,
    BulkChannel,
    Capability,
    Channel,
    Child,
    Domain,
    FarEnd,
    Interface,
    Job,
    Later,
    Listener,
    Mapping,
    Names,
    Notice,
    Opening,
    Pool,
    Record,
    Region,
    RequestListener,
    Shared,
    Transfers,
    View,
    Watch,
    __version__,
    attach,
    later,
)
from .aio import AsyncBulkChannel
from .errors import *  # noqa: F403
from .interfaces import load as load_interface
from .regions import Extent, Kind, Right, Rights
from .stubs import Pending, UnknownCase, current_server

_monitor.set_default()

__all__ = [
    "DEFAULT_TIMEOUT",
    "Arrival",
    "AsyncBulkChannel",
    "Buffer",
    "BulkChannel",
    "Capability",
    "Channel",
    "Child",
    "Domain",
    "Extent",
    "FarEnd",
    "Interface",
    "Job",
    "Kind",
    "Later",
    "Listener",
    "Mapping",
    "Names",
    "Notice",
    "Opening",
    "Pending",
    "Pool",
    "Record",
    "Region",
    "RequestListener",
    "Right",
    "Rights",
    "Shared",
    "Transfers",
    "UnknownCase",
    "View",
    "Watch",
    "__version__",
    "attach",
    "current_server",
    "errors",
    "files",
    "groups",
    "hubs",
    "interfaces",
    "later",
    "load_interface",
    "regions",
    "tasks",
]
# In this form, as type checkers understand no other.
__all__ += errors.__all__
