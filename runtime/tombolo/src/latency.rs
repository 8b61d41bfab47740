//! Options for threads whose answers must not be late.

use std::marker::PhantomData;

use tombolo_platform::thread::{self, Policy};
use tombolo_platform::{Errno, OsError};

pub use tombolo_platform::thread::Scheduling;

use crate::error::Error;

/// Where a thread runs, and before whom: for answers that come in time under load too.
///
/// A thread that shares its processors with others waits for them, now and then and unpredictably; the mean
/// hardly shows it, the slowest in a thousand do. `tombolo bench latency` shows the whole distribution on
/// your host.
///
/// ```no_run
/// use tombolo::latency::{LatencyOptions, Scheduling};
///
/// # fn main() -> Result<(), tombolo::Error> {
/// let placed = LatencyOptions::default().cpus([3]).scheduling(Scheduling::Fifo(10)).apply()?;
/// // Serve.
/// # drop(placed); Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LatencyOptions {
    cpus: Vec<usize>,
    scheduling: Option<Scheduling>,
}

impl LatencyOptions {
    /// Only on these processors; on those of now if none are named.
    #[must_use]
    pub fn cpus(mut self, cpus: impl IntoIterator<Item = usize>) -> Self {
        self.cpus = cpus.into_iter().collect();
        self
    }

    /// Scheduled so; as now unless said. A real-time thread that never sleeps takes its processor for itself:
    /// let it spin only on one that nothing else needs.
    #[must_use]
    pub fn scheduling(mut self, scheduling: Scheduling) -> Self {
        self.scheduling = Some(scheduling);
        self
    }

    /// Applies them to the calling thread, until what this returns is dropped.
    ///
    /// # Errors
    /// [`Error::Scheduling`] says what is missing. Nothing has changed then.
    pub fn apply(&self) -> Result<Placed, Error> {
        let mut placed = Placed { cpus: None, policy: None, _not_send: PhantomData };
        if !self.cpus.is_empty() {
            let before = thread::cpus()?;
            thread::set_cpus(&self.cpus).map_err(|error| explain_cpus(error, &self.cpus, &before))?;
            placed.cpus = Some(before);
        }
        if let Some(scheduling) = self.scheduling {
            let before = thread::policy()?;
            thread::set_policy(scheduling.into()).map_err(|error| explain_priority(error, scheduling))?;
            placed.policy = Some(before);
        }
        Ok(placed)
    }
}

/// A thread as [`LatencyOptions`] said; as before again when this is dropped, on the same thread.
#[derive(Debug)]
#[must_use = "the thread is as before when this is dropped"]
pub struct Placed {
    cpus: Option<Vec<usize>>,
    policy: Option<Policy>,
    /// It belongs to the thread that it is about.
    _not_send: PhantomData<*const ()>,
}

impl Drop for Placed {
    fn drop(&mut self) {
        // Lowering a priority and widening a set that was allowed before are always permitted.
        if let Some(policy) = self.policy.take() {
            let _ = thread::set_policy(policy);
        }
        if let Some(cpus) = self.cpus.take() {
            let _ = thread::set_cpus(&cpus);
        }
    }
}

fn explain_cpus(error: OsError, wanted: &[usize], allowed: &[usize]) -> Error {
    if error.errno != Errno::INVAL {
        return error.into();
    }
    let list = |cpus: &[usize]| cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    Error::Scheduling {
        what: format!("run on processors {}", list(wanted)),
        why: format!("this program may use {}", list(allowed)),
    }
}

fn explain_priority(error: OsError, scheduling: Scheduling) -> Error {
    let what = match scheduling {
        Scheduling::Fair => "run as every thread".to_owned(),
        Scheduling::Fifo(priority) | Scheduling::RoundRobin(priority) => {
            format!("run at real-time priority {priority}")
        }
    };
    let why = match error.errno {
        Errno::PERM => {
            "it takes CAP_SYS_NICE or a limit RLIMIT_RTPRIO that high: set `rtprio` in \
                        /etc/security/limits.conf, or LimitRTPRIO= of the service, and see `ulimit -r`"
        }
        Errno::INVAL => "priorities go from 1 to 99",
        Errno::NOSYS => "this node has no real-time scheduling",
        _ => return error.into(),
    };
    Error::Scheduling { what, why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a thread of its own, for its scheduling is what is tested.
    fn apart(test: impl FnOnce() + Send + 'static) {
        std::thread::spawn(test).join().unwrap();
    }

    #[test]
    fn a_thread_is_as_before_afterwards() {
        apart(|| {
            let before = (thread::cpus().unwrap(), thread::policy().unwrap());
            let placed = LatencyOptions::default().cpus([before.0[0]]).apply().unwrap();
            assert_eq!(thread::cpus().unwrap(), [before.0[0]]);
            match LatencyOptions::default().scheduling(Scheduling::RoundRobin(3)).apply() {
                Ok(inner) => {
                    assert_eq!(thread::policy().unwrap(), Scheduling::RoundRobin(3).into());
                    drop(inner);
                }
                Err(error) => assert!(error.to_string().contains("ulimit -r"), "{error}"),
            }
            drop(placed);
            assert_eq!((thread::cpus().unwrap(), thread::policy().unwrap()), before);
        });
    }

    #[test]
    fn what_cannot_be_leaves_all_as_it_was() {
        apart(|| {
            let before = (thread::cpus().unwrap(), thread::policy().unwrap());
            let nowhere = LatencyOptions::default().cpus([1023]).apply().unwrap_err();
            assert!(nowhere.to_string().contains("1023"), "{nowhere}");
            let options = LatencyOptions::default().cpus([before.0[0]]);
            let no_priority = options.scheduling(Scheduling::Fifo(100)).apply().unwrap_err();
            assert!(no_priority.to_string().contains("1 to 99"), "{no_priority}");
            assert_eq!((thread::cpus().unwrap(), thread::policy().unwrap()), before);
        });
    }
}
