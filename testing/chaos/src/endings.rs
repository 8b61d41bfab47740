//! When the processes that were killed were gone: what of a late death is the kernel's, and what is ours.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::monotonic_ns;

/// Notes the ends of processes on a thread of its own, one after the other.
pub(crate) struct Endings {
    watched: Sender<(String, OwnedFd)>,
    /// When, by who was killed.
    gone_ns: Arc<Mutex<HashMap<String, i64>>>,
}

impl Endings {
    pub(crate) fn new() -> Endings {
        let gone_ns = Arc::<Mutex<HashMap<String, i64>>>::default();
        let (watched, to_watch) = channel::<(String, OwnedFd)>();
        let known = Arc::clone(&gone_ns);
        std::thread::spawn(move || {
            for (who, process) in to_watch {
                if poll(&mut [PollFd::new(&process, PollFlags::IN)], None).is_ok() {
                    known.lock().unwrap_or_else(PoisonError::into_inner).insert(who, monotonic_ns());
                }
            }
        });
        Endings { watched, gone_ns }
    }

    /// Watches a process of this kernel that is about to be killed.
    pub(crate) fn watch(&self, who: String, pid: i32) {
        if let Some(pid) = Pid::from_raw(pid)
            && let Ok(process) = pidfd_open(pid, PidfdFlags::empty())
        {
            let _ = self.watched.send((who, process));
        }
    }

    /// When it was gone, if that was seen.
    pub(crate) fn gone_ns(&self, who: &str) -> Option<i64> {
        self.gone_ns.lock().unwrap_or_else(PoisonError::into_inner).get(who).copied()
    }

    pub(crate) fn forget_all(&self) {
        self.gone_ns.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
