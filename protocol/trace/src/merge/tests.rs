//! Merging: golden cases, and arbitrary consistent runs.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::file::{DomainHead, DomainRecording, Lane};
use crate::page::Identity;

/// Steps of a simulated run.
const STEPS: usize = 200;

/// Ticks, kind, accepting end, subject, value.
pub(crate) type EventSpec = (u64, EventKind, bool, u64, u64);

fn domain(index: usize, clock: u64, lanes: Vec<Vec<Event>>) -> DomainRecording {
    let id = DomainId::new(tombolo_base::NodeId(index as u16), 1.try_into().unwrap(), 1);
    let identity =
        Identity { domain: id.to_bits(), clock, ticks_per_s: 1_000_000_000, ..Identity::default() };
    let mut record = DomainRecording::new(DomainHead { identity, node: "n".into(), program: "p".into() });
    record.lanes = (0..).zip(lanes).map(|(lane, events)| (lane, Lane { events, missed: 0 })).collect();
    record
}

/// One list per domain, each with its own clock in nanoseconds.
pub(crate) fn recording_of(domains: &[&[EventSpec]]) -> Recording {
    let event = |&(ticks, kind, accepting, subject, value): &EventSpec| Event {
        ticks,
        kind,
        accepting,
        thread: 1,
        size: 8,
        subject,
        value,
    };
    let domains = domains.iter().enumerate();
    Recording {
        domains: domains
            .map(|(index, events)| domain(index, index as u64 + 1, vec![events.iter().map(event).collect()]))
            .collect(),
        ..Recording::default()
    }
}

/// Returns requests and replies, each after a sleep, between two domains whose clocks are 1 s apart.
pub(crate) fn ping_pong(rounds: u64) -> Recording {
    let (mut client, mut server): (Vec<EventSpec>, Vec<EventSpec>) = (Vec::new(), Vec::new());
    let apart = 1_000_000_000;
    for round in 1..=rounds {
        let start = round * 1_000;
        client.push((start, EventKind::Send, false, 7, round));
        client.push((start + 10, EventKind::Sleep, false, 7, 1));
        server.push((start + 100 + apart, EventKind::Receive, true, 7, round));
        server.push((start + 150 + apart, EventKind::Send, true, 7, round));
        client.push((start + 250, EventKind::Wake, false, 7, 1));
        client.push((start + 251, EventKind::Receive, false, 7, round));
    }
    recording_of(&[&client, &server])
}

fn check_causality(timeline: &Timeline) {
    let mut last: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
    let mut previous_ns = 0;
    for (place, placed) in timeline.events.iter().enumerate() {
        assert!(placed.time_ns >= previous_ns, "times ascend");
        previous_ns = placed.time_ns;
        if let Some(cause) = placed.cause {
            assert!((cause as usize) < place, "a cause comes first");
            let send = &timeline.events[cause as usize];
            assert!(send.logical < placed.logical && send.time_ns <= placed.time_ns);
        }
        let lane = (placed.domain, placed.lane);
        if let Some((logical, time_ns)) = last.insert(lane, (placed.logical, placed.time_ns)) {
            assert!(logical < placed.logical && time_ns <= placed.time_ns);
        }
    }
}

#[test]
fn clock_offsets_are_corrected() {
    let timeline = merge(&ping_pong(10)).unwrap();
    check_causality(&timeline);
    assert_eq!(timeline.clocks[0].ahead_ns, 0);
    // Exactly the midpoint: 100 ns there, 101 back.
    assert_eq!(timeline.clocks[1].ahead_ns, 1_000_000_000);
    assert_eq!(timeline.clocks[1].uncertain_ns, Some(100));
    assert_eq!((timeline.moved, timeline.receives_without_send), (0, 0));
    let order: Vec<EventKind> = timeline.events[..6].iter().map(|placed| placed.event.kind).collect();
    use EventKind::{Receive, Send, Sleep, Wake};
    assert_eq!(order, [Send, Sleep, Receive, Send, Wake, Receive]);
    let logical: Vec<u64> = timeline.events[..6].iter().map(|placed| placed.logical).collect();
    assert_eq!(logical, [1, 2, 2, 3, 3, 4]);
}

#[test]
fn one_way_traffic_bounds_a_clock_from_one_side() {
    let recording = recording_of(&[
        &[(100, EventKind::Send, false, 1, 1), (200, EventKind::Send, false, 1, 2)],
        &[(5_130, EventKind::Receive, true, 1, 1), (5_210, EventKind::Receive, true, 1, 2)],
    ]);
    let timeline = merge(&recording).unwrap();
    check_causality(&timeline);
    assert_eq!((timeline.clocks[1].ahead_ns, timeline.clocks[1].uncertain_ns), (5_010, None));
    // And in the other direction.
    let recording = recording_of(&[
        &[(5_130, EventKind::Receive, true, 1, 1), (5_210, EventKind::Receive, true, 1, 2)],
        &[(100, EventKind::Send, false, 1, 1), (200, EventKind::Send, false, 1, 2)],
    ]);
    let timeline = merge(&recording).unwrap();
    check_causality(&timeline);
    assert_eq!((timeline.clocks[1].ahead_ns, timeline.clocks[1].uncertain_ns), (-5_010, None));
}

#[test]
fn drifting_clock_is_corrected_where_causality_requires() {
    // Ahead by 0 at first, by 300 at the end: no single offset fits both.
    let recording = recording_of(&[
        &[(1_000, EventKind::Send, false, 1, 1), (9_050, EventKind::Receive, false, 1, 1)],
        &[(1_010, EventKind::Receive, true, 1, 1), (9_340, EventKind::Send, true, 1, 1)],
    ]);
    let timeline = merge(&recording).unwrap();
    check_causality(&timeline);
    assert!(timeline.moved > 0 && timeline.max_moved_ns <= 300, "{timeline:?}");
}

#[test]
fn unconnected_clocks_start_together_and_are_marked() {
    let recording = recording_of(&[
        &[(100, EventKind::Marker, false, 1, 0)],
        &[(77_000, EventKind::Marker, false, 1, 0), (77_005, EventKind::Marker, false, 1, 0)],
    ]);
    let timeline = merge(&recording).unwrap();
    assert!(timeline.clocks[1].unknown && !timeline.clocks[0].unknown);
    let times: Vec<u64> = timeline.events.iter().map(|placed| placed.time_ns).collect();
    assert_eq!(times, [0, 0, 5]);
}

#[test]
fn child_events_lie_between_spawn_and_reported_end() {
    let child = DomainId::new(tombolo_base::NodeId(1), 1.try_into().unwrap(), 1).to_bits();
    // Also if it seems to continue for longer.
    for last in [20, 50_000] {
        let recording = recording_of(&[
            &[(500, EventKind::Spawn, false, child, 0), (900, EventKind::ChildEnded, false, child, 0)],
            &[(10, EventKind::Marker, false, 1, 0), (last, EventKind::Marker, false, 1, 0)],
        ]);
        let timeline = merge(&recording).unwrap();
        let order: Vec<u32> = timeline.events.iter().map(|placed| placed.domain).collect();
        assert_eq!(order, [0, 1, 1, 0]);
    }
}

#[test]
fn contradictory_recordings_are_refused() {
    // Each receives before the other sends.
    let both = recording_of(&[
        &[(1, EventKind::Receive, false, 4, 1), (2, EventKind::Send, false, 4, 1)],
        &[(1, EventKind::Receive, true, 4, 1), (2, EventKind::Send, true, 4, 1)],
    ]);
    let error = merge(&both).unwrap_err();
    assert!(matches!(error, MergeError::Cycle { position: 0, lane: 0, event: "receive", .. }), "{error}");
    // An event that only waits for a cycle is not named.
    let innocent = recording_of(&[
        &[(1, EventKind::Receive, true, 9, 1)],
        &[
            (1, EventKind::Receive, false, 4, 1),
            (2, EventKind::Send, false, 4, 1),
            (3, EventKind::Send, false, 9, 1),
        ],
        &[(1, EventKind::Receive, true, 4, 1), (2, EventKind::Send, true, 4, 1)],
    ]);
    let MergeError::Cycle { domain, .. } = merge(&innocent).unwrap_err() else { panic!() };
    assert_ne!(domain.0, innocent.domains[0].head.identity.domain);
    // Sent in another order than numbered.
    let backwards = recording_of(&[&[(1, EventKind::Send, false, 4, 2), (2, EventKind::Send, false, 4, 1)]]);
    assert!(matches!(merge(&backwards), Err(MergeError::Cycle { .. })));
    let twice = recording_of(&[&[(1, EventKind::Send, false, 4, 1)], &[(1, EventKind::Send, false, 4, 1)]]);
    assert_eq!(
        merge(&twice).unwrap_err().to_string(),
        "the trace is impossible: message 1 of the connecting end of channel 4 was sent twice, by domain 0.1.1 and by \
         domain 1.1.1"
    );
    let mut other = ping_pong(1);
    other.domains[1].lanes.get_mut(&0).unwrap().events[0].size = 9;
    assert!(matches!(
        merge(&other),
        Err(MergeError::LengthMismatch { sent_bytes: 8, received_bytes: 9, .. })
    ));
}

#[test]
fn a_receive_whose_send_was_lost_is_counted() {
    let mut recording = ping_pong(3);
    recording.domains[0].lanes.get_mut(&0).unwrap().events.remove(0);
    let timeline = merge(&recording).unwrap();
    check_causality(&timeline);
    assert_eq!(timeline.receives_without_send, 1);
}

#[test]
fn an_empty_recording_gives_an_empty_timeline() {
    assert_eq!(merge(&Recording::default()).unwrap(), Timeline::default());
}

/// Generates a consistent run of a machine: steps of domains on a common time that no domain knows.
fn run() -> impl Strategy<Value = (Recording, Vec<i64>)> {
    let step = (0..4_usize, 0..3_u64, 0..2_usize, 1..500_u64, any::<bool>());
    let offsets = prop::collection::vec(-1_000_000_i64..1_000_000, 4);
    (prop::collection::vec(step, 0..STEPS), offsets).prop_map(|(steps, offsets)| {
        // Channel c joins domains c and c + 1.
        let mut lanes: Vec<Vec<Vec<Event>>> = vec![vec![Vec::new(); 2]; 4];
        let mut sent: BTreeMap<(u64, bool), u64> = BTreeMap::new();
        let mut received: BTreeMap<(u64, bool), u64> = BTreeMap::new();
        let mut now_ns = 2_000_000_i64;
        for (who, channel, lane, pause_ns, sends) in steps {
            now_ns += pause_ns as i64;
            let accepting = who as u64 == channel + 1;
            if !accepting && who as u64 != channel {
                continue;
            }
            let number = if sends {
                let count = sent.entry((channel, accepting)).or_default();
                *count += 1;
                *count
            } else {
                let available = sent.get(&(channel, !accepting)).copied().unwrap_or(0);
                let count = received.entry((channel, !accepting)).or_default();
                if *count == available {
                    continue;
                }
                *count += 1;
                *count
            };
            lanes[who][lane].push(Event {
                ticks: (now_ns + offsets[who]) as u64,
                kind: if sends { EventKind::Send } else { EventKind::Receive },
                accepting,
                thread: lane as u16,
                size: number as u32,
                subject: channel,
                value: number,
            });
        }
        let domains = lanes.into_iter().enumerate();
        let domains = domains.map(|(index, lanes)| domain(index, index as u64 + 1, lanes)).collect();
        (Recording { domains, ..Recording::default() }, offsets)
    })
}

proptest! {
    #[test]
    fn consistent_recording_is_merged_in_causal_order((recording, offsets) in run()) {
        let timeline = merge(&recording).unwrap();
        check_causality(&timeline);
        prop_assert_eq!(timeline.events.len(), recording.event_count());
        prop_assert_eq!(timeline.receives_without_send, 0);
        // For steady clocks with traffic both ways the estimate is as good as the messages permit.
        for (clock, offset) in timeline.clocks.iter().zip(&offsets) {
            if let Some(uncertain_ns) = clock.uncertain_ns {
                let wrong_ns = (clock.ahead_ns - (offset - offsets[0])).unsigned_abs();
                prop_assert!(wrong_ns <= uncertain_ns + 3, "{} ns wrong, {} uncertain", wrong_ns, uncertain_ns);
            }
        }
        let directions = crate::stats::directions(&timeline);
        for direction in directions.values() {
            prop_assert_eq!(direction.latencies_ns.len() as u64, direction.received);
            prop_assert!(direction.max_in_flight <= direction.sent);
        }
    }

    #[test]
    fn any_recording_is_merged_or_refused(
        events in prop::collection::vec(
            (any::<u64>(), 1..16_u8, any::<bool>(), 0..3_u64, 0..4_u64, 0..2_u32, 0..2_u32), 0..STEPS / 5),
    ) {
        let mut lanes = vec![vec![Vec::new(); 2]; 2];
        for (ticks, kind, accepting, subject, value, domain, lane) in events {
            let kind = EventKind::from_code(kind).unwrap();
            let event = Event { ticks, kind, accepting, thread: 0, size: 1, subject, value };
            lanes[domain as usize][lane as usize].push(event);
        }
        let domains = lanes.into_iter().enumerate();
        let recording = Recording {
            domains: domains.map(|(index, lanes)| domain(index, index as u64, lanes)).collect(),
            ..Recording::default()
        };
        if let Ok(timeline) = merge(&recording) {
            check_causality(&timeline);
        }
    }
}
