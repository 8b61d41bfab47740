//! Rights as parameters of interfaces.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use tombolo::error::Fault;
use tombolo::interface::Handle;
use tombolo::{ChannelId, DomainId, Error};

use crate::channel::{About, Channel};
use crate::failure::{Failure, region_class};

/// The other end of a channel, as the recipient or source of rights: ``channel.far_end``, or the ``far_end``
/// of a client or server.
#[pyclass(module = "tombolo", frozen, from_py_object)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct FarEnd {
    pub(crate) end: tombolo::region::FarEnd,
}

#[pymethods]
impl FarEnd {
    /// The id of the domain at that end.
    #[getter]
    fn domain(&self) -> u64 {
        self.end.domain().to_bits()
    }

    fn __repr__(&self) -> String {
        format!("<tombolo.FarEnd of domain {}>", self.end.domain())
    }
}

impl FarEnd {
    /// Creates the far end of a channel that a client or server has taken.
    pub(crate) fn of(about: &About) -> Result<FarEnd, Failure> {
        let gone = || Failure::new("NoSuchDomain", "there is no domain at the other end");
        let domain = DomainId::from_bits(about.peer).ok_or_else(gone)?;
        Ok(FarEnd { end: tombolo::region::FarEnd::new(domain, ChannelId(about.id)) })
    }
}

/// Converts a channel or a far end, as the recipient or source of a right.
pub(crate) fn end_of(object: &Bound<'_, PyAny>) -> PyResult<tombolo::region::FarEnd> {
    if let Ok(channel) = object.cast::<Channel>() {
        return Ok(channel.get().far_end()?.end);
    }
    let end = object.cast::<FarEnd>().map_err(|_| {
        PyTypeError::new_err(
            "a right goes over a tombolo.Channel, or to the far_end of a channel, client or server",
        )
    })?;
    Ok(end.get().end)
}

/// Right as encoded in a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Right {
    pub(crate) object: u64,
    pub(crate) kind: u8,
    pub(crate) moved: bool,
}

impl Right {
    pub(crate) fn of_mark(object: u64, mark: u64) -> Right {
        Right { object, kind: mark as u8, moved: mark >> 8 != 0 }
    }

    pub(crate) fn mark(self) -> u64 {
        u64::from(self.kind) | u64::from(self.moved) << 8
    }

    pub(crate) fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        region_class(py, "Right")?.call1((self.object, self.kind, self.moved))
    }
}

impl<'py> FromPyObject<'_, 'py> for Right {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Right> {
        let fields: PyResult<(u64, u8, bool)> = object.extract();
        let (object, kind, moved) = fields.map_err(|_| {
            PyTypeError::new_err("a right is a tombolo.Right, such as copy_to and move_to return")
        })?;
        Ok(Right { object, kind, moved })
    }
}

/// Converts an error: a right that this program cannot take up is the peer's fault, other errors are not.
pub(crate) fn refused(error: Error) -> Failure {
    match error {
        Error::Monitor(Fault::Capability { .. }) => Failure::new("RightRefused", error.to_string()),
        error => error.into(),
    }
}

/// Right to memory that was taken up.
pub(crate) enum Taken {
    Region(tombolo::region::Region),
    Capability(tombolo::region::Capability),
}

pub(crate) fn accept(
    py: Python<'_>,
    domain: &tombolo::Domain,
    from: tombolo::region::FarEnd,
    right: Right,
) -> Result<Taken, Failure> {
    let object = right.object;
    py.detach(|| match right.kind {
        2 => domain.accept(from, Handle::<2, false> { object }).map(Taken::Region).map_err(refused),
        3 => domain.accept(from, Handle::<3, false> { object }).map(Taken::Capability).map_err(refused),
        _ => Err(Failure::invalid("it is no right to memory: connect to endpoints, claim buffers")),
    })
}
