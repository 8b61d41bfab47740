//! Observation of a machine, and changes while it runs.

mod bench;
mod steer;
mod top;
mod trace;
mod web;
