//! What a process takes, seen from outside.

use std::fs;

use serde_json::{Value, json};

use crate::flat::{Series, Trend};

/// What a process has at one moment.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Taken {
    anonymous_kib: f64,
    descriptors: f64,
    memory_files: f64,
    threads: f64,
}

/// Reads what a process has; none when it is gone.
fn taken(pid: i32) -> Option<Taken> {
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
    Some(Taken {
        anonymous_kib: number("RssAnon:")?,
        descriptors,
        memory_files,
        threads: number("Threads:")?,
    })
}

/// One quantity over the run, and how much it may grow: absolutely, and by share of its mean.
struct Quantity {
    name: &'static str,
    series: Series,
    allowance: f64,
    share: f64,
}

/// What one process takes over a run.
pub(crate) struct Watched {
    pub(crate) what: String,
    quantities: [Quantity; 4],
}

impl Watched {
    pub(crate) fn new(what: impl Into<String>) -> Watched {
        let quantity =
            |name, allowance, share| Quantity { name, series: Series::default(), allowance, share };
        Watched {
            what: what.into(),
            quantities: [
                // An allocator keeps what it once had, in pieces of its own size.
                quantity("anonymous KiB", 1024.0, 0.05),
                // Those who were killed last may not be forgotten yet.
                quantity("descriptors", 8.0, 0.0),
                quantity("memory files", 3.0, 0.0),
                quantity("threads", 1.0, 0.0),
            ],
        }
    }

    pub(crate) fn sample(&mut self, pid: i32, kills: u64) {
        let Some(taken) = taken(pid) else { return };
        let values = [taken.anonymous_kib, taken.descriptors, taken.memory_files, taken.threads];
        for (quantity, value) in self.quantities.iter_mut().zip(values) {
            quantity.series.add(kills, value);
        }
    }

    /// Each quantity with its trend, where there are enough points, and whether it grows.
    fn trends(&self) -> impl Iterator<Item = (&'static str, Trend, bool)> {
        self.quantities.iter().filter_map(|quantity| {
            let trend = quantity.series.trend()?;
            let allowance = quantity.allowance.max(quantity.share * trend.mean);
            Some((quantity.name, trend, trend.grows(allowance)))
        })
    }

    /// What grew.
    pub(crate) fn grown(&self) -> Vec<String> {
        self.trends()
            .filter(|(.., grows)| *grows)
            .map(|(name, trend, _)| {
                let Trend { mean, growth, doubt } = trend;
                format!(
                    "{} of {} grew by {growth:.0} (give or take {doubt:.0}; mean {mean:.0})",
                    name, self.what
                )
            })
            .collect()
    }

    /// A line of the table for each quantity.
    pub(crate) fn rows(&self) -> Vec<String> {
        self.trends()
            .map(|(name, trend, grows)| {
                format!(
                    "{:<24}{:<16}{:>10.0}{:>10.1}{:>10.1}  {}",
                    self.what,
                    name,
                    trend.mean,
                    trend.growth,
                    trend.doubt,
                    if grows { "GROWS" } else { "flat" }
                )
            })
            .collect()
    }

    pub(crate) fn to_json(&self) -> Value {
        let quantities: Vec<Value> = self
            .trends()
            .map(|(name, trend, grows)| {
                json!({ "quantity": name, "mean": trend.mean, "growth": trend.growth, "doubt": trend.doubt,
                        "grows": grows })
            })
            .collect();
        json!({ "process": self.what, "quantities": quantities })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_can_be_looked_at_and_one_that_is_gone_cannot() {
        let own = taken(std::process::id() as i32).unwrap();
        assert!(own.anonymous_kib > 0.0 && own.descriptors > 0.0 && own.threads >= 1.0);
        assert_eq!(taken(i32::MAX), None);
    }

    #[test]
    fn descriptors_that_leak_are_seen() {
        let mut watched = Watched::new("this test");
        let mut leaked = Vec::new();
        for kills in 0..40 {
            leaked.push(fs::File::open("/dev/null").unwrap());
            watched.sample(std::process::id() as i32, kills);
        }
        let grown = watched.grown().join(", ");
        assert!(grown.contains("descriptors of this test"), "{grown}");
    }
}
