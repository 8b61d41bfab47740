//! Tasks: functions that a program starts on any node, as Go starts goroutines.
//!
//! An image registers functions by name. Its first domain starts workers, which are further domains of the
//! same image on nodes of its choice, and tasks on them; a task is a light thread, a future, of its worker.
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
//! * **Light threads.** A worker has one thread and any number of tasks. A task that awaits, a hub say
//!   ([`Context::hubs`]), lets others run; one that computes or blocks holds its worker.
//! * **Sharing.** Workers ask for tasks when they can run some, and the last ones are left to faster workers,
//!   by the speeds that monitors have measured. [`Tasks::on`] starts on one node.
//! * **Functions that block** ([`Functions::register_blocking`]) have threads, which take turns with the
//!   worker; its other tasks run while they are in [`block_on`].
//! * **Other languages.** C and Python register and start functions by [`Signature`], with the same bytes.
//! * **Ends.** A task ends once: with its result, or with a [`TaskError`] that names it and its node: a panic
//!   with its message, the death of its worker, cancellation. A task runs at most once, so what a dead worker
//!   had is not run again.
//! * **Tasks start tasks**: [`Context::go`], from any worker to any.
//!
//! `tombolo-task` has the decisions and the messages.
#![forbid(unsafe_code)]

mod blocking;
mod context;
mod driver;
mod employment;
mod error;
mod executor;
mod function;
mod handle;
mod restart;
mod signature;
mod starter;
mod worker;

pub use blocking::{Cancelled, block_on, is_task};
pub use context::Context;
pub use employment::{Employment, Instruction, Stop};
pub use error::TaskError;
pub use executor::yield_now;
pub use function::Functions;
pub use handle::{Canceller, JoinHandle};
pub use signature::{Function, Signature};
pub use starter::Tasks;
pub use tombolo_hubs::Value;
pub use tombolo_task::{End, FailureKind, Refusal, WorkerUsage, wire::MAX_VALUE_BYTES};

/// The variable with the name by which a worker finds its starter.
pub(crate) const STARTER_VARIABLE: &str = "TOMBOLO_TASKS_STARTER";

/// What both ends say of the channel between a starter and a worker.
pub(crate) fn options() -> Result<tombolo::ChannelOptions, tombolo::Error> {
    let options = tombolo::ChannelOptions::default().slots(1024)?;
    Ok(options.interface_hash(tombolo_task::wire::INTERFACE_HASH))
}
