//! Measurements by the kernel: load and frequencies of processors, memory, power, and the usage of processes.
//!
//! All of it comes from files of procfs and sysfs, whose folders can be set ([`SystemPaths`]). A file that is
//! missing, unreadable or malformed reads as "unknown"; nothing here fails. Files that are read repeatedly
//! stay open if they are few, and a reading allocates nothing.

mod frequency;
mod frequency_control;
mod load;
mod power;
mod process;
mod read;
mod speed;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::PathBuf;

pub use frequency::{Frequency, FrequencyMeter, MAX_GOVERNORS};
pub use frequency_control::{FrequencyControl, FrequencyError, FrequencySettings, restore_recorded};
pub use load::{LoadMeter, MemoryUsage};
pub use power::{MAX_METERS, Meter, PowerMeters};
pub use process::{ProcessMeter, SelfMeter, SelfUsage, Usage};
pub use read::Reader;
pub use speed::rounds_per_ms;

/// Maximum number of processors read.
pub const MAX_PROCESSORS: usize = 1024;

/// Environment variable with the sysfs folder, if it is not `/sys`.
pub const SYSFS_VARIABLE: &str = "TOMBOLO_SYSFS";

/// Folders of the kernel's file systems.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SystemPaths {
    /// The folder where procfs is mounted.
    pub proc: PathBuf,
    /// The folder where sysfs is mounted.
    pub sys: PathBuf,
}

impl Default for SystemPaths {
    fn default() -> Self {
        SystemPaths { proc: "/proc".into(), sys: "/sys".into() }
    }
}

impl SystemPaths {
    /// Returns the folders according to [`SYSFS_VARIABLE`].
    #[must_use]
    pub fn from_environment() -> SystemPaths {
        SystemPaths::with_sysfs(std::env::var_os(SYSFS_VARIABLE))
    }

    /// Returns the default folders with sysfs at `folder`, if given.
    fn with_sysfs(folder: Option<OsString>) -> SystemPaths {
        let usual = SystemPaths::default();
        let sys = folder.filter(|folder| !folder.is_empty());
        SystemPaths { sys: sys.map_or(usual.sys, PathBuf::from), ..usual }
    }
}
