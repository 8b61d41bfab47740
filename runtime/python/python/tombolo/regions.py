"""What is said of regions, the rights to them, and pools."""

from __future__ import annotations

import enum
from typing import NamedTuple, Optional


class Rights(enum.IntFlag):
    """What may be done with a region."""

    NONE = 0
    #: To map it for reading, or have it copied from.
    READ = 1
    #: To map it for writing, or have it copied to.
    WRITE = 2
    #: To give others capabilities to it.
    GRANT = 4
    #: To open channels to a service.
    CONNECT = 8
    READ_WRITE = 3
    #: All that there are to memory.
    ALL = 7


class Kind(enum.IntEnum):
    """What a capability is to."""

    #: Memory, which can be mapped or split.
    MEMORY = 0
    #: A part that can be mapped and not split.
    FRAME = 1
    #: A part that only a pool maps.
    POOL = 2
    #: A service, to which channels are opened.
    SERVICE = 3


class Backing(enum.IntEnum):
    """Where the bytes of a region are."""

    MEMORY = 0
    #: Between the host and another node.
    WINDOW = 1
    FILE = 2
    #: In memory that a program had already: others reach it by copying alone.
    FOREIGN = 3
    #: Nowhere: it is a service.
    SERVICE = 4


class Seal(enum.IntEnum):
    """What no program can do with a region any more, whatever rights it holds."""

    OPEN = 0
    #: To map it for writing, for who has not yet.
    SOLE_WRITER = 1
    #: To write to it.
    FROZEN = 2


class Extent(NamedTuple):
    """A part of a region, in bytes."""

    offset: int
    length: int


class Right(NamedTuple):
    """A right as a parameter of an interface: what ``copy_to`` and ``move_to`` of a capability return, and what a message has of it.

    It is a name. What is behind it is taken up by :meth:`Domain.accept <tombolo.Domain.accept>`, or, of an endpoint, connected to by
    :meth:`Domain.connect_to <tombolo.Domain.connect_to>`.
    """

    object: int
    #: 1 an endpoint, 2 a region, 3 any capability, 4 a buffer.
    kind: int
    #: It was given away, not copied.
    moved: bool

    def given_away(self) -> Right:
        """Of an endpoint, for a parameter ``move endpoint``: a promise not to use it any more."""
        return self._replace(moved=True)


class CapabilityInfo(NamedTuple):
    """A capability as its holder sees it."""

    id: int
    region: int
    extent: Extent
    rights: Rights
    #: A domain.
    holder: int
    #: What it was derived from, if that is still there.
    parent: Optional[int]
    #: It is being revoked, and good for nothing.
    revoked: bool


class RegionInfo(NamedTuple):
    """A region."""

    id: int
    #: In bytes.
    length: int
    #: Who made it: a domain.
    maker: int
    backing: Backing
    seal: Seal
    #: How many there are.
    capabilities: int
    #: In how many places it is mapped.
    mappings: int


class ForeignPlace(NamedTuple):
    """Where memory is that a program had already."""

    pid: int
    address: int


class Shown(NamedTuple):
    """What a capability is to, as the machine has it now."""

    capability: CapabilityInfo
    region: RegionInfo
    foreign: Optional[ForeignPlace]


class Revocation(NamedTuple):
    """What a revocation came to."""

    #: How many capabilities are gone.
    removed: int
    #: Domains that were killed because they did not let go in time; the first of them.
    killed: list[int]


class Counts(NamedTuple):
    """What the buffers of a pool are doing, as one program knows it."""

    #: Here, and ready to be taken.
    free: int
    #: Here, and in the hands of the program.
    held: int
    #: Here, and read-only, for other programs may read them.
    lent: int
    #: Elsewhere, and may be read here.
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
