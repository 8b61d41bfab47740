//! One address range over the separate memories of a job.
//!
//! The programs of a job that call [`PagesOptions::open`] get a range at the same address, on any nodes.
//! Pages migrate to where they are used: a thread that accesses an absent page faults (userfaultfd), a
//! service thread of the program fetches the page by messages to the other ranks, and the first thread
//! resumes. Programs use loads, stores and atomic operations, as on shared memory. `protocol/directory`
//! implements the protocol; memory is sequentially consistent, or [as weak as the program
//! needs](PagesOptions::consistency).
//!
//! If a program dies, exactly the pages of which it had the only copy are lost: [`Pages::acquire`] returns an
//! error that names page and rank, and a plain access ends the program with SIGBUS, after printing the same
//! message to standard error.
//!
//! Needs Linux 6.4 on each node, and permission to use userfaultfd, which user-mode emulation does not
//! support; [`Error::Unavailable`] names what is missing.
#![forbid(unsafe_code)]

mod error;
mod options;
mod pages;
mod service;
mod setup;
mod statistics;
mod store;

pub use error::{Error, LostAccess, LostPage};
pub use options::PagesOptions;
pub use pages::{HotPage, Pages};
pub use statistics::fault_samples::Place;
pub use statistics::hot_pages::{JobHotPage, Sharing, hot_pages};
pub use statistics::report::{PageReport, RankReport, list};
pub use tombolo_base::SharedMemory;
pub use tombolo_directory::{Access, Consistency, Counts};
pub use tombolo_platform::memory::Unavailable;
