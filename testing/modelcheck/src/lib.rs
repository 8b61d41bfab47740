//! Protocols under a model checker, which explores every order of events within bounds, with deaths at every
//! step.
#![forbid(unsafe_code)]

pub mod broadcast;
pub mod collectives;
pub mod hubs;
pub mod objects;
pub mod pages;
pub mod release;
pub mod revocation;
pub mod tasks;
