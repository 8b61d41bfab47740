//! Finds, kills and reaps processes that domains leave behind.

use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open, waitpid};

use tombolo_base::DomainId;
use tombolo_platform::event::Interest;

use super::{Agent, Token};
use crate::orphans;

/// Environment variable with a domain's id, by which the monitor finds the domain of an orphan.
pub(super) const DOMAIN_VARIABLE: &str = "TOMBOLO_DOMAIN";

impl Agent {
    /// Records that a process has ended whose children may have become this monitor's.
    pub fn expect_orphans(&mut self) {
        self.core.expect_orphans();
    }

    /// Kills expected orphans: children that come from no living domain. `nodes` are children of this process
    /// that are not domains; `is_alive` returns whether a domain of another agent of this kernel is alive.
    /// Does not wait: they are reaped as they end.
    pub fn kill_orphans(&mut self, nodes: &[i32], is_alive: impl Fn(DomainId) -> bool) {
        if !self.core.take_orphans_expected() {
            return;
        }
        for child in orphans::children() {
            let domain_of = || orphans::variable_of(child.pid, DOMAIN_VARIABLE)?.parse().ok();
            let known = nodes.contains(&child.pid) || self.orphans.contains_key(&child.pid);
            if known || !self.core.is_orphan(child, domain_of, &is_alive) {
                continue;
            }
            orphans::kill(child);
            // A process that cannot be watched stays a zombie until the next scan.
            if let Some(pid) = Pid::from_raw(child.pid)
                && let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty())
                && let Ok(registered) = self.poller.add(pidfd, Token::Orphan(child.pid), Some(Interest::Read))
            {
                self.orphans.insert(child.pid, registered);
            }
        }
    }

    pub(super) fn reap_orphan(&mut self, number: i32) {
        let ended = Pid::from_raw(number).map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
        if !matches!(ended, Some(Ok(None))) {
            self.orphans.remove(&number);
            // Its children have become this monitor's.
            self.expect_orphans();
        }
    }
}
