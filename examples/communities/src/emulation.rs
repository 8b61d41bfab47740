//! Effect of emulated nodes on the time of a job.

use std::fmt;

use serde::Serialize;

use crate::report::{Report, WorkerReport};

/// Effect of the emulated nodes in a job. The fields are keys of `--json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Emulation {
    /// Names of the emulated nodes.
    pub nodes: Vec<String>,
    /// Mean number of arcs that a worker on them examines per second of computing.
    pub arcs_per_second: f64,
    /// The same for workers on processors that are not emulated, if there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub native_arcs_per_second: Option<f64>,
    /// Time of the search.
    pub search_seconds: f64,
    /// Time of the search in one thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_thread: Option<OneThread>,
    /// Computing time of all workers if none were emulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub native_compute_seconds: Option<f64>,
    /// Number of workers that are not emulated.
    pub native_workers: usize,
}

/// Time of the search in one thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OneThread {
    /// Time, in seconds.
    pub seconds: f64,
    /// Whether it was measured, by `--verify`; otherwise it is an estimate at the speed of the workers that
    /// are not emulated.
    pub measured: bool,
}

impl Emulation {
    /// Computes the effect for a job; `None` without emulated nodes.
    #[must_use]
    pub fn of(report: &Report) -> Option<Emulation> {
        let (emulated, native): (Vec<&WorkerReport>, Vec<&WorkerReport>) =
            report.workers.iter().partition(|worker| worker.emulated);
        let mut nodes: Vec<String> = emulated.iter().map(|worker| worker.node.clone()).collect();
        nodes.sort();
        nodes.dedup();
        if nodes.is_empty() {
            return None;
        }
        let native_speed = speed(&native);
        let shared_arcs: u64 = report.workers.iter().map(|worker| worker.arcs).sum();
        let computed = |speed: f64| shared_arcs as f64 / speed;
        let one_thread = match report.verify_seconds {
            Some(seconds) => Some(OneThread { seconds, measured: true }),
            None => native_speed.map(|speed| OneThread {
                seconds: computed(speed) + report.master_compute_seconds,
                measured: false,
            }),
        };
        Some(Emulation {
            nodes,
            arcs_per_second: speed(&emulated).unwrap_or_default(),
            native_arcs_per_second: native_speed,
            search_seconds: report.search_seconds,
            one_thread,
            native_compute_seconds: native_speed
                .map(|speed| computed(speed) / report.workers.len() as f64 + report.master_compute_seconds),
            native_workers: native.len(),
        })
    }

    /// Returns whether the job would have been faster without emulated nodes.
    #[must_use]
    pub fn slows(&self) -> bool {
        self.one_thread.as_ref().is_some_and(|alone| alone.seconds < self.search_seconds)
    }
}

/// Returns the arcs examined per second of computing.
fn speed(workers: &[&WorkerReport]) -> Option<f64> {
    let arcs: u64 = workers.iter().map(|worker| worker.arcs).sum();
    let seconds: f64 = workers.iter().map(|worker| worker.compute_seconds).sum();
    (arcs > 0 && seconds > 0.0).then(|| arcs as f64 / seconds)
}

impl fmt::Display for Emulation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (names, is) = (self.nodes.join(", "), if self.nodes.len() == 1 { "is" } else { "are" });
        write!(
            out,
            "emulation    {names} {is} emulated: a worker there looks at {:.1} M arcs/s",
            self.arcs_per_second / 1e6
        )?;
        match self.native_arcs_per_second {
            Some(native) => writeln!(out, ", one on a real processor at {:.1} M", native / 1e6)?,
            None => writeln!(out)?,
        }
        let Some(alone) = &self.one_thread else { return Ok(()) };
        let about = if alone.measured { "" } else { "about " };
        if !self.slows() {
            return writeln!(
                out,
                "             The search took {:.3} s; one thread takes {about}{:.3} s.",
                self.search_seconds, alone.seconds
            );
        }
        writeln!(
            out,
            "             This slows the job down: it took {:.3} s, and one thread takes {about}{:.3} s.",
            self.search_seconds, alone.seconds
        )?;
        let workers = self.native_workers.max(1);
        write!(
            out,
            "             Faster: --workers host:{workers}, or real processors in place of the emulated ones"
        )?;
        match self.native_compute_seconds {
            Some(seconds) => writeln!(out, " (about {seconds:.3} s, and the messages)"),
            None => writeln!(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emulation(search_seconds: f64, alone: Option<(f64, bool)>) -> Emulation {
        Emulation {
            nodes: vec!["arm0".to_owned()],
            arcs_per_second: 5.2e6,
            native_arcs_per_second: Some(61e6),
            search_seconds,
            one_thread: alone.map(|(seconds, measured)| OneThread { seconds, measured }),
            native_compute_seconds: Some(0.06),
            native_workers: 1,
        }
    }

    #[test]
    fn what_slows_a_job_down_is_said_and_what_would_gain() {
        let text = emulation(0.4, Some((0.1, true))).to_string();
        assert!(
            text.contains(
                "arm0 is emulated: a worker there looks at 5.2 M arcs/s, one on a real processor at 61.0 M"
            ),
            "{text}"
        );
        assert!(text.contains("slows the job down: it took 0.400 s, and one thread takes 0.100 s"), "{text}");
        assert!(text.contains("--workers host:1") && text.contains("about 0.060 s"), "{text}");
        let estimated = emulation(0.4, Some((0.1, false))).to_string();
        assert!(estimated.contains("one thread takes about 0.100 s"), "{estimated}");
    }

    #[test]
    fn a_job_that_is_not_slowed_down_is_not_said_to_be() {
        let text = emulation(0.4, Some((0.5, true))).to_string();
        assert!(!text.contains("slows") && text.contains("took 0.400 s; one thread takes 0.500 s"), "{text}");
        let unknown = emulation(0.4, None);
        assert!(!unknown.slows());
        assert_eq!(unknown.to_string().lines().count(), 1);
    }
}
