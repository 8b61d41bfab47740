//! Times at which killed processes had ended, to separate the kernel's share of a late death report from the
//! machine's.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::monotonic_ns;

/// Time at which each process ended, by domain id.
type EndTimes = Arc<Mutex<HashMap<String, i64>>>;

/// Records the ends of processes, each on a thread that does nothing else, as early as the kernel reports
/// them.
#[derive(Default)]
pub(crate) struct Endings {
    gone_ns: EndTimes,
}

impl Endings {
    /// Watches a process of this kernel that is about to be killed. All domains in `who` die with it.
    pub(crate) fn watch(&self, who: Vec<String>, pid: i32) {
        let Some(process) = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
        else {
            return;
        };
        let gone_ns = Arc::clone(&self.gone_ns);
        std::thread::spawn(move || record_end(&process, who, &gone_ns));
    }

    /// Returns when the process of a domain ended, if that was observed.
    pub(crate) fn gone_ns(&self, who: &str) -> Option<i64> {
        self.gone_ns.lock().unwrap_or_else(PoisonError::into_inner).get(who).copied()
    }

    pub(crate) fn forget_all(&self) {
        self.gone_ns.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn record_end(process: &OwnedFd, who: Vec<String>, gone_ns: &EndTimes) {
    if poll(&mut [PollFd::new(process, PollFlags::IN)], None).is_ok() {
        let now_ns = monotonic_ns();
        let mut gone_ns = gone_ns.lock().unwrap_or_else(PoisonError::into_inner);
        gone_ns.extend(who.into_iter().map(|who| (who, now_ns)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_end_is_recorded_for_all_its_domains() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep starts");
        let endings = Endings::default();
        endings.watch(vec!["one".into(), "other".into()], child.id() as i32);
        assert_eq!(endings.gone_ns("one"), None);
        let before_ns = monotonic_ns();
        child.kill().expect("our own");
        assert!(tombolo_e2e::eventually(|| endings.gone_ns("other").is_some()));
        child.wait().expect("our own");
        assert!(endings.gone_ns("one").is_some_and(|gone_ns| gone_ns >= before_ns));
        endings.forget_all();
        assert_eq!(endings.gone_ns("one"), None);
    }
}
