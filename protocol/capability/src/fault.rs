//! Why a request about capabilities was refused, as people read it.

use core::fmt;

use crate::capabilities::{Backing, CapabilityFault, Seal};

impl fmt::Display for Backing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Backing::Memory => "memory",
            Backing::Window => "window",
            Backing::File => "file",
            Backing::Foreign => "foreign",
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
                "there is no {capability}, or not any more: it was deleted or revoked, or went with its holder"
            ),
            CapabilityFault::NotYours { capability } => {
                write!(f, "{capability} is held by another domain: have it granted to this one")
            }
            CapabilityFault::Revoked { capability } => write!(f, "{capability} has been revoked"),
            CapabilityFault::Lacks { capability, needed, given } => write!(
                f,
                "{capability} gives the rights {given}, and {needed} are needed: ask its granter for more"
            ),
            CapabilityFault::BadExtent { extent, available_bytes } => write!(
                f,
                "bytes {extent} are no part of a region or capability of {available_bytes} bytes, or empty"
            ),
            CapabilityFault::Unaligned { extent, unit_bytes } => write!(
                f,
                "bytes {extent} do not begin and end between pages: offset and length have to be multiples of {unit_bytes}"
            ),
            CapabilityFault::NotReachable { region, from } => write!(
                f,
                "the bytes of region {region} are not reachable from domain {from}: copy them, or make the region in the \
                 window between the two nodes"
            ),
            CapabilityFault::Mapped { region, mappings } => write!(
                f,
                "region {region} is mapped {mappings} times in a way that does not allow that: let the mappings go first"
            ),
            CapabilityFault::Sealed { region, seal: Seal::Frozen } => {
                write!(f, "region {region} is frozen: nobody can write to it any more")
            }
            CapabilityFault::Sealed { region, seal } => {
                write!(f, "region {region} is sealed ({seal}): nobody else can map it for writing any more")
            }
            CapabilityFault::CannotSeal { region, backing } => write!(
                f,
                "region {region} is of kind {backing}: only what is in memory of one kernel can be sealed"
            ),
            CapabilityFault::TakenUp { capability } => write!(
                f,
                "{capability} has been taken up already, or was made by its holder: what a message brings is taken up once"
            ),
            CapabilityFault::NotFrom { capability, domain } => {
                write!(f, "{capability} was not granted by domain {domain}, from whom its number came")
            }
            CapabilityFault::StillHeld { capability, holders } => {
                write!(f, "{capability} is revoked, but the memory is still mapped by")?;
                for (index, holder) in holders.iter().enumerate() {
                    write!(f, "{} domain {holder}", if index == 0 { "" } else { "," })?;
                }
                f.write_str(
                    ", which did not let go in time and could not be killed: it is given to nobody else until they do or \
                     are dead",
                )
            }
        }
    }
}

impl core::error::Error for CapabilityFault {}
