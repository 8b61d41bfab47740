//! One address range over the separate memories of a job.
//!
//! The programs of a job that call [`PagesOptions::open`] get a range at the same address, on whichever nodes
//! they run. Each page is where it is used: a thread that accesses a page that is not here is stopped
//! (userfaultfd), a second thread of the program fetches the page by messages to the other ranks, and the
//! first goes on. Programs use loads, stores and atomic operations, as on memory that is shared. The protocol
//! is `protocol/directory`; memory is sequentially consistent, or [as weak as the program
//! needs](PagesOptions::consistency).
//!
//! A page whose only copy was at a program that died is lost, and no other: [`Pages::acquire`] returns an
//! error that names page and rank, and an access without that ends the program with SIGBUS, after the same
//! words on standard error.
//!
//! Needs Linux 6.4 on each node, and permission to use userfaultfd. A node under user-mode emulation has
//! none; what is missing is named by [`Error::Unavailable`].
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
pub use statistics::judge::{Hot, Sharing, hot};
pub use statistics::report::{PageReport, RankReport, list};
pub use statistics::touched::Place;
pub use tombolo_base::SharedMemory;
pub use tombolo_directory::{Access, Consistency, Counts};
pub use tombolo_platform::memory::Unavailable;
