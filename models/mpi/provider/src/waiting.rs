//! Wait objects, on which a program blocks for a completion queue, a counter or an event queue.

use core::ffi::{c_int, c_void};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use tombolo::waitset::Trigger;
use tombolo::{Interest, Token, WaitSet};

use crate::abi::*;
use crate::endpoint::Endpoint;
use crate::entry::object;

/// Maximum length of a single wait of a call without a timeout.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// A wait object, and the endpoints that wake it.
pub(crate) struct WaitObject {
    kind: c_int,
    /// `None` if the program requested no wait object.
    set: Option<WaitSet>,
    tokens: Vec<(*mut Endpoint, Token)>,
}

impl WaitObject {
    /// Creates a wait object of the requested kind (`FI_WAIT_…`).
    ///
    /// # Errors
    /// The error number to return to the program.
    pub(crate) fn open(kind: c_int) -> Result<Self, c_int> {
        let set = match kind {
            FI_WAIT_NONE => None,
            FI_WAIT_UNSPEC | FI_WAIT_FD | FI_WAIT_YIELD => {
                let mut set = WaitSet::new().map_err(|_| -FI_ENOMEM)?;
                set.set_spin_ns(0);
                Some(set)
            }
            _ => return Err(-FI_ENOSYS),
        };
        Ok(Self { kind, set, tokens: Vec::new() })
    }

    /// Returns whether there is anything to wait on.
    pub(crate) fn exists(&self) -> bool {
        self.set.is_some()
    }

    /// Handles `fi_control` for the object that this belongs to.
    pub(crate) fn control(&self, command: c_int, argument: *mut c_void) -> c_int {
        let answer = match (command, &self.set) {
            (FI_GETWAIT, Some(set)) => set.as_fd().as_raw_fd(),
            (FI_GETWAITOBJ, _) => self.kind,
            _ => return -FI_ENOSYS,
        };
        // SAFETY: the program passes a valid output pointer.
        unsafe { *argument.cast::<c_int>() = answer };
        0
    }

    /// Arms endpoints to wake the waiter. Returns false if something has happened already, or nothing would
    /// wake it.
    pub(crate) fn prepare_wait(&mut self, endpoints: impl IntoIterator<Item = *mut Endpoint>) -> bool {
        endpoints.into_iter().all(|endpoint| self.prepare_endpoint(endpoint))
    }

    fn prepare_endpoint(&mut self, endpoint: *mut Endpoint) -> bool {
        let Some(set) = &mut self.set else { return false };
        let Some(prepared) = object!(endpoint, Endpoint).engine.prepare_wait() else { return false };
        if !self.tokens.iter().any(|(known, _)| *known == endpoint) {
            match set.add_descriptor(&*prepared, Interest::Read, Trigger::Level) {
                Ok(token) => self.tokens.push((endpoint, token)),
                // Nothing would wake the waiter, so it must not block.
                Err(_) => return false,
            }
        }
        true
    }

    /// Removes an endpoint that is being closed.
    pub(crate) fn remove(&mut self, endpoint: *mut Endpoint) {
        let Some(set) = &mut self.set else { return };
        self.tokens.retain(|(known, token)| {
            if *known == endpoint {
                set.remove(*token);
            }
            *known != endpoint
        });
    }

    /// Waits until something happens. Returns false on timeout, or if there is nothing to wait on.
    pub(crate) fn wait(&mut self, timeout: Duration) -> bool {
        self.set.as_mut().is_some_and(|set| set.wait(timeout).is_ok())
    }

    /// Interrupts a wait. Returns false if there is nothing to wait on.
    pub(crate) fn wake(&self) -> bool {
        self.set.as_ref().map(|set| set.waker().wake()).is_some()
    }
}

/// Timeout of a call, given in milliseconds; negative for none.
pub(crate) struct Deadline {
    timeout: Option<Duration>,
    started_at: Instant,
}

impl Deadline {
    pub(crate) fn from_timeout_ms(timeout: c_int) -> Self {
        Self { timeout: u64::try_from(timeout).ok().map(Duration::from_millis), started_at: Instant::now() }
    }

    /// Returns whether there is a timeout.
    pub(crate) fn is_finite(&self) -> bool {
        self.timeout.is_some()
    }

    /// Returns the remaining time, which is the length of the next wait.
    pub(crate) fn remaining(&self) -> Duration {
        self.timeout.map_or(MAX_WAIT, |limit| limit.saturating_sub(self.started_at.elapsed()))
    }
}
