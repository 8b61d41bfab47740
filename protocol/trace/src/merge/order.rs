//! Dependencies between events, and an order that respects them.

use alloc::collections::{BTreeMap, BinaryHeap};
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::{ClockOffset, DomainName, MergeError, MessageId, Node, Timeline, TimelineEvent};
use crate::event::EventKind;
use crate::file::Recording;

/// Index that stands for no event.
const NONE: u32 = u32::MAX;

/// Dependencies between events, in addition to the order within a lane. By index of nodes.
pub(super) struct Edges {
    /// From sends to receives.
    pub(super) messages: Vec<(u32, u32)>,
    /// All others.
    others: Vec<(u32, u32)>,
    receives_without_send: u64,
}

/// Whether `later` directly follows `earlier` in the same lane.
fn follows_in_lane(nodes: &[Node], earlier: u32, later: u32) -> bool {
    let (one, other) = (&nodes[earlier as usize], &nodes[later as usize]);
    earlier < later && (one.domain, one.lane) == (other.domain, other.lane)
}

/// Finds the dependencies.
pub(super) fn edges(recording: &Recording, nodes: &[Node]) -> Result<Edges, MergeError> {
    let mut found: Vec<(MessageId, bool, u32)> = Vec::new();
    for (index, node) in (0..).zip(nodes) {
        if let Some(message) = MessageId::of(&node.event) {
            found.push((message, node.event.kind == EventKind::Receive, index));
        }
    }
    found.sort_unstable();
    let mut edges = Edges { messages: Vec::new(), others: Vec::new(), receives_without_send: 0 };
    let name = |index: u32| {
        DomainName(recording.domains[nodes[index as usize].domain as usize].head.identity.domain)
    };
    // Last send and last receive in the current direction.
    let mut last: [Option<(MessageId, u32)>; 2] = [None; 2];
    for (message, received, index) in found {
        let same_direction = |(other, _): &(MessageId, u32)| {
            (other.channel, other.from_accepting) == (message.channel, message.from_accepting)
        };
        let [sent, _] = last;
        let before = last[usize::from(received)].replace((message, index)).filter(same_direction);
        if let Some((earlier, before)) = before {
            if earlier == message {
                let what = if received { "received" } else { "sent" };
                return Err(MergeError::Duplicate {
                    message,
                    what,
                    first: name(before),
                    second: name(index),
                });
            }
            if !follows_in_lane(nodes, before, index) {
                edges.others.push((before, index));
            }
        }
        if received {
            match sent.filter(|(sent, _)| *sent == message) {
                Some((_, send)) => {
                    let (sent_bytes, received_bytes) =
                        (nodes[send as usize].event.size, nodes[index as usize].event.size);
                    if sent_bytes != received_bytes {
                        return Err(MergeError::LengthMismatch { message, sent_bytes, received_bytes });
                    }
                    edges.messages.push((send, index));
                }
                None => edges.receives_without_send += 1,
            }
        }
    }
    add_lifetime_edges(recording, nodes, &mut edges.others);
    Ok(edges)
}

/// Orders a domain's events after its start and before the report of its end.
fn add_lifetime_edges(recording: &Recording, nodes: &[Node], edges: &mut Vec<(u32, u32)>) {
    let numbers: BTreeMap<u64, u32> = recording
        .domains
        .iter()
        .zip(0..)
        .map(|(domain, number)| (domain.head.identity.domain, number))
        .collect();
    // First and last event of each lane, by domain.
    let mut ends: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
    for (index, node) in (0..).zip(nodes) {
        let lanes = ends.entry(node.domain).or_default();
        match lanes.last_mut() {
            Some((_, last)) if nodes[*last as usize].lane == node.lane => *last = index,
            _ => lanes.push((index, index)),
        }
    }
    for (index, node) in (0..).zip(nodes) {
        let is_start = match node.event.kind {
            EventKind::Spawn => true,
            EventKind::ChildEnded => false,
            _ => continue,
        };
        let child = numbers.get(&node.event.subject).filter(|child| **child != node.domain);
        for (first, last) in child.and_then(|child| ends.get(child)).into_iter().flatten() {
            edges.push(if is_start { (index, *first) } else { (*last, index) });
        }
    }
}

/// Edges grouped by their start.
struct Successors {
    starts: Vec<u32>,
    targets: Vec<u32>,
}

impl Successors {
    fn new(count: usize, edges: impl Iterator<Item = (u32, u32)> + Clone) -> Successors {
        let mut starts = alloc::vec![0_u32; count + 1];
        edges.clone().for_each(|(from, _)| starts[from as usize + 1] += 1);
        for index in 0..count {
            starts[index + 1] += starts[index];
        }
        let mut next = starts.clone();
        let mut targets = alloc::vec![0; starts[count] as usize];
        for (from, to) in edges {
            targets[next[from as usize] as usize] = to;
            next[from as usize] += 1;
        }
        Successors { starts, targets }
    }

    fn of(&self, node: u32) -> &[u32] {
        let range = self.starts[node as usize] as usize..self.starts[node as usize + 1] as usize;
        &self.targets[range]
    }
}

/// Places every event after its causes, otherwise by time.
pub(super) fn place(
    recording: &Recording,
    nodes: &[Node],
    edges: &Edges,
    clocks: Vec<ClockOffset>,
) -> Result<Timeline, MergeError> {
    let count = nodes.len();
    let in_lane = |index: usize| {
        let (one, other) = (nodes.get(index)?, nodes.get(index + 1)?);
        ((one.domain, one.lane) == (other.domain, other.lane)).then_some((index as u32, index as u32 + 1))
    };
    let all = (0..count).filter_map(in_lane).chain(edges.messages.iter().chain(&edges.others).copied());
    let successors = Successors::new(count, all.clone());
    let mut awaited = alloc::vec![0_u32; count];
    all.for_each(|(_, to)| awaited[to as usize] += 1);
    let mut placed: Vec<(u64, u64)> = nodes.iter().map(|node| (node.time_ns, 1)).collect();
    let mut ready: BinaryHeap<Reverse<(u64, u32)>> =
        (0..).zip(nodes).filter(|(index, _)| awaited[*index as usize] == 0).map(ready_node).collect();
    let mut done = 0;
    while let Some(Reverse((_, index))) = ready.pop() {
        done += 1;
        let (time_ns, logical) = placed[index as usize];
        for next in successors.of(index) {
            let later = &mut placed[*next as usize];
            later.0 = later.0.max(time_ns);
            later.1 = later.1.max(logical + 1);
            awaited[*next as usize] -= 1;
            if awaited[*next as usize] == 0 {
                ready.push(Reverse((later.0, *next)));
            }
        }
    }
    if done < count {
        return Err(cycle_error(recording, nodes, &successors, &awaited));
    }
    Ok(timeline(nodes, edges, &placed, clocks))
}

fn ready_node((index, node): (u32, &Node)) -> Reverse<(u64, u32)> {
    Reverse((node.time_ns, index))
}

/// Returns the error for an event on a cycle, rather than one that only waits for a cycle.
fn cycle_error(
    recording: &Recording,
    nodes: &[Node],
    successors: &Successors,
    awaited: &[u32],
) -> MergeError {
    let mut waits_for = alloc::vec![NONE; nodes.len()];
    for (index, waiting) in (0..).zip(awaited) {
        if *waiting > 0 {
            successors.of(index).iter().for_each(|next| waits_for[*next as usize] = index);
        }
    }
    // Goes backwards from any waiting event: after as many steps as there are events, it is on a cycle.
    let mut at = awaited.iter().position(|waiting| *waiting > 0).unwrap_or(0) as u32;
    for _ in 0..nodes.len() {
        at = waits_for[at as usize];
    }
    let start = at;
    while nodes[at as usize].event.kind != EventKind::Receive {
        at = waits_for[at as usize];
        if at == start {
            break;
        }
    }
    let node = &nodes[at as usize];
    MergeError::Cycle {
        domain: DomainName(recording.domains[node.domain as usize].head.identity.domain),
        lane: node.lane,
        position: node.position as usize,
        event: node.event.kind.name(),
    }
}

fn timeline(nodes: &[Node], edges: &Edges, placed: &[(u64, u64)], clocks: Vec<ClockOffset>) -> Timeline {
    let mut order: Vec<u32> = (0..nodes.len() as u32).collect();
    // A dependent event is not earlier and its logical clock is larger, so this order respects causes.
    order.sort_unstable_by_key(|index| (placed[*index as usize], *index));
    let mut place_of = alloc::vec![0_u32; nodes.len()];
    for (place, index) in (0..).zip(&order) {
        place_of[*index as usize] = place;
    }
    let start_ns = order.first().map_or(0, |first| placed[*first as usize].0);
    let mut timeline = Timeline {
        clocks,
        receives_without_send: edges.receives_without_send,
        events: Vec::with_capacity(nodes.len()),
        ..Timeline::default()
    };
    for index in order {
        let (node, (time_ns, logical)) = (&nodes[index as usize], placed[index as usize]);
        let moved_ns = time_ns - node.time_ns;
        timeline.moved += u64::from(moved_ns > 0);
        timeline.max_moved_ns = timeline.max_moved_ns.max(moved_ns);
        timeline.events.push(TimelineEvent {
            domain: node.domain,
            lane: node.lane,
            event: node.event,
            time_ns: time_ns - start_ns,
            logical,
            cause: None,
        });
    }
    for (send, receive) in &edges.messages {
        timeline.events[place_of[*receive as usize] as usize].cause = Some(place_of[*send as usize]);
    }
    timeline
}
