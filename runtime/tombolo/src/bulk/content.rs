//! Backing memory of a buffer that the program holds.

use std::sync::Arc;

use tombolo_platform::OsError;
use tombolo_platform::sealed::{Private, Sealed, Unsealed};

use crate::error::Error;

use super::open::OpenMemory;
use crate::error::BulkError;

/// Memory that holds a buffer's bytes.
#[derive(Debug)]
pub(super) enum Content {
    /// The pool's memory, which all its domains map.
    Pool,
    /// Memory of this buffer alone, mapped by the domains that it was sent to.
    Open(Arc<OpenMemory>),
    /// Memory of this process alone.
    Unsealed(Unsealed),
    /// Sealed memory, which no process can write to.
    Sealed(Sealed),
    /// Private copy of sealed memory, created at the first write.
    Private(Private),
    /// None: converting sealed memory failed and lost it.
    Gone,
}

impl Content {
    /// Returns the bytes, unless other domains map them.
    pub(super) fn bytes(&self) -> Result<&[u8], Error> {
        match self {
            Content::Unsealed(memory) => Ok(memory),
            Content::Sealed(memory) => Ok(memory),
            Content::Private(memory) => Ok(memory),
            Content::Pool | Content::Open(_) => Err(BulkError::Mapped.into()),
            Content::Gone => Err(memory_lost_error().into()),
        }
    }

    /// Returns the bytes for writing, unless other domains map them.
    pub(super) fn bytes_mut(&mut self) -> Result<&mut [u8], Error> {
        if matches!(self, Content::Sealed(_))
            && let Content::Sealed(sealed) = std::mem::replace(self, Content::Gone)
        {
            *self = Content::Private(sealed.into_private()?);
        }
        match self {
            Content::Unsealed(memory) => Ok(memory),
            Content::Private(memory) => Ok(memory),
            Content::Pool | Content::Open(_) => Err(BulkError::Mapped.into()),
            Content::Sealed(_) | Content::Gone => Err(memory_lost_error().into()),
        }
    }

    /// Seals the memory, so that it can be sent.
    pub(super) fn seal(&mut self) -> Result<(), Error> {
        *self = match std::mem::replace(self, Content::Gone) {
            Content::Unsealed(fresh) => Content::Sealed(fresh.seal()?),
            Content::Private(private) => Content::Sealed(private.seal()?),
            other => other,
        };
        Ok(())
    }
}

fn memory_lost_error() -> OsError {
    OsError::new(
        "use a buffer whose memory was lost when there was none left",
        tombolo_platform::Errno::NOMEM,
    )
}
