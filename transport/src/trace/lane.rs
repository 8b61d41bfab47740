//! Lane of the current thread.

use std::cell::RefCell;
use std::sync::Arc;

use tombolo_trace::event::{Event, EventKind};
use tombolo_trace::page::LaneWriter;

use super::Recorder;

/// Events between two readings of the monotonic clock; far fewer than fit into a lane.
const EVENTS_PER_ANCHOR: u64 = 4096;

/// Maximum number of ticks between two such readings: some hundredths of a second on a fast counter, a few
/// seconds on a slow one, whose rate is known more precisely.
const TICKS_PER_ANCHOR: u64 = 1 << 27;

/// Lane held by this thread.
struct HeldLane {
    recorder: Arc<Recorder>,
    lane: usize,
    thread: u16,
    writer: LaneWriter,
    /// Control word when the clock was last recorded.
    control: u64,
    anchored_at: u64,
    anchored_ticks: u64,
}

impl Drop for HeldLane {
    fn drop(&mut self) {
        self.recorder.release_lane(self.lane);
    }
}

thread_local! {
    static HELD_LANE: RefCell<Option<HeldLane>> = const { RefCell::new(None) };
}

/// Writes an event of this thread.
pub(super) fn write(recorder: &Arc<Recorder>, event: Event) {
    // A thread that is ending no longer has a lane.
    let _ = HELD_LANE.try_with(|held| {
        let Ok(mut held) = held.try_borrow_mut() else { return };
        if held.as_ref().is_none_or(|held| !Arc::ptr_eq(&held.recorder, recorder)) {
            *held = None;
            *held = acquire(recorder);
        }
        match held.as_mut() {
            Some(held) => held.write(event),
            None => recorder.page.count_event_without_lane(),
        }
    });
}

#[cold]
fn acquire(recorder: &Arc<Recorder>) -> Option<HeldLane> {
    let (lane, thread) = recorder.acquire_lane()?;
    let writer = recorder.page.lane(lane)?;
    writer.set_thread(thread);
    let recorder = Arc::clone(recorder);
    Some(HeldLane { recorder, lane, thread, writer, control: 0, anchored_at: 0, anchored_ticks: 0 })
}

impl HeldLane {
    #[inline]
    fn write(&mut self, event: Event) {
        let due = self.writer.control() != self.control
            || self.writer.written().wrapping_sub(self.anchored_at) >= EVENTS_PER_ANCHOR
            || event.ticks.wrapping_sub(self.anchored_ticks) >= TICKS_PER_ANCHOR;
        if due {
            self.record_clock();
        }
        self.writer.write(&Event { thread: self.thread, ..event });
    }

    /// Records a reading of both clocks, so that the clocks of different processes can be compared later.
    #[cold]
    fn record_clock(&mut self) {
        let (ticks, ns) = self.recorder.clock.anchor();
        self.control = self.writer.control();
        self.anchored_at = self.writer.written();
        self.anchored_ticks = ticks;
        let thread = self.thread;
        let clock_event =
            Event { ticks, kind: EventKind::Clock, accepting: false, thread, size: 0, subject: ns, value: 0 };
        self.writer.write(&clock_event);
    }
}
