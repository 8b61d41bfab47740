//! The messages of faults about capabilities.

use core::fmt;

use crate::capabilities::{Backing, CapabilityFault, Kind, Seal};

impl fmt::Display for Backing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Backing::Memory => "memory",
            Backing::Window => "window",
            Backing::File => "file",
            Backing::Foreign => "foreign",
            Backing::Service => "service",
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Memory => "memory",
            Kind::Frame => "frame",
            Kind::Pool => "pool",
            Kind::Service => "service",
        })
    }
}

impl fmt::Display for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Seal::Open => "open",
            Seal::SoleWriter => "sole-writer",
            Seal::Frozen => "frozen",
        })
    }
}

impl fmt::Display for CapabilityFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CapabilityFault::Gone { capability } => write!(
                f,
                "{capability} does not exist; it may have been deleted or revoked, or its holder has ended"
            ),
            CapabilityFault::NotYours { capability } => {
                write!(f, "{capability} is held by another domain; ask its holder to grant it to this one")
            }
            CapabilityFault::Revoked { capability } => write!(f, "{capability} has been revoked"),
            CapabilityFault::Lacks { capability, needed, given } => write!(
                f,
                "{capability} gives the rights {given}, but {needed} are needed; ask its granter for more"
            ),
            CapabilityFault::BadExtent { extent, available_bytes } => write!(
                f,
                "bytes {extent} are empty or lie outside a region or capability of {available_bytes} bytes"
            ),
            CapabilityFault::Unaligned { extent, unit_bytes } => write!(
                f,
                "bytes {extent} are not whole pages; offset and length must be multiples of {unit_bytes}"
            ),
            CapabilityFault::NotReachable { region, from } => write!(
                f,
                "the bytes of region {region} are not reachable from domain {from}: copy them, or make the region in the \
                 window between the two nodes"
            ),
            CapabilityFault::Mapped { region, mappings } => {
                write!(f, "region {region} has {mappings} mappings that do not permit that; unmap them first")
            }
            CapabilityFault::Sealed { region, seal: Seal::Frozen } => {
                write!(f, "region {region} is frozen; it can no longer be written")
            }
            CapabilityFault::Sealed { region, seal } => {
                write!(
                    f,
                    "region {region} is sealed ({seal}); other domains can no longer map it for writing"
                )
            }
            CapabilityFault::CannotSeal { region, backing } => {
                write!(f, "region {region} is of kind {backing}; only memory of one kernel can be sealed")
            }
            CapabilityFault::TakenUp { capability } => write!(
                f,
                "{capability} was accepted before, or created by its holder; a capability from a message is accepted once"
            ),
            CapabilityFault::NotFrom { capability, domain } => {
                write!(f, "{capability} was not granted by domain {domain}, which sent its number")
            }
            CapabilityFault::Split { region, extent, part, kind } => write!(
                f,
                "bytes {extent} of region {region} overlap bytes {part}, which were split off as a part of kind {kind};                  use the capability to that part, or have it deleted or revoked first"
            ),
            CapabilityFault::InUse { region, extent, mapped, holder } => write!(
                f,
                "bytes {extent} of region {region} cannot be split off: domain {holder} has bytes {mapped} mapped;                  have it unmap them first"
            ),
            CapabilityFault::WrongKind { capability, kind, needed } => write!(
                f,
                "{capability} is to something of kind {kind}, and this takes kind {needed}; only memory can be split,                  and a part for a pool is mapped by a pool alone"
            ),
            CapabilityFault::CannotSplit { region, backing } => write!(
                f,
                "region {region} is of kind {backing}; only memory that domains map through the machine can be split"
            ),
            CapabilityFault::StillHeld { capability, holders } => {
                write!(f, "{capability} is revoked, but the memory is still mapped by")?;
                for (index, holder) in holders.iter().enumerate() {
                    write!(f, "{} domain {holder}", if index == 0 { "" } else { "," })?;
                }
                f.write_str(
                    ", which did not unmap it in time and could not be killed: the memory is not given to another domain \
                     until they unmap it or are dead",
                )
            }
        }
    }
}

impl core::error::Error for CapabilityFault {}
