//! Latency of each death report, and whether a late one is a failure.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::latency::Latencies;

/// Kind of victim, by which latencies are grouped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Cause {
    /// A process of this kernel, which a survivor on this kernel had a channel to.
    Domain,
    /// The monitor of a node on this kernel, and its domains with it.
    Monitor,
    /// The emulator of a virtual machine.
    Vm,
    /// Anything else, where victim or survivor is in a running virtual machine: its monitor is involved.
    Across,
    /// Anything, while some process of the machine was stopped.
    Paused,
}

impl Cause {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Cause::Domain => "domain",
            Cause::Monitor => "monitor of a node",
            Cause::Vm => "virtual machine",
            Cause::Across => "across a window",
            Cause::Paused => "while one was stopped",
        }
    }

    /// Whether the death was reported within one kernel, and no process involved was stopped.
    fn is_judged(self) -> bool {
        matches!(self, Cause::Domain | Cause::Monitor | Cause::Vm)
    }
}

/// Number of the latest deaths to list.
const LATEST: usize = 5;

/// A death, as one survivor saw it.
#[derive(Clone, Debug)]
pub(crate) struct DeathReport {
    /// Time from the kill until the survivor received the error.
    pub(crate) latency_ns: i64,
    /// Time from the kill until a dedicated thread saw the process end; `None` if it has not yet, or no
    /// thread watches it.
    pub(crate) gone_after_ns: Option<i64>,
    /// Time for which the survivor was runnable but not running, as accounted by the scheduler.
    pub(crate) starved_ns: i64,
    pub(crate) cause: Cause,
    pub(crate) survivor: String,
    pub(crate) victim: String,
}

/// Judgement of a death report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    InTime,
    /// The watching thread was late as well, or the survivor was not scheduled.
    Excused,
    Late,
}

impl DeathReport {
    fn verdict(&self, limit_ns: i64) -> Verdict {
        if self.latency_ns <= limit_ns {
            return Verdict::InTime;
        }
        let control_was_in_time = self.gone_after_ns.is_some_and(|gone_ns| gone_ns <= limit_ns / 2);
        if control_was_in_time && self.latency_ns - self.starved_ns > limit_ns {
            Verdict::Late
        } else {
            Verdict::Excused
        }
    }
}

impl std::fmt::Display for DeathReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let DeathReport { latency_ns, gone_after_ns, starved_ns, cause, survivor, victim } = self;
        let ms = |ns: i64| ns as f64 / 1e6;
        write!(f, "{:.1} ms ({}): {survivor} of {victim}", ms(*latency_ns), cause.name())?;
        if let Some(gone_ns) = gone_after_ns {
            write!(f, ", whose process was gone after {:.1} ms", ms(*gone_ns))?;
        }
        if *starved_ns > 1_000_000 {
            write!(f, "; it waited {:.1} ms for a processor", ms(*starved_ns))?;
        }
        Ok(())
    }
}

/// All deaths of one cause.
#[derive(Clone, Default)]
struct CauseStats {
    known: Latencies,
    /// Times from the kill until the process was gone.
    gone: Latencies,
    excused: u64,
    late: u64,
}

/// All deaths that survivors reported.
#[derive(Clone)]
pub(crate) struct Deaths {
    /// Latency above which a death report is late; zero disables the check.
    limit_ns: i64,
    by_cause: BTreeMap<Cause, CauseStats>,
    /// Latest first.
    latest: Vec<DeathReport>,
    /// First report that was late without an excuse.
    late: Option<DeathReport>,
    pub(crate) count: u64,
}

impl Deaths {
    pub(crate) fn judged_after_ms(limit_ms: u64) -> Deaths {
        let limit_ns = i64::try_from(limit_ms.saturating_mul(1_000_000)).unwrap_or(i64::MAX);
        Deaths { limit_ns, by_cause: BTreeMap::new(), latest: Vec::new(), late: None, count: 0 }
    }

    pub(crate) fn add(&mut self, seen: DeathReport) {
        self.count += 1;
        let row = self.by_cause.entry(seen.cause).or_default();
        row.known.add(seen.latency_ns);
        row.gone.extend(seen.gone_after_ns);
        if self.limit_ns > 0 && seen.cause.is_judged() {
            match seen.verdict(self.limit_ns) {
                Verdict::InTime => {}
                Verdict::Excused => row.excused += 1,
                Verdict::Late => {
                    row.late += 1;
                    self.late.get_or_insert_with(|| seen.clone());
                }
            }
        }
        let rank = self.latest.partition_point(|other| other.latency_ns >= seen.latency_ns);
        self.latest.insert(rank, seen);
        self.latest.truncate(LATEST);
    }

    /// Describes death reports that were late without an external cause.
    pub(crate) fn failure(&self) -> Option<String> {
        let late = self.late.as_ref()?;
        let count: u64 = self.by_cause.values().map(|row| row.late).sum();
        Some(format!(
            "{count} deaths on this kernel were known later than {} ms after the kill, such as {late}",
            self.limit_ns / 1_000_000
        ))
    }

    /// Formats the rows of the latency table.
    pub(crate) fn rows(&self) -> Vec<String> {
        let cells = |name: &str, latencies: &Latencies| {
            latencies.row().map(|(count, p50, p99, max)| {
                format!("{name:<24}{count:>8}{p50:>10.2}{p99:>10.2}{max:>10.2}")
            })
        };
        let mut lines = vec![format!(
            "{:<24}{:>8}{:>10}{:>10}{:>10}{:>10}{:>10}",
            "a death became known", "times", "p50 ms", "p99 ms", "max ms", "late", "excused"
        )];
        for (cause, row) in &self.by_cause {
            let judged = if cause.is_judged() && self.limit_ns > 0 {
                format!("{:>10}{:>10}", row.late, row.excused)
            } else {
                format!("{:>10}{:>10}", "-", "-")
            };
            lines.extend(cells(cause.name(), &row.known).map(|line| line + &judged));
            lines.extend(cells("  its process was gone", &row.gone));
        }
        lines.extend(self.latest.iter().map(|late| format!("latest: {late}")));
        lines
    }

    pub(crate) fn to_json(&self) -> Value {
        let rows = self.by_cause.iter().map(|(cause, row)| {
            let value = json!({ "known": row.known.to_json(), "process_gone": row.gone.to_json(),
                                "late": row.late, "excused": row.excused });
            (cause.name().to_owned(), value)
        });
        let latest: Vec<String> = self.latest.iter().map(ToString::to_string).collect();
        json!({ "limit_ms": self.limit_ns / 1_000_000, "causes": rows.collect::<serde_json::Map<_, _>>(),
                "latest": latest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn seen(cause: Cause, latency_ms: i64, gone_after_ms: Option<i64>, starved_ms: i64) -> DeathReport {
        DeathReport {
            latency_ns: latency_ms * MS,
            gone_after_ns: gone_after_ms.map(|ms| ms * MS),
            starved_ns: starved_ms * MS,
            cause,
            survivor: "member-1 on host".into(),
            victim: "0.1.2".into(),
        }
    }

    #[test]
    fn a_death_is_late_when_it_could_have_been_known() {
        for (latency_ms, gone_after_ms, starved_ms, verdict) in [
            (100, Some(1), 0, Verdict::InTime),
            (101, Some(1), 0, Verdict::Late),
            (101, Some(50), 0, Verdict::Late),
            (101, Some(51), 0, Verdict::Excused),
            (101, None, 0, Verdict::Excused),
            (140, Some(1), 40, Verdict::Excused),
            (141, Some(1), 40, Verdict::Late),
        ] {
            let seen = seen(Cause::Domain, latency_ms, gone_after_ms, starved_ms);
            assert_eq!(seen.verdict(100 * MS), verdict, "{seen}");
        }
    }

    #[test]
    fn only_deaths_on_one_kernel_are_judged_and_all_are_shown() {
        let mut deaths = Deaths::judged_after_ms(100);
        deaths.add(seen(Cause::Across, 1000, Some(1), 0));
        deaths.add(seen(Cause::Paused, 900, Some(1), 0));
        deaths.add(seen(Cause::Vm, 800, None, 0));
        assert_eq!(deaths.failure(), None);
        deaths.add(seen(Cause::Domain, 700, Some(2), 3));
        let failure = deaths.failure().expect("it is late");
        assert!(failure.starts_with("1 deaths") && failure.contains("700.0 ms (domain)"), "{failure}");
        let rows = deaths.rows().join("\n");
        assert!(rows.contains("latest: 1000.0 ms (across a window)"), "{rows}");
        assert!(rows.contains("it waited 3.0 ms for a processor"), "{rows}");
        assert_eq!(deaths.to_json()["causes"]["domain"]["late"], 1);
        assert_eq!(deaths.to_json()["causes"]["virtual machine"]["excused"], 1);
        assert_eq!(deaths.count, 4);
        let mut shown = Deaths::judged_after_ms(0);
        shown.add(seen(Cause::Domain, 700, Some(2), 0));
        assert_eq!(shown.failure(), None);
    }
}
