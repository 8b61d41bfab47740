//! Scheduling options for threads with tight response times.

use std::marker::PhantomData;

use tombolo_platform::thread::{self, Policy};
use tombolo_platform::{Errno, OsError};

pub use tombolo_platform::thread::Scheduling;

use crate::error::Error;

/// Processors and scheduling policy of a thread, for low response times under load.
///
/// A thread that shares its processors with others has to wait for them occasionally and unpredictably. The
/// mean response time hardly shows this, but the 99.9th percentile does. `tombolo bench latency` shows the
/// distribution on your host.
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
    /// Restricts the thread to these processors; an empty list keeps the current set.
    #[must_use]
    pub fn cpus(mut self, cpus: impl IntoIterator<Item = usize>) -> Self {
        self.cpus = cpus.into_iter().collect();
        self
    }

    /// Sets the scheduling policy; the default keeps the current one. A real-time thread that never sleeps
    /// monopolizes its processor, so let it spin only on a processor that nothing else needs.
    #[must_use]
    pub fn scheduling(mut self, scheduling: Scheduling) -> Self {
        self.scheduling = Some(scheduling);
        self
    }

    /// Applies the options to the calling thread, until the returned value is dropped.
    ///
    /// # Errors
    /// [`Error::Scheduling`] with the limit or permission that is missing. Nothing has changed then.
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

/// Applied [`LatencyOptions`]. Dropping it on the same thread restores the previous state.
#[derive(Debug)]
#[must_use = "the thread is as before when this is dropped"]
pub struct Placed {
    cpus: Option<Vec<usize>>,
    policy: Option<Policy>,
    /// Not [`Send`]: it belongs to the thread that it changed.
    _not_send: PhantomData<*const ()>,
}

impl Drop for Placed {
    fn drop(&mut self) {
        // Lowering a priority and returning to a previous set of processors are always permitted.
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

    /// Runs a test on a separate thread, because it changes the thread's scheduling.
    fn run_on_thread(test: impl FnOnce() + Send + 'static) {
        std::thread::spawn(test).join().unwrap();
    }

    #[test]
    fn a_thread_is_as_before_afterwards() {
        run_on_thread(|| {
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
    fn failed_setting_changes_nothing() {
        run_on_thread(|| {
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
