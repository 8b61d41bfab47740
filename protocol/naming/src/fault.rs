//! Why a request about names was refused.

use alloc::string::String;
use core::fmt;

use tombolo_base::DomainId;

/// Why a request about names was refused. Each names what it was about and what the user can do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NameFault {
    /// It is no name: empty, too long, or with characters that names cannot have.
    BadName {
        /// What was given.
        name: String,
    },
    /// It is no name of an attribute.
    BadAttribute {
        /// What was given.
        attribute: String,
    },
    /// A value that cannot be stored: NaN.
    BadValue {
        /// Of which attribute.
        attribute: String,
    },
    /// A pattern cannot be understood.
    BadPattern {
        /// The pattern.
        pattern: String,
        /// Where, in bytes from its start.
        offset: u32,
        /// What is wrong there.
        why: String,
    },
    /// Nothing matches, or nothing did until the deadline.
    NoSuchName {
        /// What was asked for.
        name: String,
    },
    /// It exists already.
    Exists {
        /// The name.
        name: String,
        /// The domain that it goes with, if it goes with one.
        owner: Option<DomainId>,
    },
    /// Somebody changed it meanwhile.
    WrongVersion {
        /// The name.
        name: String,
        /// What was expected.
        expected: u64,
        /// What it has.
        found: u64,
    },
    /// It is an export of another domain, which alone may change it.
    NotYours {
        /// The name.
        name: String,
        /// Whose it is.
        owner: DomainId,
    },
    /// A pattern took more steps than a request may.
    TooCostly {
        /// What was asked.
        query: String,
    },
    /// A limit of the scope was met.
    Limit {
        /// What there is too much of.
        what: String,
        /// How much there may be.
        limit: u64,
    },
    /// The lock is held, and was until the deadline.
    Locked {
        /// The lock.
        name: String,
        /// By whom.
        holder: DomainId,
    },
    /// The caller does not hold what it wants to give back or rely on.
    NotHeld {
        /// What it is called.
        name: String,
    },
    /// There are not that many permits, and were not until the deadline.
    NoPermits {
        /// The semaphore.
        name: String,
    },
    /// There is no semaphore of that name, or it was removed meanwhile.
    NoSuchSemaphore {
        /// What was asked for.
        name: String,
    },
    /// The barrier has all its parties.
    BarrierFull {
        /// The barrier.
        name: String,
        /// How many that is.
        parties: u32,
    },
    /// The barrier was set up for another number of parties.
    BarrierDiffers {
        /// The barrier.
        name: String,
        /// What it was set up for.
        parties: u32,
    },
    /// Somebody whom the others would wait for is gone.
    BarrierBroken {
        /// The barrier.
        name: String,
        /// Who is gone; nobody known if that was long ago.
        by: Option<DomainId>,
        /// It died, rather than left.
        died: bool,
    },
    /// Not all parties came before the deadline.
    BarrierTimeout {
        /// The barrier.
        name: String,
        /// How many are there, the caller not counted.
        arrived: u32,
        /// How many there should be.
        parties: u32,
    },
    /// There is no such watch, or it ended meanwhile.
    NoSuchWatch {
        /// What was given.
        watch: u64,
    },
    /// The caller took the request back.
    Cancelled {},
    /// The request makes no sense where it was made.
    Refused {
        /// Why.
        why: String,
    },
}

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
            NameFault::Cancelled {} => f.write_str("the request was taken back"),
            NameFault::Refused { why } => f.write_str(why),
        }
    }
}

impl core::error::Error for NameFault {}
