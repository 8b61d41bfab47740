//! The window's interrupts as event counters, in the way that this machine has.

use std::os::fd::OwnedFd;

use super::GuestError;
use super::pci::WindowDevice;
use super::pending::{self, PendingBits};
use super::vfio;

/// The window's interrupts: one event counter per vector, for the lifetime of this value.
#[derive(Debug)]
pub struct Interrupts(Source);

#[derive(Debug)]
enum Source {
    /// They come through `vfio-pci`, which wakes a sleeper at once.
    Vfio(vfio::Interrupts),
    /// They are polled, which takes up to a millisecond.
    Pending(PendingBits),
}

impl Interrupts {
    /// Connects every interrupt vector of the window to an event counter, non-blocking: through `vfio-pci`,
    /// or by polling where the window is behind no IOMMU or the kernel has no
    /// such driver.
    ///
    /// # Errors
    /// [`GuestError`].
    pub fn open(window: &WindowDevice) -> Result<Self, GuestError> {
        let source = match pending::is_needed(window) {
            true => Source::Pending(PendingBits::open(window)?),
            false => Source::Vfio(vfio::Interrupts::open(window)?),
        };
        Ok(Interrupts(source))
    }

    /// The event counters by vector. Each is signalled once per interrupt, or once for several.
    #[must_use]
    pub fn eventfds(&self) -> &[OwnedFd] {
        match &self.0 {
            Source::Vfio(interrupts) => interrupts.eventfds(),
            Source::Pending(pending) => &pending.eventfds,
        }
    }
}
