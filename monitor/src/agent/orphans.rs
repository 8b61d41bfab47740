//! What domains leave behind is ended with them.

use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open, waitpid};

use tombolo_base::DomainId;

use super::Agent;
use crate::orphans::{self, Kin};

/// Tells every domain its id, and the monitor which domain an orphan comes from.
pub(super) const DOMAIN_VARIABLE: &str = "TOMBOLO_DOMAIN";

impl Agent {
    /// Some process has ended whose own children may have become this monitor's.
    pub fn expect_orphans(&mut self) {
        self.orphans_expected = true;
    }

    /// If orphans are expected: kills those that come from no living domain. `nodes` are children of this process
    /// that are no domains; `lives` tells whether a domain of another agent of this kernel lives, as an emulated
    /// monitor cannot adopt what its domains leave behind. They are reaped as they end, which this does not wait
    /// for.
    pub fn end_orphans(&mut self, nodes: &[i32], lives: impl Fn(DomainId) -> bool) {
        if !std::mem::take(&mut self.orphans_expected) {
            return;
        }
        for kin in orphans::children() {
            let number = kin.pid.as_raw_nonzero().get();
            let known = nodes.contains(&number) || self.children.values().any(|child| child.pid() == number);
            if known || self.orphans.contains_key(&number) || self.has_living_domain(kin, &lives) {
                continue;
            }
            orphans::kill(kin);
            // Where it cannot be watched it stays a zombie until the next time.
            if let Ok(pidfd) = pidfd_open(kin.pid, PidfdFlags::empty()) {
                self.orphans.insert(number, pidfd);
            }
        }
    }

    /// Whether it is of the group of a domain that lives, or was started with its environment.
    fn has_living_domain(&self, kin: Kin, lives: &impl Fn(DomainId) -> bool) -> bool {
        let in_group = self.children.values().any(|child| child.pid() == kin.group);
        let domain = || orphans::variable_of(kin.pid, DOMAIN_VARIABLE)?.parse().ok();
        in_group || domain().is_some_and(|domain| self.children.contains_key(&domain) || lives(domain))
    }

    pub(super) fn reap_orphan(&mut self, number: i32) {
        let ended = Pid::from_raw(number).map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
        if !matches!(ended, Some(Ok(None))) {
            self.orphans.remove(&number);
            // What it had started has become this monitor's.
            self.expect_orphans();
        }
    }
}
