//! Captured output of children.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tombolo::{Domain, DomainId};

/// Output of each child of a domain, both streams in the order of arrival. It is kept in memory, so children
/// must write little.
#[derive(Clone, Debug, Default)]
pub struct ChildOutput(Arc<Mutex<HashMap<DomainId, Vec<u8>>>>);

impl ChildOutput {
    /// Captures the output of `domain`'s children from now on instead of printing it.
    #[must_use]
    pub fn capture(domain: &Domain) -> ChildOutput {
        let output = ChildOutput::default();
        let keeps = output.clone();
        domain.on_output(move |id, _, bytes| keeps.lock().entry(id).or_default().extend(bytes));
        output
    }

    /// Returns the output of a child so far.
    #[must_use]
    pub fn text(&self, id: DomainId) -> String {
        self.lock().get(&id).map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
    }

    /// Removes and returns the output of a child.
    #[must_use]
    pub fn take(&self, id: DomainId) -> String {
        String::from_utf8_lossy(&self.lock().remove(&id).unwrap_or_default()).into_owned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<DomainId, Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
