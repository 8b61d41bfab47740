//! Channels, semaphores, locks, events and pools that programs on all nodes share.
//!
//! A *hub* is located on one node and found by its name from any node. A [`Task`] uses hubs: one thread of a
//! program, with a priority.
//!
//! ```no_run
//! use tombolo::Domain;
//! use tombolo_hubs::{HubError, Task};
//!
//! fn main() -> Result<(), HubError> {
//!     let task = Task::attach(&Domain::attach()?)?;
//!     let jobs = task.chan::<u64>("jobs")?;
//!     let done = task.semaphore("done")?;
//!     for job in &jobs {
//!         println!("{}", job?);
//!         done.signal()?;
//!     }
//!     Ok(())
//! }
//! ```
//!
//! The API has two styles: that of Go (*Go's Concurrency Constructs on the SCC*: [`Chan`], with `close`,
//! iteration and [`select`](Task::select)), and that of OpenComRTOS (ports, fifos, events, semaphores,
//! resources, pools, each with try, wait and wait with deadline). `tombolo-hub` implements the state machine
//! of both.
//!
//! Operations that wait have an async variant for any executor: `recv` and `recv_async`.
//!
//! * Every wait has a deadline, given by the task's timeout: 30 seconds unless [`within`](Task::within) sets
//!   another.
//! * A value that was not sent is returned with the error.
//! * When the node of a hub dies, or the server of its hubs, waits on it end with [`HubError::Lost`].
#![forbid(unsafe_code)]

mod chan;
mod connections;
mod counts;
#[doc(hidden)]
pub mod declared;
mod error;
mod hub;
mod lock;
mod pipeline;
pub mod plan;
mod pool;
mod select;
pub mod server;
mod signals;
mod task;
mod tracing;
mod value;
mod value_type;

pub use chan::{Chan, Values};
pub use error::{HubError, Unsent};
pub use hub::{Hub, Pending};
pub use lock::{Owned, Resource};
pub use pipeline::{MAX_WINDOW, NotAllSent, Receiver, Sender};
pub use pool::{Block, Pool};
pub use select::{SelectBuilder, Selected, Selection};
pub use server::Server;
pub use signals::{Event, Semaphore};
pub use task::{PRIORITY_VARIABLE, Task, list};
pub use tombolo_hub::{BadDescription, Description, Fault, Kind, MAX_ARMS, Status, Taken, Waiting};
pub use value::Value;
pub use value_type::ValueType;
