//! Interrupts of the window as event counters, by the best method that this machine supports.

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
    /// Delivered through `vfio-pci`, which wakes a sleeper immediately.
    Vfio(vfio::Interrupts),
    /// Polled, which takes up to a millisecond.
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
        let source = match pending::must_poll(window) {
            true => Source::Pending(PendingBits::open(window)?),
            false => Source::Vfio(vfio::Interrupts::open(window)?),
        };
        Ok(Interrupts(source))
    }

    /// Returns the event counters by vector. One signal may stand for several interrupts.
    #[must_use]
    pub fn eventfds(&self) -> &[OwnedFd] {
        match &self.0 {
            Source::Vfio(interrupts) => interrupts.eventfds(),
            Source::Pending(pending) => &pending.eventfds,
        }
    }
}
