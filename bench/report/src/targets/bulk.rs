//! What was promised of bulk data.

use super::{Limit, Target, judge, positive, times, why};
use tombolo_bench::bulk;
use tombolo_bench::suite::arrays::{NO_COPY, ONE_COPY, POOL};
use tombolo_bench::suite::peers::{bare, copying, tombolo};
use tombolo_bench::suite::{Metric, Results, Row, length};

/// Everything promised; of a run that measured no bulk data alone nothing.
pub(crate) fn all(results: &Results) -> Vec<Target> {
    if !is_of_bulk(results) {
        return Vec::new();
    }
    let mut targets = transfers(results);
    targets.extend(streams(results));
    targets.extend(copies(results));
    targets.extend(windows(results));
    targets.extend(of_arrays(results));
    targets
}

/// Whether this is a run of `bench bulk`.
pub(crate) fn is_of_bulk(results: &Results) -> bool {
    results.rows.iter().any(|row| matches!(row.metric, Metric::Transfer { .. } | Metric::Copy { .. }))
}

/// How often the first is the second, each over the bare lines of its own minute: the processors may have
/// been moved between.
fn ratio(a: Option<&Row>, b: Option<&Row>) -> Option<f64> {
    a.zip(b).and_then(|(a, b)| Some(a.probe_ratio? / positive(b.probe_ratio?)?))
}

fn transfers(results: &Results) -> Vec<Target> {
    let row = |bytes| results.row(bulk::MOVED, Metric::Transfer { bytes });
    let (short, long) = (row(4 << 10), row(1 << 30));
    let message = results.row(tombolo::NAME, Metric::RoundTrip { bytes: 8 });
    vec![
        judge(
            "a buffer of 1 GiB moved there and passed back: at most 1.1 × one of 4 KiB".into(),
            Limit::AtMost(1.1),
            ratio(long, short),
            &[long, short],
            times,
            why::TRANSFER,
        ),
        judge(
            "a buffer of 1 GiB moved there and passed back: at most 2 × a message of 8 B there and back"
                .into(),
            Limit::AtMost(2.0),
            ratio(long, message),
            &[long, message],
            times,
            why::TRANSFER,
        ),
    ]
}

fn streams(results: &Results) -> Vec<Target> {
    let mut targets = Vec::new();
    for bytes in [64 << 10, 1 << 20, 16 << 20] {
        let metric = Metric::Bandwidth { bytes };
        let (own, limit) = (results.row(bulk::MOVED, metric), results.row(bare::BUFFERS, metric));
        let what = format!("filled, moved and read, {}: at least 0.85 × the bare memory", length(bytes));
        targets.push(judge(what, Limit::AtLeast(0.85), share(own, limit), &[own, limit], times, why::STREAM));
    }
    let metric = Metric::Bandwidth { bytes: 16 << 20 };
    let own = results.row(bulk::MOVED, metric);
    let settings = results.rows.iter().filter(|row| {
        row.metric == metric
            && row.peer.starts_with("iceoryx2")
            && own.is_some_and(|own| own.distance == row.distance)
    });
    let fastest = |a: &&Row, b: &&Row| a.typical().unwrap_or(0.0).total_cmp(&b.typical().unwrap_or(0.0));
    let other = settings.max_by(fastest);
    let what = match other {
        Some(row) if row.peer != "iceoryx2" => format!("iceoryx2 at its best setting, here {}", row.peer),
        _ => "iceoryx2 at its best setting".into(),
    };
    let what = format!("filled, moved and read, 16 MiB: at least 1.3 × {what}");
    targets.push(judge(
        what,
        Limit::AtLeast(1.3),
        share(own, other),
        &[own, other],
        times,
        why::AT_THE_MEMORY,
    ));
    targets
}

/// How much of the second the first is, where both had processors equally far apart.
fn share(own: Option<&Row>, limit: Option<&Row>) -> Option<f64> {
    let (own, limit) = own.zip(limit).filter(|(own, limit)| own.distance == limit.distance)?;
    Some(own.typical()? / positive(limit.typical()?)?)
}

fn copies(results: &Results) -> Vec<Target> {
    [1 << 20, 16 << 20, 256 << 20]
        .into_iter()
        .map(|bytes| {
            let metric = Metric::Copy { bytes };
            let of = |row: &&Row| row.typical().unwrap_or(f64::MAX);
            let engines =
                results.rows.iter().filter(|row| row.metric == metric && row.peer.starts_with("engine: "));
            let best = engines.min_by(|a, b| of(a).total_cmp(&of(b)));
            let memcpy = results.row(copying::NAME, metric);
            let found = best
                .zip(memcpy)
                .and_then(|(best, memcpy)| Some(memcpy.typical()? / positive(best.typical()?)?));
            let what = format!("copied by an engine, {}: at least 0.95 × memcpy", length(bytes));
            judge(what, Limit::AtLeast(0.95), found, &[best, memcpy], times, why::COPY)
        })
        .collect()
}

/// Of every node behind a window, both directions, at 1 MiB.
fn windows(results: &Results) -> Vec<Target> {
    let metric = Metric::Copy { bytes: 1 << 20 };
    let mut targets = Vec::new();
    for way in bulk::WINDOW_WAYS {
        let rows = results.rows.iter().filter(|row| row.metric == metric && row.peer.ends_with(way));
        for row in rows {
            let node = row.peer.trim_end_matches(way);
            let own = results.row(&format!("{node}{}", bulk::OWN_WAY), metric);
            let found = own.and_then(|own| Some(own.typical()? / positive(row.typical()?)?));
            let what =
                format!("1 MiB {}{}: at least 0.9 × its processor's own memcpy", node, way.trim_start());
            targets.push(judge(what, Limit::AtLeast(0.9), found, &[Some(row), own], times, why::STREAM));
        }
    }
    targets
}

/// From Python: nothing of a run without them.
fn of_arrays(results: &Results) -> Vec<Target> {
    let Some(arrays) = results.arrays.as_ref().filter(|arrays| arrays.about.bytes == 16 << 20) else {
        return Vec::new();
    };
    let rate = arrays.times(POOL, ONE_COPY).map(|times| arrays.about.bytes as f64 / times.p50);
    let took_us = arrays.times(POOL, NO_COPY).map(|times| times.p50 / 1000.0);
    vec![
        judge(
            "an array of 16 MiB to another program in Python, copied once: at least 25 GB/s".into(),
            Limit::AtLeast(25.0),
            rate,
            &[],
            |rate| format!("{rate:.1} GB/s"),
            why::ARRAY,
        ),
        judge(
            "an array of 16 MiB to another program in Python, not copied: at most 10 µs".into(),
            Limit::AtMost(10.0),
            took_us,
            &[],
            |took_us| format!("{took_us:.1} µs"),
            why::ARRAY,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;
    use tombolo_bench::fixture::{flowing, results, timed};
    use tombolo_bench::suite::Distance;

    #[test]
    fn a_run_of_bulk_data_is_judged_by_what_is_promised_of_that() {
        assert!(all(&results("here")).is_empty(), "it measured other things");
        let mut found = results("here");
        found.rows.push(timed(bulk::MOVED, Metric::Transfer { bytes: 4 << 10 }, 200.0));
        found.rows.push(timed(bulk::MOVED, Metric::Transfer { bytes: 1 << 30 }, 210.0));
        for (peer, took) in
            [("arm0: memcpy", 95.0), ("arm0: out of the window", 100.0), ("arm0: into the window", 120.0)]
        {
            found.rows.push(timed(peer, Metric::Copy { bytes: 1 << 20 }, took));
        }
        let targets = all(&found);
        let verdict = |part: &str| {
            targets.iter().find(|target| target.what.contains(part)).map(|target| target.verdict).expect(part)
        };
        assert_eq!(verdict("one of 4 KiB"), Verdict::Met);
        assert_eq!(verdict("1 MiB arm0: out of the window"), Verdict::Met);
        assert_eq!(verdict("1 MiB arm0: into the window"), Verdict::Missed);
        assert_eq!(verdict("iceoryx2"), Verdict::NotMeasured);
        assert!(targets.iter().all(|target| !target.what.contains("Python")));
    }

    #[test]
    fn the_fastest_setting_of_a_peer_is_the_one_that_counts() {
        let mut found = results("here");
        let metric = Metric::Bandwidth { bytes: 16 << 20 };
        let far = |row: Row| Row { distance: Distance::Apart, ..row };
        found.rows.extend([
            timed(bulk::MOVED, Metric::Transfer { bytes: 4 << 10 }, 200.0),
            flowing(bulk::MOVED, metric, 26e9),
            flowing("iceoryx2", metric, 13e9),
            flowing("iceoryx2 aligned", metric, 20.1e9),
            // Of other processors, and so not beside it.
            far(flowing("iceoryx2 deep", metric, 30e9)),
        ]);
        let verdict = |found: &Results| {
            let targets = all(found);
            let target =
                targets.iter().find(|target| target.what.contains("iceoryx2")).expect("it is promised");
            (target.what.contains("here iceoryx2 aligned"), target.verdict)
        };
        assert_eq!(verdict(&found), (true, Verdict::Missed));
        found.rows.retain(|row| row.peer != "iceoryx2 aligned");
        assert_eq!(verdict(&found), (false, Verdict::Met));
    }

    #[test]
    fn python_is_judged_where_it_was_measured() {
        let mut found = results("here");
        found.rows.push(timed(bulk::MOVED, Metric::Transfer { bytes: 4 << 10 }, 200.0));
        found.arrays = Some(tombolo_bench::fixture::arrays());
        let targets = all(&found);
        let of = |part: &str| targets.iter().find(|target| target.what.contains(part)).expect(part);
        assert_eq!(
            (of("copied once").found.as_str(), of("copied once").verdict),
            ("28.0 GB/s", Verdict::Met)
        );
        assert_eq!((of("not copied").found.as_str(), of("not copied").verdict), ("12.0 µs", Verdict::Missed));
        found.arrays.as_mut().expect("they are there").about.bytes = 1 << 20;
        assert!(
            all(&found).iter().all(|target| !target.what.contains("Python")),
            "it was promised of 16 MiB"
        );
    }
}
