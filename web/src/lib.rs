//! The server of `tombolo web`, which shows a running machine in browsers on the same computer.
//!
//! [`Server`] serves one page over HTTP on loopback. The protocol between page and server, and its access
//! control, are specified in docs/specs/web.md. One thread follows the machine's monitor while pages are open
//! ([`StateCache`]); each page gets the rows that it requested ([`view`]) as differences to those sent
//! before. `/metrics` has Prometheus's text format.
//!
//! **Invariant:** only processes of the same user on the same computer that send the token get an answer, and
//! the server changes nothing unless it was started to steer, regardless of a page's requests.
//!
//! **Invariant:** the server does not queue updates for a page: a slow page gets the current state later.

mod api;
mod assets;
mod cache;
mod connection;
mod feed;
mod guard;
mod live;
mod metrics;
mod rows;
mod server;
#[cfg(test)]
mod testing;
mod text;
pub mod view;

pub use cache::{MonitorState, Snapshot, StateCache, Viewer};
pub use server::{Options, ServeError, Server, StopHandle};
pub use text::Decoder;
