//! `tombolo._native`: the extension module of the Python package `tombolo`. Doc comments here are Python
//! docstrings.

mod attached;
mod boundary;
mod bulk;
mod channel;
mod client;
mod codec;
mod compile;
mod domain;
mod end;
mod failure;
mod files;
mod group;
mod hubs;
mod job;
mod layout;
mod mapping;
mod memory;
mod names;
mod opening;
mod passing;
mod pool;
mod region;
mod server;
mod tasks;
mod transfers;
mod wait;

use pyo3::prelude::*;

/// The native part of the package.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::attached::Domain;
    #[pymodule_export]
    use crate::bulk::{Arrival, BulkChannel};
    #[pymodule_export]
    use crate::channel::Channel;
    #[pymodule_export]
    use crate::client::ClientEnd;
    #[pymodule_export]
    use crate::compile::compile_interface;
    #[pymodule_export]
    use crate::domain::{Child, Listener, attach};
    #[pymodule_export]
    use crate::files::{FileService, OpenFile};
    #[pymodule_export]
    use crate::group::GroupEnd;
    #[pymodule_export]
    use crate::hubs::{Begun, HubEnd, TaskEnd};
    #[pymodule_export]
    use crate::job::Job;
    #[pymodule_export]
    use crate::layout::{
        Interface, Message, Type, array, blob, call, message, number, optional, parameters, record, right,
        sequence, text, union,
    };
    #[pymodule_export]
    use crate::names::{Names, Notice, Record, Watch};
    #[pymodule_export]
    use crate::opening::{Opening, RequestListener};
    #[pymodule_export]
    use crate::passing::FarEnd;
    #[pymodule_export]
    use crate::pool::Pool;
    #[pymodule_export]
    use crate::region::{Capability, Region};
    #[pymodule_export]
    use crate::server::{Later, ServerEnd, current_server, later};
    #[pymodule_export]
    use crate::tasks::{EmploymentEnd, JoinEnd, TasksEnd, function_number, is_worker};
    #[pymodule_export]
    use crate::transfers::Transfers;

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        for (name, plain) in crate::layout::plain() {
            module.add(name, plain)?;
        }
        for (name, class) in crate::memory::buffer_types(module.py())? {
            module.add(name, class)?;
        }
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("DEFAULT_TIMEOUT", crate::wait::DEFAULT_TIMEOUT)
    }
}
