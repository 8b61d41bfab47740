//! Cost of messages between two nodes, compared with the figures of Popcorn's message layer (Saya, "Efficient
//! inter-kernel communication in a heterogeneous multikernel operating system", 3.4: an AMD Phenom of 2.3 GHz
//! with 4 cores and an APM X-Gene of 2.4 GHz with 8, joined by Dolphin's PCIe adapters).

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use tombolo::Domain;
pub use tombolo_bench_far::figures::messages::Plan;
use tombolo_bench_far::figures::messages::{BURST_MESSAGES, CHANNELS, LENGTHS, PRIORITY};

use super::{Failed, Figures, Peers, failures, gather, host_of, nodes};
use crate::host::Host;
use crate::report::BenchReport;
use crate::ring::Error;
use crate::table::{align, cells, none, significant};

/// Timeout of all measurements of one direction.
const TIMEOUT: Duration = Duration::from_secs(1800);

/// Row of the paper, in µs.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Paper {
    /// Description of the measurement.
    pub what: &'static str,
    /// Mean, in microseconds, in the paper.
    pub mean_us: f64,
    /// Standard deviation, in microseconds, in the paper.
    pub sd_us: f64,
    /// Table or section of the paper.
    pub place: &'static str,
}

const fn paper(what: &'static str, mean_us: f64, sd_us: f64, place: &'static str) -> Paper {
    Paper { what, mean_us, sd_us, place }
}

/// Numeric figures of the paper: round trips of 4 KiB. Its threads had priority 10, except those of the fifth
/// row.
pub const PAPER: [Paper; 6] = [
    paper("x86 to Arm and back, direct stores", 28.54, 5.463_229, "table 2.2"),
    paper("x86 to Arm and back, DMA", 51.22, 11.500_18, "table 2.2"),
    paper("Arm to x86 and back, direct stores", 38.202_02, 7.260_432, "table 2.3"),
    paper("Arm to x86 and back, DMA", 78.505_05, 21.242_22, "table 2.3"),
    paper("x86 to Arm and back, without priority", 55.91, 96.102_228_29, "table 2.4; single ones up to 600"),
    paper("4 threads, 25 messages each at once", 285.57, 73.18, "figure 2.15"),
];

/// Measurements by name of the figure, with their labels.
const ROWS: [(&str, &str); 4] = [
    ("direct", "direct stores"),
    ("engine", "by an engine"),
    ("priority", "direct stores, real-time priority 10"),
    ("overload", "4 threads, 25 messages each at once"),
];

/// Transports of the runs with many messages.
const WAYS: [&str; 2] = ["direct", "engine"];

/// Results of one direction.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Pair {
    /// Node that sends first and measures.
    pub from: String,
    /// Node that answers.
    pub to: String,
    /// All figures by name, in ns or s.
    pub figures: Figures,
    /// Reason if nothing was measured at a real-time priority.
    pub no_priority: Option<String>,
    /// Number of lengths that took less time with the most channels than with one, by direct stores.
    pub lengths_faster_with_channels: usize,
    /// Number of runs that took less time by direct stores than by an engine.
    pub runs_faster_direct: usize,
}

/// Results of one run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Host that was measured.
    pub host: Host,
    /// Number of messages of each run over several channels.
    pub messages: u32,
    /// Results by direction.
    pub pairs: Vec<Pair>,
    /// Measurements that failed, with reasons.
    pub failed: Vec<Failed>,
    /// Figures of the paper.
    pub paper: [Paper; 6],
}

/// Measures from the host to each node, and from each other node to the host.
///
/// # Errors
/// The machine is gone, or a node does not exist or is down. A direction that fails is part of the result.
pub fn run(
    (domain, image): (&Domain, &Path),
    (wanted, plan): (&[String], Plan),
    progress: &mut dyn FnMut(&str),
) -> Result<Report, Error> {
    let peers = Peers::new(domain, image)?.within(TIMEOUT);
    let near = host_of(domain)?;
    let directions = nodes(domain, wanted)?.into_iter().flat_map(|node| {
        let there = [near.clone(), node.name.clone()];
        let back = (node.name != near).then(|| [node.name, near.clone()]);
        std::iter::once(there).chain(back)
    });
    let name = |[from, to]: &[String; 2]| format!("messages from {from} to {to}");
    let (pairs, failed) = gather(directions, name, progress, |[from, to]| {
        let job = format!("bench/messages/{}/{from}/{to}", domain.id());
        let figures = peers.run_job(&[&from, &to], &job, &plan.words())?;
        Ok::<_, Error>(Pair::new(from, to, figures, plan.real_time))
    });
    Ok(Report { host: Host::describe(), messages: plan.messages, pairs, failed, paper: PAPER })
}

fn run_name(way: &str, channels: usize, bytes: usize) -> String {
    format!("{way}_{channels}x{bytes}_s")
}

impl Pair {
    fn new(from: String, to: String, mut figures: Figures, real_time: bool) -> Pair {
        let refused = figures.remove("priority_refused_by");
        let no_priority = match refused {
            _ if !real_time => Some(format!("not asked for; --real-time measures at priority {PRIORITY}")),
            Some(rank) => Some(format!(
                "{} does not permit SCHED_FIFO: it takes CAP_SYS_NICE or a limit RLIMIT_RTPRIO of {PRIORITY} \
                 (`ulimit -r`)",
                if rank < 1.0 { &from } else { &to }
            )),
            None => None,
        };
        let of = |way, channels, bytes| figures.get(&run_name(way, channels, bytes)).copied();
        let faster = |one: Option<f64>, other: Option<f64>| one.zip(other).is_some_and(|(a, b)| a < b);
        let by_channels = |bytes: &&usize| faster(of("direct", CHANNELS, **bytes), of("direct", 1, **bytes));
        let all = LENGTHS.iter().flat_map(|bytes| (1..=CHANNELS).map(move |channels| (channels, *bytes)));
        let direct = |(channels, bytes): &(usize, usize)| {
            faster(of("direct", *channels, *bytes), of("engine", *channels, *bytes))
        };
        let lengths_faster_with_channels = LENGTHS.iter().filter(by_channels).count();
        let runs_faster_direct = all.filter(direct).count();
        Pair { from, to, figures, no_priority, lengths_faster_with_channels, runs_faster_direct }
    }

    fn table(&self, messages: u32) -> String {
        let mut lines = vec![cells(&["round trip of 4 KiB, µs", "mean", "SD", "median", "p99", "longest"])];
        for (name, what) in ROWS {
            let of = |suffix: &str| self.figures.get(&format!("{name}_{suffix}_ns")).copied();
            if of("mean").is_none() {
                continue;
            }
            let cell = |suffix| of(suffix).map_or_else(none, |time_ns| significant(time_ns / 1000.0));
            lines.push(vec![what.into(), cell("mean"), cell("sd"), cell("p50"), cell("p99"), cell("max")]);
        }
        let mut text = format!("\nfrom {} to {} and back\n\n{}", self.from, self.to, align(&lines));
        if let Some(why) = &self.no_priority {
            text += &format!("\nreal-time priority: {why}\n");
        }
        let mut head = vec![format!("{messages} messages there and back, ms"), "bytes".into()];
        head.extend(
            (1..=CHANNELS).map(|channels| {
                if channels == 1 { "1 channel".into() } else { format!("{channels} channels") }
            }),
        );
        let mut lines = vec![head];
        for way in WAYS {
            for bytes in LENGTHS {
                let mut line = vec![
                    if way == "direct" { "direct stores".into() } else { "by an engine".into() },
                    bytes.to_string(),
                ];
                line.extend((1..=CHANNELS).map(|channels| {
                    let time_s = self.figures.get(&run_name(way, channels, bytes)).copied();
                    time_s.map_or_else(none, |time_s| significant(1000.0 * time_s))
                }));
                lines.push(line);
            }
        }
        text += &format!(
            "\n{}\n{} of {} lengths took less time over {CHANNELS} channels than over one; direct stores were \
             faster than\nan engine in {} of {} runs\n",
            align(&lines),
            self.lengths_faster_with_channels,
            LENGTHS.len(),
            self.runs_faster_direct,
            LENGTHS.len() * CHANNELS
        );
        text
    }
}

impl BenchReport for Report {
    fn table(&self) -> String {
        let mut text = format!(
            "Messages between two programs; {CHANNELS} threads send {BURST_MESSAGES} at once where it says so\n"
        );
        for pair in &self.pairs {
            text += &pair.table(self.messages);
        }
        let mut lines = vec![cells(&["Popcorn, round trip of 4 KiB, µs", "mean", "SD", "from"])];
        lines.extend(self.paper.iter().map(|row| {
            vec![row.what.into(), significant(row.mean_us), significant(row.sd_us), row.place.into()]
        }));
        text += &format!(
            "\n{}\nOf 100,000 messages over 1 to 4 channels the paper has curves (figures 2.10 to 2.13): the time \
             falls with\nthe number of channels and rises with the length, and direct stores are faster than DMA \
             up to 16 KiB.\n",
            align(&lines)
        );
        text + &failures(&self.failed)
    }

    fn failures(&self) -> Vec<String> {
        self.failed.iter().map(ToString::to_string).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Figures {
        let mut figures = Figures::new();
        for (name, _) in ROWS {
            figures.insert(format!("{name}_mean_ns"), 28_500.0);
        }
        for bytes in LENGTHS {
            for channels in 1..=CHANNELS {
                // The longest messages gain nothing from more channels, and the engine is faster with one.
                let time_s = if bytes == 16384 { 2.0 } else { 2.0 / channels as f64 };
                figures.insert(run_name("direct", channels, bytes), time_s);
                figures.insert(run_name("engine", channels, bytes), if channels == 1 { 1.0 } else { 3.0 });
            }
        }
        figures
    }

    #[test]
    fn channels_and_engines_are_compared() {
        let pair = Pair::new("a".into(), "b".into(), figures(), true);
        assert_eq!((pair.lengths_faster_with_channels, pair.runs_faster_direct), (4, 15));
        assert_eq!(pair.no_priority, None);
        let report =
            Report { host: Host::describe(), messages: 10, pairs: vec![pair], failed: vec![], paper: PAPER };
        let text = report.table();
        for part in ["28.5", "4 of 5 lengths", "15 of 20 runs", "10 messages there and back", "286"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn a_priority_that_is_refused_names_the_node_and_the_limit() {
        let refused = |rank: f64| {
            let mut figures = figures();
            figures.insert("priority_refused_by".into(), rank);
            Pair::new("a".into(), "b".into(), figures, true).no_priority.unwrap_or_default()
        };
        assert!(refused(0.0).starts_with("a does not permit") && refused(1.0).starts_with("b does not"));
        assert!(refused(1.0).contains("RLIMIT_RTPRIO"));
        let unasked = Pair::new("a".into(), "b".into(), figures(), false).no_priority;
        assert!(unasked.is_some_and(|why| why.contains("--real-time")));
    }
}
