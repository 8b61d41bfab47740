//! The server of `tombolo web`: a machine, live, for browsers on the same computer.
//!
//! [`Server`] serves one page over HTTP on loopback. What the page and the server say to each other, and who is let in, is
//! docs/specs/web.md. One thread keeps up with the machine's monitor while somebody looks ([`Keeper`]); each page gets the rows that it
//! asked for ([`view`]) as differences to what it was sent last. For others there is Prometheus's text format.
//!
//! **Invariant:** nobody is answered who is not of the same user, on the same computer, with the token; and nothing is changed unless
//! the server was started to steer, whatever a page asks.
//!
//! **Invariant:** what a page was not sent yet is not kept for it.

mod api;
mod assets;
mod connection;
mod feed;
mod guard;
mod keeper;
mod live;
mod metrics;
mod rows;
mod server;
#[cfg(test)]
mod testing;
mod text;
pub mod view;

pub use keeper::{Keeper, Looker, MonitorState, Picture};
pub use server::{Options, ServeError, Server, Stopper};
pub use text::Decoder;
