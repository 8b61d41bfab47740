//! The page of results, in Markdown.

use std::fmt::Write;

use tombolo_bench::BenchReport as _;
use tombolo_bench::ring::{Latency, Rate};
use tombolo_bench::significant;
use tombolo_bench::suite::{
    Distance, Metric, ONE_CACHE_NS, Results, Row, TWIN_THREADS_NS, Unit, disturbed_share,
};

use crate::matrix;
use crate::plots::Plot;
use crate::targets::{self, Verdict};
use crate::units::{exact_time, typical};

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

/// The index: a row for each host, with a link to its page.
pub(crate) fn index(hosts: &[(String, &Results, Vec<Plot>)]) -> String {
    let mut page = HEAD.to_owned();
    page += "\n| host | processor | processors | targets met |\n|---|---|---|---|\n";
    for (slug, results, _) in hosts {
        let targets = targets::all(results);
        let met = targets.iter().filter(|target| target.verdict == Verdict::Met).count();
        let judged = targets.iter().filter(|target| target.verdict != Verdict::NotMeasured).count();
        let _ = writeln!(
            page,
            "| [{}]({slug}.md) | {} | {} | {met} of {judged} |",
            results.label, results.host.cpu_model, results.host.cores
        );
    }
    page
}

/// The page of one host, with its plots.
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
            results.rows.iter().filter(|row| row.metric == metric && !matrix::has(row)).collect();
        if rows.is_empty() {
            continue;
        }
        text += &match metric.unit() {
            Unit::Nanoseconds if !matches!(metric, Metric::Open) => times(metric, &rows),
            Unit::Nanoseconds | Unit::Share | Unit::Bytes | Unit::PerMessage => String::new(),
            Unit::MessagesPerSecond | Unit::BytesPerSecond => flows(metric, &rows),
        };
    }
    text += &matrix::all(results);
    text += &standing(results);
    text += &links(results);
    text += &placements(results);
    text += &matrix::pairs(results);
    text += &distribution(results);
    text += &matrix::arrays(results);
    if let Some(openmp) = &results.openmp {
        let _ = write!(text, "\n## OpenMP\n\n```text\n{}```\n", openmp.table());
    }
    text += &compared(results);
    text
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

/// A day, of the proleptic Gregorian calendar in UTC.
fn date(seconds: u64) -> String {
    // Days are counted from 1 March of year 0, so that leap days come last (Howard Hinnant's method).
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
    let mut text = "\n## What was promised\n\n| promise | found | |\n|---|---|---|\n".to_owned();
    let mut missed = String::new();
    for target in targets::all(results) {
        let _ = writeln!(text, "| {} | {} | {} |", target.what, target.found, target.verdict.word());
        if !target.why.is_empty() {
            let _ = writeln!(missed, "- {}: {}", target.what, target.why);
        }
    }
    if !missed.is_empty() {
        text += "\nWhy these are missed, after what was tried ([0022](../adr/0022-designs-tried-for-speed.md), \
                 [0026](../adr/0026-fewer-stores.md)):\n\n";
        text += &missed;
    }
    text
}

fn note(row: &Row) -> &'static str {
    if row.is_doubtful() { "doubtful" } else { "" }
}

fn times(metric: Metric, rows: &[&Row]) -> String {
    let mut text = format!(
        "\n## {}\n\n| | where | p50 | p99 | p99.9 | mean | bare lines | p50 / bare | slices | |\n\
         |---|---|---:|---:|---:|---:|---:|---:|---:|---|\n",
        metric.title()
    );
    for row in rows {
        let Some(latency) = &row.latency_ns else { continue };
        let [p50, p99, p999, mean] = [latency.p50, latency.p99, latency.p999, latency.mean].map(exact_time);
        let bare = if row.probe_ns > 0.0 { exact_time(row.probe_ns) } else { String::new() };
        let ratio = row.probe_ratio.filter(|_| row.distance != Distance::Any);
        let ratio = ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        let (place, note) = (row.distance.words(), note(row));
        let _ = writeln!(
            text,
            "| {} | {place} | {p50} | {p99} | {p999} | {mean} | {bare} | {ratio} | {} | {note} |",
            row.peer, row.slices
        );
    }
    text
}

fn flows(metric: Metric, rows: &[&Row]) -> String {
    let unit = metric.unit();
    let mut text = format!(
        "\n## {}, {}\n\n| | where | p50 | slowest slice | mean | bare lines | slices | |\n|---|---|---:|---:|---:|---:|---:|---|\n",
        metric.title(),
        unit.name()
    );
    for row in rows {
        let Some(rate) = &row.rate_per_s else { continue };
        let [p50, slowest, mean] =
            [rate.p50, rate.p99, rate.mean].map(|value| significant(value / unit.divisor()));
        let bare = if row.probe_ns > 0.0 { exact_time(row.probe_ns) } else { String::new() };
        let (place, note) = (row.distance.words(), note(row));
        let _ = writeln!(
            text,
            "| {} | {place} | {p50} | {slowest} | {mean} | {bare} | {} | {note} |",
            row.peer, row.slices
        );
    }
    text
}

fn standing(results: &Results) -> String {
    let mut peers: Vec<&str> = Vec::new();
    for row in results.rows.iter().filter(|row| Metric::STANDING.contains(&row.metric)) {
        if !peers.contains(&row.peer.as_str()) {
            peers.push(&row.peer);
        }
    }
    if peers.is_empty() {
        return String::new();
    }
    let mut text =
        "\n## What it costs to have a channel\n\n| | processor used while waiting | memory, both sides | \
                    time to open | system calls per message, awake |\n|---|---:|---:|---:|---:|\n"
            .to_owned();
    for peer in peers {
        let cell = |metric| results.row(peer, metric).map_or_else(String::new, typical);
        let [idle, memory, open, calls] = Metric::STANDING.map(cell);
        let _ = writeln!(text, "| {peer} | {idle} | {memory} | {open} | {calls} |");
    }
    text + "\nMemory is what both programs hold beyond what the first channel needs, once messages have passed; buffers \
            in the kernel are not counted, nor is what a monitor keeps. System calls are those of the two threads that \
            send and receive, counted by the kernel (seccomp); the median of the slices.\n"
}

fn links(results: &Results) -> String {
    if results.links.is_empty() && results.rows.iter().any(|row| row.route.is_some()) {
        return String::new();
    }
    if results.links.is_empty() {
        return "\nNo machine with several nodes was up, so there are no figures across a window.\n".into();
    }
    let mut text = "\n## Links of the machine\n\n| link | over | instruction sets | bare lines | 48 B | 48 B / bare | out, M/s | back, \
                    M/s | wake-up |\n|---|---|---|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for link in &results.links {
        let time = |latency: Option<&Latency>| latency.map_or_else(String::new, |it| exact_time(it.p50));
        let rate = |rate: Option<&Rate>| rate.map_or_else(String::new, |it| significant(it.p50 / 1e6));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            link.link,
            link.transport,
            link.isa.join(", "),
            time(link.limit_rtt_ns.as_ref()),
            time(link.rtt_ns.as_ref()),
            link.rtt_ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            rate(link.rate_per_s.as_ref()),
            rate(link.rate_back_per_s.as_ref()),
            time(link.wake_rtt_ns.as_ref()),
        );
    }
    text
}

fn placements(results: &Results) -> String {
    if results.placement.is_empty() {
        return String::new();
    }
    let mut text = "\n## Where slots and credit lie\n\nA message of one slot there and back over bare rings, beside the bare lines \
                    of the same memory. Where all that both sides reach is one memory, as a window, there is nothing to choose \
                    but the variant.\n\n| link | variant | slots | credit | p50 | p99 | bare lines | p50 / bare |\n\
                    |---|---|---|---|---:|---:|---:|---:|\n"
        .to_owned();
    for placed in &results.placement {
        let [p50, p99] = match placed.round_trip_ns {
            Some(latency) => [latency.p50, latency.p99].map(exact_time),
            None => [String::new(), String::new()],
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {p50} | {p99} | {} | {} |",
            placed.link,
            placed.variant,
            placed.slots,
            placed.credit,
            exact_time(placed.limit_ns),
            placed.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
        );
    }
    text
}

fn distribution(results: &Results) -> String {
    let Some(report) = &results.distribution else { return String::new() };
    let mut text = format!(
        "\n## Answer times, with and without a processor and a priority of their own\n\nRound trips of 48 B between two \
         processes that sleep; `SCHED_FIFO` {}. Under load twice as many threads as processors want all of them.\n\n\
         | | threads have | p50 | p90 | p99 | p99.9 | p99.99 | longest | deviation | rounds |\n\
         |---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
        report.priority
    );
    for row in &report.rows {
        let load = if row.loaded { "under load" } else { "idle" };
        match &row.times {
            Ok(times) => {
                let all = [times.p50, times.p90, times.p99, times.p999, times.p9999, times.max];
                let shown = all.map(|ns| exact_time(ns as f64)).join(" | ");
                let deviation = exact_time(times.deviation);
                let (treatment, rounds) = (&row.treatment, times.rounds);
                let _ = writeln!(text, "| {load} | {treatment} | {shown} | {deviation} | {rounds} |");
            }
            Err(why) => {
                let _ = writeln!(text, "| {load} | {} | not measured: {why} | | | | | | | |", row.treatment);
            }
        }
    }
    text
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
}
