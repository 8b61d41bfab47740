//! Class of domains. Its methods are in `domain`, which depends on everything that a domain opens.

use pyo3::prelude::*;

/// This program as a domain of a machine. From :func:`attach`. Threads may share it.
#[pyclass(module = "tombolo", frozen)]
#[derive(Debug)]
pub(crate) struct Domain {
    pub(crate) domain: tombolo::Domain,
}
