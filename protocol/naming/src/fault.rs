//! The messages of faults about names.

use core::fmt;

use crate::name_faults::NameFault;

impl fmt::Display for NameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameFault::BadName { name } => write!(
                f,
                "invalid name '{name}'; use 1 to {} letters, digits, '.', '_', '-', '/' or ':'",
                crate::MAX_NAME_BYTES
            ),
            NameFault::BadAttribute { attribute } => write!(
                f,
                "invalid attribute name '{attribute}'; use 1 to {} letters, digits, '.', '_' or '-'",
                crate::MAX_ATTRIBUTE_BYTES
            ),
            NameFault::BadValue { attribute } => {
                write!(f, "attribute '{attribute}' is NaN, which cannot be compared")
            }
            NameFault::BadPattern { pattern, offset, why } => {
                write!(f, "invalid pattern '{pattern}' at byte {offset}: {why}")
            }
            NameFault::NoSuchName { name } => {
                write!(f, "'{name}' does not exist (`tombolo names` lists what exists)")
            }
            NameFault::Exists { name, owner: Some(owner) } => {
                write!(f, "the name '{name}' is taken by domain {owner}; choose another or stop that domain")
            }
            NameFault::Exists { name, owner: None } => {
                write!(f, "'{name}' already exists; choose another name or delete it")
            }
            NameFault::WrongVersion { name, expected, found } => write!(
                f,
                "'{name}' has version {found}, not {expected}; it was changed meanwhile, so read it again"
            ),
            NameFault::NotYours { name, owner } => {
                write!(f, "'{name}' is exported by domain {owner}; only that domain may change it")
            }
            NameFault::TooCostly { query } => {
                write!(f, "'{query}' takes too many steps to match; make it more specific")
            }
            NameFault::Limit { what, limit } => {
                write!(f, "the limit of {limit} {what} is reached")
            }
            NameFault::Locked { name, holder } => write!(f, "the lock '{name}' is held by domain {holder}"),
            NameFault::NotHeld { name } => write!(f, "'{name}' is not held by this program"),
            NameFault::NoPermits { name } => write!(f, "the semaphore '{name}' has too few free permits"),
            NameFault::NoSuchSemaphore { name } => {
                write!(f, "the semaphore '{name}' does not exist or was removed")
            }
            NameFault::BarrierFull { name, parties } => {
                write!(f, "the barrier '{name}' already has its {parties} parties")
            }
            NameFault::BarrierDiffers { name, parties } => {
                write!(f, "the barrier '{name}' is for {parties} parties; all must give the same number")
            }
            NameFault::BarrierBroken { name, by: Some(by), died } => {
                let how = if *died { "died" } else { "left" };
                write!(f, "domain {by} {how}, so the barrier '{name}' can never complete")
            }
            NameFault::BarrierBroken { name, by: None, .. } => {
                write!(f, "the barrier '{name}' is broken; one of its parties is gone")
            }
            NameFault::BarrierTimeout { name, arrived, parties } => {
                write!(f, "only {arrived} others of {parties} parties reached the barrier '{name}' in time")
            }
            NameFault::NoSuchWatch { watch } => write!(f, "watch {watch} does not exist or has ended"),
            NameFault::Cancelled => f.write_str("the request was cancelled"),
            NameFault::Refused { why } => f.write_str(why),
        }
    }
}

impl core::error::Error for NameFault {}
