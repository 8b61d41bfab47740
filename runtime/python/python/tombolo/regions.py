"""Descriptions of regions, of rights to them, and of pools."""

from __future__ import annotations

import enum
from typing import NamedTuple, Optional


class Rights(enum.IntFlag):
    """Rights of a capability."""

    NONE = 0
    #: Map the region for reading, or copy from it.
    READ = 1
    #: Map the region for writing, or copy to it.
    WRITE = 2
    #: Grant capabilities to it to others.
    GRANT = 4
    #: Open channels to a service.
    CONNECT = 8
    READ_WRITE = 3
    #: All rights to memory.
    ALL = 7


class Kind(enum.IntEnum):
    """Kind of object that a capability refers to."""

    #: Memory, which can be mapped or split.
    MEMORY = 0
    #: A part that can be mapped, but not split.
    FRAME = 1
    #: A part that only a pool can map.
    POOL = 2
    #: A service, to which channels are opened.
    SERVICE = 3


class Backing(enum.IntEnum):
    """Location of a region's bytes."""

    MEMORY = 0
    #: In the window between the host and another node.
    WINDOW = 1
    FILE = 2
    #: In memory that a program registered: others can only copy from and to it.
    FOREIGN = 3
    #: No memory: it is a service.
    SERVICE = 4


class Seal(enum.IntEnum):
    """Restriction on a region that applies to all programs, regardless of their rights."""

    OPEN = 0
    #: No new writable mappings; an existing one stays.
    SOLE_WRITER = 1
    #: No writes.
    FROZEN = 2


class Extent(NamedTuple):
    """A part of a region, in bytes."""

    offset: int
    length: int


class Right(NamedTuple):
    """A right as a parameter of an interface: returned by ``copy_to`` and ``move_to`` of a capability, and received in messages.

    It only names the object. The receiver takes the object with :meth:`Domain.accept <tombolo.Domain.accept>`, or connects to an
    endpoint with :meth:`Domain.connect_to <tombolo.Domain.connect_to>`.
    """

    object: int
    #: 1 for an endpoint, 2 for a region, 3 for any capability, 4 for a buffer.
    kind: int
    #: Whether it was given away rather than copied.
    moved: bool

    def given_away(self) -> Right:
        """Returns an endpoint for a parameter ``move endpoint``: the caller promises not to use it any more."""
        return self._replace(moved=True)


class CapabilityInfo(NamedTuple):
    """A capability as its holder sees it."""

    id: int
    region: int
    extent: Extent
    rights: Rights
    #: Id of the domain that holds it.
    holder: int
    #: Id of the capability it was derived from, if that still exists.
    parent: Optional[int]
    #: Whether it is being revoked, and unusable.
    revoked: bool


class RegionInfo(NamedTuple):
    """A region as the machine describes it."""

    id: int
    #: In bytes.
    length: int
    #: Id of the domain that created it.
    maker: int
    backing: Backing
    seal: Seal
    #: Number of capabilities to it.
    capabilities: int
    #: Number of its mappings.
    mappings: int


class ForeignPlace(NamedTuple):
    """Process and address of registered memory."""

    pid: int
    address: int


class Shown(NamedTuple):
    """Current state of a capability and its region."""

    capability: CapabilityInfo
    region: RegionInfo
    foreign: Optional[ForeignPlace]


class Revocation(NamedTuple):
    """Result of a revocation."""

    #: Number of capabilities removed.
    removed: int
    #: Domains killed because they did not release the memory in time; only the first ones.
    killed: list[int]


class Counts(NamedTuple):
    """Number of a pool's buffers in each state, as one program knows it."""

    #: Here and available.
    free: int
    #: Here, with a handle in the program.
    held: int
    #: Here and read-only, as other programs may read them.
    lent: int
    #: Elsewhere, but readable here.
    borrowed: int
    #: Elsewhere.
    away: int


__all__ = [
    "Backing",
    "CapabilityInfo",
    "Counts",
    "Extent",
    "ForeignPlace",
    "RegionInfo",
    "Revocation",
    "Rights",
    "Seal",
    "Shown",
]
