//! `tombolo._native`: what the Python package `tombolo` stands on. What it is for is said where Python shows it.
#![forbid(unsafe_code)]

mod channel;
mod domain;
mod end;
mod failure;
mod names;
mod wait;

use pyo3::prelude::*;

/// The compiled half of the package.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::channel::Channel;
    #[pymodule_export]
    use crate::domain::{Child, Domain, Listener, attach};
    #[pymodule_export]
    use crate::names::{Names, Notice, Record, Watch};

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("DEFAULT_TIMEOUT", crate::wait::DEFAULT_TIMEOUT)
    }
}
