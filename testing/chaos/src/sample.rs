//! Resource usage of processes, read from `/proc`.

use std::fs;

use serde_json::{Value, json};

use crate::flat::{Series, Trend};

/// Maximum number of samples per quantity in the result: enough to distinguish a step from a slope.
const MAX_SAMPLES: usize = 200;

/// Resource usage of a process at one moment.
#[derive(Clone, Copy, PartialEq, Debug)]
struct ResourceUsage {
    anonymous_kib: f64,
    descriptors: f64,
    memory_files: f64,
    threads: f64,
}

/// Reads the resource usage of a process. Returns `None` if it is gone.
fn taken(pid: i32) -> Option<ResourceUsage> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let number = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().next()?.parse::<f64>().ok()
    };
    let (mut descriptors, mut memory_files) = (0.0, 0.0);
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten() {
        descriptors += 1.0;
        let target = fs::read_link(entry.path()).unwrap_or_default();
        memory_files += f64::from(u8::from(target.to_string_lossy().contains("memfd:")));
    }
    Some(ResourceUsage {
        anonymous_kib: number("RssAnon:")?,
        descriptors,
        memory_files,
        threads: number("Threads:")?,
    })
}

/// Allowed growth of a quantity.
#[derive(Clone, Copy)]
enum Allowance {
    /// The larger of an absolute growth and a share of the mean.
    Within(f64, f64),
    /// Any growth: the quantity is only shown.
    Any,
}

impl Allowance {
    fn verdict(self, trend: Trend) -> Verdict {
        match self {
            Allowance::Within(absolute, share) if trend.grows(absolute.max(share * trend.mean)) => {
                Verdict::Grows
            }
            Allowance::Within(..) => Verdict::Flat,
            Allowance::Any => Verdict::NotJudged,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Flat,
    Grows,
    NotJudged,
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Verdict::Flat => "flat",
            Verdict::Grows => "GROWS",
            Verdict::NotJudged => "not judged",
        }
    }
}

/// One quantity over a run.
struct Quantity {
    name: &'static str,
    series: Series,
    allowance: Allowance,
}

/// Resource usage of one process over a run.
pub(crate) struct WatchedProcess {
    pub(crate) what: String,
    quantities: [Quantity; 4],
}

impl WatchedProcess {
    pub(crate) fn new(what: impl Into<String>) -> WatchedProcess {
        // Allocators keep freed memory in chunks of their own size.
        WatchedProcess::with_memory(what, Allowance::Within(1024.0, 0.05))
    }

    /// Creates the series of the chaos program itself. It keeps records of all killed domains, so its memory
    /// grows.
    pub(crate) fn harness() -> WatchedProcess {
        WatchedProcess::with_memory("this program", Allowance::Any)
    }

    fn with_memory(what: impl Into<String>, memory: Allowance) -> WatchedProcess {
        let quantity = |name, allowance| Quantity { name, series: Series::default(), allowance };
        WatchedProcess {
            what: what.into(),
            quantities: [
                quantity("anonymous KiB", memory),
                // Descriptors of the last domains killed may still be open.
                quantity("descriptors", Allowance::Within(8.0, 0.0)),
                quantity("memory files", Allowance::Within(3.0, 0.0)),
                quantity("threads", Allowance::Within(1.0, 0.0)),
            ],
        }
    }

    pub(crate) fn sample(&mut self, pid: i32, kills: u64) {
        if let Some(taken) = taken(pid) {
            self.add(taken, kills);
        }
    }

    fn add(&mut self, taken: ResourceUsage, kills: u64) {
        let values = [taken.anonymous_kib, taken.descriptors, taken.memory_files, taken.threads];
        for (quantity, value) in self.quantities.iter_mut().zip(values) {
            quantity.series.add(kills, value);
        }
    }

    /// Lists each quantity that has enough points, with its trend and verdict.
    fn trends(&self) -> impl Iterator<Item = (&Quantity, Trend, Verdict)> {
        self.quantities.iter().filter_map(|quantity| {
            let trend = quantity.series.trend()?;
            Some((quantity, trend, quantity.allowance.verdict(trend)))
        })
    }

    /// Describes the quantities that grew more than allowed.
    pub(crate) fn grown(&self) -> Vec<String> {
        self.trends()
            .filter(|(.., verdict)| *verdict == Verdict::Grows)
            .map(|(quantity, Trend { mean, growth, doubt }, _)| {
                let (name, what) = (quantity.name, &self.what);
                format!("{name} of {what} grew by {growth:.0} (give or take {doubt:.0}; mean {mean:.0})")
            })
            .collect()
    }

    /// Formats a table row for each quantity.
    pub(crate) fn rows(&self) -> Vec<String> {
        self.trends()
            .map(|(quantity, Trend { mean, growth, doubt }, verdict)| {
                let (what, name, verdict) = (&self.what, quantity.name, verdict.name());
                format!("{what:<24}{name:<16}{mean:>10.0}{growth:>10.1}{doubt:>10.1}  {verdict}")
            })
            .collect()
    }

    pub(crate) fn to_json(&self) -> Value {
        let quantities: Vec<Value> = self
            .trends()
            .map(|(quantity, Trend { mean, growth, doubt }, verdict)| {
                json!({ "quantity": quantity.name, "mean": mean, "growth": growth, "doubt": doubt,
                        "verdict": verdict.name(), "samples": quantity.series.thinned(MAX_SAMPLES) })
            })
            .collect();
        json!({ "process": self.what, "quantities": quantities })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_live_processes_are_sampled() {
        let own = taken(std::process::id() as i32).unwrap();
        assert!(own.anonymous_kib > 0.0 && own.descriptors > 0.0 && own.threads >= 1.0);
        assert_eq!(taken(i32::MAX), None);
    }

    #[test]
    fn descriptors_that_leak_are_seen() {
        let mut watched = WatchedProcess::new("this test");
        let mut leaked = Vec::new();
        for kills in 0..40 {
            leaked.push(fs::File::open("/dev/null").unwrap());
            watched.sample(std::process::id() as i32, kills);
        }
        let grown = watched.grown().join(", ");
        assert!(grown.contains("descriptors of this test"), "{grown}");
    }

    #[test]
    fn harness_usage_is_shown_not_judged() {
        let mut watched = WatchedProcess::harness();
        for kills in 0..40 {
            let taken = ResourceUsage {
                anonymous_kib: 10_000.0 * kills as f64,
                descriptors: 5.0 + kills as f64,
                memory_files: 0.0,
                threads: 1.0,
            };
            watched.add(taken, kills);
        }
        assert_eq!(watched.grown().len(), 1, "{:?}", watched.grown());
        assert!(watched.grown()[0].starts_with("descriptors"), "{:?}", watched.grown());
        assert!(watched.rows()[0].ends_with("not judged"), "{:?}", watched.rows());
    }
}
