//! What a machine shows of itself, and what may be changed while it runs.

mod bench;
mod steer;
mod top;
mod trace;
mod web;
