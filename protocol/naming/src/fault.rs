//! Why a request about names was refused, as people read it.

use core::fmt;

use crate::name_faults::NameFault;

impl fmt::Display for NameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameFault::BadName { name } => write!(
                f,
                "'{name}' is no name: 1 to {} letters, digits, '.', '_', '-', '/' or ':'",
                crate::MAX_NAME_BYTES
            ),
            NameFault::BadAttribute { attribute } => write!(
                f,
                "'{attribute}' is no name of an attribute: 1 to {} letters, digits, '.', '_' or '-'",
                crate::MAX_ATTRIBUTE_BYTES
            ),
            NameFault::BadValue { attribute } => {
                write!(f, "attribute '{attribute}' is not a number, and so compares with nothing")
            }
            NameFault::BadPattern { pattern, offset, why } => {
                write!(f, "the pattern '{pattern}' is wrong at byte {offset}: {why}")
            }
            NameFault::NoSuchName { name } => {
                write!(f, "nothing is called '{name}' (`tombolo names` lists what there is)")
            }
            NameFault::Exists { name, owner: Some(owner) } => {
                write!(f, "the name '{name}' is taken by domain {owner}: choose another or stop that domain")
            }
            NameFault::Exists { name, owner: None } => {
                write!(f, "'{name}' exists already: choose another name or delete it")
            }
            NameFault::WrongVersion { name, expected, found } => write!(
                f,
                "'{name}' has version {found}, not {expected}: somebody changed it meanwhile; read it again"
            ),
            NameFault::NotYours { name, owner } => {
                write!(f, "'{name}' is exported by domain {owner}, which alone may change it")
            }
            NameFault::TooCostly { query } => {
                write!(f, "'{query}' takes too many steps to match: name what you look for more precisely")
            }
            NameFault::Limit { what, limit } => {
                write!(f, "there are {limit} {what}, and no more are allowed")
            }
            NameFault::Locked { name, holder } => write!(f, "the lock '{name}' is held by domain {holder}"),
            NameFault::NotHeld { name } => write!(f, "'{name}' is not held by this program, or not any more"),
            NameFault::NoPermits { name } => write!(f, "the semaphore '{name}' has not enough permits left"),
            NameFault::NoSuchSemaphore { name } => {
                write!(f, "there is no semaphore '{name}', or it was removed meanwhile")
            }
            NameFault::BarrierFull { name, parties } => {
                write!(f, "the barrier '{name}' has its {parties} parties: another would wait for ever")
            }
            NameFault::BarrierDiffers { name, parties } => {
                write!(f, "the barrier '{name}' is for {parties} parties: all must say the same number")
            }
            NameFault::BarrierBroken { name, by: Some(by), died } => {
                let how = if *died { "died" } else { "left" };
                write!(f, "domain {by} {how}, and the barrier '{name}' would wait for it for ever")
            }
            NameFault::BarrierBroken { name, by: None, .. } => {
                write!(f, "the barrier '{name}' is broken: one of its parties is gone")
            }
            NameFault::BarrierTimeout { name, arrived, parties } => {
                write!(f, "only {arrived} others of {parties} parties came to the barrier '{name}' in time")
            }
            NameFault::NoSuchWatch { watch } => write!(f, "there is no watch {watch}, or it has ended"),
            NameFault::Cancelled => f.write_str("the request was taken back"),
            NameFault::Refused { why } => f.write_str(why),
        }
    }
}

impl core::error::Error for NameFault {}
