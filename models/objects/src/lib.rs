//! Shared objects for the ranks of a job, on any nodes that have memory in common, coherent or not:
//! TACO-MESH's model (Rotta, Prescher, Traue, Nolte, MARC 2012) with its three consistency controllers.
//!
//! ```no_run
//! use tombolo::Domain;
//! use tombolo_objects::{Consistency, Job, JoinOptions, ObjectError};
//!
//! fn main() -> Result<(), ObjectError> {
//!     let mut job = Job::join(&Domain::attach()?, JoinOptions::default())?;
//!     let mut total = job.share(0, &0_u64, Consistency::Timestamp)?;
//!     *total.write(&job)? += u64::from(job.rank());
//!     job.barrier()?;
//!     println!("rank {}: {}", job.rank(), *total.read(&job)?);
//!     Ok(())
//! }
//! ```
//!
//! - [`Shared`] is a handle of an object with a value of a [`Plain`] type. A guard is access: many ranks
//!   read, or one writes. Every guard has a deadline.
//! - [`Job::acquire_all`] acquires several objects in one order.
//! - [`Space`] and [`Mapping`]: index spaces, and values for their indexes, cached or not.
//! - [`Method`] and [`Job::call`]: calls on objects at other ranks.
//! - [`Job::barrier`], [`broadcast`](Job::broadcast), [`reduce`](Job::reduce): collectives along a tree.
//! - [`Pointer`] names an object on all ranks.
//!
//! **A rank that dies** is passed over as soon as its monitor says that it has ended. An object that it was
//! writing then answers [`ObjectError::WriterDied`], until a rank writes all of it anew with
//! [`Shared::repair`]. Collectives need all members; those that are left after a death go on with
//! [`Job::shrink`]. Rank 0 owns the memory: when it dies, the job ends.
//!
//! Access is not possible without a guard, and a guard cannot be kept across a collective: neither compiles.
//! [`tombolo_sharing`] has the protocol and `docs/specs/objects.md` the bytes.
#![forbid(unsafe_code)]

mod call;
mod collective;
mod composite;
mod error;
mod job;
mod mapping;
mod plain;
mod ranks;
mod shared;
mod tree;

pub use tombolo_sharing::{Caching, Consistency, Fault};

pub use call::{Method, Methods};
pub use composite::{Part, Parts, Reading, Writing};
pub use error::ObjectError;
pub use job::{Job, JoinOptions};
pub use mapping::{Mapping, MappingReader, MappingWriter, Space, SpacePointer};
pub use plain::Plain;
#[doc(hidden)]
pub use plain::{shape, shape_of_name};
pub use shared::{Pointer, ReadGuard, Shared, WriteGuard};
