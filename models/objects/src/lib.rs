//! Shared objects for the ranks of a job, on any nodes with common memory, coherent or not: the model of
//! TACO-MESH (Rotta, Prescher, Traue, Nolte, MARC 2012) with its three consistency controllers.
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
//! - [`Shared`] is a handle of an object with a value of a [`Plain`] type. Access requires a guard: many
//!   ranks read, or one writes. Acquiring a guard has a timeout.
//! - [`Job::acquire_all`] acquires several objects in a global order.
//! - [`Space`] and [`Mapping`]: index spaces, and values for their indices, cached or not.
//! - [`Method`] and [`Job::call`]: remote method calls on objects.
//! - [`Job::barrier`], [`broadcast`](Job::broadcast), [`reduce`](Job::reduce): collectives along a tree.
//! - [`Pointer`] identifies an object on all ranks.
//!
//! **A rank that dies** is skipped as soon as its monitor reports its end. Acquiring an object that it was
//! writing then fails with [`ObjectError::WriterDied`], until a rank rewrites it with [`Shared::repair`].
//! Collectives need all members; the survivors of a death continue after [`Job::shrink`]. Rank 0 owns the
//! memory: when it dies, the job ends.
//!
//! Access without a guard, and guards held across a collective, do not compile. [`tombolo_sharing`]
//! implements the protocol, and `docs/specs/objects.md` specifies the memory format.
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
