//! What the kernel tells of its machine: how busy it is and how fast, what memory and power it takes, and what of that is
//! its processes'.
//!
//! All of it comes from files of procfs and sysfs, wherever these are ([`Folders`]). A file that is not there, cannot be
//! read or says nothing that makes sense reads as "not known"; nothing here fails. Files that are read again and again are
//! kept open where they are few, and nothing is allocated for a reading.

mod frequency;
mod load;
mod power;
mod process;
mod read;
mod speed;
mod steering;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::PathBuf;

pub use frequency::{Frequencies, Frequency, MAX_GOVERNORS};
pub use load::{Loads, Memory};
pub use power::{MAX_METERS, Meter, Power};
pub use process::{OwnMeter, OwnUsage, ProcessMeter, Usage};
pub use read::Reader;
pub use speed::rounds_per_ms;
pub use steering::{Change, Refusal, Steering, give_back};

/// The most processors that are looked at.
pub const MAX_PROCESSORS: usize = 1024;

/// Names the folder of sysfs, where that is not `/sys`.
pub const SYSFS_VARIABLE: &str = "TOMBOLO_SYSFS";

/// Where the kernel tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Folders {
    /// Of procfs.
    pub proc: PathBuf,
    /// Of sysfs.
    pub sys: PathBuf,
}

impl Default for Folders {
    fn default() -> Self {
        Folders { proc: "/proc".into(), sys: "/sys".into() }
    }
}

impl Folders {
    /// As this process was told by [`SYSFS_VARIABLE`].
    #[must_use]
    pub fn from_environment() -> Folders {
        Folders::with_sysfs(std::env::var_os(SYSFS_VARIABLE))
    }

    /// With sysfs where `folder` says, if it says anything.
    fn with_sysfs(folder: Option<OsString>) -> Folders {
        let usual = Folders::default();
        let sys = folder.filter(|folder| !folder.is_empty());
        Folders { sys: sys.map_or(usual.sys, PathBuf::from), ..usual }
    }
}
