//! What was promised, and what was found.

mod bulk;

use tombolo_bench::rpc;
use tombolo_bench::significant;
use tombolo_bench::suite::peers::{bare, c_ring, kernel, lines, tombolo};
use tombolo_bench::suite::{Distance, Metric, Results, Row, length};

/// A promise.
pub(crate) struct Target {
    /// What was promised.
    pub(crate) what: String,
    /// What was found; empty when it was not measured.
    pub(crate) found: String,
    pub(crate) verdict: Verdict,
    /// Where it is missed: why, and what was tried.
    pub(crate) why: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Met,
    Missed,
    /// A figure was disturbed so often that it says little.
    Doubtful,
    NotMeasured,
}

impl Verdict {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::Missed => "**missed**",
            Verdict::Doubtful => "doubtful: disturbed",
            Verdict::NotMeasured => "not measured",
        }
    }
}

/// A share or a number that must not be above, or below, a limit.
#[derive(Clone, Copy)]
enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

impl Limit {
    fn holds(self, value: f64) -> bool {
        match self {
            Limit::AtMost(limit) => value <= limit,
            Limit::AtLeast(limit) => value >= limit,
        }
    }
}

fn judge(
    what: String,
    limit: Limit,
    found: Option<f64>,
    rows: &[Option<&Row>],
    show: impl Fn(f64) -> String,
    why: &str,
) -> Target {
    let Some(value) = found else {
        return Target { what, found: String::new(), verdict: Verdict::NotMeasured, why: String::new() };
    };
    let doubtful = rows.iter().flatten().any(|row| row.is_doubtful());
    let verdict = match (limit.holds(value), doubtful) {
        (true, false) => Verdict::Met,
        (false, false) => Verdict::Missed,
        (_, true) => Verdict::Doubtful,
    };
    Target {
        what,
        found: show(value),
        verdict,
        why: if verdict == Verdict::Missed { why.to_owned() } else { String::new() },
    }
}

fn times(value: f64) -> String {
    format!("{value:.2} ×")
}

/// Why a target is missed where it is, after what was tried; the whole account is in ADRs 0016, 0022
/// and 0026.
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
        word were done away with. A ring in C says what an ordered message can cost: four to five times as many pass (0022).";
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

/// Everything that was promised.
pub(crate) fn all(results: &Results) -> Vec<Target> {
    let mut targets = round_trips(results);
    targets.extend(peers(results));
    targets.extend(calls(results));
    targets.extend(rates(results));
    targets.extend(wakes(results));
    targets.extend(streams(results));
    targets.extend(windows(results));
    if bulk::is_of_bulk(results) {
        // What such a run does not measure at all was not promised of it.
        targets.retain(|target| target.verdict != Verdict::NotMeasured);
    }
    targets.extend(bulk::all(results));
    targets
}

fn round_trips(results: &Results) -> Vec<Target> {
    let mut targets = Vec::new();
    let cases = [
        (tombolo::NAME, 56, "a slot of 64 B there and back (56 B of payload)", why::ONE_LINE),
        (tombolo::NAME, 64, "64 B of payload there and back, slots of 64 B", why::TWO_LINES),
        (tombolo::WIDE, 64, "64 B of payload there and back, slots of 128 B", why::TWO_LINES),
    ];
    for (peer, bytes, what, why) in cases {
        let row = results.row(peer, Metric::RoundTrip { bytes });
        let ratio = row.and_then(|row| row.probe_ratio);
        let median = format!("{what}: median at most 1.1 × the bare lines");
        targets.push(judge(median, Limit::AtMost(1.1), ratio, &[row], times, why));
        let tail = row.and_then(|row| Some(row.latency_ns?.p999 / positive(row.probe_ns)?));
        let rare = format!("{what}: 99.9 % within 3 × the bare lines");
        targets.push(judge(rare, Limit::AtMost(3.0), tail, &[row], times, why::TAIL));
    }
    targets
}

fn positive(value: f64) -> Option<f64> {
    (value > 0.0).then_some(value)
}

fn peers(results: &Results) -> Vec<Target> {
    let metric = Metric::RoundTrip { bytes: 64 };
    let own = [tombolo::NAME, tombolo::WIDE].into_iter().filter_map(|peer| results.row(peer, metric));
    let own =
        own.min_by(|a, b| a.probe_ratio.unwrap_or(f64::MAX).total_cmp(&b.probe_ratio.unwrap_or(f64::MAX)));
    [
        ("iceoryx2", Limit::AtLeast(3.5), "at least 3.5 × faster than"),
        ("Aeron IPC", Limit::AtLeast(1.0), "no slower than"),
    ]
    .into_iter()
    .map(|(peer, limit, how)| {
        let other = results.row(peer, metric);
        // Each over the bare lines of its own minute: the processors may have been moved in between.
        let factor = own.zip(other).and_then(|(own, other)| Some(other.probe_ratio? / own.probe_ratio?));
        judge(format!("64 B there and back: {how} {peer}"), limit, factor, &[own, other], times, why::PEER)
    })
    .collect()
}

fn calls(results: &Results) -> Vec<Target> {
    let what = format!(
        "a call without parameters: at most {} × a round trip of the bare rings under it",
        rpc::TARGET_RATIO
    );
    // Only of rows that were not doubtful.
    let ratio = rpc::null_call_ratio(results);
    vec![judge(what, Limit::AtMost(rpc::TARGET_RATIO), ratio, &[], times, why::NULL_CALL)]
}

fn rates(results: &Results) -> Vec<Target> {
    let best = |batched: bool| {
        let rows = results.rows.iter().filter(|row| {
            let peer = [tombolo::NAME, tombolo::DEEP, tombolo::WIDE].contains(&row.peer.as_str());
            let metric = matches!(row.metric, Metric::Rate { batch, .. } if (batch > 1) == batched);
            peer && metric && row.distance == Distance::OneCache
        });
        rows.max_by(|a, b| a.typical().unwrap_or(0.0).total_cmp(&b.typical().unwrap_or(0.0)))
    };
    [(false, 50.0, "one by one"), (true, 250.0, "in batches")]
        .into_iter()
        .map(|(batched, limit, how)| {
            let row = best(batched);
            let millions = row.and_then(Row::typical).map(|rate| rate / 1e6);
            let what = format!(
                "slots of 64 B one way, {how}, cores that share a cache: at least {limit} million a second"
            );
            judge(
                what,
                Limit::AtLeast(limit),
                millions,
                &[row],
                |rate| format!("{} M/s", significant(rate)),
                &format!("{}{}", why::RATE, beside_lines(results, row)),
            )
        })
        .collect()
}

/// What bare lines do in the same run, and how far apart the processors were.
fn beside_lines(results: &Results, row: Option<&Row>) -> String {
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

fn wakes(results: &Results) -> Vec<Target> {
    let own = results.row(tombolo::NAME, Metric::WakeUp);
    let futex = results.row(kernel::FUTEX, Metric::WakeUp);
    let ratio = own.zip(futex).and_then(|(own, futex)| Some(own.typical()? / positive(futex.typical()?)?));
    let wake = "8 B there and back, both sides asleep: at most 1.15 × the bare futex".to_owned();
    let awake = results.row(tombolo::NAME, Metric::SystemCalls);
    let quiet = "no system call while the peer is awake: calls of both threads per message".to_owned();
    let called = awake.and_then(Row::typical);
    vec![
        judge(wake, Limit::AtMost(1.15), ratio, &[own, futex], times, why::WAKE),
        judge(quiet, Limit::AtMost(0.0), called, &[awake], significant, why::CALLS),
    ]
}

fn streams(results: &Results) -> Vec<Target> {
    let target = |metric: Metric| {
        let Metric::Bandwidth { bytes } = metric else { return None };
        let (own, limit) = (results.row(tombolo::NAME, metric), results.row(bare::BUFFERS, metric));
        let share = own.zip(limit).filter(|(own, limit)| own.distance == limit.distance);
        let share = share.and_then(|(own, limit)| Some(own.typical()? / positive(limit.typical()?)?));
        let what = format!(
            "filled and read, {}: at least 0.85 × the bare memory with as many buffers",
            length(bytes)
        );
        Some(judge(what, Limit::AtLeast(0.85), share, &[own, limit], times, why::STREAM))
    };
    Metric::BANDWIDTHS.into_iter().filter_map(target).collect()
}

fn windows(results: &Results) -> Vec<Target> {
    let mut targets: Vec<Target> = results
        .links
        .iter()
        .filter(|link| link.transport == "window")
        .map(|link| {
            let what = format!(
                "48 B there and back across the window {}: at most 1.3 × the bare lines in it",
                link.link
            );
            judge(what, Limit::AtMost(1.3), link.rtt_ratio, &[], times, why::WINDOW)
        })
        .collect();
    if targets.is_empty() {
        let what = "48 B there and back across a window: at most 1.3 × the bare lines in it".to_owned();
        targets.push(Target {
            what,
            found: String::new(),
            verdict: Verdict::NotMeasured,
            why: String::new(),
        });
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;
    use tombolo_bench::fixture::{results, timed};

    fn verdicts(results: &Results) -> Vec<(String, Verdict)> {
        all(results).into_iter().map(|target| (target.what, target.verdict)).collect()
    }

    #[test]
    fn what_was_measured_is_judged_and_nothing_else() {
        for (what, verdict) in verdicts(&results("here")) {
            let expected = if what.contains("window") { Verdict::NotMeasured } else { Verdict::Met };
            assert_eq!(verdict, expected, "{what}");
        }
    }

    #[test]
    fn a_target_that_is_missed_says_why() {
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
    fn a_disturbed_figure_is_no_verdict() {
        let mut results = results("here");
        results.rows.iter_mut().for_each(|row| row.doubtful = row.slices);
        assert!(
            verdicts(&results)
                .iter()
                .all(|(_, verdict)| { matches!(verdict, Verdict::Doubtful | Verdict::NotMeasured) })
        );
    }
}
