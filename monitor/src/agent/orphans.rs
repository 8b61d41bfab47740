//! What domains leave behind is found, killed and reaped.

use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open, waitpid};

use tombolo_base::DomainId;
use tombolo_platform::event::Interest;

use super::{Agent, Token};
use crate::orphans;

/// Tells every domain its id, and the monitor which domain an orphan comes from.
pub(super) const DOMAIN_VARIABLE: &str = "TOMBOLO_DOMAIN";

impl Agent {
    /// Some process has ended whose own children may have become this monitor's.
    pub fn expect_orphans(&mut self) {
        self.core.expect_orphans();
    }

    /// If orphans are expected: kills those that come from no living domain. `nodes` are children of this
    /// process that are no domains; `lives` tells whether a domain of another agent of this kernel lives.
    /// They are reaped as they end, which this does not wait for.
    pub fn end_orphans(&mut self, nodes: &[i32], lives: impl Fn(DomainId) -> bool) {
        if !self.core.take_orphans_expected() {
            return;
        }
        for kin in orphans::children() {
            let domain_of = || orphans::variable_of(kin.pid, DOMAIN_VARIABLE)?.parse().ok();
            let known = nodes.contains(&kin.pid) || self.orphans.contains_key(&kin.pid);
            if known || !self.core.is_orphan(kin, domain_of, &lives) {
                continue;
            }
            orphans::kill(kin);
            // Where it cannot be watched it stays a zombie until the next time.
            if let Some(pid) = Pid::from_raw(kin.pid)
                && let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty())
                && let Ok(watched) = self.watch.add(pidfd, Token::Orphan(kin.pid), Some(Interest::Read))
            {
                self.orphans.insert(kin.pid, watched);
            }
        }
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
