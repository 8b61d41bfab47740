//! The bytes of a buffer in the hands of the program.

use std::sync::Arc;

use tombolo_platform::OsError;
use tombolo_platform::sealed::{Fresh, Private, Sealed};

use crate::error::Error;

use super::open::OpenMemory;
use crate::error::BulkError;

/// Where the bytes are.
#[derive(Debug)]
pub(super) enum Content {
    /// In the pool's memory, which all its domains map.
    Pool,
    /// In memory of the buffer, which those map that were sent it.
    Open(Arc<OpenMemory>),
    /// In memory of this process alone.
    Fresh(Fresh),
    /// In memory that is sealed: no process can write to it.
    Sealed(Sealed),
    /// In a copy of such, made as it is written to.
    Private(Private),
    /// Nowhere: what is sealed was lost on the way to something else.
    Gone,
}

impl Content {
    /// The bytes, unless other domains map them.
    pub(super) fn bytes(&self) -> Result<&[u8], Error> {
        match self {
            Content::Fresh(memory) => Ok(memory),
            Content::Sealed(memory) => Ok(memory),
            Content::Private(memory) => Ok(memory),
            Content::Pool | Content::Open(_) => Err(BulkError::Mapped.into()),
            Content::Gone => Err(gone().into()),
        }
    }

    /// The bytes to be written, unless other domains map them.
    pub(super) fn bytes_mut(&mut self) -> Result<&mut [u8], Error> {
        if matches!(self, Content::Sealed(_))
            && let Content::Sealed(sealed) = std::mem::replace(self, Content::Gone)
        {
            *self = Content::Private(sealed.into_private()?);
        }
        match self {
            Content::Fresh(memory) => Ok(memory),
            Content::Private(memory) => Ok(memory),
            Content::Pool | Content::Open(_) => Err(BulkError::Mapped.into()),
            Content::Sealed(_) | Content::Gone => Err(gone().into()),
        }
    }

    /// Seals the memory, so that it can be sent.
    pub(super) fn seal(&mut self) -> Result<(), Error> {
        *self = match std::mem::replace(self, Content::Gone) {
            Content::Fresh(fresh) => Content::Sealed(fresh.seal()?),
            Content::Private(private) => Content::Sealed(private.seal()?),
            other => other,
        };
        Ok(())
    }
}

fn gone() -> OsError {
    OsError::new(
        "use a buffer whose memory was lost when there was none left",
        tombolo_platform::Errno::NOMEM,
    )
}
