//! Tasks: functions that a program starts on any node, like goroutines in Go.
//!
//! An image registers functions by name. Its first domain starts workers, which are further domains of the
//! same image on nodes of its choice, and runs tasks on them. A task is a light thread of its worker: a
//! future.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use tombolo::Domain;
//! use tombolo_tasks::{Context, Function, Functions, TaskError, Tasks};
//!
//! const SQUARE: Function<u64, u64> = Function::new("square");
//!
//! async fn square(_: Context, number: u64) -> u64 {
//!     number * number
//! }
//!
//! fn main() -> ExitCode {
//!     // On a worker this runs its tasks, and does nothing else.
//!     if let Some(status) = Functions::new().register(SQUARE, square).run_worker() {
//!         return status;
//!     }
//!     match sum() {
//!         Ok(sum) => println!("{sum}"),
//!         Err(error) => eprintln!("error: {error}"),
//!     }
//!     ExitCode::SUCCESS
//! }
//!
//! fn sum() -> Result<u64, TaskError> {
//!     let tasks = Tasks::start(&Domain::attach()?, "host:2,arm0")?;
//!     let started: Result<Vec<_>, _> = (0..100).map(|number| tasks.go(SQUARE, number)).collect();
//!     started?.into_iter().map(|task| task.join()).sum()
//! }
//! ```
//!
//! * **Light threads.** A worker has one thread and any number of tasks. A task that awaits, for example a
//!   hub ([`Context::hubs`]), lets others run; one that computes or blocks holds up its worker.
//! * **Load balancing.** Workers request tasks when they can run some, and the last tasks are left to faster
//!   workers, by the speeds that monitors have measured. [`Tasks::on`] restricts tasks to one node.
//! * **Blocking functions** ([`Functions::register_blocking`]) have threads, which take turns with the
//!   worker; its other tasks run while they are in [`block_on`].
//! * **Other languages.** C and Python register and start functions by [`Signature`], with the same encoding.
//! * **Ends.** A task ends once: with its result, or with a [`TaskError`] that contains its name and node: a
//!   panic with its message, the death of its worker, cancellation. A task runs at most once, so the tasks of
//!   a dead worker are not run again.
//! * **Tasks start tasks**: [`Context::go`], from any worker to any.
//!
//! `tombolo-task` implements the scheduling and the messages.
#![forbid(unsafe_code)]

mod blocking;
mod context;
mod driver;
mod error;
mod executor;
mod function;
mod handle;
mod restart;
mod signature;
mod starter;
mod worker;
mod worker_connection;

pub use blocking::{Cancelled, block_on, is_task};
pub use context::Context;
pub use error::TaskError;
pub use executor::yield_now;
pub use function::Functions;
pub use handle::{Canceller, JoinHandle};
pub use signature::{Function, Signature};
pub use starter::Tasks;
pub use tombolo_hubs::Value;
pub use tombolo_task::{End, FailureKind, Refusal, WorkerUsage, wire::MAX_VALUE_BYTES};
pub use worker_connection::{Instruction, Stop, WorkerConnection};

/// Environment variable with the name by which a worker finds its starter.
pub(crate) const STARTER_VARIABLE: &str = "TOMBOLO_TASKS_STARTER";

/// Options of the channel between a starter and a worker, used by both ends.
pub(crate) fn options() -> Result<tombolo::ChannelOptions, tombolo::Error> {
    let options = tombolo::ChannelOptions::default().slots(1024)?;
    Ok(options.interface_hash(tombolo_task::wire::INTERFACE_HASH))
}
