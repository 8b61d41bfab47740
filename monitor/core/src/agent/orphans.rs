//! Ends processes that domains leave behind.

use tombolo_base::DomainId;

use super::AgentCore;

/// A process whose parent is this monitor, either started or adopted by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcessInfo {
    /// Process id of the child.
    pub pid: i32,
    /// Process group of the child.
    pub group: i32,
}

impl<D> AgentCore<D> {
    /// Records that a process has ended whose children may have become this monitor's.
    pub fn expect_orphans(&mut self) {
        self.orphans_expected = true;
    }

    /// Returns whether orphans are expected, and resets the flag.
    pub fn take_orphans_expected(&mut self) -> bool {
        std::mem::take(&mut self.orphans_expected)
    }

    /// Returns whether a child of this process must be killed because it comes from no living domain.
    /// `domain_of` returns the domain in whose environment it was started; `is_alive` returns whether a
    /// domain of another agent of this kernel is alive, since an emulated monitor cannot adopt the orphans of
    /// its domains.
    pub fn is_orphan(
        &self,
        process: ProcessInfo,
        domain_of: impl FnOnce() -> Option<DomainId>,
        is_alive: impl FnOnce(DomainId) -> bool,
    ) -> bool {
        let known =
            self.children.values().any(|child| child.pid() == process.pid || child.pid() == process.group);
        !known && !domain_of().is_some_and(|domain| self.children.contains_key(&domain) || is_alive(domain))
    }
}
