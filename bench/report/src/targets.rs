//! Performance targets and the figures found.

use tombolo_bench::suite::arrays::{NO_COPY, ONE_COPY, POOL};
use tombolo_bench::suite::peers::{bare, c_ring, copying, kernel, lines, tombolo};
use tombolo_bench::suite::{Distance, Metric, Results, Row, length};
use tombolo_bench::target::Bound::{self, AtLeast, AtMost};
use tombolo_bench::target::Verdict;
use tombolo_bench::{bulk, rpc, significant};

/// Target with its verdict.
pub(crate) struct Target {
    /// Description of the target.
    pub(crate) what: String,
    /// Formatted figure; empty if it was not measured.
    pub(crate) found: String,
    pub(crate) verdict: Verdict,
    /// Reason if it is missed, and the attempts to meet it.
    pub(crate) why: String,
}

/// Formats a verdict as Markdown.
pub(crate) fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Missed => "**missed**",
        other => other.words(),
    }
}

/// Figure of a target, and the rows from which it is computed.
struct Figure<'a>(Option<f64>, [Option<&'a Row>; 2]);

fn number(value: Option<f64>) -> Figure<'static> {
    Figure(value, [None; 2])
}

fn single_value<'a>(row: Option<&'a Row>, value: fn(&Row) -> Option<f64>) -> Figure<'a> {
    Figure(row.and_then(value), [row, None])
}

/// Divides a value of the first row by that of the second.
fn ratio_of<'a>(a: Option<&'a Row>, b: Option<&'a Row>, value: fn(&Row) -> Option<f64>) -> Figure<'a> {
    let ratio = a.zip(b).and_then(|(a, b)| quotient(value(a)?, value(b)?));
    Figure(ratio, [a, b])
}

/// Divides the first row's value by the second's, if both have the same distance of processors.
fn ratio_at_same_distance<'a>(a: Option<&'a Row>, b: Option<&'a Row>) -> Figure<'a> {
    let near = a.filter(|a| b.is_some_and(|b| a.distance == b.distance));
    Figure(ratio_of(near, b, Row::typical).0, [a, b])
}

/// Returns the median divided by the bare lines of the same slices: the processors may have been moved
/// between slices.
fn ratio_to_lines(row: &Row) -> Option<f64> {
    row.probe_ratio
}

fn quotient(value: f64, by: f64) -> Option<f64> {
    (by > 0.0).then(|| value / by)
}

/// Format of a figure.
type Shown = fn(f64) -> String;

const TIMES: Shown = |value| format!("{value:.2} ×");

/// Unjudged target: description, bound, figure, format of the figure, and the reason if it is missed.
struct Promise<'a>(String, Bound, Figure<'a>, Shown, String);

impl Promise<'_> {
    fn judged(self) -> Target {
        let Promise(what, bound, figure, shown, why) = self;
        let verdict = bound.judge(figure.0, figure.1.into_iter().flatten().any(Row::is_doubtful));
        let why = if verdict == Verdict::Missed { why } else { String::new() };
        Target { what, found: figure.0.map_or_else(String::new, shown), verdict, why }
    }
}

/// Reasons why targets are missed after all attempts to meet them; the full account is in ADRs 0016, 0022 and
/// 0026.
mod why {
    pub(crate) const ONE_LINE: &str = "The bare lines carry one word each way; a slot is filled by eight stores and read whole, \
        by some sixty instructions on each side. Tried: slots spread over pairs of lines, the answer's slot fetched for \
        writing while the message is read (which is what there is), rests between polls, every call inlined, a fast path \
        of its own through all layers with messages in registers (which is what there is).";
    pub(crate) const TWO_LINES: &str = "64 bytes of payload and a control word take two cache lines, and the second is \
        asked for only once the first has arrived. Tried: two slots of 64 bytes, and one of 128. 56 bytes fit in one line.";
    pub(crate) const TAIL: &str = "The rarest round trips are those that an interrupt or the hypervisor hits; the bare \
        lines' own 99.9th percentile stands beside.";
    pub(crate) const RATE: &str = "Each message costs the transfer of a line to the receiver and of its ownership back, and what \
        either side stores besides. Tried: prefetching by the sender and by the receiver, slots spread over pairs of lines, a \
        receiver that rests, one store for a whole slot, deeper rings and longer slots; stores for counting and for the control \
        word were done away with. A ring in C says what an ordered message can cost (0022).";
    pub(crate) const WAKE: &str = "A wake-up carries a message, keeps a deadline and watches over the peer's life, where the \
        bare futex does none of it. Tried: a byte on the lifeline with the sleeper's barrier and without, an event counter \
        and a futex as the bell, polling before reading and a blocking read, which was the fastest and is what there is.";
    pub(crate) const CALLS: &str = "A side that waits longer than it polls, since a processor was taken from the other, goes to \
        sleep: see the share of time that sides waited for a processor.";
    pub(crate) const STREAM: &str = "What is left is the message that hands a buffer over and the one that gives it back. \
        Tried: the buffer that came back last goes first, or the one that came back first, which is what there is; stores past \
        the cache and by `rep stos`; several buffers in a message; buffers in parts of 64 and 256 KiB; huge pages.";
    pub(crate) const WINDOW: &str = "An emulated processor pays for every instruction of the ring, where the bare lines are \
        two. Tried: a fast path of its own through all layers, polls without barriers, slots of 128 bytes, used flags, and \
        1024 slots; none is nearer to the bare lines by more than runs differ.";
    pub(crate) const NULL_CALL: &str = "A call carries a header that either side checks, a deadline, and the number by which its answer is \
        found, and passes through the waiting of a channel, which looks after the peer's life; the bare rings have none of it.";
    pub(crate) const TRANSFER: &str = "Either side takes a lock and looks a buffer up in its table, where a message has neither. Tried: \
        a lock for each step, one for each message, and the general encoding in place of four words (ADR 0034).";
    pub(crate) const COPY: &str = "The engine asks its clock, finds the loop for the length, and says that it is done; and the loops \
        do not know whether what they copy is in a cache.";
    pub(crate) const ARRAY: &str = "See the row of the program alone for what one copy takes there, and the round trip of 8 B in this run \
        for what an answer takes without Python.";
    pub(crate) const AT_THE_MEMORY: &str = "Both are bound by the memory itself here: our buffers reach the bare memory with as \
         many, which stands above, and what 1.3 × asks for lies beyond that.";
    pub(crate) const PEER: &str = "See the figures of both below: they are of the same run.";
}

/// Returns all targets with their verdicts.
pub(crate) fn all(results: &Results) -> Vec<Target> {
    let mut targets: Vec<Target> = of_messages(results).into_iter().map(Promise::judged).collect();
    if is_of_bulk(results) {
        // A bulk run does not report targets that it does not measure.
        targets.retain(|target| target.verdict != Verdict::NotMeasured);
        targets.extend(of_bulk(results).into_iter().map(Promise::judged));
    }
    targets
}

/// Returns whether this is a run of `bench bulk`.
fn is_of_bulk(results: &Results) -> bool {
    results.rows.iter().any(|row| matches!(row.metric, Metric::Transfer { .. } | Metric::Copy { .. }))
}

/// Returns the row with the largest value; rows without one come last.
fn max_row<'a>(rows: impl Iterator<Item = &'a Row>, of: impl Fn(&Row) -> Option<f64>) -> Option<&'a Row> {
    let of = |row: &Row| of(row).unwrap_or(f64::NEG_INFINITY);
    rows.max_by(|a, b| of(a).total_cmp(&of(b)))
}

fn of_messages(results: &Results) -> Vec<Promise<'_>> {
    let row = |peer, metric| results.row(peer, metric);
    let own = |peers: &'static [&str]| results.rows.iter().filter(|row| peers.contains(&row.peer.as_str()));
    let mut promises = Vec::new();
    let mut add = |what: String, limit, figure, shown, why: &str| {
        promises.push(Promise(what, limit, figure, shown, why.to_owned()));
    };
    for (peer, bytes, what, why) in [
        (tombolo::NAME, 56, "a slot of 64 B there and back (56 B of payload)", why::ONE_LINE),
        (tombolo::NAME, 64, "64 B of payload there and back, slots of 64 B", why::TWO_LINES),
        (tombolo::WIDE, 64, "64 B of payload there and back, slots of 128 B", why::TWO_LINES),
    ] {
        let row = row(peer, Metric::RoundTrip { bytes });
        let what_of = |limit: &str| format!("{what}: {limit} the bare lines");
        add(what_of("median at most 1.1 ×"), AtMost(1.1), single_value(row, ratio_to_lines), TIMES, why);
        add(
            what_of("99.9 % within 3 ×"),
            AtMost(3.0),
            single_value(row, |row| quotient(row.latency_ns?.p999, row.probe_ns)),
            TIMES,
            why::TAIL,
        );
    }
    let message = Metric::RoundTrip { bytes: 64 };
    let nearest = [tombolo::NAME, tombolo::WIDE].into_iter().filter_map(|peer| row(peer, message));
    let nearest = max_row(nearest, |row| row.probe_ratio.map(|ratio| -ratio));
    for (peer, least, how) in
        [("iceoryx2", 3.5, "at least 3.5 × faster than"), ("Aeron IPC", 1.0, "no slower than")]
    {
        let figure = ratio_of(row(peer, message), nearest, ratio_to_lines);
        add(format!("64 B there and back: {how} {peer}"), AtLeast(least), figure, TIMES, why::PEER);
    }
    let most_ratio = rpc::TARGET_RATIO;
    let what = format!(
        "a call without parameters, cores that share a cache: at most {most_ratio} × a round trip of the bare \
         rings under it"
    );
    let one_cache = rpc::null_call_ratio(results).filter(|(_, distance)| *distance == Distance::OneCache);
    add(what, AtMost(most_ratio), number(one_cache.map(|(ratio, _)| ratio)), TIMES, why::NULL_CALL);
    for (batched, least, how) in [(false, 50.0, "one by one"), (true, 250.0, "in batches")] {
        let rows = own(&[tombolo::NAME, tombolo::DEEP, tombolo::WIDE]).filter(|row| {
            matches!(row.metric, Metric::Rate { batch, .. } if (batch > 1) == batched)
                && row.distance == Distance::OneCache
        });
        let best = max_row(rows, Row::typical);
        let what = format!(
            "slots of 64 B one way, {how}, cores that share a cache: at least {least} million a second"
        );
        let why = format!("{}{}", why::RATE, describe_lines(results, best));
        add(
            what,
            AtLeast(least),
            single_value(best, |row| Some(row.typical()? / 1e6)),
            |rate| format!("{} M/s", significant(rate)),
            &why,
        );
    }
    let wake = ratio_of(row(tombolo::NAME, Metric::WakeUp), row(kernel::FUTEX, Metric::WakeUp), Row::typical);
    let what = "8 B there and back, both sides asleep: at most 1.15 × the bare futex".into();
    add(what, AtMost(1.15), wake, TIMES, why::WAKE);
    let calls = single_value(row(tombolo::NAME, Metric::SystemCalls), Row::typical);
    let what = "no system call while the peer is awake: calls of both threads per message".into();
    add(what, AtMost(0.0), calls, significant, why::CALLS);
    for metric in Metric::BANDWIDTHS {
        let Metric::Bandwidth { bytes } = metric else { continue };
        let share = ratio_at_same_distance(row(tombolo::NAME, metric), row(bare::BUFFERS, metric));
        let what = format!(
            "filled and read, {}: at least 0.85 × the bare memory with as many buffers",
            length(bytes)
        );
        add(what, AtLeast(0.85), share, TIMES, why::STREAM);
    }
    let windows = results.links.iter().filter(|link| link.transport == "window");
    let mut windows: Vec<_> =
        windows.map(|link| (format!("the window {}", link.link), link.rtt_ratio)).collect();
    if windows.is_empty() {
        windows.push(("a window".into(), None));
    }
    for (window, ratio) in windows {
        let what = format!("48 B there and back across {window}: at most 1.3 × the bare lines in it");
        add(what, AtMost(1.3), number(ratio), TIMES, why::WINDOW);
    }
    promises
}

/// Describes the bare lines of the same run and the distance of the processors.
fn describe_lines(results: &Results, row: Option<&Row>) -> String {
    let Some(row) = row else { return String::new() };
    let mut text = format!(" Two bare lines took {} ns there and back here", significant(row.probe_ns));
    if row.distance != Distance::OneCache {
        text += ": these processors share no cache, and the promise is about such that do";
    }
    let is_single = matches!(row.metric, Metric::Rate { batch: 1, .. });
    let bare = results.row(lines::NAME, Metric::Rate { bytes: 56, batch: 1 });
    let both = bare
        .filter(|bare| bare.distance == row.distance)
        .and_then(|bare| Some((bare.typical()?, row.typical()?)));
    if let Some((bare, own)) = both.filter(|_| is_single) {
        let (shown, share) = (significant(bare / 1e6), own / bare);
        text += &format!(
            "; a bare stream of lines, without a ring, passes {shown} M/s, so that this is {share:.2} of it"
        );
    }
    let c_ring = results.row(c_ring::NAME, Metric::Rate { bytes: 48, batch: if is_single { 1 } else { 32 } });
    if let Some(rate) = c_ring.filter(|c_ring| c_ring.distance == row.distance).and_then(Row::typical) {
        text += &format!("; the ring in C passes {} M/s", significant(rate / 1e6));
    }
    text + "."
}

fn of_bulk(results: &Results) -> Vec<Promise<'_>> {
    let row = |peer: &str, metric| results.row(peer, metric);
    let of = |metric| results.rows.iter().filter(move |row| row.metric == metric);
    let mut promises = Vec::new();
    let mut add = |what: String, limit, figure, shown, why: &str| {
        promises.push(Promise(what, limit, figure, shown, why.to_owned()));
    };
    let moved = |bytes| row(bulk::MOVED, Metric::Transfer { bytes });
    let message = row(tombolo::NAME, Metric::RoundTrip { bytes: 8 });
    for (limit, how, beside) in
        [(1.1, "1.1 × one of 4 KiB", moved(4 << 10)), (2.0, "2 × a message of 8 B there and back", message)]
    {
        let what = format!("a buffer of 1 GiB moved there and passed back: at most {how}");
        add(what, AtMost(limit), ratio_of(moved(1 << 30), beside, ratio_to_lines), TIMES, why::TRANSFER);
    }
    for bytes in [64 << 10, 1 << 20, 16 << 20] {
        let metric = Metric::Bandwidth { bytes };
        let share = ratio_at_same_distance(row(bulk::MOVED, metric), row(bare::BUFFERS, metric));
        let what = format!("filled, moved and read, {}: at least 0.85 × the bare memory", length(bytes));
        add(what, AtLeast(0.85), share, TIMES, why::STREAM);
    }
    let metric = Metric::Bandwidth { bytes: 16 << 20 };
    let own = row(bulk::MOVED, metric);
    let settings = of(metric).filter(|row| {
        row.peer.starts_with("iceoryx2") && own.is_some_and(|own| own.distance == row.distance)
    });
    let best = max_row(settings, Row::typical);
    let which = best.filter(|row| row.peer != "iceoryx2").map(|row| format!(", here {}", row.peer));
    let what = "filled, moved and read, 16 MiB: at least 1.3 × iceoryx2 at its best setting";
    let what = format!("{what}{}", which.unwrap_or_default());
    add(what, AtLeast(1.3), ratio_at_same_distance(own, best), TIMES, why::AT_THE_MEMORY);
    for bytes in [1 << 20, 16 << 20, 256 << 20] {
        let metric = Metric::Copy { bytes };
        let engines = of(metric).filter(|row| row.peer.starts_with("engine: "));
        let best = max_row(engines, |row| row.typical().map(|took| -took));
        let what = format!("copied by an engine, {}: at least 0.95 × memcpy", length(bytes));
        add(what, AtLeast(0.95), ratio_of(row(copying::NAME, metric), best, Row::typical), TIMES, why::COPY);
    }
    // Both directions, for every node behind a window.
    let metric = Metric::Copy { bytes: 1 << 20 };
    for way in bulk::WINDOW_COPY_SUFFIXES {
        for copied in of(metric).filter(|row| row.peer.ends_with(way)) {
            let node = copied.peer.trim_end_matches(way);
            let own = row(&format!("{node}{}", bulk::OWN_COPY_SUFFIX), metric);
            let what = format!("1 MiB {node}{}: at least 0.9 × its processor's own memcpy", way.trim_start());
            add(what, AtLeast(0.9), ratio_of(own, Some(copied), Row::typical), TIMES, why::STREAM);
        }
    }
    // Arrays in Python, if the run includes them.
    if let Some(arrays) = results.arrays.as_ref().filter(|arrays| arrays.about.bytes == 16 << 20) {
        let p50 = |copies| arrays.times(POOL, copies).map(|times| times.p50);
        let what = |how| format!("an array of 16 MiB to another program in Python, {how}");
        let rate = number(p50(ONE_COPY).map(|p50| arrays.about.bytes as f64 / p50));
        let shown: Shown = |rate| format!("{rate:.1} GB/s");
        add(what("copied once: at least 25 GB/s"), AtLeast(25.0), rate, shown, why::ARRAY);
        let took = number(p50(NO_COPY).map(|p50| p50 / 1e3));
        let shown: Shown = |took| format!("{took:.1} µs");
        add(what("not copied: at most 10 µs"), AtMost(10.0), took, shown, why::ARRAY);
    }
    promises
}

#[cfg(test)]
mod tests {
    use super::*;
    use tombolo_bench::fixture::{flowing, results, timed};

    fn verdicts(results: &Results) -> Vec<(String, Verdict)> {
        all(results).into_iter().map(|target| (target.what, target.verdict)).collect()
    }

    #[test]
    fn only_measured_figures_are_judged() {
        for (what, verdict) in verdicts(&results("here")) {
            let expected = if what.contains("window") { Verdict::NotMeasured } else { Verdict::Met };
            assert_eq!(verdict, expected, "{what}");
        }
    }

    #[test]
    fn missed_target_has_a_reason() {
        let mut results = results("here");
        let metric = Metric::RoundTrip { bytes: 56 };
        for row in &mut results.rows {
            if row.peer == tombolo::NAME && row.metric == metric {
                *row = timed(tombolo::NAME, metric, 111.0);
            }
            if row.peer == tombolo::NAME && row.metric == Metric::SystemCalls {
                row.value = Some(0.5);
            }
            if row.peer == kernel::FUTEX {
                *row = timed(kernel::FUTEX, Metric::WakeUp, 20_000.0);
            }
        }
        let missed: Vec<Target> =
            all(&results).into_iter().filter(|target| target.verdict == Verdict::Missed).collect();
        assert_eq!(missed.len(), 3);
        assert!(missed.iter().all(|target| !target.why.is_empty() && !target.found.is_empty()));
    }

    #[test]
    fn calls_are_judged_where_a_cache_is_shared() {
        let verdict = |results: &Results| {
            let found = verdicts(results).into_iter().find(|(what, _)| what.contains("without parameters"));
            found.expect("a target").1
        };
        let mut results = results("here");
        let call = |row: &&mut Row| row.metric == Metric::Call { bytes: 0 };
        let apart: Vec<Row> = results.rows.iter_mut().filter(call).map(|row| row.clone()).collect();
        results.rows.iter_mut().filter(call).for_each(|row| row.distance = Distance::Apart);
        assert_eq!(verdict(&results), Verdict::NotMeasured);
        // Even if most slices were at a large distance.
        results.rows.iter_mut().filter(call).for_each(|row| row.slices *= 9);
        results.rows.extend(apart);
        assert_eq!(verdict(&results), Verdict::Met);
        let slow = |row: &&mut Row| row.peer == rpc::CALLS && row.distance == Distance::OneCache;
        for row in results.rows.iter_mut().filter(slow) {
            *row = timed(&row.peer, row.metric, 9_000.0);
        }
        assert_eq!(verdict(&results), Verdict::Missed);
    }

    #[test]
    fn a_disturbed_figure_is_no_verdict() {
        let mut results = results("here");
        results.rows.iter_mut().for_each(|row| row.doubtful = row.slices);
        assert!(
            verdicts(&results)
                .iter()
                .all(|(_, verdict)| { matches!(verdict, Verdict::Doubtful | Verdict::NotMeasured) })
        );
    }

    #[test]
    fn bulk_runs_are_judged_by_bulk_targets() {
        assert!(!is_of_bulk(&results("here")), "it measured other things");
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
        assert_eq!(verdict("iceoryx2 at its best"), Verdict::NotMeasured);
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
            // Measured on other processors, and thus not comparable.
            far(flowing("iceoryx2 deep", metric, 30e9)),
        ]);
        let verdict = |found: &Results| {
            let targets = all(found);
            let target = targets
                .iter()
                .find(|target| target.what.contains("iceoryx2 at its best"))
                .expect("it is promised");
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
