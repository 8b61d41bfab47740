"""Message passing between programs on unlike processors.

A *machine* is a set of *nodes*: this host, Arm programs under emulation, virtual machines behind a shared-memory window. A
program that runs on one is a *domain*; two domains talk over a *channel*, the same whatever lies between them::

    import tombolo

    domain = tombolo.attach()
    with domain.connect("pong") as channel:
        channel.send(b"ping")
        print(channel.peer_node, "said", channel.receive().decode())

* Every wait has a deadline, in seconds (30 unless said), and ends early, with ``PeerDied``, when the peer dies.
* Other threads run while one waits.
* A send that did not happen is an exception.
* On a plain host nothing has to be set up: the first program starts a monitor, the ``tombolod`` that came with this package,
  else the one on ``PATH``. ``TOMBOLO_TOMBOLOD`` names another.
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
    *errors.__all__,
]
