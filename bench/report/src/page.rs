//! The pages of results, in Markdown.

use std::collections::BTreeSet;
use std::fmt::Write;

use tombolo_bench::ring::{Latency, LinkReport, Rate};
use tombolo_bench::suite::arrays::{Figures, NO_COPY};
use tombolo_bench::suite::{
    Distance, Metric, ONE_CACHE_NS, Placed, Results, Row, TWIN_THREADS_NS, Unit, disturbed_share, length,
};
use tombolo_bench::target::Verdict;
use tombolo_bench::{BenchReport as _, latency, significant};

use crate::plots::Plot;
use crate::targets;
use crate::units::{distinct, exact_time, typical};

const HEAD: &str = "\
# Results

Written by `make results` from the JSON files beside this page; do not edit.
[How it is measured](../book/src/measuring.md) says what the figures mean. One command measures everything, in some two
minutes on a quiet host, another bulk data, in some ten, and a third writes these pages:

```console
$ make kit && make bench-peers AERON=1     # once
$ tombolo bench all --label \"my host\" --up machines/zoo.toml --json docs/results/my-host.json
$ tombolo bench bulk --label \"my host, bulk data\" --up machines/default.toml --json > docs/results/my-host-bulk.json
$ make results
```

Absolute times differ between machines, and on a virtual machine between seconds; ratios to what was measured in the
same run are what counts. A figure is *doubtful* when most of its slices were disturbed. MPI ([mpi](mpi/README.md)) and
OpenMP ([omp](omp/README.md)) have pages of their own.
";

/// Formats a table. `columns` are the headings, separated by bars; those of numbers start with `>`. A short
/// row is padded.
fn table(columns: &str, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let columns: Vec<&str> = columns.split('|').collect();
    let mut text = "\n|".to_owned();
    for name in columns.iter().map(|name| name.trim_start_matches('>')) {
        text += &if name.is_empty() { " |".to_owned() } else { format!(" {name} |") };
    }
    text += "\n|";
    for name in &columns {
        text += if name.starts_with('>') { "---:|" } else { "---|" };
    }
    for row in rows {
        text += "\n|";
        row.iter().for_each(|cell| text += &format!(" {cell} |"));
        text += &" |".repeat(columns.len().saturating_sub(row.len()));
    }
    text + "\n"
}

/// Formats a heading, a paragraph and a table; returns an empty string if there are no rows.
fn section(heading: &str, about: &str, columns: &str, rows: Vec<Vec<String>>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let about = if about.is_empty() { String::new() } else { format!("\n{about}\n") };
    format!("\n## {heading}\n{about}{}", table(columns, rows))
}

/// Formats the cell of an optional figure.
fn cell<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(String::new, show)
}

fn ratio(value: Option<f64>) -> String {
    cell(value, |ratio| format!("{ratio:.2}"))
}

/// Formats the median of a latency.
fn median(latency: Option<Latency>) -> String {
    cell(latency, |latency| exact_time(latency.p50))
}

/// Formats the index: a row per host, with a link to its page.
pub(crate) fn index(hosts: &[(String, &Results, Vec<Plot>)]) -> String {
    let row = |(slug, results, _): &(String, &Results, Vec<Plot>)| {
        let targets = targets::all(results);
        let met = targets.iter().filter(|target| target.verdict == Verdict::Met).count();
        let judged = targets.iter().filter(|target| target.verdict != Verdict::NotMeasured).count();
        let (label, host) = (&results.label, &results.host);
        let link = format!("[{label}]({slug}.md)");
        vec![link, host.cpu_model.clone(), host.cores.to_string(), format!("{met} of {judged}")]
    };
    HEAD.to_owned() + &table("host|processor|processors|targets met", hosts.iter().map(row))
}

/// Formats the page of one host, with its plots.
pub(crate) fn host(slug: &str, results: &Results, plots: &[Plot]) -> String {
    let mut text = format!(
        "# {}\n\nWritten by `make results`; do not edit. [All hosts](README.md).\n\n{}\n",
        results.label,
        machine(results)
    );
    text += &promised(results);
    for plot in plots {
        let _ = writeln!(text, "\n![{}]({slug}-{}.svg)", plot.caption, plot.name);
    }
    for metric in results.metrics() {
        let rows: Vec<&Row> =
            results.rows.iter().filter(|row| row.metric == metric && !is_by_length(row)).collect();
        text += &match metric.unit() {
            Unit::Nanoseconds if !matches!(metric, Metric::Open) => times(metric, &rows),
            Unit::Nanoseconds | Unit::Share | Unit::Bytes | Unit::PerMessage => String::new(),
            Unit::MessagesPerSecond | Unit::BytesPerSecond => flows(metric, &rows),
        };
    }
    for part in [by_length, standing, links, placements, pairs, distribution, arrays] {
        text += &part(results);
    }
    if let Some(openmp) = &results.openmp {
        let _ = write!(text, "\n## OpenMP\n\n```text\n{}```\n", openmp.table());
    }
    text + &compared(results)
}

fn machine(results: &Results) -> String {
    let (host, settings) = (&results.host, &results.settings);
    let mut text = format!(
        "{}, {} processors, Linux {}. {} slices of {} ms for each figure, on processors {} and {}; {} ns for reading \
         the clock are taken off. Taken on {} with Tombolo {}.\n",
        host.cpu_model,
        host.cores,
        host.kernel,
        settings.slices,
        settings.slice_ms,
        settings.cpus[0],
        settings.cpus[1],
        settings.clock_cost_ns,
        date(results.taken_at),
        results.version,
    );
    for (what, value) in host.details() {
        let _ = write!(text, "{what}: {value}. ");
    }
    text.trim_end().to_owned() + "\n"
}

/// Formats a date, in the proleptic Gregorian calendar and UTC.
fn date(seconds: u64) -> String {
    // Counts days from 1 March of year 0, so that leap days come last (Howard Hinnant's method).
    let days = seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = 400 * era + year_of_era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

fn promised(results: &Results) -> String {
    let targets = targets::all(results);
    let rows = targets.iter().map(|target| {
        vec![target.what.clone(), target.found.clone(), targets::word(target.verdict).to_owned()]
    });
    let mut text = section("What was promised", "", "promise|found|", rows.collect());
    let missed: String = targets
        .iter()
        .filter(|target| !target.why.is_empty())
        .map(|target| format!("- {}: {}\n", target.what, target.why))
        .collect();
    if !missed.is_empty() {
        text += "\nWhy these are missed, after what was tried ([0022](../adr/0022-designs-tried-for-speed.md), \
                 [0026](../adr/0026-fewer-stores.md)):\n\n";
        text += &missed;
    }
    text
}

/// Returns the last cells of a row: the bare lines, the ratio to them if requested, slices, and a remark.
fn slices(row: &Row, ratio: Option<String>) -> impl Iterator<Item = String> {
    let bare = cell(Some(row.probe_ns).filter(|ns| *ns > 0.0), exact_time);
    let note = if row.is_doubtful() { "doubtful" } else { "" };
    [bare].into_iter().chain(ratio).chain([row.slices.to_string(), note.to_owned()])
}

fn times(metric: Metric, rows: &[&Row]) -> String {
    let line = |row: &&Row| {
        let latency = row.latency_ns?;
        let mut cells = vec![row.peer.clone(), row.distance.words().to_owned()];
        cells.extend([latency.p50, latency.p99, latency.p999, latency.mean].map(exact_time));
        let over_bare = row.probe_ratio.filter(|_| row.distance != Distance::Any);
        cells.extend(slices(row, Some(ratio(over_bare))));
        Some(cells)
    };
    let columns = "|where|>p50|>p99|>p99.9|>mean|>bare lines|>p50 / bare|>slices|";
    section(&metric.title(), "", columns, rows.iter().filter_map(line).collect())
}

fn flows(metric: Metric, rows: &[&Row]) -> String {
    let unit = metric.unit();
    let line = |row: &&Row| {
        let rate = row.rate_per_s?;
        let mut cells = vec![row.peer.clone(), row.distance.words().to_owned()];
        cells.extend([rate.p50, rate.p99, rate.mean].map(|value| significant(value / unit.divisor())));
        cells.extend(slices(row, None));
        Some(cells)
    };
    let heading = format!("{}, {}", metric.title(), unit.name());
    let columns = "|where|>p50|>slowest slice|>mean|>bare lines|>slices|";
    section(&heading, "", columns, rows.iter().filter_map(line).collect())
}

fn standing(results: &Results) -> String {
    let rows = results.rows.iter().filter(|row| Metric::STANDING.contains(&row.metric));
    let row = |peer: &str| {
        let figure = |metric| cell(results.row(peer, metric), typical);
        [peer.to_owned()].into_iter().chain(Metric::STANDING.map(figure)).collect()
    };
    let columns =
        "|>processor used while waiting|>memory, both sides|>time to open|>system calls per message, awake";
    let peers = distinct(rows.map(|row| row.peer.as_str()));
    let text = section("What it costs to have a channel", "", columns, peers.into_iter().map(row).collect());
    if text.is_empty() {
        return text;
    }
    text + "\nMemory is what both programs hold beyond what the first channel needs, once messages have passed; buffers \
            in the kernel are not counted, nor is what a monitor keeps. System calls are those of the two threads that \
            send and receive, counted by the kernel (seccomp); the median of the slices.\n"
}

fn links(results: &Results) -> String {
    if results.links.is_empty() && results.rows.iter().all(|row| row.route.is_none()) {
        return "\nNo machine with several nodes was up, so there are no figures across a window.\n".into();
    }
    let row = |link: &LinkReport| {
        let millions = |rate: Option<Rate>| cell(rate, |rate| significant(rate.p50 / 1e6));
        vec![
            link.link.clone(),
            link.transport.clone(),
            link.isa.join(", "),
            median(link.limit_rtt_ns),
            median(link.rtt_ns),
            ratio(link.rtt_ratio),
            millions(link.rate_per_s),
            millions(link.rate_back_per_s),
            median(link.wake_rtt_ns),
        ]
    };
    let columns = "link|over|instruction sets|>bare lines|>48 B|>48 B / bare|>out, M/s|>back, M/s|>wake-up";
    section("Links of the machine", "", columns, results.links.iter().map(row).collect())
}

fn placements(results: &Results) -> String {
    let row = |placed: &Placed| {
        let texts = [&placed.link, &placed.variant, &placed.slots, &placed.credit].map(Clone::clone);
        let p99 = cell(placed.round_trip_ns, |latency| exact_time(latency.p99));
        let figures = [median(placed.round_trip_ns), p99, exact_time(placed.limit_ns), ratio(placed.ratio)];
        texts.into_iter().chain(figures).collect()
    };
    let about = "A message of one slot there and back over bare rings, beside the bare lines of the same memory. Where \
                 all that both sides reach is one memory, as a window, there is nothing to choose but the variant.";
    let columns = "link|variant|slots|credit|>p50|>p99|>bare lines|>p50 / bare";
    section("Where slots and credit lie", about, columns, results.placement.iter().map(row).collect())
}

fn distribution(results: &Results) -> String {
    let Some(report) = &results.distribution else { return String::new() };
    let row = |row: &latency::Row| {
        let mut cells = vec![if row.loaded { "under load" } else { "idle" }.into(), row.treatment.clone()];
        match &row.times {
            Ok(times) => {
                let all = [times.p50, times.p90, times.p99, times.p999, times.p9999, times.max];
                cells.extend(all.map(|ns| exact_time(ns as f64)));
                cells.extend([exact_time(times.deviation), times.rounds.to_string()]);
            }
            Err(why) => cells.push(format!("not measured: {why}")),
        }
        cells
    };
    let about = format!(
        "Round trips of 48 B between two processes that sleep; `SCHED_FIFO` {}. Under load twice as many threads as \
         processors want all of them.",
        report.priority
    );
    let heading = "Answer times, with and without a processor and a priority of their own";
    let columns = "|threads have|>p50|>p90|>p99|>p99.9|>p99.99|>longest|>deviation|>rounds";
    section(heading, &about, columns, report.rows.iter().map(row).collect())
}

/// Returns whether a row belongs to a table with a column per length.
fn is_by_length(row: &Row) -> bool {
    row.route.is_some() || matches!(row.metric, Metric::Copy { .. } | Metric::Delivery { .. })
}

/// Formats the tables with a column per length.
fn by_length(results: &Results) -> String {
    let lengths = |metric| match metric {
        Metric::Bandwidth { bytes } => ("bandwidth", bytes),
        Metric::Delivery { bytes } => ("delivery", bytes),
        Metric::Transfer { bytes } => ("transfer", bytes),
        Metric::Copy { bytes } => ("copy", bytes),
        _ => ("", 0),
    };
    let mut text = String::new();
    for (title, routed, kind) in [
        ("From node to node: filled and read, GB/s", true, "bandwidth"),
        ("From node to node: filled, read and given back, one at a time", true, "delivery"),
        ("From node to node: the right to a buffer there and back", true, "transfer"),
        ("Copies by the processors of nodes", true, "copy"),
        ("Copies by one program", false, "copy"),
    ] {
        let is_in = |row: &&Row| row.route.is_some() == routed && lengths(row.metric).0 == kind;
        let rows: Vec<&Row> = results.rows.iter().filter(is_in).collect();
        let of: BTreeSet<usize> = rows.iter().map(|row| lengths(row.metric).1).collect();
        let line = |peer: &str| {
            let shown = |bytes: &usize| {
                let row = rows.iter().find(|row| row.peer == peer && lengths(row.metric).1 == *bytes);
                cell(row.and_then(|row| row.typical()), |value| match kind {
                    "bandwidth" => significant(value / 1e9),
                    _ => exact_time(value),
                })
            };
            [peer.to_owned()].into_iter().chain(of.iter().map(shown)).collect()
        };
        let columns: String = of.iter().map(|bytes| format!("|>{}", length(*bytes))).collect();
        let peers = distinct(rows.iter().map(|row| row.peer.as_str()));
        text += &section(title, "", &format!("median{columns}"), peers.into_iter().map(line).collect());
    }
    text
}

/// Formats the matrix of processor pairs: round trips of a message above the diagonal, bare lines below it.
fn pairs(results: &Results) -> String {
    let cpus: BTreeSet<usize> = results.pairs.iter().flat_map(|pair| [pair.near, pair.far]).collect();
    let line = |row: &usize| {
        let figure = |column: &usize| {
            let ends = (*row.min(column), *row.max(column));
            let pair = results.pairs.iter().find(|pair| (pair.near, pair.far) == ends);
            cell(pair.map(|pair| if column > row { pair.round_trip_ns } else { pair.probe_ns }), significant)
        };
        [row.to_string()].into_iter().chain(cpus.iter().map(figure)).collect()
    };
    let about = "Above the diagonal a message of one slot there and back, below it the bare lines.";
    let columns: String = cpus.iter().map(|cpu| format!("|>{cpu}")).collect();
    section("Every pair of processors, ns", about, &columns, cpus.iter().map(line).collect())
}

/// Formats the section on arrays between Python programs.
fn arrays(results: &Results) -> String {
    let Some(arrays) = &results.arrays else { return String::new() };
    let known = arrays.about.other.iter().filter(|(_, value)| !value.is_null());
    let known: Vec<String> =
        known.map(|(name, value)| format!("{name} {}", value.to_string().trim_matches('"'))).collect();
    let heading = format!(
        "An array of {} that another program in Python gets, and the answer back",
        length(usize::try_from(arrays.about.bytes).unwrap_or(0))
    );
    let about = format!(
        "By `bench/python/array_transfer.py`, with {}. What is not copied was made where both have it.",
        known.join(", ")
    );
    let mut rows = Vec::new();
    for (peer, figures) in &arrays.latency_ns {
        match figures {
            Figures::Absent(why) => rows.push(vec![peer.clone(), why.clone()]),
            Figures::Found(found) => rows.extend(found.iter().map(|(copies, times)| {
                let [p50, p99] = [times.p50, times.p99].map(exact_time);
                let [least, most] = [times.least, times.most].map(|time| cell(time, exact_time));
                let rate = Some(arrays.about.bytes as f64 / times.p50).filter(|_| copies != NO_COPY);
                vec![peer.clone(), copies.clone(), p50, least, most, p99, cell(rate, significant)]
            })),
        }
    }
    section(&heading, &about, "|copies|>p50|>least|>most|>p99|>GB/s", rows)
}

fn compared(results: &Results) -> String {
    let mut text = "\n## What was compared\n\n".to_owned();
    for peer in &results.peers {
        let _ = writeln!(text, "- **{}**: {}", peer.name, peer.about);
    }
    for absent in &results.absent {
        let _ = writeln!(text, "- **{}** is not there: {}", absent.peer, absent.why);
    }
    for failed in &results.failed {
        let _ = writeln!(text, "- **{}** could not be measured: {}", failed.what, failed.why);
    }
    let _ = writeln!(
        text,
        "\n*twin threads*: two threads of one core; *one cache*: two cores that share a cache; *apart*: two that share none. \
         Hardware is told by its topology. A hypervisor may move its processors, so a virtual machine is told by the bare lines: \
         at most {TWIN_THREADS_NS} ns between twin threads, and at most {ONE_CACHE_NS} ns where a cache is shared. A slice during which they changed, or a side waited more than {:.0} % of the time for its processor, was taken \
         again up to three times.",
        disturbed_share() * 100.0
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tombolo_bench::fixture::{arrays as fixture_arrays, flowing, results, timed};
    use tombolo_bench::suite::Route;

    #[test]
    fn days() {
        for (seconds, day) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_709_251_199, "2024-02-29"),
            (1_709_251_200, "2024-03-01"),
            (1_798_761_599, "2026-12-31"),
        ] {
            assert_eq!(date(seconds), day);
        }
    }

    #[test]
    fn a_column_for_each_length_and_a_gap_where_nothing_was_measured() {
        let mut found = results("here");
        let route = Some(Route { from: "a".into(), to: "b".into(), by: "pool: move".into() });
        for (bytes, rate) in [(64, 1.5e9), (4096, 2e9)] {
            let row = flowing("a → b", Metric::Bandwidth { bytes }, rate);
            found.rows.push(Row { route: route.clone(), ..row });
            found.rows.push(timed("loop: best", Metric::Copy { bytes }, bytes as f64));
        }
        found.rows.push(timed("memcpy", Metric::Copy { bytes: 4096 }, 2500.0));
        let text = by_length(&found);
        for part in [
            "## From node to node: filled and read, GB/s\n\n| median | 64 B | 4 KiB |\n|---|---:|---:|\n| a → b | 1.50 | 2.00 |\n",
            "## Copies by one program\n",
            "| memcpy |  | 2.50 µs |\n",
        ] {
            assert!(text.contains(part), "no '{part}' in\n{text}");
        }
        assert!(!text.contains("one at a time"), "{text}");
    }

    #[test]
    fn pairs_of_processors_have_both_figures() {
        let text = pairs(&results("here"));
        assert!(text.contains("| | 0 | 1 |\n|---|---:|---:|\n| 0 |  | 105 |\n| 1 | 100 |  |\n"), "{text}");
    }

    #[test]
    fn arrays_have_their_table_with_what_is_absent() {
        let mut found = results("here");
        assert_eq!(arrays(&found), "");
        found.arrays = Some(fixture_arrays());
        let text = arrays(&found);
        for part in [
            "## An array of 16 MiB that",
            "with python 3.11.2, rounds 300.",
            "| Tombolo pool | one copy | 600 µs | 5.00 ns | 9.00 ns | 700 µs | 28.0 |\n",
            "| Tombolo pool | no copy | 12.0 µs |  |  | 15.0 µs |  |\n",
            "| Ray | not installed | | | | | |\n",
        ] {
            assert!(text.contains(part), "no '{part}' in\n{text}");
        }
    }
}
