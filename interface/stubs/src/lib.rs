//! Stubs of the interfaces in `interfaces/`, one module per file. `cargo xtask codegen` generates them.
#![no_std]
#![forbid(unsafe_code)]

#[rustfmt::skip]
pub mod common;
#[rustfmt::skip]
pub mod copies;
#[rustfmt::skip]
pub mod echo;
#[rustfmt::skip]
pub mod everything;
#[rustfmt::skip]
pub mod everything_owned;
#[rustfmt::skip]
pub mod greeter;
#[rustfmt::skip]
pub mod growth;
#[rustfmt::skip]
pub mod growth_before;
#[rustfmt::skip]
pub mod kv;
#[rustfmt::skip]
pub mod rights;
