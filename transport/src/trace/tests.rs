//! Tests of recorders and of the output of a traced channel.

use std::collections::HashSet;
use std::sync::Barrier;

use tombolo_base::SharedMemory;
use tombolo_link::{ChannelConfig, Hello};
use tombolo_platform::Deadline;
use tombolo_platform::socket;
use tombolo_trace::layout::{Shape, control_on};
use tombolo_trace::page::{RowState, init_page, set_control};
use tombolo_trace::snapshot::{self, Head, RowInfo};

use super::*;
use crate::contract::{Transport, TransportExt};
use crate::wrap::traced::{Traced, TracedEnd};
use crate::{EndError, MemoryChannel, shm, wait};

const SHAPE: Shape = Shape { lanes: 3, lane_events: 1 << 14, rows: 3, text_bytes: 64 };
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

struct Traces {
    memory: SharedMemory,
    recorder: Arc<Recorder>,
}

impl Traces {
    fn new() -> Traces {
        let memory = SharedMemory::zeroed(SHAPE.length_bytes());
        init_page(&memory, &SHAPE);
        let recorder = Recorder::new(memory.clone(), 1 << 32 | 1, 1).unwrap();
        Traces { memory, recorder }
    }

    fn start(&self) {
        set_control(&self.memory, control_on(1, false));
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; SHAPE.length_bytes()];
        self.memory.copy_out(0, &mut bytes).unwrap();
        bytes
    }

    fn head(&self) -> Head {
        Head::from_bytes(&self.bytes()).unwrap()
    }

    /// Returns the events of a lane.
    fn lane(&self, lane: usize) -> Vec<Event> {
        let (bytes, head) = (self.bytes(), self.head());
        let readable = head.readable(lane, 0);
        let (offset, count) = head.contiguous(lane, readable.first, readable.count, usize::MAX);
        assert_eq!((count as u64, readable.missed), (readable.count, 0));
        let (events, invalid_events) = snapshot::events(&bytes[offset..offset + count * 32]);
        assert_eq!(invalid_events, 0);
        events
    }

    /// Returns the events of a lane without clock readings: kind, size, subject, value.
    fn brief(&self, lane: usize) -> Vec<(EventKind, u32, u64, u64)> {
        let events = self.lane(lane).into_iter().filter(|event| event.kind != EventKind::Clock);
        events.map(|event| (event.kind, event.size, event.subject, event.value)).collect()
    }

    fn rows(&self) -> Vec<RowInfo> {
        let (bytes, head) = (self.bytes(), self.head());
        snapshot::rows(&bytes[SHAPE.rows_offset()..][..head.rows_used * 128])
    }
}

fn pair() -> (MemoryChannel, MemoryChannel) {
    let (near, far) = socket::pair(socket::SocketKind::Stream).unwrap();
    let hello = Hello::new(ChannelConfig::default(), 0, None);
    let deadline = Deadline::after(PATIENCE);
    let connecting = std::thread::spawn(move || shm::connect(near, hello, deadline).unwrap());
    let accepted = shm::accept(far, hello, deadline).unwrap();
    (connecting.join().unwrap(), accepted)
}

const NEAR: TracedEnd = TracedEnd { channel: 7, accepting: false, peer: 99 };
const FAR: TracedEnd = TracedEnd { channel: 7, accepting: true, peer: 98 };

#[test]
fn threads_acquire_and_release_lanes() {
    let traces = Traces::new();
    traces.start();
    let together = Barrier::new(5);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (recorder, together) = (traces.recorder.clone(), &together);
            scope.spawn(move || {
                for count in 0..100 {
                    recorder.record(NewEvent::of(EventKind::Marker, thread, count));
                }
                together.wait();
            });
        }
        together.wait();
    });
    let mut threads = HashSet::new();
    for lane in 0..3 {
        let values: Vec<u64> = traces.brief(lane).iter().map(|(.., value)| *value).collect();
        assert_eq!(values, (0..100).collect::<Vec<u64>>());
        threads.extend(traces.lane(lane).iter().map(|event| event.thread));
    }
    assert_eq!(threads.len(), 3);
    assert_eq!(traces.head().losses.events_without_lane, 100, "there are three lanes");
    let recorder = traces.recorder.clone();
    std::thread::spawn(move || recorder.record(NewEvent::of(EventKind::Marker, 5, 5))).join().unwrap();
    assert_eq!(traces.head().losses.events_without_lane, 100, "one was given back");
}

#[test]
fn timestamps_ascend_and_clocks_are_recorded() {
    let traces = Traces::new();
    traces.start();
    for count in 0..10_000 {
        traces.recorder.record(NewEvent::of(EventKind::Marker, 1, count));
    }
    let events = traces.lane(0);
    let clocks: Vec<&Event> = events.iter().filter(|event| event.kind == EventKind::Clock).collect();
    assert!((3..20).contains(&clocks.len()), "{} notes", clocks.len());
    assert!(clocks.is_sorted_by_key(|clock| (clock.ticks, clock.subject)));
    let markers: Vec<u64> =
        events.iter().filter(|event| event.kind == EventKind::Marker).map(|event| event.ticks).collect();
    assert!(markers.is_sorted());
    let identity = traces.head().identity;
    assert_eq!((identity.domain, identity.pid), (1 << 32 | 1, std::process::id()));
    assert!(identity.monotonic_ns > 0 && identity.clock != 0);
}

#[test]
fn channel_traffic_is_traced() {
    let traces = Traces::new();
    let (near, far) = pair();
    let mut near = Traced::new(near, &traces.recorder, NEAR);
    let mut far = Traced::new(far, &traces.recorder, FAR);
    near.try_send(b"before").unwrap();
    traces.start();
    near.try_send(b"first").unwrap();
    near.try_send_in_place(8, |draft| draft.write_u64_le(0, 5).unwrap()).unwrap();
    near.try_send_batch(|batch| {
        batch.push(b"a").unwrap();
        batch.push(b"bc").unwrap();
    })
    .unwrap();
    let mut buffer = Vec::new();
    far.try_recv_into(&mut buffer).unwrap();
    far.try_recv_into(&mut buffer).unwrap();
    far.try_recv_in_place(|message| assert_eq!(message.read_u64_le(0), Ok(5))).unwrap().unwrap();
    assert_eq!(far.try_recv_batch(9, |_| {}).unwrap(), 2);
    near.close();
    assert_eq!(far.try_recv_into(&mut buffer), Err(EndError::Closed));
    assert_eq!(far.try_recv_into(&mut buffer), Err(EndError::Closed));
    drop((near, far));
    use EventKind::{Close, Gone, Receive, Send};
    assert_eq!(
        traces.brief(0),
        [
            (Send, 5, 7, 2),
            (Send, 8, 7, 3),
            (Send, 1, 7, 4),
            (Send, 2, 7, 5),
            (Receive, 6, 7, 1),
            (Receive, 5, 7, 2),
            (Receive, 8, 7, 3),
            (Receive, 1, 7, 4),
            (Receive, 2, 7, 5),
            (Close, 0, 7, 0),
            (Gone, 0, 7, GONE_CLOSED),
            (Close, 0, 7, 0),
        ]
    );
    let ends: Vec<bool> = traces.lane(0).iter().map(|event| event.accepting).collect();
    assert!(ends.contains(&true) && ends.contains(&false));
}

use tombolo_trace::event::GONE_CLOSED;

#[test]
fn counters_work_without_tracing() {
    let traces = Traces::new();
    let (near, far) = pair();
    let mut near = Traced::new(near, &traces.recorder, NEAR);
    let mut far = Traced::new(far, &traces.recorder, FAR);
    near.try_send(b"hello").unwrap();
    near.try_send_batch(|batch| batch.push(b"again").unwrap()).unwrap();
    let mut buffer = Vec::new();
    far.try_recv_into(&mut buffer).unwrap();
    let rows = traces.rows();
    let [one, other] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((one.channel, one.peer, one.accepting, one.state), (7, 99, false, RowState::Open));
    assert_eq!((one.messages_sent, one.bytes_sent, one.max_message_bytes), (2, 10, 3584));
    assert_eq!((other.accepting, other.messages_received, other.bytes_received), (true, 1, 5));
    assert!(
        wait::prepare_to_sleep(&mut far, tombolo_platform::event::Interest::Write) || far.stats().sleeps == 0
    );
    far.finish_sleep(true);
    drop(near);
    while far.try_recv_into(&mut buffer).is_ok() {}
    let states: Vec<RowState> = traces.rows().iter().map(|row| row.state).collect();
    assert_eq!(states, [RowState::Closed, RowState::PeerClosed]);
}

#[test]
fn a_sleep_and_its_wake_up_are_traced() {
    let traces = Traces::new();
    traces.start();
    let (near, far) = pair();
    let mut near = Traced::new(near, &traces.recorder, NEAR);
    let mut far = Traced::new(far, &traces.recorder, FAR);
    assert!(wait::prepare_to_sleep(&mut far, tombolo_platform::event::Interest::Read));
    near.try_send(b"wake up").unwrap();
    far.finish_sleep(true);
    use EventKind::{Open, Ring, Send, Sleep, Wake};
    let kinds: Vec<EventKind> = traces.brief(0).iter().map(|(kind, ..)| *kind).collect();
    assert_eq!(kinds, [Open, Open, Sleep, Send, Ring, Wake]);
    let rows = traces.rows();
    assert_eq!((rows[0].rings, rows[1].sleeps), (1, 1));
}

#[test]
fn room_is_published_periodically_without_waits() {
    let traces = Traces::new();
    let (near, far) = pair();
    let mut near = Traced::new(near, &traces.recorder, NEAR);
    let mut far = Traced::new(far, &traces.recorder, FAR);
    let mut buffer = Vec::new();
    near.try_send(b"behind").unwrap();
    let used = |traces: &Traces| traces.rows()[0].slots - traces.rows()[0].free_slots;
    assert_eq!(used(&traces), 0, "nothing was told since it was opened");
    for _ in 0..4 * 1024 {
        near.try_send(b"ping").unwrap();
        far.try_recv_into(&mut buffer).unwrap().unwrap();
        far.try_send(b"pong").unwrap();
        near.try_recv_into(&mut buffer).unwrap().unwrap();
    }
    // One that is always in the ring, and the ping that was just sent.
    assert_eq!(used(&traces), 2);
    assert_eq!((traces.rows()[0].rings, traces.rows()[0].stalls), (0, 0));
}

#[test]
fn message_without_room_is_counted_once() {
    let traces = Traces::new();
    let (near, far) = pair();
    let mut near = Traced::new(near, &traces.recorder, NEAR);
    let mut far = Traced::new(far, &traces.recorder, FAR);
    let room = |traces: &Traces| {
        let row = traces.rows()[0];
        (row.stalls, row.free_slots)
    };
    let slots = traces.rows()[0].slots;
    assert_eq!(slots, ChannelConfig::default().slots);
    assert_eq!(room(&traces), (0, slots));
    let fill = |near: &mut Traced<MemoryChannel>| while near.try_send(b"x").is_ok() {};
    fill(&mut near);
    assert_eq!(room(&traces), (1, 0));
    // A message that is tried again or slept for still counts as one.
    near.try_send_in_place(1, |_| {}).unwrap_err();
    assert!(wait::prepare_to_sleep(&mut near, tombolo_platform::event::Interest::Write));
    near.finish_sleep(true);
    assert_eq!(room(&traces).0, 1);
    let mut buffer = Vec::new();
    while far.try_recv_into(&mut buffer).unwrap().is_some() {}
    fill(&mut near);
    assert_eq!(room(&traces).0, 2);
    // While tracing is on as well.
    while far.try_recv_into(&mut buffer).unwrap().is_some() {}
    traces.start();
    fill(&mut near);
    assert_eq!(room(&traces).0, 3);
    // A batch that ran out of room shows when its sender goes to sleep.
    set_control(&traces.memory, 0);
    while far.try_recv_into(&mut buffer).unwrap().is_some() {}
    near.try_send_batch(|batch| while batch.push(b"x").is_ok() {}).unwrap();
    assert!(wait::prepare_to_sleep(&mut near, tombolo_platform::event::Interest::Write));
    near.finish_sleep(true);
    assert_eq!(room(&traces).0, 4);
}

#[test]
fn rows_and_names_without_room_are_counted() {
    let traces = Traces::new();
    let channels: Vec<_> = (0..2)
        .flat_map(|_| {
            let (near, far) = pair();
            [Traced::new(near, &traces.recorder, NEAR), Traced::new(far, &traces.recorder, FAR)]
        })
        .collect();
    assert_eq!(traces.head().losses.channels_without_row, 1);
    assert_eq!(traces.rows().len(), 3);
    drop(channels);
    let (near, _far) = pair();
    let near = Traced::new(near, &traces.recorder, TracedEnd { channel: 8, ..NEAR });
    assert_eq!(traces.rows().iter().filter(|row| row.channel == 8).count(), 1, "a row was given back");
    drop(near);
    let first = traces.recorder.intern_name("a name");
    assert_eq!(traces.recorder.intern_name("a name"), first);
    assert_ne!(first, 0);
    assert_eq!(traces.recorder.intern_name(&"long".repeat(20)), 0);
    assert_eq!(traces.recorder.intern_name(&"long".repeat(20)), 0);
    assert_eq!(traces.head().losses.texts, 1, "tried once");
}

#[test]
fn without_a_page_nothing_is_traced_and_everything_works() {
    let recorder = Recorder::disabled();
    assert!(!recorder.is_on());
    let (near, far) = pair();
    let (mut near, mut far) = (Traced::new(near, &recorder, NEAR), Traced::new(far, &recorder, FAR));
    near.try_send(b"hello").unwrap();
    let mut buffer = Vec::new();
    assert_eq!(far.try_recv_into(&mut buffer), Ok(Some(5)));
}
