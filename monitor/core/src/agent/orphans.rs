//! What domains leave behind is ended with them.

use tombolo_base::DomainId;

use super::AgentCore;

/// A process whose parent is this monitor, because it was started or adopted by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kin {
    /// Its process id.
    pub pid: i32,
    /// Its process group.
    pub group: i32,
}

impl<D> AgentCore<D> {
    /// Some process has ended whose own children may have become this monitor's.
    pub fn expect_orphans(&mut self) {
        self.orphans_expected = true;
    }

    /// Returns whether to look for orphans now; once for each reason to.
    pub fn take_orphans_expected(&mut self) -> bool {
        std::mem::take(&mut self.orphans_expected)
    }

    /// Returns whether a child of this process is to be killed: it comes from no living domain. `domain_of`
    /// tells in whose environment it was started; `lives` whether a domain of another agent of this kernel
    /// lives, as an emulated monitor cannot adopt what its domains leave behind.
    pub fn is_orphan(
        &self,
        kin: Kin,
        domain_of: impl FnOnce() -> Option<DomainId>,
        lives: impl FnOnce(DomainId) -> bool,
    ) -> bool {
        let known = self.children.values().any(|child| child.pid() == kin.pid || child.pid() == kin.group);
        !known && !domain_of().is_some_and(|domain| self.children.contains_key(&domain) || lives(domain))
    }
}
